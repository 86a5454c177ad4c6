//! The trace: a line for every call of a guest.

use std::fmt;
use std::io::Write;

use super::Machine;
use super::limits::Limit;

/// The destination of the trace.
pub(crate) struct Trace {
    sink: Box<dyn Write + Send>,
    /// Remaining bytes.
    bytes_left: u64,
}

impl Machine {
    /// Writes a line for each call of a guest, with arguments and answer, to `sink`, up to
    /// [`crate::Limits::trace_bytes_max`].
    pub fn set_trace(&mut self, sink: Option<Box<dyn Write + Send>>) {
        let bytes_left = self.limits.trace_bytes_max;
        self.trace = sink.map(|sink| Trace { sink, bytes_left });
    }

    /// Adds a line to the trace. A failed write must not change what the guest does.
    pub(crate) fn trace_line(&mut self, line: fmt::Arguments<'_>) {
        let Some(Trace { sink, bytes_left }) = &mut self.trace else { return };
        let line = format!("{line}\n");
        if let Some(left) = bytes_left.checked_sub(line.len() as u64) {
            *bytes_left = left;
            let _ = sink.write_all(line.as_bytes());
            return;
        }
        let max = self.limits.trace_bytes_max;
        let _ = writeln!(sink, "the trace ends here: it has reached its limit of {max} bytes");
        self.trace = None;
        self.note_limit(Limit::Trace);
    }
}
