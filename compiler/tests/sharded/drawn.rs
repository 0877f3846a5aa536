//! Random graphs from lists of instructions, so that a failing one is shrunk to a small one.

use super::Random;
use super::build::Build;
use ir::op::{BinaryOp, Direction, DotDims, GatherDims, OpKind, Reducer, ScatterDims, UnaryOp};
use ir::{DType, Graph, TensorType, ValueId};

const F: DType = DType::F32;

/// One instruction of a graph being drawn: which op, and numbers that choose its operands and attributes.
pub type Draw = (u8, u16, u16, u16);

/// A graph being drawn.
pub struct Drawn {
    b: Build,
    /// Float values to read.
    values: Vec<ValueId>,
    indices: ValueId,
    start: ValueId,
    outputs: Vec<ValueId>,
}

/// Elements of a value at most.
const LARGEST: u64 = 1500;

impl Drawn {
    /// The arguments.
    pub fn new() -> Drawn {
        let mut b = Build::new("main");
        let shapes: [&[u64]; 7] = [&[5, 6], &[6, 4], &[6], &[2, 6, 5], &[], &[5, 6], &[4, 4, 3]];
        let values = shapes.iter().map(|s| b.input(F, s)).collect();
        let (indices, start) = (b.input(DType::I32, &[5]), b.input(DType::I32, &[]));
        Drawn { b, values, indices, start, outputs: vec![] }
    }

    fn shape(&self, v: ValueId) -> Vec<u64> {
        self.b.0.ty(v).shape.clone()
    }

    /// The chosen value; later ones are likelier.
    fn pick(&self, n: u16) -> ValueId {
        let n = usize::from(n);
        let last = self.values.len().min(4);
        if n % 2 == 0 { self.values[self.values.len() - 1 - n / 2 % last] } else { self.values[n / 2 % self.values.len()] }
    }

    /// A value of the same type as `v`, perhaps itself, or a constant.
    fn alike(&mut self, v: ValueId, n: u16) -> ValueId {
        let shape = self.shape(v);
        let same: Vec<ValueId> = self.values.iter().copied().filter(|&w| self.shape(w) == shape).collect();
        match usize::from(n) % (same.len() + 2) {
            0 => self.b.splat(F, &shape, f64::from(n % 3)),
            k if k <= same.len() => same[k - 1],
            _ => {
                let s = self.values[4];
                self.b.stated(OpKind::Broadcast { dims: vec![] }, &[s], TensorType::new(F, shape))
            }
        }
    }

    fn reduce(&mut self, x: ValueId, dims: Vec<usize>, reducer: Reducer, init: f64) -> ValueId {
        let init = self.b.splat(F, &[], init);
        self.b.op(OpKind::Reduce { dims, reducer }, &[x, init])
    }

    /// A broadcast back over `dim` of what was reduced over it.
    fn back(&mut self, x: ValueId, dim: usize, shape: &[u64]) -> ValueId {
        let dims = (0..shape.len()).filter(|&d| d != dim).collect();
        self.b.stated(OpKind::Broadcast { dims }, &[x], TensorType::new(F, shape.to_vec()))
    }

