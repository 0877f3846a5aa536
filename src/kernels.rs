//! `compile … --report kernels`: what the GPU kernels move and take, and each region beside the least it could move.

use crate::diagnostics::Terminal;
use compiler::lower::report::{KernelRow, RegionRow, Report};
use ir::Bytes;
use serde_json::json;

/// Rows of a table that are printed; `--json` has all.
const ROWS: usize = 40;

fn ratio(moved: Bytes, least: Bytes) -> f64 {
    if least.0 == 0 { 1.0 } else { moved.0 as f64 / least.0 as f64 }
}

/// Prints the report.
pub(crate) fn print(report: &Report, terminal: &Terminal) {
    if terminal.json() {
        terminal.object(&as_json(report));
        return;
    }
    let threads = |k: &KernelRow| k.launches.iter().map(|l| l.block.iter().product::<u32>().to_string()).collect::<Vec<_>>().join("+");
    let blocks = |k: &KernelRow| k.launches.iter().map(|l| l.grid.iter().map(|&n| u64::from(n)).product::<u64>().to_string()).collect::<Vec<_>>().join("+");
    terminal.line(&format!(
        "{:18} {:>5} {:>12} {:>12} {:>9} {:>5} {:>6} {:>7} {:>5}  first use",
        "kernel", "runs", "moved", "blocks", "threads", "regs", "spills", "shared", "occ."
    ));
    for k in report.kernels.iter().take(ROWS) {
        let registers = k.registers().map_or_else(|| "-".into(), |r| r.to_string());
        let occupancy = k.occupancy(&report.level).map_or_else(|| "-".into(), |o| format!("{:.0} %", o * 100.0));
        terminal.line(&format!(
            "{:18} {:>5} {:>12} {:>12} {:>9} {:>5} {:>6} {:>7} {:>5}  {}",
            k.symbol,
            k.runs,
            k.moved.to_string(),
            blocks(k),
            threads(k),
            registers,
            k.spills(),
            k.shared(),
            occupancy,
            k.source
        ));
    }
    terminal.line("");
    terminal.line(&format!("{:>5} {:>5} {:>7} {:>12} {:>12} {:>6}  region, from", "times", "ops", "kernels", "least", "moved", "ratio"));
    for (times, r) in grouped(&report.regions).iter().take(ROWS) {
        terminal.line(&format!(
            "{times:>5} {:>5} {:>7} {:>12} {:>12} {:>6}  {}",
            r.ops,
            r.kernels,
            r.least.to_string(),
            r.moved.to_string(),
            if r.least.0 == 0 { "-".into() } else { format!("{:.2}", ratio(r.moved, r.least)) },
            r.source
        ));
    }
    terminal.line(&format!("a step moves {}, {:.2} times the least possible {}", report.moved, ratio(report.moved, report.least), report.least));
    if report.kernels.iter().any(|k| k.assembled.is_empty()) {
        terminal.line("registers and spills are not known: there is no ptxas on the PATH, nor named by SHARDWRIGHT_PTXAS");
    }
}

/// Regions that are alike as one row, with how many they are.
fn grouped(regions: &[RegionRow]) -> Vec<(u64, RegionRow)> {
    let mut rows: Vec<(u64, RegionRow)> = Vec::new();
    for r in regions {
        let alike = |(_, o): &&mut (u64, RegionRow)| (o.ops, o.kernels, o.least, o.moved) == (r.ops, r.kernels, r.least, r.moved);
        match rows.iter_mut().find(alike) {
            Some((times, _)) => *times += 1,
            None => rows.push((1, r.clone())),
        }
    }
    rows.sort_by_key(|(times, r)| std::cmp::Reverse(r.moved.0 * times));
    rows
}

fn as_json(report: &Report) -> serde_json::Value {
    let kernels: Vec<_> = report
        .kernels
        .iter()
        .map(|k| {
            json!({
                "kernel": k.symbol, "first_use": k.source, "runs": k.runs, "moved_bytes": k.moved.0,
                "launches": k.launches.iter().map(|l| json!({"entry": l.entry, "grid": l.grid, "block": l.block, "scratch_bytes": l.scratch})).collect::<Vec<_>>(),
                "registers": k.registers(), "spilled_bytes": k.registers().map(|_| k.spills()), "shared_bytes": k.registers().map(|_| k.shared()),
                "occupancy": k.occupancy(&report.level),
            })
        })
        .collect();
    let regions: Vec<_> = report
        .regions
        .iter()
        .map(|r| {
            json!({
                "stage": r.stage.0, "first": r.source, "ops": r.ops, "kernels": r.kernels, "least_bytes": r.least.0, "moved_bytes": r.moved.0,
            })
        })
        .collect();
    json!({
        "architecture": report.level, "kernels": kernels, "regions": regions,
        "moved_bytes": report.moved.0, "least_bytes": report.least.0, "ratio": ratio(report.moved, report.least),
    })
}
