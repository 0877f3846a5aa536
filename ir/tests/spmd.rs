//! Partitioned graphs on all devices of a mesh, against the whole computation on one.

use ir::graph::LocInfo;
use ir::interp::{Precision, Tensor, run_spmd};
use ir::op::{DotDims, OpKind, Reducer};
use ir::{AxisId, DType, Graph, Mesh, TensorType, ValueId};

const X: AxisId = AxisId(0);
const Y: AxisId = AxisId(1);

fn ty(shape: &[u64]) -> TensorType {
    TensorType::new(DType::F32, shape)
}

fn count(shape: &[u64]) -> Tensor {
    let n: u64 = shape.iter().product();
    Tensor::from_f32s(shape, (0..n).map(|i| (i % 7) as f32 - 2.0).collect()).unwrap()
}

/// A graph with one op after another, built by `build` from its inputs.
fn graph(inputs: &[TensorType], build: impl FnOnce(&mut Graph, &[ValueId]) -> Vec<ValueId>) -> Graph {
    let mut g = Graph::new("main");
    g.add_loc(LocInfo::default());
    let values: Vec<ValueId> = inputs.iter().enumerate().map(|(i, t)| g.add_input(t.clone(), format!("%arg{i}"))).collect();
    g.outputs = build(&mut g, &values);
    g
}

fn dot(g: &mut Graph, a: ValueId, b: ValueId, shape: &[u64]) -> ValueId {
    let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
    g.add(OpKind::Dot(dims), vec![a, b], ty(shape), ir::Loc(0))
}

