//! Programs: what one stage's devices execute, as a template over the device's mesh coordinates and the microbatch number.
//!
//! A program lists buffers at fixed offsets of one arena, and instructions in four phases. [`steps`] expands the schedule: which phase runs for which
//! microbatch, in order. All devices of a stage run the same program; where they differ (shard offsets) an instruction takes [`Scalar`]s.
//! Nothing is allocated during a step. A buffer with several slots holds one microbatch's value per slot: microbatch `m` uses slot `m % slots`.
//! Invariants (checked by [`verify`](crate::program::Program::verify)): instructions touch only listed buffers, buffers lie inside the arena,
//! and two buffers overlap only if their lifetimes (in instruction positions) do not.

use crate::dtype::{DType, TensorType};
use crate::entity_id;
use crate::id::{EntityId, PrimaryMap};
use crate::op::{OpKind, Reducer};
use crate::sharding::{AxisId, Mesh, Sharding};
use crate::units::{Bytes, Flops, Seconds};
use serde::{Deserialize, Serialize};

entity_id!(
    /// A buffer of a program.
    BufferId,
    "b"
);
entity_id!(
    /// A pipeline stage.
    StageId,
    "s"
);
entity_id!(
    /// A kernel of a plan.
    KernelId,
    "kernel"
);

/// What a buffer holds, for the memory report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BufferKind {
    /// Trained parameters.
    Parameter,
    /// Optimizer state and counters.
    Optimizer,
    /// Gradients, also while accumulated.
    Gradient,
    /// Batch arguments.
    Data,
    /// Values kept from forward to backward.
    Activation,
    /// Values inside a phase.
    Temporary,
    /// Communication and packing buffers.
    Communication,
}

/// A region of the arena.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    /// The user's name of the value it holds.
    pub name: String,
    /// The local value's type (one slot).
    pub ty: TensorType,
    /// Byte offset of slot 0 in the arena; 64-byte aligned.
    pub offset: u64,
    /// How many slots.
    pub slots: u32,
    /// Bytes from slot to slot; 64-byte aligned.
    pub slot_stride: u64,
    /// What it holds.
    pub kind: BufferKind,
    /// Whether it keeps its content between steps (state) or from before a step (data).
    pub persistent: bool,
}

impl Buffer {
    /// Bytes taken in the arena.
    pub fn bytes(&self) -> u64 {
        self.slot_stride * u64::from(self.slots)
    }
}

/// A run-time integer: `constant + Σ coefficient · coordinate(axis)`; [`AxisId::MICROBATCH`]'s coordinate is the microbatch number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scalar {
    /// Constant part.
    pub constant: i64,
    /// Axis coordinates with coefficients.
    pub axes: Vec<(AxisId, i64)>,
}

impl Scalar {
    /// Its value at some mesh coordinates and microbatch.
    pub fn value(&self, coordinates: &[u32], microbatch: u32) -> i64 {
        self.axes
            .iter()
            .fold(self.constant, |sum, &(axis, k)| sum + k * i64::from(if axis == AxisId::MICROBATCH { microbatch } else { coordinates[axis.index()] }))
    }
}

/// A batched matrix product `C[b] = A[b]·B[b] (+ C[b])` on strided operands, in elements. A batch stride may be 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MatMul {
    /// Batch extents, outermost first, with each operand's strides per extent.
    pub batch: Vec<BatchDim>,
    /// Rows of C.
    pub m: u64,
    /// Columns of C.
    pub n: u64,
    /// Contracted size.
    pub k: u64,
    /// First element of A, B and C in their buffers.
    pub offsets: (u64, u64, u64),
    /// (row, k) strides of A.
    pub a_strides: (u64, u64),
    /// (k, column) strides of B.
    pub b_strides: (u64, u64),
    /// (row, column) strides of C.
    pub c_strides: (u64, u64),
    /// Operand type; products of `bf16` and `f16` accumulate in `f32`.
    pub dtype: DType,
    /// Result type.
    pub result: DType,
    /// Add to what C holds instead of overwriting it.
    pub accumulate: bool,
}

