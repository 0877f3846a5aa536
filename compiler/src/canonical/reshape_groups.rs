//! The finest way to pair runs of a reshape's operand dimensions with runs of its result dimensions.

/// Pairs of dimension lists, in order, with equal products; dimensions of size 1 are in none, so either list of a pair is empty only if the other is.
///
/// `[8, 128, 256] → [1024, 8, 32]` gives `([0, 1], [0])` and `([2], [1, 2])`.
pub fn reshape_groups(from: &[u64], to: &[u64]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut groups = Vec::new();
    if from.contains(&0) || to.contains(&0) {
        return groups;
    }
    let mut left = (0..from.len()).filter(|&d| from[d] != 1).peekable();
    let mut right = (0..to.len()).filter(|&d| to[d] != 1).peekable();
    while let (Some(a), Some(b)) = (left.next(), right.next()) {
        let (mut p, mut q) = (from[a], to[b]);
        let (mut group_a, mut group_b) = (vec![a], vec![b]);
        while p != q {
            let (side, dims, sizes, product) =
                if p < q { (&mut left as &mut dyn Iterator<Item = usize>, &mut group_a, from, &mut p) } else { (&mut right as _, &mut group_b, to, &mut q) };
            let Some(d) = side.next() else { return groups };
            dims.push(d);
            *product *= sizes[d];
        }
        groups.push((group_a, group_b));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_short_as_possible() {
        assert_eq!(reshape_groups(&[8, 128, 256], &[1024, 8, 32]), [(vec![0, 1], vec![0]), (vec![2], vec![1, 2])]);
        assert_eq!(reshape_groups(&[8, 1, 4], &[8, 4, 1]), [(vec![0], vec![0]), (vec![2], vec![1])]);
        assert_eq!(reshape_groups(&[6, 4], &[4, 6]), [(vec![0, 1], vec![0, 1])]);
        assert!(reshape_groups(&[1, 1], &[]).is_empty());
    }
}
