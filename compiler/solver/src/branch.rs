//! Branch and bound over strategies, bounded by memory multipliers on an exact plan.
//!
//! At every node the prices are improved a little; strategies whose proven marginal bound reaches the incumbent are
//! removed; then one variable is split, its strategies in order of their bounds. The search is complete: when it
//! ends within its budget the incumbent is optimal, or, without an incumbent, nothing is feasible.

use crate::lagrange::{Ascent, Climb, Dual, Multipliers};
use crate::model::Model;
use crate::relaxation::Relaxation;

/// How a search ended.
#[derive(Debug, Clone)]
pub(crate) struct Searched {
    /// Best feasible choice found that beats the incumbent given, with its internal cost.
    pub best: Option<(i64, Vec<u32>)>,
    /// Proven internal bound on everything.
    pub bound: i128,
    /// The tree was searched to its end.
    pub complete: bool,
    pub branches: u64,
    pub work: u64,
}

/// Searches for a choice with internal cost below `below`.
pub(crate) struct Search<'m, 'f> {
    dual: Dual<'m>,
    /// Only costs below this are of interest, in internal units.
    below: i64,
    /// True costs are integers: whatever is not below `below` by this much is no improvement.
    grain: i128,
    best: Option<(i64, Vec<u32>)>,
    branches: u64,
    budget: u64,
    halted: bool,
    /// The least bound of what was left unexplored.
    open: Option<i128>,
    stop: &'f dyn Fn() -> bool,
}

impl<'m, 'f> Search<'m, 'f> {
    pub(crate) fn new(model: &'m Model, relaxation: &'m Relaxation, below: i64, budget: u64, stop: &'f dyn Fn() -> bool) -> Self {
        let grain = if model.unit.exact() { 1i128 << model.unit.up } else { 1 };
        Search { dual: Dual::new(model, relaxation), below, grain, best: None, branches: 0, budget, halted: false, open: None, stop }
    }

    /// Runs from these prices.
    pub(crate) fn run(mut self, mut at: Multipliers, steps: u32) -> Searched {
        let bound = self.node(&mut at, steps, 0);
        let ceiling = i128::from(self.below);
        let bound = match self.open {
            Some(open) => open.min(ceiling),
            None => bound.unwrap_or(ceiling).max(ceiling),
        };
        Searched { best: self.best, bound, complete: !self.halted, branches: self.branches, work: self.dual.work }
    }

    /// Whatever is worth finding costs at most this.
    fn worth(&self) -> i128 {
        i128::from(self.below) - self.grain
    }

    fn offer(&mut self, choice: &[u32]) {
        let model = self.dual.model;
        if model.excess(choice) > 0 {
            return;
        }
        if let Some(cost) = model.cost(choice).filter(|&c| c < self.below) {
            self.below = cost;
            self.best = Some((cost, choice.to_vec()));
        }
    }

    /// Gives a bound on the subtree, or `None` when it is empty.
    fn node(&mut self, at: &mut Multipliers, steps: u32, depth: u32) -> Option<i128> {
        self.branches += 1;
        let mut found: Vec<Vec<u32>> = Vec::new();
        let worth = self.worth();
        let budget = self.budget.saturating_sub(self.dual.work);
        let target = worth + worth / 64 + 1;
        let mut ascent = Ascent::new(std::mem::take(at), 8);
        let bound = self.dual.climb(&mut ascent, Climb { steps, target, stop: worth, budget, halt: self.stop }, &mut |relaxed| {
            if relaxed.excess.iter().all(|&e| e < 1e-6) {
                found.push(relaxed.choice.clone());
            }
        })?;
        *at = ascent.at;
        for choice in &found {
            self.offer(choice);
        }
        if bound > self.worth() {
            return Some(bound);
        }
        let relaxed = self.dual.evaluate(at);
        self.offer(&relaxed.choice);
        let marginals = self.dual.marginals(at);
        let worth = self.worth();
        let mut removed: Vec<(usize, usize, f64)> = Vec::new();
        let mut split: Option<(usize, usize, f64)> = None;
        for (n, row) in marginals.iter().enumerate() {
            let mut left = 0;
            let mut sum = 0.0;
            for (s, &m) in row.iter().enumerate() {
                let old = self.dual.domain[n][s];
                if !old.is_finite() {
                    continue;
                }
                if m > worth as f64 {
                    removed.push((n, s, old));
                    self.dual.domain[n][s] = f64::INFINITY;
                } else {
                    left += 1;
                    sum += m - bound as f64;
                }
            }
            // The split that raises the bounds of its children most, for its number of children.
            let apart = if self.dual.disagrees(n) { 16.0 } else { 1.0 };
            let merit = apart * (sum + 1.0) / (left as f64 * left as f64);
            if left > 1 && split.is_none_or(|(_, _, b)| merit > b) {
                split = Some((n, left, merit));
            }
        }
        let result = match split {
            _ if bound > worth => Some(bound),
            None => {
                // At most one strategy is left everywhere: it is decided.
                let relaxed = self.dual.evaluate(at);
                if relaxed.bound.is_some() {
                    self.offer(&relaxed.choice);
                }
                Some(i128::from(self.below).max(bound))
            }
            Some(_) if self.halted || self.dual.work > self.budget || depth > 400 || (self.stop)() => {
                self.halted = true;
                self.open = Some(self.open.map_or(bound, |o| o.min(bound)));
                Some(bound)
            }
            Some((n, _, _)) => Some(self.split(n, &marginals[n], at, depth)),
        };
        for (n, s, old) in removed {
            self.dual.domain[n][s] = old;
        }
        result
    }

    fn split(&mut self, n: usize, marginals: &[f64], at: &Multipliers, depth: u32) -> i128 {
        let whole = self.dual.domain[n].clone();
        let mut order: Vec<usize> = (0..whole.len()).filter(|&s| whole[s].is_finite()).collect();
        order.sort_by(|&a, &b| marginals[a].total_cmp(&marginals[b]).then(a.cmp(&b)));
        let mut least: Option<i128> = None;
        for s in order {
            if marginals[s] > self.worth() as f64 {
                continue;
            }
            for (t, c) in self.dual.domain[n].iter_mut().enumerate() {
                *c = if t == s { whole[s] } else { f64::INFINITY };
            }
            let mut below = at.clone();
            if let Some(bound) = self.node(&mut below, 12, depth + 1) {
                least = Some(least.map_or(bound, |l| l.min(bound)));
            }
        }
        self.dual.domain[n] = whole;
        least.unwrap_or(i128::from(self.below))
    }
}
