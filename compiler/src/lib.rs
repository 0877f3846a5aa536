//! The passes from a graph to a plan.

pub mod batch;
pub mod canonical;
pub mod memory;
pub mod schedule;
