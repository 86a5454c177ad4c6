//! A program of the host that stands behind a process of a machine: what it writes comes piece by
//! piece, and no faster than it is taken.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::SubprocessStatus;
use super::host_pipes::{Gauge, ReadEnd, wait_readable};
use super::host_process::HostProcess;
use super::host_waits::waits_to_read;
use super::runner::end_with_this_thread;
use super::streams::lock;
use crate::base::ambient;

/// Bytes that are taken from a program at once: as many as a pipe holds.
const PIECE_BYTES: usize = 64 << 10;

/// Bytes that are written at once to a program, in one piece or not at all: what it has not read is
/// then known to the byte.
const SLICE_BYTES: usize = 4 << 10;

/// Something that the host has done.
pub(super) enum HostEvent {
    /// The bytes that were given last are taken.
    Taken,
    /// The run's standard input can be read.
    Readable,
    /// The program wrote to its standard output (1) or standard error (2).
    Output { fd: u32, bytes: Vec<u8> },
    /// It ended, and all that it wrote itself has come.
    Ended(HostEnd),
    /// Those whom it left behind can write no more.
    Closed,
    /// The host cannot say what came of it.
    Failed(String),
}

/// How a program of the host ended.
pub(super) struct HostEnd {
    /// Its exit code, if it exited.
    pub(super) exit_code: Option<u32>,
    /// The number of the signal that ended it, if one did.
    pub(super) signal: Option<u32>,
    /// The real time that it took.
    pub(super) duration_ns: u64,
    /// How many of the bytes that it was given it has not read.
    pub(super) unread_bytes: u64,
    /// Whether somebody whom it left behind can still write: [`HostEvent::Closed`] comes later.
    pub(super) left_open: bool,
}

/// How the streams of a program are connected, besides what its command says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Connected {
    /// It reads what it is given.
    pub(super) has_input: bool,
    /// Its standard error leads where its standard output does, in one order.
    pub(super) is_merged: bool,
}

/// A program that runs. Dropped, it is ended, with its group.
pub(super) struct HostChild(Arc<Shared>);

struct Shared {
    process: HostProcess,
    /// Called after each event.
    ring: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<HostEvent>,
    /// Which of its outputs are open, and of which a piece is among the events.
    open: [bool; 2],
    pending: [bool; 2],
    /// Which of its outputs have no reader any more.
    hung_up: [bool; 2],
    /// What is in the pipe of each, and how many bytes have come out of it.
    gauges: [Option<Gauge>; 2],
    taken_bytes: [u64; 2],
    /// The number of the pipe that it reads.
    stdin_inode: Option<u64>,
    /// What it is to read, until that is taken.
    given: Option<Vec<u8>>,
    input: InputIs,
    is_reaped: bool,
    /// Nobody takes events any more.
    is_dropped: bool,
}

/// How it stands with what a program reads.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum InputIs {
    /// More may be given.
    #[default]
    Open,
    /// What is given is all.
    Complete,
    /// The program has ended, and reads no more.
    Unread,
}

impl HostChild {
    /// Starts `command`, which leads a group of its own; `ring` is called after each event.
    ///
    /// # Errors
    /// As the host answers: the program, or a thread beside it, cannot be started.
    pub(super) fn spawn(
        mut command: Command,
        connected: Connected,
        ring: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let input = if connected.has_input { Some(io::pipe()?) } else { None };
        if let Some((unread, _)) = &input {
            command.stdin(unread.try_clone()?);
        }
        let merged = if connected.is_merged { Some(io::pipe()?) } else { None };
        if let Some((_, pipe)) = &merged {
            command.stdout(pipe.try_clone()?).stderr(pipe.try_clone()?);
        }
        let merged = merged.map(|(pipe, _)| pipe);
        // The thread that runs a machine does so until all of its processes have ended.
        end_with_this_thread(&mut command);
        let started = ambient::instant_now();
        let mut child = command.spawn()?;
        // With it go the ends of pipes that the program has.
        drop(command);
        let outputs: [Option<Box<dyn ReadEnd>>; 2] = [
            merged.map(boxed).or_else(|| child.stdout.take().map(boxed)),
            child.stderr.take().map(boxed),
        ];
        let open = [outputs[0].is_some(), outputs[1].is_some()];
        let gauges =
            outputs.each_ref().map(|pipe| pipe.as_ref().and_then(|pipe| Gauge::of(&**pipe)));
        let stdin_inode = input.as_ref().and_then(|(unread, _)| Gauge::of(unread)?.inode());
        let shared = Arc::new(Shared {
            process: HostProcess::new(child),
            ring: Box::new(ring),
            state: Mutex::new(State { open, gauges, stdin_inode, ..State::default() }),
            changed: Condvar::new(),
        });
        match shared.accompany(started, input, outputs) {
            Ok(()) => Ok(Self(shared)),
            Err(error) => {
                shared.process.end();
                shared.change(|state| (state.is_dropped, state.input) = (true, InputIs::Unread));
                Err(error)
            }
        }
    }

