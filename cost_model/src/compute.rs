//! Work inside one device that streams: kernels, library ops, optimizers, embeddings and copies.
//!
//! The roofline of Williams, Waterman and Patterson (2009): the longer of computing and moving, plus a launch.
//! Matrix products and attention have files of their own.

use crate::device::{DeviceKind, FlopsPerSecond};
use crate::product::{MatMulShape, product};
use ir::{Bytes, DType, Flops, Seconds};

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

impl KernelWork {
    /// An Adam update of `parameters`: parameter, gradient and both moments read, parameter and moments written; with a master copy in f32
    /// where parameters are narrower, which is read and written too. Some 20 operations each.
    pub fn adam(parameters: u64, dtype: DType, gradient: DType) -> KernelWork {
        let master = if dtype.bytes() < 4 { 4 } else { 0 };
        let state = 8 + master;
        // A master copy is read in the parameter's place.
        let read = gradient.bytes() + state + if master == 0 { dtype.bytes() } else { 0 };
        KernelWork {
            read: Bytes(parameters.saturating_mul(read)),
            written: Bytes(parameters.saturating_mul(state + dtype.bytes())),
            flops: Flops(20.0 * parameters as f64),
            dtype: DType::F32,
        }
    }
}

impl LibraryWork {
    /// Rows of `width` picked from a table for `tokens`.
    pub fn embedding(tokens: u64, width: u64, dtype: DType) -> LibraryWork {
        let bytes = Bytes(tokens.saturating_mul(width).saturating_mul(dtype.bytes()));
        LibraryWork { op: LibraryOp::Gather, work: KernelWork { read: bytes, written: bytes, flops: Flops(0.0), dtype } }
    }
    /// The cotangent of that: rows added into a table of gradients.
    pub fn embedding_gradient(tokens: u64, width: u64, dtype: DType) -> LibraryWork {
        LibraryWork { op: LibraryOp::Scatter, ..LibraryWork::embedding(tokens, width, dtype) }
    }
}

/// Convolutions reach this share of the same matrix product: windows are gathered on the way.
const CONVOLUTION_EFFICIENCY: f64 = 0.7;
/// Indexed rows do not stream.
const INDEXED_EFFICIENCY: f64 = 0.5;
/// Indexed sums read what they write, and collide.
const SCATTER_EFFICIENCY: f64 = 0.3;
/// Element-by-element library code is not vectorized.
const SCALAR_SHARE: f64 = 1.0 / 16.0;

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
    device.cache_bandwidth.time(cached) + streamed(device, bytes - cached)
}

/// Traffic that no cache holds.
pub(crate) fn streamed(device: &DeviceKind, bytes: Bytes) -> Seconds {
    device.memory_bandwidth.scaled(device.memory_efficiency).time(bytes)
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
    use crate::catalogue::device;

    #[test]
    fn kernels_are_bound_by_memory_or_arithmetic() {
        let d = device("A100-SXM-80GB").expect("a device");
        let work = KernelWork { read: Bytes(1 << 30), written: Bytes(1 << 30), flops: Flops(1e6), dtype: DType::F32 };
        assert_eq!(kernel(&d, &work), copy(&d, Bytes(1 << 30)));
        assert!(kernel(&d, &KernelWork { flops: Flops(1e13), ..work }) > kernel(&d, &work));
        assert!(library(&d, &LibraryWork { op: LibraryOp::Scatter, work }) > library(&d, &LibraryWork { op: LibraryOp::Gather, work }));
    }
}
