//! Random kernels against the reference: loop nests, passes, tails, transposed and broadcast accesses, buffers shared by input and output, all types.
//!
//! Floats are small whole numbers, so that every sum and product is exact and results must be equal bit for bit.

use super::library::{Library, Machine};
use super::reference;
use ir::dtype::DType;
use ir::kernel::{Affine, Kernel, Node, NodeId, NodeKind, Param, Store};
use ir::op::{BinaryOp, Direction, Reducer, UnaryOp};
use mlir::CpuTarget;

/// A stream of pseudo-random numbers (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

const TYPES: &[DType] = &[
    DType::F32,
    DType::F32,
    DType::F32,
    DType::F64,
    DType::BF16,
    DType::F16,
    DType::I1,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::UI8,
    DType::UI16,
    DType::UI32,
    DType::UI64,
];

struct Generator {
    random: Random,
    kernel: Kernel,
    /// Pairs of input and output that share a buffer.
    shared: Vec<(u32, u32)>,
}

impl Generator {
    fn push(&mut self, dtype: DType, kind: NodeKind) -> NodeId {
        self.kernel.nodes.push(Node { kind, dtype })
    }
    /// An index map over a random choice and order of at least the dimensions in `must`, and the elements it needs.
    fn map(&mut self, must: u32) -> (Affine, u64) {
        let rank = self.kernel.domain.len();
        let mut dims: Vec<usize> = (0..rank).filter(|&d| must & (1 << d) != 0 || self.random.chance(if must == 0 { 70 } else { 0 })).collect();
        if self.random.chance(30) {
            for i in (1..dims.len()).rev() {
                let j = self.random.below(i + 1);
                dims.swap(i, j);
            }
        }
        let mut strides = vec![0; rank];
        let mut elements = 1;
        for &d in dims.iter().rev() {
            strides[d] = elements as i64;
            elements *= self.kernel.domain[d];
        }
        let offset = if self.random.chance(20) { self.random.below(5) as i64 } else { 0 };
        let mut scalars = vec![];
        if self.kernel.scalars > 0 && self.random.chance(20) {
            scalars.push((0, 2));
        }
        // Scalars are at most three.
        (Affine { offset, strides, scalars }, elements + offset as u64 + 6)
    }
    fn leaf(&mut self, dtype: DType) -> NodeId {
        match self.random.below(10) {
            0 => {
                let bytes = small(&mut self.random, dtype);
                self.push(dtype, NodeKind::Constant(bytes))
            }
            1 if dtype != DType::I1 => {
                let d = self.random.below(self.kernel.domain.len()) as u32;
                self.push(dtype, NodeKind::Index(d))
            }
            2 if self.kernel.scalars > 0 => self.push(dtype, NodeKind::Scalar(0)),
            3 => {
                let at = self.leaf(DType::I32);
                let (index, elements) = self.map(0);
                let limit = self.random.below(6) as u64;
                let stride = 1 + self.random.below(3) as i64;
                let param = self.param(dtype, elements + limit * stride as u64, false);
                self.push(dtype, NodeKind::Gather { param, index, at, stride, limit })
            }
            _ => {
                let (index, elements) = self.map(0);
                let param = self.param(dtype, elements, false);
                self.push(dtype, NodeKind::Load { param, index })
            }
        }
    }
    fn param(&mut self, dtype: DType, elements: u64, output: bool) -> u32 {
        self.kernel.params.push(Param { dtype, elements, output });
        self.kernel.params.len() as u32 - 1
    }
    /// A node of type `dtype`, made of the nodes there are.
    fn operand(&mut self, dtype: DType) -> NodeId {
        let nodes = self.kernel.nodes.len();
        if nodes == 0 || self.random.chance(25) {
            return self.leaf(dtype);
        }
        let from = NodeId(self.random.below(nodes) as u32);
        if self.kernel.nodes[from].dtype == dtype { from } else { self.push(dtype, NodeKind::Convert(from)) }
    }
    /// Keeps floats small.
    fn bounded(&mut self, v: NodeId) -> NodeId {
        let dtype = self.kernel.nodes[v].dtype;
        if !dtype.is_float() {
            return v;
        }
        let [low, high] = [-8.0, 8.0].map(|c| self.push(dtype, NodeKind::Constant(reference::write(dtype, reference::Value::Float(c)))));
        let v = self.push(dtype, NodeKind::Binary(BinaryOp::Maximum, v, low));
        self.push(dtype, NodeKind::Binary(BinaryOp::Minimum, v, high))
    }
    fn grow(&mut self) {
        let dtype = self.random.pick(TYPES);
        let float = dtype.is_float();
        match self.random.below(12) {
            0..=4 => {
                let op = if float {
                    self.random.pick(&[BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Multiply, BinaryOp::Maximum, BinaryOp::Minimum, BinaryOp::Remainder])
                } else if dtype == DType::I1 {
                    self.random.pick(&[BinaryOp::Add, BinaryOp::And, BinaryOp::Or, BinaryOp::Xor, BinaryOp::Maximum, BinaryOp::Multiply])
                } else {
                    self.random.pick(&[
                        BinaryOp::Add,
                        BinaryOp::Subtract,
                        BinaryOp::Multiply,
                        BinaryOp::Divide,
                        BinaryOp::Remainder,
                        BinaryOp::Maximum,
                        BinaryOp::Minimum,
                        BinaryOp::And,
                        BinaryOp::Or,
                        BinaryOp::Xor,
                        BinaryOp::ShiftLeft,
                        BinaryOp::ShiftRightArithmetic,
                        BinaryOp::ShiftRightLogical,
                        BinaryOp::Power,
                    ])
                };
                let (x, y) = (self.operand(dtype), self.operand(dtype));
                let v = self.push(dtype, NodeKind::Binary(op, x, y));
                self.bounded(v);
            }
            5 | 6 => {
                let op = if float {
                    self.random.pick(&[
                        UnaryOp::Abs,
                        UnaryOp::Negate,
                        UnaryOp::Floor,
                        UnaryOp::Ceil,
                        UnaryOp::Sign,
                        UnaryOp::RoundNearestEven,
                        UnaryOp::RoundNearestAfz,
                    ])
                } else if dtype == DType::I1 {
                    UnaryOp::Not
                } else {
                    self.random.pick(&[UnaryOp::Abs, UnaryOp::Negate, UnaryOp::Not, UnaryOp::Sign, UnaryOp::PopulationCount, UnaryOp::CountLeadingZeros])
                };
                let x = self.operand(dtype);
                self.push(dtype, NodeKind::Unary(op, x));
            }
            7 => {
                let (lhs, rhs) = (self.operand(dtype), self.operand(dtype));
                let direction = self.random.pick(&[Direction::Eq, Direction::Ne, Direction::Ge, Direction::Gt, Direction::Le, Direction::Lt]);
                self.push(DType::I1, NodeKind::Compare { direction, total: false, lhs, rhs });
            }
            8 => {
                let (p, x, y) = (self.operand(DType::I1), self.operand(dtype), self.operand(dtype));
                self.push(dtype, NodeKind::Select(p, x, y));
            }
            9 | 10 if !self.kernel.reduced.is_empty() => {
                let reducer = if float {
                    self.random.pick(&[Reducer::Add, Reducer::Max, Reducer::Min])
                } else {
                    self.random.pick(&[Reducer::Add, Reducer::Max, Reducer::Min, Reducer::And, Reducer::Or])
                };
                let x = self.operand(dtype);
                let v = self.push(dtype, NodeKind::Reduce(reducer, x));
                self.bounded(v);
            }
            _ => {
                self.leaf(dtype);
            }
        }
    }
    fn store(&mut self) {
        let value = NodeId(self.random.below(self.kernel.nodes.len()) as u32);
        let dtype = self.kernel.nodes[value].dtype;
        let varies = self.kernel.varies()[value];
        // In place where an input has the same map and type.
        if self.random.chance(50) {
            let loaded: Vec<(u32, Affine)> = self
                .kernel
                .nodes
                .values()
                .filter_map(|node| match &node.kind {
                    NodeKind::Load { param, index } => Some((*param, index.clone())),
                    _ => None,
                })
                .collect();
            for (input, index) in loaded {
                let Param { dtype: stored, elements, .. } = self.kernel.params[input as usize];
                let everywhere = (0..self.kernel.domain.len()).all(|d| varies & (1 << d) == 0 || self.kernel.domain[d] == 1 || index.strides[d] != 0);
                if stored.bytes() != dtype.bytes() || !everywhere || self.shared.iter().any(|(i, _)| *i == input) {
                    continue;
                }
                let param = self.param(dtype, elements, true);
                self.kernel.stores.push(Store { param, index, value });
                if self.kernel.may_share(input, param) {
                    self.shared.push((input, param));
                    return;
                }
                self.kernel.stores.pop();
                self.kernel.params.pop();
            }
        }
        let (index, elements) = self.map(varies);
        let param = self.param(dtype, elements, true);
        self.kernel.stores.push(Store { param, index, value });
    }
}

