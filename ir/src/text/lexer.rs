//! Tokens of MLIR's text.
//!
//! The lexer works on demand and in linear time; every token carries its line and column, counted while reading.
//! What is not a token is `Tok::Bad` of one character, so that the parser decides what to say about it.

/// A place in the text: byte offset, and line and column from 1 (the column in characters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) offset: usize,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Kinds of tokens; punctuation carries its character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tok {
    /// `stablehlo.add`, `dense`, `x`.
    Bare,
    /// `%548`.
    Percent,
    /// `@main` or `@"quoted name"`.
    Symbol,
    /// `^bb0`.
    Caret,
    /// `#loc3`, `#stablehlo.gather`, `#1`.
    Hash,
    /// `!stablehlo.token`.
    Bang,
    /// Decimal or hexadecimal digits, unsigned.
    Int,
    /// `1.5e+00`, unsigned.
    Float,
    /// A string with its quotes.
    Str,
    /// `->`.
    Arrow,
    /// `{-#`.
    MetadataOpen,
    /// `#-}`.
    MetadataClose,
    /// One punctuation character.
    Punct(u8),
    /// Something that starts no token, or a string that does not end.
    Bad,
    /// The end of the text.
    Eof,
}

/// One token: where it starts and its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) tok: Tok,
    pub(super) at: At,
    pub(super) text: &'a str,
}

impl Token<'_> {
    /// Its length in characters.
    pub(super) fn length(&self) -> u32 {
        u32::try_from(self.text.chars().take(4096).count()).unwrap_or(1).max(1)
    }
}

/// Reads tokens from `text`.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    pub(super) text: &'a str,
    pub(super) at: At,
}

fn is_id(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.')
}

fn is_suffix(b: u8) -> bool {
    is_id(b) || b == b'-'
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Lexer { text, at: At { offset: 0, line: 1, column: 1 } }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at.offset + ahead).copied().unwrap_or(0)
    }

    /// Moves over `n` bytes, counting lines and columns.
    pub(super) fn advance(&mut self, n: usize) {
        for &b in &self.text.as_bytes()[self.at.offset..self.at.offset + n] {
            if b == b'\n' {
                self.at.line = self.at.line.saturating_add(1);
                self.at.column = 1;
            } else if b & 0xc0 != 0x80 {
                self.at.column = self.at.column.saturating_add(1);
            }
        }
        self.at.offset += n;
    }

    /// Moves over blanks and comments.
    pub(super) fn skip_blank(&mut self) {
        loop {
            let rest = &self.text.as_bytes()[self.at.offset..];
            let blank = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
            self.advance(blank);
            let rest = &rest[blank..];
            if !rest.starts_with(b"//") {
                return;
            }
            self.advance(rest.iter().take_while(|b| **b != b'\n').count());
        }
    }

    /// The next token.
    pub(super) fn next(&mut self) -> Token<'a> {
        self.skip_blank();
        let start = self.at;
        let rest = &self.text.as_bytes()[start.offset..];
        let while_from = |from: usize, keep: fn(u8) -> bool| from + rest[from.min(rest.len())..].iter().take_while(|b| keep(**b)).count();
        let Some(&first) = rest.first() else {
            return Token { tok: Tok::Eof, at: start, text: "" };
        };
        let (tok, n) = match first {
            b'"' => self.string_length(0).map_or((Tok::Bad, 1), |n| (Tok::Str, n)),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => (Tok::Bare, while_from(1, is_id)),
            b'%' if is_suffix(self.byte(1)) => (Tok::Percent, while_from(1, is_suffix)),
            b'^' if is_suffix(self.byte(1)) => (Tok::Caret, while_from(1, is_suffix)),
            b'!' if is_suffix(self.byte(1)) => (Tok::Bang, while_from(1, is_id)),
            b'#' if rest.starts_with(b"#-}") => (Tok::MetadataClose, 3),
            b'#' if is_suffix(self.byte(1)) => (Tok::Hash, while_from(1, is_id)),
            b'{' if rest.starts_with(b"{-#") => (Tok::MetadataOpen, 3),
            b'@' if self.byte(1) == b'"' => self.string_length(1).map_or((Tok::Bad, 1), |n| (Tok::Symbol, 1 + n)),
            b'@' if is_suffix(self.byte(1)) => (Tok::Symbol, while_from(1, is_suffix)),
            b'-' if self.byte(1) == b'>' => (Tok::Arrow, 2),
            b'0' if self.byte(1) == b'x' && self.byte(2).is_ascii_hexdigit() => (Tok::Int, while_from(2, |b| b.is_ascii_hexdigit())),
            b'0'..=b'9' => number_length(rest),
            b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b',' | b':' | b'=' | b'-' | b'+' | b'*' | b'?' | b'|' | b'/' | b';' | b'@' | b'#' => {
                (Tok::Punct(first), 1)
            }
            _ => (Tok::Bad, self.text[start.offset..].chars().next().map_or(1, char::len_utf8)),
        };
        self.advance(n);
        Token { tok, at: start, text: &self.text[start.offset..start.offset + n] }
    }

    /// Length of the string that starts `ahead` bytes on, quotes included; none when it does not end on its line.
    fn string_length(&self, ahead: usize) -> Option<usize> {
        let rest = &self.text.as_bytes()[self.at.offset + ahead..];
        let mut i = 1;
        loop {
            match rest.get(i)? {
                b'"' => return Some(i + 1),
                b'\\' => i += 2,
                b'\n' => return None,
                _ => i += 1,
            }
        }
    }
}

