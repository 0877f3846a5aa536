//! Operations that move elements: reshapes, transposes, slices, padding, joining, broadcasting.

use super::Tensor;
use super::tracer::span;
use crate::diagnostic::Diagnostic;
use crate::dtype::TensorType;
use crate::op::OpKind;
use std::panic::Location;

impl Tensor {
    /// The same row-major elements in another shape; itself if it has that shape.
    #[must_use]
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Vec<u64>>) -> Tensor {
        let ty = TensorType::new(self.dtype(), shape);
        if ty == *self.ty() {
            return self.clone();
        }
        self.tracer().emit_one(OpKind::Reshape, &[self], Some(ty))
    }
    /// A dimension replaced by several, whose product it is.
    #[must_use]
    #[track_caller]
    pub fn split_dim(&self, dim: i64, sizes: &[u64]) -> Tensor {
        let d = self.axis(dim);
        let mut shape = self.shape().to_vec();
        if d < shape.len() {
            shape.splice(d..=d, sizes.iter().copied());
        }
        self.reshape(shape)
    }
    /// Dimensions `first..=last` made one.
    #[must_use]
    #[track_caller]
    pub fn merge_dims(&self, first: i64, last: i64) -> Tensor {
        let (a, b) = (self.axis(first), self.axis(last));
        let mut shape = self.shape().to_vec();
        if a <= b && b < shape.len() {
            let product = shape[a..=b].iter().product();
            shape.splice(a..=b, [product]);
        }
        self.reshape(shape)
    }
    /// Dimension `i` of the result is dimension `perm[i]`.
    #[must_use]
    #[track_caller]
    pub fn transpose(&self, perm: &[usize]) -> Tensor {
        if perm.len() == self.rank() && perm.iter().copied().eq(0..self.rank()) {
            return self.clone();
        }
        self.tracer().emit_one(OpKind::Transpose { perm: perm.to_vec() }, &[self], None)
    }
    /// Two dimensions exchanged.
    #[must_use]
    #[track_caller]
    pub fn swap_dims(&self, a: i64, b: i64) -> Tensor {
        let (a, b) = (self.axis(a), self.axis(b));
        let mut perm: Vec<usize> = (0..self.rank()).collect();
        if a.max(b) < perm.len() {
            perm.swap(a, b);
        }
        self.transpose(&perm)
    }

    /// Dimension `i` becomes dimension `dims[i]` of the shape; the others are new, and size 1 repeats.
    #[must_use]
    #[track_caller]
    pub fn broadcast_in_dim(&self, shape: impl Into<Vec<u64>>, dims: &[usize]) -> Tensor {
        let ty = TensorType::new(self.dtype(), shape);
        if ty == *self.ty() && dims.iter().copied().eq(0..self.rank()) {
            return self.clone();
        }
        self.tracer().emit_one(OpKind::Broadcast { dims: dims.to_vec() }, &[self], Some(ty))
    }
    /// Broadcast to a shape as numpy does: aligned at the last dimension.
    #[must_use]
    #[track_caller]
    pub fn broadcast_to(&self, shape: &[u64]) -> Tensor {
        if self.rank() > shape.len() {
            let message = format!("{} cannot be broadcast to the shape {shape:?}, which has fewer dimensions", self.ty());
            self.tracer().fail(Diagnostic::input("E1001", message).at(span(Location::caller())));
            return self.tracer().failed(TensorType::new(self.dtype(), shape));
        }
        let offset = shape.len() - self.rank();
        let dims: Vec<usize> = (0..self.rank()).map(|d| d + offset).collect();
        self.broadcast_in_dim(shape, &dims)
    }
    /// What was reduced over `dims` of `whole`, repeated along them again.
    #[must_use]
    #[track_caller]
    pub fn unreduce(&self, whole: &Tensor, dims: &[i64]) -> Tensor {
        let reduced = whole.axes(dims);
        let kept: Vec<usize> = (0..whole.rank()).filter(|d| !reduced.contains(d)).collect();
        self.broadcast_in_dim(whole.shape(), &kept)
    }
    /// Both operands of a binary operation in their common shape.
    #[track_caller]
    pub(super) fn broadcast_together(&self, other: &Tensor) -> (Tensor, Tensor) {
        if self.shape() == other.shape() {
            return (self.clone(), other.clone());
        }
        let rank = self.rank().max(other.rank());
        let size = |t: &Tensor, d: usize| (d + t.rank()).checked_sub(rank).map_or(1, |i| t.shape()[i]);
        let shape: Vec<u64> = (0..rank)
            .map(|d| match (size(self, d), size(other, d)) {
                (1, n) => n,
                (n, _) => n,
            })
            .collect();
        if (0..rank).any(|d| size(self, d) != 1 && size(other, d) != 1 && size(self, d) != size(other, d)) {
            self.tracer().mismatch(
                "broadcast".into(),
                format!("{} and {} have no common shape", self.ty(), other.ty()),
                &[self.ty(), other.ty()],
                Location::caller(),
            );
            return (self.clone(), other.clone());
        }
        (self.broadcast_to(&shape), other.broadcast_to(&shape))
    }

    /// `start..limit` of one dimension.
    #[must_use]
    #[track_caller]
    pub fn slice_dim(&self, dim: i64, start: u64, limit: u64) -> Tensor {
        let d = self.axis(dim);
        let (mut low, mut high) = (vec![0; self.rank()], self.shape().to_vec());
        if d < self.rank() {
            (low[d], high[d]) = (start, limit);
        }
        self.slice(&low, &high, &vec![1; self.rank()])
    }
    /// A strided slice.
    #[must_use]
    #[track_caller]
    pub fn slice(&self, start: &[u64], limit: &[u64], stride: &[u64]) -> Tensor {
        if start.iter().all(|&s| s == 0) && limit == self.shape() && stride.iter().all(|&s| s == 1) && start.len() == limit.len() {
            return self.clone();
        }
        let kind = OpKind::Slice { start: start.to_vec(), limit: limit.to_vec(), stride: stride.to_vec() };
        self.tracer().emit_one(kind, &[self], None)
    }
    /// Cut along a dimension into parts of these sizes.
    #[must_use]
    #[track_caller]
    pub fn split(&self, dim: i64, sizes: &[u64]) -> Vec<Tensor> {
        let mut start = 0;
        let mut parts = Vec::new();
        for &size in sizes {
            parts.push(self.slice_dim(dim, start, start + size));
            start += size;
        }
        parts
    }
    /// Padded with a number, before, after and between elements.
    #[must_use]
    #[track_caller]
    pub fn pad(&self, value: f64, low: &[i64], high: &[i64], interior: &[u64]) -> Tensor {
        if low.iter().chain(high).all(|&n| n == 0) && interior.iter().all(|&n| n == 0) && [low.len(), high.len(), interior.len()] == [self.rank(); 3] {
            return self.clone();
        }
        self.pad_with(&self.tracer().scalar(self.dtype(), value), low, high, interior)
    }
    /// Padded with a scalar tensor.
    #[must_use]
    #[track_caller]
    pub fn pad_with(&self, value: &Tensor, low: &[i64], high: &[i64], interior: &[u64]) -> Tensor {
        let kind = OpKind::Pad { low: low.to_vec(), high: high.to_vec(), interior: interior.to_vec() };
        self.tracer().emit_one(kind, &[self, value], None)
    }
    /// With other tensors joined behind it along a dimension.
    #[must_use]
    #[track_caller]
    pub fn concatenate(&self, others: &[&Tensor], dim: i64) -> Tensor {
        if others.is_empty() {
            return self.clone();
        }
        let all: Vec<&Tensor> = std::iter::once(self).chain(others.iter().copied()).collect();
        self.tracer().emit_one(OpKind::Concatenate { dim: self.axis(dim) }, &all, None)
    }
    /// Dimensions reversed.
    #[must_use]
    #[track_caller]
    pub fn reverse(&self, dims: &[i64]) -> Tensor {
        let dims = self.axes(dims);
        if dims.is_empty() {
            return self.clone();
        }
        self.tracer().emit_one(OpKind::Reverse { dims }, &[self], None)
    }
    /// A slice that begins at integer scalars, clamped so that it fits.
    #[must_use]
    #[track_caller]
    pub fn dynamic_slice(&self, starts: &[&Tensor], sizes: &[u64]) -> Tensor {
        let operands: Vec<&Tensor> = std::iter::once(self).chain(starts.iter().copied()).collect();
        self.tracer().emit_one(OpKind::DynamicSlice { sizes: sizes.to_vec() }, &operands, None)
    }
    /// With a block replaced, which begins at integer scalars, clamped so that it fits.
    #[must_use]
    #[track_caller]
    pub fn dynamic_update_slice(&self, update: &Tensor, starts: &[&Tensor]) -> Tensor {
        let operands: Vec<&Tensor> = [self, update].into_iter().chain(starts.iter().copied()).collect();
        self.tracer().emit_one(OpKind::DynamicUpdateSlice, &operands, None)
    }
}
