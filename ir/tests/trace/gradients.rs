//! Every operation's derivative, on several shapes.

use crate::differences::{Input, check, check_within, input};
use ir::attention::Attention;
use ir::op::{ConvDims, DotDims, GatherDims, Reducer, ScatterDims, UnaryOp, Window};
use ir::trace::{Convolve, Initial, Tensor, Tracer, grad, pullback};
use ir::{DType, Literal, TensorType};

fn any(shape: &[u64]) -> Input {
    input(shape, -1.0, 1.0)
}

fn integers(tracer: &Tracer, shape: &[u64], values: &[i32]) -> Tensor {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    tracer.constant(Literal::dense(TensorType::new(DType::I32, shape), bytes).expect("as many values as elements"))
}

#[test]
fn functions_of_one_operand() {
    use UnaryOp::*;
    let all = [(-0.9, 0.9), (0.2, 1.9), (-1.8, -0.2)];
    let positive = [(0.2, 1.9), (1.0, 3.0), (0.1, 0.4)];
    let inside = [(-0.8, 0.8), (0.1, 0.7), (-0.8, -0.1)];
    let cases = [
        (Abs, all),
        (Cbrt, positive),
        (Cosine, all),
        (Erf, all),
        (ErfInv, inside),
        (Exponential, all),
        (ExponentialMinusOne, all),
        (Log, positive),
        (LogPlusOne, positive),
        (Logistic, all),
        (Negate, all),
        (Rsqrt, positive),
        (Sine, all),
        (Sqrt, positive),
        (Square, all),
        (Tan, inside),
        (Tanh, all),
        (Sinh, all),
        (Cosh, all),
        (Asin, inside),
        (Acos, inside),
        (Atan, all),
        (Asinh, all),
        (Acosh, [(1.2, 2.0), (1.5, 3.0), (2.0, 4.0)]),
        (Atanh, inside),
        (Erfc, all),
        (Lgamma, positive),
        (Digamma, [(0.6, 1.9), (1.0, 3.0), (-0.8, -0.2)]),
        (Real, all),
        (Imag, all),
    ];
    for (op, ranges) in cases {
        // Where f64 is not a function's own precision, the differences are no better.
        let tolerance = if matches!(op, Lgamma | Digamma | ErfInv) { 2e-6 } else { 4e-7 };
        for (shape, (low, high)) in [&[3u64, 4][..], &[5], &[2, 1, 3]].iter().zip(ranges) {
            check_within(&format!("{op:?}"), &[input(shape, low, high)], tolerance, |_, x| x[0].unary(op));
        }
    }
    for op in [Ceil, Floor, RoundNearestAfz, RoundNearestEven, Sign] {
        check(&format!("{op:?}"), &[input(&[5], 0.1, 0.45)], |_, x| x[0].unary(op) + &x[0]);
    }
}

#[test]
fn functions_of_two_operands() {
    let pair = |low: f64, high: f64| [input(&[3, 4], low, high), input(&[3, 4], low + 0.013, high + 0.4)];
    check("add", &pair(-1.0, 1.0), |_, x| &x[0] + &x[1]);
    check("subtract", &pair(-1.0, 1.0), |_, x| &x[0] - &x[1]);
    check("multiply", &pair(-1.0, 1.0), |_, x| &x[0] * &x[1]);
    check_within("divide", &pair(0.5, 1.5), 1e-6, |_, x| &x[0] / &x[1]);
    check("maximum", &pair(-1.0, 1.0), |_, x| x[0].maximum(&x[1]));
    check("minimum", &pair(-1.0, 1.0), |_, x| x[0].minimum(&x[1]));
    check_within("power", &pair(0.3, 1.5), 1e-6, |_, x| x[0].power(&x[1]));
    check("remainder", &[input(&[4], 2.1, 2.9), input(&[4], 0.8, 1.0)], |_, x| x[0].remainder(&x[1]));
    check_within("atan2", &pair(0.3, 1.5), 1e-6, |_, x| x[0].atan2(&x[1]));
    check("one tensor twice", &[any(&[4])], |_, x| &x[0] * &x[0] * &x[0]);
    check("numbers", &[input(&[4], 0.5, 2.0)], |_, x| 2.0 / (&x[0] * 3.0 + 1.0) - (1.0 - &x[0]));
    check("broadcast", &[any(&[3, 1, 2]), any(&[4, 1]), any(&[])], |_, x| &x[0] * &x[1] + &x[2] * &x[1]);
}

