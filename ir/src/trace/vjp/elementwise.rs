//! Derivatives of elementwise operations.

use super::{Pulled, Site};
use crate::op::{BinaryOp, UnaryOp};
use crate::trace::Tensor;

/// The cotangent of a function's operand; none where the derivative is zero.
pub(super) fn unary(op: UnaryOp, x: &Tensor, y: &Tensor, ct: &Tensor) -> Option<Tensor> {
    use UnaryOp::*;
    let root_pi = std::f64::consts::PI.sqrt();
    Some(match op {
        Abs if x.dtype().is_complex() => {
            // The part along x: conj(x) / |x|.
            let unit = ct / y;
            x.real().complex(&-x.imag()) * unit.complex(&unit.zeros_like())
        }
        Abs => ct * x.sign(),
        Cbrt => ct / (y.square() * 3.0),
        Cosine => -(ct * x.sin()),
        Erf => ct * gaussian(x, 2.0 / root_pi),
        Erfc => ct * gaussian(x, -2.0 / root_pi),
        ErfInv => ct * (y.square().exp() * (root_pi / 2.0)),
        Exponential => ct * y,
        ExponentialMinusOne => ct * (y + 1.0),
        Log => ct / x,
        LogPlusOne => ct / (x + 1.0),
        Logistic => ct * (y * (1.0 - y)),
        Negate => -ct,
        Rsqrt => ct * (y / x * -0.5),
        Sine => ct * x.cos(),
        Sqrt => ct * 0.5 / y,
        Square => ct * (x * 2.0),
        Tan => ct * (y.square() + 1.0),
        Tanh => ct * (1.0 - y.square()),
        Sinh => ct * x.cosh(),
        Cosh => ct * x.sinh(),
        Asin => ct * (1.0 - x.square()).rsqrt(),
        Acos => -(ct * (1.0 - x.square()).rsqrt()),
        Atan => ct / (x.square() + 1.0),
        Asinh => ct * (x.square() + 1.0).rsqrt(),
        Acosh => ct * ((x - 1.0).rsqrt() * (x + 1.0).rsqrt()),
        Atanh => ct / (1.0 - x.square()),
        Lgamma => ct * x.digamma(),
        Digamma => ct * trigamma(x),
        Real if x.dtype().is_complex() => ct.complex(&ct.zeros_like()),
        Real => ct.clone(),
        Imag if x.dtype().is_complex() => ct.zeros_like().complex(&-ct),
        Imag => return None,
        Ceil | CountLeadingZeros | Floor | IsFinite | Not | PopulationCount | RoundNearestAfz | RoundNearestEven | Sign => return None,
    })
}

/// `scale · e^(−x²)`.
fn gaussian(x: &Tensor, scale: f64) -> Tensor {
    (-x.square()).exp() * scale
}

/// The second derivative of the gamma function's logarithm: by recurrence to an argument of at least 8, where its asymptotic series holds,
/// and by reflection for arguments below one half.
fn trigamma(x: &Tensor) -> Tensor {
    let low = x.less(&x.full_like(0.5));
    let positive = low.select(&(1.0 - x), x);
    let mut sum = positive.square().full_like(0.0);
    for k in 0..8 {
        sum = sum + 1.0 / (&positive + f64::from(k)).square();
    }
    let inverse = 1.0 / (positive + 8.0);
    let square = inverse.square();
    // Bernoulli numbers: 1/6, −1/30, 1/42, −1/30, 5/66, −691/2730.
    let mut series = square.full_like(-691.0 / 2730.0);
    for coefficient in [5.0 / 66.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 1.0 / 6.0] {
        series = series * &square + coefficient;
    }
    let value = sum + &inverse + &square * 0.5 + inverse * square * series;
    let pi = std::f64::consts::PI;
    let reflected = (pi * pi) / (x * pi).sin().square() - &value;
    low.select(&reflected, &value)
}

