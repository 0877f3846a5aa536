module @m {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.constant dense<[[1.0, 2.0], [3.0]]> : tensor<2x2xf32>
    %1 = stablehlo.constant dense<300> : tensor<ui8>
    %2 = stablehlo.constant dense<"0x00112233"> : tensor<3xf32>
    %3 = stablehlo.constant dense<"0xZZ"> : tensor<1xi8>
    %4 = stablehlo.constant dense<1.5> : tensor<2xi32>
    %5 = stablehlo.constant dense<> : tensor<2xi32>
    %6 = stablehlo.constant dense_resource<weights> : tensor<2xf32>
    return %arg0 : tensor<4x8xf32>
  }
}
