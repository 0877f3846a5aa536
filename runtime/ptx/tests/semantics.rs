//! Every instruction against the same in plain Rust, on edge values and pseudo-random ones.
#![allow(clippy::neg_cmp_op_on_partial_ord, reason = "comparisons that hold for what is unordered are the negated ones")]

mod support;

use half::{bf16, f16};
use support::{evaluate, operands};

const WORDS: &[u64] = &[0, 1, 2, 5, 31, 32, 33, 63, 64, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF];
const DOUBLES: &[u64] = &[0, 1, 7, 63, 64, 65, 0xFFFF_FFFF, 0x8000_0000, i64::MAX as u64, i64::MIN as u64, u64::MAX];

/// `f` of words.
fn words(text: &str, f: impl Fn(u32, u32, u32) -> u32) {
    let ops = operands(WORDS, 200);
    for (o, got) in ops.iter().zip(evaluate(text, 'd', &ops)) {
        let [a, b, c] = o.map(|v| v as u32);
        assert_eq!(got, u64::from(f(a, b, c)), "{text} of {a:#x}, {b:#x}, {c:#x}");
    }
}

fn doubles(text: &str, f: impl Fn(u64, u64, u64) -> u64) {
    let ops = operands(DOUBLES, 200);
    for (o, got) in ops.iter().zip(evaluate(text, 'D', &ops)) {
        let [a, b, c] = *o;
        assert_eq!(got, f(a, b, c), "{text} of {a:#x}, {b:#x}, {c:#x}");
    }
}

fn halves(text: &str, f: impl Fn(u16, u16, u16) -> u16) {
    let ops = operands(&[0, 1, 2, 15, 16, 17, 0x7FFF, 0x8000, 0xFFFF, 0x3C00, 0x7C00, 0xFC00, 0x7E00, 0x0400, 0x83FF], 400);
    for (o, got) in ops.iter().zip(evaluate(text, 'h', &ops)) {
        let [a, b, c] = o.map(|v| v as u16);
        assert_eq!(got, u64::from(f(a, b, c)), "{text} of {a:#x}, {b:#x}, {c:#x}");
    }
}

fn predicates(text: &str, f: impl Fn(u64, u64) -> bool, edges: &[u64]) {
    let ops = operands(edges, 200);
    for (o, got) in ops.iter().zip(evaluate(text, 'q', &ops)) {
        assert_eq!(got == 1, f(o[0], o[1]), "{text} of {:#x}, {:#x}", o[0], o[1]);
    }
}

/// Bits of singles worth trying.
fn singles() -> Vec<u64> {
    let values = [0.0f32, -0.0, 1.0, -1.0, 1.5, 0.1, -3.7, 1e-40, -1e-45, 1e38, 3.4e38, -3.4e38, 16_777_217.0, 0.499_999_97, 2.5, -2.5, 3.5, 1e10];
    let mut bits: Vec<u64> = values.iter().map(|v| u64::from(v.to_bits())).collect();
    bits.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE].map(|v| u64::from(v.to_bits())));
    bits
}

fn double_floats() -> Vec<u64> {
    [0.0f64, -0.0, 1.0, -1.5, 0.1, 1e-310, 1e308, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 4.0e9, -2.5, 1e19].iter().map(|v| v.to_bits()).collect()
}

fn canonical(v: f32) -> u32 {
    if v.is_nan() { 0x7FFF_FFFF } else { v.to_bits() }
}

fn floats(text: &str, f: impl Fn(f32, f32, f32) -> f32) {
    let ops = operands(&singles(), 300);
    for (o, got) in ops.iter().zip(evaluate(text, 'd', &ops)) {
        let [a, b, c] = o.map(|v| f32::from_bits(v as u32));
        assert_eq!(got as u32, canonical(f(a, b, c)), "{text} of {a:e}, {b:e}, {c:e}");
    }
}

