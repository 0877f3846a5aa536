//! A kind of device: what it computes at most, how fast its memory is, and how its matrix products fill it.
//!
//! Figures are those of one device of the cluster. For `local:N`, where devices share cores, they are one device's share.

use ir::{Bytes, DType, Flops, Seconds};
use serde::Serialize;

/// A transfer rate.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
pub struct BytesPerSecond(pub f64);

/// A computing rate.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
pub struct FlopsPerSecond(pub f64);

impl BytesPerSecond {
    /// How long `bytes` take.
    pub fn time(self, bytes: Bytes) -> Seconds {
        Seconds(bytes.0 as f64 / self.0)
    }
    /// The slower of two rates.
    pub fn min(self, other: BytesPerSecond) -> BytesPerSecond {
        BytesPerSecond(self.0.min(other.0))
    }
    /// This rate times `k`.
    #[must_use]
    pub fn scaled(self, k: f64) -> BytesPerSecond {
        BytesPerSecond(self.0 * k)
    }
}

impl FlopsPerSecond {
    /// How long `flops` take.
    pub fn time(self, flops: Flops) -> Seconds {
        Seconds(flops.0 / self.0)
    }
}

/// Peak rates of dense matrix products by operand type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeakRates {
    /// Double precision.
    pub f64: FlopsPerSecond,
    /// Single precision, without TF32.
    pub f32: FlopsPerSecond,
    /// IEEE half precision.
    pub f16: FlopsPerSecond,
    /// Brain floating point.
    pub bf16: FlopsPerSecond,
    /// The 8-bit floats.
    pub f8: FlopsPerSecond,
    /// Integers of 8 bits.
    pub i8: FlopsPerSecond,
}

impl PeakRates {
    /// The rate that products of `dtype` are bound by. Types without a unit of their own run as `f32`, complex ones as four products.
    pub fn of(&self, dtype: DType) -> FlopsPerSecond {
        match dtype {
            DType::F64 => self.f64,
            DType::F16 => self.f16,
            DType::BF16 => self.bf16,
            DType::I8 | DType::UI8 => self.i8,
            DType::C64 => FlopsPerSecond(self.f32.0 / 4.0),
            DType::C128 => FlopsPerSecond(self.f64.0 / 4.0),
            t if t.is_float() && t.bytes() == 1 => self.f8,
            _ => self.f32,
        }
    }
}

/// A block of the result that one compute unit makes at a time, and the share of the unit's peak it reaches once its pipeline is full.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tile {
    /// Rows.
    pub m: u64,
    /// Columns.
    pub n: u64,
    /// Share of peak in the steady state, in (0, 1].
    pub efficiency: f64,
}

/// One kind of device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceKind {
    /// Its name, such as `A100-SXM-80GB`.
    pub name: String,
    /// Units that work on tiles independently (streaming multiprocessors; 1 for a CPU's share of cores).
    pub units: u32,
    /// Peaks of matrix products.
    pub peak: PeakRates,
    /// Peak of elementwise arithmetic in f32.
    pub vector: FlopsPerSecond,
    /// Memory of one device.
    pub memory: Bytes,
    /// Memory that the framework, the libraries and the process take beside the arena.
    pub overhead: Bytes,
    /// Bandwidth of memory, reads and writes together.
    pub memory_bandwidth: BytesPerSecond,
    /// Share of that bandwidth that a streaming kernel reaches.
    pub memory_efficiency: f64,
    /// Last-level cache (a device's share).
    pub cache: Bytes,
    /// Bandwidth of that cache.
    pub cache_bandwidth: BytesPerSecond,
    /// Time to start one kernel.
    pub launch: Seconds,
    /// Tiles that matrix products may use; the best for a shape is taken.
    pub tiles: Vec<Tile>,
    /// Steps along the contracted dimension that filling and draining a tile's pipeline costs.
    pub ramp: f64,
    /// Bytes that rows of operands must be a multiple of for the tensor units to run at full rate; 1 where it does not matter.
    pub alignment: u64,
}
