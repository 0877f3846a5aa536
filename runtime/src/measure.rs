//! Times instructions on the devices and the transport that plans run on, messages between stages, and what a step takes beside.
//!
//! All ranks of a program execute the same instruction again and again, so that a time holds while every other device is as busy, as in a step.
//! A time is wall time from a common start until the last rank has finished, over the repetitions; of several such samples the median.
//! Invariant: every rank passes every barrier, also after a failure, so that none is left waiting.

use crate::arena::Place;
use crate::device::cpu::CpuDevice;
use crate::device::{Device, Position, Seat};
use crate::transport::collective::Collective;
use crate::transport::local::Hub;
use crate::transport::{Fabric, Interrupted, region};
use crate::worker::Programs;
use ir::id::PrimaryMap;
use ir::program::{Buffer, BufferId, BufferKind, Instruction, InstructionKind, Phase, Program, ScheduleKind, StageId};
use ir::{Bytes, DType, Diagnostic, Diagnostics, Flops, Mesh, Result, Seconds, TensorType};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Samples of an instruction.
const SAMPLES: usize = 5;
/// How long a sample should take.
const SAMPLE: Duration = Duration::from_millis(20);
/// How often all ranks are told and answer.
const STEPS: usize = 501;
/// How long a rank waits for another.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Times every instruction of the first phase of `program`: computing ones and collectives, in order.
///
/// # Errors
/// What a device refuses or cannot allocate, and what fails while it runs.
pub fn instructions(program: &Program) -> Result<Vec<Seconds>> {
    program.verify().map_err(|e| Diagnostic::input("E0602", format!("this plan is inconsistent: {e}")).with_help("compile the model again"))?;
    let ranks = program.mesh.devices();
    let hub = Hub::new(vec![program.clone()].into(), ScheduleKind::GPipe, 1, TIMEOUT)?;
    let mut devices = Vec::new();
    for rank in 0..ranks {
        let seat = Seat::new(program, rank, 1);
        let mut device = CpuDevice::new(program, &PrimaryMap::default(), None, &seat)?;
        // Small numbers of every type, and no page that was never touched.
        device.write(0, &vec![0x3c; program.arena.0 as usize]);
        devices.push((device, seat));
    }
    let shared = Shared { program, common: Common { barrier: Barrier::new(ranks as usize), repeats: AtomicU32::new(1), failure: Mutex::default() } };
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = devices.into_iter().map(|(device, seat)| scope.spawn(|| shared.rank(device, seat, &hub))).collect();
        let mut times = threads.into_iter().map(|thread| thread.join().expect("invariant: a measuring thread does not panic"));
        let first = times.next().unwrap_or_default();
        times.for_each(drop);
        first
    });
    match shared.common.failure.into_inner().unwrap_or_else(PoisonError::into_inner).or_else(|| hub.failure()) {
        Some(failure) => Err(failure.into()),
        None => Ok(times),
    }
}

/// Times messages of these sizes between two stages of a device each: half of the way there and back.
///
/// # Errors
/// As [`instructions`].
pub fn messages(sizes: &[Bytes]) -> Result<Vec<Seconds>> {
    sizes.iter().map(|&bytes| message(bytes)).collect()
}

