module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<32xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<16x32xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<8xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<32x8xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<32xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<16x32xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<8xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<32x8xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<32xf32> {tf.aliasing_output = 8 : i32}, %arg9: tensor<16x32xf32> {tf.aliasing_output = 9 : i32}, %arg10: tensor<8xf32> {tf.aliasing_output = 10 : i32}, %arg11: tensor<32x8xf32> {tf.aliasing_output = 11 : i32}, %arg12: tensor<f32> {tf.aliasing_output = 12 : i32}, %arg13: tensor<16x16xf32>, %arg14: tensor<16x8xf32>) -> (tensor<32xf32> {jax.result_info = "result[0][0]['b']"}, tensor<16x32xf32> {jax.result_info = "result[0][0]['w']"}, tensor<8xf32> {jax.result_info = "result[0][1]['b']"}, tensor<32x8xf32> {jax.result_info = "result[0][1]['w']"}, tensor<32xf32> {jax.result_info = "result[1][0]['b']"}, tensor<16x32xf32> {jax.result_info = "result[1][0]['w']"}, tensor<8xf32> {jax.result_info = "result[1][1]['b']"}, tensor<32x8xf32> {jax.result_info = "result[1][1]['w']"}, tensor<32xf32> {jax.result_info = "result[2][0]['b']"}, tensor<16x32xf32> {jax.result_info = "result[2][0]['w']"}, tensor<8xf32> {jax.result_info = "result[2][1]['b']"}, tensor<32x8xf32> {jax.result_info = "result[2][1]['w']"}, tensor<f32> {jax.result_info = "result[3]"}, tensor<f32> {jax.result_info = "result[4]"}) {
    %0 = stablehlo.dot_general %arg13, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<16x32xf32>
    %3 = stablehlo.add %0, %2 : tensor<16x32xf32>
    %4 = call @relu(%3) : (tensor<16x32xf32>) -> tensor<16x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %6 = stablehlo.compare GT, %3, %5, FLOAT : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xi1>
    %7 = stablehlo.dot_general %4, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
    %8 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<16x8xf32>
    %10 = stablehlo.add %7, %9 : tensor<16x8xf32>
    %11 = stablehlo.subtract %10, %arg14 : tensor<16x8xf32>
    %12 = stablehlo.multiply %11, %11 : tensor<16x8xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %14 = stablehlo.multiply %13, %11 : tensor<16x8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%12 init: %cst_1) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %16 = stablehlo.divide %15, %cst_2 : tensor<f32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_4 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %17 = stablehlo.divide %cst_3, %cst_4 : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %19 = stablehlo.multiply %18, %14 : tensor<16x8xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %20 = stablehlo.reduce(%19 init: %cst_5) applies stablehlo.add across dimensions = [0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
    %21 = stablehlo.reshape %20 : (tensor<8xf32>) -> tensor<1x8xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %22 = stablehlo.reduce(%21 init: %cst_6) applies stablehlo.add across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %23 = stablehlo.dot_general %19, %4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %24 = stablehlo.transpose %23, dims = [1, 0] : (tensor<8x32xf32>) -> tensor<32x8xf32>
    %25 = stablehlo.dot_general %19, %arg3, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<32x8xf32>) -> tensor<16x32xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %27 = stablehlo.select %6, %25, %26 : tensor<16x32xi1>, tensor<16x32xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %28 = stablehlo.reduce(%27 init: %cst_8) applies stablehlo.add across dimensions = [0] : (tensor<16x32xf32>, tensor<f32>) -> tensor<32xf32>
    %29 = stablehlo.reshape %28 : (tensor<32xf32>) -> tensor<1x32xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%29 init: %cst_9) applies stablehlo.add across dimensions = [0] : (tensor<1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %31 = stablehlo.dot_general %27, %arg13, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
    %32 = stablehlo.transpose %31, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %cst_10 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %34 = stablehlo.multiply %33, %arg4 : tensor<32xf32>
    %cst_11 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %36 = stablehlo.multiply %35, %30 : tensor<32xf32>
    %37 = stablehlo.add %34, %36 : tensor<32xf32>
    %cst_12 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %38 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %39 = stablehlo.multiply %38, %arg5 : tensor<16x32xf32>
    %cst_13 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %40 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %41 = stablehlo.multiply %40, %32 : tensor<16x32xf32>
    %42 = stablehlo.add %39, %41 : tensor<16x32xf32>
    %cst_14 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %44 = stablehlo.multiply %43, %arg6 : tensor<8xf32>
    %cst_15 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %46 = stablehlo.multiply %45, %22 : tensor<8xf32>
    %47 = stablehlo.add %44, %46 : tensor<8xf32>
    %cst_16 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %49 = stablehlo.multiply %48, %arg7 : tensor<32x8xf32>
    %cst_17 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %51 = stablehlo.multiply %50, %24 : tensor<32x8xf32>
    %52 = stablehlo.add %49, %51 : tensor<32x8xf32>
    %cst_18 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %54 = stablehlo.multiply %53, %arg8 : tensor<32xf32>
    %cst_19 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %56 = stablehlo.multiply %55, %30 : tensor<32xf32>
    %57 = stablehlo.multiply %56, %30 : tensor<32xf32>
    %58 = stablehlo.add %54, %57 : tensor<32xf32>
    %cst_20 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %60 = stablehlo.multiply %59, %arg9 : tensor<16x32xf32>
    %cst_21 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %62 = stablehlo.multiply %61, %32 : tensor<16x32xf32>
    %63 = stablehlo.multiply %62, %32 : tensor<16x32xf32>
    %64 = stablehlo.add %60, %63 : tensor<16x32xf32>
    %cst_22 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %66 = stablehlo.multiply %65, %arg10 : tensor<8xf32>
    %cst_23 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %68 = stablehlo.multiply %67, %22 : tensor<8xf32>
    %69 = stablehlo.multiply %68, %22 : tensor<8xf32>
    %70 = stablehlo.add %66, %69 : tensor<8xf32>
    %cst_24 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %72 = stablehlo.multiply %71, %arg11 : tensor<32x8xf32>
    %cst_25 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %74 = stablehlo.multiply %73, %24 : tensor<32x8xf32>
    %75 = stablehlo.multiply %74, %24 : tensor<32x8xf32>
    %76 = stablehlo.add %72, %75 : tensor<32x8xf32>
    %cst_26 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %77 = stablehlo.power %cst_26, %arg12 : tensor<f32>
    %cst_27 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %78 = stablehlo.subtract %cst_27, %77 : tensor<f32>
    %cst_28 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %79 = stablehlo.power %cst_28, %arg12 : tensor<f32>
    %cst_29 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %80 = stablehlo.subtract %cst_29, %79 : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %78, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %82 = stablehlo.divide %37, %81 : tensor<32xf32>
    %cst_30 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %83 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %84 = stablehlo.multiply %83, %82 : tensor<32xf32>
    %85 = stablehlo.broadcast_in_dim %80, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %86 = stablehlo.divide %58, %85 : tensor<32xf32>
    %87 = stablehlo.sqrt %86 : tensor<32xf32>
    %cst_31 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %88 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %89 = stablehlo.add %87, %88 : tensor<32xf32>
    %90 = stablehlo.divide %84, %89 : tensor<32xf32>
    %91 = stablehlo.subtract %arg0, %90 : tensor<32xf32>
    %92 = stablehlo.broadcast_in_dim %78, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %93 = stablehlo.divide %42, %92 : tensor<16x32xf32>
    %cst_32 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %94 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %95 = stablehlo.multiply %94, %93 : tensor<16x32xf32>
    %96 = stablehlo.broadcast_in_dim %80, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %97 = stablehlo.divide %64, %96 : tensor<16x32xf32>
    %98 = stablehlo.sqrt %97 : tensor<16x32xf32>
    %cst_33 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %99 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %100 = stablehlo.add %98, %99 : tensor<16x32xf32>
    %101 = stablehlo.divide %95, %100 : tensor<16x32xf32>
    %102 = stablehlo.subtract %arg1, %101 : tensor<16x32xf32>
    %103 = stablehlo.broadcast_in_dim %78, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %104 = stablehlo.divide %47, %103 : tensor<8xf32>
    %cst_34 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %105 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %106 = stablehlo.multiply %105, %104 : tensor<8xf32>
    %107 = stablehlo.broadcast_in_dim %80, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %108 = stablehlo.divide %70, %107 : tensor<8xf32>
    %109 = stablehlo.sqrt %108 : tensor<8xf32>
    %cst_35 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %110 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %111 = stablehlo.add %109, %110 : tensor<8xf32>
    %112 = stablehlo.divide %106, %111 : tensor<8xf32>
    %113 = stablehlo.subtract %arg2, %112 : tensor<8xf32>
    %114 = stablehlo.broadcast_in_dim %78, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %115 = stablehlo.divide %52, %114 : tensor<32x8xf32>
    %cst_36 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %116 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %117 = stablehlo.multiply %116, %115 : tensor<32x8xf32>
    %118 = stablehlo.broadcast_in_dim %80, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %119 = stablehlo.divide %76, %118 : tensor<32x8xf32>
    %120 = stablehlo.sqrt %119 : tensor<32x8xf32>
    %cst_37 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %122 = stablehlo.add %120, %121 : tensor<32x8xf32>
    %123 = stablehlo.divide %117, %122 : tensor<32x8xf32>
    %124 = stablehlo.subtract %arg3, %123 : tensor<32x8xf32>
    %cst_38 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %125 = stablehlo.add %arg12, %cst_38 : tensor<f32>
    return %58, %64, %70, %76, %37, %42, %47, %52, %91, %102, %113, %124, %125, %16 : tensor<32xf32>, tensor<16x32xf32>, tensor<8xf32>, tensor<32x8xf32>, tensor<32xf32>, tensor<16x32xf32>, tensor<8xf32>, tensor<32x8xf32>, tensor<32xf32>, tensor<16x32xf32>, tensor<8xf32>, tensor<32x8xf32>, tensor<f32>, tensor<f32>
  }
  func.func private @relu(%arg0: tensor<16x32xf32>) -> tensor<16x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<16x32xf32>
    return %1 : tensor<16x32xf32>
  }
}
