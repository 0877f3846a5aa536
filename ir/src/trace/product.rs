//! Matrix products and convolutions.

use super::Tensor;
use super::tracer::span;
use crate::attention::{Attention, Scale};
use crate::diagnostic::Diagnostic;
use crate::dtype::{DType, TensorType};
use crate::infer;
use crate::op::{ConvDims, DotDims, OpKind, Window};
use std::panic::Location;

/// A convolution of `[batch, spatial…, features]` with a kernel `[spatial…, input features / groups, output features]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolve {
    /// Strides.
    pub stride: Vec<u64>,
    /// Padding before and after.
    pub pad: Vec<(i64, i64)>,
    /// Dilation of the kernel.
    pub dilation: Vec<u64>,
    /// Groups of features.
    pub groups: u64,
}

impl Convolve {
    /// One over `spatial` dimensions with stride 1 and the same padding on all sides.
    pub fn new(spatial: usize, pad: i64) -> Convolve {
        Convolve { stride: vec![1; spatial], pad: vec![(pad, pad); spatial], dilation: vec![1; spatial], groups: 1 }
    }
    /// With another stride in all dimensions.
    #[must_use]
    pub fn stride(self, stride: u64) -> Convolve {
        Convolve { stride: vec![stride; self.pad.len()], ..self }
    }
    fn dims(&self) -> ConvDims {
        let spatial = self.pad.len();
        ConvDims {
            input_batch: 0,
            input_feature: spatial + 1,
            input_spatial: (1..=spatial).collect(),
            kernel_input: spatial,
            kernel_output: spatial + 1,
            kernel_spatial: (0..spatial).collect(),
            output_batch: 0,
            output_feature: spatial + 1,
            output_spatial: (1..=spatial).collect(),
            window: Window {
                size: vec![1; spatial],
                stride: self.stride.clone(),
                pad: self.pad.clone(),
                base_dilation: vec![1; spatial],
                window_dilation: self.dilation.clone(),
                reversal: vec![false; spatial],
            },
            feature_groups: self.groups,
            batch_groups: 1,
        }
    }
}

