//! Machines that go on from where another one stands: forks, and those that were saved.

use serde::{Deserialize, Serialize};

use super::Machine;
use super::clock::ClockId;
use super::lack::Lacks;
use super::random::Random;
use super::run_state::RunState;
use super::timeout::Timeouts;
use crate::base::digest::Digest;
use crate::kernel::process::wakeup::HostBell;
use crate::kernel::vfs::{RestoreError, SavedOverlay};
use crate::store::{Cas, StoreError};

/// A machine cannot be forked or saved.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// What it does goes on a tape, which is one run's.
    #[error("a machine that is recorded cannot be forked: leave out its tape")]
    Recorded,
    /// Its clock is not its own.
    #[error("a machine whose clock others use, or which plays readings back, cannot be forked")]
    Clock,
}

crate::base::readable::readable!(ForkError);

/// What [`Machine::save`] answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedMachine {
    files: SavedOverlay,
    /// Time that has passed, nanoseconds.
    elapsed_ns: u64,
    /// What a paused clock shows the next run at least, nanoseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    realtime_ns: Option<u64>,
    seed: u64,
    /// Random bytes taken.
    random_position: u64,
}

impl SavedMachine {
    /// The digests of the contents that are in the store.
    pub fn contents(&self) -> Vec<Digest> {
        self.files.contents()
    }

    /// What a clock that started at `start_ns` and is paused shows the next run, nanoseconds since the
    /// Unix epoch.
    pub fn now_ns(&self, start_ns: u64) -> u64 {
        start_ns.saturating_add(self.elapsed_ns).max(self.realtime_ns.unwrap_or_default())
    }

    /// Where its chance comes from.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

impl Machine {
    /// A machine that goes on from here by itself: the same files, clock, chance, limits and
    /// programs. It shares contents with this one until one of the two writes to them, so that it
    /// takes no longer for large trees than for small ones.
    ///
    /// # Errors
    /// [`ForkError`].
    pub fn fork(&self) -> Result<Self, ForkError> {
        if self.tape.is_some() {
            return Err(ForkError::Recorded);
        }
        Ok(Self {
            vfs: self.vfs.fork(),
            programs: self.programs.clone(),
            host: None,
            clock: self.clock.fork().ok_or(ForkError::Clock)?,
            random: self.random.clone(),
            run: RunState::new(&self.limits, HostBell::default()),
            limits: self.limits,
            timeouts: Timeouts::default(),
            lacks: Lacks::default(),
            trace: None,
            tape: None,
            tapes_finds: true,
            kernel_version: self.kernel_version,
        })
    }

    /// The files, the time and the chance of the machine as data. What was written to files goes to
    /// `cas`, as far as it is not there.
    ///
    /// # Errors
    /// As [`Cas::put`].
    pub fn save(&mut self, cas: &Cas) -> Result<SavedMachine, StoreError> {
        self.vfs.keep_what_was_replaced();
        Ok(SavedMachine {
            files: self.vfs.save(cas)?,
            elapsed_ns: self.clock.now(ClockId::Monotonic),
            realtime_ns: self.vfs.next_run_ns(),
            seed: self.random.seed(),
            random_position: self.random.position(),
        })
    }

    /// Makes the machine, which was just built as the other one was, go on from where that one was
    /// saved.
    ///
    /// # Errors
    /// [`RestoreError`]; the machine is as it was then.
    pub fn restore(&mut self, saved: &SavedMachine, cas: &Cas) -> Result<(), RestoreError> {
        self.vfs.restore(&saved.files, cas)?;
        if self.clock.is_virtual() {
            self.clock.sleep_until(saved.elapsed_ns);
            self.clock.set_forward(saved.realtime_ns.unwrap_or_default());
            if self.kernel_version > 1 {
                self.vfs.tell_writes_apart(self.clock.now(ClockId::Realtime));
            }
        }
        self.random = Random::at(saved.seed, saved.random_position);
        Ok(())
    }
}
