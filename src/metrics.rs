//! `run --metrics` and `--tensorboard`: figures of every step, as lines of JSON and as TensorBoard's event files.
//!
//! What is written is whole: a line or record that could not be finished is cut off again, with a warning, and the run goes on.

use crate::run::{element_type, label, number};
use ir::plan::Plan;
use ir::program::Phase;
use ir::{DType, Diagnostic, Result};
use runtime::metrics::{Departure, KINDS, StepFigures, Watch, What, tensorboard};
use runtime::session::RankMemory;
use runtime::{Session, StepReport};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of the JSON lines.
const FORMAT: u32 = 1;

/// A file that grows by whole pieces.
struct Whole {
    path: PathBuf,
    file: File,
    /// Where the last whole piece ends; none for what cannot be cut (a pipe, a device).
    end: Option<u64>,
}

impl Whole {
    fn new(path: &Path, mut file: File) -> std::io::Result<Whole> {
        let end = if file.metadata()?.is_file() { Some(file.seek(SeekFrom::End(0))?) } else { None };
        Ok(Whole { path: path.to_path_buf(), file, end })
    }
    /// Adds a piece, or nothing.
    fn add(&mut self, piece: &[u8]) -> std::io::Result<()> {
        let written = self.file.write_all(piece);
        if let Some(end) = &mut self.end {
            match &written {
                Ok(()) => *end += piece.len() as u64,
                Err(_) => {
                    self.file.set_len(*end)?;
                    self.file.seek(SeekFrom::Start(*end))?;
                }
            }
        }
        written
    }
}

/// Writes the figures of a run's steps.
pub(crate) struct Metrics {
    plan: Arc<Plan>,
    lines: Option<Whole>,
    events: Option<Whole>,
    /// What is to be written before the first step.
    header: bool,
    watch: Option<Watch>,
    work: Work,
    /// Steps that were not written since the last that was.
    failing: bool,
}

impl Metrics {
    /// Opens what is asked for; none when nothing is. `resumed` is the number of steps that were done when the run goes on. Of several processes one writes;
    /// the others only measure.
    ///
    /// # Errors
    /// `E0666` when it cannot be written, `E0667` and `E0668` when the file holds something that is not to be lost.
    pub(crate) fn open(plan: &Arc<Plan>, lines: Option<&Path>, folder: Option<&Path>, resumed: Option<u64>, writes: bool) -> Result<Option<Metrics>> {
        if lines.is_none() && folder.is_none() {
            return Ok(None);
        }
        let lines = lines.filter(|_| writes).map(|path| open_lines(path, resumed)).transpose()?;
        let events = folder.filter(|_| writes).map(|path| open_events(path, resumed)).transpose()?;
        Ok(Some(Metrics { plan: plan.clone(), lines, events, header: true, watch: None, work: Work::of(plan), failing: false }))
    }

    /// Begins to measure, and says what cannot be.
    pub(crate) fn begin(&mut self, session: &mut Session) -> Result<Vec<Diagnostic>> {
        let layout = session.measure()?;
        self.watch = Some(Watch::new(layout));
        let measured = layout.gradients();
        let left_out = self.plan.interface.parameters.len().saturating_sub(measured);
        let mut notes = Vec::new();
        if left_out > 0 {
            let all = self.plan.interface.parameters.len();
            notes.push(Diagnostic::warning(
                "W0672",
                format!("the gradients of {left_out} of {all} parameters cannot be read in this plan; norms leave them out"),
            ));
        }
        notes.extend(self.write_header(session.memory(), measured));
        Ok(notes)
    }

    fn write_header(&mut self, memory: &[RankMemory], measured: usize) -> Option<Diagnostic> {
        if !std::mem::take(&mut self.header) || memory.is_empty() {
            return None;
        }
        let plan = &self.plan;
        let stage_of = |rank: u32| plan.programs.iter().find(|p| (p.first_rank..p.first_rank + p.mesh.devices()).contains(&rank)).map(|p| p.stage.0);
        let ranks = (0u32..)
            .zip(memory)
            .map(|(rank, m)| json!({"rank": rank, "stage": stage_of(rank), "memory_bytes": m.arena + m.overhead + m.snapshot, "arena_bytes": m.arena}));
        let header = json!({
            "kind": "header", "format": FORMAT, "compiler": plan.compiler, "model": plan.request.model, "cluster": plan.cluster.name,
            "device": plan.cluster.device, "begun_unix_seconds": now(), "unit_of_work": self.work.unit(), "work_per_step": self.work.items,
            "work_from": self.work.from, "model_flops_per_step": self.work.flops, "peak_flops_per_device": self.work.peak,
            "predicted_step_seconds": plan.schedule.step.0, "gradients_measured": measured, "parameters": plan.interface.parameters.len(),
            "ranks": ranks.collect::<Vec<_>>(),
        });
        self.write(&header, None, 0)
    }

