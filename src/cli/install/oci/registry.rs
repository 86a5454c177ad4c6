//! A repository of an OCI registry.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use docker_credential::{CredentialRetrievalError, DockerCredential};
use futures_util::{StreamExt, stream};
use oci_client::client::{BlobResponse, ClientConfig, ClientProtocol};
use oci_client::errors::{OciDistributionError, OciErrorCode};
use oci_client::manifest::{ImageIndexEntry, OciDescriptor, OciImageManifest, OciManifest};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::base::disk::{self, DiskError};
use crate::cli::exit::Usage;
use crate::cli::progress::Progress;
use crate::cli::text::printable;
use crate::toolchain::digests;

/// Time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Time in which a server must send something.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// Time for an answer that is held in memory.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// How often a blob is asked for without a new byte of it.
const ATTEMPTS_MAX: u32 = 3;

/// How often a blob is asked for at all.
const ALL_ATTEMPTS_MAX: u32 = 100;

/// Longest blob that is fetched, in bytes.
const BLOB_BYTES_MAX: u64 = 4 << 30;

/// Most tags that are shown of a repository.
const TAGS_SHOWN_MAX: usize = 20;

/// Most tags that a repository is asked for.
const TAGS_MAX: usize = 1000;

/// Bytes sent at a time.
const PIECE_BYTES: u64 = 4 << 20;

/// A repository, and what the reference names in it.
pub struct Registry {
    runtime: Runtime,
    client: Client,
    reference: Reference,
    auth: RegistryAuth,
    is_plain_http: bool,
}

/// Whether `text` has the form of a reference: the name of a registry before the first slash.
pub fn is_reference(text: &str) -> bool {
    let Some((registry, path)) = text.split_once('/') else { return false };
    let is_host = registry.contains(['.', ':']) || registry == "localhost";
    let is_path = registry.trim_matches('.').is_empty() || registry.contains('\\');
    is_host && !is_path && !path.is_empty() && Reference::try_from(text).is_ok()
}

