//! Rewrites a step into its per-microbatch form.
//!
//! What [`phases`](super::phases) classes as cut or partial is emitted with the batch dimension of one microbatch. A pure value that such an op reads is
//! computed per microbatch where its own op is cut, repeated in the smaller shape where it is a broadcast or constant, and else sliced from the whole.
//! A completed partial is summed over the axis in time, floats in f32 or wider.

use super::factor::Factor;
use super::phases::{Analysis, Class, cut_factor};
use super::{Accumulator, MicrobatchSlice, Microbatched, StepPhase};
use crate::canonical::fold::{live_ops, sweep};
use crate::canonical::rewrite::Rewriter;
use crate::rules;
use ir::graph::{Def, Graph, Op};
use ir::literal::{Data, Literal};
use ir::op::{GatherDims, OpKind, Reducer};
use ir::{AxisId, DType, EntityId, OpId, SecondaryMap, TensorType, ValueId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The per-microbatch form of a step.
///
/// # Panics
/// If the analysis does not allow so many microbatches.
pub fn run(graph: &Graph, analysis: &Analysis, microbatches: u32) -> Microbatched {
    assert!(analysis.allows(microbatches), "the caller asks for a number of microbatches that the analysis allows");
    let mut split = Split {
        rewriter: Rewriter::new(graph),
        graph,
        analysis,
        count: u64::from(microbatches),
        blocks: SecondaryMap::new(),
        local: BTreeMap::new(),
        worlds: SecondaryMap::new(),
    };
    for (id, op) in graph.ops.iter() {
        split.op(id, op);
    }
    let Split { rewriter, worlds, .. } = split;
    let raw = rewriter.finish();
    let live = live_ops(&raw);
    let kept: Vec<World> = raw.ops.keys().filter(|&id| live[id]).map(|id| worlds[id]).collect();
    let graph = sweep(&raw);
    let phases = phases(&graph, &kept);
    let (mut accumulators, mut slices) = (Vec::new(), Vec::new());
    for (id, op) in graph.ops.iter() {
        match &op.kind {
            OpKind::AllReduce { axes, .. } if axes[..] == [AxisId::MICROBATCH] => {
                accumulators.push(Accumulator { op: id, partial: op.operands[0], total: op.results[0] });
            }
            OpKind::ShardSlice { axes, dim } if axes[..] == [AxisId::MICROBATCH] => {
                slices.push(MicrobatchSlice { op: id, whole: op.operands[0], block: op.results[0], dim: *dim });
            }
            _ => {}
        }
    }
    Microbatched { graph, phases, accumulators, slices, microbatches }
}

/// Where an emitted op belongs, before it is known what reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum World {
    /// On whole values.
    #[default]
    Whole,
    /// On blocks and partials.
    Micro,
    /// On totals.
    After,
}

/// An op on whole values runs before the microbatches if they need it, else after.
fn phases(graph: &Graph, worlds: &[World]) -> SecondaryMap<OpId, StepPhase> {
    let mut needed: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    let mut phases: SecondaryMap<OpId, StepPhase> = SecondaryMap::new();
    for (id, op) in graph.ops.iter().rev() {
        phases[id] = match worlds[id.index()] {
            World::Micro => StepPhase::Micro,
            World::Whole if op.results.iter().any(|&v| needed[v]) => StepPhase::Before,
            World::Whole | World::After => StepPhase::After,
        };
        if phases[id] != StepPhase::After {
            for &v in &op.operands {
                needed[v] = true;
            }
        }
    }
    phases
}

struct Split<'a> {
    rewriter: Rewriter<'a>,
    graph: &'a Graph,
    analysis: &'a Analysis,
    count: u64,
    /// What one microbatch has of a value that is not whole.
    blocks: SecondaryMap<ValueId, Option<ValueId>>,
    /// Blocks of whole values, by dimension.
    local: BTreeMap<(ValueId, usize), ValueId>,
    worlds: SecondaryMap<OpId, World>,
}