    /// Writes a step's figures; what is told is a rank that departs, and what could not be written.
    pub(crate) fn step(&mut self, session: &mut Session, report: &StepReport) -> Result<Vec<Diagnostic>> {
        let Some(figures) = session.measured()? else { return Ok(Vec::new()) };
        let departures = self.watch.as_mut().map(|w| w.step(&figures)).unwrap_or_default();
        let mut notes: Vec<Diagnostic> = departures.iter().filter(|d| d.begins).map(|d| tell(d, report.step)).collect();
        let value = self.object(report, &figures, &departures);
        let memory: u64 = session.memory().iter().map(|m| (m.arena + m.overhead + m.snapshot) as u64).max().unwrap_or(0);
        let scalars = scalars(&value, &figures, memory as f64);
        notes.extend(self.write(&value, Some(&scalars), report.step));
        Ok(notes)
    }

    fn object(&self, report: &StepReport, figures: &StepFigures, departures: &[Departure]) -> Value {
        let name = |i: u32, name: &str| label(self.plan.interface.loss == Some(i), name).to_string();
        let results: Map<String, Value> = report.scalars.iter().map(|(i, n, v)| (name(*i, n), number(element_type(&self.plan, *i), *v))).collect();
        let loss = report.scalars.iter().find(|s| self.plan.interface.loss == Some(s.0)).map(|s| number(element_type(&self.plan, s.0), s.2));
        let per_second = |x: f64| x / report.seconds;
        let flops = self.work.flops.map(per_second);
        let devices = figures.ranks.len() as f64;
        let second = |ns: u64| ns as f64 / 1e9;
        let ranks = (0u32..).zip(&figures.ranks).zip(&figures.norms).map(|((rank, r), norm)| {
            let kinds = KINDS.iter().zip(&r.communication).filter(|(_, (count, _))| *count > 0);
            let communication: Map<String, Value> = kinds.map(|(k, (count, ns))| (k.to_string(), json!({"count": count, "seconds": second(*ns)}))).collect();
            json!({
                "rank": rank, "seconds": second(r.step), "computing_seconds": second(r.computing()), "communication_seconds": second(r.communicating()),
                "waiting_seconds": second(r.waiting), "measuring_seconds": second(r.measuring), "communication": communication, "gradient_norm": norm,
            })
        });
        let unit = self.work.unit();
        let mut value = json!({
            "kind": "step", "step": report.step, "unix_seconds": now(), "loss": loss, "results": results, "seconds": report.seconds,
            "model_flops_per_second": flops, "mfu": flops.zip(self.work.peak).map(|(f, peak)| f / (peak * devices)),
            "gradient_norm": figures.norm, "ranks": ranks.collect::<Vec<_>>(),
            "departures": departures.iter().map(|d| json!({
                "rank": d.rank, "what": d.what.name(), "value": figure(d, d.value), "usual": figure(d, d.usual), "peers": d.peers, "begins": d.begins,
            })).collect::<Vec<_>>(),
        });
        if let Some(items) = self.work.items {
            value[format!("{unit}_per_second")] = json!(per_second(items as f64));
        }
        value
    }

