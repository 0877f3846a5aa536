//! Ops by their text, on hand-computed values: what needs regions, calls, several results, or a precision.

use ir::interp::{Precision, Tensor, run};
use ir::{DType, TensorType};

fn evaluate(text: &str, arguments: &[Tensor], precision: Precision) -> Vec<Vec<f64>> {
    let module = ir::text::parse("test", text).unwrap_or_else(|d| panic!("{d}"));
    let graph = module.main().unwrap();
    run(&module, graph, arguments, precision).unwrap_or_else(|d| panic!("{d}")).iter().map(Tensor::to_f64s).collect()
}

/// Evaluates a `main` without arguments.
fn check(body: &str, results: &str, want: &[&[f64]]) {
    let text = format!("module @m {{\n func.func public @main() -> {results} {{\n{body}\n }}\n}}");
    assert_eq!(evaluate(&text, &[], Precision::AsTyped), want);
}

#[test]
fn reduction_of_two_operands_by_a_region() {
    // The largest element of each row and its position; of equal ones the first.
    check(
        r#"
    %x = stablehlo.constant dense<[[1.0, 5.0, 5.0], [7.0, 0.0, 2.0]]> : tensor<2x3xf32>
    %i = stablehlo.iota dim = 1 : tensor<2x3xi32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>)  {
      %0 = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %2 = stablehlo.or %0, %1 : tensor<i1>
      %3 = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.compare LT, %c, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %5 = stablehlo.and %3, %4 : tensor<i1>
      %6 = stablehlo.or %2, %5 : tensor<i1>
      %7 = stablehlo.select %2, %a, %b : tensor<i1>, tensor<f32>
      %8 = stablehlo.select %6, %c, %d : tensor<i1>, tensor<i32>
      stablehlo.return %7, %8 : tensor<f32>, tensor<i32>
    }
    return %r#0, %r#1 : tensor<2xf32>, tensor<2xi32>"#,
        "(tensor<2xf32>, tensor<2xi32>)",
        &[&[5., 7.], &[1., 0.]],
    );
}

#[test]
fn region_reductions_keep_the_order_of_elements() {
    // a * 10 + b is not associative over many, but over pairs of neighbours the first operand stays the earlier one.
    check(
        r#"
    %x = stablehlo.constant dense<[4.0, 3.0]> : tensor<2xf32>
    %init = stablehlo.constant dense<0.0> : tensor<f32>
    %r = stablehlo.reduce(%x init: %init) across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
     reducer(%a: tensor<f32>, %b: tensor<f32>)  {
      %ten = stablehlo.constant dense<10.0> : tensor<f32>
      %0 = stablehlo.multiply %a, %ten : tensor<f32>
      %1 = stablehlo.add %0, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }
    return %r : tensor<f32>"#,
        "tensor<f32>",
        &[&[43.]],
    );
}

#[test]
fn the_gradient_of_max_pooling() {
    check(
        r#"
    %x = stablehlo.constant dense<[1.0, 5.0, 2.0, 2.0, 4.0, 3.0]> : tensor<6xf32>
    %s = stablehlo.constant dense<[10.0, 20.0, 30.0]> : tensor<3xf32>
    %init = stablehlo.constant dense<0.0> : tensor<f32>
    %r = "stablehlo.select_and_scatter"(%x, %s, %init) <{padding = dense<0> : tensor<1x2xi64>, window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %0 = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %0 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %0 : tensor<f32>
    }) : (tensor<6xf32>, tensor<3xf32>, tensor<f32>) -> tensor<6xf32>
    return %r : tensor<6xf32>"#,
        "tensor<6xf32>",
        &[&[0., 10., 20., 0., 30., 0.]],
    );
}

