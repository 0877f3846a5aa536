//! Gradients that JAX computed, and optimizer steps by the published formulas (`scripts/trace_fixtures.py` made the file).

use crate::differences::evaluate;
use ir::interp::{Precision, Tensor as Value, run};
use ir::trace::{Convolve, Initial, Optimizer, Rate, Rule, Tensor, Tracer, Training, grad, training_step};
use ir::trace::{Decay, Role};
use ir::{DType, Literal, TensorType};
use serde_json::Value as Json;

fn fixtures() -> Json {
    serde_json::from_str(include_str!("fixtures.json")).expect("the fixtures are JSON")
}

fn numbers(json: &Json) -> Vec<f64> {
    json.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

fn shape(json: &Json) -> Vec<u64> {
    json.as_array().expect("a list").iter().map(|x| x.as_u64().expect("a size")).collect()
}

fn near(what: &str, found: &[f64], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        assert!((f - w).abs() <= 1e-6 * w.abs().max(1.0), "{what}[{i}] is {f}, wanted {w}");
    }
}

/// Traces a loss of the fixture's inputs, which are given by name, and compares it and all gradients.
fn check(name: &str, loss: impl Fn(&Tracer, &dyn Fn(&str) -> Tensor) -> Tensor) {
    let fixture = &fixtures()[name];
    let inputs: Vec<(&String, &Json)> = fixture["inputs"].as_object().expect("inputs").iter().collect();
    let tracer = Tracer::new();
    let arguments: Vec<Tensor> = inputs.iter().map(|(k, x)| tracer.data(k, DType::F32, shape(&x["shape"]))).collect();
    let by_name = |k: &str| arguments[inputs.iter().position(|i| i.0 == k).expect("an input of that name")].clone();
    let loss = loss(&tracer, &by_name);
    let gradients = grad(&loss, &arguments);
    let outputs: Vec<(&str, &Tensor)> = std::iter::once(("loss", &loss)).chain(gradients.iter().map(|g| ("gradient", g))).collect();
    let module = tracer.finish(&outputs).unwrap_or_else(|e| panic!("{name}: {e}"));
    let value = |x: &Json| Value::from_f64s(TensorType::new(DType::F32, shape(&x["shape"])), &numbers(&x["values"])).expect("all elements");
    let found = evaluate(&module, &inputs.iter().map(|(_, x)| value(x)).collect::<Vec<_>>());
    near(&format!("{name}: loss"), &found[0].to_f64s(), &[fixture["loss"].as_f64().expect("a loss")]);
    for ((k, _), found) in inputs.iter().zip(&found[1..]) {
        near(&format!("{name}: d/d{k}"), &found.to_f64s(), &numbers(&fixture["gradients"][k.as_str()]["values"]));
    }
}

fn integers(tracer: &Tracer, shape: &[u64], values: &Json) -> Tensor {
    let bytes = numbers(values).iter().flat_map(|&v| (v as i32).to_le_bytes()).collect();
    tracer.constant(Literal::dense(TensorType::new(DType::I32, shape), bytes).expect("all elements"))
}

#[test]
fn a_perceptron() {
    check("mlp", |_, p| {
        let h = (p("x").matmul(&p("w1")) + p("b1")).relu();
        (h.matmul(&p("w2")) + p("b2") - p("y")).square().mean_all()
    });
}

#[test]
fn layer_norm() {
    check("layer_norm", |_, p| (p("x").layer_norm(&p("scale"), &p("shift"), 1e-5).tanh() * p("weights")).sum_all());
}

#[test]
fn causal_attention() {
    check("attention", |_, p| (p("q").attend(&p("k"), &p("v"), true) * p("weights")).sum_all());
    check("attention", |_, p| (p("q").attend_written_out(&p("k"), &p("v"), true) * p("weights")).sum_all());
}

#[test]
fn convolution() {
    let convolve = Convolve { stride: vec![2, 1], pad: vec![(1, 1), (0, 1)], dilation: vec![1, 2], groups: 1 };
    check("convolution", |_, p| p("x").convolve(&p("kernel"), &convolve).square().sum_all());
}

