//! Every strategy on one model and cluster: the best setting that each has, what it would give, and why others give nothing.
//!
//! Each strategy is a restriction of the search over tables ([`crate::tables::search`]), so rows are priced alike, whole steps and steps of few layers alike.
//! Invariant: a row's parts add up to its step, and its kinds of memory to its bytes; what is only predicted says so.

use crate::batch::phases::{self, Analysis};
use crate::canonical::{self, Canonical};
use crate::layers::Layers;
use crate::pipeline::Options;
use crate::shard::grid::Grid;
use crate::shard::pins::Pins;
use crate::shard::presets::Preset;
use crate::stage::Setting;
use crate::tables::compose::StageMemory;
use crate::tables::entry::{Prepared, Spent};
use crate::tables::plan::Shallow;
use crate::tables::search::{self, Effort, Found, Kind, Model, Verdict};
use crate::tables::settings;
use cost_model::{AnalyticModel, Cluster, MatMulShape};
use ir::diagnostic::{Diagnostic, Result};
use ir::op::OpKind;
use ir::plan::{Recompute, Request};
use ir::program::Phase;
use ir::{Bytes, Seconds};
use std::collections::BTreeMap;

/// What a step takes and does, whatever the strategy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Examples of a step.
    pub batch: u64,
    /// Tokens of a step; examples where the batch has no positions.
    pub tokens: u64,
    /// Whether they are tokens.
    pub has_positions: bool,
    /// Arithmetic of its matrix products and attention, nothing repeated.
    pub flops: f64,
    /// Seconds that one device would need for it at its peak.
    pub at_peak: f64,
}

/// Where the seconds of a step go on the busiest stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// Matrix products and convolutions.
    pub products: f64,
    /// Attention.
    pub attention: f64,
    /// All other computing of the microbatches.
    pub other: f64,
    /// Collectives that computing waits for.
    pub communication: f64,
    /// What is done once a step: the update, and what is made of parameters before the first microbatch; without its collectives.
    pub once: f64,
    /// Waiting for other stages and for what they send.
    pub waiting: f64,
}

impl Parts {
    /// Names and seconds, in the order in which they are shown.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("products", self.products),
            ("attention", self.attention),
            ("other computing", self.other),
            ("update", self.once),
            ("exposed communication", self.communication),
            ("waiting", self.waiting),
        ]
    }
}

/// What a strategy gives at its best.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The setting.
    pub setting: Setting,
    /// Where only some layers recompute as the setting says: how many, and what the others do.
    pub some: Option<(u32, Recompute)>,
    /// Duration of a step.
    pub step: Seconds,
    /// Where it goes.
    pub parts: Parts,
    /// Share of the devices' time in which they wait for other stages.
    pub bubble: f64,
    /// Tokens of a device a second.
    pub tokens_per_second: f64,
    /// Arithmetic of the step over what the devices could do in its time.
    pub mfu: f64,
    /// Bytes of the fullest device.
    pub memory: StageMemory,
    /// Price of 10⁹ tokens, where the cluster has prices.
    pub price: Option<f64>,
}

/// What became of a strategy.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It fits.
    Fits(Box<Figures>),
    /// No setting of it fits; the smallest need of a device that was seen.
    TooLarge(Bytes),
    /// It cannot be done at all.
    Impossible(Diagnostic),
}

/// A strategy and what became of it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which.
    pub preset: Preset,
    /// What became of it.
    pub outcome: Outcome,
    /// How many settings were looked at.
    pub settings: usize,
}

impl Row {
    /// Its figures, if it fits.
    pub fn figures(&self) -> Option<&Figures> {
        if let Outcome::Fits(f) = &self.outcome { Some(f) } else { None }
    }
}

/// All strategies on one cluster.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What is done.
    pub work: Work,
    /// Bytes of a device.
    pub capacity: Bytes,
    /// Rows: those that fit, fastest first; those that do not, smallest first; those that cannot be.
    pub rows: Vec<Row>,
}

/// A step of so many devices, by strategy.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Nodes.
    pub nodes: u32,
    /// Devices.
    pub devices: u32,
    /// Strategies that fit, with their steps.
    pub steps: Vec<(Preset, Seconds)>,
}

/// Strategies that are compared where nobody says which.
pub const COMPARED: [Preset; 20] = [
    Preset::Auto,
    Preset::Alpa,
    Preset::Data,
    Preset::Zero1,
    Preset::Zero2,
    Preset::Zero3,
    Preset::Hsdp,
    Preset::Tensor,
    Preset::PtdP,
    Preset::Megatron,
    Preset::GPipe,
    Preset::OneFOneB,
    Preset::Interleaved,
    Preset::ZeroBubble,
    Preset::Tensor2d,
    Preset::Tensor25d,
    Preset::Tensor3d,
    Preset::Ulysses,
    Preset::Ring,
    Preset::Expert,
];

