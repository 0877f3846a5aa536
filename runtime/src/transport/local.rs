//! The transport between threads of this process.
//!
//! A [`Hub`] is shared by all ranks. A message is a descriptor of where it lies in the sender's arena: the receiver copies it from there when it arrives.
//! When the sender is about to overwrite a message that was not taken yet it first moves it to the link's staging block, or waits when that is occupied;
//! one block a link is enough for any schedule of microbatches to go on, because a phase never needs a later message of its neighbour than it has sent.
//! Collectives are two barriers: between them every member reads its peers' arenas directly. Waiting threads park: devices may exceed cores.
//!
//! Who may touch what: between `POSTED` and `TAKEN` a message's bytes belong to the link; between the barriers of a collective its buffers belong to the
//! group. All other bytes of an arena belong to its rank.

use super::collective::Collective;
use super::{GroupId, Interrupted, LinkId, Transport};
use crate::device::{Position, Region};
use ir::program::{InstructionKind, Phase, Program, steps};
use ir::{Diagnostic, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

const EMPTY: u32 = 0;
const POSTED: u32 = 1;
const MOVING: u32 = 2;
const TAKING: u32 = 3;

/// How often a condition is looked at before the thread parks, when every rank has a core.
const SPINS: u32 = 1000;

/// A message under way.
#[derive(Debug)]
struct Message {
    state: AtomicU32,
    address: AtomicPtr<u8>,
    bytes: AtomicUsize,
    staged: AtomicBool,
}

#[derive(Debug)]
struct Link {
    from: u32,
    to: u32,
    channel: u32,
    /// One entry per message of a step, so that posting never waits.
    messages: Box<[Message]>,
    sent: AtomicU64,
    taken: AtomicU64,
    /// Whether the staging block holds a message that was not taken.
    occupied: AtomicBool,
    staging: AtomicPtr<u8>,
    staging_bytes: usize,
}

#[derive(Debug)]
struct Group {
    ranks: Vec<u32>,
    arrived: AtomicU32,
    generation: AtomicU64,
    /// How many barriers each member has come to, for messages.
    seen: Vec<AtomicU64>,
}

#[derive(Debug, Default)]
struct RankState {
    thread: OnceLock<Thread>,
    base: AtomicPtr<u8>,
    position: AtomicU64,
}

/// What the ranks of a process share.
#[derive(Debug)]
pub struct Hub {
    programs: Arc<[Program]>,
    timeout: Duration,
    spins: u32,
    ranks: Vec<RankState>,
    links: Vec<Link>,
    link_numbers: BTreeMap<(u32, u32, u32), u32>,
    groups: Vec<Group>,
    group_numbers: BTreeMap<Vec<u32>, u32>,
    poisoned: AtomicBool,
    failure: Mutex<Option<Diagnostic>>,
    /// The staging blocks, which the links point into.
    _staging: Vec<Vec<u64>>,
}

const IDLE: u64 = u64::MAX;

fn pack(p: Position) -> u64 {
    u64::from(p.instruction) | u64::from(p.microbatch) << 32 | (p.phase as u64) << 60
}

impl Hub {
    /// A hub for all ranks of some programs, whose step runs `microbatches` in the order of `schedule`.
    ///
    /// # Errors
    /// `E0602` when a send has no receive or the other way round.
    pub fn new(programs: Arc<[Program]>, schedule: ir::program::ScheduleKind, microbatches: u32, timeout: Duration) -> Result<Arc<Hub>> {
        let total: u32 = programs.iter().map(|p| p.mesh.devices()).sum();
        let mut links = Vec::new();
        let (mut sends, mut receives) = (BTreeMap::new(), BTreeMap::new());
        let mut group_numbers = BTreeMap::from([((0..total).collect::<Vec<u32>>(), 0u32)]);
        for program in programs.iter() {
            let mut runs = [0usize; 4];
            for s in steps(schedule, program.stage, programs.len() as u32, microbatches) {
                runs[s.phase as usize] += 1;
            }
            for phase in Phase::ALL {
                for i in program.phase(phase) {
                    let bytes = |list: &[ir::program::BufferId]| list.first().map_or(0, |b| program.buffers[*b].ty.bytes() as usize);
                    let (table, key, bytes) = match &i.kind {
                        InstructionKind::Send { to, channel } => (&mut sends, (program.stage, *to, *channel), bytes(&i.reads)),
                        InstructionKind::Receive { from, channel } => (&mut receives, (*from, program.stage, *channel), bytes(&i.writes)),
                        InstructionKind::Collective { axes, .. } => {
                            for device in 0..program.mesh.devices() {
                                let ranks: Vec<u32> = program.mesh.group_of(device, axes).iter().map(|d| program.first_rank + d).collect();
                                let next = group_numbers.len() as u32;
                                group_numbers.entry(ranks).or_insert(next);
                            }
                            continue;
                        }
                        _ => continue,
                    };
                    let entry = table.entry(key).or_insert((0usize, bytes, i.source.clone()));
                    entry.0 += runs[phase as usize];
                    if entry.1 != bytes {
                        return Err(inconsistent(format!("channel {} carries messages of {} and of {bytes} bytes", key.2, entry.1), &i.source));
                    }
                }
            }
        }
        for (key, send) in &sends {
            let stage = |s: ir::program::StageId| programs.iter().find(|p| p.stage == s);
            let receive = receives.get(key).filter(|r| (r.0, r.1) == (send.0, send.1));
            let (Some(_), Some(from), Some(to)) = (receive, stage(key.0), stage(key.1)) else {
                return Err(inconsistent(format!("stage {} sends {} messages on channel {} that {} does not receive", key.0, send.0, key.2, key.1), &send.2));
            };
            if from.mesh.devices() != to.mesh.devices() {
                return Err(inconsistent(format!("stages {} and {} exchange messages and have other meshes", key.0, key.1), &send.2));
            }
            for device in 0..from.mesh.devices() {
                links.push((from.first_rank + device, to.first_rank + device, key.2, send.0, send.1));
            }
        }
        if let Some((key, receive)) = receives.iter().find(|(key, _)| !sends.contains_key(key)) {
            return Err(inconsistent(format!("stage {} receives on channel {} what {} does not send", key.1, key.2, key.0), &receive.2));
        }
        let mut staging = Vec::new();
        let links: Vec<Link> = links
            .into_iter()
            .map(|(from, to, channel, messages, bytes)| {
                let mut block = vec![0u64; bytes.div_ceil(8)];
                let address = AtomicPtr::new(block.as_mut_ptr().cast());
                staging.push(block);
                let message =
                    |_| Message { state: AtomicU32::new(EMPTY), address: AtomicPtr::default(), bytes: AtomicUsize::new(0), staged: AtomicBool::new(false) };
                Link {
                    from,
                    to,
                    channel,
                    messages: (0..messages.max(1)).map(message).collect(),
                    sent: AtomicU64::new(0),
                    taken: AtomicU64::new(0),
                    occupied: AtomicBool::new(false),
                    staging: address,
                    staging_bytes: bytes,
                }
            })
            .collect();
        let mut groups: Vec<Option<Group>> = (0..group_numbers.len()).map(|_| None).collect();
        for (ranks, &number) in &group_numbers {
            let seen = ranks.iter().map(|_| AtomicU64::new(0)).collect();
            groups[number as usize] = Some(Group { ranks: ranks.clone(), arrived: AtomicU32::new(0), generation: AtomicU64::new(0), seen });
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Arc::new(Hub {
            timeout,
            spins: if total as usize <= cores { SPINS } else { 0 },
            ranks: (0..total).map(|_| RankState { position: AtomicU64::new(IDLE), ..RankState::default() }).collect(),
            link_numbers: links.iter().enumerate().map(|(i, l)| ((l.from, l.to, l.channel), i as u32)).collect(),
            links,
            groups: groups.into_iter().flatten().collect(),
            group_numbers,
            poisoned: AtomicBool::new(false),
            failure: Mutex::new(None),
            _staging: staging,
            programs,
        }))
    }
    /// The transport of a rank; to be used on that rank's thread.
    pub fn transport(self: &Arc<Hub>, rank: u32) -> LocalTransport {
        let outstanding = self.links.iter().filter(|l| l.from == rank).map(|l| l.messages.len()).sum();
        LocalTransport { hub: self.clone(), rank, outstanding: Vec::with_capacity(outstanding), bases: Vec::new() }
    }
    /// Why the run failed, if it did.
    pub fn failure(&self) -> Option<Diagnostic> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Ends the run for every rank; the first reason is kept.
    pub fn fail(&self, reason: Diagnostic) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.poisoned.store(true, Ordering::SeqCst);
        for r in 0..self.ranks.len() {
            self.wake(r as u32);
        }
    }
    /// The instruction a rank is at, and its program.
    fn instruction(&self, rank: u32) -> (Option<&Program>, Option<&ir::program::Instruction>, u64) {
        let packed = self.ranks[rank as usize].position.load(Ordering::Relaxed);
        let program = self.programs.iter().find(|p| (p.first_rank..p.first_rank + p.mesh.devices()).contains(&rank)).filter(|_| packed != IDLE);
        let phase = Phase::ALL[(packed >> 60) as usize & 3];
        (program, program.and_then(|p| p.phase(phase).get(packed as u32 as usize)), packed)
    }
    /// Whether a rank is at a communication.
    fn waits(&self, rank: u32) -> bool {
        use InstructionKind::{Collective, Receive, Send};
        matches!(self.instruction(rank).1.map(|i| &i.kind), Some(Send { .. } | Receive { .. } | Collective { .. }))
    }
    /// Where a rank is, in words.
    pub fn whereabouts(&self, rank: u32) -> String {
        let (Some(program), instruction, packed) = self.instruction(rank) else { return format!("rank {rank} has not begun the step") };
        let phase = Phase::ALL[(packed >> 60) as usize & 3];
        let what = instruction.map_or_else(|| "the end".into(), |i| format!("the {} of {}", action_name(&i.kind), i.source));
        let when = match phase {
            Phase::Before => "before the first microbatch".to_string(),
            Phase::Forward => format!("in the forward of microbatch {}", packed >> 32 & 0x0fff_ffff),
            Phase::Backward => format!("in the backward of microbatch {}", packed >> 32 & 0x0fff_ffff),
            Phase::After => "after the last microbatch".to_string(),
        };
        format!("rank {rank} (stage {}) is at {what}, {when}", program.stage)
    }

    fn wake(&self, rank: u32) {
        if let Some(thread) = self.ranks[rank as usize].thread.get() {
            thread.unpark();
        }
    }

    /// Waits until `ready`; after the time-out the run fails with what `missing` says.
    #[inline]
    fn wait(&self, ready: impl Fn() -> bool, missing: impl Fn() -> Diagnostic) -> Result<(), Interrupted> {
        for _ in 0..=self.spins {
            if ready() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        self.wait_parked(&ready, &missing)
    }

    #[cold]
    fn wait_parked(&self, ready: &dyn Fn() -> bool, missing: &dyn Fn() -> Diagnostic) -> Result<(), Interrupted> {
        let begun = Instant::now();
        loop {
            if ready() {
                return Ok(());
            }
            if self.poisoned.load(Ordering::SeqCst) {
                return Err(Interrupted::Elsewhere);
            }
            let Some(left) = self.timeout.checked_sub(begun.elapsed()).filter(|d| !d.is_zero()) else {
                return Err(Interrupted::Here(Box::new(missing())));
            };
            std::thread::park_timeout(left);
        }
    }

    fn late(&self, missing: &[u32], what: &str, waiting: u32) -> Diagnostic {
        let names: Vec<String> = missing.iter().map(u32::to_string).collect();
        let ranks = format!("rank{} {}", if names.len() > 1 { "s" } else { "" }, names.join(", "));
        let mut d = Diagnostic::outcome("E0611", format!("{ranks} did not come to the {what} within {} s", self.timeout.as_secs_f64()));
        for &r in missing {
            d = d.with_note(self.whereabouts(r));
        }
        // When those who are missing wait themselves, the cause is a rank that computes.
        if missing.iter().all(|r| self.waits(*r)) {
            for r in (0..self.ranks.len() as u32).filter(|r| !self.waits(*r) && !missing.contains(r) && *r != waiting) {
                d = d.with_note(format!("they wait themselves, and {}", self.whereabouts(r)));
            }
        }
        d.with_note(format!("rank {waiting} was waiting"))
    }

    fn barrier(&self, group: &Group, rank: u32, what: &str) -> Result<(), Interrupted> {
        let me = group.ranks.iter().position(|r| *r == rank).expect("invariant: a group is resolved by its members");
        let generation = group.generation.load(Ordering::Acquire);
        group.seen[me].store(generation + 1, Ordering::Relaxed);
        if group.arrived.fetch_add(1, Ordering::AcqRel) + 1 == group.ranks.len() as u32 {
            group.arrived.store(0, Ordering::Relaxed);
            group.generation.store(generation + 1, Ordering::SeqCst);
            for &r in group.ranks.iter().filter(|r| **r != rank) {
                self.wake(r);
            }
            return Ok(());
        }
        self.wait(
            || group.generation.load(Ordering::SeqCst) != generation,
            || {
                let missing: Vec<u32> =
                    group.ranks.iter().zip(&group.seen).filter(|(_, seen)| seen.load(Ordering::Relaxed) <= generation).map(|(r, _)| *r).collect();
                self.late(&missing, what, rank)
            },
        )
    }
}

fn inconsistent(what: String, source: &str) -> ir::Diagnostics {
    Diagnostic::input("E0602", format!("this plan is inconsistent: {what}")).with_note(format!("in {source}")).with_help("compile the model again").into()
}

/// What an instruction does, in a word.
pub fn action_name(kind: &InstructionKind) -> &'static str {
    match kind {
        InstructionKind::Kernel { .. } => "kernel",
        InstructionKind::MatMul(_) => "matrix product",
        InstructionKind::Library { .. } => "library op",
        InstructionKind::Copy { .. } => "copy",
        InstructionKind::Fill { .. } => "fill",
        InstructionKind::Collective { kind, .. } => super::collective::kind_name(*kind),
        InstructionKind::Send { .. } => "send",
        InstructionKind::Receive { .. } => "receive",
    }
}

