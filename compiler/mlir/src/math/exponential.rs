//! Exponentials and logarithms.

use super::coefficients::*;
use super::*;

/// Above this `e^x` is infinite, below the second it is zero, gradual underflow included.
fn exp_limits(x: Val) -> (f64, f64) {
    if is_double(x) { (710.0, -746.0) } else { (89.0, -104.0) }
}

/// `x = n·ln 2 + r`: `r` and the bits of `n`.
fn reduce(b: &mut Builder, x: Val) -> (Val, Val) {
    let (high, low) = ln2(x.ty);
    let (whole, bits) = round_product(b, x, std::f64::consts::LOG2_E);
    let (high, low) = (b.float(x.ty, -high), b.float(x.ty, -low));
    let r = b.muladd(whole, high, x);
    (b.muladd(whole, low, r), bits)
}

/// `e^r - 1` for reduced `r`.
fn exp_minus_one_near_zero(b: &mut Builder, r: Val) -> Val {
    let p = polynomial(b, r, if is_double(r) { EXP_F64 } else { EXP_F32 });
    let square = b.mul(r, r);
    b.muladd(square, p, r)
}

/// `e^x`. In `f32` results below the smallest normal number are zero, which spares a third of the work.
pub(crate) fn exp(b: &mut Builder, x: Val) -> Val {
    if is_double(x) {
        return exp_with_tail(b, x, None);
    }
    let (r, n) = reduce(b, x);
    let one = b.float(x.ty, 1.0);
    let y = exp_minus_one_near_zero(b, r);
    let y = b.add_exact(y, one);
    // The power goes straight into the exponent; outside the range of normal numbers what comes of that is not used.
    let bits = b.bitcast(y, Elem::I32);
    let power = b.shift("arith.shli", n, 23);
    let bits = b.add(bits, power);
    let ordinary = b.bitcast(bits, Elem::F32);
    let (least, most) = (b.float(x.ty, -87.336_54), b.float(x.ty, 88.722_83));
    let (zero, infinity) = (b.float(x.ty, 0.0), b.float(x.ty, f64::INFINITY));
    // Zero below the range, and NaN for NaN.
    let negative = b.compare_float("ogt", zero, x);
    let below = b.select(negative, zero, x);
    let inside = b.compare_float("oge", x, least);
    let value = b.select(inside, ordinary, below);
    let over = b.compare_float("ogt", x, most);
    b.select(over, infinity, value)
}

/// `e^(x + tail)` for a small `tail`.
pub(super) fn exp_with_tail(b: &mut Builder, x: Val, tail: Option<Val>) -> Val {
    let (most, least) = exp_limits(x);
    let x = at_most(b, x, most);
    let x = at_least(b, x, least);
    let (mut r, n) = reduce(b, x);
    if let Some(tail) = tail {
        r = b.add_exact(r, tail);
    }
    let one = b.float(x.ty, 1.0);
    let y = exp_minus_one_near_zero(b, r);
    let y = b.add_exact(y, one);
    scale(b, y, n)
}

pub(crate) fn expm1(b: &mut Builder, x: Val) -> Val {
    let (most, _) = exp_limits(x);
    let clamped = at_most(b, x, most);
    let clamped = at_least(b, clamped, if is_double(x) { -40.0 } else { -20.0 });
    let (r, n) = reduce(b, clamped);
    let y = exp_minus_one_near_zero(b, r);
    // Half the power, so that the largest arguments do not overflow on the way.
    let one = b.int(n.ty, 1);
    let less = b.sub(n, one);
    let power = power_of_two(b, less, x.ty.elem);
    let half = b.float(x.ty, 0.5);
    let rest = b.sub_exact(power, half);
    let sum = b.muladd(power, y, rest);
    let result = b.add_exact(sum, sum);
    let magnitude = abs(b, x);
    let tiny = b.float(x.ty, if is_double(x) { 1e-17 } else { 1e-9 });
    let is_tiny = b.compare_float("olt", magnitude, tiny);
    b.select(is_tiny, x, result)
}

