//! Kernels of library ops against the ops' definitions.

mod attention;
mod emulated;
mod indexing;
mod moves;
