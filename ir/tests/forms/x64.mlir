module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf64>) -> (tensor<4x8xf64> {jax.result_info = "result[0]"}, tensor<3xi64> {jax.result_info = "result[1]"}, tensor<ui64> {jax.result_info = "result[2]"}, tensor<4x8xcomplex<f64>> {jax.result_info = "result[3]"}) {
    %cst = stablehlo.constant dense<2.500000e+00> : tensor<f64>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<4x8xf64>
    %1 = stablehlo.multiply %arg0, %0 : tensor<4x8xf64>
    %2 = stablehlo.iota dim = 0 : tensor<3xi64>
    %3 = stablehlo.convert %arg0 : (tensor<4x8xf64>) -> tensor<4x8xcomplex<f64>>
    %cst_0 = stablehlo.constant dense<(1.000000e+00,2.000000e+00)> : tensor<complex<f64>>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<complex<f64>>) -> tensor<4x8xcomplex<f64>>
    %5 = stablehlo.multiply %4, %3 : tensor<4x8xcomplex<f64>>
    %c = stablehlo.constant dense<9223372036854775813> : tensor<ui64>
    return %1, %2, %c, %5 : tensor<4x8xf64>, tensor<3xi64>, tensor<ui64>, tensor<4x8xcomplex<f64>>
  }
}
