//! A fixed assignment of mesh axes, as Megatron-LM, DeepSpeed and FSDP users state it: every axis has one role, and every value follows from the roles.
//!
//! Where [`grid`](super::grid) forbids what a role does not do, this demands what it does: a tensor axis cuts every matrix inside a block even where the network is
//! so slow that leaving it whole would be faster. For each node a candidate is ranked by whether it does what each role wants, the roles in a fixed order; only
//! the best rank is allowed. Invariant: every node keeps at least one candidate, so a fixed setting is refused for its numbers, never for want of a sharding.

use super::classes::{Classes, batch_factors, residual_classes};
use super::groups::{Choice, Groups};
use super::problem::{Node, Space};
use super::routing::{Part, Routing};
use crate::step::StepGraph;
use ir::plan::Interface;
use ir::program::{BufferKind, Phase};
use ir::{AxisId, OpKind, Sharding};
use std::collections::BTreeSet;

/// What an axis of a fixed setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Tensor parallelism (Shoeybi et al., 2019); with `sequence` what lies between blocks is cut along positions (Korthikanti et al., 2022).
    Tensor {
        /// Whether positions are cut between blocks.
        sequence: bool,
        /// Whether experts are spread over the axis, each whole on one device, and not cut inside.
        spread: bool,
    },
    /// Positions are cut everywhere; attention gathers keys and values, or with `heads` exchanges positions for heads (Ulysses).
    Context {
        /// Whether attention is cut by heads.
        heads: bool,
        /// How state is cut over this axis too.
        zero: u8,
    },
    /// Experts are cut; everything else as data parallelism.
    Expert {
        /// How state is cut over this axis too.
        zero: u8,
    },
    /// Samples are cut; state as this ZeRO stage says (0 to 3).
    Data {
        /// The stage.
        zero: u8,
    },
}

impl Role {
    /// The ZeRO stage of an axis over which gradients are summed.
    pub fn zero(self) -> Option<u8> {
        match self {
            Role::Tensor { .. } => None,
            Role::Context { zero, .. } | Role::Expert { zero } | Role::Data { zero } => Some(zero),
        }
    }
}

