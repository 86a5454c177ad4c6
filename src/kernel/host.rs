//! What processes may ask of their host, by name. Implemented where capabilities are.

use std::sync::{Arc, Mutex, PoisonError};

use super::pid::Pid;
use super::process::schedule::Image;

/// Answers calls that processes make by name, such as `process.exec`.
pub trait Host: Send + Sync {
    /// Whether `caller` could call `name`: a capability, or one of its operations.
    fn has(&self, caller: Pid, name: &str) -> bool;

    /// What makes `call`: a process of its own, which puts the answer into the reply.
    fn call(&self, call: HostCall) -> (Box<dyn Image>, HostReply);

    /// Whether [`Host::may_start`] has to be asked.
    fn checks_starts(&self) -> bool;

    /// Whether a process may start a program.
    ///
    /// # Errors
    /// Why it may not.
    fn may_start(&self, start: &Start<'_>) -> Result<(), String>;
}

/// A call of a process, or of the host's own code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostCall {
    /// The operation: `CAPABILITY.OPERATION`.
    pub name: String,
    /// What is passed: JSON, or nothing at all.
    pub params: Arc<[u8]>,
    /// How many calls it is made within.
    pub depth: u32,
}

/// A program that is about to be started.
pub struct Start<'a> {
    /// Who starts it.
    pub pid: Pid,
    /// The group of whoever starts it.
    pub group: Pid,
    /// How many programs that process has tried to start before.
    pub number: u32,
    /// What is asked for: a name, or a path.
    pub program: &'a str,
    /// The arguments, the program's name first.
    pub args: &'a [Vec<u8>],
    /// Where it would begin.
    pub current_dir: &'a str,
    /// Whether what it starts in turn can be seen: it is no program of the host.
    pub is_watched: bool,
}

/// Where the answer of a call is put: JSON, `{"ok": …}` or `{"error": {"kind": …, "message": …}}`.
#[derive(Clone, Default)]
pub struct HostReply(Arc<Mutex<Option<String>>>);

impl HostReply {
    /// Puts the answer.
    pub fn put(&self, json: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(json);
    }

    /// Takes the answer, if there is one.
    pub fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
