//! `trace --config CONFIG -o STEP`: writes a family's training step as text; and the flags with which `compile` takes a configuration too.

use crate::diagnostics::Terminal;
use ir::{Bytes, Diagnostic, Result, interp};
use models::{Config, OptimizerKind, Precision, Settings, Traced};
use runtime::{Tensor, checkpoint};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Largest configuration that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// What a configuration is traced for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "With --config")]
pub(crate) struct Tracing {
    /// Sequences (or images) of one step.
    #[arg(long, value_name = "N")]
    global_batch: Option<u64>,
    /// Tokens of a sequence; by default what the model's positions allow, 1024 at most.
    #[arg(long, value_name = "N")]
    seq: Option<u64>,
    /// In what the step computes: f32, bf16 or f16; parameters are kept in f32.
    #[arg(long, value_name = "TYPE")]
    dtype: Option<String>,
    /// How parameters are updated: adamw, adam, sgd or momentum.
    #[arg(long, value_name = "NAME")]
    optimizer: Option<String>,
    /// The learning rate.
    #[arg(long, value_name = "X")]
    learning_rate: Option<f64>,
    /// The global norm to which gradients are limited; 0 for none.
    #[arg(long, value_name = "X")]
    clip_norm: Option<f64>,
    /// Trace so many of each run of repeated layers only.
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
}

impl Tracing {
    /// Whether anything is said that only a configuration can be traced for.
    pub(crate) fn is_given(&self) -> bool {
        let numbers = [self.global_batch.is_some(), self.seq.is_some(), self.learning_rate.is_some(), self.clip_norm.is_some(), self.depth.is_some()];
        numbers.contains(&true) || self.dtype.is_some() || self.optimizer.is_some()
    }

    /// Examples of a step, where they are said.
    pub(crate) fn batch(&self) -> Option<u64> {
        self.global_batch
    }

    /// The same without them.
    pub(crate) fn without_batch(&self) -> Tracing {
        Tracing { global_batch: None, ..self.clone() }
    }

    fn settings(&self) -> Result<Settings> {
        let mut errors = Vec::new();
        let usual = Settings::default();
        let mut settings = Settings {
            global_batch: self.global_batch.unwrap_or(usual.global_batch),
            sequence: self.seq,
            learning_rate: self.learning_rate.unwrap_or(usual.learning_rate),
            depth: self.depth,
            ..usual
        };
        match self.clip_norm {
            Some(0.0) => settings.clip_norm = None,
            Some(norm) => settings.clip_norm = Some(norm),
            None => {}
        }
        match self.dtype.as_deref().map(Precision::named) {
            Some(Ok(precision)) => settings.precision = precision,
            Some(Err(e)) => errors.extend(e.0),
            None => {}
        }
        match self.optimizer.as_deref().map(OptimizerKind::named) {
            Some(Ok(optimizer)) => settings.optimizer = optimizer,
            Some(Err(e)) => errors.extend(e.0),
            None => {}
        }
        if errors.is_empty() { Ok(settings) } else { Err(ir::Diagnostics(errors)) }
    }

    /// Reads a configuration and traces its step.
    pub(crate) fn trace(&self, path: &Path, terminal: &Terminal) -> Result<Traced> {
        self.trace_layers(path, None, terminal)
    }

    /// The same, with so many of each run of repeated layers where `--depth` does not say.
    pub(crate) fn trace_layers(&self, path: &Path, layers: Option<u32>, terminal: &Terminal) -> Result<Traced> {
        let mut settings = self.settings()?;
        settings.depth = settings.depth.or(layers);
        let config = read(path)?;
        terminal.notes(&config.warnings);
        models::trace(&config, &settings)
    }
}

