//! Branches, calls, barriers, and what a warp does together.

use super::modifiers::Modifiers;
use super::{DEEPEST_CALL, Decoder, Result, Symbol};
use crate::code::{NOWHERE, Op, Redux, Row, Shuffle, ShuffleMode, Vote};
use crate::syntax::{Operand, Type};
use rustc_hash::FxHashMap;

impl<'a> Decoder<'a> {
    pub(super) fn control(&mut self, name: &str, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        match name {
            "bra" => {
                m.take("uni");
                self.expect(ops, 1)?;
                match ops[0] {
                    Operand::Name(label) => self.branch(label),
                    _ => Err(self.error("a label is needed")),
                }
            }
            "brx" => self.switch(m, ops),
            "ret" | "exit" => {
                m.take("uni");
                self.expect(ops, 0)?;
                if name == "exit" {
                    return self.emit(Op::Leave);
                }
                if self.frames.last().is_some_and(|f| f.entry) {
                    return self.emit(Op::Exit);
                }
                let at = self.code.instructions.len();
                self.frames.last_mut().expect("invariant: a body has a frame").returns.push(at);
                self.emit(Op::Branch { target: 0, meet: NOWHERE })
            }
            "call" => self.call(m, ops),
            "bar" | "barrier" => self.barrier(m, ops),
            "shfl" => self.shuffle(m, ops),
            "vote" => self.vote(m, ops),
            "activemask" => {
                m.ty()?;
                self.expect(ops, 1)?;
                let d = self.result(&ops[0], 32)?;
                self.emit(Op::ActiveMask(d))
            }
            "redux" => self.redux(m, ops),
            "membar" | "fence" => {
                let scoped = ["gl", "cta", "sys", "gpu", "cluster", "sc", "acq_rel"].iter().filter(|s| m.take(s)).count();
                if scoped == 0 { Err(m.unknown()) } else { self.emit(Op::Fence) }
            }
            _ => self.emit(Op::Trap),
        }
    }

    fn switch(&mut self, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        m.take("uni");
        self.expect(ops, 2)?;
        if !m.take("idx") {
            return Err(m.unknown());
        }
        let index = self.word(&ops[0], Type::U(32))?;
        let Operand::Name(list) = ops[1] else { return Err(self.error("a list of targets is needed")) };
        let Some(Symbol::Targets(targets)) = self.lookup(list).cloned() else {
            return Err(self.error(format!("`{list}` is no list of targets")));
        };
        let (at, line) = (self.code.instructions.len(), self.line);
        let frame = self.frames.last_mut().expect("invariant: a body has a frame");
        frame.fixups.extend(targets.iter().enumerate().map(|(i, label)| (at, i, *label, line)));
        self.emit(Op::Switch { index, targets: vec![0; targets.len()].into(), meet: NOWHERE })
    }

    /// `call (results), function, (arguments)`: the function's body in this place.
    fn call(&mut self, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        m.take("uni");
        if self.guard.is_some() {
            return Err(self.error("a call under a predicate is not known to this emulator"));
        }
        let (mut results, mut arguments, mut name) = (&[][..], &[][..], None);
        for op in ops {
            match op {
                Operand::Name(n) if name.is_none() => name = Some(*n),
                Operand::List(list) if name.is_none() => results = &list[..],
                Operand::List(list) => arguments = &list[..],
                _ => return Err(self.error("an indirect call is not known to this emulator")),
            }
        }
        let Some(name) = name else { return Err(self.error("a call names no function")) };
        let text = self.text;
        let Some(function) = text.functions.iter().find(|f| f.name == name && !f.entry) else {
            return Err(self.error(format!("the function `{name}` is called and has no body here")));
        };
        if self.frames.len() > DEEPEST_CALL {
            return Err(self.error(format!("`{name}` is called too deep: recursion is not known to this emulator")));
        }
        if results.len() != function.results.len() || arguments.len() != function.params.len() {
            return Err(self.error(format!("`{name}` is called with another number of parameters than it has")));
        }
        let mut own = FxHashMap::default();
        for (given, declared) in results.iter().chain(arguments).zip(function.results.iter().chain(&function.params)) {
            let Operand::Name(given) = given else { return Err(self.error("a call's arguments must be parameters")) };
            match self.lookup(given) {
                Some(Symbol::Cell(cell)) => own.insert(declared.name, Symbol::Cell(*cell)),
                _ => return Err(self.error(format!("`{given}` is no parameter of a call"))),
            };
        }
        // Variables of the module stay visible, those of the caller do not.
        let shared: FxHashMap<_, _> = self.scopes[0]
            .iter()
            .filter(|(n, s)| matches!(s, Symbol::Shared(_)) && text.variables.iter().any(|v| v.name == **n))
            .map(|(n, s)| (*n, s.clone()))
            .collect();
        let outer = std::mem::replace(&mut self.scopes, vec![shared, own]);
        let line = self.line;
        self.frame(function, false)?;
        self.scopes = outer;
        self.line = line;
        Ok(())
    }

