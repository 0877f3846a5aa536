//! What one layer costs on one mesh: the small integer program of a step whose copies are tied, solved and priced.

use super::runs::{self, Run};
use crate::batch::phases::Analysis;
use crate::canonical::Canonical;
use crate::kernels::stored::stored_values;
use crate::layers::{self, Layers};
use crate::pipeline::microbatched;
use crate::recompute::Recomputation;
use crate::shard::grid::Grid;
use crate::shard::groups::{self, Groups};
use crate::shard::problem::{self, Choices, Filter, Instance, Node, Space, Tie, Weights};
use crate::shard::reshard::Resharder;
use crate::shard::routing::Routing;
use crate::shard::strategy::Context;
use crate::step::StepGraph;
use crate::stop::Stop;
use ir::plan::{Recompute, SolveReport};
use ir::program::{BufferKind, Phase};
use ir::{Diagnostic, Mesh, OpKind, SecondaryMap, Sharding, TensorType, ValueId};
use solver::{Options, Outcome};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A step cut into microbatches, with everything that does not depend on the mesh.
pub struct Prepared {
    /// The step.
    pub step: StepGraph,
    /// Values that lie in memory.
    pub stored: SecondaryMap<ValueId, bool>,
    /// Its layers.
    pub layers: Layers,
    /// Its groups, apart by layer and phase.
    pub groups: Groups,
    /// Its runs of identical layers.
    pub runs: Vec<Run>,
    /// Which nodes are copies.
    pub tie: Tie,
    /// Layer of every group; none for what every stage does.
    pub layer_of: Vec<Option<u32>>,
    /// Where the value of every group's write counts in memory; none for what is not stored, or is written over old state.
    held: Vec<Vec<Option<Held>>>,
    /// The last group of its own layer that reads it; the group itself if none does.
    until: Vec<Vec<u32>>,
    bytes: (f64, f64),
}

/// A step cut into microbatches, before anything is recomputed: what the steps of all modes are made from.
pub struct Cut {
    step: StepGraph,
    stored: SecondaryMap<ValueId, bool>,
    layers: Layers,
}

impl Cut {
    /// Cuts a step into microbatches.
    pub fn new(canonical: &Canonical, analysis: &Analysis, microbatches: u32) -> Cut {
        let step = StepGraph::new(&microbatched(canonical, analysis, microbatches), &canonical.interface);
        let stored = stored_values(&step);
        // What is kept is what enters a layer as it is planned: a whole block, not its halves.
        let layers = runs::join_periods(&layers::layers(&step, &stored));
        Cut { step, stored, layers }
    }

    /// Its layers.
    pub fn layers(&self) -> &Layers {
        &self.layers
    }
}

impl Prepared {
    /// Cuts a step into microbatches, lets every layer recompute as `mode` says, and ties its copies. `full` and `ends_apart` as in [`runs::runs`].
    pub fn new(
        canonical: &Canonical,
        analysis: &Analysis,
        microbatches: u32,
        mode: Recompute,
        full: &dyn Fn(&Layers, u32, u32) -> u32,
        ends_apart: bool,
    ) -> Prepared {
        Prepared::recomputing(&Cut::new(canonical, analysis, microbatches), mode, full, ends_apart)
    }

    /// Lets every layer recompute as `mode` says, and ties its copies.
    pub fn recomputing(cut: &Cut, mode: Recompute, full: &dyn Fn(&Layers, u32, u32) -> u32, ends_apart: bool) -> Prepared {
        let Cut { step, stored, layers } = cut;
        if mode == Recompute::None {
            return Prepared::of(step.clone(), stored.clone(), layers.clone(), full, ends_apart);
        }
        let (step, layers) = Recomputation::new(step, layers, stored).apply(&vec![mode; layers.layers.len()]);
        let stored = stored_values(&step);
        Prepared::of(step, stored, layers, full, ends_apart)
    }

    /// Lets each layer recompute as its mode says, and ties the copies within `runs`.
    pub fn mixing(cut: &Cut, modes: &[Recompute], runs: Vec<Run>) -> Prepared {
        let (step, mut layers) = Recomputation::new(&cut.step, &cut.layers, &cut.stored).apply(modes);
        // Layers of unlike modes are no copies of each other.
        let kinds = layers.layers.iter().map(|l| l.kind).max().unwrap_or(0) + 1;
        layers.layers.iter_mut().for_each(|l| l.kind += kinds * l.recompute as u32);
        let stored = stored_values(&step);
        Prepared::tied(step, stored, layers, |_| runs)
    }

