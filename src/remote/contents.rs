//! The contents that a server keeps by their digests.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use bazel_remote_apis::build::bazel::remote::execution::v2::content_addressable_storage_client::ContentAddressableStorageClient;
use bazel_remote_apis::google::bytestream::byte_stream_client::ByteStreamClient;
use bazel_remote_apis::google::bytestream::{ReadRequest, WriteRequest};
use prost::Message;
use sha2::{Digest as _, Sha256};
use tonic::{Code, Status};

use super::compression::{compressed_if_smaller, decompressed};
use super::connection::{Connection, Transport, ZSTD};
use super::{RemoteError, SHA256};
use crate::base::ambient;
use crate::base::digest::{Digest, hex};

/// Bytes of one part of a stream.
const PART_BYTES: usize = 1 << 20;

/// Most parts of a stream that have no bytes.
const EMPTY_PARTS_MAX: usize = 16;

/// Most bytes of contents that are sent without asking whether the server has them: asking takes as long.
const UNASKED_BYTES_MAX: u64 = 32 << 10;

/// What a content takes in a message besides its bytes: its digest, and lengths.
pub const BESIDE_BYTES: u64 = 128;

/// Most digests in one request: two megabytes of them.
const DIGESTS_MAX: usize = 20_000;

/// Most bytes of contents that are fetched: they are in memory while they are.
pub const CONTENT_BYTES_MAX: u64 = 2 << 30;

/// Something that a server keeps by its digest.
#[derive(Clone)]
pub struct Blob {
    /// Its digest.
    pub digest: api::Digest,
    /// The bytes, which are not copied with it.
    pub bytes: Arc<Vec<u8>>,
}

impl Blob {
    /// The contents `bytes`.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { digest: digest_of(&bytes), bytes: Arc::new(bytes) }
    }

    /// The contents that `message` is when it is encoded.
    pub fn of(message: &impl Message) -> Self {
        Self::new(message.encode_to_vec())
    }
}

/// The digest of `bytes` as servers know it.
pub fn digest_of(bytes: &[u8]) -> api::Digest {
    let hash = hex(&Sha256::digest(bytes));
    // No buffer has more bytes than an i64 can count.
    api::Digest { hash, size_bytes: i64::try_from(bytes.len()).unwrap_or(i64::MAX) }
}

impl Connection {
    /// The contents with `digest`; `None` if the server has lost them.
    ///
    /// # Errors
    /// [`RemoteError`] if the server fails, or has other contents under this digest.
    pub fn read(&self, digest: &api::Digest) -> Result<Option<Vec<u8>>, RemoteError> {
        let len = u64::try_from(digest.size_bytes).unwrap_or(0);
        if len > CONTENT_BYTES_MAX {
            return Err(self.wrong("Read", format!("contents of {len} bytes are too large")));
        }
        if len == 0 && digest_of(b"") == *digest {
            return Ok(Some(Vec::new()));
        }
        if len <= self.abilities()?.message_bytes_max {
            Ok(self.read_at_once(std::slice::from_ref(digest))?.pop().flatten())
        } else {
            self.read_in_parts(digest, len)
        }
    }

