//! Multipliers: a nonnegative price per moment turns limits into node costs, and agreement multipliers hold the
//! copies of split nodes together.
//!
//! For prices `p` the minimum over all choices of `cost + p·usage`, less `p·limit`, is a bound on the optimum; the
//! minimum, or a bound on it, comes from a [`Relaxation`]. Prices are integers in units of 2^-20 internal cost, node
//! penalties are rounded down and the price of the limits up, agreement multipliers are whole and sum to zero, so
//! every bound is proven, not approximate.

use crate::elimination::{Tables, to_entry};
use crate::model::Model;
use crate::relaxation::Relaxation;

/// Fraction bits of a price.
const PRICE_BITS: u32 = 20;

/// No single penalty or multiplier is larger, so that sums stay exact; less of a penalty is still a bound.
const CAP: f64 = (1u64 << 45) as f64;

/// All multipliers of a relaxation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Multipliers {
    /// One a moment.
    pub prices: Vec<i64>,
    /// For each split node (in the relaxation's order) and copy, one a strategy.
    pub agreement: Vec<Vec<Vec<f64>>>,
}

impl Multipliers {
    pub(crate) fn zero(model: &Model, relaxation: &Relaxation) -> Multipliers {
        let of = |&v: &u32| vec![vec![0.0; model.size(v as usize)]; relaxation.copies[v as usize].len()];
        Multipliers { prices: vec![0; model.limits.len()], agreement: relaxation.split.iter().map(of).collect() }
    }
}

/// One evaluation: the bound, what attains it, and by how much that exceeds each limit.
#[derive(Debug, Clone)]
pub(crate) struct Relaxed {
    /// Proven internal bound; `None` when everything is forbidden.
    pub bound: Option<i128>,
    /// The choice, split nodes by their copies' majority.
    pub choice: Vec<u32>,
    /// Usage less limit, averaged over copies.
    pub excess: Vec<f64>,
    /// All copies agree.
    pub agrees: bool,
}

/// How far to climb.
#[derive(Clone, Copy)]
pub(crate) struct Climb<'f> {
    pub steps: u32,
    /// What the bound is expected to reach.
    pub target: i128,
    /// Enough once the bound exceeds this.
    pub stop: i128,
    pub budget: u64,
    /// Asked between evaluations.
    pub halt: &'f dyn Fn() -> bool,
}

/// A model with its relaxation and restricted domains.
pub(crate) struct Dual<'m> {
    pub model: &'m Model,
    pub relaxation: &'m Relaxation,
    tables: Tables,
    /// Node costs, `INFINITY` where a strategy is out.
    pub domain: Vec<Vec<f64>>,
    priced: Vec<Vec<f64>>,
    /// Costs of the copies.
    shared: Vec<Vec<f64>>,
    copy_choice: Vec<u32>,
    /// Work of an evaluation besides the plan's.
    around: u64,
    pub work: u64,
}

