//! Stages from a table: which layers each takes, whether they fit, and how long a step is.
//!
//! Exact for the model that is written down: a stage's times and bytes are sums over its layers, its transient is the largest of them, stages have meshes of one
//! shape. The slowest stage is minimised over all contiguous cuts that fit, then what crosses (as in [`crate::stage::cuts`], with memory).

use super::entry::{Entry, LayerCost};
use crate::schedule::simulate::{Pipeline, Stage, simulate};
use ir::plan::StageTimes;
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
    let layers: Vec<&LayerCost> = what.depth.iter().map(|&l| &entry.layers[l as usize]).collect();
    let (n, stages) = (layers.len(), what.stages as usize);
    if n < stages {
        return Err(Unfit::TooFewLayers);
    }
    let flight = |s: usize| in_flight(what.schedule, StageId(s as u32), what.stages, what.microbatches);
    let need = |s: usize, a: usize, b: usize| memory(layers[a..b].iter().copied(), &entry.everywhere, flight(s), what.microbatches);
    let cuts = cut(&layers, stages, &|s, a, b| need(s, a, b).total() <= what.limit.0 as f64);
    let Some(cuts) = cuts else {
        let by_time = cut(&layers, stages, &|_, _, _| true).ok_or(Unfit::TooFewLayers)?;
        let memory = by_time.iter().enumerate().map(|(s, &(a, b))| need(s, a, b)).collect();
        return Err(Unfit::Memory(by_time.iter().map(|&(a, b)| (a as u32, b as u32)).collect(), memory));
    };
    let memory: Vec<StageMemory> = cuts.iter().enumerate().map(|(s, &(a, b))| need(s, a, b)).collect();
    let times: Vec<StageTimes> = cuts
        .iter()
        .map(|&(a, b)| {
            let sum = |f: &dyn Fn(&LayerCost) -> f64| Seconds(layers[a..b].iter().map(|l| f(l)).sum::<f64>() + f(&entry.everywhere));
            StageTimes { before: sum(&|l| l.before), forward: sum(&|l| l.forward), backward: sum(&|l| l.backward), after: sum(&|l| l.after) }
        })
        .collect();
    let list: Vec<Stage> = times
        .iter()
        .zip(&cuts)
        .enumerate()
        .map(|(s, (&times, &(a, b)))| Stage {
            times,
            devices: entry.mesh.devices(),
            send_forward: Seconds(if s + 1 < stages { layers[b - 1].crossing.0 } else { 0.0 }),
            send_backward: Seconds(if s > 0 { layers[a - 1].crossing.1 } else { 0.0 }),
        })
        .collect();
    let timeline = simulate(&Pipeline { kind: what.schedule, microbatches: what.microbatches, stages: &list, solo_speedup: what.solo_speedup });
    Ok(Composed { cuts: cuts.iter().map(|&(a, b)| (a as u32, b as u32)).collect(), times, memory, step: timeline.step, bubble: timeline.bubble })
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