    /// The next event, if there is one.
    pub(super) fn next(&self) -> Option<HostEvent> {
        self.0.change(|state| {
            let mut event = state.events.pop_front();
            match &mut event {
                Some(HostEvent::Output { fd, .. }) => state.pending[*fd as usize - 1] = false,
                Some(HostEvent::Ended(end)) => {
                    // Given when nobody was left to take it.
                    end.unread_bytes += state.given.take().map_or(0, |bytes| bytes.len() as u64);
                }
                _ => {}
            }
            event
        })
    }

    /// Gives it `bytes` to read. [`HostEvent::Taken`] says that it can be given more.
    pub(super) fn give(&self, bytes: Vec<u8>) {
        self.0.change(|state| state.given = Some(bytes));
    }

    /// Closes the end that reads its standard output (1) or standard error (2): its next writes there raise
    /// `SIGPIPE`, or fail with `EPIPE`, as in any pipe.
    pub(super) fn hang_up(&self, fd: u32) {
        self.0.change(|state| {
            let output = fd as usize - 1;
            state.hung_up[output] = true;
            // It is an end of the pipe.
            state.gauges[output] = None;
        });
    }

    /// It gets no more to read.
    pub(super) fn close_input(&self) {
        self.0.change(|state| state.input = InputIs::Complete);
    }

    /// How many events there are.
    pub(super) fn events(&self) -> usize {
        lock(&self.0.state).events.len()
    }

    /// What says whether it does nothing before it is given input: no, where nobody can tell.
    pub(super) fn is_idle(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let shared = Arc::clone(&self.0);
        move || shared.is_idle()
    }

    /// What says that the run's standard input can be read.
    pub(super) fn on_readable(&self) -> impl Fn() + Clone + Send + use<> {
        let shared = Arc::clone(&self.0);
        move || shared.push(HostEvent::Readable)
    }
}

impl Drop for HostChild {
    fn drop(&mut self) {
        // Before it is reaped, which follows: its group can be ended as long as it is not. One that
        // cannot be ended is nobody's to wait for.
        let killed = self.0.process.kill();
        self.0.change(|state| {
            state.is_dropped = true;
            // Nobody reads what is still written.
            state.gauges = [None, None];
        });
        if killed.is_ok() {
            drop(self.0.wait_while(|state| !state.is_reaped));
        }
    }
}

fn boxed(pipe: impl ReadEnd + 'static) -> Box<dyn ReadEnd> {
    Box::new(pipe)
}

impl Shared {
    /// Starts the threads beside the program.
    fn accompany(
        self: &Arc<Self>,
        started: Instant,
        input: Option<(PipeReader, PipeWriter)>,
        outputs: [Option<Box<dyn ReadEnd>>; 2],
    ) -> io::Result<()> {
        for (output, pipe) in outputs.into_iter().enumerate() {
            if let Some(pipe) = pipe {
                self.beside(move |shared| shared.drain(output, pipe))?;
            }
        }
        let input = match input {
            Some((unread, pipe)) => Some((unread, self.beside(|shared| shared.feed(pipe))?)),
            None => None,
        };
        self.beside(move |shared| shared.attend(started, input)).map(drop)
    }

