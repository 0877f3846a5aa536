//! Wrong kernels: each check reports its own, with block, thread, line and place, and the right form of each kernel runs.

mod support;

use ptx::{Fault, FaultKind, Grid, Memory, Module, Options, Written, launch};
use std::sync::Arc;
use support::{module, one_block, refused, run_words};

fn checked() -> Options {
    Options { checks: true, budget: 100_000, ..Options::default() }
}

fn fault(body: &str, buffers: &mut [Vec<u32>], grid: Grid) -> Fault {
    run_words(body, buffers, grid, &checked()).expect_err("the kernel is wrong")
}

/// Threads add one to `a[i]`, for `i` up to a bound.
const ADD_ONE: &str = ".reg .b64 %p;\n.reg .b32 %t, %v;\nmov.u32 %t, %tid.x;\nld.param.u64 %p, [k_0];\nmad.wide.u32 %p, %t, 4, %p;\n\
    ld.global.u32 %v, [%p];\nadd.u32 %v, %v, 1;\nst.global.u32 [%p], %v;";

#[test]
fn past_the_end() {
    let mut a = [vec![1; 40]];
    run_words(ADD_ONE, &mut a, one_block(40), &checked()).unwrap();
    assert_eq!(a[0], vec![2; 40]);
    let f = fault(ADD_ONE, &mut a, one_block(64));
    assert_eq!((f.kind, f.thread, f.block), (FaultKind::OutOfBounds, [40, 0, 0], [0; 3]));
    let text = f.to_string();
    assert!(text.contains("out-of-bounds access in k, block (0, 0, 0), thread (40, 0, 0), PTX line 11: a load of 4 bytes at 0x"), "{text}");
    assert!(text.ends_with("the end of `a` (160 bytes)"), "{text}");
    // Without the slower checks, too.
    assert_eq!(run_words(ADD_ONE, &mut a, one_block(64), &Options::default()).unwrap_err().kind, FaultKind::OutOfBounds);
}

#[test]
fn stores_to_what_is_only_read() {
    let module = Module::parse(&module(1, ADD_ONE)).unwrap();
    let mut a = [1u32; 32];
    let mut memory = Memory::new();
    // SAFETY: `a` outlives the launch and is not used during it.
    unsafe { memory.register("weights", a.as_mut_ptr().cast(), 128, false) };
    let address = a.as_ptr().addr() as u64;
    let f = launch(&module, module.entry("k").unwrap(), one_block(32), &[address], &memory, &checked()).unwrap_err();
    assert_eq!(f.kind, FaultKind::OutOfBounds);
    assert!(f.message.ends_with("byte 0 of `weights` (128 bytes), which is only read"), "{f}");
}

#[test]
fn misaligned() {
    let body = ".reg .b64 %p;\n.reg .b32 %v<4>;\nld.param.u64 %p, [k_0];\nld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%p+4];";
    let mut a = [vec![1; 40]];
    if a[0].as_ptr().addr() % 16 == 12 {
        a[0].insert(0, 1);
    }
    let f = fault(body, &mut a, one_block(32));
    assert_eq!(f.kind, FaultKind::Misaligned);
    assert!(f.message.contains("a load of 16 bytes") && f.message.ends_with("byte 4 of `a` (160 bytes), which is no multiple of 16"), "{f}");
}

/// Threads of two warps pass a value to the thread on the other side of the block; `between` stands between.
fn exchange(between: &str) -> String {
    format!(
        ".shared .align 4 .b8 s[256];\n.reg .b64 %p;\n.reg .b32 %t, %v, %o, %r;\n.reg .pred %q;\nmov.u32 %t, %tid.x;\nshl.b32 %o, %t, 2;\nst.shared.u32 [%o], %t;\n\
         {between}\nmov.u32 %r, 252;\nsub.u32 %o, %r, %o;\nld.shared.u32 %v, [%o];\nld.param.u64 %p, [k_0];\nmad.wide.u32 %p, %t, 4, %p;\nst.global.u32 [%p], %v;"
    )
}

