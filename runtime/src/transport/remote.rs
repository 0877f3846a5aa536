//! The transport between ranks of several processes.
//!
//! A message goes to the receiver's mailbox when it is sent, whether or not it is waited for: what was sent has left the arena, so nothing is ever outstanding.
//! How many wait there is bounded by the schedule, since a stage runs ahead of another only as far as its own messages let it. What carries bytes between
//! processes is a [`Carrier`]; ranks of the same process put messages into each other's mailboxes.
//!
//! A collective has the arithmetic of the local one, element by element in the order of members, so results are the same bit for bit: each member is given the
//! pieces that are its share, combines them, and of an all-reduce gives its share to all.

use super::collective::Collective;
use super::routes::Routes;
use super::{Fabric, GroupId, Interrupted, LinkId, Parts, Transport, place};
use crate::device::{Position, Region};
use crate::processes::control::Control;
use crate::processes::flight::{Record, State};
use crate::processes::wire::LOOK;
use crate::worker::program_of;
use ir::program::{Phase, Program, ScheduleKind};
use ir::{Diagnostic, Result};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What goes before the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The rank it is for.
    pub to: u32,
    /// The rank that sends it.
    pub from: u32,
    /// The link or group it belongs to.
    pub lane: u64,
    /// Bytes that follow.
    pub bytes: u64,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 24;
    /// As bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.to.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.from.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.lane.to_le_bytes());
        bytes[16..].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }
    /// From bytes.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Header {
        let word = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().expect("invariant: four bytes"));
        let long = |i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("invariant: eight bytes"));
        Header { to: word(0), from: word(4), lane: long(8), bytes: long(16) }
    }
}

/// Carries messages to other processes.
pub trait Carrier: Send + Sync {
    /// Sends a message; returns when its bytes may change. Where that takes long, `go_on` is asked again and again.
    ///
    /// # Errors
    /// Why it cannot, in words.
    fn send(&self, process: u32, header: Header, bytes: &[u8], go_on: &mut dyn FnMut() -> bool) -> std::result::Result<(), String>;
    /// Ends receiving; called once, when nothing more is to be sent or received.
    fn close(&self);
}

/// Lanes of links are their numbers; of groups these are added.
const GROUP: u64 = 1 << 32;
const SPREAD: u64 = 2 << 32;

#[derive(Debug, Default)]
struct Mailbox {
    waiting: Mutex<BTreeMap<(u32, u64), VecDeque<Vec<u8>>>>,
    came: Condvar,
}

/// What is received: mailboxes of this process's ranks, filled by carriers.
#[derive(Debug)]
pub struct Mail {
    ranks: Range<u32>,
    boxes: Vec<Mailbox>,
    /// Buffers that were read, to be filled again.
    pool: Mutex<Vec<Vec<u8>>>,
    limit: u64,
    control: Arc<Control>,
    /// By process, whether its data connection has ended.
    gone: Vec<AtomicBool>,
}

impl Mail {
    /// A buffer for a message of `process`, or why that is no message.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn buffer(&self, process: u32, header: Header) -> std::result::Result<Vec<u8>, String> {
        let (to, from) = (self.ranks.contains(&header.to), self.control.place().ranks_of(process).contains(&header.from));
        if !to || !from || header.bytes > self.limit {
            return Err(format!("a message of {} bytes from rank {} to rank {}", header.bytes, header.from, header.to));
        }
        let mut buffer = self.pool.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        buffer.clear();
        buffer.resize(header.bytes as usize, 0);
        Ok(buffer)
    }
    /// Puts a message into its mailbox.
    pub fn deliver(&self, header: Header, bytes: Vec<u8>) {
        let Some(mailbox) = header.to.checked_sub(self.ranks.start).and_then(|i| self.boxes.get(i as usize)) else { return };
        mailbox.waiting.lock().unwrap_or_else(PoisonError::into_inner).entry((header.from, header.lane)).or_default().push_back(bytes);
        mailbox.came.notify_all();
    }
    /// Notes that nothing more will come from a process.
    pub fn ended(&self, process: u32) {
        self.gone[process as usize].store(true, Ordering::SeqCst);
        self.wake();
    }
    /// The control channel.
    pub fn control(&self) -> &Control {
        &self.control
    }
    fn wake(&self) {
        for b in &self.boxes {
            b.came.notify_all();
        }
    }
    fn give_back(&self, buffer: Vec<u8>) {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.len() < 64 {
            pool.push(buffer);
        }
    }
}

