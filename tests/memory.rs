//! Memory is planned: limits bind, arenas are what the plan says, and what cannot fit says why and what would.

mod support;

use ir::Bytes;
use ir::diagnostic::Fault;
use ir::program::BufferKind;
use runtime::Session;
use support::{arguments, bundled, compile, losses, try_compile};

#[test]
fn under_a_limit_below_replication_state_is_cut_and_the_arena_fits() {
    let model = bundled("gpt_tiny");
    let replicated = compile(&model, "--strategy data");
    let limit = replicated.programs[0].arena.0 - 1;
    let plan = compile(&model, &format!("--memory-limit {limit} --stages 1 --mesh 4"));
    assert!(plan.programs.iter().all(|p| p.arena.0 <= limit));
    let state = |plan: &ir::plan::Plan| -> u64 {
        let p = &plan.programs[0];
        p.inputs.iter().map(|b| &p.buffers[b.buffer]).filter(|b| matches!(b.kind, BufferKind::Parameter | BufferKind::Optimizer)).map(|b| b.ty.bytes()).sum()
    };
    assert!(state(&plan) < state(&replicated), "some state is cut");
    let given = arguments(&model, &plan);
    for (got, want) in losses(&plan, &given, 3).iter().zip(&model.losses) {
        assert!((got - want).abs() <= 1e-4 * want.abs());
    }
    let session = Session::open(&plan, &runtime::Options::default()).unwrap_or_else(|e| panic!("{e}"));
    for (rank, memory) in session.memory().iter().enumerate() {
        let of = &plan.programs[rank / plan.programs[0].mesh.devices() as usize];
        assert_eq!(memory.arena as u64, of.arena.0, "rank {rank} allocates what the plan says");
    }
}

#[test]
fn what_cannot_fit_says_how_much_is_missing_and_what_would_work() {
    let model = bundled("gpt_tiny");
    let failed = try_compile(&model, "--memory-limit 64KiB --stages 1 --mesh 4").expect_err("64 KiB is too little");
    let d = &failed.0[0];
    assert_eq!((d.code.as_str(), d.fault), ("E0502", Fault::Outcome));
    let text = d.to_string();
    for part in ["per device", "are missing on devices 0 to 3", "stage s0", "at ", "the largest values alive then", "--memory-limit"] {
        assert!(text.contains(part), "{part:?} is missing from {text}");
    }
    // The limit it names works.
    let help = d.help.as_deref().expect("there is a way out");
    let named: u64 = help.split("--memory-limit ").nth(1).and_then(|t| t.split('`').next()).and_then(|t| t.parse().ok()).expect("a number of bytes");
    let plan = compile(&model, &format!("--memory-limit {named} --stages 1 --mesh 4"));
    assert!(plan.programs[0].arena <= Bytes(named));
}

#[test]
fn compiling_twice_gives_the_same_bytes() {
    for (name, flags) in [("mlp", "--cluster local:4"), ("gpt_tiny", "--cluster local:4"), ("gpt_tiny", "--memory-limit 1MiB --stages 1 --mesh 4")] {
        let model = bundled(name);
        let plan = |_: u32| try_compile(&model, flags).map(|p| p.to_bytes());
        match (plan(0), plan(1)) {
            (Ok(a), Ok(b)) => assert!(a == b, "{name} {flags}: plans differ"),
            (a, b) => assert_eq!(a.err(), b.err()),
        }
    }
}

/// Bytes of one microbatch that a stage keeps from its forward to its backward.
fn kept(program: &ir::program::Program, in_flight: u32) -> u64 {
    program.buffers.values().filter(|b| b.kind == BufferKind::Activation && b.slots == in_flight).map(|b| b.ty.bytes()).sum()
}

