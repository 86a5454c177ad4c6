//! What the processes of a machine can start.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use super::schedule::Image;
use crate::base::ambient;
use crate::base::digest::Digest;

/// Finds programs for processes that start others. Implemented where programs are loaded.
pub trait Programs: Send + Sync {
    /// The program called `name`, if a toolchain has it.
    ///
    /// # Errors
    /// [`NotRunnable`] if it has something of this name that cannot run.
    fn named(&self, name: &str) -> Result<Option<Found>, NotRunnable>;

    /// The program whose module is `bytes`, from the file `path` of the namespace.
    ///
    /// # Errors
    /// [`NotRunnable`] if it is no module, or one that cannot run.
    fn module(&self, path: &str, bytes: Vec<u8>) -> Result<Found, NotRunnable>;

    /// What stands for the program called `name`, which neither a toolchain nor a folder of `PATH`
    /// has. Default: nothing.
    ///
    /// # Errors
    /// [`NotRunnable`] if there is something that must not run.
    fn missing(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        let _ = name;
        Ok(None)
    }
}

/// Where a program is looked for, as a tape names it.
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
    /// Its name on tapes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Toolchain => "toolchain",
            Self::File => "file",
            Self::Substitute => "substitute",
        }
    }

    /// The one with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Toolchain, Self::File, Self::Substitute].into_iter().find(|it| it.name() == name)
    }
}

/// Time that a run may spend on what no timeout counts. Beyond, its timeout counts that as well.
const UNCOUNTED_MAX: Duration = Duration::from_hours(1);

thread_local! {
    /// Real time that was spent on this thread on what no timeout counts.
    static UNCOUNTED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Does `work`, which is done for a program and is not its own: [`crate::kernel::machine::limits::Limits::timeout`] does
/// not count it for runs of this thread.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let (begun, before) = (ambient::instant_now(), UNCOUNTED.get());
    let done = work();
    UNCOUNTED.set(before + ambient::elapsed_since(begun));
    done
}

/// Real time that was spent on this thread by now on what no timeout counts.
pub(in crate::kernel) fn uncounted_by_now() -> Duration {
    UNCOUNTED.get()
}

/// Real time since `before` that a timeout does not count.
pub(in crate::kernel) fn uncounted_since(before: Duration) -> Duration {
    UNCOUNTED.get().saturating_sub(before).min(UNCOUNTED_MAX)
}

/// Makes something that can be run as a process, once for each.
pub type MakeImage = Arc<dyn Fn() -> Box<dyn Image> + Send + Sync>;

/// A program that can be run.
pub struct Found {
    /// What runs.
    pub image: Box<dyn Image>,
    /// The digest of its module, if it is one.
    pub digest: Option<Digest>,
    /// The file of the namespace that it comes from; `None` if a toolchain has it.
    pub path: Option<String>,
}

/// What was found cannot run.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotRunnable(pub String);

crate::base::readable::readable!(NotRunnable);
