//! Kernels of the runtime's own, as PTX text: strided copies, fills, and the arithmetic of collectives.
//!
//! Every kernel is one loop nest over elements, one element per thread, with extents and strides as constants. Pointers come as parameters, already at the
//! first element; sums are made in the order of the sources, narrow floats in f32 and rounded once, as the processor makes them.

use ir::DType;
use ir::op::Reducer;
use std::fmt::Write as _;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Pointers that a kernel takes at most, which keeps its parameters in 4 KiB.
pub const MOST_POINTERS: usize = 500;

/// Loops over elements, outermost first: (extent, stride in elements).
pub type Loops = Vec<(u64, i64)>;

/// What happens to an element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// The source's element of so many bytes is stored.
    Move(u32),
    /// All sources' elements are combined.
    Combine(Reducer, DType),
    /// An element of so many bytes with these bits is stored.
    Fill(u32, u64),
}

/// A kernel: for every element, from the sources at `from` to the targets at `to`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// What it does.
    pub work: Work,
    /// Pointers that are read.
    pub sources: usize,
    /// Pointers that are written.
    pub targets: usize,
    /// Where elements lie under a source.
    pub from: Loops,
    /// Where elements lie under a target.
    pub to: Loops,
}

/// How elements are held in registers.
struct Held {
    /// Bytes in memory.
    bytes: u32,
    /// Type of a load and a store.
    memory: &'static str,
    /// Register class that is loaded and stored.
    loaded: &'static str,
    /// Register class that is computed with.
    register: &'static str,
    /// From the loaded `L` to the register `W`.
    widen: &'static str,
    /// From the register `W` to the loaded `L`.
    narrow: &'static str,
    /// Type of the arithmetic.
    ty: &'static str,
}

fn held(dtype: DType) -> Option<Held> {
    let same = |bytes, memory, register, ty| Held { bytes, memory, loaded: register, register, widen: "mov.b64 W, L;", narrow: "mov.b64 L, W;", ty };
    Some(match dtype {
        DType::F32 => Held { widen: "mov.f32 W, L;", narrow: "mov.f32 L, W;", ..same(4, "f32", "f32", "f32") },
        DType::F64 => Held { widen: "mov.f64 W, L;", narrow: "mov.f64 L, W;", ..same(8, "f64", "f64", "f64") },
        DType::F16 => Held { bytes: 2, memory: "b16", loaded: "b16", register: "f32", widen: "cvt.f32.f16 W, L;", narrow: "cvt.rn.f16.f32 L, W;", ty: "f32" },
        DType::BF16 => Held {
            bytes: 2,
            memory: "b16",
            loaded: "b16",
            register: "f32",
            widen: "cvt.u32.u16 %r8, L; shl.b32 %r8, %r8, 16; mov.b32 W, %r8;",
            narrow: "cvt.rn.bf16.f32 L, W;",
            ty: "f32",
        },
        DType::I8 => same(1, "s8", "b64", "s64"),
        DType::UI8 | DType::I1 => same(1, "u8", "b64", "u64"),
        DType::I16 => same(2, "s16", "b64", "s64"),
        DType::UI16 => same(2, "u16", "b64", "u64"),
        DType::I32 => same(4, "s32", "b64", "s64"),
        DType::UI32 => same(4, "u32", "b64", "u64"),
        DType::I64 => same(8, "s64", "b64", "s64"),
        DType::UI64 => same(8, "u64", "b64", "u64"),
        _ => return None,
    })
}

/// The instruction that combines the accumulator `A` with `W`.
fn combine(reducer: Reducer, dtype: DType, held: &Held) -> Option<String> {
    let ty = held.ty;
    let float = ty.starts_with('f');
    Some(match reducer {
        // A sum of truth values is no sum of bytes.
        Reducer::Add | Reducer::Mul if dtype == DType::I1 => return None,
        Reducer::Add if float => format!("add.rn.{ty} A, A, W;"),
        Reducer::Mul if float => format!("mul.rn.{ty} A, A, W;"),
        Reducer::Add => format!("add.{ty} A, A, W;"),
        Reducer::Mul => format!("mul.lo.{ty} A, A, W;"),
        Reducer::Max | Reducer::Min => {
            let name = if reducer == Reducer::Max { "max" } else { "min" };
            match ty {
                "f32" => format!("{name}.NaN.f32 A, A, W;"),
                // There is no instruction that keeps NaN.
                "f64" => return None,
                _ => format!("{name}.{ty} A, A, W;"),
            }
        }
        Reducer::And | Reducer::Or | Reducer::Xor if !float => {
            let name = match reducer {
                Reducer::And => "and",
                Reducer::Or => "or",
                _ => "xor",
            };
            format!("{name}.b64 A, A, W;")
        }
        _ => return None,
    })
}

fn moved(bytes: u32) -> Option<Held> {
    let same = |memory, register| Held { bytes, memory, loaded: register, register, widen: "", narrow: "", ty: "" };
    Some(match bytes {
        1 => same("u8", "b32"),
        2 => same("u16", "b32"),
        4 => same("b32", "b32"),
        8 => same("b64", "b64"),
        _ => return None,
    })
}

impl Kernel {
    /// Elements.
    pub fn elements(&self) -> u64 {
        self.to.iter().map(|(n, _)| n).product()
    }