    /// Adds what an instruction says, when its operands allow.
    pub fn add(&mut self, (kind, a, b, c): Draw) {
        let x = self.pick(a);
        let shape = self.shape(x);
        let rank = shape.len();
        let dim = if rank > 0 { usize::from(b) % rank } else { 0 };
        let made = match kind % 24 {
            0 => {
                let op = [UnaryOp::Negate, UnaryOp::Tanh, UnaryOp::Abs, UnaryOp::Erf][usize::from(b) % 4];
                self.b.op(OpKind::Unary(op), &[x])
            }
            1..=4 => {
                let op = [BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Multiply, BinaryOp::Maximum][usize::from(b) % 4];
                let y = self.alike(x, c);
                self.b.op(OpKind::Binary(op), &if a % 3 == 0 { [y, x] } else { [x, y] })
            }
            5 => {
                // The predicate reads an argument, whose elements are exact: no rounding can turn it.
                let argument = self.values[..7].iter().copied().find(|&v| self.shape(v) == shape).unwrap_or(self.values[4]);
                let zero = {
                    let s = self.shape(argument);
                    self.b.splat(F, &s, 0.0)
                };
                let p = self.b.op(OpKind::Compare { direction: Direction::Gt, total: false }, &[argument, zero]);
                let y = self.alike(x, c);
                self.b.op(OpKind::Select, &[p, x, y])
            }
            6 | 7 if rank < 4 => {
                let size = [2, 3, 5, 6][usize::from(c) % 4];
                let at = usize::from(b) % (rank + 1);
                let mut to = shape.clone();
                to.insert(at, size);
                if to.iter().product::<u64>() > LARGEST {
                    return;
                }
                let dims = (0..rank).map(|d| d + usize::from(d >= at)).collect();
                self.b.stated(OpKind::Broadcast { dims }, &[x], TensorType::new(F, to))
            }
            8 => {
                let mut perm: Vec<usize> = (0..rank).collect();
                let mut random = Random::new(u64::from(b));
                (1..rank).for_each(|i| perm.swap(i, random.below(i as u64 + 1) as usize));
                self.b.op(OpKind::Transpose { perm }, &[x])
            }
            9 if rank > 1 && c % 2 == 0 => {
                let d = usize::from(b) % (rank - 1);
                let mut to = shape.clone();
                to[d] *= to.remove(d + 1);
                self.b.stated(OpKind::Reshape, &[x], TensorType::new(F, to))
            }
            9 if rank > 0 && rank < 4 => {
                let Some(k) = [2, 3, 5].into_iter().cycle().skip(usize::from(c / 2) % 3).take(3).find(|k| shape[dim] % k == 0) else { return };
                let mut to = shape.clone();
                to[dim] /= k;
                to.insert(dim + usize::from(c % 4 > 1), k);
                self.b.stated(OpKind::Reshape, &[x], TensorType::new(F, to))
            }
            10 if rank > 0 && shape[dim] > 1 => {
                let (mut start, mut limit, mut stride) = (vec![0; rank], shape.clone(), vec![1; rank]);
                start[dim] = u64::from(c) % (shape[dim] - 1);
                limit[dim] = shape[dim] - u64::from(c / 7) % (shape[dim] - start[dim]).min(2);
                stride[dim] = 1 + u64::from(c / 3) % 2;
                self.b.op(OpKind::Slice { start, limit, stride }, &[x])
            }
            11 if rank > 0 => self.b.op(OpKind::Reverse { dims: vec![dim] }, &[x]),
            12 if rank > 0 => {
                let mut low = vec![0; rank];
                let (mut high, mut interior) = (low.clone(), vec![0; rank]);
                (low[dim], high[dim], interior[dim]) = (i64::from(c % 3) - 1, i64::from(c / 3 % 3), u64::from(c / 9 % 2));
                let value = self.b.splat(F, &[], f64::from(c / 18 % 2));
                self.b.op(OpKind::Pad { low, high, interior }, &[x, value])
            }
            13 if rank > 0 => {
                let y = self.alike(x, c);
                self.b.op(OpKind::Concatenate { dim }, &[x, y])
            }
            14..=16 if rank > 0 => {
                let all = c % 5 == 0;
                let dims = if all { (0..rank).collect() } else { vec![dim] };
                let (reducer, init) =
                    [(Reducer::Add, 0.0), (Reducer::Max, f64::NEG_INFINITY), (Reducer::Add, 0.0), (Reducer::Min, f64::INFINITY), (Reducer::Add, 1.0)]
                        [usize::from(c / 5) % 5];
                self.reduce(x, dims, reducer, init)
            }
            17 if rank > 0 => {
                // A softmax along a dimension.
                let top = self.reduce(x, vec![dim], Reducer::Max, f64::NEG_INFINITY);
                let top = self.back(top, dim, &shape);
                let shifted = self.b.op(OpKind::Binary(BinaryOp::Subtract), &[x, top]);
                let e = self.b.op(OpKind::Unary(UnaryOp::Exponential), &[shifted]);
                let sum = self.reduce(e, vec![dim], Reducer::Add, 0.0);
                let sum = self.back(sum, dim, &shape);
                self.b.op(OpKind::Binary(BinaryOp::Divide), &[e, sum])
            }
            18 | 19 => {
                let y = self.pick(b);
                let other = self.shape(y);
                let pairs: Vec<(usize, usize)> = (0..rank).flat_map(|l| (0..other.len()).map(move |r| (l, r))).filter(|&(l, r)| shape[l] == other[r]).collect();
                let Some(&(l, r)) = pairs.get(usize::from(c) % pairs.len().max(1)) else { return };
                let mut d = DotDims { lhs_contract: vec![l], rhs_contract: vec![r], ..DotDims::default() };
                if let Some(&(l, r)) = pairs.iter().find(|p| p.0 != l && p.1 != r).filter(|_| c % 3 > 0) {
                    let (lhs, rhs) = if c % 3 == 1 { (&mut d.lhs_batch, &mut d.rhs_batch) } else { (&mut d.lhs_contract, &mut d.rhs_contract) };
                    lhs.push(l);
                    rhs.push(r);
                }
                let Ok(to) = ir::infer::dot_shape(&d, self.b.0.ty(x), self.b.0.ty(y)) else { return };
                if to.iter().product::<u64>() > LARGEST || to.len() > 4 {
                    return;
                }
                self.b.op(OpKind::Dot(d), &[x, y])
            }
            20 if rank > 0 => {
                let mut slice_sizes = shape.clone();
                slice_sizes[dim] = 1;
                let dims = GatherDims {
                    offset_dims: (1..rank).collect(),
                    collapsed_slice_dims: vec![dim],
                    start_index_map: vec![dim],
                    index_vector_dim: 1,
                    slice_sizes,
                    ..GatherDims::default()
                };
                self.b.op(OpKind::Gather(dims), &[x, self.indices])
            }
            21 if rank > 0 && shape[0] == 5 => {
                // Rows are added to zeros, or to ones.
                let to: Vec<u64> = std::iter::once(7).chain(shape[1..].iter().copied()).collect();
                let onto = self.b.splat(F, &to, f64::from(c % 2));
                let dims = ScatterDims {
                    update_window_dims: (1..rank).collect(),
                    inserted_window_dims: vec![0],
                    scatter_dims_to_operand_dims: vec![0],
                    index_vector_dim: 1,
                    ..ScatterDims::default()
                };
                self.b.op(OpKind::Scatter { dims, reducer: Reducer::Add }, &[onto, self.indices, x])
            }
            22 if rank > 0 => {
                let mut starts = vec![x];
                let zero = self.b.splat(DType::I32, &[], 0.0);
                starts.extend((0..rank).map(|d| if d == dim { self.start } else { zero }));
                let mut sizes = shape.clone();
                sizes[dim] = sizes[dim].div_ceil(2);
                let part = self.b.op(OpKind::DynamicSlice { sizes }, &starts);
                if c % 2 == 0 {
                    part
                } else {
                    starts.insert(1, part);
                    self.b.op(OpKind::DynamicUpdateSlice, &starts)
                }
            }
            23 if c % 3 == 0 => {
                let low = self.b.stated(OpKind::Convert, &[x], TensorType::new(DType::BF16, shape.clone()));
                self.b.stated(OpKind::Convert, &[low], TensorType::new(F, shape))
            }
            23 if rank > 0 && c % 3 == 1 => {
                let i = self.b.stated(OpKind::Iota { dim }, &[], TensorType::new(F, shape));
                self.b.op(OpKind::Binary(BinaryOp::Add), &[x, i])
            }
            23 => {
                let y = self.pick(b);
                let both = self.b.with_regions(OpKind::Barrier, &[x, y], vec![]);
                self.values.push(both[1]);
                both[0]
            }
            _ => return,
        };
        if self.b.0.ty(made).elements() > LARGEST {
            return;
        }
        self.values.push(made);
        if c % 7 == 0 {
            self.outputs.push(made);
        }
    }

    /// The graph; what nothing reads is an output.
    pub fn finish(mut self) -> Graph {
        let users = self.b.0.users();
        let unread: Vec<ValueId> =
            self.b.0.ops.values().flat_map(|o| o.results.clone()).filter(|&v| users[v].is_empty() && !self.outputs.contains(&v)).collect();
        self.outputs.extend(unread);
        self.b.0.outputs = self.outputs;
        self.b.0
    }
}
