//! Attention and its derivative in tiles that stay on the multiprocessor: scores are never in device memory.
//!
//! The forward has a block for some queries of a head, which walks over the keys with running maxima and sums (online softmax). The derivative computes scores
//! anew, knows each row's statistics, and is two launches: one by queries, for their gradient, which also leaves `delta = o·do` of every row in scratch; and
//! one by keys, for the gradients of keys and values, which walks over all queries (of all heads that share the keys). So every gradient is summed by one
//! thread, in a fixed order. Scores are computed to base 2: `exp` is one instruction. A causal attention leaves out the tiles that it does not see.
//! What is computed is `f32`; narrow operands are widened as they are loaded, and results rounded once.

mod forward;
mod keys;
mod queries;

use crate::Kernels;
use crate::asm::{Asm, Exactly, Reg, asm};
use crate::tiles::{Matrix, SIDE, THREADS};
use ir::plan::Launch;
use ir::{Attention as Description, AttentionDim, DType, TensorType};
use std::f32::consts::LOG2_E;

/// Shared memory of a block: so much that two fit on a multiprocessor of every architecture we compile for.
const ROOM: u32 = 80 << 10;
/// As much as a block may have on all of them, where less does not do.
const MOST_ROOM: u32 = 160 << 10;
/// Blocks that keep a large device busy.
const FILL: u64 = 132;

/// The kernels of the forward, in a tiling that suits it or in that given.
pub(crate) fn forward(name: &str, a: &Description, operands: &[TensorType], results: &[TensorType], given: Option<(u32, u32)>) -> Option<Kernels> {
    let dims = [a.operand_dims(), vec![a.o.clone(), a.lse()]].concat();
    let problem = Problem::new(a, &dims, operands, results, false)?;
    let tiling = problem.tiling((problem.queries, problem.keys), &problem.batch(), given, |t| forward::room(&problem, t))?;
    Some(collect(vec![forward::write(name, &problem, tiling)], 0))
}

/// The kernels of the derivative, likewise.
pub(crate) fn backward(name: &str, a: &Description, bias: bool, operands: &[TensorType], results: &[TensorType], given: Option<(u32, u32)>) -> Option<Kernels> {
    let batch = |dims: &[AttentionDim]| a.batch().into_iter().filter(|d| dims.contains(d)).collect::<Vec<_>>();
    // Keys whose values are shared otherwise would have to be summed over other heads than those.
    if batch(&a.k) != batch(&a.v) || bias {
        return None;
    }
    let dims = [a.gradient_operand_dims(), a.gradient_dims(bias)].concat();
    let problem = Problem::new(a, &dims, operands, results, true)?;
    let by_queries = problem.tiling((problem.queries, problem.keys), &problem.batch(), given, |t| queries::room(&problem, t))?;
    let by_keys = problem.tiling((problem.keys, problem.queries), &problem.outer, given, |t| keys::room(&problem, t))?;
    let scratch = problem.batch().iter().product::<u64>() * u64::from(problem.queries) * 4;
    Some(collect(vec![queries::write(name, &problem, by_queries), keys::write(name, &problem, by_keys)], scratch))
}

/// One entry with its launch.
struct Entry {
    name: String,
    text: String,
    blocks: u64,
    shared: u32,
}

fn collect(entries: Vec<Entry>, scratch: u64) -> Kernels {
    let launch = |e: &Entry| Launch { entry: e.name.clone(), grid: [e.blocks as u32, 1, 1], block: [THREADS, 1, 1], shared: e.shared, scratch };
    Kernels { launches: entries.iter().map(launch).collect(), text: entries.into_iter().map(|e| e.text).collect() }
}

/// How many of a product's rows and columns a thread has; the block has 16 times as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    rows: u32,
    columns: u32,
}

impl Tiling {
    /// Rows of a block.
    fn block_rows(self) -> u32 {
        self.rows * SIDE
    }
    /// Columns of a block.
    fn block_columns(self) -> u32 {
        self.columns * SIDE
    }
}

/// Numbers of the operands of the derivative.
const O: usize = 3;
const LSE: usize = 4;
const GRADIENT: usize = 5;

/// Where a parameter's elements are.
#[derive(Clone, Debug)]
struct Param {
    dtype: DType,
    /// Elements from row to row and from column to column of a head's matrix.
    row: u64,
    column: u64,
    /// Elements along the batch dimensions, outer then inner.
    batch: Vec<u64>,
}

/// An attention of known shapes.
#[derive(Clone, Debug)]
struct Problem {
    /// Operands, then results.
    params: Vec<Param>,
    operands: usize,
    /// Extents of the batch dimensions that keys and values have, and of those that share them.
    outer: Vec<u64>,
    inner: Vec<u64>,
    queries: u32,
    keys: u32,
    depth: u32,
    value: u32,
    scale: f32,
    causal: bool,
    bias: Option<usize>,
    offset: Option<usize>,
}

