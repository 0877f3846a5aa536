//! Matrix products and all-reduces against published measurements of the same hardware.
//!
//! Reads `$SHARDWRIGHT_DATA/data/published`; without it nothing is checked, and the test says so. Printed with `--nocapture`:
//! median and 90th percentile of the absolute error and the bias, per hardware. The bounds asserted are those of a first model.

#![allow(clippy::print_stderr, reason = "the figures are what this test is read for")]

use cost_model::{AnalyticModel, Cluster, CollectiveCall, CostModel, Group, MatMulShape};
use ir::program::CollectiveKind;
use ir::{Bytes, DType};
use std::path::PathBuf;

type Row = Vec<String>;

/// The rows of a CSV file with the wanted columns in order; `None` without the data.
fn rows(file: &str, columns: &[&str]) -> Option<Vec<Row>> {
    let Some(data) = std::env::var_os("SHARDWRIGHT_DATA") else {
        eprintln!("left out: SHARDWRIGHT_DATA is not set");
        return None;
    };
    let path = PathBuf::from(data).join("data/published").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text.lines().map(fields);
    let header = lines.next().expect("a header");
    let places: Vec<usize> = columns.iter().map(|c| header.iter().position(|h| h == c).unwrap_or_else(|| panic!("no column {c}"))).collect();
    Some(lines.map(|l| places.iter().map(|&p| l[p].clone()).collect()).collect())
}

fn fields(line: &str) -> Row {
    let (mut row, mut field, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    row.push(field);
    row
}

/// Prints and returns the median absolute error of ratios predicted / measured.
fn judge(what: &str, mut ratios: Vec<f64>) -> f64 {
    assert!(!ratios.is_empty(), "no rows for {what}");
    ratios.sort_by(f64::total_cmp);
    let bias = ratios[ratios.len() / 2] - 1.0;
    let mut errors: Vec<f64> = ratios.iter().map(|r| (r - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let at = |q: usize| errors[(errors.len() - 1) * q / 100];
    eprintln!("{what:40} {:4} rows  median {:5.1} %  p90 {:5.1} %  bias {:+5.1} %", errors.len(), 100.0 * at(50), 100.0 * at(90), 100.0 * bias);
    at(50)
}

fn model(file: &str) -> AnalyticModel {
    AnalyticModel::new(Cluster::from_toml("c.toml", file).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn matrix_products() {
    let Some(rows) = rows("kernel_gemm.csv", &["gpu", "dtype", "m", "n", "k", "tflops", "time_ms"]) else { return };
    let sets = [
        ("V100 (DGX-1)", "fp16", "V100-SXM2-16GB", DType::F16, ""),
        ("V100 (DGX-1)", "fp32", "V100-SXM2-16GB", DType::F32, ""),
        ("V100-PCIE-32GB", "fp32", "V100-SXM2-32GB", DType::F32, "peak = { f32 = 14.0e12 }"),
        ("A100 80GB PCIe", "fp32", "A100-SXM-80GB", DType::F32, "memory_bandwidth = 1940e9"),
        ("A100-PCIE-40GB", "fp32", "A100-SXM-40GB", DType::F32, ""),
        ("A100-80GB-SXM", "fp16", "A100-SXM-80GB", DType::F16, ""),
        ("H100 80GB HBM3", "fp32", "H100-SXM-80GB", DType::F32, ""),
        ("H100-80GB-SXM", "fp8", "H100-SXM-80GB", DType::F8E4M3FN, ""),
    ];
    let mut worst: f64 = 0.0;
    for (gpu, dtype_name, device, dtype, more) in sets {
        let model = model(&format!("base = \"dgx-a100:1\"\n[device]\nbase = \"{device}\"\n{more}\n"));
        let ratios = rows.iter().filter(|r| r[0] == gpu && r[1].starts_with(dtype_name)).filter_map(|r| {
            let number = |i: usize| r[i].parse::<f64>().ok();
            let shape = MatMulShape { batch: 1, m: number(2)? as u64, n: number(3)? as u64, k: number(4)? as u64, dtype };
            let measured = number(6).map(|ms| ms * 1e-3).or_else(|| Some(shape.flops().0 / (number(5)? * 1e12)))?;
            Some(model.matmul(&shape).0 / measured)
        });
        worst = worst.max(judge(&format!("{gpu} {dtype_name}"), ratios.collect()));
    }
    assert!(worst < 0.35, "{worst}");
}

#[test]
fn all_reduces() {
    let Some(rows) = rows("kernel_collectives.csv", &["gpu", "nodes", "n_gpus", "collective", "size_bytes", "busbw_gb_per_s", "time_us"]) else { return };
    let sets = [
        ("V100", "1", "base = \"p3.16xlarge:1\""),
        ("A100", "1", "base = \"dgx-a100:1\""),
        ("A100-80GB", "1", "base = \"dgx-a100:1\""),
        ("A100-80GB", "2", "base = \"dgx-a100:2\"\n[network]\nname = \"EFA\"\nbandwidth = 12.5e9\nadapters = 4\nlatency = 60e-6"),
        ("H100-80GB", "2", "base = \"dgx-h100:2\"\n[network]\nname = \"EFA\"\nlatency = 20e-6"),
        ("H200", "1", "base = \"dgx-h100:1\""),
    ];
    let mut worst: f64 = 0.0;
    for (gpu, nodes, file) in sets {
        let model = model(file);
        let of_set = rows.iter().filter(|r| r[0] == gpu && r[1] == nodes && r[3] == "all_reduce");
        let ratios = of_set.filter_map(|r| {
            let number = |i: usize| r[i].parse::<f64>().ok();
            let (size, nodes, bytes) = (number(2)? as u32, number(1)? as u32, number(4)?);
            // Small messages are launches and protocol; planning is decided by large ones.
            let measured = number(6).map(|us| us * 1e-6).or_else(|| Some(2.0 * f64::from(size - 1) / f64::from(size) * bytes / (number(5)? * 1e9)))?;
            let group = Group { size, nodes, per_node: size / nodes, sharing: 1 };
            let call = CollectiveCall { kind: CollectiveKind::AllReduce, bytes: Bytes(bytes as u64), dtype: DType::F32 };
            (bytes >= 1048576.0).then(|| model.collective(&call, &group).time.0 / measured)
        });
        worst = worst.max(judge(&format!("all-reduce {gpu}, {nodes} nodes"), ratios.collect()));
    }
    assert!(worst < 0.5, "{worst}");
}
