//! Atomic instructions: lane after lane, on device memory by the host's own atomics, since blocks may run on several threads.

use crate::access::bits;
use crate::block::{Block, Outcome, Registers};
use crate::code::{Atomic, AtomicOp, Exact, Rounded, Rounding};
use crate::numeric;
use crate::shadow::Kind;
use crate::syntax::Type;
use crate::warp::lanes_of;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

impl<'a> Block<'a> {
    pub(crate) fn atomic(&mut self, w: usize, r: &mut Registers, a: &Atomic, m: u32, line: u32) -> Outcome<()> {
        let at = self.addresses(r, &a.address);
        let bytes = u64::from(a.ty.bytes());
        let mut left = m;
        while left != 0 {
            let request = self.resolve(w, a.target, at, bytes, left, true, line)?;
            left &= !request.mask;
            self.count(&request, true);
            if self.launch.options.checks {
                self.check(w, &request, Kind::Strong, |_| false, line)?;
            }
            for l in lanes_of(request.mask) {
                let (b, c) = (bits(r, a.b, l), a.c.map_or(0, |c| bits(r, c, l)));
                let host = request.host(l);
                // SAFETY: `resolve` has checked the bytes, their alignment, and that they may be written; everything else that touches them while the
                // launch runs is this emulator.
                let old = unsafe {
                    match bytes {
                        2 => {
                            let cell = AtomicU16::from_ptr(std::ptr::with_exposed_provenance_mut(host));
                            u64::from(update(|f| cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, |v| Some(f(u64::from(v)) as u16)), a, b, c))
                        }
                        4 => {
                            let cell = AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(host));
                            u64::from(update(|f| cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, |v| Some(f(u64::from(v)) as u32)), a, b, c))
                        }
                        _ => {
                            let cell = AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(host));
                            update(|f| cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, |v| Some(f(v))), a, b, c)
                        }
                    }
                };
                match a.d {
                    Some(d) if d.bits == 64 => r.doubles[d.row as usize].0[l] = old,
                    Some(d) => r.words[d.row as usize].0[l] = old as u32,
                    None => {}
                }
            }
        }
        Ok(())
    }
}

fn update<T>(change: impl FnOnce(&dyn Fn(u64) -> u64) -> Result<T, T>, a: &Atomic, b: u64, c: u64) -> T {
    match change(&|old| new_value(a.op, a.ty, old, b, c)) {
        Ok(old) | Err(old) => old,
    }
}

fn new_value(op: AtomicOp, ty: Type, old: u64, b: u64, c: u64) -> u64 {
    let shift = 64 - u32::from(ty.bits());
    let signed = |v: u64| (v << shift) as i64 >> shift;
    match op {
        AtomicOp::Add => match ty {
            Type::F(32) => u64::from(numeric::canonical(f32::from_bits(old as u32) + f32::from_bits(b as u32))),
            Type::F(64) => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
            Type::F(16) | Type::BF16 | Type::F16x2 | Type::BF16x2 => {
                let ty = if matches!(ty, Type::F(16) | Type::F16x2) { Type::F(16) } else { Type::BF16 };
                let r = Rounded { what: Exact::Add, ty, pair: false, rounding: Rounding::Even, saturate: false, relu: false, flush: false, rows: [0; 4] };
                let sum = |s: u32| numeric::rounded(&r, [(old >> s) as u32 & 0xFFFF, (b >> s) as u32 & 0xFFFF, 0]);
                u64::from(sum(0) | sum(16) << 16)
            }
            _ => old.wrapping_add(b),
        },
        AtomicOp::Min if ty.signed() => {
            if signed(b) < signed(old) {
                b
            } else {
                old
            }
        }
        AtomicOp::Max if ty.signed() => {
            if signed(b) > signed(old) {
                b
            } else {
                old
            }
        }
        AtomicOp::Min => old.min(b),
        AtomicOp::Max => old.max(b),
        AtomicOp::And => old & b,
        AtomicOp::Or => old | b,
        AtomicOp::Xor => old ^ b,
        AtomicOp::Exchange => b,
        AtomicOp::CompareSwap => {
            if old == b {
                c
            } else {
                old
            }
        }
        AtomicOp::Inc => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
    }
}
