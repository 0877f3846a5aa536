//! From the parts of a stage to its program: one arena, one list of instructions a phase.
//!
//! A stage that holds several chunks of the model has a part for each. Forwards and backwards stay apart, chunk by chunk; what is done once is merged in
//! the order of transfers before it, so that no part waits for what another of the same stage does later. What one chunk sends another of
//! the same stage is copied, into a slot per microbatch that may be under way between them.
//! Invariant: a buffer's lifetime is the interval of the instructions that touch it, which of what lives across phases that repeat covers them all; so
//! temporaries of different chunks and phases share memory, and what one microbatch leaves for later is never overwritten by another.

use super::cost::InstructionCost;
use crate::memory::assign::{Item, assign};
use ir::diagnostic::{Diagnostic, Result};
use ir::program::{
    Binding, Block, Buffer, BufferId, Chunk, Instruction, InstructionKind, Phase, Program, Scalar, ScheduleKind, StageId, in_flight_of_chunk, steps,
};
use ir::{Bytes, Flops, Mesh, PrimaryMap};

/// A buffer that has no place yet.
#[derive(Clone)]
pub(super) struct Draft {
    pub(super) buffer: Buffer,
    /// Nothing else may ever lie there (sent values, state, data).
    pub(super) exclusive: bool,
}

/// What one chunk of a stage does.
pub(super) struct Part {
    pub(super) buffers: PrimaryMap<BufferId, Draft>,
    /// Instructions of each phase, each with how many transfers lie before it.
    pub(super) phases: [Vec<(u32, Instruction)>; 4],
    pub(super) inputs: Vec<Binding>,
    pub(super) outputs: Vec<Binding>,
}

/// Where a stage is in its pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its number.
    pub stage: StageId,
    /// How many stages there are.
    pub stages: u32,
    /// The order of microbatches, which says how many chunks the stage holds.
    pub schedule: ScheduleKind,
    /// Microbatches of a step.
    pub microbatches: u32,
}

impl Lane {
    /// Whether piece `piece` of the model lies here.
    pub(super) fn holds(&self, piece: StageId) -> bool {
        piece.0 % self.stages == self.stage.0
    }
    /// The stage that holds a piece.
    fn of(&self, piece: StageId) -> StageId {
        StageId(piece.0 % self.stages)
    }
    fn chunk(&self, piece: StageId) -> usize {
        (piece.0 / self.stages) as usize
    }
    /// How many microbatches of one of its chunks are between forward and backward at most.
    pub fn in_flight(&self, chunk: u32) -> u32 {
        in_flight_of_chunk(self.schedule, self.stage, chunk, self.stages, self.microbatches)
    }
    /// How many microbatches are at most between what chunk `from` does in `phase` and the end of what chunk `to` does in `last`.
    fn under_way(&self, phase: Phase, from: usize, last: Phase, to: usize) -> u32 {
        let (mut alive, mut most) = (0u32, 1);
        for s in steps(self.schedule, self.stage, self.stages, self.microbatches.min(4 * self.stages)) {
            if (s.phase, s.chunk as usize) == (phase, from) {
                alive += 1;
                most = most.max(alive);
            }
            if (s.phase, s.chunk as usize) == (last, to) {
                alive = alive.saturating_sub(1);
            }
        }
        most
    }
}

/// Instructions of a phase, chunk by chunk.
type Lists = [Vec<Vec<(u32, Instruction)>>; 4];

/// Joins the parts of a stage into its program.
///
/// # Errors
/// `E0809` when the program contradicts itself.
pub(super) fn join(parts: Vec<Part>, lane: &Lane, mesh: &Mesh, first_rank: u32, cost: &InstructionCost<'_>) -> Result<Program> {
    let mut buffers: PrimaryMap<BufferId, Draft> = PrimaryMap::new();
    let (mut inputs, mut outputs) = (vec![], vec![]);
    let mut lists: Lists = Default::default();
    for part in parts {
        let base = buffers.len() as u32;
        part.buffers.values().for_each(|d| {
            buffers.push(d.clone());
        });
        for (list, own) in lists.iter_mut().zip(part.phases) {
            list.push(own.into_iter().map(|(depth, i)| (depth, renumbered(i, base))).collect());
        }
        let moved = |mut b: Binding| {
            b.buffer.0 += base;
            b
        };
        inputs.extend(part.inputs.into_iter().map(moved));
        outputs.extend(part.outputs.into_iter().map(moved));
    }
    address(&mut lists, &mut buffers, lane, cost);
    let chunks = ranges(&lists);
    // A region is what runs without a break: a phase, or a chunk's part of it.
    let mut regions: Vec<(Phase, usize)> = Vec::new();
    let phases = Phase::ALL.map(|phase| {
        let mut own = std::mem::take(&mut lists[phase as usize]);
        if matches!(phase, Phase::Before | Phase::After) {
            let mut all: Vec<(u32, Instruction)> = own.drain(..).flatten().collect();
            if !chunks.is_empty() {
                all.sort_by_key(|(depth, _)| *depth);
            }
            own.push(all);
        }
        regions.extend(own.iter().map(|list| (phase, list.len())));
        own.into_iter().flatten().map(|(_, i)| i).collect::<Vec<Instruction>>()
    });
    let items = lifetimes(&phases, &regions, &buffers, &outputs, lane.microbatches > 1);
    let assignment = assign(&items);
    let buffers = buffers.values().zip(assignment.offsets).map(|(d, offset)| Buffer { offset, ..d.buffer.clone() }).collect();
    let program = Program { stage: lane.stage, mesh: mesh.clone(), first_rank, buffers, arena: Bytes(assignment.total), phases, chunks, inputs, outputs };
    program.verify().map_err(|e| {
        Diagnostic::outcome("E0809", format!("the compiler made an inconsistent program: {e}")).with_help("this is a bug; please report the model")
    })?;
    Ok(program)
}

