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
    known: FxHashMap<TensorType, Web>,
}

/// The shardings of one type, numbered as they are met, with the single steps that lead from each to others.
#[derive(Default)]
struct Web {
    number: FxHashMap<Sharding, u32>,
    shardings: Vec<Sharding>,
    /// Per sharding, once somebody went that way: the steps from it, where they lead, and what they cost.
    steps: Vec<Option<Vec<(Step, u32, Seconds)>>>,
    /// Per sharding, once somebody asked: the tree of shortest paths from it.
    reached: Vec<Option<Reached>>,
}

/// A tree of shortest paths: per sharding its time, and the sharding before it with the number of the step from there; none for what cannot be reached.
type Reached = Vec<Option<(Seconds, Option<(u32, u32)>)>>;

impl Web {
    fn number(&mut self, sharding: &Sharding) -> u32 {
        if let Some(&n) = self.number.get(sharding) {
            return n;
        }
        let n = self.shardings.len() as u32;
        self.number.insert(sharding.clone(), n);
        self.shardings.push(sharding.clone());
        self.steps.push(None);
        self.reached.push(None);
        n
    }

    fn time(&self, from: u32, to: u32) -> Option<Seconds> {
        self.reached[from as usize].as_ref()?.get(to as usize)?.map(|r| r.0)
    }

    fn path(&self, from: u32, to: u32) -> Option<Path> {
        let tree = self.reached[from as usize].as_ref()?;
        let (time, mut before) = (*tree.get(to as usize)?)?;
        let mut at = to;
        let mut steps = Vec::new();
        while let Some((earlier, step)) = before {
            let (step, ..) = &self.steps[earlier as usize].as_ref()?[step as usize];
            steps.push((step.clone(), self.shardings[at as usize].clone()));
            at = earlier;
            before = tree[at as usize]?.1;
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
        self.with_web(ty, |r, web| {
            let (from, to) = (web.number(from), web.number(to));
            r.explore(ty, web, from);
            web.path(from, to)
        })
    }

    /// The time of the cheapest path.
    pub fn time(&mut self, ty: &TensorType, from: &Sharding, to: &Sharding) -> Option<Seconds> {
        if from == to {
            return Some(Seconds(0.0));
        }
        self.with_web(ty, |r, web| {
            let (from, to) = (web.number(from), web.number(to));
            r.explore(ty, web, from);
            web.time(from, to)
        })
    }

    /// The times from some shardings to others.
    pub fn times(&mut self, ty: &TensorType, from: &[&Sharding], to: &[&Sharding]) -> Vec<Vec<Option<Seconds>>> {
        self.with_web(ty, |r, web| {
            let to: Vec<u32> = to.iter().map(|s| web.number(s)).collect();
            from.iter()
                .map(|s| {
                    let from = web.number(s);
                    r.explore(ty, web, from);
                    to.iter().map(|&to| web.time(from, to)).collect()
                })
                .collect()
        })
    }

    fn with_web<T>(&mut self, ty: &TensorType, f: impl FnOnce(&Self, &mut Web) -> T) -> T {
        let mut web = self.known.get_mut(ty).map(std::mem::take).unwrap_or_default();
        let out = f(self, &mut web);
        match self.known.get_mut(ty) {
            Some(place) => *place = web,
            None => drop(self.known.insert(ty.clone(), web)),
        }
        out
    }

    /// Dijkstra's algorithm; of equal times the smaller sharding goes first.
    fn explore(&self, ty: &TensorType, web: &mut Web, from: u32) {
        if web.reached[from as usize].is_some() {
            return;
        }
        let mut tree: Reached = vec![None; web.shardings.len()];
        tree[from as usize] = Some((Seconds(0.0), None));
        let mut open = vec![(Seconds(0.0), from)];
        loop {
            let before =
                |a: &(Seconds, u32), b: &(Seconds, u32)| a.0.0.total_cmp(&b.0.0).then_with(|| web.shardings[a.1 as usize].cmp(&web.shardings[b.1 as usize]));
            let Some(nearest) = (0..open.len()).min_by(|&a, &b| before(&open[a], &open[b])) else { break };
            let (so_far, at) = open.swap_remove(nearest);
            if web.steps[at as usize].is_none() {
                let steps = self.steps(ty, &web.shardings[at as usize]);
                let held = steps.into_iter().filter(|(_, next, _)| is_valid(next, &ty.shape, self.mesh));
                web.steps[at as usize] = Some(held.map(|(step, next, cost)| (step, web.number(&next), cost)).collect());
                tree.resize(web.shardings.len(), None);
            }
            for (k, (_, next, cost)) in (0..).zip(web.steps[at as usize].iter().flatten()) {
                let time = so_far + *cost;
                match &mut tree[*next as usize] {
                    // What was gone on from already is no farther.
                    Some(known) if time < known.0 => {
                        *known = (time, Some((at, k)));
                        open.iter_mut().filter(|o| o.1 == *next).for_each(|o| o.0 = time);
                    }
                    none @ None => {
                        *none = Some((time, Some((at, k))));
                        open.push((time, *next));
                    }
                    Some(_) => {}
                }
            }
        }
        web.reached[from as usize] = Some(tree);
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
