//! The settings that are tuned by hand today, as a restriction: one mesh axis for data parallelism with a ZeRO stage, one for Megatron's tensor parallelism.
//!
//! What [`presets`](super::presets) says of a whole mesh holds here of one axis each. The search starts from the best of these, so it is never worse.

use super::groups::{Choice, Groups};
use super::presets::{Classes, batch_factors, residual_classes};
use super::problem::{Node, Space};
use crate::step::StepGraph;
use ir::AxisId;
use ir::plan::Interface;
use ir::program::BufferKind;
use std::collections::BTreeSet;

/// What an axis is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Data parallelism; state is cut as this ZeRO stage says (0 to 3).
    Data(u8),
    /// Tensor parallelism inside blocks.
    Tensor,
}

/// What roles need to know of a step.
pub struct Grid {
    /// Per group its batch factors.
    batch: Vec<Vec<u32>>,
    /// Per group the factors that tensor parallelism leaves whole: batch, positions, residual stream.
    whole: Vec<Vec<u32>>,
    /// Per input its batch dimension.
    input_batch: Vec<Option<usize>>,
    /// Per group whether it adds up gradients over microbatches.
    accumulates: Vec<bool>,
}

impl Grid {
    /// Finds the dimensions of a step that matter.
    pub fn new(step: &StepGraph, groups: &Groups, interface: &Interface) -> Grid {
        let mut classes = Classes::of(step, groups);
        let (mut batch, mut whole) = (BTreeSet::new(), BTreeSet::new());
        let mut input_batch = vec![None; step.inputs.len()];
        for (i, input) in step.inputs.iter().enumerate() {
            let v = step.graph.inputs[i];
            let Some((_, Some(dim))) = interface.batch.iter().find(|b| b.0 == input.argument) else { continue };
            input_batch[i] = Some(*dim as usize);
            batch.insert(classes.class(v, *dim as usize));
            if step.graph.ty(v).dtype.is_integer() {
                (0..step.graph.ty(v).rank()).for_each(|d| {
                    whole.insert(classes.class(v, d));
                });
            }
        }
        whole.extend(residual_classes(step, &mut classes));
        let root = |set: BTreeSet<usize>, classes: &Classes| -> BTreeSet<usize> { set.into_iter().map(|c| classes.root(c)).collect() };
        let batch = root(batch, &classes);
        let whole: BTreeSet<usize> = root(whole, &classes).union(&batch).copied().collect();
        let accumulates = groups.groups.iter().map(|g| g.ops.iter().any(|&o| step.accumulates(o))).collect();
        Grid {
            batch: groups.groups.iter().map(|g| batch_factors(g, &mut classes, &batch)).collect(),
            whole: groups.groups.iter().map(|g| batch_factors(g, &mut classes, &whole)).collect(),
            input_batch,
            accumulates,
        }
    }

    /// Whether a node may choose a candidate when the mesh's axes have these roles.
    pub fn allows(&self, roles: &[Role], space: &Space<'_>, node: Node, candidate: usize) -> bool {
        roles.iter().enumerate().all(|(a, &role)| match node {
            Node::Input(i) => self.input(role, AxisId(a as u32), space, i as usize, candidate),
            Node::Group(g) => self.group(role, a, space, g as usize, candidate),
        })
    }

    fn input(&self, role: Role, axis: AxisId, space: &Space<'_>, i: usize, candidate: usize) -> bool {
        let all = &space.inputs[i];
        let s = &all[candidate];
        let uses = s.axes().contains(&axis);
        let possible = || all.iter().any(|c| c.axes().contains(&axis));
        match (space.cx.step.inputs[i].kind, role) {
            (BufferKind::Data, Role::Data(_)) => match self.input_batch[i] {
                Some(d) if all.iter().any(|c| c.dims[d].contains(&axis)) => s.dims[d].contains(&axis),
                _ => !uses,
            },
            (BufferKind::Data, Role::Tensor) => !uses,
            (_, Role::Tensor) => true,
            (_, Role::Data(0)) => !uses,
            // A parameter in full precision beside its copy for computing is optimizer state, and may be cut as such.
            (BufferKind::Parameter, Role::Data(1 | 2)) => true,
            (_, Role::Data(_)) => uses || !possible(),
        }
    }

    fn group(&self, role: Role, axis: usize, space: &Space<'_>, g: usize, candidate: usize) -> bool {
        let all = &space.groups[g];
        let cuts = |s: &Choice, of: &[u32]| matches!(s, Choice::Cut(f) if of.contains(f));
        let own = &all[candidate].axes[axis];
        match role {
            Role::Tensor => !cuts(own, &self.whole[g]),
            Role::Data(zero) if self.accumulates[g] => match zero {
                0 | 1 => !matches!(own, Choice::Cut(_)),
                _ => !matches!(own, Choice::Partial(..)) || !all.iter().any(|s| matches!(s.axes[axis], Choice::Cut(_))),
            },
            Role::Data(zero) => {
                if all.iter().any(|s| cuts(&s.axes[axis], &self.batch[g])) {
                    cuts(own, &self.batch[g])
                } else {
                    zero > 0 || !matches!(own, Choice::Cut(_))
                }
            }
        }
    }
}
