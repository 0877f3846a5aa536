//! Constant tensors: one repeated element, or every element row-major, as little-endian bytes.

use crate::dtype::{DType, TensorType};
use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A constant's data.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Data {
    /// One element, repeated.
    Splat(Vec<u8>),
    /// Every element in row-major order.
    Dense(Arc<Vec<u8>>),
}

/// A constant tensor. Elements are stored as [`DType::bytes`] says; `i1` is 0 or 1 in a byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Literal {
    /// Its type.
    pub ty: TensorType,
    /// Its elements.
    pub data: Data,
}

impl Literal {
    /// A tensor of one repeated element, rounded to `ty`'s element type.
    pub fn splat(ty: TensorType, value: f64) -> Literal {
        let data = Data::Splat(encode(ty.dtype, value));
        Literal { ty, data }
    }
    /// A tensor from its row-major bytes; `None` when the length is wrong.
    pub fn dense(ty: TensorType, bytes: Vec<u8>) -> Option<Literal> {
        (bytes.len() as u64 == ty.bytes()).then(|| Literal { ty, data: Data::Dense(Arc::new(bytes)) })
    }
    /// The bytes of the repeated element, if all elements are the same by construction.
    pub fn splat_bytes(&self) -> Option<&[u8]> {
        match &self.data {
            Data::Splat(b) => Some(b),
            Data::Dense(b) if self.ty.elements() == 1 => Some(b),
            Data::Dense(_) => None,
        }
    }
    /// The repeated element as a number, if it is a splat of a real type.
    pub fn splat_value(&self) -> Option<f64> {
        self.splat_bytes().and_then(|b| decode(self.ty.dtype, b))
    }
    /// All bytes, row-major, the splat written out.
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.data {
            Data::Splat(b) => b.repeat(self.ty.elements() as usize),
            Data::Dense(b) => b.to_vec(),
        }
    }
}

/// One number as the bytes of an element of type `t`; integers wrap, floats round to nearest even.
pub fn encode(t: DType, x: f64) -> Vec<u8> {
    use DType::*;
    match t {
        I1 => vec![u8::from(x != 0.0)],
        I2 | I4 | I8 => vec![x as i64 as i8 as u8],
        UI2 | UI4 | UI8 => vec![x as i64 as u8],
        I16 => (x as i64 as i16).to_le_bytes().to_vec(),
        UI16 => (x as i64 as u16).to_le_bytes().to_vec(),
        I32 => (x as i64 as i32).to_le_bytes().to_vec(),
        UI32 => (x as i64 as u32).to_le_bytes().to_vec(),
        I64 => (x as i64).to_le_bytes().to_vec(),
        UI64 => (x as u64).to_le_bytes().to_vec(),
        BF16 => bf16::from_f64(x).to_le_bytes().to_vec(),
        F16 => f16::from_f64(x).to_le_bytes().to_vec(),
        F32 => (x as f32).to_le_bytes().to_vec(),
        F64 => x.to_le_bytes().to_vec(),
        C64 => [(x as f32).to_le_bytes(), [0; 4]].concat(),
        C128 => [x.to_le_bytes(), [0; 8]].concat(),
        t => vec![crate::float8::encode(t, x)],
    }
}

/// The number in the bytes of an element of type `t`; `None` for complex types. 64-bit integers above 2^53 are rounded.
pub fn decode(t: DType, b: &[u8]) -> Option<f64> {
    use DType::*;
    fn array<const N: usize>(b: &[u8]) -> Option<[u8; N]> {
        b.get(..N)?.try_into().ok()
    }
    Some(match t {
        I1 | UI2 | UI4 | UI8 => f64::from(*b.first()?),
        I2 | I4 | I8 => f64::from(*b.first()? as i8),
        I16 => f64::from(i16::from_le_bytes(array(b)?)),
        UI16 => f64::from(u16::from_le_bytes(array(b)?)),
        I32 => f64::from(i32::from_le_bytes(array(b)?)),
        UI32 => f64::from(u32::from_le_bytes(array(b)?)),
        I64 => i64::from_le_bytes(array(b)?) as f64,
        UI64 => u64::from_le_bytes(array(b)?) as f64,
        BF16 => bf16::from_le_bytes(array(b)?).to_f64(),
        F16 => f16::from_le_bytes(array(b)?).to_f64(),
        F32 => f64::from(f32::from_le_bytes(array(b)?)),
        F64 => f64::from_le_bytes(array(b)?),
        C64 | C128 => return None,
        t => crate::float8::decode(t, *b.first()?),
    })
}
