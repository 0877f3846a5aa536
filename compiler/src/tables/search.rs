//! The search over settings: stages × mesh × microbatches, each with a table.
//!
//! First every setting is solved under the restrictions that people tune by hand ([`Grid`]: data × tensor parallelism, ZeRO stages), which is fast; then the most
//! promising ones are solved freely, each from its own best hand-made setting, so what is found is never worse than the best of the grid. A setting that
//! could not win even if it ran at the devices' peak is passed over. Where the order of microbatches is open, settings are compared by 1F1B, every table
//! that was found is put together with several chunks per stage too, and the fastest of all is taken at the end. Rounds have a fixed size and are merged in order, so threads do not change the answer.

use super::attempt::{Grids, better, by_grid, freely};
use super::bounds;
use super::compose::{Composed, Composition};
use super::entry::{Cut, Entry, Prepared, WORK};
use super::mixed::{self, Mixed};
use super::submeshes::{self, OnSubmeshes};
use crate::batch::phases::Analysis;
use crate::canonical::Canonical;
use crate::layers::Layers;
use crate::schedule::order::Order;
use crate::shard::grid::Grid;
use crate::shard::pins::Pins;
use crate::shard::presets::Preset;
use crate::stage::Setting;
use crate::stop::Stop;
use cost_model::CostModel;
use ir::Bytes;
use ir::plan::Recompute;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use super::attempt::phases;

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
    /// Whether some layers may recompute and others not.
    pub mixed: bool,
    /// Whether stages may hold several chunks, though no such order was asked for.
    pub chunks: bool,
}

impl Model<'_> {
    /// What is composed for a setting of a model of this depth.
    pub(super) fn composition<'d>(&self, setting: &Setting, depth: &'d [u32]) -> Composition<'d> {
        Composition {
            depth,
            stages: setting.stages,
            microbatches: setting.microbatches,
            order: self.preset.order(setting.schedule),
            limit: self.limit,
            solo_speedup: self.prices.cluster().solo_speedup,
        }
    }
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
    /// The tables of the stages where they are unlike; `entry` is then the first stage's.
    pub unlike: Option<OnSubmeshes>,
    /// The fastest that was found for the setting with several chunks per stage, where that was open.
    pub chunked: Option<Box<Found>>,
    /// Whether memory had no part in it: neither in the sharding nor in where stages begin.
    pub memoryless: bool,
    /// The step in two modes, where only some layers recompute as the setting says.
    pub mixed: Option<Arc<Mixed>>,
}

impl Found {
    /// The step that its tables are of, where the steps of all settings are at hand.
    pub fn prepared<'p>(&'p self, all: &'p BTreeMap<Kind, Prepared>) -> &'p Prepared {
        self.mixed.as_ref().map_or_else(|| &all[&kind(&self.setting)], |m| &m.prepared)
    }

    /// Which layer of that step each layer of the model is.
    pub fn depth(&self, prepared: &Prepared) -> Vec<u32> {
        self.mixed.as_ref().map_or_else(|| prepared.depth(), |m| m.depth.clone())
    }

    /// The table of a stage.
    pub fn entry_of(&self, stage: usize) -> &Entry {
        self.unlike.as_ref().map_or(&self.entry, |u| &u.entries[u.of[stage]])
    }

