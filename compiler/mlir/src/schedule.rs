//! What is computed where in a nest: passes over the reduced dimensions, values kept between passes, vector width.
//!
//! The *depth* of a node is the number of reductions that must be complete before it. Pass `d` walks the reduced dimensions once, folds every reduction
//! whose operand has depth `d` and makes the stores that are due; what varies over no reduced dimension is computed between passes, at the shallowest
//! parallel loop where its operands are there. A value that a later pass needs again is computed again when that is cheap or when it does not fit the
//! row buffer, and kept in the row buffer otherwise.
//!
//! **Invariant:** a store that may write the buffer of an input is made no earlier than the last pass that loads that input.

use crate::nest::Nest;
use ir::dtype::DType;
use ir::kernel::{Kernel, NodeId, NodeKind};
use ir::op::{BinaryOp, UnaryOp};
use ir::{EntityId, SecondaryMap};

/// Bytes of stack that a kernel keeps values in between passes.
const ROW_BUFFER_BYTES: u64 = 64 << 10;
/// Bytes of accumulators of a sum over rows, which are walked in pieces of as many columns.
const COLUMN_BUFFER_BYTES: u64 = 32 << 10;
/// Recomputing what costs less than this is cheaper than keeping it.
const KEEP_COST: u32 = 8;
/// Bytes of a vector register that widths are counted in, on every target, so that sums have the same lanes everywhere.
const REGISTER_BYTES: u32 = 32;

/// One walk over the reduced dimensions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    /// Parallel loops around it.
    pub(crate) level: usize,
    /// Reductions folded in it.
    pub(crate) reduces: Vec<NodeId>,
    /// Stores made in it, by number.
    pub(crate) stores: Vec<usize>,
    /// Nodes computed in it, operands first.
    pub(crate) nodes: Vec<NodeId>,
    /// Nodes read back from the row buffer.
    pub(crate) restored: Vec<NodeId>,
    /// Nodes among `nodes` that later passes read back.
    pub(crate) kept: Vec<NodeId>,
}

/// How the vectorised dimension is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lanes {
    /// Lanes of the main loop, which covers `main` elements.
    pub(crate) width: u32,
    /// Elements in whole vectors.
    pub(crate) main: u64,
    /// Elements after them.
    pub(crate) tail: u32,
    /// Lanes of the tail's vector.
    pub(crate) tail_width: u32,
}

/// The order of a kernel's computation.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) passes: Vec<Pass>,
    /// Reductions that must be complete before a node.
    pub(crate) depth: SecondaryMap<NodeId, usize>,
    /// Parallel loops around a node that varies over no reduced dimension.
    pub(crate) level: SecondaryMap<NodeId, usize>,
    /// Whether any store needs the node.
    pub(crate) live: SecondaryMap<NodeId, bool>,
    /// Stores outside of passes, by number, with their level.
    pub(crate) row_stores: Vec<(usize, usize)>,
    pub(crate) lanes: Lanes,
    /// Elements of the vectorised dimension that are folded together, row by row, with accumulators in memory.
    pub(crate) columns: Option<u64>,
}

impl Schedule {
    pub(crate) fn new(kernel: &Kernel, nest: &Nest) -> Schedule {
        let live = live(kernel);
        let lanes = choose_lanes(kernel, nest, &live);
        let kept_bytes = |id: NodeId| {
            let elem = crate::elementwise::computed_in(kernel.nodes[id].dtype).filter(|e| e.bits() >= 8)?;
            let elements: u64 = buffer_shape(nest, lanes, id).iter().map(|(_, n)| *n).fold(1, u64::saturating_mul);
            Some(elements.saturating_mul(u64::from(elem.bytes())).next_multiple_of(64))
        };
        let room = Room { bytes: ROW_BUFFER_BYTES, bytes_of: &kept_bytes, load_cost: 0 };
        let Order { depth, passes, in_pass } = order(kernel, nest, &live, &room);
        let mut schedule = Schedule { passes, depth, level: SecondaryMap::new(), live, row_stores: vec![], lanes, columns: None };
        schedule.place(kernel, nest);
        for (s, store) in kernel.stores.iter().enumerate().filter(|(s, _)| in_pass[*s].is_none()) {
            let level = parallel_level(nest, Nest::mask(&nest.stores[s])).max(schedule.level[store.value]);
            schedule.row_stores.push((s, level));
        }
        schedule.columns = schedule.choose_columns(kernel, nest);
        schedule
    }

