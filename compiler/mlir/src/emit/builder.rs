//! A writer of MLIR text in SSA form: typed values, scalars or vectors of one width, in `arith`, `vector`, `scf` and `llvm`.
//!
//! Operations on a scalar and a vector broadcast the scalar. Pure operations are numbered within their scope, so that the same expression is written
//! once; constants are written once a function, at its head. Additions and multiplications carry `fastmath<contract>` unless the name says `exact`;
//! nothing else about floats is relaxed here.

use std::collections::HashMap;
use std::fmt::{self, Write};

/// The machine type of an element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Elem {
    I1,
    I8,
    I16,
    I32,
    I64,
    F16,
    F32,
    F64,
}

impl Elem {
    /// Its name in MLIR and in the names of LLVM's intrinsics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Elem::I1 => "i1",
            Elem::I8 => "i8",
            Elem::I16 => "i16",
            Elem::I32 => "i32",
            Elem::I64 => "i64",
            Elem::F16 => "f16",
            Elem::F32 => "f32",
            Elem::F64 => "f64",
        }
    }
    /// Width in bits.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Elem::I1 => 1,
            Elem::I8 => 8,
            Elem::I16 | Elem::F16 => 16,
            Elem::I32 | Elem::F32 => 32,
            Elem::I64 | Elem::F64 => 64,
        }
    }
    /// Bytes in memory.
    pub(crate) fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Elem::F16 | Elem::F32 | Elem::F64)
    }
    /// The integer type of the same width.
    pub(crate) fn as_int(self) -> Elem {
        match self {
            Elem::F16 => Elem::I16,
            Elem::F32 => Elem::I32,
            Elem::F64 => Elem::I64,
            t => t,
        }
    }
}

/// A scalar (`lanes == 0`) or a vector of elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ty {
    pub(crate) elem: Elem,
    pub(crate) lanes: u32,
}

impl Ty {
    pub(crate) fn scalar(elem: Elem) -> Ty {
        Ty { elem, lanes: 0 }
    }
    pub(crate) fn with(self, elem: Elem) -> Ty {
        Ty { elem, ..self }
    }
    pub(crate) fn as_int(self) -> Ty {
        self.with(self.elem.as_int())
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lanes {
            0 => f.write_str(self.elem.name()),
            n => write!(f, "vector<{n}x{}>", self.elem.name()),
        }
    }
}

/// An SSA value: number, position among the results of its operation, type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Val {
    pub(super) id: u32,
    pub(super) part: Option<u16>,
    pub(crate) ty: Ty,
}

impl fmt::Display for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.id)?;
        self.part.map_or(Ok(()), |p| write!(f, "#{p}"))
    }
}

/// A pointer value and the memory that it points into.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ptr {
    pub(super) id: u32,
    pub(super) space: Space,
}

impl fmt::Display for Ptr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.id)
    }
}

/// A kind of memory, which pointers to it name in their type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Space {
    /// A CPU's only one.
    Generic,
    /// A GPU's memory.
    Global,
    /// What the threads of a GPU's block share.
    Shared,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Generic => "!llvm.ptr",
            Space::Global => "!llvm.ptr<1>",
            Space::Shared => "!llvm.ptr<3>",
        })
    }
}

/// Writes the body of one function.
pub(crate) struct Builder {
    pub(super) head: String,
    pub(super) body: String,
    next: u32,
    constants: HashMap<String, Val>,
    scopes: Vec<HashMap<String, u32>>,
    /// Whether the target has fused multiply-add.
    pub(crate) fma: bool,
    /// The type of element indices and of loops' counters.
    pub(super) counter: Elem,
    /// The run-time scalars of a function that takes them by value.
    pub(super) scalars: Vec<Val>,
}

