//! Stages from a table: which layers each takes, whether they fit, and how long a step is.
//!
//! Exact for the model that is written down: a stage's times and bytes are sums over its layers, its transient is the largest of them, stages have meshes of one
//! shape. The slowest stage is minimised over all contiguous cuts that fit, then what crosses (as in [`crate::stage::cuts`], with memory). Where stages hold
//! several chunks, the pieces are cut by time alone and the memory of each stage's chunks together is checked after.

use super::entry::{Entry, LayerCost};
use crate::schedule::fast::duration;
use crate::schedule::order::Order;
use crate::schedule::simulate::{Pipeline, Stage};
use crate::stage::cuts;
use ir::plan::{CutAlternative, StageTimes};
use ir::program::{StageId, in_flight, in_flight_of_chunk};
use ir::{Bytes, Seconds};

/// A pipeline over the model's layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Composed {
    /// Layers of the model of every stage: first and one past the last. With several chunks per stage each chunk counts as a stage here: piece `p` is
    /// chunk `p / stages` of stage `p mod stages`.
    pub cuts: Vec<(u32, u32)>,
    /// Times of every stage.
    pub times: Vec<StageTimes>,
    /// Bytes of every stage's device; of all chunks that it holds.
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

    /// The bytes of two chunks on one device; one of them computes at a time.
    fn beside(self, other: StageMemory) -> StageMemory {
        StageMemory {
            resident: self.resident + other.resident,
            gradients: self.gradients + other.gradients,
            saved: self.saved + other.saved,
            transient: self.transient.max(other.transient),
        }
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
    pub order: Order,
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

/// What a stage is made of: its layers, with what each costs where the stage is.
#[derive(Clone, Debug)]
pub struct StageCosts<'a> {
    /// Its layers of the model: the first and one past the last.
    pub range: (usize, usize),
    /// What each costs.
    pub layers: Vec<&'a LayerCost>,
    /// What it does beside them, unless another chunk of the same stage does.
    pub everywhere: Option<&'a LayerCost>,
    /// Bytes of the copies of parameters whose home is in another stage, and seconds to send them.
    pub copies: (f64, f64),
    /// What crosses back to the layer before it, per microbatch.
    pub back: f64,
    /// Its devices.
    pub devices: u32,
}

impl<'a> StageCosts<'a> {
    /// Layers `a..b` of a model by one table, of which `shared` are read away from home.
    pub fn of(entry: &'a Entry, depth: &[u32], shared: &SharedOfModel, (a, b): (usize, usize)) -> StageCosts<'a> {
        StageCosts {
            range: (a, b),
            layers: depth[a..b].iter().map(|&l| &entry.layers[l as usize]).collect(),
            everywhere: Some(&entry.everywhere),
            copies: copies(shared, a, b),
            back: if a > 0 { entry.layers[depth[a - 1] as usize].crossing.1 } else { 0.0 },
            devices: entry.mesh.devices(),
        }
    }

    /// The same as a chunk of its stage: what a stage does beside its layers is the first chunk's.
    #[must_use]
    pub fn of_chunk(self, chunk: u32) -> StageCosts<'a> {
        StageCosts { everywhere: self.everywhere.filter(|_| chunk == 0), ..self }
    }

    /// Its bytes with so many microbatches in flight.
    pub fn memory(&self, in_flight: u32, microbatches: u32) -> StageMemory {
        let mut m = memory(self.layers.iter().copied(), self.everywhere.unwrap_or(&LayerCost::default()), in_flight, microbatches);
        m.resident += self.copies.0;
        m.gradients += self.copies.0;
        m
    }

    fn times(&self) -> StageTimes {
        let sum = |f: &dyn Fn(&LayerCost) -> f64| Seconds(self.layers.iter().map(|l| f(l)).sum::<f64>() + self.everywhere.map_or(0.0, f));
        let send = Seconds(self.copies.1);
        StageTimes { before: sum(&|l| l.before) + send, forward: sum(&|l| l.forward), backward: sum(&|l| l.backward), after: sum(&|l| l.after) + send }
    }
}

