//! `cluster measure --cluster local:N -o TABLE`: times a fixed set of matrix products, copies and collectives on the devices that are here.
//!
//! The set covers what training steps of small models on `local:N` are made of: cubes and slabs of three orders of magnitude, products of
//! heads, copies and collectives from what a latency shows in to what memory bandwidth does, in every group of a two-dimensional mesh,
//! messages between stages, and what a step takes beside its instructions.
//! Invariant: every rank computes at the same time, so times are those of a busy machine.

use super::Cluster;
use cost_model::{AnalyticModel, CostModel, MatMulShape, Measurements};
use ir::op::Reducer;
use ir::program::{
    BatchDim, Block, Buffer, BufferId, BufferKind, CollectiveKind, Instruction, InstructionKind, MatMul, Pieces, Program, Scalar, Segment, StageId,
};
use ir::{AxisId, Bytes, DType, Diagnostic, Flops, Mesh, PrimaryMap, Result, Seconds, TensorType};

/// What one instruction measures.
enum Item {
    Product(MatMulShape),
    Copy(Bytes),
    Collective(CollectiveKind, u32, Bytes),
}

/// `[batch, m, n, k]` in f32.
const PRODUCTS: [[u64; 4]; 14] = [
    [1, 32, 32, 32],
    [1, 64, 64, 64],
    [1, 128, 128, 128],
    [1, 256, 256, 256],
    [1, 512, 512, 512],
    [1, 512, 256, 1024],
    [1, 512, 1024, 256],
    [1, 256, 1024, 512],
    [1, 1024, 256, 256],
    [1, 16, 1024, 1024],
    [1, 1024, 16, 1024],
    [32, 64, 64, 32],
    [32, 64, 32, 64],
    [16, 128, 128, 64],
];
/// The same in bf16.
const NARROW: [[u64; 4]; 3] = [[1, 64, 64, 64], [1, 256, 256, 256], [1, 512, 256, 1024]];
/// Bytes of copies, and of a device's whole buffer in collectives.
const SIZES: [u64; 6] = [1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24];
/// Elements of each of the three buffers: the largest copy.
const ELEMENTS: u64 = (1 << 24) / 4;

/// Measures.
pub(super) fn measure(cluster: &Cluster) -> Result<Measurements> {
    let devices = cluster.devices();
    if cluster.name != format!("local:{devices}") {
        return Err(Diagnostic::input("E0310", format!("the devices of `{}` are not here to be measured", cluster.name))
            .with_help("measure `local:N`, whose devices are threads of this process")
            .into());
    }
    let needed = Bytes(3 * 4 * ELEMENTS * u64::from(devices));
    if needed.0 > cluster.device.memory.0 * u64::from(devices) {
        return Err(Diagnostic::input("E0310", format!("measuring `{}` takes {needed}, more than its devices have", cluster.name))
            .with_help("measure fewer devices")
            .into());
    }
    let (program, items) = program(devices);
    let times = runtime::measure::instructions(&program)?;
    let mut table = Measurements::of(&cluster.name);
    for (item, time) in items.into_iter().zip(times) {
        // A clock's resolution is no price.
        let time = Seconds(time.0.max(1e-9));
        match item {
            Item::Product(shape) => table.add_product(shape, time),
            Item::Copy(bytes) => table.add_copy(bytes, time),
            Item::Collective(kind, size, bytes) => table.add_collective(kind, size, bytes, time),
        }
    }
    if devices > 1 {
        for (size, time) in SIZES.into_iter().zip(runtime::measure::messages(&SIZES.map(Bytes))?) {
            table.add_message(Bytes(size), Seconds(time.0.max(1e-9)));
        }
    }
    table.set_step(Seconds(runtime::measure::step(devices)?.0.max(1e-9)));
    Ok(table)
}

/// How far the formulas are from a table: medians of |formula / measured − 1| of products, copies and collectives.
pub(super) fn errors(cluster: &Cluster, table: &Measurements) -> [f64; 3] {
    let model = AnalyticModel::new(Cluster { measured: None, ..cluster.clone() });
    let measured = AnalyticModel::new(Cluster { measured: Some(table.clone().into()), ..cluster.clone() });
    let (_, items) = program(cluster.devices());
    let mut lists: [Vec<f64>; 3] = Default::default();
    for item in items {
        let (kind, formula, time) = match item {
            Item::Product(shape) => (0, model.matmul(&shape), measured.matmul(&shape)),
            Item::Copy(bytes) => (1, model.copy(bytes), measured.copy(bytes)),
            Item::Collective(kind, size, bytes) => {
                let call = cost_model::CollectiveCall { kind, bytes, dtype: DType::F32 };
                let group = cost_model::Group::within_node(size);
                (2, model.collective(&call, &group).time, measured.collective(&call, &group).time)
            }
        };
        lists[kind].push((formula.0 / time.0 - 1.0).abs());
    }
    lists.map(|mut list| {
        list.sort_by(f64::total_cmp);
        list.get(list.len() / 2).copied().unwrap_or(0.0)
    })
}

