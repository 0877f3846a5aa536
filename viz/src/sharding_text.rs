//! The forms in which a sharding is shown: Shardy's text, JAX's `PartitionSpec`, a phrase, a `--pin`, and the slice that a device holds.
//!
//! A sharding that does not fit its mesh or its value (a damaged or foreign plan) is shown as text and has no slices; nothing here panics on it.

use ir::op::Reducer;
use ir::{AxisId, Mesh, Sharding};

/// `PartitionSpec('x', None, ('y', 'z'), unreduced={'w'})`.
pub(crate) fn partition_spec(sharding: &Sharding, mesh: &Mesh) -> String {
    let name = |a: &AxisId| format!("'{}'", axis_name(mesh, *a));
    let mut parts: Vec<String> = sharding
        .dims
        .iter()
        .map(|axes| match axes.as_slice() {
            [] => "None".into(),
            [one] => name(one),
            many => format!("({})", many.iter().map(name).collect::<Vec<_>>().join(", ")),
        })
        .collect();
    if !sharding.partial.is_empty() {
        parts.push(format!("unreduced={{{}}}", sharding.partial.iter().map(|(a, _)| name(a)).collect::<Vec<_>>().join(", ")));
    }
    format!("PartitionSpec({})", parts.join(", "))
}

/// The axis's name; `mb` for the axis in time, `?` for one that the mesh lacks.
pub(crate) fn axis_name(mesh: &Mesh, axis: AxisId) -> String {
    match mesh.axes.get(axis.0 as usize) {
        Some(a) => a.name.clone(),
        None if axis == AxisId::MICROBATCH => "mb".into(),
        None => "?".into(),
    }
}

/// In words: `dimension 0 cut in 2 over "x"; a partial sum over "y"`.
pub(crate) fn phrase(sharding: &Sharding, mesh: &Mesh) -> String {
    let quoted = |axes: &[AxisId]| axes.iter().map(|&a| format!("\"{}\"", axis_name(mesh, a))).collect::<Vec<_>>().join(" and ");
    let mut parts = Vec::new();
    for (d, axes) in sharding.dims.iter().enumerate().filter(|(_, axes)| !axes.is_empty()) {
        parts.push(format!("dimension {d} cut in {} over {}", ways(axes, mesh).unwrap_or(0), quoted(axes)));
    }
    if let Some((_, reducer)) = sharding.partial.first() {
        let axes: Vec<AxisId> = sharding.partial.iter().map(|p| p.0).collect();
        parts.push(format!("a partial {} over {}", reducer_noun(*reducer), quoted(&axes)));
    }
    if parts.is_empty() { "whole on every device".into() } else { parts.join("; ") }
}

fn reducer_noun(reducer: Reducer) -> &'static str {
    match reducer {
        Reducer::Add => "sum",
        Reducer::Mul => "product",
        Reducer::Max => "maximum",
        Reducer::Min => "minimum",
        Reducer::And => "and",
        Reducer::Or => "or",
        Reducer::Xor => "exclusive or",
        Reducer::Replace | Reducer::General => "result",
    }
}

/// `--pin '%51=[{"x"}, {}]'`, quoted for a POSIX shell; none for a partial, which cannot be pinned, or a value without a name.
pub(crate) fn pin(value: &str, sharding: &Sharding, mesh: &Mesh) -> Option<String> {
    if value.is_empty() || !sharding.partial.is_empty() || !fits(sharding, mesh, sharding.dims.len()) {
        return None;
    }
    Some(format!("--pin {}", shell_quote(&format!("{value}={}", sharding.display(mesh)))))
}

fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Into how many blocks `axes` cut; none when the mesh lacks one of them.
pub(crate) fn ways(axes: &[AxisId], mesh: &Mesh) -> Option<u64> {
    axes.iter().try_fold(1u64, |n, a| n.checked_mul(u64::from(mesh.axes.get(a.0 as usize)?.size)))
}

/// Whether a sharding is one of a value of that rank on that mesh.
pub(crate) fn fits(sharding: &Sharding, mesh: &Mesh, rank: usize) -> bool {
    let axes = sharding.axes();
    sharding.dims.len() == rank && axes.iter().all(|a| mesh.axes.get(a.0 as usize).is_some_and(|x| x.size > 0)) && axes.windows(2).all(|w| w[0] != w[1])
}

/// The elements a device holds, per dimension: from, to (cut at the value's end), and how many of its block's entries are padding.
pub(crate) fn slice(shape: &[u64], sharding: &Sharding, mesh: &Mesh, device: u32) -> Option<Vec<(u64, u64, u64)>> {
    if !fits(sharding, mesh, shape.len()) {
        return None;
    }
    let dims = shape.iter().zip(&sharding.dims).map(|(&n, axes)| {
        let block = n.div_ceil(ways(axes, mesh)?);
        let start = u64::from(mesh.linear_coordinate(device, axes)).checked_mul(block)?;
        let (from, to) = (start.min(n), start.saturating_add(block).min(n));
        Some((from, to, block - (to - from)))
    });
    dims.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_sharding() {
        let mesh = Mesh::new(&[2, 4]);
        let mut s = Sharding::replicated(3).with_dim(0, AxisId(0)).with_dim(2, AxisId(1));
        assert_eq!(partition_spec(&s, &mesh), "PartitionSpec('x', None, 'y')");
        assert_eq!(phrase(&s, &mesh), "dimension 0 cut in 2 over \"x\"; dimension 2 cut in 4 over \"y\"");
        assert_eq!(pin("%5", &s, &mesh).as_deref(), Some("--pin '%5=[{\"x\"}, {}, {\"y\"}]'"));
        assert_eq!(pin("it's", &s, &mesh).as_deref(), Some("--pin 'it'\\''s=[{\"x\"}, {}, {\"y\"}]'"));
        s.dims[2].clear();
        s.partial.push((AxisId(1), Reducer::Add));
        assert_eq!(partition_spec(&s, &mesh), "PartitionSpec('x', None, None, unreduced={'y'})");
        assert_eq!(pin("%5", &s, &mesh), None);
        assert_eq!(phrase(&Sharding::replicated(1), &mesh), "whole on every device");
    }

    #[test]
    fn slices_end_at_the_value_s_end() {
        let mesh = Mesh::new(&[4]);
        let s = Sharding::replicated(1).with_dim(0, AxisId(0));
        let all: Vec<_> = (0..4).map(|d| slice(&[5], &s, &mesh, d).expect("it fits")[0]).collect();
        assert_eq!(all, [(0, 2, 0), (2, 4, 0), (4, 5, 1), (5, 5, 2)]);
        assert_eq!(slice(&[5, 5], &s, &mesh, 0), None);
        assert_eq!(slice(&[5], &Sharding::replicated(1).with_dim(0, AxisId(9)), &mesh, 0), None);
    }
}
