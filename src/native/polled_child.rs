//! The program behind a native process. Its output comes in pieces, and no faster than they are
//! taken.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::SubprocessStatus;
use super::blocked::{Pipes, has_live_group, is_blocked};
use super::live::{self, CLEANING_UP_MAX};
use super::os_process::OsProcess;
use super::pipe_state::{Gauge, ReadEnd, wait_readable};
use super::runner::end_with_this_thread;
use super::streams::lock;
use crate::base::ambient;
use crate::kernel::io::pipe::End;

/// Bytes taken from a program at once: the capacity of a pipe.
const PIECE_BYTES: usize = 64 << 10;

/// Bytes written to a program at once, atomically: so the number of unread bytes is exact.
const SLICE_BYTES: usize = 4 << 10;

/// How often processes left behind are looked for if no output tells of their end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long what was left behind has to let go of the outputs before it is killed with the run.
const LETTING_GO_MAX: Duration = Duration::from_millis(50);

/// Something that happened on the host.
pub(super) enum ChildEvent {
    /// The bytes given last have been written to the program.
    Taken,
    /// The run's standard input is readable.
    Readable,
    /// The program wrote to its standard output (1) or standard error (2).
    Output { fd: u32, bytes: Vec<u8> },
    /// It ended, and all its own output has been taken.
    Ended(ChildEnd),
    /// Processes that it left behind have closed its outputs.
    Closed,
    /// The host cannot tell how it ended.
    Failed(String),
}

/// How a native program ended.
pub(super) struct ChildEnd {
    /// If it exited.
    pub(super) exit_code: Option<u32>,
    /// If a signal ended it.
    pub(super) signal: Option<u32>,
    /// Real time.
    pub(super) duration_ns: u64,
    /// Bytes given to it that it did not read.
    pub(super) unread_bytes: u64,
    /// Whether a process that it left behind holds an output open: [`ChildEvent::Closed`] follows.
    pub(super) left_open: bool,
}

/// How the streams of a program are connected, besides its command.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Connected {
    /// Standard input is a pipe.
    pub(super) has_input: bool,
    /// Standard error goes to the pipe of standard output, to keep their order.
    pub(super) is_merged: bool,
}

/// A running program. Dropping it kills the program and its process group.
pub(super) struct PolledChild(Arc<Shared>);

struct Shared {
    process: OsProcess,
    /// Called after each event.
    ring: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<ChildEvent>,
    /// Outputs that are open, and those of which a piece is in `events`.
    open: [bool; 2],
    pending: [bool; 2],
    /// Outputs whose reader is gone.
    hung_up: [bool; 2],
    /// While they are open, the thread that waits for an output continues to wait.
    awaited: [Option<PipeWriter>; 2],
    /// Bytes in the pipe of each output, and bytes read from it.
    gauges: [Option<Gauge>; 2],
    taken_bytes: [u64; 2],
    /// The inode of the pipe that it reads.
    stdin_inode: Option<u64>,
    /// Bytes to write to it.
    given: Option<Vec<u8>>,
    input: InputIs,
    /// Whether its end is among the events.
    has_ended: bool,
    is_reaped: bool,
    /// The signal that asks it to end before it is killed, if one does.
    last_signal: Option<u8>,
    /// Whether events are still taken.
    stage: Stage,
}

/// How far the end of a program is that something else ends.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Nothing ends it.
    #[default]
    Used,
    /// It cleans up: its output is read, and lost.
    Ending,
    /// Events are no longer taken.
    Dropped,
}

/// The state of a program's input.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum InputIs {
    /// More may be given.
    #[default]
    Open,
    /// Nothing more is given.
    Complete,
    /// The program has ended.
    Unread,
}

