//! Kernels that move elements against the ops' definitions.

use crate::emulated::{defined, execute, numbers};
use gpu_library::write;
use ir::interp::Tensor;
use ir::op::OpKind;
use ir::{DType, TensorType};

fn moved(what: &str, op: OpKind, operands: &[Tensor], result: &[u64]) {
    let results = [TensorType::new(operands[0].ty.dtype, result)];
    let types: Vec<TensorType> = operands.iter().map(|x| x.ty.clone()).collect();
    let kernels = write("m", &op, &types, &results).unwrap_or_else(|| panic!("{what}: no kernels"));
    let got = execute(&kernels, operands, &results, None).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(got[0].to_bytes() == defined(&op, operands, &results)[0].to_bytes(), "{what}");
}

fn tensor(dtype: DType, shape: &[u64], seed: u64) -> Tensor {
    numbers(&TensorType::new(dtype, shape), seed)
}

const TYPES: [DType; 5] = [DType::F32, DType::BF16, DType::F64, DType::I8, DType::I32];

#[test]
fn pads() {
    for dtype in TYPES {
        let value = Tensor::splat(TensorType::scalar(dtype), 3.0);
        for (low, high, interior) in [([0i64, 1, 8], [2i64, 0, 16], [0u64, 0, 0]), ([1, 0, 3], [0, 2, 2], [2, 0, 1]), ([-1, 0, -8], [1, -1, 0], [0, 0, 0])] {
            let operand = tensor(dtype, &[3, 3, 16], 1);
            let op = OpKind::Pad { low: low.to_vec(), high: high.to_vec(), interior: interior.to_vec() };
            let result: Vec<u64> =
                (0..3).map(|d| (operand.ty.shape[d] as i64 + low[d] + high[d] + (operand.ty.shape[d] as i64 - 1) * interior[d] as i64) as u64).collect();
            moved(&format!("{low:?} {high:?} {interior:?} {dtype}"), op, &[operand, value.clone()], &result);
        }
    }
}

#[test]
fn concatenations() {
    for dtype in TYPES {
        let parts = |shapes: [[u64; 2]; 3]| shapes.into_iter().zip(1..).map(|(s, i)| tensor(dtype, &s, i)).collect::<Vec<_>>();
        moved(&format!("rows of {dtype}"), OpKind::Concatenate { dim: 0 }, &parts([[3, 8], [1, 8], [5, 8]]), &[9, 8]);
        moved(&format!("aligned columns of {dtype}"), OpKind::Concatenate { dim: 1 }, &parts([[3, 8], [3, 16], [3, 24]]), &[3, 48]);
        moved(&format!("columns of {dtype}"), OpKind::Concatenate { dim: 1 }, &parts([[3, 3], [3, 1], [3, 7]]), &[3, 11]);
    }
}

#[test]
fn slices_at_run_time() {
    for (i, dtype) in TYPES.into_iter().enumerate() {
        let ids = [DType::I32, DType::I64, DType::UI32, DType::I16, DType::UI8][i];
        for (row, column) in [(0, 0), (2, 5), (100, 3), (1, 100)] {
            let starts = [row, column].map(|s| Tensor::from_i64s(TensorType::scalar(ids), &[if ids.is_unsigned() { s } else { s - 1 }]).expect("one"));
            let operand = tensor(dtype, &[6, 16], 1);
            for sizes in [[2, 16], [3, 5]] {
                let what = format!("{sizes:?} of {dtype} at {row}, {column}");
                let op = OpKind::DynamicSlice { sizes: sizes.to_vec() };
                moved(&what, op, &[operand.clone(), starts[0].clone(), starts[1].clone()], &sizes);
                let update = tensor(dtype, &sizes, 2);
                moved(&what, OpKind::DynamicUpdateSlice, &[operand.clone(), update, starts[0].clone(), starts[1].clone()], &[6, 16]);
            }
        }
    }
}
