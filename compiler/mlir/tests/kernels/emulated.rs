//! Kernels as PTX, executed by the emulator with all its checks, against the reference that the CPU's kernels are held to.
//!
//! Buffers have exactly the sizes that the kernels say and begin on a sector; what a kernel may not write is only readable, and neither outputs nor scratch
//! may be read before they are written.

use crate::build::Build;
use crate::library::Machine;
use crate::{Model, accuracy, check_models, model_cases, models, random};
use ir::dtype::DType;
use ir::kernel::Kernel;
use ir::op::Reducer;
use mlir::{CudaCode, CudaTarget};
use ptx::{Counts, Grid, Memory, Module, Options, Written};
use std::sync::Arc;

const LINE: usize = 256;

/// Bytes of device memory, aligned as allocations are.
#[derive(Clone, Copy)]
#[repr(C, align(256))]
struct Line([u8; LINE]);

/// A buffer of device memory.
struct Buffer {
    lines: Vec<Line>,
    bytes: usize,
}

impl Buffer {
    fn new(bytes: usize) -> Buffer {
        Buffer { lines: vec![Line([0; LINE]); bytes.div_ceil(LINE).max(1)], bytes }
    }
    fn of(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::new(bytes.len());
        for (line, part) in buffer.lines.iter_mut().zip(bytes.chunks(LINE)) {
            line.0[..part.len()].copy_from_slice(part);
        }
        buffer
    }
    fn to_vec(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.lines.iter().flat_map(|l| l.0).collect();
        bytes.truncate(self.bytes);
        bytes
    }
    fn pointer(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }
}

/// Compiled kernels, run by the emulator.
pub(crate) struct Emulated {
    code: CudaCode,
    module: Module,
    outputs: Vec<Vec<bool>>,
    options: Options,
}

impl Emulated {
    pub(crate) fn compile(kernels: &[&Kernel], target: CudaTarget) -> Emulated {
        let named: Vec<(String, &Kernel)> = kernels.iter().enumerate().map(|(n, k)| (format!("k{n}"), *k)).collect();
        let code = mlir::compile_cuda(&named, target).unwrap_or_else(|e| panic!("{e}"));
        let module = Module::parse(&code.ptx).unwrap_or_else(|e| panic!("{e}"));
        let outputs = kernels.iter().map(|k| k.params.iter().map(|p| p.output).collect()).collect();
        Emulated { code, module, outputs, options: Options { checks: true, distinct: true, ..Options::default() } }
    }

    /// Runs kernel `number`; what each launch did.
    pub(crate) fn run(&self, number: usize, buffers: &mut [Vec<u8>], shared: &[(u32, u32)], scalars: &[i64]) -> Vec<Counts> {
        let launches = &self.code.launches[number];
        let outputs = &self.outputs[number];
        let mut device: Vec<Buffer> = buffers.iter().map(|b| Buffer::of(b)).collect();
        let mut memory = Memory::new();
        let mut pointers: Vec<*mut u8> = device.iter_mut().map(Buffer::pointer).collect();
        for &(input, output) in shared {
            pointers[input as usize] = pointers[output as usize];
        }
        for (p, buffer) in device.iter().enumerate() {
            // SAFETY: the buffers live, and nothing else touches them, until the last launch has ended.
            unsafe { memory.register(format!("argument {p}"), pointers[p], buffer.bytes, outputs[p]) };
            if outputs[p] && shared.iter().all(|&(_, output)| output as usize != p) {
                memory.track(&Arc::new(Written::new(pointers[p], buffer.bytes)));
            }
        }
        let mut scratch = Buffer::new(launches.iter().map(|l| l.scratch).max().unwrap_or(0) as usize);
        let mut params: Vec<u64> = pointers.iter().map(|p| p.expose_provenance() as u64).collect();
        params.extend(scalars.iter().map(|&s| s as u64));
        if scratch.bytes > 0 {
            let pointer = scratch.pointer();
            params.push(pointer.expose_provenance() as u64);
            // SAFETY: as above.
            unsafe { memory.register("scratch", pointer, scratch.bytes, true) };
            memory.track(&Arc::new(Written::new(pointer, scratch.bytes)));
        }
        let mut counts = Vec::new();
        for launch in launches {
            let entry = self.module.entry(&launch.entry).expect("an entry for every launch");
            let grid = Grid { grid: launch.grid, block: launch.block, dynamic_shared: launch.shared };
            let given = if launch.scratch > 0 { &params[..] } else { &params[..buffers.len() + scalars.len()] };
            counts.push(ptx::launch(&self.module, entry, grid, given, &memory, &self.options).unwrap_or_else(|e| panic!("kernel {number}: {e}")));
        }
        for (p, buffer) in device.iter().enumerate().filter(|(p, _)| outputs[*p]) {
            buffers[p] = buffer.to_vec();
        }
        counts
    }
}