    /// Its entry; none when it cannot be made.
    pub fn entry(&self, name: &str) -> Option<String> {
        let elements = self.elements();
        let read: u64 = self.from.iter().map(|(n, _)| n).product();
        if elements == 0 || elements > i32::MAX as u64 || self.sources > 0 && read != elements || self.sources + self.targets > MOST_POINTERS {
            return None;
        }
        let mut text = format!(".visible .entry {name}(");
        let pointers = (0..self.sources).map(|i| format!("s{i}")).chain((0..self.targets).map(|i| format!("t{i}")));
        let parameters: Vec<String> = pointers.chain(["first".into(), "last".into()]).map(|p| format!(".param .u64 {p}")).collect();
        text += &parameters.join(", ");
        text += ") {\n\t.reg .pred %p<2>;\n\t.reg .b32 %r<9>;\n\t.reg .b64 %rd<10>;\n";
        let held = match &self.work {
            Work::Move(bytes) | Work::Fill(bytes, _) => moved(*bytes)?,
            Work::Combine(_, dtype) => held(*dtype)?,
        };
        let _ = writeln!(text, "\t.reg .{} %l;\n\t.reg .{} %w<2>;", held.loaded, held.register);
        text += "\tld.param.u64 %rd1, [first];\n\tld.param.u64 %rd2, [last];\n";
        text += "\tmov.u32 %r1, %ctaid.x;\n\tmov.u32 %r2, %ntid.x;\n\tmov.u32 %r3, %tid.x;\n\tmul.wide.u32 %rd3, %r1, %r2;\n";
        text += "\tcvt.u64.u32 %rd4, %r3;\n\tadd.s64 %rd3, %rd3, %rd4;\n\tadd.s64 %rd3, %rd3, %rd1;\n";
        text += "\tsetp.lt.u64 %p1, %rd3, %rd2;\n\t@%p1 bra WORK;\n\tret;\nWORK:\n\tcvt.u32.u64 %r4, %rd3;\n";
        if self.sources > 0 {
            locate(&mut text, &self.from, held.bytes, "%rd5");
        }
        locate(&mut text, &self.to, held.bytes, "%rd6");
        let load = |text: &mut String, i: usize| {
            let _ = writeln!(text, "\tld.param.u64 %rd7, [s{i}];\n\tadd.s64 %rd7, %rd7, %rd5;\n\tld.global.{} %l, [%rd7];", held.memory);
        };
        let register = |line: &str, with: &str| line.replace('W', with).replace('L', "%l").replace('A', "%w0");
        match &self.work {
            Work::Move(_) => load(&mut text, 0),
            Work::Fill(bytes, bits) if *bytes == 8 => {
                let _ = writeln!(text, "\tmov.b64 %l, {};", *bits as i64);
            }
            Work::Fill(_, bits) => {
                let _ = writeln!(text, "\tmov.b32 %l, {};", *bits as u32 as i32);
            }
            Work::Combine(reducer, dtype) => {
                let step = combine(*reducer, *dtype, &held)?;
                for i in 0..self.sources {
                    load(&mut text, i);
                    if i == 0 {
                        let _ = writeln!(text, "\t{}", register(held.widen, "%w0"));
                    } else {
                        let _ = writeln!(text, "\t{}\n\t{}", register(held.widen, "%w1"), step.replace('W', "%w1").replace('A', "%w0"));
                    }
                }
                let _ = writeln!(text, "\t{}", register(held.narrow, "%w0"));
            }
        }
        let stored = held.memory.replace('s', "u");
        for i in 0..self.targets {
            let _ = writeln!(text, "\tld.param.u64 %rd7, [t{i}];\n\tadd.s64 %rd7, %rd7, %rd6;\n\tst.global.{stored} [%rd7], %l;");
        }
        text += "\tret;\n}\n";
        Some(text)
    }
}

/// Sets `into` to the byte offset of element `%r4` of some loops.
fn locate(text: &mut String, loops: &[(u64, i64)], bytes: u32, into: &str) {
    let _ = writeln!(text, "\tmov.u64 {into}, 0;\n\tmov.u32 %r5, %r4;");
    let loops: Vec<_> = merged(loops);
    for (i, (extent, stride)) in loops.iter().enumerate().rev() {
        if i == 0 {
            text.push_str("\tmov.u32 %r6, %r5;\n");
        } else {
            let _ = writeln!(text, "\trem.u32 %r6, %r5, {extent};\n\tdiv.u32 %r5, %r5, {extent};");
        }
        let by = stride * i64::from(bytes);
        let _ = writeln!(text, "\tcvt.u64.u32 %rd8, %r6;\n\tmul.lo.s64 %rd8, %rd8, {by};\n\tadd.s64 {into}, {into}, %rd8;");
    }
}

/// Loops without those of one element, and with those in one that lie behind each other.
pub fn merged(loops: &[(u64, i64)]) -> Loops {
    let mut out: Loops = Vec::new();
    for &(n, s) in loops.iter().filter(|(n, _)| *n != 1) {
        match out.last_mut() {
            Some(last) if last.1 == s * n as i64 => *last = (last.0 * n, s),
            _ => out.push((n, s)),
        }
    }
    out
}

/// Whether loops are one run of elements.
pub fn is_run(loops: &[(u64, i64)]) -> bool {
    matches!(merged(loops)[..], [] | [(_, 1)])
}

/// A module of kernels, whose entries are `k0`, `k1`, …
pub fn module(kernels: &[Kernel]) -> String {
    let mut text = ".version 7.0\n.target sm_80\n.address_size 64\n".to_string();
    for (i, kernel) in kernels.iter().enumerate() {
        text += &kernel.entry(&format!("k{i}")).expect("invariant: kernels that cannot be made are not listed");
    }
    text
}
