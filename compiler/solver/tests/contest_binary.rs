//! The contest binary end to end: the last line is a feasible choice, in time, and wrong input is refused.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

fn run(path: &Path, seconds: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iopddl")).arg(path).arg(seconds).output().expect("the binary runs")
}

fn choice(output: &Output) -> Vec<u32> {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().expect("a last line").trim().trim_start_matches('[').trim_end_matches(']').to_owned();
    line.split(',').map(|s| s.trim().parse().expect("a number")).collect()
}

#[test]
fn solves_the_contest_example() {
    let Some(data) = std::env::var_os("SHARDWRIGHT_DATA") else {
        println!("left out: SHARDWRIGHT_DATA is not set");
        return;
    };
    let path = Path::new(&data).join("data/iopddl/example.json");
    let output = run(&path, "5");
    assert!(output.status.success());
    let problem = solver::contest::read(&path).expect("well formed");
    let mut best = None;
    for k in 0..12u32 {
        let candidate = [0, k % 2, k / 2 % 3, k / 6, 0];
        best = [best, problem.feasible_cost(&candidate)].into_iter().flatten().min();
    }
    assert_eq!(problem.feasible_cost(&choice(&output)), best);
}

#[test]
fn proves_the_inference_instance() {
    if std::env::var("SHARDWRIGHT_SLOW").is_err() {
        eprintln!("left out: SHARDWRIGHT_SLOW is not set, and proving takes a minute");
        return;
    }
    let Some(data) = std::env::var_os("SHARDWRIGHT_DATA") else {
        println!("left out: SHARDWRIGHT_DATA is not set");
        return;
    };
    let path = Path::new(&data).join("data/iopddl/asplos-2025-iopddl-B.json.gz");
    let begin = Instant::now();
    let output = run(&path, "60");
    assert!(begin.elapsed().as_secs() <= 60);
    let problem = solver::contest::read(&path).expect("well formed");
    assert_eq!(problem.feasible_cost(&choice(&output)), Some(532_843));
}

#[test]
fn refuses_what_is_not_a_problem() {
    let folder = std::env::temp_dir().join(format!("iopddl-binary-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let path = folder.join("wrong.json");
    std::fs::write(&path, "{\"problem\": []}").expect("written");
    assert_eq!(run(&path, "1").status.code(), Some(2));
    assert_eq!(run(&path, "soon").status.code(), Some(2));
    assert_eq!(run(&folder.join("absent.json"), "1").status.code(), Some(2));
    std::fs::remove_dir_all(&folder).expect("removed");
}
