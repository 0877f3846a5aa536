llvm.func @kb0d5b781ea76bd64(%buffers: !llvm.ptr, %scalars: !llvm.ptr) {
  %5 = arith.constant 512 : i64
  %6 = llvm.alloca %5 x i8 {alignment = 64 : i64} : (i64) -> !llvm.ptr
  %7 = arith.constant 0 : i64
  %8 = arith.constant 96 : i64
  %9 = arith.constant 32 : i64
  %12 = arith.constant dense<0x00000000> : vector<32xf32>
  %14 = arith.constant dense<0x00000000> : vector<4xf32>
  %16 = arith.constant 8 : i64
  %17 = arith.constant 1 : i64
  %22 = arith.constant 100 : i64
  %1 = llvm.getelementptr %buffers[0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %2 = llvm.load %1 : !llvm.ptr -> !llvm.ptr
  %3 = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %4 = llvm.load %3 : !llvm.ptr -> !llvm.ptr
  scf.for %11 = %7 to %8 step %9 : i64 {
    %13 = llvm.getelementptr %6[%11] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    llvm.store %12, %13 {alignment = 4 : i64} : vector<32xf32>, !llvm.ptr
  }
  %15 = llvm.getelementptr %6[%8] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  llvm.store %14, %15 {alignment = 4 : i64} : vector<4xf32>, !llvm.ptr
  scf.for %19 = %7 to %16 step %17 : i64 {
    scf.for %21 = %7 to %8 step %9 : i64 {
      %23 = arith.muli %19, %22 : i64
      %24 = arith.addi %23, %21 : i64
      %25 = llvm.getelementptr %2[%24] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %26 = llvm.load %25 {alignment = 4 : i64} : !llvm.ptr -> vector<32xf32>
      %27 = llvm.getelementptr %6[%21] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %28 = llvm.load %27 {alignment = 4 : i64} : !llvm.ptr -> vector<32xf32>
      %29 = arith.addf %28, %26 fastmath<contract> : vector<32xf32>
      llvm.store %29, %27 {alignment = 4 : i64} : vector<32xf32>, !llvm.ptr
    }
    %30 = arith.muli %19, %22 : i64
    %31 = arith.addi %30, %8 : i64
    %32 = llvm.getelementptr %2[%31] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %33 = llvm.load %32 {alignment = 4 : i64} : !llvm.ptr -> vector<4xf32>
    %34 = llvm.load %15 {alignment = 4 : i64} : !llvm.ptr -> vector<4xf32>
    %35 = arith.addf %34, %33 fastmath<contract> : vector<4xf32>
    llvm.store %35, %15 {alignment = 4 : i64} : vector<4xf32>, !llvm.ptr
  }
  scf.for %37 = %7 to %8 step %9 : i64 {
    %38 = llvm.getelementptr %6[%37] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %39 = llvm.load %38 {alignment = 4 : i64} : !llvm.ptr -> vector<32xf32>
    %40 = llvm.getelementptr %4[%37] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    llvm.store %39, %40 {alignment = 4 : i64} : vector<32xf32>, !llvm.ptr
  }
  %41 = llvm.load %15 {alignment = 4 : i64} : !llvm.ptr -> vector<4xf32>
  %42 = llvm.getelementptr %4[%8] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  llvm.store %41, %42 {alignment = 4 : i64} : vector<4xf32>, !llvm.ptr
  llvm.return
}
