//! Work inside one device: matrix products, kernels, library ops and copies.
//!
//! The roofline of Williams, Waterman and Patterson (2009): the longer of computing and moving, plus a launch. A matrix product is tiles
//! that units make in whole waves, each with a fixed ramp along the contracted dimension (tile and wave quantization as NVIDIA's
//! matrix-multiplication guide describes them); with few tiles the contraction may be split over units, which writes partials.

use crate::device::{DeviceKind, FlopsPerSecond};
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
    /// Type of the operands and the result.
    pub dtype: DType,
}

impl MatMulShape {
    /// Two per multiply-add.
    pub fn flops(&self) -> Flops {
        Flops(2.0 * self.batch as f64 * self.m as f64 * self.n as f64 * self.k as f64)
    }
    /// Every operand read once, the result written once.
    pub fn bytes(&self) -> Bytes {
        let elements = (self.m * self.k).saturating_add(self.k * self.n).saturating_add(self.m * self.n);
        Bytes(elements.saturating_mul(self.batch).saturating_mul(self.dtype.bytes()))
    }
}

/// A kernel: a loop nest without matrix products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelWork {
    /// Bytes it reads from memory.
    pub read: Bytes,
    /// Bytes it writes.
    pub written: Bytes,
    /// Its arithmetic, polynomials of transcendental functions included.
    pub flops: Flops,
    /// What it computes in.
    pub dtype: DType,
}

/// What a library does that is neither a matrix product nor a kernel of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LibraryOp {
    /// A convolution, as the matrix product it amounts to.
    Convolution(MatMulShape),
    /// Rows picked by indices.
    Gather,
    /// Rows added or put by indices.
    Scatter,
    /// Sorting rows of `length`.
    Sort {
        /// Elements of one row.
        length: u64,
    },
    /// Anything else that is done element by element.
    Other,
}

/// A library op with its traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LibraryWork {
    /// Which.
    pub op: LibraryOp,
    /// Bytes read, written and arithmetic.
    pub work: KernelWork,
}

/// Convolutions reach this share of the same matrix product: windows are gathered on the way.
const CONVOLUTION_EFFICIENCY: f64 = 0.7;
/// Indexed rows do not stream.
const INDEXED_EFFICIENCY: f64 = 0.5;
/// Indexed sums read what they write, and collide.
const SCATTER_EFFICIENCY: f64 = 0.3;
/// Element-by-element library code is not vectorized.
const SCALAR_SHARE: f64 = 1.0 / 16.0;
/// Rate lost when rows of tensor-unit operands are not aligned.
const MISALIGNED_EFFICIENCY: f64 = 0.4;

/// Time of a matrix product.
pub(crate) fn matmul(device: &DeviceKind, shape: &MatMulShape) -> Seconds {
    if shape.batch == 0 || shape.m == 0 || shape.n == 0 {
        return Seconds(0.0);
    }
    device.launch + product(device, shape)
}

fn product(device: &DeviceKind, shape: &MatMulShape) -> Seconds {
    let row = |extent: u64| (extent * shape.dtype.bytes()).is_multiple_of(device.alignment);
    let aligned = if shape.dtype.bytes() > 2 || (row(shape.k) && row(shape.n)) { 1.0 } else { MISALIGNED_EFFICIENCY };
    let unit = FlopsPerSecond(device.peak.of(shape.dtype).0 / f64::from(device.units) * aligned);
    let memory = memory(device, shape.bytes());
    let mut best = Seconds(f64::INFINITY);
    for tile in &device.tiles {
        let tiles = shape.batch * shape.m.div_ceil(tile.m) * shape.n.div_ceil(tile.n);
        for split in [1u64, 2, 4, 8, 16] {
            if split > 1 && (device.units == 1 || tiles > u64::from(device.units) || shape.k / split < 128) {
                break;
            }
            let waves = (tiles * split).div_ceil(u64::from(device.units));
            let depth = shape.k.div_ceil(split) as f64 + device.ramp;
            let compute = unit.time(Flops(2.0 * tile.m as f64 * tile.n as f64 * depth / tile.efficiency)) * waves as f64;
            let partials = if split > 1 { self::memory(device, Bytes(shape.batch * shape.m * shape.n * 4 * (split + 1))) } else { Seconds(0.0) };
            let time = compute.max(memory) + partials;
            best = if time < best { time } else { best };
        }
    }
    best
}

