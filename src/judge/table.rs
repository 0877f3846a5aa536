//! A CSV file with a header: quoted fields, doubled quotes, rows asked by column name.

use ir::{Diagnostic, Result};
use std::path::Path;

/// Largest file that is read, in bytes.
const LARGEST: u64 = 64 << 20;

/// A file.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Its name, without folders and ending.
    pub(super) name: String,
    header: Vec<String>,
    cells: Vec<Vec<String>>,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    header: &'a [String],
    cells: &'a [String],
}

impl Table {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Table> {
        let shown = path.display().to_string();
        let unreadable = |e: std::io::Error| Diagnostic::input("E0118", format!("`{shown}` cannot be read: {e}"));
        if std::fs::metadata(path).map_err(unreadable)?.len() > LARGEST {
            return Err(Diagnostic::input("E0424", format!("`{shown}` is too large to be a table of measurements")).into());
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let name = path.file_stem().map_or_else(|| shown.clone(), |n| n.to_string_lossy().into_owned());
        Table::parse(name, &shown, &text)
    }

    fn parse(name: String, shown: &str, text: &str) -> Result<Table> {
        let mut lines = records(text).into_iter();
        let header: Vec<String> = lines.next().unwrap_or_default();
        let missing: Vec<&str> = NEEDED.into_iter().filter(|n| !header.iter().any(|h| h == n)).collect();
        if !missing.is_empty() {
            return Err(Diagnostic::input("E0424", format!("`{shown}` has no column {}", missing.join(", ")))
                .with_note(format!("columns of the file: {}", header.join(", ")))
                .with_help("a file of whole training steps has the header that docs/predict.md lists")
                .into());
        }
        let cells: Vec<Vec<String>> = lines.collect();
        if let Some((n, row)) = cells.iter().enumerate().find(|(_, r)| r.len() != header.len()) {
            return Err(Diagnostic::input("E0424", format!("row {} of `{shown}` has {} fields, and the header has {}", n + 1, row.len(), header.len()))
                .with_help("quote fields that hold commas")
                .into());
        }
        Ok(Table { name, header, cells })
    }

    /// The rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.cells.iter().map(|cells| Row { header: &self.header, cells })
    }
}

/// Columns without which nothing can be predicted.
const NEEDED: [&str; 9] = ["row_id", "n_layers", "hidden", "n_heads", "seq_len", "gpu", "n_gpus", "tp", "pp"];

impl<'a> Row<'a> {
    /// The text of a column; empty where there is none.
    pub(super) fn text(&self, column: &str) -> &'a str {
        self.header.iter().position(|h| h == column).map_or("", |i| self.cells[i].trim())
    }
    /// A column as a number.
    pub(super) fn number(&self, column: &str) -> Option<f64> {
        self.text(column).parse().ok().filter(|n: &f64| n.is_finite())
    }
    /// A column as a count of at least one.
    pub(super) fn count(&self, column: &str) -> Option<u64> {
        self.number(column).filter(|n| *n >= 1.0 && n.fract() == 0.0).map(|n| n as u64)
    }
}

/// Fields of every record; a quoted field may hold commas, line ends and doubled quotes.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut all, mut record, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                field.push('"');
                characters.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                all.push(std::mem::take(&mut record));
            }
            c => field.push(c),
        }
    }
    if !field.is_empty() || !record.is_empty() {
        record.push(field);
        all.push(record);
    }
    all.retain(|r: &Vec<String>| r.len() > 1 || !r[0].is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_and_missing_columns() {
        assert_eq!(records("a,\"b, \"\"c\"\"\"\n1,2\n"), vec![vec!["a".to_owned(), "b, \"c\"".into()], vec!["1".into(), "2".into()]]);
        let e = Table::parse("x".into(), "x.csv", "row_id,hidden\n1,2\n").expect_err("columns are missing");
        assert!(e.0[0].code == "E0424" && e.0[0].message.contains("n_layers, n_heads"));
        let full = format!("{}\n{}\n", NEEDED.join(","), "1,2");
        assert!(Table::parse("x".into(), "x.csv", &full).expect_err("a row is short").0[0].message.contains("2 fields"));
    }
}
