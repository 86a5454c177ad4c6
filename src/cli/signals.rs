//! Signals that ask belljar to end while it writes to the disk: they wait until that is done, or
//! taken back, and then end it.
//!
//! On Windows these are Ctrl-C and `SIGTERM`, which is of the C library alone there; the end of a
//! console or of a session ends belljar at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use signal_hook::consts as signals;
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, signal_name};

#[cfg(unix)]
const ENDING: &[i32] = &[signals::SIGHUP, signals::SIGINT, signals::SIGQUIT, signals::SIGTERM];
#[cfg(not(unix))]
const ENDING: &[i32] = &[signals::SIGINT, signals::SIGTERM];

static HANDLED: OnceLock<Handled> = OnceLock::new();

struct Handled {
    /// Whether a signal ends belljar at once, as if it were not handled.
    ends: Arc<AtomicBool>,
    /// The first one that came while it did not.
    caught: Arc<AtomicUsize>,
}

/// A time in which signals do not end belljar.
pub struct Deferred(&'static Handled);

impl Deferred {
    /// Begins it.
    ///
    /// # Errors
    /// The system lets no signal be handled.
    pub fn begin() -> Result<Self> {
        if HANDLED.get().is_none() {
            let handled = Handled::new().context("cannot handle signals")?;
            // There is one thread that writes to the disk.
            let _ = HANDLED.set(handled);
        }
        let handled = HANDLED.get().context("cannot handle signals")?;
        handled.ends.store(false, Ordering::SeqCst);
        Ok(Self(handled))
    }

    /// The name of the signal that came, if one did.
    pub fn caught(&self) -> Option<&'static str> {
        signal_name(self.number()?)
    }

    fn number(&self) -> Option<i32> {
        i32::try_from(self.0.caught.load(Ordering::SeqCst)).ok().filter(|number| *number != 0)
    }

    /// Ends it: does what a signal that came would have done.
    pub fn end(self) {
        self.0.ends.store(true, Ordering::SeqCst);
        if let Some(number) = self.number() {
            // It does not come back, unless the system does not know the signal, which came from there.
            let _ = emulate_default_handler(number);
        }
    }
}

impl Handled {
    fn new() -> std::io::Result<Self> {
        let (ends, caught) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        for number in ENDING.iter().filter(|number| !is_ignored(**number)) {
            flag::register_conditional_default(*number, Arc::clone(&ends))?;
            flag::register_usize(*number, Arc::clone(&caught), number.unsigned_abs() as usize)?;
        }
        Ok(Self { ends, caught })
    }
}

/// Lets a write beyond the limit of a file's length (`ulimit -f`) be an error, and no signal.
pub fn let_long_files_be_errors() {
    // Where that cannot be had, it is a signal.
    #[cfg(unix)]
    let _ = flag::register(signals::SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Whether whoever started belljar had it ignore the signal, as `nohup` does, as far as the system says.
fn is_ignored(number: i32) -> bool {
    use crate::base::disk;
    let status = disk::read_at_most("/proc/self/status".as_ref(), 64 << 10).ok().flatten();
    let status = status.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (number - 1) & 1 == 1
}
