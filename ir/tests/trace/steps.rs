//! Whole steps: the order of their arguments and results, names, text, mixed precision, loss scaling, dropout; random small graphs.

use crate::differences::{check, evaluate, input};
use ir::interp::{Precision, Tensor as Value, run};
use ir::trace::{Initial, LossScale, Optimizer, Role, Step, Tensor, Tracer, Training, grad, training_step};
use ir::{DType, TensorType, text};

fn perceptron(tracer: &Tracer, training: &Training) -> Step {
    let x = tracer.data("x", DType::F32, [8, 4]);
    let y = tracer.data("y", DType::I32, [8]);
    let mut h = x.convert(tracer.compute_dtype());
    for layer in 0..2 {
        h = tracer.scope(format!("layers.{layer}"), || {
            let w = tracer.parameter("w", [4, 4], Initial::Normal(0.5));
            let b = tracer.parameter("b", [4], Initial::Zeros);
            (h.matmul(&w).named("product") + b).tanh()
        });
    }
    let loss = h.cross_entropy(&y).mean_all().named("loss");
    training_step(tracer, &loss, training).unwrap_or_else(|e| panic!("{e}"))
}

fn step(training: &Training) -> Step {
    perceptron(&Tracer::new(), training)
}

fn arguments(step: &Step) -> Vec<Value> {
    let mut values = step.initial(3);
    for (value, argument) in values.iter_mut().zip(&step.arguments) {
        if argument.role == Role::Data {
            let numbers: Vec<f64> = (0..argument.ty.elements()).map(|i| ((i * 7 + 3) % 4) as f64).collect();
            *value = Value::from_f64s(argument.ty.clone(), &numbers)
                .or_else(|| Value::from_i64s(argument.ty.clone(), &numbers.iter().map(|&x| x as i64).collect::<Vec<_>>()))
                .expect("all elements");
        }
    }
    values
}

/// Results of a step, as it is typed.
fn results(step: &Step, arguments: &[Value]) -> Vec<Value> {
    run(&step.module, step.module.main().expect("a function"), arguments, Precision::AsTyped).unwrap_or_else(|e| panic!("{e}"))
}

/// The loss of each of some steps, and the last results.
fn train(step: &Step, steps: usize) -> (Vec<f64>, Vec<Value>) {
    let mut values = arguments(step);
    let (mut losses, mut last) = (vec![], vec![]);
    for _ in 0..steps {
        last = results(step, &values);
        let state = step.loss as usize;
        losses.push(last[state].to_f64s()[0]);
        values[..state].clone_from_slice(&last[..state]);
    }
    (losses, last)
}

#[test]
fn arguments_are_parameters_state_and_data() {
    let step = step(&Training::new(Optimizer::adamw(0.01)).clipped(1.0));
    let names: Vec<&str> = step.arguments.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names[..4], ["layers.0/w", "layers.0/b", "layers.1/w", "layers.1/b"]);
    assert_eq!(names[4..7], ["step", "layers.0/w/m", "layers.0/w/v"]);
    assert_eq!(names[names.len() - 2..], ["x", "y"]);
    let main = step.module.main().expect("a function");
    for (i, a) in step.arguments.iter().enumerate().take(step.loss as usize) {
        assert_eq!(main.ty(main.outputs[i]), &a.ty);
        assert_eq!(main.output_attributes[i].name, a.name);
        assert_eq!(main.input_attributes[i].aliasing_output, Some(i as u32));
    }
    assert_eq!(main.output_attributes[step.loss as usize].name, "loss");
    assert_eq!(main.outputs.len(), step.loss as usize + 1);
}

