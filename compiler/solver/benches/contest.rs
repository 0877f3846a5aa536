//! The contest's instances within its time limits: `iopddl FILE SECONDS` as the judges start it, its answer priced again on the instance as it was read.
//!
//! Instances come from the folder `data/iopddl` of what `SHARDWRIGHT_DATA` names. `score` is the best cost of the contest over ours.

use solver::contest;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// (instance, seconds, best cost in the contest)
const INSTANCES: &[(&str, u32, i128)] =
    &[("A", 60, 6_548_641_531), ("B", 60, 532_843), ("G", 120, 217_039), ("K", 180, 2_274_276_676), ("L", 180, 1_970_993_742), ("V", 300, 1_632_051)];

#[allow(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
fn report(line: &str) {
    println!("{line}");
}

fn measure(file: &Path, seconds: u32) -> Result<(i128, f64, String), String> {
    let problem = contest::read(file).map_err(|e| e.to_string())?;
    let began = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_iopddl")).arg(file).arg(seconds.to_string()).stderr(Stdio::piped()).output().map_err(|e| e.to_string())?;
    let took = began.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().ok_or("nothing was printed")?;
    let choice = last
        .trim_matches(['[', ']'])
        .split(',')
        .map(|n| n.trim().parse().map_err(|_| format!("`{n}` is no strategy")))
        .collect::<Result<Vec<u32>, String>>()?;
    let cost = problem.feasible_cost(&choice).ok_or("the answer does not fit in memory")?;
    let told = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().trim().to_owned();
    Ok((cost, took, told))
}

fn main() {
    let Ok(data) = std::env::var("SHARDWRIGHT_DATA") else {
        report("left out: SHARDWRIGHT_DATA is not set, so there are no contest instances");
        return;
    };
    let folder = PathBuf::from(data).join("data/iopddl");
    let mut scores = Vec::new();
    for &(name, seconds, best) in INSTANCES {
        match measure(&folder.join(format!("asplos-2025-iopddl-{name}.json.gz")), seconds) {
            Ok((cost, took, told)) => {
                let score = if took <= f64::from(seconds) { best as f64 / cost as f64 } else { 0.0 };
                scores.push(score);
                report(&format!("{name}: cost {cost}, score {score:.5}, {took:.1} s of {seconds} s; {told}"));
            }
            Err(why) => {
                scores.push(0.0);
                report(&format!("{name}: {why}"));
            }
        }
    }
    report(&format!("mean score {:.5}", scores.iter().sum::<f64>() / scores.len() as f64));
}
