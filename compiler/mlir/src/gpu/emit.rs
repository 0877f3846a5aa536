//! Writes a kernel as entries of a PTX module.
//!
//! A thread computes one group of points at a time (see [`super::mapping`]). Threads past the end compute what the last one computes and store nothing, so
//! that all threads of a block come to every barrier and shuffle; where no thread waits for another they do nothing. The passes over what is folded follow one another as [`crate::schedule::order`] says;
//! values kept for a later pass stay in registers. With splits every pass is a launch, which leaves its parts in scratch, and the next ones combine them.
//!
//! **Invariant:** barriers and shuffles are outside of loops and conditions; shared memory is written once between two barriers.

use super::mapping::{self, Mapping};
use crate::emit::Width;
use crate::emit::builder::{Builder, Elem, Ptr, Ty, Val};
use crate::emit::node::Points;
use crate::emit::threads::Entry;
use crate::error::Error;
use crate::nest::Nest;
use crate::schedule::{self, Order, Room};
use ir::kernel::{Kernel, NodeId, NodeKind};
use ir::plan::Launch;
use ir::{EntityId, SecondaryMap};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A kernel's work over threads and passes.
pub(crate) struct Plan<'k> {
    pub(crate) symbol: &'k str,
    pub(crate) kernel: &'k Kernel,
    pub(crate) nest: Nest,
    pub(crate) live: SecondaryMap<NodeId, bool>,
    pub(crate) mapping: Mapping,
    pub(crate) order: Order,
}

/// One launch: some passes, and whether what is stored once a point is stored.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) passes: Range<usize>,
    pub(crate) last: bool,
}

/// What a launch needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    /// The nodes that read buffers.
    pub(super) loads: BTreeSet<NodeId>,
    /// Reductions whose values are used.
    pub(super) reduces: BTreeSet<NodeId>,
}

impl<'k> Plan<'k> {
    /// Decides how `kernel` is computed.
    pub(crate) fn new(symbol: &'k str, kernel: &'k Kernel) -> Result<Plan<'k>, Error> {
        crate::check::check(symbol, kernel)?;
        let nest = Nest::new(kernel);
        let live = schedule::live(kernel);
        let mapping = Mapping::new(kernel, &nest, &live);
        let kept_bytes = |id: NodeId| {
            let elem = crate::elementwise::computed_in(kernel.nodes[id].dtype)?;
            let lanes = if nest.vector.is_some_and(|v| nest.varies[id] & (1 << v) != 0) { u64::from(mapping.lanes) } else { 1 };
            Some(mapping.rounds * lanes * u64::from(elem.bytes().max(4)))
        };
        let room = Room { bytes: 4 * mapping.registers(), bytes_of: &kept_bytes, load_cost: 16 };
        let order = schedule::order(kernel, &nest, &live, &room);
        Ok(Plan { symbol, kernel, nest, live, mapping, order })
    }
    /// The launches.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let passes = self.order.passes.len();
        let rows = self.order.in_pass.iter().any(Option::is_none);
        if self.mapping.splits == 1 {
            return vec![Part { passes: 0..passes, last: true }];
        }
        let mut parts: Vec<Part> = (0..passes).map(|p| Part { passes: p..p + 1, last: false }).collect();
        if rows {
            parts.push(Part { passes: passes..passes, last: true });
        }
        parts
    }
    /// The stores that a launch makes, by number.
    pub(super) fn stores(&self, part: &Part) -> Vec<usize> {
        (0..self.kernel.stores.len()).filter(|&s| self.order.in_pass[s].map_or(part.last, |p| part.passes.contains(&p))).collect()
    }
    /// What a launch loads, and the reductions it uses.
    pub(super) fn needs(&self, part: &Part) -> Needs {
        let varies_folded = |id: NodeId| self.nest.varies[id] & self.nest.reduced_mask != 0;
        let mut open: Vec<NodeId> = self.stores(part).into_iter().map(|s| self.kernel.stores[s].value).filter(|&v| !varies_folded(v)).collect();
        for pass in &self.order.passes[part.passes.clone()] {
            open.extend(&pass.nodes);
            let operands = pass.nodes.iter().chain(&pass.reduces).flat_map(|&n| self.kernel.operands(n));
            open.extend(operands.filter(|&n| !varies_folded(n)));
        }
        let (mut seen, mut needs) = (BTreeSet::new(), Needs::default());
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            match self.kernel.nodes[id].kind {
                NodeKind::Load { .. } | NodeKind::Gather { .. } => {
                    needs.loads.insert(id);
                }
                NodeKind::Reduce(..) => {
                    needs.reduces.insert(id);
                    continue;
                }
                _ => {}
            }
            if !varies_folded(id) {
                open.extend(self.kernel.operands(id));
            }
        }
        needs
    }
    /// Every reduction with the place of its parts in scratch, and the bytes of scratch.
    fn scratch(&self) -> (BTreeMap<NodeId, u64>, u64) {
        let mut at = 0;
        let mut places = BTreeMap::new();
        if self.mapping.splits > 1 {
            for &id in self.order.passes.iter().flat_map(|p| &p.reduces) {
                places.insert(id, at);
                let elem = crate::elementwise::computed_in(self.kernel.nodes[id].dtype).expect("invariant: types were checked");
                let bytes = self.mapping.splits * self.mapping.points * u64::from(self.point_lanes(id).max(1)) * u64::from(elem.bytes());
                at += bytes.next_multiple_of(256);
            }
        }
        (places, at)
    }
    /// Lanes of a reduction's value at a point; zero for a scalar.
    pub(super) fn point_lanes(&self, id: NodeId) -> u32 {
        let vector = self.mapping.lanes > 1 && self.mapping.across && self.nest.vector.is_some_and(|v| self.nest.varies[id] & (1 << v) != 0);
        if vector { self.mapping.lanes } else { 0 }
    }
    /// The text of every entry, and the launches.
    pub(crate) fn write(&self) -> Result<(String, Vec<Launch>), Error> {
        let (places, scratch) = self.scratch();
        let (mut text, mut launches) = (String::new(), Vec::new());
        let parts = self.parts();
        for (number, part) in parts.iter().enumerate() {
            let entry_name = if parts.len() == 1 { self.symbol.to_owned() } else { format!("{}_{number}", self.symbol) };
            let m = &self.mapping;
            let counter = if m.wide { Elem::I64 } else { Elem::I32 };
            let (b, entry) = Builder::entry(self.kernel.params.len(), self.kernel.scalars, scratch > 0, counter);
            let mut writer = Writer::new(self, &entry_name, b, &entry, &places);
            writer.part(part)?;
            let shared = writer.shared_most;
            text += &writer.b.finish_entry(&entry, &entry_name, m.threads() as u32, shared);
            let splits = if part.passes.is_empty() { 1 } else { m.splits };
            let size = |n: u64| u32::try_from(n).map_err(|_| Error::Llvm(format!("kernel `{}` needs {n} blocks", self.symbol)));
            launches.push(Launch { entry: entry_name, grid: [size(m.blocks())?, size(splits)?, 1], block: [m.threads() as u32, 1, 1], shared: 0, scratch });
        }
        Ok((text, launches))
    }
}

