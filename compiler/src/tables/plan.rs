//! A plan made of tables: what was planned for few layers, said of all.

use super::compose::{self, StageMemory};
use super::entry::{Bench, anything};
use super::search::{self, Effort, Found, Model, Searched, Verdict};
use super::settings;
use super::submeshes;
use crate::batch::phases;
use crate::canonical::{self, Canonical};
use crate::layers::Layers;
use crate::pipeline::{Options, Timings, alternative};
use crate::shard::grid::Grid;
use crate::shard::groups;
use crate::shard::pins::Pins;
use crate::shard::presets::Preset;
use crate::shard::strategy::Context;
use crate::stage::decisions::Solved;
use cost_model::{AnalyticModel, Cluster, CostModel};
use ir::diagnostic::{Diagnostic, Result};
use ir::plan::{Alternative, MemoryReport, Placement, Plan, Premises, Recompute, Request, Schedule, StagePlan};
use ir::program::StageId;
use ir::{Bytes, Module};
use std::collections::BTreeMap;

/// A step of few layers and the depths that its repeated layers stand for.
pub struct Shallow<'a> {
    /// The step.
    pub module: &'a Module,
    /// Of every stack of repeated layers: what its layers' names begin with (`layers.`, `decoder.layers.`), its layers in the step, its layers in the model.
    pub stacks: &'a [(String, u32, u32)],
}

impl Shallow<'_> {
    /// How many layers of the model a run of the step stands for.
    pub(crate) fn full(&self, layers: &Layers, first: u32, copies: u32) -> u32 {
        let name = &layers.layers[first as usize].name;
        let stack = self.stacks.iter().find(|(prefix, ..)| name.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit())));
        stack.map_or(copies, |(_, traced, full)| copies + full.saturating_sub(*traced))
    }
}

/// Share of a time limit for the search; the rest is for telling what it found.
const SEARCHING: f64 = 0.9;

/// Plans a model from a step of few layers. There are no programs and no code in the plan.
///
/// # Errors
/// As [`crate::pipeline::compile`].
pub fn plan(shallow: &Shallow<'_>, options: &Options, effort: &Effort, timings: &mut Timings) -> Result<Plan> {
    let prices = AnalyticModel::new(options.cluster.clone());
    let preset = Preset::named(&options.request.strategy)?;
    preset.executable()?;
    let request = &preset.complete(&options.request)?;
    let canonical = timings.pass("canonical", || canonical::run(shallow.module, &options.overrides))?;
    let analysis = timings.pass("batch", || phases::analyse(&canonical.graph, &canonical.interface));
    let mut notes = canonical.notes.clone();
    let pins = Pins::parse(&request.pins, &canonical, shallow.module)?;
    let limit = request.memory_limit.unwrap_or(options.cluster.usable_memory());
    let stop = options.stop.share(SEARCHING);
    let full = |layers: &Layers, first: u32, copies: u32| shallow.full(layers, first, copies);
    // What the user fixed of the stages is meant for all of them; on many nodes the program over unlike stages takes long and gains little.
    let unlike = request.mesh.is_empty() && request.stages.is_none() && options.cluster.nodes <= UNLIKE_NODES;
    let model = Model {
        canonical: &canonical,
        analysis: &analysis,
        full: &full,
        prices: &prices,
        limit,
        preset,
        pins: &pins,
        stop: &stop,
        unlike,
        mixed: request.recompute.is_none(),
        chunks: request.schedule.is_none(),
    };
    let one = super::entry::Prepared::new(&canonical, &analysis, 1, Recompute::None, &full, false);
    let missing: u32 = shallow.stacks.iter().map(|(_, traced, full)| full.saturating_sub(*traced)).sum();
    if one.depth().len() as u32 != one.layers.layers.len() as u32 + missing {
        let kinds: Vec<String> = one.layers.layers.iter().map(|l| l.name.clone()).collect();
        return Err(Diagnostic::outcome("E0412", "the layers that were traced are not alike, so they cannot stand for the others")
            .with_note(format!("layers of the step: {}", kinds.join(", ")))
            .with_help("trace every layer: `--depth` with the model's number of layers")
            .into());
    }
    let list = settings::settings(&options.cluster, request, preset, &analysis, &canonical, &one, &mut notes)?;
    let searched = timings.pass("search", || search::search(&model, &list, effort));
    let Some(best) = searched.best.clone() else {
        let tried = searched.verdicts.iter().filter(|v| !matches!(v.1, Verdict::Passed)).count();
        return Err(if stop.reason().is_some() { stop.nothing_found(tried, list.len()) } else { nothing_fits(&searched, limit) }.into());
    };
    let alternatives = alternatives(&searched, &best, stop.reason().is_some());
    notes.extend(stop.warning());
    notes.extend(searched.grid.as_ref().map(|grid| by_hand(grid, &best)));
    notes.extend(unlike_nodes(&options.cluster, &best));
    options.stop.begin("plan", 0);
    timings.pass("plan", || assemble(shallow, options, &canonical, &model, &searched, best, alternatives, notes))
}

