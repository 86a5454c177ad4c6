//! Files on a process tape: what a program was given, and what it changed.

use serde::{Deserialize, Serialize};

use super::TapedBytes;
use crate::base::digest::Digest;
use crate::kernel::vfs::{EntryState, StateChange, VPath};

/// What is at a path, without its times and without permissions other than the owner's to execute it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "file_type", rename_all = "snake_case")]
pub enum TapedState {
    /// A regular file.
    File {
        /// The digest of its content, which is in the store next to the tape if a program wrote it.
        content_hash: Digest,
        /// Its length in bytes.
        len_bytes: u64,
        /// Its owner may execute it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        executable: bool,
        /// The rule for secrets that kept its content out of the store.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        withheld_by: Option<String>,
    },
    /// A directory.
    Dir,
    /// A symbolic link.
    Link {
        /// Its text.
        target: TapedBytes,
    },
    /// A pipe, socket or device, or a file that may not be read.
    Other,
}

/// A file that a program was given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TapedInput {
    /// Its path from the root of the session, with `/` between names.
    pub path: String,
    /// What was there before the program ran.
    #[serde(flatten)]
    pub state: TapedState,
}

/// A path that a program changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TapedChange {
    /// Its path from the root of the session, with `/` between names.
    pub path: String,
    /// What was there before the program ran; `None` for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<TapedState>,
    /// What was there when it had ended; `None` for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<TapedState>,
}

impl TapedState {
    pub(super) fn of(state: &EntryState) -> Self {
        match state {
            EntryState::File { digest, len_bytes, executable } => Self::File {
                content_hash: *digest,
                len_bytes: *len_bytes,
                executable: *executable,
                withheld_by: None,
            },
            EntryState::Dir => Self::Dir,
            EntryState::Link { target } => Self::Link { target: TapedBytes::from(target) },
            EntryState::Other => Self::Other,
        }
    }

    /// Whether both are the same to a program that reads them.
    pub(super) fn is_same(one: Option<&Self>, other: Option<&Self>) -> bool {
        let without_rule = |state: &Self| match state.clone() {
            Self::File { content_hash, len_bytes, executable, .. } => {
                Self::File { content_hash, len_bytes, executable, withheld_by: None }
            }
            state => state,
        };
        one.map(without_rule) == other.map(without_rule)
    }

    /// For messages.
    pub(super) fn shown(state: Option<&Self>) -> String {
        match state {
            None => "nothing".to_owned(),
            Some(Self::File { content_hash, len_bytes, executable, .. }) => {
                let digest = content_hash.to_string();
                let executable = if *executable { ", executable" } else { "" };
                format!("a file of {len_bytes} bytes, {}…{executable}", &digest[..12])
            }
            Some(Self::Dir) => "a directory".to_owned(),
            Some(Self::Link { target }) => format!("a symbolic link to {target:?}"),
            Some(Self::Other) => "something that cannot be read".to_owned(),
        }
    }
}

impl TapedChange {
    pub(super) fn of(change: &StateChange) -> Self {
        Self {
            path: change.path.as_str().to_owned(),
            before: change.before.as_ref().map(TapedState::of),
            after: change.after.as_ref().map(TapedState::of),
        }
    }
}

/// Checks the paths of an untrusted entry: each is beneath the root, spelled in the one way, and there once.
pub(super) fn check_paths<'a>(
    field: &str,
    paths: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    let mut last: Option<VPath> = None;
    for path in paths {
        let parsed = VPath::parse(path).ok();
        let parsed = parsed.filter(|parsed| parsed.as_str() == path && !parsed.is_root());
        let Some(parsed) = parsed else {
            return Err(format!("{path:?} in {field} is not a path beneath the root"));
        };
        if last.is_some_and(|last| last >= parsed) {
            return Err(format!("{path:?} in {field} is not sorted, or is there twice"));
        }
        last = Some(parsed);
    }
    Ok(())
}
