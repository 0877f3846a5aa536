//! Kernels executed by the emulator of PTX with all its checks, for tests.

use gpu_library::{DECLARATIONS, Kernels};
use ir::interp::{Precision, Tensor};
use ir::op::OpKind;
use ir::{Graph, Module, TensorType};
use ptx::{Grid, Memory, Options, Written};
use std::sync::Arc;

/// Bytes of device memory: as many as are needed and no more, at an address as aligned as a plan's buffers are.
struct Buffer {
    lines: Vec<u8>,
    bytes: usize,
}

const ALIGNMENT: usize = 64;

impl Buffer {
    fn new(bytes: usize) -> Buffer {
        Buffer { lines: vec![0xA5; bytes + ALIGNMENT], bytes }
    }
    fn slice(&mut self) -> &mut [u8] {
        let skip = self.lines.as_ptr().align_offset(ALIGNMENT);
        &mut self.lines[skip..skip + self.bytes]
    }
}

/// A module of these kernels for sm_80.
pub(crate) fn module(kernels: &Kernels) -> String {
    format!(".version 7.0\n.target sm_80\n.address_size 64\n{DECLARATIONS}{}", kernels.text)
}

/// What the kernels give. Buffers have exactly their sizes; results and scratch may not be read before they are written, and operands may not change.
pub(crate) fn execute(kernels: &Kernels, operands: &[Tensor], results: &[TensorType], perturb: Option<u64>) -> Result<Vec<Tensor>, String> {
    let text = module(kernels);
    let module = ptx::Module::parse(&text).map_err(|e| format!("{e}: {}", text.lines().nth(e.line as usize - 1).unwrap_or_default()))?;
    let given: Vec<Vec<u8>> = operands.iter().map(Tensor::to_bytes).collect();
    let scratch = kernels.launches[0].scratch as usize;
    let sizes = given.iter().map(Vec::len).chain(results.iter().map(|t| t.bytes() as usize)).chain((scratch > 0).then_some(scratch));
    let mut buffers: Vec<Buffer> = sizes.map(Buffer::new).collect();
    let mut memory = Memory::new();
    let mut addresses = Vec::new();
    for (i, buffer) in buffers.iter_mut().enumerate() {
        let slice = buffer.slice();
        if let Some(bytes) = given.get(i) {
            slice.copy_from_slice(bytes);
        }
        let written = Arc::new(Written::new(slice.as_ptr(), slice.len()));
        if let Some(bytes) = given.get(i) {
            written.mark(0, bytes.len() as u64);
        }
        addresses.push(memory.register_slice(format!("p{i}"), slice));
        memory.track(&written);
    }
    let parameters: Vec<u64> = addresses.iter().map(ptx::Borrowed::address).collect();
    let options = Options { checks: true, perturb, ..Options::default() };
    for launch in &kernels.launches {
        let entry = module.entry(&launch.entry).ok_or_else(|| format!("there is no {}", launch.entry))?;
        let grid = Grid { grid: launch.grid, block: launch.block, dynamic_shared: launch.shared };
        ptx::launch(&module, entry, grid, &parameters, &memory, &options).map_err(|f| {
            let line = text.lines().nth(f.line as usize - 1).unwrap_or_default();
            format!("{f}: {line}")
        })?;
    }
    drop(addresses);
    for (buffer, bytes) in buffers.iter_mut().zip(&given) {
        assert!(buffer.slice() == bytes, "an operand was written");
    }
    let read = |(buffer, ty): (&mut Buffer, &TensorType)| Tensor::from_bytes(ty.clone(), buffer.slice()).expect("a buffer of the type's size");
    Ok(buffers[given.len()..].iter_mut().zip(results).map(read).collect())
}

/// What the op gives by its definition.
pub(crate) fn defined(op: &OpKind, operands: &[Tensor], results: &[TensorType]) -> Vec<Tensor> {
    let mut graph = Graph::new("op");
    let inputs = operands.iter().map(|x| graph.add_input(x.ty.clone(), "x")).collect();
    let loc = graph.add_loc(ir::graph::LocInfo::default());
    let op = graph.add_op(op.clone(), inputs, results.to_vec(), loc, &[]);
    graph.outputs = graph.ops[op].results.to_vec();
    ir::interp::run(&Module::default(), &graph, operands, Precision::AsTyped).unwrap_or_else(|e| panic!("{e}"))
}

/// Numbers that look random, in [-1, 1).
pub(crate) fn numbers(ty: &TensorType, seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f64 / f64::from(1u32 << 23) - 1.0
    };
    let values: Vec<f64> = (0..ty.elements()).map(|_| next()).collect();
    if ty.dtype.is_float() {
        return Tensor::from_f64s(ty.clone(), &values).expect("as many as elements");
    }
    Tensor::from_i64s(ty.clone(), &values.iter().map(|x| i64::from(*x > -0.5)).collect::<Vec<_>>()).expect("as many as elements")
}

/// Whether all elements are near: `relative` of each, and 4·10⁻⁵ of the greatest.
pub(crate) fn check(what: &str, got: &Tensor, want: &Tensor, relative: f64) {
    let (got, want) = (got.to_f64s(), want.to_f64s());
    let greatest = want.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        let same = g == w || g.is_nan() && w.is_nan();
        assert!(same || (g - w).abs() <= relative * w.abs() + 4e-5 * greatest.max(0.05).max(0.05), "{what}: element {i} is {g} where {w} is expected");
    }
}
