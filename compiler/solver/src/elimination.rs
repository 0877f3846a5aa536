//! Exact dynamic programming by bucket elimination, for whatever is narrow enough.
//!
//! A [`Plan`] fixes the order and every table's layout once; it is then run many times with other node costs (the
//! memory multipliers change nothing else). Tables hold integers as `f64`: sums below 2^53 are exact, `INFINITY`
//! is "never" and needs no care, and `min` is one instruction. In a bucket of variable `v` every table has `v`
//! innermost and contiguous, because a table's variables are laid out latest-eliminated first.

use std::collections::BinaryHeap;

use crate::model::{FORBIDDEN, Pair};
use crate::reduce::transposed;

/// Entries of the widest table, counting the eliminated variable, and operations in all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Width {
    pub table: u64,
    pub work: u64,
}

/// Where a bucket reads from: a pair's table or the message of an earlier bucket.
#[derive(Debug, Clone, Copy)]
enum Table {
    Pair(u32),
    Message(u32),
}

#[derive(Debug, Clone)]
struct Source {
    table: Table,
    /// Step in the table for each scope variable of the bucket.
    strides: Vec<usize>,
}

#[derive(Debug, Clone)]
struct Bucket {
    var: u32,
    /// Neighbours when `var` is eliminated, latest eliminated first.
    scope: Vec<u32>,
    sizes: Vec<usize>,
    sources: Vec<Source>,
    /// Sources that do not depend on the last scope variable, and those that do.
    still: Vec<u32>,
    moving: Vec<u32>,
    entries: usize,
}

/// An elimination order with the layout of all its tables.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    sizes: Vec<usize>,
    buckets: Vec<Bucket>,
    pairs: Vec<Vec<f64>>,
    pub work: u64,
}

/// Message tables of a plan, kept between runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    messages: Vec<Vec<f64>>,
}

/// An internal cost as a table entry.
pub(crate) fn to_entry(cost: i64) -> f64 {
    if cost >= FORBIDDEN { f64::INFINITY } else { cost as f64 }
}

/// An elimination order by smallest table, or `None` when that needs more than `width` allows.
pub(crate) fn order(sizes: &[usize], pairs: &[Pair], width: Width) -> Option<Vec<u32>> {
    let n = sizes.len();
    let log: Vec<f64> = sizes.iter().map(|&s| (s as f64).log2()).collect();
    let mut near: Vec<Vec<u32>> = vec![Vec::new(); n];
    for pair in pairs {
        near[pair.a as usize].push(pair.b);
        near[pair.b as usize].push(pair.a);
    }
    for list in &mut near {
        list.sort_unstable();
        list.dedup();
    }
    let weight = |v: usize, near: &[u32]| -> u64 {
        // Ordered as integers; ties go to the smaller number.
        let bits: f64 = log[v] + near.iter().map(|&u| log[u as usize]).sum::<f64>();
        (bits * 4096.0) as u64
    };
    let mut current: Vec<u64> = (0..n).map(|v| weight(v, &near[v])).collect();
    let mut heap: BinaryHeap<std::cmp::Reverse<(u64, u32)>> = (0..n).map(|v| std::cmp::Reverse((current[v], v as u32))).collect();
    let mut done = vec![false; n];
    let mut order = Vec::with_capacity(n);
    let mut work = 0u64;
    while let Some(std::cmp::Reverse((w, v))) = heap.pop() {
        let at = v as usize;
        if done[at] || w != current[at] {
            continue;
        }
        let entries = near[at].iter().try_fold(sizes[at] as u64, |e, &u| e.checked_mul(sizes[u as usize] as u64))?;
        work = work.saturating_add(entries);
        if entries > width.table || work > width.work {
            return None;
        }
        done[at] = true;
        order.push(v);
        let scope = std::mem::take(&mut near[at]);
        for &u in &scope {
            let list = &mut near[u as usize];
            let mut joined = Vec::with_capacity(list.len() + scope.len());
            union(list, &scope, |x| x != u && x != v, &mut joined);
            *list = joined;
            current[u as usize] = weight(u as usize, &near[u as usize]);
            heap.push(std::cmp::Reverse((current[u as usize], u)));
        }
    }
    Some(order)
}

