//! `flight DIR`: reads the flight records of a run's ranks and says who was where.

use crate::diagnostics::Terminal;
use ir::Result;
use runtime::processes::flight::{Found, Moment, State, read_all};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show where the ranks of a run were last.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder with the records, as `run --log-dir` was given it.
    folder: PathBuf,
    /// How many of the latest moments of each rank to show.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    last: u32,
}

/// `flight`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    let (records, damaged) = read_all(&args.folder)?;
    terminal.notes(&damaged);
    // The rank that came least far is the one that others wait for.
    let far = |r: &Found| r.moments.last().map_or((0, 0), |m| (m.step, m.number));
    let least = records.iter().map(far).min().unwrap_or_default();
    let differs = records.iter().any(|r| far(r) != least);
    for record in &records {
        let begun = record.moments.len().saturating_sub(args.last as usize);
        for moment in &record.moments[begun..] {
            show(record, moment, terminal);
        }
    }
    if !terminal.json() {
        let ranks = records.first().map_or(0, |r| r.ranks);
        let missing: Vec<String> = (0..ranks).filter(|r| records.iter().all(|f| f.rank != *r)).map(|r| r.to_string()).collect();
        if !missing.is_empty() {
            terminal.line(&format!("no record of ranks {}", missing.join(", ")));
        }
        if differs {
            let behind: Vec<String> = records.iter().filter(|r| far(r) == least).map(|r| r.rank.to_string()).collect();
            terminal.line(&format!(
                "furthest behind: rank{} {} (step {}, communication {})",
                if behind.len() > 1 { "s" } else { "" },
                behind.join(", "),
                least.0,
                least.1
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(record: &Found, moment: &Moment, terminal: &Terminal) {
    let state = match record.state {
        State::Running => "ended without a word",
        State::Done => "done",
        State::Stopped => "stopped",
    };
    let (at, waits) = record.describe(moment);
    let seconds = moment.nanoseconds as f64 * 1e-9;
    if terminal.json() {
        let value = json!({
            "rank": record.rank, "stage": record.stage, "state": state, "at": at, "communication": moment.number, "communicates": waits,
            "step": moment.step, "seconds": seconds,
        });
        return terminal.object(&value);
    }
    terminal.line(&format!("rank {} (stage {}, {state})  {seconds:.6} s  {at}", record.rank, record.stage));
}
