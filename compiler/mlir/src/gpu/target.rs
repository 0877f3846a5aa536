//! The GPU architectures that kernels are compiled for.

use crate::error::Error;
use std::fmt;
use std::str::FromStr;

/// A compute capability. PTX for one runs on devices of that number or above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CudaTarget {
    /// A100.
    Sm80,
    /// H100, H200.
    Sm90,
    /// B100, B200.
    Sm100,
}

impl CudaTarget {
    /// All of them.
    pub const ALL: [CudaTarget; 3] = [CudaTarget::Sm80, CudaTarget::Sm90, CudaTarget::Sm100];

    /// Its name: `sm_90`.
    pub fn level(self) -> &'static str {
        match self {
            CudaTarget::Sm80 => "sm_80",
            CudaTarget::Sm90 => "sm_90",
            CudaTarget::Sm100 => "sm_100",
        }
    }
    /// What of LLVM's target must be asked for beside the architecture: the first version of PTX that knows it.
    pub(crate) fn features(self) -> &'static str {
        match self {
            CudaTarget::Sm80 => "+ptx70",
            CudaTarget::Sm90 => "+ptx78",
            CudaTarget::Sm100 => "+ptx86",
        }
    }
}

impl FromStr for CudaTarget {
    type Err = Error;
    fn from_str(level: &str) -> Result<Self, Error> {
        CudaTarget::ALL.into_iter().find(|t| t.level() == level).ok_or_else(|| Error::UnknownArchitecture(level.to_owned()))
    }
}

impl fmt::Display for CudaTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.level())
    }
}
