//! Maximum-weight matching of inputs and outputs, and whether it is the only one.
//!
//! The graphs are small: a parameter with its moments is a component of its own. Each component is solved by the Hungarian method on a dense matrix.

use std::collections::BTreeMap;

/// An edge that may be matched, with a positive weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) input: u32,
    pub(super) output: u32,
    pub(super) weight: i64,
}

/// A matching of greatest weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Matching {
    /// The matched pairs, ascending.
    pub(super) pairs: Vec<(u32, u32)>,
    /// Pairs that another matching of the same weight does without.
    pub(super) doubtful: Vec<(u32, u32)>,
}

/// Components larger than this are not examined for other matchings.
const MAX_EXAMINED: usize = 48;

/// A matching of greatest weight over all components.
pub(super) fn solve(edges: &[Edge]) -> Matching {
    let mut matching = Matching::default();
    for component in components(edges) {
        let (best, pairs) = solve_component(&component, None);
        if component.len() <= MAX_EXAMINED * MAX_EXAMINED {
            for &pair in &pairs {
                if solve_component(&component, Some(pair)).0 == best {
                    matching.doubtful.push(pair);
                }
            }
        }
        matching.pairs.extend(pairs);
    }
    matching.pairs.sort_unstable();
    matching.doubtful.sort_unstable();
    matching
}

/// The edges by connected component, in the order of their first edge.
fn components(edges: &[Edge]) -> Vec<Vec<Edge>> {
    let mut parent: Vec<usize> = (0..edges.len()).collect();
    fn root(parent: &mut [usize], mut i: usize) -> usize {
        while parent[i] != i {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        i
    }
    let (mut by_input, mut by_output) = (BTreeMap::new(), BTreeMap::new());
    for (i, e) in edges.iter().enumerate() {
        for other in [*by_input.entry(e.input).or_insert(i), *by_output.entry(e.output).or_insert(i)] {
            let (a, b) = (root(&mut parent, i), root(&mut parent, other));
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut grouped: BTreeMap<usize, Vec<Edge>> = BTreeMap::new();
    for (i, e) in edges.iter().enumerate() {
        grouped.entry(root(&mut parent, i)).or_default().push(*e);
    }
    grouped.into_values().collect()
}

/// Greatest weight and its pairs, without the edge `forbidden`.
fn solve_component(edges: &[Edge], forbidden: Option<(u32, u32)>) -> (i64, Vec<(u32, u32)>) {
    let mut inputs: Vec<u32> = edges.iter().map(|e| e.input).collect();
    let mut outputs: Vec<u32> = edges.iter().map(|e| e.output).collect();
    for list in [&mut inputs, &mut outputs] {
        list.sort_unstable();
        list.dedup();
    }
    let n = inputs.len().max(outputs.len());
    let mut weight = vec![vec![0i64; n]; n];
    for e in edges.iter().filter(|e| forbidden != Some((e.input, e.output))) {
        let place = (inputs.binary_search(&e.input), outputs.binary_search(&e.output));
        if let (Ok(i), Ok(o)) = place {
            weight[i][o] = weight[i][o].max(e.weight);
        }
    }
    let assignment = hungarian(&weight);
    let mut pairs = Vec::new();
    let mut total = 0;
    for (i, &o) in assignment.iter().enumerate() {
        if weight[i][o] > 0 {
            total += weight[i][o];
            pairs.push((inputs[i], outputs[o]));
        }
    }
    (total, pairs)
}

/// The column assigned to each row of a square matrix so that the sum is greatest.
fn hungarian(weight: &[Vec<i64>]) -> Vec<usize> {
    let n = weight.len();
    // Rows and columns count from 1; column 0 is the row being inserted.
    let (mut u, mut v, mut row_of, mut way) = (vec![0i64; n + 1], vec![0i64; n + 1], vec![0usize; n + 1], vec![0usize; n + 1]);
    for row in 1..=n {
        row_of[0] = row;
        let mut column = 0;
        let mut slack = vec![i64::MAX; n + 1];
        let mut done = vec![false; n + 1];
        while row_of[column] != 0 {
            done[column] = true;
            let current = row_of[column];
            let (mut delta, mut next) = (i64::MAX, 0);
            for j in 1..=n {
                if done[j] {
                    continue;
                }
                let reduced = -weight[current - 1][j - 1] - u[current] - v[j];
                if reduced < slack[j] {
                    slack[j] = reduced;
                    way[j] = column;
                }
                if slack[j] < delta {
                    delta = slack[j];
                    next = j;
                }
            }
            for j in 0..=n {
                if done[j] {
                    u[row_of[j]] += delta;
                    v[j] -= delta;
                } else {
                    slack[j] -= delta;
                }
            }
            column = next;
        }
        while column != 0 {
            row_of[column] = row_of[way[column]];
            column = way[column];
        }
    }
    let mut assignment = vec![0; n];
    for column in 1..=n {
        assignment[row_of[column] - 1] = column - 1;
    }
    assignment
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(input: u32, output: u32, weight: i64) -> Edge {
        Edge { input, output, weight }
    }

    #[test]
    fn a_parameter_and_its_moments_have_one_matching() {
        let edges = [edge(0, 0, 5), edge(1, 0, 5), edge(2, 0, 5), edge(1, 1, 5), edge(2, 2, 5)];
        assert_eq!(solve(&edges), Matching { pairs: vec![(0, 0), (1, 1), (2, 2)], doubtful: vec![] });
    }

    #[test]
    fn a_symmetric_pair_is_doubtful() {
        let edges = [edge(0, 0, 5), edge(0, 1, 5), edge(1, 0, 5), edge(1, 1, 5)];
        assert_eq!(solve(&edges).doubtful.len(), 2);
    }

    #[test]
    fn matchings_agree_with_trying_all() {
        // Weights from a small linear congruence; all assignments of 4 inputs to 4 outputs are tried.
        let mut seed = 7u64;
        for _ in 0..50 {
            let mut edges = Vec::new();
            for i in 0..4 {
                for o in 0..4 {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    if seed >> 62 != 0 {
                        edges.push(edge(i, o, (seed >> 50) as i64 % 9 + 1));
                    }
                }
            }
            let weight = |i: u32, o: u32| edges.iter().find(|e| (e.input, e.output) == (i, o)).map_or(0, |e| e.weight);
            let mut best = 0;
            for code in 0..256u32 {
                let picks: Vec<u32> = (0..4).map(|k| code >> (2 * k) & 3).collect();
                if (0..4).all(|a| (0..a).all(|b| picks[a] != picks[b])) {
                    best = best.max(picks.iter().enumerate().map(|(i, &o)| weight(i as u32, o)).sum());
                }
            }
            let found: i64 = solve(&edges).pairs.iter().map(|&(i, o)| weight(i, o)).sum();
            assert_eq!(found, best);
        }
    }
}