impl Builder {
    pub(crate) fn new(fma: bool) -> Self {
        Builder {
            head: String::new(),
            body: String::new(),
            next: 0,
            constants: HashMap::new(),
            scopes: vec![HashMap::new()],
            fma,
            counter: Elem::I64,
            scalars: vec![],
        }
    }
    /// The text of the function `symbol`.
    pub(crate) fn finish(self, symbol: &str) -> String {
        format!("llvm.func @{symbol}(%buffers: !llvm.ptr, %scalars: !llvm.ptr) {{\n{}{}  llvm.return\n}}\n", self.head, self.body)
    }

    pub(super) fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
    fn indent(&self) -> usize {
        2 * self.scopes.len()
    }
    pub(super) fn line(&mut self, text: fmt::Arguments<'_>) {
        let indent = self.indent();
        writeln!(self.body, "{:indent$}{text}", "").expect("invariant: writing to a string succeeds");
    }
    pub(super) fn numbered(&mut self, text: String) -> u32 {
        if let Some(&id) = self.scopes.iter().rev().find_map(|s| s.get(&text)) {
            return id;
        }
        let id = self.fresh();
        self.line(format_args!("%{id} = {text}"));
        self.scopes.last_mut().expect("invariant: there is a scope").insert(text, id);
        id
    }
    pub(super) fn pure(&mut self, ty: Ty, text: String) -> Val {
        Val { id: self.numbered(text), part: None, ty }
    }
    pub(super) fn impure(&mut self, ty: Ty, text: String) -> Val {
        let id = self.fresh();
        self.line(format_args!("%{id} = {text}"));
        Val { id, part: None, ty }
    }

    // Constants.

    /// A constant given by its bits.
    pub(crate) fn bits(&mut self, ty: Ty, bits: u64) -> Val {
        let digits = ty.elem.bits() as usize / 4;
        let text = match (ty.elem.is_float(), ty.lanes) {
            (true, 0) => format!("arith.constant 0x{bits:0digits$X} : {ty}"),
            (true, _) => format!("arith.constant dense<0x{bits:0digits$X}> : {ty}"),
            (false, lanes) => {
                let value = match ty.elem {
                    Elem::I1 => format!("{}", bits & 1 == 1),
                    t => format!("{}", ((bits << (64 - t.bits())) as i64) >> (64 - t.bits())),
                };
                if lanes == 0 { format!("arith.constant {value} : {ty}") } else { format!("arith.constant dense<{value}> : {ty}") }
            }
        };
        self.constant(ty, text)
    }
    fn constant(&mut self, ty: Ty, text: String) -> Val {
        if let Some(&v) = self.constants.get(&text) {
            return v;
        }
        let id = self.fresh();
        // The type `i1` is implied by `true` and `false`.
        let written = if ty == Ty::scalar(Elem::I1) { text.trim_end_matches(" : i1") } else { &text };
        writeln!(self.head, "  %{id} = {written}").expect("invariant: writing to a string succeeds");
        let v = Val { id, part: None, ty };
        self.constants.insert(text, v);
        v
    }
    /// An integer constant of type `ty`.
    pub(crate) fn int(&mut self, ty: Ty, value: i64) -> Val {
        debug_assert!(!ty.elem.is_float());
        self.bits(ty, value as u64)
    }
    /// A float constant of type `ty`, rounded to it.
    pub(crate) fn float(&mut self, ty: Ty, value: f64) -> Val {
        match ty.elem {
            Elem::F64 => self.bits(ty, value.to_bits()),
            _ => self.bits(ty, u64::from((value as f32).to_bits())),
        }
    }
    /// A constant integer vector.
    pub(crate) fn int_vector(&mut self, elem: Elem, values: &[i64]) -> Val {
        let ty = Ty { elem, lanes: values.len() as u32 };
        let list: Vec<String> = values.iter().map(|v| if elem == Elem::I1 { (*v != 0).to_string() } else { v.to_string() }).collect();
        self.constant(ty, format!("arith.constant dense<[{}]> : {ty}", list.join(", ")))
    }
    pub(crate) fn index(&mut self, value: i64) -> Val {
        self.int(Ty::scalar(self.counter), value)
    }

