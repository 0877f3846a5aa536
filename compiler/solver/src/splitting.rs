//! Splitting variables on the way through the elimination (mini-buckets), for networks of any size.
//!
//! A greedy elimination; where a variable's table would be too wide, the functions that meet there are grouped and
//! each group gets its own copy of the variable. One pass, and every table is narrow by construction.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::elimination::Plan;
use crate::model::{Model, Pair};
use crate::relaxation::Relaxation;

/// A function over a scope, on the way through the elimination.
struct Factor {
    scope: Vec<u32>,
    /// Pairs inside it that have one end left to eliminate, and which end (0: `a`, 1: `b`).
    pairs: Vec<(u32, u8)>,
}

/// Greedy elimination that splits a variable where its table would be too wide.
///
/// The functions that meet in a bucket are grouped, first fit, widest first; each group gets its own copy of the variable.
pub(crate) struct Splitter {
    bits: f64,
    log: Vec<f64>,
    factors: Vec<Option<Factor>>,
    of: Vec<Vec<u32>>,
}

impl Splitter {
    pub(crate) fn new(model: &Model, bits: f64) -> Splitter {
        let mut of = vec![Vec::new(); model.costs.len()];
        let mut factors = Vec::with_capacity(model.pairs.len());
        for (k, pair) in model.pairs.iter().enumerate() {
            of[pair.a as usize].push(k as u32);
            of[pair.b as usize].push(k as u32);
            let mut scope = vec![pair.a, pair.b];
            scope.sort_unstable();
            factors.push(Some(Factor { scope, pairs: vec![(k as u32, 0), (k as u32, 1)] }));
        }
        let log = model.costs.iter().map(|c| (c.len() as f64).log2()).collect();
        Splitter { bits, log, factors, of }
    }

    fn factor(&self, k: u32) -> &Factor {
        self.factors[k as usize].as_ref().expect("invariant: only live factors are listed")
    }

    /// Everything that shares a function with `v`, and `v`.
    fn reach(&self, v: u32) -> Vec<u32> {
        let mut out: Vec<u32> = self.of[v as usize].iter().flat_map(|&k| self.factor(k).scope.iter().copied()).collect();
        out.push(v);
        out.sort_unstable();
        out.dedup();
        out
    }

    fn weight(&self, scope: &[u32]) -> f64 {
        scope.iter().map(|&u| self.log[u as usize]).sum()
    }

    fn key(&self, v: u32) -> u64 {
        (self.weight(&self.reach(v)) * 4096.0) as u64
    }

    /// Groups of functions whose joint scope is narrow enough.
    fn groups(&self, v: u32) -> Vec<(Vec<u32>, Vec<u32>)> {
        let mut factors = self.of[v as usize].clone();
        let heavy = |k: u32| (self.weight(&self.factor(k).scope) * 4096.0) as u64;
        factors.sort_by_key(|&k| (std::cmp::Reverse(heavy(k)), k));
        let mut groups: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
        for k in factors {
            let scope = &self.factor(k).scope;
            let fits = groups.iter().position(|(joint, _)| {
                let extra: f64 = scope.iter().filter(|u| !joint.contains(u)).map(|&u| self.log[u as usize]).sum();
                self.weight(joint) + extra <= self.bits
            });
            let at = fits.unwrap_or_else(|| {
                groups.push((vec![v], Vec::new()));
                groups.len() - 1
            });
            let (joint, members) = &mut groups[at];
            joint.extend(scope);
            joint.sort_unstable();
            joint.dedup();
            members.push(k);
        }
        if groups.is_empty() {
            groups.push((vec![v], Vec::new()));
        }
        groups
    }

    pub(crate) fn run(mut self, model: &Model) -> Relaxation {
        let n = model.costs.len();
        let mut sizes: Vec<usize> = model.costs.iter().map(Vec::len).collect();
        let mut copies: Vec<Vec<u32>> = (0..n as u32).map(|v| vec![v]).collect();
        let mut ends: Vec<[u32; 2]> = model.pairs.iter().map(|p| [p.a, p.b]).collect();
        let mut order = Vec::with_capacity(n);
        let mut key: Vec<u64> = (0..n as u32).map(|v| self.key(v)).collect();
        let mut heap: BinaryHeap<Reverse<(u64, u32)>> = (0..n as u32).map(|v| Reverse((key[v as usize], v))).collect();
        let mut done = vec![false; n];
        while let Some(Reverse((w, v))) = heap.pop() {
            if done[v as usize] || w != key[v as usize] {
                continue;
            }
            done[v as usize] = true;
            let reach = self.reach(v);
            for (g, (joint, members)) in self.groups(v).into_iter().enumerate() {
                let copy = if g == 0 { v } else { sizes.len() as u32 };
                if g > 0 {
                    sizes.push(sizes[v as usize]);
                    copies[v as usize].push(copy);
                }
                order.push(copy);
                let mut pairs = Vec::new();
                for k in members {
                    let factor = self.factors[k as usize].take().expect("invariant: only live factors are listed");
                    for &u in &factor.scope {
                        self.of[u as usize].retain(|&x| x != k);
                    }
                    for (pair, end) in factor.pairs {
                        let p = &model.pairs[pair as usize];
                        if [p.a, p.b][end as usize] == v {
                            ends[pair as usize][end as usize] = copy;
                        } else {
                            pairs.push((pair, end));
                        }
                    }
                }
                let scope: Vec<u32> = joint.into_iter().filter(|&u| u != v).collect();
                if !scope.is_empty() {
                    let at = self.factors.len() as u32;
                    scope.iter().for_each(|&u| self.of[u as usize].push(at));
                    self.factors.push(Some(Factor { scope, pairs }));
                }
            }
            for u in reach.into_iter().filter(|&u| u != v) {
                key[u as usize] = self.key(u);
                heap.push(Reverse((key[u as usize], u)));
            }
        }
        let pairs: Vec<Pair> = model.pairs.iter().zip(ends).map(|(p, [a, b])| Pair { a, b, cost: p.cost.clone() }).collect();
        let plan = Plan::along(&order, &sizes, &pairs);
        let split = copies.iter().enumerate().filter(|(_, c)| c.len() > 1).map(|(v, _)| v as u32).collect();
        Relaxation { plan, copies, split, sizes }
    }
}