#[test]
fn overlapping_windows_add_up() {
    check(
        r#"
    %x = stablehlo.constant dense<[1.0, 5.0, 2.0]> : tensor<3xf32>
    %s = stablehlo.constant dense<[10.0, 20.0, 30.0, 40.0]> : tensor<4xf32>
    %init = stablehlo.constant dense<0.0> : tensor<f32>
    %r = "stablehlo.select_and_scatter"(%x, %s, %init) <{padding = dense<[[1, 1]]> : tensor<1x2xi64>, window_dimensions = array<i64: 2>, window_strides = array<i64: 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %0 = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %0 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %0 : tensor<f32>
    }) : (tensor<3xf32>, tensor<4xf32>, tensor<f32>) -> tensor<3xf32>
    return %r : tensor<3xf32>"#,
        "tensor<3xf32>",
        &[&[10., 50., 40.]],
    );
}

#[test]
fn scatter_by_a_region_applies_updates_one_after_another() {
    // new = old * 2 + update, at place 1 twice.
    check(
        r#"
    %x = stablehlo.constant dense<[1.0, 1.0, 1.0]> : tensor<3xf32>
    %i = stablehlo.constant dense<[[1], [0], [1], [9]]> : tensor<4x1xi32>
    %u = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %r = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %two = stablehlo.constant dense<2.0> : tensor<f32>
      %0 = stablehlo.multiply %a, %two : tensor<f32>
      %1 = stablehlo.add %0, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<3xf32>, tensor<4x1xi32>, tensor<4xf32>) -> tensor<3xf32>
    return %r : tensor<3xf32>"#,
        "tensor<3xf32>",
        &[&[4., 9., 1.]],
    );
}

#[test]
fn sort_by_a_computed_key() {
    // By descending absolute value, carrying positions; equal ones keep their order.
    check(
        r#"
    %x = stablehlo.constant dense<[1.0, -3.0, 2.0, -1.0]> : tensor<4xf32>
    %i = stablehlo.iota dim = 0 : tensor<4xi32>
    %r:2 = "stablehlo.sort"(%x, %i) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %0 = stablehlo.abs %a : tensor<f32>
      %1 = stablehlo.abs %b : tensor<f32>
      %2 = stablehlo.compare GT, %0, %1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    }) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
    return %r#0, %r#1 : tensor<4xf32>, tensor<4xi32>"#,
        "(tensor<4xf32>, tensor<4xi32>)",
        &[&[-3., 2., 1., -1.], &[1., 2., 0., 3.]],
    );
}

#[test]
fn loops_carry_state_and_do_not_overwrite_what_is_read_later() {
    check(
        r#"
    %n = stablehlo.constant dense<0> : tensor<i32>
    %a = stablehlo.constant dense<[1.0, 1.0]> : tensor<2xf32>
    %r:2 = stablehlo.while(%i = %n, %x = %a) : tensor<i32>, tensor<2xf32>
     cond {
      %five = stablehlo.constant dense<5> : tensor<i32>
      %c = stablehlo.compare LT, %i, %five, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %y = stablehlo.add %x, %x : tensor<2xf32>
      %z = stablehlo.dynamic_slice %y, %n, sizes = [1] : (tensor<2xf32>, tensor<i32>) -> tensor<1xf32>
      %w = stablehlo.dynamic_update_slice %x, %z, %i : (tensor<2xf32>, tensor<1xf32>, tensor<i32>) -> tensor<2xf32>
      stablehlo.return %j, %w : tensor<i32>, tensor<2xf32>
    }
    %s = stablehlo.add %r#1, %a : tensor<2xf32>
    return %r#0, %r#1, %s : tensor<i32>, tensor<2xf32>, tensor<2xf32>"#,
        "(tensor<i32>, tensor<2xf32>, tensor<2xf32>)",
        // Place 0 doubles in the first round, place 1 becomes twice place 0 in the others.
        &[&[5.], &[2., 4.], &[3., 5.]],
    );
}

