//! The schedule expanded to a Gantt chart: when each stage runs which phase of which microbatch.
//!
//! A forward starts when the stage before has finished that microbatch's forward, a backward when the stage after has finished its backward, and each
//! stage keeps the order of [`ir::program::steps`]. Times are the plan's stage times; transfers are part of them.
//! The step that results is drawn beside the plan's own prediction, never instead of it.

use ir::plan::StageTimes;
use ir::program::{Phase, ScheduleKind, StageId, Step, steps};
use serde::Serialize;

/// More boxes than this are not drawn: a page that holds them would be slow, and nobody could tell them apart.
const MOST_BOXES: u64 = 40_000;

/// An expanded schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Seconds from the start of the step to its end.
    pub span: f64,
    /// Share of the stages' time that is idle.
    pub bubble: f64,
    /// (stage, phase, microbatch, start, end), stage by stage in time order; empty when there would be too many to draw.
    pub boxes: Vec<(u32, u32, u32, f64, f64)>,
    /// Whether the boxes were left out.
    pub left_out: bool,
}

/// Expands a schedule over the stages' times.
pub fn timeline(kind: ScheduleKind, times: &[StageTimes], microbatches: u32) -> Timeline {
    let stages = times.len() as u32;
    if u64::from(stages) * (2 * u64::from(microbatches) + 2) > MOST_BOXES {
        return Timeline { left_out: true, ..Timeline::default() };
    }
    // Chunks of the model that lie on the same devices take turns.
    let lanes = stages / kind.chunks().max(1);
    let orders: Vec<Vec<Step>> = (0..lanes).map(|s| steps(kind, StageId(s), lanes, microbatches).collect()).collect();
    let mut next = vec![0usize; lanes as usize];
    let mut clock = vec![0f64; lanes as usize];
    let mut done: Vec<[Vec<Option<f64>>; 2]> = times.iter().map(|_| [vec![None; microbatches as usize], vec![None; microbatches as usize]]).collect();
    let mut boxes: Vec<Vec<(u32, u32, u32, f64, f64)>> = vec![Vec::new(); times.len()];
    let mut busy = 0.0;
    loop {
        let mut moved = false;
        for lane in 0..lanes as usize {
            while let Some(step) = orders[lane].get(next[lane]) {
                let m = step.microbatch as usize;
                let s = step.chunk as usize * lanes as usize + lane;
                let once = |of: fn(&StageTimes) -> f64| times.iter().skip(lane).step_by(lanes as usize).map(of).sum::<f64>();
                let (ready, duration) = match step.phase {
                    Phase::Before => (Some(0.0), once(|t| t.before.0)),
                    Phase::Forward => (if s == 0 { Some(0.0) } else { done[s - 1][0][m] }, times[s].forward.0),
                    Phase::Backward => (if s + 1 == times.len() { done[s][0][m] } else { done[s + 1][1][m] }, times[s].backward.0),
                    Phase::After => (Some(0.0), once(|t| t.after.0)),
                };
                let Some(ready) = ready else { break };
                let start = clock[lane].max(ready);
                let end = start + duration;
                match step.phase {
                    Phase::Forward => done[s][0][m] = Some(end),
                    Phase::Backward => done[s][1][m] = Some(end),
                    Phase::Before | Phase::After => {}
                }
                if duration > 0.0 {
                    boxes[s].push((s as u32, step.phase as u32, step.microbatch, start, end));
                }
                busy += duration;
                clock[lane] = end;
                next[lane] += 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let span = clock.iter().copied().fold(0.0, f64::max);
    let bubble = if span > 0.0 && stages > 0 { 1.0 - busy / (span * f64::from(lanes)) } else { 0.0 };
    Timeline { span, bubble: bubble.max(0.0), boxes: boxes.into_iter().flatten().collect(), left_out: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::Seconds;

    fn even(stages: usize) -> Vec<StageTimes> {
        vec![StageTimes { before: Seconds(0.0), forward: Seconds(1.0), backward: Seconds(2.0), after: Seconds(0.0) }; stages]
    }

    #[test]
    fn the_bubble_of_even_stages_is_the_closed_form() {
        for kind in [ScheduleKind::GPipe, ScheduleKind::OneFOneB] {
            for (stages, microbatches) in [(1u32, 1u32), (2, 4), (4, 8), (4, 2)] {
                let t = timeline(kind, &even(stages as usize), microbatches);
                let (p, m) = (f64::from(stages), f64::from(microbatches));
                assert!((t.span - 3.0 * (m + p - 1.0)).abs() < 1e-9, "{kind:?} {stages} {microbatches}: {}", t.span);
                assert!((t.bubble - (p - 1.0) / (m + p - 1.0)).abs() < 1e-9);
                assert_eq!(t.boxes.len() as u32, 2 * stages * microbatches);
            }
        }
    }

    #[test]
    fn boxes_of_a_stage_never_overlap() {
        let mut times = even(3);
        times[1].forward = Seconds(3.5);
        times[2].after = Seconds(0.7);
        let t = timeline(ScheduleKind::OneFOneB, &times, 5);
        for pair in t.boxes.windows(2).filter(|p| p[0].0 == p[1].0) {
            assert!(pair[0].4 <= pair[1].3);
        }
    }

    #[test]
    fn a_schedule_too_long_to_draw_is_left_out() {
        assert!(timeline(ScheduleKind::GPipe, &even(64), 10_000).left_out);
    }
}
