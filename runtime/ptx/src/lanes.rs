//! The functions of rows: 32 lanes at a time, in loops that vectorise.
//!
//! Every function is total, so it is computed for all lanes and kept for those that execute. Where the processor has AVX2 and FMA the same code is
//! compiled for them.

use crate::code::{Compare, Double, Logic, Narrow, Row, Shift, Widen, Word};
use crate::numeric::{canonical, extreme, flush, from_brain, from_half, max, min, relu, saturate, to_brain, to_half};

/// 32 lanes.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Lanes<T>(pub(crate) [T; 32]);

/// Registers of a warp.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    pub(crate) words: &'a mut [Lanes<u32>],
    pub(crate) doubles: &'a mut [Lanes<u64>],
    pub(crate) predicates: &'a mut [u32],
}

#[inline(always)]
fn keep<T: Copy>(to: &mut Lanes<T>, from: &Lanes<T>, mask: u32) {
    if mask == u32::MAX {
        *to = *from;
    } else {
        for l in 0..32 {
            to.0[l] = if mask >> l & 1 != 0 { from.0[l] } else { to.0[l] };
        }
    }
}

#[inline(always)]
fn each<T: Copy + Default>(rows: &mut [Lanes<T>], [d, a, b, c]: [Row; 4], mask: u32, f: impl Fn(T, T, T) -> T) {
    let (x, y, z) = (rows[a as usize], rows[b as usize], rows[c as usize]);
    let mut r = Lanes([T::default(); 32]);
    for l in 0..32 {
        r.0[l] = f(x.0[l], y.0[l], z.0[l]);
    }
    keep(&mut rows[d as usize], &r, mask);
}

#[inline(always)]
fn test<T: Copy>(a: &Lanes<T>, b: &Lanes<T>, f: impl Fn(T, T) -> bool) -> u32 {
    let mut r = 0;
    for l in 0..32 {
        r |= u32::from(f(a.0[l], b.0[l])) << l;
    }
    r
}

/// Makes a function that runs its generic form, compiled for the processor's vectors where it has them.
macro_rules! compiled {
    ($(#[$doc:meta])* $name:ident, $generic:ident, ($($arg:ident: $ty:ty),*) $(-> $out:ty)?) => {
        $(#[$doc])*
        pub(crate) fn $name(fast: bool, $($arg: $ty),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,popcnt,lzcnt")]
                fn vectors($($arg: $ty),*) $(-> $out)? {
                    $generic($($arg),*)
                }
                if fast {
                    // SAFETY: `fast` is what `has_vectors` found on this processor.
                    return unsafe { vectors($($arg),*) };
                }
            }
            $generic($($arg),*)
        }
    };
}

/// Whether the processor has the vectors that rows are compiled for.
pub(crate) fn has_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("lzcnt");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

compiled!(
    /// `d = f(a, b, c)` of words.
    word, any_word, (rows: &mut [Lanes<u32>], f: Word, r: [Row; 4], mask: u32)
);
compiled!(
    /// `d = f(a, b, c)` of doubles.
    double, any_double, (rows: &mut [Lanes<u64>], f: Double, r: [Row; 4], mask: u32)
);
compiled!(
    /// `p = a ? b` of words.
    compare_word, any_compare_word, (rows: &[Lanes<u32>], f: Compare, a: Row, b: Row) -> u32
);
compiled!(
    /// `d = f(a, b)`, a double of words and a double.
    widen, any_widen, (words: &[Lanes<u32>], doubles: &mut [Lanes<u64>], f: Widen, r: [Row; 4], mask: u32)
);

fn float(v: u32) -> f32 {
    f32::from_bits(v)
}

fn s(v: u32) -> i32 {
    v as i32
}

/// Bits `position..position + length`, extended by the highest of them (or of the word) when signed.
fn extract(a: u32, position: u32, length: u32, signed: bool) -> u32 {
    let (position, length) = (position & 0xFF, length & 0xFF);
    let sign = if !signed || length == 0 { 0 } else { a >> (position + length - 1).min(31) & 1 };
    let kept = length.min(32u32.saturating_sub(position));
    let low = if kept == 0 { 0 } else { a.checked_shr(position).unwrap_or(0) & (u32::MAX >> (32 - kept)) };
    if sign == 1 { low | u32::MAX.checked_shl(kept).unwrap_or(0) } else { low }
}

fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    (0..4).fold(0, |r, i| {
        let nibble = selector >> (4 * i) & 0xF;
        let byte = (bytes >> (8 * (nibble & 7)) & 0xFF) as u32;
        let byte = if nibble & 8 == 0 {
            byte
        } else if byte & 0x80 != 0 {
            0xFF
        } else {
            0
        };
        r | byte << (8 * i)
    })
}