/// A model, read once and asked about clusters.
pub struct Comparer<'a> {
    shallow: &'a Shallow<'a>,
    options: &'a Options,
    canonical: Canonical,
    analysis: Analysis,
    one: Prepared,
    /// What a step takes.
    pub work: Work,
}

impl<'a> Comparer<'a> {
    /// Reads a step of few layers, or a whole one.
    ///
    /// # Errors
    /// Those of canonicalization; `E0402` to `E0409` what the request fixes and no strategy could have.
    pub fn new(shallow: &'a Shallow<'a>, options: &'a Options) -> Result<Comparer<'a>> {
        let canonical = canonical::run(shallow.module, &options.overrides)?;
        let analysis = phases::analyse(&canonical.graph, &canonical.interface);
        let full = |layers: &Layers, first: u32, copies: u32| shallow.full(layers, first, copies);
        let one = Prepared::new(&canonical, &analysis, 1, Recompute::None, &full, false);
        let work = work(&canonical, &analysis, &one, &options.cluster);
        // What is wrong for every strategy is wrong at once.
        let mut notes = Vec::new();
        settings::settings(&options.cluster, &options.request, Preset::Auto, &analysis, &canonical, &one, &mut notes)?;
        Ok(Comparer { shallow, options, canonical, analysis, one, work })
    }

    /// What the user should know of the step.
    pub fn notes(&self) -> &[Diagnostic] {
        &self.canonical.notes
    }

    /// Compares strategies on a cluster.
    pub fn compare(&self, cluster: &Cluster, presets: &[Preset], effort: &Effort) -> Comparison {
        self.compare_with(cluster, presets, effort, &mut BTreeMap::new())
    }

    fn compare_with(&self, cluster: &Cluster, presets: &[Preset], effort: &Effort, prepared: &mut BTreeMap<Kind, Prepared>) -> Comparison {
        let capacity = self.options.request.memory_limit.unwrap_or(cluster.usable_memory());
        let mut rows: Vec<Row> = Vec::new();
        let mut known: Vec<Found> = Vec::new();
        // Free shardings start from what the restricted ones found.
        let (free, restricted): (Vec<Preset>, Vec<Preset>) = presets.iter().copied().partition(|p| p.is_free());
        for preset in restricted.into_iter().chain(free) {
            let (row, found) = self.row(cluster, preset, capacity, effort, prepared, &known);
            rows.push(row);
            known.extend(found.filter(|_| preset.predicted_only().is_none()));
        }
        let rank = |row: &Row| match &row.outcome {
            Outcome::Fits(f) => (0, f.step.0),
            Outcome::TooLarge(need) => (1, need.0 as f64),
            Outcome::Impossible(_) => (2, 0.0),
        };
        rows.sort_by(|a, b| rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1)));
        Comparison { work: self.work, capacity, rows }
    }

    /// Steps on 1, 2, 4, … nodes, as many as the cluster has; on devices of one node where it has one.
    pub fn scaling(&self, presets: &[Preset], effort: &Effort) -> Vec<Scale> {
        let cluster = &self.options.cluster;
        let most = if cluster.nodes > 1 { cluster.nodes } else { cluster.devices_per_node };
        let mut counts: Vec<u32> = std::iter::successors(Some(1u32), |n| n.checked_mul(2)).take_while(|&n| n < most).collect();
        counts.push(most);
        // Steps are prepared once for all sizes.
        let mut prepared = BTreeMap::new();
        counts
            .into_iter()
            .map(|n| {
                let part = of_size(cluster, n);
                let comparison = self.compare_with(&part, presets, effort, &mut prepared);
                let steps = comparison.rows.iter().filter_map(|r| Some((r.preset, r.figures()?.step))).collect();
                Scale { nodes: part.nodes, devices: part.devices(), steps }
            })
            .collect()
    }

    fn row(
        &self,
        cluster: &Cluster,
        preset: Preset,
        capacity: Bytes,
        effort: &Effort,
        prepared: &mut BTreeMap<Kind, Prepared>,
        known: &[Found],
    ) -> (Row, Option<Found>) {
        let impossible = |d: Diagnostic| (Row { preset, outcome: Outcome::Impossible(d), settings: 0 }, None);
        let first = |e: ir::Diagnostics| e.0.into_iter().next().unwrap_or_else(|| Diagnostic::outcome("E0503", "there is no setting to try"));
        let list = match self.settings(cluster, preset) {
            Ok(list) if list.is_empty() => return impossible(Diagnostic::outcome("E0503", "no number of microbatches is possible")),
            Ok(list) => list,
            Err(e) => return impossible(first(e)),
        };
        let prices = AnalyticModel::new(cluster.clone());
        let full = |layers: &Layers, first: u32, copies: u32| self.shallow.full(layers, first, copies);
        let pins = Pins::default();
        let model = Model {
            canonical: &self.canonical,
            analysis: &self.analysis,
            full: &full,
            prices: &prices,
            limit: capacity,
            preset,
            pins: &pins,
            stop: &self.options.stop,
            unlike: false,
            mixed: preset == Preset::Auto && self.options.request.recompute.is_none(),
            chunks: preset == Preset::Auto,
        };
        let mut known: Vec<Found> = if preset.is_free() { known.to_vec() } else { vec![] };
        known.retain(|f| preset != Preset::Alpa || f.setting.recompute == Recompute::None);
        let searched = search::search_from(&model, &list, effort, std::mem::take(prepared), known);
        let outcome = match &searched.best {
            Some(found) => Outcome::Fits(Box::new(self.figures(cluster, found, found.prepared(&searched.prepared)))),
            None => {
                let least = searched.verdicts.iter().filter_map(|(_, v)| if let Verdict::Memory(b) = v { Some(*b) } else { None }).min();
                least.map_or_else(|| Outcome::Impossible(Diagnostic::outcome("E0503", "no setting of it has a sharding")), Outcome::TooLarge)
            }
        };
        *prepared = searched.prepared;
        (Row { preset, outcome, settings: list.len() }, searched.best)
    }

    /// The settings of a strategy.
    fn settings(&self, cluster: &Cluster, preset: Preset) -> Result<Vec<Setting>> {
        let request: Request = preset.complete(&self.options.request)?;
        let grid = Grid::new(&self.one.step, &self.one.groups, &self.canonical.interface);
        preset.check(&grid)?;
        let mut list = settings::settings(cluster, &request, preset, &self.analysis, &self.canonical, &self.one, &mut vec![])?;
        if let Some(heads) = preset.cuts_heads().then(|| heads(&self.canonical, self.work.batch)).flatten() {
            let all = list.len();
            list.retain(|s| u64::from(s.mesh.last().copied().unwrap_or(1)) <= heads);
            if list.is_empty() && all > 0 {
                return Err(Diagnostic::input("E0430", format!("`--strategy {}` cuts attention's heads, and there are {heads}", preset.name()))
                    .with_help(format!("a mesh whose last axis has {heads} devices or fewer"))
                    .into());
            }
        }
        Ok(list)
    }

    fn figures(&self, cluster: &Cluster, found: &Found, p: &Prepared) -> Figures {
        let (setting, composed) = (&found.setting, &found.composed);
        let devices = f64::from(cluster.devices());
        let step = composed.step;
        let tokens = self.work.tokens as f64;
        let memory = composed.memory.iter().copied().max_by(|a, b| a.total().total_cmp(&b.total())).unwrap_or_default();
        let hours_per_billion = 1e9 / tokens * step.0 / 3600.0;
        Figures {
            setting: setting.clone(),
            some: found.mixed.as_ref().map(|m| (m.dearer, m.less)),
            step,
            parts: parts(found, p),
            bubble: composed.bubble,
            tokens_per_second: tokens / step.0 / devices,
            mfu: self.work.at_peak / devices / step.0,
            memory,
            price: cluster.price_per_hour().map(|p| p * hours_per_billion),
        }
    }
}