impl<'m> Dual<'m> {
    pub(crate) fn new(model: &'m Model, relaxation: &'m Relaxation) -> Dual<'m> {
        let domain: Vec<Vec<f64>> = model.costs.iter().map(|c| c.iter().map(|&x| to_entry(x)).collect()).collect();
        let shared = relaxation.sizes.iter().map(|&s| vec![0.0; s]).collect();
        let copy_choice = vec![0; relaxation.sizes.len()];
        let entries = relaxation.sizes.iter().sum::<usize>() + model.rows.iter().map(|r| r.usage.len()).sum::<usize>();
        let around = 8 * (entries + model.limits.len() + relaxation.sizes.len()) as u64;
        Dual { model, relaxation, tables: Tables::default(), priced: domain.clone(), domain, shared, copy_choice, around, work: 0 }
    }

    /// Adds the price of each strategy's usage to the node costs and shares them out to the copies.
    fn price(&mut self, at: &Multipliers) {
        for (to, from) in self.priced.iter_mut().zip(&self.domain) {
            to.copy_from_slice(from);
        }
        add_prices(self.model, &at.prices, &mut self.priced);
        for (v, copies) in self.relaxation.copies.iter().enumerate() {
            if let [only] = copies[..] {
                self.shared[only as usize].copy_from_slice(&self.priced[v]);
            }
        }
        for (&v, agreement) in self.relaxation.split.iter().zip(&at.agreement) {
            let copies = &self.relaxation.copies[v as usize];
            for (&c, extra) in copies.iter().zip(agreement) {
                for ((to, &cost), &e) in self.shared[c as usize].iter_mut().zip(&self.priced[v as usize]).zip(extra) {
                    *to = (cost / copies.len() as f64).floor() + e;
                }
            }
        }
    }

    /// Evaluates the bound at these multipliers.
    pub(crate) fn evaluate(&mut self, at: &Multipliers) -> Relaxed {
        self.price(at);
        self.work += self.relaxation.plan.work + self.around;
        let least = self.relaxation.plan.forward(&self.shared, &mut self.tables);
        let mut relaxed = Relaxed { bound: None, choice: vec![0; self.model.costs.len()], excess: Vec::new(), agrees: true };
        if !least.is_finite() {
            return relaxed;
        }
        self.relaxation.plan.backward(&self.shared, &self.tables, &mut self.copy_choice);
        for (v, copies) in self.relaxation.copies.iter().enumerate() {
            relaxed.choice[v] = self.copy_choice[copies[0] as usize];
        }
        for &v in &self.relaxation.split {
            let copies = &self.relaxation.copies[v as usize];
            let mut votes = vec![0u32; self.model.size(v as usize)];
            copies.iter().for_each(|&c| votes[self.copy_choice[c as usize] as usize] += 1);
            let (s, &most) = votes.iter().enumerate().max_by_key(|&(s, &n)| (n, std::cmp::Reverse(s))).unwrap_or((0, &0));
            relaxed.choice[v as usize] = s as u32;
            relaxed.agrees &= most as usize == copies.len();
        }
        relaxed.excess = self.excess();
        relaxed.bound = Some(least as i128 - limits_price(self.model, &at.prices));
        relaxed
    }

    /// The best choice at these multipliers with the split nodes as in `vote`, if their values go together.
    pub(crate) fn decode(&mut self, at: &Multipliers, vote: Option<&Vec<u32>>) -> Option<Vec<u32>> {
        let vote = vote?;
        let kept: Vec<Vec<f64>> = self.relaxation.split.iter().map(|&v| self.domain[v as usize].clone()).collect();
        for &v in &self.relaxation.split {
            let s = vote[v as usize] as usize;
            self.domain[v as usize].iter_mut().enumerate().filter(|(k, _)| *k != s).for_each(|(_, c)| *c = f64::INFINITY);
        }
        let relaxed = self.evaluate(at);
        for (&v, own) in self.relaxation.split.iter().zip(kept) {
            self.domain[v as usize] = own;
        }
        relaxed.bound.map(|_| relaxed.choice)
    }

    /// Whether the copies of a node took different strategies in the last evaluation.
    pub(crate) fn disagrees(&self, v: usize) -> bool {
        let copies = &self.relaxation.copies[v];
        copies.iter().any(|&c| self.copy_choice[c as usize] != self.copy_choice[copies[0] as usize])
    }

    /// Usage less limit at every moment, each copy of a node counting for its share.
    fn excess(&self) -> Vec<f64> {
        let mut level = vec![0f64; self.model.limits.len() + 1];
        for row in &self.model.rows {
            let copies = &self.relaxation.copies[row.node as usize];
            let used: i64 = copies.iter().map(|&c| row.usage[self.copy_choice[c as usize] as usize]).sum();
            let used = used as f64 / copies.len() as f64;
            level[row.lo as usize] += used;
            level[row.hi as usize] -= used;
        }
        level.pop();
        let mut sum = 0.0;
        for (v, &limit) in level.iter_mut().zip(&self.model.limits) {
            sum += *v;
            *v = sum - limit as f64;
        }
        level
    }

    /// For every strategy, a proven bound on the choices that contain it. The last evaluation must be at `at`.
    pub(crate) fn marginals(&mut self, at: &Multipliers) -> Vec<Vec<f64>> {
        self.work += 2 * self.relaxation.plan.work + self.around;
        let shift = limits_price(self.model, &at.prices) as f64;
        let out = self.relaxation.plan.marginals(&self.shared, &self.tables);
        let strongest = |(v, copies): (usize, &Vec<u32>)| -> Vec<f64> {
            let best = |s: usize| copies.iter().map(|&c| out[c as usize][s]).fold(f64::NEG_INFINITY, f64::max);
            (0..self.model.size(v)).map(|s| best(s) - shift).collect()
        };
        self.relaxation.copies.iter().enumerate().map(strongest).collect()
    }

    /// Climbs. Every relaxed choice is shown to `seen`. `None` when everything is forbidden.
    pub(crate) fn climb(&mut self, ascent: &mut Ascent, climb: Climb, seen: &mut dyn FnMut(&Relaxed)) -> Option<i128> {
        let spent = self.work;
        for _ in 0..climb.steps {
            if ascent.over || self.work - spent > climb.budget || (climb.halt)() {
                break;
            }
            let relaxed = self.evaluate(&ascent.current);
            let bound = relaxed.bound?;
            seen(&relaxed);
            ascent.judge(bound, climb.target);
            // A tolerance below half a byte: excesses are averages over copies.
            let settled = relaxed.excess.iter().zip(&ascent.current.prices).all(|(&e, &p)| e < 1e-6 && (p == 0 || e > -1e-6));
            if ascent.best.is_some_and(|b| b > climb.stop) {
                break;
            }
            ascent.direction.turn(self, &ascent.current, &relaxed);
            let norm = ascent.direction.norm();
            if (settled && relaxed.agrees) || norm == 0.0 {
                ascent.over = true;
                break;
            }
            let ahead = ((climb.target - bound) as f64).max(1.0);
            ascent.direction.walk(self.model, &mut ascent.current, ascent.step * ahead / norm);
        }
        ascent.best
    }
}

