//! Arithmetic of all types by name, and functions of floats.
//!
//! `.ftz` and `.sat` of singles are micro-instructions of their own. Halves and brain floats are computed exactly and rounded once.

use super::modifiers::Modifiers;
use super::{Decoder, Result};
use crate::code::{Approx, Compare, Double, Exact, Logic, Narrow, Op, Rounded, Rounding, Row, Widen, Word};
use crate::syntax::{Operand, Type};

impl<'a> Decoder<'a> {
    /// `add`, `sub`, `mul`, `mad`, `fma`, `div`, `min`, `max`, `abs`, `neg`.
    pub(super) fn arithmetic(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let count = match name {
            "abs" | "neg" => 2,
            "mad" | "fma" => 4,
            _ => 3,
        };
        self.expect(ops, count)?;
        let ty = m.ty()?;
        match ty {
            Type::F(32) => self.single(name, m, ops),
            Type::F(64) => self.float_double(name, m, ops),
            Type::F32x2 => self.single_pair(name, m, ops),
            Type::F(16) | Type::BF16 | Type::F16x2 | Type::BF16x2 => self.half(name, ty, m, ops),
            _ => self.integer_arithmetic(name, ty, m, ops),
        }
    }

    /// An operand, with what is too small for a normal number made zero when `.ftz` says so.
    fn flushed(&mut self, op: &Operand<'a>, flush: bool) -> Result<Row> {
        let row = self.word(op, Type::F(32))?;
        if flush { self.new_word(Word::Flush, &[row]) } else { Ok(row) }
    }

    fn finish_single(&mut self, d: Row, flush: bool, saturate: bool) -> Result<()> {
        if flush {
            self.words(Word::Flush, d, &[d])?;
        }
        if saturate {
            self.words(Word::Saturate, d, &[d])?;
        }
        Ok(())
    }

    fn single(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let (flush, saturate) = (m.take("ftz"), m.take("sat"));
        let d = self.result(&ops[0], 32)?;
        let mut rows = Vec::new();
        for op in &ops[1..] {
            rows.push(self.flushed(op, flush)?);
        }
        let exact = match name {
            "add" => Some((Exact::Add, Word::FAdd)),
            "sub" => Some((Exact::Sub, Word::FSub)),
            "mul" => Some((Exact::Mul, Word::FMul)),
            "mad" | "fma" => Some((Exact::Fma, Word::FFma)),
            "div" => Some((Exact::Div, Word::FDiv)),
            _ => None,
        };
        if let Some((what, word)) = exact {
            if name == "div"
                && let Some(f) = m.one_of(&[("approx", Approx::Div), ("full", Approx::DivFull)])
            {
                self.emit(Op::Approx(f, [d, rows[0], rows[1]]))?;
                return self.finish_single(d, flush, saturate);
            }
            match m.rounding().unwrap_or(Rounding::Even) {
                Rounding::Even => self.words(word, d, &rows)?,
                rounding => self.rounded(what, Type::F(32), false, rounding, d, &rows)?,
            }
            return self.finish_single(d, flush, saturate);
        }
        let nan = m.take("NaN");
        let f = match (name, nan) {
            ("min", false) => Word::FMin,
            ("min", true) => Word::FMinNan,
            ("max", false) => Word::FMax,
            ("max", true) => Word::FMaxNan,
            ("abs", false) => Word::FAbs,
            ("neg", false) => Word::FNeg,
            _ => return Err(m.unknown()),
        };
        self.words(f, d, &rows)?;
        self.finish_single(d, flush, saturate)
    }

    fn rounded(&mut self, what: Exact, ty: Type, pair: bool, rounding: Rounding, d: Row, rows: &[Row]) -> Result<()> {
        let at = |i: usize| rows.get(i).copied().unwrap_or(0);
        let rows = [d, at(0), at(1), at(2)];
        self.emit(Op::Rounded(Box::new(Rounded { what, ty, pair, rounding, saturate: false, relu: false, flush: false, rows })))
    }

    fn float_double(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let f = match name {
            "add" => Double::FAdd,
            "sub" => Double::FSub,
            "mul" => Double::FMul,
            "mad" | "fma" => Double::FFma,
            "div" => Double::FDiv,
            "min" => Double::FMin,
            "max" => Double::FMax,
            "abs" => Double::FAbs,
            "neg" => Double::FNeg,
            _ => return Err(m.unknown()),
        };
        m.take("rn");
        let d = self.result(&ops[0], 64)?;
        let mut rows = Vec::new();
        for op in &ops[1..] {
            rows.push(self.double(op, Type::F(64))?);
        }
        self.doubles(f, d, &rows)
    }

