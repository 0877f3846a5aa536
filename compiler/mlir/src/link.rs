//! Links object files into one shared object that imports nothing.

use crate::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Linkers in order of preference: name and the arguments that make it link a shared object.
const LINKERS: &[(&str, &[&str])] = &[
    ("ld.lld-22", &["-m", "elf_x86_64", "--no-rosegment"]),
    ("ld.lld", &["-m", "elf_x86_64", "--no-rosegment"]),
    ("ld", &["-m", "elf_x86_64"]),
    ("cc", &["-nostdlib", "-Wl,--build-id=none", "-Wl,-z,defs", "-Wl,--strip-all"]),
];

/// The shared object of `objects`, byte for byte the same for the same objects.
pub(crate) fn shared_object(objects: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
    let folder = Folder::new().map_err(|e| Error::Link(format!("a temporary folder: {e}")))?;
    let mut inputs = Vec::new();
    for (n, object) in objects.iter().enumerate() {
        let path = folder.0.join(format!("{n}.o"));
        fs::write(&path, object).map_err(|e| Error::Link(format!("{}: {e}", path.display())))?;
        inputs.push(format!("{n}.o"));
    }
    for (name, arguments) in LINKERS {
        let mut command = Command::new(name);
        command.current_dir(&folder.0).args(*arguments);
        if *name != "cc" {
            command.args(["--build-id=none", "-z", "defs", "--strip-all", "--hash-style=gnu"]);
        }
        command.args(["-shared", "-o", "kernels.so"]).args(&inputs);
        match command.output() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(Error::Link(format!("{name}: {e}"))),
            Ok(output) if !output.status.success() => return Err(Error::Link(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))),
            Ok(_) => return fs::read(folder.0.join("kernels.so")).map_err(|e| Error::Link(format!("{name} wrote no object: {e}"))),
        }
    }
    Err(Error::Link("no linker found; install lld (package lld-22) or a C compiler".to_owned()))
}

/// A folder of our own, removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
    pub(crate) fn new() -> io::Result<Folder> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!("shardwright-kernels-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path: PathBuf = Path::new(&std::env::temp_dir()).join(name);
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left behind in the system's temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
