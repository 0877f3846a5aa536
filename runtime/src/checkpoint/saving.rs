//! Saving during a run: what a process does so that a checkpoint of all ranks appears.
//!
//! Between two steps every rank of the process copies its shards aside; the rest happens on threads of their own while the next step runs. The process of
//! rank 0 collects what every rank has written, and makes the checkpoint visible. Ranks of other processes tell it by small files in the folder of parts, so
//! that all that processes need in common is the folder.
//!
//! **Invariant:** a checkpoint that fails leaves earlier ones as they were, and the run goes on; what failed is told.

use super::manifest::Manifest;
use super::store::Store;
use super::writer::Part;
use ir::plan::Plan;
use ir::{Diagnostic, Result};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How a run saves.
pub struct SaveOptions {
    /// Where to.
    pub store: Store,
    /// The ranks of this process.
    pub ranks: Range<u32>,
    /// How long rank 0's process waits for the parts of others, and they for the checkpoint to appear.
    pub timeout: Duration,
    /// Whether the run has failed: then a part that is missing may never come.
    pub failed: Failed,
}

/// Tells, on any thread, whether the run has failed.
pub type Failed = Box<dyn Fn() -> bool + Send>;

/// A checkpoint that is visible.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// After how many steps.
    pub step: u64,
    /// Its folder.
    pub folder: PathBuf,
    /// Bytes of its tensors, all ranks together; of this process's ranks where another one holds rank 0.
    pub bytes: u64,
    /// From the copy aside until it was visible.
    pub seconds: f64,
    /// What went wrong beside it.
    pub note: Option<String>,
}

/// What a rank's writer tells: the rank, the step, and its part or why there is none.
pub type Told = (u32, u64, std::result::Result<Part, String>);

/// What became of the checkpoint of a step: it is visible, or why not (`W0660`).
pub type Outcome = (u64, std::result::Result<Saved, Diagnostic>);

struct Order {
    step: u64,
    begun: Instant,
}

/// The process's side of saving.
pub struct Saving {
    store: Arc<Store>,
    orders: Option<Sender<Order>>,
    outcomes: Receiver<Outcome>,
    outstanding: usize,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How long a run that ends waits for the parts of other processes.
const PATIENCE_AT_THE_END: Duration = Duration::from_secs(5);

/// How long a run that has failed does: what is not on its way by then is a lost rank's.
const PATIENCE_AFTER_FAILURE: Duration = Duration::from_millis(500);

/// How often the folder is looked at while another process's files are awaited.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Saving {
    /// Begins to collect what writers tell; they are given the sender that is returned.
    ///
    /// # Errors
    /// `E0608` when there is no thread.
    pub fn new(plan: &Plan, options: SaveOptions) -> Result<(Saving, Sender<Told>)> {
        let (tell, told) = channel();
        let (orders, ordered) = channel::<Order>();
        let (outcome, outcomes) = channel();
        let (store, closing) = (Arc::new(options.store), Arc::new(AtomicBool::new(false)));
        let mut collector = Collector {
            store: store.clone(),
            ranks: options.ranks,
            total: plan.ranks(),
            timeout: options.timeout,
            failed: options.failed,
            manifest: Manifest::of(plan),
            told,
            closing: closing.clone(),
        };
        let work = move || {
            for order in ordered {
                // Who asked may have ended; the checkpoint is finished nevertheless.
                let _ = outcome.send((order.step, collector.collect(&order)));
            }
        };
        let thread = std::thread::Builder::new().name("checkpoints".into()).spawn(work);
        let thread = thread.map_err(|e| Diagnostic::outcome("E0608", format!("a thread to collect checkpoints cannot be started: {e}")))?;
        Ok((Saving { store, orders: Some(orders), outcomes, outstanding: 0, closing, thread: Some(thread) }, tell))
    }

    /// Tells that the ranks are about to copy aside what they hold after `step` steps; returns the folder that they write to.
    pub fn begin(&mut self, step: u64) -> Arc<Path> {
        if let Some(orders) = &self.orders {
            self.outstanding += usize::from(orders.send(Order { step, begun: Instant::now() }).is_ok());
        }
        self.store.parts(step).into()
    }