/// What the roles need to know of a step.
pub struct Fixed {
    /// Per group: factors of the batch, of positions, of experts, and all that are none of these and no residual stream.
    batch: Vec<Vec<u32>>,
    positions: Vec<Vec<u32>>,
    experts: Vec<Vec<u32>>,
    inner: Vec<Vec<u32>>,
    /// Per input and dimension what it is.
    dims: Vec<Vec<Dim>>,
    /// Per group whether it adds up gradients over microbatches, and its phase.
    accumulates: Vec<bool>,
    phase: Vec<Phase>,
    /// Per input whether it is kept in full precision beside the copy that is computed with.
    master: Vec<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dim {
    Batch,
    Positions,
    Experts,
    Residual,
    Inner,
}

/// Names of parameters that belong to experts have this in their path.
const EXPERTS: &str = "experts/";

impl Fixed {
    /// Finds the dimensions of a step that matter.
    pub fn new(step: &StepGraph, groups: &Groups, interface: &Interface) -> Fixed {
        let mut classes = Classes::of(step, groups);
        let routing = Routing::new(step, groups);
        let (mut batch, mut positions, mut experts) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut matrices = BTreeSet::new();
        for (i, input) in step.inputs.iter().enumerate() {
            let v = step.graph.inputs[i];
            if step.graph.values[v].name.contains(EXPERTS) && step.graph.ty(v).rank() > 2 {
                experts.insert(classes.class(v, 0));
                matrices.extend((1..step.graph.ty(v).rank()).map(|d| classes.class(v, d)));
            }
            let Some((_, Some(dim))) = interface.batch.iter().find(|b| b.0 == input.argument) else { continue };
            batch.insert(classes.class(v, *dim as usize));
            if step.graph.ty(v).dtype.is_integer() {
                for d in (0..step.graph.ty(v).rank()).filter(|d| *d != *dim as usize) {
                    positions.insert(classes.class(v, d));
                }
            }
        }
        // Keys are positions of their own to an attention, which gathers them.
        for op in step.graph.ops.values() {
            if let OpKind::Attention(a) = &op.kind {
                let key = a.k.iter().position(|d| *d == ir::AttentionDim::Key);
                positions.extend(key.map(|d| classes.class(op.operands[1], d)));
            }
        }
        let residual = residual_classes(step, &mut classes);
        let root = |set: BTreeSet<usize>, classes: &Classes| -> BTreeSet<usize> { set.into_iter().map(|c| classes.root(c)).collect() };
        let batch = root(batch, &classes);
        let positions = root(positions, &classes);
        let experts = root(experts, &classes);
        let matrices = root(matrices, &classes);
        let residual = root(residual.into_iter().collect(), &classes);
        let of = |list: &BTreeSet<usize>, classes: &mut Classes| -> Vec<Vec<u32>> { groups.groups.iter().map(|g| batch_factors(g, classes, list)).collect() };
        let whole: BTreeSet<usize> = batch.union(&positions).chain(&residual).copied().collect();
        let whole_factors = of(&whole, &mut classes);
        // A router tells the experts of its tokens apart: it has a dimension of experts, and is not cut along it.
        let among_experts: Vec<Vec<u32>> = groups
            .groups
            .iter()
            .enumerate()
            .map(|(i, g)| {
                let deep = g.reads.iter().chain(&g.writes).any(|a| step.graph.ty(a.value).rank() > 2);
                if deep && !routing.routes(i) { batch_factors(g, &mut classes, &experts) } else { vec![] }
            })
            .collect();
        let of_matrices = of(&matrices, &mut classes);
        let inner = (0..groups.groups.len())
            .map(|i| {
                let within = |f: &u32| match routing.part(i) {
                    Part::Experts => of_matrices[i].contains(f) && !among_experts[i].contains(f),
                    Part::None => true,
                    _ => false,
                };
                (0..groups.groups[i].factors.len() as u32).filter(|f| !whole_factors[i].contains(f) && within(f)).collect()
            })
            .collect();
        let dims = step
            .graph
            .inputs
            .iter()
            .map(|&v| {
                (0..step.graph.ty(v).rank())
                    .map(|d| match classes.class(v, d) {
                        c if batch.contains(&c) => Dim::Batch,
                        c if positions.contains(&c) => Dim::Positions,
                        c if experts.contains(&c) && step.graph.ty(v).rank() > 2 => Dim::Experts,
                        c if experts.contains(&c) => Dim::Residual,
                        c if residual.contains(&c) => Dim::Residual,
                        _ => Dim::Inner,
                    })
                    .collect()
            })
            .collect();
        let phase: Vec<Phase> = groups.groups.iter().map(|g| g.ops.first().map_or(Phase::After, |&o| step.phase_of(o))).collect();
        let mut master = vec![false; step.inputs.len()];
        for op in step.graph.ops.values().filter(|o| o.kind == OpKind::Convert) {
            if let Some(i) = step.graph.inputs.iter().position(|v| *v == op.operands[0])
                && step.graph.ty(op.results[0]).dtype.bytes() < step.graph.ty(op.operands[0]).dtype.bytes()
            {
                master[i] = true;
            }
        }
        Fixed {
            batch: of(&batch, &mut classes),
            positions: of(&positions, &mut classes),
            experts: among_experts,
            inner,
            dims,
            accumulates: groups.groups.iter().map(|g| g.ops.iter().any(|&o| step.accumulates(o))).collect(),
            phase,
            master,
        }
    }

    /// Which candidates of every node are allowed: inputs, then groups.
    pub fn allowed(&self, roles: &[Role], space: &Space<'_>) -> Vec<Vec<bool>> {
        let best = |ranks: Vec<u32>| -> Vec<bool> {
            let most = ranks.iter().copied().max().unwrap_or(0);
            ranks.into_iter().map(|r| r == most).collect()
        };
        let mut order: Vec<usize> = (0..roles.len()).collect();
        order.sort_by_key(|&a| roles[a]);
        let ranked = |rank: &dyn Fn(usize) -> u32| order.iter().fold(0, |sum, &a| sum * 3 + rank(a));
        let inputs =
            (0..space.inputs.len()).map(|i| best(space.inputs[i].iter().map(|s| ranked(&|a| self.input(roles[a], AxisId(a as u32), space, i, s))).collect()));
        let groups = (0..space.groups.len()).map(|g| best(space.groups[g].iter().map(|s| ranked(&|a| self.group(roles[a], &s.axes[a], g, space))).collect()));
        inputs.chain(groups).collect()
    }

