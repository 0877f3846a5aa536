//! Stages on unlike submeshes: some with more devices than others, or with devices of another kind.
//!
//! Alpa's dynamic program (Zheng et al., 2022, section 5.2) over tables: for a cap on the slowest stage, the least sum of stage times over (stages left, first
//! layer, first device), where a stage takes any submesh that lies inside one kind of node and fits in memory with the microbatches it has in flight. Caps are
//! taken from the stages' own times, a stated number of them; between two caps the step can be better by at most their difference times the microbatches, which
//! is reported as the gap.

use super::compose::{Composed, StageCosts, price, shared};
use super::entry::Entry;
use ir::Bytes;
use ir::program::{ScheduleKind, StageId, in_flight};

/// A submesh that a stage may have.
#[derive(Clone, Copy, Debug)]
pub struct Submesh<'a> {
    /// What layers cost on it.
    pub entry: &'a Entry,
    /// Which kind of node it lies in.
    pub kind: u32,
    /// Bytes of one of its devices.
    pub limit: Bytes,
}

/// The cluster as the stages are laid over it: consecutive nodes of some kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ground {
    /// Kind of every node.
    pub nodes: Vec<u32>,
    /// Devices of a node.
    pub devices_per_node: u32,
}

/// Stages on submeshes.
#[derive(Clone, Debug)]
pub struct Unlike {
    /// The pipeline.
    pub composed: Composed,
    /// The submesh of every stage, by its number in the list given.
    pub submesh: Vec<usize>,
    /// The first device of every stage.
    pub first: Vec<u32>,
    /// By how much of the step at most a finer choice of caps could be better.
    pub gap: f64,
}

/// How many caps are tried.
const CAPS: usize = 24;
/// More layers than this are taken in groups.
const LAYERS: usize = 56;

struct Range {
    time: f64,
    bytes: Vec<f64>,
}