/// A cluster of the same kind with so many nodes, or of one node with so many devices.
fn of_size(cluster: &Cluster, n: u32) -> Cluster {
    // Devices that share cores have fewer to share them with.
    if cluster.solo_speedup > 1.0
        && let Ok(part) = Cluster::parse(&format!("local:{n}"))
    {
        return part;
    }
    let mut part = cluster.clone();
    if cluster.nodes > 1 {
        part.nodes = n;
        part.kinds.clear();
    } else {
        part.devices_per_node = n;
    }
    part
}

/// Where the seconds of the busiest stage go.
fn parts(found: &Found, p: &Prepared) -> Parts {
    let depth = found.depth(p);
    let composed = &found.composed;
    let (stages, m) = (found.setting.stages as usize, f64::from(found.setting.microbatches));
    let busy = |s: usize| -> [Spent; 2] {
        let entry = found.entry_of(s);
        let mut micro = entry.everywhere.spent[Phase::Forward as usize];
        micro.add(&entry.everywhere.spent[Phase::Backward as usize], 1.0);
        let mut once = entry.everywhere.spent[Phase::Before as usize];
        once.add(&entry.everywhere.spent[Phase::After as usize], 1.0);
        for &(a, b) in composed.cuts.iter().skip(s).step_by(stages.max(1)) {
            for &l in &depth[a as usize..b as usize] {
                let spent = &entry.layers[l as usize].spent;
                micro.add(&spent[Phase::Forward as usize], 1.0);
                micro.add(&spent[Phase::Backward as usize], 1.0);
                once.add(&spent[Phase::Before as usize], 1.0);
                once.add(&spent[Phase::After as usize], 1.0);
            }
        }
        [micro, once]
    };
    let total = |x: &[Spent; 2]| m * x[0].total() + x[1].total();
    let [micro, once] = (0..stages).map(busy).max_by(|a, b| total(a).total_cmp(&total(b))).unwrap_or_default();
    let parts = Parts {
        products: m * micro.products,
        attention: m * micro.attention,
        other: m * micro.other,
        communication: m * micro.communication + once.communication,
        once: once.products + once.attention + once.other,
        waiting: 0.0,
    };
    let sum: f64 = parts.named().iter().map(|x| x.1).sum();
    let step = composed.step.0;
    if sum <= step {
        return Parts { waiting: step - sum, ..parts };
    }
    // Devices that share cores are faster while others wait: their seconds are the clock's.
    let k = step / sum;
    Parts {
        products: k * parts.products,
        attention: k * parts.attention,
        other: k * parts.other,
        communication: k * parts.communication,
        once: k * parts.once,
        waiting: 0.0,
    }
}

