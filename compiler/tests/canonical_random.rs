//! Random graphs of data movement, products and reductions: folding, the refinement into atoms and the absorption of transposes compute the same.

use compiler::canonical::atoms::{self, Constraints};
use compiler::canonical::{dots, fold, onehot};
use ir::interp::{Precision, Tensor, run};
use ir::op::{BinaryOp, DotDims, GatherDims, OpKind, Reducer, ScatterDims, UnaryOp};
use ir::{DType, Graph, Literal, Loc, Module, TensorType, ValueId};
use proptest::prelude::*;

/// A small generator of numbers, so that a failing seed is all there is to report.
struct Source(u64);

impl Source {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n.max(1)
    }
    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

fn f32(shape: &[u64]) -> TensorType {
    TensorType::new(DType::F32, shape)
}

/// Splits a number into factors at random; size-1 factors appear too.
fn factors(s: &mut Source, n: u64) -> Vec<u64> {
    let mut rest = n;
    let mut out = Vec::new();
    while rest > 1 && out.len() < 3 {
        let divisors: Vec<u64> = (1..=rest).filter(|d| rest.is_multiple_of(*d)).collect();
        let d = s.pick(&divisors);
        out.push(d);
        rest /= d;
    }
    if rest > 1 || out.is_empty() {
        out.push(rest);
    }
    out
}

