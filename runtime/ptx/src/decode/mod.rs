//! A function's text to [`Code`]: rows for registers, micro-instructions, functions inlined, branch targets.
//!
//! One file a family of instructions. Each takes its modifiers and operands; what it does not take is an error that names it and its line.

mod control;
mod convert;
mod float;
mod integer;
mod memory;
mod modifiers;
mod operand;

use crate::code::{Code, Instr, NOWHERE, Op, Reg, Row, Special};
use crate::error::Error;
use crate::flow;
use crate::syntax::{Function, Instruction, Space, Statement, Text, Type};
use modifiers::Modifiers;
use rustc_hash::FxHashMap;

type Result<T> = std::result::Result<T, Error>;

/// Functions inside functions; recursion is refused by it.
const DEEPEST_CALL: usize = 32;
/// Micro-instructions of an entry.
const MOST_INSTRUCTIONS: usize = 1 << 22;

/// What a name stands for.
#[derive(Clone, Debug)]
enum Symbol<'a> {
    Register(Reg),
    /// `%r<n>`: any of `n` registers of that type.
    Registers(Type, u32),
    Shared(u64),
    Local(u64),
    /// The argument of an entry.
    Argument(u32, u32),
    /// A parameter of a call: number of its cells.
    Cell(usize),
    Targets(&'a [&'a str]),
}

/// A function that is being decoded into its caller.
struct Frame<'a> {
    labels: FxHashMap<&'a str, u32>,
    /// Branches to be resolved: the instruction, which of its targets, the label, the line.
    fixups: Vec<(usize, usize, &'a str, u32)>,
    /// Branches to the end.
    returns: Vec<usize>,
    entry: bool,
}

pub(crate) struct Decoder<'a> {
    text: &'a Text<'a>,
    globals: &'a FxHashMap<&'a str, u64>,
    code: Code,
    scopes: Vec<FxHashMap<&'a str, Symbol<'a>>>,
    frames: Vec<Frame<'a>>,
    /// Parameters of calls: the register of each offset.
    cells: Vec<FxHashMap<u32, Reg>>,
    word_rows: FxHashMap<u32, Row>,
    double_rows: FxHashMap<u64, Row>,
    special_rows: FxHashMap<Special, Row>,
    argument_rows: FxHashMap<crate::code::Argument, Row>,
    /// Rows for what lies between the micro-instructions of one instruction, and how many are in use.
    spare_words: (Vec<Row>, usize),
    spare_doubles: (Vec<Row>, usize),
    spare_predicates: (Vec<Row>, usize),
    guard: Option<(Row, bool)>,
    line: u32,
    first: bool,
    /// Whether the place of the launch's shared memory has been used.
    dynamic_used: bool,
}

/// Decodes an entry.
pub(crate) fn decode<'a>(text: &'a Text<'a>, function: &'a Function<'a>, globals: &'a FxHashMap<&'a str, u64>) -> Result<Code> {
    let mut decoder = Decoder {
        text,
        globals,
        code: Code::default(),
        scopes: vec![FxHashMap::default()],
        frames: Vec::new(),
        cells: Vec::new(),
        word_rows: FxHashMap::default(),
        double_rows: FxHashMap::default(),
        special_rows: FxHashMap::default(),
        argument_rows: FxHashMap::default(),
        spare_words: Default::default(),
        spare_doubles: Default::default(),
        spare_predicates: Default::default(),
        guard: None,
        line: function.line,
        first: true,
        dynamic_used: false,
    };
    // Row 0 of each bank is never a result, so that unused operands may name it.
    decoder.word_constant(0);
    decoder.double_constant(0);
    decoder.code.predicates = 1;
    decoder.code.predicate_constants.push((0, u32::MAX));
    decoder.declare_shared(text)?;
    for (i, p) in function.params.iter().enumerate() {
        if p.bytes() > 8 {
            return Err(Error::new(p.line, format!("the parameter `{}` of {} bytes is not known to this emulator: arguments are numbers", p.name, p.bytes())));
        }
        decoder.scopes[0].insert(p.name, Symbol::Argument(i as u32, p.bytes() as u32));
    }
    decoder.frame(function, true)?;
    decoder.line = function.line;
    decoder.guard = None;
    decoder.emit(Op::Exit)?;
    let mut code = decoder.code;
    code.dynamic_offset = code.dynamic_offset.max(code.shared_bytes).next_multiple_of(16);
    flow::meet(&mut code.instructions);
    Ok(code)
}