    /// Ties the copies of a step whose layers are known.
    pub fn of(step: StepGraph, stored: SecondaryMap<ValueId, bool>, layers: Layers, full: &dyn Fn(&Layers, u32, u32) -> u32, ends_apart: bool) -> Prepared {
        Prepared::tied(step, stored, runs::join_periods(&layers), |layers| runs::runs(layers, full, ends_apart))
    }

    fn tied(step: StepGraph, stored: SecondaryMap<ValueId, bool>, layers: Layers, runs: impl FnOnce(&Layers) -> Vec<Run>) -> Prepared {
        let groups = groups::groups(&step.graph, &|o| {
            let i = o.0 as usize;
            step.phase_of(o) as u64 | u64::from(layers.of[i]) << 8 | u64::from(layers.everywhere[i]) << 4
        });
        let mut runs = runs(&layers);
        let tie = runs::tie(&step, &layers, &groups, &mut runs);
        let layer_of: Vec<Option<u32>> = groups
            .groups
            .iter()
            .map(|g| match (g.output, g.ops.first()) {
                (Some(p), _) => step.outputs[p].replaces.and_then(|i| layers.home[i as usize]),
                (None, Some(op)) if !layers.everywhere[op.0 as usize] => Some(layers.of[op.0 as usize]),
                _ => None,
            })
            .collect();
        let held = held(&step, &stored, &groups);
        let until = until(&groups, &layer_of);
        let mut prepared = Prepared { step, stored, layers, groups, runs, tie, layer_of, held, until, bytes: (0.0, 0.0) };
        prepared.bytes = prepared.sum_bytes();
        prepared
    }

    /// The same step with every node for itself.
    #[must_use]
    pub fn untied(&self) -> Prepared {
        let count = self.tie.of.len();
        Prepared {
            step: self.step.clone(),
            stored: self.stored.clone(),
            layers: self.layers.clone(),
            groups: self.groups.clone(),
            runs: vec![],
            tie: Tie { of: (0..count as u32).collect(), copy: vec![None; count], runs: vec![] },
            layer_of: self.layer_of.clone(),
            held: self.held.clone(),
            until: self.until.clone(),
            bytes: self.bytes,
        }
    }

    /// The same step as software makes it that permutes rows where models dispatch tokens by products: one-hot tensors and places are no values.
    #[must_use]
    pub fn permuting(mut self) -> Prepared {
        let routing = Routing::new(&self.step, &self.groups);
        for (group, held) in self.groups.groups.iter().zip(&mut self.held) {
            for (write, held) in group.writes.iter().zip(held).filter(|(w, _)| routing.unmade[w.value]) {
                self.stored[write.value] = false;
                *held = None;
            }
        }
        self.bytes = self.sum_bytes();
        self
    }

    /// Bytes of the whole model, cut over nothing: what stays for the step (state, gradients), and what one microbatch keeps from forward to backward.
    pub fn bytes(&self) -> (f64, f64) {
        self.bytes
    }

    fn sum_bytes(&self) -> (f64, f64) {
        let graph = &self.step.graph;
        let count = self.layers.layers.len();
        let mut of_layer = vec![(0.0, 0.0); count];
        let of = |v: ValueId| graph.ty(v).bytes() as f64;
        for (i, &v) in graph.inputs.iter().enumerate() {
            if let Some(l) = self.layers.home[i] {
                of_layer[l as usize].0 += of(v);
            }
        }
        for (g, group) in self.groups.groups.iter().enumerate() {
            let Some(l) = self.layer_of[g] else { continue };
            for (w, held) in group.writes.iter().zip(&self.held[g]) {
                match held {
                    Some(Held::Resident) => of_layer[l as usize].0 += of(w.value),
                    // With one microbatch a gradient may be used up before the next is there.
                    Some(Held::Gradient) if self.step.microbatches > 1 => of_layer[l as usize].0 += of(w.value),
                    Some(Held::Saved) => of_layer[l as usize].1 += of(w.value),
                    _ => {}
                }
            }
        }
        self.depth().iter().map(|&l| of_layer[l as usize]).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// For every layer of the model the layer of the step that stands for it.
    pub fn depth(&self) -> Vec<u32> {
        runs::expand(self.layers.layers.len() as u32, &self.runs)
    }
}

/// Where a layer's seconds go in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Matrix products and convolutions.
    pub products: f64,
    /// Attention.
    pub attention: f64,
    /// All other computing.
    pub other: f64,
    /// Collectives.
    pub communication: f64,
    /// Of those, the ones that attention waits for.
    pub before_attention: f64,
}

