//! Where a collective or a transfer lies on the cluster: how many nodes it spans and how many others share its network at the same time.
//!
//! A stage's mesh takes consecutive ranks, row-major over its axes, so an inner axis stays inside a node when it fits.
//! All groups of a mesh along the same axes run a collective together; the slowest of them is the one that is described.

use crate::cluster::Cluster;
use ir::{AxisId, Mesh};
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
}

impl Group {
    /// A group inside one node.
    pub fn within_node(size: u32) -> Group {
        Group { size, nodes: 1, per_node: size, sharing: 1 }
    }
    /// Whether its data crosses the network.
    pub fn spans_nodes(&self) -> bool {
        self.nodes > 1
    }
}

/// A point-to-point transfer between two stages, all their devices at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Route {
    /// Whether any pair lies on different nodes.
    pub crosses_nodes: bool,
    /// The most pairs that use one node's network at the same time.
    pub sharing: u32,
}

impl Cluster {
    /// The group of a collective along `axes` of a mesh whose device 0 is rank `first_rank`. [`AxisId::MICROBATCH`] is time, and adds no devices.
    pub fn group(&self, mesh: &Mesh, first_rank: u32, axes: &[AxisId]) -> Group {
        let axes: Vec<AxisId> = axes.iter().copied().filter(|&a| a != AxisId::MICROBATCH).collect();
        let size = mesh.group_size(&axes);
        if first_rank / self.devices_per_node == (first_rank + mesh.devices() - 1) / self.devices_per_node {
            return Group::within_node(size);
        }
        let mut worst = Group::within_node(size);
        let mut users = vec![0u32; (self.node_of(first_rank + mesh.devices() - 1) + 1) as usize];
        for device in (0..mesh.devices()).filter(|&d| mesh.linear_coordinate(d, &axes) == 0) {
            let mut nodes: Vec<u32> = mesh.group_of(device, &axes).into_iter().map(|d| self.node_of(first_rank + d)).collect();
            nodes.sort_unstable();
            let most = nodes.chunk_by(|a, b| a == b).map(|run| run.len() as u32).max().unwrap_or(0);
            nodes.dedup();
            if nodes.len() > 1 {
                nodes.iter().for_each(|&n| users[n as usize] += 1);
            }
            // More nodes is slower; over the same nodes, fewer devices a node have fewer adapters.
            let spanned = nodes.len() as u32;
            if spanned > worst.nodes || (spanned == worst.nodes && spanned > 1 && most < worst.per_node) {
                worst = Group { size, nodes: spanned, per_node: most, sharing: 1 };
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
        Route { crosses_nodes: sharing > 0, sharing: sharing.max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dgx() -> Cluster {
        Cluster::parse("dgx-a100:2").expect("a preset")
    }

    #[test]
    fn inner_axes_stay_inside_a_node() {
        let mesh = Mesh::new(&[2, 8]);
        assert_eq!(dgx().group(&mesh, 0, &[AxisId(1)]), Group::within_node(8));
        assert_eq!(dgx().group(&mesh, 0, &[AxisId(0)]), Group { size: 2, nodes: 2, per_node: 1, sharing: 8 });
        assert_eq!(dgx().group(&mesh, 0, &[AxisId(0), AxisId(1)]), Group { size: 16, nodes: 2, per_node: 8, sharing: 1 });
        assert_eq!(dgx().group(&mesh, 0, &[AxisId::MICROBATCH]).size, 1);
    }

    #[test]
    fn a_stage_may_straddle_a_boundary() {
        let mesh = Mesh::new(&[4]);
        assert_eq!(dgx().group(&mesh, 6, &[AxisId(0)]), Group { size: 4, nodes: 2, per_node: 2, sharing: 1 });
        assert_eq!(dgx().group(&mesh, 4, &[AxisId(0)]), Group::within_node(4));
    }

    #[test]
    fn routes_know_whether_they_cross() {
        assert_eq!(dgx().route(0, 4, 4), Route { crosses_nodes: false, sharing: 1 });
        assert_eq!(dgx().route(0, 8, 8), Route { crosses_nodes: true, sharing: 8 });
    }
}
