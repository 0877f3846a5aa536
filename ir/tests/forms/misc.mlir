module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32>) -> (tensor<4x8xf32> {jax.result_info = "result[0]"}, tensor<6x10xf32> {jax.result_info = "result[1]"}, tensor<10x9xf32> {jax.result_info = "result[2]"}, tensor<2x2xf32> {jax.result_info = "result[3]"}, tensor<8x4xf32> {jax.result_info = "result[4]"}, tensor<2x16xf32> {jax.result_info = "result[5]"}, tensor<4x16xf32> {jax.result_info = "result[6]"}, tensor<4x8xf32> {jax.result_info = "result[7]"}, tensor<4x8xf32> {jax.result_info = "result[8]"}, tensor<4x8xf32> {jax.result_info = "result[9]"}, tensor<4x8xf32> {jax.result_info = "result[10]"}, tensor<4x8xf32> {jax.result_info = "result[11]"}, tensor<8x8xf32> {jax.result_info = "result[12]"}, tensor<8x8xf32> {jax.result_info = "result[13]"}, tensor<8x16xf32> {jax.result_info = "result[14]"}, tensor<4x4xf32> {jax.result_info = "result[15]"}) {
    %0 = call @_flip(%arg0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = call @_pad(%arg0, %c) : (tensor<4x8xf32>, tensor<i32>) -> tensor<6x10xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.pad %arg0, %cst, low = [1, 0], high = [-1, 1], interior = [2, 0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<10x9xf32>
    %3 = stablehlo.slice %arg0 [0:4:2, 1:7:3] : (tensor<4x8xf32>) -> tensor<2x2xf32>
    %4 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %5 = stablehlo.reshape %arg0 : (tensor<4x8xf32>) -> tensor<2x16xf32>
    %6 = stablehlo.concatenate %arg0, %arg0, dim = 1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
    %c_0 = stablehlo.constant dense<-1> : tensor<i32>
    %c_1 = stablehlo.constant dense<1> : tensor<i32>
    %7 = call @clip(%arg0, %c_0, %c_1) : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>
    %cst_2 = stablehlo.constant dense<-1.000000e+00> : tensor<f32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %9 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %10 = stablehlo.clamp %8, %arg0, %9 : tensor<4x8xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %12 = stablehlo.compare GT, %arg0, %11, FLOAT : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %13 = call @_where(%12, %arg0, %c_5) : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
    %14 = call @tril(%arg0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %15 = stablehlo.reshape %arg0 : (tensor<4x8xf32>) -> tensor<32xf32>
    %16 = call @_roll_static(%15) : (tensor<32xf32>) -> tensor<32xf32>
    %17 = stablehlo.reshape %16 : (tensor<32xf32>) -> tensor<4x8xf32>
    %18 = stablehlo.slice %arg0 [0:1, 0:8] : (tensor<4x8xf32>) -> tensor<1x8xf32>
    %19 = stablehlo.reshape %18 : (tensor<1x8xf32>) -> tensor<8xf32>
    %20 = stablehlo.slice %arg0 [1:2, 0:8] : (tensor<4x8xf32>) -> tensor<1x8xf32>
    %21 = stablehlo.reshape %20 : (tensor<1x8xf32>) -> tensor<8xf32>
    %22 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
    %23 = stablehlo.broadcast_in_dim %21, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x8xf32>
    %25 = stablehlo.broadcast_in_dim %23, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<8x8xf32>
    %26 = stablehlo.multiply %24, %25 : tensor<8x8xf32>
    %27 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<4x8xf32>) -> tensor<4x2x8xf32>
    %28 = stablehlo.reshape %27 : (tensor<4x2x8xf32>) -> tensor<8x8xf32>
    %29 = stablehlo.reshape %arg0 : (tensor<4x8xf32>) -> tensor<1x4x1x8xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2, 3] : (tensor<1x4x1x8xf32>) -> tensor<2x4x2x8xf32>
    %31 = stablehlo.reshape %30 : (tensor<2x4x2x8xf32>) -> tensor<8x16xf32>
    %32 = stablehlo.iota dim = 0 : tensor<4x4xi32>
    %33 = stablehlo.iota dim = 1 : tensor<4x4xi32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %34 = stablehlo.broadcast_in_dim %c_6, dims = [] : (tensor<i32>) -> tensor<4x4xi32>
    %35 = stablehlo.add %32, %34 : tensor<4x4xi32>
    %36 = stablehlo.compare EQ, %35, %33, SIGNED : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi1>
    %37 = stablehlo.convert %36 : (tensor<4x4xi1>) -> tensor<4x4xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %10, %13, %14, %17, %26, %28, %31, %37 : tensor<4x8xf32>, tensor<6x10xf32>, tensor<10x9xf32>, tensor<2x2xf32>, tensor<8x4xf32>, tensor<2x16xf32>, tensor<4x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x16xf32>, tensor<4x4xf32>
  }
  func.func private @_flip(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.reverse %arg0, dims = [0, 1] : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
  func.func private @_pad(%arg0: tensor<4x8xf32>, %arg1: tensor<i32>) -> tensor<6x10xf32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.pad %arg0, %0, low = [1, 1], high = [1, 1], interior = [0, 0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<6x10xf32>
    return %1 : tensor<6x10xf32>
  }
  func.func private @clip(%arg0: tensor<4x8xf32>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<4x8xf32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %2 = stablehlo.maximum %1, %arg0 : tensor<4x8xf32>
    %3 = stablehlo.convert %arg2 : (tensor<i32>) -> tensor<f32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %5 = stablehlo.minimum %4, %2 : tensor<4x8xf32>
    return %5 : tensor<4x8xf32>
  }
  func.func private @_where(%arg0: tensor<4x8xi1>, %arg1: tensor<4x8xf32>, %arg2: tensor<i32>) -> tensor<4x8xf32> {
    %0 = stablehlo.convert %arg2 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<4x8xi1>, tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
  func.func private @tril(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.iota dim = 0 : tensor<4x8xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %2 = stablehlo.add %0, %1 : tensor<4x8xi32>
    %3 = stablehlo.iota dim = 1 : tensor<4x8xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<4x8xi1>, tensor<4x8xf32>
    return %6 : tensor<4x8xf32>
  }
  func.func private @_roll_static(%arg0: tensor<32xf32>) -> tensor<32xf32> {
    %0 = stablehlo.slice %arg0 [31:32] : (tensor<32xf32>) -> tensor<1xf32>
    %1 = stablehlo.slice %arg0 [0:31] : (tensor<32xf32>) -> tensor<31xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xf32>, tensor<31xf32>) -> tensor<32xf32>
    return %2 : tensor<32xf32>
  }
}
