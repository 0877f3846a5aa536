module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<32xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<16x32xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<8xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<32x8xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<24x16xf32>, %arg5: tensor<24x8xf32>, %arg6: tensor<24xf32>) -> (tensor<32xf32> {jax.result_info = "result[0][0]['b']"}, tensor<16x32xf32> {jax.result_info = "result[0][0]['w']"}, tensor<8xf32> {jax.result_info = "result[0][1]['b']"}, tensor<32x8xf32> {jax.result_info = "result[0][1]['w']"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.dot_general %arg4, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<24x16xf32>, tensor<16x32xf32>) -> tensor<24x32xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<24x32xf32>
    %3 = stablehlo.add %0, %2 : tensor<24x32xf32>
    %4 = call @relu(%3) : (tensor<24x32xf32>) -> tensor<24x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<24x32xf32>
    %6 = stablehlo.compare GT, %3, %5, FLOAT : (tensor<24x32xf32>, tensor<24x32xf32>) -> tensor<24x32xi1>
    %7 = stablehlo.dot_general %4, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<24x32xf32>, tensor<32x8xf32>) -> tensor<24x8xf32>
    %8 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<24x8xf32>
    %10 = stablehlo.add %7, %9 : tensor<24x8xf32>
    %11 = stablehlo.subtract %10, %arg5 : tensor<24x8xf32>
    %12 = stablehlo.multiply %11, %11 : tensor<24x8xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<24x8xf32>
    %14 = stablehlo.multiply %13, %11 : tensor<24x8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%12 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<24x8xf32>, tensor<f32>) -> tensor<24xf32>
    %cst_2 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<24xf32>
    %17 = stablehlo.divide %15, %16 : tensor<24xf32>
    %18 = stablehlo.multiply %17, %arg6 : tensor<24xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.reduce(%18 init: %cst_3) applies stablehlo.add across dimensions = [0] : (tensor<24xf32>, tensor<f32>) -> tensor<f32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %20 = stablehlo.reduce(%arg6 init: %cst_4) applies stablehlo.add across dimensions = [0] : (tensor<24xf32>, tensor<f32>) -> tensor<f32>
    %21 = stablehlo.divide %19, %20 : tensor<f32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %22 = stablehlo.divide %cst_5, %20 : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<f32>) -> tensor<24xf32>
    %24 = stablehlo.multiply %23, %arg6 : tensor<24xf32>
    %cst_6 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<24xf32>
    %26 = stablehlo.divide %24, %25 : tensor<24xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0] : (tensor<24xf32>) -> tensor<24x8xf32>
    %28 = stablehlo.multiply %27, %14 : tensor<24x8xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %29 = stablehlo.reduce(%28 init: %cst_7) applies stablehlo.add across dimensions = [0] : (tensor<24x8xf32>, tensor<f32>) -> tensor<8xf32>
    %30 = stablehlo.reshape %29 : (tensor<8xf32>) -> tensor<1x8xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %31 = stablehlo.reduce(%30 init: %cst_8) applies stablehlo.add across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %32 = stablehlo.dot_general %28, %4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<24x8xf32>, tensor<24x32xf32>) -> tensor<8x32xf32>
    %33 = stablehlo.transpose %32, dims = [1, 0] : (tensor<8x32xf32>) -> tensor<32x8xf32>
    %34 = stablehlo.dot_general %28, %arg3, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<24x8xf32>, tensor<32x8xf32>) -> tensor<24x32xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<24x32xf32>
    %36 = stablehlo.select %6, %34, %35 : tensor<24x32xi1>, tensor<24x32xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %37 = stablehlo.reduce(%36 init: %cst_10) applies stablehlo.add across dimensions = [0] : (tensor<24x32xf32>, tensor<f32>) -> tensor<32xf32>
    %38 = stablehlo.reshape %37 : (tensor<32xf32>) -> tensor<1x32xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %39 = stablehlo.reduce(%38 init: %cst_11) applies stablehlo.add across dimensions = [0] : (tensor<1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %40 = stablehlo.dot_general %36, %arg4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<24x32xf32>, tensor<24x16xf32>) -> tensor<32x16xf32>
    %41 = stablehlo.transpose %40, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %cst_12 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %43 = stablehlo.multiply %42, %39 : tensor<32xf32>
    %44 = stablehlo.subtract %arg0, %43 : tensor<32xf32>
    %cst_13 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %46 = stablehlo.multiply %45, %41 : tensor<16x32xf32>
    %47 = stablehlo.subtract %arg1, %46 : tensor<16x32xf32>
    %cst_14 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %49 = stablehlo.multiply %48, %31 : tensor<8xf32>
    %50 = stablehlo.subtract %arg2, %49 : tensor<8xf32>
    %cst_15 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %52 = stablehlo.multiply %51, %33 : tensor<32x8xf32>
    %53 = stablehlo.subtract %arg3, %52 : tensor<32x8xf32>
    return %44, %47, %50, %53, %21 : tensor<32xf32>, tensor<16x32xf32>, tensor<8xf32>, tensor<32x8xf32>, tensor<f32>
  }
  func.func private @relu(%arg0: tensor<24x32xf32>) -> tensor<24x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<24x32xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<24x32xf32>
    return %1 : tensor<24x32xf32>
  }
}
