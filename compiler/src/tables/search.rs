//! The search over settings: stages × mesh × microbatches, each with a table.
//!
//! First every setting is solved under the restrictions that people tune by hand ([`Grid`]: data × tensor parallelism, ZeRO stages), which is fast; then the most
//! promising ones are solved freely, each from its own best hand-made setting, so what is found is never worse than the best of the grid. A setting that
//! could not win even if it ran at the devices' peak is passed over. Rounds have a fixed size and are merged in order, so threads do not change the answer.

use super::compose::{Composed, Composition, StageMemory, Unfit, compose};
use super::entry::{Bench, Entry, LayerCost, Prepared, StageLimit, WORK};
use super::settings::INNER_MOST;
use super::unlike::{Ground, Submesh, unlike};
use crate::batch::phases::Analysis;
use crate::canonical::Canonical;
use crate::layers::Layers;
use crate::shard::grid::{Grid, Role};
use crate::shard::pins::Pins;
use crate::shard::presets::Preset;
use crate::shard::problem::{Filter, Space};
use crate::shard::strategy::Context;
use crate::stage::Setting;
use crate::stop::Stop;
use cost_model::{CostModel, MatMulShape};
use ir::op::OpKind;
use ir::plan::Recompute;
use ir::program::Phase;
use ir::{Bytes, Mesh};
use std::collections::BTreeMap;

/// What is planned: a step of few layers, and the depth it stands for.
pub struct Model<'a> {
    /// The step.
    pub canonical: &'a Canonical,
    /// Its batch analysis.
    pub analysis: &'a Analysis,
    /// How many layers of the model a run of the step stands for, given its first layer and its length in the step.
    pub full: &'a (dyn Fn(&Layers, u32, u32) -> u32 + Sync),
    /// Prices.
    pub prices: &'a dyn CostModel,
    /// Bytes of a device.
    pub limit: Bytes,
    /// Named restriction; `auto` for none.
    pub preset: Preset,
    /// Shardings that the user fixed.
    pub pins: &'a Pins,
    /// When to end.
    pub stop: &'a Stop,
    /// Whether stages may have unlike submeshes.
    pub unlike: bool,
}

/// A setting with its table and stages.
#[derive(Clone, Debug)]
pub struct Found {
    /// The setting.
    pub setting: Setting,
    /// The table.
    pub entry: Entry,
    /// The stages.
    pub composed: Composed,
    /// The ZeRO stage of the grid that the sharding is, when it was not improved on.
    pub zero: Option<u8>,
    /// Tables of all submeshes and which each stage has, where stages are unlike; `entry` is then the first stage's.
    pub unlike: Option<(Vec<Entry>, Vec<usize>)>,
}

impl Found {
    /// The table of a stage.
    pub fn entry_of(&self, stage: usize) -> &Entry {
        self.unlike.as_ref().map_or(&self.entry, |(entries, of)| &entries[of[stage]])
    }
}

/// What became of a setting.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It fits.
    Found(Box<Found>),
    /// It needs at least this much memory per device, as far as was tried.
    Memory(Bytes),
    /// Stages without layers, or a value without a sharding.
    Impossible,
    /// Even at peak rates it would be slower than what was found; or the search ended before.
    Passed,
}

/// How hard to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// How many of the best settings are solved freely.
    pub free: usize,
    /// Work of a free solve.
    pub work: u64,
    /// Threads; the answer does not depend on it.
    pub threads: usize,
    /// Settings between two looks at what was found.
    pub round: usize,
    /// Whether every setting is solved under every hand-made restriction; else the less likely ones only for the best settings.
    pub exhaustive: bool,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { free: 8, work: WORK, threads: 2, round: 16, exhaustive: false }
    }
}

/// Which step a setting has: its microbatches, and what is recomputed.
pub type Kind = (u32, Recompute);

/// The step of a setting.
pub fn kind(s: &Setting) -> Kind {
    (s.microbatches, s.recompute)
}

