module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<32xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<32xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<128x32xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<32xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<32x32xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<32xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<32xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<32xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<32xf32> {tf.aliasing_output = 8 : i32}, %arg9: tensor<32x96xf32> {tf.aliasing_output = 9 : i32}, %arg10: tensor<32x128xf32> {tf.aliasing_output = 10 : i32}, %arg11: tensor<128xf32> {tf.aliasing_output = 11 : i32}, %arg12: tensor<128x32xf32> {tf.aliasing_output = 12 : i32}, %arg13: tensor<32xf32> {tf.aliasing_output = 13 : i32}, %arg14: tensor<32x32xf32> {tf.aliasing_output = 14 : i32}, %arg15: tensor<32xf32> {tf.aliasing_output = 15 : i32}, %arg16: tensor<32xf32> {tf.aliasing_output = 16 : i32}, %arg17: tensor<32xf32> {tf.aliasing_output = 17 : i32}, %arg18: tensor<32xf32> {tf.aliasing_output = 18 : i32}, %arg19: tensor<32x96xf32> {tf.aliasing_output = 19 : i32}, %arg20: tensor<32x128xf32> {tf.aliasing_output = 20 : i32}, %arg21: tensor<128xf32> {tf.aliasing_output = 21 : i32}, %arg22: tensor<32x32xf32> {tf.aliasing_output = 22 : i32}, %arg23: tensor<128x32xf32> {tf.aliasing_output = 23 : i32}, %arg24: tensor<32xf32> {tf.aliasing_output = 24 : i32}, %arg25: tensor<32xf32> {tf.aliasing_output = 25 : i32}, %arg26: tensor<128x32xf32> {tf.aliasing_output = 26 : i32}, %arg27: tensor<32xf32> {tf.aliasing_output = 27 : i32}, %arg28: tensor<32x32xf32> {tf.aliasing_output = 28 : i32}, %arg29: tensor<32xf32> {tf.aliasing_output = 29 : i32}, %arg30: tensor<32xf32> {tf.aliasing_output = 30 : i32}, %arg31: tensor<32xf32> {tf.aliasing_output = 31 : i32}, %arg32: tensor<32xf32> {tf.aliasing_output = 32 : i32}, %arg33: tensor<32x96xf32> {tf.aliasing_output = 33 : i32}, %arg34: tensor<32x128xf32> {tf.aliasing_output = 34 : i32}, %arg35: tensor<128xf32> {tf.aliasing_output = 35 : i32}, %arg36: tensor<128x32xf32> {tf.aliasing_output = 36 : i32}, %arg37: tensor<32xf32> {tf.aliasing_output = 37 : i32}, %arg38: tensor<32x32xf32> {tf.aliasing_output = 38 : i32}, %arg39: tensor<32xf32> {tf.aliasing_output = 39 : i32}, %arg40: tensor<32xf32> {tf.aliasing_output = 40 : i32}, %arg41: tensor<32xf32> {tf.aliasing_output = 41 : i32}, %arg42: tensor<32xf32> {tf.aliasing_output = 42 : i32}, %arg43: tensor<32x96xf32> {tf.aliasing_output = 43 : i32}, %arg44: tensor<32x128xf32> {tf.aliasing_output = 44 : i32}, %arg45: tensor<128xf32> {tf.aliasing_output = 45 : i32}, %arg46: tensor<32x32xf32> {tf.aliasing_output = 46 : i32}, %arg47: tensor<128x32xf32> {tf.aliasing_output = 47 : i32}, %arg48: tensor<32xf32> {tf.aliasing_output = 48 : i32}, %arg49: tensor<32xf32> {tf.aliasing_output = 49 : i32}, %arg50: tensor<128x32xf32> {tf.aliasing_output = 50 : i32}, %arg51: tensor<32xf32> {tf.aliasing_output = 51 : i32}, %arg52: tensor<32x32xf32> {tf.aliasing_output = 52 : i32}, %arg53: tensor<32xf32> {tf.aliasing_output = 53 : i32}, %arg54: tensor<32xf32> {tf.aliasing_output = 54 : i32}, %arg55: tensor<32xf32> {tf.aliasing_output = 55 : i32}, %arg56: tensor<32xf32> {tf.aliasing_output = 56 : i32}, %arg57: tensor<32x96xf32> {tf.aliasing_output = 57 : i32}, %arg58: tensor<32x128xf32> {tf.aliasing_output = 58 : i32}, %arg59: tensor<128xf32> {tf.aliasing_output = 59 : i32}, %arg60: tensor<128x32xf32> {tf.aliasing_output = 60 : i32}, %arg61: tensor<32xf32> {tf.aliasing_output = 61 : i32}, %arg62: tensor<32x32xf32> {tf.aliasing_output = 62 : i32}, %arg63: tensor<32xf32> {tf.aliasing_output = 63 : i32}, %arg64: tensor<32xf32> {tf.aliasing_output = 64 : i32}, %arg65: tensor<32xf32> {tf.aliasing_output = 65 : i32}, %arg66: tensor<32xf32> {tf.aliasing_output = 66 : i32}, %arg67: tensor<32x96xf32> {tf.aliasing_output = 67 : i32}, %arg68: tensor<32x128xf32> {tf.aliasing_output = 68 : i32}, %arg69: tensor<128xf32> {tf.aliasing_output = 69 : i32}, %arg70: tensor<32x32xf32> {tf.aliasing_output = 70 : i32}, %arg71: tensor<128x32xf32> {tf.aliasing_output = 71 : i32}, %arg72: tensor<f32> {tf.aliasing_output = 72 : i32}, %arg73: tensor<8x32xi32>, %arg74: tensor<8x32xi32>) -> (tensor<32xf32> {jax.result_info = "result[0]['final']['bias']"}, tensor<32xf32> {jax.result_info = "result[0]['final']['gain']"}, tensor<128x32xf32> {jax.result_info = "result[0]['layers'][0]['down']"}, tensor<32xf32> {jax.result_info = "result[0]['layers'][0]['down_bias']"}, tensor<32x32xf32> {jax.result_info = "result[0]['layers'][0]['mix']"}, tensor<32xf32> {jax.result_info = "result[0]['layers'][0]['norm1']['bias']"}, tensor<32xf32> {jax.result_info = "result[0]['layers'][0]['norm1']['gain']"}, tensor<32xf32> {jax.result_info = "result[0]['layers'][0]['norm2']['bias']"}, tensor<32xf32> {jax.result_info = "result[0]['layers'][0]['norm2']['gain']"}, tensor<32x96xf32> {jax.result_info = "result[0]['layers'][0]['qkv']"}, tensor<32x128xf32> {jax.result_info = "result[0]['layers'][0]['up']"}, tensor<128xf32> {jax.result_info = "result[0]['layers'][0]['up_bias']"}, tensor<128x32xf32> {jax.result_info = "result[0]['layers'][1]['down']"}, tensor<32xf32> {jax.result_info = "result[0]['layers'][1]['down_bias']"}, tensor<32x32xf32> {jax.result_info = "result[0]['layers'][1]['mix']"}, tensor<32xf32> {jax.result_info = "result[0]['layers'][1]['norm1']['bias']"}, tensor<32xf32> {jax.result_info = "result[0]['layers'][1]['norm1']['gain']"}, tensor<32xf32> {jax.result_info = "result[0]['layers'][1]['norm2']['bias']"}, tensor<32xf32> {jax.result_info = "result[0]['layers'][1]['norm2']['gain']"}, tensor<32x96xf32> {jax.result_info = "result[0]['layers'][1]['qkv']"}, tensor<32x128xf32> {jax.result_info = "result[0]['layers'][1]['up']"}, tensor<128xf32> {jax.result_info = "result[0]['layers'][1]['up_bias']"}, tensor<32x32xf32> {jax.result_info = "result[0]['places']"}, tensor<128x32xf32> {jax.result_info = "result[0]['tokens']"}, tensor<32xf32> {jax.result_info = "result[1]['final']['bias']"}, tensor<32xf32> {jax.result_info = "result[1]['final']['gain']"}, tensor<128x32xf32> {jax.result_info = "result[1]['layers'][0]['down']"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][0]['down_bias']"}, tensor<32x32xf32> {jax.result_info = "result[1]['layers'][0]['mix']"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][0]['norm1']['bias']"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][0]['norm1']['gain']"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][0]['norm2']['bias']"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][0]['norm2']['gain']"}, tensor<32x96xf32> {jax.result_info = "result[1]['layers'][0]['qkv']"}, tensor<32x128xf32> {jax.result_info = "result[1]['layers'][0]['up']"}, tensor<128xf32> {jax.result_info = "result[1]['layers'][0]['up_bias']"}, tensor<128x32xf32> {jax.result_info = "result[1]['layers'][1]['down']"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][1]['down_bias']"}, tensor<32x32xf32> {jax.result_info = "result[1]['layers'][1]['mix']"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][1]['norm1']['bias']"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][1]['norm1']['gain']"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][1]['norm2']['bias']"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][1]['norm2']['gain']"}, tensor<32x96xf32> {jax.result_info = "result[1]['layers'][1]['qkv']"}, tensor<32x128xf32> {jax.result_info = "result[1]['layers'][1]['up']"}, tensor<128xf32> {jax.result_info = "result[1]['layers'][1]['up_bias']"}, tensor<32x32xf32> {jax.result_info = "result[1]['places']"}, tensor<128x32xf32> {jax.result_info = "result[1]['tokens']"}, tensor<32xf32> {jax.result_info = "result[2]['final']['bias']"}, tensor<32xf32> {jax.result_info = "result[2]['final']['gain']"}, tensor<128x32xf32> {jax.result_info = "result[2]['layers'][0]['down']"}, tensor<32xf32> {jax.result_info = "result[2]['layers'][0]['down_bias']"}, tensor<32x32xf32> {jax.result_info = "result[2]['layers'][0]['mix']"}, tensor<32xf32> {jax.result_info = "result[2]['layers'][0]['norm1']['bias']"}, tensor<32xf32> {jax.result_info = "result[2]['layers'][0]['norm1']['gain']"}, tensor<32xf32> {jax.result_info = "result[2]['layers'][0]['norm2']['bias']"}, tensor<32xf32> {jax.result_info = "result[2]['layers'][0]['norm2']['gain']"}, tensor<32x96xf32> {jax.result_info = "result[2]['layers'][0]['qkv']"}, tensor<32x128xf32> {jax.result_info = "result[2]['layers'][0]['up']"}, tensor<128xf32> {jax.result_info = "result[2]['layers'][0]['up_bias']"}, tensor<128x32xf32> {jax.result_info = "result[2]['layers'][1]['down']"}, tensor<32xf32> {jax.result_info = "result[2]['layers'][1]['down_bias']"}, tensor<32x32xf32> {jax.result_info = "result[2]['layers'][1]['mix']"}, tensor<32xf32> {jax.result_info = "result[2]['layers'][1]['norm1']['bias']"}, tensor<32xf32> {jax.result_info = "result[2]['layers'][1]['norm1']['gain']"}, tensor<32xf32> {jax.result_info = "result[2]['layers'][1]['norm2']['bias']"}, tensor<32xf32> {jax.result_info = "result[2]['layers'][1]['norm2']['gain']"}, tensor<32x96xf32> {jax.result_info = "result[2]['layers'][1]['qkv']"}, tensor<32x128xf32> {jax.result_info = "result[2]['layers'][1]['up']"}, tensor<128xf32> {jax.result_info = "result[2]['layers'][1]['up_bias']"}, tensor<32x32xf32> {jax.result_info = "result[2]['places']"}, tensor<128x32xf32> {jax.result_info = "result[2]['tokens']"}, tensor<f32> {jax.result_info = "result[3]"}, tensor<f32> {jax.result_info = "result[4]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8x32xi32>
    %1 = stablehlo.compare LT, %arg73, %0, SIGNED : (tensor<8x32xi32>, tensor<8x32xi32>) -> tensor<8x32xi1>
    %c_0 = stablehlo.constant dense<128> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<8x32xi32>
    %3 = stablehlo.add %arg73, %2 : tensor<8x32xi32>
    %4 = stablehlo.select %1, %3, %arg73 : tensor<8x32xi1>, tensor<8x32xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<8x32xi32>) -> tensor<8x32x1xi32>
    %6 = "stablehlo.gather"(%arg23, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<128x32xf32>, tensor<8x32x1xi32>) -> tensor<8x32x32xf32>
    %7 = stablehlo.broadcast_in_dim %arg22, dims = [1, 2] : (tensor<32x32xf32>) -> tensor<1x32x32xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x32x32xf32>) -> tensor<8x32x32xf32>
    %9 = stablehlo.add %6, %8 : tensor<8x32x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_1 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %13 = stablehlo.divide %11, %12 : tensor<8x32x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %15 = stablehlo.subtract %9, %14 : tensor<8x32x32xf32>
    %16 = stablehlo.multiply %15, %15 : tensor<8x32x32xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x32x32xf32>
    %18 = stablehlo.multiply %17, %15 : tensor<8x32x32xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.reduce(%16 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_4 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %22 = stablehlo.divide %20, %21 : tensor<8x32x1xf32>
    %cst_5 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %24 = stablehlo.add %22, %23 : tensor<8x32x1xf32>
    %25 = stablehlo.rsqrt %24 : tensor<8x32x1xf32>
    %26 = stablehlo.divide %25, %24 : tensor<8x32x1xf32>
    %cst_6 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %28 = stablehlo.multiply %27, %26 : tensor<8x32x1xf32>
    %29 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %30 = stablehlo.multiply %15, %29 : tensor<8x32x32xf32>
    %31 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %33 = stablehlo.multiply %30, %32 : tensor<8x32x32xf32>
    %34 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %36 = stablehlo.add %33, %35 : tensor<8x32x32xf32>
    %37 = stablehlo.dot_general %36, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<32x96xf32>) -> tensor<8x32x96xf32>
    %38 = stablehlo.reshape %37 : (tensor<8x32x96xf32>) -> tensor<8x32x3x4x8xf32>
    %39 = stablehlo.slice %38 [0:8, 0:32, 0:1, 0:4, 0:8] : (tensor<8x32x3x4x8xf32>) -> tensor<8x32x1x4x8xf32>
    %40 = stablehlo.reshape %39 : (tensor<8x32x1x4x8xf32>) -> tensor<8x32x4x8xf32>
    %41 = stablehlo.slice %38 [0:8, 0:32, 1:2, 0:4, 0:8] : (tensor<8x32x3x4x8xf32>) -> tensor<8x32x1x4x8xf32>
    %42 = stablehlo.reshape %41 : (tensor<8x32x1x4x8xf32>) -> tensor<8x32x4x8xf32>
    %43 = stablehlo.slice %38 [0:8, 0:32, 2:3, 0:4, 0:8] : (tensor<8x32x3x4x8xf32>) -> tensor<8x32x1x4x8xf32>
    %44 = stablehlo.reshape %43 : (tensor<8x32x1x4x8xf32>) -> tensor<8x32x4x8xf32>
    %45 = stablehlo.dot_general %40, %42, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x8xf32>, tensor<8x32x4x8xf32>) -> tensor<8x4x32x32xf32>
    %cst_7 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<8x4x32x32xf32>
    %47 = stablehlo.divide %45, %46 : tensor<8x4x32x32xf32>
    %48 = stablehlo.iota dim = 0 : tensor<32xi32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0] : (tensor<32xi32>) -> tensor<32x1xi32>
    %50 = stablehlo.iota dim = 0 : tensor<32xi32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [1] : (tensor<32xi32>) -> tensor<1x32xi32>
    %52 = stablehlo.broadcast_in_dim %49, dims = [0, 1] : (tensor<32x1xi32>) -> tensor<32x32xi32>
    %53 = stablehlo.broadcast_in_dim %51, dims = [0, 1] : (tensor<1x32xi32>) -> tensor<32x32xi32>
    %54 = stablehlo.compare GE, %52, %53, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
    %cst_8 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %55:2 = call @_where(%54, %47, %cst_8) : (tensor<32x32xi1>, tensor<8x4x32x32xf32>, tensor<f32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32x32xi1>)
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %56 = stablehlo.reduce(%55#0 init: %cst_9) applies stablehlo.maximum across dimensions = [3] : (tensor<8x4x32x32xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<8x4x32xf32>
    %58 = stablehlo.maximum %57, %56 : tensor<8x4x32xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2] : (tensor<8x4x32xf32>) -> tensor<8x4x32x1xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %61 = stablehlo.subtract %55#0, %60 : tensor<8x4x32x32xf32>
    %62 = stablehlo.exponential %61 : tensor<8x4x32x32xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %63 = stablehlo.reduce(%62 init: %cst_11) applies stablehlo.add across dimensions = [3] : (tensor<8x4x32x32xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2] : (tensor<8x4x32xf32>) -> tensor<8x4x32x1xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %66 = stablehlo.divide %62, %65 : tensor<8x4x32x32xf32>
    %67 = stablehlo.multiply %64, %64 : tensor<8x4x32x1xf32>
    %cst_12 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %68 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<8x4x32x1xf32>
    %69 = stablehlo.divide %68, %67 : tensor<8x4x32x1xf32>
    %70 = stablehlo.dot_general %44, %66, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x8xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x8x32xf32>
    %71 = stablehlo.transpose %70, dims = [0, 3, 1, 2] : (tensor<8x4x8x32xf32>) -> tensor<8x32x4x8xf32>
    %72 = stablehlo.reshape %71 : (tensor<8x32x4x8xf32>) -> tensor<8x32x32xf32>
    %73 = stablehlo.dot_general %72, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<32x32xf32>) -> tensor<8x32x32xf32>
    %74 = stablehlo.add %9, %73 : tensor<8x32x32xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %75 = stablehlo.reduce(%74 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_14 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %77 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %78 = stablehlo.divide %76, %77 : tensor<8x32x1xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %80 = stablehlo.subtract %74, %79 : tensor<8x32x32xf32>
    %81 = stablehlo.multiply %80, %80 : tensor<8x32x32xf32>
    %cst_15 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %82 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<8x32x32xf32>
    %83 = stablehlo.multiply %82, %80 : tensor<8x32x32xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %84 = stablehlo.reduce(%81 init: %cst_16) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_17 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %86 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %87 = stablehlo.divide %85, %86 : tensor<8x32x1xf32>
    %cst_18 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %88 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %89 = stablehlo.add %87, %88 : tensor<8x32x1xf32>
    %90 = stablehlo.rsqrt %89 : tensor<8x32x1xf32>
    %91 = stablehlo.divide %90, %89 : tensor<8x32x1xf32>
    %cst_19 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %92 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %93 = stablehlo.multiply %92, %91 : tensor<8x32x1xf32>
    %94 = stablehlo.broadcast_in_dim %90, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %95 = stablehlo.multiply %80, %94 : tensor<8x32x32xf32>
    %96 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %98 = stablehlo.multiply %95, %97 : tensor<8x32x32xf32>
    %99 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %101 = stablehlo.add %98, %100 : tensor<8x32x32xf32>
    %102 = stablehlo.dot_general %101, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<32x128xf32>) -> tensor<8x32x128xf32>
    %103 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<8x32x128xf32>
    %105 = stablehlo.add %102, %104 : tensor<8x32x128xf32>
    %106 = stablehlo.multiply %105, %105 : tensor<8x32x128xf32>
    %107 = stablehlo.multiply %106, %105 : tensor<8x32x128xf32>
    %108 = stablehlo.multiply %105, %105 : tensor<8x32x128xf32>
    %cst_20 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %109 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %110 = stablehlo.multiply %109, %108 : tensor<8x32x128xf32>
    %cst_21 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %111 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %112 = stablehlo.multiply %111, %107 : tensor<8x32x128xf32>
    %113 = stablehlo.add %105, %112 : tensor<8x32x128xf32>
    %cst_22 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %114 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %115 = stablehlo.multiply %114, %113 : tensor<8x32x128xf32>
    %116 = stablehlo.tanh %115 : tensor<8x32x128xf32>
    %cst_23 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %117 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %118 = stablehlo.subtract %117, %116 : tensor<8x32x128xf32>
    %cst_24 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %119 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %120 = stablehlo.add %119, %116 : tensor<8x32x128xf32>
    %cst_25 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %122 = stablehlo.multiply %121, %120 : tensor<8x32x128xf32>
    %123 = stablehlo.multiply %105, %122 : tensor<8x32x128xf32>
    %124 = stablehlo.dot_general %123, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x128xf32>, tensor<128x32xf32>) -> tensor<8x32x32xf32>
    %125 = stablehlo.add %74, %124 : tensor<8x32x32xf32>
    %126 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %127 = stablehlo.broadcast_in_dim %126, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %128 = stablehlo.add %125, %127 : tensor<8x32x32xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %129 = stablehlo.reduce(%128 init: %cst_26) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %130 = stablehlo.broadcast_in_dim %129, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_27 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %131 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %132 = stablehlo.divide %130, %131 : tensor<8x32x1xf32>
    %133 = stablehlo.broadcast_in_dim %132, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %134 = stablehlo.subtract %128, %133 : tensor<8x32x32xf32>
    %135 = stablehlo.multiply %134, %134 : tensor<8x32x32xf32>
    %cst_28 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %136 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<8x32x32xf32>
    %137 = stablehlo.multiply %136, %134 : tensor<8x32x32xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %138 = stablehlo.reduce(%135 init: %cst_29) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_30 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %140 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %141 = stablehlo.divide %139, %140 : tensor<8x32x1xf32>
    %cst_31 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %142 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %143 = stablehlo.add %141, %142 : tensor<8x32x1xf32>
    %144 = stablehlo.rsqrt %143 : tensor<8x32x1xf32>
    %145 = stablehlo.divide %144, %143 : tensor<8x32x1xf32>
    %cst_32 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %146 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %147 = stablehlo.multiply %146, %145 : tensor<8x32x1xf32>
    %148 = stablehlo.broadcast_in_dim %144, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %149 = stablehlo.multiply %134, %148 : tensor<8x32x32xf32>
    %150 = stablehlo.broadcast_in_dim %arg16, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %151 = stablehlo.broadcast_in_dim %150, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %152 = stablehlo.multiply %149, %151 : tensor<8x32x32xf32>
    %153 = stablehlo.broadcast_in_dim %arg15, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %154 = stablehlo.broadcast_in_dim %153, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %155 = stablehlo.add %152, %154 : tensor<8x32x32xf32>
    %156 = stablehlo.dot_general %155, %arg19, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<32x96xf32>) -> tensor<8x32x96xf32>
    %157 = stablehlo.reshape %156 : (tensor<8x32x96xf32>) -> tensor<8x32x3x4x8xf32>
    %158 = stablehlo.slice %157 [0:8, 0:32, 0:1, 0:4, 0:8] : (tensor<8x32x3x4x8xf32>) -> tensor<8x32x1x4x8xf32>
    %159 = stablehlo.reshape %158 : (tensor<8x32x1x4x8xf32>) -> tensor<8x32x4x8xf32>
    %160 = stablehlo.slice %157 [0:8, 0:32, 1:2, 0:4, 0:8] : (tensor<8x32x3x4x8xf32>) -> tensor<8x32x1x4x8xf32>
    %161 = stablehlo.reshape %160 : (tensor<8x32x1x4x8xf32>) -> tensor<8x32x4x8xf32>
    %162 = stablehlo.slice %157 [0:8, 0:32, 2:3, 0:4, 0:8] : (tensor<8x32x3x4x8xf32>) -> tensor<8x32x1x4x8xf32>
    %163 = stablehlo.reshape %162 : (tensor<8x32x1x4x8xf32>) -> tensor<8x32x4x8xf32>
    %164 = stablehlo.dot_general %159, %161, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x8xf32>, tensor<8x32x4x8xf32>) -> tensor<8x4x32x32xf32>
    %cst_33 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %165 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<8x4x32x32xf32>
    %166 = stablehlo.divide %164, %165 : tensor<8x4x32x32xf32>
    %167 = stablehlo.iota dim = 0 : tensor<32xi32>
    %168 = stablehlo.broadcast_in_dim %167, dims = [0] : (tensor<32xi32>) -> tensor<32x1xi32>
    %169 = stablehlo.iota dim = 0 : tensor<32xi32>
    %170 = stablehlo.broadcast_in_dim %169, dims = [1] : (tensor<32xi32>) -> tensor<1x32xi32>
    %171 = stablehlo.broadcast_in_dim %168, dims = [0, 1] : (tensor<32x1xi32>) -> tensor<32x32xi32>
    %172 = stablehlo.broadcast_in_dim %170, dims = [0, 1] : (tensor<1x32xi32>) -> tensor<32x32xi32>
    %173 = stablehlo.compare GE, %171, %172, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
    %cst_34 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %174:2 = call @_where(%173, %166, %cst_34) : (tensor<32x32xi1>, tensor<8x4x32x32xf32>, tensor<f32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32x32xi1>)
    %cst_35 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %175 = stablehlo.reduce(%174#0 init: %cst_35) applies stablehlo.maximum across dimensions = [3] : (tensor<8x4x32x32xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %cst_36 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %176 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<8x4x32xf32>
    %177 = stablehlo.maximum %176, %175 : tensor<8x4x32xf32>
    %178 = stablehlo.broadcast_in_dim %177, dims = [0, 1, 2] : (tensor<8x4x32xf32>) -> tensor<8x4x32x1xf32>
    %179 = stablehlo.broadcast_in_dim %178, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %180 = stablehlo.subtract %174#0, %179 : tensor<8x4x32x32xf32>
    %181 = stablehlo.exponential %180 : tensor<8x4x32x32xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %182 = stablehlo.reduce(%181 init: %cst_37) applies stablehlo.add across dimensions = [3] : (tensor<8x4x32x32xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %183 = stablehlo.broadcast_in_dim %182, dims = [0, 1, 2] : (tensor<8x4x32xf32>) -> tensor<8x4x32x1xf32>
    %184 = stablehlo.broadcast_in_dim %183, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %185 = stablehlo.divide %181, %184 : tensor<8x4x32x32xf32>
    %186 = stablehlo.multiply %183, %183 : tensor<8x4x32x1xf32>
    %cst_38 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %187 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<8x4x32x1xf32>
    %188 = stablehlo.divide %187, %186 : tensor<8x4x32x1xf32>
    %189 = stablehlo.dot_general %163, %185, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x8xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x8x32xf32>
    %190 = stablehlo.transpose %189, dims = [0, 3, 1, 2] : (tensor<8x4x8x32xf32>) -> tensor<8x32x4x8xf32>
    %191 = stablehlo.reshape %190 : (tensor<8x32x4x8xf32>) -> tensor<8x32x32xf32>
    %192 = stablehlo.dot_general %191, %arg14, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<32x32xf32>) -> tensor<8x32x32xf32>
    %193 = stablehlo.add %128, %192 : tensor<8x32x32xf32>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %194 = stablehlo.reduce(%193 init: %cst_39) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %195 = stablehlo.broadcast_in_dim %194, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_40 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %196 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %197 = stablehlo.divide %195, %196 : tensor<8x32x1xf32>
    %198 = stablehlo.broadcast_in_dim %197, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %199 = stablehlo.subtract %193, %198 : tensor<8x32x32xf32>
    %200 = stablehlo.multiply %199, %199 : tensor<8x32x32xf32>
    %cst_41 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %201 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<8x32x32xf32>
    %202 = stablehlo.multiply %201, %199 : tensor<8x32x32xf32>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %203 = stablehlo.reduce(%200 init: %cst_42) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %204 = stablehlo.broadcast_in_dim %203, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_43 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %205 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %206 = stablehlo.divide %204, %205 : tensor<8x32x1xf32>
    %cst_44 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %207 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %208 = stablehlo.add %206, %207 : tensor<8x32x1xf32>
    %209 = stablehlo.rsqrt %208 : tensor<8x32x1xf32>
    %210 = stablehlo.divide %209, %208 : tensor<8x32x1xf32>
    %cst_45 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %211 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %212 = stablehlo.multiply %211, %210 : tensor<8x32x1xf32>
    %213 = stablehlo.broadcast_in_dim %209, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %214 = stablehlo.multiply %199, %213 : tensor<8x32x32xf32>
    %215 = stablehlo.broadcast_in_dim %arg18, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %216 = stablehlo.broadcast_in_dim %215, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %217 = stablehlo.multiply %214, %216 : tensor<8x32x32xf32>
    %218 = stablehlo.broadcast_in_dim %arg17, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %219 = stablehlo.broadcast_in_dim %218, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %220 = stablehlo.add %217, %219 : tensor<8x32x32xf32>
    %221 = stablehlo.dot_general %220, %arg20, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<32x128xf32>) -> tensor<8x32x128xf32>
    %222 = stablehlo.broadcast_in_dim %arg21, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %223 = stablehlo.broadcast_in_dim %222, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<8x32x128xf32>
    %224 = stablehlo.add %221, %223 : tensor<8x32x128xf32>
    %225 = stablehlo.multiply %224, %224 : tensor<8x32x128xf32>
    %226 = stablehlo.multiply %225, %224 : tensor<8x32x128xf32>
    %227 = stablehlo.multiply %224, %224 : tensor<8x32x128xf32>
    %cst_46 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %228 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %229 = stablehlo.multiply %228, %227 : tensor<8x32x128xf32>
    %cst_47 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %230 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %231 = stablehlo.multiply %230, %226 : tensor<8x32x128xf32>
    %232 = stablehlo.add %224, %231 : tensor<8x32x128xf32>
    %cst_48 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %233 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %234 = stablehlo.multiply %233, %232 : tensor<8x32x128xf32>
    %235 = stablehlo.tanh %234 : tensor<8x32x128xf32>
    %cst_49 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %236 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %237 = stablehlo.subtract %236, %235 : tensor<8x32x128xf32>
    %cst_50 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %238 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %239 = stablehlo.add %238, %235 : tensor<8x32x128xf32>
    %cst_51 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %240 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %241 = stablehlo.multiply %240, %239 : tensor<8x32x128xf32>
    %242 = stablehlo.multiply %224, %241 : tensor<8x32x128xf32>
    %243 = stablehlo.dot_general %242, %arg12, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x128xf32>, tensor<128x32xf32>) -> tensor<8x32x32xf32>
    %244 = stablehlo.add %193, %243 : tensor<8x32x32xf32>
    %245 = stablehlo.broadcast_in_dim %arg13, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %246 = stablehlo.broadcast_in_dim %245, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %247 = stablehlo.add %244, %246 : tensor<8x32x32xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %248 = stablehlo.reduce(%247 init: %cst_52) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %249 = stablehlo.broadcast_in_dim %248, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_53 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %250 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %251 = stablehlo.divide %249, %250 : tensor<8x32x1xf32>
    %252 = stablehlo.broadcast_in_dim %251, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %253 = stablehlo.subtract %247, %252 : tensor<8x32x32xf32>
    %254 = stablehlo.multiply %253, %253 : tensor<8x32x32xf32>
    %cst_54 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %255 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<8x32x32xf32>
    %256 = stablehlo.multiply %255, %253 : tensor<8x32x32xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %257 = stablehlo.reduce(%254 init: %cst_55) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %258 = stablehlo.broadcast_in_dim %257, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_56 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %259 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %260 = stablehlo.divide %258, %259 : tensor<8x32x1xf32>
    %cst_57 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %261 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %262 = stablehlo.add %260, %261 : tensor<8x32x1xf32>
    %263 = stablehlo.rsqrt %262 : tensor<8x32x1xf32>
    %264 = stablehlo.divide %263, %262 : tensor<8x32x1xf32>
    %cst_58 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %265 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %266 = stablehlo.multiply %265, %264 : tensor<8x32x1xf32>
    %267 = stablehlo.broadcast_in_dim %263, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %268 = stablehlo.multiply %253, %267 : tensor<8x32x32xf32>
    %269 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %270 = stablehlo.broadcast_in_dim %269, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %271 = stablehlo.multiply %268, %270 : tensor<8x32x32xf32>
    %272 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %273 = stablehlo.broadcast_in_dim %272, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %274 = stablehlo.add %271, %273 : tensor<8x32x32xf32>
    %275 = stablehlo.transpose %arg23, dims = [1, 0] : (tensor<128x32xf32>) -> tensor<32x128xf32>
    %276 = stablehlo.dot_general %274, %275, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<32x128xf32>) -> tensor<8x32x128xf32>
    %277:3 = call @log_softmax(%276) : (tensor<8x32x128xf32>) -> (tensor<8x32x128xf32>, tensor<8x32x128xf32>, tensor<8x32x1xf32>)
    %278 = stablehlo.broadcast_in_dim %arg74, dims = [0, 1] : (tensor<8x32xi32>) -> tensor<8x32x1xi32>
    %279:2 = call @take_along_axis(%277#0, %278) : (tensor<8x32x128xf32>, tensor<8x32x1xi32>) -> (tensor<8x32x1xf32>, tensor<8x32x1x1xi32>)
    %cst_59 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %280 = stablehlo.reduce(%279#0 init: %cst_59) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_60 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %281 = stablehlo.divide %280, %cst_60 : tensor<f32>
    %282 = stablehlo.negate %281 : tensor<f32>
    %cst_61 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %283 = stablehlo.negate %cst_61 : tensor<f32>
    %cst_62 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %284 = stablehlo.divide %283, %cst_62 : tensor<f32>
    %285 = stablehlo.broadcast_in_dim %284, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %286 = call @take_along_axis_0(%279#1, %285) : (tensor<8x32x1x1xi32>, tensor<8x32x1xf32>) -> tensor<8x32x128xf32>
    %287 = call @log_softmax_1(%277#1, %277#2, %286) : (tensor<8x32x128xf32>, tensor<8x32x1xf32>, tensor<8x32x128xf32>) -> tensor<8x32x128xf32>
    %288 = stablehlo.dot_general %287, %274, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x128xf32>, tensor<8x32x32xf32>) -> tensor<128x32xf32>
    %289 = stablehlo.transpose %288, dims = [1, 0] : (tensor<128x32xf32>) -> tensor<32x128xf32>
    %290 = stablehlo.dot_general %287, %275, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x128xf32>, tensor<32x128xf32>) -> tensor<8x32x32xf32>
    %291 = stablehlo.transpose %289, dims = [1, 0] : (tensor<32x128xf32>) -> tensor<128x32xf32>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %292 = stablehlo.reduce(%290 init: %cst_63) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %293 = stablehlo.reshape %292 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %cst_64 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %294 = stablehlo.reduce(%293 init: %cst_64) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %295 = stablehlo.multiply %268, %290 : tensor<8x32x32xf32>
    %cst_65 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %296 = stablehlo.reduce(%295 init: %cst_65) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %297 = stablehlo.reshape %296 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %298 = stablehlo.broadcast_in_dim %269, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %299 = stablehlo.multiply %290, %298 : tensor<8x32x32xf32>
    %cst_66 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %300 = stablehlo.reduce(%297 init: %cst_66) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %301 = stablehlo.multiply %253, %299 : tensor<8x32x32xf32>
    %cst_67 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %302 = stablehlo.reduce(%301 init: %cst_67) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %303 = stablehlo.reshape %302 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %304 = stablehlo.broadcast_in_dim %263, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %305 = stablehlo.multiply %299, %304 : tensor<8x32x32xf32>
    %306 = stablehlo.multiply %303, %266 : tensor<8x32x1xf32>
    %cst_68 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %307 = stablehlo.broadcast_in_dim %cst_68, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %308 = stablehlo.divide %306, %307 : tensor<8x32x1xf32>
    %cst_69 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %309 = stablehlo.reduce(%308 init: %cst_69) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %310 = stablehlo.broadcast_in_dim %309, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x32xf32>
    %311 = stablehlo.multiply %310, %256 : tensor<8x32x32xf32>
    %312 = stablehlo.add %305, %311 : tensor<8x32x32xf32>
    %313 = stablehlo.negate %312 : tensor<8x32x32xf32>
    %cst_70 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %314 = stablehlo.reduce(%313 init: %cst_70) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %315 = stablehlo.reshape %314 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_71 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %316 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %317 = stablehlo.divide %315, %316 : tensor<8x32x1xf32>
    %cst_72 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %318 = stablehlo.reduce(%317 init: %cst_72) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %319 = stablehlo.broadcast_in_dim %318, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x32xf32>
    %320 = stablehlo.add %312, %319 : tensor<8x32x32xf32>
    %cst_73 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %321 = stablehlo.reduce(%320 init: %cst_73) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %322 = stablehlo.reshape %321 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %cst_74 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %323 = stablehlo.reduce(%322 init: %cst_74) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %324 = stablehlo.dot_general %320, %242, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x128xf32>) -> tensor<32x128xf32>
    %325 = stablehlo.transpose %324, dims = [1, 0] : (tensor<32x128xf32>) -> tensor<128x32xf32>
    %326 = stablehlo.dot_general %320, %arg12, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<128x32xf32>) -> tensor<8x32x128xf32>
    %327 = stablehlo.multiply %224, %326 : tensor<8x32x128xf32>
    %328 = stablehlo.multiply %326, %241 : tensor<8x32x128xf32>
    %cst_75 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %329 = stablehlo.broadcast_in_dim %cst_75, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %330 = stablehlo.multiply %329, %327 : tensor<8x32x128xf32>
    %331 = stablehlo.multiply %330, %237 : tensor<8x32x128xf32>
    %332 = stablehlo.multiply %331, %235 : tensor<8x32x128xf32>
    %333 = stablehlo.add %331, %332 : tensor<8x32x128xf32>
    %cst_76 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %334 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %335 = stablehlo.multiply %334, %333 : tensor<8x32x128xf32>
    %336 = stablehlo.add %328, %335 : tensor<8x32x128xf32>
    %cst_77 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %337 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %338 = stablehlo.multiply %337, %335 : tensor<8x32x128xf32>
    %339 = stablehlo.multiply %338, %229 : tensor<8x32x128xf32>
    %340 = stablehlo.add %336, %339 : tensor<8x32x128xf32>
    %cst_78 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %341 = stablehlo.reduce(%340 init: %cst_78) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x128xf32>, tensor<f32>) -> tensor<128xf32>
    %342 = stablehlo.reshape %341 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %cst_79 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %343 = stablehlo.reduce(%342 init: %cst_79) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xf32>, tensor<f32>) -> tensor<128xf32>
    %344 = stablehlo.dot_general %340, %220, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x128xf32>, tensor<8x32x32xf32>) -> tensor<128x32xf32>
    %345 = stablehlo.transpose %344, dims = [1, 0] : (tensor<128x32xf32>) -> tensor<32x128xf32>
    %346 = stablehlo.dot_general %340, %arg20, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x128xf32>, tensor<32x128xf32>) -> tensor<8x32x32xf32>
    %cst_80 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %347 = stablehlo.reduce(%346 init: %cst_80) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %348 = stablehlo.reshape %347 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %cst_81 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %349 = stablehlo.reduce(%348 init: %cst_81) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %350 = stablehlo.multiply %214, %346 : tensor<8x32x32xf32>
    %cst_82 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %351 = stablehlo.reduce(%350 init: %cst_82) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %352 = stablehlo.reshape %351 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %353 = stablehlo.broadcast_in_dim %215, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %354 = stablehlo.multiply %346, %353 : tensor<8x32x32xf32>
    %cst_83 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %355 = stablehlo.reduce(%352 init: %cst_83) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %356 = stablehlo.multiply %199, %354 : tensor<8x32x32xf32>
    %cst_84 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %357 = stablehlo.reduce(%356 init: %cst_84) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %358 = stablehlo.reshape %357 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %359 = stablehlo.broadcast_in_dim %209, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %360 = stablehlo.multiply %354, %359 : tensor<8x32x32xf32>
    %361 = stablehlo.multiply %358, %212 : tensor<8x32x1xf32>
    %cst_85 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %362 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %363 = stablehlo.divide %361, %362 : tensor<8x32x1xf32>
    %cst_86 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %364 = stablehlo.reduce(%363 init: %cst_86) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %365 = stablehlo.broadcast_in_dim %364, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x32xf32>
    %366 = stablehlo.multiply %365, %202 : tensor<8x32x32xf32>
    %367 = stablehlo.add %360, %366 : tensor<8x32x32xf32>
    %368 = stablehlo.negate %367 : tensor<8x32x32xf32>
    %cst_87 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %369 = stablehlo.reduce(%368 init: %cst_87) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %370 = stablehlo.reshape %369 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %371 = stablehlo.add %320, %367 : tensor<8x32x32xf32>
    %cst_88 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %372 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %373 = stablehlo.divide %370, %372 : tensor<8x32x1xf32>
    %cst_89 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %374 = stablehlo.reduce(%373 init: %cst_89) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %375 = stablehlo.broadcast_in_dim %374, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x32xf32>
    %376 = stablehlo.add %371, %375 : tensor<8x32x32xf32>
    %377 = stablehlo.dot_general %376, %191, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x32xf32>) -> tensor<32x32xf32>
    %378 = stablehlo.transpose %377, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %379 = stablehlo.dot_general %376, %arg14, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<32x32xf32>) -> tensor<8x32x32xf32>
    %380 = stablehlo.reshape %379 : (tensor<8x32x32xf32>) -> tensor<8x32x4x8xf32>
    %381 = stablehlo.transpose %380, dims = [0, 2, 3, 1] : (tensor<8x32x4x8xf32>) -> tensor<8x4x8x32xf32>
    %382 = stablehlo.dot_general %381, %163, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x4x8x32xf32>, tensor<8x32x4x8xf32>) -> tensor<8x4x32x32xf32>
    %383 = stablehlo.dot_general %381, %185, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<8x4x8x32xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x8x32xf32>
    %384 = stablehlo.transpose %383, dims = [0, 3, 1, 2] : (tensor<8x4x8x32xf32>) -> tensor<8x32x4x8xf32>
    %385 = stablehlo.broadcast_in_dim %188, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %386 = stablehlo.multiply %382, %385 : tensor<8x4x32x32xf32>
    %387 = stablehlo.multiply %386, %181 : tensor<8x4x32x32xf32>
    %cst_90 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %388 = stablehlo.reduce(%387 init: %cst_90) applies stablehlo.add across dimensions = [3] : (tensor<8x4x32x32xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %389 = stablehlo.reshape %388 : (tensor<8x4x32xf32>) -> tensor<8x4x32x1xf32>
    %390 = stablehlo.negate %389 : tensor<8x4x32x1xf32>
    %391 = stablehlo.broadcast_in_dim %183, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %392 = stablehlo.divide %382, %391 : tensor<8x4x32x32xf32>
    %cst_91 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %393 = stablehlo.reduce(%390 init: %cst_91) applies stablehlo.add across dimensions = [3] : (tensor<8x4x32x1xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %394 = stablehlo.broadcast_in_dim %393, dims = [0, 1, 2] : (tensor<8x4x32xf32>) -> tensor<8x4x32x32xf32>
    %395 = stablehlo.add %392, %394 : tensor<8x4x32x32xf32>
    %396 = stablehlo.multiply %395, %181 : tensor<8x4x32x32xf32>
    %397 = call @_where_2(%174#1, %396) : (tensor<8x4x32x32xi1>, tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
    %cst_92 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %398 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<8x4x32x32xf32>
    %399 = stablehlo.divide %397, %398 : tensor<8x4x32x32xf32>
    %400 = stablehlo.dot_general %399, %159, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x4x32x32xf32>, tensor<8x32x4x8xf32>) -> tensor<8x4x32x8xf32>
    %401 = stablehlo.transpose %400, dims = [0, 2, 1, 3] : (tensor<8x4x32x8xf32>) -> tensor<8x32x4x8xf32>
    %402 = stablehlo.dot_general %399, %161, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x4x32x32xf32>, tensor<8x32x4x8xf32>) -> tensor<8x4x32x8xf32>
    %403 = stablehlo.transpose %402, dims = [0, 2, 1, 3] : (tensor<8x4x32x8xf32>) -> tensor<8x32x4x8xf32>
    %404 = stablehlo.broadcast_in_dim %384, dims = [0, 1, 3, 4] : (tensor<8x32x4x8xf32>) -> tensor<8x32x1x4x8xf32>
    %cst_93 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %405 = stablehlo.pad %404, %cst_93, low = [0, 0, 2, 0, 0], high = [0, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<8x32x1x4x8xf32>, tensor<f32>) -> tensor<8x32x3x4x8xf32>
    %406 = stablehlo.broadcast_in_dim %401, dims = [0, 1, 3, 4] : (tensor<8x32x4x8xf32>) -> tensor<8x32x1x4x8xf32>
    %cst_94 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %407 = stablehlo.pad %406, %cst_94, low = [0, 0, 1, 0, 0], high = [0, 0, 1, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<8x32x1x4x8xf32>, tensor<f32>) -> tensor<8x32x3x4x8xf32>
    %408 = stablehlo.add %405, %407 : tensor<8x32x3x4x8xf32>
    %409 = stablehlo.broadcast_in_dim %403, dims = [0, 1, 3, 4] : (tensor<8x32x4x8xf32>) -> tensor<8x32x1x4x8xf32>
    %cst_95 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %410 = stablehlo.pad %409, %cst_95, low = [0, 0, 0, 0, 0], high = [0, 0, 2, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<8x32x1x4x8xf32>, tensor<f32>) -> tensor<8x32x3x4x8xf32>
    %411 = stablehlo.add %408, %410 : tensor<8x32x3x4x8xf32>
    %412 = stablehlo.reshape %411 : (tensor<8x32x3x4x8xf32>) -> tensor<8x32x96xf32>
    %413 = stablehlo.dot_general %412, %155, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x96xf32>, tensor<8x32x32xf32>) -> tensor<96x32xf32>
    %414 = stablehlo.transpose %413, dims = [1, 0] : (tensor<96x32xf32>) -> tensor<32x96xf32>
    %415 = stablehlo.dot_general %412, %arg19, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x96xf32>, tensor<32x96xf32>) -> tensor<8x32x32xf32>
    %cst_96 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %416 = stablehlo.reduce(%415 init: %cst_96) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %417 = stablehlo.reshape %416 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %cst_97 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %418 = stablehlo.reduce(%417 init: %cst_97) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %419 = stablehlo.multiply %149, %415 : tensor<8x32x32xf32>
    %cst_98 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %420 = stablehlo.reduce(%419 init: %cst_98) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %421 = stablehlo.reshape %420 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %422 = stablehlo.broadcast_in_dim %150, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %423 = stablehlo.multiply %415, %422 : tensor<8x32x32xf32>
    %cst_99 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %424 = stablehlo.reduce(%421 init: %cst_99) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %425 = stablehlo.multiply %134, %423 : tensor<8x32x32xf32>
    %cst_100 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %426 = stablehlo.reduce(%425 init: %cst_100) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %427 = stablehlo.reshape %426 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %428 = stablehlo.broadcast_in_dim %144, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %429 = stablehlo.multiply %423, %428 : tensor<8x32x32xf32>
    %430 = stablehlo.multiply %427, %147 : tensor<8x32x1xf32>
    %cst_101 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %431 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %432 = stablehlo.divide %430, %431 : tensor<8x32x1xf32>
    %cst_102 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %433 = stablehlo.reduce(%432 init: %cst_102) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %434 = stablehlo.broadcast_in_dim %433, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x32xf32>
    %435 = stablehlo.multiply %434, %137 : tensor<8x32x32xf32>
    %436 = stablehlo.add %429, %435 : tensor<8x32x32xf32>
    %437 = stablehlo.negate %436 : tensor<8x32x32xf32>
    %cst_103 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %438 = stablehlo.reduce(%437 init: %cst_103) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %439 = stablehlo.reshape %438 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %440 = stablehlo.add %376, %436 : tensor<8x32x32xf32>
    %cst_104 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %441 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %442 = stablehlo.divide %439, %441 : tensor<8x32x1xf32>
    %cst_105 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %443 = stablehlo.reduce(%442 init: %cst_105) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %444 = stablehlo.broadcast_in_dim %443, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x32xf32>
    %445 = stablehlo.add %440, %444 : tensor<8x32x32xf32>
    %cst_106 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %446 = stablehlo.reduce(%445 init: %cst_106) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %447 = stablehlo.reshape %446 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %cst_107 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %448 = stablehlo.reduce(%447 init: %cst_107) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %449 = stablehlo.dot_general %445, %123, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x128xf32>) -> tensor<32x128xf32>
    %450 = stablehlo.transpose %449, dims = [1, 0] : (tensor<32x128xf32>) -> tensor<128x32xf32>
    %451 = stablehlo.dot_general %445, %arg2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<128x32xf32>) -> tensor<8x32x128xf32>
    %452 = stablehlo.multiply %105, %451 : tensor<8x32x128xf32>
    %453 = stablehlo.multiply %451, %122 : tensor<8x32x128xf32>
    %cst_108 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %454 = stablehlo.broadcast_in_dim %cst_108, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %455 = stablehlo.multiply %454, %452 : tensor<8x32x128xf32>
    %456 = stablehlo.multiply %455, %118 : tensor<8x32x128xf32>
    %457 = stablehlo.multiply %456, %116 : tensor<8x32x128xf32>
    %458 = stablehlo.add %456, %457 : tensor<8x32x128xf32>
    %cst_109 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %459 = stablehlo.broadcast_in_dim %cst_109, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %460 = stablehlo.multiply %459, %458 : tensor<8x32x128xf32>
    %461 = stablehlo.add %453, %460 : tensor<8x32x128xf32>
    %cst_110 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %462 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %463 = stablehlo.multiply %462, %460 : tensor<8x32x128xf32>
    %464 = stablehlo.multiply %463, %110 : tensor<8x32x128xf32>
    %465 = stablehlo.add %461, %464 : tensor<8x32x128xf32>
    %cst_111 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %466 = stablehlo.reduce(%465 init: %cst_111) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x128xf32>, tensor<f32>) -> tensor<128xf32>
    %467 = stablehlo.reshape %466 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %cst_112 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %468 = stablehlo.reduce(%467 init: %cst_112) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xf32>, tensor<f32>) -> tensor<128xf32>
    %469 = stablehlo.dot_general %465, %101, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x128xf32>, tensor<8x32x32xf32>) -> tensor<128x32xf32>
    %470 = stablehlo.transpose %469, dims = [1, 0] : (tensor<128x32xf32>) -> tensor<32x128xf32>
    %471 = stablehlo.dot_general %465, %arg10, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x128xf32>, tensor<32x128xf32>) -> tensor<8x32x32xf32>
    %cst_113 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %472 = stablehlo.reduce(%471 init: %cst_113) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %473 = stablehlo.reshape %472 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %cst_114 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %474 = stablehlo.reduce(%473 init: %cst_114) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %475 = stablehlo.multiply %95, %471 : tensor<8x32x32xf32>
    %cst_115 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %476 = stablehlo.reduce(%475 init: %cst_115) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %477 = stablehlo.reshape %476 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %478 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %479 = stablehlo.multiply %471, %478 : tensor<8x32x32xf32>
    %cst_116 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %480 = stablehlo.reduce(%477 init: %cst_116) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %481 = stablehlo.multiply %80, %479 : tensor<8x32x32xf32>
    %cst_117 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %482 = stablehlo.reduce(%481 init: %cst_117) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %483 = stablehlo.reshape %482 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %484 = stablehlo.broadcast_in_dim %90, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %485 = stablehlo.multiply %479, %484 : tensor<8x32x32xf32>
    %486 = stablehlo.multiply %483, %93 : tensor<8x32x1xf32>
    %cst_118 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %487 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %488 = stablehlo.divide %486, %487 : tensor<8x32x1xf32>
    %cst_119 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %489 = stablehlo.reduce(%488 init: %cst_119) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %490 = stablehlo.broadcast_in_dim %489, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x32xf32>
    %491 = stablehlo.multiply %490, %83 : tensor<8x32x32xf32>
    %492 = stablehlo.add %485, %491 : tensor<8x32x32xf32>
    %493 = stablehlo.negate %492 : tensor<8x32x32xf32>
    %cst_120 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %494 = stablehlo.reduce(%493 init: %cst_120) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %495 = stablehlo.reshape %494 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %496 = stablehlo.add %445, %492 : tensor<8x32x32xf32>
    %cst_121 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %497 = stablehlo.broadcast_in_dim %cst_121, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %498 = stablehlo.divide %495, %497 : tensor<8x32x1xf32>
    %cst_122 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %499 = stablehlo.reduce(%498 init: %cst_122) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %500 = stablehlo.broadcast_in_dim %499, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x32xf32>
    %501 = stablehlo.add %496, %500 : tensor<8x32x32xf32>
    %502 = stablehlo.dot_general %501, %72, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x32xf32>) -> tensor<32x32xf32>
    %503 = stablehlo.transpose %502, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %504 = stablehlo.dot_general %501, %arg4, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<32x32xf32>) -> tensor<8x32x32xf32>
    %505 = stablehlo.reshape %504 : (tensor<8x32x32xf32>) -> tensor<8x32x4x8xf32>
    %506 = stablehlo.transpose %505, dims = [0, 2, 3, 1] : (tensor<8x32x4x8xf32>) -> tensor<8x4x8x32xf32>
    %507 = stablehlo.dot_general %506, %44, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x4x8x32xf32>, tensor<8x32x4x8xf32>) -> tensor<8x4x32x32xf32>
    %508 = stablehlo.dot_general %506, %66, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<8x4x8x32xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x8x32xf32>
    %509 = stablehlo.transpose %508, dims = [0, 3, 1, 2] : (tensor<8x4x8x32xf32>) -> tensor<8x32x4x8xf32>
    %510 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %511 = stablehlo.multiply %507, %510 : tensor<8x4x32x32xf32>
    %512 = stablehlo.multiply %511, %62 : tensor<8x4x32x32xf32>
    %cst_123 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %513 = stablehlo.reduce(%512 init: %cst_123) applies stablehlo.add across dimensions = [3] : (tensor<8x4x32x32xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %514 = stablehlo.reshape %513 : (tensor<8x4x32xf32>) -> tensor<8x4x32x1xf32>
    %515 = stablehlo.negate %514 : tensor<8x4x32x1xf32>
    %516 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %517 = stablehlo.divide %507, %516 : tensor<8x4x32x32xf32>
    %cst_124 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %518 = stablehlo.reduce(%515 init: %cst_124) applies stablehlo.add across dimensions = [3] : (tensor<8x4x32x1xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %519 = stablehlo.broadcast_in_dim %518, dims = [0, 1, 2] : (tensor<8x4x32xf32>) -> tensor<8x4x32x32xf32>
    %520 = stablehlo.add %517, %519 : tensor<8x4x32x32xf32>
    %521 = stablehlo.multiply %520, %62 : tensor<8x4x32x32xf32>
    %522 = call @_where_2(%55#1, %521) : (tensor<8x4x32x32xi1>, tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
    %cst_125 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %523 = stablehlo.broadcast_in_dim %cst_125, dims = [] : (tensor<f32>) -> tensor<8x4x32x32xf32>
    %524 = stablehlo.divide %522, %523 : tensor<8x4x32x32xf32>
    %525 = stablehlo.dot_general %524, %40, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x4x32x32xf32>, tensor<8x32x4x8xf32>) -> tensor<8x4x32x8xf32>
    %526 = stablehlo.transpose %525, dims = [0, 2, 1, 3] : (tensor<8x4x32x8xf32>) -> tensor<8x32x4x8xf32>
    %527 = stablehlo.dot_general %524, %42, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x4x32x32xf32>, tensor<8x32x4x8xf32>) -> tensor<8x4x32x8xf32>
    %528 = stablehlo.transpose %527, dims = [0, 2, 1, 3] : (tensor<8x4x32x8xf32>) -> tensor<8x32x4x8xf32>
    %529 = stablehlo.broadcast_in_dim %509, dims = [0, 1, 3, 4] : (tensor<8x32x4x8xf32>) -> tensor<8x32x1x4x8xf32>
    %cst_126 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %530 = stablehlo.pad %529, %cst_126, low = [0, 0, 2, 0, 0], high = [0, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<8x32x1x4x8xf32>, tensor<f32>) -> tensor<8x32x3x4x8xf32>
    %531 = stablehlo.broadcast_in_dim %526, dims = [0, 1, 3, 4] : (tensor<8x32x4x8xf32>) -> tensor<8x32x1x4x8xf32>
    %cst_127 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %532 = stablehlo.pad %531, %cst_127, low = [0, 0, 1, 0, 0], high = [0, 0, 1, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<8x32x1x4x8xf32>, tensor<f32>) -> tensor<8x32x3x4x8xf32>
    %533 = stablehlo.add %530, %532 : tensor<8x32x3x4x8xf32>
    %534 = stablehlo.broadcast_in_dim %528, dims = [0, 1, 3, 4] : (tensor<8x32x4x8xf32>) -> tensor<8x32x1x4x8xf32>
    %cst_128 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %535 = stablehlo.pad %534, %cst_128, low = [0, 0, 0, 0, 0], high = [0, 0, 2, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<8x32x1x4x8xf32>, tensor<f32>) -> tensor<8x32x3x4x8xf32>
    %536 = stablehlo.add %533, %535 : tensor<8x32x3x4x8xf32>
    %537 = stablehlo.reshape %536 : (tensor<8x32x3x4x8xf32>) -> tensor<8x32x96xf32>
    %538 = stablehlo.dot_general %537, %36, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x96xf32>, tensor<8x32x32xf32>) -> tensor<96x32xf32>
    %539 = stablehlo.transpose %538, dims = [1, 0] : (tensor<96x32xf32>) -> tensor<32x96xf32>
    %540 = stablehlo.dot_general %537, %arg9, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x96xf32>, tensor<32x96xf32>) -> tensor<8x32x32xf32>
    %cst_129 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %541 = stablehlo.reduce(%540 init: %cst_129) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %542 = stablehlo.reshape %541 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %cst_130 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %543 = stablehlo.reduce(%542 init: %cst_130) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %544 = stablehlo.multiply %30, %540 : tensor<8x32x32xf32>
    %cst_131 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %545 = stablehlo.reduce(%544 init: %cst_131) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %546 = stablehlo.reshape %545 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %547 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<8x32x32xf32>
    %548 = stablehlo.multiply %540, %547 : tensor<8x32x32xf32>
    %cst_132 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %549 = stablehlo.reduce(%546 init: %cst_132) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %550 = stablehlo.multiply %15, %548 : tensor<8x32x32xf32>
    %cst_133 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %551 = stablehlo.reduce(%550 init: %cst_133) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %552 = stablehlo.reshape %551 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %553 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x32xf32>
    %554 = stablehlo.multiply %548, %553 : tensor<8x32x32xf32>
    %555 = stablehlo.multiply %552, %28 : tensor<8x32x1xf32>
    %cst_134 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %556 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %557 = stablehlo.divide %555, %556 : tensor<8x32x1xf32>
    %cst_135 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %558 = stablehlo.reduce(%557 init: %cst_135) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %559 = stablehlo.broadcast_in_dim %558, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x32xf32>
    %560 = stablehlo.multiply %559, %18 : tensor<8x32x32xf32>
    %561 = stablehlo.add %554, %560 : tensor<8x32x32xf32>
    %562 = stablehlo.negate %561 : tensor<8x32x32xf32>
    %cst_136 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %563 = stablehlo.reduce(%562 init: %cst_136) applies stablehlo.add across dimensions = [2] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    %564 = stablehlo.reshape %563 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %565 = stablehlo.add %501, %561 : tensor<8x32x32xf32>
    %cst_137 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %566 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %567 = stablehlo.divide %564, %566 : tensor<8x32x1xf32>
    %cst_138 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %568 = stablehlo.reduce(%567 init: %cst_138) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %569 = stablehlo.broadcast_in_dim %568, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x32xf32>
    %570 = stablehlo.add %565, %569 : tensor<8x32x32xf32>
    %cst_139 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %571 = stablehlo.reduce(%570 init: %cst_139) applies stablehlo.add across dimensions = [0] : (tensor<8x32x32xf32>, tensor<f32>) -> tensor<32x32xf32>
    %572 = stablehlo.reshape %571 : (tensor<32x32xf32>) -> tensor<1x32x32xf32>
    %cst_140 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %573 = stablehlo.reduce(%572 init: %cst_140) applies stablehlo.add across dimensions = [0] : (tensor<1x32x32xf32>, tensor<f32>) -> tensor<32x32xf32>
    %cst_141 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %574 = stablehlo.broadcast_in_dim %cst_141, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %575 = "stablehlo.scatter"(%574, %5, %570) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg75: tensor<f32>, %arg76: tensor<f32>):
      %1110 = stablehlo.add %arg75, %arg76 : tensor<f32>
      stablehlo.return %1110 : tensor<f32>
    }) : (tensor<128x32xf32>, tensor<8x32x1xi32>, tensor<8x32x32xf32>) -> tensor<128x32xf32>
    %576 = stablehlo.add %291, %575 : tensor<128x32xf32>
    %cst_142 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %577 = stablehlo.broadcast_in_dim %cst_142, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %578 = stablehlo.multiply %577, %arg24 : tensor<32xf32>
    %cst_143 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %579 = stablehlo.broadcast_in_dim %cst_143, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %580 = stablehlo.multiply %579, %294 : tensor<32xf32>
    %581 = stablehlo.add %578, %580 : tensor<32xf32>
    %cst_144 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %582 = stablehlo.broadcast_in_dim %cst_144, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %583 = stablehlo.multiply %582, %arg25 : tensor<32xf32>
    %cst_145 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %584 = stablehlo.broadcast_in_dim %cst_145, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %585 = stablehlo.multiply %584, %300 : tensor<32xf32>
    %586 = stablehlo.add %583, %585 : tensor<32xf32>
    %cst_146 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %587 = stablehlo.broadcast_in_dim %cst_146, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %588 = stablehlo.multiply %587, %arg26 : tensor<128x32xf32>
    %cst_147 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %589 = stablehlo.broadcast_in_dim %cst_147, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %590 = stablehlo.multiply %589, %450 : tensor<128x32xf32>
    %591 = stablehlo.add %588, %590 : tensor<128x32xf32>
    %cst_148 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %592 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %593 = stablehlo.multiply %592, %arg27 : tensor<32xf32>
    %cst_149 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %594 = stablehlo.broadcast_in_dim %cst_149, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %595 = stablehlo.multiply %594, %448 : tensor<32xf32>
    %596 = stablehlo.add %593, %595 : tensor<32xf32>
    %cst_150 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %597 = stablehlo.broadcast_in_dim %cst_150, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %598 = stablehlo.multiply %597, %arg28 : tensor<32x32xf32>
    %cst_151 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %599 = stablehlo.broadcast_in_dim %cst_151, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %600 = stablehlo.multiply %599, %503 : tensor<32x32xf32>
    %601 = stablehlo.add %598, %600 : tensor<32x32xf32>
    %cst_152 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %602 = stablehlo.broadcast_in_dim %cst_152, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %603 = stablehlo.multiply %602, %arg29 : tensor<32xf32>
    %cst_153 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %604 = stablehlo.broadcast_in_dim %cst_153, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %605 = stablehlo.multiply %604, %543 : tensor<32xf32>
    %606 = stablehlo.add %603, %605 : tensor<32xf32>
    %cst_154 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %607 = stablehlo.broadcast_in_dim %cst_154, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %608 = stablehlo.multiply %607, %arg30 : tensor<32xf32>
    %cst_155 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %609 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %610 = stablehlo.multiply %609, %549 : tensor<32xf32>
    %611 = stablehlo.add %608, %610 : tensor<32xf32>
    %cst_156 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %612 = stablehlo.broadcast_in_dim %cst_156, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %613 = stablehlo.multiply %612, %arg31 : tensor<32xf32>
    %cst_157 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %614 = stablehlo.broadcast_in_dim %cst_157, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %615 = stablehlo.multiply %614, %474 : tensor<32xf32>
    %616 = stablehlo.add %613, %615 : tensor<32xf32>
    %cst_158 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %617 = stablehlo.broadcast_in_dim %cst_158, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %618 = stablehlo.multiply %617, %arg32 : tensor<32xf32>
    %cst_159 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %619 = stablehlo.broadcast_in_dim %cst_159, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %620 = stablehlo.multiply %619, %480 : tensor<32xf32>
    %621 = stablehlo.add %618, %620 : tensor<32xf32>
    %cst_160 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %622 = stablehlo.broadcast_in_dim %cst_160, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %623 = stablehlo.multiply %622, %arg33 : tensor<32x96xf32>
    %cst_161 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %624 = stablehlo.broadcast_in_dim %cst_161, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %625 = stablehlo.multiply %624, %539 : tensor<32x96xf32>
    %626 = stablehlo.add %623, %625 : tensor<32x96xf32>
    %cst_162 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %627 = stablehlo.broadcast_in_dim %cst_162, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %628 = stablehlo.multiply %627, %arg34 : tensor<32x128xf32>
    %cst_163 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %629 = stablehlo.broadcast_in_dim %cst_163, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %630 = stablehlo.multiply %629, %470 : tensor<32x128xf32>
    %631 = stablehlo.add %628, %630 : tensor<32x128xf32>
    %cst_164 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %632 = stablehlo.broadcast_in_dim %cst_164, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %633 = stablehlo.multiply %632, %arg35 : tensor<128xf32>
    %cst_165 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %634 = stablehlo.broadcast_in_dim %cst_165, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %635 = stablehlo.multiply %634, %468 : tensor<128xf32>
    %636 = stablehlo.add %633, %635 : tensor<128xf32>
    %cst_166 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %637 = stablehlo.broadcast_in_dim %cst_166, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %638 = stablehlo.multiply %637, %arg36 : tensor<128x32xf32>
    %cst_167 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %639 = stablehlo.broadcast_in_dim %cst_167, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %640 = stablehlo.multiply %639, %325 : tensor<128x32xf32>
    %641 = stablehlo.add %638, %640 : tensor<128x32xf32>
    %cst_168 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %642 = stablehlo.broadcast_in_dim %cst_168, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %643 = stablehlo.multiply %642, %arg37 : tensor<32xf32>
    %cst_169 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %644 = stablehlo.broadcast_in_dim %cst_169, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %645 = stablehlo.multiply %644, %323 : tensor<32xf32>
    %646 = stablehlo.add %643, %645 : tensor<32xf32>
    %cst_170 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %647 = stablehlo.broadcast_in_dim %cst_170, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %648 = stablehlo.multiply %647, %arg38 : tensor<32x32xf32>
    %cst_171 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %649 = stablehlo.broadcast_in_dim %cst_171, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %650 = stablehlo.multiply %649, %378 : tensor<32x32xf32>
    %651 = stablehlo.add %648, %650 : tensor<32x32xf32>
    %cst_172 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %652 = stablehlo.broadcast_in_dim %cst_172, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %653 = stablehlo.multiply %652, %arg39 : tensor<32xf32>
    %cst_173 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %654 = stablehlo.broadcast_in_dim %cst_173, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %655 = stablehlo.multiply %654, %418 : tensor<32xf32>
    %656 = stablehlo.add %653, %655 : tensor<32xf32>
    %cst_174 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %657 = stablehlo.broadcast_in_dim %cst_174, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %658 = stablehlo.multiply %657, %arg40 : tensor<32xf32>
    %cst_175 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %659 = stablehlo.broadcast_in_dim %cst_175, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %660 = stablehlo.multiply %659, %424 : tensor<32xf32>
    %661 = stablehlo.add %658, %660 : tensor<32xf32>
    %cst_176 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %662 = stablehlo.broadcast_in_dim %cst_176, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %663 = stablehlo.multiply %662, %arg41 : tensor<32xf32>
    %cst_177 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %664 = stablehlo.broadcast_in_dim %cst_177, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %665 = stablehlo.multiply %664, %349 : tensor<32xf32>
    %666 = stablehlo.add %663, %665 : tensor<32xf32>
    %cst_178 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %667 = stablehlo.broadcast_in_dim %cst_178, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %668 = stablehlo.multiply %667, %arg42 : tensor<32xf32>
    %cst_179 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %669 = stablehlo.broadcast_in_dim %cst_179, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %670 = stablehlo.multiply %669, %355 : tensor<32xf32>
    %671 = stablehlo.add %668, %670 : tensor<32xf32>
    %cst_180 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %672 = stablehlo.broadcast_in_dim %cst_180, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %673 = stablehlo.multiply %672, %arg43 : tensor<32x96xf32>
    %cst_181 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %674 = stablehlo.broadcast_in_dim %cst_181, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %675 = stablehlo.multiply %674, %414 : tensor<32x96xf32>
    %676 = stablehlo.add %673, %675 : tensor<32x96xf32>
    %cst_182 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %677 = stablehlo.broadcast_in_dim %cst_182, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %678 = stablehlo.multiply %677, %arg44 : tensor<32x128xf32>
    %cst_183 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %679 = stablehlo.broadcast_in_dim %cst_183, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %680 = stablehlo.multiply %679, %345 : tensor<32x128xf32>
    %681 = stablehlo.add %678, %680 : tensor<32x128xf32>
    %cst_184 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %682 = stablehlo.broadcast_in_dim %cst_184, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %683 = stablehlo.multiply %682, %arg45 : tensor<128xf32>
    %cst_185 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %684 = stablehlo.broadcast_in_dim %cst_185, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %685 = stablehlo.multiply %684, %343 : tensor<128xf32>
    %686 = stablehlo.add %683, %685 : tensor<128xf32>
    %cst_186 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %687 = stablehlo.broadcast_in_dim %cst_186, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %688 = stablehlo.multiply %687, %arg46 : tensor<32x32xf32>
    %cst_187 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %689 = stablehlo.broadcast_in_dim %cst_187, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %690 = stablehlo.multiply %689, %573 : tensor<32x32xf32>
    %691 = stablehlo.add %688, %690 : tensor<32x32xf32>
    %cst_188 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %692 = stablehlo.broadcast_in_dim %cst_188, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %693 = stablehlo.multiply %692, %arg47 : tensor<128x32xf32>
    %cst_189 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %694 = stablehlo.broadcast_in_dim %cst_189, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %695 = stablehlo.multiply %694, %576 : tensor<128x32xf32>
    %696 = stablehlo.add %693, %695 : tensor<128x32xf32>
    %cst_190 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %697 = stablehlo.broadcast_in_dim %cst_190, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %698 = stablehlo.multiply %697, %arg48 : tensor<32xf32>
    %cst_191 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %699 = stablehlo.broadcast_in_dim %cst_191, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %700 = stablehlo.multiply %699, %294 : tensor<32xf32>
    %701 = stablehlo.multiply %700, %294 : tensor<32xf32>
    %702 = stablehlo.add %698, %701 : tensor<32xf32>
    %cst_192 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %703 = stablehlo.broadcast_in_dim %cst_192, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %704 = stablehlo.multiply %703, %arg49 : tensor<32xf32>
    %cst_193 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %705 = stablehlo.broadcast_in_dim %cst_193, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %706 = stablehlo.multiply %705, %300 : tensor<32xf32>
    %707 = stablehlo.multiply %706, %300 : tensor<32xf32>
    %708 = stablehlo.add %704, %707 : tensor<32xf32>
    %cst_194 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %709 = stablehlo.broadcast_in_dim %cst_194, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %710 = stablehlo.multiply %709, %arg50 : tensor<128x32xf32>
    %cst_195 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %711 = stablehlo.broadcast_in_dim %cst_195, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %712 = stablehlo.multiply %711, %450 : tensor<128x32xf32>
    %713 = stablehlo.multiply %712, %450 : tensor<128x32xf32>
    %714 = stablehlo.add %710, %713 : tensor<128x32xf32>
    %cst_196 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %715 = stablehlo.broadcast_in_dim %cst_196, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %716 = stablehlo.multiply %715, %arg51 : tensor<32xf32>
    %cst_197 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %717 = stablehlo.broadcast_in_dim %cst_197, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %718 = stablehlo.multiply %717, %448 : tensor<32xf32>
    %719 = stablehlo.multiply %718, %448 : tensor<32xf32>
    %720 = stablehlo.add %716, %719 : tensor<32xf32>
    %cst_198 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %721 = stablehlo.broadcast_in_dim %cst_198, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %722 = stablehlo.multiply %721, %arg52 : tensor<32x32xf32>
    %cst_199 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %723 = stablehlo.broadcast_in_dim %cst_199, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %724 = stablehlo.multiply %723, %503 : tensor<32x32xf32>
    %725 = stablehlo.multiply %724, %503 : tensor<32x32xf32>
    %726 = stablehlo.add %722, %725 : tensor<32x32xf32>
    %cst_200 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %727 = stablehlo.broadcast_in_dim %cst_200, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %728 = stablehlo.multiply %727, %arg53 : tensor<32xf32>
    %cst_201 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %729 = stablehlo.broadcast_in_dim %cst_201, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %730 = stablehlo.multiply %729, %543 : tensor<32xf32>
    %731 = stablehlo.multiply %730, %543 : tensor<32xf32>
    %732 = stablehlo.add %728, %731 : tensor<32xf32>
    %cst_202 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %733 = stablehlo.broadcast_in_dim %cst_202, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %734 = stablehlo.multiply %733, %arg54 : tensor<32xf32>
    %cst_203 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %735 = stablehlo.broadcast_in_dim %cst_203, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %736 = stablehlo.multiply %735, %549 : tensor<32xf32>
    %737 = stablehlo.multiply %736, %549 : tensor<32xf32>
    %738 = stablehlo.add %734, %737 : tensor<32xf32>
    %cst_204 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %739 = stablehlo.broadcast_in_dim %cst_204, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %740 = stablehlo.multiply %739, %arg55 : tensor<32xf32>
    %cst_205 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %741 = stablehlo.broadcast_in_dim %cst_205, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %742 = stablehlo.multiply %741, %474 : tensor<32xf32>
    %743 = stablehlo.multiply %742, %474 : tensor<32xf32>
    %744 = stablehlo.add %740, %743 : tensor<32xf32>
    %cst_206 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %745 = stablehlo.broadcast_in_dim %cst_206, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %746 = stablehlo.multiply %745, %arg56 : tensor<32xf32>
    %cst_207 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %747 = stablehlo.broadcast_in_dim %cst_207, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %748 = stablehlo.multiply %747, %480 : tensor<32xf32>
    %749 = stablehlo.multiply %748, %480 : tensor<32xf32>
    %750 = stablehlo.add %746, %749 : tensor<32xf32>
    %cst_208 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %751 = stablehlo.broadcast_in_dim %cst_208, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %752 = stablehlo.multiply %751, %arg57 : tensor<32x96xf32>
    %cst_209 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %753 = stablehlo.broadcast_in_dim %cst_209, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %754 = stablehlo.multiply %753, %539 : tensor<32x96xf32>
    %755 = stablehlo.multiply %754, %539 : tensor<32x96xf32>
    %756 = stablehlo.add %752, %755 : tensor<32x96xf32>
    %cst_210 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %757 = stablehlo.broadcast_in_dim %cst_210, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %758 = stablehlo.multiply %757, %arg58 : tensor<32x128xf32>
    %cst_211 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %759 = stablehlo.broadcast_in_dim %cst_211, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %760 = stablehlo.multiply %759, %470 : tensor<32x128xf32>
    %761 = stablehlo.multiply %760, %470 : tensor<32x128xf32>
    %762 = stablehlo.add %758, %761 : tensor<32x128xf32>
    %cst_212 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %763 = stablehlo.broadcast_in_dim %cst_212, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %764 = stablehlo.multiply %763, %arg59 : tensor<128xf32>
    %cst_213 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %765 = stablehlo.broadcast_in_dim %cst_213, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %766 = stablehlo.multiply %765, %468 : tensor<128xf32>
    %767 = stablehlo.multiply %766, %468 : tensor<128xf32>
    %768 = stablehlo.add %764, %767 : tensor<128xf32>
    %cst_214 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %769 = stablehlo.broadcast_in_dim %cst_214, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %770 = stablehlo.multiply %769, %arg60 : tensor<128x32xf32>
    %cst_215 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %771 = stablehlo.broadcast_in_dim %cst_215, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %772 = stablehlo.multiply %771, %325 : tensor<128x32xf32>
    %773 = stablehlo.multiply %772, %325 : tensor<128x32xf32>
    %774 = stablehlo.add %770, %773 : tensor<128x32xf32>
    %cst_216 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %775 = stablehlo.broadcast_in_dim %cst_216, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %776 = stablehlo.multiply %775, %arg61 : tensor<32xf32>
    %cst_217 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %777 = stablehlo.broadcast_in_dim %cst_217, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %778 = stablehlo.multiply %777, %323 : tensor<32xf32>
    %779 = stablehlo.multiply %778, %323 : tensor<32xf32>
    %780 = stablehlo.add %776, %779 : tensor<32xf32>
    %cst_218 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %781 = stablehlo.broadcast_in_dim %cst_218, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %782 = stablehlo.multiply %781, %arg62 : tensor<32x32xf32>
    %cst_219 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %783 = stablehlo.broadcast_in_dim %cst_219, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %784 = stablehlo.multiply %783, %378 : tensor<32x32xf32>
    %785 = stablehlo.multiply %784, %378 : tensor<32x32xf32>
    %786 = stablehlo.add %782, %785 : tensor<32x32xf32>
    %cst_220 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %787 = stablehlo.broadcast_in_dim %cst_220, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %788 = stablehlo.multiply %787, %arg63 : tensor<32xf32>
    %cst_221 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %789 = stablehlo.broadcast_in_dim %cst_221, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %790 = stablehlo.multiply %789, %418 : tensor<32xf32>
    %791 = stablehlo.multiply %790, %418 : tensor<32xf32>
    %792 = stablehlo.add %788, %791 : tensor<32xf32>
    %cst_222 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %793 = stablehlo.broadcast_in_dim %cst_222, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %794 = stablehlo.multiply %793, %arg64 : tensor<32xf32>
    %cst_223 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %795 = stablehlo.broadcast_in_dim %cst_223, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %796 = stablehlo.multiply %795, %424 : tensor<32xf32>
    %797 = stablehlo.multiply %796, %424 : tensor<32xf32>
    %798 = stablehlo.add %794, %797 : tensor<32xf32>
    %cst_224 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %799 = stablehlo.broadcast_in_dim %cst_224, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %800 = stablehlo.multiply %799, %arg65 : tensor<32xf32>
    %cst_225 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %801 = stablehlo.broadcast_in_dim %cst_225, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %802 = stablehlo.multiply %801, %349 : tensor<32xf32>
    %803 = stablehlo.multiply %802, %349 : tensor<32xf32>
    %804 = stablehlo.add %800, %803 : tensor<32xf32>
    %cst_226 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %805 = stablehlo.broadcast_in_dim %cst_226, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %806 = stablehlo.multiply %805, %arg66 : tensor<32xf32>
    %cst_227 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %807 = stablehlo.broadcast_in_dim %cst_227, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %808 = stablehlo.multiply %807, %355 : tensor<32xf32>
    %809 = stablehlo.multiply %808, %355 : tensor<32xf32>
    %810 = stablehlo.add %806, %809 : tensor<32xf32>
    %cst_228 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %811 = stablehlo.broadcast_in_dim %cst_228, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %812 = stablehlo.multiply %811, %arg67 : tensor<32x96xf32>
    %cst_229 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %813 = stablehlo.broadcast_in_dim %cst_229, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %814 = stablehlo.multiply %813, %414 : tensor<32x96xf32>
    %815 = stablehlo.multiply %814, %414 : tensor<32x96xf32>
    %816 = stablehlo.add %812, %815 : tensor<32x96xf32>
    %cst_230 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %817 = stablehlo.broadcast_in_dim %cst_230, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %818 = stablehlo.multiply %817, %arg68 : tensor<32x128xf32>
    %cst_231 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %819 = stablehlo.broadcast_in_dim %cst_231, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %820 = stablehlo.multiply %819, %345 : tensor<32x128xf32>
    %821 = stablehlo.multiply %820, %345 : tensor<32x128xf32>
    %822 = stablehlo.add %818, %821 : tensor<32x128xf32>
    %cst_232 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %823 = stablehlo.broadcast_in_dim %cst_232, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %824 = stablehlo.multiply %823, %arg69 : tensor<128xf32>
    %cst_233 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %825 = stablehlo.broadcast_in_dim %cst_233, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %826 = stablehlo.multiply %825, %343 : tensor<128xf32>
    %827 = stablehlo.multiply %826, %343 : tensor<128xf32>
    %828 = stablehlo.add %824, %827 : tensor<128xf32>
    %cst_234 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %829 = stablehlo.broadcast_in_dim %cst_234, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %830 = stablehlo.multiply %829, %arg70 : tensor<32x32xf32>
    %cst_235 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %831 = stablehlo.broadcast_in_dim %cst_235, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %832 = stablehlo.multiply %831, %573 : tensor<32x32xf32>
    %833 = stablehlo.multiply %832, %573 : tensor<32x32xf32>
    %834 = stablehlo.add %830, %833 : tensor<32x32xf32>
    %cst_236 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %835 = stablehlo.broadcast_in_dim %cst_236, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %836 = stablehlo.multiply %835, %arg71 : tensor<128x32xf32>
    %cst_237 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %837 = stablehlo.broadcast_in_dim %cst_237, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %838 = stablehlo.multiply %837, %576 : tensor<128x32xf32>
    %839 = stablehlo.multiply %838, %576 : tensor<128x32xf32>
    %840 = stablehlo.add %836, %839 : tensor<128x32xf32>
    %cst_238 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %841 = stablehlo.power %cst_238, %arg72 : tensor<f32>
    %cst_239 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %842 = stablehlo.subtract %cst_239, %841 : tensor<f32>
    %cst_240 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %843 = stablehlo.power %cst_240, %arg72 : tensor<f32>
    %cst_241 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %844 = stablehlo.subtract %cst_241, %843 : tensor<f32>
    %845 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %846 = stablehlo.divide %581, %845 : tensor<32xf32>
    %cst_242 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %847 = stablehlo.broadcast_in_dim %cst_242, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %848 = stablehlo.multiply %847, %846 : tensor<32xf32>
    %849 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %850 = stablehlo.divide %702, %849 : tensor<32xf32>
    %851 = stablehlo.sqrt %850 : tensor<32xf32>
    %cst_243 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %852 = stablehlo.broadcast_in_dim %cst_243, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %853 = stablehlo.add %851, %852 : tensor<32xf32>
    %854 = stablehlo.divide %848, %853 : tensor<32xf32>
    %855 = stablehlo.subtract %arg0, %854 : tensor<32xf32>
    %856 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %857 = stablehlo.divide %586, %856 : tensor<32xf32>
    %cst_244 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %858 = stablehlo.broadcast_in_dim %cst_244, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %859 = stablehlo.multiply %858, %857 : tensor<32xf32>
    %860 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %861 = stablehlo.divide %708, %860 : tensor<32xf32>
    %862 = stablehlo.sqrt %861 : tensor<32xf32>
    %cst_245 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %863 = stablehlo.broadcast_in_dim %cst_245, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %864 = stablehlo.add %862, %863 : tensor<32xf32>
    %865 = stablehlo.divide %859, %864 : tensor<32xf32>
    %866 = stablehlo.subtract %arg1, %865 : tensor<32xf32>
    %867 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %868 = stablehlo.divide %591, %867 : tensor<128x32xf32>
    %cst_246 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %869 = stablehlo.broadcast_in_dim %cst_246, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %870 = stablehlo.multiply %869, %868 : tensor<128x32xf32>
    %871 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %872 = stablehlo.divide %714, %871 : tensor<128x32xf32>
    %873 = stablehlo.sqrt %872 : tensor<128x32xf32>
    %cst_247 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %874 = stablehlo.broadcast_in_dim %cst_247, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %875 = stablehlo.add %873, %874 : tensor<128x32xf32>
    %876 = stablehlo.divide %870, %875 : tensor<128x32xf32>
    %877 = stablehlo.subtract %arg2, %876 : tensor<128x32xf32>
    %878 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %879 = stablehlo.divide %596, %878 : tensor<32xf32>
    %cst_248 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %880 = stablehlo.broadcast_in_dim %cst_248, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %881 = stablehlo.multiply %880, %879 : tensor<32xf32>
    %882 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %883 = stablehlo.divide %720, %882 : tensor<32xf32>
    %884 = stablehlo.sqrt %883 : tensor<32xf32>
    %cst_249 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %885 = stablehlo.broadcast_in_dim %cst_249, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %886 = stablehlo.add %884, %885 : tensor<32xf32>
    %887 = stablehlo.divide %881, %886 : tensor<32xf32>
    %888 = stablehlo.subtract %arg3, %887 : tensor<32xf32>
    %889 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %890 = stablehlo.divide %601, %889 : tensor<32x32xf32>
    %cst_250 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %891 = stablehlo.broadcast_in_dim %cst_250, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %892 = stablehlo.multiply %891, %890 : tensor<32x32xf32>
    %893 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %894 = stablehlo.divide %726, %893 : tensor<32x32xf32>
    %895 = stablehlo.sqrt %894 : tensor<32x32xf32>
    %cst_251 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %896 = stablehlo.broadcast_in_dim %cst_251, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %897 = stablehlo.add %895, %896 : tensor<32x32xf32>
    %898 = stablehlo.divide %892, %897 : tensor<32x32xf32>
    %899 = stablehlo.subtract %arg4, %898 : tensor<32x32xf32>
    %900 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %901 = stablehlo.divide %606, %900 : tensor<32xf32>
    %cst_252 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %902 = stablehlo.broadcast_in_dim %cst_252, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %903 = stablehlo.multiply %902, %901 : tensor<32xf32>
    %904 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %905 = stablehlo.divide %732, %904 : tensor<32xf32>
    %906 = stablehlo.sqrt %905 : tensor<32xf32>
    %cst_253 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %907 = stablehlo.broadcast_in_dim %cst_253, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %908 = stablehlo.add %906, %907 : tensor<32xf32>
    %909 = stablehlo.divide %903, %908 : tensor<32xf32>
    %910 = stablehlo.subtract %arg5, %909 : tensor<32xf32>
    %911 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %912 = stablehlo.divide %611, %911 : tensor<32xf32>
    %cst_254 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %913 = stablehlo.broadcast_in_dim %cst_254, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %914 = stablehlo.multiply %913, %912 : tensor<32xf32>
    %915 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %916 = stablehlo.divide %738, %915 : tensor<32xf32>
    %917 = stablehlo.sqrt %916 : tensor<32xf32>
    %cst_255 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %918 = stablehlo.broadcast_in_dim %cst_255, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %919 = stablehlo.add %917, %918 : tensor<32xf32>
    %920 = stablehlo.divide %914, %919 : tensor<32xf32>
    %921 = stablehlo.subtract %arg6, %920 : tensor<32xf32>
    %922 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %923 = stablehlo.divide %616, %922 : tensor<32xf32>
    %cst_256 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %924 = stablehlo.broadcast_in_dim %cst_256, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %925 = stablehlo.multiply %924, %923 : tensor<32xf32>
    %926 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %927 = stablehlo.divide %744, %926 : tensor<32xf32>
    %928 = stablehlo.sqrt %927 : tensor<32xf32>
    %cst_257 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %929 = stablehlo.broadcast_in_dim %cst_257, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %930 = stablehlo.add %928, %929 : tensor<32xf32>
    %931 = stablehlo.divide %925, %930 : tensor<32xf32>
    %932 = stablehlo.subtract %arg7, %931 : tensor<32xf32>
    %933 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %934 = stablehlo.divide %621, %933 : tensor<32xf32>
    %cst_258 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %935 = stablehlo.broadcast_in_dim %cst_258, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %936 = stablehlo.multiply %935, %934 : tensor<32xf32>
    %937 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %938 = stablehlo.divide %750, %937 : tensor<32xf32>
    %939 = stablehlo.sqrt %938 : tensor<32xf32>
    %cst_259 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %940 = stablehlo.broadcast_in_dim %cst_259, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %941 = stablehlo.add %939, %940 : tensor<32xf32>
    %942 = stablehlo.divide %936, %941 : tensor<32xf32>
    %943 = stablehlo.subtract %arg8, %942 : tensor<32xf32>
    %944 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %945 = stablehlo.divide %626, %944 : tensor<32x96xf32>
    %cst_260 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %946 = stablehlo.broadcast_in_dim %cst_260, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %947 = stablehlo.multiply %946, %945 : tensor<32x96xf32>
    %948 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %949 = stablehlo.divide %756, %948 : tensor<32x96xf32>
    %950 = stablehlo.sqrt %949 : tensor<32x96xf32>
    %cst_261 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %951 = stablehlo.broadcast_in_dim %cst_261, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %952 = stablehlo.add %950, %951 : tensor<32x96xf32>
    %953 = stablehlo.divide %947, %952 : tensor<32x96xf32>
    %954 = stablehlo.subtract %arg9, %953 : tensor<32x96xf32>
    %955 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %956 = stablehlo.divide %631, %955 : tensor<32x128xf32>
    %cst_262 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %957 = stablehlo.broadcast_in_dim %cst_262, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %958 = stablehlo.multiply %957, %956 : tensor<32x128xf32>
    %959 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %960 = stablehlo.divide %762, %959 : tensor<32x128xf32>
    %961 = stablehlo.sqrt %960 : tensor<32x128xf32>
    %cst_263 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %962 = stablehlo.broadcast_in_dim %cst_263, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %963 = stablehlo.add %961, %962 : tensor<32x128xf32>
    %964 = stablehlo.divide %958, %963 : tensor<32x128xf32>
    %965 = stablehlo.subtract %arg10, %964 : tensor<32x128xf32>
    %966 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %967 = stablehlo.divide %636, %966 : tensor<128xf32>
    %cst_264 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %968 = stablehlo.broadcast_in_dim %cst_264, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %969 = stablehlo.multiply %968, %967 : tensor<128xf32>
    %970 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %971 = stablehlo.divide %768, %970 : tensor<128xf32>
    %972 = stablehlo.sqrt %971 : tensor<128xf32>
    %cst_265 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %973 = stablehlo.broadcast_in_dim %cst_265, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %974 = stablehlo.add %972, %973 : tensor<128xf32>
    %975 = stablehlo.divide %969, %974 : tensor<128xf32>
    %976 = stablehlo.subtract %arg11, %975 : tensor<128xf32>
    %977 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %978 = stablehlo.divide %641, %977 : tensor<128x32xf32>
    %cst_266 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %979 = stablehlo.broadcast_in_dim %cst_266, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %980 = stablehlo.multiply %979, %978 : tensor<128x32xf32>
    %981 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %982 = stablehlo.divide %774, %981 : tensor<128x32xf32>
    %983 = stablehlo.sqrt %982 : tensor<128x32xf32>
    %cst_267 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %984 = stablehlo.broadcast_in_dim %cst_267, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %985 = stablehlo.add %983, %984 : tensor<128x32xf32>
    %986 = stablehlo.divide %980, %985 : tensor<128x32xf32>
    %987 = stablehlo.subtract %arg12, %986 : tensor<128x32xf32>
    %988 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %989 = stablehlo.divide %646, %988 : tensor<32xf32>
    %cst_268 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %990 = stablehlo.broadcast_in_dim %cst_268, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %991 = stablehlo.multiply %990, %989 : tensor<32xf32>
    %992 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %993 = stablehlo.divide %780, %992 : tensor<32xf32>
    %994 = stablehlo.sqrt %993 : tensor<32xf32>
    %cst_269 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %995 = stablehlo.broadcast_in_dim %cst_269, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %996 = stablehlo.add %994, %995 : tensor<32xf32>
    %997 = stablehlo.divide %991, %996 : tensor<32xf32>
    %998 = stablehlo.subtract %arg13, %997 : tensor<32xf32>
    %999 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %1000 = stablehlo.divide %651, %999 : tensor<32x32xf32>
    %cst_270 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %1001 = stablehlo.broadcast_in_dim %cst_270, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %1002 = stablehlo.multiply %1001, %1000 : tensor<32x32xf32>
    %1003 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %1004 = stablehlo.divide %786, %1003 : tensor<32x32xf32>
    %1005 = stablehlo.sqrt %1004 : tensor<32x32xf32>
    %cst_271 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %1006 = stablehlo.broadcast_in_dim %cst_271, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %1007 = stablehlo.add %1005, %1006 : tensor<32x32xf32>
    %1008 = stablehlo.divide %1002, %1007 : tensor<32x32xf32>
    %1009 = stablehlo.subtract %arg14, %1008 : tensor<32x32xf32>
    %1010 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1011 = stablehlo.divide %656, %1010 : tensor<32xf32>
    %cst_272 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %1012 = stablehlo.broadcast_in_dim %cst_272, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1013 = stablehlo.multiply %1012, %1011 : tensor<32xf32>
    %1014 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1015 = stablehlo.divide %792, %1014 : tensor<32xf32>
    %1016 = stablehlo.sqrt %1015 : tensor<32xf32>
    %cst_273 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %1017 = stablehlo.broadcast_in_dim %cst_273, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1018 = stablehlo.add %1016, %1017 : tensor<32xf32>
    %1019 = stablehlo.divide %1013, %1018 : tensor<32xf32>
    %1020 = stablehlo.subtract %arg15, %1019 : tensor<32xf32>
    %1021 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1022 = stablehlo.divide %661, %1021 : tensor<32xf32>
    %cst_274 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %1023 = stablehlo.broadcast_in_dim %cst_274, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1024 = stablehlo.multiply %1023, %1022 : tensor<32xf32>
    %1025 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1026 = stablehlo.divide %798, %1025 : tensor<32xf32>
    %1027 = stablehlo.sqrt %1026 : tensor<32xf32>
    %cst_275 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %1028 = stablehlo.broadcast_in_dim %cst_275, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1029 = stablehlo.add %1027, %1028 : tensor<32xf32>
    %1030 = stablehlo.divide %1024, %1029 : tensor<32xf32>
    %1031 = stablehlo.subtract %arg16, %1030 : tensor<32xf32>
    %1032 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1033 = stablehlo.divide %666, %1032 : tensor<32xf32>
    %cst_276 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %1034 = stablehlo.broadcast_in_dim %cst_276, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1035 = stablehlo.multiply %1034, %1033 : tensor<32xf32>
    %1036 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1037 = stablehlo.divide %804, %1036 : tensor<32xf32>
    %1038 = stablehlo.sqrt %1037 : tensor<32xf32>
    %cst_277 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %1039 = stablehlo.broadcast_in_dim %cst_277, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1040 = stablehlo.add %1038, %1039 : tensor<32xf32>
    %1041 = stablehlo.divide %1035, %1040 : tensor<32xf32>
    %1042 = stablehlo.subtract %arg17, %1041 : tensor<32xf32>
    %1043 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1044 = stablehlo.divide %671, %1043 : tensor<32xf32>
    %cst_278 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %1045 = stablehlo.broadcast_in_dim %cst_278, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1046 = stablehlo.multiply %1045, %1044 : tensor<32xf32>
    %1047 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1048 = stablehlo.divide %810, %1047 : tensor<32xf32>
    %1049 = stablehlo.sqrt %1048 : tensor<32xf32>
    %cst_279 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %1050 = stablehlo.broadcast_in_dim %cst_279, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %1051 = stablehlo.add %1049, %1050 : tensor<32xf32>
    %1052 = stablehlo.divide %1046, %1051 : tensor<32xf32>
    %1053 = stablehlo.subtract %arg18, %1052 : tensor<32xf32>
    %1054 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %1055 = stablehlo.divide %676, %1054 : tensor<32x96xf32>
    %cst_280 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %1056 = stablehlo.broadcast_in_dim %cst_280, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %1057 = stablehlo.multiply %1056, %1055 : tensor<32x96xf32>
    %1058 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %1059 = stablehlo.divide %816, %1058 : tensor<32x96xf32>
    %1060 = stablehlo.sqrt %1059 : tensor<32x96xf32>
    %cst_281 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %1061 = stablehlo.broadcast_in_dim %cst_281, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %1062 = stablehlo.add %1060, %1061 : tensor<32x96xf32>
    %1063 = stablehlo.divide %1057, %1062 : tensor<32x96xf32>
    %1064 = stablehlo.subtract %arg19, %1063 : tensor<32x96xf32>
    %1065 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %1066 = stablehlo.divide %681, %1065 : tensor<32x128xf32>
    %cst_282 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %1067 = stablehlo.broadcast_in_dim %cst_282, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %1068 = stablehlo.multiply %1067, %1066 : tensor<32x128xf32>
    %1069 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %1070 = stablehlo.divide %822, %1069 : tensor<32x128xf32>
    %1071 = stablehlo.sqrt %1070 : tensor<32x128xf32>
    %cst_283 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %1072 = stablehlo.broadcast_in_dim %cst_283, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %1073 = stablehlo.add %1071, %1072 : tensor<32x128xf32>
    %1074 = stablehlo.divide %1068, %1073 : tensor<32x128xf32>
    %1075 = stablehlo.subtract %arg20, %1074 : tensor<32x128xf32>
    %1076 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %1077 = stablehlo.divide %686, %1076 : tensor<128xf32>
    %cst_284 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %1078 = stablehlo.broadcast_in_dim %cst_284, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %1079 = stablehlo.multiply %1078, %1077 : tensor<128xf32>
    %1080 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %1081 = stablehlo.divide %828, %1080 : tensor<128xf32>
    %1082 = stablehlo.sqrt %1081 : tensor<128xf32>
    %cst_285 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %1083 = stablehlo.broadcast_in_dim %cst_285, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %1084 = stablehlo.add %1082, %1083 : tensor<128xf32>
    %1085 = stablehlo.divide %1079, %1084 : tensor<128xf32>
    %1086 = stablehlo.subtract %arg21, %1085 : tensor<128xf32>
    %1087 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %1088 = stablehlo.divide %691, %1087 : tensor<32x32xf32>
    %cst_286 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %1089 = stablehlo.broadcast_in_dim %cst_286, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %1090 = stablehlo.multiply %1089, %1088 : tensor<32x32xf32>
    %1091 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %1092 = stablehlo.divide %834, %1091 : tensor<32x32xf32>
    %1093 = stablehlo.sqrt %1092 : tensor<32x32xf32>
    %cst_287 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %1094 = stablehlo.broadcast_in_dim %cst_287, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %1095 = stablehlo.add %1093, %1094 : tensor<32x32xf32>
    %1096 = stablehlo.divide %1090, %1095 : tensor<32x32xf32>
    %1097 = stablehlo.subtract %arg22, %1096 : tensor<32x32xf32>
    %1098 = stablehlo.broadcast_in_dim %842, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %1099 = stablehlo.divide %696, %1098 : tensor<128x32xf32>
    %cst_288 = stablehlo.constant dense<3.000000e-03> : tensor<f32>
    %1100 = stablehlo.broadcast_in_dim %cst_288, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %1101 = stablehlo.multiply %1100, %1099 : tensor<128x32xf32>
    %1102 = stablehlo.broadcast_in_dim %844, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %1103 = stablehlo.divide %840, %1102 : tensor<128x32xf32>
    %1104 = stablehlo.sqrt %1103 : tensor<128x32xf32>
    %cst_289 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %1105 = stablehlo.broadcast_in_dim %cst_289, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %1106 = stablehlo.add %1104, %1105 : tensor<128x32xf32>
    %1107 = stablehlo.divide %1101, %1106 : tensor<128x32xf32>
    %1108 = stablehlo.subtract %arg23, %1107 : tensor<128x32xf32>
    %cst_290 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %1109 = stablehlo.add %arg72, %cst_290 : tensor<f32>
    return %855, %866, %877, %888, %899, %910, %921, %932, %943, %954, %965, %976, %987, %998, %1009, %1020, %1031, %1042, %1053, %1064, %1075, %1086, %1097, %1108, %581, %586, %591, %596, %601, %606, %611, %616, %621, %626, %631, %636, %641, %646, %651, %656, %661, %666, %671, %676, %681, %686, %691, %696, %702, %708, %714, %720, %726, %732, %738, %744, %750, %756, %762, %768, %774, %780, %786, %792, %798, %804, %810, %816, %822, %828, %834, %840, %1109, %282 : tensor<32xf32>, tensor<32xf32>, tensor<128x32xf32>, tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32x96xf32>, tensor<32x128xf32>, tensor<128xf32>, tensor<128x32xf32>, tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32x96xf32>, tensor<32x128xf32>, tensor<128xf32>, tensor<32x32xf32>, tensor<128x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<128x32xf32>, tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32x96xf32>, tensor<32x128xf32>, tensor<128xf32>, tensor<128x32xf32>, tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32x96xf32>, tensor<32x128xf32>, tensor<128xf32>, tensor<32x32xf32>, tensor<128x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<128x32xf32>, tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32x96xf32>, tensor<32x128xf32>, tensor<128xf32>, tensor<128x32xf32>, tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32x96xf32>, tensor<32x128xf32>, tensor<128xf32>, tensor<32x32xf32>, tensor<128x32xf32>, tensor<f32>, tensor<f32>
  }
  func.func private @_where(%arg0: tensor<32x32xi1>, %arg1: tensor<8x4x32x32xf32>, %arg2: tensor<f32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32x32xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<8x4x32x32xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x4x32x32xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<8x4x32x32xi1>, tensor<8x4x32x32xf32>
    return %3, %1 : tensor<8x4x32x32xf32>, tensor<8x4x32x32xi1>
  }
  func.func private @log_softmax(%arg0: tensor<8x32x128xf32>) -> (tensor<8x32x128xf32>, tensor<8x32x128xf32>, tensor<8x32x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<8x32x128xf32>, tensor<f32>) -> tensor<8x32xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<8x32xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x128xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<8x32x128xf32>
    %6 = stablehlo.exponential %5 : tensor<8x32x128xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<8x32x128xf32>, tensor<f32>) -> tensor<8x32xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %9 = stablehlo.log %8 : tensor<8x32x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x128xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<8x32x128xf32>
    return %11, %6, %8 : tensor<8x32x128xf32>, tensor<8x32x128xf32>, tensor<8x32x1xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<8x32x128xf32>, %arg1: tensor<8x32x1xi32>) -> (tensor<8x32x1xf32>, tensor<8x32x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8x32x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<8x32x1xi32>, tensor<8x32x1xi32>) -> tensor<8x32x1xi1>
    %c_0 = stablehlo.constant dense<128> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<8x32x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<8x32x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<8x32x1xi1>, tensor<8x32x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<8x32x1xi32>) -> tensor<8x32x1x1xi32>
    %c_1 = stablehlo.constant dense<127> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<8x32x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<8x32x1x1xi32>, tensor<8x32x1x1xi32>) -> tensor<8x32x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<8x32x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<8x32x1x1xi32>, tensor<8x32x1x1xi32>) -> tensor<8x32x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<8x32x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<8x32x1x1xi1>, tensor<i1>) -> tensor<8x32x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<8x32x128xf32>, tensor<8x32x1x1xi32>) -> tensor<8x32x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<8x32x1xi1>, tensor<8x32x1xf32>
    return %15, %5 : tensor<8x32x1xf32>, tensor<8x32x1x1xi32>
  }
  func.func private @take_along_axis_0(%arg0: tensor<8x32x1x1xi32>, %arg1: tensor<8x32x1xf32>) -> tensor<8x32x128xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32x128xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<8x32x128xf32>, tensor<8x32x1x1xi32>, tensor<8x32x1xf32>) -> tensor<8x32x128xf32>
    return %1 : tensor<8x32x128xf32>
  }
  func.func private @log_softmax_1(%arg0: tensor<8x32x128xf32>, %arg1: tensor<8x32x1xf32>, %arg2: tensor<8x32x128xf32>) -> tensor<8x32x128xf32> {
    %0 = stablehlo.negate %arg2 : tensor<8x32x128xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<8x32x128xf32>, tensor<f32>) -> tensor<8x32xf32>
    %2 = stablehlo.reshape %1 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<8x32x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x128xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<8x32x128xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<8x32x128xf32>
    return %7 : tensor<8x32x128xf32>
  }
  func.func private @_where_2(%arg0: tensor<8x4x32x32xi1>, %arg1: tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x4x32x32xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<8x4x32x32xi1>, tensor<8x4x32x32xf32>
    return %1 : tensor<8x4x32x32xf32>
  }
}
