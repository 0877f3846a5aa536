module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64x64xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<256x64xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<64x256xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<16x64xf32>, %arg4: tensor<16x64xf32>) -> (tensor<64x64xf32> {jax.result_info = "result[0]['before']"}, tensor<256x64xf32> {jax.result_info = "result[0]['down']"}, tensor<64x256xf32> {jax.result_info = "result[0]['up']"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.dot_general %arg3, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %1 = stablehlo.tanh %0 : tensor<16x64xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
    %3 = stablehlo.subtract %2, %1 : tensor<16x64xf32>
    %4 = stablehlo.dot_general %1, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x256xf32>) -> tensor<16x256xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<16x256xf32>
    %6 = stablehlo.multiply %5, %4 : tensor<16x256xf32>
    %7 = stablehlo.multiply %4, %4 : tensor<16x256xf32>
    %cst_0 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16x256xf32>
    %9 = stablehlo.multiply %8, %7 : tensor<16x256xf32>
    %cst_1 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16x256xf32>
    %11 = stablehlo.multiply %10, %6 : tensor<16x256xf32>
    %12 = stablehlo.add %4, %11 : tensor<16x256xf32>
    %cst_2 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16x256xf32>
    %14 = stablehlo.multiply %13, %12 : tensor<16x256xf32>
    %15 = stablehlo.tanh %14 : tensor<16x256xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<16x256xf32>
    %17 = stablehlo.subtract %16, %15 : tensor<16x256xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<16x256xf32>
    %19 = stablehlo.add %18, %15 : tensor<16x256xf32>
    %cst_5 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<16x256xf32>
    %21 = stablehlo.multiply %20, %19 : tensor<16x256xf32>
    %22 = stablehlo.multiply %4, %21 : tensor<16x256xf32>
    %23 = stablehlo.dot_general %22, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x256xf32>, tensor<256x64xf32>) -> tensor<16x64xf32>
    %24 = stablehlo.add %1, %23 : tensor<16x64xf32>
    %25 = stablehlo.subtract %24, %arg4 : tensor<16x64xf32>
    %26 = stablehlo.multiply %25, %25 : tensor<16x64xf32>
    %cst_6 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
    %28 = stablehlo.multiply %27, %25 : tensor<16x64xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %29 = stablehlo.reduce(%26 init: %cst_7) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_8 = stablehlo.constant dense<1.024000e+03> : tensor<f32>
    %30 = stablehlo.divide %29, %cst_8 : tensor<f32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_10 = stablehlo.constant dense<1.024000e+03> : tensor<f32>
    %31 = stablehlo.divide %cst_9, %cst_10 : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
    %33 = stablehlo.multiply %32, %28 : tensor<16x64xf32>
    %34 = stablehlo.dot_general %33, %22, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<16x256xf32>) -> tensor<64x256xf32>
    %35 = stablehlo.transpose %34, dims = [1, 0] : (tensor<64x256xf32>) -> tensor<256x64xf32>
    %36 = stablehlo.dot_general %33, %arg1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<256x64xf32>) -> tensor<16x256xf32>
    %37 = stablehlo.multiply %4, %36 : tensor<16x256xf32>
    %38 = stablehlo.multiply %36, %21 : tensor<16x256xf32>
    %cst_11 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<16x256xf32>
    %40 = stablehlo.multiply %39, %37 : tensor<16x256xf32>
    %41 = stablehlo.multiply %40, %17 : tensor<16x256xf32>
    %42 = stablehlo.multiply %41, %15 : tensor<16x256xf32>
    %43 = stablehlo.add %41, %42 : tensor<16x256xf32>
    %cst_12 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %44 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<16x256xf32>
    %45 = stablehlo.multiply %44, %43 : tensor<16x256xf32>
    %46 = stablehlo.add %38, %45 : tensor<16x256xf32>
    %cst_13 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<16x256xf32>
    %48 = stablehlo.multiply %47, %45 : tensor<16x256xf32>
    %49 = stablehlo.multiply %48, %9 : tensor<16x256xf32>
    %50 = stablehlo.add %46, %49 : tensor<16x256xf32>
    %51 = stablehlo.dot_general %50, %1, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x256xf32>, tensor<16x64xf32>) -> tensor<256x64xf32>
    %52 = stablehlo.transpose %51, dims = [1, 0] : (tensor<256x64xf32>) -> tensor<64x256xf32>
    %53 = stablehlo.dot_general %50, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x256xf32>, tensor<64x256xf32>) -> tensor<16x64xf32>
    %54 = stablehlo.add %33, %53 : tensor<16x64xf32>
    %55 = stablehlo.multiply %54, %3 : tensor<16x64xf32>
    %56 = stablehlo.multiply %55, %1 : tensor<16x64xf32>
    %57 = stablehlo.add %55, %56 : tensor<16x64xf32>
    %58 = stablehlo.dot_general %57, %arg3, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %59 = stablehlo.transpose %58, dims = [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %cst_14 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<64x64xf32>
    %61 = stablehlo.multiply %60, %59 : tensor<64x64xf32>
    %62 = stablehlo.subtract %arg0, %61 : tensor<64x64xf32>
    %cst_15 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %64 = stablehlo.multiply %63, %35 : tensor<256x64xf32>
    %65 = stablehlo.subtract %arg1, %64 : tensor<256x64xf32>
    %cst_16 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %67 = stablehlo.multiply %66, %52 : tensor<64x256xf32>
    %68 = stablehlo.subtract %arg2, %67 : tensor<64x256xf32>
    return %62, %65, %68, %30 : tensor<64x64xf32>, tensor<256x64xf32>, tensor<64x256xf32>, tensor<f32>
  }
}
