//! A data-parallel linear step and pipelines, written by hand, against the same arithmetic on one thread.

mod support;

use ir::kernel::{Affine, Kernel, Node, NodeKind, Param, Store};
use ir::op::BinaryOp;
use ir::plan::{Interface, Plan};
use ir::program::{InstructionKind, KernelId, ScheduleKind, StageId};
use ir::{DType, PrimaryMap};
use runtime::{Arguments, Options, Session};
use std::sync::Arc;
use support::*;

/// `p -= g / 64` over `elements`, as the description and as C.
fn update(elements: u64) -> (Kernel, String) {
    let at = |strides: Vec<i64>| Affine { offset: 0, strides, scalars: vec![] };
    let mut nodes = PrimaryMap::new();
    let node = |kind| Node { kind, dtype: DType::F32 };
    let p = nodes.push(node(NodeKind::Load { param: 0, index: at(vec![1]) }));
    let g = nodes.push(node(NodeKind::Load { param: 1, index: at(vec![1]) }));
    let rate = nodes.push(node(NodeKind::Constant(0.015625f32.to_le_bytes().to_vec())));
    let scaled = nodes.push(node(NodeKind::Binary(BinaryOp::Multiply, g, rate)));
    let new = nodes.push(node(NodeKind::Binary(BinaryOp::Subtract, p, scaled)));
    let param = |output| Param { dtype: DType::F32, elements, output };
    let kernel = Kernel {
        domain: vec![elements],
        reduced: vec![],
        params: vec![param(false), param(false), param(true)],
        scalars: 0,
        nodes,
        stores: vec![Store { param: 2, index: at(vec![1]), value: new }],
    };
    let body = format!("for (long i = 0; i < {elements}; i++) ((float*)b[2])[i] = ((float*)b[0])[i] - ((float*)b[1])[i] * 0.015625f;");
    (kernel, body)
}

/// `w -= xᵀ·(x·w) / 64` with the batch cut over devices and microbatches, and `sum(x·w)`'s first row as the "loss".
fn data_parallel(devices: u32, microbatches: u32, batch: u64, (k, n): (u64, u64)) -> Plan {
    let rows = batch / u64::from(microbatches);
    let local = rows / u64::from(devices);
    let mut b = Builder::new(0, &[devices], 0);
    let w = b.buffer("w", DType::F32, &[k, n], 1);
    let x = b.buffer("x", DType::F32, &[local, k], microbatches);
    let y = b.buffer("y", DType::F32, &[local, n], microbatches);
    let g = b.buffer("g", DType::F32, &[k, n], 1);
    let loss = b.buffer("loss", DType::F32, &[], 1);
    let one = b.buffer("one", DType::F32, &[1, local], 1);
    let ones = b.buffer("ones", DType::F32, &[n, 1], 1);
    let sums = b.buffer("sums", DType::F32, &[1, n], 1);
    b.add(0, InstructionKind::Fill { element: 0f32.to_le_bytes().to_vec() }, &[], &[g]);
    b.add(0, InstructionKind::Fill { element: 0f32.to_le_bytes().to_vec() }, &[], &[sums]);
    b.add(0, InstructionKind::Fill { element: 1f32.to_le_bytes().to_vec() }, &[], &[one]);
    b.add(0, InstructionKind::Fill { element: 1f32.to_le_bytes().to_vec() }, &[], &[ones]);
    b.add(1, matmul(local, k, n, false, false), &[x, w], &[y]);
    b.add(1, matmul(1, local, n, false, true), &[one, y], &[sums]);
    b.add(2, matmul(k, local, n, true, true), &[x, y], &[g]);
    b.add(3, matmul(1, n, 1, false, false), &[sums, ones], &[loss]);
    b.add(3, all_reduce(&[0], DType::F32, &[(g, k * n), (loss, 1)]), &[g, loss], &[g, loss]);
    b.add(3, InstructionKind::Kernel { kernel: KernelId(0), scalars: vec![] }, &[w, g], &[w]);
    b.input(0, w, &[k, n], false, &[&[], &[]]);
    b.input(1, x, &[u64::from(microbatches), rows, k], true, &[&[0], &[]]);
    b.output(0, w, &[k, n], false, &[&[], &[]]);
    b.output(1, loss, &[], false, &[]);
    let (kernel, body) = update(k * n);
    let mut plan = plan(vec![b.program], &[f32s(&[k, n]), f32s(&[batch, k])], &[f32s(&[k, n]), f32s(&[])], ScheduleKind::GPipe, microbatches);
    plan.interface = Interface { state: vec![(0, 0)], parameters: vec![0], batch: vec![(1, Some(0))], loss: Some(1), scalars: vec![1], ..Interface::default() };
    with_kernels(plan, vec![(kernel, &body)])
}

