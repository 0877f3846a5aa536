//! Signals. Ctrl-C: the first asks for the best plan so far, the second ends the process. SIGTERM: the first asks a rank to end, the second ends it.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit code of a process that an interrupt ended, as shells give it.
const INTERRUPTED: i32 = 130;
/// And of one that was told to end.
pub(crate) const TERMINATED: i32 = 143;

/// A flag that the first Ctrl-C sets. Where no handler can be installed, Ctrl-C ends the process as usual.
pub(crate) fn wish() -> Arc<AtomicBool> {
    first(SIGINT, INTERRUPTED)
}

/// A flag that the first SIGTERM sets. Where no handler can be installed, it ends the process as usual.
pub(crate) fn end() -> Arc<AtomicBool> {
    first(SIGTERM, TERMINATED)
}

fn first(signal: i32, code: i32) -> Arc<AtomicBool> {
    let seen = Arc::new(AtomicBool::new(false));
    // Handlers run in this order: the first signal finds the flag unset and sets it, the second finds it set.
    if flag::register_conditional_shutdown(signal, code, seen.clone()).is_ok() {
        let _ = flag::register(signal, seen.clone());
    }
    seen
}
