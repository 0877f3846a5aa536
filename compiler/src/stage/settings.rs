//! Settings: numbers of stages, meshes of a stage, and microbatches that the request and the cluster leave open.

use crate::batch::phases::Analysis;
use crate::canonical::Canonical;
use crate::shard::presets::Preset;
use cost_model::Cluster;
use ir::diagnostic::{Diagnostic, Result};
use ir::plan::{Recompute, Request};
use ir::program::ScheduleKind;

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Stages.
    pub stages: u32,
    /// Mesh of one stage.
    pub mesh: Vec<u32>,
    /// Microbatches.
    pub microbatches: u32,
    /// Order of microbatches.
    pub schedule: ScheduleKind,
    /// What the backward of every layer computes again.
    pub recompute: Recompute,
}

/// All settings of a request, in a fixed order.
///
/// # Errors
/// `E0402` a mesh or number of stages that does not multiply out, `E0404` microbatches that the step does not allow, `E0419` a pipeline of one stage.
pub fn settings(
    cluster: &Cluster,
    request: &Request,
    preset: Preset,
    analysis: &Analysis,
    canonical: &Canonical,
    notes: &mut Vec<Diagnostic>,
) -> Result<Vec<Setting>> {
    let devices = cluster.devices();
    let shapes = shapes(devices, request, preset)?;
    if preset == Preset::Pipeline && shapes.iter().all(|(stages, _)| *stages == 1) {
        let help =
            if devices == 1 { "take a cluster of more devices, or `--strategy auto`" } else { "ask for more `--stages`, or leave `--strategy pipeline` out" };
        return Err(Diagnostic::input("E0419", "`--strategy pipeline` with one stage is no pipeline").with_help(help).into());
    }
    let schedule = request.schedule.unwrap_or(ScheduleKind::OneFOneB);
    // Left open, nothing is recomputed unless memory does not suffice without (`build`).
    let recompute = request.recompute.unwrap_or(Recompute::None);
    let mut out = Vec::new();
    let mut reason_given = false;
    for (stages, mesh) in shapes {
        let counts = match request.microbatches {
            Some(0) => {
                let d = Diagnostic::input("E0404", "`--microbatches 0`: a step has at least one microbatch");
                return Err(d.with_help("give 1 for the whole batch at once, or leave `--microbatches` out").into());
            }
            Some(m) if analysis.allows(m) => vec![m],
            Some(m) => return Err(refused(m, analysis, canonical).into()),
            // One stage takes microbatches only to save memory.
            None if stages == 1 && request.memory_limit.is_some() => [1, 2, 4, 8].into_iter().filter(|&m| analysis.allows(m)).collect(),
            None if stages == 1 => vec![1],
            None => {
                let mut all: Vec<u32> = [1, 2, 4].iter().map(|k| k * stages).filter(|&m| analysis.allows(m)).collect();
                if all.is_empty() {
                    all = (1..stages).rev().filter(|&m| analysis.allows(m)).take(1).collect();
                }
                all
            }
        };
        if counts == [1] && (stages > 1 || request.microbatches.is_none()) && !analysis.obstacles.is_empty() && !reason_given {
            notes.extend(analysis.obstacles.iter().cloned());
            reason_given = true;
        }
        out.extend(counts.into_iter().map(|microbatches| Setting { stages, mesh: mesh.clone(), microbatches, schedule, recompute }));
    }
    Ok(out)
}

/// Why a number of microbatches is refused.
fn refused(m: u32, analysis: &Analysis, _canonical: &Canonical) -> Diagnostic {
    if let Some(obstacle) = analysis.obstacles.first() {
        let mut d = Diagnostic::input("E0404", format!("`--microbatches {m}`: this step cannot be cut into microbatches without changing its result"))
            .with_note(obstacle.message.clone())
            .with_help("leave `--microbatches` out, or give 1");
        d.span.clone_from(&obstacle.span);
        d.notes.extend(obstacle.notes.clone());
        return d;
    }
    let divisors: Vec<String> = (1..=analysis.batch_size.min(64)).filter(|k| analysis.batch_size.is_multiple_of(*k)).map(|k| k.to_string()).collect();
    Diagnostic::input("E0404", format!("`--microbatches {m}` does not divide the batch of {}", analysis.batch_size))
        .with_help(format!("possible numbers of microbatches: {}", divisors.join(", ")))
}

/// Numbers of stages with the meshes they leave.
fn shapes(devices: u32, request: &Request, preset: Preset) -> Result<Vec<(u32, Vec<u32>)>> {
    let off = |message: String, help: String| Diagnostic::input("E0402", message).with_note("stages × mesh = devices").with_help(help);
    if !request.mesh.is_empty() {
        let of_stage: u64 = request.mesh.iter().map(|&n| u64::from(n)).product();
        let text: Vec<String> = request.mesh.iter().map(ToString::to_string).collect();
        let text = text.join("x");
        if of_stage == 0 {
            return Err(off(format!("`--mesh {text}` has an empty axis"), "give sizes of at least 1".into()).into());
        }
        if of_stage > u64::from(devices) || !devices.is_multiple_of(of_stage as u32) {
            return Err(off(
                format!("`--mesh {text}` is {of_stage} devices, and the cluster has {devices}"),
                format!("give a mesh whose product divides {devices}"),
            )
            .into());
        }
        let stages = request.stages.unwrap_or(devices / of_stage as u32);
        if stages == 0 || u64::from(stages) * of_stage != u64::from(devices) {
            return Err(off(
                format!("{stages} stages of `--mesh {text}` are {} devices, and the cluster has {devices}", u64::from(stages) * of_stage),
                format!("`--stages {}` fits", devices / of_stage as u32),
            )
            .into());
        }
        return Ok(vec![(stages, request.mesh.clone())]);
    }
    let counts = match (request.stages, preset) {
        (Some(s), _) if s == 0 || !devices.is_multiple_of(s) => {
            return Err(off(
                format!("`--stages {s}` does not divide the cluster's {devices} devices"),
                "give a number of stages that divides the devices".into(),
            )
            .into());
        }
        (Some(s), _) => vec![s],
        (None, Preset::Auto) => (1..=devices).filter(|s| devices.is_multiple_of(*s)).collect(),
        (None, Preset::Pipeline) => vec![devices],
        _ => vec![1],
    };
    Ok(counts
        .into_iter()
        .flat_map(|s| {
            let n = devices / s;
            let mut meshes = vec![vec![n]];
            if preset == Preset::Auto {
                meshes.extend((2..n).filter(|a| n.is_multiple_of(*a) && *a <= n / a).map(|a| vec![a, n / a]));
            }
            meshes.into_iter().map(move |m| (s, m))
        })
        .collect())
}