impl<'a> Decoder<'a> {
    fn error(&self, message: impl Into<String>) -> Error {
        Error::new(self.line, message)
    }

    fn emit(&mut self, op: Op) -> Result<()> {
        if self.code.instructions.len() >= MOST_INSTRUCTIONS {
            return Err(self.error("this entry has too many instructions"));
        }
        self.code.instructions.push(Instr { op, guard: self.guard, line: self.line, first: std::mem::take(&mut self.first) });
        Ok(())
    }

    fn declare_shared(&mut self, text: &'a Text<'a>) -> Result<()> {
        for v in text.variables.iter().filter(|v| v.space == Space::Shared && !v.external) {
            self.shared_variable(v)?;
        }
        for v in text.variables.iter().filter(|v| v.space == Space::Shared && v.external) {
            // All of them begin where the launch's shared memory does, behind the last that is declared with a size.
            self.scopes[0].insert(v.name, Symbol::Shared(u64::MAX));
        }
        Ok(())
    }

    fn shared_variable(&mut self, v: &'a crate::syntax::Variable<'a>) -> Result<()> {
        if self.dynamic_used {
            return Err(self.error(format!("`{}` is declared after shared memory of unknown size was used", v.name)));
        }
        let offset = self.code.shared_bytes.next_multiple_of(u64::from(v.align.max(1)));
        let end = offset.checked_add(v.bytes()).filter(|e| *e < 1 << 31).ok_or_else(|| self.error(format!("`{}` is too large", v.name)))?;
        self.code.shared.push((v.name.to_string(), offset, v.bytes()));
        self.code.shared_bytes = end;
        self.scope().insert(v.name, Symbol::Shared(offset));
        Ok(())
    }

    fn scope(&mut self) -> &mut FxHashMap<&'a str, Symbol<'a>> {
        self.scopes.last_mut().expect("invariant: the outermost scope stays")
    }

    /// Decodes a body in a new frame; branches of it are resolved when it ends.
    fn frame(&mut self, function: &'a Function<'a>, entry: bool) -> Result<()> {
        self.frames.push(Frame { labels: FxHashMap::default(), fixups: Vec::new(), returns: Vec::new(), entry });
        // Shared variables of a body are placed first, so that what comes with the launch has one place.
        for s in &function.body {
            if let Statement::Variable(v) = s
                && v.space == Space::Shared
                && !v.external
            {
                self.line = v.line;
                self.shared_variable(v)?;
            }
        }
        for statement in &function.body {
            self.statement(statement)?;
        }
        let frame = self.frames.pop().expect("invariant: pushed above");
        let end = self.code.instructions.len() as u32;
        for (at, which, label, line) in frame.fixups {
            let to = *frame.labels.get(label).ok_or_else(|| Error::new(line, format!("the label `{label}` is nowhere")))?;
            match &mut self.code.instructions[at].op {
                Op::Branch { target, .. } => *target = to,
                Op::Switch { targets, .. } => targets[which] = to,
                _ => unreachable!("only branches have labels"),
            }
        }
        for at in frame.returns {
            if let Op::Branch { target, .. } = &mut self.code.instructions[at].op {
                *target = end;
            }
        }
        Ok(())
    }

