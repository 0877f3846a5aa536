//! `run --save-every` and `--resume`, as users meet them: under the same plan a broken run ends with the very losses of an unbroken one, under others within
//! tolerance; what is damaged is passed over; a killed run loses at most as many steps as lie between two checkpoints.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they leave out")]

mod support;

use ir::plan::Plan;
use runtime::checkpoint::store::checkpoints;
use runtime::checkpoint::{Checkpoint, Store};
use runtime::{Arguments, Options, Session};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use support::{arguments, bundled, compile};

/// Four plans of one step, alike in nothing but the step.
const PLANS: [(&str, &str); 4] = [
    ("data", "--cluster local:4 --strategy data"),
    ("zero3", "--cluster local:4 --strategy zero3"),
    ("tensor", "--cluster local:2 --strategy tensor"),
    ("pipeline", "--cluster local:2 --stages 2 --microbatches 2"),
];

/// Losses of steps `from..to`.
fn train(session: &mut Session, plan: &Plan, from: u64, to: u64) -> Vec<f64> {
    let loss = plan.interface.loss.expect("a loss");
    (from..to)
        .map(|step| {
            let report = session.step(&Arguments::new()).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(report.step, step);
            report.scalars.iter().find(|s| s.0 == loss).expect("the loss is printed").2
        })
        .collect()
}

fn open(plan: &Arc<Plan>, given: &Arguments) -> Session {
    let mut session = Session::open(plan, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    session.set_inputs(given).unwrap_or_else(|e| panic!("{e}"));
    session
}

#[test]
fn a_run_continues_under_any_of_four_plans() {
    let model = bundled("gpt_tiny");
    let plans = PLANS.map(|(_, flags)| compile(&model, flags));
    let given = arguments(&model, &plans[0]);
    let (half, whole) = (3, 6);
    for ((from, _), plan) in PLANS.iter().zip(&plans) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut session = open(plan, &given);
        let (store, _) = Store::open(folder.path(), 1, None).unwrap_or_else(|e| panic!("{e}"));
        session.save_to(store, Duration::from_secs(60)).unwrap_or_else(|e| panic!("{e}"));
        train(&mut session, plan, 0, half);
        session.save().unwrap_or_else(|e| panic!("{e}"));
        // The checkpoint is written while these run.
        let expected = train(&mut session, plan, half, whole);
        let state = session.state().unwrap_or_else(|e| panic!("{e}"));
        session.saved(true).expect("one was begun").1.unwrap_or_else(|e| panic!("{e}"));
        let (checkpoint, _) = Checkpoint::newest(folder.path()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(checkpoint.manifest.step, half);
        for ((to, _), other) in PLANS.iter().zip(&plans) {
            let batch: Arguments = given.iter().filter(|(i, _)| checkpoint.arguments().all(|a| a != **i)).map(|(i, t)| (*i, t.clone())).collect();
            let mut session = open(other, &batch);
            session.restore(&checkpoint).unwrap_or_else(|e| panic!("{from} to {to}: {e}"));
            let losses = train(&mut session, other, half, whole);
            if from == to {
                assert_eq!(losses, expected, "{from}: the same plan gives the same bits");
                assert_eq!(session.state().unwrap_or_else(|e| panic!("{e}")), state, "{from}");
            }
            for (got, want) in losses.iter().zip(&expected) {
                assert!((got - want).abs() <= 1e-4 * want.abs(), "{from} to {to}: {losses:?} and {expected:?}");
            }
        }
    }
}

/// The command on a plan of the small GPT, compiled once.
fn plan() -> &'static str {
    static PLAN: OnceLock<(tempfile::TempDir, String)> = OnceLock::new();
    let made = PLAN.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gpt.plan");
        std::fs::write(&path, compile(&bundled("gpt_tiny"), PLANS[0].1).to_bytes()).expect("written");
        (folder, path.display().to_string())
    });
    &made.1
}

fn inputs() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models/gpt_tiny.safetensors").display().to_string()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardwright"));
    command.args(["run", plan(), "--inputs", &inputs()]).args(arguments);
    command
}

