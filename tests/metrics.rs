//! `run --metrics` and `--tensorboard`: what is written is what was run, whole lines only, and a rank that departs is told.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they leave out")]

mod support;

use ir::Result;
use ir::plan::Plan;
use ir::program::{Phase, Program};
use runtime::device::cpu::CpuDevice;
use runtime::device::cpu::code::Object;
use runtime::device::{Device, Position, Region, Seat};
use runtime::metrics::tensorboard::{crc32c, masked};
use runtime::metrics::{StepFigures, Watch, What};
use runtime::{Arguments, Options, Session};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use support::{arguments, bundled, compile};

/// A folder with the small GPT's plan.
fn planned(flags: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gpt.plan");
    std::fs::write(&path, compile(&bundled("gpt_tiny"), flags).to_bytes()).expect("written");
    (folder, path.display().to_string())
}

/// Exit code, lines and what was told of a run.
fn run(plan: &str, arguments: &[&str]) -> (i32, Vec<String>, String) {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models/gpt_tiny.safetensors").display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_shardwright")).args(["run", plan, "--inputs", &inputs]).args(arguments).output().expect("it starts");
    let lines = String::from_utf8_lossy(&output.stdout).lines().map(String::from).collect();
    (output.status.code().unwrap_or(-1), lines, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a file");
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
    text.lines().map(|l| serde_json::from_str(l).expect("every line is JSON")).collect()
}

/// Fields of a protocol buffer: number, and value as bytes (of what has a length) or a number.
fn fields(mut bytes: &[u8]) -> Vec<(u64, std::result::Result<Vec<u8>, u64>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut n, mut shift) = (0, 0);
        loop {
            let b = bytes[0];
            *bytes = &bytes[1..];
            n |= u64::from(b & 0x7f) << shift;
            shift += 7;
            if b < 0x80 {
                return n;
            }
        }
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let mut take = |n: usize| {
            let (head, rest) = bytes.split_at(n);
            bytes = rest;
            head.to_vec()
        };
        let value = match key & 7 {
            1 => Err(u64::from_le_bytes(take(8).try_into().expect("8 bytes"))),
            5 => Err(u64::from(u32::from_le_bytes(take(4).try_into().expect("4 bytes")))),
            0 => Err(varint(&mut bytes)),
            _ => {
                let n = varint(&mut bytes) as usize;
                let (head, rest) = bytes.split_at(n);
                bytes = rest;
                Ok(head.to_vec())
            }
        };
        all.push((key >> 3, value));
    }
    all
}

/// The scalars of an event file, by step and tag, all checksums checked.
fn events(path: &Path) -> BTreeMap<(u64, String), f32> {
    let bytes = std::fs::read(path).expect("a file");
    let (mut rest, mut all) = (bytes.as_slice(), BTreeMap::new());
    let mut first = true;
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("4 bytes"));
        let n = u64::from_le_bytes(rest[..8].try_into().expect("8 bytes")) as usize;
        assert_eq!(word(8), masked(crc32c(&rest[..8])));
        let data = &rest[12..12 + n];
        assert_eq!(word(12 + n), masked(crc32c(data)));
        let event = fields(data);
        if first {
            assert!(event.contains(&(3, Ok(b"brain.Event:2".to_vec()))));
        }
        first = false;
        let step = event.iter().find_map(|(f, v)| if *f == 2 { v.as_ref().err().copied() } else { None }).unwrap_or(0);
        for (_, summary) in event.iter().filter(|(f, _)| *f == 5) {
            for (_, value) in fields(summary.as_ref().expect("a message")) {
                let value = fields(&value.expect("a message"));
                let tag = String::from_utf8(value[0].1.clone().expect("a tag")).expect("UTF-8");
                all.insert((step, tag), f32::from_bits(*value[1].1.as_ref().expect_err("a number") as u32));
            }
        }
        rest = &rest[16 + n..];
    }
    all
}

fn event_file(folder: &Path) -> std::path::PathBuf {
    std::fs::read_dir(folder).expect("a folder").next().expect("an event file").expect("readable").path()
}

