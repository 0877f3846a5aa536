//! Arguments, batches and state in safetensors files.
//!
//! Tensors are whole and named by argument number (`arg0`, `arg1`, …), so what one plan saved any other plan of the same step takes. A file is written under
//! a temporary name beside its target and renamed when it is complete and on disk.

use crate::tensor::{Arguments, Tensor};
use ir::diagnostic::nearest;
use ir::plan::Plan;
use ir::{DType, Diagnostic, Diagnostics, Result, TensorType};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file format's name of an element type, where it has one.
pub(super) fn to_file(t: DType) -> Option<Dtype> {
    Some(match t {
        DType::I1 => Dtype::BOOL,
        DType::I8 | DType::I4 | DType::I2 => Dtype::I8,
        DType::UI8 | DType::UI4 | DType::UI2 => Dtype::U8,
        DType::I16 => Dtype::I16,
        DType::UI16 => Dtype::U16,
        DType::I32 => Dtype::I32,
        DType::UI32 => Dtype::U32,
        DType::I64 => Dtype::I64,
        DType::UI64 => Dtype::U64,
        DType::BF16 => Dtype::BF16,
        DType::F16 => Dtype::F16,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::C64 => Dtype::C64,
        DType::F8E4M3FN => Dtype::F8_E4M3,
        DType::F8E5M2 => Dtype::F8_E5M2,
        DType::F8E8M0FNU => Dtype::F8_E8M0,
        _ => return None,
    })
}

/// The element type of a tensor in a file; `hint` is what the step takes, where the file cannot tell types apart.
pub(super) fn from_file(t: Dtype, hint: Option<DType>) -> Option<DType> {
    let found = match t {
        Dtype::BOOL => DType::I1,
        Dtype::I8 => DType::I8,
        Dtype::U8 => DType::UI8,
        Dtype::I16 => DType::I16,
        Dtype::U16 => DType::UI16,
        Dtype::I32 => DType::I32,
        Dtype::U32 => DType::UI32,
        Dtype::I64 => DType::I64,
        Dtype::U64 => DType::UI64,
        Dtype::BF16 => DType::BF16,
        Dtype::F16 => DType::F16,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::C64 => DType::C64,
        Dtype::F8_E4M3 => DType::F8E4M3FN,
        Dtype::F8_E5M2 => DType::F8E5M2,
        Dtype::F8_E8M0 => DType::F8E8M0FNU,
        _ => return None,
    };
    Some(hint.filter(|h| to_file(*h) == Some(t)).unwrap_or(found))
}

/// The types a plan's step takes.
pub fn argument_types(plan: &Plan) -> Vec<TensorType> {
    plan.source.main().map(|g| g.inputs.iter().map(|v| g.ty(*v).clone()).collect()).unwrap_or_default()
}

/// Reads `arg0`, `arg1`, … of a file; other names are warned of.
///
/// A tensor that differs from its argument in dimensions of extent 1 only (NumPy's contiguous scalars have one) takes the argument's shape.
///
/// # Errors
/// `E0630` a file that cannot be read, `E0631` one that is not safetensors or is damaged.
pub fn read(path: &Path, types: &[TensorType]) -> Result<(Arguments, Vec<Diagnostic>)> {
    let (mut arguments, notes) = read_as_stored(path, types)?;
    let extents = |t: &TensorType| t.shape.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
    for (i, tensor) in &mut arguments {
        let ty = &types[*i as usize];
        if tensor.ty != *ty && tensor.ty.dtype == ty.dtype && extents(&tensor.ty) == extents(ty) {
            *tensor = Arc::new(Tensor { ty: ty.clone(), bytes: tensor.bytes.clone() });
        }
    }
    Ok((arguments, notes))
}

