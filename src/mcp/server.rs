//! A server: what all its clients share.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Semaphore;

use super::budget::Budget;
use super::client::Client;
use super::environment::{Environment, Loaded};
use super::net::{Recorded, TapedRequests};
use super::policy::{Folder, Policy};
use super::tape::CallTape;
use crate::HostDir;
use crate::host::NetCalls;
use crate::kernel::vfs::{Layer, TapedLayer, TapedTree, VPath};
use crate::sandbox::Directory;

/// What all clients of a server share: the policy, the open directories of the host, the programs, and the bounds.
pub struct Server {
    pub(super) policy: Policy,
    pub(super) environment: Box<dyn Environment>,
    pub(super) budget: Arc<Budget>,
    pub(super) running: Arc<Semaphore>,
    roots: Roots,
    loaded: Mutex<Loaded>,
    clients: Mutex<Vec<Weak<Client>>>,
    clients_made: AtomicU64,
    pub(super) tape: Option<CallTape>,
    /// Held while changes are written to the disk: one after another.
    pub(super) applying: Mutex<()>,
}

/// The directories of the policy.
enum Roots {
    /// By name, opened once.
    Host(HashMap<String, HostDir>),
    /// On the tape that is replayed.
    Taped(Taped),
}

/// What is outside of the server, on the tape that is replayed.
pub(super) struct Taped {
    pub tree: Arc<TapedTree>,
    /// Whether names in directories are found only in their stored spelling.
    pub exact_names: bool,
    pub requests: TapedRequests,
}

/// A directory beneath one of the policy.
pub(super) struct OpenedFolder {
    pub directory: Directory,
    /// Its path on the host.
    pub path: PathBuf,
}

/// A server cannot begin.
#[derive(thiserror::Error)]
pub enum ServerError {
    /// A directory of the policy cannot be opened.
    #[error("folder {name:?} of the policy: cannot open {}", path.display())]
    Folder {
        /// Its name.
        name: String,
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The programs cannot be found.
    #[error("{0}")]
    Programs(String),
}

crate::base::readable::readable!(ServerError);

impl Server {
    /// A server for clients that get what `policy` says. Calls are recorded on `tape`, if there is one.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn new(
        policy: Policy,
        environment: Box<dyn Environment>,
        tape: Option<CallTape>,
    ) -> Result<Arc<Self>, ServerError> {
        let mut roots = HashMap::new();
        let mut exact_names = true;
        for folder in &policy.folders {
            let dir = HostDir::open(&folder.path).map_err(|source| ServerError::Folder {
                name: folder.name.clone(),
                path: folder.path.clone(),
                source,
            })?;
            exact_names &= dir.names_are_exact();
            roots.insert(folder.name.clone(), dir);
        }
        if let Some(tape) = &tape {
            tape.record_start(&policy, exact_names);
        }
        Self::with(policy, environment, tape, Roots::Host(roots))
    }

    /// A server that replays the calls on a tape.
    pub(super) fn replaying(
        policy: Policy,
        environment: Box<dyn Environment>,
        taped: Taped,
    ) -> Result<Arc<Self>, ServerError> {
        Self::with(policy, environment, None, Roots::Taped(taped))
    }

    fn with(
        policy: Policy,
        environment: Box<dyn Environment>,
        tape: Option<CallTape>,
        roots: Roots,
    ) -> Result<Arc<Self>, ServerError> {
        let loaded = environment.load(policy.toolchains.as_deref());
        let loaded = loaded.map_err(ServerError::Programs)?;
        Ok(Arc::new(Self {
            budget: Budget::new(policy.bounds),
            running: Arc::new(Semaphore::new(policy.bounds.running_max as usize)),
            roots,
            loaded: Mutex::new(loaded),
            clients: Mutex::default(),
            clients_made: AtomicU64::new(0),
            tape,
            applying: Mutex::default(),
            environment,
            policy,
        }))
    }

    /// A new client, with no sandboxes. They are dropped with it.
    pub fn connect(self: &Arc<Self>) -> Arc<Client> {
        let number = self.clients_made.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client::new(self.clone(), number));
        let mut clients = self.clients();
        clients.retain(|client| client.strong_count() > 0);
        clients.push(Arc::downgrade(&client));
        client
    }

    /// The client with this number on the tape that is replayed.
    pub(super) fn connect_as(self: &Arc<Self>, number: u64) -> Arc<Client> {
        Arc::new(Client::new(self.clone(), number))
    }

    /// Whether one more client is within the bounds.
    pub(super) fn has_room(&self) -> bool {
        let live = self.clients().iter().filter(|client| client.strong_count() > 0).count();
        live <= self.policy.bounds.clients_max as usize
    }

    /// Drops the sandboxes that nobody has used for the time of the policy.
    pub fn drop_idle(&self) {
        let clients: Vec<_> = self.clients().iter().filter_map(Weak::upgrade).collect();
        for client in clients {
            client.drop_idle(self.policy.bounds.idle());
        }
    }

    /// The number of sandboxes of all clients.
    pub fn sandboxes(&self) -> u32 {
        self.budget.used().sandboxes
    }

    /// What clients get.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Ends the tape, if there is one; returns its number of records.
    ///
    /// # Errors
    /// The tape is full or cannot be written.
    pub fn finish_tape(&self) -> Result<Option<u64>, crate::tape::TapeError> {
        self.tape.as_ref().map(CallTape::finish).transpose()
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Weak<Client>>> {
        // A list is whole between statements.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn loaded(&self) -> Loaded {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_loaded(&self, loaded: Loaded) {
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = loaded;
    }

    /// What keeps the requests of the programs of a sandbox on the tape, or answers them from it.
    pub(super) fn net_calls(&self, client: &Client, sandbox: &str) -> Option<Arc<dyn NetCalls>> {
        if let Roots::Taped(Taped { requests, .. }) = &self.roots {
            return Some(Arc::new(requests.clone()));
        }
        Some(Arc::new(Recorded {
            tape: self.tape.clone()?,
            client: client.number(),
            secrets: client.secrets.clone(),
            sandbox: sandbox.to_owned(),
        }))
    }

    /// Opens the directory at `path` in `folder` of the policy, beneath the open handle of that; on a tape it is at
    /// `at_on_tape`.
    ///
    /// # Errors
    /// Those of [`HostDir::open_beneath`].
    pub(super) fn open(
        &self,
        folder: &Folder,
        path: &VPath,
        at_on_tape: &str,
    ) -> io::Result<OpenedFolder> {
        match &self.roots {
            Roots::Host(roots) => {
                let root = roots.get(&folder.name).ok_or(io::ErrorKind::NotFound)?;
                let dir = root.open_beneath(path)?;
                Ok(OpenedFolder { path: dir.path().to_owned(), directory: Directory::Host(dir) })
            }
            Roots::Taped(Taped { tree, exact_names, .. }) => {
                let layer = TapedLayer::new(tree.clone(), at_on_tape, *exact_names);
                let directory = Directory::Layer(Arc::new(layer));
                Ok(OpenedFolder { path: folder.path.clone(), directory })
            }
        }
    }
}
