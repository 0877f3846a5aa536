//! Clusters known by name.
//!
//! Links are the vendors' figures; efficiencies and latencies are fitted to published all-reduces, one set for each kind of link and
//! network (`docs/accuracy.md`). `local:N` is a fixed description of a machine with 2 cores and 16 GiB, not a probe: plans must not
//! depend on where they are made.

use crate::catalogue::device;
use crate::cluster::{Cluster, Link, Network};
use crate::device::{BytesPerSecond, DeviceKind, FlopsPerSecond};
use crate::links::{Pairs, hybrid_cube_mesh};
use ir::diagnostic::nearest;
use ir::{Bytes, Diagnostic, Result, Seconds};

/// More devices than any published training run, and few enough that products of counts never overflow.
pub(crate) const MOST_DEVICES: u64 = 1 << 20;

/// Devices that `local:N` has at most: each is a thread of this process with an arena of its own.
pub(crate) const MOST_LOCAL_DEVICES: u64 = 256;

const GIB: u64 = 1 << 30;

/// A kind of node: its name, what it is, its devices, how they are linked, and its network.
struct Machine {
    name: &'static str,
    device: &'static str,
    per_node: u32,
    link: fn() -> Link,
    network: fn() -> Network,
}

const fn machine(name: &'static str, device: &'static str, per_node: u32, link: fn() -> Link, network: fn() -> Network) -> Machine {
    Machine { name, device, per_node, link, network }
}

const MACHINES: [Machine; 24] = [
    machine("dgx-1", "V100-SXM2-16GB", 8, cube_mesh, || edr(4)),
    machine("p3.16xlarge", "V100-SXM2-16GB", 8, cube_mesh, || ethernet("25 Gb/s Ethernet", 3.125e9, 1)),
    machine("p3dn.24xlarge", "V100-SXM2-32GB", 8, cube_mesh, || ethernet("100 Gb/s Ethernet", 12.5e9, 1)),
    machine("jean-zay-v100", "V100-SXM2-32GB", 4, quad, || omni_path(4)),
    machine("dgx-a100", "A100-SXM-80GB", 8, nvlink3, || infiniband("InfiniBand HDR", 25e9, 8)),
    machine("dgx-a100-40gb", "A100-SXM-40GB", 8, nvlink3, || infiniband("InfiniBand HDR", 25e9, 8)),
    machine("nd-a100-v4", "A100-SXM-80GB", 8, nvlink3, || infiniband("InfiniBand HDR", 25e9, 8)),
    machine("p4d.24xlarge", "A100-SXM-40GB", 8, nvlink3, || elastic_fabric(1, 12.5e9, 4)),
    machine("p4de.24xlarge", "A100-SXM-80GB", 8, nvlink3, || elastic_fabric(1, 12.5e9, 4)),
    machine("jean-zay-a100", "A100-SXM-80GB", 8, nvlink3, || omni_path(4)),
    machine("a100-pcie", "A100-PCIe-80GB", 8, || pcie(4), || infiniband("InfiniBand HDR", 25e9, 1)),
    machine("dgx-h100", "H100-SXM-80GB", 8, nvlink4, || infiniband("InfiniBand NDR", 50e9, 8)),
    machine("nd-h100-v5", "H100-SXM-80GB", 8, nvlink4, || infiniband("InfiniBand NDR", 50e9, 8)),
    machine("p5.48xlarge", "H100-SXM-80GB", 8, nvlink4, || elastic_fabric(2, 12.5e9, 32)),
    machine("a3-megagpu-8g", "H100-SXM-80GB", 8, nvlink4, || ethernet("200 Gb/s Ethernet", 25e9, 8)),
    machine("grand-teton", "H100-96GB-500W", 8, nvlink4, || infiniband("RoCE 400 Gb/s", 50e9, 8)),
    machine("h100-pcie", "H100-PCIe-80GB", 8, || pcie(5), || infiniband("InfiniBand NDR", 50e9, 1)),
    machine("hgx-h200", "H200-SXM-141GB", 8, nvlink4, || infiniband("InfiniBand NDR", 50e9, 8)),
    machine("p5en.48xlarge", "H200-SXM-141GB", 8, nvlink4, || elastic_fabric(3, 25e9, 16)),
    machine("dgx-b200", "B200-SXM-180GB", 8, nvlink5, || infiniband("InfiniBand NDR", 50e9, 8)),
    machine("p6-b200.48xlarge", "B200-SXM-180GB", 8, nvlink5, || elastic_fabric(4, 50e9, 8)),
    machine("dgx-b300", "B300-SXM-288GB", 8, nvlink5, || infiniband("InfiniBand XDR", 100e9, 8)),
    // The domain of the switches is the node.
    machine("gb200-nvl72", "GB200-186GB", 72, nvlink5, || infiniband("InfiniBand NDR", 50e9, 72)),
    machine("gb300-nvl72", "GB300-288GB", 72, nvlink5, || infiniband("InfiniBand XDR", 100e9, 72)),
];

