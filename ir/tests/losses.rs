//! The interpreter against JAX: exported training steps give the losses that XLA computed.
//!
//! Two steps are run, or all eight with `SHARDWRIGHT_SLOW=1`.

#![allow(clippy::print_stderr, reason = "what was computed, for those who ask with --nocapture")]

mod case;

use case::Case;
use ir::interp::{Precision, Stepper, Tensor};
use std::time::Instant;

fn check(name: &str, tolerance: f64) {
    let Some(case) = Case::load(name) else { return };
    let steps = if std::env::var_os("SHARDWRIGHT_SLOW").is_some() { 8 } else { 2 };
    let state = (0..case.state).map(|i| (i, i));
    let mut stepper = Stepper::new(&case.module, case.graph(), state, case.arguments.clone(), Precision::AsTyped).unwrap();
    for (step, &want) in case.losses.iter().take(steps).enumerate() {
        let begin = Instant::now();
        let outputs = stepper.step().unwrap_or_else(|d| panic!("{d}"));
        let loss = outputs.last().and_then(Tensor::first).unwrap();
        eprintln!("{name} step {step}: {loss} for {want} in {:?}", begin.elapsed());
        assert!((loss - want).abs() <= tolerance * want.abs(), "{name}, step {step}: {loss} instead of {want}");
    }
}

#[test]
fn mlp() {
    check("mlp", 1e-4);
}

#[test]
fn gpt_4l() {
    check("gpt_4l", 1e-4);
}

#[test]
fn llama_scan_bf16() {
    check("llama_scan_bf16", 2e-2);
}

#[test]
fn moe() {
    check("moe", 1e-4);
}

#[test]
fn resnet() {
    check("resnet", 1e-4);
}

#[test]
fn flax_lm() {
    check("flax_lm", 1e-4);
}