fn float_doubles(text: &str, f: impl Fn(f64, f64, f64) -> f64) {
    let ops = operands(&double_floats(), 300);
    for (o, got) in ops.iter().zip(evaluate(text, 'D', &ops)) {
        let [a, b, c] = o.map(f64::from_bits);
        let want = f(a, b, c);
        assert!(got == want.to_bits() || want.is_nan() && f64::from_bits(got).is_nan(), "{text} of {a:e}, {b:e}, {c:e}: {got:#x}, {want:e}");
    }
}

#[test]
fn integers_of_32_bits() {
    let s = |v: u32| v as i32;
    words("add.s32 %d, %a, %b;", |a, b, _| a.wrapping_add(b));
    words("add.u32 %d, %a, -7;", |a, _, _| a.wrapping_sub(7));
    words("add.sat.s32 %d, %a, %b;", |a, b, _| s(a).saturating_add(s(b)) as u32);
    words("sub.s32 %d, %a, %b;", |a, b, _| a.wrapping_sub(b));
    words("mul.lo.s32 %d, %a, %b;", |a, b, _| a.wrapping_mul(b));
    words("mul.hi.s32 %d, %a, %b;", |a, b, _| ((i64::from(s(a)) * i64::from(s(b))) >> 32) as u32);
    words("mul.hi.u32 %d, %a, %b;", |a, b, _| ((u64::from(a) * u64::from(b)) >> 32) as u32);
    words("mad.lo.s32 %d, %a, %b, %c;", |a, b, c| a.wrapping_mul(b).wrapping_add(c));
    words("mad.hi.u32 %d, %a, %b, %c;", |a, b, c| (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c));
    words("div.s32 %d, %a, %b;", |a, b, _| if b == 0 { u32::MAX } else { s(a).wrapping_div(s(b)) as u32 });
    words("div.u32 %d, %a, %b;", |a, b, _| a.checked_div(b).unwrap_or(u32::MAX));
    words("rem.s32 %d, %a, %b;", |a, b, _| if b == 0 { a } else { s(a).wrapping_rem(s(b)) as u32 });
    words("rem.u32 %d, %a, %b;", |a, b, _| if b == 0 { a } else { a % b });
    words("min.s32 %d, %a, %b;", |a, b, _| s(a).min(s(b)) as u32);
    words("max.u32 %d, %a, %b;", |a, b, _| a.max(b));
    words("abs.s32 %d, %a;", |a, _, _| s(a).wrapping_abs() as u32);
    words("neg.s32 %d, %a;", |a, _, _| a.wrapping_neg());
    words("selp.b32 %d, %a, %b, %p;", |a, b, _| if a & 1 == 1 { a } else { b });
    words("slct.s32.s32 %d, %a, %b, %c;", |a, b, c| if s(c) >= 0 { a } else { b });
    words("@%p add.s32 %d, %a, 1;\n@!%p mov.u32 %d, 77;", |a, _, _| if a & 1 == 1 { a.wrapping_add(1) } else { 77 });
}

