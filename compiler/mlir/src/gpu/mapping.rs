//! How a kernel's points are laid over threads.
//!
//! A thread has a *group* of neighbouring elements of the vectorised dimension at once, as many as 16 bytes hold where the accesses along it are contiguous
//! and aligned. A block is `point_threads · fold_threads` threads: the former have different parallel points (a *point* is a group where the vectorised
//! dimension is parallel), the latter share a point and divide what is folded. Neighbouring threads are neighbours along the vectorised dimension, so that
//! their accesses are one transaction: they are neighbouring points where it is parallel (elementwise, sums over rows) and neighbours in what is folded
//! where it is reduced (sums along rows). Few threads fold a short row, so that it needs no shared memory; where there are too few points to fill a device,
//! what is folded is also cut into *splits*, one block each, whose parts a later launch combines.
//!
//! **Invariant:** both thread counts are powers of two, and a block has at most 1,024 threads.

use crate::nest::Nest;
use ir::SecondaryMap;
use ir::kernel::{Affine, Kernel, NodeId, NodeKind};

/// Threads of an ordinary block.
const BLOCK: u64 = 256;
/// Blocks that keep every multiprocessor of a large device busy.
const FILL: u64 = 264;
/// Rounds that are written out one after the other, and may keep values in registers.
const UNROLLED: u64 = 16;

/// A kernel's points over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Elements of a group; 1: there are no vectors.
    pub(crate) lanes: u32,
    /// Whether neighbouring threads are neighbouring points.
    pub(crate) across: bool,
    /// Points.
    pub(crate) points: u64,
    /// Groups that are folded into a point.
    pub(crate) folded: u64,
    /// Points of a block.
    pub(crate) point_threads: u64,
    /// Threads that fold one point in a block.
    pub(crate) fold_threads: u64,
    /// Blocks that fold one point.
    pub(crate) splits: u64,
    /// Groups that a thread folds.
    pub(crate) rounds: u64,
    /// Whether the rounds are written out.
    pub(crate) unrolled: bool,
    /// Whether indices need 64 bits.
    pub(crate) wide: bool,
}

impl Mapping {
    /// The mapping of `kernel`, of which the `live` nodes are computed.
    pub(crate) fn new(kernel: &Kernel, nest: &Nest, live: &SecondaryMap<NodeId, bool>) -> Mapping {
        let lanes = lanes(kernel, nest, live);
        let across = nest.vector.is_none_or(|v| !nest.dims[v].reduced);
        let groups = |dims: &[usize]| dims.iter().map(|&d| extent(nest, lanes, d)).product::<u64>();
        let (points, folded) = (groups(&nest.parallel), groups(&nest.reduced));
        let passes = passes(kernel, live);
        let (point_threads, fold_threads) = if folded == 1 {
            (points.next_power_of_two().clamp(32, BLOCK), 1)
        } else if across {
            columns(points, folded)
        } else {
            rows(points, folded, u64::from(lanes) * repeated(kernel, nest, live, passes))
        };
        let (mut splits, mut rounds) = (1, folded.div_ceil(fold_threads));
        let blocks = points.div_ceil(point_threads);
        let enough = if passes > 1 { 64 } else { 8 };
        if blocks < FILL / 2 && rounds > enough {
            splits = FILL.div_ceil(blocks).min(rounds / 4);
            rounds = folded.div_ceil(fold_threads * splits);
            splits = folded.div_ceil(fold_threads * rounds);
        }
        let unrolled = rounds <= if splits == 1 && passes > 1 { UNROLLED } else { 4 };
        Mapping { lanes, across, points, folded, point_threads, fold_threads, splits, rounds, unrolled, wide: wide(kernel, nest, points.max(folded)) }
    }

    /// Threads of a block.
    pub(crate) fn threads(&self) -> u64 {
        self.point_threads * self.fold_threads
    }
    /// Blocks along the points.
    pub(crate) fn blocks(&self) -> u64 {
        self.points.div_ceil(self.point_threads)
    }
    /// 32-bit registers of a thread in which values may be kept from pass to pass.
    pub(crate) fn registers(&self) -> u64 {
        if self.unrolled && self.splits == 1 { registers(self.threads()) } else { 0 }
    }
}

/// Groups along a dimension.
pub(crate) fn extent(nest: &Nest, lanes: u32, dim: usize) -> u64 {
    if nest.vector == Some(dim) { nest.dims[dim].extent / u64::from(lanes) } else { nest.dims[dim].extent }
}

/// Whether `lanes` elements along the vectorised dimension lie side by side from a multiple of `lanes` on, wherever they are in the other dimensions.
pub(crate) fn aligned(nest: &Nest, index: &Affine, strides: &[i64], lanes: u32) -> bool {
    let by = i64::from(lanes);
    let Some(v) = nest.vector else { return false };
    strides[v] == 1
        && index.offset % by == 0
        && index.scalars.iter().all(|(_, k)| k % by == 0)
        && strides.iter().enumerate().all(|(d, s)| d == v || s % by == 0)
}

