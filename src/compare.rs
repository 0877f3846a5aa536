//! `compare MODEL --cluster CLUSTER`: every known strategy side by side, each with its best setting.
//!
//! A table in the terminal, the same as JSON, and as a page with charts. Rows are searched by `compiler::compare`; nothing is computed here but text.

use crate::diagnostics::Terminal;
use crate::given::{self, Given};
use crate::outputs::check_outputs;
use compiler::batch::state::Overrides;
use compiler::compare::{COMPARED, Comparer, Comparison, Figures, Outcome, Row, Scale};
use compiler::pipeline::Options;
use compiler::shard::presets::Preset;
use compiler::stage::Setting;
use compiler::stop::Stop;
use compiler::tables::plan::Shallow;
use compiler::tables::search::Effort;
use cost_model::Cluster;
use ir::plan::{Recompute, Request};
use ir::{Bytes, Diagnostic, Diagnostics, Result, Seconds};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Predict every known strategy, side by side.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    given: Given,
    /// Which strategies, separated by commas; all by default (docs/strategies lists them).
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    strategy: Vec<String>,
    /// Number of microbatches for all of them, in the place of each one's best.
    #[arg(long, value_name = "M")]
    microbatches: Option<u32>,
    /// What the backward computes again instead of keeping it: none, selective or full; each one's best by default.
    #[arg(long, value_name = "MODE")]
    recompute: Option<String>,
    /// Memory that a device may take, such as 64GiB.
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
    /// Predict steps on 1, 2, 4, … nodes too (devices, where there is one node).
    #[arg(long)]
    scaling: bool,
    /// Write a page with charts, the scaling curve among them.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// How hard rows are searched: strategies with free shardings solve so many settings freely.
const FREE: usize = 3;
/// The same for points of the scaling curve.
const FREE_SCALING: usize = 1;

/// What was asked of the strategies: which, and what all have.
fn asked(args: &Args) -> Result<(Vec<Preset>, Request)> {
    let mut errors = Vec::new();
    let mut presets: Vec<Preset> = Vec::new();
    for name in &args.strategy {
        match Preset::named(name) {
            Ok(p) if presets.contains(&p) => {}
            Ok(p) => presets.push(p),
            Err(e) => errors.extend(e.0),
        }
    }
    let recompute = given::recompute(args.recompute.as_deref(), &mut errors);
    let memory_limit = given::memory_limit(args.memory_limit.as_deref(), &mut errors);
    if !errors.is_empty() {
        return Err(Diagnostics(errors));
    }
    if presets.is_empty() {
        presets = COMPARED.to_vec();
    }
    let request = Request { strategy: "auto".into(), microbatches: args.microbatches, recompute, memory_limit, ..Request::default() };
    Ok((presets, request))
}

