//! Collectives: α per step plus β per byte on the slowest link, per algorithm and protocol; the cheapest is taken and named.
//!
//! Sizes follow one convention: [`CollectiveCall::bytes`] is the whole buffer of one device: what an all-reduce holds, what an all-gather ends
//! with, what a reduce-scatter or an all-to-all starts from. So an all-reduce moves exactly what a reduce-scatter and an all-gather of the same size do.
//! Ring and tree follow Thakur, Rabenseifner and Gropp (2005), the two-level scheme Cho et al. (BlueConnect, 2019): reduce-scatter inside
//! nodes, all-reduce of the parts between nodes on all adapters at once, all-gather inside nodes; libraries do not offer it, so a cluster
//! says whether it is to be had. Protocols are the libraries': flags beside every word (few bytes), flags beside every line, and whole chunks.

use crate::cluster::Cluster;
use crate::device::BytesPerSecond;
use crate::links::Wiring;
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
    /// The switch of each node adds; between nodes, up and down a tree, or the network adds too.
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

/// How the steps of a collective tell one another that data is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Protocol {
    /// A flag beside every word: the shortest steps, at a fraction of the bandwidth. NCCL's LL.
    Word,
    /// A flag beside every line: short steps, at most of the bandwidth. NCCL's LL128.
    Line,
    /// A flag after every chunk: long steps, at all of the bandwidth. NCCL's Simple.
    Chunk,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Word => "word",
            Protocol::Line => "line",
            Protocol::Chunk => "chunk",
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
    /// With which protocol.
    pub protocol: Protocol,
}

/// Share of a link that trees reach of what rings reach: their pipelines fork.
const TREE_EFFICIENCY: f64 = 0.92;
/// A step of the word protocol against one of the line protocol.
const WORD_STEP: f64 = 0.86;
/// Bandwidth of the word protocol against the line protocol: half of each store is flag, and stores are narrow.
const WORD_SHARE: f64 = 0.3;
/// The phases of a two-level collective run in chunks, one after another over different links: this share of the shorter one is not hidden.
const EXPOSED_PHASE: f64 = 0.35;
/// A reducing switch starts when every device has: steps' worth of waiting per device.
const SWITCH_STEPS: f64 = 0.9;

/// The best algorithm for `call` on `group`, its start included.
pub(crate) fn best(cluster: &Cluster, call: &CollectiveCall, group: &Group) -> CollectiveCost {
    const ALGORITHMS: [Algorithm; 5] = [Algorithm::Ring, Algorithm::Tree, Algorithm::Hierarchical, Algorithm::InSwitch, Algorithm::Direct];
    if group.size <= 1 || call.bytes.0 == 0 {
        return CollectiveCost { time: Seconds(0.0), algorithm: Algorithm::None, protocol: Protocol::Word };
    }
    let wire = Wire { cluster, call, group };
    let mut best = cheapest(cluster, ALGORITHMS.into_iter().filter_map(|algorithm| Some((algorithm, wire.parts(algorithm)?))));
    best.time += cluster.collective_launch;
    best
}

/// The cost of one algorithm without the start, by the best protocol; `None` where it does not apply.
#[cfg(test)]
pub(crate) fn by(cluster: &Cluster, algorithm: Algorithm, call: &CollectiveCall, group: &Group) -> Option<Seconds> {
    let parts = Wire { cluster, call, group }.parts(algorithm)?;
    Some(cheapest(cluster, std::iter::once((algorithm, parts))).time)
}

