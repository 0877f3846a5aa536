//! `compile MODEL --cluster CLUSTER -o PLAN`: plans a step and makes its code.

use crate::diagnostics::Terminal;
use crate::outputs::check_outputs;
use crate::trace::{Tracing, described};
use compiler::batch::state::Overrides;
use compiler::import::{self, Imported};
use compiler::pipeline::{self, Options, Timings};
use compiler::stop::Stop;
use compiler::tables;
use compiler::tables::plan::Shallow;
use compiler::tables::search::Effort;
use cost_model::Cluster;
use ir::plan::{Plan, Premises, Recompute, Request};
use ir::program::{InstructionKind, ScheduleKind};
use ir::{Bytes, Diagnostic, Diagnostics, Result};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Plan a training step for a cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The step, as `jax.jit(train_step).lower(…).as_text()` prints it.
    #[arg(required_unless_present = "config", conflicts_with = "config")]
    model: Option<PathBuf>,
    /// Instead of a step a model's shape, a Hugging Face `config.json`, whose step is traced.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    tracing: Tracing,
    /// The cluster: `local:N`, `dgx-a100:N`, `dgx-h100:N`, `p3.16xlarge:N`, or a TOML file.
    #[arg(long)]
    cluster: String,
    /// Times measured on that cluster, as `cluster measure` writes them; they are preferred to formulas.
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
    /// Where to write the plan.
    #[arg(long, short, value_name = "PLAN")]
    output: Option<PathBuf>,
    /// Restricts the search: auto, data, tensor, zero1, zero2, zero3 or pipeline.
    #[arg(long, default_value = "auto")]
    strategy: String,
    /// Mesh of one stage, such as 4 or 2x2; stages × mesh = devices.
    #[arg(long, value_name = "AxB")]
    mesh: Option<String>,
    /// Number of pipeline stages, or auto.
    #[arg(long, value_name = "N|auto")]
    stages: Option<String>,
    /// Number of microbatches, or auto.
    #[arg(long, value_name = "M|auto")]
    microbatches: Option<String>,
    /// Order of microbatches: gpipe or 1f1b.
    #[arg(long)]
    schedule: Option<String>,
    /// What the backward computes again instead of keeping it: none, selective, full, or auto (as little as fits in memory).
    #[arg(long, value_name = "MODE")]
    recompute: Option<String>,
    /// Memory that a device's arena may take, such as 8GiB.
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
    /// Demands a sharding of a value: `%51=[{"x"},{}]`. Repeatable.
    #[arg(long, value_name = "NAME=SHARDING")]
    pin: Vec<String>,
    /// Take the shardings that the file itself states as pins.
    #[arg(long)]
    pin_from_file: bool,
    /// Arguments that are state: `0-156`, or `IN=OUT,…`.
    #[arg(long, value_name = "LIST")]
    state: Option<String>,
    /// Arguments that are the batch: `157,158`.
    #[arg(long, value_name = "LIST")]
    batch: Option<String>,
    /// The result that is the loss: its name or number.
    #[arg(long, value_name = "NAME|N")]
    loss: Option<String>,
    /// Level of the CPU code: x86-64-v2, x86-64-v3, x86-64-v4 or host.
    #[arg(long, default_value = "x86-64-v3")]
    cpu: String,
    /// Plan without making code.
    #[arg(long)]
    no_code: bool,
    /// End the search after so many seconds with the best plan so far; making code comes after, and is not counted.
    #[arg(long, value_name = "SECONDS")]
    time_limit: Option<f64>,
    /// Print how far the search is even where standard error is no terminal.
    #[arg(long)]
    progress: bool,
    /// Print how long each pass took.
    #[arg(long)]
    timings: bool,
}