/// A climb under way: it can be left and taken up again.
#[derive(Debug, Clone)]
pub(crate) struct Ascent {
    /// The best multipliers so far.
    pub at: Multipliers,
    /// The bound there.
    pub best: Option<i128>,
    /// Steps have become too small, or the bound is attained.
    pub over: bool,
    current: Multipliers,
    direction: Direction,
    step: f64,
    stale: u32,
    patience: u32,
}

impl Ascent {
    pub(crate) fn new(at: Multipliers, patience: u32) -> Ascent {
        let direction = Direction::zero(&at);
        Ascent { current: at.clone(), at, best: None, over: false, direction, step: 1.0, stale: 0, patience }
    }

    fn judge(&mut self, bound: i128, target: i128) {
        if self.best.is_none_or(|b| bound > b) {
            if self.best.is_none_or(|b| bound - b > (target - b).abs() >> 9) {
                self.stale = 0;
            }
            self.best = Some(bound);
            self.at.clone_from(&self.current);
        }
        self.stale += 1;
        if self.stale > self.patience {
            self.step *= 0.5;
            self.stale = 0;
            self.over |= self.step < 1e-3;
        }
    }
}

/// A deflected subgradient, in units where a price is worth its limit.
#[derive(Debug, Clone)]
struct Direction {
    prices: Vec<f64>,
    agreement: Vec<Vec<Vec<f64>>>,
}

/// How much of the old direction is kept.
const MEMORY: f64 = 0.3;

impl Direction {
    fn zero(at: &Multipliers) -> Direction {
        let agreement = at.agreement.iter().map(|copies| copies.iter().map(|c| vec![0.0; c.len()]).collect()).collect();
        Direction { prices: vec![0.0; at.prices.len()], agreement }
    }

    fn turn(&mut self, dual: &Dual, at: &Multipliers, relaxed: &Relaxed) {
        for (k, d) in self.prices.iter_mut().enumerate() {
            let e = relaxed.excess[k] / dual.model.limits[k].max(1) as f64;
            let g = if at.prices[k] == 0 && e < 0.0 { 0.0 } else { e };
            *d = MEMORY * *d + (1.0 - MEMORY) * g;
            if at.prices[k] == 0 && *d < 0.0 {
                *d = 0.0;
            }
        }
        for (&v, copies) in dual.relaxation.split.iter().zip(&mut self.agreement) {
            let ids = &dual.relaxation.copies[v as usize];
            let share = 1.0 / ids.len() as f64;
            copies.iter_mut().flatten().for_each(|d| *d *= MEMORY);
            for (k, &c) in ids.iter().enumerate() {
                let s = dual.copy_choice[c as usize] as usize;
                copies.iter_mut().for_each(|other| other[s] -= (1.0 - MEMORY) * share);
                copies[k][s] += 1.0 - MEMORY;
            }
        }
    }

