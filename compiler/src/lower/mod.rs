//! Kernels to code, instructions, the plan.

pub mod code;
mod cost;
pub mod program;
mod uses;
