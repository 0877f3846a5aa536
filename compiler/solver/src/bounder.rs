//! The side that proves: ever wider relaxations, strategies removed by their bounds, then a tree over what is left.
//!
//! Every open subproblem is a reduced model of its own with prices inherited from its parent. It is climbed, thinned
//! by marginal bounds (and reduced again when that removed enough), searched in place for a while, and otherwise
//! split at one node. The bound that is told is the least over all open subproblems. When the whole problem itself is
//! thinned that much, the run ends so that the searchers profit too. Turns are cut by work, so they can be interleaved.

use std::sync::Arc;

use crate::branch::Search;
use crate::lagrange::{Ascent, Climb, Dual, Multipliers};
use crate::model::{FORBIDDEN, Model};
use crate::portfolio::{Run, Shrunk, VOTES};
use crate::random::Random;
use crate::reduce::{DOMINANCE_OFTEN, Reduced, reduce};
use crate::relaxation::Relaxation;
use crate::state::Network;
use crate::worker::Best;

/// Widths of the relaxations, narrowest first (log2 of the widest table).
const LEVELS: [f64; 4] = [12.0, 15.0, 18.0, 21.0];
/// The most table operations of a relaxation that is climbed.
const PLAN_WORK: u64 = 150_000_000;
/// Evaluations that the search in place may take before a subproblem is split.
const IN_PLACE: u64 = 600;

/// A subproblem.
struct Open {
    model: Model,
    /// From the run's model to this one.
    chain: Vec<Arc<Reduced>>,
    prices: Vec<i64>,
    /// Inherited bound.
    bound: i128,
    level: usize,
}

/// A subproblem under way.
struct Current {
    open: Open,
    relaxation: Relaxation,
    ascent: Ascent,
}

/// The bounding side of a run.
pub(crate) struct Bounder<'a, 'r> {
    run: &'a Run<'r>,
    stack: Vec<Open>,
    current: Option<Current>,
    random: Random,
    /// The tree has more than its root.
    split: bool,
    pub work: u64,
}

impl<'a, 'r> Bounder<'a, 'r> {
    pub(crate) fn new(run: &'a Run<'r>) -> Bounder<'a, 'r> {
        let root = Open {
            model: run.model.clone(),
            chain: Vec::new(),
            prices: run.setting.prices.clone(),
            bound: i128::MIN,
            level: run.setting.level.min(LEVELS.len() - 1),
        };
        Bounder { run, stack: vec![root], current: None, random: Random::new(run.setting.seed), split: false, work: 0 }
    }

    /// What a bound has to exceed for its subproblem to hold nothing of interest.
    fn worth(&self) -> i128 {
        i128::from(self.run.below()) - (1i128 << self.run.model.unit.up)
    }

    /// Works for a while; false when there is nothing left to do.
    pub(crate) fn turn(&mut self, budget: u64) -> bool {
        let Some(mut current) = self.current.take().or_else(|| self.start()) else {
            if !self.run.stopped() {
                self.complete();
            }
            return false;
        };
        let alive = self.climb(&mut current, budget);
        if self.run.stopped() {
            return false;
        }
        match alive {
            None => {}
            Some(bound) if bound > self.worth() => {}
            Some(_) if !current.ascent.over => {
                self.tell(&current);
                self.current = Some(current);
            }
            Some(_) => {
                self.tell(&current);
                return self.advance(current);
            }
        }
        true
    }

    fn complete(&self) {
        self.run.lock().ended.complete = true;
        self.run.halt();
    }

    /// The least bound over everything open.
    fn tell(&self, current: &Current) {
        let own = current.ascent.best.unwrap_or(current.open.bound).max(current.open.bound);
        let least = self.stack.iter().map(|o| o.bound).fold(own, i128::min);
        // Without an incumbent a bound above every cost only says that nothing is feasible.
        if least < i128::from(self.run.setting.most) && least > i128::MIN {
            self.run.raise(least);
        }
    }

