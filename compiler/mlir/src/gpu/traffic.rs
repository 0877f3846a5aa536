//! Bytes that a launch moves between the multiprocessors and global memory, counted from the accesses' index maps.
//!
//! Memory moves in sectors of 32 bytes. A sector counts once for every block that loads it, however often the block does, as if each block had a cache
//! that is empty at first and large enough; the same for stores. Buffers begin on a sector. A computed index stands for as many different elements as the
//! points at which it is computed. Of many blocks a few are counted, evenly spaced, and stand for all.

use super::emit::{Part, Plan};
use super::mapping;
use crate::error::Error;
use crate::nest::Nest;
use ir::kernel::{Kernel, NodeId, NodeKind};
use std::collections::BTreeMap;

/// Bytes of a sector.
pub const SECTOR: u64 = 32;
/// Blocks that are counted.
const SAMPLES: u64 = 24;

/// Bytes that a launch moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From global memory.
    pub read: u64,
    /// To global memory.
    pub written: u64,
}

/// What each launch of `kernel` moves.
///
/// # Errors
/// Those of kernels that have no code.
pub fn cuda_traffic(symbol: &str, kernel: &Kernel) -> Result<Vec<Traffic>, Error> {
    let plan = Plan::new(symbol, kernel)?;
    Ok(plan.parts().iter().map(|part| Counter { plan: &plan, part }.traffic()).collect())
}

/// An access that a launch makes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    Load(NodeId),
    Store(usize),
}

struct Counter<'k> {
    plan: &'k Plan<'k>,
    part: &'k Part,
}

