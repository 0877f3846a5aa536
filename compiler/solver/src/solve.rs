//! The pipeline: reduce, eliminate exactly where that is narrow, price the memory, branch, hand the rest to HiGHS.

use std::time::Instant;

use crate::branch::{Search, Searched};
use crate::elimination::{Plan, Width};
use crate::highs::{self, Effort};
use crate::infeasible;
use crate::lagrange::Dual;
use crate::model::Model;
use crate::outcome::{Options, Outcome, Progress, Solution, Stats, Status};
use crate::problem::{Problem, ProblemError};
use crate::reduce::{Reduced, reduce};
use crate::state::{Network, State};

/// Solves a problem. The only error is a problem that is not well formed.
pub fn solve(problem: &Problem, options: &Options) -> Result<Outcome, ProblemError> {
    problem.check()?;
    let found = search(problem, options);
    Ok(match found.verdict() {
        Verdict::Infeasible => Outcome::Infeasible(infeasible::explain(problem, options)),
        Verdict::Open => {
            let inner = Options { work: options.work / 8, ..options.clone() };
            let (nearest, excess) = infeasible::nearest(problem, &inner);
            Outcome::Unknown { bound: found.bound, nearest, excess, stats: found.stats }
        }
        Verdict::Feasible => Outcome::Solved(found.solution(options)),
    })
}

/// Whether anything is feasible: a choice, proof of none, or neither within the budget.
pub(crate) fn decide(problem: &Problem, options: &Options) -> Option<Option<Vec<u32>>> {
    let found = search(problem, options);
    match found.verdict() {
        Verdict::Infeasible => Some(None),
        Verdict::Open => None,
        Verdict::Feasible => found.best.map(|(_, choice)| Some(choice)),
    }
}

enum Verdict {
    Feasible,
    Infeasible,
    Open,
}

/// What a search ended with, in the caller's costs.
struct Found {
    best: Option<(i128, Vec<u32>)>,
    bound: Option<i128>,
    impossible: bool,
    cut: bool,
    stats: Stats,
}

impl Found {
    fn verdict(&self) -> Verdict {
        match (&self.best, self.impossible) {
            (Some(_), _) => Verdict::Feasible,
            (None, true) => Verdict::Infeasible,
            (None, false) => Verdict::Open,
        }
    }

    fn solution(self, options: &Options) -> Solution {
        let (objective, choice) = self.best.expect("invariant: the verdict was feasible");
        let bound = self.bound.unwrap_or(i128::MIN / 2).min(objective);
        let gap = (objective - bound) as f64 / (objective.abs().max(1)) as f64;
        let status = match () {
            () if bound == objective => Status::Optimal,
            () if gap <= options.gap => Status::WithinGap,
            () if self.cut => Status::Cut,
            () => Status::Feasible,
        };
        Solution { choice, objective, bound, gap, status, stats: self.stats }
    }
}

/// The incumbent and bound of one search, told to the caller as they improve.
struct Incumbent<'a> {
    problem: &'a Problem,
    reduced: &'a Reduced,
    options: &'a Options,
    best: Option<(i128, Vec<u32>)>,
    bound: Option<i128>,
}

impl Incumbent<'_> {
    /// Takes a choice of the reduced model if it is feasible and better.
    fn offer(&mut self, phase: &'static str, choice: &[u32]) -> bool {
        let lifted = self.reduced.lift(choice);
        self.offer_whole(phase, lifted)
    }

    fn offer_whole(&mut self, phase: &'static str, choice: Vec<u32>) -> bool {
        let Some(cost) = self.problem.feasible_cost(&choice) else {
            return false;
        };
        if self.best.as_ref().is_some_and(|(c, _)| *c <= cost) {
            return false;
        }
        self.best = Some((cost, choice));
        self.tell(phase);
        true
    }

    fn raise(&mut self, phase: &'static str, bound: i128) {
        if self.bound.is_none_or(|b| bound > b) {
            self.bound = Some(bound);
            self.tell(phase);
        }
    }

    fn tell(&self, phase: &'static str) {
        if let Some(progress) = &self.options.progress {
            progress(&Progress { phase, objective: self.best.as_ref().map(|(c, _)| *c), bound: self.bound });
        }
    }

    fn done(&self) -> bool {
        let (Some((cost, _)), Some(bound)) = (&self.best, self.bound) else {
            return false;
        };
        (cost - bound) as f64 <= self.options.gap * cost.abs() as f64
    }

    /// Internal cost that a better choice must stay below; more than any choice costs when none is known.
    fn below(&self, model: &Model) -> i64 {
        match &self.best {
            Some((cost, _)) => model.unit.ceiling(cost - model.offset) as i64,
            None => most(model) + (1 << model.unit.up),
        }
    }
}

/// The largest internal cost a choice can have.
fn most(model: &Model) -> i64 {
    let finite = |costs: &[i64]| costs.iter().copied().filter(|&c| c < crate::model::FORBIDDEN).max().unwrap_or(0);
    model.costs.iter().map(|c| finite(c)).sum::<i64>() + model.pairs.iter().map(|p| finite(&p.cost)).sum::<i64>()
}

fn search(problem: &Problem, options: &Options) -> Found {
    let whole = Model::of(problem);
    let none = |stats| Found { best: None, bound: None, impossible: true, cut: false, stats };
    let Ok(reduced) = reduce(&whole) else {
        return none(Stats::default());
    };
    let model = &reduced.model;
    let mut stats = reduced.stats.clone();
    let mut incumbent = Incumbent { problem, reduced: &reduced, options, best: None, bound: None };
    if let Some(start) = options.start.as_ref().filter(|s| fits(problem, s)) {
        incumbent.offer_whole("start", start.clone());
    }
    let sizes: Vec<usize> = model.costs.iter().map(Vec::len).collect();
    let width = Width { table: 1 << 24, work: (options.work / 4).min(4_000_000_000) };
    let plan = Plan::of(&sizes, &model.pairs, width);
    let impossible = match &plan {
        Some(plan) => exact(model, plan, &mut incumbent, &mut stats),
        None => wide(model, &mut incumbent, &mut stats),
    };
    let cut = options.deadline.is_some_and(|d| Instant::now() >= d);
    Found { best: incumbent.best, bound: incumbent.bound, impossible, cut, stats }
}

