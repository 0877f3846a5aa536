//! Collectives: α per step plus β per byte on the slowest link, per algorithm; the cheapest is taken and named.
//!
//! Sizes follow one convention: [`CollectiveCall::bytes`] is the whole buffer of one device: what an all-reduce holds, what an all-gather ends
//! with, what a reduce-scatter or an all-to-all starts from. So an all-reduce moves exactly what a reduce-scatter and an all-gather of the same size do.
//! Ring and tree follow Thakur, Rabenseifner and Gropp (2005), the two-level scheme Cho et al. (BlueConnect, 2019):
//! reduce-scatter inside nodes, all-reduce of the parts between nodes on all adapters at once, all-gather inside nodes.
//! Each is done by one of two protocols: one with short steps and a share of the bandwidth, one with long steps and all of it.

use crate::cluster::Cluster;
use crate::device::BytesPerSecond;
use crate::topology::{Group, Route};
use ir::program::CollectiveKind;
use ir::{Bytes, DType, Flops, Seconds};
use serde::Serialize;
use std::fmt;

/// A collective to be priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveCall {
    /// Which.
    pub kind: CollectiveKind,
    /// The whole buffer of one device (see the module's convention).
    pub bytes: Bytes,
    /// Element type on the wire.
    pub dtype: DType,
}

/// How a collective is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Algorithm {
    /// Nothing to do: one device, or no bytes.
    None,
    /// Round a ring, a piece at a time.
    Ring,
    /// Up and down a binary tree.
    Tree,
    /// Inside nodes, then between nodes, then inside nodes.
    Hierarchical,
    /// The switch of each node adds; between nodes, parts on all adapters at once.
    InSwitch,
    /// Every device to every other.
    Direct,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Algorithm::None => "none",
            Algorithm::Ring => "ring",
            Algorithm::Tree => "tree",
            Algorithm::Hierarchical => "hierarchical",
            Algorithm::InSwitch => "in-switch",
            Algorithm::Direct => "direct",
        })
    }
}

/// What a collective costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CollectiveCost {
    /// Its duration.
    pub time: Seconds,
    /// How it is done.
    pub algorithm: Algorithm,
}

/// Share of a link that trees reach of what rings reach: their pipelines fork.
const TREE_EFFICIENCY: f64 = 0.92;
/// A step of the protocol with full bandwidth against a step of the fast one: it waits for whole chunks.
const BULK_STEP: f64 = 4.0;
/// The phases of a two-level collective run in chunks, one after another over different links: this share of the shorter one is not hidden.
const EXPOSED_PHASE: f64 = 0.35;
/// All-reduced bytes per second of a switch that adds, against what one device sends.
const IN_SWITCH_SHARE: f64 = 0.62;

/// The best algorithm for `call` on `group`, its start included.
pub(crate) fn best(cluster: &Cluster, call: &CollectiveCall, group: &Group) -> CollectiveCost {
    if group.size <= 1 || call.bytes.0 == 0 {
        return CollectiveCost { time: Seconds(0.0), algorithm: Algorithm::None };
    }
    let mut best = without_launch(cluster, call, group);
    best.time += cluster.collective_launch;
    best
}

/// The cost of one algorithm without the start, by the better protocol; `None` where it does not apply.
pub(crate) fn by(cluster: &Cluster, algorithm: Algorithm, call: &CollectiveCall, group: &Group) -> Option<Seconds> {
    let parts = Wire { cluster, call, group }.parts(algorithm)?;
    let bulk = parts.latency * BULK_STEP + parts.transfer;
    let fast = parts.latency + parts.transfer / cluster.intra.low_latency_share;
    Some(if fast < bulk { fast } else { bulk })
}

/// A message from every device of a stage to the one at its position in another.
pub(crate) fn send(cluster: &Cluster, bytes: Bytes, route: &Route) -> Seconds {
    if bytes.0 == 0 {
        return Seconds(0.0);
    }
    if !route.crosses_nodes {
        return cluster.intra.latency + link_rate(cluster, 2).time(bytes);
    }
    cluster.inter.latency + network_rate(cluster, 1, route.sharing).time(bytes)
}

