//! Attention, made in this one place for all families.

use ir::DType;
use ir::attention::{Attention, Scale};
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
/// `heads / groups` heads. The result is as the queries. It is one operation, so no scores are kept for the backward pass.
pub(crate) fn attention(q: &Tensor, k: &Tensor, v: &Tensor, scores: &Scores) -> Tensor {
    let t = q.tracer().clone();
    t.scope("attend", || {
        let (heads, groups) = (q.shape()[2], k.shape()[2]);
        let (queries, keys) = (q.shape()[1], k.shape()[1]);
        let shared = heads != groups;
        let split = |x: &Tensor, dim: i64| if shared { x.split_dim(dim, &[groups, heads / groups.max(1)]) } else { x.clone() };
        let window = scores.window.filter(|w| *w < keys);
        let (bias, letters) = match (&scores.bias, window) {
            (Some(bias), _) => (Some(split(bias, 0)), if shared { ",ghqk" } else { ",hqk" }),
            (None, Some(window)) => {
                let distance = t.iota(DType::I32, [queries, keys], 0) - t.iota(DType::I32, [queries, keys], 1);
                (Some(distance.less(&t.full(DType::I32, [queries, keys], window as f64))), ",qk")
            }
            (None, None) => (None, ""),
        };
        let subscripts = match shared {
            true => format!("bqghd,bkgd,bkge{letters}->bqghe"),
            false => format!("bqhd,bkhd,bkhe{letters}->bqhe"),
        };
        let plain = Attention::from_subscripts(&subscripts).expect("invariant: the subscripts are well formed");
        let attention = Attention { scale: Scale(scores.scale), causal: scores.causal, ..plain };
        split(q, 2).attention(k, v, bias.as_ref(), attention).reshape(q.shape())
    })
}
