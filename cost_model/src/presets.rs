//! Devices and clusters known by name.
//!
//! Peaks, memory and links are the vendors' figures (dense, without sparsity); efficiencies and latencies are fitted to published
//! all-reduce, copy and matrix product measurements of the same parts, one set per kind of hardware. `local:N` is a fixed description
//! of a machine with 2 cores and 16 GiB, not a probe: plans must not depend on where they are made.

use crate::cluster::{Cluster, Link, Network};
use crate::device::{BytesPerSecond, DeviceKind, FlopsPerSecond, PeakRates, Tile};
use ir::diagnostic::nearest;
use ir::{Bytes, Diagnostic, Result, Seconds};

/// More devices than any published training run, and few enough that products of counts never overflow.
pub(crate) const MOST_DEVICES: u64 = 1 << 20;

/// Devices that `local:N` has at most: each is a thread of this process with an arena of its own.
pub(crate) const MOST_LOCAL_DEVICES: u64 = 256;

const GIB: u64 = 1 << 30;

/// Names of the clusters, with what `N` counts.
pub fn cluster_presets() -> impl Iterator<Item = (&'static str, &'static str)> {
    [("local", "devices"), ("dgx-a100", "nodes"), ("dgx-h100", "nodes"), ("p3.16xlarge", "nodes")].into_iter()
}

/// Names of the devices.
pub fn device_presets() -> impl Iterator<Item = &'static str> {
    ["CPU-core", "V100-SXM2-16GB", "V100-SXM2-32GB", "A100-SXM-40GB", "A100-SXM-80GB", "H100-SXM-80GB"].into_iter()
}

/// `local:N, dgx-a100:N, …` for help lines.
pub(crate) fn usage() -> String {
    cluster_presets().map(|(name, _)| format!("`{name}:N`")).collect::<Vec<_>>().join(", ")
}

/// The cluster `NAME:N` (`NAME` alone means 1).
pub(crate) fn cluster(spec: &str) -> Result<Cluster> {
    let (name, count) = spec.split_once(':').unwrap_or((spec, "1"));
    let Some((_, unit)) = cluster_presets().find(|(known, _)| *known == name) else {
        let mut d = Diagnostic::input("E0301", format!("`{name}` is not a known cluster")).with_note(format!("known are {}", usage()));
        d = match nearest(name, cluster_presets().map(|(k, _)| k)) {
            Some(k) => d.with_help(format!("did you mean `{k}:{count}`? Or give the path of a TOML file")),
            None => d.with_help("use one of them, or give the path of a TOML file that ends in `.toml`"),
        };
        return Err(d.into());
    };
    let n: u32 = count.parse().map_err(|_| {
        Diagnostic::input("E0302", format!("`{count}` in `{spec}` is not a number of {unit}")).with_help(format!("write for example `{name}:4`"))
    })?;
    if n == 0 {
        return Err(Diagnostic::input("E0302", format!("`{spec}` has 0 devices")).with_help(format!("write at least `{name}:1`")).into());
    }
    let too_many = |help: String| Err(Diagnostic::input("E0302", format!("`{spec}` has too many devices")).with_help(help).into());
    if name == "local" && u64::from(n) > MOST_LOCAL_DEVICES {
        return too_many(format!(
            "`local:{MOST_LOCAL_DEVICES}` is the largest: its devices are threads of one process; a larger cluster is a preset or a file"
        ));
    }
    if name != "local" && u64::from(n) * 8 > MOST_DEVICES {
        return too_many(format!("a cluster has at most {MOST_DEVICES} devices"));
    }
    let made = match name {
        "local" => local(n),
        "dgx-a100" => machine(spec, n, "A100-SXM-80GB", nvlink(3, 300e9, 0.78, 2.0e-6), network("InfiniBand HDR", 25e9, 8, 0.92, 6e-6)),
        "dgx-h100" => machine(
            spec,
            n,
            "H100-SXM-80GB",
            Link { in_switch_reduction: true, ..nvlink(4, 450e9, 0.80, 1.2e-6) },
            network("InfiniBand NDR", 50e9, 8, 0.92, 5e-6),
        ),
        _ => {
            machine(spec, n, "V100-SXM2-16GB", Link { switched: false, ..nvlink(2, 150e9, 0.89, 3.0e-6) }, network("25 Gb/s Ethernet", 3.125e9, 1, 0.75, 30e-6))
        }
    };
    made.check()?;
    Ok(made)
}

