//! Runs of identical layers, and which nodes of the sharding problem are copies of each other.
//!
//! The first and the last layer of a run may stay apart, since what surrounds them differs; the others are copies. A node of one copy corresponds to the node at
//! the same place of another: the same ops on the same types, in graph order. Scalars that chain through all layers (a clipping norm) are left alone.
//! Invariant: two layers whose nodes do not correspond one by one are not tied.

use crate::layers::Layers;
use crate::shard::groups::Groups;
use crate::shard::problem::Tie;
use crate::step::StepGraph;
use ir::ValueId;
use ir::plan::Layer;
use std::collections::BTreeMap;

/// Consecutive identical layers of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first layer.
    pub first: u32,
    /// How many layers the step has of it.
    pub copies: u32,
    /// How many layers the model has of it.
    pub layers: u32,
    /// Whether the first and the last are planned for themselves.
    pub ends_apart: bool,
}

impl Run {
    /// The tied layers of the step: the first of them and how many.
    pub fn tied(&self) -> (u32, u32) {
        if self.ends_apart { (self.first + 1, self.copies.saturating_sub(2)) } else { (self.first, self.copies) }
    }
}

/// Fewer layers than this are no run: its two ends stay apart.
const SHORTEST: u32 = 4;
/// Values of at most so many elements are left alone.
const SMALL: u64 = 64;

/// The runs of a step: stretches of equal kinds. `full` says how many layers a run of the model has, given its first layer and its length in the step.
pub fn runs(layers: &Layers, full: &dyn Fn(&Layers, u32, u32) -> u32, ends_apart: bool) -> Vec<Run> {
    let kinds: Vec<u32> = layers.layers.iter().map(|l| l.kind).collect();
    let mut out: Vec<Run> = Vec::new();
    let mut first = 0;
    for stretch in kinds.chunk_by(|a, b| a == b) {
        let copies = stretch.len() as u32;
        let layers = full(layers, first, copies);
        if copies >= SHORTEST || layers > copies {
            out.push(Run { first, copies, layers, ends_apart });
        }
        first += copies;
    }
    // What a stack has fewer of than the model is missing once: the longest run of the stack stands for it.
    let stack = |r: &Run| layers.layers[r.first as usize].name.rsplit_once('.').map(|(s, _)| s.to_owned());
    let longest = |r: &Run| out.iter().filter(|o| o.layers > o.copies && stack(o) == stack(r)).map(|o| (o.copies, std::cmp::Reverse(o.first))).max();
    let kept: Vec<bool> = out.iter().map(|r| r.layers == r.copies || longest(r) == Some((r.copies, std::cmp::Reverse(r.first)))).collect();
    out.iter_mut().zip(kept).for_each(|(r, kept)| r.layers = if kept { r.layers } else { r.copies });
    out.retain(|r| r.copies >= SHORTEST || r.layers > r.copies);
    out
}

/// Joins layers whose kinds repeat in a period (a block of attention, then one of products, then the next two) into one each, where that makes a longer run of
/// identical layers than there is.
#[must_use]
pub fn join_periods(layers: &Layers) -> Layers {
    let kinds: Vec<u32> = layers.layers.iter().map(|l| l.kind).collect();
    let n = kinds.len();
    let single = kinds.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0);
    // The stretch that repeats most: (layers covered, period, first).
    let mut best = (single, 1, 0);
    for period in 2..=n / SHORTEST as usize {
        let mut first = 0;
        while first + period < n {
            let repeats = (first + period..n).take_while(|&i| kinds[i] == kinds[i - period]).count() / period + 1;
            if repeats >= SHORTEST as usize && repeats * period > best.0 {
                best = (repeats * period, period, first);
            }
            first += 1;
        }
    }
    let (covered, period, first) = best;
    if period == 1 {
        return layers.clone();
    }
    let new: Vec<u32> = (0..n)
        .map(|l| match l {
            _ if l < first => l,
            _ if l < first + covered => first + (l - first) / period,
            _ => l - covered + covered / period,
        } as u32)
        .collect();
    // Equal stretches have equal kinds.
    let mut numbers: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    let mut joined: Vec<Layer> = Vec::new();
    for members in (0..n).collect::<Vec<_>>().chunk_by(|&a, &b| new[a] == new[b]) {
        let key: Vec<u32> = members.iter().map(|&l| kinds[l]).collect();
        let next = numbers.len() as u32;
        let kind = *numbers.entry(key).or_insert(next);
        let name = match members {
            [one] => layers.layers[*one].name.clone(),
            _ => format!("layers {} to {}", members[0], members[members.len() - 1]),
        };
        joined.push(Layer { name, kind, recompute: layers.layers[members[0]].recompute });
    }
    Layers {
        of: layers.of.iter().map(|&l| new[l as usize]).collect(),
        everywhere: layers.everywhere.clone(),
        home: layers.home.iter().map(|h| h.map(|l| new[l as usize])).collect(),
        layers: joined,
    }
}

