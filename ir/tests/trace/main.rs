//! The tracing API: gradients against finite differences and JAX, steps against published formulas, errors, names, text.

mod differences;
mod errors;
mod fixtures;
mod gradients;
mod steps;
