//! Attention, fused and unfused, forward and backward.
//!
//! A fused kernel (Dao, 2023; Shah et al., 2024) works on blocks of rows: per score it pays for its products at a share of the units' peak
//! and for one pass through the softmax, and each block pays a fixed number of columns to start and end. A causal mask skips blocks above
//! the diagonal; those on it are done whole. Beside that, operands and results stream through memory, partly hidden.
//! The unfused form is matrix products with the scores written between them, and passes over the scores.

use crate::compute::memory;
use crate::device::{DeviceKind, FusedAttention, FusedKernel};
use crate::product::{MatMulShape, product};
use ir::{Bytes, DType, Flops, Seconds};

/// How attention is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttentionKernel {
    /// Scores are written to memory.
    Unfused,
    /// The fused kernel that the device prefers; unfused where there is none.
    Best,
    /// This one; the preferred one where the device does not have it.
    Fused(FusedKernel),
}

/// An attention or its derivative on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Whether a query sees only the keys up to its own position; the last query is at the last key.
    pub causal: bool,
    /// Whether it is the derivative: scores again, and the products of five gradients.
    pub backward: bool,
    /// Type of queries, keys and values.
    pub dtype: DType,
    /// What it reads and writes besides scores.
    pub traffic: Bytes,
    /// Implementation.
    pub kernel: AttentionKernel,
}

impl AttentionWork {
    /// The forward of `batch` sequences with `heads` heads of `size` each, of which `kv_heads` have keys and values of their own; done by the
    /// device's best kernel.
    pub fn forward(batch: u64, heads: u64, kv_heads: u64, sequence: u64, size: u64, causal: bool, dtype: DType) -> AttentionWork {
        let rows = heads.saturating_add(kv_heads).saturating_mul(2);
        let traffic = Bytes(rows.saturating_mul(batch).saturating_mul(sequence).saturating_mul(size * dtype.bytes()));
        let batch = batch.saturating_mul(heads);
        let kernel = AttentionKernel::Best;
        AttentionWork { batch, queries: sequence, keys: sequence, depth: size, value: size, causal, backward: false, dtype, traffic, kernel }
    }

    /// Its derivative: also the cotangents of what it read and wrote.
    #[must_use]
    pub fn derivative(&self) -> AttentionWork {
        AttentionWork { backward: true, traffic: Bytes(self.traffic.0.saturating_mul(2)), ..*self }
    }

    /// Arithmetic of its matrix products on the scores that are seen.
    pub fn flops(&self) -> Flops {
        let columns = if self.causal { self.mean_columns(0) } else { self.keys as f64 };
        Flops(self.batch as f64 * self.queries as f64 * columns * self.flops_per_score())
    }

    fn flops_per_score(&self) -> f64 {
        let (depth, value) = (self.depth as f64, self.value as f64);
        2.0 * if self.backward { 3.0 * depth + 2.0 * value } else { depth + value }
    }

    /// Keys that an average block of `block` queries goes through under a causal mask.
    fn mean_columns(&self, block: u64) -> f64 {
        let before = self.keys.saturating_sub(self.queries) as f64;
        (before + (self.queries + block) as f64 / 2.0).min(self.keys as f64)
    }
}

/// Rows of queries that a unit works on at a time.
const BLOCK: u64 = 128;
/// What a block pays to start and to end, in columns of scores.
const START_COLUMNS: f64 = 77.0;
/// Share of the last wave's idle time that stays: blocks are many and short.
const IDLE_TAIL: f64 = 0.19;
/// Share of the memory time that computing does not hide.
const EXPOSED: f64 = 0.26;
/// Backward products against forward ones: three accumulators live at once, so tiles are smaller.
const BACKWARD_SHARE: f64 = 0.73;
/// A score's way back through the softmax against its way forward.
const BACKWARD_SCORES: f64 = 1.75;
/// Passes over all scores beside the products' own, forward: scale and mask, softmax; each reads and writes.
const FORWARD_SCORE_PASSES: u64 = 4;
/// The same backward: softmax (two read, one written), mask and scale.
const BACKWARD_SCORE_PASSES: u64 = 6;
/// Products of 16-bit heads whose rows do not start at the tensor units' alignment are done by the scalar units, whose kernels for halves
/// reach this share of those for f32.
const UNALIGNED_HEADS: f64 = 0.55;
/// Kernels of the unfused form besides products.
const UNFUSED_KERNELS: f64 = 3.0;

/// Time of attention, launches included.
pub(crate) fn attention(device: &DeviceKind, work: &AttentionWork) -> Seconds {
    if work.batch == 0 || work.queries == 0 || work.keys == 0 || work.depth == 0 {
        return Seconds(0.0);
    }
    let preferred = device.attention.first();
    let fused = match work.kernel {
        AttentionKernel::Unfused => None,
        AttentionKernel::Best => preferred,
        AttentionKernel::Fused(kernel) => device.attention.iter().find(|a| a.kernel == kernel).or(preferred),
    };
    match fused {
        Some(kernel) => fused_time(device, kernel, work),
        None => unfused(device, work),
    }
}