    /// The same of both halves of a double.
    fn single_pair(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let f = match name {
            "add" => Word::FAdd,
            "sub" => Word::FSub,
            "mul" => Word::FMul,
            "fma" => Word::FFma,
            _ => return Err(m.unknown()),
        };
        m.take("rn");
        let flush = m.take("ftz");
        let d = self.result(&ops[0], 64)?;
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for op in &ops[1..] {
            let row = self.double(op, Type::B(64))?;
            for (half, list) in [(Narrow::Low, &mut low), (Narrow::High, &mut high)] {
                let word = self.spare_word();
                self.emit(Op::Narrow(half, [word, row]))?;
                if flush {
                    self.words(Word::Flush, word, &[word])?;
                }
                list.push(word);
            }
        }
        let (low, high) = (self.new_word(f, &low)?, self.new_word(f, &high)?);
        self.finish_single(low, flush, false)?;
        self.finish_single(high, flush, false)?;
        self.emit(Op::Widen(Widen::Pack, [d, low, high, 0]))
    }

    fn half(&mut self, name: &str, ty: Type, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let pair = ty.bits() == 32;
        let brain = matches!(ty, Type::BF16 | Type::BF16x2);
        let element = if brain { Type::BF16 } else { Type::F(16) };
        let d = self.result(&ops[0], ty.bits())?;
        let mut rows = Vec::new();
        for op in &ops[1..] {
            rows.push(self.word(op, ty)?);
        }
        if let "abs" | "neg" = name {
            // Signs are flipped and cleared, whatever the number.
            m.take("ftz");
            let (f, bits) = if name == "abs" { (Word::And, 0x7FFF_7FFF) } else { (Word::Xor, 0x8000_8000) };
            let bits = self.word_constant(if pair { bits } else { bits & 0xFFFF });
            return self.words(f, d, &[rows[0], bits]);
        }
        if let "min" | "max" = name {
            m.take("ftz");
            let f = match (name, m.take("NaN")) {
                ("min", false) => Word::FMin,
                ("min", true) => Word::FMinNan,
                (_, false) => Word::FMax,
                (_, true) => Word::FMaxNan,
            };
            let (from, pack) = if brain { (Word::FromBrain, Word::PackBrain) } else { (Word::FromHalf, Word::PackHalf) };
            let (a, b) = (self.new_word(from, &rows[..1])?, self.new_word(from, &rows[1..2])?);
            let low = self.new_word(f, &[a, b])?;
            if !pair {
                return self.words(if brain { Word::ToBrain } else { Word::ToHalf }, d, &[low]);
            }
            let (a, b) = (self.new_word(Word::High16, &rows[..1])?, self.new_word(Word::High16, &rows[1..2])?);
            let (a, b) = (self.new_word(from, &[a])?, self.new_word(from, &[b])?);
            let high = self.new_word(f, &[a, b])?;
            return self.words(pack, d, &[high, low]);
        }
        let what = match name {
            "add" => Exact::Add,
            "sub" => Exact::Sub,
            "mul" => Exact::Mul,
            "fma" => Exact::Fma,
            _ => return Err(m.unknown()),
        };
        m.take("rn");
        let at = |i: usize| rows.get(i).copied().unwrap_or(0);
        self.emit(Op::Rounded(Box::new(Rounded {
            what,
            ty: element,
            pair,
            rounding: Rounding::Even,
            saturate: m.take("sat"),
            relu: m.take("relu"),
            flush: m.take("ftz"),
            rows: [d, at(0), at(1), at(2)],
        })))
    }

    /// `rcp`, `sqrt`, `rsqrt`, `sin`, `cos`, `lg2`, `ex2`, `tanh`, `copysign`, `testp`.
    pub(super) fn function_of_float(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let ty = m.ty()?;
        self.expect(ops, if name == "copysign" { 3 } else { 2 })?;
        match (name, ty) {
            ("copysign", Type::F(32)) => {
                let d = self.result(&ops[0], 32)?;
                let (sign, value) = (self.word(&ops[1], ty)?, self.word(&ops[2], ty)?);
                self.words(Word::FCopysign, d, &[value, sign])
            }
            ("copysign", Type::F(64)) => {
                let d = self.result(&ops[0], 64)?;
                let (sign, value) = (self.double(&ops[1], ty)?, self.double(&ops[2], ty)?);
                self.doubles(Double::FCopysign, d, &[value, sign])
            }
            ("testp", Type::F(32 | 64)) => self.test_property(ty, m, ops),
            ("rcp" | "sqrt", Type::F(64)) if !m.take("approx") => {
                m.take("rn");
                let (d, a) = (self.result(&ops[0], 64)?, self.double(&ops[1], ty)?);
                self.doubles(if name == "rcp" { Double::FRcp } else { Double::FSqrt }, d, &[a])
            }
            ("rcp" | "rsqrt", Type::F(64)) => {
                m.take("approx");
                let flush = m.take("ftz");
                if name == "rcp" && !flush {
                    return Err(m.unknown());
                }
                let (d, a) = (self.result(&ops[0], 64)?, self.double(&ops[1], ty)?);
                self.emit(Op::Approx(if name == "rcp" { Approx::RcpDouble } else { Approx::RsqrtDouble }, [d, a, 0]))
            }
            (_, Type::F(32)) => self.function_of_single(name, m, ops),
            ("ex2" | "tanh", Type::F(16) | Type::BF16 | Type::F16x2 | Type::BF16x2) => self.function_of_half(name, ty, m, ops),
            _ => Err(m.unknown()),
        }
    }

