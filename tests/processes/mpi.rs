//! Ranks that mpirun starts. The same tests hold with and without the feature `mpi`: what carries the data is another thing, and what users see is not.

use crate::{Running, bury, done, lines, passing_files, plan, process_of, run, signal, timeless};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What the processes say that carries their data.
const CARRIER: &str = if cfg!(feature = "mpi") { "data go through MPI" } else { "data go over TCP: this build has no MPI" };

/// `mpirun -n N shardwright run …`; none where there is no mpirun.
fn mpirun(processes: &str, plan: &str, flags: &[&str], temporary: &Path) -> Option<Command> {
    if Command::new("mpirun").arg("--version").output().is_err() {
        eprintln!("left out: there is no mpirun");
        return None;
    }
    let ours = run(plan, flags);
    let mut command = Command::new("mpirun");
    // A killed rank ends the job: so that the others have said why before they are killed in their turn, also on a machine that is busy.
    command.args(["--oversubscribe", "--mca", "odls_base_sigkill_timeout", "4", "-n", processes]);
    command.arg(ours.get_program()).args(ours.get_args());
    // For tests in a container: as root, and without ssh.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1").env("OMPI_MCA_plm_rsh_agent", "");
    command.env("TMPDIR", temporary).stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

/// A folder for temporary files with a short name: sockets lie there.
fn temporary() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("t").rand_bytes(4).tempdir().expect("a folder")
}

/// Files below a folder that are ours.
fn left_over(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().filter(|e| e.file_name().to_string_lossy().starts_with("shardwright"));
    entries.flat_map(|e| std::fs::read_dir(e.path()).into_iter().flatten().flatten()).map(|e| e.path().display().to_string()).collect()
}

#[test]
fn mpirun_gives_the_losses_of_one_process() {
    let temporary = temporary();
    for number in 0..2 {
        let flags = ["--json", "--steps", "3"];
        let Some(command) = mpirun("4", plan(number), &flags, temporary.path()) else { return };
        let expected = timeless(&lines(plan(number), &flags));
        let ended = done(command);
        assert_eq!((ended.code, timeless(&ended.lines)), (0, expected), "{}", ended.told);
        let Some(command) = mpirun("4", plan(number), &flags[1..], temporary.path()) else { return };
        let ended = done(command);
        assert_eq!((ended.code, ended.lines.len()), (0, 3), "{}", ended.told);
        assert!(ended.told.contains("Detected mpirun (Open MPI): rank 0 of 4") && ended.told.contains(CARRIER), "{}", ended.told);
        assert_eq!(left_over(temporary.path()), [""; 0]);
    }
    let ended = done(run(plan(1), &["-n", "2", "--steps", "3", "--carrier", "mpi"]));
    assert!(ended.code != 0 && ended.told.contains("E0686"), "not without mpirun: {}", ended.told);
    let Some(command) = mpirun("3", plan(1), &["--steps", "3"], temporary.path()) else { return };
    let ended = done(command);
    assert!(ended.code != 0 && ended.told.contains("E0651"), "{}", ended.told);
}

/// Breaks a run under mpirun, and checks what the launcher, rank 0 and the records say.
fn broken(name: &str, flags: &[&str], says: &[&str]) {
    let (temporary, folder) = (temporary(), tempfile::tempdir().expect("a folder"));
    let logs = folder.path().display().to_string();
    let all = [&["--steps", "100000", "--log-dir", &logs], flags].concat();
    let Some(command) = mpirun("4", plan(1), &all, temporary.path()) else { return };
    let mut running = Running::start(command);
    let told = running.steps(3);
    let pids: Vec<u32> = (0..4).filter_map(|r| process_of(running.child.id(), &format!("OMPI_COMM_WORLD_RANK={r}"))).collect();
    assert!(told.len() == 3 && pids.len() == 4, "four ranks run: {told:?}");
    let passing: Vec<_> = pids.iter().flat_map(|p| passing_files(*p, temporary.path())).collect();
    signal(pids[2], name);
    let (ended, took) = running.end(told);
    assert!(ended.code != 0 && took < Duration::from_secs(60), "{took:?}: {}", ended.told);
    assert!(says.iter().all(|s| ended.told.contains(s)), "{says:?}: {}", ended.told);
    assert_eq!(ended.told.matches("error[").count(), 1, "rank 0 says it for all: {}", ended.told);
    assert!(ended.told.contains("was waiting: rank ") && ended.told.contains(" of %"), "who waited, and where in the model: {}", ended.told);
    bury(&pids);
    assert!(passing.iter().all(|p| !p.exists()) && left_over(temporary.path()).is_empty(), "{passing:?}");
    let flight = Command::new(env!("CARGO_BIN_EXE_shardwright")).args(["flight", &logs]).output().expect("it runs");
    let text = String::from_utf8_lossy(&flight.stdout).into_owned();
    let silent: Vec<&str> = text.lines().filter(|l| l.contains("ended without a word")).collect();
    // One that was stopped is woken by mpirun, and ends as the others do.
    let expected = usize::from(name == "KILL");
    assert!(silent.len() == expected && silent.iter().all(|l| l.starts_with("rank 2 (")), "the records show which rank was lost: {text}");
}

#[test]
fn mpirun_with_a_killed_rank_says_which_and_where() {
    broken("KILL", &["--fault-timeout", "20"], &["E0680]: rank 2 died", "exited on signal 9"]);
}

#[test]
fn mpirun_with_a_stopped_rank_says_which_and_where() {
    broken("STOP", &["--fault-timeout", "3"], &["E0680]: rank 2 was not heard of for 3 s"]);
}
