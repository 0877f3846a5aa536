//! Every library op of the CPU device against the interpreter.

mod support;

use ir::attention::{Attention, AttentionDim, Scale};
use ir::interp::{Precision, Tensor as Reference, run};
use ir::op::{ConvDims, GatherDims, OpKind, Reducer, ScatterDims, Window};
use ir::program::{InstructionKind, ScheduleKind};
use ir::{DType, Graph, Module, TensorType};
use runtime::{Arguments, Options, Session, Tensor};
use std::sync::Arc;
use support::*;

fn ty(dtype: DType, shape: &[u64]) -> TensorType {
    TensorType::new(dtype, shape)
}

/// Small numbers, exact in every float type; indices reach out of range on both sides.
fn values(ty: &TensorType, seed: u64) -> Vec<u8> {
    let value = |i: u64| {
        let x = ((i * 7 + seed * 13 + i * i % 11) % 9) as f64 - if ty.dtype.is_unsigned() || ty.dtype == DType::I1 { 0.0 } else { 2.0 };
        if ty.dtype == DType::I1 { x % 2.0 } else { x }
    };
    (0..ty.elements()).flat_map(|i| ir::literal::encode(ty.dtype, value(i))).collect()
}

/// Runs the op as a plan's only instruction and compares every result with the interpreter's, to a relative tolerance.
fn check(op: OpKind, operands: &[TensorType], results: &[TensorType]) {
    let bytes: Vec<Vec<u8>> = operands.iter().enumerate().map(|(i, t)| values(t, i as u64 + 1)).collect();
    check_on(op, operands, results, &bytes, 1e-5);
}

fn check_on(op: OpKind, operands: &[TensorType], results: &[TensorType], bytes: &[Vec<u8>], tolerance: f64) {
    let mut graph = Graph::new("main");
    let inputs: Vec<_> = operands.iter().enumerate().map(|(i, t)| graph.add_input(t.clone(), format!("%arg{i}"))).collect();
    let loc = graph.add_loc(ir::graph::LocInfo::default());
    let id = graph.add_op(op.clone(), inputs, results.to_vec(), loc, &[]);
    graph.outputs = graph.ops[id].results.clone();
    let given: Vec<Reference> = operands.iter().zip(bytes).map(|(t, b)| Reference::from_bytes(t.clone(), b).unwrap()).collect();
    let expected = run(&Module::default(), &graph, &given, Precision::AsTyped).unwrap();

    let mut b = Builder::new(0, &[1], 0);
    let replicated = |t: &TensorType| t.shape.iter().map(|_| &[][..]).collect::<Vec<&[u32]>>();
    let mut arguments = Arguments::new();
    let reads: Vec<_> = operands
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let buffer = b.buffer("in", t.dtype, &t.shape, 1);
            b.input(i as u32, buffer, &t.shape, false, &replicated(t));
            arguments.insert(i as u32, Arc::new(Tensor::new(t.clone(), bytes[i].clone()).unwrap()));
            buffer
        })
        .collect();
    let writes: Vec<_> = results
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let buffer = b.buffer("out", t.dtype, &t.shape, 1);
            b.output(i as u32, buffer, &t.shape, false, &replicated(t));
            buffer
        })
        .collect();
    let kind = InstructionKind::Library { op: op.clone(), operands: operands.to_vec(), results: results.to_vec() };
    b.add(1, kind, &reads, &writes);
    let plan = Arc::new(plan(vec![b.program], operands, results, ScheduleKind::GPipe, 1));
    let mut session = Session::open(&plan, &Options::default()).unwrap_or_else(|e| panic!("{op:?}: {e}"));
    session.set_inputs(&arguments).unwrap();
    // Twice: what a step leaves must not show in the next.
    for _ in 0..2 {
        session.step(&Arguments::new()).unwrap();
    }
    let got = session.results(&(0..results.len() as u32).collect::<Vec<_>>()).unwrap();
    for (i, want) in expected.iter().enumerate() {
        let (want, got) = (want.to_f64s(), got[&(i as u32)].values().unwrap());
        for (j, (w, g)) in want.iter().zip(&got).enumerate() {
            let close = w == g || (w.is_nan() && g.is_nan()) || (w - g).abs() <= tolerance * w.abs().max(1.0);
            assert!(close, "{op:?} on {operands:?}: element {j} of result {i} is {g} and should be {w}");
        }
    }
}

