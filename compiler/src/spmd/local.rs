//! What one device of a stage computes in a step, before it is cut into kernels.
//!
//! An ordinary graph on local shapes with collective ops, each op in a phase. `AllReduce` over [`AxisId::MICROBATCH`] is the accumulation of a
//! per-microbatch partial: its operand belongs to the microbatch, its result to the phase `After`. `ShardSlice` over it takes the current microbatch's block.
//! Invariant: an op reads values of its own or of an earlier phase only, but for accumulated totals, which only `After` reads.

use ir::program::{BufferKind, Phase, StageId};
use ir::{Graph, Mesh, Sharding};

/// Where an input of a local graph comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// An argument of the user's function.
    Argument {
        /// Its number.
        index: u32,
        /// The global value with atomic dimensions, the microbatch dimension first when `microbatched`.
        global_shape: Vec<u64>,
        /// Whether the value is one microbatch's slot.
        microbatched: bool,
        /// How the dimensions (without the microbatch's) are cut.
        sharding: Sharding,
    },
    /// Received from another stage in a phase.
    Received {
        /// The other stage.
        from: StageId,
        /// The channel.
        channel: u32,
        /// When.
        phase: Phase,
    },
}

/// An input of a local graph.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalInput {
    /// Where it comes from.
    pub source: Source,
    /// What it is, for the memory report.
    pub kind: BufferKind,
}

/// Where an output of a local graph goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sink {
    /// A result of the user's function.
    Result {
        /// Its number.
        index: u32,
        /// The position among the local graph's inputs of the state it replaces.
        replaces: Option<u32>,
        /// The global value with atomic dimensions.
        global_shape: Vec<u64>,
        /// How they are cut.
        sharding: Sharding,
    },
    /// Sent to another stage in a phase.
    Sent {
        /// The other stage.
        to: StageId,
        /// The channel.
        channel: u32,
        /// When.
        phase: Phase,
    },
}

/// One stage's local graph.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalGraph {
    /// Ops on local shapes.
    pub graph: Graph,
    /// The stage.
    pub stage: StageId,
    /// Its mesh.
    pub mesh: Mesh,
    /// Rank of its device 0.
    pub first_rank: u32,
    /// Microbatches of a step.
    pub microbatches: u32,
    /// How many microbatches are between forward and backward at most.
    pub in_flight: u32,
    /// Phase of every op, by op number.
    pub phase: Vec<Phase>,
    /// How many transfers between stages lie before every op on its longest path, by op number: ops run in this order inside a phase.
    pub depth: Vec<u32>,
    /// The graph's inputs.
    pub inputs: Vec<LocalInput>,
    /// The graph's outputs.
    pub outputs: Vec<Sink>,
}
