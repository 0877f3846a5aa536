//! Elementwise functions of complex numbers, by their definitions in real ones.
//!
//! Roots and logarithms take the principal branch. What has no definition here (comparison but for equality, rounding, bits) gives `None`.

use super::elementwise::{map, zip};
use super::tensor::Complex;
use crate::op::{BinaryOp, UnaryOp};
use std::sync::Arc;

impl Complex {
    pub(crate) fn abs(self) -> f64 {
        self.re.hypot(self.im)
    }
    fn exp(self) -> Complex {
        let r = self.re.exp();
        Complex::new(r * self.im.cos(), r * self.im.sin())
    }
    fn ln(self) -> Complex {
        Complex::new(self.abs().ln(), self.im.atan2(self.re))
    }
    fn div(self, o: Complex) -> Complex {
        let norm = o.re * o.re + o.im * o.im;
        Complex::new((self.re * o.re + self.im * o.im) / norm, (self.im * o.re - self.re * o.im) / norm)
    }
    fn sqrt(self) -> Complex {
        let r = self.abs();
        let re = ((r + self.re) / 2.0).max(0.0).sqrt();
        Complex::new(re, ((r - self.re) / 2.0).max(0.0).sqrt().copysign(self.im))
    }
    fn pow(self, e: Complex) -> Complex {
        if self == Complex::default() { if e == Complex::default() { Complex::new(1.0, 0.0) } else { Complex::default() } } else { (self.ln() * e).exp() }
    }
}

/// A function of complex numbers, where it is defined on them.
pub(crate) fn unary_complex(op: UnaryOp, v: Arc<Vec<Complex>>) -> Option<Arc<Vec<Complex>>> {
    let one = Complex::new(1.0, 0.0);
    let sinh_cosh =
        |z: Complex| (Complex::new(z.re.sinh() * z.im.cos(), z.re.cosh() * z.im.sin()), Complex::new(z.re.cosh() * z.im.cos(), z.re.sinh() * z.im.sin()));
    // sin(z) = -i sinh(iz), cos(z) = cosh(iz).
    let sine = move |z: Complex| {
        let s = sinh_cosh(Complex::new(-z.im, z.re)).0;
        Complex::new(s.im, -s.re)
    };
    let cosine = move |z: Complex| sinh_cosh(Complex::new(-z.im, z.re)).1;
    Some(match op {
        UnaryOp::Negate => map(v, |z| Complex::new(-z.re, -z.im)),
        UnaryOp::Square => map(v, |z| z * z),
        UnaryOp::Exponential => map(v, Complex::exp),
        UnaryOp::ExponentialMinusOne => map(v, |z| z.exp() - one),
        UnaryOp::Log => map(v, Complex::ln),
        UnaryOp::LogPlusOne => map(v, |z| (z + one).ln()),
        UnaryOp::Logistic => map(v, |z| one.div(one + Complex::new(-z.re, -z.im).exp())),
        UnaryOp::Sqrt => map(v, Complex::sqrt),
        UnaryOp::Rsqrt => map(v, |z| one.div(z.sqrt())),
        UnaryOp::Sign => map(v, |z| if z.abs() == 0.0 { z } else { Complex::new(z.re / z.abs(), z.im / z.abs()) }),
        UnaryOp::Sine => map(v, sine),
        UnaryOp::Cosine => map(v, cosine),
        UnaryOp::Tan => map(v, |z| sine(z).div(cosine(z))),
        UnaryOp::Sinh => map(v, |z| sinh_cosh(z).0),
        UnaryOp::Cosh => map(v, |z| sinh_cosh(z).1),
        UnaryOp::Tanh => map(v, |z| sinh_cosh(z).0.div(sinh_cosh(z).1)),
        _ => return None,
    })
}

/// A function of two complex numbers, where it is defined on them.
pub(crate) fn binary_complex(op: BinaryOp, a: Arc<Vec<Complex>>, b: Arc<Vec<Complex>>) -> Option<Arc<Vec<Complex>>> {
    Some(match op {
        BinaryOp::Add => zip(a, b, |x, y| x + y),
        BinaryOp::Subtract => zip(a, b, |x, y| x - y),
        BinaryOp::Multiply => zip(a, b, |x, y| x * y),
        BinaryOp::Divide => zip(a, b, Complex::div),
        BinaryOp::Power => zip(a, b, Complex::pow),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Complex, b: Complex) {
        assert!((a - b).abs() < 1e-14 * (1.0 + b.abs()), "{a:?} {b:?}");
    }

    fn one(op: UnaryOp, z: Complex) -> Complex {
        unary_complex(op, Arc::new(vec![z])).unwrap()[0]
    }

    #[test]
    fn identities_hold() {
        for z in [Complex::new(0.3, -0.8), Complex::new(-1.5, 0.25), Complex::new(2.0, 2.0)] {
            close(one(UnaryOp::Exponential, one(UnaryOp::Log, z)), z);
            let root = one(UnaryOp::Sqrt, z);
            close(root * root, z);
            let (sine, cosine) = (one(UnaryOp::Sine, z), one(UnaryOp::Cosine, z));
            close(sine * sine + cosine * cosine, Complex::new(1.0, 0.0));
            let (sinh, cosh) = (one(UnaryOp::Sinh, z), one(UnaryOp::Cosh, z));
            close(cosh * cosh - sinh * sinh, Complex::new(1.0, 0.0));
            close(sinh + cosh, one(UnaryOp::Exponential, z));
        }
        assert!(unary_complex(UnaryOp::Floor, Arc::new(vec![])).is_none());
    }
}
