//! Exact reductions: what folds away before any search, and how a choice is carried back.
//!
//! Arc consistency, forced and dominated strategies, followers folded into the node that decides them, parallel
//! pairs merged, lone nodes, leaves and chains without memory eliminated, moments that cannot bind dropped.
//! Invariant: the reduced model has the optimum of the original one, and [`Reduced::lift`] turns a choice of the
//! former into one of the latter with the same cost, and within the limits where the former is.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::model::{FORBIDDEN, Model, Pair, Row, add};
use crate::moments::tighten;
use crate::outcome::Stats;

/// A model that the reductions are done with, and the way back.
pub(crate) struct Reduced {
    pub model: Model,
    /// Original node of each model node, and original strategy of each of its strategies.
    names: Vec<(u32, Vec<u32>)>,
    steps: Vec<Step>,
    nodes: usize,
    /// Original moment of each model moment.
    pub moments: Vec<u32>,
    pub stats: Stats,
}

/// Why the reductions found that nothing is feasible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contradiction;

enum Step {
    /// The node follows another: its strategy is a function of the other's.
    Follow { node: u32, leader: u32, map: Vec<u32> },
    /// The node takes the cheapest strategy given its neighbours.
    Cheapest { node: u32, costs: Vec<i64>, pairs: Vec<(u32, Vec<i64>)> },
    /// The node has one strategy.
    Fixed { node: u32, strategy: u32 },
}

/// Matrices made by eliminating chain nodes stay below this many entries, unless one is there already.
const MATRIX_ENTRIES: usize = 1 << 20;
/// Dominance is looked for where it takes no more than this many steps, once for a whole problem or often.
pub(crate) const DOMINANCE_ONCE: usize = 20_000_000;
pub(crate) const DOMINANCE_OFTEN: usize = 20_000;

struct Reducer {
    costs: Vec<Vec<i64>>,
    alive: Vec<Vec<bool>>,
    count: Vec<u32>,
    gone: Vec<bool>,
    /// Pair slots, `None` once gone.
    pairs: Vec<Option<Pair>>,
    touching: Vec<Vec<u32>>,
    rows: Vec<Row>,
    limits: Vec<i64>,
    /// Original moment of each one left.
    moments: Vec<u32>,
    rows_of: Vec<Vec<u32>>,
    /// Nodes to look at again: those with at most two neighbours first, so that a hub is looked at once for all of them.
    quick: Vec<u32>,
    later: VecDeque<u32>,
    queued: Vec<bool>,
    steps: Vec<Step>,
    stats: Stats,
    base: i64,
    /// Most steps of one node's search for dominance.
    dominance: usize,
}

/// Applies every reduction until none applies.
pub(crate) fn reduce(model: &Model, dominance: usize) -> Result<Reduced, Contradiction> {
    let nodes = model.costs.len();
    let mut r = Reducer {
        costs: model.costs.clone(),
        alive: model.costs.iter().map(|c| c.iter().map(|&x| x < FORBIDDEN).collect()).collect(),
        count: model.costs.iter().map(|c| c.iter().filter(|&&x| x < FORBIDDEN).count() as u32).collect(),
        gone: vec![false; nodes],
        pairs: Vec::with_capacity(model.pairs.len()),
        touching: vec![Vec::new(); nodes],
        rows: model.rows.clone(),
        limits: model.limits.clone(),
        moments: (0..model.limits.len() as u32).collect(),
        rows_of: vec![Vec::new(); nodes],
        quick: Vec::new(),
        later: VecDeque::new(),
        queued: vec![false; nodes],
        steps: Vec::new(),
        stats: Stats::default(),
        base: 0,
        dominance,
    };
    if r.count.contains(&0) {
        return Err(Contradiction);
    }
    r.take_pairs(model);
    r.settle_memory()?;
    for i in 0..nodes as u32 {
        r.push(i);
    }
    loop {
        r.drain()?;
        if !r.settle_memory()? {
            break;
        }
    }
    Ok(r.finish(model))
}

impl Reducer {
    fn push(&mut self, node: u32) {
        if !self.queued[node as usize] && !self.gone[node as usize] {
            self.queued[node as usize] = true;
            if self.touching[node as usize].len() <= 2 {
                self.quick.push(node);
            } else {
                self.later.push_back(node);
            }
        }
    }

    fn size(&self, node: u32) -> usize {
        self.costs[node as usize].len()
    }

