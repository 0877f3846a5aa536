//! Matrix products: tiles that compute units make in whole waves, memory traffic beside them, and the power limit over both.
//!
//! A product is cut into tiles (tile quantization), the tiles into waves over the device's units (wave quantization, as NVIDIA's
//! matrix-multiplication guide describes both), each with a fixed ramp along the contracted dimension. A unit that holds fewer elements of
//! the result than its latencies need waits: `in_flight`. With few tiles the contraction is split over units, which write partials.
//! Invariant: never faster than `flops / peak`, nor than its operands and result take through memory.

use crate::compute::{memory, streamed};
use crate::device::{DeviceKind, FlopsPerSecond, Tile};
use ir::op::DotDims;
use ir::{Bytes, DType, Flops, Seconds};

/// A batched matrix product `[batch, m, k] · [batch, k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatMulShape {
    /// Independent products.
    pub batch: u64,
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// Contracted size.
    pub k: u64,
    /// Type of the operands; the result has it too, or 16 bits if it has fewer.
    pub dtype: DType,
}

impl MatMulShape {
    /// The product that a dot over operands of two shapes is.
    pub fn of_dot(dims: &DotDims, lhs: &[u64], rhs: &[u64], dtype: DType) -> MatMulShape {
        let product = |dims: &[usize], shape: &[u64]| dims.iter().map(|&d| shape[d]).product();
        MatMulShape {
            batch: product(&dims.lhs_batch, lhs),
            m: product(&dims.lhs_free(lhs.len()), lhs),
            n: product(&dims.rhs_free(rhs.len()), rhs),
            k: product(&dims.lhs_contract, lhs),
            dtype,
        }
    }

    /// Two per multiply-add.
    pub fn flops(&self) -> Flops {
        Flops(2.0 * self.batch as f64 * self.m as f64 * self.n as f64 * self.k as f64)
    }
    /// Every operand read once, the result written once.
    pub fn bytes(&self) -> Bytes {
        let size = self.dtype.bytes();
        let operands = (self.m * self.k).saturating_add(self.k * self.n).saturating_mul(size);
        let result = (self.m * self.n).saturating_mul(size.max(2));
        Bytes(operands.saturating_add(result).saturating_mul(self.batch))
    }
}

