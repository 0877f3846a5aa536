//! Derivatives of reductions over dimensions and over windows.
//!
//! The greatest of several equal elements: over dimensions they share, as in JAX; over windows the first is taken, as `select_and_scatter` does.
//! Small windows are differentiated position by position: each position of the window is a strided slice of the padded operand.

use super::movement;
use super::{Pulled, Site};
use crate::dtype::TensorType;
use crate::graph::{Graph, LocInfo};
use crate::op::{BinaryOp, Direction, OpKind, Reducer, Window};
use crate::trace::Tensor;
use crate::{DType, op};

/// Windows of more elements are not written out.
const MOST_POSITIONS: u64 = 64;

/// Whether a value is the reducer's neutral element by construction.
fn is_neutral(value: &Tensor, reducer: Reducer) -> bool {
    let state = value.tracer().state.borrow();
    let constant = state.graph.constant(value.value()).and_then(|l| l.splat_value());
    constant.is_some() && constant == reducer.neutral(value.dtype())
}

pub(super) fn reduce(site: &Site<'_>, dims: &[usize], reducer: Reducer) -> Pulled {
    let n = site.results.len();
    let axes: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
    let mut pulled = vec![None; site.operands.len()];
    for (i, ct) in site.cotangents.iter().enumerate() {
        let Some(ct) = ct else { continue };
        let (x, initial, y) = (&site.operands[i], &site.operands[n + i], &site.results[i]);
        let for_initial = site.wanted[n + i];
        match reducer {
            Reducer::Add => {
                pulled[i] = Some(ct.unreduce(x, &axes));
                pulled[n + i] = for_initial.then(|| ct.sum_all());
            }
            Reducer::Mul => {
                let scaled = if is_neutral(initial, reducer) { ct.clone() } else { ct * initial };
                pulled[i] = site.wanted[i].then(|| scaled.unreduce(x, &axes) * products_of_others(x, dims));
                pulled[n + i] = for_initial.then(|| (ct * x.product(&axes)).sum_all());
            }
            Reducer::Max | Reducer::Min => {
                let greatest = x.equal(&y.unreduce(x, &axes));
                let count = greatest.convert(ct.dtype()).sum(&axes);
                let count = if is_neutral(initial, reducer) { count } else { count.maximum(&count.full_like(1.0)) };
                let share = (ct / &count).unreduce(x, &axes);
                pulled[i] = Some(greatest.select(&share, &share.zeros_like()));
                pulled[n + i] = for_initial.then(|| {
                    let own = x.reduce(reducer, &axes).not_equal(y);
                    own.select(ct, &ct.zeros_like()).sum_all()
                });
            }
            Reducer::And | Reducer::Or | Reducer::Xor => {}
            Reducer::Replace | Reducer::General => return Err("its combining function is a general one".into()),
        }
    }
    Ok(pulled)
}

/// For each element the product of the others it is multiplied with: running products from both sides, by doubling. Exact where elements are zero.
fn products_of_others(x: &Tensor, dims: &[usize]) -> Tensor {
    let kept: Vec<usize> = (0..x.rank()).filter(|d| !dims.contains(d)).collect();
    let perm: Vec<usize> = kept.iter().chain(dims).copied().collect();
    let turned = x.transpose(&perm);
    let n: u64 = dims.iter().map(|&d| x.shape()[d]).product();
    if n == 0 {
        return x.clone();
    }
    let flat = turned.reshape([&turned.shape()[..kept.len()], &[n]].concat());
    let last = flat.rank() - 1;
    let shift = |t: &Tensor, by: i64| {
        let (mut low, mut high) = (vec![0; last + 1], vec![0; last + 1]);
        (low[last], high[last]) = (by, -by);
        t.pad(1.0, &low, &high, &vec![0; last + 1])
    };
    let running = |sign: i64| {
        let mut product = shift(&flat, sign);
        let mut by = 1;
        while by < n as i64 {
            product = &product * shift(&product, sign * by);
            by *= 2;
        }
        product
    };
    let others = running(1) * running(-1);
    others.reshape(turned.shape()).transpose(&movement::inverse(&perm))
}

fn dilated(n: u64, by: u64) -> i64 {
    if n == 0 { 0 } else { (n as i64 - 1) * by as i64 + 1 }
}

pub(super) fn reduce_window(site: &Site<'_>, window: &Window, reducer: Reducer) -> Pulled {
    let n = site.results.len();
    let mut pulled = vec![None; site.operands.len()];
    for (i, ct) in site.cotangents.iter().enumerate() {
        let Some(ct) = ct else { continue };
        if site.wanted[n + i] {
            return Err("the initial value of windows is also their padding".into());
        }
        let (x, initial, y) = (&site.operands[i], &site.operands[n + i], &site.results[i]);
        let positions: u64 = window.size.iter().product();
        let dilates = window.base_dilation.iter().chain(&window.window_dilation).any(|&d| d != 1);
        pulled[i] = match reducer {
            Reducer::Add => Some(window_sum(x, ct, window)),
            Reducer::Max | Reducer::Min if positions > MOST_POSITIONS && !dilates => Some(scatter_to_greatest(x, ct, window, reducer)),
            Reducer::Max | Reducer::Min | Reducer::Mul if positions <= MOST_POSITIONS => Some(by_position(x, initial, y, ct, window, reducer)),
            Reducer::Max | Reducer::Min | Reducer::Mul => return Err(format!("its windows have {positions} elements, more than {MOST_POSITIONS}")),
            Reducer::And | Reducer::Or | Reducer::Xor => None,
            Reducer::Replace | Reducer::General => return Err("its combining function is a general one".into()),
        };
    }
    Ok(pulled)
}