    /// Sums over rows walk each row in long pieces instead of a vector's width at a time, which memory does not like. Only for kernels of one pass, and
    /// where everything varies along the row.
    fn choose_columns(&self, kernel: &Kernel, nest: &Nest) -> Option<u64> {
        let v = nest.vector.filter(|&v| !nest.dims[v].reduced && nest.parallel.last() == Some(&v))?;
        let [pass] = self.passes.as_slice() else { return None };
        let along = |mask: u32| mask & (1 << v) != 0;
        let stores_along = kernel.stores.iter().zip(&nest.stores).all(|(s, strides)| along(Nest::mask(strides) | nest.varies[s.value]));
        let folds_along = pass.reduces.iter().all(|&r| kernel.operands(r).iter().all(|&o| along(nest.varies[o])));
        let rows: u64 = nest.reduced.iter().map(|&d| nest.dims[d].extent).product();
        if pass.reduces.is_empty() || pass.level != nest.parallel.len() || !stores_along || !folds_along || rows < 8 {
            return None;
        }
        let bytes: u64 = pass.reduces.iter().filter_map(|&r| crate::elementwise::computed_in(kernel.nodes[r].dtype)).map(|e| u64::from(e.bytes())).sum();
        let most = COLUMN_BUFFER_BYTES / bytes.max(1);
        let (extent, width) = (nest.dims[v].extent, u64::from(self.lanes.width));
        if extent <= width || pass.reduces.iter().any(|&r| kernel.nodes[r].dtype == DType::I1) {
            return None;
        }
        if extent <= most {
            return Some(extent);
        }
        let vectors = extent / width;
        let pieces = (1..=vectors).find(|&p| vectors.is_multiple_of(p) && extent / p <= most)?;
        (extent.is_multiple_of(width) && vectors / pieces >= 4).then_some(extent / pieces)
    }

    fn place(&mut self, kernel: &Kernel, nest: &Nest) {
        let deepest = kernel.nodes.keys().map(|n| self.depth[n]).max().unwrap_or(0);
        for depth in 0..=deepest.max(self.passes.len().saturating_sub(1)) {
            for (id, node) in kernel.nodes.iter() {
                let here = self.live[id] && self.depth[id] == depth && nest.varies[id] & nest.reduced_mask == 0 && !matches!(node.kind, NodeKind::Reduce(..));
                if here {
                    let operands = kernel.operands(id).iter().map(|&o| self.level[o]).max().unwrap_or(0);
                    self.level[id] = operands.max(parallel_level(nest, nest.varies[id]));
                }
            }
            let Some(pass) = self.passes.get(depth) else { continue };
            let mut level = 0;
            for &id in pass.nodes.iter().chain(&pass.restored) {
                level = level.max(parallel_level(nest, nest.varies[id]));
                level = kernel.operands(id).iter().filter(|&&o| nest.varies[o] & nest.reduced_mask == 0).fold(level, |l, &o| l.max(self.level[o]));
            }
            for &id in &pass.restored {
                let writer = self.passes[..depth].iter().find(|p| p.kept.contains(&id)).expect("invariant: what is restored was kept");
                level = level.max(writer.level);
            }
            let roots = pass.reduces.iter().flat_map(|&r| kernel.operands(r)).chain(pass.stores.iter().map(|&s| kernel.stores[s].value));
            for root in roots {
                level = level.max(parallel_level(nest, nest.varies[root]));
                if nest.varies[root] & nest.reduced_mask == 0 {
                    level = level.max(self.level[root]);
                }
            }
            for &s in &pass.stores {
                level = level.max(parallel_level(nest, Nest::mask(&nest.stores[s])));
            }
            for r in pass.reduces.clone() {
                self.level[r] = level;
            }
            self.passes[depth].level = level;
        }
    }
}

