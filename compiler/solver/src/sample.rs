//! Random small models for unit tests, and their optimum by enumeration.

use crate::model::{FORBIDDEN, Model, Pair, Row, Unit};
use crate::random::Random;

/// What to draw.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub nodes: usize,
    pub strategies: usize,
    pub pairs: usize,
    pub moments: usize,
    pub forbidden: f64,
    /// Limit as a share of the most that can be used.
    pub limit: f64,
}

pub(crate) fn model(random: &mut Random, sample: Sample) -> Model {
    let nodes = 2 + random.below(sample.nodes - 1);
    let entry = |random: &mut Random| if random.unit() < sample.forbidden { FORBIDDEN } else { random.below(1000) as i64 };
    let costs: Vec<Vec<i64>> = (0..nodes).map(|_| (0..1 + random.below(sample.strategies)).map(|_| random.below(1000) as i64).collect()).collect();
    let mut pairs: Vec<Pair> = Vec::new();
    for _ in 0..sample.pairs {
        let a = random.below(nodes);
        let b = (a + 1 + random.below(nodes - 1)) % nodes;
        if pairs.iter().any(|p| [p.a as usize, p.b as usize] == [a, b] || [p.a as usize, p.b as usize] == [b, a]) {
            continue;
        }
        let cost = (0..costs[a].len() * costs[b].len()).map(|_| entry(random)).collect();
        pairs.push(Pair { a: a as u32, b: b as u32, cost });
    }
    let mut rows = Vec::new();
    let mut most = vec![0i64; sample.moments];
    for (v, own) in costs.iter().enumerate() {
        let (x, y) = (random.below(sample.moments + 1), random.below(sample.moments + 1));
        let usage: Vec<i64> = own.iter().map(|_| random.below(20) as i64).collect();
        let (lo, hi) = (x.min(y), x.max(y));
        most[lo..hi].iter_mut().for_each(|m| *m += usage.iter().max().copied().unwrap_or(0));
        if lo < hi {
            rows.push(Row { node: v as u32, lo: lo as u32, hi: hi as u32, usage });
        }
    }
    let limits = most.iter().map(|&m| (m as f64 * sample.limit) as i64).collect();
    Model { costs, pairs, rows, limits, offset: 0, unit: Unit::default() }
}

/// Every choice of a model.
pub(crate) fn choices(model: &Model) -> Vec<Vec<u32>> {
    let mut out = vec![Vec::new()];
    for own in &model.costs {
        out = out.iter().flat_map(|c| (0..own.len() as u32).map(|s| c.iter().copied().chain([s]).collect())).collect();
    }
    out
}

/// The least cost of a choice within the limits.
pub(crate) fn optimum(model: &Model) -> Option<i64> {
    choices(model).iter().filter(|c| model.excess(c) <= 0).filter_map(|c| model.cost(c)).min()
}
