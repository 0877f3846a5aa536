//! Powers and roots.

use super::coefficients::*;
use super::exponential::{exp_with_tail, sqrt_half_bits};
use super::*;

/// `x^y` for floats. `f32` goes through `f64`, `f64` through a logarithm in two parts.
pub(crate) fn pow(b: &mut Builder, x: Val, y: Val) -> Val {
    let a = abs(b, x);
    let magnitude = if is_double(x) { pow_double(b, a, y) } else { pow_single(b, a, y) };
    let (zero, one) = (b.float(x.ty, 0.0), b.float(x.ty, 1.0));
    // A negative base: NaN unless the exponent is whole, negative when that is odd.
    let half = b.float(x.ty, 0.5);
    let whole_part = b.intrinsic("roundeven", &[y]);
    let whole = b.compare_float("oeq", whole_part, y);
    let halved = b.mul_exact(y, half);
    let even_part = b.intrinsic("roundeven", &[halved]);
    let uneven = b.compare_float("one", even_part, halved);
    let odd = b.and(whole, uneven);
    let signed = copysign(b, magnitude, x);
    let result = b.select(odd, signed, magnitude);
    let negative = b.compare_float("olt", x, zero);
    let minus_infinity = b.float(x.ty, f64::NEG_INFINITY);
    let finite = b.compare_float("one", x, minus_infinity);
    let fraction = b.not(whole);
    let undefined = b.and(negative, finite);
    let undefined = b.and(undefined, fraction);
    let not_a_number = b.float(x.ty, f64::NAN);
    let result = b.select(undefined, not_a_number, result);
    let unordered = b.compare_float("uno", x, y);
    let sum = b.add_exact(x, y);
    let result = b.select(unordered, sum, result);
    let unit = b.compare_float("oeq", x, one);
    let nothing = b.compare_float("oeq", y, zero);
    let is_one = b.or(unit, nothing);
    // (-1)^±∞ is one as well.
    let infinity = b.float(x.ty, f64::INFINITY);
    let ay = abs(b, y);
    let endless = b.compare_float("oeq", ay, infinity);
    let magnitude_one = b.compare_float("oeq", a, one);
    let minus_one = b.and(endless, magnitude_one);
    let is_one = b.or(is_one, minus_one);
    b.select(is_one, one, result)
}

/// Selects the limits that `y·log a` does not give: powers of zero and infinity.
fn with_limits(b: &mut Builder, a: Val, y: Val, power: Val) -> Val {
    let (zero, infinity) = (b.float(a.ty, 0.0), b.float(a.ty, f64::INFINITY));
    let is_zero = b.compare_float("oeq", a, zero);
    let is_infinite = b.compare_float("oeq", a, infinity);
    let positive = b.compare_float("ogt", y, zero);
    let of_zero = b.select(positive, zero, infinity);
    let of_infinity = b.select(positive, infinity, zero);
    let power = b.select(is_zero, of_zero, power);
    b.select(is_infinite, of_infinity, power)
}

fn pow_single(b: &mut Builder, a: Val, y: Val) -> Val {
    let (wide, exponent) = (b.convert("arith.extf", a, Elem::F64), b.convert("arith.extf", y, Elem::F64));
    let one = b.float(wide.ty, 1.0);
    let (m, e) = split_exponent(b, wide, sqrt_half_bits(wide));
    let e = small_to_float(b, e, Elem::F64);
    let (less, more) = (b.sub_exact(m, one), b.add_exact(m, one));
    let s = b.div(less, more);
    let square = b.mul(s, s);
    let p = polynomial(b, square, LOG2_WIDE);
    let logarithm = b.muladd(s, p, e);
    let z = b.mul_exact(exponent, logarithm);
    let z = at_most(b, z, 400.0);
    let z = at_least(b, z, -400.0);
    let (whole, n) = round_product(b, z, 1.0);
    let r = b.sub_exact(z, whole);
    let p = polynomial(b, r, EXP2_WIDE);
    let power = power_of_two(b, n, Elem::F64);
    let value = b.mul_exact(p, power);
    let value = b.convert("arith.truncf", value, Elem::F32);
    with_limits(b, a, y, value)
}