/// `compare`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    let (presets, request) = asked(args)?;
    let given = &args.given;
    let cluster = given.cluster()?;
    check_outputs(&given.files(), &[("--html", args.html.as_deref())])?;
    // A step has its batch: it may be said, and must then be that.
    let tracing = if given.model.is_some() { given.tracing.without_batch() } else { given.tracing.clone() };
    let (imported, stacks) = given.read(&tracing, true, terminal)?;
    terminal.notes(&imported.notes);
    let line = terminal.progress_line(false);
    let mut stop = Stop::default().or_when(crate::interrupt::wish());
    if let Some(line) = &line {
        stop = stop.watched(line.watch());
    }
    let shallow = Shallow { module: &imported.module, stacks: &stacks };
    let options = Options { request, overrides: Overrides::default(), cluster: cluster.clone(), level: String::new(), code: false, stop };
    let comparer = Comparer::new(&shallow, &options)?;
    if let (Some(_), Some(said)) = (&given.model, given.tracing.batch().filter(|&b| b != comparer.work.batch)) {
        let d = Diagnostic::input("E0409", format!("`--global-batch {said}`: the step has a batch of {}", comparer.work.batch));
        return Err(d.with_help(format!("give `--global-batch {}`, or leave it out", comparer.work.batch)).into());
    }
    let comparison = comparer.compare(&cluster, &presets, &Effort { free: FREE, ..Effort::default() });
    let scaling = if args.scaling || args.html.is_some() { comparer.scaling(&presets, &Effort { free: FREE_SCALING, ..Effort::default() }) } else { vec![] };
    drop(line);
    terminal.notes(comparer.notes());
    terminal.notes(&options.stop.warning().into_iter().collect::<Vec<_>>());
    let name = given.name();
    let report = report(&name, &cluster, &comparison, &scaling);
    if let Some(path) = &args.html {
        let page = viz::comparison_page(&format!("{name} on {}", cluster.name), &report);
        crate::view::write_whole(path, page.as_bytes())?;
        terminal.progress("Wrote", &format!("{}  {}", path.display(), Bytes(page.len() as u64)));
    }
    if terminal.json() {
        terminal.object(&report);
    } else {
        table(&comparison, &cluster, terminal);
        curve(&scaling, terminal);
    }
    Ok(if comparison.rows.iter().any(|r| r.figures().is_some()) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// A setting in few words: `4 stages · 2x4 · 16 microbatches · selective`.
fn words(s: &Setting, some: Option<(u32, Recompute)>) -> String {
    let mesh = s.mesh.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
    let mut parts = vec![];
    if s.stages > 1 {
        parts.push(format!("{} stages", s.stages));
    }
    parts.push(format!("mesh {mesh}"));
    if s.microbatches > 1 {
        parts.push(format!("{} microbatches", s.microbatches));
    }
    if s.recompute != Recompute::None {
        let some = some.map_or_else(String::new, |(n, others)| format!(" in {n} layers, {} in others", others.name()));
        parts.push(format!("recompute {}{some}", s.recompute.name()));
    }
    parts.join(" · ")
}

/// A rate in few digits: `4,210`, `12.3`.
fn rate(x: f64) -> String {
    if x < 100.0 {
        return format!("{x:.1}");
    }
    let digits = format!("{x:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// The table, best first.
fn table(comparison: &Comparison, cluster: &Cluster, terminal: &Terminal) {
    let unit = if comparison.work.has_positions { "tok/s/dev" } else { "ex/s/dev" };
    let priced = cluster.price_per_hour().is_some();
    let mut head = vec!["strategy", "step", unit, "MFU", "memory", "bubble", "exposed"];
    if priced {
        head.push(if comparison.work.has_positions { "price/1e9 tok" } else { "price/1e9 ex" });
    }
    head.push("setting");
    let cells = |f: &Figures, row: &Row| {
        let mut cells = vec![
            row.preset.name().to_string(),
            f.step.to_string(),
            rate(f.tokens_per_second),
            format!("{:.1} %", 100.0 * f.mfu),
            Bytes(f.memory.total() as u64).to_string(),
            format!("{:.1} %", 100.0 * f.bubble),
            format!("{:.1} %", 100.0 * f.parts.communication / f.step.0),
        ];
        if priced {
            cells.push(f.price.map_or_else(String::new, rate));
        }
        let predicted = if row.preset.predicted_only().is_some() { "   (predicted only)" } else { "" };
        cells.push(format!("{}{predicted}", words(&f.setting, f.some)));
        cells
    };
    let rows: Vec<Vec<String>> = comparison.rows.iter().filter_map(|r| r.figures().map(|f| cells(f, r))).collect();
    let widths: Vec<usize> = (0..head.len()).map(|c| rows.iter().map(|r| r[c].chars().count()).chain([head[c].chars().count()]).max().unwrap_or(0)).collect();
    let last = head.len() - 1;
    let print = |cells: Vec<String>| {
        let padded: Vec<String> = cells
            .into_iter()
            .enumerate()
            .map(|(c, t)| match c {
                _ if c == last => t,
                0 => format!("{t:<w$}", w = widths[c]),
                _ => format!("{t:>w$}", w = widths[c]),
            })
            .collect();
        terminal.line(padded.join("  ").trim_end());
    };
    if !rows.is_empty() {
        print(head.iter().map(ToString::to_string).collect());
    }
    rows.into_iter().for_each(print);
    let name_width = comparison.rows.iter().map(|r| r.preset.name().len()).max().unwrap_or(0);
    for row in &comparison.rows {
        let why = match &row.outcome {
            Outcome::Fits(_) => continue,
            Outcome::TooLarge(need) => too_large(*need, comparison.capacity),
            Outcome::Impossible(d) => d.message.clone(),
        };
        terminal.line(&format!("{:<name_width$}  {why}", row.preset.name()));
    }
    terminal.progress("Compared", &format!("{} devices of {} · {} of memory each", cluster.devices(), cluster.name, comparison.capacity));
}

fn too_large(need: Bytes, capacity: Bytes) -> String {
    format!("does not fit: needs at least {need} of {capacity}, {} too much", Bytes(need.0.saturating_sub(capacity.0)))
}

/// The scaling curve as lines.
fn curve(scaling: &[Scale], terminal: &Terminal) {
    for s in scaling {
        let mut steps = s.steps.clone();
        steps.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let best: Vec<String> = steps.iter().take(4).map(|(p, t)| format!("{} {t}", p.name())).collect();
        let text = if best.is_empty() { "nothing fits".into() } else { best.join(" · ") };
        terminal.line(&format!("{:>5} devices  {text}", s.devices));
    }
}

fn seconds(t: Seconds) -> Value {
    json!(t.0)
}

/// Everything as JSON: what `--json` prints and the page shows.
fn report(model: &str, cluster: &Cluster, comparison: &Comparison, scaling: &[Scale]) -> Value {
    let row = |r: &Row| {
        let mut out = json!({
            "strategy": r.preset.name(),
            "executed": r.preset.predicted_only().is_none(),
            "predicted_only": r.preset.predicted_only(),
            "settings_tried": r.settings,
        });
        let more = match &r.outcome {
            Outcome::Fits(f) => json!({
                "fits": true,
                "stages": f.setting.stages,
                "mesh": f.setting.mesh,
                "microbatches": f.setting.microbatches,
                "schedule": f.setting.schedule.name(),
                "chunks": f.setting.schedule.chunks(),
                "recompute": f.setting.recompute.name(),
                "recompute_layers": f.some.map(|s| s.0),
                "setting": words(&f.setting, f.some),
                "step_seconds": seconds(f.step),
                "tokens_per_second_per_device": f.tokens_per_second,
                "mfu": f.mfu,
                "bubble": f.bubble,
                "exposed_communication_seconds": f.parts.communication,
                "parts_seconds": f.parts.named().iter().map(|(n, t)| json!([n, t])).collect::<Vec<_>>(),
                "memory_bytes": f.memory.total() as u64,
                "memory_parts_bytes": [
                    ["parameters, optimizer state, data", f.memory.resident as u64],
                    ["gradients", f.memory.gradients as u64],
                    ["activations", f.memory.saved as u64],
                    ["temporaries", f.memory.transient as u64],
                ],
                "price_per_billion_tokens": f.price,
            }),
            Outcome::TooLarge(need) => json!({
                "fits": false,
                "needs_bytes": need.0,
                "over_bytes": need.0.saturating_sub(comparison.capacity.0),
                "why": too_large(*need, comparison.capacity),
            }),
            Outcome::Impossible(d) => json!({ "fits": false, "code": d.code, "why": d.message, "help": d.help }),
        };
        if let (Some(out), Value::Object(more)) = (out.as_object_mut(), more) {
            out.extend(more);
        }
        out
    };
    json!({
        "model": model,
        "cluster": cluster.name,
        "devices": cluster.devices(),
        "nodes": cluster.nodes,
        "device": cluster.device.name,
        "capacity_bytes": comparison.capacity.0,
        "price_per_hour": cluster.price_per_hour(),
        "batch": comparison.work.batch,
        "tokens": comparison.work.tokens,
        "unit": if comparison.work.has_positions { "token" } else { "example" },
        "flops": comparison.work.flops,
        "rows": comparison.rows.iter().map(row).collect::<Vec<_>>(),
        "scaling": scaling
            .iter()
            .map(|s| json!({
                "nodes": s.nodes,
                "devices": s.devices,
                "steps_seconds": s.steps.iter().map(|(p, t)| (p.name().to_string(), seconds(*t))).collect::<serde_json::Map<_, _>>(),
            }))
            .collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::program::ScheduleKind;

    #[test]
    fn settings_and_rates_read_well() {
        let setting = Setting { stages: 4, mesh: vec![2, 8], microbatches: 16, schedule: ScheduleKind::OneFOneB, recompute: Recompute::Full };
        assert_eq!(words(&setting, None), "4 stages · mesh 2x8 · 16 microbatches · recompute full");
        assert!(words(&setting, Some((9, Recompute::None))).ends_with(" · recompute full in 9 layers, none in others"));
        assert_eq!([rate(12.345), rate(123.0), rate(4210.4), rate(1_234_567.0)], ["12.3", "123", "4,210", "1,234,567"]);
    }
}
