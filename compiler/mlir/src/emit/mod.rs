//! Writes a scheduled kernel as one MLIR function.
//!
//! The function takes the buffers' and the scalars' addresses. Its loops are `scf.for`; inside the vectorised loop values are vectors where they vary along
//! it and scalars elsewhere. The vectorised dimension has a main loop of whole vectors and, where its extent is no multiple, one shorter vector after it
//! whose invalid lanes repeat the first: they compute what some valid lane computes, are neutral in reductions and are not stored.
//!
//! **Invariant:** every value is computed at the shallowest loop it may be at; nothing relies on LLVM knowing that buffers do not overlap.

mod access;
pub(crate) mod builder;
mod columns;
pub(crate) mod node;
mod reduction;
pub(crate) mod threads;

use crate::error::Error;
use crate::nest::Nest;
use crate::schedule::{Schedule, buffer_shape};
use crate::target::CpuTarget;
use builder::{Builder, Ptr, Val};
use ir::kernel::{Kernel, NodeId};
use ir::{EntityId, SecondaryMap};
use node::Points;

/// The function `symbol` that computes `kernel`, as MLIR text.
pub(crate) fn function(symbol: &str, kernel: &Kernel, target: CpuTarget) -> Result<String, Error> {
    crate::check::check(symbol, kernel)?;
    let nest = Nest::new(kernel);
    let schedule = Schedule::new(kernel, &nest);
    let mut emitter = Emitter {
        symbol,
        kernel,
        nest: &nest,
        schedule: &schedule,
        half_hardware: target.has_fma(),
        b: Builder::new(target.has_fma()),
        buffers: vec![],
        rows: SecondaryMap::new(),
        values: SecondaryMap::new(),
        scopes: vec![],
        indices: vec![None; nest.dims.len()],
        lanes: Width { lanes: 0, valid: 0 },
        last: vec![Last::Never; nest.dims.len()],
        block: None,
    };
    emitter.prologue();
    emitter.parallel(0)?;
    Ok(emitter.b.finish(symbol))
}

/// The vector that is being computed: how many lanes, and how many of them stand for elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width {
    pub(crate) lanes: u32,
    pub(crate) valid: u32,
}

/// Whether the current iteration of a loop is its last.
#[derive(Clone, Copy, Debug)]
enum Last {
    Always,
    Never,
    /// When the index has this value.
    At(u64),
}

struct Emitter<'k> {
    symbol: &'k str,
    kernel: &'k Kernel,
    nest: &'k Nest,
    schedule: &'k Schedule,
    half_hardware: bool,
    b: Builder,
    /// The arguments' addresses.
    buffers: Vec<Ptr>,
    /// The row buffers of kept nodes.
    rows: SecondaryMap<NodeId, Option<Ptr>>,
    /// Values computed in the open loops.
    values: SecondaryMap<NodeId, Option<Val>>,
    /// Nodes whose values end with each open loop.
    scopes: Vec<Vec<NodeId>>,
    /// The index along each dimension whose loop is open.
    indices: Vec<Option<Val>>,
    lanes: Width,
    last: Vec<Last>,
    /// The piece of rows whose columns are folded together.
    block: Option<columns::Block>,
}

