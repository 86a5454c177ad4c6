//! The traces of a server, as far as they were asked for.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::keys::Named;
use super::server::Server;
use super::{FAILURES_MAX, REMEMBERED_BYTES_MAX, REMOTE_TRACE_BYTES_MAX, RemoteStatistics};
use crate::base::digest::Digest;
use crate::remote::{RemoteError, compressed, decompressed};
use crate::results::action::Place;
use crate::results::trace::Trace;

/// A trace of a server.
#[derive(Clone)]
pub struct Stored {
    pub named: Named,
    pub trace: Arc<Trace>,
}

/// The bytes in which a server keeps `trace`, and its length before they are compressed; `None` if it is too long.
pub fn packed(trace: &Trace) -> Option<(Vec<u8>, u64)> {
    let bytes = trace.to_bytes();
    let len = bytes.len() as u64;
    (len <= REMOTE_TRACE_BYTES_MAX).then(|| (compressed(&bytes), len))
}

/// The trace that a server keeps in these `bytes`, and its length when they are decompressed; `None` if they are none, or it is
/// longer than `bytes_max`.
pub fn unpacked(bytes: &[u8], bytes_max: u64) -> Option<(Trace, u64)> {
    let bytes = decompressed(bytes, bytes_max)?;
    Some((Trace::from_bytes(&bytes)?, bytes.len() as u64))
}

/// The traces of a server, which are remembered.
pub struct Tree {
    server: Server,
    remembered: Mutex<Remembered>,
    statistics: Mutex<RemoteStatistics>,
    failures: AtomicU32,
}

#[derive(Default)]
struct Remembered {
    places: HashMap<Digest, Arc<[Stored]>>,
    /// Whether the server knew a trace of a module when it was asked.
    modules: HashMap<Digest, bool>,
    /// Modules of which this run has added a trace.
    added: HashSet<Digest>,
    /// Bytes of `places`.
    bytes: u64,
}

impl Tree {
    pub fn new(server: Server) -> Self {
        Self {
            server,
            remembered: Mutex::default(),
            statistics: Mutex::default(),
            failures: AtomicU32::new(0),
        }
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        // Each entry is right by itself.
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn statistics(&self) -> MutexGuard<'_, RemoteStatistics> {
        // Counts are complete at any time.
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `request`, unless the server has failed too often; `None` if that fails.
    pub fn ask<T>(&self, request: impl FnOnce(&Server) -> Result<T, RemoteError>) -> Option<T> {
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

    /// Asks for the traces at `one` and `other` at the same time, as far as they are not remembered.
    pub fn fetch_both(&self, one: Place, other: Place) {
        let is_remembered = |place: Place| self.remembered().places.contains_key(&place.at);
        if one.at == other.at || is_remembered(one) || is_remembered(other) {
            return;
        }
        thread::scope(|scope| {
            // Without a thread they are asked for one after the other.
            let _ = thread::Builder::new().spawn_scoped(scope, || self.traces(other));
            self.traces(one);
        });
    }

    /// The traces at `place`: none, if the server has none or fails.
    pub fn traces(&self, place: Place) -> Arc<[Stored]> {
        if let Some(known) = self.remembered().places.get(&place.at) {
            return known.clone();
        }
        let fetch = |server: &Server| {
            let mut bytes = 0;
            let mut traces = Vec::new();
            let (stored, untrusted) = server.traces(place)?;
            for (named, packed) in stored {
                let left = REMOTE_TRACE_BYTES_MAX - bytes;
                if let Some((trace, len)) = trace_at(place, &packed, left) {
                    bytes += len;
                    traces.push(Stored { named, trace: Arc::new(trace) });
                }
            }
            self.statistics().untrusted += untrusted;
            Ok((traces, bytes))
        };
        let (traces, bytes) = self.ask(fetch).unwrap_or_default();
        self.remember(place, traces.into(), bytes)
    }

    /// Remembers that the traces at `place`, of so many `bytes`, are `traces`.
    pub fn remember(&self, place: Place, traces: Arc<[Stored]>, bytes: u64) -> Arc<[Stored]> {
        let mut remembered = self.remembered();
        remembered.bytes += bytes;
        if remembered.bytes > REMEMBERED_BYTES_MAX {
            remembered.places.clear();
            remembered.bytes = bytes;
        }
        remembered.places.insert(place.at, traces.clone());
        traces
    }

    /// Whether the server knew a trace of the module with the digest `module` when it was asked first.
    pub fn knows(&self, module: Digest) -> bool {
        if let Some(known) = self.remembered().modules.get(&module) {
            return *known;
        }
        let known = self.ask(|server| server.knows(module)).unwrap_or(false);
        self.remembered().modules.insert(module, known);
        known
    }

    /// Notes on the server that it has a trace of the module with the digest `module`; `None` if that fails.
    pub fn add_module(&self, module: Digest) -> Option<()> {
        let is_added = self.remembered().added.contains(&module);
        if !is_added && !self.knows(module) {
            self.ask(|server| server.add_module(module))?;
            self.remembered().added.insert(module);
        }
        Some(())
    }
}

/// The trace in the `packed` bytes that a server keeps at `place`, and its length; `None` if it is none, one of another action, or
/// longer than `bytes_max`.
pub fn trace_at(place: Place, packed: &[u8], bytes_max: u64) -> Option<(Trace, u64)> {
    unpacked(packed, bytes_max).filter(|(trace, _)| trace.action == place.action.digest())
}

#[cfg(test)]
mod tests {
    use super::super::super::action::Action;
    use super::*;
    use crate::results::{End, TraceBuilder};

    /// A few bytes of a server can be many: they are counted as what they become.
    #[test]
    fn trace_that_is_longer_than_what_is_left_is_none() {
        let action = Action::of_digest(Digest::of(b"action"));
        let words = vec![b"word".repeat(1000); 1000];
        let trace = TraceBuilder::default()
            .finish(action.digest(), &words, End::Exited, std::time::Duration::ZERO)
            .unwrap();
        let (packed, its_len) = packed(&trace).unwrap();
        assert!(packed.len() < 100_000, "{} bytes", packed.len());
        let (found, len) = trace_at(action.start(), &packed, 5_000_000).unwrap();
        assert_eq!(found, trace);
        assert!(len == its_len && len > 4_000_000, "{len} bytes");
        assert!(trace_at(action.start(), &packed, len - 1).is_none());
        let other = Action::of_digest(Digest::of(b"other"));
        assert!(trace_at(other.start(), &packed, len).is_none());
    }
}