#[test]
fn what_is_written_is_what_was_run() {
    let (folder, plan) = planned("--cluster local:4 --stages 2 --mesh 2 --microbatches 2");
    let (jsonl, logs) = (folder.path().join("m.jsonl"), folder.path().join("logs"));
    let (code, printed, told) = run(&plan, &["--steps", "4", "--metrics", &jsonl.display().to_string(), "--tensorboard", &logs.display().to_string()]);
    assert_eq!(code, 0, "{told}");
    let all = lines(&jsonl);
    assert_eq!((all.len(), all[0]["kind"].as_str(), printed.len()), (5, Some("header"), 4));
    let header = &all[0];
    assert_eq!(header["unit_of_work"], "tokens");
    assert_eq!(header["ranks"].as_array().map(Vec::len), Some(4));
    assert!(header["ranks"][3]["memory_bytes"].as_u64().is_some_and(|b| b > 0) && header["ranks"][3]["stage"] == 1);
    let written = events(&event_file(&logs));
    for (n, (step, line)) in all[1..].iter().zip(&printed).enumerate() {
        assert_eq!((step["kind"].as_str(), step["step"].as_u64()), (Some("step"), Some(n as u64)));
        let loss = step["loss"].as_f64().expect("a loss");
        assert!(line.contains(&format!("{loss:.6}")), "{line} and {loss}");
        let seconds = step["seconds"].as_f64().expect("a time");
        let rate = step["tokens_per_second"].as_f64().expect("a rate");
        let tokens = header["work_per_step"].as_f64().expect("tokens");
        assert!((rate * seconds / tokens - 1.0).abs() < 1e-9);
        let norm = step["gradient_norm"].as_f64().expect("a norm");
        assert!(norm > 0.0 && norm.is_finite());
        for rank in step["ranks"].as_array().expect("ranks") {
            let of = |key: &str| rank[key].as_f64().expect("a number");
            let parts = of("computing_seconds") + of("communication_seconds") + of("measuring_seconds");
            assert!((parts - of("seconds")).abs() < 1e-6 && of("seconds") <= seconds, "{rank}");
            let kinds: f64 = rank["communication"].as_object().expect("kinds").values().map(|k| k["seconds"].as_f64().expect("a time")).sum();
            assert!((kinds - of("communication_seconds")).abs() < 1e-6, "{rank}");
        }
        assert_eq!(written[&(n as u64, "loss".to_string())], loss as f32);
        assert_eq!(written[&(n as u64, "gradient_norm/all".to_string())], norm as f32);
    }
    read_with_tensorboard(&logs, all.last().and_then(|l| l["loss"].as_f64()).expect("a loss"));
}

/// The folder as Python's package reads it, where that is installed.
fn read_with_tensorboard(logs: &Path, last: f64) {
    let program = "import sys\nfrom tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n\
        a = EventAccumulator(sys.argv[1]); a.Reload(); s = a.Scalars('loss'); print(len(s), s[-1].step, s[-1].value)";
    #[allow(clippy::disallowed_methods, reason = "another reader than ours")]
    let output = Command::new("python3").args(["-c", program]).arg(logs).output();
    match output {
        Ok(o) if o.status.success() => {
            let text = String::from_utf8_lossy(&o.stdout).into_owned();
            let words: Vec<f64> = text.split_whitespace().map(|w| w.parse().expect("a number")).collect();
            assert_eq!(words, [4.0, 3.0, f64::from(last as f32)]);
        }
        _ => eprintln!("left out: Python's tensorboard package is not installed"),
    }
}

/// The norm of the gradient of the first step, the FLOPs of the model, and how many gradients are read, under a plan.
fn first_norm(flags: &str) -> (f64, usize, usize) {
    let model = bundled("gpt_tiny");
    let plan = compile(&model, flags);
    let mut session = Session::open(&plan, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    session.set_inputs(&arguments(&model, &plan)).unwrap_or_else(|e| panic!("{e}"));
    let count = session.measure().unwrap_or_else(|e| panic!("{e}")).gradients();
    session.step(&Arguments::new()).unwrap_or_else(|e| panic!("{e}"));
    let figures = session.measured().unwrap_or_else(|e| panic!("{e}")).expect("measured");
    assert_eq!(figures.unlike, [], "{flags}: copies agree");
    (figures.norm.unwrap_or(f64::NAN), count, plan.interface.parameters.len())
}

#[test]
fn the_norm_is_the_same_under_every_plan_and_counts_each_part_once() {
    let plans = [
        "--cluster local:1",
        "--cluster local:4 --strategy data",
        "--cluster local:4 --strategy zero3",
        "--cluster local:2 --strategy tensor",
        "--cluster local:2 --stages 2 --microbatches 2",
        "--cluster local:2 --stages 2 --microbatches 2 --schedule interleaved",
    ];
    let all: Vec<(f64, usize, usize)> = plans.iter().map(|p| first_norm(p)).collect();
    println!("{all:?}");
    for (flags, (norm, count, parameters)) in plans.iter().zip(&all) {
        // Where a gradient is left out the norm is smaller, and the count says so.
        if count == parameters {
            assert!((norm / all[0].0 - 1.0).abs() < 1e-4, "{flags}: {all:?}");
        } else {
            assert!(count < parameters && *norm < all[0].0 * 1.0001, "{flags}: {all:?}");
        }
    }
    assert_eq!(all[0].1, all[0].2, "on one device every gradient is read");
}

/// A device that sleeps before the first instruction of every backward.
struct Sleepy {
    inner: CpuDevice,
    nap: Duration,
}

impl Device for Sleepy {
    fn arena(&self) -> Region {
        self.inner.arena()
    }
    fn execute(&mut self, position: Position) -> Result<()> {
        if position.phase == Phase::Forward && position.instruction == 0 {
            std::thread::sleep(self.nap);
        }
        self.inner.execute(position)
    }
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.inner.write(offset, bytes);
    }
    fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.inner.read(offset, bytes);
    }
    fn scratch_bytes(&self) -> usize {
        self.inner.scratch_bytes()
    }
}

