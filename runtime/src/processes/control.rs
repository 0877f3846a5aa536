//! The control channel: who is alive, where they are, and why the run ends.
//!
//! Rank 0's process has a connection with every other, with a thread that reads it; one more thread sends a beat on all of them several times within the time
//! after which a silent process counts as lost. A beat says where the sender's ranks are. What ends a run is told to rank 0's process, which decides the
//! reason and tells everybody; a process that hears nothing of rank 0 decides for itself. What ranks give to rank 0 goes the same way, in the order of calls.
//!
//! A message is its length, a tag and its bytes. While one is long under way, its bytes are the sign of life.

use super::Place;
use super::flight;
use super::wire::{LOOK, read_while, write_while};
use crate::transport::{Interrupted, Parts, place};
use ir::Diagnostic;
use ir::program::Program;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where every rank is, as far as this process knows.
#[derive(Debug)]
pub struct Board {
    places: Vec<AtomicU64>,
    /// How many communications each has come to, from 1.
    communications: Vec<AtomicU64>,
    steps: Vec<AtomicU64>,
}

impl Board {
    fn new(ranks: u32) -> Board {
        let words = |word: u64| (0..ranks).map(|_| AtomicU64::new(word)).collect();
        Board { places: words(place::IDLE), communications: words(0), steps: words(0) }
    }
    /// Notes where a rank is.
    #[inline]
    pub fn at(&self, rank: u32, word: u64, communications: u64) {
        self.places[rank as usize].store(word, Ordering::Relaxed);
        self.communications[rank as usize].store(communications, Ordering::Relaxed);
    }
    /// Notes how many steps a rank has ended.
    pub fn ended(&self, rank: u32, steps: u64) {
        self.steps[rank as usize].store(steps, Ordering::Relaxed);
    }
    /// A rank's place, and its number of communications and of steps.
    pub fn of(&self, rank: u32) -> (u64, u64, u64) {
        let read = |list: &[AtomicU64]| list[rank as usize].load(Ordering::Relaxed);
        (read(&self.places), read(&self.communications), read(&self.steps))
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// Alive, with a place per rank of the sender.
    Beat(Vec<(u64, u64, u64)>),
    /// A rank of the sender cannot go on.
    Fail(Diagnostic, Vec<u32>),
    /// Why the run ends.
    Verdict(Diagnostic),
    /// What ranks give to rank 0.
    Given(Vec<(u32, Parts)>),
    /// What rank 0 tells.
    Told(Vec<u8>),
    /// The sender has done all it was to do.
    Done,
}

#[derive(Debug, Default)]
struct Peer {
    writing: Mutex<Option<TcpStream>>,
    done: AtomicBool,
    /// Milliseconds after the start when it was last heard.
    heard: AtomicU64,
    inbox: Mutex<Inbox>,
}

#[derive(Debug, Default)]
struct Inbox {
    given: std::collections::VecDeque<Vec<(u32, Parts)>>,
    told: std::collections::VecDeque<Vec<u8>>,
}

/// How a run watches over its processes.
#[derive(Clone, Debug)]
pub struct Watch {
    /// How long a process may be silent.
    pub fault_timeout: Duration,
    /// Where flight records are, if they are kept.
    pub records: Option<PathBuf>,
}

/// The control channel of one process.
pub struct Control {
    place: Place,
    programs: Arc<[Program]>,
    watch: Watch,
    origin: Instant,
    peers: Vec<Peer>,
    /// Where ranks are.
    pub board: Board,
    failed: AtomicBool,
    /// The reason came from rank 0's process.
    told: AtomicBool,
    failure: Mutex<Option<Diagnostic>>,
    changed: Condvar,
    closing: AtomicBool,
    /// There is little time left to say anything.
    hurried: AtomicBool,
    /// The first loss is being looked into.
    deciding: AtomicBool,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    /// Wakes whoever waits for data.
    wake: Mutex<Vec<Box<dyn Fn() + Send>>>,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("place", &self.place).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often a beat is sent.
fn interval(fault_timeout: Duration) -> Duration {
    (fault_timeout / 8).clamp(Duration::from_millis(20), Duration::from_millis(500))
}

impl Control {
    /// Begins to watch over `channels`, by process.
    ///
    /// # Errors
    /// `E0608` when there is no thread.
    pub fn start(place: Place, programs: Arc<[Program]>, channels: Vec<Option<TcpStream>>, watch: Watch) -> Result<Arc<Control>, Diagnostic> {
        let mut readers = Vec::new();
        let mut peers = Vec::new();
        let broken = |e: io::Error| Diagnostic::outcome("E0681", format!("a control channel cannot be set up: {e}"));
        for (p, stream) in channels.into_iter().enumerate() {
            let mut peer = Peer::default();
            if let Some(stream) = stream {
                // A time-out belongs to the socket and not to the handle.
                stream.set_read_timeout(Some(LOOK)).and_then(|()| stream.set_write_timeout(Some(LOOK))).map_err(broken)?;
                readers.push((p, stream.try_clone().map_err(broken)?));
                peer.writing = Mutex::new(Some(stream));
            }
            peers.push(peer);
        }
        let control = Arc::new(Control {
            board: Board::new(place.ranks),
            place,
            programs,
            watch,
            origin: Instant::now(),
            peers,
            failed: AtomicBool::new(false),
            told: AtomicBool::new(false),
            failure: Mutex::new(None),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
            hurried: AtomicBool::new(false),
            deciding: AtomicBool::new(false),
            threads: Mutex::default(),
            wake: Mutex::default(),
        });
        let spawn = |name: String, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name).spawn(work);
            thread.map_err(|e| Diagnostic::outcome("E0608", format!("a thread for the control channel cannot be started: {e}")))
        };
        let mut threads = Vec::new();
        for (p, stream) in readers {
            let control = control.clone();
            threads.push(spawn(format!("control {p}"), Box::new(move || control.read(p as u32, stream)))?);
        }
        let beating = control.clone();
        threads.push(spawn("heartbeat".into(), Box::new(move || beating.beat()))?);
        *lock(&control.threads) = threads;
        Ok(control)
    }

