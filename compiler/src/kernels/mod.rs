//! Local ops to kernels and library calls.
//!
//! `later` moves to the update what only it needs, `classify` says what is computed where, `units` cuts the graph, `build` writes each kernel's loop nest, `matmul` each matrix product.

pub mod build;
pub mod classify;
mod coalesce;
pub mod later;
pub mod matmul;
pub mod stored;
pub mod units;
pub mod view;