pub(crate) fn logistic(b: &mut Builder, x: Val) -> Val {
    let negated = b.neg(x);
    let e = exp(b, negated);
    let one = b.float(x.ty, 1.0);
    let sum = b.add_exact(e, one);
    b.div(one, sum)
}

/// The bits of `√½`, below which mantissas are doubled.
pub(super) fn sqrt_half_bits(x: Val) -> i64 {
    if is_double(x) { std::f64::consts::FRAC_1_SQRT_2.to_bits() as i64 } else { i64::from(std::f32::consts::FRAC_1_SQRT_2.to_bits()) }
}

pub(crate) fn log(b: &mut Builder, x: Val) -> Val {
    let (normal, added) = normalise(b, x);
    let (m, e) = split_exponent(b, normal, sqrt_half_bits(x));
    let e = b.sub(e, added);
    let e = small_to_float(b, e, x.ty.elem);
    let one = b.float(x.ty, 1.0);
    let f = b.sub_exact(m, one);
    let (high, low) = ln2(x.ty);
    let (high, low) = (b.float(x.ty, high), b.float(x.ty, low));
    let square = b.mul(f, f);
    let half = b.float(x.ty, 0.5);
    let finite = if is_double(x) {
        let two = b.float(x.ty, 2.0);
        let denominator = b.add_exact(f, two);
        let s = b.div(f, denominator);
        let z = b.mul(s, s);
        let p = polynomial(b, z, LOG_F64);
        let r = b.mul(z, p);
        // log(1+f) = f - (f²/2 - s·(f²/2 + r)).
        let half_square = b.mul_exact(square, half);
        let sum = b.add_exact(half_square, r);
        let low_part = b.mul(e, low);
        let correction = b.muladd(s, sum, low_part);
        let inner = b.sub_exact(half_square, correction);
        let inner = b.sub_exact(inner, f);
        let whole = b.mul_exact(e, high);
        b.sub_exact(whole, inner)
    } else {
        let p = polynomial(b, f, LOG_F32);
        let cube = b.mul(square, f);
        let low_part = b.mul(e, low);
        let y = b.muladd(cube, p, low_part);
        let minus_half = b.float(x.ty, -0.5);
        let y = b.muladd(square, minus_half, y);
        let y = b.add_exact(f, y);
        b.muladd(e, high, y)
    };
    let (zero, infinity) = (b.float(x.ty, 0.0), b.float(x.ty, f64::INFINITY));
    let minus_infinity = b.float(x.ty, f64::NEG_INFINITY);
    let not_a_number = b.float(x.ty, f64::NAN);
    let below = b.compare_float("olt", x, zero);
    let special = b.select(below, not_a_number, x);
    let is_zero = b.compare_float("oeq", x, zero);
    let special = b.select(is_zero, minus_infinity, special);
    let positive = b.compare_float("ogt", x, zero);
    let bounded = b.compare_float("olt", x, infinity);
    let ordinary = b.and(positive, bounded);
    b.select(ordinary, finite, special)
}

pub(crate) fn log1p(b: &mut Builder, x: Val) -> Val {
    let one = b.float(x.ty, 1.0);
    let u = b.add_exact(x, one);
    let back = b.sub_exact(u, one);
    let lost = b.sub_exact(x, back);
    let correction = b.div(lost, u);
    let main = log(b, u);
    let sum = b.add_exact(main, correction);
    let (zero, infinity) = (b.float(x.ty, 0.0), b.float(x.ty, f64::INFINITY));
    let positive = b.compare_float("ogt", u, zero);
    let bounded = b.compare_float("olt", u, infinity);
    let ordinary = b.and(positive, bounded);
    let result = b.select(ordinary, sum, main);
    // Exact where the result is the argument, so that the sign of zero stays.
    let is_one = b.compare_float("oeq", u, one);
    b.select(is_one, x, result)
}
