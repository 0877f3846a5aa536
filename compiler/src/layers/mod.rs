//! Layers: a step cut into consecutive pieces that a pipeline's stages are made of.
//!
//! Forward ops, in the file's order, are cut where the names say that a repeated block begins ([`scopes`]), else where little crosses. A layer *holds* what it computes and what it reads in the forward. A backward op whose
//! uses all lead to the update of one parameter that one layer reads belongs to that layer; any other goes to the latest layer that holds every
//! forward value it reads and is not later than its cotangents' layers. Updates belong to their parameter's layer. What only depends on scalars
//! (step counters, learning rates) is computed on every stage.

mod scopes;

use crate::shard::groups::{is_view, leaves};
use crate::step::StepGraph;
use ir::op::OpKind;
use ir::plan::{Layer, Recompute};
use ir::program::{BufferKind, Phase};
use ir::{OpId, SecondaryMap, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// The layers of a step.
#[derive(Clone, Debug)]
pub struct Layers {
    /// Layer of every op, by op number.
    pub of: Vec<u32>,
    /// Ops that every stage computes for itself.
    pub everywhere: Vec<bool>,
    /// Layer of every input that one layer keeps; none for inputs that every stage reads for itself.
    pub home: Vec<Option<u32>>,
    /// Names and kinds.
    pub layers: Vec<Layer>,
}

/// At most so many layers; neighbours are joined beyond.
const MOST: usize = 48;
/// A scalar result is at most so many elements.
const SMALL: u64 = 64;

struct Facts<'a> {
    step: &'a StepGraph,
    /// Leaves of every op that is not a view.
    reads: Vec<BTreeSet<ValueId>>,
    input_of: BTreeMap<ValueId, usize>,
    /// Whether layers are the blocks that names tell.
    scoped: std::cell::Cell<bool>,
}

/// Cuts a step into layers. `stored` says which values lie in memory.
pub fn layers(step: &StepGraph, stored: &SecondaryMap<ValueId, bool>) -> Layers {
    let graph = &step.graph;
    let mut reads = vec![BTreeSet::new(); graph.ops.len()];
    for (id, op) in graph.ops.iter().filter(|(id, _)| !is_view(graph, *id)) {
        op.operands.iter().for_each(|&v| leaves(graph, v, &mut reads[id.0 as usize]));
    }
    let input_of = graph.inputs.iter().enumerate().map(|(i, &v)| (v, i)).collect();
    let facts = Facts { step, reads, input_of, scoped: std::cell::Cell::new(false) };
    let everywhere = facts.everywhere();
    let mut of = facts.forward(stored, &everywhere);
    let count = of.iter().copied().max().unwrap_or(0) + 1;
    let readers = facts.forward_readers(&of);
    let leads = facts.leads();
    let home_of_parameter = |i: usize| readers[i].first().copied();
    // Backward and update, in graph order.
    let mut held: BTreeMap<ValueId, BTreeSet<u32>> = BTreeMap::new();
    for (id, _) in graph.ops.iter().filter(|(id, _)| !is_view(graph, *id) && (step.phase_of(*id) == Phase::Forward || facts.prepares(*id))) {
        for &v in &facts.reads[id.0 as usize] {
            held.entry(v).or_default().insert(of[id.0 as usize]);
        }
        for &r in &graph.ops[id].results {
            held.entry(r).or_default().insert(of[id.0 as usize]);
        }
    }
    for (id, op) in graph.ops.iter() {
        let i = id.0 as usize;
        let phase = step.phase_of(id);
        if is_view(graph, id) || phase <= Phase::Forward || everywhere[i] {
            continue;
        }
        let made = |v: &ValueId| graph.def_op(*v).map(|d| (d, step.phase_of(d)));
        if matches!(op.kind, OpKind::AllReduce { .. })
            && let Some(d) = facts.reads[i].iter().find_map(|v| graph.def_op(*v))
        {
            of[i] = of[d.0 as usize];
            continue;
        }
        let single = leads[i].filter(|&p| readers[p].len() == 1 || phase == Phase::After).and_then(home_of_parameter);
        let cotangents =
            facts.reads[i].iter().filter_map(made).filter(|(d, p)| *p >= Phase::Backward && !everywhere[d.0 as usize]).map(|(d, _)| of[d.0 as usize]).min();
        of[i] = match (single, phase) {
            (Some(layer), _) => layer,
            (None, Phase::Backward) => {
                let bound = cotangents.unwrap_or(count - 1);
                let sets: Vec<&BTreeSet<u32>> = facts.reads[i].iter().filter(|v| facts.is_held(**v)).filter_map(|v| held.get(v)).collect();
                let all = (0..=bound).rev().find(|l| sets.iter().all(|s| s.contains(l)));
                all.unwrap_or_else(|| sets.iter().filter_map(|s| s.first().copied()).min().unwrap_or(bound).min(bound))
            }
            (None, _) => cotangents.or_else(|| facts.reads[i].iter().filter_map(|v| held.get(v)?.first().copied()).min()).unwrap_or(0),
        };
    }
    let home = (0..step.inputs.len()).map(|i| facts.home(i, &of, &readers, &everywhere)).collect();
    let layers = facts.describe(&of, count, &everywhere);
    Layers { of, everywhere, home, layers }
}