/// A finished search.
pub struct Searched {
    /// What became of every setting, in the order given.
    pub verdicts: Vec<(Setting, Verdict)>,
    /// The prepared steps, by microbatches and what is recomputed.
    pub prepared: BTreeMap<Kind, Prepared>,
    /// The best of the grid alone.
    pub grid: Option<Found>,
    /// The best of all.
    pub best: Option<Found>,
}

/// Searches settings.
pub fn search(model: &Model<'_>, settings: &[Setting], effort: &Effort) -> Searched {
    let mut prepared: BTreeMap<Kind, Prepared> = BTreeMap::new();
    for s in settings {
        if !prepared.is_empty() && model.stop.now() {
            break;
        }
        prepared.entry(kind(s)).or_insert_with(|| Prepared::new(model.canonical, model.analysis, s.microbatches, s.recompute, model.full, false));
    }
    let settings: Vec<Setting> = settings.iter().filter(|s| prepared.contains_key(&kind(s))).cloned().collect();
    let grids: BTreeMap<Kind, Grid> = prepared.iter().map(|(&m, p)| (m, Grid::new(&p.step, &p.groups, &model.canonical.interface))).collect();
    let peak: BTreeMap<Kind, f64> = prepared.iter().map(|(&m, p)| (m, products(p, model.prices))).collect();
    let at_least = |s: &Setting| peak[&kind(s)] / f64::from(s.stages * s.mesh.iter().product::<u32>()) * f64::from(s.microbatches + s.stages - 1);
    let mut order: Vec<usize> = (0..settings.len()).collect();
    order.sort_by(|&a, &b| at_least(&settings[a]).total_cmp(&at_least(&settings[b])).then(a.cmp(&b)));
    let mut verdicts: Vec<(Setting, Verdict)> = settings.iter().map(|s| (s.clone(), Verdict::Passed)).collect();
    let mut best = f64::INFINITY;
    model.stop.begin("settings", settings.len());
    for round in order.chunks(effort.round) {
        let round: Vec<usize> = round.iter().copied().filter(|&i| at_least(&settings[i]) < best).collect();
        for (i, verdict) in parallel(&round, effort.threads, &|i| {
            within(model, Verdict::Passed, || by_grid(model, &settings[i], &prepared, &grids, if effort.exhaustive { Grids::All } else { Grids::Likely }))
        }) {
            if let Verdict::Found(f) = &verdict {
                best = best.min(f.composed.step.0);
            }
            verdicts[i].1 = verdict;
        }
    }
    let ranked = |verdicts: &[(Setting, Verdict)]| -> Vec<usize> {
        let time = |i: usize| if let Verdict::Found(f) = &verdicts[i].1 { f.composed.step.0 } else { f64::INFINITY };
        let mut list: Vec<usize> = (0..verdicts.len()).filter(|&i| time(i).is_finite()).collect();
        list.sort_by(|&a, &b| time(a).total_cmp(&time(b)).then(a.cmp(&b)));
        list
    };
    let found =
        |verdicts: &[(Setting, Verdict)], i: Option<&usize>| i.and_then(|&i| if let Verdict::Found(f) = &verdicts[i].1 { Some((**f).clone()) } else { None });
    if !effort.exhaustive && model.preset == Preset::Auto {
        let near: Vec<usize> = ranked(&verdicts).into_iter().take(effort.free).collect();
        for (i, verdict) in
            parallel(&near, effort.threads, &|i| within(model, Verdict::Passed, || by_grid(model, &settings[i], &prepared, &grids, Grids::Others)))
        {
            verdicts[i].1 = better(verdicts[i].1.clone(), verdict);
        }
    }
    let list = ranked(&verdicts);
    let grid = found(&verdicts, list.first());
    // What did not fit by hand may fit freely: the nearest of those are tried too.
    let mut tried: Vec<usize> = list.into_iter().take(effort.free).collect();
    let mut unfit: Vec<(Bytes, usize)> =
        verdicts.iter().enumerate().filter_map(|(i, v)| if let Verdict::Memory(b) = v.1 { Some((b, i)) } else { None }).collect();
    // Not those that are known to fit in no way.
    unfit.retain(|&(_, i)| least_memory(&prepared[&kind(&settings[i])], &settings[i]) <= model.limit.0 as f64);
    unfit.sort();
    tried.extend(unfit.into_iter().map(|u| u.1).take(if tried.is_empty() { effort.free } else { effort.free / 4 }));
    if model.preset != Preset::Auto {
        tried.clear();
    }
    model.stop.begin("best settings", tried.len());
    for (i, verdict) in parallel(&tried, effort.threads, &|i| {
        let known = &verdicts[i].1;
        within(model, known.clone(), || freely(model, &settings[i], &prepared, known, effort.work))
    }) {
        verdicts[i].1 = verdict;
    }
    let mut best = found(&verdicts, ranked(&verdicts).first());
    if model.preset == Preset::Auto && model.unlike && !model.stop.now() {
        for found in on_unlike_submeshes(model, &verdicts, &prepared) {
            if best.as_ref().is_none_or(|b| found.composed.step < b.composed.step) {
                best = Some(found);
            }
        }
    }
    Searched { verdicts, prepared, grid, best }
}

