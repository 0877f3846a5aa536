//! The step as the planner sees it: forward, backward and update told apart, and per-microbatch arguments bound to slots.
//!
//! From a [`Microbatched`] step: ops of the microbatch that the loss depends on are forward, the others backward; an accumulation runs in the phase of
//! what it adds. A batch argument of which each microbatch reads its block becomes an input of one block, held in a slot per microbatch.

use crate::batch::{Microbatched, StepPhase};
use crate::canonical::rewrite::Rewriter;
use ir::op::OpKind;
use ir::plan::Interface;
use ir::program::{BufferKind, Phase};
use ir::{AxisId, Graph, OpId, TensorType, ValueId};
use std::collections::BTreeMap;

/// An input of a step graph.
#[derive(Clone, Debug, PartialEq)]
pub struct StepInput {
    /// The argument it is (part of).
    pub argument: u32,
    /// Whether it is the current microbatch's block of it.
    pub microbatched: bool,
    /// What it is.
    pub kind: BufferKind,
}

/// An output of a step graph.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOutput {
    /// The result it is.
    pub result: u32,
    /// The input whose state it replaces.
    pub replaces: Option<u32>,
}

/// A step ready to be cut over devices.
#[derive(Clone, Debug)]
pub struct StepGraph {
    /// Ops and values, per-microbatch shapes inside the microbatch.
    pub graph: Graph,
    /// Phase of every op, by op number.
    pub phase: Vec<Phase>,
    /// Ops that repeat one of the forward for the backward, by op number.
    pub recomputed: Vec<bool>,
    /// Ops of the backward that wait for no cotangent and are done as late as their readers allow, by op number.
    pub lazy: Vec<bool>,
    /// The inputs.
    pub inputs: Vec<StepInput>,
    /// The outputs.
    pub outputs: Vec<StepOutput>,
    /// How many microbatches.
    pub microbatches: u32,
}

impl StepGraph {
    /// Phase of an op.
    pub fn phase_of(&self, op: OpId) -> Phase {
        self.phase[op.0 as usize]
    }
    /// Whether an op adds up over the microbatches.
    pub fn accumulates(&self, op: OpId) -> bool {
        matches!(&self.graph.ops[op].kind, OpKind::AllReduce { axes, .. } if axes == &[AxisId::MICROBATCH])
    }
    /// The shape under which the runtime sees an argument: with the microbatch first where it is held in slots.
    pub fn global_shape(&self, input: usize) -> Vec<u64> {
        let shape = self.graph.ty(self.graph.inputs[input]).shape.clone();
        if self.inputs[input].microbatched { [vec![u64::from(self.microbatches)], shape].concat() } else { shape }
    }