/// Heads of the attention that has fewest.
fn heads(canonical: &Canonical, batch: u64) -> Option<u64> {
    let (graph, examples) = (&canonical.graph, batch.max(1));
    let of = |op: &ir::graph::Op| {
        let OpKind::Attention(a) = &op.kind else { return None };
        let sizes = a.q.iter().zip(&graph.ty(op.operands[0]).shape).filter(|(d, _)| d.is_batch()).map(|(_, n)| *n);
        Some((sizes.product::<u64>() / examples).max(1))
    };
    graph.ops.values().filter_map(of).min()
}

/// FLOPs of a matrix product, convolution or attention, and what its operands are; none for other ops, which do not count as the model's.
pub fn product_flops(graph: &ir::Graph, op: &ir::graph::Op) -> Option<(f64, ir::DType)> {
    let dtype = graph.ty(*op.operands.first()?).dtype;
    let shape = |i: usize| &graph.ty(op.operands[i]).shape;
    let flops = match &op.kind {
        OpKind::Dot(d) => MatMulShape::of_dot(d, shape(0), shape(1), dtype).flops().0,
        OpKind::Convolution(d) => {
            let out: u64 = graph.ty(op.results[0]).elements();
            let kernel = shape(1);
            2.0 * out as f64 * (kernel.iter().product::<u64>() / kernel[d.kernel_output].max(1)) as f64
        }
        OpKind::Attention(a) | OpKind::AttentionGrad { attention: a, .. } => {
            let backward = matches!(op.kind, OpKind::AttentionGrad { .. });
            let shapes = [shape(0).clone(), shape(1).clone(), shape(2).clone()];
            crate::shard::strategy::attention_work(a, &shapes, backward, dtype, Bytes(0)).flops().0
        }
        _ => return None,
    };
    Some((flops, dtype))
}

/// What a step takes and does.
fn work(canonical: &Canonical, analysis: &Analysis, one: &Prepared, cluster: &Cluster) -> Work {
    let graph = &canonical.graph;
    let batch = analysis.batch_size;
    let numbers = canonical.interface.batch.iter().filter(|b| b.1.is_some()).map(|b| graph.ty(graph.inputs[b.0 as usize]));
    let positions = numbers.filter(|ty| ty.dtype.is_integer() && ty.rank() > 1).map(|ty| ty.elements()).max();
    let depth = one.depth();
    let mut of_layer = vec![(0.0, 0.0); one.layers.layers.len()];
    let step = &one.step.graph;
    for (id, op) in step.ops.iter().filter(|(id, _)| matches!(one.step.phase_of(*id), Phase::Forward | Phase::Backward)) {
        let Some((flops, dtype)) = product_flops(step, op) else { continue };
        let layer = &mut of_layer[one.layers.of[id.0 as usize] as usize];
        layer.0 += flops;
        layer.1 += flops / cluster.device.peak.of(dtype).0;
    }
    let (flops, at_peak) = depth.iter().map(|&l| of_layer[l as usize]).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    Work { batch, tokens: positions.unwrap_or(batch), has_positions: positions.is_some(), flops, at_peak }
}
