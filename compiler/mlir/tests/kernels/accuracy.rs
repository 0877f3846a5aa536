//! Errors of the elementary functions in units in the last place, over the whole range, against `f64` (and for `f64` against the C library).
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they leave out, and what they measured")]

use super::build::Build;
use super::library::{Library, Machine};
use super::random::Random;
use ir::dtype::DType;
use ir::kernel::Kernel;
use ir::op::{BinaryOp, UnaryOp};

unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
    safe fn erfc(x: f64) -> f64;
    safe fn asinh(x: f64) -> f64;
    safe fn acosh(x: f64) -> f64;
    safe fn atanh(x: f64) -> f64;
    safe fn lgamma(x: f64) -> f64;
}

fn erf_inv(x: f64) -> f64 {
    if x.abs() >= 1.0 {
        return if x.abs() > 1.0 { f64::NAN } else { f64::INFINITY.copysign(x) };
    }
    if x.is_nan() || x.abs() < 1e-20 {
        return x * 0.886_226_925_452_758;
    }
    // Bisection on the complement, which keeps its relative precision near one.
    let a = x.abs();
    let (mut low, mut high) = (0.0, 7.0);
    for _ in 0..200 {
        let middle: f64 = 0.5 * (low + high);
        let below = if a < 0.5 { erf(middle) < a } else { erfc(middle) > 1.0 - a };
        if below { low = middle } else { high = middle }
    }
    (0.5 * (low + high)).copysign(x)
}

/// A function, its reference and the largest error in `f32` and `f64` ulps.
type Case = (UnaryOp, fn(f64) -> f64, f64, f64);

const CASES: &[Case] = &[
    (UnaryOp::Exponential, f64::exp, 1.1, 1.0),
    (UnaryOp::ExponentialMinusOne, f64::exp_m1, 2.0, 2.0),
    (UnaryOp::Log, f64::ln, 1.0, 1.0),
    (UnaryOp::LogPlusOne, f64::ln_1p, 2.0, 2.0),
    (UnaryOp::Tanh, f64::tanh, 5.0, 3.0),
    (UnaryOp::Logistic, |x| 1.0 / (1.0 + (-x).exp()), 3.0, 3.0),
    (UnaryOp::Erf, |x| erf(x), 2.0, 2.0),
    (UnaryOp::Erfc, |x| erfc(x), 6.0, 6.0),
    (UnaryOp::ErfInv, erf_inv, 4.0, 4.0),
    (UnaryOp::Sine, f64::sin, 2.0, 2.0),
    (UnaryOp::Cosine, f64::cos, 2.0, 2.0),
    (UnaryOp::Tan, f64::tan, 3.0, 3.0),
    (UnaryOp::Sinh, f64::sinh, 3.0, 3.0),
    (UnaryOp::Cosh, f64::cosh, 3.0, 3.0),
    (UnaryOp::Asin, f64::asin, 3.0, 3.0),
    (UnaryOp::Acos, f64::acos, 3.0, 3.0),
    (UnaryOp::Atan, f64::atan, 2.0, 2.0),
    (UnaryOp::Asinh, |x| asinh(x), 4.0, 4.0),
    (UnaryOp::Acosh, |x| acosh(x), 4.0, 4.0),
    (UnaryOp::Atanh, |x| atanh(x), 4.0, 4.0),
    (UnaryOp::Cbrt, f64::cbrt, 2.0, 2.0),
    (UnaryOp::Sqrt, f64::sqrt, 0.5, 0.5),
    (UnaryOp::Rsqrt, |x| 1.0 / x.sqrt(), 1.5, 1.5),
    (UnaryOp::RoundNearestAfz, f64::round, 0.0, 0.0),
    (UnaryOp::RoundNearestEven, f64::round_ties_even, 0.0, 0.0),
];

const SAMPLES: u64 = 40_000;

/// Arguments of every magnitude, densest where functions bend, and the special ones.
fn arguments(double: bool, largest: f64) -> Vec<f64> {
    let mut random = Random(7);
    let mut x = vec![0.0, -0.0, 1.0, -1.0, 0.5, -0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    x.extend([f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX), f64::from(f32::from_bits(1)), 88.7, 88.8, -87.4, -103.9, 9.1, 1.0 - 1e-7, 0.92]);
    while (x.len() as u64) < SAMPLES {
        let bits = random.next();
        x.push(match x.len() % 4 {
            0 if double => f64::from_bits(bits),
            0 => f64::from(f32::from_bits(bits as u32)),
            1 => (bits as f64 / 2f64.powi(64) - 0.5) * 2.0,
            2 => (bits as f64 / 2f64.powi(64) - 0.5) * 20.0,
            _ => (bits as f64 / 2f64.powi(64) - 0.5) * 2200.0,
        });
    }
    x.into_iter().filter(|v| v.is_nan() || v.is_infinite() || v.abs() <= largest).map(|v| if double { v } else { f64::from(v as f32) }).collect()
}

