//! Attentions in several spellings are found and compute the same; what must not be taken is not.

use super::run;
use ir::interp::{Precision, Tensor};
use ir::{Graph, Module, OpKind, TensorType};

/// A step of `result, dq, dk, dv` from queries, keys, values and the result's gradient, all `[2, 6, 3, 4]` as (example, position, head, size).
fn step(scores: &str, weights: &str, slopes: &str) -> Graph {
    let text = format!(
        r#"func.func public @main(%q: tensor<2x6x3x4xf32>, %k: tensor<2x6x3x4xf32>, %v: tensor<2x6x3x4xf32>, %g: tensor<2x6x3x4xf32>, %b: tensor<3x6x6xf32>)
      -> (tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>) {{
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %s = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>) -> tensor<2x3x6x6xf32>
    %half = stablehlo.constant dense<0.5> : tensor<2x3x6x6xf32>
    %two = stablehlo.constant dense<2.0> : tensor<2x3x6x6xf32>
    %none = stablehlo.constant dense<0.0> : tensor<2x3x6x6xf32>
    %never = stablehlo.constant dense<-1.0e9> : tensor<2x3x6x6xf32>
    %i = stablehlo.iota dim = 0 : tensor<6x6xi32>
    %j = stablehlo.iota dim = 1 : tensor<6x6xi32>
    %past = stablehlo.compare GE, %i, %j, SIGNED : (tensor<6x6xi32>, tensor<6x6xi32>) -> tensor<6x6xi1>
    %seen = stablehlo.broadcast_in_dim %past, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<2x3x6x6xi1>
{scores}
    %max = stablehlo.reduce(%z init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x6x6xf32>, tensor<f32>) -> tensor<2x3x6xf32>
    %maxes = stablehlo.broadcast_in_dim %max, dims = [0, 1, 2] : (tensor<2x3x6xf32>) -> tensor<2x3x6x6xf32>
    %shifted = stablehlo.subtract %z, %maxes : tensor<2x3x6x6xf32>
    %e = stablehlo.exponential %shifted : tensor<2x3x6x6xf32>
    %l = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x6x6xf32>, tensor<f32>) -> tensor<2x3x6xf32>
    %ls = stablehlo.broadcast_in_dim %l, dims = [0, 1, 2] : (tensor<2x3x6xf32>) -> tensor<2x3x6x6xf32>
    %p = stablehlo.divide %e, %ls : tensor<2x3x6x6xf32>
{weights}
    %o = stablehlo.dot_general %w, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x6x6xf32>, tensor<2x6x3x4xf32>) -> tensor<2x3x6x4xf32>
    %ot = stablehlo.transpose %o, dims = [0, 2, 1, 3] : (tensor<2x3x6x4xf32>) -> tensor<2x6x3x4xf32>
    %gt = stablehlo.transpose %g, dims = [0, 2, 1, 3] : (tensor<2x6x3x4xf32>) -> tensor<2x3x6x4xf32>
    %dv = stablehlo.dot_general %gt, %w, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : (tensor<2x3x6x4xf32>, tensor<2x3x6x6xf32>) -> tensor<2x3x4x6xf32>
    %dvt = stablehlo.transpose %dv, dims = [0, 3, 1, 2] : (tensor<2x3x4x6xf32>) -> tensor<2x6x3x4xf32>
    %dp = stablehlo.dot_general %gt, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x3x6x4xf32>, tensor<2x6x3x4xf32>) -> tensor<2x3x6x6xf32>
{slopes}
    %dq = stablehlo.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x6x6xf32>, tensor<2x6x3x4xf32>) -> tensor<2x3x6x4xf32>
    %dqt = stablehlo.transpose %dq, dims = [0, 2, 1, 3] : (tensor<2x3x6x4xf32>) -> tensor<2x6x3x4xf32>
    %dk = stablehlo.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x6x6xf32>, tensor<2x6x3x4xf32>) -> tensor<2x3x6x4xf32>
    %dkt = stablehlo.transpose %dk, dims = [0, 2, 1, 3] : (tensor<2x3x6x4xf32>) -> tensor<2x6x3x4xf32>
    return %ot, %dqt, %dkt, %dvt : tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>
  }}"#
    );
    ir::text::parse("test", &text).unwrap_or_else(|d| panic!("{d}")).functions.remove(0)
}

const T: &str = "tensor<2x3x6x6xf32>";
const ROWS: &str = "(tensor<2x3x6xf32>) -> tensor<2x3x6x6xf32>";
const SUM: &str = "applies stablehlo.add across dimensions = [3] : (tensor<2x3x6x6xf32>, tensor<f32>) -> tensor<2x3x6xf32>";

/// The softmax's derivative as JAX writes it for a quotient, then `last`.
fn by_quotient(last: &str) -> String {
    format!(
        "%one = stablehlo.constant dense<1.0> : tensor<2x3x6xf32>
    %ll = stablehlo.multiply %l, %l : tensor<2x3x6xf32>
    %inverse = stablehlo.divide %one, %ll : tensor<2x3x6xf32>
    %inverses = stablehlo.broadcast_in_dim %inverse, dims = [0, 1, 2] : {ROWS}
    %a = stablehlo.multiply %dp, %inverses : {T}
    %b0 = stablehlo.multiply %a, %e : {T}
    %c = stablehlo.reduce(%b0 init: %zero) {SUM}
    %d = stablehlo.negate %c : tensor<2x3x6xf32>
    %ds0 = stablehlo.divide %dp, %ls : {T}
    %dd = stablehlo.broadcast_in_dim %d, dims = [0, 1, 2] : {ROWS}
    %f = stablehlo.add %ds0, %dd : {T}
    %de = stablehlo.multiply %f, %e : {T}
    {last}"
    )
}

