//! The loop nest a kernel becomes: dimensions merged where every access allows it, loop order, and the dimension that is vectorised.
//!
//! Dimensions of extent one are gone, and neighbours are merged when no access can tell them apart. Parallel loops are outside of reduced loops, in each
//! class large strides outside of small ones. One dimension is vectorised: the one along which the accesses are cheapest, whether it is parallel (an
//! elementwise kernel, sums over rows) or reduced (sums along a row). It is the innermost loop of its class, but in a transposition.

use ir::PrimaryMap;
use ir::kernel::{Affine, Kernel, NodeId, NodeKind};

/// One loop of the nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dim {
    pub(crate) extent: u64,
    pub(crate) reduced: bool,
}

/// A kernel's loops and its accesses in terms of them.
#[derive(Clone, Debug)]
pub(crate) struct Nest {
    pub(crate) dims: Vec<Dim>,
    /// Parallel dimensions, outermost first.
    pub(crate) parallel: Vec<usize>,
    /// Reduced dimensions, outermost first.
    pub(crate) reduced: Vec<usize>,
    /// The vectorised dimension; `None` when the domain is a single point.
    pub(crate) vector: Option<usize>,
    /// Strides of loads and gathers by dimension of the nest (empty for other nodes).
    pub(crate) loads: PrimaryMap<NodeId, Vec<i64>>,
    /// Strides of stores.
    pub(crate) stores: Vec<Vec<i64>>,
    /// Domain dimension to dimension of the nest; `None` when its extent is one.
    pub(crate) position: Vec<Option<usize>>,
    /// The dimensions of the nest that each node varies over, as a bit mask.
    pub(crate) varies: PrimaryMap<NodeId, u32>,
    /// The reduced dimensions as a bit mask.
    pub(crate) reduced_mask: u32,
}

impl Nest {
    pub(crate) fn new(kernel: &Kernel) -> Nest {
        let mut merged = Merging::new(kernel);
        while merged.step() {}
        let Merging { dims, loads, stores, position, .. } = merged;
        let reduced_mask = dims.iter().enumerate().fold(0, |m, (d, dim)| m | u32::from(dim.reduced) << d);
        let varies = varies(kernel, &loads, &position, reduced_mask);
        let mut nest = Nest { dims, parallel: vec![], reduced: vec![], vector: None, loads, stores, position, varies, reduced_mask };
        nest.vector = nest.choose_vector(kernel);
        let mut order: Vec<usize> = (0..nest.dims.len()).collect();
        let weight: Vec<u64> = order.iter().map(|&d| nest.stride_weight(d)).collect();
        order.sort_by_key(|&d| (nest.vector == Some(d), std::cmp::Reverse(weight[d]), d));
        (nest.reduced, nest.parallel) = order.into_iter().partition(|&d| nest.dims[d].reduced);
        if let Some(across) = nest.transposed() {
            let at = nest.parallel.iter().position(|&d| d == across).expect("invariant: a parallel dimension is in the order");
            nest.parallel.remove(at);
            nest.parallel.push(across);
        }
        nest
    }
    /// A parallel dimension that some load is contiguous along while the vectorised one is not its own: the loop to be innermost, so that the lines which
    /// the lanes are gathered from are used up while they are near.
    pub(crate) fn transposed(&self) -> Option<usize> {
        let v = self.vector.filter(|&v| !self.dims[v].reduced)?;
        let scattered = || self.loads.values().chain(&self.stores).filter(|s| s.get(v).is_some_and(|s| s.abs() > 1));
        self.parallel.iter().copied().find(|&d| d != v && scattered().any(|s| s[d] == 1))
    }
    /// The dimensions that an access or value varies over.
    pub(crate) fn mask(strides: &[i64]) -> u32 {
        strides.iter().enumerate().fold(0, |m, (d, &s)| if s != 0 { m | 1 << d } else { m })
    }
    fn stride_weight(&self, d: usize) -> u64 {
        let loads = self.loads.values().map(|s| s.get(d).map_or(0, |s| s.unsigned_abs()));
        let stores = self.stores.iter().map(|s| 2 * s[d].unsigned_abs());
        loads.chain(stores).fold(0, u64::saturating_add)
    }
    /// The share of the domain's points at which something that varies over `mask` is evaluated.
    fn frequency(&self, mask: u32) -> f64 {
        self.dims.iter().enumerate().filter(|(d, _)| mask & (1 << d) == 0).map(|(_, dim)| 1.0 / dim.extent as f64).product()
    }
    fn choose_vector(&self, kernel: &Kernel) -> Option<usize> {
        const LANES: f64 = 16.0;
        let mut best: Option<(f64, usize)> = None;
        for (d, dim) in self.dims.iter().enumerate() {
            let along = |stride: i64| match stride {
                0 => 0.02,
                1 => 1.0 / LANES,
                _ => 1.0,
            };
            let mut cost = 0.0;
            for (id, node) in kernel.nodes.iter() {
                let frequency = self.frequency(self.varies[id]);
                cost += frequency
                    * match &node.kind {
                        NodeKind::Load { .. } => along(self.loads[id][d]),
                        NodeKind::Gather { at, .. } => {
                            if self.varies[*at] & (1 << d) != 0 {
                                1.5
                            } else {
                                along(self.loads[id][d])
                            }
                        }
                        _ if self.varies[id] & (1 << d) != 0 => 1.0 / LANES.min(dim.extent as f64),
                        _ => 0.1,
                    };
            }
            for (store, strides) in kernel.stores.iter().zip(&self.stores) {
                cost += 1.5 * self.frequency(Nest::mask(strides) | self.varies[store.value]) * along(strides[d]);
            }
            if dim.reduced {
                // Lanes are combined once a parallel point.
                let points: f64 = self.dims.iter().filter(|dim| dim.reduced).map(|dim| dim.extent as f64).product();
                cost += 8.0 / points;
            }
            if best.is_none_or(|(least, _)| cost < least || (cost == least && !dim.reduced)) {
                best = Some((cost, d));
            }
        }
        best.map(|(_, d)| d)
    }
}

