//! What can go wrong between a kernel and its code.

use ir::kernel::NodeId;

/// A failure to compile kernels, naming the kernel and where in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A limit: the kernel is valid and has no code on this target.
    #[error("kernel `{kernel}`, node {node}: {what} is not supported")]
    Unsupported {
        /// The kernel's symbol.
        kernel: String,
        /// The node.
        node: NodeId,
        /// What it computes and in which type.
        what: String,
    },
    /// A bug of whoever made the kernel: it breaks an invariant of [`ir::kernel`].
    #[error("kernel `{kernel}` is invalid: {reason}")]
    Invalid {
        /// The kernel's symbol.
        kernel: String,
        /// The broken invariant.
        reason: String,
    },
    /// A bug: MLIR refused what was written, or a pass failed.
    #[error("MLIR: {0}")]
    Mlir(String),
    /// A bug or a broken installation: LLVM refused the module or the target.
    #[error("LLVM: {0}")]
    Llvm(String),
    /// A missing or failing linker.
    #[error("linking the kernels' object: {0}")]
    Link(String),
    /// A user error: no such level.
    #[error("unknown CPU level `{0}`; known are x86-64-v2, x86-64-v3, x86-64-v4 and host")]
    UnknownLevel(String),
    /// A user error: no such GPU architecture.
    #[error("unknown GPU architecture `{0}`; known are sm_80, sm_90 and sm_100")]
    UnknownArchitecture(String),
    /// The assembler is missing, or a bug: it refuses what was made.
    #[error("ptxas: {0}")]
    Ptxas(String),
}
