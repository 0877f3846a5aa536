//! Which ops are index maps, which are recomputed in their readers, which belong to kernels, and which are done by the library.
//!
//! A cheap op that reads at most one value of its own size (a bias, a mask, a normalised row) is not stored: readers recompute it, from forward into
//! backward too. It is stored where a library call or a collective reads it. The invariant: following views and cheap ops from any operand ends at
//! leaves, which are inputs, library results, or results of kernel ops; leaves are the only values with memory.

use crate::spmd::local::LocalGraph;
use ir::op::{BinaryOp, OpKind, Reducer, UnaryOp};
use ir::{AxisId, DType, OpId, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// An index map of its operand, or computed from the index alone.
    View,
    /// Recomputed by every reader.
    Recomputed,
    /// Computed in a kernel and kept there or stored.
    Fused,
    /// A library call, a matrix product, a collective.
    Anchor,
    /// The transpose or accumulation that a product is written through; its result is the product's.
    Written,
}

/// How many ops a reader may recompute for one operand.
const RECOMPUTE_LIMIT: u32 = 24;

/// Classes of all ops, by op number.
pub struct Classes {
    class: Vec<Class>,
    written_by: BTreeMap<OpId, OpId>,
}

impl Classes {
    /// The class of an op.
    pub fn of(&self, op: OpId) -> Class {
        self.class[op.0 as usize]
    }
    /// Whether a value has memory of its own (unless a view of it is stored as well).
    pub fn is_leaf(&self, local: &LocalGraph, v: ValueId) -> bool {
        local.graph.def_op(v).is_none_or(|op| matches!(self.of(op), Class::Fused | Class::Anchor | Class::Written))
    }
    /// The transpose or accumulation that product `op` is written through.
    pub fn written_by(&self, op: OpId) -> Option<OpId> {
        self.written_by.get(&op).copied()
    }
    /// The leaves that computing `v` reads.
    pub fn leaves(&self, local: &LocalGraph, v: ValueId) -> BTreeSet<ValueId> {
        let (mut found, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![v]);
        while let Some(v) = stack.pop() {
            if !seen.insert(v) {
                continue;
            }
            if self.is_leaf(local, v) {
                found.insert(v);
            } else if let Some(op) = local.graph.def_op(v) {
                stack.extend(&local.graph.ops[op].operands);
            }
        }
        found
    }

    /// Classifies every op of a local graph.
    pub fn new(local: &LocalGraph) -> Classes {
        let graph = &local.graph;
        let mut classes = Classes { class: vec![Class::Anchor; graph.ops.len()], written_by: written_through(local) };
        let written: BTreeSet<OpId> = classes.written_by.values().copied().collect();
        let stored = stored_cheap(local);
        let mut work = vec![0u32; graph.ops.len()];
        for (id, op) in graph.ops.iter() {
            let below = op.operands.iter().filter_map(|&v| graph.def_op(v)).filter(|&d| matches!(classes.of(d), Class::View | Class::Recomputed));
            let total = below.map(|d| work[d.0 as usize]).sum::<u32>();
            let class = if written.contains(&id) {
                Class::Written
            } else if is_view(local, id) {
                work[id.0 as usize] = total;
                Class::View
            } else if !is_fusible(local, id) {
                Class::Anchor
            } else if is_cheap(&op.kind) && !stored[id.0 as usize] && total < RECOMPUTE_LIMIT && reads_one(&classes, local, id) {
                work[id.0 as usize] = total + 1;
                Class::Recomputed
            } else {
                Class::Fused
            };
            classes.class[id.0 as usize] = class;
        }
        classes
    }
}

/// Products whose only reader is a transpose, or the accumulation over microbatches, with it.
fn written_through(local: &LocalGraph) -> BTreeMap<OpId, OpId> {
    let graph = &local.graph;
    let users = graph.users();
    let reader = |id: OpId| match *users[graph.ops[id].results[0]].as_slice() {
        [t] if local.phase[t.0 as usize] != local.phase[id.0 as usize] => None,
        [t] => match &graph.ops[t].kind {
            OpKind::Transpose { .. } => Some(t),
            OpKind::AllReduce { axes, .. } if axes == &[AxisId::MICROBATCH] && local.microbatches > 1 => Some(t),
            _ => None,
        },
        _ => None,
    };
    let products = graph.ops.keys().filter(|&id| super::matmul::is_product(local, id) && !graph.outputs.contains(&graph.ops[id].results[0]));
    products.filter_map(|id| Some((id, reader(id)?))).collect()
}

