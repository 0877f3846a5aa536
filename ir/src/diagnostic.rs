//! What a user is told: a diagnostic is data, rendered later as text or JSON.
//!
//! Everything a user can cause ends as a [`Diagnostic`] with a stable code, the place in their file where there is one, what was expected, and a way out.
//! The command renders it; libraries only build it. Codes are listed in `docs/error-codes.md`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    /// Nothing is produced.
    Error,
    /// Something is produced and the user should know of a cost or a doubt.
    Warning,
    /// A decision that was taken and why.
    Note,
}

/// Which exit code an error leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The command line or an input file is wrong: exit 2.
    Input,
    /// No feasible plan, or a run that failed: exit 1.
    Outcome,
}

/// A place in a user's file: 1-based line and column, and how many characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// The file as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// Length in characters, at least 1.
    pub length: u32,
    /// The line's text, when it is short enough to be shown.
    pub text: Option<String>,
}

/// One message to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Stable code, `E0101`, `W0107` or `N0003`.
    pub code: String,
    /// How bad.
    pub severity: Severity,
    /// Whose fault, for errors.
    pub fault: Fault,
    /// A single terse description.
    pub message: String,
    /// Where.
    pub span: Option<Span>,
    /// Further facts: what was expected and what was found.
    pub notes: Vec<String>,
    /// A way out.
    pub help: Option<String>,
}

impl Diagnostic {
    fn new(code: &str, severity: Severity, fault: Fault, message: impl Into<String>) -> Self {
        Diagnostic { code: code.into(), severity, fault, message: message.into(), span: None, notes: Vec::new(), help: None }
    }
    /// An error in what the user gave (exit 2).
    pub fn input(code: &str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, Fault::Input, message)
    }
    /// An outcome that is a failure though the input is well formed (exit 1).
    pub fn outcome(code: &str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, Fault::Outcome, message)
    }
    /// A warning.
    pub fn warning(code: &str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, Fault::Input, message)
    }
    /// A note on a decision.
    pub fn note(code: &str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Note, Fault::Input, message)
    }
    /// Adds the place.
    #[must_use]
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }
    /// Adds a fact.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
    /// Adds the way out.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        write!(f, "{kind}[{}]: {}", self.code, self.message)?;
        if let Some(s) = &self.span {
            write!(f, "\n  --> {}:{}:{}", s.file, s.line, s.column)?;
            if let Some(t) = &s.text {
                let lead: String = t.chars().take(s.column.saturating_sub(1) as usize).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
                write!(f, "\n   | {t}\n   | {lead}{}", "^".repeat(s.length.max(1) as usize))?;
            }
        }
        for n in &self.notes {
            write!(f, "\n  = {n}")?;
        }
        if let Some(h) = &self.help {
            write!(f, "\n  = help: {h}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

/// One or more diagnostics that end a command; all that are known are reported at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl From<Diagnostic> for Diagnostics {
    fn from(d: Diagnostic) -> Self {
        Diagnostics(vec![d])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{d}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// The result of everything that can end in a message to the user.
pub type Result<T, E = Diagnostics> = std::result::Result<T, E>;

/// The nearest of `known` to a misspelt `word`, for "did you mean".
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().map(|k| (edit_distance(word, k), k)).filter(|(d, k)| *d <= 1 + k.len().max(word.len()) / 3).min().map(|(_, k)| k)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let next = (diagonal + usize::from(ca != *cb)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}
