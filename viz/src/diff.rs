//! What differs between two plans and what it costs, most important first.
//!
//! Values are matched by the user's names, decisions by the first value they have in common, so plans of other meshes and microbatches compare too.
//! Every number is one of the plans' own, or the difference of two.

use crate::depth;
use crate::lookup::Lookup;
use crate::model::{request, round};
use ir::plan::{Candidate, Decision, Plan};
use ir::{Bytes, Mesh, Seconds, Sharding};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::fmt::Write as _;

/// Sharding changes that text shows; JSON has all.
const SHOWN: usize = 20;

/// What differs between two plans.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Whether the plans are the same, byte for byte.
    pub equal: bool,
    /// Predicted step of both.
    pub step: (f64, f64),
    /// Bytes of the fullest device of both.
    pub memory: (u64, u64),
    /// What changed, most important first.
    pub changes: Vec<Change>,
    /// Decisions that both plans have.
    pub compared: u32,
}

/// One difference.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// `model`, `request`, `cluster`, `search`, `setting`, `stage`, `memory`, `sharding` or `program`.
    pub part: &'static str,
    /// What of it.
    pub what: String,
    /// As it is in the first plan.
    pub before: String,
    /// As it is in the second.
    pub after: String,
    /// Seconds that it costs more (or less).
    pub seconds: Option<f64>,
    /// Bytes that it takes more (or less) on a device.
    pub bytes: Option<i64>,
}

fn change(part: &'static str, what: impl Into<String>, before: impl Into<String>, after: impl Into<String>) -> Change {
    Change { part, what: what.into(), before: before.into(), after: after.into(), seconds: None, bytes: None }
}

impl Change {
    fn seconds(mut self, before: f64, after: f64) -> Change {
        self.seconds = Some(round(after - before));
        self
    }
    fn bytes(mut self, before: u64, after: u64) -> Change {
        self.bytes = Some(after as i64 - before as i64);
        self
    }
}

fn fullest(plan: &Plan) -> u64 {
    plan.stages.iter().map(|s| s.memory.arena.0).max().unwrap_or(0)
}

/// Compares two plans.
pub fn difference(a: &Plan, b: &Plan) -> Difference {
    let mut changes = Vec::new();
    let mut compared = 0;
    let equal = a == b;
    if !equal {
        asked(a, b, &mut changes);
        setting(a, b, &mut changes);
        stages(a, b, &mut changes);
        compared = shardings(a, b, &mut changes);
        rest(a, b, &mut changes);
    }
    Difference { equal, step: (round(a.schedule.step.0), round(b.schedule.step.0)), memory: (fullest(a), fullest(b)), changes, compared }
}

/// Model, request, cluster, and how the search ended.
fn asked(a: &Plan, b: &Plan, out: &mut Vec<Change>) {
    let mut differ = |part, what: &str, x: String, y: String| {
        if x != y {
            out.push(change(part, what, x, y));
        }
    };
    differ("model", "file", a.request.model.clone(), b.request.model.clone());
    if a.source != b.source {
        let size = |p: &Plan| p.source.main().map_or_else(String::new, |m| format!("{} ops", m.ops.len()));
        let told = |p: &Plan, other: &Plan| if size(p) == size(other) { format!("{}, others", size(p)) } else { size(p) };
        out.push(change("model", "step", size(a), told(b, a)));
    }
    let (x, y) = (request(a), request(b));
    for (key, value) in &x {
        if !y.contains(&(key.clone(), value.clone())) {
            let single = key != "--pin";
            let other = y.iter().find(|(k, _)| single && k == key).map_or("not given", |o| &o.1);
            out.push(change("request", key, value, other));
        }
    }
    for (key, value) in &y {
        let known = x.contains(&(key.clone(), value.clone())) || key != "--pin" && x.iter().any(|(k, _)| k == key);
        if !known {
            out.push(change("request", key, "not given", value));
        }
    }
    let cluster =
        |p: &Plan| format!("{}: {} × {} {}, {} each", p.cluster.name, p.cluster.nodes, p.cluster.devices_per_node, p.cluster.device, p.cluster.memory);
    if a.cluster != b.cluster || a.request.premises.cluster != b.request.premises.cluster {
        let (x, y) = (cluster(a), cluster(b));
        let y = if x == y { format!("{y}, other figures") } else { y };
        out.push(change("cluster", a.cluster.name.clone(), x, y));
    }
    let ended = |p: &Plan| p.stopped.clone().map_or_else(|| "done".into(), |s| format!("ended by {s}"));
    if a.stopped != b.stopped {
        out.push(change("search", "how it ended", ended(a), ended(b)));
    }
}

