//! The text form of modules: StableHLO as JAX prints it, read and written.
//!
//! Reading takes the pretty and the generic form, and reports everything that is wrong at once.
//! `parse(print(m))` is `m` up to locations. The steps:
//! `lexer` (tokens) → `ops`, `pretty`, `attribute`, `module` (an op as written) → `build`, `build_structured` (ops of the graph, checked by [`crate::infer`]).

mod attribute;
mod build;
mod build_structured;
mod dense;
mod lexer;
mod location;
mod module;
pub(crate) mod names;
mod ops;
mod parser;
mod pretty;
mod print_literal;
mod printer;
mod report;
mod scope;

pub use parser::Pin;
pub use printer::{print, print_graph};

use crate::diagnostic::{Diagnostic, Result};
use crate::graph::Module;
use parser::Parser;

/// Largest file that is read, in bytes.
const LARGEST: usize = 4 << 30;

/// A file that was read.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// Its module.
    pub module: Module,
    /// What was dropped, and why.
    pub notes: Vec<Diagnostic>,
    /// Shardings that `sdy.sharding_constraint`s ask for.
    pub pins: Vec<Pin>,
}

/// Reads a module; `file_name` is what diagnostics call it.
pub fn parse(file_name: &str, text: &str) -> Result<Module> {
    parse_with_notes(file_name, text).map(|p| p.module)
}

/// Reads a module, with notes on what was dropped and the shardings the text asks for.
pub fn parse_with_notes(file_name: &str, text: &str) -> Result<Parsed> {
    if text.len() > LARGEST {
        return Err(Diagnostic::input("E0111", format!("`{file_name}` is larger than 4 GiB")).into());
    }
    let mut parser = Parser::new(file_name, text);
    let read = parser.file();
    if read.is_ok() && parser.report.is_clean() {
        parser.check_module();
    }
    if !parser.report.is_clean() {
        return Err(parser.report.finish());
    }
    let mut module = std::mem::take(&mut parser.module);
    parser.resolve_locations(&mut module);
    Ok(Parsed { module, notes: parser.report.notes, pins: parser.pins })
}