    fn function_of_single(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let flush = m.take("ftz");
        let d = self.result(&ops[0], 32)?;
        let a = self.flushed(&ops[1], flush)?;
        if m.take("approx") {
            let f = match name {
                "rcp" => Approx::Rcp,
                "sqrt" => Approx::Sqrt,
                "rsqrt" => Approx::Rsqrt,
                "sin" => Approx::Sin,
                "cos" => Approx::Cos,
                "lg2" => Approx::Lg2,
                "ex2" => Approx::Ex2,
                "tanh" => Approx::Tanh,
                _ => return Err(m.unknown()),
            };
            self.emit(Op::Approx(f, [d, a, 0]))?;
            return self.finish_single(d, flush, false);
        }
        let one = self.word_constant(1f32.to_bits());
        match (name, m.rounding()) {
            ("rcp", Some(Rounding::Even)) => self.words(Word::FRcp, d, &[a])?,
            ("sqrt", Some(Rounding::Even)) => self.words(Word::FSqrt, d, &[a])?,
            ("rcp", Some(rounding)) => self.rounded(Exact::Div, Type::F(32), false, rounding, d, &[one, a])?,
            ("sqrt", Some(rounding)) => self.rounded(Exact::Sqrt, Type::F(32), false, rounding, d, &[a])?,
            _ => return Err(m.unknown()),
        }
        self.finish_single(d, flush, false)
    }

    fn function_of_half(&mut self, name: &str, ty: Type, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        if !m.take("approx") {
            return Err(m.unknown());
        }
        m.take("ftz");
        let f = match (name, matches!(ty, Type::BF16 | Type::BF16x2)) {
            ("ex2", false) => Approx::Ex2Half,
            ("ex2", true) => Approx::Ex2Brain,
            (_, false) => Approx::TanhHalf,
            (_, true) => Approx::TanhBrain,
        };
        let d = self.result(&ops[0], ty.bits())?;
        let a = self.word(&ops[1], ty)?;
        if ty.bits() == 16 {
            return self.emit(Op::Approx(f, [d, a, 0]));
        }
        let (low, high) = (self.new_word(Word::Low16, &[a])?, self.new_word(Word::High16, &[a])?);
        self.emit(Op::Approx(f, [low, low, 0]))?;
        self.emit(Op::Approx(f, [high, high, 0]))?;
        self.words(Word::Pack16, d, &[low, high])
    }

    fn test_property(&mut self, ty: Type, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let Some((compare, with_infinity)) = m.one_of(&[
            ("number", (Compare::Num, false)),
            ("notanumber", (Compare::Nan, false)),
            ("finite", (Compare::FLt, true)),
            ("infinite", (Compare::FEq, true)),
        ]) else {
            return Err(m.unknown());
        };
        let d = self.result(&ops[0], 1)?;
        let a = self.any(&ops[1], ty)?;
        if ty.bits() == 32 {
            let a = self.new_word(Word::FAbs, &[a])?;
            let b = if with_infinity { self.word_constant(f32::INFINITY.to_bits()) } else { a };
            self.emit(Op::CompareWord(compare, [d, a, b]))
        } else {
            let positive = self.spare_double();
            self.doubles(Double::FAbs, positive, &[a])?;
            let b = if with_infinity { self.double_constant(f64::INFINITY.to_bits()) } else { positive };
            self.emit(Op::CompareDouble(compare, [d, positive, b]))
        }
    }

    /// `d = a ? …` of predicates with a combination: `setp`'s last step.
    pub(super) fn combine(&mut self, logic: Logic, d: Row, a: Row, b: Row) -> Result<()> {
        self.emit(Op::Logic(logic, [d, a, b]))
    }
}
