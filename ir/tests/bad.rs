//! Texts that are wrong, each with the diagnostics that it must give: `bad/NAME.mlir` and `bad/NAME.expected`.
//!
//! `BLESS=1 cargo test -p ir --test bad` writes the expectations; read what changed before committing it.

use ir::diagnostic::Fault;
use std::path::Path;

#[test]
fn wrong_texts_are_diagnosed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut files: Vec<_> = std::fs::read_dir(&folder).expect("the folder").map(|e| e.expect("an entry").path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "mlir"));
    files.sort();
    assert!(files.len() > 40);
    let mut wrong = Vec::new();
    for path in files {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let found = match ir::text::parse(&name, &text) {
            Ok(_) => "no error".to_string(),
            Err(all) => {
                assert!(!all.0.is_empty() && all.0.iter().all(|d| d.fault == Fault::Input && d.code.starts_with("E01")), "{name}: {all}");
                all.to_string()
            }
        };
        let expected = path.with_extension("expected");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected, found + "\n").expect("a writable folder");
        } else if std::fs::read_to_string(&expected).unwrap_or_default().trim_end() != found.trim_end() {
            wrong.push(format!("--- {name}\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
