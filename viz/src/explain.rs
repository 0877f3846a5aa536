//! What the page's details panel shows for one value, op, layer or stage, for the terminal and as JSON.
//!
//! An [`Explained`] is data; [`explain`] renders it. Both say only what the plan says: the candidates the solver had, their costs, and what decided.

mod layer;
mod stage;

use crate::lookup::{self, Lookup, Target};
use crate::model::{pin_of, round};
use crate::sharding_text as text;
use crate::{depth, draw, op_label};
pub use layer::LayerExplanation;
pub use stage::StageExplanation;

use ir::plan::{Decision, Plan, SolveReport, StagePlan};
use ir::{Bytes, Diagnostic, EntityId, OpId, Seconds, Sharding, ValueId};
use serde::Serialize;
use std::fmt::Write as _;

/// What was asked about, explained.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Explained {
    /// A value or an op.
    Value(Explanation),
    /// A layer.
    Layer(LayerExplanation),
    /// A stage.
    Stage(StageExplanation),
}

/// Everything a plan says about one value or op.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// What was found, by the user's name.
    pub name: String,
    /// The op that computes it, or `argument`.
    pub op: String,
    /// The place in the user's file.
    pub place: String,
    /// An argument's role.
    pub role: String,
    /// Layer, stage and phase of the op, in words.
    pub placement: String,
    /// The values it speaks of: the value itself, or the op's results.
    pub values: Vec<ValueExplanation>,
    /// The decisions that its shardings follow from.
    pub decisions: Vec<DecisionExplanation>,
}

/// A value's sharding, per stage that has it.
#[derive(Clone, Debug, Serialize)]
pub struct ValueExplanation {
    /// Its name.
    pub name: String,
    /// Its type.
    pub r#type: String,
    /// Where and how it lies.
    pub shardings: Vec<ShardingExplanation>,
}

/// How a value lies over one stage's mesh.
#[derive(Clone, Debug, Serialize)]
pub struct ShardingExplanation {
    /// The stage.
    pub stage: u32,
    /// Its mesh.
    pub mesh: String,
    /// Shardy's text.
    pub sharding: String,
    /// JAX's text.
    pub partition_spec: String,
    /// In words.
    pub phrase: String,
    /// Shape of a device's block; empty when the sharding does not fit the value.
    pub local_shape: Vec<u64>,
    /// Bytes of a device's block.
    pub local_bytes: u64,
    /// Bytes of the whole value.
    pub bytes: u64,
    /// Per device: its number in the cluster, and from-to of each dimension.
    pub slices: Vec<(u32, Vec<(u64, u64)>)>,
    /// The tiles as characters.
    pub drawing: Vec<String>,
}

/// A decision of the sharding problem.
#[derive(Clone, Debug, Serialize)]
pub struct DecisionExplanation {
    /// The stage.
    pub stage: u32,
    /// The ops that are sharded together.
    pub ops: Vec<String>,
    /// What decided.
    pub reason: String,
    /// The candidates, in the plan's order.
    pub candidates: Vec<CandidateExplanation>,
    /// How the stage's problem was solved.
    pub solve: String,
}

/// A candidate with its costs.
#[derive(Clone, Debug, Serialize)]
pub struct CandidateExplanation {
    /// What it is.
    pub name: String,
    /// Whether it was chosen.
    pub chosen: bool,
    /// The sharding it gives the value asked about, or the decision's first.
    pub sharding: String,
    /// Seconds to compute.
    pub compute: f64,
    /// Seconds of collectives.
    pub communication: f64,
    /// Seconds of reshards around it.
    pub reshard: f64,
    /// Their sum.
    pub total: f64,
    /// Bytes per device.
    pub memory: u64,
    /// Seconds more (or less) than the chosen one.
    pub against_chosen: f64,
    /// What forces it, for `compile`.
    pub pin: Option<String>,
}

