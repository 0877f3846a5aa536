//! Clusters: nodes of equal size, a link inside a node, a network between nodes, and racks that may thin it.
//!
//! Rank `r` is device `r % devices_per_node` of node `r / devices_per_node`. Nodes may differ in their devices: then `device` is the weakest
//! of all in every figure, so that what fits and holds for it does for each, and [`Cluster::parts`] gives the nodes of each kind as clusters.
//! Invariant: a [`Cluster`] that this crate made has passed [`Cluster::check`]: at least one device, all rates positive and finite.

use crate::device::{BytesPerSecond, DeviceKind};
use crate::links::Pairs;
use crate::measured::Measurements;
use crate::{file, matrix, presets};
use ir::plan::ClusterSummary;
use ir::{Bytes, Diagnostic, Diagnostics, Result, Seconds};
use serde::Serialize;
use std::sync::Arc;

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
    /// The same by the protocol that reaches the whole bandwidth: its steps are chunks.
    pub bulk_latency: Seconds,
    /// Share of the bandwidth that the protocol with the short steps reaches; 1 where there is only one protocol.
    pub low_latency_share: f64,
    /// What a ring's device copies inside its own memory at the turn from adding to gathering, in pieces of the buffer.
    pub turn: f64,
    /// Whether any group of devices gets the full bandwidth; otherwise a group has only the links inside it.
    pub switched: bool,
    /// Which devices are linked, where there is no switch and it is known.
    pub pairs: Option<Pairs>,
    /// Bandwidth between devices that are not linked, through the host.
    pub host_bandwidth: BytesPerSecond,
    /// Whether the switch itself can add what passes through it.
    pub in_switch_reduction: bool,
    /// All-reduced bytes per second of such a switch, as a share of `bandwidth`.
    pub in_switch_share: f64,
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
    /// The same by the protocol that reaches the whole bandwidth.
    pub bulk_latency: Seconds,
    /// Whether the network's switches can add what passes through them.
    pub in_network_reduction: bool,
}

/// Racks: between them the network may carry less.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Racks {
    /// Nodes of a rack.
    pub nodes: u32,
    /// What the nodes of a rack could send over what their rack's uplinks carry; 1 if the network does not block.
    pub oversubscription: f64,
}

/// Consecutive nodes of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeGroup {
    /// How many nodes.
    pub count: u32,
    /// What their devices are.
    pub device: DeviceKind,
    /// Between devices of such a node.
    pub intra: Link,
    /// Price of one device for an hour, in the currency of the file.
    pub price: Option<f64>,
}

