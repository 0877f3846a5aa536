//! Where diverged lanes meet again: the immediate post-dominator of each branch.
//!
//! Basic blocks are numbered backwards from the end, and post-dominators found by iteration over the reversed graph (Cooper, Harvey and Kennedy, "A Simple,
//! Fast Dominance Algorithm"). Blocks that cannot reach the end meet nowhere,
//! and where an entry returns, the end is what returns: a path that leaves otherwise is no reason not to meet before.

use crate::code::{Instr, NOWHERE, Op};

/// Sets the meeting place of every branch.
pub(crate) fn meet(code: &mut [Instr]) {
    let n = code.len();
    let mut leads = vec![false; n + 1];
    leads[0] = true;
    for (i, instr) in code.iter().enumerate() {
        match &instr.op {
            Op::Branch { target, .. } => {
                leads[*target as usize] = true;
                leads[i + 1] = true;
            }
            Op::Switch { targets, .. } => {
                targets.iter().for_each(|t| leads[*t as usize] = true);
                leads[i + 1] = true;
            }
            Op::Exit | Op::Leave | Op::Trap => leads[i + 1] = true,
            _ => {}
        }
    }
    let starts: Vec<usize> = (0..n).filter(|&i| leads[i]).collect();
    let mut block_of = vec![0; n];
    for (b, &start) in starts.iter().enumerate() {
        let end = starts.get(b + 1).copied().unwrap_or(n);
        block_of[start..end].fill(b);
    }
    let exit = starts.len();
    // Every entry ends in an exit of its own, behind its text.
    let returns = code[..n - 1].iter().any(|i| matches!(i.op, Op::Exit));
    let successors: Vec<Vec<usize>> = (0..exit)
        .map(|b| {
            let last = starts.get(b + 1).copied().unwrap_or(n) - 1;
            let mut to = Vec::new();
            let instr = &code[last];
            let mut go = |at: u32| to.push(block_of.get(at as usize).copied().unwrap_or(exit));
            match &instr.op {
                Op::Branch { target, .. } => go(*target),
                Op::Switch { targets, .. } => targets.iter().for_each(|t| go(*t)),
                Op::Leave | Op::Trap if returns => {}
                Op::Exit | Op::Leave | Op::Trap => go(n as u32),
                _ => go(last as u32 + 1),
            }
            // What a guard leaves out goes on.
            if instr.guard.is_some() && matches!(instr.op, Op::Branch { .. } | Op::Switch { .. } | Op::Exit | Op::Leave | Op::Trap) {
                go(last as u32 + 1);
            }
            to
        })
        .collect();
    let above = post_dominators(&successors);
    for b in 0..exit {
        let last = starts.get(b + 1).copied().unwrap_or(n) - 1;
        let place = above[b].filter(|&d| d != exit).map_or(NOWHERE, |d| starts[d] as u32);
        if let Op::Branch { meet, .. } | Op::Switch { meet, .. } = &mut code[last].op {
            *meet = place;
        }
    }
}

/// For each block the nearest that every path from it to the end (the number past the last block) goes through.
fn post_dominators(successors: &[Vec<usize>]) -> Vec<Option<usize>> {
    let exit = successors.len();
    let mut predecessors = vec![Vec::new(); exit + 1];
    for (b, to) in successors.iter().enumerate() {
        to.iter().for_each(|&t| predecessors[t].push(b));
    }
    // Postorder of the reversed graph.
    let mut order = Vec::new();
    let mut number = vec![usize::MAX; exit + 1];
    let mut seen = vec![false; exit + 1];
    let mut stack = vec![(exit, 0)];
    seen[exit] = true;
    while let Some((b, next)) = stack.pop() {
        if let Some(&p) = predecessors[b].get(next) {
            stack.push((b, next + 1));
            if !seen[p] {
                seen[p] = true;
                stack.push((p, 0));
            }
        } else {
            number[b] = order.len();
            order.push(b);
        }
    }
    let mut above: Vec<Option<usize>> = vec![None; exit + 1];
    above[exit] = Some(exit);
    let common = |above: &[Option<usize>], mut a: usize, mut b: usize| {
        while a != b {
            while number[a] < number[b] {
                a = above[a].unwrap_or(exit);
            }
            while number[b] < number[a] {
                b = above[b].unwrap_or(exit);
            }
        }
        a
    };
    let mut changed = true;
    while changed {
        changed = false;
        for &b in order.iter().rev().filter(|&&b| b != exit) {
            let found = successors[b].iter().copied().filter(|&s| above[s].is_some()).reduce(|a, s| common(&above, a, s));
            if found != above[b] {
                above[b] = found;
                changed = true;
            }
        }
    }
    above.truncate(exit);
    above
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_meet_behind_what_they_part() {
        // 0 → {1, 2} → 3 → {0, 4}, and 4 ends; 5 loops alone.
        let successors = [vec![1, 2], vec![3], vec![3], vec![0, 4], vec![6], vec![5]];
        assert_eq!(post_dominators(&successors), [Some(3), Some(3), Some(3), Some(4), Some(6), None]);
    }

    #[test]
    fn nested_and_early_exits() {
        // 0 → {1, 4}, 1 → {2, 3}, 2 → 3, 3 → 4; with 5 = end. And a block that may end itself.
        assert_eq!(post_dominators(&[vec![1, 4], vec![2, 3], vec![3], vec![4], vec![5]]), [Some(4), Some(3), Some(3), Some(4), Some(5)]);
        assert_eq!(post_dominators(&[vec![1, 2], vec![3, 2], vec![3]]), [Some(3), Some(3), Some(3)]);
    }
}
