//! Clusters: equal nodes of equal devices, a link inside a node and a network between nodes.
//!
//! Rank `r` is device `r % devices_per_node` of node `r / devices_per_node`. Invariant: a [`Cluster`] that this crate made has passed
//! [`Cluster::check`]: at least one device, all rates positive and finite.

use crate::device::{BytesPerSecond, DeviceKind};
use crate::{file, presets};
use ir::plan::ClusterSummary;
use ir::{Bytes, Diagnostic, Diagnostics, Result, Seconds};
use serde::Serialize;

/// A link between devices of one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    /// What it is: `NVLink 3`, `shared memory`.
    pub name: String,
    /// Bytes per second that one device sends, one direction.
    pub bandwidth: BytesPerSecond,
    /// Share of it that collectives reach on large buffers.
    pub efficiency: f64,
    /// Time of one step of a collective, or of one message.
    pub latency: Seconds,
    /// Share of the bandwidth that the protocol with the lowest latency reaches; 1 where there is only one protocol.
    pub low_latency_share: f64,
    /// Whether any group of devices gets the full bandwidth; otherwise devices are linked in pairs, and a group has only the links inside it.
    pub switched: bool,
    /// Whether the switch itself can add what passes through it.
    pub in_switch_reduction: bool,
}

/// The network between nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Network {
    /// What it is: `InfiniBand HDR`.
    pub name: String,
    /// Bytes per second of one network adapter, one direction.
    pub bandwidth: BytesPerSecond,
    /// Adapters of a node.
    pub adapters: u32,
    /// Share of it that collectives reach on large buffers.
    pub efficiency: f64,
    /// Time of one step of a collective, or of one message.
    pub latency: Seconds,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cluster {
    /// Its name: the preset as given (`dgx-a100:8`), or the file's `name`.
    pub name: String,
    /// Nodes.
    pub nodes: u32,
    /// Devices of a node.
    pub devices_per_node: u32,
    /// What the devices are.
    pub device: DeviceKind,
    /// Between devices of a node.
    pub intra: Link,
    /// Between nodes.
    pub inter: Network,
    /// Fixed time to start a collective, whatever its size.
    pub collective_launch: Seconds,
    /// How many times faster one device computes while all others are idle: `local:4` has 2 cores for 4 devices, so 2. 1 for separate devices.
    pub solo_speedup: f64,
}

impl Cluster {
    /// Reads `--cluster`: a preset (`local:4`, `dgx-a100:8`) or the path of a TOML file.
    ///
    /// # Errors
    /// `E0301` unknown preset, `E0302` a count of 0 or too large, `E0303` not TOML, `E0304` unknown key, `E0305` bad value, `E0306` missing key,
    /// `E0307` unreadable file, `E0308` unknown device.
    pub fn parse(spec: &str) -> Result<Cluster> {
        if !Cluster::is_file(spec) {
            return presets::cluster(spec);
        }
        let text = std::fs::read_to_string(spec).map_err(|e| {
            Diagnostic::input("E0307", format!("cannot read the cluster file `{spec}`: {e}")).with_help(format!("or name a preset: {}", presets::usage()))
        })?;
        file::read(spec, &text)
    }

    /// Whether `--cluster` names a file rather than a preset.
    pub fn is_file(spec: &str) -> bool {
        spec.ends_with(".toml") || spec.contains(['/', '\\']) || std::path::Path::new(spec).is_file()
    }

    /// Reads the text of a cluster file; `file` is what diagnostics call it.
    ///
    /// # Errors
    /// As [`Cluster::parse`].
    pub fn from_toml(file: &str, text: &str) -> Result<Cluster> {
        file::read(file, text)
    }

    /// How many devices.
    pub fn devices(&self) -> u32 {
        self.nodes * self.devices_per_node
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        rank / self.devices_per_node
    }

