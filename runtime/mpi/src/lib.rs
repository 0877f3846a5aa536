//! Messages between processes through MPI, for CPU clusters. Empty without the feature `mpi`.
//!
//! One thread makes every call of MPI, from `MPI_Init` to `MPI_Finalize`, and all of them return at once: a thread that is blocked in MPI could not be told
//! that the run has failed. Liveness and verdicts stay on the control channel, over TCP.

#[cfg(feature = "mpi")]
mod calls;
#[cfg(feature = "mpi")]
mod carrier;
#[cfg(feature = "mpi")]
pub use carrier::over;
