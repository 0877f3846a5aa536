//! The order in which the devices of a stage work, for every schedule.
//!
//! A stage holds one or more *chunks* of the model; chunk `c` of stage `s` is *piece* `c · stages + s` of the way through it. Invariants: every piece
//! does every microbatch's forward once, then its backward once, then (where the schedule splits them) its weight gradients once; each in the
//! microbatches' order; `Before` comes first and `After` last.

use ir::program::{Phase, ScheduleKind, StageId, steps};

/// A schedule. The runtime executes those of [`ScheduleKind`]; the others are predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// All forwards, then all backwards.
    GPipe,
    /// One forward, one backward in the steady state.
    OneFOneB,
    /// The same with several chunks per stage.
    Interleaved(u32),
    /// ZB-H1 (Qi et al. 2023): 1F1B with the backward split. A stage gives its cotangents on at once and makes weight gradients later, the later the
    /// nearer it is to the end of the pipeline, so that its last ones fill the time in which the others still wait for cotangents.
    ZeroBubble,
}

impl From<ScheduleKind> for Order {
    fn from(kind: ScheduleKind) -> Order {
        match kind {
            ScheduleKind::GPipe => Order::GPipe,
            ScheduleKind::OneFOneB => Order::OneFOneB,
            ScheduleKind::Interleaved(chunks) => Order::Interleaved(chunks),
        }
    }
}

impl Order {
    /// What of it the forwards and backwards follow.
    pub fn base(self) -> ScheduleKind {
        match self {
            Order::GPipe => ScheduleKind::GPipe,
            Order::OneFOneB | Order::ZeroBubble => ScheduleKind::OneFOneB,
            Order::Interleaved(chunks) => ScheduleKind::Interleaved(chunks),
        }
    }
    /// How many chunks a stage holds.
    pub fn chunks(self) -> u32 {
        self.base().chunks()
    }
}

/// What a stage does at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// What is done once, before the first microbatch.
    Before,
    /// A forward.
    Forward,
    /// A backward, without weight gradients where the schedule splits them off.
    Backward,
    /// The weight gradients of a backward.
    Weights,
    /// What is done once, after the last microbatch.
    After,
}

/// One entry of a stage's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// What is done.
    pub work: Work,
    /// Of which chunk.
    pub chunk: u32,
    /// For which microbatch.
    pub microbatch: u32,
}

/// How many backwards of stage `stage` are ahead of their weight gradients in [`Order::ZeroBubble`].
pub fn weights_behind(stage: u32, microbatches: u32) -> u32 {
    stage.min(microbatches)
}

/// The order of one stage.
pub fn order(order: Order, stage: u32, stages: u32, microbatches: u32) -> Vec<Task> {
    let task = |work, chunk, microbatch| Task { work, chunk, microbatch };
    let behind = weights_behind(stage, microbatches);
    let split = order == Order::ZeroBubble;
    let mut out = Vec::with_capacity(2 + (2 * order.chunks() * microbatches) as usize);
    for s in steps(order.base(), StageId(stage), stages, microbatches) {
        match s.phase {
            Phase::Before => out.push(task(Work::Before, 0, 0)),
            Phase::Forward => out.push(task(Work::Forward, s.chunk, s.microbatch)),
            Phase::Backward => {
                out.push(task(Work::Backward, s.chunk, s.microbatch));
                if split && s.microbatch >= behind {
                    out.push(task(Work::Weights, s.chunk, s.microbatch - behind));
                }
            }
            Phase::After => {
                if split {
                    out.extend((microbatches - behind..microbatches).map(|m| task(Work::Weights, 0, m)));
                }
                out.push(task(Work::After, 0, 0));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_order() -> impl Strategy<Value = Order> {
        prop_oneof![Just(Order::GPipe), Just(Order::OneFOneB), Just(Order::ZeroBubble), (1u32..4).prop_map(Order::Interleaved)]
    }

    proptest! {
        #[test]
        fn every_piece_does_all_its_work_once_and_in_order(o in any_order(), stages in 1u32..9, rounds in 1u32..4, odd in 0u32..7) {
            let microbatches = if matches!(o, Order::Interleaved(_)) { rounds * stages } else { rounds * stages + odd };
            for stage in 0..stages {
                let tasks = order(o, stage, stages, microbatches);
                prop_assert_eq!((tasks[0].work, tasks[tasks.len() - 1].work), (Work::Before, Work::After));
                for chunk in 0..o.chunks() {
                    let of = |work| -> Vec<(usize, u32)> {
                        tasks.iter().enumerate().filter(|(_, t)| t.work == work && t.chunk == chunk).map(|(i, t)| (i, t.microbatch)).collect()
                    };
                    let (f, b, w) = (of(Work::Forward), of(Work::Backward), of(Work::Weights));
                    let all: Vec<u32> = (0..microbatches).collect();
                    prop_assert_eq!(f.iter().map(|x| x.1).collect::<Vec<_>>(), all.clone());
                    prop_assert_eq!(b.iter().map(|x| x.1).collect::<Vec<_>>(), all.clone());
                    prop_assert!(f.iter().zip(&b).all(|(f, b)| f.0 < b.0));
                    if o == Order::ZeroBubble {
                        prop_assert_eq!(w.iter().map(|x| x.1).collect::<Vec<_>>(), all);
                        prop_assert!(b.iter().zip(&w).all(|(b, w)| b.0 < w.0));
                    } else {
                        prop_assert!(w.is_empty());
                    }
                }
            }
        }

        #[test]
        fn zero_bubble_holds_no_more_than_1f1b_on_its_first_stage(stages in 1u32..9, microbatches in 1u32..33) {
            // Inputs of a layer are needed until its weight gradients are made.
            for stage in 0..stages {
                let (mut alive, mut most) = (0u32, 0);
                for t in order(Order::ZeroBubble, stage, stages, microbatches) {
                    match t.work {
                        Work::Forward => alive += 1,
                        Work::Weights => alive -= 1,
                        Work::Before | Work::Backward | Work::After => {}
                    }
                    most = most.max(alive);
                }
                prop_assert!(most <= stages.min(microbatches));
            }
        }
    }
}