/// Some of a cluster's ranks as a cluster of equal nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its first rank in the whole.
    pub first_rank: u32,
    /// Its nodes.
    pub cluster: Cluster,
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
    /// Whether collectives in two levels (inside nodes, then between them) are to be had; NCCL has none.
    pub two_level: bool,
    /// Whether the library knows that a tree between two nodes sends every buffer once where a ring sends it twice; those of before 2023 did not.
    pub pair_trees: bool,
    /// Bytes that a node's processors read and write in a second while they update parameters whose state is in their memory.
    pub host_update: BytesPerSecond,
    /// Bytes that a node's drives read or write in a second.
    pub storage_bandwidth: BytesPerSecond,
    /// Racks, where they matter.
    pub racks: Option<Racks>,
    /// Price of one device for an hour, in the currency of the file.
    pub price: Option<f64>,
    /// Where nodes differ: their kinds, in rank order. Empty where all nodes are equal.
    pub kinds: Vec<NodeGroup>,
    /// Times measured on it, which prices prefer to formulas.
    pub measured: Option<Arc<Measurements>>,
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

    /// With the times of a table that `cluster measure` wrote; `file` is what diagnostics call it.
    ///
    /// # Errors
    /// As [`Cluster::parse`] for the table; `E0305` for a table of another cluster.
    pub fn with_measured(mut self, file: &str, text: &str) -> Result<Cluster> {
        let table = file::read_measured(file, text)?;
        if table.cluster != self.name {
            return Err(Diagnostic::input("E0305", format!("`{file}` was measured on `{}`, and the cluster is `{}`", table.cluster, self.name))
                .with_help(format!("measure this one: `shardwright cluster measure --cluster {} -o {file}`", self.name))
                .into());
        }
        self.measured = Some(Arc::new(table));
        Ok(self)
    }

    /// What a step takes beside its instructions, as far as that was measured.
    pub fn around_step(&self) -> Seconds {
        self.measured.as_ref().and_then(|table| table.step()).unwrap_or(Seconds(0.0))
    }

    /// How many devices.
    pub fn devices(&self) -> u32 {
        self.nodes * self.devices_per_node
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        rank / self.devices_per_node
    }

    /// The kind of a rank's device.
    pub fn device_of(&self, rank: u32) -> &DeviceKind {
        let node = self.node_of(rank);
        let mut first = 0;
        for kind in &self.kinds {
            if node < first + kind.count {
                return &kind.device;
            }
            first += kind.count;
        }
        &self.device
    }

    /// The cluster as clusters of equal nodes, in rank order: itself where all nodes are equal.
    pub fn parts(&self) -> Vec<Part> {
        if self.kinds.is_empty() {
            return vec![Part { first_rank: 0, cluster: self.clone() }];
        }
        let mut first = 0;
        let mut parts = Vec::new();
        for kind in &self.kinds {
            let cluster = Cluster {
                name: format!("{}/{}", self.name, kind.device.name),
                nodes: kind.count,
                device: kind.device.clone(),
                intra: kind.intra.clone(),
                price: kind.price,
                kinds: Vec::new(),
                ..self.clone()
            };
            parts.push(Part { first_rank: first * self.devices_per_node, cluster });
            first += kind.count;
        }
        parts
    }

    /// Price of all devices for an hour, where every device has one.
    pub fn price_per_hour(&self) -> Option<f64> {
        let per_node = f64::from(self.devices_per_node);
        if self.kinds.is_empty() {
            return self.price.map(|p| p * per_node * f64::from(self.nodes));
        }
        self.kinds.iter().map(|k| k.price.map(|p| p * per_node * f64::from(k.count))).sum()
    }

    /// One node as `nvidia-smi topo -m` draws it.
    pub fn matrix(&self) -> String {
        matrix::draw(self)
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
            ("device.peak.tf32", d.peak.tf32.0),
            ("device.peak.f16", d.peak.f16.0),
            ("device.peak.bf16", d.peak.bf16.0),
            ("device.peak.f8", d.peak.f8.0),
            ("device.peak.i8", d.peak.i8.0),
            ("device.vector", d.vector.0),
            ("device.memory_bandwidth", d.memory_bandwidth.0),
            ("device.cache_bandwidth", d.cache_bandwidth.0),
            ("device.host_bandwidth", d.host_bandwidth.0),
            ("device.units", f64::from(d.units)),
            ("device.memory", d.memory.0 as f64),
            ("link.bandwidth", self.intra.bandwidth.0),
            ("link.host_bandwidth", self.intra.host_bandwidth.0),
            ("network.bandwidth", self.inter.bandwidth.0),
            ("host_update", self.host_update.0),
            ("storage_bandwidth", self.storage_bandwidth.0),
        ];
        for (key, value) in positive {
            if !(value.is_finite() && value > 0.0) {
                wrong.push(Diagnostic::input("E0305", format!("`{key}` is {value}")).with_help("write a number above 0"));
            }
        }
        let shares = [
            ("device.memory_efficiency", d.memory_efficiency),
            ("device.misaligned", d.misaligned),
            ("link.efficiency", self.intra.efficiency),
            ("link.low_latency_share", self.intra.low_latency_share),
            ("link.in_switch_share", self.intra.in_switch_share),
            ("network.efficiency", self.inter.efficiency),
        ];
        for (key, value) in shares {
            if !(value > 0.0 && value <= 1.0) {
                wrong.push(Diagnostic::input("E0305", format!("`{key}` is {value}")).with_help("write a share above 0 and at most 1"));
            }
        }
        let durations = [
            ("device.launch", d.launch.0),
            ("link.latency", self.intra.latency.0),
            ("link.bulk_latency", self.intra.bulk_latency.0),
            ("network.bulk_latency", self.inter.bulk_latency.0),
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
        for (key, share) in [("device.tail", d.tail), ("device.exposed", d.exposed), ("link.turn", self.intra.turn)] {
            if !(0.0..=1.0).contains(&share) {
                wrong.push(Diagnostic::input("E0305", format!("`{key}` is {share}")).with_help("write a share from 0 to 1"));
            }
        }
        if d.power.as_ref().is_some_and(|p| p.limit <= p.idle) {
            wrong.push(Diagnostic::input("E0305", "`device.power.limit` is not above `device.power.idle`").with_help("write both in watts"));
        }
        if self.racks.as_ref().is_some_and(|r| r.nodes == 0 || !(r.oversubscription >= 1.0 && r.oversubscription.is_finite())) {
            wrong.push(
                Diagnostic::input("E0305", "`racks` needs at least one node, and an oversubscription of 1 or more").with_help("1 means that it does not block"),
            );
        }
        if let Some(pairs) = &self.intra.pairs
            && pairs.links().len() as u32 != self.devices_per_node
        {
            let message = format!("`link.pairs` has {} rows, and a node has {} devices", pairs.links().len(), self.devices_per_node);
            wrong.push(Diagnostic::input("E0305", message).with_help("write one row of link counts for each device of a node"));
        }
        if !self.kinds.is_empty() && self.kinds.iter().map(|k| k.count).sum::<u32>() != self.nodes {
            wrong.push(Diagnostic::input("E0302", "the counts of `[[nodes]]` do not add up to the nodes").with_help("state only the groups"));
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