/// Ways to split the contraction over units.
const SPLITS: [u64; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
/// The least of the contraction that one part of a split gets.
const SHORTEST_SPLIT: u64 = 128;

/// Time of a matrix product, its launch included.
pub(crate) fn matmul(device: &DeviceKind, shape: &MatMulShape) -> Seconds {
    if shape.batch == 0 || shape.m == 0 || shape.n == 0 {
        return Seconds(0.0);
    }
    device.launch + product(device, shape)
}

/// Time of a matrix product without its launch.
pub(crate) fn product(device: &DeviceKind, shape: &MatMulShape) -> Seconds {
    let (peak, engine) = device.products(shape.dtype);
    let units = f64::from(device.units);
    let unit = FlopsPerSecond(peak.0 / units * alignment(device, shape));
    // A GPU's cache is small beside what a step touches between two uses of an operand; a core's share of cache holds a tile's panels.
    let traffic = if device.units > 1 { streamed(device, shape.bytes()) } else { memory(device, shape.bytes()) };
    // Pipelines are filled by bytes: narrower operands need more steps of the contraction.
    let ramp = engine.ramp * (2.0 / shape.dtype.bytes() as f64).max(1.0);
    let mut best = Seconds(f64::INFINITY);
    // A GPU's library has every tile in both orientations.
    let turned = engine.tiles.iter().filter(|t| device.units > 1 && t.m != t.n).map(|t| Tile { m: t.n, n: t.m, ..*t });
    for tile in engine.tiles.iter().copied().chain(turned) {
        let tiles = shape.batch.saturating_mul(shape.m.div_ceil(tile.m).saturating_mul(shape.n.div_ceil(tile.n)));
        let area = (tile.m * tile.n) as f64;
        for split in SPLITS {
            if split > 1 && (tiles.saturating_mul(split - 1) >= u64::from(device.units) || shape.k / split < SHORTEST_SPLIT) {
                break;
            }
            let share = tiles as f64 * split as f64 / units;
            let waves = if share > 1.0 { share.ceil() - device.tail * (share.ceil() - share) } else { 1.0 };
            let resident = (waves * area).max(engine.in_flight);
            let depth = shape.k.div_ceil(split) as f64 + ramp;
            let compute = unit.time(Flops(2.0 * resident * depth / tile.efficiency));
            let partials = if split > 1 { gather_partials(device, shape, split) } else { Seconds(0.0) };
            let time = compute.max(traffic) + Seconds(compute.0.min(traffic.0)) * device.exposed + partials;
            best = if time < best { time } else { best };
        }
    }
    best.max(device.sustained(shape.dtype).time(shape.flops()))
}

/// Every part writes its partial result in f32, and a second kernel adds them.
fn gather_partials(device: &DeviceKind, shape: &MatMulShape, split: u64) -> Seconds {
    let result = shape.batch.saturating_mul(shape.m * shape.n * 4);
    memory(device, Bytes(result.saturating_mul(split + 1))) + device.launch * 0.5
}

/// Rows that do not start at multiples of the alignment are loaded in smaller pieces.
fn alignment(device: &DeviceKind, shape: &MatMulShape) -> f64 {
    let size = shape.dtype.bytes();
    if size > 2 {
        return 1.0;
    }
    let mut share = 1.0;
    let mut aligned = device.alignment.max(1);
    while aligned > 1 && !((shape.k * size).is_multiple_of(aligned) && (shape.n * size).is_multiple_of(aligned)) {
        share *= device.misaligned;
        aligned /= 2;
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::device;
    use crate::device_presets;

    fn square(n: u64, dtype: DType) -> MatMulShape {
        MatMulShape { batch: 1, m: n, n, k: n, dtype }
    }

    fn rate(name: &str, shape: MatMulShape) -> f64 {
        shape.flops().0 / matmul(&device(name).expect("a device"), &shape).0 / 1e12
    }

    #[test]
    fn larger_products_take_longer() {
        for name in device_presets() {
            let d = device(name).expect("a device");
            let mut last = Seconds(0.0);
            for i in 3..14 {
                let now = matmul(&d, &square(1 << i, DType::F32));
                assert!(now > last, "{name} {i}");
                last = now;
            }
        }
    }

    #[test]
    fn products_stay_below_peak_and_reach_most_of_it() {
        for name in device_presets().filter(|n| !n.contains("PCIe")) {
            let peak = device(name).expect("a device").peak.bf16.0 / 1e12;
            let large = rate(name, square(8192, DType::BF16)) / peak;
            assert!((0.5..=0.95).contains(&large), "{name}: {large}");
            assert!(rate(name, square(256, DType::BF16)) / peak < large, "{name}");
        }
    }

    #[test]
    fn no_product_is_faster_than_the_roofline() {
        for name in device_presets() {
            let d = device(name).expect("a device");
            for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16, DType::F8E4M3FN, DType::I8] {
                for (m, n, k) in [(1, 1, 1), (16, 4096, 4096), (4096, 4096, 64), (2048, 30522, 1000), (257, 129, 65), (128, 128, 500_000)] {
                    for batch in [1, 3, 96] {
                        let shape = MatMulShape { batch, m, n, k, dtype };
                        let time = matmul(&d, &shape);
                        assert!(time >= d.sustained(dtype).time(shape.flops()) && time.0.is_finite(), "{name} {shape:?}");
                        assert!(time >= d.cache_bandwidth.time(shape.bytes().min(d.cache)), "{name} {shape:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn splitting_the_contraction_helps_few_tiles() {
        let tall = MatMulShape { batch: 1, m: 256, n: 256, k: 65536, dtype: DType::BF16 };
        assert!(rate("A100-SXM-80GB", tall) > 40.0);
    }

    #[test]
    fn unaligned_rows_fall_off_the_tensor_units() {
        let at = |n| rate("A100-SXM-80GB", square(n, DType::BF16));
        assert!(at(4097) < 0.7 * at(4096) && at(4097) < at(4098) && at(4098) < at(4104));
    }

    #[test]
    fn a_lower_power_limit_is_slower() {
        let shape = square(8192, DType::BF16);
        assert!(rate("H100-96GB-500W", shape) < 0.8 * rate("H100-SXM-80GB", shape));
        assert!(rate("A100-PCIe-80GB", shape) < rate("A100-SXM-80GB", shape));
    }

    #[test]
    fn tf32_is_a_choice() {
        let mut d = device("A100-SXM-80GB").expect("a device");
        let plain = matmul(&d, &square(4096, DType::F32));
        d.f32_as_tf32 = true;
        assert!(matmul(&d, &square(4096, DType::F32)) < plain * 0.3);
    }
}