impl Spent {
    /// Adds another, so many times.
    pub fn add(&mut self, other: &Spent, times: f64) {
        self.products += times * other.products;
        self.attention += times * other.attention;
        self.other += times * other.other;
        self.communication += times * other.communication;
        self.before_attention += times * other.before_attention;
    }
    /// All of it.
    pub fn total(&self) -> f64 {
        self.products + self.attention + self.other + self.communication
    }
}

/// What one layer costs a device. Times in seconds, sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerCost {
    /// Once, before the microbatches.
    pub before: f64,
    /// Forward of one microbatch.
    pub forward: f64,
    /// Backward of one microbatch.
    pub backward: f64,
    /// Once, after the last microbatch.
    pub after: f64,
    /// Parameters, optimizer state, data and what is computed before the microbatches.
    pub resident: f64,
    /// Gradients: what is accumulated over the microbatches.
    pub gradients: f64,
    /// What one microbatch keeps from forward to backward.
    pub saved: f64,
    /// The most that is alive beside the above in the forward, the backward and the update.
    pub transient: f64,
    /// What crosses to the next layer, forward and backward, per microbatch.
    pub crossing: (f64, f64),
    /// Where the seconds of each phase go, in [`Phase::ALL`]'s order.
    pub spent: [Spent; 4],
    /// Seconds of the backward that make gradients of parameters, for schedules that put them off.
    pub weights: f64,
}

/// A parameter that two layers read, as a tied embedding: on another stage than its home there is a copy of it, sent before the first microbatch, and its
/// gradient goes back after the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shared {
    /// The layer that keeps it.
    pub home: u32,
    /// The layer that reads it too.
    pub reader: u32,
    /// Bytes of the copy.
    pub bytes: f64,
    /// Seconds to send it.
    pub send: f64,
}

/// A solved table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The mesh.
    pub mesh: Mesh,
    /// Cost of every layer of the step.
    pub layers: Vec<LayerCost>,
    /// What every stage does for itself.
    pub everywhere: LayerCost,
    /// Parameters (or what is made of them once a step) that a layer reads from another's.
    pub shared: Vec<Shared>,
    /// Chosen candidate of every node (inputs, then groups).
    pub picks: Vec<usize>,
    /// Whether candidates are numbered among those that hand-made restrictions allow, and not among all; see [`Bench::own`].
    pub by_hand: bool,
    /// The solve.
    pub report: SolveReport,
}

impl Entry {
    /// The same where keys and values go round a ring while attention works on those at hand: what of their transfer is no longer than that is hidden.
    #[must_use]
    pub fn passing_keys_round(mut self) -> Entry {
        for l in self.layers.iter_mut().chain([&mut self.everywhere]) {
            for (phase, time) in [(Phase::Forward, &mut l.forward), (Phase::Backward, &mut l.backward)] {
                let spent = &mut l.spent[phase as usize];
                let hidden = spent.before_attention.min(spent.attention);
                spent.before_attention -= hidden;
                spent.communication -= hidden;
                *time -= hidden;
            }
        }
        self
    }
}

/// Memory of a stage as a constraint of the small program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageLimit<'a> {
    /// How many of the model's layers like this one the stage has, per layer of the step.
    pub layers: &'a [f64],
    /// How many microbatches' activations are there at this moment.
    pub in_flight: u32,
    /// Whether the gradients are.
    pub gradients: bool,
    /// Bytes that are left for what adds up.
    pub limit: f64,
}

/// One mesh with a prepared step: strategies, prices, and what was already found.
pub struct Bench<'a> {
    prepared: &'a Prepared,
    pub(crate) space: Space<'a>,
    mesh: &'a Mesh,
    pub(crate) resharder: Resharder<'a>,
    stop: Stop,
    /// Whether it has those candidates alone that hand-made restrictions allow.
    by_hand: bool,
}