    fn statement(&mut self, statement: &'a Statement<'a>) -> Result<()> {
        match statement {
            Statement::Open => self.scopes.push(FxHashMap::default()),
            Statement::Close => {
                self.scopes.pop();
            }
            Statement::Label(name) => {
                let at = self.code.instructions.len() as u32;
                self.frames.last_mut().expect("invariant: a body has a frame").labels.insert(name, at);
            }
            Statement::Targets(name, targets) => {
                self.scope().insert(name, Symbol::Targets(targets));
            }
            Statement::Variable(v) => {
                self.line = v.line;
                self.variable(v)?;
            }
            Statement::Instruction(i) => self.instruction(i)?,
        }
        Ok(())
    }

    fn variable(&mut self, v: &'a crate::syntax::Variable<'a>) -> Result<()> {
        match (v.space, v.count) {
            (Space::Reg, Some(n)) => {
                self.scope().insert(v.name, Symbol::Registers(v.ty, n));
            }
            (Space::Reg, None) => {
                let register = self.register(v.ty);
                self.scope().insert(v.name, Symbol::Register(register));
            }
            (Space::Param, _) => {
                self.cells.push(FxHashMap::default());
                let cell = self.cells.len() - 1;
                self.scope().insert(v.name, Symbol::Cell(cell));
            }
            (Space::Local, _) => {
                let offset = self.code.local_bytes.next_multiple_of(u64::from(v.align.max(1)));
                self.code.local_bytes = offset + v.bytes();
                if self.code.local_bytes > 1 << 20 {
                    return Err(self.error(format!("`{}` is too large: a thread has 1 MiB", v.name)));
                }
                self.scope().insert(v.name, Symbol::Local(offset));
            }
            (Space::Shared, _) if v.external => {
                self.scope().insert(v.name, Symbol::Shared(u64::MAX));
            }
            (Space::Shared, _) => {}
            _ => return Err(self.error(format!("`{}` is declared in a space that bodies do not have here", v.name))),
        }
        Ok(())
    }

    fn register(&mut self, ty: Type) -> Reg {
        let row = match ty.bits() {
            1 => &mut self.code.predicates,
            64 => &mut self.code.doubles,
            _ => &mut self.code.words,
        };
        *row += 1;
        Reg { row: *row - 1, bits: ty.bits() }
    }

    fn instruction(&mut self, i: &'a Instruction<'a>) -> Result<()> {
        self.line = i.line;
        self.first = true;
        (self.spare_words.1, self.spare_doubles.1, self.spare_predicates.1) = (0, 0, 0);
        self.guard = None;
        if let Some((name, negated)) = i.guard {
            let register = self.named(name)?;
            if register.bits != 1 {
                return Err(self.error(format!("`{name}` guards and is no predicate")));
            }
            self.guard = Some((register.row, negated));
        }
        let (name, mut m) = Modifiers::of(i.opcode, i.line);
        let ops = &i.operands[..];
        match name {
            "mov" | "cvta" | "cvt" => self.convert(name, &mut m, ops)?,
            "ld" | "ldu" | "st" | "atom" | "red" => self.memory(name, &mut m, ops)?,
            "bra" | "brx" | "ret" | "exit" | "call" | "bar" | "barrier" | "shfl" | "vote" | "activemask" | "redux" | "membar" | "fence" | "trap" => {
                self.control(name, &mut m, ops)?;
            }
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "min" | "max" | "abs" | "neg" => self.arithmetic(name, &mut m, ops)?,
            "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh" | "copysign" | "testp" => self.function_of_float(name, &mut m, ops)?,
            _ => self.integer(name, &mut m, ops)?,
        }
        m.finish()
    }

    fn branch(&mut self, label: &'a str) -> Result<()> {
        let at = self.code.instructions.len();
        self.emit(Op::Branch { target: 0, meet: NOWHERE })?;
        let line = self.line;
        self.frames.last_mut().expect("invariant: a body has a frame").fixups.push((at, 0, label, line));
        Ok(())
    }
}
