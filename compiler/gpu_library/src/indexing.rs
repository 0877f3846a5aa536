//! What gather and scatter share: index vectors, and dimensions with the strides of all that they walk.

use crate::asm::{Asm, Reg, asm, lanes};
use ir::dtype::row_major_strides;
use ir::{DType, TensorType};

/// A dimension that is walked: its extent, and what a step along it is in each of the tensors, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dim<const N: usize> {
    pub(crate) extent: u64,
    pub(crate) strides: [u64; N],
}

/// Dimensions without those of extent 1, and with those in one that lie behind each other in all tensors.
pub(crate) fn merged<const N: usize>(dims: &[Dim<N>]) -> Vec<Dim<N>> {
    let mut out: Vec<Dim<N>> = Vec::new();
    for &d in dims.iter().filter(|d| d.extent != 1) {
        match out.last_mut() {
            Some(last) if last.strides.iter().zip(&d.strides).all(|(l, s)| *l == s * d.extent) => *last = Dim { extent: last.extent * d.extent, ..d },
            _ => out.push(d),
        }
    }
    out
}

/// How many positions some dimensions have.
pub(crate) fn positions<const N: usize>(dims: &[Dim<N>]) -> u64 {
    dims.iter().map(|d| d.extent).product()
}

/// The offsets of position `linear` in each of the tensors, in elements.
pub(crate) fn offsets<const N: usize>(a: &mut Asm, linear: Reg, dims: &[Dim<N>]) -> [Reg; N] {
    let sums = [(); N].map(|()| a.long());
    sums.iter().for_each(|s| asm!(a, "mov.u64 {s}, 0"));
    let mut rest = linear;
    for (i, d) in dims.iter().enumerate().rev() {
        let index = if i == 0 { rest } else { a.binary("rem.u32", rest, d.extent) };
        for (sum, stride) in sums.iter().zip(&d.strides).filter(|(_, s)| **s != 0) {
            asm!(a, "mad.wide.u32 {sum}, {index}, {stride}, {sum}");
        }
        if i > 0 {
            rest = a.binary("div.u32", rest, d.extent);
        }
    }
    sums
}

/// A component of an index vector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Component {
    /// Where it is after the first, in elements of the indices.
    pub(crate) offset: u64,
    /// The greatest index at which a window is inside the operand.
    pub(crate) limit: u64,
    /// Elements of the operand per step.
    pub(crate) stride: u64,
}

/// Strides of a batch dimension of the indices: in the indices, in the result or the updates, and in the operand.
pub(crate) type BatchDim = Dim<3>;

/// The index vectors of a gather or scatter.
#[derive(Clone, Debug)]
pub(crate) struct Starts {
    pub(crate) dtype: DType,
    /// Batch dimensions, and of each the operand's that it goes along with.
    pub(crate) batch: Vec<(BatchDim, Option<usize>)>,
    pub(crate) components: Vec<Component>,
}

/// Roles of the dimensions of a gather or a scatter.
pub(crate) struct Roles<'a> {
    /// The operand dimension of each component.
    pub(crate) map: &'a [usize],
    /// Batching dimensions of the operand and of the indices.
    pub(crate) batching: (&'a [usize], &'a [usize]),
    pub(crate) vector_dim: usize,
    /// Sizes of the window.
    pub(crate) sizes: &'a [u64],
    /// Batch dimensions of the result or the updates.
    pub(crate) other_batch: &'a [usize],
}

impl Starts {
    /// The index vectors in `indices`; none where they cannot be read or do not fit.
    pub(crate) fn new(operand: &[u64], indices: &TensorType, other: &[u64], roles: &Roles<'_>) -> Option<Starts> {
        let known = [DType::I8, DType::I16, DType::I32, DType::I64, DType::UI8, DType::UI16, DType::UI32, DType::UI64];
        let (strides, own, others) = (row_major_strides(operand), indices.strides(), row_major_strides(other));
        let dims: Vec<usize> = (0..indices.rank()).filter(|d| *d != roles.vector_dim).collect();
        if !known.contains(&indices.dtype) || dims.len() != roles.other_batch.len() {
            return None;
        }
        let batch = dims.iter().zip(roles.other_batch).map(|(&d, &o)| {
            let along = roles.batching.1.iter().position(|b| *b == d).map(|i| roles.batching.0[i]);
            (Dim { extent: indices.shape[d], strides: [own[d], others[o], along.map_or(0, |d| strides[d])] }, along)
        });
        let step = own.get(roles.vector_dim).copied().unwrap_or(0);
        let components = roles.map.iter().enumerate().map(|(c, &d)| {
            let limit = operand[d].checked_sub(roles.sizes[d])?;
            Some(Component { offset: c as u64 * step, limit, stride: strides[d] })
        });
        Some(Starts { dtype: indices.dtype, batch: batch.collect(), components: components.collect::<Option<_>>()? })
    }

    /// Loads component `c` of the index vector at `offset` elements, if `guard` holds, widened to 64 bits with its sign.
    pub(crate) fn load(&self, a: &mut Asm, indices: Reg, offset: Reg, c: usize, guard: Option<Reg>) -> Reg {
        let (bytes, signed) = (self.dtype.bytes(), !self.dtype.is_unsigned());
        let (at, index) = (a.long(), a.long());
        asm!(a, "mad.lo.u64 {at}, {offset}, {bytes}, {indices}");
        if guard.is_some() {
            asm!(a, "mov.u64 {index}, -1");
        }
        let when = guard.map_or_else(String::new, |p| format!("@{p} "));
        asm!(a, "{when}ld.global.{}{} {index}, [{at}+{}]", if signed { "s" } else { "u" }, bytes * 8, self.components[c].offset * bytes);
        index
    }
}

/// How elements are moved: so many bytes at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access(pub(crate) u64);

impl Access {
    /// Registers that hold them.
    pub(crate) fn registers(self, a: &mut Asm) -> Vec<Reg> {
        if self.0 < 4 { vec![a.half()] } else { a.words((self.0 / 4) as u32) }
    }
    /// What follows `ld.global` or `st.global`.
    pub(crate) fn modifiers(self) -> String {
        if self.0 < 4 { format!(".b{}", 8 * self.0) } else { format!("{}.b32", lanes((self.0 / 4) as u32)) }
    }
}

/// The most elements of `bytes` that are one access, of a run of `run` elements and at offsets that are multiples of all `strides`.
pub(crate) fn vector(bytes: u64, run: u64, strides: impl Iterator<Item = u64> + Clone) -> u64 {
    let fits = |n: u64| n * bytes <= 16 && run % n == 0 && strides.clone().all(|s| s % n == 0);
    [16, 8, 4, 2].into_iter().find(|n| fits(*n)).unwrap_or(1)
}