/// Whether the registry `name` is on this machine.
fn is_loopback(name: &str) -> bool {
    let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
    host == "localhost"
        || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

impl Registry {
    /// Prepares to talk to the registry of `reference`: over HTTPS, or, with `plain_http`, over HTTP.
    ///
    /// # Errors
    /// [`Usage`] if `reference` is none, or `plain_http` is given for another machine; the configuration of docker is wrong.
    pub fn of(reference: &str, plain_http: bool) -> Result<Self> {
        if !is_reference(reference) {
            return Err(Usage(format!(
                "{} is not a reference: expected REGISTRY/NAME:TAG, such as ghcr.io/me/tools:1.0",
                printable(reference)
            ))
            .into());
        }
        let reference = Reference::try_from(reference)?;
        let name = reference.resolve_registry().to_owned();
        if plain_http && !is_loopback(&name) {
            let message =
                format!("--plain-http is for registries on this machine only, and not for {name}");
            return Err(Usage(message).into());
        }
        // Fails if there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::try_from(ClientConfig {
            protocol: if plain_http { ClientProtocol::Http } else { ClientProtocol::Https },
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(READ_TIMEOUT),
            platform_resolver: Some(Box::new(for_wasm)),
            user_agent: concat!("belljar/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        })?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime of the client")?;
        let (auth, is_plain_http) = (login(&name)?, plain_http);
        Ok(Self { runtime, client, reference, auth, is_plain_http })
    }

    /// What it names, to be shown.
    pub fn name(&self) -> String {
        printable(&self.reference.whole())
    }

    /// The last part of the repository's name.
    pub fn last_name(&self) -> &str {
        let repository = self.reference.repository();
        repository.rsplit('/').next().unwrap_or(repository)
    }

    /// The tag, if the reference has one.
    pub fn tag(&self) -> Option<&str> {
        self.reference.tag()
    }

    /// Fetches the manifest of an image, and its digest.
    ///
    /// # Errors
    /// The registry does not answer, has none, or has one with another digest than it says or the reference has.
    pub fn manifest(&self) -> Result<(OciImageManifest, String)> {
        let found = self.answer(self.client.pull_image_manifest(&self.reference, &self.auth))?;
        found.map_err(|error| self.explained(error, "fetch"))
    }

    /// What `asked` comes to, which is held in memory.
    ///
    /// # Errors
    /// It takes too long.
    fn answer<T>(&self, asked: impl Future<Output = T>) -> Result<T> {
        let answer = self.runtime.block_on(async { timeout(ANSWER_TIMEOUT, asked).await });
        answer.with_context(|| self.no_answer())
    }

    fn no_answer(&self) -> String {
        format!("{} sent no whole answer in {} s", self.name(), ANSWER_TIMEOUT.as_secs())
    }

    /// `error` as the reason for which it is not possible to do `what`, with the next step.
    fn explained(&self, error: OciDistributionError, what: &str) -> anyhow::Error {
        let (registry, name) = (printable(self.reference.resolve_registry()), self.name());
        let message = match Reason::of(&error) {
            Reason::NeedsLogin => {
                format!("cannot {what} {name} without a login: `docker login {registry}`")
            }
            Reason::Unknown => return Usage(self.what_there_is(what)).into(),
            Reason::NoConnection if is_loopback(&registry) && !self.is_plain_http => format!(
                "cannot {what} {name}: {registry} cannot be reached over HTTPS; if it speaks HTTP, add --plain-http"
            ),
            Reason::NoConnection => format!(
                "cannot {what} {name}: {registry} cannot be reached; check its name, and the network"
            ),
            Reason::Other => format!("cannot {what} {name}"),
        };
        anyhow::Error::from(error).context(message)
    }

    /// Says that the registry does not have what the reference names, but what it has instead.
    fn what_there_is(&self, what: &str) -> String {
        let repository = printable(self.reference.repository());
        let mut tags = self.list_tags(TAGS_SHOWN_MAX).ok().and_then(Result::ok).unwrap_or_default();
        tags.sort();
        let there_is = if tags.is_empty() {
            format!("it has no repository {repository}, or shows it only after a login")
        } else {
            let tags: Vec<String> =
                tags.iter().take(TAGS_SHOWN_MAX).map(|tag| printable(tag)).collect();
            format!("{repository} has the tags {}", tags.join(", "))
        };
        let registry = printable(self.reference.resolve_registry());
        format!("cannot {what} {}: {registry} does not have it; {there_is}", self.name())
    }

    /// The tags of the repository, at most 1000.
    ///
    /// # Errors
    /// The registry does not answer.
    pub fn tags(&self) -> Result<Vec<String>> {
        let tags = self.list_tags(TAGS_MAX)?;
        tags.map_err(|error| self.explained(error, "list the tags of"))
    }

    fn list_tags(&self, count_max: usize) -> Result<Result<Vec<String>, OciDistributionError>> {
        let asked = self.client.list_tags(&self.reference, &self.auth, Some(count_max), None);
        Ok(self.answer(asked)?.map(|found| found.tags))
    }

    /// Fetches the blob of `descriptor` into a file in the folder `dir`, which is locked until it is closed, and checks its
    /// length and digest. What a killed
    /// process has fetched of it is not fetched again.
    ///
    /// # Errors
    /// The registry does not send it, or something else.
    pub fn blob(
        &self,
        descriptor: &OciDescriptor,
        dir: &Path,
        shown: &Progress,
    ) -> Result<(PathBuf, File)> {
        let digest = &descriptor.digest;
        let hex = digest.strip_prefix("sha256:").filter(|hex| {
            hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        });
        let Some(hex) = hex else { bail!("{} is not a SHA-256 digest", printable(digest)) };
        let len_bytes = u64::try_from(descriptor.size)
            .with_context(|| format!("the blob {digest} has the length {}", descriptor.size))?;
        if len_bytes > BLOB_BYTES_MAX {
            bail!(
                "the blob {digest} has {len_bytes} bytes, and at most {BLOB_BYTES_MAX} are fetched"
            );
        }
        disk::create_private_dir_all(dir)?;
        let path = dir.join(hex);
        let mut file = loop {
            let file = disk::open_lock(&path)?;
            // Another process may be fetching it, and remove it then.
            file.lock().map_err(DiskError::new("lock", &path))?;
            if disk::is_at(&file, &path) {
                break file;
            }
        };
        let (mut attempts, mut all_attempts) = (0, 0);
        loop {
            let before = file.metadata().map_err(DiskError::new("examine", &path))?.len();
            if before == len_bytes {
                break;
            }
            if before > len_bytes {
                file.set_len(0).map_err(DiskError::new("truncate", &path))?;
            }
            let fetched = self.runtime.block_on(self.fetch(digest, len_bytes, &mut file, shown));
            let after = file.metadata().map_err(DiskError::new("examine", &path))?.len();
            attempts = if after > before { 0 } else { attempts + 1 };
            all_attempts += 1;
            if all_attempts == ALL_ATTEMPTS_MAX && after < len_bytes {
                bail!(
                    "the blob {digest} came in more than {ALL_ATTEMPTS_MAX} pieces; try again later"
                );
            }
            match fetched {
                Err(Failure::Wrong(error)) => return Err(error),
                _ if after == len_bytes => break,
                Ok(()) | Err(Failure::Transfer(_)) if attempts < ATTEMPTS_MAX => {}
                Ok(()) => bail!("the blob {digest} ends after {after} of {len_bytes} bytes"),
                Err(Failure::Transfer(error)) => {
                    return Err(error).with_context(|| format!("cannot fetch the blob {digest}"));
                }
            }
        }
        let whole = file.seek(SeekFrom::Start(0)).and_then(|_| digests::of_reader(&mut file));
        let (found, ..) = whole.map_err(DiskError::new("read", &path))?;
        if found != hex {
            disk::remove_file(&path)?;
            bail!(
                "{} sent something else for the blob {digest}: its digest is sha256:{found}",
                self.name()
            );
        }
        Ok((path, file))
    }

    /// Appends what is missing of a blob to `file`.
    async fn fetch(
        &self,
        digest: &str,
        len_bytes: u64,
        file: &mut File,
        shown: &Progress,
    ) -> Result<(), Failure> {
        self.client.store_auth_if_needed(self.reference.resolve_registry(), &self.auth).await;
        let offset = file.seek(SeekFrom::End(0)).map_err(Failure::wrong)?;
        // Without the URLs of its descriptor, which may lead anywhere.
        let asked = self.client.pull_blob_stream_partial(&self.reference, digest, offset, None);
        let answer = timeout(ANSWER_TIMEOUT, asked)
            .await
            .map_err(|_| Failure::Wrong(anyhow::anyhow!(self.no_answer())))?;
        let (mut stream, mut written) = match answer.map_err(Failure::transfer)? {
            BlobResponse::Partial(stream) => (stream, offset),
            BlobResponse::Full(stream) => {
                file.set_len(0).map_err(Failure::wrong)?;
                file.seek(SeekFrom::Start(0)).map_err(Failure::wrong)?;
                (stream, 0)
            }
        };
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(Failure::transfer)?;
            written += piece.len() as u64;
            if written > len_bytes {
                return Err(Failure::Wrong(anyhow::anyhow!(
                    "{} sends more for the blob {digest} than its {len_bytes} bytes",
                    self.name()
                )));
            }
            file.write_all(&piece).map_err(Failure::wrong)?;
            shown.set_bytes(written, len_bytes);
        }
        Ok(())
    }

    /// Logs in, to push.
    ///
    /// # Errors
    /// The registry does not answer, or refuses it.
    pub fn log_in(&self) -> Result<()> {
        let operation = RegistryOperation::Push;
        let answer = self.answer(self.client.auth(&self.reference, &self.auth, operation))?;
        answer.map(drop).map_err(|error| self.explained(error, "push"))
    }

    /// Pushes the content of `file`, unless the repository has it.
    ///
    /// # Errors
    /// The registry does not take it.
    pub fn push_blob(
        &self,
        digest: &str,
        len_bytes: u64,
        mut file: impl Read + Send + 'static,
    ) -> Result<()> {
        let next = move || {
            let mut piece = Vec::new();
            let read = file.by_ref().take(PIECE_BYTES).read_to_end(&mut piece);
            match read {
                Ok(0) => None,
                Ok(_) => Some(Ok(piece.into())),
                Err(error) => Some(Err(OciDistributionError::IoError(error))),
            }
        };
        let exists = self.answer(self.client.blob_exists(&self.reference, digest))?;
        if exists.map_err(|error| self.explained(error, "push a blob to"))? {
            return Ok(());
        }
        let pushed = self.runtime.block_on(async {
            let (pieces, size) = (stream::iter(std::iter::from_fn(next)), Some(len_bytes));
            self.client.push_blob_stream(&self.reference, pieces, digest, size).await.map(drop)
        });
        pushed.map_err(|error| self.explained(error, "push a blob to"))
    }

    /// Pushes the manifest `manifest` under the tag of the reference; returns its digest.
    ///
    /// # Errors
    /// The registry does not take it.
    pub fn push_manifest(&self, manifest: OciImageManifest) -> Result<String> {
        let manifest = OciManifest::Image(manifest);
        let pushing = async {
            self.client.push_manifest(&self.reference, &manifest).await?;
            self.client.fetch_manifest_digest(&self.reference, &self.auth).await
        };
        let pushed = self.answer(pushing)?;
        pushed.map_err(|error| self.explained(error, "push the manifest of"))
    }
}

