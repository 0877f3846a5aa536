//! What the threads that fold one point do with their parts: shuffles within a warp, shared memory between warps.
//!
//! Parts are combined in an order that depends on nothing but the mapping, and every thread of the point gets the result.

use super::emit::{Writer, access_alignment};
use crate::emit::builder::{Elem, Ptr, Ty, Val};
use crate::emit::node::Points;
use crate::error::Error;
use ir::kernel::NodeId;

/// Threads of a warp.
pub(super) const WARP: u64 = 32;
/// Bytes of shared memory that an entry may declare.
const SHARED: u64 = 48 << 10;
/// Parts that every thread of a point adds up by itself.
const FEW: u64 = 4;

impl Writer<'_> {
    /// The parts `v` of the reduction `id` that this thread and the others of its point have, as one.
    pub(super) fn combine(&mut self, id: NodeId, v: Val) -> Result<Val, Error> {
        if self.mapping.fold_threads == 1 {
            return Ok(v);
        }
        if self.mapping.across { self.combine_columns(id, v) } else { self.combine_row(id, v) }
    }

    fn combine_row(&mut self, id: NodeId, v: Val) -> Result<Val, Error> {
        let folds = self.mapping.fold_threads;
        let v = self.butterfly(id, v, folds.min(WARP))?;
        let warps = folds / WARP;
        if warps <= 1 {
            return Ok(v);
        }
        let ty = shared_type(v.ty);
        let base = self.reserve(self.mapping.point_threads * warps * u64::from(ty.elem.bytes()));
        let (warp, lane) = self.b.index_split(self.fold_thread, WARP);
        let row = self.b.index_mul(self.point_thread, warps as i64);
        let zero = self.b.index(0);
        let first = self.b.compare_int("eq", lane, zero);
        let mine = self.b.index_add(row, warp);
        let slot = self.b.offset(base, mine, ty.elem);
        let part = self.share(v);
        self.guarded(Some(first), |w| {
            w.b.store(part, slot);
            Ok(())
        })?;
        self.b.barrier();
        let (_, other) = self.b.index_split(lane, warps);
        let at = self.b.index_add(row, other);
        let slot = self.b.offset(base, at, ty.elem);
        let part = self.b.load(slot, ty);
        let part = self.loaded_from_shared(part, v.ty);
        self.butterfly(id, part, warps)
    }

    /// Combines `width` neighbouring threads.
    fn butterfly(&mut self, id: NodeId, v: Val, width: u64) -> Result<Val, Error> {
        let mut v = v;
        let mut step = width / 2;
        while step > 0 {
            let other = self.exchanged(v, step as u32);
            v = self.folded(id, v, other)?;
            step /= 2;
        }
        Ok(v)
    }

    /// The value of the thread whose number differs in the bits of `mask`.
    fn exchanged(&mut self, v: Val, mask: u32) -> Val {
        match v.ty.elem {
            Elem::F32 | Elem::I32 => self.b.shuffle_xor(v, mask),
            Elem::F64 | Elem::I64 => {
                let bits = self.b.bitcast(v, Elem::I64);
                let low = self.b.convert("arith.trunci", bits, Elem::I32);
                let high = self.b.shift("arith.shrui", bits, 32);
                let high = self.b.convert("arith.trunci", high, Elem::I32);
                let (low, high) = (self.b.shuffle_xor(low, mask), self.b.shuffle_xor(high, mask));
                let (low, high) = (self.b.convert("arith.extui", low, Elem::I64), self.b.convert("arith.extui", high, Elem::I64));
                let high = self.b.shift("arith.shli", high, 32);
                let bits = self.b.or(high, low);
                self.b.bitcast(bits, v.ty.elem)
            }
            narrow => {
                let wide = self.b.convert("arith.extui", v, Elem::I32);
                let wide = self.b.shuffle_xor(wide, mask);
                self.b.convert("arith.trunci", wide, narrow)
            }
        }
    }

    fn combine_columns(&mut self, id: NodeId, v: Val) -> Result<Val, Error> {
        let m = self.mapping;
        let ty = shared_type(v.ty);
        let lanes = i64::from(ty.lanes.max(1));
        let base = self.reserve(m.threads() * u64::from(ty.elem.bytes()) * lanes as u64);
        let mine = self.b.index_mul(self.thread, lanes);
        let slot = self.b.offset(base, mine, ty.elem);
        let part = self.share(v);
        self.b.store_aligned(part, slot, access_alignment(ty));
        self.b.barrier();
        // Threads halve the parts until few are left, or each would hold all of them in registers at once.
        let mut left = m.fold_threads;
        while left > FEW {
            left /= 2;
            let half = self.b.index(left as i64);
            let folds = self.b.compare_int("ult", self.fold_thread, half);
            let far = self.b.index((left * m.point_threads) as i64);
            self.guarded(Some(folds), |w| {
                let at = w.b.index_add(w.thread, far);
                let at = w.b.index_mul(at, lanes);
                let other = w.b.offset(base, at, ty.elem);
                let [near, far] = [slot, other].map(|s| w.b.load_aligned(s, ty, access_alignment(ty)));
                let [near, far] = [near, far].map(|part| w.loaded_from_shared(part, v.ty));
                let sum = w.folded(id, near, far)?;
                let sum = w.share(sum);
                w.b.store_aligned(sum, slot, access_alignment(ty));
                Ok(())
            })?;
            self.b.barrier();
        }
        let mut sum = None;
        for fold in 0..left {
            let row = self.b.index((fold * m.point_threads) as i64);
            let at = if fold == 0 { self.point_thread } else { self.b.index_add(self.point_thread, row) };
            let at = self.b.index_mul(at, lanes);
            let slot = self.b.offset(base, at, ty.elem);
            let part = self.b.load_aligned(slot, ty, access_alignment(ty));
            let part = self.loaded_from_shared(part, v.ty);
            sum = Some(match sum {
                None => part,
                Some(sum) => self.folded(id, sum, part)?,
            });
        }
        Ok(sum.expect("invariant: some thread folds"))
    }

    fn share(&mut self, v: Val) -> Val {
        if v.ty.elem == Elem::I1 { self.b.convert("arith.extui", v, Elem::I8) } else { v }
    }

    fn loaded_from_shared(&mut self, v: Val, ty: Ty) -> Val {
        if ty.elem != Elem::I1 {
            return v;
        }
        let zero = self.b.int(v.ty, 0);
        self.b.compare_int("ne", v, zero)
    }

    /// Shared memory that no thread uses any more.
    fn reserve(&mut self, bytes: u64) -> Ptr {
        let bytes = bytes.next_multiple_of(16);
        if self.shared_used + bytes > SHARED {
            self.b.barrier();
            self.shared_used = 0;
        }
        let at = self.shared_used;
        self.shared_used += bytes;
        self.shared_most = self.shared_most.max(self.shared_used);
        self.b.shared(self.entry_name, at)
    }
}

/// The type in which a part lies in shared memory.
fn shared_type(ty: Ty) -> Ty {
    if ty.elem == Elem::I1 { ty.with(Elem::I8) } else { ty }
}
