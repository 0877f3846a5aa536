//! Tokens to [`Text`]: module directives, declarations and bodies.
//!
//! Debugging directives (`.loc`, `.file`, `.section`) are read and dropped; any directive that is not known is an error naming it.

use crate::error::Error;
use crate::lexer::{Token, tokens};
use crate::syntax::{Function, Initial, Instruction, Operand, Space, Statement, Text, Type, Variable};

type Result<T> = std::result::Result<T, Error>;

/// Parses a module.
pub(crate) fn parse(text: &str) -> Result<Text<'_>> {
    let tokens = tokens(text)?;
    Parser { tokens, at: 0 }.module()
}

struct Parser<'a> {
    tokens: Vec<(Token<'a>, u32)>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|t| t.0)
    }
    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |t| t.1)
    }
    fn wrong<T>(&self, wanted: &str) -> Result<T> {
        let found = match self.peek() {
            None => "the text ends".to_string(),
            Some(Token::Word(w)) => format!("`{w}` stands"),
            Some(Token::Mark(c)) => format!("`{}` stands", char::from(c)),
            Some(Token::Int(v)) => format!("{v} stands"),
            Some(Token::Single(_) | Token::Double(_)) => "a number stands".to_string(),
            Some(Token::Text(_)) => "a string stands".to_string(),
        };
        Err(Error::new(self.line(), format!("{found} where {wanted} is expected")))
    }
    fn next(&mut self) -> Option<Token<'a>> {
        let t = self.peek();
        self.at += 1;
        t
    }
    fn take(&mut self, mark: u8) -> bool {
        let there = self.peek() == Some(Token::Mark(mark));
        self.at += usize::from(there);
        there
    }
    fn expect(&mut self, mark: u8) -> Result<()> {
        if self.take(mark) { Ok(()) } else { self.wrong(&format!("`{}`", char::from(mark))) }
    }
    fn take_word(&mut self, word: &str) -> bool {
        let there = self.peek() == Some(Token::Word(word));
        self.at += usize::from(there);
        there
    }
    fn word(&mut self, wanted: &str) -> Result<&'a str> {
        match self.peek() {
            Some(Token::Word(w)) => {
                self.at += 1;
                Ok(w)
            }
            _ => self.wrong(wanted),
        }
    }
    fn int(&mut self) -> Result<u64> {
        let negative = self.take(b'-');
        match self.peek() {
            Some(Token::Int(v)) => {
                self.at += 1;
                Ok(if negative { v.wrapping_neg() } else { v })
            }
            _ => self.wrong("an integer"),
        }
    }
    fn small(&mut self) -> Result<u32> {
        let line = self.line();
        let v = self.int()?;
        u32::try_from(v).map_err(|_| Error::new(line, format!("{v} is too large here")))
    }

    fn module(mut self) -> Result<Text<'a>> {
        let mut text = Text { version: (0, 0), target: "", variables: Vec::new(), functions: Vec::new() };
        while let Some(token) = self.peek() {
            let line = self.line();
            let Token::Word(word) = token else { return self.wrong("a directive") };
            match word {
                ".version" => {
                    self.at += 1;
                    text.version = match self.next() {
                        Some(Token::Double(bits)) => {
                            let v = f64::from_bits(bits);
                            (v as u64, ((v - v.trunc()) * 10.0).round() as u64)
                        }
                        Some(Token::Int(v)) => (v, 0),
                        _ => return Err(Error::new(line, "`.version` has no number")),
                    };
                }
                ".target" => {
                    self.at += 1;
                    text.target = self.word("a target")?;
                    while self.take(b',') {
                        self.word("a target option")?;
                    }
                }
                ".address_size" => {
                    self.at += 1;
                    if self.int()? != 64 {
                        return Err(Error::new(line, "only `.address_size 64` is known"));
                    }
                }
                ".file" | ".loc" => self.skip_line(line),
                ".section" => self.skip_section()?,
                ".visible" | ".extern" | ".weak" | ".common" | ".entry" | ".func" | ".global" | ".const" | ".shared" => self.declaration(&mut text)?,
                _ => return Err(Error::new(line, format!("the directive `{word}` is not known"))),
            }
        }
        if text.version == (0, 0) {
            return Err(Error::new(0, "there is no `.version`: this is not PTX"));
        }
        Ok(text)
    }

    fn skip_line(&mut self, line: u32) {
        while self.peek().is_some() && self.line() == line {
            self.at += 1;
        }
    }

    fn skip_section(&mut self) -> Result<()> {
        while !self.take(b'{') {
            if self.next().is_none() {
                return self.wrong("a section");
            }
        }
        while !self.take(b'}') {
            if self.next().is_none() {
                return self.wrong("`}`");
            }
        }
        Ok(())
    }

    fn declaration(&mut self, text: &mut Text<'a>) -> Result<()> {
        let mut external = false;
        loop {
            match self.peek() {
                Some(Token::Word(".visible" | ".weak" | ".common")) => self.at += 1,
                Some(Token::Word(".extern")) => {
                    self.at += 1;
                    external = true;
                }
                Some(Token::Word(w @ (".entry" | ".func"))) => {
                    self.at += 1;
                    if let Some(f) = self.function(w == ".entry")? {
                        text.functions.push(f);
                    }
                    return Ok(());
                }
                Some(Token::Word(".global" | ".const" | ".shared")) => {
                    let first = text.variables.len();
                    self.variables(&mut text.variables)?;
                    self.expect(b';')?;
                    text.variables[first..].iter_mut().for_each(|v| v.external = external);
                    return Ok(());
                }
                _ => return self.wrong("a variable or a function"),
            }
        }
    }

    /// One declaration, which may name several variables; the mark behind it is left.
    fn variables(&mut self, into: &mut Vec<Variable<'a>>) -> Result<()> {
        let line = self.line();
        let space = match self.word("a state space")? {
            ".reg" => Space::Reg,
            ".global" => Space::Global,
            ".const" => Space::Const,
            ".shared" => Space::Shared,
            ".local" => Space::Local,
            ".param" => Space::Param,
            other => return Err(Error::new(line, format!("`{other}` is no state space"))),
        };
        let (mut align, mut ty, mut lanes) = (0, None, 1);
        while let Some(Token::Word(w)) = self.peek().filter(|t| matches!(t, Token::Word(w) if w.starts_with('.'))) {
            self.at += 1;
            match w {
                ".align" => {
                    let a = self.small()?;
                    // `.ptr .global .align n` is about what the pointer points to.
                    align = a;
                }
                ".ptr" => {
                    while matches!(self.peek(), Some(Token::Word(".global" | ".shared" | ".const" | ".local"))) {
                        self.at += 1;
                    }
                    if self.take_word(".align") {
                        self.small()?;
                    }
                }
                ".v2" => lanes = 2,
                ".v4" => lanes = 4,
                _ => {
                    ty = Some(Type::named(&w[1..]).ok_or_else(|| Error::new(line, format!("`{w}` is not a type that is known here")))?);
                }
            }
        }
        let Some(ty) = ty else { return self.wrong("a type") };
        loop {
            let name = self.word("a name")?;
            let mut variable =
                Variable { space, ty, align: align.max(ty.bytes() * lanes), name, count: None, elements: None, external: false, initial: vec![], line };
            if lanes > 1 {
                variable.elements = Some(u64::from(lanes));
            }
            if self.take(b'<') {
                variable.count = Some(self.small()?);
                self.expect(b'>')?;
            }
            while self.take(b'[') {
                let n = if self.peek() == Some(Token::Mark(b']')) { 0 } else { self.int()? };
                variable.elements = Some(variable.elements.unwrap_or(1).saturating_mul(n));
                self.expect(b']')?;
            }
            if self.take(b'=') {
                self.initial(&mut variable.initial)?;
            }
            into.push(variable);
            // In a list of parameters each has its own type.
            let more = self.peek() == Some(Token::Mark(b',')) && !matches!(self.tokens.get(self.at + 1), Some((Token::Word(w), _)) if w.starts_with('.'));
            if !more {
                return Ok(());
            }
            self.at += 1;
        }
    }

    fn initial(&mut self, into: &mut Vec<Initial<'a>>) -> Result<()> {
        if self.take(b'{') {
            while !self.take(b'}') {
                self.initial(into)?;
                self.take(b',');
            }
            return Ok(());
        }
        let value = match self.peek() {
            Some(Token::Single(v)) => Initial::Single(v),
            Some(Token::Double(v)) => Initial::Double(v),
            Some(Token::Word(w)) => Initial::Symbol(w),
            _ => {
                into.push(Initial::Int(self.int()?));
                return Ok(());
            }
        };
        self.at += 1;
        into.push(value);
        Ok(())
    }

    fn parameters(&mut self) -> Result<Vec<Variable<'a>>> {
        let mut all = Vec::new();
        if !self.take(b'(') {
            return Ok(all);
        }
        while !self.take(b')') {
            self.variables(&mut all)?;
            self.take(b',');
        }
        Ok(all)
    }

    /// A function; nothing when it is only declared.
    fn function(&mut self, entry: bool) -> Result<Option<Function<'a>>> {
        let line = self.line();
        let results = if entry { Vec::new() } else { self.parameters()? };
        let name = self.word("a name")?;
        let params = self.parameters()?;
        let mut function = Function { name, entry, results, params, required: None, most: None, body: Vec::new(), line };
        loop {
            match self.peek() {
                Some(Token::Mark(b';')) => {
                    self.at += 1;
                    return Ok(None);
                }
                Some(Token::Mark(b'{')) => break,
                Some(Token::Word(w @ (".maxntid" | ".reqntid"))) => {
                    self.at += 1;
                    let mut dims = [1; 3];
                    let mut i = 0;
                    loop {
                        let v = self.small()?;
                        if let Some(d) = dims.get_mut(i) {
                            *d = v;
                        }
                        i += 1;
                        if !self.take(b',') {
                            break;
                        }
                    }
                    if w == ".reqntid" { function.required = Some(dims) } else { function.most = Some(dims.iter().product()) }
                }
                Some(Token::Word(".minnctapersm" | ".maxnreg" | ".maxnctapersm")) => {
                    self.at += 1;
                    self.small()?;
                }
                Some(Token::Word(".noreturn")) => self.at += 1,
                Some(Token::Word(".pragma")) => self.pragma()?,
                _ => return self.wrong("a body"),
            }
        }
        self.expect(b'{')?;
        let mut depth = 1;
        while depth > 0 {
            depth += self.statement(&mut function.body)?;
        }
        function.body.pop();
        Ok(Some(function))
    }

    fn pragma(&mut self) -> Result<()> {
        self.at += 1;
        match self.next() {
            Some(Token::Text(_)) => {}
            _ => return self.wrong("a string"),
        }
        self.expect(b';')
    }

    /// A statement; by how much it nests deeper.
    fn statement(&mut self, body: &mut Vec<Statement<'a>>) -> Result<i32> {
        let line = self.line();
        match self.peek() {
            Some(Token::Mark(b'{')) => {
                self.at += 1;
                body.push(Statement::Open);
                return Ok(1);
            }
            Some(Token::Mark(b'}')) => {
                self.at += 1;
                body.push(Statement::Close);
                return Ok(-1);
            }
            Some(Token::Mark(b';')) => self.at += 1,
            Some(Token::Word(".loc" | ".file")) => self.skip_line(line),
            Some(Token::Word(".pragma")) => self.pragma()?,
            Some(Token::Word(".reg" | ".local" | ".shared" | ".param" | ".const" | ".global")) => {
                let mut all = Vec::new();
                self.variables(&mut all)?;
                self.expect(b';')?;
                body.extend(all.into_iter().map(Statement::Variable));
            }
            Some(Token::Word(w)) if w.starts_with('.') => return Err(Error::new(line, format!("the directive `{w}` is not known"))),
            Some(Token::Word(w)) if self.tokens.get(self.at + 1).map(|t| t.0) == Some(Token::Mark(b':')) => {
                self.at += 2;
                if self.take_word(".branchtargets") {
                    let mut targets = vec![self.word("a label")?];
                    while self.take(b',') {
                        targets.push(self.word("a label")?);
                    }
                    self.expect(b';')?;
                    body.push(Statement::Targets(w, targets));
                } else {
                    body.push(Statement::Label(w));
                }
            }
            _ => body.push(Statement::Instruction(self.instruction()?)),
        }
        Ok(0)
    }

    fn instruction(&mut self) -> Result<Instruction<'a>> {
        let mut guard = None;
        if self.take(b'@') {
            let negated = self.take(b'!');
            guard = Some((self.word("a predicate")?, negated));
        }
        let line = self.line();
        let opcode = self.word("an instruction")?;
        let mut operands = Vec::new();
        while !self.take(b';') {
            operands.push(self.operand()?);
            if !self.take(b',') && self.peek() != Some(Token::Mark(b';')) {
                return self.wrong("`,` or `;`");
            }
        }
        Ok(Instruction { guard, opcode, operands, line })
    }

    fn sign(&mut self) -> Option<bool> {
        match self.peek() {
            Some(Token::Mark(b'+')) => {
                self.at += 1;
                Some(self.take(b'-'))
            }
            Some(Token::Mark(b'-')) => {
                self.at += 1;
                Some(true)
            }
            _ => None,
        }
    }

    fn offset(&mut self) -> Result<Option<i64>> {
        let Some(negative) = self.sign() else { return Ok(None) };
        let v = self.int()? as i64;
        Ok(Some(if negative { v.wrapping_neg() } else { v }))
    }

    fn operand(&mut self) -> Result<Operand<'a>> {
        let list = |parser: &mut Self, end: u8| -> Result<Vec<Operand<'a>>> {
            parser.at += 1;
            let mut all = Vec::new();
            while !parser.take(end) {
                all.push(parser.operand()?);
                parser.take(b',');
            }
            Ok(all)
        };
        match self.peek() {
            Some(Token::Mark(b'{')) => Ok(Operand::Vector(list(self, b'}')?)),
            Some(Token::Mark(b'(')) => Ok(Operand::List(list(self, b')')?)),
            Some(Token::Mark(b'[')) => {
                self.at += 1;
                let address = match self.peek() {
                    Some(Token::Word(w)) => {
                        self.at += 1;
                        Operand::Address(Some(w), self.offset()?.unwrap_or(0))
                    }
                    _ => Operand::Address(None, self.int()? as i64),
                };
                self.expect(b']')?;
                Ok(address)
            }
            Some(Token::Mark(b'!')) => {
                self.at += 1;
                Ok(Operand::Not(self.word("a predicate")?))
            }
            Some(Token::Mark(b'-')) => {
                self.at += 1;
                match self.next() {
                    Some(Token::Int(v)) => Ok(Operand::Int(v.wrapping_neg())),
                    Some(Token::Double(v)) => Ok(Operand::Double(v ^ 1 << 63)),
                    _ => self.wrong("a number"),
                }
            }
            Some(Token::Int(v)) => {
                self.at += 1;
                Ok(Operand::Int(v))
            }
            Some(Token::Single(v)) => {
                self.at += 1;
                Ok(Operand::Single(v))
            }
            Some(Token::Double(v)) => {
                self.at += 1;
                Ok(Operand::Double(v))
            }
            Some(Token::Word(w)) => {
                self.at += 1;
                if self.take(b'|') {
                    return Ok(Operand::Pair(w, self.word("a register")?));
                }
                Ok(self.offset()?.map_or(Operand::Name(w), |o| Operand::Offset(w, o)))
            }
            _ => self.wrong("an operand"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_in_its_parts() {
        let text = parse(
            ".version 8.6\n.target sm_90a, texmode_independent\n.address_size 64\n\
             .global .align 4 .b8 table[8] = {1, 2, 0xff, 4};\n\
             .extern .shared .align 16 .b8 dyn[];\n\
             .visible .entry k(\n.param .u64 .ptr .global .align 1 k_param_0,\n.param .u32 k_param_1\n)\n.reqntid 64, 1, 1\n{\n\
             .reg .pred %p<2>;\n.reg .b32 %r<3>, %x;\n.loc 1 2 3\n$L1:\n@!%p1 bra $L1;\n{ .reg .b32 t; mov.b64 {%r1, _}, %rd1; }\n\
             ld.global.v2.f32 {%f1, %f2}, [%rd1+-8];\nts: .branchtargets $L1, $L2;\nret;\n}\n",
        )
        .unwrap();
        assert_eq!((text.version, text.target), ((8, 6), "sm_90a"));
        assert_eq!(text.variables.len(), 2);
        assert!(text.variables[1].external && text.variables[1].elements == Some(0));
        assert_eq!(text.variables[0].initial.len(), 4);
        let k = &text.functions[0];
        assert_eq!((k.name, k.params.len(), k.required), ("k", 2, Some([64, 1, 1])));
        assert_eq!(k.params[0].ty, Type::U(64));
        let instructions: Vec<_> = k.body.iter().filter_map(|s| if let Statement::Instruction(i) = s { Some(i) } else { None }).collect();
        assert_eq!(instructions[0].guard, Some(("%p1", true)));
        assert_eq!(instructions[1].operands[0], Operand::Vector(vec![Operand::Name("%r1"), Operand::Name("_")]));
        assert_eq!(instructions[2].operands[1], Operand::Address(Some("%rd1"), -8));
        assert!(matches!(&k.body[..], [.., Statement::Targets("ts", t), Statement::Instruction(_)] if t.len() == 2));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(message(".version 8.0\n.texref t;"), "PTX line 2: the directive `.texref` is not known");
        assert_eq!(message("\n"), "PTX line 0: there is no `.version`: this is not PTX");
        assert_eq!(message(".version 8.0\n.entry k() {\n add.s32 %r1 %r2;\n}"), "PTX line 3: `%r2` stands where `,` or `;` is expected");
        assert_eq!(message(".version 8.0\n.entry k() {\n ret;"), "PTX line 3: the text ends where an instruction is expected");
    }
}
