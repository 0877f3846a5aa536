//! Matrices in shared memory, and what a block of 256 threads does with them: loads, products, and results back to memory.
//!
//! Threads are a square of 16 by 16. A thread of row `y` and column `x` has, of the rows of a product, the `R` from `R·y` on; of its columns either `x`,
//! `x + 16`, … (scores) or runs of `w` from `w·x` on, 16·w apart (results). So a row's scores lie with 16 neighbouring lanes, which reduce them by shuffles,
//! and a warp reads of one product's weights only what it has stored itself. Shared matrices are `f32`, their pitch such that 16-byte accesses meet no bank
//! twice, and zero where they are wider than what was loaded.

use crate::asm::{Asm, Exactly, Reg, Vector, asm, lanes};
use ir::DType;

/// Threads along a side of the square.
pub(crate) const SIDE: u32 = 16;
/// Threads of a block.
pub(crate) const THREADS: u32 = SIDE * SIDE;
/// Accesses to memory that a thread has under way at once while it loads.
const UNDER_WAY: u32 = 4;

/// A matrix in shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// Where it begins, in bytes.
    offset: u32,
    /// Rows.
    pub(crate) rows: u32,
    /// Columns.
    pub(crate) width: u32,
    /// Elements from row to row.
    pitch: u32,
}

/// Shared memory that is given out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    /// Bytes given out.
    pub(crate) bytes: u32,
}

impl Room {
    /// A matrix at least as wide as `width`.
    pub(crate) fn tile(&mut self, rows: u32, width: u32) -> Tile {
        let width = width.next_multiple_of(SIDE);
        let tile = Tile { offset: self.bytes, rows, width, pitch: width + 4 };
        self.bytes += rows * tile.pitch * 4;
        tile
    }
}

/// The threads' places, as registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads {
    pub(crate) id: Reg,
    pub(crate) x: Reg,
    pub(crate) y: Reg,
    shared: Reg,
}

impl Threads {
    pub(crate) fn new(a: &mut Asm) -> Threads {
        let id = a.constant("%tid.x");
        let x = a.binary("and.b32", id, SIDE - 1);
        let y = a.binary("shr.u32", id, SIDE.ilog2());
        Threads { id, x, y, shared: a.constant("library_shared") }
    }
    /// The shared address of `tile`'s element at `row · by_row + column · by_column` elements.
    fn at(&self, a: &mut Asm, tile: &Tile, (row, by_row): (Reg, u32), (column, by_column): (Reg, u32)) -> Reg {
        let d = a.word();
        asm!(a, "mad.lo.u32 {d}, {row}, {}, {}", by_row * tile.pitch * 4, self.shared);
        if by_column > 0 {
            asm!(a, "mad.lo.u32 {d}, {column}, {}, {d}", by_column * 4);
        }
        d
    }
}

/// A matrix in device memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    /// Address of its first element, or of the first row of a block.
    pub(crate) at: Reg,
    pub(crate) dtype: DType,
    /// Elements from row to row, and from column to column.
    pub(crate) row: u64,
    pub(crate) column: u64,
    /// Columns.
    pub(crate) width: u32,
    /// How many columns from a multiple of it on are one aligned access of that many elements, for every power of two up to it.
    pub(crate) run: u32,
}

impl Matrix {
    fn bytes(&self) -> u64 {
        self.dtype.bytes()
    }
    /// The matrix from row `index` on: what lies at and below it.
    pub(crate) fn below_row(&self, a: &mut Asm, index: Reg) -> Matrix {
        Matrix { at: a.advance(self.at, index, self.row * self.bytes()), ..*self }
    }
}

/// Makes `f32`s of what was loaded; the words of a vector hold two elements each where they are narrow.
fn widened(a: &mut Asm, dtype: DType, loaded: &[Reg]) -> Vec<Reg> {
    if dtype == DType::F32 {
        return loaded.to_vec();
    }
    let mut out = Vec::new();
    for &word in loaded {
        if dtype == DType::BF16 {
            out.push(a.binary("shl.b32", word, 16));
            out.push(a.binary("and.b32", word, 0xFFFF_0000u32));
        } else {
            let halves = [a.half(), a.half()];
            asm!(a, "mov.b32 {}, {word}", Vector(&halves));
            for half in halves {
                let f = a.float();
                asm!(a, "cvt.f32.f16 {f}, {half}");
                out.push(f);
            }
        }
    }
    out
}

