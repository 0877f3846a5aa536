//! Micro-benchmarks against published measurements of the same hardware: all-reduces, matrix products, attention, memory copies.
//!
//! Reads `$SHARDWRIGHT_DATA/data/published`; without it nothing is checked, and the test says so. Printed with `--nocapture`: per file and
//! per source the rows used and left out with the reason, median and 90th percentile of the absolute error, bias, and the largest errors
//! (`SHARDWRIGHT_ROWS=1` prints every row). `docs/accuracy.md` holds what is reached; the bounds asserted here are that, with little room.

#![allow(clippy::print_stderr, reason = "the figures are what this test is read for")]

use cost_model::{AnalyticModel, AttentionKernel, AttentionWork, Cluster, CollectiveCall, CostModel, FusedKernel, Group, KernelWork, MatMulShape};
use ir::program::CollectiveKind;
use ir::{Bytes, DType, Flops};
use std::collections::BTreeMap;
use std::path::PathBuf;

type Row = BTreeMap<String, String>;

/// The rows of a CSV file; `None` without the data.
fn rows(file: &str) -> Option<Vec<Row>> {
    let Some(data) = std::env::var_os("SHARDWRIGHT_DATA") else {
        eprintln!("left out: SHARDWRIGHT_DATA is not set");
        return None;
    };
    let path = PathBuf::from(data).join("data/published").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text.lines().map(fields);
    let header = lines.next().expect("a header");
    Some(lines.map(|line| header.iter().cloned().zip(line).collect()).collect())
}

