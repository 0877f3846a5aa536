//! Addresses, loads, gathers and stores of a kernel's buffers and of its row buffers.

use super::Emitter;
use super::builder::{Elem, Ptr, Ty, Val};
use super::node::Points;
use crate::elementwise::{from_storage, stored_in, to_storage};
use crate::nest::Nest;
use crate::schedule::buffer_shape;
use ir::kernel::{Affine, NodeId, NodeKind};

impl Emitter<'_> {
    /// Whether what varies over `mask` is a vector here.
    pub(super) fn is_vector(&self, mask: u32) -> bool {
        self.nest.vector.is_some_and(|v| mask & (1 << v) != 0)
    }

    /// The element index of an access without its part along the vectorised dimension's lanes: that of the first lane.
    fn linear(&mut self, index: &Affine, strides: &[i64]) -> Val {
        let mut sum = self.b.index(index.offset);
        for &(scalar, coefficient) in &index.scalars {
            let scalar = self.b.scalar_argument(scalar);
            sum = self.add_scaled(sum, scalar, coefficient);
        }
        let mut order: Vec<usize> = self.nest.parallel.iter().chain(&self.nest.reduced).copied().collect();
        if self.block.is_some() {
            // The vectorised loop is the innermost then; what varies less comes first, to leave the loop.
            order.sort_by_key(|&d| self.nest.vector == Some(d));
        }
        for d in order {
            if strides[d] != 0 {
                let at = self.indices[d].expect("invariant: an access is inside the loops it varies over");
                sum = self.add_scaled(sum, at, strides[d]);
            }
        }
        sum
    }
    fn add_scaled(&mut self, sum: Val, v: Val, by: i64) -> Val {
        let product = if by == 1 {
            v
        } else {
            let by = self.b.index(by);
            self.b.mul(v, by)
        };
        let zero = self.b.index(0);
        if sum == zero { product } else { self.b.add(sum, product) }
    }
    /// `index + lane·stride` in every lane; invalid lanes repeat the first.
    fn lane_indices(&mut self, index: Val, stride: i64) -> Val {
        let width = self.lanes;
        let steps: Vec<i64> = (0..width.lanes).map(|l| if l < width.valid { i64::from(l) * stride } else { 0 }).collect();
        let steps = self.b.int_vector(Elem::I64, &steps);
        self.b.add(steps, index)
    }

    /// `Load` and `Gather`.
    pub(super) fn load(&mut self, id: NodeId) -> Val {
        let node = &self.kernel.nodes[id];
        let strides = &self.nest.loads[id];
        let (param, index, gathered) = match &node.kind {
            NodeKind::Load { param, index } => (*param, index, None),
            NodeKind::Gather { param, index, at, stride, limit } => (*param, index, Some((*at, *stride, *limit))),
            _ => unreachable!("invariant: only loads and gathers read"),
        };
        let dtype = self.kernel.params[param as usize].dtype;
        let base = self.buffers[param as usize];
        let mut linear = self.linear(index, strides);
        if let Some((at, stride, limit)) = gathered {
            let at = self.clamped(at, limit);
            let stride = self.b.index(stride);
            let moved = self.b.mul(at, stride);
            linear = self.b.add(moved, linear);
        }
        let along = self.nest.vector.filter(|_| self.is_vector(self.nest.varies[id])).map(|v| strides[v]);
        let elem = stored_in(dtype, self.half_hardware);
        let stored = match along {
            None => {
                let from = self.b.offset(base, linear, elem);
                self.b.load(from, Ty::scalar(elem))
            }
            Some(1) if linear.ty.lanes == 0 => self.read_contiguous(base, linear, elem),
            Some(stride) => {
                let lanes = self.lane_indices_of(linear, stride);
                self.b.gather(base, lanes, elem)
            }
        };
        from_storage(&mut self.b, stored, dtype)
    }
    fn lane_indices_of(&mut self, index: Val, stride: i64) -> Val {
        self.lane_indices(index, stride)
    }
    /// As many elements as lanes are valid, from `index` on; other lanes repeat the first.
    fn read_contiguous(&mut self, base: Ptr, index: Val, elem: Elem) -> Val {
        let width = self.lanes;
        let from = self.b.offset(base, index, elem);
        if width.valid == 1 {
            let one = self.b.load(from, Ty::scalar(elem));
            return self.b.broadcast(one, width.lanes);
        }
        let v = self.b.load(from, Ty { elem, lanes: width.valid });
        if width.valid == width.lanes {
            return v;
        }
        let mask: Vec<u32> = (0..width.lanes).map(|l| if l < width.valid { l } else { 0 }).collect();
        self.b.shuffle(v, v, &mask)
    }

    /// Makes store `number`.
    pub(super) fn write(&mut self, number: usize) {
        let store = &self.kernel.stores[number];
        let strides = &self.nest.stores[number];
        let dtype = self.kernel.params[store.param as usize].dtype;
        let base = self.buffers[store.param as usize];
        let v = self.value(store.value);
        let rounded = self.is_rounded(store.value);
        let v = to_storage(&mut self.b, v, dtype, self.half_hardware, rounded);
        let index = self.linear(&store.index, strides);
        if !self.is_vector(Nest::mask(strides) | self.nest.varies[store.value]) {
            let to = self.b.offset(base, index, v.ty.elem);
            self.b.store(v, to);
            return;
        }
        let width = self.lanes;
        let v = self.b.broadcast(v, width.lanes);
        let along = self.nest.vector.map_or(0, |d| strides[d]);
        match (along, width.valid) {
            (1, 1) | (0, _) => {
                // A value that varies where its place does not: the last element is what stays.
                let one = self.b.extract(v, width.valid - 1);
                let to = self.b.offset(base, index, one.ty.elem);
                self.b.store(one, to);
            }
            (1, valid) => {
                let part = if valid == width.lanes { v } else { self.b.shuffle(v, v, &(0..valid).collect::<Vec<u32>>()) };
                let to = self.b.offset(base, index, part.ty.elem);
                self.b.store(part, to);
            }
            (stride, valid) => {
                let lanes = self.lane_indices(index, stride);
                self.b.scatter(v, base, lanes, valid);
            }
        }
    }

    /// Where the current value of a kept node is in its row buffer.
    fn row_slot(&mut self, id: NodeId) -> Ptr {
        let mut index = self.b.index(0);
        let shape = buffer_shape(self.nest, self.schedule.lanes, id);
        for (position, (d, _)) in shape.iter().enumerate() {
            if !self.nest.dims[*d].reduced {
                continue;
            }
            let stride: u64 = shape[position + 1..].iter().map(|(_, n)| *n).product();
            let at = self.indices[*d].expect("invariant: a kept value is inside the loops it varies over");
            index = self.add_scaled(index, at, stride as i64);
        }
        let row = self.rows[id].expect("invariant: kept nodes have a row buffer");
        let elem = self.computed_in(id);
        self.b.offset(row, index, elem)
    }
    pub(super) fn keep(&mut self, id: NodeId) {
        let slot = self.row_slot(id);
        let v = self.value(id);
        self.b.store(v, slot);
    }
    pub(super) fn restore(&mut self, id: NodeId) {
        let slot = self.row_slot(id);
        let lanes = if self.is_vector(self.nest.varies[id]) { self.lanes.lanes } else { 0 };
        let ty = Ty { elem: self.computed_in(id), lanes };
        let v = self.b.load(slot, ty);
        self.define(id, v);
    }
}