const F: DType = DType::F32;

#[test]
fn moves() {
    check(OpKind::Reshape, &[ty(F, &[4, 6])], &[ty(F, &[2, 12])]);
    check(OpKind::Transpose { perm: vec![2, 0, 1] }, &[ty(F, &[3, 4, 5])], &[ty(F, &[5, 3, 4])]);
    check(OpKind::Transpose { perm: vec![1, 0] }, &[ty(DType::BF16, &[37, 41])], &[ty(DType::BF16, &[41, 37])]);
    check(OpKind::Broadcast { dims: vec![1, 2] }, &[ty(F, &[3, 1])], &[ty(F, &[2, 3, 4])]);
    check(OpKind::Slice { start: vec![1, 0], limit: vec![4, 5], stride: vec![2, 2] }, &[ty(F, &[4, 5])], &[ty(F, &[2, 3])]);
    check(OpKind::Reverse { dims: vec![0, 2] }, &[ty(DType::I64, &[3, 4, 5])], &[ty(DType::I64, &[3, 4, 5])]);
    check(OpKind::Concatenate { dim: 1 }, &[ty(F, &[2, 3, 2]), ty(F, &[2, 1, 2]), ty(F, &[2, 4, 2])], &[ty(F, &[2, 8, 2])]);
    check(OpKind::Concatenate { dim: 0 }, &[ty(DType::I1, &[2, 3]), ty(DType::I1, &[3, 3])], &[ty(DType::I1, &[5, 3])]);
    check(OpKind::Iota { dim: 1 }, &[], &[ty(DType::I32, &[3, 4, 2])]);
    check(OpKind::Iota { dim: 0 }, &[], &[ty(DType::BF16, &[7])]);
    check(OpKind::Constant(ir::Literal::splat(ty(F, &[3, 2]), 1.5)), &[], &[ty(F, &[3, 2])]);
}

#[test]
fn pads() {
    for (low, high, interior) in [
        (vec![1, 2], vec![0, 3], vec![0, 0]),
        (vec![-1, 0], vec![2, -2], vec![1, 2]),
        (vec![-3, 1], vec![-2, 0], vec![2, 0]),
        (vec![0, -4], vec![1, -1], vec![0, 1]),
        // Gaps and cuts that together give back the shape.
        (vec![0, 0], vec![-3, -8], vec![1, 2]),
        (vec![-3, -4], vec![0, 0], vec![1, 1]),
    ] {
        let shape = [4i64, 5];
        let size = |d: usize| (shape[d] + (shape[d] - 1) * interior[d] as i64 + low[d] + high[d]) as u64;
        let result = ty(F, &[size(0), size(1)]);
        check(OpKind::Pad { low: low.clone(), high: high.clone(), interior: interior.clone() }, &[ty(F, &[4, 5]), ty(F, &[])], &[result]);
    }
}

#[test]
fn dynamic_slices_clamp_their_starts() {
    let scalar = ty(DType::I32, &[]);
    for starts in [[0i32, 0], [1, 2], [9, -3], [-1, 100]] {
        let operands = [ty(F, &[4, 5]), scalar.clone(), scalar.clone()];
        let bytes: Vec<Vec<u8>> = vec![values(&operands[0], 1), starts[0].to_le_bytes().to_vec(), starts[1].to_le_bytes().to_vec()];
        check_on(OpKind::DynamicSlice { sizes: vec![2, 3] }, &operands, &[ty(F, &[2, 3])], &bytes, 0.0);
        let operands = [ty(F, &[4, 5]), ty(F, &[2, 3]), scalar.clone(), scalar.clone()];
        let bytes = vec![values(&operands[0], 1), values(&operands[1], 2), bytes[1].clone(), bytes[2].clone()];
        check_on(OpKind::DynamicUpdateSlice, &operands, &[ty(F, &[4, 5])], &bytes, 0.0);
    }
}