    // Shapes.

    /// `v` in all of `lanes` lanes (itself when it has them already).
    pub(crate) fn broadcast(&mut self, v: Val, lanes: u32) -> Val {
        if v.ty.lanes == lanes {
            return v;
        }
        debug_assert_eq!(v.ty.lanes, 0, "only scalars are broadcast");
        let ty = Ty { lanes, ..v.ty };
        self.pure(ty, format!("vector.broadcast {v} : {} to {ty}", v.ty))
    }
    fn unify(&mut self, a: Val, b: Val) -> (Val, Val) {
        let lanes = a.ty.lanes.max(b.ty.lanes);
        (self.broadcast(a, lanes), self.broadcast(b, lanes))
    }
    /// Lanes of `a` followed by those of `b`, picked by `mask`.
    pub(crate) fn shuffle(&mut self, a: Val, b: Val, mask: &[u32]) -> Val {
        let ty = Ty { lanes: mask.len() as u32, ..a.ty };
        let list: Vec<String> = mask.iter().map(u32::to_string).collect();
        self.pure(ty, format!("vector.shuffle {a}, {b} [{}] : {}, {}", list.join(", "), a.ty, b.ty))
    }
    pub(crate) fn extract(&mut self, v: Val, lane: u32) -> Val {
        let ty = Ty::scalar(v.ty.elem);
        self.pure(ty, format!("vector.extract {v}[{lane}] : {ty} from {}", v.ty))
    }

    // Arithmetic.

