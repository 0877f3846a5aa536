//! Moves and conversions: `mov` (with vectors), `cvta`, `cvt`. Frequent conversions are functions of rows, the others are of the general kind.

use super::modifiers::Modifiers;
use super::{Decoder, Result};
use crate::code::{Conversion, Double, Logic, Narrow, Op, Reg, Rounding, Widen, Word};
use crate::launch::{LOCAL_BASE, SHARED_BASE};
use crate::syntax::{Operand, Type};

impl<'a> Decoder<'a> {
    pub(super) fn convert(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        match name {
            "mov" => self.mov(m, ops),
            "cvta" => self.generic_address(m, ops),
            _ => self.cvt(m, ops),
        }
    }

    /// The register of a result, whatever its width.
    pub(super) fn destination(&mut self, op: &Operand<'a>) -> Result<Reg> {
        match op {
            Operand::Name(name) => self.named(name),
            _ => Err(self.error("a result is no register")),
        }
    }

    fn mov(&mut self, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let ty = m.ty()?;
        self.expect(ops, 2)?;
        match (&ops[0], &ops[1]) {
            (Operand::Vector(parts), from) => self.unpack(parts, from, ty),
            (to, Operand::Vector(parts)) => self.pack(to, parts, ty),
            (to, from) => match ty.bits() {
                1 => {
                    let d = self.result(to, 1)?;
                    let (row, negated) = self.predicate(from)?;
                    self.emit(Op::Logic(if negated { Logic::Not } else { Logic::Mov }, [d, row, row]))
                }
                64 => {
                    let (d, a) = (self.result(to, 64)?, self.double(from, ty)?);
                    self.doubles(Double::Mov, d, &[a])
                }
                _ => {
                    let (d, a) = (self.result(to, ty.bits())?, self.word(from, ty)?);
                    self.words(Word::Mov, d, &[a])
                }
            },
        }
    }

    fn unpack(&mut self, parts: &[Operand<'a>], from: &Operand<'a>, ty: Type) -> Result<()> {
        let sink = |op: &Operand<'_>| *op == Operand::Name("_");
        let words = match (ty.bits(), parts.len()) {
            (64, 2 | 4) => {
                let a = self.double(from, Type::B(64))?;
                let (low, high) = (self.spare_word(), self.spare_word());
                self.emit(Op::Narrow(Narrow::Low, [low, a]))?;
                self.emit(Op::Narrow(Narrow::High, [high, a]))?;
                vec![low, high]
            }
            (32, 2) => vec![self.word(from, Type::B(32))?],
            _ => return Err(self.error(format!("{} parts of {ty} are not known to this emulator", parts.len()))),
        };
        if words.len() == parts.len() {
            for (part, word) in parts.iter().zip(words).filter(|(p, _)| !sink(p)) {
                let d = self.result(part, 32)?;
                self.words(Word::Mov, d, &[word])?;
            }
            return Ok(());
        }
        // A result may be the operand's own register's half, so all halves are taken first.
        let mut halves = Vec::new();
        for word in words {
            halves.push(self.new_word(Word::Low16, &[word])?);
            halves.push(self.new_word(Word::High16, &[word])?);
        }
        for (part, half) in parts.iter().zip(halves).filter(|(p, _)| !sink(p)) {
            let d = self.result(part, 16)?;
            self.words(Word::Mov, d, &[half])?;
        }
        Ok(())
    }

    fn pack(&mut self, to: &Operand<'a>, parts: &[Operand<'a>], ty: Type) -> Result<()> {
        match (ty.bits(), parts.len()) {
            (64, 2) => {
                let d = self.result(to, 64)?;
                let (a, b) = (self.word(&parts[0], Type::B(32))?, self.word(&parts[1], Type::B(32))?);
                self.emit(Op::Widen(Widen::Pack, [d, a, b, 0]))
            }
            (64, 4) => {
                let d = self.result(to, 64)?;
                let rows = parts.iter().map(|p| self.word(p, Type::B(16))).collect::<Result<Vec<_>>>()?;
                let (a, b) = (self.new_word(Word::Pack16, &rows[..2])?, self.new_word(Word::Pack16, &rows[2..])?);
                self.emit(Op::Widen(Widen::Pack, [d, a, b, 0]))
            }
            (32, 2) => {
                let d = self.result(to, 32)?;
                let (a, b) = (self.word(&parts[0], Type::B(16))?, self.word(&parts[1], Type::B(16))?);
                self.words(Word::Pack16, d, &[a, b])
            }
            _ => Err(self.error(format!("{} parts of {ty} are not known to this emulator", parts.len()))),
        }
    }

