"builtin.module"() <{sym_name = "m"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "mesh"}> : () -> ()
  "func.func"() <{arg_attrs = [{tf.aliasing_output = 1 : i32}, {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}], function_type = (tensor<2x8x8x3xf32>, tensor<4x8xf32>) -> (tensor<2x4x8x5xf32>, tensor<4x8xf32>), res_attrs = [{jax.result_info = "a"}, {}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%x: tensor<2x8x8x3xf32>, %y: tensor<4x8xf32>):
    %k = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<3x3x3x5xf32>}> : () -> tensor<3x3x3x5xf32>
    %0 = "stablehlo.convolution"(%x, %k) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, lhs_dilation = array<i64: 1, 1>, padding = dense<1> : tensor<2x2xi64>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>], rhs_dilation = array<i64: 1, 1>, window_strides = array<i64: 2, 1>}> : (tensor<2x8x8x3xf32>, tensor<3x3x3x5xf32>) -> tensor<2x4x8x5xf32>
    %1 = "stablehlo.compare"(%y, %y) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type TOTALORDER>}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
    %2 = "stablehlo.dot_general"(%y, %y) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4xf32>
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = dense<0> : tensor<1xi64>}> : (tensor<4xf32>) -> tensor<4x8xf32>
    %4 = "stablehlo.select"(%1, %y, %3) : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %5 = "stablehlo.map"(%4, %y) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = "stablehlo.constant"() <{value = dense<2.0> : tensor<f32>}> : () -> tensor<f32>
      %d = "stablehlo.multiply"(%a, %c) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %e = "stablehlo.add"(%d, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%e) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %s = "stablehlo.constant"() <{value = dense<[8, 4]> : tensor<2xi32>}> : () -> tensor<2xi32>
    %6 = "stablehlo.dynamic_reshape"(%5, %s) : (tensor<4x8xf32>, tensor<2xi32>) -> tensor<8x4xf32>
    %7 = "stablehlo.dot"(%6, %5) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %zero = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
    %8 = "stablehlo.reduce"(%7, %zero) <{dimensions = array<i64: 0>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%c) : (tensor<f32>) -> ()
    }) : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %9 = "stablehlo.broadcast"(%8) <{broadcast_sizes = array<i64: 4>}> : (tensor<8xf32>) -> tensor<4x8xf32>
    %10 = "sdy.sharding_constraint"(%9) <{sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "func.return"(%0, %10) : (tensor<2x4x8x5xf32>, tensor<4x8xf32>) -> ()
  }) : () -> ()
}) : () -> ()
