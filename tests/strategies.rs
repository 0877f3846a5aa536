//! Strategies run and compute the step, and what they keep and communicate is what their papers say.

mod support;

use ir::Bytes;
use ir::plan::Plan;
use ir::program::{BufferKind, CollectiveKind, InstructionKind, Phase, Program};
use std::collections::BTreeMap;
use support::verify::{Oracle, results};
use support::{Model, STRATEGIES, arguments, bundled, compile, exported, losses, planned};

/// Runs a model under strategies: its losses, and every result after one step.
fn check(model: &Model, strategies: &[&str], steps: usize) {
    let mut found = Vec::new();
    let mut first = None;
    for flags in strategies {
        let plan = compile(model, flags);
        let given = arguments(model, &plan);
        for (step, (got, want)) in losses(&plan, &given, steps).iter().zip(&model.losses).enumerate() {
            assert!((got - want).abs() <= 1e-4 * want.abs(), "{} {flags}: loss {got} in step {step}, XLA has {want}", model.path.display());
        }
        found.push(results(&plan, &given, &[1], &runtime::Options::default()).unwrap_or_else(|e| panic!("{flags}: {e}")));
        first.get_or_insert((plan, given));
    }
    let (plan, given) = first.expect("there is a strategy");
    let judged = Oracle::new(&plan.source, &plan.interface, &given).and_then(|o| o.judge(&[1], &found)).unwrap_or_else(|e| panic!("{e}"));
    for (flags, judged) in strategies.iter().zip(judged) {
        let worst = judged[0].judgement.worst().expect("there are results");
        assert!(judged[0].judgement.within(), "{} {flags}: {} is {:.1} times as far off as allowed", model.path.display(), worst.name, worst.ratio());
    }
}

#[test]
fn a_small_model_runs_under_every_strategy() {
    check(&bundled("gpt_tiny"), &STRATEGIES, 4);
}

#[test]
fn gpt_4l_runs_under_every_strategy() {
    if let Some(model) = exported("gpt_4l") {
        check(&model, &STRATEGIES, 8);
    }
}

#[test]
fn mixtures_of_experts_run_with_experts_cut() {
    if let Some(model) = exported("moe") {
        check(&model, &["--strategy expert --mesh 1x4"], 4);
    }
    let failed = support::try_compile(&bundled("gpt_tiny"), "--strategy expert").expect_err("it has no experts");
    assert_eq!(failed.0[0].code, "E0432");
}

/// The models that plans are looked at of: a small one, and `gpt_4l` where it is.
fn models() -> Vec<Model> {
    [bundled("gpt_tiny")].into_iter().chain(exported("gpt_4l")).collect()
}

/// Bytes of a device's buffers of one kind, one slot each.
fn bytes(program: &Program, kind: BufferKind) -> u64 {
    program.buffers.values().filter(|b| b.kind == kind).map(|b| b.ty.bytes()).sum()
}

/// Collectives of a phase by kind and axes: the bytes of each tensor, largest first.
fn collectives(program: &Program, phase: Phase) -> BTreeMap<(CollectiveKind, Vec<u32>), Vec<u64>> {
    let mut all: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for i in program.phase(phase) {
        if let InstructionKind::Collective { kind, axes, segments, .. } = &i.kind {
            let list = all.entry((*kind, axes.iter().map(|a| a.0).collect())).or_default();
            list.extend(std::iter::repeat_n(i.bytes.0 / segments.len() as u64, segments.len()));
        }
    }
    all.values_mut().for_each(|l| l.sort_by(|a, b| b.cmp(a)));
    all
}

/// Tensors and bytes of one kind of collective over some axes.
fn total(program: &Program, phase: Phase, kind: CollectiveKind, axes: &[u32]) -> (usize, u64) {
    collectives(program, phase).get(&(kind, axes.to_vec())).map_or((0, 0), |l| (l.len(), l.iter().sum()))
}

/// Up to padding, and what is too small to be cut.
fn near(got: u64, want: u64) -> bool {
    got + want / 50 >= want && got <= want + want / 50 + 4096
}

