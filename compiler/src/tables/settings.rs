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
    let asked = Request {
        microbatches: request.microbatches.or(Some(1)),
        // Left open, microbatches are those that the order takes.
        schedule: request.schedule.filter(|_| request.microbatches.is_some()),
        ..request.clone()
    };
    stage::settings(cluster, &asked, preset, analysis, canonical, notes)?;
    let devices = cluster.devices();
    let layers = one.depth().len() as u32;
    let mut shapes: BTreeSet<(u32, Vec<u32>)> = stage::settings::shapes(devices, request, preset)?.into_iter().collect();
    if preset.is_free() && request.mesh.is_empty() {
        // Wide meshes have a narrow inner axis.
        shapes = shapes.into_iter().filter(|(_, mesh)| mesh.len() == 1).map(|(s, _)| s).flat_map(|s| free_meshes(devices / s).map(move |m| (s, m))).collect();
    }
    let pieces = request.schedule.map_or(1, |s| s.chunks());
    if request.stages.is_none() && request.mesh.is_empty() && shapes.iter().any(|(s, _)| *s * pieces <= layers) {
        shapes.retain(|(s, _)| *s * pieces <= layers);
    }
    if shapes.iter().all(|(s, _)| *s * pieces > layers) {
        return Err(stage::settings::too_few_layers(request.stages.unwrap_or(devices), pieces, layers).into());
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
            // One stage has nothing to interleave.
            let schedule = if stages == 1 { schedule.base() } else { schedule };
            counts.into_iter().filter(move |&m| schedule.allows(stages, m)).flat_map(move |microbatches| {
                let mesh = mesh.clone();
                modes.clone().into_iter().map(move |recompute| Setting { stages, mesh: mesh.clone(), microbatches, schedule, recompute })
            })
        })
        .collect())
}

/// Meshes of a stage where shardings are free: one axis, or two.
fn free_meshes(devices: u32) -> impl Iterator<Item = Vec<u32>> {
    let inner = (2..devices.min(INNER_MOST + 1)).filter(move |t| devices.is_multiple_of(*t));
    std::iter::once(vec![devices]).chain(inner.map(move |t| vec![devices / t, t]))
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
