//! Integers, bits, comparisons and selections. 16-bit integers are extended, computed as words, and cut.

use super::modifiers::Modifiers;
use super::{Decoder, Result};
use crate::code::{Compare, Double, Logic, Narrow, Op, Row, Shift, Widen, Word};
use crate::syntax::{Operand, Type};

impl<'a> Decoder<'a> {
    /// An integer operand as a word with the value it has.
    fn extended(&mut self, op: &Operand<'a>, ty: Type) -> Result<Row> {
        let row = self.word(op, ty)?;
        if ty == Type::S(16) { self.new_word(Word::SExt16, &[row]) } else { Ok(row) }
    }

    pub(super) fn integer_arithmetic(&mut self, name: &str, ty: Type, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let signed = ty.signed();
        if let ("mul" | "mad", true) = (name, m.take("wide")) {
            return self.wide(name, ty, ops);
        }
        let high = matches!(name, "mul" | "mad") && m.take("hi");
        if matches!(name, "mul" | "mad") && !high && !m.take("lo") {
            return Err(m.unknown());
        }
        let (word, double) = match (name, signed) {
            ("add", true) if m.take("sat") => (Word::AddSat, None),
            ("sub", true) if m.take("sat") => (Word::SubSat, None),
            ("add", _) => (Word::Add, Some(Double::Add)),
            ("sub", _) => (Word::Sub, Some(Double::Sub)),
            ("mul", _) if !high => (Word::Mul, Some(Double::Mul)),
            ("mul", true) => (Word::MulHiS, Some(Double::MulHiS)),
            ("mul", false) => (Word::MulHiU, Some(Double::MulHiU)),
            ("mad", _) if !high => (Word::Mad, Some(Double::Mad)),
            ("mad", true) => (Word::MadHiS, Some(Double::MadHiS)),
            ("mad", false) => (Word::MadHiU, Some(Double::MadHiU)),
            ("div", true) => (Word::DivS, Some(Double::DivS)),
            ("div", false) => (Word::DivU, Some(Double::DivU)),
            ("min", true) => (Word::MinS, Some(Double::MinS)),
            ("min", false) => (Word::MinU, Some(Double::MinU)),
            ("max", true) => (Word::MaxS, Some(Double::MaxS)),
            ("max", false) => (Word::MaxU, Some(Double::MaxU)),
            ("abs", true) => (Word::AbsS, Some(Double::AbsS)),
            ("neg", true) => (Word::Neg, Some(Double::Neg)),
            _ => return Err(m.unknown()),
        };
        let narrow_only = matches!(word, Word::AddSat | Word::SubSat);
        match ty {
            Type::S(32) | Type::U(32) => {
                let d = self.result(&ops[0], 32)?;
                let rows = ops[1..].iter().map(|op| self.word(op, ty)).collect::<Result<Vec<_>>>()?;
                self.words(word, d, &rows)
            }
            Type::S(64) | Type::U(64) => {
                let Some(double) = double else { return Err(m.unknown()) };
                let d = self.result(&ops[0], 64)?;
                let rows = ops[1..].iter().map(|op| self.double(op, ty)).collect::<Result<Vec<_>>>()?;
                self.doubles(double, d, &rows)
            }
            Type::S(16) | Type::U(16) if !high && !narrow_only => {
                let d = self.result(&ops[0], 16)?;
                let rows = ops[1..].iter().map(|op| self.extended(op, ty)).collect::<Result<Vec<_>>>()?;
                self.words(word, d, &rows)?;
                self.words(Word::Low16, d, &[d])
            }
            Type::I16x2(_) if matches!(name, "add" | "min" | "max") => {
                let d = self.result(&ops[0], 32)?;
                let rows = ops[1..].iter().map(|op| self.word(op, ty)).collect::<Result<Vec<_>>>()?;
                let mut parts = [0; 2];
                for (part, take) in parts.iter_mut().zip([Word::Low16, Word::High16]) {
                    let mut halves = Vec::new();
                    for row in &rows {
                        let half = self.new_word(take, &[*row])?;
                        halves.push(if signed { self.new_word(Word::SExt16, &[half])? } else { half });
                    }
                    *part = self.new_word(word, &halves)?;
                }
                self.words(Word::Pack16, d, &parts)
            }
            _ => Err(m.unknown()),
        }
    }

