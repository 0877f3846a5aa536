//! The content of `dense<…>` constants: splats, nested lists, hexadecimal bits, and packed hexadecimal strings.

use crate::dtype::{DType, TensorType};
use crate::literal::{Data, Literal};
use std::sync::Arc;

/// An unsigned integer token, decimal or hexadecimal.
pub(super) fn integer(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The constant that `dense<content> : ty` is.
pub(super) fn literal(content: &str, ty: TensorType) -> Result<Literal, String> {
    let content = content.trim();
    if let Some(quoted) = content.strip_prefix('"') {
        let hex = quoted.strip_suffix('"').and_then(|s| s.strip_prefix("0x")).ok_or("a packed constant is a string that starts with `0x`")?;
        return packed(&unhex(hex)?, ty);
    }
    if content.is_empty() {
        if ty.elements() != 0 {
            return Err(format!("an empty constant of type {ty}, which has {} elements", ty.elements()));
        }
        return Literal::dense(ty, Vec::new()).ok_or_else(|| "an empty constant has no bytes".to_string());
    }
    if !content.starts_with('[') {
        let mut bytes = Vec::new();
        let rest = element(content, ty.dtype, &mut bytes)?;
        if !rest.trim().is_empty() {
            return Err(format!("`{}` follows a constant's value", shorten(rest.trim())));
        }
        return Ok(Literal { ty, data: Data::Splat(bytes) });
    }
    nested(content, ty)
}

/// A constant whose bytes are in the file's trailer: alignment in four bytes, then the data.
pub(super) fn resource(hex: &str, ty: TensorType) -> Result<Literal, String> {
    let blob = unhex(hex.trim_matches('"').strip_prefix("0x").ok_or("a resource is a string that starts with `0x`")?)?;
    packed(blob.get(4..).ok_or("a resource starts with four bytes of alignment")?, ty)
}

fn unhex(hex: &str) -> Result<Vec<u8>, String> {
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8).ok_or_else(|| format!("`{}` is not a hexadecimal digit", b as char));
    let bytes = hex.as_bytes();
    if bytes.len() % 2 != 0 {
        return Err("a packed constant has an odd number of hexadecimal digits".into());
    }
    bytes.chunks(2).map(|pair| Ok(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

fn packed(bytes: &[u8], ty: TensorType) -> Result<Literal, String> {
    let (count, size) = (ty.elements(), ty.dtype.bytes());
    if ty.dtype == DType::I1 && bytes.len() as u64 != count {
        if let ([b @ (0 | 0xff)], true) = (bytes, count != 1) {
            return Ok(Literal { ty, data: Data::Splat(vec![b & 1]) });
        }
        if bytes.len() as u64 == count.div_ceil(8) {
            let bits = (0..count as usize).map(|i| bytes[i / 8] >> (i % 8) & 1).collect();
            return Ok(Literal { ty, data: Data::Dense(Arc::new(bits)) });
        }
    }
    if bytes.len() as u64 == count * size {
        let mut bytes = bytes.to_vec();
        if ty.dtype == DType::I1 {
            bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
        }
        return Ok(if ty.rank() == 0 { Literal { ty, data: Data::Splat(bytes) } } else { Literal { ty, data: Data::Dense(Arc::new(bytes)) } });
    }
    if bytes.len() as u64 == size {
        return Ok(Literal { ty, data: Data::Splat(bytes.to_vec()) });
    }
    Err(format!("a packed constant has {} bytes where {ty} takes {}", bytes.len(), count * size))
}

fn nested(content: &str, ty: TensorType) -> Result<Literal, String> {
    // Every element takes at least one character and a separator, so the text bounds what is reserved.
    let mut bytes = Vec::with_capacity((ty.bytes() as usize).min(content.len().saturating_mul(8)));
    let rank = ty.rank();
    let mut counts: Vec<u64> = Vec::new();
    let mut rest = content;
    loop {
        rest = rest.trim_start();
        let c = rest.bytes().next().ok_or("a constant's list does not end")?;
        if c == b'[' {
            if counts.len() == rank {
                return Err(format!("a constant's list is nested deeper than {ty} has dimensions"));
            }
            counts.push(0);
            rest = &rest[1..];
            if rest.trim_start().starts_with(']') && ty.shape[counts.len() - 1] != 0 {
                return Err(format!("a list has 0 entries where {ty} has {}", ty.shape[counts.len() - 1]));
            }
            if !rest.trim_start().starts_with(']') {
                continue;
            }
        } else {
            if counts.len() != rank {
                return Err(format!("a constant's list is nested {} deep where {ty} has {rank} dimensions", counts.len()));
            }
            rest = element(rest, ty.dtype, &mut bytes)?;
            if let Some(n) = counts.last_mut() {
                *n += 1;
            }
        }
        // After an entry: as many closing brackets as there are, then a comma or the end.
        loop {
            rest = rest.trim_start();
            if let Some(tail) = rest.strip_prefix(']') {
                let (n, wanted) = (counts.pop().ok_or("a constant has a bracket too many")?, ty.shape[counts.len()]);
                if n != wanted {
                    return Err(format!("a list has {n} entries where {ty} has {wanted}"));
                }
                rest = tail;
                match counts.last_mut() {
                    Some(outer) => *outer += 1,
                    None if rest.trim().is_empty() => {
                        return Literal::dense(ty, bytes).ok_or_else(|| "a constant has the wrong number of elements".to_string());
                    }
                    None => return Err(format!("`{}` follows a constant's list", shorten(rest.trim()))),
                }
            } else if let Some(tail) = rest.strip_prefix(',') {
                rest = tail;
                break;
            } else {
                return Err(format!("expected `,` or `]` in a constant, found `{}`", shorten(rest)));
            }
        }
    }
}

fn shorten(s: &str) -> String {
    s.chars().take(20).collect()
}

/// Reads one element from the front of `text`, appends its bytes and returns what follows.
fn element<'a>(text: &'a str, t: DType, out: &mut Vec<u8>) -> Result<&'a str, String> {
    let part = match t {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        _ => return scalar(text, t, out),
    };
    let inner = text.strip_prefix('(').ok_or_else(|| format!("expected `(re, im)`, found `{}`", shorten(text)))?;
    let rest = scalar(inner.trim_start(), part, out)?.trim_start().strip_prefix(',').ok_or("expected `,` in a complex number")?;
    scalar(rest.trim_start(), part, out)?.trim_start().strip_prefix(')').ok_or_else(|| "expected `)` after a complex number".to_string())
}

fn scalar<'a>(text: &'a str, t: DType, out: &mut Vec<u8>) -> Result<&'a str, String> {
    let length = text.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'+' | b'-' | b'_')).count();
    let (word, rest) = text.split_at(length);
    let wrong = || format!("`{}` is not a value of type {t}", if word.is_empty() { shorten(text) } else { shorten(word) });
    match word {
        "true" | "false" if t == DType::I1 => out.push(u8::from(word == "true")),
        _ if t.is_integer() => out.extend(integer_bytes(word, t).ok_or_else(wrong)?),
        _ => out.extend(float_bytes(word, t).ok_or_else(wrong)?),
    }
    Ok(rest)
}