/// The same in f64 on one thread.
fn reference(w: &mut [f64], x: &[f32], batch: usize, (k, n): (usize, usize)) -> f64 {
    let mut y = vec![0.0; batch * n];
    for i in 0..batch {
        for j in 0..n {
            y[i * n + j] = (0..k).map(|l| f64::from(x[i * k + l]) * w[l * n + j]).sum();
        }
    }
    for l in 0..k {
        for j in 0..n {
            let g: f64 = (0..batch).map(|i| f64::from(x[i * k + l]) * y[i * n + j]).sum();
            w[l * n + j] -= g * 0.015625;
        }
    }
    y.iter().sum()
}

#[test]
fn a_data_parallel_step_gives_what_one_device_gives() {
    let (batch, k, n) = (16u64, 6u64, 5u64);
    for (devices, microbatches) in [(1, 1), (2, 1), (4, 2), (8, 2), (1, 4), (3, 1)] {
        let batch = if devices == 3 { 15 } else { batch };
        let plan = Arc::new(data_parallel(devices, microbatches, batch, (k, n)));
        let mut session = Session::open(&plan, &Options::default()).unwrap();
        assert!(session.memory().iter().all(|m| m.arena as u64 == plan.programs[0].arena.0));
        let w0 = numbers(k * n, 1);
        let x = numbers(batch * k, 2);
        let mut w: Vec<f64> = w0.iter().map(|v| f64::from(*v) / 8.0).collect();
        let start: Vec<f32> = w.iter().map(|v| *v as f32).collect();
        let notes = session.set_inputs(&Arguments::from([(0, tensor(&[k, n], &start))])).unwrap();
        assert!(notes[0].message.contains("arg1"), "{notes:?}");
        for step in 0..3 {
            let given = Arguments::from([(1, tensor(&[batch, k], &x))]);
            let report = session.step(&given).unwrap();
            let expected = reference(&mut w, &x, batch as usize, (k as usize, n as usize));
            assert_eq!(report.step, step);
            let (number, name, value) = &report.scalars[0];
            assert_eq!((*number, name.as_str()), (1, "result[1]"));
            assert!((value - expected).abs() < 1e-3 * expected.abs().max(1.0), "{devices} {microbatches} {step}: {value} {expected}");
        }
        let state = session.state().unwrap();
        for (got, want) in state[&0].values().unwrap().iter().zip(&w) {
            assert!((got - want).abs() < 1e-4 * want.abs().max(1.0), "{got} {want}");
        }
    }
}

