//! `run PLAN`: executes a plan and prints a line per step.
//!
//! With `--save-every` the state is saved on the way. A step is told only when the checkpoint before it is on disk, so of the steps that were told a killed run
//! loses at most as many as lie between two checkpoints.

use crate::device::DeviceArgs;
use crate::diagnostics::Terminal;
use crate::metrics::Metrics;
use crate::outputs::check_outputs;
use crate::processes::{self, Flags, Member, Role};
use ir::plan::Plan;
use ir::{Bytes, DType, Diagnostic, Result};
use runtime::checkpoint::{self, Batches, Checkpoint, Store};
use runtime::processes::environment::Launcher;
use runtime::session::RankMemory;
use runtime::transport::Fabric;
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
    /// How many steps, those before a checkpoint included; by default one for each batch, or one.
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// The file for the state after the last step, whole and unsharded; with `--save-every`, the folder for checkpoints.
    #[arg(long, value_name = "PATH")]
    save: Option<PathBuf>,
    /// Save a checkpoint after every K steps, and after the last; it is written while the next step runs.
    #[arg(long, value_name = "K", requires = "save", value_parser = clap::value_parser!(u64).range(1..))]
    save_every: Option<u64>,
    /// How many checkpoints are kept.
    #[arg(long, value_name = "N", requires = "save_every", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    /// Continue from the newest whole checkpoint of this folder, saved under this or any other plan of the same step.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Where to write what happened when, for ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Write figures of every step as lines of JSON: losses, times, gradients' norms, memory. With `--resume` a file that is there is continued.
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Write the same figures as event files for TensorBoard.
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
    /// How many seconds a rank waits for another before the run fails.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    #[command(flatten)]
    processes: Flags,
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
    check_outputs(&sources, &[("--save", args.save.as_deref()), ("--trace", args.trace.as_deref()), ("--metrics", args.metrics.as_deref())])?;
    args.processes.check()?;
    let role = processes::role(&args.processes)?;
    let plan = Arc::new(read_executable(&args.plan)?);
    args.device.kind(&plan)?;
    let timeout = Duration::from_secs(args.timeout);
    match role {
        Role::Alone => execute(args, &plan, None, terminal),
        Role::Launcher(n) => processes::launch(&args.processes, &plan, n, terminal),
        Role::Member(found) => {
            let member = processes::join(&found, &args.processes, &plan, &args.plan, timeout, terminal)?;
            let quiet = if member.speaks() { *terminal } else { terminal.silent() };
            let done = execute(args, &plan, Some(&member), &quiet);
            match &done {
                Ok(_) => member.fabric.close(),
                Err(failed) => {
                    // What only this process knows ends the run for all; what it was told is known already.
                    if let Some(first) = failed.0.first() {
                        member.fabric.fail(first.clone());
                    }
                    member.fabric.abandon();
                    // Rank 0 has said it; where all share a terminal nobody says it again.
                    if member.fabric.control().was_told() && found.launcher != Launcher::Ours {
                        return Ok(ExitCode::FAILURE);
                    }
                }
            }
            done
        }
    }
}

