//! Progress of long work, on standard error.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::message::stderr_is_terminal;
use crate::base::ambient;
use crate::engine::CompileProgress;

/// How long work may take before a line about it is printed where there is no terminal.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time from one such line to the next.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Time after which the time that is left can be told.
const SURE_AFTER: Duration = Duration::from_secs(1);

/// Time to store the code of a function, about: on one processor, once all are compiled.
const STORING_TAKES: Duration = Duration::from_micros(40);

/// Interval at which work in this process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Shows progress until it is dropped: on a terminal a line that disappears, in a log a line after a while, and one
/// every ten seconds.
pub struct Progress {
    bar: Option<ProgressBar>,
    /// What the lines of a log say.
    message: Arc<Mutex<String>>,
    /// What is said once the work no longer waits.
    waiting: Mutex<Option<String>>,
    /// Whether the bar shows parts.
    has_parts: Once,
    parts: Arc<Parts>,
    _lines: Option<LateLines>,
}

/// The parts of the work, if it has told them.
#[derive(Default)]
struct Parts {
    done: AtomicU64,
    all: AtomicU64,
    /// When the first parts were told, and how many. The work may have waited before.
    first: OnceLock<(Instant, u64)>,
}

impl Progress {
    /// Shows `message`, unless `quiet`.
    pub fn start(message: String, quiet: bool) -> Self {
        let parts = Arc::<Parts>::default();
        let said = Arc::new(Mutex::new(message.clone()));
        let with = |bar, lines| Self {
            bar,
            message: said.clone(),
            waiting: Mutex::default(),
            has_parts: Once::new(),
            parts: parts.clone(),
            _lines: lines,
        };
        if quiet {
            return with(None, None);
        }
        if !stderr_is_terminal() {
            let (counts, says) = (parts.clone(), said.clone());
            let line = move || {
                // A text is complete at any time.
                let message = says.lock().unwrap_or_else(PoisonError::into_inner);
                format!("belljar: {message}…{}\n", counts.text())
            };
            return with(None, Some(LateLines::start(line, PATIENCE, LINE_EVERY, io::stderr())));
        }
        let bar = ProgressBar::new_spinner()
            .with_style(style("{spinner} {msg} {elapsed}"))
            .with_message(message);
        bar.enable_steady_tick(Duration::from_millis(100));
        with(Some(bar), None)
    }

    /// Shows `message` until the first functions are compiled.
    pub fn wait(&self, message: String) {
        let said = self.message.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(said);
        self.say(message);
    }

    /// Shows `message` from now on.
    pub fn say(&self, message: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(message.clone());
        }
        *self.message.lock().unwrap_or_else(PoisonError::into_inner) = message;
    }

    /// Shows that `done` of `all` functions are compiled.
    pub fn set(&self, done: u64, all: u64) {
        self.parts.set(done, all);
        let said = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(said) = said {
            self.say(said);
        }
        if let Some(bar) = self.bar.as_ref().filter(|_| all > 0) {
            bar.set_length(all);
            bar.set_position(done);
            self.has_parts.call_once(|| {
                bar.set_style(style(
                    "{spinner} {msg} [{wide_bar}] {human_pos}/{human_len}{prefix}",
                ));
            });
            bar.set_prefix(match self.parts.left() {
                _ if done >= all => ", storing them".to_owned(),
                Some(left) => format!(", {} s left", left.as_secs() + 1),
                None => String::new(),
            });
        }
    }

    /// Shows that `done` of `all` bytes are transferred.
    #[cfg(feature = "oci")]
    pub fn set_bytes(&self, done: u64, all: u64) {
        let Some(bar) = &self.bar else { return };
        self.has_parts.call_once(|| {
            bar.set_style(style("{spinner} {msg} [{bar:20}] {bytes}/{total_bytes}, {eta} left"));
            bar.set_length(all);
        });
        bar.set_position(done);
    }

    /// Does `work`, and shows its `progress` meanwhile.
    pub fn follow<T>(&self, progress: &CompileProgress, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let (done, waiting) = mpsc::channel::<()>();
            let show = move || {
                while waiting.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    self.set(progress.compiled(), progress.functions());
                }
            };
            // Without a thread, nothing moves.
            let _ = std::thread::Builder::new().spawn_scoped(scope, show);
            let result = work();
            drop(done);
            result
        })
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .progress_chars("=> ")
}