/// The fastest pipeline over unlike submeshes; none if nothing fits, or if no stage count covers the devices.
pub fn unlike(submeshes: &[Submesh<'_>], ground: &Ground, depth: &[u32], microbatches: u32, schedule: ScheduleKind) -> Option<Unlike> {
    let sizes: Vec<u32> = submeshes.iter().map(|s| s.entry.mesh.devices()).collect();
    let unit = sizes.iter().copied().fold(0, gcd);
    let total = ground.nodes.len() as u32 * ground.devices_per_node;
    if unit == 0 || !total.is_multiple_of(unit) {
        return None;
    }
    let units = (total / unit) as usize;
    // Blocks of layers: stages begin and end between blocks.
    let per = depth.len().div_ceil(LAYERS).max(1);
    let bounds: Vec<usize> = (0..depth.len()).step_by(per).chain([depth.len()]).collect();
    let blocks = bounds.len() - 1;
    let most_stages = blocks.min(units);
    // What a stage has in flight depends on the stages to go alone (1F1B), or on the microbatches (GPipe).
    let flight = |left: usize| in_flight(schedule, StageId(0), left as u32, microbatches).max(1) as usize;
    // Where each submesh may begin.
    let lies = |o: usize, u: usize| -> bool {
        let (first, size) = (u as u32 * unit, sizes[o]);
        let d = ground.devices_per_node;
        let aligned = if size <= d { d.is_multiple_of(size) && (first % d).is_multiple_of(size) } else { size.is_multiple_of(d) && first.is_multiple_of(d) };
        let (a, b) = (first / d, (first + size - 1) / d);
        aligned && b < ground.nodes.len() as u32 && ground.nodes[a as usize..=b as usize].iter().all(|&k| k == submeshes[o].kind)
    };
    let flights = (1..=most_stages).map(flight).max().unwrap_or(1);
    let ranges: Vec<Vec<Vec<Range>>> = submeshes
        .iter()
        .map(|s| {
            let shared = shared(s.entry, depth);
            (0..blocks)
                .map(|a| {
                    (a + 1..=blocks)
                        .map(|b| {
                            let own = StageCosts::of(s.entry, depth, &shared, (bounds[a], bounds[b]));
                            let crossing = own.layers.last().filter(|_| b < blocks).map_or(0.0, |l| l.crossing.0 + l.crossing.1);
                            let everywhere = own.everywhere.map_or(0.0, |e| e.forward + e.backward);
                            let time = own.layers.iter().map(|l| l.forward + l.backward).sum::<f64>() + everywhere + crossing;
                            let bytes = |q: u32| own.memory(q, microbatches).total();
                            // Bytes grow linearly with what is in flight.
                            let (one, two) = (bytes(1), bytes(2));
                            Range { time, bytes: (1..=flights).map(|q| one + (two - one) * (q - 1) as f64).collect() }
                        })
                        .collect()
                })
                .collect()
        })
        .collect();
    let mut times: Vec<f64> = ranges.iter().flatten().flatten().map(|r| r.time).collect();
    times.sort_by(f64::total_cmp);
    times.dedup_by(|a, b| *a - *b <= 1e-3 * *b);
    let mut best: Option<(f64, Vec<(usize, usize, usize)>)> = None;
    let mut slack = 0.0f64;
    let gaps = (microbatches.saturating_sub(1)) as f64;
    let mut try_cap = |cap: f64| -> Option<f64> {
        let (cost, stages) = under_cap(cap, &ranges, submeshes, units, blocks, most_stages, &sizes, unit, &lies, &flight)?;
        let slowest = stages.iter().map(|&(o, a, b)| ranges[o][a][b - a - 1].time).fold(0.0, f64::max);
        let step = cost + gaps * slowest;
        if best.as_ref().is_none_or(|b| step < b.0) {
            best = Some((step, stages));
        }
        Some(step)
    };
    // A coarse sweep, then a fine one around the best.
    let coarse: Vec<usize> = (0..CAPS).map(|i| i * (times.len() - 1) / (CAPS - 1).max(1)).collect();
    let mut found: Vec<(f64, usize)> = Vec::new();
    for &i in &coarse {
        if let Some(step) = try_cap(times[i]) {
            found.push((step, i));
        }
    }
    let middle = found.iter().min_by(|a, b| a.0.total_cmp(&b.0))?.1;
    let width = times.len().div_ceil(CAPS);
    let (low, high) = (middle.saturating_sub(width), (middle + width).min(times.len() - 1));
    for k in 0..CAPS {
        let i = low + k * (high - low) / (CAPS - 1).max(1);
        try_cap(times[i]);
        slack = slack.max(if i > 0 { times[i] - times[i - 1] } else { 0.0 });
    }
    let (step, stages) = best?;
    let gap = (slack * gaps / step).min(1.0);
    Some(finish(&stages, submeshes, &bounds, depth, microbatches, schedule, gap))
}

/// (Sum of stage times, stages as (submesh, first block, one past the last)) under a cap.
#[allow(clippy::too_many_arguments, reason = "one loop nest over everything that a stage can be")]
fn under_cap(
    cap: f64,
    ranges: &[Vec<Vec<Range>>],
    submeshes: &[Submesh<'_>],
    units: usize,
    blocks: usize,
    most: usize,
    sizes: &[u32],
    unit: u32,
    lies: &dyn Fn(usize, usize) -> bool,
    flight: &dyn Fn(usize) -> usize,
) -> Option<(f64, Vec<(usize, usize, usize)>)> {
    let at = |l: usize, u: usize| l * (units + 1) + u;
    // least[left][layer, unit]: the sum with `left` stages to go; the choice: (submesh, end).
    let mut least = vec![vec![f64::INFINITY; (blocks + 1) * (units + 1)]; most + 1];
    let mut choice = vec![vec![(0usize, 0usize); (blocks + 1) * (units + 1)]; most + 1];
    least[0][at(blocks, units)] = 0.0;
    let mut answer: Option<(f64, usize)> = None;
    for left in 1..=most {
        for u in 0..units {
            for (o, submesh) in submeshes.iter().enumerate() {
                let next = u + (sizes[o] / unit) as usize;
                if next > units || !lies(o, u) {
                    continue;
                }
                for l in 0..blocks {
                    for end in l + 1..=blocks {
                        let range = &ranges[o][l][end - l - 1];
                        let q = flight(left);
                        if range.time > cap || range.bytes[(q - 1).min(range.bytes.len() - 1)] > submesh.limit.0 as f64 {
                            break;
                        }
                        let sum = range.time + least[left - 1][at(end, next)];
                        if sum < least[left][at(l, u)] {
                            least[left][at(l, u)] = sum;
                            choice[left][at(l, u)] = (o, end);
                        }
                    }
                }
            }
        }
        let whole = least[left][at(0, 0)];
        if whole.is_finite() && answer.is_none_or(|a| whole < a.0) {
            answer = Some((whole, left));
        }
    }
    let (sum, stages) = answer?;
    let (mut l, mut u, mut out) = (0, 0, Vec::new());
    for left in (1..=stages).rev() {
        let (o, end) = choice[left][at(l, u)];
        out.push((o, l, end));
        l = end;
        u += (sizes[o] / unit) as usize;
    }
    Some((sum, out))
}

fn finish(
    stages: &[(usize, usize, usize)],
    submeshes: &[Submesh<'_>],
    bounds: &[usize],
    depth: &[u32],
    microbatches: u32,
    schedule: ScheduleKind,
    gap: f64,
) -> Unlike {
    let costs = |&(o, a, b): &(usize, usize, usize)| {
        let entry = submeshes[o].entry;
        StageCosts::of(entry, depth, &shared(entry, depth), (bounds[a], bounds[b]))
    };
    let list: Vec<StageCosts<'_>> = stages.iter().map(costs).collect();
    let first = list
        .iter()
        .scan(0, |device, stage| {
            let first = *device;
            *device += stage.devices;
            Some(first)
        })
        .collect();
    Unlike { composed: price(&list, schedule.into(), microbatches, 1.0), submesh: stages.iter().map(|s| s.0).collect(), first, gap }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::compose::{Composition, compose, memory};
    use crate::tables::entry::{LayerCost, Shared};
    use ir::Mesh;
    use ir::plan::SolveReport;
    use proptest::prelude::*;

    fn entry(devices: u32, speed: f64, costs: &[f64]) -> Entry {
        let layers = costs
            .iter()
            .map(|&t| LayerCost { forward: t / speed, backward: 2.0 * t / speed, resident: 10.0 * t / f64::from(devices), saved: t, ..LayerCost::default() })
            .collect();
        Entry {
            mesh: Mesh::new(&[devices]),
            layers,
            everywhere: LayerCost::default(),
            shared: vec![],
            picks: vec![],
            by_hand: false,
            report: SolveReport::default(),
        }
    }

    /// All ways to cover units and layers, each as (submesh, first, end).
    fn all(sizes: &[u32], layers: usize, from: usize, units: u32, can: &dyn Fn(usize, u32) -> bool, at: u32) -> Vec<Vec<(usize, usize, usize)>> {
        if from == layers && at == units {
            return vec![vec![]];
        }
        let mut out = Vec::new();
        for (o, &size) in sizes.iter().enumerate().filter(|(o, s)| at + **s <= units && can(*o, at)) {
            for end in from + 1..=layers {
                for rest in all(sizes, layers, end, units, can, at + size) {
                    out.push([vec![(o, from, end)], rest].concat());
                }
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
        #[test]
        fn no_pipeline_is_better_by_more_than_the_gap(
            costs in prop::collection::vec(0.1f64..1.0, 2..6),
            microbatches in 1u32..6,
            kinds in prop::collection::vec(0u32..2, 2..3),
            limit in 8u64..40,
        ) {
            // One device of a fast or a slow kind, or both of a node.
            let entries = [entry(1, 1.0, &costs), entry(2, 1.8, &costs), entry(1, 0.5, &costs), entry(2, 0.9, &costs)];
            let submeshes: Vec<Submesh<'_>> = entries.iter().zip([0, 0, 1, 1]).map(|(entry, kind)| Submesh { entry, kind, limit: Bytes(limit) }).collect();
            let ground = Ground { nodes: kinds.clone(), devices_per_node: 2 };
            let depth: Vec<u32> = (0..costs.len() as u32).collect();
            let sizes = [1, 2, 1, 2];
            let can = |o: usize, at: u32| kinds[(at / 2) as usize] == submeshes[o].kind && (sizes[o] == 1 || at.is_multiple_of(2));
            let time = |&(o, a, b): &(usize, usize, usize)| entries[o].layers[a..b].iter().map(|l| l.forward + l.backward).sum::<f64>();
            let best = all(&sizes, costs.len(), 0, 2 * kinds.len() as u32, &can, 0).into_iter().filter(|stages| {
                stages.iter().enumerate().all(|(s, &(o, a, b))| {
                    let q = in_flight(ScheduleKind::OneFOneB, StageId(s as u32), stages.len() as u32, microbatches);
                    memory(entries[o].layers[a..b].iter(), &entries[o].everywhere, q, microbatches).total() <= limit as f64
                })
            }).map(|stages| {
                let slowest = stages.iter().map(&time).fold(0.0, f64::max);
                stages.iter().map(&time).sum::<f64>() + f64::from(microbatches - 1) * slowest
            }).reduce(f64::min);
            let found = unlike(&submeshes, &ground, &depth, microbatches, ScheduleKind::OneFOneB);
            match (found, best) {
                (Some(f), Some(best)) => {
                    let sum: f64 = f.composed.times.iter().map(|t| t.forward.0 + t.backward.0).sum();
                    let slowest = f.composed.times.iter().map(|t| t.forward.0 + t.backward.0).fold(0.0, f64::max);
                    let own = sum + f64::from(microbatches - 1) * slowest;
                    prop_assert!(own >= best - 1e-9);
                    prop_assert!(own <= best * (1.0 + f.gap) + 1e-2 * best, "{own} against {best}, gap {}", f.gap);
                    prop_assert!(f.composed.memory.iter().all(|m| m.total() <= limit as f64 + 1e-6));
                }
                (None, None) => {}
                (f, b) => prop_assert!(false, "{f:?} against {b:?}"),
            }
        }
    }

    /// One price for both programs: equal submeshes in a row are what `compose` makes of them, copies of tied parameters included.
    #[test]
    fn stages_that_happen_to_be_alike_are_priced_as_such() {
        let costs = [0.4, 1.0, 1.0, 1.0, 1.0, 0.6];
        let mut table = entry(2, 1.0, &costs);
        table.shared = vec![Shared { home: 0, reader: 5, bytes: 3.0, send: 0.25 }];
        let depth: Vec<u32> = (0..6).collect();
        let (microbatches, schedule) = (4, ScheduleKind::OneFOneB);
        let what = Composition { depth: &depth, stages: 3, microbatches, order: schedule.into(), limit: Bytes(1000), solo_speedup: 1.0 };
        let alike = compose(&table, &what).expect("it fits");
        let bounds: Vec<usize> = (0..=6).collect();
        let stages: Vec<(usize, usize, usize)> = alike.cuts.iter().map(|&(a, b)| (0, a as usize, b as usize)).collect();
        let submesh = [Submesh { entry: &table, kind: 0, limit: Bytes(1000) }];
        let unlike = finish(&stages, &submesh, &bounds, &depth, microbatches, schedule, 0.0);
        assert_eq!(unlike.composed, alike);
        let last = alike.memory[2];
        assert_eq!(last.gradients, 3.0, "the copy has a gradient");
        assert_eq!(unlike.composed.times[2].after.0, 0.25, "which is sent home");
    }
}
