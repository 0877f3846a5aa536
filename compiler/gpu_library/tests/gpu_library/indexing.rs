//! Kernels of gather and scatter against their definitions.

use crate::emulated::{check, defined, execute, numbers};
use gpu_library::write;
use ir::interp::Tensor;
use ir::op::{GatherDims, OpKind, Reducer, ScatterDims};
use ir::{DType, TensorType};

/// Indices that repeat, of which some are outside.
fn indices(dtype: DType, shape: &[u64], below: i64) -> Tensor {
    let ty = TensorType::new(dtype, shape);
    let outside = |i: i64| if dtype.is_unsigned() { below + 3 } else { [-1, below, -7, below + 3][(i % 4) as usize] };
    let one = |i: i64| if i % 7 == 5 { outside(i) } else { (i * i * 31 + i * 5) % below };
    Tensor::from_i64s(ty.clone(), &(0..ty.elements() as i64).map(one).collect::<Vec<_>>()).expect("as many as elements")
}

fn gathered(what: &str, g: GatherDims, operand: TensorType, indices: Tensor, result: &[u64]) {
    let results = [TensorType::new(operand.dtype, result)];
    let operands = [numbers(&operand, 3), indices];
    let op = OpKind::Gather(g);
    let types: Vec<TensorType> = operands.iter().map(|x| x.ty.clone()).collect();
    let kernels = write("g", &op, &types, &results).unwrap_or_else(|| panic!("{what}: no kernels"));
    let got = execute(&kernels, &operands, &results, None).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(got[0].to_bytes() == defined(&op, &operands, &results)[0].to_bytes(), "{what}");
}

/// Rows of a table.
fn rows() -> GatherDims {
    GatherDims { offset_dims: vec![2], collapsed_slice_dims: vec![0], start_index_map: vec![0], index_vector_dim: 2, ..GatherDims::default() }
}

#[test]
fn gather_takes_rows_of_a_table() {
    for (i, width) in [1, 3, 4, 8, 20, 96].into_iter().enumerate() {
        for (j, dtype) in [DType::F32, DType::BF16, DType::F64, DType::I8, DType::I1].into_iter().enumerate() {
            let ids = [DType::I32, DType::I64, DType::UI32, DType::I16, DType::UI8, DType::UI64][(i + j) % 6];
            let g = GatherDims { slice_sizes: vec![1, width], ..rows() };
            let what = format!("{width} of {dtype} by {ids}");
            gathered(&what, g, TensorType::new(dtype, [13, width]), indices(ids, &[3, 7, 1], 13), &[3, 7, width]);
        }
    }
}

#[test]
fn gather_goes_along_batching_dimensions_and_cuts_windows() {
    let labels = GatherDims {
        collapsed_slice_dims: vec![2],
        operand_batching_dims: vec![0, 1],
        start_indices_batching_dims: vec![0, 1],
        start_index_map: vec![2],
        index_vector_dim: 2,
        slice_sizes: vec![1, 1, 1],
        ..GatherDims::default()
    };
    gathered("labels", labels, TensorType::new(DType::F32, [2, 5, 9]), indices(DType::I32, &[2, 5, 1], 9), &[2, 5]);
    // Windows of 2 by 4 whose place is two components, in another order; the batch is between the window's dimensions.
    let windows = GatherDims { offset_dims: vec![0, 2], start_index_map: vec![1, 0], index_vector_dim: 0, slice_sizes: vec![2, 4], ..GatherDims::default() };
    gathered("windows", windows, TensorType::new(DType::F32, [8, 12]), indices(DType::I32, &[2, 6], 8), &[2, 6, 4]);
    let scalars = GatherDims {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        slice_sizes: vec![1, 8],
        ..GatherDims::default()
    };
    gathered("no dimension of components", scalars, TensorType::new(DType::F16, [5, 8]), indices(DType::I32, &[40], 5), &[40, 8]);
}