#[test]
fn recomputation_keeps_what_enters_layers_and_repeats_the_forward() {
    let model = bundled("gpt_tiny");
    let flags = "--cluster local:2 --stages 2 --microbatches 4 --schedule gpipe --recompute";
    let [none, selective, full] = ["none", "selective", "full"].map(|mode| compile(&model, &format!("{flags} {mode}")));
    // One microbatch of the residual stream is the largest value that enters a layer of the second stage.
    for (s, stage) in full.stages.iter().enumerate() {
        let crossing = full.programs[1].buffers.values().filter(|b| b.kind == BufferKind::Activation && b.slots == 4).map(|b| b.ty.bytes()).max();
        let entering = u64::from(stage.layers.1 - stage.layers.0) - u64::from(s == 0);
        let (holds, most) = (kept(&full.programs[s], 4), entering * crossing.expect("something is kept"));
        // A layer that repeats nothing needs nothing.
        assert!(holds <= most && holds + 8192 >= most, "stage {s} keeps {holds}, and {most} enter its layers");
        let (before, after) = (&none.stages[s].times, &stage.times);
        assert!((after.forward.0 - before.forward.0).abs() <= 0.02 * before.forward.0);
        let repeated = (after.backward.0 - before.backward.0) / before.forward.0;
        assert!((0.5..=1.05).contains(&repeated), "stage {s} repeats {repeated:.2} of its forward");
        let little = (selective.stages[s].times.backward.0 - before.backward.0) / before.forward.0;
        assert!((0.0..repeated).contains(&little), "stage {s} repeats {little:.2} of its forward under selective recomputation");
        let bytes = [&none, &selective, &full].map(|p| kept(&p.programs[s], 4));
        assert!(bytes[0] > bytes[1] && bytes[1] > bytes[2], "stage {s} keeps {bytes:?}");
        // What is saved is all microbatches' kept bytes, less what remaking one layer holds for a while.
        let saved = none.programs[s].arena.0.saturating_sub(full.programs[s].arena.0);
        let layer = bytes[0] / u64::from(stage.layers.1 - stage.layers.0);
        assert!(saved + 3 * layer >= 4 * (bytes[0] - bytes[2]), "stage {s} saves {saved} of {}", 4 * (bytes[0] - bytes[2]));
    }
}

#[test]
fn without_a_mode_as_little_as_fits_is_recomputed() {
    let model = bundled("gpt_tiny");
    let flags = "--cluster local:1 --stages 1 --microbatches 1";
    let modes = |plan: &ir::plan::Plan| plan.layers.iter().map(|l| l.recompute).collect::<std::collections::BTreeSet<_>>();
    let none = compile(&model, flags);
    assert_eq!(modes(&none), [ir::plan::Recompute::None].into());
    let plan = compile(&model, &format!("{flags} --memory-limit {}", none.programs[0].arena.0 - 1));
    assert!(modes(&plan).contains(&ir::plan::Recompute::Selective) && !modes(&plan).contains(&ir::plan::Recompute::Full));
    assert!(plan.placement.iter().any(|p| p.recomputed));
    let given = arguments(&model, &plan);
    for (got, want) in losses(&plan, &given, 3).iter().zip(&model.losses) {
        assert!((got - want).abs() <= 1e-4 * want.abs());
    }
    // Between two modes only some layers take the second, and the step is shorter than if all did.
    let [selective, full] = ["selective", "full"].map(|mode| compile(&model, &format!("{flags} --recompute {mode}")));
    let limit = (selective.programs[0].arena.0 + full.programs[0].arena.0) / 2;
    let mixed = compile(&model, &format!("{flags} --memory-limit {limit}"));
    assert!(mixed.programs[0].arena.0 <= limit && mixed.schedule.step < full.schedule.step, "{} against {}", mixed.schedule.step, full.schedule.step);
    assert_eq!(modes(&mixed), [ir::plan::Recompute::Selective, ir::plan::Recompute::Full].into());
    let given = arguments(&model, &mixed);
    for (got, want) in losses(&mixed, &given, 3).iter().zip(&model.losses) {
        assert!((got - want).abs() <= 1e-4 * want.abs());
    }
    // What is asked for is what is done, though it does not fit.
    try_compile(&model, &format!("{flags} --recompute none --memory-limit {}", none.programs[0].arena.0 - 1)).expect_err("nothing may be recomputed");
}
