//! A sharding drawn with characters: the tiles of up to two dimensions, each with the devices that hold it.
//!
//! Dimensions that are cut are drawn first; with more than two cut, the others are shown at their first block and named below.

use crate::sharding_text as text;
use ir::{Mesh, Sharding};

/// Wider or taller grids are described, not drawn.
const MOST_TILES: u64 = 8;

/// The drawing, one line each; empty for scalars and for shardings that do not fit.
pub(crate) fn tiles(shape: &[u64], sharding: &Sharding, mesh: &Mesh, devices: &[u32]) -> Vec<String> {
    if shape.is_empty() || shape.contains(&0) || !text::fits(sharding, mesh, shape.len()) {
        return Vec::new();
    }
    let cut: Vec<usize> = (0..shape.len()).filter(|&d| !sharding.dims[d].is_empty()).collect();
    let (row, column) = match cut.as_slice() {
        [] | [_] if shape.len() == 1 => (None, 0),
        [] => (Some(shape.len() - 2), shape.len() - 1),
        [one] if *one == shape.len() - 1 => (Some(one - 1), *one),
        [one] => (Some(*one), shape.len() - 1),
        [a, b, ..] => (Some(*a), *b),
    };
    let blocks = |d: usize| text::ways(&sharding.dims[d], mesh).unwrap_or(1);
    let (rows, columns) = (row.map_or(1, blocks), blocks(column));
    if rows > MOST_TILES || columns > MOST_TILES {
        return vec![format!("  {rows} by {columns} tiles, too many to draw")];
    }
    let cells: Vec<Vec<String>> = (0..rows)
        .map(|r| {
            (0..columns)
                .map(|c| {
                    let held: Vec<u32> = (0..mesh.devices())
                        .filter(|&d| {
                            (0..shape.len()).all(|dim| {
                                let at = u64::from(mesh.linear_coordinate(d, &sharding.dims[dim]));
                                at == if Some(dim) == row {
                                    r
                                } else if dim == column {
                                    c
                                } else {
                                    0
                                }
                            })
                        })
                        .map(|d| devices.get(d as usize).copied().unwrap_or(d))
                        .collect();
                    let padded = [row.map(|d| (d, r)), Some((column, c))].into_iter().flatten().any(|(d, i)| extent(shape[d], blocks(d), i).1 > 0);
                    format!("{}{}", ranges(&held), if padded { " +pad" } else { "" })
                })
                .collect()
        })
        .collect();
    let heads: Vec<String> = (0..columns).map(|c| head(shape[column], columns, c)).collect();
    let width = cells.iter().flatten().chain(&heads).map(|t| t.chars().count()).max().unwrap_or(1).max(5);
    let left: Vec<String> = (0..rows).map(|r| row.map_or_else(String::new, |d| head(shape[d], rows, r))).collect();
    let margin = left.iter().map(|t| t.chars().count()).max().unwrap_or(0);
    let axes = |d: usize| sharding.dims[d].iter().map(|&a| text::axis_name(mesh, a)).collect::<Vec<_>>().join(", ");
    let named = |d: usize| if sharding.dims[d].is_empty() { format!("dimension {d}") } else { format!("dimension {d} over {}", axes(d)) };
    let mut lines = vec![match row {
        Some(d) => format!("  rows: {}; columns: {}; in the tiles: devices", named(d), named(column)),
        None => format!("  columns: {}; in the tiles: devices", named(column)),
    }];
    let rule = |a: &str, b: &str, c: &str| format!("  {:margin$} {a}{}{c}", "", vec!["─".repeat(width + 2); columns as usize].join(b));
    lines.push(format!("  {:margin$}  {}", "", heads.iter().map(|h| format!(" {h:^width$} ")).collect::<Vec<_>>().join(" ")).trim_end().to_string());
    lines.push(rule("┌", "┬", "┐"));
    for (r, cells) in cells.iter().enumerate() {
        if r > 0 {
            lines.push(rule("├", "┼", "┤"));
        }
        lines.push(format!("  {:>margin$} │{}│", left[r], cells.iter().map(|t| format!(" {t:^width$} ")).collect::<Vec<_>>().join("│")));
    }
    lines.push(rule("└", "┴", "┘"));
    let others: Vec<String> = cut.iter().filter(|&&d| Some(d) != row && d != column).map(|&d| named(d)).collect();
    if !others.is_empty() {
        lines.push(format!("  drawn at the first block of {}", others.join(" and ")));
    }
    lines
}

/// From where to where the `i`-th of `blocks` blocks of `n` elements goes, and how much of it is padding.
fn extent(n: u64, blocks: u64, i: u64) -> ((u64, u64), u64) {
    let block = n.div_ceil(blocks);
    let (from, to) = ((i * block).min(n), ((i + 1) * block).min(n));
    ((from, to), block - (to - from))
}

fn head(n: u64, blocks: u64, i: u64) -> String {
    let ((from, to), _) = extent(n, blocks, i);
    format!("{from}:{to}")
}

/// `0-3,6`.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &n in numbers {
        match parts.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(n) => *end = n,
            _ => parts.push((n, n)),
        }
    }
    parts.iter().map(|&(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::AxisId;

    #[test]
    fn two_dimensions_over_two_axes() {
        let s = Sharding::replicated(3).with_dim(0, AxisId(0)).with_dim(2, AxisId(1));
        let drawn = tiles(&[8, 4, 6], &s, &Mesh::new(&[2, 2]), &[0, 1, 2, 3]).join("\n");
        let expected = "  rows: dimension 0 over x; columns: dimension 2 over y; in the tiles: devices
         0:3     3:6
      ┌───────┬───────┐
  0:4 │   0   │   1   │
      ├───────┼───────┤
  4:8 │   2   │   3   │
      └───────┴───────┘";
        assert_eq!(drawn, expected);
    }

    #[test]
    fn padding_and_replicas() {
        let s = Sharding::replicated(1).with_dim(0, AxisId(1));
        let drawn = tiles(&[5], &s, &Mesh::new(&[2, 2]), &[4, 5, 6, 7]).join("\n");
        assert!(drawn.contains("│   4,6    │ 5,7 +pad │"), "{drawn}");
    }

    #[test]
    fn misfits_are_not_drawn() {
        let s = Sharding::replicated(2);
        assert!(tiles(&[5], &s, &Mesh::new(&[2]), &[]).is_empty());
        assert!(tiles(&[], &Sharding::default(), &Mesh::new(&[2]), &[]).is_empty());
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