    fn barrier(&mut self, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        m.take("cta");
        if m.take("warp") {
            if !m.take("sync") {
                return Err(m.unknown());
            }
            self.expect(ops, 1)?;
            let members = self.word(&ops[0], Type::B(32))?;
            return self.emit(Op::WarpSync(members));
        }
        m.take("aligned");
        let waits = match (m.take("sync"), m.take("arrive")) {
            (true, false) => true,
            (false, true) => false,
            _ => return Err(m.unknown()),
        };
        let (Some(number), true) = (ops.first(), ops.len() <= 2) else { return Err(self.error("a barrier needs its number")) };
        let number = self.word(number, Type::U(32))?;
        let threads = ops.get(1).map(|op| self.word(op, Type::U(32))).transpose()?;
        if !waits && threads.is_none() {
            return Err(self.error("`arrive` needs a number of threads"));
        }
        self.emit(Op::Barrier { number, threads, waits })
    }

    fn shuffle(&mut self, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let mode = m.one_of(&[("up", ShuffleMode::Up), ("down", ShuffleMode::Down), ("bfly", ShuffleMode::Butterfly), ("idx", ShuffleMode::Index)]);
        let (Some(mode), true) = (mode, m.take("sync")) else { return Err(m.unknown()) };
        m.ty()?;
        self.expect(ops, 5)?;
        let (d, valid) = match &ops[0] {
            Operand::Pair(d, p) => (self.result(&Operand::Name(d), 32)?, Some(self.result(&Operand::Name(p), 1)?)),
            op => (self.result(op, 32)?, None),
        };
        let rows = ops[1..].iter().map(|op| self.word(op, Type::B(32))).collect::<Result<Vec<Row>>>()?;
        self.emit(Op::Shuffle(Box::new(Shuffle { mode, d, valid, a: rows[0], lane: rows[1], clamp: rows[2], members: rows[3] })))
    }

    fn vote(&mut self, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let vote = m.one_of(&[("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uni), ("ballot", Vote::Ballot)]);
        let (Some(vote), true) = (vote, m.take("sync")) else { return Err(m.unknown()) };
        m.ty()?;
        self.expect(ops, 3)?;
        let d = self.result(&ops[0], if vote == Vote::Ballot { 32 } else { 1 })?;
        let (p, negated) = self.predicate(&ops[1])?;
        let members = self.word(&ops[2], Type::B(32))?;
        self.emit(Op::Vote(vote, d, p, negated, members))
    }

    fn redux(&mut self, m: &mut Modifiers<'a>, ops: &[Operand<'a>]) -> Result<()> {
        let name = m.one_of(&[("add", 0), ("min", 1), ("max", 2), ("and", 3), ("or", 4), ("xor", 5)]);
        let (Some(name), true) = (name, m.take("sync")) else { return Err(m.unknown()) };
        let ty = m.ty()?;
        let op = match (name, ty) {
            (0, Type::U(32) | Type::S(32)) => Redux::Add,
            (1, Type::U(32)) => Redux::MinU,
            (1, Type::S(32)) => Redux::MinS,
            (2, Type::U(32)) => Redux::MaxU,
            (2, Type::S(32)) => Redux::MaxS,
            (3, Type::B(32)) => Redux::And,
            (4, Type::B(32)) => Redux::Or,
            (5, Type::B(32)) => Redux::Xor,
            _ => return Err(m.unknown()),
        };
        self.expect(ops, 3)?;
        let (d, a, members) = (self.result(&ops[0], 32)?, self.word(&ops[1], Type::B(32))?, self.word(&ops[2], Type::B(32))?);
        self.emit(Op::Redux(op, d, a, members))
    }
}
