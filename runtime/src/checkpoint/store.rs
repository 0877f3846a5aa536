//! The folder of a run's checkpoints: how one appears in it, and how old ones go.
//!
//! `step-00000012` is a checkpoint. While it is written it is `.step-00000012.part`; when its files, its manifest and the folder itself are on disk it is
//! renamed, which is the one moment it becomes visible. An old one is renamed to `.step-00000004.old` before it is removed, so a name of a checkpoint is never
//! that of half of one. One run at a time saves to a folder: it holds a lock, which the system lets go when the process ends, however it ends.

use super::manifest::{self, Manifest};
use super::restore::Checkpoint;
use super::writer::reason;
use ir::{Diagnostic, Result};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where one run saves.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    keep: usize,
    /// Held as long as the run may save; only the process of rank 0 has it.
    _lock: Option<File>,
}

const LOCK: &str = ".lock";

/// The name of a checkpoint.
pub fn name(step: u64) -> String {
    format!("step-{step:08}")
}

/// The step of a checkpoint's name.
fn step_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("step-")?;
    if digits.len() >= 8 && digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// The folders in `folder` that have a checkpoint's name, newest first.
///
/// # Errors
/// When the folder cannot be listed.
pub fn checkpoints(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(step) = entry.file_name().to_str().and_then(step_of) {
            found.push((step, entry.path()));
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    Ok(found)
}

/// What a run that ended early left in `folder`: parts of checkpoints, and checkpoints being removed.
pub fn unfinished(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.strip_prefix('.').and_then(|n| n.strip_suffix(".part").or(n.strip_suffix(".old"))).is_some_and(|n| step_of(n).is_some()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

impl Store {
    /// Takes a folder for the checkpoints of a run that begins at `from` (or at step 0), makes it where it is missing, and clears away what a run left unfinished.
    ///
    /// Checkpoints after the one that the run continues from could not be read by it; they are set aside, which the notes say.
    ///
    /// # Errors
    /// `E0660` when the folder cannot be used, `E0663` when it holds checkpoints that this run does not continue, `E0664` when another run saves there.
    pub fn open(folder: &Path, keep: usize, from: Option<&Checkpoint>) -> Result<(Store, Vec<Diagnostic>)> {
        let failed = |e: io::Error| {
            let d = Diagnostic::input("E0660", format!("checkpoints cannot be kept in {}: {e}", folder.display()));
            d.with_help("name a folder that may be written with `--save`")
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::create(folder.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(Diagnostic::input("E0664", format!("another run is saving to {}", folder.display()))
                    .with_help("wait for it, or name another folder with `--save`")
                    .into());
            }
            // A file system without locks: the user sees to it that one run saves there.
            Err(std::fs::TryLockError::Error(_)) => {}
        }
        let mut notes = Vec::new();
        let later = |step: u64| from.is_none_or(|c| step > c.manifest.step);
        let same_place = from.is_some_and(|c| c.folder.parent().and_then(|p| p.canonicalize().ok()) == folder.canonicalize().ok());
        for (step, path) in checkpoints(folder).map_err(failed)? {
            if !same_place || (later(step) && Checkpoint::open(&path).and_then(|c| c.verify()).is_ok()) {
                let what = match from {
                    Some(c) => format!("this run continues from step {}", c.manifest.step),
                    None => "this run begins anew".into(),
                };
                return Err(Diagnostic::input("E0663", format!("{} holds the checkpoint of step {step}, and {what}", folder.display()))
                    .with_help("continue from it with `--resume`, name another folder with `--save`, or move it away")
                    .into());
            }
            if later(step) {
                let aside = (0u32..).map(|n| folder.join(if n == 0 { format!("damaged-{}", name(step)) } else { format!("damaged-{}.{n}", name(step)) }));
                let aside = aside.into_iter().find(|p| !p.exists()).expect("invariant: there are more numbers than folders");
                std::fs::rename(&path, &aside).map_err(failed)?;
                notes.push(Diagnostic::note("N0660", format!("the damaged checkpoint of step {step} is set aside as {}", aside.display())));
            }
        }
        for path in unfinished(folder).map_err(failed)? {
            std::fs::remove_dir_all(&path).map_err(failed)?;
        }
        Ok((Store { folder: folder.to_path_buf(), keep: keep.max(1), _lock: Some(lock) }, notes))
    }

    /// The same folder in a process that does not hold rank 0: it neither locks nor clears it.
    pub fn join(folder: &Path) -> Store {
        Store { folder: folder.to_path_buf(), keep: usize::MAX, _lock: None }
    }

    /// Where the checkpoint of a step is or will be.
    pub fn place(&self, step: u64) -> PathBuf {
        self.folder.join(name(step))
    }

    /// Where the parts of a step's checkpoint are written.
    pub fn parts(&self, step: u64) -> PathBuf {
        self.folder.join(format!(".{}.part", name(step)))
    }

    /// Makes a checkpoint visible whose files are all on disk, and removes those that are too many; what could not be removed is said.
    ///
    /// # Errors
    /// Why it is not visible, in words.
    pub fn publish(&self, manifest: &Manifest) -> std::result::Result<Option<String>, String> {
        let (parts, place) = (self.parts(manifest.step), self.place(manifest.step));
        let text = manifest.to_text();
        let path = parts.join(manifest::FILE);
        let written = (|| {
            std::fs::create_dir_all(&parts)?;
            let mut file = File::create(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            File::open(&parts)?.sync_all()
        })();
        written.map_err(|e| reason(&path, &e))?;
        let renamed = (|| {
            if place.exists() {
                self.remove(manifest.step)?;
            }
            std::fs::rename(&parts, &place)?;
            File::open(&self.folder)?.sync_all()
        })();
        renamed.map_err(|e| reason(&place, &e))?;
        Ok(self.prune(manifest.step).err().map(|e| format!("an old checkpoint cannot be removed: {e}")))
    }

    /// Removes what was written of a checkpoint that will not be finished.
    pub fn discard(&self, step: u64) {
        // What stays is cleared away when the next run opens the folder.
        let _ = std::fs::remove_dir_all(self.parts(step));
    }

    fn prune(&self, newest: u64) -> io::Result<()> {
        let old = checkpoints(&self.folder)?;
        old.into_iter().filter(|(step, _)| *step <= newest).skip(self.keep).try_for_each(|(step, _)| self.remove(step))
    }

    fn remove(&self, step: u64) -> io::Result<()> {
        let gone = self.folder.join(format!(".{}.old", name(step)));
        if gone.exists() {
            std::fs::remove_dir_all(&gone)?;
        }
        std::fs::rename(self.place(step), &gone)?;
        std::fs::remove_dir_all(&gone)
    }
}