impl Problem {
    fn new(a: &Description, dims: &[Vec<AttentionDim>], operands: &[TensorType], results: &[TensorType], backward: bool) -> Option<Problem> {
        use AttentionDim::{Depth, Key, Query, Value};
        let types: Vec<&TensorType> = operands.iter().collect();
        let inferred = if backward { a.gradient_results(&types, results.len() > 3) } else { a.results(&types) };
        if inferred.ok()? != results || !matches!(operands[0].dtype, DType::F32 | DType::BF16 | DType::F16) {
            return None;
        }
        let all: Vec<&TensorType> = operands.iter().chain(results).collect();
        // Offsets of rows and columns are 32 bits of bytes.
        if all.iter().any(|t| t.elements() == 0 || t.elements() > u64::from(u32::MAX) / 8) {
            return None;
        }
        let bias = a.bias.as_ref().map(|_| if backward { 6 } else { 3 });
        if bias.is_some_and(|p| !matches!(operands[p].dtype, DType::F32 | DType::BF16 | DType::F16 | DType::I1)) {
            return None;
        }
        let extent = |d: AttentionDim| a.extent(&types, d).unwrap_or(1);
        let batch = |sharing: bool| a.batch().into_iter().filter(move |d| (a.k.contains(d) || a.v.contains(d)) != sharing).collect::<Vec<_>>();
        let (outer, inner) = (batch(false), batch(true));
        let params = all.iter().zip(dims).enumerate().map(|(p, (ty, dims))| {
            let stride = |d: AttentionDim| dims.iter().position(|x| *x == d).map_or(0, |i| ty.strides()[i]);
            let (row, column) = if bias == Some(p) {
                (Query, Key)
            } else {
                (if dims.contains(&Query) { Query } else { Key }, if dims.contains(&Depth) { Depth } else { Value })
            };
            Param { dtype: ty.dtype, row: stride(row), column: stride(column), batch: outer.iter().chain(&inner).map(|d| stride(*d)).collect() }
        });
        Some(Problem {
            params: params.collect(),
            operands: operands.len(),
            outer: outer.iter().map(|d| extent(*d)).collect(),
            inner: inner.iter().map(|d| extent(*d)).collect(),
            queries: extent(Query) as u32,
            keys: extent(Key) as u32,
            depth: extent(Depth) as u32,
            value: extent(Value) as u32,
            scale: a.scale.0 as f32,
            causal: a.causal,
            bias,
            offset: a.offset.then(|| operands.len() - 1),
        })
    }

    /// Extents of all batch dimensions.
    fn batch(&self) -> Vec<u64> {
        [&self.outer[..], &self.inner[..]].concat()
    }

    /// The tiling of a product of so many rows and columns, in each of the batch; none when not even the smallest has room.
    fn tiling(&self, (rows, columns): (u32, u32), batch: &[u64], given: Option<(u32, u32)>, room: impl Fn(Tiling) -> u32) -> Option<Tiling> {
        if let Some((rows, columns)) = given {
            return Some(Tiling { rows, columns }).filter(|t| room(*t) <= MOST_ROOM);
        }
        let most = |extent: u32| extent.div_ceil(SIDE).next_power_of_two().min(4);
        let (r, c) = (most(rows), most(columns));
        let sizes = [(4, 4), (4, 2), (2, 4), (2, 2), (2, 1), (1, 1)].map(|(x, y)| Tiling { rows: r.min(x), columns: c.min(y) });
        let fits = |most: u32| sizes.into_iter().find(|t| room(*t) <= most);
        let mut tiling = fits(ROOM).or_else(|| fits(MOST_ROOM))?;
        let batch: u64 = batch.iter().product();
        while tiling.rows > 1 && batch * u64::from(rows.div_ceil(tiling.block_rows())) < FILL {
            tiling.rows /= 2;
        }
        (batch * u64::from(rows.div_ceil(tiling.block_rows())) < 1 << 31).then_some(tiling)
    }

    /// Parameters of an entry.
    fn parameters(&self, scratch: bool) -> usize {
        self.params.len() + usize::from(scratch)
    }

    /// The address of parameter `p` at a place of the batch, `indices` being those of the outer and inner dimensions.
    fn address(&self, a: &mut Asm, p: usize, indices: &[Reg]) -> Reg {
        let mut at = a.parameter(p);
        for (&stride, &index) in self.params[p].batch.iter().zip(indices) {
            if stride > 0 {
                at = a.advance(at, index, stride * self.params[p].dtype.bytes());
            }
        }
        at
    }

    /// A parameter's matrix of `width` columns at a place of the batch.
    fn matrix(&self, a: &mut Asm, p: usize, width: u32, indices: &[Reg]) -> Matrix {
        let Param { dtype, row, column, ref batch } = self.params[p];
        // An operand begins at a multiple of 16 bytes, so a run of elements is aligned where every stride is.
        let aligned = |n: u32| u64::from(width) % u64::from(n) == 0 && batch.iter().chain([&row]).all(|s| s % u64::from(n) == 0);
        let run = if column == 1 { [8, 4, 2, 1].into_iter().find(|n| u64::from(*n) * dtype.bytes() <= 16 && aligned(*n)).unwrap_or(1) } else { 1 };
        Matrix { at: self.address(a, p, indices), dtype, row, column, width, run }
    }