impl Parts {
    fn set(&self, done: u64, all: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
        if all > 0 {
            self.first.get_or_init(|| (ambient::instant_now(), done));
        }
    }

    /// Time until the code of all functions is stored, about; `None` if it is too early to tell.
    fn left(&self) -> Option<Duration> {
        let (began, first) = self.first.get()?;
        let elapsed = ambient::elapsed_since(*began);
        let (done, all) = (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        if elapsed < SURE_AFTER { None } else { time_left(*first, done, all, elapsed) }
    }

    /// How far the work is: nothing, if it has told nothing yet.
    fn text(&self) -> String {
        let (done, all) = (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        if done == 0 || done > all {
            return String::new();
        }
        if done == all {
            return format!(" all {all} functions, storing them");
        }
        let left = self.left().map(|left| format!(", about {} s left", left.as_secs() + 1));
        format!(" {done} of {all} functions{}", left.unwrap_or_default())
    }
}

/// Time that is left of work that came from `first` to `done` of `all` functions in `elapsed`; `None` if it did none.
fn time_left(first: u64, done: u64, all: u64, elapsed: Duration) -> Option<Duration> {
    let (made, missing) = (done.saturating_sub(first), all.saturating_sub(done));
    let nanos = elapsed.as_nanos().saturating_mul(missing.into()).checked_div(made.into())?;
    let storing = STORING_TAKES.saturating_mul(u32::try_from(all).unwrap_or(u32::MAX));
    Some(Duration::from_nanos(u64::try_from(nanos).ok()?).saturating_add(storing))
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Lines that are printed after a while, until this is dropped.
struct LateLines {
    /// Dropped to end the thread.
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LateLines {
    fn start(
        line: impl Fn() -> String + Send + 'static,
        patience: Duration,
        every: Duration,
        mut to: impl Write + Send + 'static,
    ) -> Self {
        let (done, waiting) = mpsc::channel::<()>();
        let late = move || {
            let mut pause = patience;
            while waiting.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                // Standard error may be closed.
                let _ = to.write_all(line().as_bytes());
                pause = every;
            }
        };
        // If no thread can be started, there is no line.
        Self { done: Some(done), thread: std::thread::Builder::new().spawn(late).ok() }
    }
}

impl Drop for LateLines {
    fn drop(&mut self) {
        self.done = None;
        // Its line must not come after the next message.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that hands on what it gets.
    struct Handing(Sender<Vec<u8>>);

    impl Write for Handing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_come_late_or_not_at_all() {
        let (to, written) = mpsc::channel();
        let short = Duration::from_millis(1);
        let late = LateLines::start(|| "patience\n".to_owned(), Duration::ZERO, short, Handing(to));
        for _ in 0..3 {
            assert_eq!(written.recv(), Ok(b"patience\n".to_vec()));
        }
        drop(late);

        let (to, written) = mpsc::channel();
        let line = || "never\n".to_owned();
        drop(LateLines::start(line, Duration::MAX, Duration::MAX, Handing(to)));
        assert!(written.recv().is_err());
    }

    #[test]
    fn lines_tell_the_functions_that_are_compiled() {
        let parts = Parts::default();
        assert_eq!(parts.text(), "");
        parts.set(50, 200);
        assert_eq!(parts.text(), " 50 of 200 functions", "it is too early to tell the time");
        parts.set(200, 200);
        assert_eq!(parts.text(), " all 200 functions, storing them");
    }

    #[test]
    fn time_left_is_that_of_the_other_functions_and_of_storing_all() {
        let seconds = Duration::from_secs;
        assert_eq!(time_left(100, 100, 25_000, seconds(3)), None);
        assert_eq!(time_left(5_000, 10_000, 25_000, seconds(3)), Some(seconds(9 + 1)));
        assert_eq!(time_left(0, 25_000, 25_000, seconds(3)), Some(seconds(1)));
    }

    #[test]
    fn work_that_waited_is_named_again_when_it_begins() {
        let progress = Progress::start("compiling cc1".to_owned(), true);
        let said = || progress.message.lock().unwrap().clone();
        progress.wait("waiting for process 7".to_owned());
        progress.wait("waiting for another process".to_owned());
        assert_eq!(said(), "waiting for another process");
        progress.set(1, 2);
        assert_eq!(said(), "compiling cc1");
    }
}
