//! Plans written by hand, small enough to check by hand.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "every test file uses its own part of this, and tests have no readers outside")]

use ir::graph::{Graph, InputAttributes, Module, OutputAttributes};
use ir::kernel::Kernel;
use ir::op::Reducer;
use ir::plan::{ClusterSummary, Code, Interface, MemoryReport, Plan, Request, Schedule, SolveReport, StagePlan, StageTimes};
use ir::program::{
    Binding, Buffer, BufferId, BufferKind, CollectiveKind, Instruction, InstructionKind, KernelId, MatMul, Pieces, Program, ScheduleKind, Segment, StageId,
};
use ir::{AxisId, Bytes, DType, Flops, Mesh, PrimaryMap, Seconds, Sharding, TensorType};
use std::sync::Arc;

/// A program under construction.
pub struct Builder {
    pub program: Program,
}

impl Builder {
    pub fn new(stage: u32, mesh: &[u32], first_rank: u32) -> Builder {
        let program = Program {
            stage: StageId(stage),
            mesh: Mesh::new(mesh),
            first_rank,
            buffers: PrimaryMap::new(),
            arena: Bytes(0),
            chunks: vec![],
            phases: Default::default(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        Builder { program }
    }
    pub fn buffer(&mut self, name: &str, dtype: DType, shape: &[u64], slots: u32) -> BufferId {
        let ty = TensorType::new(dtype, shape);
        let slot_stride = ty.bytes().max(1).next_multiple_of(64);
        let offset = self.program.arena.0;
        self.program.arena = Bytes(offset + slot_stride * u64::from(slots));
        let kind = BufferKind::Temporary;
        self.program.buffers.push(Buffer { name: name.into(), ty, offset, slots, slot_stride, kind, persistent: true })
    }
    /// A buffer in the place of another.
    pub fn overlay(&mut self, name: &str, dtype: DType, shape: &[u64], over: BufferId) -> BufferId {
        let ty = TensorType::new(dtype, shape);
        let offset = self.program.buffers[over].offset;
        let slot_stride = ty.bytes().next_multiple_of(64);
        assert!(slot_stride <= self.program.buffers[over].bytes());
        self.program.buffers.push(Buffer { name: name.into(), ty, offset, slots: 1, slot_stride, kind: BufferKind::Temporary, persistent: false })
    }
    pub fn add(&mut self, phase: usize, kind: InstructionKind, reads: &[BufferId], writes: &[BufferId]) {
        let source = format!("%{} (test.mlir:{})", self.program.phases[phase].len(), phase + 1);
        let (seconds, flops, bytes) = (Seconds(0.0), Flops(0.0), Bytes(0));
        self.program.phases[phase].push(Instruction { kind, reads: reads.to_vec(), writes: writes.to_vec(), source, seconds, flops, bytes });
    }
    pub fn input(&mut self, index: u32, buffer: BufferId, shape: &[u64], microbatched: bool, dims: &[&[u32]]) {
        self.program.inputs.push(binding(index, buffer, shape, microbatched, dims));
    }
    pub fn output(&mut self, index: u32, buffer: BufferId, shape: &[u64], microbatched: bool, dims: &[&[u32]]) {
        self.program.outputs.push(binding(index, buffer, shape, microbatched, dims));
    }
}

fn binding(index: u32, buffer: BufferId, shape: &[u64], microbatched: bool, dims: &[&[u32]]) -> Binding {
    let dims = dims.iter().map(|axes| axes.iter().map(|a| AxisId(*a)).collect()).collect();
    Binding { index, buffer, global_shape: shape.to_vec(), microbatched, sharding: Sharding { dims, partial: Vec::new() } }
}

pub fn matmul(m: u64, k: u64, n: u64, transposed_a: bool, accumulate: bool) -> InstructionKind {
    InstructionKind::MatMul(MatMul {
        batch: vec![],
        m,
        n,
        k,
        offsets: (0, 0, 0),
        a_strides: if transposed_a { (1, m) } else { (k, 1) },
        b_strides: (n, 1),
        c_strides: (n, 1),
        dtype: DType::F32,
        result: DType::F32,
        accumulate,
    })
}

pub fn whole(elements: u64) -> Pieces {
    Pieces { shape: vec![elements], strides: vec![1], peer_stride: 0 }
}

pub fn all_reduce(axes: &[u32], dtype: DType, buffers: &[(BufferId, u64)]) -> InstructionKind {
    InstructionKind::Collective {
        kind: CollectiveKind::AllReduce,
        axes: axes.iter().map(|a| AxisId(*a)).collect(),
        reducer: Reducer::Add,
        dtype,
        segments: buffers.iter().map(|&(b, n)| Segment { input: b, output: b, give: whole(n), take: whole(n) }).collect(),
    }
}

/// A plan around programs: `inputs` and `outputs` are the user's function.
pub fn plan(programs: Vec<Program>, inputs: &[TensorType], outputs: &[TensorType], schedule: ScheduleKind, microbatches: u32) -> Plan {
    let mut main = Graph::new("main");
    for (i, ty) in inputs.iter().enumerate() {
        main.add_input(ty.clone(), format!("%arg{i}"));
        main.input_attributes.push(InputAttributes::default());
    }
    for (i, ty) in outputs.iter().enumerate() {
        let constant = ir::op::OpKind::Constant(ir::Literal::splat(ty.clone(), 0.0));
        let loc = main.add_loc(ir::graph::LocInfo::default());
        let v = main.add(constant, vec![], ty.clone(), loc);
        main.outputs.push(v);
        main.output_attributes.push(OutputAttributes { name: format!("result[{i}]"), sharding: None });
    }
    let stages = programs
        .iter()
        .map(|p| StagePlan {
            layers: (0, 1),
            mesh: p.mesh.clone(),
            devices: (0..p.mesh.devices()).map(|d| p.first_rank + d).collect(),
            shardings: Vec::new(),
            decisions: Vec::new(),
            solve: SolveReport::default(),
            times: StageTimes::default(),
            memory: MemoryReport { arena: p.arena, ..MemoryReport::default() },
            cut: Vec::new(),
        })
        .collect();
    Plan {
        compiler: "test".into(),
        request: Request::default(),
        cluster: ClusterSummary::default(),
        source: Module { name: "test".into(), functions: vec![main], meshes: Vec::new() },
        graph: Graph::new("main"),
        interface: Interface::default(),
        layers: Vec::new(),
        depth: vec![],
        placement: Vec::new(),
        stages,
        schedule: Schedule { kind: schedule, microbatches, step: Seconds(0.0), bubble: 0.0 },
        alternatives: Vec::new(),
        by_hand: None,
        stopped: None,
        programs,
        kernels: PrimaryMap::new(),
        code: Vec::new(),
        notes: Vec::new(),
    }
}

/// Compiles C functions, one per kernel, into the plan's code; `{symbol}` stands for the kernel's symbol.
pub fn with_kernels(mut plan: Plan, kernels: Vec<(Kernel, &str)>) -> Plan {
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("kernels.c"), folder.path().join("kernels.so"));
    let text: String = kernels.iter().map(|(k, body)| format!("void {}(char **b, const long long *s) {{ {body} }}\n", k.symbol())).collect();
    std::fs::write(&source, text).unwrap();
    let status = std::process::Command::new("cc").args(["-O2", "-shared", "-fPIC", "-nostdlib", "-o"]).arg(&object).arg(&source).status().unwrap();
    assert!(status.success());
    plan.kernels = kernels.into_iter().map(|(k, _)| k).collect::<PrimaryMap<KernelId, Kernel>>();
    plan.code =
        vec![Code { target: "cpu".into(), level: "x86-64".into(), object: std::fs::read(object).unwrap(), launches: PrimaryMap::new(), library: vec![] }];
    plan
}

pub fn f32s(shape: &[u64]) -> TensorType {
    TensorType::new(DType::F32, shape)
}

/// Numbers that are exact in sums: small multiples of 1/8.
pub fn numbers(count: u64, seed: u64) -> Vec<f32> {
    (0..count).map(|i| ((i * 31 + seed * 17 + i * i % 7) % 29) as f32 / 8.0 - 1.5).collect()
}

pub fn tensor(shape: &[u64], values: &[f32]) -> Arc<runtime::Tensor> {
    Arc::new(runtime::Tensor::f32(shape, values).unwrap())
}
