//! `view PLAN`: writes the page that shows a plan, or prints what it shows as JSON.

use crate::diagnostics::Terminal;
use crate::outputs::check_outputs;
use ir::{Bytes, Diagnostic, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show a plan: one HTML page that needs no network.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan, as written by `compile`.
    plan: PathBuf,
    /// Where to write the page; by default beside the plan, with the ending `.html`.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// `view`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    let plan = crate::run::read_plan(&args.plan)?;
    if terminal.json() && args.output.is_none() {
        let model = serde_json::to_value(viz::model::model(&plan)).expect("invariant: the view-model has text keys");
        terminal.object(&model);
        return Ok(ExitCode::SUCCESS);
    }
    let path = args.output.clone().unwrap_or_else(|| args.plan.with_extension("html"));
    check_outputs(&[("the plan", &args.plan)], &[("-o", Some(&path))])?;
    let page = viz::page(&plan);
    write_whole(&path, page.as_bytes())?;
    terminal.progress("Wrote", &format!("{}  {}", path.display(), Bytes(page.len() as u64)));
    if terminal.json() {
        terminal.object(&serde_json::json!({ "page": path.to_string_lossy(), "bytes": page.len() }));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file under a temporary name beside it and renames it, so that a reader never sees a part.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = if path.is_dir() {
        Err(std::io::Error::from(std::io::ErrorKind::IsADirectory))
    } else {
        std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path))
    };
    written.map_err(|e| {
        let _ = std::fs::remove_file(&temporary);
        Diagnostic::input("E0633", format!("{} cannot be written: {e}", path.display())).with_help("name another file with `-o`").into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_replaces_the_one_before_and_a_failure_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plan.html");
        write_whole(&path, b"one").expect("it can be written");
        write_whole(&path, b"two").expect("it can be replaced");
        assert_eq!(std::fs::read(&path).ok().as_deref(), Some(&b"two"[..]));
        let failed = write_whole(&folder.path().join("missing").join("plan.html"), b"x").expect_err("no such folder");
        assert_eq!(failed.0[0].code, "E0633");
        assert!(write_whole(folder.path(), b"x").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