fn fits(problem: &Problem, choice: &[u32]) -> bool {
    choice.len() == problem.nodes.len() && choice.iter().enumerate().all(|(n, &s)| s < problem.strategies(n as u32))
}

/// The narrow case: exact elimination, multipliers for memory, branch and bound. True when nothing is feasible.
fn exact(model: &Model, plan: &Plan, incumbent: &mut Incumbent, stats: &mut Stats) -> bool {
    stats.elimination_work = plan.work;
    let options = incumbent.options;
    let mut dual = Dual::new(model, plan);
    let mut prices = vec![0i64; model.limits.len()];
    let free = dual.evaluate(&prices);
    let Some(bound) = free.bound else { return true };
    incumbent.raise("elimination", model.true_bound(bound));
    incumbent.offer("elimination", &free.choice);
    if incumbent.done() || model.limits.is_empty() {
        stats.work += dual.work;
        return incumbent.best.is_none() && model.limits.is_empty() && model.unit.exact();
    }
    let network = Network::of(model);
    let budget = options.work / 4;
    let mut seen: Vec<Vec<u32>> = Vec::new();
    let below = i128::from(incumbent.below(model));
    let mut steps = 0;
    let stop = || options.deadline.is_some_and(|d| Instant::now() >= d);
    let climbed = dual.climb(&mut prices, 150, below, below, budget, &mut |relaxed| {
        steps += 1;
        if seen.last() != Some(&relaxed.choice) {
            seen.push(relaxed.choice.clone());
        }
    });
    stats.multiplier_steps += steps;
    if let Some(bound) = climbed {
        incumbent.raise("multipliers", model.true_bound(bound));
    }
    let weight = excess_weight(model, &prices);
    seen.reverse();
    seen.truncate(40);
    for choice in seen {
        let mut state = State::new(model, &network, choice);
        for factor in [1.0, 8.0, 64.0, 4096.0] {
            stats.moves += state.descend(weight * factor, 20);
            if state.excess == 0 {
                break;
            }
        }
        incumbent.offer("repair", &state.choice);
    }
    stats.work += dual.work;
    if incumbent.done() {
        return false;
    }
    // Restart the climb towards the incumbent, then fix and branch.
    let below = incumbent.below(model);
    let search = Search::new(model, plan, below, options.work / 2, &stop);
    let found = search.run(prices, 120);
    finish(model, found, incumbent, stats)
}

fn finish(model: &Model, found: Searched, incumbent: &mut Incumbent, stats: &mut Stats) -> bool {
    stats.branches += found.branches;
    stats.work += found.work;
    if let Some((_, choice)) = &found.best {
        incumbent.offer("branching", choice);
    }
    if found.complete && incumbent.best.is_none() {
        return model.unit.exact();
    }
    incumbent.raise("branching", model.true_bound(found.bound));
    if !found.complete && !incumbent.done() {
        return close(model, incumbent, stats);
    }
    false
}

/// A weight for excess at which memory is worth its price wherever it binds.
fn excess_weight(model: &Model, prices: &[i64]) -> f64 {
    let high = prices.iter().copied().max().unwrap_or(0) as f64 / f64::from(1u32 << 20);
    let limit = model.limits.iter().copied().max().unwrap_or(1).max(1) as f64;
    high.max(most(model) as f64 / limit / model.costs.len().max(1) as f64)
}

/// Hands what is left to HiGHS.
fn close(model: &Model, incumbent: &mut Incumbent, stats: &mut Stats) -> bool {
    let options = incumbent.options;
    let seconds = options.deadline.map(|d| d.saturating_duration_since(Instant::now()).as_secs_f64());
    if seconds.is_some_and(|s| s < 0.05) {
        return false;
    }
    let effort = Effort {
        columns: 60_000.min((options.work / 10_000) as usize),
        nodes: (options.work / 1_000_000).clamp(10, 10_000) as i32,
        simplex_iterations: (options.work / 20_000).clamp(1_000, 500_000) as i32,
        seconds,
    };
    let start = incumbent.best.as_ref().map(|(_, choice)| incumbent.reduced.lower(choice));
    let Some(answer) = highs::solve(model, start.as_deref(), effort) else {
        return false;
    };
    stats.highs = true;
    if let Some(choice) = &answer.choice {
        incumbent.offer("highs", choice);
    }
    if let Some(bound) = answer.bound {
        incumbent.raise("highs", model.true_bound(bound));
    }
    answer.infeasible && incumbent.best.is_none()
}

/// The wide case: no exact plan.
fn wide(model: &Model, incumbent: &mut Incumbent, stats: &mut Stats) -> bool {
    incumbent.raise("trivial", model.true_bound(0));
    let network = Network::of(model);
    let weight = excess_weight(model, &[]);
    let start = model.costs.iter().map(|c| (0..c.len()).min_by_key(|&s| c[s]).unwrap_or(0) as u32).collect();
    let mut state = State::new(model, &network, start);
    for factor in [0.0, 1.0, 8.0, 64.0, 4096.0] {
        stats.moves += state.descend(weight * factor, 30);
        incumbent.offer("descent", &state.choice);
    }
    close(model, incumbent, stats)
}
