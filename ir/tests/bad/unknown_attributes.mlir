module @m {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.transpose %arg0, dims = [1, 0], colour = "red" : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %1 = "stablehlo.transpose"(%arg0) <{permutation = array<i64: 1, 0>, colour = "blue"}> : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %2 = stablehlo.tanh %arg0 {my.note = "discardable attributes are skipped"} : tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
}