impl Split<'_> {
    fn mark(&mut self, from: usize, world: World) {
        for i in from..self.rewriter.graph.ops.len() {
            self.worlds[OpId::from_index(i)] = world;
        }
    }

    fn block_type(&self, v: ValueId, dim: Option<usize>) -> TensorType {
        let mut ty = self.graph.ty(v).clone();
        if let Some(d) = dim {
            ty.shape[d] /= self.count;
        }
        ty
    }

    fn op(&mut self, id: OpId, op: &Op) {
        self.rewriter.at(id);
        if matches!(op.kind, OpKind::Barrier) {
            for (&operand, &result) in op.operands.iter().zip(&op.results) {
                self.blocks[result] = self.blocks[operand];
                let new = self.rewriter.value(operand);
                self.rewriter.replace(result, new);
            }
            return;
        }
        let from = self.rewriter.graph.ops.len();
        let class = |v: ValueId| self.analysis.classes[v];
        let within = |v: ValueId| matches!(class(v), Class::Cut(_) | Class::Partial(_)) && !self.analysis.pure[v];
        if op.results.iter().any(|&v| within(v)) {
            self.micro(id, op);
        } else {
            let operands = self.rewriter.operands(op);
            let kind = op.kind.clone();
            self.rewriter.copy_as(id, kind, operands);
            let after = op.results.iter().any(|&v| class(v) == Class::After);
            self.mark(from, if after { World::After } else { World::Whole });
        }
    }

    /// Emits an op on what one microbatch has.
    fn micro(&mut self, id: OpId, op: &Op) {
        let analysis = self.analysis;
        let reads = |v: ValueId| if analysis.completed[v] { Class::After } else { analysis.classes[v] };
        let found = cut_factor(op, &rules::rule(self.graph, id), analysis, reads);
        let operands: Vec<ValueId> = (0..op.operands.len())
            .map(|i| {
                let v = op.operands[i];
                match (self.blocks[v], found.as_ref().and_then(|f| f.operands[i])) {
                    (Some(block), _) => block,
                    (None, Some(dim)) => self.block(v, dim),
                    (None, None) => self.rewriter.value(v),
                }
            })
            .collect();
        self.rewriter.at(id);
        let from = self.rewriter.graph.ops.len();
        let kind = self.kind_of_block(op, found.as_ref());
        let types = op.results.iter().map(|&v| self.block_type(v, if let Class::Cut(d) = analysis.classes[v] { d } else { None })).collect();
        self.rewriter.copy_typed(id, kind, operands, types);
        self.mark(from, World::Micro);
        for &v in &op.results {
            let block = self.rewriter.value(v);
            self.blocks[v] = Some(block);
            if analysis.completed[v] {
                let reducer = if let Class::Partial(r) = analysis.classes[v] { r } else { Reducer::Add };
                self.total(v, block, reducer);
            }
        }
    }

    /// Sums a partial over the microbatches; what reads `v` from now on reads the total, which has its name.
    fn total(&mut self, v: ValueId, block: ValueId, reducer: Reducer) {
        let name = std::mem::take(&mut self.rewriter.graph.values[block].name);
        if !name.is_empty() {
            self.rewriter.graph.values[block].name = Arc::from(format!("{name}/microbatch"));
        }
        let ty = self.rewriter.ty(block).clone();
        let narrow = ty.dtype.is_float() && ty.dtype.bytes() < 4;
        let wide = if narrow { ty.with_dtype(DType::F32) } else { ty.clone() };
        let from = self.rewriter.graph.ops.len();
        let partial = if narrow { self.rewriter.emit(OpKind::Convert, vec![block], wide.clone()) } else { block };
        self.mark(from, World::Micro);
        let from = self.rewriter.graph.ops.len();
        let axes = vec![AxisId::MICROBATCH];
        let total = self.rewriter.emit(OpKind::AllReduce { axes, reducer }, vec![partial], wide);
        let total = if narrow { self.rewriter.emit(OpKind::Convert, vec![total], ty) } else { total };
        self.mark(from, World::After);
        self.rewriter.replace(v, total);
    }

    /// A microbatch's block along `dim` of a value that is there as a whole.
    fn block(&mut self, v: ValueId, dim: usize) -> ValueId {
        if let Some(&block) = self.local.get(&(v, dim)) {
            return block;
        }
        let graph = self.graph;
        let made = match graph.values[v].def {
            Def::Op(op, index) => self.recomputed(op, index as usize, v, dim),
            Def::Input(_) => None,
        };
        let block = made.unwrap_or_else(|| {
            if let Some(op) = graph.def_op(v) {
                self.rewriter.at(op);
            }
            let from = self.rewriter.graph.ops.len();
            let whole = self.rewriter.value(v);
            let ty = self.block_type(v, Some(dim));
            let block = self.rewriter.emit(OpKind::ShardSlice { axes: vec![AxisId::MICROBATCH], dim }, vec![whole], ty);
            self.mark(from, World::Micro);
            block
        });
        self.local.insert((v, dim), block);
        block
    }

    /// The block computed from blocks of the op's operands, where that is no more work than the whole.
    fn recomputed(&mut self, id: OpId, index: usize, v: ValueId, dim: usize) -> Option<ValueId> {
        let op = &self.graph.ops[id];
        if op.results.len() != 1 || !op.regions.is_empty() {
            return None;
        }
        let dims: Vec<Option<usize>> = if self.analysis.classes[v] == Class::Cut(Some(dim)) {
            let found = cut_factor(op, &rules::rule(self.graph, id), self.analysis, |v| self.analysis.classes[v])?;
            if found.results[index] != Some(dim) {
                return None;
            }
            found.operands
        } else if repeats_along(self.graph, v, dim, &mut { MAX_REPEATED }) {
            match &op.kind {
                OpKind::Constant(literal) => {
                    let ty = self.block_type(v, Some(dim));
                    let literal = Literal { data: Data::Splat(literal.splat_bytes()?.to_vec()), ty: ty.clone() };
                    self.rewriter.at(id);
                    let from = self.rewriter.graph.ops.len();
                    let block = self.rewriter.emit(OpKind::Constant(literal), vec![], ty);
                    self.mark(from, World::Micro);
                    return Some(block);
                }
                OpKind::Broadcast { dims } => vec![dims.iter().position(|&d| d == dim).filter(|&i| self.graph.ty(op.operands[0]).shape[i] != 1)],
                OpKind::Iota { .. } => vec![],
                _ => op.operands.iter().map(|&x| (self.graph.ty(x).rank() > 0).then_some(dim)).collect(),
            }
        } else {
            return None;
        };
        let operands: Vec<ValueId> = op
            .operands
            .iter()
            .zip(&dims)
            .map(|(&x, d)| match d {
                Some(d) => self.block(x, *d),
                None => self.rewriter.value(x),
            })
            .collect();
        self.rewriter.at(id);
        let from = self.rewriter.graph.ops.len();
        let factor = Factor { operands: dims, results: vec![Some(dim)], reduction: None };
        let kind = self.kind_of_block(op, Some(&factor));
        let ty = self.block_type(v, Some(dim));
        let block = self.rewriter.emit(kind, operands, ty);
        self.mark(from, World::Micro);
        Some(block)
    }

    /// The op on blocks: attributes that name sizes name the block's.
    fn kind_of_block(&self, op: &Op, factor: Option<&Factor>) -> OpKind {
        let mut kind = op.kind.clone();
        let Some(factor) = factor else { return kind };
        let operand = factor.operands.first().copied().flatten();
        match (&mut kind, operand) {
            (OpKind::Slice { limit, .. }, Some(d)) => limit[d] /= self.count,
            (OpKind::DynamicSlice { sizes }, Some(d)) => sizes[d] /= self.count,
            (OpKind::Gather(GatherDims { slice_sizes, operand_batching_dims, .. }), Some(d)) if !operand_batching_dims.contains(&d) => {
                slice_sizes[d] /= self.count;
            }
            _ => {}
        }
        kind
    }
}

/// More ops than this are not repeated to make a value that is the same at every index.
const MAX_REPEATED: u32 = 64;

/// Whether a value is cheap and the same at every index of a dimension: a constant, a broadcast, a position along another dimension, or made of such.
/// Looks at no more than `budget` ops.
fn repeats_along(graph: &Graph, v: ValueId, dim: usize, budget: &mut u32) -> bool {
    let Some(op) = graph.def_op(v).map(|op| &graph.ops[op]) else { return false };
    if *budget == 0 {
        return false;
    }
    *budget -= 1;
    match &op.kind {
        OpKind::Constant(literal) => literal.splat_bytes().is_some(),
        OpKind::Iota { dim: along } => *along != dim,
        OpKind::Broadcast { dims } => dims.iter().position(|&d| d == dim).is_none_or(|i| graph.ty(op.operands[0]).shape[i] == 1),
        kind if kind.is_elementwise() => op.operands.iter().all(|&x| graph.ty(x).rank() == 0 || repeats_along(graph, x, dim, budget)),
        _ => false,
    }
}
