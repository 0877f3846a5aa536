//! Memory: which values live when, and where each lies in the arena.
//!
//! [`assign`](assign::assign) gives offsets to items with lifetimes; it knows nothing of programs.

pub mod assign;
