//! Loads, gathers and stores of a thread's group of points.
//!
//! Offsets that do not depend on the thread move the buffer's address; the rest of an index has the kernel's width.

use super::combine::WARP;
use super::emit::{Writer, access_alignment};
use super::mapping;
use crate::elementwise::{from_storage, stored_in, to_storage};
use crate::emit::builder::{Elem, Ptr, Ty, Val};
use crate::emit::node::Points;
use crate::error::Error;
use crate::nest::Nest;
use crate::schedule;
use ir::kernel::{Affine, NodeId, NodeKind};

impl Writer<'_> {
    fn is_vector(&self, mask: u32) -> bool {
        self.mapping.lanes > 1 && self.nest.vector.is_some_and(|v| mask & (1 << v) != 0)
    }

    /// The address that an access's constant and run-time parts lead to.
    fn base(&mut self, param: u32, index: &Affine, elem: Elem) -> Ptr {
        let i64 = Ty::scalar(Elem::I64);
        let mut base = self.buffers[param as usize];
        if index.offset != 0 {
            let offset = self.b.int(i64, index.offset);
            base = self.b.offset(base, offset, elem);
        }
        for &(scalar, coefficient) in &index.scalars {
            let (scalar, coefficient) = (self.b.scalar_argument(scalar), self.b.int(i64, coefficient));
            let offset = self.b.mul(scalar, coefficient);
            base = self.b.offset(base, offset, elem);
        }
        base
    }

    /// The index from there on, of the first lane.
    fn linear(&mut self, strides: &[i64]) -> Val {
        let mut sum: Option<Val> = None;
        for (d, &stride) in strides.iter().enumerate().filter(|(_, s)| **s != 0) {
            let at = self.at(d);
            let part = self.b.index_mul(at, stride);
            sum = Some(sum.map_or(part, |sum| self.b.index_add(sum, part)));
        }
        sum.unwrap_or_else(|| self.b.index(0))
    }

    pub(super) fn load(&mut self, id: NodeId) -> Val {
        let node = &self.kernel.nodes[id];
        let (param, index, gathered) = match &node.kind {
            NodeKind::Load { param, index } => (*param, index, None),
            NodeKind::Gather { param, index, at, stride, limit } => (*param, index, Some((*at, *stride, *limit))),
            _ => unreachable!("invariant: only loads and gathers read"),
        };
        let dtype = self.kernel.params[param as usize].dtype;
        let elem = stored_in(dtype, true);
        let strides = &self.nest.loads[id];
        let base = self.base(param, index, elem);
        let mut linear = self.linear(strides);
        if let Some((at, stride, limit)) = gathered {
            let at = self.clamped(at, limit);
            let at = self.b.as_index(at);
            let stride = self.b.int(at.ty, stride);
            let moved = self.b.mul(at, stride);
            linear = self.b.add(moved, linear);
        }
        let exists = self.must_exist(id);
        let stored = if !self.is_vector(self.nest.varies[id]) {
            let from = self.b.offset(base, linear, elem);
            self.load_if(exists, from, Ty::scalar(elem))
        } else {
            let (lanes, along) = (self.mapping.lanes, self.nest.vector.map_or(0, |v| strides[v]));
            if linear.ty.lanes == 0 && mapping::aligned(self.nest, index, strides, lanes) && gathered.is_none_or(|(_, s, _)| s % i64::from(lanes) == 0) {
                let from = self.b.offset(base, linear, elem);
                let ty = Ty { elem, lanes };
                self.load_if(exists, from, ty)
            } else {
                let parts: Vec<Val> = (0..lanes)
                    .map(|lane| {
                        let from = self.lane(base, linear, lane, along, elem);
                        self.load_if(exists, from, Ty::scalar(elem))
                    })
                    .collect();
                self.b.lanes_of(&parts)
            }
        };
        from_storage(&mut self.b, stored, dtype)
    }

    /// Whether the point is one, where a store of this pass may overwrite what `id` loads: the last one is some other thread's to overwrite. Barriers keep
    /// the stores of other passes apart, if there are any.
    fn must_exist(&mut self, id: NodeId) -> Option<Val> {
        let barriers = self.mapping.across || self.mapping.fold_threads > WARP;
        let in_pass = &self.plan.order.in_pass;
        let near = |s: usize| if barriers { in_pass[s].is_some() && in_pass[s] == self.current } else { in_pass[s].is_some() };
        if !(0..self.kernel.stores.len()).any(|s| near(s) && schedule::loads_target(self.kernel, s, id)) {
            return None;
        }
        self.point_exists.into_iter().chain(self.group_exists).reduce(|a, c| self.b.and(a, c))
    }

    fn load_if(&mut self, exists: Option<Val>, from: Ptr, ty: Ty) -> Val {
        match exists {
            Some(exists) => self.b.load_where(exists, from, ty, access_alignment(ty)),
            None => self.b.load_aligned(from, ty, access_alignment(ty)),
        }
    }

    /// The address of one lane's element.
    fn lane(&mut self, base: Ptr, linear: Val, lane: u32, along: i64, elem: Elem) -> Ptr {
        let first = if linear.ty.lanes > 0 { self.b.extract(linear, lane) } else { linear };
        let from = self.b.offset(base, first, elem);
        let step = self.b.int(Ty::scalar(Elem::I64), i64::from(lane) * along);
        if i64::from(lane) * along == 0 { from } else { self.b.offset(from, step, elem) }
    }

    /// Makes store `number`, which is inside a pass or once a point. What does not vary along a dimension is stored by the last of its points.
    pub(super) fn store(&mut self, number: usize, in_pass: bool) -> Result<(), Error> {
        let strides = &self.nest.stores[number];
        let places = Nest::mask(strides);
        let mut conditions: Vec<Val> = self.point_exists.into_iter().chain(self.group_exists).collect();
        let dims: Vec<usize> = self.nest.parallel.iter().chain(self.nest.reduced.iter().filter(|_| in_pass)).copied().collect();
        for dim in dims.into_iter().filter(|&d| places & (1 << d) == 0) {
            let width = if self.nest.vector == Some(dim) { u64::from(self.mapping.lanes) } else { 1 };
            if self.nest.dims[dim].extent > width {
                let last = self.b.index((self.nest.dims[dim].extent - width) as i64);
                let at = self.at(dim);
                conditions.push(self.b.compare_int("eq", at, last));
            }
        }
        if !in_pass && self.mapping.fold_threads > 1 {
            let zero = self.b.index(0);
            conditions.push(self.b.compare_int("eq", self.fold_thread, zero));
        }
        let condition = conditions.into_iter().reduce(|a, c| self.b.and(a, c));
        self.guarded(condition, |w| {
            w.write(number);
            Ok(())
        })
    }

    fn write(&mut self, number: usize) {
        let store = &self.kernel.stores[number];
        let strides = &self.nest.stores[number];
        let dtype = self.kernel.params[store.param as usize].dtype;
        let rounded = self.is_rounded(store.value);
        let v = self.value(store.value);
        let v = to_storage(&mut self.b, v, dtype, true, rounded);
        let elem = v.ty.elem;
        let base = self.base(store.param, &store.index, elem);
        let linear = self.linear(strides);
        let (lanes, along) = (self.mapping.lanes, self.nest.vector.map_or(0, |d| strides[d]));
        if !self.is_vector(Nest::mask(strides)) {
            let v = if v.ty.lanes > 0 { self.b.extract(v, v.ty.lanes - 1) } else { v };
            let to = self.b.offset(base, linear, elem);
            self.b.store(v, to);
            return;
        }
        let v = self.b.broadcast(v, lanes);
        if mapping::aligned(self.nest, &store.index, strides, lanes) {
            let to = self.b.offset(base, linear, elem);
            self.b.store_aligned(v, to, access_alignment(v.ty));
            return;
        }
        for lane in 0..lanes {
            let to = self.lane(base, linear, lane, along, elem);
            let part = self.b.extract(v, lane);
            self.b.store(part, to);
        }
    }
}