/// A small number of type `dtype`, as bytes.
pub(crate) fn small(random: &mut Random, dtype: DType) -> Vec<u8> {
    let v = random.below(9) as i64 - 4;
    let value = match dtype {
        t if t.is_float() => reference::Value::Float(v as f64),
        DType::I1 => reference::Value::Int(i128::from(v & 1)),
        t if t.is_unsigned() => reference::Value::Int(i128::from(v.unsigned_abs())),
        _ => reference::Value::Int(i128::from(v)),
    };
    reference::write(dtype, value)
}

pub(crate) fn random_kernel(seed: u64) -> (Kernel, Vec<(u32, u32)>) {
    let mut random = Random(seed);
    let rank = 1 + random.below(4);
    let mut domain: Vec<u64> = Vec::new();
    for _ in 0..rank {
        let left = 6000 / domain.iter().product::<u64>().max(1);
        let choices: Vec<u64> = [1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 64, 65, 100, 130].into_iter().filter(|&n| n <= left.max(1)).collect();
        domain.push(random.pick(&choices));
    }
    let reduced = (0..rank as u32).filter(|_| random.chance(40)).collect();
    let kernel = Kernel { domain, reduced, scalars: random.below(2) as u32, ..Kernel::default() };
    let mut generator = Generator { random, kernel, shared: vec![] };
    for _ in 0..3 + generator.random.below(12) {
        generator.grow();
    }
    for _ in 0..1 + generator.random.below(3) {
        generator.store();
    }
    (generator.kernel, generator.shared)
}

