//! Exact simulation of a pipeline's step.
//!
//! Every stage works in the order of [`order`](super::order::order); a forward waits for the previous piece's forward of the same microbatch and its transfer,
//! a backward for the next piece's backward. Transfers overlap with computing. Where devices share cores (`local:N`),
//! those that wait leave their cores to the others, so a stage computes faster while others idle: work is served at rates that change with
//! the number of busy devices. For equal stages the result is the closed form of every schedule ([`closed_form`](super::closed_form)).
//! Invariant: the same input gives the same bits; only `+ - * / min max` are used.

use super::order::{Order, Task, Work, order};
use ir::Seconds;
use ir::plan::StageTimes;

/// One piece of a pipeline: a stage, or one chunk of a stage that holds several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stage {
    /// How long its phases take while every device of the cluster is busy.
    pub times: StageTimes,
    /// The share of the backward that is gradients of weights, for schedules that split it off.
    pub weights: Seconds,
    /// How many devices it has.
    pub devices: u32,
    /// Transfer of one microbatch's forward values to the next piece (nothing for the last).
    pub send_forward: Seconds,
    /// Transfer of one microbatch's cotangents to the previous piece (nothing for the first).
    pub send_backward: Seconds,
}

/// A pipeline to be simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipeline<'a> {
    /// Order of microbatches.
    pub order: Order,
    /// How many.
    pub microbatches: u32,
    /// Its pieces, first to last on the way through the model; with several chunks per stage, piece `p` lies on stage `p mod stages`.
    pub stages: &'a [Stage],
    /// How many times faster a device is while all others idle (`Cluster::solo_speedup`).
    pub solo_speedup: f64,
}

impl Pipeline<'_> {
    /// How many stages, each with devices of its own.
    pub fn lanes(&self) -> usize {
        self.stages.len() / self.order.chunks() as usize
    }

    /// What a stage does once: all its chunks'.
    pub(super) fn once(&self, lane: usize, what: impl Fn(&StageTimes) -> Seconds) -> f64 {
        self.stages.iter().skip(lane).step_by(self.lanes()).map(|s| what(&s.times).0).sum()
    }
}

/// One piece of work in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// What ran.
    pub task: Task,
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
///
/// # Panics
/// If the pieces are not as many for every stage, or the schedule does not allow so many microbatches.
pub fn simulate(pipeline: &Pipeline<'_>) -> Timeline {
    let count = pipeline.lanes();
    assert_eq!(count * pipeline.order.chunks() as usize, pipeline.stages.len(), "the caller gives every stage as many chunks");
    assert!(pipeline.order.base().allows(count as u32, pipeline.microbatches), "the caller asks for microbatches that the schedule allows");
    let mut run = Run {
        pipeline,
        lanes: (0..count).map(|s| Lane { order: order(pipeline.order, s as u32, count as u32, pipeline.microbatches), done: vec![], running: None }).collect(),
        ends: pipeline.stages.iter().map(|_| [vec![None; pipeline.microbatches as usize], vec![None; pipeline.microbatches as usize]]).collect(),
    };
    let devices = |lane: usize| pipeline.stages[lane].devices;
    let all: u32 = (0..count).map(devices).sum();
    let mut now = 0.0f64;
    loop {
        // What can start does, and phases without work are over at once, which may let others start.
        while (0..count).any(|s| run.start(s, now)) {}
        let busy: u32 = (0..count).filter(|&s| run.lanes[s].running.is_some()).map(devices).sum();
        let rate = if busy == 0 { 1.0 } else { (f64::from(all) / f64::from(busy)).min(pipeline.solo_speedup).max(1.0) };
        let Some(pause) = (0..count).filter_map(|s| run.next_event(s, now, rate)).reduce(f64::min) else { break };
        (0..count).for_each(|s| run.advance(s, now, pause, rate));
        now += pause;
    }
    let slots: Vec<Vec<Slot>> = run.lanes.into_iter().map(|lane| lane.done).collect();
    let work: f64 = slots.iter().enumerate().map(|(s, lane)| lane.iter().map(|x| x.end.0 - x.start.0).sum::<f64>() * f64::from(devices(s))).sum();
    let bubble = if now > 0.0 { (1.0 - work / (now * f64::from(all))).max(0.0) } else { 0.0 };
    Timeline { step: Seconds(now), bubble, stages: slots }
}

