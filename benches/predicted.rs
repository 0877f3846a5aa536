//! Predicted against measured steps on `local:N`: how far off predictions are, and whether they rank plans as the clock does.
//!
//! Measures the devices first (`cluster measure`), plans each model under a fixed set of strategies with those times, and runs every plan. Reports each error,
//! the median of each model and of all, and Kendall's tau inside each model. Models come from the folder that `SHARDWRIGHT_DATA` names, else bundled ones
//! are taken. Other work on the machine shows in the figures: run it alone.

mod support;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use support::{report, run, shardwright};

const STEPS: u32 = 5;

/// Models with the steps that are run of each plan.
const MODELS: [&str; 3] = ["mlp", "gpt_4l", "gpt2_small"];

/// Plans that differ in devices, in what is cut, what is communicated and how devices wait.
const PLANS: [(&str, &str); 14] = [
    ("local:1", "--strategy auto"),
    ("local:1", "--strategy auto --microbatches 4"),
    ("local:2", "--strategy data"),
    ("local:2", "--strategy tensor"),
    ("local:2", "--strategy 1f1b --stages 2 --microbatches 2"),
    ("local:4", "--strategy data"),
    ("local:4", "--strategy zero2 --microbatches 2"),
    ("local:4", "--strategy zero3"),
    ("local:4", "--strategy hsdp"),
    ("local:4", "--strategy ptd-p --stages 1 --mesh 2x2"),
    ("local:4", "--strategy tensor-2d"),
    ("local:4", "--strategy 1f1b --stages 2 --microbatches 4"),
    ("local:4", "--strategy gpipe --stages 4 --microbatches 4"),
    ("local:4", "--strategy auto"),
];

struct Measured {
    predicted: f64,
    seconds: f64,
}

impl Measured {
    fn error(&self) -> f64 {
        self.predicted / self.seconds - 1.0
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Kendall's tau: pairs in the same order less pairs in the other, over all pairs.
fn tau(rows: &[Measured]) -> f64 {
    let (mut sum, mut pairs) = (0.0, 0.0f64);
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[i + 1..] {
            sum += ((a.predicted - b.predicted) * (a.seconds - b.seconds)).signum();
            pairs += 1.0;
        }
    }
    sum / pairs.max(1.0)
}

/// Plans a model, runs the plan, and says both times.
fn measure(model: &Path, cluster: &str, flags: &str, folder: &Path) -> Result<Measured, String> {
    let file = folder.join("step.plan");
    let mut compile = shardwright();
    let table = folder.join(cluster.replace(':', "-"));
    compile.arg("compile").arg(model).args(["--cluster", cluster, "--json", "--measured"]).arg(table).args(flags.split_whitespace()).arg("-o").arg(&file);
    let compiled: serde_json::Value = serde_json::from_str(&run(compile.stderr(Stdio::null()))?.output).map_err(|e| e.to_string())?;
    let predicted = compiled["step_seconds"].as_f64().ok_or("`compile --json` printed no step")?;
    let mut command = shardwright();
    command.arg("run").arg(&file).args(["--json", "--steps", &STEPS.to_string()]);
    let inputs = model.with_extension("safetensors");
    if inputs.is_file() {
        command.arg("--inputs").arg(inputs);
    }
    let output = run(&mut command)?.output;
    let seconds = output.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()?["seconds"].as_f64());
    // The first step fills caches and pools.
    let seconds = median(seconds.skip(1).collect()).ok_or("`run --json` printed no steps")?;
    Ok(Measured { predicted, seconds })
}

fn main() {
    let models: Vec<PathBuf> = match std::env::var_os("SHARDWRIGHT_DATA") {
        Some(data) => MODELS.iter().map(|name| Path::new(&data).join("inputs").join(format!("{name}.mlir"))).collect(),
        None => ["mlp", "gpt_tiny"].iter().map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/models/{name}.mlir"))).collect(),
    };
    let only = std::env::args().nth(1).filter(|a| !a.starts_with('-'));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let clusters: std::collections::BTreeSet<&str> = PLANS.iter().map(|(cluster, _)| *cluster).collect();
    for cluster in clusters {
        let table = folder.path().join(cluster.replace(':', "-"));
        if let Err(why) = run(shardwright().args(["cluster", "measure", "--cluster", cluster, "-o"]).arg(&table).stderr(Stdio::null())) {
            report(&format!("{cluster} cannot be measured: {why}"));
            std::process::exit(1);
        }
    }
    let mut errors = Vec::new();
    let mut failed = false;
    for model in models {
        let name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|o| *o != name) {
            continue;
        }
        let mut rows = Vec::new();
        for (cluster, flags) in PLANS {
            match measure(&model, cluster, flags, folder.path()) {
                Ok(m) => {
                    report(&format!("{name} {cluster} {flags}: {:.6} s, predicted {:.6} s ({:+.0} %)", m.seconds, m.predicted, 100.0 * m.error()));
                    rows.push(m);
                }
                Err(why) => {
                    report(&format!("{name} {cluster} {flags}: {why}"));
                    failed = true;
                }
            }
        }
        let own: Vec<f64> = rows.iter().map(|r| r.error().abs()).collect();
        if let Some(m) = median(own.clone()) {
            report(&format!("{name}: median error {:.0} % over {} plans, tau {:.2}", 100.0 * m, rows.len(), tau(&rows)));
        }
        errors.extend(own);
    }
    if let Some(m) = median(errors) {
        report(&format!("all: median error {:.0} %  (aim 15 %; tau 0.8 in each model)", 100.0 * m));
    }
    std::process::exit(i32::from(failed));
}
