//! The part of the writer that only GPUs have: a kernel's entry, its threads, and what they share and exchange.
//!
//! Entries take buffers and run-time scalars by value. Indices have the width the kernel needs, and their arithmetic never overflows.

use super::builder::{Builder, Elem, Ptr, Space, Ty, Val};

/// The entry of a kernel while it is written: what it is given.
pub(crate) struct Entry {
    /// The buffers, in order, and scratch where there is some.
    pub(crate) buffers: Vec<Ptr>,
    /// The text of the parameters.
    parameters: String,
}

impl Builder {
    /// A writer of an entry of `buffers` pointers, `scalars` integers and then, with `scratch`, one more pointer; its indices are `counter`s.
    pub(crate) fn entry(buffers: usize, scalars: u32, scratch: bool, counter: Elem) -> (Builder, Entry) {
        let mut b = Builder::new(true);
        b.counter = counter;
        let mut parameters = Vec::new();
        let mut pointer = |b: &mut Builder| {
            let ptr = Ptr { id: b.fresh(), space: Space::Global };
            parameters.push(format!("{ptr}: {} {{llvm.align = 16 : i64}}", ptr.space));
            ptr
        };
        let mut pointers: Vec<Ptr> = (0..buffers).map(|_| pointer(&mut b)).collect();
        let scratch = scratch.then(|| pointer(&mut b));
        let at = if scratch.is_some() { parameters.len() - 1 } else { parameters.len() };
        for number in 0..scalars as usize {
            let scalar = Val { id: b.fresh(), part: None, ty: Ty::scalar(Elem::I64) };
            b.scalars.push(scalar);
            parameters.insert(at + number, format!("{scalar}: i64"));
        }
        pointers.extend(scratch);
        (b, Entry { buffers: pointers, parameters: parameters.join(", ") })
    }
    /// The text of the entry `symbol` for blocks of `threads`, with so many bytes of shared memory.
    pub(crate) fn finish_entry(self, entry: &Entry, symbol: &str, threads: u32, shared: u64) -> String {
        let memory = if shared == 0 {
            String::new()
        } else {
            format!("llvm.mlir.global internal @{symbol}_shared() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<{shared} x i8>\n")
        };
        let attributes = format!("attributes {{nvvm.kernel, nvvm.maxntid = array<i32: {threads}, 1, 1>}}");
        format!("{memory}llvm.func @{symbol}({}) {attributes} {{\n{}{}  llvm.return\n}}\n", entry.parameters, self.head, self.body)
    }

    /// A special register, such as `tid.x`, as an index.
    pub(crate) fn register(&mut self, name: &str) -> Val {
        let v = self.pure(Ty::scalar(Elem::I32), format!("nvvm.read.ptx.sreg.{name} : i32"));
        if self.counter == Elem::I32 { v } else { self.convert("arith.extui", v, self.counter) }
    }
    /// A sum of indices.
    pub(crate) fn index_add(&mut self, a: Val, b: Val) -> Val {
        self.pure(a.ty, format!("arith.addi {a}, {b} overflow<nsw> : {}", a.ty))
    }
    /// An index times a constant.
    pub(crate) fn index_mul(&mut self, a: Val, by: i64) -> Val {
        if by == 1 {
            return a;
        }
        let by = self.int(a.ty, by);
        self.pure(a.ty, format!("arith.muli {a}, {by} overflow<nsw> : {}", a.ty))
    }
    /// An index that is not negative divided by a constant: quotient and remainder.
    pub(crate) fn index_split(&mut self, a: Val, by: u64) -> (Val, Val) {
        let by = self.int(a.ty, by as i64);
        (self.binary("arith.divui", a, by), self.binary("arith.remui", a, by))
    }
    /// An index that is not negative, or `limit` where it is above.
    pub(crate) fn index_at_most(&mut self, a: Val, limit: u64) -> Val {
        let limit = self.int(a.ty, limit as i64);
        self.binary("arith.minui", a, limit)
    }
    /// An index in the kernel's width.
    pub(crate) fn as_index(&mut self, a: Val) -> Val {
        match (a.ty.elem, self.counter) {
            (Elem::I64, Elem::I32) => self.convert("arith.trunci", a, Elem::I32),
            (Elem::I32, Elem::I64) => self.convert("arith.extsi", a, Elem::I64),
            _ => a,
        }
    }
    /// The vector of these scalars.
    pub(crate) fn lanes_of(&mut self, lanes: &[Val]) -> Val {
        let ty = Ty { lanes: lanes.len() as u32, ..lanes[0].ty };
        let list: Vec<String> = lanes.iter().map(Val::to_string).collect();
        self.pure(ty, format!("vector.from_elements {} : {ty}", list.join(", ")))
    }
    /// The block's shared memory from byte `at` on.
    pub(crate) fn shared(&mut self, symbol: &str, at: u64) -> Ptr {
        let space = Space::Shared;
        let base = Ptr { id: self.numbered(format!("llvm.mlir.addressof @{symbol}_shared : {space}")), space };
        let at = self.index(at as i64);
        self.offset(base, at, Elem::I8)
    }
    /// Waits for all threads of the block.
    pub(crate) fn barrier(&mut self) {
        self.line(format_args!("nvvm.barrier0"));
    }
    /// A load where `condition` holds, zero elsewhere.
    pub(crate) fn load_where(&mut self, condition: Val, from: Ptr, ty: Ty, alignment: u32) -> Val {
        let zero = self.bits(ty, 0);
        let (result, loaded) = (self.fresh(), self.fresh());
        self.line(format_args!("%{result} = scf.if {condition} -> ({ty}) {{"));
        self.line(format_args!("  %{loaded} = llvm.load {from} {{alignment = {alignment} : i64}} : {} -> {ty}", from.space));
        self.line(format_args!("  scf.yield %{loaded} : {ty}"));
        self.line(format_args!("}} else {{"));
        self.line(format_args!("  scf.yield {zero} : {ty}"));
        self.line(format_args!("}}"));
        Val { id: result, part: None, ty }
    }
    /// A 32-bit value of the thread whose number within the warp differs in the bits of `mask`.
    pub(crate) fn shuffle_xor(&mut self, v: Val, mask: u32) -> Val {
        debug_assert!(v.ty.lanes == 0 && v.ty.elem.bits() == 32);
        let i32 = Ty::scalar(Elem::I32);
        let (all, mask, clamp) = (self.int(i32, -1), self.int(i32, i64::from(mask)), self.int(i32, 31));
        self.impure(v.ty, format!("nvvm.shfl.sync bfly {all}, {v}, {mask}, {clamp} : {} -> {}", v.ty, v.ty))
    }
}
