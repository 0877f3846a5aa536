//! What a setting takes at least, in seconds and in bytes, whatever its sharding.
//!
//! A setting whose least time is more than what was found, or whose least bytes are more than there are, needs no solve. Invariant: no pipeline that the
//! search could compose for the setting is faster, or needs less, than what is said here.

use super::entry::Prepared;
use crate::stage::Setting;
use cost_model::{CostModel, MatMulShape};
use ir::op::OpKind;
use ir::program::{Phase, ScheduleKind, StageId, in_flight};

/// Seconds that one device would need for the matrix products of one microbatch of the whole model, at its peak.
pub fn products(p: &Prepared, prices: &dyn CostModel) -> f64 {
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

/// Bytes that some device of a setting needs at least: everything cut over all devices there are.
///
/// Of what stays, the devices' average. Of what is in flight, stage `s` holds `q(s)` microbatches' worth, and whatever the cut, the stage that has most has no
/// less than the model's total over the sum of `1 / q(s)`.
pub fn memory(p: &Prepared, setting: &Setting) -> f64 {
    let (kept, saved) = p.bytes();
    let of_stage = f64::from(setting.mesh.iter().product::<u32>());
    let shares: f64 = (0..setting.stages).map(|s| 1.0 / f64::from(setting.least_in_flight(s).max(1))).sum();
    (kept / (of_stage * f64::from(setting.stages))).max(saved / shares / of_stage)
}

/// Bytes that some device of a setting needs at least, by what every layer of the model needs of one: what stays, and what a microbatch keeps.
///
/// Stage `s` needs `Σ k + q(s) a` of its layers, and so the most needy one no less than any weighted mean over stages, in which every layer is where that counts
/// it least. The weights are those under which equal layers count the same everywhere.
pub fn bytes(setting: &Setting, layers: &[(f64, f64)]) -> f64 {
    let (kept, saved) = layers.iter().fold((0.0, 0.0), |sum, l| (sum.0 + l.0, sum.1 + l.1));
    let flight = |s: u32| f64::from(setting.least_in_flight(s).max(1));
    let weights: Vec<(f64, f64)> = (0..setting.stages).map(|s| (1.0 / (kept + flight(s) * saved).max(f64::MIN_POSITIVE), flight(s))).collect();
    let least = |&(k, a): &(f64, f64)| weights.iter().map(|(w, q)| w * (k + q * a)).fold(f64::INFINITY, f64::min);
    layers.iter().map(least).sum::<f64>() / weights.iter().map(|w| w.0).sum::<f64>()
}

/// How often a step takes at least what the mean stage takes for forward and backward of one microbatch.
///
/// The slowest stage does all microbatches, and one microbatch passes all stages. In 1F1B, moreover, a stage that may hold `q` microbatches has done at most
/// `q` forwards when its first backward can begin, which is after all forwards of the first microbatch and the backwards of later stages; and when it
/// is done, earlier stages have one backward each to do. So a step takes `Σt + (M - q) f + (M - 1) b` of every stage `s`, and so of any mean over stages.
/// With weights `1 / (M - q)` this is `Σt (1 + 1 / Σ 1/(M - q))`, however the layers are cut.
pub fn microbatches(setting: &Setting) -> f64 {
    let (stages, count) = (f64::from(setting.stages), f64::from(setting.microbatches));
    let plain = stages.max(count);
    if setting.schedule != ScheduleKind::OneFOneB || setting.microbatches <= setting.stages {
        return plain;
    }
    let flight = |s: u32| f64::from(in_flight(setting.schedule, StageId(s), setting.stages, setting.microbatches));
    let sum: f64 = (0..setting.stages).map(|s| 1.0 / (count - flight(s))).sum();
    plain.max(stages * (1.0 + 1.0 / sum))
}

/// Seconds that a step takes at least, when one device of a stage's mesh takes so long for all layers of the model: for forward and backward of one
/// microbatch, and for what is done once a step. `solo` says how many times faster a device is while the others idle.
pub fn step(setting: &Setting, (micro, once): (f64, f64), solo: f64) -> f64 {
    let stages = f64::from(setting.stages);
    let busy = f64::from(setting.microbatches) * micro + once;
    (busy / stages).max(micro / stages * microbatches(setting)) / solo.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::fast::duration;
    use crate::schedule::simulate::{Pipeline, Stage};
    use ir::Seconds;
    use ir::plan::{Recompute, StageTimes};
    use proptest::prelude::*;

    /// Every way to cut `from..layers` into `stages`.
    fn cuts(layers: usize, stages: usize, from: usize) -> Vec<Vec<(usize, usize)>> {
        if stages == 1 {
            return vec![vec![(from, layers)]];
        }
        let ends = from + 1..=layers - (stages - 1);
        ends.flat_map(|end| cuts(layers, stages - 1, end).into_iter().map(move |rest| [vec![(from, end)], rest].concat())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
        /// No cut needs less.
        #[test]
        fn no_cut_needs_less(layers in prop::collection::vec((0.0f64..1.0, 0.0f64..1.0), 2..8), stages in 1u32..5, microbatches in 1u32..9) {
            let stages = stages.min(layers.len() as u32);
            let setting = Setting { stages, mesh: vec![1], microbatches, schedule: ScheduleKind::OneFOneB, recompute: Recompute::None };
            let need = |s: usize, (a, b): (usize, usize)| {
                let q = f64::from(in_flight(setting.schedule, StageId(s as u32), stages, microbatches));
                layers[a..b].iter().map(|l| l.0 + q * l.1).sum::<f64>()
            };
            let best = cuts(layers.len(), stages as usize, 0).iter().map(|cut| cut.iter().enumerate().map(|(s, &c)| need(s, c)).fold(0.0, f64::max)).fold(f64::INFINITY, f64::min);
            let least = super::bytes(&setting, &layers);
            prop_assert!(least <= best * (1.0 + 1e-9), "{least} against {best}");
        }

        /// However the time is spread over the stages, the schedule takes no less.
        #[test]
        fn no_pipeline_is_faster(times in prop::collection::vec((0.0f64..1.0, 0.0f64..2.0, 0.0f64..0.5, 0.0f64..0.5), 1..9), microbatches in 1u32..24, gpipe: bool) {
            let schedule = if gpipe { ScheduleKind::GPipe } else { ScheduleKind::OneFOneB };
            let setting = Setting { stages: times.len() as u32, mesh: vec![1], microbatches, schedule, recompute: Recompute::None };
            let list: Vec<Stage> = times
                .iter()
                .map(|&(f, b, before, after)| Stage {
                    times: StageTimes { before: Seconds(before), forward: Seconds(f), backward: Seconds(b), after: Seconds(after) },
                    devices: 1,
                    send_forward: Seconds(0.0),
                    send_backward: Seconds(0.0),
                    weights: Seconds(0.0),
                })
                .collect();
            let step = duration(&Pipeline { order: schedule.into(), microbatches, stages: &list, solo_speedup: 1.0 });
            let least = super::step(&setting, (times.iter().map(|t| t.0 + t.1).sum(), times.iter().map(|t| t.2 + t.3).sum()), 1.0);
            prop_assert!(least <= step.0 * (1.0 + 1e-9), "{least} against {}", step.0);
        }
    }
}
