//! Standard streams and pipes.

use std::io::Read;

use super::{Buffers, Fault, Guest};
use crate::base::errno::Errno;
use crate::kernel::io::fd::{Description, OpenPipe};
use crate::kernel::io::pipe::PIPE_BUF;
use crate::kernel::io::stdio::{Input, Stdio};
use crate::kernel::machine::limits::{Limit, Stop};
use crate::kernel::process::{Signal, Wait};

impl Guest {
    pub(super) fn read_stdin(&mut self, bufs: &mut Buffers<'_>) -> Result<u64, Fault> {
        // One read that returns bytes is enough: they must not wait for more.
        let Some(first) = (0..bufs.count()).find(|i| !bufs.get(*i).is_empty()) else {
            return Ok(0);
        };
        let given_back = &mut self.machine.run.stdin_given_back;
        if !given_back.is_empty() {
            // Recorded when it was first read. Reading from memory cannot fail.
            return Ok(given_back.read(bufs.get_mut(first)).unwrap_or(0) as u64);
        }
        let has_deadline = self.machine.deadline().is_some();
        if self.machine.is_at_taped_timeout()
            || matches!(self.machine.run.stdio.stdin, Input::Host) && has_deadline
        {
            self.wait_for_stdin(None)?;
        }
        let answer = self.machine.run.stdio.stdin.read(bufs.get_mut(first));
        self.tape_stdin(answer.map(|count| &bufs.get(first)[..count]));
        Ok(answer? as u64)
    }

    pub(super) fn write_stream(
        &mut self,
        is_stderr: bool,
        bufs: &Buffers<'_>,
    ) -> Result<u64, Fault> {
        let mut done = 0;
        for index in 0..bufs.count() {
            let bytes = bufs.get(index);
            let left = usize::try_from(self.machine.run.output_left).unwrap_or(usize::MAX);
            let bytes_allowed = &bytes[..bytes.len().min(left)];
            // Empty writes do not reach the stream, so that each of its answers has a record.
            if !bytes_allowed.is_empty() {
                let Stdio { stdout, stderr, .. } = &mut self.machine.run.stdio;
                let (fd, stream) = if is_stderr { (2, stderr) } else { (1, stdout) };
                let answer = stream.write(bytes_allowed);
                self.tape_output(fd, answer.map(|()| bytes_allowed));
                self.machine.run.outputs_without_reader[usize::from(is_stderr)] |=
                    answer == Err(Errno::Pipe);
                match answer {
                    Ok(()) => self.machine.run.output_left -= bytes_allowed.len() as u64,
                    Err(Errno::Pipe) if done == 0 && self.machine.kernel_version() > 1 => {
                        return Err(self.broken_pipe());
                    }
                    Err(errno) if done == 0 => return Err(errno.into()),
                    Err(_) => break,
                }
            }
            if bytes_allowed.len() < bytes.len() {
                return Err(self.stop_at(Limit::Output));
            }
            done += bytes.len() as u64;
        }
        Ok(done)
    }

    pub(super) fn read_pipe(
        &mut self,
        end: OpenPipe,
        bufs: &mut Buffers<'_>,
    ) -> Result<u64, Fault> {
        let OpenPipe { pipe, nonblock } = end;
        let mut done = 0;
        for index in 0..bufs.count() {
            let buf = bufs.get_mut(index);
            if buf.is_empty() {
                continue;
            }
            let machine = &mut *self.machine;
            match machine.run.pipes.read(pipe, buf) {
                None if done == 0 && nonblock => {
                    self.ask_in_vain()?;
                    return Err(Errno::Again.into());
                }
                None if done == 0 => return Err(self.wait(Wait::Readable(pipe), None)),
                None => break,
                Some((count, writers)) => {
                    machine.run.processes.wake_all(writers);
                    done += count as u64;
                    if count < buf.len() {
                        break;
                    }
                }
            }
        }
        Ok(done)
    }

    /// Writes all bytes as POSIX requires, however often it waits for room. Writes of up to [`PIPE_BUF`]
    /// bytes are atomic.
    pub(super) fn write_pipe(&mut self, end: OpenPipe, bufs: &Buffers<'_>) -> Result<u64, Fault> {
        let OpenPipe { pipe, nonblock } = end;
        let (room, is_closed) = self.machine.run.pipes.writable(pipe);
        if bufs.total() <= PIPE_BUF as u64 && room < bufs.total() && !is_closed {
            return Err(self.wait_to_write(end));
        }
        let mut skip = self.progress.as_ref().map_or(0, |progress| progress.written);
        let mut done = skip;
        for index in 0..bufs.count() {
            let mut bytes = bufs.get(index);
            let skipped = skip.min(bytes.len() as u64);
            skip -= skipped;
            bytes = &bytes[skipped as usize..];
            while !bytes.is_empty() {
                let machine = &mut *self.machine;
                match machine.run.pipes.write(pipe, bytes) {
                    Ok(Some((count, readers))) => {
                        machine.run.processes.wake_all(readers);
                        done += count as u64;
                        bytes = &bytes[count..];
                    }
                    Ok(None) if nonblock && done > 0 => return Ok(done),
                    Ok(None) => {
                        self.progress.get_or_insert_default().written = done;
                        return Err(self.wait_to_write(end));
                    }
                    Err(_) => return Err(self.broken_pipe()),
                }
            }
        }
        Ok(done)
    }

    fn wait_to_write(&mut self, OpenPipe { pipe, nonblock }: OpenPipe) -> Fault {
        if nonblock {
            self.ask_in_vain().err().unwrap_or(Errno::Again.into())
        } else {
            self.wait(self.machine.run.processes.wait_for_room(self.pid, pipe), None)
        }
    }

    /// Writes to the standard error of a process that has not begun or cannot continue, as far as
    /// possible without waiting.
    pub(super) fn write_message(&mut self, message: &[u8]) {
        let Ok(description) = self.description(2) else { return };
        match description {
            Description::Stderr | Description::Stdout => {
                let is_stderr = matches!(description, Description::Stderr);
                let mut bytes = message.to_vec();
                let range = super::Range { start: 0, len: bytes.len() };
                // Nothing can report a failed message.
                let _ = self.write_stream(
                    is_stderr,
                    &Buffers::new(&mut bytes, std::iter::once(range).collect()),
                );
            }
            Description::PipeWriter(OpenPipe { pipe, .. }) => {
                let (pipe, machine) = (*pipe, &mut *self.machine);
                if let Ok(Some((_, readers))) = machine.run.pipes.write(pipe, message) {
                    machine.run.processes.wake_all(readers);
                }
            }
            Description::File(file) if file.write => {
                let (node, now) = (file.node, self.now());
                let vfs = &mut self.machine.vfs;
                let end = vfs.len(node).unwrap_or(0);
                let _ = vfs.write_at(node, end, message, now);
            }
            _ => {}
        }
    }

    /// Sets whether a write to a pipe without readers returns `EPIPE` instead of ending the process with
    /// `SIGPIPE`. Children inherit it.
    pub fn ignore_sigpipe(&mut self, ignore: bool) {
        self.ignores_sigpipe = ignore;
    }

    fn broken_pipe(&self) -> Fault {
        if self.ignores_sigpipe {
            Errno::Pipe.into()
        } else {
            Fault::Stop(Stop::Signalled(Signal::PIPE))
        }
    }
}
