//! A kind of device: what it computes at most, how fast its memory is, and how its matrix products fill it.
//!
//! Figures are those of one device of the cluster. For `local:N`, where devices share cores, they are one device's share.
//! Peaks are the vendor's at boost clock; what a power limit leaves of them under a full load is [`PowerLimit`]'s.

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
    /// Single precision through the tensor units, operands rounded to 10 bits of mantissa; `f32` where there are none.
    pub tf32: FlopsPerSecond,
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

/// How one kind of arithmetic unit makes matrix products.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProductEngine {
    /// Tiles that products may use; the best for a shape is taken.
    pub tiles: Vec<Tile>,
    /// Steps along the contracted dimension that filling and draining a tile's pipeline costs.
    pub ramp: f64,
    /// Elements of the result that one unit works on at once when its latencies are hidden; with fewer it waits.
    pub in_flight: f64,
}

/// What the board's power limit leaves of the peaks: a product that runs long enough is bound by energy per operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PowerLimit {
    /// The board's limit in watts.
    pub limit: f64,
    /// What it draws when no product runs: leakage, memory, links.
    pub idle: f64,
    /// Joules of one operation, by operand type as in [`PeakRates`]: products of 32 bits.
    pub joule_f32: f64,
    /// Products of 16 bits (and TF32 at twice that).
    pub joule_f16: f64,
    /// Products of 8 bits.
    pub joule_f8: f64,
}

impl PowerLimit {
    /// The rate of products of `dtype` that the limit sustains.
    pub fn sustained(&self, dtype: DType) -> FlopsPerSecond {
        let joule = match dtype.bytes() {
            1 => self.joule_f8,
            2 => self.joule_f16,
            _ => self.joule_f32,
        };
        FlopsPerSecond((self.limit - self.idle) / joule)
    }
}

/// Which implementation of attention that never writes its scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FusedKernel {
    /// A plain blocked kernel.
    Blocked,
    /// Dao (2023).
    Flash2,
    /// Shah et al. (2024): products and softmax of two groups of warps overlap.
    Flash3,
    /// NVIDIA's library.
    CuDnn,
}

impl FusedKernel {
    /// Every kind, with its name in cluster files.
    pub const ALL: [(&str, FusedKernel); 4] =
        [("blocked", FusedKernel::Blocked), ("flash2", FusedKernel::Flash2), ("flash3", FusedKernel::Flash3), ("cudnn", FusedKernel::CuDnn)];
}

/// A fused attention kernel on one kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FusedAttention {
    /// Which.
    pub kernel: FusedKernel,
    /// Share of the products' peak that its inner products reach.
    pub product_share: f64,
    /// Share of that for heads of more than 128, whose tiles are smaller.
    pub wide_share: f64,
    /// Scores per second that the device passes through the softmax.
    pub scores: f64,
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
    /// Whether products of f32 run as TF32, at `peak.tf32`.
    pub f32_as_tf32: bool,
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
    /// Bandwidth to the host's memory, one direction.
    pub host_bandwidth: BytesPerSecond,
    /// Time to start one kernel.
    pub launch: Seconds,
    /// Products of 16- and 8-bit operands and TF32.
    pub narrow: ProductEngine,
    /// Products of f32 and f64 operands.
    pub wide: ProductEngine,
    /// Share of the last, partly filled wave of tiles that later work or smaller tiles hide, in [0, 1].
    pub tail: f64,
    /// Share of the shorter of computing and moving that the longer one does not hide, in [0, 1].
    pub exposed: f64,
    /// Bytes that rows of narrow operands must be a multiple of for the tensor units to run at full rate; 1 where it does not matter.
    pub alignment: u64,
    /// Share of the rate that is left for each halving of the rows' alignment below that.
    pub misaligned: f64,
    /// The power limit, where published figures show that it binds.
    pub power: Option<PowerLimit>,
    /// Fused attention kernels there are, the preferred one first.
    pub attention: Vec<FusedAttention>,
}

impl DeviceKind {
    /// The type whose units products of `dtype` use, with their peak and their engine.
    pub fn products(&self, dtype: DType) -> (FlopsPerSecond, &ProductEngine) {
        match dtype {
            DType::F32 if self.f32_as_tf32 => (self.peak.tf32, &self.narrow),
            t if t.bytes() <= 2 => (self.peak.of(t), &self.narrow),
            t => (self.peak.of(t), &self.wide),
        }
    }

    /// The rate of products of `dtype` that a long run sustains: the peak, or what the power limit leaves.
    pub fn sustained(&self, dtype: DType) -> FlopsPerSecond {
        let peak = self.products(dtype).0;
        let Some(power) = &self.power else { return peak };
        let limit = match dtype {
            DType::F32 if self.f32_as_tf32 => FlopsPerSecond(power.sustained(DType::F16).0 / 2.0),
            // A type without units of its own is computed in a wider one, at that cost.
            t if self.peak.of(t) <= self.peak.f32 => power.sustained(DType::F32),
            t if self.peak.of(t) <= self.peak.f16 => power.sustained(DType::F16),
            t => power.sustained(t),
        };
        FlopsPerSecond(peak.0.min(limit.0))
    }

    /// A kind that neither of two is weaker than: the slower one's units, and the lower of both figures.
    #[must_use]
    pub fn weaker(&self, other: &DeviceKind) -> DeviceKind {
        if self == other {
            return self.clone();
        }
        let (slow, fast) = if other.sustained(DType::BF16).0 < self.sustained(DType::BF16).0 { (other, self) } else { (self, other) };
        let rate = |a: FlopsPerSecond, b: FlopsPerSecond| FlopsPerSecond(a.0.min(b.0));
        let (a, b) = (&slow.peak, &fast.peak);
        DeviceKind {
            name: format!("{} + {}", self.name, other.name),
            peak: PeakRates {
                f64: rate(a.f64, b.f64),
                f32: rate(a.f32, b.f32),
                tf32: rate(a.tf32, b.tf32),
                f16: rate(a.f16, b.f16),
                bf16: rate(a.bf16, b.bf16),
                f8: rate(a.f8, b.f8),
                i8: rate(a.i8, b.i8),
            },
            vector: rate(slow.vector, fast.vector),
            memory: slow.memory.min(fast.memory),
            overhead: if slow.overhead > fast.overhead { slow.overhead } else { fast.overhead },
            memory_bandwidth: slow.memory_bandwidth.min(fast.memory_bandwidth),
            memory_efficiency: slow.memory_efficiency.min(fast.memory_efficiency),
            cache: slow.cache.min(fast.cache),
            cache_bandwidth: slow.cache_bandwidth.min(fast.cache_bandwidth),
            host_bandwidth: slow.host_bandwidth.min(fast.host_bandwidth),
            launch: slow.launch.max(fast.launch),
            ..slow.clone()
        }
    }
}
