//! Results that are shared over a server of the Remote Execution API.
//!
//! The server keeps the same tree as [`super::ResultCache`]: the traces at a place are an action result, whose output
//! files they are ([`keys`]). A lookup asks for the place that the answers lead to. Where the tree of the server has
//! grown in another order than the one here, it is followed from its root.
//!
//! A server that is slow, gone, full or wrong costs a bounded time and a note, and never a run.

mod keys;
mod run_list;
mod server;
mod tree;
mod trust;
mod upload;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use self::keys::Named;
use self::run_list::RunList;
use self::server::Server;
use self::tree::{Stored, Tree, trace_at};
use self::upload::Uploads;
use super::action::{Action, Place};
use super::shared::Shared;
use super::trace::{Answer, Trace};
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::base::signature::{PublicKey, SecretKey};
use crate::remote::{RemoteError, ServerConfig};

/// Most bytes of a trace that is fetched or uploaded, and of all those that are fetched from one place, before they are compressed.
/// In memory, one that is made up can take up to 24 times as much.
pub const REMOTE_TRACE_BYTES_MAX: u64 = 32 << 20;

/// Most traces in one place: more than one are there only if they were stored at the same time.
const TRACES_MAX: usize = 4;

/// Bytes of fetched traces that are remembered, so that they are not fetched twice.
const REMEMBERED_BYTES_MAX: u64 = 32 << 20;

/// Most failed requests: then the server is not asked any more.
const FAILURES_MAX: u32 = 3;

/// The trace that a server keeps as these `contents`, for tools that read what is there; `None` if it is none.
pub fn trace_of_contents(contents: &[u8]) -> Option<Trace> {
    tree::unpacked(contents, REMOTE_TRACE_BYTES_MAX).map(|(trace, _)| trace)
}

/// A server, and how it is used.
#[derive(Clone, Debug)]
pub struct RemoteConfig {
    /// `grpc://HOST[:PORT][/INSTANCE]`, or `grpcs://` for TLS.
    pub address: String,
    /// The instance, if the address does not have it. Default: none.
    pub instance: String,
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
    /// Tells the command of the run from others: what the last run of it took from the server, or added, is fetched together, which
    /// saves the time to ask for one after the other. Default: none, and nothing is fetched ahead.
    pub command: Option<Digest>,
    /// Most time for a request, for what is uploaded when a run has ended, and for all that is asked for beyond what it
    /// saves. Default: 10 s.
    pub timeout: Duration,
}

impl RemoteConfig {
    /// The server at `address`, which is only read.
    pub fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            instance: String::new(),
            uploads: false,
            headers: Vec::new(),
            certificates: None,
            trusted: Vec::new(),
            signs_with: None,
            command: None,
            timeout: Duration::from_secs(10),
        }
    }
}

