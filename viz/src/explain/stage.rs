//! Why a stage is what it is: what it holds, where else its cut could be and what decided, its memory, and the other settings.

use super::duration;
use crate::depth;
use crate::model::round;
use ir::plan::{CutAlternative, Plan, StagePlan};
use ir::{Bytes, Seconds};
use serde::Serialize;
use std::fmt::Write as _;

/// Settings that are told beside the one taken.
const SETTINGS: usize = 8;

/// Everything a plan says about one stage.
#[derive(Clone, Debug, Serialize)]
pub struct StageExplanation {
    /// `stage 2`.
    pub name: String,
    /// Its number.
    pub stage: u32,
    /// Its layers of the model: first and one past the last.
    pub layers: (u32, u32),
    /// The same in words.
    pub holds: String,
    /// Its mesh.
    pub mesh: String,
    /// How many devices.
    pub devices: u32,
    /// Seconds before, forward, backward, after.
    pub times: [f64; 4],
    /// Whether no stage takes longer for a microbatch, so that it sets the pace.
    pub slowest: bool,
    /// Bytes of a device, and the limit.
    pub memory: (u64, u64),
    /// Bytes by kind at the peak.
    pub at_peak: Vec<(String, u64)>,
    /// Where the cut before it could be.
    pub cut: Vec<CutExplanation>,
    /// What decided the cut.
    pub decided: String,
    /// Other settings of stages, mesh and microbatches, best first.
    pub settings: Vec<SettingExplanation>,
    /// How its sharding problem was solved.
    pub solve: String,
    /// The stage that the same layers' shardings are told with, where it has no decisions of its own.
    pub sharded_as: Option<u32>,
}

/// A place of the cut.
#[derive(Clone, Debug, Serialize)]
pub struct CutExplanation {
    /// The layer of the model that the stage would begin with.
    pub layer: u32,
    /// Its name.
    pub name: String,
    /// Predicted step.
    pub step: f64,
    /// Time of a microbatch on the slower of the two stages.
    pub slower: f64,
    /// What crosses the cut, per microbatch.
    pub crossing: f64,
    /// Bytes of the larger of the two, where estimated.
    pub memory: Option<u64>,
    /// `taken`, or why not.
    pub verdict: String,
}

/// A setting.
#[derive(Clone, Debug, Serialize)]
pub struct SettingExplanation {
    /// Stages.
    pub stages: u32,
    /// Mesh of a stage.
    pub mesh: Vec<u32>,
    /// Microbatches.
    pub microbatches: u32,
    /// What the backward computes again.
    pub recompute: &'static str,
    /// Predicted step.
    pub step: Option<f64>,
    /// Bytes of a device.
    pub memory: Option<u64>,
    /// `taken`, or why not.
    pub verdict: String,
}

/// Explains a stage that the plan has.
pub(super) fn stage(plan: &Plan, number: u32, stage: &StagePlan) -> StageExplanation {
    let names = depth::names(plan);
    let micro = |s: &StagePlan| s.times.forward.0 + s.times.backward.0;
    let slowest = plan.stages.iter().map(micro).fold(0.0, f64::max);
    let t = &stage.times;
    let cut = |c: &CutAlternative| CutExplanation {
        layer: c.layer,
        name: names.get(c.layer as usize).cloned().unwrap_or_default(),
        step: round(c.step.0),
        slower: round(c.slower.0),
        crossing: round(c.crossing.0),
        memory: c.memory.map(|m| m.0),
        verdict: c.verdict.clone(),
    };
    let settings = plan.alternatives.iter().take(SETTINGS).map(|a| SettingExplanation {
        stages: a.stages,
        mesh: a.mesh.clone(),
        microbatches: a.microbatches,
        recompute: a.recompute.name(),
        step: a.step.map(|s| round(s.0)),
        memory: a.memory.map(|m| m.0),
        verdict: a.verdict.clone(),
    });
    let sharded_as = || {
        let own = plan.layer_of_model(stage.layers.0);
        let holds = |s: &StagePlan| (s.layers.0..s.layers.1).any(|l| plan.layer_of_model(l) == own);
        plan.stages.iter().position(|s| !s.decisions.is_empty() && s.mesh == stage.mesh && holds(s)).map(|s| s as u32)
    };
    StageExplanation {
        name: format!("stage {number}"),
        stage: number,
        layers: stage.layers,
        holds: depth::holds(plan, stage.layers),
        mesh: stage.mesh.to_string(),
        devices: stage.devices.len() as u32,
        times: [t.before, t.forward, t.backward, t.after].map(|s| round(s.0)),
        slowest: plan.stages.len() > 1 && micro(stage) >= slowest * (1.0 - 1e-9),
        memory: (stage.memory.arena.0, stage.memory.limit.0),
        at_peak: stage.memory.at_peak.iter().map(|(k, b)| (k.clone(), b.0)).collect(),
        cut: stage.cut.iter().map(cut).collect(),
        decided: decided(plan, number, stage),
        settings: settings.collect(),
        solve: super::solved(&stage.solve),
        sharded_as: if stage.decisions.is_empty() { sharded_as() } else { None },
    }
}

