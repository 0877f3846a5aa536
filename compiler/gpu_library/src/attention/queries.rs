//! The derivative by queries: their gradient, and `delta` of every row for [`keys`](super::keys).

use super::forward::{limit, query_rows};
use super::{Edges, Entry, GRADIENT, LSE, O, Of, Problem, Tiling, indices, left_of, place};
use crate::asm::{Asm, Exactly, Reg, asm};
use crate::tiles::{self, Columns, Room, SIDE, THREADS, Threads, Tile};
use std::f32::consts::LOG2_E;

struct Tiles {
    q: Tile,
    gradient: Tile,
    k: Tile,
    v: Tile,
    slopes: Tile,
    bytes: u32,
}

fn tiles_of(p: &Problem, t: Tiling) -> Tiles {
    let mut room = Room::default();
    let (q, gradient) = (room.tile(t.block_rows(), p.depth), room.tile(t.block_rows(), p.value));
    let (k, v) = (room.tile(t.block_columns(), p.depth), room.tile(t.block_columns(), p.value));
    let slopes = room.tile(t.block_columns(), t.block_rows());
    Tiles { q, gradient, k, v, slopes, bytes: room.bytes }
}

/// Shared memory of a block.
pub(super) fn room(p: &Problem, t: Tiling) -> u32 {
    tiles_of(p, t).bytes
}

pub(super) fn write(name: &str, p: &Problem, t: Tiling) -> Entry {
    let name = format!("{name}_queries");
    let tiles = tiles_of(p, t);
    let mut asm = Asm::default();
    let a = &mut asm;
    let (rows, keys) = (t.block_rows(), t.block_columns());
    let blocks = p.queries.div_ceil(rows);
    let threads = Threads::new(a);
    let (tile, linear) = place(a, blocks);
    let from = a.binary("mul.lo.u32", tile, rows);
    let batch = indices(a, linear, &p.batch());
    let first = p.first(a);
    let left = left_of(a, p.queries % rows != 0, p.queries, from);
    let q = p.matrix(a, 0, p.depth, &batch).below_row(a, from);
    let gradient = p.matrix(a, GRADIENT, p.value, &batch).below_row(a, from);
    let o = p.matrix(a, O, p.value, &batch).below_row(a, from);
    let (k, v) = (p.matrix(a, 1, p.depth, &batch), p.matrix(a, 2, p.value, &batch));
    let bias = p.bias.map(|b| p.address(a, b, &batch));
    tiles::load(a, &threads, &tiles.q, &q, left);
    tiles::load(a, &threads, &tiles.gradient, &gradient, left);
    tiles::barrier(a);
    let delta = tiles::row_products(a, &threads, &o, &tiles.gradient, left);
    let queries = query_rows(a, &threads, from, t.rows);
    keep(a, p, &threads, linear, &queries, &delta, left);
    let lse: Vec<Reg> = {
        let (at, inside) = (p.address(a, LSE, &batch), tiles::below(a, &threads, t.rows, left));
        queries.iter().zip(inside).map(|(&query, inside)| statistic(a, p, at, query, inside)).collect()
    };
    let columns = Columns::of(p.depth);
    let sums = tiles::zeros(a, t.rows, columns.each());
    let limit = limit(a, p, first, from, rows);
    let edges = Edges { queries: left.is_some(), keys: p.keys % keys != 0 };
    a.each(0, limit, keys, |a, key| {
        let rest = left_of(a, edges.keys, p.keys, key);
        for (tile, matrix) in [(&tiles.k, &k), (&tiles.v, &v)] {
            let block = matrix.below_row(a, key);
            tiles::load(a, &threads, tile, &block, rest);
        }
        tiles::barrier(a);
        let weights = tiles::inner(a, &threads, &tiles.q, &tiles.k, p.depth);
        let slopes = tiles::inner(a, &threads, &tiles.gradient, &tiles.v, p.value);
        let key = a.binary("add.u32", key, threads.x);
        for (c, key) in (0..t.columns).map(|c| (c as usize, a.binary("add.u32", key, c * SIDE))).collect::<Vec<_>>() {
            for (r, &query) in queries.iter().enumerate() {
                let last = p.last(a, query, first);
                p.score(a, weights[r][c], bias, Of { query, key, last }, edges);
                slope(a, weights[r][c], slopes[r][c], lse[r], delta[r]);
            }
        }
        tiles::put(a, &threads, &tiles.slopes, &slopes);
        tiles::together(a);
        tiles::accumulate(a, &threads, &tiles.slopes, &tiles.k, columns, &sums);
        if p.keys > keys {
            tiles::barrier(a);
        }
    });
    sums.iter().flatten().for_each(|x| asm!(a, "mul.rn.f32 {x}, {x}, {}", Exactly(p.scale)));
    let to = p.matrix(a, p.operands, p.depth, &batch).below_row(a, from);
    tiles::store(a, &threads, &to, columns, &sums, left);
    let blocks = u64::from(blocks) * p.batch().iter().product::<u64>();
    Entry { text: asm.finish(&name, p.parameters(true), THREADS), name, blocks, shared: tiles.bytes }
}

/// Stores each row's `delta` in the scratch.
fn keep(a: &mut Asm, p: &Problem, threads: &Threads, batch: Reg, queries: &[Reg], delta: &[Reg], left: Option<Reg>) {
    let (base, one) = (a.parameter(p.params.len()), a.predicate());
    let base = a.advance(base, batch, u64::from(p.queries) * 4);
    asm!(a, "setp.eq.u32 {one}, {}, 0", threads.x);
    for (&query, delta) in queries.iter().zip(delta) {
        let store = a.predicate();
        if left.is_some() {
            asm!(a, "setp.lt.s32 {store}, {query}, {}", p.queries);
            asm!(a, "and.pred {store}, {store}, {one}");
        } else {
            asm!(a, "and.pred {store}, {one}, {one}");
        }
        let at = a.advance(base, query, 4);
        asm!(a, "@{store} st.global.b32 [{at}], {delta}");
    }
}

/// The statistic of a query to base 2, or ∞, which makes all weights 0, where the row sees nothing or is outside.
pub(super) fn statistic(a: &mut Asm, p: &Problem, base: Reg, query: Reg, inside: Option<Reg>) -> Reg {
    let (lse, none) = (a.float(), a.predicate());
    let at = a.advance(base, query, p.params[LSE].row * 4);
    asm!(a, "mov.f32 {lse}, {}", Exactly(f32::NEG_INFINITY));
    asm!(a, "{}ld.global.b32 {lse}, [{at}]", inside.map_or_else(String::new, |p| format!("@{p} ")));
    asm!(a, "setp.eq.f32 {none}, {lse}, {}", Exactly(f32::NEG_INFINITY));
    asm!(a, "mul.rn.f32 {lse}, {lse}, {}", Exactly(LOG2_E));
    asm!(a, "@{none} mov.f32 {lse}, {}", Exactly(f32::INFINITY));
    lse
}

/// Makes of a score its weight, and of the weight's gradient the score's.
pub(super) fn slope(a: &mut Asm, weight: Reg, slope: Reg, lse: Reg, delta: Reg) {
    asm!(a, "sub.rn.f32 {weight}, {weight}, {lse}");
    asm!(a, "ex2.approx.ftz.f32 {weight}, {weight}");
    asm!(a, "sub.rn.f32 {slope}, {slope}, {delta}");
    asm!(a, "mul.rn.f32 {slope}, {slope}, {weight}");
}