/// One batch extent of a [`MatMul`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BatchDim {
    /// Extent.
    pub size: u64,
    /// Stride of A.
    pub a: u64,
    /// Stride of B.
    pub b: u64,
    /// Stride of C.
    pub c: u64,
}

/// A strided block: elements at `offset + Σ strides·i`; offsets may depend on the device and microbatch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Block {
    /// Offset in elements.
    pub offset: Scalar,
    /// Stride per dimension, in elements.
    pub strides: Vec<i64>,
}

/// How much one rank's part of a collective is, and where it lies: peer `i`'s piece starts at `i · peer_stride` elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pieces {
    /// Extents of a piece.
    pub shape: Vec<u64>,
    /// Strides of a piece in the buffer, in elements.
    pub strides: Vec<u64>,
    /// Elements from one peer's piece to the next; 0 when all peers share one piece.
    pub peer_stride: u64,
}

/// Which collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CollectiveKind {
    /// Every rank gets the reduction of all ranks' buffers.
    AllReduce,
    /// Every rank gets every rank's piece.
    AllGather,
    /// Rank `i` gets the reduction of all ranks' `i`-th pieces.
    ReduceScatter,
    /// Rank `i` gets every rank's `i`-th piece.
    AllToAll,
}

/// One buffer's part in a (possibly bucketed) collective.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Segment {
    /// What this rank gives.
    pub input: BufferId,
    /// Where it receives; the same buffer for an all-reduce in place.
    pub output: BufferId,
    /// Layout of the pieces in `input`.
    pub give: Pieces,
    /// Layout of the pieces in `output`.
    pub take: Pieces,
}

/// What an instruction does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum InstructionKind {
    /// A compiled kernel; `reads` then `writes` are its parameters in order (inputs first, then outputs).
    Kernel {
        /// Which.
        kernel: KernelId,
        /// Its run-time scalars.
        scalars: Vec<Scalar>,
    },
    /// A matrix product: reads A and B, writes C.
    MatMul(MatMul),
    /// An op done by the device's library (convolution, gather, scatter, sort, …) on row-major local values.
    Library {
        /// The op, on local shapes.
        op: OpKind,
        /// Operand types.
        operands: Vec<TensorType>,
        /// Result types.
        results: Vec<TensorType>,
    },
    /// A strided copy of `shape` elements.
    Copy {
        /// Extents.
        shape: Vec<u64>,
        /// Where from, in the read buffer.
        from: Block,
        /// Where to, in the written buffer.
        to: Block,
    },
    /// Every byte pattern of the written buffer set to one element.
    Fill {
        /// The element's bytes.
        element: Vec<u8>,
    },
    /// A collective over the devices of the mesh that differ along `axes` only.
    Collective {
        /// Which.
        kind: CollectiveKind,
        /// The axes, outermost first.
        axes: Vec<AxisId>,
        /// What it combines with (ignored by moves).
        reducer: Reducer,
        /// Element type on the wire.
        dtype: DType,
        /// The buffers.
        segments: Vec<Segment>,
    },
    /// Sends the read buffer to the same mesh position of another stage.
    Send {
        /// The other stage.
        to: StageId,
        /// Matches the receive of the same channel; microbatches follow in order.
        channel: u32,
    },
    /// Receives into the written buffer from the same mesh position of another stage.
    Receive {
        /// The other stage.
        from: StageId,
        /// The channel.
        channel: u32,
    },
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instruction {
    /// What it does.
    pub kind: InstructionKind,
    /// Buffers read, in the order its kind says.
    pub reads: Vec<BufferId>,
    /// Buffers written.
    pub writes: Vec<BufferId>,
    /// The user's name of what it computes and where it comes from: `%51 (step.mlir:54)`.
    pub source: String,
    /// Predicted duration.
    pub seconds: Seconds,
    /// Floating point operations.
    pub flops: Flops,
    /// Bytes moved through memory or over the wire (per device).
    pub bytes: Bytes,
}

/// When instructions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Once, before the first microbatch.
    Before,
    /// Forward, once a microbatch.
    Forward,
    /// Backward, once a microbatch.
    Backward,
    /// Once, after the last microbatch.
    After,
}

