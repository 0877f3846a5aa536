//! The passes from a graph to a plan.