    /// Takes up the next open subproblem that may hold something better.
    fn start(&mut self) -> Option<Current> {
        while let Some(open) = self.stack.pop() {
            if open.bound > self.worth() {
                continue;
            }
            let network = Network::of(&open.model);
            let mut bits = LEVELS[open.level];
            let mut relaxation = Relaxation::of(&open.model, &network, bits, &mut self.random);
            while relaxation.plan.work > PLAN_WORK && bits > 6.0 {
                bits -= 3.0;
                relaxation = Relaxation::of(&open.model, &network, bits, &mut self.random);
            }
            self.work += 200 * relaxation.sizes.len() as u64;
            let mut at = Multipliers::zero(&open.model, &relaxation);
            at.prices.clone_from(&open.prices);
            let ascent = Ascent::new(at, 20);
            return Some(Current { open, relaxation, ascent });
        }
        None
    }

    /// Climbs; `None` when the subproblem is infeasible.
    fn climb(&mut self, current: &mut Current, budget: u64) -> Option<i128> {
        let model = &current.open.model;
        let mut dual = Dual::new(model, &current.relaxation);
        let known = self.run.lock().ended.best.as_ref().map(|(c, _)| i128::from(*c));
        let reach = current.ascent.best.unwrap_or(0);
        // Without an incumbent: somewhat above what is known.
        let target = known.unwrap_or(reach + reach / 8 + (1 << model.unit.up));
        let stop = if known.is_some() { self.worth() } else { i128::from(self.run.setting.most) };
        let (target, stop) = self.run.setting.cutoff.map_or((target, stop), |c| (target.min(c + (1 << model.unit.up)), stop.min(c)));
        let mut votes: Vec<Vec<u32>> = Vec::new();
        let mut offers: Vec<Best> = Vec::new();
        let mut steps = 0;
        let run = self.run;
        let climbed = dual.climb(&mut current.ascent, Climb { steps: 400, target, stop, budget, halt: &|| run.stopped() }, &mut |relaxed| {
            steps += 1;
            if votes.last() != Some(&relaxed.choice) {
                votes.push(relaxed.choice.clone());
            }
            if let Some(cost) = model.cost(&relaxed.choice)
                && offers.last().is_none_or(|(c, _)| cost < *c)
                && model.excess(&relaxed.choice) <= 0
            {
                offers.push((cost, relaxed.choice.clone()));
            }
        });
        if climbed.is_some()
            && !current.relaxation.split.is_empty()
            && let Some(decoded) = dual.decode(&current.ascent.at, votes.last())
        {
            votes.push(decoded);
        }
        self.work += dual.work;
        let lift = |choice: &[u32]| current.open.chain.iter().rev().fold(choice.to_vec(), |c, r| r.lift(&c));
        {
            let mut shared = self.run.lock();
            shared.ended.steps += steps;
            if current.open.chain.is_empty() {
                shared.prices.clone_from(&current.ascent.at.prices);
            }
            let keep = votes.len().min(6);
            shared.votes.extend(votes[votes.len() - keep..].iter().map(|v| lift(v)));
            let extra = shared.votes.len().saturating_sub(VOTES);
            shared.votes.drain(..extra);
        }
        for choice in votes.last().iter().chain(offers.last().map(|(_, c)| c).iter()) {
            if let Some(cost) = model.cost(choice).filter(|_| model.excess(choice) <= 0) {
                self.run.offer((cost, lift(choice)));
            }
        }
        climbed
    }

