//! `compile MODEL --cluster CLUSTER -o PLAN`: plans a step and makes its code.

use crate::diagnostics::Terminal;
use crate::given::{self, Given};
use crate::outputs::check_outputs;
use compiler::batch::state::Overrides;
use compiler::lower::report;
use compiler::pipeline::{self, Options, Timings};
use compiler::stop::Stop;
use compiler::tables;
use compiler::tables::plan::Shallow;
use compiler::tables::search::Effort;
use cost_model::Cluster;
use ir::plan::{Plan, Premises, Recompute, Request};
use ir::program::{InstructionKind, ScheduleKind};
use ir::{Diagnostic, Diagnostics, Result};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Plan a training step for a cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    given: Given,
    /// Where to write the plan.
    #[arg(long, short, value_name = "PLAN")]
    output: Option<PathBuf>,
    /// Restricts the search: auto, alpa, data, zero1, zero2, zero3, hsdp, megatron, gpipe, 1f1b, … (docs/strategies lists all).
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
    /// Order of microbatches: gpipe, 1f1b or interleaved.
    #[arg(long)]
    schedule: Option<String>,
    /// With `--schedule interleaved`: how many chunks of the model a stage holds.
    #[arg(long, value_name = "V")]
    chunks: Option<u32>,
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
    /// What to make code for: cpu, or a GPU architecture, cuda:sm_80, cuda:sm_90 or cuda:sm_100.
    #[arg(long, default_value = "cpu", value_name = "TARGET")]
    target: String,
    /// Plan without making code.
    #[arg(long)]
    no_code: bool,
    /// Print what the GPU kernels move and take: kernels.
    #[arg(long, value_name = "WHAT", value_parser = ["kernels"])]
    report: Option<String>,
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
        Some("interleaved") => Some(ScheduleKind::Interleaved(args.chunks.unwrap_or(2))),
        Some(other) => {
            errors
                .push(Diagnostic::input("E0409", format!("`--schedule {other}`: there is no such schedule")).with_help("use `gpipe`, `1f1b` or `interleaved`"));
            None
        }
    };
    match (schedule, args.chunks) {
        (Some(ScheduleKind::Interleaved(_)), Some(0 | 1)) => {
            errors.push(Diagnostic::input("E0409", "`--chunks`: a stage that interleaves holds at least two chunks").with_help("for example `--chunks 2`"));
        }
        (Some(ScheduleKind::Interleaved(_)), _) | (_, None) => {}
        (_, Some(_)) => {
            errors.push(Diagnostic::input("E0409", "`--chunks` is for interleaved schedules").with_help("add `--schedule interleaved`"));
        }
    }
    let recompute = given::recompute(args.recompute.as_deref(), &mut errors);
    let memory_limit = given::memory_limit(args.memory_limit.as_deref(), &mut errors);
    if !errors.is_empty() {
        return Err(Diagnostics(errors));
    }
    Ok(Request {
        model: args.given.name(),
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

/// What code is made for, `--target` and `--cpu` as one name.
fn code_for(args: &Args) -> Result<String> {
    match args.target.as_str() {
        "cpu" => Ok(args.cpu.clone()),
        cuda if cuda.starts_with("cuda:") => Ok(cuda.to_owned()),
        other => Err(Diagnostic::input("E0804", format!("`--target {other}`: there is no such target"))
            .with_help("use `cpu`, or a GPU architecture such as `cuda:sm_90`")
            .into()),
    }
}

/// What else the plan depends on.
pub(crate) fn premises(args: &Args) -> Result<Premises> {
    let mut cluster = if Cluster::is_file(&args.given.cluster) {
        let bytes = runtime::checkpoint::read_file(std::path::Path::new(&args.given.cluster))?;
        String::from_utf8_lossy(&bytes).into_owned()
    } else {
        args.given.cluster.clone()
    };
    if let Some((_, table)) = args.given.table()? {
        // As one cluster file: a preset by its name, and the table after what is there.
        if !Cluster::is_file(&args.given.cluster) {
            let name = Cluster::parse(&args.given.cluster)?.name;
            cluster = format!("base = \"{name}\"\nname = \"{name}\"");
        }
        cluster = format!("{cluster}\n{table}");
    }
    Ok(Premises { cluster, ..overridden(args) })
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
    let cluster = args.given.cluster()?;
    request.premises = premises(args)?;
    let overrides = Overrides::parse(args.state.as_deref(), args.batch.as_deref(), args.loss.as_deref())?;
    check_outputs(&args.given.files(), &[("-o", args.output.as_deref())])?;
    if let Some(path) = &args.output {
        runtime::checkpoint::check_writable(path)?;
    }
    let start = std::time::Instant::now();
    let mut stop = Stop::after(time_limit(args)?).or_when(crate::interrupt::wish());
    let (imported, stacks) = args.given.read(&args.given.tracing, args.no_code, terminal)?;
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
    let options = Options { request, overrides, cluster, level: code_for(args)?, code: !args.no_code, stop };
    let mut timings = Timings(vec![("import", parsed)]);
    let compiled = if args.no_code && !options.request.premises.stacks.is_empty() {
        let stacks = options.request.premises.stacks.clone();
        tables::plan::plan(&Shallow { module: &imported.module, stacks: &stacks }, &options, &Effort::default(), &mut timings).map(|plan| (plan, vec![]))
    } else {
        pipeline::compile_in_regions(&imported.module, &options, &mut timings)
    };
    drop(line);
    let (plan, regions) = compiled?;
    terminal.notes(&plan.notes);
    if let Some(path) = &args.output {
        runtime::checkpoint::write_atomically(path, &plan.to_bytes())?;
    }
    summary(&plan, args, &timings, terminal);
    if args.report.is_some() {
        crate::kernels::print(&report::report(&plan, &regions)?, terminal);
    }
    Ok(ExitCode::SUCCESS)
}

/// What the layers recompute: one word when they agree, else how many of each.
fn recomputation(plan: &Plan) -> String {
    let counts = Recompute::ALL.map(|mode| (mode, (0..).zip(&plan.layers).filter(|(_, l)| l.recompute == mode).map(|(l, _)| plan.stands_for(l)).sum::<u32>()));
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
            "stages": plan.pipeline_stages(),
            "schedule": plan.schedule.kind.name(),
            "chunks": plan.schedule.kind.chunks(),
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
            "{} stage(s) of mesh {} · {} microbatch(es) · {} · {}",
            plan.pipeline_stages(),
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