    /// How well an input's sharding does what a role wants: 2 as wanted, 1 nothing, 0 something else.
    fn input(&self, role: Role, axis: AxisId, space: &Space<'_>, i: usize, s: &Sharding) -> u32 {
        let along = s.dims.iter().position(|d| d.contains(&axis)).map(|d| self.dims[i][d]);
        let step_input = &space.cx.step.inputs[i];
        let wanted = |dims: &[Dim]| match along {
            Some(d) if dims.contains(&d) => 2,
            None => 1,
            Some(_) => 0,
        };
        let whole = || if along.is_none() { 2 } else { 0 };
        match (step_input.kind, role) {
            (BufferKind::Data, Role::Data { .. } | Role::Expert { .. }) => wanted(&[Dim::Batch]),
            (BufferKind::Data, Role::Context { .. }) => wanted(&[Dim::Positions]),
            (BufferKind::Data, Role::Tensor { .. }) => whole(),
            (_, Role::Tensor { spread: true, .. }) if self.dims[i].contains(&Dim::Experts) => wanted(&[Dim::Experts]),
            (_, Role::Tensor { .. }) => wanted(&[Dim::Inner, Dim::Experts]),
            (_, Role::Expert { .. }) if self.dims[i].contains(&Dim::Experts) => wanted(&[Dim::Experts]),
            (kind, role) => {
                let zero = role.zero().unwrap_or(0);
                let kept_whole = zero == 0 || (kind == BufferKind::Parameter && zero < 3 && !self.master[i]);
                if kept_whole { whole() } else { wanted(&[Dim::Inner, Dim::Residual, Dim::Positions, Dim::Experts, Dim::Batch]) }
            }
        }
    }

    /// The same for what a group does along an axis.
    fn group(&self, role: Role, choice: &Choice, g: usize, space: &Space<'_>) -> u32 {
        if space.cx.groups.groups[g].output.is_some() {
            return 0;
        }
        let cuts = |of: &[u32]| matches!(choice, Choice::Cut(f) if of.contains(f));
        let can = |a: &[u32]| !a.is_empty();
        let among = |good: bool| if good { 2 } else { u32::from(*choice == Choice::Whole) };
        let partial = matches!(choice, Choice::Partial(..));
        let (phase, adds) = (self.phase[g], self.accumulates[g]);
        match role {
            Role::Tensor { spread: true, .. } if can(&self.experts[g]) => among(cuts(&self.experts[g])),
            Role::Tensor { sequence, .. } => {
                let possible =
                    can(&self.inner[g]) && space.groups[g].iter().any(|s| s.axes.iter().any(|c| matches!(c, Choice::Cut(f) if self.inner[g].contains(f))));
                match () {
                    () if possible => among(cuts(&self.inner[g])),
                    () if adds && sequence => among(partial || *choice == Choice::Whole),
                    () if sequence && matches!(phase, Phase::Forward | Phase::Backward) && can(&self.positions[g]) => among(cuts(&self.positions[g])),
                    // Gradients of what lies between blocks are summed over positions, at the latest once a step.
                    () => among(*choice == Choice::Whole || sequence && partial && phase == Phase::Backward),
                }
            }
            Role::Context { heads, zero } => {
                let attends = space.cx.groups.groups[g]
                    .ops
                    .iter()
                    .any(|&o| matches!(space.cx.step.graph.ops[o].kind, OpKind::Attention(_) | OpKind::AttentionGrad { .. }));
                match () {
                    () if adds || !matches!(phase, Phase::Forward | Phase::Backward) => self.state(zero, choice, g),
                    () if attends && heads => among(cuts(&self.inner[g])),
                    () if can(&self.positions[g]) => among(cuts(&self.positions[g])),
                    () => self.state(zero, choice, g),
                }
            }
            Role::Expert { .. } if can(&self.experts[g]) => among(cuts(&self.experts[g])),
            Role::Expert { zero } | Role::Data { zero } => match () {
                () if !adds && can(&self.batch[g]) => among(cuts(&self.batch[g])),
                () => self.state(zero, choice, g),
            },
        }
    }

    /// The same for a group without samples, along an axis that has state cut by a ZeRO stage.
    fn state(&self, zero: u8, choice: &Choice, g: usize) -> u32 {
        let (cut, partial, whole) = (matches!(choice, Choice::Cut(_)), matches!(choice, Choice::Partial(..)), *choice == Choice::Whole);
        let wanted = match (self.phase[g], zero) {
            // Gradients stay partial until the last microbatch, which is cheaper than what is whole as well, or are kept cut.
            (Phase::Forward | Phase::Backward, 0 | 1) => partial || whole,
            (Phase::Forward | Phase::Backward, _) => cut,
            // The copies that are computed with.
            (Phase::Before, 0..=2) => whole,
            (Phase::Before, _) => cut,
            (Phase::After, 0) => whole,
            (Phase::After, _) => cut,
        };
        if wanted { 2 } else { u32::from(whole) }
    }
}

/// Whether a node may choose a candidate of those [`Fixed::allowed`] gave.
pub fn allows(allowed: &[Vec<bool>], space: &Space<'_>, node: Node, candidate: usize) -> bool {
    let n = match node {
        Node::Input(i) => i as usize,
        Node::Group(g) => space.inputs.len() + g as usize,
    };
    allowed[n][candidate]
}
