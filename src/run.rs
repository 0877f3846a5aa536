//! `run PLAN`: executes a plan and prints a line per step.

use crate::diagnostics::Terminal;
use ir::plan::Plan;
use ir::{Bytes, DType, Diagnostic, Result};
use runtime::checkpoint::{self, Batches};
use runtime::{Arguments, Options, Session, StepReport};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Execute a plan.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan, as written by `compile`.
    plan: PathBuf,
    /// Arguments of the step: `arg0`, `arg1`, … of a safetensors file; those that are missing are zeros.
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,
    /// Batch arguments with a leading dimension of steps; after the last batch the first follows.
    #[arg(long, value_name = "FILE")]
    batches: Option<PathBuf>,
    /// How many steps; by default one for each batch, or one.
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Where to write the state after the last step, whole and unsharded.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Where to write what happened when, for ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How many seconds a rank waits for another before the run fails.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

/// Reads a plan file.
pub(crate) fn read_plan(path: &Path) -> Result<Plan> {
    Plan::from_bytes(&checkpoint::read_file(path)?)
}

/// Reads a plan that can be executed.
///
/// # Errors
/// As [`read_plan`], and `E0642` for a plan without programs.
pub(crate) fn read_executable(path: &Path) -> Result<Plan> {
    let plan = read_plan(path)?;
    if plan.is_planned_only() {
        let mut d = Diagnostic::input("E0642", "this plan was made to be looked at: it has no programs that could run");
        if let Some(l) = (0..plan.layers.len() as u32).max_by_key(|&l| plan.stands_for(l)).filter(|&l| plan.stands_for(l) > 1) {
            d = d.with_note(format!("in it, {} stands for {} layers of the model", plan.layers[l as usize].name, plan.stands_for(l)));
        }
        return Err(d.with_help("compile the model again without `--no-code`").into());
    }
    Ok(plan)
}

/// Reads the arguments of a plan's step.
pub(crate) fn read_arguments(plan: &Plan, path: Option<&Path>, terminal: &Terminal) -> Result<Arguments> {
    let Some(path) = path else { return Ok(Arguments::new()) };
    let (arguments, notes) = checkpoint::read(path, &checkpoint::argument_types(plan))?;
    terminal.notes(&notes);
    Ok(arguments)
}

/// `run`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    let plan = Arc::new(read_executable(&args.plan)?);
    let inputs = read_arguments(&plan, args.inputs.as_deref(), terminal)?;
    let batches = match &args.batches {
        Some(path) => {
            let (batches, notes) = Batches::read(path, &checkpoint::argument_types(&plan))?;
            terminal.notes(&notes);
            Some(batches)
        }
        None => None,
    };
    for path in args.save.iter().chain(&args.trace) {
        checkpoint::check_writable(path)?;
    }
    let options = Options { timeout: Duration::from_secs(args.timeout), trace: args.trace.is_some() };
    let mut session = Session::open(&plan, &options)?;
    let memory = session.memory();
    let (arenas, beside) = memory.iter().fold((0, 0), |(a, b), m| (a + m.arena as u64, b + m.overhead as u64));
    let text = format!("{}  {} ranks · arenas {} · beside them {}", args.plan.display(), memory.len(), Bytes(arenas), Bytes(beside));
    terminal.progress("Opened", &text);
    let given = batches.as_ref().map(|b| b.batch(0)).unwrap_or_default();
    let together = inputs.into_iter().chain(given).collect();
    terminal.notes(&session.set_inputs(&together)?);
    let steps = args.steps.unwrap_or_else(|| batches.as_ref().map_or(1, Batches::steps));
    for step in 0..steps {
        let batch = batches.as_ref().map(|b| b.batch(step)).unwrap_or_default();
        print(&plan, &session.step(&batch)?, terminal);
    }
    if let Some(path) = &args.save {
        checkpoint::write(path, &session.state()?)?;
    }
    if let Some(path) = &args.trace {
        checkpoint::write_atomically(path, session.trace()?.to_string().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(plan: &Plan, report: &StepReport, terminal: &Terminal) {
    if terminal.json() {
        let outputs: Map<String, Value> = report.scalars.iter().map(|(i, name, v)| (name.clone(), json!(shortest(plan, *i, *v)))).collect();
        return terminal.object(&json!({"step": report.step, "outputs": outputs, "seconds": report.seconds}));
    }
    let mut line = format!("step {}", report.step);
    for (i, name, value) in &report.scalars {
        line += &format!("  {} {value:.6}", label(plan.interface.loss == Some(*i), name));
    }
    terminal.line(&line);
}

/// What a scalar is called in a line: its own name when that says more than a position, `loss` for the loss.
fn label(is_loss: bool, name: &str) -> &str {
    let says_something = name.chars().any(char::is_alphabetic) && name.strip_prefix("result").is_none_or(|rest| rest.chars().any(char::is_alphabetic));
    if says_something || !is_loss { name } else { "loss" }
}

/// The value with the digits its element type has.
fn shortest(plan: &Plan, result: u32, value: f64) -> f64 {
    let ty = plan.source.main().and_then(|g| g.outputs.get(result as usize).map(|v| g.ty(*v).dtype));
    if ty == Some(DType::F32) { (value as f32).to_string().parse().unwrap_or(value) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_called_by_what_is_known_of_them() {
        assert_eq!(label(true, "result[4]"), "loss");
        assert_eq!(label(false, "result[4]"), "result[4]");
        assert_eq!(label(true, "result[1]['cross_entropy']"), "result[1]['cross_entropy']");
        assert_eq!(label(true, ""), "loss");
    }
}
