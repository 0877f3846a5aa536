module @m {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0:2 = stablehlo.tanh %arg0 : tensor<4x8xf32>
    return %0#0 : tensor<4x8xf32>
  }
}
