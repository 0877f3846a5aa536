use super::*;
use ir::op::{DotDims, OpKind};
use ir::{DType, Loc, TensorType};

fn f32(shape: &[u64]) -> TensorType {
    TensorType::new(DType::F32, shape)
}

/// A fused QKV product, its thirds as heads, and scores.
fn fused_qkv() -> Graph {
    let mut g = Graph::new("main");
    let loc = Loc(0);
    let x = g.add_input(f32(&[8, 128, 256]), "%arg0");
    let w = g.add_input(f32(&[256, 768]), "%arg1");
    let dims = DotDims { lhs_contract: vec![2], rhs_contract: vec![0], ..DotDims::default() };
    let qkv = g.add(OpKind::Dot(dims), vec![x, w], f32(&[8, 128, 768]), loc);
    let heads: Vec<ValueId> = (0..2)
        .map(|i| {
            let kind = OpKind::Slice { start: vec![0, 0, i * 256], limit: vec![8, 128, (i + 1) * 256], stride: vec![1, 1, 1] };
            let s = g.add(kind, vec![qkv], f32(&[8, 128, 256]), loc);
            let r = g.add(OpKind::Reshape, vec![s], f32(&[8, 128, 8, 32]), loc);
            g.add(OpKind::Transpose { perm: vec![0, 2, 1, 3] }, vec![r], f32(&[8, 8, 128, 32]), loc)
        })
        .collect();
    let dims = DotDims { lhs_batch: vec![0, 1], rhs_batch: vec![0, 1], lhs_contract: vec![3], rhs_contract: vec![3] };
    let scores = g.add(OpKind::Dot(dims), heads, f32(&[8, 8, 128, 128]), loc);
    g.outputs = vec![scores, w];
    g.locs.push(Default::default());
    g
}

#[test]
fn a_fused_qkv_is_split_into_thirds_heads_and_head_size() {
    let (graph, view) = run(&fused_qkv(), &Constraints::default());
    assert_eq!(view.inputs, [vec![8, 128, 256], vec![256, 3, 8, 32]]);
    assert_eq!(view.outputs[1], [256, 3, 8, 32]);
    let slices: Vec<_> = graph.ops.values().filter(|op| matches!(op.kind, OpKind::Slice { .. })).map(|op| graph.ty(op.results[0]).shape.clone()).collect();
    assert_eq!(slices, [vec![8, 128, 1, 8, 32], vec![8, 128, 1, 8, 32]]);
    // What is left of the reshapes drops the size-1 dimension of the slice.
    assert!(graph.ops.values().filter(|op| matches!(op.kind, OpKind::Reshape)).all(|op| graph.ty(op.results[0]).shape == [8, 128, 8, 32]));
}

#[test]
fn a_pinned_dimension_keeps_the_reshape() {
    let (graph, view) = run(&fused_qkv(), &Constraints { whole: vec![(1, 1)], tied: vec![] });
    assert_eq!(view.inputs[1], [256, 768]);
    assert_eq!(graph.ops.values().filter(|op| matches!(op.kind, OpKind::Reshape)).count(), 2);
}

#[test]
fn incompatible_cuts_leave_the_reshape() {
    let mut g = Graph::new("main");
    let x = g.add_input(f32(&[6, 4]), "%arg0");
    let y = g.add(OpKind::Reshape, vec![x], f32(&[4, 6]), Loc(0));
    g.outputs = vec![y];
    g.locs.push(Default::default());
    let (graph, view) = run(&g, &Constraints::default());
    assert_eq!(view, AtomicView { inputs: vec![vec![6, 4]], outputs: vec![vec![4, 6]] });
    assert_eq!(graph.ops.len(), 1);
}

#[test]
fn dimensions_of_size_one_are_dropped() {
    let mut g = Graph::new("main");
    let x = g.add_input(f32(&[8, 16]), "%arg0");
    let a = g.add(OpKind::Broadcast { dims: vec![0, 2] }, vec![x], f32(&[8, 1, 16]), Loc(0));
    let b = g.add(OpKind::Broadcast { dims: vec![0, 1, 2] }, vec![a], f32(&[8, 4, 16]), Loc(0));
    g.outputs = vec![b];
    g.locs.push(Default::default());
    let (graph, _) = run(&g, &Constraints::default());
    let kinds: Vec<&OpKind> = graph.ops.values().map(|op| &op.kind).collect();
    assert_eq!(kinds, [&OpKind::Broadcast { dims: vec![0, 2] }]);
}