#[test]
fn bits_of_32() {
    words("and.b32 %d, %a, %b;", |a, b, _| a & b);
    words("or.b32 %d, %a, 0xF0;", |a, _, _| a | 0xF0);
    words("xor.b32 %d, %a, %b;", |a, b, _| a ^ b);
    words("not.b32 %d, %a;", |a, _, _| !a);
    words("cnot.b32 %d, %a;", |a, _, _| u32::from(a == 0));
    words("shl.b32 %d, %a, %b;", |a, b, _| a.checked_shl(b).unwrap_or(0));
    words("shr.u32 %d, %a, %b;", |a, b, _| a.checked_shr(b).unwrap_or(0));
    words("shr.s32 %d, %a, %b;", |a, b, _| (a as i32 >> b.min(31)) as u32);
    words("popc.b32 %d, %a;", |a, _, _| a.count_ones());
    words("clz.b32 %d, %a;", |a, _, _| a.leading_zeros());
    words("brev.b32 %d, %a;", |a, _, _| a.reverse_bits());
    words("bfind.u32 %d, %a;", |a, _, _| if a == 0 { u32::MAX } else { 31 - a.leading_zeros() });
    words("bfe.u32 %d, %a, 5, 7;", |a, _, _| a >> 5 & 127);
    words("bfe.s32 %d, %a, 5, 7;", |a, _, _| ((a << 20) as i32 >> 25) as u32);
    words("bfe.s32 %d, %a, 28, 9;", |a, _, _| (a as i32 >> 28) as u32);
    words("bfi.b32 %d, %a, %b, 4, 8;", |a, b, _| b & !0xFF0 | (a & 0xFF) << 4);
    words("bfi.b32 %d, %a, %b, 28, 8;", |a, b, _| b & 0x0FFF_FFFF | a << 28);
    words("prmt.b32 %d, %a, %b, 0x5410;", |a, b, _| a & 0xFFFF | b << 16);
    words("prmt.b32 %d, %a, %b, 0x7632;", |a, b, _| a >> 16 | b & 0xFFFF_0000);
    words("prmt.b32 %d, %a, %b, 0x888B;", |a, _, _| {
        let (high, low) = (if a >> 31 == 1 { 0xFF } else { 0 }, if a & 0x80 != 0 { 0x00FF_FFFF } else { 0 });
        high | low << 8
    });
    words("shf.l.wrap.b32 %d, %a, %b, 7;", |a, b, _| b << 7 | a >> 25);
    words("shf.r.wrap.b32 %d, %a, %b, 7;", |a, b, _| a >> 7 | b << 25);
    words("shf.l.clamp.b32 %d, %a, %b, 40;", |a, _, _| a);
    words("shf.r.clamp.b32 %d, %a, %b, 40;", |_, b, _| b);
    words("lop3.b32 %d, %a, %b, %c, 0x96;", |a, b, c| a ^ b ^ c);
    words("lop3.b32 %d, %a, %b, %c, 0xEA;", |a, b, c| (a & b) | c);
    words("lop3.b32 %d, %a, %b, %c, 0x40;", |a, b, c| a & b & !c);
    words("bmsk.clamp.b32 %d, 3, 5;", |_, _, _| 0b1111_1000);
}

#[test]
fn integers_of_64_bits() {
    let s = |v: u64| v as i64;
    doubles("add.s64 %D, %A, %B;", |a, b, _| a.wrapping_add(b));
    doubles("sub.s64 %D, %A, %B;", |a, b, _| a.wrapping_sub(b));
    doubles("mul.lo.s64 %D, %A, %B;", |a, b, _| a.wrapping_mul(b));
    doubles("mul.hi.u64 %D, %A, %B;", |a, b, _| ((u128::from(a) * u128::from(b)) >> 64) as u64);
    doubles("mul.hi.s64 %D, %A, %B;", |a, b, _| ((i128::from(s(a)) * i128::from(s(b))) >> 64) as u64);
    doubles("mad.lo.s64 %D, %A, %B, %C;", |a, b, c| a.wrapping_mul(b).wrapping_add(c));
    doubles("div.s64 %D, %A, %B;", |a, b, _| if b == 0 { u64::MAX } else { s(a).wrapping_div(s(b)) as u64 });
    doubles("rem.u64 %D, %A, %B;", |a, b, _| if b == 0 { a } else { a % b });
    doubles("min.s64 %D, %A, %B;", |a, b, _| s(a).min(s(b)) as u64);
    doubles("max.u64 %D, %A, %B;", |a, b, _| a.max(b));
    doubles("shl.b64 %D, %A, %b;", |a, b, _| a.checked_shl(b as u32).unwrap_or(0));
    doubles("shr.s64 %D, %A, %b;", |a, b, _| (s(a) >> (b as u32).min(63)) as u64);
    doubles("shr.u64 %D, %A, %b;", |a, b, _| a.checked_shr(b as u32).unwrap_or(0));
    doubles("and.b64 %D, %A, %B;", |a, b, _| a & b);
    doubles("not.b64 %D, %A;", |a, _, _| !a);
    doubles("mul.wide.s32 %D, %a, %b;", |a, b, _| (i64::from(a as i32) * i64::from(b as i32)) as u64);
    doubles("mul.wide.u32 %D, %a, 12;", |a, _, _| u64::from(a as u32) * 12);
    doubles("mad.wide.s32 %D, %a, %b, %C;", |a, b, c| c.wrapping_add((i64::from(a as i32) * i64::from(b as i32)) as u64));
    doubles("cvt.s64.s32 %D, %a;", |a, _, _| i64::from(a as i32) as u64);
    doubles("cvt.u64.u32 %D, %a;", |a, _, _| u64::from(a as u32));
    doubles("mov.b64 %D, {%a, %b};", |a, b, _| u64::from(a as u32) | u64::from(b as u32) << 32);
    doubles("selp.b64 %D, %A, %B, %p;", |a, b, _| if a & 1 == 1 { a } else { b });
    doubles("bfe.u64 %D, %A, 9, 40;", |a, _, _| a >> 9 & ((1 << 40) - 1));
    doubles("bfi.b64 %D, %A, %B, 60, 8;", |a, b, _| b & !(0xF << 60) | a << 60);
    doubles("popc.b64 %d, %A;\nclz.b64 %x, %A;\nmov.b64 %D, {%d, %x};", |a, _, _| u64::from(a.count_ones()) | u64::from(a.leading_zeros()) << 32);
}