/// Executes the plan, or this process's share of it.
fn execute(args: &Args, plan: &Arc<Plan>, member: Option<&Member>, terminal: &Terminal) -> Result<ExitCode> {
    let first_process = member.is_none_or(Member::speaks);
    let inputs = read_arguments(plan, &args.inputs, terminal)?;
    let batches = match &args.batches {
        Some(path) => {
            let (batches, notes) = Batches::read(path, &checkpoint::argument_types(plan))?;
            terminal.notes(&notes);
            Some(batches)
        }
        None => None,
    };
    let resumed = match &args.resume {
        Some(folder) => {
            let checkpoint = resumed(folder, member, terminal)?;
            checkpoint.check(plan)?;
            Some(checkpoint)
        }
        None => None,
    };
    let first = resumed.as_ref().map_or(0, |c| c.manifest.step);
    let save_file = args.save.as_ref().filter(|_| args.save_every.is_none());
    for path in save_file.into_iter().chain(&args.trace).filter(|_| first_process) {
        checkpoint::check_writable(path)?;
    }
    let given = batches.as_ref().map(|b| b.batch(first)).unwrap_or_default();
    let together: Arguments = inputs.into_iter().chain(given).collect();
    if !args.zeros && (!args.inputs.is_empty() || args.batches.is_some() || resumed.is_some()) {
        check_data(plan, &together)?;
    }
    let store = match (&args.save, args.save_every) {
        (Some(folder), Some(_)) if !first_process => Some(Store::join(folder)),
        (Some(folder), Some(_)) => {
            let (store, notes) = Store::open(folder, args.keep as usize, resumed.as_ref())?;
            terminal.notes(&notes);
            Some(store)
        }
        _ => None,
    };
    let mut metrics = Metrics::open(plan, args.metrics.as_deref(), args.tensorboard.as_deref(), resumed.as_ref().map(|c| c.manifest.step), first_process)?;
    let options = Options { timeout: Duration::from_secs(args.timeout), trace: args.trace.is_some() };
    let mut session = match member {
        Some(member) => {
            let fabric: Arc<dyn Fabric> = member.fabric.clone();
            args.device.open_on(plan, &options, &fabric)?
        }
        None => {
            let (session, notes) = args.device.open(plan, &options)?;
            terminal.notes(&notes);
            session
        }
    };
    if let Some(store) = store {
        session.save_to(store, options.timeout)?;
    }
    opened(args, &session, terminal);
    if let Some(metrics) = &mut metrics {
        terminal.notes(&metrics.begin(&mut session)?);
    }
    begin(&mut session, &together, resumed.as_ref(), terminal)?;
    let steps = args.steps.unwrap_or_else(|| batches.as_ref().map_or(1, Batches::steps));
    if steps <= first {
        terminal.notes(&[Diagnostic::note("N0661", format!("the checkpoint is of step {first}, and {steps} were asked for: there is nothing left to run"))]);
    }
    let mut unsaved = None;
    for step in first..steps {
        let batch = batches.as_ref().map(|b| b.batch(step)).unwrap_or_default();
        let report = session.step(&batch)?;
        settle(&mut session, &mut unsaved, terminal);
        print(plan, &report, terminal);
        if let Some(metrics) = &mut metrics {
            terminal.notes(&metrics.step(&mut session, &report)?);
        }
        if args.save_every.is_some_and(|k| (step + 1) % k == 0 || step + 1 == steps) {
            session.save()?;
        }
    }
    settle(&mut session, &mut unsaved, terminal);
    // All processes give what is written; that of rank 0 writes it.
    if let Some(path) = save_file {
        let state = session.state()?;
        if first_process {
            checkpoint::write(path, &state)?;
        }
    }
    if let Some(path) = &args.trace {
        let trace = session.trace()?;
        if first_process {
            checkpoint::write_atomically(path, trace.to_string().as_bytes())?;
        }
    }
    match unsaved {
        Some(step) if step == steps => {
            let d = Diagnostic::outcome("E0665", format!("the state after step {step} is not saved: its checkpoint could not be written"));
            Err(d.with_help("see the warning above; free space, then `--resume` from the newest checkpoint").into())
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The checkpoint to continue from: rank 0's process looks for it, and all take that one.
fn resumed(folder: &Path, member: Option<&Member>, terminal: &Terminal) -> Result<Checkpoint> {
    let newest = |folder: &Path| -> Result<Checkpoint> {
        let (checkpoint, notes) = Checkpoint::newest(folder)?;
        terminal.notes(&notes);
        Ok(checkpoint)
    };
    let Some(member) = member else { return newest(folder) };
    let found = if member.speaks() { Some(newest(folder)?) } else { None };
    let given = found.as_ref().map(|c| c.folder.as_os_str().as_encoded_bytes().to_vec()).unwrap_or_default();
    let told = member
        .fabric
        .share(given)
        .map_err(|_| member.fabric.failure().unwrap_or_else(|| Diagnostic::outcome("E0681", "rank 0 did not say which checkpoint to continue from")))?;
    match found {
        Some(checkpoint) => Ok(checkpoint),
        None => {
            let place = PathBuf::from(String::from_utf8_lossy(&told).into_owned());
            let missing = |why| Diagnostic::outcome("E0661", format!("{} cannot be read here: {why}", place.display()));
            Ok(Checkpoint::open(&place).map_err(|why| missing(why).with_help("the folder of checkpoints must be the same for all ranks"))?)
        }
    }
}

/// Says what was opened.
fn opened(args: &Args, session: &Session, terminal: &Terminal) {
    let memory = session.memory();
    let sum = |of: fn(&RankMemory) -> usize| Bytes(memory.iter().map(|m| of(m) as u64).sum());
    let mut text = format!("{}  {} ranks · arenas {} · beside them {}", args.plan.display(), memory.len(), sum(|m| m.arena), sum(|m| m.overhead));
    if args.save_every.is_some() {
        text += &format!(" · to save from {}", sum(|m| m.snapshot));
    }
    terminal.progress("Opened", &text);
}

/// Gives the session what it begins with: the arguments, and in the place of state a checkpoint's.
fn begin(session: &mut Session, arguments: &Arguments, resumed: Option<&Checkpoint>, terminal: &Terminal) -> Result<()> {
    let mut notes = session.set_inputs(arguments)?;
    if let Some(checkpoint) = resumed {
        session.restore(checkpoint)?;
        // Zeros for state were only there until it was restored; data were checked before.
        notes.retain(|n| n.code != "N0601");
        terminal.progress("Resumed", &format!("step {}  {}", checkpoint.manifest.step, checkpoint.folder.display()));
    }
    terminal.notes(&notes);
    Ok(())
}

/// Waits for the checkpoint that is under way; `unsaved` becomes the step of one that failed.
fn settle(session: &mut Session, unsaved: &mut Option<u64>, terminal: &Terminal) {
    while let Some((step, outcome)) = session.saved(true) {
        match outcome {
            Ok(saved) => {
                *unsaved = None;
                terminal.progress("Saved", &format!("step {step}  {} · {} · {:.2} s", saved.folder.display(), Bytes(saved.bytes), saved.seconds));
                terminal.notes(&saved.note.map(|n| Diagnostic::warning("W0662", n)).into_iter().collect::<Vec<_>>());
            }
            Err(warning) => {
                *unsaved = Some(step);
                terminal.notes(&[warning]);
            }
        }
    }
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
pub(crate) fn label(is_loss: bool, name: &str) -> &str {
    let says_something = name.chars().any(char::is_alphabetic) && name.strip_prefix("result").is_none_or(|rest| rest.chars().any(char::is_alphabetic));
    if says_something || !is_loss { name } else { "loss" }
}

pub(crate) fn element_type(plan: &Plan, result: u32) -> Option<DType> {
    plan.source.main().and_then(|g| g.outputs.get(result as usize).map(|v| g.ty(*v).dtype))
}

/// The value with the digits its element type has; an integer is one.
pub(crate) fn number(ty: Option<DType>, value: f64) -> Value {
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