#[test]
fn values_of_all_parts_have_names() {
    let step = step(&Training::new(Optimizer::adamw(0.01)).clipped(1.0));
    let main = step.module.main().expect("a function");
    for name in ["layers.1/product", "layers.1/product/grad", "layers.0/w/grad", "layers.0/w/new", "layers.0/w/m/new", "layers.1/tanh", "loss", "step/new"] {
        assert!(main.value_named(name).is_some(), "{name}");
    }
    let place = |name: &str| {
        let op = main.def_op(main.value_named(name).expect("named")).expect("computed");
        main.locs[main.ops[op].loc].name.clone().expect("a place")
    };
    assert!(place("layers.1/product").starts_with("steps.rs:") && place("layers.1/product").ends_with(" layers.1"));
    assert_eq!(place("layers.1/product"), place("layers.1/w/grad"), "a gradient comes from where its operation does");
}

#[test]
fn the_same_trace_is_the_same_module() {
    let training = Training::new(Optimizer::adam(0.01)).scaled(LossScale::dynamic());
    assert_eq!(step(&training).module, step(&training).module);
}

#[test]
fn steps_mean_the_same_as_text() {
    let step = step(&Training::new(Optimizer::adamw(0.01)).clipped(1.0));
    let printed = text::print(&step.module);
    let read = text::parse("step.mlir", &printed).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(text::print(&read), printed);
    let values = arguments(&step);
    let again = run(&read, read.main().expect("a function"), &values, Precision::AsTyped).unwrap_or_else(|e| panic!("{e}"));
    for (a, b) in results(&step, &values).iter().zip(&again) {
        assert_eq!(a.to_bytes(), b.to_bytes());
    }
}

#[test]
fn training_lowers_the_loss_in_every_precision() {
    for (compute, scale) in
        [(DType::F32, LossScale::None), (DType::BF16, LossScale::None), (DType::F16, LossScale::Static(128.0)), (DType::F16, LossScale::dynamic())]
    {
        for optimizer in [Optimizer::sgd(0.3), Optimizer::momentum(0.1, 0.9), Optimizer::adam(0.05), Optimizer::adamw(0.05)] {
            let step = perceptron(&Tracer::computing_in(compute), &Training::new(optimizer.clone()).clipped(1.0).scaled(scale));
            let (losses, _) = train(&step, 12);
            assert!(losses[11] < losses[0] - 0.1, "{compute} {optimizer:?}: {losses:?}");
            // Master weights stay wide.
            assert!(step.arguments.iter().all(|a| a.role != Role::Parameter || a.ty.dtype == DType::F32));
        }
    }
}

#[test]
fn gradients_that_overflow_halve_the_scale_and_change_nothing_else() {
    let tracer = Tracer::computing_in(DType::F16);
    let w = tracer.parameter("w", [2], Initial::Ones);
    let x = tracer.data("x", DType::F16, [2]);
    let loss = (w * x).convert(DType::F32).sum_all();
    let training = Training::new(Optimizer::momentum(0.5, 0.9)).scaled(LossScale::Dynamic { initial: 32_768.0, interval: 2 });
    let step = training_step(&tracer, &loss, &training).unwrap_or_else(|e| panic!("{e}"));
    let names: Vec<&str> = step.arguments.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["w", "step", "loss_scale", "good_steps", "w/momentum", "x"]);
    let mut values = step.initial(0);
    let mut seen = Vec::new();
    for x in [100.0, 0.25, 0.25, 0.25] {
        values[5] = Value::splat(TensorType::new(DType::F16, [2]), x);
        let found = results(&step, &values);
        values[..5].clone_from_slice(&found[..5]);
        seen.push(values[..5].iter().map(|t| t.to_f64s()[0]).collect::<Vec<f64>>());
    }
    // w, step, scale, good steps, momentum.
    assert_eq!(seen[0], [1.0, 0.0, 16_384.0, 0.0, 0.0]);
    assert_eq!(seen[1], [0.875, 1.0, 16_384.0, 1.0, 0.25]);
    assert_eq!(seen[2][1..4], [2.0, 32_768.0, 0.0]);
    assert_eq!(seen[3][1..4], [3.0, 32_768.0, 1.0]);
}