    /// Writes to all files; a warning for the first of several failures.
    fn write(&mut self, value: &Value, scalars: Option<&BTreeMap<String, f64>>, step: u64) -> Option<Diagnostic> {
        let mut failed = None;
        let mut add = |to: &mut Option<Whole>, piece: &[u8]| {
            if let Some(to) = to
                && let Err(e) = to.add(piece)
            {
                failed = Some(format!("{}: {e}", to.path.display()));
            }
        };
        add(&mut self.lines, format!("{value}\n").as_bytes());
        if let Some(scalars) = scalars {
            add(&mut self.events, &tensorboard::scalars(now(), step, scalars.iter().map(|(k, v)| (k.as_str(), *v))));
        }
        let began = failed.is_some() && !self.failing;
        self.failing = failed.is_some();
        let reason = failed.filter(|_| began)?;
        let what = if scalars.is_some() { format!("the metrics of step {step}") } else { "the header of the metrics".to_string() };
        Some(Diagnostic::warning("W0671", format!("{what} could not be written: {reason}")).with_note("what was written before is whole; the run goes on"))
    }
}

/// Scalars for TensorBoard.
fn scalars(value: &Value, figures: &StepFigures, memory: f64) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::from([("memory/largest_rank_bytes".to_string(), memory)]);
    let mut add = |tag: String, v: Option<f64>| {
        if let Some(v) = v {
            all.insert(tag, v);
        }
    };
    for (name, v) in value["results"].as_object().into_iter().flatten() {
        // What is not finite has no number in JSON, and has one here.
        add(format!("results/{name}"), Some(v.as_f64().unwrap_or(f64::NAN)));
    }
    add("loss".into(), value.get("loss").filter(|v| !v.is_null()).and_then(Value::as_f64));
    for key in ["seconds", "tokens_per_second", "examples_per_second", "model_flops_per_second", "mfu"] {
        add(format!("step/{key}"), value[key].as_f64());
    }
    add("gradient_norm/all".into(), figures.norm);
    for (rank, (r, norm)) in figures.ranks.iter().zip(&figures.norms).enumerate() {
        add(format!("gradient_norm/rank_{rank}"), *norm);
        add(format!("computing_seconds/rank_{rank}"), Some(r.computing() as f64 / 1e9));
        add(format!("communication_seconds/rank_{rank}"), Some(r.communicating() as f64 / 1e9));
        add(format!("waiting_seconds/rank_{rank}"), Some(r.waiting as f64 / 1e9));
    }
    all
}

/// A departure's figure as files have it: seconds, or a norm.
fn figure(d: &Departure, value: f64) -> f64 {
    if d.what == What::Computing { value / 1e9 } else { value }
}

fn tell(d: &Departure, step: u64) -> Diagnostic {
    let peers: Vec<String> = d.peers.iter().take(8).map(u32::to_string).collect();
    let more = if d.peers.len() > 8 { ", …" } else { "" };
    let peers = format!("rank{} {}{more}", if d.peers.len() > 1 { "s" } else { "" }, peers.join(", "));
    let text = match d.what {
        What::Computing => format!("it computes {:.1} ms a step, {peers} {:.1} ms ({:.1} times)", d.value / 1e6, d.usual / 1e6, d.value / d.usual),
        What::GradientNorm => format!("the norm of its gradients is {:e}; beside {peers} {:e} is usual ({:.1} times)", d.value, d.usual, d.value / d.usual),
        What::GradientCopy => format!("its copy of a gradient is not that of {peers}, bit for bit (norms {:e} and {:e})", d.value, d.usual),
    };
    Diagnostic::warning("W0670", format!("rank {} departs from its peers in step {step}: {text}", d.rank))
}

/// What a step does, as the plan tells.
struct Work {
    /// Tokens or examples of a step.
    items: Option<u64>,
    tokens: bool,
    /// Which argument tells.
    from: Option<String>,
    /// FLOPs of the model's products and attentions; nothing that is recomputed.
    flops: Option<f64>,
    /// What a device could do at best; none where the plan does not know it for what is multiplied.
    peak: Option<f64>,
}

