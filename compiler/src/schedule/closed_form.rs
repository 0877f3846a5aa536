//! The published formulas for equal stages without transfers: idle time, and microbatches in flight.
//!
//! With `f` and `b` the forward and backward of one microbatch through all chunks of a stage and `w` the part of `b` that is weight gradients, a
//! step takes `m·(f + b)` and an idle time that [`idle`] gives: GPipe and 1F1B `(p − 1)·(f + b)` (Huang et al. 2019, Narayanan et al. 2021),
//! interleaved `(p − 1)·(f + b)/v`, ZB-H1 `(p − 1)·(f + b − 2w)` for `w` no larger than `f` or `b − w` (Qi et al. 2023).

use super::order::Order;
use ir::Seconds;

/// Time that every stage idles in a step.
pub fn idle(order: Order, stages: u32, forward: Seconds, backward: Seconds, weights: Seconds) -> Seconds {
    let others = f64::from(stages.saturating_sub(1));
    let both = forward.0 + backward.0;
    Seconds(match order {
        Order::GPipe | Order::OneFOneB => others * both,
        Order::Interleaved(chunks) => others * both / f64::from(chunks.max(1)),
        Order::ZeroBubble => others * (both - 2.0 * weights.0),
    })
}

/// Idle time as a share of the time in which a stage works: `(p − 1)/m`, `(p − 1)/(v·m)`, ….
pub fn bubble(order: Order, stages: u32, microbatches: u32, forward: Seconds, backward: Seconds, weights: Seconds) -> f64 {
    idle(order, stages, forward, backward, weights).0 / (f64::from(microbatches) * (forward.0 + backward.0))
}

/// Activations of a stage held at most at once, in microbatches of all its chunks; with ZB-H1 until weight gradients are made.
pub fn in_flight(order: Order, stage: u32, stages: u32, microbatches: u32) -> f64 {
    let (p, s, m) = (f64::from(stages), f64::from(stage), f64::from(microbatches));
    match order {
        Order::GPipe => m,
        Order::OneFOneB => m.min(p - s),
        Order::Interleaved(chunks) => {
            let v = f64::from(chunks.max(1));
            m.min((2.0 * (p - s - 1.0) + (v - 1.0) * p + 1.0) / v)
        }
        Order::ZeroBubble => m.min(p),
    }
}
