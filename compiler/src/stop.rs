//! Ending a search before it is done, by a time limit or because the user wants what there is; and telling how far it is.
//!
//! Whatever takes long asks [`Stop::now`] between pieces of work, and hands its solves the rest of the time by [`Stop::limited`].
//! A wish to end waits until there is a plan to end with; a time limit does not.
//! Invariant: a search in which `now` never said yes and no solve was cut has the answer that it has without any limit.

use ir::{Diagnostic, Seconds};
use solver::{Options, Outcome, Status};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How far a compilation is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// What is being done: `settings`, `programs`, `code`, `plan`.
    pub phase: &'static str,
    /// How many pieces of it are done.
    pub done: usize,
    /// Of how many.
    pub of: usize,
    /// The best predicted step so far.
    pub step: Option<Seconds>,
    /// The best value of the sharding problem that is being solved.
    pub objective: Option<Seconds>,
    /// What is proven of it.
    pub bound: Option<Seconds>,
}

/// Who is told.
type Watch = Arc<dyn Fn(&Progress) + Send + Sync>;

/// When to end.
#[derive(Clone, Default)]
pub struct Stop {
    deadline: Option<Instant>,
    wish: Arc<AtomicBool>,
    /// Whether something was found that a wish to end can be answered with.
    held: Arc<AtomicBool>,
    reached: Arc<AtomicBool>,
    watch: Option<Watch>,
    at: Arc<Mutex<Progress>>,
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("deadline", &self.deadline).field("wish", &self.wish).field("reached", &self.reached).finish_non_exhaustive()
    }
}

impl Stop {
    /// Ends after a time from now, if one is given.
    pub fn after(limit: Option<Duration>) -> Stop {
        Stop { deadline: limit.and_then(|t| Instant::now().checked_add(t)), ..Stop::default() }
    }

    /// Ends when `wish` is set, too, as soon as something is found.
    #[must_use]
    pub fn or_when(mut self, wish: Arc<AtomicBool>) -> Stop {
        self.wish = wish;
        self
    }

    /// Tells `watch` how far it is.
    #[must_use]
    pub fn watched(mut self, watch: Watch) -> Stop {
        self.watch = Some(watch);
        self
    }

    /// The same with a share of the time that is left, so that something is left for what follows.
    #[must_use]
    pub fn share(&self, share: f64) -> Stop {
        let now = Instant::now();
        let deadline = self.deadline.map(|d| now + d.saturating_duration_since(now).mul_f64(share.clamp(0.0, 1.0)));
        Stop { deadline, ..self.clone() }
    }

    /// The same for work without which there would be no plan at all: a wish to end does not end it, a time limit does.
    #[must_use]
    pub fn unless_needed(&self) -> Stop {
        Stop { wish: Arc::default(), ..self.clone() }
    }

    /// Whether to end now. A yes is remembered: the answer depends on it.
    pub fn now(&self) -> bool {
        let yes = self.wished() || self.late();
        if yes {
            self.reached.store(true, Ordering::Relaxed);
        }
        yes
    }

    fn late(&self) -> bool {
        self.deadline.is_some_and(|d| Instant::now() >= d)
    }

    /// Whether the user wants what there is, and there is something.
    fn wished(&self) -> bool {
        self.wish.load(Ordering::Relaxed) && self.held.load(Ordering::Relaxed)
    }

    /// A solve's options within the time that is left, where a second is so many units of its costs; its improvements are told.
    pub fn limited(&self, options: Options, second: f64) -> Options {
        let progress = self.watch.is_some().then(|| {
            let stop = self.clone();
            let seconds = move |x: i128| Seconds(x as f64 / second);
            let tell = move |p: &solver::Progress| stop.tell(|at| (at.objective, at.bound) = (p.objective.map(seconds), p.bound.map(seconds)));
            Arc::new(tell) as Arc<dyn Fn(&solver::Progress) + Send + Sync>
        });
        let halt = self.held.load(Ordering::Relaxed).then(|| self.wish.clone());
        Options { deadline: self.deadline, halt, progress, ..options }
    }

    /// Notes whether a solve was cut.
    pub fn note(&self, outcome: &Outcome) {
        let cut = match outcome {
            Outcome::Solved(s) => s.status == Status::Cut,
            Outcome::Infeasible(_) => false,
            Outcome::Unknown { .. } => self.wished() || self.late(),
        };
        if cut {
            self.reached.store(true, Ordering::Relaxed);
        }
    }

    /// Notes how far it is, and tells.
    pub fn tell(&self, change: impl FnOnce(&mut Progress)) {
        let Some(watch) = &self.watch else { return };
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut at);
        let now = at.clone();
        drop(at);
        watch(&now);
    }

    /// Tells that a phase of so many pieces begins.
    pub fn begin(&self, phase: &'static str, of: usize) {
        self.tell(|p| *p = Progress { phase, done: 0, of, ..p.clone() });
    }

    /// Tells that a piece of the phase is done, with the step that was found by it.
    pub fn done(&self, step: Option<Seconds>) {
        if step.is_some() {
            self.held.store(true, Ordering::Relaxed);
        }
        self.tell(|p| {
            p.done += 1;
            p.step = match (p.step, step) {
                (Some(a), Some(b)) if a.0 <= b.0 => Some(a),
                (known, new) => new.or(known),
            };
        });
    }

    /// That the plan is the best so far only.
    pub fn warning(&self) -> Option<Diagnostic> {
        let why = self.reason()?;
        let d = Diagnostic::warning("W0504", format!("the search was ended before it was done ({why}): this is the best plan it had found"));
        Some(d.with_note("the same input need not give the same plan then").with_help("compile without `--time-limit`, or with a higher one"))
    }

    /// That it ended before anything was found.
    pub fn nothing_found(&self, tried: usize, of: usize) -> Diagnostic {
        let by =
            if self.wish.load(Ordering::Relaxed) { "the search was interrupted before it had found a plan" } else { "no plan was found within the time limit" };
        Diagnostic::outcome("E0504", by)
            .with_note(format!("{tried} of {of} settings of stages, mesh and microbatches were tried"))
            .with_help("give a higher `--time-limit`, or fix `--mesh`, `--stages` or `--microbatches`")
    }

    /// What ended the search before it was done, for the plan.
    pub fn reason(&self) -> Option<String> {
        let by_wish = self.wish.load(Ordering::Relaxed);
        self.reached.load(Ordering::Relaxed).then(|| if by_wish { "interrupted".into() } else { "time limit".into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_what_has_no_limit() {
        let stop = Stop::default();
        assert!(!stop.now() && stop.reason().is_none());
    }

    #[test]
    fn what_ended_it_is_remembered() {
        let late = Stop::after(Some(Duration::ZERO));
        assert_eq!(late.reason(), None, "nobody asked yet");
        assert!(late.share(0.5).now());
        assert_eq!(late.reason().as_deref(), Some("time limit"));
        let wish = Arc::new(AtomicBool::new(false));
        let stop = Stop::after(Some(Duration::from_secs(3600))).or_when(wish.clone());
        assert!(!stop.now());
        wish.store(true, Ordering::Relaxed);
        assert!(!stop.now() && stop.reason().is_none(), "there is nothing to end with");
        stop.done(Some(Seconds(1.0)));
        assert!(stop.now() && !stop.unless_needed().now());
        assert_eq!(stop.reason().as_deref(), Some("interrupted"));
    }
}
