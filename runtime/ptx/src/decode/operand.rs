//! Operands to rows: registers, constants, special registers, and the rows between micro-instructions.

use super::{Decoder, Result, Symbol};
use crate::code::{Argument, Double, Logic, Op, Reg, Row, Special, Word};
use crate::syntax::{Operand, Type};

impl<'a> Decoder<'a> {
    pub(super) fn expect(&self, ops: &[Operand<'a>], count: usize) -> Result<()> {
        if ops.len() == count { Ok(()) } else { Err(self.error(format!("{} operands are given and {count} are needed", ops.len()))) }
    }

    pub(super) fn lookup(&self, name: &str) -> Option<&Symbol<'a>> {
        self.scopes.iter().rev().find_map(|s| s.get(name))
    }

    /// The register of that name.
    pub(super) fn named(&mut self, name: &'a str) -> Result<Reg> {
        if let Some(Symbol::Register(r)) = self.lookup(name) {
            return Ok(*r);
        }
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (stem, number) = name.split_at(name.len() - digits);
        if digits > 0 && digits < 10 {
            let number: u32 = number.parse().map_err(|_| self.error(format!("`{name}` is no register")))?;
            for level in (0..self.scopes.len()).rev() {
                if let Some(Symbol::Registers(ty, count)) = self.scopes[level].get(stem) {
                    let (ty, count) = (*ty, *count);
                    if number >= count {
                        return Err(self.error(format!("`{name}` is not declared: `{stem}` has {count} registers")));
                    }
                    let register = self.register(ty);
                    self.scopes[level].insert(name, Symbol::Register(register));
                    return Ok(register);
                }
            }
        }
        Err(self.error(format!("`{name}` is not declared")))
    }

    fn of_width(&self, register: Reg, bits: u8, name: &str) -> Result<Row> {
        if register.bits == bits { Ok(register.row) } else { Err(self.error(format!("`{name}` has {} bits and {bits} are needed", register.bits))) }
    }

    /// A result of `bits` bits.
    pub(super) fn result(&mut self, op: &Operand<'a>, bits: u8) -> Result<Row> {
        match op {
            Operand::Name("_") => Ok(match bits {
                64 => self.spare_double(),
                1 => self.spare_predicate(),
                _ => self.spare_word(),
            }),
            Operand::Name(name) => {
                let register = self.named(name)?;
                self.of_width(register, bits, name)
            }
            _ => Err(self.error("a result is no register")),
        }
    }

    /// The bits of an immediate as that type.
    pub(super) fn immediate(&self, op: &Operand<'a>, ty: Type) -> Option<u64> {
        let bits = match (op, ty) {
            (Operand::Int(v), Type::F(32)) => u64::from((*v as i64 as f32).to_bits()),
            (Operand::Int(v), Type::F(64)) => (*v as i64 as f64).to_bits(),
            (Operand::Int(v), _) => *v,
            (Operand::Single(v), Type::F(64)) => f64::from(f32::from_bits(*v)).to_bits(),
            (Operand::Single(v), _) => u64::from(*v),
            (Operand::Double(v), Type::F(32)) => u64::from((f64::from_bits(*v) as f32).to_bits()),
            (Operand::Double(v), _) => *v,
            _ => return None,
        };
        Some(match ty.bits() {
            64 => bits,
            n => bits & ((1 << n) - 1),
        })
    }

    /// An operand of a type that words hold.
    pub(super) fn word(&mut self, op: &Operand<'a>, ty: Type) -> Result<Row> {
        if let Some(v) = self.immediate(op, ty) {
            return Ok(self.word_constant(v as u32));
        }
        match op {
            Operand::Name(name) => {
                if let Some(row) = self.special(name)? {
                    return Ok(row);
                }
                if let Some(address) = self.address_of(name, 0)? {
                    return Ok(self.word_constant(address as u32));
                }
                let register = self.named(name)?;
                self.of_width(register, ty.bits(), name)
            }
            Operand::Offset(name, offset) => match self.address_of(name, *offset)? {
                Some(address) => Ok(self.word_constant(address as u32)),
                None => Err(self.error(format!("`{name}` is no variable"))),
            },
            _ => Err(self.error("an operand is neither a register nor a number")),
        }
    }

