//! Progress of long work, on standard error.

use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::message::stderr_is_terminal;

/// How long work may take before a line about it is printed where there is no terminal.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shows progress until it is dropped: on a terminal a line that disappears, in a log one line, and only
/// after a while.
pub struct Progress {
    bar: Option<ProgressBar>,
    _line: Option<LateLine>,
}

impl Progress {
    /// Shows `message`, unless `quiet`.
    pub fn start(message: String, quiet: bool) -> Self {
        if quiet {
            return Self { bar: None, _line: None };
        }
        if !stderr_is_terminal() {
            let line = LateLine::start(format!("belljar: {message}…\n"), PATIENCE, io::stderr());
            return Self { bar: None, _line: Some(line) };
        }
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner().with_style(style).with_message(message);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar: Some(bar), _line: None }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A line that is printed after a while, unless this is dropped before.
struct LateLine {
    /// Dropped to end the thread.
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LateLine {
    fn start(line: String, patience: Duration, mut to: impl Write + Send + 'static) -> Self {
        let (done, waiting) = mpsc::channel::<()>();
        let late = move || {
            if waiting.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                // Standard error may be closed.
                let _ = to.write_all(line.as_bytes());
            }
        };
        // If no thread can be started, there is no line.
        Self { done: Some(done), thread: std::thread::Builder::new().spawn(late).ok() }
    }
}

impl Drop for LateLine {
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
    fn a_line_comes_late_or_not_at_all() {
        let (to, written) = mpsc::channel();
        let late = LateLine::start("patience\n".to_owned(), Duration::ZERO, Handing(to));
        assert_eq!(written.recv(), Ok(b"patience\n".to_vec()));
        drop(late);
        assert!(written.recv().is_err(), "one line is enough");

        let (to, written) = mpsc::channel();
        drop(LateLine::start("never\n".to_owned(), Duration::MAX, Handing(to)));
        assert!(written.recv().is_err());
    }
}