/// Time of a kernel.
pub(crate) fn kernel(device: &DeviceKind, work: &KernelWork) -> Seconds {
    device.launch + memory(device, work.read + work.written).max(vector_rate(device, work.dtype).time(work.flops))
}

/// Time of a library op.
pub(crate) fn library(device: &DeviceKind, work: &LibraryWork) -> Seconds {
    let traffic = memory(device, work.work.read + work.work.written);
    device.launch
        + match work.op {
            LibraryOp::Convolution(shape) => (product(device, &shape) / CONVOLUTION_EFFICIENCY).max(traffic),
            LibraryOp::Gather => traffic / INDEXED_EFFICIENCY,
            LibraryOp::Scatter => traffic / SCATTER_EFFICIENCY,
            LibraryOp::Sort { length } => {
                let comparisons = length.max(2).next_power_of_two().trailing_zeros();
                let elements = work.work.read.0 as f64 / work.work.dtype.bytes() as f64;
                traffic.max(scalar_rate(device, work.work.dtype).time(Flops(elements * f64::from(comparisons))))
            }
            LibraryOp::Other => traffic.max(scalar_rate(device, work.work.dtype).time(work.work.flops)),
        }
}

/// Time of a copy of `bytes`: read and written.
pub(crate) fn copy(device: &DeviceKind, bytes: Bytes) -> Seconds {
    if bytes.0 == 0 { Seconds(0.0) } else { device.launch + memory(device, Bytes(bytes.0.saturating_mul(2))) }
}

/// Traffic up to the cache's size was just produced or will be read again soon; what is beyond goes to memory.
pub(crate) fn memory(device: &DeviceKind, bytes: Bytes) -> Seconds {
    let cached = bytes.min(device.cache);
    device.cache_bandwidth.time(cached) + device.memory_bandwidth.scaled(device.memory_efficiency).time(bytes - cached)
}

fn vector_rate(device: &DeviceKind, dtype: DType) -> FlopsPerSecond {
    let width = if dtype.bytes() > 4 { 2.0 } else { 1.0 };
    FlopsPerSecond(device.vector.0 / width)
}

fn scalar_rate(device: &DeviceKind, dtype: DType) -> FlopsPerSecond {
    FlopsPerSecond(vector_rate(device, dtype).0 * SCALAR_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::device;

    fn square(n: u64, dtype: DType) -> MatMulShape {
        MatMulShape { batch: 1, m: n, n, k: n, dtype }
    }

    fn rate(name: &str, shape: MatMulShape) -> f64 {
        shape.flops().0 / matmul(&device(name).expect("a device"), &shape).0 / 1e12
    }

    #[test]
    fn larger_products_take_longer() {
        for name in crate::device_presets() {
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
        for name in crate::device_presets() {
            let peak = device(name).expect("a device").peak.bf16.0 / 1e12;
            let large = rate(name, square(8192, DType::BF16)) / peak;
            assert!((0.6..=0.95).contains(&large), "{name}: {large}");
            assert!(rate(name, square(256, DType::BF16)) / peak < large, "{name}");
        }
    }

    #[test]
    fn splitting_the_contraction_helps_few_tiles() {
        let tall = MatMulShape { batch: 1, m: 256, n: 256, k: 65536, dtype: DType::BF16 };
        assert!(rate("A100-SXM-80GB", tall) > 40.0);
    }

    #[test]
    fn unaligned_rows_fall_off_the_tensor_units() {
        assert!(rate("A100-SXM-80GB", square(4097, DType::BF16)) < 0.6 * rate("A100-SXM-80GB", square(4096, DType::BF16)));
    }

    #[test]
    fn kernels_are_bound_by_memory_or_arithmetic() {
        let d = device("A100-SXM-80GB").expect("a device");
        let work = KernelWork { read: Bytes(1 << 30), written: Bytes(1 << 30), flops: Flops(1e6), dtype: DType::F32 };
        assert_eq!(kernel(&d, &work), copy(&d, Bytes(1 << 30)));
        assert!(kernel(&d, &KernelWork { flops: Flops(1e13), ..work }) > kernel(&d, &work));
        assert!(library(&d, &LibraryWork { op: LibraryOp::Scatter, work }) > library(&d, &LibraryWork { op: LibraryOp::Gather, work }));
    }
}