/// One device's buffer to all of a group, its start included: down a chain or a tree, in a pipeline.
pub(crate) fn broadcast(cluster: &Cluster, bytes: Bytes, group: &Group) -> CollectiveCost {
    if group.size <= 1 || bytes.0 == 0 {
        return CollectiveCost { time: Seconds(0.0), algorithm: Algorithm::None, protocol: Protocol::Word };
    }
    let call = CollectiveCall { kind: CollectiveKind::AllGather, bytes, dtype: DType::UI8 };
    let wire = Wire { cluster, call: &call, group };
    let transfer = wire.bottleneck().time(bytes);
    let chain = Parts { transfer, ..wire.steps(f64::from(wire.inside_hops()), f64::from(wire.crossings())) };
    let depth = wire.steps(f64::from(log2_ceil(group.per_node)), f64::from(log2_ceil(group.nodes)));
    let tree = Parts { transfer: transfer / TREE_EFFICIENCY, ..depth };
    let mut best = cheapest(cluster, [(Algorithm::Ring, chain), (Algorithm::Tree, tree)].into_iter());
    best.time += cluster.collective_launch;
    best
}

/// A message from every device of a stage to the one at its position in another.
pub(crate) fn send(cluster: &Cluster, bytes: Bytes, route: &Route) -> Seconds {
    if bytes.0 == 0 {
        return Seconds(0.0);
    }
    if !route.crosses_nodes {
        return cluster.intra.latency + link_rate(cluster, &Group::within_node(2)).time(bytes);
    }
    cluster.inter.latency + network_rate(cluster, 1, route.sharing, route.crosses_racks).time(bytes)
}

/// What one of `sharing` groups with `per_node` devices on a node gets of the node's network: its share, at most what its own adapters carry.
fn network_rate(cluster: &Cluster, per_node: u32, sharing: u32, crosses_racks: bool) -> BytesPerSecond {
    let net = &cluster.inter;
    let adapters = f64::from(net.adapters);
    let own = f64::from(per_node) * (adapters / f64::from(cluster.devices_per_node)).max(1.0);
    let thinned = cluster.racks.as_ref().filter(|_| crosses_racks).map_or(1.0, |r| r.oversubscription);
    net.bandwidth.scaled(net.efficiency * own.min(adapters / f64::from(sharing.max(1))) / thinned)
}

/// What a device of a group inside a node sends: all its links go to the switch, or some of them to the group.
fn link_rate(cluster: &Cluster, group: &Group) -> BytesPerSecond {
    let link = &cluster.intra;
    if let Some(pairs) = &link.pairs {
        let one = link.bandwidth.scaled(link.efficiency / f64::from(pairs.most_links()));
        return match pairs.wiring(group.per_node, group.stride) {
            Wiring::Rings(rings) => one.scaled(f64::from(rings)),
            // Up one direction of the chain and down the other, so the whole buffer crosses a link once.
            Wiring::Chain => one.scaled(2.0 * f64::from(group.per_node - 1) / f64::from(group.per_node)),
            Wiring::Apart => link.host_bandwidth.min(one),
        };
    }
    let size = group.per_node.max(2);
    let inside = if link.switched || cluster.devices_per_node < 2 { 1.0 } else { f64::from(size - 1) / f64::from(cluster.devices_per_node - 1) };
    link.bandwidth.scaled(link.efficiency * inside.min(1.0))
}

/// The cheapest of some algorithms, each by the best of its protocols.
fn cheapest(cluster: &Cluster, candidates: impl Iterator<Item = (Algorithm, Parts)>) -> CollectiveCost {
    let line = cluster.intra.low_latency_share;
    candidates
        .flat_map(|(algorithm, p)| {
            // Where one protocol does everything there is no other to choose.
            let word = (line < 1.0).then(|| (p.latency * WORD_STEP + p.transfer / (line * WORD_SHARE), Protocol::Word));
            let others = [(p.latency + p.transfer / line, Protocol::Line), (p.bulk_latency + p.transfer, Protocol::Chunk)];
            word.into_iter().chain(others).map(move |(time, protocol)| CollectiveCost { time, algorithm, protocol })
        })
        .reduce(|a, b| if b.time < a.time { b } else { a })
        .expect("invariant: every kind of collective has an algorithm")
}

