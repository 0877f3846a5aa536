//! Shardwright's IR: the dataflow graph, meshes and shardings, kernels, programs, plans and diagnostics.
//!
//! Everything here is data with a text or file form; nothing here does I/O or decides anything.
//! `compiler` turns a [`graph::Graph`] into a [`plan::Plan`]; `runtime` executes it; `viz` shows it.

pub mod arguments;
pub mod attention;
pub mod diagnostic;
pub mod dtype;
pub mod float8;
pub mod graph;
pub mod id;
pub mod infer;
pub mod interp;
pub mod judge;
pub mod kernel;
pub mod literal;
pub mod op;
pub mod plan;
pub mod program;
pub mod sharding;
pub mod text;
pub mod trace;
pub mod units;
pub mod verify;

pub use attention::{Attention, AttentionDim};
pub use diagnostic::{Diagnostic, Diagnostics, Result};
pub use dtype::{DType, TensorType};
pub use graph::{Graph, Loc, Module};
pub use id::{EntityId, PrimaryMap, SecondaryMap};
pub use literal::Literal;
pub use op::{OpId, OpKind, ValueId};
pub use sharding::{AxisId, Mesh, Sharding};
pub use units::{Bytes, Flops, Seconds};
