//! Whole steps: how long planning takes and how much memory, how long a step takes, and what XLA needs for the same file.
//!
//! Measures `shardwright compile` and `run` as a user starts them. Models come from the folder that `SHARDWRIGHT_DATA` names, else the bundled
//! example is taken. XLA runs through `benches/jax_compare.py`, with four host devices, data-parallel, when `PYTHON` (default `python3`) has jax.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{report, run, shardwright};

const DEVICES: u32 = 4;
const STEPS: u32 = 6;

/// What is measured, and what a plan for it may cost at most: seconds, and MiB of the compiler's memory.
const MODELS: &[(&str, f64, u64)] = &[("gpt_4l", 3.0, 1536), ("gpt2_small", 8.0, 1536)];

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Seconds per step of a plan, the first step left out: it fills caches and pools.
fn steps(plan: &Path, inputs: &Path) -> Result<f64, String> {
    let mut command = shardwright();
    command.arg("run").arg(plan).args(["--json", "--steps", &STEPS.to_string()]);
    if inputs.is_file() {
        command.arg("--inputs").arg(inputs);
    }
    let child = run(&mut command)?;
    let seconds = child.output.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()?["seconds"].as_f64());
    median(seconds.skip(1).collect()).ok_or_else(|| "`run --json` printed no steps".into())
}

/// The same with XLA, if there is a Python with jax.
fn jax(model: &Path, inputs: &Path) -> Result<f64, String> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let has_jax = Command::new(&python).args(["-c", "import jax, safetensors"]).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    if !has_jax {
        return Err(format!("`{python}` has no jax (name another with PYTHON=)"));
    }
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/jax_compare.py")).arg(model);
    command.args(["--devices", &DEVICES.to_string(), "--steps", &STEPS.to_string()]).stderr(Stdio::null());
    if inputs.is_file() {
        command.arg("--inputs").arg(inputs);
    }
    let report: serde_json::Value = serde_json::from_str(&run(&mut command)?.output).map_err(|e| e.to_string())?;
    report["seconds_per_step"].as_f64().ok_or_else(|| "no time was reported".into())
}

fn measure(model: &Path, limits: Option<(f64, u64)>) -> Result<(), String> {
    let name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let inputs = model.with_extension("safetensors");
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let file = folder.path().join("step.plan");
    let cluster = format!("local:{DEVICES}");
    let compiled = run(shardwright().arg("compile").arg(model).args(["--cluster", &cluster, "-o"]).arg(&file).stderr(Stdio::null()))?;
    let aim = limits.map(|(s, m)| format!("  (aim {s:.0} s, {m} MiB)")).unwrap_or_default();
    report(&format!("{name}: compile for {cluster}: {:.2} s, {} MiB{aim}", compiled.seconds, compiled.peak >> 10));
    let plan = ir::plan::Plan::from_bytes(&std::fs::read(&file).map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    let ours = steps(&file, &inputs)?;
    let predicted = plan.schedule.step.0;
    report(&format!("{name}: step on {cluster}: {ours:.3} s, predicted {predicted:.3} s ({:+.0} %)", 100.0 * (predicted / ours - 1.0)));
    match jax(model, &inputs) {
        Ok(theirs) => report(&format!("{name}: step with XLA on {DEVICES} host devices: {theirs:.3} s; Shardwright's rate is {:.2} of it", theirs / ours)),
        Err(why) => report(&format!("{name}: no comparison with XLA: {why}")),
    }
    Ok(())
}

fn main() {
    let models: Vec<(PathBuf, Option<(f64, u64)>)> = match std::env::var_os("SHARDWRIGHT_DATA") {
        Some(data) => MODELS.iter().map(|&(name, s, m)| (Path::new(&data).join("inputs").join(format!("{name}.mlir")), Some((s, m)))).collect(),
        None => vec![(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models/gpt_tiny.mlir"), None)],
    };
    let mut failed = false;
    for (model, limits) in models {
        if let Err(why) = measure(&model, limits) {
            report(&format!("{}: {why}", model.display()));
            failed = true;
        }
    }
    std::process::exit(i32::from(failed));
}