/// How many numbers of microbatches are tried with unlike stages.
const UNLIKE: usize = 3;

/// The best pipelines over unlike submeshes, from the tables that were made: for each of the best numbers of microbatches.
fn on_unlike_submeshes(model: &Model<'_>, verdicts: &[(Setting, Verdict)], prepared: &BTreeMap<Kind, Prepared>) -> Vec<Found> {
    let cluster = model.prices.cluster();
    let mut by_microbatches: BTreeMap<Kind, (f64, BTreeMap<Vec<u32>, &Found>)> = BTreeMap::new();
    for (setting, verdict) in verdicts {
        let Verdict::Found(f) = verdict else { continue };
        let row = by_microbatches.entry(kind(setting)).or_insert((f64::INFINITY, BTreeMap::new()));
        row.0 = row.0.min(f.composed.step.0);
        let known = row.1.entry(setting.mesh.clone()).or_insert(f);
        if f.entry.report.objective < known.entry.report.objective && f.setting.stages == known.setting.stages || f.zero.is_none() && known.zero.is_some() {
            *known = f;
        }
    }
    let mut rows: Vec<(Kind, f64, Vec<&Found>)> = by_microbatches.into_iter().map(|(m, (step, by_mesh))| (m, step, by_mesh.into_values().collect())).collect();
    rows.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    let ground = Ground { nodes: vec![0; cluster.nodes as usize], devices_per_node: cluster.devices_per_node };
    rows.into_iter()
        .take(UNLIKE)
        .filter_map(|(m, _, founds)| {
            let submeshes: Vec<Submesh<'_>> = founds.iter().map(|f| Submesh { entry: &f.entry, kind: 0, limit: model.limit }).collect();
            let u = unlike(&submeshes, &ground, &prepared[&m].depth(), m.0, founds.first()?.setting.schedule)?;
            let entries: Vec<Entry> = founds.iter().map(|f| f.entry.clone()).collect();
            let setting = Setting { stages: u.submesh.len() as u32, mesh: founds[u.submesh[0]].setting.mesh.clone(), ..founds[0].setting.clone() };
            Some(Found { setting, entry: entries[u.submesh[0]].clone(), composed: u.composed, zero: None, unlike: Some((entries, u.submesh)) })
        })
        .collect()
}

/// Looks at a setting while there is time; what is known of it stands otherwise.
fn within(model: &Model<'_>, known: Verdict, look: impl FnOnce() -> Verdict) -> Verdict {
    if model.stop.now() {
        return known;
    }
    let verdict = look();
    model.stop.done(if let Verdict::Found(f) = &verdict { Some(f.composed.step) } else { None });
    verdict
}

