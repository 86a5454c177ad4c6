//! Programs that processes can start.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use super::schedule::Image;
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::kernel::vfs::Layer;
use crate::tape::{Launch, LaunchTree};

/// Finds programs for processes. Implemented where programs are loaded.
pub trait Programs: Send + Sync {
    /// The program `name` of a toolchain, if there is one.
    ///
    /// # Errors
    /// [`NotRunnable`] if it cannot run.
    fn named(&self, name: &str) -> Result<Option<Found>, NotRunnable>;

    /// The program whose module is `bytes`, from the file `path` of the namespace.
    ///
    /// # Errors
    /// [`NotRunnable`] if it is not a module, or cannot run.
    fn module(&self, path: &str, bytes: Vec<u8>) -> Result<Found, NotRunnable>;

    /// The substitute for the program `name`, which neither a toolchain nor a directory of `PATH` has.
    /// Default: none.
    ///
    /// # Errors
    /// [`NotRunnable`] if it must not run.
    fn missing(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        let _ = name;
        Ok(None)
    }

    /// The tree of a toolchain that is mounted at `at` when a program of it starts: for a machine that is restored.
    /// Default: none.
    fn tree(&self, at: &str) -> Option<NeededTree> {
        let _ = at;
        None
    }
}

/// Where a program is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// [`Programs::named`].
    Toolchain,
    /// [`Programs::module`].
    File,
    /// [`Programs::missing`].
    Substitute,
}

impl Place {
    /// Its name on a tape.
    pub fn name(self) -> &'static str {
        match self {
            Self::Toolchain => "toolchain",
            Self::File => "file",
            Self::Substitute => "substitute",
        }
    }

    /// Returns the place with this name on a tape.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Toolchain, Self::File, Self::Substitute].into_iter().find(|it| it.name() == name)
    }
}

/// Most uncounted time of a run. Time beyond that counts.
const UNCOUNTED_MAX: Duration = Duration::from_hours(1);

thread_local! {
    /// Uncounted real time of this thread.
    static UNCOUNTED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Does `work` without counting its time for [`crate::kernel::machine::limits::Limits::timeout`] of runs
/// on this thread, such as compiling a program.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let (begun, before) = (ambient::instant_now(), UNCOUNTED.get());
    let done = work();
    UNCOUNTED.set(before + ambient::elapsed_since(begun));
    done
}

/// Uncounted real time of this thread so far.
#[inline]
pub(crate) fn uncounted_time() -> Duration {
    UNCOUNTED.get()
}

/// Uncounted real time since `before`, up to its limit.
pub(in crate::kernel) fn uncounted_since(before: Duration) -> Duration {
    UNCOUNTED.get().saturating_sub(before).min(UNCOUNTED_MAX)
}

/// Makes an image of a program, one for each process.
pub type MakeImage = Arc<dyn Fn() -> Box<dyn Image> + Send + Sync>;

/// A program that can be run.
pub struct Found {
    /// The image.
    pub image: Box<dyn Image>,
    /// The digest of the module, if it is one.
    pub digest: Option<Digest>,
    /// The file of the namespace that was loaded; `None` if a toolchain has it.
    pub path: Option<String>,
    /// What its toolchain adds to the arguments and variables that it is started with.
    pub launch: Launch,
    /// The trees of its toolchain.
    pub trees: Vec<NeededTree>,
}

impl Found {
    /// A program that is not a module.
    pub fn built_in(image: Box<dyn Image>) -> Self {
        Self { image, digest: None, path: None, launch: Launch::default(), trees: Vec::new() }
    }
}

/// A read-only tree that programs of a toolchain need.
#[derive(Clone)]
pub struct NeededTree {
    /// Where it is mounted.
    pub at: String,
    /// The tree.
    pub layer: Arc<dyn Layer>,
}

impl NeededTree {
    /// The tree on a tape.
    pub fn taped(&self) -> LaunchTree {
        LaunchTree { path: self.at.clone(), exact_names: self.layer.names_are_exact() }
    }
}

/// A program that was found cannot run.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotRunnable(pub String);

crate::base::readable::readable!(NotRunnable);