fn number_length(rest: &[u8]) -> (Tok, usize) {
    let digits = |from: usize| rest[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut n = digits(0);
    if rest.get(n) != Some(&b'.') {
        return (Tok::Int, n);
    }
    n += 1;
    n += digits(n);
    if matches!(rest.get(n), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(rest.get(n + 1), Some(b'+' | b'-')));
        let exponent = if n + 1 + sign < rest.len() { digits(n + 1 + sign) } else { 0 };
        if exponent > 0 {
            n += 1 + sign + exponent;
        }
    }
    (Tok::Float, n)
}

/// What a string token says, its escapes resolved.
pub(super) fn unescape(token: &str) -> String {
    let inner = token.trim_start_matches('@');
    let inner = inner.strip_prefix('"').and_then(|s| s.strip_suffix('"')).unwrap_or(inner);
    if !inner.contains('\\') {
        return inner.to_string();
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.as_bytes();
    while let Some((&b, tail)) = rest.split_first() {
        rest = tail;
        if b != b'\\' {
            bytes.push(b);
            continue;
        }
        let hex = |i: usize| rest.get(i).and_then(|b| (*b as char).to_digit(16));
        match (rest.first(), hex(0), hex(1)) {
            (Some(b'n'), ..) => bytes.push(b'\n'),
            (Some(b't'), ..) => bytes.push(b'\t'),
            (_, Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &rest[1..];
            }
            (Some(&other), ..) => bytes.push(other),
            (None, ..) => {}
        }
        rest = rest.get(1..).unwrap_or(&[]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A string as a token: quoted, with what needs it escaped.
pub(super) fn escape(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\{:02X}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(Tok, &str)> {
        let mut lexer = Lexer::new(text);
        let mut out = Vec::new();
        loop {
            let t = lexer.next();
            if t.tok == Tok::Eof {
                return out;
            }
            out.push((t.tok, t.text));
        }
    }

    #[test]
    fn lexes_each_kind() {
        use Tok::*;
        assert_eq!(
            tokens("%6#1 = -1.5e+00 0x7F @f @\"a b\" #loc ^bb0 -> 3: // c\n\"q\\\"\" é"),
            [
                (Percent, "%6"),
                (Hash, "#1"),
                (Punct(b'='), "="),
                (Punct(b'-'), "-"),
                (Float, "1.5e+00"),
                (Int, "0x7F"),
                (Symbol, "@f"),
                (Symbol, "@\"a b\""),
                (Hash, "#loc"),
                (Caret, "^bb0"),
                (Arrow, "->"),
                (Int, "3"),
                (Punct(b':'), ":"),
                (Str, "\"q\\\"\""),
                (Bad, "é"),
            ]
        );
    }

    #[test]
    fn columns_count_characters() {
        let mut lexer = Lexer::new("\"é\" x\n y");
        lexer.next();
        assert_eq!((lexer.next().at.column, lexer.next().at), (5, At { offset: 8, line: 2, column: 2 }));
    }

    #[test]
    fn strings_round_trip() {
        for s in ["", "a\"b\\c", "tab\tline\n", "\u{1}é"] {
            assert_eq!(unescape(&escape(s)), s);
        }
        assert_eq!(unescape("\"\\41\""), "A");
    }
}
