//! Recomputation layer by layer: two modes in one step, and as few layers of each stage in the dearer one as fit in memory.
//!
//! The copies of a run of identical layers are split in two: the first half recomputes as one mode says, the others as another. What crosses between layers
//! keeps the shardings of the setting that was found in the dearer mode, so that layers of both modes can follow each other in any order at the same price. One
//! integer program over both gives what a layer costs in each mode; a stage then takes its first layers in the dearer mode, whose activations live longest
//! (as [`crate::stage::mixture`] does where every layer is planned), and the dynamic program over stages cuts with that in mind.
//! Invariant: a mixture is taken only where it is faster than what was found in one mode.

use super::attempt;
use super::compose::{Composed, Composition, Depth, StageMemory, Unfit, cut, memory};
use super::entry::{Cut, Entry, LayerCost, Prepared};
use super::runs::{Run, expand};
use super::search::{Found, Kind, Model, Verdict, kind, parallel};
use crate::shard::grid::Grid;
use crate::shard::problem::Space;
use crate::stage::Setting;
use ir::plan::Recompute;
use ir::program::{Phase, StageId, in_flight};
use ir::{SecondaryMap, Sharding, TensorType, ValueId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A step in which some layers recompute more than others.
pub struct TwoModes {
    /// The step.
    pub prepared: Prepared,
    /// For every layer of the model the layer of the step that it is where it recomputes less.
    pub less: Vec<u32>,
    /// And where it recomputes more; none for a layer that has one mode alone.
    pub more: Vec<Option<u32>>,
}

impl TwoModes {
    /// Splits the runs of a step between two modes, of which `dearer` of a run's layers are expected to take the dearer; `runs` are those of the step in
    /// one mode. None where no run can be split.
    pub fn new(cut: &Cut, runs: &[Run], modes: (Recompute, Recompute), dearer: f64) -> Option<TwoModes> {
        let (less, more) = modes;
        let count = cut.layers().layers.len() as u32;
        let mut of_layer = vec![less; count as usize];
        let mut split = Vec::new();
        // The first layer that stands for many, and how many layers of the step after it take the dearer mode.
        let mut halves: BTreeMap<u32, u32> = BTreeMap::new();
        for r in runs {
            let (first, copies) = r.tied();
            let layers = r.layers - (r.copies - copies);
            let half = copies / 2;
            if half == 0 {
                continue;
            }
            // What is planned for itself before the others lies in a run's first stage, which is short of memory first.
            of_layer[r.first as usize..(first + half) as usize].fill(more);
            let many = ((f64::from(layers) * dearer) as u32).clamp(half, layers - (copies - half));
            split.push(Run { first, copies: half, layers: many, ends_apart: false });
            split.push(Run { first: first + half, copies: copies - half, layers: layers - many, ends_apart: false });
            halves.insert(first, half);
        }
        if halves.is_empty() {
            return None;
        }
        let prepared = Prepared::mixing(cut, &of_layer, split.clone());
        if prepared.runs != split {
            return None;
        }
        let depth = expand(count, runs);
        Some(TwoModes {
            prepared,
            less: depth.iter().map(|l| halves.get(l).map_or(*l, |half| l + half)).collect(),
            more: depth.iter().map(|l| halves.contains_key(l).then_some(*l)).collect(),
        })
    }
}

/// A value that crosses from one layer to another: its type, and who makes it (group, write).
type Crossing<'p> = (&'p TensorType, (usize, usize));

/// What crosses from each layer in the forward and in the backward, in the order of the graph.
fn crossings(p: &Prepared) -> BTreeMap<(u32, bool), Vec<Crossing<'_>>> {
    let graph = &p.step.graph;
    let mut maker: SecondaryMap<ValueId, Option<(usize, usize)>> = SecondaryMap::new();
    for (g, group) in p.groups.groups.iter().enumerate().filter(|(_, g)| g.output.is_none()) {
        group.writes.iter().enumerate().for_each(|(w, a)| maker[a.value] = Some((g, w)));
    }
    let phase = |g: usize| p.groups.groups[g].ops.first().map(|&o| p.step.phase_of(o)).filter(|f| matches!(f, Phase::Forward | Phase::Backward));
    let mut crosses: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (g, group) in p.groups.groups.iter().enumerate().filter(|(g, _)| phase(*g).is_some()) {
        let makers = group.reads.iter().filter_map(|r| maker[r.value]);
        crosses.extend(makers.filter(|&(from, _)| phase(from).is_some() && p.layer_of[from] != p.layer_of[g]));
    }
    let mut out: BTreeMap<(u32, bool), Vec<Crossing<'_>>> = BTreeMap::new();
    for (g, w) in crosses {
        if let Some(l) = p.layer_of[g] {
            let ty = graph.ty(p.groups.groups[g].writes[w].value);
            out.entry((l, phase(g) == Some(Phase::Backward))).or_default().push((ty, (g, w)));
        }
    }
    out
}

