//! Flight records: what each rank did last, in a file that is there even when its process was killed.
//!
//! A record is a mapped file of fixed size, written as the rank goes: a head, a ring of the latest moments, and the names of all instructions, so that it can
//! be read without the plan. The kernel keeps what was written whatever becomes of the process. A reader may meet a moment that is being written; the number
//! that each moment carries is written last and tells.

use ir::program::{Phase, Program};
use ir::{Diagnostic, Result};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::transport::place;

const MAGIC: u64 = u64::from_le_bytes(*b"SHWFLGT1");
/// Moments that are kept.
pub const MOMENTS: usize = 4096;
/// Words of the head: magic, rank, ranks, stage, steps, state, moments written, length of the names.
const HEAD: usize = 8;
/// Words of a moment: number (from 1), place, communications, nanoseconds since the start.
const MOMENT: usize = 4;
const WORDS: usize = HEAD + MOMENTS * MOMENT;

/// How far a rank came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It had not ended when this was written last.
    Running,
    /// It ended as it should.
    Done,
    /// It was told that the run had failed, or told so itself.
    Stopped,
}

/// A moment of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Where it was, as [`place::pack`] writes it.
    pub word: u64,
    /// How many communications it had come to.
    pub number: u64,
    /// Of which step.
    pub step: u64,
    /// Nanoseconds after all ranks had joined.
    pub nanoseconds: u64,
}

/// The name of a rank's record.
pub fn file_name(rank: u32) -> String {
    format!("rank-{rank:04}.flight")
}

/// The record of a rank that is being written.
#[derive(Debug)]
pub struct Record {
    words: *const AtomicU64,
    bytes: usize,
    origin: Instant,
    written: u64,
}

// SAFETY: the mapping is shared memory of atomics, and lives until the record is dropped.
unsafe impl Send for Record {}

impl Record {
    /// Begins the record of `rank` in a folder.
    ///
    /// # Errors
    /// `E0657` when the file cannot be made.
    pub fn create(folder: &Path, rank: u32, ranks: u32, program: &Program, origin: Instant) -> Result<Record> {
        let names: Vec<Vec<(String, bool)>> = Phase::ALL
            .map(|phase| {
                let list = program.phase(phase).iter();
                list.map(|i| (format!("the {} of {}", place::action_name(&i.kind), i.source), place::is_communication(&i.kind))).collect()
            })
            .to_vec();
        let names = postcard::to_stdvec(&names).expect("invariant: names serialize");
        let path = folder.join(file_name(rank));
        let failed = |e: std::io::Error| Diagnostic::input("E0657", format!("the flight record {} cannot be written: {e}", path.display()));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).map_err(failed)?;
        let bytes = WORDS * 8 + names.len();
        // The space is taken now: writing to a mapped file on a full disk would be a signal.
        // SAFETY: the descriptor is open.
        let taken = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) };
        if taken != 0 {
            return Err(failed(std::io::Error::from_raw_os_error(taken)).into());
        }
        std::os::unix::fs::FileExt::write_all_at(&file, &names, (WORDS * 8) as u64).map_err(failed)?;
        let words = map(&file, bytes, libc::PROT_READ | libc::PROT_WRITE).map_err(failed)?;
        let record = Record { words, bytes, origin, written: 0 };
        let head = [MAGIC, u64::from(rank), u64::from(ranks), u64::from(program.stage.0), 0, State::Running as u64, 0, names.len() as u64];
        for (i, word) in head.into_iter().enumerate() {
            record.word(i).store(word, Ordering::Relaxed);
        }
        Ok(record)
    }
    fn word(&self, i: usize) -> &AtomicU64 {
        debug_assert!(i < WORDS, "invariant: a record has so many words");
        // SAFETY: the mapping has WORDS words, is aligned to a page, and is shared with readers only.
        unsafe { &*self.words.add(i) }
    }
    /// Notes where the rank is.
    #[inline]
    pub fn at(&mut self, word: u64, communications: u64, step: u64) {
        let at = HEAD + (self.written as usize % MOMENTS) * MOMENT;
        self.written += 1;
        self.word(at).store(0, Ordering::Release);
        self.word(at + 1).store(word, Ordering::Release);
        self.word(at + 2).store(communications << 32 | step & 0xffff_ffff, Ordering::Release);
        self.word(at + 3).store(self.origin.elapsed().as_nanos() as u64, Ordering::Release);
        self.word(at).store(self.written, Ordering::Release);
        self.word(6).store(self.written, Ordering::Release);
    }
    /// Notes that the rank ended, and how.
    pub fn end(&self, state: State) {
        self.word(5).store(state as u64, Ordering::Release);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // SAFETY: mapped in `create` with this length, and nobody has a reference.
        unsafe { libc::munmap(self.words.cast_mut().cast(), self.bytes) };
    }
}