#[test]
fn zero_keeps_what_its_paper_says() {
    for model in models() {
        let whole = planned(&model, "--cluster local:1 --strategy data --microbatches 2");
        let of = |plan: &Plan| [BufferKind::Parameter, BufferKind::Gradient, BufferKind::Optimizer].map(|k| bytes(&plan.programs[0], k));
        let [p, g, o] = of(&whole);
        assert!(p > 0 && near(g, p) && o >= 2 * p, "Adam keeps two moments: {p} {g} {o}");
        for n in [2u64, 4, 8] {
            for (strategy, want) in [("data", [p, g, o]), ("zero1", [p, g, o / n]), ("zero2", [p, g / n, o / n]), ("zero3", [p / n, g / n, o / n])] {
                let plan = planned(&model, &format!("--cluster local:{n} --strategy {strategy} --microbatches 2"));
                let got = of(&plan);
                assert!(got.iter().zip(want).all(|(&a, b)| near(a, b)), "{} {strategy} on {n}: {got:?}, not {want:?}", model.path.display());
                // The peak holds it all.
                assert!(plan.programs[0].arena >= Bytes(got.iter().sum()));
            }
        }
    }
}

#[test]
fn zero_communicates_what_its_paper_says() {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    for model in models() {
        let of = |strategy: &str| planned(&model, &format!("--strategy {strategy} --microbatches 2")).programs.remove(0);
        let p = bytes(&of("data"), BufferKind::Parameter);
        let all = |program: &Program, phase, kind| total(program, phase, kind, &[0]).1;
        let data = of("data");
        assert!(near(all(&data, Phase::After, AllReduce), p) && all(&data, Phase::After, AllGather) == 0);
        let one = of("zero1");
        assert!(
            near(all(&one, Phase::After, ReduceScatter), p) && near(all(&one, Phase::After, AllGather), p) && all(&one, Phase::Backward, ReduceScatter) == 0
        );
        let two = of("zero2");
        assert!(
            near(all(&two, Phase::Backward, ReduceScatter), p) && near(all(&two, Phase::After, AllGather), p) && all(&two, Phase::After, ReduceScatter) == 0
        );
        let three = of("zero3");
        assert!(near(all(&three, Phase::Forward, AllGather), p) && near(all(&three, Phase::Backward, ReduceScatter), p));
        assert!((1..=p + p / 50).contains(&all(&three, Phase::Backward, AllGather)) && all(&three, Phase::After, AllGather) == 0);
    }
}

#[test]
fn hybrid_sharding_reduces_shards_between_groups() {
    for model in models() {
        let p = bytes(&planned(&model, "--strategy data").programs[0], BufferKind::Parameter);
        let program = planned(&model, "--strategy hsdp --microbatches 2").programs.remove(0);
        assert!(near(bytes(&program, BufferKind::Parameter), p / 2) && near(bytes(&program, BufferKind::Gradient), p / 2));
        assert!(near(total(&program, Phase::Forward, CollectiveKind::AllGather, &[1]).1, p));
        assert!(near(total(&program, Phase::Backward, CollectiveKind::ReduceScatter, &[1]).1, p));
        assert!(near(total(&program, Phase::After, CollectiveKind::AllReduce, &[0]).1, p / 2));
        for phase in Phase::ALL {
            let gathers = collectives(&program, phase);
            assert!(gathers.keys().all(|(kind, axes)| *kind == CollectiveKind::AllReduce || *axes == [1]), "{phase:?}: only reductions cross groups");
        }
    }
}

/// Layers of `gpt_4l`, and bytes of the residual stream of its whole batch.
const LAYERS: usize = 4;
const RESIDUAL: u64 = 8 * 128 * 256 * 4;

/// How many collectives of a phase over axis 1 have the residual stream of half the batch.
fn of_residual(program: &Program, phase: Phase, kind: CollectiveKind) -> usize {
    collectives(program, phase).get(&(kind, vec![1])).map_or(0, |l| l.iter().filter(|b| **b == RESIDUAL / 2).count())
}

