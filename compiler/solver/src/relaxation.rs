//! A plan for any model: exact where the model is narrow, otherwise a relaxation in which some nodes are split.
//!
//! A split node has several copies, each with some of its pairs; the copies may disagree. Its own cost is shared
//! between them, plus agreement multipliers that sum to zero over the copies, so the minimum over the split network is
//! a bound on the minimum over the model, and equal to it where all copies agree. With no node split the plan is exact.

use crate::elimination::{Adjacency, Plan, Width, order};
use crate::model::{Model, Pair};
use crate::random::Random;
use crate::region::Regions;
use crate::splitting::Splitter;
use crate::state::Network;

/// A plan over copies of a model's nodes.
#[derive(Debug, Clone)]
pub(crate) struct Relaxation {
    pub plan: Plan,
    /// The copies of each node; one for most.
    pub copies: Vec<Vec<u32>>,
    /// The nodes with more than one copy.
    pub split: Vec<u32>,
    /// Sizes of the copies.
    pub sizes: Vec<usize>,
}

/// Up to this many nodes the copies are found by trying; above, by the elimination itself.
const HUB_NODES: usize = 400;
/// So many places are tried for a pair before a node is split once more.
const TRIES: usize = 8;

impl Relaxation {
    /// The exact plan, if there is one within `width`.
    pub(crate) fn exact(model: &Model, width: Width) -> Option<Relaxation> {
        let sizes: Vec<usize> = model.costs.iter().map(Vec::len).collect();
        let plan = Plan::of(&sizes, &model.pairs, width)?;
        let copies = (0..sizes.len() as u32).map(|v| vec![v]).collect();
        Some(Relaxation { plan, copies, split: Vec::new(), sizes })
    }

    /// A relaxation whose tables have at most `2^bits` entries (or as many as a single pair has).
    pub(crate) fn of(model: &Model, network: &Network, bits: f64, random: &mut Random) -> Relaxation {
        if model.costs.len() <= HUB_NODES { Relaxation::by_hubs(model, network, bits, random) } else { Splitter::new(model, bits).run(model) }
    }

    /// Splits the most entangled nodes, and merges their copies again while that stays narrow.
    fn by_hubs(model: &Model, network: &Network, bits: f64, random: &mut Random) -> Relaxation {
        let sizes: Vec<usize> = model.costs.iter().map(Vec::len).collect();
        let all: Vec<u32> = (0..sizes.len() as u32).collect();
        let free = Regions::new(&sizes).narrow(network, &all, bits, random);
        let mut is_free = vec![false; sizes.len()];
        free.iter().for_each(|&v| is_free[v as usize] = true);
        let adjacency = Adjacency::new(&sizes);
        let mut build = Build { sizes: sizes.clone(), copies: all.iter().map(|&v| vec![v]).collect(), pairs: Vec::new(), adjacency };
        let mut hub_pairs = Vec::new();
        for pair in &model.pairs {
            if is_free[pair.a as usize] && is_free[pair.b as usize] {
                build.join(pair.clone());
            } else {
                hub_pairs.push(pair);
            }
        }
        let table = bits.exp2() as u64;
        for pair in hub_pairs {
            let (left, right) = (build.copies[pair.a as usize].clone(), build.copies[pair.b as usize].clone());
            // Later copies have fewer pairs.
            let mut places = left.iter().rev().flat_map(|&a| right.iter().rev().map(move |&b| (a, b))).take(TRIES);
            let placed = places.find(|&(a, b)| build.adjacency.is_narrow_with(a, b, &build.sizes, table));
            let (a, b) = placed.unwrap_or_else(|| {
                let a = if is_free[pair.a as usize] { pair.a } else { build.copy(pair.a) };
                let b = if is_free[pair.b as usize] { pair.b } else { build.copy(pair.b) };
                (a, b)
            });
            build.join(Pair { a, b, cost: pair.cost.clone() });
        }
        let Build { sizes, copies, pairs, .. } = build;
        let open = Width { table: u64::MAX, work: u64::MAX };
        let order = order(&sizes, &pairs, open).expect("invariant: a network without limits has an order");
        let plan = Plan::along(&order, &sizes, &pairs);
        let split = copies.iter().enumerate().filter(|(_, c)| c.len() > 1).map(|(v, _)| v as u32).collect();
        Relaxation { plan, copies, split, sizes }
    }
}

struct Build {
    sizes: Vec<usize>,
    copies: Vec<Vec<u32>>,
    pairs: Vec<Pair>,
    adjacency: Adjacency,
}

impl Build {
    fn join(&mut self, pair: Pair) {
        self.adjacency.join(pair.a, pair.b);
        self.pairs.push(pair);
    }

    fn copy(&mut self, v: u32) -> u32 {
        // The first copy is used once before another is made.
        let first = self.copies[v as usize][0];
        if self.copies[v as usize].len() == 1 && !self.pairs.iter().any(|p| p.a == first || p.b == first) {
            return first;
        }
        let at = self.sizes.len() as u32;
        self.sizes.push(self.sizes[v as usize]);
        self.copies[v as usize].push(at);
        self.adjacency.push(self.sizes[v as usize]);
        at
    }
}