impl<'k> Points<'k> for Emitter<'k> {
    fn b(&mut self) -> &mut Builder {
        &mut self.b
    }
    fn symbol(&self) -> &str {
        self.symbol
    }
    fn kernel(&self) -> &'k Kernel {
        self.kernel
    }
    fn nest(&self) -> &'k Nest {
        self.nest
    }
    fn half_hardware(&self) -> bool {
        self.half_hardware
    }
    fn lanes(&self) -> Width {
        self.lanes
    }
    fn at(&self, dim: usize) -> Val {
        self.indices[dim].expect("invariant: an index is inside its loop")
    }
    fn value(&self, id: NodeId) -> Val {
        match self.values[id] {
            Some(v) => v,
            None => unreachable!("invariant: the schedule computes operands first ({}, node {})", self.symbol, id.index()),
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

impl Emitter<'_> {
    fn prologue(&mut self) {
        for number in 0..self.kernel.params.len() {
            let pointer = self.b.argument(number as u32);
            self.buffers.push(pointer);
        }
        let kept: Vec<NodeId> = self.schedule.passes.iter().flat_map(|p| p.kept.iter().copied()).collect();
        for id in kept {
            let elements: u64 = buffer_shape(self.nest, self.schedule.lanes, id).iter().map(|(_, n)| *n).product();
            let elem = self.computed_in(id);
            self.rows[id] = Some(self.b.reserve(elements * u64::from(elem.bytes())));
        }
    }

    /// Everything inside the outermost `level` parallel loops.
    fn parallel(&mut self, level: usize) -> Result<(), Error> {
        self.scopes.push(vec![]);
        let schedule = self.schedule;
        let deepest = self.kernel.nodes.keys().map(|n| schedule.depth[n]).max().unwrap_or(0).max(schedule.passes.len());
        for depth in 0..=deepest {
            for id in self.kernel.nodes.keys() {
                let varies_in_pass = self.nest.varies[id] & self.nest.reduced_mask != 0;
                if schedule.live[id] && !varies_in_pass && schedule.depth[id] == depth && schedule.level[id] == level && self.values[id].is_none() {
                    self.compute(id)?;
                }
            }
            if schedule.passes.get(depth).is_some_and(|p| p.level == level) {
                self.pass(depth)?;
            }
        }
        if let Some(&dim) = self.nest.parallel.get(level) {
            match schedule.columns {
                Some(columns) if level + 1 == self.nest.parallel.len() => self.columns(dim, level, columns)?,
                _ => {
                    self.each(dim, vec![], &mut |e, _| {
                        e.parallel(level + 1)?;
                        Ok(vec![])
                    })?;
                }
            }
        }
        for &(store, _) in schedule.row_stores.iter().filter(|(_, l)| *l == level) {
            self.store(store, &self.nest.parallel[..level])?;
        }
        self.leave();
        Ok(())
    }

    fn leave(&mut self) {
        for id in self.scopes.pop().expect("invariant: a scope is open") {
            self.values[id] = None;
        }
    }

    /// Runs `body` for every index of `dim`, in vectors when it is the vectorised one, carrying values through.
    fn each(&mut self, dim: usize, carried: Vec<Val>, body: &mut dyn FnMut(&mut Self, Vec<Val>) -> Result<Vec<Val>, Error>) -> Result<Vec<Val>, Error> {
        let extent = self.nest.dims[dim].extent;
        if self.nest.vector != Some(dim) {
            return self.counted(dim, 0, extent, 1, Last::At(extent - 1), carried, body);
        }
        let mut cut = self.schedule.lanes;
        if let Some(block) = &self.block
            && block.extent < extent
        {
            (cut.main, cut.tail) = (block.extent, 0);
        }
        let mut carried = carried;
        if cut.main > 0 {
            self.lanes = Width { lanes: cut.width, valid: cut.width };
            let last = if cut.tail == 0 { Last::At(cut.main - u64::from(cut.width)) } else { Last::Never };
            carried = self.counted(dim, 0, cut.main, u64::from(cut.width), last, carried, body)?;
        }
        if cut.tail > 0 {
            self.lanes = Width { lanes: cut.tail_width, valid: cut.tail };
            carried = self.counted(dim, cut.main, cut.main + 1, 1, Last::Always, carried, body)?;
        }
        Ok(carried)
    }

    #[allow(clippy::too_many_arguments, reason = "a loop has a start, an end, a step and what it carries")]
    fn counted(
        &mut self,
        dim: usize,
        start: u64,
        end: u64,
        step: u64,
        last: Last,
        carried: Vec<Val>,
        body: &mut dyn FnMut(&mut Self, Vec<Val>) -> Result<Vec<Val>, Error>,
    ) -> Result<Vec<Val>, Error> {
        let outer = std::mem::replace(&mut self.last[dim], last);
        let result = if end - start <= step {
            let index = self.b.index(start as i64);
            self.enter(dim, index);
            if matches!(last, Last::At(_)) {
                self.last[dim] = Last::Always;
            }
            body(self, carried)
        } else {
            self.looped(end, step, carried, &mut |e, index, carried| {
                e.enter(dim, index);
                body(e, carried)
            })
        };
        self.indices[dim] = None;
        self.last[dim] = outer;
        result
    }

    fn enter(&mut self, dim: usize, index: Val) {
        let offset = self.block.as_ref().filter(|_| self.nest.vector == Some(dim)).map(|b| b.offset);
        let zero = self.b.index(0);
        self.indices[dim] = Some(offset.filter(|o| *o != zero).map_or(index, |offset| self.b.add(offset, index)));
        if let Some(block) = self.block.as_mut().filter(|_| self.nest.vector == Some(dim)) {
            block.column = index;
        }
    }

    /// A loop in the text; the builder is lent to its body through this emitter.
    fn looped(
        &mut self,
        end: u64,
        step: u64,
        carried: Vec<Val>,
        body: &mut dyn FnMut(&mut Self, Val, Vec<Val>) -> Result<Vec<Val>, Error>,
    ) -> Result<Vec<Val>, Error> {
        let mut b = std::mem::replace(&mut self.b, Builder::new(false));
        let result = b.repeat(end, step, carried, |b, index, carried| {
            std::mem::swap(&mut self.b, b);
            let result = body(self, index, carried);
            std::mem::swap(&mut self.b, b);
            result
        });
        self.b = b;
        result
    }

    /// Makes a store inside `loops`; where it varies over none of a loop's iterations, in the last of them only.
    fn store(&mut self, number: usize, loops: &[usize]) -> Result<(), Error> {
        let store = &self.kernel.stores[number];
        let varies = Nest::mask(&self.nest.stores[number]) | self.nest.varies[store.value];
        let mut condition: Option<Val> = None;
        for &dim in loops.iter().filter(|&&d| varies & (1 << d) == 0) {
            match (self.last[dim], self.indices[dim]) {
                (Last::Never, _) => return Ok(()),
                (Last::At(at), Some(index)) => {
                    let at = self.b.index(at as i64);
                    let here = self.b.compare_int("eq", index, at);
                    condition = Some(condition.map_or(here, |c| self.b.and(c, here)));
                }
                (Last::Always, _) | (Last::At(_), None) => {}
            }
        }
        let Some(condition) = condition else {
            self.write(number);
            return Ok(());
        };
        let mut b = std::mem::replace(&mut self.b, Builder::new(false));
        let result = b.when(condition, |b| {
            std::mem::swap(&mut self.b, b);
            self.write(number);
            std::mem::swap(&mut self.b, b);
            Ok(())
        });
        self.b = b;
        result
    }
}
