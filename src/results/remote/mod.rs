//! Results that are shared over a server of the Remote Execution API.
//!
//! The server keeps the same tree as [`super::ResultCache`]: the traces at a place are an action result, whose output
//! files they are ([`keys`]). A lookup asks for the place that the answers lead to. Where the tree of the server has
//! grown in another order than the one here, it is followed from its root.
//!
//! A server that is slow, gone, full or wrong costs a bounded time and a note, and never a run.

mod keys;
mod server;
mod trust;
mod upload;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use self::server::Server;
use self::upload::Uploads;
use super::action::{Action, Place};
use super::shared::Shared;
use super::trace::{Answer, Trace};
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::base::signature::{PublicKey, SecretKey};
use crate::remote::{RemoteError, ServerConfig};

/// Most bytes of a trace that is fetched or uploaded, and of all those that are fetched from one place. In memory, one
/// that is made up can take up to 24 times as much.
pub const REMOTE_TRACE_BYTES_MAX: u64 = 32 << 20;

/// Most traces in one place: more than one are there only if they were stored at the same time.
const TRACES_MAX: usize = 4;

/// Bytes of fetched traces that are remembered, so that they are not fetched twice.
const REMEMBERED_BYTES_MAX: u64 = 128 << 20;

/// Most failed requests: then the server is not asked any more.
const FAILURES_MAX: u32 = 3;

/// A server, and how it is used.
#[derive(Clone, Debug)]
pub struct RemoteConfig {
    /// `grpc://HOST[:PORT][/INSTANCE]`, or `grpcs://` for TLS.
    pub address: String,
    /// Whether results are uploaded. Default: no.
    pub uploads: bool,
    /// Headers of each request, with their values.
    pub headers: Vec<(String, String)>,
    /// A file of certificates, in PEM, that are trusted for TLS besides those of this system.
    pub certificates: Option<PathBuf>,
    /// Only traces that one of these keys signed are taken. Default: none, and all traces are taken.
    pub trusted: Vec<PublicKey>,
    /// Signs what is uploaded. Its public key should be one of `trusted`: what this machine uploads rests on what it takes.
    pub signs_with: Option<Arc<SecretKey>>,
    /// Most time for a request, for what is uploaded when a run has ended, and for all that is asked for beyond what it
    /// saves. Default: 10 s.
    pub timeout: Duration,
}

impl RemoteConfig {
    /// The server at `address`, which is only read.
    pub fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            uploads: false,
            headers: Vec::new(),
            certificates: None,
            trusted: Vec::new(),
            signs_with: None,
            timeout: Duration::from_secs(10),
        }
    }
}

impl RemoteConfig {
    fn server(&self) -> ServerConfig {
        ServerConfig {
            address: self.address.clone(),
            instance: String::new(),
            headers: self.headers.clone(),
            certificates: self.certificates.clone(),
            timeout: self.timeout,
        }
    }
}

/// What a server was used for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemoteStatistics {
    /// Traces that were uploaded.
    pub uploaded: u64,
    /// Traces that were not uploaded: it failed, took too long, or they were too large.
    pub lost: u64,
    /// Traces that were not taken: no trusted key had signed them.
    pub untrusted: u64,
    /// The first failure.
    pub error: Option<String>,
}

/// Results on a server, which others read and write, too.
pub struct RemoteCache {
    tree: Arc<Tree>,
    uploads: Option<Uploads>,
    address: String,
    timeout: Duration,
    balance: Mutex<Balance>,
}

/// What lookups cost and save.
#[derive(Default)]
struct Balance {
    waited: Duration,
    saved: Duration,
    is_over: bool,
}

impl RemoteCache {
    /// The cache that `config` describes. Nothing is asked yet.
    ///
    /// # Errors
    /// [`RemoteError::Address`]; [`RemoteError::Certificates`].
    pub fn new(config: &RemoteConfig) -> Result<Self, RemoteError> {
        let tree = Arc::new(Tree {
            server: Server::new(config)?,
            remembered: Mutex::default(),
            statistics: Mutex::default(),
            failures: AtomicU32::new(0),
        });
        let uploads = config.uploads.then(|| Uploads::new(tree.clone()));
        let (address, timeout) = (config.address.clone(), config.timeout);
        Ok(Self { tree, uploads, address, timeout, balance: Mutex::default() })
    }

    /// Waits until everything is uploaded, at most for the timeout; returns what the server was used for.
    pub fn finish(&self) -> RemoteStatistics {
        let left = self.uploads.as_ref().map_or(0, |uploads| uploads.finish(self.timeout));
        let mut statistics = self.tree.statistics().clone();
        statistics.lost += left;
        statistics
    }