impl Tensor {
    /// A general matrix product, of element type `dtype`, or of the operands' where that is `None`.
    #[must_use]
    #[track_caller]
    pub fn dot_general(&self, other: &Tensor, dims: DotDims, dtype: Option<DType>) -> Tensor {
        let caller = Location::caller();
        if self.dtype() != other.dtype() {
            let why = format!("a product of {} and {}, which have different element types", self.ty(), other.ty());
            self.tracer().mismatch("dot_general".into(), why, &[self.ty(), other.ty()], caller);
        }
        match infer::dot_shape(&dims, self.ty(), other.ty()) {
            Ok(shape) => {
                let ty = TensorType::new(dtype.unwrap_or(self.dtype()), shape);
                self.tracer().emit_one(OpKind::Dot(dims), &[self, other], Some(ty))
            }
            Err(why) => {
                self.tracer().mismatch("dot_general".into(), why, &[self.ty(), other.ty()], caller);
                self.tracer().failed(self.ty().clone())
            }
        }
    }
    /// The product over the last dimension of this and the last but one of `other`. A matrix `other` multiplies every row of this;
    /// otherwise the leading dimensions of both are equal and correspond.
    #[must_use]
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        let (left, right) = (self.rank(), other.rank());
        if left == 0 || right < 2 || (right > 2 && left != right) {
            let why = format!("{} cannot be multiplied with {}", self.ty(), other.ty());
            self.tracer().mismatch("matmul".into(), why, &[self.ty(), other.ty()], Location::caller());
            return self.clone();
        }
        let batch: Vec<usize> = (0..right - 2).collect();
        let dims = DotDims { lhs_batch: batch.clone(), rhs_batch: batch, lhs_contract: vec![left - 1], rhs_contract: vec![right - 2] };
        self.dot_general(other, dims, None)
    }
    /// A product written with a letter per dimension, as `bshd,bthd->bhst`: letters of both operands that the result lacks are summed over.
    #[must_use]
    #[track_caller]
    pub fn einsum(&self, letters: &str, other: &Tensor) -> Tensor {
        self.einsum_as(letters, other, self.dtype())
    }
    /// As [`Tensor::einsum`], with a result of another element type.
    #[must_use]
    #[track_caller]
    pub fn einsum_as(&self, letters: &str, other: &Tensor, dtype: DType) -> Tensor {
        let Some((left, right, result)) = spec(letters, self.rank(), other.rank()) else {
            let d = Diagnostic::input("E1001", format!("`{letters}` is no product of {} and {}", self.ty(), other.ty()))
                .at(span(Location::caller()))
                .with_help("give every dimension a letter, once per operand, as in `bshd,bthd->bhst`; a letter of the result is in an operand");
            self.tracer().fail(d);
            return self.tracer().failed(TensorType::new(dtype, self.shape()));
        };
        // A letter that only one operand has, and not the result, is summed there.
        let (a, left) = self.sum_letters(&left, |c| right.contains(c) || result.contains(c));
        let (b, right) = other.sum_letters(&right, |c| left.contains(c) || result.contains(c));
        let natural = |x: &[char], y: &[char]| -> Vec<char> {
            let batch = result.iter().filter(|c| x.contains(c) && y.contains(c));
            let (x_free, y_free) = (x.iter().filter(|c| !y.contains(c)), y.iter().filter(|c| !x.contains(c)));
            batch.chain(x_free).chain(y_free).copied().collect()
        };
        // Of the two orders of the operands, one whose result needs no transpose.
        let swapped = natural(&left, &right) != result && natural(&right, &left) == result;
        let (a, b, left, right) = if swapped { (b, a, right, left) } else { (a, b, left, right) };
        let at = |letters: &[char], c: &char| letters.iter().position(|l| l == c);
        let shared: Vec<(usize, usize, bool)> = left.iter().enumerate().filter_map(|(i, c)| at(&right, c).map(|j| (i, j, result.contains(c)))).collect();
        let batch: Vec<(usize, usize)> = result.iter().filter_map(|c| Some((at(&left, c)?, at(&right, c)?))).collect();
        let summed: Vec<(usize, usize)> = shared.iter().filter(|s| !s.2).map(|s| (s.0, s.1)).collect();
        let dims = DotDims {
            lhs_batch: batch.iter().map(|p| p.0).collect(),
            rhs_batch: batch.iter().map(|p| p.1).collect(),
            lhs_contract: summed.iter().map(|p| p.0).collect(),
            rhs_contract: summed.iter().map(|p| p.1).collect(),
        };
        let product = a.dot_general(&b, dims, Some(dtype));
        let order = natural(&left, &right);
        let perm: Vec<usize> = result.iter().filter_map(|c| at(&order, c)).collect();
        product.transpose(&perm)
    }
    #[track_caller]
    fn sum_letters(&self, letters: &[char], kept: impl Fn(&char) -> bool) -> (Tensor, Vec<char>) {
        let dims: Vec<i64> = letters.iter().enumerate().filter(|(_, c)| !kept(c)).map(|(d, _)| d as i64).collect();
        (self.sum(&dims), letters.iter().copied().filter(|c| kept(c)).collect())
    }

    /// Attention of these queries as one operation, which keeps no scores; `bias` as [`Attention::bias`] says, or none.
    #[must_use]
    #[track_caller]
    pub fn attention(&self, keys: &Tensor, values: &Tensor, bias: Option<&Tensor>, attention: Attention) -> Tensor {
        let operands: Vec<&Tensor> = [self, keys, values].into_iter().chain(bias).collect();
        self.tracer().emit(OpKind::Attention(Box::new(attention)), &operands, None, Vec::new()).swap_remove(0)
    }

    /// Attention of `[batch, queries, heads, width]` to keys and values `[batch, keys, groups, width]`, where heads are a multiple of groups.
    /// The last query sees all keys when `causal`, the others as many fewer as they come before it.
    #[must_use]
    #[track_caller]
    pub fn attend(&self, keys: &Tensor, values: &Tensor, causal: bool) -> Tensor {
        let (heads, groups, width) = (self.dim(-2), keys.dim(-2), self.dim(-1));
        let behind = keys.dim(1) as i64 - self.dim(1) as i64;
        let offset = causal && behind != 0;
        let grouped = heads != groups;
        let subscripts = if grouped { "bqhgd,bkhd,bkhe->bqhge" } else { "bqhd,bkhd,bkhe->bqhe" };
        let Some(attention) = Attention::from_subscripts(subscripts) else { return self.clone() };
        let attention = Attention { causal, offset, scale: Scale(1.0 / (width.max(1) as f64).sqrt()), ..attention };
        let queries = if grouped { self.split_dim(-2, &[groups, heads / groups.max(1)]) } else { self.clone() };
        let first = self.tracer().scalar(DType::I32, behind as f64);
        let result = if offset {
            let kind = OpKind::Attention(Box::new(attention));
            self.tracer().emit(kind, &[&queries, keys, values, &first], None, Vec::new()).swap_remove(0)
        } else {
            queries.attention(keys, values, None, attention)
        };
        if grouped { result.merge_dims(2, 3) } else { result }
    }

    /// A convolution of `[batch, spatial…, features]` with a kernel `[spatial…, input features, output features]`.
    #[must_use]
    #[track_caller]
    pub fn convolve(&self, kernel: &Tensor, convolve: &Convolve) -> Tensor {
        self.convolution(kernel, convolve.dims())
    }
    /// A convolution with any roles of the dimensions.
    #[must_use]
    #[track_caller]
    pub fn convolution(&self, kernel: &Tensor, mut dims: ConvDims) -> Tensor {
        let fits = dims.kernel_spatial.iter().all(|&d| d < kernel.rank());
        if fits {
            dims.window.size = dims.kernel_spatial.iter().map(|&d| kernel.shape()[d]).collect();
        }
        match infer::convolution_shape(&dims, self.ty(), kernel.ty()) {
            Ok(shape) => {
                let ty = TensorType::new(self.dtype(), shape);
                self.tracer().emit_one(OpKind::Convolution(Box::new(dims)), &[self, kernel], Some(ty))
            }
            Err(why) => {
                self.tracer().mismatch("convolution".into(), why, &[self.ty(), kernel.ty()], Location::caller());
                self.tracer().failed(self.ty().clone())
            }
        }
    }
}

/// The letters of both operands and of the result.
fn spec(letters: &str, left_rank: usize, right_rank: usize) -> Option<(Vec<char>, Vec<char>, Vec<char>)> {
    let (operands, result) = letters.split_once("->")?;
    let (left, right) = operands.split_once(',')?;
    let read = |part: &str| part.trim().chars().collect::<Vec<char>>();
    let (left, right, result) = (read(left), read(right), read(result));
    let distinct = |part: &[char]| part.iter().enumerate().all(|(i, c)| c.is_alphabetic() && !part[..i].contains(c));
    let fits = left.len() == left_rank && right.len() == right_rank && result.iter().all(|c| left.contains(c) || right.contains(c));
    (fits && distinct(&left) && distinct(&right) && distinct(&result)).then_some((left, right, result))
}
