//! The judge catches what loss curves hide: one bug planted at a time into a plan that passes.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they leave out")]

mod support;

use ir::plan::Plan;
use ir::program::{CollectiveKind, InstructionKind, Phase};
use runtime::Arguments;
use std::sync::Arc;
use support::verify::{Judged, verify};
use support::{Model, arguments, bundled, compile, exported};

fn judge(plan: Plan, given: &Arguments) -> Vec<Judged> {
    verify(&Arc::new(plan), given, &[1, 3], &runtime::Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn is_gradient_reduction(kind: &InstructionKind) -> bool {
    matches!(kind, InstructionKind::Collective { kind: CollectiveKind::AllReduce, .. })
}

/// Plants a bug and says whether the judge saw it; the same plan without it must pass.
fn caught(model: &Model, flags: &str, what: &str, plant: impl Fn(&mut Plan) -> bool) {
    let plan = compile(model, flags);
    let given = arguments(model, &plan);
    assert!(judge((*plan).clone(), &given).iter().all(|j| j.judgement.within()), "the plan of {flags} passes without the bug");
    let mut broken = (*plan).clone();
    assert!(plant(&mut broken), "there is a place for: {what}");
    let judged = judge(broken, &given);
    let seen = judged.iter().find(|j| !j.judgement.within());
    let Some(seen) = seen else { panic!("not caught: {what}") };
    let worst = seen.judgement.worst().expect("there are results");
    eprintln!("caught after {} steps: {what} ({} is {:.1e} times the allowance off)", seen.steps, worst.name, worst.ratio());
}

fn mutations(model: &Model) {
    caught(model, "--strategy data", "a gradient counted four times", |plan| {
        let after = &mut plan.programs[0].phases[Phase::After as usize];
        let Some(at) = after.iter().position(|i| is_gradient_reduction(&i.kind)) else { return false };
        // Reduced in place, so the second reduction sums what is summed already.
        let again = after[at].clone();
        after.insert(at + 1, again);
        true
    });
    caught(model, "--strategy data", "a missing all-reduce", |plan| {
        let after = &mut plan.programs[0].phases[Phase::After as usize];
        let Some(i) = after.iter_mut().find(|i| is_gradient_reduction(&i.kind)) else { return false };
        let InstructionKind::Collective { segments, .. } = &mut i.kind else { return false };
        segments.truncate(segments.len() / 2);
        true
    });
    caught(model, "--strategy tensor", "a wrong shard offset", |plan| {
        let mut found = false;
        for i in plan.programs[0].phases.iter_mut().flatten() {
            if let InstructionKind::Kernel { scalars, .. } = &mut i.kind {
                for s in scalars.iter_mut().filter(|s| !s.axes.is_empty()) {
                    s.axes.clear();
                    found = true;
                }
            }
        }
        found
    });
    caught(model, "--strategy data --microbatches 2", "a dropped microbatch", |plan| {
        let mut found = false;
        for i in plan.programs[0].phases[Phase::Backward as usize].iter_mut() {
            if let InstructionKind::MatMul(m) = &mut i.kind
                && m.accumulate
                && !found
            {
                m.accumulate = false;
                found = true;
            }
        }
        found
    });
    caught(model, "--strategy zero1", "a stale parameter", |plan| {
        let after = &mut plan.programs[0].phases[Phase::After as usize];
        let Some(i) = after.iter_mut().rev().find(|i| matches!(&i.kind, InstructionKind::Collective { kind: CollectiveKind::AllGather, .. })) else {
            return false;
        };
        let InstructionKind::Collective { segments, .. } = &mut i.kind else { return false };
        segments.pop().is_some() && !segments.is_empty()
    });
}

#[test]
fn five_bugs_are_caught_on_a_tiny_gpt() {
    mutations(&bundled("gpt_tiny"));
}

#[test]
fn five_bugs_are_caught_on_the_exported_gpt() {
    if let Some(model) = exported("gpt_4l") {
        mutations(&model);
    }
}