/// Ops that only rearrange, or depend on the index alone.
fn is_view(local: &LocalGraph, id: OpId) -> bool {
    let op = &local.graph.ops[id];
    match &op.kind {
        OpKind::Constant(l) => l.splat_bytes().is_some(),
        OpKind::Iota { .. } | OpKind::AxisIndex { .. } | OpKind::Broadcast { .. } | OpKind::Transpose { .. } | OpKind::Slice { .. } => true,
        OpKind::Reverse { .. } | OpKind::Reshape => true,
        OpKind::AllReduce { axes, .. } => axes == &[AxisId::MICROBATCH] && local.microbatches == 1,
        OpKind::ShardSlice { axes, dim } => {
            let (whole, part) = (local.graph.ty(op.operands[0]).shape[*dim], local.graph.ty(op.results[0]).shape[*dim]);
            let parts = if axes == &[AxisId::MICROBATCH] { local.microbatches } else { local.mesh.group_size(axes) };
            whole == part * u64::from(parts)
        }
        _ => false,
    }
}

/// Ops that a kernel can compute.
pub(super) fn is_fusible(local: &LocalGraph, id: OpId) -> bool {
    let op = &local.graph.ops[id];
    let real = |v: &ValueId| !local.graph.ty(*v).dtype.is_complex() && kernel_type(local.graph.ty(*v).dtype);
    if !op.operands.iter().chain(&op.results).all(real) {
        return false;
    }
    match &op.kind {
        OpKind::Unary(u) => !matches!(u, UnaryOp::Lgamma | UnaryOp::Digamma | UnaryOp::Real | UnaryOp::Imag),
        OpKind::Binary(b) => !matches!(b, BinaryOp::Complex | BinaryOp::NextAfter),
        OpKind::Compare { .. } | OpKind::Select | OpKind::Clamp | OpKind::Convert => true,
        OpKind::BitcastConvert => local.graph.ty(op.operands[0]).shape == local.graph.ty(op.results[0]).shape,
        OpKind::Reduce { reducer, .. } => !matches!(reducer, Reducer::General | Reducer::Replace) && op.results.len() == 1,
        OpKind::AllReduce { axes, reducer } => axes == &[AxisId::MICROBATCH] && *reducer == Reducer::Add,
        _ => false,
    }
}

/// Element types that kernels compute with.
fn kernel_type(t: DType) -> bool {
    use DType::*;
    matches!(t, I1 | I8 | I16 | I32 | I64 | UI8 | UI16 | UI32 | UI64 | BF16 | F16 | F32 | F64)
}

/// Ops of a few instructions.
fn is_cheap(kind: &OpKind) -> bool {
    match kind {
        OpKind::Unary(u) => matches!(u, UnaryOp::Negate | UnaryOp::Abs | UnaryOp::Not | UnaryOp::Square | UnaryOp::Sign | UnaryOp::IsFinite),
        OpKind::Binary(b) => !matches!(b, BinaryOp::Power | BinaryOp::Remainder | BinaryOp::Atan2 | BinaryOp::NextAfter | BinaryOp::Complex),
        OpKind::Compare { .. } | OpKind::Select | OpKind::Clamp | OpKind::Convert | OpKind::BitcastConvert => true,
        _ => false,
    }
}

/// Whether recomputing reads at most one stored value of about the result's size, and nothing larger.
fn reads_one(classes: &Classes, local: &LocalGraph, id: OpId) -> bool {
    let op = &local.graph.ops[id];
    let size = local.graph.ty(op.results[0]).elements();
    let mut leaves = BTreeSet::new();
    for &v in &op.operands {
        leaves.extend(classes.leaves(local, v));
    }
    let sizes = leaves.iter().map(|&v| local.graph.ty(v).elements());
    sizes.clone().filter(|&n| n * 4 > size).count() <= 1 && size > 1
}

/// Ops whose result a library call, a collective or an output reads, through views: they are stored.
fn stored_cheap(local: &LocalGraph) -> Vec<bool> {
    let graph = &local.graph;
    let mut stored = vec![false; graph.ops.len()];
    let mut mark = |mut v: ValueId| {
        while let Some(op) = graph.def_op(v) {
            stored[op.0 as usize] = true;
            match (&graph.ops[op].kind, is_view(local, op), graph.ops[op].operands.first()) {
                (_, true, Some(&operand)) => v = operand,
                _ => break,
            }
        }
    };
    for (id, op) in graph.ops.iter() {
        if !is_view(local, id) && !is_fusible(local, id) {
            op.operands.iter().for_each(|&v| mark(v));
        }
    }
    graph.outputs.iter().for_each(|&v| mark(v));
    stored
}
