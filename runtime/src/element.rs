//! Element types as Rust types, and the dispatch from a [`DType`] to them.
//!
//! Narrow floats are computed in `f32` ([`Element::Wide`]) and rounded once; sub-byte integers are kept in a byte and wrapped to their width when stored.
//! Booleans are a byte that is 0 or 1, whose sum is `or` and whose product is `and`, as in StableHLO.

use half::{bf16, f16};
use ir::DType;
use ir::op::Reducer;

/// What arithmetic on elements is done in.
pub trait Wide: Copy + PartialOrd + Default + 'static {
    /// Folds two values; `Replace` takes the second. `General` is refused before it gets here.
    fn fold(reducer: Reducer, a: Self, b: Self) -> Self;
}

/// An element as it is stored.
pub trait Element: Copy + Send + Sync + 'static {
    /// What it is computed in.
    type Wide: Wide;
    /// To the computing type.
    fn widen(self) -> Self::Wide;
    /// Back, rounded or wrapped.
    fn narrow(wide: Self::Wide) -> Self;
    /// As an integer, saturated; NaN is 0.
    fn to_i64(self) -> i64;
}

macro_rules! wide_int {
    ($($t:ty),*) => {$(
        impl Wide for $t {
            #[inline(always)]
            fn fold(reducer: Reducer, a: Self, b: Self) -> Self {
                match reducer {
                    Reducer::Add => a.wrapping_add(b),
                    Reducer::Mul => a.wrapping_mul(b),
                    Reducer::Max => a.max(b),
                    Reducer::Min => a.min(b),
                    Reducer::And => a & b,
                    Reducer::Or => a | b,
                    Reducer::Xor => a ^ b,
                    Reducer::Replace | Reducer::General => b,
                }
            }
        }
        impl Element for $t {
            type Wide = $t;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(wide: $t) -> Self { wide }
            #[inline(always)]
            fn to_i64(self) -> i64 { i64::try_from(self).unwrap_or(i64::MAX) }
        }
    )*};
}
wide_int!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! wide_float {
    ($($t:ty),*) => {$(
        impl Wide for $t {
            #[inline(always)]
            fn fold(reducer: Reducer, a: Self, b: Self) -> Self {
                match reducer {
                    Reducer::Add => a + b,
                    Reducer::Mul => a * b,
                    // A NaN on either side stays.
                    Reducer::Max => if a > b || a.is_nan() { a } else { b },
                    Reducer::Min => if a < b || a.is_nan() { a } else { b },
                    Reducer::And | Reducer::Or | Reducer::Xor | Reducer::Replace | Reducer::General => b,
                }
            }
        }
        impl Element for $t {
            type Wide = $t;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(wide: $t) -> Self { wide }
            #[inline(always)]
            fn to_i64(self) -> i64 { self as i64 }
        }
    )*};
}
wide_float!(f32, f64);

macro_rules! half_float {
    ($($t:ty),*) => {$(
        impl Element for $t {
            type Wide = f32;
            #[inline(always)]
            fn widen(self) -> f32 { self.to_f32() }
            #[inline(always)]
            fn narrow(wide: f32) -> Self { <$t>::from_f32(wide) }
            #[inline(always)]
            fn to_i64(self) -> i64 { self.to_f32() as i64 }
        }
    )*};
}
half_float!(bf16, f16);

/// A boolean byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Bool(u8);

impl Wide for Bool {
    #[inline(always)]
    fn fold(reducer: Reducer, a: Self, b: Self) -> Self {
        match reducer {
            Reducer::Add | Reducer::Or | Reducer::Max => Bool(a.0 | b.0),
            Reducer::Mul | Reducer::And | Reducer::Min => Bool(a.0 & b.0),
            Reducer::Xor => Bool(a.0 ^ b.0),
            Reducer::Replace | Reducer::General => b,
        }
    }
}

impl Element for Bool {
    type Wide = Bool;
    #[inline(always)]
    fn widen(self) -> Bool {
        self
    }
    #[inline(always)]
    fn narrow(wide: Bool) -> Self {
        wide
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from(self.0)
    }
}

/// A signed integer of `BITS` bits, sign-extended in its byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signed<const BITS: u32>(i8);

/// An unsigned integer of `BITS` bits in a byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsigned<const BITS: u32>(u8);

impl<const BITS: u32> Element for Signed<BITS> {
    type Wide = i8;
    #[inline(always)]
    fn widen(self) -> i8 {
        self.0
    }
    #[inline(always)]
    fn narrow(wide: i8) -> Self {
        Signed(wide << (8 - BITS) >> (8 - BITS))
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from(self.0)
    }
}

