//! A launch: an entry over a grid of blocks.
//!
//! Blocks are independent, so threads take runs of them; each run has its own counts, which are added in the order of blocks. Where the order of blocks
//! shows (float atomics, what atomics return) or checks are on, one thread executes them in order.

use crate::block::Block;
use crate::counts::{Counts, Sectors};
use crate::error::{Fault, FaultKind};
use crate::lanes::has_vectors;
use crate::memory::Memory;
use crate::module::{Entry, Module};
use rayon::prelude::*;

/// Where generic addresses of shared memory begin: no address of a process is there.
pub(crate) const SHARED_BASE: u64 = 1 << 60;
/// Where generic addresses of a thread's memory begin.
pub(crate) const LOCAL_BASE: u64 = 1 << 61;
/// Bytes of either window.
pub(crate) const WINDOW: u64 = 1 << 32;

const MOST_THREADS: u64 = 1024;
const MOST_SHARED: u64 = 227 * 1024;

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of shared memory beside what the entry declares.
    pub dynamic_shared: u32,
}

/// How a launch is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Look for reads of uninitialised memory and for missing barriers; addresses and barriers are always checked.
    pub checks: bool,
    /// Let `.approx` instructions deviate within their documented bounds by this seed.
    pub perturb: Option<u64>,
    /// Instructions that all warps of a block may execute together.
    pub budget: u64,
    /// Count distinct sectors over the whole launch.
    pub distinct: bool,
    /// Execute blocks on several threads where that changes nothing.
    pub parallel: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { checks: false, perturb: None, budget: 1 << 28, distinct: false, parallel: true }
    }
}

/// What all blocks of a launch share.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) memory: &'a Memory,
    pub(crate) options: &'a Options,
    pub(crate) grid: Grid,
    pub(crate) params: &'a [u64],
    pub(crate) threads: u32,
    pub(crate) shared_bytes: u64,
    pub(crate) fast: bool,
}

/// Executes an entry; `params` are its arguments' bits, pointers being addresses in `memory`.
///
/// # Errors
/// A [`Fault`] of the first block that has one. What blocks wrote until then stays.
pub fn launch(module: &Module, entry: &Entry, grid: Grid, params: &[u64], memory: &Memory, options: &Options) -> Result<Counts, Fault> {
    let impossible = |message: String| Fault { kind: FaultKind::Launch, kernel: entry.name.clone(), block: [0; 3], thread: [0; 3], line: 0, message };
    let threads: u64 = grid.block.iter().map(|&n| u64::from(n)).product();
    let blocks: u64 = grid.grid.iter().map(|&n| u64::from(n)).product();
    if threads == 0 || threads > MOST_THREADS {
        return Err(impossible(format!("a block of {threads} threads; it may have 1 to {MOST_THREADS}")));
    }
    if blocks == 0 || blocks > u64::from(u32::MAX) {
        return Err(impossible(format!("a grid of {blocks} blocks")));
    }
    if entry.required.is_some_and(|r| r != grid.block) || entry.most.is_some_and(|m| threads > u64::from(m)) {
        return Err(impossible(format!(
            "blocks of {:?} threads, and the entry was compiled for {:?}",
            grid.block,
            entry.required.unwrap_or([entry.most.unwrap_or(0), 1, 1])
        )));
    }
    if params.len() != entry.params.len() {
        return Err(impossible(format!("{} arguments are given and the entry takes {}", params.len(), entry.params.len())));
    }
    let shared_bytes = if grid.dynamic_shared == 0 { entry.code.shared_bytes } else { entry.code.dynamic_offset + u64::from(grid.dynamic_shared) };
    if shared_bytes > MOST_SHARED {
        return Err(impossible(format!("{shared_bytes} bytes of shared memory; a block may have {MOST_SHARED}")));
    }
    let mut memory = memory.clone();
    module.ranges.iter().for_each(|r| memory.push(r.clone()));
    let all = Launch { entry, memory: &memory, options, grid, params, threads: threads as u32, shared_bytes, fast: has_vectors() };
    let run = |blocks: std::ops::Range<u64>| -> Result<(Counts, Sectors, Sectors), Fault> {
        let mut block = Block::new(&all);
        for number in blocks {
            block.run(number as u32).map_err(|f| *f)?;
        }
        Ok(block.finish())
    };
    let parts = if options.parallel && !options.checks && !entry.code.ordered && blocks > 1 {
        let pieces = blocks.min(rayon::current_num_threads() as u64 * 4);
        let cut = |i: u64| i * blocks / pieces;
        (0..pieces).into_par_iter().map(|i| run(cut(i)..cut(i + 1))).collect::<Vec<_>>()
    } else {
        vec![run(0..blocks)]
    };
    let (mut counts, mut loaded, mut stored) = (Counts::default(), Sectors::default(), Sectors::default());
    for part in parts {
        let (c, l, s) = part?;
        counts.add(&c);
        loaded.merge(&l);
        stored.merge(&s);
    }
    if options.distinct {
        (counts.loads.distinct, counts.stores.distinct) = (loaded.count(), stored.count());
        loaded.merge(&stored);
        counts.touched = loaded.count();
    }
    Ok(counts)
}
