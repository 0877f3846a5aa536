//! Which rank departs from its peers.
//!
//! Peers are the ranks of the same stage, which do the same work. A rank's computing time is held against the lower median of its stage's in the same step; what counts is the
//! median of that ratio over a window of steps, so that one slow step is no spell. It departs when it is a factor above, by more than a moment, and far outside
//! what is usual in that window (median absolute deviation). A gradient's norm differs between ranks that hold different parts, by a ratio that changes
//! slowly: it is the step's ratio that is held against the window's. Copies of the same part have to agree bit for bit.
//! A spell is told when it begins, and again only after it has ended.

use super::{Layout, StepFigures};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many steps a rank is judged by.
const WINDOW: usize = 8;
/// How far above its peers a slow rank is at least.
const SLOW: f64 = 1.5;
/// And by how many nanoseconds.
const MOMENT: f64 = 1e6;
/// How far a norm moves away from its peers at least, either way.
const FACTOR: f64 = 8.0;
/// How many deviations what departs lies outside.
const DEVIATIONS: f64 = 6.0;
/// From the median absolute deviation to the standard deviation of normal values.
const TO_SIGMA: f64 = 1.4826;

/// What of a rank departs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// It computes longer.
    Computing,
    /// Its gradients' norm.
    GradientNorm,
    /// Its copy of a gradient differs from another rank's.
    GradientCopy,
}

impl What {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            What::Computing => "computing",
            What::GradientNorm => "gradient_norm",
            What::GradientCopy => "gradient_copy",
        }
    }
}

/// A rank that departs from its peers.
#[derive(Clone, Debug, PartialEq)]
pub struct Departure {
    /// Which rank.
    pub rank: u32,
    /// In what.
    pub what: What,
    /// Its figure: nanoseconds, or a norm.
    pub value: f64,
    /// What it is held against, in the same unit.
    pub usual: f64,
    /// The ranks it is held against.
    pub peers: Vec<u32>,
    /// Whether the spell begins with this step.
    pub begins: bool,
}

/// Watches a run's ranks.
#[derive(Debug)]
pub struct Watch {
    /// The ranks of each stage.
    stages: Vec<Vec<u32>>,
    /// For each rank the logarithm of its computing time over its stage's, step by step.
    computing: Vec<VecDeque<f64>>,
    /// The same of its norm.
    norms: Vec<VecDeque<f64>>,
    /// Spells under way.
    spells: BTreeSet<(u32, What)>,
}

impl Watch {
    /// For the ranks of a plan.
    pub fn new(layout: &Layout) -> Watch {
        let mut stages: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (rank, stage) in (0..).zip(&layout.stages) {
            stages.entry(*stage).or_default().push(rank);
        }
        let none = vec![VecDeque::with_capacity(WINDOW + 1); layout.stages.len()];
        Watch { stages: stages.into_values().collect(), computing: none.clone(), norms: none, spells: BTreeSet::new() }
    }

    /// Takes a step's figures in; who departs in it, by rank.
    pub fn step(&mut self, figures: &StepFigures) -> Vec<Departure> {
        let mut all = Vec::new();
        for peers in self.stages.clone().iter().filter(|p| p.len() > 1) {
            self.slow(figures, peers, &mut all);
            self.norm(figures, peers, &mut all);
        }
        for &(rank, of) in &figures.unlike {
            let norm = |r: u32| figures.norms[r as usize].unwrap_or(f64::NAN);
            all.push(Departure { rank, what: What::GradientCopy, value: norm(rank), usual: norm(of), peers: vec![of], begins: false });
        }
        let now: BTreeSet<(u32, What)> = all.iter().map(|d| (d.rank, d.what)).collect();
        all.iter_mut().for_each(|d| d.begins = !self.spells.contains(&(d.rank, d.what)));
        self.spells = now;
        all.sort_by_key(|d| (d.rank, d.what));
        all
    }

