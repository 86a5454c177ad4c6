//! How a machine was put together, as data: what a tape needs to put it together again.

use serde::{Deserialize, Serialize};

use super::ClockConfig;
use super::limits::Limits;
use crate::kernel::vfs::{Layer, Mtimes, Source, TimeScale};

/// The version of what the kernel answers. A replay runs the module again, and so has to answer what
/// was answered when the tape was recorded, by the version on the tape:
///
/// - 0: the worktree is at `/src`, and what is not found from the current directory is looked up, and
///   made, from the root ([`crate::Reach::NamespaceOrRoot`]); the monotonic clock starts at 0.
/// - 1: writes are not told apart by their times, which set the clock forward, and files below show the disk's
///   times as they are, if they show them; writing to a standard stream that
///   nobody reads answers `EPIPE`, also to a process that does not ignore `SIGPIPE`.
/// - 2: `..` of the current directory goes up in the text of its path, which is that by which it was
///   reached, and processes are started at that path, whatever has become of the directory.
/// - 3: a program of the host is ended as soon as the reader of its output hangs up, and the tape does not
///   say that.
/// - 4: what a run has spent of the limits on output and memory is missing in the next run of the machine; the end
///   of a process is no step; a directory that is moved takes nothing with it that writes are told apart from, and one in which
///   something is made is a step later than that.
/// - 5: as it is now.
pub const KERNEL_VERSION: u32 = 5;

/// The configuration of a machine, without what its mounts hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MachineConfig {
    /// What the clock is.
    pub clock: ClockConfig,
    /// What the clock showed first, nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// What its monotonic clock showed first, in nanoseconds: the host's may not show 0.
    #[serde(default, skip_serializing_if = "is_0")]
    pub start_monotonic_ns: u64,
    /// Times that files below show.
    pub mtimes: Mtimes,
    /// The seed of `random_get`.
    pub seed: u64,
    /// The bounds.
    pub limits: Limits,
    /// Whether there is a `/tmp` in memory.
    pub tmp: bool,
    /// Whom processes could ask by name, if anybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostConfig>,
    /// Which kernel it was: [`KERNEL_VERSION`] when the tape was recorded, and 0 on tapes from before
    /// there was such a number.
    #[serde(default, skip_serializing_if = "is_0")]
    pub kernel_version: u32,
    /// Whether it had programs for processes to start; what they found is then on the tape. `None` on
    /// tapes from before that was so: a replay has programs, and what they find is what was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_programs: Option<bool>,
    /// The mounts, in the order of mounting.
    pub mounts: Vec<MountConfig>,
}

/// What a machine's host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostConfig {
    /// Whether it was asked at each start of a program.
    pub checks_starts: bool,
}

/// A line of the mount table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MountConfig {
    /// The mount point.
    pub path: String,
    /// Where its files come from.
    pub source: SourceKind,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether the layer finds a name only under its stored spelling.
    pub exact_names: bool,
}

/// Where the files of a mount come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Nowhere: it starts empty.
    Memory,
    /// A tree below: a directory of the host, or a layer.
    Tree,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_0<T: Copy + Into<u64>>(number: &T) -> bool {
    (*number).into() == 0
}

impl MountConfig {
    /// The line for `source` at `path`.
    pub fn of(path: &str, source: &Source, read_only: bool) -> Self {
        let (kind, exact_names) = match source {
            Source::Memory => (SourceKind::Memory, true),
            Source::Host(dir) => (SourceKind::Tree, dir.names_are_exact()),
            Source::Baseline(baseline) => (SourceKind::Tree, baseline.names_are_exact()),
            Source::Layers(layers) => {
                (SourceKind::Tree, layers.iter().all(|layer| layer.names_are_exact()))
            }
        };
        Self { path: path.to_owned(), source: kind, read_only, exact_names }
    }
}

/// How the version `kernel_version` of the kernel shows times of files.
pub(super) fn time_scale(kernel_version: u32, clock: ClockConfig) -> TimeScale {
    match clock {
        _ if kernel_version < 2 => TimeScale::Unknown,
        ClockConfig::Paused { start_ns } => TimeScale::Paused(start_ns),
        ClockConfig::Host => TimeScale::Same,
    }
}

impl MachineConfig {
    /// How times of files and of the clock belong together in such a machine.
    pub(crate) fn time_scale(&self) -> TimeScale {
        time_scale(self.kernel_version, self.clock)
    }
}