impl Machine for Emulated {
    fn call_in_place(&self, number: usize, buffers: &mut [Vec<u8>], shared: &[(u32, u32)], scalars: &[i64]) {
        self.run(number, buffers, shared, scalars);
    }
}

fn text(kernel: &Kernel) -> String {
    mlir::print_cuda_mlir(kernel).unwrap()
}

fn emulated(target: CudaTarget) -> impl Fn(&[&Kernel]) -> Box<dyn Machine> {
    move |kernels| Box::new(Emulated::compile(kernels, target))
}

fn copied_back(rows: u64, columns: u64, dtype: DType) -> Kernel {
    let mut b = Build::new(&[rows, columns], &[]);
    let x = b.input_strided(dtype, vec![1, rows as i64]);
    let y = b.input(dtype, &[0, 1]);
    let z = b.add(x, y);
    b.output(z, &[0, 1]);
    b.0
}

/// A permutation of four dimensions, as heads are split from and joined to the width of a model.
fn heads(batch: u64, length: u64, heads: u64, width: u64) -> Kernel {
    let mut b = Build::new(&[batch, heads, length, width], &[]);
    let (h, l) = (width as i64, (heads * width) as i64);
    let x = b.input_strided(DType::F32, vec![length as i64 * l, h, l, 1]);
    b.output(x, &[0, 1, 2, 3]);
    b.0
}

/// A sum of squares of everything.
pub(crate) fn sum_of_all(elements: u64) -> Kernel {
    let mut b = Build::new(&[elements], &[0]);
    let x = b.input(DType::F32, &[0]);
    let square = b.mul(x, x);
    let sum = b.reduce(Reducer::Add, square);
    b.output(sum, &[]);
    b.0
}

/// Kernels of the shapes that only GPUs treat apart: sums cut over blocks, rows in shared memory, few threads a row, tiles, rows that are not aligned.
pub(crate) fn gpu_cases() -> Vec<Model> {
    let mut cases = vec![
        ("sum of all", sum_of_all(100_003), 1e-4),
        ("sum of all, aligned", sum_of_all(1 << 17), 1e-4),
        ("sum of few", sum_of_all(50), 1e-6),
        ("long column sum", models::column_sum(5000, 24), 1e-5),
        ("long column sum of odd width", models::column_sum(3001, 7), 1e-5),
        ("long column softmax", models::column_softmax(3000, 12), 1e-4),
        ("vocabulary softmax", models::softmax(2, 50_257), 1e-4),
        ("vocabulary softmax, aligned", models::softmax(3, 50_304), 1e-4),
        ("vocabulary cross entropy", models::cross_entropy(3, 50_257), 1e-5),
        ("model width norm", models::layer_norm(5, 768), 1e-5),
        ("model width norm backward", models::layer_norm_backward(5, 768), 2e-5),
        ("wide norm", models::layer_norm(3, 8192), 1e-4),
        ("wide norm backward", models::layer_norm_backward(2, 5120), 1e-4),
        ("aligned adam", models::adam(4096), 1e-6),
        ("aligned bf16", models::add_bf16(4096), 0.0),
        ("heads", heads(2, 33, 3, 8), 0.0),
        ("heads, aligned", heads(2, 64, 4, 32), 0.0),
    ];
    for (rows, columns) in [(33, 65), (64, 64), (128, 96), (1, 500), (500, 1), (2, 1000), (100, 36)] {
        cases.push(("transpose", models::transpose(rows, columns), 0.0));
        cases.push(("transposed addition", copied_back(rows, columns, DType::F32), 0.0));
        cases.push(("transposed addition in bf16", copied_back(rows, columns, DType::BF16), 0.0));
    }
    cases
}

fn check(cases: &[Model], target: CudaTarget, seeds: &[Option<u64>]) {
    let mut machine = Emulated::compile(&cases.iter().map(|(_, kernel, _)| kernel).collect::<Vec<_>>(), target);
    for &perturb in seeds {
        machine.options.perturb = perturb;
        check_models(cases, &machine, &text);
    }
}

#[test]
fn kernels_of_models_are_right() {
    check(&model_cases(), CudaTarget::Sm80, &[None]);
    check(&model_cases(), CudaTarget::Sm90, &[None]);
}

#[test]
fn kernels_of_models_are_right_in_the_shapes_of_gpus() {
    check(&gpu_cases(), CudaTarget::Sm80, &[None]);
    check(&gpu_cases(), CudaTarget::Sm90, &[None]);
}