    /// The kind of nodes that a stage lies in, where there are several, as [`submeshes::kinds`] numbers them.
    pub fn kind_of(&self, stage: usize) -> Option<u32> {
        self.unlike.as_ref().map(|u| u.kinds[u.of[stage]])
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
    /// The same where they are solved freely.
    pub free_round: usize,
    /// Whether every setting is solved under every hand-made restriction; else the less likely ones only for the best settings.
    pub exhaustive: bool,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { free: 8, work: WORK, threads: 2, round: 16, free_round: 4, exhaustive: false }
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
    search_from(model, settings, effort, BTreeMap::new(), Vec::new())
}

/// The same with steps of the model that are prepared already, and with what is known: what is found is no worse.
pub fn search_from(model: &Model<'_>, settings: &[Setting], effort: &Effort, mut prepared: BTreeMap<Kind, Prepared>, known: Vec<Found>) -> Searched {
    let missing: Vec<Setting> = settings.iter().filter(|s| !prepared.contains_key(&kind(s))).cloned().collect();
    prepared.extend(prepare(model, &missing, effort.threads));
    let settings: Vec<Setting> = settings.iter().filter(|s| prepared.contains_key(&kind(s))).cloned().collect();
    let needed: BTreeSet<Kind> = settings.iter().map(kind).chain(known.iter().map(|f| kind(&f.setting))).collect();
    let grids: BTreeMap<Kind, Grid> =
        prepared.iter().filter(|(k, _)| needed.contains(k)).map(|(&m, p)| (m, Grid::new(&p.step, &p.groups, &model.canonical.interface))).collect();
    // What is known comes after what is searched.
    let searched = settings.len();
    let known: Vec<Found> = known.into_iter().filter(|f| f.mixed.is_none() && prepared.contains_key(&kind(&f.setting))).collect();
    let settings: Vec<Setting> = settings.into_iter().chain(known.iter().map(|f| f.setting.clone())).collect();
    let of = |i: usize| (&prepared[&kind(&settings[i])], &grids[&kind(&settings[i])]);
    let peak: BTreeMap<Kind, f64> = prepared.iter().map(|(&m, p)| (m, bounds::products(p, model.prices))).collect();
    let solo = model.prices.cluster().solo_speedup;
    let at_least = |s: &Setting| bounds::step(s, (peak[&kind(s)] / f64::from(s.mesh.iter().product::<u32>()), 0.0), solo);
    // A pipeline that is filled otherwise may wait for nothing.
    let at_least = |s: &Setting| match model.preset.order(s.schedule) {
        Order::ZeroBubble => peak[&kind(s)] / f64::from(s.mesh.iter().product::<u32>()) * f64::from(s.microbatches) / f64::from(s.stages),
        _ => at_least(s),
    };
    let mut order: Vec<usize> = (0..searched).collect();
    order.sort_by(|&a, &b| at_least(&settings[a]).total_cmp(&at_least(&settings[b])).then(a.cmp(&b)));
    let mut verdicts: Vec<(Setting, Verdict)> = settings.iter().map(|s| (s.clone(), Verdict::Passed)).collect();
    // The fastest that each setting's step could be.
    let mut fastest = vec![0.0; settings.len()];
    let mut best = f64::INFINITY;
    for (i, found) in (searched..).zip(known) {
        best = best.min(found.composed.step.0);
        verdicts[i].1 = Verdict::Found(Box::new(found));
    }
    model.stop.begin("settings", searched);
    // Where roles say how state is cut, recomputing only helps what does not fit without.
    let least_first = !model.preset.is_free();
    if least_first {
        order.sort_by_key(|&i| settings[i].recompute);
    }
    let less = |a: &Setting, b: &Setting| a.recompute < b.recompute && Setting { recompute: b.recompute, ..a.clone() } == *b;
    let rounds = order.chunk_by(|&a, &b| !least_first || settings[a].recompute == settings[b].recompute).flat_map(|alike| alike.chunks(effort.round));
    for round in rounds {
        let fits_with_less = |i: usize| least_first && verdicts.iter().any(|(s, v)| less(s, &settings[i]) && matches!(v, Verdict::Found(_)));
        let round: Vec<usize> = round.iter().copied().filter(|&i| at_least(&settings[i]) < best && !fits_with_less(i)).collect();
        let which = if effort.exhaustive { Grids::All } else { Grids::Likely };
        for (i, (verdict, least)) in
            parallel(&round, effort.threads, &|i| within(model, (Verdict::Passed, 0.0), |v| &v.0, || by_grid(model, &settings[i], of(i), which, best)))
        {
            fastest[i] = least;
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
    if !effort.exhaustive && model.preset.is_free() {
        let near: Vec<usize> = ranked(&verdicts).into_iter().filter(|&i| i < searched).take(effort.free).collect();
        let look = |i: usize| within(model, Verdict::Passed, |v| v, || by_grid(model, &settings[i], of(i), Grids::Others, best).0);
        for (i, verdict) in parallel(&near, effort.threads, &look) {
            verdicts[i].1 = better(verdicts[i].1.clone(), verdict);
        }
    }
    let list = ranked(&verdicts);
    let grid = found(&verdicts, list.first());
    best = grid.as_ref().map_or(best, |g| g.composed.step.0);
    // What did not fit by hand may fit freely: the nearest of those are tried too.
    let mut tried: Vec<usize> = list.into_iter().filter(|&i| settings[i].mesh.len() <= FREE_AXES).take(effort.free).collect();
    let mut unfit: Vec<(Bytes, usize)> =
        verdicts.iter().enumerate().filter_map(|(i, v)| if let Verdict::Memory(b) = v.1 { Some((b, i)) } else { None }).collect();
    // Not those that are known to fit in no way.
    unfit.retain(|&(_, i)| bounds::memory(of(i).0, &settings[i]) <= model.limit.0 as f64);
    unfit.sort();
    tried.extend(unfit.into_iter().map(|u| u.1).take(if tried.is_empty() { effort.free } else { effort.free / 4 }));
    if !model.preset.is_free() {
        tried.clear();
    }
    // Those that could be fastest first, so that others may be passed over.
    tried.sort_by(|&a, &b| fastest[a].total_cmp(&fastest[b]).then(a.cmp(&b)));
    model.stop.begin("best settings", tried.len());
    for round in tried.chunks(effort.free_round.max(1)) {
        for (i, verdict) in parallel(round, effort.threads, &|i| {
            let known = &verdicts[i].1;
            within(model, known.clone(), |v| v, || freely(model, &settings[i], of(i), known, effort.work, best))
        }) {
            if let Verdict::Found(f) = &verdict {
                best = best.min(f.composed.step.0);
            }
            verdicts[i].1 = verdict;
        }
    }
    // What is best and still far from its bound, or was only found by hand, is worth more work.
    let open =
        |i: &usize| matches!(&verdicts[*i].1, Verdict::Found(f) if settings[*i].mesh.len() <= FREE_AXES && (f.zero.is_some() || f.entry.report.gap > OPEN));
    let open: Vec<usize> = if tried.is_empty() { vec![] } else { ranked(&verdicts).into_iter().take(2).filter(open).collect() };
    for (i, verdict) in parallel(&open, effort.threads, &|i| {
        let known = &verdicts[i].1;
        within(model, known.clone(), |v| v, || freely(model, &settings[i], of(i), known, effort.work * MORE, best))
    }) {
        verdicts[i].1 = verdict;
    }
    if model.chunks {
        for (_, verdict) in &mut verdicts {
            if let Verdict::Found(f) = verdict
                && let Some(chunked) = f.chunked.take().filter(|c| c.composed.step < f.composed.step)
            {
                *f = chunked;
            }
        }
    }
    let mut best = found(&verdicts, ranked(&verdicts).first());
    if model.preset.is_free() && model.mixed && !model.stop.now() {
        let fastest = best.as_ref().map_or(f64::INFINITY, |b| b.composed.step.0);
        for found in mixed::found(model, &verdicts, &prepared, fastest, effort.work, effort.threads) {
            if best.as_ref().is_none_or(|b| found.composed.step < b.composed.step) {
                best = Some(found.clone());
            }
            verdicts.push((found.setting.clone(), Verdict::Found(Box::new(found))));
        }
    }
    if model.preset.is_free() && model.unlike && !model.stop.now() {
        for found in submeshes::found(model, &verdicts, &prepared, effort) {
            if best.as_ref().is_none_or(|b| found.composed.step < b.composed.step) {
                best = Some(found);
            }
        }
    }
    Searched { verdicts, prepared, grid, best }
}

/// Meshes of more axes are not solved freely: strategies multiply with every axis.
pub(super) const FREE_AXES: usize = 2;
/// The best two are solved once more where their gap is larger or unknown, with so many times the work.
const OPEN: f64 = 0.01;
const MORE: u64 = 4;

/// The steps of all settings; of the first alone where there is no time.
fn prepare(model: &Model<'_>, settings: &[Setting], threads: usize) -> BTreeMap<Kind, Prepared> {
    let mut modes: BTreeMap<u32, Vec<Recompute>> = BTreeMap::new();
    for s in settings {
        let list = modes.entry(s.microbatches).or_default();
        if !list.contains(&s.recompute) {
            list.push(s.recompute);
        }
    }
    let counts: Vec<(u32, Vec<Recompute>)> = modes.into_iter().collect();
    let made = parallel(&(0..counts.len()).collect::<Vec<_>>(), threads, &|i| {
        if i > 0 && model.stop.now() {
            return vec![];
        }
        let (microbatches, modes) = &counts[i];
        let cut = Cut::new(model.canonical, model.analysis, *microbatches);
        modes.iter().map(|&mode| ((*microbatches, mode), Prepared::recomputing(&cut, mode, model.full, false))).collect::<Vec<_>>()
    });
    made.into_iter().flat_map(|m| m.1).collect()
}

/// Looks at a setting while there is time; what is known of it stands otherwise.
fn within<T>(model: &Model<'_>, known: T, verdict: impl Fn(&T) -> &Verdict, look: impl FnOnce() -> T) -> T {
    if model.stop.now() {
        return known;
    }
    let seen = look();
    model.stop.done(if let Verdict::Found(f) = verdict(&seen) { Some(f.composed.step) } else { None });
    seen
}

/// Runs independent work on some threads, each taking the next piece; results are in the order of the list.
pub(super) fn parallel<T: Send>(list: &[usize], threads: usize, work: &(dyn Fn(usize) -> T + Sync)) -> Vec<(usize, T)> {
    let threads = threads.max(1).min(list.len().max(1));
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        while let Some((k, &i)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|k| Some((k, list.get(k)?))) {
            done.push((k, (i, work(i))));
        }
        done
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let mut all: Vec<(usize, (usize, T))> = handles.into_iter().flat_map(|h| h.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect();
        all.sort_by_key(|x| x.0);
        all.into_iter().map(|x| x.1).collect()
    })
}