    /// Tells phases apart and binds batch arguments.
    pub fn new(step: &Microbatched, interface: &Interface) -> StepGraph {
        let source = &step.graph;
        let kind = |argument: u32| {
            if interface.parameters.contains(&argument) {
                BufferKind::Parameter
            } else if interface.state.iter().any(|s| s.0 == argument) {
                BufferKind::Optimizer
            } else {
                BufferKind::Data
            }
        };
        // Blocks of arguments, cut along the first dimension, become inputs.
        let mut blocks: BTreeMap<u32, Vec<(OpId, ValueId)>> = BTreeMap::new();
        for (id, op) in source.ops.iter() {
            if let OpKind::ShardSlice { axes, dim: 0 } = &op.kind
                && axes == &[AxisId::MICROBATCH]
                && let Some(i) = source.inputs.iter().position(|&v| v == op.operands[0])
            {
                blocks.entry(i as u32).or_default().push((id, op.results[0]));
            }
        }
        let users = source.users();
        let mut inputs = Vec::new();
        let mut graph = source.clone();
        // Inputs that are only read in blocks are replaced by their block; others stay beside it.
        let mut removed: Vec<OpId> = Vec::new();
        let mut block_inputs: BTreeMap<ValueId, ValueId> = BTreeMap::new();
        let mut order: Vec<ValueId> = Vec::new();
        for (i, &v) in source.inputs.iter().enumerate() {
            let of = blocks.get(&(i as u32)).cloned().unwrap_or_default();
            if users[v].len() > of.len() || of.is_empty() || source.outputs.contains(&v) {
                order.push(v);
                inputs.push(StepInput { argument: i as u32, microbatched: false, kind: kind(i as u32) });
            }
            if let Some((_, first)) = of.first() {
                let ty = source.ty(*first).clone();
                let new = graph.values.push(ir::graph::Value { ty, def: ir::graph::Def::Input(0), name: source.values[v].name.clone() });
                order.push(new);
                inputs.push(StepInput { argument: i as u32, microbatched: true, kind: kind(i as u32) });
                for (op, block) in of {
                    removed.push(op);
                    block_inputs.insert(block, new);
                }
            }
        }
        graph.inputs = order;
        for (i, &v) in graph.inputs.iter().enumerate() {
            graph.values[v].def = ir::graph::Def::Input(i as u32);
        }
        graph.input_attributes = vec![ir::graph::InputAttributes::default(); graph.inputs.len()];
        for op in graph.ops.values_mut() {
            op.operands.iter_mut().for_each(|v| *v = block_inputs.get(v).copied().unwrap_or(*v));
        }
        let loss = interface.loss.and_then(|l| source.outputs.get(l as usize).copied());
        let forward = forward_ops(step, loss);
        let mut phase: Vec<Phase> = Vec::with_capacity(graph.ops.len());
        for (id, op) in graph.ops.iter() {
            let own = match step.phases[id] {
                StepPhase::Before => Phase::Before,
                StepPhase::After => Phase::After,
                StepPhase::Micro if forward[id.0 as usize] => Phase::Forward,
                StepPhase::Micro => Phase::Backward,
            };
            let accumulates = matches!(&op.kind, OpKind::AllReduce { axes, .. } if axes == &[AxisId::MICROBATCH]);
            let own = if accumulates {
                source.def_op(op.operands[0]).map_or(Phase::Forward, |d| phase[d.0 as usize]).max(Phase::Forward).min(Phase::Backward)
            } else {
                own
            };
            phase.push(own);
        }
        // Drop the slices that are inputs now.
        let mut rewrite = Rewriter::new(&graph);
        let mut kept = Vec::new();
        for id in graph.ops.keys() {
            if removed.contains(&id) {
                let block = graph.ops[id].results[0];
                let new = rewrite.value(block_inputs[&block]);
                rewrite.replace(block, new);
            } else {
                rewrite.copy(id);
                kept.push(phase[id.0 as usize]);
            }
        }
        let outputs = (0..source.outputs.len() as u32)
            .map(|result| StepOutput {
                result,
                replaces: interface
                    .state
                    .iter()
                    .find(|s| s.1 == result)
                    .and_then(|s| inputs.iter().position(|i| i.argument == s.0 && !i.microbatched))
                    .map(|i| i as u32),
            })
            .collect();
        let none = vec![false; kept.len()];
        StepGraph { graph: rewrite.finish(), phase: kept, recomputed: none.clone(), lazy: none, inputs, outputs, microbatches: step.microbatches }
    }
}

/// Ops of the microbatch that the loss depends on.
fn forward_ops(step: &Microbatched, loss: Option<ValueId>) -> Vec<bool> {
    let graph = &step.graph;
    let mut forward = vec![false; graph.ops.len()];
    let mut stack: Vec<ValueId> = loss.into_iter().collect();
    while let Some(v) = stack.pop() {
        let Some(op) = graph.def_op(v) else { continue };
        if std::mem::replace(&mut forward[op.0 as usize], true) {
            continue;
        }
        stack.extend(&graph.ops[op].operands);
    }
    forward
}

/// The type of one slot of an input.
pub fn slot_type(step: &StepGraph, input: usize) -> &TensorType {
    step.graph.ty(step.graph.inputs[input])
}
