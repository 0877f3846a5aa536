//! Layers by name: a traced model says where its repeated blocks begin.
//!
//! A value made in the scope `layers.3` is called `layers.3/…` (`decoder.layers.3/…` in a model of two stacks). Such a block is a layer; what comes before the
//! first, between two stacks, and after the last is told apart by the first part of its name. Ops without a name of their own stay with what precedes them.

use ir::graph::Graph;
use ir::{OpId, SecondaryMap};
use std::collections::BTreeSet;

/// The block that a name belongs to: up to the number of its layer, else its first part.
pub(super) fn block(name: &str) -> Option<&str> {
    let first = name.split('/').next().filter(|f| f.len() < name.len())?;
    let mut end = 0;
    let mut best = first;
    for part in name.split('/') {
        end += part.len();
        if number(part).is_some() {
            best = &name[..end];
            break;
        }
        end += 1;
    }
    Some(best)
}

/// The number of `layers.3`, or of anything that ends in `layers.3`.
pub(super) fn number(part: &str) -> Option<u32> {
    let (head, digits) = part.rsplit_once('.')?;
    (head == "layers" || head.ends_with(".layers")).then(|| digits.parse().ok()).flatten()
}

/// For every op of a list in graph order the number of its block; none unless at least two numbered blocks follow each other.
pub(super) fn segments(graph: &Graph, list: &[OpId]) -> Option<Vec<u32>> {
    let mut names: SecondaryMap<OpId, Option<String>> = SecondaryMap::new();
    for &id in list {
        names[id] = graph.ops[id].results.first().and_then(|&r| block(&graph.display_name(r)).map(str::to_owned));
    }
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut current: Option<&str> = None;
    let mut of = Vec::with_capacity(list.len());
    let mut numbered = 0;
    for &id in list {
        if let Some(own) = names[id].as_deref().filter(|own| current != Some(own)) {
            // A block that is entered again (a shared head, a residual of an earlier block) is no sequence.
            if !seen.insert(own) {
                return None;
            }
            numbered += u32::from(own.rsplit('/').next().and_then(number).is_some());
            current = Some(own);
        }
        of.push(seen.len().saturating_sub(1) as u32);
    }
    (numbered >= 2).then_some(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_at_their_number() {
        assert_eq!(block("layers.3/attention/q"), Some("layers.3"));
        assert_eq!(block("decoder.layers.11/mlp"), Some("decoder.layers.11"));
        assert_eq!(block("model/layers.0/x"), Some("model/layers.0"));
        assert_eq!(block("embed/tokens"), Some("embed"));
        assert_eq!(block("%12"), None);
        assert_eq!(number("layers.x"), None);
    }
}