/// How what crosses between layers is sharded in a step that was solved, said of the groups that make it in another step of the same layers: (group, write) and
/// the sharding. None where unlike values cross.
pub(super) fn borders(solved: &Prepared, space: &Space<'_>, picks: &[usize], other: &Prepared) -> Option<BTreeMap<usize, Vec<(usize, Sharding)>>> {
    let (from, to) = (crossings(solved), crossings(other));
    let inputs = solved.step.inputs.len();
    let mut out: BTreeMap<usize, Vec<(usize, Sharding)>> = BTreeMap::new();
    for (key, list) in &to {
        let known = from.get(key)?;
        if known.len() != list.len() || known.iter().zip(list).any(|(a, b)| a.0 != b.0) {
            return None;
        }
        for (&(_, (g, w)), &(_, (group, write))) in known.iter().zip(list) {
            let sharding = space.groups[g][picks[inputs + g]].writes[w].clone();
            out.entry(group).or_default().push((write, sharding));
        }
    }
    Some(out)
}

/// A plan's step where its layers recompute by two modes.
pub struct Mixed {
    /// The step.
    pub prepared: Prepared,
    /// Which layer of the step each layer of the model is.
    pub depth: Vec<u32>,
    /// How many layers of the model take the dearer mode, the setting's.
    pub dearer: u32,
    /// What the others take.
    pub less: Recompute,
}

impl std::fmt::Debug for Mixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mixed").field("depth", &self.depth).field("dearer", &self.dearer).field("less", &self.less).finish_non_exhaustive()
    }
}

/// Cuts the model's layers into stages, where layers may take a dearer mode: `more` says for each layer of the model which layer of the step it is then. In
/// every stage the first layers that can take it do, as few as make the stage fit. Also which layer of the step each then is.
///
/// Exact for that rule: the slowest stage is the fastest over all contiguous cuts.
///
/// # Errors
/// Says whether layers or memory are missing; with several chunks per stage, layers.
pub fn compose(entry: &Entry, what: &Composition<'_>, more: &[Option<u32>]) -> Result<(Composed, Vec<u32>), Unfit> {
    let depth = Depth::new(entry, what);
    let stages = what.stages as usize;
    if depth.layers.len() < stages || what.order.chunks() > 1 {
        return Err(Unfit::TooFewLayers);
    }
    let dear: Vec<Option<&LayerCost>> = more.iter().map(|l| l.map(|l| &entry.layers[l as usize])).collect();
    let choice = Choice { depth: &depth, dear };
    let cuts = cut(&depth.layers, stages, &|s, a, b| choice.least(s, a, b).map(|n| choice.extra(a, b, n)));
    let Some(cuts) = cuts else { return Err(Unfit::Memory(vec![], vec![])) };
    let mut of = what.depth.to_vec();
    for (s, &(a, b)) in cuts.iter().enumerate() {
        let few = choice.least(s, a, b).unwrap_or(0);
        choice.able(a, b).take(few).for_each(|l| of[l] = more[l].unwrap_or(of[l]));
    }
    let chosen = Composition { depth: &of, ..*what };
    let composed = Depth::new(entry, &chosen).price(&cuts);
    Ok((composed, of))
}

struct Choice<'a> {
    depth: &'a Depth<'a>,
    dear: Vec<Option<&'a LayerCost>>,
}

