//! Where processes of one machine meet when their launcher says nothing about it: a small file that only this user can read.
//!
//! Rank 0's process writes the address that it listens at and a random secret; the others wait for it. Who finds what an earlier run left is not let in
//! there, and looks again.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file; it goes when this is dropped.
#[derive(Debug)]
pub struct Meeting(PathBuf);

/// Where the processes of a job meet, by what names the job.
pub fn path(job: &str) -> PathBuf {
    let name: String = blake3::hash(job.as_bytes()).to_hex().chars().take(16).collect();
    folder().join(name)
}

fn folder() -> PathBuf {
    // SAFETY: the call has no conditions.
    let user = unsafe { libc::geteuid() };
    std::env::temp_dir().join(format!("shardwright-{user}"))
}

/// Refuses a folder that another user made in our place.
fn check(folder: &Path) -> io::Result<()> {
    // SAFETY: the call has no conditions.
    let user = unsafe { libc::geteuid() };
    let found = fs::symlink_metadata(folder)?;
    let ours = found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0;
    if ours { Ok(()) } else { Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} is not a private folder of this user", folder.display()))) }
}

impl Meeting {
    /// Says where rank 0's process listens, and the secret.
    ///
    /// # Errors
    /// When the file cannot be written, or its folder is not this user's alone.
    pub fn announce(path: &Path, address: &str, secret: &str) -> io::Result<Meeting> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => check(folder)?,
        }
        let temporary = path.with_extension(format!("{}.part", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(format!("{address}\n{secret}\n").as_bytes())?;
        fs::rename(&temporary, path)?;
        Ok(Meeting(path.to_path_buf()))
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        // Another run with the same name overwrites what stays.
        let _ = fs::remove_file(&self.0);
    }
}

/// The address and the secret that rank 0's process has announced, if it has.
pub fn read(path: &Path) -> Option<(String, String)> {
    check(path.parent()?).ok()?;
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines().map(String::from);
    Some((lines.next()?, lines.next()?))
}
