//! The time of a step as the longest path through its phases: what [`simulate`](super::simulate::simulate) finds where devices share nothing, in time
//! proportional to stages × microbatches, for searches that ask thousands of times.

use super::simulate::Pipeline;
use ir::Seconds;
use ir::program::{Phase, StageId, Step, steps};

/// When the last stage is done.
pub fn longest_path(pipeline: &Pipeline<'_>) -> Seconds {
    let stages = pipeline.stages;
    let count = stages.len();
    let orders: Vec<Vec<Step>> = (0..count as u32).map(|s| steps(pipeline.kind, StageId(s), count as u32, pipeline.microbatches).collect()).collect();
    let never = f64::NAN;
    let mut ends = vec![[vec![never; pipeline.microbatches as usize], vec![never; pipeline.microbatches as usize]]; count];
    let mut next = vec![0usize; count];
    let mut free = vec![0.0f64; count];
    loop {
        let mut moved = false;
        for s in 0..count {
            while let Some(step) = orders[s].get(next[s]) {
                let m = step.microbatch as usize;
                let (ready, work) = match step.phase {
                    Phase::Before => (0.0, stages[s].times.before.0),
                    Phase::After => (0.0, stages[s].times.after.0),
                    Phase::Forward => (if s == 0 { 0.0 } else { ends[s - 1][0][m] + stages[s - 1].send_forward.0 }, stages[s].times.forward.0),
                    Phase::Backward => (if s + 1 == count { 0.0 } else { ends[s + 1][1][m] + stages[s + 1].send_backward.0 }, stages[s].times.backward.0),
                };
                if ready.is_nan() {
                    break;
                }
                free[s] = free[s].max(ready) + work;
                match step.phase {
                    Phase::Forward => ends[s][0][m] = free[s],
                    Phase::Backward => ends[s][1][m] = free[s],
                    Phase::Before | Phase::After => {}
                }
                next[s] += 1;
                moved = true;
            }
        }
        if !moved {
            return Seconds(free.into_iter().fold(0.0, f64::max));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulate::{Stage, simulate};
    use super::*;
    use ir::plan::StageTimes;
    use ir::program::ScheduleKind;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn it_is_what_simulation_finds(
            one_f_one_b in any::<bool>(),
            microbatches in 1u32..9,
            times in prop::collection::vec((0.1f64..3.0, 0.1f64..3.0, 0.0f64..1.0, 0.0f64..1.0), 1..6),
        ) {
            let kind = if one_f_one_b { ScheduleKind::OneFOneB } else { ScheduleKind::GPipe };
            let stages: Vec<Stage> = times.iter().map(|&(f, b, send, once)| Stage {
                times: StageTimes { before: Seconds(once), forward: Seconds(f), backward: Seconds(b), after: Seconds(2.0 * once) },
                devices: 1,
                send_forward: Seconds(send),
                send_backward: Seconds(send / 2.0),
            }).collect();
            let pipeline = Pipeline { kind, microbatches, stages: &stages, solo_speedup: 1.0 };
            let (fast, exact) = (longest_path(&pipeline).0, simulate(&pipeline).step.0);
            prop_assert!((fast - exact).abs() <= 1e-9 * exact, "{fast} against {exact}");
        }
    }
}