/// A stage in motion.
struct Lane {
    order: Vec<Task>,
    done: Vec<Slot>,
    /// When the running phase began and what is left of it, at rate 1.
    running: Option<(f64, f64)>,
}

/// A pipeline in motion.
struct Run<'a> {
    pipeline: &'a Pipeline<'a>,
    lanes: Vec<Lane>,
    /// When each piece's forward and backward of each microbatch were done.
    ends: Vec<[Vec<Option<f64>>; 2]>,
}

impl Run<'_> {
    fn next(&self, lane: usize) -> Option<Task> {
        self.lanes[lane].order.get(self.lanes[lane].done.len()).copied()
    }

    fn piece(&self, lane: usize, task: Task) -> usize {
        task.chunk as usize * self.lanes.len() + lane
    }

    fn finish(&mut self, lane: usize, at: f64) {
        let task = self.next(lane).expect("invariant: what runs is the next of its order");
        let piece = self.piece(lane, task);
        let l = &mut self.lanes[lane];
        let (start, _) = l.running.take().expect("invariant: only what runs ends");
        l.done.push(Slot { task, start: Seconds(start), end: Seconds(at) });
        match task.work {
            Work::Forward => self.ends[piece][0][task.microbatch as usize] = Some(at),
            Work::Backward => self.ends[piece][1][task.microbatch as usize] = Some(at),
            Work::Before | Work::Weights | Work::After => {}
        }
    }

    fn advance(&mut self, lane: usize, now: f64, pause: f64, rate: f64) {
        let Some((_, left)) = &mut self.lanes[lane].running else { return };
        // The pause was made of this very quotient for whoever ends first, so equality is exact.
        if *left / rate <= pause {
            self.finish(lane, now + pause);
        } else {
            *left = (*left - pause * rate).max(0.0);
        }
    }

    /// How long until a lane's state changes by itself: the running phase ends, or the transfer it waits for arrives.
    fn next_event(&self, lane: usize, now: f64, rate: f64) -> Option<f64> {
        match self.lanes[lane].running {
            Some((_, left)) => Some(left / rate),
            None => self.arrival(lane, self.next(lane)?).filter(|at| *at > now).map(|at| at - now),
        }
    }

    /// When what a task waits for is there; `None` while the other piece has not made it.
    fn arrival(&self, lane: usize, task: Task) -> Option<f64> {
        let (m, piece, stages) = (task.microbatch as usize, self.piece(lane, task), self.pipeline.stages);
        match task.work {
            Work::Forward if piece > 0 => self.ends[piece - 1][0][m].map(|end| end + stages[piece - 1].send_forward.0),
            Work::Backward if piece + 1 < stages.len() => self.ends[piece + 1][1][m].map(|end| end + stages[piece + 1].send_backward.0),
            _ => Some(0.0),
        }
    }

    /// Starts the next task of a lane if it can; true if anything changed.
    fn start(&mut self, lane: usize, now: f64) -> bool {
        let Some(task) = self.next(lane).filter(|_| self.lanes[lane].running.is_none()) else { return false };
        // What arrives by the pause's rounding just after `now` counts as there: `now + (at - now)` may fall short of `at`.
        if self.arrival(lane, task).is_none_or(|at| at - now > at.abs() * 4.0 * f64::EPSILON) {
            return false;
        }
        let stage = &self.pipeline.stages[self.piece(lane, task)];
        let split = self.pipeline.order == Order::ZeroBubble;
        let work = match task.work {
            Work::Before => self.pipeline.once(lane, |t| t.before),
            Work::Forward => stage.times.forward.0,
            Work::Backward if split => (stage.times.backward.0 - stage.weights.0).max(0.0),
            Work::Backward => stage.times.backward.0,
            Work::Weights => stage.weights.0.min(stage.times.backward.0),
            Work::After => self.pipeline.once(lane, |t| t.after),
        };
        self.lanes[lane].running = Some((now, work));
        if work <= 0.0 {
            self.finish(lane, now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::closed_form;
    use crate::schedule::fast::duration;
    use proptest::prelude::*;

    const KINDS: [Order; 2] = [Order::GPipe, Order::OneFOneB];

    fn stage(forward: f64, backward: f64, send: f64) -> Stage {
        let times = StageTimes { before: Seconds(0.0), forward: Seconds(forward), backward: Seconds(backward), after: Seconds(0.0) };
        Stage { times, weights: Seconds(backward / 2.0), devices: 1, send_forward: Seconds(send), send_backward: Seconds(send) }
    }

    fn run(order: Order, microbatches: u32, stages: &[Stage]) -> Timeline {
        simulate(&Pipeline { order, microbatches, stages, solo_speedup: 1.0 })
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
        assert!(close(run(Order::GPipe, 5, &stages).step.0, (6.0 + 4.0 * 3.0) + (12.0 + 4.0 * 7.0)));
    }

    #[test]
    fn transfers_lengthen_the_way_through() {
        let one = |kind| run(kind, 1, &vec![stage(1.0, 2.0, 0.5); 4]).step.0;
        assert!(close(one(Order::GPipe), 4.0 * 3.0 + 6.0 * 0.5));
        assert!(close(one(Order::OneFOneB), 4.0 * 3.0 + 6.0 * 0.5));
        // GPipe hides transfers behind other microbatches but for one way there and back; 1F1B pays them in its steady state.
        let many = |kind| run(kind, 8, &vec![stage(1.0, 2.0, 0.5); 4]).step.0;
        assert!(close(many(Order::GPipe), 11.0 * 3.0 + 6.0 * 0.5));
        assert!(many(Order::OneFOneB) > many(Order::GPipe));
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
        let t = simulate(&Pipeline { order: Order::OneFOneB, microbatches: 4, stages: &stages, solo_speedup: 2.0 });
        assert!(close(t.step.0, 2.0 * 4.0 * 6.0 / 2.0), "{}", t.step.0);
        assert!(t.step < run(Order::OneFOneB, 4, &stages).step);
    }

    #[test]
    fn interleaved_and_zero_bubble_are_their_closed_forms() {
        for p in 1..6u32 {
            for m in [p, 2 * p, 5 * p] {
                for v in 1..4u32 {
                    let chunk = stage(1.0 / f64::from(v), 2.0 / f64::from(v), 0.0);
                    let t = run(Order::Interleaved(v), m, &vec![chunk; (p * v) as usize]);
                    let idle = closed_form::idle(Order::Interleaved(v), p, Seconds(1.0), Seconds(2.0), Seconds(1.0)).0;
                    assert!(close(t.step.0, 3.0 * f64::from(m) + idle), "{p} stages, {v} chunks, {m} microbatches: {}", t.step.0);
                }
                let t = run(Order::ZeroBubble, m, &vec![stage(1.0, 2.0, 0.0); p as usize]);
                let idle = closed_form::idle(Order::ZeroBubble, p, Seconds(1.0), Seconds(2.0), Seconds(1.0)).0;
                assert!(close(t.step.0, 3.0 * f64::from(m) + idle), "ZB-H1, {p} stages, {m} microbatches: {}", t.step.0);
            }
        }
    }

    #[test]
    fn activations_in_flight_are_the_published_counts() {
        for order in [Order::GPipe, Order::OneFOneB, Order::Interleaved(2), Order::ZeroBubble] {
            let (p, v, m) = (4u32, order.chunks(), 16);
            let freed = if order == Order::ZeroBubble { Work::Weights } else { Work::Backward };
            let t = run(order, m, &vec![stage(1.0, 2.0, 0.0); (p * v) as usize]);
            for (s, lane) in t.stages.iter().enumerate() {
                let (mut alive, mut most) = (0i32, 0);
                for slot in lane {
                    alive += i32::from(slot.task.work == Work::Forward) - i32::from(slot.task.work == freed);
                    most = most.max(alive);
                }
                let published = closed_form::in_flight(order, s as u32, p, m);
                assert!(close(f64::from(most) / f64::from(v), published), "{order:?} stage {s}: {most} of {v} chunks, {published}");
            }
        }
    }

    /// The same by longest paths: every task ends after what precedes it in its stage and what it waits for.
    fn longest_path(pipeline: &Pipeline<'_>) -> f64 {
        let (count, pieces) = (pipeline.lanes(), pipeline.stages);
        let orders: Vec<Vec<Task>> = (0..count).map(|s| order(pipeline.order, s as u32, count as u32, pipeline.microbatches)).collect();
        let mut ends: Vec<Vec<f64>> = orders.iter().map(|o| vec![0.0; o.len()]).collect();
        // Relaxation until nothing changes.
        loop {
            let before = ends.clone();
            for s in 0..count {
                for (i, task) in orders[s].iter().enumerate() {
                    let piece = task.chunk as usize * count + s;
                    let end = |p: usize| {
                        let want = Task { chunk: (p / count) as u32, ..*task };
                        ends[p % count][orders[p % count].iter().position(|x| *x == want).expect("every piece has the task")]
                    };
                    let ready = match task.work {
                        Work::Forward if piece > 0 => end(piece - 1) + pieces[piece - 1].send_forward.0,
                        Work::Backward if piece + 1 < pieces.len() => end(piece + 1) + pieces[piece + 1].send_backward.0,
                        _ => 0.0,
                    };
                    let t = &pieces[piece];
                    let split = pipeline.order == Order::ZeroBubble;
                    let work = match task.work {
                        Work::Before => pipeline.once(s, |t| t.before),
                        Work::Forward => t.times.forward.0,
                        Work::Backward => t.times.backward.0 - if split { t.weights.0 } else { 0.0 },
                        Work::Weights => t.weights.0,
                        Work::After => pipeline.once(s, |t| t.after),
                    };
                    ends[s][i] = ready.max(if i > 0 { ends[s][i - 1] } else { 0.0 }) + work;
                }
            }
            if ends == before {
                break;
            }
        }
        ends.into_iter().flatten().fold(0.0, f64::max)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn any_pipeline_is_its_longest_path(
            which in 0u32..6,
            rounds in 1u32..4,
            lanes in 1usize..5,
            times in prop::collection::vec((0.0f64..3.0, 0.0f64..3.0, 0.0f64..1.0, 0.0f64..1.0, 0.0f64..1.0), 12),
        ) {
            let order = [Order::GPipe, Order::OneFOneB, Order::ZeroBubble, Order::Interleaved(1), Order::Interleaved(2), Order::Interleaved(3)][which as usize];
            let microbatches = if which < 3 { rounds + lanes as u32 } else { rounds * lanes as u32 };
            let stages: Vec<Stage> = times.iter().take(lanes * order.chunks() as usize).map(|&(f, b, send, once, share)| {
                let mut s = stage(f, b, send);
                s.times.before = Seconds(once);
                s.times.after = Seconds(once * 2.0);
                s.weights = Seconds(b * share);
                s
            }).collect();
            let pipeline = Pipeline { order, microbatches, stages: &stages, solo_speedup: 1.0 };
            let t = simulate(&pipeline);
            let expected = longest_path(&pipeline);
            prop_assert!(close(t.step.0, expected), "{} against {expected}", t.step.0);
            let quick = duration(&pipeline);
            prop_assert!(close(quick.0, expected), "fast {} against {expected}", quick.0);
            prop_assert!((0.0..=1.0).contains(&t.bubble));
            let tasks = (2 + u32::from(order == Order::ZeroBubble)) * microbatches * order.chunks();
            for lane in &t.stages {
                prop_assert_eq!(lane.len() as u32, 2 + tasks);
                prop_assert!(lane.windows(2).all(|w| w[0].end <= w[1].start));
            }
        }
    }
}
