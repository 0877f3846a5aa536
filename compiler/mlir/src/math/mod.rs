//! Elementary functions as polynomials in `arith`, for `f32` and `f64`, scalars and vectors alike; nothing is called.
//!
//! Infinities, NaNs, signed zeros and denormals are treated as IEEE 754 recommends unless a function says otherwise. The measured error of each function
//! is in `docs/kernels.md` and tested in `tests/accuracy.rs`. No function branches: special cases are selected at the end.

mod coefficients;
mod error_function;
mod exponential;
mod gamma;
mod hyperbolic;
mod power;
mod trigonometric;

pub(crate) use error_function::{erf, erf_inv, erfc};
pub(crate) use exponential::{exp, expm1, log, log1p, logistic};
pub(crate) use gamma::{digamma, lgamma};
pub(crate) use hyperbolic::{acosh, asinh, atanh, cosh, sinh, tanh};
pub(crate) use power::{cbrt, pow, pow_int, remainder};
pub(crate) use trigonometric::{acos, asin, atan, atan2, cos, sin, tan};

use crate::emit::builder::{Builder, Elem, Ty, Val};

/// The layout of a float type.
struct Format {
    mantissa: i64,
    bias: i64,
    /// `1.5 · 2^mantissa`: adding it rounds to an integer, which its low bits then hold.
    magic: f64,
}

fn format(ty: Ty) -> Format {
    match ty.elem {
        Elem::F64 => Format { mantissa: 52, bias: 1023, magic: 6755399441055744.0 },
        _ => Format { mantissa: 23, bias: 127, magic: 12582912.0 },
    }
}

fn is_double(x: Val) -> bool {
    x.ty.elem == Elem::F64
}

/// `Σ coefficients[k]·x^k` by Horner's rule.
fn polynomial(b: &mut Builder, x: Val, coefficients: &[f64]) -> Val {
    let (last, rest) = coefficients.split_last().expect("invariant: no polynomial is empty");
    let mut sum = b.float(x.ty, *last);
    for &c in rest.iter().rev() {
        let c = b.float(x.ty, c);
        sum = b.muladd(sum, x, c);
    }
    sum
}

/// `x` where it is below `limit`, else `limit`; NaN stays.
fn at_most(b: &mut Builder, x: Val, limit: f64) -> Val {
    let limit = b.float(x.ty, limit);
    let over = b.compare_float("olt", limit, x);
    b.select(over, limit, x)
}

/// `x` where it is above `limit`, else `limit`; NaN stays.
fn at_least(b: &mut Builder, x: Val, limit: f64) -> Val {
    let limit = b.float(x.ty, limit);
    let under = b.compare_float("ogt", limit, x);
    b.select(under, limit, x)
}

pub(crate) fn abs(b: &mut Builder, x: Val) -> Val {
    b.intrinsic("fabs", &[x])
}

pub(crate) fn copysign(b: &mut Builder, magnitude: Val, sign: Val) -> Val {
    b.intrinsic("copysign", &[magnitude, sign])
}

/// Rounds `x·factor` to an integer: as a float and as the bits of an integer of the same width.
fn round_product(b: &mut Builder, x: Val, factor: f64) -> (Val, Val) {
    let f = format(x.ty);
    let (factor, magic) = (b.float(x.ty, factor), b.float(x.ty, f.magic));
    let shifted = b.muladd(x, factor, magic);
    let whole = b.sub_exact(shifted, magic);
    let (bits, zero) = (b.bitcast(shifted, x.ty.elem.as_int()), b.bitcast(magic, x.ty.elem.as_int()));
    (whole, b.sub(bits, zero))
}

/// A small integer, given by its bits, as a float.
fn small_to_float(b: &mut Builder, n: Val, elem: Elem) -> Val {
    let ty = n.ty.with(elem);
    let magic = b.float(ty, format(ty).magic);
    let magic_bits = b.bitcast(magic, elem.as_int());
    let sum = b.add(n, magic_bits);
    let sum = b.bitcast(sum, elem);
    b.sub_exact(sum, magic)
}

/// `2^n` for `n` within the exponents of normal numbers.
fn power_of_two(b: &mut Builder, n: Val, elem: Elem) -> Val {
    let f = format(n.ty.with(elem));
    let bias = b.int(n.ty, f.bias);
    let biased = b.add(n, bias);
    let bits = b.shift("arith.shli", biased, f.mantissa);
    b.bitcast(bits, elem)
}

/// `x·2^n`, rounded once, for `n` within twice the exponents of normal numbers.
fn scale(b: &mut Builder, x: Val, n: Val) -> Val {
    let f = format(x.ty);
    // A logical shift of the biased number halves it: there is no arithmetic shift of 64-bit lanes before AVX-512.
    let bias = b.int(n.ty, 4 * f.bias);
    let biased = b.add(n, bias);
    let half = b.shift("arith.shrui", biased, 1);
    let half_bias = b.int(n.ty, 2 * f.bias);
    let first = b.sub(half, half_bias);
    let second = b.sub(n, first);
    let (first, second) = (power_of_two(b, first, x.ty.elem), power_of_two(b, second, x.ty.elem));
    let x = b.mul_exact(x, first);
    b.mul_exact(x, second)
}