/// Exit code, the lines of steps, and what was said beside them.
fn run(arguments: &[&str]) -> (i32, Vec<String>, String) {
    outcome(&mut command(arguments))
}

fn outcome(command: &mut Command) -> (i32, Vec<String>, String) {
    let output = command.output().expect("the command starts");
    let lines = String::from_utf8_lossy(&output.stdout).lines().map(String::from).collect();
    (output.status.code().unwrap_or(-1), lines, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn steps_in(folder: &Path) -> Vec<u64> {
    checkpoints(folder).expect("a folder").into_iter().map(|c| c.0).collect()
}

/// A folder with the checkpoints of steps 2 and 4 of a run, and the lines of the whole run of 6 steps.
fn saved() -> (tempfile::TempDir, String, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("ckpt").display().to_string();
    let (code, lines, told) = run(&["--steps", "6"]);
    assert_eq!(code, 0, "{told}");
    let (code, begun, told) = run(&["--steps", "4", "--save", &place, "--save-every", "2"]);
    assert_eq!((code, begun.as_slice()), (0, &lines[..4]), "{told}");
    assert!(told.contains("Saved step 4") && told.contains("to save from"), "{told}");
    assert_eq!(steps_in(Path::new(&place)), [4, 2]);
    (folder, place, lines)
}

#[test]
fn the_command_continues_where_it_ended_and_keeps_the_last() {
    let (_folder, place, lines) = saved();
    let again = ["--steps", "6", "--save", &place, "--save-every", "1", "--keep", "3", "--resume", &place];
    let (code, rest, told) = run(&again);
    assert_eq!((code, rest.as_slice()), (0, &lines[4..]), "{told}");
    assert!(told.contains("Resumed step 4"), "{told}");
    assert_eq!(steps_in(Path::new(&place)), [6, 5, 4]);
    let (code, rest, told) = run(&again);
    assert!(code == 0 && rest.is_empty() && told.contains("N0661"), "{told}");
    // A run that begins anew does not mix its checkpoints with these.
    let (code, _, told) = run(&["--save", &place, "--save-every", "1"]);
    assert!(code == 2 && told.contains("E0663"), "{told}");
    for (flags, what) in [(vec!["--save-every", "2"], "--save"), (vec!["--save", &place, "--keep", "2"], "--save-every"), (vec!["--save-every", "0"], "0")] {
        let (code, _, told) = run(&flags);
        assert!(code == 2 && told.contains(what), "{flags:?}: {told}");
    }
}

#[test]
fn what_is_damaged_is_passed_over_by_name() {
    let (_folder, place, lines) = saved();
    let newest = Path::new(&place).join("step-00000004");
    let files: Vec<PathBuf> = std::fs::read_dir(&newest).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    let shard = files.iter().find(|f| f.ends_with("rank-0000.safetensors")).expect("rank 0 writes");
    let whole = std::fs::read(shard).expect("a file");
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 16;
    let manifest = newest.join("manifest.json");
    let text = std::fs::read(&manifest).expect("a file");
    let resume = ["--steps", "6", "--resume", &place];
    let passed_over = |what: &[&str]| {
        let (code, rest, told) = run(&resume);
        assert_eq!((code, rest.as_slice()), (0, &lines[2..]), "{told}");
        assert!(told.contains("W0661") && told.contains("step-00000004") && told.contains("Resumed step 2"), "{told}");
        assert!(what.iter().all(|w| told.contains(w)), "{what:?}: {told}");
    };
    std::fs::write(shard, &flipped).expect("written");
    passed_over(&["rank-0000.safetensors is damaged", "checksum"]);
    std::fs::write(shard, &whole[..whole.len() - 100]).expect("written");
    passed_over(&["rank-0000.safetensors has", "and should have"]);
    std::fs::write(shard, &whole).expect("written");
    std::fs::remove_file(&manifest).expect("removed");
    passed_over(&["manifest.json is missing"]);
    std::fs::write(&manifest, &text[..text.len() / 2]).expect("written");
    passed_over(&["manifest.json is damaged"]);
    // As a run that was killed leaves it.
    let half = Path::new(&place).join(".step-00000004.part");
    std::fs::rename(&newest, &half).expect("renamed");
    let (code, rest, told) = run(&resume);
    assert_eq!((code, rest.as_slice()), (0, &lines[2..]), "{told}");
    assert!(told.contains(".step-00000004.part is passed over: it was not finished"), "{told}");
    // None whole.
    std::fs::remove_file(Path::new(&place).join("step-00000002/manifest.json")).expect("removed");
    let (code, rest, told) = run(&resume);
    assert!(code == 2 && rest.is_empty() && told.contains("E0661") && told.contains("manifest.json is missing"), "{told}");
    let (code, _, told) = run(&["--resume", "/nowhere"]);
    assert!(code == 2 && told.contains("E0630"), "{told}");
}

#[test]
fn another_model_is_refused() {
    let (folder, place, _) = saved();
    let path = folder.path().join("mlp.plan");
    std::fs::write(&path, compile(&bundled("mlp"), "--cluster local:2").to_bytes()).expect("written");
    let mut other = Command::new(env!("CARGO_BIN_EXE_shardwright"));
    let (code, _, told) = outcome(other.arg("run").arg(&path).args(["--resume", &place, "--zeros"]));
    assert!(code == 2 && told.contains("E0662") && told.contains("arg0"), "{told}");
}

/// Batches go on with the step's own.
#[test]
fn batches_go_on_where_they_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = bundled("gpt_tiny");
    let plan = Plan::from_bytes(&std::fs::read(plan()).expect("a file")).expect("a plan");
    let given = arguments(&model, &plan);
    // Three batches that differ: the tokens turned by one place each.
    let batches: Arguments = plan
        .interface
        .batch
        .iter()
        .filter_map(|(i, _)| {
            let t = given.get(i)?;
            let width = t.ty.dtype.bytes() as usize;
            let bytes = (0..3).flat_map(|turn| {
                let mut bytes = t.bytes.clone();
                bytes.rotate_left(turn * width);
                bytes
            });
            let ty = ir::TensorType::new(t.ty.dtype, [vec![3], t.ty.shape.clone()].concat());
            Some((*i, Arc::new(runtime::Tensor { bytes: bytes.collect(), ty })))
        })
        .collect();
    assert!(!batches.is_empty());
    let file = folder.path().join("batches.safetensors");
    runtime::checkpoint::write(&file, &batches).expect("written");
    let (file, place) = (file.display().to_string(), folder.path().join("ckpt").display().to_string());
    let (code, whole, told) = run(&["--batches", &file, "--steps", "7"]);
    assert_eq!(code, 0, "{told}");
    let (code, _, told) = run(&["--batches", &file, "--steps", "4", "--save", &place, "--save-every", "4"]);
    assert_eq!(code, 0, "{told}");
    let (code, rest, told) = run(&["--batches", &file, "--steps", "7", "--resume", &place]);
    assert_eq!((code, rest.as_slice()), (0, &whole[4..]), "{told}");
}

/// A disk that is full: files of more than a few blocks are refused, as a quota does.
#[test]
fn a_full_disk_is_told_and_harms_no_earlier_checkpoint() {
    let (_folder, place, lines) = saved();
    let size = std::fs::metadata(Path::new(&place).join("step-00000004/rank-0000.safetensors")).expect("a file").len();
    let limit = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", (size / 2).div_ceil(1024));
    let mut limited = Command::new("bash");
    limited.args(["-c", &limit, "bash"]).arg(env!("CARGO_BIN_EXE_shardwright")).args(["run", plan(), "--inputs", &inputs(), "--steps", "6"]);
    let (code, rest, told) = outcome(limited.args(["--save", &place, "--save-every", "1", "--resume", &place]));
    assert_eq!((code, rest.as_slice()), (1, &lines[4..]), "training goes on: {told}");
    assert!(told.contains("W0660") && told.contains("rank-0000.safetensors") && told.contains("E0665"), "{told}");
    unharmed(&place, &lines);
}

/// The same on a file system of a few blocks, where one may be mounted.
#[test]
fn a_small_disk_that_fills_up_is_told_and_harms_no_earlier_checkpoint() {
    let (folder, place, lines) = saved();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).expect("made");
    let used: u64 =
        std::fs::read_dir(Path::new(&place).join("step-00000004")).expect("a folder").map(|e| e.expect("an entry").metadata().expect("known").len()).sum();
    // Room for the two checkpoints that are there and half of a third.
    let options = format!("size={}", used * 5 / 2 + 16 * 4096);
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&disk).output();
    if !mounted.is_ok_and(|o| o.status.success()) {
        eprintln!("left out: no file system may be mounted here");
        return;
    }
    let on_disk = disk.join("ckpt").display().to_string();
    let copied = Command::new("cp").args(["-r", &place, &on_disk]).status().is_ok_and(|s| s.success());
    let done = std::panic::catch_unwind(|| {
        assert!(copied);
        let (code, rest, told) = run(&["--steps", "6", "--save", &on_disk, "--save-every", "1", "--keep", "9", "--resume", &on_disk]);
        assert_eq!((code, rest.as_slice()), (1, &lines[4..]), "{told}");
        assert!(told.contains("W0660") && told.contains("No space left") && told.contains("E0665"), "{told}");
        unharmed(&on_disk, &lines);
    });
    let unmounted = Command::new("umount").arg(&disk).status();
    assert!(unmounted.is_ok_and(|s| s.success()));
    done.unwrap_or_else(|e| std::panic::resume_unwind(e));
}

