//! Kernels compiled, loaded and called.

mod accuracy;
mod build;
mod cuda;
mod emulated;
mod library;
mod models;
mod random;
mod reference;

use build::Build;
use library::{Library, Machine};
use models::{gelu, softmax};

/// The bytes of `f32`s.
pub(crate) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// `f32`s from bytes.
pub(crate) fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

#[test]
fn gelu_softmax_and_an_addition_run() {
    let mut b = Build::new(&[1003], &[]);
    let (x, y) = (b.input(ir::DType::F32, &[0]), b.input(ir::DType::F32, &[0]));
    let z = b.add(x, y);
    b.output(z, &[0]);
    let addition = b.0;
    let (gelu, softmax) = (gelu(1003), softmax(7, 65));
    let library = Library::compile(&[&addition, &gelu, &softmax]);
    let x: Vec<f32> = (0..1003).map(|i| (i as f32 - 500.0) / 60.0).collect();

    let mut buffers = vec![bytes_of(&x), bytes_of(&x), vec![0; 4012]];
    library.call(0, &mut buffers, &[]);
    assert!(f32s(&buffers[2]).iter().zip(&x).all(|(z, x)| *z == x + x));

    let mut buffers = vec![bytes_of(&x), vec![0; 4012]];
    library.call(1, &mut buffers, &[]);
    for (y, x) in f32s(&buffers[1]).iter().zip(&x) {
        let x = f64::from(*x);
        let want = 0.5 * x * (1.0 + (0.7978845608 * (x + 0.044715 * x * x * x)).tanh());
        assert!((f64::from(*y) - want).abs() < 1e-6, "{x}: {y} for {want}");
    }

    let mut buffers = vec![bytes_of(&x[..7 * 65]), vec![0; 7 * 65 * 4]];
    library.call(2, &mut buffers, &[]);
    let y = f32s(&buffers[1]);
    for (row, out) in x[..7 * 65].chunks(65).zip(y.chunks(65)) {
        let most = row.iter().fold(f32::NEG_INFINITY, |m, v| m.max(*v));
        let e: Vec<f64> = row.iter().map(|v| f64::from(v - most).exp()).collect();
        let sum: f64 = e.iter().sum();
        for (want, got) in e.iter().map(|e| e / sum).zip(out) {
            assert!((want - f64::from(*got)).abs() < 2e-7, "{want} {got}");
        }
    }
}

