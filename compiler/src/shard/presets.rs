//! Strategies by name: restrictions of the one search.
//!
//! `data` cuts the batch and nothing else; `zero1`, `zero2`, `zero3` also cut optimizer state, gradients, and parameters (Rajbhandari et al., 2020);
//! `tensor` cuts anything but the batch, its positions and the residual stream (what comes out is Megatron's, Shoeybi et al., 2019); `auto` restricts nothing. A pipeline's stages take `data`.
//! Dimensions are recognised by correspondence: those that share a factor of some group are of one class, as the batch dimension of a batch argument and
//! everything it becomes.

use super::groups::{Choice, Group, Groups};
use super::problem::{Node, Space};
use crate::step::StepGraph;
use ir::diagnostic::{Diagnostic, Result, nearest};
use ir::plan::Interface;
use ir::program::BufferKind;
use ir::{Sharding, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// A named restriction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// No restriction.
    #[default]
    Auto,
    /// Data parallelism: state whole, batch cut.
    Data,
    /// Tensor parallelism inside blocks: batch, positions and residual stream whole.
    Tensor,
    /// Optimizer state cut.
    Zero1,
    /// Optimizer state and gradients cut.
    Zero2,
    /// Optimizer state, gradients and parameters cut.
    Zero3,
    /// As many stages as devices allow; data parallelism inside a stage.
    Pipeline,
}

/// Names of the presets.
pub const NAMES: [(&str, Preset); 7] = [
    ("auto", Preset::Auto),
    ("data", Preset::Data),
    ("tensor", Preset::Tensor),
    ("zero1", Preset::Zero1),
    ("zero2", Preset::Zero2),
    ("zero3", Preset::Zero3),
    ("pipeline", Preset::Pipeline),
];

impl Preset {
    /// The preset of that name.
    ///
    /// # Errors
    /// `E0401` when there is none.
    pub fn named(name: &str) -> Result<Preset> {
        NAMES.iter().find(|(n, _)| *n == name).map(|(_, p)| *p).ok_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|n| n.0).collect();
            let mut d = Diagnostic::input("E0401", format!("there is no strategy `{name}`")).with_note(format!("strategies: {}", known.join(", ")));
            if let Some(n) = nearest(name, known) {
                d = d.with_help(format!("did you mean `--strategy {n}`?"));
            }
            d.into()
        })
    }

    fn cuts_batch(self) -> bool {
        matches!(self, Preset::Data | Preset::Zero1 | Preset::Zero2 | Preset::Zero3 | Preset::Pipeline)
    }
}

/// What a preset needs to know of a step.
pub struct Restriction {
    preset: Preset,
    /// Per group its batch factors.
    batch: Vec<Vec<u32>>,
    /// Per input its batch dimension.
    input_batch: Vec<Option<usize>>,
}

impl Restriction {
    /// Finds the batch dimensions of a step.
    pub fn new(preset: Preset, step: &StepGraph, groups: &Groups, interface: &Interface) -> Restriction {
        let mut classes = Classes::of(step, groups);
        let mut batch_classes = BTreeSet::new();
        let mut input_batch = vec![None; step.inputs.len()];
        for (i, input) in step.inputs.iter().enumerate() {
            if let Some((_, Some(dim))) = interface.batch.iter().find(|b| b.0 == input.argument) {
                batch_classes.insert(classes.class(step.graph.inputs[i], *dim as usize));
                input_batch[i] = Some(*dim as usize);
            }
            // What the batch and its positions index is not cut by tensor parallelism: that would be sequence parallelism.
            if preset == Preset::Tensor && input.kind == BufferKind::Data && input_batch[i].is_some() && step.graph.ty(step.graph.inputs[i]).dtype.is_integer()
            {
                (0..step.graph.ty(step.graph.inputs[i]).rank()).for_each(|d| {
                    batch_classes.insert(classes.class(step.graph.inputs[i], d));
                });
            }
        }
        if preset == Preset::Tensor {
            batch_classes.extend(residual_classes(step, &mut classes));
        }
        let batch_classes: BTreeSet<usize> = batch_classes.into_iter().map(|c| classes.root(c)).collect();
        let batch = groups.groups.iter().map(|g| batch_factors(g, &mut classes, &batch_classes)).collect();
        Restriction { preset, batch, input_batch }
    }

    /// Whether a node may choose a candidate.
    pub fn allows(&self, space: &Space<'_>, node: Node, candidate: usize) -> bool {
        match node {
            Node::Input(i) => self.allows_input(space, i as usize, &space.inputs[i as usize][candidate]),
            Node::Group(g) => self.allows_group(space, g as usize, &space.groups[g as usize][candidate].axes),
        }
    }

    fn allows_input(&self, space: &Space<'_>, i: usize, s: &Sharding) -> bool {
        let axes = space.cx.mesh.axes.len();
        let cut = s.axes().len();
        // As fine as any candidate is: what cannot be cut (a scalar) stays whole.
        let finest = || space.inputs[i].iter().map(|c| c.axes().len()).max().unwrap_or(0);
        match (self.preset, space.cx.step.inputs[i].kind) {
            (Preset::Auto, _) => true,
            (Preset::Tensor, BufferKind::Data) => cut == 0,
            (Preset::Tensor, _) => true,
            (_, BufferKind::Data) => match self.input_batch[i] {
                Some(d) if space.inputs[i].iter().any(|c| c.dims[d].len() == axes) => s.dims[d].len() == axes && cut == axes,
                Some(d) => s.dims.iter().enumerate().all(|(k, a)| k == d || a.is_empty()),
                None => cut == 0,
            },
            (Preset::Data | Preset::Pipeline, _) | (Preset::Zero1 | Preset::Zero2, BufferKind::Parameter) => cut == 0,
            _ => cut == finest(),
        }
    }

    fn allows_group(&self, space: &Space<'_>, g: usize, axes: &[Choice]) -> bool {
        let batch = &self.batch[g];
        let cuts = |c: &Choice| matches!(c, Choice::Cut(f) if batch.contains(f));
        match self.preset {
            Preset::Auto => return true,
            Preset::Tensor => return !axes.iter().any(cuts),
            _ => {}
        }
        let group = &space.cx.groups.groups[g];
        let accumulates = group.ops.iter().any(|&o| space.cx.step.accumulates(o));
        if accumulates {
            return match self.preset {
                // Whole where what is accumulated is whole on every device; a partial stays one until the last microbatch, which costs less.
                Preset::Data | Preset::Zero1 | Preset::Pipeline => !axes.iter().any(|c| matches!(c, Choice::Cut(_))),
                _ => !axes.iter().any(|c| matches!(c, Choice::Partial(..))),
            };
        }
        // A group with a batch dimension cuts it over as many axes as any of its candidates does.
        let most = space.groups[g].iter().map(|s| s.axes.iter().filter(|c| cuts(c)).count()).max().unwrap_or(0);
        if self.preset.cuts_batch() && most > 0 {
            return axes.iter().filter(|c| cuts(c)).count() == most && axes.iter().all(|c| cuts(c) || *c == Choice::Whole);
        }
        match self.preset {
            Preset::Data | Preset::Pipeline => !axes.iter().any(|c| matches!(c, Choice::Cut(_))),
            _ => true,
        }
    }
}

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

/// Classes of corresponding dimensions: those that share a factor of a group. Constants belong to each group alone and join nothing.
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