#[test]
fn gathers() {
    let rows = GatherDims {
        offset_dims: vec![2],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 2,
        slice_sizes: vec![1, 6],
        ..GatherDims::default()
    };
    for index in [DType::I32, DType::I64, DType::UI8] {
        check(OpKind::Gather(rows.clone()), &[ty(F, &[5, 6]), ty(index, &[3, 4, 1])], &[ty(F, &[3, 4, 6])]);
    }
    let windows = GatherDims { offset_dims: vec![0, 2], start_index_map: vec![1, 0], index_vector_dim: 0, slice_sizes: vec![2, 3], ..GatherDims::default() };
    check(OpKind::Gather(windows), &[ty(DType::BF16, &[5, 6]), ty(DType::I32, &[2, 4])], &[ty(DType::BF16, &[2, 4, 3])]);
    let batched = GatherDims {
        collapsed_slice_dims: vec![2],
        operand_batching_dims: vec![0, 1],
        start_indices_batching_dims: vec![0, 1],
        start_index_map: vec![2],
        index_vector_dim: 3,
        slice_sizes: vec![1, 1, 1],
        ..GatherDims::default()
    };
    check(OpKind::Gather(batched), &[ty(F, &[2, 3, 7]), ty(DType::I32, &[2, 3, 1, 1])], &[ty(F, &[2, 3, 1])]);
}

#[test]
fn scatters() {
    let rows = ScatterDims {
        update_window_dims: vec![2],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 2,
        ..ScatterDims::default()
    };
    for (reducer, dtype) in [
        (Reducer::Add, F),
        (Reducer::Add, DType::I32),
        (Reducer::Max, F),
        (Reducer::Replace, DType::I64),
        (Reducer::Mul, DType::F64),
        (Reducer::Replace, DType::BF16),
    ] {
        let op = OpKind::Scatter { dims: rows.clone(), reducer };
        check(op, &[ty(dtype, &[5, 6]), ty(DType::I32, &[3, 2, 1]), ty(dtype, &[3, 2, 6])], &[ty(dtype, &[5, 6])]);
    }
    let batched = ScatterDims {
        inserted_window_dims: vec![2],
        input_batching_dims: vec![0, 1],
        scatter_indices_batching_dims: vec![0, 1],
        scatter_dims_to_operand_dims: vec![2],
        index_vector_dim: 3,
        ..ScatterDims::default()
    };
    let op = OpKind::Scatter { dims: batched, reducer: Reducer::Add };
    check(op, &[ty(F, &[2, 3, 7]), ty(DType::I32, &[2, 3, 2, 1]), ty(F, &[2, 3, 2])], &[ty(F, &[2, 3, 7])]);
    let windows = ScatterDims { update_window_dims: vec![1, 2], scatter_dims_to_operand_dims: vec![1, 0], index_vector_dim: 1, ..ScatterDims::default() };
    let op = OpKind::Scatter { dims: windows, reducer: Reducer::Add };
    check(op, &[ty(F, &[6, 7]), ty(DType::I32, &[5, 2]), ty(F, &[5, 2, 3])], &[ty(F, &[6, 7])]);
}

fn window(size: &[u64], stride: &[u64], pad: &[(i64, i64)], base: &[u64], dilation: &[u64]) -> Window {
    Window {
        size: size.to_vec(),
        stride: stride.to_vec(),
        pad: pad.to_vec(),
        base_dilation: base.to_vec(),
        window_dilation: dilation.to_vec(),
        reversal: vec![],
    }
}

