//! One graph per op and variety of its attributes, with how many factors its rule must let be cut and how many sets of operands be partial.

#![allow(unreachable_pub, reason = "a module of a test")]

use crate::sharded::build::Build;
use ir::attention::{Attention, AttentionDim, Scale};
use ir::op::{BinaryOp, ConvDims, Direction, DotDims, GatherDims, OpKind, Reducer, ScatterDims, UnaryOp, Window};
use ir::{DType, Graph, Literal, OpId, TensorType, ValueId};

/// A graph around one op.
pub struct Case {
    /// What it is.
    pub name: String,
    /// The graph.
    pub graph: Graph,
    /// The op.
    pub op: OpId,
    /// How many factors can be cut on some mesh.
    pub cuts: usize,
    /// How many sets of the group's reads can be partial.
    pub partials: usize,
}

const F: DType = DType::F32;
const I: DType = DType::I32;
const B: DType = DType::I1;

/// A region of two scalars (or pairs of them), folded or compared.
fn region(inputs: &[DType], body: impl Fn(&mut Build, &[ValueId]) -> Vec<ValueId>) -> Graph {
    let mut b = Build::new("");
    let scalars: Vec<ValueId> = inputs.iter().map(|&t| b.input(t, &[])).collect();
    b.0.outputs = body(&mut b, &scalars);
    b.0
}

fn binary(op: BinaryOp) -> impl Fn(&mut Build, &[ValueId]) -> Vec<ValueId> {
    move |b, s| vec![b.op(OpKind::Binary(op), &s[..2])]
}

fn compare(direction: Direction) -> impl Fn(&mut Build, &[ValueId]) -> Vec<ValueId> {
    move |b, s| vec![b.op(OpKind::Compare { direction, total: false }, &s[..2])]
}

/// The larger of two (value, index) pairs.
fn arg_max(b: &mut Build, s: &[ValueId]) -> Vec<ValueId> {
    let larger = b.op(OpKind::Compare { direction: Direction::Ge, total: false }, &[s[0], s[2]]);
    let value = b.op(OpKind::Select, &[larger, s[0], s[2]]);
    let index = b.op(OpKind::Select, &[larger, s[1], s[3]]);
    vec![value, index]
}

#[derive(Default)]
struct List(Vec<Case>);

impl List {
    /// The results of the last op are the outputs.
    fn add(&mut self, name: impl Into<String>, cuts: usize, partials: usize, body: impl FnOnce(&mut Build)) {
        let mut b = Build::new("main");
        body(&mut b);
        let op = OpId(b.0.ops.len() as u32 - 1);
        b.0.outputs = b.0.ops[op].results.clone();
        self.0.push(Case { name: name.into(), graph: b.0, op, cuts, partials });
    }
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let mut list = List::default();
    elementwise(&mut list);
    rearrangements(&mut list);
    blocks(&mut list);
    reductions(&mut list);
    products(&mut list);
    attention(&mut list);
    indexing(&mut list);
    windows(&mut list);
    ordering(&mut list);
    list.0
}