    fn slow(&mut self, figures: &StepFigures, peers: &[u32], all: &mut Vec<Departure>) {
        let time = |r: u32| figures.ranks[r as usize].computing() as f64;
        let usual = lower_median(peers.iter().map(|&r| time(r)));
        for &r in peers {
            push(&mut self.computing[r as usize], (time(r).max(1.0) / usual.max(1.0)).ln());
        }
        if self.computing[peers[0] as usize].len() < WINDOW {
            return;
        }
        let deviation = deviation(peers.iter().flat_map(|&r| self.computing[r as usize].iter().copied()));
        for &r in peers {
            let ratio = lower_median(self.computing[r as usize].iter().copied());
            let above = usual * ratio.exp();
            if ratio > SLOW.ln() && ratio > DEVIATIONS * deviation && above - usual > MOMENT {
                let peers = peers.iter().copied().filter(|p| *p != r).collect();
                all.push(Departure { rank: r, what: What::Computing, value: above, usual, peers, begins: false });
            }
        }
    }

    fn norm(&mut self, figures: &StepFigures, peers: &[u32], all: &mut Vec<Departure>) {
        let norms: Option<Vec<f64>> = peers.iter().map(|&r| figures.norms[r as usize]).collect();
        let Some(norms) = norms else { return };
        let finite: Vec<f64> = norms.iter().copied().filter(|n| n.is_finite()).collect();
        let usual = lower_median(finite.iter().copied());
        // How far the stage as a whole has moved: by what the middle one of its ranks has, whose place among them need not be the same in every step.
        let past = &self.norms;
        let middle = |r: u32| (past[r as usize].len() >= WINDOW).then(|| lower_median(past[r as usize].iter().copied()));
        let moved = |(&r, &norm): (&u32, &f64)| middle(r).filter(|_| norm.is_finite() && norm > 0.0).map(|m| norm.ln() - m);
        let moves: Vec<f64> = peers.iter().zip(&norms).filter_map(moved).collect();
        let stage = if moves.is_empty() { usual.ln() } else { lower_median(moves.into_iter()) };
        for (&r, &norm) in peers.iter().zip(&norms) {
            let others = || peers.iter().copied().filter(|p| *p != r).collect();
            if !norm.is_finite() {
                // Where nobody's is finite the step is broken, not a rank.
                if finite.len() * 2 >= norms.len() {
                    all.push(Departure { rank: r, what: What::GradientNorm, value: norm, usual, peers: others(), begins: false });
                }
                continue;
            }
            if norm <= 0.0 || !stage.is_finite() {
                continue;
            }
            let ratio = norm.ln() - stage;
            let past = &self.norms[r as usize];
            if past.len() >= WINDOW {
                let (middle, spread) = (lower_median(past.iter().copied()), deviation(past.iter().copied()));
                if (ratio - middle).abs() > FACTOR.ln().max(DEVIATIONS * spread) {
                    let usual = (stage + middle).exp();
                    all.push(Departure { rank: r, what: What::GradientNorm, value: norm, usual, peers: others(), begins: false });
                    // What departs is not what is usual.
                    continue;
                }
            }
            push(&mut self.norms[r as usize], ratio);
        }
    }
}

fn push(window: &mut VecDeque<f64>, value: f64) {
    window.push_back(value);
    if window.len() > WINDOW {
        window.pop_front();
    }
}

/// The middle value; of an even number the lower of the two, so that of two ranks the better one is the measure.
fn lower_median(values: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = values.collect();
    all.sort_unstable_by(f64::total_cmp);
    if all.is_empty() { f64::NAN } else { all[(all.len() - 1) / 2] }
}

