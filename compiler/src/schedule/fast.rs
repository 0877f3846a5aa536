//! The time of a pipeline's step without its events: exact, and fast enough for a search.
//!
//! Where every device works at its own pace a step takes the longest path through its tasks. GPipe's has a closed form for any times. The
//! others are swept in *waves* in which every stage does one forward and one backward: stages are so aligned that a task only waits for tasks of the wave
//! before (or, without chunks, of the same wave further back), so a wave is known from a vector of times. Once a wave's times are those of an
//! earlier one shifted by one number, all further waves of the steady state are too, and they are skipped. So the work is independent of the number of
//! microbatches as soon as the pipeline settles. Where devices share cores (`solo_speedup`) the events are simulated.
//! Invariant: equal to [`simulate`] up to rounding.

use super::order::{Order, weights_behind};
use super::simulate::{Pipeline, simulate};
use ir::Seconds;

/// Duration of one step.
///
/// # Panics
/// As [`simulate`].
pub fn duration(pipeline: &Pipeline<'_>) -> Seconds {
    let lanes = pipeline.lanes();
    if pipeline.solo_speedup > 1.0 || lanes == 0 || !pipeline.order.base().allows(lanes as u32, pipeline.microbatches) {
        return simulate(pipeline).step;
    }
    Seconds(match pipeline.order {
        Order::GPipe => gpipe(pipeline),
        Order::OneFOneB | Order::ZeroBubble => one_f_one_b(pipeline),
        Order::Interleaved(chunks) => interleaved(pipeline, chunks.max(1) as usize),
    })
}

/// All forwards, then all backwards: the path enters at some stage and makes all its moves in time at the slowest stage from there on.
fn gpipe(pipeline: &Pipeline<'_>) -> f64 {
    let stages = pipeline.stages;
    let more = f64::from(pipeline.microbatches.max(1) - 1);
    let (mut sum, mut slowest, mut forward) = (0.0f64, 0.0f64, 0.0f64);
    for (i, s) in stages.iter().enumerate().rev() {
        sum += s.times.forward.0 + if i + 1 < stages.len() { s.send_forward.0 } else { 0.0 };
        slowest = slowest.max(s.times.forward.0);
        forward = forward.max(s.times.before.0 + sum + more * slowest);
    }
    let (mut sum, mut slowest, mut step) = (0.0f64, 0.0f64, 0.0f64);
    for (i, s) in stages.iter().enumerate().rev() {
        sum += s.times.backward.0;
        slowest = slowest.max(s.times.backward.0);
        step = step.max(forward + sum + more * slowest + s.times.after.0);
        sum += if i > 0 { s.send_backward.0 } else { 0.0 };
    }
    step
}

/// Finds when a vector of times repeats itself with a shift.
struct Steady {
    /// The last few vectors, oldest first overwritten.
    past: Vec<Vec<f64>>,
    seen: usize,
}

impl Steady {
    fn new(depth: usize) -> Steady {
        Steady { past: vec![vec![]; depth], seen: 0 }
    }

    /// Remembers a vector; how many calls ago it was the same up to a shift, and the shift.
    fn shift(&mut self, now: &[f64]) -> Option<(usize, f64)> {
        let depth = self.past.len();
        let found = (1..=depth.min(self.seen)).find_map(|ago| {
            let then = &self.past[(self.seen - ago) % depth];
            let by = now[0] - then[0];
            let tolerance = now.iter().fold(0.0f64, |a, x| a.max(x.abs())) * 1e-13;
            now.iter().zip(then).all(|(n, t)| (n - t - by).abs() <= tolerance).then_some((ago, by))
        });
        let slot = &mut self.past[self.seen % depth];
        slot.clear();
        slot.extend_from_slice(now);
        self.seen += 1;
        found
    }
}

/// 1F1B, with weight gradients behind for ZB-H1. Wave `k`: the backward of microbatch `k` on every stage, from the last, each after the forward before it.
fn one_f_one_b(pipeline: &Pipeline<'_>) -> f64 {
    let (stages, m) = (pipeline.stages, i64::from(pipeline.microbatches));
    let p = stages.len();
    let split = pipeline.order == Order::ZeroBubble;
    let behind: Vec<i64> = (0..p).map(|s| i64::from(weights_behind(s as u32, pipeline.microbatches))).collect();
    let weights: Vec<f64> = stages.iter().map(|s| if split { s.weights.0.min(s.times.backward.0) } else { 0.0 }).collect();
    // The stages' clocks, then the ends of their latest forwards.
    let mut state = vec![0.0f64; 2 * p];
    stages.iter().enumerate().for_each(|(s, stage)| state[s] = stage.times.before.0);
    let mut steady = Steady::new(4);
    let mut k = 1 - p as i64;
    while k < m {
        let (clock, forward) = state.split_at_mut(p);
        let mut cotangent = 0.0f64;
        for s in (0..p).rev() {
            let stage = &stages[s];
            let mut now = clock[s];
            if (0..m).contains(&(k + (p - 1 - s) as i64)) {
                let ready = if s > 0 { forward[s - 1] + stages[s - 1].send_forward.0 } else { 0.0 };
                now = now.max(ready) + stage.times.forward.0;
                forward[s] = now;
            }
            if k >= 0 {
                now = now.max(cotangent) + stage.times.backward.0 - weights[s];
                cotangent = now + stage.send_backward.0;
                if k >= behind[s] {
                    now += weights[s];
                }
            }
            clock[s] = now;
        }
        k += 1;
        // Waves in which every stage does everything are alike.
        let last = m - p as i64;
        if k >= p as i64
            && k < last
            && let Some((ago, by)) = steady.shift(&state)
        {
            let periods = (last - k) / ago as i64;
            state.iter_mut().for_each(|x| *x += by * periods as f64);
            k += periods * ago as i64;
            steady = Steady::new(4);
        }
    }
    (0..p).map(|s| state[s] + if split { weights[s] * behind[s] as f64 } else { 0.0 } + stages[s].times.after.0).fold(0.0, f64::max)
}

