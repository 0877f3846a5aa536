//! The passes from a graph to a plan.

pub mod batch;
pub mod canonical;
