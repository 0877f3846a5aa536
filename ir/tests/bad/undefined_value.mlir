module @m {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.add %arg0, %7 : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