/// The distance of `got` from `want` in ulps of `want` in the type.
fn ulps(got: f64, want: f64, double: bool) -> f64 {
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let rounded = if double { want } else { f64::from(want as f32) };
    if got == rounded {
        return if double { 0.0 } else { 0.5 };
    }
    if rounded.is_infinite() || got.is_infinite() {
        return f64::INFINITY;
    }
    let exponent = want.abs().log2().floor().max(if double { -1022.0 } else { -126.0 });
    let ulp = if double { want.abs().next_up() - want.abs() } else { 2f64.powf(exponent - 23.0) };
    (got - want).abs() / ulp
}

fn evaluate(kernel: &Kernel, library: &dyn Machine, number: usize, inputs: &[&[f64]], double: bool) -> Vec<f64> {
    let encode = |x: &[f64]| -> Vec<u8> { x.iter().flat_map(|v| if double { v.to_le_bytes().to_vec() } else { (*v as f32).to_le_bytes().to_vec() }).collect() };
    let mut buffers: Vec<Vec<u8>> = inputs.iter().map(|x| encode(x)).collect();
    buffers.push(vec![0; buffers[0].len()]);
    assert_eq!(buffers.len(), kernel.params.len());
    library.call(number, &mut buffers, &[]);
    let out = buffers.pop().unwrap();
    if double {
        out.chunks(8).map(|c| f64::from_le_bytes(c.try_into().unwrap())).collect()
    } else {
        out.chunks(4).map(|c| f64::from(f32::from_le_bytes(c.try_into().unwrap()))).collect()
    }
}

/// Holds every function to its bounds, as `compile` runs it.
pub(crate) fn check_unary(double: bool, compile: &dyn Fn(&[&Kernel]) -> Box<dyn Machine>) {
    let dtype = if double { DType::F64 } else { DType::F32 };
    let mut kernels = Vec::new();
    let mut arguments_of = Vec::new();
    for (op, ..) in CASES {
        let periodic = matches!(op, UnaryOp::Sine | UnaryOp::Cosine | UnaryOp::Tan);
        let x = arguments(double, if double && periodic { 1e5 } else { f64::INFINITY });
        let mut b = Build::new(&[x.len() as u64], &[]);
        let v = b.input(dtype, &[0]);
        let y = b.unary(*op, v);
        b.output(y, &[0]);
        kernels.push(b.0);
        arguments_of.push(x);
    }
    let library = compile(&kernels.iter().collect::<Vec<_>>());
    let mut report = String::new();
    let mut failed = false;
    for (number, (op, reference, single_bound, double_bound)) in CASES.iter().enumerate() {
        let x = &arguments_of[number];
        let y = evaluate(&kernels[number], library.as_ref(), number, &[x], double);
        let bound = if double { *double_bound } else { *single_bound };
        let mut worst = (0.0, 0.0, 0.0, 0.0);
        for (x, got) in x.iter().zip(y) {
            let want = reference(*x);
            // These may flush results below the smallest normal number.
            let least = if double { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
            if matches!(op, UnaryOp::Logistic | UnaryOp::Exponential) && want < least && got == 0.0 {
                continue;
            }
            let error = ulps(got, want, double);
            if error > worst.0 {
                worst = (error, *x, got, want);
            }
        }
        report += &format!("{op:?} {dtype}: {:.2} ulp at {:e} ({:e} for {:e})\n", worst.0, worst.1, worst.2, worst.3);
        failed |= worst.0 > bound.max(0.5);
    }
    assert!(!failed, "\n{report}");
    // The table of `docs/kernels.md` is made from this.
    eprintln!("{report}");
}

#[test]
fn f32_functions_keep_their_bounds() {
    check_unary(false, &|kernels| Box::new(Library::compile_for(kernels, mlir::CpuTarget::V3)));
}

#[test]
fn f32_functions_keep_their_bounds_without_fused_products() {
    check_unary(false, &|kernels| Box::new(Library::compile_for(kernels, mlir::CpuTarget::V2)));
}

#[test]
fn f64_functions_keep_their_bounds() {
    check_unary(true, &|kernels| Box::new(Library::compile_for(kernels, mlir::CpuTarget::V3)));
}

/// Holds the functions of two arguments to their bounds, as `compile` runs them.
pub(crate) fn check_binary(compile: &dyn Fn(&[&Kernel]) -> Box<dyn Machine>) {
    for double in [false, true] {
        let dtype = if double { DType::F64 } else { DType::F32 };
        let x = arguments(double, f64::INFINITY);
        let special = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e30, -1e30];
        let (mut left, mut right) = (vec![], vec![]);
        for a in special {
            for b in special {
                left.push(if double { a } else { f64::from(a as f32) });
                right.push(if double { b } else { f64::from(b as f32) });
            }
        }
        for (i, v) in x.iter().enumerate() {
            left.push(if i % 2 == 0 { v.abs() } else { *v });
            right.push(x[(i * 31 + 7) % x.len()]);
        }
        let cases: [(BinaryOp, fn(f64, f64) -> f64, f64); 3] =
            [(BinaryOp::Power, f64::powf, 4.0), (BinaryOp::Atan2, f64::atan2, 3.0), (BinaryOp::Remainder, |x, y| x % y, 0.0)];
        let kernels: Vec<Kernel> = cases
            .iter()
            .map(|(op, ..)| {
                let mut b = Build::new(&[left.len() as u64], &[]);
                let (x, y) = (b.input(dtype, &[0]), b.input(dtype, &[0]));
                let z = b.binary(*op, x, y);
                b.output(z, &[0]);
                b.0
            })
            .collect();
        let library = compile(&kernels.iter().collect::<Vec<_>>());
        let mut report = String::new();
        let mut failed = false;
        for (number, (op, reference, bound)) in cases.iter().enumerate() {
            let z = evaluate(&kernels[number], library.as_ref(), number, &[&left, &right], double);
            let mut worst = (0.0, 0.0, 0.0, 0.0, 0.0);
            for ((x, y), got) in left.iter().zip(&right).zip(z) {
                if *op == BinaryOp::Remainder && double && y.abs() < f64::MIN_POSITIVE {
                    continue;
                }
                let want = reference(*x, *y);
                let error = ulps(got, want, double);
                if error > worst.0 {
                    worst = (error, *x, *y, got, want);
                }
            }
            report += &format!("{op:?} {dtype}: {:.2} ulp at {:e}, {:e} ({:e} for {:e})\n", worst.0, worst.1, worst.2, worst.3, worst.4);
            failed |= worst.0 > bound.max(0.5);
        }
        assert!(!failed, "\n{report}");
        eprintln!("{report}");
    }
}

