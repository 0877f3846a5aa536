//! Executes a plan's CUDA code on GPUs.
//!
//! A [`machine::Machine`] holds the cards and what the ranks on them share. Every rank has a [`device::CudaDevice`], one arena in its card's memory, a stream
//! that computes and one that communicates; its thread only begins work there, in an order that [`lane`] keeps right with events, and as CUDA graphs where [`runs`] repeat. Everything that touches
//! CUDA goes through the [`driver::Driver`] seam: [`card`] is the real one, and [`emulated`] a GPU in software that executes PTX on the emulator and what was
//! begun on its streams in any order that streams and events allow, so that the runtime is tested where there is no GPU.

pub mod bandwidth;
pub mod card;
pub mod communicate;
pub mod device;
pub mod driver;
pub mod emulated;
pub mod kernels;
pub mod lane;
pub mod machine;
pub mod product;
pub mod runs;
