//! The configuration of a machine as data, for tapes.

use serde::{Deserialize, Serialize};

use super::ClockConfig;
use super::limits::Limits;
use crate::kernel::vfs::{Layer, Mtimes, Source, TimeScale};

/// The version of the kernel's answers. A replay runs the module again, so it needs the answers of the
/// version on its tape:
///
/// - 0: the worktree is at `/src`; what is not found from the current directory is looked up, and created,
///   from the root ([`crate::Reach::NamespaceOrRoot`]); the monotonic clock starts at 0.
/// - 1: writes may have equal times and do not set the clock forward; files below show the disk's times
///   unchanged, if they show them; a write to a standard stream without reader is `EPIPE`, even if the
///   process does not ignore `SIGPIPE`.
/// - 2: the current directory is the path by which it was reached: `..` shortens that text, and children
///   start at that path, whatever has become of the directory.
/// - 3: a native program is killed when the reader of its output hangs up, without a record.
/// - 4: a run has only the output and memory that earlier runs left; the end of a process is not a step; the
///   contents of a directory that was moved may have the times of what replaces them; a directory is one
///   step later than the last entry created in it.
/// - 5: writes to a file that stays open may have equal times, although a process ended between them; without
///   `PATH`, programs are looked up in the current directory.
/// - 6: a file that was moved or linked over one with equal content is no change.
/// - 7: `test -x` of the shell is true for every file that exists.
/// - 8: a signal to a process that stands for another one, as after `exec`, ends that process alone; a file that
///   was made anew with the content of the one in its place, and got another name, is two files; a file that
///   is found empty was not read.
/// - 9: a file or symbolic link that was made anew, under several names that have equal ones, is no change;
///   calls on descriptors of directories have other errnos than on Linux: flags, advice and polls are refused, an empty
///   path and flags of `path_open` are looked at last, and a bad descriptor before the path of another one.
/// - 10: a process that asks again and again, without a wait, for what others are to bring about gets the same answer for
///   ever: no time passes; nor does it for shells that run many commands, for processes that read the clock between
///   other calls, or that each read it once. The shell's `kill` reaches jobs that have ended, and
///   children that end while it waits for another one are there until they are asked for. A link text and the rest of the
///   path have one limit together; `fd_allocate` within a file does not set its time; arguments of processes count as
///   memory with their bytes alone. A native program whose output cannot be written is not runnable.
/// - 11: the present answers.
pub const KERNEL_VERSION: u32 = 11;

/// The configuration of a machine, without the contents of its mounts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MachineConfig {
    /// The clock.
    pub clock: ClockConfig,
    /// Its first time, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// Its first monotonic time in nanoseconds, which is not 0 for the host's clock.
    #[serde(default, skip_serializing_if = "is_0")]
    pub start_monotonic_ns: u64,
    /// Times that files below show.
    pub mtimes: Mtimes,
    /// The seed of `random_get`.
    pub seed: u64,
    /// The limits.
    pub limits: Limits,
    /// Whether there is a `/tmp` in memory.
    pub tmp: bool,
    /// The host, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostConfig>,
    /// [`KERNEL_VERSION`] when the tape was recorded; 0 on tapes from before it existed.
    #[serde(default, skip_serializing_if = "is_0")]
    pub kernel_version: u32,
    /// Whether it had programs, so that lookups are on the tape. `None` on older tapes: in a replay,
    /// processes then find the programs that were started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_programs: Option<bool>,
    /// The mounts, in the order of mounting.
    pub mounts: Vec<MountConfig>,
}

/// The configuration of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostConfig {
    /// Whether it was asked before each start of a program.
    pub checks_starts: bool,
}

/// A mount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MountConfig {
    /// The mount point.
    pub path: String,
    /// Where its files come from.
    pub source: SourceKind,
    /// Whether writes are `EROFS`.
    pub read_only: bool,
    /// Whether names are found only in their stored spelling.
    pub exact_names: bool,
}

/// Where the files of a mount come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Memory: it starts empty.
    Memory,
    /// A directory of the host, or a layer.
    Tree,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_0<T: Copy + Into<u64>>(number: &T) -> bool {
    (*number).into() == 0
}

impl MountConfig {
    /// The configuration of `source` mounted at `path`.
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

/// Returns how version `kernel_version` of the kernel shows times of files.
pub(super) fn time_scale(kernel_version: u32, clock: ClockConfig) -> TimeScale {
    match clock {
        _ if kernel_version < 2 => TimeScale::Unknown,
        ClockConfig::Paused { start_ns } => TimeScale::Paused(start_ns),
        ClockConfig::Host => TimeScale::Same,
    }
}

impl MachineConfig {
    /// Returns how times of files and of the clock are related in this machine.
    pub(crate) fn time_scale(&self) -> TimeScale {
        time_scale(self.kernel_version, self.clock)
    }
}
