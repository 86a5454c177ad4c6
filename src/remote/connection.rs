//! The connection to a server. Only the files of this folder know of gRPC.
//!
//! Requests are made on a thread of their own, and waited for.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

use super::RemoteError;
use super::code::UNAVAILABLE;
use crate::base::{ambient, disk};

/// Most bytes of a request or an answer that is not a stream: gRPC's default, less some for what is around contents.
const MESSAGE_BYTES_MAX: u64 = (4 << 20) - (64 << 10);

/// Most characters of an error of a server that are shown.
const MESSAGE_CHARS_MAX: usize = 300;

/// Bytes of contents that may take as long as a request without any.
const BYTES_IN_TIME: u64 = 4 << 20;

/// How often a request is made again, at most.
const AGAIN_MAX: u32 = 4;

/// Real time until the first time; each later one waits twice as long.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Largest file of certificates.
const CERTIFICATES_BYTES_MAX: u64 = 16 << 20;

/// Bytes of an answer that are sent before the client says that it has taken some: gRPC's default of 64 KiB costs a round trip for
/// each.
const WINDOW_BYTES: u32 = 4 << 20;

/// The number of Zstandard among the compressors of the protocol.
pub(super) const ZSTD: i32 = api::compressor::Value::Zstd as i32;

/// The number of SHA-256 among the digest functions of the protocol.
pub const SHA256: i32 = api::digest_function::Value::Sha256 as i32;

/// A server, and how it is reached.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// `grpc://HOST[:PORT][/INSTANCE]`, `grpcs://` for TLS, or `unix:PATH`.
    pub address: String,
    /// The instance, if the address does not have it.
    pub instance: String,
    /// Headers of each request, with their values.
    pub headers: Vec<(String, String)>,
    /// A file of certificates, in PEM, that are trusted for TLS besides those of this system.
    pub certificates: Option<PathBuf>,
    /// Most time for a request.
    pub timeout: Duration,
}

pub(super) type Transport = InterceptedService<Channel, Headers>;
type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A server of the Remote Execution API, version 2, as it is asked.
pub struct Connection {
    address: String,
    instance: String,
    timeout: Duration,
    transport: Transport,
    jobs: UnboundedSender<Job>,
    abilities: OnceLock<Abilities>,
}

/// What a server can do.
#[derive(Clone, Copy)]
pub(super) struct Abilities {
    /// It takes results from clients.
    pub updates: bool,
    /// Bytes of contents in one message, at most.
    pub message_bytes_max: u64,
    /// It reads and writes streams of contents that are compressed in the format of Zstandard.
    pub compressed_streams: bool,
    /// It takes contents in messages that are compressed so.
    pub compressed_messages: bool,
}

/// Adds headers to requests.
#[derive(Clone)]
pub(super) struct Headers(MetadataMap);

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
    // A socket of this machine, as Unix has them.
    if address.strip_prefix("unix:").is_some_and(|path| path.starts_with('/')) {
        return Ok(Address { url: address.to_owned(), instance: String::new(), tls: false });
    }
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