/// Adds a random op on a random earlier value.
fn grow(g: &mut Graph, s: &mut Source, values: &mut Vec<ValueId>) {
    let x = s.pick(values);
    let shape = g.ty(x).shape.clone();
    let rank = shape.len();
    let loc = Loc(0);
    let dim = s.below(rank as u64) as usize;
    let new = match s.below(13) {
        0 => {
            let to: Vec<u64> = if s.below(2) == 0 {
                // Merge two neighbours.
                if rank < 2 {
                    return;
                }
                let d = s.below(rank as u64 - 1) as usize;
                [&shape[..d], &[shape[d] * shape[d + 1]], &shape[d + 2..]].concat()
            } else {
                [&shape[..dim], &factors(s, shape[dim])[..], &shape[dim + 1..]].concat()
            };
            if to.len() > 6 {
                return;
            }
            g.add(OpKind::Reshape, vec![x], f32(&to), loc)
        }
        1 => {
            let mut perm: Vec<usize> = (0..rank).collect();
            for i in (1..rank).rev() {
                perm.swap(i, s.below(i as u64 + 1) as usize);
            }
            let to: Vec<u64> = perm.iter().map(|&p| shape[p]).collect();
            g.add(OpKind::Transpose { perm }, vec![x], f32(&to), loc)
        }
        2 | 3 => {
            let (mut start, mut limit, mut stride) = (vec![0; rank], shape.clone(), vec![1; rank]);
            let n = shape[dim];
            let pieces: Vec<u64> = (1..=n).filter(|p| n.is_multiple_of(*p)).collect();
            let (size, step) = (n / s.pick(&pieces), s.below(3) + 1);
            let at = s.below(n / size);
            if s.below(4) == 0 && n.is_multiple_of(step) {
                (start[dim], stride[dim]) = (s.below(step), step);
            } else {
                (start[dim], limit[dim]) = (at * size, (at + 1) * size);
            }
            let mut to = shape.clone();
            to[dim] = (limit[dim] - start[dim]).div_ceil(stride[dim]);
            g.add(OpKind::Slice { start, limit, stride }, vec![x], f32(&to), loc)
        }
        4 => {
            // Two values alike in all dimensions but one.
            let others: Vec<ValueId> = values
                .iter()
                .copied()
                .filter(|&v| g.ty(v).rank() == rank && (0..rank).all(|d| d == dim || g.ty(v).shape[d] == shape[d]) && g.ty(v).shape[dim] + shape[dim] <= 64)
                .collect();
            if others.is_empty() {
                return;
            }
            let y = s.pick(&others);
            let mut to = shape.clone();
            to[dim] += g.ty(y).shape[dim];
            g.add(OpKind::Concatenate { dim }, vec![x, y], f32(&to), loc)
        }
        5 => {
            let (mut low, mut high, mut interior) = (vec![0; rank], vec![0; rank], vec![0; rank]);
            (low[dim], high[dim]) = (s.pick(&[0, 0, 1, 2, shape[dim] as i64]), s.pick(&[0, 1, shape[dim] as i64]));
            interior[dim] = s.pick(&[0, 0, 1]);
            let mut to = shape.clone();
            to[dim] = to[dim] + (to[dim] - 1) * interior[dim] + (low[dim] + high[dim]) as u64;
            if to[dim] > 64 {
                return;
            }
            let zero = g.add(OpKind::Constant(Literal::splat(f32(&[]), 0.5)), vec![], f32(&[]), loc);
            g.add(OpKind::Pad { low, high, interior }, vec![x, zero], f32(&to), loc)
        }
        6 => {
            let zero = g.add(OpKind::Constant(Literal::splat(f32(&[]), 0.0)), vec![], f32(&[]), loc);
            let to = [&shape[..dim], &shape[dim + 1..]].concat();
            if to.is_empty() {
                return;
            }
            let reducer = s.pick(&[Reducer::Add, Reducer::Max]);
            let init = if reducer == Reducer::Max { g.add(OpKind::Constant(Literal::splat(f32(&[]), -1.0)), vec![], f32(&[]), loc) } else { zero };
            g.add(OpKind::Reduce { dims: vec![dim], reducer }, vec![x, init], f32(&to), loc)
        }
        7 => {
            let at = s.below(rank as u64 + 1) as usize;
            let n = s.pick(&[1, 2, 3]);
            if rank > 4 || shape.iter().product::<u64>() > 512 {
                return;
            }
            let to = [&shape[..at], &[n], &shape[at..]].concat();
            g.add(OpKind::Broadcast { dims: (0..rank).map(|d| if d < at { d } else { d + 1 }).collect() }, vec![x], f32(&to), loc)
        }
        8 => {
            let ty = f32(&shape);
            let iota = g.add(OpKind::Iota { dim }, vec![], ty.clone(), loc);
            g.add(OpKind::Binary(BinaryOp::Add), vec![x, iota], ty, loc)
        }
        9 => {
            let same: Vec<ValueId> = values.iter().copied().filter(|&v| g.ty(v).shape == shape).collect();
            let y = s.pick(&same);
            g.add(OpKind::Binary(s.pick(&[BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Maximum])), vec![x, y], f32(&shape), loc)
        }
        10 => {
            // A product over one dimension of equal size.
            let others: Vec<(ValueId, usize)> = values
                .iter()
                .flat_map(|&v| (0..g.ty(v).rank()).map(move |d| (v, d)))
                .filter(|&(v, d)| g.ty(v).shape[d] == shape[dim] && g.ty(v).rank() + rank <= 6 && g.ty(v).elements() * shape.iter().product::<u64>() <= 4096)
                .collect();
            if others.is_empty() || rank < 2 {
                return;
            }
            let (y, d) = s.pick(&others);
            let dims = DotDims { lhs_contract: vec![dim], rhs_contract: vec![d], ..DotDims::default() };
            let right = g.ty(y).shape.clone();
            let to = [&shape[..dim], &shape[dim + 1..], &right[..d], &right[d + 1..]].concat();
            g.add(OpKind::Dot(dims), vec![x, y], f32(&to), loc)
        }
        11 => g.add(OpKind::Reverse { dims: vec![dim] }, vec![x], f32(&shape), loc),
        _ => g.add(OpKind::Unary(UnaryOp::Negate), vec![x], f32(&shape), loc),
    };
    values.push(new);
}

fn graph(seed: u64) -> Graph {
    let mut s = Source(seed);
    let mut g = Graph::new("main");
    g.locs.push(Default::default());
    let mut values: Vec<ValueId> = (0..2)
        .map(|i| {
            let rank = s.below(3) as usize + 1;
            let shape: Vec<u64> = (0..rank).map(|_| s.pick(&[1, 2, 3, 4, 6, 8, 12])).collect();
            g.add_input(f32(&shape), format!("%arg{i}"))
        })
        .collect();
    for _ in 0..s.below(14) + 4 {
        grow(&mut g, &mut s, &mut values);
    }
    let count = values.len();
    g.outputs = values[count.saturating_sub(3)..].to_vec();
    g
}