#[test]
fn integers_of_16_bits() {
    let s = |v: u16| v as i16;
    halves("add.s16 %hd, %ha, %hb;", |a, b, _| a.wrapping_add(b));
    halves("sub.u16 %hd, %ha, %hb;", |a, b, _| a.wrapping_sub(b));
    halves("mul.lo.u16 %hd, %ha, %hb;", |a, b, _| a.wrapping_mul(b));
    halves("div.s16 %hd, %ha, 3;", |a, _, _| (s(a) / 3) as u16);
    halves("rem.u16 %hd, %ha, 7;", |a, _, _| a % 7);
    halves("min.s16 %hd, %ha, %hb;", |a, b, _| s(a).min(s(b)) as u16);
    halves("shr.s16 %hd, %ha, %b;", |a, b, _| (s(a) >> b.min(15)) as u16);
    halves("shl.b16 %hd, %ha, 3;", |a, _, _| a << 3);
    halves("not.b16 %hd, %ha;", |a, _, _| !a);
    halves("neg.s16 %hd, %ha;", |a, _, _| a.wrapping_neg());
    halves("cvt.s16.s8 %hd, %ha;", |a, _, _| i16::from(a as i8) as u16);
    halves("cvt.u16.u8 %hd, %ha;", |a, _, _| a & 0xFF);
    words("cvt.s32.s16 %d, %ha;", |a, _, _| i32::from(a as i16) as u32);
    words("cvt.u32.u16 %d, %ha;", |a, _, _| a & 0xFFFF);
    words("cvt.s32.s8 %d, %a;", |a, _, _| i32::from(a as i8) as u32);
    words("mul.wide.s16 %d, %ha, %hb;", |a, b, _| (i32::from(a as i16) * i32::from(b as i16)) as u32);
    words("mov.b32 %d, {%hb, %ha};", |a, b, _| b & 0xFFFF | a << 16);
    words("mov.b32 {_, %hd}, %a;\ncvt.u32.u16 %d, %hd;", |a, _, _| a >> 16);
    predicates("setp.lt.s16 %q, %ha, %hb;", |a, b| (a as i16) < b as i16, WORDS);
    predicates("setp.lt.u16 %q, %ha, %hb;", |a, b| (a as u16) < b as u16, WORDS);
    words("add.s16x2 %d, %a, %b;", |a, b, _| a.wrapping_add(b) & 0xFFFF | ((a >> 16).wrapping_add(b >> 16)) << 16);
}