/// Who is next to whom, as one row of bits a node: for asking again and again whether a growing network is narrow.
#[derive(Debug, Clone)]
pub(crate) struct Adjacency {
    nodes: usize,
    words: usize,
    near: Vec<u64>,
    log: Vec<f64>,
}

impl Adjacency {
    /// Nodes of these sizes, none next to another.
    pub(crate) fn new(sizes: &[usize]) -> Adjacency {
        let words = sizes.len().div_ceil(64).max(1);
        let log = sizes.iter().map(|&s| (s as f64).log2()).collect();
        Adjacency { nodes: sizes.len(), words, near: vec![0; sizes.len() * words], log }
    }

    /// Adds a node.
    pub(crate) fn push(&mut self, size: usize) {
        if self.nodes == self.words * 64 {
            let mut wider = vec![0; self.nodes * (self.words + 1)];
            for (to, from) in wider.chunks_mut(self.words + 1).zip(self.near.chunks(self.words)) {
                to[..self.words].copy_from_slice(from);
            }
            (self.near, self.words) = (wider, self.words + 1);
        }
        self.nodes += 1;
        self.near.resize(self.nodes * self.words, 0);
        self.log.push((size as f64).log2());
    }

    /// Makes two nodes neighbours.
    pub(crate) fn join(&mut self, a: u32, b: u32) {
        for (x, y) in [(a, b), (b, a)] {
            self.near[x as usize * self.words + y as usize / 64] |= 1 << (y % 64);
        }
    }

    /// Whether [`order`] finds an order whose tables have at most `table` entries, were `a` and `b` neighbours too.
    pub(crate) fn is_narrow_with(&self, a: u32, b: u32, sizes: &[usize], table: u64) -> bool {
        let words = self.words;
        let mut now = self.clone();
        now.join(a, b);
        let near = &mut now.near;
        let weight = |v: usize, row: &[u64]| -> u64 {
            let mut bits = 0.0;
            each_bit(row, |u| bits += self.log[u]);
            ((self.log[v] + bits) * 4096.0) as u64
        };
        let mut current: Vec<u64> = near.chunks(words).enumerate().map(|(v, row)| weight(v, row)).collect();
        let mut heap: BinaryHeap<std::cmp::Reverse<(u64, u32)>> = (0..self.nodes).map(|v| std::cmp::Reverse((current[v], v as u32))).collect();
        let mut scope = vec![0u64; words];
        while let Some(std::cmp::Reverse((w, v))) = heap.pop() {
            let at = v as usize;
            if w != current[at] {
                continue;
            }
            scope.copy_from_slice(&near[at * words..(at + 1) * words]);
            let mut entries = Some(sizes[at] as u64);
            each_bit(&scope, |u| entries = entries.and_then(|e| e.checked_mul(sizes[u] as u64)));
            if entries.is_none_or(|e| e > table) {
                return false;
            }
            // No weight is this large, so it is not met again.
            current[at] = u64::MAX;
            each_bit(&scope, |u| {
                let row = &mut near[u * words..(u + 1) * words];
                row.iter_mut().zip(&scope).for_each(|(x, s)| *x |= s);
                row[u / 64] &= !(1 << (u % 64));
                row[at / 64] &= !(1 << (at % 64));
                let heavy = weight(u, row);
                if heavy != current[u] {
                    current[u] = heavy;
                    heap.push(std::cmp::Reverse((heavy, u as u32)));
                }
            });
        }
        true
    }
}