/// A send whose message still lies in the sender's arena.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    link: u32,
    sequence: u64,
    region: Region,
}

/// One rank's end of a [`Hub`].
#[derive(Debug)]
pub struct LocalTransport {
    hub: Arc<Hub>,
    rank: u32,
    outstanding: Vec<Outstanding>,
    /// For every group that was resolved, the arenas of its members.
    bases: Vec<Bases>,
}

#[derive(Debug)]
struct Bases(Vec<*mut u8>, usize);

// SAFETY: addresses of arenas that live as long as the session; access follows the hub's protocol.
unsafe impl Send for Bases {}

impl LocalTransport {
    /// Makes an outstanding message's region free: taken, or staged.
    fn release(&self, o: &Outstanding) -> Result<(), Interrupted> {
        let hub = &*self.hub;
        let link = &hub.links[o.link as usize];
        let message = &link.messages[o.sequence as usize % link.messages.len()];
        let taken = || link.taken.load(Ordering::Acquire) > o.sequence;
        let stageable = || !link.occupied.load(Ordering::Acquire) && message.state.load(Ordering::Acquire) == POSTED;
        loop {
            if taken() {
                return Ok(());
            }
            if stageable() && message.state.compare_exchange(POSTED, MOVING, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                let staging = link.staging.load(Ordering::Relaxed);
                // SAFETY: `MOVING` gives this thread the message; the staging block is free and as long as a message of this link.
                unsafe { std::ptr::copy_nonoverlapping(o.region.address, staging, o.region.bytes) };
                link.occupied.store(true, Ordering::Relaxed);
                message.staged.store(true, Ordering::Relaxed);
                message.address.store(staging, Ordering::Relaxed);
                message.state.store(POSTED, Ordering::SeqCst);
                hub.wake(link.to);
                return Ok(());
            }
            let late = || hub.late(&[link.to], &format!("receive on channel {} from rank {}", link.channel, link.from), self.rank);
            hub.wait(|| taken() || stageable(), late)?;
        }
    }
}

