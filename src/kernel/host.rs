//! The interface to what answers host calls.

use std::sync::{Arc, Mutex, PoisonError};

use super::pid::Pid;
use super::process::schedule::Image;

/// Answers host calls, such as `process.exec`.
pub trait Host: Send + Sync {
    /// Returns whether `caller` could call `name`: a capability, or one of its operations.
    fn has(&self, caller: Pid, name: &str) -> bool;

    /// Returns the image of a process that makes `call`, and where it puts the answer.
    fn call(&self, call: HostCall) -> (Box<dyn Image>, HostReply);

    /// Returns whether [`Host::may_start`] must be called before each start.
    fn checks_starts(&self) -> bool;

    /// Decides whether a process may start a program.
    ///
    /// # Errors
    /// The reason of a refusal.
    fn may_start(&self, start: &Start<'_>) -> Result<(), String>;

    /// The process `pid` has ended: what calls of it left open at the host is closed.
    fn process_ended(&self, pid: Pid);
}

/// A host call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostCall {
    /// The operation: `CAPABILITY.OPERATION`.
    pub name: String,
    /// The parameters: JSON, or empty.
    pub params: Arc<[u8]>,
    /// Number of host calls that it is made within.
    pub depth: u32,
}

/// A program that is about to be started.
pub struct Start<'a> {
    /// The parent.
    pub pid: Pid,
    /// The process group of the parent.
    pub group: Pid,
    /// Number of starts that the parent has tried before.
    pub number: u32,
    /// The requested program: a name or a path.
    pub program: &'a str,
    /// The arguments, the program's name first.
    pub args: &'a [Vec<u8>],
    /// Its current directory.
    pub current_dir: &'a str,
    /// Whether programs that it starts in turn can be seen: false for a native program.
    pub is_watched: bool,
}

/// A slot for the answer of a call: JSON, `{"ok": …}` or `{"error": {"kind": …, "message": …}}`.
#[derive(Clone, Default)]
pub struct HostReply(Arc<Mutex<Option<String>>>);

impl HostReply {
    /// Stores the answer.
    pub fn put(&self, json: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(json);
    }

    /// Takes the answer, if there is one.
    pub fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