/// A robust standard deviation.
fn deviation(values: impl Iterator<Item = f64>) -> f64 {
    let all: Vec<f64> = values.collect();
    let middle = lower_median(all.iter().copied());
    TO_SIGMA * lower_median(all.iter().map(|v| (v - middle).abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::RankStep;

    fn watch(ranks: u32) -> Watch {
        Watch::new(&Layout { ranks: vec![vec![]; ranks as usize], stages: vec![0; ranks as usize], measured: vec![] })
    }

    fn figures(times: &[u64], norms: &[f64]) -> StepFigures {
        let ranks = times.iter().map(|t| RankStep { step: *t, ..RankStep::default() }).collect();
        StepFigures { step: 0, ranks, norms: norms.iter().map(|n| Some(*n)).collect(), norm: None, unlike: vec![] }
    }

    /// Numbers that jump about between 0 and 1.
    fn noise(n: u64) -> f64 {
        (n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 40) as f64 / (1u64 << 24) as f64
    }

    #[test]
    fn a_slow_rank_is_told_once_a_spell_and_even_ranks_never() {
        for ranks in [2u64, 3, 4, 8] {
            let mut w = watch(ranks as u32);
            let mut told = Vec::new();
            for step in 0..100u64 {
                let slow = |r: u64| r == ranks - 1 && (30..50).contains(&step);
                let time = |r: u64| (10e6 * (1.0 + 0.2 * noise(step * ranks + r)) * if slow(r) { 2.0 } else { 1.0 }) as u64;
                let times: Vec<u64> = (0..ranks).map(time).collect();
                let norms: Vec<f64> = (0..ranks).map(|r| (1.0 + r as f64) * (1.0 + 0.1 * noise(step + 7 * r))).collect();
                for d in w.step(&figures(&times, &norms)) {
                    assert_eq!((d.rank, d.what), (ranks as u32 - 1, What::Computing));
                    assert!(d.value > 1.4 * d.usual && d.peers.len() as u64 == ranks - 1);
                    told.extend(d.begins.then_some(step));
                }
            }
            assert_eq!(told.len(), 1, "{ranks} ranks: {told:?}");
            assert!((32..40).contains(&told[0]), "{told:?}");
        }
    }

    #[test]
    fn one_slow_step_is_no_spell_and_a_moment_is_not_slow() {
        let mut w = watch(4);
        for step in 0..40 {
            assert_eq!(w.step(&figures(&[10_000_000, 10_000_000, if step % 10 == 9 { 90_000_000 } else { 10_000_000 }, 10_000_000], &[1.0; 4])), []);
        }
        let mut w = watch(2);
        for _ in 0..40 {
            assert_eq!(w.step(&figures(&[10_000, 30_000], &[1.0; 2])), []);
        }
    }

    #[test]
    fn a_norm_that_leaves_its_peers_is_told_at_once() {
        let mut w = watch(3);
        for step in 0..20 {
            let scale = 0.9f64.powi(step);
            assert_eq!(w.step(&figures(&[1; 3], &[scale, 30.0 * scale, 2.0 * scale])), [], "they shrink alike");
        }
        let d = w.step(&figures(&[1; 3], &[1.0, 30.0, 200.0]));
        assert_eq!((d.len(), d[0].rank, d[0].what, d[0].begins), (1, 2, What::GradientNorm, true));
        let d = w.step(&figures(&[1; 3], &[1.0, f64::NAN, 2.0]));
        assert_eq!((d.len(), d[0].rank), (1, 1));
        assert_eq!(w.step(&figures(&[1; 3], &[f64::NAN; 3])), [], "a step that is broken everywhere is no rank's fault");
    }

    #[test]
    fn copies_that_differ_are_told() {
        let layout = Layout { ranks: vec![vec![(true, 0)], vec![(false, 0)], vec![(true, 1)]], stages: vec![0; 3], measured: vec![1] };
        let of = |squares: [f64; 3]| StepFigures::new(0, &layout, squares.iter().map(|s| RankStep { squares: vec![*s], ..RankStep::default() }).collect());
        let same = of([4.0, 4.0, 5.0]);
        assert_eq!((same.norm, same.unlike.len()), (Some(3.0), 0), "each part counts once");
        let mut w = Watch::new(&layout);
        assert_eq!(w.step(&same), []);
        let d = w.step(&of([4.0, f64::from_bits(4f64.to_bits() + 1), 5.0]));
        assert_eq!((d.len(), d[0].rank, d[0].what, d[0].peers.as_slice()), (1, 1, What::GradientCopy, [0].as_slice()));
    }
}