fn numbered(ty: &TensorType) -> Tensor {
    // Small integers, so that sums and products are exact in any order.
    let values: Vec<f64> = (0..ty.elements()).map(|i| (i * 7 % 11) as f64 - 5.0).collect();
    Tensor::from_f64s(ty.clone(), &values).expect("as many values")
}

fn evaluate(graph: &Graph, arguments: &[Tensor]) -> Vec<Vec<f64>> {
    run(&Module::default(), graph, arguments, Precision::F64).expect("evaluates").iter().map(Tensor::to_f64s).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn passes_compute_the_same(seed in any::<u64>()) {
        let source = graph(seed);
        prop_assert_eq!(ir::verify::verify(&source), Ok(()));
        let arguments: Vec<Tensor> = source.inputs.iter().map(|&v| numbered(source.ty(v))).collect();
        let expected = evaluate(&source, &arguments);
        let folded = fold::run(&source);
        prop_assert_eq!(ir::verify::verify(&folded), Ok(()));
        prop_assert_eq!(&expected, &evaluate(&folded, &arguments), "fold");
        let (refined, view) = atoms::run(&folded, &Constraints::default());
        prop_assert_eq!(ir::verify::verify(&refined), Ok(()));
        for (v, shape) in source.inputs.iter().zip(&view.inputs) {
            prop_assert_eq!(source.ty(*v).elements(), shape.iter().product::<u64>());
        }
        let viewed: Vec<Tensor> = refined.inputs.iter().map(|&v| numbered(refined.ty(v))).collect();
        prop_assert_eq!(&expected, &evaluate(&refined, &viewed), "atoms");
        let absorbed = fold::run(&dots::run(&fold::run(&refined)));
        prop_assert_eq!(ir::verify::verify(&absorbed), Ok(()));
        prop_assert_eq!(&expected, &evaluate(&absorbed, &viewed), "dots");
    }
}

/// `take_along_axis` of rows of 5 and the sum of what it takes back into place, with indices below, inside and beyond the row.
#[test]
fn one_dimensional_gathers_clamp_and_scatters_drop() {
    let mut g = Graph::new("main");
    g.locs.push(Default::default());
    let x = g.add_input(f32(&[3, 5]), "%arg0");
    let indices = g.add_input(TensorType::new(DType::I32, [3, 2, 1]), "%arg1");
    let gather = OpKind::Gather(GatherDims {
        collapsed_slice_dims: vec![1],
        operand_batching_dims: vec![0],
        start_indices_batching_dims: vec![0],
        start_index_map: vec![1],
        index_vector_dim: 2,
        slice_sizes: vec![1, 1],
        ..GatherDims::default()
    });
    let taken = g.add(gather, vec![x, indices], f32(&[3, 2]), Loc(0));
    let zeros = g.add(OpKind::Constant(Literal::splat(f32(&[3, 5]), 0.0)), vec![], f32(&[3, 5]), Loc(0));
    let dims = ScatterDims {
        inserted_window_dims: vec![1],
        input_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![0],
        scatter_dims_to_operand_dims: vec![1],
        index_vector_dim: 2,
        ..ScatterDims::default()
    };
    let put = g.add(OpKind::Scatter { dims: dims.clone(), reducer: Reducer::Add }, vec![zeros, indices, taken], f32(&[3, 5]), Loc(0));
    let onto = g.add(OpKind::Scatter { dims, reducer: Reducer::Add }, vec![x, indices, taken], f32(&[3, 5]), Loc(0));
    g.outputs = vec![taken, put, onto];
    assert_eq!(ir::verify::verify(&g), Ok(()));
    let rewritten = onehot::run(&g);
    assert_eq!(ir::verify::verify(&rewritten), Ok(()));
    assert!(!rewritten.ops.values().any(|op| matches!(op.kind, OpKind::Gather(_) | OpKind::Scatter { .. })));
    let index = Tensor::from_i64s(rewritten.ty(rewritten.inputs[1]).clone(), &[-1, 0, 4, 4, 5, 2]).expect("six indices");
    let arguments = [numbered(&f32(&[3, 5])), index];
    assert_eq!(evaluate(&g, &arguments), evaluate(&rewritten, &arguments));
}