    /// What became of the next checkpoint that was begun; with `wait`, waits while there is one under way.
    pub fn finished(&mut self, wait: bool) -> Option<Outcome> {
        if self.outstanding == 0 {
            return None;
        }
        let outcome = if wait { self.outcomes.recv().ok() } else { self.outcomes.try_recv().ok() };
        self.outstanding -= usize::from(outcome.is_some());
        outcome
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was told as a checkpoint that never came.
            let _ = thread.join();
        }
    }
}

struct Collector {
    store: Arc<Store>,
    ranks: Range<u32>,
    total: u32,
    timeout: Duration,
    failed: Failed,
    manifest: Manifest,
    told: Receiver<Told>,
    closing: Arc<AtomicBool>,
}

impl Collector {
    fn collect(&mut self, order: &Order) -> std::result::Result<Saved, Diagnostic> {
        let own = self.parts(order.step);
        let done = if self.ranks.contains(&0) {
            // All are heard, also when one cannot write: who still wrote would make the folder anew that is cleared away here.
            let others = self.others(order.step);
            own.and_then(|own| Ok([own, others?].concat())).and_then(|parts| Ok((bytes(&parts), self.publish(order.step, parts)?)))
        } else {
            own.and_then(|parts| Ok((bytes(&parts), self.hand_over(order.step, &parts)?)))
        };
        let (bytes, note) = done.map_err(|why| {
            if self.ranks.contains(&0) {
                self.store.discard(order.step);
            } else {
                self.leave_reason(order.step, &why);
            }
            let d = Diagnostic::warning("W0660", format!("the checkpoint of step {} was not written: {why}", order.step));
            let then = if (self.failed)() { "ends: `--resume` continues from the newest" } else { "goes on" };
            d.with_note(format!("earlier checkpoints are as they were, and the run {then}"))
        })?;
        Ok(Saved { step: order.step, folder: self.store.place(order.step), bytes, seconds: order.begun.elapsed().as_secs_f64(), note })
    }

    /// The parts of this process's ranks, in their order. All of them are awaited, so that none still writes when a failed checkpoint is cleared away.
    fn parts(&mut self, step: u64) -> std::result::Result<Vec<Part>, String> {
        let mut parts: Vec<Option<Part>> = self.ranks.clone().map(|_| None).collect();
        // Of several that fail the first rank's reason is told, whichever comes first.
        let mut failed: Option<(u32, String)> = None;
        let mut told = 0;
        while told < parts.len() {
            let (rank, of, part) = match self.told.recv_timeout(self.timeout) {
                Ok(told) => told,
                Err(RecvTimeoutError::Timeout) => return Err(format!("a part took longer than {} s", self.timeout.as_secs())),
                Err(RecvTimeoutError::Disconnected) => return Err("the ranks ended before they wrote their parts".into()),
            };
            // What an earlier step's ranks told after its time was over.
            if of != step {
                continue;
            }
            told += 1;
            match part {
                Ok(part) => parts[(rank - self.ranks.start) as usize] = Some(part),
                Err(why) if failed.as_ref().is_none_or(|f| rank < f.0) => failed = Some((rank, why)),
                Err(_) => {}
            }
        }
        match failed {
            None => Ok(parts.into_iter().flatten().collect()),
            Some((_, why)) => Err(why),
        }
    }