fn message(bytes: Bytes) -> Result<Seconds> {
    let elements = (bytes.0 / 4).max(1);
    let stage = |stage: u32| {
        let mut buffers = PrimaryMap::default();
        let [out, back] = [0u64, 1].map(|i| {
            let ty = TensorType { shape: vec![elements], dtype: DType::F32 };
            let (name, kind) = (format!("message{i}"), BufferKind::Temporary);
            buffers.push(Buffer { name, ty, offset: i * 4 * elements, slots: 1, slot_stride: 4 * elements, kind, persistent: false })
        });
        let other = StageId(1 - stage);
        let make = |kind, reads: &[BufferId], writes: &[BufferId]| {
            let (reads, writes) = (reads.to_vec(), writes.to_vec());
            Instruction { kind, reads, writes, source: "a measurement".into(), seconds: Seconds(0.0), flops: Flops(0.0), bytes }
        };
        let send = |channel, from| make(InstructionKind::Send { to: other, channel }, &[from], &[]);
        let receive = |channel, to| make(InstructionKind::Receive { from: other, channel }, &[], &[to]);
        let instructions = if stage == 0 { vec![send(0, out), receive(1, back)] } else { vec![receive(0, out), send(1, out)] };
        Program {
            stage: StageId(stage),
            mesh: Mesh::new(&[1]),
            first_rank: stage,
            buffers,
            arena: Bytes(8 * elements),
            phases: [instructions, Vec::new(), Vec::new(), Vec::new()],
            chunks: vec![],
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    };
    let programs: Programs = vec![stage(0), stage(1)].into();
    let hub = Hub::new(programs.clone(), ScheduleKind::GPipe, 1, TIMEOUT)?;
    let shared = Common { barrier: Barrier::new(2), repeats: AtomicU32::new(1), failure: Mutex::default() };
    let rank = |rank: u32| -> Seconds {
        let work = || -> Result<Seconds, Interrupted> {
            let program = &programs[rank as usize];
            let device = CpuDevice::new(program, &PrimaryMap::default(), None, &Seat::new(program, 0, 1)).map_err(failed)?;
            let mut transport = hub.clone().transport(rank);
            let arena = device.arena();
            transport.attach(arena)?;
            let here = |d: Diagnostic| Interrupted::Here(Box::new(d));
            let (give, take) = (transport.link(1 - rank, rank, true).map_err(here)?, transport.link(1 - rank, 1 - rank, false).map_err(here)?);
            let place = |i: usize| region(arena, &Place::of(&program.buffers[BufferId(i as u32)]), 0);
            let (out, back) = (place(0), place(usize::from(rank == 0)));
            let mut once = || {
                let mut exchange = || {
                    if rank == 0 {
                        transport.settle(out)?;
                        transport.send(give, out)?;
                        transport.receive(take, back)
                    } else {
                        transport.settle(out)?;
                        transport.receive(take, back)?;
                        transport.send(give, out)
                    }
                };
                if let Err(Interrupted::Here(d)) = exchange() {
                    shared.note(*d);
                }
            };
            let time = shared.sample(rank == 0, &mut once);
            transport.finish()?;
            Ok(time * 0.5)
        };
        work().unwrap_or_else(|e| {
            if let Interrupted::Here(d) = e {
                shared.note(*d);
            }
            Seconds(0.0)
        })
    };
    let time = std::thread::scope(|scope| {
        let threads = [0, 1].map(|r| scope.spawn(move || rank(r)));
        let [first, _] = threads.map(|t| t.join().expect("invariant: a measuring thread does not panic"));
        first
    });
    match shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner).or_else(|| hub.failure()) {
        Some(failure) => Err(failure.into()),
        None => Ok(time),
    }
}

/// Times what a step of so many ranks takes beside its instructions: the caller tells every rank's thread, and each answers.
///
/// # Errors
/// `E0608` when a thread cannot be started.
pub fn step(ranks: u32) -> Result<Seconds> {
    let (reply, replies) = channel();
    let mut ask = Vec::new();
    for rank in 0..ranks {
        let (sender, asked) = channel::<()>();
        let reply = reply.clone();
        let thread = std::thread::Builder::new().spawn(move || while asked.recv().is_ok() && reply.send(rank).is_ok() {});
        thread.map_err(|e| Diagnostic::outcome("E0608", format!("a thread for rank {rank} cannot be started: {e}")))?;
        ask.push(sender);
    }
    let mut samples: Vec<f64> = (0..STEPS)
        .map(|_| {
            let start = Instant::now();
            let told = ask.iter().filter(|a| a.send(()).is_ok()).count();
            replies.iter().take(told).for_each(drop);
            start.elapsed().as_secs_f64()
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    Ok(Seconds(samples[STEPS / 2]))
}

/// What all ranks of a measurement share.
struct Common {
    barrier: Barrier,
    /// How often the instruction is executed in a sample; rank 0 decides.
    repeats: AtomicU32,
    failure: Mutex<Option<Diagnostic>>,
}

fn failed(d: Diagnostics) -> Interrupted {
    Interrupted::Here(Box::new(d.0.into_iter().next().expect("invariant: an error has a diagnostic")))
}

struct Shared<'a> {
    program: &'a Program,
    common: Common,
}

impl Common {
    fn note(&self, failure: Diagnostic) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }

    fn failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Warms up, chooses how often to repeat, and takes the samples.
    fn sample(&self, decides: bool, once: &mut dyn FnMut()) -> Seconds {
        let together = |repeats: u32, once: &mut dyn FnMut()| {
            self.barrier.wait();
            // A failed run only keeps the others company.
            let repeats = if self.failed() { 0 } else { repeats };
            self.barrier.wait();
            let start = Instant::now();
            (0..repeats).for_each(|_| once());
            self.barrier.wait();
            start.elapsed().as_secs_f64() / f64::from(repeats.max(1))
        };
        together(1, once);
        let first = together(2, once);
        if decides {
            let repeats = (SAMPLE.as_secs_f64() / first.max(1e-9)).clamp(1.0, 20_000.0);
            self.repeats.store(repeats as u32, Ordering::SeqCst);
        }
        self.barrier.wait();
        let repeats = self.repeats.load(Ordering::SeqCst);
        let mut samples: Vec<f64> = (0..SAMPLES).map(|_| together(repeats, once)).collect();
        samples.sort_by(f64::total_cmp);
        Seconds(samples[SAMPLES / 2])
    }
}

