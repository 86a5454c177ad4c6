//! The end of what the host holds up.
//!
//! `--timeout` ends a guest wherever it is, but no call of the host: a write to a pipe that nobody
//! reads, the opening of a pipe that nobody writes to, the compilation of a large module. Belljar
//! waits a little longer for these, and then leaves without them.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::exit;

/// How much longer than the timeout a call of the host may take.
const GRACE: Duration = Duration::from_secs(1);

/// How long saying why may take: standard error may be what holds up.
const SAYING: Duration = Duration::from_millis(200);

/// A part of a run that belljar waits for no longer than `--timeout` and a second.
pub struct Overtime(Option<(Sender<()>, JoinHandle<()>)>);

impl Overtime {
    /// Starts waiting; when the time is over, says `why` and ends the process.
    pub fn watch(timeout: Option<Duration>, why: String) -> Self {
        Self(timeout.map(|timeout| {
            let (end, ended) = mpsc::channel();
            let watch = move || {
                let wait = ended.recv_timeout(timeout.saturating_add(GRACE));
                if wait == Err(RecvTimeoutError::Timeout) {
                    leave(why);
                }
            };
            (end, thread::spawn(watch))
        }))
    }
}

impl Drop for Overtime {
    /// The part came to its end. If that was too late, this waits for the process to end: nothing
    /// that comes after has begun.
    fn drop(&mut self) {
        if let Some((end, watch)) = self.0.take() {
            drop(end);
            // It does not panic.
            let _ = watch.join();
        }
    }
}

fn leave(why: String) {
    let (say, said) = mpsc::channel();
    thread::spawn(move || {
        note!("belljar: {why} (raise it with --timeout)");
        let _ = say.send(());
    });
    let _ = said.recv_timeout(SAYING);
    std::process::exit(exit::TIMED_OUT.into());
}