/// The checkpoints of [`saved`] are there and whole, with nothing beside them, and a run continues from them.
fn unharmed(place: &str, lines: &[String]) {
    assert_eq!(steps_in(Path::new(place)), [4, 2]);
    assert!(runtime::checkpoint::store::unfinished(Path::new(place)).expect("a folder").is_empty());
    let (code, rest, told) = run(&["--steps", "6", "--resume", place]);
    assert_eq!((code, rest.as_slice()), (0, &lines[4..]), "{told}");
    assert!(told.contains("Resumed step 4"), "{told}");
}

/// Killed at random moments, again and again, until the run is over: nothing but steps since the last checkpoint is ever lost, and every loss is the unbroken run's.
#[test]
fn a_killed_run_loses_at_most_what_lies_between_two_checkpoints() {
    const EVERY: u64 = 3;
    const STEPS: u64 = 40;
    let steps = STEPS.to_string();
    let (code, whole, told) = run(&["--steps", &steps]);
    assert_eq!((code, whole.len() as u64), (0, STEPS), "{told}");
    let mut kills = 0;
    for seed in 0..6u64 {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("ckpt").display().to_string();
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut told_before = 0;
        loop {
            let mut child = command(&["--steps", &steps, "--save", &place, "--save-every", "3"]);
            let any = Path::new(&place).exists() && !steps_in(Path::new(&place)).is_empty();
            if any {
                child.args(["--resume", &place]);
            }
            let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command starts");
            let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
            // At a moment between two lines, or after one.
            let until = 1 + next(12) as usize;
            let mut seen: Vec<String> = lines.by_ref().take(until).collect();
            std::thread::sleep(Duration::from_micros(next(4000)));
            child.kill().expect("killed");
            seen.extend(lines);
            let ended = child.wait().expect("ended").success();
            let first = seen.first().map(|l| step_of(l));
            for line in &seen {
                assert_eq!(*line, whole[step_of(line) as usize], "seed {seed}");
            }
            if let Some(first) = first {
                assert!(first <= told_before && told_before - first <= EVERY, "seed {seed}: {told_before} steps were told, and it went on with {first}");
                told_before = told_before.max(step_of(seen.last().expect("not empty")) + 1);
            }
            kills += u64::from(!ended);
            if ended {
                break;
            }
        }
        assert_eq!(told_before, STEPS);
    }
    eprintln!("{kills} kills");
    assert!(kills >= 6, "the run was killed before it ended: {kills}");
}

fn step_of(line: &str) -> u64 {
    line.strip_prefix("step ").and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no step in {line:?}"))
}