    /// The contents with `digests`, in their order, `None` for those that the server has lost. As many at a time as one message
    /// has room for.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn read_many(&self, digests: &[api::Digest]) -> Result<Vec<Option<Vec<u8>>>, RemoteError> {
        let most = self.abilities()?.message_bytes_max;
        let mut read = Vec::with_capacity(digests.len());
        let mut rest = digests;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |digest: &&api::Digest| {
                bytes += len_of(digest).unwrap_or(u64::MAX).saturating_add(BESIDE_BYTES);
                bytes <= most
            };
            match rest.iter().take_while(fits).count() {
                // One that is large, or two of which only one fits.
                0 | 1 => {
                    read.push(self.read(&rest[0])?);
                    rest = &rest[1..];
                }
                count => {
                    read.extend(self.read_at_once(&rest[..count])?);
                    rest = &rest[count..];
                }
            }
        }
        Ok(read)
    }

    /// The contents with `digests`, which one message has room for.
    fn read_at_once(&self, digests: &[api::Digest]) -> Result<Vec<Option<Vec<u8>>>, RemoteError> {
        const OPERATION: &str = "BatchReadBlobs";
        let mut client = self.contents();
        let compresses = self.abilities()?.compressed_streams;
        let request = api::BatchReadBlobsRequest {
            instance_name: self.instance(),
            digests: digests.to_vec(),
            digest_function: SHA256,
            acceptable_compressors: if compresses { vec![ZSTD] } else { Vec::new() },
        };
        let bytes = digests.iter().filter_map(len_of).sum();
        let answer =
            self.ask(OPERATION, bytes, async move { client.batch_read_blobs(request).await })?;
        let mut found: HashMap<String, Vec<u8>> = HashMap::new();
        for response in answer.map(|answer| answer.into_inner().responses).unwrap_or_default() {
            match response.status.map_or(0, |status| status.code) {
                0 => {}
                code if Code::from_i32(code) == Code::NotFound => continue,
                code => return Err(self.wrong(OPERATION, Code::from_i32(code).description())),
            }
            let digest = response.digest.unwrap_or_default();
            // What was not asked for is left out, before it is looked at.
            let Some(asked) = digests.iter().find(|asked| **asked == digest) else { continue };
            let data = if response.compressor == ZSTD {
                self.decompressed(OPERATION, &response.data, len_of(asked).unwrap_or(0))?
            } else {
                response.data
            };
            found.insert(digest.hash, data);
        }
        let mut all = Vec::with_capacity(digests.len());
        for digest in digests {
            all.push(match found.get(&digest.hash) {
                Some(bytes) if digest_of(bytes) == *digest => Some(bytes.clone()),
                Some(_) => return Err(self.other_contents(OPERATION, digest)),
                // Some servers do not keep what has no bytes.
                None if *digest == digest_of(b"") => Some(Vec::new()),
                None => None,
            });
        }
        Ok(all)
    }

    fn decompressed(
        &self,
        operation: &'static str,
        frames: &[u8],
        bytes_max: u64,
    ) -> Result<Vec<u8>, RemoteError> {
        let wrong = || self.wrong(operation, "contents that are not compressed right");
        decompressed(frames, bytes_max).ok_or_else(wrong)
    }

    fn other_contents(&self, operation: &'static str, digest: &api::Digest) -> RemoteError {
        self.wrong(operation, format!("other contents than {} has", digest.hash))
    }

    fn read_in_parts(
        &self,
        digest: &api::Digest,
        len: u64,
    ) -> Result<Option<Vec<u8>>, RemoteError> {
        const OPERATION: &str = "Read";
        let compresses = self.abilities()?.compressed_streams;
        let (folder, len_max) = if compresses {
            // Of what cannot be made smaller, compressors make a little more.
            ("compressed-blobs/zstd", len + len / 64 + (64 << 10))
        } else {
            ("blobs", len)
        };
        let mut client = ByteStreamClient::new(self.transport());
        let resource_name = self.resource(&format!("{folder}/{}/{len}", digest.hash));
        let request = ReadRequest { resource_name, ..ReadRequest::default() };
        let read = self.ask(OPERATION, len, async move {
            let mut parts = client.read(request).await?.into_inner();
            let (mut bytes, mut empty) = (Vec::new(), 0);
            while let Some(part) = parts.message().await? {
                // Without end they would fill the time that so many bytes may take.
                empty += usize::from(part.data.is_empty());
                if empty > EMPTY_PARTS_MAX {
                    return Err(Status::data_loss("parts without bytes"));
                }
                bytes.extend_from_slice(&part.data);
                if bytes.len() as u64 > len_max {
                    return Err(Status::data_loss("more bytes than it has"));
                }
            }
            Ok(bytes)
        })?;
        let bytes = match read {
            Some(frames) if compresses => Some(self.decompressed(OPERATION, &frames, len)?),
            read => read,
        };
        match bytes {
            Some(bytes) if digest_of(&bytes) != *digest => {
                Err(self.other_contents(OPERATION, digest))
            }
            bytes => Ok(bytes),
        }
    }

    fn contents(&self) -> ContentAddressableStorageClient<Transport> {
        ContentAddressableStorageClient::new(self.transport())
    }

    /// The name of a resource of this instance.
    fn resource(&self, rest: &str) -> String {
        let instance = self.instance();
        if instance.is_empty() { rest.to_owned() } else { format!("{instance}/{rest}") }
    }

    /// Those of the contents with `digests` that the server does not have.
    ///
    /// # Errors
    /// [`RemoteError`] if the server fails.
    pub fn missing(&self, digests: &[api::Digest]) -> Result<Vec<api::Digest>, RemoteError> {
        const OPERATION: &str = "FindMissingBlobs";
        let mut missing = Vec::new();
        for digests in digests.chunks(DIGESTS_MAX) {
            let mut client = self.contents();
            let request = api::FindMissingBlobsRequest {
                instance_name: self.instance(),
                blob_digests: digests.to_vec(),
                digest_function: SHA256,
            };
            let answer =
                self.ask(OPERATION, 0, async move { client.find_missing_blobs(request).await })?;
            let answer = answer.ok_or_else(|| self.wrong(OPERATION, "it has no such instance"))?;
            missing.extend(answer.into_inner().missing_blob_digests);
        }
        Ok(missing)
    }

    /// Uploads those of `blobs` that the server does not have.
    ///
    /// # Errors
    /// [`RemoteError`] if the server fails, or does not take them.
    pub fn write(&self, mut blobs: Vec<Blob>) -> Result<(), RemoteError> {
        let mut seen = HashSet::new();
        blobs.retain(|blob| seen.insert(blob.digest.hash.clone()));
        if blobs.iter().map(|blob| blob.bytes.len() as u64).sum::<u64>() > UNASKED_BYTES_MAX {
            let digests: Vec<_> = blobs.iter().map(|blob| blob.digest.clone()).collect();
            let missing = self.missing(&digests)?;
            let missing: HashSet<&str> = missing.iter().map(|digest| &*digest.hash).collect();
            blobs.retain(|blob| missing.contains(&*blob.digest.hash));
        }
        let most = self.abilities()?.message_bytes_max;
        let (small, large): (Vec<_>, Vec<_>) =
            blobs.into_iter().partition(|blob| blob.bytes.len() as u64 <= most / 2);
        for blob in large {
            self.write_in_parts(blob)?;
        }
        let (mut at_once, mut waiting) = (Vec::new(), 0);
        for blob in small {
            let len = blob.bytes.len() as u64 + BESIDE_BYTES;
            if waiting + len > most && !at_once.is_empty() {
                self.write_at_once(std::mem::take(&mut at_once))?;
                waiting = 0;
            }
            waiting += len;
            at_once.push(blob);
        }
        if at_once.is_empty() { Ok(()) } else { self.write_at_once(at_once) }
    }

    fn write_at_once(&self, blobs: Vec<Blob>) -> Result<(), RemoteError> {
        const OPERATION: &str = "BatchUpdateBlobs";
        let count = blobs.len();
        let len = blobs.iter().map(|blob| blob.bytes.len() as u64).sum();
        let compresses = self.abilities()?.compressed_messages;
        let request = |blob: Blob| {
            let smaller = compresses.then(|| compressed_if_smaller(&blob.bytes)).flatten();
            let compressor = if smaller.is_some() { ZSTD } else { 0 };
            let data = smaller.unwrap_or_else(|| Arc::unwrap_or_clone(blob.bytes));
            let digest = Some(blob.digest);
            api::batch_update_blobs_request::Request { digest, data, compressor }
        };
        let request = api::BatchUpdateBlobsRequest {
            instance_name: self.instance(),
            requests: blobs.into_iter().map(request).collect(),
            digest_function: SHA256,
        };
        let mut client = self.contents();
        let answer =
            self.ask(OPERATION, len, async move { client.batch_update_blobs(request).await })?;
        let answer = answer.ok_or_else(|| self.wrong(OPERATION, "it has no such instance"))?;
        let responses = answer.into_inner().responses;
        let code = |response: &api::batch_update_blobs_response::Response| {
            response.status.as_ref().map_or(0, |status| status.code)
        };
        match responses.iter().map(code).find(|code| *code != 0) {
            Some(code) => Err(self.wrong(OPERATION, Code::from_i32(code).description())),
            None if responses.len() == count => Ok(()),
            None => {
                let reason = format!(
                    "it says of {} contents out of {count} that it has them",
                    responses.len()
                );
                Err(self.wrong(OPERATION, reason))
            }
        }
    }

    fn write_in_parts(&self, blob: Blob) -> Result<(), RemoteError> {
        let len = blob.bytes.len() as u64;
        let compresses = self.abilities()?.compressed_streams;
        let smaller = compresses.then(|| compressed_if_smaller(&blob.bytes)).flatten();
        let folder = if smaller.is_some() { "compressed-blobs/zstd" } else { "blobs" };
        let name = format!("uploads/{}/{folder}/{}/{len}", upload_id(), blob.digest.hash);
        let resource_name = self.resource(&name);
        let bytes = smaller.map_or(blob.bytes, Arc::new);
        let sent = bytes.len() as u64;
        let mut client = ByteStreamClient::new(self.transport());
        let committed = self.ask("Write", len, async move {
            let parts = (0..bytes.len()).step_by(PART_BYTES).map(move |written| {
                let end = bytes.len().min(written + PART_BYTES);
                WriteRequest {
                    // Only the first one needs it.
                    resource_name: if written == 0 { resource_name.clone() } else { String::new() },
                    write_offset: i64::try_from(written).unwrap_or(i64::MAX),
                    finish_write: end == bytes.len(),
                    data: bytes[written..end].to_vec(),
                }
            });
            let answer = client.write(futures_util::stream::iter(parts)).await?;
            Ok(answer.into_inner().committed_size)
        })?;
        match committed {
            // -1: another client has uploaded it.
            Some(-1) => Ok(()),
            Some(committed) if u64::try_from(committed).is_ok_and(|it| it == sent || it == len) => {
                Ok(())
            }
            _ => Err(self.wrong("Write", format!("{committed:?} of {sent} bytes were taken"))),
        }
    }
}

