//! One rank's part of checkpoints: it copies its shards aside between two steps, and writes them while the next step runs.
//!
//! The copy goes to one block of memory that is allocated when saving is set up and is as large as the rank's shards; a thread of the rank's own writes it
//! and gives it back. So a step allocates nothing, and a rank that is to save again before its last part is written waits for it.
//! A file is a safetensors file: its header never changes, and its data are the block. All of it is on disk when the part is told.

use super::layout::{Shard, shards};
use super::tensors::to_file;
use crate::device::Device;
use crate::strided::StridedCopy;
use ir::dtype::row_major_strides;
use ir::plan::Plan;
use ir::{Diagnostic, Result};
use safetensors::tensor::{Metadata, TensorInfo};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What one rank has put into a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The rank.
    pub rank: u32,
    /// Its file; none when it has no shard.
    pub file: Option<PartFile>,
    /// Its shards, in the order of the file.
    pub shards: Vec<PartShard>,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartFile {
    /// Its name in the checkpoint's folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Bytes before the first shard.
    pub header_bytes: u64,
    /// BLAKE3 of those.
    pub header_blake3: String,
}

/// A shard in a rank's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartShard {
    /// The argument that it is a part of.
    pub argument: u32,
    /// First index in each dimension of the tensor's view.
    pub start: Vec<u64>,
    /// How many indices.
    pub extent: Vec<u64>,
    /// Where its bytes begin in the file.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// BLAKE3 of them.
    pub blake3: String,
}

/// The name of a rank's file.
pub fn file_name(rank: u32) -> String {
    format!("rank-{rank:04}.safetensors")
}

struct Job {
    step: u64,
    folder: Arc<Path>,
    data: Vec<u8>,
}

/// Saves one rank's shards.
pub struct RankWriter {
    shards: Vec<(Shard, Range<usize>, Option<StridedCopy>)>,
    staging: Vec<u8>,
    block: Option<Vec<u8>>,
    returned: Receiver<Vec<u8>>,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    bytes: usize,
}

impl RankWriter {
    /// Sets up saving for a rank; `done` is called on the writer's thread with each part, or with why it could not be written.
    ///
    /// # Errors
    /// What [`shards`] refuses, and `E0608` when there is no thread.
    pub fn new(plan: &Plan, rank: u32, done: impl Fn(u64, std::result::Result<Part, String>) + Send + 'static) -> Result<RankWriter> {
        let list = shards(plan, rank)?;
        let mut placed = Vec::with_capacity(list.len());
        let (mut end, mut longest) = (0, 0);
        for shard in list {
            let range = end..end + shard.bytes();
            end = range.end;
            let signed = |shape: &[u64]| row_major_strides(shape).into_iter().map(|s| s as i64).collect::<Vec<_>>();
            let copy = if shard.is_whole_buffer() {
                None
            } else {
                longest = longest.max(shard.local_bytes());
                let copy = StridedCopy::new(&shard.extent, &signed(&shard.local), &signed(&shard.extent), shard.dtype.bytes() as usize);
                Some(copy.ok_or_else(|| Diagnostic::input("E0602", format!("this plan is inconsistent: arg{} has too many dimensions", shard.argument)))?)
            };
            placed.push((shard, range, copy));
        }
        let header = header(&placed)?;
        let part = part(rank, &header, &placed);
        let (jobs, orders) = channel::<Job>();
        let (give_back, returned) = channel();
        let ranges: Vec<Range<usize>> = placed.iter().map(|(_, range, _)| range.clone()).collect();
        let work = move || {
            for job in orders {
                let written = write(&job, &header, &part, &ranges);
                // Who saves has no use for the block after the last time.
                let _ = give_back.send(job.data);
                done(job.step, written);
            }
        };
        let thread = std::thread::Builder::new().name(format!("checkpoint {rank}")).spawn(work);
        let thread = thread.map_err(|e| Diagnostic::outcome("E0608", format!("a thread to write checkpoints cannot be started: {e}")))?;
        let (block, staging) = (Some(vec![0; end]), vec![0; longest]);
        Ok(RankWriter { shards: placed, staging, block, returned, jobs: Some(jobs), thread: Some(thread), bytes: end + longest })
    }