fn fields(line: &str) -> Vec<String> {
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

fn number(row: &Row, column: &str) -> Option<f64> {
    row[column].parse().ok()
}

/// A prediction beside its measurement, or why there is none.
enum Judged {
    Compared { set: String, row: String, predicted: f64, measured: f64 },
    LeftOut(&'static str),
}

struct Errors {
    rows: usize,
    median: f64,
    ninetieth: f64,
    bias: f64,
}

fn errors(ratios: &[f64]) -> Errors {
    let mut signed: Vec<f64> = ratios.iter().map(|r| r - 1.0).collect();
    signed.sort_by(f64::total_cmp);
    let bias = signed[signed.len() / 2];
    let mut absolute: Vec<f64> = signed.iter().map(|e| e.abs()).collect();
    absolute.sort_by(f64::total_cmp);
    let at = |q: usize| absolute[(absolute.len() - 1) * q / 100];
    Errors { rows: absolute.len(), median: at(50), ninetieth: at(90), bias }
}

/// Prints a file's report and returns its errors, pooled over its sets.
fn report(file: &str, judged: Vec<Judged>) -> Errors {
    let mut sets: BTreeMap<String, Vec<(f64, String)>> = BTreeMap::new();
    let mut skipped: BTreeMap<&str, usize> = BTreeMap::new();
    for j in judged {
        match j {
            Judged::Compared { set, row, predicted, measured } => sets.entry(set).or_default().push((predicted / measured, row)),
            Judged::LeftOut(reason) => *skipped.entry(reason).or_default() += 1,
        }
    }
    let line = |name: &str, ratios: &[f64]| {
        let e = errors(ratios);
        let (median, ninetieth, bias) = (100.0 * e.median, 100.0 * e.ninetieth, 100.0 * e.bias);
        eprintln!("{name:52} {:4} rows  median {median:5.1} %  p90 {ninetieth:5.1} %  bias {bias:+6.1} %", e.rows);
        e
    };
    eprintln!("{file}");
    for (name, rows) in &sets {
        line(&format!("  {name}"), &rows.iter().map(|r| r.0).collect::<Vec<_>>());
    }
    let mut all: Vec<(f64, String)> = sets.into_values().flatten().collect();
    let whole = line("  all", &all.iter().map(|r| r.0).collect::<Vec<_>>());
    for (reason, count) in skipped {
        eprintln!("  left out: {count} rows: {reason}");
    }
    all.sort_by(|a, b| (b.0 - 1.0).abs().total_cmp(&(a.0 - 1.0).abs()));
    let shown = if std::env::var_os("SHARDWRIGHT_ROWS").is_some() { all.len() } else { 8 };
    for (ratio, row) in all.iter().take(shown) {
        eprintln!("    {:+6.1} %  {row}", 100.0 * (ratio - 1.0));
    }
    whole
}

fn model(spec: &str) -> AnalyticModel {
    let cluster = if spec.contains('=') { Cluster::from_toml("c.toml", spec) } else { Cluster::parse(spec) };
    AnalyticModel::new(cluster.unwrap_or_else(|e| panic!("{e}")))
}

/// One node of a device.
fn single(device: &str) -> AnalyticModel {
    model(&format!("base = \"dgx-a100:1\"\ndevice = \"{device}\"\n"))
}

#[test]
fn matrix_products() {
    let Some(rows) = rows("kernel_gemm.csv") else { return };
    let judged = rows.iter().map(|r| {
        let device = match r["gpu"].as_str() {
            "V100 (DGX-1)" => "V100-SXM2-16GB",
            "V100-PCIE-32GB" => "V100-PCIe-32GB",
            "A100 80GB PCIe" => "A100-PCIe-80GB",
            "A100-PCIE-40GB" => "A100-PCIe-40GB",
            "A100-80GB-SXM" | "A100 SXM" => "A100-SXM-80GB",
            "H100 80GB HBM3" | "H100-80GB-SXM" | "H100 SXM" => "H100-SXM-80GB",
            "H200-SXM" | "H200 SXM" => "H200-SXM-141GB",
            "GH200 SXM" => "GH200-96GB",
            "B300 SXM" => "B300-SXM-288GB",
            _ => return Judged::LeftOut("another device"),
        };
        let dtype = match r["dtype"].split(' ').next() {
            Some("fp32") => DType::F32,
            Some("fp16") => DType::F16,
            Some("bf16") => DType::BF16,
            Some("fp8") => DType::F8E4M3FN,
            _ => return Judged::LeftOut("no single type"),
        };
        let (Some(m), Some(n), Some(k)) = (number(r, "m"), number(r, "n"), number(r, "k")) else { return Judged::LeftOut("no whole shape") };
        // This source's columns are tokens, input features, output features: `k` is the width of the result.
        let (n, k) = if r["source"].contains("NeuSight") { (k, n) } else { (n, k) };
        // These call the library as it is, column by column: its rows lie in memory as our columns do.
        let by_columns = r["source"].contains("DeepBench") || r["source"].contains("Azure");
        let (m, n) = if by_columns { (n, m) } else { (m, n) };
        let shape = MatMulShape { batch: 1, m: m as u64, n: n as u64, k: k as u64, dtype };
        let measured = number(r, "time_ms").map_or_else(|| shape.flops().0 / (number(r, "tflops").expect("a rate") * 1e12), |ms| ms * 1e-3);
        let set = format!("{} {}, {}", r["gpu"], r["dtype"].split(' ').next().unwrap_or(""), r["source"].split('/').next().unwrap_or(""));
        let row = format!("{} {set} {m}x{n}x{k} {:.0} us", r["row_id"], measured * 1e6);
        Judged::Compared { set, row, predicted: single(device).matmul(&shape).0, measured }
    });
    let e = report("kernel_gemm", judged.collect());
    assert!(e.median < 0.07 && e.ninetieth < 0.22, "{} {}", e.median, e.ninetieth);
}

#[test]
fn fused_and_unfused_attention() {
    let Some(rows) = rows("kernel_attention.csv") else { return };
    let judged = rows.iter().map(|r| {
        let device = match r["gpu"].as_str() {
            "A100-80GB-SXM4" => "A100-SXM-80GB",
            "H100-80GB-SXM5" => "H100-SXM-80GB",
            _ => return Judged::LeftOut("another device"),
        };
        if r["causal"] == "not stated" || r["pass_"] == "not stated" {
            return Judged::LeftOut("mask and direction are not stated");
        }
        let kernel = match r["impl"].as_str() {
            "FlashAttention-2" => AttentionKernel::Fused(FusedKernel::Flash2),
            "FlashAttention-3" => AttentionKernel::Fused(FusedKernel::Flash3),
            "cuDNN" => AttentionKernel::Fused(FusedKernel::CuDnn),
            "PyTorch unfused attention" => AttentionKernel::Unfused,
            _ => return Judged::LeftOut("another implementation"),
        };
        let (head_size, sequence) = (number(r, "head_dim").expect("a head size") as u64, number(r, "seq_len").expect("a length") as u64);
        let causal = r["causal"] == "True";
        // The papers' setting: 16k tokens, 2,048 features.
        let heads = 2048 / head_size;
        let forward = AttentionWork::forward(16384 / sequence, heads, heads, sequence, head_size, causal, DType::F16);
        let work = AttentionWork { kernel, ..forward };
        let model = single(device);
        let both = r["pass_"] == "fwd+bwd";
        let backward = if both { model.attention(&work.derivative()).0 } else { 0.0 };
        // The papers count half of a square under a causal mask, and 3.5 times the forward operations for both directions.
        let square = 4.0 * (16384.0 * sequence as f64) * 2048.0;
        let operations = square * if causal { 0.5 } else { 1.0 } * if both { 3.5 } else { 1.0 };
        let measured = operations / (number(r, "tflops").expect("a rate") * 1e12);
        let set = format!("{} {} {}", r["gpu"], r["impl"], r["pass_"]);
        let row = format!("{} {set} length {sequence} head {head_size}{}", r["row_id"], if causal { " causal" } else { "" });
        Judged::Compared { set, row, predicted: model.attention(&work).0 + backward, measured }
    });
    let e = report("kernel_attention", judged.collect());
    assert!(e.median < 0.05 && e.ninetieth < 0.16, "{} {}", e.median, e.ninetieth);
}

#[test]
fn collectives() {
    let Some(rows) = rows("kernel_collectives.csv") else { return };
    let judged = rows.iter().map(|r| {
        let nodes = number(r, "nodes").expect("nodes") as u32;
        let source = r["source"].split('/').next().unwrap_or("");
        let machine = match (source, r["gpu"].as_str(), nodes) {
            ("VIA-Research", "A100", _) => "dgx-a100",
            ("VIA-Research", "V100", _) => "dgx-1",
            ("aws-samples", "A100-80GB", _) => "p4de.24xlarge",
            ("aws-samples", "H100-80GB", _) => "p5.48xlarge",
            ("Azure", "A100-80GB", _) => "nd-a100-v4",
            ("Azure" | "stas00", "H200", 1) => "hgx-h200",
            ("stas00", "H200", _) => "p5en.48xlarge",
            ("stas00", "B200", _) => "p6-b200.48xlarge",
            ("coreweave", "GB200", _) => "gb200-nvl72",
            ("bigscience-workshop", "V100-16GB" | "V100-32GB", _) => "jean-zay-v100",
            _ => return Judged::LeftOut("hardware is not named"),
        };
        if r["notes"].contains("forced") {
            return Judged::LeftOut("another algorithm was forced");
        }
        let kind = match r["collective"].as_str() {
            "all_reduce" => CollectiveKind::AllReduce,
            "all_gather" => CollectiveKind::AllGather,
            "reduce_scatter" => CollectiveKind::ReduceScatter,
            _ => return Judged::LeftOut("another collective"),
        };
        let devices = number(r, "n_gpus").expect("devices") as u32;
        // The switches of a rack make one node of it.
        let nodes = if machine == "gb200-nvl72" { devices.div_ceil(72) } else { nodes };
        let mut cluster = Cluster::parse(&format!("{machine}:{nodes}")).expect("a preset");
        if r["notes"].contains("NVLS_ENABLE=0") || r["notes"].contains("NVLS off") {
            cluster.intra.in_switch_reduction = false;
        }
        let bytes = number(r, "size_bytes").expect("a size");
        let rounds = if kind == CollectiveKind::AllReduce { 2.0 } else { 1.0 };
        let moved = rounds * f64::from(devices - 1) / f64::from(devices) * bytes;
        let measured = number(r, "time_us").map_or_else(|| moved / (number(r, "busbw_gb_per_s").expect("a rate") * 1e9), |us| us * 1e-6);
        let call = CollectiveCall { kind, bytes: Bytes(bytes as u64), dtype: DType::F32 };
        let found = AnalyticModel::new(cluster).collective(&call, &Group::over_nodes(nodes, devices / nodes));
        let set = format!("{} x {devices} on {nodes} nodes, {source}", r["gpu"]);
        let row = format!("{} {set} {bytes} bytes {:.0} us, {} by {}", r["row_id"], measured * 1e6, found.algorithm, found.protocol);
        Judged::Compared { set, row, predicted: found.time.0, measured }
    });
    let e = report("kernel_collectives", judged.collect());
    assert!(e.median < 0.06 && e.ninetieth < 0.22, "{} {}", e.median, e.ninetieth);
}

#[test]
fn copies_and_specifications() {
    let Some(rows) = rows("hardware_specs.csv") else { return };
    let mut compared = 0;
    for r in &rows {
        let Some(value) = number(r, "value") else { continue };
        let device = match r["gpu"].as_str() {
            "V100-SXM2" => "V100-SXM2-16GB",
            "A100-SXM" | "A100-SXM-80GB" | "A100-80GB-SXM" | "A100" => "A100-SXM-80GB",
            "A100-SXM-40GB" => "A100-SXM-40GB",
            "A100-PCIe" => "A100-PCIe-80GB",
            "H100-SXM" | "H100-80GB-SXM" | "H100" => "H100-SXM-80GB",
            "H100-PCIe" => "H100-PCIe-80GB",
            "H200-SXM" | "H200" => "H200-SXM-141GB",
            "B200-SXM" => "B200-SXM-180GB",
            "GB200-SXM" => "GB200-186GB",
            "B300-SXM" => "B300-SXM-288GB",
            "GB300-SXM" => "GB300-288GB",
            "H100-96GB-HBM2e (Meta Grand Teton)" => "H100-96GB-500W",
            _ => continue,
        };
        let model = single(device);
        let d = &model.cluster().device;
        let stream = |words: u64| {
            let bytes = Bytes(words << 30);
            let work = KernelWork { read: bytes, written: Bytes(0), flops: Flops(0.0), dtype: DType::F32 };
            bytes.0 as f64 / model.kernel(&work).0 / 1e12
        };
        let (ours, room) = match r["quantity"].as_str() {
            "peak_dense_fp32_nontensor" => (d.peak.f32.0 / 1e12, 0.01),
            "peak_dense_tf32" => (d.peak.tf32.0 / 1e12, 0.01),
            "peak_dense_fp16_bf16" | "peak_dense_fp16_tensor" => (d.peak.f16.0 / 1e12, 0.01),
            "peak_dense_fp8" => (d.peak.f8.0 / 1e12, 0.01),
            "hbm_bandwidth" => (d.memory_bandwidth.0 / 1e9, 0.03),
            "hbm_capacity" => (d.memory.0 as f64 / f64::from(1 << 30), 0.01),
            "measured_hbm_copy" | "measured_hbm_triad" => (stream(8), 0.06),
            "l2_cache" => (d.cache.0 as f64 / f64::from(1 << 20), 0.0),
            "sm_count" => (f64::from(d.units), 0.0),
            _ => continue,
        };
        compared += 1;
        assert!((ours / value - 1.0).abs() <= room, "{}: {} of {device} is {ours}, and {value} is published", r["row_id"], r["quantity"]);
    }
    eprintln!("hardware_specs: {compared} of {} rows are device figures, all as published", rows.len());
    assert!(compared > 50);
}
