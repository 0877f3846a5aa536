//! Where a collective or a transfer lies on the cluster: how many nodes it spans and how many others share its network at the same time.
//!
//! A stage's mesh takes consecutive ranks, row-major over its axes, so an inner axis stays inside a node when it fits; [`Cluster::axis_order`]
//! puts the axis that talks most innermost. All groups of a mesh along the same axes run a collective together; the slowest of them is the
//! one that is described. Invariant: groups whose strides fit the nodes are described in closed form, so 16,384 devices cost what 8 do.

use crate::cluster::Cluster;
use ir::{AxisId, Bytes, Mesh};
use serde::Serialize;

/// The devices that take part in one collective, as the cost of it sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Group {
    /// How many devices.
    pub size: u32,
    /// How many nodes they lie on.
    pub nodes: u32,
    /// The most of them on one node.
    pub per_node: u32,
    /// How many equal groups use one node's network at the same time, this one included.
    pub sharing: u32,
    /// How many racks they lie on.
    pub racks: u32,
    /// Distance of neighbours on a node, in devices.
    pub stride: u32,
}

impl Group {
    /// A group of neighbours inside one node.
    pub fn within_node(size: u32) -> Group {
        Group { size, nodes: 1, per_node: size, sharing: 1, racks: 1, stride: 1 }
    }
    /// A group of `per_node` neighbours on each of `nodes` nodes of one rack, alone on their network.
    pub fn over_nodes(nodes: u32, per_node: u32) -> Group {
        Group { size: nodes * per_node, nodes, per_node, sharing: 1, racks: 1, stride: 1 }
    }
    /// Whether its data crosses the network.
    pub fn spans_nodes(&self) -> bool {
        self.nodes > 1
    }
}

/// Which ranks a group has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Ranks {
    /// `count` ranks from `start`, `stride` apart.
    Strided {
        /// The first.
        start: u32,
        /// How many.
        count: u32,
        /// Distance of neighbours.
        stride: u32,
    },
    /// Any, in any order.
    Listed(Vec<u32>),
}

/// A point-to-point transfer between two stages, all their devices at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Route {
    /// Whether any pair lies on different nodes.
    pub crosses_nodes: bool,
    /// Whether any pair lies in different racks.
    pub crosses_racks: bool,
    /// The most pairs that use one node's network at the same time.
    pub sharing: u32,
}

impl Cluster {
    /// The group of a collective along `axes` of a mesh whose device 0 is rank `first_rank`. [`AxisId::MICROBATCH`] is time, and adds no devices.
    pub fn group(&self, mesh: &Mesh, first_rank: u32, axes: &[AxisId]) -> Group {
        let axes: Vec<AxisId> = axes.iter().copied().filter(|&a| a != AxisId::MICROBATCH).collect();
        self.aligned_group(mesh, first_rank, &axes).unwrap_or_else(|| self.counted_group(mesh, first_rank, &axes))
    }

    /// One group of given ranks, alone on its nodes' network.
    pub fn group_of(&self, ranks: &Ranks) -> Group {
        let per_node = self.devices_per_node;
        match *ranks {
            Ranks::Strided { start, count, stride } if count > 0 && start.is_multiple_of(per_node) && stride > 0 => {
                let last = start + (count - 1) * stride;
                let nodes = if stride < per_node { last / per_node - start / per_node + 1 } else { count };
                let most = if stride < per_node { per_node.div_ceil(stride).min(count) } else { 1 };
                let racks = if nodes == 1 { 1 } else { self.rack_of(last) - self.rack_of(start) + 1 };
                Group { size: count, nodes, per_node: most, sharing: 1, racks: racks.min(nodes), stride: if most > 1 { stride } else { 1 } }
            }
            Ranks::Strided { start, count, stride } => self.listed((0..count).map(|i| start + i * stride).collect()),
            Ranks::Listed(ref list) => self.listed(list.clone()),
        }
    }

    fn listed(&self, mut ranks: Vec<u32>) -> Group {
        ranks.sort_unstable();
        ranks.dedup();
        let size = ranks.len() as u32;
        let of_node = |a: &u32, b: &u32| self.node_of(*a) == self.node_of(*b);
        let nodes = ranks.chunk_by(of_node).count() as u32;
        let most = ranks.chunk_by(of_node).max_by_key(|run| run.len()).unwrap_or(&[]);
        let racks = ranks.chunk_by(|a, b| self.rack_of(*a) == self.rack_of(*b)).count() as u32;
        let stride = match most {
            [a, b, ..] => b - a,
            _ => 1,
        };
        Group { size, nodes: nodes.max(1), per_node: most.len() as u32, sharing: 1, racks: racks.max(1), stride }
    }

    /// The rack of a rank.
    pub fn rack_of(&self, rank: u32) -> u32 {
        self.racks.as_ref().map_or(0, |r| self.node_of(rank) / r.nodes.max(1))
    }