/// An instruction whose buffers begin at number `base`.
fn renumbered(mut i: Instruction, base: u32) -> Instruction {
    i.reads.iter_mut().chain(&mut i.writes).for_each(|b| b.0 += base);
    if let InstructionKind::Collective { segments, .. } = &mut i.kind {
        for s in segments {
            s.input.0 += base;
            s.output.0 += base;
        }
    }
    i
}

/// Messages go to stages; those between chunks of this stage become copies.
fn address(lists: &mut Lists, buffers: &mut PrimaryMap<BufferId, Draft>, lane: &Lane, cost: &InstructionCost<'_>) {
    for phase in Phase::ALL {
        for chunk in 0..lists[phase as usize].len() {
            for i in 0..lists[phase as usize][chunk].len() {
                let InstructionKind::Send { to, channel } = lists[phase as usize][chunk][i].1.kind else { continue };
                if !lane.holds(to) {
                    lists[phase as usize][chunk][i].1.kind = InstructionKind::Send { to: lane.of(to), channel };
                    continue;
                }
                let other = lane.chunk(to);
                let receives = |i: &Instruction| matches!(i.kind, InstructionKind::Receive { channel: c, .. } if c == channel);
                let at = lists[phase as usize][other].iter().position(|(_, i)| receives(i)).expect("invariant: what is sent is received");
                let (_, received) = lists[phase as usize][other].remove(at);
                let target = received.writes[0];
                let read_later = lists[Phase::Backward as usize][other].iter().any(|(_, i)| i.reads.contains(&target));
                let last = if phase == Phase::Forward && read_later { Phase::Backward } else { phase };
                if matches!(phase, Phase::Forward | Phase::Backward) {
                    buffers[target].buffer.slots = lane.under_way(phase, chunk, last, other);
                }
                let ty = buffers[target].buffer.ty.clone();
                let block = || Block { offset: Scalar::default(), strides: vec![1] };
                let kind = InstructionKind::Copy { shape: vec![ty.elements()], from: block(), to: block() };
                let send = &mut lists[phase as usize][chunk][i].1;
                (send.bytes, send.writes) = (Bytes(2 * ty.bytes()), received.writes);
                send.seconds = cost.seconds(&kind, Flops(0.0), send.bytes);
                send.kind = kind;
            }
        }
    }
    for (_, i) in lists.iter_mut().flatten().flatten() {
        if let InstructionKind::Receive { from, .. } = &mut i.kind {
            *from = lane.of(*from);
        }
    }
}

/// Where each chunk's instructions are; none for a single chunk.
fn ranges(lists: &Lists) -> Vec<Chunk> {
    let count = lists[0].len();
    if count == 1 {
        return vec![];
    }
    let range = |phase: Phase, c: usize| {
        let lengths: Vec<u32> = lists[phase as usize].iter().map(|l| l.len() as u32).collect();
        let start = lengths[..c].iter().sum();
        (start, start + lengths[c])
    };
    (0..count).map(|c| Chunk { forward: range(Phase::Forward, c), backward: range(Phase::Backward, c) }).collect()
}

/// When each buffer is alive, in positions of all phases' instructions in order.
fn lifetimes(
    phases: &[Vec<Instruction>; 4],
    regions: &[(Phase, usize)],
    buffers: &PrimaryMap<BufferId, Draft>,
    outputs: &[Binding],
    repeated: bool,
) -> Vec<Item> {
    let end = phases.iter().map(Vec::len).sum::<usize>().max(1);
    let start = |phase: Phase| -> usize { phases[..phase as usize].iter().map(Vec::len).sum() };
    // The region of every position.
    let region: Vec<usize> = regions.iter().enumerate().flat_map(|(r, (_, length))| std::iter::repeat_n(r, *length)).collect();
    let mut touched: Vec<Option<(usize, usize)>> = vec![None; buffers.len()];
    for (at, instruction) in phases.iter().flatten().enumerate() {
        for b in instruction.reads.iter().chain(&instruction.writes) {
            touched[b.0 as usize].get_or_insert((at, at)).1 = at;
        }
    }
    let kept = |id: BufferId| outputs.iter().any(|o| o.buffer == id);
    let item = |(id, d): (BufferId, &Draft)| {
        let (first, last) = match touched[id.0 as usize] {
            _ if d.exclusive => (0, end),
            None => (0, if kept(id) { end } else { 1 }),
            Some((first, last)) => {
                let repeats = |r: usize| matches!(regions[r].0, Phase::Forward | Phase::Backward);
                let (from, to) = (region[first], if kept(id) { regions.len() - 1 } else { region[last] });
                let across = repeated && from != to;
                // Alive across phases that repeat: from the first one's start to the last one's end.
                let first = if across && repeats(from) { start(Phase::Forward) } else { first };
                let last = if kept(id) { end } else { last + 1 };
                (first, if across && repeats(to) { last.max(start(Phase::After)) } else { last })
            }
        };
        Item { bytes: d.buffer.bytes(), first: first as u32, last: last as u32, align: 64 }
    };
    buffers.iter().map(item).collect()
}
