//! The passes in order, from a module to a plan.
//!
//! canonical → batch → step → (layers) → groups → sharding problem → partition → kernels and programs → code. Settings that the user left open
//! (stages, mesh, microbatches) are searched in `stage`. Everything is a function of the module and the request: the same input gives the same plan.

use crate::batch::{phases, split, state::Overrides};
use crate::canonical::{self, Canonical};
use crate::lower::code;
use crate::lower::regions::Region;
use crate::shard::pins::Pins;
use crate::shard::presets::{Preset, Staging};
use crate::stage::{self, Setting};
use crate::stop::Stop;
use cost_model::{AnalyticModel, Cluster};
use ir::diagnostic::{Diagnostic, Result};
use ir::plan::{Alternative, Plan, Request};
use ir::{Bytes, Module};
use std::time::Instant;

/// What to compile for.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the user asked for.
    pub request: Request,
    /// State, batch and loss, where the user says.
    pub overrides: Overrides,
    /// The cluster.
    pub cluster: Cluster,
    /// What code is made for: a level of CPUs, `x86-64-v3`, or a GPU architecture, `cuda:sm_90`.
    pub level: String,
    /// Whether to make code.
    pub code: bool,
    /// When to end the search, and whom to tell of it.
    pub stop: Stop,
}

/// How long the passes took; never part of a plan.
#[derive(Clone, Debug, Default)]
pub struct Timings(pub Vec<(&'static str, std::time::Duration)>);

impl Timings {
    /// Runs a pass and notes its time.
    pub fn pass<T>(&mut self, name: &'static str, f: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let out = f();
        self.0.push((name, start.elapsed()));
        out
    }
}

/// Share of a time limit for the search; the rest is for building what it found.
const SEARCHING: f64 = 0.6;

/// Compiles a module into a plan.
///
/// # Errors
/// Those of the passes: `E02xx` state and batch, `E04xx` requests that cannot be met as asked, `E05xx` no feasible sharding, `E08xx` no code.
pub fn compile(module: &Module, options: &Options, timings: &mut Timings) -> Result<Plan> {
    Ok(compile_in_regions(module, options, timings)?.0)
}

/// Compiles a module into a plan, and tells the regions of its stages' graphs.
///
/// # Errors
/// Those of [`compile`].
pub fn compile_in_regions(module: &Module, options: &Options, timings: &mut Timings) -> Result<(Plan, Vec<Region>)> {
    let model = AnalyticModel::new(options.cluster.clone());
    let preset = Preset::named(&options.request.strategy)?;
    preset.executable()?;
    let request = &preset.complete(&options.request)?;
    // Refused before the search, also where no code is asked for.
    code::target(&options.level)?;
    let canonical = timings.pass("canonical", || canonical::run(module, &options.overrides))?;
    let analysis = timings.pass("batch", || phases::analyse(&canonical.graph, &canonical.interface));
    let mut notes = canonical.notes.clone();
    let pins = Pins::parse(&request.pins, &canonical, module)?;
    let settings = stage::settings(&options.cluster, request, preset, &analysis, &canonical, &mut notes)?;
    let limit = request.memory_limit.unwrap_or(options.cluster.usable_memory());
    if options.cluster.parts().len() > 1 {
        notes.push(weakest_kind(&options.cluster));
    }
    let mut searched = timings.pass("search", || stage::search(&canonical, &analysis, &settings, preset, &pins, &model, &options.stop.share(SEARCHING)))?;
    let built = timings
        .pass("lower", || stage::build(&mut searched, (&canonical, &analysis), &pins, preset, &model, limit, request.recompute.is_none(), &options.stop))?;
    options.stop.begin("code", 0);
    let code = if options.code { timings.pass("code", || code::make(&built.kernels.kernels, &built.programs, &options.level))? } else { vec![] };
    let best = &searched.candidates[built.candidate];
    // Of a number of stages that nobody asked for there is nothing to regret: the search compared it with the others.
    if request.stages.is_some() || preset.staging() == Staging::Most {
        notes.extend(built.notes.iter().cloned());
    }
    notes.extend(options.stop.warning());
    let plan = Plan {
        compiler: format!("shardwright {}", env!("CARGO_PKG_VERSION")),
        request: options.request.clone(),
        cluster: options.cluster.summary(),
        source: module.clone(),
        graph: best.step.graph.clone(),
        interface: canonical.interface.clone(),
        layers: best.layers.clone(),
        depth: vec![],
        placement: best.placement.clone(),
        stages: built.stages,
        schedule: built.schedule,
        alternatives: searched.alternatives,
        by_hand: None,
        stopped: options.stop.reason(),
        programs: built.programs,
        kernels: built.kernels.kernels,
        code,
        notes,
    };
    plan.verify().map_err(|e| {
        Diagnostic::outcome("E0809", format!("the compiler made an inconsistent plan: {e}")).with_help("this is a bug; please report the model")
    })?;
    Ok((plan, built.kernels.regions))
}

/// A row of the table of settings.
pub fn alternative(setting: &Setting, step: Option<ir::Seconds>, memory: Option<Bytes>, verdict: String, cuts: Vec<(u32, u32)>) -> Alternative {
    Alternative {
        stages: setting.stages,
        cuts,
        mesh: setting.mesh.clone(),
        microbatches: setting.microbatches,
        schedule: setting.schedule,
        recompute: setting.recompute,
        step,
        memory,
        verdict,
    }
}

/// Splits a canonical step into microbatches.
pub fn microbatched(canonical: &Canonical, analysis: &phases::Analysis, microbatches: u32) -> crate::batch::Microbatched {
    split::run(&canonical.graph, analysis, microbatches)
}

/// That unlike nodes are all taken for the weakest kind.
pub(crate) fn weakest_kind(cluster: &Cluster) -> Diagnostic {
    let kinds: Vec<String> = cluster.parts().into_iter().map(|p| format!("{} of {}", p.cluster.nodes, p.cluster.device.name)).collect();
    Diagnostic::note("N0413", "every stage is planned for the weakest kind of node, and fits any")
        .with_note(format!("nodes are of several kinds: {}", kinds.join(", ")))
        .with_help("`compile --config … --no-code` without `--mesh` and `--stages` also tries stages that lie in one kind of node each, up to 16 nodes")
}
