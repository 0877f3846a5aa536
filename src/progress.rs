//! How far a compilation is, on standard error: one line that is written over on a terminal, a line a second otherwise.

use compiler::stop::Progress;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A terminal's line is written over at most so often.
const OFTEN: Duration = Duration::from_millis(100);
/// Lines of a log come at most so often.
const SELDOM: Duration = Duration::from_secs(1);
/// Longer text could wrap, and could then not be written over.
const WIDTH: usize = 78;

/// The line; what it holds is wiped when it is dropped.
pub(crate) struct Line {
    state: Arc<Mutex<State>>,
}

struct State {
    terminal: bool,
    last: Option<(Instant, &'static str)>,
    shown: usize,
}

impl Line {
    pub(crate) fn new(terminal: bool) -> Line {
        Line { state: Arc::new(Mutex::new(State { terminal, last: None, shown: 0 })) }
    }

    /// What is told how far it is.
    pub(crate) fn watch(&self) -> Arc<dyn Fn(&Progress) + Send + Sync> {
        let state = self.state.clone();
        Arc::new(move |p| state.lock().unwrap_or_else(PoisonError::into_inner).show(p))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).write("");
    }
}

impl State {
    fn show(&mut self, p: &Progress) {
        let pause = if self.terminal { OFTEN } else { SELDOM };
        if self.last.is_some_and(|(at, phase)| phase == p.phase && at.elapsed() < pause) {
            return;
        }
        self.last = Some((Instant::now(), p.phase));
        self.write(&text(p));
    }

    fn write(&mut self, text: &str) {
        let text: String = text.chars().take(WIDTH).collect();
        let mut err = std::io::stderr().lock();
        // Nothing is left to tell when standard error is closed.
        if !self.terminal {
            if !text.is_empty() {
                let _ = writeln!(err, "{text}");
            }
            return;
        }
        let (length, shown) = (text.chars().count(), self.shown);
        let _ = write!(err, "\r{text}{:1$}\r{text}", "", shown.saturating_sub(length));
        let _ = err.flush();
        self.shown = length;
    }
}

/// `settings 12/60 · step 412 ms · sharding 39.1 ms, bound 38.9 ms, gap 0.5 %`.
fn text(p: &Progress) -> String {
    let mut text = format!("{:>9} {}", "Planning", p.phase);
    if p.of > 0 {
        text += &format!(" {}/{}", p.done, p.of);
    }
    if let Some(step) = p.step {
        text += &format!(" · step {step}");
    }
    if let Some(objective) = p.objective {
        text += &format!(" · sharding {objective}");
        if let Some(bound) = p.bound {
            let gap = (objective.0 - bound.0.max(0.0)) / objective.0.max(f64::MIN_POSITIVE);
            text += &format!(", bound {bound}, gap {:.1} %", 100.0 * gap.clamp(0.0, 1.0));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::Seconds;

    #[test]
    fn it_says_what_is_known() {
        let mut p = Progress { phase: "settings", done: 3, of: 7, ..Progress::default() };
        assert_eq!(text(&p), " Planning settings 3/7");
        p.step = Some(Seconds(0.5));
        (p.objective, p.bound) = (Some(Seconds(0.2)), Some(Seconds(0.19)));
        let told = text(&p);
        assert!(told.starts_with(" Planning settings 3/7 · step 500") && told.contains("bound 190") && told.ends_with("gap 5.0 %"), "{told}");
    }
}
