//! Checks of what a user gives as arguments, against the imported function.
//!
//! Shapes and element types must be the function's own. An index that is out of range is clamped by the ops that take it and is no error; a float that is
//! converted to an index must be a number. A missing argument is zeros, which is said; a name that is no argument is refused with the nearest one.

use crate::tensor::{Arguments, Tensor};
use ir::graph::{Def, Graph, Module};
use ir::op::{OpKind, ValueId};
use ir::plan::Plan;
use ir::{Diagnostic, Diagnostics, PrimaryMap, Result, TensorType};

/// The element types of the function's arguments.
fn inputs(plan: &Plan) -> Vec<&TensorType> {
    plan.source.main().map(|g| g.inputs.iter().map(|v| g.ty(*v)).collect()).unwrap_or_default()
}

/// Checks arguments; with `whole`, notes those that are missing.
///
/// # Errors
/// All that is wrong at once: `E0620` a wrong shape or element type, `E0621` an index that is not a number, `E0622` no such argument.
pub fn check(plan: &Plan, given: &Arguments, index_arguments: &[u32], whole: bool) -> Result<Vec<Diagnostic>> {
    let types = inputs(plan);
    let mut errors = Vec::new();
    for (&i, tensor) in given {
        match types.get(i as usize) {
            None => errors.push(Diagnostic::input("E0622", format!("there is no argument {i}")).with_note(format!(
                "the step takes {} arguments, arg0 to arg{}",
                types.len(),
                types.len().saturating_sub(1)
            ))),
            Some(ty) if **ty != tensor.ty || tensor.bytes.len() as u64 != ty.bytes() => {
                errors.push(Diagnostic::input("E0620", format!("arg{i} is {} and should be {ty}", tensor.ty)));
            }
            Some(_) if index_arguments.contains(&i) => errors.extend(not_a_number(i, tensor)),
            Some(_) => {}
        }
    }
    if !errors.is_empty() {
        return Err(Diagnostics(errors));
    }
    let missing: Vec<String> = (0..types.len() as u32).filter(|i| whole && !given.contains_key(i)).map(|i| format!("arg{i}")).collect();
    let shown = if missing.len() > 8 { format!("{}, … ({} in all)", missing[..8].join(", "), missing.len()) } else { missing.join(", ") };
    Ok(if missing.is_empty() { Vec::new() } else { vec![Diagnostic::note("N0601", format!("not given and therefore zeros: {shown}"))] })
}

fn not_a_number(i: u32, tensor: &Tensor) -> Option<Diagnostic> {
    if !tensor.ty.dtype.is_float() {
        return None;
    }
    let position = tensor.values()?.iter().position(|v| !v.is_finite())?;
    Some(
        Diagnostic::input("E0621", format!("arg{i} has a NaN or an infinity, and an index is made from it"))
            .with_note(format!("element {position}, row-major, of {}", tensor.ty))
            .with_help("give a finite number: an index out of range is clamped, one that is no number has no meaning"),
    )
}

/// The arguments whose elements become indices of gathers, scatters or dynamic slices through conversions and elementwise steps alone.
pub fn used_as_index(module: &Module) -> Vec<u32> {
    let Some(main) = module.main() else { return Vec::new() };
    flags(module, main, 0).iter().enumerate().filter(|(_, used)| **used).map(|(i, _)| i as u32).collect()
}

/// For every input of a graph whether an index is made from it. Calls deeper than any real program nests are not followed.
fn flags(module: &Module, graph: &Graph, depth: u32) -> Vec<bool> {
    let mut used: PrimaryMap<ValueId, bool> = graph.values.keys().map(|_| false).collect();
    for op in graph.ops.values().rev() {
        let mut mark: Vec<ValueId> = match &op.kind {
            OpKind::Gather(_) => op.operands[1..].to_vec(),
            OpKind::DynamicSlice { .. } => op.operands[1..].to_vec(),
            OpKind::DynamicUpdateSlice => op.operands[2..].to_vec(),
            OpKind::Scatter { .. } => op.operands.get((op.operands.len() - 1) / 2).copied().into_iter().collect(),
            OpKind::Call { callee } if depth < 64 => {
                let inside = module.function(callee).map(|f| flags(module, f, depth + 1)).unwrap_or_default();
                op.operands.iter().zip(inside).filter(|(_, used)| *used).map(|(v, _)| *v).collect()
            }
            _ => Vec::new(),
        };
        let passes = op.kind.is_elementwise()
            || matches!(
                op.kind,
                OpKind::Broadcast { .. } | OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. } | OpKind::Concatenate { .. } | OpKind::Barrier
            );
        if passes && op.results.iter().any(|r| used[*r]) {
            mark.extend(&op.operands);
        }
        for v in mark {
            used[v] = true;
        }
    }
    graph.inputs.iter().map(|v| matches!(graph.values[*v].def, Def::Input(_)) && used[*v]).collect()
}
