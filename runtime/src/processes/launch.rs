//! Starting the processes of a run on this machine, seeing them to their end, and leaving none behind.
//!
//! Rank 0's process inherits the terminal and the socket that the others join at; the others write to log files. All of them die with this process. When one
//! fails the others are given the time that they need to notice, and are then killed.

use super::environment::ours;
use super::handshake::Secret;
use ir::Diagnostic;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often children are looked at.
const LOOK: Duration = Duration::from_millis(10);

/// What is to be started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, of every process the same.
    pub arguments: Vec<OsString>,
    /// How many processes.
    pub processes: u32,
    /// Where logs go.
    pub logs: PathBuf,
    /// How long processes have to notice that another has failed.
    pub grace: Duration,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// By process.
    pub statuses: Vec<ExitStatus>,
    /// The process that failed first.
    pub first: Option<u32>,
    /// Which were killed here, because they did not end.
    pub killed: Vec<u32>,
}

impl Ended {
    /// Whether all did what they should.
    pub fn success(&self) -> bool {
        self.statuses.iter().all(ExitStatus::success)
    }
}

/// How a process ended, in words.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        _ => "ended".into(),
    }
}

/// The log of a process.
pub fn log_file(logs: &Path, process: u32) -> PathBuf {
    logs.join(format!("process-{process:04}.log"))
}

/// Children that are killed when this is dropped, so that none is left behind on any path.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A child that was waited for is not killed again.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts all processes and waits until they have ended. To be called on the first thread: children die with the thread that started them.
///
/// # Errors
/// `E0657` when one cannot be started.
pub fn run(launch: &Launch) -> Result<Ended, Diagnostic> {
    let failed = |what: &str, e: io::Error| Diagnostic::outcome("E0657", format!("{what}: {e}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| failed("no port for the ranks to meet at", e))?;
    let address = listener.local_addr().map_err(|e| failed("no port for the ranks to meet at", e))?;
    let secret = Secret::random_text().map_err(|e| failed("no random secret", e))?;
    let mut children = Children(Vec::new());
    for process in 0..launch.processes {
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments);
        command.env(ours::PROCESS, process.to_string()).env(ours::PROCESSES, launch.processes.to_string());
        command.env(ours::RENDEZVOUS, address.to_string()).env(ours::SECRET, &secret);
        let inherited = (process == 0).then(|| listener.as_raw_fd());
        if let Some(socket) = inherited {
            command.env(ours::LISTENER, socket.to_string());
        } else {
            let path = log_file(&launch.logs, process);
            let log = File::create(&path).and_then(|f| Ok((f.try_clone()?, f)));
            let (out, err) = log.map_err(|e| failed(&format!("the log {} cannot be written", path.display()), e))?;
            command.stdin(Stdio::null()).stdout(out).stderr(err);
        }
        let parent = std::process::id();
        // SAFETY: between fork and exec only calls that are safe there are made.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // The parent may have ended before that.
                if libc::getppid() as u32 != parent {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                if let Some(socket) = inherited {
                    libc::fcntl(socket, libc::F_SETFD, 0);
                }
                Ok(())
            });
        }
        let child = command.spawn().map_err(|e| failed(&format!("process {process} cannot be started"), e))?;
        children.0.push(child);
    }
    drop(listener);
    wait(children, launch.grace)
}

fn wait(mut children: Children, grace: Duration) -> Result<Ended, Diagnostic> {
    let mut statuses: Vec<Option<ExitStatus>> = children.0.iter().map(|_| None).collect();
    let (mut first, mut killed) = (None, Vec::new());
    let mut end: Option<Instant> = None;
    while statuses.iter().any(Option::is_none) {
        for (i, child) in children.0.iter_mut().enumerate().filter(|(i, _)| statuses[*i].is_none()).collect::<Vec<_>>() {
            let status = child.try_wait().map_err(|e| Diagnostic::outcome("E0657", format!("process {i} cannot be waited for: {e}")))?;
            if let Some(status) = status {
                statuses[i] = Some(status);
                if !status.success() && first.is_none() {
                    first = Some(i as u32);
                    end = Some(Instant::now() + grace);
                }
                // When rank 0's process has said what it had to say, the others have little left to do.
                if i == 0 {
                    let soon = Instant::now() + Duration::from_secs(if status.success() { 30 } else { 3 });
                    end = Some(end.map_or(soon, |e| e.min(soon)));
                }
            }
        }
        if end.is_some_and(|e| Instant::now() >= e) {
            for (i, child) in children.0.iter_mut().enumerate().filter(|(i, _)| statuses[*i].is_none()) {
                killed.push(i as u32);
                let _ = child.kill();
            }
            end = None;
        }
        std::thread::sleep(LOOK);
    }
    Ok(Ended { statuses: statuses.into_iter().flatten().collect(), first, killed })
}

/// The socket that rank 0's process has inherited from [`run`].
///
/// # Errors
/// `E0650` when the variable names none.
pub fn inherited(number: &str) -> Result<TcpListener, Diagnostic> {
    use std::os::fd::FromRawFd;
    let wrong = || Diagnostic::input("E0650", format!("{}={number} is no socket", ours::LISTENER)).with_help("it is set by `run -n` and nobody else");
    let socket: i32 = number.parse().map_err(|_| wrong())?;
    // SAFETY: the call looks at a number and nothing else.
    if socket < 3 || unsafe { libc::fcntl(socket, libc::F_GETFD) } < 0 {
        return Err(wrong());
    }
    // SAFETY: the descriptor is open, and this process has been given it to own.
    let listener = unsafe { TcpListener::from_raw_fd(socket) };
    listener.local_addr().map_err(|_| wrong())?;
    Ok(listener)
}
