//! Stages: which settings of stages, mesh and microbatches there are, what each costs, and the best one built.
//!
//! For every setting the sharding problem of its mesh is solved, layers are cut into stages by dynamic programming over layer ranges, and the pipeline
//! is simulated with the chosen groups' times. The best is lowered; if its arena does not fit, it is solved again under memory constraints, and
//! then the next best is tried. All that was considered is kept in the plan.

pub mod build;
pub mod candidate;
pub mod cuts;
pub mod decisions;
mod mixture;
pub mod settings;

pub use build::build;
pub use candidate::{Candidate, Searched, search};
pub use settings::{Setting, settings};
