//! The problem in the solver's own units, between reductions and searches.
//!
//! Costs are nonnegative fixed-point numbers: `(cost - offset) << up` where that fits, `>> down` (rounded down)
//! where the sums would not fit 64 bits. So every sum of finite entries stays below [`FORBIDDEN`], and a bound in
//! these units is a bound on the true cost. Entries of [`FORBIDDEN`] or more mean "never"; [`add`] saturates there.
//! The bits left of `up` are room for memory multipliers, which are real numbers rounded down.

use crate::problem::{INFINITE, Problem};

/// "Never", in internal units. Eight of these can be added without overflow.
pub(crate) const FORBIDDEN: i64 = 1 << 60;

/// Finite sums stay below this, with room for multipliers up to [`FORBIDDEN`].
const ROOM: i128 = 1 << 51;

/// The most fraction bits a cost gets.
const FRACTION_BITS: u32 = 20;

/// Saturating sum of two entries.
#[inline(always)]
pub(crate) fn add(a: i64, b: i64) -> i64 {
    (a + b).min(FORBIDDEN)
}

/// How internal units relate to the caller's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unit {
    pub up: u32,
    pub down: u32,
}

impl Unit {
    fn of(total: i128) -> Unit {
        let mut unit = Unit::default();
        if total >= ROOM {
            while (total >> unit.down) >= ROOM {
                unit.down += 1;
            }
        } else {
            while unit.up < FRACTION_BITS && (total << (unit.up + 1)) < ROOM {
                unit.up += 1;
            }
        }
        unit
    }

    fn inward(self, cost: i128) -> i64 {
        ((cost << self.up) >> self.down) as i64
    }

    /// The smallest true cost a proven internal bound allows; true costs are integers.
    pub(crate) fn bound(self, internal: i128) -> i128 {
        let down = internal << self.down;
        (down + (1 << self.up) - 1) >> self.up
    }

    /// The largest internal value that still stands for a true cost of at most `cost`.
    pub(crate) fn ceiling(self, cost: i128) -> i128 {
        if self.down > 0 { (cost >> self.down) + 1 } else { cost << self.up }
    }

    /// Whether internal values stand for true costs without rounding.
    pub(crate) fn exact(self) -> bool {
        self.down == 0
    }
}

/// A pairwise table; rows are strategies of `a`.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub a: u32,
    pub b: u32,
    pub cost: Vec<i64>,
}

/// Usage of one node in the moments `lo..hi`.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub node: u32,
    pub lo: u32,
    pub hi: u32,
    pub usage: Vec<i64>,
}

/// A pairwise program with nonnegative internal costs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub costs: Vec<Vec<i64>>,
    pub pairs: Vec<Pair>,
    pub rows: Vec<Row>,
    pub limits: Vec<i64>,
    /// True cost = offset + internal / unit.
    pub offset: i128,
    pub unit: Unit,
}

impl Model {
    /// The caller's problem in internal units; node and moment numbers are kept.
    pub(crate) fn of(problem: &Problem) -> Model {
        let span = |costs: &[i64]| {
            let finite = || costs.iter().copied().filter(|&c| c < INFINITE);
            let low = finite().min().unwrap_or(0);
            (low, i128::from(finite().max().unwrap_or(0)) - i128::from(low))
        };
        let mut offset = 0i128;
        let mut total = 0i128;
        for table in problem.nodes.iter().map(|n| &n.costs[..]).chain(problem.edges.iter().map(|e| &e.costs[..])) {
            let (low, wide) = span(table);
            offset += i128::from(low);
            total += wide;
        }
        let unit = Unit::of(total);
        let inward = |costs: &[i64]| -> Vec<i64> {
            let (low, _) = span(costs);
            let one = |&c: &i64| {
                if c >= INFINITE { FORBIDDEN } else { unit.inward(i128::from(c) - i128::from(low)) }
            };
            costs.iter().map(one).collect()
        };
        let row = |u: &crate::problem::Usage| Row { node: u.node, lo: u.lo, hi: u.hi, usage: u.usage.to_vec() };
        Model {
            costs: problem.nodes.iter().map(|n| inward(&n.costs)).collect(),
            pairs: problem.edges.iter().map(|e| Pair { a: e.a, b: e.b, cost: inward(&e.costs) }).collect(),
            rows: problem.usages.iter().filter(|u| u.lo < u.hi).map(row).collect(),
            limits: problem.limits.clone(),
            offset,
            unit,
        }
    }

    /// A proven internal bound in the caller's costs.
    pub(crate) fn true_bound(&self, internal: i128) -> i128 {
        self.offset + self.unit.bound(internal)
    }

    /// The number of strategies of a node.
    pub(crate) fn size(&self, node: usize) -> usize {
        self.costs[node].len()
    }

    /// Internal cost of a choice, memory apart; `None` if forbidden.
    pub(crate) fn cost(&self, choice: &[u32]) -> Option<i64> {
        let mut total = 0i64;
        for (costs, &s) in self.costs.iter().zip(choice) {
            total = add(total, costs[s as usize]);
        }
        for pair in &self.pairs {
            let columns = self.size(pair.b as usize);
            total = add(total, pair.cost[choice[pair.a as usize] as usize * columns + choice[pair.b as usize] as usize]);
        }
        (total < FORBIDDEN).then_some(total)
    }

    /// Usage at every moment.
    pub(crate) fn usage(&self, choice: &[u32]) -> Vec<i64> {
        let mut level = vec![0i64; self.limits.len() + 1];
        for row in &self.rows {
            let used = row.usage[choice[row.node as usize] as usize];
            level[row.lo as usize] += used;
            level[row.hi as usize] -= used;
        }
        level.pop();
        let mut sum = 0;
        for v in &mut level {
            sum += *v;
            *v = sum;
        }
        level
    }

    /// The largest excess over a limit; negative when all hold.
    pub(crate) fn excess(&self, choice: &[u32]) -> i64 {
        self.usage(choice).iter().zip(&self.limits).map(|(u, l)| u - l).max().unwrap_or(i64::MIN)
    }
}
