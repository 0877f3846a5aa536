//! From a global graph and shardings to what each device computes.

pub mod local;
pub mod partition;