/// Runs independent work on some threads; results are in the order of the list.
fn parallel<T: Send>(list: &[usize], threads: usize, work: &(dyn Fn(usize) -> T + Sync)) -> Vec<(usize, T)> {
    let threads = threads.max(1).min(list.len().max(1));
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|t| scope.spawn(move || list.iter().enumerate().skip(t).step_by(threads).map(|(k, &i)| (k, (i, work(i)))).collect::<Vec<_>>()))
            .collect();
        let mut all: Vec<(usize, (usize, T))> = handles.into_iter().flat_map(|h| h.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect();
        all.sort_by_key(|x| x.0);
        all.into_iter().map(|x| x.1).collect()
    })
}

/// Seconds that one device would need for the matrix products of one microbatch of the whole model, at its peak.
fn products(p: &Prepared, prices: &dyn CostModel) -> f64 {
    let depth = p.depth();
    let mut of_layer = vec![0.0; p.layers.layers.len()];
    let graph = &p.step.graph;
    for (id, op) in graph.ops.iter().filter(|(id, _)| matches!(p.step.phase_of(*id), Phase::Forward | Phase::Backward)) {
        if let OpKind::Dot(d) = &op.kind {
            let (l, r) = (&graph.ty(op.operands[0]).shape, &graph.ty(op.operands[1]).shape);
            let shape = MatMulShape::of_dot(d, l, r, graph.ty(op.operands[0]).dtype);
            of_layer[p.layers.of[id.0 as usize] as usize] += shape.flops().0 / prices.cluster().device.peak.of(shape.dtype).0;
        }
    }
    depth.iter().map(|&l| of_layer[l as usize]).sum()
}

/// Context of one setting, handed to `f`.
fn with_bench<T>(model: &Model<'_>, setting: &Setting, p: &Prepared, f: impl FnOnce(&mut Bench<'_>) -> T) -> T {
    let mesh = Mesh::new(&setting.mesh);
    let cx = Context { step: &p.step, groups: &p.groups, mesh: &mesh, model: model.prices, stored: &p.stored };
    let mut bench = Bench::new(p, &cx).until(model.stop);
    f(&mut bench)
}

/// Roles of a mesh's axes: the last is tensor parallelism if there are two.
fn roles(mesh: &[u32], zero: u8, single: Role) -> Vec<Role> {
    match mesh.len() {
        0 | 1 => vec![single],
        n => (0..n).map(|a| if a + 1 == n { Role::Tensor } else { Role::Data(zero) }).collect(),
    }
}

/// Which hand-made restrictions are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grids {
    /// ZeRO 1, which costs no time; where it does not fit, 2 and then 3.
    Likely,
    /// What `Likely` leaves out.
    Others,
    /// All.
    All,
}

/// Bytes that some device of a setting needs at least: everything cut over all devices there are.
///
/// Of what stays, the devices' average. Of what is in flight, stage `s` holds `q(s)` microbatches' worth, and whatever the cut, the stage that has most has no
/// less than the model's total over the sum of `1 / q(s)`.
fn least_memory(p: &Prepared, setting: &Setting) -> f64 {
    let (kept, saved) = p.bytes();
    let of_stage = f64::from(setting.mesh.iter().product::<u32>());
    let shares: f64 = (0..setting.stages)
        .map(|s| 1.0 / f64::from(ir::program::in_flight(setting.schedule, ir::program::StageId(s), setting.stages, setting.microbatches).max(1)))
        .sum();
    (kept / (of_stage * f64::from(setting.stages))).max(saved / shares / of_stage)
}