/// Loads one element as `f32`, if `guard` holds; else it is zero.
pub(crate) fn element(a: &mut Asm, dtype: DType, address: Reg, offset: u64, guard: Option<Reg>) -> Reg {
    let (d, when) = (a.float(), guard.map_or_else(String::new, |p| format!("@{p} ")));
    if dtype == DType::F32 {
        if guard.is_some() {
            asm!(a, "mov.f32 {d}, {}", Exactly(0.0));
        }
        asm!(a, "{when}ld.global.b32 {d}, [{address}+{offset}]");
        return d;
    }
    let half = a.half();
    if guard.is_some() {
        asm!(a, "mov.b16 {half}, 0");
    }
    asm!(a, "{when}ld.global.b16 {half}, [{address}+{offset}]");
    if dtype == DType::BF16 {
        let word = a.word();
        asm!(a, "cvt.u32.u16 {word}, {half}");
        asm!(a, "shl.b32 {word}, {word}, 16");
        asm!(a, "mov.b32 {d}, {word}");
    } else {
        asm!(a, "cvt.f32.f16 {d}, {half}");
    }
    d
}

/// Fills `tile` with rows of `from`; those that are not below `rows` are zero, where that is said.
pub(crate) fn load(a: &mut Asm, threads: &Threads, tile: &Tile, from: &Matrix, rows: Option<Reg>) {
    let vector = if from.run * from.bytes() as u32 >= 16 { 16 / from.bytes() as u32 } else { 1 };
    let groups = tile.width / vector;
    let total = tile.rows * groups;
    let rounds = total.div_ceil(THREADS);
    // Neighbouring threads load neighbours in memory.
    let along_rows = vector == 1 && from.row < from.column;
    let batch = |a: &mut Asm, start: Option<Reg>, first: u32, count: u32| {
        let mut stores = Vec::new();
        for k in first..first + count {
            let index = a.binary("add.u32", threads.id, k * THREADS);
            if let Some(start) = start {
                asm!(a, "mad.lo.u32 {index}, {start}, {THREADS}, {index}");
            }
            let by = if along_rows { tile.rows } else { groups };
            let (major, minor) = (a.binary("div.u32", index, by), a.binary("rem.u32", index, by));
            let (row, group) = if along_rows { (minor, major) } else { (major, minor) };
            let mut conditions = Vec::new();
            let inside = total % THREADS != 0;
            let inside = inside.then(|| a.predicate()).inspect(|p| asm!(a, "setp.lt.u32 {p}, {index}, {total}"));
            conditions.extend(inside);
            if let Some(rows) = rows {
                let p = a.predicate();
                asm!(a, "setp.lt.s32 {p}, {row}, {rows}");
                conditions.push(p);
            }
            if tile.width > from.width {
                let p = a.predicate();
                asm!(a, "setp.lt.u32 {p}, {group}, {}", from.width / vector);
                conditions.push(p);
            }
            let guard = conditions.into_iter().reduce(|p, q| {
                let both = a.predicate();
                asm!(a, "and.pred {both}, {p}, {q}");
                both
            });
            let address = a.advance(from.at, row, from.row * from.bytes());
            let address = a.advance(address, group, u64::from(vector) * from.column * from.bytes());
            let values = if vector == 1 {
                vec![element(a, from.dtype, address, 0, guard)]
            } else {
                let words = a.words(4);
                if guard.is_some() {
                    words.iter().for_each(|w| asm!(a, "mov.b32 {w}, 0"));
                }
                let when = guard.map_or_else(String::new, |p| format!("@{p} "));
                asm!(a, "{when}ld.global.v4.b32 {}, [{address}]", Vector(&words));
                words
            };
            stores.push((threads.at(a, tile, (row, 1), (group, vector)), values, inside));
        }
        for (address, values, inside) in stores {
            let values = if vector == 1 { values } else { widened(a, from.dtype, &values) };
            let when = inside.map_or_else(String::new, |p| format!("@{p} "));
            let size = values.len().min(4);
            for (i, part) in values.chunks(size).enumerate() {
                asm!(a, "{when}st.shared{}.b32 [{address}+{}], {}", lanes(size as u32), tile.offset + 16 * i as u32, Vector(part));
            }
        }
    };
    if rounds <= 2 * UNDER_WAY {
        for first in (0..rounds).step_by(UNDER_WAY as usize) {
            batch(a, None, first, UNDER_WAY.min(rounds - first));
        }
        return;
    }
    let whole = rounds / UNDER_WAY * UNDER_WAY;
    a.each(0, whole, UNDER_WAY, |a, start| batch(a, Some(start), 0, UNDER_WAY));
    if rounds > whole {
        batch(a, None, whole, rounds - whole);
    }
}

