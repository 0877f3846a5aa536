//! `judge FILE.csv …`: predicts every published measurement whose configuration is complete, and says how far the predictions are from it.
//!
//! A row's columns become a configuration, a cluster, a framework and a setting by the rules of `row` and `machine`, which know no row and no file.

mod machine;
mod row;
mod statistics;
mod table;

use crate::diagnostics::Terminal;
use crate::predict::model;
use compiler::predict::{self, Framework, Model, Prediction, Preparation};
use compiler::tables::entry::Prepared;
use ir::{Diagnostic, Result};
use row::Case;
use serde_json::{Value, json};
use statistics::{Errors, Group};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use table::Table;

/// Judge predictions by published measurements.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files with one measurement a row, in the header of the published data.
    #[arg(required = true, value_name = "FILE.csv")]
    files: Vec<PathBuf>,
    /// List the rows.
    #[arg(long)]
    rows: bool,
    /// A parameter of a framework set to something else: `FRAMEWORK.KEY=VALUE`. Repeatable.
    #[arg(long, value_name = "FRAMEWORK.KEY=VALUE")]
    assume: Vec<String>,
}

/// A step that several rows share, by what it was traced for.
type Known = BTreeMap<String, (Model, BTreeMap<Preparation, Prepared>)>;

/// One row with what was predicted for it.
struct Judged {
    case: Case,
    prediction: Prediction,
}

/// `judge`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    let mut frameworks = Framework::all();
    for text in &args.assume {
        crate::predict::assume(text, &mut frameworks)?;
    }
    let tables = args.files.iter().map(|path| Table::read(path)).collect::<Result<Vec<_>>>()?;
    for table in &tables {
        judge(table, args.rows, &frameworks, terminal)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn judge(table: &Table, rows: bool, frameworks: &[Framework], terminal: &Terminal) -> Result<()> {
    let mut skipped: BTreeMap<String, u32> = BTreeMap::new();
    let mut cases: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    let mut total = 0;
    for r in table.rows() {
        total += 1;
        match Case::new(&r, frameworks) {
            Ok(case) => cases.entry(case.key()).or_default().push(case),
            Err(why) => *skipped.entry(why).or_default() += 1,
        }
    }
    // Rows that share a traced step are done together, so that only one is held at a time.
    let queue: Mutex<Vec<Vec<Case>>> = Mutex::new(cases.into_values().collect());
    let found: Mutex<(Vec<Judged>, BTreeMap<String, u32>)> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some(group) = queue.lock().expect("invariant: no thread panics with the lock").pop() else { break };
                    let mut known: Known = BTreeMap::new();
                    for case in group {
                        let outcome = predicted(&case, &mut known);
                        let mut found = found.lock().expect("invariant: no thread panics with the lock");
                        match outcome {
                            Ok(prediction) => found.0.push(Judged { case, prediction }),
                            Err(d) => *found.1.entry(d.0.first().map_or_else(String::new, |d| d.message.clone())).or_default() += 1,
                        }
                    }
                }
            });
        }
    });
    let (mut judged, refused) = found.into_inner().expect("invariant: all threads have ended");
    for (why, n) in refused {
        *skipped.entry(why).or_default() += n;
    }
    judged.sort_by(|a, b| a.case.id.cmp(&b.case.id));
    report(table, total, &judged, &skipped, rows, terminal);
    Ok(())
}

/// Threads; the answer does not depend on it.
const THREADS: usize = 2;

fn predicted(case: &Case, known: &mut Known) -> Result<Prediction> {
    case.setting.check(&model::limits(&case.config, case.sequence), None)?;
    let key = case.key();
    if !known.contains_key(&key) {
        let model = model::traced(&case.config, case.sequence, case.precision, case.setting.traced_batch(&case.framework))?;
        known.insert(key.clone(), (model, BTreeMap::new()));
    }
    let (model, prepared) = known.get_mut(&key).ok_or_else(|| Diagnostic::outcome("E0503", "a traced step was lost"))?;
    let kind = case.setting.preparation(&case.framework);
    let prepared = match prepared.entry(kind) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(model.prepare(kind)?),
    };
    let solved = predict::solve(model, prepared, &case.setting, &case.cluster, &case.framework)?;
    predict::assemble::assemble(model, &solved, &case.setting, &case.cluster, &case.framework)
}

impl Judged {
    /// Measured seconds of a step.
    fn measured(&self) -> Option<f64> {
        self.case.measured(&self.prediction)
    }
    /// Predicted over measured time, less one.
    fn error(&self) -> Option<f64> {
        self.measured().map(|m| self.prediction.step.0 / m - 1.0)
    }
    fn memory(&self) -> f64 {
        self.case.memory_of(&self.prediction)
    }
    fn memory_error(&self) -> Option<f64> {
        self.case.memory.map(|m| self.memory() / m - 1.0)
    }
    /// Whether the verdict on memory is right, where one is known.
    fn verdict(&self) -> Option<bool> {
        (self.case.out_of_memory.is_some() || self.case.memory.is_some()).then(|| self.prediction.fits() != self.case.out_of_memory.unwrap_or(false))
    }
}

