//! `run` with ranks in several processes: who this process is, how it joins the others, and what is said when they fail.

use crate::diagnostics::Terminal;
use ir::plan::Plan;
use ir::{Diagnostic, Result};
use runtime::checkpoint::manifest::plan_hash;
use runtime::processes::control::{Control, Watch};
use runtime::processes::environment::{Found, Launcher, detect, ours};
use runtime::processes::handshake::Secret;
use runtime::processes::launch::{self, Ended, Launch};
use runtime::processes::meeting::{self, Meeting};
use runtime::processes::rendezvous::{self, Joined, Terms};
use runtime::processes::{Place, flight};
use runtime::transport::remote::Remote;
use runtime::transport::tcp::Tcp;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Whether this build can carry data through MPI.
const HAS_MPI: bool = cfg!(feature = "mpi");

/// What carries data between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CarrierKind {
    /// Connections of our own.
    Tcp,
    /// MPI, where mpirun has started the ranks and the build has it.
    Mpi,
}

/// Flags of runs with several processes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Flags {
    /// Start so many processes on this machine, each with an equal number of ranks.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) processes: Option<u32>,
    /// Where rank 0 listens and the others join, for ranks that a launcher starts; the secret is SHARDWRIGHT_SECRET.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "processes")]
    pub(crate) rendezvous: Option<String>,
    /// What carries data between processes; by default MPI under mpirun where this build has it, else TCP.
    #[arg(long, value_name = "KIND", value_enum)]
    carrier: Option<CarrierKind>,
    /// The folder for logs and flight records of all ranks; by default a fresh one.
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    /// How many seconds a process may be silent before it counts as lost.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) fault_timeout: f64,
    /// How many seconds ranks wait for one another to join.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub(crate) join_timeout: f64,
}

impl Flags {
    fn fault(&self) -> Duration {
        Duration::from_secs_f64(self.fault_timeout)
    }
    fn join(&self) -> Duration {
        Duration::from_secs_f64(self.join_timeout)
    }
    /// Refuses times that are none.
    ///
    /// # Errors
    /// `E0409`.
    pub(crate) fn check(&self) -> Result<()> {
        for (flag, value, low) in [("--fault-timeout", self.fault_timeout, 0.2), ("--join-timeout", self.join_timeout, 0.0)] {
            if !(value.is_finite() && value > low && value <= 1e6) {
                return Err(Diagnostic::input("E0409", format!("`{flag} {value}` is no time to wait"))
                    .with_help(format!("give more than {low} seconds"))
                    .into());
            }
        }
        Ok(())
    }
}

/// What this process is.
pub(crate) enum Role {
    /// The only one.
    Alone,
    /// It starts all others and waits for them.
    Launcher(u32),
    /// One of several.
    Member(Found),
}

/// Finds out what this process is.
///
/// # Errors
/// `E0650` when a launcher's variables make no sense.
pub(crate) fn role(flags: &Flags) -> Result<Role> {
    // Empty variables count as unset, as launchers' scripts leave them.
    let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.trim().is_empty());
    let inner = variable(ours::PROCESS).is_some();
    match flags.processes.filter(|_| !inner) {
        Some(n) => Ok(Role::Launcher(n)),
        None => Ok(detect(&variable, std::os::unix::process::parent_id())?.map_or(Role::Alone, Role::Member)),
    }
}

/// The processes that a plan's ranks are split over.
///
/// # Errors
/// `E0656` when they cannot be split evenly.
pub(crate) fn split(plan: &Plan, processes: u32) -> Result<()> {
    let ranks = plan.ranks();
    if ranks.is_multiple_of(processes) {
        return Ok(());
    }
    let even: Vec<String> = (1..=ranks).filter(|n| ranks % n == 0).map(|n| n.to_string()).collect();
    let d = Diagnostic::input("E0656", format!("`-n {processes}`: the plan's {ranks} ranks cannot be split evenly over {processes} processes"));
    Err(d.with_help(format!("give one of {}", even.join(", "))).into())
}

