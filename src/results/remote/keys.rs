//! The actions under which a server keeps traces.
//!
//! They are never executed: what matters is that their digests are the same everywhere. `docs/caching.md` has the
//! format, so that other tools can read it.

use bazel_remote_apis::build::bazel::remote::execution::v2::{
    Action as RemoteAction, ActionResult, Command, Digest as RemoteDigest, Directory,
    NodeProperties, NodeProperty, OutputFile,
};

use super::super::action::{Action, Place};
use crate::base::digest::Digest;
use crate::remote::{Blob, len_of};

/// The first argument of the commands: the format of traces that they are about.
const FORMAT: &str = "belljar-results-3";

/// The property of an output file with a signature of it, in the format of minisign.
const SIGNATURE: &str = "belljar.minisig";

/// Most bytes of a trace that its result has, too, so that one request is enough.
const INLINE_BYTES_MAX: usize = 16 << 10;

/// Most signatures of a trace. More are not looked at.
pub const SIGNATURES_MAX: usize = 8;

/// An action, and what it consists of.
pub struct Key {
    /// Its digest, under which its result is kept.
    pub action: Blob,
    /// Its command, and its empty input root.
    pub parts: [Blob; 2],
}

impl Key {
    fn new(words: &[&str], salt: &[u8]) -> Self {
        let arguments = [FORMAT].iter().chain(words).map(|word| (*word).to_owned()).collect();
        let command = Blob::of(&Command { arguments, ..Command::default() });
        let root = Blob::of(&Directory::default());
        let action = Blob::of(&RemoteAction {
            command_digest: Some(command.digest.clone()),
            input_root_digest: Some(root.digest.clone()),
            salt: salt.to_vec(),
            ..RemoteAction::default()
        });
        Self { action, parts: [command, root] }
    }

    /// Under which the traces at `place` are kept.
    pub fn of_place(place: Place) -> Self {
        Self::new(&["traces", &place.action.digest().to_string()], place.at.as_bytes())
    }

    /// Under which the list of the traces of runs of `command` is kept.
    pub fn of_run(command: Digest) -> Self {
        Self::new(&["run", &command.to_string()], &[])
    }

    /// Under which a result is kept if a process of the module with the digest `module` has a trace.
    pub fn of_module(module: Digest) -> Self {
        Self::new(&["module", &module.to_string()], &[])
    }
}

/// A trace that a server names in a result.
#[derive(Clone)]
pub struct Named {
    pub digest: RemoteDigest,
    /// What are said to be signatures of it, in the format of minisign.
    pub signatures: Vec<String>,
}

impl Named {
    /// The trace that `file` is; `None` without a digest.
    pub fn of_file(file: OutputFile) -> Option<Self> {
        let properties = file.node_properties.unwrap_or_default().properties.into_iter();
        let signatures = properties.filter(|property| property.name == SIGNATURE);
        let signatures = signatures.take(SIGNATURES_MAX).map(|property| property.value);
        Some(Self { digest: file.digest?, signatures: signatures.collect() })
    }

    /// It as the file `path` of a result.
    pub fn to_file(&self, path: String) -> OutputFile {
        let property = |signature: &String| NodeProperty {
            name: SIGNATURE.to_owned(),
            value: signature.clone(),
        };
        let properties: Vec<_> = self.signatures.iter().map(property).collect();
        let node_properties = (!properties.is_empty())
            .then(|| NodeProperties { properties, ..NodeProperties::default() });
        OutputFile {
            path,
            digest: Some(self.digest.clone()),
            node_properties,
            ..OutputFile::default()
        }
    }

    /// Its length, in bytes.
    pub fn len(&self) -> u64 {
        len_of(&self.digest).unwrap_or(u64::MAX)
    }

    /// What its signatures sign. It says what it is, so that nothing else that the same key has signed is taken for it.
    pub fn signed_text(&self) -> String {
        format!("{FORMAT} trace {} {}\n", self.digest.hash, self.digest.size_bytes)
    }
}

/// A trace of the list of a command.
#[derive(Clone)]
pub struct Listed {
    /// The digest of the module of its process.
    pub module: Digest,
    /// Where the answers of its process lead.
    pub place: Place,
    /// The trace.
    pub named: Named,
}

impl Listed {
    /// The trace that `file` of a list is; `None` if it is none.
    pub fn of_file(mut file: OutputFile) -> Option<Self> {
        let path = std::mem::take(&mut file.path);
        let mut digests = path.split('/').map(Digest::from_hex);
        let (module, action, at) = (digests.next()??, digests.next()??, digests.next()??);
        let place = Place { action: Action::of_digest(action), at };
        Some(Self { module, place, named: Named::of_file(file)? })
    }

    /// It as a file of a list.
    pub fn to_file(&self) -> OutputFile {
        let Place { action, at } = self.place;
        self.named.to_file(format!("{}/{}/{at}", self.module, action.digest()))
    }
}

/// The result with these traces, the first of which has these `bytes`.
pub fn result_of(traces: &[Named], bytes: &[u8]) -> ActionResult {
    let file = |named: &Named| named.to_file(named.digest.hash.clone());
    let output_files = traces.iter().map(file).collect();
    let stdout_raw = if bytes.len() <= INLINE_BYTES_MAX { bytes.to_vec() } else { Vec::new() };
    ActionResult { output_files, stdout_raw, ..ActionResult::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another version of belljar, or another tool, must find what this one has stored.
    #[test]
    fn digests_of_actions_do_not_change() {
        let action = Action::of_digest(Digest::of(b"action"));
        let key = Key::of_place(action.start());
        let module = Key::of_module(Digest::of(b"module"));
        assert_eq!(
            [key.action.digest.hash.as_str(), module.action.digest.hash.as_str()],
            [
                "0455c40d49f24755ba5cd9f485b18e81b76446e02ae4701cb13fd1ceaf785097",
                "c3012f17f71688c787c776035ad1bb7dfac2ac281eadc0021504a749959e16d6"
            ],
        );
        assert_ne!(Key::of_place(action.after(&[])).action.digest, key.action.digest);
    }
}
