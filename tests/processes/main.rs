//! Ranks as processes, as users start them: the same losses as in one process, and what is said when something is wrong.
#![allow(clippy::print_stderr, reason = "tests say what they leave out")]

mod mpi;
mod saving;
#[path = "../support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use support::{bundled, compile};

/// Longer than a run ever takes, so that a hang is a failure.
const PATIENCE: Duration = Duration::from_secs(240);

fn plan(number: usize) -> &'static str {
    static PLANS: OnceLock<(tempfile::TempDir, [String; 4])> = OnceLock::new();
    let made = PLANS.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let flags = [
            "--cluster local:4 --strategy zero3",
            "--cluster local:4 --stages 2 --microbatches 2",
            "--cluster local:4 --strategy data",
            "--cluster local:2 --strategy tensor",
        ];
        let paths = flags.map(|f| {
            let path = folder.path().join(format!("{}.plan", f.replace([' ', ':'], "_")));
            std::fs::write(&path, compile(&bundled("gpt_tiny"), f).to_bytes()).expect("written");
            path.display().to_string()
        });
        (folder, paths)
    });
    &made.1[number]
}

fn run(plan: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardwright"));
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models/gpt_tiny.safetensors");
    command.args(["run", plan, "--inputs"]).arg(inputs).args(flags);
    // Whoever runs the tests may be started by a launcher.
    for name in ["RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID", "SHARDWRIGHT_SECRET"] {
        command.env_remove(name);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

struct Ended {
    code: i32,
    lines: Vec<String>,
    told: String,
}

/// Waits for a command with both of its streams read.
fn end(mut child: Child) -> Ended {
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = err.read_to_string(&mut text);
        text
    });
    let lines = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = out.read_to_string(&mut text);
        text.lines().map(String::from).collect()
    });
    let code = wait(&mut child);
    Ended { code, lines: lines.join().expect("read"), told: reading.join().expect("read") }
}