/// A kernel's name, the kernel, and how far from the reference it may be, relative to the largest magnitude of each output.
pub(crate) type Model = (&'static str, ir::kernel::Kernel, f64);

/// Compares kernels that `machine` has in this order with the reference.
pub(crate) fn check_models(cases: &[Model], machine: &dyn Machine, text: &dyn Fn(&ir::kernel::Kernel) -> String) {
    for (number, (name, kernel, tolerance)) in cases.iter().enumerate() {
        let mut want: Vec<Vec<u8>> = kernel.params.iter().map(|p| models::fill(p.dtype, p.elements)).collect();
        let mut got = want.clone();
        reference::run(kernel, &mut want, &[]);
        machine.call(number, &mut got, &[]);
        for (p, param) in kernel.params.iter().enumerate().filter(|(_, p)| p.output) {
            let number = |bytes: &[u8]| if let reference::Value::Float(v) = reference::read(param.dtype, bytes) { v } else { panic!("an integer output") };
            let numbers = |bytes: &[u8]| -> Vec<f64> { bytes.chunks(param.dtype.bytes() as usize).map(number).collect() };
            let (want, got) = (numbers(&want[p]), numbers(&got[p]));
            let largest = want.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
            for (at, (w, g)) in want.iter().zip(&got).enumerate() {
                // What cancels to nothing is held to the rounding of its terms.
                assert!((w - g).abs() <= tolerance * largest.max(1e-9), "{name} {:?}, output {p}, element {at}: {g} for {w}\n{}", kernel.domain, text(kernel));
            }
        }
    }
}

/// What models are made of.
pub(crate) fn model_cases() -> Vec<Model> {
    let mut cases: Vec<Model> = vec![
        ("gelu by tanh", models::gelu(777), 1e-6),
        ("gelu by erf", models::gelu_erf(777), 1e-6),
        ("add in bf16", models::add_bf16(777), 0.0),
        ("adam", models::adam(777), 1e-6),
        // The row does not fit the row buffer.
        ("wide softmax", models::softmax(2, 20_001), 5e-5),
        // Rows in several pieces, and in one with a remainder.
        ("wide column sum", models::column_sum(20, 20_000), 1e-6),
        ("column sum with a remainder", models::column_sum(20, 1003), 1e-6),
        ("column softmax", models::column_softmax(40, 130), 1e-6),
    ];
    for (rows, columns) in [(5, 64), (3, 100), (4, 7), (1, 1), (9, 1000)] {
        cases.push(("softmax", models::softmax(rows, columns), 5e-6));
        cases.push(("layer norm", models::layer_norm(rows, columns), 1e-5));
        cases.push(("layer norm backward", models::layer_norm_backward(rows, columns), if columns == 1 { 1.0 } else { 2e-5 }));
        cases.push(("column sum", models::column_sum(rows, columns), 1e-6));
        cases.push(("transpose", models::transpose(rows, columns), 0.0));
        cases.push(("cross entropy", models::cross_entropy(rows, columns), 5e-6));
    }
    cases
}

#[test]
fn kernels_of_models_are_right() {
    let cases = model_cases();
    let library = Library::compile(&cases.iter().map(|(_, kernel, _)| kernel).collect::<Vec<_>>());
    check_models(&cases, &library, &|kernel| mlir::print_mlir(kernel).unwrap());
}

#[test]
fn in_place_updates_are_right() {
    let kernel = models::adam(1000);
    let library = Library::compile(&[&kernel]);
    let inputs: Vec<Vec<u8>> = kernel.params.iter().map(|p| models::fill(p.dtype, p.elements)).collect();
    let mut apart = inputs.clone();
    library.call(0, &mut apart, &[]);
    let mut shared = inputs.clone();
    let pairs = [(0, 7), (2, 8), (3, 9)];
    for (input, output) in pairs {
        shared[output as usize] = inputs[input as usize].clone();
    }
    library.call_in_place(0, &mut shared, &pairs, &[]);
    assert!((7..10).all(|output| apart[output] == shared[output]));
}

#[test]
fn the_same_kernels_give_the_same_bytes() {
    let kernels: Vec<ir::kernel::Kernel> = (0..5).map(|n| models::softmax(8 + n, 33)).chain([models::gelu(100)]).collect();
    let named: Vec<(String, &ir::kernel::Kernel)> = kernels.iter().map(|k| (k.symbol(), k)).collect();
    let compile = || mlir::compile_cpu(&named, mlir::CpuTarget::V3).unwrap();
    assert!(compile() == compile());
}

#[test]
fn no_kernels_give_an_empty_object() {
    assert!(!mlir::compile_cpu(&[], mlir::CpuTarget::V3).unwrap().is_empty());
}

#[test]
fn what_has_no_code_is_an_error_that_names_it() {
    let mut b = Build::new(&[4], &[]);
    let x = b.input(ir::DType::F32, &[0]);
    let y = b.binary(ir::op::BinaryOp::Complex, x, x);
    b.output(y, &[0]);
    let error = mlir::compile_cpu(&[("k".to_owned(), &b.0)], mlir::CpuTarget::V3).unwrap_err();
    assert_eq!(error.to_string(), "kernel `k`, node n1: Complex in f32 is not supported");

    let mut b = Build::new(&[4], &[]);
    let x = b.input(ir::DType::F32, &[0]);
    b.output(x, &[0]);
    b.0.params[1].output = false;
    let error = mlir::compile_cpu(&[("k".to_owned(), &b.0)], mlir::CpuTarget::V3).unwrap_err();
    assert_eq!(error.to_string(), "kernel `k` is invalid: a store to an input");
}

#[test]
fn every_level_has_code() {
    let kernels = [models::softmax(5, 77), models::gelu(1000), models::add_bf16(99), models::column_sum(30, 100)];
    let named: Vec<(String, &ir::kernel::Kernel)> = kernels.iter().map(|k| (k.symbol(), k)).collect();
    for level in ["x86-64-v2", "x86-64-v3", "x86-64-v4", "host"] {
        let target: mlir::CpuTarget = level.parse().unwrap();
        assert!(mlir::compile_cpu(&named, target).unwrap().starts_with(b"\x7fELF"), "{level}");
    }
    assert!("pentium".parse::<mlir::CpuTarget>().unwrap_err().to_string().contains("pentium"));
}

#[test]
fn a_kernel_of_one_point_runs() {
    let mut b = Build::new(&[], &[]);
    let x = b.input(ir::DType::F32, &[]);
    let y = b.add(x, x);
    b.output(y, &[]);
    let library = Library::compile(&[&b.0]);
    let mut buffers = vec![bytes_of(&[1.5]), vec![0; 4]];
    library.call(0, &mut buffers, &[]);
    assert_eq!(f32s(&buffers[1]), [3.0]);
}

/// Compares with `snapshots/NAME`; `BLESS=1` writes it.
fn check_snapshot(name: &str, text: &str) {
    let path = format!("{}/tests/kernels/snapshots/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "{path}: run with BLESS=1 when the change is meant");
}

#[test]
fn the_text_of_a_softmax_and_of_a_column_sum_is_as_expected() {
    check_snapshot("softmax.mlir", &mlir::print_mlir(&models::softmax(4, 20)).unwrap());
    check_snapshot("column_sum.mlir", &mlir::print_mlir(&models::column_sum(8, 100)).unwrap());
}