    /// An operand of a 64-bit type.
    pub(super) fn double(&mut self, op: &Operand<'a>, ty: Type) -> Result<Row> {
        if let Some(v) = self.immediate(op, ty) {
            return Ok(self.double_constant(v));
        }
        match op {
            Operand::Name(name) => {
                if let Some(address) = self.address_of(name, 0)? {
                    return Ok(self.double_constant(address));
                }
                let register = self.named(name)?;
                self.of_width(register, 64, name)
            }
            Operand::Offset(name, offset) => match self.address_of(name, *offset)? {
                Some(address) => Ok(self.double_constant(address)),
                None => Err(self.error(format!("`{name}` is no variable"))),
            },
            _ => Err(self.error("an operand is neither a register nor a number")),
        }
    }

    /// An operand of either bank.
    pub(super) fn any(&mut self, op: &Operand<'a>, ty: Type) -> Result<Row> {
        if ty.bits() == 64 { self.double(op, ty) } else { self.word(op, ty) }
    }

    /// A predicate, and whether it is negated.
    pub(super) fn predicate(&mut self, op: &Operand<'a>) -> Result<(Row, bool)> {
        let (name, negated) = match op {
            Operand::Name(name) => (name, false),
            Operand::Not(name) => (name, true),
            Operand::Int(v) => {
                return Ok((0, *v == 0));
            }
            _ => return Err(self.error("a predicate is needed")),
        };
        let register = self.named(name)?;
        Ok((self.of_width(register, 1, name)?, negated))
    }

    /// A predicate as a row of its own.
    pub(super) fn plain_predicate(&mut self, op: &Operand<'a>) -> Result<Row> {
        let (row, negated) = self.predicate(op)?;
        if !negated {
            return Ok(row);
        }
        let spare = self.spare_predicate();
        self.emit(Op::Logic(Logic::Not, [spare, row, row]))?;
        Ok(spare)
    }

    /// What a variable's name means as a number: an offset in its space, or an address.
    pub(super) fn address_of(&mut self, name: &str, offset: i64) -> Result<Option<u64>> {
        let base = match self.lookup(name) {
            Some(Symbol::Shared(u64::MAX)) => {
                // Known once all variables with a size are: bodies declare theirs first, and functions that are inlined later are refused theirs.
                self.dynamic_used = true;
                self.code.dynamic_offset = self.code.dynamic_offset.max(self.code.shared_bytes).next_multiple_of(16);
                self.code.dynamic_offset
            }
            Some(Symbol::Shared(o) | Symbol::Local(o)) => *o,
            Some(Symbol::Argument(..) | Symbol::Cell(_)) => {
                return Err(self.error(format!("the address of the parameter `{name}` is taken, which this emulator does not know")));
            }
            Some(_) => return Ok(None),
            None => match self.globals.get(name) {
                Some(address) => *address,
                None => return Ok(None),
            },
        };
        Ok(Some(base.wrapping_add(offset as u64)))
    }

