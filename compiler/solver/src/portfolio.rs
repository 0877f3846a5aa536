//! The wide case: bounds from a split relaxation on one side, large-neighbourhood search on the other.
//!
//! The bounder climbs on ever wider relaxations; its prices and relaxed choices guide the searchers, their incumbents
//! let it remove strategies by their marginal bounds. When enough are gone the model is reduced again and everything
//! starts over on the smaller one. With a deadline both run freely on their threads; without, they take turns by work,
//! so the answer depends on nothing but the problem and the options.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::branch::Search;
use crate::lagrange::{Ascent, Climb, Dual, Multipliers};
use crate::model::{FORBIDDEN, Model};
use crate::random::Random;
use crate::relaxation::Relaxation;
use crate::state::Network;
use crate::worker::{Best, Worker};

/// Widths of the relaxations, narrowest first (log2 of the widest table).
const LEVELS: [f64; 4] = [12.0, 15.0, 18.0, 21.0];
/// Work of one turn.
const TURN: u64 = 40_000_000;
/// The most table operations of a relaxation that is climbed.
const PLAN_WORK: u64 = 150_000_000;
/// Relaxed choices kept for the searchers.
const VOTES: usize = 24;

/// What a run starts from and must respect.
pub(crate) struct Setting<'a> {
    pub work: u64,
    pub threads: u32,
    pub seed: u64,
    /// Gap at which to stop, in internal units of the given objective.
    pub enough: &'a (dyn Fn(i64, i128) -> bool + Sync),
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told of every better choice, and of every better bound.
    pub found: &'a (dyn Fn(&Best) + Sync),
    pub raised: &'a (dyn Fn(i128) + Sync),
    pub start: Option<Vec<u32>>,
    pub best: Option<Best>,
    /// Internal cost above every choice's.
    pub most: i64,
    pub weight: f64,
}

/// How a run ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ended {
    pub best: Option<Best>,
    pub bound: Option<i128>,
    /// Strategies that no better choice contains, as costs with those forbidden.
    pub shrunk: Option<Vec<Vec<i64>>>,
    /// Nothing better than `best` exists (or nothing at all).
    pub complete: bool,
    pub steps: u32,
    pub branches: u64,
    pub moves: u64,
    pub work: u64,
}

/// What the sides share.
struct Shared {
    ended: Ended,
    prices: Vec<i64>,
    votes: Vec<Vec<u32>>,
}

struct Run<'a> {
    model: &'a Model,
    network: &'a Network,
    setting: &'a Setting<'a>,
    shared: Mutex<Shared>,
    halt: AtomicBool,
}

/// Runs the portfolio on a model.
pub(crate) fn run(model: &Model, setting: &Setting) -> Ended {
    let network = Network::of(model);
    let ended = Ended { best: setting.best.clone(), ..Ended::default() };
    let shared = Shared { ended, prices: vec![0; model.limits.len()], votes: Vec::new() };
    let run = Run { model, network: &network, setting, shared: Mutex::new(shared), halt: AtomicBool::new(false) };
    if setting.threads > 1 {
        std::thread::scope(|scope| {
            scope.spawn(|| run.bound_freely());
            for k in 1..setting.threads {
                let run = &run;
                scope.spawn(move || run.search_freely(u64::from(k)));
            }
        });
    } else {
        run.take_turns();
    }
    run.shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).ended
}

