//! `explain PLAN NAME`: why a value, op, layer or stage is as it is, in the terminal.

use crate::diagnostics::Terminal;
use ir::Result;
use std::path::PathBuf;
use std::process::ExitCode;

/// Explain a value, op, layer or stage: what else was possible, its cost, and what decided.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan, as written by `compile`.
    plan: PathBuf,
    /// A value as the model's text names it (`%212`, `%arg3`, `@f#1/%2`), a result (`result[4]`), an op (`op12`), a layer (`layers.3`, `layer 3`) or a stage (`stage 2`).
    #[arg(value_name = "NAME", allow_hyphen_values = true)]
    name: String,
}

/// `explain`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    let plan = crate::run::read_plan(&args.plan)?;
    if terminal.json() {
        let data = serde_json::to_value(viz::explanation(&plan, &args.name)?).expect("invariant: an explanation has text keys");
        terminal.object(&data);
    } else {
        terminal.line(viz::explain(&plan, &args.name)?.trim_end());
    }
    Ok(ExitCode::SUCCESS)
}