fn number(text: Option<&String>, flag: &str) -> Result<Option<u32>> {
    match text.map(String::as_str) {
        None | Some("auto") => Ok(None),
        Some(t) => t
            .parse()
            .map(Some)
            .map_err(|_| Diagnostic::input("E0409", format!("`{flag} {t}`: expected a number or `auto`")).with_help(format!("for example `{flag} 4`")).into()),
    }
}

/// What was asked, read and checked.
pub(crate) fn request(args: &Args) -> Result<Request> {
    let mut errors: Vec<Diagnostic> = Vec::new();
    let mut take = |r: Result<Option<u32>>| match r {
        Ok(n) => n,
        Err(e) => {
            errors.extend(e.0);
            None
        }
    };
    let stages = take(number(args.stages.as_ref(), "--stages"));
    let microbatches = take(number(args.microbatches.as_ref(), "--microbatches"));
    let mut mesh = Vec::new();
    if let Some(text) = &args.mesh {
        match text.split('x').map(str::parse).collect::<std::result::Result<Vec<u32>, _>>() {
            Ok(m) if m.len() <= 4 => mesh = m,
            _ => errors
                .push(Diagnostic::input("E0409", format!("`--mesh {text}`: expected sizes joined by `x`, four at most")).with_help("for example `--mesh 2x2`")),
        }
    }
    let schedule = match args.schedule.as_deref() {
        None => None,
        Some("gpipe") => Some(ScheduleKind::GPipe),
        Some("1f1b") => Some(ScheduleKind::OneFOneB),
        Some(other) => {
            errors.push(Diagnostic::input("E0409", format!("`--schedule {other}`: there is no such schedule")).with_help("use `gpipe` or `1f1b`"));
            None
        }
    };
    let recompute = match args.recompute.as_deref() {
        None | Some("auto") => None,
        Some(name) => {
            let mode = Recompute::named(name);
            if mode.is_none() {
                let message = format!("`--recompute {name}`: there is no such recomputation");
                errors.push(Diagnostic::input("E0409", message).with_help("use `none`, `selective`, `full` or `auto`"));
            }
            mode
        }
    };
    let memory_limit = match args.memory_limit.as_deref().map(str::parse::<Bytes>) {
        None => None,
        Some(Ok(b)) => Some(b),
        Some(Err(e)) => {
            errors.push(Diagnostic::input("E0409", format!("`--memory-limit`: {e}")));
            None
        }
    };
    if !errors.is_empty() {
        return Err(Diagnostics(errors));
    }
    let path = args.model.as_ref().or(args.config.as_ref());
    let model = path.and_then(|p| p.file_name()).map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    Ok(Request {
        model,
        strategy: args.strategy.clone(),
        mesh,
        stages,
        microbatches,
        schedule,
        recompute,
        memory_limit,
        pins: args.pin.clone(),
        premises: Premises::default(),
    })
}

/// `--time-limit`.
fn time_limit(args: &Args) -> Result<Option<Duration>> {
    let Some(seconds) = args.time_limit else { return Ok(None) };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if seconds > 0.0 => Ok(Some(time)),
        _ => Err(Diagnostic::input("E0409", format!("`--time-limit {seconds}`: expected seconds, more than 0"))
            .with_help("for example `--time-limit 60`")
            .into()),
    }
}

/// What else the plan depends on.
pub(crate) fn premises(args: &Args) -> Result<Premises> {
    let mut cluster = if Cluster::is_file(&args.cluster) {
        let bytes = runtime::checkpoint::read_file(std::path::Path::new(&args.cluster))?;
        String::from_utf8_lossy(&bytes).into_owned()
    } else {
        args.cluster.clone()
    };
    if let Some((_, table)) = measured(args)? {
        // As one cluster file: a preset by its name, and the table after what is there.
        if !Cluster::is_file(&args.cluster) {
            let name = Cluster::parse(&args.cluster)?.name;
            cluster = format!("base = \"{name}\"\nname = \"{name}\"");
        }
        cluster = format!("{cluster}\n{table}");
    }
    Ok(Premises { cluster, ..overridden(args) })
}

