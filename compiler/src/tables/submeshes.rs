//! Stages on unlike submeshes: which tables the program of [`unlike`] is given, where all nodes are alike and where they are of several kinds.
//!
//! Where nodes are alike the search's own tables serve, one for each mesh. Where they are not, every mesh has a table for every kind of node that it can lie in, by
//! the prices and the memory of that kind, and another that was solved under the memory of an even share of the layers where the first needs more. A stage lies
//! in nodes of one kind. Invariant: the numbers of microbatches and modes that are tried, and the meshes, are those that did best when all nodes were taken
//! for the weakest kind, in that order, so threads do not change the answer.

use super::attempt::phases;
use super::entry::{Bench, Entry, Prepared, StageLimit, anything};
use super::search::{Effort, Found, Kind, Model, Verdict, kind, parallel};
use super::unlike::{Ground, Submesh, unlike};
use crate::shard::problem::{Node, Space};
use crate::shard::strategy::Context;
use crate::stage::Setting;
use cost_model::{AnalyticModel, Cluster};
use ir::program::{StageId, in_flight};
use ir::{Bytes, Mesh};
use std::collections::BTreeMap;

/// How many numbers of microbatches (with what is recomputed) are tried.
const TRIED: usize = 3;
/// How many meshes have tables for every kind of node.
const MESHES: usize = 6;

/// The tables of a pipeline over unlike submeshes.
#[derive(Clone, Debug)]
pub struct OnSubmeshes {
    /// All tables.
    pub entries: Vec<Entry>,
    /// The kind of nodes that each is for, by number among [`kinds`].
    pub kinds: Vec<u32>,
    /// The table of every stage.
    pub of: Vec<usize>,
}

/// A kind of node: how many there are in a row, what things cost on it, and the bytes of its devices.
pub struct NodeKind {
    /// Nodes.
    pub nodes: u32,
    /// Prices, as if all nodes were such.
    pub prices: AnalyticModel,
    /// Bytes that a device's arena may take.
    pub limit: Bytes,
}

/// The kinds of a cluster's nodes in rank order, when a device may take `limit` where the weakest has no less.
pub fn kinds(cluster: &Cluster, limit: Bytes) -> Vec<NodeKind> {
    let stated = limit != cluster.usable_memory();
    let parts = cluster.parts().into_iter();
    parts
        .map(|part| {
            let usable = part.cluster.usable_memory();
            // Routes to other stages lead out of the part.
            let nodes = part.cluster.nodes;
            NodeKind {
                nodes,
                prices: AnalyticModel::new(Cluster { nodes: cluster.nodes, ..part.cluster }),
                limit: if stated { usable.min(limit) } else { usable },
            }
        })
        .collect()
}

/// The best pipelines over unlike submeshes: for each of the best numbers of microbatches.
pub(super) fn found(model: &Model<'_>, verdicts: &[(Setting, Verdict)], prepared: &BTreeMap<Kind, Prepared>, effort: &Effort) -> Vec<Found> {
    let cluster = model.prices.cluster();
    let kinds = kinds(cluster, model.limit);
    let nodes = (0..).zip(&kinds).flat_map(|(k, kind)| (0..kind.nodes).map(move |_| k)).collect();
    let ground = Ground { nodes, devices_per_node: cluster.devices_per_node };
    let rows: Vec<_> = ranked(verdicts).into_iter().take(TRIED).collect();
    let row = |i: usize| {
        let (m, settings) = &rows[i];
        if model.stop.now() {
            return None;
        }
        let first = &settings.first()?.0;
        let tables: Vec<(u32, Entry)> = if kinds.len() == 1 {
            settings.iter().filter_map(|s| Some((0, s.1?.entry.clone()))).collect()
        } else {
            of_kinds(model, &kinds, settings, &prepared[m], effort)
        };
        let submeshes: Vec<Submesh<'_>> = tables.iter().map(|(kind, entry)| Submesh { entry, kind: *kind, limit: kinds[*kind as usize].limit }).collect();
        let u = unlike(&submeshes, &ground, &prepared[m].depth(), m.0, first.schedule)?;
        let entry = tables[u.submesh[0]].1.clone();
        let mesh = entry.mesh.axes.iter().map(|a| a.size).collect();
        let setting = Setting { stages: u.submesh.len() as u32, mesh, ..(*first).clone() };
        let (kinds, entries) = tables.into_iter().unzip();
        Some(Found {
            setting,
            entry,
            composed: u.composed,
            zero: None,
            unlike: Some(OnSubmeshes { entries, kinds, of: u.submesh }),
            chunked: None,
            memoryless: false,
            mixed: None,
        })
    };
    parallel(&(0..rows.len()).collect::<Vec<_>>(), effort.threads, &row).into_iter().filter_map(|found| found.1).collect()
}

/// A setting of some mesh, with what was found for it.
type OfMesh<'v> = (&'v Setting, Option<&'v Found>);

