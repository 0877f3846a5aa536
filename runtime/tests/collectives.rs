//! Every collective on random meshes, axes, layouts, element types and reducers against its definition.

mod support;

use ir::literal::{decode, encode};
use ir::op::Reducer;
use ir::program::{CollectiveKind, InstructionKind, Pieces, ScheduleKind, Segment};
use ir::{AxisId, DType, Mesh, TensorType};
use proptest::prelude::*;
use runtime::{Arguments, Options, Session, Tensor};
use std::sync::Arc;
use support::*;

/// A value that a device holds: small integers, different on every device and at every element, exact in every type.
fn element(device: u64, i: u64) -> f64 {
    ((device * 5 + i * 3 + i * i % 5) % 7) as f64
}

fn combine(reducer: Reducer, dtype: DType, a: f64, b: f64) -> f64 {
    let boolean = dtype == DType::I1;
    match reducer {
        Reducer::Add if boolean => a.max(b),
        Reducer::Add => a + b,
        Reducer::Mul => a * b,
        Reducer::Max => a.max(b),
        Reducer::Min => a.min(b),
        Reducer::And => ((a as i64) & (b as i64)) as f64,
        Reducer::Or => ((a as i64) | (b as i64)) as f64,
        Reducer::Xor => ((a as i64) ^ (b as i64)) as f64,
        Reducer::Replace | Reducer::General => b,
    }
}

/// Pieces of `shape` in a buffer: dense and one after another, or cut from the innermost dimension so that they interleave.
fn pieces(shape: &[u64], members: u64, interleaved: bool) -> Pieces {
    let dense = |shape: &[u64]| ir::dtype::row_major_strides(shape);
    if interleaved && !shape.is_empty() {
        let mut whole = shape.to_vec();
        *whole.last_mut().unwrap() *= members;
        return Pieces { shape: shape.to_vec(), strides: dense(&whole), peer_stride: *shape.last().unwrap() };
    }
    Pieces { shape: shape.to_vec(), strides: dense(shape), peer_stride: shape.iter().product() }
}

fn places(p: &Pieces, member: u64) -> Vec<usize> {
    let total: u64 = p.shape.iter().product();
    let at = |mut linear: u64| {
        let mut offset = member * p.peer_stride;
        for (n, s) in p.shape.iter().zip(&p.strides).rev() {
            offset += linear % n * s;
            linear /= n;
        }
        offset as usize
    };
    (0..total).map(at).collect()
}

#[derive(Clone, Debug)]
struct Case {
    mesh: Vec<u32>,
    axes: Vec<u32>,
    kind: CollectiveKind,
    reducer: Reducer,
    dtype: DType,
    shapes: Vec<(Vec<u64>, bool, bool)>,
    in_place: bool,
}

