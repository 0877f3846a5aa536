//! Scatter: every element of the result has one owner, which adds what the index vectors send there, in their order.
//!
//! Where an index vector chooses among whole dimensions (windows of different vectors then coincide or are apart) the owner compares vectors with its own
//! place. Where few vectors can reach an element, because the others belong to other batching positions, a thread owns a run of elements and looks at all of
//! them. Else a warp owns a row of the result: its lanes compare 128 vectors at once, and all lanes add the updates of those that match. Sums of narrow floats
//! are `f32`, rounded once.

use crate::Kernels;
use crate::asm::{Asm, Reg, Vector, asm};
use crate::indexing::{Access, Dim, Roles, Starts, merged, offsets, positions, vector};
use ir::op::{Reducer, ScatterDims};
use ir::plan::Launch;
use ir::{DType, TensorType};

const THREADS: u32 = 256;
const WARPS: u64 = 8;
/// Index vectors that a thread looks at by itself.
const FEW: u64 = 32;
/// Registers of a lane's part of a row.
const PART: u64 = 32;
/// Comparisons of a launch that are not too many.
const MOST_COMPARISONS: u64 = 1 << 40;

/// What of an operand's dimension decides where updates go.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// A component of the index vectors.
    Component(usize),
    /// A batching dimension, with its stride in the indices and in the updates.
    Batching(u64, u64),
    /// A dimension of the window, with its size and its stride in the updates.
    Window(u64, u64),
}

struct Scatter {
    shape: Vec<u64>,
    roles: Vec<Role>,
    starts: Starts,
    /// Batch dimensions of the indices that belong to no batching dimension: strides in indices and updates.
    free: Vec<Dim<2>>,
    dtype: DType,
}

/// The kernel of a scatter.
pub(crate) fn scatter(name: &str, s: &ScatterDims, reducer: Reducer, operands: &[TensorType]) -> Option<Kernels> {
    let [operand, indices, updates] = operands else { return None };
    let float = matches!(operand.dtype, DType::F32 | DType::BF16 | DType::F16);
    let integer = matches!(operand.dtype, DType::I32 | DType::UI32);
    if reducer != Reducer::Add || !(float || integer) || operand.elements() == 0 || operands.iter().any(|t| t.elements() > u64::from(u32::MAX) / 2) {
        return None;
    }
    let kept: Vec<usize> = (0..operand.rank()).filter(|d| !s.inserted_window_dims.contains(d) && !s.input_batching_dims.contains(d)).collect();
    let batch: Vec<usize> = (0..updates.rank()).filter(|d| !s.update_window_dims.contains(d)).collect();
    if kept.len() != s.update_window_dims.len() {
        return None;
    }
    let mut sizes = vec![1; operand.rank()];
    for (&d, &u) in kept.iter().zip(&s.update_window_dims) {
        sizes[d] = updates.shape[u];
    }
    let map = &s.scatter_dims_to_operand_dims;
    // Else windows of different vectors might overlap in part.
    if map.is_empty() || map.iter().any(|&d| sizes[d] != 1) {
        return None;
    }
    let roles =
        Roles { map, batching: (&s.input_batching_dims, &s.scatter_indices_batching_dims), vector_dim: s.index_vector_dim, sizes: &sizes, other_batch: &batch };
    let starts = Starts::new(&operand.shape, indices, &updates.shape, &roles)?;
    let strides = updates.strides();
    let role = |d: usize| {
        if let Some(c) = map.iter().position(|m| *m == d) {
            return Role::Component(c);
        }
        if let Some((b, _)) = starts.batch.iter().find(|b| b.1 == Some(d)) {
            return Role::Batching(b.strides[0], b.strides[1]);
        }
        let window = kept.iter().position(|k| *k == d).map(|i| s.update_window_dims[i]);
        // A dimension that nothing addresses has its first place only.
        window.map_or(Role::Window(1, 0), |u| Role::Window(updates.shape[u], strides[u]))
    };
    let free = starts.batch.iter().filter(|b| b.1.is_none()).map(|(d, _)| Dim { extent: d.extent, strides: [d.strides[0], d.strides[1]] });
    let scatter = Scatter {
        roles: (0..operand.rank()).map(role).collect(),
        free: merged(&free.collect::<Vec<_>>()),
        shape: operand.shape.clone(),
        dtype: operand.dtype,
        starts,
    };
    let few = positions(&scatter.free) <= FEW;
    let whole = scatter.roles.iter().zip(&scatter.shape).all(|(r, n)| !matches!(r, Role::Window(size, _) if size != n));
    if few || !whole { scatter.by_elements(name) } else { scatter.by_rows(name) }
}