/// What one of `sharing` groups with `per_node` devices on a node gets of the node's network: its share, at most what its own adapters carry.
fn network_rate(cluster: &Cluster, per_node: u32, sharing: u32) -> BytesPerSecond {
    let net = &cluster.inter;
    let adapters = f64::from(net.adapters);
    let own = f64::from(per_node) * (adapters / f64::from(cluster.devices_per_node)).max(1.0);
    net.bandwidth.scaled(net.efficiency * own.min(adapters / f64::from(sharing.max(1))))
}

/// What a device of a group of `size` inside a node sends: all its links go to the switch, or some of them to the group.
fn link_rate(cluster: &Cluster, size: u32) -> BytesPerSecond {
    let link = &cluster.intra;
    let inside = if link.switched || cluster.devices_per_node < 2 { 1.0 } else { f64::from(size.max(2) - 1) / f64::from(cluster.devices_per_node - 1) };
    link.bandwidth.scaled(link.efficiency * inside.min(1.0))
}

fn without_launch(cluster: &Cluster, call: &CollectiveCall, group: &Group) -> CollectiveCost {
    [Algorithm::Ring, Algorithm::Tree, Algorithm::Hierarchical, Algorithm::InSwitch, Algorithm::Direct]
        .into_iter()
        .filter_map(|algorithm| by(cluster, algorithm, call, group).map(|time| CollectiveCost { time, algorithm }))
        .reduce(|a, b| if b.time < a.time { b } else { a })
        .expect("invariant: every kind of collective has an algorithm")
}

/// A collective's duration: its steps, and what goes over the wire or through the arithmetic.
#[derive(Clone, Copy)]
struct Parts {
    latency: Seconds,
    transfer: Seconds,
}

struct Wire<'a> {
    cluster: &'a Cluster,
    call: &'a CollectiveCall,
    group: &'a Group,
}

