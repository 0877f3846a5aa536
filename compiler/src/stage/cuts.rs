//! Cutting layers into stages: the contiguous ranges whose slowest is fastest.
//!
//! Exact dynamic programming over (stages left, first layer): the pipeline's time is `(M − 1)·slowest + Σ all` (1F1B and GPipe alike), of which the sum is the
//! same for every cut but for what crosses; so the slowest stage is minimised, then the bytes that cross. Every stage gets at least one layer.

use ir::Seconds;

/// Time and crossing cost of layers.
#[derive(Clone, Debug)]
pub struct LayerCosts {
    /// Forward and backward of one microbatch, seconds, per layer.
    pub micro: Vec<f64>,
    /// Cost of cutting after each layer, seconds per microbatch.
    pub cut: Vec<f64>,
}

/// First and one past the last layer of each stage; `None` when there are fewer layers than stages.
pub fn cut(costs: &LayerCosts, stages: usize) -> Option<Vec<(u32, u32)>> {
    let layers = costs.micro.len();
    if stages == 0 || layers < stages {
        return None;
    }
    let mut prefix = vec![0.0; layers + 1];
    for l in 0..layers {
        prefix[l + 1] = prefix[l] + costs.micro[l];
    }
    // best[s][l]: layers l.. in s stages: (slowest, crossing, end of the first).
    let mut best = vec![vec![(f64::INFINITY, f64::INFINITY, 0usize); layers + 1]; stages + 1];
    best[0][layers] = (0.0, 0.0, layers);
    for s in 1..=stages {
        for l in (0..layers).rev() {
            for end in l + 1..=layers {
                let rest = best[s - 1][end];
                if rest.0.is_infinite() {
                    continue;
                }
                let crossing = if end < layers { costs.cut[end - 1] } else { 0.0 };
                let own = prefix[end] - prefix[l] + crossing;
                let candidate = (own.max(rest.0), crossing + rest.1, end);
                if (candidate.0, candidate.1) < (best[s][l].0, best[s][l].1) {
                    best[s][l] = candidate;
                }
            }
        }
    }
    let mut ranges = Vec::with_capacity(stages);
    let mut l = 0;
    for s in (1..=stages).rev() {
        let (slowest, _, end) = best[s][l];
        if slowest.is_infinite() {
            return None;
        }
        ranges.push((l as u32, end as u32));
        l = end;
    }
    Some(ranges)
}

/// How far a cut is moved when the plan tells what else it could have been.
const MOVED: usize = 2;

/// The stages with the cut before stage `s` moved a little either way, its own place among them; none for the first stage.
pub fn around(cuts: &[(usize, usize)], s: usize) -> impl Iterator<Item = Vec<(usize, usize)>> + use<> {
    let cuts = cuts.to_vec();
    let places = if s == 0 { 0..0 } else { cuts[s].0.saturating_sub(MOVED).max(cuts[s - 1].0 + 1)..(cuts[s].0 + MOVED + 1).min(cuts[s].1) };
    places.map(move |at| {
        let mut moved = cuts.clone();
        (moved[s - 1].1, moved[s].0) = (at, at);
        moved
    })
}

/// Why a cut was not taken: it and the one that was, each as the step and the time of a microbatch on the slower of the two stages.
pub fn verdict(other: (Seconds, Seconds), taken: (Seconds, Seconds)) -> String {
    let (more, pace) = (other.0.0 - taken.0.0, other.1.0 - taken.1.0);
    let slower = if pace > 1e-9 * taken.1.0 { format!("its slower stage takes {} more a microbatch", Seconds(pace)) } else { "more crosses it".into() };
    match () {
        () if more > 1e-9 * taken.0.0 => format!("slower by {}", Seconds(more)),
        () if more < -1e-9 * taken.0.0 => format!("faster by {} as stages are simulated, but {slower}", Seconds(-more)),
        () => format!("as fast, but {slower}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way to cut `layers` into `stages`.
    fn all(layers: usize, stages: usize, from: usize) -> Vec<Vec<(u32, u32)>> {
        if stages == 1 {
            return vec![vec![(from as u32, layers as u32)]];
        }
        (from + 1..=layers - (stages - 1))
            .flat_map(|end| all(layers, stages - 1, end).into_iter().map(move |rest| [vec![(from as u32, end as u32)], rest].concat()))
            .collect()
    }

    #[test]
    fn a_cut_moves_between_its_neighbours() {
        let places = |cuts: &[(usize, usize)], s| around(cuts, s).map(|c| c[s].0).collect::<Vec<_>>();
        let cuts = [(0, 1), (1, 4), (4, 12)];
        assert!(places(&cuts, 0).is_empty());
        assert_eq!(places(&cuts, 1), [1, 2, 3]);
        assert_eq!(places(&cuts, 2), [2, 3, 4, 5, 6]);
        assert!(around(&cuts, 2).all(|c| c[1].1 == c[2].0 && c[0] == cuts[0]));
    }

    #[test]
    fn no_cut_is_better() {
        let mut x = 7u64;
        let mut random = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 40) as f64 / 1e6
        };
        for layers in 1..8 {
            let costs = LayerCosts { micro: (0..layers).map(|_| random()).collect(), cut: (0..layers).map(|_| random() / 10.0).collect() };
            for stages in 1..=layers {
                let slowest = |ranges: &[(u32, u32)]| {
                    ranges
                        .iter()
                        .map(|&(a, b)| {
                            costs.micro[a as usize..b as usize].iter().sum::<f64>() + if (b as usize) < layers { costs.cut[b as usize - 1] } else { 0.0 }
                        })
                        .fold(0.0, f64::max)
                };
                let found = cut(&costs, stages).expect("enough layers");
                let best = all(layers, stages, 0).iter().map(|r| slowest(r)).fold(f64::INFINITY, f64::min);
                assert!((slowest(&found) - best).abs() < 1e-12);
            }
            assert_eq!(cut(&costs, layers + 1), None);
        }
    }
}