/// Compares the kernels of these seeds with the reference, as `compile` runs them.
pub(crate) fn check_seeds(seeds: std::ops::Range<u64>, compile: &dyn Fn(&[&Kernel]) -> Box<dyn Machine>, text: &dyn Fn(&Kernel) -> String) {
    let kernels: Vec<(Kernel, Vec<(u32, u32)>)> = seeds.clone().map(random_kernel).collect();
    let machine = compile(&kernels.iter().map(|(k, _)| k).collect::<Vec<_>>());
    for (number, (seed, (kernel, shared))) in seeds.zip(&kernels).enumerate() {
        let mut random = Random(seed ^ 0xabcdef);
        let scalars: Vec<i64> = (0..kernel.scalars).map(|_| random.below(4) as i64).collect();
        let mut buffers: Vec<Vec<u8>> = kernel
            .params
            .iter()
            .map(|p| (0..p.elements).flat_map(|_| if p.output { vec![0; p.dtype.bytes() as usize] } else { small(&mut random, p.dtype) }).collect())
            .collect();
        for (input, output) in shared {
            buffers[*output as usize] = buffers[*input as usize].clone();
        }
        let mut got = buffers.clone();
        reference::run(kernel, &mut buffers, &scalars);
        machine.call_in_place(number, &mut got, shared, &scalars);
        for (p, param) in kernel.params.iter().enumerate().filter(|(_, p)| p.output) {
            for (at, (want, have)) in buffers[p].chunks(param.dtype.bytes() as usize).zip(got[p].chunks(param.dtype.bytes() as usize)).enumerate() {
                let (want, have) = (reference::read(param.dtype, want), reference::read(param.dtype, have));
                let both_nan = matches!((want, have), (reference::Value::Float(a), reference::Value::Float(b)) if a.is_nan() && b.is_nan());
                assert!(
                    want == have || both_nan,
                    "seed {seed}, argument {p}, element {at}: {have:?} for {want:?}, shared {shared:?}, in {kernel:#?}\n{}",
                    text(kernel)
                );
            }
        }
    }
}

fn check_cpu(seeds: std::ops::Range<u64>, target: CpuTarget) {
    check_seeds(seeds, &|kernels| Box::new(Library::compile_for(kernels, target)), &|kernel| mlir::print_mlir(kernel).unwrap());
}

/// How many kernels are tried: `KERNEL_SEEDS`, or the usual few.
pub(crate) fn seeds(usual: u64) -> u64 {
    std::env::var("KERNEL_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// `KERNEL_SEEDS=3000` tries that many kernels instead of the usual few.
#[test]
fn random_kernels_equal_the_reference() {
    for start in (0..seeds(200)).step_by(40) {
        check_cpu(start..start + 40, CpuTarget::V3);
    }
}

#[test]
fn random_kernels_equal_the_reference_without_fused_products() {
    check_cpu(1000..1030, CpuTarget::V2);
}