/// Every element goes to the windows that hold it: a sum over windows of the dilated cotangent.
fn window_sum(x: &Tensor, ct: &Tensor, window: &Window) -> Tensor {
    let rank = x.rank();
    let (mut low, mut high) = (vec![], vec![]);
    for d in 0..rank {
        let (input, extent) = (dilated(x.shape()[d], window.base_dilation[d]), dilated(window.size[d], window.window_dilation[d]));
        let output = dilated(ct.shape()[d], window.stride[d]);
        let before = extent - window.pad[d].0 - 1;
        low.push(before);
        high.push(input + extent - 1 - output - before);
    }
    let simple = window.stride.iter().all(|&s| s == 1) && low.iter().chain(&high).all(|&p| p >= 0);
    let interior: Vec<u64> = window.stride.iter().map(|s| s - 1).collect();
    let padded = if simple { ct.clone() } else { ct.pad(0.0, &low, &high, &interior) };
    let pad = if simple { low.into_iter().zip(high).collect() } else { vec![(0, 0); rank] };
    let back = Window { stride: window.base_dilation.clone(), base_dilation: vec![1; rank], pad, ..window.clone() };
    padded.reduce_window(Reducer::Add, back)
}

/// The padded operand of windows, and where each position of the window lies in it.
struct Positions<'a> {
    window: &'a Window,
    output: Vec<u64>,
    offsets: Vec<Vec<u64>>,
}