impl Scatter {
    fn bytes(&self) -> u64 {
        self.dtype.bytes()
    }

    fn pointers(&self, a: &mut Asm) -> [Reg; 4] {
        [0, 1, 2, 3].map(|p| a.parameter(p))
    }

    /// `run` elements at an address as what sums are made in, if `guard` holds.
    fn load(&self, a: &mut Asm, at: Reg, offset: u64, run: u64, guard: Option<Reg>) -> Vec<Reg> {
        let access = Access(run * self.bytes());
        let raw = access.registers(a);
        let when = guard.map_or_else(String::new, |p| format!("@{p} "));
        if guard.is_some() {
            let ty = if access.0 < 4 { "b16" } else { "b32" };
            raw.iter().for_each(|r| asm!(a, "mov.{ty} {r}, 0"));
        }
        asm!(a, "{when}ld.global{} {}, [{at}+{offset}]", access.modifiers(), Vector(&raw));
        let halves: Vec<Reg> = match self.dtype {
            DType::BF16 | DType::F16 if access.0 >= 4 => raw
                .iter()
                .flat_map(|word| {
                    let halves = [a.half(), a.half()];
                    asm!(a, "mov.b32 {}, {word}", Vector(&halves));
                    halves
                })
                .collect(),
            _ => raw,
        };
        let one = |raw: Reg| match self.dtype {
            DType::BF16 => {
                let (word, f) = (a.word(), a.float());
                asm!(a, "cvt.u32.u16 {word}, {raw}");
                asm!(a, "shl.b32 {word}, {word}, 16");
                asm!(a, "mov.b32 {f}, {word}");
                f
            }
            DType::F16 => {
                let f = a.float();
                asm!(a, "cvt.f32.f16 {f}, {raw}");
                f
            }
            DType::F32 => {
                let f = a.float();
                asm!(a, "mov.b32 {f}, {raw}");
                f
            }
            _ => raw,
        };
        halves.into_iter().map(one).collect()
    }

    fn store(&self, a: &mut Asm, at: Reg, offset: u64, values: &[Reg], guard: Option<Reg>) {
        let access = Access(values.len() as u64 * self.bytes());
        let rounded: Vec<Reg> = values.iter().map(|&v| if self.dtype.is_float() { crate::tiles::rounded(a, self.dtype, v) } else { v }).collect();
        let raw: Vec<Reg> = if self.bytes() == 2 && access.0 >= 4 {
            let pack = |pair: &[Reg]| {
                let word = a.word();
                asm!(a, "mov.b32 {word}, {}", Vector(pair));
                word
            };
            rounded.chunks(2).map(pack).collect()
        } else {
            rounded
        };
        let when = guard.map_or_else(String::new, |p| format!("@{p} "));
        asm!(a, "{when}st.global{} [{at}+{offset}], {}", access.modifiers(), Vector(&raw));
    }

    fn add(&self, a: &mut Asm, sums: &[Reg], values: &[Reg], guard: Option<Reg>) {
        let op = if self.dtype.is_float() { "add.rn.f32" } else { "add.u32" };
        let when = guard.map_or_else(String::new, |p| format!("@{p} "));
        for (s, v) in sums.iter().zip(values) {
            asm!(a, "{when}{op} {s}, {s}, {v}");
        }
    }

