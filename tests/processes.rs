//! Ranks as processes, as users start them: the same losses as in one process, and what is said when something is wrong.
#![allow(clippy::print_stderr, reason = "tests say what they leave out")]

mod support;

use runtime::checkpoint::store::checkpoints;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use support::{bundled, compile};

/// Longer than a run ever takes, so that a hang is a failure.
const PATIENCE: Duration = Duration::from_secs(240);

fn plan(number: usize) -> &'static str {
    static PLANS: OnceLock<(tempfile::TempDir, [String; 3])> = OnceLock::new();
    let made = PLANS.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let flags = ["--cluster local:4 --strategy zero3", "--cluster local:4 --stages 2 --microbatches 2", "--cluster local:4 --strategy data"];
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

#[test]
fn losses_are_those_of_one_process() {
    for number in 0..2 {
        // As JSON losses have all their digits.
        let losses = |flags: &[&str]| -> Vec<String> {
            let all: Vec<&str> = ["--json", "--steps", "4"].iter().chain(flags).copied().collect();
            lines(plan(number), &all).iter().map(|l| l.split("\"seconds\"").next().unwrap_or_default().to_string()).collect()
        };
        let expected = losses(&[]);
        assert!(expected.len() == 4 && expected[0].contains("outputs"), "{expected:?}");
        for processes in ["4", "2", "1"] {
            assert_eq!(losses(&["-n", processes]), expected, "plan {number} with {processes} processes");
        }
    }
}

/// Starts a process per rank as torchrun would, with variables that `change` may alter.
fn by_hand(plan_of: impl Fn(u32) -> &'static str, flags: &[&str], change: impl Fn(u32, &mut Command)) -> Vec<Ended> {
    // The port is free now; the ranks find it so, or the test fails and says why.
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let start = |rank: u32| {
        let mut command = run(plan_of(rank), flags);
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", "4").env("LOCAL_RANK", rank.to_string());
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
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
fn mpirun_starts_the_ranks() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        eprintln!("left out: there is no mpirun");
        return;
    }
    let expected = lines(plan(1), &["--steps", "3"]);
    let mpirun = |processes: &str| {
        let ours = run(plan(1), &["--steps", "3"]);
        let mut command = Command::new("mpirun");
        command.args(["--oversubscribe", "-n", processes]).arg(ours.get_program()).args(ours.get_args());
        // For tests in a container: as root, and without ssh.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1").env("OMPI_MCA_plm_rsh_agent", "");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        done(command)
    };
    let ended = mpirun("4");
    assert_eq!((ended.code, &ended.lines), (0, &expected), "{}", ended.told);
    assert!(ended.told.contains("Detected mpirun (Open MPI): rank 0 of 4") && ended.told.contains("TCP"), "{}", ended.told);
    let ended = mpirun("3");
    assert!(ended.code != 0 && ended.told.contains("E0651"), "{}", ended.told);
}

/// The process of a run that holds a rank, of those that a launcher has started.
fn process_of(launcher: u32, number: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children")).ok()?;
    let wanted = format!("SHARDWRIGHT_PROCESS={number}");
    children
        .split_whitespace()
        .filter_map(|p| p.parse().ok())
        .find(|pid: &u32| std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| all.split(|b| *b == 0).any(|v| v == wanted.as_bytes())))
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().expect("kill runs").success());
}

/// Starts a run of four processes, sends one of them a signal when so many steps were told, and waits for the end.
fn broken(plan: &str, flags: &[&str], victim: u32, after: usize, pause: Duration, name: &str) -> (Ended, Vec<u32>, Duration) {
    let all: Vec<&str> = ["-n", "4", "--steps", "100000"].iter().chain(flags).copied().collect();
    let mut child = run(plan, &all).spawn().expect("the command starts");
    let mut err = child.stderr.take().expect("piped");
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = err.read_to_string(&mut text);
        text
    });
    let mut out = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut lines: Vec<String> = out.by_ref().take(after).map_while(Result::ok).collect();
    let pids: Vec<u32> = (0..4).filter_map(|p| process_of(child.id(), p)).collect();
    std::thread::sleep(pause);
    assert_eq!(pids.len(), 4, "four processes run; {lines:?}");
    signal(pids[victim as usize], name);
    let begun = Instant::now();
    lines.extend(out.map_while(Result::ok));
    let code = wait(&mut child);
    let took = begun.elapsed();
    (Ended { code, lines, told: reading.join().expect("read") }, pids, took)
}

/// Whether a process is there, a zombie included.
fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn shared_memory() -> Vec<String> {
    let list = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    list.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|n| n.contains("shardwright")).collect()
}