/// Times, bytes and step of stages that are given, or of the chunks of stages in the order of the way through the model.
pub fn price(list: &[StageCosts<'_>], order: Order, microbatches: u32, solo_speedup: f64) -> Composed {
    let schedule = order.base();
    let count = list.len();
    let lanes = count / schedule.chunks() as usize;
    let flight = |p: usize| in_flight_of_chunk(schedule, StageId((p % lanes) as u32), (p / lanes) as u32, lanes as u32, microbatches);
    let held = |lane: usize| {
        let chunks = (lane..count).step_by(lanes).map(|p| list[p].memory(flight(p), microbatches));
        chunks.reduce(StageMemory::beside).unwrap_or_default()
    };
    let memory: Vec<StageMemory> = (0..count).map(|p| held(p % lanes)).collect();
    let times: Vec<StageTimes> = list.iter().map(StageCosts::times).collect();
    let stages: Vec<Stage> = list
        .iter()
        .zip(&times)
        .enumerate()
        .map(|(s, (stage, &times))| Stage {
            times,
            devices: stage.devices,
            send_forward: Seconds(stage.layers.last().filter(|_| s + 1 < count).map_or(0.0, |l| l.crossing.0)),
            send_backward: Seconds(if s > 0 { stage.back } else { 0.0 }),
            weights: Seconds(stage.layers.iter().map(|l| l.weights).sum()),
        })
        .collect();
    let step = duration(&Pipeline { order, microbatches, stages: &stages, solo_speedup });
    let seconds = |t: &StageTimes| t.before.0 + t.after.0 + f64::from(microbatches) * (t.forward.0 + t.backward.0);
    let busy: f64 = list.iter().zip(&times).map(|(stage, t)| f64::from(stage.devices) * seconds(t)).sum();
    let devices: f64 = list[..lanes].iter().map(|stage| f64::from(stage.devices)).sum();
    let bubble = (1.0 - busy / (step.0 * devices).max(f64::MIN_POSITIVE)).max(0.0);
    Composed { cuts: list.iter().map(|s| (s.range.0 as u32, s.range.1 as u32)).collect(), times, memory, step, bubble }
}

/// Parameters that are read away from home, by layers of the model: home, reader, bytes, seconds to send.
pub type SharedOfModel = Vec<(usize, usize, f64, f64)>;

/// The parameters of a table that are, in a model of this depth.
pub fn shared(entry: &Entry, depth: &[u32]) -> SharedOfModel {
    let place = |l: u32| depth.iter().position(|&d| d == l).unwrap_or(0);
    entry.shared.iter().map(|x| (place(x.home), place(x.reader), x.bytes, x.send)).collect()
}

/// Bytes of the copies that a stage of layers `a..b` keeps, and seconds to send them.
fn copies(shared: &SharedOfModel, a: usize, b: usize) -> (f64, f64) {
    let here = shared.iter().filter(|(home, reader, ..)| (a..b).contains(reader) && !(a..b).contains(home));
    here.fold((0.0, 0.0), |sum, x| (sum.0 + x.2, sum.1 + x.3))
}

/// Cuts the model's layers into stages.
///
/// # Errors
/// Says whether layers or memory are missing.
pub fn compose(entry: &Entry, what: &Composition<'_>) -> Result<Composed, Unfit> {
    let depth = Depth::new(entry, what);
    let stages = what.stages as usize;
    let pieces = stages * what.order.chunks() as usize;
    if depth.layers.len() < pieces {
        return Err(Unfit::TooFewLayers);
    }
    if pieces > stages {
        let cuts = cut(&depth.layers, pieces, &|_, _, _| Some(0.0)).ok_or(Unfit::TooFewLayers)?;
        let composed = depth.price(&cuts);
        let fits = composed.memory.iter().all(|m| m.total() <= what.limit.0 as f64);
        return if fits { Ok(composed) } else { Err(Unfit::Memory(composed.cuts, composed.memory)) };
    }
    let cuts = cut(&depth.layers, stages, &|s, a, b| (depth.need(s, a, b).total() <= what.limit.0 as f64).then_some(0.0));
    let Some(cuts) = cuts else {
        let by_time = cut(&depth.layers, stages, &|_, _, _| Some(0.0)).ok_or(Unfit::TooFewLayers)?;
        let memory = by_time.iter().enumerate().map(|(s, &(a, b))| depth.need(s, a, b)).collect();
        return Err(Unfit::Memory(by_time.iter().map(|&(a, b)| (a as u32, b as u32)).collect(), memory));
    };
    Ok(depth.price(&cuts))
}

/// The model's layers with their costs, asked about ranges of them.
pub(super) struct Depth<'a> {
    pub(super) entry: &'a Entry,
    pub(super) what: &'a Composition<'a>,
    pub(super) layers: Vec<&'a LayerCost>,
    shared: SharedOfModel,
}