/// Where a node's bytes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// For the whole step.
    Resident,
    /// As a gradient.
    Gradient,
    /// From forward to backward.
    Saved,
    /// Inside a layer's phase.
    Transient,
}

/// Work for a program that decides a table; about a tenth of a second.
pub const WORK: u64 = 40_000_000;

impl<'a> Bench<'a> {
    /// Prices a step on a mesh; `cx` describes the same step.
    pub fn new(prepared: &'a Prepared, cx: &'a Context<'a>) -> Bench<'a> {
        Bench::of(prepared, Space::tied(cx, Some(&prepared.tie)))
    }

    /// The same with the candidates alone that some hand-made restriction allows: far fewer.
    pub fn by_hand(prepared: &'a Prepared, cx: &'a Context<'a>, grid: &Grid) -> Bench<'a> {
        let space = Space::among(cx, Some(&prepared.tie), &|g, axis, all, one| grid.keeps(cx.mesh, g, axis, all, one));
        Bench { by_hand: true, ..Bench::of(prepared, space) }
    }

    fn of(prepared: &'a Prepared, space: Space<'a>) -> Bench<'a> {
        let Context { mesh, model, .. } = *space.cx;
        Bench { prepared, space, mesh, resharder: Resharder::new(model, mesh, 0), stop: Stop::default(), by_hand: false }
    }

    /// What can be chosen.
    pub fn space(&self) -> &Space<'a> {
        &self.space
    }

    /// A table's choice as this bench, which has all candidates, numbers them.
    pub fn own(&self, entry: &Entry, grid: &Grid) -> Option<Vec<usize>> {
        if entry.by_hand { self.space.renumbered(&entry.picks, Bench::by_hand(self.prepared, self.space.cx, grid).space()) } else { Some(entry.picks.clone()) }
    }

    /// Seconds that all layers of the model take at least on one device of the mesh, whatever is chosen: forward and backward of a microbatch, and what is
    /// done once a step.
    pub fn least(&self) -> (f64, f64) {
        let p = self.prepared;
        let mut of_layer = vec![(0.0, 0.0); p.layers.layers.len()];
        for (g, strategies) in self.space.groups.iter().enumerate() {
            let Some(l) = p.layer_of[g] else { continue };
            let least = strategies.iter().map(|s| s.compute.0).fold(f64::INFINITY, f64::min);
            let sum = &mut of_layer[l as usize];
            match self.space.phase(g) {
                Phase::Forward | Phase::Backward => sum.0 += least,
                Phase::Before | Phase::After => sum.1 += least,
            }
        }
        p.depth().iter().map(|&l| of_layer[l as usize]).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// Bytes of every layer of the model at least, when the candidates may be chosen that `allow` says: what stays (with one microbatch without gradients,
    /// which may then be used up one by one), and what a microbatch keeps from forward to backward.
    pub fn least_bytes(&self, allow: &Filter<'_>) -> Vec<(f64, f64)> {
        let p = self.prepared;
        let graph = &p.step.graph;
        let mut of_layer = vec![(0.0, 0.0); p.layers.layers.len()];
        for (i, list) in self.space.inputs.iter().enumerate() {
            let Some(l) = p.layers.home[i] else { continue };
            let slots = if p.step.inputs[i].microbatched { f64::from(p.step.microbatches) } else { 1.0 };
            let allowed = (0..list.len()).filter(|&s| allow(&self.space, Node::Input(i as u32), s));
            let least = allowed.map(|s| bytes(graph.ty(graph.inputs[i]), &list[s], self.mesh)).fold(f64::INFINITY, f64::min);
            of_layer[l as usize].0 += slots * least;
        }
        for (g, group) in p.groups.groups.iter().enumerate() {
            let Some(l) = p.layer_of[g] else { continue };
            let kept = |held: &Option<Held>| match held {
                Some(Held::Resident) => Some(true),
                Some(Held::Gradient) => (p.step.microbatches > 1).then_some(true),
                Some(Held::Saved) => Some(false),
                Some(Held::Transient) | None => None,
            };
            let held: Vec<(usize, bool)> = p.held[g].iter().enumerate().filter_map(|(w, h)| Some((w, kept(h)?))).collect();
            if held.is_empty() {
                continue;
            }
            let list = &self.space.groups[g];
            let mut least = vec![f64::INFINITY; held.len()];
            for s in (0..list.len()).filter(|&s| allow(&self.space, Node::Group(g as u32), s)) {
                for (least, &(w, _)) in least.iter_mut().zip(&held) {
                    *least = least.min(bytes(graph.ty(group.writes[w].value), &list[s].writes[w], self.mesh));
                }
            }
            for (least, (_, kept)) in least.into_iter().zip(held) {
                *(if kept { &mut of_layer[l as usize].0 } else { &mut of_layer[l as usize].1 }) += least;
            }
        }
        p.depth().iter().map(|&l| of_layer[l as usize]).collect()
    }

    /// Ends its solves when `stop` says so.
    #[must_use]
    pub fn until(self, stop: &Stop) -> Bench<'a> {
        Bench { stop: stop.clone(), ..self }
    }

