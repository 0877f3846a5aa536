//! A warp: 32 lanes that execute one instruction at a time.
//!
//! Lanes that part at a branch wait for each other where the branch's paths meet: a stack holds the paths that are still to run and what follows them.

use crate::block::{Block, Outcome, Registers};
use crate::code::{Conversion, NOWHERE, Op, Redux, Reg, Row, Shuffle, ShuffleMode, Vote};
use crate::error::FaultKind;
use crate::lanes::{self, Lanes, Rows};
use crate::numeric;

/// What a warp does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// At a barrier, for so many threads or the whole block.
    Waiting {
        number: u32,
        threads: Option<u32>,
        line: u32,
    },
    Done,
}

/// Lanes that run together until they meet others.
#[derive(Clone, Copy, Debug)]
struct Path {
    at: u32,
    mask: u32,
    meet: u32,
}

/// One warp.
#[derive(Clone, Debug)]
pub(crate) struct Warp {
    pub(crate) state: State,
    /// Its lanes that exist.
    pub(crate) initial: u32,
    /// Its lanes that have not exited.
    pub(crate) live: u32,
    path: Path,
    stack: Vec<Path>,
}

impl Warp {
    pub(crate) fn new(mask: u32) -> Warp {
        Warp { state: State::Running, initial: mask, live: mask, path: Path { at: 0, mask, meet: NOWHERE }, stack: Vec::new() }
    }

    /// Lanes `taken` go to `target`, the others of the path go on at `next`; all meet at `meet`.
    fn part(&mut self, taken: u32, target: u32, next: u32, meet: u32) {
        let others = self.path.mask & !taken;
        if meet != self.path.meet {
            if meet != NOWHERE {
                self.stack.push(Path { at: meet, mask: self.path.mask, meet: self.path.meet });
            }
            self.path.meet = meet;
        }
        if target == meet {
            self.path = Path { at: next, mask: others, meet };
        } else if next == meet {
            self.path = Path { at: target, mask: taken, meet };
        } else {
            self.stack.push(Path { at: next, mask: others, meet });
            self.path = Path { at: target, mask: taken, meet };
        }
    }

    /// Goes on with the next path while this one is at its end.
    fn settle(&mut self) {
        while self.path.mask == 0 || self.path.at == self.path.meet {
            match self.stack.pop() {
                Some(path) => self.path = path,
                None => {
                    self.state = State::Done;
                    return;
                }
            }
        }
    }

    fn exit(&mut self, lanes: u32) {
        self.live &= !lanes;
        self.path.mask &= !lanes;
        self.stack.iter_mut().for_each(|p| p.mask &= !lanes);
    }
}

impl<'a> Block<'a> {
    /// Runs a warp until it waits or ends.
    pub(crate) fn run_warp(&mut self, w: usize) -> Outcome<()> {
        let mut registers = std::mem::take(&mut self.registers[w]);
        let outcome = self.run_path(w, &mut registers);
        self.registers[w] = registers;
        outcome
    }

