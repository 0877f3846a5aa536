//! What the user sees: results on standard output, diagnostics on standard error.
//!
//! Colour is written always and taken out by `anstream` where the stream is no terminal, or where `NO_COLOR` says so.
//! When standard output is closed by its reader (`| head`) the command ends quietly with code 0.

use ir::Diagnostic;
use ir::diagnostic::{Diagnostics, Fault, Severity};
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
}

impl Terminal {
    pub(crate) fn new(json: bool, quiet: bool) -> Terminal {
        Terminal { json, quiet }
    }
    /// Whether results are asked for as JSON.
    pub(crate) fn json(&self) -> bool {
        self.json
    }
    /// A line of a result.
    pub(crate) fn line(&self, text: &str) {
        let mut out = anstream::stdout().lock();
        let written = writeln!(out, "{text}").and_then(|()| out.flush());
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
        if !self.quiet && !self.json {
            self.error_line(&format!("{GREEN}{word:>9}{PLAIN} {text}"));
        }
    }
    /// Diagnostics that do not end the command.
    pub(crate) fn notes(&self, list: &[Diagnostic]) {
        for d in list.iter().filter(|d| !self.quiet || d.severity == Severity::Error) {
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
        match serde_json::to_string(d) {
            Ok(text) if self.json => self.error_line(&text),
            _ => self.error_line(&render(d)),
        }
    }

    fn error_line(&self, text: &str) {
        // Nothing is left to tell when standard error is closed.
        let _ = writeln!(anstream::stderr().lock(), "{text}");
    }
}

/// A diagnostic as text with colour.
fn render(d: &Diagnostic) -> String {
    let (colour, kind) = match d.severity {
        Severity::Error => (RED, "error"),
        Severity::Warning => (YELLOW, "warning"),
        Severity::Note => (GREEN, "note"),
    };
    let mut text = format!("{colour}{kind}[{}]{PLAIN}{BOLD}: {}{PLAIN}", d.code, d.message);
    let mut width = 0;
    if let Some(s) = &d.span {
        let number = s.line.to_string();
        width = number.len();
        text += &format!("\n{:width$}{BLUE}-->{PLAIN} {}:{}:{}", "", s.file, s.line, s.column);
        if let Some(source) = &s.text {
            let lead: String = source.chars().take(s.column.saturating_sub(1) as usize).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            let marks = "^".repeat(s.length.max(1) as usize);
            text += &format!("\n{:width$} {BLUE}|{PLAIN}\n{BLUE}{number} |{PLAIN} {source}\n{:width$} {BLUE}|{PLAIN} {lead}{colour}{marks}{PLAIN}", "", "");
        }
    }
    for note in &d.notes {
        text += &format!("\n{:width$} {BLUE}={PLAIN} {note}", "");
    }
    if let Some(help) = &d.help {
        text += &format!("\n{:width$} {BLUE}={PLAIN} {BOLD}help{PLAIN}: {help}", "");
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
}