impl Run<'_> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn stopped(&self) -> bool {
        self.halt.load(Ordering::Relaxed) || (self.setting.stop)()
    }

    fn offer(&self, best: Best) {
        let mut shared = self.lock();
        if shared.ended.best.as_ref().is_none_or(|(c, _)| best.0 < *c) {
            (self.setting.found)(&best);
            shared.ended.best = Some(best);
        }
        self.judge(&shared);
    }

    fn raise(&self, bound: i128) {
        let mut shared = self.lock();
        if shared.ended.bound.is_none_or(|b| bound > b) {
            (self.setting.raised)(bound);
            shared.ended.bound = Some(bound);
        }
        self.judge(&shared);
    }

    fn judge(&self, shared: &Shared) {
        if let (Some((cost, _)), Some(bound)) = (&shared.ended.best, shared.ended.bound) {
            if (self.setting.enough)(*cost, bound) {
                self.halt.store(true, Ordering::Relaxed);
            }
        }
    }

    fn below(&self) -> i64 {
        self.lock().ended.best.as_ref().map_or(self.setting.most, |(c, _)| *c)
    }

    fn bound_freely(&self) {
        let mut bounder = Bounder::new(self);
        while !self.stopped() && bounder.turn(TURN) {}
        if !self.stopped() {
            bounder.branch(u64::MAX);
        }
        if !self.stopped() {
            self.search_freely(0);
        }
    }

    fn search_freely(&self, seed: u64) {
        let mut searcher = self.searcher(seed);
        while !self.stopped() {
            self.search_turn(&mut searcher, TURN);
        }
        let mut shared = self.lock();
        shared.ended.moves += searcher.moves;
        shared.ended.work += searcher.work;
    }

    fn take_turns(&self) {
        let mut searcher = self.searcher(1);
        let mut bounder = Bounder::new(self);
        let mut climbing = true;
        while !self.stopped() {
            self.search_turn(&mut searcher, TURN);
            if self.stopped() {
                break;
            }
            if climbing {
                climbing = bounder.turn(TURN);
                if !climbing && !self.stopped() {
                    let spent = searcher.work + bounder.work;
                    bounder.branch(self.setting.work.saturating_sub(spent) / 2);
                }
            }
            if searcher.work + bounder.work > self.setting.work {
                break;
            }
        }
        let mut shared = self.lock();
        shared.ended.moves += searcher.moves;
        shared.ended.work += searcher.work + bounder.work;
    }

    fn searcher(&self, seed: u64) -> Worker<'_> {
        let model = self.model;
        let cheapest = |c: &Vec<i64>| (0..c.len()).min_by_key(|&s| c[s]).unwrap_or(0) as u32;
        let known = self.setting.best.as_ref().map(|(_, c)| c.clone()).or_else(|| self.setting.start.clone());
        let fresh = known.is_none();
        let start = known.unwrap_or_else(|| model.costs.iter().map(cheapest).collect());
        let mut worker = Worker::new(model, self.network, start, self.setting.weight, self.setting.seed.wrapping_mul(1009) + seed);
        if fresh {
            worker.descend(false);
        }
        worker
    }

    /// One turn of a searcher: deepen the best, or go elsewhere once that seems exhausted.
    fn search_turn(&self, worker: &mut Worker, budget: u64) {
        let (prices, best, vote) = {
            let shared = self.lock();
            let at = worker.pick(shared.votes.len());
            (shared.prices.clone(), shared.ended.best.clone(), shared.votes.get(at).cloned())
        };
        let stop = || self.stopped();
        let behind = best.as_ref().is_some_and(|(c, _)| worker.feasible().is_none_or(|(mine, _)| mine > *c));
        let patience = 40 + self.model.costs.len() as u32 / 20;
        if behind && worker.barren < patience && worker.chance(0.9) {
            if let Some((_, choice)) = &best {
                let barren = worker.barren;
                worker.restart(choice);
                worker.barren = barren;
            }
        }
        if worker.barren < patience {
            worker.hard(&prices, budget, patience, &stop);
            if let Some(found) = worker.feasible() {
                self.offer(found);
            }
            return;
        }
        let start = match (vote, &best) {
            (Some(vote), _) if worker.chance(0.5) || best.is_none() => vote,
            (_, Some((_, choice))) => {
                worker.restart(choice);
                worker.kicked()
            }
            _ => worker.kicked(),
        };
        let before = best.as_ref().map(|(c, _)| *c);
        let found = worker.explore(&start, &prices, budget, &stop);
        let better = found.as_ref().is_some_and(|(c, _)| before.is_none_or(|b| *c < b));
        if let Some(found) = found {
            self.offer(found);
        }
        worker.barren = if better { 0 } else { patience };
    }
}

/// The side that climbs.
struct Bounder<'a, 'r> {
    run: &'a Run<'r>,
    level: usize,
    relaxation: Option<(Relaxation, Ascent)>,
    random: Random,
    work: u64,
}

impl<'a, 'r> Bounder<'a, 'r> {
    fn new(run: &'a Run<'r>) -> Bounder<'a, 'r> {
        Bounder { run, level: 0, relaxation: None, random: Random::new(run.setting.seed), work: 0 }
    }

    /// What the bound has to reach, in internal units.
    fn target(&self) -> i128 {
        let model = self.run.model;
        let shared = self.run.lock();
        match &shared.ended.best {
            Some((cost, _)) => i128::from(*cost),
            // Without an incumbent: somewhat above what is known.
            None => shared.ended.bound.map_or(i128::from(self.run.setting.most), |b| b + b / 8 + (1 << model.unit.up)),
        }
    }

