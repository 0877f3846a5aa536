//! Meshes and shardings.
//!
//! A [`Sharding`] says, for every dimension of a value, which mesh axes cut it, and over which axes the value is still an unreduced partial.
//! A dimension of size `n` cut over `k` devices has blocks of `ceil(n / k)`; the last blocks are padded, and what padding holds is never relied on.
//! Dimensions are atomic: a fused dimension is split into its sub-dimensions before any sharding is chosen, so an axis always cuts a whole dimension.
//! Text is Shardy's: `[{"x"}, {}, {"y"}] unreduced={"y"}`.

use crate::entity_id;
use crate::op::Reducer;
use serde::{Deserialize, Serialize};
use std::fmt;

entity_id!(
    /// An axis of a mesh, by position.
    AxisId,
    "axis"
);

impl AxisId {
    /// The axis in time: its "devices" are the microbatches of a step.
    pub const MICROBATCH: AxisId = AxisId(u32::MAX);
}

/// A named axis and its size.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Axis {
    /// Its name, as in `{"x"}`.
    pub name: String,
    /// How many devices along it.
    pub size: u32,
}

/// The devices of one stage as a grid; device number is row-major over the axes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mesh {
    /// The axes, outermost first.
    pub axes: Vec<Axis>,
}

impl Mesh {
    /// A mesh with axes named `x`, `y`, `z`, `w`, …
    pub fn new(sizes: &[u32]) -> Mesh {
        const NAMES: [&str; 6] = ["x", "y", "z", "w", "u", "v"];
        let axes = sizes.iter().enumerate().map(|(i, &size)| Axis { name: NAMES.get(i).map_or_else(|| format!("a{i}"), |n| (*n).to_string()), size });
        Mesh { axes: axes.collect() }
    }
    /// How many devices.
    pub fn devices(&self) -> u32 {
        self.axes.iter().map(|a| a.size).product()
    }
    /// Ids of the axes.
    pub fn axis_ids(&self) -> impl Iterator<Item = AxisId> + use<> {
        (0..self.axes.len() as u32).map(AxisId)
    }
    /// The axis of that name.
    pub fn axis_named(&self, name: &str) -> Option<AxisId> {
        self.axes.iter().position(|a| a.name == name).map(|i| AxisId(i as u32))
    }
    /// Size of an axis.
    pub fn size(&self, axis: AxisId) -> u32 {
        self.axes[axis.0 as usize].size
    }
    /// Product of the sizes of some axes.
    pub fn group_size(&self, axes: &[AxisId]) -> u32 {
        axes.iter().map(|&a| self.size(a)).product()
    }
    /// Coordinates of a device, one per axis.
    pub fn coordinates(&self, device: u32) -> Vec<u32> {
        let mut rest = device;
        let mut c: Vec<u32> = self
            .axes
            .iter()
            .rev()
            .map(|a| {
                let i = rest % a.size;
                rest /= a.size;
                i
            })
            .collect();
        c.reverse();
        c
    }
    /// The device at some coordinates.
    pub fn device_at(&self, coordinates: &[u32]) -> u32 {
        self.axes.iter().zip(coordinates).fold(0, |d, (a, c)| d * a.size + c)
    }
    /// The devices that differ from `device` only along `axes`, in row-major order of those axes as listed (so position = linear coordinate over `axes`).
    pub fn group_of(&self, device: u32, axes: &[AxisId]) -> Vec<u32> {
        let base = self.coordinates(device);
        (0..self.group_size(axes))
            .map(|mut i| {
                let mut c = base.clone();
                for &a in axes.iter().rev() {
                    c[a.0 as usize] = i % self.size(a);
                    i /= self.size(a);
                }
                self.device_at(&c)
            })
            .collect()
    }
    /// The linear coordinate of a device over `axes`, outermost first.
    pub fn linear_coordinate(&self, device: u32, axes: &[AxisId]) -> u32 {
        let c = self.coordinates(device);
        axes.iter().fold(0, |i, &a| i * self.size(a) + c[a.0 as usize])
    }
}

impl fmt::Display for Mesh {
    /// As in `<["x"=2, "y"=4]>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<[")?;
        for (i, a) in self.axes.iter().enumerate() {
            write!(f, "{}\"{}\"={}", if i > 0 { ", " } else { "" }, a.name, a.size)?;
        }
        f.write_str("]>")
    }
}

/// How a value is laid over a mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sharding {
    /// For every dimension the axes that cut it, outermost first.
    pub dims: Vec<Vec<AxisId>>,
    /// Axes over which the value is an unreduced partial, ascending, all with the same reducer.
    pub partial: Vec<(AxisId, Reducer)>,
}

impl Sharding {
    /// Whole on every device.
    pub fn replicated(rank: usize) -> Sharding {
        Sharding { dims: vec![Vec::new(); rank], partial: Vec::new() }
    }
    /// Whether nothing is cut and nothing is partial.
    pub fn is_replicated(&self) -> bool {
        self.partial.is_empty() && self.dims.iter().all(Vec::is_empty)
    }
    /// The axes that are used, by dimensions or partials.
    pub fn axes(&self) -> Vec<AxisId> {
        let mut a: Vec<AxisId> = self.dims.iter().flatten().copied().chain(self.partial.iter().map(|p| p.0)).collect();
        a.sort();
        a
    }
    /// The shape of one device's block.
    pub fn local_shape(&self, shape: &[u64], mesh: &Mesh) -> Vec<u64> {
        shape.iter().zip(&self.dims).map(|(&n, axes)| n.div_ceil(u64::from(mesh.group_size(axes)))).collect()
    }
    /// The same with `axis` cutting `dim` (innermost).
    #[must_use]
    pub fn with_dim(mut self, dim: usize, axis: AxisId) -> Sharding {
        self.dims[dim].push(axis);
        self
    }
    /// Shardy's text, with the mesh's axis names.
    pub fn display<'a>(&'a self, mesh: &'a Mesh) -> impl fmt::Display + 'a {
        ShardingText { sharding: self, mesh }
    }
}

struct ShardingText<'a> {
    sharding: &'a Sharding,
    mesh: &'a Mesh,
}

impl fmt::Display for ShardingText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |a: AxisId| self.mesh.axes.get(a.0 as usize).map_or("mb", |x| x.name.as_str());
        f.write_str("[")?;
        for (i, axes) in self.sharding.dims.iter().enumerate() {
            let list: Vec<String> = axes.iter().map(|&a| format!("\"{}\"", name(a))).collect();
            write!(f, "{}{{{}}}", if i > 0 { ", " } else { "" }, list.join(", "))?;
        }
        f.write_str("]")?;
        if let Some((_, reducer)) = self.sharding.partial.first() {
            let list: Vec<String> = self.sharding.partial.iter().map(|p| format!("\"{}\"", name(p.0))).collect();
            write!(f, " unreduced={{{}}}", list.join(", "))?;
            if *reducer != Reducer::Add {
                write!(f, " by {reducer:?}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_coordinates_agree() {
        let mesh = Mesh::new(&[2, 3]);
        assert_eq!(mesh.devices(), 6);
        for d in 0..6 {
            assert_eq!(mesh.device_at(&mesh.coordinates(d)), d);
            for axes in [vec![AxisId(0)], vec![AxisId(1)], vec![AxisId(1), AxisId(0)]] {
                let group = mesh.group_of(d, &axes);
                assert_eq!(group[mesh.linear_coordinate(d, &axes) as usize], d);
            }
        }
    }
}