fn mesh_text(mesh: &Mesh) -> String {
    let sizes: Vec<String> = mesh.axes.iter().map(|x| x.size.to_string()).collect();
    if sizes.is_empty() { "1".into() } else { sizes.join("x") }
}

/// What layers recompute, each mode once.
fn recomputation(plan: &Plan) -> String {
    let mut modes: Vec<&str> = plan.layers.iter().map(|l| l.recompute.name()).collect();
    modes.sort_unstable();
    modes.dedup();
    modes.join(", ")
}

/// Stages, mesh, microbatches, schedule, recomputation.
fn setting(a: &Plan, b: &Plan, out: &mut Vec<Change>) {
    let meshes = |p: &Plan| {
        let mut list: Vec<String> = p.stages.iter().map(|s| mesh_text(&s.mesh)).collect();
        list.dedup();
        list.join(", ")
    };
    for (what, x, y) in [
        ("stages", a.pipeline_stages().to_string(), b.pipeline_stages().to_string()),
        ("mesh of a stage", meshes(a), meshes(b)),
        ("microbatches", a.schedule.microbatches.to_string(), b.schedule.microbatches.to_string()),
        ("schedule", a.schedule.kind.to_string(), b.schedule.kind.to_string()),
        ("recomputation", recomputation(a), recomputation(b)),
    ] {
        if x != y {
            out.push(change("setting", what, x, y));
        }
    }
}

/// Layers, times and memory of the stages, where there are as many; the bubble.
fn stages(a: &Plan, b: &Plan, out: &mut Vec<Change>) {
    let percent = |x: f64| format!("{:.1} %", 100.0 * x);
    if percent(a.schedule.bubble) != percent(b.schedule.bubble) {
        out.push(change("stage", "idle share", percent(a.schedule.bubble), percent(b.schedule.bubble)));
    }
    if a.stages.len() != b.stages.len() {
        let all = |p: &Plan| {
            let list: Vec<String> = p.stages.iter().take(6).map(|s| depth::holds(p, s.layers)).collect();
            if p.stages.len() > list.len() { format!("{} | …", list.join(" | ")) } else { list.join(" | ") }
        };
        out.push(change("stage", "layers", all(a), all(b)));
        return;
    }
    let mut list = Vec::new();
    for (s, (x, y)) in a.stages.iter().zip(&b.stages).enumerate() {
        if x.layers != y.layers {
            let range = |l: (u32, u32)| format!("{} to {}", l.0, l.1.saturating_sub(1));
            list.push(change("stage", format!("layers of stage {s}"), range(x.layers), range(y.layers)));
        }
        let times = |t: &ir::plan::StageTimes| [("before", t.before), ("forward", t.forward), ("backward", t.backward), ("update", t.after)];
        for ((what, t), (_, u)) in times(&x.times).into_iter().zip(times(&y.times)) {
            if (t.0 - u.0).abs() > 1e-9 + 1e-6 * t.0.abs() {
                list.push(change("stage", format!("{what} of stage {s}"), t.to_string(), u.to_string()).seconds(t.0, u.0));
            }
        }
        if x.memory.arena != y.memory.arena {
            list.push(change("memory", format!("stage {s}"), x.memory.arena.to_string(), y.memory.arena.to_string()).bytes(x.memory.arena.0, y.memory.arena.0));
            let of = |m: &ir::plan::MemoryReport, kind: &str| m.at_peak.iter().find(|k| k.0 == kind).map_or(Bytes(0), |k| k.1);
            let mut kinds: Vec<&str> = x.memory.at_peak.iter().chain(&y.memory.at_peak).map(|k| k.0.as_str()).collect();
            kinds.sort_unstable();
            kinds.dedup();
            for kind in kinds {
                let (m, n) = (of(&x.memory, kind), of(&y.memory, kind));
                if m != n {
                    list.push(change("memory", format!("stage {s}, {kind} at the peak"), m.to_string(), n.to_string()).bytes(m.0, n.0));
                }
            }
        }
    }
    let weight = |c: &Change| (c.part == "memory", c.seconds.is_some(), -c.seconds.unwrap_or(0.0).abs(), -(c.bytes.unwrap_or(0).abs() as f64));
    list.sort_by(|x, y| {
        let (x, y) = (weight(x), weight(y));
        (x.0, x.1).cmp(&(y.0, y.1)).then(x.2.total_cmp(&y.2)).then(x.3.total_cmp(&y.3))
    });
    out.extend(list);
}

