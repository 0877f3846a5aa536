//! Special functions in `f64`, by series whose error is known rather than by fitted tables.
//!
//! The error function uses Kummer's all-positive series near zero and its continued fraction in the tail, so no cancellation occurs on either side;
//! the inverse polishes a rough guess by Halley's method on the same function. Lanczos' approximation (g = 7) gives the logarithm of gamma.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// Where the series is left for the continued fraction.
const TAIL: f64 = 2.5;

/// The error function.
pub(crate) fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.abs() < TAIL { erf_series(x) } else { x.signum() * (1.0 - erfc_tail(x.abs())) }
}

/// The complementary error function.
pub(crate) fn erfc(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x >= TAIL {
        erfc_tail(x)
    } else if x <= -TAIL {
        2.0 - erfc_tail(-x)
    } else if x < 0.5 {
        1.0 - erf_series(x)
    } else {
        // Between, the subtraction would lose digits, and the fraction converges with more terms.
        erfc_fraction(x, 400)
    }
}

/// `2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!!`.
fn erf_series(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > sum.abs() * 1e-17 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

fn erfc_tail(x: f64) -> f64 {
    if x > 28.0 { 0.0 } else { erfc_fraction(x, 80) }
}

/// `exp(-x^2) / sqrt(pi) / (x + (1/2)/(x + (2/2)/(x + …)))`, from the innermost of `terms`.
fn erfc_fraction(x: f64, terms: u32) -> f64 {
    let tail = (1..=terms).rev().fold(x, |below, k| x + f64::from(k) * 0.5 / below);
    (-x * x).exp() / (PI.sqrt() * tail)
}

/// The inverse of the error function.
pub(crate) fn erf_inv(y: f64) -> f64 {
    if y.is_nan() || y.abs() > 1.0 {
        return f64::NAN;
    }
    if y.abs() == 1.0 {
        return y * f64::INFINITY;
    }
    if y == 0.0 {
        return y;
    }
    // Winitzki's guess is good to three digits.
    let a = 0.147;
    let log = (-y * y).ln_1p();
    let t = 2.0 / (PI * a) + log / 2.0;
    let mut x = y.signum() * ((t * t - log / a).sqrt() - t).sqrt();
    for _ in 0..4 {
        // In the tail the complement keeps the digits that `erf` has lost.
        let error = if y.abs() > 0.9 { y.signum() * ((1.0 - y.abs()) - erfc(x.abs())) } else { erf(x) - y };
        let step = error / (FRAC_2_SQRT_PI * (-x * x).exp());
        x -= step / (1.0 + x * step);
    }
    x
}

const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_9,
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// The logarithm of the absolute value of the gamma function.
pub(crate) fn lgamma(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.is_infinite() || (x <= 0.0 && x == x.floor()) {
        return f64::INFINITY;
    }
    if x < 0.5 {
        return (PI / (PI * x).sin().abs()).ln() - lgamma(1.0 - x);
    }
    let x = x - 1.0;
    let t = x + 7.5;
    let sum = LANCZOS.iter().enumerate().skip(1).fold(LANCZOS[0], |sum, (i, c)| sum + c / (x + i as f64));
    0.5 * (2.0 * PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// The derivative of `lgamma`.
pub(crate) fn digamma(x: f64) -> f64 {
    if x.is_nan() || (x <= 0.0 && x == x.floor()) {
        return f64::NAN;
    }
    if x < 0.0 {
        return digamma(1.0 - x) - PI / (PI * x).tan();
    }
    // The recurrence lifts x to where the asymptotic series is exact to rounding.
    let (mut x, mut result) = (x, 0.0);
    while x < 10.0 {
        result -= 1.0 / x;
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    let series = r * (1.0 / 12.0 - r * (1.0 / 120.0 - r * (1.0 / 252.0 - r * (1.0 / 240.0 - r * (1.0 / 132.0)))));
    result + x.ln() - 0.5 / x - series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-13 * b.abs().max(1e-300), "{a} {b}");
    }

    #[test]
    fn known_values() {
        close(erf(0.5), 0.520_499_877_813_046_5);
        close(erf(-1.0), -0.842_700_792_949_714_9);
        close(erf(3.0), 0.999_977_909_503_001_4);
        close(erfc(2.0), 0.004_677_734_981_047_266);
        close(erfc(10.0), 2.088_487_583_762_545e-45);
        close(erfc(0.7), 0.322_198_806_162_582);
        close(erfc(-3.0), 1.999_977_909_503_001_4);
        close(lgamma(0.5), PI.sqrt().ln());
        close(lgamma(10.0), 362_880f64.ln());
        close(digamma(1.0), -0.577_215_664_901_532_9);
        assert!((digamma(-0.5) - 0.036_489_973_978_576_52).abs() < 1e-13);
        assert_eq!(erf(f64::INFINITY), 1.0);
        assert_eq!(erfc(f64::NEG_INFINITY), 2.0);
    }

    #[test]
    fn the_inverse_inverts() {
        for i in -999..1000 {
            let y = f64::from(i) / 1000.0;
            assert!((erf(erf_inv(y)) - y).abs() < 1e-15, "{y}");
        }
        assert!((erfc(erf_inv(1.0 - 1e-12)) / 1e-12 - 1.0).abs() < 1e-3);
        assert_eq!(erf_inv(1.0), f64::INFINITY);
    }
}