/// The ranks of one process among several.
pub struct Remote {
    programs: Arc<[Program]>,
    routes: Routes,
    mail: Arc<Mail>,
    control: Arc<Control>,
    carrier: Box<dyn Carrier>,
    timeout: Duration,
    records: Option<PathBuf>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("place", self.control.place()).finish_non_exhaustive()
    }
}

impl Remote {
    /// The fabric of the ranks that `control`'s process has, with flight records in a folder; `carry` makes what carries messages.
    ///
    /// # Errors
    /// `E0602` when programs contradict one another, and what the carrier refuses.
    pub fn new(
        programs: Arc<[Program]>,
        schedule: ScheduleKind,
        microbatches: u32,
        control: Arc<Control>,
        timeout: Duration,
        records: Option<PathBuf>,
        carry: impl FnOnce(&Arc<Mail>) -> Result<Box<dyn Carrier>>,
    ) -> Result<Arc<Remote>> {
        let routes = Routes::of(&programs, schedule, microbatches)?;
        let ranks = control.place().own();
        let mail = Arc::new(Mail {
            boxes: ranks.clone().map(|_| Mailbox::default()).collect(),
            ranks,
            pool: Mutex::default(),
            limit: programs.iter().map(|p| p.arena.0).max().unwrap_or(0),
            gone: (0..control.place().processes).map(|_| AtomicBool::new(false)).collect(),
            control: control.clone(),
        });
        let waking = Arc::downgrade(&mail);
        control.on_failure(Box::new(move || {
            if let Some(mail) = waking.upgrade() {
                mail.wake();
            }
        }));
        let carrier = carry(&mail)?;
        Ok(Arc::new(Remote { programs, routes, mail, control, carrier, timeout, records }))
    }
    /// The processes that one exchanges data with.
    ///
    /// # Errors
    /// `E0602` when programs contradict one another.
    pub fn partners(programs: &[Program], schedule: ScheduleKind, microbatches: u32, of: &crate::processes::Place) -> Result<Vec<u32>> {
        let routes = Routes::of(programs, schedule, microbatches)?;
        let mut partners: Vec<u32> = of.own().flat_map(|r| routes.neighbours(r)).map(|r| of.process_of(r)).filter(|p| *p != of.process).collect();
        partners.sort_unstable();
        partners.dedup();
        Ok(partners)
    }
    /// Ends the run as it should: when every process has done its part. The session must have ended.
    pub fn close(&self) {
        self.control.close();
        self.carrier.close();
    }
    /// Ends a run that failed: when everybody was told.
    pub fn abandon(&self) {
        self.control.stop();
        self.carrier.close();
    }
    /// The control channel.
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }
}

