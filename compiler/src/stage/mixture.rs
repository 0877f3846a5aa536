//! Recomputation layer by layer: as few layers of every stage as fit in memory.
//!
//! Where one mode of recomputation is too large and the next fits, the first layers of each stage take the latter: their activations are the ones that live
//! longest, and by the time they are made again those of later layers are gone. How many is found by halving, in all stages at once; a stage that is too
//! large learns only of itself. Invariant: at most [`ROUNDS`] mixtures are tried, and nothing is taken that was not built and seen to fit.

use super::candidate::Candidate;
use ir::plan::Recompute;

/// How many mixtures are tried for a setting.
const ROUNDS: u32 = 5;

/// A search over mixtures of two modes.
pub(super) struct Mixture {
    less: Recompute,
    more: Recompute,
    /// Layers of every stage in order.
    layers: Vec<Vec<u32>>,
    count: usize,
    /// For every stage how many layers are known to be too few, and how many to be enough.
    bounds: Vec<(isize, isize)>,
    tried: Vec<isize>,
    round: u32,
}

impl Mixture {
    /// Mixtures of the candidate's mode, which fits, and `less`, which does not; none when they are the same.
    pub(super) fn between(fitting: &Candidate, less: Recompute) -> Mixture {
        let more = fitting.setting.recompute;
        let mut layers = vec![Vec::new(); fitting.setting.stages as usize];
        for (piece, &(first, end)) in fitting.cuts.iter().enumerate() {
            layers[piece % fitting.setting.stages as usize].extend(first..end);
        }
        let bounds: Vec<(isize, isize)> = layers.iter().map(|l| (-1, l.len() as isize)).collect();
        let round = if less == more { ROUNDS } else { 0 };
        Mixture { less, more, count: fitting.layers.len(), layers, tried: bounds.iter().map(|b| b.1).collect(), bounds, round }
    }

    /// The modes of all layers to try now; none when it is known how many are enough.
    pub(super) fn next(&mut self) -> Option<Vec<Recompute>> {
        if self.round == ROUNDS {
            return None;
        }
        self.round += 1;
        let middle: Vec<isize> = self.bounds.iter().map(|&(few, enough)| if enough > few + 1 { (few + enough).div_euclid(2) } else { enough }).collect();
        if middle == self.tried {
            return None;
        }
        self.tried = middle;
        let mut modes = vec![self.less; self.count];
        for (layers, &n) in self.layers.iter().zip(&self.tried) {
            layers[..n as usize].iter().for_each(|&l| modes[l as usize] = self.more);
        }
        Some(modes)
    }

    /// Says which stages were too large with what was tried.
    pub(super) fn learn(&mut self, over: Vec<u32>) {
        for (s, (bound, &tried)) in (0..).zip(self.bounds.iter_mut().zip(&self.tried)) {
            if over.contains(&s) {
                bound.0 = tried;
            } else {
                bound.1 = bound.1.min(tried);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_finds_how_many_layers_each_stage_needs() {
        for needed in [[0, 0], [1, 3], [4, 4], [2, 0]] {
            let layers = vec![(0..4).collect(), (4..8).collect()];
            let mut m = Mixture { less: Recompute::None, more: Recompute::Full, layers, count: 8, bounds: vec![(-1, 4); 2], tried: vec![4; 2], round: 0 };
            let mut best = [4, 4];
            while let Some(modes) = m.next() {
                let full = |r: std::ops::Range<usize>| modes[r].iter().filter(|&&m| m == Recompute::Full).count();
                let counts = [full(0..4), full(4..8)];
                assert!(modes.windows(2).enumerate().all(|(i, w)| i == 3 || w[0] >= w[1]), "the first layers of a stage are made again");
                let over: Vec<u32> = (0..2).filter(|&s| counts[s as usize] < needed[s as usize]).collect();
                if over.is_empty() {
                    best = counts;
                }
                m.learn(over);
            }
            assert_eq!(best, needed);
        }
    }
}