/// Reads arguments in the shapes that the file has.
fn read_as_stored(path: &Path, types: &[TensorType]) -> Result<(Arguments, Vec<Diagnostic>)> {
    let bytes = read_file(path)?;
    let damaged = |e: String| {
        let d = Diagnostic::input("E0631", format!("{} is not a whole safetensors file: {e}", path.display()));
        d.with_help("arguments are read from `.safetensors` files, as `run --save` writes them; copy or write this one again")
    };
    let file = SafeTensors::deserialize(&bytes).map_err(|e| damaged(e.to_string()))?;
    let known: Vec<String> = (0..types.len()).map(|i| format!("arg{i}")).collect();
    let (mut arguments, mut notes, mut errors) = (Arguments::new(), Vec::new(), Vec::new());
    let mut tensors = file.tensors();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, view) in &tensors {
        let Some(i) = known.iter().position(|k| k == name) else {
            let d = Diagnostic::warning("W0602", format!("{} holds `{name}`, which is no argument of the step", path.display()));
            notes.push(match nearest(name, known.iter().map(String::as_str)) {
                Some(n) => d.with_help(format!("did you mean `{n}`?")),
                None => d.with_note(format!("arguments are named arg0 to arg{}", types.len().saturating_sub(1))),
            });
            continue;
        };
        match from_file(view.dtype(), Some(types[i].dtype)) {
            Some(dtype) => {
                let shape: Vec<u64> = view.shape().iter().map(|n| *n as u64).collect();
                match Tensor::new(TensorType::new(dtype, shape), view.data().to_vec()) {
                    Some(t) => drop(arguments.insert(i as u32, Arc::new(t))),
                    None => errors.push(damaged(format!("`{name}` has another length than its shape says"))),
                }
            }
            None => errors.push(damaged(format!("`{name}` is of type {:?}", view.dtype()))),
        }
    }
    if errors.is_empty() { Ok((arguments, notes)) } else { Err(Diagnostics(errors)) }
}

const STACKED: &str = "stack the batches of all steps along a new first dimension, under the names of their arguments";

/// What may help when a file cannot be written.
fn unwritable(path: &Path, e: &std::io::Error) -> Diagnostic {
    let help = match e.kind() {
        std::io::ErrorKind::NotFound => "make its folder first, or name another file",
        std::io::ErrorKind::StorageFull => "free space on its disk, or name a file on another one",
        std::io::ErrorKind::IsADirectory => "name a file, not a folder",
        _ => "name another file, or see that its folder may be written",
    };
    Diagnostic::input("E0633", format!("{} cannot be written: {e}", path.display())).with_help(help)
}

/// Batches of a file: each tensor has a leading dimension of steps, the same for all.
#[derive(Clone, Debug)]
pub struct Batches {
    arguments: Arguments,
    steps: u64,
}

impl Batches {
    /// Reads a file of batches.
    ///
    /// # Errors
    /// As [`read`], and `E0632` when leading dimensions are missing, zero or differ.
    pub fn read(path: &Path, types: &[TensorType]) -> Result<(Batches, Vec<Diagnostic>)> {
        let (arguments, notes) = read_as_stored(path, types)?;
        let mut steps = None;
        for (i, t) in &arguments {
            let Some(&n) = t.ty.shape.first().filter(|n| **n > 0) else {
                return Err(Diagnostic::input("E0632", format!("arg{i} of {} has no dimension of steps: it is {}", path.display(), t.ty))
                    .with_note(format!("each step takes {}", types[*i as usize]))
                    .with_help(STACKED)
                    .into());
            };
            if *steps.get_or_insert(n) != n {
                return Err(Diagnostic::input(
                    "E0632",
                    format!("the tensors of {} have different numbers of steps: {} and {n}", path.display(), steps.unwrap_or(0)),
                )
                .with_help(STACKED)
                .into());
            }
        }
        let steps = steps.ok_or_else(|| Diagnostic::input("E0632", format!("{} holds no argument of the step", path.display())).with_help(STACKED))?;
        Ok((Batches { arguments, steps }, notes))
    }
    /// How many steps it has batches for.
    pub fn steps(&self) -> u64 {
        self.steps
    }
    /// The batch of a step; after the last the first follows.
    pub fn batch(&self, step: u64) -> Arguments {
        let slice = |t: &Tensor| {
            let ty = TensorType::new(t.ty.dtype, &t.ty.shape[1..]);
            let n = ty.bytes() as usize;
            let start = (step % self.steps) as usize * n;
            Arc::new(Tensor { bytes: t.bytes[start..start + n].to_vec(), ty })
        };
        self.arguments.iter().map(|(i, t)| (*i, slice(t))).collect()
    }
}

