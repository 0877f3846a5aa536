//! `verify PLAN`: the planned step against the unsharded one, tensor by tensor.
//!
//! The plan runs; the interpreter runs the step it was made from, as typed and in `f64`; after one and after three steps every result is judged
//! (`ir::judge` says how). Arguments are given as for `run`, or made up from a fixed seed: parameters small, other state zero, batches varied.

use crate::device::DeviceArgs;
use crate::diagnostics::Terminal;
use crate::run::{missing_data, named, read_arguments, read_executable};
use ir::arguments::Role;
use ir::interp::{Precision, Tensor as Reference, footprint};
use ir::judge::{self, Judgement, Verdict};
use ir::plan::Plan;
use ir::{Bytes, Diagnostic, Graph, Result};
use runtime::checkpoint::{self, Batches};
use runtime::{Arguments, Options, Tensor};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Check a plan against the step it was made from.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan, as written by `compile`.
    plan: PathBuf,
    /// Arguments of the step, as for `run`; data that no file holds is made up.
    #[arg(long, value_name = "FILE")]
    inputs: Vec<PathBuf>,
    /// Batch arguments with a leading dimension of steps.
    #[arg(long, value_name = "FILE")]
    batches: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
    /// After how many steps results are judged.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 3])]
    steps: Vec<u64>,
    /// Print every tensor, not only the worst.
    #[arg(long)]
    all: bool,
}

/// Tensors named in a failure.
const NAMED: usize = 8;

/// `verify`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    if args.steps.contains(&0) {
        return Err(Diagnostic::input("E0409", "`--steps 0`: nothing has changed before the first step").with_help("give numbers of at least 1").into());
    }
    let plan = Arc::new(read_executable(&args.plan)?);
    args.device.kind(&plan)?;
    let graph = plan.source.main().ok_or_else(|| Diagnostic::input("E0905", "this plan is inconsistent: it has no step"))?;
    let batches = match &args.batches {
        Some(path) => {
            let (batches, notes) = Batches::read(path, &checkpoint::argument_types(&plan))?;
            terminal.notes(&notes);
            Some(batches)
        }
        None => None,
    };
    let mut given = read_arguments(&plan, &args.inputs, terminal)?;
    if let Some(batches) = &batches {
        given.extend(batches.batch(0));
    }
    let mut arguments = made_up(&plan, graph);
    if !given.is_empty() {
        // State that is in no file is zeros, as for `run`.
        let data = missing_data(&plan, &given);
        if !data.is_empty() {
            terminal.notes(&[Diagnostic::note("N0602", format!("in no file and therefore made up: {}", named(&data)))]);
        }
        for (i, t) in arguments.iter_mut().filter(|(i, _)| !data.contains(i)) {
            *t = given.get(i).cloned().unwrap_or_else(|| Arc::new(Tensor::zeros(t.ty.clone())));
        }
        // What is no argument of the step is refused when the session takes it.
        given.into_iter().for_each(|(i, t)| drop(arguments.insert(i, t)));
    }
    check_memory(&plan, graph, memory_available())?;
    let (mut session, notes) = args.device.open(&plan, &Options::default())?;
    terminal.notes(&notes);
    terminal.notes(&session.set_inputs(&arguments)?);
    let state: Vec<(usize, usize)> = plan.interface.state.iter().map(|(a, r)| (*r as usize, *a as usize)).collect();
    let inputs = arguments.values().map(|t| reference(t)).collect::<Result<_>>()?;
    let mut oracle = judge::Reference::new(&plan.source, graph, &state, inputs)?;
    let wanted: Vec<u32> = (0..graph.outputs.len() as u32).collect();
    let mut outside = Vec::new();
    for step in 1..=args.steps.iter().copied().max().unwrap_or(0) {
        let batch = batches.as_ref().map(|b| b.batch(step - 1)).unwrap_or_default();
        for (i, tensor) in &batch {
            oracle.set_input(*i as usize, &reference(tensor)?)?;
        }
        session.step(&batch)?;
        oracle.step()?;
        if !args.steps.contains(&step) {
            continue;
        }
        let results = session.results(&wanted)?;
        if let Some(i) = wanted.iter().find(|i| !results.contains_key(*i)) {
            return Err(Diagnostic::input("E0602", format!("this plan is inconsistent: result {i} is in no buffer")).into());
        }
        let results = results.values().map(|t| reference(t)).collect::<Result<Vec<_>>>()?;
        let judgement = oracle.judge(&results)?;
        print(step, &judgement, args.all, terminal);
        terminal.notes(&not_finite(step, &judgement));
        outside.extend(judgement.verdicts.into_iter().filter(|v| !v.within()).map(|v| (step, v)));
    }
    if outside.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(failure(&outside).into()) }
}

