//! The decoded form of an entry: what is executed.
//!
//! Registers are rows of 32 lanes in three banks: words (32-bit and narrower, the upper bits of a narrower register being zero), doubles (64-bit), and
//! predicates (one mask). Immediates, special registers and arguments are rows too, filled before the first instruction, so every operand is a row number.
//! An instruction of the text may become several, of which the first is counted; functions are inlined; branches know where their lanes meet again.

use crate::syntax::Type;

/// Number of a row in its bank.
pub(crate) type Row = u32;

/// Where lanes never meet again.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// A function of up to three words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Mov,
    Add,
    Sub,
    Mul,
    MulHiS,
    MulHiU,
    Mad,
    MadHiS,
    MadHiU,
    DivS,
    DivU,
    RemS,
    RemU,
    MinS,
    MinU,
    MaxS,
    MaxU,
    AbsS,
    Neg,
    AddSat,
    SubSat,
    And,
    Or,
    Xor,
    Not,
    CNot,
    Shl,
    ShrS,
    ShrU,
    Popc,
    Clz,
    Brev,
    BfindS,
    BfindU,
    BfindShiftS,
    BfindShiftU,
    BfeS,
    BfeU,
    BmskClamp,
    BmskWrap,
    Prmt,
    FunnelLClamp,
    FunnelLWrap,
    FunnelRClamp,
    FunnelRWrap,
    SExt8,
    SExt16,
    Low8,
    Low16,
    High16,
    Pack16,
    FAdd,
    FSub,
    FMul,
    FFma,
    FDiv,
    FRcp,
    FSqrt,
    FMin,
    FMax,
    FMinNan,
    FMaxNan,
    FAbs,
    FNeg,
    FCopysign,
    Flush,
    Saturate,
    Relu,
    FromHalf,
    FromBrain,
    ToHalf,
    ToBrain,
    PackHalf,
    PackBrain,
    FromS32,
    FromU32,
    ToS32,
    ToU32,
    Trunc,
    Floor,
    Ceil,
    Even,
}

/// A function of up to three doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Double {
    Mov,
    Add,
    Sub,
    Mul,
    MulHiS,
    MulHiU,
    Mad,
    MadHiS,
    MadHiU,
    DivS,
    DivU,
    RemS,
    RemU,
    MinS,
    MinU,
    MaxS,
    MaxU,
    AbsS,
    Neg,
    And,
    Or,
    Xor,
    Not,
    CNot,
    Brev,
    FAdd,
    FSub,
    FMul,
    FFma,
    FDiv,
    FRcp,
    FSqrt,
    FMin,
    FMax,
    FAbs,
    FNeg,
    FCopysign,
}

/// A double of words: `f(a32, b32, c64)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Widen {
    /// Sign extension.
    S,
    /// Zero extension.
    U,
    /// `{a, b}`, `a` the lower.
    Pack,
    MulS,
    MulU,
    MadS,
    MadU,
    /// f32 to f64.
    F,
    FromS32,
    FromU32,
}

/// A word of a double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Narrow {
    Low,
    High,
    Popc,
    Clz,
    BfindS,
    BfindU,
    /// f64 to f32, to the nearest even.
    F,
}

/// A double of a double and words: `f(a64, b32, c32)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    Left,
    RightS,
    RightU,
    BfeS,
    BfeU,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    LtS,
    LeS,
    GtS,
    GeS,
    LtU,
    LeU,
    GtU,
    GeU,
    FEq,
    FNe,
    FLt,
    FLe,
    FGt,
    FGe,
    FEqU,
    FNeU,
    FLtU,
    FLeU,
    FGtU,
    FGeU,
    Num,
    Nan,
}

/// A function of two predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    Mov,
    Not,
    And,
    Or,
    Xor,
    /// `!a & b`.
    AndNot,
    /// `!a | b`.
    OrNot,
    /// `!a ^ b`.
    XorNot,
}

/// An instruction that is right to a documented bound only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approx {
    Div,
    DivFull,
    Rcp,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Lg2,
    Ex2,
    Tanh,
    /// On halves, in the low 16 bits.
    Ex2Half,
    TanhHalf,
    Ex2Brain,
    TanhBrain,
    /// On doubles, with 32-bit operands and results widened before and narrowed after: `rcp.approx.ftz.f64`, `rsqrt.approx.f64`.
    RcpDouble,
    RsqrtDouble,
}

/// A rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearest, ties to even.
    Even,
    /// To the nearest, ties away from zero.
    Away,
    /// Towards zero.
    Zero,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
}

/// Arithmetic that is done exactly and rounded once: halves, brain floats, and singles in a directed mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exact {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Sqrt,
}

/// One such instruction.
#[derive(Clone, Debug)]
pub(crate) struct Rounded {
    pub(crate) what: Exact,
    /// `f16`, `bf16` or `f32`.
    pub(crate) ty: Type,
    /// Two values a word.
    pub(crate) pair: bool,
    pub(crate) rounding: Rounding,
    /// Clamp to [0, 1].
    pub(crate) saturate: bool,
    /// Clamp negative results to 0.
    pub(crate) relu: bool,
    pub(crate) flush: bool,
    pub(crate) rows: [Row; 4],
}

