//! Settings: numbers of stages, meshes of a stage, and microbatches that the request and the cluster leave open.

use crate::batch::phases::Analysis;
use crate::canonical::Canonical;
use crate::lower::join::Lane;
use crate::shard::presets::{Preset, Staging};
use cost_model::Cluster;
use ir::diagnostic::{Diagnostic, Result};
use ir::plan::{Recompute, Request};
use ir::program::{ScheduleKind, StageId};

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

impl Setting {
    /// How many pieces the model is cut into: the chunks of all stages.
    pub fn pieces(&self) -> u32 {
        self.stages * self.schedule.chunks()
    }
    /// The stage that holds a piece, in its pipeline.
    pub fn lane(&self, piece: u32) -> Lane {
        Lane { stage: StageId(piece % self.stages), stages: self.stages, schedule: self.schedule, microbatches: self.microbatches }
    }
    /// How many microbatches' activations any chunk of a stage holds at least.
    pub fn least_in_flight(&self, stage: u32) -> u32 {
        (0..self.schedule.chunks()).map(|c| self.in_flight(c * self.stages + stage)).min().unwrap_or(0)
    }
    /// How many microbatches of a piece are between forward and backward at most.
    pub fn in_flight(&self, piece: u32) -> u32 {
        self.lane(piece).in_flight(piece / self.stages)
    }
}

/// Chunks per stage that are tried where the request leaves the schedule open. GPipe is not: its steps take as long as 1F1B's and hold more.
pub const CHUNKS: [u32; 2] = [2, 4];

/// All settings of a request, in a fixed order; those that differ only in the order of microbatches follow one another.
///
/// # Errors
/// `E0402` a mesh or number of stages that does not multiply out, `E0404` microbatches that the step does not allow, `E0419` a pipeline of one stage, `E0430`
/// devices that the strategy cannot arrange.
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
    if matches!(preset.staging(), Staging::Several | Staging::Most) && shapes.iter().all(|(stages, _)| *stages == 1) {
        let name = preset.name();
        let help = match devices {
            1 => "take a cluster of more devices, or `--strategy auto`".into(),
            _ => format!("ask for more `--stages`, or leave `--strategy {name}` out"),
        };
        return Err(Diagnostic::input("E0419", format!("`--strategy {name}` with one stage is no pipeline")).with_help(help).into());
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
        let allowed: Vec<u32> = counts.iter().copied().filter(|&m| schedule.allows(stages, m)).collect();
        if let (true, Some(m)) = (allowed.is_empty(), request.microbatches) {
            return Err(uneven(m, stages, analysis).into());
        }
        let counts = allowed;
        // One stage has nothing to interleave.
        let schedule = if stages == 1 { schedule.base() } else { schedule };
        for microbatches in counts {
            let open = request.schedule.is_none() && preset == Preset::Auto && stages > 1;
            let chunked = CHUNKS.into_iter().map(ScheduleKind::Interleaved).filter(|s| open && s.allows(stages, microbatches));
            let orders = std::iter::once(schedule).chain(chunked);
            out.extend(orders.map(|schedule| Setting { stages, mesh: mesh.clone(), microbatches, schedule, recompute }));
        }
    }
    Ok(out)
}

/// Interleaving passes microbatches on in rounds of as many as there are stages.
fn uneven(m: u32, stages: u32, analysis: &Analysis) -> Diagnostic {
    let possible: Vec<String> = (1..=16).map(|k| k * stages).filter(|&k| analysis.allows(k)).map(|k| k.to_string()).collect();
    Diagnostic::input("E0404", format!("`--microbatches {m}`: an interleaved schedule of {stages} stages takes a multiple of {stages}"))
        .with_help(if possible.is_empty() { "use `--schedule 1f1b`".into() } else { format!("possible numbers of microbatches: {}", possible.join(", ")) })
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
pub(crate) fn shapes(devices: u32, request: &Request, preset: Preset) -> Result<Vec<(u32, Vec<u32>)>> {
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
        preset.roles(&request.mesh)?;
        return Ok(vec![(stages, request.mesh.clone())]);
    }
    let divisors = || (1..=devices).filter(|s| devices.is_multiple_of(*s));
    let counts: Vec<u32> = match (request.stages, preset.staging()) {
        (Some(s), _) if s == 0 || !devices.is_multiple_of(s) => {
            let nearest = divisors().min_by_key(|d| d.abs_diff(s)).unwrap_or(1);
            let message = format!("`--stages {s}` does not divide the cluster's {devices} devices");
            return Err(off(message, format!("`--stages {nearest}` is the nearest number that does")).into());
        }
        (Some(s), _) => vec![s],
        (None, Staging::One) => vec![1],
        (None, Staging::Any) => divisors().collect(),
        (None, Staging::Several) => divisors().filter(|&s| s > 1 || devices == 1).collect(),
        (None, Staging::Most) => vec![devices],
    };
    let shapes: Vec<(u32, Vec<u32>)> = counts
        .iter()
        .flat_map(|&s| {
            let n = devices / s;
            let mut meshes = preset.meshes(n, s);
            if preset.is_free() {
                meshes.extend((2..n).filter(|a| n.is_multiple_of(*a) && *a <= n / a).map(|a| vec![a, n / a]));
            }
            meshes.into_iter().map(move |m| (s, m))
        })
        .collect();
    match counts.first() {
        Some(&s) if shapes.is_empty() => Err(preset.no_mesh(devices / s, s).into()),
        _ => Ok(shapes),
    }
}

/// That so many stages, each of so many chunks, cannot all have a layer.
pub(crate) fn too_few_layers(stages: u32, chunks: u32, layers: u32) -> Diagnostic {
    let pieces = stages.saturating_mul(chunks);
    let (asked, help) = match chunks {
        1 => (format!("{stages} stages are asked for"), format!("`--stages {layers}` or fewer")),
        _ if layers / stages.max(1) >= 2 => {
            (format!("{stages} stages of {chunks} chunks, {pieces} in all, are asked for"), format!("`--chunks {}` or fewer", layers / stages.max(1)))
        }
        _ => (format!("{stages} stages of {chunks} chunks, {pieces} in all, are asked for"), format!("`--stages {}` or fewer", (layers / chunks).max(1))),
    };
    Diagnostic::input("E0403", format!("{asked}, and the model has {layers} layers"))
        .with_note("a layer is a piece of the forward that one value enters and leaves; every stage, and every chunk of one, needs at least one")
        .with_help(help)
}
