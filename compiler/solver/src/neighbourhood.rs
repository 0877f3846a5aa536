//! Large neighbourhoods, searched exactly: free a narrow part, keep the rest, solve what that leaves.
//!
//! The part's model has the fixed neighbours' costs in its node costs and the fixed nodes' usage taken off the
//! limits. It is reduced, eliminated, priced and branched on like a whole problem, with the incumbent as ceiling, so
//! a step either improves the choice or shows (within its budget) that this neighbourhood holds nothing better.

use crate::branch::Search;
use crate::elimination::Width;
use crate::lagrange::Multipliers;
use crate::model::{FORBIDDEN, Model, Pair, Row, add};
use crate::reduce::{DOMINANCE_OFTEN, reduce};
use crate::relaxation::Relaxation;
use crate::state::State;

/// The most a usage above its limit costs, so that sums stay exact.
const PENALTY: f64 = (1u64 << 45) as f64;

/// How hard one neighbourhood is searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub table: u64,
    pub work: u64,
    pub steps: u32,
    /// How much worse than the current choice an accepted one may be, in internal units.
    pub slack: i64,
}

/// What searching a neighbourhood gave.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    /// New strategies of the freed nodes, when better was found.
    pub change: Vec<(u32, u32)>,
    /// By how much, in internal units.
    pub gain: i64,
    pub work: u64,
}

/// The model of the freed nodes, and the internal cost the current choice has in it.
///
/// Where a limit is exceeded now, it is set to the present usage and usage there costs `weight` a unit instead.
pub(crate) fn part(state: &State, free: &[u32], number: &mut [u32], weight: f64) -> (Model, i64) {
    let whole = state.model;
    for (k, &v) in free.iter().enumerate() {
        number[v as usize] = k as u32;
    }
    let mut costs: Vec<Vec<i64>> = Vec::with_capacity(free.len());
    let mut pairs = Vec::new();
    let mut rows = Vec::new();
    let mut own = vec![0i64; whole.limits.len() + 1];
    for (k, &v) in free.iter().enumerate() {
        let mut mine = whole.costs[v as usize].clone();
        for (u, matrix) in &state.network.near[v as usize] {
            let columns = whole.size(*u as usize);
            let other = number[*u as usize];
            if other == u32::MAX {
                let at = state.choice[*u as usize] as usize;
                for (s, c) in mine.iter_mut().enumerate() {
                    *c = add(*c, matrix[s * columns + at]);
                }
            } else if (k as u32) < other {
                pairs.push(Pair { a: k as u32, b: other, cost: matrix.clone() });
            }
        }
        for &r in &state.network.rows[v as usize] {
            let row = &whole.rows[r as usize];
            let used = row.usage[state.choice[v as usize] as usize];
            own[row.lo as usize] += used;
            own[row.hi as usize] -= used;
            rows.push(Row { node: k as u32, lo: row.lo, hi: row.hi, usage: row.usage.clone() });
        }
        costs.push(mine);
    }
    let mut level = 0;
    let mut limits = Vec::with_capacity(whole.limits.len());
    let mut over = vec![0.0f64];
    for t in 0..whole.limits.len() {
        level += own[t];
        let slack = state.slack.at(t);
        limits.push(level + slack.max(0));
        over.push(over[t] + if slack < 0 { weight } else { 0.0 });
    }
    if state.excess > 0 && weight > 0.0 {
        for row in &rows {
            let price = over[row.hi as usize] - over[row.lo as usize];
            if price > 0.0 {
                for (c, &u) in costs[row.node as usize].iter_mut().zip(&row.usage) {
                    *c = add(*c, (price * u as f64).min(PENALTY) as i64);
                }
            }
        }
    }
    for &v in free {
        number[v as usize] = u32::MAX;
    }
    let model = Model { costs, pairs, rows, limits, offset: 0, unit: whole.unit };
    let now: Vec<u32> = free.iter().map(|&v| state.choice[v as usize]).collect();
    let cost = model.cost(&now).unwrap_or(FORBIDDEN);
    (model, cost)
}

/// Searches the neighbourhood of the freed nodes.
pub(crate) fn search(state: &State, free: &[u32], number: &mut [u32], weight: f64, prices: &[i64], effort: Effort, stop: &dyn Fn() -> bool) -> Step {
    let (model, now) = part(state, free, number, weight);
    // Copying, reducing and laying out tables take some steps an entry.
    let set_up = 12 * model.pairs.iter().map(|p| p.cost.len()).sum::<usize>() as u64;
    let Ok(reduced) = reduce(&model, DOMINANCE_OFTEN) else { return Step::default() };
    let core = &reduced.model;
    let Some(relaxation) = Relaxation::exact(core, Width { table: effort.table, work: effort.work }) else { return Step::default() };
    let start = Multipliers { prices: reduced.moments.iter().map(|&t| prices[t as usize]).collect(), agreement: Vec::new() };
    let below = now.saturating_add(effort.slack);
    let found = Search::new(core, &relaxation, below, effort.work, stop).run(start, effort.steps);
    let mut step = Step { change: Vec::new(), gain: 0, work: found.work + set_up };
    if let Some((cost, choice)) = found.best {
        step.gain = now - cost;
        let lifted = reduced.lift(&choice);
        step.change = free.iter().zip(lifted).filter(|&(&v, s)| state.choice[v as usize] != s).map(|(&v, s)| (v, s)).collect();
    }
    step
}