/// Stage 0 doubles a value (x + x by a product with 2), later stages too; the last stage's "gradient" is its value, halved on the way back.
fn pipeline(stages: u32, microbatches: u32, schedule: ScheduleKind, reuse: bool) -> Plan {
    let n = 8u64;
    let mut programs = Vec::new();
    let total = u64::from(microbatches) * n;
    for s in 0..stages {
        let mut b = Builder::new(s, &[1], s);
        let input = b.buffer("in", DType::F32, &[1, n], if s == 0 { microbatches } else { 1 });
        let two = b.buffer("two", DType::F32, &[n, n], 1);
        let half = b.buffer("half", DType::F32, &[n, n], 1);
        let out = b.buffer("out", DType::F32, &[1, n], 1);
        let kept = b.buffer("kept", DType::F32, &[1, n], ir::program::in_flight(schedule, StageId(s), stages, microbatches));
        let gradient = if reuse { b.overlay("gradient", DType::F32, &[1, n], out) } else { b.buffer("gradient", DType::F32, &[1, n], 1) };
        let back = b.buffer("back", DType::F32, &[1, n], 1);
        let sum = b.buffer("sum", DType::F32, &[1, n], 1);
        let eye = b.buffer("eye", DType::F32, &[n, n], 1);
        b.add(0, InstructionKind::Fill { element: vec![0; 4] }, &[], &[sum]);
        let last = s + 1 == stages;
        if s > 0 {
            b.add(1, InstructionKind::Receive { from: StageId(s - 1), channel: 0 }, &[], &[input]);
        }
        b.add(1, matmul(1, n, n, false, false), &[input, eye], &[kept]);
        b.add(1, matmul(1, n, n, false, false), &[input, two], &[out]);
        if !last {
            b.add(1, InstructionKind::Send { to: StageId(s + 1), channel: 0 }, &[out], &[]);
        }
        if last {
            b.add(2, matmul(1, n, n, false, false), &[kept, two], &[gradient]);
        } else {
            b.add(2, InstructionKind::Receive { from: StageId(s + 1), channel: 1 }, &[], &[gradient]);
        }
        // The sum is over what was kept in the forward, so a microbatch in the wrong slot shows.
        b.add(2, matmul(1, n, n, false, true), &[kept, eye], &[sum]);
        b.add(2, matmul(1, n, n, false, false), &[gradient, half], &[back]);
        b.add(2, matmul(1, n, n, false, true), &[back, eye], &[sum]);
        if s > 0 {
            b.add(2, InstructionKind::Send { to: StageId(s - 1), channel: 1 }, &[back], &[]);
        } else {
            b.input(0, input, &[u64::from(microbatches), 1, n], true, &[&[], &[]]);
        }
        b.input(1, two, &[n, n], false, &[&[], &[]]);
        b.input(2, half, &[n, n], false, &[&[], &[]]);
        b.input(3, eye, &[n, n], false, &[&[], &[]]);
        b.output(s, sum, &[1, n], false, &[&[], &[]]);
        programs.push(b.program);
    }
    let square = f32s(&[n, n]);
    let outputs: Vec<_> = (0..stages).map(|_| f32s(&[1, n])).collect();
    plan(programs, &[f32s(&[total]), square.clone(), square.clone(), square], &outputs, schedule, microbatches)
}

#[test]
fn pipelines_of_every_size_and_schedule_move_every_microbatch() {
    let n = 8usize;
    let diagonal = |v: f32| (0..n * n).map(|i| if i % (n + 1) == 0 { v } else { 0.0 }).collect::<Vec<f32>>();
    for schedule in [ScheduleKind::GPipe, ScheduleKind::OneFOneB] {
        for stages in [1u32, 2, 3, 4, 6] {
            for microbatches in [1u32, 2, 3, 8] {
                for reuse in [false, true] {
                    let plan = Arc::new(pipeline(stages, microbatches, schedule, reuse));
                    let mut session = Session::open(&plan, &Options::default()).unwrap();
                    let x = numbers(u64::from(microbatches) * n as u64, 5);
                    let square = [n as u64, n as u64];
                    session
                        .set_inputs(&Arguments::from([
                            (0, tensor(&[x.len() as u64], &x)),
                            (1, tensor(&square, &diagonal(2.0))),
                            (2, tensor(&square, &diagonal(0.5))),
                            (3, tensor(&square, &diagonal(1.0))),
                        ]))
                        .unwrap();
                    for _ in 0..3 {
                        session.step(&Arguments::new()).unwrap();
                    }
                    let results = session.results(&(0..stages).collect::<Vec<_>>()).unwrap();
                    let column = |j: usize| (0..microbatches as usize).map(|m| f64::from(x[m * n + j])).sum::<f64>();
                    for s in 0..stages {
                        // Kept: x·2^s. Back: 2^stages·x, halved once for every stage from the last down to this one.
                        let factor = 2f64.powi(s as i32) + 2f64.powi(stages as i32) * 0.5f64.powi((stages - s) as i32);
                        let got = results[&s].values().unwrap();
                        for (j, g) in got.iter().enumerate() {
                            assert_eq!(*g, factor * column(j), "stage {s} of {stages}, {microbatches} microbatches, {schedule:?}");
                        }
                    }
                }
            }
        }
    }
}