/// Reads a configuration.
pub(crate) fn read(path: &Path) -> Result<Config> {
    let name = path.display().to_string();
    let unreadable = |e: std::io::Error| Diagnostic::input("E0118", format!("`{name}` cannot be read: {e}"));
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Diagnostic::input("E0118", format!("`{name}` is no ordinary file")).with_help("name the `config.json` itself").into());
    }
    if metadata.len() > LARGEST {
        return Err(Diagnostic::input("E0111", format!("`{name}` is larger than {}, so it is no configuration", Bytes(LARGEST))).into());
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|_| Diagnostic::input("E0116", format!("`{name}` is not text")))?;
    Config::read(&name, &text)
}

/// Trace the training step of a model by its configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The model's shape: a Hugging Face `config.json`.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    #[command(flatten)]
    tracing: Tracing,
    /// Where to write the step's text.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where to write initial parameters and optimizer state, as `run --inputs` reads them.
    #[arg(long, value_name = "FILE")]
    arguments: Option<PathBuf>,
    /// Which initial parameters.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Most elements of arguments that are written.
const MOST_WRITTEN: u64 = 1 << 32;

/// `trace`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    for path in args.output.iter().chain(&args.arguments) {
        checkpoint::check_writable(path)?;
    }
    let traced = args.tracing.trace(&args.config, terminal)?;
    if let Some(path) = &args.output {
        checkpoint::write_atomically(path, ir::text::print(&traced.module).as_bytes())?;
    }
    if let Some(path) = &args.arguments {
        let elements: u64 = traced.arguments.iter().map(|a| a.ty.elements()).sum();
        if elements > MOST_WRITTEN {
            let d = Diagnostic::input("E0144", format!("this step's arguments have {elements} elements, too many to be made up"));
            return Err(d.with_help("leave `--arguments` out, or use a smaller model or `--depth`").into());
        }
        let tensors = traced.initial(args.seed).into_iter().map(|(i, t)| (i, Arc::new(stored(&t)))).collect();
        checkpoint::write(path, &tensors)?;
    }
    summary(&traced, args, terminal);
    Ok(ExitCode::SUCCESS)
}

fn stored(tensor: &interp::Tensor) -> Tensor {
    Tensor { bytes: tensor.to_bytes(), ty: tensor.ty.clone() }
}

fn summary(traced: &Traced, args: &Args, terminal: &Terminal) {
    let ops = traced.module.main().map_or(0, |g| g.ops.len());
    if terminal.json() {
        return terminal.object(&json!({
            "config": args.config.display().to_string(),
            "output": args.output.as_ref().map(|p| p.display().to_string()),
            "arguments": args.arguments.as_ref().map(|p| p.display().to_string()),
            "ops": ops,
            "parameters": traced.parameters,
            "tokens": traced.tokens,
            "flops": traced.flops.0,
            "runs": traced.runs.iter().map(|r| json!({"prefix": r.prefix, "traced": r.depth_traced, "full": r.depth_full})).collect::<Vec<_>>(),
        }));
    }
    terminal.progress("Traced", &described(traced, &args.config));
    for path in args.output.iter().chain(&args.arguments) {
        terminal.progress("Wrote", &path.display().to_string());
    }
}

/// A line about a traced step.
pub(crate) fn described(traced: &Traced, path: &Path) -> String {
    let runs: Vec<String> = traced
        .runs
        .iter()
        .map(|r| if r.depth_traced == r.depth_full { r.depth_full.to_string() } else { format!("{} of {}", r.depth_traced, r.depth_full) })
        .collect();
    format!(
        "{}  {} parameters · {} layers · {} tokens and {:.3e} operations a step · {} ops",
        path.display(),
        count(traced.parameters),
        runs.join(" + "),
        traced.tokens,
        traced.flops.0,
        traced.module.main().map_or(0, |g| g.ops.len())
    )
}

/// A number with a unit of thousands: `124.4 M`.
pub(crate) fn count(n: u64) -> String {
    let n = n as f64;
    match n {
        n if n >= 1e12 => format!("{:.2} T", n / 1e12),
        n if n >= 1e9 => format!("{:.2} B", n / 1e9),
        n if n >= 1e6 => format!("{:.1} M", n / 1e6),
        n => format!("{:.1} k", n / 1e3),
    }
}
