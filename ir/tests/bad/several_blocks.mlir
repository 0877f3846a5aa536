module @m {
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    cf.br ^bb1
  ^bb1:
    return %arg0 : tensor<4xf32>
  }
}
