//! Why a problem has no solution, and how far it is from having one.
//!
//! A deletion filter over moments, then nodes: whatever can go while the rest stays infeasible goes, in halves first,
//! then one by one. Infeasibility is monotone, so one pass of single deletions that all left the rest satisfiable
//! proves the core irreducible. The nearest choice comes from raising every limit by as little as the search can.

use crate::outcome::{Core, Options};
use crate::problem::{INFINITE, Problem};
use crate::solve::decide;

/// Calls of the feasibility oracle spent on a core, and on the smallest limit.
const CORE_CALLS: u32 = 400;
const LIMIT_CALLS: u32 = 24;

/// The part of a problem on these nodes and moments, with all finite costs zero.
fn part(problem: &Problem, nodes: &[u32], moments: &[u32]) -> Problem {
    let flat = |costs: &[i64]| -> Vec<i64> { costs.iter().map(|&c| if c >= INFINITE { INFINITE } else { 0 }).collect() };
    let mut number = vec![u32::MAX; problem.nodes.len()];
    let mut out = Problem::default();
    for &n in nodes {
        number[n as usize] = out.add_node(flat(&problem.nodes[n as usize].costs));
    }
    for edge in &problem.edges {
        let (a, b) = (number[edge.a as usize], number[edge.b as usize]);
        if a != u32::MAX && b != u32::MAX && edge.costs.iter().any(|&c| c >= INFINITE) {
            out.add_edge(a, b, flat(&edge.costs));
        }
    }
    let mut sorted = moments.to_vec();
    sorted.sort_unstable();
    out.limits = sorted.iter().map(|&t| problem.limits[t as usize]).collect();
    for row in &problem.usages {
        let node = number[row.node as usize];
        let lo = sorted.partition_point(|&t| t < row.lo) as u32;
        let hi = sorted.partition_point(|&t| t < row.hi) as u32;
        if node != u32::MAX && lo < hi {
            out.add_usage(node, lo, hi, row.usage.clone());
        }
    }
    out
}

/// A set being thinned, and whether every single deletion was decided.
struct Filter<'a> {
    problem: &'a Problem,
    options: &'a Options,
    calls: u32,
    decided: bool,
}

impl Filter<'_> {
    /// Proven infeasible on this part?
    fn infeasible(&mut self, nodes: &[u32], moments: &[u32]) -> bool {
        self.calls += 1;
        match decide(&part(self.problem, nodes, moments), self.options) {
            Some(Some(_)) => false,
            Some(None) => true,
            None => {
                self.decided = false;
                false
            }
        }
    }

    fn thin(&mut self, set: &mut Vec<u32>, still: &mut dyn FnMut(&mut Self, &[u32]) -> bool) {
        let mut chunk = set.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            while at < set.len() {
                if self.calls >= CORE_CALLS {
                    self.decided = false;
                    return;
                }
                let end = (at + chunk).min(set.len());
                let rest: Vec<u32> = set[..at].iter().chain(&set[end..]).copied().collect();
                if still(self, &rest) {
                    *set = rest;
                } else {
                    at = end;
                }
            }
            if chunk == 1 {
                return;
            }
            chunk = (chunk / 2).max(1);
        }
    }
}

/// The core of a problem that is proven infeasible.
pub(crate) fn explain(problem: &Problem, options: &Options) -> Core {
    let options = Options { work: options.work / 16 + 1_000_000, progress: None, found: None, start: None, ..options.clone() };
    let mut filter = Filter { problem, options: &options, calls: 0, decided: true };
    let mut nodes: Vec<u32> = (0..problem.nodes.len() as u32).collect();
    let mut moments = candidates(problem);
    if !filter.infeasible(&nodes, &moments) {
        moments = (0..problem.limits.len() as u32).collect();
    }
    filter.decided = true;
    let all = nodes.clone();
    filter.thin(&mut moments, &mut |f, rest| f.infeasible(&all, rest));
    let kept = moments.clone();
    filter.thin(&mut nodes, &mut |f, rest| f.infeasible(rest, &kept));
    // Fewer nodes may need fewer moments.
    let last = nodes.clone();
    filter.thin(&mut moments, &mut |f, rest| f.infeasible(&last, rest));
    moments.sort_unstable();
    let irreducible = filter.decided;
    let (nearest, excess) = nearest(problem, &options);
    let limit = if nearest.is_empty() { None } else { problem.usage(&nearest).into_iter().max() };
    Core { moments, nodes, irreducible, nearest, excess, limit }
}

/// A moment that no choice can satisfy whatever the pairs say, if there is one; all moments otherwise.
fn candidates(problem: &Problem) -> Vec<u32> {
    let mut least = vec![0i128; problem.limits.len() + 1];
    for row in problem.usages.iter().filter(|r| r.lo < r.hi) {
        let costs = &problem.nodes[row.node as usize].costs;
        let allowed = row.usage.iter().zip(costs).filter(|&(_, &c)| c < INFINITE);
        let low = i128::from(allowed.map(|(&u, _)| u).min().unwrap_or(0));
        least[row.lo as usize] += low;
        least[row.hi as usize] -= low;
    }
    let mut level = 0;
    let mut worst: Option<(i128, u32)> = None;
    for (t, &limit) in problem.limits.iter().enumerate() {
        level += least[t];
        let over = level - i128::from(limit);
        if over > 0 && worst.is_none_or(|(w, _)| over > w) {
            worst = Some((over, t as u32));
        }
    }
    match worst {
        Some((_, t)) => vec![t],
        None => (0..problem.limits.len() as u32).collect(),
    }
}

/// The choice found that exceeds the limits least, and by how much it does.
pub(crate) fn nearest(problem: &Problem, options: &Options) -> (Vec<u32>, Option<i128>) {
    let nodes: Vec<u32> = (0..problem.nodes.len() as u32).collect();
    let moments: Vec<u32> = (0..problem.limits.len() as u32).collect();
    let Some(Some(mut best)) = decide(&part(problem, &nodes, &[]), options) else {
        return (Vec::new(), None);
    };
    let Some(mut excess) = problem.excess(&best) else {
        return (best, None);
    };
    let mut raised = part(problem, &nodes, &moments);
    let mut low = 0i128;
    for _ in 0..LIMIT_CALLS {
        if excess - low <= 1 || options.late() {
            break;
        }
        let middle = low + (excess - low) / 2;
        for (to, &limit) in raised.limits.iter_mut().zip(&problem.limits) {
            *to = i64::try_from(i128::from(limit) + middle).unwrap_or(i64::MAX);
        }
        match decide(&raised, options) {
            Some(Some(choice)) => {
                excess = problem.excess(&choice).unwrap_or(excess).min(middle);
                best = choice;
            }
            _ => low = middle,
        }
    }
    (best, Some(excess))
}