/// N devices inside one process on 2 cores and 16 GiB.
fn local(n: u32) -> Cluster {
    const CORES: f64 = 2.0;
    let device = local_device(n);
    // A collective is copies through shared memory: a byte sent is a byte read and a byte written.
    let bandwidth = device.memory_bandwidth.scaled(0.5);
    let step = Seconds(2e-6 * (f64::from(n) / CORES).max(1.0));
    Cluster {
        name: format!("local:{n}"),
        nodes: 1,
        devices_per_node: n,
        intra: Link {
            name: "shared memory".into(),
            bandwidth,
            efficiency: 0.9,
            latency: step,
            low_latency_share: 1.0,
            switched: true,
            in_switch_reduction: false,
        },
        inter: Network { name: "none".into(), bandwidth, adapters: 1, efficiency: 0.9, latency: step },
        // Meeting at a barrier costs a wake-up of every thread, and threads share cores.
        collective_launch: Seconds(8e-6 * (f64::from(n) / CORES).max(1.0)),
        solo_speedup: (f64::from(n) / CORES).max(1.0),
        device,
    }
}

fn local_device(n: u32) -> DeviceKind {
    let mut device = device("CPU-core").expect("invariant: `local` names a known device");
    let share = (2.0 / f64::from(n)).min(1.0);
    let scale = |r: &mut FlopsPerSecond| r.0 *= share;
    let p = &mut device.peak;
    [&mut p.f64, &mut p.f32, &mut p.f16, &mut p.bf16, &mut p.f8, &mut p.i8, &mut device.vector].into_iter().for_each(scale);
    device.memory_bandwidth = device.memory_bandwidth.scaled(share);
    device.cache_bandwidth = device.cache_bandwidth.scaled(share);
    device.cache = Bytes(device.cache.0 * 2 / u64::from(n.max(2)));
    device.memory = Bytes(16 * GIB / u64::from(n));
    device.overhead = Bytes(device.overhead.0 * 2 / u64::from(n.max(2)));
    device
}

fn machine(name: &str, nodes: u32, device_name: &str, intra: Link, inter: Network) -> Cluster {
    Cluster {
        name: if name.contains(':') { name.into() } else { format!("{name}:1") },
        nodes,
        devices_per_node: 8,
        device: device(device_name).expect("invariant: presets name known devices"),
        intra,
        inter,
        collective_launch: Seconds(18e-6),
        solo_speedup: 1.0,
    }
}

fn nvlink(generation: u32, bandwidth: f64, efficiency: f64, latency: f64) -> Link {
    Link {
        name: format!("NVLink {generation}"),
        bandwidth: BytesPerSecond(bandwidth),
        efficiency,
        latency: Seconds(latency),
        low_latency_share: 0.55,
        switched: true,
        in_switch_reduction: false,
    }
}

fn network(name: &str, bandwidth: f64, adapters: u32, efficiency: f64, latency: f64) -> Network {
    Network { name: name.into(), bandwidth: BytesPerSecond(bandwidth), adapters, efficiency, latency: Seconds(latency) }
}

/// Peaks in TFLOP/s: f64, f32, f16, bf16, f8, i8.
fn peaks(tera: [f64; 6]) -> PeakRates {
    let [f64, f32, f16, bf16, f8, i8] = tera.map(|t| FlopsPerSecond(t * 1e12));
    PeakRates { f64, f32, f16, bf16, f8, i8 }
}

/// A datacentre GPU; memory in GiB, bandwidths in GB/s, cache in MiB.
struct Gpu {
    name: &'static str,
    units: u32,
    peak: PeakRates,
    vector: f64,
    memory: u64,
    bandwidth: f64,
    efficiency: f64,
    cache: u64,
    tiles: [(u64, u64, f64); 3],
    ramp: f64,
}

impl Gpu {
    fn kind(self) -> DeviceKind {
        DeviceKind {
            name: self.name.into(),
            units: self.units,
            peak: self.peak,
            vector: FlopsPerSecond(self.vector * 1e12),
            memory: Bytes(self.memory * GIB),
            // The CUDA context, cuBLAS workspaces and NCCL's channels.
            overhead: Bytes(3 * GIB / 2),
            memory_bandwidth: BytesPerSecond(self.bandwidth * 1e9),
            memory_efficiency: self.efficiency,
            cache: Bytes(self.cache << 20),
            cache_bandwidth: BytesPerSecond(self.bandwidth * 2.5e9),
            launch: Seconds(4e-6),
            tiles: self.tiles.iter().map(|&(m, n, efficiency)| Tile { m, n, efficiency }).collect(),
            ramp: self.ramp,
            alignment: 16,
        }
    }
}

