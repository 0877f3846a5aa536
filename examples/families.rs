//! Trains the tiny model of a family on this machine: `cargo run --example families -- llama`, or without a name all of them.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod training;

use models::{Config, Settings};
use std::path::Path;
use std::process::ExitCode;
use training::{Trainer, batch};

const FAMILIES: [&str; 11] = ["gpt2", "llama", "mistral", "qwen2", "mixtral", "qwen3_moe", "switch", "bert", "vit", "t5", "wide_resnet"];
const STEPS: u32 = 20;

fn main() -> ExitCode {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&str> = if named.is_empty() { FAMILIES.to_vec() } else { named.iter().map(String::as_str).collect() };
    for name in names {
        if let Err(e) = train(name) {
            println!("{name}: {e}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn train(name: &str) -> ir::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/configs/tiny_{name}.json"));
    let text = std::fs::read_to_string(&path).map_err(|e| {
        ir::Diagnostic::input("E0118", format!("{} cannot be read: {e}", path.display())).with_help(format!("known are {}", FAMILIES.join(", ")))
    })?;
    let config = Config::read(&path.display().to_string(), &text)?;
    let settings = Settings { sequence: config.takes_sequences().then_some(16), ..Settings::default() };
    let mut trainer = Trainer::new(&config, &settings, "local:4", 1)?;
    let stages = trainer.plan.stages.len();
    println!("{name}: {} parameters, {stages} stage(s) of mesh {}", trainer.traced.parameters, trainer.plan.stages[0].mesh);
    let batch = batch(&trainer.traced, 1);
    let batch: Vec<(&str, Vec<f64>)> = batch.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
    for step in 0..STEPS {
        let loss = trainer.step(&batch)?;
        if step % 5 == 0 || step + 1 == STEPS {
            println!("  step {step:2}  loss {loss:.4}");
        }
    }
    Ok(())
}