    /// Climbs for a while; false when there is nothing left to climb.
    fn turn(&mut self, budget: u64) -> bool {
        let model = self.run.model;
        let (relaxation, mut ascent) = match self.relaxation.take() {
            Some(pair) => pair,
            None => {
                let relaxation = Relaxation::of(model, self.run.network, LEVELS[self.level], &mut self.random);
                if relaxation.plan.work > PLAN_WORK {
                    return false;
                }
                let mut at = Multipliers::zero(model, &relaxation);
                at.prices.clone_from(&self.run.lock().prices);
                let ascent = Ascent::new(at, 20);
                self.work += 100 * relaxation.sizes.len() as u64;
                (relaxation, ascent)
            }
        };
        let mut dual = Dual::new(model, &relaxation);
        let target = self.target();
        let mut votes: Vec<Vec<u32>> = Vec::new();
        let mut offers: Vec<Best> = Vec::new();
        let mut steps = 0;
        let climbed = dual.climb(&mut ascent, Climb { steps: 400, target, stop: target, budget }, &mut |relaxed| {
            steps += 1;
            if votes.last() != Some(&relaxed.choice) {
                votes.push(relaxed.choice.clone());
            }
            if let Some(cost) = model.cost(&relaxed.choice) {
                if offers.last().is_none_or(|(c, _)| cost < *c) && model.excess(&relaxed.choice) <= 0 {
                    offers.push((cost, relaxed.choice.clone()));
                }
            }
        });
        self.work += dual.work;
        {
            let mut shared = self.run.lock();
            shared.ended.steps += steps;
            shared.prices.clone_from(&ascent.at.prices);
            let keep = votes.len().min(6);
            shared.votes.extend(votes.drain(votes.len() - keep..));
            let extra = shared.votes.len().saturating_sub(VOTES);
            shared.votes.drain(..extra);
        }
        if let Some(best) = offers.pop() {
            self.run.offer(best);
        }
        match climbed {
            None => {
                self.finish(true);
                return false;
            }
            Some(bound) => self.run.raise(bound),
        }
        if self.run.stopped() {
            return false;
        }
        let reached = ascent.best.is_some_and(|b| b >= target);
        if ascent.over || reached {
            let shrunk = self.shrink(&mut dual, &ascent);
            drop(dual);
            let exact = relaxation.split.is_empty();
            self.relaxation = Some((relaxation, ascent));
            if shrunk || exact || self.level + 1 == LEVELS.len() {
                return false;
            }
            self.level += 1;
            self.relaxation = None;
            return true;
        }
        self.relaxation = Some((relaxation, ascent));
        true
    }

    /// Removes the strategies whose bound reaches the incumbent; true when that is worth starting over.
    fn shrink(&mut self, dual: &mut Dual, ascent: &Ascent) -> bool {
        let model = self.run.model;
        if self.run.lock().ended.best.is_none() {
            return false;
        }
        let worth = (i128::from(self.run.below()) - (1i128 << model.unit.up)) as f64;
        dual.evaluate(&ascent.at);
        let marginals = dual.marginals(&ascent.at);
        self.work += 3 * dual.relaxation.plan.work;
        let mut costs = model.costs.clone();
        let (mut removed, mut all) = (0usize, 0usize);
        for (own, bounds) in costs.iter_mut().zip(&marginals) {
            for (c, &m) in own.iter_mut().zip(bounds) {
                if *c < FORBIDDEN {
                    all += 1;
                    if m > worth {
                        *c = FORBIDDEN;
                        removed += 1;
                    }
                }
            }
        }
        if costs.iter().any(|c| c.iter().all(|&x| x >= FORBIDDEN)) {
            self.finish(true);
            return true;
        }
        if removed * 12 < all {
            return false;
        }
        self.run.lock().ended.shrunk = Some(costs);
        self.finish(false);
        true
    }

    fn finish(&self, complete: bool) {
        self.run.lock().ended.complete |= complete;
        self.run.halt.store(true, Ordering::Relaxed);
    }

    /// Branch and bound on the last relaxation.
    fn branch(&mut self, budget: u64) {
        let Some((relaxation, ascent)) = self.relaxation.take() else { return };
        let stop = || self.run.stopped();
        let search = Search::new(self.run.model, &relaxation, self.run.below(), budget, &stop);
        let found = search.run(ascent.at, 30);
        self.work += found.work;
        self.run.lock().ended.branches += found.branches;
        if let Some(best) = found.best {
            self.run.offer(best);
        }
        self.run.raise(found.bound);
        if found.complete {
            self.finish(true);
        }
    }
}