fn registers(threads: u64) -> u64 {
    match threads {
        0..=256 => 96,
        257..=512 => 48,
        _ => 24,
    }
}

fn lanes(kernel: &Kernel, nest: &Nest, live: &SecondaryMap<NodeId, bool>) -> u32 {
    let Some(v) = nest.vector else { return 1 };
    let loads = kernel.nodes.iter().filter(|(id, _)| live[*id]).filter_map(|(id, node)| match &node.kind {
        NodeKind::Load { param, index } => Some((*param, index, &nest.loads[id])),
        NodeKind::Gather { param, index, at, .. } if nest.varies[*at] & (1 << v) == 0 => Some((*param, index, &nest.loads[id])),
        _ => None,
    });
    let stores = kernel.stores.iter().zip(&nest.stores).map(|(s, strides)| (s.param, &s.index, strides));
    let contiguous: Vec<_> = loads.chain(stores).filter(|(_, _, strides)| strides[v] == 1).collect();
    let widest = contiguous.iter().map(|(p, _, _)| kernel.params[*p as usize].dtype.bytes()).max().unwrap_or(16);
    let mut lanes = (16 / widest.max(1)).clamp(1, 8) as u32;
    let fits =
        |lanes: u32| nest.dims[v].extent.is_multiple_of(u64::from(lanes)) && contiguous.iter().all(|(_, index, strides)| aligned(nest, index, strides, lanes));
    while lanes > 1 && !fits(lanes) {
        lanes /= 2;
    }
    lanes
}

/// Walks over what is folded: more than one where a reduction, or a store of every element, waits for another reduction.
fn passes(kernel: &Kernel, live: &SecondaryMap<NodeId, bool>) -> usize {
    let mut depth: SecondaryMap<NodeId, usize> = SecondaryMap::new();
    let mut most = 0;
    for (id, node) in kernel.nodes.iter().filter(|(id, _)| live[*id]) {
        let operands = kernel.operands(id).iter().map(|&o| depth[o]).max().unwrap_or(0);
        let reduces = matches!(node.kind, NodeKind::Reduce(..));
        depth[id] = operands + usize::from(reduces);
        if reduces || operands > 0 {
            most = most.max(operands + 1);
        }
    }
    most.max(1)
}

/// Values per element that a later pass may need again.
fn repeated(kernel: &Kernel, nest: &Nest, live: &SecondaryMap<NodeId, bool>, passes: usize) -> u64 {
    if passes == 1 {
        return 1;
    }
    let along = |id: NodeId| live[id] && nest.varies[id] & nest.reduced_mask != 0;
    let loads = kernel.nodes.iter().filter(|(id, n)| along(*id) && matches!(n.kind, NodeKind::Load { .. } | NodeKind::Gather { .. })).count();
    loads.max(1) as u64
}

/// Point and fold threads for sums over rows.
fn columns(points: u64, folded: u64) -> (u64, u64) {
    let mut fold = 1;
    while points.div_ceil(BLOCK / fold) < FILL && fold < 32 && folded.div_ceil(fold) > 4 {
        fold *= 2;
    }
    let point = (BLOCK / fold).min(points.next_power_of_two());
    (point, (BLOCK / point).min(32).min(folded.next_power_of_two()))
}

/// Point and fold threads for sums along rows; a group of a row is so many values that may be kept.
fn rows(points: u64, folded: u64, values: u64) -> (u64, u64) {
    let mut fold = folded.next_power_of_two().min(32);
    loop {
        let rounds = folded.div_ceil(fold);
        if rounds <= 8 || (rounds <= UNROLLED && rounds * values <= registers(fold) && points >= FILL * BLOCK / fold) || fold == 1024 {
            break;
        }
        fold *= 2;
    }
    while fold > 256 && folded.div_ceil(fold) * values > registers(fold) {
        fold /= 2;
    }
    let mut point = (BLOCK / fold).max(1).min(points.next_power_of_two());
    while point > 1 && points.div_ceil(point) < FILL && point * fold > 64 {
        point /= 2;
    }
    (point, fold)
}

fn wide(kernel: &Kernel, nest: &Nest, count: u64) -> bool {
    const LIMIT: u128 = i32::MAX as u128 - (1 << 12);
    let reach = |strides: &[i64]| -> u128 { strides.iter().zip(&nest.dims).map(|(&s, d)| u128::from(s.unsigned_abs()) * u128::from(d.extent)).sum() };
    let gathered = |id: NodeId| match &kernel.nodes[id].kind {
        NodeKind::Gather { stride, limit, .. } => u128::from(stride.unsigned_abs()) * u128::from(*limit),
        _ => 0,
    };
    let loads = kernel.nodes.keys().map(|id| reach(&nest.loads[id]) + gathered(id));
    u128::from(count) > LIMIT || loads.chain(nest.stores.iter().map(|s| reach(s))).any(|r| r > LIMIT)
}
