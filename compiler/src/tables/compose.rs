//! Stages from a table: which layers each takes, whether they fit, and how long a step is.
//!
//! Exact for the model that is written down: a stage's times and bytes are sums over its layers, its transient is the largest of them, stages have meshes of one
//! shape. The slowest stage is minimised over all contiguous cuts that fit, then what crosses (as in [`crate::stage::cuts`], with memory).

use super::entry::{Entry, LayerCost};
use crate::schedule::fast::duration;
use crate::schedule::simulate::{Pipeline, Stage};
use crate::stage::cuts;
use ir::plan::{CutAlternative, StageTimes};
use ir::program::{ScheduleKind, StageId, in_flight};
use ir::{Bytes, Seconds};

/// A pipeline over the model's layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Composed {
    /// Layers of the model of every stage: first and one past the last.
    pub cuts: Vec<(u32, u32)>,
    /// Times of every stage.
    pub times: Vec<StageTimes>,
    /// Bytes of every stage's device.
    pub memory: Vec<StageMemory>,
    /// The step.
    pub step: Seconds,
    /// Share of the devices' time in which they wait.
    pub bubble: f64,
}

/// Where a stage's bytes go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageMemory {
    /// Parameters, optimizer state, data, and what is computed before the microbatches.
    pub resident: f64,
    /// Gradients.
    pub gradients: f64,
    /// Activations of the microbatches in flight.
    pub saved: f64,
    /// The largest transient.
    pub transient: f64,
}

impl StageMemory {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.resident + self.gradients + self.saved + self.transient
    }
}

/// What to compose.
#[derive(Clone, Copy, Debug)]
pub struct Composition<'a> {
    /// For every layer of the model the layer of the step that stands for it.
    pub depth: &'a [u32],
    /// Stages.
    pub stages: u32,
    /// Microbatches.
    pub microbatches: u32,
    /// Their order.
    pub schedule: ScheduleKind,
    /// Bytes of a device.
    pub limit: Bytes,
    /// How many times faster a device is while all others idle.
    pub solo_speedup: f64,
}

/// Why nothing was composed.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfit {
    /// There are fewer layers than stages.
    TooFewLayers,
    /// No cut fits; what the cut by time alone would be, and would need.
    Memory(Vec<(u32, u32)>, Vec<StageMemory>),
}

/// Memory of layers `cost` with so many microbatches in flight: what is kept adds up, and the peak is the worst moment of the backward, where the
/// activations of layers done with are gone and their gradients are there.
pub fn memory<'c>(layers: impl Iterator<Item = &'c LayerCost> + Clone, everywhere: &LayerCost, in_flight: u32, microbatches: u32) -> StageMemory {
    let flight = f64::from(in_flight);
    let mut sum = StageMemory { resident: everywhere.resident, gradients: everywhere.gradients, saved: everywhere.saved * flight, transient: 0.0 };
    for l in layers.clone() {
        sum.resident += l.resident;
        sum.gradients += l.gradients;
        sum.saved += l.saved * flight;
        sum.transient = sum.transient.max(l.transient);
    }
    if microbatches > 1 {
        return sum;
    }
    // One microbatch: gradients appear as activations go.
    let (mut saved, mut gradients) = (sum.saved, everywhere.gradients);
    let mut worst = StageMemory { saved, gradients, ..sum };
    let mut list: Vec<&LayerCost> = layers.collect();
    list.reverse();
    for l in list {
        gradients += l.gradients;
        let now = StageMemory { resident: sum.resident, gradients, saved, transient: l.transient };
        if now.total() > worst.total() || worst.transient == sum.transient && worst.gradients == everywhere.gradients {
            worst = now;
        }
        saved -= l.saved;
    }
    worst
}

/// Cuts the model's layers into stages.
///
/// # Errors
/// Says whether layers or memory are missing.
pub fn compose(entry: &Entry, what: &Composition<'_>) -> Result<Composed, Unfit> {
    let depth = Depth::new(entry, what);
    let stages = what.stages as usize;
    if depth.layers.len() < stages {
        return Err(Unfit::TooFewLayers);
    }
    let cuts = cut(&depth.layers, stages, &|s, a, b| depth.need(s, a, b).total() <= what.limit.0 as f64);
    let Some(cuts) = cuts else {
        let by_time = cut(&depth.layers, stages, &|_, _, _| true).ok_or(Unfit::TooFewLayers)?;
        let memory = by_time.iter().enumerate().map(|(s, &(a, b))| depth.need(s, a, b)).collect();
        return Err(Unfit::Memory(by_time.iter().map(|&(a, b)| (a as u32, b as u32)).collect(), memory));
    };
    Ok(depth.price(&cuts))
}

/// The model's layers with their costs, asked about ranges of them.
struct Depth<'a> {
    entry: &'a Entry,
    what: &'a Composition<'a>,
    layers: Vec<&'a LayerCost>,
    /// Copies of parameters whose home is in another stage: home, reader, bytes, seconds to send.
    shared: Vec<(usize, usize, f64, f64)>,
}