impl<'a> Depth<'a> {
    pub(super) fn new(entry: &'a Entry, what: &'a Composition<'a>) -> Depth<'a> {
        let layers = what.depth.iter().map(|&l| &entry.layers[l as usize]).collect();
        Depth { entry, what, layers, shared: shared(entry, what.depth) }
    }

    /// Bytes of stage `s` with layers `a..b`.
    fn need(&self, s: usize, a: usize, b: usize) -> StageMemory {
        let what = self.what;
        let flight = in_flight(what.order.base(), StageId(s as u32), what.stages, what.microbatches);
        let mut m = memory(self.layers[a..b].iter().copied(), &self.entry.everywhere, flight, what.microbatches);
        let bytes = copies(&self.shared, a, b).0;
        m.resident += bytes;
        m.gradients += bytes;
        m
    }

    /// Bytes of the copies of parameters that a stage of layers `a..b` reads away from their home; their gradients take as many.
    pub(super) fn copies(&self, a: usize, b: usize) -> f64 {
        copies(&self.shared, a, b).0
    }

    /// Times, bytes and step of stages that are given.
    pub(super) fn price(&self, cuts: &[(usize, usize)]) -> Composed {
        let list: Vec<StageCosts<'_>> =
            (0..).zip(cuts).map(|(p, &cut)| StageCosts::of(self.entry, self.what.depth, &self.shared, cut).of_chunk(p / self.what.stages)).collect();
        price(&list, self.what.order, self.what.microbatches, self.what.solo_speedup)
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

/// The contiguous ranges that fit and whose slowest is fastest; then those with the least crossing. `extra` says by how much longer a stage takes than its
/// layers' times, none where it does not fit; longer ranges take no less.
pub(super) fn cut(layers: &[&LayerCost], stages: usize, extra: &dyn Fn(usize, usize, usize) -> Option<f64>) -> Option<Vec<(usize, usize)>> {
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
                    let Some(extra) = extra(s, l, end) else { break };
                    let candidate = ((own + extra).max(rest.0), candidate.1, end);
                    if (candidate.0, candidate.1) < (best[s][l].0, best[s][l].1) {
                        best[s][l] = candidate;
                    }
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
    use ir::program::ScheduleKind;
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
        Entry { mesh: Mesh::new(&[1]), layers, everywhere: LayerCost::default(), shared: vec![], picks: vec![], by_hand: false, report: SolveReport::default() }
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

    #[test]
    fn chunks_share_a_device_and_shorten_the_bubble() {
        let mut e = entry(&[(1.0, 1.0, 1.0, 1.0); 16]);
        e.layers.iter_mut().for_each(|l| l.crossing = (0.0, 0.0));
        let depth: Vec<u32> = (0..16).collect();
        let what = |schedule: ScheduleKind| Composition {
            depth: &depth,
            stages: 4,
            microbatches: 8,
            order: schedule.into(),
            limit: Bytes(u64::MAX),
            solo_speedup: 1.0,
        };
        let [plain, two, four] =
            [ScheduleKind::OneFOneB, ScheduleKind::Interleaved(2), ScheduleKind::Interleaved(4)].map(|k| compose(&e, &what(k)).expect("it fits"));
        for (composed, chunks) in [(&plain, 1usize), (&two, 2), (&four, 4)] {
            assert_eq!((composed.cuts.len(), composed.memory.len()), (4 * chunks, 4 * chunks));
            let busy = 8.0 * 4.0 * 3.0;
            let idle = crate::schedule::closed_form::bubble(
                if chunks == 1 { ScheduleKind::OneFOneB.into() } else { ScheduleKind::Interleaved(chunks as u32).into() },
                4,
                8,
                Seconds(4.0),
                Seconds(8.0),
                Seconds(0.0),
            );
            assert!((composed.step.0 - busy * (1.0 + idle)).abs() < 1e-9, "{chunks}: {} against {}", composed.step, busy * (1.0 + idle));
            assert!((composed.bubble - idle / (1.0 + idle)).abs() < 1e-9, "{chunks}: {} and {idle}", composed.bubble);
            // What stays is the same however a stage's layers are dealt out; more microbatches are in flight.
            assert!((composed.memory[0].resident - plain.memory[0].resident).abs() < 1e-9);
            assert!(composed.memory.iter().zip(composed.memory.iter().skip(4)).all(|(a, b)| a == b), "chunks of a stage tell its memory");
        }
        assert!(two.memory[0].saved > plain.memory[0].saved && two.memory[0].saved < 2.0 * plain.memory[0].saved);
        let tight = Composition { limit: Bytes(plain.memory[0].total() as u64), ..what(ScheduleKind::Interleaved(2)) };
        assert!(matches!(compose(&e, &tight), Err(Unfit::Memory(..))));
        assert_eq!(compose(&e, &what(ScheduleKind::Interleaved(5))), Err(Unfit::TooFewLayers));
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
            let what = Composition { depth: &depth, stages, microbatches, order: Order::OneFOneB, limit: Bytes(limit), solo_speedup: 1.0 };
            let need = |s: usize, a: usize, b: usize| memory(e.layers[a..b].iter(), &e.everywhere, in_flight(what.order.base(), StageId(s as u32), stages, microbatches), microbatches).total();
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
