//! Where a process finds its traces: in the cache of this machine, then in one that it shares with others.

use std::sync::Arc;

use super::action::{Action, Place};
use super::statistics::Results;
use super::trace::{Answer, Trace};
use crate::base::digest::Digest;

impl Results {
    /// The trace by which a process of `action`, whose module has the digest `module`, goes on after it got `answers`: the
    /// first one, if it got none.
    ///
    /// One that only the shared cache has is kept here from then on.
    pub fn trace_after(
        &self,
        module: Digest,
        action: Action,
        answers: &[Answer],
    ) -> Option<Arc<Trace>> {
        let place = action.place(answers);
        let cache = self.cache();
        let known = cache.traces(place).map_err(|error| self.note_error(error)).ok()?;
        let here = known.iter().find_map(|info| {
            let is_of_action = |trace: &Trace| trace.action == action.digest();
            let trace = cache.read(info).filter(is_of_action)?;
            cache.note_use(info);
            Some(trace)
        });
        if let Some(here) = here {
            if let Some(shared) = self.shared() {
                shared.note_use(module, place);
            }
            return Some(Arc::new(here));
        }
        let trace = self.shared()?.find(module, action, answers, &|place| cache.has(place))?;
        self.note_fetched();
        // Without it, it is fetched again.
        let _ = cache.store(module, place, &trace).map_err(|error| self.note_error(error));
        Some(trace)
    }

    /// Whether a process of the module with the digest `module` has had a trace, so that the module need not be loaded
    /// before its code has to run.
    pub fn knows(&self, module: Digest) -> bool {
        let cache = self.cache();
        let is_here = |place| cache.has(place);
        cache.knows(module) || self.shared().is_some_and(|shared| shared.knows(module, &is_here))
    }

    /// Adds `trace`, of a process of the module with the digest `module` that got other answers than those of known traces
    /// from `answers` on.
    pub fn add(&self, module: Digest, action: Action, answers: &[Answer], trace: &Trace) {
        let place = action.place(answers);
        if let Err(error) = self.cache().store(module, place, trace) {
            self.note_error(error);
        }
        self.share(module, place, trace);
    }

    /// Adds to the shared cache what this run was answered from and that cache may lack: traces of earlier runs, which did
    /// not use it.
    pub fn share_known(&self) {
        let lacking = self.shared().map(|shared| shared.lacking()).unwrap_or_default();
        for (module, place) in lacking {
            let known = self.cache().traces(place).unwrap_or_default();
            let read = known.iter().find_map(|info| self.cache().read(info));
            if let Some(trace) = read.filter(|trace| trace.action == place.action.digest()) {
                self.share(module, place, &trace);
            }
        }
    }

    fn share(&self, module: Digest, place: Place, trace: &Trace) {
        // A trace with secrets is kept here alone. What was sealed with the key of this user is not known to others.
        if let Some(shared) =
            self.shared().filter(|_| !trace.is_sealed() && !self.has_secrets(trace))
        {
            shared.add(module, place, trace);
        }
    }
}
