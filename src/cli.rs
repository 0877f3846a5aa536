//! The command line: global flags and the list of subcommands.

use crate::diagnostics::Terminal;
use std::process::ExitCode;

/// Plans, runs, shows and checks parallel training steps.
#[derive(Debug, clap::Parser)]
#[command(name = "shardwright", version, max_term_width = 110)]
#[command(after_help = "Exit codes: 0 done; 1 no feasible plan, or the run failed; 2 the command line or an input file is wrong.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print results as JSON, one object a line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print errors and results only.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// What can be done.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Plan a training step for a cluster.
    Compile(Box<crate::compile::Args>),
    /// Trace the training step of a model by its configuration.
    Trace(crate::trace::Args),
    /// Predict what a fixed setting gives: time per step and its parts, FLOP/s, memory.
    Predict(Box<crate::predict::Args>),
    /// Judge predictions by published measurements.
    Judge(crate::judge::Args),
    /// Execute a plan.
    Run(Box<crate::run::Args>),
    /// Show where the ranks of a run were last, from their flight records.
    Flight(crate::flight::Args),
    /// Check a plan against the step it was made from.
    Verify(crate::verify::Args),
    /// Write the page that shows a plan.
    View(crate::view::Args),
    /// Tell why a value, op, layer or stage is as it is.
    Explain(crate::explain::Args),
    /// Predict every known strategy, side by side.
    Compare(Box<crate::compare::Args>),
    /// Compare two plans: what changed and what it costs.
    Diff(crate::diff::Args),
    /// Show, import and measure clusters.
    Cluster(crate::cluster::Args),
    /// Measure a plan's kernels on the GPU here.
    #[command(hide = true)]
    Bandwidth(crate::bandwidth::Args),
}

impl Command {
    /// Does it.
    pub(crate) fn run(&self, terminal: &Terminal) -> ir::Result<ExitCode> {
        match self {
            Command::Compile(args) => crate::compile::command(args, terminal),
            Command::Trace(args) => crate::trace::command(args, terminal),
            Command::Predict(args) => crate::predict::command(args, terminal),
            Command::Judge(args) => crate::judge::command(args, terminal),
            Command::Run(args) => crate::run::command(args, terminal),
            Command::Flight(args) => crate::flight::command(args, terminal),
            Command::Verify(args) => crate::verify::command(args, terminal),
            Command::View(args) => crate::view::command(args, terminal),
            Command::Explain(args) => crate::explain::command(args, terminal),
            Command::Compare(args) => crate::compare::command(args, terminal),
            Command::Diff(args) => crate::diff::command(args, terminal),
            Command::Cluster(args) => crate::cluster::command(args, terminal),
            Command::Bandwidth(args) => crate::bandwidth::command(args, terminal),
        }
    }
}