fn elementwise(list: &mut List) {
    let s = &[5, 6];
    for (op, partials) in [(UnaryOp::Negate, 1), (UnaryOp::Exponential, 0), (UnaryOp::Abs, 0), (UnaryOp::IsFinite, 0)] {
        list.add(format!("{op:?}"), 2, partials, |b| {
            let x = b.input(F, s);
            b.op(OpKind::Unary(op), &[x]);
        });
    }
    let operators = [
        (BinaryOp::Add, F, 1),
        (BinaryOp::Add, I, 1),
        (BinaryOp::Subtract, F, 1),
        (BinaryOp::Multiply, F, 2),
        (BinaryOp::Divide, F, 1),
        (BinaryOp::Divide, I, 0),
        (BinaryOp::Maximum, F, 0),
        (BinaryOp::And, B, 0),
    ];
    for (op, t, partials) in operators {
        list.add(format!("{op:?} of {t}"), 2, partials, |b| {
            let (x, y) = (b.input(t, s), b.input(t, s));
            b.op(OpKind::Binary(op), &[x, y]);
        });
    }
    for (op, partials) in [(BinaryOp::Add, 1), (BinaryOp::Multiply, 0)] {
        list.add(format!("{op:?} of a value and itself"), 2, partials, |b| {
            let x = b.input(F, s);
            b.op(OpKind::Binary(op), &[x, x]);
        });
    }
    for (op, constant, partials) in [(BinaryOp::Add, 0.0, 1), (BinaryOp::Add, 1.0, 0), (BinaryOp::Multiply, 3.0, 1), (BinaryOp::Maximum, 0.0, 0)] {
        list.add(format!("{op:?} of {constant}"), 2, partials, |b| {
            let (x, c) = (b.input(F, s), b.splat(F, s, constant));
            b.op(OpKind::Binary(op), &[x, c]);
        });
    }
    list.add("a quotient of a constant", 2, 0, |b| {
        let (x, c) = (b.input(F, s), b.splat(F, s, 3.0));
        b.op(OpKind::Binary(BinaryOp::Divide), &[c, x]);
    });
    list.add("Add of a table", 2, 0, |b| {
        let x = b.input(F, s);
        let ty = TensorType::new(F, s.to_vec());
        let bytes = (0..30u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
        let c = b.stated(OpKind::Constant(Literal::dense(ty.clone(), bytes).expect("the count fits")), &[], ty);
        b.op(OpKind::Binary(BinaryOp::Add), &[x, c]);
    });
    list.add("a comparison", 2, 0, |b| {
        let (x, y) = (b.input(F, s), b.input(F, s));
        b.op(OpKind::Compare { direction: Direction::Lt, total: false }, &[x, y]);
    });
    for (name, shape) in [("a choice by element", &s[..]), ("a choice by a scalar", &[])] {
        list.add(name, 2, 1, |b| {
            let (p, x, y) = (b.input(B, shape), b.input(F, s), b.input(F, s));
            b.op(OpKind::Select, &[p, x, y]);
        });
        list.add(format!("{name} or zero"), 2, 1, |b| {
            let (p, x, y) = (b.input(B, shape), b.input(F, s), b.splat(F, s, 0.0));
            b.op(OpKind::Select, &[p, x, y]);
        });
        list.add(format!("{name} or one"), 2, 0, |b| {
            let (p, x, y) = (b.input(B, shape), b.input(F, s), b.splat(F, s, 1.0));
            b.op(OpKind::Select, &[p, x, y]);
        });
    }
    for (name, shape) in [("clamped by elements", &s[..]), ("clamped by scalars", &[])] {
        list.add(name, 2, 0, |b| {
            let (low, x, high) = (b.input(F, shape), b.input(F, s), b.input(F, shape));
            b.op(OpKind::Clamp, &[low, x, high]);
        });
    }
    let conversions = [
        (F, DType::F64, 1),
        (DType::BF16, F, 1),
        (F, F, 1),
        (F, DType::BF16, 0),
        (DType::F16, DType::BF16, 0),
        (F, I, 0),
        (I, F, 0),
        (B, F, 0),
        (I, DType::I64, 0),
    ];
    for (from, to, partials) in conversions {
        list.add(format!("{from} to {to}"), 2, partials, |b| {
            let x = b.input(from, s);
            b.stated(OpKind::Convert, &[x], TensorType::new(to, s.to_vec()));
        });
    }
    list.add("bits of a float", 2, 0, |b| {
        let x = b.input(F, s);
        b.stated(OpKind::BitcastConvert, &[x], TensorType::new(I, s.to_vec()));
    });
    list.add("halves of a float", 0, 0, |b| {
        let x = b.input(F, s);
        b.stated(OpKind::BitcastConvert, &[x], TensorType::new(DType::I16, [5, 6, 2]));
    });
    list.add("reduced precision", 2, 0, |b| {
        let x = b.input(F, s);
        b.op(OpKind::ReducePrecision { exponent: 8, mantissa: 7 }, &[x]);
    });
}

fn rearrangements(list: &mut List) {
    list.add("a constant", 2, 0, |b| {
        b.splat(F, &[5, 6], 3.0);
    });
    for (t, dim) in [(I, 0), (I, 1), (F, 0), (DType::UI8, 1)] {
        list.add(format!("iota of {t} along {dim}"), 2, 0, |b| {
            b.stated(OpKind::Iota { dim }, &[], TensorType::new(t, [5, 6]));
        });
    }
    let broadcasts: [(&str, &[u64], &[usize], &[u64], usize); 6] = [
        ("rows repeated", &[6], &[1], &[5, 6], 2),
        ("columns repeated", &[5], &[0], &[5, 6], 2),
        ("a dimension of one repeated", &[5, 1], &[0, 1], &[5, 6], 2),
        ("a scalar repeated", &[], &[], &[5, 6], 2),
        ("a broadcast in another order", &[5, 6], &[1, 0], &[6, 5], 2),
        ("a broadcast that adds a dimension of one", &[5, 6], &[0, 2], &[5, 1, 6], 2),
    ];
    for (name, from, dims, to, cuts) in broadcasts {
        list.add(name, cuts, 1, |b| {
            let x = b.input(F, from);
            b.stated(OpKind::Broadcast { dims: dims.to_vec() }, &[x], TensorType::new(F, to.to_vec()));
        });
    }
    let reshapes: [(&[u64], &[u64], usize); 8] = [
        (&[5, 6], &[5, 2, 3], 1),
        (&[2, 3, 5], &[6, 5], 1),
        (&[5, 1, 6], &[5, 6], 2),
        (&[5, 6], &[1, 5, 6, 1], 2),
        (&[6, 5], &[5, 6], 0),
        (&[5, 2, 3, 7], &[5, 6, 7], 2),
        (&[2, 2, 3, 5], &[4, 3, 5], 2),
        (&[7], &[7, 1], 1),
    ];
    for (from, to, cuts) in reshapes {
        list.add(format!("{from:?} as {to:?}"), cuts, 1, |b| {
            let x = b.input(F, from);
            b.stated(OpKind::Reshape, &[x], TensorType::new(F, to.to_vec()));
        });
    }
    for perm in [vec![1, 0, 2], vec![2, 0, 1], vec![1, 2, 0]] {
        list.add(format!("transposed {perm:?}"), 3, 1, |b| {
            let x = b.input(F, &[5, 6, 7]);
            b.op(OpKind::Transpose { perm }, &[x]);
        });
    }
    list.add("a slice", 1, 1, |b| {
        let x = b.input(F, &[5, 6, 7]);
        b.op(OpKind::Slice { start: vec![0, 1, 0], limit: vec![5, 5, 7], stride: vec![1, 1, 2] }, &[x]);
    });
    list.add("reversed", 1, 1, |b| {
        let x = b.input(F, &[5, 6]);
        b.op(OpKind::Reverse { dims: vec![1] }, &[x]);
    });
}

fn blocks(list: &mut List) {
    for (name, low, high, interior) in [("padded", 1, 2, 1), ("padded and cut", -1, 2, 0), ("moved along", -1, 1, 0), ("dilated and cut", 0, -5, 1)] {
        for (value, partials) in [(0.0, 1), (1.0, 0)] {
            list.add(format!("{name} with {value}"), 1, partials, |b| {
                let (x, v) = (b.input(F, &[5, 6]), b.splat(F, &[], value));
                b.op(OpKind::Pad { low: vec![0, low], high: vec![0, high], interior: vec![0, interior] }, &[x, v]);
            });
        }
    }
    list.add("padded with an argument", 1, 0, |b| {
        let (x, v) = (b.input(F, &[5, 6]), b.input(F, &[]));
        b.op(OpKind::Pad { low: vec![0, 1], high: vec![0, 1], interior: vec![0, 0] }, &[x, v]);
    });
    list.add("joined", 1, 1, |b| {
        let (x, y, z) = (b.input(F, &[5, 3]), b.input(F, &[5, 4]), b.input(F, &[5, 3]));
        b.op(OpKind::Concatenate { dim: 1 }, &[x, y, z]);
    });
    list.add("joined with zeros", 1, 1, |b| {
        let (x, y) = (b.input(F, &[3, 5]), b.splat(F, &[4, 5], 0.0));
        b.op(OpKind::Concatenate { dim: 0 }, &[x, y]);
    });
    list.add("joined with ones", 1, 0, |b| {
        let (x, y) = (b.input(F, &[3, 5]), b.splat(F, &[4, 5], 1.0));
        b.op(OpKind::Concatenate { dim: 0 }, &[x, y]);
    });
    list.add("a dynamic slice", 1, 1, |b| {
        let (x, i, j) = (b.input(F, &[5, 6]), b.input(I, &[]), b.input(I, &[]));
        b.op(OpKind::DynamicSlice { sizes: vec![5, 2] }, &[x, i, j]);
    });
    for (zero, name) in [(false, "a dynamic update"), (true, "a dynamic update of zeros")] {
        list.add(name, 1, 1, |b| {
            let x = if zero { b.splat(F, &[5, 6], 0.0) } else { b.input(F, &[5, 6]) };
            let (u, i, j) = (b.input(F, &[5, 2]), b.input(I, &[]), b.input(I, &[]));
            b.op(OpKind::DynamicUpdateSlice, &[x, u, i, j]);
        });
    }
}

fn reductions(list: &mut List) {
    let reducers = [
        (Reducer::Add, F, 1),
        (Reducer::Mul, F, 1),
        (Reducer::Max, F, 1),
        (Reducer::Min, F, 1),
        (Reducer::Add, I, 1),
        (Reducer::Max, I, 1),
        (Reducer::Min, DType::UI8, 1),
        (Reducer::And, B, 1),
        (Reducer::Or, B, 1),
        (Reducer::Xor, B, 1),
        (Reducer::And, I, 0),
        (Reducer::Or, DType::UI8, 0),
    ];
    for (reducer, t, partials) in reducers {
        for dims in [vec![0], vec![1], vec![0, 2], vec![0, 1, 2]] {
            list.add(format!("{reducer:?} of {t} over {dims:?}"), 3, partials, |b| {
                let (x, init) = (b.input(t, &[5, 3, 6]), b.splat(t, &[], reducer.neutral(t).expect("neutral")));
                b.op(OpKind::Reduce { dims, reducer }, &[x, init]);
            });
        }
    }
    list.add("a sum that begins with one", 1, 0, |b| {
        let (x, init) = (b.input(F, &[5, 6]), b.splat(F, &[], 1.0));
        b.op(OpKind::Reduce { dims: vec![1], reducer: Reducer::Add }, &[x, init]);
    });
    list.add("a maximum that begins with zero", 1, 0, |b| {
        let (x, init) = (b.input(F, &[5, 6]), b.splat(F, &[], 0.0));
        b.op(OpKind::Reduce { dims: vec![0], reducer: Reducer::Max }, &[x, init]);
    });
    list.add("a sum that begins with an argument", 1, 0, |b| {
        let (x, init) = (b.input(F, &[5, 6]), b.input(F, &[]));
        b.op(OpKind::Reduce { dims: vec![1], reducer: Reducer::Add }, &[x, init]);
    });
    list.add("a sum of copies", 2, 1, |b| {
        let (x, init) = (b.input(F, &[5]), b.splat(F, &[], 0.0));
        let x = b.stated(OpKind::Broadcast { dims: vec![0] }, &[x], TensorType::new(F, [5, 6]));
        b.op(OpKind::Reduce { dims: vec![1], reducer: Reducer::Add }, &[x, init]);
    });
    list.add("a sum by a region", 1, 0, |b| {
        let (x, init) = (b.input(F, &[5, 6]), b.splat(F, &[], 0.0));
        b.with_regions(OpKind::Reduce { dims: vec![1], reducer: Reducer::General }, &[x, init], vec![region(&[F, F], binary(BinaryOp::Add))]);
    });
    list.add("the place of the maximum", 1, 0, |b| {
        let (x, index) = (b.input(F, &[5, 6]), b.stated(OpKind::Iota { dim: 1 }, &[], TensorType::new(I, [5, 6])));
        let (low, zero) = (b.splat(F, &[], f64::NEG_INFINITY), b.splat(I, &[], 0.0));
        let kind = OpKind::Reduce { dims: vec![1], reducer: Reducer::General };
        b.with_regions(kind, &[x, index, low, zero], vec![region(&[F, I, F, I], arg_max)]);
    });
}

fn products(list: &mut List) {
    let dot = |lb: &[usize], rb: &[usize], lc: &[usize], rc: &[usize]| {
        OpKind::Dot(DotDims { lhs_batch: lb.to_vec(), rhs_batch: rb.to_vec(), lhs_contract: lc.to_vec(), rhs_contract: rc.to_vec() })
    };
    let dots: [(&str, &[u64], &[u64], OpKind, usize); 9] = [
        ("a product", &[5, 6], &[6, 7], dot(&[], &[], &[1], &[0]), 3),
        ("a product of a transposed", &[6, 5], &[7, 6], dot(&[], &[], &[0], &[1]), 3),
        ("products of a batch", &[3, 5, 6], &[3, 6, 7], dot(&[0], &[0], &[2], &[1]), 4),
        ("products of a batch that is last", &[5, 6, 3], &[6, 3, 7], dot(&[2], &[1], &[1], &[0]), 4),
        ("products of two batches", &[3, 4, 5, 6], &[4, 3, 6], dot(&[0, 1], &[1, 0], &[3], &[2]), 4),
        ("a sum over two dimensions", &[5, 6, 3], &[3, 6, 7], dot(&[], &[], &[1, 2], &[1, 0]), 4),
        ("a matrix and a vector", &[5, 6], &[6], dot(&[], &[], &[1], &[0]), 2),
        ("two vectors", &[6], &[6], dot(&[], &[], &[0], &[0]), 1),
        ("an outer product", &[5], &[6], dot(&[], &[], &[], &[]), 2),
    ];
    for (name, l, r, kind, cuts) in dots {
        list.add(name, cuts, 2, |b| {
            let (l, r) = (b.input(F, l), b.input(F, r));
            b.op(kind, &[l, r]);
        });
    }
    // The one argument is either partial or whole, and nothing becomes partial: only the first read can be.
    list.add("a product with itself", 3, 1, |b| {
        let x = b.input(F, &[5, 6]);
        b.op(dot(&[], &[], &[1], &[1]), &[x, x]);
    });
    list.add("a product with an iota", 3, 1, |b| {
        let (x, i) = (b.input(F, &[5, 6]), b.stated(OpKind::Iota { dim: 0 }, &[], TensorType::new(F, [6, 7])));
        b.op(dot(&[], &[], &[1], &[0]), &[x, i]);
    });
    let plain = Window {
        size: vec![],
        stride: vec![2, 1],
        pad: vec![(1, 1), (0, 2)],
        base_dilation: vec![1, 2],
        window_dilation: vec![1, 2],
        reversal: vec![false, true],
    };
    let channels_last = ConvDims {
        input_batch: 0,
        input_feature: 3,
        input_spatial: vec![1, 2],
        kernel_input: 2,
        kernel_output: 3,
        kernel_spatial: vec![0, 1],
        output_batch: 0,
        output_feature: 3,
        output_spatial: vec![1, 2],
        window: plain,
        feature_groups: 1,
        batch_groups: 1,
    };
    let mixed = ConvDims {
        input_batch: 2,
        input_feature: 0,
        input_spatial: vec![1, 3],
        output_batch: 3,
        output_feature: 2,
        output_spatial: vec![0, 1],
        ..channels_last.clone()
    };
    let grouped = ConvDims { feature_groups: 2, ..channels_last.clone() };
    let convolutions: [(&str, &[u64], &[u64], ConvDims, usize, usize); 3] = [
        ("a convolution", &[5, 4, 4, 3], &[2, 2, 3, 6], channels_last, 3, 2),
        ("a convolution of mixed layouts", &[3, 4, 5, 4], &[2, 2, 3, 6], mixed, 3, 2),
        ("a convolution in groups", &[5, 4, 4, 6], &[2, 2, 3, 6], grouped, 0, 2),
    ];
    for (name, x, k, dims, cuts, partials) in convolutions {
        list.add(name, cuts, partials, |b| {
            let (x, k) = (b.input(F, x), b.input(F, k));
            b.op(OpKind::Convolution(Box::new(dims)), &[x, k]);
        });
    }
}

fn attention(list: &mut List) {
    // Subscripts, whether causal, the bias's type; factors cut in both directions, and in the derivative with the bias's gradient.
    let forms: [(&str, bool, DType); 4] =
        [("bqhgd,bkhd,bkhe->bqhge", true, F), ("bhqd,bkhd,kbhe->qbhe", false, F), ("hqd,hkd,ke,hqk->hqe", false, F), ("bqhd,bkhd,bkhe,bk->bhqe", true, B)];
    for (subscripts, causal, t) in forms {
        let a = Attention { causal, scale: Scale(0.25), ..Attention::from_subscripts(subscripts).expect("subscripts") };
        let cuts = a.batch().len() + 1;
        let gradient_of_bias = a.bias.is_some() && t == F;
        let inputs = |b: &mut Build| -> Vec<ValueId> {
            let size = |d: &AttentionDim| match d.letter() {
                'b' => 5,
                'q' => 7,
                'k' => 6,
                'h' => 3,
                'd' => 2,
                'e' => 4,
                _ => 2,
            };
            let dims = a.operand_dims();
            (0..).zip(&dims).map(|(i, dims)| b.input(if i == 3 { t } else { F }, &dims.iter().map(size).collect::<Vec<u64>>())).collect()
        };
        list.add(format!("attention {subscripts}"), cuts, 0, |b| {
            let operands = inputs(b);
            b.op(OpKind::Attention(Box::new(a.clone())), &operands);
        });
        list.add(format!("the derivative of attention {subscripts}"), cuts, 1, |b| {
            let operands = inputs(b);
            let made = b.with_regions(OpKind::Attention(Box::new(a.clone())), &operands, vec![]);
            let shape = b.0.ty(made[0]).shape.clone();
            let gradient = b.input(F, &shape);
            let all = [&operands[..3], &made, &[gradient], &operands[3..]].concat();
            b.op(OpKind::AttentionGrad { attention: Box::new(a.clone()), bias: gradient_of_bias }, &all);
        });
    }
}

fn gather(offset: &[usize], collapsed: &[usize], batching: (&[usize], &[usize]), map: &[usize], vector: usize, sizes: &[u64]) -> GatherDims {
    GatherDims {
        offset_dims: offset.to_vec(),
        collapsed_slice_dims: collapsed.to_vec(),
        operand_batching_dims: batching.0.to_vec(),
        start_indices_batching_dims: batching.1.to_vec(),
        start_index_map: map.to_vec(),
        index_vector_dim: vector,
        slice_sizes: sizes.to_vec(),
        indices_are_sorted: false,
    }
}

fn scatter(window: &[usize], inserted: &[usize], batching: (&[usize], &[usize]), map: &[usize], vector: usize) -> ScatterDims {
    ScatterDims {
        update_window_dims: window.to_vec(),
        inserted_window_dims: inserted.to_vec(),
        input_batching_dims: batching.0.to_vec(),
        scatter_indices_batching_dims: batching.1.to_vec(),
        scatter_dims_to_operand_dims: map.to_vec(),
        index_vector_dim: vector,
        indices_are_sorted: false,
        unique_indices: false,
    }
}

fn indexing(list: &mut List) {
    let none: (&[usize], &[usize]) = (&[], &[]);
    let gathers: [(&str, &[u64], &[u64], GatherDims, usize); 9] = [
        ("rows", &[7, 6], &[5, 1], gather(&[1], &[0], none, &[0], 1, &[1, 6]), 2),
        ("rows by a vector of indices", &[7, 6], &[5], gather(&[1], &[0], none, &[0], 1, &[1, 6]), 2),
        ("rows, window first", &[7, 6], &[5, 1], gather(&[0], &[0], none, &[0], 1, &[1, 6]), 2),
        ("rows, components first", &[7, 6], &[1, 5], gather(&[1], &[0], none, &[0], 0, &[1, 6]), 2),
        ("rows of a batch", &[5, 7, 6], &[5, 3, 1], gather(&[2], &[1], (&[0], &[0]), &[1], 2, &[1, 1, 6]), 3),
        ("rows of a batch that is second", &[7, 5, 6], &[3, 5, 1], gather(&[2], &[0], (&[1], &[1]), &[0], 2, &[1, 1, 6]), 3),
        ("pairs of rows", &[7, 6], &[5, 1], gather(&[1, 2], &[], none, &[0], 1, &[2, 6]), 2),
        ("elements", &[7, 6], &[5, 2], gather(&[], &[0, 1], none, &[0, 1], 1, &[1, 1]), 1),
        ("rows by an index of a whole dimension", &[7, 6], &[5, 2], gather(&[1], &[0], none, &[0, 1], 1, &[1, 6]), 1),
    ];
    for (name, x, i, dims, cuts) in gathers {
        list.add(format!("gathered {name}"), cuts, 1, |b| {
            let (x, i) = (b.input(F, x), b.input(I, i));
            b.op(OpKind::Gather(dims), &[x, i]);
        });
    }
    let rows = || scatter(&[1], &[0], none, &[0], 1);
    let batched = || scatter(&[2], &[1], (&[0], &[0]), &[1], 2);
    // Whether onto zeros; factors cut, sets partial.
    let scatters: [(&str, &[u64], &[u64], &[u64], ScatterDims, Reducer, bool, usize, usize); 11] = [
        ("rows added", &[7, 6], &[5, 1], &[5, 6], rows(), Reducer::Add, false, 1, 1),
        ("rows added to zeros", &[7, 6], &[5, 1], &[5, 6], rows(), Reducer::Add, true, 2, 1),
        ("rows added to zeros by a vector of indices", &[7, 6], &[5], &[5, 6], rows(), Reducer::Add, true, 2, 1),
        ("rows replaced", &[7, 6], &[5, 1], &[5, 6], rows(), Reducer::Replace, false, 1, 0),
        ("rows of maxima", &[7, 6], &[5, 1], &[5, 6], rows(), Reducer::Max, false, 1, 0),
        ("rows of maxima with zeros", &[7, 6], &[5, 1], &[5, 6], rows(), Reducer::Max, true, 1, 0),
        ("rows of a batch added", &[5, 7, 6], &[5, 3, 1], &[5, 3, 6], batched(), Reducer::Add, false, 2, 1),
        ("rows of a batch added to zeros", &[5, 7, 6], &[5, 3, 1], &[5, 3, 6], batched(), Reducer::Add, true, 3, 1),
        ("rows of a batch replaced", &[5, 7, 6], &[5, 3, 1], &[5, 3, 6], batched(), Reducer::Replace, false, 2, 0),
        ("elements added to zeros", &[7, 6], &[5, 2], &[5], scatter(&[], &[0, 1], none, &[0, 1], 1), Reducer::Add, true, 1, 1),
        ("pairs of rows added", &[7, 6], &[5, 1], &[5, 2, 6], scatter(&[1, 2], &[], none, &[0], 1), Reducer::Add, false, 1, 1),
    ];
    for (name, x, i, u, dims, reducer, zeros, cuts, partials) in scatters {
        list.add(format!("scattered {name}"), cuts, partials, |b| {
            let x = if zeros { b.splat(F, x, 0.0) } else { b.input(F, x) };
            let (i, u) = (b.input(I, i), b.input(F, u));
            b.op(OpKind::Scatter { dims, reducer }, &[x, i, u]);
        });
    }
}

fn windows(list: &mut List) {
    let window = |size: &[u64], stride: &[u64], pad: &[(i64, i64)]| Window {
        size: size.to_vec(),
        stride: stride.to_vec(),
        pad: pad.to_vec(),
        base_dilation: vec![1; size.len()],
        window_dilation: vec![1; size.len()],
        reversal: vec![],
    };
    let pooled = window(&[1, 3, 1], &[1, 2, 1], &[(0, 0), (1, 1), (0, 0)]);
    let strided = window(&[1, 3, 1], &[1, 1, 2], &[(0, 0), (0, 0), (0, 0)]);
    let padded = window(&[1, 2, 1], &[1, 1, 1], &[(1, 0), (0, 0), (0, 0)]);
    let dilated = Window { window_dilation: vec![2, 2, 3], base_dilation: vec![1, 2, 1], ..pooled.clone() };
    for (name, window, reducer, cuts) in [
        ("pooled maxima", pooled.clone(), Reducer::Max, 2),
        ("pooled sums", pooled, Reducer::Add, 2),
        ("windows with a stride elsewhere", strided, Reducer::Add, 1),
        ("windows with padding elsewhere", padded, Reducer::Min, 1),
        ("dilated windows", dilated, Reducer::Add, 2),
    ] {
        list.add(name, cuts, 0, |b| {
            let (x, init) = (b.input(F, &[5, 7, 6]), b.splat(F, &[], reducer.neutral(F).expect("neutral")));
            b.op(OpKind::ReduceWindow { window, reducer }, &[x, init]);
        });
    }
    list.add("gradients of pooled maxima", 1, 0, |b| {
        let (x, source, init) = (b.input(F, &[5, 6]), b.input(F, &[5, 3]), b.splat(F, &[], 0.0));
        let regions = vec![region(&[F, F], compare(Direction::Ge)), region(&[F, F], binary(BinaryOp::Add))];
        b.with_regions(OpKind::SelectAndScatter { window: window(&[1, 2], &[1, 2], &[(0, 0), (0, 0)]) }, &[x, source, init], regions);
    });
}

fn ordering(list: &mut List) {
    list.add("the largest", 1, 0, |b| {
        let x = b.input(F, &[5, 6]);
        b.op(OpKind::TopK { k: 2 }, &[x]);
    });
    for dim in [0, 1] {
        list.add(format!("sorted along {dim}"), 1, 0, |b| {
            let (x, i) = (b.input(F, &[5, 6]), b.stated(OpKind::Iota { dim }, &[], TensorType::new(I, [5, 6])));
            b.with_regions(OpKind::Sort { dim, stable: true }, &[x, i], vec![region(&[F, F, I, I], compare(Direction::Lt))]);
        });
    }
    list.add("a barrier", 3, 0, |b| {
        let (x, y) = (b.input(F, &[5, 6]), b.input(F, &[7]));
        b.op(OpKind::Barrier, &[x, y]);
    });
}

/// The names of all ops that have a rule.
pub const WITH_RULES: [&str; 31] = [
    "constant",
    "iota",
    "unary",
    "binary",
    "compare",
    "select",
    "clamp",
    "convert",
    "bitcast_convert",
    "reduce_precision",
    "broadcast",
    "reshape",
    "transpose",
    "slice",
    "pad",
    "concatenate",
    "reverse",
    "dynamic_slice",
    "dynamic_update_slice",
    "reduce",
    "reduce_window",
    "select_and_scatter",
    "dot",
    "convolution",
    "attention",
    "attention_grad",
    "gather",
    "scatter",
    "top_k",
    "sort",
    "barrier",
];

/// The name of an op that has a rule; `None` for those that are done whole, and for what exists over microbatches alone (which the interpreter does not
/// evaluate: accumulations and blocks).
pub fn has_rule(kind: &OpKind) -> Option<&'static str> {
    Some(match kind {
        OpKind::Constant(_) => "constant",
        OpKind::Iota { .. } => "iota",
        OpKind::Unary(_) => "unary",
        OpKind::Binary(_) => "binary",
        OpKind::Compare { .. } => "compare",
        OpKind::Select => "select",
        OpKind::Clamp => "clamp",
        OpKind::Convert => "convert",
        OpKind::BitcastConvert => "bitcast_convert",
        OpKind::ReducePrecision { .. } => "reduce_precision",
        OpKind::Broadcast { .. } => "broadcast",
        OpKind::Reshape => "reshape",
        OpKind::Transpose { .. } => "transpose",
        OpKind::Slice { .. } => "slice",
        OpKind::Pad { .. } => "pad",
        OpKind::Concatenate { .. } => "concatenate",
        OpKind::Reverse { .. } => "reverse",
        OpKind::DynamicSlice { .. } => "dynamic_slice",
        OpKind::DynamicUpdateSlice => "dynamic_update_slice",
        OpKind::Reduce { .. } => "reduce",
        OpKind::ReduceWindow { .. } => "reduce_window",
        OpKind::SelectAndScatter { .. } => "select_and_scatter",
        OpKind::Dot(_) => "dot",
        OpKind::Convolution(_) => "convolution",
        OpKind::Attention(_) => "attention",
        OpKind::AttentionGrad { .. } => "attention_grad",
        OpKind::Gather(_) => "gather",
        OpKind::Scatter { .. } => "scatter",
        OpKind::TopK { .. } => "top_k",
        OpKind::Sort { .. } => "sort",
        OpKind::Barrier => "barrier",
        OpKind::While
        | OpKind::If
        | OpKind::Case
        | OpKind::Call { .. }
        | OpKind::RngBitGenerator { .. }
        | OpKind::CustomCall { .. }
        | OpKind::AxisIndex { .. }
        | OpKind::AllReduce { .. }
        | OpKind::AllGather { .. }
        | OpKind::ReduceScatter { .. }
        | OpKind::AllToAll { .. }
        | OpKind::ShardSlice { .. } => return None,
    })
}