impl Phase {
    /// All phases in order.
    pub const ALL: [Phase; 4] = [Phase::Before, Phase::Forward, Phase::Backward, Phase::After];
}

/// How the microbatches of a pipeline are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ScheduleKind {
    /// All forwards, then all backwards (Huang et al. 2019).
    GPipe,
    /// One forward, one backward in the steady state (PipeDream-flush, Narayanan et al. 2021).
    OneFOneB,
    /// The same with so many chunks of layers per stage: chunk `c` of stage `s` is number `c · stages + s` on the way through the model, and each stage takes
    /// its chunks in turn for as many microbatches as there are stages (Narayanan et al. 2021). Needs microbatches that the stages divide.
    Interleaved(u32),
}

impl ScheduleKind {
    /// How many chunks of layers a stage holds.
    pub fn chunks(self) -> u32 {
        match self {
            ScheduleKind::GPipe | ScheduleKind::OneFOneB => 1,
            ScheduleKind::Interleaved(chunks) => chunks.max(1),
        }
    }
    /// Whether so many microbatches can go through so many stages in this order.
    pub fn allows(self, stages: u32, microbatches: u32) -> bool {
        match self {
            ScheduleKind::GPipe | ScheduleKind::OneFOneB => true,
            ScheduleKind::Interleaved(_) => microbatches.is_multiple_of(stages),
        }
    }
    /// The order for a single chunk per stage.
    #[must_use]
    pub fn base(self) -> ScheduleKind {
        match self {
            ScheduleKind::GPipe => ScheduleKind::GPipe,
            ScheduleKind::OneFOneB | ScheduleKind::Interleaved(_) => ScheduleKind::OneFOneB,
        }
    }
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ScheduleKind::GPipe => "gpipe",
            ScheduleKind::OneFOneB => "1f1b",
            ScheduleKind::Interleaved(_) => "interleaved",
        }
    }
}

impl std::fmt::Display for ScheduleKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ScheduleKind::GPipe => f.write_str("GPipe"),
            ScheduleKind::OneFOneB => f.write_str("1F1B"),
            ScheduleKind::Interleaved(chunks) => write!(f, "interleaved, {chunks} chunks"),
        }
    }
}

/// One entry of an expanded schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Step {
    /// Which instructions.
    pub phase: Phase,
    /// Of which chunk (0 for `Before` and `After`, which are done for all chunks at once).
    pub chunk: u32,
    /// For which microbatch (0 for `Before` and `After`).
    pub microbatch: u32,
}

/// The order in which `stage` of `stages` runs its phases over `microbatches`.
pub fn steps(kind: ScheduleKind, stage: StageId, stages: u32, microbatches: u32) -> impl Iterator<Item = Step> {
    let (chunks, total) = (kind.chunks(), kind.chunks() * microbatches);
    let warm_up = warm_up(kind, stage, stages, microbatches);
    // The n-th forward of a stage: its chunks in turn, each for as many microbatches as there are stages.
    let place = move |n: u32| if chunks == 1 { (0, n) } else { (n % (stages * chunks) / stages, n / (stages * chunks) * stages + n % stages) };
    let forward = move |n| Step { phase: Phase::Forward, chunk: place(n).0, microbatch: place(n).1 };
    let backward = move |n| Step { phase: Phase::Backward, chunk: chunks - 1 - place(n).0, microbatch: place(n).1 };
    let once = |phase| std::iter::once(Step { phase, chunk: 0, microbatch: 0 });
    once(Phase::Before)
        .chain((0..warm_up).map(forward))
        .chain((warm_up..total).flat_map(move |n| [forward(n), backward(n - warm_up)]))
        .chain((total - warm_up..total).map(backward))
        .chain(once(Phase::After))
}