impl PolledChild {
    /// Starts `command` as leader of its own process group; calls `ring` after each event.
    ///
    /// # Errors
    /// The host's error, if the program or a thread beside it cannot be started.
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
        // The thread of a machine outlives its processes.
        end_with_this_thread(&mut command);
        let started = ambient::instant_now();
        let mut child = live::spawn(&mut command)?;
        // Closes this process's copies of the program's pipe ends.
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
            process: OsProcess::new(child),
            ring: Box::new(ring),
            state: Mutex::new(State { open, gauges, stdin_inode, ..State::default() }),
            changed: Condvar::new(),
        });
        match shared.accompany(started, input, outputs) {
            Ok(()) => Ok(Self(shared)),
            Err(error) => {
                shared.process.end();
                shared
                    .change(|state| (state.stage, state.input) = (Stage::Dropped, InputIs::Unread));
                Err(error)
            }
        }
    }

    /// The next event, if there is one.
    pub(super) fn next(&self) -> Option<ChildEvent> {
        self.0.change(|state| {
            let mut event = state.events.pop_front();
            match &mut event {
                Some(ChildEvent::Output { fd, .. }) => state.pending[*fd as usize - 1] = false,
                Some(ChildEvent::Ended(end)) => {
                    // Given after the feeding thread had ended.
                    end.unread_bytes += state.given.take().map_or(0, |bytes| bytes.len() as u64);
                }
                _ => {}
            }
            event
        })
    }

    /// Gives it `bytes` to read. [`ChildEvent::Taken`] follows when it can be given more.
    pub(super) fn give(&self, bytes: Vec<u8>) {
        self.0.change(|state| state.given = Some(bytes));
    }

    /// Closes the reading end of its standard output (1) or standard error (2): later writes raise
    /// `SIGPIPE` or fail with `EPIPE`.
    pub(super) fn hang_up(&self, fd: u32) {
        self.0.hang_up(fd);
    }

    /// Returns a function that does what [`PolledChild::hang_up`] does.
    pub(super) fn on_hang_up(&self, fd: u32) -> impl Fn() + Send + Sync + use<> {
        let shared = Arc::clone(&self.0);
        move || shared.hang_up(fd)
    }

    /// Ends its input.
    pub(super) fn close_input(&self) {
        self.0.change(|state| state.input = InputIs::Complete);
    }

    /// The number of queued events.
    pub(super) fn events(&self) -> usize {
        lock(&self.0.state).events.len()
    }

    /// Returns a function that tells whether the program only waits for input, or, at the writing end, until its output is
    /// taken; `false` if unknown.
    pub(super) fn is_idle(&self) -> impl Fn(End) -> bool + Send + Sync + use<> {
        let shared = Arc::clone(&self.0);
        move |end| match end {
            End::Reader => shared.waits_for_input(),
            End::Writer => shared.waits_for_readers(),
        }
    }

    /// When it is dropped, it is asked to end with the signal `number`, and has two seconds to do so before it is killed.
    pub(super) fn end_by(&self, number: u8) {
        self.0.change(|state| state.last_signal = Some(number));
    }

    fn let_clean_up(&self) {
        let asked = self.0.change(|state| {
            let number = state.last_signal.filter(|_| !state.has_ended)?;
            // What it says meanwhile is read, so that it need not wait.
            state.stage = Stage::Ending;
            Some(number)
        });
        let Some(number) = asked else { return };
        self.0.process.ask_to_end(number);
        let is_running = |state: &mut State| !state.has_ended && !state.is_reaped;
        let waited =
            self.0.changed.wait_timeout_while(lock(&self.0.state), CLEANING_UP_MAX, is_running);
        drop(waited);
    }

    /// Returns a function to call when the run's standard input is readable.
    pub(super) fn on_readable(&self) -> impl Fn() + Clone + Send + use<> {
        let shared = Arc::clone(&self.0);
        move || shared.push(ChildEvent::Readable)
    }
}