    fn beside<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let shared = Arc::clone(self);
        thread::Builder::new().spawn(move || work(&shared))
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut lock(&self.state));
        self.changed.notify_all();
        changed
    }

    fn wait_while(&self, waits: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_while(lock(&self.state), waits);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, event: HostEvent) {
        self.change(|state| state.events.push_back(event));
        (self.ring)();
    }

    /// Whether it does nothing before it is given input, and all that it wrote was taken.
    fn is_idle(&self) -> bool {
        let idle_at = |state: &State| {
            let is_empty = |output: usize| {
                let gauge = state.gauges[output].as_ref();
                !state.open[output] || gauge.is_some_and(|gauge| gauge.bytes() == Some(0))
            };
            let is_fed = state.given.is_none() && state.input == InputIs::Open;
            (is_fed && state.events.is_empty() && is_empty(0) && is_empty(1))
                .then_some(state.stdin_inode)
                .flatten()
        };
        let Some(stdin) = idle_at(&lock(&self.state)) else { return false };
        waits_to_read(self.process.id(), stdin) && idle_at(&lock(&self.state)).is_some()
    }

    /// Hands on what comes from an output. Each piece waits until the one before it was taken, and
    /// so, in the end, does the program.
    fn drain(&self, output: usize, mut pipe: impl ReadEnd) {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let waits = |state: &mut State| {
                state.pending[output] && !state.is_dropped && !state.hung_up[output]
            };
            drop(self.wait_while(waits));
            // Bytes are in the pipe or among the events, and never on their way, for those who look.
            wait_readable(&pipe);
            let locked = cfg!(unix).then(|| lock(&self.state));
            let count = match pipe.read(&mut buffer) {
                Ok(count) if count > 0 => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Nothing else can go wrong with a pipe.
                Ok(_) | Err(_) => break,
            };
            let mut state = locked.unwrap_or_else(|| lock(&self.state));
            if state.is_dropped || state.hung_up[output] {
                break;
            }
            state.pending[output] = true;
            state.taken_bytes[output] += count as u64;
            let (fd, bytes) = (output as u32 + 1, buffer[..count].to_vec());
            state.events.push_back(HostEvent::Output { fd, bytes });
            drop(state);
            self.changed.notify_all();
            (self.ring)();
        }
        self.change(|state| state.open[output] = false);
    }

    /// Hands the program what it is given; answers how much of the last was not written.
    fn feed(&self, mut pipe: PipeWriter) -> u64 {
        loop {
            let waits = |state: &mut State| state.given.is_none() && state.input == InputIs::Open;
            let mut state = self.wait_while(waits);
            let given = if state.input == InputIs::Unread { None } else { state.given.take() };
            let Some(bytes) = given else { return 0 };
            drop(state);
            let mut written = 0;
            for slice in bytes.chunks(SLICE_BYTES) {
                if pipe.write_all(slice).is_err() {
                    break;
                }
                written += slice.len();
            }
            if written < bytes.len() {
                return (bytes.len() - written) as u64;
            }
            // What was written after the program ended is not taken, also if the pipe had room for it.
            let is_taken = self.change(|state| {
                let is_taken = state.input != InputIs::Unread;
                state.events.extend(is_taken.then_some(HostEvent::Taken));
                is_taken
            });
            if !is_taken {
                return 0;
            }
            (self.ring)();
        }
    }

    /// Waits for the end of the program and of what it wrote; then, for that of those whom it left
    /// behind with its outputs.
    fn attend(&self, started: Instant, input: Option<(PipeReader, JoinHandle<u64>)>) {
        let status = self.process.wait_for_end();
        let duration_ns = u64::try_from(ambient::elapsed_since(started).as_nanos());
        // Whatever it wrote itself is in its pipes.
        let written = lock(&self.state).written_bytes();
        let state = self.wait_while(|state| !state.is_dropped && state.is_owed(written));
        let left_open = state.open.contains(&true);
        drop(state);
        let mut unread_bytes = 0;
        if let Some((mut unread, feeder)) = input {
            self.change(|state| state.input = InputIs::Unread);
            // Whoever feeds can then write all that there is, and closes the other end.
            unread_bytes = io::copy(&mut unread, &mut io::sink()).unwrap_or(0);
            unread_bytes += feeder.join().unwrap_or(0);
        }
        let status = match status {
            Ok(Some(status)) => Ok(status),
            Ok(None) => self.process.reap(),
            Err(error) => Err(error),
        };
        let (exit_code, signal) = match status {
            Ok(SubprocessStatus::Signalled(signal)) => (None, Some(signal.cast_unsigned())),
            Ok(status) => (Some(status.code().unwrap_or(1).cast_unsigned()), None),
            Err(error) => {
                self.push(HostEvent::Failed(error.to_string()));
                return self.reap();
            }
        };
        let duration_ns = duration_ns.unwrap_or(u64::MAX);
        let end = HostEnd { exit_code, signal, duration_ns, unread_bytes, left_open };
        self.push(HostEvent::Ended(end));
        if left_open {
            // Until it is reaped, its group can be ended.
            drop(self.wait_while(|state| state.open.contains(&true) && !state.is_dropped));
            self.push(HostEvent::Closed);
        }
        self.reap();
    }

    fn reap(&self) {
        // It has ended, or nobody knows what came of it.
        let _ = self.process.reap();
        self.change(|state| state.is_reaped = true);
    }
}

impl State {
    /// How many bytes were written to each output so far; `None` if nobody can tell: all that will be.
    fn written_bytes(&self) -> [Option<u64>; 2] {
        [0, 1].map(|output| {
            let in_pipe = self.gauges[output].as_ref()?.bytes()?;
            Some(self.taken_bytes[output] + in_pipe)
        })
    }

    /// Whether some of the `written` bytes have not come, or an end that nobody holds up.
    fn is_owed(&self, written: [Option<u64>; 2]) -> bool {
        (0..2).any(|output| {
            let is_closing = || self.gauges[output].as_ref().is_none_or(Gauge::is_hung_up);
            let is_missing =
                || written[output].is_none_or(|bytes| self.taken_bytes[output] < bytes);
            self.open[output] && !self.hung_up[output] && (is_missing() || is_closing())
        })
    }
}