impl Transport for LocalTransport {
    fn attach(&mut self, arena: Region) -> Result<(), Interrupted> {
        let state = &self.hub.ranks[self.rank as usize];
        state.base.store(arena.address, Ordering::SeqCst);
        if state.thread.set(std::thread::current()).is_err() {
            let d = Diagnostic::outcome("E0612", format!("rank {} was attached twice", self.rank));
            return Err(Interrupted::Here(Box::new(d)));
        }
        self.hub.barrier(&self.hub.groups[0], self.rank, "start")
    }

    fn link(&mut self, peer: u32, channel: u32, sending: bool) -> Result<LinkId, Diagnostic> {
        let key = if sending { (self.rank, peer, channel) } else { (peer, self.rank, channel) };
        self.hub
            .link_numbers
            .get(&key)
            .map(|n| LinkId(*n))
            .ok_or_else(|| Diagnostic::input("E0602", format!("this plan is inconsistent: ranks {} and {} share no channel {channel}", key.0, key.1)))
    }

    fn group(&mut self, ranks: &[u32]) -> Result<GroupId, Diagnostic> {
        let number = self.hub.group_numbers.get(ranks).copied();
        let me = ranks.iter().position(|r| *r == self.rank);
        let (Some(number), Some(me)) = (number, me) else {
            return Err(Diagnostic::input("E0602", format!("this plan is inconsistent: rank {} is in no group {ranks:?}", self.rank)));
        };
        let bases = ranks.iter().map(|r| self.hub.ranks[*r as usize].base.load(Ordering::SeqCst)).collect();
        while self.bases.len() <= number as usize {
            self.bases.push(Bases(Vec::new(), 0));
        }
        self.bases[number as usize] = Bases(bases, me);
        Ok(GroupId(number))
    }