/// A collective's duration: its steps by the short and by the long protocol, and what goes over the wire or through the arithmetic.
#[derive(Clone, Copy)]
struct Parts {
    latency: Seconds,
    bulk_latency: Seconds,
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
            (Algorithm::Tree, AllReduce) => self.tree(),
            (Algorithm::Hierarchical, AllReduce | ReduceScatter | AllGather) => self.hierarchical(),
            (Algorithm::InSwitch, AllReduce) => self.in_switch(),
            (Algorithm::Direct, AllToAll) => Some(self.all_to_all()),
            (Algorithm::Ring | Algorithm::Tree | Algorithm::Hierarchical | Algorithm::InSwitch | Algorithm::Direct | Algorithm::None, _) => None,
        }
    }
    fn intra(&self) -> BytesPerSecond {
        link_rate(self.cluster, self.group)
    }
    fn inter(&self) -> BytesPerSecond {
        network_rate(self.cluster, self.group.per_node, self.group.sharing, self.group.racks > 1)
    }
    /// The slowest link of a ring through the group: one edge in and one out of every node.
    fn bottleneck(&self) -> BytesPerSecond {
        match (self.group.spans_nodes(), self.group.per_node > 1) {
            (false, _) => self.intra(),
            (true, true) => self.intra().min(self.inter()),
            (true, false) => self.inter(),
        }
    }
    /// Hops of a ring's round that cross the network, and those that do not.
    fn crossings(&self) -> u32 {
        self.group.nodes.saturating_sub(1).min(self.group.size - 1)
    }
    fn inside_hops(&self) -> u32 {
        self.group.size - 1 - self.crossings()
    }
    /// The latency of so many steps inside nodes and between them.
    fn steps(&self, inside: f64, across: f64) -> Parts {
        let (intra, inter) = (&self.cluster.intra, &self.cluster.inter);
        Parts {
            latency: intra.latency * inside + inter.latency * across,
            bulk_latency: intra.bulk_latency * inside + inter.bulk_latency * across,
            transfer: Seconds(0.0),
        }
    }
    /// Combining what arrives goes on while the next piece is on its way.
    fn combine(&self, bytes: f64) -> Seconds {
        self.cluster.device.vector.time(Flops(bytes / self.call.dtype.bytes() as f64))
    }
    /// A piece's way round is `size - 1` hops, of which `nodes - 1` cross the network; an all-reduce goes round twice.
    fn ring(&self) -> Parts {
        let rounds = if self.call.kind == CollectiveKind::AllReduce { 2.0 } else { 1.0 };
        let steps = self.steps(rounds * f64::from(self.inside_hops()), rounds * f64::from(self.crossings()));
        let size = f64::from(self.group.size);
        let moved = self.call.bytes.0 as f64 * (size - 1.0) / size;
        // The own piece is copied, not sent.
        let copied = self.call.bytes.0 as f64 * self.cluster.intra.turn * 0.5 / size;
        let gather = Seconds((moved + copied) / self.bottleneck().0);
        let scatter = gather.max(self.combine(moved));
        let transfer = match self.call.kind {
            CollectiveKind::AllReduce => scatter + gather,
            CollectiveKind::ReduceScatter => scatter,
            CollectiveKind::AllGather | CollectiveKind::AllToAll => gather,
        };
        Parts { transfer, ..steps }
    }
    /// Every buffer goes up and comes down; of two trees a node is inside one and a leaf of the other, so that it sends twice the buffer
    /// over its adapters, and of two nodes each sends the other one buffer.
    fn tree(&self) -> Option<Parts> {
        if self.cluster.intra.pairs.is_some() && self.group.per_node > 1 {
            return None;
        }
        let bytes = self.call.bytes.0 as f64;
        let steps = self.steps(2.0 * f64::from(log2_ceil(self.group.per_node)), 2.0 * f64::from(log2_ceil(self.group.nodes)));
        let one_way = if self.group.per_node > 1 { Seconds(bytes / self.intra().scaled(TREE_EFFICIENCY).0) } else { Seconds(0.0) };
        let inside = one_way.max(self.combine(bytes)) + one_way;
        Some(Parts { transfer: inside.max(self.tree_of_nodes()), ..steps })
    }
    /// What trees over nodes take on the network; the network's own reduction takes every buffer once.
    fn tree_of_nodes(&self) -> Seconds {
        let trips = match self.group.nodes {
            0 | 1 => return Seconds(0.0),
            2 if self.cluster.pair_trees => 1.0,
            _ if self.cluster.inter.in_network_reduction => 1.0,
            _ => 2.0,
        };
        Seconds(trips * self.call.bytes.0 as f64 / self.inter().0)
    }
    /// The same parts of all nodes, between nodes, on all adapters at once.
    fn across(&self) -> Parts {
        let group = self.group;
        let across = Group { size: group.nodes, per_node: 1, sharing: group.sharing * group.per_node, stride: 1, ..*group };
        let bytes = Bytes(self.call.bytes.0.div_ceil(u64::from(group.per_node)));
        Wire { cluster: self.cluster, call: &CollectiveCall { bytes, ..*self.call }, group: &across }.ring()
    }
    /// Two levels; needs several nodes with several devices each.
    fn hierarchical(&self) -> Option<Parts> {
        if !self.cluster.two_level || !self.group.spans_nodes() || self.group.per_node < 2 {
            return None;
        }
        let within = Group { stride: self.group.stride, ..Group::within_node(self.group.per_node) };
        let inside = Wire { group: &within, ..*self }.ring();
        let across = self.across();
        let (long, short) = if inside.transfer > across.transfer { (inside, across) } else { (across, inside) };
        Some(Parts {
            latency: inside.latency + across.latency,
            bulk_latency: inside.bulk_latency + across.bulk_latency,
            transfer: long.transfer + short.transfer * EXPOSED_PHASE,
        })
    }
    /// Every device sends its buffer to the switch once and receives the sum once; between nodes trees, in the shadow of that.
    fn in_switch(&self) -> Option<Parts> {
        let link = &self.cluster.intra;
        if !link.in_switch_reduction || self.group.per_node < 2 {
            return None;
        }
        let depth = if self.cluster.inter.in_network_reduction { 1.0 } else { f64::from(log2_ceil(self.group.nodes)) };
        let steps = self.steps(SWITCH_STEPS * f64::from(self.group.per_node), if self.group.spans_nodes() { 2.0 * depth } else { 0.0 });
        let switch = link.bandwidth.scaled(link.in_switch_share).time(self.call.bytes);
        Some(Parts { transfer: switch.max(self.tree_of_nodes()), ..steps })
    }
    /// Pieces for the own node and for other nodes go at the same time, over different links.
    fn all_to_all(&self) -> Parts {
        let (size, per_node) = (f64::from(self.group.size), f64::from(self.group.per_node));
        let piece = self.call.bytes.0 as f64 / size;
        let inside = Seconds(piece * (per_node - 1.0) / self.intra().0);
        if !self.group.spans_nodes() {
            return Parts { transfer: inside, ..self.steps(size - 1.0, 0.0) };
        }
        // A node's devices share its rate.
        let outside = Seconds(piece * (size - per_node) * per_node / self.inter().0);
        Parts { transfer: inside.max(outside), ..self.steps(per_node - 1.0, f64::from(self.group.nodes - 1)) }
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
        let specs = ["local:4", "dgx-a100:4", "dgx-h100:16", "p3.16xlarge:4", "gb200-nvl72:2", "h100-pcie:2"];
        let presets = specs.iter().map(|spec| Cluster::parse(spec).expect("a preset"));
        let two_level = Cluster { two_level: true, ..Cluster::parse("p4d.24xlarge:4").expect("a preset") };
        for cluster in presets.chain([two_level]) {
            for size in (2..=cluster.devices_per_node).filter(|n| cluster.devices_per_node.is_multiple_of(*n)) {
                cases.push((cluster.clone(), Group::within_node(size)));
                for nodes in (2..=cluster.nodes).filter(|n| cluster.nodes.is_multiple_of(*n)) {
                    let sharing = cluster.devices_per_node / size;
                    cases.push((cluster.clone(), Group { sharing, ..Group::over_nodes(nodes, size) }));
                }
            }
            if cluster.nodes > 1 {
                cases.push((cluster.clone(), Group { sharing: cluster.devices_per_node, ..Group::over_nodes(cluster.nodes, 1) }));
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
        let cluster = Cluster { two_level: true, ..Cluster::parse("p3.16xlarge:4").expect("a preset") };
        let group = Group::over_nodes(4, 8);
        assert_eq!(best(&cluster, &call(AllReduce, 1 << 28), &group).algorithm, Algorithm::Hierarchical);
        assert_eq!(best(&cluster, &call(AllReduce, 1 << 28), &Group::within_node(8)).algorithm, Algorithm::Ring);
        let a100 = Cluster::parse("dgx-a100:4").expect("a preset");
        assert_eq!(best(&a100, &call(AllReduce, 256), &Group::within_node(8)).algorithm, Algorithm::Tree);
    }

    #[test]
    fn nothing_is_faster_than_its_slowest_link() {
        for (cluster, group) in cases() {
            let bytes = 1u64 << 30;
            for kind in KINDS {
                let found = best(&cluster, &call(kind, bytes), &group);
                // What a device must receive at least; a switch that adds sends every sum once.
                let share = f64::from(group.size - 1) / f64::from(group.size);
                let least = bytes as f64 * share / cluster.intra.bandwidth.0.max(cluster.inter.bandwidth.0 * f64::from(cluster.inter.adapters));
                assert!(found.time.0 >= least, "{kind:?} on {group:?} of {}: {found:?}", cluster.name);
            }
        }
    }

    #[test]
    fn protocols_change_with_size() {
        let cluster = Cluster::parse("dgx-a100:2").expect("a preset");
        let protocols: Vec<Protocol> = [10, 20, 30].map(|i| best(&cluster, &call(AllReduce, 1 << i), &Group::within_node(8)).protocol).into();
        assert_eq!(protocols, [Protocol::Word, Protocol::Line, Protocol::Chunk]);
    }

    #[test]
    fn a_reducing_network_and_oversubscribed_racks_count() {
        let plain = Cluster::parse("dgx-h100:8").expect("a preset");
        let mut sharp = plain.clone();
        sharp.inter.in_network_reduction = true;
        let all = Group::over_nodes(8, 8);
        let time = |c: &Cluster, g: &Group| best(c, &call(AllReduce, 1 << 30), g).time;
        assert!(time(&sharp, &all) < time(&plain, &all));
        assert_eq!(best(&sharp, &call(AllReduce, 1 << 30), &all).algorithm, Algorithm::InSwitch);
        let racks = Cluster { racks: Some(crate::cluster::Racks { nodes: 4, oversubscription: 4.0 }), ..plain.clone() };
        assert!(time(&racks, &Group { racks: 2, ..all }) > time(&plain, &all) * 1.5);
        assert_eq!(time(&racks, &Group::over_nodes(4, 8)), time(&plain, &Group::over_nodes(4, 8)));
    }

    #[test]
    fn broadcasts_cost_less_than_all_reduces() {
        for (cluster, group) in cases() {
            let mut last = Seconds(0.0);
            for bytes in [1, 1 << 12, 1 << 20, 1 << 30] {
                let now = broadcast(&cluster, Bytes(bytes), &group).time;
                assert!(
                    now >= last && now <= by(&cluster, Algorithm::Ring, &call(AllReduce, bytes), &group).expect("a ring") * 1.1 + cluster.collective_launch
                );
                last = now;
            }
        }
    }

    #[test]
    fn a_group_of_one_costs_nothing() {
        let cluster = Cluster::parse("dgx-a100:2").expect("a preset");
        for kind in KINDS {
            assert_eq!(
                best(&cluster, &call(kind, 1 << 30), &Group::within_node(1)),
                CollectiveCost { time: Seconds(0.0), algorithm: Algorithm::None, protocol: Protocol::Word }
            );
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
        let two_nodes = Group::over_nodes(2, 8);
        assert!((180.0..210.0).contains(&bus(two_nodes)), "{}", bus(two_nodes));
    }
}
