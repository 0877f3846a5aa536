//! Kernels compiled, loaded and called.

mod build;
mod library;
mod models;

use build::Build;
use library::Library;
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
