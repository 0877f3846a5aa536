module @m {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.convert %arg0 : (tensor<4x8xf32>) -> tensor<4x8xf7>
    %1 = stablehlo.convert %arg0 : (tensor<4x8xf32>) -> tensor<4x8x!quant.uniform<i8:f32, 2.0:3>>
    %2 = stablehlo.convert %arg0 : (tensor<4x8xf32>) -> tensor<4x8xf7>
    %3 = stablehlo.reshape %arg0 : (tensor<4x8xf32>) -> tensor<?x8xf32>
    %4 = stablehlo.create_token : !stablehlo.token
    return %arg0 : tensor<4x8xf32>
  }
}
