//! What a plan says of its shardings: how every value lies, what else could have been chosen, and what decided.

use crate::shard::groups::Groups;
use crate::shard::pins::Pins;
use crate::shard::problem::Choices;
use crate::step::StepGraph;
use ir::plan::{Candidate, Decision};
use ir::{Bytes, Mesh, SecondaryMap, Seconds, Sharding, ValueId};

/// How many candidates of a decision are kept.
const KEPT: usize = 8;

/// A solved step.
#[derive(Clone, Copy)]
pub struct Solved<'a> {
    /// The step.
    pub step: &'a StepGraph,
    /// Values in memory.
    pub stored: &'a SecondaryMap<ValueId, bool>,
    /// Its groups.
    pub groups: &'a Groups,
    /// The mesh.
    pub mesh: &'a Mesh,
    /// What was chosen.
    pub choices: &'a Choices,
}

impl Solved<'_> {
    /// Shardings of the inputs and groups that `input` and `group` name, by value number.
    pub fn shardings(&self, input: &dyn Fn(usize) -> bool, group: &dyn Fn(usize) -> bool) -> Vec<Option<Sharding>> {
        let mut out = vec![None; self.step.graph.values.len()];
        for (i, &v) in self.step.graph.inputs.iter().enumerate().filter(|(i, _)| input(*i)) {
            out[v.0 as usize] = Some(self.choices.inputs[i].clone());
        }
        for (g, of) in self.groups.groups.iter().enumerate().filter(|(g, of)| of.output.is_none() && group(*g)) {
            for (w, s) in of.writes.iter().zip(&self.choices.groups[g].writes) {
                out[w.value.0 as usize] = Some(s.clone());
            }
        }
        out
    }

    /// The groups that `group` names, with what could have been chosen.
    /// A device has `limit` bytes.
    pub fn decisions(&self, pins: &Pins, limit: Bytes, group: &dyn Fn(usize) -> bool) -> Vec<Decision> {
        let bound = pins.bind(self.step, self.mesh).unwrap_or_default();
        let choices = self.choices;
        self.groups
            .groups
            .iter()
            .enumerate()
            .filter(|(g, of)| of.output.is_none() && group(*g))
            .map(|(g, of)| {
                let values: Vec<ValueId> = of.writes.iter().map(|w| w.value).collect();
                let chosen = choices.chosen[g] as usize;
                let total = |s: usize| choices.prices[g][s].0.0 + choices.prices[g][s].1.0;
                let mut order: Vec<usize> = (0..choices.prices[g].len()).collect();
                order.sort_by(|&a, &b| total(a).total_cmp(&total(b)).then(a.cmp(&b)));
                order.truncate(KEPT);
                if !order.contains(&chosen) {
                    order.push(chosen);
                }
                let reason = match bound.pin_of(&values) {
                    Some(pin) => format!("pin: {pin}"),
                    None => self.reason(g, limit),
                };
                let candidates = order.iter().filter(|&&s| total(s).is_finite() || s == chosen).map(|&s| self.candidate(g, s)).collect();
                let position = order.iter().filter(|&&s| total(s).is_finite() || s == chosen).position(|&s| s == chosen).unwrap_or(0);
                Decision { ops: of.ops.clone(), values, candidates, chosen: position as u32, reason }
            })
            .collect()
    }

    /// What decided a group that no pin did, with the figures that it was decided by.
    fn reason(&self, g: usize, limit: Bytes) -> String {
        let choices = self.choices;
        let (prices, group) = (&choices.prices[g], &self.groups.groups[g]);
        let chosen = choices.chosen[g] as usize;
        let total = |s: usize| prices[s].0.0 + prices[s].1.0;
        let name = |s: usize| choices.options[g][s].describe(group, self.mesh);
        // Candidates that were left, and those of them that the neighbours' choices can be resharded to.
        let left = prices.iter().filter(|p| p.0.0.is_finite()).count();
        let possible = (0..prices.len()).filter(|&s| total(s).is_finite()).count();
        if prices.len() == 1 {
            return "only choice: it can be sharded in no other way".into();
        }
        if left <= 1 {
            return format!("strategy: it and the pins leave one of {} candidates", prices.len());
        }
        if possible <= 1 {
            return format!("only choice: its neighbours' choices cannot be resharded for the other {}", left - 1);
        }
        let best = (0..prices.len()).min_by(|&a, &b| total(a).total_cmp(&total(b)).then(a.cmp(&b))).unwrap_or(chosen);
        if total(best) >= total(chosen) - 1e-12 {
            let Some(blame) = choices.blame.get(g).copied().flatten().filter(|b| b.candidate != chosen) else { return "cost".into() };
            let other = name(blame.candidate);
            let neighbour = self.node_name(blame.neighbour);
            return if blame.reshards.0.is_finite() {
                format!("cost: `{other}` takes {} less by itself, but resharding with {neighbour} would take {} more", blame.saves, blame.reshards)
            } else {
                format!("cost: `{other}` takes {} less by itself, but what {neighbour} chose cannot be resharded for it", blame.saves)
            };
        }
        let faster = Seconds(total(chosen) - total(best));
        let (own, other) = (self.candidate(g, chosen).memory, self.candidate(g, best).memory);
        let report = &choices.report;
        if report.moments > 0 {
            let bytes = if other > own { format!("holds {} more", Bytes(other.0 - own.0)) } else { "lets its neighbours hold more".into() };
            return format!("memory: `{}` is {faster} faster but {bytes}, and a device has {limit} in all", name(best));
        }
        if report.status == "optimal" {
            return format!("strategy: `{}` would be {faster} faster", name(best));
        }
        format!("gap: `{}` would be {faster} faster; the solve ended within {:.2} % of its bound", name(best), 100.0 * report.gap)
    }

    /// What a node of the sharding problem is called: its argument, or its first result.
    fn node_name(&self, node: usize) -> String {
        let graph = &self.step.graph;
        match node.checked_sub(graph.inputs.len()) {
            None => graph.display_name(graph.inputs[node]),
            Some(g) => {
                let group = &self.groups.groups[g];
                let value = group.writes.first().or(group.reads.first()).map(|a| graph.display_name(a.value)).unwrap_or_default();
                if group.output.is_some() { format!("the result {value}") } else { value }
            }
        }
    }

    fn candidate(&self, g: usize, s: usize) -> Candidate {
        let group = &self.groups.groups[g];
        let strategy = &self.choices.options[g][s];
        let (compute, reshard) = self.choices.prices[g][s];
        let memory = group
            .writes
            .iter()
            .zip(&strategy.writes)
            .filter(|(w, _)| self.stored[w.value])
            .map(|(w, sharding)| {
                let ty = self.step.graph.ty(w.value);
                Bytes(sharding.local_shape(&ty.shape, self.mesh).iter().product::<u64>() * ty.dtype.bytes())
            })
            .sum();
        Candidate { name: strategy.describe(group, self.mesh), shardings: strategy.writes.clone(), compute, communication: Seconds(0.0), reshard, memory }
    }
}