impl Wire<'_> {
    fn parts(&self, algorithm: Algorithm) -> Option<Parts> {
        use CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter};
        match (algorithm, self.call.kind) {
            (Algorithm::Ring, AllReduce | ReduceScatter | AllGather) => Some(self.ring()),
            (Algorithm::Tree, AllReduce) => Some(self.tree()),
            (Algorithm::Hierarchical, AllReduce | ReduceScatter | AllGather) => self.hierarchical(),
            (Algorithm::InSwitch, AllReduce) => self.in_switch(),
            (Algorithm::Direct, AllToAll) => Some(self.all_to_all()),
            (Algorithm::Ring | Algorithm::Tree | Algorithm::Hierarchical | Algorithm::InSwitch | Algorithm::Direct | Algorithm::None, _) => None,
        }
    }
    fn intra(&self) -> BytesPerSecond {
        link_rate(self.cluster, self.group.per_node)
    }
    fn inter(&self) -> BytesPerSecond {
        network_rate(self.cluster, self.group.per_node, self.group.sharing)
    }
    /// The slowest link of a ring through the group: one edge in and one out of every node.
    fn bottleneck(&self) -> BytesPerSecond {
        match (self.group.spans_nodes(), self.group.per_node > 1) {
            (false, _) => self.intra(),
            (true, true) => self.intra().min(self.inter()),
            (true, false) => self.inter(),
        }
    }
    /// Combining what arrives goes on while the next piece is on its way.
    fn combine(&self, bytes: f64) -> Seconds {
        self.cluster.device.vector.time(Flops(bytes / self.call.dtype.bytes() as f64))
    }
    /// A piece's way round is `size - 1` hops, of which `nodes - 1` cross the network; an all-reduce goes round twice.
    fn ring(&self) -> Parts {
        let crossings = self.group.nodes.saturating_sub(1).min(self.group.size - 1);
        let round = self.cluster.intra.latency * f64::from(self.group.size - 1 - crossings) + self.cluster.inter.latency * f64::from(crossings);
        let moved = self.call.bytes.0 as f64 * f64::from(self.group.size - 1) / f64::from(self.group.size);
        let gather = Seconds(moved / self.bottleneck().0);
        let scatter = gather.max(self.combine(moved));
        match self.call.kind {
            CollectiveKind::AllReduce => Parts { latency: round + round, transfer: scatter + gather },
            CollectiveKind::ReduceScatter => Parts { latency: round, transfer: scatter },
            CollectiveKind::AllGather | CollectiveKind::AllToAll => Parts { latency: round, transfer: gather },
        }
    }
    fn tree(&self) -> Parts {
        let (intra, inter) = (&self.cluster.intra, &self.cluster.inter);
        let depth = intra.latency * f64::from(log2_ceil(self.group.per_node)) + inter.latency * f64::from(log2_ceil(self.group.nodes));
        let bytes = self.call.bytes.0 as f64;
        let one_way = Seconds(bytes / self.bottleneck().scaled(TREE_EFFICIENCY).0);
        Parts { latency: depth * 2.0, transfer: one_way.max(self.combine(bytes)) + one_way }
    }
    /// The same parts of all nodes, between nodes, on all adapters at once.
    fn across(&self) -> Parts {
        let group = self.group;
        let across = Group { size: group.nodes, nodes: group.nodes, per_node: 1, sharing: group.sharing * group.per_node };
        let bytes = Bytes(self.call.bytes.0.div_ceil(u64::from(group.per_node)));
        Wire { cluster: self.cluster, call: &CollectiveCall { bytes, ..*self.call }, group: &across }.ring()
    }
    /// Two levels; needs several nodes with several devices each.
    fn hierarchical(&self) -> Option<Parts> {
        if !self.group.spans_nodes() || self.group.per_node < 2 {
            return None;
        }
        let inside = Wire { group: &Group::within_node(self.group.per_node), ..*self }.ring();
        let across = self.across();
        let (long, short) = if inside.transfer > across.transfer { (inside, across) } else { (across, inside) };
        Some(Parts { latency: inside.latency + across.latency, transfer: long.transfer + short.transfer * EXPOSED_PHASE })
    }
    /// Every device sends its buffer to the switch once and receives the sum once; between nodes as in two levels, in the shadow of that.
    fn in_switch(&self) -> Option<Parts> {
        if !self.cluster.intra.in_switch_reduction || self.group.per_node < 2 {
            return None;
        }
        let switch = Seconds(self.call.bytes.0 as f64 / self.cluster.intra.bandwidth.scaled(IN_SWITCH_SHARE).0);
        let up_and_down = Parts { latency: self.cluster.intra.latency * 4.0, transfer: switch };
        if !self.group.spans_nodes() {
            return Some(up_and_down);
        }
        let across = self.across();
        Some(Parts { latency: up_and_down.latency + across.latency, transfer: switch.max(across.transfer) })
    }
    /// Pieces for the own node and for other nodes go at the same time, over different links.
    fn all_to_all(&self) -> Parts {
        let (size, per_node) = (f64::from(self.group.size), f64::from(self.group.per_node));
        let (intra, inter) = (self.cluster.intra.latency, self.cluster.inter.latency);
        let piece = self.call.bytes.0 as f64 / size;
        let inside = Seconds(piece * (per_node - 1.0) / self.intra().0);
        if !self.group.spans_nodes() {
            return Parts { latency: intra * (size - 1.0), transfer: inside };
        }
        // A node's devices share its rate.
        let outside = Seconds(piece * (size - per_node) * per_node / self.inter().0);
        Parts { latency: intra * (per_node - 1.0) + inter * f64::from(self.group.nodes - 1), transfer: inside.max(outside) }
    }
}

