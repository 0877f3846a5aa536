//! Writes constants: every value exactly, in the fewest digits that read back to the same bits.

use crate::dtype::DType;
use crate::literal::{Data, Literal, decode};

/// Constants with more elements than this are written as packed hexadecimal digits.
const LONGEST_LIST: u64 = 64;

/// `dense<…> : type`.
pub(super) fn literal(l: &Literal) -> String {
    let t = l.ty.dtype;
    let size = t.bytes() as usize;
    let content = match &l.data {
        Data::Splat(b) => element(t, b),
        Data::Dense(b) if l.ty.rank() == 0 => element(t, b),
        Data::Dense(_) if l.ty.elements() == 0 => String::new(),
        Data::Dense(b) if l.ty.elements() > LONGEST_LIST && t != DType::I1 => {
            let mut hex = String::with_capacity(b.len() * 2 + 4);
            hex.push_str("\"0x");
            for byte in b.iter() {
                for digit in [byte >> 4, byte & 15] {
                    hex.push(char::from_digit(u32::from(digit), 16).unwrap_or('0').to_ascii_uppercase());
                }
            }
            hex.push('"');
            hex
        }
        Data::Dense(b) => {
            let mut out = String::new();
            nested(t, size, &l.ty.shape, b, &mut out);
            out
        }
    };
    format!("dense<{content}> : {}", l.ty)
}

fn nested(t: DType, size: usize, shape: &[u64], bytes: &[u8], out: &mut String) {
    let Some((&n, rest)) = shape.split_first() else {
        out.push_str(&element(t, bytes));
        return;
    };
    out.push('[');
    let step = rest.iter().product::<u64>() as usize * size;
    for i in 0..n as usize {
        if i > 0 {
            out.push_str(", ");
        }
        nested(t, size, rest, &bytes[i * step..(i + 1) * step], out);
    }
    out.push(']');
}

fn element(t: DType, b: &[u8]) -> String {
    use DType::*;
    match t {
        I1 => if b.first() == Some(&0) { "false" } else { "true" }.to_string(),
        C64 => format!("({}, {})", element(F32, &b[..4]), element(F32, &b[4..])),
        C128 => format!("({}, {})", element(F64, &b[..8]), element(F64, &b[8..])),
        _ if t.is_integer() => {
            let mut wide = [if !t.is_unsigned() && b.last().is_some_and(|x| x & 0x80 != 0) { 0xff } else { 0 }; 16];
            wide[..b.len()].copy_from_slice(b);
            i128::from_le_bytes(wide).to_string()
        }
        _ => float(t, b),
    }
}

fn float(t: DType, b: &[u8]) -> String {
    let value = decode(t, b).unwrap_or(f64::NAN);
    if !value.is_finite() {
        let digits: String = b.iter().rev().map(|x| format!("{x:02X}")).collect();
        return format!("0x{digits}");
    }
    let text = if t == DType::F64 { format!("{value:e}") } else { format!("{:e}", value as f32) };
    match text.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0e{exponent}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::TensorType;
    use crate::text::dense;

    #[test]
    fn every_bit_pattern_reads_back() {
        for t in DType::all() {
            let size = t.bytes() as usize;
            let mut state = 0x1234_5678_9abc_def0u64;
            for round in 0..300u64 {
                let mut bytes = Vec::new();
                while bytes.len() < size {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round | 1);
                    bytes.push((state >> 56) as u8);
                }
                match t {
                    DType::I1 => bytes[0] &= 1,
                    DType::I2 | DType::I4 => bytes[0] = ((bytes[0] << (8 - t.bits())) as i8 >> (8 - t.bits())) as u8,
                    DType::UI2 | DType::UI4 => bytes[0] &= (1 << t.bits()) - 1,
                    _ => {}
                }
                let l = Literal { ty: TensorType::new(t, [3]), data: Data::Splat(bytes) };
                let text = literal(&l);
                let content = text.strip_prefix("dense<").unwrap().split('>').next().unwrap();
                assert_eq!(dense::literal(content, l.ty.clone()).as_ref(), Ok(&l), "{text}");
            }
        }
    }

    #[test]
    fn lists_and_packed_digits_read_back() {
        for shape in [vec![2, 3], vec![4, 25], vec![0, 3], vec![1]] {
            let ty = TensorType::new(DType::I16, shape);
            let bytes = (0..ty.bytes()).map(|i| (i * 37) as u8).collect();
            let l = Literal::dense(ty, bytes).unwrap();
            let text = literal(&l);
            let content = text.strip_prefix("dense<").unwrap().split('>').next().unwrap();
            assert_eq!(dense::literal(content, l.ty.clone()), Ok(l));
        }
    }
}
