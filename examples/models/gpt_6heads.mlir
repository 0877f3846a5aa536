module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<48xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<48xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<192x48xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<48xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<48x48xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<48xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<48xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<48xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<48xf32> {tf.aliasing_output = 8 : i32}, %arg9: tensor<48x144xf32> {tf.aliasing_output = 9 : i32}, %arg10: tensor<48x192xf32> {tf.aliasing_output = 10 : i32}, %arg11: tensor<192xf32> {tf.aliasing_output = 11 : i32}, %arg12: tensor<16x48xf32> {tf.aliasing_output = 12 : i32}, %arg13: tensor<64x48xf32> {tf.aliasing_output = 13 : i32}, %arg14: tensor<48xf32> {tf.aliasing_output = 14 : i32}, %arg15: tensor<48xf32> {tf.aliasing_output = 15 : i32}, %arg16: tensor<192x48xf32> {tf.aliasing_output = 16 : i32}, %arg17: tensor<48xf32> {tf.aliasing_output = 17 : i32}, %arg18: tensor<48x48xf32> {tf.aliasing_output = 18 : i32}, %arg19: tensor<48xf32> {tf.aliasing_output = 19 : i32}, %arg20: tensor<48xf32> {tf.aliasing_output = 20 : i32}, %arg21: tensor<48xf32> {tf.aliasing_output = 21 : i32}, %arg22: tensor<48xf32> {tf.aliasing_output = 22 : i32}, %arg23: tensor<48x144xf32> {tf.aliasing_output = 23 : i32}, %arg24: tensor<48x192xf32> {tf.aliasing_output = 24 : i32}, %arg25: tensor<192xf32> {tf.aliasing_output = 25 : i32}, %arg26: tensor<16x48xf32> {tf.aliasing_output = 26 : i32}, %arg27: tensor<64x48xf32> {tf.aliasing_output = 27 : i32}, %arg28: tensor<48xf32> {tf.aliasing_output = 28 : i32}, %arg29: tensor<48xf32> {tf.aliasing_output = 29 : i32}, %arg30: tensor<192x48xf32> {tf.aliasing_output = 30 : i32}, %arg31: tensor<48xf32> {tf.aliasing_output = 31 : i32}, %arg32: tensor<48x48xf32> {tf.aliasing_output = 32 : i32}, %arg33: tensor<48xf32> {tf.aliasing_output = 33 : i32}, %arg34: tensor<48xf32> {tf.aliasing_output = 34 : i32}, %arg35: tensor<48xf32> {tf.aliasing_output = 35 : i32}, %arg36: tensor<48xf32> {tf.aliasing_output = 36 : i32}, %arg37: tensor<48x144xf32> {tf.aliasing_output = 37 : i32}, %arg38: tensor<48x192xf32> {tf.aliasing_output = 38 : i32}, %arg39: tensor<192xf32> {tf.aliasing_output = 39 : i32}, %arg40: tensor<16x48xf32> {tf.aliasing_output = 40 : i32}, %arg41: tensor<64x48xf32> {tf.aliasing_output = 41 : i32}, %arg42: tensor<f32> {tf.aliasing_output = 42 : i32}, %arg43: tensor<6x16xi32>, %arg44: tensor<6x16xi32>) -> (tensor<48xf32> {jax.result_info = "result[0]['final']['bias']"}, tensor<48xf32> {jax.result_info = "result[0]['final']['gain']"}, tensor<192x48xf32> {jax.result_info = "result[0]['layers'][0]['down']"}, tensor<48xf32> {jax.result_info = "result[0]['layers'][0]['down_bias']"}, tensor<48x48xf32> {jax.result_info = "result[0]['layers'][0]['mix']"}, tensor<48xf32> {jax.result_info = "result[0]['layers'][0]['norm1']['bias']"}, tensor<48xf32> {jax.result_info = "result[0]['layers'][0]['norm1']['gain']"}, tensor<48xf32> {jax.result_info = "result[0]['layers'][0]['norm2']['bias']"}, tensor<48xf32> {jax.result_info = "result[0]['layers'][0]['norm2']['gain']"}, tensor<48x144xf32> {jax.result_info = "result[0]['layers'][0]['qkv']"}, tensor<48x192xf32> {jax.result_info = "result[0]['layers'][0]['up']"}, tensor<192xf32> {jax.result_info = "result[0]['layers'][0]['up_bias']"}, tensor<16x48xf32> {jax.result_info = "result[0]['places']"}, tensor<64x48xf32> {jax.result_info = "result[0]['tokens']"}, tensor<48xf32> {jax.result_info = "result[1]['final']['bias']"}, tensor<48xf32> {jax.result_info = "result[1]['final']['gain']"}, tensor<192x48xf32> {jax.result_info = "result[1]['layers'][0]['down']"}, tensor<48xf32> {jax.result_info = "result[1]['layers'][0]['down_bias']"}, tensor<48x48xf32> {jax.result_info = "result[1]['layers'][0]['mix']"}, tensor<48xf32> {jax.result_info = "result[1]['layers'][0]['norm1']['bias']"}, tensor<48xf32> {jax.result_info = "result[1]['layers'][0]['norm1']['gain']"}, tensor<48xf32> {jax.result_info = "result[1]['layers'][0]['norm2']['bias']"}, tensor<48xf32> {jax.result_info = "result[1]['layers'][0]['norm2']['gain']"}, tensor<48x144xf32> {jax.result_info = "result[1]['layers'][0]['qkv']"}, tensor<48x192xf32> {jax.result_info = "result[1]['layers'][0]['up']"}, tensor<192xf32> {jax.result_info = "result[1]['layers'][0]['up_bias']"}, tensor<16x48xf32> {jax.result_info = "result[1]['places']"}, tensor<64x48xf32> {jax.result_info = "result[1]['tokens']"}, tensor<48xf32> {jax.result_info = "result[2]['final']['bias']"}, tensor<48xf32> {jax.result_info = "result[2]['final']['gain']"}, tensor<192x48xf32> {jax.result_info = "result[2]['layers'][0]['down']"}, tensor<48xf32> {jax.result_info = "result[2]['layers'][0]['down_bias']"}, tensor<48x48xf32> {jax.result_info = "result[2]['layers'][0]['mix']"}, tensor<48xf32> {jax.result_info = "result[2]['layers'][0]['norm1']['bias']"}, tensor<48xf32> {jax.result_info = "result[2]['layers'][0]['norm1']['gain']"}, tensor<48xf32> {jax.result_info = "result[2]['layers'][0]['norm2']['bias']"}, tensor<48xf32> {jax.result_info = "result[2]['layers'][0]['norm2']['gain']"}, tensor<48x144xf32> {jax.result_info = "result[2]['layers'][0]['qkv']"}, tensor<48x192xf32> {jax.result_info = "result[2]['layers'][0]['up']"}, tensor<192xf32> {jax.result_info = "result[2]['layers'][0]['up_bias']"}, tensor<16x48xf32> {jax.result_info = "result[2]['places']"}, tensor<64x48xf32> {jax.result_info = "result[2]['tokens']"}, tensor<f32> {jax.result_info = "result[3]"}, tensor<f32> {jax.result_info = "result[4]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<6x16xi32>
    %1 = stablehlo.compare LT, %arg43, %0, SIGNED : (tensor<6x16xi32>, tensor<6x16xi32>) -> tensor<6x16xi1>
    %c_0 = stablehlo.constant dense<64> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<6x16xi32>
    %3 = stablehlo.add %arg43, %2 : tensor<6x16xi32>
    %4 = stablehlo.select %1, %3, %arg43 : tensor<6x16xi1>, tensor<6x16xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<6x16xi32>) -> tensor<6x16x1xi32>
    %6 = "stablehlo.gather"(%arg13, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 48>}> : (tensor<64x48xf32>, tensor<6x16x1xi32>) -> tensor<6x16x48xf32>
    %7 = stablehlo.broadcast_in_dim %arg12, dims = [1, 2] : (tensor<16x48xf32>) -> tensor<1x16x48xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x16x48xf32>) -> tensor<6x16x48xf32>
    %9 = stablehlo.add %6, %8 : tensor<6x16x48xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<6x16xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %cst_1 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %13 = stablehlo.divide %11, %12 : tensor<6x16x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<6x16x1xf32>) -> tensor<6x16x48xf32>
    %15 = stablehlo.subtract %9, %14 : tensor<6x16x48xf32>
    %16 = stablehlo.multiply %15, %15 : tensor<6x16x48xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<6x16x48xf32>
    %18 = stablehlo.multiply %17, %15 : tensor<6x16x48xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.reduce(%16 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<6x16xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %cst_4 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %22 = stablehlo.divide %20, %21 : tensor<6x16x1xf32>
    %cst_5 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %24 = stablehlo.add %22, %23 : tensor<6x16x1xf32>
    %25 = stablehlo.rsqrt %24 : tensor<6x16x1xf32>
    %26 = stablehlo.divide %25, %24 : tensor<6x16x1xf32>
    %cst_6 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %28 = stablehlo.multiply %27, %26 : tensor<6x16x1xf32>
    %29 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<6x16x1xf32>) -> tensor<6x16x48xf32>
    %30 = stablehlo.multiply %15, %29 : tensor<6x16x48xf32>
    %31 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<6x16x48xf32>
    %33 = stablehlo.multiply %30, %32 : tensor<6x16x48xf32>
    %34 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<6x16x48xf32>
    %36 = stablehlo.add %33, %35 : tensor<6x16x48xf32>
    %37 = stablehlo.dot_general %36, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<6x16x48xf32>, tensor<48x144xf32>) -> tensor<6x16x144xf32>
    %38 = stablehlo.reshape %37 : (tensor<6x16x144xf32>) -> tensor<6x16x3x6x8xf32>
    %39 = stablehlo.slice %38 [0:6, 0:16, 0:1, 0:6, 0:8] : (tensor<6x16x3x6x8xf32>) -> tensor<6x16x1x6x8xf32>
    %40 = stablehlo.reshape %39 : (tensor<6x16x1x6x8xf32>) -> tensor<6x16x6x8xf32>
    %41 = stablehlo.slice %38 [0:6, 0:16, 1:2, 0:6, 0:8] : (tensor<6x16x3x6x8xf32>) -> tensor<6x16x1x6x8xf32>
    %42 = stablehlo.reshape %41 : (tensor<6x16x1x6x8xf32>) -> tensor<6x16x6x8xf32>
    %43 = stablehlo.slice %38 [0:6, 0:16, 2:3, 0:6, 0:8] : (tensor<6x16x3x6x8xf32>) -> tensor<6x16x1x6x8xf32>
    %44 = stablehlo.reshape %43 : (tensor<6x16x1x6x8xf32>) -> tensor<6x16x6x8xf32>
    %45 = stablehlo.dot_general %40, %42, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<6x16x6x8xf32>, tensor<6x16x6x8xf32>) -> tensor<6x6x16x16xf32>
    %cst_7 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<6x6x16x16xf32>
    %47 = stablehlo.divide %45, %46 : tensor<6x6x16x16xf32>
    %48 = stablehlo.iota dim = 0 : tensor<16xi32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %50 = stablehlo.iota dim = 0 : tensor<16xi32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [1] : (tensor<16xi32>) -> tensor<1x16xi32>
    %52 = stablehlo.broadcast_in_dim %49, dims = [0, 1] : (tensor<16x1xi32>) -> tensor<16x16xi32>
    %53 = stablehlo.broadcast_in_dim %51, dims = [0, 1] : (tensor<1x16xi32>) -> tensor<16x16xi32>
    %54 = stablehlo.compare GE, %52, %53, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
    %cst_8 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %55:2 = call @_where(%54, %47, %cst_8) : (tensor<16x16xi1>, tensor<6x6x16x16xf32>, tensor<f32>) -> (tensor<6x6x16x16xf32>, tensor<6x6x16x16xi1>)
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %56 = stablehlo.reduce(%55#0 init: %cst_9) applies stablehlo.maximum across dimensions = [3] : (tensor<6x6x16x16xf32>, tensor<f32>) -> tensor<6x6x16xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<6x6x16xf32>
    %58 = stablehlo.maximum %57, %56 : tensor<6x6x16xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2] : (tensor<6x6x16xf32>) -> tensor<6x6x16x1xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1, 2, 3] : (tensor<6x6x16x1xf32>) -> tensor<6x6x16x16xf32>
    %61 = stablehlo.subtract %55#0, %60 : tensor<6x6x16x16xf32>
    %62 = stablehlo.exponential %61 : tensor<6x6x16x16xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %63 = stablehlo.reduce(%62 init: %cst_11) applies stablehlo.add across dimensions = [3] : (tensor<6x6x16x16xf32>, tensor<f32>) -> tensor<6x6x16xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2] : (tensor<6x6x16xf32>) -> tensor<6x6x16x1xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2, 3] : (tensor<6x6x16x1xf32>) -> tensor<6x6x16x16xf32>
    %66 = stablehlo.divide %62, %65 : tensor<6x6x16x16xf32>
    %67 = stablehlo.multiply %64, %64 : tensor<6x6x16x1xf32>
    %cst_12 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %68 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<6x6x16x1xf32>
    %69 = stablehlo.divide %68, %67 : tensor<6x6x16x1xf32>
    %70 = stablehlo.dot_general %44, %66, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<6x16x6x8xf32>, tensor<6x6x16x16xf32>) -> tensor<6x6x8x16xf32>
    %71 = stablehlo.transpose %70, dims = [0, 3, 1, 2] : (tensor<6x6x8x16xf32>) -> tensor<6x16x6x8xf32>
    %72 = stablehlo.reshape %71 : (tensor<6x16x6x8xf32>) -> tensor<6x16x48xf32>
    %73 = stablehlo.dot_general %72, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<6x16x48xf32>, tensor<48x48xf32>) -> tensor<6x16x48xf32>
    %74 = stablehlo.add %9, %73 : tensor<6x16x48xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %75 = stablehlo.reduce(%74 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<6x16xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %cst_14 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %77 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %78 = stablehlo.divide %76, %77 : tensor<6x16x1xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2] : (tensor<6x16x1xf32>) -> tensor<6x16x48xf32>
    %80 = stablehlo.subtract %74, %79 : tensor<6x16x48xf32>
    %81 = stablehlo.multiply %80, %80 : tensor<6x16x48xf32>
    %cst_15 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %82 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<6x16x48xf32>
    %83 = stablehlo.multiply %82, %80 : tensor<6x16x48xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %84 = stablehlo.reduce(%81 init: %cst_16) applies stablehlo.add across dimensions = [2] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<6x16xf32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %cst_17 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %86 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %87 = stablehlo.divide %85, %86 : tensor<6x16x1xf32>
    %cst_18 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %88 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %89 = stablehlo.add %87, %88 : tensor<6x16x1xf32>
    %90 = stablehlo.rsqrt %89 : tensor<6x16x1xf32>
    %91 = stablehlo.divide %90, %89 : tensor<6x16x1xf32>
    %cst_19 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %92 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %93 = stablehlo.multiply %92, %91 : tensor<6x16x1xf32>
    %94 = stablehlo.broadcast_in_dim %90, dims = [0, 1, 2] : (tensor<6x16x1xf32>) -> tensor<6x16x48xf32>
    %95 = stablehlo.multiply %80, %94 : tensor<6x16x48xf32>
    %96 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<6x16x48xf32>
    %98 = stablehlo.multiply %95, %97 : tensor<6x16x48xf32>
    %99 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<6x16x48xf32>
    %101 = stablehlo.add %98, %100 : tensor<6x16x48xf32>
    %102 = stablehlo.dot_general %101, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<6x16x48xf32>, tensor<48x192xf32>) -> tensor<6x16x192xf32>
    %103 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<192xf32>) -> tensor<1x1x192xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2] : (tensor<1x1x192xf32>) -> tensor<6x16x192xf32>
    %105 = stablehlo.add %102, %104 : tensor<6x16x192xf32>
    %106 = stablehlo.multiply %105, %105 : tensor<6x16x192xf32>
    %107 = stablehlo.multiply %106, %105 : tensor<6x16x192xf32>
    %108 = stablehlo.multiply %105, %105 : tensor<6x16x192xf32>
    %cst_20 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %109 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<6x16x192xf32>
    %110 = stablehlo.multiply %109, %108 : tensor<6x16x192xf32>
    %cst_21 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %111 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<6x16x192xf32>
    %112 = stablehlo.multiply %111, %107 : tensor<6x16x192xf32>
    %113 = stablehlo.add %105, %112 : tensor<6x16x192xf32>
    %cst_22 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %114 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<6x16x192xf32>
    %115 = stablehlo.multiply %114, %113 : tensor<6x16x192xf32>
    %116 = stablehlo.tanh %115 : tensor<6x16x192xf32>
    %cst_23 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %117 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<6x16x192xf32>
    %118 = stablehlo.subtract %117, %116 : tensor<6x16x192xf32>
    %cst_24 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %119 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<6x16x192xf32>
    %120 = stablehlo.add %119, %116 : tensor<6x16x192xf32>
    %cst_25 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<6x16x192xf32>
    %122 = stablehlo.multiply %121, %120 : tensor<6x16x192xf32>
    %123 = stablehlo.multiply %105, %122 : tensor<6x16x192xf32>
    %124 = stablehlo.dot_general %123, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<6x16x192xf32>, tensor<192x48xf32>) -> tensor<6x16x48xf32>
    %125 = stablehlo.add %74, %124 : tensor<6x16x48xf32>
    %126 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %127 = stablehlo.broadcast_in_dim %126, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<6x16x48xf32>
    %128 = stablehlo.add %125, %127 : tensor<6x16x48xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %129 = stablehlo.reduce(%128 init: %cst_26) applies stablehlo.add across dimensions = [2] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<6x16xf32>
    %130 = stablehlo.broadcast_in_dim %129, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %cst_27 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %131 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %132 = stablehlo.divide %130, %131 : tensor<6x16x1xf32>
    %133 = stablehlo.broadcast_in_dim %132, dims = [0, 1, 2] : (tensor<6x16x1xf32>) -> tensor<6x16x48xf32>
    %134 = stablehlo.subtract %128, %133 : tensor<6x16x48xf32>
    %135 = stablehlo.multiply %134, %134 : tensor<6x16x48xf32>
    %cst_28 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %136 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<6x16x48xf32>
    %137 = stablehlo.multiply %136, %134 : tensor<6x16x48xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %138 = stablehlo.reduce(%135 init: %cst_29) applies stablehlo.add across dimensions = [2] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<6x16xf32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %cst_30 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %140 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %141 = stablehlo.divide %139, %140 : tensor<6x16x1xf32>
    %cst_31 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %142 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %143 = stablehlo.add %141, %142 : tensor<6x16x1xf32>
    %144 = stablehlo.rsqrt %143 : tensor<6x16x1xf32>
    %145 = stablehlo.divide %144, %143 : tensor<6x16x1xf32>
    %cst_32 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %146 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %147 = stablehlo.multiply %146, %145 : tensor<6x16x1xf32>
    %148 = stablehlo.broadcast_in_dim %144, dims = [0, 1, 2] : (tensor<6x16x1xf32>) -> tensor<6x16x48xf32>
    %149 = stablehlo.multiply %134, %148 : tensor<6x16x48xf32>
    %150 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %151 = stablehlo.broadcast_in_dim %150, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<6x16x48xf32>
    %152 = stablehlo.multiply %149, %151 : tensor<6x16x48xf32>
    %153 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %154 = stablehlo.broadcast_in_dim %153, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<6x16x48xf32>
    %155 = stablehlo.add %152, %154 : tensor<6x16x48xf32>
    %156 = stablehlo.transpose %arg13, dims = [1, 0] : (tensor<64x48xf32>) -> tensor<48x64xf32>
    %157 = stablehlo.dot_general %155, %156, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<6x16x48xf32>, tensor<48x64xf32>) -> tensor<6x16x64xf32>
    %158:3 = call @log_softmax(%157) : (tensor<6x16x64xf32>) -> (tensor<6x16x64xf32>, tensor<6x16x64xf32>, tensor<6x16x1xf32>)
    %159 = stablehlo.broadcast_in_dim %arg44, dims = [0, 1] : (tensor<6x16xi32>) -> tensor<6x16x1xi32>
    %160:2 = call @take_along_axis(%158#0, %159) : (tensor<6x16x64xf32>, tensor<6x16x1xi32>) -> (tensor<6x16x1xf32>, tensor<6x16x1x1xi32>)
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %161 = stablehlo.reduce(%160#0 init: %cst_33) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<6x16x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_34 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
    %162 = stablehlo.divide %161, %cst_34 : tensor<f32>
    %163 = stablehlo.negate %162 : tensor<f32>
    %cst_35 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %164 = stablehlo.negate %cst_35 : tensor<f32>
    %cst_36 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
    %165 = stablehlo.divide %164, %cst_36 : tensor<f32>
    %166 = stablehlo.broadcast_in_dim %165, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %167 = call @take_along_axis_0(%160#1, %166) : (tensor<6x16x1x1xi32>, tensor<6x16x1xf32>) -> tensor<6x16x64xf32>
    %168 = call @log_softmax_1(%158#1, %158#2, %167) : (tensor<6x16x64xf32>, tensor<6x16x1xf32>, tensor<6x16x64xf32>) -> tensor<6x16x64xf32>
    %169 = stablehlo.dot_general %168, %155, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<6x16x64xf32>, tensor<6x16x48xf32>) -> tensor<64x48xf32>
    %170 = stablehlo.transpose %169, dims = [1, 0] : (tensor<64x48xf32>) -> tensor<48x64xf32>
    %171 = stablehlo.dot_general %168, %156, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<6x16x64xf32>, tensor<48x64xf32>) -> tensor<6x16x48xf32>
    %172 = stablehlo.transpose %170, dims = [1, 0] : (tensor<48x64xf32>) -> tensor<64x48xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %173 = stablehlo.reduce(%171 init: %cst_37) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<48xf32>
    %174 = stablehlo.reshape %173 : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %175 = stablehlo.reduce(%174 init: %cst_38) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x48xf32>, tensor<f32>) -> tensor<48xf32>
    %176 = stablehlo.multiply %149, %171 : tensor<6x16x48xf32>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %177 = stablehlo.reduce(%176 init: %cst_39) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<48xf32>
    %178 = stablehlo.reshape %177 : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %179 = stablehlo.broadcast_in_dim %150, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<6x16x48xf32>
    %180 = stablehlo.multiply %171, %179 : tensor<6x16x48xf32>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %181 = stablehlo.reduce(%178 init: %cst_40) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x48xf32>, tensor<f32>) -> tensor<48xf32>
    %182 = stablehlo.multiply %134, %180 : tensor<6x16x48xf32>
    %cst_41 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %183 = stablehlo.reduce(%182 init: %cst_41) applies stablehlo.add across dimensions = [2] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<6x16xf32>
    %184 = stablehlo.reshape %183 : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %185 = stablehlo.broadcast_in_dim %144, dims = [0, 1, 2] : (tensor<6x16x1xf32>) -> tensor<6x16x48xf32>
    %186 = stablehlo.multiply %180, %185 : tensor<6x16x48xf32>
    %187 = stablehlo.multiply %184, %147 : tensor<6x16x1xf32>
    %cst_42 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %188 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %189 = stablehlo.divide %187, %188 : tensor<6x16x1xf32>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %190 = stablehlo.reduce(%189 init: %cst_43) applies stablehlo.add across dimensions = [2] : (tensor<6x16x1xf32>, tensor<f32>) -> tensor<6x16xf32>
    %191 = stablehlo.broadcast_in_dim %190, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x48xf32>
    %192 = stablehlo.multiply %191, %137 : tensor<6x16x48xf32>
    %193 = stablehlo.add %186, %192 : tensor<6x16x48xf32>
    %194 = stablehlo.negate %193 : tensor<6x16x48xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %195 = stablehlo.reduce(%194 init: %cst_44) applies stablehlo.add across dimensions = [2] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<6x16xf32>
    %196 = stablehlo.reshape %195 : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %cst_45 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %197 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %198 = stablehlo.divide %196, %197 : tensor<6x16x1xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %199 = stablehlo.reduce(%198 init: %cst_46) applies stablehlo.add across dimensions = [2] : (tensor<6x16x1xf32>, tensor<f32>) -> tensor<6x16xf32>
    %200 = stablehlo.broadcast_in_dim %199, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x48xf32>
    %201 = stablehlo.add %193, %200 : tensor<6x16x48xf32>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %202 = stablehlo.reduce(%201 init: %cst_47) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<48xf32>
    %203 = stablehlo.reshape %202 : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %204 = stablehlo.reduce(%203 init: %cst_48) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x48xf32>, tensor<f32>) -> tensor<48xf32>
    %205 = stablehlo.dot_general %201, %123, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<6x16x48xf32>, tensor<6x16x192xf32>) -> tensor<48x192xf32>
    %206 = stablehlo.transpose %205, dims = [1, 0] : (tensor<48x192xf32>) -> tensor<192x48xf32>
    %207 = stablehlo.dot_general %201, %arg2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<6x16x48xf32>, tensor<192x48xf32>) -> tensor<6x16x192xf32>
    %208 = stablehlo.multiply %105, %207 : tensor<6x16x192xf32>
    %209 = stablehlo.multiply %207, %122 : tensor<6x16x192xf32>
    %cst_49 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %210 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<6x16x192xf32>
    %211 = stablehlo.multiply %210, %208 : tensor<6x16x192xf32>
    %212 = stablehlo.multiply %211, %118 : tensor<6x16x192xf32>
    %213 = stablehlo.multiply %212, %116 : tensor<6x16x192xf32>
    %214 = stablehlo.add %212, %213 : tensor<6x16x192xf32>
    %cst_50 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %215 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<6x16x192xf32>
    %216 = stablehlo.multiply %215, %214 : tensor<6x16x192xf32>
    %217 = stablehlo.add %209, %216 : tensor<6x16x192xf32>
    %cst_51 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %218 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<6x16x192xf32>
    %219 = stablehlo.multiply %218, %216 : tensor<6x16x192xf32>
    %220 = stablehlo.multiply %219, %110 : tensor<6x16x192xf32>
    %221 = stablehlo.add %217, %220 : tensor<6x16x192xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %222 = stablehlo.reduce(%221 init: %cst_52) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x16x192xf32>, tensor<f32>) -> tensor<192xf32>
    %223 = stablehlo.reshape %222 : (tensor<192xf32>) -> tensor<1x1x192xf32>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %224 = stablehlo.reduce(%223 init: %cst_53) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x192xf32>, tensor<f32>) -> tensor<192xf32>
    %225 = stablehlo.dot_general %221, %101, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<6x16x192xf32>, tensor<6x16x48xf32>) -> tensor<192x48xf32>
    %226 = stablehlo.transpose %225, dims = [1, 0] : (tensor<192x48xf32>) -> tensor<48x192xf32>
    %227 = stablehlo.dot_general %221, %arg10, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<6x16x192xf32>, tensor<48x192xf32>) -> tensor<6x16x48xf32>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %228 = stablehlo.reduce(%227 init: %cst_54) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<48xf32>
    %229 = stablehlo.reshape %228 : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %230 = stablehlo.reduce(%229 init: %cst_55) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x48xf32>, tensor<f32>) -> tensor<48xf32>
    %231 = stablehlo.multiply %95, %227 : tensor<6x16x48xf32>
    %cst_56 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %232 = stablehlo.reduce(%231 init: %cst_56) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<48xf32>
    %233 = stablehlo.reshape %232 : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %234 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<6x16x48xf32>
    %235 = stablehlo.multiply %227, %234 : tensor<6x16x48xf32>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %236 = stablehlo.reduce(%233 init: %cst_57) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x48xf32>, tensor<f32>) -> tensor<48xf32>
    %237 = stablehlo.multiply %80, %235 : tensor<6x16x48xf32>
    %cst_58 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %238 = stablehlo.reduce(%237 init: %cst_58) applies stablehlo.add across dimensions = [2] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<6x16xf32>
    %239 = stablehlo.reshape %238 : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %240 = stablehlo.broadcast_in_dim %90, dims = [0, 1, 2] : (tensor<6x16x1xf32>) -> tensor<6x16x48xf32>
    %241 = stablehlo.multiply %235, %240 : tensor<6x16x48xf32>
    %242 = stablehlo.multiply %239, %93 : tensor<6x16x1xf32>
    %cst_59 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %243 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %244 = stablehlo.divide %242, %243 : tensor<6x16x1xf32>
    %cst_60 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %245 = stablehlo.reduce(%244 init: %cst_60) applies stablehlo.add across dimensions = [2] : (tensor<6x16x1xf32>, tensor<f32>) -> tensor<6x16xf32>
    %246 = stablehlo.broadcast_in_dim %245, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x48xf32>
    %247 = stablehlo.multiply %246, %83 : tensor<6x16x48xf32>
    %248 = stablehlo.add %241, %247 : tensor<6x16x48xf32>
    %249 = stablehlo.negate %248 : tensor<6x16x48xf32>
    %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %250 = stablehlo.reduce(%249 init: %cst_61) applies stablehlo.add across dimensions = [2] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<6x16xf32>
    %251 = stablehlo.reshape %250 : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %252 = stablehlo.add %201, %248 : tensor<6x16x48xf32>
    %cst_62 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %253 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %254 = stablehlo.divide %251, %253 : tensor<6x16x1xf32>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %255 = stablehlo.reduce(%254 init: %cst_63) applies stablehlo.add across dimensions = [2] : (tensor<6x16x1xf32>, tensor<f32>) -> tensor<6x16xf32>
    %256 = stablehlo.broadcast_in_dim %255, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x48xf32>
    %257 = stablehlo.add %252, %256 : tensor<6x16x48xf32>
    %258 = stablehlo.dot_general %257, %72, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<6x16x48xf32>, tensor<6x16x48xf32>) -> tensor<48x48xf32>
    %259 = stablehlo.transpose %258, dims = [1, 0] : (tensor<48x48xf32>) -> tensor<48x48xf32>
    %260 = stablehlo.dot_general %257, %arg4, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<6x16x48xf32>, tensor<48x48xf32>) -> tensor<6x16x48xf32>
    %261 = stablehlo.reshape %260 : (tensor<6x16x48xf32>) -> tensor<6x16x6x8xf32>
    %262 = stablehlo.transpose %261, dims = [0, 2, 3, 1] : (tensor<6x16x6x8xf32>) -> tensor<6x6x8x16xf32>
    %263 = stablehlo.dot_general %262, %44, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<6x6x8x16xf32>, tensor<6x16x6x8xf32>) -> tensor<6x6x16x16xf32>
    %264 = stablehlo.dot_general %262, %66, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<6x6x8x16xf32>, tensor<6x6x16x16xf32>) -> tensor<6x6x8x16xf32>
    %265 = stablehlo.transpose %264, dims = [0, 3, 1, 2] : (tensor<6x6x8x16xf32>) -> tensor<6x16x6x8xf32>
    %266 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2, 3] : (tensor<6x6x16x1xf32>) -> tensor<6x6x16x16xf32>
    %267 = stablehlo.multiply %263, %266 : tensor<6x6x16x16xf32>
    %268 = stablehlo.multiply %267, %62 : tensor<6x6x16x16xf32>
    %cst_64 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %269 = stablehlo.reduce(%268 init: %cst_64) applies stablehlo.add across dimensions = [3] : (tensor<6x6x16x16xf32>, tensor<f32>) -> tensor<6x6x16xf32>
    %270 = stablehlo.reshape %269 : (tensor<6x6x16xf32>) -> tensor<6x6x16x1xf32>
    %271 = stablehlo.negate %270 : tensor<6x6x16x1xf32>
    %272 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2, 3] : (tensor<6x6x16x1xf32>) -> tensor<6x6x16x16xf32>
    %273 = stablehlo.divide %263, %272 : tensor<6x6x16x16xf32>
    %cst_65 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %274 = stablehlo.reduce(%271 init: %cst_65) applies stablehlo.add across dimensions = [3] : (tensor<6x6x16x1xf32>, tensor<f32>) -> tensor<6x6x16xf32>
    %275 = stablehlo.broadcast_in_dim %274, dims = [0, 1, 2] : (tensor<6x6x16xf32>) -> tensor<6x6x16x16xf32>
    %276 = stablehlo.add %273, %275 : tensor<6x6x16x16xf32>
    %277 = stablehlo.multiply %276, %62 : tensor<6x6x16x16xf32>
    %278 = call @_where_2(%55#1, %277) : (tensor<6x6x16x16xi1>, tensor<6x6x16x16xf32>) -> tensor<6x6x16x16xf32>
    %cst_66 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %279 = stablehlo.broadcast_in_dim %cst_66, dims = [] : (tensor<f32>) -> tensor<6x6x16x16xf32>
    %280 = stablehlo.divide %278, %279 : tensor<6x6x16x16xf32>
    %281 = stablehlo.dot_general %280, %40, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<6x6x16x16xf32>, tensor<6x16x6x8xf32>) -> tensor<6x6x16x8xf32>
    %282 = stablehlo.transpose %281, dims = [0, 2, 1, 3] : (tensor<6x6x16x8xf32>) -> tensor<6x16x6x8xf32>
    %283 = stablehlo.dot_general %280, %42, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<6x6x16x16xf32>, tensor<6x16x6x8xf32>) -> tensor<6x6x16x8xf32>
    %284 = stablehlo.transpose %283, dims = [0, 2, 1, 3] : (tensor<6x6x16x8xf32>) -> tensor<6x16x6x8xf32>
    %285 = stablehlo.broadcast_in_dim %265, dims = [0, 1, 3, 4] : (tensor<6x16x6x8xf32>) -> tensor<6x16x1x6x8xf32>
    %cst_67 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %286 = stablehlo.pad %285, %cst_67, low = [0, 0, 2, 0, 0], high = [0, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<6x16x1x6x8xf32>, tensor<f32>) -> tensor<6x16x3x6x8xf32>
    %287 = stablehlo.broadcast_in_dim %282, dims = [0, 1, 3, 4] : (tensor<6x16x6x8xf32>) -> tensor<6x16x1x6x8xf32>
    %cst_68 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %288 = stablehlo.pad %287, %cst_68, low = [0, 0, 1, 0, 0], high = [0, 0, 1, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<6x16x1x6x8xf32>, tensor<f32>) -> tensor<6x16x3x6x8xf32>
    %289 = stablehlo.add %286, %288 : tensor<6x16x3x6x8xf32>
    %290 = stablehlo.broadcast_in_dim %284, dims = [0, 1, 3, 4] : (tensor<6x16x6x8xf32>) -> tensor<6x16x1x6x8xf32>
    %cst_69 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %291 = stablehlo.pad %290, %cst_69, low = [0, 0, 0, 0, 0], high = [0, 0, 2, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<6x16x1x6x8xf32>, tensor<f32>) -> tensor<6x16x3x6x8xf32>
    %292 = stablehlo.add %289, %291 : tensor<6x16x3x6x8xf32>
    %293 = stablehlo.reshape %292 : (tensor<6x16x3x6x8xf32>) -> tensor<6x16x144xf32>
    %294 = stablehlo.dot_general %293, %36, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<6x16x144xf32>, tensor<6x16x48xf32>) -> tensor<144x48xf32>
    %295 = stablehlo.transpose %294, dims = [1, 0] : (tensor<144x48xf32>) -> tensor<48x144xf32>
    %296 = stablehlo.dot_general %293, %arg9, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<6x16x144xf32>, tensor<48x144xf32>) -> tensor<6x16x48xf32>
    %cst_70 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %297 = stablehlo.reduce(%296 init: %cst_70) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<48xf32>
    %298 = stablehlo.reshape %297 : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %cst_71 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %299 = stablehlo.reduce(%298 init: %cst_71) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x48xf32>, tensor<f32>) -> tensor<48xf32>
    %300 = stablehlo.multiply %30, %296 : tensor<6x16x48xf32>
    %cst_72 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %301 = stablehlo.reduce(%300 init: %cst_72) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<48xf32>
    %302 = stablehlo.reshape %301 : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %303 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<6x16x48xf32>
    %304 = stablehlo.multiply %296, %303 : tensor<6x16x48xf32>
    %cst_73 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %305 = stablehlo.reduce(%302 init: %cst_73) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x48xf32>, tensor<f32>) -> tensor<48xf32>
    %306 = stablehlo.multiply %15, %304 : tensor<6x16x48xf32>
    %cst_74 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %307 = stablehlo.reduce(%306 init: %cst_74) applies stablehlo.add across dimensions = [2] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<6x16xf32>
    %308 = stablehlo.reshape %307 : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %309 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<6x16x1xf32>) -> tensor<6x16x48xf32>
    %310 = stablehlo.multiply %304, %309 : tensor<6x16x48xf32>
    %311 = stablehlo.multiply %308, %28 : tensor<6x16x1xf32>
    %cst_75 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %312 = stablehlo.broadcast_in_dim %cst_75, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %313 = stablehlo.divide %311, %312 : tensor<6x16x1xf32>
    %cst_76 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %314 = stablehlo.reduce(%313 init: %cst_76) applies stablehlo.add across dimensions = [2] : (tensor<6x16x1xf32>, tensor<f32>) -> tensor<6x16xf32>
    %315 = stablehlo.broadcast_in_dim %314, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x48xf32>
    %316 = stablehlo.multiply %315, %18 : tensor<6x16x48xf32>
    %317 = stablehlo.add %310, %316 : tensor<6x16x48xf32>
    %318 = stablehlo.negate %317 : tensor<6x16x48xf32>
    %cst_77 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %319 = stablehlo.reduce(%318 init: %cst_77) applies stablehlo.add across dimensions = [2] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<6x16xf32>
    %320 = stablehlo.reshape %319 : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %321 = stablehlo.add %257, %317 : tensor<6x16x48xf32>
    %cst_78 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %322 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %323 = stablehlo.divide %320, %322 : tensor<6x16x1xf32>
    %cst_79 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %324 = stablehlo.reduce(%323 init: %cst_79) applies stablehlo.add across dimensions = [2] : (tensor<6x16x1xf32>, tensor<f32>) -> tensor<6x16xf32>
    %325 = stablehlo.broadcast_in_dim %324, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x48xf32>
    %326 = stablehlo.add %321, %325 : tensor<6x16x48xf32>
    %cst_80 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %327 = stablehlo.reduce(%326 init: %cst_80) applies stablehlo.add across dimensions = [0] : (tensor<6x16x48xf32>, tensor<f32>) -> tensor<16x48xf32>
    %328 = stablehlo.reshape %327 : (tensor<16x48xf32>) -> tensor<1x16x48xf32>
    %cst_81 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %329 = stablehlo.reduce(%328 init: %cst_81) applies stablehlo.add across dimensions = [0] : (tensor<1x16x48xf32>, tensor<f32>) -> tensor<16x48xf32>
    %cst_82 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %330 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<64x48xf32>
    %331 = "stablehlo.scatter"(%330, %5, %326) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg45: tensor<f32>, %arg46: tensor<f32>):
      %646 = stablehlo.add %arg45, %arg46 : tensor<f32>
      stablehlo.return %646 : tensor<f32>
    }) : (tensor<64x48xf32>, tensor<6x16x1xi32>, tensor<6x16x48xf32>) -> tensor<64x48xf32>
    %332 = stablehlo.add %172, %331 : tensor<64x48xf32>
    %cst_83 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %333 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %334 = stablehlo.multiply %333, %arg14 : tensor<48xf32>
    %cst_84 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %335 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %336 = stablehlo.multiply %335, %175 : tensor<48xf32>
    %337 = stablehlo.add %334, %336 : tensor<48xf32>
    %cst_85 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %338 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %339 = stablehlo.multiply %338, %arg15 : tensor<48xf32>
    %cst_86 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %340 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %341 = stablehlo.multiply %340, %181 : tensor<48xf32>
    %342 = stablehlo.add %339, %341 : tensor<48xf32>
    %cst_87 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %343 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<192x48xf32>
    %344 = stablehlo.multiply %343, %arg16 : tensor<192x48xf32>
    %cst_88 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %345 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<192x48xf32>
    %346 = stablehlo.multiply %345, %206 : tensor<192x48xf32>
    %347 = stablehlo.add %344, %346 : tensor<192x48xf32>
    %cst_89 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %348 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %349 = stablehlo.multiply %348, %arg17 : tensor<48xf32>
    %cst_90 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %350 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %351 = stablehlo.multiply %350, %204 : tensor<48xf32>
    %352 = stablehlo.add %349, %351 : tensor<48xf32>
    %cst_91 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %353 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<48x48xf32>
    %354 = stablehlo.multiply %353, %arg18 : tensor<48x48xf32>
    %cst_92 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %355 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<48x48xf32>
    %356 = stablehlo.multiply %355, %259 : tensor<48x48xf32>
    %357 = stablehlo.add %354, %356 : tensor<48x48xf32>
    %cst_93 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %358 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %359 = stablehlo.multiply %358, %arg19 : tensor<48xf32>
    %cst_94 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %360 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %361 = stablehlo.multiply %360, %299 : tensor<48xf32>
    %362 = stablehlo.add %359, %361 : tensor<48xf32>
    %cst_95 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %363 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %364 = stablehlo.multiply %363, %arg20 : tensor<48xf32>
    %cst_96 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %365 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %366 = stablehlo.multiply %365, %305 : tensor<48xf32>
    %367 = stablehlo.add %364, %366 : tensor<48xf32>
    %cst_97 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %368 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %369 = stablehlo.multiply %368, %arg21 : tensor<48xf32>
    %cst_98 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %370 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %371 = stablehlo.multiply %370, %230 : tensor<48xf32>
    %372 = stablehlo.add %369, %371 : tensor<48xf32>
    %cst_99 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %373 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %374 = stablehlo.multiply %373, %arg22 : tensor<48xf32>
    %cst_100 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %375 = stablehlo.broadcast_in_dim %cst_100, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %376 = stablehlo.multiply %375, %236 : tensor<48xf32>
    %377 = stablehlo.add %374, %376 : tensor<48xf32>
    %cst_101 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %378 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<48x144xf32>
    %379 = stablehlo.multiply %378, %arg23 : tensor<48x144xf32>
    %cst_102 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %380 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<48x144xf32>
    %381 = stablehlo.multiply %380, %295 : tensor<48x144xf32>
    %382 = stablehlo.add %379, %381 : tensor<48x144xf32>
    %cst_103 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %383 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<48x192xf32>
    %384 = stablehlo.multiply %383, %arg24 : tensor<48x192xf32>
    %cst_104 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %385 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<48x192xf32>
    %386 = stablehlo.multiply %385, %226 : tensor<48x192xf32>
    %387 = stablehlo.add %384, %386 : tensor<48x192xf32>
    %cst_105 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %388 = stablehlo.broadcast_in_dim %cst_105, dims = [] : (tensor<f32>) -> tensor<192xf32>
    %389 = stablehlo.multiply %388, %arg25 : tensor<192xf32>
    %cst_106 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %390 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<192xf32>
    %391 = stablehlo.multiply %390, %224 : tensor<192xf32>
    %392 = stablehlo.add %389, %391 : tensor<192xf32>
    %cst_107 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %393 = stablehlo.broadcast_in_dim %cst_107, dims = [] : (tensor<f32>) -> tensor<16x48xf32>
    %394 = stablehlo.multiply %393, %arg26 : tensor<16x48xf32>
    %cst_108 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %395 = stablehlo.broadcast_in_dim %cst_108, dims = [] : (tensor<f32>) -> tensor<16x48xf32>
    %396 = stablehlo.multiply %395, %329 : tensor<16x48xf32>
    %397 = stablehlo.add %394, %396 : tensor<16x48xf32>
    %cst_109 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %398 = stablehlo.broadcast_in_dim %cst_109, dims = [] : (tensor<f32>) -> tensor<64x48xf32>
    %399 = stablehlo.multiply %398, %arg27 : tensor<64x48xf32>
    %cst_110 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %400 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<64x48xf32>
    %401 = stablehlo.multiply %400, %332 : tensor<64x48xf32>
    %402 = stablehlo.add %399, %401 : tensor<64x48xf32>
    %cst_111 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %403 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %404 = stablehlo.multiply %403, %arg28 : tensor<48xf32>
    %cst_112 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %405 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %406 = stablehlo.multiply %405, %175 : tensor<48xf32>
    %407 = stablehlo.multiply %406, %175 : tensor<48xf32>
    %408 = stablehlo.add %404, %407 : tensor<48xf32>
    %cst_113 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %409 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %410 = stablehlo.multiply %409, %arg29 : tensor<48xf32>
    %cst_114 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %411 = stablehlo.broadcast_in_dim %cst_114, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %412 = stablehlo.multiply %411, %181 : tensor<48xf32>
    %413 = stablehlo.multiply %412, %181 : tensor<48xf32>
    %414 = stablehlo.add %410, %413 : tensor<48xf32>
    %cst_115 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %415 = stablehlo.broadcast_in_dim %cst_115, dims = [] : (tensor<f32>) -> tensor<192x48xf32>
    %416 = stablehlo.multiply %415, %arg30 : tensor<192x48xf32>
    %cst_116 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %417 = stablehlo.broadcast_in_dim %cst_116, dims = [] : (tensor<f32>) -> tensor<192x48xf32>
    %418 = stablehlo.multiply %417, %206 : tensor<192x48xf32>
    %419 = stablehlo.multiply %418, %206 : tensor<192x48xf32>
    %420 = stablehlo.add %416, %419 : tensor<192x48xf32>
    %cst_117 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %421 = stablehlo.broadcast_in_dim %cst_117, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %422 = stablehlo.multiply %421, %arg31 : tensor<48xf32>
    %cst_118 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %423 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %424 = stablehlo.multiply %423, %204 : tensor<48xf32>
    %425 = stablehlo.multiply %424, %204 : tensor<48xf32>
    %426 = stablehlo.add %422, %425 : tensor<48xf32>
    %cst_119 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %427 = stablehlo.broadcast_in_dim %cst_119, dims = [] : (tensor<f32>) -> tensor<48x48xf32>
    %428 = stablehlo.multiply %427, %arg32 : tensor<48x48xf32>
    %cst_120 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %429 = stablehlo.broadcast_in_dim %cst_120, dims = [] : (tensor<f32>) -> tensor<48x48xf32>
    %430 = stablehlo.multiply %429, %259 : tensor<48x48xf32>
    %431 = stablehlo.multiply %430, %259 : tensor<48x48xf32>
    %432 = stablehlo.add %428, %431 : tensor<48x48xf32>
    %cst_121 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %433 = stablehlo.broadcast_in_dim %cst_121, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %434 = stablehlo.multiply %433, %arg33 : tensor<48xf32>
    %cst_122 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %435 = stablehlo.broadcast_in_dim %cst_122, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %436 = stablehlo.multiply %435, %299 : tensor<48xf32>
    %437 = stablehlo.multiply %436, %299 : tensor<48xf32>
    %438 = stablehlo.add %434, %437 : tensor<48xf32>
    %cst_123 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %439 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %440 = stablehlo.multiply %439, %arg34 : tensor<48xf32>
    %cst_124 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %441 = stablehlo.broadcast_in_dim %cst_124, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %442 = stablehlo.multiply %441, %305 : tensor<48xf32>
    %443 = stablehlo.multiply %442, %305 : tensor<48xf32>
    %444 = stablehlo.add %440, %443 : tensor<48xf32>
    %cst_125 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %445 = stablehlo.broadcast_in_dim %cst_125, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %446 = stablehlo.multiply %445, %arg35 : tensor<48xf32>
    %cst_126 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %447 = stablehlo.broadcast_in_dim %cst_126, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %448 = stablehlo.multiply %447, %230 : tensor<48xf32>
    %449 = stablehlo.multiply %448, %230 : tensor<48xf32>
    %450 = stablehlo.add %446, %449 : tensor<48xf32>
    %cst_127 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %451 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %452 = stablehlo.multiply %451, %arg36 : tensor<48xf32>
    %cst_128 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %453 = stablehlo.broadcast_in_dim %cst_128, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %454 = stablehlo.multiply %453, %236 : tensor<48xf32>
    %455 = stablehlo.multiply %454, %236 : tensor<48xf32>
    %456 = stablehlo.add %452, %455 : tensor<48xf32>
    %cst_129 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %457 = stablehlo.broadcast_in_dim %cst_129, dims = [] : (tensor<f32>) -> tensor<48x144xf32>
    %458 = stablehlo.multiply %457, %arg37 : tensor<48x144xf32>
    %cst_130 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %459 = stablehlo.broadcast_in_dim %cst_130, dims = [] : (tensor<f32>) -> tensor<48x144xf32>
    %460 = stablehlo.multiply %459, %295 : tensor<48x144xf32>
    %461 = stablehlo.multiply %460, %295 : tensor<48x144xf32>
    %462 = stablehlo.add %458, %461 : tensor<48x144xf32>
    %cst_131 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %463 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<48x192xf32>
    %464 = stablehlo.multiply %463, %arg38 : tensor<48x192xf32>
    %cst_132 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %465 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<48x192xf32>
    %466 = stablehlo.multiply %465, %226 : tensor<48x192xf32>
    %467 = stablehlo.multiply %466, %226 : tensor<48x192xf32>
    %468 = stablehlo.add %464, %467 : tensor<48x192xf32>
    %cst_133 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %469 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<192xf32>
    %470 = stablehlo.multiply %469, %arg39 : tensor<192xf32>
    %cst_134 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %471 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<192xf32>
    %472 = stablehlo.multiply %471, %224 : tensor<192xf32>
    %473 = stablehlo.multiply %472, %224 : tensor<192xf32>
    %474 = stablehlo.add %470, %473 : tensor<192xf32>
    %cst_135 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %475 = stablehlo.broadcast_in_dim %cst_135, dims = [] : (tensor<f32>) -> tensor<16x48xf32>
    %476 = stablehlo.multiply %475, %arg40 : tensor<16x48xf32>
    %cst_136 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %477 = stablehlo.broadcast_in_dim %cst_136, dims = [] : (tensor<f32>) -> tensor<16x48xf32>
    %478 = stablehlo.multiply %477, %329 : tensor<16x48xf32>
    %479 = stablehlo.multiply %478, %329 : tensor<16x48xf32>
    %480 = stablehlo.add %476, %479 : tensor<16x48xf32>
    %cst_137 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %481 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<64x48xf32>
    %482 = stablehlo.multiply %481, %arg41 : tensor<64x48xf32>
    %cst_138 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %483 = stablehlo.broadcast_in_dim %cst_138, dims = [] : (tensor<f32>) -> tensor<64x48xf32>
    %484 = stablehlo.multiply %483, %332 : tensor<64x48xf32>
    %485 = stablehlo.multiply %484, %332 : tensor<64x48xf32>
    %486 = stablehlo.add %482, %485 : tensor<64x48xf32>
    %cst_139 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %487 = stablehlo.power %cst_139, %arg42 : tensor<f32>
    %cst_140 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %488 = stablehlo.subtract %cst_140, %487 : tensor<f32>
    %cst_141 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %489 = stablehlo.power %cst_141, %arg42 : tensor<f32>
    %cst_142 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %490 = stablehlo.subtract %cst_142, %489 : tensor<f32>
    %491 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %492 = stablehlo.divide %337, %491 : tensor<48xf32>
    %cst_143 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %493 = stablehlo.broadcast_in_dim %cst_143, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %494 = stablehlo.multiply %493, %492 : tensor<48xf32>
    %495 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %496 = stablehlo.divide %408, %495 : tensor<48xf32>
    %497 = stablehlo.sqrt %496 : tensor<48xf32>
    %cst_144 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %498 = stablehlo.broadcast_in_dim %cst_144, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %499 = stablehlo.add %497, %498 : tensor<48xf32>
    %500 = stablehlo.divide %494, %499 : tensor<48xf32>
    %501 = stablehlo.subtract %arg0, %500 : tensor<48xf32>
    %502 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %503 = stablehlo.divide %342, %502 : tensor<48xf32>
    %cst_145 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %504 = stablehlo.broadcast_in_dim %cst_145, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %505 = stablehlo.multiply %504, %503 : tensor<48xf32>
    %506 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %507 = stablehlo.divide %414, %506 : tensor<48xf32>
    %508 = stablehlo.sqrt %507 : tensor<48xf32>
    %cst_146 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %509 = stablehlo.broadcast_in_dim %cst_146, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %510 = stablehlo.add %508, %509 : tensor<48xf32>
    %511 = stablehlo.divide %505, %510 : tensor<48xf32>
    %512 = stablehlo.subtract %arg1, %511 : tensor<48xf32>
    %513 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<192x48xf32>
    %514 = stablehlo.divide %347, %513 : tensor<192x48xf32>
    %cst_147 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %515 = stablehlo.broadcast_in_dim %cst_147, dims = [] : (tensor<f32>) -> tensor<192x48xf32>
    %516 = stablehlo.multiply %515, %514 : tensor<192x48xf32>
    %517 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<192x48xf32>
    %518 = stablehlo.divide %420, %517 : tensor<192x48xf32>
    %519 = stablehlo.sqrt %518 : tensor<192x48xf32>
    %cst_148 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %520 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<192x48xf32>
    %521 = stablehlo.add %519, %520 : tensor<192x48xf32>
    %522 = stablehlo.divide %516, %521 : tensor<192x48xf32>
    %523 = stablehlo.subtract %arg2, %522 : tensor<192x48xf32>
    %524 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %525 = stablehlo.divide %352, %524 : tensor<48xf32>
    %cst_149 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %526 = stablehlo.broadcast_in_dim %cst_149, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %527 = stablehlo.multiply %526, %525 : tensor<48xf32>
    %528 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %529 = stablehlo.divide %426, %528 : tensor<48xf32>
    %530 = stablehlo.sqrt %529 : tensor<48xf32>
    %cst_150 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %531 = stablehlo.broadcast_in_dim %cst_150, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %532 = stablehlo.add %530, %531 : tensor<48xf32>
    %533 = stablehlo.divide %527, %532 : tensor<48xf32>
    %534 = stablehlo.subtract %arg3, %533 : tensor<48xf32>
    %535 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<48x48xf32>
    %536 = stablehlo.divide %357, %535 : tensor<48x48xf32>
    %cst_151 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %537 = stablehlo.broadcast_in_dim %cst_151, dims = [] : (tensor<f32>) -> tensor<48x48xf32>
    %538 = stablehlo.multiply %537, %536 : tensor<48x48xf32>
    %539 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<48x48xf32>
    %540 = stablehlo.divide %432, %539 : tensor<48x48xf32>
    %541 = stablehlo.sqrt %540 : tensor<48x48xf32>
    %cst_152 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %542 = stablehlo.broadcast_in_dim %cst_152, dims = [] : (tensor<f32>) -> tensor<48x48xf32>
    %543 = stablehlo.add %541, %542 : tensor<48x48xf32>
    %544 = stablehlo.divide %538, %543 : tensor<48x48xf32>
    %545 = stablehlo.subtract %arg4, %544 : tensor<48x48xf32>
    %546 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %547 = stablehlo.divide %362, %546 : tensor<48xf32>
    %cst_153 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %548 = stablehlo.broadcast_in_dim %cst_153, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %549 = stablehlo.multiply %548, %547 : tensor<48xf32>
    %550 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %551 = stablehlo.divide %438, %550 : tensor<48xf32>
    %552 = stablehlo.sqrt %551 : tensor<48xf32>
    %cst_154 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %553 = stablehlo.broadcast_in_dim %cst_154, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %554 = stablehlo.add %552, %553 : tensor<48xf32>
    %555 = stablehlo.divide %549, %554 : tensor<48xf32>
    %556 = stablehlo.subtract %arg5, %555 : tensor<48xf32>
    %557 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %558 = stablehlo.divide %367, %557 : tensor<48xf32>
    %cst_155 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %559 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %560 = stablehlo.multiply %559, %558 : tensor<48xf32>
    %561 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %562 = stablehlo.divide %444, %561 : tensor<48xf32>
    %563 = stablehlo.sqrt %562 : tensor<48xf32>
    %cst_156 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %564 = stablehlo.broadcast_in_dim %cst_156, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %565 = stablehlo.add %563, %564 : tensor<48xf32>
    %566 = stablehlo.divide %560, %565 : tensor<48xf32>
    %567 = stablehlo.subtract %arg6, %566 : tensor<48xf32>
    %568 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %569 = stablehlo.divide %372, %568 : tensor<48xf32>
    %cst_157 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %570 = stablehlo.broadcast_in_dim %cst_157, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %571 = stablehlo.multiply %570, %569 : tensor<48xf32>
    %572 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %573 = stablehlo.divide %450, %572 : tensor<48xf32>
    %574 = stablehlo.sqrt %573 : tensor<48xf32>
    %cst_158 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %575 = stablehlo.broadcast_in_dim %cst_158, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %576 = stablehlo.add %574, %575 : tensor<48xf32>
    %577 = stablehlo.divide %571, %576 : tensor<48xf32>
    %578 = stablehlo.subtract %arg7, %577 : tensor<48xf32>
    %579 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %580 = stablehlo.divide %377, %579 : tensor<48xf32>
    %cst_159 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %581 = stablehlo.broadcast_in_dim %cst_159, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %582 = stablehlo.multiply %581, %580 : tensor<48xf32>
    %583 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %584 = stablehlo.divide %456, %583 : tensor<48xf32>
    %585 = stablehlo.sqrt %584 : tensor<48xf32>
    %cst_160 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %586 = stablehlo.broadcast_in_dim %cst_160, dims = [] : (tensor<f32>) -> tensor<48xf32>
    %587 = stablehlo.add %585, %586 : tensor<48xf32>
    %588 = stablehlo.divide %582, %587 : tensor<48xf32>
    %589 = stablehlo.subtract %arg8, %588 : tensor<48xf32>
    %590 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<48x144xf32>
    %591 = stablehlo.divide %382, %590 : tensor<48x144xf32>
    %cst_161 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %592 = stablehlo.broadcast_in_dim %cst_161, dims = [] : (tensor<f32>) -> tensor<48x144xf32>
    %593 = stablehlo.multiply %592, %591 : tensor<48x144xf32>
    %594 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<48x144xf32>
    %595 = stablehlo.divide %462, %594 : tensor<48x144xf32>
    %596 = stablehlo.sqrt %595 : tensor<48x144xf32>
    %cst_162 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %597 = stablehlo.broadcast_in_dim %cst_162, dims = [] : (tensor<f32>) -> tensor<48x144xf32>
    %598 = stablehlo.add %596, %597 : tensor<48x144xf32>
    %599 = stablehlo.divide %593, %598 : tensor<48x144xf32>
    %600 = stablehlo.subtract %arg9, %599 : tensor<48x144xf32>
    %601 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<48x192xf32>
    %602 = stablehlo.divide %387, %601 : tensor<48x192xf32>
    %cst_163 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %603 = stablehlo.broadcast_in_dim %cst_163, dims = [] : (tensor<f32>) -> tensor<48x192xf32>
    %604 = stablehlo.multiply %603, %602 : tensor<48x192xf32>
    %605 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<48x192xf32>
    %606 = stablehlo.divide %468, %605 : tensor<48x192xf32>
    %607 = stablehlo.sqrt %606 : tensor<48x192xf32>
    %cst_164 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %608 = stablehlo.broadcast_in_dim %cst_164, dims = [] : (tensor<f32>) -> tensor<48x192xf32>
    %609 = stablehlo.add %607, %608 : tensor<48x192xf32>
    %610 = stablehlo.divide %604, %609 : tensor<48x192xf32>
    %611 = stablehlo.subtract %arg10, %610 : tensor<48x192xf32>
    %612 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<192xf32>
    %613 = stablehlo.divide %392, %612 : tensor<192xf32>
    %cst_165 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %614 = stablehlo.broadcast_in_dim %cst_165, dims = [] : (tensor<f32>) -> tensor<192xf32>
    %615 = stablehlo.multiply %614, %613 : tensor<192xf32>
    %616 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<192xf32>
    %617 = stablehlo.divide %474, %616 : tensor<192xf32>
    %618 = stablehlo.sqrt %617 : tensor<192xf32>
    %cst_166 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %619 = stablehlo.broadcast_in_dim %cst_166, dims = [] : (tensor<f32>) -> tensor<192xf32>
    %620 = stablehlo.add %618, %619 : tensor<192xf32>
    %621 = stablehlo.divide %615, %620 : tensor<192xf32>
    %622 = stablehlo.subtract %arg11, %621 : tensor<192xf32>
    %623 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<16x48xf32>
    %624 = stablehlo.divide %397, %623 : tensor<16x48xf32>
    %cst_167 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %625 = stablehlo.broadcast_in_dim %cst_167, dims = [] : (tensor<f32>) -> tensor<16x48xf32>
    %626 = stablehlo.multiply %625, %624 : tensor<16x48xf32>
    %627 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<16x48xf32>
    %628 = stablehlo.divide %480, %627 : tensor<16x48xf32>
    %629 = stablehlo.sqrt %628 : tensor<16x48xf32>
    %cst_168 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %630 = stablehlo.broadcast_in_dim %cst_168, dims = [] : (tensor<f32>) -> tensor<16x48xf32>
    %631 = stablehlo.add %629, %630 : tensor<16x48xf32>
    %632 = stablehlo.divide %626, %631 : tensor<16x48xf32>
    %633 = stablehlo.subtract %arg12, %632 : tensor<16x48xf32>
    %634 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<f32>) -> tensor<64x48xf32>
    %635 = stablehlo.divide %402, %634 : tensor<64x48xf32>
    %cst_169 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %636 = stablehlo.broadcast_in_dim %cst_169, dims = [] : (tensor<f32>) -> tensor<64x48xf32>
    %637 = stablehlo.multiply %636, %635 : tensor<64x48xf32>
    %638 = stablehlo.broadcast_in_dim %490, dims = [] : (tensor<f32>) -> tensor<64x48xf32>
    %639 = stablehlo.divide %486, %638 : tensor<64x48xf32>
    %640 = stablehlo.sqrt %639 : tensor<64x48xf32>
    %cst_170 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %641 = stablehlo.broadcast_in_dim %cst_170, dims = [] : (tensor<f32>) -> tensor<64x48xf32>
    %642 = stablehlo.add %640, %641 : tensor<64x48xf32>
    %643 = stablehlo.divide %637, %642 : tensor<64x48xf32>
    %644 = stablehlo.subtract %arg13, %643 : tensor<64x48xf32>
    %cst_171 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %645 = stablehlo.add %arg42, %cst_171 : tensor<f32>
    return %501, %512, %523, %534, %545, %556, %567, %578, %589, %600, %611, %622, %633, %644, %337, %342, %347, %352, %357, %362, %367, %372, %377, %382, %387, %392, %397, %402, %408, %414, %420, %426, %432, %438, %444, %450, %456, %462, %468, %474, %480, %486, %645, %163 : tensor<48xf32>, tensor<48xf32>, tensor<192x48xf32>, tensor<48xf32>, tensor<48x48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<48x144xf32>, tensor<48x192xf32>, tensor<192xf32>, tensor<16x48xf32>, tensor<64x48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<192x48xf32>, tensor<48xf32>, tensor<48x48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<48x144xf32>, tensor<48x192xf32>, tensor<192xf32>, tensor<16x48xf32>, tensor<64x48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<192x48xf32>, tensor<48xf32>, tensor<48x48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<48x144xf32>, tensor<48x192xf32>, tensor<192xf32>, tensor<16x48xf32>, tensor<64x48xf32>, tensor<f32>, tensor<f32>
  }
  func.func private @_where(%arg0: tensor<16x16xi1>, %arg1: tensor<6x6x16x16xf32>, %arg2: tensor<f32>) -> (tensor<6x6x16x16xf32>, tensor<6x6x16x16xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<16x16xi1>) -> tensor<6x6x16x16xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<6x6x16x16xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<6x6x16x16xi1>, tensor<6x6x16x16xf32>
    return %3, %1 : tensor<6x6x16x16xf32>, tensor<6x6x16x16xi1>
  }
  func.func private @log_softmax(%arg0: tensor<6x16x64xf32>) -> (tensor<6x16x64xf32>, tensor<6x16x64xf32>, tensor<6x16x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<6x16x64xf32>, tensor<f32>) -> tensor<6x16xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<6x16xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<6x16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<6x16x1xf32>) -> tensor<6x16x64xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<6x16x64xf32>
    %6 = stablehlo.exponential %5 : tensor<6x16x64xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<6x16x64xf32>, tensor<f32>) -> tensor<6x16xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %9 = stablehlo.log %8 : tensor<6x16x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<6x16x1xf32>) -> tensor<6x16x64xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<6x16x64xf32>
    return %11, %6, %8 : tensor<6x16x64xf32>, tensor<6x16x64xf32>, tensor<6x16x1xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<6x16x64xf32>, %arg1: tensor<6x16x1xi32>) -> (tensor<6x16x1xf32>, tensor<6x16x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<6x16x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<6x16x1xi32>, tensor<6x16x1xi32>) -> tensor<6x16x1xi1>
    %c_0 = stablehlo.constant dense<64> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<6x16x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<6x16x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<6x16x1xi1>, tensor<6x16x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<6x16x1xi32>) -> tensor<6x16x1x1xi32>
    %c_1 = stablehlo.constant dense<63> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<6x16x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<6x16x1x1xi32>, tensor<6x16x1x1xi32>) -> tensor<6x16x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<6x16x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<6x16x1x1xi32>, tensor<6x16x1x1xi32>) -> tensor<6x16x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<6x16x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<6x16x1x1xi1>, tensor<i1>) -> tensor<6x16x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<6x16x64xf32>, tensor<6x16x1x1xi32>) -> tensor<6x16x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6x16x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<6x16x1xi1>, tensor<6x16x1xf32>
    return %15, %5 : tensor<6x16x1xf32>, tensor<6x16x1x1xi32>
  }
  func.func private @take_along_axis_0(%arg0: tensor<6x16x1x1xi32>, %arg1: tensor<6x16x1xf32>) -> tensor<6x16x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6x16x64xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<6x16x64xf32>, tensor<6x16x1x1xi32>, tensor<6x16x1xf32>) -> tensor<6x16x64xf32>
    return %1 : tensor<6x16x64xf32>
  }
  func.func private @log_softmax_1(%arg0: tensor<6x16x64xf32>, %arg1: tensor<6x16x1xf32>, %arg2: tensor<6x16x64xf32>) -> tensor<6x16x64xf32> {
    %0 = stablehlo.negate %arg2 : tensor<6x16x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<6x16x64xf32>, tensor<f32>) -> tensor<6x16xf32>
    %2 = stablehlo.reshape %1 : (tensor<6x16xf32>) -> tensor<6x16x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<6x16x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<6x16x1xf32>, tensor<f32>) -> tensor<6x16xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<6x16xf32>) -> tensor<6x16x64xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<6x16x64xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<6x16x64xf32>
    return %7 : tensor<6x16x64xf32>
  }
  func.func private @_where_2(%arg0: tensor<6x6x16x16xi1>, %arg1: tensor<6x6x16x16xf32>) -> tensor<6x6x16x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6x6x16x16xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<6x6x16x16xi1>, tensor<6x6x16x16xf32>
    return %1 : tensor<6x6x16x16xf32>
  }
}