#[test]
fn reductions() {
    for reducer in [Reducer::Add, Reducer::Max, Reducer::Min, Reducer::Mul] {
        check(OpKind::Reduce { dims: vec![1], reducer }, &[ty(F, &[3, 4, 5]), ty(F, &[])], &[ty(F, &[3, 5])]);
    }
    check(OpKind::Reduce { dims: vec![0, 2], reducer: Reducer::Add }, &[ty(DType::BF16, &[3, 4, 5]), ty(DType::BF16, &[])], &[ty(DType::BF16, &[4])]);
    check(OpKind::Reduce { dims: vec![0], reducer: Reducer::And }, &[ty(DType::I1, &[6]), ty(DType::I1, &[])], &[ty(DType::I1, &[])]);
    let cumulative = window(&[1, 7, 1], &[1; 3], &[(0, 0), (6, 0), (0, 0)], &[1; 3], &[1; 3]);
    check(
        OpKind::ReduceWindow { window: cumulative, reducer: Reducer::Add },
        &[ty(DType::I32, &[2, 7, 3]), ty(DType::I32, &[])],
        &[ty(DType::I32, &[2, 7, 3])],
    );
    // A window of one element that its padding shifts.
    let shifted = window(&[1, 7, 1], &[1; 3], &[(1, -1), (6, 0), (-1, 1)], &[1; 3], &[1; 3]);
    check(OpKind::ReduceWindow { window: shifted, reducer: Reducer::Add }, &[ty(DType::I32, &[2, 7, 3]), ty(DType::I32, &[])], &[ty(DType::I32, &[2, 7, 3])]);
    let pool = window(&[2, 3], &[2, 1], &[(0, 1), (1, 1)], &[1, 2], &[1, 2]);
    // The dilated operand has 2·5 − 1 columns, padded to 11; the dilated window has 5.
    check(OpKind::ReduceWindow { window: pool, reducer: Reducer::Max }, &[ty(F, &[5, 5]), ty(F, &[])], &[ty(F, &[3, 7])]);
}

#[test]
fn top_k_takes_the_first_of_equals() {
    for dtype in [F, DType::I32, DType::BF16] {
        check(OpKind::TopK { k: 3 }, &[ty(dtype, &[4, 2, 8])], &[ty(dtype, &[4, 2, 3]), ty(DType::I32, &[4, 2, 3])]);
    }
    let operand = ty(F, &[1, 6]);
    let bytes = [1.0f32, f32::NAN, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY].iter().flat_map(|x| x.to_le_bytes()).collect();
    check_on(OpKind::TopK { k: 6 }, std::slice::from_ref(&operand), &[operand.clone(), ty(DType::I32, &[1, 6])], &[bytes], 0.0);
}

/// A convolution of NHWC-like roles under any order of dimensions.
fn convolution(orders: [&[usize; 4]; 3], window: Window, groups: (u64, u64)) -> ConvDims {
    let [i, k, o] = orders;
    ConvDims {
        input_batch: i[0],
        input_feature: i[1],
        input_spatial: vec![i[2], i[3]],
        kernel_input: k[0],
        kernel_output: k[1],
        kernel_spatial: vec![k[2], k[3]],
        output_batch: o[0],
        output_feature: o[1],
        output_spatial: vec![o[2], o[3]],
        window,
        feature_groups: groups.0,
        batch_groups: groups.1,
    }
}

