//! Attention and its derivative by their definitions, one row of scores at a time, computed in `f64` and rounded once at the end.
//!
//! With `p = exp(s - lse)` for the scores `s` of a row, `do` the gradient of its result and `delta = o·do`:
//! `ds = p (do·v - delta)`, `dq = scale ds·k`, `dk = scale dsᵀ·q`, `dv = pᵀ·do`, and the bias's gradient is `ds`, each summed over what its operand lacks.

use super::tensor::{Class, Element, Precision, Tensor, settle};
use crate::attention::{Attention, AttentionDim};
use crate::dtype::{TensorType, row_major_strides};

/// A position along some dimensions.
type Index = [(AttentionDim, usize)];

/// The elements of an operand or result, and the stride of every dimension it has; the others have none.
struct Array {
    ty: TensorType,
    data: Vec<f64>,
    strides: Vec<(AttentionDim, usize)>,
}

impl Array {
    fn new(ty: TensorType, data: Vec<f64>, dims: &[AttentionDim]) -> Array {
        let strides = dims.iter().copied().zip(row_major_strides(&ty.shape).into_iter().map(|s| s as usize)).collect();
        Array { ty, data, strides }
    }
    fn of(x: &Tensor, dims: &[AttentionDim]) -> Array {
        Array::new(x.ty.clone(), x.to_f64s(), dims)
    }
    fn zeros(ty: TensorType, dims: &[AttentionDim]) -> Array {
        let data = vec![0.0; ty.elements() as usize];
        Array::new(ty, data, dims)
    }
    fn stride(&self, dim: AttentionDim) -> usize {
        self.strides.iter().find(|s| s.0 == dim).map_or(0, |s| s.1)
    }
    /// Where a row's elements start.
    fn start(&self, index: &Index) -> usize {
        self.strides.iter().map(|&(d, s)| index.iter().find(|i| i.0 == d).map_or(0, |i| i.1 * s)).sum()
    }
    fn finish(self, precision: Precision) -> Tensor {
        let class = Class::of(self.ty.dtype, precision);
        let buffer = settle(self.ty.dtype, f64::pack(self.data).into_class(class));
        Tensor::new(self.ty, buffer)
    }
}

/// What the scores of a row are computed from.
struct Scores<'a> {
    attention: &'a Attention,
    q: Array,
    k: Array,
    bias: Option<Array>,
    /// Position of the first query among the keys.
    first: i64,
    keys: usize,
    depth: usize,
}

