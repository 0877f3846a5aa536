module @m {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.tan2 %arg0 : tensor<4x8xf32>
    %1 = stablehlo.transpose %arg0, dims = [0, 2] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %2 = stablehlo.convert %arg0 : (tensor<4x8xf32>) -> tensor<4x8xf9>
    %3 = stablehlo.add %arg0, %nothing : tensor<4x8xf32>
    %4 = stablehlo.constant dense<[1, 2, 3]> : tensor<4xi32>
    %5 = stablehlo.add %0, %3 : tensor<4x8xf32>
    %6 = stablehlo.reshape %arg0 : (tensor<4x8xf32>) -> tensor<33xf32>
    return %5 : tensor<4x8xf32>
  }
}
