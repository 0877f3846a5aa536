//! A rank's two streams, and what keeps them in order.
//!
//! What computes is begun on one stream, what communicates on the other. Communication follows all that the rank has begun to compute; computing follows
//! communication only where it touches the same bytes, so that a gradient's reduction goes on beside the backward of earlier layers.
//! What computes is told first and begun when something follows it, as one [run](crate::runs).
//! A rank's marks are events of its lane, numbered from 1 in a step; they are used again in the next, when every rank has finished this one.

use crate::driver::{Address, Driver, Event, Failure, Stream};
use crate::runs::Runs;
use ir::Diagnostic;
use runtime::transport::mover::Mark;
use std::sync::{Arc, RwLock};

/// The streams of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Computes.
    Compute,
    /// Communicates.
    Communicate,
}

/// Bytes that something under way reads or writes.
struct Pending {
    event: Event,
    start: Address,
    end: Address,
    /// Whether each stream already waits for it.
    awaited: [bool; 2],
}

/// The events behind every rank's marks.
pub type Marks = Arc<[RwLock<Vec<Event>>]>;

/// One rank's work on its card.
pub struct Lane {
    /// The rank.
    pub rank: u32,
    /// Its card.
    pub driver: Arc<dyn Driver>,
    /// Its arena.
    pub arena: Address,
    /// Bytes of it.
    pub bytes: usize,
    /// The streams by [`Work`].
    streams: [Stream; 2],
    marks: Marks,
    used: usize,
    /// Between the streams, where no mark is needed.
    between: Event,
    pending: Vec<Pending>,
    /// What computes.
    pub runs: Runs,
}

/// What to say when a call of CUDA fails.
pub fn failed(rank: u32, f: &Failure) -> Diagnostic {
    Diagnostic::outcome("E0674", format!("rank {rank}: CUDA failed while {}: {}", f.doing, f.reason)).with_help(
        "`CUDA_LAUNCH_BLOCKING=1` with `--no-graphs` shows which call it was; `compute-sanitizer` which kernel; `--device ptx-emulator` checks the plan's kernels without a GPU",
    )
}

impl Lane {
    /// A lane with an arena; with `graphs`, runs that repeat become CUDA graphs.
    ///
    /// # Errors
    /// `E0674` when the card fails.
    pub fn new(rank: u32, driver: Arc<dyn Driver>, bytes: usize, marks: Marks, graphs: bool) -> Result<Lane, Diagnostic> {
        let wrong = |f: Failure| failed(rank, &f);
        let arena = driver.allocate(bytes.max(256)).map_err(wrong)?;
        let streams = [driver.stream(false).map_err(wrong)?, driver.stream(true).map_err(wrong)?];
        let between = driver.event().map_err(wrong)?;
        Ok(Lane { rank, driver, arena, bytes, streams, marks, used: 0, between, pending: Vec::new(), runs: Runs::new(graphs) })
    }

    /// The stream for some work.
    pub fn stream(&self, work: Work) -> Stream {
        self.streams[work as usize]
    }

    /// A call's result as a diagnostic of this rank.
    ///
    /// # Errors
    /// `E0674` for a failure.
    pub fn check<T>(&self, result: Result<T, Failure>) -> Result<T, Diagnostic> {
        result.map_err(|f| failed(self.rank, &f))
    }

    /// Whether an address lies in the rank's arena.
    pub fn holds(&self, address: Address) -> bool {
        (self.arena..self.arena + self.bytes.max(1) as u64).contains(&address)
    }

    /// Lets `work` wait for what is under way in some bytes.
    ///
    /// # Errors
    /// `E0674` when the card fails.
    pub fn before(&mut self, work: Work, start: Address, bytes: usize) -> Result<(), Diagnostic> {
        let (end, stream) = (start + bytes as u64, self.streams[work as usize]);
        for i in 0..self.pending.len() {
            let p = &mut self.pending[i];
            if p.start < end && start < p.end && !p.awaited[work as usize] {
                p.awaited[work as usize] = true;
                let event = p.event;
                // Other bytes of the same work are then waited for as well.
                self.pending.iter_mut().filter(|p| p.event == event).for_each(|p| p.awaited[work as usize] = true);
                self.check(self.driver.wait(stream, event))?;
            }
        }
        self.pending.retain(|p| p.awaited != [true, true]);
        Ok(())
    }

