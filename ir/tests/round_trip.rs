//! Random graphs mean the same after they were printed and read again.

use ir::graph::LocInfo;
use ir::interp::{Precision, Tensor, run};
use ir::op::{BinaryOp, Direction, DotDims, OpKind, Reducer, UnaryOp};
use ir::{DType, Graph, Literal, Module, TensorType, ValueId};
use proptest::prelude::*;

/// A step of a random program: which op, on which of the values so far, and a number for its attributes.
type Step = (u8, u8, u8, u8);

const SHAPE: [u64; 2] = [3, 4];

fn ty(shape: &[u64]) -> TensorType {
    TensorType::new(DType::F32, shape)
}

/// Every step turns values of one shape into another of that shape, through other shapes and types.
fn build(steps: &[Step]) -> Module {
    let mut g = Graph::new("main");
    let loc = g.add_loc(LocInfo::default());
    let mut values: Vec<ValueId> = (0..2).map(|i| g.add_input(ty(&SHAPE), format!("%arg{i}"))).collect();
    for &(op, a, b, n) in steps {
        let (x, y) = (values[a as usize % values.len()], values[b as usize % values.len()]);
        let same = |g: &mut Graph, kind, operands| g.add(kind, operands, ty(&SHAPE), loc);
        let value = match op % 12 {
            0 => same(&mut g, OpKind::Binary([BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Multiply, BinaryOp::Maximum][n as usize % 4]), vec![x, y]),
            1 => same(&mut g, OpKind::Unary([UnaryOp::Tanh, UnaryOp::Negate, UnaryOp::Abs, UnaryOp::Floor, UnaryOp::Logistic][n as usize % 5]), vec![x]),
            2 => {
                let literal = Literal::splat(ty(&SHAPE), f64::from(n) / 16.0 - 5.0);
                let c = same(&mut g, OpKind::Constant(literal), vec![]);
                same(&mut g, OpKind::Binary(BinaryOp::Multiply), vec![x, c])
            }
            3 => {
                let t = g.add(OpKind::Transpose { perm: vec![1, 0] }, vec![x], ty(&[4, 3]), loc);
                let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
                let d = g.add(OpKind::Dot(dims), vec![y, t], ty(&[3, 3]), loc);
                let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
                let d = same(&mut g, OpKind::Dot(dims), vec![d, x]);
                same(&mut g, OpKind::Unary(UnaryOp::Tanh), vec![d])
            }
            4 => {
                let zero = g.add(OpKind::Constant(Literal::splat(ty(&[]), 0.0)), vec![], ty(&[]), loc);
                let r = g.add(OpKind::Reduce { dims: vec![1], reducer: Reducer::Add }, vec![x, zero], ty(&[3]), loc);
                same(&mut g, OpKind::Broadcast { dims: vec![0] }, vec![r])
            }
            5 => {
                let compare = OpKind::Compare { direction: [Direction::Lt, Direction::Eq, Direction::Ge][n as usize % 3], total: n & 1 == 1 };
                let p = g.add(compare, vec![x, y], TensorType::new(DType::I1, SHAPE), loc);
                same(&mut g, OpKind::Select, vec![p, x, y])
            }
            6 => {
                let stop = 1 + u64::from(n) % 4;
                let slice = OpKind::Slice { start: vec![0, 0], limit: vec![3, stop], stride: vec![1, 1] };
                let s = g.add(slice, vec![x], ty(&[3, stop]), loc);
                let fill = g.add(OpKind::Constant(Literal::splat(ty(&[]), 0.5)), vec![], ty(&[]), loc);
                same(&mut g, OpKind::Pad { low: vec![0, 4 - stop as i64], high: vec![0, 0], interior: vec![0, 0] }, vec![s, fill])
            }
            7 => {
                let kind = OpKind::Concatenate { dim: 0 };
                let c = g.add(kind, vec![x, y], ty(&[6, 4]), loc);
                same(&mut g, OpKind::Slice { start: vec![1, 0], limit: vec![6, 4], stride: vec![2, 1] }, vec![c])
            }
            8 => {
                let narrow = TensorType::new([DType::BF16, DType::F16, DType::I32, DType::F8E4M3FN][n as usize % 4], SHAPE);
                let c = g.add(OpKind::Convert, vec![x], narrow, loc);
                same(&mut g, OpKind::Convert, vec![c])
            }
            9 => same(&mut g, OpKind::Reverse { dims: vec![n as usize % 2] }, vec![x]),
            10 => {
                let i = g.add(OpKind::Iota { dim: n as usize % 2 }, vec![], ty(&SHAPE), loc);
                same(&mut g, OpKind::Binary(BinaryOp::Add), vec![x, i])
            }
            _ => {
                let r = g.add(OpKind::Reshape, vec![x], ty(&[2, 6]), loc);
                same(&mut g, OpKind::Reshape, vec![r])
            }
        };
        values.push(value);
    }
    g.input_attributes = vec![Default::default(); g.inputs.len()];
    g.outputs = values.split_off(values.len() - 2);
    g.output_attributes = vec![Default::default(); g.outputs.len()];
    Module { name: "m".into(), functions: vec![g], meshes: Vec::new() }
}

fn bits(outputs: &[Tensor]) -> Vec<Vec<u8>> {
    outputs.iter().map(Tensor::to_bytes).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_keeps_the_meaning(steps in proptest::collection::vec(any::<Step>(), 1..20), seed in proptest::collection::vec(-8i8..8, 24)) {
        let module = build(&steps);
        let text = ir::text::print(&module);
        let again = ir::text::parse("printed", &text).unwrap_or_else(|d| panic!("{d}\n{text}"));
        let numbers: Vec<f32> = seed.iter().map(|&x| f32::from(x) / 4.0).collect();
        let inputs: Vec<Tensor> = numbers.chunks(12).map(|c| Tensor::from_f32s(SHAPE, c.to_vec()).unwrap()).collect();
        for precision in [Precision::AsTyped, Precision::F64] {
            let evaluate = |m: &Module| run(m, m.main().unwrap(), &inputs, precision).unwrap_or_else(|d| panic!("{d}\n{text}"));
            prop_assert_eq!(bits(&evaluate(&module)), bits(&evaluate(&again)), "{}", text);
        }
    }
}
