//! The wide case: bounds from split relaxations on one side, large-neighbourhood search on the other.
//!
//! The bounder's prices and relaxed choices guide the searchers, their incumbents let it remove strategies by their
//! marginal bounds. When enough are gone the model is reduced again and everything starts over on the smaller one. With a deadline both run freely on their threads; without, they take turns by work,
//! so the answer depends on nothing but the problem and the options.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bounder::Bounder;
use crate::model::Model;
use crate::state::Network;
use crate::worker::{Best, Worker};

/// Work of one turn.
const TURN: u64 = 40_000_000;
/// Relaxed choices kept for the searchers.
pub(crate) const VOTES: usize = 24;

/// What a run starts from and must respect.
pub(crate) struct Setting<'a> {
    pub work: u64,
    pub threads: u32,
    pub seed: u64,
    /// Gap at which to stop, in internal units of the given objective.
    pub enough: &'a (dyn Fn(i64, i128) -> bool + Sync),
    /// Nothing that costs as much is of any use. The first turn is then the bounder's, which may show that there is nothing else.
    pub cutoff: Option<i128>,
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told of every better choice, and of every better bound.
    pub found: &'a (dyn Fn(&Best) + Sync),
    pub raised: &'a (dyn Fn(i128) + Sync),
    pub start: Option<Vec<u32>>,
    pub best: Option<Best>,
    /// Internal cost above every choice's.
    pub most: i64,
    pub weight: f64,
    /// Prices to start from, one a moment, and the relaxation level.
    pub prices: Vec<i64>,
    pub level: usize,
}

/// What is left once bounds have removed strategies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shrunk {
    pub costs: Vec<Vec<i64>>,
    pub prices: Vec<i64>,
    pub level: usize,
}

/// How a run ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ended {
    pub best: Option<Best>,
    pub bound: Option<i128>,
    /// Node costs with the strategies forbidden that no better choice contains; with it prices and level to go on from.
    pub shrunk: Option<Shrunk>,
    /// Nothing better than `best` exists (or nothing at all).
    pub complete: bool,
    pub steps: u32,
    pub branches: u64,
    pub moves: u64,
    pub work: u64,
}

/// What the sides share.
pub(crate) struct Shared {
    pub ended: Ended,
    pub prices: Vec<i64>,
    pub votes: Vec<Vec<u32>>,
}

pub(crate) struct Run<'a> {
    pub model: &'a Model,
    network: &'a Network,
    pub setting: &'a Setting<'a>,
    shared: Mutex<Shared>,
    halt: AtomicBool,
}

/// Runs the portfolio on a model.
pub(crate) fn run(model: &Model, setting: &Setting) -> Ended {
    let network = Network::of(model);
    let ended = Ended { best: setting.best.clone(), ..Ended::default() };
    let shared = Shared { ended, prices: setting.prices.clone(), votes: Vec::new() };
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
    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn stopped(&self) -> bool {
        self.halt.load(Ordering::Relaxed) || (self.setting.stop)()
    }

    pub(crate) fn offer(&self, best: Best) {
        let mut shared = self.lock();
        if shared.ended.best.as_ref().is_none_or(|(c, _)| best.0 < *c) {
            (self.setting.found)(&best);
            shared.ended.best = Some(best);
        }
        self.judge(&shared);
    }

    pub(crate) fn raise(&self, bound: i128) {
        let mut shared = self.lock();
        if shared.ended.bound.is_none_or(|b| bound > b) {
            (self.setting.raised)(bound);
            shared.ended.bound = Some(bound);
        }
        self.judge(&shared);
    }

    fn judge(&self, shared: &Shared) {
        if let (Some((cost, _)), Some(bound)) = (&shared.ended.best, shared.ended.bound)
            && (self.setting.enough)(*cost, bound)
        {
            self.halt();
        }
        if shared.ended.bound.zip(self.setting.cutoff).is_some_and(|(b, c)| b >= c) {
            self.halt();
        }
    }

    pub(crate) fn below(&self) -> i64 {
        self.lock().ended.best.as_ref().map_or(self.setting.most, |(c, _)| *c)
    }

    pub(crate) fn halt(&self) {
        self.halt.store(true, Ordering::Relaxed);
    }

    fn bound_freely(&self) {
        let mut bounder = Bounder::new(self);
        while !self.stopped() && bounder.turn(TURN) {}
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
        if self.setting.cutoff.is_some() {
            climbing = bounder.turn(TURN);
        }
        while !self.stopped() {
            self.search_turn(&mut searcher, TURN);
            if self.stopped() {
                break;
            }
            if climbing {
                climbing = bounder.turn(TURN);
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
        if behind
            && worker.barren < patience
            && worker.chance(0.9)
            && let Some((_, choice)) = &best
        {
            worker.resume(choice);
        }
        // Now and then what the relaxation proposes, even while deepening still pays.
        let elsewhere = vote.is_some() && worker.chance(0.15);
        if worker.barren < patience && !elsewhere {
            worker.hard(&prices, budget, patience, &stop);
            if let Some(found) = worker.feasible() {
                self.offer(found);
            }
            return;
        }
        let standing = worker.standing();
        let start = match (vote, &best) {
            (Some(vote), _) if elsewhere || worker.chance(0.5) || best.is_none() => vote,
            (_, Some((_, choice))) => {
                worker.restart(choice);
                worker.kicked()
            }
            _ => worker.kicked(),
        };
        let before = best.as_ref().map(|(c, _)| *c);
        let found = worker.explore(&start, &prices, 2 * budget, &stop);
        let better = found.as_ref().is_some_and(|(c, _)| before.is_none_or(|b| *c < b));
        if let Some(found) = found {
            self.offer(found);
        }
        if better {
            worker.barren = 0;
        } else {
            worker.stand(standing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::sample::{Sample, model, optimum};

    fn check(threads: u32, work: u64, rounds: u32, shape: Sample) {
        let mut random = Random::new(5);
        for round in 0..rounds {
            let m = model(&mut random, shape);
            let best = optimum(&m);
            let begin = std::time::Instant::now();
            let most = 1 << 20;
            let ended = run(
                &m,
                &Setting {
                    work,
                    threads,
                    seed: u64::from(round),
                    enough: &|cost, bound| i128::from(cost) <= bound,
                    cutoff: None,
                    stop: &|| threads > 1 && begin.elapsed().as_secs() > 20,
                    found: &|(cost, choice)| {
                        assert_eq!(m.cost(choice), Some(*cost));
                        assert!(m.excess(choice) <= 0);
                    },
                    raised: &|bound| assert!(best.is_none_or(|b| bound <= i128::from(b)), "bound {bound} above {best:?}"),
                    start: None,
                    best: None,
                    most,
                    weight: 10.0,
                    prices: vec![0; m.limits.len()],
                    level: 0,
                },
            );
            let found = ended.best.as_ref().map(|(c, _)| *c);
            assert!(found.is_none_or(|f| best.is_some_and(|b| b <= f)), "round {round}: {found:?} is better than {best:?}");
            let proven = ended.complete || found.is_some_and(|f| ended.bound >= Some(i128::from(f)));
            if proven || ended.shrunk.is_none() {
                assert_eq!(found, best, "round {round}");
            }
        }
    }

    const SHAPE: Sample = Sample { nodes: 7, strategies: 4, pairs: 12, moments: 4, forbidden: 0.1, limit: 0.45 };

    #[test]
    fn taking_turns_ends_at_the_optimum() {
        check(1, 400_000_000, 60, SHAPE);
    }

    #[test]
    fn running_freely_ends_at_the_optimum() {
        check(2, u64::MAX, 20, SHAPE);
    }
}