    /// Solves under a restriction, memory limits and a start; `phases` as in [`Weights`].
    ///
    /// # Errors
    /// `E0501` nothing is allowed for some value; `E0502` memory.
    pub fn solve(&mut self, allow: &Filter<'_>, phases: [f64; 4], limits: &[StageLimit<'_>], start: Option<&[usize]>, work: u64) -> Result<Entry, Diagnostic> {
        self.solve_below(f64::INFINITY, allow, phases, limits, start, work)
    }

    /// The same for an objective below `seconds`: what is proven not to be is not looked for any more.
    ///
    /// # Errors
    /// As [`Bench::solve`].
    pub fn solve_below(
        &mut self,
        seconds: f64,
        allow: &Filter<'_>,
        phases: [f64; 4],
        limits: &[StageLimit<'_>],
        start: Option<&[usize]>,
        work: u64,
    ) -> Result<Entry, Diagnostic> {
        let weights = Weights { phases, tie: Some(&self.prepared.tie) };
        let mut instance = Instance::new(&self.space, allow, &weights, &mut self.resharder)?;
        for limit in limits {
            self.add_limit(&mut instance, limit);
        }
        let start = start.and_then(|picks| instance.choice(picks));
        let options = self.stop.limited(
            Options { work, gap: 1e-4, start, cutoff: seconds.is_finite().then_some((seconds * problem::PICO) as i128), ..Options::default() },
            problem::PICO,
        );
        let outcome = solver::solve(&instance.problem, &options).map_err(problem::ill_formed)?;
        self.stop.note(&outcome);
        match outcome {
            Outcome::Solved(solution) => {
                let picks = instance.picks(&solution.choice);
                Ok(self.entry(picks, problem::report(&instance.problem, &solution)))
            }
            Outcome::Infeasible(_) => Err(Diagnostic::outcome("E0502", format!("no sharding on {} fits in memory", self.mesh))),
            _ => Err(Diagnostic::outcome("E0503", "the sharding problem was not solved within its budget")),
        }
    }

    /// What was chosen, with the prices of what was not; `phases` as in [`Weights`].
    ///
    /// # Errors
    /// None that a solve with the same restriction would not have.
    pub fn choices(&mut self, picks: &[usize], report: &SolveReport, allow: &Filter<'_>, phases: [f64; 4]) -> Result<Choices, Diagnostic> {
        let weights = Weights { phases, tie: Some(&self.prepared.tie) };
        let instance = Instance::new(&self.space, allow, &weights, &mut self.resharder)?;
        let choice = instance.choice(picks).unwrap_or_else(|| vec![0; instance.problem.nodes.len()]);
        Ok(problem::choices(&self.space, &instance, &choice, report.clone()))
    }

    fn bytes(&self, v: ValueId, s: &Sharding) -> f64 {
        bytes(self.prepared.step.graph.ty(v), s, self.mesh)
    }

    /// Adds a stage's memory: the sum of what its layers keep, as usage of one moment.
    fn add_limit(&self, instance: &mut Instance, limit: &StageLimit<'_>) {
        let p = self.prepared;
        let inputs = p.step.inputs.len();
        let moment = instance.problem.add_moment(limit.limit.max(0.0) as i64);
        let copies = |n: usize| {
            // Layers of the model that the node's layer stands for in this stage, the layer's own copies included.
            let layer = if n < inputs { p.layers.home[n] } else { p.layer_of[n - inputs] };
            layer.map_or(1.0, |l| limit.layers[l as usize])
        };
        let mut usage: Vec<Vec<f64>> = instance.problem.nodes.iter().map(|n| vec![0.0; n.costs.len()]).collect();
        for (i, &v) in p.step.graph.inputs.iter().enumerate() {
            let slots = if p.step.inputs[i].microbatched { f64::from(p.step.microbatches) } else { 1.0 };
            for (k, &s) in instance.kept[i].iter().enumerate() {
                usage[instance.slot[i] as usize][k] += copies(i) * slots * self.bytes(v, &self.space.inputs[i][s]);
            }
        }
        for (g, group) in p.groups.groups.iter().enumerate() {
            let n = inputs + g;
            for (w, access) in group.writes.iter().enumerate() {
                let slots = match p.held[g][w] {
                    Some(Held::Resident) => 1.0,
                    Some(Held::Gradient) => f64::from(u8::from(limit.gradients)),
                    Some(Held::Saved) => f64::from(limit.in_flight),
                    Some(Held::Transient) | None => continue,
                };
                for (k, &s) in instance.kept[n].iter().enumerate() {
                    usage[instance.slot[n] as usize][k] += copies(n) * slots * self.bytes(access.value, &self.space.groups[g][s].writes[w]);
                }
            }
        }
        for (slot, bytes) in (0..).zip(usage).filter(|(_, b)| b.iter().any(|&x| x > 0.0)) {
            instance.problem.add_usage(slot, moment, moment + 1, bytes.into_iter().map(|b| b as i64).collect::<Arc<[i64]>>());
        }
    }

    /// Prices a choice, layer by layer, as it is executed: equal reshards of one value in one phase are done once.
    pub fn entry(&mut self, picks: Vec<usize>, report: SolveReport) -> Entry {
        let Bench { prepared: p, space, mesh, resharder, by_hand, .. } = self;
        let graph = &p.step.graph;
        let inputs = p.step.inputs.len();
        let count = p.layers.layers.len();
        let mut layers = vec![LayerCost::default(); count];
        let mut everywhere = LayerCost::default();
        // Makers: node, write, layer.
        let mut maker: SecondaryMap<ValueId, Option<(usize, usize)>> = SecondaryMap::new();
        graph.inputs.iter().enumerate().for_each(|(i, &v)| maker[v] = Some((i, 0)));
        for (g, group) in p.groups.groups.iter().enumerate().filter(|(_, g)| g.output.is_none()) {
            group.writes.iter().enumerate().for_each(|(w, a)| maker[a.value] = Some((inputs + g, w)));
        }
        let layer_of = |n: usize| if n < inputs { p.layers.home[n] } else { p.layer_of[n - inputs] };
        for (i, &v) in graph.inputs.iter().enumerate() {
            let slots = if p.step.inputs[i].microbatched { f64::from(p.step.microbatches) } else { 1.0 };
            let bytes = slots * bytes(graph.ty(v), &space.inputs[i][picks[i]], mesh);
            cost_of(&mut layers, &mut everywhere, layer_of(i)).resident += bytes;
        }
        let adds_up = |g: &&groups::Group| g.ops.iter().any(|&o| p.step.accumulates(o));
        let mut added_up: BTreeSet<ValueId> = p.groups.groups.iter().filter(adds_up).flat_map(|g| g.reads.iter().map(|r| r.value)).collect();
        // In full precision, where they are made in less.
        for g in p.groups.groups.iter().rev().filter(|g| !g.ops.is_empty() && g.ops.iter().all(|&o| graph.ops[o].kind == OpKind::Convert)) {
            if g.writes.iter().any(|w| added_up.contains(&w.value)) {
                added_up.extend(g.reads.iter().map(|r| r.value));
            }
        }
        let mut done: BTreeSet<(ValueId, Phase, Option<u32>, &Sharding)> = BTreeSet::new();
        let mut sent: BTreeSet<(ValueId, u32, bool)> = BTreeSet::new();
        let mut copied: BTreeSet<(ValueId, u32)> = BTreeSet::new();
        let mut shared = Vec::new();
        let devices = mesh.devices();
        let cluster = space.cx.model.cluster();
        let route = cluster.route(0, devices.min(cluster.devices() - devices), devices);
        // What is alive inside a layer's phase: (position, change) of bytes.
        let mut alive: Vec<[Vec<(usize, f64)>; 4]> = vec![Default::default(); count];
        for (g, group) in p.groups.groups.iter().enumerate() {
            let (phase, layer) = (space.phase(g), layer_of(inputs + g));
            let strategy = &space.groups[g][picks[inputs + g]];
            let mut communication = 0.0;
            for (r, access) in group.reads.iter().enumerate() {
                let Some((from, write)) = maker[access.value] else { continue };
                let have = if from < inputs { &space.inputs[from][picks[from]] } else { &space.groups[from - inputs][picks[from]].writes[write] };
                let want = &strategy.reads[r];
                let ty = graph.ty(access.value);
                if have != want && done.insert((access.value, phase, layer, want)) {
                    communication += resharder.time(ty, have, want).map_or(0.0, |t| t.0);
                    let copy = bytes(graph.ty(access.value), want, mesh);
                    if let (Some(l), None) = (layer, group.output) {
                        alive[l as usize][phase as usize].extend([(g, copy), (g + 1, -copy)]);
                    }
                }
                // What crosses between layers in the forward or the backward would be sent where a stage ends between them.
                let source = layer_of(from);
                let once = if from < inputs { p.step.inputs[from].kind == BufferKind::Parameter } else { space.phase(from - inputs) == Phase::Before };
                if let (Some(home), Some(reader), true) = (source, layer, once && matches!(phase, Phase::Forward | Phase::Backward))
                    && home != reader
                    && copied.insert((access.value, reader))
                {
                    let bytes = bytes(graph.ty(access.value), want, mesh);
                    shared.push(Shared { home, reader, bytes, send: space.cx.model.send(ir::Bytes(bytes as u64), &route).0 });
                }
                if let (Some(a), Some(b), true) = (source, layer, from >= inputs && matches!(phase, Phase::Forward | Phase::Backward))
                    && a != b
                    && matches!(space.phase(from - inputs), Phase::Forward | Phase::Backward)
                {
                    let time = space.cx.model.send(ir::Bytes(bytes(graph.ty(access.value), want, mesh) as u64), &route).0;
                    for l in a.min(b)..a.max(b) {
                        if sent.insert((access.value, l, a > b)) {
                            let crossing = &mut layers[l as usize].crossing;
                            *(if a > b { &mut crossing.1 } else { &mut crossing.0 }) += time;
                        }
                    }
                }
            }
            for (w, access) in group.writes.iter().enumerate() {
                let bytes = bytes(graph.ty(access.value), &strategy.writes[w], mesh);
                let cost = cost_of(&mut layers, &mut everywhere, layer);
                match p.held[g][w] {
                    Some(Held::Resident) => cost.resident += bytes,
                    Some(Held::Gradient) => cost.gradients += bytes,
                    Some(Held::Saved) => cost.saved += bytes,
                    Some(Held::Transient) => {
                        if let Some(l) = layer {
                            let end = p.until[g][w] as usize;
                            alive[l as usize][phase as usize].extend([(g, bytes), (end + 1, -bytes)]);
                        }
                    }
                    None => {}
                }
            }
            let cost = cost_of(&mut layers, &mut everywhere, layer);
            let seconds = strategy.compute.0 + communication;
            let makes_gradients = p.held[g].contains(&Some(Held::Gradient)) || group.writes.iter().any(|w| added_up.contains(&w.value));
            let mut spent = Spent { communication, ..Spent::default() };
            match work_of(&p.step, group) {
                Work::Product => {
                    spent.products = strategy.compute.0;
                    if phase == Phase::Backward && makes_gradients {
                        cost.weights += strategy.compute.0;
                    }
                }
                Work::Attention => (spent.attention, spent.before_attention) = (strategy.compute.0, communication),
                Work::Other => spent.other = strategy.compute.0,
            }
            cost.spent[phase as usize].add(&spent, 1.0);
            match phase {
                Phase::Before => cost.before += seconds,
                Phase::Forward => cost.forward += seconds,
                Phase::Backward => cost.backward += seconds,
                Phase::After => cost.after += seconds,
            }
        }
        for (cost, phases) in layers.iter_mut().zip(alive) {
            cost.transient = phases.into_iter().map(peak).fold(0.0, f64::max);
        }
        Entry { mesh: (*mesh).clone(), layers, everywhere, shared, picks, by_hand: *by_hand, report }
    }
}

