//! The traces of earlier runs of the same command, which are fetched together: asking for one after the other costs the way
//! to the server and back for each.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use indexmap::IndexMap;

use super::keys::{Listed, Named};
use super::tree::Tree;
use crate::base::digest::Digest;
use crate::results::action::Place;

/// Bytes of traces that are fetched ahead, at most.
const FETCHED_BYTES_MAX: u64 = 64 << 20;

/// Bytes of the first traces that are fetched together. The run waits for them.
const FIRST_BYTES: u64 = 64 << 10;

/// Bytes of later ones.
const LATER_BYTES: u64 = 1 << 20;

/// Most traces of earlier runs that a list keeps though the last run did not need them: those of another project in which the
/// same command is run, or of another branch.
const OTHERS_MAX: usize = 1000;

/// What a trace of the list is known to be.
enum Ahead {
    /// It is being fetched, or will be.
    Waits,
    /// These bytes.
    Fetched(Vec<u8>),
}

#[derive(Default)]
struct State {
    /// What the server has; `None` before it was asked.
    listed: Option<IndexMap<Digest, Listed>>,
    /// By place.
    ahead: HashMap<Digest, Ahead>,
    modules: HashSet<Digest>,
    /// The places that this run came to, with the module and, if it is known, the trace on the server.
    used: IndexMap<Digest, (Digest, Place, Option<Named>)>,
    /// Places of which this run has a trace to upload.
    added: HashSet<Digest>,
    /// No more traces are fetched ahead.
    is_over: bool,
}

impl State {
    /// What is not fetched yet is asked for one by one, if the server still is.
    fn give_up(&mut self) {
        self.is_over = true;
        self.ahead.retain(|_, ahead| matches!(ahead, Ahead::Fetched(_)));
    }
}

/// The list of a command.
pub struct RunList {
    command: Digest,
    state: Mutex<State>,
    changed: Condvar,
}

impl RunList {
    /// The list of `command`.
    pub fn new(command: Digest) -> Self {
        Self { command, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each entry is right by itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the list, once, and begins to fetch those traces of which this machine has none, as `is_here` says.
    pub fn begin(self: &Arc<Self>, tree: &Arc<Tree>, is_here: &dyn Fn(Place) -> bool) {
        if !self.ask(tree) {
            return;
        }
        let mut state = self.lock();
        let (mut waiting, mut bytes) = (VecDeque::new(), 0);
        for listed in state.listed.iter().flatten().map(|(_, listed)| listed.clone()) {
            if is_here(listed.place) {
                continue;
            }
            bytes += listed.named.len();
            if bytes > FETCHED_BYTES_MAX {
                break;
            }
            waiting.push_back(listed);
        }
        for listed in &waiting {
            state.ahead.insert(listed.place.at, Ahead::Waits);
        }
        drop(state);
        let (list, tree) = (self.clone(), tree.clone());
        let fetch = move || list.fetch(&tree, waiting);
        if thread::Builder::new().name("remote traces".to_owned()).spawn(fetch).is_err() {
            // They are asked for one by one.
            self.lock().ahead.clear();
        }
    }

    /// Asks for the list, unless it was asked for; returns whether this call did.
    pub fn ask(&self, tree: &Tree) -> bool {
        if self.lock().listed.is_some() {
            return false;
        }
        let listed = tree.ask(|server| server.run_list(self.command)).unwrap_or_default();
        let mut state = self.lock();
        state.modules.extend(listed.iter().map(|listed| listed.module));
        let by_place = listed.into_iter().map(|listed| (listed.place.at, listed));
        state.listed = Some(by_place.collect());
        true
    }

    fn fetch(&self, tree: &Tree, mut waiting: VecDeque<Listed>) {
        let mut bytes_max = FIRST_BYTES;
        while !waiting.is_empty() {
            let (mut together, mut bytes) = (Vec::new(), 0);
            while let Some(listed) = waiting.front()
                && (together.is_empty() || bytes + listed.named.len() <= bytes_max)
            {
                bytes += listed.named.len();
                together.extend(waiting.pop_front());
            }
            let named: Vec<_> = together.iter().map(|listed| listed.named.clone()).collect();
            let contents = tree.ask(|server| server.contents(&named));
            let mut state = self.lock();
            let Some(contents) = contents.filter(|_| !state.is_over) else {
                state.give_up();
                break;
            };
            for (listed, bytes) in together.into_iter().zip(contents) {
                match bytes {
                    Some(bytes) => state.ahead.insert(listed.place.at, Ahead::Fetched(bytes)),
                    None => state.ahead.remove(&listed.place.at),
                };
            }
            drop(state);
            self.changed.notify_all();
            bytes_max = LATER_BYTES;
        }
        self.changed.notify_all();
    }

    /// The bytes of the trace at `place`, if it is fetched ahead, and comes within the time `most`. Otherwise no more are fetched.
    pub fn take(&self, place: Place, most: Duration) -> Option<(Named, Vec<u8>)> {
        let waits = |state: &mut State| matches!(state.ahead.get(&place.at), Some(Ahead::Waits));
        let state = self.changed.wait_timeout_while(self.lock(), most, waits);
        let (mut state, waited) = state.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            state.give_up();
        }
        let Some(Ahead::Fetched(bytes)) = state.ahead.remove(&place.at) else { return None };
        let listed = state.listed.as_ref()?.get(&place.at)?;
        Some((listed.named.clone(), bytes))
    }

    /// Whether the list has a trace of the module with the digest `module`.
    pub fn knows(&self, module: Digest) -> bool {
        self.lock().modules.contains(&module)
    }

    /// This run came to `place` with a process of the module with the digest `module`; `named` is what the server has there.
    pub fn note(&self, module: Digest, place: Place, named: Option<Named>) {
        let mut state = self.lock();
        let used = state.used.entry(place.at).or_insert((module, place, None));
        used.2 = named.or_else(|| used.2.take());
    }

    /// This run has a trace for `place` to upload.
    pub fn note_added(&self, place: Place) {
        self.lock().added.insert(place.at);
    }

    /// The places that this run came to and of which the list has nothing.
    pub fn unlisted(&self) -> Vec<(Digest, Place)> {
        let state = self.lock();
        let is_listed = |at: &Digest| {
            state.added.contains(at)
                || state.listed.as_ref().is_some_and(|listed| listed.contains_key(at))
        };
        let unlisted =
            state.used.iter().filter(|(at, (.., named))| named.is_none() && !is_listed(at));
        unlisted.map(|(_, (module, place, _))| (*module, *place)).collect()
    }

    /// Stores the list anew, if this run has traces that it lacks: what this run needed, in its order, and some of what it did
    /// not need.
    pub fn store(&self, tree: &Tree) {
        let state = self.lock();
        let listed = state.listed.as_ref();
        let old = |at: &Digest| listed.and_then(|listed| listed.get(at)).cloned();
        let mut is_new = false;
        let mut all = Vec::new();
        for (at, (module, place, named)) in &state.used {
            let old = old(at);
            if let (Some(named), true) = (named, old.is_none()) {
                is_new = true;
                all.push(Listed { module: *module, place: *place, named: named.clone() });
            } else {
                all.extend(old);
            }
        }
        let others = listed.into_iter().flatten().filter(|(at, _)| !state.used.contains_key(*at));
        all.extend(others.take(OTHERS_MAX).map(|(_, listed)| listed.clone()));
        drop(state);
        if is_new {
            tree.ask(|server| server.put_run_list(self.command, all));
        }
    }
}
