//! A worker executes one rank: its stage's program, expanded for its place in the mesh.
//!
//! Opening resolves every instruction once: computing is the device's, moving is the transport's, and before an instruction that may overwrite a message
//! under way the transport settles what it writes. A step then walks the schedule's phases; per instruction it does a match and one call.

use crate::arena::Place;
use crate::binding::Block;
use crate::device::{Device, Position, Region, Seat};
use crate::metrics::{Meter, RankStep};
use crate::tensor::Arguments;
use crate::trace::{Event, Recorder, Stream};
use crate::transport::collective::Collective;
use crate::transport::{GroupId, Interrupted, LinkId, Parts, Transport, region};
use ir::kernel::Kernel;
use ir::program::{Instruction, InstructionKind, KernelId, Phase, Program, ScheduleKind, Step, steps};
use ir::{Diagnostic, Diagnostics, PrimaryMap, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Where communications of the same ranks follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Lane {
    /// Collectives of a group.
    Group(u32),
    /// Messages of a link.
    Link(u32),
}

/// The communications of one rank on one lane in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The lane.
    pub lane: Lane,
    /// The ranks that take part.
    pub ranks: Vec<u32>,
    /// Each in words.
    pub entries: Vec<String>,
}

impl Default for Sequence {
    fn default() -> Self {
        Sequence { lane: Lane::Group(0), ranks: Vec::new(), entries: Vec::new() }
    }
}

impl Sequence {
    fn push(&mut self, text: &str) {
        self.entries.push(text.to_string());
    }
}

/// Who executes an instruction.
enum Action {
    Compute,
    Send { link: LinkId, place: Place, peer: u32 },
    Receive { link: LinkId, place: Place, peer: u32 },
    Collective { group: GroupId, collective: Box<Collective> },
}

struct Prepared {
    action: Action,
    /// What it writes, when a message under way may lie there.
    settles: Vec<Place>,
}

/// One rank.
pub struct Worker {
    seat: Seat,
    device: Box<dyn Device>,
    transport: Box<dyn Transport>,
    arena: Region,
    /// The schedule, each step with the numbers of its instructions.
    schedule: Vec<(Step, Range<usize>)>,
    phases: [Vec<Prepared>; 4],
    inputs: Vec<Block>,
    outputs: Vec<Block>,
    staging: Vec<u8>,
    recorder: Option<Recorder>,
    /// The ranks of every group it takes part in.
    groups: Vec<(u32, Vec<u32>)>,
    meter: Option<Meter>,
}

/// What a worker needs to know of the plan beside its program.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline<'a> {
    /// All programs, for the ranks of other stages.
    pub programs: &'a [Program],
    /// The order of microbatches.
    pub schedule: ScheduleKind,
    /// How many.
    pub microbatches: u32,
}

