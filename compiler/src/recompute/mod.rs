//! Recomputation: forward values that the backward makes again instead of keeping them.
//!
//! Per layer a mode. *None* keeps what the backward reads. *Full* keeps what enters the layer: values of other layers, arguments, and what comes before the
//! microbatches. *Selective* keeps what is dear to remake ([`select`] states the rule). Whatever else the backward of a layer reads is cloned: the clone
//! belongs to the backward of that layer, reads kept values and other clones only, and stands right before its first reader, so that it lives briefly.
//! Backward ops that stand among the forward (coefficients of derivatives) move to their first reader too, or they would hold what was to be dropped.
//! Nothing after this pass merges equal ops, so a clone stays one; it computes what the original computed, so no number changes.
//! Invariants: a value that crosses layers, or that the backward of another layer reads, is always kept, so a clone never needs another layer's clone and
//! no transfer between stages is added; inputs and outputs are unchanged; ops stay in an executable order.

mod select;

use crate::canonical::rewrite::Rewriter;
use crate::layers::Layers;
use crate::shard::groups::{is_view, leaves};
use crate::step::StepGraph;
use ir::graph::Graph;
use ir::op::OpKind;
use ir::plan::Recompute;
use ir::program::Phase;
use ir::{OpId, SecondaryMap, ValueId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A step with what deciding on recomputation needs to know; made once, applied for any number of modes.
#[derive(Debug)]
pub struct Recomputation<'a> {
    step: &'a StepGraph,
    layers: &'a Layers,
    /// Leaves of every op that is not a view, by op number.
    reads: Vec<BTreeSet<ValueId>>,
    /// Forward values that are kept under every mode.
    always: SecondaryMap<ValueId, bool>,
    /// Forward values that lie in memory for the backward when nothing is recomputed.
    kept: SecondaryMap<ValueId, bool>,
    /// Of those, the ones that are cheap to remake.
    cheap: SecondaryMap<ValueId, bool>,
}

impl<'a> Recomputation<'a> {
    /// Looks at a step; `stored` says which of its values lie in memory.
    pub fn new(step: &'a StepGraph, layers: &'a Layers, stored: &SecondaryMap<ValueId, bool>) -> Recomputation<'a> {
        let graph = &step.graph;
        let mut reads = vec![BTreeSet::new(); graph.ops.len()];
        for (id, op) in graph.ops.iter().filter(|(id, _)| !is_view(graph, *id)) {
            op.operands.iter().for_each(|&v| leaves(graph, v, &mut reads[id.0 as usize]));
        }
        let mut r = Recomputation { step, layers, reads, always: SecondaryMap::new(), kept: SecondaryMap::new(), cheap: SecondaryMap::new() };
        r.find_always();
        r.find_kept(stored);
        r.cheap = select::cheap(&r);
        r
    }

    /// The layer whose forward makes a value, for values that could be recomputed at all.
    fn layer_of(&self, v: ValueId) -> Option<u32> {
        let op = self.step.graph.def_op(v)?;
        (self.step.phase_of(op) == Phase::Forward && !self.layers.everywhere[op.0 as usize]).then(|| self.layers.of[op.0 as usize])
    }

    /// What crosses layers, what another layer's backward reads, and what cannot be done twice.
    fn find_always(&mut self) {
        let graph = &self.step.graph;
        for (id, op) in graph.ops.iter() {
            if op.kind.is_collective() || matches!(op.kind, OpKind::CustomCall { .. } | OpKind::Call { .. }) {
                op.results.iter().for_each(|&v| self.always[v] = true);
            }
            if !matches!(self.step.phase_of(id), Phase::Forward | Phase::Backward) {
                continue;
            }
            for &v in &self.reads[id.0 as usize] {
                let elsewhere = self.layers.everywhere[id.0 as usize] || self.layer_of(v) != Some(self.layers.of[id.0 as usize]);
                self.always[v] |= elsewhere;
            }
        }
    }

    /// What the backward reads from memory: itself, or through values that are no more than a few instructions away from others.
    fn find_kept(&mut self, stored: &SecondaryMap<ValueId, bool>) {
        let graph = &self.step.graph;
        let mut seen: SecondaryMap<ValueId, bool> = SecondaryMap::new();
        let mut stack: Vec<ValueId> = Vec::new();
        for id in graph.ops.keys().filter(|&id| self.step.phase_of(id) == Phase::Backward) {
            stack.extend(&self.reads[id.0 as usize]);
        }
        while let Some(v) = stack.pop() {
            if std::mem::replace(&mut seen[v], true) || self.layer_of(v).is_none() {
                continue;
            }
            if stored[v] {
                self.kept[v] = true;
            } else if let Some(op) = graph.def_op(v) {
                stack.extend(&self.reads[op.0 as usize]);
            }
        }
    }

    /// The step under one mode per layer, and its layers; layers beyond the list keep everything.
    pub fn apply(&self, modes: &[Recompute]) -> (StepGraph, Layers) {
        let mode = |layer: u32| modes.get(layer as usize).copied().unwrap_or_default();
        let mut layers = self.layers.clone();
        for (l, layer) in (0..).zip(&mut layers.layers) {
            layer.recompute = mode(l);
        }
        if layers.layers.iter().all(|l| l.recompute == Recompute::None) {
            return (self.step.clone(), layers);
        }
        let again = self.again(&mode);
        let mut e = Emitter::new(self, again);
        e.all();
        let Emitter { rewrite, origin, .. } = e;
        let of = |o: &Origin| o.op.0 as usize;
        layers.of = origin.iter().map(|o| self.layers.of[of(o)]).collect();
        layers.everywhere = origin.iter().map(|o| self.layers.everywhere[of(o)]).collect();
        let step = StepGraph {
            graph: rewrite.finish(),
            phase: origin.iter().map(|o| if o.again { Phase::Backward } else { self.step.phase[of(o)] }).collect(),
            recomputed: origin.iter().map(|o| o.again || self.step.recomputed[of(o)]).collect(),
            lazy: origin.iter().map(|o| o.again || o.moved || self.step.lazy[of(o)]).collect(),
            inputs: self.step.inputs.clone(),
            outputs: self.step.outputs.clone(),
            microbatches: self.step.microbatches,
        };
        debug_assert_eq!(ir::verify::verify(&step.graph), Ok(()), "invariant: ops stay in an executable order");
        (step, layers)
    }

    /// Which forward values the backward reads as clones.
    fn again(&self, mode: &dyn Fn(u32) -> Recompute) -> SecondaryMap<ValueId, bool> {
        let graph = &self.step.graph;
        let mut again: SecondaryMap<ValueId, bool> = SecondaryMap::new();
        for (id, op) in graph.ops.iter().filter(|(id, _)| self.step.phase_of(*id) == Phase::Forward) {
            let through = is_view(graph, id) && op.operands.iter().any(|&v| again[v]);
            for &v in &op.results {
                again[v] = match self.layer_of(v) {
                    _ if is_view(graph, id) => through,
                    Some(layer) if !self.always[v] => match mode(layer) {
                        Recompute::None => false,
                        Recompute::Full => true,
                        Recompute::Selective => self.cheap[v] || !self.kept[v],
                    },
                    _ => false,
                };
            }
        }
        again
    }
}

