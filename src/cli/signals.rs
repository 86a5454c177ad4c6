//! Signals that end belljar wait while it writes to the disk, until that is complete or undone, and end the native
//! programs first.
//!
//! On Windows these are Ctrl-C and `SIGTERM`, which only the C library raises there; closing the console
//! or the session ends belljar at once.

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
    /// Whether a signal ends belljar at once, as if it had no handler.
    ends: Arc<AtomicBool>,
    /// The signal that came while `ends` was not set.
    caught: Arc<AtomicUsize>,
    /// Whether native programs may run, which get the signals first.
    #[cfg(unix)]
    has_natives: AtomicBool,
    /// How many [`Deferred`] there are.
    deferred: AtomicUsize,
}

/// From now on a signal that ends belljar ends the native programs first, which may clean up: `make` removes the
/// target that it was making. Only on Unix.
///
/// # Errors
/// The system lets no signal be handled, or has no thread for it.
#[cfg(unix)]
pub fn pass_to_natives() -> Result<()> {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    let handled = handled()?;
    if handled.has_natives.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let (mut received, sender) = UnixStream::pair().context("cannot handle signals")?;
    for number in ending() {
        signal_hook::low_level::pipe::register(number, sender.try_clone()?)?;
    }
    let pass = move || {
        while received.read_exact(&mut [0]).is_ok() {
            let Some(number) = handled.number() else { continue };
            crate::native::end_all(number);
            if handled.deferred.load(Ordering::SeqCst) == 0 {
                // This does not return: the system knows the signal.
                let _ = emulate_default_handler(number);
            }
        }
    };
    std::thread::Builder::new().spawn(pass).context("cannot handle signals")?;
    handled.ends.store(false, Ordering::SeqCst);
    Ok(())
}

/// Native programs end with belljar.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn pass_to_natives() -> Result<()> {
    Ok(())
}

fn handled() -> Result<&'static Handled> {
    if HANDLED.get().is_none() {
        let handled = Handled::new().context("cannot handle signals")?;
        // Another thread may have been first.
        let _ = HANDLED.set(handled);
    }
    HANDLED.get().context("cannot handle signals")
}

/// The signals that end belljar, and that it was not started to ignore.
fn ending() -> impl Iterator<Item = i32> {
    ENDING.iter().copied().filter(|number| !is_ignored(*number))
}

/// While this exists, signals do not end belljar.
pub struct Deferred(&'static Handled);

impl Deferred {
    /// Begins it.
    ///
    /// # Errors
    /// The system lets no signal be handled.
    pub fn begin() -> Result<Self> {
        let handled = handled()?;
        handled.deferred.fetch_add(1, Ordering::SeqCst);
        handled.ends.store(false, Ordering::SeqCst);
        Ok(Self(handled))
    }

    /// The name of the signal that came, if one did.
    pub fn caught(&self) -> Option<&'static str> {
        signal_name(self.0.number()?)
    }

    /// Ends it: a signal that came takes effect now.
    pub fn end(self) {
        self.0.deferred.fetch_sub(1, Ordering::SeqCst);
        self.0.ends.store(!self.0.has_natives(), Ordering::SeqCst);
        if let Some(number) = self.0.number() {
            // This does not return: the system knows the signal.
            let _ = emulate_default_handler(number);
        }
    }
}

impl Handled {
    fn new() -> std::io::Result<Self> {
        let (ends, caught) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        for number in ending() {
            flag::register_conditional_default(number, Arc::clone(&ends))?;
            flag::register_usize(number, Arc::clone(&caught), number.unsigned_abs() as usize)?;
        }
        Ok(Self {
            ends,
            caught,
            #[cfg(unix)]
            has_natives: AtomicBool::new(false),
            deferred: AtomicUsize::new(0),
        })
    }

    fn number(&self) -> Option<i32> {
        i32::try_from(self.caught.load(Ordering::SeqCst)).ok().filter(|number| *number != 0)
    }

    #[cfg(unix)]
    fn has_natives(&self) -> bool {
        self.has_natives.load(Ordering::SeqCst)
    }

    #[cfg(not(unix))]
    fn has_natives(&self) -> bool {
        false
    }
}

/// Makes a write beyond the file size limit (`ulimit -f`) an error instead of a signal.
#[cfg_attr(unix, allow(unsafe_code, reason = "no safe function ignores a signal"))]
pub fn let_long_files_be_errors() {
    // A handler would not do: a file system that copies a file for a further name is interrupted by the signal, and the
    // system repeats the call for ever. If this fails, it remains a signal.
    // SAFETY: the signal has no handler, and is the process's own. Native programs get the default back.
    #[cfg(unix)]
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Lets signals end belljar that it was started to block: servers start `belljar runner` so, and end it by a signal.
#[cfg(feature = "remote")]
#[cfg_attr(unix, allow(unsafe_code, reason = "no safe function changes the mask of a thread"))]
pub fn unblock() {
    // SAFETY: the set is initialized before it is used, and no other thread has begun.
    #[cfg(unix)]
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for number in ENDING {
            libc::sigaddset(&raw mut set, *number);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Whether belljar was started to ignore the signal, as by `nohup`, as far as `/proc` tells.
fn is_ignored(number: i32) -> bool {
    use crate::base::disk;
    let status = disk::read_at_most("/proc/self/status".as_ref(), 64 << 10).ok().flatten();
    let status = status.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (number - 1) & 1 == 1
}
