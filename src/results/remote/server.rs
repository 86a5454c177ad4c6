//! The client of a server: the only file that knows of gRPC.
//!
//! Requests are made on a thread of their own, and waited for.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use bazel_remote_apis::google::bytestream::byte_stream_client::ByteStreamClient;
use bazel_remote_apis::google::bytestream::{ReadRequest, WriteRequest};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

use super::keys::{Blob, Key, Named, SIGNATURES_MAX, digest_of, result_of};
use super::trust::Trust;
use super::{REMOTE_TRACE_BYTES_MAX, RemoteConfig, RemoteError, TRACES_MAX};
use crate::base::digest::Digest;
use crate::base::{ambient, disk};
use crate::results::action::Place;

/// Most bytes of a request or an answer that is not a stream: gRPC's default, less some for what is around contents.
const MESSAGE_BYTES_MAX: u64 = (4 << 20) - (64 << 10);

/// Most files of a result that are looked at. More than [`TRACES_MAX`] are there only if others do not keep to that.
const FILES_MAX: usize = 64;

/// Most characters of an error of a server that are shown.
const MESSAGE_CHARS_MAX: usize = 300;

/// Bytes of one part of a stream.
const PART_BYTES: usize = 1 << 20;

/// Bytes of contents that may take as long as a request without any.
const BYTES_IN_TIME: u64 = 4 << 20;

/// Largest file of certificates.
const CERTIFICATES_BYTES_MAX: u64 = 16 << 20;

type Transport = InterceptedService<Channel, Headers>;
type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A server of the Remote Execution API, version 2.
pub struct Server {
    address: String,
    instance: String,
    timeout: Duration,
    transport: Transport,
    jobs: UnboundedSender<Job>,
    abilities: OnceLock<Abilities>,
    trust: Trust,
}

/// What a server can do.
#[derive(Clone, Copy)]
struct Abilities {
    updates: bool,
    message_bytes_max: u64,
}

/// Adds headers to requests.
#[derive(Clone)]
struct Headers(MetadataMap);

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        for entry in self.0.iter() {
            if let tonic::metadata::KeyAndValueRef::Ascii(name, value) = entry {
                request.metadata_mut().insert(name, value.clone());
            }
        }
        Ok(request)
    }
}

/// An address in parts.
struct Address {
    url: String,
    instance: String,
    tls: bool,
}