fn integer_bytes(word: &str, t: DType) -> Option<Vec<u8>> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(d) => (true, d),
        None => (false, word),
    };
    let magnitude = integer(digits)?;
    let value = if negative { -magnitude } else { magnitude };
    let bits = t.bits();
    let (low, high) = if t == DType::I1 {
        (-1, 1)
    } else if t.is_unsigned() {
        (0, (1i128 << bits) - 1)
    } else {
        // A hexadecimal or unsigned spelling may use the sign bit.
        (-(1i128 << (bits - 1)), if digits.starts_with("0x") { (1i128 << bits) - 1 } else { (1i128 << (bits - 1)) - 1 })
    };
    if value < low || value > high {
        return None;
    }
    if t == DType::I1 {
        return Some(vec![u8::from(value != 0)]);
    }
    // Sub-byte integers are stored sign-extended in a byte.
    let shift = 128 - bits;
    let extended = if t.is_unsigned() { value } else { value << shift >> shift };
    Some(extended.to_le_bytes()[..t.bytes() as usize].to_vec())
}

fn float_bytes(word: &str, t: DType) -> Option<Vec<u8>> {
    if let Some(hex) = word.strip_prefix("0x") {
        let bits = u64::from_str_radix(hex, 16).ok()?;
        let size = t.bytes() as usize;
        return (size == 8 || bits >> (size * 8) == 0).then(|| bits.to_le_bytes()[..size].to_vec());
    }
    if !word.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some(match t {
        DType::F32 => word.parse::<f32>().ok()?.to_le_bytes().to_vec(),
        _ => crate::literal::encode(t, word.parse::<f64>().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(content: &str, t: DType, shape: &[u64]) -> Result<Vec<f64>, String> {
        let l = literal(content, TensorType::new(t, shape))?;
        Ok(l.to_bytes().chunks(t.bytes() as usize).map(|b| crate::literal::decode(t, b).unwrap()).collect())
    }

    #[test]
    fn reads_every_form() {
        use DType::*;
        assert_eq!(values("1.5e+00", F32, &[2]).unwrap(), [1.5, 1.5]);
        assert_eq!(values("0xFF800000", F32, &[]).unwrap(), [f64::NEG_INFINITY]);
        assert_eq!(values("[[1, 2, -3], [4, 5, 6]]", I32, &[2, 3]).unwrap(), [1., 2., -3., 4., 5., 6.]);
        assert_eq!(values("\"0x0000803F00000040\"", F32, &[2]).unwrap(), [1.0, 2.0]);
        assert_eq!(values("\"0x0000803F\"", F32, &[3]).unwrap(), [1.0; 3]);
        assert_eq!(values("[true, false]", I1, &[2]).unwrap(), [1.0, 0.0]);
        assert_eq!(values("\"0x05\"", I1, &[4]).unwrap(), [1., 0., 1., 0.]);
        assert_eq!(values("18446744073709551615", UI64, &[]).unwrap(), [u64::MAX as f64]);
        assert_eq!(values("-8", I4, &[]).unwrap(), [-8.0]);
        assert_eq!(values("0x3F80", BF16, &[]).unwrap(), [1.0]);
        assert_eq!(values("4.480000e+02", F8E4M3FN, &[]).unwrap(), [448.0]);
        assert_eq!(values("", F32, &[0]).unwrap(), [0.0; 0]);
        assert_eq!(values("[]", F32, &[0]).unwrap(), [0.0; 0]);
        assert_eq!(literal("(1.0, 2.0)", TensorType::scalar(C64)).unwrap().to_bytes(), [0, 0, 128, 63, 0, 0, 0, 64]);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        use DType::*;
        for (content, t, shape) in [
            ("[1, 2]", I32, &[3][..]),
            ("[[1], [2, 3]]", I32, &[2, 1]),
            ("[1, 2", I32, &[2]),
            ("[[1]]", I32, &[1]),
            ("300", UI8, &[]),
            ("1.5", I32, &[]),
            ("abc", F32, &[]),
            ("\"0x00\"", F32, &[2]),
            ("\"0x0\"", F32, &[2]),
            ("", F32, &[2]),
            ("[]", F32, &[2]),
            ("1 2", I32, &[]),
        ] {
            assert!(values(content, t, shape).is_err(), "{content} : {t} {shape:?}");
        }
    }
}
