//! Ctrl-C: the first asks for the best plan so far, the second ends the process.

use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit code of a process that an interrupt ended, as shells give it.
const INTERRUPTED: i32 = 130;

/// A flag that the first Ctrl-C sets. Where no handler can be installed, Ctrl-C ends the process as usual.
pub(crate) fn wish() -> Arc<AtomicBool> {
    let wish = Arc::new(AtomicBool::new(false));
    // Handlers run in this order: the first signal finds the flag unset and sets it, the second finds it set.
    if flag::register_conditional_shutdown(SIGINT, INTERRUPTED, wish.clone()).is_ok() {
        let _ = flag::register(SIGINT, wish.clone());
    }
    wish
}