#[test]
fn comparisons() {
    predicates("setp.lt.s32 %q, %a, %b;", |a, b| (a as i32) < b as i32, WORDS);
    predicates("setp.ge.u32 %q, %a, %b;", |a, b| a as u32 >= b as u32, WORDS);
    predicates("setp.lo.u32 %q, %a, %b;", |a, b| (a as u32) < b as u32, WORDS);
    predicates("setp.ne.b64 %q, %A, %B;", |a, b| a != b, DOUBLES);
    predicates("setp.gt.s64 %q, %A, %B;", |a, b| a as i64 > b as i64, DOUBLES);
    predicates("setp.lt.and.s32 %q, %a, %b, %p;", |a, b| (a as i32) < b as i32 && a & 1 == 1, WORDS);
    predicates("setp.lt.or.s32 %q, %a, %b, !%p;", |a, b| (a as i32) < b as i32 || a & 1 == 0, WORDS);
    predicates("setp.eq.xor.s32 %p|%q, %a, %b, %p;", |a, b| (a as u32 != b as u32) != (a & 1 == 1), WORDS);
    predicates("@%p setp.eq.s32 %p|%q, %a, %b;", |a, b| a & 1 == 1 && a as u32 != b as u32, WORDS);
    let f = |v: u64| f32::from_bits(v as u32);
    let edges = singles();
    let ordered = |a: u64, b: u64| !f(a).is_nan() && !f(b).is_nan();
    for (name, test) in [
        ("eq", (|a, b| a == b) as fn(f32, f32) -> bool),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("gt", |a, b| a > b),
        ("ge", |a, b| a >= b),
        ("ne", |a, b| a != b),
    ] {
        predicates(&format!("setp.{name}.f32 %q, %a, %b;"), |a, b| ordered(a, b) && test(f(a), f(b)), &edges);
        predicates(&format!("setp.{name}u.f32 %q, %a, %b;"), |a, b| !ordered(a, b) || test(f(a), f(b)), &edges);
    }
    predicates("setp.num.f32 %q, %a, %b;", ordered, &edges);
    predicates("setp.nan.f32 %q, %a, %b;", |a, b| !ordered(a, b), &edges);
    predicates("setp.ltu.f64 %q, %A, %B;", |a, b| !(f64::from_bits(a) >= f64::from_bits(b)), &double_floats());
    predicates("testp.finite.f32 %q, %a;", |a, _| f(a).is_finite(), &edges);
    words("set.eq.u32.s32 %d, %a, %b;", |a, b, _| if a == b { u32::MAX } else { 0 });
    words("set.lt.f32.s32 %d, %a, %b;", |a, b, _| if (a as i32) < b as i32 { 1f32.to_bits() } else { 0 });
    predicates("and.pred %q, %p, %p;\nnot.pred %q, %q;", |a, _| a & 1 == 0, WORDS);
}