/// Names of the clusters, with what `N` counts.
pub fn cluster_presets() -> impl Iterator<Item = (&'static str, &'static str)> {
    std::iter::once(("local", "devices")).chain(MACHINES.iter().map(|m| (m.name, "nodes")))
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
    let machine = MACHINES.iter().find(|m| m.name == name);
    let too_many = |help: String| Err(Diagnostic::input("E0302", format!("`{spec}` has too many devices")).with_help(help).into());
    match machine {
        None if u64::from(n) > MOST_LOCAL_DEVICES => {
            return too_many(format!(
                "`local:{MOST_LOCAL_DEVICES}` is the largest: its devices are threads of one process; a larger cluster is a preset or a file"
            ));
        }
        Some(m) if u64::from(n) * u64::from(m.per_node) > MOST_DEVICES => return too_many(format!("a cluster has at most {MOST_DEVICES} devices")),
        _ => {}
    }
    let made = machine.map_or_else(|| local(n), |m| nodes_of(m, n));
    made.check()?;
    Ok(made)
}

/// What a node's processors update (ZeRO-Offload, table 4: Adam on a billion parameters in a quarter of a second, 30 bytes each).
pub(crate) const HOST_UPDATE: BytesPerSecond = BytesPerSecond(120e9);
/// What a node's drives carry (ZeRO-Infinity, figure 2b: 1.6 GB/s for each of 16 devices).
pub(crate) const STORAGE: BytesPerSecond = BytesPerSecond(25e9);

fn nodes_of(machine: &Machine, nodes: u32) -> Cluster {
    Cluster {
        name: format!("{}:{nodes}", machine.name),
        nodes,
        devices_per_node: machine.per_node,
        device: device(machine.device).expect("invariant: presets name known devices"),
        intra: (machine.link)(),
        inter: (machine.network)(),
        collective_launch: Seconds(18.5e-6),
        solo_speedup: 1.0,
        two_level: false,
        pair_trees: true,
        host_update: HOST_UPDATE,
        storage_bandwidth: STORAGE,
        racks: None,
        price: None,
        kinds: Vec::new(),
        measured: None,
    }
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
            bulk_latency: step,
            low_latency_share: 1.0,
            turn: 0.0,
            switched: true,
            pairs: None,
            host_bandwidth: bandwidth,
            in_switch_reduction: false,
            in_switch_share: 1.0,
        },
        inter: Network { name: "none".into(), bandwidth, adapters: 1, efficiency: 0.9, latency: step, bulk_latency: step, in_network_reduction: false },
        // Meeting at a barrier costs a wake-up of every thread, and threads share cores.
        collective_launch: Seconds(8e-6 * (f64::from(n) / CORES).max(1.0)),
        solo_speedup: (f64::from(n) / CORES).max(1.0),
        two_level: false,
        pair_trees: true,
        host_update: HOST_UPDATE,
        storage_bandwidth: STORAGE,
        racks: None,
        price: None,
        kinds: Vec::new(),
        measured: None,
        device,
    }
}

fn local_device(n: u32) -> DeviceKind {
    let mut device = device("CPU-core").expect("invariant: `local` names a known device");
    let share = (2.0 / f64::from(n)).min(1.0);
    let scale = |r: &mut FlopsPerSecond| r.0 *= share;
    let p = &mut device.peak;
    [&mut p.f64, &mut p.f32, &mut p.tf32, &mut p.f16, &mut p.bf16, &mut p.f8, &mut p.i8, &mut device.vector].into_iter().for_each(scale);
    device.attention.iter_mut().for_each(|a| a.scores *= share);
    device.memory_bandwidth = device.memory_bandwidth.scaled(share);
    device.cache_bandwidth = device.cache_bandwidth.scaled(share);
    device.host_bandwidth = device.host_bandwidth.scaled(share);
    device.cache = Bytes(device.cache.0 * 2 / u64::from(n.max(2)));
    device.memory = Bytes(16 * GIB / u64::from(n));
    device.overhead = Bytes(device.overhead.0 * 2 / u64::from(n.max(2)));
    device
}