fn fused_time(device: &DeviceKind, kernel: &FusedAttention, work: &AttentionWork) -> Seconds {
    let peak = device.products(work.dtype).0.0;
    let wide = if work.depth.max(work.value) > 128 { kernel.wide_share } else { 1.0 };
    let rate = peak * kernel.product_share * wide;
    let per_score = if work.backward {
        work.flops_per_score() / (rate * BACKWARD_SHARE) + BACKWARD_SCORES / kernel.scores
    } else {
        work.flops_per_score() / rate + 1.0 / kernel.scores
    };
    let columns = if work.causal { work.mean_columns(BLOCK) } else { work.keys as f64 } + START_COLUMNS;
    // A device of one unit has no waves, and its blocks may be shorter.
    let rows = if device.units > 1 { work.queries.div_ceil(BLOCK) * BLOCK } else { work.queries } as f64;
    let waves = (work.batch as f64 * rows / BLOCK as f64 / f64::from(device.units)).max(1e-9);
    let idle = if device.units > 1 { 1.0 + IDLE_TAIL * (waves.ceil() - waves) / waves } else { 1.0 };
    let compute = Seconds(work.batch as f64 * rows * columns * per_score * idle).max(device.sustained(work.dtype).time(work.flops()));
    let traffic = memory(device, work.traffic);
    device.launch + compute.max(traffic) + Seconds(compute.0.min(traffic.0)) * EXPOSED
}

fn unfused(device: &DeviceKind, work: &AttentionWork) -> Seconds {
    // Heads are slices of one projection: batched products cannot copy them to aligned places as single products do.
    let apart = |size: u64| !(size * work.dtype.bytes()).is_multiple_of(device.alignment.max(1));
    let unaligned = work.dtype.bytes() == 2 && (apart(work.depth) || apart(work.value));
    let (dtype, share) = if unaligned { (DType::F32, UNALIGNED_HEADS) } else { (work.dtype, 1.0) };
    let of = |m, n, k| product(device, &MatMulShape { batch: work.batch, m, n, k, dtype }) * (1.0 / share);
    let (q, k, d, v) = (work.queries, work.keys, work.depth, work.value);
    let (products, count, passes) = if work.backward {
        // The cotangents of values, of probabilities, of queries and of keys; the scores were kept.
        (of(k, v, q) + of(q, k, v) + of(q, d, k) + of(k, d, q), 4.0, BACKWARD_SCORE_PASSES)
    } else {
        (of(q, k, d) + of(q, v, k), 2.0, FORWARD_SCORE_PASSES)
    };
    let scores = Bytes(work.batch.saturating_mul(q.saturating_mul(k)).saturating_mul(work.dtype.bytes()));
    products + memory(device, Bytes(scores.0.saturating_mul(passes))) + device.launch * (count + UNFUSED_KERNELS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::device;

    fn work(sequence: u64, causal: bool, kernel: AttentionKernel) -> [AttentionWork; 2] {
        let forward = AttentionWork { kernel, ..AttentionWork::forward(2, 16, 16, sequence, 128, causal, DType::BF16) };
        [forward, forward.derivative()]
    }

    #[test]
    fn longer_sequences_take_longer_and_causal_ones_less() {
        for name in crate::device_presets() {
            let d = device(name).expect("a device");
            for pass in [0, 1] {
                for kernel in [AttentionKernel::Unfused, AttentionKernel::Best] {
                    let mut last = Seconds(0.0);
                    for sequence in (5..15).map(|i| 1 << i) {
                        let now = attention(&d, &work(sequence, false, kernel)[pass]);
                        assert!(now > last && now.0.is_finite(), "{name} {sequence}");
                        assert!(attention(&d, &work(sequence, true, kernel)[pass]) <= now, "{name} {sequence}");
                        last = now;
                    }
                }
            }
        }
    }

    #[test]
    fn unaligned_heads_fall_off_the_tensor_units() {
        let d = device("A100-SXM-80GB").expect("a device");
        let time = |size| attention(&d, &AttentionWork { kernel: AttentionKernel::Unfused, ..AttentionWork::forward(4, 16, 16, 2048, size, true, DType::F16) });
        assert!(time(108) > time(112) * 3.0 && time(104) < time(112));
    }

    #[test]
    fn fused_beats_unfused_and_neither_beats_the_peak() {
        for name in ["A100-SXM-80GB", "H100-SXM-80GB", "B200-SXM-180GB"] {
            let d = device(name).expect("a device");
            for pass in [0, 1] {
                let (fused, unfused) = (work(4096, true, AttentionKernel::Best)[pass], work(4096, true, AttentionKernel::Unfused)[pass]);
                assert!(attention(&d, &fused) < attention(&d, &unfused), "{name}");
                assert!(attention(&d, &fused) >= d.sustained(DType::BF16).time(fused.flops()), "{name}");
            }
        }
    }

    #[test]
    fn long_causal_sequences_cost_half() {
        let d = device("A100-SXM-80GB").expect("a device");
        let [causal, whole] = [true, false].map(|causal| attention(&d, &work(16384, causal, AttentionKernel::Best)[0]).0);
        assert!((whole / causal - 2.0).abs() < 0.05, "{}", whole / causal);
    }

    #[test]
    fn no_score_matrix_crosses_memory() {
        let d = device("H100-SXM-80GB").expect("a device");
        // One query of many keys: its time is the traffic's of the operands, whatever the size of the scores, and fewer key heads read less.
        let traffic = Bytes(32 * (1 << 20) * 128 * 2 * 2);
        let one = AttentionWork { queries: 1, traffic, ..work(1 << 20, true, AttentionKernel::Best)[0] };
        assert!(attention(&d, &AttentionWork { traffic: Bytes(traffic.0 / 8), ..one }) < attention(&d, &one));
    }

    #[test]
    fn a_kernel_that_is_not_there_is_the_preferred_one() {
        let d = device("A100-SXM-80GB").expect("a device");
        let [asked, _] = work(2048, true, AttentionKernel::Fused(FusedKernel::Flash3));
        assert_eq!(attention(&d, &asked), attention(&d, &AttentionWork { kernel: AttentionKernel::Best, ..asked }));
    }
}
