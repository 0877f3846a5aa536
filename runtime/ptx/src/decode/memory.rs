//! Loads, stores and atomics. Arguments and parameters of calls are rows, so reading them is a move.

use super::modifiers::Modifiers;
use super::{Decoder, Result, Symbol};
use crate::code::{Access, Address, Argument, Atomic, AtomicOp, Double, Narrow, Op, Reg, Target, Widen, Word};
use crate::syntax::{Operand, Type};

/// Modifiers that are about caches and scopes only.
const HINTS: &[&str] = &[
    "nc",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "L2::evict_last",
    "L2::evict_normal",
    "L2::evict_first",
    "unified",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "weak",
];

impl<'a> Decoder<'a> {
    pub(super) fn memory(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        HINTS.iter().for_each(|h| while m.take(h) {});
        let space = m.one_of(&[
            ("global", Some(Target::Global)),
            ("const", Some(Target::Global)),
            ("shared", Some(Target::Shared)),
            ("shared::cta", Some(Target::Shared)),
            ("local", Some(Target::Local)),
            ("param", None),
            ("param::entry", None),
            ("param::func", None),
        ]);
        if let "atom" | "red" = name {
            return self.atomic(name, m, ops, space.flatten().unwrap_or(Target::Generic));
        }
        let strong = ["volatile", "relaxed", "acquire", "release"].iter().filter(|s| m.take(s)).count() > 0;
        let lanes = m.one_of(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1);
        let ty = m.ty()?;
        self.expect(ops, 2)?;
        let store = name == "st";
        let (value, address) = if store { (&ops[1], &ops[0]) } else { (&ops[0], &ops[1]) };
        let single = std::slice::from_ref(value);
        let values = match value {
            Operand::Vector(v) => &v[..],
            _ => single,
        };
        if values.len() != lanes || ty == Type::Pred {
            return Err(self.error(format!("{} registers are given for {lanes} values of {ty}", values.len())));
        }
        let Some(target) = space.unwrap_or(Some(Target::Generic)) else {
            return self.parameter(store, ty, values, address);
        };
        let address = self.address(address, target)?;
        let mut registers = Vec::new();
        for v in values {
            registers.push(match v {
                Operand::Name("_") if !store => None,
                v => Some(self.stored(v, ty, store)?),
            });
        }
        let access = Box::new(Access { target, address, bytes: ty.bytes() as u8, signed: ty.signed(), strong, registers });
        self.emit(if store { Op::Store(access) } else { Op::Load(access) })
    }

    /// A register that a value of that type is loaded to or stored from; it may be wider than the type.
    fn stored(&mut self, op: &Operand<'a>, ty: Type, store: bool) -> Result<Reg> {
        if store && self.immediate(op, ty).is_some() {
            return Ok(Reg { row: self.any(op, ty)?, bits: if ty.bits() == 64 { 64 } else { 32 } });
        }
        let register = self.destination(op)?;
        if register.bits < ty.bits() || register.bits == 1 {
            return Err(self.error(format!("a register of {} bits is given for {ty}", register.bits)));
        }
        Ok(register)
    }

    fn address(&mut self, op: &Operand<'a>, target: Target) -> Result<Address> {
        let Operand::Address(name, offset) = op else { return Err(self.error("an address in brackets is needed")) };
        let Some(name) = name else {
            return Ok(Address { row: self.double_constant(0), wide: true, offset: *offset });
        };
        if let Some(address) = self.address_of(name, 0)? {
            // A variable of shared or local memory is an offset in its space, so a generic access to it says which.
            let generic = match (target, self.lookup(name)) {
                (Target::Generic, Some(Symbol::Shared(_))) => crate::launch::SHARED_BASE,
                (Target::Generic, Some(Symbol::Local(_))) => crate::launch::LOCAL_BASE,
                _ => 0,
            };
            return Ok(Address { row: self.double_constant(address + generic), wide: true, offset: *offset });
        }
        let register = self.named(name)?;
        match (register.bits, target) {
            (64, _) => Ok(Address { row: register.row, wide: true, offset: *offset }),
            (32, Target::Shared | Target::Local) => Ok(Address { row: register.row, wide: false, offset: *offset }),
            _ => Err(self.error(format!("`{name}` has {} bits and is used as an address", register.bits))),
        }
    }