    fn norm(&self) -> f64 {
        let agreement: f64 = self.agreement.iter().flatten().flatten().map(|d| d * d).sum();
        self.prices.iter().map(|d| d * d).sum::<f64>() + agreement
    }

    fn walk(&self, model: &Model, at: &mut Multipliers, scale: f64) {
        let most = (1i64 << 56) / model.limits.len().max(1) as i64;
        for ((p, d), &limit) in at.prices.iter_mut().zip(&self.prices).zip(&model.limits) {
            let more = scale * d / limit.max(1) as f64 * f64::from(1u32 << PRICE_BITS);
            *p = p.saturating_add(more as i64).clamp(0, most);
        }
        for (copies, directions) in at.agreement.iter_mut().zip(&self.agreement) {
            let strategies = directions[0].len();
            for s in 0..strategies {
                // Whole steps that sum to zero: the first copy takes the rest.
                let mut rest = 0.0;
                for (to, d) in copies.iter_mut().zip(directions).skip(1) {
                    let more = (scale * d[s]).round();
                    let more = if (to[s] + more).abs() > CAP { 0.0 } else { more };
                    to[s] += more;
                    rest += more;
                }
                copies[0][s] -= rest;
            }
        }
    }
}

/// Adds to each strategy's cost the price of its usage, rounded down.
pub(crate) fn add_prices(model: &Model, prices: &[i64], costs: &mut [Vec<f64>]) {
    let mut sums = Vec::with_capacity(prices.len() + 1);
    let mut sum = 0i64;
    sums.push(0i64);
    for &p in prices {
        sum = sum.saturating_add(p);
        sums.push(sum);
    }
    let unit = f64::from(1u32 << PRICE_BITS).recip();
    for row in &model.rows {
        let price = (sums[row.hi as usize] - sums[row.lo as usize]) as f64 * unit * (1.0 - 8.0 * f64::EPSILON);
        if price > 0.0 {
            for (c, &u) in costs[row.node as usize].iter_mut().zip(&row.usage) {
                *c += (price * u as f64).floor().min(CAP);
            }
        }
    }
}

/// What the limits are worth at these prices, rounded up.
pub(crate) fn limits_price(model: &Model, prices: &[i64]) -> i128 {
    let total: i128 = prices.iter().zip(&model.limits).map(|(&p, &l)| i128::from(p) * i128::from(l)).sum();
    (total + (1 << PRICE_BITS) - 1) >> PRICE_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::sample::{Sample, choices, model, optimum};
    use crate::state::Network;

    #[test]
    fn bounds_and_marginals_of_split_relaxations_never_exceed_the_truth() {
        let mut random = Random::new(11);
        let shape = Sample { nodes: 6, strategies: 4, pairs: 12, moments: 4, forbidden: 0.1, limit: 0.5 };
        for round in 0..200 {
            let m = model(&mut random, shape);
            let best = optimum(&m);
            for relaxation in [
                Relaxation::of(&m, &Network::of(&m), 4.0, &mut random),
                crate::splitting::Splitter::new(&m, 3.0).run(&m),
                Relaxation::of(&m, &Network::of(&m), 20.0, &mut random),
            ] {
                let mut dual = Dual::new(&m, &relaxation);
                let target = i128::from(best.unwrap_or(5_000)) + 1;
                let mut ascent = Ascent::new(Multipliers::zero(&m, &relaxation), 8);
                let climb = Climb { steps: 60, target, stop: i128::MAX, budget: u64::MAX, halt: &|| false };
                let bound = dual.climb(&mut ascent, climb, &mut |_| {});
                let (Some(best), Some(bound)) = (best, bound) else {
                    assert!(best.is_none(), "round {round}: a feasible model was found forbidden");
                    continue;
                };
                assert!(bound <= i128::from(best), "round {round}: bound {bound} above {best}");
                dual.evaluate(&ascent.at);
                let marginals = dual.marginals(&ascent.at);
                for choice in choices(&m).iter().filter(|c| m.excess(c) <= 0) {
                    let Some(cost) = m.cost(choice) else { continue };
                    for (v, &s) in choice.iter().enumerate() {
                        assert!(marginals[v][s as usize] <= cost as f64, "round {round}: node {v} strategy {s}");
                    }
                }
            }
        }
    }
}