/// A thread's part of a product: rows of registers.
pub(crate) type Part = Vec<Vec<Reg>>;

/// A part of zeros.
pub(crate) fn zeros(a: &mut Asm, rows: u32, columns: u32) -> Part {
    let part: Part = (0..rows).map(|_| a.floats(columns)).collect();
    part.iter().flatten().for_each(|f| asm!(a, "mov.f32 {f}, {}", Exactly(0.0)));
    part
}

/// Of `left · rightᵀ`, contracted over the first `depth` columns of both: `R` rows of the thread, and every 16th column from `x` on.
pub(crate) fn inner(a: &mut Asm, threads: &Threads, left: &Tile, right: &Tile, depth: u32) -> Part {
    let (rows, columns) = (left.rows / SIDE, right.rows / SIDE);
    let part = zeros(a, rows, columns);
    let l = threads.at(a, left, (threads.y, rows), (threads.x, 0));
    let r = threads.at(a, right, (threads.x, 1), (threads.x, 0));
    let (ls, rs): (Part, Part) = ((0..rows).map(|_| a.floats(4)).collect(), (0..columns).map(|_| a.floats(4)).collect());
    let (li, ri) = (a.word(), a.word());
    a.unrolled(depth.div_ceil(4), 4, |a, i, k| {
        let (mut lb, mut rb) = (l, r);
        if let Some(i) = i {
            if k == 0 {
                asm!(a, "mad.lo.u32 {li}, {i}, 16, {l}");
                asm!(a, "mad.lo.u32 {ri}, {i}, 16, {r}");
            }
            (lb, rb) = (li, ri);
        }
        for (n, v) in ls.iter().enumerate() {
            asm!(a, "ld.shared.v4.f32 {}, [{lb}+{}]", Vector(v), left.offset + n as u32 * left.pitch * 4 + k * 16);
        }
        for (n, v) in rs.iter().enumerate() {
            asm!(a, "ld.shared.v4.f32 {}, [{rb}+{}]", Vector(v), right.offset + n as u32 * SIDE * right.pitch * 4 + k * 16);
        }
        for d in 0..4 {
            for (row, l) in part.iter().zip(&ls) {
                for (s, r) in row.iter().zip(&rs) {
                    asm!(a, "fma.rn.f32 {s}, {}, {}, {s}", l[d], r[d]);
                }
            }
        }
    });
    part
}

/// Stores a thread's part of a product transposed: rows of `tile` are its columns. The warp that stored them may read them behind [`together`].
pub(crate) fn put(a: &mut Asm, threads: &Threads, tile: &Tile, part: &Part) {
    let rows = part.len() as u32;
    let at = threads.at(a, tile, (threads.x, 1), (threads.y, rows));
    for c in 0..part[0].len() {
        let column: Vec<Reg> = part.iter().map(|row| row[c]).collect();
        asm!(a, "st.shared{}.f32 [{at}+{}], {}", lanes(rows), tile.offset + c as u32 * SIDE * tile.pitch * 4, Vector(&column));
    }
}