impl Worker {
    /// Resolves every instruction of `program` for `seat`; to be called on the rank's thread, at the same time on all ranks.
    ///
    /// # Errors
    /// What the transport refuses.
    pub fn new(
        pipeline: Pipeline<'_>,
        program: &Program,
        seat: Seat,
        device: Box<dyn Device>,
        mut transport: Box<dyn Transport>,
        recorder: Option<Recorder>,
    ) -> Result<Worker, Interrupted> {
        let arena = device.arena();
        transport.attach(arena)?;
        let sent: Vec<Place> =
            program.phases.iter().flatten().filter(|i| matches!(i.kind, InstructionKind::Send { .. })).flat_map(|i| Place::all(program, &i.reads)).collect();
        let mut phases = [const { Vec::new() }; 4];
        let mut groups: Vec<(u32, Vec<u32>)> = Vec::new();
        for phase in Phase::ALL {
            for i in program.phase(phase) {
                let prepared = prepare(pipeline, program, &seat, i, &sent, &mut *transport).map_err(|d| Interrupted::Here(Box::new(d)))?;
                if let (Action::Collective { group, .. }, InstructionKind::Collective { axes, .. }) = (&prepared.action, &i.kind)
                    && groups.iter().all(|(g, _)| *g != group.0)
                {
                    groups.push((group.0, seat.group(&program.mesh, program.first_rank, axes)));
                }
                phases[phase as usize].push(prepared);
            }
        }
        let stages = pipeline.programs.len() as u32;
        let first = |d: Diagnostics| Interrupted::Here(Box::new(d.0.into_iter().next().expect("invariant: an error has a diagnostic")));
        let blocks = |list: &[ir::program::Binding]| list.iter().map(|b| Block::new(program, b, &seat)).collect::<Result<Vec<_>>>();
        let (inputs, outputs) = (blocks(&program.inputs).map_err(first)?, blocks(&program.outputs).map_err(first)?);
        let longest = inputs.iter().map(Block::slot_bytes).max().unwrap_or(0);
        Ok(Worker {
            schedule: steps(pipeline.schedule, program.stage, stages, pipeline.microbatches).map(|s| (s, program.range(s.phase, s.chunk))).collect(),
            seat,
            device,
            transport,
            arena,
            phases,
            inputs,
            outputs,
            staging: vec![0; longest],
            recorder,
            groups,
            meter: None,
        })
    }
    /// Writes this rank's parts of some arguments.
    pub fn bind(&mut self, arguments: &Arguments) {
        let device = &mut self.device;
        for block in &self.inputs {
            if let Some(tensor) = arguments.get(&block.index) {
                block.scatter(Some(&tensor.bytes), &mut self.staging, |offset, bytes| device.write(offset, bytes));
            }
        }
    }
    /// Writes zeros to this rank's parts of every argument that is not given.
    pub fn clear_except(&mut self, arguments: &Arguments) {
        let device = &mut self.device;
        for block in self.inputs.iter().filter(|b| !arguments.contains_key(&b.index)) {
            block.scatter(None, &mut self.staging, |offset, bytes| device.write(offset, bytes));
        }
    }
    /// This rank's parts of the results (or, with `arguments`, of the arguments) that `wanted` names, with their number in the program's list.
    pub fn collect(&self, arguments: bool, wanted: impl Fn(u32) -> bool) -> Parts {
        let list = if arguments { &self.inputs } else { &self.outputs };
        let wanted = list.iter().enumerate().filter(|(_, b)| b.owner && wanted(b.index));
        wanted.map(|(i, b)| (i as u32, b.collect(|offset, bytes| self.device.read(offset, bytes)))).collect()
    }
    /// What it communicates in a step, lane by lane, in order: each communication in words that all who take part have in common.
    pub fn sequences(&self) -> Vec<Sequence> {
        let mut lanes: BTreeMap<Lane, Sequence> = BTreeMap::new();
        for (step, range) in &self.schedule {
            for prepared in &self.phases[step.phase as usize][range.clone()] {
                let (lane, ranks, text) = match &prepared.action {
                    Action::Compute => continue,
                    Action::Send { link, place, peer } => (Lane::Link(link.0), [self.seat.rank, *peer], format!("a message of {} bytes", place.bytes())),
                    Action::Receive { link, place, peer } => (Lane::Link(link.0), [*peer, self.seat.rank], format!("a message of {} bytes", place.bytes())),
                    Action::Collective { group, collective } => {
                        let text = format!("the {}, {} bytes, for microbatch {}", collective.label, collective.bytes(), step.microbatch);
                        lanes.entry(Lane::Group(group.0)).or_default().push(&text);
                        continue;
                    }
                };
                let sequence = lanes.entry(lane).or_default();
                sequence.ranks = ranks.to_vec();
                sequence.push(&text);
            }
        }
        lanes
            .into_iter()
            .map(|(lane, mut sequence)| {
                if let Lane::Group(group) = lane {
                    sequence.ranks = self.groups.iter().find(|(g, _)| *g == group).map(|(_, ranks)| ranks.clone()).unwrap_or_default();
                }
                Sequence { lane, ..sequence }
            })
            .collect()
    }
    /// Executes one step.
    ///
    /// # Errors
    /// When this rank or another fails; the first failure's reason is kept by the transport.
    pub fn step(&mut self) -> Result<(), Interrupted> {
        match (self.recorder.is_some(), self.meter.is_some()) {
            (false, false) => self.walk::<false, false>()?,
            (true, false) => self.walk::<true, false>()?,
            (false, true) => self.walk::<false, true>()?,
            (true, true) => self.walk::<true, true>()?,
        }
        self.transport.finish()?;
        self.meter.iter_mut().for_each(Meter::end);
        Ok(())
    }
    /// Measures from the next step on; the program is its own, of the plan with these kernels.
    pub fn measure(&mut self, program: &Program, kernels: &PrimaryMap<KernelId, Kernel>) {
        self.meter = Some(Meter::new(program, kernels));
    }
    /// What the last step measured; none unless it does.
    pub fn measured(&self) -> Option<&RankStep> {
        self.meter.as_ref().map(Meter::last)
    }
    /// What was recorded so far.
    pub fn recorded(&self) -> Vec<Event> {
        self.recorder.as_ref().map(|r| r.events.clone()).unwrap_or_default()
    }
    /// Bytes held by device and transport beside the arena.
    pub fn overhead_bytes(&self) -> usize {
        self.device.scratch_bytes() + self.transport.staging_bytes() + self.staging.len()
    }
    /// Bytes of the arena.
    pub fn arena_bytes(&self) -> usize {
        self.arena.bytes
    }
    /// Its device.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }
    /// Its place in the stage.
    pub fn seat(&self) -> &Seat {
        &self.seat
    }
    /// Ends the run for everyone.
    pub fn fail(&mut self, reason: Diagnostic) {
        self.transport.fail(reason);
    }