impl<'a> Positions<'a> {
    fn new(window: &'a Window, output: &[u64]) -> Positions<'a> {
        let mut offsets = vec![vec![]];
        for (size, dilation) in window.size.iter().zip(&window.window_dilation) {
            offsets = offsets.iter().flat_map(|o: &Vec<u64>| (0..*size).map(|k| [o.as_slice(), &[k * dilation]].concat())).collect();
        }
        Positions { window, output: output.to_vec(), offsets }
    }
    fn ends(&self) -> (Vec<i64>, Vec<i64>, Vec<u64>) {
        let (low, high) = self.window.pad.iter().copied().unzip();
        (low, high, self.window.base_dilation.iter().map(|d| d - 1).collect())
    }
    /// The operand padded with a scalar.
    fn pad(&self, x: &Tensor, value: &Tensor) -> Tensor {
        let (low, high, interior) = self.ends();
        if low.iter().chain(&high).all(|&p| p == 0) && interior.iter().all(|&p| p == 0) { x.clone() } else { x.pad_with(value, &low, &high, &interior) }
    }
    /// What each window has at that position.
    fn slice(&self, padded: &Tensor, offset: &[u64]) -> Tensor {
        let limit: Vec<u64> = (0..offset.len())
            .map(|d| if self.output[d] == 0 { offset[d].min(padded.shape()[d]) } else { offset[d] + (self.output[d] - 1) * self.window.stride[d] + 1 })
            .collect();
        let start: Vec<u64> = offset.iter().zip(&limit).map(|(&o, &l)| o.min(l)).collect();
        padded.slice(&start, &limit, &self.window.stride)
    }
    /// The sum of what each position's slice gives back, without the padding.
    fn gather_back(&self, x: &Tensor, padded: &Tensor, parts: Vec<Tensor>) -> Tensor {
        let mut sum: Option<Tensor> = None;
        for (offset, part) in self.offsets.iter().zip(parts) {
            let back = movement::slice(padded, &part, offset, &self.window.stride);
            sum = Some(match sum {
                Some(s) => s + back,
                None => back,
            });
        }
        let sum = sum.unwrap_or_else(|| padded.zeros_like());
        let (low, high, interior) = self.ends();
        let negated = |n: &[i64]| n.iter().map(|&k| -k).collect::<Vec<_>>();
        let whole = sum.pad(0.0, &negated(&low), &negated(&high), &vec![0; x.rank()]);
        let stride: Vec<u64> = interior.iter().map(|&k| k + 1).collect();
        whole.slice(&vec![0; x.rank()], whole.shape(), &stride)
    }
}

fn by_position(x: &Tensor, initial: &Tensor, y: &Tensor, ct: &Tensor, window: &Window, reducer: Reducer) -> Tensor {
    if ct.ty().elements() == 0 {
        return x.zeros_like();
    }
    let positions = Positions::new(window, y.shape());
    let padded = positions.pad(x, initial);
    let slices: Vec<Tensor> = positions.offsets.iter().map(|o| positions.slice(&padded, o)).collect();
    let parts = if reducer == Reducer::Mul {
        let last = slices.len() - 1;
        let mut after = vec![None; slices.len()];
        for k in (0..last).rev() {
            after[k] = Some(match &after[k + 1] {
                Some(product) => product * &slices[k + 1],
                None => slices[k + 1].clone(),
            });
        }
        let mut before = if is_neutral(initial, reducer) { ct.clone() } else { ct * initial };
        let mut parts = Vec::new();
        for (slice, after) in slices.iter().zip(after) {
            parts.push(match after {
                Some(after) => &before * after,
                None => before.clone(),
            });
            before = before * slice;
        }
        parts
    } else {
        let zero = ct.zeros_like();
        let mut free: Option<Tensor> = None;
        let mut parts = Vec::new();
        for slice in &slices {
            let equal = slice.equal(y);
            let taken = free.as_ref().map_or_else(|| equal.clone(), |free| free.and(&equal));
            parts.push(taken.select(ct, &zero));
            let others = equal.logical_not();
            free = Some(free.map_or_else(|| others.clone(), |free| free.and(&others)));
        }
        parts
    };
    positions.gather_back(x, &padded, parts)
}

/// A region of two scalars.
fn region(dtype: DType, kind: OpKind, result: DType) -> Graph {
    let mut graph = Graph::new("");
    let loc = graph.add_loc(LocInfo::default());
    let (a, b) = (graph.add_input(TensorType::scalar(dtype), ""), graph.add_input(TensorType::scalar(dtype), ""));
    let value = graph.add(kind, vec![a, b], TensorType::scalar(result), loc);
    graph.outputs.push(value);
    graph
}

fn scatter_to_greatest(x: &Tensor, ct: &Tensor, window: &Window, reducer: Reducer) -> Tensor {
    let direction = if reducer == Reducer::Max { Direction::Ge } else { Direction::Le };
    let compare = region(x.dtype(), OpKind::Compare { direction, total: false }, DType::I1);
    let add = region(x.dtype(), OpKind::Binary(BinaryOp::Add), x.dtype());
    let zero = x.tracer().scalar(x.dtype(), 0.0);
    let kind = OpKind::SelectAndScatter { window: window.clone() };
    x.tracer().emit(kind, &[x, ct, &zero], None, vec![compare, add]).swap_remove(0)
}

/// A source element goes to one element of its window; its cotangent is that element's, found by comparing position by position.
pub(super) fn select_and_scatter(site: &Site<'_>, ct: &Tensor, window: &Window) -> Pulled {
    let (x, source) = (&site.operands[0], &site.operands[1]);
    let Some(direction) = site.regions.first().and_then(compared) else { return Err("its selection is a general one".into()) };
    if site.regions.get(1).is_none_or(|r| combined(r) != Some(BinaryOp::Add)) {
        return Err("its scatter function is a general one".into());
    }
    let count: u64 = window.size.iter().product();
    let initial = site.wanted[2].then(|| ct.sum_all());
    if !site.wanted[1] {
        return Ok(vec![None, None, initial]);
    }
    if count > MOST_POSITIONS {
        return Err(format!("its windows have {count} elements, more than {MOST_POSITIONS}"));
    }
    let positions = Positions::new(window, source.shape());
    let last = match direction {
        Direction::Ge | Direction::Gt => f64::NEG_INFINITY,
        _ => f64::INFINITY,
    };
    let values = positions.pad(x, &x.tracer().scalar(x.dtype(), last));
    let cotangents = positions.pad(ct, &x.tracer().scalar(x.dtype(), 0.0));
    let mut best: Option<(Tensor, Tensor)> = None;
    for offset in &positions.offsets {
        let (value, cotangent) = (positions.slice(&values, offset), positions.slice(&cotangents, offset));
        best = Some(match best {
            None => (value, cotangent),
            Some((kept, its)) => {
                let keep = kept.compare(direction, &value);
                (keep.select(&kept, &value), keep.select(&its, &cotangent))
            }
        });
    }
    Ok(vec![None, best.map(|b| b.1), initial])
}

/// How a region compares its two arguments, if it does only that.
fn compared(region: &Graph) -> Option<Direction> {
    let [result] = region.outputs[..] else { return None };
    let op = &region.ops[region.def_op(result)?];
    match op.kind {
        OpKind::Compare { direction, .. } if op.operands == region.inputs && direction != Direction::Eq && direction != Direction::Ne => Some(direction),
        _ => None,
    }
}

/// The function that a region applies to its two arguments, if it is one.
fn combined(region: &Graph) -> Option<op::BinaryOp> {
    let [result] = region.outputs[..] else { return None };
    let op = &region.ops[region.def_op(result)?];
    match op.kind {
        OpKind::Binary(f) if op.operands == region.inputs => Some(f),
        _ => None,
    }
}
