//! Attention, made in this one place for all families.

use ir::DType;
use ir::trace::Tensor;

/// Which scores count, and how they are scaled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scores {
    /// Factor of `q·k`.
    pub(crate) scale: f64,
    /// A query sees keys up to its own position.
    pub(crate) causal: bool,
    /// A query sees this many keys at most, its own included.
    pub(crate) window: Option<u64>,
    /// Added to the scores: `[heads, queries, keys]`.
    pub(crate) bias: Option<Tensor>,
}

/// Attention of queries `[batch, queries, heads, size]` to keys and values `[batch, keys, groups, size]`, where each group of keys serves
/// `heads / groups` heads. The result is as the queries.
pub(crate) fn attention(q: &Tensor, k: &Tensor, v: &Tensor, scores: &Scores) -> Tensor {
    let t = q.tracer().clone();
    t.scope("attend", || {
        let (heads, groups) = (q.shape()[2], k.shape()[2]);
        let (queries, keys) = (q.shape()[1], k.shape()[1]);
        let grouped = q.split_dim(2, &[groups, heads / groups.max(1)]);
        let mut weights = grouped.einsum_as("bqghd,bkgd->bghqk", k, DType::F32) * scores.scale;
        if let Some(bias) = &scores.bias {
            weights = weights + bias.convert(DType::F32).split_dim(0, &[groups, heads / groups.max(1)]);
        }
        let window = scores.window.filter(|w| *w < keys);
        if scores.causal || window.is_some() {
            let row = t.iota(DType::I32, [queries, keys], 0);
            let column = t.iota(DType::I32, [queries, keys], 1);
            let mut seen = column.less_equal(&row);
            if let Some(window) = window {
                seen = seen.and(&(row - column).less(&t.full(DType::I32, [queries, keys], window as f64)));
            }
            weights = seen.select(&weights, &weights.full_like(-1e30));
        }
        let weights = weights.softmax(-1).convert(v.dtype());
        weights.einsum("bghqk,bkgd->bqghd", v).merge_dims(2, 3)
    })
}
