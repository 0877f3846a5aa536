//! CUDA code of plans written by hand, on the emulator: results, what is refused when opening, and what ends a run.

mod support;

use ir::kernel::{Kernel, Param};
use ir::plan::{Code, Launch, Plan};
use ir::program::{BufferId, InstructionKind, KernelId, Scalar, ScheduleKind};
use ir::{AxisId, Bytes, DType, PrimaryMap};
use runtime::device::Seat;
use runtime::device::emulated::{Emulation, Emulator};
use runtime::device::launches::Launches;
use runtime::{Arguments, Options, Session};
use std::sync::Arc;
use support::*;

const ELEMENTS: u64 = 96;
/// Bytes of scratch that the first launch leaves for the second.
const SCRATCH: u64 = 4 * ELEMENTS;

/// `scratch[i] = a[i] + by`, then `b[i] = 2 * scratch[95 - i]`, each with one block.
const PTX: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry first(.param .u64 a, .param .u64 b, .param .u64 by, .param .u64 s) {
	.reg .b32 %r<2>; .reg .f32 %f<4>; .reg .b64 %rd<8>;
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [by];
	ld.param.u64 %rd3, [s];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd4, %r1, 4;
	add.s64 %rd5, %rd1, %rd4;
	ld.global.f32 %f1, [%rd5];
	cvt.rn.f32.s64 %f2, %rd2;
	add.rn.f32 %f3, %f1, %f2;
	add.s64 %rd6, %rd3, %rd4;
	st.global.f32 [%rd6], %f3;
	ret;
}
.visible .entry second(.param .u64 a, .param .u64 b, .param .u64 by, .param .u64 s) {
	.reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<8>;
	ld.param.u64 %rd1, [b];
	ld.param.u64 %rd3, [s];
	mov.u32 %r1, %tid.x;
	sub.u32 %r2, 95, %r1;
	mul.wide.u32 %rd4, %r2, 4;
	add.s64 %rd5, %rd3, %rd4;
	ld.global.f32 %f1, [%rd5];
	add.rn.f32 %f2, %f1, %f1;
	mul.wide.u32 %rd6, %r1, 4;
	add.s64 %rd7, %rd1, %rd6;
	st.global.f32 [%rd7], %f2;
	ret;
}
";

fn launch(entry: &str, scratch: u64) -> Launch {
    Launch { entry: entry.into(), grid: [1, 1, 1], block: [ELEMENTS as u32, 1, 1], shared: 0, scratch }
}

/// On each of two devices, per microbatch: the kernel by `10·device + microbatch`, into a slot of its own.
fn by_hand() -> Plan {
    let mut b = Builder::new(0, &[2], 0);
    let x = b.buffer("x", DType::F32, &[ELEMENTS], 1);
    let y = b.buffer("y", DType::F32, &[ELEMENTS], 3);
    let by = Scalar { constant: 0, axes: vec![(AxisId(0), 10), (AxisId::MICROBATCH, 1)] };
    b.add(1, InstructionKind::Kernel { kernel: KernelId(0), scalars: vec![by] }, &[x], &[y]);
    b.input(0, x, &[ELEMENTS], false, &[&[]]);
    b.output(0, y, &[3, 2 * ELEMENTS], true, &[&[0]]);
    let types = [f32s(&[ELEMENTS]), f32s(&[3, 2 * ELEMENTS])];
    let mut plan = plan(vec![b.program], &types[..1], &types[1..], ScheduleKind::GPipe, 3);
    let param = |output| Param { dtype: DType::F32, elements: ELEMENTS, output };
    plan.kernels = [Kernel { domain: vec![ELEMENTS], params: vec![param(false), param(true)], scalars: 1, ..Kernel::default() }].into_iter().collect();
    let launches = [vec![launch("first", SCRATCH), launch("second", SCRATCH)]].into_iter().collect();
    plan.code = vec![Code { target: "cuda".into(), level: "sm_80".into(), object: PTX.into(), launches, library: vec![] }];
    plan
}

fn open(plan: Plan, how: Emulation) -> ir::Result<Session> {
    let plan = Arc::new(plan);
    let emulator = Arc::new(Emulator::new(&plan, how)?);
    Session::open_with(&plan, &Options::default(), move |program, seat| emulator.device(program, seat))
}

const CHECKS: Emulation = Emulation { checks: true, perturb: None };

fn step(plan: Plan) -> ir::Result<Vec<f32>> {
    let mut session = open(plan, CHECKS)?;
    session.set_inputs(&Arguments::from([(0, tensor(&[ELEMENTS], &numbers(ELEMENTS, 1)))]))?;
    session.step(&Arguments::new())?;
    let bytes = session.results(&[0])?[&0].bytes.clone();
    Ok(bytes.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect())
}

#[test]
fn launches_share_scratch_and_scalars_follow_device_and_microbatch() {
    let x = numbers(ELEMENTS, 1);
    let mut want = Vec::new();
    for microbatch in 0..3 {
        for device in 0..2 {
            want.extend(x.iter().rev().map(|v| 2.0 * (v + (10 * device + microbatch) as f32)));
        }
    }
    assert_eq!(step(by_hand()).unwrap(), want);
}