fn report(table: &Table, total: usize, judged: &[Judged], skipped: &BTreeMap<String, u32>, rows: bool, terminal: &Terminal) {
    let time = Errors::of(judged.iter().filter_map(Judged::error));
    let memory = Errors::of(judged.iter().filter_map(Judged::memory_error));
    let mut groups: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for j in judged {
        if let Some(measured) = j.measured() {
            let batch = j.case.setting.global_batch as f64;
            groups.entry(j.case.group.clone()).or_default().push((j.prediction.step.0 / batch, measured / batch));
        }
    }
    let groups: Vec<Group> = groups.into_iter().filter(|(_, p)| p.len() >= statistics::SMALLEST_GROUP).map(|(name, p)| Group::of(name, &p)).collect();
    let tau = statistics::pooled(&groups);
    let verdicts: Vec<bool> = judged.iter().filter_map(Judged::verdict).collect();
    let right = verdicts.iter().filter(|v| **v).count();
    if terminal.json() {
        return terminal.object(&json!({
            "file": table.name, "rows": total, "used": judged.len(), "skipped": skipped,
            "time": time.json(), "memory": memory.json(), "tau": tau,
            "groups": groups.iter().map(|g| json!({"group": g.name, "rows": g.rows, "tau": g.tau})).collect::<Vec<_>>(),
            "verdicts": {"known": verdicts.len(), "right": right},
            "cases": if rows { judged.iter().map(row_json).collect() } else { Value::Null },
        }));
    }
    terminal.line(&format!("{}: {} of {total} rows", table.name, judged.len()));
    for (why, n) in skipped {
        terminal.line(&format!("   {n:4} left out: {why}"));
    }
    terminal.line(&format!("   time    {time}{}", tau.map_or_else(String::new, |t| format!(" · tau {t:.2} in {} groups", groups.len()))));
    if memory.count > 0 {
        terminal.line(&format!("   memory  {memory}"));
    }
    if !verdicts.is_empty() {
        terminal.line(&format!("   fits or not: {right} of {} right", verdicts.len()));
    }
    if rows {
        judged.iter().for_each(|j| terminal.line(&row_text(j)));
    }
}

fn row_text(j: &Judged) -> String {
    let p = &j.prediction;
    let percent = |e: Option<f64>| e.map_or_else(|| "      ".into(), |e| format!("{:+6.1}", 100.0 * e));
    let share = |t: ir::Seconds| format!("{:3.0}", 100.0 * t.0 / p.step.0);
    let exposed: Vec<String> = p.bill.exposed.iter().map(|&t| share(t)).collect();
    let b = &p.bill;
    let memory = j.case.memory.map_or_else(String::new, |m| format!(" · {:.1} for {:.1} GiB {} %", j.memory() / GIB, m / GIB, percent(j.memory_error())));
    format!(
        "   {:7} {:>9.4} for {:>9.4} s {} % | products {} attention {} rest {} exposed {} launch {} update {} bubble {} |{memory} {}",
        j.case.id,
        p.step.0,
        j.measured().unwrap_or(f64::NAN),
        percent(j.error()),
        share(b.products),
        share(b.attention),
        share(b.streams),
        exposed.join("/"),
        share(b.launch),
        share(b.update),
        share(b.bubble),
        j.case.describe()
    )
}

const GIB: f64 = (1u64 << 30) as f64;

fn row_json(j: &Judged) -> Value {
    let k = j.prediction.stages.iter().map(|s| s.memory).max_by(|a, b| a.total().total_cmp(&b.total())).unwrap_or_default();
    let b = &j.prediction.bill;
    json!({
        "row": j.case.id, "predicted_seconds": j.prediction.step.0, "measured_seconds": j.measured(), "error": j.error(),
        "predicted_bytes": j.memory(), "measured_bytes": j.case.memory, "memory_error": j.memory_error(), "verdict_right": j.verdict(),
        "fits": j.prediction.fits(), "out_of_memory": j.case.out_of_memory, "setting": j.case.describe(),
        "memory": {"parameters": k.parameters, "optimizer": k.optimizer, "gradients": k.gradients, "activations": k.activations, "temporaries": k.temporaries, "overhead": k.overhead},
        "parts": {"products": b.products.0, "attention": b.attention.0, "elementwise": b.streams.0, "exposed": b.exposed.iter().map(|s| s.0).collect::<Vec<_>>(),
            "launch": b.launch.0, "update": b.update.0, "bubble": b.bubble.0},
    })
}
