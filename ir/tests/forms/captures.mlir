module @m {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<i32>) -> tensor<4xf32> {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.optimization_barrier %arg0, %arg1 : tensor<4xf32>, tensor<i32>
    %1:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<4xf32>
    cond {
      %2 = stablehlo.compare LT, %iterArg, %arg1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = "stablehlo.case"(%arg1) ({
        %3 = stablehlo.add %iterArg_0, %0#0 : tensor<4xf32>
        stablehlo.return %3 : tensor<4xf32>
      }, {
        stablehlo.return %arg0 : tensor<4xf32>
      }) : (tensor<i32>) -> tensor<4xf32>
      %4 = stablehlo.add %iterArg, %c : tensor<i32>
      stablehlo.return %4, %2 : tensor<i32>, tensor<4xf32>
    }
    return %1#1 : tensor<4xf32>
  }
}