fn scattered(what: &str, s: ScatterDims, operand: TensorType, indices: Tensor, updates: &[u64]) {
    let updates = TensorType::new(operand.dtype, updates);
    let integers = |ty: &TensorType| Tensor::from_i64s(ty.clone(), &(0..ty.elements() as i64).map(|i| i * 977 - 5).collect::<Vec<_>>()).expect("as many");
    let [x, u] = if operand.dtype.is_float() { [numbers(&operand, 5), numbers(&updates, 6)] } else { [integers(&operand), integers(&updates)] };
    let (operands, results) = ([x, indices, u], [operand.clone()]);
    let op = OpKind::Scatter { dims: s, reducer: Reducer::Add };
    let types: Vec<TensorType> = operands.iter().map(|x| x.ty.clone()).collect();
    let kernels = write("s", &op, &types, &results).unwrap_or_else(|| panic!("{what}: no kernels"));
    assert!(!kernels.text.contains("atom") && !kernels.text.contains("\tred."));
    let got = execute(&kernels, &operands, &results, None).unwrap_or_else(|e| panic!("{what}: {e}"));
    // The definition in f64: a sum that is rounded at every step is further off than ours.
    let precise = |x: &Tensor| {
        if operand.dtype.is_float() { Tensor::from_f64s(TensorType::new(DType::F64, x.ty.shape.clone()), &x.to_f64s()).expect("as many") } else { x.clone() }
    };
    let wide = [precise(&operands[0]), operands[1].clone(), precise(&operands[2])];
    let want = defined(&op, &wide, &[wide[0].ty.clone()]);
    let relative = if operand.dtype == DType::BF16 {
        1.0 / 128.0
    } else if operand.dtype == DType::F16 {
        1.0 / 1024.0
    } else {
        1e-6
    };
    check(what, &got[0], &want[0], relative);
}

fn into_rows() -> ScatterDims {
    ScatterDims {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDims::default()
    }
}

#[test]
fn scatter_adds_to_rows_of_a_table() {
    for (i, width) in [1, 3, 8, 40, 200, 520].into_iter().enumerate() {
        for (j, vectors) in [5, 33, 128, 300].into_iter().enumerate() {
            let dtype = [DType::F32, DType::BF16, DType::F16, DType::I32][(i + j) % 4];
            let ids = [DType::I32, DType::I64, DType::UI32][(i + j) % 3];
            let what = format!("{vectors} vectors of {ids} to rows of {width} {dtype}");
            scattered(&what, into_rows(), TensorType::new(dtype, [11, width]), indices(ids, &[vectors, 1], 11), &[vectors, width]);
        }
    }
}

#[test]
fn scatter_goes_along_batching_dimensions_and_into_parts() {
    let labels = ScatterDims {
        inserted_window_dims: vec![2],
        input_batching_dims: vec![0, 1],
        scatter_indices_batching_dims: vec![0, 1],
        scatter_dims_to_operand_dims: vec![2],
        index_vector_dim: 2,
        ..ScatterDims::default()
    };
    scattered("labels", labels, TensorType::new(DType::F32, [2, 5, 9]), indices(DType::I32, &[2, 5, 1], 9), &[2, 5]);
    // Many vectors for each of two batching positions, with the window before the component.
    let columns = ScatterDims {
        update_window_dims: vec![2],
        inserted_window_dims: vec![2],
        input_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![0],
        scatter_dims_to_operand_dims: vec![2],
        index_vector_dim: 2,
        ..ScatterDims::default()
    };
    scattered("columns", columns, TensorType::new(DType::F32, [2, 6, 9]), indices(DType::I32, &[2, 50, 1], 9), &[2, 50, 6]);
    let pairs = ScatterDims {
        inserted_window_dims: vec![0, 1],
        scatter_dims_to_operand_dims: vec![1, 0],
        index_vector_dim: 0,
        update_window_dims: vec![1],
        ..ScatterDims::default()
    };
    scattered("pairs", pairs.clone(), TensorType::new(DType::F32, [4, 4, 8]), indices(DType::I32, &[2, 70], 4), &[70, 8]);
    // The window is a part of the row: what is beside it stays.
    scattered("a part of a row", pairs, TensorType::new(DType::F32, [4, 4, 8]), indices(DType::I32, &[2, 70], 4), &[70, 5]);
    let scalars = ScatterDims { inserted_window_dims: vec![0], scatter_dims_to_operand_dims: vec![0], index_vector_dim: 2, ..ScatterDims::default() };
    scattered("a histogram", scalars, TensorType::new(DType::I32, [10]), indices(DType::I32, &[20, 30], 10), &[20, 30]);
}

#[test]
fn what_there_are_no_kernels_for_is_left_to_others() {
    let refused = |s: ScatterDims, reducer, dtype, updates: &[u64]| {
        let types = [TensorType::new(dtype, [11, 8]), TensorType::new(DType::I32, [40, 1]), TensorType::new(dtype, updates)];
        let results = [types[0].clone()];
        write("s", &OpKind::Scatter { dims: s, reducer }, &types, &results).is_none()
    };
    assert!(!refused(into_rows(), Reducer::Add, DType::F32, &[40, 8]));
    assert!(refused(into_rows(), Reducer::Max, DType::F32, &[40, 8]) && refused(into_rows(), Reducer::Add, DType::F64, &[40, 8]));
    // Windows of different vectors would overlap.
    let sliding = ScatterDims { update_window_dims: vec![1, 2], inserted_window_dims: vec![], ..into_rows() };
    assert!(refused(sliding, Reducer::Add, DType::F32, &[40, 2, 8]));
}
