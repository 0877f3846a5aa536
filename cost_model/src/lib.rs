//! Hardware, topology, collectives, compute and memory costs.
