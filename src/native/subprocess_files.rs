//! Where files of recorded programs are recorded, and made again.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::kernel::vfs::{Overlay, VPath};

/// Default limit of the files, directories and links beneath the root of a session whose changes are recorded.
pub const FILES_ENTRIES_MAX: usize = 200_000;

/// Default limit of one file that a recorded program wrote, in bytes.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

/// Default limit of all that recorded programs wrote, in bytes.
pub const FILES_BYTES_MAX: u64 = 1 << 30;

/// Where a replay makes the files that recorded programs changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MakeFiles {
    /// Nowhere; they are not recorded either.
    #[default]
    Nowhere,
    /// In the worktree of the machine: the disk stays as it is.
    InOverlay,
    /// On the disk, beneath the root, without following links. Files that other tools may run or obey, such as those of
    /// `.git`, are left out.
    OnDisk,
}

/// Writes the changes of an overlay to the disk.
type Write = dyn Fn(&mut Overlay) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync;

/// What writes changes to the disk; [`Overlay::apply`], if it is not set.
#[derive(Clone, Default)]
pub(super) struct Writer(pub Option<Arc<Write>>);

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "set" } else { "not set" })
    }
}

/// What is recorded of the files that programs change beneath the root of their session, and where they are made again.
///
/// ```
/// use belljar::native::SubprocessFiles;
///
/// let files = SubprocessFiles::in_overlay().ignore("node_modules").ignore("build/cache");
/// assert!(files.ignores("web/node_modules/left-pad/index.js"));
/// assert!(files.ignores("build/cache/a") && !files.ignores("lib/build/cache"));
/// ```
#[derive(Clone, Debug)]
pub struct SubprocessFiles {
    pub(super) make: MakeFiles,
    pub(super) write: Writer,
    ignored: Vec<String>,
    pub(super) entries_max: usize,
    pub(super) file_bytes_max: u64,
    pub(super) bytes_max: u64,
}

impl Default for SubprocessFiles {
    fn default() -> Self {
        Self {
            make: MakeFiles::default(),
            write: Writer::default(),
            ignored: Vec::new(),
            entries_max: FILES_ENTRIES_MAX,
            file_bytes_max: FILE_BYTES_MAX,
            bytes_max: FILES_BYTES_MAX,
        }
    }
}

impl SubprocessFiles {
    /// Files are neither recorded nor made again.
    #[must_use]
    pub fn nowhere() -> Self {
        Self::default()
    }

    /// A replay makes files in the worktree of the machine.
    #[must_use]
    pub fn in_overlay() -> Self {
        Self { make: MakeFiles::InOverlay, ..Self::default() }
    }

    /// A replay makes files on the disk.
    #[must_use]
    pub fn on_disk() -> Self {
        Self { make: MakeFiles::OnDisk, ..Self::default() }
    }

    /// Sets what writes the changes of a call to the disk, all or nothing, in place of [`Overlay::apply`]: such as
    /// [`Overlay::apply_journaled`], which holds if the process is killed, too.
    #[must_use]
    pub fn write_by(
        mut self,
        write: impl Fn(&mut Overlay) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        self.write = Writer(Some(Arc::new(write)));
        self
    }

    /// Where a replay makes files.
    pub fn make(&self) -> MakeFiles {
        self.make
    }

    /// Leaves out `path` and all beneath it: a path from the root, or if it has no slash, everything of this name.
    #[must_use]
    pub fn ignore(mut self, path: impl Into<String>) -> Self {
        self.ignored.push(path.into());
        self
    }

    /// Sets how many files, directories and links the root may have. Default: [`FILES_ENTRIES_MAX`].
    #[must_use]
    pub fn entries_max(mut self, entries: usize) -> Self {
        self.entries_max = entries;
        self
    }

    /// Sets how long a file that a program writes may be, in bytes. Default: [`FILE_BYTES_MAX`].
    #[must_use]
    pub fn file_bytes_max(mut self, bytes: u64) -> Self {
        self.file_bytes_max = bytes;
        self
    }

    /// Sets how long all files that programs write may be together, in bytes. Default: [`FILES_BYTES_MAX`].
    #[must_use]
    pub fn bytes_max(mut self, bytes: u64) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Whether `path`, from the root, is left out.
    pub fn ignores(&self, path: &str) -> bool {
        self.ignored.iter().any(|ignored| match VPath::parse(ignored) {
            Err(_) => false,
            Ok(_) if !ignored.contains('/') => path.split('/').any(|name| name == ignored),
            Ok(at) => {
                let rest = path.strip_prefix(at.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        })
    }
}
