//! A process from its first turn to its last.

use super::{Fault, Guest, NOT_RUNNABLE};
use crate::base::errno::Errno;
use crate::kernel::io::pipe::End;
use crate::kernel::machine::clock::ClockId;
use crate::kernel::machine::limits::{Limit, Stop};
use crate::kernel::pid::Pid;
use crate::kernel::process::outcome::{Outcome, RunError};
use crate::kernel::process::turn::Turnstile;
use crate::kernel::process::{Signal, Wait};
use crate::tape::NativeEvent;

impl Guest {
    /// Waits for the process's first turn.
    ///
    /// # Errors
    /// [`Stop::Signalled`] if it has ended before it began.
    pub fn begin(&mut self) -> Result<(), Stop> {
        self.machine.begin();
        self.check_killed()
    }

    /// Ends the turn; is there again with the next one.
    ///
    /// # Errors
    /// [`Stop::Signalled`] if the process was ended meanwhile.
    pub async fn pause(&mut self) -> Result<(), Stop> {
        self.machine.pause().await;
        self.check_killed()
    }

    /// Makes the call `name`, which may have to wait: `call` is made again whenever it has. The inner
    /// error is the call's own.
    ///
    /// # Errors
    /// [`Stop`], which ends the process.
    pub async fn call<T>(
        &mut self,
        name: &'static str,
        mut call: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<Result<T, Errno>, Stop> {
        self.begin_call(name);
        loop {
            match call(self) {
                Ok(answer) => return Ok(Ok(answer)),
                Err(Fault::Errno(errno)) => return Ok(Err(errno)),
                Err(Fault::Stop(stop)) => return Err(stop),
                Err(Fault::Wait) => self.pause().await?,
            }
        }
    }

    pub(super) fn check_killed(&self) -> Result<(), Stop> {
        match self.machine.run.processes.killed(self.pid) {
            Some(signal) => Err(Stop::Signalled(signal)),
            None => Ok(()),
        }
    }

    /// Has the process wait until the clock shows `until`, or for what `wait` says.
    pub(super) fn wait(&mut self, wait: Wait, until: Option<u64>) -> Fault {
        if let Err(stop) = self.check_killed() {
            return Fault::Stop(stop);
        }
        let machine = &mut *self.machine;
        match &wait {
            Wait::Readable(pipe) => machine.run.pipes.wait(*pipe, End::Reader, self.pid),
            Wait::Writable(pipe) => machine.run.pipes.wait(*pipe, End::Writer, self.pid),
            Wait::Poll(pipes, _) => {
                for (pipe, end) in pipes {
                    machine.run.pipes.wait(*pipe, *end, self.pid);
                }
            }
            Wait::Host(pipe) => {
                if let Some(pipe) = pipe {
                    machine.run.pipes.wait(*pipe, End::Reader, self.pid);
                }
            }
            Wait::Turn | Wait::Child(_) | Wait::Time => {}
        }
        let now = if until.is_some() { machine.clock.now(ClockId::Monotonic) } else { 0 };
        machine.run.processes.wait(self.pid, wait, until, now);
        Fault::Wait
    }

    /// Ends the turn; answers where the machine is until the next one.
    pub(in crate::kernel) fn hand_on(&mut self) -> Turnstile {
        self.machine.end();
        self.machine.turnstile().clone()
    }

    /// The number of the process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The outcome of a process that has not begun, as the host has nothing left for it: no script goes on
    /// without what it started. `error` is what it says.
    pub(crate) fn end_for_lack(&mut self, error: &RunError) -> Outcome {
        self.lack(&self.text_of(error))
    }

    /// As [`Guest::end_for_lack`], if the machine repeats a run in which that happened here.
    pub(crate) fn repeat_lack(&mut self) -> Option<Outcome> {
        let (pid, machine) = (self.pid, &mut *self.machine);
        let tape = machine.tape.as_ref()?;
        let message = machine.lacks.at(pid, || tape.records())?;
        Some(self.lack(&message))
    }

    fn lack(&mut self, message: &str) -> Outcome {
        self.tape_native(|_| NativeEvent::Lacking { message: message.to_owned() });
        self.say(message);
        self.machine.note_limit(Limit::Host);
        Outcome::Limit(Limit::Host)
    }

    /// What the process says of `error`, by its own name.
    fn text_of(&self, error: &RunError) -> String {
        error.clone().of(self.machine.run.processes.name(self.pid)).to_string()
    }

    fn say(&mut self, message: &str) {
        self.write_message(format!("belljar: {message}\n").as_bytes());
    }

    /// Ends the process: closes its descriptors, and lets those know who wait for it. Answers why
    /// it did not start, if it did not.
    pub(in crate::kernel) fn end(mut self, outcome: Result<Outcome, RunError>) -> Option<RunError> {
        // It may have ended before its first turn.
        self.machine.begin();
        let ended = self.machine.run.processes.ended.clone();
        let (outcome, error) = match (outcome, ended) {
            // It was ended with all others, and what ended them ended it.
            (Ok(Outcome::Signalled(Signal::KILL)), Some(all)) if all.ends_all() => (all, None),
            (Ok(outcome), _) => (outcome, None),
            (Err(error), _) => (Outcome::Exited(NOT_RUNNABLE), Some(error)),
        };
        if let Some(error) = &error
            && self.pid != Pid::FIRST
        {
            self.say(&self.text_of(error));
        }
        self.give_up_host_call();
        if self.machine.kernel_version() > 4 {
            // Real time may end the run while what it has written is read back.
            self.machine.timeouts.step();
        }
        self.close_all();
        self.tape_exit(&outcome);
        let (pid, machine) = (self.pid, &mut *self.machine);
        match &outcome {
            Outcome::Trapped(trap) if pid != Pid::FIRST => {
                machine.run.processes.mourn(pid, trap.clone());
            }
            all if all.ends_all() => machine.run.processes.end_all(outcome.clone()),
            // The time was over while what it had written was read back.
            _ if machine.has_timed_out() && machine.kernel_version() > 4 => {
                machine.run.processes.end_all(Outcome::Limit(Limit::Timeout));
            }
            _ => {}
        }
        machine.run.processes.modules -= u32::from(self.is_module);
        machine.run.processes.end(pid, &outcome);
        machine.vfs.note_process_end();
        self.machine.end();
        error
    }
}
