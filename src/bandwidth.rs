//! `bandwidth PLAN`: what a plan's kernels move a second on the GPU here, beside a copy. Hidden: `scripts/gpu.sh` is who asks.

use crate::diagnostics::Terminal;
use cuda::bandwidth::{CLEARED, measure};
use ir::{Bytes, Result};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Bytes from which a kernel counts in the mean: shorter ones are mostly their start.
const LONG: u64 = 8 << 20;

/// Measure a plan's kernels on the GPU here.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan, compiled with `--target cuda:…`.
    plan: PathBuf,
    /// How often each kernel is timed.
    #[arg(long, default_value_t = 20, value_name = "N")]
    repeats: usize,
}

/// `bandwidth`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    let plan = Arc::new(crate::run::read_plan(&args.plan)?);
    let cards = cuda::card::cards(1)?;
    let report = measure(&plan, &cards[0], args.repeats, CLEARED)?;
    let rate = |bytes: u64, seconds: f64| bytes as f64 / seconds / 1e9;
    let copy = rate(report.copy.0, report.copy.1);
    let mut rows = report.rows;
    rows.sort_by(|a, b| (b.seconds * b.runs as f64).total_cmp(&(a.seconds * a.runs as f64)));
    let long = || rows.iter().filter(|r| r.bytes >= LONG);
    let moved: f64 = long().map(|r| r.bytes as f64 * r.runs as f64).sum();
    let took: f64 = long().map(|r| r.seconds * r.runs as f64).sum();
    let mean = if took > 0.0 { moved / took / 1e9 } else { 0.0 };
    if terminal.json() {
        let kernels: Vec<_> = rows
            .iter()
            .map(|r| json!({"source": r.source, "runs": r.runs, "bytes": r.bytes, "seconds": r.seconds, "gb_per_s": rate(r.bytes, r.seconds)}))
            .collect();
        terminal.object(&json!({"card": report.card, "copy_gb_per_s": copy, "mean_gb_per_s": mean, "of_copy": mean / copy, "kernels": kernels}));
        return Ok(ExitCode::SUCCESS);
    }
    for r in &rows {
        let share = 100.0 * rate(r.bytes, r.seconds) / copy;
        terminal.line(&format!(
            "{:>4} × {:>10} {:>9.1} µs {:>8.0} GB/s {share:>4.0} %  {}",
            r.runs,
            Bytes(r.bytes).to_string(),
            1e6 * r.seconds,
            rate(r.bytes, r.seconds),
            r.source
        ));
    }
    terminal.line(&format!(
        "{}: a copy moves {copy:.0} GB/s; kernels of {} and more move {mean:.0} GB/s, {:.0} % of it",
        report.card,
        Bytes(LONG),
        100.0 * mean / copy
    ));
    Ok(ExitCode::SUCCESS)
}
