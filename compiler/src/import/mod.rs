//! From a file to a module: reading, checking, and what the text asks for besides.
//!
//! Everything wrong with a file is told at once, with its place; what was dropped is a note.
//! A module that leaves here keeps every invariant of [`ir::verify`], and its calls end.

use ir::diagnostic::{Diagnostic, Result, Span};
use ir::graph::{Graph, Module};
use ir::text::{self, Pin};
use std::fs;
use std::path::Path;

/// Largest file that is read, in bytes.
const LARGEST: u64 = 4 << 30;
/// How MLIR's bytecode begins.
const BYTECODE: &[u8] = b"ML\xefR";

/// A model file that was read.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Its functions.
    pub module: Module,
    /// What was dropped, and why.
    pub notes: Vec<Diagnostic>,
    /// Shardings that the text states, of arguments, results and constrained values of any function.
    pub pins: Vec<Pin>,
}

/// Reads a model file.
pub fn import(path: &Path) -> Result<Imported> {
    let name = path.display().to_string();
    let unreadable =
        |e: std::io::Error| Diagnostic::input("E0118", format!("`{name}` cannot be read: {e}")).with_help("check the path, and that the file may be read");
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(Diagnostic::input("E0118", format!("`{name}` is a folder")).with_help("name the model file in it").into());
    }
    if !metadata.is_file() {
        return Err(Diagnostic::input("E0118", format!("`{name}` is no ordinary file")).with_help("write the model to a file first").into());
    }
    if metadata.len() > LARGEST {
        return Err(Diagnostic::input("E0111", format!("`{name}` is larger than 4 GiB")).with_help("keep large arrays as arguments, not as constants").into());
    }
    import_bytes(&name, &fs::read(path).map_err(unreadable)?)
}

/// Reads a model from the bytes of a file that the user calls `name`.
pub fn import_bytes(name: &str, bytes: &[u8]) -> Result<Imported> {
    if bytes.starts_with(BYTECODE) {
        let d = Diagnostic::input("E0117", format!("`{name}` is MLIR bytecode, not text"));
        return Err(d.with_help("write what `jax.jit(step).lower(...).as_text()` returns, or print an exported module with `.mlir_module()`").into());
    }
    let text = std::str::from_utf8(bytes).map_err(|e| not_text(name, bytes, e.valid_up_to()))?;
    let parsed = text::parse_with_notes(name, text)?;
    if let Err(problems) = ir::verify::verify_module(&parsed.module) {
        let mut d = Diagnostic::input("E0120", format!("`{name}` was read to a graph that is not sound"));
        d.notes = problems;
        return Err(d.with_help("this is a bug of Shardwright: please report the file").into());
    }
    let mut pins = parsed.pins;
    for f in &parsed.module.functions {
        stated_pins(f, &mut pins);
    }
    Ok(Imported { module: parsed.module, notes: parsed.notes, pins })
}

fn not_text(name: &str, bytes: &[u8], at: usize) -> Diagnostic {
    let line = 1 + bytes[..at].iter().filter(|b| **b == b'\n').count();
    let start = bytes[..at].iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    let column = 1 + String::from_utf8_lossy(&bytes[start..at]).chars().count();
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Diagnostic::input("E0116", format!("`{name}` is not text: it has a byte that is not UTF-8"))
        .at(Span { file: name.to_string(), line: small(line), column: small(column), length: 1, text: None })
        .with_help("a model file is what `jax.jit(step).lower(...).as_text()` prints")
}

/// The shardings that a function states of its arguments and results.
fn stated_pins(f: &Graph, pins: &mut Vec<Pin>) {
    let inputs = f.inputs.iter().zip(&f.input_attributes).map(|(v, a)| (v, &a.sharding));
    let outputs = f.outputs.iter().zip(&f.output_attributes).map(|(v, a)| (v, &a.sharding));
    for (&v, sharding) in inputs.chain(outputs) {
        if let Some(sharding) = sharding {
            pins.push(Pin { function: f.name.clone(), value: f.display_name(v), sharding: sharding.clone(), line: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(bytes: &[u8]) -> String {
        import_bytes("m.mlir", bytes).unwrap_err().0[0].code.clone()
    }

    #[test]
    fn files_that_are_not_text() {
        assert_eq!(code(b"ML\xefR\x00StableHLO"), "E0117");
        assert_eq!(code(b""), "E0114");
        let d = import_bytes("m.mlir", b"module {\n  \xff").unwrap_err().0.remove(0);
        assert_eq!((d.code.as_str(), d.span.map(|s| (s.line, s.column))), ("E0116", Some((2, 3))));
        assert_eq!(import(Path::new("/nowhere/m.mlir")).unwrap_err().0[0].code, "E0118");
    }

    #[test]
    fn annotations_become_notes_and_pins() {
        let text = r#"module @m {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x4xf32> {jax.result_info = "out"}) {
    %0 = stablehlo.custom_call @Sharding(%arg0) {backend_config = "", mhlo.sharding = "{replicated}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"y"}]> : tensor<8x4xf32>
    %2 = stablehlo.add %1, %0 : tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  }
}
"#;
        let m = import_bytes("m.mlir", text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(m.module.meshes, [("mesh".to_string(), vec![("x".to_string(), 2), ("y".to_string(), 4)])]);
        assert_eq!(m.notes.len(), 1);
        let pins: Vec<(&str, &str, u32)> = m.pins.iter().map(|p| (p.value.as_str(), p.sharding.as_str(), p.line)).collect();
        assert_eq!(pins, [("%arg0", r#"<@mesh, [{}, {"y"}]>"#, 5), ("%arg0", r#"<@mesh, [{"x"}, {}]>"#, 0)]);
        let main = m.module.main().unwrap();
        assert_eq!(main.ops.len(), 1);
        assert_eq!(main.value_named("%1"), Some(main.inputs[0]));
    }
}
