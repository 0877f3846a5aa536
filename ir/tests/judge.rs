//! The judge on whole training steps: a correct computation in another order is within, and planted bugs are outside.
//!
//! The order is changed by permuting the batch, of which every case takes the mean: the mathematics stays and every sum is rounded differently.

#![allow(clippy::print_stderr, reason = "what was computed, for those who ask with --nocapture")]

mod case;

use case::Case;
use ir::interp::{Precision, Stepper, Tensor};
use ir::judge::Reference;

/// The rows of a batch argument in another order.
fn permuted(x: &Tensor, order: impl Fn(u64) -> u64) -> Tensor {
    let rows = x.ty.shape[0];
    let size = (x.ty.bytes() / rows) as usize;
    let bytes = x.to_bytes();
    let moved: Vec<u8> = (0..rows).flat_map(|r| bytes[order(r) as usize * size..][..size].to_vec()).collect();
    Tensor::from_bytes(x.ty.clone(), &moved).unwrap()
}

struct Run<'a> {
    case: &'a Case,
    reference: Reference<'a>,
}

impl<'a> Run<'a> {
    fn new(case: &'a Case, steps: usize) -> Run<'a> {
        let state: Vec<(usize, usize)> = (0..case.state).map(|i| (i, i)).collect();
        let mut reference = Reference::new(&case.module, case.graph(), &state, case.arguments.clone()).unwrap();
        for _ in 0..steps {
            reference.step().unwrap();
        }
        Run { case, reference }
    }
    /// A computation as typed whose arguments were changed before the given step.
    fn plan(&self, steps: usize, mut change: impl FnMut(usize, &mut Stepper)) -> Vec<Tensor> {
        let case = self.case;
        let state = (0..case.state).map(|i| (i, i));
        let mut stepper = Stepper::new(&case.module, case.graph(), state, case.arguments.clone(), Precision::AsTyped).unwrap();
        let mut outputs = Vec::new();
        for step in 0..steps {
            change(step, &mut stepper);
            outputs = stepper.step().unwrap();
        }
        outputs
    }
    fn permute_batch(&self, stepper: &mut Stepper, order: impl Fn(u64) -> u64) {
        for i in self.case.batch() {
            stepper.set_input(i, permuted(&self.case.arguments[i], &order)).unwrap();
        }
    }
    fn within(&self, what: &str, plan: &[Tensor]) -> bool {
        let judgement = self.reference.judge(plan).unwrap();
        let worst = judgement.worst().unwrap();
        eprintln!("{what}: {} of {:.2} times its allowance ({:e}, relative {:e})", worst.name, worst.ratio(), worst.distance, worst.relative());
        judgement.within()
    }
}

fn check(name: &str, steps: usize) {
    let Some(case) = Case::load(name) else { return };
    let rows = case.arguments[case.state].ty.shape[0];
    let run = Run::new(&case, steps);
    let reversed = |r: u64| rows - 1 - r;
    assert!(run.within("the same order", &run.plan(steps, |_, _| {})));
    let good = run.plan(steps, |_, s| run.permute_batch(s, reversed));
    assert!(run.within("another order", &good));
    // Half of the batch is dropped: the other half is taken twice.
    assert!(!run.within("a dropped microbatch", &run.plan(steps, |_, s| run.permute_batch(s, |r| r % (rows / 2)))));
    // One argument is that of the step before (as a copy that was not refreshed would be).
    if steps > 1 {
        let stale = run.plan(steps, |step, s| {
            if step == steps - 1 {
                s.set_input(0, case.arguments[0].clone()).unwrap();
            }
        });
        assert!(!run.within("a stale parameter", &stale));
    }
    // A state tensor's change is counted twice, or the first half of its rows is not updated.
    for i in [0, case.state / 3, case.state / 2] {
        let mut wrong = good.clone();
        let (before, after) = (case.arguments[i].to_f64s(), good[i].to_f64s());
        if before == after {
            continue;
        }
        let twice: Vec<f64> = before.iter().zip(&after).map(|(b, a)| 2.0 * a - b).collect();
        wrong[i] = Tensor::from_f64s(good[i].ty.clone(), &twice).unwrap();
        let verdicts = run.reference.judge(&wrong).unwrap().verdicts;
        let noise = verdicts[i].typed_distance > 0.01 * verdicts[i].change.unwrap();
        assert!(noise || !verdicts[i].within(), "{}", verdicts[i].name);
        let half: Vec<f64> = before.iter().zip(&after).enumerate().map(|(k, (b, a))| if k < before.len() / 2 { *b } else { *a }).collect();
        wrong[i] = Tensor::from_f64s(good[i].ty.clone(), &half).unwrap();
        let verdicts = run.reference.judge(&wrong).unwrap().verdicts;
        assert!(noise || !verdicts[i].within(), "{}", verdicts[i].name);
    }
}

#[test]
fn mlp() {
    check("mlp", 1);
    check("mlp", 3);
}

#[test]
fn gpt_4l_after_one_step() {
    check("gpt_4l", 1);
}

#[test]
fn gpt_4l_after_three_steps() {
    if std::env::var_os("SHARDWRIGHT_SLOW").is_some() {
        check("gpt_4l", 3);
    }
}

#[test]
fn moe() {
    check("moe", 1);
}