/// The table of `--measured`: its name and its text.
fn measured(args: &Args) -> Result<Option<(String, String)>> {
    let Some(path) = &args.measured else { return Ok(None) };
    let bytes = runtime::checkpoint::read_file(path)?;
    Ok(Some((path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned())))
}

/// What the user says of the step.
pub(crate) fn overridden(args: &Args) -> Premises {
    Premises { state: args.state.clone(), batch: args.batch.clone(), loss: args.loss.clone(), ..Premises::default() }
}

/// A sharding that the file states, `<@mesh, [{"x"}, {}]>`, as a pin.
fn stated_pin(pin: &ir::text::Pin) -> String {
    let dims = pin.sharding.find('[').and_then(|a| pin.sharding.rfind(']').map(|b| &pin.sharding[a..=b])).unwrap_or("[]");
    format!("{}={dims}", pin.value)
}

/// `compile`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    let mut request = request(args)?;
    let mut cluster = Cluster::parse(&args.cluster)?;
    if let Some((file, table)) = measured(args)? {
        cluster = cluster.with_measured(&file, &table)?;
    }
    request.premises = premises(args)?;
    let overrides = Overrides::parse(args.state.as_deref(), args.batch.as_deref(), args.loss.as_deref())?;
    let mut sources = vec![("the cluster's description", Path::new(&args.cluster))];
    sources.extend(args.measured.iter().map(|path| ("the measured times", path.as_path())));
    sources.extend(args.model.iter().chain(&args.config).map(|path| ("the model", path.as_path())));
    check_outputs(&sources, &[("-o", args.output.as_deref())])?;
    if let Some(path) = &args.output {
        runtime::checkpoint::check_writable(path)?;
    }
    let start = std::time::Instant::now();
    let mut stop = Stop::after(time_limit(args)?).or_when(crate::interrupt::wish());
    let (imported, stacks) = read(args, terminal)?;
    request.premises.stacks = stacks;
    terminal.notes(&imported.notes);
    let line = terminal.progress_line(args.progress);
    if let Some(line) = &line {
        stop = stop.watched(line.watch());
    }
    if args.pin_from_file {
        request.pins.extend(imported.pins.iter().filter(|p| p.function == "main").map(stated_pin));
    }
    let parsed = start.elapsed();
    let options = Options { request, overrides, cluster, level: args.cpu.clone(), code: !args.no_code, stop };
    let mut timings = Timings(vec![("import", parsed)]);
    let plan = if args.no_code && !options.request.premises.stacks.is_empty() {
        let stacks = options.request.premises.stacks.clone();
        tables::plan::plan(&Shallow { module: &imported.module, stacks: &stacks }, &options, &Effort::default(), &mut timings)
    } else {
        pipeline::compile(&imported.module, &options, &mut timings)
    };
    drop(line);
    let plan = plan?;
    terminal.notes(&plan.notes);
    if let Some(path) = &args.output {
        runtime::checkpoint::write_atomically(path, &plan.to_bytes())?;
    }
    summary(&plan, args, &timings, terminal);
    Ok(ExitCode::SUCCESS)
}

/// Layers of a repeated block that are traced where only a plan is asked for: its two ends, and two between them.
const TRACED_LAYERS: u32 = 4;

