//! One searcher: large-neighbourhood search from a choice, exact in every step.
//!
//! *Soft* steps minimise cost plus priced usage over a narrow part, limits ignored; *hard* steps search the part with
//! its limits and the incumbent as ceiling. Exploring is soft steps from somewhere else, then repair, then hard steps.
//! Which sizes of neighbourhood are tried follows what paid per unit of work. Everything is seeded.

use crate::elimination::Width;
use crate::lagrange::{Dual, Multipliers, add_prices};
use crate::model::{FORBIDDEN, Model};
use crate::neighbourhood::{self, Effort};
use crate::random::Random;
use crate::reduce::{DOMINANCE_OFTEN, reduce};
use crate::region::Regions;
use crate::relaxation::Relaxation;
use crate::state::{Network, State};

/// A feasible choice and its internal cost.
pub(crate) type Best = (i64, Vec<u32>);

/// Widths (log2 of the widest table) and region sizes that steps draw from.
const BITS: [f64; 5] = [8.0, 11.0, 13.5, 16.0, 18.0];
const REGIONS: [usize; 5] = [25, 80, 200, 450, 1000];

/// A searcher over one model.
pub(crate) struct Worker<'m> {
    state: State<'m>,
    regions: Regions,
    number: Vec<u32>,
    random: Random,
    /// Gain per work of each (width, region) pair, fading.
    merit: [[f64; REGIONS.len()]; BITS.len()],
    /// What a unit of excess costs while limits are exceeded.
    weight: f64,
    /// Gains below this are passed over at first, in internal units: large ones are found with less proof.
    ambition: i64,
    /// Hard steps since the last gain.
    pub barren: u32,
    pub moves: u64,
    pub work: u64,
}

