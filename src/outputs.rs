//! Files that a command writes: none of them may be a file that it reads, nor two the same.
//!
//! Paths are compared where they lead, links followed, so that another spelling of a path is found too.

use ir::{Diagnostic, Result};
use std::path::{Path, PathBuf};

/// Refuses an output that is one of `sources` (with what each is), or the same file as another output (with its flag).
///
/// # Errors
/// `E0911`.
pub(crate) fn check_outputs(sources: &[(&str, &Path)], outputs: &[(&str, Option<&Path>)]) -> Result<()> {
    let outputs: Vec<(&str, &Path, PathBuf)> = outputs.iter().filter_map(|(flag, path)| path.map(|p| (*flag, p, place(p)))).collect();
    for (i, (flag, path, at)) in outputs.iter().enumerate() {
        if let Some((what, _)) = sources.iter().find(|(_, source)| place(source) == *at) {
            return Err(Diagnostic::input("E0911", format!("`{flag} {}` is {what} itself", path.display()))
                .with_help(format!("name another file with `{flag}`"))
                .into());
        }
        if let Some((other, ..)) = outputs[..i].iter().find(|o| o.2 == *at && !is_stream(path)) {
            return Err(Diagnostic::input("E0911", format!("`{other}` and `{flag}` both name {}", path.display()))
                .with_help("give each a file of its own")
                .into());
        }
    }
    Ok(())
}

/// Whether a path is there and no ordinary file: a device or a pipe takes any number of outputs.
fn is_stream(path: &Path) -> bool {
    path.exists() && !path.is_file()
}

/// Where a path leads, for a file that need not exist yet.
fn place(path: &Path) -> PathBuf {
    if let Ok(found) = std::fs::canonicalize(path) {
        return found;
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (std::fs::canonicalize(folder), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_no_input_and_no_other_output() {
        let folder = tempfile::tempdir().expect("a folder");
        let model = folder.path().join("m.mlir");
        std::fs::write(&model, "x").expect("written");
        std::fs::create_dir(folder.path().join("sub")).expect("made");
        let round = folder.path().join("sub").join("..").join("m.mlir");
        let sources = [("the model", model.as_path())];
        let code = |outputs: &[(&str, Option<&Path>)]| check_outputs(&sources, outputs).err().map(|e| e.0[0].code.clone());
        assert_eq!(code(&[("-o", Some(&model))]).as_deref(), Some("E0911"));
        assert_eq!(code(&[("-o", Some(&round))]).as_deref(), Some("E0911"));
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&model, &link).expect("linked");
            assert_eq!(code(&[("-o", Some(&link))]).as_deref(), Some("E0911"));
            let null = Path::new("/dev/null");
            assert_eq!(code(&[("--save", Some(null)), ("--trace", Some(null))]), None);
        }
        let new = folder.path().join("new");
        assert_eq!(code(&[("--save", Some(&new)), ("--trace", None)]), None);
        assert_eq!(code(&[("--save", Some(&new)), ("--trace", Some(&folder.path().join("sub/../new")))]).as_deref(), Some("E0911"));
    }
}
