//! Plans run and compute the step: losses as XLA computed them, and every result judged against the unsharded step.

mod support;

use support::verify::{Oracle, results};
use support::{Model, arguments, bundled, compile, exported, losses};

/// Every setting that the two main models run under.
const SETTINGS: [&str; 14] = [
    "--cluster local:1",
    "--cluster local:2",
    "--cluster local:4",
    "--cluster local:8",
    "--strategy data",
    "--strategy tensor",
    "--strategy zero1",
    "--strategy zero2",
    "--strategy zero3",
    "--mesh 2x2",
    "--stages 2 --microbatches 4 --schedule 1f1b",
    "--stages 2 --microbatches 4 --schedule gpipe",
    "--cluster local:4 --stages 2 --mesh 1x2",
    "--strategy zero2 --microbatches 2",
];

/// Runs a model under all settings: eight losses, and results after one and three steps.
fn check(model: &Model, settings: &[&str]) {
    let steps = [1, 3];
    let mut found = Vec::new();
    let mut oracle_of = None;
    for flags in settings {
        let plan = compile(model, flags);
        let given = arguments(model, &plan);
        let got = losses(&plan, &given, model.losses.len());
        for (step, (got, want)) in got.iter().zip(&model.losses).enumerate() {
            assert!((got - want).abs() <= 1e-4 * want.abs(), "{} {flags}: loss {got} in step {step}, XLA has {want}", model.path.display());
        }
        found.push(results(&plan, &given, &steps, &runtime::Options::default()).unwrap_or_else(|e| panic!("{flags}: {e}")));
        oracle_of.get_or_insert((plan, given));
    }
    let (plan, given) = oracle_of.expect("there is a setting");
    let oracle = Oracle::new(&plan.source, &plan.interface, &given).unwrap_or_else(|e| panic!("{e}"));
    let judged = oracle.judge(&steps, &found).unwrap_or_else(|e| panic!("{e}"));
    for (flags, judged) in settings.iter().zip(judged) {
        for j in judged {
            let worst = j.judgement.worst().expect("there are results");
            assert!(
                j.judgement.within(),
                "{} {flags}: after {} steps {} is off by {:.3e}, {:.1} times what is allowed",
                model.path.display(),
                j.steps,
                worst.name,
                worst.distance,
                worst.ratio()
            );
        }
    }
}

#[test]
fn the_mlp_runs_under_every_setting() {
    check(&bundled("mlp"), &SETTINGS);
}

#[test]
fn a_tiny_gpt_runs_under_every_setting() {
    check(&bundled("gpt_tiny"), &SETTINGS);
}

#[test]
fn recomputed_steps_run() {
    let settings = [
        "--recompute full",
        "--recompute selective",
        "--strategy zero3 --recompute full",
        "--stages 2 --microbatches 4 --schedule gpipe --recompute full",
        "--stages 2 --microbatches 4 --recompute selective",
    ];
    check(&bundled("gpt_tiny"), &settings);
    check(&bundled("mlp"), &settings[..2]);
    if let Some(model) = exported("gpt_4l") {
        check(&model, &["--recompute full", "--stages 2 --microbatches 4 --recompute selective"]);
    }
}

#[test]
fn stages_of_several_chunks_run() {
    let settings = [
        "--cluster local:2 --stages 2 --microbatches 4 --schedule interleaved",
        "--stages 2 --mesh 2 --microbatches 4 --schedule interleaved",
        "--cluster local:2 --stages 2 --microbatches 2 --chunks 3 --recompute full",
    ];
    check(&bundled("gpt_tiny"), &settings);
    if let Some(model) = exported("gpt_4l") {
        check(&model, &settings[..2]);
    }
}

#[test]
fn uneven_heads_and_batches_run() {
    let settings =
        ["--cluster local:4", "--strategy data", "--strategy tensor", "--strategy zero3", "--mesh 2x2", "--cluster local:2 --stages 2 --microbatches 3"];
    check(&bundled("gpt_6heads"), &settings);
}

#[test]
fn a_masked_mean_is_cut_into_microbatches() {
    check(&bundled("mlp_masked"), &["--cluster local:1 --microbatches 4", "--cluster local:2 --stages 2 --microbatches 2", "--strategy data --microbatches 2"]);
}

#[test]
fn steps_with_other_interfaces_run() {
    for name in ["mlp_loss_first", "mlp_swapped_moments", "mlp_undonated"] {
        check(&bundled(name), &["--cluster local:2", "--strategy zero1"]);
    }
}

#[test]
fn the_exported_mlp_runs_under_every_setting() {
    if let Some(model) = exported("mlp") {
        check(&model, &SETTINGS);
    }
}

#[test]
fn the_exported_gpt_runs_under_every_setting() {
    let Some(model) = exported("gpt_4l") else { return };
    let slow = std::env::var("SHARDWRIGHT_SLOW").is_ok();
    let some = [
        "--cluster local:1",
        "--cluster local:4",
        "--strategy data",
        "--strategy tensor",
        "--strategy zero3",
        "--stages 2 --microbatches 4",
        "--stages 4 --microbatches 8",
    ];
    let all: Vec<&str> = SETTINGS.iter().copied().chain(["--stages 4 --microbatches 8"]).collect();
    check(&model, if slow { &all } else { &some });
}

#[test]
fn the_other_exported_steps_run() {
    for (name, tolerance) in [("llama_scan_bf16", 2e-2), ("moe", 1e-4), ("resnet", 1e-4), ("flax_lm", 1e-4)] {
        let Some(model) = exported(name) else { return };
        let plan = compile(&model, "--strategy data");
        let given = arguments(&model, &plan);
        for (step, (got, want)) in losses(&plan, &given, 3).iter().zip(&model.losses).enumerate() {
            assert!((got - want).abs() <= tolerance * want.abs(), "{name}: loss {got} in step {step}, XLA has {want}");
        }
    }
}