#[test]
fn singles_are_exact() {
    floats("add.f32 %d, %a, %b;", |a, b, _| a + b);
    floats("add.rn.f32 %d, %a, 0f3FC00000;", |a, _, _| a + 1.5);
    floats("sub.rn.f32 %d, %a, %b;", |a, b, _| a - b);
    floats("mul.rn.f32 %d, %a, %b;", |a, b, _| a * b);
    floats("fma.rn.f32 %d, %a, %b, %c;", f32::mul_add);
    floats("div.rn.f32 %d, %a, %b;", |a, b, _| a / b);
    floats("rcp.rn.f32 %d, %a;", |a, _, _| 1.0 / a);
    floats("sqrt.rn.f32 %d, %a;", |a, _, _| a.sqrt());
    floats("min.f32 %d, %a, %b;", |a, b, _| if a == b { f32::from_bits(a.to_bits() | b.to_bits()) } else { a.min(b) });
    floats("max.f32 %d, %a, %b;", |a, b, _| if a == b { f32::from_bits(a.to_bits() & b.to_bits()) } else { a.max(b) });
    floats("max.NaN.f32 %d, %a, %b;", |a, b, _| {
        if a.is_nan() || b.is_nan() {
            f32::NAN
        } else if a == b {
            f32::from_bits(a.to_bits() & b.to_bits())
        } else {
            a.max(b)
        }
    });
    floats("cvt.rni.f32.f32 %d, %a;", |a, _, _| a.round_ties_even());
    floats("cvt.rmi.f32.f32 %d, %a;", |a, _, _| a.floor());
    floats("cvt.rpi.f32.f32 %d, %a;", |a, _, _| a.ceil());
    floats("cvt.rzi.f32.f32 %d, %a;", |a, _, _| a.trunc());
    floats("cvt.sat.f32.f32 %d, %a;", |a, _, _| if a > 0.0 { a.min(1.0) } else { 0.0 });
    floats("add.sat.f32 %d, %a, %b;", |a, b, _| if a + b > 0.0 { (a + b).min(1.0) } else { 0.0 });
    let flush = |v: f32| if v.is_subnormal() { 0f32.copysign(v) } else { v };
    floats("mul.ftz.f32 %d, %a, %b;", |a, b, _| flush(flush(a) * flush(b)));
    words("neg.f32 %d, %a;", |a, _, _| a ^ 0x8000_0000);
    words("abs.f32 %d, %a;", |a, _, _| a & 0x7FFF_FFFF);
    words("copysign.f32 %d, %a, %b;", |a, b, _| b & 0x7FFF_FFFF | a & 0x8000_0000);
    let ops = operands(&double_floats(), 100);
    for (o, got) in ops.iter().zip(evaluate("cvt.rn.f32.f64 %d, %A;", 'd', &ops)) {
        assert_eq!(got as u32, canonical(f64::from_bits(o[0]) as f32));
    }
}

/// The exact result of two singles lies between the results of the directed modes, which are neighbours, and nearest is one of them.
#[test]
fn directed_rounding_brackets_the_exact_result() {
    let ops: Vec<_> = operands(&singles(), 500).into_iter().filter(|o| o.iter().all(|v| f32::from_bits(*v as u32).is_finite())).collect();
    for what in ["add", "sub", "mul", "div"] {
        let [down, up, zero, near] = ["rm", "rp", "rz", "rn"].map(|mode| evaluate(&format!("{what}.{mode}.f32 %d, %a, %b;"), 'd', &ops));
        for (i, o) in ops.iter().enumerate() {
            let [a, b, _] = o.map(|v| f64::from(f32::from_bits(v as u32)));
            let exact = match what {
                "add" => a + b,
                "sub" => a - b,
                "mul" => a * b,
                _ => a / b,
            };
            if exact.is_nan() {
                continue;
            }
            let [d, u, z, n] = [&down, &up, &zero, &near].map(|v| f32::from_bits(v[i] as u32));
            assert!(f64::from(d) <= exact && exact <= f64::from(u), "{what} {a:e} {b:e}: {d:e} {exact:e} {u:e}");
            assert!(d == u || d.next_up() == u || (d == 0.0 && u == 0.0), "{what} {a:e} {b:e}: {d:e} {u:e}");
            assert_eq!(z, if exact > 0.0 { d } else { u }, "{what} {a:e} {b:e}");
            assert!(n == d || n == u);
        }
    }
}

