//! The forward: a block per tile of queries walks over the keys.

use super::{Edges, Entry, Of, Problem, Tiling, indices, left_of, place};
use crate::asm::{Asm, Exactly, Reg, asm};
use crate::tiles::{self, Columns, Room, SIDE, THREADS, Threads, Tile};
use std::f32::consts::LN_2;

struct Tiles {
    q: Tile,
    k: Tile,
    v: Tile,
    weights: Tile,
    bytes: u32,
}

fn tiles_of(p: &Problem, t: Tiling) -> Tiles {
    let mut room = Room::default();
    let q = room.tile(t.block_rows(), p.depth);
    let (k, v) = (room.tile(t.block_columns(), p.depth), room.tile(t.block_columns(), p.value));
    let weights = room.tile(t.block_columns(), t.block_rows());
    Tiles { q, k, v, weights, bytes: room.bytes }
}

/// Shared memory of a block.
pub(super) fn room(p: &Problem, t: Tiling) -> u32 {
    tiles_of(p, t).bytes
}

pub(super) fn write(name: &str, p: &Problem, t: Tiling) -> Entry {
    let tiles = tiles_of(p, t);
    let mut asm = Asm::default();
    let a = &mut asm;
    let (rows, keys) = (t.block_rows(), t.block_columns());
    let blocks = p.queries.div_ceil(rows);
    let threads = Threads::new(a);
    let (tile, batch) = place(a, blocks);
    // Of a causal attention the last queries see most, so they begin first.
    let tile = if p.causal { a.binary("sub.u32", blocks - 1, tile) } else { tile };
    let from = a.binary("mul.lo.u32", tile, rows);
    let batch = indices(a, batch, &p.batch());
    let first = p.first(a);
    let left = left_of(a, p.queries % rows != 0, p.queries, from);
    let q = p.matrix(a, 0, p.depth, &batch).below_row(a, from);
    let (k, v) = (p.matrix(a, 1, p.depth, &batch), p.matrix(a, 2, p.value, &batch));
    let bias = p.bias.map(|b| p.address(a, b, &batch));
    tiles::load(a, &threads, &tiles.q, &q, left);

    let columns = Columns::of(p.value);
    let sums = tiles::zeros(a, t.rows, columns.each());
    let (max, sum) = (a.floats(t.rows), a.floats(t.rows));
    for (max, sum) in max.iter().zip(&sum) {
        asm!(a, "mov.f32 {max}, {}", Exactly(f32::NEG_INFINITY));
        asm!(a, "mov.f32 {sum}, {}", Exactly(0.0));
    }
    let queries = query_rows(a, &threads, from, t.rows);
    let limit = limit(a, p, first, from, rows);
    let edges = Edges { queries: left.is_some(), keys: p.keys % keys != 0 };
    a.each(0, limit, keys, |a, key| {
        let rest = left_of(a, edges.keys, p.keys, key);
        for (tile, matrix) in [(&tiles.k, &k), (&tiles.v, &v)] {
            let block = matrix.below_row(a, key);
            tiles::load(a, &threads, tile, &block, rest);
        }
        tiles::barrier(a);
        let scores = tiles::inner(a, &threads, &tiles.q, &tiles.k, p.depth);
        let key = a.binary("add.u32", key, threads.x);
        for (c, key) in (0..t.columns).map(|c| (c as usize, a.binary("add.u32", key, c * SIDE))).collect::<Vec<_>>() {
            for (row, &query) in scores.iter().zip(&queries) {
                let last = p.last(a, query, first);
                p.score(a, row[c], bias, Of { query, key, last }, edges);
            }
        }
        for (r, row) in scores.iter().enumerate() {
            online(a, row, max[r], sum[r], &sums[r]);
        }
        tiles::put(a, &threads, &tiles.weights, &scores);
        tiles::together(a);
        tiles::accumulate(a, &threads, &tiles.weights, &tiles.v, columns, &sums);
        if p.keys > keys {
            tiles::barrier(a);
        }
    });
    for (r, row) in sums.iter().enumerate() {
        tiles::reduce(a, sum[r], "add.f32");
        // A row that sees nothing has the sum 0, and the result 0.
        let (by, none) = (a.float(), a.predicate());
        asm!(a, "rcp.rn.f32 {by}, {}", sum[r]);
        asm!(a, "setp.eq.f32 {none}, {}, {}", sum[r], Exactly(0.0));
        asm!(a, "@{none} mov.f32 {by}, {}", Exactly(0.0));
        row.iter().for_each(|x| asm!(a, "mul.rn.f32 {x}, {x}, {by}"));
    }
    let o = p.matrix(a, p.operands, p.value, &batch).below_row(a, from);
    tiles::store(a, &threads, &o, columns, &sums, left);
    statistics(a, p, &threads, &batch, &queries, left.is_some(), &max, &sum);
    Entry {
        name: name.into(),
        text: asm.finish(name, p.parameters(false), THREADS),
        blocks: u64::from(blocks) * p.batch().iter().product::<u64>(),
        shared: tiles.bytes,
    }
}