    #[inline]
    fn at(&mut self, position: Position) {
        self.hub.ranks[self.rank as usize].position.store(pack(position), Ordering::Relaxed);
    }

    fn send(&mut self, id: LinkId, from: Region) -> Result<(), Interrupted> {
        let hub = &*self.hub;
        let link = &hub.links[id.0 as usize];
        let sequence = link.sent.load(Ordering::Relaxed);
        let message = &link.messages[sequence as usize % link.messages.len()];
        hub.wait(
            || message.state.load(Ordering::Acquire) == EMPTY,
            || hub.late(&[link.to], &format!("receive on channel {} from rank {}", link.channel, link.from), self.rank),
        )?;
        message.address.store(from.address, Ordering::Relaxed);
        message.bytes.store(from.bytes, Ordering::Relaxed);
        message.staged.store(false, Ordering::Relaxed);
        link.sent.store(sequence + 1, Ordering::Relaxed);
        message.state.store(POSTED, Ordering::SeqCst);
        self.outstanding.push(Outstanding { link: id.0, sequence, region: from });
        hub.wake(link.to);
        Ok(())
    }

    fn receive(&mut self, id: LinkId, to: Region) -> Result<(), Interrupted> {
        let hub = &*self.hub;
        let link = &hub.links[id.0 as usize];
        let sequence = link.taken.load(Ordering::Relaxed);
        let message = &link.messages[sequence as usize % link.messages.len()];
        hub.wait(
            || message.state.compare_exchange(POSTED, TAKING, Ordering::AcqRel, Ordering::Acquire).is_ok(),
            || hub.late(&[link.from], &format!("send on channel {} to rank {}", link.channel, link.to), self.rank),
        )?;
        let bytes = message.bytes.load(Ordering::Relaxed).min(to.bytes);
        // SAFETY: `TAKING` gives this thread the message, whose bytes the sender leaves alone until it is taken; `to` is this rank's own.
        unsafe { std::ptr::copy_nonoverlapping(message.address.load(Ordering::Relaxed), to.address, bytes) };
        if message.staged.load(Ordering::Relaxed) {
            link.occupied.store(false, Ordering::Release);
        }
        message.state.store(EMPTY, Ordering::Release);
        link.taken.store(sequence + 1, Ordering::SeqCst);
        hub.wake(link.from);
        Ok(())
    }

