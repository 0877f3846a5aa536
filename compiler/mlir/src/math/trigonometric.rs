//! Trigonometric functions and their inverses.
//!
//! `f32` arguments of any size are reduced exactly, in `f64`, by a long `2/π`. `f64` arguments are reduced by a three-part `π/2`, which is accurate up to
//! about a million.

use super::coefficients::*;
use super::*;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI};

/// `2/π` in parts of 29 bits: a product with an `f32` is exact in `f64`. Reaches below the last bit that the largest `f32` needs.
const TWO_OVER_PI: [f64; 7] = [
    0.636619770899415,
    1.4681663246252086e-09,
    2.2760100671971816e-18,
    5.8812147387730434e-27,
    1.0346868700836215e-35,
    3.783256351091319e-45,
    3.720474878517739e-53,
];

/// `π/2` in parts, the first two so short that their products with numbers below 2^20 are exact.
const PI_OVER_TWO_PARTS: [f64; 3] = [1.5707963267341256, 6.07710049817245e-11, 8.333742918520879e-20];

/// `x = n·π/2 + r` with `|r| <= π/4`: `r` in the type of `x`, and an integer with the two low bits of `n`.
fn reduce(b: &mut Builder, x: Val) -> (Val, Val) {
    if is_double(x) {
        let (n, bits) = round_product(b, x, FRAC_2_PI);
        let mut r = x;
        for part in PI_OVER_TWO_PARTS {
            let part = b.float(x.ty, -part);
            r = b.muladd(n, part, r);
        }
        return (r, bits);
    }
    let wide = b.convert("arith.extf", x, Elem::F64);
    let (quarter, four) = (b.float(wide.ty, 0.25), b.float(wide.ty, -4.0));
    let mut total: Option<(Val, Val)> = None;
    for part in TWO_OVER_PI {
        let part = b.float(wide.ty, part);
        let turns = b.mul_exact(wide, part);
        // Whole turns go, exactly: what is left has few bits.
        let whole = b.mul_exact(turns, quarter);
        let whole = b.intrinsic("roundeven", &[whole]);
        let rest = b.muladd(whole, four, turns);
        total = Some(match total {
            None => (rest, b.float(wide.ty, 0.0)),
            Some((sum, error)) => {
                let (sum, lost) = two_sum(b, sum, rest);
                (sum, b.add_exact(error, lost))
            }
        });
    }
    let (sum, error) = total.expect("invariant: 2/π has parts");
    let one = 1.0;
    let (n, bits) = round_product(b, sum, one);
    let rest = b.sub_exact(sum, n);
    let rest = b.add_exact(rest, error);
    let half_pi = b.float(wide.ty, FRAC_PI_2);
    let r = b.mul_exact(rest, half_pi);
    (b.convert("arith.truncf", r, Elem::F32), b.convert("arith.trunci", bits, Elem::I32))
}

fn sin_near(b: &mut Builder, r: Val) -> Val {
    let square = b.mul(r, r);
    let p = polynomial(b, square, if is_double(r) { SIN_F64 } else { SIN_F32 });
    let cube = b.mul(square, r);
    b.muladd(cube, p, r)
}

fn cos_near(b: &mut Builder, r: Val) -> Val {
    let square = b.mul(r, r);
    let p = polynomial(b, square, if is_double(r) { COS_F64 } else { COS_F32 });
    let (one, minus_half) = (b.float(r.ty, 1.0), b.float(r.ty, -0.5));
    let fourth = b.mul(square, square);
    let rest = b.mul(fourth, p);
    let rest = b.muladd(square, minus_half, rest);
    b.add_exact(rest, one)
}

/// Whether bit `bit` of `n` is set.
fn bit(b: &mut Builder, n: Val, bit: i64) -> Val {
    let (mask, zero) = (b.int(n.ty, bit), b.int(n.ty, 0));
    let masked = b.and(n, mask);
    b.compare_int("ne", masked, zero)
}