#[test]
fn branches_and_calls() {
    let text = r#"
module @m {
  func.func public @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %0 = "stablehlo.case"(%i) ({
      %1 = func.call @double(%x) : (tensor<f32>) -> tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }, {
      %1 = stablehlo.negate %x : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
    %2 = "stablehlo.if"(%p) ({
      stablehlo.return %0 : tensor<f32>
    }, {
      stablehlo.return %x : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    return %0, %2 : tensor<f32>, tensor<f32>
  }
  func.func private @double(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %x, %x : tensor<f32>
    return %0 : tensor<f32>
  }
}"#;
    let scalar = |t, x| Tensor::splat(TensorType::scalar(t), x);
    let at = |i: f64, p: f64| evaluate(text, &[scalar(DType::I32, i), scalar(DType::I1, p), scalar(DType::F32, 3.0)], Precision::AsTyped);
    assert_eq!(at(0., 1.), [[6.], [6.]]);
    assert_eq!(at(1., 0.), [[-3.], [3.]]);
    // Out of range takes the last branch.
    assert_eq!(at(7., 1.), [[-3.], [-3.]]);
    assert_eq!(at(-1., 1.), [[-3.], [-3.]]);
}

#[test]
fn bits_are_reinterpreted_in_both_precisions() {
    let text = r#"
module @m {
  func.func public @main(%b: tensor<2xui32>) -> (tensor<2xf32>, tensor<2xui32>, tensor<2x4xui8>) {
    %0 = stablehlo.bitcast_convert %b : (tensor<2xui32>) -> tensor<2xf32>
    %1 = stablehlo.bitcast_convert %0 : (tensor<2xf32>) -> tensor<2xui32>
    %2 = stablehlo.bitcast_convert %0 : (tensor<2xf32>) -> tensor<2x4xui8>
    return %0, %1, %2 : tensor<2xf32>, tensor<2xui32>, tensor<2x4xui8>
  }
}"#;
    let bits = Tensor::from_i64s(TensorType::new(DType::UI32, [2]), &[0x3f80_0000, 0x40a0_0001]).unwrap();
    for precision in [Precision::AsTyped, Precision::F64] {
        let r = evaluate(text, std::slice::from_ref(&bits), precision);
        assert_eq!(r[0], [1.0, f64::from(f32::from_bits(0x40a0_0001))]);
        assert_eq!(r[1], [f64::from(0x3f80_0000u32), f64::from(0x40a0_0001u32)]);
        assert_eq!(r[2], [0., 0., 128., 63., 1., 0., 160., 64.]);
    }
}

#[test]
fn f64_precision_ignores_float_types() {
    let text = r#"
module @m {
  func.func public @main(%x: tensor<f32>) -> (tensor<bf16>, tensor<f32>, tensor<i32>) {
    %0 = stablehlo.convert %x : (tensor<f32>) -> tensor<bf16>
    %1 = stablehlo.multiply %0, %0 : tensor<bf16>
    %2 = stablehlo.convert %1 : (tensor<bf16>) -> tensor<f32>
    %3 = stablehlo.reduce_precision %2, format = e5m2 : tensor<f32>
    %4 = stablehlo.convert %3 : (tensor<f32>) -> tensor<i32>
    return %1, %3, %4 : tensor<bf16>, tensor<f32>, tensor<i32>
  }
}"#;
    let x = Tensor::splat(TensorType::scalar(DType::F32), 3.7);
    let exact = f64::from(3.7f32) * f64::from(3.7f32);
    assert_eq!(evaluate(text, std::slice::from_ref(&x), Precision::F64), [[exact], [exact], [13.0]]);
    // 3.7 is 3.703125 in bf16, its square 13.713 rounds to 13.6875, and to 14 with two bits of mantissa.
    assert_eq!(evaluate(text, &[x], Precision::AsTyped), [[13.6875], [14.0], [14.0]]);
}

#[test]
fn total_order_and_partial_order_differ_on_nan_and_zero() {
    check(
        r#"
    %a = stablehlo.constant dense<[0x7FC00000, -0.0, 1.0]> : tensor<3xf32>
    %b = stablehlo.constant dense<[0x7F800000, 0.0, 2.0]> : tensor<3xf32>
    %0 = stablehlo.compare GT, %a, %b, FLOAT : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %1 = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %2 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    return %0, %1, %2 : tensor<3xi1>, tensor<3xi1>, tensor<3xi1>"#,
        "(tensor<3xi1>, tensor<3xi1>, tensor<3xi1>)",
        &[&[0., 0., 0.], &[1., 0., 0.], &[0., 1., 1.]],
    );
}

#[test]
fn scalars_bound_and_choose_whole_tensors() {
    check(
        r#"
    %x = stablehlo.constant dense<[-2.0, 0.5, 9.0]> : tensor<3xf32>
    %y = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    %low = stablehlo.constant dense<-1.0> : tensor<f32>
    %high = stablehlo.constant dense<[0.0, 1.0, 2.0]> : tensor<3xf32>
    %p = stablehlo.constant dense<false> : tensor<i1>
    %0 = stablehlo.clamp %low, %x, %high : (tensor<f32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %1 = stablehlo.select %p, %x, %y : tensor<i1>, tensor<3xf32>
    return %0, %1 : tensor<3xf32>, tensor<3xf32>"#,
        "(tensor<3xf32>, tensor<3xf32>)",
        &[&[-1., 0.5, 2.], &[1., 2., 3.]],
    );
}

#[test]
fn complex_numbers() {
    check(
        r#"
    %a = stablehlo.constant dense<3.0> : tensor<f32>
    %b = stablehlo.constant dense<-4.0> : tensor<f32>
    %z = stablehlo.complex %a, %b : tensor<complex<f32>>
    %0 = stablehlo.abs %z : (tensor<complex<f32>>) -> tensor<f32>
    %1 = stablehlo.multiply %z, %z : tensor<complex<f32>>
    %2 = stablehlo.real %1 : (tensor<complex<f32>>) -> tensor<f32>
    %3 = stablehlo.imag %1 : (tensor<complex<f32>>) -> tensor<f32>
    %4 = stablehlo.sqrt %z : tensor<complex<f32>>
    %5 = stablehlo.imag %4 : (tensor<complex<f32>>) -> tensor<f32>
    return %0, %2, %3, %5 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>"#,
        "(tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)",
        &[&[5.], &[-7.], &[-24.], &[-1.]],
    );
}

#[test]
fn zero_sized_tensors_are_legal() {
    check(
        r#"
    %x = stablehlo.constant dense<> : tensor<0x2xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %y = stablehlo.add %x, %x : tensor<0x2xf32>
    %0 = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<0x2xf32>, tensor<f32>) -> tensor<2xf32>
    %1 = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0] : (tensor<0x2xf32>, tensor<0x2xf32>) -> tensor<2x2xf32>
    %2 = stablehlo.transpose %y, dims = [1, 0] : (tensor<0x2xf32>) -> tensor<2x0xf32>
    return %0, %1, %2 : tensor<2xf32>, tensor<2x2xf32>, tensor<2x0xf32>"#,
        "(tensor<2xf32>, tensor<2x2xf32>, tensor<2x0xf32>)",
        &[&[0., 0.], &[0., 0., 0., 0.], &[]],
    );
}

#[test]
fn what_cannot_be_evaluated_is_a_diagnostic() {
    let text = r#"
module @m {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %x, %x : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}"#;
    let module = ir::text::parse("test", text).unwrap();
    let graph = module.main().unwrap();
    assert_eq!(run(&module, graph, &[], Precision::AsTyped).unwrap_err().code, "E0701");
    let wrong = Tensor::zeros(TensorType::new(DType::F32, [3]));
    assert_eq!(run(&module, graph, &[wrong], Precision::AsTyped).unwrap_err().code, "E0702");
}
