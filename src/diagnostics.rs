//! What the user sees: results on standard output, diagnostics on standard error.
//!
//! Colour is written always and taken out by `anstream` where the stream is no terminal, or where `NO_COLOR` says so.
//! When standard output is closed by its reader (`| head`) the command ends quietly with code 0.
//! Names come from files: control characters in them are written out (`\u{1b}`), never sent to the terminal.
//! An error always has a way out: where it names none itself, it is what `docs/error-codes.md` says to do about its code.

use ir::Diagnostic;
use ir::diagnostic::{Diagnostics, Fault, Severity};
use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const GREEN: &str = "\x1b[1;32m";
const BLUE: &str = "\x1b[1;34m";
const PLAIN: &str = "\x1b[0m";

/// How to speak to the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    json: bool,
    quiet: bool,
    /// In a process whose ranks are told of by another: results and steps of work are not shown.
    silent: bool,
}

impl Terminal {
    pub(crate) fn new(json: bool, quiet: bool) -> Terminal {
        Terminal { json, quiet, silent: false }
    }
    /// The same for a process whose results another one shows; errors are still told.
    pub(crate) fn silent(&self) -> Terminal {
        Terminal { silent: true, ..*self }
    }
    /// Whether results are asked for as JSON.
    pub(crate) fn json(&self) -> bool {
        self.json
    }
    /// A line of a result.
    pub(crate) fn line(&self, text: &str) {
        if self.silent {
            return;
        }
        let mut out = anstream::stdout().lock();
        let written = writeln!(out, "{}", printable(text, true)).and_then(|()| out.flush());
        if let Err(e) = written {
            if e.kind() == ErrorKind::BrokenPipe {
                std::process::exit(0);
            }
            self.diagnostic(&Diagnostic::outcome("E0641", format!("the results cannot be written: {e}")));
            std::process::exit(1);
        }
    }
    /// A result as JSON.
    pub(crate) fn object(&self, value: &serde_json::Value) {
        self.line(&value.to_string());
    }
    /// A line that tells how far a compilation is: on a terminal unless told to be quiet, else where asked for.
    pub(crate) fn progress_line(&self, asked: bool) -> Option<crate::progress::Line> {
        let terminal = std::io::stderr().is_terminal();
        (asked || terminal && !self.quiet && !self.json).then(|| crate::progress::Line::new(terminal))
    }
    /// A step of work that was done: a word, right-aligned in green as cargo does, and the rest.
    pub(crate) fn progress(&self, word: &str, text: &str) {
        if !self.quiet && !self.json && !self.silent {
            self.error_line(&format!("{GREEN}{word:>9}{PLAIN} {}", printable(text, false)));
        }
    }
    /// Diagnostics that do not end the command.
    pub(crate) fn notes(&self, list: &[Diagnostic]) {
        for d in list.iter().filter(|d| !self.quiet || d.severity == Severity::Error).filter(|d| !self.silent || d.severity != Severity::Note) {
            self.diagnostic(d);
        }
    }
    /// Diagnostics that end the command, and its exit code.
    pub(crate) fn failure(&self, failed: &Diagnostics) -> ExitCode {
        for d in &failed.0 {
            self.diagnostic(d);
        }
        let input = failed.0.iter().any(|d| d.severity == Severity::Error && d.fault == Fault::Input);
        ExitCode::from(if input { 2 } else { 1 })
    }

    fn diagnostic(&self, d: &Diagnostic) {
        let mut d = Cow::Borrowed(d);
        if d.severity == Severity::Error && d.help.is_none() {
            d.to_mut().help = way_out(&d.code);
        }
        match serde_json::to_string(&d) {
            Ok(text) if self.json => self.error_line(&text),
            _ => self.error_line(&render(&d)),
        }
    }

    fn error_line(&self, text: &str) {
        // Nothing is left to tell when standard error is closed.
        let _ = writeln!(anstream::stderr().lock(), "{text}");
    }
}

/// What to do about a code, from the table that documents it.
fn way_out(code: &str) -> Option<String> {
    let row = CODES.lines().find(|l| l.strip_prefix("| `").and_then(|l| l.strip_prefix(code)).is_some_and(|l| l.starts_with('`')))?;
    let text = row.trim_end_matches([' ', '|']).rsplit(" | ").next()?;
    // A link is its address.
    let text = match (text.find('['), text.find("]("), text.find(')')) {
        (Some(a), Some(b), Some(c)) if a < b && b < c => format!("{}docs/{}{}", &text[..a], &text[b + 2..c], &text[c + 1..]),
        _ => text.to_string(),
    };
    Some(text)
}

