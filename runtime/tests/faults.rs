//! A rank that fails, hangs or panics ends every rank, with one message that names it and its instruction.

mod support;

use ir::program::{InstructionKind, Program, ScheduleKind, StageId};
use ir::{DType, Diagnostic, Result};
use runtime::device::cpu::CpuDevice;
use runtime::device::{Device, Position, Region, Seat};
use runtime::{Arguments, Options, Session};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Error,
    Panic,
    Hang,
}

/// A device that misbehaves on one rank, in the backward of its second microbatch, of the second step.
struct Faulty {
    inner: CpuDevice,
    fault: Option<Fault>,
    seen: u32,
}

impl Device for Faulty {
    fn arena(&self) -> Region {
        self.inner.arena()
    }
    fn execute(&mut self, position: Position) -> Result<()> {
        if position.phase == ir::program::Phase::Backward && position.microbatch == 1 && position.instruction == 1 {
            self.seen += 1;
            match self.fault.filter(|_| self.seen == 2) {
                Some(Fault::Error) => return Err(Diagnostic::outcome("E0610", "rank 1 failed: the device is broken").into()),
                Some(Fault::Panic) => panic!("the device is broken"),
                // Longer than the time-out, short enough for the thread to end with the test.
                Some(Fault::Hang) => std::thread::sleep(Duration::from_millis(900)),
                None => {}
            }
        }
        self.inner.execute(position)
    }
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.inner.write(offset, bytes);
    }
    fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.inner.read(offset, bytes);
    }
    fn scratch_bytes(&self) -> usize {
        self.inner.scratch_bytes()
    }
}

/// Two stages of two devices, each with an all-reduce in the backward.
fn programs() -> Vec<Program> {
    let n = 16;
    let stage = |s: u32| {
        let mut b = Builder::new(s, &[2], 2 * s);
        let x = b.buffer("x", DType::F32, &[n], 1);
        let y = b.buffer("y", DType::F32, &[n], 1);
        if s == 0 {
            b.add(1, InstructionKind::Fill { element: 1f32.to_le_bytes().to_vec() }, &[], &[x]);
            b.add(1, InstructionKind::Send { to: StageId(1), channel: 3 }, &[x], &[]);
            b.add(2, InstructionKind::Receive { from: StageId(1), channel: 4 }, &[], &[y]);
        } else {
            b.add(1, InstructionKind::Receive { from: StageId(0), channel: 3 }, &[], &[x]);
            b.add(2, InstructionKind::Fill { element: 2f32.to_le_bytes().to_vec() }, &[], &[y]);
        }
        b.add(2, InstructionKind::Fill { element: 1f32.to_le_bytes().to_vec() }, &[], &[x]);
        b.add(2, all_reduce(&[0], DType::F32, &[(x, n)]), &[x], &[x]);
        if s == 1 {
            b.add(2, InstructionKind::Send { to: StageId(0), channel: 4 }, &[y], &[]);
        }
        b.program
    };
    vec![stage(0), stage(1)]
}

fn run(fault: Fault, faulty: u32, timeout: Duration) -> (String, Duration) {
    let plan = Arc::new(plan(programs(), &[], &[], ScheduleKind::OneFOneB, 3));
    let of = plan.clone();
    let make = move |program: &Program, seat: &Seat| {
        let inner = CpuDevice::new(program, &of.kernels, None, seat)?;
        Ok(Box::new(Faulty { inner, fault: (seat.rank == faulty).then_some(fault), seen: 0 }) as Box<dyn Device>)
    };
    let mut session = Session::open_with(&plan, &Options { timeout, trace: false }, make).unwrap();
    session.step(&Arguments::new()).unwrap();
    let begun = Instant::now();
    let failed = session.step(&Arguments::new()).unwrap_err();
    let took = begun.elapsed();
    assert_eq!(failed.0.len(), 1, "{failed}");
    assert_eq!(session.step(&Arguments::new()).unwrap_err(), failed, "a failed session stays failed");
    drop(session);
    (failed.to_string(), took)
}

#[test]
fn an_error_of_one_rank_is_the_only_message() {
    for rank in 0..4 {
        let (text, _) = run(Fault::Error, rank, Duration::from_secs(60));
        assert!(text.contains("rank 1 failed: the device is broken"), "{text}");
    }
}

#[test]
fn a_panic_names_the_rank_and_where_it_was() {
    let (text, _) = run(Fault::Panic, 3, Duration::from_secs(60));
    assert!(text.contains("rank 3 failed: the device is broken"), "{text}");
    assert!(text.contains("rank 3 (stage s1) is at the fill of %1 (test.mlir:3), in the backward of microbatch 1"), "{text}");
}

#[test]
fn a_rank_that_does_not_come_is_named_with_what_it_does_instead() {
    let (text, took) = run(Fault::Hang, 2, Duration::from_millis(300));
    // Rank 3 waits for it in the all-reduce, rank 0 for its message, and rank 1 for rank 3's; who looks at the clock first reports.
    let what = ["rank 2 did not come to the all-reduce of %2 (test.mlir:3)", "rank 2 did not come to the send on channel 4 to rank 0"];
    let behind = text.contains("rank 3 did not come to the send on channel 4 to rank 1 within 0.3 s") && text.contains("they wait themselves, and rank 2");
    assert!(behind || what.iter().any(|w| text.contains(&format!("{w} within 0.3 s"))), "{text}");
    assert!(text.contains("rank 2 (stage s1) is at the fill of %1 (test.mlir:3), in the backward of microbatch 1"), "{text}");
    assert!([0, 1, 3].iter().any(|r| text.contains(&format!("rank {r} was waiting"))), "{text}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_message_without_a_receiver_is_refused_when_opening() {
    let mut list = programs();
    list[1].phases[1].clear();
    let plan = Arc::new(plan(list, &[], &[], ScheduleKind::OneFOneB, 3));
    let refused = Session::open(&plan, &Options::default()).err().unwrap();
    assert!(refused.to_string().contains("stage s0 sends 3 messages on channel 3 that s1 does not receive"), "{refused}");
}