/// Why a registry did not do what it was asked for.
enum Reason {
    NeedsLogin,
    /// It has no such manifest, or repository.
    Unknown,
    NoConnection,
    Other,
}

impl Reason {
    fn of(error: &OciDistributionError) -> Self {
        match error {
            OciDistributionError::UnauthorizedError { .. }
            | OciDistributionError::AuthenticationFailure(_) => Self::NeedsLogin,
            OciDistributionError::ImageManifestNotFoundError(_) => Self::Unknown,
            OciDistributionError::RegistryError { envelope, .. } => {
                let is_unknown = |code: &OciErrorCode| {
                    use OciErrorCode::{ManifestUnknown, NameUnknown, NotFound};
                    matches!(code, ManifestUnknown | NameUnknown | NotFound)
                };
                let mut errors = envelope.errors.iter();
                if errors.any(|error| is_unknown(&error.code)) {
                    Self::Unknown
                } else {
                    Self::Other
                }
            }
            OciDistributionError::RequestError(error) if error.is_connect() => Self::NoConnection,
            OciDistributionError::RequestError(error) => match error.status() {
                Some(status) if status.as_u16() == 401 => Self::NeedsLogin,
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

/// Why a blob was not fetched.
enum Failure {
    /// The connection, or the registry, failed: another attempt may help.
    Transfer(anyhow::Error),
    /// Another attempt does not help.
    Wrong(anyhow::Error),
}

impl Failure {
    fn transfer(error: impl Into<anyhow::Error>) -> Self {
        Self::Transfer(error.into())
    }

    fn wrong(error: std::io::Error) -> Self {
        Self::Wrong(error.into())
    }
}

/// The login for the registry `name` that docker has, if any.
fn login(name: &str) -> Result<RegistryAuth> {
    match docker_credential::get_credential(name) {
        Ok(DockerCredential::UsernamePassword(user, password)) => {
            Ok(RegistryAuth::Basic(user, password))
        }
        Ok(DockerCredential::IdentityToken(token)) => Ok(RegistryAuth::Bearer(token)),
        Err(
            CredentialRetrievalError::ConfigNotFound
            | CredentialRetrievalError::ConfigReadError
            | CredentialRetrievalError::NoCredentialConfigured,
        ) => Ok(RegistryAuth::Anonymous),
        Err(error) => bail!("the configuration of docker has no usable login for {name}: {error}"),
    }
}

/// The image for WebAssembly among several.
fn for_wasm(images: &[ImageIndexEntry]) -> Option<String> {
    let is_wasm = |image: &&ImageIndexEntry| {
        image.platform.as_ref().is_some_and(|platform| platform.architecture.to_string() == "wasm")
    };
    match images {
        [image] => Some(image.digest.clone()),
        images => images.iter().find(is_wasm).map(|image| image.digest.clone()),
    }
}