/// Writes one entry.
pub(super) struct Writer<'k> {
    pub(super) plan: &'k Plan<'k>,
    pub(super) kernel: &'k Kernel,
    pub(super) nest: &'k Nest,
    pub(super) mapping: &'k Mapping,
    pub(super) entry_name: &'k str,
    pub(super) b: Builder,
    pub(super) buffers: &'k [Ptr],
    places: &'k BTreeMap<NodeId, u64>,
    values: SecondaryMap<NodeId, Option<Val>>,
    scopes: Vec<Vec<NodeId>>,
    /// Values kept from pass to pass, by round.
    kept: BTreeMap<(NodeId, u64), Val>,
    pub(super) indices: Vec<Option<Val>>,
    /// The thread's number, its point's in the block, and its own among those that fold the point.
    pub(super) thread: Val,
    pub(super) point_thread: Val,
    pub(super) fold_thread: Val,
    /// The point.
    point: Val,
    split: Option<Val>,
    /// The pass that is written.
    pub(super) current: Option<usize>,
    /// Whether the point exists; none: it always does.
    pub(super) point_exists: Option<Val>,
    /// Whether the current group of what is folded exists.
    pub(super) group_exists: Option<Val>,
    /// Bytes of shared memory that are in use, and that were at most.
    pub(super) shared_used: u64,
    pub(super) shared_most: u64,
}

impl<'k> Points<'k> for Writer<'k> {
    fn b(&mut self) -> &mut Builder {
        &mut self.b
    }
    fn symbol(&self) -> &str {
        self.plan.symbol
    }
    fn kernel(&self) -> &'k Kernel {
        self.kernel
    }
    fn nest(&self) -> &'k Nest {
        self.nest
    }
    fn half_hardware(&self) -> bool {
        true
    }
    fn lanes(&self) -> Width {
        let lanes = if self.mapping.lanes > 1 { self.mapping.lanes } else { 0 };
        Width { lanes, valid: lanes }
    }
    fn at(&self, dim: usize) -> Val {
        self.indices[dim].expect("invariant: an index is asked for where it is known")
    }
    fn value(&self, id: NodeId) -> Val {
        match self.values[id] {
            Some(v) => v,
            None => unreachable!("invariant: operands are computed first ({}, node {})", self.plan.symbol, id.index()),
        }
    }
    fn define(&mut self, id: NodeId, v: Val) {
        self.values[id] = Some(v);
        self.scopes.last_mut().expect("invariant: a scope is open").push(id);
    }
    fn read(&mut self, id: NodeId) -> Val {
        self.load(id)
    }
}