/// Kinds of steps with a setting for each mesh, the best first.
fn ranked(verdicts: &[(Setting, Verdict)]) -> Vec<(Kind, Vec<OfMesh<'_>>)> {
    let mut by_kind: BTreeMap<Kind, (f64, BTreeMap<Vec<u32>, OfMesh<'_>>)> = BTreeMap::new();
    for (setting, verdict) in verdicts {
        let found = if let Verdict::Found(f) = verdict { Some(&**f) } else { None };
        let row = by_kind.entry(kind(setting)).or_insert((f64::INFINITY, BTreeMap::new()));
        row.0 = row.0.min(found.map_or(f64::INFINITY, |f| f.composed.step.0));
        let known = row.1.entry(setting.mesh.clone()).or_insert((setting, found));
        *known = match (known.1, found) {
            (None, Some(f)) => (setting, Some(f)),
            (Some(k), Some(f))
                if f.entry.report.objective < k.entry.report.objective && f.setting.stages == k.setting.stages || f.zero.is_none() && k.zero.is_some() =>
            {
                (setting, Some(f))
            }
            _ => *known,
        };
    }
    let mut rows: Vec<(Kind, f64, Vec<OfMesh<'_>>)> = by_kind.into_iter().map(|(m, (step, by_mesh))| (m, step, by_mesh.into_values().collect())).collect();
    rows.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    rows.into_iter().map(|(m, _, of)| (m, of)).collect()
}

/// Tables of the best meshes for every kind of node that they can lie in.
fn of_kinds(model: &Model<'_>, kinds: &[NodeKind], settings: &[OfMesh<'_>], p: &Prepared, effort: &Effort) -> Vec<(u32, Entry)> {
    let per_node = model.prices.cluster().devices_per_node;
    let mut meshes: Vec<&OfMesh<'_>> = settings.iter().collect();
    let time = |s: &OfMesh<'_>| s.1.map_or(f64::INFINITY, |f| f.composed.step.0);
    meshes.sort_by(|a, b| time(a).total_cmp(&time(b)).then_with(|| a.0.mesh.cmp(&b.0.mesh)));
    let lies = |mesh: &[u32], kind: &NodeKind| {
        let devices: u32 = mesh.iter().product();
        devices <= kind.nodes * per_node && if devices <= per_node { per_node.is_multiple_of(devices) } else { devices.is_multiple_of(per_node) }
    };
    let meshes: Vec<&Setting> = meshes.into_iter().map(|s| s.0).filter(|s| kinds.iter().any(|k| lies(&s.mesh, k))).take(MESHES).collect();
    let jobs: Vec<(usize, &Setting)> = (0..kinds.len()).flat_map(|k| meshes.iter().map(move |&s| (k, s))).filter(|(k, s)| lies(&s.mesh, &kinds[*k])).collect();
    let made = parallel(&(0..jobs.len()).collect::<Vec<_>>(), effort.threads, &|j| {
        let (k, setting) = jobs[j];
        if model.stop.now() { vec![] } else { tables(model, &kinds[k], setting, p, effort.work).into_iter().map(|entry| (k as u32, entry)).collect() }
    });
    made.into_iter().flat_map(|m| m.1).collect()
}

/// The table of one mesh on one kind of node; and a second one for little memory, where a stage of an even share of the layers does not fit by the first.
fn tables(model: &Model<'_>, kind: &NodeKind, setting: &Setting, p: &Prepared, work: u64) -> Vec<Entry> {
    let mesh = Mesh::new(&setting.mesh);
    let cx = Context { step: &p.step, groups: &p.groups, mesh: &mesh, model: &kind.prices, stored: &p.stored };
    let mut bench = Bench::new(p, &cx).until(model.stop);
    let Ok(pins) = model.pins.bind(&p.step, &mesh) else { return vec![] };
    let allow = |space: &Space<'_>, node: Node, candidate: usize| anything(space, node, candidate) && pins.allows(space, node, candidate);
    let Ok(free) = bench.solve(&allow, phases(setting), &[], None, work) else { return vec![] };
    let depth = p.depth();
    let share = depth.len() as f64 / f64::from(setting.stages);
    let mut layers = vec![0.0; p.layers.layers.len()];
    depth.iter().for_each(|&l| layers[l as usize] += share / depth.len() as f64);
    let flight = in_flight(setting.schedule, StageId(0), setting.stages, setting.microbatches);
    let most = free.layers.iter().map(|l| l.transient).fold(0.0, f64::max);
    let sum = |f: &dyn Fn(usize) -> f64| layers.iter().enumerate().map(|(l, n)| n * f(l)).sum::<f64>();
    let needs = sum(&|l| free.layers[l].resident + free.layers[l].gradients + f64::from(flight) * free.layers[l].saved) + most;
    let limit = StageLimit { layers: &layers, in_flight: flight, gradients: setting.microbatches > 1, limit: kind.limit.0 as f64 - most };
    let tight = (needs > kind.limit.0 as f64).then(|| bench.solve(&allow, phases(setting), &[limit], None, work).ok()).flatten();
    std::iter::once(free).chain(tight).collect()
}
