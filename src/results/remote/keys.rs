//! The actions under which a server keeps traces.
//!
//! They are never executed: what matters is that their digests are the same everywhere. `docs/caching.md` has the
//! format, so that other tools can read it.

use bazel_remote_apis::build::bazel::remote::execution::v2::{
    Action as RemoteAction, ActionResult, Command, Digest as RemoteDigest, Directory,
    NodeProperties, NodeProperty, OutputFile,
};

use super::super::action::Place;
use crate::base::digest::Digest;
use crate::remote::Blob;

/// The first argument of the commands: the format of traces that they are about.
const FORMAT: &str = "belljar-results-2";

/// The property of an output file with a signature of it, in the format of minisign.
const SIGNATURE: &str = "belljar.minisig";

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

    fn to_file(&self) -> OutputFile {
        let property = |signature: &String| NodeProperty {
            name: SIGNATURE.to_owned(),
            value: signature.clone(),
        };
        let properties: Vec<_> = self.signatures.iter().map(property).collect();
        let node_properties = (!properties.is_empty())
            .then(|| NodeProperties { properties, ..NodeProperties::default() });
        OutputFile {
            path: self.digest.hash.clone(),
            digest: Some(self.digest.clone()),
            node_properties,
            ..OutputFile::default()
        }
    }

    /// What its signatures sign. It says what it is, so that nothing else that the same key has signed is taken for it.
    pub fn signed_text(&self) -> String {
        format!("{FORMAT} trace {} {}\n", self.digest.hash, self.digest.size_bytes)
    }
}

/// The result with these traces.
pub fn result_of(traces: &[Named]) -> ActionResult {
    let output_files = traces.iter().map(Named::to_file).collect();
    ActionResult { output_files, ..ActionResult::default() }
}

#[cfg(test)]
mod tests {
    use super::super::super::action::Action;
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
                "20307b93d8f7de6cad1870824ce772f4dbcdba62cb9c0403050ff939b723c428",
                "eccaca5c72df81c9092c771ffc9ac8fad8db81cb7c169948c680cac9884064db"
            ],
        );
        assert_ne!(Key::of_place(action.after(&[])).action.digest, key.action.digest);
    }
}