fn varies(kernel: &Kernel, loads: &PrimaryMap<NodeId, Vec<i64>>, position: &[Option<usize>], reduced: u32) -> PrimaryMap<NodeId, u32> {
    let mut varies: PrimaryMap<NodeId, u32> = PrimaryMap::new();
    for (id, node) in kernel.nodes.iter() {
        let operands = kernel.operands(id).iter().fold(0, |m, &o| m | varies[o]);
        varies.push(match &node.kind {
            NodeKind::Load { .. } | NodeKind::Gather { .. } => operands | Nest::mask(&loads[id]),
            NodeKind::Index(d) => position[*d as usize].map_or(0, |d| 1 << d),
            NodeKind::Reduce(..) => operands & !reduced,
            _ => operands,
        });
    }
    varies
}

/// Dimensions while they are merged.
struct Merging {
    dims: Vec<Dim>,
    /// Whether the index along the dimension is itself a value.
    indexed: Vec<bool>,
    loads: PrimaryMap<NodeId, Vec<i64>>,
    stores: Vec<Vec<i64>>,
    position: Vec<Option<usize>>,
}

impl Merging {
    fn new(kernel: &Kernel) -> Merging {
        let kept: Vec<usize> = (0..kernel.domain.len()).filter(|&d| kernel.domain[d] > 1).collect();
        let dims = kept.iter().map(|&d| Dim { extent: kernel.domain[d], reduced: kernel.reduced.contains(&(d as u32)) }).collect();
        let indexed = kept.iter().map(|&d| kernel.nodes.values().any(|n| n.kind == NodeKind::Index(d as u32))).collect();
        let strides = |index: &Affine| kept.iter().map(|&d| index.strides[d]).collect::<Vec<i64>>();
        let mut loads = PrimaryMap::new();
        for node in kernel.nodes.values() {
            loads.push(match &node.kind {
                NodeKind::Load { index, .. } | NodeKind::Gather { index, .. } => strides(index),
                _ => vec![],
            });
        }
        let stores = kernel.stores.iter().map(|s| strides(&s.index)).collect();
        let position = (0..kernel.domain.len()).map(|d| kept.iter().position(|&k| k == d)).collect();
        Merging { dims, indexed, loads, stores, position }
    }
    /// Merges one pair of dimensions, if there is a pair.
    fn step(&mut self) -> bool {
        let pairs = (0..self.dims.len()).flat_map(|a| (0..self.dims.len()).map(move |b| (a, b)));
        let Some((outer, inner)) = pairs.into_iter().find(|&(a, b)| self.mergeable(a, b)) else { return false };
        self.dims[inner].extent *= self.dims[outer].extent;
        self.dims.remove(outer);
        self.indexed.remove(outer);
        for strides in self.loads.values_mut().filter(|s| !s.is_empty()).chain(&mut self.stores) {
            strides.remove(outer);
        }
        for p in self.position.iter_mut() {
            // Neither dimension of a pair has an index node, so that only the others' positions are ever asked for.
            *p = match *p {
                Some(d) if d == outer => None,
                Some(d) if d > outer => Some(d - 1),
                p => p,
            };
        }
        true
    }
    fn mergeable(&self, outer: usize, inner: usize) -> bool {
        let extent = self.dims[inner].extent as i64;
        outer != inner
            && self.dims[outer].reduced == self.dims[inner].reduced
            && !self.indexed[outer]
            && !self.indexed[inner]
            && self.loads.values().filter(|s| !s.is_empty()).chain(&self.stores).all(|s| s[outer] == s[inner].wrapping_mul(extent))
    }
}
