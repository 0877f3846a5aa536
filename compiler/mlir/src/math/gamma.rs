//! The logarithm of the gamma function, and its derivative, by Stirling's series after a shift of small arguments. `f32` goes through `f64`.

use super::*;
use std::f64::consts::PI;

/// Arguments below this are shifted up by as much.
const SHIFT: u32 = 8;

/// Coefficients of Stirling's series for `log Γ`: `B(2k) / (2k·(2k-1))` of `x^(1-2k)`.
const STIRLING: &[f64] = &[1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0, 1.0 / 156.0, -3617.0 / 122_400.0];

/// Coefficients of the series for its derivative: `B(2k) / 2k` of `x^(-2k)`.
const DIGAMMA: &[f64] = &[1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32_760.0, 1.0 / 12.0, -3617.0 / 8160.0];

fn widened(b: &mut Builder, x: Val, f: impl FnOnce(&mut Builder, Val) -> Val) -> Val {
    if is_double(x) {
        return f(b, x);
    }
    let wide = b.convert("arith.extf", x, Elem::F64);
    let y = f(b, wide);
    b.convert("arith.truncf", y, Elem::F32)
}

/// Sine and cosine of `πx`, both up to the same sign.
fn sin_cos_pi(b: &mut Builder, x: Val) -> (Val, Val) {
    let whole = b.intrinsic("roundeven", &[x]);
    let rest = b.sub_exact(x, whole);
    let pi = b.float(x.ty, PI);
    let angle = b.mul_exact(rest, pi);
    (sin(b, angle), cos(b, angle))
}

pub(crate) fn lgamma(b: &mut Builder, x: Val) -> Val {
    widened(b, x, |b, x| {
        let (zero, one, half) = (b.float(x.ty, 0.0), b.float(x.ty, 1.0), b.float(x.ty, 0.5));
        let (shift, infinity) = (b.float(x.ty, f64::from(SHIFT)), b.float(x.ty, f64::INFINITY));
        let a = abs(b, x);
        let small = b.compare_float("olt", a, shift);
        let mut product = a;
        for k in 1..SHIFT {
            let k = b.float(x.ty, f64::from(k));
            let factor = b.add_exact(a, k);
            product = b.mul_exact(product, factor);
        }
        let product = b.select(small, product, one);
        let up = b.add_exact(a, shift);
        let z = b.select(small, up, a);
        let inverse = b.div(one, z);
        let square = b.mul(inverse, inverse);
        let series = polynomial(b, square, STIRLING);
        let series = b.mul(series, inverse);
        let logarithm = log(b, z);
        let below = b.sub_exact(z, half);
        let half_log = b.float(x.ty, 0.918_938_533_204_672_8);
        let main = b.mul_exact(below, logarithm);
        let main = b.sub_exact(main, z);
        let main = b.add_exact(main, half_log);
        let main = b.add_exact(main, series);
        let correction = log(b, product);
        let positive = b.sub_exact(main, correction);
        // Γ(x)·Γ(-x) = -π/(x·sin πx).
        let (sine, _) = sin_cos_pi(b, a);
        let below = b.mul_exact(a, sine);
        let below = abs(b, below);
        let pi = b.float(x.ty, PI);
        let quotient = b.div(pi, below);
        let reflected = log(b, quotient);
        let reflected = b.sub_exact(reflected, positive);
        let negative = b.compare_float("olt", x, zero);
        let y = b.select(negative, reflected, positive);
        let endless = b.compare_float("oeq", a, infinity);
        b.select(endless, infinity, y)
    })
}

pub(crate) fn digamma(b: &mut Builder, x: Val) -> Val {
    widened(b, x, |b, x| {
        let (zero, one, half) = (b.float(x.ty, 0.0), b.float(x.ty, 1.0), b.float(x.ty, 0.5));
        let shift = b.float(x.ty, f64::from(SHIFT));
        let negative = b.compare_float("ole", x, zero);
        let mirrored = b.sub_exact(one, x);
        let a = b.select(negative, mirrored, x);
        let small = b.compare_float("olt", a, shift);
        let mut sum = b.div(one, a);
        for k in 1..SHIFT {
            let k = b.float(x.ty, f64::from(k));
            let below = b.add_exact(a, k);
            let term = b.div(one, below);
            sum = b.add_exact(sum, term);
        }
        let sum = b.select(small, sum, zero);
        let up = b.add_exact(a, shift);
        let z = b.select(small, up, a);
        let inverse = b.div(one, z);
        let square = b.mul(inverse, inverse);
        let series = polynomial(b, square, DIGAMMA);
        let series = b.mul(series, square);
        let logarithm = log(b, z);
        let part = b.mul_exact(inverse, half);
        let main = b.sub_exact(logarithm, part);
        let main = b.sub_exact(main, series);
        let main = b.sub_exact(main, sum);
        // ψ(x) = ψ(1-x) - π·cot πx; at the poles this is no number.
        let (sine, cosine) = sin_cos_pi(b, x);
        let pi = b.float(x.ty, PI);
        let scaled = b.mul_exact(cosine, pi);
        let cotangent = b.div(scaled, sine);
        let reflected = b.sub_exact(main, cotangent);
        let pole = b.compare_float("oeq", sine, zero);
        let not_a_number = b.float(x.ty, f64::NAN);
        let reflected = b.select(pole, not_a_number, reflected);
        b.select(negative, reflected, main)
    })
}