    /// The closed form: the node's boundary falls between two axes or divides one, and the mesh starts at a node.
    fn aligned_group(&self, mesh: &Mesh, first_rank: u32, axes: &[AxisId]) -> Option<Group> {
        let per_node = self.devices_per_node;
        let inside_one = first_rank / per_node == (first_rank + mesh.devices() - 1) / per_node;
        if !inside_one && !first_rank.is_multiple_of(per_node) {
            return None;
        }
        let domain = if inside_one { mesh.devices() } else { per_node };
        let inner = inner_extents(mesh, domain)?;
        let (mut group, mut stride, mut below) = (Group::within_node(mesh.group_size(axes)), 0, 1);
        group.per_node = 1;
        for (i, axis) in mesh.axes.iter().enumerate().rev() {
            if axes.contains(&AxisId(i as u32)) && axis.size > 1 {
                group.per_node *= inner[i];
                group.nodes *= axis.size / inner[i];
                if stride == 0 && inner[i] > 1 {
                    stride = below;
                }
            }
            below *= inner[i];
        }
        group.stride = stride.max(1);
        if group.nodes > 1 {
            group.sharing = per_node / group.per_node;
            group.racks = self.racks_of(mesh, first_rank, axes)?;
        }
        Some(group)
    }

    /// The racks of an aligned group: as its nodes, with a rack's devices for a node's.
    fn racks_of(&self, mesh: &Mesh, first_rank: u32, axes: &[AxisId]) -> Option<u32> {
        let Some(racks) = &self.racks else { return Some(1) };
        let domain = racks.nodes * self.devices_per_node;
        if first_rank / domain == (first_rank + mesh.devices() - 1) / domain {
            return Some(1);
        }
        let inner = if first_rank.is_multiple_of(domain) { inner_extents(mesh, domain)? } else { return None };
        Some(axes.iter().map(|a| mesh.axes[a.0 as usize].size / inner[a.0 as usize]).product())
    }

    /// By looking at every group, for meshes that straddle nodes.
    fn counted_group(&self, mesh: &Mesh, first_rank: u32, axes: &[AxisId]) -> Group {
        let size = mesh.group_size(axes);
        let mut worst = Group::within_node(size);
        let mut users = vec![0u32; (self.node_of(first_rank + mesh.devices() - 1) + 1) as usize];
        for device in (0..mesh.devices()).filter(|&d| mesh.linear_coordinate(d, axes) == 0) {
            let ranks: Vec<u32> = mesh.group_of(device, axes).into_iter().map(|d| first_rank + d).collect();
            if ranks.iter().any(|&r| self.node_of(r) != self.node_of(ranks[0])) {
                let mut nodes: Vec<u32> = ranks.iter().map(|&r| self.node_of(r)).collect();
                nodes.sort_unstable();
                nodes.dedup();
                nodes.iter().for_each(|&n| users[n as usize] += 1);
            }
            let group = self.listed(ranks);
            // More nodes is slower; over the same nodes, fewer devices a node have fewer adapters.
            if group.nodes > worst.nodes || (group.nodes == worst.nodes && group.nodes > 1 && group.per_node < worst.per_node) {
                worst = group;
            }
        }
        worst.sharing = users.into_iter().max().unwrap_or(1).max(1);
        worst
    }

    /// The route between equal positions of two stages of `devices` devices each, at two first ranks.
    pub fn route(&self, from_first: u32, to_first: u32, devices: u32) -> Route {
        let mut leaving: Vec<u32> =
            (0..devices).map(|d| (self.node_of(from_first + d), self.node_of(to_first + d))).filter(|(from, to)| from != to).map(|(from, _)| from).collect();
        leaving.sort_unstable();
        let sharing = leaving.chunk_by(|a, b| a == b).map(|run| run.len() as u32).max().unwrap_or(0);
        let crosses_racks = (0..devices).any(|d| self.rack_of(from_first + d) != self.rack_of(to_first + d));
        Route { crosses_nodes: sharing > 0, crosses_racks, sharing: sharing.max(1) }
    }

    /// An order of mesh axes, outermost first, that gives the chattiest the fastest links: `traffic` is what a device sends along each axis.
    /// Equal traffic keeps the given order.
    pub fn axis_order(&self, traffic: &[Bytes]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..traffic.len()).collect();
        // Inside one node every order is as fast.
        if self.nodes > 1 {
            order.sort_by_key(|&axis| traffic[axis]);
        }
        order
    }
}

