//! Functions that models are made of, composed of traced operations.
//!
//! What is a statistic over a dimension (softmax, the norms, cross entropy) is computed in `f32` and given back in the operand's element type.

use super::Tensor;
use crate::dtype::DType;

impl Tensor {
    /// `max(x, 0)`; its derivative at 0 is 0.
    #[must_use]
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        self.maximum(&self.zeros_like())
    }
    /// `x / (1 + e⁻ˣ)`.
    #[must_use]
    #[track_caller]
    pub fn silu(&self) -> Tensor {
        self * self.logistic()
    }
    /// The Gaussian error linear unit by its tanh approximation.
    #[must_use]
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        let cube = self.square() * self;
        let inner = (self + cube * 0.044715) * (2.0 / std::f64::consts::PI).sqrt();
        self * ((inner.tanh() + 1.0) * 0.5)
    }
    /// The Gaussian error linear unit, `x · Φ(x)`.
    #[must_use]
    #[track_caller]
    pub fn gelu_erf(&self) -> Tensor {
        self * (((self * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0) * 0.5)
    }
    /// `ln(1 + eˣ)`.
    #[must_use]
    #[track_caller]
    pub fn softplus(&self) -> Tensor {
        self.maximum(&self.zeros_like()) + (-self.abs()).exp().log1p()
    }
    /// Its values in `f32`, or in `f64` if they are that.
    #[track_caller]
    fn wide(&self) -> Tensor {
        if self.dtype() == DType::F64 { self.clone() } else { self.convert(DType::F32) }
    }
    /// `eˣ / Σ eˣ` over a dimension.
    #[must_use]
    #[track_caller]
    pub fn softmax(&self, dim: i64) -> Tensor {
        let exponential = self.shifted(dim).exp();
        let total = exponential.sum(&[dim]).unreduce(&exponential, &[dim]);
        (exponential / total).convert(self.dtype())
    }
    /// `x − ln Σ eˣ` over a dimension.
    #[must_use]
    #[track_caller]
    pub fn log_softmax(&self, dim: i64) -> Tensor {
        let shifted = self.shifted(dim);
        let total = shifted.exp().sum(&[dim]).log().unreduce(&shifted, &[dim]);
        (shifted - total).convert(self.dtype())
    }
    /// `ln Σ eˣ` over a dimension, in `f32`.
    #[must_use]
    #[track_caller]
    pub fn log_sum_exp(&self, dim: i64) -> Tensor {
        let wide = self.wide();
        let greatest = wide.max(&[dim]).stop_gradient();
        let shifted = &wide - greatest.unreduce(&wide, &[dim]);
        shifted.exp().sum(&[dim]).log() + greatest
    }
    /// In `f32`, less its maximum over a dimension; the maximum is not differentiated, since the result's use does not depend on it.
    #[track_caller]
    fn shifted(&self, dim: i64) -> Tensor {
        let wide = self.wide();
        let greatest = wide.max(&[dim]).stop_gradient();
        &wide - greatest.unreduce(&wide, &[dim])
    }
    /// The cross entropy of logits `[…, classes]` against integer labels `[…]`, for each of them, in `f32`.
    #[must_use]
    #[track_caller]
    pub fn cross_entropy(&self, labels: &Tensor) -> Tensor {
        let shifted = self.shifted(-1);
        shifted.exp().sum(&[-1]).log() - shifted.pick_last(labels)
    }
    /// Normalized over the last dimension to mean 0 and variance 1, then scaled and shifted.
    #[must_use]
    #[track_caller]
    pub fn layer_norm(&self, scale: &Tensor, shift: &Tensor, epsilon: f64) -> Tensor {
        let wide = self.wide();
        let centred = &wide - wide.mean(&[-1]).unreduce(&wide, &[-1]);
        let inverse = (centred.square().mean(&[-1]) + epsilon).rsqrt();
        let normal = (&centred * inverse.unreduce(&centred, &[-1])).convert(self.dtype());
        normal * scale + shift
    }
    /// Divided by the root of its mean square over the last dimension, then scaled.
    #[must_use]
    #[track_caller]
    pub fn rms_norm(&self, scale: &Tensor, epsilon: f64) -> Tensor {
        let wide = self.wide();
        let inverse = (wide.square().mean(&[-1]) + epsilon).rsqrt();
        (&wide * inverse.unreduce(&wide, &[-1])).convert(self.dtype()) * scale
    }
    /// Rotary position embedding of `[…, sequence, heads, width]`: pairs `(x[i], x[i + width/2])` are turned by `position · base^(−2i/width)`.
    #[must_use]
    #[track_caller]
    pub fn rotary(&self, base: f64) -> Tensor {
        let (length, width) = (self.dim(-3), self.dim(-1));
        let half = width / 2;
        let tracer = self.tracer();
        let positions = tracer.iota(DType::F32, [length, half], 0);
        let exponents = tracer.iota(DType::F32, [length, half], 1) * (-2.0 * base.ln() / width as f64);
        let angles = positions * exponents.exp();
        let turn = |x: Tensor| x.broadcast_in_dim([length, 1, half], &[0, 2]);
        let (cos, sin) = (turn(angles.cos()), turn(angles.sin()));
        let wide = self.convert(DType::F32);
        let (a, b) = (wide.slice_dim(-1, 0, half), wide.slice_dim(-1, half, 2 * half));
        let first = &a * &cos - &b * &sin;
        let second = b * cos + a * sin;
        first.concatenate(&[&second], -1).convert(self.dtype())
    }
    /// Scores `[…, queries, keys]` with `-1e30` where a key comes after its query.
    #[must_use]
    #[track_caller]
    pub fn causal_mask(&self) -> Tensor {
        let shape = [self.dim(-2), self.dim(-1)];
        let tracer = self.tracer();
        // The last query sees all keys.
        let offset = shape[1] as f64 - shape[0] as f64;
        let queries = tracer.iota(DType::I32, shape, 0) + offset;
        let keys = tracer.iota(DType::I32, shape, 1);
        queries.greater_equal(&keys).select(self, &self.full_like(-1e30))
    }
    /// Attention as [`Tensor::attend`] has it, written out in products and a softmax, in `f32` between them.
    #[must_use]
    #[track_caller]
    pub fn attend_written_out(&self, keys: &Tensor, values: &Tensor, causal: bool) -> Tensor {
        let (heads, groups, width) = (self.dim(-2), keys.dim(-2), self.dim(-1));
        let grouped = self.split_dim(-2, &[groups, heads / groups.max(1)]);
        let scores = grouped.einsum_as("bqghd,bkgd->bghqk", keys, self.wide_dtype()) * (1.0 / (width.max(1) as f64).sqrt());
        let weights = if causal { scores.causal_mask() } else { scores }.softmax(-1).convert(self.dtype());
        weights.einsum("bghqk,bkgd->bqghd", values).merge_dims(2, 3)
    }
    fn wide_dtype(&self) -> DType {
        if self.dtype() == DType::F64 { DType::F64 } else { DType::F32 }
    }
}
