//! What can go wrong: a text that is not understood ([`Error`]), and a kernel that does what no GPU defines ([`Fault`]).

use std::fmt;

/// A text that is not PTX, or PTX that this emulator does not know: never skipped, always named with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PTX line {line}: {message}")]
pub struct Error {
    /// Line of the text, from 1; 0 where the text as a whole is meant.
    pub line: u32,
    /// What is wrong, naming the instruction, modifier or symbol.
    pub message: String,
}

impl Error {
    pub(crate) fn new(line: u32, message: impl Into<String>) -> Error {
        Error { line, message: message.into() }
    }
}

/// What a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// An address in no range that was registered, or past the end of shared or local memory; or a store to a range that is only read.
    OutOfBounds,
    /// An address that is no multiple of the access's size.
    Misaligned,
    /// A read of bytes that nothing has written.
    Uninitialised,
    /// Two threads of a block touched the same bytes with nothing between them, and one of them wrote.
    Race,
    /// A barrier that part of a block cannot reach.
    DivergentBarrier,
    /// A warp-wide instruction that names lanes which do not execute it.
    DivergentWarp,
    /// More instructions than the budget allows.
    Budget,
    /// The launch itself does not fit the entry.
    Launch,
}

impl FaultKind {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::OutOfBounds => "out-of-bounds access",
            FaultKind::Misaligned => "misaligned access",
            FaultKind::Uninitialised => "read of uninitialised memory",
            FaultKind::Race => "missing barrier",
            FaultKind::DivergentBarrier => "divergent barrier",
            FaultKind::DivergentWarp => "divergent warp instruction",
            FaultKind::Budget => "instruction budget exceeded",
            FaultKind::Launch => "impossible launch",
        }
    }
}

/// What a kernel did that is undefined, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    /// What it is.
    pub kind: FaultKind,
    /// The entry.
    pub kernel: String,
    /// The block's coordinates in the grid.
    pub block: [u32; 3],
    /// The thread's coordinates in the block.
    pub thread: [u32; 3],
    /// Line of the PTX text.
    pub line: u32,
    /// What and where, in words.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(f, "{} in {}, block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}), PTX line {}: {}", self.kind.name(), self.kernel, self.line, self.message)
    }
}
