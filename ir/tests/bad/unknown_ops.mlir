module @m {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.tanhh %arg0 : tensor<4x8xf32>
    %1 = foo.bar %0, %arg0 {x = 1 : i32} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = "foo.bar"(%1) ({
    ^bb0(%a: tensor<f32>):
      foo.yield %a
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = stablehlo.fft %2, type = RFFT, length = [8] : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>
    %4 = stablehlo.cholesky %2, lower = true : tensor<4x8xf32>
    %5 = stablehlo.tanh %arg0 : tensor<4x8xf32>
    return %5 : tensor<4x8xf32>
  }
}
