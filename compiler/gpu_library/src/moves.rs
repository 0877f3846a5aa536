//! Ops that only move elements: a thread finds where a run of the result's elements comes from, as many as 16 bytes hold where runs are aligned.

use crate::Kernels;
use crate::asm::{Asm, Reg, Vector, asm};
use crate::indexing::{Access, vector};
use ir::op::OpKind;
use ir::plan::Launch;
use ir::{DType, TensorType};

const THREADS: u32 = 256;

/// The kernel of a pad, a concatenation, or a slice at a run-time place or its update.
pub(crate) fn moves(name: &str, op: &OpKind, operands: &[TensorType], results: &[TensorType]) -> Option<Kernels> {
    let (result, bytes) = (results.first()?, operands.first()?.dtype.bytes());
    let elements = operands.iter().chain(results).map(TensorType::elements).max()?;
    if ![1, 2, 4, 8].contains(&bytes) || result.elements() == 0 || elements > i32::MAX as u64 || operands[0].elements() == 0 {
        return None;
    }
    let mut m = Move { asm: Asm::default(), op, operands, result, run: run(op, operands, result, bytes), coordinates: Vec::new(), parameters: Vec::new() };
    let runs = result.elements() / m.run;
    let to = m.begin(runs);
    let values = m.values()?;
    let a = &mut m.asm;
    asm!(a, "st.global{} [{to}], {}", Access(m.run * bytes).modifiers(), Vector(&values));
    let launch = Launch { entry: name.into(), grid: [runs.div_ceil(u64::from(THREADS)) as u32, 1, 1], block: [THREADS, 1, 1], shared: 0, scratch: 0 };
    Some(Kernels { text: m.asm.finish(name, operands.len() + 1, THREADS), launches: vec![launch] })
}

/// How many elements of the last dimension are moved at once: they come from one place, and from a multiple of as many.
fn run(op: &OpKind, operands: &[TensorType], result: &TensorType, bytes: u64) -> u64 {
    let Some(last) = result.rank().checked_sub(1) else { return 1 };
    let end = |i: usize| operands.get(i).and_then(|t| t.shape.get(last)).copied().unwrap_or(1);
    let parts: Vec<u64> = match op {
        OpKind::Pad { low, high, interior } if interior[last] == 0 && bytes > 1 => vec![end(0), low[last].unsigned_abs(), high[last].unsigned_abs()],
        OpKind::Concatenate { .. } => (0..operands.len()).map(end).collect(),
        OpKind::DynamicSlice { sizes } if sizes[last] == end(0) => vec![end(0)],
        OpKind::DynamicUpdateSlice if end(1) == end(0) => vec![end(0)],
        _ => return 1,
    };
    vector(bytes, result.shape[last], parts.into_iter())
}

struct Move<'a> {
    asm: Asm,
    op: &'a OpKind,
    operands: &'a [TensorType],
    result: &'a TensorType,
    /// Elements that are moved at once.
    run: u64,
    /// Of the first of them, along each dimension.
    coordinates: Vec<Reg>,
    /// Addresses of the operands.
    parameters: Vec<Reg>,
}