    fn special(&mut self, name: &str) -> Result<Option<Row>> {
        let axis = |suffix: &str| ["x", "y", "z"].iter().position(|a| *a == suffix).map(|i| i as u8);
        let special = match name.split_once('.') {
            Some(("%tid", a)) => axis(a).map(Special::Tid),
            Some(("%ntid", a)) => axis(a).map(Special::Ntid),
            Some(("%ctaid", a)) => axis(a).map(Special::Ctaid),
            Some(("%nctaid", a)) => axis(a).map(Special::Nctaid),
            _ => match name {
                "%laneid" => Some(Special::Lane),
                "%warpid" => Some(Special::Warp),
                "%nwarpid" => Some(Special::Warps),
                "%lanemask_eq" => Some(Special::MaskEq),
                "%lanemask_lt" => Some(Special::MaskLt),
                "%lanemask_le" => Some(Special::MaskLe),
                "%lanemask_gt" => Some(Special::MaskGt),
                "%lanemask_ge" => Some(Special::MaskGe),
                "%dynamic_smem_size" => Some(Special::DynamicShared),
                "%total_smem_size" => Some(Special::TotalShared),
                "WARP_SZ" => return Ok(Some(self.word_constant(32))),
                _ => None,
            },
        };
        let Some(special) = special else { return Ok(None) };
        if let Some(row) = self.special_rows.get(&special) {
            return Ok(Some(*row));
        }
        let row = self.register(Type::B(32)).row;
        self.special_rows.insert(special, row);
        self.code.specials.push((special, row));
        Ok(Some(row))
    }

    /// The row of (part of) an argument.
    pub(super) fn argument(&mut self, argument: Argument) -> Row {
        if let Some(row) = self.argument_rows.get(&argument) {
            return *row;
        }
        let row = self.register(Type::B(if argument.wide { 64 } else { 32 })).row;
        self.argument_rows.insert(argument, row);
        self.code.arguments.push((argument, row));
        row
    }

    pub(super) fn word_constant(&mut self, value: u32) -> Row {
        if let Some(row) = self.word_rows.get(&value) {
            return *row;
        }
        let row = self.register(Type::B(32)).row;
        self.word_rows.insert(value, row);
        self.code.word_constants.push((row, value));
        row
    }

    pub(super) fn double_constant(&mut self, value: u64) -> Row {
        if let Some(row) = self.double_rows.get(&value) {
            return *row;
        }
        let row = self.register(Type::B(64)).row;
        self.double_rows.insert(value, row);
        self.code.double_constants.push((row, value));
        row
    }

    pub(super) fn spare_word(&mut self) -> Row {
        if self.spare_words.1 == self.spare_words.0.len() {
            let row = self.register(Type::B(32)).row;
            self.spare_words.0.push(row);
        }
        self.spare_words.1 += 1;
        self.spare_words.0[self.spare_words.1 - 1]
    }

    pub(super) fn spare_double(&mut self) -> Row {
        if self.spare_doubles.1 == self.spare_doubles.0.len() {
            let row = self.register(Type::B(64)).row;
            self.spare_doubles.0.push(row);
        }
        self.spare_doubles.1 += 1;
        self.spare_doubles.0[self.spare_doubles.1 - 1]
    }

    pub(super) fn spare_predicate(&mut self) -> Row {
        if self.spare_predicates.1 == self.spare_predicates.0.len() {
            let row = self.register(Type::Pred).row;
            self.spare_predicates.0.push(row);
        }
        self.spare_predicates.1 += 1;
        self.spare_predicates.0[self.spare_predicates.1 - 1]
    }

    /// `d = f(a, b, c)` of words.
    pub(super) fn words(&mut self, f: Word, d: Row, operands: &[Row]) -> Result<()> {
        let at = |i: usize| operands.get(i).copied().unwrap_or(0);
        self.emit(Op::Word(f, [d, at(0), at(1), at(2)]))
    }

    /// `f(a, b, c)` of words in a row of its own.
    pub(super) fn new_word(&mut self, f: Word, operands: &[Row]) -> Result<Row> {
        let spare = self.spare_word();
        self.words(f, spare, operands)?;
        Ok(spare)
    }

    /// `d = f(a, b, c)` of doubles.
    pub(super) fn doubles(&mut self, f: Double, d: Row, operands: &[Row]) -> Result<()> {
        let at = |i: usize| operands.get(i).copied().unwrap_or(0);
        self.emit(Op::Double(f, [d, at(0), at(1), at(2)]))
    }
}