impl Fabric for Remote {
    fn ranks(&self) -> Range<u32> {
        self.control.place().own()
    }
    fn transport(self: Arc<Remote>, rank: u32) -> Box<dyn Transport> {
        let communicates = program_of(&self.programs, rank).map_or_else(Default::default, |(program, _)| {
            Phase::ALL.map(|phase| program.phase(phase).iter().map(|i| place::is_communication(&i.kind)).collect::<Vec<bool>>())
        });
        Box::new(RemoteTransport {
            communicates,
            fabric: self,
            rank,
            arena: None,
            word: place::IDLE,
            communications: 0,
            steps: 0,
            record: None,
            groups: BTreeMap::new(),
            packed: Vec::new(),
            combined: Vec::new(),
        })
    }
    fn fail(&self, reason: Diagnostic) {
        self.control.fail(reason, &[]);
    }
    fn failure(&self) -> Option<Diagnostic> {
        self.control.failure()
    }
    fn whereabouts(&self, rank: u32) -> String {
        self.control.whereabouts(rank)
    }
    fn gather(&self, parts: Vec<(u32, Parts)>) -> Result<Vec<(u32, Parts)>, Interrupted> {
        self.control.gather(parts)
    }
    fn share(&self, given: Vec<u8>) -> Result<Vec<u8>, Interrupted> {
        self.control.share(given)
    }
}

/// One rank's end.
pub struct RemoteTransport {
    fabric: Arc<Remote>,
    rank: u32,
    arena: Option<Region>,
    /// For every phase which instructions are communications.
    communicates: [Vec<bool>; 4],
    word: u64,
    communications: u64,
    steps: u64,
    record: Option<Record>,
    /// The ranks of every group that was resolved, and this one's place.
    groups: BTreeMap<u32, (Vec<u32>, usize)>,
    packed: Vec<u8>,
    combined: Vec<u8>,
}

impl RemoteTransport {
    fn send_to(&self, to: u32, lane: u64, bytes: &[u8], what: &dyn Fn() -> String) -> Result<(), Interrupted> {
        let (fabric, control) = (&*self.fabric, &*self.fabric.control);
        let header = Header { to, from: self.rank, lane, bytes: bytes.len() as u64 };
        let process = control.place().process_of(to);
        if process == control.place().process {
            let buffer = fabric.mail.buffer(process, header).map(|mut b| {
                b.copy_from_slice(bytes);
                b
            });
            let buffer = buffer.map_err(|why| Interrupted::Here(Box::new(Diagnostic::outcome("E0681", why))))?;
            fabric.mail.deliver(header, buffer);
            return Ok(());
        }
        let begun = Instant::now();
        let sent = fabric.carrier.send(process, header, bytes, &mut || !control.has_failed() && begun.elapsed() < fabric.timeout);
        sent.map_err(|why| {
            if begun.elapsed() >= fabric.timeout {
                return self.late(to, &what());
            }
            self.broken(to, &why)
        })
    }

