//! Sums over rows: rows are walked whole, or in long pieces, and every column has its accumulator in memory.
//!
//! The vectorised dimension, which is parallel, becomes the innermost loop, inside the reduced ones. What varies along it is computed there, also what
//! does not vary over the reduced dimensions; after the last row the accumulators are read back, and the rest of the kernel follows as usual.

use super::Emitter;
use super::builder::{Ptr, Ty, Val};
use super::node::Points;
use super::reduction::Fold;
use crate::error::Error;
use crate::schedule::reduced_level;
use ir::kernel::NodeId;
use ir::{EntityId, SecondaryMap};

/// A piece of the rows.
pub(super) struct Block {
    /// Index of its first column.
    pub(super) offset: Val,
    /// Its columns.
    pub(super) extent: u64,
    /// The current column (the first of the vector), counted from `offset`.
    pub(super) column: Val,
    /// Accumulators, one array per reduction.
    accumulators: Vec<Ptr>,
}

impl Emitter<'_> {
    /// Runs the loop over `dim`, the last of the parallel ones, `columns` at a time.
    pub(super) fn columns(&mut self, dim: usize, level: usize, columns: u64) -> Result<(), Error> {
        let folds = self.folds(0);
        let mut accumulators = Vec::new();
        for fold in &folds {
            let bytes = u64::from(self.computed_in(fold.node).bytes());
            // The last vector of a row may have more lanes than elements.
            let padded = columns + u64::from(self.schedule.lanes.tail_width);
            accumulators.push(self.b.reserve(padded.next_multiple_of(64) * bytes));
        }
        let extent = self.nest.dims[dim].extent;
        let piece = |e: &mut Self, offset: Val| {
            let block = Block { offset, extent: columns, column: offset, accumulators: accumulators.clone() };
            e.block = Some(block);
            e.fold_block(dim, level, &folds)?;
            e.block = None;
            Ok::<(), Error>(())
        };
        if columns == extent {
            let zero = self.b.index(0);
            return piece(self, zero);
        }
        self.looped(extent, columns, vec![], &mut |e, offset, _| {
            piece(e, offset)?;
            Ok(vec![])
        })?;
        Ok(())
    }

    fn fold_block(&mut self, dim: usize, level: usize, folds: &[Fold]) -> Result<(), Error> {
        self.each(dim, vec![], &mut |e, _| {
            for (number, fold) in folds.iter().enumerate() {
                let neutral = e.initial(fold)?;
                let slot = e.accumulator(number);
                e.b.store(neutral, slot);
            }
            Ok(vec![])
        })?;
        let body = self.body_nodes(dim, folds);
        self.rows(0, dim, level, folds, &body)?;
        self.each(dim, vec![], &mut |e, _| {
            e.parallel(level + 1)?;
            Ok(vec![])
        })?;
        Ok(())
    }

    /// What is computed at every element: nodes of the pass that vary along the row, and what they need of the nodes that do so over no reduced dimension.
    fn body_nodes(&self, dim: usize, folds: &[Fold]) -> Vec<NodeId> {
        let pass = &self.schedule.passes[0];
        let mut needed: SecondaryMap<NodeId, bool> = SecondaryMap::new();
        let mut stack: Vec<NodeId> = folds.iter().map(|f| f.operand).chain(pass.stores.iter().map(|&s| self.kernel.stores[s].value)).collect();
        while let Some(id) = stack.pop() {
            if self.nest.varies[id] & (1 << dim | self.nest.reduced_mask) != 0 && !std::mem::replace(&mut needed[id], true) {
                stack.extend(self.kernel.operands(id));
            }
        }
        let mut nodes: Vec<NodeId> = self.kernel.nodes.keys().filter(|&id| needed[id] && self.nest.varies[id] & (1 << dim) != 0).collect();
        nodes.sort_by_key(|n| n.index());
        nodes
    }

    /// Everything inside the outermost `depth` reduced loops.
    fn rows(&mut self, depth: usize, dim: usize, level: usize, folds: &[Fold], body: &[NodeId]) -> Result<(), Error> {
        self.scopes.push(vec![]);
        let pass = &self.schedule.passes[0];
        for &id in pass.nodes.iter().filter(|&&id| self.nest.varies[id] & (1 << dim) == 0 && reduced_level(self.nest, self.nest.varies[id]) == depth) {
            self.compute(id)?;
        }
        match self.nest.reduced.get(depth) {
            Some(&row) => {
                self.each(row, vec![], &mut |e, _| {
                    e.rows(depth + 1, dim, level, folds, body)?;
                    Ok(vec![])
                })?;
            }
            None => {
                let loops: Vec<usize> = self.nest.parallel[..level].iter().chain(&self.nest.reduced).copied().collect();
                self.each(dim, vec![], &mut |e, _| {
                    e.scopes.push(vec![]);
                    for &id in body {
                        e.compute(id)?;
                    }
                    for (number, fold) in folds.iter().enumerate() {
                        let slot = e.accumulator(number);
                        let ty = Ty { elem: e.computed_in(fold.node), lanes: e.lanes.lanes };
                        let before = e.b.load(slot, ty);
                        let operand = e.value(fold.operand);
                        let after = e.fold(fold, before, operand)?;
                        e.b.store(after, slot);
                    }
                    for &store in &pass.stores {
                        e.store(store, &loops)?;
                    }
                    e.leave();
                    Ok(vec![])
                })?;
            }
        }
        self.leave();
        Ok(())
    }

    fn accumulator(&mut self, number: usize) -> Ptr {
        let block = self.block.as_ref().expect("invariant: accumulators are used within a block");
        let (base, column) = (block.accumulators[number], block.column);
        let elem = self.computed_in(self.schedule.passes[0].reduces[number]);
        self.b.offset(base, column, elem)
    }

    /// The folded values of the current columns.
    pub(super) fn read_accumulators(&mut self) {
        let schedule = self.schedule;
        for (number, &node) in schedule.passes[0].reduces.iter().enumerate() {
            let slot = self.accumulator(number);
            let ty = Ty { elem: self.computed_in(node), lanes: self.lanes.lanes };
            let v = self.b.load(slot, ty);
            self.define(node, v);
        }
    }
}