/// Departures of 12 steps on four ranks of which one may be slow.
fn departures(slow: Option<u32>) -> Vec<(u32, What, bool)> {
    let model = bundled("gpt_tiny");
    let plan: Arc<Plan> = compile(&model, "--cluster local:4 --strategy data");
    let object = Arc::new(Object::load(&plan.code[0]).unwrap_or_else(|e| panic!("{e}")));
    let of = plan.clone();
    let make = move |program: &Program, seat: &Seat| {
        let inner = CpuDevice::new(program, &of.kernels, Some(object.clone()), seat)?;
        let nap = Duration::from_millis(if slow == Some(seat.rank) { 400 } else { 100 });
        Ok(Box::new(Sleepy { inner, nap }) as Box<dyn Device>)
    };
    let mut session = Session::open_with(&plan, &Options::default(), make).unwrap_or_else(|e| panic!("{e}"));
    session.set_inputs(&arguments(&model, &plan)).unwrap_or_else(|e| panic!("{e}"));
    let mut watch = Watch::new(session.measure().unwrap_or_else(|e| panic!("{e}")));
    let mut all = Vec::new();
    for _ in 0..12 {
        session.step(&Arguments::new()).unwrap_or_else(|e| panic!("{e}"));
        let figures: StepFigures = session.measured().unwrap_or_else(|e| panic!("{e}")).expect("measured");
        all.extend(watch.step(&figures).into_iter().map(|d| (d.rank, d.what, d.begins)));
    }
    all
}

#[test]
fn a_slow_rank_is_told_and_even_ranks_are_not() {
    assert_eq!(departures(None), []);
    let told = departures(Some(2));
    assert!(!told.is_empty() && told.iter().all(|d| (d.0, d.1) == (2, What::Computing)), "{told:?}");
    assert_eq!(told.iter().filter(|d| d.2).count(), 1, "once a spell: {told:?}");
}

#[test]
fn files_that_are_there_are_continued_or_refused() {
    let (folder, plan) = planned("--cluster local:2 --strategy data");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (jsonl, saved) = (at("m.jsonl"), at("ckpt"));
    let (code, _, told) = run(&plan, &["--steps", "3", "--metrics", &jsonl, "--save", &saved, "--save-every", "2", "--keep", "9"]);
    assert_eq!(code, 0, "{told}");
    let before = std::fs::read(&jsonl).expect("a file");
    let (code, _, told) = run(&plan, &["--metrics", &jsonl]);
    assert!(code == 2 && told.contains("E0667"), "{told}");
    assert_eq!(std::fs::read(&jsonl).expect("a file"), before);
    // The newest checkpoint is of step 3; the one of step 2 makes step 2 be done again, and half a line is taken away.
    std::fs::remove_dir_all(folder.path().join("ckpt/step-00000003")).expect("removed");
    std::fs::write(&jsonl, [before.as_slice(), b"{\"kind\":\"st"].concat()).expect("written");
    let (code, _, told) = run(&plan, &["--steps", "5", "--metrics", &jsonl, "--resume", &saved]);
    assert_eq!(code, 0, "{told}");
    let steps: Vec<u64> = lines(Path::new(&jsonl)).iter().filter_map(|l| l["step"].as_u64()).collect();
    assert_eq!(steps, [0, 1, 2, 3, 4]);
    // What is no file of metrics is left alone.
    std::fs::write(at("other"), "precious\n").expect("written");
    let (code, _, told) = run(&plan, &["--steps", "5", "--metrics", &at("other"), "--resume", &saved]);
    assert!(code == 2 && told.contains("E0668"), "{told}");
    assert_eq!(std::fs::read_to_string(at("other")).expect("a file"), "precious\n");
    for (flag, path) in [("--metrics", at("")), ("--metrics", at("none/m.jsonl")), ("--tensorboard", at("other")), ("--tensorboard", at("other/logs"))] {
        let (code, _, told) = run(&plan, &[flag, &path]);
        assert!(code == 2 && told.contains("E0666") && !told.contains("panicked"), "{flag} {path}: {told}");
    }
}

#[test]
fn a_full_disk_is_told_once_and_the_run_goes_on() {
    if !Path::new("/dev/full").exists() {
        return eprintln!("left out: this system has no /dev/full");
    }
    let (_folder, plan) = planned("--cluster local:2 --strategy data");
    let (code, printed, told) = run(&plan, &["--steps", "3", "--metrics", "/dev/full"]);
    assert_eq!((code, printed.len()), (0, 3), "{told}");
    assert_eq!(told.matches("W0671").count(), 1, "{told}");
}

#[test]
fn the_models_flops_do_not_depend_on_the_plan() {
    let of = |flags: &str| {
        let (folder, plan) = planned(flags);
        let jsonl = folder.path().join("m.jsonl");
        assert_eq!(run(&plan, &["--metrics", &jsonl.display().to_string()]).0, 0);
        lines(&jsonl)[0]["model_flops_per_step"].as_f64().expect("FLOPs")
    };
    let one = of("--cluster local:1");
    for flags in ["--cluster local:4 --strategy data", "--cluster local:2 --stages 2 --microbatches 4", "--cluster local:2 --strategy tensor --recompute full"]
    {
        assert_eq!(of(flags), one, "{flags}");
    }
}
