//! Attention done in one piece: the products of its blocks and their exponentials, while only operands and results cross memory.
//!
//! After FlashAttention (Dao et al. 2022): scores live in a unit's own memory, so that time is the arithmetic's or the traffic's of `q`, `k`, `v` and `o`.

use crate::compute::memory;
use crate::device::{DeviceKind, FlopsPerSecond};
use ir::{Bytes, DType, Flops, Seconds};

/// An attention or its derivative on one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionWork {
    /// Independent heads: all batch dimensions of the queries.
    pub batch: u64,
    /// Queries of one head.
    pub queries: u64,
    /// Keys of one head.
    pub keys: u64,
    /// The contracted size.
    pub depth: u64,
    /// The size of a value.
    pub value: u64,
    /// Whether half of the scores are left out.
    pub causal: bool,
    /// Whether it is the derivative: scores again, and the products of five gradients.
    pub backward: bool,
    /// Type of queries, keys and values.
    pub dtype: DType,
    /// What it reads and writes.
    pub traffic: Bytes,
}

impl AttentionWork {
    /// Scores that are computed.
    fn scores(&self) -> f64 {
        let all = self.batch as f64 * self.queries as f64 * self.keys as f64;
        if self.causal { all / 2.0 } else { all }
    }
    /// Arithmetic of its matrix products.
    pub fn flops(&self) -> Flops {
        let (depth, value) = (self.depth as f64, self.value as f64);
        let per_score = if self.backward { 3.0 * depth + 2.0 * value } else { depth + value };
        Flops(2.0 * self.scores() * per_score)
    }
}

/// Queries that one unit takes at a time.
const BLOCK: u64 = 128;
/// Share of what products of that size reach alone: exponentials and rescaling lie between them.
const EFFICIENCY: f64 = 0.8;
/// Arithmetic of one score beside the products: the exponential, the mask, the maximum and the sum.
const SCORE_FLOPS: f64 = 20.0;

/// Time of an attention.
pub(crate) fn attention(device: &DeviceKind, work: &AttentionWork) -> Seconds {
    let share = device.tiles.iter().fold(0.0f64, |best, t| best.max(t.efficiency)) * EFFICIENCY;
    let blocks = (work.batch * work.queries.div_ceil(BLOCK)).max(1);
    let waves = blocks.div_ceil(u64::from(device.units)) * u64::from(device.units);
    let filled = blocks as f64 / waves as f64;
    let products = FlopsPerSecond(device.peak.of(work.dtype).0 * share * filled).time(work.flops());
    let scores = FlopsPerSecond(device.vector.0 * filled).time(Flops(work.scores() * SCORE_FLOPS));
    device.launch + (products + scores).max(memory(device, work.traffic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::device;

    fn work(tokens: u64) -> AttentionWork {
        let traffic = Bytes(4 * 32 * tokens * 128 * 2);
        AttentionWork { batch: 32, queries: tokens, keys: tokens, depth: 128, value: 128, causal: true, backward: false, dtype: DType::BF16, traffic }
    }

    #[test]
    fn long_sequences_reach_a_share_of_peak_and_causal_ones_cost_half() {
        let d = device("A100-SXM-80GB").expect("a device");
        let long = work(16384);
        let rate = long.flops().0 / attention(&d, &long).0;
        assert!((0.4..0.8).contains(&(rate / d.peak.bf16.0)), "{rate}");
        let whole = AttentionWork { causal: false, ..long };
        assert!((attention(&d, &whole).0 / attention(&d, &long).0 - 2.0).abs() < 0.01);
        assert!(attention(&d, &AttentionWork { backward: true, ..long }) > attention(&d, &long));
    }

    #[test]
    fn no_score_matrix_crosses_memory() {
        let d = device("A100-SXM-80GB").expect("a device");
        // Keys of one query: its time is the traffic's of the operands, whatever the size of the scores.
        let one = AttentionWork { queries: 1, ..work(1 << 20) };
        assert_eq!(attention(&d, &one), d.launch + memory(&d, one.traffic));
    }
}
