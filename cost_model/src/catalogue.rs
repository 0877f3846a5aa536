//! Devices known by name.
//!
//! Peaks, memory, cache and links are the vendors' figures (dense, without sparsity, at boost clock). The rest is fitted, one set of values
//! for each architecture: tile efficiencies and ramps are shared by all GPUs, `in_flight` and energies per operation belong to an
//! architecture, memory efficiencies to a memory. `docs/accuracy.md` says against what, and how well.

use crate::device::{BytesPerSecond, DeviceKind, FlopsPerSecond, FusedAttention, FusedKernel, PeakRates, PowerLimit, ProductEngine, Tile};
use ir::{Bytes, Seconds};

const GIB: u64 = 1 << 30;

/// Every device with what it is made from.
const DEVICES: [(&str, fn() -> DeviceKind); 19] = [
    ("CPU-core", cpu_core),
    ("V100-SXM2-16GB", || volta(16, 300.0, 15.7)),
    ("V100-SXM2-32GB", || volta(32, 300.0, 15.7)),
    ("V100-PCIe-16GB", || volta(16, 250.0, 14.1)),
    ("V100-PCIe-32GB", || volta(32, 250.0, 14.1)),
    ("A100-SXM-40GB", || ampere(40, 1555.0, 400.0)),
    ("A100-SXM-80GB", || ampere(80, 2039.0, 400.0)),
    ("A100-PCIe-40GB", || ampere(40, 1555.0, 250.0)),
    ("A100-PCIe-80GB", || ampere(80, 1935.0, 300.0)),
    ("H100-SXM-80GB", || hopper(80, 3350.0, 0.87, 700.0)),
    ("H100-PCIe-80GB", hopper_pcie),
    ("H100-96GB-500W", || hopper(96, 2400.0, 0.87, 500.0)),
    ("H200-SXM-141GB", || hopper(141, 4800.0, 0.845, 700.0)),
    ("H200-NVL-141GB", || hopper(141, 4800.0, 0.845, 600.0)),
    ("GH200-96GB", || hopper(96, 4000.0, 0.87, 900.0)),
    ("B200-SXM-180GB", || blackwell(180, 1000.0, 2250.0, 4500.0)),
    // Of 1,200 W that it may take, steps show what 1,000 W sustain.
    ("GB200-186GB", || blackwell(186, 1000.0, 2500.0, 5000.0)),
    ("B300-SXM-288GB", || blackwell(288, 1100.0, 2250.0, 4500.0)),
    ("GB300-288GB", || blackwell(288, 1400.0, 2500.0, 5000.0)),
];

/// Names of the devices.
pub fn device_presets() -> impl Iterator<Item = &'static str> {
    DEVICES.iter().map(|(name, _)| *name)
}

/// The device of that name.
pub(crate) fn device(name: &str) -> Option<DeviceKind> {
    let (name, make) = DEVICES.iter().find(|(known, _)| *known == name)?;
    Some(DeviceKind { name: (*name).into(), ..make() })
}

/// Peaks in TFLOP/s: f64, f32, tf32, f16, bf16, f8, i8.
fn peaks(tera: [f64; 7]) -> PeakRates {
    let [f64, f32, tf32, f16, bf16, f8, i8] = tera.map(|t| FlopsPerSecond(t * 1e12));
    PeakRates { f64, f32, tf32, f16, bf16, f8, i8 }
}

fn engine(tiles: &[(u64, u64, f64)], ramp: f64, in_flight: f64) -> ProductEngine {
    ProductEngine { tiles: tiles.iter().map(|&(m, n, efficiency)| Tile { m, n, efficiency }).collect(), ramp, in_flight }
}

/// Tiles of the tensor units.
const TENSOR_TILES: [(u64, u64, f64); 5] = [(256, 128, 0.91), (128, 128, 0.90), (128, 64, 0.69), (64, 64, 0.53), (64, 32, 0.34)];
/// Tiles of the scalar units, which smaller ones fill as well.
const SCALAR_TILES: [(u64, u64, f64); 5] = [(128, 128, 0.955), (128, 64, 0.92), (64, 64, 0.92), (64, 32, 0.895), (32, 32, 0.365)];

/// What all GPUs share.
fn gpu(units: u32, peak: PeakRates, memory: u64, bandwidth: f64, efficiency: f64, in_flight: [f64; 2], power: PowerLimit) -> DeviceKind {
    let [narrow, wide] = in_flight;
    DeviceKind {
        name: String::new(),
        units,
        vector: peak.f32,
        peak,
        f32_as_tf32: false,
        memory: Bytes(memory * GIB),
        // The CUDA context, cuBLAS workspaces and NCCL's channels.
        overhead: Bytes(3 * GIB / 2),
        memory_bandwidth: BytesPerSecond(bandwidth * 1e9),
        memory_efficiency: efficiency,
        cache: Bytes(6 << 20),
        cache_bandwidth: BytesPerSecond(bandwidth * 2.5e9),
        host_bandwidth: BytesPerSecond(26e9),
        launch: Seconds(5e-6),
        narrow: engine(&TENSOR_TILES, 53.0, narrow),
        wide: engine(&SCALAR_TILES, 37.0, wide),
        tail: 0.18,
        exposed: 0.1,
        alignment: 16,
        misaligned: 0.83,
        power: Some(power),
        attention: Vec::new(),
    }
}

