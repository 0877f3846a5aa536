//! The transport between threads of this process.
//!
//! A [`Hub`] is shared by all ranks. A message is a descriptor of where it lies in the sender's arena: the receiver copies it from there when it arrives.
//! When the sender is about to overwrite a message that was not taken yet it first moves it to a staging block of the link, or waits when all are occupied;
//! [`waiting`](super::waiting) says how many blocks a link has, so that ranks never wait for one another in a circle.
//! Collectives are two barriers: between them every member reads its peers' arenas directly. Waiting threads park: devices may exceed cores.
//!
//! Who may touch what: between `POSTED` and `TAKEN` a message's bytes belong to the link; between the barriers of a collective its buffers belong to the
//! group. All other bytes of an arena belong to its rank.

use super::collective::Collective;
use super::mover::{HostMover, Mark, Mover};
use super::place;
use super::routes::{Route, Routes};
use super::{Fabric, GroupId, Interrupted, LinkId, Parts, Transport};
use crate::device::{Position, Region};
use crate::metrics::waited_for;
use ir::program::Program;
use ir::{Diagnostic, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

const EMPTY: u32 = 0;
const POSTED: u32 = 1;
const MOVING: u32 = 2;
const TAKING: u32 = 3;

/// No staging block.
const NOWHERE: u32 = u32::MAX;

/// How often a condition is looked at before the thread parks, when every rank has a core.
const SPINS: u32 = 1000;

/// A message under way.
#[derive(Debug)]
struct Message {
    state: AtomicU32,
    address: AtomicPtr<u8>,
    bytes: AtomicUsize,
    /// The staging block it lies in, or [`NOWHERE`].
    block: AtomicU32,
    /// When its bytes are there.
    ready: AtomicU64,
    /// When its bytes have been copied away.
    done: AtomicU64,
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
    /// Where messages wait that the sender overwrites before they are taken.
    staging: Box<[Block]>,
    staging_bytes: usize,
}

/// A staging block.
#[derive(Debug)]
struct Block {
    /// Whether it holds a message that was not taken.
    occupied: AtomicBool,
    address: AtomicPtr<u8>,
    bytes: usize,
    /// When what it held was copied away.
    done: AtomicU64,
}

impl Link {
    /// A free staging block; only its sender asks.
    fn free(&self) -> Option<usize> {
        self.staging.iter().position(|b| !b.occupied.load(Ordering::Acquire))
    }
}

#[derive(Debug)]
struct Group {
    ranks: Vec<u32>,
    arrived: AtomicU32,
    generation: AtomicU64,
    /// How many barriers each member has come to, for messages.
    seen: Vec<AtomicU64>,
    /// When each member's buffers are ready for the collective under way, and when its share of it is done.
    marks: Vec<[AtomicU64; 2]>,
}

impl Group {
    /// Tells when member `me` is ready (0) or done (1).
    fn tell(&self, which: usize, me: usize, mark: Mark) {
        self.marks[me][which].store(mark, Ordering::Release);
    }
    /// When the members are; between the same barriers as it was told.
    fn told(&self, which: usize, into: &mut Vec<Mark>) {
        into.clear();
        into.extend(self.marks.iter().map(|m| m[which].load(Ordering::Acquire)));
    }
}

#[derive(Debug, Default)]
struct RankState {
    thread: OnceLock<Thread>,
    base: AtomicPtr<u8>,
    position: AtomicU64,
}

/// What the ranks of a process share.
pub struct Hub {
    mover: Arc<dyn Mover>,
    programs: Arc<[Program]>,
    timeout: Duration,
    spins: u32,
    ranks: Vec<RankState>,
    links: Vec<Link>,
    groups: Vec<Group>,
    routes: Routes,
    poisoned: AtomicBool,
    failure: Mutex<Option<Diagnostic>>,
}

impl Hub {
    /// A hub for all ranks of some programs, whose step runs `microbatches` in the order of `schedule`.
    ///
    /// # Errors
    /// `E0602` when a send has no receive or the other way round.
    pub fn new(programs: Arc<[Program]>, schedule: ir::program::ScheduleKind, microbatches: u32, timeout: Duration) -> Result<Arc<Hub>> {
        Hub::with(programs, schedule, microbatches, timeout, Arc::new(HostMover::default()))
    }

    /// The same for arenas that `mover` moves bytes between.
    ///
    /// # Errors
    /// As [`Hub::new`], and when there is no memory for messages that wait.
    pub fn with(
        programs: Arc<[Program]>,
        schedule: ir::program::ScheduleKind,
        microbatches: u32,
        timeout: Duration,
        mover: Arc<dyn Mover>,
    ) -> Result<Arc<Hub>> {
        let routes = Routes::of(&programs, schedule, microbatches)?;
        let total: u32 = programs.iter().map(|p| p.mesh.devices()).sum();
        let links = routes
            .links
            .iter()
            .map(|&Route { from, to, channel, messages, bytes, waiting }| {
                let block = |_| {
                    let address = AtomicPtr::new(mover.staging(from, bytes)?);
                    Ok(Block { occupied: AtomicBool::new(false), address, bytes, done: AtomicU64::new(0) })
                };
                let blocks = (0..waiting).map(block).collect::<Result<_, Diagnostic>>()?;
                let message = |_| Message {
                    state: AtomicU32::new(EMPTY),
                    address: AtomicPtr::default(),
                    bytes: AtomicUsize::new(0),
                    block: AtomicU32::new(NOWHERE),
                    ready: AtomicU64::new(0),
                    done: AtomicU64::new(0),
                };
                Ok(Link {
                    from,
                    to,
                    channel,
                    messages: (0..messages.max(1)).map(message).collect(),
                    sent: AtomicU64::new(0),
                    taken: AtomicU64::new(0),
                    staging: blocks,
                    staging_bytes: bytes * waiting,
                })
            })
            .collect::<Result<Vec<Link>, Diagnostic>>()?;
        let group = |ranks: &Vec<u32>| Group {
            ranks: ranks.clone(),
            arrived: AtomicU32::new(0),
            generation: AtomicU64::new(0),
            seen: ranks.iter().map(|_| AtomicU64::new(0)).collect(),
            marks: ranks.iter().map(|_| Default::default()).collect(),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Arc::new(Hub {
            mover,
            timeout,
            spins: if total as usize <= cores { SPINS } else { 0 },
            ranks: (0..total).map(|_| RankState { position: AtomicU64::new(place::IDLE), ..RankState::default() }).collect(),
            links,
            groups: routes.groups.iter().map(group).collect(),
            routes,
            poisoned: AtomicBool::new(false),
            failure: Mutex::new(None),
            programs,
        }))
    }
    /// Whether a rank is at a communication.
    fn waits(&self, rank: u32) -> bool {
        place::communicates(&self.programs, rank, place::unpack(self.ranks[rank as usize].position.load(Ordering::Relaxed)))
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
                waited_for(begun.elapsed());
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

impl Fabric for Hub {
    fn ranks(&self) -> Range<u32> {
        0..self.ranks.len() as u32
    }
    fn transport(self: Arc<Hub>, rank: u32) -> Box<dyn Transport> {
        let outstanding = self.links.iter().filter(|l| l.from == rank).map(|l| l.messages.len()).sum();
        Box::new(LocalTransport { hub: self, rank, outstanding: Vec::with_capacity(outstanding), bases: Vec::new(), marks: Vec::new() })
    }
    fn fail(&self, reason: Diagnostic) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.poisoned.store(true, Ordering::SeqCst);
        for r in 0..self.ranks.len() {
            self.wake(r as u32);
        }
    }
    fn failure(&self) -> Option<Diagnostic> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    fn whereabouts(&self, rank: u32) -> String {
        place::whereabouts(&self.programs, rank, place::unpack(self.ranks[rank as usize].position.load(Ordering::Relaxed)))
    }
    fn gather(&self, parts: Vec<(u32, Parts)>) -> Result<Vec<(u32, Parts)>, Interrupted> {
        Ok(parts)
    }
    fn share(&self, given: Vec<u8>) -> Result<Vec<u8>, Interrupted> {
        Ok(given)
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
pub struct LocalTransport {
    hub: Arc<Hub>,
    rank: u32,
    outstanding: Vec<Outstanding>,
    /// For every group that was resolved, the arenas of its members.
    bases: Vec<Bases>,
    /// The members' marks of the collective under way.
    marks: Vec<Mark>,
}

fn here(d: Diagnostic) -> Interrupted {
    Interrupted::Here(Box::new(d))
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
        let stageable = || link.free().is_some() && message.state.load(Ordering::Acquire) == POSTED;
        loop {
            if taken() {
                return hub.mover.after(self.rank, message.done.load(Ordering::Acquire), o.region).map_err(here);
            }
            if let Some(free) = link.free()
                && message.state.compare_exchange(POSTED, MOVING, Ordering::AcqRel, Ordering::Acquire).is_ok()
            {
                let block = &link.staging[free];
                let staging = Region { address: block.address.load(Ordering::Relaxed), bytes: block.bytes };
                // SAFETY: `MOVING` gives this thread the message; the staging block is free and as long as a message of this link.
                let moved = unsafe { hub.mover.copy(self.rank, block.done.load(Ordering::Acquire), o.region, staging) }.map_err(here)?;
                hub.mover.after(self.rank, moved, o.region).map_err(here)?;
                message.ready.store(moved, Ordering::Relaxed);
                block.occupied.store(true, Ordering::Relaxed);
                message.block.store(free as u32, Ordering::Relaxed);
                message.address.store(staging.address, Ordering::Relaxed);
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
        let (from, to) = if sending { (self.rank, peer) } else { (peer, self.rank) };
        self.hub.routes.link(from, to, channel)
    }

    fn group(&mut self, ranks: &[u32]) -> Result<GroupId, Diagnostic> {
        let (id, me) = self.hub.routes.group(ranks, self.rank)?;
        let number = id.0;
        let bases = ranks.iter().map(|r| self.hub.ranks[*r as usize].base.load(Ordering::SeqCst)).collect();
        while self.bases.len() <= number as usize {
            self.bases.push(Bases(Vec::new(), 0));
        }
        self.bases[number as usize] = Bases(bases, me);
        Ok(id)
    }

    #[inline]
    fn at(&mut self, position: Position) {
        self.hub.ranks[self.rank as usize].position.store(place::pack(position), Ordering::Relaxed);
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
        message.block.store(NOWHERE, Ordering::Relaxed);
        message.ready.store(hub.mover.mark(self.rank).map_err(here)?, Ordering::Relaxed);
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
        let from = Region { address: message.address.load(Ordering::Relaxed), bytes };
        // SAFETY: `TAKING` gives this thread the message, whose bytes the sender leaves alone until it is taken; `to` is this rank's own.
        let done = unsafe { hub.mover.copy(self.rank, message.ready.load(Ordering::Relaxed), from, Region { bytes, ..to }) }.map_err(here)?;
        hub.mover.after(self.rank, done, to).map_err(here)?;
        message.done.store(done, Ordering::Release);
        if let Some(block) = link.staging.get(message.block.load(Ordering::Relaxed) as usize) {
            block.done.store(done, Ordering::Relaxed);
            block.occupied.store(false, Ordering::Release);
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
        group.tell(0, *me, hub.mover.mark(self.rank).map_err(here)?);
        hub.barrier(group, self.rank, &collective.label)?;
        group.told(0, &mut self.marks);
        // SAFETY: all members have arrived and none leaves before all have begun their share.
        let done = unsafe { hub.mover.collective(self.rank, collective, bases, *me, microbatch, &self.marks) }.map_err(here)?;
        group.tell(1, *me, done);
        hub.barrier(group, self.rank, &collective.label)?;
        group.told(1, &mut self.marks);
        hub.mover.after_collective(self.rank, collective, microbatch, &self.marks).map_err(here)
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
        hub.mover.finish(self.rank).map_err(here)?;
        hub.ranks[self.rank as usize].position.store(place::IDLE, Ordering::Relaxed);
        Ok(())
    }

    fn fail(&mut self, reason: Diagnostic) {
        self.hub.fail(reason);
    }

    fn staging_bytes(&self) -> usize {
        self.hub.links.iter().filter(|l| l.from == self.rank).map(|l| l.staging_bytes).sum()
    }
}