/// The same from the softmax itself.
fn by_softmax(last: &str) -> String {
    format!(
        "%b0 = stablehlo.multiply %p, %dp : {T}
    %c = stablehlo.reduce(%b0 init: %zero) {SUM}
    %cc = stablehlo.broadcast_in_dim %c, dims = [0, 1, 2] : {ROWS}
    %f = stablehlo.subtract %dp, %cc : {T}
    %de = stablehlo.multiply %p, %f : {T}
    {last}"
    )
}

fn fused(graph: &Graph) -> (usize, usize) {
    let count = |f: fn(&OpKind) -> bool| graph.ops.values().filter(|o| f(&o.kind)).count();
    (count(|k| matches!(k, OpKind::Attention(_))), count(|k| matches!(k, OpKind::AttentionGrad { .. })))
}

fn evaluate(graph: &Graph) -> Vec<Vec<f64>> {
    let argument = |(n, ty): (usize, TensorType)| {
        let values: Vec<f64> = (0..ty.elements()).map(|i| ((i * 37 + n as u64 * 11) % 19) as f64 / 8.0 - 1.0).collect();
        Tensor::from_f64s(ty, &values).unwrap()
    };
    let arguments: Vec<Tensor> = graph.inputs.iter().map(|&v| graph.ty(v).clone()).enumerate().map(argument).collect();
    ir::interp::run(&Module::default(), graph, &arguments, Precision::F64).unwrap_or_else(|d| panic!("{d}")).iter().map(Tensor::to_f64s).collect()
}

fn check(graph: &Graph, causal: bool) {
    let (new, notes) = run(graph);
    assert!(notes.is_empty(), "{notes:?}");
    ir::verify::verify(&new).unwrap();
    assert_eq!(fused(&new), (1, 1), "{}", ir::text::print_graph(&new));
    assert!(!new.ops.values().any(|o| matches!(o.kind, OpKind::Unary(_) | OpKind::Dot(_))), "{}", ir::text::print_graph(&new));
    assert!(new.ops.values().all(|o| !matches!(&o.kind, OpKind::Attention(a) if a.causal != causal)));
    for (n, (a, b)) in evaluate(graph).iter().zip(&evaluate(&new)).enumerate() {
        assert!(a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-9), "result {n}: {a:?} and {b:?}");
    }
}

#[test]
fn a_causal_attention_and_its_derivative_are_found() {
    let scores = format!("%t = stablehlo.multiply %s, %half : {T}\n %z = stablehlo.select %seen, %t, %never : tensor<2x3x6x6xi1>, {T}");
    let last = format!("%m = stablehlo.select %seen, %de, %none : tensor<2x3x6x6xi1>, {T}\n %ds = stablehlo.divide %m, %two : {T}");
    let weights = format!("%w = stablehlo.convert %p : ({T}) -> {T}");
    check(&step(&scores, &weights, &by_quotient(&last)), true);
    check(&step(&scores, &weights, &by_softmax(&last)), true);
}

#[test]
fn an_attention_with_a_bias_is_found() {
    let scores = format!("%bb = stablehlo.broadcast_in_dim %b, dims = [1, 2, 3] : (tensor<3x6x6xf32>) -> {T}\n %z = stablehlo.add %s, %bb : {T}");
    let weights = format!("%w = stablehlo.convert %p : ({T}) -> {T}");
    check(&step(&scores, &weights, &by_softmax(&format!("%ds = stablehlo.convert %de : ({T}) -> {T}"))), false);
}

#[test]
fn what_is_no_attention_is_left() {
    let same = format!("%w = stablehlo.convert %p : ({T}) -> {T}");
    let plain = format!("%z = stablehlo.convert %s : ({T}) -> {T}");
    let end = format!("%ds = stablehlo.convert %de : ({T}) -> {T}");
    // Weights that are changed before they are used; a factor that is not that of the scores; a sum that is missing; a mask that may hide a row.
    let dropped = format!("%w = stablehlo.multiply %p, %never : {T}");
    let scaled = by_softmax(&format!("%ds = stablehlo.multiply %de, %half : {T}"));
    let partial = format!("%ds = stablehlo.multiply %p, %dp : {T}");
    let future = format!(
        "%past2 = stablehlo.compare GT, %i, %j, SIGNED : (tensor<6x6xi32>, tensor<6x6xi32>) -> tensor<6x6xi1>\n %seen2 = stablehlo.broadcast_in_dim %past2, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<2x3x6x6xi1>\n %z = stablehlo.select %seen2, %s, %never : tensor<2x3x6x6xi1>, {T}"
    );
    for graph in
        [step(&plain, &dropped, &by_softmax(&end)), step(&plain, &same, &scaled), step(&plain, &same, &partial), step(&future, &same, &by_softmax(&end))]
    {
        let (new, _) = run(&graph);
        assert_eq!(fused(&new), (0, 0), "{}", ir::text::print_graph(&new));
    }
}
