//! The problem as the caller states it, and how to evaluate a choice on it.
//!
//! One strategy per node; a cost for every strategy and for every pair of strategies of two joined nodes;
//! and at every moment the usages of the nodes live then must sum to at most that moment's limit.
//! An entry of [`INFINITE`] or more means "never". Finite sums are taken in 128 bits, so nothing overflows.
//! [`Problem::check`] is the only validation; everything behind it relies on what it accepts.

use std::sync::Arc;

/// A cost of this size or more forbids the strategy, or the pair of strategies.
pub const INFINITE: i64 = 1_000_000_000_000_000_000;

/// A node: one of its strategies is chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// The cost of each strategy; its length is the number of strategies.
    pub costs: Vec<i64>,
}

/// A cost on the pair of strategies of two nodes. Several edges may join the same two nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The node whose strategies number the rows.
    pub a: u32,
    /// The node whose strategies number the columns.
    pub b: u32,
    /// Row-major costs: `costs[i * strategies(b) + j]`.
    pub costs: Arc<[i64]>,
}

/// What one node uses during the moments `lo..hi`, by strategy. A node may have any number of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The node that uses.
    pub node: u32,
    /// First moment.
    pub lo: u32,
    /// One past the last moment; an empty interval uses nothing.
    pub hi: u32,
    /// Usage of each strategy, not negative.
    pub usage: Arc<[i64]>,
}

/// The pairwise one-hot integer program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problem {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The pairwise costs.
    pub edges: Vec<Edge>,
    /// The limit of each moment; moments are numbered from 0.
    pub limits: Vec<i64>,
    /// Who uses how much when.
    pub usages: Vec<Usage>,
}

/// Why a [`Problem`] is not well formed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProblemError {
    /// A node without strategies.
    #[error("node {0} has no strategy")]
    NoStrategy(u32),
    /// An edge or usage names a node that is not there, or an edge joins a node to itself.
    #[error("{what} {index} names node {node}, which is not there or is its own neighbour")]
    BadNode {
        /// `edge` or `usage`.
        what: &'static str,
        /// Its number.
        index: u32,
        /// The node it names.
        node: u32,
    },
    /// A table whose length does not fit the strategies of its nodes.
    #[error("{what} {index} has {found} entries, {expected} expected")]
    BadLength {
        /// `edge` or `usage`.
        what: &'static str,
        /// Its number.
        index: u32,
        /// Entries found.
        found: u64,
        /// Entries expected.
        expected: u64,
    },
    /// A usage that is negative or runs past the last moment.
    #[error("usage {0} is negative or ends after the last moment")]
    BadUsage(u32),
    /// A cost of less than -10^18.
    #[error("a cost of {0} {1} is below -10^18")]
    BadCost(&'static str, u32),
}

impl Problem {
    /// Adds a node and gives its number.
    pub fn add_node(&mut self, costs: Vec<i64>) -> u32 {
        self.nodes.push(Node { costs });
        (self.nodes.len() - 1) as u32
    }

    /// Adds a pairwise cost, row-major over the strategies of `a` and `b`.
    pub fn add_edge(&mut self, a: u32, b: u32, costs: impl Into<Arc<[i64]>>) {
        self.edges.push(Edge { a, b, costs: costs.into() });
    }

    /// Adds a moment and gives its number.
    pub fn add_moment(&mut self, limit: i64) -> u32 {
        self.limits.push(limit);
        (self.limits.len() - 1) as u32
    }

    /// States what `node` uses during `lo..hi`, by strategy.
    pub fn add_usage(&mut self, node: u32, lo: u32, hi: u32, usage: impl Into<Arc<[i64]>>) {
        self.usages.push(Usage { node, lo, hi, usage: usage.into() });
    }

    /// The number of strategies of a node.
    pub fn strategies(&self, node: u32) -> u32 {
        self.nodes[node as usize].costs.len() as u32
    }

    /// Whether every table fits, every node exists, and every usage lies within the moments.
    pub fn check(&self) -> Result<(), ProblemError> {
        let nodes = self.nodes.len() as u32;
        for (i, node) in self.nodes.iter().enumerate() {
            if node.costs.is_empty() {
                return Err(ProblemError::NoStrategy(i as u32));
            }
            if node.costs.iter().any(|&c| c < -INFINITE) {
                return Err(ProblemError::BadCost("node", i as u32));
            }
        }
        for (i, edge) in self.edges.iter().enumerate() {
            let index = i as u32;
            for node in [edge.a, edge.b] {
                if node >= nodes || edge.a == edge.b {
                    return Err(ProblemError::BadNode { what: "edge", index, node });
                }
            }
            let expected = u64::from(self.strategies(edge.a)) * u64::from(self.strategies(edge.b));
            if edge.costs.len() as u64 != expected {
                let found = edge.costs.len() as u64;
                return Err(ProblemError::BadLength { what: "edge", index, found, expected });
            }
            if edge.costs.iter().any(|&c| c < -INFINITE) {
                return Err(ProblemError::BadCost("edge", index));
            }
        }
        for (i, usage) in self.usages.iter().enumerate() {
            let index = i as u32;
            if usage.node >= nodes {
                return Err(ProblemError::BadNode { what: "usage", index, node: usage.node });
            }
            let expected = u64::from(self.strategies(usage.node));
            if usage.usage.len() as u64 != expected {
                let found = usage.usage.len() as u64;
                return Err(ProblemError::BadLength { what: "usage", index, found, expected });
            }
            let inside = usage.lo >= usage.hi || usage.hi as usize <= self.limits.len();
            if !inside || usage.usage.iter().any(|&u| u < 0) {
                return Err(ProblemError::BadUsage(index));
            }
        }
        Ok(())
    }

    /// The cost of a choice, or `None` if it takes a forbidden strategy or pair. Memory is not looked at.
    pub fn cost(&self, choice: &[u32]) -> Option<i128> {
        let mut total = 0i128;
        for (node, &s) in self.nodes.iter().zip(choice) {
            let c = node.costs[s as usize];
            if c >= INFINITE {
                return None;
            }
            total += i128::from(c);
        }
        for edge in &self.edges {
            let columns = self.nodes[edge.b as usize].costs.len();
            let c = edge.costs[choice[edge.a as usize] as usize * columns + choice[edge.b as usize] as usize];
            if c >= INFINITE {
                return None;
            }
            total += i128::from(c);
        }
        Some(total)
    }

    /// What a choice uses at every moment.
    pub fn usage(&self, choice: &[u32]) -> Vec<i128> {
        let mut change = vec![0i128; self.limits.len() + 1];
        for row in self.usages.iter().filter(|row| row.lo < row.hi) {
            let used = i128::from(row.usage[choice[row.node as usize] as usize]);
            change[row.lo as usize] += used;
            change[row.hi as usize] -= used;
        }
        let mut level = 0;
        change.pop();
        for c in &mut change {
            level += *c;
            *c = level;
        }
        change
    }

    /// By how much a choice exceeds the limit where it does so most (negative: it stays below by that much);
    /// `None` without moments.
    pub fn excess(&self, choice: &[u32]) -> Option<i128> {
        self.usage(choice).iter().zip(&self.limits).map(|(u, &limit)| u - i128::from(limit)).max()
    }

    /// The cost of a choice if it is allowed and within every limit.
    pub fn feasible_cost(&self, choice: &[u32]) -> Option<i128> {
        if choice.len() != self.nodes.len() || self.excess(choice).is_some_and(|e| e > 0) {
            return None;
        }
        self.cost(choice)
    }
}
