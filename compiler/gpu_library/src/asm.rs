//! An entry's PTX as it is written: registers by class, labels, and lines of text.

use std::fmt::{self, Display, Write as _};

/// Appends an instruction: the text of `format!`, without the semicolon.
macro_rules! asm {
    ($asm:expr, $($text:tt)*) => { $asm.line(format_args!($($text)*)) };
}
pub(crate) use asm;

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Predicate,
    Half,
    Word,
    Float,
    Long,
}

impl Class {
    const ALL: [(Class, &str, &str); 5] =
        [(Class::Predicate, "pred", "%p"), (Class::Half, "b16", "%h"), (Class::Word, "b32", "%r"), (Class::Float, "f32", "%f"), (Class::Long, "b64", "%d")];
}

/// A virtual register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reg(Class, u32);

impl Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Class::ALL[self.0 as usize].2, self.1)
    }
}

/// A place to branch to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(u32);

impl Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}", self.0)
    }
}

/// An `f32` as PTX writes it exactly.
pub(crate) struct Exactly(pub(crate) f32);

impl Display for Exactly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0f{:08X}", self.0.to_bits())
    }
}

/// Several registers as one vector operand.
pub(crate) struct Vector<'a>(pub(crate) &'a [Reg]);

impl Display for Vector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0 {
            return one.fmt(f);
        }
        let list: Vec<String> = self.0.iter().map(Reg::to_string).collect();
        write!(f, "{{{}}}", list.join(", "))
    }
}

/// The modifier of a vector access of `n` elements.
pub(crate) fn lanes(n: u32) -> &'static str {
    match n {
        2 => ".v2",
        4 => ".v4",
        _ => "",
    }
}

/// An entry that is being written.
#[derive(Debug, Default)]
pub(crate) struct Asm {
    text: String,
    counts: [u32; 5],
    labels: u32,
}

impl Asm {
    fn register(&mut self, class: Class) -> Reg {
        self.counts[class as usize] += 1;
        Reg(class, self.counts[class as usize] - 1)
    }
    pub(crate) fn predicate(&mut self) -> Reg {
        self.register(Class::Predicate)
    }
    pub(crate) fn half(&mut self) -> Reg {
        self.register(Class::Half)
    }
    pub(crate) fn word(&mut self) -> Reg {
        self.register(Class::Word)
    }
    pub(crate) fn float(&mut self) -> Reg {
        self.register(Class::Float)
    }
    pub(crate) fn long(&mut self) -> Reg {
        self.register(Class::Long)
    }
    pub(crate) fn floats(&mut self, n: u32) -> Vec<Reg> {
        (0..n).map(|_| self.float()).collect()
    }
    pub(crate) fn words(&mut self, n: u32) -> Vec<Reg> {
        (0..n).map(|_| self.word()).collect()
    }
    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "\t{text};");
    }
    pub(crate) fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }
    pub(crate) fn place(&mut self, label: Label) {
        let _ = writeln!(self.text, "{label}:");
    }
    /// A new word `a op b`, such as `add.u32`.
    pub(crate) fn binary(&mut self, op: &str, a: impl Display, b: impl Display) -> Reg {
        let d = self.word();
        asm!(self, "{op} {d}, {a}, {b}");
        d
    }
    /// A new word.
    pub(crate) fn constant(&mut self, value: impl Display) -> Reg {
        let d = self.word();
        asm!(self, "mov.u32 {d}, {value}");
        d
    }
    /// A parameter of the entry: an address.
    pub(crate) fn parameter(&mut self, number: usize) -> Reg {
        let d = self.long();
        asm!(self, "ld.param.u64 {d}, [p{number}]");
        d
    }
    /// Makes the number of a worker in its block, which has so many, its number among those of all blocks. Workers past `count` end.
    pub(crate) fn across_blocks(&mut self, worker: Reg, per_block: u32, count: u64) {
        let (block, inside, work) = (self.constant("%ctaid.x"), self.predicate(), self.label());
        asm!(self, "mad.lo.u32 {worker}, {block}, {per_block}, {worker}");
        asm!(self, "setp.lt.u32 {inside}, {worker}, {count}");
        asm!(self, "@{inside} bra {work}");
        asm!(self, "ret");
        self.place(work);
    }
    /// A new address `from + by · index`.
    pub(crate) fn advance(&mut self, from: Reg, index: Reg, by: u64) -> Reg {
        let d = self.long();
        asm!(self, "mad.wide.u32 {d}, {index}, {by}, {from}");
        d
    }
    /// `body` for `from`, `from + step`, … below `to`, which are not negative as `i32`. The counter is the body's argument.
    pub(crate) fn each(&mut self, from: impl Display, to: impl Display, step: u32, body: impl FnOnce(&mut Asm, Reg)) {
        let (i, more, top, end) = (self.constant(from), self.predicate(), self.label(), self.label());
        asm!(self, "setp.ge.s32 {more}, {i}, {to}");
        asm!(self, "@{more} bra {end}");
        self.place(top);
        body(self, i);
        asm!(self, "add.u32 {i}, {i}, {step}");
        asm!(self, "setp.lt.s32 {more}, {i}, {to}");
        asm!(self, "@{more} bra {top}");
        self.place(end);
    }
    /// `body(first)` for `first` in steps of `unroll` below `count`; what remains is written behind. The body is given by how much its counter is more than
    /// the register.
    pub(crate) fn unrolled(&mut self, count: u32, unroll: u32, mut body: impl FnMut(&mut Asm, Option<Reg>, u32)) {
        let whole = count / unroll;
        if whole > 1 {
            self.each(0, whole * unroll, unroll, |asm, i| (0..unroll).for_each(|k| body(asm, Some(i), k)));
            (whole * unroll..count).for_each(|k| body(self, None, k));
        } else {
            (0..count).for_each(|k| body(self, None, k));
        }
    }

    /// The entry's text. Its parameters are `p0`, `p1`, …. The assembler is told not to aim at more blocks on a multiprocessor: it would spill for them.
    pub(crate) fn finish(self, name: &str, parameters: usize, threads: u32) -> String {
        let list: Vec<String> = (0..parameters).map(|i| format!("\t.param .u64 p{i}")).collect();
        let mut text = format!(".visible .entry {name}(\n{}\n)\n.maxntid {threads}, 1, 1\n.minnctapersm 1\n{{\n", list.join(",\n"));
        for (class, ty, stem) in Class::ALL {
            let n = self.counts[class as usize];
            if n > 0 {
                let _ = writeln!(text, "\t.reg .{ty} {stem}<{n}>;");
            }
        }
        text + &self.text + "\tret;\n}\n"
    }
}