#[test]
fn powers_at_zero_have_no_infinities() {
    let tracer = Tracer::new();
    let (a, b) = (tracer.data("a", DType::F32, [2]), tracer.data("b", DType::F32, [2]));
    let g = grad(&a.power(&b).sum_all(), &[a, b]);
    let module = tracer.finish(&[("a", &g[0]), ("b", &g[1])]).unwrap_or_else(|e| panic!("{e}"));
    let value = |v: Vec<f32>| ir::interp::Tensor::from_f32s([2], v).expect("two values");
    let found = crate::differences::evaluate(&module, &[value(vec![0.0, 0.0]), value(vec![2.0, 0.0])]);
    assert_eq!([found[0].to_f64s(), found[1].to_f64s()].concat(), [0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn selections_and_conversions() {
    check("select", &[any(&[3, 2]), input(&[3, 2], -0.9, 1.1), any(&[3, 2])], |_, x| x[0].greater(&x[1]).select(&x[1], &(&x[2] * &x[0])));
    check("select by a scalar", &[any(&[3]), any(&[3])], |t, x| t.scalar(DType::I1, 1.0).select(&x[0], &x[1]));
    check("clamp", &[any(&[9])], |_, x| x[0].clamp(-0.5, 0.3).square());
    check("clamp between tensors", &[any(&[6]), input(&[6], -0.6, -0.3), input(&[6], 0.2, 0.5)], |_, x| x[0].clamp_between(&x[1], &x[2]).square());
    check("clamp between scalars", &[any(&[6]), input(&[], -0.6, -0.5), input(&[], 0.2, 0.5)], |_, x| x[0].clamp_between(&x[1], &x[2]).square());
    check("convert", &[any(&[4])], |_, x| (x[0].convert(DType::BF16) * 3.0).tanh().convert(DType::F64));
    check("through integers", &[input(&[4], 0.6, 0.9)], |_, x| x[0].convert(DType::I32).convert(DType::F32) + x[0].convert(DType::F16).convert(DType::F32));
    check("stop_gradient", &[any(&[4])], |_, x| &x[0] * 2.0 + (&x[0].stop_gradient() - &x[0].stop_gradient()));
    check("barrier", &[any(&[4]), any(&[2])], |_, x| {
        let both = Tensor::barrier(&[&x[0].square(), &x[1].exp()]);
        &both[0] * both[1].sum_all()
    });
}

#[test]
fn complex_numbers() {
    // Complex numbers of two f32 are rounded to that.
    check_within("complex", &[any(&[4]), any(&[4])], 1e-3, |_, x| {
        let z = x[0].complex(&x[1]);
        let w = &z * &z + z.exp() / (&z + 3.0);
        &w.real() * 2.0 + w.imag()
    });
    check_within("magnitude", &[input(&[3], 0.4, 1.0), input(&[3], 0.4, 1.0)], 1e-3, |_, x| (x[0].complex(&x[1]) * x[0].complex(&-&x[1]).sin()).abs());
    check_within("real to complex", &[any(&[3])], 1e-3, |_, x| (x[0].convert(DType::C64) * x[0].convert(DType::C64)).real());
}

#[test]
fn movement() {
    check("reshape", &[any(&[2, 6])], |_, x| x[0].reshape([3, 4]).square());
    check("transpose", &[any(&[2, 3, 2])], |_, x| x[0].transpose(&[2, 0, 1]).square());
    check("broadcast_in_dim", &[any(&[3, 1])], |_, x| x[0].broadcast_in_dim([4, 2, 3], &[2, 0]).square());
    check("broadcast of a scalar", &[any(&[])], |_, x| x[0].broadcast_in_dim([2, 2], &[]).square());
    check("slice", &[any(&[5, 7])], |_, x| x[0].slice(&[1, 0], &[4, 6], &[1, 2]).square());
    check("empty slice", &[any(&[5])], |_, x| x[0].slice(&[2], &[2], &[1]).sum_all() + x[0].sum_all());
    check("pad", &[any(&[2, 3]), any(&[])], |_, x| x[0].pad_with(&x[1], &[1, 0], &[0, 2], &[0, 1]).square());
    check("negative padding", &[any(&[4, 5]), any(&[])], |_, x| x[0].pad_with(&x[1], &[-1, 2], &[2, -1], &[1, 0]).square());
    check("concatenate", &[any(&[2, 2]), any(&[2, 1]), any(&[2, 3])], |_, x| x[0].concatenate(&[&x[1], &x[2]], 1).square());
    check("reverse", &[any(&[2, 3])], |_, x| x[0].reverse(&[0, 1]).square());
    check("dynamic_slice", &[any(&[4, 3])], |t, x| {
        let at = |i| t.scalar(DType::I32, i);
        x[0].dynamic_slice(&[&at(3.0), &at(1.0)], &[2, 2]).square()
    });
    check("dynamic_update_slice", &[any(&[4, 3]), any(&[2, 2])], |t, x| {
        let at = |i| t.scalar(DType::I32, i);
        x[0].dynamic_update_slice(&x[1], &[&at(1.0), &at(9.0)]).square()
    });
}

#[test]
fn products() {
    check("matmul", &[any(&[3, 4]), any(&[4, 2])], |_, x| x[0].matmul(&x[1]));
    check("matmul of rows", &[any(&[2, 3, 4]), any(&[4, 2])], |_, x| x[0].matmul(&x[1]).square());
    check("batched matmul", &[any(&[2, 3, 4]), any(&[2, 4, 2])], |_, x| x[0].matmul(&x[1]));
    check("vector", &[any(&[4]), any(&[4, 2])], |_, x| x[0].matmul(&x[1]));
    for letters in ["abc,bd->cda", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "ab,ab->", "abc,cbe->ae", "ab,c->cab", "abc,dbc->cd"] {
        let rank = |part: &str| (0..part.len()).map(|i| 2 + (part.as_bytes()[i] as u64) % 3).collect::<Vec<u64>>();
        let (left, right) = letters.split_once("->").expect("an arrow").0.split_once(',').expect("two operands");
        check(letters, &[any(&rank(left)), any(&rank(right))], |_, x| x[0].einsum(letters, &x[1]));
    }
    let dims = DotDims { lhs_batch: vec![2, 0], rhs_batch: vec![1, 3], lhs_contract: vec![3, 1], rhs_contract: vec![0, 2] };
    check("dot_general", &[any(&[2, 3, 2, 2]), any(&[2, 2, 3, 2, 2])], |_, x| x[0].dot_general(&x[1], dims.clone(), None));
    check("a product of halves", &[any(&[3, 4]), any(&[4, 2])], |_, x| {
        x[0].convert(DType::BF16).einsum_as("ab,bc->ac", &x[1].convert(DType::BF16), DType::F32).square()
    });
}

#[test]
fn convolutions() {
    let plain = Convolve::new(2, 1);
    check("convolution", &[any(&[2, 4, 3, 2]), any(&[3, 3, 2, 3])], |_, x| x[0].convolve(&x[1], &plain));
    check("strided", &[any(&[1, 5, 4, 2]), any(&[3, 2, 2, 2])], |_, x| x[0].convolve(&x[1], &plain.clone().stride(2)));
    let uneven = Convolve { stride: vec![3, 1], pad: vec![(0, 2), (1, 0)], dilation: vec![2, 1], groups: 1 };
    check("dilated", &[any(&[1, 7, 3, 1]), any(&[2, 2, 1, 2])], |_, x| x[0].convolve(&x[1], &uneven));
    let grouped = Convolve { groups: 2, ..Convolve::new(1, 1) };
    check("grouped", &[any(&[2, 4, 4]), any(&[3, 2, 6])], |_, x| x[0].convolve(&x[1], &grouped));
    let depthwise = Convolve { groups: 3, ..Convolve::new(1, 0).stride(2) };
    check("depthwise", &[any(&[1, 5, 3]), any(&[2, 1, 3])], |_, x| x[0].convolve(&x[1], &depthwise));
    let dims = ConvDims {
        input_batch: 2,
        input_feature: 1,
        input_spatial: vec![0],
        kernel_input: 2,
        kernel_output: 1,
        kernel_spatial: vec![0],
        output_batch: 0,
        output_feature: 2,
        output_spatial: vec![1],
        window: Window { size: vec![3], stride: vec![2], pad: vec![(-1, 2)], base_dilation: vec![2], window_dilation: vec![1], reversal: vec![true] },
        feature_groups: 1,
        batch_groups: 2,
    };
    check("batch groups, reversed", &[any(&[5, 3, 4]), any(&[3, 4, 3])], |_, x| x[0].convolution(&x[1], dims.clone()));
}

#[test]
fn reductions() {
    check("sum", &[any(&[2, 3, 2])], |_, x| x[0].sum(&[0, -1]).square());
    check("mean", &[any(&[2, 3])], |_, x| x[0].mean(&[1]).square());
    check("max", &[any(&[3, 4])], |_, x| x[0].max(&[-1]).square());
    check("min", &[any(&[3, 4])], |_, x| x[0].min(&[0]).square());
    check("product", &[any(&[2, 3, 2])], |_, x| x[0].product(&[0, 2]));
    check("product of one", &[any(&[2, 1])], |_, x| x[0].product(&[1]));
    check("product with a zero", &[any(&[5])], |t, x| (&x[0] * integers(t, &[5], &[1, 1, 0, 1, 1]).convert(DType::F32)).product(&[0]));
    check("cumsum", &[any(&[2, 4])], |_, x| x[0].cumsum(1).square());
}

#[test]
fn windows() {
    let w = |size: &[u64], stride: &[u64], pad: &[(i64, i64)], base: &[u64], dilation: &[u64]| Window {
        size: size.to_vec(),
        stride: stride.to_vec(),
        pad: pad.to_vec(),
        base_dilation: base.to_vec(),
        window_dilation: dilation.to_vec(),
        reversal: vec![],
    };
    let cases = [
        w(&[2, 2], &[1, 1], &[(0, 0), (0, 0)], &[1, 1], &[1, 1]),
        w(&[3, 2], &[2, 2], &[(1, 1), (0, 1)], &[1, 1], &[1, 1]),
        w(&[2, 1], &[1, 2], &[(1, 0), (0, 0)], &[1, 1], &[2, 1]),
        w(&[2, 2], &[1, 3], &[(-1, 1), (2, -1)], &[1, 1], &[1, 2]),
    ];
    for window in &cases {
        for reducer in [Reducer::Add, Reducer::Max, Reducer::Min, Reducer::Mul] {
            check(&format!("{reducer:?} {window:?}"), &[any(&[5, 5])], |_, x| {
                let y = x[0].reduce_window(reducer, window.clone());
                // Windows of nothing but padding have infinities, which have no differences.
                y.is_finite().select(&y, &y.full_like(0.0))
            });
        }
    }
    let dilated = w(&[3], &[1], &[(1, 1)], &[2], &[1]);
    for reducer in [Reducer::Add, Reducer::Max] {
        check("base dilation", &[any(&[4])], |_, x| x[0].reduce_window(reducer, dilated.clone()));
    }
    check("max_pool", &[any(&[1, 4, 4, 2])], |_, x| x[0].max_pool(&[2, 2], &[2, 2], &[(0, 0), (0, 0)]).square());
    check("sum_pool", &[any(&[1, 5, 4, 1])], |_, x| x[0].sum_pool(&[3, 2], &[2, 2], &[(1, 1), (0, 0)]).square());
    check("a large window", &[input(&[80], -4.0, 4.0)], |_, x| {
        let window = w(&[70], &[5], &[(3, 4)], &[1], &[1]);
        x[0].reduce_window(Reducer::Max, window)
    });
}

#[test]
fn lookups() {
    check("embed", &[any(&[5, 3])], |t, x| x[0].embed(&integers(t, &[2, 3], &[0, 4, 4, -7, 2, 9])).square());
    check("pick_last", &[any(&[2, 3, 4])], |t, x| x[0].pick_last(&integers(t, &[2, 3], &[0, 3, 1, 1, 2, 3])).square());
    check("gather of windows", &[any(&[4, 5, 2])], |t, x| {
        let dims = GatherDims {
            offset_dims: vec![0, 2],
            collapsed_slice_dims: vec![2],
            start_index_map: vec![1, 2],
            index_vector_dim: 0,
            slice_sizes: vec![2, 3, 1],
            ..GatherDims::default()
        };
        x[0].gather(&integers(t, &[2, 3], &[0, 2, 9, 1, 0, -1]), dims).square()
    });
    check("batched gather", &[any(&[3, 4])], |t, x| {
        let dims = GatherDims {
            offset_dims: vec![],
            collapsed_slice_dims: vec![1],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            start_index_map: vec![1],
            index_vector_dim: 2,
            slice_sizes: vec![1, 1],
            indices_are_sorted: false,
        };
        x[0].gather(&integers(t, &[3, 2], &[0, 3, 1, 1, 2, 0]), dims).square()
    });
    check("top_k", &[any(&[2, 5])], |_, x| x[0].top_k(3).0.square());
    check("sort", &[any(&[3, 4]), any(&[3, 4])], |_, x| {
        let sorted = x[0].sort(&[&x[1]], 0, true);
        sorted[0].square() + sorted[1].exp()
    });
}

#[test]
fn scatters() {
    let dims = |unique| ScatterDims {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        unique_indices: unique,
        ..ScatterDims::default()
    };
    // One is out of bounds, and dropped; two meet.
    for reducer in [Reducer::Add, Reducer::Replace, Reducer::Max, Reducer::Min] {
        check(&format!("scatter {reducer:?}"), &[any(&[4, 2]), input(&[4, 2], -1.03, 0.97)], |t, x| {
            x[0].scatter(&integers(t, &[4, 1], &[2, 0, 5, 2]), &x[1], dims(false), reducer).square()
        });
    }
    check("scatter Mul", &[any(&[4, 2]), any(&[3, 2])], |t, x| x[0].scatter(&integers(t, &[3, 1], &[2, 0, -1]), &x[1], dims(true), Reducer::Mul).square());
}

#[test]
fn derived_functions() {
    check("relu", &[any(&[6])], |_, x| x[0].relu());
    check("silu", &[any(&[6])], |_, x| x[0].silu());
    check("gelu", &[any(&[6])], |_, x| x[0].gelu());
    check("gelu_erf", &[any(&[6])], |_, x| x[0].gelu_erf());
    check("softplus", &[any(&[6])], |_, x| x[0].softplus());
    check("softmax", &[any(&[2, 4])], |_, x| x[0].softmax(-1));
    check("softmax over rows", &[any(&[3, 2])], |_, x| x[0].softmax(0));
    check("log_softmax", &[any(&[2, 4])], |_, x| x[0].log_softmax(-1));
    check("log_sum_exp", &[any(&[2, 4])], |_, x| x[0].log_sum_exp(1));
    check("cross_entropy", &[any(&[2, 3, 4])], |t, x| x[0].cross_entropy(&integers(t, &[2, 3], &[0, 3, 1, 2, 2, 1])));
    check_within("layer_norm", &[any(&[2, 5]), any(&[5]), any(&[5])], 1e-6, |_, x| x[0].layer_norm(&x[1], &x[2], 1e-5));
    check_within("rms_norm", &[any(&[2, 5]), any(&[5])], 1e-6, |_, x| x[0].rms_norm(&x[1], 1e-5));
    check("rotary", &[any(&[1, 3, 2, 4])], |_, x| x[0].rotary(10_000.0).square());
    check("dropout", &[any(&[4, 6])], |_, x| x[0].dropout(0.25, 3).square());
}

#[test]
fn attention() {
    for (groups, keys, causal) in [(4, 3, true), (2, 3, true), (2, 4, true), (4, 2, false)] {
        let inputs = || [any(&[1, 3, 4, 2]), any(&[1, keys, groups, 2]), any(&[1, keys, groups, 2])];
        check("as one op", &inputs(), |_, x| x[0].attend(&x[1], &x[2], causal));
        check("written out", &inputs(), |_, x| x[0].attend_written_out(&x[1], &x[2], causal));
        check("the same", &inputs(), |_, x| x[0].attend(&x[1], &x[2], causal) - x[0].attend_written_out(&x[1], &x[2], causal) + &x[0]);
    }
    let subscripts = "bqhd,bkhd,bkhe,hqk->bhqe";
    check("with a bias", &[any(&[1, 3, 2, 2]), any(&[1, 3, 2, 2]), any(&[1, 3, 2, 1]), any(&[2, 3, 3])], |_, x| {
        x[0].attention(&x[1], &x[2], Some(&x[3]), Attention::from_subscripts(subscripts).expect("subscripts")).square()
    });
    check("with a mask", &[any(&[2, 2, 1, 2]), any(&[2, 3, 1, 2]), any(&[2, 3, 1, 1])], |t, x| {
        let mask = integers(t, &[2, 3], &[1, 1, 0, 1, 1, 1]).convert(DType::I1);
        x[0].attention(&x[1], &x[2], Some(&mask), Attention::from_subscripts("bqhd,bkhd,bkhe,bk->bqhe").expect("subscripts"))
    });
}

#[test]
fn second_derivatives() {
    check("twice", &[input(&[4], 0.3, 1.0)], |_, x| {
        let y = (x[0].exp() * x[0].sin()).sum_all();
        grad(&y, &[x[0].clone()]).swap_remove(0)
    });
    check("twice through max_pool", &[any(&[1, 4, 4, 1])], |_, x| {
        let y = x[0].max_pool(&[2, 2], &[2, 2], &[(0, 0), (0, 0)]).exp().sum_all();
        grad(&y, &[x[0].clone()]).swap_remove(0)
    });
    check("twice through a large window", &[input(&[66], -3.0, 3.0)], |_, x| {
        let window = Window { size: vec![65], stride: vec![1], pad: vec![(0, 0)], base_dilation: vec![1], window_dilation: vec![1], reversal: vec![] };
        x[0].reduce_window(Reducer::Max, window).exp()
    });
    check("twice through attention", &[any(&[1, 2, 2, 2])], |_, x| {
        let y = x[0].attend_written_out(&x[0], &x[0], true).square().sum_all();
        grad(&y, &[x[0].clone()]).swap_remove(0)
    });
}

#[test]
fn what_is_stopped_and_what_is_not_reached() {
    let tracer = Tracer::new();
    let x = tracer.parameter("x", [3], Initial::Ones);
    let unused = tracer.parameter("unused", [2], Initial::Ones);
    let held = x.stop_gradient();
    let y = (&x * &held).sum_all();
    let g = grad(&y, &[x.clone(), unused.clone(), held, x.clone()]);
    let through = pullback(&[(x.square(), x.full_like(3.0))], std::slice::from_ref(&x));
    let outputs = [("x", &g[0]), ("unused", &g[1]), ("held", &g[2]), ("again", &g[3]), ("pulled", &through[0])];
    let module = tracer.finish(&outputs).unwrap_or_else(|e| panic!("{e}"));
    let value = |v: Vec<f32>| ir::interp::Tensor::from_f32s([v.len() as u64], v).expect("values");
    let found = crate::differences::evaluate(&module, &[value(vec![1.0, 2.0, 3.0]), value(vec![0.0, 0.0])]);
    let found: Vec<Vec<f64>> = found.iter().map(|t| t.to_f64s()).collect();
    assert_eq!(found, [vec![1.0, 2.0, 3.0], vec![0.0, 0.0], vec![1.0, 2.0, 3.0], vec![1.0, 2.0, 3.0], vec![6.0, 12.0, 18.0]]);
}