/// The folder for logs: as named, or a fresh one, and whether it is fresh.
fn log_folder(flags: &Flags) -> Result<(PathBuf, bool)> {
    let failed = |path: &Path, e: std::io::Error| {
        Diagnostic::input("E0657", format!("logs cannot be kept in {}: {e}", path.display())).with_help("name a folder that may be written with `--log-dir`")
    };
    if let Some(folder) = &flags.log_dir {
        std::fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
        return Ok((folder.clone(), false));
    }
    let base = std::env::temp_dir();
    let name = Secret::random_text().map_err(|e| failed(&base, e))?;
    let folder = base.join(format!("shardwright-run-{}", &name[..12]));
    std::fs::create_dir(&folder).map_err(|e| failed(&folder, e))?;
    Ok((folder, true))
}

/// Removes records of an earlier run, so that none is taken for one of this.
fn clear(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".flight") && name.starts_with("rank-") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Starts all processes of a run here, and says what became of them where rank 0 could not.
///
/// # Errors
/// `E0657` when they cannot be started, `E0684` when rank 0 ended without a word.
pub(crate) fn launch(flags: &Flags, plan: &Plan, processes: u32, terminal: &Terminal) -> Result<ExitCode> {
    split(plan, processes)?;
    let program = std::env::current_exe().map_err(|e| Diagnostic::outcome("E0657", format!("this program cannot be found again: {e}")))?;
    let (logs, fresh) = log_folder(flags)?;
    clear(&logs);
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if fresh {
        arguments.extend(["--log-dir".into(), logs.clone().into_os_string()]);
    }
    terminal.progress("Starting", &format!("{processes} processes · logs in {}", logs.display()));
    let grace = flags.fault() * 2 + Duration::from_secs(5);
    let ended = launch::run(&Launch { program, arguments, processes, logs: logs.clone(), grace })?;
    if ended.success() {
        if fresh {
            // What nobody asked for is not left behind; a folder that cannot be removed does no harm.
            let _ = std::fs::remove_dir_all(&logs);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let place = Place { process: 0, processes, ranks: plan.ranks() };
    let told = ended.statuses[0].code().filter(|c| *c != 0);
    if let Some(code) = told {
        terminal.progress("Failed", &format!("logs and flight records are in {}", logs.display()));
        return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
    }
    Err(unsaid(&place, &ended, &logs).into())
}

/// What the launcher says when rank 0's process could not.
fn unsaid(place: &Place, ended: &Ended, logs: &Path) -> Diagnostic {
    let who = if ended.killed.contains(&0) || !ended.statuses[0].success() { 0 } else { ended.first.unwrap_or(0) };
    let how = if ended.killed.contains(&who) { "did not go on and was ended".to_string() } else { launch::describe(ended.statuses[who as usize]) };
    let mut d = Diagnostic::outcome("E0684", format!("the process of {} {how}", place.named(who)));
    if let Ok((records, _)) = flight::read_all(logs) {
        for record in records.iter().take(16) {
            if let Some(last) = record.moments.last() {
                let (at, waits) = record.describe(last);
                let was = if place.process_of(record.rank) == who {
                    ""
                } else if waits {
                    "was waiting: "
                } else {
                    "was not waiting: "
                };
                d = d.with_note(format!("{was}rank {} (stage {}): {at}", record.rank, record.stage));
            }
        }
    }
    d.with_help(format!("logs and flight records are in {}; `shardwright flight` shows the latter", logs.display()))
}

/// A process that takes part in a run.
pub(crate) struct Member {
    pub(crate) fabric: Arc<Remote>,
    pub(crate) place: Place,
}

impl Member {
    /// Whether it speaks to the terminal.
    pub(crate) fn speaks(&self) -> bool {
        self.place.process == 0
    }

    /// Watches for a wish of whoever started this process that it end: mpirun's when another rank has died, a scheduler's when the time is over. A failure
    /// that is known by then, or becomes known at once, is said as any other; without one the wish is the reason.
    fn obey(&self, fault: Duration) -> Result<()> {
        let (asked, fabric, who) = (crate::interrupt::end(), self.fabric.clone(), self.place.named(self.place.process));
        let work = move || {
            let control = fabric.control();
            while !asked.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
            control.hurry();
            let begun = Instant::now();
            while !control.has_failed() && begun.elapsed() < Duration::from_millis(500) {
                std::thread::sleep(Duration::from_millis(5));
            }
            control.fail(Diagnostic::outcome("E0685", format!("{who} was told to end (SIGTERM)")).with_help("`--resume` continues from a checkpoint"), &[]);
            // The ranks look at that when they next communicate.
            std::thread::sleep(fault);
            std::process::exit(crate::interrupt::TERMINATED);
        };
        let thread = std::thread::Builder::new().name("signals".into()).spawn(work);
        thread.map_err(|e| Diagnostic::outcome("E0608", format!("a thread that waits for signals cannot be started: {e}")))?;
        Ok(())
    }
}

/// Checks a launcher's world against the plan's.
fn world(found: &Found, plan: &Plan) -> Result<Place> {
    let ranks = plan.ranks();
    if found.launcher == Launcher::Ours {
        split(plan, found.processes)?;
    } else if found.processes != ranks {
        let d = Diagnostic::input("E0651", format!("{} started {} processes, and the plan was made for {ranks} ranks", found.launcher.name(), found.processes));
        return Err(d.with_help(format!("start {ranks} processes, or compile the model for {} devices", found.processes)).into());
    }
    Ok(Place { process: found.process, processes: found.processes, ranks })
}

/// What carries the data of a run, or why it cannot.
///
/// # Errors
/// `E0686` when MPI is asked for where it is not.
fn carrier(found: &Found, flags: &Flags) -> Result<CarrierKind> {
    let refused = |why: String, help: &str| Err(Diagnostic::input("E0686", format!("MPI cannot be used: {why}")).with_help(help).into());
    match flags.carrier {
        Some(CarrierKind::Mpi) if !HAS_MPI => refused("this build has no MPI".into(), "build with `--features mpi`, or use `--carrier tcp`"),
        Some(CarrierKind::Mpi) if !found.launcher.is_mpi() => {
            refused(format!("the ranks were started by {}", found.launcher.name()), "start them with mpirun, or use `--carrier tcp`")
        }
        Some(kind) => Ok(kind),
        None if HAS_MPI && found.launcher.is_mpi() => Ok(CarrierKind::Mpi),
        None => Ok(CarrierKind::Tcp),
    }
}

/// How processes find rank 0 and prove who they are.
enum Way {
    /// An address and a secret that everybody was given.
    Given(String, Secret),
    /// A file of this host, which says what is missing.
    File { path: PathBuf, address: Option<String> },
}

fn way(found: &Found, flags: &Flags) -> Result<Way> {
    let address = flags.rendezvous.clone().or_else(|| found.rendezvous.clone());
    let secret = std::env::var(ours::SECRET).ok().filter(|s| !s.is_empty());
    let local = address.as_deref().is_some_and(|a| ["127.", "localhost:", "[::1]"].iter().any(|l| a.starts_with(l)));
    match (address, secret) {
        (Some(address), Some(secret)) => Ok(Way::Given(address, Secret::of(&secret))),
        (address, None) if found.one_host || local => {
            let job = address.as_ref().map_or_else(|| found.job.clone(), |a| format!("{} {a}", found.job));
            Ok(Way::File { path: meeting::path(&job), address })
        }
        (None, _) if found.one_host => Ok(Way::File { path: meeting::path(&found.job), address: None }),
        (None, _) => Err(Diagnostic::input("E0654", format!("{} does not say on which host rank 0 is", found.launcher.name()))
            .with_help("name it with `--rendezvous HOST:PORT`, a free port of rank 0's host, or by MASTER_ADDR and MASTER_PORT")
            .into()),
        (Some(_), None) => Err(Diagnostic::input("E0652", "ranks on several hosts need a secret that they have in common")
            .with_help("set SHARDWRIGHT_SECRET to the same random text for all ranks (`mpirun -x SHARDWRIGHT_SECRET`)")
            .into()),
    }
}

/// What is compared as the program's version: ranks of one run send and receive in one way.
fn version(kind: CarrierKind) -> String {
    let through = if kind == CarrierKind::Mpi { " with data through MPI" } else { "" };
    format!("{}{through}", env!("CARGO_PKG_VERSION"))
}

/// Joins the other processes of a run.
///
/// # Errors
/// `E0651` when the world has another size than the plan, and those of [`rendezvous`].
pub(crate) fn join(found: &Found, flags: &Flags, plan: &Arc<Plan>, path: &Path, timeout: Duration, terminal: &Terminal) -> Result<Member> {
    let place = world(found, plan)?;
    let kind = carrier(found, flags)?;
    if found.launcher != Launcher::Ours {
        let carried = match (found.launcher.is_mpi(), kind) {
            (false, _) => "",
            (true, CarrierKind::Mpi) => " · data go through MPI",
            (true, CarrierKind::Tcp) if HAS_MPI => " · data go over TCP",
            (true, CarrierKind::Tcp) => " · data go over TCP: this build has no MPI",
        };
        let text = format!("{}: {} of {}{carried}", found.launcher.name(), place.named(place.process), place.ranks);
        if place.process == 0 {
            terminal.progress("Detected", &text);
        }
    }
    let terms = Terms { plan: plan_hash(plan), plan_name: path.file_name().unwrap_or_default().to_string_lossy().into(), version: version(kind) };
    let way = way(found, flags)?;
    let (mut announced, mut used) = (None, None);
    let joined = if place.process == 0 {
        let listener = match std::env::var(ours::LISTENER).ok().filter(|_| found.launcher == Launcher::Ours) {
            Some(socket) => launch::inherited(&socket)?,
            None => rendezvous::bind(match &way {
                Way::Given(address, _) | Way::File { address: Some(address), .. } => address,
                Way::File { address: None, .. } => "127.0.0.1:0",
            })?,
        };
        let secret = match &way {
            Way::Given(_, secret) => secret.clone(),
            Way::File { path, .. } => {
                let failed = |e: std::io::Error| Diagnostic::outcome("E0654", format!("rank 0 cannot say where it is in {}: {e}", path.display()));
                let text = Secret::random_text().map_err(failed)?;
                let address = listener.local_addr().map_err(failed)?;
                announced = Some(Meeting::announce(path, &address.to_string(), &text).map_err(failed)?);
                Secret::of(&text)
            }
        };
        used = Some(secret.clone());
        rendezvous::gather(listener, place.clone(), &terms, &secret, flags.join())?
    } else {
        let seen = std::cell::RefCell::new(None);
        let meet = || {
            let met = match &way {
                Way::Given(address, secret) => Some((address.clone(), secret.clone())),
                Way::File { path, .. } => meeting::read(path).map(|(address, text)| (address, Secret::of(&text))),
            };
            *seen.borrow_mut() = met.as_ref().map(|(_, s)| s.clone());
            met
        };
        let joined = rendezvous::join(&meet, matches!(way, Way::File { .. }), place.clone(), &terms, flags.join())?;
        used = seen.into_inner().or(used);
        joined
    };
    let secret = used.ok_or_else(|| Diagnostic::outcome("E0653", "no secret was found"))?;
    if joined.turned_away > 0 {
        terminal.notes(&[Diagnostic::note("N0680", format!("{} callers that are not of this run were turned away", joined.turned_away))]);
    }
    let programs: Arc<[ir::program::Program]> = plan.programs.clone().into();
    let (schedule, microbatches) = (plan.schedule.kind, plan.schedule.microbatches.max(1));
    let partners = Remote::partners(&programs, schedule, microbatches, &place)?;
    let called = if kind == CarrierKind::Tcp { partners.as_slice() } else { &[] };
    let (Joined { channels, .. }, streams) = rendezvous::mesh(joined, called, &secret, flags.join())?;
    // All have joined: a process that is killed from now on leaves nothing there.
    drop(announced);
    if let Some(folder) = &flags.log_dir {
        std::fs::create_dir_all(folder).map_err(|e| Diagnostic::input("E0657", format!("logs cannot be kept in {}: {e}", folder.display())))?;
    }
    let watch = Watch { fault_timeout: flags.fault(), records: flags.log_dir.clone() };
    let control = Control::start(place.clone(), programs.clone(), channels, watch)?;
    let fabric = Remote::new(programs, schedule, microbatches, control, timeout, flags.log_dir.clone(), |mail| match kind {
        #[cfg(feature = "mpi")]
        CarrierKind::Mpi => mpi_transport::over(mail, &partners, flags.join(), |library| {
            if place.process == 0 {
                terminal.progress("Started", &format!("MPI in {} processes · {library}", place.processes));
            }
        }),
        _ => Tcp::over(streams, mail),
    })?;
    let member = Member { fabric, place };
    member.obey(flags.fault())?;
    Ok(member)
}
