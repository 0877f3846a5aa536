//! The error function, its complement and its inverse.

use super::coefficients::*;
use super::exponential::exp_with_tail;
use super::*;

/// `erf x` for `|x| <= 1`.
fn near(b: &mut Builder, x: Val) -> Val {
    let square = b.mul(x, x);
    let p = polynomial(b, square, if is_double(x) { ERF_F64 } else { ERF_F32 });
    b.muladd(x, p, x)
}

/// `erfc a` for `a >= 1`.
fn complement_far(b: &mut Builder, a: Val) -> Val {
    let a = at_most(b, a, if is_double(a) { 28.0 } else { 11.0 });
    let (one, two, three) = (b.float(a.ty, 1.0), b.float(a.ty, 2.0), b.float(a.ty, 3.0));
    let (less, more) = (b.sub_exact(a, three), b.add_exact(a, three));
    let t = b.div(less, more);
    let p = polynomial(b, t, if is_double(a) { ERFCX_F64 } else { ERFCX_F32 });
    let below = b.muladd(a, two, one);
    let scaled = b.div(p, below);
    let (high, low) = two_product(b, a, a);
    let (high, low) = (b.neg(high), b.neg(low));
    let e = exp_with_tail(b, high, Some(low));
    b.mul_exact(e, scaled)
}

pub(crate) fn erf(b: &mut Builder, x: Val) -> Val {
    let a = abs(b, x);
    let one = b.float(x.ty, 1.0);
    let near = near(b, x);
    let complement = if is_double(x) {
        complement_far(b, a)
    } else {
        // Only the absolute error of the complement matters: a polynomial for its logarithm, without division.
        let clamped = at_most(b, a, 4.0);
        let centre = b.float(x.ty, 2.5);
        let t = b.sub_exact(clamped, centre);
        let p = polynomial(b, t, ERF_FAR_F32);
        let p = b.neg(p);
        exp(b, p)
    };
    let far = b.sub_exact(one, complement);
    let far = copysign(b, far, x);
    let is_near = b.compare_float("ult", a, one);
    b.select(is_near, near, far)
}

pub(crate) fn erfc(b: &mut Builder, x: Val) -> Val {
    let a = abs(b, x);
    let (one, two, zero) = (b.float(x.ty, 1.0), b.float(x.ty, 2.0), b.float(x.ty, 0.0));
    let erf = near(b, x);
    let near = b.sub_exact(one, erf);
    let far = complement_far(b, a);
    let reflected = b.sub_exact(two, far);
    let negative = b.compare_float("olt", x, zero);
    let far = b.select(negative, reflected, far);
    let is_near = b.compare_float("ult", a, one);
    b.select(is_near, near, far)
}

pub(crate) fn erf_inv(b: &mut Builder, x: Val) -> Val {
    let a = abs(b, x);
    let one = b.float(x.ty, 1.0);
    let (less, more) = (b.sub_exact(one, a), b.add_exact(one, a));
    let product = b.mul_exact(less, more);
    let w = log(b, product);
    let w = b.neg(w);
    let (coefficients, centre) = if is_double(x) { (ERF_INV_FAR_F64, 4.0) } else { (ERF_INV_FAR_F32, 3.0) };
    let (middle, centre) = (b.float(x.ty, 2.5), b.float(x.ty, centre));
    let t = b.sub_exact(w, middle);
    let near = polynomial(b, t, ERF_INV_NEAR_F32);
    let root = b.intrinsic("sqrt", &[w]);
    let t = b.sub_exact(root, centre);
    let far = polynomial(b, t, coefficients);
    let limit = b.float(x.ty, 5.0);
    let is_near = b.compare_float("olt", w, limit);
    let p = b.select(is_near, near, far);
    let mut y = b.mul_exact(p, a);
    if is_double(x) {
        for _ in 0..2 {
            y = refine_inverse(b, y, a, less);
        }
    }
    let infinity = b.float(x.ty, f64::INFINITY);
    let at_end = b.compare_float("oeq", a, one);
    let y = b.select(at_end, infinity, y);
    copysign(b, y, x)
}

/// One of Halley's steps towards `erf y = a`, on the complement `1 - a` where that is smaller.
fn refine_inverse(b: &mut Builder, y: Val, a: Val, complement: Val) -> Val {
    let (one, half) = (b.float(y.ty, 1.0), b.float(y.ty, 0.5));
    let (at, at_complement) = (near(b, y), erfc(b, y));
    let low = b.sub_exact(at, a);
    let high = b.sub_exact(complement, at_complement);
    let is_low = b.compare_float("olt", a, half);
    let miss = b.select(is_low, low, high);
    let square = b.mul(y, y);
    let negated = b.neg(square);
    let density = exp(b, negated);
    let factor = b.float(y.ty, std::f64::consts::FRAC_2_SQRT_PI);
    let slope = b.mul(density, factor);
    let step = b.div(miss, slope);
    let below = b.muladd(y, step, one);
    let step = b.div(step, below);
    b.sub_exact(y, step)
}