fn wait(child: &mut Child) -> i32 {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("waited for") {
            return status.code().unwrap_or(-1);
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("the run did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn done(mut command: Command) -> Ended {
    end(command.spawn().expect("the command starts"))
}

fn lines(plan: &str, flags: &[&str]) -> Vec<String> {
    let ended = done(run(plan, flags));
    assert_eq!(ended.code, 0, "{}", ended.told);
    ended.lines
}

/// Lines of `--json`, where losses have all their digits, without the times.
fn timeless(lines: &[String]) -> Vec<String> {
    lines.iter().map(|l| l.split("\"seconds\"").next().unwrap_or_default().to_string()).collect()
}

#[test]
fn losses_are_those_of_one_process() {
    for number in 0..2 {
        let losses = |flags: &[&str]| timeless(&lines(plan(number), &[&["--json", "--steps", "4"], flags].concat()));
        let expected = losses(&[]);
        assert!(expected.len() == 4 && expected[0].contains("outputs"), "{expected:?}");
        for processes in ["4", "2", "1"] {
            assert_eq!(losses(&["-n", processes]), expected, "plan {number} with {processes} processes");
        }
    }
}

/// A port that is free now; the ranks find it so, or the test fails and says why.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port()
}

/// The process of a rank of four as torchrun would start it.
fn ranked(plan: &str, rank: u32, port: u16, flags: &[&str]) -> Command {
    let mut command = run(plan, flags);
    command.env("RANK", rank.to_string()).env("WORLD_SIZE", "4").env("LOCAL_RANK", rank.to_string());
    command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
    command
}

/// Starts a process per rank, with variables that `change` may alter.
fn by_hand(plan_of: impl Fn(u32) -> &'static str, flags: &[&str], change: impl Fn(u32, &mut Command)) -> Vec<Ended> {
    let port = free_port();
    let start = |rank: u32| {
        let mut command = ranked(plan_of(rank), rank, port, flags);
        change(rank, &mut command);
        command.spawn().expect("the command starts")
    };
    let children: Vec<Child> = (0..4).rev().map(start).collect();
    let mut all: Vec<Ended> = children.into_iter().map(end).collect();
    all.reverse();
    all
}

#[test]
fn torchrun_variables_by_hand() {
    let expected = lines(plan(0), &["--steps", "3"]);
    for secret in [None, Some("of this run")] {
        let ended = by_hand(
            |_| plan(0),
            &["--steps", "3"],
            |_, command| {
                if let Some(secret) = secret {
                    command.env("SHARDWRIGHT_SECRET", secret);
                }
            },
        );
        for (rank, e) in ended.iter().enumerate() {
            assert_eq!(e.code, 0, "rank {rank}: {}", e.told);
            assert_eq!(e.lines, if rank == 0 { expected.clone() } else { Vec::new() }, "rank 0 speaks, and nobody else");
        }
        assert!(ended[0].told.contains("Detected torchrun's variables: rank 0 of 4"), "{}", ended[0].told);
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let with = |variables: &[(&str, &str)], flags: &[&str]| {
        let mut command = run(plan(0), flags);
        command.envs(variables.iter().copied());
        done(command)
    };
    let address = [("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")];
    let world: Vec<_> = address.iter().chain(&[("RANK", "0"), ("WORLD_SIZE", "3")]).copied().collect();
    let ended = with(&world, &[]);
    assert!(ended.code == 2 && ended.told.contains("E0651") && ended.told.contains("3 processes") && ended.told.contains("4 ranks"), "{}", ended.told);
    let ended = with(&[("RANK", "0")], &[]);
    assert!(ended.code == 2 && ended.told.contains("E0650") && ended.told.contains("WORLD_SIZE is not"), "{}", ended.told);
    let ended = with(&[], &["-n", "3"]);
    assert!(ended.code == 2 && ended.told.contains("E0656") && ended.told.contains("1, 2, 4"), "{}", ended.told);
    let ended = with(&[], &["--fault-timeout", "0"]);
    assert!(ended.code == 2 && ended.told.contains("E0409"), "{}", ended.told);
    let far = [("MASTER_ADDR", "192.0.2.1"), ("MASTER_PORT", "29500"), ("RANK", "1"), ("WORLD_SIZE", "4")];
    let ended = with(&far, &[]);
    assert!(ended.code == 2 && ended.told.contains("E0652") && ended.told.contains("SHARDWRIGHT_SECRET"), "{}", ended.told);
}

#[test]
fn another_plan_or_secret_is_turned_away() {
    let ended = by_hand(|rank| plan(usize::from(rank == 2)), &["--join-timeout", "20"], |_, _| {});
    assert!(ended[0].code == 2 && ended[0].told.contains("E0655") && ended[0].told.contains("rank 2 has another plan"), "{}", ended[0].told);
    assert!(ended[2].code == 2 && ended[2].told.contains("E0655"), "{}", ended[2].told);
    let ended = by_hand(
        |_| plan(0),
        &["--join-timeout", "5"],
        |rank, command| {
            command.env("SHARDWRIGHT_SECRET", if rank == 3 { "wrong" } else { "right" });
        },
    );
    assert!(ended[3].code == 2 && ended[3].told.contains("E0652"), "{}", ended[3].told);
    let told = &ended[0].told;
    assert!(ended[0].code == 1 && told.contains("E0653") && told.contains("rank 3 did not join") && told.contains("does not know the secret"), "{told}");
}

#[test]
fn strangers_at_the_port_are_turned_away_and_the_run_goes_on() {
    let expected = lines(plan(0), &["--steps", "2"]);
    let port = free_port();
    let start = |rank| ranked(plan(0), rank, port, &["--steps", "2"]).spawn().expect("the command starts");
    let first = start(0);
    let begun = Instant::now();
    let call = || loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(e) => assert!(begun.elapsed() < PATIENCE, "rank 0 does not listen: {e}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // One says nothing; another is a browser, and sees that it is not wanted before the ranks come.
    let (silent, mut speaking) = (call(), call());
    speaking.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").expect("written");
    let mut answer = Vec::new();
    let _ = speaking.read_to_end(&mut answer);
    let others: Vec<Child> = (1..4).map(start).collect();
    let (first, others): (Ended, Vec<Ended>) = (end(first), others.into_iter().map(end).collect());
    assert_eq!((first.code, &first.lines), (0, &expected), "{}", first.told);
    assert!(first.told.contains("N0680"), "{}", first.told);
    assert!(others.iter().all(|e| e.code == 0 && e.lines.is_empty()));
    drop(silent);
}

#[test]
fn a_rank_that_is_told_to_end_says_so_and_all_end() {
    let port = free_port();
    let logs = tempfile::tempdir().expect("a folder");
    let place = logs.path().display().to_string();
    let start = |rank| ranked(plan(0), rank, port, &["--steps", "100000", "--log-dir", &place]).spawn().expect("the command starts");
    let children: Vec<Child> = (0..4).map(start).collect();
    assert!(comes_to(logs.path(), 1, (2, 0)), "the ranks run");
    signal(children[1].id(), "TERM");
    let ended: Vec<Ended> = children.into_iter().map(end).collect();
    let told = &ended[0].told;
    assert!(told.contains("error[E0685]: rank 1 was told to end (SIGTERM)") && told.matches("error[").count() == 1, "{told}");
    assert!(ended.iter().all(|e| e.code == 1), "all end");
    let flight = Command::new(env!("CARGO_BIN_EXE_shardwright")).arg("flight").arg(logs.path()).output().expect("it runs");
    let text = String::from_utf8_lossy(&flight.stdout).into_owned();
    assert!(text.matches("stopped)").count() == 4, "none ended without a word: {text}");
}

/// The process that a launcher has started with a variable.
fn process_of(launcher: u32, variable: &str) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children")).ok()?;
    children
        .split_whitespace()
        .filter_map(|p| p.parse().ok())
        .find(|pid: &u32| std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| all.split(|b| *b == 0).any(|v| v == variable.as_bytes())))
}

/// The processes of `run -n 4`.
fn processes_of(launcher: u32) -> Vec<u32> {
    let pids: Vec<u32> = (0..4).filter_map(|p| process_of(launcher, &format!("SHARDWRIGHT_PROCESS={p}"))).collect();
    assert_eq!(pids.len(), 4, "four processes run");
    pids
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().expect("kill runs").success());
}

