//! Roles of mesh axes: the settings that people tune by hand, as a restriction of the one search.
//!
//! Every axis of a mesh has a role, such as data parallelism with a ZeRO stage, or Megatron's tensor parallelism. A role forbids some choices along its axis, and
//! wants others where there are any. Invariant: nothing is always whole, which no role forbids, and of the choices that are not forbidden those stay that follow
//! most roles; so a restriction leaves every node something to choose.

use super::classes::{Classes, batch_factors, expert_classes, masters, paired_factors, residual_classes};
use super::groups::{AxisChoice, Choice, Groups};
use super::problem::{Node, Space};
use crate::step::StepGraph;
use ir::op::OpKind;
use ir::plan::Interface;
use ir::program::{BufferKind, Phase};
use ir::{AxisId, Mesh, Sharding};
use std::collections::BTreeSet;

/// What an axis is for. A number is a ZeRO stage: from 1 on optimizer state is cut along the axis, from 2 gradients, from 3 parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Data parallelism: the batch is cut.
    Data(u8),
    /// Tensor parallelism inside blocks: batch, positions and residual stream are whole (Shoeybi et al. 2019).
    Tensor,
    /// The same, with positions cut wherever the residual stream is read or written but by a product (Korthikanti et al. 2022).
    TensorSequence,
    /// Positions are cut; attention gathers keys and values (Liu et al. 2023 pass them round).
    Positions(u8),
    /// Positions are cut, but in attention heads (Jacobs et al. 2023).
    Heads(u8),
    /// Features are cut, of activations and parameters alike: the columns of 2D tensor parallelism (Xu and You 2021).
    Features,
    /// Features in products, features or the batch between them: two such axes beside one of data parallelism are 3D tensor parallelism (Bian et al. 2021).
    Cube,
    /// Experts are cut in what computes them, the batch in all else (Lepikhin et al. 2020).
    Experts,
}

/// What a group computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Product,
    Attention,
    /// Rows of a table by number, or sums into them.
    Lookup,
    Other,
}

/// Factors of a group that roles speak of.
struct Of {
    kind: Kind,
    batch: Vec<u32>,
    positions: Vec<u32>,
    residual: Vec<u32>,
    experts: Vec<u32>,
    /// Experts that one of its products pairs.
    paired: bool,
    /// Whether it adds up gradients over microbatches.
    accumulates: bool,
    /// Whether it is done once, before the microbatches.
    before: bool,
}

/// Dimensions of an input that roles speak of.
struct OfInput {
    batch: Option<usize>,
    positions: Vec<usize>,
    experts: Vec<usize>,
    /// A parameter in full precision beside the copy that is computed with: ZeRO counts it as optimizer state.
    master: bool,
}

/// What roles need to know of a step.
pub struct Grid {
    groups: Vec<Of>,
    inputs: Vec<OfInput>,
}

/// What the nodes of one mesh may choose under roles.
pub struct Allowed {
    inputs: Vec<Vec<bool>>,
    groups: Vec<Vec<bool>>,
}

impl Allowed {
    /// Whether a node may choose a candidate.
    pub fn allows(&self, node: Node, candidate: usize) -> bool {
        match node {
            Node::Input(i) => self.inputs[i as usize][candidate],
            Node::Group(g) => self.groups[g as usize][candidate],
        }
    }
}