/// Memory for values that passes keep for later ones.
pub(crate) struct Room<'a> {
    /// Bytes there are.
    pub(crate) bytes: u64,
    /// Bytes that a node's values take; none for what cannot be kept.
    pub(crate) bytes_of: &'a dyn Fn(NodeId) -> Option<u64>,
    /// What loading costs more than [`cost`] says.
    pub(crate) load_cost: u32,
}

/// A kernel's passes.
pub(crate) struct Order {
    /// Reductions that must be complete before a node.
    pub(crate) depth: SecondaryMap<NodeId, usize>,
    pub(crate) passes: Vec<Pass>,
    /// The pass in which each store is made; none for what is made once a parallel point.
    pub(crate) in_pass: Vec<Option<usize>>,
}

/// Decides what each pass computes, keeps and stores; the passes' levels are left zero.
pub(crate) fn order(kernel: &Kernel, nest: &Nest, live: &SecondaryMap<NodeId, bool>, room: &Room<'_>) -> Order {
    let depth = depth(kernel);
    let mut in_pass: Vec<Option<usize>> = Vec::new();
    for (store, strides) in kernel.stores.iter().zip(&nest.stores) {
        let varies = (Nest::mask(strides) | nest.varies[store.value]) & nest.reduced_mask;
        in_pass.push((varies != 0).then_some(depth[store.value]));
    }
    loop {
        let passes = plan_passes(kernel, nest, live, &depth, &in_pass, room);
        let late: Vec<(usize, usize)> = (0..kernel.stores.len())
            .filter_map(|s| in_pass[s].zip(last_load_of_target(kernel, s, &passes)).filter(|(at, last)| last > at).map(|(_, last)| (s, last)))
            .collect();
        if late.is_empty() {
            return Order { depth, passes, in_pass };
        }
        for (s, last) in late {
            in_pass[s] = Some(last);
        }
    }
}

/// The number of parallel loops around what varies over `mask`.
pub(crate) fn parallel_level(nest: &Nest, mask: u32) -> usize {
    nest.parallel.iter().rposition(|&d| mask & (1 << d) != 0).map_or(0, |p| p + 1)
}

/// The number of reduced loops around what varies over `mask`.
pub(crate) fn reduced_level(nest: &Nest, mask: u32) -> usize {
    nest.reduced.iter().rposition(|&d| mask & (1 << d) != 0).map_or(0, |p| p + 1)
}

/// Elements of the row buffer that a kept node takes: one per point of the reduced dimensions it varies over, whole vectors along the vectorised one.
pub(crate) fn buffer_shape(nest: &Nest, lanes: Lanes, id: NodeId) -> Vec<(usize, u64)> {
    let mut shape = Vec::new();
    for &d in nest.reduced.iter().filter(|&&d| nest.varies[id] & (1 << d) != 0) {
        let padded = if nest.vector == Some(d) { lanes.main + u64::from(lanes.tail_width) } else { nest.dims[d].extent };
        shape.push((d, padded));
    }
    if let Some(v) = nest.vector
        && !nest.dims[v].reduced
        && nest.varies[id] & (1 << v) != 0
    {
        shape.push((v, u64::from(lanes.width.max(lanes.tail_width))));
    }
    shape
}

/// Which nodes some store needs.
pub(crate) fn live(kernel: &Kernel) -> SecondaryMap<NodeId, bool> {
    let mut live = SecondaryMap::new();
    for store in &kernel.stores {
        live[store.value] = true;
    }
    for id in kernel.nodes.keys().rev() {
        if live[id] {
            for operand in kernel.operands(id) {
                live[operand] = true;
            }
        }
    }
    live
}

fn depth(kernel: &Kernel) -> SecondaryMap<NodeId, usize> {
    let mut depth = SecondaryMap::new();
    for (id, node) in kernel.nodes.iter() {
        let operands = kernel.operands(id).iter().map(|&o| depth[o]).max().unwrap_or(0);
        depth[id] = operands + usize::from(matches!(node.kind, NodeKind::Reduce(..)));
    }
    depth
}