impl<'a> Scores<'a> {
    /// `rest` are the bias and the offset.
    fn new(a: &'a Attention, operands: &[Tensor], rest: &[Tensor]) -> Scores<'a> {
        Scores {
            q: Array::of(&operands[0], &a.q),
            k: Array::of(&operands[1], &a.k),
            bias: a.bias.as_ref().map(|dims| Array::of(&rest[0], dims)),
            first: if a.offset { rest.last().and_then(Tensor::first_int).unwrap_or(0) } else { 0 },
            keys: extent(a, operands, AttentionDim::Key),
            depth: extent(a, operands, AttentionDim::Depth),
            attention: a,
        }
    }

    /// The keys that the query at `index` sees, with their scores.
    fn row(&self, index: &Index) -> Vec<(usize, f64)> {
        let query = index.iter().find(|i| i.0 == AttentionDim::Query).map_or(0, |i| i.1) as i64;
        let (q, k) = (self.q.start(index), self.k.start(index));
        let (q_step, k_step, key_step) = (self.q.stride(AttentionDim::Depth), self.k.stride(AttentionDim::Depth), self.k.stride(AttentionDim::Key));
        let seen = (0..self.keys).filter(|&j| !self.attention.causal || j as i64 <= query + self.first);
        let scaled = seen.map(|j| {
            let dot: f64 = (0..self.depth).map(|c| self.q.data[q + c * q_step] * self.k.data[k + j * key_step + c * k_step]).sum();
            (j, dot * self.attention.scale.0)
        });
        let Some(bias) = &self.bias else { return scaled.collect() };
        let (b, step) = (bias.start(index), bias.stride(AttentionDim::Key));
        if bias.ty.dtype.is_float() {
            scaled.map(|(j, s)| (j, s + bias.data[b + j * step])).collect()
        } else {
            scaled.filter(|(j, _)| bias.data[b + j * step] != 0.0).collect()
        }
    }
}

fn extent(a: &Attention, operands: &[Tensor], dim: AttentionDim) -> usize {
    let types: Vec<&TensorType> = operands.iter().map(|x| &x.ty).collect();
    a.extent(&types, dim).unwrap_or(0) as usize
}

/// Calls `f` with every index of the batch dimensions and the queries.
fn each_row(a: &Attention, operands: &[Tensor], mut f: impl FnMut(&Index)) {
    let dims = a.q.iter().zip(&operands[0].ty.shape).filter(|(d, _)| **d != AttentionDim::Depth).map(|(&d, &n)| (d, n as usize)).collect::<Vec<_>>();
    for linear in 0..dims.iter().map(|d| d.1).product() {
        let mut rest = linear;
        let mut index = Vec::with_capacity(dims.len());
        for &(d, n) in dims.iter().rev() {
            index.push((d, rest % n));
            rest /= n;
        }
        f(&index);
    }
}

/// `o` and `lse`, of the types given.
pub(super) fn forward(a: &Attention, operands: &[Tensor], types: Vec<TensorType>, precision: Precision) -> Vec<Tensor> {
    let scores = Scores::new(a, operands, &operands[3..]);
    let v = Array::of(&operands[2], &a.v);
    let mut results: Vec<Array> = types.into_iter().zip([a.o.clone(), a.lse()]).map(|(ty, dims)| Array::zeros(ty, &dims)).collect();
    let [o, lse] = results.as_mut_slice() else { return vec![] };
    let size = extent(a, operands, AttentionDim::Value);
    let (key_step, value_step, step) = (v.stride(AttentionDim::Key), v.stride(AttentionDim::Value), o.stride(AttentionDim::Value));
    each_row(a, operands, |index| {
        let row = scores.row(index);
        let max = row.iter().fold(f64::NEG_INFINITY, |m, &(_, s)| if s > m || s.is_nan() { s } else { m });
        let at = lse.start(index);
        if max == f64::NEG_INFINITY {
            lse.data[at] = max;
            return;
        }
        let sum: f64 = row.iter().map(|(_, s)| (s - max).exp()).sum();
        lse.data[at] = max + sum.ln();
        let (from, to) = (v.start(index), o.start(index));
        for (j, s) in row {
            let p = (s - max).exp() / sum;
            for e in 0..size {
                o.data[to + e * step] += p * v.data[from + j * key_step + e * value_step];
            }
        }
    });
    results.into_iter().map(|x| x.finish(precision)).collect()
}

/// The gradients, of the types given.
pub(super) fn backward(a: &Attention, operands: &[Tensor], types: Vec<TensorType>, precision: Precision) -> Vec<Tensor> {
    use AttentionDim::{Depth, Key, Value};
    let scores = Scores::new(a, operands, &operands[6..]);
    let (k, q) = (&scores.k, &scores.q);
    let (v, o) = (Array::of(&operands[2], &a.v), Array::of(&operands[3], &a.o));
    let (lse, d_o) = (Array::of(&operands[4], &a.lse()), Array::of(&operands[5], &a.o));
    let dims = a.gradient_dims(types.len() > 3);
    let mut sums: Vec<Array> = types.into_iter().zip(&dims).map(|(ty, dims)| Array::zeros(ty, dims)).collect();
    let (size, depth) = (extent(a, operands, Value), scores.depth);
    each_row(a, operands, |index| {
        let lse = lse.data[lse.start(index)];
        if lse == f64::NEG_INFINITY {
            return;
        }
        let (at_q, at_k, at_v, at_o) = (q.start(index), k.start(index), v.start(index), o.start(index));
        let at_bias = sums.get(3).map_or(0, |b| b.start(index));
        let gradient: Vec<f64> = (0..size).map(|e| d_o.data[at_o + e * d_o.stride(Value)]).collect();
        let delta: f64 = (0..size).map(|e| gradient[e] * o.data[at_o + e * o.stride(Value)]).sum();
        let (v_step, v_key, q_step, k_step, k_key) = (v.stride(Value), v.stride(Key), q.stride(Depth), k.stride(Depth), k.stride(Key));
        for (j, s) in scores.row(index) {
            let p = (s - lse).exp();
            let mut dp = 0.0;
            for e in 0..size {
                let at = at_v + j * v_key + e * v_step;
                dp += gradient[e] * v.data[at];
                sums[2].data[at] += p * gradient[e];
            }
            let ds = p * (dp - delta);
            if let Some(bias) = sums.get_mut(3) {
                let step = bias.stride(Key);
                bias.data[at_bias + j * step] += ds;
            }
            let ds = a.scale.0 * ds;
            for c in 0..depth {
                let (in_q, in_k) = (at_q + c * q_step, at_k + j * k_key + c * k_step);
                sums[0].data[in_q] += ds * k.data[in_k];
                sums[1].data[in_k] += ds * q.data[in_q];
            }
        }
    });
    sums.into_iter().map(|x| x.finish(precision)).collect()
}