    /// `mul.wide`, `mad.wide`.
    fn wide(&mut self, name: &str, ty: Type, ops: &[Operand<'a>]) -> Result<()> {
        let (a, b) = (self.extended(&ops[1], ty)?, self.extended(&ops[2], ty)?);
        if ty.bits() == 16 {
            let d = self.result(&ops[0], 32)?;
            return if name == "mul" {
                self.words(Word::Mul, d, &[a, b])
            } else {
                let c = self.word(&ops[3], Type::B(32))?;
                self.words(Word::Mad, d, &[a, b, c])
            };
        }
        let d = self.result(&ops[0], 64)?;
        let c = if name == "mad" { self.double(&ops[3], Type::B(64))? } else { 0 };
        let f = match (name, ty.signed()) {
            ("mul", true) => Widen::MulS,
            ("mul", false) => Widen::MulU,
            (_, true) => Widen::MadS,
            (_, false) => Widen::MadU,
        };
        self.emit(Op::Widen(f, [d, a, b, c]))
    }

    /// Everything else that computes.
    pub(super) fn integer(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        match name {
            "rem" => {
                let ty = m.ty()?;
                self.expect(ops, 3)?;
                let (word, double) = if ty.signed() { (Word::RemS, Double::RemS) } else { (Word::RemU, Double::RemU) };
                match ty {
                    Type::S(64) | Type::U(64) => {
                        let (d, a, b) = (self.result(&ops[0], 64)?, self.double(&ops[1], ty)?, self.double(&ops[2], ty)?);
                        self.doubles(double, d, &[a, b])
                    }
                    Type::S(_) | Type::U(_) => {
                        let d = self.result(&ops[0], ty.bits())?;
                        let (a, b) = (self.extended(&ops[1], ty)?, self.extended(&ops[2], ty)?);
                        self.words(word, d, &[a, b])?;
                        if ty.bits() == 16 { self.words(Word::Low16, d, &[d]) } else { Ok(()) }
                    }
                    _ => Err(m.unknown()),
                }
            }
            "and" | "or" | "xor" | "not" | "cnot" => self.bitwise(name, m, ops),
            "shl" | "shr" => self.shift(name, m, ops),
            "popc" | "clz" | "brev" | "bfind" => self.count_bits(name, m, ops),
            "bfe" | "bfi" | "bmsk" => self.bit_field(name, m, ops),
            "prmt" => {
                self.expect(ops, 4)?;
                m.ty()?;
                let d = self.result(&ops[0], 32)?;
                let rows = ops[1..].iter().map(|op| self.word(op, Type::B(32))).collect::<Result<Vec<_>>>()?;
                self.words(Word::Prmt, d, &rows)
            }
            "shf" => {
                self.expect(ops, 4)?;
                m.ty()?;
                let left = m.take("l");
                if !left && !m.take("r") {
                    return Err(m.unknown());
                }
                let f = match (left, m.take("wrap")) {
                    (true, true) => Word::FunnelLWrap,
                    (true, false) => Word::FunnelLClamp,
                    (false, true) => Word::FunnelRWrap,
                    (false, false) => Word::FunnelRClamp,
                };
                m.take("clamp");
                let d = self.result(&ops[0], 32)?;
                let rows = ops[1..].iter().map(|op| self.word(op, Type::B(32))).collect::<Result<Vec<_>>>()?;
                self.words(f, d, &rows)
            }
            "lop3" => {
                self.expect(ops, 5)?;
                m.ty()?;
                let Operand::Int(table) = ops[4] else { return Err(self.error("the table of `lop3` is no number")) };
                let d = self.result(&ops[0], 32)?;
                let rows = ops[1..4].iter().map(|op| self.word(op, Type::B(32))).collect::<Result<Vec<_>>>()?;
                self.emit(Op::Lop3([d, rows[0], rows[1], rows[2]], table as u8))
            }
            "setp" | "set" => self.compare(name, m, ops),
            "selp" => {
                let ty = m.ty()?;
                self.expect(ops, 4)?;
                let (d, a, b) = (self.result(&ops[0], ty.bits())?, self.any(&ops[1], ty)?, self.any(&ops[2], ty)?);
                let (p, negated) = self.predicate(&ops[3])?;
                let (a, b) = if negated { (b, a) } else { (a, b) };
                self.emit(if ty.bits() == 64 { Op::SelectDouble([d, a, b, p]) } else { Op::SelectWord([d, a, b, p]) })
            }
            "slct" => {
                let (ty, by) = (m.ty()?, m.ty()?);
                m.take("ftz");
                self.expect(ops, 4)?;
                let (d, a, b, c) = (self.result(&ops[0], ty.bits())?, self.any(&ops[1], ty)?, self.any(&ops[2], ty)?, self.word(&ops[3], by)?);
                let (compare, zero, p) = (if by.float() { Compare::FGe } else { Compare::GeS }, self.word_constant(0), self.spare_predicate());
                self.emit(Op::CompareWord(compare, [p, c, zero]))?;
                self.emit(if ty.bits() == 64 { Op::SelectDouble([d, a, b, p]) } else { Op::SelectWord([d, a, b, p]) })
            }
            _ => Err(m.unknown()),
        }
    }

    fn bitwise(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let ty = m.ty()?;
        let unary = matches!(name, "not" | "cnot");
        self.expect(ops, if unary { 2 } else { 3 })?;
        if ty == Type::Pred {
            let d = self.result(&ops[0], 1)?;
            let a = self.plain_predicate(&ops[1])?;
            let b = if unary { a } else { self.plain_predicate(&ops[2])? };
            let f = match name {
                "and" => Logic::And,
                "or" => Logic::Or,
                "xor" => Logic::Xor,
                "not" => Logic::Not,
                _ => return Err(m.unknown()),
            };
            return self.combine(f, d, a, b);
        }
        let d = self.result(&ops[0], ty.bits())?;
        let rows = ops[1..].iter().map(|op| self.any(op, ty)).collect::<Result<Vec<_>>>()?;
        let (word, double) = match name {
            "and" => (Word::And, Double::And),
            "or" => (Word::Or, Double::Or),
            "xor" => (Word::Xor, Double::Xor),
            "not" => (Word::Not, Double::Not),
            _ => (Word::CNot, Double::CNot),
        };
        match ty.bits() {
            64 => self.doubles(double, d, &rows),
            32 => self.words(word, d, &rows),
            _ => {
                self.words(word, d, &rows)?;
                self.words(Word::Low16, d, &[d])
            }
        }
    }

    fn shift(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let ty = m.ty()?;
        self.expect(ops, 3)?;
        let by = self.word(&ops[2], Type::U(32))?;
        let left = name == "shl";
        if ty.bits() == 64 {
            let (d, a) = (self.result(&ops[0], 64)?, self.double(&ops[1], ty)?);
            let f = match (left, ty.signed()) {
                (true, _) => Shift::Left,
                (false, true) => Shift::RightS,
                (false, false) => Shift::RightU,
            };
            return self.emit(Op::Shift(f, [d, a, by, 0]));
        }
        let (d, a) = (self.result(&ops[0], ty.bits())?, self.extended(&ops[1], ty)?);
        let f = match (left, ty.signed()) {
            (true, _) => Word::Shl,
            (false, true) => Word::ShrS,
            (false, false) => Word::ShrU,
        };
        self.words(f, d, &[a, by])?;
        if ty.bits() == 16 { self.words(Word::Low16, d, &[d]) } else { Ok(()) }
    }

    fn count_bits(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let ty = m.ty()?;
        self.expect(ops, 2)?;
        let amount = name == "bfind" && m.take("shiftamt");
        if ty.bits() == 64 {
            let a = self.double(&ops[1], ty)?;
            if name == "brev" {
                let d = self.result(&ops[0], 64)?;
                return self.doubles(Double::Brev, d, &[a]);
            }
            let d = self.result(&ops[0], 32)?;
            let f = match (name, ty.signed()) {
                ("popc", _) => Narrow::Popc,
                ("clz", _) => Narrow::Clz,
                _ if amount => return Err(m.unknown()),
                (_, true) => Narrow::BfindS,
                (_, false) => Narrow::BfindU,
            };
            return self.emit(Op::Narrow(f, [d, a]));
        }
        let (d, a) = (self.result(&ops[0], 32)?, self.word(&ops[1], ty)?);
        let f = match (name, ty.signed(), amount) {
            ("popc", ..) => Word::Popc,
            ("clz", ..) => Word::Clz,
            ("brev", ..) => Word::Brev,
            (_, true, false) => Word::BfindS,
            (_, false, false) => Word::BfindU,
            (_, true, true) => Word::BfindShiftS,
            (_, false, true) => Word::BfindShiftU,
        };
        self.words(f, d, &[a])
    }

    fn bit_field(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        if name == "bmsk" {
            let f = if m.take("wrap") { Word::BmskWrap } else { Word::BmskClamp };
            m.take("clamp");
            m.ty()?;
            self.expect(ops, 3)?;
            let (d, a, b) = (self.result(&ops[0], 32)?, self.word(&ops[1], Type::B(32))?, self.word(&ops[2], Type::B(32))?);
            return self.words(f, d, &[a, b]);
        }
        let ty = m.ty()?;
        let wide = ty.bits() == 64;
        if name == "bfi" {
            self.expect(ops, 5)?;
            let (d, a, b) = (self.result(&ops[0], ty.bits())?, self.any(&ops[1], ty)?, self.any(&ops[2], ty)?);
            let (position, length) = (self.word(&ops[3], Type::U(32))?, self.word(&ops[4], Type::U(32))?);
            return self.emit(Op::BitInsert(wide, [d, a, b, position, length]));
        }
        self.expect(ops, 4)?;
        let (d, a) = (self.result(&ops[0], ty.bits())?, self.any(&ops[1], ty)?);
        let (position, length) = (self.word(&ops[2], Type::U(32))?, self.word(&ops[3], Type::U(32))?);
        if wide {
            self.emit(Op::Shift(if ty.signed() { Shift::BfeS } else { Shift::BfeU }, [d, a, position, length]))
        } else {
            self.words(if ty.signed() { Word::BfeS } else { Word::BfeU }, d, &[a, position, length])
        }
    }

    /// `setp.cmp{.bool}.type p{|q}, a, b{, c}` and `set.cmp.type.type d, a, b`.
    fn compare(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let names = ["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];
        let table: Vec<(&str, usize)> = names.iter().enumerate().map(|(i, n)| (*n, i)).collect();
        let Some(which) = m.one_of(&table) else { return Err(m.unknown()) };
        let logic = m.one_of(&[("and", Logic::And), ("or", Logic::Or), ("xor", Logic::Xor)]);
        let flush = m.take("ftz");
        let result = if name == "set" { Some(m.ty()?) } else { None };
        let ty = m.ty()?;
        let compare = comparison(which, ty).ok_or_else(|| m.unknown())?;
        let (mut a, mut b) = match ty {
            Type::S(16) | Type::U(16) => (self.extended(&ops[1], ty)?, self.extended(&ops[2], ty)?),
            _ => (self.any(&ops[1], ty)?, self.any(&ops[2], ty)?),
        };
        let convert = match ty {
            Type::F(16) | Type::F16x2 => Some(Word::FromHalf),
            Type::BF16 | Type::BF16x2 => Some(Word::FromBrain),
            Type::F(32) if flush => Some(Word::Flush),
            _ => None,
        };
        let (pair_a, pair_b) = (a, b);
        if let Some(f) = convert {
            (a, b) = (self.new_word(f, &[a])?, self.new_word(f, &[b])?);
        }
        let against = |wide: bool, rows: [Row; 3]| if wide { Op::CompareDouble(compare, rows) } else { Op::CompareWord(compare, rows) };
        let wide = ty.bits() == 64;
        let test = self.spare_predicate();
        self.emit(against(wide, [test, a, b]))?;
        if let Some(result) = result {
            self.expect(ops, 3)?;
            if logic.is_some() || result.bits() != 32 || matches!(ty, Type::F16x2 | Type::BF16x2) {
                return Err(m.unknown());
            }
            let d = self.result(&ops[0], 32)?;
            let (yes, no) = (self.word_constant(if result.float() { 1f32.to_bits() } else { u32::MAX }), self.word_constant(0));
            return self.emit(Op::SelectWord([d, yes, no, test]));
        }
        let with = match logic {
            Some(_) => {
                self.expect(ops, 4)?;
                Some(self.plain_predicate(&ops[3])?)
            }
            None => {
                self.expect(ops, 3)?;
                None
            }
        };
        let (first, second) = match &ops[0] {
            Operand::Pair(p, q) => (self.result(&Operand::Name(p), 1)?, Some(self.result(&Operand::Name(q), 1)?)),
            op => (self.result(op, 1)?, None),
        };
        // The guard must outlive the first result when it is that register.
        if second.is_some()
            && let Some((row, negated)) = self.guard.filter(|(row, _)| *row == first)
        {
            let spare = self.spare_predicate();
            let guard = self.guard.take();
            self.combine(Logic::Mov, spare, row, row)?;
            self.guard = guard.map(|_| (spare, negated));
        }
        // Of pairs of halves the second result is the upper halves' own test.
        if let (Type::F16x2 | Type::BF16x2, Some(second), Some(f)) = (ty, second, convert) {
            let (a, b) = (self.new_word(Word::High16, &[pair_a])?, self.new_word(Word::High16, &[pair_b])?);
            let (a, b) = (self.new_word(f, &[a])?, self.new_word(f, &[b])?);
            let upper = self.spare_predicate();
            self.emit(against(false, [upper, a, b]))?;
            return match (logic, with) {
                (Some(logic), Some(c)) => {
                    let keep = self.spare_predicate();
                    self.combine(Logic::Mov, keep, c, c)?;
                    self.combine(logic, first, test, keep)?;
                    self.combine(logic, second, upper, keep)
                }
                _ => {
                    self.combine(Logic::Mov, first, test, test)?;
                    self.combine(Logic::Mov, second, upper, upper)
                }
            };
        }
        let Some((logic, c)) = logic.zip(with) else {
            self.combine(Logic::Mov, first, test, test)?;
            return match second {
                Some(q) => self.combine(Logic::Not, q, test, test),
                None => Ok(()),
            };
        };
        let c = if second.is_some() {
            let keep = self.spare_predicate();
            self.combine(Logic::Mov, keep, c, c)?;
            keep
        } else {
            c
        };
        self.combine(logic, first, test, c)?;
        let inverse = match logic {
            Logic::And => Logic::AndNot,
            Logic::Or => Logic::OrNot,
            _ => Logic::XorNot,
        };
        match second {
            Some(q) => self.combine(inverse, q, test, c),
            None => Ok(()),
        }
    }
}

/// The comparison of that number among the names, on that type.
fn comparison(which: usize, ty: Type) -> Option<Compare> {
    use Compare::*;
    let float = [FEq, FNe, FLt, FLe, FGt, FGe];
    let unordered = [FEqU, FNeU, FLtU, FLeU, FGtU, FGeU, Num, Nan];
    if ty.float() {
        return match which {
            0..6 => Some(float[which]),
            10..18 => Some(unordered[which - 10]),
            _ => None,
        };
    }
    match (which, ty.signed()) {
        (0, _) => Some(Eq),
        (1, _) => Some(Ne),
        (2..6, true) => Some([LtS, LeS, GtS, GeS][which - 2]),
        (2..6, false) => Some([LtU, LeU, GtU, GeU][which - 2]),
        (6..10, _) => Some([LtU, LeU, GtU, GeU][which - 6]),
        _ => None,
    }
}
