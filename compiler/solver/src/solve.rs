//! The pipeline: reduce, eliminate exactly where that is narrow, price the memory and branch; where it is wide, or
//! that does not end, run the portfolio, and start over whenever bounds have removed enough.
//!
//! Every choice that leaves this module was evaluated on the caller's problem, in 128 bits.

use std::sync::Mutex;
use std::time::Instant;

use crate::branch::Search;
use crate::elimination::Width;
use crate::highs::{self, Effort};
use crate::infeasible;
use crate::lagrange::{Ascent, Climb, Dual, Multipliers};
use crate::model::{FORBIDDEN, Model};
use crate::outcome::{Options, Outcome, Progress, Solution, Stats, Status};
use crate::portfolio::{self, Setting, Shrunk};
use crate::problem::{Problem, ProblemError};
use crate::reduce::{DOMINANCE_ONCE, Reduced, reduce};
use crate::relaxation::Relaxation;
use crate::state::{Network, State};

/// Solves a problem. The only error is a problem that is not well formed.
pub fn solve(problem: &Problem, options: &Options) -> Result<Outcome, ProblemError> {
    problem.check()?;
    let found = search(problem, options);
    Ok(match found.verdict() {
        Verdict::Infeasible => Outcome::Infeasible(infeasible::explain(problem, options)),
        Verdict::Open => {
            let inner = Options { work: options.work / 8, found: None, progress: None, start: None, ..options.clone() };
            let late = options.late() || found.bound.is_some_and(|b| options.worthless(b));
            let (nearest, excess) = if late { (Vec::new(), None) } else { infeasible::nearest(problem, &inner) };
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
    options: &'a Options,
    best: Option<(i128, Vec<u32>)>,
    bound: Option<i128>,
    /// A part of the search was left out because too little time was left for it.
    left_out: bool,
}

impl Incumbent<'_> {
    /// Takes a choice if it is feasible and better.
    fn offer(&mut self, phase: &'static str, choice: Vec<u32>) -> bool {
        let Some(cost) = self.problem.feasible_cost(&choice) else { return false };
        if self.best.as_ref().is_some_and(|(c, _)| *c <= cost) {
            return false;
        }
        if let Some(found) = &self.options.found {
            found(cost, &choice);
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
        if self.bound.is_some_and(|b| self.options.worthless(b)) {
            return true;
        }
        let (Some((cost, _)), Some(bound)) = (&self.best, self.bound) else { return false };
        near_enough(*cost, bound, self.options.gap)
    }

    /// Internal cost that a better choice must stay below; more than any choice costs when none is known.
    fn below(&self, model: &Model) -> i64 {
        match &self.best {
            Some((cost, _)) => model.unit.ceiling(cost - model.offset) as i64,
            None => most(model),
        }
    }
}

fn near_enough(cost: i128, bound: i128, gap: f64) -> bool {
    (cost - bound) as f64 <= gap * cost.abs() as f64
}

/// More than the internal cost of any choice.
fn most(model: &Model) -> i64 {
    let finite = |costs: &[i64]| costs.iter().copied().filter(|&c| c < FORBIDDEN).max().unwrap_or(0);
    let sum = model.costs.iter().map(|c| finite(c)).sum::<i64>() + model.pairs.iter().map(|p| finite(&p.cost)).sum::<i64>();
    sum + (1 << model.unit.up)
}

/// Relaxed choices that are repaired node by node.
const REPAIRS: usize = 3;

/// How a phase left things.
enum Phase {
    /// Nothing better than the incumbent exists.
    Complete,
    /// Stopped by gap, work or time.
    Stopped,
    /// Not ended; strategies may be out.
    Open(Option<Shrunk>),
}

fn search(problem: &Problem, options: &Options) -> Found {
    let mut model = Model::of(problem);
    let exact_unit = model.unit.exact();
    let mut chain: Vec<Reduced> = Vec::new();
    let mut stats = Stats::default();
    let mut incumbent = Incumbent { problem, options, best: None, bound: None, left_out: false };
    if let Some(start) = options.start.as_ref().filter(|s| fits(problem, s)) {
        incumbent.offer("start", start.clone());
    }
    let mut complete = false;
    let mut shrunk: Option<Shrunk> = None;
    loop {
        let Ok(reduced) = reduce(&model, DOMINANCE_ONCE) else {
            complete = true;
            break;
        };
        if chain.is_empty() {
            stats = reduced.stats.clone();
        }
        model = reduced.model.clone();
        let prices = match &shrunk {
            Some(old) => reduced.moments.iter().map(|&t| old.prices[t as usize]).collect(),
            None => vec![0; model.limits.len()],
        };
        let level = shrunk.take().map_or(0, |old| old.level);
        chain.push(reduced);
        match attempt(&model, &chain, &mut incumbent, &mut stats, (prices, level)) {
            Phase::Complete => complete = true,
            Phase::Open(Some(mut less)) => {
                model.costs = std::mem::take(&mut less.costs);
                shrunk = Some(less);
                continue;
            }
            Phase::Stopped | Phase::Open(None) => {}
        }
        break;
    }
    let mut impossible = false;
    if complete {
        match incumbent.best.as_ref().map(|(c, _)| *c) {
            Some(cost) if exact_unit => incumbent.raise("complete", cost),
            Some(_) => {}
            None => impossible = exact_unit || chain.is_empty(),
        }
    }
    let cut = incumbent.left_out || options.late();
    Found { best: incumbent.best, bound: incumbent.bound, impossible, cut, stats }
}

fn lift(chain: &[Reduced], choice: &[u32]) -> Vec<u32> {
    chain.iter().rev().fold(choice.to_vec(), |c, reduced| reduced.lift(&c))
}

fn lower(chain: &[Reduced], choice: &[u32]) -> Vec<u32> {
    chain.iter().fold(choice.to_vec(), |c, reduced| reduced.lower(&c))
}

fn fits(problem: &Problem, choice: &[u32]) -> bool {
    choice.len() == problem.nodes.len() && choice.iter().enumerate().all(|(n, &s)| s < problem.strategies(n as u32))
}

/// Tables and work of a model that is searched exactly from the start.
fn narrow(options: &Options, memory: bool) -> Width {
    // With memory the plan is run hundreds of times.
    let share = if memory { 2_000 } else { 4 };
    Width { table: if memory { 1 << 18 } else { 1 << 24 }, work: (options.work / share).min(4_000_000_000) }
}

fn attempt(model: &Model, chain: &[Reduced], incumbent: &mut Incumbent, stats: &mut Stats, from: (Vec<i64>, usize)) -> Phase {
    let memory = !model.limits.is_empty();
    if let Some(relaxation) = Relaxation::exact(model, narrow(incumbent.options, memory)) {
        stats.elimination_work = relaxation.plan.work;
        match exact(model, &relaxation, chain, incumbent, stats) {
            Phase::Open(_) => {}
            ended => return ended,
        }
    }
    if stats.work >= incumbent.options.work {
        return Phase::Stopped;
    }
    match wide(model, chain, incumbent, stats, from) {
        Phase::Open(None) => close(model, chain, incumbent, stats),
        ended => ended,
    }
}

/// The narrow case: exact elimination, multipliers for memory, branch and bound.
fn exact(model: &Model, plan: &Relaxation, chain: &[Reduced], incumbent: &mut Incumbent, stats: &mut Stats) -> Phase {
    let options = incumbent.options;
    let mut dual = Dual::new(model, plan);
    let at = Multipliers::zero(model, plan);
    let free = dual.evaluate(&at);
    let Some(bound) = free.bound else { return Phase::Complete };
    incumbent.raise("elimination", model.true_bound(bound));
    incumbent.offer("elimination", lift(chain, &free.choice));
    if model.limits.is_empty() && model.unit.exact() {
        stats.work += dual.work;
        return Phase::Complete;
    }
    if incumbent.done() {
        stats.work += dual.work;
        return Phase::Stopped;
    }
    let network = Network::of(model);
    // Relaxed choices by how much they exceed the limits in all, least first.
    let mut seen: Vec<(f64, Vec<u32>)> = Vec::new();
    let below = i128::from(incumbent.below(model));
    let mut steps = 0;
    let stop = || options.late();
    let mut ascent = Ascent::new(at, 8);
    let climbed = dual.climb(&mut ascent, Climb { steps: 150, target: below, stop: below, budget: options.work / 8, halt: &stop }, &mut |relaxed| {
        steps += 1;
        let over: f64 = relaxed.excess.iter().map(|e| e.max(0.0)).sum();
        if seen.len() < REPAIRS || seen.last().is_some_and(|(worst, _)| over < *worst) {
            let at = seen.partition_point(|(o, _)| *o <= over);
            if !seen[..at].iter().any(|(_, c)| *c == relaxed.choice) {
                seen.insert(at, (over, relaxed.choice.clone()));
                seen.truncate(REPAIRS);
            }
        }
    });
    stats.multiplier_steps += steps;
    if let Some(bound) = climbed
        && (incumbent.best.is_some() || bound < below)
    {
        incumbent.raise("multipliers", model.true_bound(bound));
    }
    let weight = excess_weight(model, &ascent.at.prices);
    for (_, choice) in seen {
        let mut state = State::new(model, &network, choice);
        for factor in [1.0, 16.0, 4096.0] {
            stats.moves += state.descend(weight * factor, 8);
            if state.excess == 0 {
                break;
            }
        }
        incumbent.offer("repair", lift(chain, &state.choice));
    }
    stats.work += dual.work;
    if incumbent.done() {
        return Phase::Stopped;
    }
    let search = Search::new(model, plan, incumbent.below(model), options.work / 8, &stop);
    let found = search.run(ascent.at, 120);
    stats.branches += found.branches;
    stats.work += found.work;
    if let Some((_, choice)) = &found.best {
        incumbent.offer("branching", lift(chain, choice));
    }
    if found.complete {
        return Phase::Complete;
    }
    if incumbent.best.is_some() {
        incumbent.raise("branching", model.true_bound(found.bound));
    }
    if incumbent.done() { Phase::Stopped } else { Phase::Open(None) }
}

/// A weight for excess at which memory is worth its price wherever it binds.
fn excess_weight(model: &Model, prices: &[i64]) -> f64 {
    let high = prices.iter().copied().max().unwrap_or(0) as f64 / f64::from(1u32 << 20);
    let limit = model.limits.iter().copied().max().unwrap_or(1).max(1) as f64;
    let big = model.costs.iter().flatten().copied().filter(|&c| c < FORBIDDEN).max().unwrap_or(0) as f64;
    high.max(big.max(most(model) as f64 / model.costs.len().max(1) as f64) / limit)
}

/// The wide case: the portfolio.
fn wide(model: &Model, chain: &[Reduced], incumbent: &mut Incumbent, stats: &mut Stats, from: (Vec<i64>, usize)) -> Phase {
    let options = incumbent.options;
    let best = incumbent.best.as_ref().and_then(|(_, choice)| {
        let low = lower(chain, choice);
        let cost = model.cost(&low).filter(|_| model.excess(&low) <= 0)?;
        Some((cost, low))
    });
    let start = options.start.as_ref().filter(|s| fits(incumbent.problem, s)).map(|s| lower(chain, s));
    let gap = options.gap;
    let below = incumbent.below(model);
    let cell = Mutex::new(incumbent);
    let locked = || cell.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let truth = |cost: i64| model.true_bound(i128::from(cost));
    let ended = portfolio::run(
        model,
        &Setting {
            work: options.work.saturating_sub(stats.work),
            threads: if options.deadline.is_some() { options.threads.max(1) } else { 1 },
            seed: options.seed,
            enough: &|cost, bound| near_enough(truth(cost), model.true_bound(bound), gap),
            cutoff: options.cutoff.map(|c| model.unit.ceiling(c - model.offset)),
            stop: &|| options.late(),
            found: &|(_, choice)| {
                locked().offer("neighbourhoods", lift(chain, choice));
            },
            raised: &|bound| locked().raise("relaxation", model.true_bound(bound)),
            start,
            best,
            most: below,
            weight: excess_weight(model, &[]),
            prices: from.0,
            level: from.1,
        },
    );
    stats.multiplier_steps += ended.steps;
    stats.branches += ended.branches;
    stats.moves += ended.moves;
    stats.work += ended.work;
    match () {
        () if ended.complete => Phase::Complete,
        () if locked().done() => Phase::Stopped,
        () => Phase::Open(ended.shrunk),
    }
}

/// Hands what is left to HiGHS.
fn close(model: &Model, chain: &[Reduced], incumbent: &mut Incumbent, stats: &mut Stats) -> Phase {
    let options = incumbent.options;
    let left = options.deadline.map(|d| d.saturating_duration_since(Instant::now()).as_secs_f64());
    if options.late() || left.is_some_and(|t| t < 1.0) {
        incumbent.left_out = true;
        return Phase::Stopped;
    }
    let effort = Effort {
        columns: 20_000.min((options.work / 100_000) as usize),
        nodes: (options.work / 20_000_000).clamp(10, 10_000) as i32,
        simplex_iterations: (options.work / 200_000).clamp(1_000, 500_000) as i32,
        seconds: left.map(|t| t - 0.5),
    };
    let start = incumbent.best.as_ref().map(|(_, choice)| lower(chain, choice));
    let Some(answer) = highs::solve(model, start.as_deref(), effort) else { return Phase::Stopped };
    stats.highs = true;
    incumbent.left_out |= options.deadline.is_some_and(|d| d.saturating_duration_since(Instant::now()).as_secs_f64() < 0.6);
    if let Some(choice) = &answer.choice {
        incumbent.offer("highs", lift(chain, choice));
    }
    if let Some(bound) = answer.bound {
        // Strategies already removed lead to nothing below the incumbent.
        let bound = model.true_bound(bound);
        incumbent.raise("highs", incumbent.best.as_ref().map_or(bound, |(cost, _)| bound.min(*cost)));
    }
    if answer.infeasible && incumbent.best.is_none() { Phase::Complete } else { Phase::Stopped }
}