impl Counter<'_> {
    fn traffic(&self) -> Traffic {
        let m = &self.plan.mapping;
        let splits = if self.part.passes.is_empty() { 1 } else { m.splits };
        let blocks = m.blocks() * splits;
        let samples = blocks.min(SAMPLES);
        let accesses = self.accesses();
        let mut sum = Traffic::default();
        for sample in 0..samples {
            let block = sample * blocks / samples;
            let one = self.block(block % m.blocks(), block / m.blocks(), &accesses);
            sum.read += one.read;
            sum.written += one.written;
        }
        let all = |bytes: u64| (u128::from(bytes) * u128::from(blocks) / u128::from(samples)) as u64;
        Traffic { read: all(sum.read), written: all(sum.written) }
    }

    /// The loads and stores of the launch.
    fn accesses(&self) -> Vec<Access> {
        let (kernel, order) = (self.plan.kernel, &self.plan.order);
        let passes = &order.passes[self.part.passes.clone()];
        let stores = (0..kernel.stores.len()).filter(|&s| order.in_pass[s].map_or(self.part.last, |p| self.part.passes.contains(&p)));
        let mut accesses: Vec<Access> = stores.clone().map(Access::Store).collect();
        let mut needed: Vec<NodeId> = stores.map(|s| kernel.stores[s].value).filter(|&v| !self.varies_folded(v)).collect();
        for pass in passes {
            needed.extend(pass.nodes.iter().copied());
            needed.extend(pass.nodes.iter().chain(&pass.reduces).flat_map(|&n| kernel.operands(n)).filter(|&n| !self.varies_folded(n)));
        }
        let mut seen: BTreeMap<NodeId, ()> = BTreeMap::new();
        while let Some(id) = needed.pop() {
            if seen.insert(id, ()).is_some() {
                continue;
            }
            match kernel.nodes[id].kind {
                NodeKind::Load { .. } | NodeKind::Gather { .. } => accesses.push(Access::Load(id)),
                NodeKind::Reduce(..) => continue,
                _ => {}
            }
            if !self.varies_folded(id) {
                needed.extend(kernel.operands(id));
            }
        }
        accesses.sort_unstable();
        accesses
    }

    fn varies_folded(&self, id: NodeId) -> bool {
        self.plan.nest.varies[id] & self.plan.nest.reduced_mask != 0
    }

    fn block(&self, block: u64, split: u64, accesses: &[Access]) -> Traffic {
        let (plan, m) = (self.plan, &self.plan.mapping);
        let points = block * m.point_threads..((block + 1) * m.point_threads).min(m.points);
        let chunk = m.fold_threads * m.rounds;
        let groups = split * chunk..((split + 1) * chunk).min(m.folded);
        let mut sectors: BTreeMap<(bool, u32), Vec<u64>> = BTreeMap::new();
        for &access in accesses {
            let (written, param) = match access {
                Access::Load(id) => match plan.kernel.nodes[id].kind {
                    NodeKind::Load { param, .. } | NodeKind::Gather { param, .. } => (false, param),
                    _ => unreachable!("invariant: only loads and gathers read"),
                },
                Access::Store(s) => (true, plan.kernel.stores[s].param),
            };
            self.touch(access, points.clone(), groups.clone(), sectors.entry((written, param)).or_default());
        }
        let mut sum = Traffic::default();
        for ((written, _), mut list) in sectors {
            list.sort_unstable();
            list.dedup();
            *(if written { &mut sum.written } else { &mut sum.read }) += list.len() as u64 * SECTOR;
        }
        self.scratch(points.end - points.start, &mut sum);
        sum
    }

    /// Parts of reductions in scratch: what this block leaves, and what it combines of the earlier launches.
    fn scratch(&self, points: u64, sum: &mut Traffic) {
        let (plan, m) = (self.plan, &self.plan.mapping);
        if m.splits == 1 {
            return;
        }
        let bytes = |id: NodeId| {
            let elem = crate::elementwise::computed_in(plan.kernel.nodes[id].dtype).map_or(4, |e| u64::from(e.bytes()));
            (points * u64::from(plan.point_lanes(id).max(1)) * elem).next_multiple_of(SECTOR)
        };
        for (number, pass) in plan.order.passes.iter().enumerate() {
            let all: u64 = pass.reduces.iter().map(|&id| bytes(id)).sum();
            if self.part.passes.contains(&number) {
                sum.written += all;
            } else if number < self.part.passes.start {
                sum.read += all * m.splits;
            }
        }
    }

    /// Adds the sectors of one access at these points and groups.
    fn touch(&self, access: Access, points: std::ops::Range<u64>, groups: std::ops::Range<u64>, sectors: &mut Vec<u64>) {
        let (plan, nest) = (self.plan, &self.plan.nest);
        let (index, strides, param, varies, computed) = match access {
            Access::Load(id) => match &plan.kernel.nodes[id].kind {
                NodeKind::Load { param, index } => (index, &nest.loads[id], *param, nest.varies[id], None),
                NodeKind::Gather { param, index, at, stride, limit } => (index, &nest.loads[id], *param, nest.varies[id], Some((*at, *stride, *limit))),
                _ => unreachable!("invariant: only loads and gathers read"),
            },
            Access::Store(s) => {
                let store = &plan.kernel.stores[s];
                (&store.index, &nest.stores[s], store.param, Nest::mask(&nest.stores[s]), None)
            }
        };
        let bytes = plan.kernel.params[param as usize].dtype.bytes() as i64;
        let lanes = if nest.vector.is_some_and(|v| varies & (1 << v) != 0) { i64::from(plan.mapping.lanes) } else { 1 };
        let along = nest.vector.map_or(0, |v| strides[v]);
        let is_store = matches!(access, Access::Store(_));
        let groups = if varies & nest.reduced_mask == 0 { groups.start..groups.start + 1 } else { groups };
        let mut at = vec![0u64; nest.dims.len()];
        for point in points {
            self.spread(&nest.parallel, point, &mut at);
            let elsewhere = |d: usize| {
                let width = if nest.vector == Some(d) { u64::from(plan.mapping.lanes) } else { 1 };
                is_store && strides[d] == 0 && at[d] + width < nest.dims[d].extent
            };
            if nest.parallel.iter().any(|&d| elsewhere(d)) {
                continue;
            }
            for group in groups.clone() {
                self.spread(&nest.reduced, group, &mut at);
                let mut first = index.offset + strides.iter().zip(&at).map(|(s, &i)| s * i as i64).sum::<i64>();
                if let Some((node, stride, limit)) = computed {
                    let number = at.iter().enumerate().filter(|(d, _)| nest.varies[node] & (1 << d) != 0).fold(0u64, |n, (d, &i)| n * nest.dims[d].extent + i);
                    first += stride * (number % (limit + 1)) as i64;
                }
                for lane in 0..lanes {
                    let byte = (first + lane * along) * bytes;
                    let sector = byte.div_euclid(SECTOR as i64) as u64;
                    if sectors.last() != Some(&sector) {
                        sectors.push(sector);
                    }
                }
            }
        }
    }

    /// The indices along `dims` at number `at` of their groups.
    fn spread(&self, dims: &[usize], at: u64, indices: &mut [u64]) {
        let mut rest = at;
        for &dim in dims.iter().rev() {
            let groups = mapping::extent(&self.plan.nest, self.plan.mapping.lanes, dim);
            let lanes = if self.plan.nest.vector == Some(dim) { u64::from(self.plan.mapping.lanes) } else { 1 };
            indices[dim] = rest % groups * lanes;
            rest /= groups;
        }
    }
}