/// The numbers of a thread's queries.
pub(super) fn query_rows(a: &mut Asm, threads: &Threads, from: Reg, rows: u32) -> Vec<Reg> {
    let first = a.word();
    asm!(a, "mad.lo.u32 {first}, {}, {rows}, {from}", threads.y);
    (0..rows).map(|r| a.binary("add.u32", first, r)).collect()
}

/// How many keys a block of queries sees at most.
pub(super) fn limit(a: &mut Asm, p: &Problem, first: Option<Reg>, from: Reg, rows: u32) -> Reg {
    if !p.causal {
        return a.constant(p.keys);
    }
    let end = a.binary("add.u32", from, rows);
    let end = a.binary("min.u32", end, p.queries);
    let end = first.map_or(end, |first| a.binary("add.s32", end, first));
    a.binary("min.s32", end, p.keys)
}

/// Scores of a row become exponentials relative to the greatest so far; its sum and results follow.
fn online(a: &mut Asm, row: &[Reg], max: Reg, sum: Reg, results: &[Reg]) {
    let (before, shift, shrink, none) = (a.float(), a.float(), a.float(), a.predicate());
    asm!(a, "mov.f32 {before}, {max}");
    asm!(a, "mov.f32 {shift}, {}", row[0]);
    row[1..].iter().for_each(|s| asm!(a, "max.f32 {shift}, {shift}, {s}"));
    tiles::reduce(a, shift, "max.f32");
    asm!(a, "max.f32 {max}, {max}, {shift}");
    // Where nothing is visible yet, what is hidden must not become a NaN.
    asm!(a, "setp.eq.f32 {none}, {max}, {}", Exactly(f32::NEG_INFINITY));
    asm!(a, "mov.f32 {shift}, {max}");
    asm!(a, "@{none} mov.f32 {shift}, {}", Exactly(0.0));
    asm!(a, "sub.rn.f32 {shrink}, {before}, {shift}");
    asm!(a, "ex2.approx.ftz.f32 {shrink}, {shrink}");
    asm!(a, "mul.rn.f32 {sum}, {sum}, {shrink}");
    for s in row {
        asm!(a, "sub.rn.f32 {s}, {s}, {shift}");
        asm!(a, "ex2.approx.ftz.f32 {s}, {s}");
        asm!(a, "add.rn.f32 {sum}, {sum}, {s}");
    }
    results.iter().for_each(|x| asm!(a, "mul.rn.f32 {x}, {x}, {shrink}"));
}

/// Stores the logarithm of each row's sum of exponentials.
#[allow(clippy::too_many_arguments, reason = "what a row's statistics are made of")]
fn statistics(a: &mut Asm, p: &Problem, threads: &Threads, batch: &[Reg], queries: &[Reg], edge: bool, max: &[Reg], sum: &[Reg]) {
    let base = p.address(a, p.operands + 1, batch);
    let one = a.predicate();
    asm!(a, "setp.eq.u32 {one}, {}, 0", threads.x);
    for ((&query, max), sum) in queries.iter().zip(max).zip(sum) {
        // The exponent apart, since the instruction's error is relative to its result, and absolute near 1 only.
        let (exponent, mantissa, whole, log, base_two) = (a.word(), a.word(), a.float(), a.float(), a.float());
        asm!(a, "mov.b32 {mantissa}, {sum}");
        asm!(a, "shr.u32 {exponent}, {mantissa}, 23");
        asm!(a, "sub.u32 {exponent}, {exponent}, 127");
        asm!(a, "and.b32 {mantissa}, {mantissa}, {}", 0x7F_FFFF);
        asm!(a, "or.b32 {mantissa}, {mantissa}, {}", 0x3F80_0000);
        asm!(a, "cvt.rn.f32.s32 {whole}, {exponent}");
        asm!(a, "mov.b32 {log}, {mantissa}");
        asm!(a, "lg2.approx.ftz.f32 {log}, {log}");
        asm!(a, "add.rn.f32 {base_two}, {max}, {whole}");
        asm!(a, "add.rn.f32 {base_two}, {base_two}, {log}");
        asm!(a, "mul.rn.f32 {base_two}, {base_two}, {}", Exactly(LN_2));
        // A row that sees nothing has the greatest score -∞ and the sum 0; a sum that is no number stays none.
        let (whole_row, empty) = (a.predicate(), a.predicate());
        asm!(a, "setp.gt.f32 {whole_row}, {sum}, {}", Exactly(0.0));
        asm!(a, "@!{whole_row} mov.f32 {base_two}, {sum}");
        asm!(a, "setp.eq.f32 {empty}, {sum}, {}", Exactly(0.0));
        asm!(a, "@{empty} mov.f32 {base_two}, {}", Exactly(f32::NEG_INFINITY));
        let store = a.predicate();
        if edge {
            asm!(a, "setp.lt.s32 {store}, {query}, {}", p.queries);
            asm!(a, "and.pred {store}, {store}, {one}");
        } else {
            asm!(a, "and.pred {store}, {one}, {one}");
        }
        let at = a.advance(base, query, p.params[p.operands + 1].row * 4);
        asm!(a, "@{store} st.global.b32 [{at}], {base_two}");
    }
}
