//! Schedules: what a pipeline's order of microbatches costs.
//!
//! [`simulate`](simulate::simulate) executes the order that [`ir::program::steps`] gives, which is the one the runtime executes, with predicted times.

pub mod path;
pub mod simulate;
