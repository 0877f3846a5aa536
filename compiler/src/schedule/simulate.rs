//! Exact simulation of a pipeline's step.
//!
//! Every stage runs its phases in the order of [`ir::program::steps`]; a forward waits for the previous stage's forward of the same microbatch
//! and its transfer, a backward for the next stage's backward. Transfers overlap with computing. Where devices share cores (`local:N`),
//! those that wait leave their cores to the others, so a stage computes faster while others idle: work is served at rates that change with
//! the number of busy devices. For equal stages the result is the closed form of GPipe and PipeDream-flush, (M + S − 1)·(f + b).
//! Invariant: the same input gives the same bits; only `+ - * / min max` are used.

use ir::Seconds;
use ir::plan::StageTimes;
use ir::program::{Phase, ScheduleKind, StageId, Step, steps};

/// One stage of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// How long its phases take while every device of the cluster is busy.
    pub times: StageTimes,
    /// How many devices it has.
    pub devices: u32,
    /// Transfer of one microbatch's forward values to the next stage (nothing for the last).
    pub send_forward: Seconds,
    /// Transfer of one microbatch's cotangents to the previous stage (nothing for the first).
    pub send_backward: Seconds,
}

/// A pipeline to be simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipeline<'a> {
    /// Order of microbatches.
    pub kind: ScheduleKind,
    /// How many.
    pub microbatches: u32,
    /// Its stages.
    pub stages: &'a [Stage],
    /// How many times faster a device is while all others idle (`Cluster::solo_speedup`).
    pub solo_speedup: f64,
}

/// One phase of one stage in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// What ran.
    pub step: Step,
    /// When it began.
    pub start: Seconds,
    /// When it was done.
    pub end: Seconds,
}

/// A simulated step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Its duration.
    pub step: Seconds,
    /// Share of the devices' time in which they wait.
    pub bubble: f64,
    /// What every stage did, in order.
    pub stages: Vec<Vec<Slot>>,
}

/// Simulates one step.
pub fn simulate(pipeline: &Pipeline<'_>) -> Timeline {
    let count = pipeline.stages.len() as u32;
    let mut lanes: Vec<Lane> =
        (0..count).map(|s| Lane::new(steps(pipeline.kind, StageId(s), count, pipeline.microbatches).collect(), pipeline.microbatches)).collect();
    let all: u32 = pipeline.stages.iter().map(|s| s.devices).sum();
    let mut now = 0.0f64;
    loop {
        // What can start does, and phases without work are over at once, which may let others start.
        while (0..lanes.len()).any(|s| start(pipeline, &mut lanes, s, now)) {}
        let busy: u32 = lanes.iter().zip(pipeline.stages).filter(|(lane, _)| lane.running.is_some()).map(|(_, s)| s.devices).sum();
        let rate = if busy == 0 { 1.0 } else { (f64::from(all) / f64::from(busy)).min(pipeline.solo_speedup).max(1.0) };
        let Some(pause) = lanes.iter().enumerate().filter_map(|(s, lane)| lane.next_event(pipeline, &lanes, s, now, rate)).reduce(f64::min) else { break };
        for lane in lanes.iter_mut().filter(|lane| lane.running.is_some()) {
            lane.advance(now, pause, rate);
        }
        now += pause;
    }
    let slots: Vec<Vec<Slot>> = lanes.into_iter().map(|lane| lane.done).collect();
    let work: f64 = slots.iter().zip(pipeline.stages).map(|(lane, s)| lane.iter().map(|x| x.end.0 - x.start.0).sum::<f64>() * f64::from(s.devices)).sum();
    let bubble = if now > 0.0 { (1.0 - work / (now * f64::from(all))).max(0.0) } else { 0.0 };
    Timeline { step: Seconds(now), bubble, stages: slots }
}

/// A stage in motion.
struct Lane {
    order: Vec<Step>,
    done: Vec<Slot>,
    /// When the running phase began and what is left of it, at rate 1.
    running: Option<(f64, f64)>,
    /// When each microbatch's forward and backward were done.
    ends: [Vec<Option<f64>>; 2],
}

impl Lane {
    fn new(order: Vec<Step>, microbatches: u32) -> Lane {
        Lane { done: Vec::with_capacity(order.len()), order, running: None, ends: [vec![None; microbatches as usize], vec![None; microbatches as usize]] }
    }

    fn next(&self) -> Option<Step> {
        self.order.get(self.done.len()).copied()
    }

