//! Whose reshard kept a node from the candidate that is cheapest by itself.
//!
//! For every node of a solved program the candidate with the least time of its own is compared with the chosen one, neighbour by neighbour: the reshards that
//! each would need to what the neighbour chose. Invariant: it only reads a solution; nothing is chosen here.

use super::problem::PICO;
use ir::Seconds;
use solver::{INFINITE, Problem};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node's candidate that is cheapest by itself, where another was chosen, and the neighbour that made it dearer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blame {
    /// The candidate, by its place among those that were left.
    pub candidate: usize,
    /// How much less it takes by itself than the chosen one.
    pub saves: Seconds,
    /// The neighbour, as a node of the sharding problem (inputs, then groups), whose reshards differ most.
    pub neighbour: usize,
    /// How much more those reshards take; infinite where there is no way.
    pub reshards: Seconds,
}

/// The blame of every node of a program that did not take what is cheapest by itself. `edges` join nodes of the sharding problem, `slot` says which node of
/// the program each is, `choice` is the solution.
pub(super) fn blame(problem: &Problem, edges: &[(usize, usize, Arc<[i64]>)], slot: &[u32], choice: &[u32]) -> Vec<Option<Blame>> {
    let costs = |n: usize| &problem.nodes[n].costs;
    let cheapest: Vec<usize> = (0..problem.nodes.len()).map(|n| costs(n).iter().enumerate().min_by_key(|(k, c)| (**c, *k)).map_or(0, |(k, _)| k)).collect();
    let mut more: BTreeMap<(usize, usize), i128> = BTreeMap::new();
    for (a, b, table) in edges {
        let (na, nb) = (slot[*a] as usize, slot[*b] as usize);
        let (ca, cb) = (choice[na] as usize, choice[nb] as usize);
        let width = costs(nb).len();
        let at = |i: usize, j: usize| i128::from(table[i * width + j]);
        *more.entry((na, *b)).or_default() += at(cheapest[na], cb) - at(ca, cb);
        *more.entry((nb, *a)).or_default() += at(ca, cheapest[nb]) - at(ca, cb);
    }
    let mut out: Vec<Option<Blame>> = vec![None; problem.nodes.len()];
    for ((n, neighbour), time) in more {
        let own = costs(n)[choice[n] as usize] - costs(n)[cheapest[n]];
        if own <= 0 || time <= 0 {
            continue;
        }
        let reshards = if time >= i128::from(INFINITE) { f64::INFINITY } else { time as f64 / PICO };
        if out[n].is_none_or(|known| reshards > known.reshards.0) {
            out[n] = Some(Blame { candidate: cheapest[n], saves: Seconds(own as f64 / PICO), neighbour, reshards: Seconds(reshards) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_neighbour_is_blamed() {
        let mut p = Problem::default();
        let pico = |s: f64| (s * PICO) as i64;
        // The middle node would be 2 s faster with its second candidate, but both neighbours chose their first.
        let nodes = [p.add_node(vec![0, pico(9.0)]), p.add_node(vec![pico(3.0), pico(1.0)]), p.add_node(vec![0, pico(9.0)])];
        let table = |other: f64| -> Arc<[i64]> { vec![0, pico(other), pico(other), 0].into() };
        let edges = vec![(0, 1, table(1.0)), (1, 2, table(4.0))];
        for (a, b, t) in &edges {
            p.add_edge(nodes[*a], nodes[*b], t.clone());
        }
        let found = blame(&p, &edges, &[0, 1, 2], &[0, 0, 0]);
        assert_eq!(found[0], None);
        assert_eq!(found[1], Some(Blame { candidate: 1, saves: Seconds(2.0), neighbour: 2, reshards: Seconds(4.0) }));
        // Who has what is cheapest blames nobody.
        assert_eq!(blame(&p, &edges, &[0, 1, 2], &[0, 1, 0])[1], None);
    }
}