    fn settle(&mut self, region: Region) -> Result<(), Interrupted> {
        let (start, end) = (region.address as usize, region.address as usize + region.bytes);
        let mut i = 0;
        while i < self.outstanding.len() {
            let o = self.outstanding[i];
            if (o.region.address as usize) < end && start < o.region.address as usize + o.region.bytes {
                self.release(&o)?;
                self.outstanding.swap_remove(i);
            } else {
                i += 1;
            }
        }
        Ok(())
    }

    fn collective(&mut self, id: GroupId, collective: &Collective, microbatch: u32) -> Result<(), Interrupted> {
        let hub = &*self.hub;
        let group = &hub.groups[id.0 as usize];
        let Bases(bases, me) = &self.bases[id.0 as usize];
        hub.barrier(group, self.rank, &collective.label)?;
        // SAFETY: all members have arrived and none leaves before all have done their share.
        unsafe { collective.work(bases, *me, microbatch) };
        hub.barrier(group, self.rank, &collective.label)
    }

    fn finish(&mut self) -> Result<(), Interrupted> {
        let hub = &*self.hub;
        for o in self.outstanding.drain(..) {
            let link = &hub.links[o.link as usize];
            hub.wait(
                || link.taken.load(Ordering::SeqCst) > o.sequence,
                || hub.late(&[link.to], &format!("receive on channel {} from rank {}", link.channel, link.from), self.rank),
            )?;
        }
        // Staged messages are no longer listed, and must be taken too before the step counts as done.
        for link in hub.links.iter().filter(|l| l.from == self.rank) {
            hub.wait(
                || link.taken.load(Ordering::SeqCst) == link.sent.load(Ordering::Relaxed),
                || hub.late(&[link.to], &format!("receive on channel {} from rank {}", link.channel, link.from), self.rank),
            )?;
        }
        hub.ranks[self.rank as usize].position.store(IDLE, Ordering::Relaxed);
        Ok(())
    }

    fn fail(&mut self, reason: Diagnostic) {
        self.hub.fail(reason);
    }

    fn staging_bytes(&self) -> usize {
        self.hub.links.iter().filter(|l| l.from == self.rank).map(|l| l.staging_bytes).sum()
    }
}