impl Choice<'_> {
    /// Layers of a stage that can take the dearer mode.
    fn able(&self, a: usize, b: usize) -> impl Iterator<Item = usize> + '_ {
        (a..b).filter(|&l| self.dear[l].is_some())
    }

    /// How much longer a stage takes for a microbatch when its first `n` layers that can take the dearer mode do.
    fn extra(&self, a: usize, b: usize, n: usize) -> f64 {
        let time = |l: &LayerCost| l.forward + l.backward;
        self.able(a, b).take(n).map(|l| self.dear[l].map_or(0.0, time) - time(self.depth.layers[l])).sum()
    }

    /// How many layers of stage `s` take the dearer mode at least so that it fits; none where no number is enough.
    fn least(&self, s: usize, a: usize, b: usize) -> Option<usize> {
        let (what, limit) = (self.depth.what, self.depth.what.limit.0 as f64);
        let flight = in_flight(what.order.base(), StageId(s as u32), what.stages, what.microbatches);
        let copies = self.depth.copies(a, b);
        let mut list: Vec<&LayerCost> = self.depth.layers[a..b].to_vec();
        let fits = |list: &[&LayerCost]| {
            let m: StageMemory = memory(list.iter().copied(), &self.depth.entry.everywhere, flight, what.microbatches);
            m.total() + 2.0 * copies <= limit
        };
        if fits(&list) {
            return Some(0);
        }
        // What no number of layers can save need not be tried.
        let all: Vec<&LayerCost> = (a..b).map(|l| self.dear[l].unwrap_or(self.depth.layers[l])).collect();
        let sum = |list: &[&LayerCost]| list.iter().map(|l| l.resident + if what.microbatches > 1 { l.gradients } else { 0.0 }).sum::<f64>();
        if sum(&all).min(sum(&list)) > limit {
            return None;
        }
        for (n, l) in self.able(a, b).enumerate() {
            list[l - a] = all[l - a];
            if fits(&list) {
                return Some(n + 1);
            }
        }
        None
    }
}

/// How many of the best settings that recompute are tried with fewer layers that do.
const TRIED: usize = 3;