fn map(file: &File, bytes: usize, protection: libc::c_int) -> std::io::Result<*const AtomicU64> {
    // SAFETY: a new mapping of an open file, which has this length.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if address == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(address.cast_const().cast()) }
}

/// A record as it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The rank.
    pub rank: u32,
    /// How many there were.
    pub ranks: u32,
    /// Its stage.
    pub stage: u32,
    /// How far it came.
    pub state: State,
    /// Its latest moments, oldest first.
    pub moments: Vec<Moment>,
    names: Vec<Vec<(String, bool)>>,
}

/// Names as a record holds them; what is damaged is left out.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Names(Vec<Vec<(String, bool)>>);

impl Found {
    /// Reads a record; what is wrong with it, in words, otherwise.
    pub fn read(path: &Path) -> std::result::Result<Found, String> {
        let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
        let word = |i: usize| u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().expect("invariant: eight bytes"));
        if bytes.len() < WORDS * 8 || word(0) != MAGIC {
            return Err("it is no flight record".into());
        }
        let mut moments: Vec<(u64, Moment)> = (0..MOMENTS)
            .map(|i| HEAD + i * MOMENT)
            .filter(|at| word(*at) != 0)
            .map(|at| {
                let (number, step) = (word(at + 2) >> 32, word(at + 2) & 0xffff_ffff);
                (word(at), Moment { word: word(at + 1), number, step, nanoseconds: word(at + 3) })
            })
            .collect();
        moments.sort_by_key(|(n, _)| *n);
        let state = match word(5) {
            1 => State::Done,
            2 => State::Stopped,
            _ => State::Running,
        };
        let names = postcard::from_bytes::<Names>(&bytes[WORDS * 8..]).unwrap_or_default().0;
        let small = |i: usize| u32::try_from(word(i)).map_err(|_| "its head is damaged".to_string());
        Ok(Found { rank: small(1)?, ranks: small(2)?, stage: small(3)?, state, moments: moments.into_iter().map(|(_, m)| m).collect(), names })
    }
    /// What the rank did at a moment, in words, and whether it was a communication.
    pub fn describe(&self, moment: &Moment) -> (String, bool) {
        let Some(p) = place::unpack(moment.word) else { return (format!("between steps, {} done", moment.step), false) };
        let name = self.names.get(p.phase as usize).and_then(|l| l.get(p.instruction as usize));
        let (what, communicates) = name.cloned().unwrap_or_else(|| (format!("instruction {} of {:?}", p.instruction, p.phase), false));
        let number = if communicates { format!(" (communication {})", moment.number) } else { String::new() };
        (format!("{what}{number}, {}, step {}", place::when(p), moment.step), communicates)
    }
}

/// The records of a folder by rank, and what is wrong with those that cannot be read.
///
/// # Errors
/// `E0658` when there are none.
pub fn read_all(folder: &Path) -> Result<(Vec<Found>, Vec<Diagnostic>)> {
    let list = std::fs::read_dir(folder).map_err(|e| Diagnostic::input("E0658", format!("{} cannot be read: {e}", folder.display())))?;
    let mut paths: Vec<PathBuf> = list.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.extension().is_some_and(|e| e == "flight")).collect();
    paths.sort();
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    for path in paths {
        match Found::read(&path) {
            Ok(record) => found.push(record),
            Err(why) => damaged.push(Diagnostic::warning("W0680", format!("{} is left out: {why}", path.display()))),
        }
    }
    if found.is_empty() {
        let d = Diagnostic::input("E0658", format!("{} holds no flight records", folder.display()));
        return Err(d.with_help("name the folder that `run --log-dir DIR` was given, or that it told when it failed").into());
    }
    found.sort_by_key(|f| f.rank);
    Ok((found, damaged))
}

/// The latest moment of a rank, if its record can be read here.
pub fn last(folder: &Path, rank: u32) -> Option<Moment> {
    Found::read(&folder.join(file_name(rank))).ok()?.moments.last().copied()
}