/// Whether node `id` loads what store `s` may overwrite.
pub(crate) fn loads_target(kernel: &Kernel, s: usize, id: NodeId) -> bool {
    let store = &kernel.stores[s];
    match &kernel.nodes[id].kind {
        NodeKind::Load { param, index } => {
            *param == store.param
                || (*index == store.index && kernel.params[*param as usize].dtype.bytes() == kernel.params[store.param as usize].dtype.bytes())
        }
        NodeKind::Gather { param, .. } => *param == store.param,
        _ => false,
    }
}

/// The last pass that loads what store `s` may overwrite.
fn last_load_of_target(kernel: &Kernel, s: usize, passes: &[Pass]) -> Option<usize> {
    passes.iter().rposition(|p| p.nodes.iter().any(|&n| loads_target(kernel, s, n)))
}

fn plan_passes(
    kernel: &Kernel,
    nest: &Nest,
    live: &SecondaryMap<NodeId, bool>,
    depth: &SecondaryMap<NodeId, usize>,
    in_pass: &[Option<usize>],
    room: &Room<'_>,
) -> Vec<Pass> {
    let reduces = || kernel.nodes.iter().filter(|(id, n)| live[*id] && matches!(n.kind, NodeKind::Reduce(..))).map(|(id, _)| (id, depth[id] - 1));
    let count = reduces().map(|(_, p)| p + 1).chain(in_pass.iter().flatten().map(|p| p + 1)).max().unwrap_or(0);
    let mut planner =
        Planner { kernel, nest, room, passes: vec![Pass::default(); count], first: SecondaryMap::new(), buffered: SecondaryMap::new(), free: room.bytes };
    for p in 0..count {
        planner.passes[p].reduces = reduces().filter(|(_, at)| *at == p).map(|(id, _)| id).collect();
        planner.passes[p].stores = (0..in_pass.len()).filter(|&s| in_pass[s] == Some(p)).collect();
        let roots = planner.passes[p].reduces.iter().flat_map(|&r| kernel.operands(r)).chain(planner.passes[p].stores.iter().map(|&s| kernel.stores[s].value));
        let mut visited = SecondaryMap::new();
        for root in roots.collect::<Vec<_>>() {
            planner.need(root, p, &mut visited);
        }
        let pass = &mut planner.passes[p];
        pass.nodes.sort_by_key(|n| n.index());
        pass.restored.sort_by_key(|n| n.index());
        for &id in &pass.nodes {
            planner.first[id].get_or_insert(p);
        }
    }
    planner.passes
}

struct Planner<'k> {
    kernel: &'k Kernel,
    nest: &'k Nest,
    room: &'k Room<'k>,
    passes: Vec<Pass>,
    /// The pass that computes a node first.
    first: SecondaryMap<NodeId, Option<usize>>,
    buffered: SecondaryMap<NodeId, bool>,
    free: u64,
}

impl Planner<'_> {
    /// Adds what pass `p` must compute or restore to have `id`.
    fn need(&mut self, id: NodeId, p: usize, visited: &mut SecondaryMap<NodeId, bool>) {
        if self.nest.varies[id] & self.nest.reduced_mask == 0 || std::mem::replace(&mut visited[id], true) {
            return;
        }
        if self.buffered[id] || self.try_keep(id) {
            self.passes[p].restored.push(id);
            return;
        }
        for operand in self.kernel.operands(id) {
            self.need(operand, p, visited);
        }
        self.passes[p].nodes.push(id);
    }
    fn try_keep(&mut self, id: NodeId) -> bool {
        let Some(writer) = self.first[id] else { return false };
        let Some(bytes) = (self.room.bytes_of)(id) else { return false };
        let mut seen = SecondaryMap::new();
        if self.cone_cost(id, &mut seen) < KEEP_COST {
            return false;
        }
        if bytes > self.free {
            return false;
        }
        self.free -= bytes;
        self.buffered[id] = true;
        self.passes[writer].kept.push(id);
        true
    }
    fn cone_cost(&self, id: NodeId, seen: &mut SecondaryMap<NodeId, bool>) -> u32 {
        if self.nest.varies[id] & self.nest.reduced_mask == 0 || self.buffered[id] || std::mem::replace(&mut seen[id], true) {
            return 0;
        }
        let operands: u32 = self.kernel.operands(id).iter().map(|&o| self.cone_cost(o, seen)).sum();
        let load = matches!(self.kernel.nodes[id].kind, NodeKind::Load { .. } | NodeKind::Gather { .. });
        operands + cost(self.kernel, self.nest, id) + if load { self.room.load_cost } else { 0 }
    }
}