#[test]
fn binary_functions_keep_their_bounds() {
    check_binary(&|kernels| Box::new(Library::compile(kernels)));
}

#[test]
fn gamma_functions_are_close() {
    let mut random = Random(3);
    let mut x: Vec<f64> = (0..2000).map(|_| (random.below(100_000) as f64 - 30_000.0) / 1000.0 + 0.0005).collect();
    x.extend([1e-10, 1e10, f64::INFINITY, f64::NAN, 0.0, -1.0, -2.0, 1.0, 2.0, 100.0]);
    for double in [false, true] {
        let dtype = if double { DType::F64 } else { DType::F32 };
        let x: Vec<f64> = x.iter().map(|v| if double { *v } else { f64::from(*v as f32) }).collect();
        let kernels: Vec<Kernel> = [UnaryOp::Lgamma, UnaryOp::Digamma]
            .into_iter()
            .map(|op| {
                let mut b = Build::new(&[x.len() as u64], &[]);
                let v = b.input(dtype, &[0]);
                let y = b.unary(op, v);
                b.output(y, &[0]);
                b.0
            })
            .collect();
        let library = Library::compile(&kernels.iter().collect::<Vec<_>>());
        let precision = if double { 1e-13 } else { 1e-7 };
        for (x, got) in x.iter().zip(evaluate(&kernels[0], &library, 0, &[&x], double)) {
            let want = lgamma(*x);
            let close = (got - want).abs() <= precision * want.abs().max(1.0);
            assert!(close || got == want || (got.is_nan() && want.is_nan()), "lgamma {x}: {got} for {want}");
        }
        let slopes = evaluate(&kernels[1], &library, 1, &[&x], double);
        for (x, got) in x.iter().zip(slopes) {
            // A pole is no number; elsewhere the derivative of lgamma, by a quotient of the reference.
            if *x <= 0.0 && x.fract() == 0.0 {
                assert!(got.is_nan(), "digamma {x}: {got}");
            } else if x.abs() < 100.0 && (x - x.round()).abs() > 1e-3 {
                let step = 1e-5;
                let want = (lgamma(x + step) - lgamma(x - step)) / (2.0 * step);
                assert!((got - want).abs() <= 1e-4 * want.abs().max(1.0), "digamma {x}: {got} for {want}");
            }
        }
        assert!((evaluate(&kernels[1], &library, 1, &[&vec![1.0; x.len()]], double)[0] + 0.577_215_664_901_532_9).abs() < precision);
    }
}
