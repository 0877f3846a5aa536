//! Running the command as a user does, with its time and the most memory it had.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A finished command.
#[allow(dead_code, reason = "not every benchmark tells all of it")]
pub(crate) struct Child {
    pub(crate) seconds: f64,
    /// The most resident memory that was seen, in KiB.
    pub(crate) peak: u64,
    pub(crate) output: String,
}

/// Runs a command to its end, watching its memory.
pub(crate) fn run(command: &mut Command) -> Result<Child, String> {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| format!("{command:?}: {e}"))?;
    let mut pipe = child.stdout.take().expect("invariant: standard output is piped");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).map(|_| text)
    });
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let status = loop {
        // The high-water mark of the kernel: it is lost with the process, so it is read until the end.
        if let Ok(text) = std::fs::read_to_string(&status_file) {
            let mark = text.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
            peak = peak.max(mark.unwrap_or(0));
        }
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(3));
    };
    let seconds = began.elapsed().as_secs_f64();
    let output = reader.join().expect("invariant: the reader does not panic").map_err(|e| e.to_string())?;
    if status.success() { Ok(Child { seconds, peak, output }) } else { Err(format!("{command:?}: {status}")) }
}

/// The command under measurement.
pub(crate) fn shardwright() -> Command {
    Command::new(env!("CARGO_BIN_EXE_shardwright"))
}

/// Prints a line of the result.
#[allow(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
pub(crate) fn report(line: &str) {
    println!("{line}");
}