fn cost(c: &Candidate) -> f64 {
    c.compute.0 + c.communication.0 + c.reshard.0
}

/// Every value's sharding by name, as text, with the mesh; the stage that computes it comes first.
fn laid<'a>(plan: &'a Plan, name: &str) -> Option<(String, &'a Sharding, &'a Mesh)> {
    let v = plan.graph.value_named(name)?;
    let stage = plan.stages.iter().find(|s| s.shardings.get(v.0 as usize).is_some_and(Option::is_some))?;
    let sharding = stage.shardings[v.0 as usize].as_ref()?;
    Some((sharding.display(&stage.mesh).to_string(), sharding, &stage.mesh))
}

/// Bytes of a device's block of a value.
fn held(plan: &Plan, name: &str, sharding: &Sharding, mesh: &Mesh) -> u64 {
    let Some(ty) = plan.graph.value_named(name).map(|v| plan.graph.ty(v)) else { return 0 };
    if !crate::sharding_text::fits(sharding, mesh, ty.rank()) {
        return 0;
    }
    sharding.local_shape(&ty.shape, mesh).iter().product::<u64>() * ty.dtype.bytes()
}

/// Decisions of both plans that chose otherwise, and arguments that lie otherwise. Returns how many were compared.
fn shardings(a: &Plan, b: &Plan, out: &mut Vec<Change>) -> u32 {
    let decisions = |p: &Plan| -> Vec<(String, usize, usize)> {
        let lookup = Lookup::new(p);
        let named = |&(s, d): &(u32, u32)| {
            let decision = p.stages.get(s as usize)?.decisions.get(d as usize)?;
            let v = decision.values.iter().find(|v| p.graph.values.get(**v).is_some_and(|x| !x.name.is_empty()))?;
            Some((p.graph.display_name(*v), s as usize, d as usize))
        };
        lookup.groups.iter().filter_map(named).collect()
    };
    let mut of_b: FxHashMap<String, (usize, usize)> = FxHashMap::default();
    for (name, s, d) in decisions(b) {
        of_b.entry(name).or_insert((s, d));
    }
    let chosen = |d: &Decision| d.candidates.get(d.chosen as usize).cloned();
    let mut list = Vec::new();
    let mut compared = 0;
    for (name, s, d) in decisions(a) {
        let Some(&(t, e)) = of_b.get(&name) else { continue };
        let (stage_a, stage_b) = (&a.stages[s], &b.stages[t]);
        let (Some(x), Some(y)) = (chosen(&stage_a.decisions[d]), chosen(&stage_b.decisions[e])) else { continue };
        compared += 1;
        let text = |c: &Candidate, mesh: &Mesh| c.shardings.first().map_or_else(String::new, |s| s.display(mesh).to_string());
        let (before, after) = (text(&x, &stage_a.mesh), text(&y, &stage_b.mesh));
        if before == after && x.name == y.name {
            continue;
        }
        let told = |sharding: String, c: &Candidate| format!("{sharding} ({})", c.name);
        list.push(change("sharding", name, told(before, &x), told(after, &y)).seconds(cost(&x), cost(&y)).bytes(x.memory.0, y.memory.0));
    }
    for &v in &a.graph.inputs {
        let name = a.graph.display_name(v);
        let (Some((before, x, m)), Some((after, y, n))) = (laid(a, &name), laid(b, &name)) else { continue };
        compared += 1;
        if before != after {
            let (from, to) = (held(a, &name, x, m), held(b, &name, y, n));
            list.push(change("sharding", name, before, after).bytes(from, to));
        }
    }
    list.sort_by(|x, y| {
        let key = |c: &Change| (-c.seconds.unwrap_or(0.0).abs(), -(c.bytes.unwrap_or(0).abs() as f64));
        let (p, q) = (key(x), key(y));
        p.0.total_cmp(&q.0).then(p.1.total_cmp(&q.1))
    });
    out.extend(list);
    compared
}

