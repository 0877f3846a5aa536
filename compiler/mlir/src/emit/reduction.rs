//! Passes over the reduced dimensions: loops that carry the accumulators of every reduction folded in the pass.
//!
//! An accumulator has one element per lane when its operand is a vector. Lanes are combined by halving, always in the same order, so that a sum is the
//! same number in every run. Float sums over several loops are kept per innermost loop and added once it is complete, which bounds their error.

use super::builder::{Ty, Val};
use super::node::Points;
use super::{Emitter, Width};
use crate::error::Error;
use crate::schedule::reduced_level;
use ir::kernel::{NodeId, NodeKind};
use ir::op::Reducer;

/// A reduction while it is folded.
#[derive(Clone, Copy)]
pub(super) struct Fold {
    pub(super) node: NodeId,
    pub(super) operand: NodeId,
    reducer: Reducer,
}

/// Iterations of an innermost loop from which on it has accumulators of its own.
const LONG_LOOP: u64 = 16;

impl Emitter<'_> {
    /// The reductions of a pass.
    pub(super) fn folds(&self, number: usize) -> Vec<Fold> {
        let fold = |&node: &NodeId| match self.kernel.nodes[node].kind {
            NodeKind::Reduce(reducer, operand) => Fold { node, operand, reducer },
            _ => unreachable!("invariant: a pass folds reductions"),
        };
        self.schedule.passes[number].reduces.iter().map(fold).collect()
    }

    pub(super) fn pass(&mut self, number: usize) -> Result<(), Error> {
        if self.block.is_some() {
            self.read_accumulators();
            return Ok(());
        }
        let folds = self.folds(number);
        let outside = self.lanes;
        let initial = folds.iter().map(|f| self.initial(f)).collect::<Result<Vec<_>, _>>()?;
        let folded = self.walk(number, 0, &folds, initial)?;
        for (fold, v) in folds.iter().zip(folded) {
            // Lanes along a parallel dimension are results of their own.
            let along = self.nest.vector.is_some_and(|d| self.nest.dims[d].reduced) && v.ty.lanes > 0;
            let v = if along { self.lanes_folded(fold.node, v)? } else { v };
            self.define(fold.node, v);
        }
        self.lanes = outside;
        Ok(())
    }

    /// The neutral element, in as many lanes as the accumulator has.
    pub(super) fn initial(&mut self, fold: &Fold) -> Result<Val, Error> {
        let elem = self.computed_in(fold.node);
        let along = self.nest.vector.is_some_and(|d| self.nest.dims[d].reduced);
        let lanes = if along {
            let cut = self.schedule.lanes;
            if cut.main > 0 { cut.width } else { cut.tail_width }
        } else if self.is_vector(self.nest.varies[fold.operand]) {
            self.lanes.lanes
        } else {
            0
        };
        let ty = Ty { elem, lanes };
        self.neutral(fold.node, ty)
    }

    pub(super) fn fold(&mut self, fold: &Fold, x: Val, y: Val) -> Result<Val, Error> {
        self.folded(fold.node, x, y)
    }

    /// Everything inside the outermost `level` reduced loops of a pass.
    fn walk(&mut self, number: usize, level: usize, folds: &[Fold], accumulators: Vec<Val>) -> Result<Vec<Val>, Error> {
        self.scopes.push(vec![]);
        let pass = &self.schedule.passes[number];
        for &id in pass.restored.iter().filter(|&&id| reduced_level(self.nest, self.nest.varies[id]) == level) {
            self.restore(id);
        }
        for &id in pass.nodes.iter().filter(|&&id| reduced_level(self.nest, self.nest.varies[id]) == level) {
            self.compute(id)?;
            if pass.kept.contains(&id) {
                self.keep(id);
            }
        }
        let result = match self.nest.reduced.get(level) {
            Some(&dim) => self.reduced_loop(number, level, dim, folds, accumulators)?,
            None => self.accumulate(folds, accumulators)?,
        };
        for &store in &pass.stores {
            let varies = super::Nest::mask(&self.nest.stores[store]) | self.nest.varies[self.kernel.stores[store].value];
            if reduced_level(self.nest, varies) == level {
                let loops: Vec<usize> = self.nest.parallel[..pass.level].iter().chain(&self.nest.reduced[..level]).copied().collect();
                self.store(store, &loops)?;
            }
        }
        self.leave();
        Ok(result)
    }

    fn reduced_loop(&mut self, number: usize, level: usize, dim: usize, folds: &[Fold], accumulators: Vec<Val>) -> Result<Vec<Val>, Error> {
        let innermost = level + 1 == self.nest.reduced.len();
        let vectors = if self.nest.vector == Some(dim) { u64::from(self.schedule.lanes.width) } else { 1 };
        let float_sums = folds.iter().any(|f| f.reducer == Reducer::Add && self.kernel.nodes[f.node].dtype.is_float());
        let own = innermost && level > 0 && float_sums && self.nest.dims[dim].extent / vectors >= LONG_LOOP;
        let start = if own { folds.iter().map(|f| self.initial(f)).collect::<Result<Vec<_>, _>>()? } else { accumulators.clone() };
        let folded = self.each(dim, start, &mut |e, carried| e.walk(number, level + 1, folds, carried))?;
        if !own {
            return Ok(folded);
        }
        folds.iter().zip(accumulators).zip(folded).map(|((f, a), v)| self.fold(f, a, v)).collect()
    }

    /// Folds the operands of this point (or vector of points) into the accumulators.
    fn accumulate(&mut self, folds: &[Fold], accumulators: Vec<Val>) -> Result<Vec<Val>, Error> {
        let along = self.nest.vector.is_some_and(|d| self.nest.dims[d].reduced);
        let mut next = Vec::with_capacity(folds.len());
        for (fold, accumulator) in folds.iter().zip(accumulators) {
            let mut v = self.value(fold.operand);
            if along {
                v = self.b.broadcast(v, self.lanes.lanes);
                v = self.padded(fold, v, accumulator.ty.lanes)?;
            }
            next.push(self.fold(fold, accumulator, v)?);
        }
        Ok(next)
    }

    /// A vector in `lanes` lanes, neutral where the current one is not valid.
    fn padded(&mut self, fold: &Fold, v: Val, lanes: u32) -> Result<Val, Error> {
        let Width { lanes: has, valid } = self.lanes;
        if valid == has && has == lanes {
            return Ok(v);
        }
        let neutral = self.initial(fold)?;
        let neutral = if neutral.ty.lanes == has { neutral } else { self.b.shuffle(neutral, neutral, &(0..has).collect::<Vec<u32>>()) };
        let mask: Vec<u32> = (0..lanes).map(|l| if l < valid { l } else { has }).collect();
        Ok(self.b.shuffle(v, neutral, &mask))
    }
}