/// `x = m·2^e` with `low <= m < 2·low`, for positive normal `x`; `low_bits` are the bits of `low`, and `e` is an integer of the same width.
fn split_exponent(b: &mut Builder, x: Val, low_bits: i64) -> (Val, Val) {
    let f = format(x.ty);
    let bits = b.bitcast(x, x.ty.elem.as_int());
    // The offset keeps the difference positive, so that the shift may be logical.
    let offset = b.int(bits.ty, low_bits.wrapping_sub((2 * f.bias) << f.mantissa));
    let low = b.int(bits.ty, low_bits);
    let distance = b.sub(bits, offset);
    let exponent = b.shift("arith.shrui", distance, f.mantissa);
    let bias = b.int(bits.ty, 2 * f.bias);
    let exponent = b.sub(exponent, bias);
    let fraction_mask = b.int(bits.ty, (1 << f.mantissa) - 1);
    let fraction = b.and(distance, fraction_mask);
    let mantissa = b.add(fraction, low);
    (b.bitcast(mantissa, x.ty.elem), exponent)
}

/// Scales denormals into the normal range: the new value and the exponent that was added (an integer of the same width).
fn normalise(b: &mut Builder, x: Val) -> (Val, Val) {
    let f = format(x.ty);
    let smallest = b.float(x.ty, 2f64.powi(1 - f.bias as i32));
    let up = b.float(x.ty, 2f64.powi(f.mantissa as i32 + 2));
    let denormal = b.compare_float("olt", x, smallest);
    let scaled = b.mul_exact(x, up);
    let x = b.select(denormal, scaled, x);
    let int = x.ty.as_int();
    let (added, none) = (b.int(int, f.mantissa + 2), b.int(int, 0));
    (x, b.select(denormal, added, none))
}

/// `a·b` exactly, as a rounded product and its error; no intermediate may overflow.
fn two_product(b: &mut Builder, x: Val, y: Val) -> (Val, Val) {
    let product = b.mul_exact(x, y);
    if b.fma {
        let negated = b.neg(product);
        let error = b.fused(x, y, negated);
        return (product, error);
    }
    // Dekker's product: without fused multiply-add nothing here can be contracted.
    let mut halves = |v: Val| {
        let splitter = b.float(v.ty, if is_double(v) { 134217729.0 } else { 4097.0 });
        let c = b.mul_exact(v, splitter);
        let t = b.sub_exact(c, v);
        let high = b.sub_exact(c, t);
        (high, b.sub_exact(v, high))
    };
    let ((xh, xl), (yh, yl)) = (halves(x), halves(y));
    let mut error = b.mul_exact(xh, yh);
    error = b.sub_exact(error, product);
    for (p, q) in [(xh, yl), (xl, yh), (xl, yl)] {
        let partial = b.mul_exact(p, q);
        error = b.add_exact(error, partial);
    }
    (product, error)
}

/// `a + b` exactly, as a rounded sum and its error.
fn two_sum(b: &mut Builder, x: Val, y: Val) -> (Val, Val) {
    let sum = b.add_exact(x, y);
    let part = b.sub_exact(sum, x);
    let rest = b.sub_exact(sum, part);
    let (dy, dx) = (b.sub_exact(y, part), b.sub_exact(x, rest));
    (sum, b.add_exact(dx, dy))
}

/// `x/y` for all lanes by one `y`: the reciprocal, which leaves the loop, and one correction. The last bit may differ from a division's; divisors so small
/// that their reciprocal overflows give infinities.
pub(crate) fn divide_by_uniform(b: &mut Builder, x: Val, y: Val) -> Val {
    let one = b.float(y.ty, 1.0);
    let reciprocal = b.div(one, y);
    let quotient = b.mul_exact(x, reciprocal);
    let negated = b.neg(y);
    let miss = b.fused(quotient, negated, x);
    let corrected = b.fused(miss, reciprocal, quotient);
    // Infinities and zeros among the operands make a NaN of the correction, where the quotient is right already.
    let ordinary = b.compare_float("ord", corrected, corrected);
    b.select(ordinary, corrected, quotient)
}

/// `ln 2` as a part with so few bits that its multiples by exponents are exact, and the rest.
fn ln2(ty: Ty) -> (f64, f64) {
    match ty.elem {
        Elem::F64 => (f64::from_bits(0x3fe62e42_fee00000), 1.9082149292705877e-10),
        _ => (0.693359375, -2.1219444005469057e-4),
    }
}