#[test]
fn a_missing_barrier() {
    let mut a = [vec![0; 64]];
    run_words(&exchange("bar.sync 0;"), &mut a, one_block(64), &checked()).unwrap();
    assert!(a[0].iter().enumerate().all(|(i, v)| *v as usize == 63 - i));
    // Warp 0 reads what warp 1 has yet to write, or what it has just written: uninitialised bytes are told first, then the race.
    let early = fault(&exchange(""), &mut a, one_block(64));
    assert_eq!(early.kind, FaultKind::Uninitialised);
    let within = exchange("").replace("mov.u32 %r, 252;\nsub.u32 %o, %r, %o;", "xor.b32 %o, %o, 4;");
    let f = fault(&within, &mut a, one_block(64));
    assert_eq!((f.kind, f.thread), (FaultKind::Race, [0, 0, 0]));
    assert!(f.message.contains("(byte 4 of `s`), which thread (1, 0, 0) wrote with no barrier between"), "{f}");
    run_words(
        &within.replace("mov.u32 %t, %tid.x;", "mov.u32 %t, %tid.x;\nmov.u32 %r, 0;").replace("xor.b32", "bar.warp.sync -1;\nxor.b32"),
        &mut a,
        one_block(64),
        &checked(),
    )
    .unwrap();
}

#[test]
fn a_missing_barrier_in_device_memory_and_before_the_next_round() {
    // Everybody reads what thread 0 writes.
    let body = |between: &str| {
        format!(
            ".reg .b64 %p;\n.reg .b32 %t, %v;\n.reg .pred %q;\nmov.u32 %t, %tid.x;\nld.param.u64 %p, [k_0];\nsetp.eq.u32 %q, %t, 0;\n@%q st.global.u32 [%p], 9;\n\
             {between}\nld.global.u32 %v, [%p];"
        )
    };
    let mut a = [vec![0; 4]];
    run_words(&body("bar.sync 0;"), &mut a, one_block(64), &checked()).unwrap();
    let f = fault(&body(""), &mut a, one_block(64));
    assert_eq!((f.kind, f.thread), (FaultKind::Race, [1, 0, 0]));
    assert!(f.message.contains("byte 0 of `a` (16 bytes), which thread (0, 0, 0) wrote"), "{f}");
    // Written again while others may still read.
    let again = exchange("bar.sync 0;") + "\nshl.b32 %o, %t, 2;\nst.shared.u32 [%o], %t;";
    let f = fault(&again, &mut [vec![0; 64]], one_block(64));
    assert_eq!(f.kind, FaultKind::Race);
    assert!(f.message.contains("with no barrier between"), "{f}");
}

#[test]
fn bytes_that_nothing_wrote() {
    let body = ".shared .align 4 .b8 s[64];\n.reg .b32 %v;\nst.shared.u16 [s], 1;\nld.shared.u32 %v, [s];";
    let f = fault(body, &mut [], one_block(1));
    assert_eq!(f.kind, FaultKind::Uninitialised);
    assert!(f.message.ends_with("byte 0 of shared memory (byte 0 of `s`): nothing has written byte 2 of it"), "{f}");
    run_words(&body.replace("u16", "u32"), &mut [], one_block(1), &checked()).unwrap();

    let module = Module::parse(&module(1, ADD_ONE)).unwrap();
    let mut a = vec![0u32; 64];
    let written = Arc::new(Written::new(a.as_ptr().cast(), 256));
    written.mark(0, 128);
    let mut memory = Memory::new();
    let address = memory.register_slice("a", &mut a).address();
    memory.track(&written);
    let go = |threads| launch(&module, module.entry("k").unwrap(), one_block(threads), &[address], &memory, &checked());
    go(32).unwrap();
    let f = go(64).unwrap_err();
    assert_eq!((f.kind, f.thread), (FaultKind::Uninitialised, [32, 0, 0]));
    assert!(f.message.contains("byte 128 of `a`"), "{f}");
    // What a kernel writes counts as written.
    written.mark(128, 128);
    go(64).unwrap();
}