    fn walk<const TRACE: bool, const METER: bool>(&mut self) -> Result<(), Interrupted> {
        if METER && let Some(meter) = &mut self.meter {
            meter.begin();
        }
        for (number, (step, range)) in self.schedule.iter().enumerate() {
            let m = step.microbatch;
            for (i, prepared) in self.phases[step.phase as usize].iter().enumerate().take(range.end).skip(range.start) {
                let position = Position { phase: step.phase, instruction: i as u32, microbatch: m };
                self.transport.at(position);
                for place in &prepared.settles {
                    self.transport.settle(region(self.arena, place, m))?;
                }
                let clock = if METER && let Some(meter) = &mut self.meter {
                    meter.before(position, &*self.device);
                    meter.clock(position)
                } else {
                    None
                };
                let start = if TRACE { self.recorder.as_ref().map_or(0, Recorder::now) } else { 0 };
                match &prepared.action {
                    Action::Compute => self.device.execute(position).map_err(failed)?,
                    Action::Send { link, place, .. } => self.transport.send(*link, region(self.arena, place, m))?,
                    Action::Receive { link, place, .. } => self.transport.receive(*link, region(self.arena, place, m))?,
                    Action::Collective { group, collective } => self.transport.collective(*group, collective, m)?,
                }
                if METER
                    && let Some(clock) = clock
                    && let Some(meter) = &mut self.meter
                {
                    meter.done(clock);
                }
                if TRACE && let Some(recorder) = &mut self.recorder {
                    let (stream, message) = match &prepared.action {
                        Action::Compute => (Stream::Compute, None),
                        Action::Send { link, peer, .. } | Action::Receive { link, peer, .. } => (Stream::Communication, Some((link.0, *peer))),
                        Action::Collective { .. } => (Stream::Communication, None),
                    };
                    recorder.record(position, stream, message, start);
                }
            }
            if TRACE && let Some(recorder) = &mut self.recorder {
                recorder.moment(number as u32);
            }
        }
        Ok(())
    }
}

fn failed(d: Diagnostics) -> Interrupted {
    Interrupted::Here(Box::new(d.0.into_iter().next().expect("invariant: an error has a diagnostic")))
}

fn prepare(
    pipeline: Pipeline<'_>,
    program: &Program,
    seat: &Seat,
    instruction: &Instruction,
    sent: &[Place],
    transport: &mut dyn Transport,
) -> Result<Prepared, Diagnostic> {
    let wrong = |what: &str| Diagnostic::input("E0602", format!("this plan is inconsistent: {what}")).with_note(format!("in {}", instruction.source));
    let peer = |stage: ir::program::StageId| {
        let other = pipeline.programs.iter().find(|p| p.stage == stage).ok_or_else(|| wrong("a message goes to a stage that is not there"))?;
        Ok::<u32, Diagnostic>(other.first_rank + seat.device)
    };
    let first = |list: &[ir::program::BufferId]| list.first().map(|b| Place::of(&program.buffers[*b])).ok_or_else(|| wrong("a message has no buffer"));
    let mut written = Place::all(program, &instruction.writes);
    let action = match &instruction.kind {
        InstructionKind::Send { to, channel } => {
            let peer = peer(*to)?;
            Action::Send { link: transport.link(peer, *channel, true)?, place: first(&instruction.reads)?, peer }
        }
        InstructionKind::Receive { from, channel } => {
            let peer = peer(*from)?;
            Action::Receive { link: transport.link(peer, *channel, false)?, place: first(&instruction.writes)?, peer }
        }
        InstructionKind::Collective { kind, axes, reducer, dtype, segments } => {
            let ranks = seat.group(&program.mesh, program.first_rank, axes);
            written.extend(segments.iter().map(|s| Place::of(&program.buffers[s.output])));
            let collective = Collective::new(program, ranks.len(), *kind, *reducer, *dtype, segments, &instruction.source)?;
            Action::Collective { group: transport.group(&ranks)?, collective: Box::new(collective) }
        }
        _ => Action::Compute,
    };
    written.retain(|w| sent.iter().any(|s| s.overlaps(w)));
    Ok(Prepared { action, settles: written })
}

/// The program of a rank and its device number there.
pub fn program_of(programs: &[Program], rank: u32) -> Option<(&Program, u32)> {
    let program = programs.iter().find(|p| (p.first_rank..p.first_rank + p.mesh.devices()).contains(&rank))?;
    Some((program, rank - program.first_rank))
}

/// Programs shared by the threads of a process.
pub type Programs = Arc<[Program]>;
