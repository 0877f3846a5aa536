//! The passes from a graph to a plan.

pub mod batch;
pub mod canonical;
pub mod compare;
pub mod import;
pub mod kernels;
pub mod layers;
pub mod lower;
pub mod memory;
pub mod pipeline;
pub mod predict;
pub mod recompute;
pub mod rules;
pub mod schedule;
pub mod shard;
pub mod spmd;
pub mod stage;
pub mod step;
pub mod stop;
pub mod tables;
