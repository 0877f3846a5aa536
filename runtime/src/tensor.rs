//! Global tensors on the host: what a user gives and gets back.
//!
//! A tensor is its type and its row-major little-endian bytes, whole and unsharded. Arguments are shared by reference count, so that every rank can
//! read its shards from one copy.

use ir::literal::decode;
use ir::{DType, TensorType};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A whole tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its type.
    pub ty: TensorType,
    /// Its elements, row-major.
    pub bytes: Vec<u8>,
}

/// Tensors by argument number of the user's function.
pub type Arguments = BTreeMap<u32, Arc<Tensor>>;

impl Tensor {
    /// A tensor from its bytes; `None` when their number does not fit the type.
    pub fn new(ty: TensorType, bytes: Vec<u8>) -> Option<Tensor> {
        (bytes.len() as u64 == ty.bytes()).then_some(Tensor { ty, bytes })
    }
    /// A tensor of zeros.
    pub fn zeros(ty: TensorType) -> Tensor {
        let bytes = vec![0; ty.bytes() as usize];
        Tensor { ty, bytes }
    }
    /// An `f32` tensor; `None` when the number of values does not fit the shape.
    pub fn f32(shape: &[u64], values: &[f32]) -> Option<Tensor> {
        Tensor::new(TensorType::new(DType::F32, shape), values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }
    /// The elements as numbers; `None` for complex types.
    pub fn values(&self) -> Option<Vec<f64>> {
        self.bytes.chunks_exact(self.ty.dtype.bytes() as usize).map(|b| decode(self.ty.dtype, b)).collect()
    }
    /// The only element as a number.
    pub fn scalar(&self) -> Option<f64> {
        (self.ty.elements() == 1).then(|| decode(self.ty.dtype, &self.bytes))?
    }
}
