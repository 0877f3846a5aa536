//! PTX text to tokens, each with its line.
//!
//! A word holds its dots (`ld.global.v4.f32`, `%tid.x`, `.visible`), since opcodes are taken apart later; numbers are read to the bits they stand for.

use crate::error::Error;

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// An identifier, register, opcode or directive, with its dots.
    Word(&'a str),
    /// An integer, in two's complement.
    Int(u64),
    /// `0f…`: the bits of a single.
    Single(u32),
    /// `0d…` or a decimal fraction: the bits of a double.
    Double(u64),
    /// A string without its quotes.
    Text(&'a str),
    /// A punctuation mark.
    Mark(u8),
}

/// All tokens of a text.
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token<'_>, u32)>, Error> {
    let bytes = text.as_bytes();
    let (mut at, mut line) = (0, 1);
    let mut all = Vec::with_capacity(text.len() / 4);
    while let Some(&c) = bytes.get(at) {
        match c {
            b'\n' => {
                line += 1;
                at += 1;
            }
            b' ' | b'\t' | b'\r' => at += 1,
            b'/' if bytes.get(at + 1) == Some(&b'/') => at += bytes[at..].iter().position(|&b| b == b'\n').unwrap_or(bytes.len() - at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let end = text[at + 2..].find("*/").ok_or_else(|| Error::new(line, "a comment does not end"))?;
                line += text[at..at + 2 + end].matches('\n').count() as u32;
                at += end + 4;
            }
            b'"' => {
                let end = text[at + 1..].find('"').ok_or_else(|| Error::new(line, "a string does not end"))?;
                let inner = &text[at + 1..at + 1 + end];
                all.push((Token::Text(inner), line));
                line += inner.matches('\n').count() as u32;
                at += end + 2;
            }
            b'0'..=b'9' => {
                let length = bytes[at..].iter().position(|&b| !(b.is_ascii_alphanumeric() || b == b'.' || b == b'_')).unwrap_or(bytes.len() - at);
                let mut end = at + length;
                // The sign of a decimal exponent belongs to the number.
                if text[at..end].ends_with(['e', 'E']) && !text[at..end].starts_with("0x") && matches!(bytes.get(end), Some(b'+' | b'-')) {
                    end += 1;
                    end += bytes[end..].iter().position(|b| !b.is_ascii_digit()).unwrap_or(bytes.len() - end);
                }
                all.push((number(&text[at..end]).ok_or_else(|| Error::new(line, format!("`{}` is not a number", &text[at..end])))?, line));
                at = end;
            }
            _ if starts_word(c) => {
                let mut end = at + 1;
                while let Some(&b) = bytes.get(end) {
                    match b {
                        b'.' | b'_' | b'$' => end += 1,
                        b':' if bytes.get(end + 1) == Some(&b':') => end += 2,
                        _ if b.is_ascii_alphanumeric() => end += 1,
                        _ => break,
                    }
                }
                all.push((Token::Word(&text[at..end]), line));
                at = end;
            }
            b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'<' | b'>' | b',' | b';' | b':' | b'=' | b'+' | b'-' | b'|' | b'!' | b'@' | b'*' => {
                all.push((Token::Mark(c), line));
                at += 1;
            }
            // The padding some assemblers want behind a text.
            0 => at += 1,
            _ => {
                let c = text.get(at..).and_then(|t| t.chars().next()).unwrap_or('?');
                return Err(Error::new(line, format!("the character `{c}` has no meaning here")));
            }
        }
    }
    Ok(all)
}

fn starts_word(c: u8) -> bool {
    c.is_ascii_alphabetic() || matches!(c, b'_' | b'$' | b'%' | b'.')
}

fn number(text: &str) -> Option<Token<'static>> {
    if let Some(hex) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")).filter(|h| h.len() == 8) {
        return u32::from_str_radix(hex, 16).ok().map(Token::Single);
    }
    if let Some(hex) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0D")).filter(|h| h.len() == 16) {
        return u64::from_str_radix(hex, 16).ok().map(Token::Double);
    }
    let whole = text.strip_suffix('U').unwrap_or(text);
    let integer = if let Some(hex) = whole.strip_prefix("0x").or_else(|| whole.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16).ok()
    } else if let Some(binary) = whole.strip_prefix("0b") {
        u64::from_str_radix(binary, 2).ok()
    } else if whole.len() > 1 && whole.starts_with('0') && whole.bytes().all(|b| b.is_ascii_digit()) {
        u64::from_str_radix(whole, 8).ok()
    } else {
        whole.parse().ok()
    };
    integer.map(Token::Int).or_else(|| text.parse::<f64>().ok().filter(|_| text.contains(['.', 'e', 'E'])).map(|v| Token::Double(v.to_bits())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_dots_and_numbers_their_bits() {
        let text = "@%p1 ld.global.L1::evict_last.v2.f32 {%f1, _}, [%rd2+-8]; // rest\n$L__BB0_2: 0f3F800000 0d3FF0000000000000 0x1F -1 017 1.5";
        let all = tokens(text).unwrap();
        assert!(all.contains(&(Token::Word("ld.global.L1::evict_last.v2.f32"), 1)));
        assert_eq!(all[0], (Token::Mark(b'@'), 1));
        let tail: Vec<_> = all.iter().filter(|(_, l)| *l == 2).map(|(t, _)| *t).collect();
        let one = 1f64.to_bits();
        let expected = [
            Token::Word("$L__BB0_2"),
            Token::Mark(b':'),
            Token::Single(1f32.to_bits()),
            Token::Double(one),
            Token::Int(31),
            Token::Mark(b'-'),
            Token::Int(1),
            Token::Int(15),
            Token::Double(1.5f64.to_bits()),
        ];
        assert_eq!(tail, expected);
    }

    #[test]
    fn what_is_no_token_is_named_with_its_line() {
        assert_eq!(tokens("add\n#").unwrap_err(), Error::new(2, "the character `#` has no meaning here"));
        assert_eq!(tokens("mov.b32 %r1, 12z;").unwrap_err().message, "`12z` is not a number");
        assert!(tokens("/* never").is_err());
    }
}