/// The cost of one evaluation, in additions.
pub(crate) fn cost(kernel: &Kernel, nest: &Nest, id: NodeId) -> u32 {
    let node = &kernel.nodes[id];
    let arithmetic = match &node.kind {
        NodeKind::Constant(_) | NodeKind::Scalar(_) | NodeKind::Bitcast(_) | NodeKind::Reduce(..) => 0,
        NodeKind::Index(_) | NodeKind::Compare { .. } | NodeKind::Select(..) => 1,
        NodeKind::Load { .. } => match nest.vector.map(|v| nest.loads[id][v]) {
            Some(0 | 1) | None => 1,
            Some(_) => 6,
        },
        NodeKind::Gather { .. } => 8,
        NodeKind::Convert(_) => 2,
        NodeKind::Unary(op, _) => match op {
            UnaryOp::Abs | UnaryOp::Negate | UnaryOp::Not | UnaryOp::Square | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::IsFinite => 1,
            UnaryOp::Real | UnaryOp::Imag | UnaryOp::RoundNearestEven | UnaryOp::RoundNearestAfz | UnaryOp::Sign => 2,
            UnaryOp::CountLeadingZeros | UnaryOp::PopulationCount => 6,
            UnaryOp::Sqrt => 6,
            UnaryOp::Rsqrt => 12,
            UnaryOp::Exponential | UnaryOp::Log => 20,
            UnaryOp::Sine | UnaryOp::Cosine | UnaryOp::Tan | UnaryOp::Lgamma | UnaryOp::Digamma => 100,
            _ => 30,
        },
        NodeKind::Binary(op, ..) => match op {
            BinaryOp::Divide => 6,
            BinaryOp::Remainder => 20,
            BinaryOp::Power => 80,
            BinaryOp::Atan2 => 40,
            BinaryOp::Maximum | BinaryOp::Minimum => 2,
            _ => 1,
        },
    };
    if matches!(node.dtype, DType::BF16 | DType::F16) { arithmetic + 1 } else { arithmetic }
}

fn choose_lanes(kernel: &Kernel, nest: &Nest, live: &SecondaryMap<NodeId, bool>) -> Lanes {
    let Some(v) = nest.vector else { return Lanes { width: 0, main: 0, tail: 0, tail_width: 0 } };
    let varying = || kernel.nodes.keys().filter(|&id| live[id] && nest.varies[id] & (1 << v) != 0);
    let work: u32 = varying().map(|id| cost(kernel, nest, id)).sum();
    let bytes = varying().filter_map(|id| crate::elementwise::computed_in(kernel.nodes[id].dtype)).map(|e| e.bytes()).max().unwrap_or(4);
    let register = REGISTER_BYTES / bytes.clamp(4, 8);
    let sums = varying().filter(|&id| matches!(kernel.nodes[id].kind, NodeKind::Reduce(..))).count();
    let loads = varying().filter(|&id| matches!(kernel.nodes[id].kind, NodeKind::Load { .. } | NodeKind::Gather { .. })).count();
    // Several registers at once hide latencies, as long as values need not be spilled.
    let registers = match work {
        _ if nest.transposed().is_some() => 1,
        0..=60 if loads <= 3 && sums <= 2 => 4,
        _ => 2,
    };
    let extent = nest.dims[v].extent;
    let mut width = register * registers;
    while width > register && !extent.is_multiple_of(u64::from(width)) && extent.is_multiple_of(u64::from(register)) {
        width /= 2;
    }
    while width > 4 && u64::from(width) / 2 >= extent {
        width /= 2;
    }
    let tail = (extent % u64::from(width)) as u32;
    Lanes { width, main: extent - u64::from(tail), tail, tail_width: if tail == 0 { 0 } else { tail.next_power_of_two().max(4) } }
}