/// V100: no tensor units for bf16, TF32 and f8, which run in f32; no fused attention in the libraries of its time.
fn volta(memory: u64, watts: f64, single: f64) -> DeviceKind {
    let peak = peaks([single / 2.0, single, single, 8.0 * single, single, single, 4.0 * single]);
    let power = PowerLimit { limit: watts, idle: 50.0, joule_f32: 10.9e-12, joule_f16: 2.4e-12, joule_f8: 2.0e-12 };
    DeviceKind {
        host_bandwidth: BytesPerSecond(12e9),
        // Its library copies operands to aligned places when rows are even.
        misaligned: 0.96,
        ..gpu(80, peak, memory, 900.0, 0.86, [4.5e3, 2.5e3], power)
    }
}

/// A100: f8 is stored, and multiplied as f16.
fn ampere(memory: u64, bandwidth: f64, watts: f64) -> DeviceKind {
    let power = PowerLimit { limit: watts, idle: if watts < 400.0 { 60.0 } else { 80.0 }, joule_f32: 12.35e-12, joule_f16: 1.26e-12, joule_f8: 0.63e-12 };
    DeviceKind {
        cache: Bytes(40 << 20),
        attention: vec![FusedAttention { kernel: FusedKernel::Flash2, product_share: 0.845, wide_share: 0.61, scores: 2.95e12 }],
        ..gpu(108, peaks([19.5, 19.5, 156.0, 312.0, 312.0, 312.0, 624.0]), memory, bandwidth, 0.82, [16.4e3, 23.0e3], power)
    }
}

fn hopper_power(watts: f64) -> PowerLimit {
    PowerLimit { limit: watts, idle: 120.0, joule_f32: 11.6e-12, joule_f16: 0.75e-12, joule_f8: 0.428e-12 }
}

/// Fused kernels of Hopper; scores pass through 16 exponentials a cycle and unit, or fewer where the kernel does not hide them.
fn hopper_attention(cycles: f64) -> Vec<FusedAttention> {
    let kernel = |kernel, product_share, wide_share, per_score| FusedAttention { kernel, product_share, wide_share, scores: cycles / per_score };
    vec![kernel(FusedKernel::CuDnn, 0.936, 0.82, 0.078), kernel(FusedKernel::Flash3, 0.95, 1.0, 0.056), kernel(FusedKernel::Flash2, 0.45, 0.825, 0.0507)]
}

/// H100 and H200 on an SXM board.
fn hopper(memory: u64, bandwidth: f64, efficiency: f64, watts: f64) -> DeviceKind {
    let peak = peaks([67.0, 67.0, 494.5, 989.0, 989.0, 1979.0, 1979.0]);
    DeviceKind {
        cache: Bytes(50 << 20),
        host_bandwidth: BytesPerSecond(51e9),
        attention: hopper_attention(132.0 * 1.755e9),
        ..gpu(132, peak, memory, bandwidth, efficiency, [11.6e3, 21.1e3], hopper_power(watts))
    }
}

fn hopper_pcie() -> DeviceKind {
    let peak = peaks([51.0, 51.0, 378.0, 756.0, 756.0, 1513.0, 1513.0]);
    DeviceKind {
        cache: Bytes(50 << 20),
        host_bandwidth: BytesPerSecond(51e9),
        attention: hopper_attention(114.0 * 1.62e9),
        ..gpu(114, peak, 80, 2000.0, 0.87, [11.6e3, 21.1e3], PowerLimit { idle: 80.0, ..hopper_power(350.0) })
    }
}

/// B200, GB200 and their successors with more memory.
fn blackwell(memory: u64, watts: f64, half: f64, eighth: f64) -> DeviceKind {
    let peak = peaks([40.0, 80.0, half / 2.0, half, half, eighth, eighth]);
    let power = PowerLimit { limit: watts, idle: 180.0, joule_f32: 10.0e-12, joule_f16: 0.46e-12, joule_f8: 0.253e-12 };
    DeviceKind {
        cache: Bytes(126 << 20),
        host_bandwidth: BytesPerSecond(52e9),
        attention: vec![FusedAttention { kernel: FusedKernel::CuDnn, product_share: 0.75, wide_share: 0.9, scores: 148.0 * 1.85e9 / 0.06 }],
        ..gpu(148, peak, memory, 8000.0, 0.85, [16.0e3, 21.1e3], power)
    }
}

/// One core with two 256-bit FMA units at about 3.1 GHz. Narrow floats are widened to f32.
fn cpu_core() -> DeviceKind {
    let tiles = engine(&[(8, 12, 0.85), (4, 4, 0.5), (1, 8, 0.25)], 16.0, 0.0);
    DeviceKind {
        name: String::new(),
        units: 1,
        peak: peaks([0.050, 0.100, 0.100, 0.090, 0.090, 0.080, 0.100]),
        f32_as_tf32: false,
        vector: FlopsPerSecond(25e9),
        memory: Bytes(8 * GIB),
        overhead: Bytes(64 << 20),
        memory_bandwidth: BytesPerSecond(18e9),
        memory_efficiency: 0.9,
        cache: Bytes(8 << 20),
        cache_bandwidth: BytesPerSecond(60e9),
        host_bandwidth: BytesPerSecond(18e9),
        launch: Seconds(1e-6),
        narrow: tiles.clone(),
        wide: tiles,
        tail: 0.0,
        exposed: 0.0,
        alignment: 1,
        misaligned: 1.0,
        power: None,
        attention: vec![FusedAttention { kernel: FusedKernel::Blocked, product_share: 0.7, wide_share: 1.0, scores: 1.2e9 }],
    }
}