fn check(case: &Case) {
    let mesh = Mesh::new(&case.mesh);
    let axes: Vec<AxisId> = case.axes.iter().map(|a| AxisId(*a)).collect();
    let members = u64::from(mesh.group_size(&axes));
    let devices = u64::from(mesh.devices());
    let every: Vec<u32> = (0..case.mesh.len() as u32).collect();
    let mut b = Builder::new(0, &case.mesh, 0);
    let (mut segments, mut inputs, mut outputs, mut arguments, mut expected) = (vec![], vec![], vec![], Arguments::new(), vec![]);
    for (number, (shape, give_interleaved, take_interleaved)) in case.shapes.iter().enumerate() {
        let one = |p: Pieces| Pieces { peer_stride: 0, strides: ir::dtype::row_major_strides(&p.shape), ..p };
        let (give, take) = (pieces(shape, members, *give_interleaved), pieces(shape, members, *take_interleaved));
        let (give, take) = match case.kind {
            CollectiveKind::AllReduce => (one(give), one(take)),
            CollectiveKind::AllGather => (one(give), take),
            CollectiveKind::ReduceScatter => (give, one(take)),
            CollectiveKind::AllToAll => (give, take),
        };
        let piece: u64 = shape.iter().product();
        let count = |p: &Pieces| if p.peer_stride == 0 { piece } else { piece * members };
        let (given, taken) = (count(&give), count(&take));
        let input = b.buffer("input", case.dtype, &[1, given], 1);
        let in_place = case.in_place && case.kind == CollectiveKind::AllReduce;
        let output = if in_place { input } else { b.buffer("output", case.dtype, &[1, taken], 1) };
        let value = |device: u64, i: u64| if case.dtype == DType::I1 { element(device, i) % 2.0 } else { element(device, i) };
        let bytes = (0..devices).flat_map(|d| (0..given).flat_map(move |i| encode(case.dtype, value(d, i)))).collect();
        arguments.insert(number as u32, Arc::new(Tensor::new(TensorType::new(case.dtype, [devices, given]), bytes).unwrap()));
        inputs.push(TensorType::new(case.dtype, [devices, given]));
        outputs.push(TensorType::new(case.dtype, [devices, taken]));
        b.input(number as u32, input, &[devices, given], false, &[&every, &[]]);
        b.output(number as u32, output, &[devices, taken], false, &[&every, &[]]);
        let mut whole = vec![0.0; (devices * taken) as usize];
        for device in 0..devices {
            let group = mesh.group_of(device as u32, &axes);
            let me = group.iter().position(|d| u64::from(*d) == device).unwrap() as u64;
            let row = &mut whole[(device * taken) as usize..((device + 1) * taken) as usize];
            for (from, &peer) in group.iter().enumerate() {
                let source = places(&give, if case.kind == CollectiveKind::AllReduce || case.kind == CollectiveKind::AllGather { 0 } else { me });
                let reduces = matches!(case.kind, CollectiveKind::AllReduce | CollectiveKind::ReduceScatter);
                let target = places(&take, if reduces { 0 } else { from as u64 });
                for (s, t) in source.iter().zip(&target) {
                    let v = value(u64::from(peer), *s as u64);
                    row[*t] = if reduces && from > 0 { combine(case.reducer, case.dtype, row[*t], v) } else { v };
                }
            }
        }
        expected.push(whole);
        segments.push(Segment { input, output, give, take });
    }
    let kind = InstructionKind::Collective { kind: case.kind, axes, reducer: case.reducer, dtype: case.dtype, segments };
    b.add(3, kind, &[], &[]);
    let plan = Arc::new(plan(vec![b.program], &inputs, &outputs, ScheduleKind::GPipe, 1));
    let mut session = Session::open(&plan, &Options::default()).unwrap();
    session.set_inputs(&arguments).unwrap();
    session.step(&Arguments::new()).unwrap();
    let results = session.results(&(0..expected.len() as u32).collect::<Vec<_>>()).unwrap();
    for (i, want) in expected.iter().enumerate() {
        // What the definition gives is rounded and wrapped as the type does.
        let wrapped = |v: f64| if case.dtype == DType::I4 { f64::from((v as i64 as i8) << 4 >> 4) } else { v };
        let want: Vec<f64> = want.iter().map(|v| decode(case.dtype, &encode(case.dtype, wrapped(*v))).unwrap()).collect();
        assert_eq!(&results[&(i as u32)].values().unwrap(), &want, "{case:?}");
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let mesh = prop::sample::select(vec![vec![1], vec![2], vec![3], vec![4], vec![8], vec![2, 2], vec![2, 4], vec![3, 2], vec![2, 2, 2]]);
    let kind = prop::sample::select(vec![CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllToAll]);
    let dtype =
        prop::sample::select(vec![DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::I64, DType::UI8, DType::I4, DType::UI16, DType::I1]);
    let reducer = prop::sample::select(vec![Reducer::Add, Reducer::Mul, Reducer::Max, Reducer::Min, Reducer::And, Reducer::Or, Reducer::Xor]);
    let shape = (prop::collection::vec(1u64..20, 0..4), any::<bool>(), any::<bool>());
    (mesh, kind, dtype, reducer, prop::collection::vec(shape, 1..4), any::<u8>(), any::<bool>()).prop_map(
        |(mesh, kind, dtype, reducer, shapes, order, in_place)| {
            let mut axes: Vec<u32> = (0..mesh.len() as u32).filter(|a| order >> a & 1 == 0).collect();
            if axes.is_empty() {
                axes.push(0);
            }
            if order & 0x80 != 0 {
                axes.reverse();
            }
            // Products of many small numbers leave what 16-bit floats hold exactly.
            let reducer = if dtype.is_float() && matches!(reducer, Reducer::And | Reducer::Or | Reducer::Xor) { Reducer::Add } else { reducer };
            let reducer = if dtype.is_float() && dtype.bytes() == 2 && reducer == Reducer::Mul { Reducer::Max } else { reducer };
            let shapes = if mesh.len() == 1 && mesh[0] == 8 { shapes.into_iter().take(2).collect() } else { shapes };
            Case { mesh, axes, kind, reducer, dtype, shapes, in_place }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn collectives_agree_with_their_definition(case in cases()) {
        check(&case);
    }
}

#[test]
fn large_reductions_are_shared_out_and_complete() {
    for dtype in [DType::F32, DType::BF16] {
        check(&Case {
            mesh: vec![4],
            axes: vec![0],
            kind: CollectiveKind::AllReduce,
            reducer: Reducer::Add,
            dtype,
            shapes: vec![(vec![100, 333], false, false), (vec![], false, false), (vec![7], false, false)],
            in_place: true,
        });
    }
}

#[test]
fn pieces_that_leave_their_buffer_are_refused() {
    let mut b = Builder::new(0, &[2], 0);
    let x = b.buffer("x", DType::F32, &[8], 1);
    let y = b.buffer("y", DType::F32, &[8], 1);
    let segment = Segment { input: x, output: y, give: whole(8), take: Pieces { peer_stride: 8, ..whole(8) } };
    let kind = InstructionKind::Collective {
        kind: CollectiveKind::AllGather,
        axes: vec![AxisId(0)],
        reducer: Reducer::Add,
        dtype: DType::F32,
        segments: vec![segment],
    };
    b.add(0, kind, &[x], &[y]);
    let plan = Arc::new(plan(vec![b.program], &[], &[], ScheduleKind::GPipe, 1));
    let refused = Session::open(&plan, &Options::default()).err().unwrap();
    assert_eq!(refused.0[0].code, "E0602");
    assert!(refused.to_string().contains("all-gather of %0 (test.mlir:1)"), "{refused}");
}