impl Facts<'_> {
    /// Whether a value is tied to layers: a forward result or a parameter.
    fn is_held(&self, v: ValueId) -> bool {
        match self.input_of.get(&v) {
            Some(&i) => self.step.inputs[i].kind == BufferKind::Parameter,
            None => self.step.graph.def_op(v).is_some_and(|d| self.step.phase_of(d) == Phase::Forward || self.prepares(d)),
        }
    }

    /// Whether an op makes something of a parameter before the microbatches.
    fn prepares(&self, op: OpId) -> bool {
        let parameter = |v: &ValueId| self.input_of.get(v).is_some_and(|&i| self.step.inputs[i].kind == BufferKind::Parameter);
        self.step.phase_of(op) == Phase::Before && self.reads[op.0 as usize].iter().any(parameter)
    }

    /// Ops with small results from small state, whose own new value needs nothing else, and from other such ops.
    fn everywhere(&self) -> Vec<bool> {
        let graph = &self.step.graph;
        let small = |v: ValueId| graph.ty(v).elements() <= SMALL;
        let mut allowed: Vec<bool> = (0..self.step.inputs.len()).map(|k| self.step.inputs[k].kind == BufferKind::Optimizer && small(graph.inputs[k])).collect();
        loop {
            let mut flags = vec![false; graph.ops.len()];
            for (id, op) in graph.ops.iter() {
                let i = id.0 as usize;
                if is_view(graph, id) || matches!(op.kind, OpKind::AllReduce { .. }) {
                    continue;
                }
                flags[i] = op.results.iter().all(|&r| small(r))
                    && self.reads[i].iter().all(|&v| match (self.input_of.get(&v), graph.def_op(v)) {
                        (Some(&k), _) => allowed[k],
                        (None, Some(d)) => flags[d.0 as usize],
                        (None, None) => false,
                    });
            }
            let before = allowed.clone();
            for (o, output) in self.step.outputs.iter().enumerate() {
                let Some(k) = output.replaces else { continue };
                let mut roots = BTreeSet::new();
                leaves(graph, graph.outputs[o], &mut roots);
                let own = roots.iter().all(|&r| match (self.input_of.get(&r), graph.def_op(r)) {
                    (Some(&j), _) => before[j],
                    (None, Some(d)) => flags[d.0 as usize],
                    (None, None) => false,
                });
                allowed[k as usize] &= own;
            }
            if allowed == before {
                return flags;
            }
        }
    }

    /// Layers of forward ops: cut where the fewest stored bytes cross.
    fn forward(&self, stored: &SecondaryMap<ValueId, bool>, everywhere: &[bool]) -> Vec<u32> {
        let graph = &self.step.graph;
        let mut of = vec![0u32; graph.ops.len()];
        // Ops that read data alone (masks, one-hot labels) go with their first reader, and weigh nothing at a cut.
        let mut light = vec![false; graph.ops.len()];
        let mut list: Vec<OpId> = Vec::new();
        for (id, _) in graph.ops.iter().filter(|(id, _)| !is_view(graph, *id) && self.step.phase_of(*id) <= Phase::Forward) {
            let i = id.0 as usize;
            light[i] = self.reads[i].iter().all(|&v| match (self.input_of.get(&v), graph.def_op(v)) {
                (Some(&k), _) => self.step.inputs[k].kind != BufferKind::Parameter,
                (None, Some(d)) => light[d.0 as usize],
                (None, None) => true,
            });
            if !light[i] && !everywhere[i] && self.step.phase_of(id) == Phase::Forward {
                list.push(id);
            }
        }
        if list.is_empty() {
            return of;
        }
        if let Some(segments) = scopes::segments(graph, &list) {
            self.scoped.set(true);
            list.iter().zip(segments).for_each(|(id, s)| of[id.0 as usize] = s);
            self.follow_readers(&light, everywhere, &mut of);
            return of;
        }
        let position: BTreeMap<OpId, usize> = list.iter().enumerate().map(|(p, &o)| (o, p)).collect();
        let mut last_use: BTreeMap<ValueId, usize> = BTreeMap::new();
        for &id in &list {
            for &v in &self.reads[id.0 as usize] {
                last_use.insert(v, position[&id]);
            }
        }
        // crossing[p]: bytes made at or before op p and read after it.
        let mut change = vec![0i64; list.len() + 1];
        for (&v, &last) in &last_use {
            if let Some(&p) = graph.def_op(v).and_then(|d| position.get(&d))
                && last > p
            {
                // What stays inside a kernel would have to be stored to be sent.
                let bytes = graph.ty(v).bytes() as i64 * if stored[v] { 1 } else { 2 };
                change[p] += bytes;
                change[last] -= bytes;
            }
        }
        let crossing: Vec<i64> = change
            .iter()
            .scan(0, |sum, c| {
                *sum += c;
                Some(*sum)
            })
            .collect();
        let weight: Vec<f64> = list.iter().map(|&id| self.weight(id)).collect();
        let total: f64 = weight.iter().sum();
        let mut done = 0.0;
        let mut inner: Vec<(usize, i64)> = Vec::new();
        let mut share = Vec::with_capacity(list.len());
        for p in 0..list.len() {
            done += weight[p];
            share.push(done / total);
            if p + 1 < list.len() && crossing[p] > 0 {
                inner.push((p, crossing[p]));
            }
        }
        let middle = inner.iter().filter(|(p, _)| (0.05..0.95).contains(&share[*p])).map(|c| c.1).min().or(inner.iter().map(|c| c.1).min());
        let mut cuts: Vec<usize> = inner.iter().filter(|(_, b)| Some(*b) <= middle.map(|m| m + m / 10)).map(|c| c.0).collect();
        // Neighbouring cuts with next to no work between them are one.
        cuts.dedup_by(|b, a| share[*b] - share[*a] < 1e-3);
        while cuts.len() + 1 > MOST {
            let lightest =
                (1..cuts.len()).min_by(|&a, &b| (share[cuts[a]] - share[cuts[a - 1]]).total_cmp(&(share[cuts[b]] - share[cuts[b - 1]]))).unwrap_or(0);
            cuts.remove(lightest);
        }
        for (p, &id) in list.iter().enumerate() {
            of[id.0 as usize] = cuts.iter().filter(|&&c| c < p).count() as u32;
        }
        self.follow_readers(&light, everywhere, &mut of);
        of
    }

    /// Light ops, and what is made of parameters before the microbatches, follow their first reader.
    fn follow_readers(&self, light: &[bool], everywhere: &[bool], of: &mut [u32]) {
        let graph = &self.step.graph;
        let mut first: BTreeMap<OpId, u32> = BTreeMap::new();
        for id in graph.ops.keys().rev().filter(|&id| !is_view(graph, id) && self.step.phase_of(id) <= Phase::Forward) {
            let i = id.0 as usize;
            if light[i] || everywhere[i] || self.step.phase_of(id) == Phase::Before {
                of[i] = first.get(&id).copied().unwrap_or(0);
            }
            for d in self.reads[i].iter().filter_map(|&v| graph.def_op(v)) {
                let l = first.entry(d).or_insert(of[i]);
                *l = (*l).min(of[i]);
            }
        }
    }

    /// Rough work of an op.
    fn weight(&self, id: OpId) -> f64 {
        let graph = &self.step.graph;
        let op = &graph.ops[id];
        let out: u64 = op.results.iter().map(|&r| graph.ty(r).elements()).sum();
        match &op.kind {
            OpKind::Dot(d) => {
                let k: u64 = d.lhs_contract.iter().map(|&c| graph.ty(op.operands[0]).shape[c]).product();
                out as f64 * k as f64
            }
            OpKind::Attention(a) | OpKind::AttentionGrad { attention: a, .. } => {
                let types: Vec<&ir::TensorType> = op.operands.iter().map(|&v| graph.ty(v)).collect();
                out as f64 * 2.0 * a.extent(&types, ir::AttentionDim::Key).unwrap_or(1) as f64
            }
            OpKind::Convolution(_) => out as f64 * graph.ty(op.operands[1]).elements() as f64 / graph.ty(op.results[0]).shape.last().map_or(1.0, |&n| n as f64),
            _ => out as f64,
        }
    }

    /// Layers whose forward reads each input.
    fn forward_readers(&self, of: &[u32]) -> Vec<BTreeSet<u32>> {
        let mut readers = vec![BTreeSet::new(); self.step.inputs.len()];
        for (i, reads) in self.reads.iter().enumerate() {
            if self.step.phase[i] <= Phase::Forward {
                reads.iter().filter_map(|v| self.input_of.get(v)).for_each(|&k| {
                    readers[k].insert(of[i]);
                });
            }
        }
        readers
    }

    /// For every op the one parameter (by input) whose update all its uses lead to.
    fn leads(&self) -> Vec<Option<usize>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Lead {
            Nothing,
            One(usize),
            Many,
        }
        let graph = &self.step.graph;
        let join = |a: Lead, b: Lead| match (a, b) {
            (Lead::Nothing, x) | (x, Lead::Nothing) => x,
            (x, y) if x == y => x,
            _ => Lead::Many,
        };
        let mut of_value: BTreeMap<ValueId, Lead> = BTreeMap::new();
        for (o, output) in self.step.outputs.iter().enumerate() {
            let v = graph.outputs[o];
            let mut roots = BTreeSet::new();
            leaves(graph, v, &mut roots);
            let lead = match output.replaces {
                Some(i) if self.step.inputs[i as usize].kind == BufferKind::Parameter => Lead::One(i as usize),
                Some(_) => Lead::Nothing,
                None => Lead::Many,
            };
            for r in roots {
                let e = of_value.entry(r).or_insert(Lead::Nothing);
                *e = join(*e, lead);
            }
        }
        let mut leads = vec![None; graph.ops.len()];
        for (id, op) in graph.ops.iter().rev().filter(|(id, _)| !is_view(graph, *id)) {
            let lead = op.results.iter().fold(Lead::Nothing, |l, r| join(l, of_value.get(r).copied().unwrap_or(Lead::Nothing)));
            if let Lead::One(p) = lead {
                leads[id.0 as usize] = Some(p);
            }
            for &v in &self.reads[id.0 as usize] {
                let e = of_value.entry(v).or_insert(Lead::Nothing);
                *e = join(*e, lead);
            }
        }
        leads
    }

    /// The layer that keeps an input.
    fn home(&self, i: usize, of: &[u32], readers: &[BTreeSet<u32>], everywhere: &[bool]) -> Option<u32> {
        let graph = &self.step.graph;
        let v = graph.inputs[i];
        if self.step.inputs[i].kind == BufferKind::Data {
            return None;
        }
        // State lives where its new value is made.
        let output = self.step.outputs.iter().position(|o| o.replaces == Some(i as u32));
        let mut roots = BTreeSet::new();
        if let Some(o) = output {
            leaves(graph, graph.outputs[o], &mut roots);
        }
        match roots.iter().find_map(|&r| graph.def_op(r)) {
            Some(d) if everywhere[d.0 as usize] => None,
            Some(d) => Some(of[d.0 as usize]),
            None if graph.ty(v).elements() <= SMALL && self.step.inputs[i].kind == BufferKind::Optimizer => None,
            None => Some(readers[i].first().copied().unwrap_or(0)),
        }
    }

    /// Names, and equal numbers for layers of equal structure.
    fn describe(&self, of: &[u32], count: u32, everywhere: &[bool]) -> Vec<Layer> {
        let graph = &self.step.graph;
        let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
        (0..count)
            .map(|layer| {
                let ops: Vec<OpId> = graph
                    .ops
                    .keys()
                    .filter(|&id| !is_view(graph, id) && of[id.0 as usize] == layer && !everywhere[id.0 as usize] && self.step.phase_of(id) == Phase::Forward)
                    .collect();
                let mut place: BTreeMap<ValueId, usize> = BTreeMap::new();
                let mut text = String::new();
                for &id in &ops {
                    let op = &graph.ops[id];
                    let operands: Vec<String> =
                        self.reads[id.0 as usize].iter().map(|v| place.get(v).map_or_else(|| graph.ty(*v).to_string(), ToString::to_string)).collect();
                    text += &format!("{:?}{:?}{}\n", op.kind, operands, graph.ty(op.results[0]));
                    let n = place.len();
                    place.insert(op.results[0], n);
                }
                let next = kinds.len() as u32;
                let kind = *kinds.entry(text).or_insert(next);
                let named = |id: Option<&OpId>| id.map_or_else(String::new, |&id| graph.display_name(graph.ops[id].results[0]));
                let scope = ops.first().and_then(|&id| scopes::block(&graph.display_name(graph.ops[id].results[0])).map(str::to_owned));
                let name = scope.filter(|_| self.scoped.get()).unwrap_or_else(|| format!("layer {layer} ({} … {})", named(ops.first()), named(ops.last())));
                Layer { name, kind, recompute: Recompute::None }
            })
            .collect()
    }
}