/// A generation of NVLink behind switches: bytes per second of a device, share reached, latency of a line's and of a chunk's step, line protocol's share.
fn nvlink(generation: u32, bandwidth: f64, efficiency: f64, step: f64, chunk: f64, line: f64) -> Link {
    Link {
        name: format!("NVLink {generation}"),
        bandwidth: BytesPerSecond(bandwidth),
        efficiency,
        latency: Seconds(step),
        bulk_latency: Seconds(chunk),
        low_latency_share: line,
        turn: 0.49,
        switched: true,
        pairs: None,
        host_bandwidth: BytesPerSecond(20e9),
        in_switch_reduction: false,
        in_switch_share: 1.0,
    }
}

fn nvlink3() -> Link {
    nvlink(3, 300e9, 0.785, 3.6e-6, 9.5e-6, 0.72)
}

fn nvlink4() -> Link {
    Link { in_switch_reduction: true, in_switch_share: 0.598, ..nvlink(4, 450e9, 0.85, 2.2e-6, 7.8e-6, 0.62) }
}

fn nvlink5() -> Link {
    Link { in_switch_reduction: true, in_switch_share: 0.455, ..nvlink(5, 900e9, 0.805, 2.0e-6, 11.5e-6, 0.75) }
}

/// NVLink 2 without switches: six links of 25 GB/s a device.
fn nvlink2(pairs: Pairs) -> Link {
    Link { turn: 0.0, switched: false, pairs: Some(pairs), host_bandwidth: BytesPerSecond(10e9), ..nvlink(2, 150e9, 0.916, 3.8e-6, 4.0e-6, 0.55) }
}

fn cube_mesh() -> Link {
    nvlink2(hybrid_cube_mesh())
}

/// Four devices, each joined to each by two links.
fn quad() -> Link {
    let links = (0..4).map(|i| (0..4).map(|j| if i == j { 0 } else { 2 }).collect()).collect();
    nvlink2(Pairs::new(links).expect("invariant: every device has two links to every other"))
}

/// Devices on PCI Express alone.
fn pcie(generation: u32) -> Link {
    let bandwidth = if generation >= 5 { 55e9 } else { 26e9 };
    Link { name: format!("PCIe {generation}"), turn: 0.0, ..nvlink(generation, bandwidth, 0.75, 4e-6, 10e-6, 0.7) }
}

/// Bytes per second of an adapter, adapters of a node, share reached, latency of a line's and of a chunk's step.
fn network(name: &str, bandwidth: f64, adapters: u32, efficiency: f64, step: f64, chunk: f64) -> Network {
    Network {
        name: name.into(),
        bandwidth: BytesPerSecond(bandwidth),
        adapters,
        efficiency,
        latency: Seconds(step),
        bulk_latency: Seconds(chunk),
        in_network_reduction: false,
    }
}

fn infiniband(name: &str, bandwidth: f64, adapters: u32) -> Network {
    network(name, bandwidth, adapters, 0.92, 6e-6, 20e-6)
}

/// Adapters of 100 Gb/s in hosts with PCIe 3, whose lanes a device's traffic crosses on its way: they carry less than the wire.
fn edr(adapters: u32) -> Network {
    network("InfiniBand EDR", 12.5e9, adapters, 0.72, 6e-6, 20e-6)
}

/// The generations of AWS's fabric differ in their latency most.
fn elastic_fabric(generation: u32, bandwidth: f64, adapters: u32) -> Network {
    let (efficiency, step) = match generation {
        1 => (0.80, 90e-6),
        2 => (0.90, 41e-6),
        3 => (0.92, 40e-6),
        _ => (0.965, 90e-6),
    };
    network(&format!("EFA v{generation}"), bandwidth, adapters, efficiency, step, 3.4 * step)
}

fn ethernet(name: &str, bandwidth: f64, adapters: u32) -> Network {
    network(name, bandwidth, adapters, 0.75, 30e-6, 90e-6)
}

/// Omni-Path as it was measured at Jean Zay: without direct access to device memory it reaches a fraction of its adapters.
fn omni_path(adapters: u32) -> Network {
    network("Omni-Path 100 Gb/s", 12.5e9, adapters, 0.21, 20e-6, 60e-6)
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