/// The device of that name.
pub(crate) fn device(name: &str) -> Option<DeviceKind> {
    let v100 = |name, memory| Gpu {
        name,
        units: 80,
        // 125 nominal in f16, of which the power limit sustains about 105. No tensor units for bf16 and f8: they run in f32.
        peak: peaks([7.8, 15.7, 105.0, 15.7, 15.7, 62.8]),
        vector: 15.7,
        memory,
        bandwidth: 900.0,
        efficiency: 0.85,
        cache: 6,
        tiles: [(128, 256, 0.95), (128, 128, 0.93), (64, 64, 0.75)],
        ramp: 160.0,
    };
    let a100 = |name, memory, bandwidth| Gpu {
        name,
        units: 108,
        peak: peaks([19.5, 19.5, 312.0, 312.0, 312.0, 624.0]), // f8 is stored, and multiplied as f16.
        vector: 19.5,
        memory,
        bandwidth,
        efficiency: 0.83,
        cache: 40,
        tiles: [(128, 256, 0.92), (128, 128, 0.88), (64, 64, 0.55)],
        ramp: 200.0,
    };
    Some(match name {
        "CPU-core" => DeviceKind {
            name: name.into(),
            units: 1,
            // One core with two 256-bit FMA units at about 3.1 GHz. Narrow floats are widened to f32.
            peak: peaks([0.050, 0.100, 0.090, 0.090, 0.080, 0.100]),
            vector: FlopsPerSecond(25e9),
            memory: Bytes(8 * GIB),
            overhead: Bytes(64 << 20),
            memory_bandwidth: BytesPerSecond(18e9),
            memory_efficiency: 0.9,
            cache: Bytes(8 << 20),
            cache_bandwidth: BytesPerSecond(60e9),
            launch: Seconds(1e-6),
            tiles: vec![Tile { m: 8, n: 12, efficiency: 0.85 }, Tile { m: 4, n: 4, efficiency: 0.5 }, Tile { m: 1, n: 8, efficiency: 0.25 }],
            ramp: 16.0,
            alignment: 1,
        },
        "V100-SXM2-16GB" => v100("V100-SXM2-16GB", 16).kind(),
        "V100-SXM2-32GB" => v100("V100-SXM2-32GB", 32).kind(),
        "A100-SXM-40GB" => a100("A100-SXM-40GB", 40, 1555.0).kind(),
        "A100-SXM-80GB" => a100("A100-SXM-80GB", 80, 2039.0).kind(),
        "H100-SXM-80GB" => Gpu {
            name: "H100-SXM-80GB",
            units: 132,
            peak: peaks([67.0, 67.0, 989.0, 989.0, 1979.0, 1979.0]),
            vector: 67.0,
            memory: 80,
            bandwidth: 3350.0,
            efficiency: 0.87,
            cache: 50,
            // Sustained clocks under a full tensor load stay below boost, so the steady share of the nominal peak is lower than A100's.
            tiles: [(128, 256, 0.78), (128, 128, 0.72), (64, 64, 0.42)],
            ramp: 300.0,
        }
        .kind(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::Diagnostics;

    #[test]
    fn every_preset_is_a_sound_cluster() {
        for (name, _) in cluster_presets() {
            for n in [1, 2, 4, 8, 64] {
                let c = cluster(&format!("{name}:{n}")).expect("a preset");
                assert!(c.check().is_ok() && c.devices() >= n && c.summary().name == format!("{name}:{n}"));
            }
        }
        let memory: u64 = (0..4).map(|_| cluster("local:4").expect("a preset").device.memory.0).sum();
        assert_eq!(memory, 16 * GIB);
    }

    #[test]
    fn wrong_specs_are_told_apart() {
        let told = |spec: &str| {
            let Err(Diagnostics(list)) = Cluster::parse(spec) else { panic!("`{spec}` is wrong") };
            (list[0].code.clone(), list[0].help.clone().unwrap_or_default())
        };
        assert_eq!(told("dgx-a10:2"), ("E0301".into(), "did you mean `dgx-a100:2`? Or give the path of a TOML file".into()));
        assert_eq!(told("tpu-pod").0, "E0301");
        for spec in ["local:0", "local:-1", "local:four", "local:", "local:257", "local:100000", "dgx-h100:4000000", "local:99999999999"] {
            assert_eq!(told(spec).0, "E0302", "{spec}");
        }
        assert_eq!(told("no/such.toml").0, "E0307");
    }
}
