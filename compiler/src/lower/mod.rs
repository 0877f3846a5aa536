//! Kernels to code, instructions, the plan.

pub mod code;
mod cost;
pub mod join;
pub mod program;
pub mod regions;
pub mod report;
mod uses;
