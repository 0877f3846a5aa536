//! A module: its entries, decoded, and its variables in memory.

use crate::code::Code;
use crate::decode::decode;
use crate::error::Error;
use crate::memory::Range;
use crate::parser;
use crate::syntax::{Initial, Space, Text, Type};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// 64 bytes of variables.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// An entry.
#[derive(Debug)]
pub struct Entry {
    pub(crate) name: String,
    pub(crate) params: Vec<u32>,
    pub(crate) required: Option<[u32; 3]>,
    pub(crate) most: Option<u32>,
    pub(crate) code: Code,
}

impl Entry {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The bytes of each of its parameters.
    pub fn params(&self) -> &[u32] {
        &self.params
    }
    /// Threads of a block in each direction, where the entry demands them.
    pub fn required_block(&self) -> Option<[u32; 3]> {
        self.required
    }
    /// Bytes of shared memory that it declares.
    pub fn static_shared(&self) -> u64 {
        self.code.shared_bytes
    }
}

/// A parsed module.
#[derive(Debug)]
pub struct Module {
    version: (u64, u64),
    target: String,
    entries: Vec<Entry>,
    _memory: Vec<Line>,
    pub(crate) ranges: Vec<Range>,
}

impl Module {
    /// Reads a module's text.
    ///
    /// # Errors
    /// What is not PTX, or not known, with its line.
    pub fn parse(text: &str) -> Result<Module, Error> {
        let text = parser::parse(text)?;
        let (memory, ranges, globals) = place(&text)?;
        let mut entries = Vec::new();
        for f in text.functions.iter().filter(|f| f.entry) {
            let code = decode(&text, f, &globals)?;
            let params = f.params.iter().map(|p| p.bytes() as u32).collect();
            entries.push(Entry { name: f.name.to_string(), params, required: f.required, most: f.most, code });
        }
        Ok(Module { version: text.version, target: text.target.to_string(), entries, _memory: memory, ranges })
    }
    /// Its entries, in the order of the text.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
    /// The entry of that name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }
    /// `.version`.
    pub fn version(&self) -> (u64, u64) {
        self.version
    }
    /// `.target`.
    pub fn target(&self) -> &str {
        &self.target
    }
}

/// Gives the module's variables their memory and initial values.
fn place<'a>(text: &Text<'a>) -> Result<(Vec<Line>, Vec<Range>, FxHashMap<&'a str, u64>), Error> {
    let variables: Vec<_> = text.variables.iter().filter(|v| matches!(v.space, Space::Global | Space::Const) && !v.external).collect();
    let mut offsets = Vec::new();
    let mut end = 0u64;
    for v in &variables {
        if v.align > 64 && v.align % 64 != 0 {
            return Err(Error::new(v.line, format!("the alignment of `{}` is not known to this emulator", v.name)));
        }
        let offset = end.next_multiple_of(u64::from(v.align.clamp(1, 64)));
        offsets.push(offset);
        end = offset.checked_add(v.bytes()).filter(|e| *e < 1 << 32).ok_or_else(|| Error::new(v.line, format!("`{}` is too large", v.name)))?;
    }
    let memory: Vec<Line> = (0..end.div_ceil(64)).map(|_| Line::default()).collect();
    let base = memory.as_ptr().expose_provenance() as u64;
    let globals: FxHashMap<&str, u64> = variables.iter().zip(&offsets).map(|(v, o)| (v.name, base + o)).collect();
    let mut ranges = Vec::new();
    for (v, &offset) in variables.iter().zip(&offsets) {
        for (i, value) in v.initial.iter().enumerate() {
            let bits = match *value {
                Initial::Int(n) => n,
                Initial::Single(n) if v.ty != Type::F(64) => u64::from(n),
                Initial::Single(n) => f64::from(f32::from_bits(n)).to_bits(),
                Initial::Double(n) if v.ty == Type::F(32) => u64::from((f64::from_bits(n) as f32).to_bits()),
                Initial::Double(n) => n,
                Initial::Symbol(name) => {
                    *globals.get(name).ok_or_else(|| Error::new(v.line, format!("`{name}` in the initial value of `{}` is no variable", v.name)))?
                }
            };
            let width = u64::from(v.ty.bytes());
            for byte in 0..width {
                let at = offset + i as u64 * width + byte;
                if at >= offset + v.bytes() {
                    return Err(Error::new(v.line, format!("`{}` has more initial values than elements", v.name)));
                }
                let (cell, shift) = (&memory[(at / 64) as usize].0[(at % 64 / 8) as usize], at % 8 * 8);
                cell.fetch_or((bits >> (8 * byte) & 0xFF) << shift, Ordering::Relaxed);
            }
        }
        ranges.push(Range { name: v.name.to_string(), start: base + offset, bytes: v.bytes(), writable: v.space == Space::Global, written: None });
    }
    Ok((memory, ranges, globals))
}
