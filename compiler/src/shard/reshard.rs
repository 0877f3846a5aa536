//! From one sharding of a value to another by the cheapest sequence of collectives.
//!
//! A shortest path over shardings (Dijkstra) whose steps are single collectives or local slices, priced by the cost model. Reshards are pure functions of
//! the value's type and the two shardings, so each is found once. A dimension cut over two axes must divide evenly (blocks of blocks then
//! coincide with blocks); over one axis it may be uneven, and what is gathered is cut back to size.

use cost_model::{CollectiveCall, CostModel};
use ir::op::Reducer;
use ir::program::CollectiveKind;
use ir::{AxisId, Bytes, Mesh, Seconds, Sharding, TensorType};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// One step of a reshard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Completes a partial over axes.
    AllReduce {
        /// The axes.
        axes: Vec<AxisId>,
        /// By what.
        reducer: Reducer,
    },
    /// Completes a partial over an axis and cuts a dimension over it.
    ReduceScatter {
        /// The axis.
        axis: AxisId,
        /// The dimension.
        dim: usize,
        /// By what.
        reducer: Reducer,
    },
    /// Makes a dimension whole along its innermost axes.
    AllGather {
        /// The axes, outermost first.
        axes: Vec<AxisId>,
        /// The dimension.
        dim: usize,
    },
    /// Moves the innermost axis of one dimension to another.
    AllToAll {
        /// The axis.
        axis: AxisId,
        /// The dimension that becomes whole along it.
        from: usize,
        /// The dimension that becomes cut.
        to: usize,
    },
    /// Keeps this device's block.
    Slice {
        /// The axis.
        axis: AxisId,
        /// The dimension.
        dim: usize,
    },
}

/// A path and its price.
#[derive(Clone, Debug)]
pub struct Path {
    /// Steps with the sharding after each.
    pub steps: Vec<(Step, Sharding)>,
    /// The sum of the steps' times.
    pub time: Seconds,
}

/// Reshards of one mesh.
pub struct Resharder<'a> {
    model: &'a dyn CostModel,
    mesh: &'a Mesh,
    first_rank: u32,
    /// Groups of devices by the axes they span: finding one walks over the devices.
    groups: std::cell::RefCell<BTreeMap<Vec<AxisId>, cost_model::Group>>,
    /// Per type and sharding: the cheapest way to every sharding that can be reached.
    known: FxHashMap<TensorType, FxHashMap<Sharding, std::rc::Rc<Reached>>>,
}

/// What can be reached from one sharding: a tree of shortest paths.
struct Reached {
    /// Where each sharding is in the tree.
    place: FxHashMap<Sharding, usize>,
    /// Each with its time and the step that leads to it from an earlier one.
    nodes: Vec<(Sharding, Seconds, Option<(usize, Step)>)>,
}

impl Reached {
    fn time(&self, to: &Sharding) -> Option<Seconds> {
        self.place.get(to).map(|&n| self.nodes[n].1)
    }

    fn path(&self, to: &Sharding) -> Option<Path> {
        let mut at = *self.place.get(to)?;
        let time = self.nodes[at].1;
        let mut steps = Vec::new();
        while let Some((from, step)) = &self.nodes[at].2 {
            steps.push((step.clone(), self.nodes[at].0.clone()));
            at = *from;
        }
        steps.reverse();
        Some(Path { steps, time })
    }
}

/// What slicing costs: it is read through, so next to nothing, but not less than nothing.
const SLICE: Seconds = Seconds(1e-9);

/// Whether a sharding can be held: every axis used once, every cut at most as fine as the dimension, nested cuts even.
pub fn is_valid(sharding: &Sharding, shape: &[u64], mesh: &Mesh) -> bool {
    let axes = sharding.axes();
    axes.windows(2).all(|w| w[0] != w[1])
        && sharding.dims.iter().zip(shape).all(|(axes, &n)| {
            let k = u64::from(mesh.group_size(axes));
            axes.is_empty() || (n >= k && (axes.len() < 2 || n.is_multiple_of(k)))
        })
}

impl<'a> Resharder<'a> {
    /// Reshards over a stage's mesh.
    pub fn new(model: &'a dyn CostModel, mesh: &'a Mesh, first_rank: u32) -> Self {
        Resharder { model, mesh, first_rank, groups: std::cell::RefCell::default(), known: FxHashMap::default() }
    }

    /// The cheapest path; `None` when there is none (nothing becomes partial).
    pub fn path(&mut self, ty: &TensorType, from: &Sharding, to: &Sharding) -> Option<Path> {
        if from == to {
            return Some(Path { steps: vec![], time: Seconds(0.0) });
        }
        self.all(ty, from).path(to)
    }

    /// The time of the cheapest path.
    pub fn time(&mut self, ty: &TensorType, from: &Sharding, to: &Sharding) -> Option<Seconds> {
        if from == to {
            return Some(Seconds(0.0));
        }
        self.all(ty, from).time(to)
    }

    /// The times from one sharding to several.
    pub fn times(&mut self, ty: &TensorType, from: &Sharding, to: &[&Sharding]) -> Vec<Option<Seconds>> {
        let all = self.all(ty, from);
        to.iter().map(|to| all.time(to)).collect()
    }

    /// Every sharding that can be reached.
    fn all(&mut self, ty: &TensorType, from: &Sharding) -> std::rc::Rc<Reached> {
        if let Some(all) = self.known.get(ty).and_then(|k| k.get(from)) {
            return all.clone();
        }
        let all = std::rc::Rc::new(self.explore(ty, from));
        self.known.entry(ty.clone()).or_default().insert(from.clone(), all.clone());
        all
    }