/// Calls `each` with the number of every bit that is set, in order.
fn each_bit(row: &[u64], mut each: impl FnMut(usize)) {
    for (k, &word) in row.iter().enumerate() {
        let mut rest = word;
        while rest != 0 {
            each(64 * k + rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
}

fn union(a: &[u32], b: &[u32], keep: impl Fn(u32) -> bool, out: &mut Vec<u32>) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let x = if j == b.len() || (i < a.len() && a[i] <= b[j]) { a[i] } else { b[j] };
        i += usize::from(i < a.len() && a[i] == x);
        j += usize::from(j < b.len() && b[j] == x);
        if keep(x) {
            out.push(x);
        }
    }
}

impl Plan {
    /// A plan for these variables and pairs, or `None` when it would be too wide.
    pub(crate) fn of(sizes: &[usize], pairs: &[Pair], width: Width) -> Option<Plan> {
        let order = order(sizes, pairs, width)?;
        Some(Plan::along(&order, sizes, pairs))
    }

    /// The plan of a given order.
    pub(crate) fn along(order: &[u32], sizes: &[usize], pairs: &[Pair]) -> Plan {
        let n = sizes.len();
        let mut position = vec![0u32; n];
        for (k, &v) in order.iter().enumerate() {
            position[v as usize] = k as u32;
        }
        let mut tables = Vec::with_capacity(pairs.len());
        // What each bucket reads: the table and its scope without the bucket's variable.
        let mut incoming: Vec<Vec<(Table, Vec<u32>)>> = vec![Vec::new(); n];
        for (k, pair) in pairs.iter().enumerate() {
            let (rows, columns) = (sizes[pair.a as usize], sizes[pair.b as usize]);
            let entries: Vec<f64> = pair.cost.iter().map(|&c| to_entry(c)).collect();
            let a_first = position[pair.a as usize] < position[pair.b as usize];
            let (first, last) = if a_first { (pair.a, pair.b) } else { (pair.b, pair.a) };
            tables.push(if a_first { transposed(&entries, rows, columns) } else { entries });
            incoming[position[first as usize] as usize].push((Table::Pair(k as u32), vec![last]));
        }
        let mut buckets = Vec::with_capacity(n);
        let mut work = 0u64;
        for (k, &var) in order.iter().enumerate() {
            let reads = std::mem::take(&mut incoming[k]);
            let mut scope: Vec<u32> = reads.iter().flat_map(|(_, s)| s.iter().copied()).collect();
            scope.sort_unstable_by_key(|&u| std::cmp::Reverse(position[u as usize]));
            scope.dedup();
            let dims: Vec<usize> = scope.iter().map(|&u| sizes[u as usize]).collect();
            let own = sizes[var as usize];
            let sources: Vec<Source> = reads
                .into_iter()
                .map(|(table, inner)| {
                    let mut strides = vec![0; scope.len()];
                    let mut step = own;
                    for u in inner.iter().rev() {
                        let at = scope.iter().position(|x| x == u).expect("invariant: a source's scope is in the bucket's");
                        strides[at] = step;
                        step *= sizes[*u as usize];
                    }
                    Source { table, strides }
                })
                .collect();
            let entries: usize = dims.iter().product();
            work += (entries * own) as u64;
            if let Some((&parent, rest)) = scope.split_last() {
                incoming[position[parent as usize] as usize].push((Table::Message(k as u32), rest.to_vec()));
            }
            let (moving, still) = (0..sources.len() as u32).partition(|&k| sources[k as usize].strides.last().is_some_and(|&step| step != 0));
            buckets.push(Bucket { var, scope, sizes: dims, sources, still, moving, entries });
        }
        Plan { sizes: sizes.to_vec(), buckets, pairs: tables, work }
    }

    fn table<'a>(&'a self, tables: &'a Tables, table: Table) -> &'a [f64] {
        match table {
            Table::Pair(k) => &self.pairs[k as usize],
            Table::Message(k) => &tables.messages[k as usize],
        }
    }

    /// The minimum over all assignments, `INFINITY` when every one is forbidden. `costs` are the node costs.
    pub(crate) fn forward(&self, costs: &[Vec<f64>], tables: &mut Tables) -> f64 {
        tables.messages.resize(self.buckets.len(), Vec::new());
        let mut total = 0.0;
        let mut offsets = Vec::new();
        let mut index = Vec::new();
        let (mut base, mut line) = (Vec::new(), Vec::new());
        for (k, bucket) in self.buckets.iter().enumerate() {
            let mut out = std::mem::take(&mut tables.messages[k]);
            out.clear();
            out.reserve_exact(bucket.entries);
            let own = &costs[bucket.var as usize];
            let inner = bucket.sizes.last().copied().unwrap_or(1);
            let outer = bucket.entries / inner;
            let last = bucket.scope.len().wrapping_sub(1);
            offsets.clear();
            offsets.resize(bucket.sources.len(), 0usize);
            index.clear();
            index.resize(bucket.scope.len().saturating_sub(1), 0usize);
            for turn in 0..outer {
                let still: &[f64] = if bucket.still.is_empty() {
                    own
                } else {
                    base.clear();
                    base.extend_from_slice(own);
                    for &k in &bucket.still {
                        let at = offsets[k as usize];
                        add_to(&mut base, &self.table(tables, bucket.sources[k as usize].table)[at..at + own.len()]);
                    }
                    &base
                };
                // A table along the innermost scope variable, from its first entry on, and its step there.
                let along = |k: u32| {
                    let source = &bucket.sources[k as usize];
                    (&self.table(tables, source.table)[offsets[k as usize]..], source.strides[last])
                };
                match bucket.moving[..] {
                    [] => out.extend(std::iter::repeat_n(least(still), inner)),
                    [k] => {
                        let (a, step) = along(k);
                        out.extend((0..inner).map(|i| least_sum(still, &a[i * step..i * step + own.len()])));
                    }
                    [j, k] => {
                        let ((a, step), (b, other)) = (along(j), along(k));
                        for i in 0..inner {
                            line.clear();
                            line.extend(still.iter().zip(&a[i * step..]).map(|(x, y)| x + y));
                            out.push(least_sum(&line, &b[i * other..i * other + own.len()]));
                        }
                    }
                    [ref rest @ .., z] => {
                        for i in 0..inner {
                            line.clear();
                            line.extend_from_slice(still);
                            for &k in rest {
                                let (a, step) = along(k);
                                add_to(&mut line, &a[i * step..i * step + own.len()]);
                            }
                            let (b, step) = along(z);
                            out.push(least_sum(&line, &b[i * step..i * step + own.len()]));
                        }
                    }
                }
                if turn + 1 < outer {
                    advance(bucket, &mut index, &mut offsets);
                }
            }
            if bucket.scope.is_empty() {
                total += out[0];
            }
            tables.messages[k] = out;
        }
        total
    }

    /// The assignment that attains the last forward run's minimum; ties go to the smaller strategy.
    pub(crate) fn backward(&self, costs: &[Vec<f64>], tables: &Tables, choice: &mut [u32]) {
        let mut line = Vec::new();
        for bucket in self.buckets.iter().rev() {
            line.clear();
            line.extend_from_slice(&costs[bucket.var as usize]);
            for source in &bucket.sources {
                let at: usize = bucket.scope.iter().zip(&source.strides).map(|(&u, s)| choice[u as usize] as usize * s).sum();
                add_to(&mut line, &self.table(tables, source.table)[at..at + self.sizes[bucket.var as usize]]);
            }
            let mut best = 0;
            for s in 1..line.len() {
                if line[s] < line[best] {
                    best = s;
                }
            }
            choice[bucket.var as usize] = best as u32;
        }
    }

    /// For every strategy the minimum over the assignments that contain it, after a forward run.
    pub(crate) fn marginals(&self, costs: &[Vec<f64>], tables: &Tables) -> Vec<Vec<f64>> {
        let mut roots: Vec<f64> = Vec::new();
        for (k, bucket) in self.buckets.iter().enumerate() {
            if bucket.scope.is_empty() {
                roots.push(tables.messages[k][0]);
            }
        }
        let all: f64 = roots.iter().sum();
        let mut down: Vec<Vec<f64>> = vec![Vec::new(); self.buckets.len()];
        let mut out: Vec<Vec<f64>> = self.sizes.iter().map(|&s| vec![f64::INFINITY; s]).collect();
        let (mut offsets, mut index, mut line) = (Vec::new(), Vec::new(), Vec::new());
        for (k, bucket) in self.buckets.iter().enumerate().rev() {
            let outside = if bucket.scope.is_empty() { vec![all - tables.messages[k][0]] } else { std::mem::take(&mut down[k]) };
            let own = self.sizes[bucket.var as usize];
            let children: Vec<(usize, u32)> = bucket
                .sources
                .iter()
                .enumerate()
                .filter_map(|(i, s)| match s.table {
                    Table::Message(m) => Some((i, m)),
                    Table::Pair(_) => None,
                })
                .collect();
            for &(_, m) in &children {
                down[m as usize] = vec![f64::INFINITY; tables.messages[m as usize].len()];
            }
            offsets.clear();
            offsets.resize(bucket.sources.len(), 0usize);
            index.clear();
            index.resize(bucket.scope.len(), 0usize);
            for (turn, &beyond) in outside.iter().enumerate() {
                line.clear();
                line.extend(costs[bucket.var as usize].iter().map(|c| c + beyond));
                for (source, &at) in bucket.sources.iter().zip(&offsets) {
                    add_to(&mut line, &self.table(tables, source.table)[at..at + own]);
                }
                min_to(&mut out[bucket.var as usize], &line);
                for &(i, m) in &children {
                    min_to(&mut down[m as usize][offsets[i]..offsets[i] + own], &line);
                }
                if turn + 1 < outside.len() {
                    advance(bucket, &mut index, &mut offsets);
                }
            }
            for &(_, m) in &children {
                for (d, &up) in down[m as usize].iter_mut().zip(&tables.messages[m as usize]) {
                    *d = if up.is_finite() { *d - up } else { f64::INFINITY };
                }
            }
        }
        out
    }
}

/// Steps to the next assignment of the first `index.len()` scope variables, the last of them fastest.
fn advance(bucket: &Bucket, index: &mut [usize], offsets: &mut [usize]) {
    for d in (0..index.len()).rev() {
        index[d] += 1;
        let wrapped = index[d] == bucket.sizes[d];
        for (source, at) in bucket.sources.iter().zip(offsets.iter_mut()) {
            *at = if wrapped { *at - source.strides[d] * (bucket.sizes[d] - 1) } else { *at + source.strides[d] };
        }
        if !wrapped {
            return;
        }
        index[d] = 0;
    }
}

#[inline(always)]
fn add_to(line: &mut [f64], other: &[f64]) {
    for (x, y) in line.iter_mut().zip(other) {
        *x += y;
    }
}

#[inline(always)]
fn min_to(line: &mut [f64], other: &[f64]) {
    for (x, &y) in line.iter_mut().zip(other) {
        *x = if y < *x { y } else { *x };
    }
}

#[inline(always)]
fn least(line: &[f64]) -> f64 {
    line.iter().fold(f64::INFINITY, |m, &x| if x < m { x } else { m })
}

/// The minimum of the sums, eight lanes at a time.
#[inline(always)]
fn least_sum(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [f64::INFINITY; 8];
    let (mut xs, mut ys) = (a.chunks_exact(8), b.chunks_exact(8));
    for (x, y) in (&mut xs).zip(&mut ys) {
        for k in 0..8 {
            let sum = x[k] + y[k];
            lanes[k] = if sum < lanes[k] { sum } else { lanes[k] };
        }
    }
    let mut m = least(&lanes);
    for (x, y) in xs.remainder().iter().zip(ys.remainder()) {
        let sum = x + y;
        m = if sum < m { sum } else { m };
    }
    m
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::sample::{Sample, choices, model};

    #[test]
    fn minimum_choice_and_marginals_equal_enumeration() {
        let mut random = Random::new(3);
        let shape = Sample { nodes: 6, strategies: 4, pairs: 9, moments: 0, forbidden: 0.15, limit: 1.0 };
        for _ in 0..300 {
            let m = model(&mut random, shape);
            let sizes: Vec<usize> = m.costs.iter().map(Vec::len).collect();
            let plan = Plan::of(&sizes, &m.pairs, Width { table: 1 << 20, work: 1 << 30 }).expect("six nodes are narrow");
            let costs: Vec<Vec<f64>> = m.costs.iter().map(|c| c.iter().map(|&x| to_entry(x)).collect()).collect();
            let mut tables = Tables::default();
            let least = plan.forward(&costs, &mut tables);
            let all: Vec<(Vec<u32>, f64)> = choices(&m).into_iter().map(|c| (c.clone(), m.cost(&c).map_or(f64::INFINITY, |x| x as f64))).collect();
            assert_eq!(least, all.iter().map(|(_, c)| *c).fold(f64::INFINITY, f64::min));
            if least.is_finite() {
                let mut choice = vec![0; sizes.len()];
                plan.backward(&costs, &tables, &mut choice);
                assert_eq!(m.cost(&choice).map(|c| c as f64), Some(least));
            }
            let marginals = plan.marginals(&costs, &tables);
            for (v, row) in marginals.iter().enumerate() {
                for (s, &found) in row.iter().enumerate() {
                    let want = all.iter().filter(|(c, _)| c[v] == s as u32).map(|(_, c)| *c).fold(f64::INFINITY, f64::min);
                    assert!(found == want || !least.is_finite(), "node {v} strategy {s}: {found} instead of {want}");
                }
            }
        }
    }
}
