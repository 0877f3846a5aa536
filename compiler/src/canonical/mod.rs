//! Canonical form: one flat graph without calls or loops, in atomic dimensions.
pub mod rewrite;