fn sin_of_quadrant(b: &mut Builder, r: Val, n: Val) -> Val {
    let (sine, cosine) = (sin_near(b, r), cos_near(b, r));
    let odd = bit(b, n, 1);
    let y = b.select(odd, cosine, sine);
    let negated = b.neg(y);
    let lower = bit(b, n, 2);
    b.select(lower, negated, y)
}

pub(crate) fn sin(b: &mut Builder, x: Val) -> Val {
    let (r, n) = reduce(b, x);
    let y = sin_of_quadrant(b, r, n);
    // Keeps the sign of zero and denormals.
    let a = abs(b, x);
    let tiny = b.float(x.ty, if is_double(x) { 1e-9 } else { 1e-5 });
    let is_tiny = b.compare_float("olt", a, tiny);
    b.select(is_tiny, x, y)
}

pub(crate) fn cos(b: &mut Builder, x: Val) -> Val {
    let (r, n) = reduce(b, x);
    let one = b.int(n.ty, 1);
    let n = b.add(n, one);
    sin_of_quadrant(b, r, n)
}

pub(crate) fn tan(b: &mut Builder, x: Val) -> Val {
    let (r, n) = reduce(b, x);
    let (sine, cosine) = (sin_near(b, r), cos_near(b, r));
    let odd = bit(b, n, 1);
    let negated = b.neg(cosine);
    let above = b.select(odd, negated, sine);
    let below = b.select(odd, sine, cosine);
    let y = b.div(above, below);
    let a = abs(b, x);
    let tiny = b.float(x.ty, if is_double(x) { 1e-9 } else { 1e-5 });
    let is_tiny = b.compare_float("olt", a, tiny);
    b.select(is_tiny, x, y)
}

/// `atan t` for `|t| <= tan(π/8)`.
fn atan_near(b: &mut Builder, t: Val) -> Val {
    let square = b.mul(t, t);
    let p = polynomial(b, square, if is_double(t) { ATAN_F64 } else { ATAN_F32 });
    let cube = b.mul(square, t);
    b.muladd(cube, p, t)
}

/// `base + y`, where `base` is rounded and `low` the rest of it.
fn add_constant(b: &mut Builder, y: Val, base: f64) -> Val {
    let rounded = if is_double(y) { base } else { f64::from(base as f32) };
    // The bits of π/2 below f64, for multiples of π/4 by powers of two.
    let low = if is_double(y) { base / FRAC_PI_2 * 6.123233995736766e-17 } else { base - rounded };
    let (high, low) = (b.float(y.ty, rounded), b.float(y.ty, low));
    let sum = b.add_exact(y, low);
    b.add_exact(high, sum)
}

const TAN_PI_8: f64 = 0.414_213_562_373_095_03;

/// `atan(low/high)` for `0 <= low <= high`, not both zero or infinite.
fn atan_of_quotient(b: &mut Builder, low: Val, high: Val) -> Val {
    let slope = b.float(low.ty, TAN_PI_8);
    let limit = b.mul_exact(high, slope);
    let steep = b.compare_float("ogt", low, limit);
    let (less, more) = (b.sub_exact(low, high), b.add_exact(low, high));
    let above = b.select(steep, less, low);
    let below = b.select(steep, more, high);
    let t = b.div(above, below);
    let near = atan_near(b, t);
    let turned = add_constant(b, near, FRAC_PI_4);
    b.select(steep, turned, near)
}

pub(crate) fn atan(b: &mut Builder, x: Val) -> Val {
    let one = b.float(x.ty, 1.0);
    let a = abs(b, x);
    let above_one = b.compare_float("ogt", a, one);
    let low = b.select(above_one, one, a);
    let high = b.select(above_one, a, one);
    let y = atan_of_quotient(b, low, high);
    let negated = b.neg(y);
    let complement = add_constant(b, negated, FRAC_PI_2);
    let y = b.select(above_one, complement, y);
    // An infinite argument made a NaN of the steep branch only; the flat one gives zero and then π/2.
    copysign(b, y, x)
}

