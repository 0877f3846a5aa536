//! Continuing from a checkpoint: the newest whole one is found, it is held against the plan, and its shards become whole tensors again.
//!
//! A checkpoint is believed when its manifest's checksum, the length and header of every file and the checksum of every shard are right; one that is not is
//! passed over, and what is wrong with it is said. State is matched by argument number, global shape and element type, and by name where both sides have names
//! of their own, so the plan may be any plan of the same step.

use super::layout::place;
use super::manifest::{self, Manifest, ShardEntry, TensorEntry, argument_name};
use super::store::{checkpoints, unfinished};
use crate::strided::StridedCopy;
use crate::tensor::Tensor;
use ir::dtype::row_major_strides;
use ir::plan::Plan;
use ir::{DType, Diagnostic, Result, TensorType};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A checkpoint on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its folder.
    pub folder: PathBuf,
    /// What it holds.
    pub manifest: Manifest,
}

/// Bytes that are read at a time to compare checksums.
const CHUNK: usize = 1 << 20;

impl Checkpoint {
    /// Reads the manifest of a checkpoint; what is wrong with it, in words, otherwise. Its files are not looked at.
    ///
    /// # Errors
    /// When there is no manifest that can be believed.
    pub fn open(folder: &Path) -> std::result::Result<Checkpoint, String> {
        let text = match std::fs::read(folder.join(manifest::FILE)) {
            Ok(bytes) => String::from_utf8(bytes).map_err(|_| format!("{} is damaged: it is no text", manifest::FILE))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(format!("{} is missing", manifest::FILE)),
            Err(e) => return Err(format!("{} cannot be read: {e}", manifest::FILE)),
        };
        Ok(Checkpoint { folder: folder.to_path_buf(), manifest: Manifest::from_text(&text)? })
    }

    /// Compares every checksum; says what is wrong first.
    ///
    /// # Errors
    /// When a file is missing, has another length, or holds other bytes than were written.
    pub fn verify(&self) -> std::result::Result<(), String> {
        let mut chunk = vec![0; CHUNK];
        for f in &self.manifest.files {
            let path = self.folder.join(&f.name);
            let unreadable = |e: io::Error| match e.kind() {
                io::ErrorKind::NotFound => format!("{} is missing", f.name),
                _ => format!("{} cannot be read: {e}", f.name),
            };
            let mut file = File::open(&path).map_err(unreadable)?;
            let length = file.metadata().map_err(unreadable)?.len();
            if length != f.bytes {
                return Err(format!("{} has {length} bytes and should have {}", f.name, f.bytes));
            }
            if hash(&mut file, f.header_bytes, &mut chunk).map_err(unreadable)? != f.header_blake3 {
                return Err(format!("{} is damaged: the checksum of its header does not match", f.name));
            }
            let mut shards: Vec<(&TensorEntry, &ShardEntry)> =
                self.manifest.tensors.iter().flat_map(|t| t.shards.iter().map(move |s| (t, s))).filter(|(_, s)| s.file == f.name).collect();
            shards.sort_by_key(|(_, s)| s.offset);
            for (t, s) in shards {
                file.seek(SeekFrom::Start(s.offset)).map_err(unreadable)?;
                if hash(&mut file, s.bytes, &mut chunk).map_err(unreadable)? != s.blake3 {
                    return Err(format!("{} is damaged: the checksum of arg{} ({}) does not match", f.name, t.argument, t.name));
                }
            }
        }
        Ok(())
    }

    /// The newest whole checkpoint of a folder, with notes on those that were passed over; a folder that is a checkpoint itself is taken as it is.
    ///
    /// # Errors
    /// `E0630` when the folder cannot be read, `E0661` when it holds no whole checkpoint.
    pub fn newest(folder: &Path) -> Result<(Checkpoint, Vec<Diagnostic>)> {
        let unreadable = |e: io::Error| Diagnostic::input("E0630", format!("{} cannot be read: {e}", folder.display())).with_help(NAME_A_FOLDER);
        let mut candidates: Vec<PathBuf> = checkpoints(folder).map_err(unreadable)?.into_iter().map(|(_, path)| path).collect();
        let mut wrong: Vec<(PathBuf, String)> =
            unfinished(folder).map_err(unreadable)?.into_iter().map(|path| (path, "it was not finished".to_string())).collect();
        if candidates.is_empty() && folder.join(manifest::FILE).exists() {
            candidates.push(folder.to_path_buf());
        }
        for path in candidates {
            match Checkpoint::open(&path).and_then(|c| c.verify().map(|()| c)) {
                Ok(checkpoint) => {
                    let skipped = |(path, why): &(PathBuf, String)| Diagnostic::warning("W0661", format!("{} is passed over: {why}", path.display()));
                    return Ok((checkpoint, wrong.iter().map(skipped).collect()));
                }
                Err(why) => wrong.push((path, why)),
            }
        }
        let mut d = Diagnostic::input("E0661", format!("{} holds no whole checkpoint", folder.display()));
        for (path, why) in &wrong {
            d = d.with_note(format!("{}: {why}", path.display()));
        }
        Err(d.with_help(NAME_A_FOLDER).into())
    }