impl<const BITS: u32> Element for Unsigned<BITS> {
    type Wide = u8;
    #[inline(always)]
    fn widen(self) -> u8 {
        self.0
    }
    #[inline(always)]
    fn narrow(wide: u8) -> Self {
        Unsigned(wide & ((1 << BITS) - 1))
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from(self.0)
    }
}

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex<T>(pub T, pub T);

impl<T: PartialOrd> PartialOrd for Complex<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match self.0.partial_cmp(&other.0) {
            Some(std::cmp::Ordering::Equal) => self.1.partial_cmp(&other.1),
            order => order,
        }
    }
}

macro_rules! complex {
    ($($t:ty),*) => {$(
        impl Wide for Complex<$t> {
            #[inline(always)]
            fn fold(reducer: Reducer, a: Self, b: Self) -> Self {
                match reducer {
                    Reducer::Add => Complex(a.0 + b.0, a.1 + b.1),
                    Reducer::Mul => Complex(a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0),
                    _ => b,
                }
            }
        }
        impl Element for Complex<$t> {
            type Wide = Self;
            #[inline(always)]
            fn widen(self) -> Self { self }
            #[inline(always)]
            fn narrow(wide: Self) -> Self { wide }
            #[inline(always)]
            fn to_i64(self) -> i64 { self.0 as i64 }
        }
    )*};
}
complex!(f32, f64);

/// Runs `$body` with `$T` naming the Rust type of a `DType`; 8-bit floats, which only move, take `$otherwise`.
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr, otherwise $otherwise:expr) => {
        match $dtype {
            ir::DType::I1 => {
                type $T = $crate::element::Bool;
                $body
            }
            ir::DType::I2 => {
                type $T = $crate::element::Signed<2>;
                $body
            }
            ir::DType::I4 => {
                type $T = $crate::element::Signed<4>;
                $body
            }
            ir::DType::I8 => {
                type $T = i8;
                $body
            }
            ir::DType::I16 => {
                type $T = i16;
                $body
            }
            ir::DType::I32 => {
                type $T = i32;
                $body
            }
            ir::DType::I64 => {
                type $T = i64;
                $body
            }
            ir::DType::UI2 => {
                type $T = $crate::element::Unsigned<2>;
                $body
            }
            ir::DType::UI4 => {
                type $T = $crate::element::Unsigned<4>;
                $body
            }
            ir::DType::UI8 => {
                type $T = u8;
                $body
            }
            ir::DType::UI16 => {
                type $T = u16;
                $body
            }
            ir::DType::UI32 => {
                type $T = u32;
                $body
            }
            ir::DType::UI64 => {
                type $T = u64;
                $body
            }
            ir::DType::BF16 => {
                type $T = half::bf16;
                $body
            }
            ir::DType::F16 => {
                type $T = half::f16;
                $body
            }
            ir::DType::F32 => {
                type $T = f32;
                $body
            }
            ir::DType::F64 => {
                type $T = f64;
                $body
            }
            ir::DType::C64 => {
                type $T = $crate::element::Complex<f32>;
                $body
            }
            ir::DType::C128 => {
                type $T = $crate::element::Complex<f64>;
                $body
            }
            _ => $otherwise,
        }
    };
}

/// Whether `reducer` means something on elements of type `dtype`.
pub fn reduces(reducer: Reducer, dtype: DType) -> bool {
    let eight_bit_float = dtype.is_float() && dtype.bytes() == 1;
    !eight_bit_float
        && match reducer {
            Reducer::Add | Reducer::Mul | Reducer::Replace => true,
            Reducer::Max | Reducer::Min => !dtype.is_complex(),
            Reducer::And | Reducer::Or | Reducer::Xor => dtype.is_integer(),
            Reducer::General => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_follows_the_element_type() {
        assert_eq!(Signed::<4>::narrow(i8::fold(Reducer::Add, 7, 1)).to_i64(), -8);
        assert_eq!(Unsigned::<4>::narrow(u8::fold(Reducer::Mul, 5, 5)).to_i64(), 9);
        assert_eq!(Bool::fold(Reducer::Add, Bool(1), Bool(1)), Bool(1));
        assert!(f32::fold(Reducer::Max, f32::NAN, 1.0).is_nan() && f32::fold(Reducer::Max, 1.0, f32::NAN).is_nan());
        assert_eq!(Complex::<f32>::fold(Reducer::Mul, Complex(0.0, 1.0), Complex(0.0, 1.0)), Complex(-1.0, 0.0));
        assert!(!reduces(Reducer::And, DType::F32) && !reduces(Reducer::Add, DType::F8E5M2) && reduces(Reducer::Xor, DType::I1));
    }
}