/// Explains a value (`%212`, `@f#1/%3`, `result[4]`), an op (`op12`), a layer (`layer 3`, `layers.3`) or a stage (`stage 2`).
///
/// # Errors
/// `E0910` when the plan has nothing of that name; the nearest names are in its help.
pub fn explain(plan: &Plan, name: &str) -> Result<String, Diagnostic> {
    let text = match explanation(plan, name)? {
        Explained::Value(e) => render(&e),
        Explained::Layer(e) => layer::render(&e),
        Explained::Stage(e) => stage::render(&e),
    };
    Ok(text.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect())
}

/// The same as data.
///
/// # Errors
/// `E0910` when the plan has nothing of that name; the nearest names are in its help.
pub fn explanation(plan: &Plan, name: &str) -> Result<Explained, Diagnostic> {
    let lookup = Lookup::new(plan);
    let Some(target) = lookup.find(plan, name) else {
        let near = lookup.near(plan, name);
        let quoted: Vec<String> = near.iter().map(|n| format!("`{n}`")).collect();
        let d = Diagnostic::input("E0910", format!("the plan has no value, op, layer or stage `{name}`"))
            .with_note("values are named as in the model's text (`%212`, `%arg3`, `@f#1/%2`), results by `jax.result_info`, ops as `op12`, layers as `layer 3` or by their name, stages as `stage 2`")
            .with_note(format!("it has layers 0 to {} and stages 0 to {}", depth::layers(plan).saturating_sub(1), plan.stages.len().saturating_sub(1)))
            .with_note("constants and ops that were folded away when the graph was simplified have no name in the plan");
        return Err(if quoted.is_empty() {
            d.with_help("search in the page: `shardwright view PLAN`")
        } else {
            d.with_help(format!("did you mean {}?", quoted.join(" or ")))
        });
    };
    let (op, values) = match target {
        Target::Value(v) => (plan.graph.def_op(v), vec![v]),
        Target::Op(op) => (Some(op), plan.graph.ops.get(op).map_or_else(Vec::new, |o| o.results.clone())),
        Target::Layer(l) => return Ok(Explained::Layer(layer::layer(plan, &lookup, l))),
        Target::Stage(s) => return Ok(Explained::Stage(stage::stage(plan, s, &plan.stages[s as usize]))),
    };
    let mut numbers: Vec<u32> = values.iter().filter_map(|v| lookup.value_groups.get(v.index())).flatten().copied().collect();
    numbers.extend(op.and_then(|o| lookup.op_group.get(o.index()).copied().flatten()));
    numbers.sort_unstable();
    numbers.dedup();
    let decisions = numbers.iter().filter_map(|&g| {
        let (s, d) = *lookup.groups.get(g as usize)?;
        let stage = plan.stages.get(s as usize)?;
        Some(decision(plan, s, stage, stage.decisions.get(d as usize)?, values.first().copied()))
    });
    Ok(Explained::Value(Explanation {
        name: match (target, op) {
            (Target::Op(op), _) => op.to_string(),
            _ => values.first().map_or_else(String::new, |&v| plan.graph.display_name(v)),
        },
        op: op.and_then(|o| plan.graph.ops.get(o)).map_or_else(|| "argument".into(), |o| op_label::op(&o.kind)),
        place: op.map_or_else(String::new, |o| lookup::place(plan, o)),
        role: values.first().map_or_else(String::new, |&v| lookup::role(plan, v)),
        placement: op.map_or_else(String::new, |o| placement(plan, o)),
        decisions: decisions.collect(),
        values: values.iter().map(|&v| value(plan, v)).collect(),
    }))
}

fn solved(solve: &SolveReport) -> String {
    format!("{}, objective {}, lower bound {}, gap {:.2} %", solve.status, solve.objective, solve.bound, solve.gap * 100.0)
}