/// The best of the hand-made restrictions on one setting.
fn by_grid(model: &Model<'_>, setting: &Setting, prepared: &BTreeMap<Kind, Prepared>, grids: &BTreeMap<Kind, Grid>, which: Grids) -> Verdict {
    let (p, grid) = (&prepared[&kind(setting)], &grids[&kind(setting)]);
    let least = least_memory(p, setting);
    if least > model.limit.0 as f64 {
        return Verdict::Memory(Bytes(least as u64));
    }
    with_bench(model, setting, p, |bench| {
        let Ok(pins) = model.pins.bind(&p.step, &Mesh::new(&setting.mesh)) else { return Verdict::Impossible };
        let mut best = Verdict::Impossible;
        let tensor = (setting.mesh.len() < 2 && setting.mesh.iter().all(|&n| n <= INNER_MOST)).then_some(None);
        let kinds: Vec<Option<u8>> = match (model.preset, which) {
            (Preset::Auto, Grids::Likely) => [1, 2, 3].map(Some).into_iter().chain(tensor).collect(),
            (Preset::Auto, Grids::Others) => [0, 2, 3].map(Some).to_vec(),
            (Preset::Auto, Grids::All) => (0..4u8).map(Some).chain(tensor).collect(),
            (Preset::Tensor, _) => vec![None],
            (Preset::Data | Preset::Pipeline, _) => vec![Some(0)],
            (Preset::Zero1, _) => vec![Some(1)],
            (Preset::Zero2, _) => vec![Some(2)],
            (Preset::Zero3, _) => vec![Some(3)],
        };
        for zero in kinds {
            if model.stop.now() {
                break;
            }
            if which == Grids::Likely && matches!(best, Verdict::Found(_)) && zero.is_some() {
                continue;
            }
            let roles = roles(&setting.mesh, zero.unwrap_or(0), zero.map_or(Role::Tensor, Role::Data));
            let allow = |space: &Space<'_>, node, candidate: usize| grid.allows(&roles, space, node, candidate) && pins.allows(space, node, candidate);
            let verdict = fit(model, setting, p, bench, &allow, None, WORK, false, zero);
            best = better(best, verdict);
        }
        best
    })
}

/// A free solve from what is known.
fn freely(model: &Model<'_>, setting: &Setting, prepared: &BTreeMap<Kind, Prepared>, known: &Verdict, work: u64) -> Verdict {
    let p = &prepared[&kind(setting)];
    with_bench(model, setting, p, |bench| {
        let start = if let Verdict::Found(f) = known { Some(f.entry.picks.as_slice()) } else { None };
        let Ok(pins) = model.pins.bind(&p.step, &Mesh::new(&setting.mesh)) else { return Verdict::Impossible };
        let allow = |space: &Space<'_>, node, candidate: usize| pins.allows(space, node, candidate);
        better(known.clone(), fit(model, setting, p, bench, &allow, start, work, true, None))
    })
}

/// The faster of two verdicts.
fn better(a: Verdict, b: Verdict) -> Verdict {
    match (&a, &b) {
        (Verdict::Found(x), Verdict::Found(y)) => {
            if y.composed.step < x.composed.step {
                b
            } else {
                a
            }
        }
        (Verdict::Found(_), _) => a,
        (_, Verdict::Found(_)) => b,
        (Verdict::Memory(x), Verdict::Memory(y)) => Verdict::Memory(*x.min(y)),
        (Verdict::Memory(_), _) => a,
        _ => b,
    }
}

/// How much each phase counts in a layer's cost: a stage has one of so many layers, and repeats its microbatches behind each other and through the pipeline.
pub fn phases(setting: &Setting) -> [f64; 4] {
    let (s, m) = (f64::from(setting.stages), f64::from(setting.microbatches));
    let micro = (m + s - 1.0) / s;
    [1.0 / s, micro, micro, 1.0 / s]
}

/// How often a table is solved again because it did not fit.
const RETRIES: u32 = 4;