    pub(crate) fn binary(&mut self, op: &str, a: Val, b: Val) -> Val {
        let (a, b) = self.unify(a, b);
        debug_assert_eq!(a.ty, b.ty, "{op}");
        self.pure(a.ty, format!("{op} {a}, {b} : {}", a.ty))
    }
    fn contracted(&mut self, op: &str, a: Val, b: Val) -> Val {
        let (a, b) = self.unify(a, b);
        debug_assert_eq!(a.ty, b.ty, "{op}");
        self.pure(a.ty, format!("{op} {a}, {b} fastmath<contract> : {}", a.ty))
    }
    pub(crate) fn add(&mut self, a: Val, b: Val) -> Val {
        if a.ty.elem.is_float() { self.contracted("arith.addf", a, b) } else { self.binary("arith.addi", a, b) }
    }
    pub(crate) fn sub(&mut self, a: Val, b: Val) -> Val {
        if a.ty.elem.is_float() { self.contracted("arith.subf", a, b) } else { self.binary("arith.subi", a, b) }
    }
    pub(crate) fn mul(&mut self, a: Val, b: Val) -> Val {
        if a.ty.elem.is_float() { self.contracted("arith.mulf", a, b) } else { self.binary("arith.muli", a, b) }
    }
    /// A sum that is never fused with a product.
    pub(crate) fn add_exact(&mut self, a: Val, b: Val) -> Val {
        self.binary("arith.addf", a, b)
    }
    /// A difference that is never fused with a product.
    pub(crate) fn sub_exact(&mut self, a: Val, b: Val) -> Val {
        self.binary("arith.subf", a, b)
    }
    /// A product that is rounded before it is used.
    pub(crate) fn mul_exact(&mut self, a: Val, b: Val) -> Val {
        self.binary("arith.mulf", a, b)
    }
    pub(crate) fn div(&mut self, a: Val, b: Val) -> Val {
        self.binary("arith.divf", a, b)
    }
    pub(crate) fn neg(&mut self, a: Val) -> Val {
        self.pure(a.ty, format!("arith.negf {a} : {}", a.ty))
    }
    /// `a·b + c`, fused where the target does so.
    pub(crate) fn muladd(&mut self, a: Val, b: Val, c: Val) -> Val {
        let lanes = a.ty.lanes.max(b.ty.lanes).max(c.ty.lanes);
        let (a, b, c) = (self.broadcast(a, lanes), self.broadcast(b, lanes), self.broadcast(c, lanes));
        let ty = a.ty;
        self.pure(ty, format!("llvm.intr.fmuladd({a}, {b}, {c}) : ({ty}, {ty}, {ty}) -> {ty}"))
    }
    /// `a·b + c` rounded once; only where the target has it.
    pub(crate) fn fused(&mut self, a: Val, b: Val, c: Val) -> Val {
        debug_assert!(self.fma, "a fused product needs hardware");
        let lanes = a.ty.lanes.max(b.ty.lanes).max(c.ty.lanes);
        let (a, b, c) = (self.broadcast(a, lanes), self.broadcast(b, lanes), self.broadcast(c, lanes));
        let ty = a.ty;
        self.pure(ty, format!("llvm.intr.fma({a}, {b}, {c}) : ({ty}, {ty}, {ty}) -> {ty}"))
    }
    /// An LLVM intrinsic `llvm.intr.NAME` of operands and result of one type.
    pub(crate) fn intrinsic(&mut self, name: &str, operands: &[Val]) -> Val {
        let ty = operands[0].ty;
        let names: Vec<String> = operands.iter().map(Val::to_string).collect();
        let types: Vec<String> = operands.iter().map(|v| v.ty.to_string()).collect();
        self.pure(ty, format!("llvm.intr.{name}({}) : ({}) -> {ty}", names.join(", "), types.join(", ")))
    }
    /// Count of leading zeros, defined at zero.
    pub(crate) fn leading_zeros(&mut self, a: Val) -> Val {
        self.pure(a.ty, format!("\"llvm.intr.ctlz\"({a}) <{{is_zero_poison = false}}> : ({}) -> {}", a.ty, a.ty))
    }
    /// A saturating conversion of floats to integers, NaN to zero.
    pub(crate) fn int_saturating(&mut self, a: Val, elem: Elem, unsigned: bool) -> Val {
        let ty = a.ty.with(elem);
        let mangled = |t: Ty| if t.lanes == 0 { t.elem.name().to_owned() } else { format!("v{}{}", t.lanes, t.elem.name()) };
        let name = format!("llvm.fpto{}i.sat.{}.{}", if unsigned { "u" } else { "s" }, mangled(ty), mangled(a.ty));
        let properties = "op_bundle_sizes = array<i32>, operandSegmentSizes = array<i32: 1, 0>";
        self.pure(ty, format!("\"llvm.call_intrinsic\"({a}) <{{intrin = \"{name}\", {properties}}}> : ({}) -> {ty}", a.ty))
    }
    /// A conversion operation such as `arith.extsi`.
    pub(crate) fn convert(&mut self, op: &str, a: Val, elem: Elem) -> Val {
        let ty = a.ty.with(elem);
        self.pure(ty, format!("{op} {a} : {} to {ty}", a.ty))
    }
    pub(crate) fn bitcast(&mut self, a: Val, elem: Elem) -> Val {
        if a.ty.elem == elem { a } else { self.convert("arith.bitcast", a, elem) }
    }
    pub(crate) fn compare_float(&mut self, predicate: &str, a: Val, b: Val) -> Val {
        let (a, b) = self.unify(a, b);
        self.pure(a.ty.with(Elem::I1), format!("arith.cmpf {predicate}, {a}, {b} : {}", a.ty))
    }
    pub(crate) fn compare_int(&mut self, predicate: &str, a: Val, b: Val) -> Val {
        let (a, b) = self.unify(a, b);
        self.pure(a.ty.with(Elem::I1), format!("arith.cmpi {predicate}, {a}, {b} : {}", a.ty))
    }
    pub(crate) fn select(&mut self, p: Val, a: Val, b: Val) -> Val {
        let lanes = p.ty.lanes.max(a.ty.lanes).max(b.ty.lanes);
        let (a, b) = (self.broadcast(a, lanes), self.broadcast(b, lanes));
        if p.ty.lanes == 0 {
            return self.pure(a.ty, format!("arith.select {p}, {a}, {b} : {}", a.ty));
        }
        self.pure(a.ty, format!("arith.select {p}, {a}, {b} : {}, {}", p.ty, a.ty))
    }
    pub(crate) fn and(&mut self, a: Val, b: Val) -> Val {
        self.binary("arith.andi", a, b)
    }
    pub(crate) fn or(&mut self, a: Val, b: Val) -> Val {
        self.binary("arith.ori", a, b)
    }
    pub(crate) fn xor(&mut self, a: Val, b: Val) -> Val {
        self.binary("arith.xori", a, b)
    }
    pub(crate) fn not(&mut self, a: Val) -> Val {
        let ones = self.int(a.ty, -1);
        self.xor(a, ones)
    }
    /// A shift by a constant below the width.
    pub(crate) fn shift(&mut self, op: &str, a: Val, by: i64) -> Val {
        let by = self.int(a.ty, by);
        self.binary(op, a, by)
    }

