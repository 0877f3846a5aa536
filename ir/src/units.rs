//! Quantities with their units: no bare `f64` cost or `u64` size crosses a crate.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// A duration in seconds, predicted or measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Seconds(pub f64);

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Bytes(pub u64);

/// Floating point operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Flops(pub f64);

macro_rules! arithmetic {
    ($t:ident, $inner:ty) => {
        impl Add for $t {
            type Output = $t;
            fn add(self, o: $t) -> $t {
                $t(self.0 + o.0)
            }
        }
        impl Sub for $t {
            type Output = $t;
            fn sub(self, o: $t) -> $t {
                $t(self.0 - o.0)
            }
        }
        impl AddAssign for $t {
            fn add_assign(&mut self, o: $t) {
                self.0 += o.0;
            }
        }
        impl Mul<$inner> for $t {
            type Output = $t;
            fn mul(self, k: $inner) -> $t {
                $t(self.0 * k)
            }
        }
        impl Div<$inner> for $t {
            type Output = $t;
            fn div(self, k: $inner) -> $t {
                $t(self.0 / k)
            }
        }
        impl Sum for $t {
            fn sum<I: Iterator<Item = $t>>(iter: I) -> $t {
                $t(iter.map(|x| x.0).sum())
            }
        }
    };
}
arithmetic!(Seconds, f64);
arithmetic!(Bytes, u64);
arithmetic!(Flops, f64);

impl Seconds {
    /// The longer of two durations.
    pub fn max(self, o: Seconds) -> Seconds {
        Seconds(self.0.max(o.0))
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.0;
        match s.abs() {
            0.0 => f.write_str("0 s"),
            a if a < 1e-3 => write!(f, "{:.1} µs", s * 1e6),
            a if a < 1.0 => write!(f, "{:.2} ms", s * 1e3),
            _ => write!(f, "{s:.2} s"),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0 as f64;
        for (unit, size) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
            if self.0 >= 1 << size {
                return write!(f, "{:.2} {unit}", b / f64::from(1u32 << (size % 30)) / if size >= 30 { (1u64 << 30) as f64 } else { 1.0 });
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl std::str::FromStr for Bytes {
    type Err = String;
    /// Reads `8GiB`, `512 MiB`, `1.5GB` (decimal), `4096`.
    fn from_str(text: &str) -> Result<Bytes, String> {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number: f64 = text[..split].parse().map_err(|_| format!("`{text}` is not a size; write for example `8GiB`"))?;
        let factor = match text[split..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "kib" | "k" => 1024.0,
            "mib" | "m" => 1024.0 * 1024.0,
            "gib" | "g" => 1024.0 * 1024.0 * 1024.0,
            "tib" | "t" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            "tb" => 1e12,
            unit => return Err(format!("`{unit}` is not a unit of size; use B, KiB, MiB, GiB or TiB")),
        };
        let bytes = number * factor;
        if bytes.is_finite() && (0.0..9e18).contains(&bytes) { Ok(Bytes(bytes.round() as u64)) } else { Err(format!("`{text}` is too large")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_and_parse() {
        assert_eq!(Bytes(3 << 30).to_string(), "3.00 GiB");
        assert_eq!(Bytes(5 << 40).to_string(), "5.00 TiB");
        assert_eq!(Bytes(1536).to_string(), "1.50 KiB");
        assert_eq!("8GiB".parse(), Ok(Bytes(8 << 30)));
        assert_eq!("1.5 MiB".parse(), Ok(Bytes(3 << 19)));
        assert!("8 bananas".parse::<Bytes>().is_err());
    }
}
