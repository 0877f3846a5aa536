//! The pairwise one-hot integer program: one strategy per node, node and edge costs, memory at every moment.
//!
//! [`solve`] reduces a [`Problem`] exactly, solves what is narrow by dynamic programming, prices memory with one
//! multiplier a moment, and branches on what is left; every [`Solution`] carries a proven bound, and a problem
//! without solutions is explained by a small [`Core`]. Without a deadline the answer depends on the problem and the
//! [`Options`] alone.
//!
//! ```
//! use solver::{Options, Problem, solve};
//!
//! let mut p = Problem::default();
//! let (a, b) = (p.add_node(vec![5, 1]), p.add_node(vec![0, 0, 2]));
//! p.add_edge(a, b, vec![0, 9, 9, 9, 9, 1]); // row-major: 2 rows for `a`, 3 columns for `b`
//! let now = p.add_moment(10);
//! p.add_usage(a, now, now + 1, vec![4, 8]);
//! p.add_usage(b, now, now + 1, vec![6, 3, 3]);
//! let solved = solve(&p, &Options::default())?;
//! assert_eq!(solved.solution().map(|s| (s.choice.clone(), s.objective)), Some((vec![0, 0], 5)));
//! # Ok::<(), solver::ProblemError>(())
//! ```

mod bounder;
mod branch;
pub mod contest;
mod elimination;
mod highs;
mod infeasible;
mod lagrange;
mod model;
mod moments;
mod neighbourhood;
mod outcome;
mod portfolio;
mod problem;
mod random;
mod reduce;
mod region;
mod relaxation;
#[cfg(test)]
mod sample;
mod solve;
mod splitting;
mod state;
mod worker;

pub use outcome::{Core, Options, Outcome, Progress, Solution, Stats, Status};
pub use problem::{Edge, INFINITE, Node, Problem, ProblemError, Usage};
pub use solve::solve;
