module @m {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.transpose %arg0, dims = [0, 0] : (tensor<4x8xf32>) -> tensor<4x4xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [0, 7] : (tensor<4x8xf32>) -> tensor<4x8x2xf32>
    %2 = stablehlo.slice %arg0 [0:5, 0:8] : (tensor<4x8xf32>) -> tensor<5x8xf32>
    %3 = stablehlo.concatenate %arg0, %arg0, dim = 3 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %4 = stablehlo.iota dim = 2 : tensor<4x8xf32>
    %5 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %6 = stablehlo.reverse %arg0, dims = [-1] : tensor<4x8xf32>
    return %arg0 : tensor<4x8xf32>
  }
}