/// What is made of it: programs and code.
fn rest(a: &Plan, b: &Plan, out: &mut Vec<Change>) {
    let instructions = |p: &Plan| p.programs.iter().map(|p| p.phases.iter().map(Vec::len).sum::<usize>()).sum::<usize>();
    let code = |p: &Plan| {
        let list: Vec<String> = p.code.iter().map(|c| format!("{} {}, {}", c.target, c.level, Bytes(c.object.len() as u64))).collect();
        if list.is_empty() { "none".into() } else { list.join("; ") }
    };
    for (what, x, y) in [
        ("instructions", instructions(a).to_string(), instructions(b).to_string()),
        ("kernels", a.kernels.len().to_string(), b.kernels.len().to_string()),
        ("code", code(a), code(b)),
        ("compiler", a.compiler.clone(), b.compiler.clone()),
    ] {
        if x != y {
            out.push(change("program", what, x, y));
        }
    }
}

/// `+1.2 ms`, `−3.0 MiB`.
fn signed(negative: bool, text: String) -> String {
    format!("{}{text}", if negative { "−" } else { "+" })
}

fn share(before: f64, after: f64) -> String {
    if before > 0.0 { format!(" ({})", signed(after < before, format!("{:.1} %", 100.0 * (after / before - 1.0).abs()))) } else { String::new() }
}

/// As text; `from` and `to` name the plans.
pub fn render(d: &Difference, from: &str, to: &str) -> String {
    if d.equal {
        return format!("{from} and {to} are equal\n");
    }
    let mut out = String::new();
    let _ = writeln!(out, "{from} → {to}");
    let delta = d.step.1 - d.step.0;
    let more = if delta == 0.0 { "the same".into() } else { signed(delta < 0.0, Seconds(delta.abs()).to_string()) + &share(d.step.0, d.step.1) };
    let _ = writeln!(out, "step    {} → {}  {more}", Seconds(d.step.0), Seconds(d.step.1));
    let (m, n) = d.memory;
    let more = if m == n { "the same".into() } else { signed(n < m, Bytes(m.abs_diff(n)).to_string()) + &share(m as f64, n as f64) };
    let _ = writeln!(out, "memory  {} → {} on the fullest device  {more}", Bytes(m), Bytes(n));
    let mut part = "";
    let mut shown = 0;
    let all = d.changes.iter().filter(|c| c.part == "sharding").count();
    for c in &d.changes {
        if c.part == "sharding" {
            shown += 1;
            if shown == SHOWN + 1 {
                let _ = writeln!(out, "  and {} more; `--json` has all", all - SHOWN);
            }
            if shown > SHOWN {
                continue;
            }
        }
        if c.part != part {
            part = c.part;
            let count = if part == "sharding" { format!(": {all} of {} differ", d.compared) } else { String::new() };
            let _ = writeln!(out, "\n{part}{count}");
        }
        let mut costs = Vec::new();
        if let Some(s) = c.seconds.filter(|s| s.abs() >= 5e-8) {
            costs.push(signed(s < 0.0, Seconds(s.abs()).to_string()));
        }
        if let Some(b) = c.bytes.filter(|&b| b != 0) {
            costs.push(signed(b < 0, Bytes(b.unsigned_abs()).to_string()));
        }
        let costs = if costs.is_empty() { String::new() } else { format!("  {}", costs.join(", ")) };
        let _ = writeln!(out, "  {}: {} → {}{costs}", c.what, c.before, c.after);
    }
    if d.changes.is_empty() {
        let _ = writeln!(out, "\nnothing that is told of a plan differs");
    }
    out.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