fn pow_double(b: &mut Builder, a: Val, y: Val) -> Val {
    let (one, two) = (b.float(a.ty, 1.0), b.float(a.ty, 2.0));
    let (normal, added) = normalise(b, a);
    let (m, e) = split_exponent(b, normal, sqrt_half_bits(a));
    let e = b.sub(e, added);
    let e = small_to_float(b, e, Elem::F64);
    // s = f/(2+f) with its error; log m = 2s + s³·R(s²).
    let f = b.sub_exact(m, one);
    let below = b.add_exact(f, two);
    let back = b.sub_exact(below, two);
    let below_low = b.sub_exact(f, back);
    let s = b.div(f, below);
    let (product, product_low) = two_product(b, s, below);
    let miss = b.sub_exact(f, product);
    let miss = b.sub_exact(miss, product_low);
    let part = b.mul_exact(s, below_low);
    let miss = b.sub_exact(miss, part);
    let s_low = b.div(miss, below);
    let square = b.mul(s, s);
    let p = polynomial(b, square, LOG_F64);
    let cube = b.mul(square, s);
    let twice_low = b.add_exact(s_low, s_low);
    let low = b.muladd(cube, p, twice_low);
    let twice = b.add_exact(s, s);
    let (high, low) = two_sum(b, twice, low);
    let (ln2_high, ln2_low) = ln2(a.ty);
    let (ln2_high, ln2_low) = (b.float(a.ty, ln2_high), b.float(a.ty, ln2_low));
    let whole = b.mul_exact(e, ln2_high);
    let (high, carried) = two_sum(b, whole, high);
    let low = b.add_exact(low, carried);
    let low = b.muladd(e, ln2_low, low);
    // Beyond this every power but that of one is zero or infinite.
    let exponent = at_most(b, y, 1.0e20);
    let exponent = at_least(b, exponent, -1.0e20);
    let (z, z_low) = two_product(b, exponent, high);
    let z_low = b.muladd(exponent, low, z_low);
    let (z, z_low) = two_sum(b, z, z_low);
    let magnitude = abs(b, z);
    let limit = b.float(a.ty, 1000.0);
    let ordinary = b.compare_float("olt", magnitude, limit);
    let zero = b.float(a.ty, 0.0);
    let z_low = b.select(ordinary, z_low, zero);
    let value = exp_with_tail(b, z, Some(z_low));
    with_limits(b, a, y, value)
}

/// `x^y` for integers: wrapping; a negative power is zero, except of one and minus one.
pub(crate) fn pow_int(b: &mut Builder, x: Val, y: Val, unsigned: bool) -> Val {
    let (zero, one) = (b.int(x.ty, 0), b.int(x.ty, 1));
    let (mut base, mut rest, mut result) = (x, y, one);
    for _ in 0..x.ty.elem.bits() {
        let low = b.and(rest, one);
        let odd = b.compare_int("ne", low, zero);
        let multiplied = b.mul(result, base);
        result = b.select(odd, multiplied, result);
        base = b.mul(base, base);
        rest = b.shift("arith.shrui", rest, 1);
    }
    if unsigned {
        return result;
    }
    let minus_one = b.int(x.ty, -1);
    let is_one = b.compare_int("eq", x, one);
    let is_minus_one = b.compare_int("eq", x, minus_one);
    let low = b.and(y, one);
    let odd = b.compare_int("ne", low, zero);
    let sign = b.select(odd, minus_one, one);
    let of_minus_one = b.select(is_minus_one, sign, zero);
    let inverse = b.select(is_one, one, of_minus_one);
    let negative = b.compare_int("slt", y, zero);
    b.select(negative, inverse, result)
}