fn placement(plan: &Plan, op: OpId) -> String {
    let Some(p) = plan.placement.get(op.index()) else { return String::new() };
    let layer = plan.layers.get(p.layer as usize).map_or_else(|| format!("layer {}", p.layer), crate::model::layer_name);
    let phase = match p.phase {
        ir::program::Phase::Backward if p.recomputed => "repeated for the backward, once a microbatch",
        ir::program::Phase::Before => "once before the first microbatch",
        ir::program::Phase::Forward => "forward, once a microbatch",
        ir::program::Phase::Backward => "backward, once a microbatch",
        ir::program::Phase::After => "once after the last microbatch",
    };
    let stands = depth::stands(plan, p.layer);
    format!("{layer}{} · stage {} · {phase}", if stands.is_empty() { stands } else { format!(", which {stands}") }, p.stage.0)
}

fn value(plan: &Plan, v: ValueId) -> ValueExplanation {
    let ty = plan.graph.ty(v);
    let shardings = plan.stages.iter().enumerate().filter_map(|(s, stage)| Some((s, stage, stage.shardings.get(v.index())?.as_ref()?)));
    ValueExplanation {
        name: plan.graph.display_name(v),
        r#type: ty.to_string(),
        shardings: shardings.map(|(s, stage, sharding)| sharding_explanation(ty, s as u32, stage, sharding)).collect(),
    }
}

fn sharding_explanation(ty: &ir::TensorType, number: u32, stage: &StagePlan, sharding: &Sharding) -> ShardingExplanation {
    let mesh = &stage.mesh;
    let fits = text::fits(sharding, mesh, ty.rank());
    let local_shape = if fits { sharding.local_shape(&ty.shape, mesh) } else { Vec::new() };
    let slices = (0..mesh.devices()).filter_map(|d| {
        let slice = text::slice(&ty.shape, sharding, mesh, d)?;
        Some((stage.devices.get(d as usize).copied().unwrap_or(d), slice.iter().map(|&(from, to, _)| (from, to)).collect()))
    });
    ShardingExplanation {
        stage: number,
        mesh: mesh.to_string(),
        sharding: sharding.display(mesh).to_string(),
        partition_spec: text::partition_spec(sharding, mesh),
        phrase: text::phrase(sharding, mesh),
        local_bytes: if fits { local_shape.iter().product::<u64>() * ty.dtype.bytes() } else { 0 },
        local_shape,
        bytes: ty.bytes(),
        slices: slices.collect(),
        drawing: draw::tiles(&ty.shape, sharding, mesh, &stage.devices),
    }
}

fn decision(plan: &Plan, number: u32, stage: &StagePlan, decision: &Decision, about: Option<ValueId>) -> DecisionExplanation {
    let shown = about.and_then(|v| decision.values.iter().position(|&x| x == v)).unwrap_or(0);
    let cost = |c: &ir::plan::Candidate| c.compute.0 + c.communication.0 + c.reshard.0;
    let chosen_cost = decision.candidates.get(decision.chosen as usize).map_or(0.0, cost);
    let candidates = decision.candidates.iter().enumerate().map(|(i, c)| CandidateExplanation {
        name: c.name.clone(),
        chosen: i as u32 == decision.chosen,
        sharding: c.shardings.get(shown).map_or_else(String::new, |s| s.display(&stage.mesh).to_string()),
        compute: round(c.compute.0),
        communication: round(c.communication.0),
        reshard: round(c.reshard.0),
        total: round(cost(c)),
        memory: c.memory.0,
        against_chosen: round(cost(c) - chosen_cost),
        pin: pin_of(plan, decision, &c.shardings, &stage.mesh).filter(|_| i as u32 != decision.chosen),
    });
    let op_name = |o: &OpId| {
        let op = plan.graph.ops.get(*o);
        let result = op.and_then(|x| x.results.first()).filter(|v| plan.graph.values.get(**v).is_some()).map(|&v| plan.graph.display_name(v));
        format!("{} {}", op.map_or_else(|| o.to_string(), |x| op_label::op(&x.kind)), result.unwrap_or_default()).trim_end().to_string()
    };
    DecisionExplanation {
        stage: number,
        ops: decision.ops.iter().map(op_name).collect(),
        reason: decision.reason.clone(),
        candidates: candidates.collect(),
        solve: solved(&stage.solve),
    }
}