#[test]
fn divergent_barriers() {
    let body = |guard: &str, then: &str| {
        format!(".reg .b32 %t;\n.reg .pred %q;\nmov.u32 %t, %tid.x;\nsetp.lt.u32 %q, %t, {guard};\n@%q bra L;\n{then}\nL: bar.sync 0;")
    };
    let some_exited = fault(&body("40", "ret;"), &mut [], one_block(64));
    assert_eq!(some_exited.kind, FaultKind::DivergentBarrier);
    assert!(some_exited.message.contains("barrier 0 is reached by 8 of a warp's 32 threads; lane 8 "), "{some_exited}");
    let warp_exited = fault(&body("32", "ret;"), &mut [], one_block(64));
    assert_eq!(warp_exited.kind, FaultKind::DivergentBarrier);
    assert_eq!(warp_exited.message, "barrier 0 waits for 64 threads, and 32 have come; 32 have exited");
    let others = fault(&body("32", "bar.sync 1;\nret;"), &mut [], one_block(64));
    assert_eq!(others.message, "barrier 0 waits for 64 threads, and 32 have come; 32 wait at barrier 1 (line 11)");
    let inside = fault(&body("8", "bar.sync 0;"), &mut [], one_block(32));
    assert!(inside.message.contains("is elsewhere"), "{inside}");
    run_words(&body("32", "bar.sync 0;\nret;"), &mut [], one_block(64), &checked()).unwrap();
    // Barriers of a part of the block are told by their count.
    run_words(&body("32", "bar.sync 1, 32;\nbar.sync 0;\nret;"), &mut [], one_block(64), &checked()).unwrap();
}

#[test]
fn warps_that_are_not_together() {
    let body =
        ".reg .b32 %t, %v;\n.reg .pred %q;\nmov.u32 %t, %tid.x;\nsetp.lt.u32 %q, %t, 8;\n@%q bra L;\nshfl.sync.bfly.b32 %v, %t, 1, 31, -1;\nL: mov.u32 %v, 0;";
    let f = fault(body, &mut [], one_block(32));
    assert_eq!((f.kind, f.thread), (FaultKind::DivergentWarp, [8, 0, 0]));
    assert!(f.message.contains("lane 0, which is elsewhere"), "{f}");
    run_words(&body.replace("-1;\nL", "0xFFFFFF00;\nL"), &mut [], one_block(32), &checked()).unwrap();
}

#[test]
fn endless_loops() {
    let f = fault("L: bra L;", &mut [], one_block(32));
    assert_eq!((f.kind, f.line), (FaultKind::Budget, 6));
    let waiting =
        ".reg .b64 %p;\n.reg .b32 %v;\n.reg .pred %q;\nld.param.u64 %p, [k_0];\nL: ld.volatile.global.u32 %v, [%p];\nsetp.eq.u32 %q, %v, 0;\n@%q bra L;";
    assert_eq!(fault(waiting, &mut [vec![0]], one_block(32)).kind, FaultKind::Budget);
    run_words(waiting, &mut [vec![1]], one_block(32), &checked()).unwrap();
}

#[test]
fn launches_that_cannot_be() {
    let body = ".shared .align 4 .b8 s[1024];";
    let f = |grid: Grid| run_words(body, &mut [], grid, &Options::default()).unwrap_err().message;
    assert!(f(one_block(2048)).contains("a block of 2048 threads"));
    assert!(f(Grid { dynamic_shared: 240 * 1024, ..one_block(32) }).contains("bytes of shared memory"));
    assert!(f(Grid { grid: [0, 1, 1], ..one_block(32) }).contains("a grid of 0 blocks"));
}

#[test]
fn what_is_not_known_is_named_with_its_line() {
    let message = |body: &str| refused(body).to_string();
    assert_eq!(message("\nwgmma.fence.sync.aligned;"), "PTX line 7: the instruction `wgmma.fence.sync.aligned` is not known to this emulator");
    assert_eq!(message(".reg .b32 %r<2>;\nadd.odd.s32 %r0, %r1, 1;"), "PTX line 7: the modifier `.odd` of `add.odd.s32` is not known to this emulator");
    assert_eq!(message(".reg .b32 %r<2>;\nadd.s32 %r0, %r2, 1;"), "PTX line 7: `%r2` is not declared: `%r` has 2 registers");
    assert_eq!(message(".reg .b32 %r<2>;\nmov.u32 %r0, %clock;"), "PTX line 7: `%clock` is not declared");
    assert_eq!(message(".reg .b32 %r;\n.reg .b64 %d;\nadd.s32 %r, %d, 1;"), "PTX line 8: `%d` has 64 bits and 32 are needed");
    assert_eq!(message("bra nowhere;"), "PTX line 6: the label `nowhere` is nowhere");
    assert_eq!(message(".reg .b32 %r;\ncvt.f16.f32 %r, %r;"), "PTX line 7: a conversion from f32 to f16 needs a rounding mode");
    assert_eq!(message("call.uni other, ();"), "PTX line 6: the function `other` is called and has no body here");
    assert_eq!(message(".reg .b32 %r;\nld.global.b32 %r, [%r];"), "PTX line 7: `%r` has 32 bits and is used as an address");
}