    /// `cvta{.to}.space.u64`.
    fn generic_address(&mut self, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        self.expect(ops, 2)?;
        let to = m.take("to");
        let base = m.one_of(&[("global", 0), ("const", 0), ("shared", SHARED_BASE), ("shared::cta", SHARED_BASE), ("local", LOCAL_BASE)]);
        let (Some(base), Type::U(64) | Type::B(64)) = (base, m.ty()?) else { return Err(m.unknown()) };
        let (d, a) = (self.result(&ops[0], 64)?, self.double(&ops[1], Type::U(64))?);
        let base = self.double_constant(base);
        self.doubles(if to { Double::Sub } else { Double::Add }, d, &[a, base])
    }

    fn cvt(&mut self, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let integral = m.integral();
        let rounding = m.rounding();
        let (saturate, flush, relu) = (m.take("sat"), m.take("ftz"), m.take("relu"));
        let (to, from) = (m.ty()?, m.ty()?);
        if let (Type::F16x2 | Type::BF16x2, Type::F(32)) = (to, from) {
            self.expect(ops, 3)?;
            let d = self.result(&ops[0], 32)?;
            let (mut high, mut low) = (self.word(&ops[1], from)?, self.word(&ops[2], from)?);
            if relu {
                (high, low) = (self.new_word(Word::Relu, &[high])?, self.new_word(Word::Relu, &[low])?);
            }
            let (pack, element) = if to == Type::F16x2 { (Word::PackHalf, Type::F(16)) } else { (Word::PackBrain, Type::BF16) };
            let rounding = rounding.unwrap_or(Rounding::Even);
            if rounding == Rounding::Even && !flush && !saturate {
                return self.words(pack, d, &[high, low]);
            }
            let mut parts = [low, high];
            for part in &mut parts {
                let spare = self.spare_word();
                let (d, a) = (Reg { row: spare, bits: 16 }, Reg { row: *part, bits: 32 });
                self.emit(Op::Convert(Box::new(Conversion { to: element, from, rounding, integral: false, saturate, relu: false, flush, d, a })))?;
                *part = spare;
            }
            return self.words(Word::Pack16, d, &parts);
        }
        self.expect(ops, 2)?;
        let d = self.destination(&ops[0])?;
        let a = match &ops[1] {
            op if self.immediate(op, from).is_some() => Reg { row: self.any(op, from)?, bits: if from.bits() == 64 { 64 } else { 32 } },
            Operand::Name(name) if name.starts_with("%tid") || name.starts_with("%ntid") || name.starts_with("%ctaid") || name.starts_with("%nctaid") => {
                Reg { row: self.word(&ops[1], Type::B(32))?, bits: 32 }
            }
            op => self.destination(op)?,
        };
        if d.bits < to.bits() || a.bits < from.bits() || d.bits == 1 || a.bits == 1 {
            return Err(self.error(format!("registers of {} and {} bits are given to a conversion from {from} to {to}", d.bits, a.bits)));
        }
        let mode = integral.or(rounding);
        let plain = !saturate && !flush && !relu;
        if plain && self.frequent(to, from, integral, rounding, d, a)? {
            return Ok(());
        }
        if matches!(to, Type::F16x2 | Type::BF16x2 | Type::I16x2(_) | Type::F32x2) || matches!(from, Type::F16x2 | Type::BF16x2 | Type::I16x2(_) | Type::F32x2)
        {
            return Err(m.unknown());
        }
        let lossy = (to.float() && from.float() && to.bits() < from.bits()) || (to.float() != from.float());
        let Some(rounding) = mode.or(if lossy { None } else { Some(Rounding::Even) }) else {
            return Err(self.error(format!("a conversion from {from} to {to} needs a rounding mode")));
        };
        let integral = integral.is_some();
        self.emit(Op::Convert(Box::new(Conversion { to, from, rounding, integral, saturate, relu, flush, d, a })))
    }

