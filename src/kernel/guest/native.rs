//! For processes that represent a native program: waiting for the host, and what can be read and written
//! without waiting.

use std::sync::Weak;

use super::{Fault, Guest};
use crate::kernel::io::fd::{Description, OpenFile, OpenPipe};
use crate::kernel::io::host_stdin::Watch;
use crate::kernel::io::pipe::{End, OnHangUp};
use crate::kernel::io::stdio::Input;
use crate::kernel::machine::clock::ClockId;
use crate::kernel::process::Wait;
use crate::kernel::process::wakeup::HostBell;

/// State of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputState {
    /// It has bytes, or is at its end.
    Ready,
    /// Nothing until a pipe has bytes.
    Pipe,
    /// Unknown: a read from the host may block.
    Host,
}

impl Guest {
    /// Returns the bell that wakes the process.
    pub fn bell(&self) -> HostBell {
        self.machine.run.bell.clone()
    }

    /// Has the process wait until the bell rings for it or the pipe `reads`, if it is one, is readable.
    /// Call [`Guest::pause`] next.
    ///
    /// # Errors
    /// [`Fault::Wait`], always; [`Fault::Stop`] if the process was killed.
    pub fn wait_for_host(&mut self, reads: Option<u32>) -> Fault {
        let pipe = match reads.map(|fd| self.description(fd)) {
            Some(Ok(Description::PipeReader(OpenPipe { pipe, .. }))) => Some((*pipe, End::Reader)),
            _ => None,
        };
        self.wait(Wait::Host(pipe), None)
    }

    /// Returns whether the bell ended the last wait.
    pub fn was_rung(&self) -> bool {
        self.machine.run.processes.was_rung(self.pid)
    }

    /// From now on the process stands for something outside, which may act while the process waits to write to a pipe.
    pub fn acts_outside(&mut self) {
        self.machine.run.processes.acts_outside(self.pid);
    }

    /// Returns the state of input from `fd`; `None` if it cannot be read.
    pub fn input_state(&self, fd: u32) -> Option<InputState> {
        match self.description(fd).ok()? {
            Description::Stdin => Some(
                if self.machine.run.stdin_given_back.is_empty()
                    && self.machine.run.stdio.stdin.is_stream()
                {
                    InputState::Host
                } else {
                    InputState::Ready
                },
            ),
            Description::PipeReader(OpenPipe { pipe, .. }) => {
                let is_empty = self.machine.run.pipes.readable(*pipe) == (0, false);
                Some(if is_empty { InputState::Pipe } else { InputState::Ready })
            }
            Description::File(OpenFile { read: true, .. }) | Description::Device(_) => {
                Some(InputState::Ready)
            }
            _ => None,
        }
    }

    /// Returns whether output to `fd` goes anywhere.
    pub fn is_output(&self, fd: u32) -> bool {
        match self.description(fd) {
            Ok(Description::Stdout | Description::Stderr | Description::PipeWriter(_)) => true,
            Ok(Description::File(file)) => file.write,
            _ => false,
        }
    }

    /// Returns whether `one` and `other` are outputs to the same place.
    pub fn is_same_output(&self, one: u32, other: u32) -> bool {
        let place = |fd| match self.description(fd).ok()? {
            Description::PipeWriter(end) => Some((Some(end.pipe), None)),
            _ => Some((None, Some(self.fds.get(fd).ok()?.description))),
        };
        self.is_output(one) && self.is_output(other) && place(one) == place(other)
    }

    /// Returns whether `fd` is an output of the run whose reader is known to be gone.
    pub fn has_lost_reader(&self, fd: u32) -> bool {
        let [stdout, stderr] = self.machine.run.outputs_without_reader;
        match self.description(fd) {
            Ok(Description::Stdout) => stdout,
            Ok(Description::Stderr) => stderr,
            _ => false,
        }
    }

    /// Has `call` called once the pipe `fd`, if it is one, has no reader any more.
    pub fn on_hang_up(&mut self, fd: u32, call: &Weak<OnHangUp>) {
        if let Ok(Description::PipeWriter(OpenPipe { pipe, .. })) = self.description(fd) {
            let pipe = *pipe;
            self.machine.run.pipes.on_hang_up(pipe, call);
        }
    }

    /// Calls `then` once the run's standard input is readable, while the returned `Watch` lives. If that
    /// cannot be watched, calls it at once: a read then waits.
    pub fn watch_stdin(&self, then: impl Fn() + Clone + Send + 'static) -> Option<Watch> {
        match self.machine.run.stdio.stdin {
            // The tape says when.
            Input::Taped(_) => None,
            Input::Host => Some(Watch::begin(then)),
            Input::Empty | Input::Bytes(_) | Input::Reader(_) => {
                then();
                None
            }
        }
    }

    /// Puts `bytes`, the last that were read from `fd`, back for the next reader.
    pub fn give_back(&mut self, fd: u32, bytes: &[u8]) {
        let machine = &mut *self.machine;
        let Ok(descriptor) = self.fds.get(fd) else { return };
        match machine.run.descriptions.get_mut(descriptor.description) {
            Description::Stdin => {
                for byte in bytes.iter().rev() {
                    machine.run.stdin_given_back.push_front(*byte);
                }
            }
            Description::PipeReader(OpenPipe { pipe, .. }) => {
                let readers = machine.run.pipes.give_back(*pipe, bytes);
                machine.run.processes.wake_all(readers);
            }
            Description::File(file) => file.offset = file.offset.saturating_sub(bytes.len() as u64),
            _ => {}
        }
    }

    /// Returns the time of the monotonic clock in nanoseconds if it is virtual. Not recorded.
    pub fn virtual_now_ns(&mut self) -> Option<u64> {
        let clock = &mut self.machine.clock;
        clock.is_virtual().then(|| clock.now(ClockId::Monotonic))
    }
}
