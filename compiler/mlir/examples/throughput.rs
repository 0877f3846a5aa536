//! Gigabytes a second of typical kernels, beside `memcpy` of the same number of bytes, and the time their compilation takes.
//!
//! ```text
//! cargo run -p mlir --example throughput              # kernels written for it
//! cargo run -p mlir --example throughput -- gpt.plan  # a plan's kernels, slowest first, with what they are
//! cargo run -p mlir --example throughput -- gpt.plan k0123456789abcdef  # one of them, as MLIR and as LLVM IR
//! ```

#![allow(clippy::print_stdout, reason = "it prints a table")]

#[path = "../tests/kernels/build.rs"]
mod build;
#[path = "../tests/kernels/library.rs"]
mod library;
#[path = "../tests/kernels/models.rs"]
mod models;

use ir::kernel::{Kernel, NodeKind};
use ir::plan::Plan;
use library::{Library, Machine};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    match std::env::args().nth(1) {
        None => measure(&typical()),
        Some(path) => {
            let plan = std::fs::read(&path).map_err(|e| e.to_string()).and_then(|bytes| Plan::from_bytes(&bytes).map_err(|e| format!("{e:?}")));
            match plan {
                Ok(plan) if std::env::args().nth(2).is_some() => {
                    let symbol = std::env::args().nth(2);
                    for kernel in plan.kernels.values().filter(|k| Some(k.symbol()) == symbol) {
                        println!("{kernel:#?}\n{}", mlir::print_mlir(kernel).unwrap_or_else(|e| e.to_string()));
                        println!("{}", mlir::print_llvm(kernel, mlir::CpuTarget::V3).unwrap_or_else(|e| e.to_string()));
                    }
                }
                Ok(plan) => measure(&plan.kernels.values().map(|k| (describe(k), k.clone())).collect::<Vec<_>>()),
                Err(e) => {
                    println!("{path}: {e}");
                    return ExitCode::from(2);
                }
            }
        }
    }
    ExitCode::SUCCESS
}

fn typical() -> Vec<(String, Kernel)> {
    let elements = 1 << 20;
    let kernels = [
        ("gelu (tanh)", models::gelu(elements)),
        ("gelu (erf)", models::gelu_erf(elements)),
        ("softmax 4096 x 256", models::softmax(4096, 256)),
        ("softmax 8192 x 65", models::softmax(8192, 65)),
        ("softmax 256 x 4096 along columns", models::column_softmax(256, 4096)),
        ("layer norm 4096 x 256", models::layer_norm(4096, 256)),
        ("layer norm backward 4096 x 256", models::layer_norm_backward(4096, 256)),
        ("adam", models::adam(elements)),
        ("bias gradient 4096 x 256", models::column_sum(4096, 256)),
        ("transpose 1024 x 1024", models::transpose(1024, 1024)),
        ("cross entropy 4096 x 256", models::cross_entropy(4096, 256)),
        ("add in bf16", models::add_bf16(elements)),
    ];
    kernels.into_iter().map(|(name, kernel)| (name.to_owned(), kernel)).collect()
}

/// A kernel's shape in a line.
fn describe(kernel: &Kernel) -> String {
    let outputs = kernel.params.iter().filter(|p| p.output).count();
    let folds = kernel.nodes.values().filter(|n| matches!(n.kind, NodeKind::Reduce(..))).count();
    let symbol = kernel.symbol();
    format!(
        "{symbol} {:?} over {:?}, {} in, {outputs} out, {} nodes, {folds} folds",
        kernel.domain,
        kernel.reduced,
        kernel.params.len() - outputs,
        kernel.nodes.len()
    )
}

fn measure(kernels: &[(String, Kernel)]) {
    let references: Vec<&Kernel> = kernels.iter().map(|(_, k)| k).collect();
    let start = Instant::now();
    let library = Library::compile(&references);
    println!("compiled {} kernels in {:.0} ms", kernels.len(), 1e3 * start.elapsed().as_secs_f64());
    let mut rows: Vec<(f64, String)> = Vec::new();
    for (number, (name, kernel)) in kernels.iter().enumerate() {
        let mut buffers: Vec<Vec<u8>> = kernel.params.iter().map(|p| models::fill(p.dtype, p.elements)).collect();
        let bytes: usize = buffers.iter().map(Vec::len).sum();
        let time = best(|| library.call(number, &mut buffers, &vec![0; kernel.scalars as usize]));
        let source = vec![1u8; bytes / 2];
        let mut target = vec![0u8; bytes / 2];
        let copy = best(|| target.copy_from_slice(std::hint::black_box(&source)));
        std::hint::black_box(&target);
        let (rate, copied) = (bytes as f64 / time / 1e9, bytes as f64 / copy / 1e9);
        rows.push((time, format!("{:9.3} ms {rate:7.2} GB/s  memcpy {copied:7.2} GB/s  {name}", time * 1e3)));
    }
    if kernels.len() > 12 {
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    }
    println!("all {:9.3} ms", rows.iter().map(|(t, _)| t).sum::<f64>() * 1e3);
    for (_, row) in rows {
        println!("{row}");
    }
}

/// Seconds of the fastest of some calls.
fn best(mut call: impl FnMut()) -> f64 {
    (0..30).fold(f64::INFINITY, |least, _| {
        let start = Instant::now();
        call();
        least.min(start.elapsed().as_secs_f64())
    })
}