/// What the best of the hand-made settings would be.
fn by_hand(grid: &Found, best: &Found) -> Diagnostic {
    let s = &grid.setting;
    let (data, tensor) = match (s.mesh.as_slice(), grid.zero) {
        (&[n], Some(_)) => (n, 1),
        (&[n], None) => (1, n),
        (mesh, _) => (mesh[..mesh.len() - 1].iter().product(), mesh[mesh.len() - 1]),
    };
    let zero = grid.zero.map_or_else(String::new, |z| format!(", ZeRO {z}"));
    let slower = 100.0 * (grid.composed.step.0 / best.composed.step.0 - 1.0);
    Diagnostic::note(
        "N0411",
        format!(
            "the best of the grid tensor × pipeline × data × microbatches × recomputation × ZeRO takes {} a step, {slower:.1} % more than this plan",
            grid.composed.step
        ),
    )
    .with_note(format!(
        "it is tensor {tensor}, pipeline {}, data {data}, {} microbatches, recomputation {}{zero}",
        s.stages,
        s.microbatches,
        s.recompute.name()
    ))
}

/// Where nodes are of several kinds: which stages lie in which.
fn unlike_nodes(cluster: &Cluster, best: &Found) -> Option<Diagnostic> {
    let parts = cluster.parts();
    if parts.len() < 2 {
        return None;
    }
    if best.unlike.is_none() {
        return Some(crate::pipeline::weakest_kind(cluster));
    }
    let stages = (0..best.composed.cuts.len()).filter_map(|s| Some((s, best.kind_of(s)?)));
    let list: Vec<String> = stages
        .collect::<Vec<_>>()
        .chunk_by(|a, b| a.1 == b.1)
        .map(|c| format!("stages {} to {} on {}", c[0].0, c[c.len() - 1].0, parts[c[0].1 as usize].cluster.device.name))
        .collect();
    Some(Diagnostic::note("N0414", format!("stages lie in nodes of unlike kinds: {}", list.join(", "))))
}

/// Why there is no plan.
fn nothing_fits(searched: &Searched, limit: Bytes) -> Diagnostic {
    let smallest = searched.verdicts.iter().filter_map(|(s, v)| if let Verdict::Memory(b) = v { Some((*b, s)) } else { None }).min_by_key(|x| x.0);
    match smallest {
        Some((bytes, s)) => {
            let mesh: Vec<String> = s.mesh.iter().map(ToString::to_string).collect();
            Diagnostic::outcome("E0502", format!("the plan needs {bytes} per device and the limit is {limit}"))
                .with_note(format!(
                    "{} settings of stages, mesh and microbatches were tried; {} stages of {} with {} microbatches need least",
                    searched.verdicts.len(),
                    s.stages,
                    mesh.join("x"),
                    s.microbatches
                ))
                .with_help("use more devices, a smaller `--global-batch` or `--seq`, `--recompute`, or a higher `--memory-limit`")
        }
        None => Diagnostic::outcome("E0503", "no setting of stages, mesh and microbatches has a sharding")
            .with_help("loosen `--mesh`, `--stages`, `--microbatches` or `--pin`"),
    }
}

