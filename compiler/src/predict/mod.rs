//! What a fixed setting gives: a restricted search with one answer, priced by the graphs, passes and costs that planning uses.
//!
//! [`Model`] is a step of few layers that stands for a whole model; [`Setting`] says which mesh axis does what, [`crate::shard::fixed`] restricts the program of one mesh to
//! it, and the solved table gives every layer's bytes. [`parts`] takes the table's times apart by kind, [`assemble`] puts them on a pipeline with the overlaps
//! that a [`Framework`] has, and simulates the schedule exactly. Invariant: with [`Framework::own`] a setting costs what the search says it costs.

pub mod assemble;
pub mod framework;
pub mod parts;
pub mod setting;

pub use assemble::{Bill, Kinds, Prediction, StagePrediction};
pub use framework::Framework;
pub use setting::{Arithmetic, Context, Limits, Offload, Setting};

use crate::batch::phases::{self, Analysis};
use crate::canonical::{self, Canonical};
use crate::layers::Layers;
use crate::shard::fixed::{self, Fixed, Role};
use crate::shard::problem::Space;
use crate::shard::strategy::Context as ShardContext;
use crate::tables::entry::{Bench, Entry, Prepared, WORK};
use cost_model::{AnalyticModel, Cluster};
use ir::diagnostic::{Diagnostic, Result};
use ir::plan::Recompute;
use ir::{Flops, Mesh, Module};
use parts::Parts;

/// What is predicted: a step of a few layers of each stack, traced for [`Setting::traced_batch`] sequences.
pub struct Model {
    canonical: Canonical,
    analysis: Analysis,
    stacks: Vec<(String, u32, u32)>,
    /// What of it limits settings.
    pub limits: Limits,
    /// Parameters at full depth.
    pub parameters: u64,
    /// Arithmetic of the products of one sequence at full depth, forward and backward, nothing repeated.
    pub flops: Flops,
}

/// What of a setting and a framework a prepared step depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Preparation {
    /// Microbatches.
    pub microbatches: u32,
    /// What the backward computes again.
    pub recompute: Recompute,
    /// Whether tokens are permuted to experts.
    pub permutes: bool,
}

impl Setting {
    /// Microbatches of the step that is traced: two are as many as any number, since what is accumulated over them is alike.
    pub fn traced_microbatches(&self, framework: &Framework) -> u32 {
        if framework.accumulates { 2 } else { self.microbatches().clamp(1, 2) }
    }

    /// How the step is prepared: what is recomputed by us. Where selective recomputation is attention's scores alone, nothing else is.
    pub fn prepared_recompute(&self, framework: &Framework) -> Recompute {
        match self.recompute {
            Recompute::Selective if framework.selective_is_attention => Recompute::None,
            mode => mode,
        }
    }

    /// How a model is prepared for the setting: what [`Model::prepare`] takes.
    pub fn preparation(&self, framework: &Framework) -> Preparation {
        Preparation { microbatches: self.traced_microbatches(framework), recompute: self.prepared_recompute(framework), permutes: framework.permutes }
    }

    /// Sequences of the step that is traced.
    pub fn traced_batch(&self, framework: &Framework) -> u64 {
        u64::from(self.data) * self.micro_batch * u64::from(self.traced_microbatches(framework))
    }
}

impl Model {
    /// Reads a step; `stacks` as in [`crate::tables::plan::Shallow`], `limits.layers` being set from them.
    ///
    /// # Errors
    /// Those of canonicalization.
    pub fn new(module: &Module, stacks: &[(String, u32, u32)], limits: Limits, parameters: u64, flops: Flops) -> Result<Model> {
        let canonical = canonical::run(module, &Default::default())?;
        let analysis = phases::analyse(&canonical.graph, &canonical.interface);
        let layers = stacks.iter().map(|s| s.2).sum();
        Ok(Model { canonical, analysis, stacks: stacks.to_vec(), limits: Limits { layers, ..limits }, parameters, flops })
    }

