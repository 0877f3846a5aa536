//! The tiny model of every family is traced, compiled for four devices, executed, and learns its batch by heart.

#[path = "../examples/training/mod.rs"]
mod training;

use models::{Config, OptimizerKind, Precision, Settings};
use std::path::Path;
use training::{Trainer, batch};

fn config(name: &str) -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/configs/{name}.json"));
    let text = std::fs::read_to_string(&path).expect("the configuration is there");
    Config::read(name, &text).unwrap_or_else(|e| panic!("{e}"))
}

/// Trains a model on one batch; the loss must fall to this part of the first.
fn learns(name: &str, settings: Settings, part: f64) {
    let config = config(name);
    let settings = Settings { sequence: config.takes_sequences().then_some(16), ..settings };
    let mut trainer = Trainer::new(&config, &settings, "local:4", 1).unwrap_or_else(|e| panic!("{name}: {e}"));
    let batch = batch(&trainer.traced, 1);
    let batch: Vec<(&str, Vec<f64>)> = batch.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
    let losses: Vec<f64> = (0..20).map(|_| trainer.step(&batch).unwrap_or_else(|e| panic!("{name}: {e}"))).collect();
    assert!(losses.iter().all(|l| l.is_finite()), "{name}: {losses:?}");
    assert!(losses[19] < part * losses[0], "{name}: {losses:?}");
}

#[test]
fn gpt2() {
    learns("tiny_gpt2", Settings { learning_rate: 1e-2, ..Settings::default() }, 0.7);
}

#[test]
fn gpt2_in_mixed_precision() {
    learns("tiny_gpt2", Settings { learning_rate: 1e-2, precision: Precision::Bf16, ..Settings::default() }, 0.7);
}

#[test]
fn gpt2_in_f16_by_momentum() {
    let settings = Settings { learning_rate: 0.3, precision: Precision::F16, optimizer: OptimizerKind::Momentum, ..Settings::default() };
    learns("tiny_gpt2", settings, 0.9);
}

#[test]
fn llama() {
    learns("tiny_llama", Settings { learning_rate: 1e-2, ..Settings::default() }, 0.7);
}

#[test]
fn mistral_with_a_sliding_window() {
    learns("tiny_mistral", Settings { learning_rate: 1e-2, ..Settings::default() }, 0.7);
}

#[test]
fn qwen2() {
    learns("tiny_qwen2", Settings { learning_rate: 1e-2, ..Settings::default() }, 0.7);
}

#[test]
fn mixtral() {
    learns("tiny_mixtral", Settings { learning_rate: 1e-2, ..Settings::default() }, 0.7);
}

#[test]
fn qwen3_with_experts() {
    learns("tiny_qwen3_moe", Settings { learning_rate: 1e-2, ..Settings::default() }, 0.7);
}

#[test]
fn switch() {
    learns("tiny_switch", Settings { learning_rate: 1e-2, ..Settings::default() }, 0.7);
}

#[test]
fn bert() {
    learns("tiny_bert", Settings { learning_rate: 1e-2, ..Settings::default() }, 0.7);
}

#[test]
fn vit() {
    learns("tiny_vit", Settings { learning_rate: 1e-2, ..Settings::default() }, 0.7);
}

#[test]
fn t5() {
    learns("tiny_t5", Settings { learning_rate: 1e-2, ..Settings::default() }, 0.7);
}

#[test]
fn wide_resnet() {
    learns("tiny_wide_resnet", Settings { learning_rate: 1e-2, ..Settings::default() }, 0.7);
}
