//! Reductions: over dimensions, over windows, and running sums.

use super::Tensor;
use crate::op::{OpKind, Reducer, Window};

impl Tensor {
    /// Reduced over dimensions from the neutral element. `General` and `Replace` are no reducers of a traced reduction.
    #[must_use]
    #[track_caller]
    pub fn reduce(&self, reducer: Reducer, dims: &[i64]) -> Tensor {
        let dims = self.axes(dims);
        if dims.is_empty() {
            return self.clone();
        }
        let neutral = self.tracer().scalar(self.dtype(), reducer.neutral(self.dtype()).unwrap_or(0.0));
        self.tracer().emit_one(OpKind::Reduce { dims, reducer }, &[self, &neutral], None)
    }
    /// The sum over dimensions.
    #[must_use]
    #[track_caller]
    pub fn sum(&self, dims: &[i64]) -> Tensor {
        self.reduce(Reducer::Add, dims)
    }
    /// The sum of all elements.
    #[must_use]
    #[track_caller]
    pub fn sum_all(&self) -> Tensor {
        self.sum(&(0..self.rank() as i64).collect::<Vec<_>>())
    }
    /// The mean over dimensions.
    #[must_use]
    #[track_caller]
    pub fn mean(&self, dims: &[i64]) -> Tensor {
        let count: u64 = self.axes(dims).iter().filter_map(|&d| self.shape().get(d)).product();
        self.sum(dims) / count as f64
    }
    /// The mean of all elements.
    #[must_use]
    #[track_caller]
    pub fn mean_all(&self) -> Tensor {
        self.mean(&(0..self.rank() as i64).collect::<Vec<_>>())
    }
    /// The greatest over dimensions.
    #[must_use]
    #[track_caller]
    pub fn max(&self, dims: &[i64]) -> Tensor {
        self.reduce(Reducer::Max, dims)
    }
    /// The least over dimensions.
    #[must_use]
    #[track_caller]
    pub fn min(&self, dims: &[i64]) -> Tensor {
        self.reduce(Reducer::Min, dims)
    }
    /// The product over dimensions.
    #[must_use]
    #[track_caller]
    pub fn product(&self, dims: &[i64]) -> Tensor {
        self.reduce(Reducer::Mul, dims)
    }

    /// Reduced over windows, from the neutral element; the window is over all dimensions.
    #[must_use]
    #[track_caller]
    pub fn reduce_window(&self, reducer: Reducer, window: Window) -> Tensor {
        let neutral = self.tracer().scalar(self.dtype(), reducer.neutral(self.dtype()).unwrap_or(0.0));
        self.tracer().emit_one(OpKind::ReduceWindow { window, reducer }, &[self, &neutral], None)
    }
    /// The greatest in windows over the middle dimensions of `[batch, spatial…, features]`.
    #[must_use]
    #[track_caller]
    pub fn max_pool(&self, size: &[u64], stride: &[u64], pad: &[(i64, i64)]) -> Tensor {
        self.reduce_window(Reducer::Max, pooling(size, stride, pad))
    }
    /// The sum in windows over the middle dimensions of `[batch, spatial…, features]`.
    #[must_use]
    #[track_caller]
    pub fn sum_pool(&self, size: &[u64], stride: &[u64], pad: &[(i64, i64)]) -> Tensor {
        self.reduce_window(Reducer::Add, pooling(size, stride, pad))
    }
    /// The running sum along a dimension.
    #[must_use]
    #[track_caller]
    pub fn cumsum(&self, dim: i64) -> Tensor {
        let d = self.axis(dim);
        let mut window = trivial_window(self.rank());
        if let Some(&n) = self.shape().get(d) {
            window.size[d] = n.max(1);
            window.pad[d] = (n.max(1) as i64 - 1, 0);
        }
        self.reduce_window(Reducer::Add, window)
    }
}

/// A window of one element in every dimension.
pub(super) fn trivial_window(rank: usize) -> Window {
    Window {
        size: vec![1; rank],
        stride: vec![1; rank],
        pad: vec![(0, 0); rank],
        base_dilation: vec![1; rank],
        window_dilation: vec![1; rank],
        reversal: Vec::new(),
    }
}

fn pooling(size: &[u64], stride: &[u64], pad: &[(i64, i64)]) -> Window {
    let around = |one: u64, x: &[u64]| [&[one], x, &[one]].concat();
    let rank = size.len() + 2;
    Window {
        size: around(1, size),
        stride: around(1, stride),
        pad: [&[(0, 0)], pad, &[(0, 0)]].concat(),
        base_dilation: vec![1; rank],
        window_dilation: vec![1; rank],
        reversal: Vec::new(),
    }
}