    /// Dijkstra's algorithm; of equal times the smaller sharding goes first.
    fn explore(&self, ty: &TensorType, from: &Sharding) -> Reached {
        let mut place: FxHashMap<Sharding, usize> = FxHashMap::default();
        let mut nodes = vec![(from.clone(), Seconds(0.0), None)];
        let mut open = vec![true];
        place.insert(from.clone(), 0);
        loop {
            let nearest =
                (0..nodes.len()).filter(|&n| open[n]).min_by(|&a, &b| nodes[a].1.0.total_cmp(&nodes[b].1.0).then_with(|| nodes[a].0.cmp(&nodes[b].0)));
            let Some(at) = nearest else { return Reached { place, nodes } };
            open[at] = false;
            let (sharding, so_far) = (nodes[at].0.clone(), nodes[at].1);
            for (step, next, cost) in self.steps(ty, &sharding) {
                let time = so_far + cost;
                match place.get(&next) {
                    Some(&n) if open[n] && time < nodes[n].1 => {
                        nodes[n].1 = time;
                        nodes[n].2 = Some((at, step));
                    }
                    None if is_valid(&next, &ty.shape, self.mesh) => {
                        place.insert(next.clone(), nodes.len());
                        nodes.push((next, time, Some((at, step))));
                        open.push(true);
                    }
                    Some(_) | None => {}
                }
            }
        }
    }

    /// Every single step from a sharding.
    fn steps(&self, ty: &TensorType, at: &Sharding) -> Vec<(Step, Sharding, Seconds)> {
        let mut out = Vec::new();
        let bytes = |s: &Sharding| Bytes(s.local_shape(&ty.shape, self.mesh).iter().product::<u64>() * ty.dtype.bytes());
        let collective = |kind: CollectiveKind, bytes: Bytes, axes: &[AxisId]| {
            let group = *self.groups.borrow_mut().entry(axes.to_vec()).or_insert_with(|| self.model.cluster().group(self.mesh, self.first_rank, axes));
            self.model.collective(&CollectiveCall { kind, bytes, dtype: ty.dtype }, &group).time
        };
        if let Some(&(_, reducer)) = at.partial.first() {
            let all: Vec<AxisId> = at.partial.iter().map(|p| p.0).collect();
            let mut sets: Vec<Vec<AxisId>> = all.iter().map(|&a| vec![a]).collect();
            if all.len() > 1 {
                sets.push(all.clone());
            }
            for axes in sets {
                let mut next = at.clone();
                next.partial.retain(|p| !axes.contains(&p.0));
                let cost = collective(CollectiveKind::AllReduce, bytes(at), &axes);
                out.push((Step::AllReduce { axes, reducer }, next, cost));
            }
            for &axis in &all {
                for dim in 0..at.dims.len() {
                    let mut next = at.clone();
                    next.partial.retain(|p| p.0 != axis);
                    next.dims[dim].push(axis);
                    let cost = collective(CollectiveKind::ReduceScatter, bytes(at), &[axis]);
                    out.push((Step::ReduceScatter { axis, dim, reducer }, next, cost));
                }
            }
        }
        let used = at.axes();
        for axis in self.mesh.axis_ids().filter(|&a| !used.contains(&a) && self.mesh.size(a) > 1) {
            for dim in 0..at.dims.len() {
                out.push((Step::Slice { axis, dim }, at.clone().with_dim(dim, axis), SLICE));
            }
        }
        for dim in 0..at.dims.len() {
            for keep in 0..at.dims[dim].len() {
                let mut next = at.clone();
                let axes = next.dims[dim].split_off(keep);
                let cost = collective(CollectiveKind::AllGather, bytes(&next), &axes);
                out.push((Step::AllGather { axes, dim }, next, cost));
            }
            let Some(&axis) = at.dims[dim].last() else { continue };
            for to in (0..at.dims.len()).filter(|&t| t != dim) {
                let mut next = at.clone();
                next.dims[dim].pop();
                next.dims[to].push(axis);
                let even = [(dim, at), (to, &next)].iter().all(|(d, s)| ty.shape[*d].is_multiple_of(u64::from(self.mesh.group_size(&s.dims[*d]))));
                if even {
                    let cost = collective(CollectiveKind::AllToAll, bytes(at), &[axis]);
                    out.push((Step::AllToAll { axis, from: dim, to }, next, cost));
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cost_model::{AnalyticModel, Cluster};
    use ir::DType;

    #[test]
    fn a_partial_is_scattered_rather_than_reduced_and_sliced() {
        let cluster = Cluster::parse("dgx-a100:1").expect("a preset");
        let (model, mesh) = (AnalyticModel::new(cluster), Mesh::new(&[8]));
        let ty = TensorType::new(DType::F32, [1024, 1024]);
        let mut r = Resharder::new(&model, &mesh, 0);
        let partial = Sharding { dims: vec![vec![], vec![]], partial: vec![(AxisId(0), Reducer::Add)] };
        let rows = Sharding::replicated(2).with_dim(0, AxisId(0));
        let path = r.path(&ty, &partial, &rows).expect("reachable");
        assert!(matches!(path.steps.as_slice(), [(Step::ReduceScatter { dim: 0, .. }, _)]));
        let columns = Sharding::replicated(2).with_dim(1, AxisId(0));
        assert!(matches!(r.path(&ty, &rows, &columns).expect("reachable").steps.as_slice(), [(Step::AllToAll { from: 0, to: 1, .. }, _)]));
        assert!(r.path(&ty, &rows, &partial).is_none(), "nothing becomes partial");
    }
}
