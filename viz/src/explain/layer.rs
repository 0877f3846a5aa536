//! Why a layer is where and as it is: its stage, what it costs by phase, what decided its shardings, and the dearest of them with their runners-up.

use super::duration;
use super::stage::{self, StageExplanation};
use crate::depth;
use crate::lookup::Lookup;
use crate::model::round;
use ir::plan::{Candidate, Decision, Plan};
use ir::program::Phase;
use ir::{Bytes, EntityId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Decisions that are told of a layer.
const DEAREST: usize = 10;

/// Everything a plan says about one layer.
#[derive(Clone, Debug, Serialize)]
pub struct LayerExplanation {
    /// Its name in the model.
    pub name: String,
    /// Its number in the model.
    pub layer: u32,
    /// The planned layer that stands for it, and how.
    pub planned: String,
    /// How many layers of the model that one stands for.
    pub stands_for: u32,
    /// Layers of the model that are identical to it, itself among them.
    pub identical: u32,
    /// The stage that holds it.
    pub stage: Option<u32>,
    /// Costs by phase, of all the layers that the planned one stands for: phase, seconds of compute, communication, reshard.
    pub phases: Vec<(String, f64, f64, f64)>,
    /// Bytes per device of what its decisions' results take.
    pub bytes: u64,
    /// What decided, and how often.
    pub reasons: Vec<(String, u32)>,
    /// The dearest decisions.
    pub decisions: Vec<LayerDecision>,
    /// Its stage.
    pub of_stage: Option<StageExplanation>,
}

/// A decision in short.
#[derive(Clone, Debug, Serialize)]
pub struct LayerDecision {
    /// Its first value, to ask `explain` about.
    pub value: String,
    /// What was chosen.
    pub chosen: String,
    /// What that costs.
    pub cost: f64,
    /// The cheapest other candidate.
    pub runner_up: Option<String>,
    /// How much dearer (or cheaper by itself) that is.
    pub difference: Option<f64>,
    /// What decided.
    pub reason: String,
}

fn cost(c: &Candidate) -> f64 {
    c.compute.0 + c.communication.0 + c.reshard.0
}

/// Explains a layer of the model.
pub(super) fn layer(plan: &Plan, lookup: &Lookup, number: u32) -> LayerExplanation {
    let planned = plan.layer_of_model(number);
    let mut phases: BTreeMap<u32, [f64; 3]> = BTreeMap::new();
    let mut reasons: BTreeMap<&str, u32> = BTreeMap::new();
    let mut bytes = 0;
    let mut told: Vec<&Decision> = Vec::new();
    for &(s, d) in &lookup.groups {
        let Some(decision) = plan.stages.get(s as usize).and_then(|s| s.decisions.get(d as usize)) else { continue };
        let place = decision.ops.first().and_then(|o| plan.placement.get(o.index()));
        let Some(place) = place.filter(|p| p.layer == planned) else { continue };
        *reasons.entry(kind(&decision.reason)).or_default() += 1;
        let Some(chosen) = decision.candidates.get(decision.chosen as usize) else { continue };
        let sum = phases.entry(place.phase as u32).or_default();
        for (total, part) in sum.iter_mut().zip([chosen.compute.0, chosen.communication.0, chosen.reshard.0]) {
            *total += part;
        }
        bytes += chosen.memory.0;
        told.push(decision);
    }
    let chosen_cost = |d: &Decision| d.candidates.get(d.chosen as usize).map_or(0.0, cost);
    told.sort_by(|a, b| chosen_cost(b).total_cmp(&chosen_cost(a)));
    let kind_of = |l: u32| plan.layers.get(plan.layer_of_model(l) as usize).map(|x| x.kind);
    let stage = plan.stages.iter().position(|s| (s.layers.0..s.layers.1).contains(&number));
    let phase_name = |p: u32| format!("{:?}", Phase::ALL[p as usize]).to_lowercase();
    let mut reasons: Vec<(String, u32)> = reasons.into_iter().map(|(r, n)| (r.to_string(), n)).collect();
    reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    LayerExplanation {
        name: depth::names(plan).get(number as usize).cloned().unwrap_or_default(),
        layer: number,
        planned: {
            let (name, how) = (plan.layers.get(planned as usize).map_or_else(String::new, |l| l.name.clone()), depth::stands(plan, planned));
            if how.is_empty() { name } else { format!("{name}, which {how}") }
        },
        stands_for: plan.stands_for(planned),
        identical: (0..depth::layers(plan)).filter(|&l| kind_of(l) == kind_of(number)).count() as u32,
        stage: stage.map(|s| s as u32),
        phases: phases.into_iter().map(|(p, [a, b, c])| (phase_name(p), round(a), round(b), round(c))).collect(),
        bytes,
        reasons,
        decisions: told.into_iter().take(DEAREST).map(|d| in_short(plan, d)).collect(),
        of_stage: stage.map(|s| stage::stage(plan, s as u32, &plan.stages[s])),
    }
}

/// A reason without its figures.
fn kind(reason: &str) -> &str {
    reason.split([':', ';']).next().unwrap_or(reason).trim()
}

fn in_short(plan: &Plan, d: &Decision) -> LayerDecision {
    let chosen = d.candidates.get(d.chosen as usize);
    let of_chosen = chosen.map_or(0.0, cost);
    let others = d.candidates.iter().enumerate().filter(|(i, _)| *i as u32 != d.chosen).map(|(_, c)| c);
    let runner_up = others.min_by(|a, b| cost(a).total_cmp(&cost(b)));
    LayerDecision {
        value: d.values.first().filter(|v| plan.graph.values.get(**v).is_some()).map_or_else(String::new, |&v| plan.graph.display_name(v)),
        chosen: chosen.map_or_else(String::new, |c| c.name.clone()),
        cost: round(of_chosen),
        runner_up: runner_up.map(|c| c.name.clone()),
        difference: runner_up.map(|c| round(cost(c) - of_chosen)),
        reason: d.reason.clone(),
    }
}

/// As text.
pub(super) fn render(e: &LayerExplanation) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}  layer {} of the model{}", e.name, e.layer, e.stage.map_or_else(String::new, |s| format!(", in stage {s}")));
    if e.planned != e.name {
        let _ = writeln!(out, "planned as {}", e.planned);
    }
    if e.identical > 1 {
        let _ = writeln!(out, "{} layers of the model are identical", e.identical);
    }
    if !e.phases.is_empty() {
        let all = if e.stands_for > 1 { " of all that it stands for, in a step" } else { " in a step, as the solver counts" };
        let _ = writeln!(out, "\n    {:9}  {:>10}  {:>10}  {:>10}  {all}", "phase", "compute", "comm.", "reshard");
        for (phase, compute, communication, reshard) in &e.phases {
            let _ = writeln!(out, "    {phase:9}  {:>10}  {:>10}  {:>10}", duration(*compute), duration(*communication), duration(*reshard));
        }
    }
    let reasons: Vec<String> = e.reasons.iter().map(|(r, n)| format!("{r} ({n})")).collect();
    if !reasons.is_empty() {
        let _ = writeln!(out, "\nwhat decided its shardings: {}; their results take {} a device", reasons.join(", "), Bytes(e.bytes));
        let value = e.decisions.iter().map(|d| d.value.chars().count()).max().unwrap_or(0).max(5);
        let chosen = e.decisions.iter().map(|d| d.chosen.chars().count()).max().unwrap_or(0).max(6);
        let _ = writeln!(out, "    {:value$}  {:chosen$}  {:>10}  runner-up", "value", "chosen", "cost");
        for d in &e.decisions {
            let other = match (&d.runner_up, d.difference) {
                (Some(name), Some(more)) => format!("{name}, {}{}", if more >= 0.0 { "+" } else { "" }, duration(more)),
                _ => "none".into(),
            };
            let _ = writeln!(out, "    {:value$}  {:chosen$}  {:>10}  {other}; {}", d.value, d.chosen, duration(d.cost), d.reason);
        }
    } else {
        let _ = writeln!(out, "\nno decision of its own: its shardings follow from what it reads");
    }
    if let Some(s) = &e.of_stage {
        let _ = writeln!(out, "\n{}", stage::render(s));
    }
    out
}
