//! Figures of each step: how long every rank computed, communicated and waited, and the norms of the gradients.
//!
//! Each rank measures for itself ([`meter`](RankStep)); the session brings the ranks' figures together ([`StepFigures`]), and a [`Watch`] tells which rank departs
//! from its peers. `docs/metrics.md` says what each figure means. Nothing here writes files, but [`tensorboard`] knows their format.

mod gradients;
mod meter;
pub mod tensorboard;
mod watch;

pub use gradients::{Gradient, gradients};
pub(crate) use meter::Meter;
pub use meter::{KINDS, RankStep};
pub use watch::{Departure, Watch, What};

use crate::worker::program_of;
use ir::plan::Plan;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

thread_local! {
    static WAITED: Cell<u64> = const { Cell::new(0) };
}

/// Tells that this thread's rank waited so long for another. Transports call it where a wait was no mere look.
pub fn waited_for(time: Duration) {
    WAITED.with(|w| w.set(w.get() + time.as_nanos() as u64));
}

/// Nanoseconds that this thread has waited so far.
fn waited() -> u64 {
    WAITED.with(Cell::get)
}

/// The gradients of a whole plan, and who holds the same parts of them.
#[derive(Clone, Debug)]
pub struct Layout {
    /// For every rank its program's gradients, each with whether it counts towards the global norm and the number of its part: ranks with the same number hold
    /// the same elements.
    ranks: Vec<Vec<(bool, u64)>>,
    /// For every rank the first rank of its stage.
    stages: Vec<u32>,
    /// Results whose gradient is measured.
    measured: Vec<u32>,
}

impl Layout {
    /// Of a plan.
    pub fn new(plan: &Plan) -> Layout {
        let per_program: Vec<Vec<Gradient>> = plan.programs.iter().map(|p| gradients(p, &plan.kernels)).collect();
        // A value that several stages hold counts in the first.
        let mut home: BTreeMap<u32, usize> = BTreeMap::new();
        for (p, list) in per_program.iter().enumerate() {
            for g in list {
                home.entry(g.result).or_insert(p);
            }
        }
        let (mut ranks, mut stages) = (Vec::new(), Vec::new());
        for rank in 0..plan.ranks() {
            let Some((program, device)) = program_of(&plan.programs, rank) else { continue };
            let p = plan.programs.iter().position(|q| q.stage == program.stage).unwrap_or(0);
            let coordinates = program.mesh.coordinates(device);
            let part = |(i, g): (usize, &Gradient)| {
                let place = u64::from(program.mesh.linear_coordinate(device, &g.cut));
                (home.get(&g.result) == Some(&p) && g.counts(&coordinates), (p as u64) << 48 | (i as u64) << 24 | place)
            };
            ranks.push(per_program[p].iter().enumerate().map(part).collect());
            stages.push(program.first_rank);
        }
        Layout { ranks, stages, measured: home.into_keys().collect() }
    }
    /// The results (by number) whose gradient is measured: of a parameter, or of what an optimizer keeps of it where that is cut like the gradient.
    pub fn measured(&self) -> &[u32] {
        &self.measured
    }
    /// How many gradients are measured.
    pub fn gradients(&self) -> usize {
        self.measured.len()
    }
}

/// What all ranks measured in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepFigures {
    /// Number of the step.
    pub step: u64,
    /// Every rank's, by rank.
    pub ranks: Vec<RankStep>,
    /// The norm of every rank's gradients: of the parts it holds. None where no gradient can be read.
    pub norms: Vec<Option<f64>>,
    /// The norm of the whole gradient, each part counted once.
    pub norm: Option<f64>,
    /// Ranks whose copy of a part is not that of the first rank which holds it, bit for bit, with that rank.
    pub unlike: Vec<(u32, u32)>,
}

impl StepFigures {
    /// Puts together what the ranks measured.
    pub fn new(step: u64, layout: &Layout, ranks: Vec<RankStep>) -> StepFigures {
        let mut whole = 0.0;
        let mut first: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
        let mut unlike: Vec<(u32, u32)> = Vec::new();
        for (r, (measured, parts)) in (0u32..).zip(ranks.iter().zip(&layout.ranks)) {
            for (square, (counts, part)) in measured.squares.iter().zip(parts) {
                if *counts {
                    whole += square;
                }
                let (of, bits) = *first.entry(*part).or_insert((r, square.to_bits()));
                if bits != square.to_bits() && unlike.last() != Some(&(r, of)) {
                    unlike.push((r, of));
                }
            }
        }
        unlike.dedup_by_key(|(r, _)| *r);
        let norms = ranks.iter().map(|r| (!r.squares.is_empty()).then(|| r.squares.iter().sum::<f64>().sqrt())).collect();
        StepFigures { step, norms, norm: (layout.gradients() > 0).then(|| whole.sqrt()), unlike, ranks }
    }
}