    /// What comes after a climb that is over: thin, widen, search in place, or split.
    fn advance(&mut self, current: Current) -> bool {
        let Current { mut open, relaxation, ascent } = current;
        open.prices.clone_from(&ascent.at.prices);
        open.bound = open.bound.max(ascent.best.unwrap_or(i128::MIN));
        let mut dual = Dual::new(&open.model, &relaxation);
        dual.evaluate(&ascent.at);
        let marginals = dual.marginals(&ascent.at);
        self.work += dual.work;
        let worth = if self.run.lock().ended.best.is_some() { self.worth() as f64 } else { f64::INFINITY };
        let mut costs = open.model.costs.clone();
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
            return true;
        }
        if removed * 12 >= all {
            if open.chain.is_empty() && !self.split {
                self.run.lock().ended.shrunk = Some(Shrunk { costs, prices: open.prices, level: open.level });
                self.run.halt();
                return false;
            }
            self.push(&open, costs, open.bound, open.level);
            return true;
        }
        let exact = relaxation.split.is_empty();
        if !exact && open.level + 1 < LEVELS.len() {
            let network = Network::of(&open.model);
            let wider = Relaxation::of(&open.model, &network, LEVELS[open.level + 1], &mut self.random);
            if wider.plan.work <= PLAN_WORK {
                open.level += 1;
                let mut at = Multipliers::zero(&open.model, &wider);
                at.prices.clone_from(&open.prices);
                self.current = Some(Current { open, relaxation: wider, ascent: Ascent::new(at, 20) });
                return true;
            }
        }
        drop(dual);
        self.search_in_place(open, &relaxation, ascent, costs, &marginals);
        true
    }

    fn search_in_place(&mut self, mut open: Open, relaxation: &Relaxation, ascent: Ascent, costs: Vec<Vec<i64>>, marginals: &[Vec<f64>]) {
        open.model.costs = costs;
        let run = self.run;
        let stop = || run.stopped();
        let budget = (IN_PLACE * relaxation.plan.work).min(1_000_000_000);
        let found = Search::new(&open.model, relaxation, run.below(), budget, &stop).run(ascent.at, 20);
        self.work += found.work;
        run.lock().ended.branches += found.branches;
        if let Some((cost, choice)) = found.best {
            let lifted = open.chain.iter().rev().fold(choice, |c, r| r.lift(&c));
            run.offer((cost, lifted));
        }
        if !found.complete {
            open.bound = open.bound.max(found.bound);
            self.divide(&open, marginals);
        }
    }

    /// Splits at the node whose strategies' bounds spread most: each of few alone, or the better half and the rest.
    fn divide(&mut self, open: &Open, marginals: &[Vec<f64>]) {
        self.split = true;
        let worth = self.worth() as f64;
        let left = |v: usize| -> Vec<usize> {
            let mut list: Vec<usize> = (0..open.model.size(v)).filter(|&s| open.model.costs[v][s] < FORBIDDEN && marginals[v][s] <= worth).collect();
            list.sort_by(|&a, &b| marginals[v][a].total_cmp(&marginals[v][b]).then(a.cmp(&b)));
            list
        };
        let merit = |v: usize| -> f64 {
            let list = left(v);
            if list.len() < 2 {
                return -1.0;
            }
            let low = marginals[v][list[0]];
            let rise: f64 = list.iter().map(|&s| marginals[v][s] - low).sum();
            (rise + 1.0) / list.len() as f64
        };
        let merits: Vec<f64> = (0..open.model.costs.len()).map(merit).collect();
        let Some(v) = (0..merits.len()).max_by(|&a, &b| merits[a].total_cmp(&merits[b]).then(b.cmp(&a))).filter(|&v| merits[v] >= 0.0) else {
            return;
        };
        let list = left(v);
        let groups: Vec<&[usize]> = if list.len() <= 3 { list.chunks(1).collect() } else { list.chunks(list.len().div_ceil(2)).collect() };
        // The most promising is taken up first, so it goes on the stack last.
        for group in groups.into_iter().rev() {
            let mut costs = open.model.costs.clone();
            for (s, c) in costs[v].iter_mut().enumerate() {
                if !group.contains(&s) {
                    *c = FORBIDDEN;
                }
            }
            let low = group.iter().map(|&s| marginals[v][s]).fold(f64::INFINITY, f64::min);
            let bound = open.bound.max(low.floor() as i128);
            self.push(open, costs, bound, open.level.saturating_sub(1));
        }
    }

    /// Puts the subproblem with these node costs on the stack, reduced.
    fn push(&mut self, open: &Open, costs: Vec<Vec<i64>>, bound: i128, level: usize) {
        let narrowed = Model { costs, ..open.model.clone() };
        let Ok(reduced) = reduce(&narrowed, DOMINANCE_OFTEN) else { return };
        let prices = reduced.moments.iter().map(|&t| open.prices[t as usize]).collect();
        let model = reduced.model.clone();
        let mut chain = open.chain.clone();
        chain.push(Arc::new(reduced));
        self.work += 20_000;
        self.stack.push(Open { model, chain, prices, bound, level });
    }
}
