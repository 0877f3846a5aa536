module @m {
  sdy.mesh @mesh = <["x"=0]>
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    return %arg0 : tensor<4xf32>
  }
}
