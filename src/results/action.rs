//! What a process is told apart by before it makes a call.

use std::hash::Hasher;

use super::trace::Answer;
use crate::base::digest::{Digest, DigestHasher};

/// Raised when traces of earlier versions must not be followed any more.
const VERSION: u32 = 2;

/// A module, its arguments and what else can change what it does without a call. All that a process learns by a call,
/// such as its environment, is in its [`super::Trace`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Action(Digest);

impl Action {
    /// The action of the module with the digest `module`, started with `args` in a machine of version `kernel_version`
    /// whose processes may take `memory_bytes_max` bytes of memory.
    pub fn new(
        module: Digest,
        args: &[Vec<u8>],
        kernel_version: u32,
        memory_bytes_max: u64,
    ) -> Self {
        let mut hasher = DigestHasher::default();
        hasher.write(&VERSION.to_le_bytes());
        hasher.write(&kernel_version.to_le_bytes());
        hasher.write(&memory_bytes_max.to_le_bytes());
        hasher.write(module.as_bytes());
        for arg in args {
            hasher.write(&(arg.len() as u64).to_le_bytes());
            hasher.write(arg);
        }
        Self(hasher.digest())
    }

    /// The place of its first trace.
    pub fn start(&self) -> Place {
        Place { action: *self, at: self.0 }
    }

    /// The place of traces of this action that begin with `answers`, the last of which leads away from the trace that
    /// was followed before.
    pub fn after(&self, answers: &[Answer]) -> Place {
        let mut hasher = DigestHasher::default();
        hasher.write(self.0.as_bytes());
        for answer in answers {
            answer.hash_into(&mut hasher);
        }
        Place { action: *self, at: hasher.digest() }
    }

    /// The place of the trace by which a process goes on after it got `answers`: the first one, if it got none.
    pub(super) fn place(&self, answers: &[Answer]) -> Place {
        if answers.is_empty() { self.start() } else { self.after(answers) }
    }

    /// The action with this digest.
    pub fn of_digest(digest: Digest) -> Self {
        Self(digest)
    }

    /// Its digest.
    pub fn digest(&self) -> Digest {
        self.0
    }
}

/// Where a trace of an action is in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The action.
    pub action: Action,
    /// The digest of the answers that lead there; that of the action for its first trace.
    pub at: Digest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_differ_if_anything_does() {
        let module = Digest::of(b"module");
        let args =
            |args: &[&str]| args.iter().map(|arg| arg.as_bytes().to_vec()).collect::<Vec<_>>();
        let action = Action::new(module, &args(&["cc", "a.c"]), 9, 1 << 30);
        assert_eq!(action, Action::new(module, &args(&["cc", "a.c"]), 9, 1 << 30));
        for other in [
            Action::new(Digest::of(b"other"), &args(&["cc", "a.c"]), 9, 1 << 30),
            Action::new(module, &args(&["cc", "a.", "c"]), 9, 1 << 30),
            Action::new(module, &args(&["cca.c"]), 9, 1 << 30),
            Action::new(module, &args(&["cc", "a.c"]), 10, 1 << 30),
            Action::new(module, &args(&["cc", "a.c"]), 9, 1 << 31),
        ] {
            assert_ne!(action, other);
        }
    }
}