/// Interleaved 1F1B. Stage `r` is `r` slots ahead, so that whatever a slot waits for was done one wave before.
fn interleaved(pipeline: &Pipeline<'_>, v: usize) -> f64 {
    let pieces = pipeline.stages;
    let p = pieces.len() / v;
    let round = (p * v) as i64;
    let total = i64::from(pipeline.microbatches) * v as i64;
    let warm_up = |r: usize| (2 * (p - 1 - r) + (v - 1) * p) as i64;
    // Clocks, then ends of the latest forwards, then of the latest backwards.
    let mut state = vec![0.0f64; 3 * p];
    (0..p).for_each(|r| state[r] = pipeline.once(r, |t| t.before));
    let mut next = state.clone();
    let mut steady = Steady::new(3);
    let mut t = (0..p).map(|r| -warm_up(r) - r as i64).min().unwrap_or(0);
    let full = t.max(0) + p as i64;
    // The chunk of every place in a round, and where each stage's forward and backward are in theirs: dividing would take most of the time.
    let chunk: Vec<usize> = (0..p * v).map(|n| n / p).collect();
    let mut places: Vec<(usize, usize)> =
        (0..p as i64).map(|r| ((t + r + warm_up(r as usize)).rem_euclid(round) as usize, (t + r).rem_euclid(round) as usize)).collect();
    while t < total {
        for r in 0..p {
            let slot = t + r as i64;
            let mut now = state[r];
            let n = slot + warm_up(r);
            let (forward, backward) = places[r];
            let following = |place: usize| if place + 1 == p * v { 0 } else { place + 1 };
            places[r] = (following(forward), following(backward));
            if (0..total).contains(&n) {
                let piece = chunk[forward] * p + r;
                let from = if r > 0 { r - 1 } else { p - 1 };
                let ready = if piece > 0 { state[p + from] + pieces[piece - 1].send_forward.0 } else { 0.0 };
                now = now.max(ready) + pieces[piece].times.forward.0;
                next[p + r] = now;
            }
            if (0..total).contains(&slot) {
                let piece = (v - 1 - chunk[backward]) * p + r;
                let from = if r + 1 < p { r + 1 } else { 0 };
                let ready = if piece + 1 < pieces.len() { state[2 * p + from] + pieces[piece + 1].send_backward.0 } else { 0.0 };
                now = now.max(ready) + pieces[piece].times.backward.0;
                next[2 * p + r] = now;
            }
            next[r] = now;
        }
        state.copy_from_slice(&next);
        t += 1;
        let last = total - warm_up(0) - p as i64;
        if t >= full
            && t < last
            && t % round == 0
            && let Some((ago, by)) = steady.shift(&state)
        {
            let periods = (last - t) / (round * ago as i64);
            if periods > 0 {
                state.iter_mut().for_each(|x| *x += by * periods as f64);
                next.copy_from_slice(&state);
                t += periods * round * ago as i64;
                steady = Steady::new(3);
            }
        }
    }
    (0..p).map(|r| state[r] + pipeline.once(r, |t| t.after)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::simulate::Stage;
    use ir::plan::StageTimes;

    /// Stages of unlike times, the same on every machine.
    fn stages(count: usize) -> Vec<Stage> {
        let mut x = 9u64;
        let mut random = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 40) as f64 / (1u64 << 24) as f64
        };
        (0..count)
            .map(|_| {
                let times =
                    StageTimes { before: Seconds(random()), forward: Seconds(1.0 + random()), backward: Seconds(2.0 + random()), after: Seconds(random()) };
                Stage { times, weights: Seconds(0.9), devices: 1, send_forward: Seconds(random() / 5.0), send_backward: Seconds(random() / 5.0) }
            })
            .collect()
    }

    #[test]
    fn skipped_waves_change_nothing() {
        for (order, p, m) in [
            (Order::GPipe, 8, 200),
            (Order::OneFOneB, 1, 50),
            (Order::OneFOneB, 8, 7),
            (Order::OneFOneB, 8, 300),
            (Order::ZeroBubble, 8, 300),
            (Order::Interleaved(2), 4, 160),
            (Order::Interleaved(3), 8, 240),
        ] {
            let list = stages(p * order.chunks() as usize);
            let pipeline = Pipeline { order, microbatches: m, stages: &list, solo_speedup: 1.0 };
            let (quick, exact) = (duration(&pipeline).0, simulate(&pipeline).step.0);
            assert!((quick - exact).abs() <= 1e-9 * exact, "{order:?} {p} {m}: {quick} against {exact}");
        }
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "says what was measured")]
    fn large_settings_take_microseconds() {
        for (order, p) in [(Order::GPipe, 64), (Order::OneFOneB, 64), (Order::ZeroBubble, 64), (Order::Interleaved(4), 64)] {
            let list = stages(p * order.chunks() as usize);
            for m in [512, 51_200] {
                let pipeline = Pipeline { order, microbatches: m, stages: &list, solo_speedup: 1.0 };
                let start = std::time::Instant::now();
                let sum: f64 = (0..20).map(|_| duration(&pipeline).0).sum();
                eprintln!("{order:?}, {p} stages, {m} microbatches: {:?} an evaluation ({sum:.0})", start.elapsed() / 20);
            }
        }
    }
}
