module @m {
  func.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xf32>, tensor<3xi8>) {
    %cst = stablehlo.constant dense_resource<w> : tensor<2xf32>
    %c = stablehlo.constant dense_resource<__elided_3> : tensor<3xi8>
    %0 = stablehlo.add %arg0, %cst : tensor<2xf32>
    return %0, %c : tensor<2xf32>, tensor<3xi8>
  }
}

{-#
  dialect_resources: {
    builtin: {
      w: "0x040000000000803F00000040",
      __elided_3: "0x01000000010203"
    }
  },
  external_resources: {
    mlir_reproducer: {
      disable_threading: true
    }
  }
#-}