    /// What plans record.
    pub fn summary(&self) -> ClusterSummary {
        ClusterSummary {
            name: self.name.clone(),
            device: self.device.name.clone(),
            nodes: self.nodes,
            devices_per_node: self.devices_per_node,
            memory: self.device.memory,
            peak_flops: self.device.peak.f32.0,
            memory_bandwidth: self.device.memory_bandwidth.0,
            link_bandwidth: self.intra.bandwidth.0,
        }
    }

    /// Checks the invariant; reports everything that breaks it.
    ///
    /// # Errors
    /// `E0302` for counts, `E0305` for figures.
    pub fn check(&self) -> Result<()> {
        let mut wrong = Vec::new();
        for (key, count) in [("nodes", self.nodes), ("devices_per_node", self.devices_per_node), ("network.adapters", self.inter.adapters)] {
            if count == 0 {
                wrong.push(Diagnostic::input("E0302", format!("`{key}` of cluster `{}` is 0", self.name)).with_help("write a count of at least 1"));
            }
        }
        if u64::from(self.nodes) * u64::from(self.devices_per_node) > presets::MOST_DEVICES {
            wrong.push(
                Diagnostic::input("E0302", format!("{} nodes of {} devices are more than this model holds for", self.nodes, self.devices_per_node))
                    .with_help(format!("a cluster has at most {} devices", presets::MOST_DEVICES)),
            );
        }
        let d = &self.device;
        let positive = [
            ("device.peak.f64", d.peak.f64.0),
            ("device.peak.f32", d.peak.f32.0),
            ("device.peak.f16", d.peak.f16.0),
            ("device.peak.bf16", d.peak.bf16.0),
            ("device.peak.f8", d.peak.f8.0),
            ("device.peak.i8", d.peak.i8.0),
            ("device.vector", d.vector.0),
            ("device.memory_bandwidth", d.memory_bandwidth.0),
            ("device.cache_bandwidth", d.cache_bandwidth.0),
            ("device.units", f64::from(d.units)),
            ("device.memory", d.memory.0 as f64),
            ("link.bandwidth", self.intra.bandwidth.0),
            ("network.bandwidth", self.inter.bandwidth.0),
        ];
        for (key, value) in positive {
            if !(value.is_finite() && value > 0.0) {
                wrong.push(Diagnostic::input("E0305", format!("`{key}` is {value}")).with_help("write a number above 0"));
            }
        }
        let shares =
            [("device.memory_efficiency", d.memory_efficiency), ("link.efficiency", self.intra.efficiency), ("network.efficiency", self.inter.efficiency)];
        for (key, value) in shares {
            if !(value > 0.0 && value <= 1.0) {
                wrong.push(Diagnostic::input("E0305", format!("`{key}` is {value}")).with_help("write a share above 0 and at most 1"));
            }
        }
        let durations = [
            ("device.launch", d.launch.0),
            ("link.latency", self.intra.latency.0),
            ("network.latency", self.inter.latency.0),
            ("collective_launch", self.collective_launch.0),
        ];
        for (key, value) in durations {
            if !(value.is_finite() && value >= 0.0) {
                wrong.push(Diagnostic::input("E0305", format!("`{key}` is {value}")).with_help("write a number of seconds, 0 or more"));
            }
        }
        if !(self.solo_speedup.is_finite() && self.solo_speedup >= 1.0) {
            wrong.push(Diagnostic::input("E0305", format!("`solo_speedup` is {}", self.solo_speedup)).with_help("write 1 or more"));
        }
        if d.overhead >= d.memory {
            wrong.push(
                Diagnostic::input("E0305", format!("`device.overhead` ({}) leaves nothing of `device.memory` ({})", d.overhead, d.memory))
                    .with_help("state less overhead or more memory"),
            );
        }
        if wrong.is_empty() { Ok(()) } else { Err(Diagnostics(wrong)) }
    }

    /// What is left of a device's memory for the arena.
    pub fn usable_memory(&self) -> Bytes {
        Bytes(self.device.memory.0.saturating_sub(self.device.overhead.0))
    }
}