#[test]
fn state_of_the_model_is_carried() {
    let tracer = Tracer::new();
    let w = tracer.parameter("w", [3], Initial::Ones);
    let mean = tracer.carry("mean", DType::F32, [3], Initial::Zeros);
    let x = tracer.data("x", DType::F32, [4, 3]);
    mean.becomes(&(&mean * 0.5 + x.mean(&[0]) * 0.5));
    let loss = ((x - &mean) * w).square().mean_all();
    let step = training_step(&tracer, &loss, &Training::new(Optimizer::sgd(0.0))).unwrap_or_else(|e| panic!("{e}"));
    let values = [Value::splat(TensorType::new(DType::F32, [3]), 1.0), Value::zeros(TensorType::new(DType::F32, [3]))];
    let all = [&values[..], &[Value::zeros(TensorType::scalar(DType::I32)), Value::splat(TensorType::new(DType::F32, [4, 3]), 2.0)]].concat();
    assert_eq!(results(&step, &all)[1].to_f64s(), [1.0; 3]);
}

#[test]
fn dropout_keeps_its_share_and_differs_by_step_and_place() {
    let tracer = Tracer::new();
    let x = tracer.data("x", DType::F32, [64, 64]);
    let (a, b) = (x.dropout(0.25, 1), x.dropout(0.25, 2));
    let g = grad(&a.sum_all(), std::slice::from_ref(&x)).swap_remove(0);
    let module = tracer.finish(&[("a", &a), ("b", &b), ("g", &g)]).unwrap_or_else(|e| panic!("{e}"));
    let ones = Value::splat(TensorType::new(DType::F32, [64, 64]), 1.0);
    let at = |step: f64| evaluate(&module, &[Value::splat(TensorType::scalar(DType::I32), step), ones.clone()]);
    let (first, second) = (at(0.0), at(1.0));
    let kept = first[0].to_f64s().iter().filter(|&&x| x != 0.0).count();
    assert!((2900..3250).contains(&kept), "{kept} of 4096");
    assert!(first[0].to_f64s().iter().all(|&x| x == 0.0 || (x - 4.0 / 3.0).abs() < 1e-6));
    assert_eq!(first[0].to_f64s(), first[2].to_f64s(), "the derivative drops the same");
    assert_eq!(first[0].to_f64s(), at(0.0)[0].to_f64s());
    assert!(first[0].to_f64s() != first[1].to_f64s() && first[0].to_f64s() != second[0].to_f64s());
}

/// A random function of two matrices of one shape, through other shapes and back, of smooth operations.
fn random(seed: u64, x: &[Tensor]) -> Tensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % n) as usize
    };
    let mut values = x.to_vec();
    for _ in 0..7 {
        let (a, b) = (values[draw(values.len() as u64)].clone(), values[draw(values.len() as u64)].clone());
        values.push(match draw(12) {
            0 => &a + &b,
            1 => &a * &b,
            2 => &a - b * 0.5,
            3 => a.tanh() + b,
            4 => a.transpose(&[1, 0]).einsum("ji,ik->jk", &b).tanh().einsum("jk,ik->ij", &a).tanh(),
            5 => a.softmax(-1) * b,
            6 => a.sum(&[0]).tanh().broadcast_to(a.shape()) + b,
            7 => a.slice_dim(1, 1, 3).pad(0.25, &[0, 1], &[0, 1], &[0, 0]) * b.logistic(),
            8 => a.slice_dim(0, 0, 1).concatenate(&[&b.slice_dim(0, 1, 3)], 0),
            9 => a.reshape([4, 3]).transpose(&[1, 0]).sin(),
            10 => a.reverse(&[1]) / (b.square() + 1.0),
            _ => a.cumsum(1).tanh(),
        });
    }
    let last = values.pop().expect("there is one");
    last + &values[2]
}

#[test]
fn random_graphs() {
    for seed in 0..40 {
        check(&format!("seed {seed}"), &[input(&[3, 4], -1.0, 1.0), input(&[3, 4], -0.9, 0.8)], |_, x| random(seed, x));
    }
}