    /// Tells an instruction; it is begun before anything else is that may follow it.
    ///
    /// # Errors
    /// `E0674` when the card fails.
    pub fn compute(&mut self, number: u32) -> Result<(), Diagnostic> {
        self.runs.waiting.push(number);
        if self.runs.graphs() { Ok(()) } else { self.flush() }
    }

    /// Begins what was told.
    ///
    /// # Errors
    /// `E0674` when the card fails.
    pub fn flush(&mut self) -> Result<(), Diagnostic> {
        let mut waiting = std::mem::take(&mut self.runs.waiting);
        let mut first = 0;
        for (i, &number) in waiting.iter().enumerate() {
            let instruction = self.runs.instruction(number).clone();
            let awaits = |&(start, bytes): &(Address, usize)| self.awaits(start, start + bytes as u64);
            if instruction.touched.iter().any(awaits) {
                self.run(&waiting[first..i])?;
                first = i;
                for &(start, bytes) in &instruction.touched {
                    self.before(Work::Compute, start, bytes)?;
                }
            }
        }
        self.run(&waiting[first..])?;
        waiting.clear();
        self.runs.waiting = waiting;
        Ok(())
    }

    /// Whether computing must wait before it touches some bytes.
    fn awaits(&self, start: Address, end: Address) -> bool {
        self.pending.iter().any(|p| p.start < end && start < p.end && !p.awaited[Work::Compute as usize])
    }

    fn run(&mut self, run: &[u32]) -> Result<(), Diagnostic> {
        // SAFETY: whoever resolved the instructions vouched for their addresses; work of one stream is in order, and what communication has under way in
        // these bytes was waited for.
        let begun = unsafe { self.runs.begin(&*self.driver, self.streams[0], run) };
        self.check(begun)
    }

    /// Lets communication follow all that was told to be computed.
    ///
    /// # Errors
    /// `E0674` when the card fails.
    pub fn follow(&mut self) -> Result<(), Diagnostic> {
        self.flush()?;
        self.follow_begun()
    }

    /// Lets communication follow all that was begun to be computed.
    ///
    /// # Errors
    /// `E0674` when the card fails.
    pub fn follow_begun(&mut self) -> Result<(), Diagnostic> {
        self.check(self.driver.record(self.streams[0], self.between))?;
        self.check(self.driver.wait(self.streams[1], self.between))
    }

    /// Lets communication wait for all that is under way in the rank's bytes: others may write there after the next mark.
    ///
    /// # Errors
    /// `E0674` when the card fails.
    pub fn settle(&mut self) -> Result<(), Diagnostic> {
        let (arena, bytes) = (self.arena, self.bytes);
        self.before(Work::Communicate, arena, bytes)
    }

    /// A mark for all that was begun to be communicated.
    ///
    /// # Errors
    /// `E0674` when the card fails.
    pub fn mark(&mut self) -> Result<Mark, Diagnostic> {
        let marks = self.marks.clone();
        let mut mine = marks[self.rank as usize].write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if mine.len() == self.used {
            mine.push(self.check(self.driver.event())?);
        }
        let event = mine[self.used];
        self.used += 1;
        self.check(self.driver.record(self.streams[1], event))?;
        Ok(u64::from(self.rank + 1) << 32 | self.used as u64)
    }

    /// The event behind a mark.
    fn event(&self, mark: Mark) -> Option<Event> {
        let rank = (mark >> 32).checked_sub(1)?;
        let events = self.marks[rank as usize].read().unwrap_or_else(std::sync::PoisonError::into_inner);
        events.get((mark & 0xFFFF_FFFF) as usize - 1).copied()
    }

    /// Lets communication wait for a mark.
    ///
    /// # Errors
    /// `E0674` when the card fails.
    pub fn await_mark(&mut self, mark: Mark) -> Result<(), Diagnostic> {
        match self.event(mark) {
            Some(event) => self.check(self.driver.wait(self.streams[1], event)),
            None => Ok(()),
        }
    }

    /// Notes that a mark's work is under way in some bytes.
    pub fn note(&mut self, mark: Mark, start: Address, bytes: usize) {
        if let Some(event) = self.event(mark).filter(|_| bytes > 0) {
            self.pending.push(Pending { event, start, end: start + bytes as u64, awaited: [false; 2] });
        }
    }

    /// Returns when all that was told and begun in a step is done.
    ///
    /// # Errors
    /// `E0674` when some of it failed.
    pub fn finish(&mut self) -> Result<(), Diagnostic> {
        self.flush()?;
        for stream in self.streams {
            self.check(self.driver.synchronize(stream))?;
        }
        self.pending.clear();
        self.used = 0;
        Ok(())
    }
}