/// Lets a warp's lanes see what the others have stored.
pub(crate) fn together(a: &mut Asm) {
    asm!(a, "bar.warp.sync -1");
}

/// Lets a block's threads see what the others have stored.
pub(crate) fn barrier(a: &mut Asm) {
    asm!(a, "bar.sync 0");
}

/// How the columns of a result lie with threads: `runs` of `run` neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    run: u32,
    runs: u32,
}

impl Columns {
    /// Of a result that is `width` wide.
    pub(crate) fn of(width: u32) -> Columns {
        let each = width.div_ceil(SIDE);
        let run = [4, 2, 1].into_iter().find(|w| each % w == 0).unwrap_or(1);
        Columns { run, runs: each / run }
    }
    /// Columns of a thread.
    pub(crate) fn each(self) -> u32 {
        self.run * self.runs
    }
}

/// Adds `weightsᵀ · values` to a thread's part of the result; `weights` is as [`put`] leaves it.
pub(crate) fn accumulate(a: &mut Asm, threads: &Threads, weights: &Tile, values: &Tile, columns: Columns, part: &Part) {
    let rows = part.len() as u32;
    let w = threads.at(a, weights, (threads.y, 0), (threads.y, rows));
    let v = threads.at(a, values, (threads.x, 0), (threads.x, columns.run));
    let (ws, vs) = (a.floats(rows), a.floats(columns.each()));
    let (wi, vi) = (a.word(), a.word());
    a.unrolled(values.rows, 4, |a, i, k| {
        let (mut wb, mut vb) = (w, v);
        if let Some(i) = i {
            if k == 0 {
                asm!(a, "mad.lo.u32 {wi}, {i}, {}, {w}", weights.pitch * 4);
                asm!(a, "mad.lo.u32 {vi}, {i}, {}, {v}", values.pitch * 4);
            }
            (wb, vb) = (wi, vi);
        }
        asm!(a, "ld.shared{}.f32 {}, [{wb}+{}]", lanes(rows), Vector(&ws), weights.offset + k * weights.pitch * 4);
        for (n, run) in vs.chunks(columns.run as usize).enumerate() {
            let offset = values.offset + k * values.pitch * 4 + n as u32 * SIDE * columns.run * 4;
            asm!(a, "ld.shared{}.f32 {}, [{vb}+{offset}]", lanes(columns.run), Vector(run));
        }
        for (row, w) in part.iter().zip(&ws) {
            for (s, v) in row.iter().zip(&vs) {
                asm!(a, "fma.rn.f32 {s}, {w}, {v}, {s}");
            }
        }
    });
}

/// Runs of a result's row `r` of a thread: whether each is one access, its offset in bytes, and the guard of each of its elements (or of the access).
fn runs(a: &mut Asm, threads: &Threads, m: &Matrix, columns: Columns, r: u32, inside: Option<Reg>) -> Vec<(bool, Vec<(u64, Option<Reg>)>)> {
    let vector = columns.run > 1 && m.run >= columns.run;
    let mut all = Vec::new();
    for n in 0..columns.runs {
        let first = n * SIDE * columns.run;
        let mut places = Vec::new();
        for i in 0..if vector { 1 } else { columns.run } {
            let offset = u64::from(r) * m.row * m.bytes() + u64::from(first + i) * m.column * m.bytes();
            let mut guard = inside;
            if first + SIDE * columns.run > m.width {
                let p = a.predicate();
                let most = (m.width.saturating_sub(first + i)).div_ceil(columns.run);
                asm!(a, "setp.lt.u32 {p}, {}, {most}", threads.x);
                if let Some(inside) = inside {
                    asm!(a, "and.pred {p}, {p}, {inside}");
                }
                guard = Some(p);
            }
            places.push((offset, guard));
        }
        all.push((vector, places));
    }
    all
}

/// Where a thread's part of a result begins in memory.
fn begin(a: &mut Asm, threads: &Threads, m: &Matrix, columns: Columns, rows: u32) -> Reg {
    let row = a.advance(m.at, threads.y, u64::from(rows) * m.row * m.bytes());
    a.advance(row, threads.x, u64::from(columns.run) * m.column * m.bytes())
}