pub(crate) fn cbrt(b: &mut Builder, x: Val) -> Val {
    let a = abs(b, x);
    let (normal, added) = normalise(b, a);
    let one_bits = if is_double(x) { 1f64.to_bits() as i64 } else { i64::from(1f32.to_bits()) };
    let (m, e) = split_exponent(b, normal, one_bits);
    let e = b.sub(e, added);
    // e = 3q + r with r of 0, 1, 2; then m·2^r is in [1, 8).
    let whole = small_to_float(b, e, x.ty.elem);
    let (third, sixth) = (b.float(x.ty, 1.0 / 3.0), b.float(x.ty, 1.0 / 6.0));
    let q = b.muladd(whole, third, sixth);
    let q = b.intrinsic("floor", &[q]);
    let minus_three = b.float(x.ty, -3.0);
    let r = b.muladd(q, minus_three, whole);
    let (half, three_halves) = (b.float(x.ty, 0.5), b.float(x.ty, 1.5));
    let (one, two, four) = (b.float(x.ty, 1.0), b.float(x.ty, 2.0), b.float(x.ty, 4.0));
    let at_least_one = b.compare_float("ogt", r, half);
    let at_least_two = b.compare_float("ogt", r, three_halves);
    let factor = b.select(at_least_one, two, one);
    let factor = b.select(at_least_two, four, factor);
    let m = b.mul_exact(m, factor);
    let mut y = polynomial(b, m, CBRT);
    for _ in 0..if is_double(x) { 2 } else { 1 } {
        // Halley: y ← y + y·(m - y³)/(2y³ + m).
        let square = b.mul_exact(y, y);
        let cube = b.mul_exact(square, y);
        let miss = b.sub_exact(m, cube);
        let below = b.muladd(cube, two, m);
        let step = b.div(miss, below);
        y = b.muladd(y, step, y);
    }
    let (_, n) = round_product(b, q, 1.0);
    let power = power_of_two(b, n, x.ty.elem);
    let y = b.mul_exact(y, power);
    let y = copysign(b, y, x);
    let (zero, infinity) = (b.float(x.ty, 0.0), b.float(x.ty, f64::INFINITY));
    let positive = b.compare_float("ogt", a, zero);
    let bounded = b.compare_float("olt", a, infinity);
    let ordinary = b.and(positive, bounded);
    b.select(ordinary, y, x)
}

/// The remainder of `x/y` with the sign of `x`, exactly (but for denormal `f64` divisors): quotients are taken 28 bits at a time.
pub(crate) fn remainder(b: &mut Builder, x: Val, y: Val) -> Val {
    let (wide, divisor) = if is_double(x) { (x, y) } else { (b.convert("arith.extf", x, Elem::F64), b.convert("arith.extf", y, Elem::F64)) };
    // The exponents of f32 span 277, those of f64 2098.
    let steps = if is_double(x) { 75 } else { 10 };
    let (a, c) = (abs(b, wide), abs(b, divisor));
    let f = format(wide.ty);
    let exponent = |b: &mut Builder, v: Val| {
        let bits = b.bitcast(v, Elem::I64);
        b.shift("arith.shrui", bits, f.mantissa)
    };
    let at = exponent(b, c);
    let rest = b.repeat(steps, 1, vec![a], |b, _, carried| {
        let a = carried[0];
        let (zero, span) = (b.int(at.ty, 0), b.int(at.ty, 28));
        let from = exponent(b, a);
        let distance = b.sub(from, at);
        let excess = b.sub(distance, span);
        let far = b.compare_int("sgt", excess, zero);
        let by = b.select(far, excess, zero);
        let scaled = scale(b, c, by);
        let quotient = b.div(a, scaled);
        let quotient = b.intrinsic("trunc", &[quotient]);
        let (product, error) = two_product(b, quotient, scaled);
        let left = b.sub_exact(a, product);
        let left = b.sub_exact(left, error);
        let float_zero = b.float(left.ty, 0.0);
        let negative = b.compare_float("olt", left, float_zero);
        let corrected = b.add_exact(left, scaled);
        let left = b.select(negative, corrected, left);
        // What is below the divisor stays, and infinities leave NaN.
        let below = b.compare_float("olt", a, c);
        Ok::<_, std::convert::Infallible>(vec![b.select(below, a, left)])
    });
    let Ok(rest) = rest;
    let value = if is_double(x) { rest[0] } else { b.convert("arith.truncf", rest[0], Elem::F32) };
    let value = copysign(b, value, x);
    let unordered = b.compare_float("uno", x, y);
    let sum = b.add_exact(x, y);
    b.select(unordered, sum, value)
}
