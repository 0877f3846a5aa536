//! The dataflow IR: graph, types, mesh, sharding, interpreter, program, plan and diagnostics.