fn matrix_product(a: &Tensor, b: &Tensor) -> Vec<f64> {
    let (m, k, n) = (a.ty.shape[0] as usize, a.ty.shape[1] as usize, b.ty.shape[1] as usize);
    let (a, b) = (a.to_f64s(), b.to_f64s());
    (0..m * n).map(|i| (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum()).collect()
}

#[test]
fn a_contraction_cut_over_devices_is_summed() {
    let mesh = Mesh::new(&[2]);
    let (a, b) = (count(&[3, 6]), count(&[6, 5]));
    let g = graph(&[ty(&[3, 3]), ty(&[3, 5])], |g, v| {
        let partial = dot(g, v[0], v[1], &[3, 5]);
        vec![g.add(OpKind::AllReduce { axes: vec![X], reducer: Reducer::Add }, vec![partial], ty(&[3, 5]), ir::Loc(0))]
    });
    let inputs: Vec<Vec<Tensor>> = (0..2).map(|d| vec![a.block(&[0, 3 * d], &[3, 3]), b.block(&[3 * d, 0], &[3, 5])]).collect();
    for outputs in run_spmd(&g, &mesh, 0, &inputs, Precision::AsTyped).unwrap() {
        assert_eq!(outputs[0].to_f64s(), matrix_product(&a, &b));
    }
}

#[test]
fn uneven_rows_are_padded_scattered_and_gathered() {
    // Five rows over four devices: blocks of two, the last ones hold padding.
    let mesh = Mesh::new(&[2, 2]);
    let x = count(&[5, 3]);
    let g = graph(&[ty(&[5, 3])], |g, v| {
        let axes = vec![X, Y];
        let block = g.add(OpKind::ShardSlice { axes: axes.clone(), dim: 0 }, vec![v[0]], ty(&[2, 3]), ir::Loc(0));
        let whole = g.add(OpKind::AllGather { axes: axes.clone(), dim: 0 }, vec![block], ty(&[5, 3]), ir::Loc(0));
        let quarter = g.add(OpKind::ReduceScatter { axes: axes.clone(), dim: 0, reducer: Reducer::Add }, vec![whole], ty(&[2, 3]), ir::Loc(0));
        let sum = g.add(OpKind::AllGather { axes, dim: 0 }, vec![quarter], ty(&[5, 3]), ir::Loc(0));
        vec![whole, sum]
    });
    let four: Vec<f64> = x.to_f64s().iter().map(|v| 4.0 * v).collect();
    for outputs in run_spmd(&g, &mesh, 0, &vec![vec![x.clone()]; 4], Precision::AsTyped).unwrap() {
        assert_eq!(outputs[0].to_f64s(), x.to_f64s());
        assert_eq!(outputs[1].to_f64s(), four);
    }
}

#[test]
fn an_all_to_all_moves_the_cut_to_another_dimension() {
    let mesh = Mesh::new(&[2]);
    let x = count(&[3, 4]);
    // Rows are cut (two and one with padding); afterwards columns are, and rows are whole again.
    let g = graph(&[ty(&[2, 4])], |g, v| vec![g.add(OpKind::AllToAll { axes: vec![X], split: 1, concat: 0 }, vec![v[0]], ty(&[3, 2]), ir::Loc(0))]);
    let inputs: Vec<Vec<Tensor>> = (0..2).map(|d| vec![x.block(&[2 * d, 0], &[2, 4])]).collect();
    let outputs = run_spmd(&g, &mesh, 0, &inputs, Precision::AsTyped).unwrap();
    for d in 0..2u64 {
        assert_eq!(outputs[d as usize][0].to_f64s(), x.block(&[0, 2 * d], &[3, 2]).to_f64s());
    }
}

#[test]
fn coordinates_and_the_microbatch() {
    let mesh = Mesh::new(&[2, 3]);
    let scalar = TensorType::scalar(DType::I32);
    let g = graph(&[], |g, _| {
        let index = |g: &mut Graph, axes| g.add(OpKind::AxisIndex { axes }, vec![], scalar.clone(), ir::Loc(0));
        vec![index(g, vec![Y]), index(g, vec![Y, X]), index(g, vec![AxisId::MICROBATCH])]
    });
    let outputs = run_spmd(&g, &mesh, 5, &vec![vec![]; 6], Precision::AsTyped).unwrap();
    let got: Vec<Vec<i64>> = outputs.iter().map(|o| o.iter().flat_map(Tensor::to_i64s).collect()).collect();
    assert_eq!(got, [[0, 0, 5], [1, 2, 5], [2, 4, 5], [0, 1, 5], [1, 3, 5], [2, 5, 5]]);
}

#[test]
fn loops_that_communicate_run_in_lock_step_and_others_need_not_agree() {
    let mesh = Mesh::new(&[2]);
    let scalar = ty(&[]);
    // while x < 10 { x = body(x) }
    let looped = |body: &dyn Fn(&mut Graph, ValueId) -> ValueId| {
        let condition = {
            let mut g = graph(std::slice::from_ref(&scalar), |_, _| vec![]);
            let ten = g.add(OpKind::Constant(ir::Literal::splat(ty(&[]), 10.0)), vec![], ty(&[]), ir::Loc(0));
            let less = OpKind::Compare { direction: ir::op::Direction::Lt, total: false };
            let x = g.inputs[0];
            let c = g.add(less, vec![x, ten], TensorType::scalar(DType::I1), ir::Loc(0));
            g.outputs = vec![c];
            g
        };
        let body = graph(std::slice::from_ref(&scalar), |g, v| vec![body(g, v[0])]);
        graph(std::slice::from_ref(&scalar), |g, v| {
            let op = g.add_op(OpKind::While, vec![v[0]], vec![ty(&[])], ir::Loc(0), &[]);
            g.ops[op].regions = vec![condition, body];
            vec![g.ops[op].results[0]]
        })
    };
    let double = looped(&|g, x| g.add(OpKind::Binary(ir::op::BinaryOp::Add), vec![x, x], ty(&[]), ir::Loc(0)));
    let sum = looped(&|g, x| g.add(OpKind::AllReduce { axes: vec![X], reducer: Reducer::Add }, vec![x], ty(&[]), ir::Loc(0)));
    let start = |a: f64, b: f64| vec![vec![Tensor::splat(ty(&[]), a)], vec![Tensor::splat(ty(&[]), b)]];
    let results = |g: &Graph, a, b| run_spmd(g, &mesh, 0, &start(a, b), Precision::AsTyped).map(|o| [o[0][0].first().unwrap(), o[1][0].first().unwrap()]);
    assert_eq!(results(&double, 1.0, 7.0).unwrap(), [16.0, 14.0]);
    assert_eq!(results(&sum, 1.0, 2.0).unwrap(), [12.0, 12.0]);
    assert_eq!(results(&sum, 1.0, 20.0).unwrap_err().code, "E0703");
}
