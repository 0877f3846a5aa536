//! Element types and tensor types.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of one element, named as MLIR prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variants are the types' own names")]
pub enum DType {
    I1,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    UI2,
    UI4,
    UI8,
    UI16,
    UI32,
    UI64,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E4M3B11FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E4M3,
    F8E3M4,
    F8E8M0FNU,
    BF16,
    F16,
    F32,
    F64,
    C64,
    C128,
}

use DType::*;

const NAMES: &[(DType, &str)] = &[
    (I1, "i1"),
    (I2, "i2"),
    (I4, "i4"),
    (I8, "i8"),
    (I16, "i16"),
    (I32, "i32"),
    (I64, "i64"),
    (UI2, "ui2"),
    (UI4, "ui4"),
    (UI8, "ui8"),
    (UI16, "ui16"),
    (UI32, "ui32"),
    (UI64, "ui64"),
    (F8E4M3FN, "f8E4M3FN"),
    (F8E4M3FNUZ, "f8E4M3FNUZ"),
    (F8E4M3B11FNUZ, "f8E4M3B11FNUZ"),
    (F8E5M2, "f8E5M2"),
    (F8E5M2FNUZ, "f8E5M2FNUZ"),
    (F8E4M3, "f8E4M3"),
    (F8E3M4, "f8E3M4"),
    (F8E8M0FNU, "f8E8M0FNU"),
    (BF16, "bf16"),
    (F16, "f16"),
    (F32, "f32"),
    (F64, "f64"),
    (C64, "complex<f32>"),
    (C128, "complex<f64>"),
];

impl DType {
    /// The type called `name` in MLIR's text, if there is one.
    pub fn from_name(name: &str) -> Option<DType> {
        NAMES.iter().find(|(_, n)| *n == name).map(|(t, _)| *t)
    }
    /// Its name in MLIR's text.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(t, _)| *t == self).expect("invariant: every type has a name").1
    }
    /// Every type.
    pub fn all() -> impl Iterator<Item = DType> {
        NAMES.iter().map(|(t, _)| *t)
    }
    /// Bytes of one element as it is stored here (sub-byte types take a byte each).
    pub fn bytes(self) -> u64 {
        match self {
            I1 | I2 | I4 | I8 | UI2 | UI4 | UI8 => 1,
            F8E4M3FN | F8E4M3FNUZ | F8E4M3B11FNUZ | F8E5M2 | F8E5M2FNUZ | F8E4M3 | F8E3M4 | F8E8M0FNU => 1,
            I16 | UI16 | BF16 | F16 => 2,
            I32 | UI32 | F32 => 4,
            I64 | UI64 | F64 | C64 => 8,
            C128 => 16,
        }
    }
    /// Significant bits of an integer, or the width of a float.
    pub fn bits(self) -> u32 {
        match self {
            I1 => 1,
            I2 | UI2 => 2,
            I4 | UI4 => 4,
            t => t.bytes() as u32 * 8,
        }
    }
    /// Real floating point.
    pub fn is_float(self) -> bool {
        !self.is_integer() && !self.is_complex()
    }
    /// Integer, `i1` included.
    pub fn is_integer(self) -> bool {
        matches!(self, I1 | I2 | I4 | I8 | I16 | I32 | I64) || self.is_unsigned()
    }
    /// Unsigned integer (`i1` is not).
    pub fn is_unsigned(self) -> bool {
        matches!(self, UI2 | UI4 | UI8 | UI16 | UI32 | UI64)
    }
    /// The type of a complex type's two parts.
    pub fn part(self) -> Option<DType> {
        match self {
            C64 => Some(F32),
            C128 => Some(F64),
            _ => None,
        }
    }
    /// Complex.
    pub fn is_complex(self) -> bool {
        matches!(self, C64 | C128)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A ranked tensor with static dimensions; rank 0 is a scalar. Stored row-major.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TensorType {
    /// Sizes, outermost first.
    pub shape: Vec<u64>,
    /// Element type.
    pub dtype: DType,
}

impl TensorType {
    /// A tensor type.
    pub fn new(dtype: DType, shape: impl Into<Vec<u64>>) -> Self {
        TensorType { shape: shape.into(), dtype }
    }
    /// A rank-0 type.
    pub fn scalar(dtype: DType) -> Self {
        TensorType { shape: Vec::new(), dtype }
    }
    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
    /// Number of elements; the importer refuses shapes whose product does not fit 2^48.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
    /// Bytes when stored.
    pub fn bytes(&self) -> u64 {
        self.elements() * self.dtype.bytes()
    }
    /// Row-major strides in elements.
    pub fn strides(&self) -> Vec<u64> {
        row_major_strides(&self.shape)
    }
    /// The same shape with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        TensorType { shape: self.shape.clone(), dtype }
    }
}

/// Row-major strides, in elements, of a shape.
pub fn row_major_strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    strides
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for d in &self.shape {
            write!(f, "{d}x")?;
        }
        write!(f, "{}>", self.dtype)
    }
}
