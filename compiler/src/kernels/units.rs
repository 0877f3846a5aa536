//! Units: kernels and library calls in an executable order.
//!
//! Fused ops are put into kernels greedily, in graph order: an op joins the latest kernel that it reads from (or that reads what it reads) when their
//! iteration spaces agree, when both reduce over the same dimensions, and when joining makes no cycle. What a kernel's values cost is only what it stores.
//! Invariant: units are ordered so that every leaf is defined before it is read, and phases never decrease along a dependence but for accumulated totals.

use super::classify::{Class, Classes};
use super::view::{self, IndexMap};
use crate::spmd::local::LocalGraph;
use fixedbitset::FixedBitSet;
use ir::op::OpKind;
use ir::program::Phase;
use ir::{AxisId, OpId, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// What a unit is.
#[derive(Clone, Debug, PartialEq)]
pub enum UnitKind {
    /// A loop nest over `domain` with reductions over `reduced`.
    Kernel {
        /// Extents.
        domain: Vec<u64>,
        /// Reduced dimensions; `None` while no op reduces.
        reduced: Option<Vec<usize>>,
    },
    /// A kernel that stores a view, because a library call needs it in memory.
    Store(ValueId),
    /// One op of a library or a collective.
    Call(OpId),
}

/// A unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// What it is.
    pub kind: UnitKind,
    /// When it runs.
    pub phase: Phase,
    /// Its place among units of a phase: transfers before it.
    pub depth: u32,
    /// Its ops, in graph order.
    pub ops: Vec<OpId>,
    /// Leaves it reads, ascending.
    pub reads: Vec<ValueId>,
    /// Values it stores, ascending.
    pub writes: Vec<ValueId>,
}

/// A leaf that an op reads, with its map from the op's own iteration space.
pub(super) type Access = (ValueId, Option<IndexMap>);

/// The iteration space of a fused op: its operand's shape for a reduction, else its result's.
pub(super) fn space(local: &LocalGraph, op: OpId) -> Vec<u64> {
    let o = &local.graph.ops[op];
    match &o.kind {
        OpKind::Reduce { .. } => local.graph.ty(o.operands[0]).shape.clone(),
        _ => local.graph.ty(o.results[0]).shape.clone(),
    }
}

/// Everything in memory that computing a value under a map reads. What lies behind a reshape that the map does not go through affinely comes with `None`:
/// it is read by its row-major index, so it must be stored.
pub(super) fn accesses(local: &LocalGraph, classes: &Classes, v: ValueId, map: &IndexMap, domain: &[u64], out: &mut Vec<Access>) {
    if classes.is_leaf(local, v) {
        if !out.iter().any(|(w, m)| *w == v && m.as_ref() == Some(map)) {
            out.push((v, Some(map.clone())));
        }
        return;
    }
    let op = local.graph.def_op(v).expect("invariant: an input is a leaf");
    let o = &local.graph.ops[op];
    match classes.of(op) {
        Class::View => match view::through(&local.graph, &local.mesh, op, map, domain) {
            Some(inner) => accesses(local, classes, o.operands[0], &inner, domain, out),
            None => {
                let base = memory_behind(local, classes, v);
                if let Some(base) = base.filter(|b| !out.contains(&(*b, None))) {
                    out.push((base, None));
                }
            }
        },
        _ => {
            for &operand in &o.operands {
                let scalar = local.graph.ty(operand).rank() == 0;
                accesses(local, classes, operand, if scalar { const { &Vec::new() } } else { map }, domain, out);
            }
        }
    }
}

/// Builder of the units.
struct Fusion<'a> {
    local: &'a LocalGraph,
    classes: &'a Classes,
    units: Vec<Unit>,
    /// Units that each unit depends on, transitively.
    reach: Vec<FixedBitSet>,
    /// Defining unit of leaves.
    unit_of: BTreeMap<ValueId, usize>,
    /// For kernels, the full-size leaves they read in place.
    readers: BTreeMap<ValueId, Vec<usize>>,
}

/// Cuts a local graph into units.
pub fn units(local: &LocalGraph, classes: &Classes) -> Vec<Unit> {
    let mut fusion = Fusion { local, classes, units: vec![], reach: vec![], unit_of: BTreeMap::new(), readers: BTreeMap::new() };
    for id in local.graph.ops.keys() {
        match classes.of(id) {
            Class::View | Class::Recomputed | Class::Written => {}
            Class::Fused => fusion.fuse(id),
            Class::Anchor => fusion.call(id),
        }
    }
    for &v in &local.graph.outputs {
        let phase = local.graph.def_op(v).map_or(Phase::After, |op| local.phase[op.0 as usize]);
        fusion.store(v, phase);
    }
    fusion.finish()
}

