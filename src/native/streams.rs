//! The streams of a running program, as its parent sees them.

use std::io::{self, Read, Write};
use std::process::ChildStdin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Locks, also after a holder panicked: every change of state is complete before the next.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Written {
    Stdout,
    Stderr,
}

/// All that a program has written. The program never waits for a reader.
pub(super) struct Streams {
    state: Mutex<State>,
    changed: Condvar,
}

/// Why a program was killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CutShort {
    /// It exceeded its output limit.
    OutputLimit,
    /// Its timeout passed.
    Timeout,
}

#[derive(Default)]
struct State {
    bytes: [Vec<u8>; 2],
    is_open: [bool; 2],
    room_bytes: u64,
    is_deferred: bool,
    has_ended: bool,
    cut_short: Option<CutShort>,
    error: Option<io::Error>,
}

/// The result, besides the status.
pub(super) struct Collected {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) cut_short: Option<CutShort>,
    /// The first error of a stream.
    pub(super) error: Option<io::Error>,
}

impl Streams {
    fn with(state: State) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Streams without bytes and with room for `room_bytes` in both together.
    pub(super) fn new(is_open: [bool; 2], room_bytes: u64) -> Arc<Self> {
        Self::with(State { is_open, room_bytes, ..State::default() })
    }

    /// Closed streams with these bytes.
    pub(super) fn of(stdout: Vec<u8>, stderr: Vec<u8>) -> Arc<Self> {
        Self::with(State { bytes: [stdout, stderr], ..State::default() })
    }

    /// Streams whose bytes come when the program is waited for.
    pub(super) fn deferred() -> Arc<Self> {
        Self::with(State { is_deferred: true, ..State::default() })
    }

    /// Sets the bytes of [`Streams::deferred`].
    pub(super) fn supply(&self, stdout: Vec<u8>, stderr: Vec<u8>) {
        self.change(|state| {
            state.bytes = [stdout, stderr];
            state.is_deferred = false;
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut lock(&self.state));
        self.changed.notify_all();
        changed
    }

    /// Adds bytes; returns `false` if there is no room, or the stream is closed: what was read of a
    /// closed stream is all there is.
    pub(super) fn push(&self, which: Written, bytes: &[u8]) -> bool {
        self.change(|state| {
            if !state.is_open[which as usize] {
                return false;
            }
            let left = state.room_bytes.checked_sub(bytes.len() as u64);
            if let Some(left) = left {
                state.room_bytes = left;
                state.bytes[which as usize].extend_from_slice(bytes);
            } else {
                state.room_bytes = 0;
                state.cut_short.get_or_insert(CutShort::OutputLimit);
            }
            left.is_some()
        })
    }

    pub(super) fn close(&self, which: Written) {
        self.change(|state| state.is_open[which as usize] = false);
    }

    /// Keeps the first error.
    pub(super) fn fail(&self, error: io::Error) {
        self.change(|state| state.error.get_or_insert(error).kind());
    }

    pub(super) fn is_open(&self) -> bool {
        lock(&self.state).is_open.contains(&true)
    }

    /// Waits until both streams are closed.
    pub(super) fn wait_closed(&self) {
        let state = lock(&self.state);
        drop(self.changed.wait_while(state, |state| state.is_open.contains(&true)));
    }

    /// Notes that the program has ended.
    pub(super) fn end(&self) {
        self.change(|state| state.has_ended = true);
    }

    /// Waits for [`Streams::end`]; returns whether it came before the timeout.
    pub(super) fn ends_within(&self, timeout: Duration) -> bool {
        let state = lock(&self.state);
        let waited = self.changed.wait_timeout_while(state, timeout, |state| !state.has_ended);
        waited.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }

    /// Notes that the timeout has passed.
    pub(super) fn time_out(&self) {
        self.change(|state| *state.cut_short.get_or_insert(CutShort::Timeout));
    }

    /// Closes the streams after `grace`: a process that outlived the program may hold them.
    pub(super) fn cut_off_after(&self, grace: Duration) {
        let state = lock(&self.state);
        let open = |state: &mut State| state.is_open.contains(&true);
        drop(self.changed.wait_timeout_while(state, grace, open));
        self.change(|state| state.is_open = [false; 2]);
    }

    /// All bytes so far. The error is returned once.
    pub(super) fn collect(&self) -> Collected {
        let mut state = lock(&self.state);
        let [stdout, stderr] = state.bytes.clone();
        Collected { stdout, stderr, cut_short: state.cut_short, error: state.error.take() }
    }
}

/// Standard output or standard error of a program, read as it is written.
///
/// Unread output is kept, so that the program never waits for its reader, up to
/// [`output_bytes_max`](super::SubprocessRequest::output_bytes_max).
pub struct ChildOutput {
    streams: Arc<Streams>,
    which: Written,
    read_bytes: usize,
}

impl ChildOutput {
    pub(super) fn new(streams: &Arc<Streams>, which: Written) -> Self {
        Self { streams: Arc::clone(streams), which, read_bytes: 0 }
    }

