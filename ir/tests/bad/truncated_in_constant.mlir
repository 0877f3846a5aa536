module @m {
  func.func public @main() -> tensor<4xf32> {
    %cst = stablehlo.constant dense<[1.0, 2.0,