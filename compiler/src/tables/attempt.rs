//! What one setting comes to: its table under hand-made restrictions, or freely, and the stages that are composed from it.
//!
//! Where what was found does not fit, the table is solved again under the memory of the stages that can bind. Invariant: a verdict depends on the setting, what
//! was known of it, and nothing that another thread does.

use super::bounds;
use super::compose::{Composed, Composition, StageMemory, Unfit, compose};
use super::entry::{Bench, Entry, LayerCost, Prepared, StageLimit, WORK};
use super::mixed::{self, TwoModes};
use super::search::{FREE_AXES, Found, Model, Verdict};
use super::settings::INNER_MOST;
use crate::shard::grid::{Grid, Role};
use crate::shard::presets::Preset;
use crate::shard::problem::{Filter, Node, Space};
use crate::shard::strategy::Context;
use crate::stage::Setting;
use crate::stage::settings::CHUNKS;
use ir::program::ScheduleKind;
use ir::{Bytes, Mesh};

/// Context of one setting, handed to `f`.
fn with_context<T>(model: &Model<'_>, setting: &Setting, p: &Prepared, f: impl FnOnce(&Context<'_>) -> T) -> T {
    let mesh = Mesh::new(&setting.mesh);
    f(&Context { step: &p.step, groups: &p.groups, mesh: &mesh, model: model.prices, stored: &p.stored })
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
pub(super) enum Grids {
    /// ZeRO 1, which costs no time; where it does not fit, 2 and then 3.
    Likely,
    /// What `Likely` leaves out.
    Others,
    /// All.
    All,
}

/// The best of the hand-made restrictions on one setting, nothing if none of them could be faster than `best`; and how fast a step is at most.
pub(super) fn by_grid(model: &Model<'_>, setting: &Setting, (p, grid): (&Prepared, &Grid), which: Grids, best: f64) -> (Verdict, f64) {
    let least = bounds::memory(p, setting);
    if least > model.limit.0 as f64 {
        return (Verdict::Memory(Bytes(least as u64)), 0.0);
    }
    with_context(model, setting, p, |cx| {
        let Ok(pins) = model.pins.bind(&p.step, cx.mesh) else { return (Verdict::Impossible, 0.0) };
        let own = match model.preset.roles(&setting.mesh) {
            Ok(own) => own,
            Err(_) => return (Verdict::Impossible, 0.0),
        };
        // Strategies by name have roles that the hand-made restrictions have not.
        let bench = if own.is_none() { Bench::by_hand(p, cx, grid) } else { Bench::new(p, cx) };
        let bench = &mut bench.until(model.stop);
        // What is only predicted hides or fills what the bound counts.
        let fastest = if model.preset.predicted_only().is_some() { 0.0 } else { fastest(model, setting, bench) };
        if fastest >= best {
            return (Verdict::Passed, fastest);
        }
        let mut best = Verdict::Impossible;
        let tensor = (setting.mesh.len() < 2 && setting.mesh.iter().all(|&n| n <= INNER_MOST)).then_some(None);
        let kinds: Vec<Option<u8>> = match which {
            Grids::Likely => [1, 2, 3].map(Some).into_iter().chain(tensor).collect(),
            Grids::Others => [0, 2, 3].map(Some).to_vec(),
            Grids::All => (0..4u8).map(Some).chain(tensor).collect(),
        };
        let zero_of = |roles: &[Role]| roles.iter().find_map(|r| if let Role::Data(zero) = r { Some(*zero) } else { None });
        let lists: Vec<(Option<u8>, Vec<Role>)> = match own {
            Some(own) => vec![(zero_of(&own), own)],
            None => kinds.into_iter().map(|zero| (zero, roles(&setting.mesh, zero.unwrap_or(0), zero.map_or(Role::Tensor, Role::Data)))).collect(),
        };
        // Within a strategy memory is looked for too, among what its roles leave open.
        let free = (!model.preset.is_free()).then_some(f64::INFINITY);
        for (zero, roles) in lists {
            if model.stop.now() {
                break;
            }
            if which == Grids::Likely && matches!(best, Verdict::Found(_)) && zero.is_some() {
                continue;
            }
            let allowed = grid.restrict(&roles, bench.space());
            let allow = |space: &Space<'_>, node, candidate: usize| allowed.allows(node, candidate) && pins.allows(space, node, candidate);
            let least = bounds::bytes(setting, &bench.least_bytes(&allow));
            let verdict =
                if least > model.limit.0 as f64 { Verdict::Memory(Bytes(least as u64)) } else { fit(model, setting, p, bench, &allow, None, WORK, free, zero) };
            best = better(best, verdict);
        }
        (best, fastest)
    })
}

/// Seconds that a step takes at least, whatever a bench's candidates are chosen.
fn fastest(model: &Model<'_>, setting: &Setting, bench: &Bench<'_>) -> f64 {
    bounds::step(setting, bench.least(), model.prices.cluster().solo_speedup)
}

/// A free solve from what is known; nothing more, if no choice could be faster than `best`.
pub(super) fn freely(model: &Model<'_>, setting: &Setting, (p, grid): (&Prepared, &Grid), known: &Verdict, work: u64, best: f64) -> Verdict {
    with_context(model, setting, p, |cx| {
        let bench = &mut Bench::new(p, cx).until(model.stop);
        let Ok(pins) = model.pins.bind(&p.step, cx.mesh) else { return Verdict::Impossible };
        let allow = |space: &Space<'_>, node, candidate: usize| pins.allows(space, node, candidate);
        if fastest(model, setting, bench) >= best || bounds::bytes(setting, &bench.least_bytes(&allow)) > model.limit.0 as f64 {
            return known.clone();
        }
        let start = if let Verdict::Found(f) = known { bench.own(&f.entry, grid) } else { None };
        better(known.clone(), fit(model, setting, p, bench, &allow, start.as_deref(), work, Some(best), None))
    })
}

/// The faster of two verdicts.
pub(super) fn better(a: Verdict, b: Verdict) -> Verdict {
    match (a, b) {
        (Verdict::Found(mut x), Verdict::Found(mut y)) => {
            let chunked = [x.chunked.take(), y.chunked.take()].into_iter().flatten().min_by(|a, b| a.composed.step.0.total_cmp(&b.composed.step.0));
            let mut faster = if y.composed.step < x.composed.step { y } else { x };
            faster.chunked = chunked;
            Verdict::Found(faster)
        }
        (found @ Verdict::Found(_), _) | (_, found @ Verdict::Found(_)) => found,
        (Verdict::Memory(x), Verdict::Memory(y)) => Verdict::Memory(x.min(y)),
        (memory @ Verdict::Memory(_), _) => memory,
        (_, b) => b,
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

/// By how much the objective of a program may exceed the step that is composed from it, since partitions share equal reshards.
const SHARED: f64 = 0.03;

/// Solves a table and composes it. A free one is solved again under memory constraints where it does not fit as it is; nothing is looked for that would
/// be slower than the best that it is given.
#[allow(clippy::too_many_arguments, reason = "one private function with everything that a solve is made of")]
fn fit(
    model: &Model<'_>,
    setting: &Setting,
    p: &Prepared,
    bench: &mut Bench<'_>,
    allow: &Filter<'_>,
    start: Option<&[usize]>,
    work: u64,
    free: Option<f64>,
    zero: Option<u8>,
) -> Verdict {
    let depth = p.depth();
    let phases = phases(setting);
    let what = model.composition(setting, &depth);
    // The program counts every microbatch through the whole pipeline, which a step takes no less than this share of.
    let share = bounds::microbatches(setting) / f64::from(setting.microbatches + setting.stages - 1);
    let most = free.map_or(f64::INFINITY, |best| best / share * (1.0 + SHARED));
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
        let entry = match bench.solve_below(most, allow, phases, &list, start, work) {
            Ok(entry) if model.preset == Preset::Ring => entry.passing_keys_round(),
            Ok(entry) => entry,
            // What was set aside for transients may be more than they need once choices are tight.
            Err(d) if d.code == "E0502" && aside > 0.0 => {
                aside = 0.0;
                continue;
            }
            Err(d) if d.code == "E0502" => return best.unwrap_or(Verdict::Memory(smallest)),
            Err(_) => return best.unwrap_or(Verdict::Impossible),
        };
        if entry.report.bound.0 >= most {
            return best.unwrap_or(Verdict::Passed);
        }
        match compose(&entry, &what) {
            Ok(composed) => {
                let loose = !limits.is_empty() && entry.report.gap > LOOSE;
                let memoryless = limits.is_empty() && compose(&entry, &Composition { limit: Bytes(u64::MAX), ..what }).is_ok_and(|c| c.cuts == composed.cuts);
                let mut found = Found { setting: setting.clone(), entry, composed, zero, unlike: None, chunked: None, memoryless, mixed: None };
                if model.chunks {
                    found.chunked = interleaved(model, &found, &depth).map(Box::new);
                }
                let found = Verdict::Found(Box::new(found));
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
                if free.is_none() {
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

/// What was found, with the stages of several chunks that make the step shortest: the same table put together another way.
fn interleaved(model: &Model<'_>, found: &Found, depth: &[u32]) -> Option<Found> {
    let (stages, microbatches) = (found.setting.stages, found.setting.microbatches);
    let orders = CHUNKS.into_iter().map(ScheduleKind::Interleaved).filter(|k| stages > 1 && k.allows(stages, microbatches));
    let all = orders.filter_map(|schedule| {
        let setting = Setting { schedule, ..found.setting.clone() };
        let composed = compose(&found.entry, &model.composition(&setting, depth)).ok()?;
        Some((setting, composed))
    });
    let (setting, composed) = all.min_by(|a, b| a.1.step.0.total_cmp(&b.1.step.0))?;
    Some(Found { setting, composed, ..found.clone() })
}

/// The table of a step in two modes for a setting that was found in the dearer one, and the stages that are composed of it; none where they take `best`
/// seconds or more. What crosses between layers is sharded as it was found.
pub(super) fn mixed(
    model: &Model<'_>,
    found: &Found,
    (of_found, grid_of_found): (&Prepared, &Grid),
    (two, grid): (&TwoModes, &Grid),
    best: f64,
    work: u64,
) -> Option<(Entry, Composed, Vec<u32>)> {
    let (setting, p) = (&found.setting, &two.prepared);
    let borders = with_context(model, setting, of_found, |cx| {
        let bench = if found.entry.by_hand { Bench::by_hand(of_found, cx, grid_of_found) } else { Bench::new(of_found, cx) };
        mixed::borders(of_found, bench.space(), &found.entry.picks, p)
    })?;
    with_context(model, setting, p, |cx| {
        let pins = model.pins.bind(&p.step, cx.mesh).ok()?;
        let allow = |space: &Space<'_>, node: Node, candidate: usize| {
            let kept = match node {
                Node::Group(g) => borders.get(&(g as usize)).is_none_or(|b| b.iter().all(|(w, s)| space.groups[g as usize][candidate].writes[*w] == *s)),
                Node::Input(_) => true,
            };
            kept && pins.allows(space, node, candidate)
        };
        let mut hand = Bench::by_hand(p, cx, grid).until(model.stop);
        let zero = found.zero.unwrap_or(1);
        let allowed = grid.restrict(&roles(&setting.mesh, zero, Role::Data(zero)), hand.space());
        let by_hand = |space: &Space<'_>, node, candidate: usize| allowed.allows(node, candidate) && allow(space, node, candidate);
        let by_hand = hand.solve(&by_hand, phases(setting), &[], None, WORK).ok();
        let free = (setting.mesh.len() <= FREE_AXES).then(|| {
            let mut bench = Bench::new(p, cx).until(model.stop);
            let start = by_hand.as_ref().and_then(|e| bench.own(e, grid));
            bench.solve(&allow, phases(setting), &[], start.as_deref(), work).ok()
        });
        let composed = |entry: Entry| {
            let (composed, depth) = mixed::compose(&entry, &model.composition(setting, &two.less), &two.more).ok()?;
            (composed.step.0 < best).then_some((entry, composed, depth))
        };
        let all = free.flatten().into_iter().chain(by_hand).filter_map(composed);
        all.min_by(|a, b| a.1.step.0.total_cmp(&b.1.step.0))
    })
}

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
        let mut transient = 0.0f64;
        // Of all its chunks.
        for &(a, b) in cuts.iter().skip(s as usize).step_by(setting.stages as usize) {
            for &l in &depth[a as usize..b as usize] {
                layers[l as usize] += 1.0;
                transient = transient.max(costs[l as usize].transient);
            }
        }
        let limit = model.limit.0 as f64;
        let flight = setting.least_in_flight(s);
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