fn parse(address: &str) -> Result<Address, RemoteError> {
    let wrong = |reason: &str| RemoteError::Address {
        address: address.to_owned(),
        reason: reason.to_owned(),
    };
    let (scheme, rest) = address
        .split_once("://")
        .ok_or_else(|| wrong("it begins with grpc://, or with grpcs:// for TLS"))?;
    let tls = match scheme {
        "grpc" => false,
        "grpcs" => true,
        _ => return Err(wrong("it begins with grpc://, or with grpcs:// for TLS")),
    };
    let (authority, instance) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() || authority.contains('@') {
        return Err(wrong("a host, and perhaps a port, follow the scheme"));
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = match (has_port, tls) {
        (true, _) => "",
        (false, true) => ":443",
        (false, false) => ":80",
    };
    let scheme = if tls { "https" } else { "http" };
    Ok(Address {
        url: format!("{scheme}://{authority}{port}"),
        instance: instance.trim_end_matches('/').to_owned(),
        tls,
    })
}

fn headers(config: &RemoteConfig) -> Result<Headers, RemoteError> {
    let mut headers = MetadataMap::new();
    for (name, value) in &config.headers {
        let wrong = || RemoteError::Address {
            address: config.address.clone(),
            reason: format!("{name} is no header, or its value cannot be sent"),
        };
        let key = AsciiMetadataKey::from_bytes(name.to_ascii_lowercase().as_bytes());
        let mut value = AsciiMetadataValue::try_from(value.as_str()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(key.map_err(|_| wrong())?, value);
    }
    Ok(Headers(headers))
}

async fn run_jobs(mut jobs: UnboundedReceiver<Job>) {
    while let Some(job) = jobs.recv().await {
        tokio::spawn(job);
    }
}

impl Server {
    pub fn new(config: &RemoteConfig) -> Result<Self, RemoteError> {
        let Address { url, instance, tls } = parse(&config.address)?;
        let wrong =
            |error: String| RemoteError::Address { address: config.address.clone(), reason: error };
        let mut endpoint = Endpoint::from_shared(url)
            .map_err(|error| wrong(error.to_string()))?
            .connect_timeout(config.timeout)
            .tcp_nodelay(true);
        if config.certificates.is_some() && !tls {
            return Err(wrong("certificates are of use only with TLS: grpcs://".to_owned()));
        }
        if tls {
            let mut tls = ClientTlsConfig::new().with_native_roots();
            if let Some(path) = &config.certificates {
                let read = disk::read_at_most(path, CERTIFICATES_BYTES_MAX)?;
                let pem =
                    read.ok_or_else(|| wrong(format!("{}: it is too large", path.display())))?;
                tls = tls.ca_certificate(Certificate::from_pem(pem));
            }
            endpoint = endpoint.tls_config(tls).map_err(|error| wrong(error.to_string()))?;
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| wrong(error.to_string()))?;
        let (jobs, received) = unbounded_channel();
        let transport = {
            let _within = runtime.enter();
            InterceptedService::new(endpoint.connect_lazy(), headers(config)?)
        };
        thread::Builder::new()
            .name("remote requests".to_owned())
            .spawn(move || runtime.block_on(run_jobs(received)))
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            address: config.address.clone(),
            instance,
            timeout: config.timeout,
            transport,
            jobs,
            abilities: OnceLock::new(),
            trust: Trust::of(config),
        })
    }

    /// Makes `request`, in which contents of `bytes` bytes go one way or the other, and waits for its answer; `None` if what
    /// it asks for is not there.
    fn ask<T: Send + 'static>(
        &self,
        operation: &'static str,
        bytes: u64,
        request: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<Option<T>, RemoteError> {
        let (sender, answer) = mpsc::channel();
        let times = u32::try_from(1 + bytes / BYTES_IN_TIME).unwrap_or(u32::MAX);
        let timeout = self.timeout.saturating_mul(times);
        let job = Box::pin(async move {
            // It fails if the caller has stopped waiting.
            let _ = sender.send(tokio::time::timeout(timeout, request).await);
        });
        let failed = |reason: String| {
            let address = self.address.clone();
            RemoteError::Failed { address, operation, reason }
        };
        let ended = || failed("the thread of requests has ended".to_owned());
        self.jobs.send(job).map_err(|_| ended())?;
        match answer.recv().map_err(|_| ended())? {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(status)) if status.code() == Code::NotFound => Ok(None),
            Ok(Err(status)) => Err(failed(message_of(&status))),
            Err(_) => {
                Err(RemoteError::TimedOut { address: self.address.clone(), operation, timeout })
            }
        }
    }

    fn wrong(&self, operation: &'static str, reason: impl Into<String>) -> RemoteError {
        RemoteError::Wrong { address: self.address.clone(), operation, reason: reason.into() }
    }

    /// What the server can do, which is asked once.
    fn abilities(&self) -> Result<Abilities, RemoteError> {
        const OPERATION: &str = "GetCapabilities";
        if let Some(abilities) = self.abilities.get() {
            return Ok(*abilities);
        }
        let mut client = api::capabilities_client::CapabilitiesClient::new(self.transport.clone());
        let request = api::GetCapabilitiesRequest { instance_name: self.instance.clone() };
        let answer =
            self.ask(OPERATION, 0, async move { client.get_capabilities(request).await })?;
        let cache = answer.and_then(|answer| answer.into_inner().cache_capabilities);
        let cache = cache.ok_or_else(|| self.wrong(OPERATION, "it is no cache"))?;
        if !cache.digest_functions.contains(&SHA256) {
            return Err(self.wrong(OPERATION, "it has no digests of SHA-256"));
        }
        let updates = cache.action_cache_update_capabilities;
        let most = u64::try_from(cache.max_batch_total_size_bytes).unwrap_or(0);
        let abilities = Abilities {
            updates: updates.is_some_and(|updates| updates.update_enabled),
            // 0 stands for no limit but gRPC's.
            message_bytes_max: if most == 0 {
                MESSAGE_BYTES_MAX
            } else {
                most.min(MESSAGE_BYTES_MAX)
            },
        };
        Ok(*self.abilities.get_or_init(|| abilities))
    }

    /// The result of the action `key`.
    fn result(&self, key: &Key) -> Result<Option<api::ActionResult>, RemoteError> {
        self.abilities()?;
        let mut client = api::action_cache_client::ActionCacheClient::new(self.transport.clone());
        let request = api::GetActionResultRequest {
            instance_name: self.instance.clone(),
            action_digest: Some(key.action.digest.clone()),
            digest_function: SHA256,
            ..api::GetActionResultRequest::default()
        };
        let answer =
            self.ask("GetActionResult", 0, async move { client.get_action_result(request).await })?;
        Ok(answer.map(tonic::Response::into_inner))
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
            traces.extend(self.read(&digest)?);
        }
        Ok((traces, untrusted.len() as u64))
    }

    /// The first files of `result`, each once: those that are trusted, and the others.
    fn named(&self, result: api::ActionResult) -> Result<(Vec<Named>, Vec<Named>), RemoteError> {
        let (mut trusted, mut untrusted): (Vec<Named>, Vec<Named>) = (Vec::new(), Vec::new());
        let files = result.output_files.into_iter().take(FILES_MAX);
        for named in files.filter_map(Named::of_file) {
            if trusted.iter().chain(&untrusted).any(|other| other.digest == named.digest) {
                continue;
            }
            if !self.trust.accepts(&named) {
                untrusted.push(named);
            } else if !is_right(&named.digest) {
                let Named { digest: api::Digest { hash, size_bytes }, .. } = named;
                let reason = format!("a file of {size_bytes} bytes, {hash:?}");
                return Err(self.wrong("GetActionResult", reason));
            } else if trusted.len() < TRACES_MAX {
                trusted.push(named);
            }
        }
        Ok((trusted, untrusted))
    }

    pub fn knows(&self, module: Digest) -> Result<bool, RemoteError> {
        Ok(self.result(&Key::of_module(module))?.is_some())
    }

    /// The contents with `digest`; `None` if the server has lost them.
    fn read(&self, digest: &api::Digest) -> Result<Option<Vec<u8>>, RemoteError> {
        let len = u64::try_from(digest.size_bytes).unwrap_or(0);
        let (operation, bytes) = if len <= self.abilities()?.message_bytes_max {
            ("BatchReadBlobs", self.read_at_once(digest)?)
        } else {
            ("Read", self.read_in_parts(digest, len)?)
        };
        match bytes {
            Some(bytes) if digest_of(&bytes) != *digest => {
                Err(self.wrong(operation, format!("other contents than {} has", digest.hash)))
            }
            bytes => Ok(bytes),
        }
    }

    fn read_at_once(&self, digest: &api::Digest) -> Result<Option<Vec<u8>>, RemoteError> {
        const OPERATION: &str = "BatchReadBlobs";
        let mut client = self.contents();
        let request = api::BatchReadBlobsRequest {
            instance_name: self.instance.clone(),
            digests: vec![digest.clone()],
            digest_function: SHA256,
            ..api::BatchReadBlobsRequest::default()
        };
        let answer =
            self.ask(OPERATION, 0, async move { client.batch_read_blobs(request).await })?;
        let responses = answer.map(|answer| answer.into_inner().responses).unwrap_or_default();
        let Some(response) = responses.into_iter().next() else { return Ok(None) };
        match response.status.map_or(0, |status| status.code) {
            0 => Ok(Some(response.data)),
            code if Code::from_i32(code) == Code::NotFound => Ok(None),
            code => Err(self.wrong(OPERATION, Code::from_i32(code).description())),
        }
    }

    fn read_in_parts(
        &self,
        digest: &api::Digest,
        len: u64,
    ) -> Result<Option<Vec<u8>>, RemoteError> {
        let mut client = ByteStreamClient::new(self.transport.clone());
        let resource_name = self.resource(&format!("blobs/{}/{len}", digest.hash));
        let request = ReadRequest { resource_name, ..ReadRequest::default() };
        self.ask("Read", len, async move {
            let mut parts = client.read(request).await?.into_inner();
            let mut bytes = Vec::new();
            while let Some(part) = parts.message().await? {
                bytes.extend_from_slice(&part.data);
                if bytes.len() as u64 > len {
                    return Err(Status::data_loss("more bytes than it has"));
                }
            }
            Ok(bytes)
        })
    }

    fn contents(
        &self,
    ) -> api::content_addressable_storage_client::ContentAddressableStorageClient<Transport> {
        api::content_addressable_storage_client::ContentAddressableStorageClient::new(
            self.transport.clone(),
        )
    }

    /// The name of a resource of this instance.
    fn resource(&self, rest: &str) -> String {
        if self.instance.is_empty() { rest.to_owned() } else { format!("{}/{rest}", self.instance) }
    }

    /// Adds the trace with `bytes` to those at `place`.
    pub fn add(&self, place: Place, bytes: Vec<u8>) -> Result<(), RemoteError> {
        let key = Key::of_place(place);
        let trace = Blob::new(bytes);
        let mut traces = vec![Named { digest: trace.digest.clone(), signatures: Vec::new() }];
        if let Some(result) = self.result(&key)? {
            // What is not a trace, or lost, is overwritten. What others trust stays, as far as there is room.
            let (mut others, untrusted) = self.named(result).unwrap_or_default();
            others.extend(untrusted.into_iter().filter(|other| is_right(&other.digest)));
            let lost = self.missing(others.iter().map(|other| other.digest.clone()).collect())?;
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

    /// Stores `result` of `key`, after the contents that it needs.
    fn put(
        &self,
        key: Key,
        mut blobs: Vec<Blob>,
        result: api::ActionResult,
    ) -> Result<(), RemoteError> {
        const OPERATION: &str = "UpdateActionResult";
        if !self.abilities()?.updates {
            return Err(self.wrong(OPERATION, "this server takes no results from clients"));
        }
        let action_digest = Some(key.action.digest.clone());
        blobs.extend(key.parts);
        blobs.push(key.action);
        self.write(blobs)?;
        let mut client = api::action_cache_client::ActionCacheClient::new(self.transport.clone());
        let request = api::UpdateActionResultRequest {
            instance_name: self.instance.clone(),
            action_digest,
            action_result: Some(result),
            digest_function: SHA256,
            ..api::UpdateActionResultRequest::default()
        };
        let answer =
            self.ask(OPERATION, 0, async move { client.update_action_result(request).await })?;
        answer.map(|_| ()).ok_or_else(|| self.wrong(OPERATION, "it has lost what was uploaded"))
    }

    /// Those of the contents with `digests` that the server does not have.
    fn missing(&self, digests: Vec<api::Digest>) -> Result<Vec<api::Digest>, RemoteError> {
        let mut client = self.contents();
        let request = api::FindMissingBlobsRequest {
            instance_name: self.instance.clone(),
            blob_digests: digests,
            digest_function: SHA256,
        };
        let missing = self
            .ask("FindMissingBlobs", 0, async move { client.find_missing_blobs(request).await })?;
        Ok(missing.map(|answer| answer.into_inner().missing_blob_digests).unwrap_or_default())
    }

    /// Uploads those of `blobs` that the server does not have.
    fn write(&self, mut blobs: Vec<Blob>) -> Result<(), RemoteError> {
        let missing = self.missing(blobs.iter().map(|blob| blob.digest.clone()).collect())?;
        blobs.retain(|blob| missing.contains(&blob.digest));
        let most = self.abilities()?.message_bytes_max;
        let (small, large): (Vec<_>, Vec<_>) =
            blobs.into_iter().partition(|blob| blob.bytes.len() as u64 <= most / 2);
        for blob in large {
            self.write_in_parts(blob)?;
        }
        let mut at_once: Vec<Blob> = Vec::new();
        for blob in small {
            let waiting: usize = at_once.iter().map(|blob| blob.bytes.len()).sum();
            if (waiting + blob.bytes.len()) as u64 > most {
                self.write_at_once(std::mem::take(&mut at_once))?;
            }
            at_once.push(blob);
        }
        if at_once.is_empty() { Ok(()) } else { self.write_at_once(at_once) }
    }

    fn write_at_once(&self, blobs: Vec<Blob>) -> Result<(), RemoteError> {
        const OPERATION: &str = "BatchUpdateBlobs";
        let len = blobs.iter().map(|blob| blob.bytes.len() as u64).sum();
        let request = |blob: Blob| api::batch_update_blobs_request::Request {
            digest: Some(blob.digest),
            data: blob.bytes,
            ..api::batch_update_blobs_request::Request::default()
        };
        let request = api::BatchUpdateBlobsRequest {
            instance_name: self.instance.clone(),
            requests: blobs.into_iter().map(request).collect(),
            digest_function: SHA256,
        };
        let mut client = self.contents();
        let answer =
            self.ask(OPERATION, len, async move { client.batch_update_blobs(request).await })?;
        let responses = answer.map(|answer| answer.into_inner().responses).unwrap_or_default();
        let codes =
            responses.iter().map(|response| response.status.as_ref().map_or(0, |it| it.code));
        match codes.into_iter().find(|code| *code != 0) {
            Some(code) => Err(self.wrong(OPERATION, Code::from_i32(code).description())),
            None => Ok(()),
        }
    }

    fn write_in_parts(&self, blob: Blob) -> Result<(), RemoteError> {
        let len = blob.bytes.len() as u64;
        let name = format!("uploads/{}/blobs/{}/{len}", upload_id(), blob.digest.hash);
        let resource_name = self.resource(&name);
        let mut client = ByteStreamClient::new(self.transport.clone());
        let committed = self.ask("Write", len, async move {
            let mut parts = Vec::new();
            let mut written = 0;
            for part in blob.bytes.chunks(PART_BYTES) {
                let finish_write = written + part.len() == blob.bytes.len();
                parts.push(WriteRequest {
                    // Only the first one needs it.
                    resource_name: if written == 0 { resource_name.clone() } else { String::new() },
                    write_offset: i64::try_from(written).unwrap_or(i64::MAX),
                    finish_write,
                    data: part.to_vec(),
                });
                written += part.len();
            }
            let answer = client.write(futures_util::stream::iter(parts)).await?;
            Ok(answer.into_inner().committed_size)
        })?;
        match committed {
            // -1: another client has uploaded it.
            Some(committed) if committed == -1 || u64::try_from(committed) == Ok(len) => Ok(()),
            _ => Err(self.wrong("Write", format!("{committed:?} of {len} bytes were taken"))),
        }
    }
}

const SHA256: i32 = api::digest_function::Value::Sha256 as i32;

/// Whether `digest` is one, of contents that are not too large.
fn is_right(digest: &api::Digest) -> bool {
    digest.hash.len() == 64
        && digest.hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        && u64::try_from(digest.size_bytes).is_ok_and(|len| len <= REMOTE_TRACE_BYTES_MAX)
}

/// What `status` says, in one line.
fn message_of(status: &Status) -> String {
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(status);
    let mut text = match status.message() {
        "" => status.code().description().to_owned(),
        message => message.to_owned(),
    };
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    if text.len() > MESSAGE_CHARS_MAX {
        text = text.chars().take(MESSAGE_CHARS_MAX).chain("…".chars()).collect();
    }
    text
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
    fn addresses_are_taken_apart() {
        for (address, url, instance) in [
            ("grpc://localhost:8980", "http://localhost:8980", ""),
            ("grpc://cache/main", "http://cache:80", "main"),
            ("grpcs://cache.example/a/b/", "https://cache.example:443", "a/b"),
            ("grpcs://[::1]:7000/x", "https://[::1]:7000", "x"),
        ] {
            let parsed = parse(address).unwrap();
            assert_eq!((parsed.url.as_str(), parsed.instance.as_str()), (url, instance));
        }
        for address in ["", "cache:80", "http://cache", "grpc://", "grpc:///x", "grpc://me@cache"] {
            assert!(matches!(parse(address), Err(RemoteError::Address { .. })), "{address}");
        }
    }

    #[test]
    fn uploads_have_different_names() {
        assert_ne!(upload_id(), upload_id());
        assert_eq!(upload_id().len(), 36);
    }
}
