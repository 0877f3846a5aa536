//! Dimensions that correspond: those that share a factor of some group are of one class, as the batch dimension of a batch argument and everything it becomes.
//!
//! What presets say of the batch, of positions, of the residual stream and of experts they say of classes. Invariant: constants belong to each group alone
//! and join nothing.

use super::groups::{Group, Groups};
use crate::step::StepGraph;
use ir::ValueId;
use ir::op::OpKind;
use ir::program::BufferKind;
use std::collections::{BTreeMap, BTreeSet};

/// More weight matrices than this share the dimension of a residual stream; those of one block (gate, up and down; query, key, value and output) do not.
const BLOCK_MATRICES: usize = 4;

/// Classes of the dimensions that run through all layers. Megatron keeps them whole: what enters and leaves a block is the same on every device.
pub(super) fn residual_classes(step: &StepGraph, classes: &mut Classes) -> Vec<usize> {
    let mut matrices: BTreeMap<usize, usize> = BTreeMap::new();
    for (input, &v) in step.inputs.iter().zip(&step.graph.inputs) {
        let rank = step.graph.ty(v).rank();
        if input.kind == BufferKind::Parameter && rank >= 2 {
            let own: BTreeSet<usize> = (0..rank).map(|d| classes.class(v, d)).collect();
            own.into_iter().for_each(|c| *matrices.entry(c).or_default() += 1);
        }
    }
    matrices.into_iter().filter(|(_, n)| *n > BLOCK_MATRICES).map(|(c, _)| c).collect()
}

/// Classes of corresponding dimensions.
pub(super) struct Classes {
    number: BTreeMap<(ValueId, usize), usize>,
    parent: Vec<usize>,
}

impl Classes {
    pub(super) fn of(step: &StepGraph, groups: &Groups) -> Classes {
        let mut classes = Classes { number: BTreeMap::new(), parent: vec![] };
        for group in &groups.groups {
            let mut first: BTreeMap<u32, usize> = BTreeMap::new();
            for access in group.reads.iter().chain(&group.writes) {
                for (d, f) in access.dims.iter().enumerate() {
                    let own = classes.class(access.value, d);
                    if let Some(f) = f {
                        let other = *first.entry(*f).or_insert(own);
                        classes.join(own, other);
                    }
                }
            }
            // A state's new value is laid out as the old one.
            if let Some(input) = group.output.and_then(|p| step.outputs[p].replaces) {
                let (old, new) = (step.graph.inputs[input as usize], group.writes[0].value);
                for d in 0..step.graph.ty(old).rank() {
                    let (a, b) = (classes.class(old, d), classes.class(new, d));
                    classes.join(a, b);
                }
            }
        }
        classes
    }
    pub(super) fn root(&self, mut x: usize) -> usize {
        while self.parent[x] != x {
            x = self.parent[x];
        }
        x
    }
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }
    /// The class of a dimension of a value.
    pub(super) fn class(&mut self, v: ValueId, dim: usize) -> usize {
        let next = self.parent.len();
        let n = *self.number.entry((v, dim)).or_insert(next);
        if n == next {
            self.parent.push(n);
        }
        self.root(n)
    }
}

/// The factors of a group that correspond to a batch dimension.
pub(super) fn batch_factors(group: &Group, classes: &mut Classes, batch: &BTreeSet<usize>) -> Vec<u32> {
    let mut found = BTreeSet::new();
    for access in group.reads.iter().chain(&group.writes) {
        for (d, f) in access.dims.iter().enumerate() {
            if let Some(f) = f
                && batch.contains(&classes.class(access.value, d))
            {
                found.insert(*f);
            }
        }
    }
    found.into_iter().collect()
}

/// Whether a view, or a change of type alone, makes a value of another.
fn passes_on(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Convert | OpKind::Transpose { .. } | OpKind::Reshape)
}

/// Values that are a parameter, rearranged or in another type.
fn of_parameters(step: &StepGraph) -> BTreeSet<ValueId> {
    let mut found: BTreeSet<ValueId> =
        step.inputs.iter().zip(&step.graph.inputs).filter(|(input, _)| input.kind == BufferKind::Parameter).map(|(_, &v)| v).collect();
    for op in step.graph.ops.values().filter(|op| passes_on(&op.kind)) {
        if found.contains(&op.operands[0]) {
            found.extend(&op.results);
        }
    }
    found
}

/// Classes of the dimensions that count experts: a parameter has them, and a product that reads it takes each element with its own of the other operand.
pub(super) fn expert_classes(step: &StepGraph, groups: &Groups, classes: &mut Classes) -> Vec<usize> {
    let parameters = of_parameters(step);
    let mut found = BTreeSet::new();
    for group in &groups.groups {
        for f in paired_factors(step, group) {
            for access in group.reads.iter().filter(|r| parameters.contains(&r.value)) {
                access.dims.iter().enumerate().filter(|(_, of)| **of == Some(f)).for_each(|(d, _)| {
                    found.insert(classes.class(access.value, d));
                });
            }
        }
    }
    found.into_iter().collect()
}

/// The factors of a group that some product of it pairs: in both operands, and kept.
pub(super) fn paired_factors(step: &StepGraph, group: &Group) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for member in group.members.iter().filter(|m| group.ops.contains(&m.op)) {
        if let OpKind::Dot(d) = &step.graph.ops[member.op].kind {
            found.extend(d.lhs_batch.iter().filter_map(|&dim| member.operand_dims[0][dim]));
        }
    }
    found
}

/// Inputs that are kept in full precision beside the copy that is computed with: forward and backward read them converted only.
pub(super) fn masters(step: &StepGraph) -> Vec<bool> {
    use ir::program::Phase;
    let graph = &step.graph;
    let users = graph.users();
    let converted = |v: ValueId| {
        let mut stack = vec![v];
        let mut any = false;
        while let Some(v) = stack.pop() {
            for &op in users[v].iter().filter(|&&op| step.phase_of(op) != Phase::After) {
                match &graph.ops[op].kind {
                    OpKind::Convert => any = true,
                    OpKind::Transpose { .. } | OpKind::Reshape => stack.extend(&graph.ops[op].results),
                    _ => return false,
                }
            }
        }
        any
    };
    step.inputs.iter().zip(&graph.inputs).map(|(input, &v)| input.kind == BufferKind::Parameter && converted(v)).collect()
}