    /// Conversions that kernels are full of.
    fn frequent(&mut self, to: Type, from: Type, integral: Option<Rounding>, rounding: Option<Rounding>, d: Reg, a: Reg) -> Result<bool> {
        let even = rounding == Some(Rounding::Even);
        let integer = |t: Type| matches!(t, Type::U(_) | Type::S(_) | Type::B(_));
        let word = match (to, from) {
            (t, f) if integer(t) && integer(f) => {
                match (t.bits(), f.bits(), d.bits, a.bits) {
                    (64, 32, 64, 32) => {
                        let f = if f.signed() { Widen::S } else { Widen::U };
                        self.emit(Op::Widen(f, [d.row, a.row, 0, 0]))?;
                        return Ok(true);
                    }
                    (32, 64, 32, 64) => {
                        self.emit(Op::Narrow(Narrow::Low, [d.row, a.row]))?;
                        return Ok(true);
                    }
                    (32, 32, 32, 32) => Some(Word::Mov),
                    (32, 16, 32, 16 | 32) => Some(if f.signed() { Word::SExt16 } else { Word::Low16 }),
                    (32, 8, 32, 16 | 32) => Some(if f.signed() { Word::SExt8 } else { Word::Low8 }),
                    // Into a register of its own width, where the upper bits are not seen.
                    (16, 16 | 32, 16, 16 | 32) => Some(Word::Low16),
                    (16, 8, 16, 16 | 32) if !f.signed() => Some(Word::Low8),
                    _ => None,
                }
            }
            (Type::F(32), Type::F(16)) => Some(Word::FromHalf),
            (Type::F(32), Type::BF16) => Some(Word::FromBrain),
            (Type::F(16), Type::F(32)) if even => Some(Word::ToHalf),
            (Type::BF16, Type::F(32)) if even => Some(Word::ToBrain),
            (Type::F(32), Type::S(32)) if even => Some(Word::FromS32),
            (Type::F(32), Type::U(32)) if even => Some(Word::FromU32),
            (Type::S(32), Type::F(32)) if integral == Some(Rounding::Zero) => Some(Word::ToS32),
            (Type::U(32), Type::F(32)) if integral == Some(Rounding::Zero) => Some(Word::ToU32),
            (Type::F(32), Type::F(32)) => match integral {
                Some(Rounding::Even) => Some(Word::Even),
                Some(Rounding::Zero) => Some(Word::Trunc),
                Some(Rounding::Down) => Some(Word::Floor),
                Some(Rounding::Up) => Some(Word::Ceil),
                _ => None,
            },
            (Type::F(64), Type::F(32)) if integral.is_none() && a.bits == 32 => {
                self.emit(Op::Widen(Widen::F, [d.row, a.row, 0, 0]))?;
                return Ok(true);
            }
            (Type::F(64), Type::S(32)) if even && a.bits == 32 => {
                self.emit(Op::Widen(Widen::FromS32, [d.row, a.row, 0, 0]))?;
                return Ok(true);
            }
            (Type::F(64), Type::U(32)) if even && a.bits == 32 => {
                self.emit(Op::Widen(Widen::FromU32, [d.row, a.row, 0, 0]))?;
                return Ok(true);
            }
            (Type::F(32), Type::F(64)) if even && d.bits == 32 => {
                self.emit(Op::Narrow(Narrow::F, [d.row, a.row]))?;
                return Ok(true);
            }
            _ => None,
        };
        match word {
            Some(f) if d.bits != 64 && a.bits != 64 => {
                self.words(f, d.row, &[a.row])?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