/// Waits until a rank's record says that it has come to a step and a communication of it, or further.
fn comes_to(logs: &Path, rank: u32, moment: (u64, u64)) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if runtime::processes::flight::last(logs, rank).is_some_and(|m| (m.step, m.number) >= moment) {
            return true;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    false
}

/// Files for as long as a run lasts that a process has open or mapped: shared memory, and what lies in the folder for temporary files.
fn passing_files(pid: u32, temporary: &Path) -> Vec<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mapped = maps.lines().filter_map(|l| l.find('/').map(|at| PathBuf::from(&l[at..])));
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().filter_map(|e| std::fs::read_link(e.path()).ok());
    mapped.chain(open).filter(|p| p.starts_with("/dev/shm") || p.starts_with(temporary)).collect()
}

/// A run that is under way, its errors being read.
struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    told: std::thread::JoinHandle<String>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.spawn().expect("the command starts");
        let mut err = child.stderr.take().expect("piped");
        let told = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Running { child, lines, told }
    }
    /// Waits for so many lines of steps.
    fn steps(&mut self, count: usize) -> Vec<String> {
        self.lines.by_ref().take(count).map_while(Result::ok).collect()
    }
    /// Reads to the end, and how long that took.
    fn end(mut self, mut lines: Vec<String>) -> (Ended, Duration) {
        let begun = Instant::now();
        lines.extend(self.lines.map_while(Result::ok));
        let code = wait(&mut self.child);
        (Ended { code, lines, told: self.told.join().expect("read") }, begun.elapsed())
    }
}

/// Starts a run of four processes, sends one of them a signal when so many steps were told, and waits for the end.
fn broken(plan: &str, flags: &[&str], victim: usize, after: usize, name: &str) -> (Ended, Vec<u32>, Duration) {
    let mut running = Running::start(run(plan, &[&["-n", "4", "--steps", "100000"], flags].concat()));
    let lines = running.steps(after);
    let pids = processes_of(running.child.id());
    signal(pids[victim], name);
    let (ended, took) = running.end(lines);
    (ended, pids, took)
}

/// Whether a process is there, a zombie included.
fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_stopped_rank_is_noticed_in_time() {
    let (ended, pids, took) = broken(plan(1), &["--fault-timeout", "3"], 3, 2, "STOP");
    assert!(ended.code == 1 && ended.told.contains("E0680]: rank 3 was not heard of for 3 s"), "{}", ended.told);
    assert!(ended.told.contains("(line ") || ended.told.contains(" of %"), "its place in the model is named: {}", ended.told);
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(60), "{took:?}");
    assert!(pids.iter().all(|p| !exists(*p)), "a stopped process is ended too");
    // Rank 0 stopped: it says nothing, and the launcher does.
    let (ended, pids, _) = broken(plan(1), &["--fault-timeout", "2"], 0, 2, "STOP");
    assert!(ended.code == 1 && ended.told.contains("E0684]: the process of rank 0 did not go on"), "{}", ended.told);
    assert!(pids.iter().all(|p| !exists(*p)));
}

