//! A configuration as something to predict: few layers are traced, and stand for all.

use compiler::predict::{Limits, Model};
use ir::{Flops, Result};
use models::{Config, Precision, Settings};

/// Layers of a repeated block that are traced: its two ends, and two between them.
const TRACED_LAYERS: u32 = 4;
/// Tokens of a sequence where nothing else is said.
const USUAL_SEQUENCE: u64 = 1024;

/// What of a configuration limits settings.
pub(crate) fn limits(config: &Config, sequence: u64) -> Limits {
    let sizes = config.sizes();
    Limits { layers: sizes.layers as u32, heads: sizes.heads as u32, experts: sizes.experts as u32, sequence }
}

/// The tokens of a sequence, as `compile` takes them.
pub(crate) fn sequence(config: &Config, given: Option<u64>) -> Result<u64> {
    let one = models::trace(config, &Settings { global_batch: 1, sequence: given, depth: Some(1), ..Settings::default() })?;
    Ok(if config.takes_sequences() { one.tokens } else { given.unwrap_or(USUAL_SEQUENCE) })
}

/// The step of a configuration for so many sequences, ready to be predicted.
pub(crate) fn traced(config: &Config, sequence: u64, precision: Precision, batch: u64) -> Result<Model> {
    let sequence_given = config.takes_sequences().then_some(sequence);
    let traced =
        models::trace(config, &Settings { global_batch: batch, sequence: sequence_given, precision, depth: Some(TRACED_LAYERS), ..Settings::default() })?;
    let stacks: Vec<(String, u32, u32)> = traced.runs.iter().map(|r| (r.prefix.clone(), r.depth_traced, r.depth_full)).collect();
    let limits = Limits { sequence: if config.takes_sequences() { sequence } else { 1 }, ..limits(config, sequence) };
    Model::new(&traced.module, &stacks, limits, traced.parameters, Flops(traced.flops.0 / batch as f64))
}