/// How much of each axis lies within aligned blocks of `domain` devices; `None` where a block cuts an axis unevenly.
fn inner_extents(mesh: &Mesh, domain: u32) -> Option<Vec<u32>> {
    let mut left = domain;
    let mut inner = vec![1; mesh.axes.len()];
    for (i, axis) in mesh.axes.iter().enumerate().rev() {
        inner[i] = if left.is_multiple_of(axis.size) { axis.size } else { left };
        if left % axis.size != 0 && axis.size % left != 0 {
            return None;
        }
        left /= inner[i];
    }
    Some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dgx() -> Cluster {
        Cluster::parse("dgx-a100:2").expect("a preset")
    }

    fn inside(size: u32, stride: u32) -> Group {
        Group { stride, ..Group::within_node(size) }
    }

    #[test]
    fn inner_axes_stay_inside_a_node() {
        let mesh = Mesh::new(&[2, 8]);
        assert_eq!(dgx().group(&mesh, 0, &[AxisId(1)]), Group::within_node(8));
        assert_eq!(dgx().group(&mesh, 0, &[AxisId(0)]), Group { sharing: 8, ..Group::over_nodes(2, 1) });
        assert_eq!(dgx().group(&mesh, 0, &[AxisId(0), AxisId(1)]), Group::over_nodes(2, 8));
        assert_eq!(dgx().group(&mesh, 0, &[AxisId::MICROBATCH]).size, 1);
        assert_eq!(dgx().group(&Mesh::new(&[2, 4]), 0, &[AxisId(0)]), inside(2, 4));
    }

    #[test]
    fn a_stage_may_straddle_a_boundary() {
        let mesh = Mesh::new(&[4]);
        assert_eq!(dgx().group(&mesh, 6, &[AxisId(0)]), Group::over_nodes(2, 2));
        assert_eq!(dgx().group(&mesh, 4, &[AxisId(0)]), Group::within_node(4));
    }

    #[test]
    fn the_closed_form_counts_what_is_there() {
        let mut clusters = vec![Cluster::parse("dgx-a100:8").expect("a preset"), Cluster::parse("p3.16xlarge:8").expect("a preset")];
        clusters[1].racks = Some(crate::cluster::Racks { nodes: 2, oversubscription: 2.0 });
        for cluster in clusters {
            for dims in [&[64][..], &[8, 8], &[4, 16], &[16, 4], &[2, 2, 16], &[4, 2, 8], &[2, 4, 2, 4], &[2, 4], &[8], &[4, 3], &[3, 8]] {
                let mesh = Mesh::new(dims);
                for first in [0, 8, 16, 4] {
                    for mask in 1u32..(1 << dims.len()) {
                        let axes: Vec<AxisId> = (0..dims.len() as u32).filter(|a| mask & (1 << a) != 0).map(AxisId).collect();
                        if first + mesh.devices() > cluster.devices() {
                            continue;
                        }
                        if let Some(closed) = cluster.aligned_group(&mesh, first, &axes) {
                            let counted = cluster.counted_group(&mesh, first, &axes);
                            // Uneven groups have no single stride, and inside a node nobody asks.
                            assert_eq!(Group { stride: 1, ..closed }, Group { stride: 1, ..counted }, "{dims:?} {axes:?} from {first}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn sixteen_thousand_devices_cost_nothing() {
        let cluster = Cluster::parse("dgx-h100:2048").expect("a preset");
        let mesh = Mesh::new(&[128, 16, 8]);
        for _ in 0..10_000 {
            assert_eq!(cluster.group(&mesh, 0, &[AxisId(0)]), Group { sharing: 8, ..Group::over_nodes(128, 1) });
        }
        assert_eq!(cluster.group_of(&Ranks::Strided { start: 0, count: 2048, stride: 8 }), Group::over_nodes(2048, 1));
    }

    #[test]
    fn ranks_may_be_listed() {
        let cluster = dgx();
        assert_eq!(cluster.group_of(&Ranks::Listed(vec![3, 1, 2, 0])), Group::within_node(4));
        for (start, count, stride) in [(0, 8, 1), (0, 16, 1), (0, 4, 2), (0, 8, 2), (0, 4, 4), (0, 2, 8)] {
            let strided = cluster.group_of(&Ranks::Strided { start, count, stride });
            assert_eq!(strided, cluster.group_of(&Ranks::Listed((0..count).map(|i| start + i * stride).collect())));
        }
    }

    #[test]
    fn routes_know_whether_they_cross() {
        assert_eq!(dgx().route(0, 4, 4), Route { crosses_nodes: false, crosses_racks: false, sharing: 1 });
        assert_eq!(dgx().route(0, 8, 8), Route { crosses_nodes: true, crosses_racks: false, sharing: 8 });
    }

    #[test]
    fn the_chattiest_axis_is_innermost() {
        assert_eq!(dgx().axis_order(&[Bytes(9), Bytes(1), Bytes(5)]), [1, 2, 0]);
        assert_eq!(Cluster::parse("local:4").expect("a preset").axis_order(&[Bytes(9), Bytes(1)]), [0, 1]);
    }
}