    /// Refuses a plan of another step than the one that was saved.
    ///
    /// # Errors
    /// `E0662` with the first difference.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        let refused = |difference: String| {
            let d = Diagnostic::input("E0662", format!("the checkpoint of step {} is of another model: {difference}", self.manifest.step));
            let d = d.with_note(format!("it is {}, saved from {}", self.folder.display(), self.manifest.model));
            d.with_help("continue with a plan of the model that was saved; strategy, mesh, stages and cluster may differ").into()
        };
        let types = super::argument_types(plan);
        let mut state: Vec<(u32, u32)> = plan.interface.state.clone();
        state.sort_unstable();
        for i in 0..types.len().max(self.manifest.tensors.last().map_or(0, |t| t.argument as usize + 1)) as u32 {
            let saved = self.manifest.tensors.iter().find(|t| t.argument == i);
            let wanted = state.iter().find(|(argument, _)| *argument == i).map(|(_, result)| *result);
            match (saved, wanted) {
                (None, None) => {}
                (Some(t), None) => return Err(refused(format!("it holds arg{i} ({}), which is no state of the plan's step", t.name))),
                (None, Some(_)) => return Err(refused(format!("arg{i} ({}) is state of the plan's step and is not in it", argument_name(plan, i)))),
                (Some(t), Some(result)) => {
                    let (name, ty) = (argument_name(plan, i), &types[i as usize]);
                    if t.shape != ty.shape || t.dtype != ty.dtype.name() {
                        return Err(refused(format!("arg{i} ({}) is {} in it and {ty} in the plan", t.name, saved_type(t))));
                    }
                    if t.name != name && !is_position(&t.name) && !is_position(&name) {
                        return Err(refused(format!("arg{i} is called {} in it and {name} in the plan", t.name)));
                    }
                    if t.result != result {
                        return Err(refused(format!("arg{i} ({name}) becomes result {} in it and result {result} in the plan", t.result)));
                    }
                }
            }
        }
        Ok(())
    }

    /// The arguments that it holds.
    pub fn arguments(&self) -> impl Iterator<Item = u32> {
        self.manifest.tensors.iter().map(|t| t.argument)
    }

    /// A state tensor as a whole.
    ///
    /// # Errors
    /// `E0661` when it cannot be read any more, or is not what was verified.
    pub fn tensor(&self, argument: u32) -> Result<Tensor> {
        let damaged = |what: String| {
            let d = Diagnostic::input("E0661", format!("{} is no whole checkpoint: {what}", self.folder.display()));
            ir::Diagnostics::from(d.with_help(NAME_A_FOLDER))
        };
        let t = self.manifest.tensors.iter().find(|t| t.argument == argument).ok_or_else(|| damaged(format!("arg{argument} is not in it")))?;
        let dtype = DType::from_name(&t.dtype).ok_or_else(|| damaged(format!("arg{argument} is of type {}", t.dtype)))?;
        let mut tensor = Tensor::zeros(TensorType::new(dtype, t.shape.clone()));
        let element = dtype.bytes() as usize;
        let mut bytes = Vec::new();
        for s in &t.shards {
            bytes.resize(s.bytes as usize, 0);
            let read = File::open(self.folder.join(&s.file)).and_then(|mut f| {
                f.seek(SeekFrom::Start(s.offset))?;
                f.read_exact(&mut bytes)
            });
            read.map_err(|e| damaged(format!("{} cannot be read: {e}", s.file)))?;
            if blake3::hash(&bytes).to_hex().as_str() != s.blake3 {
                return Err(damaged(format!("the checksum of arg{argument} in {} does not match", s.file)));
            }
            let (first, outer) = place(&t.view, &s.start);
            let signed = |strides: Vec<u64>| strides.into_iter().map(|s| s as i64).collect::<Vec<_>>();
            let copy = StridedCopy::new(&s.extent, &signed(row_major_strides(&s.extent)), &signed(outer), element);
            let copy = copy.ok_or_else(|| damaged(format!("arg{argument} has too many dimensions")))?;
            if !bytes.is_empty() {
                // SAFETY: the manifest was checked when it was read: a shard lies inside the view, which has as many elements as the tensor.
                unsafe { copy.run(bytes.as_ptr(), tensor.bytes.as_mut_ptr().add(first as usize * element)) };
            }
        }
        Ok(tensor)
    }
}

const NAME_A_FOLDER: &str = "name a folder that `run --save DIR --save-every K` wrote; without `--resume` the run begins anew";

/// Whether a name says no more than a position, as `%arg7` does.
fn is_position(name: &str) -> bool {
    let digits = name.trim_start_matches('%').trim_start_matches("arg");
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

fn saved_type(t: &TensorEntry) -> String {
    DType::from_name(&t.dtype).map_or_else(|| t.dtype.clone(), |d| TensorType::new(d, t.shape.clone()).to_string())
}

fn hash(file: &mut File, mut left: u64, chunk: &mut [u8]) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    while left > 0 {
        let n = left.min(chunk.len() as u64) as usize;
        file.read_exact(&mut chunk[..n])?;
        hasher.update(&chunk[..n]);
        left -= n as u64;
    }
    Ok(hasher.finalize().to_hex().to_string())
}
