//! What a rank measures in a step: how long it took, how long each kind of communication, and the squares of its gradients.
//!
//! A worker without a meter reads no clock. With one it reads it twice per communication and twice per step, and goes over each gradient once; nothing is
//! allocated in a step.

use super::gradients::{gradients, sum_of_squares};
use crate::device::{Device, Position};
use ir::kernel::Kernel;
use ir::program::{CollectiveKind, InstructionKind, KernelId, Phase, Program};
use ir::{DType, PrimaryMap};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Kinds of communication that are told apart.
pub const KINDS: [&str; 6] = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send", "receive"];

/// The kind of an instruction among [`KINDS`]; none for what computes.
fn kind(kind: &InstructionKind) -> Option<u8> {
    match kind {
        InstructionKind::Collective { kind, .. } => Some(match kind {
            CollectiveKind::AllReduce => 0,
            CollectiveKind::AllGather => 1,
            CollectiveKind::ReduceScatter => 2,
            CollectiveKind::AllToAll => 3,
        }),
        InstructionKind::Send { .. } => Some(4),
        InstructionKind::Receive { .. } => Some(5),
        InstructionKind::Kernel { .. }
        | InstructionKind::MatMul(_)
        | InstructionKind::Library { .. }
        | InstructionKind::Copy { .. }
        | InstructionKind::Fill { .. } => None,
    }
}

/// What one rank measured in one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankStep {
    /// Nanoseconds from its first instruction to its last.
    pub step: u64,
    /// For each of [`KINDS`] how often, and nanoseconds in it, waiting included.
    pub communication: [(u32, u64); KINDS.len()],
    /// Nanoseconds in which it waited for another rank, wherever it was.
    pub waiting: u64,
    /// Nanoseconds spent on measuring.
    pub measuring: u64,
    /// For each of its program's gradients, in their order, the sum of squares of its part.
    pub squares: Vec<f64>,
}

impl RankStep {
    /// Nanoseconds in communication.
    pub fn communicating(&self) -> u64 {
        self.communication.iter().map(|(_, ns)| ns).sum()
    }
    /// Nanoseconds in which it computed: what is neither communication nor measuring.
    pub fn computing(&self) -> u64 {
        self.step.saturating_sub(self.communicating() + self.measuring)
    }
}

/// Where a gradient is read, and before which instruction.
struct Reading {
    instruction: u32,
    /// Where its parts lie.
    offsets: Vec<usize>,
    /// Bytes of a part.
    bytes: usize,
    dtype: DType,
}

/// A worker's meter.
pub(crate) struct Meter {
    kinds: [Vec<Option<u8>>; 4],
    gradients: Vec<Reading>,
    /// How many of them were read in this step.
    next: usize,
    bytes: Vec<u8>,
    last: RankStep,
    begun: Instant,
    waited: u64,
}

impl Meter {
    /// For a rank of `program`, of a plan with these kernels.
    pub(crate) fn new(program: &Program, kernels: &PrimaryMap<KernelId, Kernel>) -> Meter {
        let reading = |g: super::Gradient| {
            let b = &program.buffers[g.buffer];
            let offsets = [g.buffer].iter().chain(&g.plus).map(|p| program.buffers[*p].offset as usize).collect();
            Reading { instruction: g.instruction, offsets, bytes: b.ty.bytes() as usize, dtype: b.ty.dtype }
        };
        let gradients: Vec<Reading> = gradients(program, kernels).into_iter().map(reading).collect();
        let longest = gradients.iter().map(|g| g.bytes * g.offsets.len()).max().unwrap_or(0);
        Meter {
            kinds: Phase::ALL.map(|p| program.phase(p).iter().map(|i| kind(&i.kind)).collect()),
            bytes: vec![0; longest],
            last: RankStep { squares: vec![0.0; gradients.len()], ..RankStep::default() },
            gradients,
            next: 0,
            begun: Instant::now(),
            waited: 0,
        }
    }
    /// A step begins.
    pub(crate) fn begin(&mut self) {
        let squares = std::mem::take(&mut self.last.squares);
        self.last = RankStep { squares, ..RankStep::default() };
        self.next = 0;
        self.waited = super::waited();
        self.begun = Instant::now();
    }
    /// Before an instruction: reads the gradients that are final now.
    pub(crate) fn before(&mut self, position: Position, device: &dyn Device) {
        while position.phase == Phase::After
            && let Some(g) = self.gradients.get(self.next).filter(|g| g.instruction == position.instruction)
        {
            let begun = Instant::now();
            let bytes = &mut self.bytes[..g.bytes * g.offsets.len()];
            g.offsets.iter().zip(bytes.chunks_exact_mut(g.bytes.max(1))).for_each(|(offset, part)| device.read(*offset, part));
            self.last.squares[self.next] = sum_of_squares(g.dtype, bytes, g.offsets.len());
            self.last.measuring += begun.elapsed().as_nanos() as u64;
            self.next += 1;
        }
    }
    /// When a communication begins; none for an instruction that computes.
    pub(crate) fn clock(&self, position: Position) -> Option<(u8, Instant)> {
        self.kinds[position.phase as usize][position.instruction as usize].map(|k| (k, Instant::now()))
    }
    /// It ends.
    pub(crate) fn done(&mut self, (kind, begun): (u8, Instant)) {
        let (count, ns) = &mut self.last.communication[kind as usize];
        *count += 1;
        *ns += begun.elapsed().as_nanos() as u64;
    }
    /// The step ends.
    pub(crate) fn end(&mut self) {
        self.last.step = self.begun.elapsed().as_nanos() as u64;
        self.last.waiting = super::waited() - self.waited;
    }
    /// What the last step gave.
    pub(crate) fn last(&self) -> &RankStep {
        &self.last
    }
}