/// Bytes that a device keeps of a value.
fn bytes(ty: &TensorType, s: &Sharding, mesh: &Mesh) -> f64 {
    let elements: u64 = ty.shape.iter().zip(&s.dims).map(|(&n, axes)| n.div_ceil(u64::from(mesh.group_size(axes)))).product();
    ((elements * ty.dtype.bytes()).max(1).next_multiple_of(64)) as f64
}

/// What a group is mostly.
enum Work {
    Product,
    Attention,
    Other,
}

fn work_of(step: &StepGraph, group: &groups::Group) -> Work {
    let any = |is: fn(&OpKind) -> bool| group.ops.iter().any(|&o| is(&step.graph.ops[o].kind));
    match () {
        () if any(|k| matches!(k, OpKind::Attention(_) | OpKind::AttentionGrad { .. })) => Work::Attention,
        () if any(|k| matches!(k, OpKind::Dot(_) | OpKind::Convolution(_))) => Work::Product,
        () => Work::Other,
    }
}

fn cost_of<'c>(layers: &'c mut [LayerCost], everywhere: &'c mut LayerCost, layer: Option<u32>) -> &'c mut LayerCost {
    match layer {
        Some(l) => &mut layers[l as usize],
        None => everywhere,
    }
}

/// The highest sum over (position, change) events.
fn peak(mut events: Vec<(usize, f64)>) -> f64 {
    events.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut now, mut most) = (0.0f64, 0.0f64);
    for (_, change) in events {
        now += change;
        most = most.max(now);
    }
    most
}