    fn live(&self, node: u32) -> impl Iterator<Item = usize> + '_ {
        self.alive[node as usize].iter().enumerate().filter(|(_, a)| **a).map(|(s, _)| s)
    }

    /// Takes in the pairs, parallel ones merged.
    fn take_pairs(&mut self, model: &Model) {
        let mut slot: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        for pair in &model.pairs {
            let key = (pair.a.min(pair.b), pair.a.max(pair.b));
            if let Some(&at) = slot.get(&key) {
                let old = self.pairs[at as usize].take().expect("invariant: slots are filled while taking pairs in");
                self.pairs[at as usize] = Some(merged(old, pair, |n| self.costs[n as usize].len()));
            } else {
                let at = self.pairs.len() as u32;
                slot.insert(key, at);
                self.pairs.push(Some(pair.clone()));
                self.touching[pair.a as usize].push(at);
                self.touching[pair.b as usize].push(at);
            }
        }
    }

    fn find(&self, a: u32, b: u32) -> Option<u32> {
        let (few, other) = if self.touching[a as usize].len() <= self.touching[b as usize].len() { (a, b) } else { (b, a) };
        self.touching[few as usize].iter().copied().find(|&at| self.other(at, few) == other)
    }

    fn other(&self, at: u32, node: u32) -> u32 {
        let pair = self.pairs[at as usize].as_ref().expect("invariant: touching lists hold live pairs");
        if pair.a == node { pair.b } else { pair.a }
    }

    /// Adds a pair, merging it with one that is there.
    fn insert(&mut self, pair: Pair) {
        if let Some(at) = self.find(pair.a, pair.b) {
            let old = self.pairs[at as usize].take().expect("invariant: touching lists hold live pairs");
            self.pairs[at as usize] = Some(merged(old, &pair, |n| self.costs[n as usize].len()));
        } else {
            let at = self.pairs.len() as u32;
            self.touching[pair.a as usize].push(at);
            self.touching[pair.b as usize].push(at);
            self.pairs.push(Some(pair));
        }
    }

    /// Takes a pair out.
    fn remove(&mut self, at: u32) -> Pair {
        let pair = self.pairs[at as usize].take().expect("invariant: touching lists hold live pairs");
        for n in [pair.a, pair.b] {
            self.touching[n as usize].retain(|&x| x != at);
        }
        pair
    }

    fn kill(&mut self, node: u32, s: usize) -> Result<(), Contradiction> {
        self.alive[node as usize][s] = false;
        self.costs[node as usize][s] = FORBIDDEN;
        self.count[node as usize] -= 1;
        self.stats.strategies_removed += 1;
        if self.count[node as usize] == 0 {
            return Err(Contradiction);
        }
        self.push(node);
        for k in 0..self.touching[node as usize].len() {
            let other = self.other(self.touching[node as usize][k], node);
            self.push(other);
        }
        Ok(())
    }

    /// Tightens moments and limits, and forbids strategies that alone use more than a moment has.
    fn settle_memory(&mut self) -> Result<bool, Contradiction> {
        if self.limits.is_empty() {
            return Ok(false);
        }
        let before = (self.rows.len(), self.limits.len());
        let alive = &self.alive;
        let found = tighten(&mut self.rows, &mut self.limits, &|n, s| alive[n as usize][s]);
        if found.broken.is_some() {
            return Err(Contradiction);
        }
        self.moments = found.kept.iter().map(|&t| self.moments[t as usize]).collect();
        for list in &mut self.rows_of {
            list.clear();
        }
        for (k, row) in self.rows.iter().enumerate() {
            self.rows_of[row.node as usize].push(k as u32);
        }
        let mut changed = before != (self.rows.len(), self.limits.len());
        let least = RangeMinimum::of(&self.limits);
        for k in 0..self.rows.len() {
            let (node, slack) = (self.rows[k].node, least.over(self.rows[k].lo as usize, self.rows[k].hi as usize));
            for s in 0..self.rows[k].usage.len() {
                if self.rows[k].usage[s] > slack && self.alive[node as usize][s] {
                    self.kill(node, s)?;
                    changed = true;
                }
            }
        }
        if changed {
            for n in 0..self.costs.len() as u32 {
                self.push(n);
            }
        }
        Ok(changed)
    }

    fn drain(&mut self) -> Result<(), Contradiction> {
        while let Some(node) = self.quick.pop().or_else(|| self.later.pop_front()) {
            self.queued[node as usize] = false;
            if self.gone[node as usize] {
                continue;
            }
            if self.count[node as usize] == 0 {
                return Err(Contradiction);
            }
            self.support(node)?;
            if self.count[node as usize] == 1 {
                self.absorb(node);
                continue;
            }
            self.dominated(node)?;
            if self.count[node as usize] == 1 {
                self.absorb(node);
                continue;
            }
            if self.uses_memory(node) || !self.eliminate(node) {
                self.fold_into(node);
            }
        }
        Ok(())
    }

    fn uses_memory(&self, node: u32) -> bool {
        self.rows_of[node as usize].iter().any(|&k| {
            let usage = &self.rows[k as usize].usage;
            let mut live = self.live(node).map(|s| usage[s]);
            let first = live.next();
            live.any(|u| Some(u) != first)
        })
    }

    /// Removes strategies without a partner in some neighbour.
    fn support(&mut self, node: u32) -> Result<(), Contradiction> {
        for k in 0..self.touching[node as usize].len() {
            let at = self.touching[node as usize][k];
            let other = self.other(at, node);
            let pair = self.pairs[at as usize].as_ref().expect("invariant: touching lists hold live pairs");
            let bare: Vec<usize> = self.live(node).filter(|&s| !self.live(other).any(|t| entry(pair, node, self.size(pair.b), s, t) < FORBIDDEN)).collect();
            for s in bare {
                self.kill(node, s)?;
            }
        }
        Ok(())
    }

    /// The only strategy's costs move to the neighbours; its usage is constant and moves into the limits.
    fn absorb(&mut self, node: u32) {
        let s = self.live(node).next().expect("invariant: one strategy is alive");
        self.base += self.costs[node as usize][s];
        for at in self.touching[node as usize].clone() {
            let other = self.other(at, node);
            let pair = self.remove(at);
            let columns = self.size(pair.b);
            for t in 0..self.size(other) {
                let c = entry(&pair, node, columns, s, t);
                self.costs[other as usize][t] = add(self.costs[other as usize][t], c);
                if c >= FORBIDDEN && self.alive[other as usize][t] {
                    // Arc consistency of the neighbour will not see this pair again.
                    self.alive[other as usize][t] = false;
                    self.count[other as usize] -= 1;
                    self.stats.strategies_removed += 1;
                    for k in 0..self.touching[other as usize].len() {
                        let third = self.other(self.touching[other as usize][k], other);
                        self.push(third);
                    }
                }
            }
            self.push(other);
        }
        self.gone[node as usize] = true;
        self.stats.fixed += 1;
        self.steps.push(Step::Fixed { node, strategy: s as u32 });
    }

    /// Removes strategies that another replaces at no cost and no more memory, whatever the neighbours do.
    fn dominated(&mut self, node: u32) -> Result<(), Contradiction> {
        let n = self.count[node as usize] as usize;
        let wide: usize = self.touching[node as usize].iter().map(|&at| self.count[self.other(at, node) as usize] as usize).sum();
        if n * n * (wide + 1) > self.dominance {
            return Ok(());
        }
        // Live entries, one dense row a strategy, so that the comparisons run over contiguous memory.
        let live: Vec<usize> = self.live(node).collect();
        let mut table = vec![0i64; n * wide];
        let mut ends = Vec::new();
        let mut at_column = 0;
        for &at in &self.touching[node as usize] {
            let other = self.other(at, node);
            let pair = self.pairs[at as usize].as_ref().expect("invariant: touching lists hold live pairs");
            let columns = self.size(pair.b);
            for t in self.live(other) {
                for (k, &s) in live.iter().enumerate() {
                    table[k * wide + at_column] = entry(pair, node, columns, s, t);
                }
                at_column += 1;
            }
            ends.push(at_column);
        }
        let usage: Vec<&[i64]> = self.rows_of[node as usize].iter().map(|&k| &self.rows[k as usize].usage[..]).collect();
        let cost: Vec<i64> = live.iter().map(|&s| self.costs[node as usize][s]).collect();
        let mut dead = vec![false; n];
        for worse in 0..n {
            let row = |k: usize| &table[k * wide..(k + 1) * wide];
            let probes = cheapest_partners(row(worse), &ends);
            for better in 0..n {
                if better == worse || dead[better] || usage.iter().any(|u| u[live[better]] > u[live[worse]]) {
                    continue;
                }
                let own = cost[better] - cost[worse];
                if probes.as_ref().is_some_and(|p| loses_there(own, row(better), row(worse), p)) {
                    continue;
                }
                if loss(own, row(better), row(worse), &ends) {
                    dead[worse] = true;
                    break;
                }
            }
        }
        for k in 0..n {
            if dead[k] {
                self.kill(node, live[k])?;
            }
        }
        Ok(())
    }

    /// Eliminates a node without memory and with at most two neighbours.
    fn eliminate(&mut self, node: u32) -> bool {
        let touching = self.touching[node as usize].clone();
        match touching[..] {
            [] => {
                self.base += self.live(node).map(|s| self.costs[node as usize][s]).min().unwrap_or(0);
                self.cheapest(node, Vec::new());
            }
            [at] => {
                let other = self.other(at, node);
                let pair = self.remove(at);
                let matrix = self.oriented(pair, other);
                let width = self.size(node);
                for t in 0..self.size(other) {
                    let best = self.live(node).map(|s| add(self.costs[node as usize][s], matrix[t * width + s])).min();
                    let c = add(self.costs[other as usize][t], best.unwrap_or(FORBIDDEN));
                    self.costs[other as usize][t] = c;
                    if c >= FORBIDDEN && self.alive[other as usize][t] {
                        self.alive[other as usize][t] = false;
                        self.count[other as usize] -= 1;
                        for k in 0..self.touching[other as usize].len() {
                            let third = self.other(self.touching[other as usize][k], other);
                            self.push(third);
                        }
                    }
                }
                self.push(other);
                self.cheapest(node, vec![(other, matrix)]);
            }
            [first, second] => {
                let (a, b) = (self.other(first, node), self.other(second, node));
                let (wide, tall) = (self.size(a), self.size(b));
                if wide * tall > MATRIX_ENTRIES && self.find(a, b).is_none() {
                    return false;
                }
                let (pa, pb) = (self.remove(first), self.remove(second));
                let (ma, mb) = (self.oriented(pa, a), self.oriented(pb, b));
                let n = self.size(node);
                let costs = &self.costs[node as usize];
                let mut cost = vec![FORBIDDEN; wide * tall];
                let mut row = vec![0i64; n];
                for i in self.live(a) {
                    for s in 0..n {
                        row[s] = add(costs[s], ma[i * n + s]);
                    }
                    for j in self.live(b) {
                        let best = row.iter().zip(&mb[j * n..(j + 1) * n]).map(|(x, y)| x + y).min();
                        cost[i * tall + j] = best.unwrap_or(FORBIDDEN).min(FORBIDDEN);
                    }
                }
                self.insert(Pair { a, b, cost });
                self.push(a);
                self.push(b);
                self.cheapest(node, vec![(a, ma), (b, mb)]);
            }
            _ => return false,
        }
        true
    }

    fn cheapest(&mut self, node: u32, pairs: Vec<(u32, Vec<i64>)>) {
        self.gone[node as usize] = true;
        self.stats.eliminated += 1;
        let costs = std::mem::take(&mut self.costs[node as usize]);
        self.costs[node as usize] = vec![FORBIDDEN; costs.len()];
        self.steps.push(Step::Cheapest { node, costs, pairs });
    }

    /// The pair's table with `rows` numbering the rows.
    fn oriented(&self, pair: Pair, rows: u32) -> Vec<i64> {
        if pair.a == rows { pair.cost } else { transposed(&pair.cost, self.size(pair.a), self.size(pair.b)) }
    }

    /// Folds this node into a neighbour that decides it, where that cannot widen the problem.
    fn fold_into(&mut self, node: u32) -> bool {
        for k in 0..self.touching[node as usize].len() {
            let at = self.touching[node as usize][k];
            let leader = self.other(at, node);
            let chain = self.touching[node as usize].len() <= 2;
            if self.count[leader as usize] != self.count[node as usize] && !chain {
                continue;
            }
            let pair = self.pairs[at as usize].as_ref().expect("invariant: touching lists hold live pairs");
            let Some(map) = self.follows(pair, node, leader) else {
                continue;
            };
            let grown: usize = self.touching[node as usize].iter().map(|&e| self.size(self.other(e, node)) * self.size(leader)).sum();
            if grown > 4 * MATRIX_ENTRIES {
                continue;
            }
            self.fold(node, leader, at, map);
            return true;
        }
        false
    }

    /// For each strategy of the leader the only one of `node` that goes with it, if there is just one each.
    fn follows(&self, pair: &Pair, node: u32, leader: u32) -> Option<Vec<u32>> {
        let columns = self.size(pair.b);
        let mut map = vec![0; self.size(leader)];
        for s in self.live(leader) {
            let mut partners = self.live(node).filter(|&t| entry(pair, leader, columns, s, t) < FORBIDDEN);
            map[s] = partners.next()? as u32;
            if partners.next().is_some() {
                return None;
            }
        }
        Some(map)
    }

    fn fold(&mut self, node: u32, leader: u32, at: u32, map: Vec<u32>) {
        let pair = self.remove(at);
        let columns = self.size(pair.b);
        for s in 0..self.size(leader) {
            if self.alive[leader as usize][s] {
                let t = map[s] as usize;
                let c = add(self.costs[node as usize][t], entry(&pair, leader, columns, s, t));
                self.costs[leader as usize][s] = add(self.costs[leader as usize][s], c);
            }
        }
        for e in self.touching[node as usize].clone() {
            let third = self.other(e, node);
            let old = self.remove(e);
            let matrix = self.oriented(old, node);
            let width = self.size(third);
            let mut cost = vec![FORBIDDEN; self.size(leader) * width];
            for s in self.live(leader) {
                let t = map[s] as usize;
                cost[s * width..(s + 1) * width].copy_from_slice(&matrix[t * width..(t + 1) * width]);
            }
            self.insert(Pair { a: leader, b: third, cost });
            self.push(third);
        }
        for k in std::mem::take(&mut self.rows_of[node as usize]) {
            let row = &mut self.rows[k as usize];
            row.node = leader;
            row.usage = (0..self.costs[leader as usize].len()).map(|s| if self.alive[leader as usize][s] { row.usage[map[s] as usize] } else { 0 }).collect();
            self.rows_of[leader as usize].push(k);
        }
        self.gone[node as usize] = true;
        self.stats.folded += 1;
        self.push(leader);
        self.steps.push(Step::Follow { node, leader, map });
    }

    fn finish(mut self, model: &Model) -> Reduced {
        // A fixed node's rows are constant; the last pass has moved them into the limits.
        let kept: Vec<u32> = (0..self.costs.len() as u32).filter(|&n| !self.gone[n as usize]).collect();
        let mut number = vec![u32::MAX; self.costs.len()];
        let mut names = Vec::with_capacity(kept.len());
        for (k, &n) in kept.iter().enumerate() {
            number[n as usize] = k as u32;
            names.push((n, self.live(n).map(|s| s as u32).collect::<Vec<u32>>()));
        }
        let pick = |list: &[i64], n: u32| -> Vec<i64> { names[number[n as usize] as usize].1.iter().map(|&s| list[s as usize]).collect() };
        let costs = kept.iter().map(|&n| pick(&self.costs[n as usize], n)).collect();
        let mut pairs: Vec<Pair> = Vec::new();
        for pair in self.pairs.iter().flatten() {
            let columns = self.costs[pair.b as usize].len();
            let (na, nb) = (number[pair.a as usize], number[pair.b as usize]);
            let mut cost = Vec::with_capacity(names[na as usize].1.len() * names[nb as usize].1.len());
            for &s in &names[na as usize].1 {
                cost.extend(names[nb as usize].1.iter().map(|&t| pair.cost[s as usize * columns + t as usize]));
            }
            if cost.iter().any(|&c| c != 0) {
                pairs.push(Pair { a: na, b: nb, cost });
            }
        }
        let rows: Vec<Row> = self.rows.iter().map(|r| Row { node: number[r.node as usize], lo: r.lo, hi: r.hi, usage: pick(&r.usage, r.node) }).collect();
        self.stats.core_nodes = kept.len() as u32;
        self.stats.core_edges = pairs.len() as u32;
        self.stats.core_moments = self.limits.len() as u32;
        let unit = model.unit;
        let mut core = Model { costs, pairs, rows, limits: self.limits, offset: model.offset, unit };
        // The base is whole in internal units, but the offset is in true ones: it stays with the first node.
        if let Some(first) = core.costs.first_mut() {
            first.iter_mut().for_each(|c| *c = add(*c, self.base));
        } else {
            core.costs.push(vec![self.base]);
            names.push((u32::MAX, vec![0]));
        }
        Reduced { model: core, names, steps: self.steps, nodes: model.costs.len(), moments: self.moments, stats: self.stats }
    }
}

