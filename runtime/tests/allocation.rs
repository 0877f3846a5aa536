//! No tensor is allocated during a step: an allocator that watches sizes while steps run.

mod support;

use ir::program::{InstructionKind, ScheduleKind, StageId};
use ir::{DType, TensorType};
use runtime::{Arguments, Options, Session};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use support::*;

/// Allocations of this size or more count; every tensor of the plan below is larger.
const LARGE: usize = 4096;

static WATCHING: AtomicBool = AtomicBool::new(false);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watch;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if WATCHING.load(Ordering::Relaxed) {
            LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: allocated by `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watch = Watch;

#[test]
fn a_step_allocates_no_tensor() {
    let n = 64u64;
    let microbatches = 4;
    let stage = |s: u32| {
        let mut b = Builder::new(s, &[2], 2 * s);
        let x = b.buffer("x", DType::F32, &[n, n], if s == 0 { microbatches } else { 1 });
        let w = b.buffer("w", DType::F32, &[n, n], 1);
        let y = b.buffer("y", DType::F32, &[n, n], 1);
        let z = b.buffer("z", DType::F32, &[n, n], 1);
        let h = b.buffer("h", DType::BF16, &[n, n], 1);
        b.add(0, InstructionKind::Fill { element: 1f32.to_le_bytes().to_vec() }, &[], &[w]);
        if s == 1 {
            b.add(1, InstructionKind::Receive { from: StageId(0), channel: 0 }, &[], &[x]);
        }
        b.add(1, matmul(n, n, n, false, false), &[x, w], &[y]);
        b.add(1, all_reduce(&[0], DType::F32, &[(y, n * n)]), &[y], &[y]);
        let transpose = ir::OpKind::Transpose { perm: vec![1, 0] };
        let ty = TensorType::new(DType::F32, [n, n]);
        b.add(1, InstructionKind::Library { op: transpose, operands: vec![ty.clone()], results: vec![ty] }, &[y], &[z]);
        if s == 0 {
            b.add(1, InstructionKind::Send { to: StageId(1), channel: 0 }, &[y], &[]);
            b.input(0, x, &[u64::from(microbatches), n, 2 * n], true, &[&[], &[0]]);
        }
        let kind = InstructionKind::MatMul(ir::program::MatMul {
            batch: vec![],
            m: n,
            n,
            k: n,
            offsets: (0, 0, 0),
            a_strides: (n, 1),
            b_strides: (n, 1),
            c_strides: (n, 1),
            dtype: DType::BF16,
            result: DType::BF16,
            accumulate: false,
        });
        let h2 = b.buffer("h2", DType::BF16, &[n, n], 1);
        b.add(2, kind, &[h, h], &[h2]);
        b.program
    };
    let batch = u64::from(microbatches) * n;
    let plan = Arc::new(plan(vec![stage(0), stage(1)], &[f32s(&[batch, 2 * n])], &[], ScheduleKind::OneFOneB, microbatches));
    let mut session = Session::open(&plan, &Options::default()).unwrap();
    let given = Arguments::from([(0, tensor(&[batch, 2 * n], &numbers(batch * 2 * n, 1)))]);
    session.step(&given).unwrap();
    WATCHING.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        session.step(&given).unwrap();
    }
    WATCHING.store(false, Ordering::SeqCst);
    let largest = LARGEST.load(Ordering::SeqCst);
    assert!(largest < LARGE, "a step allocated {largest} bytes");
    let memory = session.memory();
    assert!(memory.iter().zip([0, 0, 1, 1]).all(|(m, s)| m.arena as u64 == plan.programs[s].arena.0));
    // Beside the arena: conversion blocks, one staged message, one staged argument.
    assert!(memory.iter().all(|m| m.overhead <= runtime::device::cpu::MATMUL_SCRATCH_BYTES + 2 * (4 * n * n) as usize + 64), "{memory:?}");
}