/// What is refused or fails, with the PTX text or the plan changed.
fn failure(change: impl Fn(&mut Plan)) -> String {
    let mut plan = by_hand();
    change(&mut plan);
    step(plan).unwrap_err().to_string()
}

fn with_text(from: &'static str, to: &'static str) -> String {
    assert!(PTX.contains(from));
    failure(|p| p.code[0].object = PTX.replace(from, to).into())
}

#[test]
fn what_kernels_do_wrong_ends_the_run_with_kernel_and_line() {
    let text = with_text("sub.u32 %r2, 95, %r1", "sub.u32 %r2, 96, %r1");
    assert!(text.contains("E0643") && text.contains("out-of-bounds access in second, block (0, 0, 0), thread (0, 0, 0), PTX line 28"), "{text}");
    assert!(text.contains("the end of `scratch` (384 bytes)") && text.contains("PTX line 28: ld.global.f32 %f1, [%rd5];"), "{text}");
    assert!(text.contains("it computes %0 (test.mlir:2)"), "{text}");
    // What a kernel only reads it may not write, and what is another's buffer it may not touch.
    let text = with_text("st.global.f32 [%rd6], %f3", "st.global.f32 [%rd5], %f3");
    assert!(text.contains("`x` (384 bytes), which is only read"), "{text}");
    let text = with_text("ld.global.f32 %f1, [%rd5];\n\tcvt", "ld.global.f32 %f1, [%rd5+768];\n\tcvt");
    assert!(text.contains("out-of-bounds access in first"), "{text}");
    // Scratch holds nothing before the first launch.
    let text = with_text("st.global.f32 [%rd6], %f3;", "");
    assert!(text.contains("read of uninitialised memory in second"), "{text}");
}

#[test]
fn what_the_emulator_cannot_execute_is_refused_when_opening() {
    let text = with_text("cvt.rn.f32.s64", "tex.2d.f32.s64");
    assert!(text.contains("E0644") && text.contains("PTX line 14"), "{text}");
    let text = failure(|p| p.code[0].launches = [vec![launch("third", SCRATCH)]].into_iter().collect());
    assert!(text.contains("E0603") && text.contains("third"), "{text}");
    let text = failure(|p| p.code[0].target = "cpu".into());
    assert!(text.contains("E0607") && text.contains("--target cuda:sm_80"), "{text}");
    let text = failure(|p| p.code.clear());
    assert!(text.contains("E0609"), "{text}");
}

#[test]
fn instructions_that_do_not_fit_their_kernel_are_refused_when_opening() {
    let text = failure(|p| p.kernels[KernelId(0)].params[1].elements = 97 * 2);
    assert!(text.contains("E0602") && text.contains("needs 194 elements"), "{text}");
    let text = failure(|p| p.kernels[KernelId(0)].scalars = 2);
    assert!(text.contains("E0602") && text.contains("takes 2 run-time scalars and is given 1"), "{text}");
    let text = failure(|p| p.code[0].launches = [vec![launch("first", SCRATCH), launch("second", 4 * SCRATCH)]].into_iter().collect());
    assert!(text.contains("E0602") && text.contains("differ in its size"), "{text}");
    let text = failure(|p| p.code[0].launches = [vec![launch("first", 1 << 60)]].into_iter().collect());
    assert!(text.contains("E0601") && text.contains("of scratch"), "{text}");
}

#[test]
fn launches_are_resolved_for_a_rank() {
    let plan = by_hand();
    let seat = Seat::new(&plan.programs[0], 1, 3);
    let launches = Launches::new(&plan.programs[0], &plan.kernels, &plan.code[0], &seat).unwrap();
    let started = launches.all().next().unwrap();
    let mut words = Vec::new();
    started.parameters(&started.launches[0], 0x1000, 0x9000, 2, &mut words);
    assert_eq!(words, [0x1000, 0x1000 + 384 + 2 * 384, 12, 0x9000], "two buffers, a scalar, scratch");
    started.parameters(&launch("other", 0), 0x1000, 0x9000, 1, &mut words);
    assert_eq!(words, [0x1000, 0x1000 + 384 + 384, 11], "scratch only where the launch has any");
    assert_eq!((launches.scratch(), started.buffers.len(), started.buffers[1].written), (384, 2, true));
    let mut askew = plan.clone();
    askew.programs[0].buffers[BufferId(0)].offset = 8;
    askew.programs[0].arena = Bytes(askew.programs[0].arena.0 + 64);
    let refused = Launches::new(&askew.programs[0], &askew.kernels, &askew.code[0], &seat).unwrap_err();
    assert!(refused.to_string().contains("multiple of 16 bytes"), "{refused}");
    let none = Code { launches: PrimaryMap::new(), ..plan.code[0].clone() };
    assert!(Launches::new(&plan.programs[0], &plan.kernels, &none, &seat).unwrap_err().to_string().contains("nothing starts"));
}