/// The codes, as documented.
const CODES: &str = include_str!("../docs/error-codes.md");

/// Whether a terminal would act on a character: control characters, and changes of direction.
fn acts(c: char) -> bool {
    (c.is_control() && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text with what a terminal would act on written as escapes; `lines` keeps line breaks.
fn printable(text: &str, lines: bool) -> Cow<'_, str> {
    let acts = |c: char| acts(c) && !(lines && c == '\n');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().fold(String::with_capacity(text.len() + 16), |mut out, c| {
        if acts(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        out
    }))
}

/// A diagnostic as text with colour.
fn render(d: &Diagnostic) -> String {
    let (colour, kind) = match d.severity {
        Severity::Error => (RED, "error"),
        Severity::Warning => (YELLOW, "warning"),
        Severity::Note => (GREEN, "note"),
    };
    let mut text = format!("{colour}{kind}[{}]{PLAIN}{BOLD}: {}{PLAIN}", d.code, printable(&d.message, false));
    let mut width = 0;
    if let Some(s) = &d.span {
        let number = s.line.to_string();
        width = number.len();
        text += &format!("\n{:width$}{BLUE}-->{PLAIN} {}:{}:{}", "", printable(&s.file, false), s.line, s.column);
        if let Some(source) = &s.text {
            // One sign each, so that the marks stay below what they mark.
            let source: String = source.chars().map(|c| if acts(c) { '\u{fffd}' } else { c }).collect();
            let lead: String = source.chars().take(s.column.saturating_sub(1) as usize).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            let marks = "^".repeat(s.length.max(1) as usize);
            text += &format!("\n{:width$} {BLUE}|{PLAIN}\n{BLUE}{number} |{PLAIN} {source}\n{:width$} {BLUE}|{PLAIN} {lead}{colour}{marks}{PLAIN}", "", "");
        }
    }
    for note in &d.notes {
        text += &format!("\n{:width$} {BLUE}={PLAIN} {}", "", printable(note, false));
    }
    if let Some(help) = &d.help {
        text += &format!("\n{:width$} {BLUE}={PLAIN} {BOLD}help{PLAIN}: {}", "", printable(help, false));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::diagnostic::Span;

    #[test]
    fn a_diagnostic_shows_its_place() {
        let span = Span { file: "step.mlir".into(), line: 12, column: 3, length: 4, text: Some("  %0 = foo".into()) };
        let d = Diagnostic::input("E0101", "unknown op `foo`").at(span).with_note("it occurs 3 times").with_help("spell it right");
        let plain: String = render(&d).replace(BLUE, "").replace(BOLD, "").replace(RED, "").replace(PLAIN, "");
        let expected =
            "error[E0101]: unknown op `foo`\n  --> step.mlir:12:3\n   |\n12 |   %0 = foo\n   |   ^^^^\n   = it occurs 3 times\n   = help: spell it right";
        assert_eq!(plain, expected);
    }

    #[test]
    fn what_a_file_holds_cannot_drive_the_terminal() {
        let span = Span { file: "a\u{1b}[2J.mlir".into(), line: 1, column: 5, length: 1, text: Some("  \u{1b}\u{9b}x".into()) };
        let d = Diagnostic::input("E0101", "no `\u{1b}]0;x\u{7}`").at(span).with_note("a\rb\u{202e}c").with_help("see `\u{0}`");
        let plain: String = render(&d).replace(BLUE, "").replace(BOLD, "").replace(RED, "").replace(PLAIN, "");
        assert!(plain.chars().all(|c| c == '\n' || !c.is_control()), "{plain:?}");
        assert!(plain.contains(r"`\u{1b}]0;x\u{7}`") && plain.contains(r"a\rb\u{202e}c") && plain.contains(r"a\u{1b}[2J.mlir:1:5"), "{plain}");
        assert!(plain.contains("  \u{fffd}\u{fffd}x\n  |     ^"), "{plain}");
        assert_eq!(printable("one\ntwo", true), "one\ntwo");
        assert_eq!(printable("one\ntwo", false), r"one\ntwo");
    }

    #[test]
    fn every_code_of_an_error_has_a_way_out() {
        let codes: Vec<&str> = CODES.lines().filter_map(|l| l.strip_prefix("| `E")?.split('`').next()).collect();
        assert!(codes.len() > 50);
        for code in codes {
            let text = way_out(&format!("E{code}")).unwrap_or_default();
            assert!(text.len() > 4 && !text.contains("]("), "E{code}: {text:?}");
        }
        assert_eq!(way_out("E0304").as_deref(), Some("see docs/clusters.md; the nearest known key is named"));
        assert_eq!(way_out("E"), None);
    }
}
