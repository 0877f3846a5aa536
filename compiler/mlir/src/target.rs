//! The levels of x86-64 that kernels are compiled for.

use crate::error::Error;
use std::fmt;
use std::str::FromStr;

/// A level of the x86-64 architecture; code for a level runs on every CPU of that level or above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuTarget {
    /// SSE4.2: 128-bit vectors, no fused multiply-add.
    V2,
    /// AVX2 and FMA: 256-bit vectors.
    #[default]
    V3,
    /// AVX-512: 512-bit vectors.
    V4,
}

impl CpuTarget {
    /// The highest level that this machine has.
    pub fn host() -> CpuTarget {
        if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") && is_x86_feature_detected!("bmi2")) {
            return CpuTarget::V2;
        }
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        if avx512 { CpuTarget::V4 } else { CpuTarget::V3 }
    }
    /// The level as LLVM's `-mcpu` and psABI call it.
    pub fn level(self) -> &'static str {
        match self {
            CpuTarget::V2 => "x86-64-v2",
            CpuTarget::V3 => "x86-64-v3",
            CpuTarget::V4 => "x86-64-v4",
        }
    }
    /// Whether it has fused multiply-add and conversions of `f16`.
    pub(crate) fn has_fma(self) -> bool {
        self >= CpuTarget::V3
    }
}

impl FromStr for CpuTarget {
    type Err = Error;
    fn from_str(level: &str) -> Result<Self, Error> {
        match level {
            "host" => Ok(CpuTarget::host()),
            "x86-64-v2" => Ok(CpuTarget::V2),
            "x86-64-v3" => Ok(CpuTarget::V3),
            "x86-64-v4" => Ok(CpuTarget::V4),
            other => Err(Error::UnknownLevel(other.to_owned())),
        }
    }
}

impl fmt::Display for CpuTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.level())
    }
}