impl Drop for PolledChild {
    fn drop(&mut self) {
        if self.0.has_let_go() {
            drop(self.0.wait_while(|state| !state.is_reaped));
        }
        self.let_clean_up();
        // First, as an unreaped group can be killed. One that cannot be killed is not waited for.
        let killed = self.0.process.kill();
        self.0.change(|state| {
            state.stage = Stage::Dropped;
            // Output is no longer read.
            (state.gauges, state.awaited) = ([None, None], [None, None]);
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
    fn accompany(
        self: &Arc<Self>,
        started: Instant,
        input: Option<(PipeReader, PipeWriter)>,
        outputs: [Option<Box<dyn ReadEnd>>; 2],
    ) -> io::Result<()> {
        for (output, pipe) in outputs.into_iter().enumerate() {
            let Some(pipe) = pipe else { continue };
            // Without descriptors for it, the thread learns of a hang-up when the program writes.
            let (awaited, kept) = cfg!(unix).then(io::pipe).and_then(Result::ok).unzip();
            self.change(|state| state.awaited[output] = kept);
            self.spawn_thread(move |shared| shared.drain(output, pipe, awaited.as_ref()))?;
        }
        let input = match input {
            Some((unread, pipe)) => Some((unread, self.spawn_thread(|shared| shared.feed(pipe))?)),
            None => None,
        };
        self.spawn_thread(move |shared| shared.attend(started, input)).map(drop)
    }

    fn hang_up(&self, fd: u32) {
        self.change(|state| {
            let output = fd as usize - 1;
            state.hung_up[output] = true;
            // It is a copy of the reading end.
            state.gauges[output] = None;
            state.awaited[output] = None;
        });
    }

    fn spawn_thread<T: Send + 'static>(
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

    fn push(&self, event: ChildEvent) {
        self.change(|state| state.events.push_back(event));
        (self.ring)();
    }

    /// Whether it only waits for input, and all its output has been taken.
    fn waits_for_input(&self) -> bool {
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
        let pipes = Pipes { stdin: Some(stdin), outputs: Vec::new() };
        is_blocked(self.process.id(), &pipes) && idle_at(&lock(&self.state)).is_some()
    }

    /// Whether it only waits until its output is taken, or has ended, and all else that it waits for is standard input.
    fn waits_for_readers(&self) -> bool {
        let waits_at = |state: &State| {
            let gauge = |output: usize| state.gauges[output].as_ref();
            // The thread that drains it waits, too.
            let is_stuck = |output: usize| {
                let is_empty = || gauge(output).is_some_and(|gauge| gauge.bytes() == Some(0));
                !state.open[output] || state.pending[output] || is_empty()
            };
            let is_fed = state.given.is_none() || state.input == InputIs::Unread;
            let is_waiting = is_stuck(0) && is_stuck(1) && is_fed;
            is_waiting.then(|| Pipes {
                stdin: state.stdin_inode,
                outputs: (0..2).filter_map(|output| gauge(output)?.inode()).collect(),
            })
        };
        let Some(pipes) = waits_at(&lock(&self.state)) else { return false };
        let id = self.process.id();
        let is_still = is_blocked(id, &pipes) || !has_live_group(id);
        is_still && waits_at(&lock(&self.state)) == Some(pipes)
    }

    /// Queues what comes from an output. A piece waits until the one before it was taken, and so
    /// does the program in the end. Waits no longer when `awaited` has no writer.
    fn drain(&self, output: usize, mut pipe: impl ReadEnd, awaited: Option<&PipeReader>) {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let waits = |state: &mut State| {
                state.pending[output] && state.stage == Stage::Used && !state.hung_up[output]
            };
            drop(self.wait_while(waits));
            let is_over = |state: &State| state.stage == Stage::Dropped || state.hung_up[output];
            // For `is_idle`, bytes are always in the pipe or among the events, never in between.
            wait_readable(&pipe, awaited);
            let locked = cfg!(unix).then(|| lock(&self.state));
            if locked.as_deref().is_some_and(is_over) {
                break;
            }
            let count = match pipe.read(&mut buffer) {
                Ok(count) if count > 0 => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // A pipe has no other errors.
                Ok(_) | Err(_) => break,
            };
            let mut state = locked.unwrap_or_else(|| lock(&self.state));
            if is_over(&state) {
                break;
            }
            state.taken_bytes[output] += count as u64;
            if state.stage == Stage::Ending {
                continue;
            }
            state.pending[output] = true;
            let (fd, bytes) = (output as u32 + 1, buffer[..count].to_vec());
            state.events.push_back(ChildEvent::Output { fd, bytes });
            drop(state);
            self.changed.notify_all();
            (self.ring)();
        }
        // Before it counts as closed, so that no write succeeds any more.
        drop(pipe);
        self.change(|state| state.open[output] = false);
    }

    /// Writes to the program what it is given; returns how much of the last piece was not written.
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
            // Bytes written after the program ended are unread, even if the pipe had room.
            let is_taken = self.change(|state| {
                let is_taken = state.input != InputIs::Unread;
                state.events.extend(is_taken.then_some(ChildEvent::Taken));
                is_taken
            });
            if !is_taken {
                return 0;
            }
            (self.ring)();
        }
    }