/// For each of a thread's rows whether it is below `left`; nothing where all are.
pub(crate) fn below(a: &mut Asm, threads: &Threads, rows: u32, left: Option<Reg>) -> Vec<Option<Reg>> {
    let Some(left) = left else { return vec![None; rows as usize] };
    let first = a.binary("mul.lo.u32", threads.y, rows);
    (0..rows)
        .map(|r| {
            let (row, p) = (a.binary("add.u32", first, r), a.predicate());
            asm!(a, "setp.lt.s32 {p}, {row}, {left}");
            Some(p)
        })
        .collect()
}

/// Stores a thread's part of a result, rounded; rows that are not below `left` are left out.
pub(crate) fn store(a: &mut Asm, threads: &Threads, to: &Matrix, columns: Columns, part: &Part, left: Option<Reg>) {
    let rows = part.len() as u32;
    let at = begin(a, threads, to, columns, rows);
    let inside = below(a, threads, rows, left);
    for (r, (row, inside)) in part.iter().zip(inside).enumerate() {
        let values: Vec<Reg> = row.iter().map(|&f| rounded(a, to.dtype, f)).collect();
        let runs = runs(a, threads, to, columns, r as u32, inside);
        for ((vector, places), values) in runs.into_iter().zip(values.chunks(columns.run as usize)) {
            let size = if vector { values.len() } else { 1 };
            for ((offset, guard), values) in places.into_iter().zip(values.chunks(size)) {
                let when = guard.map_or_else(String::new, |p| format!("@{p} "));
                asm!(a, "{when}st.global{}.b{} [{at}+{offset}], {}", lanes(size as u32), to.bytes() * 8, Vector(values));
            }
        }
    }
}

/// An `f32` as it is stored.
pub(crate) fn rounded(a: &mut Asm, dtype: DType, f: Reg) -> Reg {
    if dtype == DType::F32 {
        return f;
    }
    let half = a.half();
    asm!(a, "cvt.rn.{}.f32 {half}, {f}", if dtype == DType::BF16 { "bf16" } else { "f16" });
    half
}

/// Of each of a thread's rows the product of `from`'s with `tile`'s, summed over all columns; every lane of a row has it.
pub(crate) fn row_products(a: &mut Asm, threads: &Threads, from: &Matrix, tile: &Tile, left: Option<Reg>) -> Vec<Reg> {
    let (rows, columns) = (tile.rows / SIDE, Columns::of(from.width));
    let at = begin(a, threads, from, columns, rows);
    let shared = threads.at(a, tile, (threads.y, rows), (threads.x, columns.run));
    let inside = below(a, threads, rows, left);
    let mut sums = Vec::new();
    for (r, inside) in (0..rows).zip(inside) {
        let sum = a.float();
        asm!(a, "mov.f32 {sum}, {}", Exactly(0.0));
        for (n, (_, places)) in runs(a, threads, &Matrix { run: 1, ..*from }, columns, r, inside).into_iter().enumerate() {
            for (i, (offset, guard)) in places.into_iter().enumerate() {
                let (x, y) = (element(a, from.dtype, at, offset, guard), a.float());
                asm!(a, "ld.shared.f32 {y}, [{shared}+{}]", tile.offset + (r * tile.pitch + n as u32 * SIDE * columns.run + i as u32) * 4);
                asm!(a, "fma.rn.f32 {sum}, {x}, {y}, {sum}");
            }
        }
        reduce(a, sum, "add.f32");
        sums.push(sum);
    }
    sums
}

/// Reduces a value over the 16 lanes of a row by `op`; all have the result.
pub(crate) fn reduce(a: &mut Asm, value: Reg, op: &str) {
    let other = a.float();
    for distance in [8, 4, 2, 1] {
        asm!(a, "shfl.sync.bfly.b32 {other}, {value}, {distance}, 31, -1");
        asm!(a, "{op} {value}, {value}, {other}");
    }
}
