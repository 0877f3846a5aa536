//! Kernels as PTX: assembled by `ptxas` for every architecture, without spills, and with accesses as wide as they may be.
#![allow(clippy::print_stdout, reason = "a test says when it is left out")]

use crate::build::Build;
use crate::models;
use ir::dtype::DType;
use ir::kernel::Kernel;
use ir::op::Reducer;
use mlir::{CudaCode, CudaTarget};

fn compiled(kernels: &[Kernel], target: CudaTarget) -> CudaCode {
    let named: Vec<(String, &Kernel)> = kernels.iter().enumerate().map(|(n, k)| (format!("k{n}"), k)).collect();
    mlir::compile_cuda(&named, target).unwrap()
}

/// Assembles kernels for every architecture; nothing may be spilled.
fn check_assembly(kernels: &[Kernel]) {
    let Some(ptxas) = mlir::ptxas() else {
        println!("left out: there is no ptxas; `make setup` installs it");
        return;
    };
    for target in CudaTarget::ALL {
        let code = compiled(kernels, target);
        let entries = mlir::assemble(&ptxas, &code.ptx, target).unwrap();
        assert_eq!(entries.len(), code.launches.iter().map(Vec::len).sum::<usize>());
        for entry in entries {
            let number: usize = entry.entry[1..].split('_').next().unwrap().parse().unwrap();
            assert!(entry.spills == 0 && entry.stack == 0, "{target}: {entry:?}\n{}", mlir::print_cuda_mlir(&kernels[number]).unwrap());
        }
    }
}

fn sum_of_all(elements: u64) -> Kernel {
    let mut b = Build::new(&[elements], &[0]);
    let x = b.input(DType::F32, &[0]);
    let square = b.mul(x, x);
    let sum = b.reduce(Reducer::Add, square);
    b.output(sum, &[]);
    b.0
}

#[test]
fn kernels_of_models_are_assembled_without_spills() {
    let mut kernels = vec![
        models::gelu(777),
        models::gelu(1 << 20),
        models::gelu_erf(777),
        models::add_bf16(4096),
        models::adam(777),
        sum_of_all(10_000_000),
        sum_of_all(50),
    ];
    for (rows, columns) in [(5, 64), (3, 100), (1, 1), (1024, 768), (4096, 3072), (8, 50_257), (100_000, 4)] {
        kernels.push(models::softmax(rows, columns));
        kernels.push(models::column_softmax(rows, columns));
        kernels.push(models::layer_norm(rows, columns));
        kernels.push(models::layer_norm_backward(rows, columns));
        kernels.push(models::column_sum(rows, columns));
        kernels.push(models::transpose(rows, columns));
        kernels.push(models::cross_entropy(rows, columns));
    }
    check_assembly(&kernels);
}

#[test]
fn accesses_are_16_bytes_wide_where_rows_are_aligned() {
    let code = compiled(&[models::softmax(1024, 768), models::add_bf16(4096)], CudaTarget::Sm80);
    let text = |n: usize| code.ptx.split(".visible .entry").nth(n + 1).unwrap().to_owned();
    assert_eq!(text(0).matches("ld.global.v4.b32").count(), 6, "a row of 768 is read once, by one warp\n{}", text(0));
    assert!(!text(0).contains("ld.global.b32") && text(0).contains("st.global.v4.b32") && text(0).contains("shfl.sync.bfly.b32"));
    assert!(text(1).contains("ld.global.v4.b32") && text(1).contains("st.global.v4.b32"), "{}", text(1));
}

#[test]
fn a_sum_of_much_fills_the_device_in_two_launches() {
    let code = compiled(&[sum_of_all(10_000_000)], CudaTarget::Sm90);
    let [first, second] = code.launches[0].as_slice() else { panic!("two launches: {:?}", code.launches) };
    assert!(first.grid[1] >= 132 && first.scratch > 0 && second.grid == [1, 1, 1] && second.scratch == first.scratch, "{first:?} {second:?}");
}

#[test]
fn the_same_kernels_give_the_same_ptx() {
    let kernels: Vec<Kernel> = (0..3).map(|n| models::softmax(8 + n, 33)).chain([models::gelu(100)]).collect();
    assert_eq!(compiled(&kernels, CudaTarget::Sm100), compiled(&kernels, CudaTarget::Sm100));
    assert!("sm_70".parse::<CudaTarget>().unwrap_err().to_string().contains("sm_70"));
}
