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
    pub fn decisions(&self, pins: &Pins, group: &dyn Fn(usize) -> bool) -> Vec<Decision> {
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
                let feasible = order.iter().filter(|&&s| total(s).is_finite()).count();
                order.truncate(KEPT);
                if !order.contains(&chosen) {
                    order.push(chosen);
                }
                let reason = if bound.pinned(&values) {
                    "pin"
                } else if feasible <= 1 {
                    "only choice beside its neighbours, the pins and the strategy"
                } else if order.first() == Some(&chosen) || total(order[0]) >= total(chosen) - 1e-12 {
                    "cost"
                } else {
                    "memory, or a choice that is cheaper for the whole"
                };
                let candidates = order.iter().filter(|&&s| total(s).is_finite() || s == chosen).map(|&s| self.candidate(g, s)).collect();
                let position = order.iter().filter(|&&s| total(s).is_finite() || s == chosen).position(|&s| s == chosen).unwrap_or(0);
                Decision { ops: of.ops.clone(), values, candidates, chosen: position as u32, reason: reason.into() }
            })
            .collect()
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
