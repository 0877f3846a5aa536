//! A block: its warps' registers and shared memory, and the barriers they meet at.
//!
//! Warps run one after the other, each until it waits at a barrier or ends. A barrier opens when all that it waits for have come; when nothing can go on,
//! the barrier is one that part of the block cannot reach.

use crate::code::Special;
use crate::counts::{Counts, Sectors};
use crate::error::{Fault, FaultKind};
use crate::lanes::Lanes;
use crate::launch::Launch;
use crate::shadow::Shadow;
use crate::warp::{State, Warp};

pub(crate) type Outcome<T> = Result<T, Box<Fault>>;

/// Registers of one warp.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    pub(crate) words: Vec<Lanes<u32>>,
    pub(crate) doubles: Vec<Lanes<u64>>,
    pub(crate) predicates: Vec<u32>,
}

/// Barriers of a block.
const BARRIERS: usize = 16;

/// The state of one block after the other.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    pub(crate) launch: &'a Launch<'a>,
    pub(crate) id: [u32; 3],
    pub(crate) registers: Vec<Registers>,
    pub(crate) warps: Vec<Warp>,
    /// Shared memory, in pieces as large as the largest access.
    pub(crate) shared: Vec<Lanes<u32>>,
    /// One bit for each byte of it that was written, where that is checked.
    pub(crate) shared_written: Vec<u64>,
    pub(crate) local: Vec<Lanes<u32>>,
    /// Bytes of a thread's memory, a multiple of what its accesses are aligned to.
    pub(crate) local_bytes: u64,
    pub(crate) shadow: Shadow,
    pub(crate) counts: Counts,
    pub(crate) loaded: Sectors,
    pub(crate) stored: Sectors,
    /// The range of the last access.
    pub(crate) last: usize,
    pub(crate) steps: u64,
    /// For each barrier the threads of warps that have arrived without waiting, and these warps.
    pub(crate) arrived: [(u32, Vec<usize>); BARRIERS],
}

impl<'a> Block<'a> {
    pub(crate) fn new(launch: &'a Launch<'a>) -> Block<'a> {
        let code = &launch.entry.code;
        let warps = launch.threads.div_ceil(32) as usize;
        let registers = (0..warps).map(|w| registers(launch, w as u32)).collect();
        let local_bytes = code.local_bytes.next_multiple_of(64);
        let lines = |bytes: u64| vec![Lanes([0; 32]); bytes.div_ceil(128) as usize];
        Block {
            launch,
            id: [0; 3],
            registers,
            warps: Vec::new(),
            shared: lines(launch.shared_bytes),
            shared_written: vec![0; if launch.options.checks { launch.shared_bytes.div_ceil(64) as usize } else { 0 }],
            local: lines(local_bytes * u64::from(launch.threads)),
            local_bytes,
            shadow: Shadow::default(),
            counts: Counts::default(),
            loaded: Sectors::default(),
            stored: Sectors::default(),
            last: 0,
            steps: 0,
            arrived: Default::default(),
        }
    }

    pub(crate) fn finish(self) -> (Counts, Sectors, Sectors) {
        (self.counts, self.loaded, self.stored)
    }

    /// The number of a lane's thread in the block.
    pub(crate) fn thread(&self, warp: usize, lane: u32) -> u32 {
        warp as u32 * 32 + lane
    }

    /// The coordinates of a thread.
    pub(crate) fn coordinates(&self, thread: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.grid.block;
        [thread % x, thread / x % y, thread / x / y]
    }

    #[cold]
    pub(crate) fn fault(&self, kind: FaultKind, thread: u32, line: u32, message: String) -> Box<Fault> {
        Box::new(Fault { kind, kernel: self.launch.entry.name.clone(), block: self.id, thread: self.coordinates(thread), line, message })
    }

    /// Executes block `number` of the grid.
    pub(crate) fn run(&mut self, number: u32) -> Outcome<()> {
        let [gx, gy, _] = self.launch.grid.grid;
        self.id = [number % gx, number / gx % gy, number / gx / gy];
        let threads = self.launch.threads;
        for &(special, row) in &self.launch.entry.code.specials {
            if let Special::Ctaid(axis) = special {
                self.registers.iter_mut().for_each(|r| r.words[row as usize] = Lanes([self.id[usize::from(axis)]; 32]));
            }
        }
        self.warps.clear();
        self.warps.extend((0..self.registers.len() as u32).map(|w| Warp::new(u32::MAX >> (32 - (threads - w * 32).min(32)))));
        self.steps = 0;
        self.arrived.iter_mut().for_each(|(n, warps)| {
            *n = 0;
            warps.clear();
        });
        if self.launch.options.checks {
            self.shadow.begin(self.registers.len());
            self.shared_written.fill(0);
        }
        loop {
            for w in 0..self.warps.len() {
                if self.warps[w].state == State::Running {
                    self.run_warp(w)?;
                }
            }
            if self.warps.iter().all(|w| w.state == State::Done) {
                return Ok(());
            }
            let mut opened = false;
            for barrier in 0..BARRIERS as u32 {
                opened |= self.open(barrier)?;
            }
            if !opened {
                return Err(self.stuck());
            }
        }
    }

    fn waiting(&self, barrier: u32) -> Vec<usize> {
        (0..self.warps.len()).filter(|&w| matches!(self.warps[w].state, State::Waiting { number, .. } if number == barrier)).collect()
    }

    /// Opens a barrier that all have come to.
    fn open(&mut self, barrier: u32) -> Outcome<bool> {
        let waiting = self.waiting(barrier);
        let Some(&first) = waiting.first() else { return Ok(false) };
        let State::Waiting { threads, line, .. } = self.warps[first].state else { return Ok(false) };
        let (arrived, warps) = &self.arrived[barrier as usize];
        let complete = match threads {
            // Barriers for a number of threads count whole warps.
            Some(expected) => {
                let come = waiting.len() as u32 * 32 + arrived;
                if come > expected {
                    let message = format!("barrier {barrier} is for {expected} threads, and {come} have come");
                    return Err(self.fault(FaultKind::DivergentBarrier, self.thread(first, 0), line, message));
                }
                come == expected
            }
            None => waiting.len() == self.warps.len(),
        };
        if !complete {
            return Ok(false);
        }
        let together: Vec<usize> = waiting.iter().chain(warps).copied().collect();
        if self.launch.options.checks {
            self.shadow.join(&together);
        }
        self.arrived[barrier as usize] = (0, Vec::new());
        waiting.iter().for_each(|&w| self.warps[w].state = State::Running);
        Ok(true)
    }

    /// Why nothing can go on.
    fn stuck(&self) -> Box<Fault> {
        let place = |w: &Warp| if let State::Waiting { number, threads, line } = w.state { Some((number, threads, line)) } else { None };
        let (first, (barrier, threads, line)) =
            self.warps.iter().enumerate().find_map(|(i, w)| Some((i, place(w)?))).expect("invariant: a block that is not done and does not run waits");
        let of = |keep: &dyn Fn(&Warp) -> bool| self.warps.iter().filter(|w| keep(w)).map(|w| w.initial.count_ones()).sum::<u32>();
        let here = of(&|w| place(w).is_some_and(|(n, ..)| n == barrier));
        let exited = of(&|w| w.state == State::Done);
        let mut message = format!("barrier {barrier} waits for {} threads, and {here} have come", threads.unwrap_or(self.launch.threads));
        if exited > 0 {
            message += &format!("; {exited} have exited");
        }
        if let Some((number, _, line)) = self.warps.iter().filter_map(place).find(|(n, ..)| *n != barrier) {
            message += &format!("; {} wait at barrier {number} (line {line})", of(&|w| place(w).is_some_and(|(n, ..)| n == number)));
        }
        self.fault(FaultKind::DivergentBarrier, self.thread(first, 0), line, message)
    }
}