impl<'k> Writer<'k> {
    fn new(plan: &'k Plan<'k>, entry_name: &'k str, mut b: Builder, entry: &'k Entry, places: &'k BTreeMap<NodeId, u64>) -> Writer<'k> {
        let zero = b.index(0);
        Writer {
            plan,
            kernel: plan.kernel,
            nest: &plan.nest,
            mapping: &plan.mapping,
            entry_name,
            b,
            buffers: &entry.buffers,
            places,
            values: SecondaryMap::new(),
            scopes: vec![vec![]],
            kept: BTreeMap::new(),
            indices: vec![None; plan.nest.dims.len()],
            thread: zero,
            point_thread: zero,
            fold_thread: zero,
            point: zero,
            split: None,
            current: None,
            point_exists: None,
            group_exists: None,
            shared_used: 0,
            shared_most: 0,
        }
    }

    fn part(&mut self, part: &Part) -> Result<(), Error> {
        self.place_thread();
        // Where no thread waits for another, those past the end have nothing to do.
        let exists = if self.mapping.fold_threads == 1 { self.point_exists.take() } else { None };
        self.guarded(exists, |w| w.passes(part))
    }

    fn passes(&mut self, part: &Part) -> Result<(), Error> {
        let plan = self.plan;
        if self.mapping.splits > 1 && !part.passes.is_empty() {
            self.split = Some(self.b.register("ctaid.y"));
        }
        let needs = plan.needs(part);
        for pass in &plan.order.passes[..part.passes.start] {
            for &id in pass.reduces.iter().filter(|id| needs.reduces.contains(id)) {
                self.restore(id)?;
            }
        }
        for number in part.passes.clone() {
            self.pass(number)?;
        }
        if part.last {
            self.row_stores()?;
        }
        Ok(())
    }

    /// Finds the thread's point.
    fn place_thread(&mut self) {
        let m = self.mapping;
        self.thread = self.b.register("tid.x");
        let block = self.b.register("ctaid.x");
        (self.point_thread, self.fold_thread) = match (m.point_threads, m.fold_threads) {
            (_, 1) => (self.thread, self.b.index(0)),
            (1, _) => (self.b.index(0), self.thread),
            (points, _) if m.across => {
                let (fold, point) = self.b.index_split(self.thread, points);
                (point, fold)
            }
            (_, folds) => self.b.index_split(self.thread, folds),
        };
        let first = self.b.index_mul(block, m.point_threads as i64);
        let mut point = if m.point_threads == 1 { first } else { self.b.index_add(first, self.point_thread) };
        if !m.points.is_multiple_of(m.point_threads) {
            let end = self.b.index(m.points as i64);
            self.point_exists = Some(self.b.compare_int("ult", point, end));
            if m.fold_threads > 1 {
                point = self.b.index_at_most(point, m.points - 1);
            }
        }
        self.point = point;
        self.spread(&self.nest.parallel, point);
    }

    /// Sets the indices along `dims` at number `at` of their groups.
    fn spread(&mut self, dims: &[usize], at: Val) {
        let mut rest = at;
        for (position, &dim) in dims.iter().enumerate().rev() {
            let groups = mapping::extent(self.nest, self.mapping.lanes, dim);
            let mut index = rest;
            if position > 0 {
                (rest, index) = self.b.index_split(rest, groups);
            }
            if self.nest.vector == Some(dim) {
                index = self.b.index_mul(index, i64::from(self.mapping.lanes));
            }
            self.indices[dim] = Some(index);
        }
    }

    fn varies_folded(&self, id: NodeId) -> bool {
        self.nest.varies[id] & self.nest.reduced_mask != 0
    }

    /// Computes what is the same for all that is folded, and what it needs.
    fn once(&mut self, id: NodeId) -> Result<(), Error> {
        if self.varies_folded(id) || self.values[id].is_some() {
            return Ok(());
        }
        for operand in self.kernel.operands(id) {
            self.once(operand)?;
        }
        self.compute(id)
    }

    fn pass(&mut self, number: usize) -> Result<(), Error> {
        let plan = self.plan;
        let pass = &plan.order.passes[number];
        self.current = Some(number);
        let operands: Vec<NodeId> = pass.nodes.iter().chain(&pass.reduces).flat_map(|&id| self.kernel.operands(id)).collect();
        for id in operands.into_iter().chain(pass.stores.iter().map(|&s| self.kernel.stores[s].value)) {
            self.once(id)?;
        }
        let mut sums = Vec::new();
        for &id in &pass.reduces {
            let lanes = self.partial_lanes(id);
            let ty = Ty { elem: self.computed_in(id), lanes };
            sums.push(self.neutral(id, ty)?);
        }
        let rounds = self.mapping.rounds;
        if self.mapping.unrolled {
            for round in 0..rounds {
                let at = self.b.index((round * self.mapping.fold_threads) as i64);
                sums = self.round(number, Some(round), at, sums)?;
            }
        } else {
            sums = self.looped(rounds, sums, &mut |w, round, sums| {
                let at = w.b.index_mul(round, w.mapping.fold_threads as i64);
                w.round(number, None, at, sums)
            })?;
        }
        for (&id, sum) in pass.reduces.iter().zip(sums) {
            let sum = if self.mapping.across { sum } else { self.lanes_folded(id, sum)? };
            let sum = self.combine(id, sum)?;
            if self.mapping.splits > 1 {
                self.leave(id, sum)?;
            }
            self.define(id, sum);
        }
        self.current = None;
        Ok(())
    }

    /// Lanes of what a thread folds of the reduction `id`.
    fn partial_lanes(&self, id: NodeId) -> u32 {
        if self.mapping.across { self.plan.point_lanes(id) } else { self.lanes().lanes }
    }

    /// One group of what is folded, `at` and the thread's number from the split's start; `round` is its number where the rounds are written out.
    fn round(&mut self, number: usize, round: Option<u64>, at: Val, sums: Vec<Val>) -> Result<Vec<Val>, Error> {
        let (plan, m) = (self.plan, self.mapping);
        let pass = &plan.order.passes[number];
        let mut group = self.fold_thread;
        if let Some(split) = self.split {
            let start = self.b.index_mul(split, (m.fold_threads * m.rounds) as i64);
            group = self.b.index_add(start, group);
        }
        let zero = self.b.index(0);
        if at != zero {
            group = self.b.index_add(group, at);
        }
        self.group_exists = None;
        let inside = round.is_some_and(|r| m.splits == 1 && (r + 1) * m.fold_threads <= m.folded);
        if !inside && m.fold_threads * m.rounds * m.splits != m.folded {
            let end = self.b.index(m.folded as i64);
            self.group_exists = Some(self.b.compare_int("ult", group, end));
            group = self.b.index_at_most(group, m.folded - 1);
        }
        self.spread(&self.nest.reduced, group);
        self.scopes.push(vec![]);
        if let Some(round) = round {
            for &id in &pass.restored {
                let v = self.kept[&(id, round)];
                self.define(id, v);
            }
        }
        for &id in &pass.nodes {
            self.compute(id)?;
            if let Some(round) = round.filter(|_| pass.kept.contains(&id)) {
                let v = self.value(id);
                self.kept.insert((id, round), v);
            }
        }
        let mut next = Vec::with_capacity(sums.len());
        for (&id, sum) in pass.reduces.iter().zip(sums) {
            let operand = self.kernel.operands(id)[0];
            let mut v = self.value(operand);
            v = self.b.broadcast(v, sum.ty.lanes);
            if let Some(exists) = self.group_exists {
                let neutral = self.neutral(id, sum.ty)?;
                v = self.b.select(exists, v, neutral);
            }
            next.push(self.folded(id, sum, v)?);
        }
        for &store in &pass.stores {
            self.store(store, true)?;
        }
        self.close();
        self.group_exists = None;
        for &dim in &self.nest.reduced {
            self.indices[dim] = None;
        }
        Ok(next)
    }

    fn close(&mut self) {
        for id in self.scopes.pop().expect("invariant: a scope is open") {
            self.values[id] = None;
        }
    }

    /// Stores what is stored once a point.
    fn row_stores(&mut self) -> Result<(), Error> {
        let plan = self.plan;
        let rows: Vec<usize> = (0..self.kernel.stores.len()).filter(|&s| plan.order.in_pass[s].is_none()).collect();
        for &s in &rows {
            self.once(self.kernel.stores[s].value)?;
        }
        // Another thread of the point may still have to load what is overwritten.
        let overwrites = |id: NodeId| plan.live[id] && rows.iter().any(|&s| schedule::loads_target(self.kernel, s, id));
        if self.mapping.fold_threads > 1 && self.kernel.nodes.keys().any(overwrites) {
            self.b.barrier();
        }
        for s in rows {
            self.store(s, false)?;
        }
        Ok(())
    }

    /// Where the parts of the reduction `id` of a split lie in scratch.
    fn scratch_slot(&mut self, id: NodeId, split: Val) -> (Ptr, Ty) {
        let lanes = self.plan.point_lanes(id);
        let elem = self.computed_in(id);
        let elem = if elem == Elem::I1 { Elem::I8 } else { elem };
        let start = self.b.index(self.places[&id] as i64);
        let scratch = *self.buffers.last().expect("invariant: splits have scratch");
        let base = self.b.offset(scratch, start, Elem::I8);
        let row = self.b.index_mul(split, self.mapping.points as i64);
        let at = self.b.index_add(row, self.point);
        let at = self.b.index_mul(at, i64::from(lanes.max(1)));
        (self.b.offset(base, at, elem), Ty { elem, lanes })
    }

    /// Leaves this split's part of a reduction in scratch.
    fn leave(&mut self, id: NodeId, v: Val) -> Result<(), Error> {
        let split = self.split.expect("invariant: a part with passes has a split");
        let (slot, ty) = self.scratch_slot(id, split);
        let v = if v.ty.elem == Elem::I1 { self.b.convert("arith.extui", v, Elem::I8) } else { v };
        let zero = self.b.index(0);
        let mut condition = self.point_exists;
        if self.mapping.fold_threads > 1 {
            let first = self.b.compare_int("eq", self.fold_thread, zero);
            condition = Some(condition.map_or(first, |c| self.b.and(c, first)));
        }
        self.guarded(condition, |w| {
            w.b.store_aligned(v, slot, access_alignment(ty));
            Ok(())
        })
    }

    /// Combines the splits' parts of a reduction.
    fn restore(&mut self, id: NodeId) -> Result<(), Error> {
        let m = self.mapping;
        let ty = Ty { elem: self.computed_in(id), lanes: self.plan.point_lanes(id) };
        let neutral = self.neutral(id, ty)?;
        let rounds = m.splits.div_ceil(m.fold_threads);
        let sum = self.looped(rounds, vec![neutral], &mut |w, round, sums| {
            let at = w.b.index_mul(round, m.fold_threads as i64);
            let mut split = w.b.index_add(at, w.fold_thread);
            let mut exists = None;
            if !m.splits.is_multiple_of(m.fold_threads) {
                let end = w.b.index(m.splits as i64);
                exists = Some(w.b.compare_int("ult", split, end));
                split = w.b.index_at_most(split, m.splits - 1);
            }
            let (slot, stored) = w.scratch_slot(id, split);
            let mut v = w.b.load_aligned(slot, stored, access_alignment(stored));
            if ty.elem == Elem::I1 {
                let zero = w.b.int(stored, 0);
                v = w.b.compare_int("ne", v, zero);
            }
            if let Some(exists) = exists {
                v = w.b.select(exists, v, neutral);
            }
            Ok(vec![w.folded(id, sums[0], v)?])
        })?;
        let sum = self.combine(id, sum[0])?;
        self.define(id, sum);
        Ok(())
    }

    /// A loop in the text; the builder is lent to its body through this writer.
    pub(super) fn looped(
        &mut self,
        rounds: u64,
        carried: Vec<Val>,
        body: &mut dyn FnMut(&mut Self, Val, Vec<Val>) -> Result<Vec<Val>, Error>,
    ) -> Result<Vec<Val>, Error> {
        if rounds == 1 {
            let zero = self.b.index(0);
            return body(self, zero, carried);
        }
        let mut b = std::mem::replace(&mut self.b, Builder::new(true));
        let result = b.repeat(rounds, 1, carried, |b, index, carried| {
            std::mem::swap(&mut self.b, b);
            let result = body(self, index, carried);
            std::mem::swap(&mut self.b, b);
            result
        });
        self.b = b;
        result
    }

    /// Runs `body` where `condition` holds.
    pub(super) fn guarded(&mut self, condition: Option<Val>, body: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        let Some(condition) = condition else { return body(self) };
        let mut b = std::mem::replace(&mut self.b, Builder::new(true));
        let result = b.when(condition, |b| {
            std::mem::swap(&mut self.b, b);
            let result = body(self);
            std::mem::swap(&mut self.b, b);
            result
        });
        self.b = b;
        result
    }
}

/// The alignment of an access of whole groups.
pub(super) fn access_alignment(ty: Ty) -> u32 {
    (ty.elem.bytes() * ty.lanes.max(1)).min(16)
}