/// Forwards of a stage before its first backward, less the one that the backward directly follows.
fn warm_up(kind: ScheduleKind, stage: StageId, stages: u32, microbatches: u32) -> u32 {
    let behind = stages - stage.0 - 1;
    match kind {
        ScheduleKind::GPipe => microbatches,
        ScheduleKind::OneFOneB => behind.min(microbatches),
        ScheduleKind::Interleaved(chunks) => (2 * behind + (chunks.max(1) - 1) * stages).min(chunks.max(1) * microbatches),
    }
}

/// How many microbatches' activations a stage holds at most at once; those of different chunks are counted apart.
pub fn in_flight(kind: ScheduleKind, stage: StageId, stages: u32, microbatches: u32) -> u32 {
    match kind {
        ScheduleKind::GPipe => microbatches,
        ScheduleKind::OneFOneB | ScheduleKind::Interleaved(_) => (warm_up(kind, stage, stages, microbatches) + 1).min(kind.chunks() * microbatches),
    }
}

/// How many microbatches of one chunk are between their forward and their backward at most.
pub fn in_flight_of_chunk(kind: ScheduleKind, stage: StageId, chunk: u32, stages: u32, microbatches: u32) -> u32 {
    if kind.chunks() == 1 {
        return in_flight(kind, stage, stages, microbatches);
    }
    // The order repeats itself long before so many microbatches.
    let few = microbatches.min(4 * stages);
    let (mut alive, mut most) = (0u32, 0);
    for s in steps(kind, stage, stages, few).filter(|s| s.chunk == chunk) {
        match s.phase {
            Phase::Forward => alive += 1,
            Phase::Backward => alive -= 1,
            Phase::Before | Phase::After => {}
        }
        most = most.max(alive);
    }
    most
}

/// How a global argument or result lies in the devices' buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// Number of the argument (or result) of the user's function.
    pub index: u32,
    /// The buffer that holds a device's part.
    pub buffer: BufferId,
    /// The global row-major value seen with atomic dimensions. With `microbatched` the first dimension is the microbatch number and is the buffer's slot.
    pub global_shape: Vec<u64>,
    /// Whether the first dimension of `global_shape` is the slot.
    pub microbatched: bool,
    /// How the dimensions (without the slot's) are cut; never partial.
    pub sharding: Sharding,
}

/// Where a chunk's instructions are in its stage's program: first and one past the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// In the forward's list.
    pub forward: (u32, u32),
    /// In the backward's list.
    pub backward: (u32, u32),
}

/// One stage's program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Which stage.
    pub stage: StageId,
    /// Its mesh; rank = `first_rank` + device number.
    pub mesh: Mesh,
    /// Rank of its device 0.
    pub first_rank: u32,
    /// Its buffers.
    pub buffers: PrimaryMap<BufferId, Buffer>,
    /// Bytes of the arena.
    pub arena: Bytes,
    /// Instructions of each phase, in [`Phase::ALL`]'s order; forwards and backwards chunk by chunk.
    pub phases: [Vec<Instruction>; 4],
    /// Which of them are each chunk's; empty for a stage of one chunk.
    pub chunks: Vec<Chunk>,
    /// Where arguments go before a step.
    pub inputs: Vec<Binding>,
    /// Where results are after a step. State results lie in the buffer of the argument they replace.
    pub outputs: Vec<Binding>,
}

