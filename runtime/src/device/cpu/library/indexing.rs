//! Gather and scatter: for every index vector a window of the operand, copied or combined.
//!
//! A window is one strided copy (or fold) whose start is computed. Gather clamps starts so that the window stays inside; scatter drops a window that is not
//! wholly inside. Scatter folds in the order of the indices, so results repeat.

use super::index_at;
use crate::element::{Element, Wide, reduces};
use crate::strided::StridedCopy;
use crate::with_element;
use ir::dtype::row_major_strides;
use ir::op::{GatherDims, Reducer, ScatterDims};
use ir::{DType, TensorType};

/// One batch dimension of the indices.
#[derive(Clone, Copy, Debug)]
struct BatchDim {
    size: usize,
    /// Elements of the index tensor from one position to the next.
    indices: usize,
    /// Elements of the result (gather) or of the updates (scatter).
    other: usize,
    /// Elements of the operand, when it is a batching dimension of both.
    operand: usize,
}

/// One component of an index vector.
#[derive(Clone, Copy, Debug)]
struct Component {
    /// Where it is after the first component, in elements of the index tensor.
    offset: usize,
    limit: i64,
    /// Elements of the operand per step.
    stride: i64,
}

/// Where windows start: walks all index vectors.
#[derive(Debug)]
struct Starts {
    dtype: DType,
    batch: Vec<BatchDim>,
    components: Vec<Component>,
}

impl Starts {
    #[allow(clippy::too_many_arguments, reason = "the dimension roles that gather and scatter share")]
    fn new(
        operand: &[u64],
        indices: &TensorType,
        vector_dim: usize,
        map: &[usize],
        batching: (&[usize], &[usize]),
        sizes: &[u64],
        other: &[u64],
        other_batch: &[usize],
    ) -> Result<Starts, String> {
        if !indices.dtype.is_integer() {
            return Err(format!("its indices are {}", indices.dtype));
        }
        let (strides, own, others) = (row_major_strides(operand), indices.strides(), row_major_strides(other));
        let dims: Vec<usize> = (0..indices.rank()).filter(|d| *d != vector_dim).collect();
        if dims.len() != other_batch.len() {
            return Err("its batch dimensions do not match its indices".into());
        }
        let batch = dims
            .iter()
            .zip(other_batch)
            .map(|(&d, &o)| BatchDim {
                size: indices.shape[d] as usize,
                indices: own[d] as usize,
                other: others[o] as usize,
                operand: batching.1.iter().position(|b| *b == d).map_or(0, |i| strides[batching.0[i]] as usize),
            })
            .collect();
        let step = own.get(vector_dim).map_or(0, |s| *s as usize);
        let components = map
            .iter()
            .enumerate()
            .map(|(c, &d)| {
                let limit = operand[d].checked_sub(sizes[d]).ok_or("its window is larger than its operand")?;
                Ok(Component { offset: c * step, limit: limit as i64, stride: strides[d] as i64 })
            })
            .collect::<Result<_, String>>()?;
        Ok(Starts { dtype: indices.dtype, batch, components })
    }

    /// Calls `f` with the window's start in the operand (`None` when it is not inside and not clamped) and in the other tensor.
    ///
    /// # Safety
    /// `indices` is a whole tensor of the type given to `new`.
    #[inline(always)]
    unsafe fn each(&self, indices: *const u8, clamp: bool, mut f: impl FnMut(Option<usize>, usize)) {
        let total: usize = self.batch.iter().map(|d| d.size).product();
        for linear in 0..total {
            let (mut rest, mut at, mut other, mut start) = (linear, 0, 0, 0i64);
            for d in self.batch.iter().rev() {
                let i = rest % d.size;
                rest /= d.size;
                at += i * d.indices;
                other += i * d.other;
                start += (i * d.operand) as i64;
            }
            let mut inside = true;
            for c in &self.components {
                // SAFETY: the position lies inside the index tensor.
                let index = unsafe { index_at(self.dtype, indices, at + c.offset) };
                let clamped = index.clamp(0, c.limit);
                inside &= clamped == index;
                start += clamped * c.stride;
            }
            f((clamp || inside).then_some(start as usize), other);
        }
    }
}

fn signed(strides: impl Iterator<Item = u64>) -> Vec<i64> {
    strides.map(|s| s as i64).collect()
}

/// A prepared gather.
pub(in crate::device::cpu) struct Gather {
    starts: Starts,
    window: StridedCopy,
    element: usize,
}

impl Gather {
    pub(super) fn new(g: &GatherDims, operands: &[TensorType], result: &TensorType) -> Result<Gather, String> {
        let operand = &operands[0];
        let kept: Vec<usize> = (0..operand.rank()).filter(|d| !g.collapsed_slice_dims.contains(d) && !g.operand_batching_dims.contains(d)).collect();
        let batch: Vec<usize> = (0..result.rank()).filter(|d| !g.offset_dims.contains(d)).collect();
        if kept.len() != g.offset_dims.len() || g.slice_sizes.len() != operand.rank() {
            return Err("its window does not match its result".into());
        }
        let (from, to) = (operand.strides(), result.strides());
        let shape: Vec<u64> = kept.iter().map(|d| g.slice_sizes[*d]).collect();
        let element = operand.dtype.bytes() as usize;
        let window = StridedCopy::new(&shape, &signed(kept.iter().map(|d| from[*d])), &signed(g.offset_dims.iter().map(|d| to[*d])), element);
        let batching = (g.operand_batching_dims.as_slice(), g.start_indices_batching_dims.as_slice());
        let starts = Starts::new(&operand.shape, &operands[1], g.index_vector_dim, &g.start_index_map, batching, &g.slice_sizes, &result.shape, &batch)?;
        Ok(Gather { starts, window: window.ok_or("it has too many dimensions")?, element })
    }
    /// # Safety
    /// As [`Routine::run`](super::Routine::run).
    pub(super) unsafe fn run(&self, parameters: &[*mut u8]) {
        let &[operand, indices, result] = parameters else { return };
        // SAFETY: starts are clamped so that windows stay inside the operand.
        unsafe {
            self.starts.each(indices, true, |start, to| {
                if let Some(start) = start {
                    self.window.run(operand.add(start * self.element), result.add(to * self.element));
                }
            });
        }
    }
}