/// The step, imported or traced from a configuration, and of which stacks of layers it has few.
fn read(args: &Args, terminal: &Terminal) -> Result<(Imported, Vec<(String, u32, u32)>)> {
    match (&args.model, &args.config) {
        (Some(_), _) if args.tracing.is_given() => {
            let d = Diagnostic::input("E0409", "a batch, sequence, element type, optimizer or depth is asked for, and the step has its own already");
            Err(d.with_help("leave those flags out, or name a model's shape by `--config`").into())
        }
        (Some(model), _) => Ok((import::import(model)?, Vec::new())),
        (None, Some(config)) => {
            let traced = args.tracing.trace_layers(config, args.no_code.then_some(TRACED_LAYERS), terminal)?;
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

/// What the layers recompute: one word when they agree, else how many of each.
fn recomputation(plan: &Plan) -> String {
    let counts = Recompute::ALL.map(|mode| (mode, plan.layers.iter().filter(|l| l.recompute == mode).count()));
    let used: Vec<_> = counts.into_iter().filter(|(_, n)| *n > 0).collect();
    match used.as_slice() {
        [] | [(Recompute::None, _)] => "nothing recomputed".into(),
        [(mode, _)] => format!("{} recomputation", mode.name()),
        some => format!("recomputation {}", some.iter().map(|(mode, n)| format!("{} in {n} layers", mode.name())).collect::<Vec<_>>().join(", ")),
    }
}

fn summary(plan: &Plan, args: &Args, timings: &Timings, terminal: &Terminal) {
    let seconds: f64 = timings.0.iter().map(|t| t.1.as_secs_f64()).sum();
    let stage = &plan.stages[0];
    let arena = plan.stages.iter().map(|s| s.memory.arena).max().unwrap_or_default();
    let collectives = plan.programs.iter().flat_map(|p| p.phases.iter().flatten()).filter(|i| matches!(i.kind, InstructionKind::Collective { .. })).count();
    if terminal.json() {
        terminal.object(&json!({
            "plan": args.output.as_ref().map(|p| p.display().to_string()),
            "stages": plan.stages.len(),
            "mesh": stage.mesh.axes.iter().map(|a| a.size).collect::<Vec<_>>(),
            "microbatches": plan.schedule.microbatches,
            "recompute": plan.layers.iter().map(|l| l.recompute.name()).collect::<Vec<_>>(),
            "step_seconds": plan.schedule.step.0,
            "bubble": plan.schedule.bubble,
            "grid_seconds": plan.by_hand.map(|s| s.0),
            "arena_bytes": plan.stages.iter().map(|s| s.memory.arena.0).collect::<Vec<_>>(),
            "objective": stage.solve.objective.0, "bound": stage.solve.bound.0, "gap": stage.solve.gap, "status": stage.solve.status,
            "kernels": plan.kernels.len(),
            "stopped": plan.stopped,
            "collectives": collectives,
            "seconds": timings.0.iter().map(|(n, t)| (n.to_string(), t.as_secs_f64())).collect::<std::collections::BTreeMap<_, _>>(),
        }));
        return;
    }
    let for_all = if plan.depth.is_empty() { String::new() } else { format!(" that stand for {}", plan.depth.len()) };
    terminal.progress("Read", &format!("{}  {} ops in {} layers{for_all}", plan.request.model, plan.graph.ops.len(), plan.layers.len()));
    terminal.progress(
        "Solved",
        &format!("{} groups · {} · gap {:.1} % · {} settings", stage.solve.nodes, stage.solve.status, stage.solve.gap * 100.0, plan.alternatives.len()),
    );
    terminal.progress(
        "Cut",
        &format!(
            "{} stage(s) of mesh {} · {} microbatch(es) · {:?} · {}",
            plan.stages.len(),
            stage.mesh,
            plan.schedule.microbatches,
            plan.schedule.kind,
            recomputation(plan)
        ),
    );
    let name = args.output.as_ref().map_or_else(|| "no file".into(), |p| p.display().to_string());
    terminal.progress(
        "Planned",
        &format!(
            "{name}  step {} (predicted) · arena {arena} · bubble {:.1} % · {} kernels · {seconds:.1} s",
            plan.schedule.step,
            plan.schedule.bubble * 100.0,
            plan.kernels.len()
        ),
    );
    if args.timings {
        for (name, t) in &timings.0 {
            terminal.progress("", &format!("{name:12} {:8.1} ms", t.as_secs_f64() * 1e3));
        }
    }
}
