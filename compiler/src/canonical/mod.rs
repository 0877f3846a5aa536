//! Canonical form: one flat graph without calls or loops, in atomic dimensions.
mod algebra;
pub mod atoms;
mod evaluate;
pub mod fold;
pub mod inline;
mod movement;
pub mod onehot;
pub mod reshape_groups;
pub mod rewrite;
pub mod unroll;