    fn run_path(&mut self, w: usize, r: &mut Registers) -> Outcome<()> {
        let launch = self.launch;
        let (code, fast, budget) = (&launch.entry.code, launch.fast, launch.options.budget);
        let mut path = self.warps[w].path;
        loop {
            let i = &code.instructions[path.at as usize];
            let m = match i.guard {
                None => path.mask,
                Some((p, negated)) => path.mask & if negated { !r.predicates[p as usize] } else { r.predicates[p as usize] },
            };
            if i.first {
                self.steps += 1;
                self.counts.instructions += 1;
                self.counts.lanes += u64::from(m.count_ones());
                if self.steps > budget {
                    let thread = self.thread(w, path.mask.trailing_zeros());
                    return Err(self.fault(FaultKind::Budget, thread, i.line, format!("the block has executed {budget} instructions: an endless loop?")));
                }
            }
            path.at += 1;
            if m != 0 {
                match &i.op {
                    Op::Word(f, rows) => lanes::word(fast, &mut r.words, *f, *rows, m),
                    Op::Double(f, rows) => lanes::double(fast, &mut r.doubles, *f, *rows, m),
                    Op::Widen(f, rows) => lanes::widen(fast, &r.words, &mut r.doubles, *f, *rows, m),
                    Op::CompareWord(f, [d, a, b]) => {
                        let p = lanes::compare_word(fast, &r.words, *f, *a, *b);
                        set(&mut r.predicates, *d, p, m);
                    }
                    Op::CompareDouble(f, [d, a, b]) => {
                        let p = lanes::compare_double(&r.doubles, *f, *a, *b);
                        set(&mut r.predicates, *d, p, m);
                    }
                    Op::Logic(f, [d, a, b]) => {
                        let p = lanes::logic(*f, r.predicates[*a as usize], r.predicates[*b as usize]);
                        set(&mut r.predicates, *d, p, m);
                    }
                    Op::SelectWord([d, a, b, p]) => lanes::select(&mut r.words, [*d, *a, *b], r.predicates[*p as usize], m),
                    Op::SelectDouble([d, a, b, p]) => lanes::select(&mut r.doubles, [*d, *a, *b], r.predicates[*p as usize], m),
                    Op::Load(a) => self.load(w, r, a, m, i.line)?,
                    Op::Store(a) => self.store(w, r, a, m, i.line)?,
                    Op::Branch { target, meet } => {
                        if m == path.mask {
                            path.at = *target;
                        } else {
                            self.counts.divergences += 1;
                            self.warps[w].path = path;
                            self.warps[w].part(m, *target, path.at, *meet);
                            path = self.warps[w].path;
                        }
                    }
                    Op::Exit | Op::Leave => {
                        self.warps[w].path = path;
                        self.warps[w].exit(m);
                        path = self.warps[w].path;
                    }
                    Op::Switch { index, targets, meet } => {
                        let rows = r.words[*index as usize];
                        self.warps[w].path = path;
                        self.switch(w, &rows, targets, *meet, m, i.line)?;
                        path = self.warps[w].path;
                    }
                    Op::Barrier { number, threads, waits } => {
                        let lane = m.trailing_zeros() as usize;
                        let (number, threads) = (r.words[*number as usize].0[lane], threads.map(|t| r.words[t as usize].0[lane]));
                        self.barrier(w, m, number, threads, *waits, i.line)?;
                    }
                    other => self.rare(w, r, other, m, i.line)?,
                }
            }
            if path.at == path.meet || path.mask == 0 {
                self.warps[w].path = path;
                self.warps[w].settle();
                path = self.warps[w].path;
            }
            if self.warps[w].state != State::Running {
                self.warps[w].path = path;
                return Ok(());
            }
        }
    }

