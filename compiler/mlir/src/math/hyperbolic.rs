//! Hyperbolic functions and their inverses.

use super::coefficients::*;
use super::*;

/// Above this `e^x` overflows while `sinh` and `cosh` may not.
fn overflow(x: Val) -> f64 {
    if is_double(x) { 709.0 } else { 88.0 }
}

pub(crate) fn tanh(b: &mut Builder, x: Val) -> Val {
    let magnitude = abs(b, x);
    if is_double(x) {
        let a = at_most(b, magnitude, 22.0);
        let twice = b.add_exact(a, a);
        let t = expm1(b, twice);
        let two = b.float(x.ty, 2.0);
        let below = b.add_exact(t, two);
        let y = b.div(t, below);
        return copysign(b, y, x);
    }
    let a = at_most(b, x, 9.1);
    let a = at_least(b, a, -9.1);
    let square = b.mul(a, a);
    let above = polynomial(b, square, TANH_NUMERATOR_F32);
    let above = b.mul(a, above);
    let below = polynomial(b, square, TANH_DENOMINATOR_F32);
    let quotient = b.div(above, below);
    // Products with denormals would lose their low bits.
    let tiny = b.float(x.ty, 1e-4);
    let is_tiny = b.compare_float("olt", magnitude, tiny);
    b.select(is_tiny, x, quotient)
}

/// `(e^(a/2))²/2`, where `e^a` itself would overflow.
fn half_exp_of_large(b: &mut Builder, a: Val) -> Val {
    let half = b.float(a.ty, 0.5);
    let halved = b.mul_exact(a, half);
    let e = exp(b, halved);
    let part = b.mul_exact(e, half);
    b.mul_exact(part, e)
}

pub(crate) fn sinh(b: &mut Builder, x: Val) -> Val {
    let a = abs(b, x);
    let (one, half) = (b.float(x.ty, 1.0), b.float(x.ty, 0.5));
    let t = expm1(b, a);
    let below = b.add_exact(t, one);
    let quotient = b.div(t, below);
    let sum = b.add_exact(t, quotient);
    let ordinary = b.mul_exact(sum, half);
    let large = half_exp_of_large(b, a);
    let limit = b.float(x.ty, overflow(x));
    let is_large = b.compare_float("ogt", a, limit);
    let y = b.select(is_large, large, ordinary);
    let tiny = b.float(x.ty, if is_double(x) { 1e-9 } else { 1e-5 });
    let is_tiny = b.compare_float("olt", a, tiny);
    let y = b.select(is_tiny, a, y);
    copysign(b, y, x)
}

pub(crate) fn cosh(b: &mut Builder, x: Val) -> Val {
    let a = abs(b, x);
    let half = b.float(x.ty, 0.5);
    let e = exp(b, a);
    let inverse = b.div(half, e);
    let ordinary = b.muladd(e, half, inverse);
    let large = half_exp_of_large(b, a);
    let limit = b.float(x.ty, overflow(x));
    let is_large = b.compare_float("ogt", a, limit);
    b.select(is_large, large, ordinary)
}

/// `log a + ln 2` where `a` is so large that `a² + 1` is `a²`.
fn log_of_twice(b: &mut Builder, a: Val) -> Val {
    let ln2 = b.float(a.ty, std::f64::consts::LN_2);
    let main = log(b, a);
    b.add_exact(main, ln2)
}

pub(crate) fn asinh(b: &mut Builder, x: Val) -> Val {
    let a = abs(b, x);
    let one = b.float(x.ty, 1.0);
    let square = b.mul(a, a);
    let under = b.add_exact(square, one);
    let root = b.intrinsic("sqrt", &[under]);
    let below = b.add_exact(root, one);
    let quotient = b.div(square, below);
    let sum = b.add_exact(a, quotient);
    let ordinary = log1p(b, sum);
    let large = log_of_twice(b, a);
    let limit = b.float(x.ty, if is_double(x) { 2.6e8 } else { 1.6e4 });
    let is_large = b.compare_float("ogt", a, limit);
    let y = b.select(is_large, large, ordinary);
    copysign(b, y, x)
}

pub(crate) fn acosh(b: &mut Builder, x: Val) -> Val {
    let one = b.float(x.ty, 1.0);
    let t = b.sub_exact(x, one);
    let twice = b.add_exact(t, t);
    let under = b.muladd(t, t, twice);
    let root = b.intrinsic("sqrt", &[under]);
    let sum = b.add_exact(t, root);
    let ordinary = log1p(b, sum);
    let large = log_of_twice(b, x);
    let limit = b.float(x.ty, if is_double(x) { 2.6e8 } else { 1.6e4 });
    let is_large = b.compare_float("ogt", x, limit);
    let y = b.select(is_large, large, ordinary);
    let outside = b.compare_float("olt", x, one);
    let not_a_number = b.float(x.ty, f64::NAN);
    b.select(outside, not_a_number, y)
}

pub(crate) fn atanh(b: &mut Builder, x: Val) -> Val {
    let a = abs(b, x);
    let (one, half) = (b.float(x.ty, 1.0), b.float(x.ty, 0.5));
    let twice = b.add_exact(a, a);
    let below = b.sub_exact(one, a);
    let quotient = b.div(twice, below);
    let y = log1p(b, quotient);
    let y = b.mul_exact(y, half);
    copysign(b, y, x)
}
