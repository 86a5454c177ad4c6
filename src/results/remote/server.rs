//! The traces that a server keeps.

use bazel_remote_apis::build::bazel::remote::execution::v2::{
    ActionResult, Digest as RemoteDigest,
};

use super::keys::{Key, Named, SIGNATURES_MAX, result_of};
use super::trust::Trust;
use super::{REMOTE_TRACE_BYTES_MAX, RemoteConfig, TRACES_MAX};
use crate::base::digest::Digest;
use crate::remote::{Blob, Connection, RemoteError, is_digest};
use crate::results::action::Place;

/// Most files of a result that are looked at. More than [`TRACES_MAX`] are there only if others do not keep to that.
const FILES_MAX: usize = 64;

/// A server with traces.
pub struct Server {
    connection: Connection,
    trust: Trust,
}

impl Server {
    pub fn new(config: &RemoteConfig) -> Result<Self, RemoteError> {
        Ok(Self { connection: Connection::new(&config.server())?, trust: Trust::of(config) })
    }

    /// The bytes of the traces at `place` that are trusted, and how many are not. One that the server has lost is none.
    pub fn traces(&self, place: Place) -> Result<(Vec<Vec<u8>>, u64), RemoteError> {
        let Some(result) = self.result(&Key::of_place(place))? else {
            return Ok(Default::default());
        };
        let (trusted, untrusted) = self.named(result)?;
        let mut traces = Vec::new();
        let mut bytes_left = REMOTE_TRACE_BYTES_MAX;
        for Named { digest, .. } in trusted {
            match bytes_left.checked_sub(u64::try_from(digest.size_bytes).unwrap_or(u64::MAX)) {
                Some(left) => bytes_left = left,
                None => break,
            }
            traces.extend(self.connection.read(&digest)?);
        }
        Ok((traces, untrusted.len() as u64))
    }

    /// The first files of `result`, each once: those that are trusted, and the others.
    fn named(&self, result: ActionResult) -> Result<(Vec<Named>, Vec<Named>), RemoteError> {
        let (mut trusted, mut untrusted): (Vec<Named>, Vec<Named>) = (Vec::new(), Vec::new());
        let files = result.output_files.into_iter().take(FILES_MAX);
        for named in files.filter_map(Named::of_file) {
            if trusted.iter().chain(&untrusted).any(|other| other.digest == named.digest) {
                continue;
            }
            if !self.trust.accepts(&named) {
                untrusted.push(named);
            } else if !is_digest(&named.digest, REMOTE_TRACE_BYTES_MAX) {
                let Named { digest: RemoteDigest { hash, size_bytes }, .. } = named;
                let reason = format!("a file of {size_bytes} bytes, {hash:?}");
                return Err(self.connection.wrong("GetActionResult", reason));
            } else if trusted.len() < TRACES_MAX {
                trusted.push(named);
            }
        }
        Ok((trusted, untrusted))
    }

    pub fn knows(&self, module: Digest) -> Result<bool, RemoteError> {
        Ok(self.result(&Key::of_module(module))?.is_some())
    }

    /// Adds the trace with `bytes` to those at `place`.
    pub fn add(&self, place: Place, bytes: Vec<u8>) -> Result<(), RemoteError> {
        let key = Key::of_place(place);
        let trace = Blob::new(bytes);
        let mut traces = vec![Named { digest: trace.digest.clone(), signatures: Vec::new() }];
        if let Some(result) = self.result(&key)? {
            // What is not a trace, or lost, is overwritten. What others trust stays, as far as there is room.
            let (mut others, untrusted) = self.named(result).unwrap_or_default();
            others.extend(
                untrusted
                    .into_iter()
                    .filter(|other| is_digest(&other.digest, REMOTE_TRACE_BYTES_MAX)),
            );
            let digests: Vec<_> = others.iter().map(|other| other.digest.clone()).collect();
            let lost = self.connection.missing(&digests)?;
            for other in others {
                if other.digest == trace.digest {
                    traces[0].signatures = other.signatures;
                } else if !lost.contains(&other.digest) {
                    traces.push(other);
                }
            }
            traces.truncate(TRACES_MAX);
        }
        if let Some(signature) = self.trust.sign(&traces[0]) {
            traces[0].signatures.retain(|other| *other != signature);
            traces[0].signatures.insert(0, signature);
            traces[0].signatures.truncate(SIGNATURES_MAX);
        }
        self.put(key, vec![trace], result_of(&traces))
    }

    /// Notes that a process of the module with the digest `module` has a trace.
    pub fn add_module(&self, module: Digest) -> Result<(), RemoteError> {
        // Servers may take a result without anything for one that they have lost.
        let marker = Blob::new(b"belljar\n".to_vec());
        let named = Named { digest: marker.digest.clone(), signatures: Vec::new() };
        self.put(Key::of_module(module), vec![marker], result_of(&[named]))
    }

    fn result(&self, key: &Key) -> Result<Option<ActionResult>, RemoteError> {
        self.connection.action_result(&key.action.digest)
    }

    /// Stores `result` of `key`, after the contents that it needs.
    fn put(&self, key: Key, mut blobs: Vec<Blob>, result: ActionResult) -> Result<(), RemoteError> {
        self.connection.expect_updates()?;
        let action = key.action.digest.clone();
        blobs.extend(key.parts);
        blobs.push(key.action);
        self.connection.write(blobs)?;
        self.connection.update_action_result(action, result)
    }
}