/// Which layer of the step stands for each layer of the model, first to last.
pub fn expand(layers: u32, runs: &[Run]) -> Vec<u32> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < layers {
        match runs.iter().find(|r| r.first == at) {
            Some(run) if run.ends_apart && run.copies >= 3 => {
                out.push(at);
                out.extend((2..run.layers).map(|_| at + 1));
                out.push(at + run.copies - 1);
                at += run.copies;
            }
            Some(run) if !run.ends_apart => {
                out.extend((0..run.layers).map(|_| at));
                at += run.copies;
            }
            _ => {
                out.push(at);
                at += 1;
            }
        }
    }
    out
}

/// What a node is, for comparing copies.
type Signature = u64;

/// Nodes (inputs, then groups) of every layer with what they are, in graph order.
fn nodes(step: &StepGraph, layers: &Layers, groups: &Groups) -> Vec<Vec<(usize, Signature)>> {
    use std::hash::{Hash, Hasher};
    let graph = &step.graph;
    let inputs = step.inputs.len();
    let mut of = vec![Vec::new(); layers.layers.len()];
    let large = |v: ValueId| graph.ty(v).elements() > SMALL;
    let hash = |write: &dyn Fn(&mut rustc_hash::FxHasher)| {
        let mut h = rustc_hash::FxHasher::default();
        write(&mut h);
        h.finish()
    };
    for (i, &v) in graph.inputs.iter().enumerate() {
        if let Some(l) = layers.home[i].filter(|_| large(v)) {
            let of_type = hash(&|h| (graph.ty(v), step.inputs[i].kind, step.inputs[i].microbatched).hash(h));
            of[l as usize].push((i, of_type));
        }
    }
    let mut state_layer: BTreeMap<usize, u32> = BTreeMap::new();
    for (p, output) in step.outputs.iter().enumerate() {
        if let Some(l) = output.replaces.and_then(|i| layers.home[i as usize]) {
            state_layer.insert(p, l);
        }
    }
    for (g, group) in groups.groups.iter().enumerate() {
        let layer = match (group.output, group.ops.first()) {
            (Some(p), _) => state_layer.get(&p).copied(),
            (None, Some(op)) if !layers.everywhere[op.0 as usize] => Some(layers.of[op.0 as usize]),
            _ => None,
        };
        let Some(layer) = layer.filter(|_| group.writes.iter().any(|w| large(w.value))) else { continue };
        let signature = hash(&|h| {
            for m in &group.members {
                format!("{:?}", graph.ops[m.op].kind).hash(h);
                graph.ops[m.op].results.iter().for_each(|&r| graph.ty(r).hash(h));
            }
            group.ops.first().map(|&o| step.phase_of(o)).hash(h);
            group.reads.iter().chain(&group.writes).for_each(|a| (graph.ty(a.value), &a.dims).hash(h));
            group.factors.len().hash(h);
        });
        of[layer as usize].push((inputs + g, signature));
    }
    of
}

/// Ties the copies of every run; ends that are not like the others stay apart. `runs` that turn out not to correspond are dropped, and stand for no more than their own layers.
pub fn tie(step: &StepGraph, layers: &Layers, groups: &Groups, runs: &mut Vec<Run>) -> Tie {
    let nodes = nodes(step, layers, groups);
    let count = step.inputs.len() + groups.groups.len();
    let mut tie = Tie { of: (0..count as u32).collect(), copy: vec![None; count], runs: vec![] };
    runs.retain_mut(|run| {
        let same = |(first, copies): (u32, u32)| {
            copies > 0 && (first..first + copies).all(|l| nodes[l as usize].iter().map(|n| n.1).eq(nodes[first as usize].iter().map(|n| n.1)))
        };
        if !run.ends_apart && !same(run.tied()) {
            run.ends_apart = true;
        }
        let (first, copies) = run.tied();
        if !same((first, copies)) {
            return false;
        }
        let number = tie.runs.len() as u32;
        tie.runs.push((copies, run.layers - (run.copies - copies)));
        for c in 0..copies {
            for (k, &(node, _)) in nodes[(first + c) as usize].iter().enumerate() {
                // The earliest of the copies decides, whichever layer it is in: arguments may be listed in any order.
                tie.of[node] = (first..first + copies).map(|l| nodes[l as usize][k].0).min().unwrap_or(node) as u32;
                tie.copy[node] = Some((number, c));
            }
        }
        true
    });
    tie
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternating_layers_are_joined() {
        let kinds = [0u32, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4];
        let layers = Layers {
            of: (0..11).collect(),
            everywhere: vec![false; 11],
            home: vec![],
            layers: kinds.iter().map(|&kind| Layer { name: String::new(), kind, ..Layer::default() }).collect(),
        };
        let joined = join_periods(&layers);
        assert_eq!(joined.of, [0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]);
        let kinds: Vec<u32> = joined.layers.iter().map(|l| l.kind).collect();
        assert_eq!(kinds, [0, 1, 2, 2, 2, 2, 3]);
    }

    #[test]
    fn a_run_is_expanded_between_its_ends() {
        let run = Run { first: 1, copies: 4, layers: 7, ends_apart: true };
        assert_eq!(expand(6, &[run]), [0, 1, 2, 2, 2, 2, 2, 4, 5]);
        assert_eq!(expand(6, &[Run { ends_apart: false, ..run }]), [0, 1, 1, 1, 1, 1, 1, 1, 5]);
        assert_eq!(expand(3, &[]), [0, 1, 2]);
    }
}
