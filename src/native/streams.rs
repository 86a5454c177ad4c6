//! What a running program reads and writes, as whoever spawned it sees that.

use std::io::{self, Read, Write};
use std::process::ChildStdin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A lock whose holder has panicked is as good as any: nothing here is half done between two steps.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of the two streams that a program writes to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Written {
    Stdout,
    Stderr,
}

/// What a program has written, all of it: whether somebody reads it or not, the program never waits.
pub(super) struct Streams {
    state: Mutex<State>,
    changed: Condvar,
}

/// Why a program was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CutShort {
    /// It wrote more than there was room for.
    OutputLimit,
    /// Its time was over.
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

/// How it went, besides the program's own status.
pub(super) struct Collected {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) cut_short: Option<CutShort>,
    /// A stream failed.
    pub(super) error: Option<io::Error>,
}

impl Streams {
    fn with(state: State) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Streams that nobody has written to, with room for `room_bytes` together; open or not.
    pub(super) fn new(is_open: [bool; 2], room_bytes: u64) -> Arc<Self> {
        Self::with(State { is_open, room_bytes, ..State::default() })
    }

    /// Streams to which everything is written.
    pub(super) fn of(stdout: Vec<u8>, stderr: Vec<u8>) -> Arc<Self> {
        Self::with(State { bytes: [stdout, stderr], ..State::default() })
    }

    /// Streams to which nothing is written before the program is waited for.
    pub(super) fn deferred() -> Arc<Self> {
        Self::with(State { is_deferred: true, ..State::default() })
    }

    /// Ends the waiting of [`Streams::deferred`].
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

    /// Adds bytes; answers whether there was room for them. There is none once the stream is closed:
    /// what has been told of it stays true.
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

    /// Nothing more comes.
    pub(super) fn close(&self, which: Written) {
        self.change(|state| state.is_open[which as usize] = false);
    }

    /// Something went wrong with a stream. The first such error is kept.
    pub(super) fn fail(&self, error: io::Error) {
        self.change(|state| state.error.get_or_insert(error).kind());
    }

    pub(super) fn is_open(&self) -> bool {
        lock(&self.state).is_open.contains(&true)
    }

    /// Waits until nothing more can be written.
    pub(super) fn wait_closed(&self) {
        let state = lock(&self.state);
        drop(self.changed.wait_while(state, |state| state.is_open.contains(&true)));
    }

    /// The program has ended.
    pub(super) fn end(&self) {
        self.change(|state| state.has_ended = true);
    }

    /// Waits for [`Streams::end`]; answers whether that came before the timeout.
    pub(super) fn ends_within(&self, timeout: Duration) -> bool {
        let state = lock(&self.state);
        let waited = self.changed.wait_timeout_while(state, timeout, |state| !state.has_ended);
        waited.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }

    /// The program's time is over.
    pub(super) fn time_out(&self) {
        self.change(|state| *state.cut_short.get_or_insert(CutShort::Timeout));
    }

    /// Closes what is still open after `grace`: somebody has left the program and kept its streams.
    pub(super) fn cut_off_after(&self, grace: Duration) {
        let state = lock(&self.state);
        let open = |state: &mut State| state.is_open.contains(&true);
        drop(self.changed.wait_timeout_while(state, grace, open));
        self.change(|state| state.is_open = [false; 2]);
    }

    /// Everything so far. An error is handed out once.
    pub(super) fn collect(&self) -> Collected {
        let mut state = lock(&self.state);
        let [stdout, stderr] = state.bytes.clone();
        Collected { stdout, stderr, cut_short: state.cut_short, error: state.error.take() }
    }
}

/// What a program writes to standard output or standard error, as it comes.
///
/// It is kept until then, so that the program never waits for its reader, within
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

    /// What is written and was not read.
    pub(super) fn rest(&self) -> Vec<u8> {
        let state = lock(&self.streams.state);
        state.bytes[self.which as usize][self.read_bytes..].to_vec()
    }
}

impl Read for ChildOutput {
    /// Waits for bytes; 0 once the program, and whoever it left its stream to, has closed it.
    ///
    /// # Errors
    /// `WouldBlock` for a module whose input is piped, before it is waited for: it runs then.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (at, which) = (self.read_bytes, self.which as usize);
        let state = lock(&self.streams.state);
        let is_waiting = |state: &mut State| state.is_open[which] && state.bytes[which].len() == at;
        let state = self.streams.changed.wait_while(state, is_waiting);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        if state.is_deferred {
            let why = "a module whose input is piped runs when it is waited for";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
        }
        let read = (&state.bytes[which][at..]).read(buffer)?;
        self.read_bytes += read;
        Ok(read)
    }
}

/// What was written to a program's standard input.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) bytes: Vec<u8>,
    /// The program stopped reading; how much it took is its pipe's business, and differs from run
    /// to run.
    pub(super) is_cut: bool,
}

/// A program's standard input; dropped, it is at its end.
pub struct ChildInput {
    pipe: Option<ChildStdin>,
    sent: Arc<Mutex<Sent>>,
}

impl ChildInput {
    /// The input of a program of the host, or, without its pipe, of one that is not running.
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

    /// Somebody who has left the program goes on writing after it was waited for: the tapes would
    /// hold less than its reader gets.
    #[test]
    fn what_is_written_after_the_end_reaches_nobody() {
        let streams = Streams::new([true; 2], 100);
        assert!(streams.push(Written::Stdout, b"in time"));
        streams.cut_off_after(Duration::ZERO);
        assert!(!streams.push(Written::Stdout, b", late"));
        let collected = streams.collect();
        assert_eq!((collected.stdout, collected.cut_short), (b"in time".to_vec(), None));
        assert_eq!(ChildOutput::new(&streams, Written::Stdout).rest(), b"in time");
    }
}