impl Fusion<'_> {
    fn add_unit(&mut self, kind: UnitKind, phase: Phase, depth: u32, ops: Vec<OpId>, reads: impl IntoIterator<Item = ValueId>) -> usize {
        let u = self.units.len();
        let reads: BTreeSet<ValueId> = reads.into_iter().collect();
        let mut reach = FixedBitSet::with_capacity(u + 1);
        for v in &reads {
            if let Some(&d) = self.unit_of.get(v) {
                reach.grow(d + 1);
                reach.insert(d);
                reach.union_with(&self.reach[d]);
            }
        }
        self.units.push(Unit { kind, phase, depth, ops, reads: reads.into_iter().collect(), writes: vec![] });
        self.reach.push(reach);
        u
    }

    /// Makes sure that a value lies in memory; views and recomputed values get a kernel of their own, once per phase that needs it first.
    fn store(&mut self, v: ValueId, phase: Phase) {
        if self.classes.is_leaf(self.local, v) || self.unit_of.contains_key(&v) {
            return;
        }
        let op = self.local.graph.def_op(v).expect("invariant: an input is a leaf");
        let own = self.local.phase[op.0 as usize].min(phase);
        if matches!(self.local.graph.ops[op].kind, OpKind::Reshape) && alias_of(self.local, self.classes, v).is_some() {
            return;
        }
        let (root, space) = super::build::store_space(self.local, self.classes, v);
        let mut reads = Vec::new();
        accesses(self.local, self.classes, root, &view::identity(space.len()), &space, &mut reads);
        self.store_what_is_indexed(&reads, phase);
        // A value of constants alone is stored before the first microbatch.
        let own = if self.classes.leaves(self.local, v).is_empty() && !depends_on_microbatch(self.local, v) { Phase::Before } else { own };
        let u = self.add_unit(UnitKind::Store(v), own, self.local.depth[op.0 as usize], vec![], reads.into_iter().map(|(v, _)| v));
        self.units[u].writes.push(v);
        self.unit_of.insert(v, u);
    }

    fn call(&mut self, id: OpId) {
        let op = &self.local.graph.ops[id];
        let phase = self.local.phase[id.0 as usize];
        let mut reads = BTreeSet::new();
        for (i, &v) in op.operands.iter().enumerate() {
            let base = super::matmul::operand_base(self.local, self.classes, id, i);
            let base = base.or_else(|| alias_of(self.local, self.classes, v)).unwrap_or(v);
            self.store(base, phase);
            reads.insert(base);
        }
        let u = self.add_unit(UnitKind::Call(id), phase, self.local.depth[id.0 as usize], vec![id], reads);
        let writer = self.classes.written_by(id).unwrap_or(id);
        for &r in &self.local.graph.ops[writer].results {
            self.units[u].writes.push(r);
            self.unit_of.insert(r, u);
        }
    }

    fn fuse(&mut self, id: OpId) {
        let local = self.local;
        let op = &local.graph.ops[id];
        let phase = local.phase[id.0 as usize];
        let own_space = space(local, id);
        let mut reads: Vec<Access> = Vec::new();
        for &v in &op.operands {
            let rank = local.graph.ty(v).rank();
            accesses(local, self.classes, v, &view::identity(rank), &own_space, &mut reads);
        }
        self.store_what_is_indexed(&reads, phase);
        let mut candidates: Vec<usize> = reads.iter().filter_map(|(v, _)| self.unit_of.get(v).copied()).collect();
        for (v, map) in &reads {
            if map.as_ref().is_some_and(|m| *m == view::identity(own_space.len())) && local.graph.ty(*v).shape == own_space {
                candidates.extend(self.readers.get(v).into_iter().flatten());
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        let chosen = candidates.into_iter().rev().find(|&u| self.can_join(u, id, phase, &own_space, &reads));
        let u = match chosen {
            Some(u) => {
                self.join(u, id, &reads);
                u
            }
            None => {
                let reduced = match &op.kind {
                    OpKind::Reduce { dims, .. } => Some(dims.clone()),
                    _ => None,
                };
                let leaves: Vec<ValueId> = reads.iter().map(|(v, _)| *v).collect();
                self.add_unit(UnitKind::Kernel { domain: own_space.clone(), reduced }, phase, local.depth[id.0 as usize], vec![id], leaves)
            }
        };
        self.unit_of.insert(op.results[0], u);
        for (v, map) in reads {
            if local.graph.ty(v).shape == own_space && map.is_some_and(|m| m == view::identity(own_space.len())) {
                let list = self.readers.entry(v).or_default();
                if !list.contains(&u) {
                    list.push(u);
                }
            }
        }
    }

    /// Stores what is read by its row-major index, behind reshapes that no affine map expresses.
    fn store_what_is_indexed(&mut self, reads: &[Access], phase: Phase) {
        for (v, _) in reads.iter().filter(|(_, map)| map.is_none()) {
            self.store(*v, phase);
        }
    }

    /// Whether `id`, with the given accesses from its own space, can be computed inside kernel `u`.
    fn can_join(&self, u: usize, id: OpId, phase: Phase, own_space: &[u64], reads: &[Access]) -> bool {
        let unit = &self.units[u];
        let UnitKind::Kernel { domain, reduced } = &unit.kind else { return false };
        if unit.phase != phase || unit.depth != self.local.depth[id.0 as usize] || unit.ops.len() > 400 {
            return false;
        }
        let op = &self.local.graph.ops[id];
        let Some(own) = alignment(own_space, domain, reduced.as_deref()) else { return false };
        if let OpKind::Reduce { dims, .. } = &op.kind {
            let full = own.len() == domain.len();
            match reduced {
                Some(r) if full => {
                    if r != dims {
                        return false;
                    }
                }
                None if full => {}
                _ => return false,
            }
        }
        for (v, map) in reads {
            match self.unit_of.get(v) {
                Some(&d) if d == u => {
                    let Some(map) = map else { return false };
                    let shape = &self.local.graph.ty(*v).shape;
                    let Some(theirs) = alignment(shape, domain, reduced.as_deref()) else { return false };
                    let same = map
                        .iter()
                        .zip(&theirs)
                        .all(|(e, &t)| e.offset == 0 && e.coordinates.is_empty() && e.terms.len() == 1 && e.terms[0].1 == 1 && own[e.terms[0].0 as usize] == t);
                    let accumulated = matches!(self.local.graph.def_op(*v).map(|d| &self.local.graph.ops[d].kind), Some(OpKind::AllReduce { .. }));
                    if !same || accumulated {
                        return false;
                    }
                }
                Some(&d) if self.reach[d].contains(u) => return false,
                _ => {}
            }
        }
        true
    }

    fn join(&mut self, u: usize, id: OpId, reads: &[Access]) {
        let op = &self.local.graph.ops[id];
        if let (OpKind::Reduce { dims, .. }, UnitKind::Kernel { reduced, .. }) = (&op.kind, &mut self.units[u].kind) {
            *reduced = Some(dims.clone());
        }
        self.units[u].ops.push(id);
        let mut added = FixedBitSet::with_capacity(self.units.len());
        let mut all: BTreeSet<ValueId> = self.units[u].reads.iter().copied().collect();
        for (v, _) in reads {
            match self.unit_of.get(v) {
                Some(&d) if d == u => continue,
                Some(&d) => {
                    added.insert(d);
                    added.union_with(&self.reach[d]);
                }
                None => {}
            }
            all.insert(*v);
        }
        self.units[u].reads = all.into_iter().collect();
        self.reach[u].union_with(&added);
        let closure = self.reach[u].clone();
        for w in 0..self.units.len() {
            if self.reach[w].contains(u) {
                self.reach[w].union_with(&closure);
            }
        }
    }

    /// Fills in what kernels store, and orders the units.
    fn finish(mut self) -> Vec<Unit> {
        let local = self.local;
        let mut needed: BTreeSet<ValueId> = local.graph.outputs.iter().flat_map(|&v| self.classes.leaves(local, v)).collect();
        for (u, unit) in self.units.iter().enumerate() {
            needed.extend(unit.reads.iter().filter(|v| self.unit_of.get(v) != Some(&u)));
        }
        for unit in &mut self.units {
            if matches!(unit.kind, UnitKind::Kernel { .. }) {
                for &id in &unit.ops {
                    let o = &local.graph.ops[id];
                    let accumulated = matches!(o.kind, OpKind::AllReduce { .. });
                    if needed.contains(&o.results[0]) || accumulated {
                        unit.writes.push(o.results[0]);
                    }
                }
            }
        }
        order(local, self.units, &self.unit_of)
    }
}

/// Topological order inside each phase, earliest op first.
///
/// Before and after the microbatches, work goes in waves: all collectives that can run, then everything else that can run, and so on, so that gradients
/// are reduced together.
fn order(local: &LocalGraph, units: Vec<Unit>, unit_of: &BTreeMap<ValueId, usize>) -> Vec<Unit> {
    let first_op = |u: &Unit| match &u.kind {
        UnitKind::Store(v) => local.graph.def_op(*v).map_or(0, |o| o.0),
        _ => u.ops.iter().map(|o| o.0).max().unwrap_or(0),
    };
    let collective = |u: &Unit| matches!(&u.kind, UnitKind::Call(op) if local.graph.ops[*op].kind.is_collective());
    let in_waves = |u: &Unit| matches!(u.phase, Phase::Before | Phase::After);
    let mut blockers = vec![0usize; units.len()];
    let mut dependents: Vec<Vec<usize>> = vec![vec![]; units.len()];
    for (u, unit) in units.iter().enumerate() {
        let needs: BTreeSet<usize> = unit.reads.iter().filter_map(|v| unit_of.get(v).copied()).filter(|&d| d != u).collect();
        blockers[u] = needs.len();
        for d in needs {
            dependents[d].push(u);
        }
    }
    let mut ready: BTreeSet<(Phase, u32, u32, u32, usize)> = BTreeSet::new();
    let mut wave = vec![0u32; units.len()];
    // Even waves are collectives, odd ones are not.
    let key = |u: usize, wave: u32| {
        let w = if in_waves(&units[u]) { wave + (wave + u32::from(!collective(&units[u]))) % 2 } else { 0 };
        (units[u].phase, units[u].depth, w, first_op(&units[u]), u)
    };
    for u in (0..units.len()).filter(|&u| blockers[u] == 0) {
        ready.insert(key(u, 0));
    }
    let mut sorted = Vec::with_capacity(units.len());
    while let Some((phase, depth, w, _, u)) = ready.pop_first() {
        sorted.push(u);
        for &d in &dependents[u] {
            let same = (units[d].phase, units[d].depth) == (phase, depth);
            wave[d] = wave[d].max(if same { w } else { 0 });
            blockers[d] -= 1;
            if blockers[d] == 0 {
                ready.insert(key(d, wave[d]));
            }
        }
    }
    debug_assert_eq!(sorted.len(), units.len(), "invariant: fusion makes no cycle");
    let mut out: Vec<Unit> = sorted.into_iter().map(|u| units[u].clone()).collect();
    out.sort_by_key(|u| u.phase);
    out
}

/// Where the dimensions of a value of `shape` lie in a kernel's domain: all of them, or the ones that are not reduced.
pub(super) fn alignment(shape: &[u64], domain: &[u64], reduced: Option<&[usize]>) -> Option<Vec<usize>> {
    if shape == domain {
        return Some((0..domain.len()).collect());
    }
    let reduced = reduced?;
    let parallel: Vec<usize> = (0..domain.len()).filter(|d| !reduced.contains(d)).collect();
    (shape.len() == parallel.len() && shape.iter().zip(&parallel).all(|(n, &d)| *n == domain[d])).then_some(parallel)
}

/// The stored value whose row-major memory a chain of reshapes shares.
pub(crate) fn alias_of(local: &LocalGraph, classes: &Classes, mut v: ValueId) -> Option<ValueId> {
    loop {
        if classes.is_leaf(local, v) {
            return Some(v);
        }
        let op = local.graph.def_op(v)?;
        match local.graph.ops[op].kind {
            OpKind::Reshape | OpKind::AllReduce { .. } => v = local.graph.ops[op].operands[0],
            _ => return None,
        }
    }
}

/// The value whose row-major memory a reshape has: a leaf behind a chain of reshapes, else its operand. None for what has no operand.
pub(super) fn memory_behind(local: &LocalGraph, classes: &Classes, v: ValueId) -> Option<ValueId> {
    let op = local.graph.def_op(v)?;
    let operand = local.graph.ops[op].operands.first().copied()?;
    Some(alias_of(local, classes, v).unwrap_or(operand))
}

/// Whether a value without leaves differs between microbatches.
fn depends_on_microbatch(local: &LocalGraph, v: ValueId) -> bool {
    let mut stack = vec![v];
    while let Some(v) = stack.pop() {
        let Some(op) = local.graph.def_op(v) else { continue };
        let o = &local.graph.ops[op];
        if matches!(&o.kind, OpKind::AxisIndex { axes } | OpKind::ShardSlice { axes, .. } if axes.contains(&AxisId::MICROBATCH)) {
            return true;
        }
        stack.extend(&o.operands);
    }
    false
}
