//! A choice under change: its cost, and the slack of every moment, kept up to date move by move.
//!
//! The slack is stored in blocks with their minimum, so that a move over thousands of moments is judged by looking
//! only at the blocks where a limit is in reach.

use crate::model::{FORBIDDEN, Model, add};

const BLOCK: usize = 32;

/// Slack of every moment: limit less usage.
#[derive(Debug, Clone)]
pub(crate) struct Slack {
    value: Vec<i64>,
    /// Per block: what is still to be added to its values, and its true minimum.
    pending: Vec<i64>,
    least: Vec<i64>,
}

impl Slack {
    pub(crate) fn new(value: Vec<i64>) -> Slack {
        let least: Vec<i64> = value.chunks(BLOCK).map(|b| b.iter().copied().min().unwrap_or(i64::MAX)).collect();
        Slack { pending: vec![0; least.len()], least, value }
    }

    pub(crate) fn at(&self, t: usize) -> i64 {
        self.value[t] + self.pending[t / BLOCK]
    }

    /// Uses `amount` more during `lo..hi`.
    pub(crate) fn take(&mut self, lo: usize, hi: usize, amount: i64) {
        let mut t = lo;
        while t < hi {
            let block = t / BLOCK;
            let start = block * BLOCK;
            let stop = (start + BLOCK).min(self.value.len());
            if t == start && hi >= stop {
                self.pending[block] -= amount;
                self.least[block] -= amount;
            } else {
                for v in &mut self.value[t..hi.min(stop)] {
                    *v -= amount;
                }
                let low = self.value[start..stop].iter().copied().min().unwrap_or(i64::MAX);
                self.least[block] = low.saturating_add(self.pending[block]);
            }
            t = stop;
        }
    }

    /// The change of the total excess if `amount` more were used during `lo..hi`.
    pub(crate) fn excess_change(&self, lo: usize, hi: usize, amount: i64) -> i64 {
        if amount == 0 {
            return 0;
        }
        let mut total = 0;
        let mut t = lo;
        while t < hi {
            let block = t / BLOCK;
            let stop = ((block + 1) * BLOCK).min(hi);
            if self.least[block] < amount.max(0) {
                let pending = self.pending[block];
                for &v in &self.value[t..stop] {
                    let slack = v + pending;
                    total += (amount - slack).max(0) - (-slack).max(0);
                }
            }
            t = stop;
        }
        total
    }

    /// The total excess over all moments.
    pub(crate) fn excess(&self) -> i64 {
        (0..self.value.len()).map(|t| (-self.at(t)).max(0)).sum()
    }
}

/// Who is next to whom, and which rows are whose.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    /// For each node its pairs: the other node and the pair, turned so that this node numbers the rows.
    pub near: Vec<Vec<(u32, Vec<i64>)>>,
    /// For each node its usage rows.
    pub rows: Vec<Vec<u32>>,
}

impl Network {
    pub(crate) fn of(model: &Model) -> Network {
        let n = model.costs.len();
        let mut near: Vec<Vec<(u32, Vec<i64>)>> = vec![Vec::new(); n];
        for pair in &model.pairs {
            let (rows, columns) = (model.size(pair.a as usize), model.size(pair.b as usize));
            near[pair.a as usize].push((pair.b, pair.cost.clone()));
            near[pair.b as usize].push((pair.a, crate::reduce::transposed(&pair.cost, rows, columns)));
        }
        let mut rows = vec![Vec::new(); n];
        for (k, row) in model.rows.iter().enumerate() {
            rows[row.node as usize].push(k as u32);
        }
        Network { near, rows }
    }
}

/// A choice with its slack.
#[derive(Debug, Clone)]
pub(crate) struct State<'m> {
    pub model: &'m Model,
    pub network: &'m Network,
    pub choice: Vec<u32>,
    pub slack: Slack,
    /// Total excess over all moments.
    pub excess: i64,
}

impl<'m> State<'m> {
    pub(crate) fn new(model: &'m Model, network: &'m Network, choice: Vec<u32>) -> State<'m> {
        let slack = Slack::new(model.usage(&choice).iter().zip(&model.limits).map(|(u, l)| l - u).collect());
        let excess = slack.excess();
        State { model, network, choice, slack, excess }
    }

    /// The costs of all strategies of a node given its neighbours.
    pub(crate) fn costs_of(&self, node: usize, out: &mut Vec<i64>) {
        out.clear();
        out.extend_from_slice(&self.model.costs[node]);
        for (other, matrix) in &self.network.near[node] {
            let columns = self.model.size(*other as usize);
            let at = self.choice[*other as usize] as usize;
            for (s, c) in out.iter_mut().enumerate() {
                *c = add(*c, matrix[s * columns + at]);
            }
        }
    }

    /// The node's own cost and that of its pairs at present.
    pub(crate) fn cost_of(&self, node: usize) -> i64 {
        let s = self.choice[node] as usize;
        let mut total = self.model.costs[node][s];
        for (other, matrix) in &self.network.near[node] {
            total = add(total, matrix[s * self.model.size(*other as usize) + self.choice[*other as usize] as usize]);
        }
        total
    }

    /// The change of the total excess if the node took `s`. Its rows are disjoint.
    pub(crate) fn excess_change(&self, node: usize, s: usize) -> i64 {
        let now = self.choice[node] as usize;
        self.network.rows[node]
            .iter()
            .map(|&k| {
                let row = &self.model.rows[k as usize];
                self.slack.excess_change(row.lo as usize, row.hi as usize, row.usage[s] - row.usage[now])
            })
            .sum()
    }

    /// Takes strategy `s`.
    pub(crate) fn set(&mut self, node: usize, s: usize) {
        self.excess += self.excess_change(node, s);
        let now = self.choice[node] as usize;
        for &k in &self.network.rows[node] {
            let row = &self.model.rows[k as usize];
            let more = row.usage[s] - row.usage[now];
            if more != 0 {
                self.slack.take(row.lo as usize, row.hi as usize, more);
            }
        }
        self.choice[node] = s as u32;
    }

    /// Single-node descent on `cost + weight · excess`, until nothing improves or `rounds` are done.
    pub(crate) fn descend(&mut self, weight: f64, rounds: u32) -> u64 {
        let mut moves = 0;
        let mut costs = Vec::new();
        for _ in 0..rounds {
            let before = moves;
            for node in 0..self.choice.len() {
                if self.model.size(node) < 2 {
                    continue;
                }
                self.costs_of(node, &mut costs);
                let now = self.choice[node] as usize;
                let here = costs[now] as f64;
                let mut best = (0.0, now);
                for (s, &c) in costs.iter().enumerate() {
                    if s == now || c >= FORBIDDEN {
                        continue;
                    }
                    let gain = c as f64 - here;
                    if weight == 0.0 || self.excess == 0 && gain >= best.0 {
                        if gain < best.0 {
                            best = (gain, s);
                        }
                        continue;
                    }
                    let total = gain + weight * self.excess_change(node, s) as f64;
                    if total < best.0 - 1e-9 {
                        best = (total, s);
                    }
                }
                if best.1 != now {
                    self.set(node, best.1);
                    moves += 1;
                }
            }
            if moves == before {
                break;
            }
        }
        moves
    }
}
