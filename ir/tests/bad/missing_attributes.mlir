module @m {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.transpose %arg0 : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.compare NEARLY, %arg0, %arg0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
    %2 = "stablehlo.gather"(%arg0, %arg0) <{slice_sizes = array<i64: 1, 8>}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    return %arg0 : tensor<4x8xf32>
  }
}