/// Refuses what the machine cannot hold: the arenas, the arguments, and the interpreter once as typed and once in `f64`.
fn check_memory(plan: &Plan, graph: &Graph, available: Option<Bytes>) -> Result<()> {
    let Some(available) = available else { return Ok(()) };
    let arenas: Bytes = plan.programs.iter().map(|p| Bytes(p.arena.0 * u64::from(p.mesh.devices()))).sum();
    let arguments: Bytes = graph.inputs.iter().map(|&v| Bytes(graph.ty(v).bytes())).sum();
    let kept = |precision| -> Bytes { graph.inputs.iter().chain(&graph.outputs).map(|&v| footprint::held(graph.ty(v), precision)).sum() };
    let peak = |precision| footprint::peak(&plan.source, graph, precision);
    // One evaluates while the other keeps what it began with and what it made.
    let interpreter = (peak(Precision::AsTyped) + kept(Precision::F64)).max(peak(Precision::F64) + kept(Precision::AsTyped));
    let needed = arenas + arguments + interpreter;
    if needed <= available {
        return Ok(());
    }
    Err(Diagnostic::outcome("E0706", format!("the check needs about {needed} of memory, and {available} are free"))
        .with_note(format!("the interpreter, in f32 and f64: {interpreter}; arenas of the plan: {arenas}; arguments: {arguments}"))
        .with_help("verify where there is more memory, or verify a smaller model of the same kind")
        .into())
}

/// Memory that can be had without swapping, within the limit of a container; none where the system does not say.
fn memory_available() -> Option<Bytes> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let free = line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024;
    let group = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/memory.{name}")).ok();
    let limit = group("max").and_then(|t| t.trim().parse::<u64>().ok());
    let used = group("stat").and_then(|t| t.lines().find_map(|l| l.strip_prefix("anon ")?.parse::<u64>().ok())).unwrap_or(0);
    Some(Bytes(limit.map_or(free, |l| l.saturating_sub(used).min(free))))
}

fn reference(tensor: &Tensor) -> Result<Reference> {
    Ok(Reference::from_bytes(tensor.ty.clone(), &tensor.bytes)
        .ok_or_else(|| Diagnostic::input("E0620", format!("{} bytes are given for {}", tensor.bytes.len(), tensor.ty)))?)
}

/// Arguments for a step nothing is known of: the same every time.
fn made_up(plan: &Plan, graph: &Graph) -> Arguments {
    let role = |i: usize| {
        let i = i as u32;
        if plan.interface.parameters.contains(&i) {
            Role::Parameter
        } else if plan.interface.state.iter().any(|(a, _)| *a == i) {
            Role::State
        } else {
            Role::Data
        }
    };
    let made = ir::arguments::made_up(&plan.source, graph, role, 0);
    made.into_iter().enumerate().map(|(i, t)| (i as u32, Arc::new(Tensor { bytes: t.to_bytes(), ty: t.ty }))).collect()
}

/// A warning where the step itself gives what is not finite, since that agrees with anything.
fn not_finite(step: u64, judgement: &Judgement) -> Vec<Diagnostic> {
    let names: Vec<&str> = judgement.not_finite().map(|v| v.name.as_str()).collect();
    let Some(first) = names.first() else { return Vec::new() };
    let message = format!("after {step}: {} of {} results are not finite in the step itself, so they show little", names.len(), judgement.verdicts.len());
    vec![Diagnostic::warning("W0705", message).with_note(format!("the first is {first}")).with_help("give arguments of a real step with `--inputs`")]
}

fn object(v: &Verdict) -> Value {
    json!({"name": v.name, "distance": v.distance, "allowance": v.allowance, "relative": v.relative(), "ratio": v.ratio(), "within": v.within()})
}

fn line(v: &Verdict) -> String {
    format!("{:.2} of what is allowed, {:.1e} relative: {}", v.ratio(), v.relative(), v.name)
}

fn print(step: u64, judgement: &Judgement, all: bool, terminal: &Terminal) {
    let worst = judgement.worst();
    if terminal.json() {
        let mut value = json!({"steps": step, "within": judgement.within(), "tensors": judgement.verdicts.len(), "worst": worst.map(object)});
        if all {
            value["all"] = judgement.verdicts.iter().map(object).collect();
        }
        return terminal.object(&value);
    }
    if all {
        for v in &judgement.verdicts {
            terminal.line(&format!("  {}", line(v)));
        }
    }
    let count = judgement.verdicts.len();
    let good = judgement.verdicts.iter().filter(|v| v.within()).count();
    let worst = worst.map(line).unwrap_or_default();
    terminal.line(&format!("after {step} step{}  {good} of {count} tensors within · worst {worst}", if step == 1 { "" } else { "s" }));
}

fn failure(outside: &[(u64, Verdict)]) -> Diagnostic {
    let mut d = Diagnostic::outcome("E0640", format!("the plan does not compute the step: {} tensors are outside", outside.len()));
    for (step, v) in outside.iter().take(NAMED) {
        d = d.with_note(format!("after {step}: {} is {:.3e} away, allowed {:.3e} ({:.1e} relative)", v.name, v.distance, v.allowance, v.relative()));
    }
    if outside.len() > NAMED {
        d = d.with_note(format!("and {} more; `--all` shows every tensor", outside.len() - NAMED));
    }
    d
}
