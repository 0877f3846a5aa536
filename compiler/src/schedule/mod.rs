//! Schedules: what a pipeline's order of microbatches costs.
//!
//! [`order`] says in which order a stage's devices work, for the schedules that the runtime executes exactly as [`ir::program::steps`] does.
//! [`simulate`](simulate::simulate) runs such orders with predicted times, event by event, also where devices share cores; it is what reports show.
//! [`duration`](fast::duration) gives the same step time for devices of their own, fast enough to be asked thousands of times a second.
//! [`closed_form`] has the published formulas, for equal stages without transfers: the tests hold both against them.

pub mod closed_form;
pub mod fast;
pub mod order;
pub mod simulate;