    /// Memory it holds beside the arena.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies the rank's shards aside, as they are after `step` steps, and leaves them to its thread, which writes them to a file in `folder`.
    pub fn snapshot(&mut self, device: &dyn Device, step: u64, folder: &Arc<Path>) {
        // The thread gives the block back after every job, so the second case ends.
        let Some(mut data) = self.block.take().or_else(|| self.returned.recv().ok()) else { return };
        for (shard, range, copy) in &self.shards {
            let Some(copy) = copy else {
                device.read(shard.offset, &mut data[range.clone()]);
                continue;
            };
            let local = &mut self.staging[..shard.local_bytes()];
            device.read(shard.offset, local);
            // SAFETY: the copy was planned from a buffer of `local`'s shape to a block of `range`'s length.
            unsafe { copy.run(local.as_ptr(), data[range.clone()].as_mut_ptr()) };
        }
        if let Some(jobs) = &self.jobs {
            // The thread ends only when this is dropped.
            let _ = jobs.send(Job { step, folder: folder.clone(), data });
        }
    }
}

impl Drop for RankWriter {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was told by the part that never came.
            let _ = thread.join();
        }
    }
}

/// The file's first bytes: the length of the header and the header.
fn header(shards: &[(Shard, Range<usize>, Option<StridedCopy>)]) -> Result<Vec<u8>> {
    let entry = |(shard, range, _): &(Shard, Range<usize>, Option<StridedCopy>)| {
        let dtype = to_file(shard.dtype).expect("invariant: the layout has types that files have");
        let shape = shard.extent.iter().map(|n| *n as usize).collect();
        (shard.name(), TensorInfo { dtype, shape, data_offsets: (range.start, range.end) })
    };
    let failed = |e: String| Diagnostic::outcome("E0634", format!("the state cannot be saved as safetensors: {e}"));
    let metadata = Metadata::new(None, shards.iter().map(entry).collect()).map_err(|e| failed(e.to_string()))?;
    let mut text = serde_json::to_vec(&metadata).map_err(|e| failed(e.to_string()))?;
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut text);
    Ok(bytes)
}

/// The part with all that is known before data are: their checksums are missing.
fn part(rank: u32, header: &[u8], shards: &[(Shard, Range<usize>, Option<StridedCopy>)]) -> Part {
    let data = shards.last().map_or(0, |(_, range, _)| range.end as u64);
    let header_bytes = header.len() as u64;
    let file = PartFile { name: file_name(rank), bytes: header_bytes + data, header_bytes, header_blake3: blake3::hash(header).to_hex().to_string() };
    let shard = |(s, range, _): &(Shard, Range<usize>, Option<StridedCopy>)| PartShard {
        argument: s.argument,
        start: s.start.clone(),
        extent: s.extent.clone(),
        offset: header_bytes + range.start as u64,
        bytes: range.len() as u64,
        blake3: String::new(),
    };
    Part { rank, file: (!shards.is_empty()).then_some(file), shards: shards.iter().map(shard).collect() }
}

/// Writes a rank's file and sees it to the disk.
fn write(job: &Job, header: &[u8], part: &Part, ranges: &[Range<usize>]) -> std::result::Result<Part, String> {
    let mut part = part.clone();
    let Some(file) = &part.file else { return Ok(part) };
    let path = job.folder.join(&file.name);
    let written = (|| -> io::Result<()> {
        std::fs::create_dir_all(&job.folder)?;
        let mut file = File::create(&path)?;
        file.write_all(header)?;
        file.write_all(&job.data)?;
        file.sync_all()
    })();
    written.map_err(|e| reason(&path, &e))?;
    for (shard, range) in part.shards.iter_mut().zip(ranges) {
        shard.blake3 = blake3::hash(&job.data[range.clone()]).to_hex().to_string();
    }
    Ok(part)
}

/// Why a file could not be written, in words.
pub(super) fn reason(path: &Path, e: &io::Error) -> String {
    format!("{}: {e}", PathBuf::from(path.file_name().unwrap_or(path.as_os_str())).display())
}
