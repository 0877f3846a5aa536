//! The derivative by keys: the gradients of keys and values. A block per tile of keys walks over the queries of every head that shares them.

use super::queries::{slope, statistic};
use super::{Edges, Entry, GRADIENT, LSE, Of, Problem, Tiling, indices, left_of, place};
use crate::asm::{Asm, Exactly, Reg, asm};
use crate::tiles::{self, Columns, Room, SIDE, THREADS, Threads, Tile};

struct Tiles {
    k: Tile,
    v: Tile,
    q: Tile,
    gradient: Tile,
    weights: Tile,
    slopes: Tile,
    bytes: u32,
}

/// Rows are keys and columns queries.
fn tiles_of(p: &Problem, t: Tiling) -> Tiles {
    let mut room = Room::default();
    let (k, v) = (room.tile(t.block_rows(), p.depth), room.tile(t.block_rows(), p.value));
    let (q, gradient) = (room.tile(t.block_columns(), p.depth), room.tile(t.block_columns(), p.value));
    let (weights, slopes) = (room.tile(t.block_columns(), t.block_rows()), room.tile(t.block_columns(), t.block_rows()));
    Tiles { k, v, q, gradient, weights, slopes, bytes: room.bytes }
}

/// Shared memory of a block.
pub(super) fn room(p: &Problem, t: Tiling) -> u32 {
    tiles_of(p, t).bytes
}

pub(super) fn write(name: &str, p: &Problem, t: Tiling) -> Entry {
    let name = format!("{name}_keys");
    let tiles = tiles_of(p, t);
    let mut asm = Asm::default();
    let a = &mut asm;
    let rows = t.block_rows();
    let blocks = p.keys.div_ceil(rows);
    let threads = Threads::new(a);
    let (tile, linear) = place(a, blocks);
    let from = a.binary("mul.lo.u32", tile, rows);
    let outer = indices(a, linear, &p.outer);
    let first = p.first(a);
    let left = left_of(a, p.keys % rows != 0, p.keys, from);
    let k = p.matrix(a, 1, p.depth, &outer).below_row(a, from);
    let v = p.matrix(a, 2, p.value, &outer).below_row(a, from);
    tiles::load(a, &threads, &tiles.k, &k, left);
    tiles::load(a, &threads, &tiles.v, &v, left);
    let (by_depth, by_value) = (Columns::of(p.depth), Columns::of(p.value));
    let sums = (tiles::zeros(a, t.rows, by_depth.each()), tiles::zeros(a, t.rows, by_value.each()));
    let keys: Vec<Reg> = super::forward::query_rows(a, &threads, from, t.rows);
    // The first query that sees a key of the block, in whole tiles.
    let start = a.constant(0);
    if p.causal {
        asm!(a, "mov.u32 {start}, {from}");
        if let Some(first) = first {
            asm!(a, "sub.s32 {start}, {start}, {first}");
            asm!(a, "max.s32 {start}, {start}, 0");
        }
        let over = a.binary("rem.u32", start, t.block_columns());
        asm!(a, "sub.u32 {start}, {start}, {over}");
    }
    let heads = p.inner.iter().product::<u64>() as u32;
    let walk = Walk { p, t, tiles: &tiles, threads: &threads, outer: &outer, linear, first, keys: &keys, start, heads, key_edge: left.is_some() };
    if heads > 1 {
        a.each(0, heads, 1, |a, head| walk.head(a, Some(head), &sums));
    } else {
        walk.head(a, None, &sums);
    }
    sums.0.iter().flatten().for_each(|x| asm!(a, "mul.rn.f32 {x}, {x}, {}", Exactly(p.scale)));
    for (result, width, columns, sums) in [(1, p.depth, by_depth, &sums.0), (2, p.value, by_value, &sums.1)] {
        let to = p.matrix(a, p.operands + result, width, &outer).below_row(a, from);
        tiles::store(a, &threads, &to, columns, sums, left);
    }
    let blocks = u64::from(blocks) * p.outer.iter().product::<u64>();
    Entry { text: asm.finish(&name, p.parameters(true), THREADS), name, blocks, shared: tiles.bytes }
}

/// What a block knows while it walks over queries.
struct Walk<'a> {
    p: &'a Problem,
    t: Tiling,
    tiles: &'a Tiles,
    threads: &'a Threads,
    outer: &'a [Reg],
    /// Number of the place in the outer batch.
    linear: Reg,
    first: Option<Reg>,
    keys: &'a [Reg],
    start: Reg,
    /// Heads that share the keys.
    heads: u32,
    key_edge: bool,
}

impl Walk<'_> {
    /// Adds what the queries of a head give; none: there is one.
    fn head(&self, a: &mut Asm, head: Option<Reg>, sums: &(tiles::Part, tiles::Part)) {
        let &Walk { p, t, threads, .. } = self;
        let head = head.unwrap_or_else(|| a.constant(0));
        let batch = [self.outer, &indices(a, head, &p.inner)].concat();
        let number = a.word();
        asm!(a, "mad.lo.u32 {number}, {}, {}, {head}", self.linear, self.heads);
        let q = p.matrix(a, 0, p.depth, &batch);
        let gradient = p.matrix(a, GRADIENT, p.value, &batch);
        let bias = p.bias.map(|b| p.address(a, b, &batch));
        let lse = p.address(a, LSE, &batch);
        let delta = a.parameter(p.params.len());
        let delta = a.advance(delta, number, u64::from(p.queries) * 4);
        let edges = Edges { queries: p.queries % t.block_columns() != 0, keys: self.key_edge };
        a.each(self.start, p.queries, t.block_columns(), |a, query| {
            let rest = left_of(a, edges.queries, p.queries, query);
            for (tile, matrix) in [(&self.tiles.q, &q), (&self.tiles.gradient, &gradient)] {
                let block = matrix.below_row(a, query);
                tiles::load(a, threads, tile, &block, rest);
            }
            tiles::barrier(a);
            let weights = tiles::inner(a, threads, &self.tiles.k, &self.tiles.q, p.depth);
            let slopes = tiles::inner(a, threads, &self.tiles.v, &self.tiles.gradient, p.value);
            for c in 0..t.columns {
                let column = a.binary("add.u32", threads.x, c * SIDE);
                let inside = rest.map(|rest| {
                    let p = a.predicate();
                    asm!(a, "setp.lt.s32 {p}, {column}, {rest}");
                    p
                });
                let query = a.binary("add.u32", query, column);
                let lse = statistic(a, p, lse, query, inside);
                let at = a.advance(delta, query, 4);
                let delta = tiles::element(a, ir::DType::F32, at, 0, inside);
                let last = p.last(a, query, self.first);
                for (r, &key) in self.keys.iter().enumerate() {
                    let (weight, gradient) = (weights[r][c as usize], slopes[r][c as usize]);
                    p.score(a, weight, bias, Of { query, key, last }, edges);
                    slope(a, weight, gradient, lse, delta);
                }
            }
            tiles::put(a, threads, &self.tiles.weights, &weights);
            tiles::put(a, threads, &self.tiles.slopes, &slopes);
            tiles::together(a);
            tiles::accumulate(a, threads, &self.tiles.weights, &self.tiles.gradient, Columns::of(p.value), &sums.1);
            tiles::accumulate(a, threads, &self.tiles.slopes, &self.tiles.q, Columns::of(p.depth), &sums.0);
            if p.queries > t.block_columns() || self.heads > 1 {
                tiles::barrier(a);
            }
        });
    }
}