/// Where an op of the new graph comes from.
#[derive(Clone, Copy, Debug)]
struct Origin {
    op: OpId,
    /// It is a clone.
    again: bool,
    /// It stood among the forward.
    moved: bool,
}

/// Writes the new graph.
struct Emitter<'a> {
    step: &'a StepGraph,
    rewrite: Rewriter<'a>,
    again: SecondaryMap<ValueId, bool>,
    /// Backward ops that stand before the last forward op and are not written yet.
    waiting: Vec<bool>,
    clones: SecondaryMap<ValueId, Option<ValueId>>,
    origin: Vec<Origin>,
}

impl<'a> Emitter<'a> {
    fn new(r: &Recomputation<'a>, again: SecondaryMap<ValueId, bool>) -> Emitter<'a> {
        let step = r.step;
        let last_forward = step.graph.ops.keys().filter(|&id| step.phase_of(id) == Phase::Forward).map(|id| id.0).max().unwrap_or(0);
        let waiting = step.graph.ops.keys().map(|id| step.phase_of(id) == Phase::Backward && id.0 < last_forward).collect();
        let rewrite = Rewriter::new(&step.graph);
        Emitter { step, rewrite, again, waiting, clones: SecondaryMap::new(), origin: vec![] }
    }

    fn all(&mut self) {
        let graph: &'a Graph = &self.step.graph;
        for id in graph.ops.keys() {
            if !self.waiting[id.0 as usize] {
                self.write(id, false);
            }
        }
        for id in graph.ops.keys() {
            if self.waiting[id.0 as usize] {
                self.write(id, false);
            }
        }
    }

    /// What has to be written before an op can read `v`; `backward` says whether the reader runs in the backward.
    fn missing(&self, v: ValueId, backward: bool) -> Option<(OpId, bool)> {
        let op = self.step.graph.def_op(v)?;
        if backward && self.again[v] {
            return self.clones[v].is_none().then_some((op, true));
        }
        self.waiting[op.0 as usize].then_some((op, false))
    }

    /// Writes an op, or its clone, after what it reads and nobody has written yet.
    fn write(&mut self, op: OpId, again: bool) {
        let graph: &'a Graph = &self.step.graph;
        let mut stack = vec![(op, again)];
        while let Some(&(id, again)) = stack.last() {
            let backward = again || self.step.phase_of(id) == Phase::Backward;
            let o = &graph.ops[id];
            if let Some(first) = o.operands.iter().find_map(|&v| self.missing(v, backward)) {
                stack.push(first);
                continue;
            }
            stack.pop();
            let operands: Vec<ValueId> =
                o.operands
                    .iter()
                    .map(|&v| {
                        if backward && self.again[v] { self.clones[v].expect("invariant: a clone is written before it is read") } else { self.rewrite.value(v) }
                    })
                    .collect();
            if again {
                self.clone_op(id, operands);
            } else {
                self.rewrite.copy_as(id, o.kind.clone(), operands);
            }
            let moved = std::mem::replace(&mut self.waiting[id.0 as usize], false) && !again;
            self.origin.push(Origin { op: id, again, moved });
        }
    }

    fn clone_op(&mut self, id: OpId, operands: Vec<ValueId>) {
        let graph: &'a Graph = &self.step.graph;
        let o = &graph.ops[id];
        self.rewrite.at(id);
        let types = o.results.iter().map(|&v| graph.ty(v).clone()).collect();
        let names: Vec<Arc<str>> = o.results.iter().map(|&v| again_name(&graph.values[v].name)).collect();
        let loc = self.rewrite.loc();
        let new = self.rewrite.graph.add_op(o.kind.clone(), operands, types, loc, &names);
        self.rewrite.graph.ops[new].regions.clone_from(&o.regions);
        for (&v, &c) in o.results.iter().zip(&self.rewrite.graph.ops[new].results) {
            self.clones[v] = Some(c);
        }
    }
}

/// The name of a value that is remade.
fn again_name(name: &str) -> Arc<str> {
    if name.is_empty() { "".into() } else { format!("{name} again").into() }
}
