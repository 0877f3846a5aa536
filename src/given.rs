//! What `compile` and `compare` are given: a step or a model's shape, and a cluster with what was measured on it.
//!
//! Flags that both take are read and checked here, so that they mean the same and fail alike.

use crate::diagnostics::Terminal;
use crate::trace::{Tracing, described};
use compiler::import::{self, Imported};
use cost_model::Cluster;
use ir::plan::Recompute;
use ir::{Bytes, Diagnostic, Result};
use std::path::{Path, PathBuf};

/// The step and the cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Given {
    /// The step, as `jax.jit(train_step).lower(…).as_text()` prints it.
    #[arg(required_unless_present = "config", conflicts_with = "config")]
    pub(crate) model: Option<PathBuf>,
    /// Instead of a step a model's shape, a Hugging Face `config.json`, whose step is traced.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tracing: Tracing,
    /// The cluster: `local:N`, `dgx-a100:N`, `dgx-h100:N`, `p3.16xlarge:N`, or a TOML file.
    #[arg(long)]
    pub(crate) cluster: String,
    /// Times measured on that cluster, as `cluster measure` writes them; they are preferred to formulas.
    #[arg(long, value_name = "FILE")]
    pub(crate) measured: Option<PathBuf>,
}

/// Layers of a repeated block that are traced where only a plan is asked for: its two ends, and two between them.
const TRACED_LAYERS: u32 = 4;

/// Of every stack of repeated layers what its layers' names begin with, how many are traced, and how many the model has.
pub(crate) type Stacks = Vec<(String, u32, u32)>;

impl Given {
    /// The cluster, with its measured times.
    pub(crate) fn cluster(&self) -> Result<Cluster> {
        let cluster = Cluster::parse(&self.cluster)?;
        Ok(match self.table()? {
            Some((file, table)) => cluster.with_measured(&file, &table)?,
            None => cluster,
        })
    }

    /// The table of measured times: its name and its text.
    pub(crate) fn table(&self) -> Result<Option<(String, String)>> {
        let Some(path) = &self.measured else { return Ok(None) };
        let bytes = runtime::checkpoint::read_file(path)?;
        Ok(Some((path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned())))
    }

    /// The files that are read, which no output may replace.
    pub(crate) fn files(&self) -> Vec<(&'static str, &Path)> {
        let mut files = vec![("the cluster's description", Path::new(&self.cluster))];
        files.extend(self.measured.iter().map(|path| ("the measured times", path.as_path())));
        files.extend(self.model.iter().chain(&self.config).map(|path| ("the model", path.as_path())));
        files
    }

    /// The file's name of the step or the model's shape.
    pub(crate) fn name(&self) -> String {
        let path = self.model.as_ref().or(self.config.as_ref());
        path.and_then(|p| p.file_name()).map_or_else(String::new, |n| n.to_string_lossy().into_owned())
    }

    /// The step, imported or traced as `tracing` says, and of which stacks of layers it has few (only where `shallow`).
    pub(crate) fn read(&self, tracing: &Tracing, shallow: bool, terminal: &Terminal) -> Result<(Imported, Stacks)> {
        match (&self.model, &self.config) {
            (Some(_), _) if tracing.is_given() => {
                let d = Diagnostic::input("E0409", "a batch, sequence, element type, optimizer or depth is asked for, and the step has its own already");
                Err(d.with_help("leave those flags out, or name a model's shape by `--config`").into())
            }
            (Some(model), _) => Ok((import::import(model)?, Vec::new())),
            (None, Some(config)) => {
                let traced = tracing.trace_layers(config, shallow.then_some(TRACED_LAYERS), terminal)?;
                terminal.progress("Traced", &described(&traced, config));
                let few = traced.runs.iter().filter(|r| r.depth_traced < r.depth_full);
                let stacks = few.map(|r| (r.prefix.clone(), r.depth_traced, r.depth_full)).collect();
                Ok((Imported { module: traced.module, notes: Vec::new(), pins: Vec::new() }, stacks))
            }
            (None, None) => {
                Err(Diagnostic::input("E0409", "neither a step nor a configuration is given").with_help("name a step, or a model by `--config`").into())
            }
        }
    }
}

/// `--recompute`; nothing where it is left open. What is wrong is added to `errors`.
pub(crate) fn recompute(name: Option<&str>, errors: &mut Vec<Diagnostic>) -> Option<Recompute> {
    let name = name.filter(|n| *n != "auto")?;
    let mode = Recompute::named(name);
    if mode.is_none() {
        let message = format!("`--recompute {name}`: there is no such recomputation");
        errors.push(Diagnostic::input("E0409", message).with_help("use `none`, `selective`, `full` or `auto`"));
    }
    mode
}

/// `--memory-limit`. What is wrong is added to `errors`.
pub(crate) fn memory_limit(text: Option<&str>, errors: &mut Vec<Diagnostic>) -> Option<Bytes> {
    match text?.parse() {
        Ok(bytes) => Some(bytes),
        Err(e) => {
            errors.push(Diagnostic::input("E0409", format!("`--memory-limit`: {e}")));
            None
        }
    }
}
