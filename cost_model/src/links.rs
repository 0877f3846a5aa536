//! Devices that are wired in pairs, without a switch: which rings a group of them can form.
//!
//! A library looks for rings through a group that share no link (NCCL does), and a ring's bandwidth is one link's. So a group gets as
//! many times a link as there are disjoint Hamiltonian cycles, each used in both directions; without a cycle, one chain; without that, the
//! host. Invariant: the table is complete for every stride and size of equally spaced groups, the worst of equal groups taken.

use serde::Serialize;

/// Links of every device to every other, and what groups make of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pairs {
    links: Vec<Vec<u32>>,
    #[serde(skip)]
    table: Vec<Vec<Wiring>>,
}

/// How a group of paired devices passes data round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Wiring {
    /// Not joined by links: through the host.
    Apart,
    /// One chain, up and down.
    Chain,
    /// So many rings at once, one direction of a link each.
    Rings(u32),
}

/// More devices than a node without a switch has ever had; the search is over permutations.
const MOST_DEVICES: usize = 16;
/// Cycles to look at before what was found is taken as the answer: a full search of 8 devices needs far fewer.
const MOST_CYCLES: usize = 4096;

impl Pairs {
    /// Reads a symmetric matrix of link counts, one row a device.
    ///
    /// # Errors
    /// What is wrong with the matrix.
    pub fn new(links: Vec<Vec<u32>>) -> Result<Pairs, String> {
        let n = links.len();
        if !(2..=MOST_DEVICES).contains(&n) {
            return Err(format!("{n} rows of links; 2 to {MOST_DEVICES} are possible"));
        }
        if let Some(row) = links.iter().find(|r| r.len() != n) {
            return Err(format!("a row of {} links among {n} devices", row.len()));
        }
        for i in 0..n {
            for j in 0..n {
                if links[i][j] != links[j][i] || (i == j && links[i][j] != 0) {
                    return Err(format!("{} links from device {i} to {j} and {} back", links[i][j], links[j][i]));
                }
            }
        }
        if links.iter().flatten().all(|&l| l == 0) {
            return Err("no device is linked to another".into());
        }
        let worst = |stride: usize, size: usize| {
            // Where equal groups divide the node, any of them may be meant; otherwise the one that starts at device 0.
            let divides = n.is_multiple_of(stride * size);
            let starts = (0..n - stride * (size - 1)).filter(|s| *s == 0 || (divides && (s / stride).is_multiple_of(size)));
            starts.map(|s| wiring(&links, &(0..size).map(|i| s + i * stride).collect::<Vec<_>>())).min().unwrap_or(Wiring::Apart)
        };
        let table = (1..n).map(|stride| (2..=n).filter(|size| stride * (size - 1) < n).map(|size| worst(stride, size)).collect()).collect();
        Ok(Pairs { links, table })
    }

    /// The matrix.
    pub fn links(&self) -> &[Vec<u32>] {
        &self.links
    }

    /// The links of the device that has the most.
    pub fn most_links(&self) -> u32 {
        self.links.iter().map(|r| r.iter().sum()).max().unwrap_or(1)
    }

    /// What a group of `size` devices at this stride gets.
    pub fn wiring(&self, size: u32, stride: u32) -> Wiring {
        let (size, stride) = (size.max(2) as usize, stride.max(1) as usize);
        self.table.get(stride - 1).and_then(|sizes| sizes.get(size - 2)).copied().unwrap_or(Wiring::Apart)
    }
}

/// What the devices `ids` get, all links between them counted.
pub(crate) fn wiring(links: &[Vec<u32>], ids: &[usize]) -> Wiring {
    if let [a, b] = ids {
        return if links[*a][*b] > 0 { Wiring::Rings(links[*a][*b]) } else { Wiring::Apart };
    }
    let mut within: Vec<Vec<u32>> = ids.iter().map(|&i| ids.iter().map(|&j| links[i][j]).collect()).collect();
    let mut cycles = Vec::new();
    paths(&within, &mut vec![0], &mut |path| {
        let closed = within[*path.last().expect("invariant: a path is not empty")][0] > 0;
        // Each cycle once, not once a direction.
        if closed && path[1] < path[path.len() - 1] {
            cycles.push(path.to_vec());
        }
        cycles.len() < MOST_CYCLES
    });
    match packed(&mut within, &cycles) {
        0 => {
            let chained = (0..ids.len()).any(|first| {
                let mut found = false;
                paths(&within, &mut vec![first], &mut |_| {
                    found = true;
                    false
                });
                found
            });
            if chained { Wiring::Chain } else { Wiring::Apart }
        }
        n => Wiring::Rings(2 * n),
    }
}