    fn take_from(&self, from: u32, lane: u64, bytes: usize, what: &dyn Fn() -> String) -> Result<Vec<u8>, Interrupted> {
        let (fabric, control) = (&*self.fabric, &*self.fabric.control);
        let mailbox = &fabric.mail.boxes[(self.rank - fabric.mail.ranks.start) as usize];
        let process = control.place().process_of(from);
        let begun = Instant::now();
        let mut waiting = mailbox.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let message = loop {
            if let Some(message) = waiting.get_mut(&(from, lane)).and_then(VecDeque::pop_front) {
                break message;
            }
            if control.has_failed() {
                return Err(Interrupted::Elsewhere);
            }
            if begun.elapsed() >= fabric.timeout {
                drop(waiting);
                return Err(self.late(from, &what()));
            }
            if fabric.mail.gone[process as usize].load(Ordering::SeqCst) {
                drop(waiting);
                return Err(self.broken(from, "it ended"));
            }
            waiting = mailbox.came.wait_timeout(waiting, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(waiting);
        if message.len() != bytes {
            let what = format!("rank {} expected {bytes} bytes of rank {from} for the {}, and {} came", self.rank, what(), message.len());
            return Err(Interrupted::Here(Box::new(Diagnostic::outcome("E0681", what).with_help("start all ranks with the same program and the same plan"))));
        }
        Ok(message)
    }

    /// A rank did not come in time: said with where it is, which rank 0's process knows.
    fn late(&self, missing: u32, what: &str) -> Interrupted {
        let d = Diagnostic::outcome("E0611", format!("rank {missing} did not come to the {what} within {} s", self.fabric.timeout.as_secs_f64()));
        self.fabric.control.fail(d.with_note(format!("rank {} was waiting", self.rank)), &[missing]);
        Interrupted::Elsewhere
    }

    /// A data connection is broken. When its process is lost the control channel says so, within its time; only where it is not, this is the reason.
    fn broken(&self, with: u32, why: &str) -> Interrupted {
        let control = &self.fabric.control;
        let begun = Instant::now();
        while !control.has_failed() && begun.elapsed() < 2 * control.fault_timeout() {
            std::thread::sleep(Duration::from_millis(10));
        }
        if !control.has_failed() {
            let d = Diagnostic::outcome("E0681", format!("the data connection between rank {} and rank {with} is broken: {why}", self.rank));
            control.fail(d.with_note("both are alive: what is between them cut it"), &[with]);
        }
        Interrupted::Elsewhere
    }

    /// The whole arena's first byte.
    fn base(&self) -> *mut u8 {
        self.arena.expect("invariant: a worker attaches its arena first").address
    }

    fn message(&self, id: LinkId) -> (super::routes::Route, String) {
        let route = self.fabric.routes.links[id.0 as usize];
        let (at, peer) = if route.from == self.rank { ("receive", format!("from rank {}", route.from)) } else { ("send", format!("to rank {}", route.to)) };
        (route, format!("{at} on channel {} {peer}", route.channel))
    }
}

impl Transport for RemoteTransport {
    fn attach(&mut self, arena: Region) -> Result<(), Interrupted> {
        self.arena = Some(arena);
        if let Some(folder) = &self.fabric.records
            && let Some((program, _)) = program_of(&self.fabric.programs, self.rank)
        {
            let (control, ranks) = (&self.fabric.control, self.fabric.control.place().ranks);
            let record = Record::create(folder, self.rank, ranks, program, control.origin());
            let mut record = record.map_err(|d| Interrupted::Here(Box::new(d.0.into_iter().next().expect("invariant: an error has a diagnostic"))))?;
            record.at(place::IDLE, 0, 0);
            self.record = Some(record);
        }
        Ok(())
    }
    fn link(&mut self, peer: u32, channel: u32, sending: bool) -> Result<LinkId, Diagnostic> {
        let (from, to) = if sending { (self.rank, peer) } else { (peer, self.rank) };
        self.fabric.routes.link(from, to, channel)
    }
    fn group(&mut self, ranks: &[u32]) -> Result<GroupId, Diagnostic> {
        let (id, me) = self.fabric.routes.group(ranks, self.rank)?;
        self.groups.insert(id.0, (ranks.to_vec(), me));
        Ok(id)
    }
    #[inline]
    fn at(&mut self, position: Position) {
        self.word = place::pack(position);
        self.communications += u64::from(self.communicates[position.phase as usize].get(position.instruction as usize).is_some_and(|c| *c));
        self.fabric.control.board.at(self.rank, self.word, self.communications);
        if let Some(record) = &mut self.record {
            record.at(self.word, self.communications, self.steps);
        }
    }
    fn send(&mut self, id: LinkId, from: Region) -> Result<(), Interrupted> {
        let (route, what) = self.message(id);
        // SAFETY: the region is this rank's own, and this thread is the one that writes there.
        let bytes = unsafe { std::slice::from_raw_parts(from.address, from.bytes) };
        self.send_to(route.to, u64::from(id.0), bytes, &|| what.clone())
    }
    fn receive(&mut self, id: LinkId, to: Region) -> Result<(), Interrupted> {
        let (route, what) = self.message(id);
        let message = self.take_from(route.from, u64::from(id.0), to.bytes, &|| what.clone())?;
        // SAFETY: the region is this rank's own and as long as the message, which is no part of an arena.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), to.address, to.bytes) };
        self.fabric.mail.give_back(message);
        Ok(())
    }
    fn settle(&mut self, _: Region) -> Result<(), Interrupted> {
        // What was sent has left the arena.
        Ok(())
    }
    fn collective(&mut self, id: GroupId, collective: &Collective, microbatch: u32) -> Result<(), Interrupted> {
        let (ranks, me) = self.groups.get(&id.0).cloned().expect("invariant: a group is resolved before it is used");
        let (base, members, lane) = (self.base(), ranks.len(), GROUP | u64::from(id.0));
        let what = || collective.label.clone();
        let (mut packed, mut combined) = (std::mem::take(&mut self.packed), std::mem::take(&mut self.combined));
        // Everybody begins with another peer, so that no one is everybody's first.
        let peers = || (1..members).map(|i| (me + i) % members);
        for peer in peers() {
            packed.clear();
            // SAFETY: the arena is this rank's own and was the one the collective was prepared for; nobody else writes there.
            unsafe { collective.pack(base, members, peer, microbatch, &mut packed) };
            self.send_to(ranks[peer], lane, &packed, &what)?;
        }
        packed.clear();
        // SAFETY: as above.
        unsafe { collective.pack(base, members, me, microbatch, &mut packed) };
        let expected = packed.len();
        debug_assert_eq!(expected, collective.given_bytes(members, me));
        if collective.combines() {
            let mut given: Vec<Vec<u8>> = vec![Vec::new(); members];
            for peer in peers() {
                given[peer] = self.take_from(ranks[peer], lane, expected, &what)?;
            }
            let slices: Vec<&[u8]> = given.iter().enumerate().map(|(i, g)| if i == me { packed.as_slice() } else { g.as_slice() }).collect();
            combined.clear();
            collective.combine_packed(&slices, &mut combined);
            for buffer in given {
                self.fabric.mail.give_back(buffer);
            }
            // SAFETY: as above; what others need of the output's memory was sent before.
            unsafe { collective.unpack(base, members, me, microbatch, &combined) };
            if collective.spreads() {
                let lane = SPREAD | u64::from(id.0);
                for peer in peers() {
                    self.send_to(ranks[peer], lane, &combined, &what)?;
                }
                for peer in peers() {
                    let share = self.take_from(ranks[peer], lane, collective.taken_bytes(members, peer), &what)?;
                    // SAFETY: as above.
                    unsafe { collective.unpack(base, members, peer, microbatch, &share) };
                    self.fabric.mail.give_back(share);
                }
            }
        } else {
            // SAFETY: as above.
            unsafe { collective.unpack(base, members, me, microbatch, &packed) };
            for peer in peers() {
                let piece = self.take_from(ranks[peer], lane, collective.taken_bytes(members, peer), &what)?;
                // SAFETY: as above.
                unsafe { collective.unpack(base, members, peer, microbatch, &piece) };
                self.fabric.mail.give_back(piece);
            }
        }
        (self.packed, self.combined) = (packed, combined);
        Ok(())
    }
    fn finish(&mut self) -> Result<(), Interrupted> {
        self.steps += 1;
        (self.word, self.communications) = (place::IDLE, 0);
        let board = &self.fabric.control.board;
        board.at(self.rank, self.word, 0);
        board.ended(self.rank, self.steps);
        if let Some(record) = &mut self.record {
            record.at(self.word, 0, self.steps);
        }
        Ok(())
    }
    fn fail(&mut self, reason: Diagnostic) {
        self.fabric.control.fail(reason, &[]);
    }
    fn staging_bytes(&self) -> usize {
        // Of each link at most the messages of a step wait in the receiver's mailbox.
        self.fabric.routes.links.iter().filter(|l| l.to == self.rank).map(|l| l.bytes * (l.waiting + 1)).sum()
    }
}

impl Drop for RemoteTransport {
    fn drop(&mut self) {
        if let Some(record) = &self.record {
            record.end(if self.fabric.control.has_failed() { State::Stopped } else { State::Done });
        }
    }
}
