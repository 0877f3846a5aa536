//! NVIDIA's assembler, which says what registers and memory the entries of a module take. Plans are made without it.

use super::target::CudaTarget;
use crate::error::Error;
use crate::link::Folder;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What one entry takes once it is assembled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    /// The entry.
    pub entry: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes that a thread stores to and loads from its stack because registers do not suffice.
    pub spills: u32,
    /// Bytes of a thread's stack.
    pub stack: u32,
    /// Bytes of shared memory that the entry declares.
    pub shared: u32,
}

/// Where `ptxas` is: `$SHARDWRIGHT_PTXAS`, else on the `PATH`, else where `make setup` puts it.
pub fn ptxas() -> Option<PathBuf> {
    if let Some(named) = env::var_os("SHARDWRIGHT_PTXAS") {
        return Some(PathBuf::from(named));
    }
    let on_path = env::var_os("PATH").and_then(|path| env::split_paths(&path).map(|p| p.join("ptxas")).find(|p| p.is_file()));
    on_path.or_else(|| installed().filter(|p| p.is_file()))
}

/// Where `make setup` puts it.
fn installed() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|c| !c.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))?;
    Some(cache.join("shardwright/cuda/nvidia/cu13/bin/ptxas"))
}

/// Assembles a module; what its entries take, in the module's order.
///
/// # Errors
/// [`Error::Ptxas`] where the assembler cannot be started or refuses the module.
pub fn assemble(ptxas: &Path, ptx: &str, target: CudaTarget) -> Result<Vec<Assembled>, Error> {
    let failed = |e: std::io::Error| Error::Ptxas(format!("{}: {e}", ptxas.display()));
    let folder = Folder::new().map_err(failed)?;
    fs::write(folder.path().join("kernels.ptx"), ptx).map_err(failed)?;
    let mut command = Command::new(ptxas);
    command.current_dir(folder.path()).args(["-v", "-arch", target.level(), "kernels.ptx", "-o", "kernels.cubin"]);
    let output = command.output().map_err(failed)?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(Error::Ptxas(text.lines().take(8).collect::<Vec<_>>().join("; ")));
    }
    Ok(entries(&text))
}

fn entries(text: &str) -> Vec<Assembled> {
    let mut entries: Vec<Assembled> = Vec::new();
    // The number before a phrase, as in `16 bytes spill stores`.
    let before = |line: &str, phrase: &str| -> u32 {
        let Some(at) = line.find(phrase) else { return 0 };
        line[..at].trim_end().rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    for line in text.lines() {
        if let Some(at) = line.find("Compiling entry function '") {
            let name = line[at..].split('\'').nth(1).unwrap_or_default();
            entries.push(Assembled { entry: name.to_owned(), ..Assembled::default() });
        }
        let Some(entry) = entries.last_mut() else { continue };
        if line.contains("bytes stack frame") {
            entry.stack = before(line, " bytes stack frame");
            entry.spills = before(line, " bytes spill stores") + before(line, " bytes spill loads");
        }
        if line.contains("Used ") {
            entry.registers = before(line, " registers");
            entry.shared = before(line, " bytes smem");
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_entries_take_is_read() {
        let text = "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'k1' for 'sm_80'\nptxas info    : Function properties for k1\n\
            \x20   32 bytes stack frame, 24 bytes spill stores, 16 bytes spill loads\n\
            ptxas info    : Used 23 registers, used 1 barriers, 128 bytes smem, 376 bytes cmem[0]\n\
            ptxas info    : Compiling entry function 'k2' for 'sm_80'\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Used 8 registers, used 0 barriers\n";
        let taken = |entry: &str, registers, spills, stack, shared| Assembled { entry: entry.to_owned(), registers, spills, stack, shared };
        assert_eq!(entries(text), [taken("k1", 23, 40, 32, 128), taken("k2", 8, 0, 0, 0)]);
    }
}
