//! What one layer costs on one mesh: the small integer program of a step whose copies are tied, solved and priced.

use super::runs::{self, Run};
use crate::batch::phases::Analysis;
use crate::canonical::Canonical;
use crate::kernels::stored::stored_values;
use crate::layers::{self, Layers};
use crate::pipeline::microbatched;
use crate::recompute::Recomputation;
use crate::shard::groups::{self, Groups};
use crate::shard::problem::{self, Choices, Filter, Instance, Node, Space, Tie, Weights};
use crate::shard::reshard::Resharder;
use crate::shard::strategy::Context;
use crate::step::StepGraph;
use crate::stop::Stop;
use ir::plan::{Recompute, SolveReport};
use ir::program::{BufferKind, Phase};
use ir::{Diagnostic, Mesh, SecondaryMap, Sharding, ValueId};
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
        let step = StepGraph::new(&microbatched(canonical, analysis, microbatches), &canonical.interface);
        let stored = stored_values(&step);
        // What is kept is what enters a layer as it is planned: a whole block, not its halves.
        let layers = runs::join_periods(&layers::layers(&step, &stored));
        if mode == Recompute::None {
            return Prepared::of(step, stored, layers, full, ends_apart);
        }
        let (step, layers) = Recomputation::new(&step, &layers, &stored).apply(&vec![mode; layers.layers.len()]);
        let stored = stored_values(&step);
        Prepared::of(step, stored, layers, full, ends_apart)
    }

    /// Ties the copies of a step whose layers are known.
    pub fn of(step: StepGraph, stored: SecondaryMap<ValueId, bool>, layers: Layers, full: &dyn Fn(&Layers, u32, u32) -> u32, ends_apart: bool) -> Prepared {
        let layers = runs::join_periods(&layers);
        let groups = groups::groups(&step.graph, &|o| {
            let i = o.0 as usize;
            step.phase_of(o) as u64 | u64::from(layers.of[i]) << 8 | u64::from(layers.everywhere[i]) << 4
        });
        let mut runs = runs::runs(&layers, full, ends_apart);
        let tie = runs::tie(&step, &layers, &groups, &mut runs);
        let layer_of = groups
            .groups
            .iter()
            .map(|g| match (g.output, g.ops.first()) {
                (Some(p), _) => step.outputs[p].replaces.and_then(|i| layers.home[i as usize]),
                (None, Some(op)) if !layers.everywhere[op.0 as usize] => Some(layers.of[op.0 as usize]),
                _ => None,
            })
            .collect();
        let held = held(&step, &stored, &groups);
        Prepared { step, stored, layers, groups, runs, tie, layer_of, held }
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
        }
    }

    /// Bytes of the whole model, cut over nothing: what stays for the step (state, gradients), and what one microbatch keeps from forward to backward.
    pub fn bytes(&self) -> (f64, f64) {
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
    /// The solve.
    pub report: SolveReport,
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
    space: Space<'a>,
    mesh: &'a Mesh,
    resharder: Resharder<'a>,
    stop: Stop,
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
        Bench { prepared, space: Space::tied(cx, Some(&prepared.tie)), mesh: cx.mesh, resharder: Resharder::new(cx.model, cx.mesh, 0), stop: Stop::default() }
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
        let weights = Weights { phases, tie: Some(&self.prepared.tie) };
        let mut instance = Instance::new(&self.space, allow, &weights, &mut self.resharder)?;
        for limit in limits {
            self.add_limit(&mut instance, limit);
        }
        let start = start.and_then(|picks| instance.choice(picks));
        let options = self.stop.limited(Options { work, gap: 1e-4, start, ..Options::default() }, problem::PICO);
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
    pub fn choices(&mut self, entry: &Entry, allow: &Filter<'_>, phases: [f64; 4]) -> Result<Choices, Diagnostic> {
        let weights = Weights { phases, tie: Some(&self.prepared.tie) };
        let instance = Instance::new(&self.space, allow, &weights, &mut self.resharder)?;
        let choice = instance.choice(&entry.picks).unwrap_or_else(|| vec![0; instance.problem.nodes.len()]);
        Ok(problem::choices(&self.space, &instance, &choice, entry.report.clone()))
    }

    fn bytes(&self, v: ValueId, s: &Sharding) -> f64 {
        let ty = self.prepared.step.graph.ty(v);
        ((s.local_shape(&ty.shape, self.mesh).iter().product::<u64>() * ty.dtype.bytes()).max(1).next_multiple_of(64)) as f64
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
        let p = self.prepared;
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
            let bytes = slots * self.bytes(v, &self.space.inputs[i][picks[i]]);
            cost_of(&mut layers, &mut everywhere, layer_of(i)).resident += bytes;
        }
        let mut done: BTreeSet<(ValueId, Phase, Option<u32>, Sharding)> = BTreeSet::new();
        let mut sent: BTreeSet<(ValueId, u32, bool)> = BTreeSet::new();
        let mut copied: BTreeSet<(ValueId, u32)> = BTreeSet::new();
        let mut shared = Vec::new();
        let devices = self.mesh.devices();
        let cluster = self.space.cx.model.cluster();
        let route = cluster.route(0, devices.min(cluster.devices() - devices), devices);
        // What is alive inside a layer's phase: (position, change) of bytes.
        let mut alive: Vec<[Vec<(usize, f64)>; 4]> = vec![Default::default(); count];
        for (g, group) in p.groups.groups.iter().enumerate() {
            let (phase, layer) = (self.space.phase(g), layer_of(inputs + g));
            let strategy = &self.space.groups[g][picks[inputs + g]];
            let mut communication = 0.0;
            for (r, access) in group.reads.iter().enumerate() {
                let Some((from, write)) = maker[access.value] else { continue };
                let have = if from < inputs { &self.space.inputs[from][picks[from]] } else { &self.space.groups[from - inputs][picks[from]].writes[write] };
                let want = &strategy.reads[r];
                let ty = graph.ty(access.value);
                if have != want && done.insert((access.value, phase, layer, want.clone())) {
                    communication += self.resharder.time(ty, have, want).map_or(0.0, |t| t.0);
                    let copy = self.bytes(access.value, want);
                    if let (Some(l), None) = (layer, group.output) {
                        alive[l as usize][phase as usize].extend([(g, copy), (g + 1, -copy)]);
                    }
                }
                // What crosses between layers in the forward or the backward would be sent where a stage ends between them.
                let source = layer_of(from);
                let once = if from < inputs { p.step.inputs[from].kind == BufferKind::Parameter } else { self.space.phase(from - inputs) == Phase::Before };
                if let (Some(home), Some(reader), true) = (source, layer, once && matches!(phase, Phase::Forward | Phase::Backward))
                    && home != reader
                    && copied.insert((access.value, reader))
                {
                    let bytes = self.bytes(access.value, want);
                    shared.push(Shared { home, reader, bytes, send: self.space.cx.model.send(ir::Bytes(bytes as u64), &route).0 });
                }
                if let (Some(a), Some(b), true) = (source, layer, from >= inputs && matches!(phase, Phase::Forward | Phase::Backward))
                    && a != b
                    && matches!(self.space.phase(from - inputs), Phase::Forward | Phase::Backward)
                {
                    let time = self.space.cx.model.send(ir::Bytes(self.bytes(access.value, want) as u64), &route).0;
                    for l in a.min(b)..a.max(b) {
                        if sent.insert((access.value, l, a > b)) {
                            let crossing = &mut layers[l as usize].crossing;
                            *(if a > b { &mut crossing.1 } else { &mut crossing.0 }) += time;
                        }
                    }
                }
            }
            for (w, access) in group.writes.iter().enumerate() {
                let bytes = self.bytes(access.value, &strategy.writes[w]);
                let cost = cost_of(&mut layers, &mut everywhere, layer);
                match p.held[g][w] {
                    Some(Held::Resident) => cost.resident += bytes,
                    Some(Held::Gradient) => cost.gradients += bytes,
                    Some(Held::Saved) => cost.saved += bytes,
                    Some(Held::Transient) => {
                        if let Some(l) = layer {
                            let reads = |h: &usize| layer_of(inputs + h) == layer && p.groups.groups[*h].reads.iter().any(|r| r.value == access.value);
                            let end = (g + 1..p.groups.groups.len()).rev().find(reads).unwrap_or(g);
                            alive[l as usize][phase as usize].extend([(g, bytes), (end + 1, -bytes)]);
                        }
                    }
                    None => {}
                }
            }
            let cost = cost_of(&mut layers, &mut everywhere, layer);
            let seconds = strategy.compute.0 + communication;
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
        Entry { mesh: self.mesh.clone(), layers, everywhere, shared, picks, report }
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

/// Whether a node is free to choose, for restrictions that bind nothing.
pub fn anything(_: &Space<'_>, _: Node, _: usize) -> bool {
    true
}
