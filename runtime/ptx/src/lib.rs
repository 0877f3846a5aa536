//! An emulator of the PTX that LLVM's NVPTX backend produces, with the checks a GPU does not make.
//!
//! [`Module::parse`] reads a module's text and decodes its entries; [`launch`] executes one over a grid, a warp of 32 lanes at a time, on memory that the
//! caller registers in a [`Memory`]. IEEE instructions are exact; `.approx` ones are right to the rounding of their result, or deviate within their
//! documented bound by a seed. An instruction, modifier or directive that is not known is an [`Error`] naming it and its line; what no GPU defines
//! is a [`Fault`] naming kernel, block, thread and line. Results do not depend on how many threads execute the blocks.

mod access;
mod atomic;
mod block;
mod code;
mod counts;
mod decode;
mod error;
mod flow;
mod lanes;
mod launch;
mod lexer;
mod memory;
mod module;
mod numeric;
mod parser;
mod shadow;
mod syntax;
mod warp;

pub use counts::{Counts, SECTOR, Traffic};
pub use error::{Error, Fault, FaultKind};
pub use launch::{Grid, Options, launch};
pub use memory::{Borrowed, Memory, Written};
pub use module::{Entry, Module};