    fn finish(&mut self, at: f64) {
        let (start, _) = self.running.take().expect("invariant: only what runs ends");
        let step = self.order[self.done.len()];
        self.done.push(Slot { step, start: Seconds(start), end: Seconds(at) });
        match step.phase {
            Phase::Forward => self.ends[0][step.microbatch as usize] = Some(at),
            Phase::Backward => self.ends[1][step.microbatch as usize] = Some(at),
            Phase::Before | Phase::After => {}
        }
    }

    fn advance(&mut self, now: f64, pause: f64, rate: f64) {
        let Some((_, left)) = &mut self.running else { return };
        // The pause was made of this very quotient for whoever ends first, so equality is exact.
        if *left / rate <= pause {
            self.finish(now + pause);
        } else {
            *left = (*left - pause * rate).max(0.0);
        }
    }

    /// How long until this lane's state changes by itself: the running phase ends, or the transfer it waits for arrives.
    fn next_event(&self, pipeline: &Pipeline<'_>, lanes: &[Lane], stage: usize, now: f64, rate: f64) -> Option<f64> {
        match self.running {
            Some((_, left)) => Some(left / rate),
            None => arrival(pipeline, lanes, stage, self.next()?).filter(|at| *at > now).map(|at| at - now),
        }
    }
}

/// When what `step` of `stage` waits for is there; `None` while the other stage has not made it.
fn arrival(pipeline: &Pipeline<'_>, lanes: &[Lane], stage: usize, step: Step) -> Option<f64> {
    let m = step.microbatch as usize;
    match step.phase {
        Phase::Forward if stage > 0 => lanes[stage - 1].ends[0][m].map(|end| end + pipeline.stages[stage - 1].send_forward.0),
        Phase::Backward if stage + 1 < lanes.len() => lanes[stage + 1].ends[1][m].map(|end| end + pipeline.stages[stage + 1].send_backward.0),
        Phase::Before | Phase::Forward | Phase::Backward | Phase::After => Some(0.0),
    }
}