/// Calls `found` with every path through all devices that continues `path`, until it says no.
fn paths(links: &[Vec<u32>], path: &mut Vec<usize>, found: &mut impl FnMut(&[usize]) -> bool) -> bool {
    if path.len() == links.len() {
        return found(path);
    }
    let last = path[path.len() - 1];
    for next in 0..links.len() {
        if links[last][next] > 0 && !path.contains(&next) {
            path.push(next);
            let more = paths(links, path, found);
            path.pop();
            if !more {
                return false;
            }
        }
    }
    true
}

/// The most of `cycles`, repeats allowed, that fit into the links together.
fn packed(links: &mut [Vec<u32>], cycles: &[Vec<usize>]) -> u32 {
    // No more than half the links of the device with the fewest.
    let bound = links.iter().map(|r| r.iter().sum::<u32>() / 2).min().unwrap_or(0);
    let mut best = 0;
    for (i, cycle) in cycles.iter().enumerate() {
        let edges = || (0..cycle.len()).map(|p| (cycle[p], cycle[(p + 1) % cycle.len()]));
        if edges().all(|(a, b)| links[a][b] > 0) {
            edges().for_each(|(a, b)| {
                links[a][b] -= 1;
                links[b][a] -= 1;
            });
            best = best.max(1 + packed(links, &cycles[i..]));
            edges().for_each(|(a, b)| {
                links[a][b] += 1;
                links[b][a] += 1;
            });
        }
        if best >= bound {
            break;
        }
    }
    best
}

/// The hybrid cube mesh of eight V100s: two quads, six links a device.
pub(crate) fn hybrid_cube_mesh() -> Pairs {
    let quad = [[0, 1, 1, 2], [1, 0, 2, 1], [1, 2, 0, 2], [2, 1, 2, 0]];
    // Between the quads each device has one peer; what its quad leaves of its six links goes there.
    let links = (0..8usize)
        .map(|i| {
            (0..8usize)
                .map(|j| match (i / 4 == j / 4, i % 4 == j % 4) {
                    (true, _) => quad[i % 4][j % 4],
                    (false, true) => 6 - quad[i % 4].iter().sum::<u32>(),
                    (false, false) => 0,
                })
                .collect()
        })
        .collect();
    Pairs::new(links).expect("invariant: the cube mesh is a symmetric matrix")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cube_mesh_has_the_rings_that_are_measured() {
        // Bus bandwidth over that of one link, from published all-reduces of 2, 3, 5, 6, 7 and 8 V100s: 1, 2, a chain, 2, 4, 6.
        let mesh = hybrid_cube_mesh();
        let of = |n: usize| wiring(mesh.links(), &(0..n).collect::<Vec<_>>());
        let rings = [2, 3, 4, 5, 6, 7, 8].map(of);
        let expected = [Wiring::Rings(1), Wiring::Rings(2), Wiring::Rings(4), Wiring::Chain, Wiring::Rings(2), Wiring::Rings(4), Wiring::Rings(6)];
        assert_eq!(rings, expected);
        assert_eq!(mesh.most_links(), 6);
        assert_eq!(mesh.wiring(2, 4), Wiring::Rings(1));
        assert_eq!(wiring(mesh.links(), &[0, 5]), Wiring::Apart);
    }

    #[test]
    fn wrong_matrices_are_refused() {
        assert!(Pairs::new(vec![vec![0, 1], vec![2, 0]]).is_err());
        assert!(Pairs::new(vec![vec![0, 1]]).is_err());
        assert!(Pairs::new(vec![vec![0, 0], vec![0, 0]]).is_err());
        assert!(Pairs::new(vec![vec![1, 1], vec![1, 0]]).is_err());
    }
}
