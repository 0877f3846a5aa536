//! Names of operations as the user's file spells them, and names of instructions.
//!
//! The match has no `_` arm, so that a new operation must be given a name here.

use ir::OpKind;
use ir::program::{CollectiveKind, InstructionKind};

/// `dot_general`, `tanh`, `reduce(max)`.
pub(crate) fn op(kind: &OpKind) -> String {
    let with = |name: &str, by: ir::op::Reducer| format!("{name}({})", snake(by));
    match kind {
        OpKind::Constant(_) => "constant".into(),
        OpKind::Iota { .. } => "iota".into(),
        OpKind::Unary(f) => snake(f),
        OpKind::Binary(f) => snake(f),
        OpKind::Compare { direction, .. } => format!("compare({})", snake(direction)),
        OpKind::Select => "select".into(),
        OpKind::Clamp => "clamp".into(),
        OpKind::Convert => "convert".into(),
        OpKind::BitcastConvert => "bitcast_convert".into(),
        OpKind::ReducePrecision { .. } => "reduce_precision".into(),
        OpKind::Broadcast { .. } => "broadcast_in_dim".into(),
        OpKind::Reshape => "reshape".into(),
        OpKind::Transpose { .. } => "transpose".into(),
        OpKind::Slice { .. } => "slice".into(),
        OpKind::Pad { .. } => "pad".into(),
        OpKind::Concatenate { .. } => "concatenate".into(),
        OpKind::Reverse { .. } => "reverse".into(),
        OpKind::DynamicSlice { .. } => "dynamic_slice".into(),
        OpKind::DynamicUpdateSlice => "dynamic_update_slice".into(),
        OpKind::Reduce { reducer, .. } => with("reduce", *reducer),
        OpKind::ReduceWindow { reducer, .. } => with("reduce_window", *reducer),
        OpKind::SelectAndScatter { .. } => "select_and_scatter".into(),
        OpKind::Dot(_) => "dot_general".into(),
        OpKind::Convolution(_) => "convolution".into(),
        OpKind::Attention(_) => "attention".into(),
        OpKind::AttentionGrad { .. } => "attention_grad".into(),
        OpKind::Gather(_) => "gather".into(),
        OpKind::Scatter { reducer, .. } => with("scatter", *reducer),
        OpKind::TopK { .. } => "top_k".into(),
        OpKind::Sort { .. } => "sort".into(),
        OpKind::Barrier => "optimization_barrier".into(),
        OpKind::While => "while".into(),
        OpKind::If => "if".into(),
        OpKind::Case => "case".into(),
        OpKind::Call { callee } => format!("call @{callee}"),
        OpKind::RngBitGenerator { .. } => "rng_bit_generator".into(),
        OpKind::CustomCall { target, .. } => format!("custom_call @{target}"),
        OpKind::AxisIndex { .. } => "axis_index".into(),
        OpKind::AllReduce { .. } => "all_reduce".into(),
        OpKind::AllGather { .. } => "all_gather".into(),
        OpKind::ReduceScatter { .. } => "reduce_scatter".into(),
        OpKind::AllToAll { .. } => "all_to_all".into(),
        OpKind::ShardSlice { .. } => "shard_slice".into(),
    }
}

/// `matmul`, `kernel`, `all-reduce`, `send`.
pub(crate) fn instruction(kind: &InstructionKind) -> String {
    match kind {
        InstructionKind::Kernel { .. } => "kernel".into(),
        InstructionKind::MatMul(_) => "matmul".into(),
        InstructionKind::Library { op: library, .. } => op(library),
        InstructionKind::Copy { .. } => "copy".into(),
        InstructionKind::Fill { .. } => "fill".into(),
        InstructionKind::Collective { kind, .. } => collective(*kind).into(),
        InstructionKind::Send { .. } => "send".into(),
        InstructionKind::Receive { .. } => "receive".into(),
    }
}

/// `all-reduce`, `reduce-scatter`, …
pub(crate) fn collective(kind: CollectiveKind) -> &'static str {
    match kind {
        CollectiveKind::AllReduce => "all-reduce",
        CollectiveKind::AllGather => "all-gather",
        CollectiveKind::ReduceScatter => "reduce-scatter",
        CollectiveKind::AllToAll => "all-to-all",
    }
}

/// A variant's name in snake case: `RoundNearestEven` is `round_nearest_even`.
fn snake(variant: impl std::fmt::Debug) -> String {
    let mut text = String::new();
    for c in format!("{variant:?}").chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::op::{Reducer, UnaryOp};

    #[test]
    fn names_are_stablehlo_s() {
        assert_eq!(op(&OpKind::Unary(UnaryOp::RoundNearestEven)), "round_nearest_even");
        assert_eq!(op(&OpKind::Reduce { dims: vec![1], reducer: Reducer::Max }), "reduce(max)");
        assert_eq!(op(&OpKind::Call { callee: "f".into() }), "call @f");
    }
}