    /// Position of the first query among the keys, brought into a range in which sums with it are small: none for 0.
    fn first(&self, a: &mut Asm) -> Option<Reg> {
        let p = self.offset.filter(|_| self.causal)?;
        let (at, first) = (a.parameter(p), a.word());
        asm!(a, "ld.global.b32 {first}, [{at}]");
        asm!(a, "min.s32 {first}, {first}, {}", self.keys);
        asm!(a, "max.s32 {first}, {first}, {}", -i64::from(self.queries));
        Some(first)
    }
}

/// The indices of some dimensions, row-major, at `linear`.
fn indices(a: &mut Asm, linear: Reg, extents: &[u64]) -> Vec<Reg> {
    let mut rest = linear;
    let mut out = Vec::new();
    for (i, &n) in extents.iter().enumerate().rev() {
        if i == 0 {
            out.push(rest);
        } else {
            out.push(a.binary("rem.u32", rest, n));
            rest = a.binary("div.u32", rest, n);
        }
    }
    out.reverse();
    out
}

/// The block's number of its tile, of `tiles`, and of its place in the batch.
fn place(a: &mut Asm, tiles: u32) -> (Reg, Reg) {
    let block = a.constant("%ctaid.x");
    (a.binary("rem.u32", block, tiles), a.binary("div.u32", block, tiles))
}

/// How many of an extent are left from `from` on, where a tile may reach over its edge.
fn left_of(a: &mut Asm, reaches_over: bool, extent: u32, from: Reg) -> Option<Reg> {
    reaches_over.then(|| a.binary("sub.s32", extent, from))
}

/// What a score is of.
#[derive(Clone, Copy)]
struct Of {
    query: Reg,
    key: Reg,
    /// The last key that the query sees, of a causal attention.
    last: Option<Reg>,
}

/// Which edges of the matrix of scores tiles may reach over.
#[derive(Clone, Copy)]
struct Edges {
    queries: bool,
    keys: bool,
}

impl Problem {
    /// Makes of a product of a query and a key their score to base 2, -∞ where it does not count.
    fn score(&self, a: &mut Asm, product: Reg, bias: Option<Reg>, of: Of, edges: Edges) {
        let hidden = Exactly(f32::NEG_INFINITY);
        match (self.bias, bias) {
            (Some(p), Some(bias)) => {
                let guard = self.inside(a, of, edges);
                let at = a.advance(bias, of.query, self.params[p].row * self.params[p].dtype.bytes());
                let at = a.advance(at, of.key, self.params[p].column * self.params[p].dtype.bytes());
                if self.params[p].dtype == DType::I1 {
                    let (mask, p) = (a.word(), a.predicate());
                    asm!(a, "mov.u32 {mask}, 0");
                    asm!(a, "{}ld.global.u8 {mask}, [{at}]", guard.map_or_else(String::new, |p| format!("@{p} ")));
                    asm!(a, "mul.rn.f32 {product}, {product}, {}", Exactly(self.scale * LOG2_E));
                    asm!(a, "setp.eq.u32 {p}, {mask}, 0");
                    asm!(a, "@{p} mov.f32 {product}, {hidden}");
                } else {
                    let added = crate::tiles::element(a, self.params[p].dtype, at, 0, guard);
                    asm!(a, "fma.rn.f32 {product}, {product}, {}, {added}", Exactly(self.scale));
                    asm!(a, "mul.rn.f32 {product}, {product}, {}", Exactly(LOG2_E));
                }
            }
            _ => asm!(a, "mul.rn.f32 {product}, {product}, {}", Exactly(self.scale * LOG2_E)),
        }
        if let Some(last) = of.last {
            let p = a.predicate();
            asm!(a, "setp.gt.s32 {p}, {}, {last}", of.key);
            asm!(a, "@{p} mov.f32 {product}, {hidden}");
        }
        if edges.keys {
            let p = a.predicate();
            asm!(a, "setp.ge.s32 {p}, {}, {}", of.key, self.keys);
            asm!(a, "@{p} mov.f32 {product}, {hidden}");
        }
    }

    /// Whether a score is inside the matrix, where that is in question.
    fn inside(&self, a: &mut Asm, of: Of, edges: Edges) -> Option<Reg> {
        let mut below = |index: Reg, extent: u32, when: bool| {
            when.then(|| {
                let p = a.predicate();
                asm!(a, "setp.lt.s32 {p}, {index}, {extent}");
                p
            })
        };
        let both = [below(of.query, self.queries, edges.queries), below(of.key, self.keys, edges.keys)];
        both.into_iter().flatten().reduce(|p, q| {
            asm!(a, "and.pred {p}, {p}, {q}");
            p
        })
    }

    /// The last key that a query sees; none when it sees all.
    fn last(&self, a: &mut Asm, query: Reg, first: Option<Reg>) -> Option<Reg> {
        self.causal.then(|| first.map_or(query, |first| a.binary("add.s32", query, first)))
    }
}