#[test]
fn convolutions() {
    // Roles (batch, feature, height, width) at these places.
    let (nhwc, nchw, hwio, oihw, fhwb) = ([0, 3, 1, 2], [0, 1, 2, 3], [2, 3, 0, 1], [1, 0, 2, 3], [3, 0, 1, 2]);
    let place = |order: &[usize; 4], sizes: [u64; 4]| {
        let mut shape = [0; 4];
        for (at, n) in order.iter().zip(sizes) {
            shape[*at] = n;
        }
        shape
    };
    let cases: Vec<(DType, Window, (u64, u64), [&[usize; 4]; 3])> = vec![
        (F, window(&[3, 3], &[1, 1], &[(1, 1), (1, 1)], &[1, 1], &[1, 1]), (1, 1), [&nhwc, &hwio, &nhwc]),
        (DType::F64, window(&[3, 2], &[2, 1], &[(0, 1), (1, 0)], &[1, 1], &[1, 2]), (1, 1), [&nchw, &oihw, &nhwc]),
        (F, window(&[2, 3], &[1, 1], &[(2, 1), (2, 1)], &[2, 2], &[1, 1]), (1, 1), [&nhwc, &oihw, &nchw]),
        (F, window(&[3, 3], &[1, 1], &[(1, -1), (0, 0)], &[1, 1], &[2, 1]), (1, 1), [&fhwb, &oihw, &nhwc]),
        (F, window(&[1, 1], &[1, 1], &[(0, -6), (-5, 0)], &[2, 2], &[1, 1]), (1, 1), [&nhwc, &hwio, &nhwc]),
        (F, window(&[3, 3], &[1, 1], &[(1, 1), (1, 1)], &[1, 1], &[1, 1]), (2, 1), [&nhwc, &hwio, &nhwc]),
        (F, window(&[3, 3], &[1, 1], &[(1, 1), (1, 1)], &[1, 1], &[1, 1]), (1, 2), [&nhwc, &hwio, &nhwc]),
        (DType::BF16, window(&[2, 2], &[1, 2], &[(0, 0), (0, 0)], &[1, 1], &[1, 1]), (1, 1), [&nhwc, &hwio, &nchw]),
    ];
    for (dtype, mut w, groups, orders) in cases {
        for reversed in [false, true] {
            w.reversal = vec![reversed, false];
            let (batch, features, outputs, image) = (4u64, 6u64, 4u64, [7u64, 6]);
            let size = |d: usize| {
                let dilated = (image[d] - 1) * w.base_dilation[d] + 1;
                let kernel = (w.size[d] - 1) * w.window_dilation[d] + 1;
                (dilated as i64 + w.pad[d].0 + w.pad[d].1 - kernel as i64) as u64 / w.stride[d] + 1
            };
            let input = ty(dtype, &place(orders[0], [batch, features, image[0], image[1]]));
            let kernel = ty(dtype, &place(orders[1], [features / groups.0, outputs, w.size[0], w.size[1]]));
            let result = ty(dtype, &place(orders[2], [batch / groups.1, outputs, size(0), size(1)]));
            let bytes = vec![values(&input, 1), values(&kernel, 2)];
            let tolerance = if dtype == DType::BF16 { 1e-2 } else { 1e-5 };
            check_on(OpKind::Convolution(Box::new(convolution(orders, w.clone(), groups))), &[input, kernel], &[result], &bytes, tolerance);
        }
    }
}

#[test]
fn what_cannot_be_done_is_refused_by_name_when_opening() {
    let mut b = Builder::new(0, &[1], 0);
    let x = b.buffer("x", F, &[4], 1);
    let y = b.buffer("y", F, &[4], 1);
    for _ in 0..2 {
        let kind = InstructionKind::Library { op: OpKind::Sort { dim: 0, stable: true }, operands: vec![ty(F, &[4])], results: vec![ty(F, &[4])] };
        b.add(1, kind, &[x], &[y]);
    }
    let plan = Arc::new(plan(vec![b.program], &[], &[], ScheduleKind::GPipe, 1));
    let refused = Session::open(&plan, &Options::default()).err().unwrap();
    assert_eq!(refused.0.len(), 2, "all at once");
    assert!(refused.0[0].message.contains("cannot execute sort"), "{refused}");
    assert!(refused.to_string().contains("in %1 (test.mlir:2)"), "{refused}");
}