impl<'m> Worker<'m> {
    pub(crate) fn new(model: &'m Model, network: &'m Network, start: Vec<u32>, weight: f64, seed: u64) -> Worker<'m> {
        let sizes: Vec<usize> = model.costs.iter().map(Vec::len).collect();
        Worker {
            state: State::new(model, network, start),
            regions: Regions::new(&sizes),
            number: vec![u32::MAX; sizes.len()],
            random: Random::new(seed),
            merit: [[0.0; REGIONS.len()]; BITS.len()],
            weight,
            ambition: i64::MAX,
            barren: 0,
            moves: 0,
            work: 0,
        }
    }

    /// Continues from another choice.
    pub(crate) fn restart(&mut self, choice: &[u32]) {
        self.state = State::new(self.state.model, self.state.network, choice.to_vec());
        self.barren = 0;
        self.ambition = i64::MAX;
    }

    /// Continues from a better choice without starting over.
    pub(crate) fn resume(&mut self, choice: &[u32]) {
        let standing = self.standing();
        self.restart(choice);
        self.stand(standing);
    }

    /// How far the search around the present choice has come.
    pub(crate) fn standing(&self) -> (u32, i64) {
        (self.barren, self.ambition)
    }

    /// Takes up where [`Worker::standing`] was read.
    pub(crate) fn stand(&mut self, standing: (u32, i64)) {
        (self.barren, self.ambition) = standing;
    }

    /// The present choice if it is feasible.
    pub(crate) fn feasible(&self) -> Option<Best> {
        if self.state.excess > 0 {
            return None;
        }
        self.state.model.cost(&self.state.choice).map(|c| (c, self.state.choice.clone()))
    }

    /// Single-node descent, memory apart or with its weight.
    pub(crate) fn descend(&mut self, with_memory: bool) {
        let weight = if with_memory { self.weight } else { 0.0 };
        self.moves += self.state.descend(weight, 30);
        self.work += 30 * self.number.len() as u64 * 16;
    }

    fn draw(&mut self, uniform: f64) -> (usize, usize) {
        let total: f64 = self.merit.iter().flatten().sum();
        if total <= 0.0 || self.random.unit() < uniform {
            return (self.random.below(BITS.len()), self.random.below(REGIONS.len()));
        }
        let mut at = self.random.unit() * total;
        for (b, row) in self.merit.iter().enumerate() {
            for (r, &m) in row.iter().enumerate() {
                at -= m;
                if at <= 0.0 {
                    return (b, r);
                }
            }
        }
        (0, 0)
    }

    /// Nodes near each other: around one that costs much, around those that share a scarce moment, or around any.
    fn region(&mut self, r: usize) -> Vec<u32> {
        let nodes = self.number.len();
        let count = REGIONS[r] / 2 + self.random.below(REGIONS[r]);
        if count >= nodes {
            return (0..nodes as u32).collect();
        }
        let seeds = match self.random.unit() {
            x if x < 0.3 => self.scarce(count / 3 + 1),
            x if x < 0.6 => vec![self.costly()],
            _ => vec![self.random.below(nodes) as u32],
        };
        self.regions.around(self.state.network, &seeds, count, &mut self.random)
    }

    /// Of a few random nodes the one with the largest costs at present.
    fn costly(&mut self) -> u32 {
        let draws: Vec<usize> = (0..8).map(|_| self.random.below(self.number.len())).collect();
        draws.into_iter().max_by_key(|&v| self.state.cost_of(v)).unwrap_or(0) as u32
    }

    /// Nodes that use something at a moment with little slack.
    fn scarce(&mut self, count: usize) -> Vec<u32> {
        let model = self.state.model;
        if model.limits.is_empty() {
            return vec![self.random.below(self.number.len()) as u32];
        }
        let draws: Vec<usize> = (0..16).map(|_| self.random.below(model.limits.len())).collect();
        let moment = draws.into_iter().min_by_key(|&t| self.state.slack.at(t)).unwrap_or(0) as u32;
        let mut users: Vec<u32> = model.rows.iter().filter(|row| row.lo <= moment && moment < row.hi).map(|row| row.node).collect();
        users.dedup();
        for k in 0..users.len().min(count) {
            let other = k + self.random.below(users.len() - k);
            users.swap(k, other);
        }
        users.truncate(count.max(1));
        if users.is_empty() { vec![self.random.below(self.number.len()) as u32] } else { users }
    }

    fn free(&mut self, b: usize, r: usize) -> Vec<u32> {
        let region = self.region(r);
        self.work += 400 * region.len() as u64;
        let bits = BITS[b] - 1.5 * self.random.unit();
        self.regions.narrow(self.state.network, &region, bits, &mut self.random)
    }

    /// The least gain that is looked for now; zero in the end.
    fn ambition(&mut self) -> i64 {
        if self.ambition == i64::MAX {
            self.ambition = self.state.model.cost(&self.state.choice).map_or(0, |c| c / 4000);
        }
        if self.ambition < 1 << self.state.model.unit.up {
            self.ambition = 0;
        }
        self.ambition
    }

    /// Steps with limits until `budget` is spent or `patience` steps in a row gained nothing.
    pub(crate) fn hard(&mut self, prices: &[i64], budget: u64, patience: u32, stop: &dyn Fn() -> bool) {
        let spent = self.work;
        while self.work - spent < budget && self.barren < patience && !stop() {
            let (b, r) = self.draw(0.3);
            let free = self.free(b, r);
            let infeasible = self.state.excess > 0;
            let slack = if infeasible { 0 } else { -self.ambition() };
            let effort = Effort { table: 1 << (BITS[b] as u32 + 3), work: (budget / 8).clamp(2_000_000, 40_000_000), steps: 15, slack };
            let step = neighbourhood::search(&self.state, &free, &mut self.number, self.weight, prices, effort, stop);
            let cost = step.work + 40 * free.len() as u64 + 4 * self.state.model.limits.len() as u64 + 20_000;
            self.work += cost;
            self.barren += 1;
            let mut gain = 0.0;
            if !step.change.is_empty() {
                gain = if infeasible { 1.0 } else { step.gain.max(1) as f64 };
                for (v, s) in step.change {
                    self.state.set(v as usize, s as usize);
                }
                self.moves += 1;
                self.barren = 0;
            } else if infeasible && self.barren % 12 == 11 {
                self.weight = (2.0 * self.weight).min(1e12);
            }
            if slack < 0 && self.barren > 12 + self.number.len() as u32 / 100 {
                self.ambition /= 4;
                self.barren = 0;
            }
            let merit = &mut self.merit[b][r];
            *merit = 0.9 * *merit + 0.1 * gain / cost as f64;
            if infeasible && self.state.excess == 0 {
                // Gains are costs from here on.
                self.merit = [[0.0; REGIONS.len()]; BITS.len()];
            }
        }
    }

    /// Steps without limits, usage at its price.
    pub(crate) fn soft(&mut self, prices: &[i64], steps: u32, stop: &dyn Fn() -> bool) {
        for _ in 0..steps {
            if stop() {
                return;
            }
            let (b, r) = (2 + self.random.below(3), 2 + self.random.below(3));
            let free = self.free(b, r);
            let (mut part, _) = neighbourhood::part(&self.state, &free, &mut self.number, 0.0);
            let mut priced: Vec<Vec<f64>> = part.costs.iter().map(|c| c.iter().map(|&x| x as f64).collect()).collect();
            add_prices(&part, prices, &mut priced);
            for (to, from) in part.costs.iter_mut().zip(&priced) {
                to.iter_mut().zip(from).for_each(|(c, &p)| *c = if *c >= FORBIDDEN { FORBIDDEN } else { p as i64 });
            }
            part.rows.clear();
            part.limits.clear();
            self.work += 40 * free.len() as u64 + 20_000;
            let Ok(reduced) = reduce(&part, DOMINANCE_OFTEN) else { continue };
            let core = &reduced.model;
            let Some(relaxation) = Relaxation::exact(core, Width { table: 1 << 22, work: 1 << 28 }) else { continue };
            let mut dual = Dual::new(core, &relaxation);
            let relaxed = dual.evaluate(&Multipliers::zero(core, &relaxation));
            self.work += dual.work;
            if relaxed.bound.is_none() {
                continue;
            }
            for (&v, s) in free.iter().zip(reduced.lift(&relaxed.choice)) {
                if self.state.choice[v as usize] != s {
                    self.state.set(v as usize, s as usize);
                }
            }
        }
    }

    /// Goes somewhere else from `start` under these prices, repairs, improves. Gives a feasible choice if it ends in one.
    pub(crate) fn explore(&mut self, start: &[u32], prices: &[i64], budget: u64, stop: &dyn Fn() -> bool) -> Option<Best> {
        let spent = self.work;
        self.restart(start);
        let factor = 0.6 + 0.9 * self.random.unit();
        let tilted: Vec<i64> = prices.iter().map(|&p| (p as f64 * factor) as i64).collect();
        let steps = 2 + self.random.below(8) as u32;
        self.soft(&tilted, steps, stop);
        if self.state.excess > 0 {
            self.descend(true);
        }
        let left = budget.saturating_sub(self.work - spent);
        self.hard(prices, left, 25 + self.number.len() as u32 / 40, stop);
        self.feasible()
    }

    /// A copy of the present choice with some region set at random.
    pub(crate) fn kicked(&mut self) -> Vec<u32> {
        let r = self.random.below(2);
        let region = self.region(r);
        let mut choice = self.state.choice.clone();
        for v in region {
            if self.random.unit() < 0.3 {
                choice[v as usize] = self.random.below(self.state.model.size(v as usize)) as u32;
            }
        }
        choice
    }

    /// A random place in a list.
    pub(crate) fn pick(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { self.random.below(n) }
    }

    /// True with this chance.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.random.unit() < share
    }
}