#[test]
fn embedding_and_cross_entropy() {
    let fixture = &fixtures()["embedding"];
    check("embedding", |t, p| {
        let tokens = integers(t, &[2, 3], &fixture["tokens"]);
        let labels = integers(t, &[2, 3], &fixture["labels"]);
        p("table").embed(&tokens).gelu().matmul(&p("head")).cross_entropy(&labels).mean_all()
    });
}

#[test]
fn max_pool() {
    check("max_pool", |_, p| p("x").max_pool(&[3, 2], &[2, 2], &[(1, 1), (0, 0)]).square().sum_all());
}

#[test]
fn random_bits() {
    let fixture = &fixtures()["threefry"];
    let (key, counters) = (numbers(&fixture["key"]), numbers(&fixture["counters"]));
    let tracer = Tracer::new();
    let half = counters.len() as u64 / 2;
    let words = |values: &[f64]| {
        let bytes = values.iter().flat_map(|&v| (v as u32).to_le_bytes()).collect();
        tracer.constant(Literal::dense(TensorType::new(DType::UI32, [half]), bytes).expect("all elements"))
    };
    let keys = [tracer.scalar(DType::UI32, key[0]), tracer.scalar(DType::UI32, key[1])];
    let (first, second) = counters.split_at(half as usize);
    let bits = tracer.threefry([&keys[0], &keys[1]], [&words(first), &words(second)]);
    let module = tracer.finish(&[("first", &bits[0]), ("second", &bits[1])]).unwrap_or_else(|e| panic!("{e}"));
    let found: Vec<f64> = evaluate(&module, &[]).iter().flat_map(|t| t.to_f64s()).collect();
    assert_eq!(found, numbers(&fixture["bits"]));
}

/// Runs four steps of an optimizer on gradients that are given.
fn optimize(training: &Training) -> Vec<Vec<f64>> {
    let fixture = &fixtures()["optimizers"];
    let tracer = Tracer::new();
    let p = tracer.parameter("p", [2, 3], Initial::Zeros);
    let g = tracer.data("g", DType::F32, [2, 3]);
    let step = training_step(&tracer, &(&p * g).sum_all(), training).unwrap_or_else(|e| panic!("{e}"));
    let value = |x: &Json| Value::from_f64s(TensorType::new(DType::F32, [2, 3]), &numbers(x)).expect("six numbers");
    let mut state: Vec<Value> = step.arguments.iter().filter(|a| a.role != Role::Data).map(|a| Value::zeros(a.ty.clone())).collect();
    state[0] = value(&fixture["parameter"]);
    let mut seen = Vec::new();
    for gradient in fixture["gradients"].as_array().expect("gradients") {
        let arguments = [state.as_slice(), &[value(gradient)]].concat();
        let main = step.module.main().expect("a function");
        let results = run(&step.module, main, &arguments, Precision::AsTyped).unwrap_or_else(|e| panic!("{e}"));
        state = results[..state.len()].to_vec();
        seen.push(state[0].to_f64s());
    }
    seen
}

#[test]
fn optimizers_follow_the_published_formulas() {
    let nesterov = Optimizer { rule: Rule::Momentum { decay: 0.8, nesterov: true }, rate: Rate::Constant(0.05) };
    let adamw = Optimizer { rule: Rule::Adam { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1, decay: Decay::All }, rate: Rate::Constant(0.01) };
    let cases = [
        ("sgd", Training::new(Optimizer::sgd(0.1))),
        ("clipped", Training::new(Optimizer::sgd(0.1)).clipped(1.5)),
        ("scheduled", Training::new(Optimizer::sgd(0.0).at_rate(Rate::WarmupCosine { peak: 0.2, warmup: 2, total: 4, floor: 0.05 }))),
        ("momentum", Training::new(Optimizer::momentum(0.05, 0.8))),
        ("nesterov", Training::new(nesterov)),
        ("adam", Training::new(Optimizer::adam(0.01))),
        ("adamw", Training::new(adamw)),
    ];
    for (name, training) in cases {
        let wanted = &fixtures()["optimizers"]["after"][name];
        for (t, (found, wanted)) in optimize(&training).iter().zip(wanted.as_array().expect("steps")).enumerate() {
            near(&format!("{name} after step {}", t + 1), found, &numbers(wanted));
        }
    }
}