pub(crate) fn atan2(b: &mut Builder, y: Val, x: Val) -> Val {
    let (zero, one) = (b.float(x.ty, 0.0), b.float(x.ty, 1.0));
    let (ay, ax) = (abs(b, y), abs(b, x));
    // Large magnitudes are scaled down so that their sum is finite; equal infinities count as equal numbers.
    let large = b.float(x.ty, if is_double(x) { 1e300 } else { 1e36 });
    let down = b.float(x.ty, if is_double(x) { 1e-10 } else { 1e-4 });
    let steep = b.compare_float("ogt", ay, ax);
    let high = b.select(steep, ay, ax);
    let low = b.select(steep, ax, ay);
    let is_large = b.compare_float("ogt", high, large);
    let factor = b.select(is_large, down, one);
    let (high, low) = (b.mul_exact(high, factor), b.mul_exact(low, factor));
    let infinity = b.float(x.ty, f64::INFINITY);
    let endless = b.compare_float("oeq", low, infinity);
    let (high, low) = (b.select(endless, one, high), b.select(endless, one, low));
    let nothing = b.compare_float("oeq", high, zero);
    let high = b.select(nothing, one, high);
    let angle = atan_of_quotient(b, low, high);
    let negated = b.neg(angle);
    let complement = add_constant(b, negated, FRAC_PI_2);
    let angle = b.select(steep, complement, angle);
    let negated = b.neg(angle);
    let reflected = add_constant(b, negated, PI);
    let sign = copysign(b, one, x);
    let left = b.compare_float("olt", sign, zero);
    let angle = b.select(left, reflected, angle);
    let angle = copysign(b, angle, y);
    let unordered = b.compare_float("uno", x, y);
    let not_a_number = b.add_exact(x, y);
    b.select(unordered, not_a_number, angle)
}

/// `asin a` for `0 <= a <= ½`.
fn asin_near(b: &mut Builder, a: Val) -> Val {
    let square = b.mul(a, a);
    let p = polynomial(b, square, if is_double(a) { ASIN_F64 } else { ASIN_F32 });
    let cube = b.mul(square, a);
    b.muladd(cube, p, a)
}

/// For `a = |x|`: whether it is at most one half, `asin a` if so, else `asin √((1-a)/2)`.
fn asin_parts(b: &mut Builder, x: Val) -> (Val, Val) {
    let (one, half) = (b.float(x.ty, 1.0), b.float(x.ty, 0.5));
    let a = abs(b, x);
    let small = b.compare_float("ole", a, half);
    let rest = b.sub_exact(one, a);
    let rest = b.mul_exact(rest, half);
    let root = b.intrinsic("sqrt", &[rest]);
    let argument = b.select(small, a, root);
    (small, asin_near(b, argument))
}

pub(crate) fn asin(b: &mut Builder, x: Val) -> Val {
    let (small, y) = asin_parts(b, x);
    let twice = b.add_exact(y, y);
    let negated = b.neg(twice);
    let complement = add_constant(b, negated, FRAC_PI_2);
    let y = b.select(small, y, complement);
    copysign(b, y, x)
}

pub(crate) fn acos(b: &mut Builder, x: Val) -> Val {
    let zero = b.float(x.ty, 0.0);
    let (small, y) = asin_parts(b, x);
    let negative = b.compare_float("olt", x, zero);
    let negated = b.neg(y);
    let signed = b.select(negative, y, negated);
    let near = add_constant(b, signed, FRAC_PI_2);
    let twice = b.add_exact(y, y);
    let minus_twice = b.neg(twice);
    let reflected = add_constant(b, minus_twice, PI);
    let far = b.select(negative, reflected, twice);
    b.select(small, near, far)
}
