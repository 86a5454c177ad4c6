//! The end of what the host holds up.
//!
//! `--timeout` ends a guest wherever it is, but no call of the host: a write to a pipe that nobody
//! reads, the opening of a pipe that nobody writes to, the compilation of a large module. Belljar
//! waits a little longer for these, and then leaves without them.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use belljar::Limit;

use super::exit;
use super::report::{Report, Status, printable};
use super::sink::Once;

/// How much longer than the timeout a call of the host may take.
const GRACE: Duration = Duration::from_secs(1);

/// How long saying why may take: standard error or output may be what holds up.
const SAYING: Duration = Duration::from_millis(200);

/// A part of a run that belljar waits for no longer than `--timeout` and a second.
pub struct Overtime(Option<(Sender<()>, JoinHandle<()>)>);

impl Overtime {
    /// Starts waiting; when the time is over, says that `program` was `what`, also in the report,
    /// and ends the process.
    pub fn watch(
        timeout: Option<Duration>,
        program: &str,
        what: &'static str,
        report_to: &Once,
    ) -> Self {
        let (program, report_to) = (program.to_owned(), report_to.clone());
        Self(timeout.map(|timeout| {
            let (end, ended) = mpsc::channel();
            let watch = move || {
                let wait = ended.recv_timeout(timeout.saturating_add(GRACE));
                if wait == Err(RecvTimeoutError::Timeout) {
                    leave(program, what, &report_to);
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

fn leave(program: String, what: &'static str, report_to: &Once) {
    let (say, said) = mpsc::channel();
    let report_to = report_to.clone();
    thread::spawn(move || {
        let why = format!("{} was {what}: timeout", printable(&program));
        complain!("belljar: {why} (raise it with --timeout)");
        let mut report = Report { status: Status::TimedOut, program, ..Report::default() };
        (report.exit_code, report.error) = (exit::TIMED_OUT, Some(why));
        report.limits_hit = vec![Limit::Timeout.name()];
        // Nobody is left to tell that it cannot be written.
        let _ = report_to.print(&report.to_line());
        let _ = say.send(());
    });
    let _ = said.recv_timeout(SAYING);
    std::process::exit(exit::TIMED_OUT.into());
}