/// Solves a table and composes it; under memory constraints where it does not fit as it is.
#[allow(clippy::too_many_arguments, reason = "one private function with everything that a solve is made of")]
fn fit(
    model: &Model<'_>,
    setting: &Setting,
    p: &Prepared,
    bench: &mut Bench<'_>,
    allow: &Filter<'_>,
    start: Option<&[usize]>,
    work: u64,
    constrain: bool,
    zero: Option<u8>,
) -> Verdict {
    let depth = p.depth();
    let phases = phases(setting);
    let what = Composition {
        depth: &depth,
        stages: setting.stages,
        microbatches: setting.microbatches,
        schedule: setting.schedule,
        limit: model.limit,
        solo_speedup: model.prices.cluster().solo_speedup,
    };
    let mut reserved: f64 = 0.0;
    let mut smallest = Bytes(u64::MAX);
    let mut limits: Vec<Limit> = Vec::new();
    let mut aside = 1.0;
    let mut best = None;
    for _ in 0..=RETRIES {
        let list: Vec<StageLimit<'_>> = limits
            .iter()
            .map(|(layers, in_flight, gradients, limit, transient)| StageLimit {
                layers,
                in_flight: *in_flight,
                gradients: *gradients,
                limit: limit - aside * transient - reserved,
            })
            .collect();
        let entry = match bench.solve(allow, phases, &list, start, work) {
            Ok(entry) => entry,
            // What was set aside for transients may be more than they need once choices are tight.
            Err(d) if d.code == "E0502" && aside > 0.0 => {
                aside = 0.0;
                continue;
            }
            Err(d) if d.code == "E0502" => return best.unwrap_or(Verdict::Memory(smallest)),
            Err(_) => return best.unwrap_or(Verdict::Impossible),
        };
        match compose(&entry, &what) {
            Ok(composed) => {
                let loose = !limits.is_empty() && entry.report.gap > LOOSE;
                let found = Verdict::Found(Box::new(Found { setting: setting.clone(), entry, composed, zero, unlike: None }));
                best = Some(best.map_or(found.clone(), |b| better(b, found)));
                if !loose {
                    break;
                }
                // Far from its bound: a tighter limit often leads the search to something better.
                reserved += model.limit.0 as f64 * TIGHTER;
            }
            Err(Unfit::TooFewLayers) => return Verdict::Impossible,
            Err(Unfit::Memory(cuts, memory)) => {
                let most = memory.iter().map(StageMemory::total).fold(0.0, f64::max);
                smallest = smallest.min(Bytes(most.ceil() as u64));
                if !constrain {
                    return Verdict::Memory(smallest);
                }
                if !limits.is_empty() {
                    reserved += (most - model.limit.0 as f64).max(0.0);
                }
                limits = stage_limits(model, setting, &depth, p, &cuts, &entry.layers);
            }
        }
    }
    best.unwrap_or(Verdict::Memory(smallest))
}

/// A solve under memory constraints whose gap is larger is tried again a little tighter.
const LOOSE: f64 = 0.01;
/// By so much of a device's memory.
const TIGHTER: f64 = 0.03;

/// A stage's memory: its layers, what is in flight, whether gradients are there, the limit, and what transients took before.
type Limit = (Vec<f64>, u32, bool, f64, f64);

/// The memory constraints of the stages that can bind: the first holds most activations, the last the head.
fn stage_limits(model: &Model<'_>, setting: &Setting, depth: &[u32], p: &Prepared, cuts: &[(u32, u32)], costs: &[LayerCost]) -> Vec<Limit> {
    let last = setting.stages - 1;
    let mut out = Vec::new();
    let stages: Vec<u32> = if last > 1 {
        vec![0, 1, last]
    } else if last == 1 {
        vec![0, 1]
    } else {
        vec![0]
    };
    for s in stages {
        let mut layers = vec![0.0; p.layers.layers.len()];
        let (a, b) = cuts[s as usize];
        depth[a as usize..b as usize].iter().for_each(|&l| layers[l as usize] += 1.0);
        let transient = depth[a as usize..b as usize].iter().map(|&l| costs[l as usize].transient).fold(0.0, f64::max);
        let limit = model.limit.0 as f64;
        let flight = ir::program::in_flight(setting.schedule, ir::program::StageId(s), setting.stages, setting.microbatches);
        if setting.microbatches > 1 {
            out.push((layers, flight, true, limit, transient));
        } else {
            // One microbatch: activations go as gradients come.
            out.push((layers.clone(), flight, false, limit, transient));
            out.push((layers, 0, true, limit, transient));
        }
    }
    out
}