#[test]
fn doubles_are_exact() {
    float_doubles("add.rn.f64 %D, %A, %B;", |a, b, _| a + b);
    float_doubles("mul.f64 %D, %A, %B;", |a, b, _| a * b);
    float_doubles("fma.rn.f64 %D, %A, %B, %C;", f64::mul_add);
    float_doubles("div.rn.f64 %D, %A, %B;", |a, b, _| a / b);
    float_doubles("sqrt.rn.f64 %D, %A;", |a, _, _| a.sqrt());
    float_doubles("max.f64 %D, %A, %B;", |a, b, _| if a == b { f64::from_bits(a.to_bits() & b.to_bits()) } else { a.max(b) });
    float_doubles("cvt.f64.f32 %D, %a;", |a, _, _| f64::from(f32::from_bits(a.to_bits() as u32)));
    float_doubles("cvt.rn.f64.s32 %D, %a;", |a, _, _| f64::from(a.to_bits() as i32));
    float_doubles("cvt.rn.f64.u64 %D, %A;", |a, _, _| a.to_bits() as f64);
    float_doubles("cvt.rpi.f64.f64 %D, %A;", |a, _, _| a.ceil());
    doubles("cvt.rzi.s64.f64 %D, %A;", |a, _, _| f64::from_bits(a) as i64 as u64);
}

#[test]
fn conversions_of_numbers() {
    let f = f32::from_bits;
    words("cvt.rn.f32.s32 %d, %a;", |a, _, _| (a as i32 as f32).to_bits());
    words("cvt.rn.f32.u32 %d, %a;", |a, _, _| (a as f32).to_bits());
    words("cvt.rzi.s32.f32 %d, %a;", |a, _, _| f(a) as i32 as u32);
    words("cvt.rni.s32.f32 %d, %a;", |a, _, _| f(a).round_ties_even() as i32 as u32);
    words("cvt.rzi.u32.f32 %d, %a;", |a, _, _| f(a) as u32);
    doubles("cvt.rzi.u32.f64 %d, %A;\ncvt.u64.u32 %D, %d;", |a, _, _| u64::from(f64::from_bits(a) as u32));
    words("cvt.sat.s8.s32 %d, %a;", |a, _, _| (a as i32).clamp(-128, 127) as u32);
    words("cvt.sat.u16.s32 %hd, %a;\ncvt.u32.u16 %d, %hd;", |a, _, _| (a as i32).clamp(0, 65535) as u32);
    doubles("cvt.rn.f32.s64 %d, %A;\ncvt.u64.u32 %D, %d;", |a, _, _| u64::from((a as i64 as f32).to_bits()));
    // Towards zero, an integer of 25 bits loses its last.
    words("cvt.rz.f32.u32 %d, 0x1FFFFFF;", |_, _, _| 33_554_430f32.to_bits());
    words("cvt.rp.f32.u32 %d, 0x1FFFFFD;", |_, _, _| 33_554_430f32.to_bits());
    doubles("cvt.rzi.s64.f32 %D, %a;", |a, _, _| f(a as u32) as i64 as u64);
}