impl Grid {
    /// Finds the dimensions of a step that matter.
    pub fn new(step: &StepGraph, groups: &Groups, interface: &Interface) -> Grid {
        let mut classes = Classes::of(step, groups);
        let (mut batch, mut positions) = (BTreeSet::new(), BTreeSet::new());
        let batch_of = |argument: u32| interface.batch.iter().find(|b| b.0 == argument).and_then(|b| b.1).map(|d| d as usize);
        for (input, &v) in step.inputs.iter().zip(&step.graph.inputs) {
            let Some(dim) = batch_of(input.argument) else { continue };
            batch.insert(classes.class(v, dim));
            // Numbers of tokens: what is no example is a position.
            if step.graph.ty(v).dtype.is_integer() {
                (0..step.graph.ty(v).rank()).for_each(|d| {
                    positions.insert(classes.class(v, d));
                });
            }
        }
        let residual: BTreeSet<usize> = residual_classes(step, &mut classes).into_iter().collect();
        let experts: BTreeSet<usize> = expert_classes(step, groups, &mut classes).into_iter().collect();
        let root = |set: BTreeSet<usize>, classes: &Classes| -> BTreeSet<usize> { set.into_iter().map(|c| classes.root(c)).collect() };
        let (batch, residual, experts) = (root(batch, &classes), root(residual, &classes), root(experts, &classes));
        let positions: BTreeSet<usize> = root(positions, &classes).difference(&batch).copied().collect();
        let master = masters(step);
        let inputs = step
            .inputs
            .iter()
            .enumerate()
            .map(|(i, input)| {
                let v = step.graph.inputs[i];
                let mut of = |set: &BTreeSet<usize>| (0..step.graph.ty(v).rank()).filter(|&d| set.contains(&classes.class(v, d))).collect();
                OfInput { batch: batch_of(input.argument), positions: of(&positions), experts: of(&experts), master: master[i] }
            })
            .collect();
        let groups = groups
            .groups
            .iter()
            .map(|g| {
                let kinds = || g.ops.iter().map(|&o| &step.graph.ops[o].kind);
                let kind = match () {
                    () if kinds().any(|k| matches!(k, OpKind::Attention(_) | OpKind::AttentionGrad { .. })) => Kind::Attention,
                    () if kinds().any(|k| matches!(k, OpKind::Dot(_) | OpKind::Convolution(_))) => Kind::Product,
                    () if kinds().any(|k| matches!(k, OpKind::Gather(_) | OpKind::Scatter { .. })) => Kind::Lookup,
                    () => Kind::Other,
                };
                let experts = batch_factors(g, &mut classes, &experts);
                let pairs = paired_factors(step, g);
                Of {
                    kind,
                    batch: batch_factors(g, &mut classes, &batch),
                    positions: batch_factors(g, &mut classes, &positions),
                    residual: batch_factors(g, &mut classes, &residual),
                    paired: experts.iter().any(|f| pairs.contains(f)),
                    experts,
                    accumulates: g.ops.iter().any(|&o| step.accumulates(o)),
                    before: g.ops.first().is_some_and(|&o| step.phase_of(o) == Phase::Before),
                }
            })
            .collect();
        Grid { groups, inputs }
    }

    /// Whether some dimension counts experts.
    pub fn has_experts(&self) -> bool {
        self.groups.iter().any(|g| g.paired)
    }

    /// Whether some dimension counts positions.
    pub fn has_positions(&self) -> bool {
        self.inputs.iter().any(|i| !i.positions.is_empty())
    }

    /// Whether any hand-made restriction (ZeRO stages, tensor parallelism along the last axis) leaves a group a choice on an axis, given all that there are.
    pub fn keeps(&self, mesh: &Mesh, g: usize, axis: usize, all: &[AxisChoice], one: &AxisChoice) -> bool {
        let of = &self.groups[g];
        let possible = all.iter().any(|c| matches!(c.choice, Choice::Cut(_)));
        let (single, last) = (mesh.axes.len() == 1, axis + 1 == mesh.axes.len());
        let mut roles = (0..4).map(Role::Data).filter(|_| single || !last).chain(last.then_some(Role::Tensor));
        roles.any(|role| {
            let (may, wanted) = of.follows(role, &one.choice, possible);
            may && (wanted || !all.iter().any(|c| of.follows(role, &c.choice, possible) == (true, true)))
        })
    }

    /// What may be chosen when the mesh's axes have these roles.
    pub fn restrict(&self, roles: &[Role], space: &Space<'_>) -> Allowed {
        let roles: Vec<(usize, Role)> = roles.iter().copied().enumerate().filter(|&(a, _)| space.cx.mesh.axes[a].size > 1).collect();
        let inputs = (0..space.inputs.len()).map(|i| self.input(&roles, space, i)).collect();
        let groups = (0..space.groups.len()).map(|g| self.group(&roles, space, g)).collect();
        Allowed { inputs, groups }
    }

    fn input(&self, roles: &[(usize, Role)], space: &Space<'_>, i: usize) -> Vec<bool> {
        let (of, kind) = (&self.inputs[i], space.cx.step.inputs[i].kind);
        let rate = |s: &Sharding| {
            rated(roles.iter().map(|&(a, role)| {
                let axis = AxisId(a as u32);
                let uses = s.axes().contains(&axis);
                let within = |dims: &[usize]| dims.iter().any(|&d| s.dims[d].contains(&axis));
                // Cut along these dimensions if at all.
                let along = |dims: &[usize]| (!uses || within(dims), uses);
                let state = |zero: u8| match kind {
                    BufferKind::Parameter if !of.master => (zero > 2 || !uses, uses),
                    _ => (zero > 0 || !uses, uses),
                };
                match (kind, role) {
                    (BufferKind::Data, Role::Data(_) | Role::Experts | Role::Cube) => along(of.batch.as_slice()),
                    (BufferKind::Data, Role::Positions(_) | Role::Heads(_)) => along(&of.positions),
                    (BufferKind::Data, Role::Tensor | Role::TensorSequence | Role::Features) => along(&[]),
                    (_, Role::Data(zero) | Role::Positions(zero) | Role::Heads(zero)) => state(zero),
                    (_, Role::Tensor | Role::TensorSequence) => (true, true),
                    (_, Role::Features | Role::Cube) => (true, uses),
                    (_, Role::Experts) => along(&of.experts),
                }
            }))
        };
        most(space.inputs[i].iter().map(rate).collect())
    }