impl RemoteConfig {
    fn server(&self) -> ServerConfig {
        ServerConfig {
            address: self.address.clone(),
            instance: self.instance.clone(),
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
    list: Option<Arc<RunList>>,
    uploads: Option<Uploads>,
    /// Whether it signs: what others made is not uploaded in its name then.
    signs: bool,
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
        let tree = Arc::new(Tree::new(Server::new(config)?));
        let list = config.command.map(|command| Arc::new(RunList::new(command)));
        let uploads = config.uploads.then(|| Uploads::new(&tree, list.as_ref()));
        let (address, timeout) = (config.address.clone(), config.timeout);
        let signs = config.signs_with.is_some();
        Ok(Self { tree, list, uploads, signs, address, timeout, balance: Mutex::default() })
    }

    /// Waits until everything is uploaded, at most for the timeout; returns what the server was used for.
    pub fn finish(&self) -> RemoteStatistics {
        let Some(uploads) = &self.uploads else { return self.tree.statistics().clone() };
        let begun = ambient::instant_now();
        // The rest of the time is for the list.
        let left = uploads.finish(self.timeout * 3 / 4);
        let mut statistics = self.tree.statistics().clone();
        statistics.lost += left;
        if let Some(list) = self.list.clone() {
            let (tree, (done, stored)) = (self.tree.clone(), mpsc::channel());
            let store = move || {
                list.store(&tree);
                // It fails if nobody waits any more.
                let _ = done.send(());
            };
            if thread::Builder::new().name("remote list".to_owned()).spawn(store).is_ok() {
                // Without a list, traces are asked for one by one.
                let rest = self.timeout.saturating_sub(ambient::elapsed_since(begun));
                let _ = stored.recv_timeout(rest);
            }
            statistics.error.clone_from(&self.tree.statistics().error);
        }
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

    /// How long lookups may still take.
    fn time_left(&self) -> Duration {
        let balance = self.balance.lock().unwrap_or_else(PoisonError::into_inner);
        balance.saved.saturating_add(self.timeout).saturating_sub(balance.waited)
    }

    fn look_up(
        &self,
        module: Digest,
        action: Action,
        answers: &[Answer],
        is_here: &dyn Fn(Place) -> bool,
    ) -> Option<Stored> {
        let place = action.place(answers);
        let begins = |trace: &Trace| trace.answers_shared(answers) == answers.len();
        if let Some(list) = &self.list {
            list.begin(&self.tree, is_here);
            let ahead = list.take(place, self.time_left()).and_then(|(named, bytes)| {
                let (trace, _) = trace_at(place, &bytes, REMOTE_TRACE_BYTES_MAX)?;
                Some(Stored { named, trace: trace.into() })
            });
            if let Some(ahead) = ahead.filter(|ahead| begins(&ahead.trace)) {
                return Some(ahead);
            }
        }
        // One request for a module that is new to the server, instead of one for each of its processes.
        if !self.knows_module(module) {
            return None;
        }
        // If the first one leads nowhere, the other one is needed.
        self.tree.fetch_both(place, action.start());
        if let Some(stored) = self.tree.traces(place).iter().find(|it| begins(&it.trace)) {
            return Some(stored.clone());
        }
        // The way there from the root: at each place the trace that agrees the longest leads on.
        let (mut place, mut agreed) = (action.start(), None);
        loop {
            let traces = self.tree.traces(place);
            let longest = traces.iter().max_by_key(|it| it.trace.answers_shared(answers))?;
            let shared = longest.trace.answers_shared(answers);
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

    fn knows_module(&self, module: Digest) -> bool {
        self.list.as_ref().is_some_and(|list| list.knows(module)) || self.tree.knows(module)
    }

    fn note(&self, module: Digest, place: Place, named: Option<Named>) {
        if let Some(list) = &self.list {
            list.note(module, place, named);
        }
    }
}

impl Shared for RemoteCache {
    fn find(
        &self,
        module: Digest,
        action: Action,
        answers: &[Answer],
        is_here: &dyn Fn(Place) -> bool,
    ) -> Option<Arc<Trace>> {
        let saving =
            |found: &Option<Stored>| found.as_ref().map_or(Duration::ZERO, |it| it.trace.took());
        let found = self.balanced(|| self.look_up(module, action, answers, is_here), saving)?;
        self.note(module, action.place(answers), Some(found.named));
        Some(found.trace)
    }

    fn knows(&self, module: Digest, is_here: &dyn Fn(Place) -> bool) -> bool {
        let look_up = || {
            if let Some(list) = &self.list {
                list.begin(&self.tree, is_here);
            }
            self.knows_module(module)
        };
        self.balanced(look_up, |_| Duration::ZERO)
    }

    fn add(&self, module: Digest, place: Place, trace: &Trace) {
        if let Some(uploads) = &self.uploads {
            if let Some(list) = &self.list {
                list.note_added(place);
            }
            uploads.add(module, place, trace);
        }
    }

    fn note_use(&self, module: Digest, place: Place) {
        self.note(module, place, None);
    }

    fn lacking(&self) -> Vec<(Digest, Place)> {
        match &self.list {
            Some(list) if self.uploads.is_some() && !self.signs => {
                list.ask(&self.tree);
                list.unlisted()
            }
            _ => Vec::new(),
        }
    }
}
