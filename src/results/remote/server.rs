//! The traces that a server keeps.

use std::collections::HashSet;

use bazel_remote_apis::build::bazel::remote::execution::v2::{
    ActionResult, Digest as RemoteDigest,
};
use prost::Message as _;

use super::keys::{Key, Listed, Named, SIGNATURES_MAX, result_of};
use super::trust::Trust;
use super::{REMOTE_TRACE_BYTES_MAX, RemoteConfig, TRACES_MAX};
use crate::base::digest::Digest;
use crate::remote::{Blob, Connection, RemoteError, is_digest};
use crate::results::action::Place;

/// Most files of a result that are looked at. More than [`TRACES_MAX`] are there only if others do not keep to that.
const FILES_MAX: usize = 64;

/// Most traces of a list that are looked at, or stored.
const LISTED_MAX: usize = 10_000;

/// Largest list, in bytes: clients of gRPC take answers of at most 4 MiB.
const LIST_BYTES_MAX: usize = 3 << 20;

/// A trace, and the bytes that the server keeps.
pub type Contents = (Named, Vec<u8>);

/// A server with traces.
pub struct Server {
    connection: Connection,
    trust: Trust,
}

impl Server {
    pub fn new(config: &RemoteConfig) -> Result<Self, RemoteError> {
        Ok(Self { connection: Connection::new(&config.server())?, trust: Trust::of(config) })
    }

    /// The traces at `place` that are trusted, with their bytes, and how many are not. One that the server has lost is none.
    pub fn traces(&self, place: Place) -> Result<(Vec<Contents>, u64), RemoteError> {
        let Some(mut result) = self.result(&Key::of_place(place))? else {
            return Ok(Default::default());
        };
        let inline = Blob::new(std::mem::take(&mut result.stdout_raw));
        let (trusted, untrusted) = self.named(result)?;
        let mut traces = Vec::new();
        let mut bytes_left = REMOTE_TRACE_BYTES_MAX;
        for named in trusted {
            match bytes_left.checked_sub(u64::try_from(named.digest.size_bytes).unwrap_or(u64::MAX))
            {
                Some(left) => bytes_left = left,
                None => break,
            }
            let bytes = if named.digest == inline.digest {
                Some(inline.bytes.to_vec())
            } else {
                self.connection.read(&named.digest)?
            };
            traces.extend(bytes.map(|bytes| (named, bytes)));
        }
        Ok((traces, untrusted.len() as u64))
    }

    /// The traces of earlier runs of the command with the digest `command` that are trusted.
    pub fn run_list(&self, command: Digest) -> Result<Vec<Listed>, RemoteError> {
        let result = self.result(&Key::of_run(command))?.unwrap_or_default();
        let listed = result.output_files.into_iter().take(LISTED_MAX).filter_map(Listed::of_file);
        let is_taken = |listed: &Listed| {
            is_digest(&listed.named.digest, REMOTE_TRACE_BYTES_MAX)
                && self.trust.accepts(&listed.named)
        };
        Ok(listed.filter(is_taken).collect())
    }

    /// Stores `listed` as the traces of runs of the command with the digest `command`; what the server has lost is left out.
    pub fn put_run_list(
        &self,
        command: Digest,
        mut listed: Vec<Listed>,
    ) -> Result<(), RemoteError> {
        let digests: Vec<_> = listed.iter().map(|listed| listed.named.digest.clone()).collect();
        let lost: HashSet<_> =
            self.connection.missing(&digests)?.into_iter().map(|lost| lost.hash).collect();
        listed.retain(|listed| !lost.contains(&listed.named.digest.hash));
        let mut bytes = 0;
        let files = listed.iter().map(Listed::to_file).take(LISTED_MAX).take_while(|file| {
            bytes += file.encoded_len();
            bytes <= LIST_BYTES_MAX
        });
        let result = ActionResult { output_files: files.collect(), ..ActionResult::default() };
        self.put(Key::of_run(command), Vec::new(), result)
    }

    /// The contents of the traces `named`, in their order; `None` for those that the server has lost.
    pub fn contents(&self, named: &[Named]) -> Result<Vec<Option<Vec<u8>>>, RemoteError> {
        let digests: Vec<_> = named.iter().map(|named| named.digest.clone()).collect();
        self.connection.read_many(&digests)
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
    pub fn add(&self, place: Place, bytes: Vec<u8>) -> Result<Named, RemoteError> {
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
        let result = result_of(&traces, &trace.bytes);
        self.put(key, vec![trace], result)?;
        Ok(traces.swap_remove(0))
    }

    /// Notes that a process of the module with the digest `module` has a trace.
    pub fn add_module(&self, module: Digest) -> Result<(), RemoteError> {
        // Servers may take a result without anything for one that they have lost.
        let marker = Blob::new(b"belljar\n".to_vec());
        let named = Named { digest: marker.digest.clone(), signatures: Vec::new() };
        let result = result_of(&[named], &marker.bytes);
        self.put(Key::of_module(module), vec![marker], result)
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