impl Shared<'_> {
    /// One rank's part; its times are the common ones.
    fn rank(&self, mut device: CpuDevice, seat: Seat, hub: &Arc<Hub>) -> Vec<Seconds> {
        let mut transport = hub.clone().transport(seat.rank);
        if let Err(Interrupted::Here(d)) = transport.attach(device.arena()) {
            self.common.note(*d);
        }
        let mut times = Vec::new();
        for (i, instruction) in self.program.phase(Phase::Before).iter().enumerate() {
            let collective = match &instruction.kind {
                InstructionKind::Collective { kind, axes, reducer, dtype, segments } => {
                    let members = seat.group(&self.program.mesh, self.program.first_rank, axes);
                    let made = Collective::new(self.program, members.len(), *kind, *reducer, *dtype, segments, &instruction.source)
                        .and_then(|collective| Ok((transport.group(&members)?, collective)));
                    made.map_err(|d| self.common.note(d)).ok()
                }
                _ => None,
            };
            let position = Position { phase: Phase::Before, instruction: i as u32, microbatch: 0 };
            let mut once = || match &collective {
                Some((group, collective)) => {
                    if let Err(Interrupted::Here(d)) = transport.collective(*group, collective, 0) {
                        self.common.note(*d);
                    }
                }
                None => {
                    if let Err(d) = device.execute(position) {
                        d.0.into_iter().for_each(|d| self.common.note(d));
                    }
                }
            };
            times.push(self.common.sample(seat.device == 0, &mut once));
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::op::Reducer;
    use ir::program::{Buffer, BufferKind, Instruction, MatMul, Pieces, Segment, StageId};
    use ir::{Bytes, DType, Flops, Mesh, TensorType};

    #[test]
    fn products_and_collectives_take_time() {
        let mut buffers = PrimaryMap::default();
        let ids: Vec<_> = (0..3u64)
            .map(|i| {
                let ty = TensorType { shape: vec![64 * 64], dtype: DType::F32 };
                let name = format!("b{i}");
                buffers.push(Buffer { name, ty, offset: i * 16384, slots: 1, slot_stride: 16384, kind: BufferKind::Temporary, persistent: false })
            })
            .collect();
        let instruction = |kind| Instruction {
            kind,
            reads: ids[..2].to_vec(),
            writes: ids[2..].to_vec(),
            source: "measured".into(),
            seconds: Seconds(0.0),
            flops: Flops(0.0),
            bytes: Bytes(0),
        };
        let product = MatMul {
            batch: Vec::new(),
            m: 64,
            n: 64,
            k: 64,
            offsets: (0, 0, 0),
            a_strides: (64, 1),
            b_strides: (64, 1),
            c_strides: (64, 1),
            dtype: DType::F32,
            result: DType::F32,
            accumulate: false,
        };
        let whole = Pieces { shape: vec![4096], strides: vec![1], peer_stride: 0 };
        let segments = vec![Segment { input: ids[0], output: ids[0], give: whole.clone(), take: whole }];
        let reduce = InstructionKind::Collective {
            kind: ir::program::CollectiveKind::AllReduce,
            axes: vec![ir::AxisId(0)],
            reducer: Reducer::Max,
            dtype: DType::F32,
            segments,
        };
        let program = Program {
            stage: StageId(0),
            mesh: Mesh::new(&[2]),
            first_rank: 0,
            buffers,
            arena: Bytes(3 * 16384),
            chunks: vec![],
            phases: [vec![instruction(InstructionKind::MatMul(product)), instruction(reduce)], Vec::new(), Vec::new(), Vec::new()],
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let times = instructions(&program).unwrap_or_else(|e| panic!("{e}"));
        assert!(times.len() == 2 && times.iter().all(|t| t.0 > 0.0 && t.0 < 1.0), "{times:?}");
    }

    #[test]
    fn messages_and_steps_take_time() {
        let times = messages(&[Bytes(4), Bytes(1 << 20)]).unwrap_or_else(|e| panic!("{e}"));
        assert!(times.len() == 2 && times[0].0 > 0.0 && times[1] > times[0] && times[1].0 < 1.0, "{times:?}");
        assert!(step(3).is_ok_and(|t| t.0 > 0.0 && t.0 < 1.0));
    }
}