    fn group(&self, roles: &[(usize, Role)], space: &Space<'_>, g: usize) -> Vec<bool> {
        let (of, all) = (&self.groups[g], &space.groups[g]);
        let product = of.kind == Kind::Product;
        // 3D: a product cuts what it contracts along one of two axes and its result along the other; between products one of them cuts the batch.
        let cube: Vec<usize> = roles.iter().filter(|r| r.1 == Role::Cube).map(|r| r.0).collect();
        let pair = |axes: &[Choice]| match cube.as_slice() {
            [a, b] if product || of.batch.is_empty() => (true, axes[*a] != axes[*b]),
            [a, b] => (true, [a, b].iter().filter(|&&&x| cuts(&axes[x], &of.batch)).count() == 1),
            _ => (true, true),
        };
        let possible: Vec<bool> = (0..space.cx.mesh.axes.len()).map(|a| all.iter().any(|s| matches!(s.axes[a], Choice::Cut(_)))).collect();
        let rate = |axes: &[Choice]| rated(roles.iter().map(|&(a, role)| of.follows(role, &axes[a], possible[a])).chain([pair(axes)]));
        most(all.iter().map(|s| rate(&s.axes)).collect())
    }
}

/// Whether a choice cuts one of some factors.
fn cuts(choice: &Choice, factors: &[u32]) -> bool {
    matches!(choice, Choice::Cut(f) if factors.contains(f))
}

/// How many of some roles are followed; none where one is broken.
fn rated(roles: impl Iterator<Item = (bool, bool)>) -> Option<usize> {
    roles.map(|(may, wanted)| may.then_some(usize::from(wanted))).sum()
}

/// Those that follow most.
fn most(ratings: Vec<Option<usize>>) -> Vec<bool> {
    let most = ratings.iter().copied().max().flatten();
    ratings.into_iter().map(|r| r.is_some() && r == most).collect()
}

impl Of {
    /// Whether a choice along an axis is allowed by its role, and whether it is what the role wants.
    fn follows(&self, role: Role, own: &Choice, can_cut: bool) -> (bool, bool) {
        let cut = matches!(own, Choice::Cut(_));
        let partial = matches!(own, Choice::Partial(..));
        let any = |sets: &[&[u32]]| sets.iter().any(|of| cuts(own, of));
        match role {
            Role::Data(zero) => self.along(&self.batch, zero, own, can_cut),
            Role::Positions(zero) => self.along(&self.positions, zero, own, can_cut),
            // Scores have two positions, the query's and the key's.
            Role::Heads(_) if self.kind == Kind::Attention || self.positions.len() > 1 => (!any(&[&self.batch, &self.positions]), cut),
            Role::Heads(zero) => self.along(&self.positions, zero, own, can_cut),
            Role::TensorSequence if self.kind == Kind::Other && !self.residual.is_empty() => {
                (!any(&[&self.batch, &self.residual]), any(&[&self.positions]) || self.positions.is_empty())
            }
            Role::TensorSequence if self.kind == Kind::Lookup => (!any(&[&self.batch, &self.residual]), true),
            Role::Tensor | Role::TensorSequence => (!any(&[&self.batch, &self.positions, &self.residual]), true),
            Role::Features if self.accumulates => (true, !partial || !can_cut),
            Role::Features => (!any(&[&self.batch, &self.positions]), cut),
            Role::Cube if self.accumulates => (true, !partial || !can_cut),
            Role::Cube if self.kind == Kind::Product => (!any(&[&self.batch, &self.positions]), cut),
            Role::Cube => (!any(&[&self.positions]), cut),
            Role::Experts if self.paired || (self.batch.is_empty() && !self.experts.is_empty()) => (!cut || any(&[&self.experts]), cut),
            Role::Experts if self.kind == Kind::Other && !self.experts.is_empty() => (!cut || any(&[&self.batch, &self.experts]), cut),
            Role::Experts => self.along(&self.batch, 0, own, can_cut),
        }
    }

    /// Data parallelism along factors: the batch, or positions.
    fn along(&self, factors: &[u32], zero: u8, own: &Choice, can_cut: bool) -> (bool, bool) {
        let cut = matches!(own, Choice::Cut(_));
        match (self.accumulates, zero) {
            // Whole where what is accumulated is whole on every device; a partial stays one until the last microbatch, which costs less.
            (true, 0 | 1) => (!cut, true),
            (true, _) => (true, !matches!(own, Choice::Partial(..)) || !can_cut),
            // What is made of parameters before the microbatches is kept as they are.
            (false, 3..) if self.before && factors.is_empty() => (true, cut),
            (false, _) => (zero > 0 || !cut || cuts(own, factors), cuts(own, factors)),
        }
    }
}