/// The length of the contents with `digest`, in bytes; `None` if it is negative.
pub fn len_of(digest: &api::Digest) -> Option<u64> {
    u64::try_from(digest.size_bytes).ok()
}

/// Whether `digest` is one of SHA-256, of contents with at most `bytes_max` bytes.
pub fn is_digest(digest: &api::Digest, bytes_max: u64) -> bool {
    digest.hash.len() == 64
        && digest.hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && len_of(digest).is_some_and(|len| len <= bytes_max)
}

/// A name for an upload, in the form of a UUID, that no other upload has.
fn upload_id() -> String {
    static UPLOADS: AtomicU64 = AtomicU64::new(0);
    let number = UPLOADS.fetch_add(1, Ordering::Relaxed);
    let of = format!("{} {} {number}", std::process::id(), ambient::wall_now_ns());
    let hex = Digest::of(of.as_bytes()).to_string();
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_have_different_names() {
        assert_ne!(upload_id(), upload_id());
        assert_eq!(upload_id().len(), 36);
    }

    #[test]
    fn digests_are_taken_in_one_form() {
        let digest = digest_of(b"abc");
        assert!(is_digest(&digest, 3));
        assert!(!is_digest(&digest, 2));
        for (hash, size_bytes) in [
            (digest.hash.to_uppercase(), 3),
            (digest.hash[1..].to_owned(), 3),
            (digest.hash.replace(char::is_numeric, "g"), 3),
            (digest.hash, -1),
        ] {
            assert!(!is_digest(&api::Digest { hash, size_bytes }, 100));
        }
    }
}
