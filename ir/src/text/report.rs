//! Collects what is wrong with a text, so that all of it is reported at once.
//!
//! An op, type or attribute that is not known is reported once per name, with its first place and how often it occurs.
//! Other errors are reported one by one up to a limit, after which reading stops: garbage ends early.

use super::lexer::At;
use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use indexmap::IndexMap;

/// Errors, other than unknown names, after which the rest of the file is not read.
const LIMIT: usize = 20;
/// Lines longer than this are not quoted.
const LONGEST_LINE: usize = 200;
/// Unknown names after which the rest of the file is not read.
const LIMIT_NAMES: usize = 200;

/// An error that has been reported; the op that it is in is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reported;

struct Unknown {
    diagnostic: Diagnostic,
    count: usize,
}

/// The collected errors and notes of one file.
pub(super) struct Report<'a> {
    file: &'a str,
    text: &'a str,
    errors: Vec<Diagnostic>,
    unknown: IndexMap<(&'static str, String), Unknown>,
    pub(super) notes: Vec<Diagnostic>,
    /// Reading cannot go on.
    pub(super) fatal: bool,
}

impl<'a> Report<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Report { file, text, errors: Vec::new(), unknown: IndexMap::new(), notes: Vec::new(), fatal: false }
    }

    /// A place of `length` characters as the user is shown it.
    pub(super) fn span(&self, at: At, length: u32) -> Span {
        let start = self.text[..at.offset].rfind('\n').map_or(0, |i| i + 1);
        let end = self.text[at.offset..].find('\n').map_or(self.text.len(), |i| at.offset + i);
        let line = self.text[start..end].trim_end_matches('\r');
        let text = (line.len() <= LONGEST_LINE).then(|| line.to_string());
        Span { file: self.file.to_string(), line: at.line, column: at.column, length, text }
    }

    /// Reports an error.
    pub(super) fn error(&mut self, diagnostic: Diagnostic) -> Reported {
        if !self.fatal {
            self.errors.push(diagnostic);
            if self.errors.len() >= LIMIT {
                self.fatal = true;
                self.errors.push(Diagnostic::input("E0101", format!("more than {LIMIT} errors: the rest of the file was not read")));
            }
        }
        Reported
    }

    /// Reports an error at a place.
    pub(super) fn error_at(&mut self, code: &str, at: At, length: u32, message: impl Into<String>) -> Reported {
        let d = Diagnostic::input(code, message).at(self.span(at, length));
        self.error(d)
    }

    /// Reports one occurrence of something that is not known; the message is that of the first.
    pub(super) fn unknown(&mut self, code: &'static str, name: &str, at: At, message: impl FnOnce() -> (String, Option<String>)) -> Reported {
        if self.fatal {
            return Reported;
        }
        if let Some(u) = self.unknown.get_mut(&(code, name.to_string())) {
            u.count += 1;
            return Reported;
        }
        let (message, help) = message();
        let length = u32::try_from(name.chars().count().min(120)).unwrap_or(1);
        let mut diagnostic = Diagnostic::input(code, message).at(self.span(at, length));
        diagnostic.help = help;
        self.unknown.insert((code, name.to_string()), Unknown { diagnostic, count: 1 });
        self.fatal |= self.unknown.len() >= LIMIT_NAMES;
        Reported
    }

    /// Whether nothing is wrong.
    pub(super) fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.unknown.is_empty()
    }

    /// Everything that is wrong, in the file's order.
    pub(super) fn finish(self) -> Diagnostics {
        let mut all = self.errors;
        for (_, u) in self.unknown {
            let times = if u.count == 1 { "occurs once".to_string() } else { format!("occurs {} times; this is the first", u.count) };
            all.push(u.diagnostic.with_note(times));
        }
        all.sort_by_key(|d| d.span.as_ref().map_or((u32::MAX, 0), |s| (s.line, s.column)));
        Diagnostics(all)
    }
}