/// A program of one instruction for each item.
fn program(devices: u32) -> (Program, Vec<Item>) {
    let mesh = if devices > 2 && devices.is_multiple_of(2) { Mesh::new(&[devices / 2, 2]) } else { Mesh::new(&[devices]) };
    let bytes = 4 * ELEMENTS;
    let mut buffers = PrimaryMap::default();
    let [a, b, c] = [0u64, 1, 2].map(|i| {
        let ty = TensorType { shape: vec![ELEMENTS], dtype: DType::F32 };
        let name = format!("measured{i}");
        buffers.push(Buffer { name, ty, offset: i * bytes, slots: 1, slot_stride: bytes, kind: BufferKind::Temporary, persistent: false })
    });
    let (mut instructions, mut items) = (Vec::new(), Vec::new());
    let mut push = |item, kind, reads: &[BufferId], writes: &[BufferId]| {
        let (reads, writes) = (reads.to_vec(), writes.to_vec());
        items.push(item);
        let source = "a measurement".to_string();
        instructions.push(Instruction { kind, reads, writes, source, seconds: Seconds(0.0), flops: Flops(0.0), bytes: Bytes(0) });
    };
    let products = PRODUCTS.iter().map(|extents| (extents, DType::F32)).chain(NARROW.iter().map(|extents| (extents, DType::BF16)));
    for (&[batch, m, n, k], dtype) in products {
        push(Item::Product(MatMulShape { batch, m, n, k, dtype }), InstructionKind::MatMul(product(batch, m, n, k, dtype)), &[a, b], &[c]);
    }
    for size in SIZES {
        let block = || Block { offset: Scalar::default(), strides: vec![1] };
        push(Item::Copy(Bytes(size)), InstructionKind::Copy { shape: vec![size / 4], from: block(), to: block() }, &[a], &[b]);
    }
    let axes: Vec<AxisId> = mesh.axis_ids().collect();
    let groups: Vec<Vec<AxisId>> = if axes.len() > 1 { axes.iter().map(|a| vec![*a]).chain([axes.clone()]).collect() } else { vec![axes] };
    let mut seen = Vec::new();
    for axes in groups {
        let size = mesh.group_size(&axes);
        if size < 2 || seen.contains(&size) {
            continue;
        }
        seen.push(size);
        for (kind, whole) in [CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllToAll]
            .into_iter()
            .flat_map(|kind| SIZES.map(|whole| (kind, whole)))
        {
            // Pieces are equal, so the whole is a multiple of the group.
            let piece = (whole / 4 / u64::from(size)).max(1);
            let whole = piece * u64::from(size);
            let one = |shape: u64, peer_stride| Pieces { shape: vec![shape], strides: vec![1], peer_stride };
            let (input, output, give, take) = match kind {
                CollectiveKind::AllReduce => (a, a, one(whole, 0), one(whole, 0)),
                CollectiveKind::AllGather => (a, b, one(piece, 0), one(piece, piece)),
                CollectiveKind::ReduceScatter => (a, b, one(piece, piece), one(piece, 0)),
                CollectiveKind::AllToAll => (a, b, one(piece, piece), one(piece, piece)),
            };
            let segments = vec![Segment { input, output, give, take }];
            let instruction = InstructionKind::Collective { kind, axes: axes.clone(), reducer: Reducer::Add, dtype: DType::F32, segments };
            push(Item::Collective(kind, size, Bytes(4 * whole)), instruction, &[input], &[output]);
        }
    }
    let phases = [instructions, Vec::new(), Vec::new(), Vec::new()];
    let (inputs, outputs) = (Vec::new(), Vec::new());
    (Program { stage: StageId(0), mesh, first_rank: 0, buffers, arena: Bytes(3 * bytes), phases, chunks: vec![], inputs, outputs }, items)
}

fn product(batch: u64, m: u64, n: u64, k: u64, dtype: DType) -> MatMul {
    MatMul {
        batch: vec![BatchDim { size: batch, a: m * k, b: k * n, c: m * n }],
        m,
        n,
        k,
        offsets: (0, 0, 0),
        a_strides: (k, 1),
        b_strides: (n, 1),
        c_strides: (n, 1),
        dtype,
        result: dtype,
        accumulate: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_fits_its_buffers() {
        for devices in [1, 2, 3, 4, 6, 8] {
            let (program, items) = program(devices);
            program.verify().expect("a sound program");
            assert_eq!(program.phases[0].len(), items.len());
            for item in items {
                if let Item::Product(s) = item {
                    assert!(s.batch * s.m.max(s.n).max(s.k) * s.m.max(s.n).min(s.k.max(s.m)) <= ELEMENTS);
                }
            }
        }
    }

    #[test]
    fn only_devices_that_are_here_are_measured() {
        let cluster = Cluster::parse("dgx-a100:1").expect("a preset");
        let Err(ir::Diagnostics(list)) = measure(&cluster) else { panic!("there are no GPUs") };
        assert_eq!(list[0].code, "E0310");
    }
}
