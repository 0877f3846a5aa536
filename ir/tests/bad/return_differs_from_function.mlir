module @m {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<32xf32> {
    return %arg0 : tensor<4x8xf32>
  }
}