    /// Bytes not read yet.
    pub(super) fn rest(&self) -> Vec<u8> {
        let state = lock(&self.streams.state);
        state.bytes[self.which as usize][self.read_bytes..].to_vec()
    }
}

impl Read for ChildOutput {
    /// Waits for bytes; returns 0 when all writers have closed the stream.
    ///
    /// # Errors
    /// `WouldBlock` for a module whose input is piped: it runs when it is waited for.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (at, which) = (self.read_bytes, self.which as usize);
        let state = lock(&self.streams.state);
        let is_waiting = |state: &mut State| state.is_open[which] && state.bytes[which].len() == at;
        let state = self.streams.changed.wait_while(state, is_waiting);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        if state.is_deferred {
            let why = "a module with piped input runs when it is waited for; wait for it first";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
        }
        let read = (&state.bytes[which][at..]).read(buffer)?;
        self.read_bytes += read;
        Ok(read)
    }
}

/// Bytes written to a program's standard input.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) bytes: Vec<u8>,
    /// The program stopped reading. How much it took depends on the pipe, and differs from run to
    /// run.
    pub(super) is_cut: bool,
}

/// Standard input of a program. Dropping it closes the pipe.
pub struct ChildInput {
    pipe: Option<ChildStdin>,
    sent: Arc<Mutex<Sent>>,
}

impl ChildInput {
    /// `pipe` leads to a native program; without it bytes are only kept.
    pub(super) fn new(pipe: Option<ChildStdin>) -> Self {
        Self { pipe, sent: Arc::default() }
    }

    pub(super) fn sent(&self) -> Arc<Mutex<Sent>> {
        Arc::clone(&self.sent)
    }
}

impl Write for ChildInput {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = match &mut self.pipe {
            Some(pipe) => pipe.write(buffer),
            None => Ok(buffer.len()),
        };
        let mut sent = lock(&self.sent);
        match &written {
            Ok(count) => sent.bytes.extend_from_slice(&buffer[..*count]),
            Err(error) => sent.is_cut |= error.kind() == io::ErrorKind::BrokenPipe,
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.as_mut().map_or(Ok(()), Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that outlived the program may still write: tapes must not hold less than was read.
    #[test]
    fn output_after_close_is_dropped() {
        let streams = Streams::new([true; 2], 100);
        assert!(streams.push(Written::Stdout, b"in time"));
        streams.cut_off_after(Duration::ZERO);
        assert!(!streams.push(Written::Stdout, b", late"));
        let collected = streams.collect();
        assert_eq!((collected.stdout, collected.cut_short), (b"in time".to_vec(), None));
        assert_eq!(ChildOutput::new(&streams, Written::Stdout).rest(), b"in time");
    }
}