    // Memory.

    /// The address of argument buffer `number`.
    pub(crate) fn argument(&mut self, number: u32) -> Ptr {
        let slot = self.numbered(format!("llvm.getelementptr %buffers[{number}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr"));
        Ptr { id: self.numbered(format!("llvm.load %{slot} : !llvm.ptr -> !llvm.ptr")), space: Space::Generic }
    }
    /// Run-time scalar `number`.
    pub(crate) fn scalar_argument(&mut self, number: u32) -> Val {
        if let Some(&scalar) = self.scalars.get(number as usize) {
            return scalar;
        }
        let slot = self.numbered(format!("llvm.getelementptr %scalars[{number}] : (!llvm.ptr) -> !llvm.ptr, i64"));
        self.pure(Ty::scalar(Elem::I64), format!("llvm.load %{slot} : !llvm.ptr -> i64"))
    }
    /// Stack memory for `bytes` bytes, reserved once a call.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Ptr {
        let count = self.index(bytes as i64);
        let id = self.fresh();
        writeln!(self.head, "  %{id} = llvm.alloca {count} x i8 {{alignment = 64 : i64}} : (i64) -> !llvm.ptr")
            .expect("invariant: writing to a string succeeds");
        Ptr { id, space: Space::Generic }
    }
    pub(crate) fn offset(&mut self, base: Ptr, index: Val, elem: Elem) -> Ptr {
        let space = base.space;
        let id = self.numbered(format!("llvm.getelementptr {base}[{index}] : ({space}, {}) -> {space}, {}", index.ty, elem.name()));
        Ptr { id, space }
    }
    pub(crate) fn load(&mut self, from: Ptr, ty: Ty) -> Val {
        self.load_aligned(from, ty, ty.elem.bytes())
    }
    /// A load from an address that is a multiple of `alignment`.
    pub(crate) fn load_aligned(&mut self, from: Ptr, ty: Ty, alignment: u32) -> Val {
        self.impure(ty, format!("llvm.load {from} {{alignment = {alignment} : i64}} : {} -> {ty}", from.space))
    }
    pub(crate) fn store(&mut self, v: Val, to: Ptr) {
        self.store_aligned(v, to, v.ty.elem.bytes());
    }
    /// A store to an address that is a multiple of `alignment`.
    pub(crate) fn store_aligned(&mut self, v: Val, to: Ptr, alignment: u32) {
        self.line(format_args!("llvm.store {v}, {to} {{alignment = {alignment} : i64}} : {}, {}", v.ty, to.space));
    }
    fn addresses(&mut self, base: Ptr, index: Val, elem: Elem) -> u32 {
        let lanes = index.ty.lanes;
        self.numbered(format!("llvm.getelementptr {base}[{index}] : (!llvm.ptr, {}) -> vector<{lanes}x!llvm.ptr>, {}", index.ty, elem.name()))
    }
    /// One element per lane, at `base + index[lane]`.
    pub(crate) fn gather(&mut self, base: Ptr, index: Val, elem: Elem) -> Val {
        let (addresses, lanes) = (self.addresses(base, index, elem), index.ty.lanes);
        let mask = self.bits(index.ty.with(Elem::I1), 1);
        let ty = Ty { elem, lanes };
        let types = format!("(vector<{lanes}x!llvm.ptr>, vector<{lanes}xi1>) -> {ty}");
        self.impure(ty, format!("llvm.intr.masked.gather %{addresses}, {mask} {{alignment = {} : i32}} : {types}", elem.bytes()))
    }
    /// Stores each of the first `valid` lanes at `base + index[lane]`.
    pub(crate) fn scatter(&mut self, v: Val, base: Ptr, index: Val, valid: u32) {
        let (addresses, lanes) = (self.addresses(base, index, v.ty.elem), index.ty.lanes);
        let mask: Vec<i64> = (0..lanes).map(|l| i64::from(l < valid)).collect();
        let mask = if valid == lanes { self.bits(index.ty.with(Elem::I1), 1) } else { self.int_vector(Elem::I1, &mask) };
        let bytes = v.ty.elem.bytes();
        self.line(format_args!(
            "llvm.intr.masked.scatter {v}, %{addresses}, {mask} {{alignment = {bytes} : i32}} : {}, vector<{lanes}xi1> into vector<{lanes}x!llvm.ptr>",
            v.ty
        ));
    }

    // Control.

    /// `for i in (0..end).step_by(step)` carrying `carried`; `body` gets the index and the carried values and gives their next values.
    pub(crate) fn repeat<E>(
        &mut self,
        end: u64,
        step: u64,
        carried: Vec<Val>,
        body: impl FnOnce(&mut Self, Val, Vec<Val>) -> Result<Vec<Val>, E>,
    ) -> Result<Vec<Val>, E> {
        let (zero, end, step) = (self.index(0), self.index(end as i64), self.index(step as i64));
        let counter = self.counter.name();
        let (result, index) = (self.fresh(), self.fresh());
        let types: Vec<String> = carried.iter().map(|v| v.ty.to_string()).collect();
        let inner: Vec<Val> = carried.iter().map(|v| Val { id: self.fresh(), part: None, ty: v.ty }).collect();
        if carried.is_empty() {
            self.line(format_args!("scf.for %{index} = {zero} to {end} step {step} : {counter} {{"));
        } else {
            let pairs: Vec<String> = inner.iter().zip(&carried).map(|(i, o)| format!("{i} = {o}")).collect();
            let count = if carried.len() > 1 { format!(":{}", carried.len()) } else { String::new() };
            self.line(format_args!(
                "%{result}{count} = scf.for %{index} = {zero} to {end} step {step} iter_args({}) -> ({}) : {counter} {{",
                pairs.join(", "),
                types.join(", ")
            ));
        }
        self.scopes.push(HashMap::new());
        let next = body(self, Val { id: index, part: None, ty: zero.ty }, inner)?;
        if !next.is_empty() {
            let names: Vec<String> = next.iter().map(Val::to_string).collect();
            self.line(format_args!("scf.yield {} : {}", names.join(", "), types.join(", ")));
        }
        self.scopes.pop();
        self.line(format_args!("}}"));
        let several = carried.len() > 1;
        Ok(carried.iter().enumerate().map(|(n, v)| Val { id: result, part: several.then_some(n as u16), ty: v.ty }).collect())
    }
    /// Runs `body` where `condition` holds.
    pub(crate) fn when<E>(&mut self, condition: Val, body: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        self.line(format_args!("scf.if {condition} {{"));
        self.scopes.push(HashMap::new());
        body(self)?;
        self.scopes.pop();
        self.line(format_args!("}}"));
        Ok(())
    }
}