#[test]
fn processes_die_with_the_one_that_started_them() {
    let mut running = Running::start(run(plan(0), &["-n", "4", "--steps", "100000"]));
    assert_eq!(running.steps(1).len(), 1);
    let pids = processes_of(running.child.id());
    running.child.kill().expect("killed");
    running.child.wait().expect("waited for");
    bury(&pids);
}

/// Waits until orphans are dead. Whoever takes them in may take a moment to bury them: a zombie is dead.
fn bury(pids: &[u32]) {
    let begun = Instant::now();
    let alive = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z "));
    while pids.iter().any(alive) {
        assert!(begun.elapsed() < Duration::from_secs(30), "some live on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_folder_without_records_is_said_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let flight = || Command::new(env!("CARGO_BIN_EXE_shardwright")).arg("flight").arg(folder.path()).output().expect("it runs");
    let told = flight();
    assert!(told.status.code() == Some(2) && String::from_utf8_lossy(&told.stderr).contains("E0658"));
    std::fs::write(folder.path().join("rank-0000.flight"), b"nothing").expect("written");
    let told = flight();
    assert!(told.status.code() == Some(2) && String::from_utf8_lossy(&told.stderr).contains("E0658"));
}

/// Two network namespaces with a wire between them; they go when this is dropped.
struct Hosts([String; 2]);

impl Hosts {
    const ADDRESSES: [&'static str; 2] = ["10.213.7.1", "10.213.7.2"];

    /// None where the system does not permit it.
    fn new() -> Option<Hosts> {
        let names = ["a", "b"].map(|side| format!("shw{}{side}", std::process::id()));
        let hosts = Hosts(names.clone());
        let ip = |line: String| Command::new("ip").args(line.split_whitespace()).output().is_ok_and(|o| o.status.success());
        let [a, b] = &names;
        let made = ip(format!("netns add {a}")) && ip(format!("netns add {b}")) && ip(format!("link add wire netns {a} type veth peer name wire netns {b}"));
        let up = |i: usize| {
            let name = &names[i];
            ip(format!("-n {name} addr add {}/24 dev wire", Self::ADDRESSES[i]))
                && ip(format!("-n {name} link set wire up"))
                && ip(format!("-n {name} link set lo up"))
        };
        (made && up(0) && up(1)).then_some(hosts)
    }
    fn inside(&self, host: usize, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.0[host]]).arg(command.get_program()).args(command.get_args());
        inside.stdout(Stdio::piped()).stderr(Stdio::piped());
        inside
    }
    fn cut(&self) {
        assert!(Command::new("ip").args(["-n", &self.0[0], "link", "set", "wire", "down"]).status().expect("ip runs").success());
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

#[test]
fn a_host_that_is_cut_off_in_mid_step_is_noticed_on_both_sides() {
    let Some(hosts) = Hosts::new() else {
        eprintln!("left out: network namespaces are not permitted here");
        return;
    };
    let start = |rank: usize| {
        let mut command = hosts.inside(rank / 2, &run(plan(1), &["--steps", "100000", "--fault-timeout", "3"]));
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", "4").env("MASTER_ADDR", Hosts::ADDRESSES[0]).env("MASTER_PORT", "29500");
        command.env("SHARDWRIGHT_SECRET", "of the test").spawn().expect("the command starts")
    };
    let mut children: Vec<Child> = (0..4).map(start).collect();
    let mut first = children.remove(0);
    let mut out = BufReader::new(first.stdout.take().expect("piped")).lines();
    assert!((0..3).all(|_| out.next().is_some_and(|l| l.is_ok())), "steps are done over the wire");
    hosts.cut();
    let begun = Instant::now();
    let reading = std::thread::spawn(move || out.map_while(Result::ok).count());
    let mut told = String::new();
    first.stderr.take().expect("piped").read_to_string(&mut told).expect("read");
    assert_eq!(wait(&mut first), 1, "{told}");
    reading.join().expect("read");
    assert!(["rank 2", "rank 3"].iter().any(|r| told.contains(&format!("E0680]: {r} was not heard of for 3 s"))), "{told}");
    let others: Vec<Ended> = children.into_iter().map(end).collect();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!(others.iter().all(|e| e.code == 1), "all end");
    assert!(!others[0].told.contains("error["), "rank 1 was told by rank 0, which has said it: {}", others[0].told);
    for e in &others[1..] {
        assert!(e.told.contains("E0683]: rank 0 was not heard of for 3 s"), "{}", e.told);
    }
}
