//! Memory multipliers: one nonnegative price per moment turns limits into node costs.
//!
//! For prices `p` the minimum over all choices of `cost + p·usage`, less `p·limit`, is a bound on the optimum. The
//! minimum comes from an exact [`Plan`]. Prices are integers in units of 2^-20 internal cost, node penalties are
//! rounded down and the price of the limits up, so every bound is proven, not approximate.

use crate::elimination::{Plan, Tables, to_entry};
use crate::model::Model;

/// Fraction bits of a price.
const PRICE_BITS: u32 = 20;

/// Prices, one a moment.
pub(crate) type Prices = Vec<i64>;

/// One evaluation: the bound, what attains it, and by how much that exceeds each limit.
#[derive(Debug, Clone)]
pub(crate) struct Relaxed {
    /// Proven internal bound; `None` when everything is forbidden.
    pub bound: Option<i128>,
    pub choice: Vec<u32>,
    pub excess: Vec<i64>,
}

/// A model with its plan and restricted domains.
pub(crate) struct Dual<'m> {
    pub model: &'m Model,
    pub plan: &'m Plan,
    pub tables: Tables,
    /// Node costs, `INFINITY` where a strategy is out.
    pub domain: Vec<Vec<f64>>,
    priced: Vec<Vec<f64>>,
    pub work: u64,
}

impl<'m> Dual<'m> {
    pub(crate) fn new(model: &'m Model, plan: &'m Plan) -> Dual<'m> {
        let domain: Vec<Vec<f64>> = model.costs.iter().map(|c| c.iter().map(|&x| to_entry(x)).collect()).collect();
        Dual { model, plan, tables: Tables::default(), priced: domain.clone(), domain, work: 0 }
    }

    /// Adds the price of each strategy's usage to the node costs.
    fn price(&mut self, prices: &[i64]) {
        for (to, from) in self.priced.iter_mut().zip(&self.domain) {
            to.copy_from_slice(from);
        }
        add_prices(self.model, prices, &mut self.priced);
    }

    /// Evaluates the bound at these prices.
    pub(crate) fn evaluate(&mut self, prices: &[i64]) -> Relaxed {
        self.price(prices);
        self.work += self.plan.work;
        let least = self.plan.forward(&self.priced, &mut self.tables);
        let mut choice = vec![0; self.model.costs.len()];
        if !least.is_finite() {
            return Relaxed { bound: None, choice, excess: Vec::new() };
        }
        self.plan.backward(&self.priced, &self.tables, &mut choice);
        let excess = self.model.usage(&choice).iter().zip(&self.model.limits).map(|(u, l)| u - l).collect();
        Relaxed { bound: Some(least as i128 - limits_price(self.model, prices)), choice, excess }
    }

    /// For every strategy, a proven bound on the choices that contain it. The last evaluation must be at `prices`.
    pub(crate) fn marginals(&mut self, prices: &[i64]) -> Vec<Vec<f64>> {
        self.work += 2 * self.plan.work;
        let shift = limits_price(self.model, prices) as f64;
        let mut out = self.plan.marginals(&self.priced, &self.tables);
        out.iter_mut().flatten().for_each(|x| *x -= shift);
        out
    }

    /// Climbs from `prices` for at most `steps` evaluations, towards `target`; stops once the bound exceeds `stop`.
    ///
    /// Every relaxed choice is shown to `seen`. Gives the best bound and its prices, which replace `prices`.
    pub(crate) fn climb(&mut self, prices: &mut Prices, steps: u32, target: i128, stop: i128, budget: u64, seen: &mut dyn FnMut(&Relaxed)) -> Option<i128> {
        let spent = self.work;
        let mut at = prices.clone();
        let mut best: Option<i128> = None;
        let mut direction = vec![0f64; at.len()];
        let mut step = 1.0f64;
        let mut stale = 0;
        for _ in 0..steps {
            let relaxed = self.evaluate(&at);
            let bound = relaxed.bound?;
            seen(&relaxed);
            if best.is_none_or(|b| bound > b) {
                if best.is_none_or(|b| bound - b > (b.abs() >> 14)) {
                    stale = 0;
                }
                best = Some(bound);
                prices.clone_from(&at);
            }
            stale += 1;
            if stale > 8 {
                step *= 0.5;
                stale = 0;
            }
            let violated = relaxed.excess.iter().any(|&e| e > 0);
            let tight = relaxed.excess.iter().zip(&at).all(|(&e, &p)| p == 0 || e == 0);
            if best.is_some_and(|b| b > stop) || (!violated && tight) || self.work - spent > budget || step < 1e-3 {
                break;
            }
            for ((d, &e), &p) in direction.iter_mut().zip(&relaxed.excess).zip(&at) {
                let g = if p == 0 && e < 0 { 0.0 } else { e as f64 };
                *d = 0.3 * *d + 0.7 * g;
                if p == 0 && *d < 0.0 {
                    *d = 0.0;
                }
            }
            let norm: f64 = direction.iter().map(|d| d * d).sum();
            if norm == 0.0 {
                break;
            }
            let ahead = ((target - bound) as f64).max(1.0);
            let scale = step * ahead / norm * f64::from(1u32 << PRICE_BITS);
            let most = 1i64 << 56;
            for (p, d) in at.iter_mut().zip(&direction) {
                *p = (*p).saturating_add((scale * d) as i64).clamp(0, most / self.model.limits.len().max(1) as i64);
            }
        }
        best
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
                *c += (price * u as f64).floor();
            }
        }
    }
}

/// What the limits are worth at these prices, rounded up.
pub(crate) fn limits_price(model: &Model, prices: &[i64]) -> i128 {
    let total: i128 = prices.iter().zip(&model.limits).map(|(&p, &l)| i128::from(p) * i128::from(l)).sum();
    (total + (1 << PRICE_BITS) - 1) >> PRICE_BITS
}