impl Program {
    /// Instructions of a phase.
    pub fn phase(&self, phase: Phase) -> &[Instruction] {
        &self.phases[phase as usize]
    }
    /// Which instructions of its phase a step of the schedule runs.
    pub fn range(&self, phase: Phase, chunk: u32) -> std::ops::Range<usize> {
        let of = |pick: fn(&Chunk) -> (u32, u32)| self.chunks.get(chunk as usize).map(|c| pick(c).0 as usize..pick(c).1 as usize);
        let range = match phase {
            Phase::Before | Phase::After => None,
            Phase::Forward => of(|c| c.forward),
            Phase::Backward => of(|c| c.backward),
        };
        range.unwrap_or(0..self.phase(phase).len())
    }
    /// Checks the structural invariants; the message names the first instruction or buffer that breaks one.
    pub fn verify(&self) -> Result<(), String> {
        for (id, b) in self.buffers.iter() {
            if b.offset % 64 != 0 || b.slot_stride % 64 != 0 || b.slot_stride < b.ty.bytes() || b.slots == 0 {
                return Err(format!("buffer {id} ({}) is misaligned or too short", b.name));
            }
            if b.offset.checked_add(b.bytes()).is_none_or(|end| end > self.arena.0) {
                return Err(format!("buffer {id} ({}) does not lie inside the arena", b.name));
            }
        }
        for phase in [Phase::Forward, Phase::Backward] {
            let mut next = 0;
            for range in (0..self.chunks.len() as u32).map(|c| self.range(phase, c)) {
                if range.start != next || range.end < next || range.end > self.phase(phase).len() {
                    return Err("the chunks do not divide the instructions".into());
                }
                next = range.end;
            }
            if !self.chunks.is_empty() && next != self.phase(phase).len() {
                return Err("some instructions belong to no chunk".into());
            }
        }
        for instruction in self.phases.iter().flatten() {
            if let Some(b) = instruction.reads.iter().chain(&instruction.writes).find(|b| self.buffers.get(**b).is_none()) {
                return Err(format!("instruction for {} touches the unknown buffer {b}", instruction.source));
            }
        }
        for binding in self.inputs.iter().chain(&self.outputs) {
            let Some(buffer) = self.buffers.get(binding.buffer) else {
                return Err(format!("argument or result {} is bound to an unknown buffer", binding.index));
            };
            let shape = if binding.microbatched { binding.global_shape.get(1..).unwrap_or(&[]) } else { &binding.global_shape };
            if binding.sharding.dims.len() != shape.len() || binding.sharding.local_shape(shape, &self.mesh) != buffer.ty.shape {
                return Err(format!("argument or result {} does not match buffer {}", binding.index, binding.buffer));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_microbatch_goes_forward_then_backward_once_per_chunk() {
        for kind in [ScheduleKind::GPipe, ScheduleKind::OneFOneB, ScheduleKind::Interleaved(1), ScheduleKind::Interleaved(2), ScheduleKind::Interleaved(3)] {
            for stages in 1..5 {
                for microbatches in (1..13).filter(|&m| kind.allows(stages, m)) {
                    for stage in (0..stages).map(StageId) {
                        let chunks = kind.chunks() as usize;
                        let (mut forward, mut backward) = (vec![0; chunks], vec![0; chunks]);
                        let (mut alive, mut most, mut most_of) = (0, 0, vec![0; chunks]);
                        for s in steps(kind, stage, stages, microbatches) {
                            let c = s.chunk as usize;
                            match s.phase {
                                Phase::Forward => {
                                    assert_eq!(s.microbatch, forward[c], "{kind:?}: microbatches of a chunk follow in order");
                                    forward[c] += 1;
                                    alive += 1;
                                }
                                Phase::Backward => {
                                    assert_eq!(s.microbatch, backward[c]);
                                    assert!(s.microbatch < forward[c]);
                                    backward[c] += 1;
                                    alive -= 1;
                                }
                                Phase::Before | Phase::After => {}
                            }
                            most = most.max(alive);
                            most_of[c] = most_of[c].max(forward[c] - backward[c]);
                        }
                        assert!(forward.iter().chain(&backward).all(|&n| n == microbatches));
                        assert_eq!(most, in_flight(kind, stage, stages, microbatches));
                        let counts: Vec<u32> = (0..kind.chunks()).map(|c| in_flight_of_chunk(kind, stage, c, stages, microbatches)).collect();
                        assert_eq!(most_of, counts, "{kind:?} {stage} of {stages}, {microbatches}");
                    }
                }
            }
        }
    }

    #[test]
    fn interleaving_holds_the_published_share_more() {
        // The first stage holds 1 + (p - 1) / (p v) times the activations of 1F1B (Narayanan et al. 2021).
        for (p, v) in [(4u32, 2u32), (8, 4), (16, 3)] {
            let count = in_flight(ScheduleKind::Interleaved(v), StageId(0), p, 8 * p);
            assert_eq!(count, p * v + p - 1);
        }
    }
}