impl Reduced {
    /// A choice of the reduced model as one of the original.
    pub(crate) fn lift(&self, choice: &[u32]) -> Vec<u32> {
        let mut out = vec![0u32; self.nodes];
        for ((node, strategies), &s) in self.names.iter().zip(choice) {
            if *node != u32::MAX {
                out[*node as usize] = strategies[s as usize];
            }
        }
        for step in self.steps.iter().rev() {
            match step {
                Step::Fixed { node, strategy } => out[*node as usize] = *strategy,
                Step::Follow { node, leader, map } => out[*node as usize] = map[out[*leader as usize] as usize],
                Step::Cheapest { node, costs, pairs } => {
                    let width = costs.len();
                    let total = |s: usize| {
                        let mut sum = costs[s];
                        for (other, matrix) in pairs {
                            sum = add(sum, matrix[out[*other as usize] as usize * width + s]);
                        }
                        sum
                    };
                    out[*node as usize] = (0..width).min_by_key(|&s| total(s)).unwrap_or(0) as u32;
                }
            }
        }
        out
    }

    /// The choice of the reduced model nearest to one of the original (strategies that are gone become the first).
    pub(crate) fn lower(&self, choice: &[u32]) -> Vec<u32> {
        let place = |(node, strategies): &(u32, Vec<u32>)| {
            if *node == u32::MAX {
                return 0;
            }
            strategies.iter().position(|&s| s == choice[*node as usize]).unwrap_or(0) as u32
        };
        self.names.iter().map(place).collect()
    }
}