/// Writes whole tensors under their argument names.
///
/// # Errors
/// `E0633` when the file cannot be written, `E0634` when an element type has no name in the format.
pub fn write(path: &Path, arguments: &Arguments) -> Result<()> {
    let mut views = Vec::new();
    for (i, t) in arguments {
        let view = to_file(t.ty.dtype).and_then(|d| TensorView::new(d, t.ty.shape.iter().map(|n| *n as usize).collect(), &t.bytes).ok());
        let view = view.ok_or_else(|| Diagnostic::outcome("E0634", format!("arg{i} of type {} cannot be saved as safetensors", t.ty.dtype)))?;
        views.push((format!("arg{i}"), view));
    }
    let bytes = safetensors::serialize(views, None).map_err(|e| Diagnostic::outcome("E0633", format!("{} cannot be written: {e}", path.display())))?;
    write_atomically(path, &bytes)
}

/// Writes a file under a temporary name beside it, and renames it when all is on disk.
///
/// # Errors
/// `E0633` when that fails; the temporary file is then removed.
///
/// A link is followed, and what is no ordinary file (a device, a pipe) is written to and never replaced.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |e: std::io::Error| ir::Diagnostics::from(unwritable(path, &e));
    let path = &target(path);
    if path.exists() && !path.is_file() {
        return std::fs::OpenOptions::new().write(true).open(path).and_then(|mut f| f.write_all(bytes)).map_err(failed);
    }
    let temporary = temporary_name(path);
    let written = File::create(&temporary).and_then(|mut f| {
        f.write_all(bytes)?;
        f.sync_all()
    });
    let renamed = written.and_then(|()| std::fs::rename(&temporary, path));
    renamed.map_err(|e| {
        // Nothing more can be done when the removal fails too: the first error is the one to report.
        let _ = std::fs::remove_file(&temporary);
        failed(e)
    })
}

/// Finds out early whether a file could be written, so that no steps are lost to a wrong path.
///
/// # Errors
/// `E0633` when not.
pub fn check_writable(path: &Path) -> Result<()> {
    let temporary = temporary_name(&target(path));
    if path.exists() && !path.is_file() && !path.is_dir() {
        return Ok(());
    }
    let tried = if path.is_dir() { Err(std::io::Error::from(std::io::ErrorKind::IsADirectory)) } else { File::create(&temporary).map(drop) };
    tried.and_then(|()| std::fs::remove_file(&temporary)).map_err(|e| unwritable(path, &e).into())
}

/// Where a path leads, links followed.
fn target(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Reads an ordinary file whole.
///
/// # Errors
/// `E0630` when it cannot be read, or is no ordinary file.
pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    let failed = |e: String| Diagnostic::input("E0630", format!("{} cannot be read: {e}", path.display()));
    if path.exists() && !path.is_file() {
        let what = if path.is_dir() { "a folder" } else { "no ordinary file" };
        return Err(failed(format!("it is {what}")).with_help("name an ordinary file").into());
    }
    Ok(std::fs::read(path).map_err(|e| failed(e.to_string()).with_help("check the path, and that the file may be read"))?)
}

fn temporary_name(path: &Path) -> PathBuf {
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.safetensors");
        let types = [DType::F32, DType::I1, DType::BF16, DType::UI32, DType::I4].map(|d| TensorType::new(d, [2, 3]));
        let given: Arguments =
            types.iter().enumerate().map(|(i, ty)| (i as u32, Arc::new(Tensor { ty: ty.clone(), bytes: vec![1; ty.bytes() as usize] }))).collect();
        write(&path, &given).unwrap();
        let (read_back, notes) = read(&path, &types).unwrap();
        assert_eq!(read_back, given);
        assert!(notes.is_empty());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        let (_, notes) = read(&path, &types[..2]).unwrap();
        assert_eq!(notes.len(), 3);
        assert!(write(&folder.path().join("missing/state"), &given).is_err());
        std::fs::write(&path, b"no tensors").unwrap();
        assert_eq!(read(&path, &types).unwrap_err().0[0].code, "E0631");
    }

    #[test]
    fn batches_are_cut_by_step_and_repeat() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("batches.safetensors");
        write(&path, &Arguments::from([(1, Arc::new(Tensor::f32(&[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap()))])).unwrap();
        let types = [TensorType::new(DType::F32, [9]), TensorType::new(DType::F32, [2])];
        let (batches, _) = Batches::read(&path, &types).unwrap();
        assert_eq!(batches.steps(), 3);
        assert_eq!(batches.batch(4)[&1].values().unwrap(), [2.0, 3.0]);
        assert_eq!(batches.batch(4)[&1].ty, types[1]);
    }
}