    fn wait(&self) -> Wait<'_> {
        Wait { end: Instant::now() + self.timeout, closing: &self.closing, closed: false, failed: &self.failed, lost: false }
    }

    /// Waits until the ranks of all other processes have told their parts, or why there is none.
    fn others(&self, step: u64) -> std::result::Result<Vec<Part>, String> {
        let folder = self.store.parts(step);
        let mut missing: Vec<u32> = (0..self.total).filter(|r| !self.ranks.contains(r)).collect();
        let (mut parts, mut failed) = (Vec::new(), None);
        let mut wait = self.wait();
        while !missing.is_empty() {
            let before = missing.len();
            missing.retain(|rank| {
                if let Ok(why) = std::fs::read_to_string(folder.join(failure_file(*rank))) {
                    let why = if why.is_empty() { "it could not write its part, nor why" } else { &why };
                    failed.get_or_insert(format!("rank {rank}: {why}"));
                    return false;
                }
                let part = std::fs::read(folder.join(part_file(*rank))).ok().and_then(|b| serde_json::from_slice(&b).ok());
                let told = part.is_some();
                parts.extend(part);
                !told
            });
            if missing.len() == before && !wait.again() {
                return Err(failed.unwrap_or(format!("rank {} did not write its part in time", missing[0])));
            }
        }
        failed.map_or(Ok(parts), Err)
    }

    /// Makes the checkpoint visible.
    fn publish(&self, step: u64, mut parts: Vec<Part>) -> std::result::Result<Option<String>, String> {
        let folder = self.store.parts(step);
        parts.sort_by_key(|p| p.rank);
        for rank in (0..self.total).filter(|r| !self.ranks.contains(r)) {
            std::fs::remove_file(folder.join(part_file(rank))).map_err(|e| format!("the part of rank {rank}: {e}"))?;
        }
        self.store.publish(&self.manifest.with_parts(step, &parts))
    }

    /// Tells rank 0's process why there is no part. An empty file says it too, on a disk that takes no more.
    fn leave_reason(&self, step: u64, why: &str) {
        let folder = self.store.parts(step);
        // Where rank 0's process has given the checkpoint up, its folder is gone and nobody reads a reason.
        for rank in self.ranks.clone() {
            let _ = std::fs::write(folder.join(failure_file(rank)), why);
        }
    }

    /// Leaves this process's parts to rank 0's, and waits until the checkpoint is visible.
    fn hand_over(&self, step: u64, parts: &[Part]) -> std::result::Result<Option<String>, String> {
        let folder = self.store.parts(step);
        for part in parts {
            let (path, temporary) = (folder.join(part_file(part.rank)), folder.join(format!(".{}", part_file(part.rank))));
            let text = serde_json::to_vec(part).expect("invariant: a part has only strings and numbers");
            let written = (|| {
                std::fs::create_dir_all(&folder)?;
                std::fs::File::create(&temporary)?.write_all(&text)?;
                std::fs::rename(&temporary, &path)
            })();
            written.map_err(|e| super::writer::reason(&path, &e))?;
        }
        let mut wait = self.wait();
        loop {
            if self.store.place(step).exists() {
                return Ok(None);
            }
            if !folder.exists() && !self.store.place(step).exists() {
                return Err("the process of rank 0 gave it up".into());
            }
            if !wait.again() {
                return Err("the process of rank 0 did not finish it in time".into());
            }
        }
    }
}

fn bytes(parts: &[Part]) -> u64 {
    parts.iter().flat_map(|p| &p.shards).map(|s| s.bytes).sum()
}

fn part_file(rank: u32) -> String {
    format!("rank-{rank:04}.json")
}

fn failure_file(rank: u32) -> String {
    format!("rank-{rank:04}.failed")
}

/// Looks at a folder again and again, until its time is over; that is soon when the run ends.
struct Wait<'a> {
    end: Instant,
    closing: &'a AtomicBool,
    closed: bool,
    failed: &'a Failed,
    lost: bool,
}

impl Wait<'_> {
    fn again(&mut self) -> bool {
        if !self.closed && self.closing.load(Ordering::SeqCst) {
            self.closed = true;
            self.end = self.end.min(Instant::now() + PATIENCE_AT_THE_END);
        }
        if !self.lost && (self.failed)() {
            self.lost = true;
            self.end = self.end.min(Instant::now() + PATIENCE_AFTER_FAILURE);
        }
        std::thread::sleep(LOOK_EVERY);
        Instant::now() < self.end
    }
}
