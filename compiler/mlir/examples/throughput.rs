//! Gigabytes a second of typical kernels, beside `memcpy` of the same number of bytes, and the time their compilation takes.
//!
//! ```text
//! cargo run -p mlir --example throughput
//! ```

#![allow(clippy::print_stdout, reason = "it prints a table")]

#[path = "../tests/kernels/build.rs"]
mod build;
#[path = "../tests/kernels/library.rs"]
mod library;
#[path = "../tests/kernels/models.rs"]
mod models;

use ir::kernel::Kernel;
use library::Library;
use std::time::Instant;

fn main() {
    let elements = 1 << 20;
    let kernels: Vec<(&str, Kernel)> = vec![
        ("gelu (tanh)", models::gelu(elements)),
        ("gelu (erf)", models::gelu_erf(elements)),
        ("softmax 4096 x 256", models::softmax(4096, 256)),
        ("softmax 8192 x 65", models::softmax(8192, 65)),
        ("layer norm 4096 x 256", models::layer_norm(4096, 256)),
        ("layer norm backward 4096 x 256", models::layer_norm_backward(4096, 256)),
        ("adam", models::adam(elements)),
        ("bias gradient 4096 x 256", models::column_sum(4096, 256)),
        ("transpose 1024 x 1024", models::transpose(1024, 1024)),
        ("cross entropy 4096 x 256", models::cross_entropy(4096, 256)),
        ("add in bf16", models::add_bf16(elements)),
    ];
    let references: Vec<&Kernel> = kernels.iter().map(|(_, k)| k).collect();
    let start = Instant::now();
    let library = Library::compile(&references);
    println!("compiled {} kernels in {:.0} ms", kernels.len(), 1e3 * start.elapsed().as_secs_f64());
    for (number, (name, kernel)) in kernels.iter().enumerate() {
        let mut buffers: Vec<Vec<u8>> = kernel.params.iter().map(|p| models::fill(p.dtype, p.elements)).collect();
        let bytes: usize = buffers.iter().map(Vec::len).sum();
        let time = best(|| library.call(number, &mut buffers, &vec![1; kernel.scalars as usize]));
        let source = vec![1u8; bytes / 2];
        let mut target = vec![0u8; bytes / 2];
        let copy = best(|| target.copy_from_slice(std::hint::black_box(&source)));
        std::hint::black_box(&target);
        let (rate, copied) = (bytes as f64 / time / 1e9, bytes as f64 / copy / 1e9);
        println!("{name:32} {:8.3} ms  {rate:6.2} GB/s  memcpy {copied:6.2} GB/s", time * 1e3);
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