impl<'a> Depth<'a> {
    fn new(entry: &'a Entry, what: &'a Composition<'a>) -> Depth<'a> {
        let place = |l: u32| what.depth.iter().position(|&d| d == l).unwrap_or(0);
        let shared = entry.shared.iter().map(|x| (place(x.home), place(x.reader), x.bytes, x.send)).collect();
        Depth { entry, what, layers: what.depth.iter().map(|&l| &entry.layers[l as usize]).collect(), shared }
    }

    /// Bytes of the copies that a stage of layers `a..b` keeps, and seconds to send them.
    fn copies(&self, a: usize, b: usize) -> (f64, f64) {
        let here = self.shared.iter().filter(|(home, reader, ..)| (a..b).contains(reader) && !(a..b).contains(home));
        here.fold((0.0, 0.0), |sum, x| (sum.0 + x.2, sum.1 + x.3))
    }

    /// Bytes of stage `s` with layers `a..b`.
    fn need(&self, s: usize, a: usize, b: usize) -> StageMemory {
        let what = self.what;
        let flight = in_flight(what.schedule, StageId(s as u32), what.stages, what.microbatches);
        let mut m = memory(self.layers[a..b].iter().copied(), &self.entry.everywhere, flight, what.microbatches);
        let bytes = self.copies(a, b).0;
        m.resident += bytes;
        m.gradients += bytes;
        m
    }

    /// Times, bytes and step of stages that are given.
    fn price(&self, cuts: &[(usize, usize)]) -> Composed {
        let Depth { entry, what, layers, .. } = self;
        let stages = cuts.len();
        let memory: Vec<StageMemory> = cuts.iter().enumerate().map(|(s, &(a, b))| self.need(s, a, b)).collect();
        let times: Vec<StageTimes> = cuts
            .iter()
            .map(|&(a, b)| {
                let sum = |f: &dyn Fn(&LayerCost) -> f64| Seconds(layers[a..b].iter().map(|l| f(l)).sum::<f64>() + f(&entry.everywhere));
                let send = Seconds(self.copies(a, b).1);
                StageTimes { before: sum(&|l| l.before) + send, forward: sum(&|l| l.forward), backward: sum(&|l| l.backward), after: sum(&|l| l.after) + send }
            })
            .collect();
        let list: Vec<Stage> = times
            .iter()
            .zip(cuts)
            .enumerate()
            .map(|(s, (&times, &(a, b)))| Stage {
                times,
                devices: entry.mesh.devices(),
                send_forward: Seconds(if s + 1 < stages { layers[b - 1].crossing.0 } else { 0.0 }),
                send_backward: Seconds(if s > 0 { layers[a - 1].crossing.1 } else { 0.0 }),
                weights: Seconds(0.0),
            })
            .collect();
        let pipeline = Pipeline { order: what.schedule.into(), microbatches: what.microbatches, stages: &list, solo_speedup: what.solo_speedup };
        let step = duration(&pipeline);
        let busy: f64 = times.iter().map(|t| t.before.0 + t.after.0 + f64::from(what.microbatches) * (t.forward.0 + t.backward.0)).sum();
        let bubble = (1.0 - busy / (step.0 * f64::from(what.stages)).max(f64::MIN_POSITIVE)).max(0.0);
        Composed { cuts: cuts.iter().map(|&(a, b)| (a as u32, b as u32)).collect(), times, memory, step, bubble }
    }
}

/// For every stage, where else its first layer could be while the other cuts stay, with the step that results.
pub fn moves(entry: &Entry, what: &Composition<'_>, composed: &Composed) -> Vec<Vec<CutAlternative>> {
    let cuts: Vec<(usize, usize)> = composed.cuts.iter().map(|&(a, b)| (a as usize, b as usize)).collect();
    let slower = |c: &Composed, s: usize| {
        let micro = |t: &StageTimes| t.forward.0 + t.backward.0;
        Seconds(micro(&c.times[s - 1]).max(micro(&c.times[s])))
    };
    let depth = Depth::new(entry, what);
    (0..cuts.len())
        .map(|s| {
            cuts::around(&cuts, s)
                .map(|moved| {
                    let at = moved[s].0;
                    let c = depth.price(&moved);
                    let bytes = Bytes(c.memory[s - 1].total().max(c.memory[s].total()) as u64);
                    let verdict = match () {
                        () if at == cuts[s].0 => "taken".into(),
                        () if bytes > what.limit => format!("needs {bytes}, and a device has {}", what.limit),
                        () => cuts::verdict((c.step, slower(&c, s)), (composed.step, slower(composed, s))),
                    };
                    let crossing = depth.layers[at - 1].crossing;
                    CutAlternative {
                        layer: at as u32,
                        step: c.step,
                        slower: slower(&c, s),
                        crossing: Seconds(crossing.0 + crossing.1),
                        memory: Some(bytes),
                        verdict,
                    }
                })
                .collect()
        })
        .collect()
}

/// The contiguous ranges that fit and whose slowest is fastest; then those with the least crossing.
fn cut(layers: &[&LayerCost], stages: usize, fits: &dyn Fn(usize, usize, usize) -> bool) -> Option<Vec<(usize, usize)>> {
    let n = layers.len();
    let mut prefix = vec![0.0; n + 1];
    for l in 0..n {
        prefix[l + 1] = prefix[l] + layers[l].forward + layers[l].backward;
    }
    // best[s][l]: layers l.. in the last stages s..: (slowest, crossing, end of the first).
    let mut best = vec![vec![(f64::INFINITY, f64::INFINITY, n); n + 1]; stages + 1];
    best[stages][n] = (0.0, 0.0, n);
    for s in (0..stages).rev() {
        let after = stages - 1 - s;
        for l in s..n - after {
            if s == 0 && l > 0 {
                break;
            }
            for end in l + 1..=n - after {
                let rest = best[s + 1][end];
                let crossing = if end < n { layers[end - 1].crossing.0 + layers[end - 1].crossing.1 } else { 0.0 };
                let own = prefix[end] - prefix[l] + crossing;
                let candidate = (own.max(rest.0), crossing + rest.1, end);
                if own > best[s][l].0 {
                    // Longer ranges are only slower.
                    break;
                }
                if rest.0.is_finite() && (candidate.0, candidate.1) < (best[s][l].0, best[s][l].1) {
                    if !fits(s, l, end) {
                        break;
                    }
                    best[s][l] = candidate;
                }
            }
        }
    }
    let mut cuts = Vec::with_capacity(stages);
    let mut at = 0;
    for row in best.iter().take(stages) {
        let (slowest, _, end) = row[at];
        if slowest.is_infinite() {
            return None;
        }
        cuts.push((at, end));
        at = end;
    }
    Some(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::Mesh;
    use ir::plan::SolveReport;
    use proptest::prelude::*;

    fn entry(costs: &[(f64, f64, f64, f64)]) -> Entry {
        let layers = costs
            .iter()
            .map(|&(time, resident, saved, transient)| LayerCost {
                forward: time,
                backward: 2.0 * time,
                resident: 100.0 * resident,
                gradients: 20.0 * resident,
                saved: 50.0 * saved,
                transient: 30.0 * transient,
                crossing: (0.01 * time, 0.02 * time),
                ..LayerCost::default()
            })
            .collect();
        Entry { mesh: Mesh::new(&[1]), layers, everywhere: LayerCost::default(), shared: vec![], picks: vec![], report: SolveReport::default() }
    }

    /// Every way to cut `from..layers` into `stages`.
    fn all(layers: usize, stages: usize, from: usize) -> Vec<Vec<(usize, usize)>> {
        if stages == 1 {
            return vec![vec![(from, layers)]];
        }
        (from + 1..=layers - (stages - 1))
            .flat_map(|end| all(layers, stages - 1, end).into_iter().map(move |rest| [vec![(from, end)], rest].concat()))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
        /// No cut that fits has a faster slowest stage, and if none was found none fits.
        #[test]
        fn no_cut_that_fits_is_better(
            costs in prop::collection::vec((0.1f64..1.0, 0.1f64..1.0, 0.1f64..1.0, 0.1f64..1.0), 2..8),
            stages in 1u32..5,
            microbatches in 1u32..6,
            limit in 50u64..1500,
        ) {
            let stages = stages.min(costs.len() as u32);
            let e = entry(&costs);
            let depth: Vec<u32> = (0..costs.len() as u32).collect();
            let what = Composition { depth: &depth, stages, microbatches, schedule: ScheduleKind::OneFOneB, limit: Bytes(limit), solo_speedup: 1.0 };
            let need = |s: usize, a: usize, b: usize| memory(e.layers[a..b].iter(), &e.everywhere, in_flight(what.schedule, StageId(s as u32), stages, microbatches), microbatches).total();
            let slowest = |cut: &[(usize, usize)]| cut.iter().map(|&(a, b)| {
                e.layers[a..b].iter().map(|l| l.forward + l.backward).sum::<f64>() + if b < costs.len() { e.layers[b - 1].crossing.0 + e.layers[b - 1].crossing.1 } else { 0.0 }
            }).fold(0.0, f64::max);
            let best = all(costs.len(), stages as usize, 0).into_iter()
                .filter(|cut| cut.iter().enumerate().all(|(s, &(a, b))| need(s, a, b) <= limit as f64))
                .map(|cut| slowest(&cut)).reduce(f64::min);
            match (compose(&e, &what), best) {
                (Ok(found), Some(best)) => {
                    let cut: Vec<(usize, usize)> = found.cuts.iter().map(|&(a, b)| (a as usize, b as usize)).collect();
                    prop_assert!((slowest(&cut) - best).abs() < 1e-12);
                    prop_assert!(found.memory.iter().all(|m| m.total() <= limit as f64));
                }
                (Err(_), None) => {}
                (found, best) => prop_assert!(false, "{found:?} against {best:?}"),
            }
        }
    }
}
