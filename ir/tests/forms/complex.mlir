module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32>) -> (tensor<4x8xcomplex<f32>> {jax.result_info = "result[0]"}, tensor<4x8xcomplex<f32>> {jax.result_info = "result[1]"}, tensor<4x8xf32> {jax.result_info = "result[2]"}, tensor<4x8xf32> {jax.result_info = "result[3]"}, tensor<4x8xf32> {jax.result_info = "result[4]"}) {
    %0 = stablehlo.complex %arg0, %arg0 : tensor<4x8xcomplex<f32>>
    %1 = stablehlo.complex %arg0, %arg0 : tensor<4x8xcomplex<f32>>
    %2 = stablehlo.real %1 : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xf32>
    %3 = stablehlo.imag %1 : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xf32>
    %4 = stablehlo.negate %3 : tensor<4x8xf32>
    %5 = stablehlo.complex %2, %4 : tensor<4x8xcomplex<f32>>
    %6 = stablehlo.complex %arg0, %arg0 : tensor<4x8xcomplex<f32>>
    %7 = stablehlo.real %6 : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xf32>
    %8 = stablehlo.complex %arg0, %arg0 : tensor<4x8xcomplex<f32>>
    %9 = stablehlo.abs %8 : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xf32>
    %10 = stablehlo.complex %arg0, %arg0 : tensor<4x8xcomplex<f32>>
    %11 = call @angle(%10) : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xf32>
    return %0, %5, %7, %9, %11 : tensor<4x8xcomplex<f32>>, tensor<4x8xcomplex<f32>>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }
  func.func private @angle(%arg0: tensor<4x8xcomplex<f32>>) -> tensor<4x8xf32> {
    %0 = stablehlo.real %arg0 : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xf32>
    %1 = stablehlo.imag %arg0 : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xf32>
    %2 = stablehlo.atan2 %1, %0 : tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
}