/// What decided a stage's cut, in a sentence.
fn decided(plan: &Plan, number: u32, stage: &StagePlan) -> String {
    if number == 0 {
        return if plan.stages.len() == 1 {
            "there is one stage: it holds every layer".into()
        } else {
            "it is the first stage: it begins with the first layer".into()
        };
    }
    let Some(taken) = stage.cut.iter().position(|c| c.layer == stage.layers.0) else {
        return "where else it could be was not recorded".into();
    };
    let (step, pace) = (stage.cut[taken].step.0, stage.cut[taken].slower.0);
    let side = |c: Option<&CutAlternative>, word: &str| {
        let Some(c) = c else { return format!("it cannot be one layer {word}: a stage has at least one layer") };
        let over = c.memory.filter(|&m| m > stage.memory.limit && stage.memory.limit.0 > 0);
        let pace = if c.slower.0 > pace * (1.0 + 1e-9) {
            format!("the slower of the two stages would take {} more a microbatch", Seconds(c.slower.0 - pace))
        } else {
            "more would cross".into()
        };
        match over {
            Some(m) => format!("one layer {word} a device would need {m} of {}", stage.memory.limit),
            None if c.step.0 > step * (1.0 + 1e-9) => format!("one layer {word} the step would be {} longer", Seconds(c.step.0 - step)),
            None if c.step.0 < step * (1.0 - 1e-9) => {
                format!("one layer {word} the step would be {} shorter as stages are simulated, but {pace}", Seconds(step - c.step.0))
            }
            None => format!("one layer {word} the step would be as long, but {pace}"),
        }
    };
    let (earlier, later) = (taken.checked_sub(1).and_then(|i| stage.cut.get(i)), stage.cut.get(taken + 1));
    let memory =
        [earlier, later].into_iter().flatten().any(|c| c.memory.is_some_and(|m| m > stage.memory.limit && stage.memory.limit.0 > 0) && c.step.0 < step);
    format!("{}: {}; {}", if memory { "memory" } else { "cost" }, side(earlier, "earlier"), side(later, "later"))
}

/// As text.
pub(super) fn render(e: &StageExplanation) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}  layers {} to {} of the model: {}", e.name, e.layers.0, e.layers.1.saturating_sub(1), e.holds);
    let _ = writeln!(out, "mesh {}, {} devices", e.mesh, e.devices);
    let [before, forward, backward, after] = e.times.map(duration);
    let pace = if e.slowest { "; no stage takes longer" } else { "" };
    let _ = writeln!(out, "a microbatch: forward {forward}, backward {backward}{pace}; once a step: before {before}, update {after}");
    let kinds: Vec<String> = e.at_peak.iter().map(|(k, b)| format!("{k} {}", Bytes(*b))).collect();
    let _ = writeln!(
        out,
        "memory of a device: {} of {}{}",
        Bytes(e.memory.0),
        Bytes(e.memory.1),
        if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) }
    );
    let _ = writeln!(out, "solved: {}", e.solve);
    if let Some(s) = e.sharded_as {
        let _ = writeln!(out, "its layers are sharded as in stage {s}");
    }
    let _ = writeln!(out, "\nwhat decided the cut before it: {}", e.decided);
    if !e.cut.is_empty() {
        let name = e.cut.iter().map(|c| c.name.chars().count()).max().unwrap_or(0).max(11);
        let _ =
            writeln!(out, "    {:>5}  {:name$}  {:>10}  {:>12}  {:>10}  {:>11}  verdict", "layer", "begins with", "step", "slower stage", "crosses", "memory");
        for c in &e.cut {
            let memory = c.memory.map_or_else(|| "–".into(), |m| Bytes(m).to_string());
            let _ = writeln!(
                out,
                "  {} {:>5}  {:name$}  {:>10}  {:>12}  {:>10}  {memory:>11}  {}",
                if c.verdict == "taken" { "▸" } else { " " },
                c.layer,
                c.name,
                duration(c.step),
                duration(c.slower),
                duration(c.crossing),
                c.verdict
            );
        }
    }
    if !e.settings.is_empty() {
        let _ = writeln!(
            out,
            "\nsettings of stages, mesh and microbatches\n    {:>6}  {:>8}  {:>7}  {:>9}  {:>10}  {:>11}  verdict",
            "stages", "mesh", "microb.", "recompute", "step", "memory"
        );
        for s in &e.settings {
            let mesh: Vec<String> = s.mesh.iter().map(u32::to_string).collect();
            let number = |n: u32| if n == 0 { "–".into() } else { n.to_string() };
            let _ = writeln!(
                out,
                "  {} {:>6}  {:>8}  {:>7}  {:>9}  {:>10}  {:>11}  {}",
                if s.verdict == "taken" { "▸" } else { " " },
                number(s.stages),
                mesh.join("x"),
                number(s.microbatches),
                s.recompute,
                s.step.map_or_else(|| "–".into(), duration),
                s.memory.map_or_else(|| "–".into(), |m| Bytes(m).to_string()),
                s.verdict
            );
        }
    }
    out
}