/// Of each neighbour the strategy that is cheapest beside one of ours; none if ours has no partner in some neighbour.
fn cheapest_partners(row: &[i64], ends: &[usize]) -> Option<Vec<usize>> {
    let mut from = 0;
    ends.iter()
        .map(|&to| {
            let at = (from..to).min_by_key(|&t| row[t]).filter(|&t| row[t] < FORBIDDEN);
            from = to;
            at
        })
        .collect()
}

/// Whether replacing costs something with these partners already, which is quicker to see than [`loss`].
fn loses_there(own: i64, better: &[i64], worse: &[i64], partners: &[usize]) -> bool {
    let mut total = own;
    for &t in partners {
        if better[t] >= FORBIDDEN {
            return true;
        }
        total += better[t] - worse[t];
    }
    total > 0
}

/// Whether replacing costs nothing at all: `own` plus, for each neighbour, the worst difference over its strategies.
fn loss(own: i64, better: &[i64], worse: &[i64], ends: &[usize]) -> bool {
    let mut total = own;
    let mut from = 0;
    for &to in ends {
        let mut most = i64::MIN;
        for (&b, &w) in better[from..to].iter().zip(&worse[from..to]) {
            if w < FORBIDDEN {
                if b >= FORBIDDEN {
                    return false;
                }
                most = most.max(b - w);
            }
        }
        if most == i64::MIN {
            // The worse one has no partner here at all.
            return true;
        }
        total += most;
        from = to;
    }
    total <= 0
}

