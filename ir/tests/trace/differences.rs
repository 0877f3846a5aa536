//! Holds traced gradients against central differences, in `f64` through the interpreter.

use ir::interp::{Precision, Tensor as Value, run};
use ir::trace::{Role, Tensor, Tracer, grad};
use ir::{DType, Literal, Module, TensorType};

/// The step of a difference: a power of two, and values are multiples of a smaller one, so that arguments of type `f32` are exact.
const STEP: f64 = 1.0 / 512.0;

/// An argument: its shape, and the range that its distinct values are spread over in an order of their own.
pub(crate) struct Input {
    shape: Vec<u64>,
    low: f64,
    high: f64,
}

pub(crate) fn input(shape: &[u64], low: f64, high: f64) -> Input {
    Input { shape: shape.to_vec(), low, high }
}

/// Values between the bounds, evenly spaced and shuffled, multiples of 2⁻¹².
pub(crate) fn spread(n: usize, low: f64, high: f64, seed: u64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..n).collect();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(99);
    for i in (1..n).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(i, (state >> 33) as usize % (i + 1));
    }
    order.iter().map(|&k| ((low + (high - low) * (k as f64 + 0.5) / n as f64) * 4096.0).round() / 4096.0).collect()
}

fn value(ty: &TensorType, values: &[f64]) -> Value {
    Value::from_f64s(ty.clone(), values).expect("as many values as elements")
}

/// Evaluates in `f64`.
pub(crate) fn evaluate(module: &Module, arguments: &[Value]) -> Vec<Value> {
    run(module, module.main().expect("a function"), arguments, Precision::F64).unwrap_or_else(|e| panic!("{e}"))
}

/// Checks the gradients of `f`, weighted and summed, with respect to all inputs.
pub(crate) fn check(name: &str, inputs: &[Input], f: impl Fn(&Tracer, &[Tensor]) -> Tensor) {
    check_within(name, inputs, 2e-7, f);
}

pub(crate) fn check_within(name: &str, inputs: &[Input], tolerance: f64, f: impl Fn(&Tracer, &[Tensor]) -> Tensor) {
    let tracer = Tracer::new();
    let arguments: Vec<Tensor> = inputs.iter().enumerate().map(|(i, x)| tracer.data(format!("x{i}"), DType::F32, x.shape.clone())).collect();
    let y = f(&tracer, &arguments);
    // Weights of the results' elements, so that no two cotangents are alike.
    let n = y.ty().elements() as usize;
    let weights: Vec<u8> = (0..n).flat_map(|i| ((i as f32 * 0.37).sin() + 1.25).to_le_bytes()).collect();
    let weights = tracer.constant(Literal::dense(TensorType::new(DType::F32, y.shape()), weights).expect("bytes of all elements"));
    let loss = (y.convert(DType::F32) * weights).sum_all();
    let gradients = grad(&loss, &arguments);
    let outputs: Vec<(&str, &Tensor)> = std::iter::once(("loss", &loss)).chain(gradients.iter().map(|g| ("gradient", g))).collect();
    let module = tracer.finish(&outputs).unwrap_or_else(|e| panic!("{name}: {e}"));
    let types: Vec<TensorType> = arguments.iter().map(|t| t.ty().clone()).collect();
    let values: Vec<Vec<f64>> = inputs.iter().enumerate().map(|(i, x)| spread(types[i].elements() as usize, x.low, x.high, i as u64)).collect();
    // What the function made itself (a step's number) is zero, and comes first.
    let own = tracer.finished_arguments().into_iter().filter(|a| a.role != Role::Data).map(|a| Value::zeros(a.ty));
    let own: Vec<Value> = own.collect();
    let at = |values: &[Vec<f64>]| own.iter().cloned().chain(types.iter().zip(values).map(|(t, v)| value(t, v))).collect::<Vec<_>>();
    let found = evaluate(&module, &at(&values));
    // Differences need the loss only.
    let alone = tracer.finish(&[("loss", &loss)]).unwrap_or_else(|e| panic!("{name}: {e}"));
    let loss_at = |i: usize, k: usize, by: f64| {
        let mut moved = values.clone();
        moved[i][k] += by;
        evaluate(&alone, &at(&moved))[0].to_f64s()[0]
    };
    for (i, input) in values.iter().enumerate() {
        let gradient = found[1 + i].to_f64s();
        assert_eq!(gradient.len(), input.len(), "{name}: gradient {i}");
        for k in 0..input.len() {
            let near = loss_at(i, k, STEP) - loss_at(i, k, -STEP);
            let far = loss_at(i, k, 2.0 * STEP) - loss_at(i, k, -2.0 * STEP);
            let difference = (8.0 * near - far) / (12.0 * STEP);
            let off = (gradient[k] - difference).abs();
            assert!(off <= tolerance * (1.0 + difference.abs()), "{name}: d/dx{i}[{k}] is {}, by differences {difference}", gradient[k]);
        }
    }
}