    /// This process's share.
    pub fn place(&self) -> &Place {
        &self.place
    }
    /// When the processes had all joined.
    pub fn origin(&self) -> Instant {
        self.origin
    }
    /// Whether the run has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
    /// Whether rank 0's process said why the run failed.
    pub fn was_told(&self) -> bool {
        self.told.load(Ordering::SeqCst)
    }
    /// Why.
    pub fn failure(&self) -> Option<Diagnostic> {
        lock(&self.failure).clone()
    }
    /// Calls `wake` when the run fails.
    pub fn on_failure(&self, wake: Box<dyn Fn() + Send>) {
        lock(&self.wake).push(wake);
    }
    /// How long a silent process is borne.
    pub fn fault_timeout(&self) -> Duration {
        self.watch.fault_timeout
    }

    fn now(&self) -> u64 {
        self.origin.elapsed().as_millis() as u64
    }

    /// Ends the run in this process.
    fn end(&self, reason: Diagnostic) {
        let mut failure = lock(&self.failure);
        if failure.is_none() {
            *failure = Some(reason);
        }
        drop(failure);
        self.failed.store(true, Ordering::SeqCst);
        self.changed.notify_all();
        for wake in lock(&self.wake).iter() {
            wake();
        }
    }

    /// Ends the run for all, with this as the reason unless there is one already. In a process other than rank 0's, rank 0 decides, if it is there.
    /// `missing` are ranks whose whereabouts belong to it.
    pub fn fail(&self, reason: Diagnostic, missing: &[u32]) {
        if self.has_failed() {
            return;
        }
        if self.place.process == 0 {
            self.decide_first(reason, missing);
            return;
        }
        let told = self.send(0, &Message::Fail(reason.clone(), missing.to_vec()));
        // Rank 0's answer is the verdict; should it not come, the reason is this one.
        let begun = Instant::now();
        while told.is_ok() && !self.has_failed() && begun.elapsed() < self.watch.fault_timeout.min(Duration::from_secs(5)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.end(reason);
    }

    /// What is known is to be said now: whoever started this process will soon end it by force.
    pub fn hurry(&self) {
        self.hurried.store(true, Ordering::SeqCst);
    }

    /// The first reason counts.
    fn decide_first(&self, mut reason: Diagnostic, missing: &[u32]) {
        if !self.deciding.swap(true, Ordering::SeqCst) {
            for &rank in missing.iter().filter(|r| **r < self.place.ranks) {
                reason = reason.with_note(self.whereabouts(rank));
            }
            self.decide(reason);
        }
    }

    /// Tells everybody why the run ends, and ends it here.
    fn decide(&self, reason: Diagnostic) {
        let message = Message::Verdict(reason.clone());
        for p in 1..self.place.processes {
            // Who cannot be told sees that this process ends.
            let _ = self.send(p, &message);
        }
        self.end(reason);
    }

    /// A process is lost: finds out where it was and who waited, and ends the run.
    fn lost(&self, process: u32, how: &str) {
        if self.closing.load(Ordering::SeqCst) || self.has_failed() || self.deciding.swap(true, Ordering::SeqCst) {
            return;
        }
        // The others come to where they wait, and say so with their next beats.
        let settling = Instant::now();
        let over = || self.closing.load(Ordering::SeqCst) || self.hurried.load(Ordering::SeqCst);
        while settling.elapsed() < 2 * interval(self.watch.fault_timeout) && !over() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let code = if self.place.process == 0 { "E0680" } else { "E0683" };
        let mut d = Diagnostic::outcome(code, format!("{} {how}", self.place.named(process)));
        for rank in self.place.ranks_of(process) {
            d = d.with_note(self.whereabouts(rank));
        }
        if self.place.process != 0 {
            d = d.with_note("what the others did is not known here: it was rank 0's to tell");
            self.end(d.with_help("`shardwright flight DIR` reads the ranks' records"));
            return;
        }
        let others: Vec<u32> = (0..self.place.ranks).filter(|r| self.place.process_of(*r) != process).collect();
        let (waiting, busy): (Vec<u32>, Vec<u32>) = others.iter().partition(|r| place::communicates(&self.programs, **r, place::unpack(self.board.of(**r).0)));
        for (ranks, what) in [(waiting, "was waiting"), (busy, "was not waiting")] {
            for rank in ranks.iter().take(8) {
                d = d.with_note(format!("{what}: {}", self.whereabouts(*rank)));
            }
            if ranks.len() > 8 {
                d = d.with_note(format!("{what}: {} more ranks", ranks.len() - 8));
            }
        }
        d = d.with_help(match &self.watch.records {
            Some(folder) => format!("`shardwright flight {}` shows the ranks' records", folder.display()),
            None => "with `--log-dir DIR` ranks keep flight records, which say more; `--resume` continues from a checkpoint".into(),
        });
        self.decide(d);
    }

    /// Where a rank is, in words: as its flight record says where that can be read, for it is newer than its last beat.
    pub fn whereabouts(&self, rank: u32) -> String {
        let (mut word, mut number, mut steps) = self.board.of(rank);
        let mut recorded = self.place.own().contains(&rank);
        if !self.place.own().contains(&rank)
            && let Some(folder) = &self.watch.records
            && let Some(last) = flight::last(folder, rank)
            && (last.step, last.number) >= (steps, number)
        {
            (word, number, steps) = (last.word, last.number, last.step);
            recorded = true;
        }
        let at = place::unpack(word);
        let text = place::whereabouts(&self.programs, rank, at);
        let text = if at.is_none() && steps > 0 { format!("rank {rank} is between steps") } else { text };
        let text = if place::communicates(&self.programs, rank, at) { format!("{text} (communication {number})") } else { text };
        let told = if recorded { "" } else { ", when it last told" };
        format!("{text}, step {steps}{told}")
    }

    fn send(&self, process: u32, message: &Message) -> io::Result<()> {
        let bytes = postcard::to_stdvec(message).expect("invariant: messages serialize");
        let mut writing = lock(&self.peers[process as usize].writing);
        self.write(&mut writing, &bytes)
    }

    fn write(&self, writing: &mut Option<TcpStream>, bytes: &[u8]) -> io::Result<()> {
        let Some(stream) = writing else { return Err(ErrorKind::NotConnected.into()) };
        let mut framed = (bytes.len() as u64).to_le_bytes().to_vec();
        framed.extend_from_slice(bytes);
        let mut end = Instant::now() + self.watch.fault_timeout;
        let (mut offset, chunk) = (0, 1 << 20);
        while offset < framed.len() {
            let part = &framed[offset..framed.len().min(offset + chunk)];
            let written = write_while(stream, part, &mut || Instant::now() < end && !self.has_failed());
            if let Err(e) = written {
                // Half a message is none: nothing more can be said here.
                let _ = stream.shutdown(Shutdown::Both);
                *writing = None;
                return Err(e);
            }
            offset += part.len();
            end = Instant::now() + self.watch.fault_timeout;
        }
        Ok(())
    }

    /// Sends beats, and looks for whom nothing was heard of.
    fn beat(&self) {
        let every = interval(self.watch.fault_timeout);
        while !self.closing.load(Ordering::SeqCst) && !self.has_failed() {
            let begun = Instant::now();
            let beat = Message::Beat(self.place.own().map(|r| self.board.of(r)).collect());
            let beat = postcard::to_stdvec(&beat).expect("invariant: messages serialize");
            for peer in self.peers.iter().filter(|p| !p.done.load(Ordering::SeqCst)) {
                // Where something long is being sent, its bytes are the sign of life.
                if let Ok(mut writing) = peer.writing.try_lock()
                    && writing.is_some()
                {
                    let _ = self.write(&mut writing, &beat);
                }
            }
            // This thread may have been held up itself, with the whole process: then the others' beats are there to be read.
            if begun.elapsed() < self.watch.fault_timeout / 2 {
                let silent = |p: &Peer| self.now().saturating_sub(p.heard.load(Ordering::SeqCst)) > self.watch.fault_timeout.as_millis() as u64;
                for (p, peer) in self.peers.iter().enumerate() {
                    let watched = if self.place.process == 0 { p != 0 } else { p == 0 };
                    if watched && !peer.done.load(Ordering::SeqCst) && silent(peer) {
                        self.lost(p as u32, &format!("was not heard of for {} s", self.watch.fault_timeout.as_secs_f64()));
                    }
                }
            }
            std::thread::sleep(every.saturating_sub(begun.elapsed()));
        }
    }

    fn read(&self, process: u32, mut stream: TcpStream) {
        let peer = &self.peers[process as usize];
        peer.heard.store(self.now(), Ordering::SeqCst);
        let mut go_on = |n: usize| {
            if n > 0 {
                peer.heard.store(self.now(), Ordering::SeqCst);
            }
            !self.closing.load(Ordering::SeqCst)
        };
        loop {
            let mut length = [0; 8];
            let read = read_while(&mut stream, &mut length, &mut go_on).and_then(|()| {
                let length = u64::from_le_bytes(length);
                let mut bytes = Vec::new();
                // What is announced is believed as far as it comes.
                while (bytes.len() as u64) < length {
                    let begun = bytes.len();
                    bytes.resize(begun + (length - begun as u64).min(1 << 20) as usize, 0);
                    read_while(&mut stream, &mut bytes[begun..], &mut go_on)?;
                }
                postcard::from_bytes::<Message>(&bytes).map_err(|e| io::Error::new(ErrorKind::InvalidData, e))
            });
            match read {
                Ok(message) => {
                    if self.heed(process, message) {
                        return;
                    }
                }
                Err(_) if self.closing.load(Ordering::SeqCst) || peer.done.load(Ordering::SeqCst) => return,
                Err(e) => {
                    let how = match e.kind() {
                        ErrorKind::InvalidData => format!("said what cannot be read: {e}"),
                        _ => "died: its process ended without a word".to_string(),
                    };
                    return self.lost(process, &how);
                }
            }
        }
    }

    /// Acts on a message; whether it is the last.
    fn heed(&self, process: u32, message: Message) -> bool {
        let peer = &self.peers[process as usize];
        match message {
            Message::Beat(places) => {
                for (rank, (word, number, steps)) in self.place.ranks_of(process).zip(places) {
                    self.board.at(rank, word, number);
                    self.board.ended(rank, steps);
                }
            }
            Message::Fail(d, missing) if self.place.process == 0 => {
                let d = if d.message.contains("rank ") { d } else { d.with_note(format!("told by {}", self.place.named(process))) };
                self.decide_first(d, &missing);
            }
            Message::Verdict(d) if self.place.process != 0 => {
                self.told.store(true, Ordering::SeqCst);
                self.end(d);
            }
            Message::Given(parts) => {
                lock(&peer.inbox).given.push_back(parts);
                self.changed.notify_all();
            }
            Message::Told(bytes) => {
                lock(&peer.inbox).told.push_back(bytes);
                self.changed.notify_all();
            }
            Message::Done => {
                peer.done.store(true, Ordering::SeqCst);
                self.changed.notify_all();
                return true;
            }
            Message::Fail(..) | Message::Verdict(_) => {}
        }
        false
    }

    /// Waits until `take` gives something.
    fn wait<T>(&self, process: u32, take: impl Fn(&mut Inbox) -> Option<T>) -> Result<T, Interrupted> {
        let peer = &self.peers[process as usize];
        let mut inbox = lock(&peer.inbox);
        loop {
            if let Some(found) = take(&mut inbox) {
                return Ok(found);
            }
            if self.has_failed() {
                return Err(Interrupted::Elsewhere);
            }
            if peer.done.load(Ordering::SeqCst) {
                drop(inbox);
                let d = Diagnostic::outcome("E0681", format!("{} ended before the others: it runs fewer steps", self.place.named(process)));
                return Err(Interrupted::Here(Box::new(d)));
            }
            inbox = self.changed.wait_timeout(inbox, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn unsent(&self, process: u32) -> Interrupted {
        // The reader sees why; until it does, this waits for it.
        let begun = Instant::now();
        while !self.has_failed() && begun.elapsed() < 2 * self.watch.fault_timeout {
            std::thread::sleep(Duration::from_millis(5));
        }
        let d = Diagnostic::outcome("E0681", format!("the control channel to {} is broken", self.place.named(process)));
        if self.has_failed() { Interrupted::Elsewhere } else { Interrupted::Here(Box::new(d)) }
    }

    /// Gives rank 0's process what ranks of all processes give, by rank; the others get nothing.
    ///
    /// # Errors
    /// When interrupted.
    pub fn gather(&self, given: Vec<(u32, Parts)>) -> Result<Vec<(u32, Parts)>, Interrupted> {
        if self.place.process != 0 {
            self.send(0, &Message::Given(given)).map_err(|_| self.unsent(0))?;
            return Ok(Vec::new());
        }
        let mut all: BTreeMap<u32, Parts> = given.into_iter().collect();
        for p in 1..self.place.processes {
            let own = self.place.ranks_of(p);
            all.extend(self.wait(p, |inbox| inbox.given.pop_front())?.into_iter().filter(|(r, _)| own.contains(r)));
        }
        Ok(all.into_iter().collect())
    }

    /// Gives every process what rank 0's gives.
    ///
    /// # Errors
    /// When interrupted.
    pub fn share(&self, given: Vec<u8>) -> Result<Vec<u8>, Interrupted> {
        if self.place.process != 0 {
            return self.wait(0, |inbox| inbox.told.pop_front());
        }
        let message = Message::Told(given);
        for p in 1..self.place.processes {
            self.send(p, &message).map_err(|_| self.unsent(p))?;
        }
        let Message::Told(given) = message else { unreachable!("invariant: it was made above") };
        Ok(given)
    }

    /// Says that this process has done all it was to do, and waits until the others have: rank 0's process for all, and they for it.
    pub fn close(&self) {
        if !self.has_failed() {
            for p in (0..self.place.processes).filter(|p| *p != self.place.process) {
                let _ = self.send(p, &Message::Done);
            }
            let waits = |p: &u32| (self.place.process == 0) != (*p == 0);
            while !self.has_failed() && (0..self.place.processes).filter(waits).any(|p| !self.peers[p as usize].done.load(Ordering::SeqCst)) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        self.stop();
    }

    /// Ends all threads.
    pub fn stop(&self) {
        self.closing.store(true, Ordering::SeqCst);
        for peer in &self.peers {
            if let Some(stream) = lock(&peer.writing).take() {
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads.into_iter().filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}
