//! The turns of a process, from its first to its end.

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
    /// [`Stop::Signalled`] if it was killed before it began.
    pub fn begin(&mut self) -> Result<(), Stop> {
        self.machine.begin();
        self.tape_turn(true);
        self.check_killed()
    }

    /// Ends the turn; returns with the next one.
    ///
    /// # Errors
    /// [`Stop::Signalled`] if the process was killed meanwhile.
    pub async fn pause(&mut self) -> Result<(), Stop> {
        self.tape_turn(false);
        self.machine.pause().await;
        self.tape_turn(true);
        self.check_killed()
    }

    /// Makes the call `name`, again after each wait. The inner error is the errno of the call.
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

    /// Has the process wait for `wait`, or until the clock shows `until`.
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
                if let Some((pipe, end)) = pipe {
                    machine.run.pipes.wait(*pipe, *end, self.pid);
                }
            }
            Wait::Turn | Wait::Child(_) | Wait::Time => {}
        }
        if wait != Wait::Turn {
            self.spin.note_wait();
        }
        let now = if until.is_some() { machine.clock.now(ClockId::Monotonic) } else { 0 };
        machine.run.processes.wait(self.pid, wait, until, now);
        Fault::Wait
    }

    /// Ends the turn; returns the turnstile, which has the machine until the next one.
    pub(in crate::kernel) fn end_turn(&mut self) -> Turnstile {
        self.tape_turn(false);
        self.machine.end();
        self.machine.turnstile().clone()
    }

    /// Returns what tells whether this process, or another one that then had the turn, has given it up.
    pub fn watch_turn(&self) -> impl Fn() -> bool + use<> {
        let turnstile = self.machine.turnstile().clone();
        move || turnstile.has_machine()
    }

    /// The number of the process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Ends a process that cannot begin because the host has no resources left, with the message `error`.
    /// The run ends with it: no script may continue without what it started.
    pub(crate) fn end_for_lack(&mut self, error: &RunError) -> Outcome {
        self.lack(&self.text_of(error))
    }

    /// As [`Guest::end_for_lack`], for a process that runs, whose memory cannot grow.
    pub(crate) fn end_for_lack_of_memory(&mut self) -> Outcome {
        let name = self.machine.run.processes.name(self.pid);
        let message = format!("{name}: this machine has no memory left for it");
        self.lack(&message)
    }

    /// As [`Guest::end_for_lack`], if a replayed run ended here in this way.
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

    /// The text of `error` with the name of the process.
    fn text_of(&self, error: &RunError) -> String {
        error.clone().of(self.machine.run.processes.name(self.pid)).to_string()
    }

    fn say(&mut self, message: &str) {
        self.write_message(format!("belljar: {message}\n").as_bytes());
    }

    /// Ends the process: closes its descriptors and wakes the processes that wait for it. Returns the
    /// error if it did not start.
    pub(in crate::kernel) fn end(mut self, outcome: Result<Outcome, RunError>) -> Option<RunError> {
        // It may have been killed before its first turn.
        self.machine.begin();
        self.tape_turn(true);
        let ended = self.machine.run.processes.ended.clone();
        let (outcome, error) = match (outcome, ended) {
            // Killed with all others: it has their outcome.
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
            // The timeout may pass while content is read back for the tape.
            self.machine.timeouts.step();
        }
        self.close_all();
        self.tape_exit(&outcome);
        let (pid, machine) = (self.pid, &mut *self.machine);
        match &outcome {
            Outcome::Trapped(trap) if pid != Pid::FIRST => {
                machine.run.processes.note_trap(pid, trap.clone());
            }
            all if all.ends_all() => machine.run.processes.end_all(outcome.clone()),
            // The timeout passed while content was read back.
            _ if machine.has_timed_out() && machine.kernel_version() > 4 => {
                machine.run.processes.end_all(Outcome::Limit(Limit::Timeout));
            }
            _ => {}
        }
        machine.run.processes.modules -= u32::from(self.is_module);
        machine.run.processes.end(pid, &outcome);
        if let Some(host) = &machine.host {
            host.process_ended(pid);
        }
        machine.vfs.note_process_end();
        self.tape_turn(false);
        self.machine.end();
        error
    }
}
