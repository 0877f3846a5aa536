//! How many messages of a link must be able to wait before they are taken.
//!
//! A sender that is about to overwrite a message which nobody took has to put it aside or wait, and ranks that wait for one another in a circle never go
//! on. Whether they do depends on how much fits aside and on nothing else: stages are deterministic and take messages in order, so their speeds do not
//! matter (Kahn 1974; Parks 1995). The step is therefore gone through once without computing; wherever all stages wait, the links whose senders wait get
//! one place more. Devices of a stage do the same at other positions of the mesh, so one of each stage is enough.

use ir::program::{BufferId, InstructionKind, Phase, Program, ScheduleKind, StageId, steps};
use std::collections::{BTreeMap, VecDeque};

/// Sender, receiver and channel.
type Key = (StageId, StageId, u32);

/// What of an instruction matters here.
enum Event {
    /// A sent buffer, of so many slots, is overwritten.
    Overwrite {
        link: usize,
        slots: u32,
    },
    Send {
        link: usize,
        slots: u32,
    },
    Receive {
        link: usize,
    },
}

#[derive(Default)]
struct Link {
    places: usize,
    sent: u64,
    taken: u64,
    /// Messages that were not taken: slot, and whether it was put aside.
    under_way: VecDeque<(u32, bool)>,
}

impl Link {
    /// Whether the slot can be overwritten now, after putting aside what is there.
    fn release(&mut self, slot: u32) -> bool {
        let aside = self.under_way.iter().filter(|m| m.1).count();
        let waiting = self.under_way.iter_mut().filter(|m| !m.1 && m.0 == slot);
        for (i, message) in waiting.enumerate() {
            if aside + i >= self.places {
                return false;
            }
            message.1 = true;
        }
        true
    }
}

/// For every link of a step how many messages must be able to wait beside the sender's buffer, at least one.
pub(super) fn waiting(programs: &[Program], schedule: ScheduleKind, microbatches: u32) -> BTreeMap<Key, usize> {
    let stages = programs.len() as u32;
    // The order repeats itself long before so many microbatches.
    let few = if microbatches > 4 * stages { 4 * stages } else { microbatches };
    let mut numbers: BTreeMap<Key, usize> = BTreeMap::new();
    for p in programs {
        for i in p.phases.iter().flatten() {
            if let InstructionKind::Send { to, channel } = i.kind {
                let next = numbers.len();
                numbers.entry((p.stage, to, channel)).or_insert(next);
            }
        }
    }
    let mut links: Vec<Link> = numbers.iter().map(|_| Link { places: 1, ..Link::default() }).collect();
    let events: Vec<[Vec<Vec<Event>>; 4]> = programs.iter().map(|p| events(p, &numbers)).collect();
    let orders: Vec<Vec<(Phase, std::ops::Range<usize>, u32)>> =
        programs.iter().map(|p| steps(schedule, p.stage, stages, few).map(|s| (s.phase, p.range(s.phase, s.chunk), s.microbatch)).collect()).collect();
    // Where every stage is: step, instruction, event.
    let mut at = vec![(0usize, 0usize, 0usize); programs.len()];
    loop {
        let mut moved = false;
        for (s, at) in at.iter_mut().enumerate() {
            moved |= advance(&orders[s], &events[s], at, &mut links);
        }
        if moved {
            continue;
        }
        let mut waits = false;
        for (s, &(step, instruction, event)) in at.iter().enumerate() {
            let Some((phase, range, _)) = orders[s].get(step) else { continue };
            if let Event::Overwrite { link, .. } = events[s][*phase as usize][range.start + instruction][event] {
                links[link].places += 1;
                waits = true;
            }
        }
        if !waits {
            // Done; or a message is waited for that is never sent, which the run reports.
            break;
        }
    }
    numbers.into_iter().map(|(key, n)| (key, links[n].places)).collect()
}

/// Events of every instruction of a program.
fn events(program: &Program, numbers: &BTreeMap<Key, usize>) -> [Vec<Vec<Event>>; 4] {
    let mut sent: BTreeMap<BufferId, Vec<usize>> = BTreeMap::new();
    for i in program.phases.iter().flatten() {
        if let InstructionKind::Send { to, channel } = i.kind {
            sent.entry(i.reads[0]).or_default().push(numbers[&(program.stage, to, channel)]);
        }
    }
    let slots = |b: BufferId| program.buffers[b].slots;
    let of = |i: &ir::program::Instruction| {
        let overwritten = i.writes.iter().filter_map(|b| sent.get(b).map(|l| (l, slots(*b))));
        let mut list: Vec<Event> = overwritten.flat_map(|(links, slots)| links.iter().map(move |&link| Event::Overwrite { link, slots })).collect();
        match i.kind {
            InstructionKind::Send { to, channel } => list.push(Event::Send { link: numbers[&(program.stage, to, channel)], slots: slots(i.reads[0]) }),
            InstructionKind::Receive { from, channel } => {
                list.extend(numbers.get(&(from, program.stage, channel)).map(|&link| Event::Receive { link }));
            }
            _ => {}
        }
        list
    };
    Phase::ALL.map(|phase| program.phase(phase).iter().map(of).collect())
}