    /// What `look_up` finds, unless lookups have cost too much; `saving` says how much time it saves.
    fn balanced<T: Default>(
        &self,
        look_up: impl FnOnce() -> T,
        saving: impl FnOnce(&T) -> Duration,
    ) -> T {
        // Each count is right by itself.
        let balance = || self.balance.lock().unwrap_or_else(PoisonError::into_inner);
        if balance().is_over {
            return T::default();
        }
        let started = ambient::instant_now();
        let found = look_up();
        let mut balance = balance();
        balance.waited += ambient::elapsed_since(started);
        balance.saved = balance.saved.saturating_add(saving(&found));
        if balance.waited > balance.saved.saturating_add(self.timeout) {
            balance.is_over = true;
            let (waited, saved) = (balance.waited, balance.saved);
            let error = RemoteError::NoUse { address: self.address.clone(), waited, saved };
            self.tree.statistics().error.get_or_insert_with(|| error.to_string());
        }
        found
    }

    fn look_up(&self, action: Action, answers: &[Answer]) -> Option<Trace> {
        let begins = |trace: &&Trace| trace.answers_shared(answers) == answers.len();
        if let Some(trace) = self.tree.traces(action.place(answers)).iter().find(begins) {
            return Some(trace.clone());
        }
        // The way there from the root: at each place the trace that agrees the longest leads on.
        let (mut place, mut agreed) = (action.start(), None);
        loop {
            let traces = self.tree.traces(place);
            let longest = traces.iter().max_by_key(|trace| trace.answers_shared(answers))?;
            let shared = longest.answers_shared(answers);
            if shared == answers.len() {
                return Some(longest.clone());
            }
            // What does not lead on would lead in a circle.
            if agreed.is_some_and(|agreed| shared <= agreed) {
                return None;
            }
            (place, agreed) = (action.after(&answers[..=shared]), Some(shared));
        }
    }
}

impl Shared for RemoteCache {
    fn find(&self, action: Action, answers: &[Answer]) -> Option<Trace> {
        let saving = |found: &Option<Trace>| found.as_ref().map_or(Duration::ZERO, Trace::took);
        self.balanced(|| self.look_up(action, answers), saving)
    }

    fn knows(&self, module: Digest) -> bool {
        self.balanced(|| self.tree.knows(module), |_| Duration::ZERO)
    }

    fn add(&self, module: Digest, trace: &Trace) {
        if let Some(uploads) = &self.uploads {
            uploads.add(module, trace);
        }
    }
}

/// The traces of a server, as far as they were asked for.
struct Tree {
    server: Server,
    remembered: Mutex<Remembered>,
    statistics: Mutex<RemoteStatistics>,
    failures: AtomicU32,
}

#[derive(Default)]
struct Remembered {
    places: HashMap<Digest, Arc<[Trace]>>,
    modules: HashMap<Digest, bool>,
    /// Bytes of `places`.
    bytes: u64,
}

impl Tree {
    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        // Each entry is right by itself.
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn statistics(&self) -> MutexGuard<'_, RemoteStatistics> {
        // Counts are complete at any time.
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `request`, unless the server has failed too often; `None` if that fails.
    fn ask<T>(&self, request: impl FnOnce(&Server) -> Result<T, RemoteError>) -> Option<T> {
        if self.failures.load(Ordering::Relaxed) >= FAILURES_MAX {
            return None;
        }
        match request(&self.server) {
            Ok(answer) => Some(answer),
            Err(error) => {
                // Waiting once more costs the same again.
                let is_slow = matches!(error, RemoteError::TimedOut { .. });
                let failures = if is_slow { FAILURES_MAX } else { 1 };
                self.failures.fetch_add(failures, Ordering::Relaxed);
                self.statistics().error.get_or_insert_with(|| error.to_string());
                None
            }
        }
    }

    /// The traces at `place`: none, if the server has none or fails.
    fn traces(&self, place: Place) -> Arc<[Trace]> {
        if let Some(known) = self.remembered().places.get(&place.at) {
            return known.clone();
        }
        let is_of_action = |trace: &Trace| trace.action == place.action.digest();
        let fetch = |server: &Server| {
            let mut bytes = 0;
            let mut traces = Vec::new();
            let (blobs, untrusted) = server.traces(place)?;
            for blob in blobs {
                bytes += blob.len() as u64;
                traces.extend(Trace::from_bytes(&blob).filter(is_of_action));
            }
            self.statistics().untrusted += untrusted;
            Ok((traces, bytes))
        };
        let (traces, bytes) = self.ask(fetch).unwrap_or_default();
        self.remember(place, traces.into(), bytes)
    }

    /// Remembers that the traces at `place`, of so many `bytes`, are `traces`.
    fn remember(&self, place: Place, traces: Arc<[Trace]>, bytes: u64) -> Arc<[Trace]> {
        let mut remembered = self.remembered();
        remembered.bytes += bytes;
        if remembered.bytes > REMEMBERED_BYTES_MAX {
            remembered.places.clear();
            remembered.bytes = bytes;
        }
        remembered.places.insert(place.at, traces.clone());
        traces
    }

    fn knows(&self, module: Digest) -> bool {
        if let Some(known) = self.remembered().modules.get(&module) {
            return *known;
        }
        let known = self.ask(|server| server.knows(module)).unwrap_or(false);
        self.remembered().modules.insert(module, known);
        known
    }
}