/// One loop of a window: size, stride in the updates, stride in the operand.
type WindowDim = (usize, usize, usize);

/// A prepared scatter of any number of tensors.
pub(in crate::device::cpu) struct Scatter {
    starts: Starts,
    window: Vec<WindowDim>,
    reducer: Reducer,
    dtypes: Vec<DType>,
    bytes: Vec<usize>,
}

impl Scatter {
    pub(super) fn new(s: &ScatterDims, reducer: Reducer, operands: &[TensorType]) -> Result<Scatter, String> {
        let n = (operands.len() - 1) / 2;
        let (operand, indices, updates) = (&operands[0], &operands[n], &operands[n + 1]);
        if operands.len() != 2 * n + 1 {
            return Err("it has another number of updates than operands".into());
        }
        if let Some(t) = operands[..n].iter().find(|t| !reduces(reducer, t.dtype) && (reducer != Reducer::Replace)) {
            return Err(format!("{} cannot be combined by {reducer:?}", t.dtype));
        }
        let kept: Vec<usize> = (0..operand.rank()).filter(|d| !s.inserted_window_dims.contains(d) && !s.input_batching_dims.contains(d)).collect();
        let batch: Vec<usize> = (0..updates.rank()).filter(|d| !s.update_window_dims.contains(d)).collect();
        if kept.len() != s.update_window_dims.len() {
            return Err("its window does not match its updates".into());
        }
        let (from, to) = (updates.strides(), operand.strides());
        let mut sizes = vec![1; operand.rank()];
        for (&d, &u) in kept.iter().zip(&s.update_window_dims) {
            sizes[d] = updates.shape[u];
        }
        let mut window: Vec<WindowDim> = Vec::new();
        for (&d, &u) in kept.iter().zip(&s.update_window_dims) {
            let dim = (updates.shape[u] as usize, from[u] as usize, to[d] as usize);
            match window.last_mut() {
                Some(last) if last.1 == dim.0 * dim.1 && last.2 == dim.0 * dim.2 => *last = (last.0 * dim.0, dim.1, dim.2),
                _ => window.push(dim),
            }
        }
        let batching = (s.input_batching_dims.as_slice(), s.scatter_indices_batching_dims.as_slice());
        let map = &s.scatter_dims_to_operand_dims;
        let starts = Starts::new(&operand.shape, indices, s.index_vector_dim, map, batching, &sizes, &updates.shape, &batch)?;
        let list = &operands[..n];
        Ok(Scatter { starts, window, reducer, dtypes: list.iter().map(|t| t.dtype).collect(), bytes: list.iter().map(|t| t.bytes() as usize).collect() })
    }
    /// # Safety
    /// As [`Routine::run`](super::Routine::run).
    pub(super) unsafe fn run(&self, parameters: &[*mut u8]) {
        let n = self.dtypes.len();
        for (i, dtype) in self.dtypes.iter().enumerate() {
            let (operand, indices, updates, result) = (parameters[i], parameters[n], parameters[n + 1 + i], parameters[2 * n + 1 + i]);
            // SAFETY: as the caller vouches; windows that are not inside the operand are dropped.
            unsafe {
                std::ptr::copy_nonoverlapping(operand, result, self.bytes[i]);
                if self.reducer == Reducer::Replace {
                    match dtype.bytes() {
                        1 => self.fold::<u8>(indices, updates, result),
                        2 => self.fold::<u16>(indices, updates, result),
                        4 => self.fold::<u32>(indices, updates, result),
                        8 => self.fold::<u64>(indices, updates, result),
                        _ => self.fold::<crate::element::Complex<f64>>(indices, updates, result),
                    }
                } else {
                    with_element!(*dtype, T => self.fold::<T>(indices, updates, result), otherwise ());
                }
            }
        }
    }
    /// # Safety
    /// As [`Scatter::run`].
    unsafe fn fold<T: Element>(&self, indices: *const u8, updates: *const u8, result: *mut u8) {
        let (updates, result) = (updates.cast::<T>(), result.cast::<T>());
        let (last, outer) = self.window.split_last().map_or(((1, 1, 1), &[][..]), |(l, o)| (*l, o));
        let points: usize = outer.iter().map(|d| d.0).product();
        // SAFETY: windows lie inside the operand and the updates.
        unsafe {
            self.starts.each(indices, false, |start, from| {
                let Some(start) = start else { return };
                for point in 0..points {
                    let (mut rest, mut u, mut r) = (point, from, start);
                    for d in outer.iter().rev() {
                        u += rest % d.0 * d.1;
                        r += rest % d.0 * d.2;
                        rest /= d.0;
                    }
                    for i in 0..last.0 {
                        let target = result.add(r + i * last.2);
                        let value = T::Wide::fold(self.reducer, target.read().widen(), updates.add(u + i * last.1).read().widen());
                        target.write(T::narrow(value));
                    }
                }
            });
        }
    }
}