/// Where every group's writes count.
fn held(step: &StepGraph, stored: &SecondaryMap<ValueId, bool>, groups: &Groups) -> Vec<Vec<Option<Held>>> {
    let phase = |g: usize| groups.groups[g].ops.first().map_or(Phase::After, |&o| step.phase_of(o));
    // The last phase that reads each value.
    let mut last: SecondaryMap<ValueId, Option<Phase>> = SecondaryMap::new();
    for (g, group) in groups.groups.iter().enumerate() {
        for r in &group.reads {
            last[r.value] = last[r.value].max(Some(phase(g)));
        }
    }
    let mut replaced: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for (o, &v) in step.outputs.iter().zip(&step.graph.outputs) {
        replaced[v] |= o.replaces.is_some();
    }
    let of = |g: usize, v: ValueId| {
        let group = &groups.groups[g];
        if group.output.is_some() || !stored[v] || replaced[v] {
            return None;
        }
        let accumulates = group.ops.iter().any(|&o| step.accumulates(o));
        Some(match (phase(g), last[v]) {
            (Phase::Before, _) => Held::Resident,
            (Phase::Forward | Phase::Backward, last) if accumulates || last == Some(Phase::After) => Held::Gradient,
            (Phase::Forward, Some(Phase::Backward)) => Held::Saved,
            _ => Held::Transient,
        })
    };
    (0..groups.groups.len()).map(|g| groups.groups[g].writes.iter().map(|w| of(g, w.value)).collect()).collect()
}

/// Of every group's writes the last group of its layer that reads it.
fn until(groups: &Groups, layer_of: &[Option<u32>]) -> Vec<Vec<u32>> {
    let mut until: Vec<Vec<u32>> = (0..).zip(&groups.groups).map(|(g, group)| vec![g; group.writes.len()]).collect();
    let mut maker: SecondaryMap<ValueId, Option<(usize, usize)>> = SecondaryMap::new();
    for (g, group) in groups.groups.iter().enumerate() {
        for r in &group.reads {
            if let Some((from, w)) = maker[r.value].filter(|m| layer_of[m.0] == layer_of[g]) {
                until[from][w] = g as u32;
            }
        }
        if group.output.is_none() {
            group.writes.iter().enumerate().for_each(|(w, a)| maker[a.value] = Some((g, w)));
        }
    }
    until
}

/// Whether a node is free to choose, for restrictions that bind nothing.
pub fn anything(_: &Space<'_>, _: Node, _: usize) -> bool {
    true
}
