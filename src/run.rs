//! `run PLAN`: executes a plan and prints a line per step.

use crate::diagnostics::Terminal;
use crate::outputs::check_outputs;
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
    /// Arguments of the step: `arg0`, `arg1`, … of a safetensors file. Repeatable: of what several files hold, the last counts.
    #[arg(long, value_name = "FILE")]
    inputs: Vec<PathBuf>,
    /// Batch arguments with a leading dimension of steps; after the last batch the first follows.
    #[arg(long, value_name = "FILE")]
    batches: Option<PathBuf>,
    /// Take zeros for data that no file holds.
    #[arg(long)]
    zeros: bool,
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

/// Reads the arguments of a plan's step: of what several files hold, the last counts.
pub(crate) fn read_arguments(plan: &Plan, paths: &[PathBuf], terminal: &Terminal) -> Result<Arguments> {
    let types = checkpoint::argument_types(plan);
    let mut arguments = Arguments::new();
    for path in paths {
        let (more, notes) = checkpoint::read(path, &types)?;
        terminal.notes(&notes);
        arguments.extend(more);
    }
    Ok(arguments)
}

/// The data of a step (what is no state) that is not given: the batch and what else changes from step to step.
pub(crate) fn missing_data(plan: &Plan, given: &Arguments) -> Vec<u32> {
    let count = checkpoint::argument_types(plan).len() as u32;
    let is_state = |i: u32| plan.interface.state.iter().any(|(argument, _)| *argument == i);
    (0..count).filter(|&i| !given.contains_key(&i) && !is_state(i)).collect()
}

/// Arguments by name, a few of them.
pub(crate) fn named(arguments: &[u32]) -> String {
    let (shown, rest) = arguments.split_at(arguments.len().min(8));
    let names: Vec<String> = shown.iter().map(|i| format!("arg{i}")).collect();
    let more = if rest.is_empty() { String::new() } else { format!(", … ({} in all)", arguments.len()) };
    names.join(", ") + &more
}

/// Refuses to train on zeros in the place of data that was forgotten. State that is in no file begins as zeros; a run without any argument is a trial.
fn check_data(plan: &Plan, given: &Arguments) -> Result<()> {
    let missing = missing_data(plan, given);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Diagnostic::input("E0623", format!("no file holds {}, which the step takes as data", named(&missing)))
        .with_help("give them with `--batches FILE`, or with another `--inputs FILE`; `--zeros` takes zeros for them")
        .into())
}

/// `run`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    if args.steps == Some(0) {
        return Err(Diagnostic::input("E0409", "`--steps 0`: there is nothing to run").with_help("give at least 1").into());
    }
    let sources = [("the plan", args.plan.as_path())];
    check_outputs(&sources, &[("--save", args.save.as_deref()), ("--trace", args.trace.as_deref())])?;
    let plan = Arc::new(read_executable(&args.plan)?);
    let inputs = read_arguments(&plan, &args.inputs, terminal)?;
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
    let given = batches.as_ref().map(|b| b.batch(0)).unwrap_or_default();
    let together: Arguments = inputs.into_iter().chain(given).collect();
    if !args.zeros && (!args.inputs.is_empty() || args.batches.is_some()) {
        check_data(&plan, &together)?;
    }
    let options = Options { timeout: Duration::from_secs(args.timeout), trace: args.trace.is_some() };
    let mut session = Session::open(&plan, &options)?;
    let memory = session.memory();
    let (arenas, beside) = memory.iter().fold((0, 0), |(a, b), m| (a + m.arena as u64, b + m.overhead as u64));
    let text = format!("{}  {} ranks · arenas {} · beside them {}", args.plan.display(), memory.len(), Bytes(arenas), Bytes(beside));
    terminal.progress("Opened", &text);
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
        let outputs: Map<String, Value> = report.scalars.iter().map(|(i, name, v)| (name.clone(), number(element_type(plan, *i), *v))).collect();
        return terminal.object(&json!({"step": report.step, "outputs": outputs, "seconds": report.seconds}));
    }
    let mut line = format!("step {}", report.step);
    for (i, name, value) in &report.scalars {
        line += &format!("  {} {}", label(plan.interface.loss == Some(*i), name), digits(element_type(plan, *i), *value));
    }
    terminal.line(&line);
}

/// What a scalar is called in a line: its own name when that says more than a position, `loss` for the loss.
fn label(is_loss: bool, name: &str) -> &str {
    let says_something = name.chars().any(char::is_alphabetic) && name.strip_prefix("result").is_none_or(|rest| rest.chars().any(char::is_alphabetic));
    if says_something || !is_loss { name } else { "loss" }
}

fn element_type(plan: &Plan, result: u32) -> Option<DType> {
    plan.source.main().and_then(|g| g.outputs.get(result as usize).map(|v| g.ty(*v).dtype))
}

/// The value with the digits its element type has; an integer is one.
fn number(ty: Option<DType>, value: f64) -> Value {
    match ty {
        Some(DType::F32) => json!((value as f32).to_string().parse().unwrap_or(value)),
        Some(t) if !t.is_float() && value < 0.0 => json!(value as i64),
        Some(t) if !t.is_float() => json!(value as u64),
        _ => json!(value),
    }
}

/// The value for a line: six decimals where they show it, an exponent where they would not.
fn digits(ty: Option<DType>, value: f64) -> String {
    match ty {
        Some(t) if !t.is_float() => format!("{value}"),
        _ if value != 0.0 && value.is_finite() && !(1e-3..1e9).contains(&value.abs()) => format!("{value:.6e}"),
        _ => format!("{value:.6}"),
    }
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

    #[test]
    fn numbers_have_the_digits_that_show_them() {
        assert_eq!(digits(Some(DType::F32), 4.25), "4.250000");
        assert_eq!(digits(Some(DType::F32), 2.5e-9), "2.500000e-9");
        assert_eq!(digits(Some(DType::F32), 0.0), "0.000000");
        assert_eq!(digits(Some(DType::F32), f64::NAN), "NaN");
        assert_eq!(digits(Some(DType::I32), 7.0), "7");
        assert_eq!(digits(Some(DType::I32), -7.0), "-7");
        assert_eq!(number(Some(DType::I32), -7.0).to_string(), "-7");
        assert_eq!(number(Some(DType::UI64), 7.0).to_string(), "7");
        assert_eq!(number(Some(DType::F32), f64::from(0.1f32)).to_string(), "0.1");
    }
}