#[test]
fn a_killed_rank_is_named_and_the_run_continues_from_its_checkpoint() {
    const MOMENTS: u32 = 20;
    const EVERY: u64 = 3;
    let reference = lines(plan(2), &["--steps", "60"]);
    let (next, busy) = (AtomicU32::new(0), std::thread::available_parallelism().map_or(2, usize::from).min(3));
    let moment = |number: u32| {
        // A generator of its own for each, so that they do not depend on which thread takes which.
        let mut state = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (victim, after, pause) = (random(4) as u32, 1 + random(12) as usize, Duration::from_micros(random(30_000)));
        let folder = tempfile::tempdir().expect("a folder");
        let (saved, logs) = (folder.path().join("ckpt").display().to_string(), folder.path().join("logs").display().to_string());
        let every = EVERY.to_string();
        let flags = ["--save", &saved, "--save-every", &every, "--log-dir", &logs, "--fault-timeout", "20"];
        let (ended, pids, took) = broken(plan(2), &flags, victim, after, pause, "KILL");
        let context = format!("moment {number}, rank {victim} after {after} steps: {}", ended.told);
        assert_eq!(ended.code, 1, "{context}");
        let named = if victim == 0 { "E0684]: the process of rank 0 was killed by signal 9".to_string() } else { format!("E0680]: rank {victim} died") };
        assert!(ended.told.contains(&named), "{context}");
        assert_eq!(ended.told.matches("error[").count(), 1, "one message: {context}");
        assert!(ended.told.contains("was waiting") || ended.told.contains("was not waiting"), "{context}");
        assert!(took < Duration::from_secs(60), "{took:?}: {context}");
        assert!(pids.iter().all(|p| !exists(*p)), "nothing is left behind: {context}");
        let flight = Command::new(env!("CARGO_BIN_EXE_shardwright")).args(["flight", &logs]).output().expect("it runs");
        let text = String::from_utf8_lossy(&flight.stdout).into_owned();
        assert!(flight.status.success() && text.contains(&format!("rank {victim} (stage 0, ended without a word)")), "{text}");
        // What was told and is not in a checkpoint is at most so many steps.
        let newest = checkpoints(Path::new(&saved)).ok().and_then(|c| c.first().map(|c| c.0)).unwrap_or(0);
        assert!(ended.lines.len() as u64 - newest.min(ended.lines.len() as u64) <= EVERY, "{} steps, saved {newest}: {context}", ended.lines.len());
        if newest > 0 && (newest as usize) < reference.len() {
            let upto = (newest as usize + 2).min(reference.len());
            let steps = upto.to_string();
            let rest = lines(plan(2), &["-n", "4", "--steps", &steps, "--save", &saved, "--save-every", &every, "--resume", &saved]);
            assert_eq!(rest, reference[newest as usize..upto], "{context}");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..busy {
            scope.spawn(|| {
                while let Some(number) = Some(next.fetch_add(1, Ordering::SeqCst)).filter(|n| *n < MOMENTS) {
                    moment(number);
                }
            });
        }
    });
    assert!(shared_memory().is_empty());
}

#[test]
fn a_stopped_rank_is_noticed_in_time() {
    let (ended, pids, took) = broken(plan(1), &["--fault-timeout", "3"], 3, 2, Duration::ZERO, "STOP");
    assert!(ended.code == 1 && ended.told.contains("E0680]: rank 3 was not heard of for 3 s"), "{}", ended.told);
    assert!(ended.told.contains("(line ") || ended.told.contains(" of %"), "its place in the model is named: {}", ended.told);
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(60), "{took:?}");
    assert!(pids.iter().all(|p| !exists(*p)), "a stopped process is ended too");
    // Rank 0 stopped: it says nothing, and the launcher does.
    let (ended, pids, _) = broken(plan(1), &["--fault-timeout", "2"], 0, 2, Duration::ZERO, "STOP");
    assert!(ended.code == 1 && ended.told.contains("E0684]: the process of rank 0 did not go on"), "{}", ended.told);
    assert!(pids.iter().all(|p| !exists(*p)));
}

#[test]
fn processes_die_with_the_one_that_started_them() {
    let mut child = run(plan(0), &["-n", "4", "--steps", "100000"]).spawn().expect("the command starts");
    let mut out = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(out.next().is_some_and(|l| l.is_ok()));
    let pids: Vec<u32> = (0..4).filter_map(|p| process_of(child.id(), p)).collect();
    assert_eq!(pids.len(), 4);
    child.kill().expect("killed");
    child.wait().expect("waited for");
    let begun = Instant::now();
    // Whoever takes orphans in may take a moment to bury them: a zombie is dead.
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
