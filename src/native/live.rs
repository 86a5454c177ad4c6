//! The native programs that run in this process, for the signals that end it.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The leaders of their groups that have not been reaped.
static LIVE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// The list, which stays as it is while this exists: no program begins, and the end of none is seen.
pub(super) fn list() -> MutexGuard<'static, BTreeSet<u32>> {
    // Each access is a single step, so a panic leaves it whole.
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts `command`. The program is in the list before anyone can see that it has begun.
///
/// # Errors
/// The host's error.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut live = list();
    let child = command.spawn()?;
    live.insert(child.id());
    Ok(child)
}

/// How long native programs may take to end that are asked to: nothing if there are none.
#[cfg(feature = "cli")]
pub(crate) fn clean_up_max() -> Duration {
    // Who has locked it waits for their end.
    let has_none = LIVE.try_lock().is_ok_and(|live| live.is_empty());
    if has_none { Duration::ZERO } else { CLEANING_UP_MAX }
}

/// How long a program that is asked to end has to clean up before it is killed.
pub(super) const CLEANING_UP_MAX: Duration = Duration::from_secs(2);

/// Sends the signal `number` to all native programs with their groups, and waits until they have ended, for
/// [`CLEANING_UP_MAX`] at most. Their ends are not seen by anyone else for that time: whoever waits for them is not to go on.
#[cfg(all(unix, feature = "cli"))]
pub(crate) fn end_all(number: i32) {
    use crate::base::ambient;
    use rustix::process::{Signal, kill_process_group};

    const LOOK_EVERY: Duration = Duration::from_millis(5);

    let Some(signal) = Signal::from_named_raw(number) else { return };
    let live = list();
    let programs: Vec<_> = live.iter().filter_map(|id| pid(*id)).collect();
    for program in &programs {
        // It may be a group that others may not signal.
        let _ = kill_process_group(*program, signal);
    }
    let begun = ambient::instant_now();
    while ambient::elapsed_since(begun) < CLEANING_UP_MAX
        && !programs.iter().all(|it| has_exited(*it))
    {
        ambient::sleep(LOOK_EVERY);
    }
}

/// Whether `process`, which has not been reaped, has ended.
#[cfg(all(unix, feature = "cli"))]
fn has_exited(process: rustix::process::Pid) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    !matches!(waitid(WaitId::Pid(process), options), Ok(None))
}

#[cfg(unix)]
pub(super) fn pid(id: u32) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(id.cast_signed())
}