    /// The step cut into microbatches, with what is recomputed: the same for every mesh.
    ///
    /// # Errors
    /// `E0404` when the step does not allow the microbatches.
    pub fn prepare(&self, how: Preparation) -> Result<Prepared> {
        let Preparation { microbatches, recompute, permutes } = how;
        if !self.analysis.allows(microbatches) {
            let mut d = Diagnostic::input("E0404", "this step cannot be cut into microbatches without changing its result");
            d.notes.extend(self.analysis.obstacles.first().map(|o| o.message.clone()));
            return Err(d.with_help("give a global batch of one microbatch").into());
        }
        let full = |layers: &Layers, first: u32, copies: u32| {
            let name = &layers.layers[first as usize].name;
            let stack = self.stacks.iter().find(|(prefix, ..)| name.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit())));
            stack.map_or(copies, |(_, traced, full)| copies + full.saturating_sub(*traced))
        };
        let prepared = Prepared::new(&self.canonical, &self.analysis, microbatches, recompute, &full, false);
        Ok(if permutes { prepared.permuting() } else { prepared })
    }
}

/// A mesh with its roles, solved and taken apart.
#[derive(Clone, Debug)]
pub struct Solved {
    /// The table.
    pub entry: Entry,
    /// Its times by kind.
    pub parts: Parts,
    /// For every layer of the model the layer of the step that stands for it.
    pub depth: Vec<u32>,
    /// Which layers of the step are blocks, by their names.
    pub blocks: Vec<bool>,
    /// The roles of the mesh's axes.
    pub roles: Vec<Role>,
}

/// Predicts a setting.
///
/// # Errors
/// `E0422` impossible settings, `E0423` what no schedule or search of ours expresses, and those of [`Model::prepare`].
pub fn predict(model: &Model, setting: &Setting, cluster: &Cluster, framework: &Framework) -> Result<Prediction> {
    setting.check(&model.limits, Some(cluster.devices()))?;
    let prepared = model.prepare(setting.preparation(framework))?;
    let solved = solve(model, &prepared, setting, cluster, framework)?;
    assemble::assemble(model, &solved, setting, cluster, framework)
}

/// Solves one mesh under a setting's roles; the setting is checked.
///
/// # Errors
/// `E0503` if the program was not solved.
pub fn solve(model: &Model, prepared: &Prepared, setting: &Setting, cluster: &Cluster, framework: &Framework) -> Result<Solved> {
    let prices = AnalyticModel::new(Cluster { pair_trees: cluster.pair_trees && framework.pair_trees, ..cluster.clone() });
    let (sizes, roles) = setting.mesh();
    let mesh = Mesh::new(&sizes);
    let cx = ShardContext { step: &prepared.step, groups: &prepared.groups, mesh: &mesh, model: &prices, stored: &prepared.stored };
    let rules = Fixed::new(&prepared.step, &prepared.groups, &model.canonical.interface);
    let mut bench = Bench::new(prepared, &cx);
    let allowed = rules.allowed(&roles, &bench.space);
    let allow = |space: &Space<'_>, node, candidate: usize| fixed::allows(&allowed, space, node, candidate);
    let (stages, microbatches) = (f64::from(setting.pipeline), f64::from(setting.microbatches()));
    let micro = (microbatches + stages - 1.0) / stages;
    let entry = bench.solve(&allow, [1.0 / stages, micro, micro, 1.0 / stages], &[], None, WORK)?;
    let parts = parts::parts(prepared, &mut bench, &entry.picks, &mesh, &roles, framework, setting.arithmetic);
    let block = |name: &str| model.stacks.iter().any(|(prefix, ..)| name.starts_with(prefix.as_str()));
    let blocks = prepared.layers.layers.iter().map(|l| block(&l.name)).collect();
    Ok(Solved { entry, parts, depth: prepared.depth(), blocks, roles })
}
