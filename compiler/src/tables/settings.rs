//! Which settings a table search looks at: stages that divide the devices, meshes of one or two axes, microbatches that fill the data axis.

use super::entry::Prepared;
use crate::batch::phases::Analysis;
use crate::canonical::Canonical;
use crate::shard::presets::Preset;
use crate::stage::{self, Setting};
use cost_model::Cluster;
use ir::diagnostic::{Diagnostic, Result};
use ir::plan::{Recompute, Request};
use ir::program::ScheduleKind;
use std::collections::BTreeSet;

/// The inner axis of a mesh has at most so many devices: products are cut along it, and pieces of a 64th of a layer are as small as anyone cuts them.
pub const INNER_MOST: u32 = 64;
/// A device takes at most so many samples a microbatch.
const SAMPLES_MOST: u64 = 64;

/// All settings of a request, in a fixed order.
///
/// # Errors
/// As [`stage::settings`].
pub fn settings(
    cluster: &Cluster,
    request: &Request,
    preset: Preset,
    analysis: &Analysis,
    canonical: &Canonical,
    one: &Prepared,
    notes: &mut Vec<Diagnostic>,
) -> Result<Vec<Setting>> {
    // What the user fixed is checked as for any plan.
    let fixed = stage::settings(cluster, &Request { microbatches: request.microbatches.or(Some(1)), ..request.clone() }, preset, analysis, canonical, notes)?;
    let devices = cluster.devices();
    let layers = one.depth().len() as u32;
    let divisors = |n: u32| (1..=n).filter(move |d| n.is_multiple_of(*d));
    let shapes: BTreeSet<(u32, Vec<u32>)> = if !request.mesh.is_empty() {
        fixed.iter().map(|s| (s.stages, s.mesh.clone())).collect()
    } else {
        let stages: Vec<u32> = match (request.stages, preset) {
            (Some(s), _) => vec![s],
            (None, Preset::Auto) => divisors(devices).filter(|&s| s <= layers).collect(),
            (None, _) => fixed.iter().map(|s| s.stages).collect(),
        };
        stages
            .into_iter()
            .flat_map(|s| {
                let of_stage = devices / s;
                let mut meshes = vec![vec![of_stage]];
                if preset == Preset::Auto {
                    meshes.extend(divisors(of_stage).filter(|&t| t > 1 && t < of_stage && t <= INNER_MOST).map(|t| vec![of_stage / t, t]));
                }
                meshes.into_iter().map(move |m| (s, m))
            })
            .collect()
    };
    if shapes.iter().all(|(s, _)| *s > layers) {
        return Err(Diagnostic::outcome("E0403", format!("{} stages are asked for and the model has {layers} layers", request.stages.unwrap_or(devices)))
            .with_note("a layer is a piece of the forward that one value enters and leaves; every stage needs at least one")
            .with_help(format!("`--stages {layers}` or fewer"))
            .into());
    }
    let schedule = request.schedule.unwrap_or(ScheduleKind::OneFOneB);
    let modes: Vec<Recompute> = request.recompute.map_or_else(|| Recompute::ALL.to_vec(), |m| vec![m]);
    Ok(shapes
        .into_iter()
        .flat_map(|(stages, mesh)| {
            let counts = match request.microbatches {
                Some(m) => vec![m],
                None => microbatches(analysis, &mesh, stages),
            };
            let (mesh, modes) = (mesh.clone(), modes.clone());
            counts.into_iter().flat_map(move |microbatches| {
                let mesh = mesh.clone();
                modes.clone().into_iter().map(move |recompute| Setting { stages, mesh: mesh.clone(), microbatches, schedule, recompute })
            })
        })
        .collect())
}

/// Numbers of microbatches for a mesh: 1, 2, 4, … samples on every position of its outer axis; the most microbatches there can be where samples do not fill it.
fn microbatches(analysis: &Analysis, mesh: &[u32], stages: u32) -> Vec<u32> {
    let data = u64::from(mesh.first().copied().unwrap_or(1));
    let batch = analysis.batch_size;
    let mut out: BTreeSet<u32> = BTreeSet::new();
    let mut samples = 1;
    while samples <= SAMPLES_MOST && data * samples <= batch {
        if batch.is_multiple_of(data * samples) {
            out.insert((batch / (data * samples)) as u32);
        }
        samples *= 2;
    }
    // Fewer samples than positions: the batch is cut less finely, and other dimensions are cut over the rest.
    if out.is_empty() || batch < data {
        out.extend([1, 2, 4, 8].map(|k| k * stages).into_iter().filter(|&m| u64::from(m) <= batch && batch.is_multiple_of(u64::from(m))));
    }
    out.insert(1);
    out.into_iter().filter(|&m| analysis.allows(m)).collect()
}
