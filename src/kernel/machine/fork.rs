//! Forks of a machine, and machines saved as data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::clock::ClockId;
use super::lack::Lacks;
use super::random::Random;
use super::run_state::RunState;
use super::timeout::Timeouts;
use super::{Machine, TOOLCHAINS_ROOT};
use crate::base::digest::Digest;
use crate::kernel::process::programs::NeededTree;
use crate::kernel::process::wakeup::HostBell;
use crate::kernel::vfs::{EmptyTree, RestoreError, SavedOverlay, beneath};
use crate::store::{Cas, StoreError};

/// A machine could not be forked or saved.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// It has a tape, which belongs to one run.
    #[error("cannot fork a machine with a tape: build it without one")]
    Recorded,
    /// Its clock is shared or replayed.
    #[error("cannot fork a machine whose clock is shared or replayed")]
    Clock,
}

crate::base::readable::readable!(ForkError);

/// The result of [`Machine::save`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedMachine {
    files: SavedOverlay,
    /// Virtual time elapsed, in nanoseconds.
    elapsed_ns: u64,
    /// Earliest time of a paused clock in the next run, in nanoseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    realtime_ns: Option<u64>,
    seed: u64,
    /// Random bytes taken.
    random_position: u64,
}

impl SavedMachine {
    /// The digests of its parts in the store `cas`.
    ///
    /// # Errors
    /// As [`Cas::get`].
    pub fn contents(&self, cas: &Cas) -> Result<Vec<Digest>, StoreError> {
        self.files.contents(cas)
    }

    /// The time that a paused clock, started at `start_ns`, shows the next run, in nanoseconds since the
    /// Unix epoch.
    pub fn now_ns(&self, start_ns: u64) -> u64 {
        start_ns.saturating_add(self.elapsed_ns).max(self.realtime_ns.unwrap_or_default())
    }

    /// The seed of its random bytes.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

impl Machine {
    /// Creates an independent machine in this state: the same files, clock, random bytes, limits and programs,
    /// but no host, no interrupter and no trace. Contents are shared until one of the two writes to them, so a large tree
    /// takes no longer than a small one.
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
            interrupter: None,
            lacks: Lacks::default(),
            trace: None,
            tape: None,
            tapes_finds: true,
            results: self.results.clone(),
            kernel_version: self.kernel_version,
        })
    }

    /// Returns the files, time and random state as data. Written contents are put into `cas`.
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

    /// Restores a saved state into this machine, which was just built with the same configuration. Trees of toolchains
    /// are mounted again; where a toolchain is gone, its trees are empty.
    ///
    /// # Errors
    /// [`RestoreError`]; the machine is then unchanged, but for the trees of toolchains.
    pub fn restore(&mut self, saved: &SavedMachine, cas: &Cas) -> Result<(), RestoreError> {
        self.mount_saved_trees(&saved.files)?;
        self.vfs.restore(&saved.files, cas)?;
        self.restore_without_files(saved);
        Ok(())
    }

    /// Restores the clock and the random bytes of a saved state.
    pub fn restore_without_files(&mut self, saved: &SavedMachine) {
        if self.clock.is_virtual() {
            self.clock.sleep_until(saved.elapsed_ns);
            self.clock.set_forward(saved.realtime_ns.unwrap_or_default());
            if self.kernel_version > 1 {
                self.vfs.tell_writes_apart(self.clock.now(ClockId::Realtime));
            }
        }
        self.random = Random::at(saved.seed, saved.random_position);
    }

    fn mount_saved_trees(&mut self, saved: &SavedOverlay) -> Result<(), RestoreError> {
        let is_tree = |at: &String| {
            beneath(TOOLCHAINS_ROOT, at).is_some_and(|name| !name.is_empty())
                && !self.vfs.has_mount_at(at)
        };
        let missing: Vec<String> = saved.mount_points().filter(is_tree).take(TREES_MAX).collect();
        let tree = |at: String| {
            let found = self.programs.as_ref().and_then(|programs| programs.tree(&at));
            found.unwrap_or_else(|| NeededTree { at, layer: Arc::new(EmptyTree) })
        };
        let trees: Vec<NeededTree> = missing.into_iter().map(tree).collect();
        let mounted = self.mount_trees(&trees);
        mounted.map_err(|errno| RestoreError::Mounts(format!("a tree of a toolchain: {errno}")))
    }
}

/// Most trees of toolchains that are mounted again.
const TREES_MAX: usize = 10_000;
