//! The 8-bit float kinds: decoding by their fields, encoding by nearest value, ties to even.

use crate::dtype::DType;

/// How the top of a kind's range is used.
#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// Infinities and NaNs as in IEEE 754.
    Ieee,
    /// No infinity; all ones is NaN.
    OnlyNan,
    /// No infinity and no negative zero; the pattern of negative zero is NaN.
    NanAtNegativeZero,
}

/// Exponent bits, mantissa bits, bias and specials of a signed kind.
fn fields(t: DType) -> (u32, u32, i32, Special) {
    match t {
        DType::F8E4M3FN => (4, 3, 7, Special::OnlyNan),
        DType::F8E4M3FNUZ => (4, 3, 8, Special::NanAtNegativeZero),
        DType::F8E4M3B11FNUZ => (4, 3, 11, Special::NanAtNegativeZero),
        DType::F8E5M2 => (5, 2, 15, Special::Ieee),
        DType::F8E5M2FNUZ => (5, 2, 16, Special::NanAtNegativeZero),
        DType::F8E4M3 => (4, 3, 7, Special::Ieee),
        DType::F8E3M4 => (3, 4, 3, Special::Ieee),
        t => unreachable!("invariant: {t} is not a signed 8-bit float"),
    }
}

/// The value of one byte of kind `t`.
pub fn decode(t: DType, b: u8) -> f64 {
    if t == DType::F8E8M0FNU {
        return if b == 255 { f64::NAN } else { 2f64.powi(i32::from(b) - 127) };
    }
    let (exponent_bits, mantissa_bits, bias, special) = fields(t);
    if special == Special::NanAtNegativeZero && b == 0x80 {
        return f64::NAN;
    }
    let sign = if b & 0x80 != 0 { -1.0 } else { 1.0 };
    let exponent = i32::from(b >> mantissa_bits & ((1 << exponent_bits) - 1));
    let mantissa = f64::from(b & ((1 << mantissa_bits) - 1));
    let scale = f64::from(1u32 << mantissa_bits);
    let top = exponent == (1 << exponent_bits) - 1;
    match special {
        Special::Ieee if top => return if mantissa == 0.0 { sign * f64::INFINITY } else { f64::NAN },
        Special::OnlyNan if top && mantissa == scale - 1.0 => return f64::NAN,
        _ => {}
    }
    sign * if exponent == 0 { mantissa / scale * 2f64.powi(1 - bias) } else { (1.0 + mantissa / scale) * 2f64.powi(exponent - bias) }
}

/// The byte of kind `t` nearest to `x`; what is out of range becomes infinity, or NaN where the kind has none.
pub fn encode(t: DType, x: f64) -> u8 {
    if x.is_nan() {
        return (0..=255u8).rev().find(|b| decode(t, *b).is_nan()).unwrap_or(0);
    }
    let overflow = || (0..=255u8).find(|b| decode(t, *b) == x.signum() * f64::INFINITY).unwrap_or_else(|| encode(t, f64::NAN));
    if x.is_infinite() {
        return overflow();
    }
    let largest = (0..=255u8).map(|b| decode(t, b)).filter(|v| v.is_finite()).fold(0.0, f64::max);
    let below = (0..=255u8).map(|b| decode(t, b)).filter(|v| v.is_finite() && *v < largest).fold(0.0, f64::max);
    if x.abs() >= largest + (largest - below) / 2.0 {
        return overflow();
    }
    let mut best = (f64::INFINITY, true, 0u8);
    for b in 0..=255u8 {
        let v = decode(t, b);
        if !v.is_finite() || (v == 0.0 && v.is_sign_negative() != x.is_sign_negative() && decode(t, 0x80) == 0.0) {
            continue;
        }
        let candidate = ((v - x).abs(), b & 1 == 1, b);
        if (candidate.0, candidate.1) < (best.0, best.1) {
            best = candidate;
        }
    }
    best.2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_round_trips() {
        use DType::*;
        for t in [F8E4M3FN, F8E4M3FNUZ, F8E4M3B11FNUZ, F8E5M2, F8E5M2FNUZ, F8E4M3, F8E3M4, F8E8M0FNU] {
            for b in 0..=255u8 {
                let v = decode(t, b);
                if !v.is_nan() {
                    assert_eq!(encode(t, v), b, "{t} {b} {v}");
                }
            }
        }
        assert_eq!(decode(F8E4M3FN, 0x7e), 448.0);
        assert_eq!(decode(F8E5M2, 0x7b), 57344.0);
    }
}
