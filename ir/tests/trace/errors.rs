//! What does not fit is a diagnostic with the model's line, never a panic.

use ir::DType;
use ir::trace::{Convolve, Initial, Optimizer, Tensor, Tracer, Training, grad, training_step};

fn first_error(f: impl Fn(&Tracer) -> Tensor) -> ir::Diagnostic {
    let tracer = Tracer::new();
    let y = f(&tracer);
    tracer.finish(&[("y", &y)]).expect_err("something does not fit").0.remove(0)
}

#[test]
fn the_first_error_is_kept_with_its_line() {
    let line = line!() + 5;
    let d = first_error(|t| {
        let x = t.data("x", DType::F32, [2, 3]);
        let bad = t.scope("layers.3", || {
            let w = t.parameter("w", [4, 5], Initial::Zeros);
            x.matmul(&w)
        });
        // What follows is not traced, and does not panic.
        let more = bad.softmax(-1).transpose(&[3, 1]).reshape([1, 2, 3]) + x.sum(&[7]);
        let gradient = grad(&more.sum_all(), std::slice::from_ref(&x)).swap_remove(0);
        gradient.convolve(&more, &Convolve::new(2, 1))
    });
    assert_eq!(d.code, "E1001");
    assert!(d.message.contains("tensor<2x3xf32>") && d.message.contains("tensor<4x5xf32>"), "{d}");
    let span = d.span.expect("a place");
    assert!(span.file.ends_with("errors.rs") && span.line == line, "{span:?}");
    assert!(d.notes.iter().any(|n| n.contains("layers.3")));
}

#[test]
fn every_kind_of_misuse_is_told() {
    let x = |t: &Tracer| t.data("x", DType::F32, [2, 3]);
    let cases: Vec<(&str, Box<dyn Fn(&Tracer) -> Tensor>)> = vec![
        ("E1001", Box::new(move |t| x(t) + t.data("y", DType::F32, [2, 4]))),
        ("E1001", Box::new(move |t| x(t) + t.data("y", DType::BF16, [2, 3]))),
        ("E1001", Box::new(move |t| x(t).sum(&[2]))),
        ("E1001", Box::new(move |t| x(t).reshape([7]))),
        ("E1001", Box::new(move |t| x(t).transpose(&[0, 0]))),
        ("E1001", Box::new(move |t| x(t).slice_dim(1, 2, 9))),
        ("E1001", Box::new(move |t| x(t).split(0, &[1, 2]).remove(1))),
        ("E1001", Box::new(move |t| x(t).einsum("ab,bc", &t.data("y", DType::F32, [3, 4])))),
        ("E1001", Box::new(move |t| x(t).einsum("ab,bc->ad", &t.data("y", DType::F32, [3, 4])))),
        ("E1001", Box::new(move |t| x(t).einsum("ab,bc->ac", &t.data("y", DType::F32, [4, 4])))),
        ("E1001", Box::new(move |t| x(t).matmul(&t.data("y", DType::F16, [3, 4])))),
        ("E1001", Box::new(move |t| x(t).convolve(&t.data("y", DType::F32, [3, 3, 1, 1]), &Convolve::new(2, 0)))),
        ("E1001", Box::new(move |t| x(t).embed(&t.data("y", DType::F32, [3])))),
        ("E1001", Box::new(move |t| x(t).top_k(5).0)),
        ("E1001", Box::new(move |t| x(t).broadcast_to(&[3]))),
        ("E1001", Box::new(move |t| x(t).broadcast_in_dim([2, 3], &[0]))),
        ("E1001", Box::new(move |t| x(t).max_pool(&[2], &[1], &[(0, 0)]))),
        ("E1002", Box::new(move |t| x(t).select(&x(&Tracer::new()), &t.scalar(DType::F32, 1.0)))),
        ("E1001", Box::new(move |t| t.data("huge", DType::F32, [1 << 30, 1 << 30]))),
        ("E1001", Box::new(move |t| x(t).broadcast_to(&[1 << 40, 1 << 20, 2, 3]))),
        ("E1001", Box::new(move |t| t.scalar(DType::F32, 0.0).rotary(10.0))),
        ("E1001", Box::new(move |t| t.scalar(DType::F32, 0.0).attend(&t.scalar(DType::F32, 0.0), &t.scalar(DType::F32, 0.0), true))),
        ("E1001", Box::new(move |t| t.scalar(DType::F32, 0.0).layer_norm(&t.scalar(DType::F32, 0.0), &t.scalar(DType::F32, 0.0), 0.1))),
        ("E1001", Box::new(move |t| t.scalar(DType::F32, 0.0).causal_mask())),
        ("E1001", Box::new(move |t| t.scalar(DType::F32, 0.0).sort(&[], 0, false).remove(0))),
        ("E1002", Box::new(move |t| x(t) + x(&Tracer::new()))),
        ("E1002", Box::new(move |_| x(&Tracer::new()))),
        ("E1003", Box::new(move |t| grad(&x(t), &[]).first().cloned().unwrap_or_else(|| x(&Tracer::new())))),
        ("E1004", Box::new(move |t| x(t) + x(t))),
    ];
    for (i, (code, f)) in cases.iter().enumerate() {
        assert_eq!(first_error(f).code, *code, "case {i}: {}", first_error(f));
    }
}

#[test]
fn a_step_of_no_loss_is_refused() {
    let tracer = Tracer::new();
    let w = tracer.parameter("w", [4], Initial::Ones);
    let error = training_step(&tracer, &(&w * 2.0), &Training::new(Optimizer::sgd(0.1))).expect_err("no scalar");
    assert_eq!(error.0[0].code, "E1003");
}
