//! `explain PLAN NAME`: why a value, op, layer or stage is as it is, in the terminal; with `--what-if` what another wish would change.

use crate::diagnostics::Terminal;
use ir::Result;
use ir::plan::Plan;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Explain a value, op, layer or stage: what else was possible, its cost, and what decided.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan, as written by `compile`.
    plan: PathBuf,
    /// A value as the model's text names it (`%212`, `%arg3`, `@f#1/%2`), a result (`result[4]`), an op (`op12`), a layer (`layers.3`, `layer 3`) or a stage (`stage 2`).
    #[arg(value_name = "NAME", allow_hyphen_values = true, required_unless_present = "what_if")]
    name: Option<String>,
    /// Plan again with a change, and tell the difference: `pin:%51=[{"x"},{}]`, `stages:4`, `mesh:2x4`, `memory-limit:8GiB`, … Repeatable; `KEY:auto` leaves it open.
    #[arg(long, value_name = "KEY:VALUE")]
    what_if: Vec<String>,
}

/// `explain`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    let before = crate::run::read_plan(&args.plan)?;
    let Some(after) = (!args.what_if.is_empty()).then(|| crate::what_if::again(&before, &args.what_if, terminal)).transpose()? else {
        if let Some(name) = &args.name {
            if terminal.json() {
                terminal.object(&explanation(&before, name)?);
            } else {
                terminal.line(viz::explain(&before, name)?.trim_end());
            }
        }
        return Ok(ExitCode::SUCCESS);
    };
    // Code is not made again, and is no difference.
    let bare = |plan: &Plan| Plan { code: Vec::new(), ..plan.clone() };
    let (before, after) = (bare(&before), bare(&after));
    terminal.notes(&after.notes.iter().filter(|n| !before.notes.contains(n)).cloned().collect::<Vec<_>>());
    let difference = viz::difference(&before, &after);
    if terminal.json() {
        let told = args.name.as_ref().map(|n| explanation(&after, n)).transpose()?;
        terminal.object(&json!({ "what_if": args.what_if, "difference": serde_json::to_value(&difference).unwrap_or_default(), "explanation": told }));
    } else {
        terminal.line(viz::difference_text(&difference, &args.plan.display().to_string(), &args.what_if.join(", ")).trim_end());
        if let Some(name) = &args.name {
            terminal.line(&format!("\n{}", viz::explain(&after, name)?.trim_end()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn explanation(plan: &Plan, name: &str) -> Result<Value> {
    Ok(serde_json::to_value(viz::explanation(plan, name)?).expect("invariant: an explanation has text keys"))
}