/// Both cotangents of a binary function.
pub(super) fn binary(op: BinaryOp, site: &Site<'_>, ct: &Tensor) -> Pulled {
    use BinaryOp::*;
    let (a, b, y) = (&site.operands[0], &site.operands[1], &site.results[0]);
    let if_wanted = |i: usize, f: &dyn Fn() -> Tensor| site.wanted[i].then(f);
    let both = |f: &dyn Fn() -> Tensor, g: &dyn Fn() -> Tensor| Ok(vec![if_wanted(0, f), if_wanted(1, g)]);
    let zero = || ct.zeros_like();
    match op {
        Add => both(&|| ct.clone(), &|| ct.clone()),
        Subtract => both(&|| ct.clone(), &|| -ct),
        Multiply => both(&|| ct * b, &|| ct * a),
        Divide => both(&|| ct / b, &|| -(ct / b * y)),
        // Of equal operands the second is taken, so that the derivative of max(x, 0) is 0 at 0.
        Maximum => both(&|| a.greater(b).select(ct, &zero()), &|| a.greater(b).select(&zero(), ct)),
        Minimum => both(&|| a.less(b).select(ct, &zero()), &|| a.less(b).select(&zero(), ct)),
        Power => both(
            &|| {
                let none = b.equal(&b.zeros_like());
                let exponent = none.select(&b.full_like(1.0), &(b - 1.0));
                ct * none.select(&zero(), &(b * a.power(&exponent)))
            },
            &|| {
                let none = a.equal(&a.zeros_like());
                ct * none.select(&zero(), &(none.select(&a.full_like(1.0), a).log() * y))
            },
        ),
        Remainder => both(&|| ct.clone(), &|| {
            let quotient = a / b;
            -(ct * (quotient.sign() * quotient.abs().floor()))
        }),
        Atan2 if a.dtype().is_complex() => Err("the angle of complex numbers".into()),
        Atan2 => {
            let scaled = ct / (a.square() + b.square());
            both(&|| &scaled * b, &|| -(&scaled * a))
        }
        // A neighbour moves with its number.
        NextAfter => Ok(vec![if_wanted(0, &|| ct.clone()), None]),
        Complex => both(&|| ct.real(), &|| -ct.imag()),
        And | Or | Xor | ShiftLeft | ShiftRightArithmetic | ShiftRightLogical => Ok(vec![None, None]),
    }
}

pub(super) fn select(site: &Site<'_>, ct: &Tensor) -> Vec<Option<Tensor>> {
    let predicate = &site.operands[0];
    let zero = ct.zeros_like();
    vec![None, site.wanted[1].then(|| predicate.select(ct, &zero)), site.wanted[2].then(|| predicate.select(&zero, ct))]
}

/// The operand's where it is inside its bounds; a bound's where it is taken, summed if it is a scalar.
pub(super) fn clamp(site: &Site<'_>, ct: &Tensor) -> Vec<Option<Tensor>> {
    let [low, x, high] = [&site.operands[0], &site.operands[1], &site.operands[2]];
    let zero = ct.zeros_like();
    let (below, above) = (x.less(low), x.greater(high));
    let bound = |taken: Tensor, bound: &Tensor| {
        let part = taken.select(ct, &zero);
        if bound.rank() == 0 { part.sum_all() } else { part }
    };
    vec![
        site.wanted[0].then(|| bound(below.and(&above.logical_not()), low)),
        site.wanted[1].then(|| below.or(&above).select(&zero, ct)),
        site.wanted[2].then(|| bound(above.clone(), high)),
    ]
}

pub(super) fn convert(x: &Tensor, ct: &Tensor) -> Pulled {
    let (from, to) = (x.dtype(), ct.dtype());
    Ok(vec![match (from.is_complex(), to.is_complex()) {
        _ if from.is_integer() || to.is_integer() => None,
        (false, true) => Some(ct.real().convert(from)),
        (true, false) => {
            let part = ct.convert(from.part().unwrap_or(to));
            Some(part.complex(&part.zeros_like()))
        }
        _ => Some(ct.convert(from)),
    }])
}
