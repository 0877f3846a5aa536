//! A module as its text has it: names and opcodes are slices of the text, nothing is looked up yet.

/// A state space that variables are declared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// Registers.
    Reg,
    /// Device memory.
    Global,
    /// Read-only device memory.
    Const,
    /// Memory of a block.
    Shared,
    /// Memory of a thread.
    Local,
    /// Arguments.
    Param,
}

/// A fundamental type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    /// A predicate.
    Pred,
    /// Untyped bits.
    B(u8),
    /// Unsigned.
    U(u8),
    /// Signed.
    S(u8),
    /// IEEE float.
    F(u8),
    /// Two halves.
    F16x2,
    /// A brain float.
    BF16,
    /// Two brain floats.
    BF16x2,
    /// Two singles.
    F32x2,
    /// Two unsigned or signed 16-bit integers.
    I16x2(bool),
}

impl Type {
    pub(crate) fn named(name: &str) -> Option<Type> {
        Some(match name {
            "pred" => Type::Pred,
            "b8" => Type::B(8),
            "b16" => Type::B(16),
            "b32" => Type::B(32),
            "b64" => Type::B(64),
            "u8" => Type::U(8),
            "u16" => Type::U(16),
            "u32" => Type::U(32),
            "u64" => Type::U(64),
            "s8" => Type::S(8),
            "s16" => Type::S(16),
            "s32" => Type::S(32),
            "s64" => Type::S(64),
            "f16" => Type::F(16),
            "f32" => Type::F(32),
            "f64" => Type::F(64),
            "f16x2" => Type::F16x2,
            "f32x2" => Type::F32x2,
            "bf16" => Type::BF16,
            "bf16x2" => Type::BF16x2,
            "u16x2" => Type::I16x2(false),
            "s16x2" => Type::I16x2(true),
            _ => return None,
        })
    }
    pub(crate) fn bits(self) -> u8 {
        match self {
            Type::Pred => 1,
            Type::B(n) | Type::U(n) | Type::S(n) | Type::F(n) => n,
            Type::BF16 => 16,
            Type::F32x2 => 64,
            Type::F16x2 | Type::BF16x2 | Type::I16x2(_) => 32,
        }
    }
    pub(crate) fn bytes(self) -> u32 {
        u32::from(self.bits()).div_ceil(8)
    }
    pub(crate) fn signed(self) -> bool {
        matches!(self, Type::S(_) | Type::I16x2(true))
    }
    pub(crate) fn float(self) -> bool {
        matches!(self, Type::F(_) | Type::BF16 | Type::F16x2 | Type::BF16x2 | Type::F32x2)
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Type::Pred => f.write_str("pred"),
            Type::B(n) => write!(f, "b{n}"),
            Type::U(n) => write!(f, "u{n}"),
            Type::S(n) => write!(f, "s{n}"),
            Type::F(n) => write!(f, "f{n}"),
            Type::F16x2 => f.write_str("f16x2"),
            Type::F32x2 => f.write_str("f32x2"),
            Type::BF16 => f.write_str("bf16"),
            Type::BF16x2 => f.write_str("bf16x2"),
            Type::I16x2(s) => f.write_str(if *s { "s16x2" } else { "u16x2" }),
        }
    }
}

/// A declared variable: registers (`count` of them when the name has `<n>`), memory, or a parameter.
#[derive(Clone, Debug)]
pub(crate) struct Variable<'a> {
    pub(crate) space: Space,
    pub(crate) ty: Type,
    pub(crate) align: u32,
    pub(crate) name: &'a str,
    /// `%r<5>`: registers `%r0` to `%r4`.
    pub(crate) count: Option<u32>,
    /// Elements of an array; 0 for one of unknown size.
    pub(crate) elements: Option<u64>,
    /// `.extern`: its memory comes with the launch.
    pub(crate) external: bool,
    /// Initial values, in elements.
    pub(crate) initial: Vec<Initial<'a>>,
    pub(crate) line: u32,
}

impl Variable<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.ty.bytes()) * self.elements.unwrap_or(1)
    }
}

/// An element of an initial value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Initial<'a> {
    Int(u64),
    Single(u32),
    Double(u64),
    /// The address of a variable.
    Symbol(&'a str),
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand<'a> {
    /// A register, label, variable, or `_`.
    Name(&'a str),
    /// `!%p`.
    Not(&'a str),
    Int(u64),
    Single(u32),
    Double(u64),
    /// `[name+8]`, `[16]`.
    Address(Option<&'a str>, i64),
    /// `name+8`: the address of an element of a variable.
    Offset(&'a str, i64),
    /// `{a, b}`.
    Vector(Vec<Operand<'a>>),
    /// `(a, b)`.
    List(Vec<Operand<'a>>),
    /// `%p|%q`.
    Pair(&'a str, &'a str),
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instruction<'a> {
    /// `@%p` or `@!%p`: the register, and whether it is negated.
    pub(crate) guard: Option<(&'a str, bool)>,
    /// The opcode with its modifiers.
    pub(crate) opcode: &'a str,
    pub(crate) operands: Vec<Operand<'a>>,
    pub(crate) line: u32,
}

/// A statement of a body.
#[derive(Clone, Debug)]
pub(crate) enum Statement<'a> {
    Label(&'a str),
    Variable(Variable<'a>),
    Instruction(Instruction<'a>),
    /// `name: .branchtargets a, b;`.
    Targets(&'a str, Vec<&'a str>),
    /// `{`.
    Open,
    /// `}`.
    Close,
}

/// An entry or a function with a body.
#[derive(Clone, Debug)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) entry: bool,
    pub(crate) results: Vec<Variable<'a>>,
    pub(crate) params: Vec<Variable<'a>>,
    /// `.reqntid`.
    pub(crate) required: Option<[u32; 3]>,
    /// `.maxntid`: threads of a block.
    pub(crate) most: Option<u32>,
    pub(crate) body: Vec<Statement<'a>>,
    pub(crate) line: u32,
}

/// A module.
#[derive(Clone, Debug)]
pub(crate) struct Text<'a> {
    pub(crate) version: (u64, u64),
    pub(crate) target: &'a str,
    pub(crate) variables: Vec<Variable<'a>>,
    pub(crate) functions: Vec<Function<'a>>,
}