#[test]
fn megatron_reduces_twice_per_layer_and_direction() {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    let Some(model) = exported("gpt_4l") else { return };
    let (without, with) = ("--strategy ptd-p --stages 1 --mesh 2x2", "--strategy megatron --stages 1 --mesh 2x2");
    let plain = planned(&model, without).programs.remove(0);
    let count = |program, phase| [AllReduce, AllGather, ReduceScatter].map(|k| of_residual(program, phase, k));
    // One more in the backward for the head, whose vocabulary is cut.
    assert_eq!(count(&plain, Phase::Forward), [2 * LAYERS, 0, 0]);
    assert_eq!(count(&plain, Phase::Backward), [2 * LAYERS + 1, 0, 0]);
    // With sequence parallelism each is a reduce-scatter and an all-gather; the backward gathers the products' inputs again.
    let sequence = planned(&model, with).programs.remove(0);
    let (forward, backward) = (count(&sequence, Phase::Forward), count(&sequence, Phase::Backward));
    assert_eq!(forward, [0, 2 * LAYERS + 1, 2 * LAYERS], "the head's input is gathered too");
    assert_eq!((backward[0], backward[2]), (0, 2 * LAYERS + 1));
    assert!((2 * LAYERS..=4 * LAYERS + 2).contains(&backward[1]), "{backward:?}");
    // What is kept between blocks is cut.
    let kept = |p: &Program| bytes(p, BufferKind::Activation);
    assert!(kept(&sequence) + 2 * LAYERS as u64 * RESIDUAL / 4 <= kept(&plain) + 4096, "{} and {}", kept(&sequence), kept(&plain));
    // And state over the data axis.
    assert!(near(bytes(&sequence, BufferKind::Optimizer), bytes(&plain, BufferKind::Optimizer) / 2));
}

#[test]
fn gpipe_keeps_all_microbatches_and_1f1b_those_in_flight() {
    for model in models() {
        let slots = |schedule: &str| -> Vec<(u32, u64)> {
            let plan = planned(&model, &format!("--strategy {schedule} --stages 2 --microbatches 4"));
            let most = |p: &Program| p.buffers.values().filter(|b| b.kind == BufferKind::Activation).map(|b| b.slots).max().unwrap_or(0);
            plan.programs.iter().map(|p| (most(p), p.arena.0)).collect()
        };
        let (gpipe, one) = (slots("gpipe"), slots("1f1b"));
        assert_eq!(gpipe.iter().map(|s| s.0).collect::<Vec<_>>(), [4, 4]);
        assert_eq!(one.iter().map(|s| s.0).collect::<Vec<_>>(), [2, 1]);
        assert!(gpipe.iter().zip(&one).all(|(g, o)| g.1 > o.1), "{gpipe:?} {one:?}");
    }
}

#[test]
fn tensor_parallelism_in_two_dimensions_cuts_everything_by_both() {
    for model in models() {
        let p = bytes(&planned(&model, "--strategy data").programs[0], BufferKind::Parameter);
        for (flags, devices) in [("--strategy tensor-2d", 4), ("--cluster local:8 --strategy tensor-2.5d", 4), ("--cluster local:8 --strategy tensor-3d", 8)] {
            let program = planned(&model, flags).programs.remove(0);
            assert!(near(bytes(&program, BufferKind::Parameter), p / devices), "{flags}");
        }
        // Between products no device has a whole row of the residual stream.
        let kept = |flags: &str| bytes(&planned(&model, flags).programs[0], BufferKind::Activation);
        assert!(kept("--strategy tensor-2d") < kept("--cluster local:2 --strategy data"));
    }
}

#[test]
fn ulysses_exchanges_positions_for_heads() {
    let Some(model) = exported("gpt_4l") else { return };
    let program = planned(&model, "--strategy ulysses --mesh 1x4").programs.remove(0);
    // Queries, keys and values are one tensor in this model, so there are two exchanges a layer in the place of four.
    let (count, bytes) = total(&program, Phase::Forward, CollectiveKind::AllToAll, &[1]);
    assert_eq!((count, bytes), (2 * LAYERS, LAYERS as u64 * (3 + 1) * RESIDUAL / 4));
    assert!(total(&program, Phase::Backward, CollectiveKind::AllToAll, &[1]).0 >= 2 * LAYERS);
}
