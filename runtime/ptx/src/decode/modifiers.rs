//! An opcode taken apart: every modifier is taken by the instruction that knows it, and one that is left over is an error naming it.

use crate::code::Rounding;
use crate::error::Error;
use crate::syntax::Type;

/// The modifiers of an instruction, in order.
pub(crate) struct Modifiers<'a> {
    opcode: &'a str,
    parts: Vec<&'a str>,
    line: u32,
}

impl<'a> Modifiers<'a> {
    /// The instruction's name, and its modifiers.
    pub(crate) fn of(opcode: &'a str, line: u32) -> (&'a str, Modifiers<'a>) {
        let mut parts = opcode.split('.');
        let name = parts.next().unwrap_or_default();
        (name, Modifiers { opcode, parts: parts.collect(), line })
    }
    /// Takes a modifier if it is there.
    pub(crate) fn take(&mut self, modifier: &str) -> bool {
        match self.parts.iter().position(|p| *p == modifier) {
            Some(i) => {
                self.parts.remove(i);
                true
            }
            None => false,
        }
    }
    /// Takes the first of these that is there.
    pub(crate) fn one_of<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        let i = self.parts.iter().position(|p| table.iter().any(|(n, _)| n == p))?;
        let part = self.parts.remove(i);
        table.iter().find(|(n, _)| *n == part).map(|t| t.1)
    }
    /// Takes the next modifier that is a type.
    pub(crate) fn ty(&mut self) -> Result<Type, Error> {
        let i = self.parts.iter().position(|p| Type::named(p).is_some());
        match i {
            Some(i) => Ok(Type::named(self.parts.remove(i)).expect("invariant: it was found by its name")),
            None => Err(self.unknown()),
        }
    }
    /// Takes a rounding mode for floats.
    pub(crate) fn rounding(&mut self) -> Option<Rounding> {
        self.one_of(&[("rn", Rounding::Even), ("rz", Rounding::Zero), ("rm", Rounding::Down), ("rp", Rounding::Up), ("rna", Rounding::Away)])
    }
    /// Takes a rounding mode to integers.
    pub(crate) fn integral(&mut self) -> Option<Rounding> {
        self.one_of(&[("rni", Rounding::Even), ("rzi", Rounding::Zero), ("rmi", Rounding::Down), ("rpi", Rounding::Up)])
    }
    /// The instruction as a whole is not known.
    pub(crate) fn unknown(&self) -> Error {
        Error::new(self.line, format!("the instruction `{}` is not known to this emulator", self.opcode))
    }
    /// All modifiers must have been taken.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        match self.parts.first() {
            None => Ok(()),
            Some(p) => Err(Error::new(self.line, format!("the modifier `.{p}` of `{}` is not known to this emulator", self.opcode))),
        }
    }
}
