//! Kernels to code, instructions, the plan.

mod cost;
pub mod program;
