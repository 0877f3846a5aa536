//! State and batch: which arguments are state and data, and how a step is cut into microbatches.
//!
//! A microbatch is an axis in time. Cutting the batch into `M` microbatches is sharding the batch dimension over the virtual axis
//! [`AxisId::MICROBATCH`](ir::AxisId::MICROBATCH), whose "devices" are moments; a value that is partial over it is a gradient being accumulated.
//! A step then has three parts ([`StepPhase`]): before, per microbatch, after. What is partial over the microbatches is completed only on the edge from
//! *per microbatch* to *after*. A step that needs it earlier (batch normalization) is not cut, and the op that needs it is named.

mod factor;
mod matching;
pub mod phases;
pub mod split;
pub mod state;

use ir::graph::Graph;
use ir::{OpId, SecondaryMap, ValueId};

/// When an op of a microbatched step runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepPhase {
    /// Once a step, before the microbatches: what no parameter-dependent batch value reaches.
    Before,
    /// Once per microbatch, forward or backward.
    #[default]
    Micro,
    /// Once a step, after the last microbatch: what reads a completed total.
    After,
}

/// A value that is summed over the microbatches: an `all_reduce` over the axis in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accumulator {
    /// The op: `AllReduce{axes: [MICROBATCH]}`, of phase [`StepPhase::After`].
    pub op: OpId,
    /// What one microbatch contributes, computed in [`StepPhase::Micro`]; f32 or wider for floats.
    pub partial: ValueId,
    /// The sum over all microbatches, read in [`StepPhase::After`].
    pub total: ValueId,
}

/// A microbatch's block of a value that is there as a whole: a `shard_slice` over the axis in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicrobatchSlice {
    /// The op: `ShardSlice{axes: [MICROBATCH], dim}`, of phase [`StepPhase::Micro`].
    pub op: OpId,
    /// The whole value: an input, or computed in [`StepPhase::Before`].
    pub whole: ValueId,
    /// The block of the current microbatch.
    pub block: ValueId,
    /// The dimension that is cut.
    pub dim: usize,
}

/// A step in its per-microbatch form: an ordinary graph in which what runs per microbatch has the batch size of one microbatch.
///
/// Evaluated with the axis in time as a mesh axis of `microbatches` devices it computes what the whole step does.
/// With one microbatch the structure is the same, and slices and accumulators are identities.
/// Invariants: an op of `Before` reads inputs and `Before`; of `Micro` reads inputs, `Before` and `Micro`, and whole values that have a
/// batch dimension only through [`MicrobatchSlice`]s; of `After` reads inputs, `Before`, totals and `After`, and `Micro` only through [`Accumulator`]s.
#[derive(Clone, Debug)]
pub struct Microbatched {
    /// The graph.
    pub graph: Graph,
    /// When each op runs.
    pub phases: SecondaryMap<OpId, StepPhase>,
    /// What is summed over the microbatches, in op order.
    pub accumulators: Vec<Accumulator>,
    /// What is cut by microbatch, in op order.
    pub slices: Vec<MicrobatchSlice>,
    /// How many microbatches.
    pub microbatches: u32,
}
