//! Kernels to machine code through MLIR and LLVM.