/// Subscripts, extents by letter, causal, position of the first query, types of the operands and the bias.
fn check_attention(subscripts: &str, sizes: &[(char, u64)], causal: bool, first: Option<i32>, t: DType, bias: DType) {
    let a = Attention { causal, offset: first.is_some(), scale: Scale(0.125), ..Attention::from_subscripts(subscripts).unwrap() };
    let size = |d: &AttentionDim| sizes.iter().find(|s| s.0 == d.letter()).unwrap().1;
    let shape = |dims: &[AttentionDim]| dims.iter().map(size).collect::<Vec<u64>>();
    let mut operands: Vec<TensorType> = a.operand_dims().iter().map(|d| ty(t, &shape(d))).collect();
    if a.bias.is_some() {
        operands[3].dtype = bias;
    }
    if a.offset {
        operands.last_mut().unwrap().dtype = DType::I32;
    }
    let mut bytes: Vec<Vec<u8>> = (1..).zip(&operands).map(|(i, t)| values(t, i)).collect();
    if let Some(first) = first {
        *bytes.last_mut().unwrap() = first.to_le_bytes().to_vec();
    }
    let results = a.results(&operands.iter().collect::<Vec<_>>()).unwrap();
    let tolerance = if t == DType::F32 { 2e-5 } else { 0.02 };
    let forward = OpKind::Attention(Box::new(a.clone()));
    check_on(forward.clone(), &operands, &results, &bytes, tolerance);

    // The derivative at what the forward gives.
    let mut graph = Graph::new("main");
    let inputs: Vec<_> = operands.iter().map(|t| graph.add_input(t.clone(), "")).collect();
    let loc = graph.add_loc(ir::graph::LocInfo::default());
    let id = graph.add_op(forward, inputs, results.clone(), loc, &[]);
    graph.outputs = graph.ops[id].results.clone();
    let given: Vec<Reference> = operands.iter().zip(&bytes).map(|(t, b)| Reference::from_bytes(t.clone(), b).unwrap()).collect();
    let made = run(&Module::default(), &graph, &given, Precision::AsTyped).unwrap();
    let gradient = [&operands[..3], &results, &results[..1], &operands[3..]].concat();
    let made: Vec<Vec<u8>> = made.iter().map(Reference::to_bytes).chain([values(&results[0], 9)]).collect();
    let bytes = [&bytes[..3], &made, &bytes[3..]].concat();
    let with_bias = a.bias.is_some() && bias == F;
    let results = a.gradient_results(&gradient.iter().collect::<Vec<_>>(), with_bias).unwrap();
    check_on(OpKind::AttentionGrad { attention: Box::new(a), bias: with_bias }, &gradient, &results, &bytes, 4.0 * tolerance);
}

#[test]
fn attention() {
    let small = [('b', 2), ('h', 3), ('g', 2), ('q', 7), ('k', 5), ('d', 4), ('e', 6)];
    check_attention("qd,kd,ke->qe", &small, false, None, F, F);
    check_attention("bqhgd,bkhd,bkhe->bqhge", &small, true, None, F, F);
    check_attention("bhqd,kbhd,bhek,hqk->qbhe", &small, true, Some(2), F, F);
    check_attention("bhqd,kbhd,bhek,hqk->qbhe", &small, true, Some(-3), F, F);
    check_attention("bhgqd,bkhd,bkhe,bqk->bqhge", &small, false, None, F, DType::I1);
    check_attention("hgqd,hkd,hke,k->qhge", &small, false, None, F, F);
    check_attention("bqhgd,bkhd,bkhe,bk->bqhge", &small, true, None, DType::BF16, DType::I1);
    check_attention("bqhgd,bkhd,bkhe,hqk->bqhge", &small, false, None, DType::F16, DType::F16);
}

#[test]
fn attention_over_several_blocks() {
    let sizes = |q, k| [('b', 2), ('h', 1), ('g', 2), ('q', q), ('k', k), ('d', 8), ('e', 16)];
    check_attention("bqhgd,bkhd,bkhe->bqhge", &sizes(130, 130), true, None, F, F);
    check_attention("bqhgd,bkhd,bkhe->bqhge", &sizes(65, 515), false, None, F, F);
    check_attention("bqhgd,bkhd,bkhe,gqk->bqhge", &sizes(64, 300), true, Some(236), F, F);
    check_attention("bqhgd,bkhd,bkhe->bqhge", &sizes(70, 300), true, Some(100), DType::BF16, F);
}

#[test]
fn attention_of_nothing() {
    let sizes = [('b', 0), ('q', 3), ('k', 4), ('d', 2), ('e', 2)];
    check_attention("bqd,bkd,bke->bqe", &sizes, true, None, F, F);
    check_attention("bqd,bkd,bke->bqe", &[('b', 2), ('q', 3), ('k', 0), ('d', 2), ('e', 2)], false, None, F, F);
}