/// Approximate instructions within their documented bounds, whatever they give, stay within what the kernels may be off by.
#[test]
fn approximate_instructions_stay_within_tolerances() {
    check(&model_cases(), CudaTarget::Sm90, &[Some(1), Some(2), Some(3)]);
}

/// `KERNEL_SEEDS=3000` tries that many kernels instead of the usual few.
#[test]
fn random_kernels_equal_the_reference() {
    for start in (0..random::seeds(160)).step_by(40) {
        random::check_seeds(start..start + 40, &emulated(CudaTarget::Sm90), &text);
    }
}

#[test]
fn random_kernels_equal_the_reference_on_older_devices() {
    random::check_seeds(1000..1040, &emulated(CudaTarget::Sm80), &text);
}

#[test]
fn f32_functions_keep_their_bounds() {
    accuracy::check_unary(false, &emulated(CudaTarget::Sm90));
}

#[test]
fn f64_functions_keep_their_bounds() {
    accuracy::check_unary(true, &emulated(CudaTarget::Sm90));
}

#[test]
fn binary_functions_keep_their_bounds() {
    accuracy::check_binary(&emulated(CudaTarget::Sm90));
}

#[test]
fn in_place_updates_are_right() {
    let kernel = models::adam(1000);
    let machine = Emulated::compile(&[&kernel], CudaTarget::Sm90);
    let inputs: Vec<Vec<u8>> = kernel.params.iter().map(|p| models::fill(p.dtype, p.elements)).collect();
    let mut apart = inputs.clone();
    machine.call(0, &mut apart, &[]);
    let mut shared = inputs.clone();
    let pairs = [(0, 7), (2, 8), (3, 9)];
    for (input, output) in pairs {
        shared[output as usize] = inputs[input as usize].clone();
    }
    machine.call_in_place(0, &mut shared, &pairs, &[]);
    assert!((7..10).all(|output| apart[output] == shared[output]));
}

/// Sums over many blocks are added in a fixed order.
#[test]
fn sums_repeat_bit_for_bit() {
    let kernel = sum_of_all(100_003);
    let machine = Emulated::compile(&[&kernel], CudaTarget::Sm90);
    let inputs: Vec<Vec<u8>> = kernel.params.iter().map(|p| models::fill(p.dtype, p.elements)).collect();
    let sum = || {
        let mut buffers = inputs.clone();
        machine.call(0, &mut buffers, &[]);
        buffers[1].clone()
    };
    assert_eq!(sum(), sum());
}

/// Compares what the generator says that kernels move with what the emulator counts, launch by launch, by `agree`.
fn check_traffic(kernels: &[&Kernel], agree: &dyn Fn(u64, u64) -> bool) {
    let machine = Emulated::compile(kernels, CudaTarget::Sm90);
    for (number, kernel) in kernels.iter().enumerate() {
        let mut buffers: Vec<Vec<u8>> = kernel.params.iter().map(|p| models::fill(p.dtype, p.elements)).collect();
        let counts = machine.run(number, &mut buffers, &[], &vec![0; kernel.scalars as usize]);
        let traffic = mlir::cuda_traffic(&format!("k{number}"), kernel).unwrap();
        assert_eq!(traffic.len(), counts.len());
        for (launch, (said, done)) in traffic.iter().zip(&counts).enumerate() {
            let place = || format!("launch {launch} of {kernel:#?}: {said:?}, and {done:?}\n{}", text(kernel));
            assert!(agree(said.read, done.loads.distinct * ptx::SECTOR), "{}", place());
            assert_eq!(said.written, done.stores.distinct * ptx::SECTOR, "{}", place());
        }
    }
}

#[test]
fn counted_sectors_are_those_of_the_emulator() {
    let cases: Vec<Model> = model_cases().into_iter().chain(gpu_cases()).collect();
    check_traffic(&cases.iter().map(|(_, kernel, _)| kernel).collect::<Vec<_>>(), &|said, done| said == done);
}

/// LLVM drops loads whose values turn out not to matter, which random kernels have. Computed indices depend on data, and so do the sectors they lead to.
#[test]
fn counted_sectors_of_random_kernels_are_at_least_those_of_the_emulator() {
    let kernels: Vec<Kernel> = (0..120).map(|seed| random::random_kernel(seed).0).collect();
    let plain = |k: &&Kernel| !k.nodes.values().any(|n| matches!(n.kind, ir::kernel::NodeKind::Gather { .. }));
    check_traffic(&kernels.iter().filter(plain).collect::<Vec<_>>(), &|said, done| said >= done);
}
