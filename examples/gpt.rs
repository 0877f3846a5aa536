//! Trains a byte-level GPT on public-domain text and lets it write: `cargo run --release --example gpt`.
//!
//! The model is traced from `configs/byte_gpt.json`, planned for four devices of this process, and trained there. The sample at the end is computed by the
//! interpreter on a forward-only trace, one token at a time, since a plan is a whole training step.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod training;

use ir::interp::{self, Precision};
use ir::{DType, Diagnostic, Result, TensorType};
use models::{Config, Settings};
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;
use training::{Random, Trainer};

const CONFIG: &str = include_str!("configs/byte_gpt.json");
const TEXT: &[u8] = include_bytes!("text/constitution.txt");
const BATCH: u64 = 16;
const SEQUENCE: u64 = 64;
/// Steps at most; training ends when the loss has fallen to [`ENOUGH`].
const STEPS: u32 = 1200;
const ENOUGH: f64 = 1.6;
/// Bytes of the sample.
const SAMPLE: usize = 200;

fn main() -> ExitCode {
    match train() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            println!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn train() -> Result<()> {
    let config = Config::read("byte_gpt.json", CONFIG)?;
    let settings = Settings { global_batch: BATCH, sequence: Some(SEQUENCE), learning_rate: 3e-3, ..Settings::default() };
    let start = Instant::now();
    let mut trainer = Trainer::new(&config, &settings, "local:4", 1)?;
    let stage = &trainer.plan.stages[0];
    println!(
        "{} parameters, planned in {:.1} s: {} stage(s) of mesh {}, {} microbatch(es)",
        trainer.traced.parameters,
        start.elapsed().as_secs_f64(),
        trainer.plan.stages.len(),
        stage.mesh,
        trainer.plan.schedule.microbatches
    );
    let mut random = Random(7);
    let (mut first, mut recent) = (None, None);
    let start = Instant::now();
    for step in 0..STEPS {
        let loss = trainer.step(&batch(&mut random))?;
        let first = *first.get_or_insert(loss);
        // A mean over about the last twenty steps.
        let mean = recent.map_or(loss, |r: f64| r + (loss - r) / 20.0);
        recent = Some(mean);
        let rate = f64::from(step + 1) * (BATCH * SEQUENCE) as f64 / start.elapsed().as_secs_f64();
        print!("\rstep {:3}  loss {mean:.3} (from {first:.3})  {rate:.0} tokens/s ", step + 1);
        let _ = std::io::stdout().flush();
        if mean < ENOUGH {
            break;
        }
    }
    println!("\n\n{}", sample(&config, &mut trainer, &mut random)?);
    Ok(())
}

/// Passages of the text, and for each byte the one that follows.
fn batch(random: &mut Random) -> Vec<(&'static str, Vec<f64>)> {
    let starts: Vec<usize> = (0..BATCH).map(|_| random.below(TEXT.len() as u64 - SEQUENCE - 1) as usize).collect();
    let passages = |shift: usize| starts.iter().flat_map(|s| &TEXT[s + shift..s + shift + SEQUENCE as usize]).map(|b| f64::from(*b)).collect();
    vec![("tokens", passages(0)), ("labels", passages(1))]
}

/// What the model writes after a beginning.
fn sample(config: &Config, trainer: &mut Trainer, random: &mut Random) -> Result<String> {
    let settings = Settings { global_batch: 1, sequence: Some(SEQUENCE), ..Settings::default() };
    let module = models::next_token_logits(config, &settings)?;
    let graph = module.main().expect("invariant: a trace has a main function");
    let state = trainer.state()?;
    let unreadable = || Diagnostic::outcome("E0602", "a parameter is in no buffer");
    let mut inputs = Vec::new();
    for i in 0..graph.inputs.len() as u32 - 1 {
        let tensor = state.get(&i).ok_or_else(unreadable)?;
        inputs.push(interp::Tensor::from_bytes(tensor.ty.clone(), &tensor.bytes).ok_or_else(unreadable)?);
    }
    let mut text = b"We the People".to_vec();
    for _ in 0..SAMPLE {
        let from = text.len().saturating_sub(SEQUENCE as usize);
        let mut window: Vec<i64> = text[from..].iter().map(|b| i64::from(*b)).collect();
        let last = window.len() - 1;
        window.resize(SEQUENCE as usize, 0);
        let tokens = interp::Tensor::from_i64s(TensorType::new(DType::I32, [1, SEQUENCE]), &window).ok_or_else(unreadable)?;
        let arguments: Vec<interp::Tensor> = inputs.iter().cloned().chain([tokens]).collect();
        let logits = interp::run(&module, graph, &arguments, Precision::AsTyped)?.swap_remove(0).to_f64s();
        let size = logits.len() / SEQUENCE as usize;
        text.push(choose(&logits[last * size..(last + 1) * size], random));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A byte by its probability, likely ones preferred a little.
fn choose(logits: &[f64], random: &mut Random) -> u8 {
    let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logits.iter().map(|l| ((l - greatest) / 0.7).exp()).collect();
    let mut left = random.unit() * weights.iter().sum::<f64>();
    for (byte, weight) in weights.iter().enumerate() {
        left -= weight;
        if left <= 0.0 {
            return byte as u8;
        }
    }
    b' '
}