/// What is faster than `best` seconds where some layers recompute less than a setting says: for the best of the settings that recompute at all.
pub(super) fn found(
    model: &Model<'_>,
    verdicts: &[(Setting, Verdict)],
    prepared: &BTreeMap<Kind, Prepared>,
    best: f64,
    work: u64,
    threads: usize,
) -> Vec<Found> {
    let mut list: Vec<&Found> = verdicts.iter().filter_map(|v| if let Verdict::Found(f) = &v.1 { Some(&**f) } else { None }).collect();
    list.retain(|f| f.setting.recompute > Recompute::None && f.setting.schedule.chunks() == 1);
    list.sort_by(|a, b| a.composed.step.0.total_cmp(&b.composed.step.0));
    list.truncate(TRIED);
    let less = |f: &&Found| -> Vec<Recompute> { Recompute::ALL.into_iter().filter(|&l| l < f.setting.recompute).collect() };
    // Where all layers fit in the cheaper mode and memory decides nothing, no layer needs the dearer one.
    let fits = |f: &Found, less: Recompute| {
        let same = Setting { recompute: less, ..f.setting.clone() };
        verdicts.iter().any(|(s, v)| *s == same && matches!(v, Verdict::Found(f) if f.memoryless))
    };
    let jobs: Vec<(&Found, Recompute)> = list.iter().flat_map(|f| less(f).into_iter().filter(|&l| !fits(f, l)).map(|l| (*f, l)).collect::<Vec<_>>()).collect();
    let job = |i: usize| -> Option<Found> {
        let (f, less) = jobs[i];
        if model.stop.now() {
            return None;
        }
        let runs = &prepared.get(&(f.setting.microbatches, less))?.runs;
        let cut = Cut::new(model.canonical, model.analysis, f.setting.microbatches);
        let two = TwoModes::new(&cut, runs, (less, f.setting.recompute), 0.5)?;
        let grid = Grid::new(&two.prepared.step, &two.prepared.groups, &model.canonical.interface);
        let of_found = &prepared[&kind(&f.setting)];
        let grid_of_found = Grid::new(&of_found.step, &of_found.groups, &model.canonical.interface);
        let (entry, composed, depth) = attempt::mixed(model, f, (of_found, &grid_of_found), (&two, &grid), best, work)?;
        let dearer = depth.iter().filter(|l| two.prepared.layers.layers[**l as usize].recompute == f.setting.recompute).count() as u32;
        let mixed = Mixed { prepared: two.prepared, depth, dearer, less };
        let zero = f.zero.filter(|_| entry.by_hand);
        Some(Found { entry, composed, zero, unlike: None, chunked: None, memoryless: false, mixed: Some(Arc::new(mixed)), ..f.clone() })
    };
    parallel(&(0..jobs.len()).collect::<Vec<_>>(), threads, &job).into_iter().filter_map(|found| found.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::order::Order;
    use ir::plan::SolveReport;
    use ir::{Bytes, Mesh};
    use proptest::prelude::*;

    /// Layer `i` of the model is layer `2 i` of the step, or `2 i + 1` where it recomputes.
    fn entry(costs: &[(f64, f64, f64)]) -> Entry {
        let of = |&(time, saved, again): &(f64, f64, f64)| {
            let cheap =
                LayerCost { forward: time, backward: 2.0 * time, saved: 50.0 * saved, resident: 10.0, gradients: 2.0, transient: 5.0, ..LayerCost::default() };
            [cheap, LayerCost { backward: (2.0 + again) * time, saved: 10.0 * saved, transient: 9.0, ..cheap }]
        };
        let layers = costs.iter().flat_map(of).collect();
        Entry { mesh: Mesh::new(&[1]), layers, everywhere: LayerCost::default(), shared: vec![], picks: vec![], by_hand: false, report: SolveReport::default() }
    }

    fn cuts(layers: usize, stages: usize, from: usize) -> Vec<Vec<(usize, usize)>> {
        if stages == 1 {
            return vec![vec![(from, layers)]];
        }
        (from + 1..=layers - (stages - 1)).flat_map(|end| cuts(layers, stages - 1, end).into_iter().map(move |r| [vec![(from, end)], r].concat())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
        /// No cut in which every stage's first layers recompute, as few or as many as one likes, has a faster slowest stage and fits.
        #[test]
        fn no_cut_with_any_number_of_dearer_layers_is_better(
            costs in prop::collection::vec((0.1f64..1.0, 0.1f64..1.0, 0.1f64..1.0), 2..7),
            able in prop::collection::vec(any::<bool>(), 7),
            stages in 1u32..4,
            microbatches in 1u32..6,
            limit in 30u64..600,
        ) {
            let stages = stages.min(costs.len() as u32);
            let e = entry(&costs);
            let less: Vec<u32> = (0..costs.len() as u32).map(|l| 2 * l).collect();
            let more: Vec<Option<u32>> = less.iter().zip(&able).map(|(&l, &able)| able.then_some(l + 1)).collect();
            let what = Composition { depth: &less, stages, microbatches, order: Order::OneFOneB, limit: Bytes(limit), solo_speedup: 1.0 };
            // The fastest a stage can be made to fit.
            let stage = |s: usize, (a, b): (usize, usize)| {
                let able: Vec<usize> = (a..b).filter(|&l| more[l].is_some()).collect();
                let flight = in_flight(what.order.base(), StageId(s as u32), stages, microbatches);
                (0..=able.len()).filter_map(|n| {
                    let list: Vec<&LayerCost> = (a..b).map(|l| &e.layers[if able[..n].contains(&l) { 2 * l + 1 } else { 2 * l }]).collect();
                    let fits = memory(list.iter().copied(), &e.everywhere, flight, microbatches).total() <= limit as f64;
                    fits.then(|| list.iter().map(|l| l.forward + l.backward).sum::<f64>())
                }).reduce(f64::min)
            };
            let best = cuts(costs.len(), stages as usize, 0).iter()
                .filter_map(|cut| cut.iter().enumerate().map(|(s, &c)| stage(s, c)).try_fold(0.0f64, |m, t| Some(m.max(t?))))
                .reduce(f64::min);
            match (compose(&e, &what, &more), best) {
                (Ok((composed, depth)), Some(best)) => {
                    let slowest = composed.times.iter().map(|t| t.forward.0 + t.backward.0).fold(0.0, f64::max);
                    prop_assert!((slowest - best).abs() < 1e-9, "{slowest} against {best}");
                    prop_assert!(composed.memory.iter().all(|m| m.total() <= limit as f64 + 1e-9));
                    prop_assert!(depth.iter().zip(&less).zip(&more).all(|((d, l), m)| d == l || Some(*d) == *m));
                }
                (Err(_), None) => {}
                (found, best) => prop_assert!(false, "{found:?} against {best:?}"),
            }
        }
    }
}