fn log2_ceil(n: u32) -> u32 {
    n.max(1).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use CollectiveKind::*;

    const KINDS: [CollectiveKind; 4] = [AllReduce, AllGather, ReduceScatter, AllToAll];

    fn cases() -> Vec<(Cluster, Group)> {
        let mut cases = Vec::new();
        for spec in ["local:4", "dgx-a100:4", "dgx-h100:16", "p3.16xlarge:4"] {
            let cluster = Cluster::parse(spec).expect("a preset");
            for size in (2..=cluster.devices_per_node).filter(|n| cluster.devices_per_node.is_multiple_of(*n)) {
                cases.push((cluster.clone(), Group::within_node(size)));
                for nodes in (2..=cluster.nodes).filter(|n| cluster.nodes.is_multiple_of(*n)) {
                    let sharing = cluster.devices_per_node / size;
                    cases.push((cluster.clone(), Group { size: size * nodes, nodes, per_node: size, sharing }));
                }
            }
            if cluster.nodes > 1 {
                cases.push((cluster.clone(), Group { size: cluster.nodes, nodes: cluster.nodes, per_node: 1, sharing: cluster.devices_per_node }));
            }
        }
        cases
    }

    fn call(kind: CollectiveKind, bytes: u64) -> CollectiveCall {
        CollectiveCall { kind, bytes: Bytes(bytes), dtype: DType::F32 }
    }

    #[test]
    fn more_bytes_never_cost_less() {
        for (cluster, group) in cases() {
            for kind in KINDS {
                let mut last = Seconds(0.0);
                for bytes in (0..34).map(|i| 1u64 << i) {
                    let now = best(&cluster, &call(kind, bytes), &group).time;
                    assert!(now >= last && now.0.is_finite(), "{kind:?} of {bytes} on {group:?} of {}", cluster.name);
                    last = now;
                }
            }
        }
    }

    #[test]
    fn a_ring_all_reduce_is_a_reduce_scatter_and_an_all_gather() {
        for (cluster, group) in cases() {
            for bytes in [4, 1 << 12, 1 << 20, 1 << 30] {
                let ring = |kind| by(&cluster, Algorithm::Ring, &call(kind, bytes), &group).expect("rings do these");
                let (whole, halves) = (ring(AllReduce).0, (ring(ReduceScatter) + ring(AllGather)).0);
                assert!((whole - halves).abs() <= 1e-12 * whole, "{whole} {halves}");
            }
        }
    }

    #[test]
    fn the_choice_is_never_worse_than_a_flat_ring() {
        for (cluster, group) in cases() {
            for bytes in [4, 1 << 12, 1 << 20, 1 << 30] {
                for kind in [AllReduce, ReduceScatter, AllGather] {
                    let flat = by(&cluster, Algorithm::Ring, &call(kind, bytes), &group).expect("rings do these") + cluster.collective_launch;
                    assert!(best(&cluster, &call(kind, bytes), &group).time <= flat);
                }
            }
        }
    }

    #[test]
    fn two_levels_win_where_the_network_is_slow() {
        let cluster = Cluster::parse("p3.16xlarge:4").expect("a preset");
        let group = Group { size: 32, nodes: 4, per_node: 8, sharing: 1 };
        assert_eq!(best(&cluster, &call(AllReduce, 1 << 28), &group).algorithm, Algorithm::Hierarchical);
        assert_eq!(best(&cluster, &call(AllReduce, 1 << 28), &Group::within_node(8)).algorithm, Algorithm::Ring);
        assert_eq!(best(&cluster, &call(AllReduce, 256), &Group::within_node(8)).algorithm, Algorithm::Tree);
    }

    #[test]
    fn a_group_of_one_costs_nothing() {
        let cluster = Cluster::parse("dgx-a100:2").expect("a preset");
        for kind in KINDS {
            assert_eq!(best(&cluster, &call(kind, 1 << 30), &Group::within_node(1)), CollectiveCost { time: Seconds(0.0), algorithm: Algorithm::None });
        }
    }

    #[test]
    fn large_buffers_reach_published_bus_bandwidth() {
        // Bus bandwidth of large all-reduces: about 230 GB/s on 8 A100, 185 GB/s between nodes with 8 HDR adapters.
        let cluster = Cluster::parse("dgx-a100:2").expect("a preset");
        let bus = |group: Group| {
            let bytes = 1u64 << 30;
            2.0 * f64::from(group.size - 1) / f64::from(group.size) * bytes as f64 / best(&cluster, &call(AllReduce, bytes), &group).time.0 / 1e9
        };
        assert!((215.0..240.0).contains(&bus(Group::within_node(8))), "{}", bus(Group::within_node(8)));
        let two_nodes = Group { size: 16, nodes: 2, per_node: 8, sharing: 1 };
        assert!((180.0..210.0).contains(&bus(two_nodes)), "{}", bus(two_nodes));
    }
}