#[test]
fn halves_and_brain_floats() {
    let h = |v: u16| f16::from_bits(v);
    let canon = |v: f16| if v.is_nan() { 0x7FFF } else { v.to_bits() };
    let brain = |v: bf16| if v.is_nan() { 0x7FFF } else { v.to_bits() };
    let b = |v: u16| bf16::from_bits(v);
    halves("add.rn.f16 %hd, %ha, %hb;", |x, y, _| canon(f16::from_f64(h(x).to_f64() + h(y).to_f64())));
    halves("mul.rn.f16 %hd, %ha, %hb;", |x, y, _| canon(f16::from_f64(h(x).to_f64() * h(y).to_f64())));
    halves("sub.bf16 %hd, %ha, %hb;", |x, y, _| brain(bf16::from_f32(b(x).to_f32() - b(y).to_f32())));
    halves("neg.f16 %hd, %ha;", |x, _, _| x ^ 0x8000);
    halves("abs.bf16 %hd, %ha;", |x, _, _| x & 0x7FFF);
    words("cvt.rn.f16.f32 %hd, %a;\ncvt.u32.u16 %d, %hd;", |x, _, _| u32::from(canon(f16::from_f32(f32::from_bits(x)))));
    words("cvt.f32.f16 %d, %ha;", |a, _, _| canonical(f16::from_bits(a as u16).to_f32()));
    words("cvt.f32.bf16 %d, %ha;", |a, _, _| canonical(bf16::from_bits(a as u16).to_f32()));
    let pair = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
    let f = f32::from_bits;
    words("cvt.rn.bf16x2.f32 %d, %a, %b;", |x, y, _| pair(brain(bf16::from_f32(f(x))), brain(bf16::from_f32(f(y)))));
    words("cvt.rn.f16x2.f32 %d, %a, %b;", |x, y, _| pair(canon(f16::from_f32(f(x))), canon(f16::from_f32(f(y)))));
    words("cvt.rn.bf16.f32 %hd, %a;\ncvt.u32.u16 %d, %hd;", |x, _, _| u32::from(brain(bf16::from_f32(f(x)))));
    words("add.f16x2 %d, %a, %b;", |x, y, _| {
        let add = |x: u32, y: u32| canon(f16::from_f64(h(x as u16).to_f64() + h(y as u16).to_f64()));
        pair(add(x >> 16, y >> 16), add(x, y))
    });
    words("max.bf16x2 %d, %a, %b;", |x, y, _| {
        let one = |x: u32, y: u32| {
            let (p, q) = (b(x as u16), b(y as u16));
            if p.is_nan() && q.is_nan() {
                0x7FFF
            } else if p.is_nan() || q > p || (p == q && p.is_sign_negative()) {
                q.to_bits()
            } else {
                p.to_bits()
            }
        };
        pair(one(x >> 16, y >> 16), one(x, y))
    });
    // Rounded once: 1.0078125 · 1.0078125 is a tie for eight bits, and the smallest addend breaks it.
    words("mov.b16 %ha, 0x3F81;\nmov.b16 %hb, 1;\nfma.rn.bf16 %hd, %ha, %ha, %hb;\ncvt.u32.u16 %d, %hd;", |_, _, _| 0x3F82);
    predicates("setp.lt.f16 %q, %ha, %hb;", |x, y| h(x as u16) < h(y as u16), WORDS);
    predicates("setp.geu.bf16 %q, %ha, %hb;", |x, y| !(b(x as u16) < b(y as u16)), WORDS);
}

#[test]
fn pairs_of_singles() {
    let f = |v: u64, s: u32| f32::from_bits((v >> s) as u32);
    doubles("fma.rn.f32x2 %D, %A, %B, %C;", |a, b, c| {
        let one = |s| u64::from(canonical(f(a, s).mul_add(f(b, s), f(c, s))));
        one(0) | one(32) << 32
    });
}

#[test]
fn functions_that_are_called_are_part_of_their_caller() {
    let text = ".version 8.6\n.target sm_90\n.address_size 64\n\
        .func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r<3>; .reg .pred %p; ld.param.b32 %r1, [x]; setp.gt.s32 %p, %r1, 100; @%p bra L; \
        add.s32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; L: st.param.b32 [r], 7; ret; }\n\
        .visible .entry k(.param .u64 p) { .reg .b32 %r<4>; .reg .b64 %rd<3>; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; \
        { .param .b32 param0; st.param.b32 [param0], %r1; .param .b32 retval0; call.uni (retval0), twice, (param0); ld.param.b32 %r2, [retval0]; }\n\
        mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.b32 [%rd2], %r2; ret; }";
    let module = ptx::Module::parse(text).unwrap();
    let mut out = vec![0u32; 128];
    let mut memory = ptx::Memory::new();
    let address = memory.register_slice("out", &mut out).address();
    ptx::launch(&module, module.entry("k").unwrap(), support::one_block(128), &[address], &memory, &ptx::Options::default()).unwrap();
    assert!(out.iter().enumerate().all(|(i, v)| *v as usize == if i > 100 { 7 } else { 2 * i }), "{out:?}");
    let recursive =
        text.replace("add.s32 %r2, %r1, %r1;", "{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }");
    assert!(ptx::Module::parse(&recursive).unwrap_err().message.contains("recursion"));
}