    /// Waits for the end of the program and its own output, then for the processes that it left
    /// behind.
    fn attend(&self, started: Instant, input: Option<(PipeReader, JoinHandle<u64>)>) {
        let status = self.process.wait_for_end();
        let duration_ns = u64::try_from(ambient::elapsed_since(started).as_nanos());
        // Its own output is in the pipes now.
        let written = lock(&self.state).written_bytes();
        let state =
            self.wait_while(|state| state.stage != Stage::Dropped && state.is_owed(written));
        drop(state);
        let left_open = self.has_left();
        let mut unread_bytes = 0;
        if let Some((mut unread, feeder)) = input {
            self.change(|state| state.input = InputIs::Unread);
            // The feeding thread can then write the rest, and closes its end.
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
                self.push(ChildEvent::Failed(error.to_string()));
                return self.reap();
            }
        };
        let duration_ns = duration_ns.unwrap_or(u64::MAX);
        let end = ChildEnd { exit_code, signal, duration_ns, unread_bytes, left_open };
        if !left_open {
            // Before its end is known: the end of the run must not sometimes kill what it left behind without an output.
            self.reap();
        }
        self.change(|state| state.has_ended = true);
        self.push(ChildEvent::Ended(end));
        if left_open {
            // Until it is reaped, its group can be killed.
            drop(self.wait_while(|state| state.is_read() && state.stage != Stage::Dropped));
            while lock(&self.state).stage != Stage::Dropped && self.has_left() {
                let waited = self.changed.wait_timeout(lock(&self.state), LOOK_EVERY);
                drop(waited);
            }
            self.push(ChildEvent::Closed);
            self.reap();
        }
    }

    /// Whether it has ended, and nothing that it left behind holds an output any more. A shell's `program >/dev/null &` holds one for a
    /// moment after the shell has ended.
    fn has_let_go(&self) -> bool {
        let waits = |state: &mut State| state.has_ended && state.is_read();
        let waited = self.changed.wait_timeout_while(lock(&self.state), LETTING_GO_MAX, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.has_ended && !state.is_read() && !state.hung_up.contains(&true)
    }

    /// Whether processes that it left behind may hold an output open. If that has no reader, the pipe does not tell.
    fn has_left(&self) -> bool {
        let (is_read, has_hung_up) = {
            let state = lock(&self.state);
            (state.is_read(), state.hung_up.contains(&true))
        };
        is_read || has_hung_up && has_live_group(self.process.id())
    }

    fn reap(&self) {
        // It has ended, or its end cannot be known.
        let _ = self.process.reap();
        self.change(|state| state.is_reaped = true);
    }
}

impl State {
    /// Whether an output is open and has a reader.
    fn is_read(&self) -> bool {
        (0..2).any(|output| self.open[output] && !self.hung_up[output])
    }

    /// Bytes written to each output so far; `None` if unknown.
    fn written_bytes(&self) -> [Option<u64>; 2] {
        [0, 1].map(|output| {
            let in_pipe = self.gauges[output].as_ref()?.bytes()?;
            Some(self.taken_bytes[output] + in_pipe)
        })
    }

    /// Whether some of the `written` bytes are missing, or the end of an output without writers.
    fn is_owed(&self, written: [Option<u64>; 2]) -> bool {
        (0..2).any(|output| {
            let is_closing = || self.gauges[output].as_ref().is_none_or(Gauge::is_hung_up);
            let is_missing =
                || written[output].is_none_or(|bytes| self.taken_bytes[output] < bytes);
            self.open[output] && !self.hung_up[output] && (is_missing() || is_closing())
        })
    }
}