    /// Everything that kernels are not full of.
    fn rare(&mut self, w: usize, r: &mut Registers, op: &Op, m: u32, line: u32) -> Outcome<()> {
        let mut rows = Rows { words: &mut r.words, doubles: &mut r.doubles, predicates: &mut r.predicates };
        match op {
            Op::Narrow(f, rows_) => lanes::narrow(&mut rows, *f, *rows_, m),
            Op::Shift(f, rows_) => lanes::shift(&mut rows, *f, *rows_, m),
            Op::BitInsert(wide, rows_) => lanes::insert(&mut rows, *wide, *rows_, m),
            Op::Lop3(rows_, table) => lanes::lop3(rows.words, *rows_, *table, m),
            Op::Rounded(rounded) => {
                let [d, a, b, c] = rounded.rows;
                let of = |row: Row| rows.words[row as usize];
                let (a, b, c) = (of(a), of(b), of(c));
                for l in lanes_of(m) {
                    let operands = [a.0[l], b.0[l], c.0[l]];
                    let mut v = numeric::rounded(rounded, operands.map(|x| if rounded.ty.bits() == 16 { x & 0xFFFF } else { x }));
                    if rounded.pair {
                        v |= numeric::rounded(rounded, operands.map(|x| x >> 16)) << 16;
                    }
                    rows.words[d as usize].0[l] = v;
                }
            }
            Op::Convert(c) => convert(&mut rows, c, m),
            Op::Approx(f, [d, a, b]) => {
                let seed = self.launch.options.perturb;
                if matches!(f, crate::code::Approx::RcpDouble | crate::code::Approx::RsqrtDouble) {
                    for l in lanes_of(m) {
                        rows.doubles[*d as usize].0[l] = numeric::approximate(*f, rows.doubles[*a as usize].0[l], 0, seed);
                    }
                } else {
                    for l in lanes_of(m) {
                        let (x, y) = (rows.words[*a as usize].0[l], rows.words[*b as usize].0[l]);
                        rows.words[*d as usize].0[l] = numeric::approximate(*f, u64::from(x), u64::from(y), seed) as u32;
                    }
                }
            }
            Op::Atomic(a) => return self.atomic(w, r, a, m, line),
            Op::Shuffle(s) => {
                self.members(w, &rows.words[s.members as usize], m, line)?;
                return self.shuffle(w, &mut rows, s, m, line);
            }
            Op::Vote(vote, d, p, negated, members) => {
                let members = rows.words[*members as usize];
                self.members(w, &members, m, line)?;
                let p = if *negated { !rows.predicates[*p as usize] } else { rows.predicates[*p as usize] };
                for l in lanes_of(m) {
                    let all = members.0[l] & m;
                    let yes = match vote {
                        Vote::Ballot => {
                            rows.words[*d as usize].0[l] = p & all;
                            continue;
                        }
                        Vote::All => p & all == all,
                        Vote::Any => p & all != 0,
                        Vote::Uni => p & all == all || p & all == 0,
                    };
                    set(rows.predicates, *d, if yes { u32::MAX } else { 0 }, 1 << l);
                }
            }
            Op::Redux(op, d, a, members) => {
                let (members, a) = (rows.words[*members as usize], rows.words[*a as usize]);
                self.members(w, &members, m, line)?;
                for l in lanes_of(m) {
                    let values = lanes_of(members.0[l] & m).map(|k| a.0[k]);
                    let fold = |f: fn(u32, u32) -> u32| values.reduce(f).unwrap_or(0);
                    rows.words[*d as usize].0[l] = match op {
                        Redux::Add => fold(u32::wrapping_add),
                        Redux::MinS => fold(|a, b| (a as i32).min(b as i32) as u32),
                        Redux::MinU => fold(u32::min),
                        Redux::MaxS => fold(|a, b| (a as i32).max(b as i32) as u32),
                        Redux::MaxU => fold(u32::max),
                        Redux::And => fold(|a, b| a & b),
                        Redux::Or => fold(|a, b| a | b),
                        Redux::Xor => fold(|a, b| a ^ b),
                    };
                }
            }
            Op::ActiveMask(d) => {
                for l in lanes_of(m) {
                    rows.words[*d as usize].0[l] = m;
                }
            }
            Op::WarpSync(members) => {
                let members = rows.words[*members as usize];
                self.members(w, &members, m, line)?;
                if self.launch.options.checks {
                    self.shadow.advance(w);
                }
            }
            Op::Fence => {}
            Op::Trap => {
                let thread = self.thread(w, m.trailing_zeros());
                return Err(self.fault(FaultKind::Launch, thread, line, "the kernel trapped".to_string()));
            }
            _ => unreachable!("the loop executes these"),
        }
        Ok(())
    }

    /// Every lane must be among the members it names, and all of them must execute the instruction.
    fn members(&self, w: usize, members: &Lanes<u32>, m: u32, line: u32) -> Outcome<()> {
        for l in lanes_of(m) {
            let named = members.0[l];
            let missing = named & self.warps[w].live & !m;
            if named >> l & 1 == 0 || missing != 0 {
                let message = if missing != 0 {
                    format!("the members {named:#010x} name lane {}, which is elsewhere", missing.trailing_zeros())
                } else {
                    format!("lane {l} is not among the members {named:#010x}")
                };
                return Err(self.fault(FaultKind::DivergentWarp, self.thread(w, l as u32), line, message));
            }
        }
        Ok(())
    }

    fn shuffle(&self, w: usize, rows: &mut Rows<'_>, s: &Shuffle, m: u32, line: u32) -> Outcome<()> {
        let of = |row: Row| rows.words[row as usize];
        let (a, by, clamp) = (of(s.a), of(s.lane), of(s.clamp));
        let (mut result, mut valid) = (of(s.d), 0);
        for l in lanes_of(m) {
            let lane = l as u32;
            let (b, limit, segment) = (by.0[l] & 31, clamp.0[l] & 31, clamp.0[l] >> 8 & 31);
            let highest = lane & segment | limit & !segment;
            let (from, there) = match s.mode {
                ShuffleMode::Up => (lane.wrapping_sub(b), lane as i32 - b as i32 >= highest as i32),
                ShuffleMode::Down => (lane + b, lane + b <= highest),
                ShuffleMode::Butterfly => (lane ^ b, lane ^ b <= highest),
                ShuffleMode::Index => (lane & segment | b & !segment, (lane & segment | b & !segment) <= highest),
            };
            let from = if there { from } else { lane };
            if m >> from & 1 == 0 && self.launch.options.checks {
                let message = format!("lane {l} reads lane {from}, which does not execute the shuffle");
                return Err(self.fault(FaultKind::DivergentWarp, self.thread(w, lane), line, message));
            }
            result.0[l] = a.0[from as usize];
            valid |= u32::from(there) << l;
        }
        rows.words[s.d as usize] = result;
        if let Some(p) = s.valid {
            set(rows.predicates, p, valid, m);
        }
        Ok(())
    }

