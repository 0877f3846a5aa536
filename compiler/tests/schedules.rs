//! Schedules as a whole: the fast duration is what the simulation finds, both are the published formulas where those hold, and large settings are cheap.
#![allow(clippy::print_stderr, reason = "says what was measured")]

use compiler::schedule::closed_form;
use compiler::schedule::fast::duration;
use compiler::schedule::order::Order;
use compiler::schedule::simulate::{Pipeline, Stage, simulate};
use ir::Seconds;
use ir::plan::StageTimes;

/// Pieces of unlike times, the same on every machine.
fn unlike(count: usize, seed: u64) -> Vec<Stage> {
    let mut x = seed;
    let mut random = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 40) as f64 / (1u64 << 24) as f64
    };
    (0..count)
        .map(|_| {
            let times =
                StageTimes { before: Seconds(random()), forward: Seconds(random() * 2.0), backward: Seconds(0.5 + random() * 3.0), after: Seconds(random()) };
            Stage { times, weights: Seconds(random() / 2.0), devices: 1, send_forward: Seconds(random() / 2.0), send_backward: Seconds(random() / 2.0) }
        })
        .collect()
}

const ORDERS: [Order; 6] = [Order::GPipe, Order::OneFOneB, Order::ZeroBubble, Order::Interleaved(1), Order::Interleaved(2), Order::Interleaved(3)];

#[test]
fn fast_is_exact() {
    for seed in 0..40u64 {
        for order in ORDERS {
            let lanes = 1 + (seed % 6) as usize;
            let rounds = 1 + (seed / 6 % 5) as u32 * 4;
            let microbatches = if order.chunks() > 1 || order == Order::Interleaved(1) { rounds * lanes as u32 } else { rounds * 3 + 1 };
            let list = unlike(lanes * order.chunks() as usize, seed + 1);
            let pipeline = Pipeline { order, microbatches, stages: &list, solo_speedup: 1.0 };
            let (quick, exact) = (duration(&pipeline).0, simulate(&pipeline).step.0);
            assert!((quick - exact).abs() <= 1e-9 * exact, "{order:?}, {lanes} stages, {microbatches} microbatches: {quick} against {exact}");
        }
    }
}

#[test]
fn equal_stages_are_the_closed_forms() {
    for p in 1..6u32 {
        for m in [p, 3 * p, 8 * p] {
            for order in ORDERS {
                let v = f64::from(order.chunks());
                let times = StageTimes { forward: Seconds(1.0 / v), backward: Seconds(2.0 / v), ..StageTimes::default() };
                let list = vec![Stage { times, weights: Seconds(1.0), devices: 1, ..Stage::default() }; (p * order.chunks()) as usize];
                let pipeline = Pipeline { order, microbatches: m, stages: &list, solo_speedup: 1.0 };
                let idle = closed_form::idle(order, p, Seconds(1.0), Seconds(2.0), Seconds(1.0)).0;
                for found in [duration(&pipeline).0, simulate(&pipeline).step.0] {
                    assert!((found - 3.0 * f64::from(m) - idle).abs() < 1e-9, "{order:?}, {p} stages, {m} microbatches: {found}");
                }
                let bubble = closed_form::bubble(order, p, m, Seconds(1.0), Seconds(2.0), Seconds(1.0));
                assert!((bubble - idle / (3.0 * f64::from(m))).abs() < 1e-12);
            }
        }
    }
}

#[test]
fn large_settings_are_cheap() {
    for (order, p) in [(Order::GPipe, 64), (Order::OneFOneB, 64), (Order::ZeroBubble, 64), (Order::Interleaved(4), 64)] {
        let list = unlike(p * order.chunks() as usize, 5);
        for m in [512, 51_200] {
            let pipeline = Pipeline { order, microbatches: m, stages: &list, solo_speedup: 1.0 };
            let start = std::time::Instant::now();
            let sum: f64 = (0..20).map(|_| duration(&pipeline).0).sum();
            eprintln!("{order:?}, {p} stages, {m} microbatches: {:?} an evaluation ({sum:.0})", start.elapsed() / 20);
        }
    }
}