/// A conversion of the general kind.
#[derive(Clone, Debug)]
pub(crate) struct Conversion {
    pub(crate) to: Type,
    pub(crate) from: Type,
    pub(crate) rounding: Rounding,
    /// Round to an integer first, for a float result.
    pub(crate) integral: bool,
    pub(crate) saturate: bool,
    pub(crate) relu: bool,
    pub(crate) flush: bool,
    pub(crate) d: Reg,
    pub(crate) a: Reg,
}

/// A register of the text: its row, bank and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reg {
    pub(crate) row: Row,
    pub(crate) bits: u8,
}

/// What memory an access is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Known to be device memory.
    Global,
    /// An offset in the block's memory.
    Shared,
    /// An offset in the thread's memory.
    Local,
    /// The address says.
    Generic,
}

/// An address: a row of words or doubles and a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) row: Row,
    pub(crate) wide: bool,
    pub(crate) offset: i64,
}

/// A load or store.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) target: Target,
    pub(crate) address: Address,
    /// Bytes of one element.
    pub(crate) bytes: u8,
    pub(crate) signed: bool,
    /// Ordered with other threads, and so no race.
    pub(crate) strong: bool,
    /// One register per element.
    pub(crate) registers: Vec<Option<Reg>>,
}

/// What an atomic instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareSwap,
    Inc,
    Dec,
}

/// An atomic instruction.
#[derive(Clone, Debug)]
pub(crate) struct Atomic {
    pub(crate) target: Target,
    pub(crate) address: Address,
    pub(crate) op: AtomicOp,
    pub(crate) ty: Type,
    pub(crate) d: Option<Reg>,
    pub(crate) b: Reg,
    pub(crate) c: Option<Reg>,
}

/// How a shuffle picks its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

/// A shuffle.
#[derive(Clone, Debug)]
pub(crate) struct Shuffle {
    pub(crate) mode: ShuffleMode,
    pub(crate) d: Row,
    pub(crate) valid: Option<Row>,
    pub(crate) a: Row,
    pub(crate) lane: Row,
    pub(crate) clamp: Row,
    pub(crate) members: Row,
}

/// A vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uni,
    Ballot,
}

/// What a warp reduces by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redux {
    Add,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
}

/// An operation.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// `d, a, b, c`.
    Word(Word, [Row; 4]),
    Double(Double, [Row; 4]),
    Widen(Widen, [Row; 4]),
    Narrow(Narrow, [Row; 2]),
    Shift(Shift, [Row; 4]),
    /// `d, a, b, position, length` of words, or of doubles.
    BitInsert(bool, [Row; 5]),
    /// `d, a, b, c` and the table.
    Lop3([Row; 4], u8),
    CompareWord(Compare, [Row; 3]),
    CompareDouble(Compare, [Row; 3]),
    /// `d, a, b, predicate`.
    SelectWord([Row; 4]),
    SelectDouble([Row; 4]),
    Logic(Logic, [Row; 3]),
    Rounded(Box<Rounded>),
    Convert(Box<Conversion>),
    Approx(Approx, [Row; 3]),
    Load(Box<Access>),
    Store(Box<Access>),
    Atomic(Box<Atomic>),
    Branch {
        target: u32,
        meet: u32,
    },
    /// A branch by index.
    Switch {
        index: Row,
        targets: Box<[u32]>,
        meet: u32,
    },
    /// The entry returns.
    Exit,
    /// The thread ends without a return, which is what LLVM makes of what it has found to be unreachable.
    Leave,
    /// Barrier number, thread count (none: the whole block), and whether it waits. A warp must come whole.
    Barrier {
        number: Row,
        threads: Option<Row>,
        waits: bool,
    },
    WarpSync(Row),
    Shuffle(Box<Shuffle>),
    /// `d` (a predicate, or a word for a ballot), the predicate, whether it is negated, the members.
    Vote(Vote, Row, Row, bool, Row),
    Redux(Redux, Row, Row, Row),
    ActiveMask(Row),
    /// Orders memory; in this emulator memory is in order.
    Fence,
    Trap,
}

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct Instr {
    pub(crate) op: Op,
    /// The predicate and whether it is negated.
    pub(crate) guard: Option<(Row, bool)>,
    pub(crate) line: u32,
    /// Whether it is the first of its instruction in the text.
    pub(crate) first: bool,
}

/// A register that the launch fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Lane,
    Warp,
    Warps,
    MaskEq,
    MaskLt,
    MaskLe,
    MaskGt,
    MaskGe,
    DynamicShared,
    TotalShared,
}

/// An argument's (part in a) row: bytes `offset..offset + bytes` of parameter `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Argument {
    pub(crate) index: u32,
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    pub(crate) signed: bool,
    pub(crate) wide: bool,
}

/// A decoded entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    pub(crate) instructions: Vec<Instr>,
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) predicates: u32,
    pub(crate) word_constants: Vec<(Row, u32)>,
    pub(crate) double_constants: Vec<(Row, u64)>,
    pub(crate) predicate_constants: Vec<(Row, u32)>,
    pub(crate) specials: Vec<(Special, Row)>,
    pub(crate) arguments: Vec<(Argument, Row)>,
    /// Bytes of shared memory with names, in order: (name, offset, bytes).
    pub(crate) shared: Vec<(String, u64, u64)>,
    pub(crate) shared_bytes: u64,
    /// Where the launch's shared memory begins.
    pub(crate) dynamic_offset: u64,
    pub(crate) local_bytes: u64,
    /// Whether blocks must run one after the other to give the same result every time.
    pub(crate) ordered: bool,
}
