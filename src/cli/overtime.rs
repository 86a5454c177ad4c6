//! `--timeout` for calls of the host's operating system that block.
//!
//! `--timeout` interrupts a guest anywhere, but not a blocking call: a write to a full pipe, the opening
//! of a pipe without a writer, the comparison of large files. Belljar waits a little longer for these, and
//! then exits.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::report::{Report, Status};
use super::sink::WriteOnce;
use super::text::printable;
use super::{compile, exit};
use crate::Limit;
use crate::base::ambient;

/// How much longer than the timeout a call of the host may take.
const GRACE: Duration = Duration::from_secs(1);

/// Longest time for the last message: standard error or output may be what blocks.
const SAYING: Duration = Duration::from_millis(200);

/// A part of a run that belljar waits for no longer than `--timeout` and a second.
pub struct Overtime(Option<(Sender<()>, JoinHandle<()>)>);

impl Overtime {
    /// Starts waiting. When the time is over, prints that `program` was `what`, writes the report, and
    /// ends the process.
    pub fn watch(
        timeout: Option<Duration>,
        program: &str,
        what: &'static str,
        report_to: &WriteOnce,
    ) -> Self {
        let (program, report_to) = (program.to_owned(), report_to.clone());
        Self(timeout.and_then(|timeout| {
            let (end, ended) = mpsc::channel();
            let (begun, spent_before) = (ambient::instant_now(), compile::spent());
            let watch = move || {
                loop {
                    let left = time_left(begun, spent_before, timeout);
                    match ended.recv_timeout(left) {
                        Err(RecvTimeoutError::Timeout)
                            if time_left(begun, spent_before, timeout).is_zero() =>
                        {
                            return leave(program, what, &report_to);
                        }
                        // Something was compiled meanwhile.
                        Err(RecvTimeoutError::Timeout) => {}
                        _ => return,
                    }
                }
            };
            // If no thread can be started, there is no timeout for blocking calls.
            Some((end, thread::Builder::new().spawn(watch).ok()?))
        }))
    }
}

/// How much longer a part that began at `begun` may take, without the time of compiling, and with that in which native
/// programs may clean up.
fn time_left(begun: Instant, spent_before: Duration, timeout: Duration) -> Duration {
    let compiling = compile::spent().saturating_sub(spent_before);
    let allowed = timeout.saturating_add(GRACE).saturating_add(compiling);
    let allowed = allowed.saturating_add(crate::native::clean_up_max());
    allowed.saturating_sub(ambient::elapsed_since(begun))
}

impl Drop for Overtime {
    /// Ends the wait. If the time is over, this blocks until the process ends, so that nothing after the
    /// part begins.
    fn drop(&mut self) {
        if let Some((end, watch)) = self.0.take() {
            drop(end);
            // It does not panic.
            let _ = watch.join();
        }
    }
}

fn leave(program: String, what: &'static str, report_to: &WriteOnce) {
    let (say, said) = mpsc::channel();
    let report_to = report_to.clone();
    let saying = move || {
        let why = format!("{} was {what}: timeout", printable(&program));
        complain!("belljar: {why} (raise it with --timeout)");
        let mut report = Report { status: Status::TimedOut, program, ..Report::default() };
        (report.exit_code, report.error) = (exit::TIMED_OUT, Some(why));
        report.limits_hit = vec![Limit::Timeout.name()];
        // An error cannot be reported any more.
        let _ = report_to.print(&report.to_line());
        let _ = say.send(());
    };
    if thread::Builder::new().spawn(saying).is_ok() {
        let _ = said.recv_timeout(SAYING);
    }
    std::process::exit(exit::TIMED_OUT.into());
}