    /// Whether the index vector at `offset` is that of a place, whose components are 64 bits.
    fn matches(&self, a: &mut Asm, indices: Reg, offset: Reg, place: &[Reg], guard: Option<Reg>) -> Reg {
        let all = a.predicate();
        for (c, own) in place.iter().enumerate() {
            // What is not loaded is -1, which is no place.
            let index = self.starts.load(a, indices, offset, c, guard);
            if c == 0 {
                asm!(a, "setp.eq.s64 {all}, {index}, {own}");
            } else {
                let p = a.predicate();
                asm!(a, "setp.eq.s64 {p}, {index}, {own}");
                asm!(a, "and.pred {all}, {all}, {p}");
            }
        }
        all
    }

    /// The number of elements of the last dimension that are one access.
    fn run(&self) -> u64 {
        let Some((&Role::Window(size, 1), rest)) = self.roles.split_last() else { return 1 };
        let last = self.shape.last().copied().unwrap_or(1);
        if size != last {
            return 1;
        }
        let updates = rest.iter().map(|r| match r {
            Role::Component(_) => 0,
            Role::Batching(_, u) | Role::Window(_, u) => *u,
        });
        vector(self.bytes(), last, updates.chain(self.free.iter().map(|d| d.strides[1])).collect::<Vec<_>>().into_iter())
    }

    /// A thread for every run of elements of the result.
    fn by_elements(&self, name: &str) -> Option<Kernels> {
        let (run, total) = (self.run(), self.shape.iter().product::<u64>());
        let (threads, few) = (total / run, positions(&self.free));
        if threads > i32::MAX as u64 || threads.saturating_mul(few) > MOST_COMPARISONS {
            return None;
        }
        let mut asm = Asm::default();
        let a = &mut asm;
        let linear = a.constant("%tid.x");
        a.across_blocks(linear, THREADS, threads);
        let [operand, indices, updates, result] = self.pointers(a);
        let (vectors, from) = (a.long(), a.long());
        asm!(a, "mov.u64 {vectors}, 0");
        asm!(a, "mov.u64 {from}, 0");
        let mut place = vec![None; self.starts.components.len()];
        let mut within: Option<Reg> = None;
        let mut rest = linear;
        for (d, role) in self.roles.iter().enumerate().rev() {
            let step = if d + 1 == self.roles.len() { run } else { 1 };
            let extent = self.shape[d] / step;
            let index = if d == 0 { rest } else { a.binary("rem.u32", rest, extent) };
            if d > 0 {
                rest = a.binary("div.u32", rest, extent);
            }
            match *role {
                Role::Component(c) => {
                    let own = a.long();
                    asm!(a, "cvt.u64.u32 {own}, {index}");
                    place[c] = Some(own);
                }
                Role::Batching(i, u) => {
                    asm!(a, "mad.wide.u32 {vectors}, {index}, {i}, {vectors}");
                    asm!(a, "mad.wide.u32 {from}, {index}, {u}, {from}");
                }
                Role::Window(size, u) => {
                    asm!(a, "mad.wide.u32 {from}, {index}, {}, {from}", u * step);
                    if size < self.shape[d] {
                        let p = a.predicate();
                        asm!(a, "setp.lt.u32 {p}, {index}, {size}");
                        if let Some(q) = within {
                            asm!(a, "and.pred {p}, {p}, {q}");
                        }
                        within = Some(p);
                    }
                }
            }
        }
        let place: Vec<Reg> = place.into_iter().collect::<Option<_>>()?;
        let by = run * self.bytes();
        let (operand, result) = (a.advance(operand, linear, by), a.advance(result, linear, by));
        let sums = self.load(a, operand, 0, run, None);
        a.each(0, few, 1, |a, n| {
            let [i, u] = offsets(a, n, &self.free);
            asm!(a, "add.u64 {i}, {i}, {vectors}");
            asm!(a, "add.u64 {u}, {u}, {from}");
            let matches = self.matches(a, indices, i, &place, within);
            let at = a.long();
            asm!(a, "mad.lo.u64 {at}, {u}, {}, {updates}", self.bytes());
            let values = self.load(a, at, 0, run, Some(matches));
            self.add(a, &sums, &values, Some(matches));
        });
        self.store(a, result, 0, &sums, None);
        let blocks = threads.div_ceil(u64::from(THREADS)) as u32;
        let launch = Launch { entry: name.into(), grid: [blocks, 1, 1], block: [THREADS, 1, 1], shared: 0, scratch: 0 };
        Some(Kernels { text: asm.finish(name, 4, THREADS), launches: vec![launch] })
    }