fn render(e: &Explanation) -> String {
    let mut out = String::new();
    let head: Vec<&str> = [e.name.as_str(), e.op.as_str(), e.role.as_str(), e.place.as_str()].into_iter().filter(|t| !t.is_empty()).collect();
    let _ = writeln!(out, "{}", head.join("  "));
    if !e.placement.is_empty() {
        let _ = writeln!(out, "{}", e.placement);
    }
    for v in &e.values {
        for s in &v.shardings {
            let _ = writeln!(out, "\n{} {} in stage {}, mesh {}", v.name, v.r#type, s.stage, s.mesh);
            let _ = writeln!(out, "  {}\n  {}\n  {}", s.sharding, s.partition_spec, s.phrase);
            if !s.local_shape.is_empty() || s.local_bytes > 0 {
                let shape: Vec<String> = s.local_shape.iter().map(u64::to_string).collect();
                let _ = writeln!(
                    out,
                    "  a device holds {} of {}{}",
                    Bytes(s.local_bytes),
                    Bytes(s.bytes),
                    if shape.is_empty() { String::new() } else { format!(", a block of {}", shape.join("×")) }
                );
            }
            if !s.drawing.is_empty() {
                let _ = writeln!(out, "\n{}", s.drawing.join("\n"));
            }
        }
        if v.shardings.is_empty() {
            let _ = writeln!(out, "\n{} {}: no stage holds it between kernels (it is computed where it is read, or folded)", v.name, v.r#type);
        }
    }
    for d in &e.decisions {
        render_decision(d, &mut out);
    }
    if e.decisions.is_empty() {
        let _ = writeln!(out, "\nno decision of its own: its sharding follows from what it is computed from");
    }
    out
}

/// A duration; what rounds to nothing is nothing.
fn duration(seconds: f64) -> String {
    if seconds.abs() < 5e-8 { "0 s".into() } else { Seconds(seconds).to_string() }
}

fn render_decision(d: &DecisionExplanation, out: &mut String) {
    let shown: Vec<&str> = d.ops.iter().take(4).map(String::as_str).collect();
    let more = d.ops.len().saturating_sub(shown.len());
    let together = match d.ops.len() {
        0 | 1 => "decided by itself".to_string(),
        _ => format!("decided together: {}{}", shown.join(", "), if more > 0 { format!(" and {more} more") } else { String::new() }),
    };
    let _ = writeln!(out, "\n{together}, in stage {}; what decided: {}", d.stage, d.reason);
    let name = d.candidates.iter().map(|c| c.name.chars().count()).max().unwrap_or(0).max(9);
    let sharding = d.candidates.iter().map(|c| c.sharding.chars().count()).max().unwrap_or(0).max(8);
    let _ = writeln!(
        out,
        "    {:name$}  {:sharding$}  {:>10}  {:>10}  {:>10}  {:>10}  {:>11}  {:>11}",
        "candidate", "sharding", "compute", "comm.", "reshard", "total", "memory", "difference"
    );
    for c in &d.candidates {
        let difference = if c.chosen { "chosen".into() } else { format!("{}{}", if c.against_chosen >= 0.0 { "+" } else { "" }, duration(c.against_chosen)) };
        let _ = writeln!(
            out,
            "  {} {:name$}  {:sharding$}  {:>10}  {:>10}  {:>10}  {:>10}  {:>11}  {difference:>11}",
            if c.chosen { "▸" } else { " " },
            c.name,
            c.sharding,
            duration(c.compute),
            duration(c.communication),
            duration(c.reshard),
            duration(c.total),
            Bytes(c.memory).to_string(),
        );
    }
    let _ = writeln!(out, "  solved: {}", d.solve);
    let runner_up = d.candidates.iter().filter(|c| !c.chosen && c.pin.is_some()).min_by(|a, b| a.total.total_cmp(&b.total));
    if let Some((c, pin)) = runner_up.and_then(|c| Some((c, c.pin.as_ref()?))) {
        let _ = writeln!(out, "  to force {}: {pin}", c.name);
    }
}
