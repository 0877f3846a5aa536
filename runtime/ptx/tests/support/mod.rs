//! Launches of small kernels written as text.

#![allow(dead_code, reason = "each test binary uses a part")]

use ptx::{Counts, Error, Fault, Grid, Memory, Module, Options, launch};

/// A module of one entry `k` whose parameters are `params` pointers, with `body` as its body.
pub(crate) fn module(params: usize, body: &str) -> String {
    let list: Vec<String> = (0..params).map(|i| format!(".param .u64 .ptr .global .align 1 k_{i}")).collect();
    format!(".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k({})\n{{\n{body}\nret;\n}}\n", list.join(", "))
}

/// Executes a body over buffers of words.
pub(crate) fn run_words(body: &str, buffers: &mut [Vec<u32>], grid: Grid, options: &Options) -> Result<Counts, Fault> {
    let module = Module::parse(&module(buffers.len(), body)).unwrap_or_else(|e| panic!("{e}\n{body}"));
    let mut memory = Memory::new();
    let names = ["a", "b", "c", "d"];
    let addresses: Vec<u64> = buffers.iter_mut().zip(names).map(|(b, n)| memory.register_slice(n, b).address()).collect();
    launch(&module, module.entry("k").expect("the entry"), grid, &addresses, &memory, options)
}

/// What the parser says of a body.
pub(crate) fn refused(body: &str) -> Error {
    Module::parse(&module(0, body)).expect_err("it is refused")
}

/// One block of `threads` threads.
pub(crate) fn one_block(threads: u32) -> Grid {
    Grid { grid: [1, 1, 1], block: [threads, 1, 1], dynamic_shared: 0 }
}

/// Executes `text` for every triple of operands (64 bits each) and gives its results: words `%a %b %c` (and halves `%ha %hb %hc`) are the operands' low bits,
/// doubles `%A %B %C` all of them, `%p`, `%q` are predicates (`%p` set when `%a` is odd); the result is `%d`, `%hd`, `%D` or `%q` by the sort.
pub(crate) fn evaluate(text: &str, result: char, operands: &[[u64; 3]]) -> Vec<u64> {
    evaluate_with(text, result, operands, &Options::default())
}

pub(crate) fn evaluate_with(text: &str, result: char, operands: &[[u64; 3]], options: &Options) -> Vec<u64> {
    let n = operands.len().next_multiple_of(32);
    let mut inputs: Vec<u64> = operands.iter().flatten().copied().collect();
    inputs.resize(n * 3, 0);
    let mut outputs = vec![0u64; n];
    let finish = match result {
        'd' => "cvt.u64.u32 %D, %d;",
        'h' => "cvt.u64.u16 %D, %hd;",
        'q' => "selp.u64 %D, 1, 0, %q;",
        _ => "",
    };
    let body = format!(
        ".reg .b64 %A, %B, %C, %D, %i, %o;\n.reg .b32 %a, %b, %c, %d, %t, %x;\n.reg .b16 %ha, %hb, %hc, %hd, %hx;\n.reg .pred %p, %q;\n\
         ld.param.u64 %i, [k_0];\nld.param.u64 %o, [k_1];\nmov.u32 %t, %tid.x;\nmov.u32 %x, %ctaid.x;\nmov.u32 %a, %ntid.x;\nmad.lo.s32 %t, %x, %a, %t;\n\
         mad.wide.u32 %i, %t, 24, %i;\nmad.wide.u32 %o, %t, 8, %o;\nld.global.b64 %A, [%i];\nld.global.b64 %B, [%i+8];\nld.global.b64 %C, [%i+16];\n\
         cvt.u32.u64 %a, %A;\ncvt.u32.u64 %b, %B;\ncvt.u32.u64 %c, %C;\ncvt.u16.u32 %ha, %a;\ncvt.u16.u32 %hb, %b;\ncvt.u16.u32 %hc, %c;\n\
         mov.b32 %d, 0;\nmov.b64 %D, 0;\nmov.b16 %hd, 0;\nand.b32 %x, %a, 1;\nsetp.eq.u32 %p, %x, 1;\nsetp.eq.u32 %q, 0, 1;\n\
         {text}\n{finish}\nst.global.b64 [%o], %D;"
    );
    let module = Module::parse(&module(2, &body)).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut memory = Memory::new();
    let addresses = [memory.register_slice("inputs", &mut inputs).address(), memory.register_slice("outputs", &mut outputs).address()];
    let grid = Grid { grid: [n as u32 / 32, 1, 1], block: [32, 1, 1], dynamic_shared: 0 };
    launch(&module, module.entry("k").expect("the entry"), grid, &addresses, &memory, options).unwrap_or_else(|f| panic!("{f}\n{text}"));
    outputs.truncate(operands.len());
    outputs
}

/// Operands that find mistakes: all pairs of edge values of the width, and pseudo-random ones.
pub(crate) fn operands(edges: &[u64], count: usize) -> Vec<[u64; 3]> {
    let mut state = 0x1234_5678_9ABC_DEF1u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut all = Vec::new();
    for &a in edges {
        for &b in edges {
            all.push([a, b, edges[(next() % edges.len() as u64) as usize]]);
        }
    }
    for _ in 0..count {
        all.push([next(), next(), next()]);
    }
    all
}