    /// A warp for every row of the result: what a place of the components and the batching dimensions has.
    fn by_rows(&self, name: &str) -> Option<Kernels> {
        let strides = ir::dtype::row_major_strides(&self.shape);
        // Dimensions of rows keep their order; strides in the result, the indices and the updates.
        let rows: Vec<(Dim<3>, Option<usize>)> = self
            .roles
            .iter()
            .enumerate()
            .filter_map(|(d, role)| match *role {
                Role::Component(c) => Some((Dim { extent: self.shape[d], strides: [strides[d], 0, 0] }, Some(c))),
                Role::Batching(i, u) => Some((Dim { extent: self.shape[d], strides: [strides[d], i, u] }, None)),
                Role::Window(..) => None,
            })
            .collect();
        let window = self.roles.iter().enumerate().filter_map(|(d, role)| match *role {
            Role::Window(size, u) => Some(Dim { extent: size, strides: [strides[d], u] }),
            _ => None,
        });
        let mut window = merged(&window.collect::<Vec<Dim<2>>>());
        let mut run = 1;
        if let Some((last, rest)) = window.split_last_mut().filter(|(last, _)| last.strides == [1, 1]) {
            let others = rows.iter().flat_map(|(d, _)| [d.strides[0], d.strides[2]]).chain(self.free.iter().map(|d| d.strides[1]));
            let others: Vec<u64> = others.chain(rest.iter().flat_map(|d| d.strides)).collect();
            run = vector(self.bytes(), last.extent, others.into_iter());
            *last = Dim { extent: last.extent / run, strides: [run, run] };
        }
        let count: u64 = rows.iter().map(|(d, _)| d.extent).product();
        let (runs, vectors) = (positions(&window), positions(&self.free));
        let each = runs.div_ceil(32).min(PART / run).max(1);
        let parts = runs.div_ceil(32 * each);
        let warps = count * parts;
        if warps > i32::MAX as u64 || vectors > i32::MAX as u64 || warps.saturating_mul(vectors) > MOST_COMPARISONS {
            return None;
        }
        let mut asm = Asm::default();
        let a = &mut asm;
        let id = a.constant("%tid.x");
        let (lane, warp) = (a.binary("and.b32", id, 31), a.binary("shr.u32", id, 5));
        a.across_blocks(warp, WARPS as u32, warps);
        let [operand, indices, updates, result] = self.pointers(a);
        let (row, part) = if parts > 1 { (a.binary("div.u32", warp, parts), a.binary("rem.u32", warp, parts)) } else { (warp, a.constant(0)) };
        // The row's place.
        let mut place = vec![None; self.starts.components.len()];
        let sums: [Reg; 3] = [(); 3].map(|()| a.long());
        sums.iter().for_each(|s| asm!(a, "mov.u64 {s}, 0"));
        let mut rest = row;
        for (n, (d, component)) in rows.iter().enumerate().rev() {
            let index = if n == 0 { rest } else { a.binary("rem.u32", rest, d.extent) };
            if n > 0 {
                rest = a.binary("div.u32", rest, d.extent);
            }
            for (sum, stride) in sums.iter().zip(&d.strides).filter(|(_, s)| **s != 0) {
                asm!(a, "mad.wide.u32 {sum}, {index}, {stride}, {sum}");
            }
            if let Some(c) = component {
                let own = a.long();
                asm!(a, "cvt.u64.u32 {own}, {index}");
                place[*c] = Some(own);
            }
        }
        let place: Vec<Reg> = place.into_iter().collect::<Option<_>>()?;
        let [to, first, from] = sums;
        // The lane's runs of the row.
        let begin = a.word();
        asm!(a, "mad.lo.u32 {begin}, {part}, {}, {lane}", 32 * each);
        let mut own = Vec::new();
        for k in 0..each {
            let number = a.binary("add.u32", begin, 32 * k);
            let guard = (runs % (32 * each) != 0).then(|| {
                let p = a.predicate();
                asm!(a, "setp.lt.u32 {p}, {number}, {runs}");
                p
            });
            let [r, u] = offsets(a, number, &window);
            asm!(a, "add.u64 {r}, {r}, {to}");
            asm!(a, "add.u64 {u}, {u}, {from}");
            let (source, target, update) = (a.long(), a.long(), a.long());
            asm!(a, "mad.lo.u64 {source}, {r}, {}, {operand}", self.bytes());
            asm!(a, "mad.lo.u64 {target}, {r}, {}, {result}", self.bytes());
            asm!(a, "mad.lo.u64 {update}, {u}, {}, {updates}", self.bytes());
            let sums = self.load(a, source, 0, run, guard);
            own.push((guard, target, update, sums));
        }
        const ROUNDS: u64 = 4;
        a.each(0, vectors, 32 * ROUNDS as u32, |a, base| {
            let mut found = Vec::new();
            let any = a.predicate();
            for k in 0..ROUNDS {
                let n = a.binary("add.u32", base, 32 * k);
                asm!(a, "add.u32 {n}, {n}, {lane}");
                let guard = (vectors % (32 * ROUNDS) != 0).then(|| {
                    let p = a.predicate();
                    asm!(a, "setp.lt.u32 {p}, {n}, {vectors}");
                    p
                });
                let [i, _] = offsets(a, n, &self.free);
                asm!(a, "add.u64 {i}, {i}, {first}");
                let p = self.matches(a, indices, i, &place, guard);
                match k {
                    0 => asm!(a, "and.pred {any}, {p}, {p}"),
                    _ => asm!(a, "or.pred {any}, {any}, {p}"),
                }
                found.push(p);
            }
            let next = a.label();
            asm!(a, "vote.sync.any.pred {any}, {any}, -1");
            asm!(a, "@!{any} bra {next}");
            for (k, p) in found.into_iter().enumerate() {
                let (mask, more, top, end) = (a.word(), a.predicate(), a.label(), a.label());
                asm!(a, "vote.sync.ballot.b32 {mask}, {p}, -1");
                a.place(top);
                asm!(a, "setp.eq.u32 {more}, {mask}, 0");
                asm!(a, "@{more} bra {end}");
                // The first that matches, and the mask without it.
                let n = a.word();
                asm!(a, "brev.b32 {n}, {mask}");
                asm!(a, "clz.b32 {n}, {n}");
                let less = a.binary("sub.u32", mask, 1);
                asm!(a, "and.b32 {mask}, {mask}, {less}");
                asm!(a, "add.u32 {n}, {n}, {base}");
                asm!(a, "add.u32 {n}, {n}, {}", 32 * k);
                let [_, u] = offsets(a, n, &self.free);
                for (guard, _, update, sums) in &own {
                    let at = a.long();
                    asm!(a, "mad.lo.u64 {at}, {u}, {}, {update}", self.bytes());
                    let values = self.load(a, at, 0, run, *guard);
                    self.add(a, sums, &values, None);
                }
                asm!(a, "bra {top}");
                a.place(end);
            }
            a.place(next);
        });
        for (guard, target, _, sums) in &own {
            self.store(a, *target, 0, sums, *guard);
        }
        let launch = Launch { entry: name.into(), grid: [warps.div_ceil(WARPS) as u32, 1, 1], block: [THREADS, 1, 1], shared: 0, scratch: 0 };
        Some(Kernels { text: asm.finish(name, 4, THREADS), launches: vec![launch] })
    }
}