fn headers(config: &ServerConfig) -> Result<Headers, RemoteError> {
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

/// Does `request`, and once more after a while, up to four times, as long as it fails in a way that may pass.
///
/// # Errors
/// The last one.
pub fn again<T>(request: impl Fn() -> Result<T, RemoteError>) -> Result<T, RemoteError> {
    let mut wait = AGAIN_AFTER;
    for _ in 0..AGAIN_MAX {
        match request() {
            Err(error) if error.is_transient() => ambient::sleep(wait),
            done => return done,
        }
        wait *= 2;
    }
    request()
}

async fn run_jobs(mut jobs: UnboundedReceiver<Job>) {
    while let Some(job) = jobs.recv().await {
        tokio::spawn(job);
    }
}

impl Connection {
    /// A connection to the server of `config`. Nothing is asked yet.
    ///
    /// # Errors
    /// [`RemoteError::Address`]; [`RemoteError::Certificates`].
    pub fn new(config: &ServerConfig) -> Result<Self, RemoteError> {
        let Address { url, instance, tls } = parse(&config.address)?;
        let wrong =
            |error: String| RemoteError::Address { address: config.address.clone(), reason: error };
        let mut endpoint = Endpoint::from_shared(url)
            .map_err(|error| wrong(error.to_string()))?
            .connect_timeout(config.timeout)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(2 * WINDOW_BYTES)
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
            instance: if instance.is_empty() { config.instance.clone() } else { instance },
            timeout: config.timeout,
            transport,
            jobs,
            abilities: OnceLock::new(),
        })
    }

    /// Makes `request`, in which contents of `bytes` bytes go one way or the other, and waits for its answer; `None` if what
    /// it asks for is not there.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        operation: &'static str,
        bytes: u64,
        request: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<Option<T>, RemoteError> {
        let (sender, answer) = mpsc::channel();
        let times = u32::try_from(1 + bytes / BYTES_IN_TIME).unwrap_or(u32::MAX);
        let timeout = self.timeout.saturating_mul(times);
        let job = async move {
            // It fails if the caller has stopped waiting.
            let _ = sender.send(tokio::time::timeout(timeout, request).await);
        };
        self.start(operation, job)?;
        let failed = |reason| self.failed(operation, reason);
        let ended = || failed("the thread of requests has ended".to_owned());
        match answer.recv().map_err(|_| ended())? {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(status)) if status.code() == Code::NotFound => Ok(None),
            Ok(Err(status)) => Err(self.failed_with(operation, &status)),
            Err(_) => {
                Err(RemoteError::TimedOut { address: self.address.clone(), operation, timeout })
            }
        }
    }

    /// Starts `job` on the thread of requests.
    pub(super) fn start(
        &self,
        operation: &'static str,
        job: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), RemoteError> {
        let ended = |_| self.failed(operation, "the thread of requests has ended".to_owned());
        self.jobs.send(Box::pin(job)).map_err(ended)
    }

    /// The error that `operation` failed, for this `reason`.
    pub(super) fn failed(&self, operation: &'static str, reason: String) -> RemoteError {
        RemoteError::Failed { address: self.address(), operation, reason, code: 0 }
    }

    /// The error that `operation` ended with `status`.
    pub(super) fn failed_with(&self, operation: &'static str, status: &Status) -> RemoteError {
        let code = if is_broken(status) { UNAVAILABLE } else { status.code().into() };
        let reason = message_of(status);
        RemoteError::Failed { address: self.address(), operation, reason, code }
    }

    /// The server's address, as it was given.
    pub(super) fn address(&self) -> String {
        self.address.clone()
    }

    /// The name of what the server keeps apart from other users of it; often empty.
    pub(super) fn instance(&self) -> String {
        self.instance.clone()
    }

    pub(super) fn transport(&self) -> Transport {
        self.transport.clone()
    }

    /// The error that the answer to `operation` is wrong, for this `reason`.
    pub fn wrong(&self, operation: &'static str, reason: impl Into<String>) -> RemoteError {
        RemoteError::Wrong { address: self.address.clone(), operation, reason: reason.into() }
    }

    /// The request for what the server can do.
    pub(super) fn capabilities_request(
        &self,
    ) -> impl Future<Output = Result<api::ServerCapabilities, Status>> + Send + use<> {
        let mut client = api::capabilities_client::CapabilitiesClient::new(self.transport.clone());
        let request = api::GetCapabilitiesRequest { instance_name: self.instance.clone() };
        async move { Ok(client.get_capabilities(request).await?.into_inner()) }
    }

    /// Most time for a request.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The error that `operation` was not answered in time.
    pub(super) fn timed_out(&self, operation: &'static str) -> RemoteError {
        RemoteError::TimedOut { address: self.address(), operation, timeout: self.timeout }
    }

    /// What the server can do, which is asked once.
    pub(super) fn abilities(&self) -> Result<Abilities, RemoteError> {
        const OPERATION: &str = "GetCapabilities";
        if let Some(abilities) = self.abilities.get() {
            return Ok(*abilities);
        }
        let answer = self.ask(OPERATION, 0, self.capabilities_request())?;
        let cache = answer.and_then(|answer| answer.cache_capabilities);
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
            compressed_streams: cache.supported_compressors.contains(&ZSTD),
            compressed_messages: cache.supported_batch_update_compressors.contains(&ZSTD),
        };
        Ok(*self.abilities.get_or_init(|| abilities))
    }
}

/// Whether `status` is none of the server's: the way there broke.
pub(super) fn is_broken(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// What `status` says, in one line.
pub(super) fn message_of(status: &Status) -> String {
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
    short(&text)
}

/// `text` of a server in one line, which is not too long.
pub(super) fn short(text: &str) -> String {
    let line = text.replace(['\n', '\r'], " ");
    if line.chars().count() <= MESSAGE_CHARS_MAX {
        return line;
    }
    line.chars().take(MESSAGE_CHARS_MAX).chain("…".chars()).collect()
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
            ("unix:/run/cache", "unix:/run/cache", ""),
            ("grpcs://[::1]:7000/x", "https://[::1]:7000", "x"),
        ] {
            let parsed = parse(address).unwrap();
            assert_eq!((parsed.url.as_str(), parsed.instance.as_str()), (url, instance));
        }
        for address in ["", "cache:80", "http://cache", "grpc://", "grpc:///x", "grpc://me@cache"] {
            assert!(matches!(parse(address), Err(RemoteError::Address { .. })), "{address}");
        }
    }
}