/// A warp's registers with everything that does not change from block to block.
fn registers(launch: &Launch<'_>, warp: u32) -> Registers {
    let code = &launch.entry.code;
    let mut r = Registers {
        words: vec![Lanes([0; 32]); code.words as usize],
        doubles: vec![Lanes([0; 32]); code.doubles as usize],
        predicates: vec![0; code.predicates as usize],
    };
    code.word_constants.iter().for_each(|&(row, v)| r.words[row as usize] = Lanes([v; 32]));
    code.double_constants.iter().for_each(|&(row, v)| r.doubles[row as usize] = Lanes([v; 32]));
    code.predicate_constants.iter().for_each(|&(row, v)| r.predicates[row as usize] = v);
    for &(special, row) in &code.specials {
        r.words[row as usize] = Lanes(std::array::from_fn(|l| special_value(launch, warp, l as u32, special)));
    }
    for &(argument, row) in &code.arguments {
        let bits = launch.params[argument.index as usize] >> (8 * argument.offset);
        let shift = 64 - 8 * argument.bytes;
        let value = if argument.signed { ((bits << shift) as i64 >> shift) as u64 } else { bits << shift >> shift };
        if argument.wide { r.doubles[row as usize] = Lanes([value; 32]) } else { r.words[row as usize] = Lanes([value as u32; 32]) }
    }
    r
}

fn special_value(launch: &Launch<'_>, warp: u32, lane: u32, special: Special) -> u32 {
    let [x, y, _] = launch.grid.block;
    let thread = warp * 32 + lane;
    let below = (1u32 << lane) - 1;
    match special {
        Special::Tid(0) => thread % x,
        Special::Tid(1) => thread / x % y,
        Special::Tid(_) => thread / x / y,
        Special::Ntid(a) => launch.grid.block[usize::from(a)],
        Special::Nctaid(a) => launch.grid.grid[usize::from(a)],
        Special::Ctaid(_) => 0,
        Special::Lane => lane,
        Special::Warp => warp,
        Special::Warps => launch.threads.div_ceil(32),
        Special::MaskEq => 1 << lane,
        Special::MaskLt => below,
        Special::MaskLe => below | 1 << lane,
        Special::MaskGt => !(below | 1 << lane),
        Special::MaskGe => !below,
        Special::DynamicShared => launch.grid.dynamic_shared,
        Special::TotalShared => launch.shared_bytes as u32,
    }
}