    /// `ld.param` and `st.param`.
    fn parameter(&mut self, store: bool, ty: Type, values: &[Operand<'a>], address: &Operand<'a>) -> Result<()> {
        let Operand::Address(Some(name), offset) = address else { return Err(self.error("a parameter's name is needed")) };
        let offset = u32::try_from(*offset).map_err(|_| self.error(format!("`{name}` is read before its begin")))?;
        match self.lookup(name).cloned() {
            Some(Symbol::Argument(index, size)) if !store => {
                for (i, v) in values.iter().enumerate() {
                    let offset = offset + i as u32 * ty.bytes();
                    if offset + ty.bytes() > size {
                        return Err(self.error(format!("`{name}` has {size} bytes and is read past them")));
                    }
                    let d = self.stored(v, ty, false)?;
                    let row = self.argument(Argument { index, offset, bytes: ty.bytes(), signed: ty.signed(), wide: d.bits == 64 });
                    match d.bits {
                        64 => self.doubles(Double::Mov, d.row, &[row])?,
                        16 => self.words(Word::Low16, d.row, &[row])?,
                        _ => self.words(Word::Mov, d.row, &[row])?,
                    }
                }
                Ok(())
            }
            Some(Symbol::Cell(cell)) => {
                for (i, v) in values.iter().enumerate() {
                    let offset = offset + i as u32 * ty.bytes();
                    let register = self.stored(v, ty, store)?;
                    let held = match self.cells[cell].get(&offset) {
                        Some(held) => *held,
                        None if store => {
                            let held = self.register(if ty.bits() == 64 { Type::B(64) } else { Type::B(ty.bits().max(16)) });
                            self.cells[cell].insert(offset, held);
                            held
                        }
                        None => return Err(self.error(format!("`{name}+{offset}` is read as nothing was written there"))),
                    };
                    if (held.bits == 64) != (ty.bits() == 64) {
                        return Err(self.error(format!("`{name}+{offset}` is read with another width than it was written, which this emulator does not know")));
                    }
                    let (d, a) = if store { (held, register) } else { (register, held) };
                    match (d.bits, a.bits, ty.bits()) {
                        (64, 64, _) => self.doubles(Double::Mov, d.row, &[a.row])?,
                        (64, ..) => self.emit(Op::Widen(if ty.signed() { Widen::S } else { Widen::U }, [d.row, a.row, 0, 0]))?,
                        (_, 64, _) => self.emit(Op::Narrow(Narrow::Low, [d.row, a.row]))?,
                        (32, _, 32) => self.words(Word::Mov, d.row, &[a.row])?,
                        (32, _, 16) if ty.signed() => self.words(Word::SExt16, d.row, &[a.row])?,
                        (32, _, 8) if ty.signed() => self.words(Word::SExt8, d.row, &[a.row])?,
                        (_, _, 8) => self.words(Word::Low8, d.row, &[a.row])?,
                        _ => self.words(Word::Low16, d.row, &[a.row])?,
                    }
                }
                Ok(())
            }
            _ => Err(self.error(format!("`{name}` is no parameter that can be {} here", if store { "written" } else { "read" }))),
        }
    }

    fn atomic(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>], target: Target) -> Result<()> {
        m.one_of(&["relaxed", "acquire", "release", "acq_rel"].map(|s| (s, ())));
        m.take("noftz");
        let op = m.one_of(&[
            ("add", AtomicOp::Add),
            ("min", AtomicOp::Min),
            ("max", AtomicOp::Max),
            ("and", AtomicOp::And),
            ("or", AtomicOp::Or),
            ("xor", AtomicOp::Xor),
            ("exch", AtomicOp::Exchange),
            ("cas", AtomicOp::CompareSwap),
            ("inc", AtomicOp::Inc),
            ("dec", AtomicOp::Dec),
        ]);
        let Some(op) = op else { return Err(m.unknown()) };
        let ty = m.ty()?;
        let known = match op {
            AtomicOp::Add => ty.bits() >= 32 && !matches!(ty, Type::B(_) | Type::F32x2 | Type::I16x2(_)) || matches!(ty, Type::F(16) | Type::BF16),
            AtomicOp::Min | AtomicOp::Max => matches!(ty, Type::U(32 | 64) | Type::S(32 | 64)),
            AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => ty.bits() >= 32 && !ty.float(),
            AtomicOp::Exchange => ty.bits() >= 32,
            AtomicOp::CompareSwap => ty.bits() >= 16 && !ty.float(),
            AtomicOp::Inc | AtomicOp::Dec => ty == Type::U(32),
        };
        if !known {
            return Err(m.unknown());
        }
        let returns = name == "atom";
        let three = op == AtomicOp::CompareSwap;
        self.expect(ops, usize::from(returns) + 2 + usize::from(three))?;
        let d = match ops[0] {
            Operand::Name("_") => None,
            _ if returns => Some(Reg { row: self.result(&ops[0], ty.bits())?, bits: ty.bits() }),
            _ => None,
        };
        let rest = &ops[usize::from(returns)..];
        let address = self.address(&rest[0], target)?;
        let b = Reg { row: self.any(&rest[1], ty)?, bits: ty.bits() };
        let c = if three { Some(Reg { row: self.any(&rest[2], ty)?, bits: ty.bits() }) } else { None };
        // The order of float sums, and what an atomic returns, depend on the order of blocks.
        if target != Target::Shared && (ty.float() || d.is_some() || op == AtomicOp::Exchange) {
            self.code.ordered = true;
        }
        self.emit(Op::Atomic(Box::new(Atomic { target, address, op, ty, d, b, c })))
    }
}
