//! Bytes that a launch moves between global memory and the multiprocessors, counted from the accesses' index maps without going over their elements.
//!
//! Memory moves in sectors of 32 bytes. What a launch touches of a buffer is a union of boxes seen through affine maps. Dimensions along which a map leaves
//! no gap make *runs* of bytes; dimensions along which everything is repeated a whole number of sectors further multiply; what is left are runs, whose
//! sectors are joined. A sector counts once a launch, as the emulator's `distinct` does (and the tests compare them), and once more for every further walk
//! over what is folded that loads it again. Buffers begin on a sector. A computed index stands for as many different places as there are points at which
//! it is computed, or as its bound allows.

use super::emit::{Part, Plan};
use crate::error::Error;
use ir::kernel::{Affine, Kernel, NodeId, NodeKind};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a sector.
pub const SECTOR: u64 = 32;

/// Bytes that a launch moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// In sectors that are loaded.
    pub read: u64,
    /// In sectors that are loaded again by later walks.
    pub again: u64,
    /// In sectors that are stored to.
    pub written: u64,
}

impl Traffic {
    /// All of them.
    pub fn moved(&self) -> u64 {
        self.read + self.again + self.written
    }
}

/// What each launch of `kernel` moves.
///
/// # Errors
/// Those of kernels that have no code.
pub fn cuda_traffic(symbol: &str, kernel: &Kernel) -> Result<Vec<Traffic>, Error> {
    let plan = Plan::new(symbol, kernel)?;
    Ok(plan.parts().iter().map(|part| traffic(&plan, part)).collect())
}

/// A box of bytes: a run of `bytes` from `offset` on, repeated along dimensions of so many bytes and so many steps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Runs {
    offset: i64,
    bytes: i64,
    /// By ascending stride; strides are longer than what they repeat.
    dims: Vec<(i64, u64)>,
}

impl Runs {
    fn new(mut offset: i64, element: i64, strides: impl Iterator<Item = (i64, u64)>) -> Runs {
        let mut dims: Vec<(i64, u64)> = strides.filter(|&(s, n)| s != 0 && n > 1).collect();
        for (stride, extent) in &mut dims {
            if *stride < 0 {
                offset += *stride * (*extent as i64 - 1);
                *stride = -*stride;
            }
        }
        dims.sort_unstable();
        let mut bytes = element;
        let mut apart = Vec::new();
        for (stride, extent) in dims {
            if apart.is_empty() && stride <= bytes {
                bytes += stride * (extent as i64 - 1);
            } else {
                apart.push((stride, extent));
            }
        }
        Runs { offset, bytes, dims: apart }
    }
    /// The first sector, and the one past the last.
    fn sectors(&self) -> (i64, i64) {
        let reach: i64 = self.dims.iter().map(|&(s, n)| s * (n as i64 - 1)).sum();
        sectors(self.offset, self.bytes + reach)
    }
    /// Adds the sectors of each run.
    fn each(&self, into: &mut Vec<(i64, i64)>) {
        let mut at = vec![self.offset];
        for &(stride, extent) in self.dims.iter().rev() {
            at = at.into_iter().flat_map(|o| (0..extent as i64).map(move |i| o + i * stride)).collect();
        }
        into.extend(at.into_iter().map(|o| sectors(o, self.bytes)));
    }
}

fn sectors(offset: i64, bytes: i64) -> (i64, i64) {
    let sector = SECTOR as i64;
    (offset.div_euclid(sector), (offset + bytes + sector - 1).div_euclid(sector))
}

/// The sectors of a union.
fn union(mut parts: Vec<Runs>) -> u64 {
    parts.sort_unstable_by(|a, b| (a.offset, a.bytes, &a.dims).cmp(&(b.offset, b.bytes, &b.dims)));
    parts.dedup();
    let mut times = 1;
    // All parts may be repeated together, if the repetitions share no sector.
    while let Some(&(stride, extent)) = parts.first().and_then(|p| p.dims.last()) {
        let together = stride % SECTOR as i64 == 0 && parts.iter().all(|p| p.dims.last() == Some(&(stride, extent)));
        if !together {
            break;
        }
        let mut inner = parts.clone();
        inner.iter_mut().for_each(|p| p.dims.truncate(p.dims.len() - 1));
        let (first, last) = inner.iter().map(Runs::sectors).fold((i64::MAX, i64::MIN), |(a, b), (x, y)| (a.min(x), b.max(y)));
        if last - first > stride / SECTOR as i64 {
            break;
        }
        times *= extent;
        parts = inner;
    }
    let mut runs = Vec::new();
    parts.iter().for_each(|p| p.each(&mut runs));
    runs.sort_unstable();
    let mut end = i64::MIN;
    let mut count = 0;
    for (first, last) in runs {
        count += (last - first.max(end)).max(0) as u64;
        end = end.max(last);
    }
    times * count
}

