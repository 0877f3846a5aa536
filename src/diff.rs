//! `diff PLAN PLAN`: what differs between two plans, and what it costs.

use crate::diagnostics::Terminal;
use ir::Result;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare two plans: what changed and what it costs, most important first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A plan.
    before: PathBuf,
    /// The plan to compare it with.
    after: PathBuf,
}

/// `diff`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    let (before, after) = (crate::run::read_plan(&args.before)?, crate::run::read_plan(&args.after)?);
    let difference = viz::difference(&before, &after);
    if terminal.json() {
        terminal.object(&serde_json::to_value(&difference).expect("invariant: a difference has text keys"));
    } else {
        terminal.line(viz::difference_text(&difference, &args.before.display().to_string(), &args.after.display().to_string()).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}
