//! Caches that others share.

use std::sync::Arc;

use super::action::{Action, Place};
use super::trace::{Answer, Trace};
use crate::base::digest::Digest;

/// A cache of traces that others share.
///
/// Nothing here fails: what cannot be had is not known, and what cannot be added is lost.
pub trait Shared: Send + Sync {
    /// A trace of `action`, of a process of the module with the digest `module`, whose first answers are `answers`. `is_here`
    /// says whether a place has a trace on this machine, which need not be fetched with this one.
    fn find(
        &self,
        module: Digest,
        action: Action,
        answers: &[Answer],
        is_here: &dyn Fn(Place) -> bool,
    ) -> Option<Arc<Trace>>;

    /// Whether a process of the module with the digest `module` has had a trace; `is_here` is as for [`Shared::find`].
    fn knows(&self, module: Digest, is_here: &dyn Fn(Place) -> bool) -> bool;

    /// Adds `trace`, of a process of the module with the digest `module` whose answers led to `place`, sooner or later.
    fn add(&self, module: Digest, place: Place, trace: &Trace);

    /// A process of the module with the digest `module` was answered from the trace that this machine has at `place`.
    fn note_use(&self, module: Digest, place: Place);

    /// The modules and places of traces that this machine has, that were used, and that this cache may lack.
    fn lacking(&self) -> Vec<(Digest, Place)>;
}