    fn switch(&mut self, w: usize, index: &Lanes<u32>, targets: &[u32], meet: u32, m: u32, line: u32) -> Outcome<()> {
        if let Some(l) = lanes_of(m).find(|&l| index.0[l] as usize >= targets.len()) {
            let message = format!("a branch by index {} of {} targets", index.0[l], targets.len());
            return Err(self.fault(FaultKind::OutOfBounds, self.thread(w, l as u32), line, message));
        }
        // One target after the other takes its lanes from those that are left.
        let mut left = m;
        while left != 0 {
            let number = index.0[left.trailing_zeros() as usize];
            let same = lanes_of(left).filter(|&l| index.0[l] == number).fold(0, |a, l| a | 1u32 << l);
            let target = targets[number as usize];
            left &= !same;
            let warp = &mut self.warps[w];
            if same == warp.path.mask {
                warp.path.at = target;
                return Ok(());
            }
            self.counts.divergences += 1;
            let here = warp.path;
            if meet != here.meet {
                if meet != NOWHERE {
                    warp.stack.push(Path { at: meet, mask: here.mask, meet: here.meet });
                }
                warp.path.meet = meet;
            }
            if target != meet {
                warp.stack.push(Path { at: target, mask: same, meet });
            }
            warp.path.mask &= !same;
        }
        // Lanes that a guard left out go on behind; none are left otherwise, and the first path takes over.
        self.warps[w].settle();
        Ok(())
    }

    fn barrier(&mut self, w: usize, m: u32, number: u32, threads: Option<u32>, waits: bool, line: u32) -> Outcome<()> {
        let (initial, live) = (self.warps[w].initial, self.warps[w].live);
        if m != initial {
            let missing = (initial & !m).trailing_zeros();
            let why = if live >> missing & 1 == 0 { "has exited" } else { "is elsewhere" };
            let message = format!("barrier {number} is reached by {} of a warp's {} threads; lane {missing} {why}", m.count_ones(), initial.count_ones());
            return Err(self.fault(FaultKind::DivergentBarrier, self.thread(w, m.trailing_zeros()), line, message));
        }
        if number as usize >= self.arrived.len() || threads.is_some_and(|t| t == 0 || t % 32 != 0) {
            let message = format!("barrier {number} for {threads:?} threads: there are {} barriers, for multiples of 32 threads", self.arrived.len());
            return Err(self.fault(FaultKind::DivergentBarrier, self.thread(w, 0), line, message));
        }
        self.counts.barriers += 1;
        if waits {
            self.warps[w].state = State::Waiting { number, threads, line };
        } else {
            let (come, warps) = &mut self.arrived[number as usize];
            *come += 32;
            warps.push(w);
        }
        Ok(())
    }
}

/// The lanes of a mask.
pub(crate) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> + Clone {
    (0..32).filter(move |l| mask >> l & 1 != 0)
}

#[inline]
fn set(predicates: &mut [u32], d: Row, value: u32, mask: u32) {
    let p = &mut predicates[d as usize];
    *p = *p & !mask | value & mask;
}

fn convert(rows: &mut Rows<'_>, c: &Conversion, m: u32) {
    let read = |rows: &Rows<'_>, Reg { row, bits }: Reg, l: usize| {
        if bits == 64 { rows.doubles[row as usize].0[l] } else { u64::from(rows.words[row as usize].0[l]) }
    };
    for l in lanes_of(m) {
        let v = numeric::convert(c, read(rows, c.a, l));
        if c.d.bits == 64 { rows.doubles[c.d.row as usize].0[l] = v } else { rows.words[c.d.row as usize].0[l] = v as u32 }
    }
}
