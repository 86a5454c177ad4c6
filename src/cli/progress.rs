//! Progress of long work, on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::setup::stderr_is_terminal;

/// A line on standard error that shows that something is going on. Gone when it is dropped; not
/// there at all unless standard error is a terminal.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Shows `message` with the time it takes.
    pub fn start(message: String) -> Self {
        if !stderr_is_terminal() {
            return Self(None);
        }
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner().with_style(style).with_message(message);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(Some(bar))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