fn traffic(plan: &Plan<'_>, part: &Part) -> Traffic {
    let mut read: BTreeMap<u32, Vec<(NodeId, Runs)>> = BTreeMap::new();
    let mut written: BTreeMap<u32, Vec<Runs>> = BTreeMap::new();
    let (kernel, nest) = (plan.kernel, &plan.nest);
    let box_of = |param: u32, index: &Affine, strides: &[i64], computed: Option<(i64, u64)>| {
        let element = kernel.params[param as usize].dtype.bytes() as i64;
        let dims = strides.iter().zip(&nest.dims).map(|(&s, d)| (s * element, d.extent));
        Runs::new(index.offset * element, element, dims.chain(computed.map(|(s, n)| (s * element, n))))
    };
    let needs = plan.needs(part);
    for &id in &needs.loads {
        let (param, runs) = match &kernel.nodes[id].kind {
            NodeKind::Load { param, index } => (*param, box_of(*param, index, &nest.loads[id], None)),
            NodeKind::Gather { param, index, at, stride, limit } => {
                let points: u64 = nest.dims.iter().enumerate().filter(|(d, _)| nest.varies[*at] & (1 << d) != 0).map(|(_, d)| d.extent).product();
                (*param, box_of(*param, index, &nest.loads[id], Some((*stride, points.min(limit + 1)))))
            }
            _ => unreachable!("invariant: only loads and gathers read"),
        };
        read.entry(param).or_default().push((id, runs));
    }
    for s in plan.stores(part) {
        let store = &kernel.stores[s];
        written.entry(store.param).or_default().push(box_of(store.param, &store.index, &nest.stores[s], None));
    }
    let mut sum = Traffic::default();
    let passes = &plan.order.passes[part.passes.clone()];
    for loads in read.into_values() {
        let of = |chosen: &dyn Fn(NodeId) -> bool| union(loads.iter().filter(|(id, _)| chosen(*id)).map(|(_, runs)| runs.clone()).collect()) * SECTOR;
        sum.read += of(&|_| true);
        let walks: u64 = passes.iter().map(|p| of(&|id| p.nodes.contains(&id))).sum();
        sum.again += walks - of(&|id| passes.iter().any(|p| p.nodes.contains(&id)));
    }
    sum.written += written.into_values().map(|runs| union(runs) * SECTOR).sum::<u64>();
    if plan.mapping.splits > 1 {
        let scratch = |id: NodeId| {
            let elem = crate::elementwise::computed_in(kernel.nodes[id].dtype).map_or(4, |e| u64::from(e.bytes()));
            (plan.mapping.splits * plan.mapping.points * u64::from(plan.point_lanes(id).max(1)) * elem).next_multiple_of(SECTOR)
        };
        let here: BTreeSet<NodeId> = plan.order.passes[part.passes.clone()].iter().flat_map(|p| p.reduces.iter().copied()).collect();
        sum.written += here.iter().map(|&id| scratch(id)).sum::<u64>();
        sum.read += needs.reduces.difference(&here).map(|&id| scratch(id)).sum::<u64>();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sectors of boxes, byte by byte.
    fn plainly(parts: &[(i64, i64, Vec<(i64, u64)>)]) -> u64 {
        let mut all = BTreeSet::new();
        for (offset, element, dims) in parts {
            let mut at = vec![*offset];
            for &(stride, extent) in dims {
                at = at.into_iter().flat_map(|o| (0..extent as i64).map(move |i| o + i * stride)).collect();
            }
            all.extend(at.iter().flat_map(|o| *o..o + element).map(|byte| byte.div_euclid(SECTOR as i64)));
        }
        all.len() as u64
    }

    #[test]
    fn sectors_of_unions_are_those_of_their_bytes() {
        let cases: Vec<Vec<(i64, i64, Vec<(i64, u64)>)>> = vec![
            vec![(0, 4, vec![(4, 100)])],
            vec![(12, 4, vec![(4, 5), (404, 7)])],
            vec![(0, 2, vec![(200, 3), (2, 100)]), (200, 2, vec![(200, 3), (2, 100)])],
            vec![(0, 4, vec![(256, 9), (4, 16)]), (64, 4, vec![(256, 9), (4, 16)])],
            vec![(0, 4, vec![(64, 9), (4, 20)])],
            vec![(400, 4, vec![(-4, 100)])],
            vec![(0, 4, vec![(4096, 3), (36, 11), (8, 2)]), (4, 4, vec![(4096, 3)])],
            vec![(4, 8, vec![(1028, 40), (8, 3)])],
            vec![(0, 4, vec![])],
        ];
        for case in cases {
            let runs = case.iter().map(|(o, e, d)| Runs::new(*o, *e, d.iter().copied())).collect();
            assert_eq!(union(runs), plainly(&case), "{case:?}");
        }
    }
}
