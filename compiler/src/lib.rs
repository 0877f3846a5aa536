//! The passes from a graph to a plan.

pub mod batch;
pub mod canonical;
pub mod import;
pub mod memory;
pub mod schedule;