/// Lets a stage go on until it waits; whether it went on at all.
fn advance(order: &[(Phase, std::ops::Range<usize>, u32)], events: &[Vec<Vec<Event>>; 4], at: &mut (usize, usize, usize), links: &mut [Link]) -> bool {
    let mut moved = false;
    while let Some((phase, range, microbatch)) = order.get(at.0) {
        let Some(list) = events[*phase as usize].get(range.start + at.1).filter(|_| at.1 < range.len()) else {
            *at = (at.0 + 1, 0, 0);
            moved = true;
            continue;
        };
        let Some(event) = list.get(at.2) else {
            *at = (at.0, at.1 + 1, 0);
            moved = true;
            continue;
        };
        match *event {
            Event::Overwrite { link, slots } => {
                if !links[link].release(microbatch % slots) {
                    return moved;
                }
            }
            Event::Send { link, slots } => {
                links[link].sent += 1;
                links[link].under_way.push_back((microbatch % slots, false));
            }
            Event::Receive { link } => {
                if links[link].taken == links[link].sent {
                    return moved;
                }
                links[link].taken += 1;
                links[link].under_way.pop_front();
            }
        }
        at.2 += 1;
        moved = true;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::program::{Buffer, BufferKind, Chunk, Instruction};
    use ir::{Bytes, DType, Flops, Mesh, PrimaryMap, Seconds, TensorType};

    /// A pipeline whose pieces compute one value and pass it on, forward and back.
    fn pipeline(stages: u32, schedule: ScheduleKind) -> Vec<Program> {
        let pieces = stages * schedule.chunks();
        let instruction =
            |kind, reads, writes| Instruction { kind, reads, writes, source: String::new(), seconds: Seconds(0.0), flops: Flops(0.0), bytes: Bytes(0) };
        (0..stages)
            .map(|s| {
                let mut buffers = PrimaryMap::new();
                let mut phases = [const { Vec::new() }; 4];
                let mut chunks = vec![];
                for piece in (s..pieces).step_by(stages as usize) {
                    let from = [phases[1].len() as u32, phases[2].len() as u32];
                    let ways = [
                        (1, piece.checked_sub(1), Some(piece + 1).filter(|&p| p < pieces), 0),
                        (2, Some(piece + 1).filter(|&p| p < pieces), piece.checked_sub(1), pieces),
                    ];
                    for (phase, before, after, base) in ways {
                        let mut buffer = || {
                            let ty = TensorType::new(DType::F32, [4]);
                            buffers.push(Buffer {
                                name: String::new(),
                                ty,
                                offset: 0,
                                slots: 1,
                                slot_stride: 64,
                                kind: BufferKind::Temporary,
                                persistent: false,
                            })
                        };
                        let (taken, made) = (buffer(), buffer());
                        if let Some(p) = before {
                            let from = StageId(p % stages);
                            phases[phase].push(instruction(InstructionKind::Receive { from, channel: base + p }, vec![], vec![taken]));
                        }
                        phases[phase].push(instruction(InstructionKind::Fill { element: vec![0; 4] }, vec![], vec![made]));
                        if let Some(p) = after {
                            let to = StageId(p % stages);
                            phases[phase].push(instruction(InstructionKind::Send { to, channel: base + piece }, vec![made], vec![]));
                        }
                    }
                    chunks.push(Chunk { forward: (from[0], phases[1].len() as u32), backward: (from[1], phases[2].len() as u32) });
                }
                if schedule.chunks() == 1 {
                    chunks.clear();
                }
                Program { stage: StageId(s), mesh: Mesh::new(&[1]), first_rank: s, buffers, arena: Bytes(0), phases, chunks, inputs: vec![], outputs: vec![] }
            })
            .collect()
    }

    #[test]
    fn one_place_is_enough_without_chunks() {
        for schedule in [ScheduleKind::GPipe, ScheduleKind::OneFOneB] {
            for stages in 2..6 {
                let found = waiting(&pipeline(stages, schedule), schedule, 3 * stages);
                assert!(
                    found.values().all(|&n| n <= if schedule == ScheduleKind::GPipe { 3 * stages as usize } else { 1 }),
                    "{schedule:?}, {stages}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn chunks_go_through() {
        for (stages, chunks) in [(2, 2), (4, 2), (4, 3), (8, 2)] {
            let schedule = ScheduleKind::Interleaved(chunks);
            let found = waiting(&pipeline(stages, schedule), schedule, 2 * stages);
            assert!(found.values().all(|&n| n <= 2 * stages as usize), "{stages}, {chunks}: {found:?}");
        }
    }

    #[test]
    fn what_is_taken_late_waits_aside() {
        // Three messages leave one buffer before the message that the receiver takes first.
        let mut programs = pipeline(2, ScheduleKind::OneFOneB);
        for p in &mut programs {
            p.phases = [const { Vec::new() }; 4];
        }
        let (first, second) = (BufferId(0), BufferId(1));
        let instruction = |kind, reads: &[BufferId], writes: &[BufferId]| Instruction {
            kind,
            reads: reads.to_vec(),
            writes: writes.to_vec(),
            source: String::new(),
            seconds: Seconds(0.0),
            flops: Flops(0.0),
            bytes: Bytes(0),
        };
        let (from, to) = (StageId(0), StageId(1));
        for _ in 0..3 {
            programs[0].phases[0].push(instruction(InstructionKind::Fill { element: vec![0; 4] }, &[], &[first]));
            programs[0].phases[0].push(instruction(InstructionKind::Send { to, channel: 0 }, &[first], &[]));
        }
        programs[0].phases[0].push(instruction(InstructionKind::Send { to, channel: 1 }, &[second], &[]));
        programs[1].phases[0].push(instruction(InstructionKind::Receive { from, channel: 1 }, &[], &[second]));
        for _ in 0..3 {
            programs[1].phases[0].push(instruction(InstructionKind::Receive { from, channel: 0 }, &[], &[first]));
        }
        let found = waiting(&programs, ScheduleKind::OneFOneB, 1);
        assert_eq!(found, BTreeMap::from([((from, to, 0), 2), ((from, to, 1), 1)]));
    }
}