/// Starts the next phase of a stage if it can; true if anything changed.
fn start(pipeline: &Pipeline<'_>, lanes: &mut [Lane], stage: usize, now: f64) -> bool {
    let Some(step) = lanes[stage].next().filter(|_| lanes[stage].running.is_none()) else { return false };
    // What arrives by the pause's rounding just after `now` counts as there: `now + (at - now)` may fall short of `at`.
    if arrival(pipeline, lanes, stage, step).is_none_or(|at| at - now > at.abs() * 4.0 * f64::EPSILON) {
        return false;
    }
    let times = &pipeline.stages[stage].times;
    let work = match step.phase {
        Phase::Before => times.before,
        Phase::Forward => times.forward,
        Phase::Backward => times.backward,
        Phase::After => times.after,
    };
    lanes[stage].running = Some((now, work.0));
    if work.0 <= 0.0 {
        lanes[stage].finish(now);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS: [ScheduleKind; 2] = [ScheduleKind::GPipe, ScheduleKind::OneFOneB];

    fn stage(forward: f64, backward: f64, send: f64) -> Stage {
        let times = StageTimes { before: Seconds(0.0), forward: Seconds(forward), backward: Seconds(backward), after: Seconds(0.0) };
        Stage { times, devices: 1, send_forward: Seconds(send), send_backward: Seconds(send) }
    }

    fn run(kind: ScheduleKind, microbatches: u32, stages: &[Stage]) -> Timeline {
        simulate(&Pipeline { kind, microbatches, stages, solo_speedup: 1.0 })
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9)
    }

    #[test]
    fn equal_stages_are_the_closed_form() {
        for kind in KINDS {
            for s in 1..6u32 {
                for m in 1..12u32 {
                    let t = run(kind, m, &vec![stage(1.0, 2.0, 0.0); s as usize]);
                    let (s, m) = (f64::from(s), f64::from(m));
                    assert!(close(t.step.0, (m + s - 1.0) * 3.0), "{kind:?} {s} {m}: {}", t.step.0);
                    assert!(close(t.bubble, (s - 1.0) / (m + s - 1.0)));
                }
            }
        }
    }

    #[test]
    fn gpipe_waits_for_its_slowest_stage() {
        // Forwards: the sum of all stages once and the slowest for every further microbatch; backwards likewise.
        let stages = [stage(1.0, 2.0, 0.0), stage(3.0, 7.0, 0.0), stage(2.0, 3.0, 0.0)];
        assert!(close(run(ScheduleKind::GPipe, 5, &stages).step.0, (6.0 + 4.0 * 3.0) + (12.0 + 4.0 * 7.0)));
    }

    #[test]
    fn transfers_lengthen_the_way_through() {
        let one = |kind| run(kind, 1, &vec![stage(1.0, 2.0, 0.5); 4]).step.0;
        assert!(close(one(ScheduleKind::GPipe), 4.0 * 3.0 + 6.0 * 0.5));
        assert!(close(one(ScheduleKind::OneFOneB), 4.0 * 3.0 + 6.0 * 0.5));
        // GPipe hides transfers behind other microbatches but for one way there and back; 1F1B pays them in its steady state.
        let many = |kind| run(kind, 8, &vec![stage(1.0, 2.0, 0.5); 4]).step.0;
        assert!(close(many(ScheduleKind::GPipe), 11.0 * 3.0 + 6.0 * 0.5));
        assert!(many(ScheduleKind::OneFOneB) > many(ScheduleKind::GPipe));
    }

    #[test]
    fn before_and_after_frame_the_step() {
        let mut s = stage(1.0, 2.0, 0.0);
        s.times.before = Seconds(4.0);
        s.times.after = Seconds(8.0);
        for kind in KINDS {
            assert!(close(run(kind, 3, &[s]).step.0, 4.0 + 9.0 + 8.0));
        }
    }

    #[test]
    fn idle_devices_lend_their_cores() {
        // Two stages on one core: whatever the order, the core is always busy, and work at half speed takes twice as long only together.
        let stages = [stage(2.0, 4.0, 0.0); 2];
        let t = simulate(&Pipeline { kind: ScheduleKind::OneFOneB, microbatches: 4, stages: &stages, solo_speedup: 2.0 });
        assert!(close(t.step.0, 2.0 * 4.0 * 6.0 / 2.0), "{}", t.step.0);
        assert!(t.step < run(ScheduleKind::OneFOneB, 4, &stages).step);
    }

    /// The same by longest paths: every phase ends after what precedes it in its stage and what it waits for.
    fn longest_path(kind: ScheduleKind, microbatches: u32, stages: &[Stage]) -> f64 {
        let count = stages.len() as u32;
        let orders: Vec<Vec<Step>> = (0..count).map(|s| steps(kind, StageId(s), count, microbatches).collect()).collect();
        let mut ends: Vec<Vec<f64>> = orders.iter().map(|o| vec![0.0; o.len()]).collect();
        // Relaxation to a fixed point: as many sweeps as there are phases is enough.
        for _ in 0..orders.iter().map(Vec::len).sum::<usize>() {
            for s in 0..stages.len() {
                for (i, step) in orders[s].iter().enumerate() {
                    let end = |t: usize| ends[t][orders[t].iter().position(|x| x == step).expect("every stage has the step")];
                    let ready = match step.phase {
                        Phase::Forward if s > 0 => end(s - 1) + stages[s - 1].send_forward.0,
                        Phase::Backward if s + 1 < stages.len() => end(s + 1) + stages[s + 1].send_backward.0,
                        _ => 0.0,
                    };
                    let t = &stages[s].times;
                    let work = [t.before, t.forward, t.backward, t.after][step.phase as usize].0;
                    ends[s][i] = ready.max(if i > 0 { ends[s][i - 1] } else { 0.0 }) + work;
                }
            }
        }
        ends.into_iter().flatten().fold(0.0, f64::max)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_pipeline_is_its_longest_path(
            one_f_one_b in any::<bool>(),
            microbatches in 1u32..7,
            times in prop::collection::vec((0.0f64..3.0, 0.0f64..3.0, 0.0f64..1.0, 0.0f64..1.0), 1..5),
        ) {
            let kind = KINDS[usize::from(one_f_one_b)];
            let stages: Vec<Stage> = times.iter().map(|&(f, b, send, once)| {
                let mut s = stage(f, b, send);
                s.times.before = Seconds(once);
                s.times.after = Seconds(once * 2.0);
                s
            }).collect();
            let t = run(kind, microbatches, &stages);
            let expected = longest_path(kind, microbatches, &stages);
            prop_assert!(close(t.step.0, expected), "{} against {expected}", t.step.0);
            prop_assert!((0.0..=1.0).contains(&t.bubble));
            for lane in &t.stages {
                prop_assert_eq!(lane.len() as u32, 2 + 2 * microbatches);
                prop_assert!(lane.windows(2).all(|w| w[0].end <= w[1].start));
            }
        }
    }
}