impl Work {
    fn of(plan: &Plan) -> Work {
        let source = plan.source.main();
        let batch = plan.interface.batch.iter().filter_map(|(i, dim)| {
            let graph = source?;
            Some((*i, graph.ty(*graph.inputs.get(*i as usize)?), (*dim)?))
        });
        let batch: Vec<_> = batch.collect();
        let tokens = batch.iter().filter(|(_, ty, _)| ty.dtype.is_integer() && ty.rank() > 1).max_by_key(|(i, ty, _)| (ty.elements(), std::cmp::Reverse(*i)));
        let described = |i: u32, shape: &[u64]| format!("arg{i}, {}", shape.iter().map(u64::to_string).collect::<Vec<_>>().join("×"));
        let (items, from) = match (tokens, batch.first()) {
            (Some((i, ty, _)), _) => (Some(ty.elements()), Some(described(*i, &ty.shape))),
            (None, Some((i, ty, dim))) => (ty.shape.get(*dim as usize).copied(), Some(described(*i, &ty.shape))),
            (None, None) => (None, None),
        };
        let mut flops = 0.0;
        let mut types: Vec<DType> = Vec::new();
        for ((_, op), place) in plan.graph.ops.iter().zip(&plan.placement) {
            if place.recomputed {
                continue;
            }
            let Some((f, dtype)) = compiler::compare::product_flops(&plan.graph, op) else { continue };
            let times = if matches!(place.phase, Phase::Forward | Phase::Backward) { f64::from(plan.schedule.microbatches.max(1)) } else { 1.0 };
            flops += f * times;
            types.push(dtype);
        }
        let known = !types.is_empty() && types.iter().all(|t| *t == DType::F32) && plan.cluster.peak_flops > 0.0;
        Work { items, tokens: tokens.is_some(), from, flops: (flops > 0.0).then_some(flops), peak: known.then_some(plan.cluster.peak_flops) }
    }
    fn unit(&self) -> &'static str {
        if self.tokens { "tokens" } else { "examples" }
    }
}

fn refused(path: &Path, e: &dyn std::fmt::Display) -> Diagnostic {
    Diagnostic::input("E0666", format!("metrics cannot be written to {}: {e}", path.display()))
}

/// Opens the file of lines: new, or to go on where the run does.
fn open_lines(path: &Path, resumed: Option<u64>) -> Result<Whole> {
    let failed = |e: std::io::Error| ir::Diagnostics::from(refused(path, &e));
    let there = std::fs::metadata(path).ok().filter(|m| m.is_file() && m.len() > 0);
    let keep = match (there, resumed) {
        (None, _) => None,
        (Some(_), None) => {
            let d = Diagnostic::input("E0667", format!("{} holds something already, and this run begins anew", path.display()));
            return Err(d.with_help("name another file, remove it, or go on with `--resume`").into());
        }
        (Some(_), Some(step)) => Some(whole_lines(path, step)?),
    };
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(failed)?;
    if let Some(keep) = keep {
        file.set_len(keep).map_err(failed)?;
    }
    Whole::new(path, file).map_err(failed)
}

/// How many bytes of a file are lines of the steps before `step`, all of them whole.
fn whole_lines(path: &Path, step: u64) -> Result<u64> {
    let bytes = std::fs::read(path).map_err(|e| refused(path, &e))?;
    let mut keep = 0;
    for (n, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let value: Option<Value> = line.strip_suffix(b"\n").and_then(|l| serde_json::from_slice(l).ok());
        let kind = value.as_ref().and_then(|v| v["kind"].as_str());
        if n == 0 && kind != Some("header") {
            return Err(Diagnostic::input("E0668", format!("{} holds no metrics: its first line is no header", path.display())).into());
        }
        let before = value.as_ref().is_some_and(|v| v["step"].as_u64().is_none_or(|s| s < step));
        if kind.is_none() || !before {
            break;
        }
        keep += line.len() as u64;
    }
    Ok(keep)
}

/// Begins an event file of its own in the folder.
fn open_events(folder: &Path, resumed: Option<u64>) -> Result<Whole> {
    let failed = |e: std::io::Error| ir::Diagnostics::from(refused(folder, &e));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().map(|c| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' }).collect();
    let (seconds, process) = (now() as u64, std::process::id());
    let path = folder.join(format!("events.out.tfevents.{seconds:010}.{}.{process}.0", if host.is_empty() { "localhost" } else { &host }));
    let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
    let mut events = Whole::new(&path, file).map_err(failed)?;
    events.add(&tensorboard::version(now())).map_err(failed)?;
    if let Some(step) = resumed {
        events.add(&tensorboard::started(now(), step)).map_err(failed)?;
    }
    Ok(events)
}

#[expect(clippy::disallowed_methods, reason = "records of TensorBoard and lines of metrics are dated")]
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}