/// The entry of a pair at strategy `s` of `node` and `t` of its other node; `columns` is the size of the pair's `b`.
#[inline(always)]
fn entry(pair: &Pair, node: u32, columns: usize, s: usize, t: usize) -> i64 {
    if pair.a == node { pair.cost[s * columns + t] } else { pair.cost[t * columns + s] }
}

pub(crate) fn transposed<T: Copy>(cost: &[T], rows: usize, columns: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(cost.len());
    for j in 0..columns {
        out.extend((0..rows).map(|i| cost[i * columns + j]));
    }
    out
}

fn merged(mut old: Pair, new: &Pair, size: impl Fn(u32) -> usize) -> Pair {
    if (old.a, old.b) == (new.a, new.b) {
        old.cost.iter_mut().zip(&new.cost).for_each(|(x, &y)| *x = add(*x, y));
    } else {
        let turned = transposed(&new.cost, size(new.a), size(new.b));
        old.cost.iter_mut().zip(&turned).for_each(|(x, &y)| *x = add(*x, y));
    }
    old
}

/// Minima over ranges of moments.
struct RangeMinimum {
    levels: Vec<Vec<i64>>,
}

impl RangeMinimum {
    fn of(values: &[i64]) -> RangeMinimum {
        let mut levels = vec![values.to_vec()];
        let mut half = 1;
        while 2 * half <= values.len() {
            let below = &levels[levels.len() - 1];
            let next = (0..=values.len() - 2 * half).map(|i| below[i].min(below[i + half])).collect();
            levels.push(next);
            half *= 2;
        }
        RangeMinimum { levels }
    }

    fn over(&self, lo: usize, hi: usize) -> i64 {
        let level = (usize::BITS - 1 - (hi - lo).leading_zeros()) as usize;
        self.levels[level][lo].min(self.levels[level][hi - (1 << level)])
    }
}
