//! What a solve is asked for and what it answers.
//!
//! Invariants: a [`Solution`]'s objective is the exact cost of its choice, recomputed on the caller's problem;
//! its bound is proven, never above the optimum; `Optimal` means that the two are equal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How far to go. With no deadline the answer depends on nothing but the problem and these options.
#[derive(Clone)]
pub struct Options {
    /// Budget in elementary table operations (about half a billion a second), shared by all phases.
    pub work: u64,
    /// Stop at this time with the best so far. The only thing that makes an answer depend on the clock.
    pub deadline: Option<Instant>,
    /// Stop with the best so far once this is set, as at a deadline.
    pub halt: Option<Arc<AtomicBool>>,
    /// Threads to use; 1 is enough for small problems. Without a deadline the answer does not depend on it.
    pub threads: u32,
    /// Seed of the randomised searches.
    pub seed: u64,
    /// Stop once `(objective - bound) / objective` is at most this.
    pub gap: f64,
    /// Stop once no choice is proven to cost less than this: the caller has no use for what is left.
    pub cutoff: Option<i128>,
    /// A choice to start from, if one is known.
    pub start: Option<Vec<u32>>,
    /// Called with every better choice, as soon as it is known to be feasible.
    pub found: Option<Arc<dyn Fn(i128, &[u32]) + Send + Sync>>,
    /// Called with every improvement of objective or bound.
    pub progress: Option<Arc<dyn Fn(&Progress) + Send + Sync>>,
}

impl Default for Options {
    fn default() -> Self {
        Options { work: 2_000_000_000, deadline: None, halt: None, threads: 1, seed: 1, gap: 0.0, cutoff: None, start: None, found: None, progress: None }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("work", &self.work)
            .field("deadline", &self.deadline)
            .field("threads", &self.threads)
            .field("seed", &self.seed)
            .field("gap", &self.gap)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Whether the caller has no use for choices that cost at least `bound`.
    pub(crate) fn worthless(&self, bound: i128) -> bool {
        self.cutoff.is_some_and(|c| bound >= c)
    }

    /// Whether the caller wants no more work done.
    pub(crate) fn late(&self) -> bool {
        self.halt.as_ref().is_some_and(|h| h.load(Ordering::Relaxed)) || self.deadline.is_some_and(|d| Instant::now() >= d)
    }
}

/// One improvement, as told to the progress callback.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The phase that found it.
    pub phase: &'static str,
    /// The best feasible objective so far.
    pub objective: Option<i128>,
    /// The best proven bound so far.
    pub bound: Option<i128>,
}

/// How good a [`Solution`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The bound equals the objective.
    Optimal,
    /// Within the gap that was asked for.
    WithinGap,
    /// Feasible; the work budget ended the search.
    Feasible,
    /// Feasible; the deadline ended the search.
    Cut,
}

/// Counters of what the phases did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Nodes folded into the neighbour that decides them.
    pub folded: u32,
    /// Nodes with a single possible strategy.
    pub fixed: u32,
    /// Leaves, chain nodes and lone nodes eliminated before the search.
    pub eliminated: u32,
    /// Strategies removed because another is never worse, or because they have no partner.
    pub strategies_removed: u64,
    /// Nodes left after the reductions.
    pub core_nodes: u32,
    /// Edges left after the reductions.
    pub core_edges: u32,
    /// Moments that can still bind.
    pub core_moments: u32,
    /// Table operations of one exact elimination of what was left; 0 when it is too wide.
    pub elimination_work: u64,
    /// Steps of the multiplier search.
    pub multiplier_steps: u32,
    /// Branch-and-bound nodes.
    pub branches: u64,
    /// Moves accepted by the local searches.
    pub moves: u64,
    /// Whether HiGHS was called.
    pub highs: bool,
    /// Work spent, in the unit of [`Options::work`].
    pub work: u64,
}

/// A choice with its cost and a proven bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// The strategy of each node.
    pub choice: Vec<u32>,
    /// Its exact cost.
    pub objective: i128,
    /// No feasible choice costs less than this.
    pub bound: i128,
    /// `(objective - bound) / max(1, |objective|)`.
    pub gap: f64,
    /// Whether it is proven optimal, and if not what ended the search.
    pub status: Status,
    /// What the phases did.
    pub stats: Stats,
}

/// Why nothing satisfies the problem: these nodes cannot hold together within these moments' limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Core {
    /// Moments whose limits conflict; empty when forbidden pairs alone do.
    pub moments: Vec<u32>,
    /// The nodes involved.
    pub nodes: Vec<u32>,
    /// True when leaving out any one moment or node was shown to make the rest satisfiable.
    pub irreducible: bool,
    /// A choice without forbidden pairs that exceeds the limits as little as any found; empty if there is none.
    pub nearest: Vec<u32>,
    /// By how much every limit must rise for `nearest` to fit.
    pub excess: Option<i128>,
    /// The largest usage of `nearest`: the smallest common limit for which a solution is known.
    pub limit: Option<i128>,
}

/// The answer of a solve.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A feasible choice was found.
    Solved(Solution),
    /// Proven to have none.
    Infeasible(Core),
    /// Nothing feasible found and nothing proven within the budget.
    Unknown {
        /// No feasible choice costs less than this, if a bound is known.
        bound: Option<i128>,
        /// A choice without forbidden pairs that exceeds the limits as little as any found; may be empty.
        nearest: Vec<u32>,
        /// By how much every limit must rise for `nearest` to fit.
        excess: Option<i128>,
        /// What the phases did.
        stats: Stats,
    },
}

impl Outcome {
    /// The solution, if there is one.
    pub fn solution(&self) -> Option<&Solution> {
        match self {
            Outcome::Solved(solution) => Some(solution),
            _ => None,
        }
    }
}