/// The number of the highest bit that differs from the sign (or is set), or all ones.
fn find(a: u32, signed: bool) -> u32 {
    let a = if signed && s(a) < 0 { !a } else { a };
    if a == 0 { u32::MAX } else { 31 - a.leading_zeros() }
}

fn funnel(a: u32, b: u32, by: u32, left: bool) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    if left { ((both << by) >> 32) as u32 } else { (both >> by) as u32 }
}

fn mask_bits(position: u32, length: u32, wrap: bool) -> u32 {
    let (position, length) = if wrap { (position & 31, length & 31) } else { (position.min(32), length.min(32)) };
    let ones = if length >= 32 { u32::MAX } else { (1 << length) - 1 };
    ones.checked_shl(position).unwrap_or(0)
}

#[inline(always)]
fn any_word(rows: &mut [Lanes<u32>], f: Word, r: [Row; 4], m: u32) {
    macro_rules! go {
        ($f:expr) => {
            each(rows, r, m, $f)
        };
    }
    match f {
        Word::Mov => go!(|a, _, _| a),
        Word::Add => go!(|a: u32, b, _| a.wrapping_add(b)),
        Word::Sub => go!(|a: u32, b, _| a.wrapping_sub(b)),
        Word::Mul => go!(|a: u32, b, _| a.wrapping_mul(b)),
        Word::MulHiS => go!(|a, b, _| ((i64::from(s(a)) * i64::from(s(b))) >> 32) as u32),
        Word::MulHiU => go!(|a, b, _| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        Word::Mad => go!(|a: u32, b, c| a.wrapping_mul(b).wrapping_add(c)),
        Word::MadHiS => go!(|a, b, c: u32| c.wrapping_add(((i64::from(s(a)) * i64::from(s(b))) >> 32) as u32)),
        Word::MadHiU => go!(|a, b, c: u32| c.wrapping_add(((u64::from(a) * u64::from(b)) >> 32) as u32)),
        // Division by zero gives all ones, and its remainder the dividend, as on the devices.
        Word::DivS => go!(|a, b, _| if b == 0 { u32::MAX } else { s(a).wrapping_div(s(b)) as u32 }),
        Word::DivU => go!(|a: u32, b, _| a.checked_div(b).unwrap_or(u32::MAX)),
        Word::RemS => go!(|a, b, _| if b == 0 { a } else { s(a).wrapping_rem(s(b)) as u32 }),
        Word::RemU => go!(|a: u32, b, _| a.checked_rem(b).unwrap_or(a)),
        Word::MinS => go!(|a, b, _| s(a).min(s(b)) as u32),
        Word::MinU => go!(|a: u32, b, _| a.min(b)),
        Word::MaxS => go!(|a, b, _| s(a).max(s(b)) as u32),
        Word::MaxU => go!(|a: u32, b, _| a.max(b)),
        Word::AbsS => go!(|a, _, _| s(a).wrapping_abs() as u32),
        Word::Neg => go!(|a: u32, _, _| a.wrapping_neg()),
        Word::AddSat => go!(|a, b, _| s(a).saturating_add(s(b)) as u32),
        Word::SubSat => go!(|a, b, _| s(a).saturating_sub(s(b)) as u32),
        Word::And => go!(|a, b, _| a & b),
        Word::Or => go!(|a, b, _| a | b),
        Word::Xor => go!(|a, b, _| a ^ b),
        Word::Not => go!(|a: u32, _, _| !a),
        Word::CNot => go!(|a, _, _| u32::from(a == 0)),
        Word::Shl => go!(|a: u32, b, _| if b > 31 { 0 } else { a << (b & 31) }),
        Word::ShrS => go!(|a, b: u32, _| (s(a) >> b.min(31)) as u32),
        Word::ShrU => go!(|a: u32, b, _| if b > 31 { 0 } else { a >> (b & 31) }),
        Word::Popc => go!(|a: u32, _, _| a.count_ones()),
        Word::Clz => go!(|a: u32, _, _| a.leading_zeros()),
        Word::Brev => go!(|a: u32, _, _| a.reverse_bits()),
        Word::BfindS => go!(|a, _, _| find(a, true)),
        Word::BfindU => go!(|a, _, _| find(a, false)),
        Word::BfindShiftS => go!(|a, _, _| if find(a, true) == u32::MAX { u32::MAX } else { 31 - find(a, true) }),
        Word::BfindShiftU => go!(|a, _, _| if a == 0 { u32::MAX } else { a.leading_zeros() }),
        Word::BfeS => go!(|a, b, c| extract(a, b, c, true)),
        Word::BfeU => go!(|a, b, c| extract(a, b, c, false)),
        Word::BmskClamp => go!(|a, b, _| mask_bits(a, b, false)),
        Word::BmskWrap => go!(|a, b, _| mask_bits(a, b, true)),
        Word::Prmt => go!(permute),
        Word::FunnelLClamp => go!(|a, b, c: u32| funnel(a, b, c.min(32), true)),
        Word::FunnelLWrap => go!(|a, b, c| funnel(a, b, c & 31, true)),
        Word::FunnelRClamp => go!(|a, b, c: u32| funnel(a, b, c.min(32), false)),
        Word::FunnelRWrap => go!(|a, b, c| funnel(a, b, c & 31, false)),
        Word::SExt8 => go!(|a, _, _| i32::from(a as i8) as u32),
        Word::SExt16 => go!(|a, _, _| i32::from(a as i16) as u32),
        Word::Low8 => go!(|a, _, _| a & 0xFF),
        Word::Low16 => go!(|a, _, _| a & 0xFFFF),
        Word::High16 => go!(|a, _, _| a >> 16),
        Word::Pack16 => go!(|a, b, _| a & 0xFFFF | b << 16),
        Word::FAdd => go!(|a, b, _| canonical(float(a) + float(b))),
        Word::FSub => go!(|a, b, _| canonical(float(a) - float(b))),
        Word::FMul => go!(|a, b, _| canonical(float(a) * float(b))),
        Word::FFma => go!(|a, b, c| canonical(float(a).mul_add(float(b), float(c)))),
        Word::FDiv => go!(|a, b, _| canonical(float(a) / float(b))),
        Word::FRcp => go!(|a, _, _| canonical(1.0 / float(a))),
        Word::FSqrt => go!(|a, _, _| canonical(float(a).sqrt())),
        Word::FMin => go!(|a, b, _| min(float(a), float(b))),
        Word::FMax => go!(|a, b, _| max(float(a), float(b))),
        Word::FMinNan => go!(|a, b, _| if float(a).is_nan() || float(b).is_nan() { crate::numeric::NAN } else { min(float(a), float(b)) }),
        Word::FMaxNan => go!(|a, b, _| if float(a).is_nan() || float(b).is_nan() { crate::numeric::NAN } else { max(float(a), float(b)) }),
        Word::FAbs => go!(|a, _, _| a & 0x7FFF_FFFF),
        Word::FNeg => go!(|a, _, _| a ^ 0x8000_0000),
        Word::FCopysign => go!(|a, b, _| a & 0x7FFF_FFFF | b & 0x8000_0000),
        Word::Flush => go!(|a, _, _| flush(a)),
        Word::Saturate => go!(|a, _, _| saturate(float(a))),
        Word::Relu => go!(|a, _, _| relu(float(a))),
        Word::FromHalf => go!(|a, _, _| from_half(a)),
        Word::FromBrain => go!(|a, _, _| from_brain(a)),
        Word::ToHalf => go!(|a, _, _| to_half(a)),
        Word::ToBrain => go!(|a, _, _| to_brain(a)),
        Word::PackHalf => go!(|a, b, _| to_half(a) << 16 | to_half(b)),
        Word::PackBrain => go!(|a, b, _| to_brain(a) << 16 | to_brain(b)),
        Word::FromS32 => go!(|a, _, _| (s(a) as f32).to_bits()),
        Word::FromU32 => go!(|a, _, _| (a as f32).to_bits()),
        Word::ToS32 => go!(|a, _, _| float(a) as i32 as u32),
        Word::ToU32 => go!(|a, _, _| float(a) as u32),
        Word::Trunc => go!(|a, _, _| canonical(float(a).trunc())),
        Word::Floor => go!(|a, _, _| canonical(float(a).floor())),
        Word::Ceil => go!(|a, _, _| canonical(float(a).ceil())),
        Word::Even => go!(|a, _, _| canonical(float(a).round_ties_even())),
    }
}

#[inline(always)]
fn any_double(rows: &mut [Lanes<u64>], f: Double, r: [Row; 4], m: u32) {
    macro_rules! go {
        ($f:expr) => {
            each(rows, r, m, $f)
        };
    }
    let s = |v: u64| v as i64;
    let d = f64::from_bits;
    let number = |v: f64| if v.is_nan() { 0x7FFF_FFFF_FFFF_FFFF } else { v.to_bits() };
    match f {
        Double::Mov => go!(|a, _, _| a),
        Double::Add => go!(|a: u64, b, _| a.wrapping_add(b)),
        Double::Sub => go!(|a: u64, b, _| a.wrapping_sub(b)),
        Double::Mul => go!(|a: u64, b, _| a.wrapping_mul(b)),
        Double::MulHiS => go!(|a, b, _| ((i128::from(s(a)) * i128::from(s(b))) >> 64) as u64),
        Double::MulHiU => go!(|a, b, _| ((u128::from(a) * u128::from(b)) >> 64) as u64),
        Double::Mad => go!(|a: u64, b, c| a.wrapping_mul(b).wrapping_add(c)),
        Double::MadHiS => go!(|a, b, c: u64| c.wrapping_add(((i128::from(s(a)) * i128::from(s(b))) >> 64) as u64)),
        Double::MadHiU => go!(|a, b, c: u64| c.wrapping_add(((u128::from(a) * u128::from(b)) >> 64) as u64)),
        Double::DivS => go!(|a, b, _| if b == 0 { u64::MAX } else { s(a).wrapping_div(s(b)) as u64 }),
        Double::DivU => go!(|a: u64, b, _| a.checked_div(b).unwrap_or(u64::MAX)),
        Double::RemS => go!(|a, b, _| if b == 0 { a } else { s(a).wrapping_rem(s(b)) as u64 }),
        Double::RemU => go!(|a: u64, b, _| a.checked_rem(b).unwrap_or(a)),
        Double::MinS => go!(|a, b, _| s(a).min(s(b)) as u64),
        Double::MinU => go!(|a: u64, b, _| a.min(b)),
        Double::MaxS => go!(|a, b, _| s(a).max(s(b)) as u64),
        Double::MaxU => go!(|a: u64, b, _| a.max(b)),
        Double::AbsS => go!(|a, _, _| s(a).wrapping_abs() as u64),
        Double::Neg => go!(|a: u64, _, _| a.wrapping_neg()),
        Double::And => go!(|a, b, _| a & b),
        Double::Or => go!(|a, b, _| a | b),
        Double::Xor => go!(|a, b, _| a ^ b),
        Double::Not => go!(|a: u64, _, _| !a),
        Double::CNot => go!(|a, _, _| u64::from(a == 0)),
        Double::Brev => go!(|a: u64, _, _| a.reverse_bits()),
        Double::FAdd => go!(|a, b, _| number(d(a) + d(b))),
        Double::FSub => go!(|a, b, _| number(d(a) - d(b))),
        Double::FMul => go!(|a, b, _| number(d(a) * d(b))),
        Double::FFma => go!(|a, b, c| number(d(a).mul_add(d(b), d(c)))),
        Double::FDiv => go!(|a, b, _| number(d(a) / d(b))),
        Double::FRcp => go!(|a, _, _| number(1.0 / d(a))),
        Double::FSqrt => go!(|a, _, _| number(d(a).sqrt())),
        Double::FMin => go!(|a, b, _| number(extreme(d(a), d(b), false))),
        Double::FMax => go!(|a, b, _| number(extreme(d(a), d(b), true))),
        Double::FAbs => go!(|a, _, _| a & !(1 << 63)),
        Double::FNeg => go!(|a, _, _| a ^ 1 << 63),
        Double::FCopysign => go!(|a, b, _| a & !(1 << 63) | b & 1 << 63),
    }
}

#[inline(always)]
fn any_compare_word(rows: &[Lanes<u32>], f: Compare, a: Row, b: Row) -> u32 {
    let (a, b) = (&rows[a as usize], &rows[b as usize]);
    compare(a, b, f, |v| v as i32, f32::from_bits)
}

/// `p = a ? b` of doubles.
pub(crate) fn compare_double(rows: &[Lanes<u64>], f: Compare, a: Row, b: Row) -> u32 {
    let (a, b) = (&rows[a as usize], &rows[b as usize]);
    compare(a, b, f, |v| v as i64, f64::from_bits)
}

#[inline(always)]
fn compare<T: Copy + Ord, S: Ord, F: PartialOrd>(a: &Lanes<T>, b: &Lanes<T>, f: Compare, s: impl Fn(T) -> S, d: impl Fn(T) -> F) -> u32 {
    // A NaN is what is not equal to itself.
    let nan = |x: T| {
        let (p, q) = (d(x), d(x));
        p != q
    };
    match f {
        Compare::Eq => test(a, b, |x, y| x == y),
        Compare::Ne => test(a, b, |x, y| x != y),
        Compare::LtS => test(a, b, |x, y| s(x) < s(y)),
        Compare::LeS => test(a, b, |x, y| s(x) <= s(y)),
        Compare::GtS => test(a, b, |x, y| s(x) > s(y)),
        Compare::GeS => test(a, b, |x, y| s(x) >= s(y)),
        Compare::LtU => test(a, b, |x, y| x < y),
        Compare::LeU => test(a, b, |x, y| x <= y),
        Compare::GtU => test(a, b, |x, y| x > y),
        Compare::GeU => test(a, b, |x, y| x >= y),
        Compare::FEq => test(a, b, |x, y| d(x) == d(y)),
        Compare::FNe => test(a, b, |x, y| d(x) < d(y) || d(x) > d(y)),
        Compare::FLt => test(a, b, |x, y| d(x) < d(y)),
        Compare::FLe => test(a, b, |x, y| d(x) <= d(y)),
        Compare::FGt => test(a, b, |x, y| d(x) > d(y)),
        Compare::FGe => test(a, b, |x, y| d(x) >= d(y)),
        Compare::FEqU => !test(a, b, |x, y| d(x) < d(y) || d(x) > d(y)),
        Compare::FNeU => test(a, b, |x, y| d(x) != d(y)),
        Compare::FLtU => !test(a, b, |x, y| d(x) >= d(y)),
        Compare::FLeU => !test(a, b, |x, y| d(x) > d(y)),
        Compare::FGtU => !test(a, b, |x, y| d(x) <= d(y)),
        Compare::FGeU => !test(a, b, |x, y| d(x) < d(y)),
        Compare::Num => test(a, b, |x, y| !nan(x) && !nan(y)),
        Compare::Nan => test(a, b, |x, y| nan(x) || nan(y)),
    }
}

#[inline(always)]
fn any_widen(words: &[Lanes<u32>], doubles: &mut [Lanes<u64>], f: Widen, [d, a, b, c]: [Row; 4], m: u32) {
    let (x, y, z) = (words[a as usize], words[b as usize], doubles[c as usize]);
    let mut r = Lanes([0; 32]);
    let (wide, signed) = (u64::from as fn(u32) -> u64, |v: u32| i64::from(v as i32));
    macro_rules! go {
        ($l:ident, $e:expr) => {
            for $l in 0..32 {
                r.0[$l] = $e;
            }
        };
    }
    match f {
        Widen::S => go!(l, signed(x.0[l]) as u64),
        Widen::U => go!(l, u64::from(x.0[l])),
        Widen::Pack => go!(l, u64::from(x.0[l]) | u64::from(y.0[l]) << 32),
        Widen::MulS => go!(l, (signed(x.0[l]) * signed(y.0[l])) as u64),
        Widen::MulU => go!(l, u64::from(x.0[l]) * u64::from(y.0[l])),
        Widen::MadS => go!(l, z.0[l].wrapping_add((signed(x.0[l]) * signed(y.0[l])) as u64)),
        Widen::MadU => go!(l, z.0[l].wrapping_add(wide(x.0[l]) * wide(y.0[l]))),
        Widen::F => go!(l, {
            let v = f32::from_bits(x.0[l]);
            if v.is_nan() { 0x7FFF_FFFF_FFFF_FFFF } else { f64::from(v).to_bits() }
        }),
        Widen::FromS32 => go!(l, f64::from(x.0[l] as i32).to_bits()),
        Widen::FromU32 => go!(l, f64::from(x.0[l]).to_bits()),
    }
    keep(&mut doubles[d as usize], &r, m);
}

/// A word of a double.
pub(crate) fn narrow(rows: &mut Rows<'_>, f: Narrow, [d, a]: [Row; 2], m: u32) {
    let x = rows.doubles[a as usize];
    let find = |v: u64| if v == 0 { u32::MAX } else { 63 - v.leading_zeros() };
    let mut r = Lanes([0; 32]);
    for l in 0..32 {
        let v = x.0[l];
        r.0[l] = match f {
            Narrow::Low => v as u32,
            Narrow::High => (v >> 32) as u32,
            Narrow::Popc => v.count_ones(),
            Narrow::Clz => v.leading_zeros(),
            Narrow::BfindS => find(if (v as i64) < 0 { !v } else { v }),
            Narrow::BfindU => find(v),
            Narrow::F => canonical(f64::from_bits(v) as f32),
        };
    }
    keep(&mut rows.words[d as usize], &r, m);
}

/// A double shifted by words.
pub(crate) fn shift(rows: &mut Rows<'_>, f: Shift, [d, a, b, c]: [Row; 4], m: u32) {
    let (x, y, z) = (rows.doubles[a as usize], rows.words[b as usize], rows.words[c as usize]);
    let mut r = Lanes([0; 32]);
    for l in 0..32 {
        let (v, by) = (x.0[l], y.0[l]);
        r.0[l] = match f {
            Shift::Left => v.checked_shl(by).unwrap_or(0),
            Shift::RightS => ((v as i64) >> by.min(63)) as u64,
            Shift::RightU => v.checked_shr(by).unwrap_or(0),
            Shift::BfeS => extract_double(v, by, z.0[l], true),
            Shift::BfeU => extract_double(v, by, z.0[l], false),
        };
    }
    keep(&mut rows.doubles[d as usize], &r, m);
}

fn extract_double(a: u64, position: u32, length: u32, signed: bool) -> u64 {
    let (position, length) = (position & 0xFF, length & 0xFF);
    let sign = if !signed || length == 0 { 0 } else { a >> (position + length - 1).min(63) & 1 };
    let kept = length.min(64u32.saturating_sub(position));
    let low = if kept == 0 { 0 } else { a.checked_shr(position).unwrap_or(0) & (u64::MAX >> (64 - kept)) };
    if sign == 1 { low | u64::MAX.checked_shl(kept).unwrap_or(0) } else { low }
}

/// `length` bits of `a` in `b` from `position`.
pub(crate) fn insert(rows: &mut Rows<'_>, wide: bool, [d, a, b, position, length]: [Row; 5], m: u32) {
    let (p, n) = (rows.words[position as usize], rows.words[length as usize]);
    let field = |a: u64, b: u64, l: usize| {
        let (p, n) = (p.0[l] & 0xFF, n.0[l] & 0xFF);
        let ones = if n >= 64 { u64::MAX } else { (1 << n) - 1 };
        let mask = ones.checked_shl(p).unwrap_or(0);
        b & !mask | a.checked_shl(p).unwrap_or(0) & mask
    };
    if wide {
        let (x, y) = (rows.doubles[a as usize], rows.doubles[b as usize]);
        let r = Lanes(std::array::from_fn(|l| field(x.0[l], y.0[l], l)));
        keep(&mut rows.doubles[d as usize], &r, m);
    } else {
        let (x, y) = (rows.words[a as usize], rows.words[b as usize]);
        let r = Lanes(std::array::from_fn(|l| field(u64::from(x.0[l]), u64::from(y.0[l]), l) as u32));
        keep(&mut rows.words[d as usize], &r, m);
    }
}

/// Any function of three bits, bit by bit.
pub(crate) fn lop3(rows: &mut [Lanes<u32>], r: [Row; 4], table: u8, m: u32) {
    each(rows, r, m, |a, b, c| {
        (0..8).filter(|i| table >> i & 1 != 0).fold(0, |out, i| {
            let pick = |v: u32, bit: u32| if bit != 0 { v } else { !v };
            out | pick(a, i & 4) & pick(b, i & 2) & pick(c, i & 1)
        })
    });
}

/// `p ? a : b`.
pub(crate) fn select<T: Copy + Default>(rows: &mut [Lanes<T>], [d, a, b]: [Row; 3], p: u32, m: u32) {
    let (x, mut y) = (rows[a as usize], rows[b as usize]);
    keep(&mut y, &x, p);
    keep(&mut rows[d as usize], &y, m);
}

/// A function of predicates.
pub(crate) fn logic(f: Logic, a: u32, b: u32) -> u32 {
    match f {
        Logic::Mov => a,
        Logic::Not => !a,
        Logic::And => a & b,
        Logic::Or => a | b,
        Logic::Xor => a ^ b,
        Logic::AndNot => !a & b,
        Logic::OrNot => !a | b,
        Logic::XorNot => !a ^ b,
    }
}
