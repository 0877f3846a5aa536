//! Where a rank is in its step, in one word for atomics and messages, and in words for people.

use super::collective::kind_name;
use crate::device::Position;
use crate::worker::program_of;
use ir::program::{Instruction, InstructionKind, Phase, Program};

/// The word of a rank between two steps.
pub const IDLE: u64 = u64::MAX;

/// A position as a word.
#[inline]
pub fn pack(p: Position) -> u64 {
    u64::from(p.instruction) | u64::from(p.microbatch) << 32 | (p.phase as u64) << 60
}

/// The position of a word; none for [`IDLE`].
pub fn unpack(word: u64) -> Option<Position> {
    let phase = Phase::ALL[(word >> 60) as usize & 3];
    (word != IDLE).then_some(Position { phase, instruction: word as u32, microbatch: (word >> 32) as u32 & 0x0fff_ffff })
}

/// What an instruction does, in a word.
pub fn action_name(kind: &InstructionKind) -> &'static str {
    match kind {
        InstructionKind::Kernel { .. } => "kernel",
        InstructionKind::MatMul(_) => "matrix product",
        InstructionKind::Library { .. } => "library op",
        InstructionKind::Copy { .. } => "copy",
        InstructionKind::Fill { .. } => "fill",
        InstructionKind::Collective { kind, .. } => kind_name(*kind),
        InstructionKind::Send { .. } => "send",
        InstructionKind::Receive { .. } => "receive",
    }
}

/// The instruction at a position of a rank's program.
pub fn instruction(programs: &[Program], rank: u32, position: Option<Position>) -> Option<(&Program, &Instruction)> {
    let (program, _) = program_of(programs, rank)?;
    let position = position?;
    Some((program, program.phase(position.phase).get(position.instruction as usize)?))
}

/// Whether an instruction is a communication.
pub fn is_communication(kind: &InstructionKind) -> bool {
    use InstructionKind::{Collective, Receive, Send};
    matches!(kind, Send { .. } | Receive { .. } | Collective { .. })
}

/// Whether the instruction at a position is a communication.
pub fn communicates(programs: &[Program], rank: u32, position: Option<Position>) -> bool {
    instruction(programs, rank, position).is_some_and(|(_, i)| is_communication(&i.kind))
}

/// Where a rank is, in words.
pub fn whereabouts(programs: &[Program], rank: u32, position: Option<Position>) -> String {
    let (Some((program, _)), Some(p)) = (program_of(programs, rank), position) else { return format!("rank {rank} has not begun the step") };
    let at = instruction(programs, rank, position);
    let what = at.map_or_else(|| "the end".into(), |(_, i)| format!("the {} of {}", action_name(&i.kind), i.source));
    format!("rank {rank} (stage {}) is at {what}, {}", program.stage, when(p))
}

/// The part of a step that a position is in, in words.
pub fn when(p: Position) -> String {
    match p.phase {
        Phase::Before => "before the first microbatch".to_string(),
        Phase::Forward => format!("in the forward of microbatch {}", p.microbatch),
        Phase::Backward => format!("in the backward of microbatch {}", p.microbatch),
        Phase::After => "after the last microbatch".to_string(),
    }
}