impl Move<'_> {
    fn bytes(&self) -> u64 {
        self.result.dtype.bytes()
    }

    /// Finds the thread's coordinates, and the address of its part of the result.
    fn begin(&mut self, runs: u64) -> Reg {
        let by = self.run * self.bytes();
        let a = &mut self.asm;
        let linear = a.constant("%tid.x");
        a.across_blocks(linear, THREADS, runs);
        let mut addresses: Vec<Reg> = (0..=self.operands.len()).map(|p| a.parameter(p)).collect();
        let to = addresses.pop().expect("invariant: there is a result");
        self.parameters = addresses;
        let mut rest = linear;
        for (d, &extent) in self.result.shape.iter().enumerate().rev() {
            let step = if d + 1 == self.result.rank() { self.run } else { 1 };
            let index = if d == 0 { rest } else { a.binary("rem.u32", rest, extent / step) };
            if d > 0 {
                rest = a.binary("div.u32", rest, extent / step);
            }
            self.coordinates.push(a.binary("mul.lo.u32", index, step));
        }
        self.coordinates.reverse();
        a.advance(to, linear, by)
    }

    /// What the thread stores.
    fn values(&mut self) -> Option<Vec<Reg>> {
        match self.op {
            OpKind::Pad { low, interior, .. } => Some(self.pad(low, interior)),
            OpKind::Concatenate { dim } => Some(self.concatenate(*dim)),
            OpKind::DynamicSlice { sizes } => self.slice(sizes),
            OpKind::DynamicUpdateSlice => self.update(),
            _ => None,
        }
    }

    /// Registers for what is moved, cleared.
    fn registers(&mut self) -> Vec<Reg> {
        let access = Access(self.run * self.bytes());
        let registers = access.registers(&mut self.asm);
        for r in &registers {
            asm!(self.asm, "mov.{} {r}, 0", if access.0 < 4 { "b16" } else { "b32" });
        }
        registers
    }

    /// Loads from operand `p` at some coordinates, if `guard` holds.
    fn load(&mut self, into: &[Reg], p: usize, coordinates: &[Reg], guard: Option<(Reg, bool)>) {
        let mut at = self.parameters[p];
        for (&c, stride) in coordinates.iter().zip(self.operands[p].strides()) {
            at = self.asm.advance(at, c, stride * self.bytes());
        }
        let when = guard.map_or_else(String::new, |(p, holds)| format!("@{}{p} ", if holds { "" } else { "!" }));
        asm!(self.asm, "{when}ld.global{} {}, [{at}]", Access(self.run * self.bytes()).modifiers(), Vector(into));
    }

    /// Whether `0 ≤ index < extent`, and what was asked before.
    fn within(&mut self, index: Reg, extent: u64, before: Option<Reg>) -> Reg {
        let a = &mut self.asm;
        let p = a.predicate();
        // What is negative is large without a sign.
        asm!(a, "setp.lt.u32 {p}, {index}, {extent}");
        if let Some(q) = before {
            asm!(a, "and.pred {p}, {p}, {q}");
        }
        p
    }

    fn pad(&mut self, low: &[i64], interior: &[u64]) -> Vec<Reg> {
        let values = self.padding();
        let (mut inside, mut from) = (None, Vec::new());
        for (d, c) in self.coordinates.clone().into_iter().enumerate() {
            let mut x = c;
            if low[d] != 0 {
                x = self.asm.binary("sub.s32", c, low[d]);
            }
            let extent = self.operands[0].shape[d];
            if interior[d] != 0 {
                let step = interior[d] + 1;
                let (place, over, p) = (self.asm.binary("div.s32", x, step), self.asm.binary("rem.s32", x, step), self.asm.predicate());
                asm!(self.asm, "setp.eq.s32 {p}, {over}, 0");
                if let Some(q) = inside {
                    asm!(self.asm, "and.pred {p}, {p}, {q}");
                }
                (inside, x) = (Some(p), place);
            }
            if extent != self.result.shape[d] || low[d] != 0 {
                inside = Some(self.within(x, extent, inside));
            }
            from.push(x);
        }
        self.load(&values, 0, &from, inside.map(|p| (p, true)));
        values
    }

    /// The padding in every element.
    fn padding(&mut self) -> Vec<Reg> {
        let (bytes, at) = (self.bytes(), self.parameters[1]);
        let a = &mut self.asm;
        let one = Access(bytes).registers(a);
        asm!(a, "ld.global{} {}, [{at}]", Access(bytes).modifiers(), Vector(&one));
        if self.run * bytes < 4 {
            return one;
        }
        let words: Vec<Reg> = if bytes == 2 {
            let both = a.word();
            asm!(a, "mov.b32 {both}, {}", Vector(&[one[0], one[0]]));
            vec![both]
        } else {
            one
        };
        // Each is loaded over where the operand is.
        let copy = |i: usize| {
            let word = a.word();
            asm!(a, "mov.b32 {word}, {}", words[i % words.len()]);
            word
        };
        (0..(self.run * bytes / 4) as usize).map(copy).collect()
    }

    fn concatenate(&mut self, dim: usize) -> Vec<Reg> {
        let values = self.registers();
        let mut before = 0;
        for p in 0..self.operands.len() {
            let extent = self.operands[p].shape[dim];
            let mut from = self.coordinates.clone();
            if before > 0 {
                from[dim] = self.asm.binary("sub.s32", from[dim], before);
            }
            let inside = self.within(from[dim], extent, None);
            self.load(&values, p, &from, Some((inside, true)));
            before += extent;
        }
        values
    }

    /// The place that scalars from operand `first` on say, so that a window of `sizes` is inside operand 0.
    fn place(&mut self, first: usize, sizes: &[u64]) -> Option<Vec<Reg>> {
        let mut starts = Vec::new();
        for (d, size) in sizes.iter().enumerate() {
            let limit = self.operands[0].shape[d].checked_sub(*size)?;
            let (at, dtype) = (self.parameters[first + d], self.operands[first + d].dtype);
            let a = &mut self.asm;
            let (wide, start) = (a.long(), a.word());
            let known = matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::UI8 | DType::UI16 | DType::UI32 | DType::UI64);
            if !known {
                return None;
            }
            if dtype.is_unsigned() {
                asm!(a, "ld.global.u{} {wide}, [{at}]", dtype.bytes() * 8);
                asm!(a, "min.u64 {wide}, {wide}, {limit}");
            } else {
                asm!(a, "ld.global.s{} {wide}, [{at}]", dtype.bytes() * 8);
                asm!(a, "max.s64 {wide}, {wide}, 0");
                asm!(a, "min.s64 {wide}, {wide}, {limit}");
            }
            asm!(a, "cvt.u32.u64 {start}, {wide}");
            starts.push(start);
        }
        Some(starts)
    }

    fn slice(&mut self, sizes: &[u64]) -> Option<Vec<Reg>> {
        let starts = self.place(1, sizes)?;
        let values = self.registers();
        let from: Vec<Reg> = self.coordinates.clone().iter().zip(starts).map(|(c, s)| self.asm.binary("add.u32", c, s)).collect();
        self.load(&values, 0, &from, None);
        Some(values)
    }

    fn update(&mut self) -> Option<Vec<Reg>> {
        let sizes = self.operands[1].shape.clone();
        let starts = self.place(2, &sizes)?;
        let values = self.registers();
        let coordinates = self.coordinates.clone();
        let (mut inside, mut from) = (None, Vec::new());
        for ((c, s), &size) in coordinates.iter().zip(starts).zip(&sizes) {
            let x = self.asm.binary("sub.s32", c, s);
            inside = Some(self.within(x, size, inside));
            from.push(x);
        }
        self.load(&values, 1, &from, inside.map(|p| (p, true)));
        if let Some(p) = inside {
            self.load(&values, 0, &coordinates, Some((p, false)));
        }
        Some(values)
    }
}