/// The table of settings, best first.
fn alternatives(searched: &Searched, best: &Found, stopped: bool) -> Vec<Alternative> {
    let mut rows: Vec<(f64, Alternative)> = Vec::new();
    let mut passed = 0;
    for (setting, verdict) in &searched.verdicts {
        let row = match verdict {
            Verdict::Found(f) => {
                let memory = f.composed.memory.iter().map(StageMemory::total).fold(0.0, f64::max);
                let taken = f.setting == best.setting && f.mixed.is_some() == best.mixed.is_some() && f.composed.step == best.composed.step;
                let told = if taken { "taken" } else { "slower" };
                let told = f.mixed.as_ref().map_or_else(|| told.to_owned(), |m| format!("{told}; {} layer(s) so, the others {}", m.dearer, m.less.name()));
                (f.composed.step.0, alternative(&f.setting, Some(f.composed.step), Some(Bytes(memory as u64)), told, f.composed.cuts.clone()))
            }
            Verdict::Memory(b) => (f64::MAX, alternative(setting, None, Some(*b), format!("needs {b} per device"), vec![])),
            Verdict::Impossible => (f64::MAX, alternative(setting, None, None, "no sharding, or fewer layers than stages".into(), vec![])),
            Verdict::Passed => {
                passed += 1;
                continue;
            }
        };
        rows.push(row);
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut rows: Vec<Alternative> = rows.into_iter().map(|r| r.1).collect();
    rows.truncate(KEPT);
    if passed > 0 {
        let setting = crate::stage::Setting { stages: 0, mesh: vec![], microbatches: 0, schedule: best.setting.schedule, recompute: best.setting.recompute };
        let told = if stopped {
            "would be slower even at the devices' peak, or were not tried before the search ended"
        } else {
            "would be slower even at the devices' peak"
        };
        rows.push(alternative(&setting, None, None, format!("{passed} more settings {told}"), vec![]));
    }
    rows
}

/// On more nodes than this all stages have equal meshes.
const UNLIKE_NODES: u32 = 16;

/// Which layers are sharded alike: those on equal meshes in nodes of one kind.
type Where = (Option<u32>, Vec<u32>);

/// Rows of the table of settings that a plan keeps.
const KEPT: usize = 64;

#[allow(clippy::too_many_arguments, reason = "everything that a plan is made of")]
fn assemble(
    shallow: &Shallow<'_>,
    options: &Options,
    canonical: &Canonical,
    model: &Model<'_>,
    searched: &Searched,
    best: Found,
    alternatives: Vec<Alternative>,
    notes: Vec<Diagnostic>,
) -> Result<Plan> {
    let p = best.prepared(&searched.prepared);
    let depth = best.depth(p);
    let what = model.composition(&best.setting, &depth);
    // Where the cuts of stages on unlike submeshes could be instead would move devices too: it is not told.
    let mut moves = if best.unlike.is_none() { compose::moves(&best.entry, &what, &best.composed) } else { vec![] };
    moves.resize(best.composed.cuts.len(), vec![]);
    // The first stage with each layer of the step says how it is sharded; later ones on the same mesh do the same.
    let mut first: BTreeMap<u32, u32> = BTreeMap::new();
    let mut told: BTreeMap<(Where, u32), u32> = BTreeMap::new();
    let shape = |s: usize| -> Where { (best.kind_of(s), best.entry_of(s).mesh.axes.iter().map(|a| a.size).collect()) };
    for (s, &(a, b)) in (0..).zip(&best.composed.cuts) {
        depth[a as usize..b as usize].iter().for_each(|&l| {
            first.entry(l).or_insert(s);
            told.entry((shape(s as usize), l)).or_insert(s);
        });
    }
    // Copies that stand for nothing in the model are where the layer is that stands for them.
    let mut before = 0;
    for l in 0..p.layers.layers.len() as u32 {
        before = *first.entry(l).or_insert(before);
        told.entry((shape(before as usize), l)).or_insert(before);
    }
    let mut stages = Vec::new();
    let mut device = 0;
    let kinds = submeshes::kinds(model.prices.cluster(), model.limit);
    for (s, &cut) in best.composed.cuts.iter().enumerate() {
        let entry = best.entry_of(s);
        let mesh = entry.mesh.clone();
        let sizes = shape(s);
        // Where nodes are of one kind, or all are taken for the weakest, prices are the model's.
        let kind = best.kind_of(s).filter(|_| kinds.len() > 1).map(|k| &kinds[k as usize]);
        let prices: &dyn CostModel = kind.map_or(model.prices, |k| &k.prices);
        let limit = kind.map_or(model.limit, |k| k.limit);
        let here = |layer: Option<u32>| layer.map_or(s == 0, |l| told.get(&(sizes.clone(), l)) == Some(&(s as u32)));
        let tells = told.iter().any(|((of, _), &t)| *of == sizes && t == s as u32);
        let (shardings, decisions) = if tells || s == 0 {
            let cx = Context { step: &p.step, groups: &p.groups, mesh: &mesh, model: prices, stored: &p.stored };
            let mut bench = Bench::new(p, &cx);
            let picks = bench.own(entry, &Grid::new(&p.step, &p.groups, &canonical.interface)).unwrap_or_else(|| entry.picks.clone());
            let choices = bench.choices(&picks, &entry.report, &anything, search::phases(&best.setting))?;
            let solved = Solved { step: &p.step, stored: &p.stored, groups: &p.groups, mesh: &mesh, choices: &choices };
            (solved.shardings(&|i| here(p.layers.home[i]), &|g| here(p.layer_of[g])), solved.decisions(model.pins, limit, &|g| here(p.layer_of[g])))
        } else {
            (vec![], vec![])
        };
        let devices = mesh.devices();
        // The next chunk of every stage.
        if best.unlike.is_none() && (s as u32).is_multiple_of(best.setting.stages) {
            device = 0;
        }
        stages.push(StagePlan {
            layers: cut,
            mesh,
            devices: (device..device + devices).collect(),
            shardings,
            decisions,
            solve: entry.report.clone(),
            times: best.composed.times[s],
            memory: memory_report(&best.composed.memory[s], limit, prices),
            cut: std::mem::take(&mut moves[s]),
        });
        device += devices;
    }
    let graph = &p.step.graph;
    let mut layer: Vec<u32> = p.layers.of.clone();
    let mut reader: BTreeMap<ir::ValueId, u32> = BTreeMap::new();
    for (id, op) in graph.ops.iter().rev() {
        let i = id.0 as usize;
        if groups::is_view(graph, id)
            && let Some(&l) = op.results.first().and_then(|r| reader.get(r))
        {
            layer[i] = l;
        }
        op.operands.iter().for_each(|&v| {
            reader.insert(v, layer[i]);
        });
    }
    let placement = graph
        .ops
        .keys()
        .map(|id| {
            let l = layer[id.0 as usize];
            Placement { layer: l, stage: StageId(first[&l]), phase: p.step.phase_of(id), recomputed: p.step.recomputed[id.0 as usize] }
        })
        .collect();
    let around = options.cluster.around_step();
    let plan = Plan {
        compiler: format!("shardwright {}", env!("CARGO_PKG_VERSION")),
        request: Request { premises: Premises { stacks: shallow.stacks.to_vec(), ..options.request.premises.clone() }, ..options.request.clone() },
        cluster: options.cluster.summary(),
        source: shallow.module.clone(),
        graph: graph.clone(),
        interface: canonical.interface.clone(),
        layers: p.layers.layers.clone(),
        depth,
        placement,
        stages,
        schedule: Schedule {
            kind: best.setting.schedule,
            microbatches: best.setting.microbatches,
            step: best.composed.step + around,
            bubble: best.composed.bubble,
        },
        alternatives,
        stopped: options.stop.reason(),
        by_hand: searched.grid.as_ref().map(|g| g.composed.step + around),
        programs: vec![],
        kernels: Default::default(),
        code: vec![],
        notes,
    };
    plan.verify().map_err(|e| {
        Diagnostic::outcome("E0809", format!("the compiler made an inconsistent plan: {e}")).with_help("this is a bug; please report the model")
    })?;
    Ok(plan)
}

fn memory_report(m: &StageMemory, limit: Bytes, prices: &dyn CostModel) -> MemoryReport {
    let kinds = [("parameters, optimizer state, data", m.resident), ("gradients", m.gradients), ("activations", m.saved), ("temporaries", m.transient)];
    MemoryReport {
        arena: Bytes(m.total() as u64),
        limit,
        overhead: prices.cluster().device.overhead,
        at_peak: kinds.iter().map(|&(k, b)| (k.to_owned(), Bytes(b as u64))).collect(),
        peak_moment: "the backward of the last microbatch".into(),
        timeline: vec![],
        largest: vec![],
    }
}
