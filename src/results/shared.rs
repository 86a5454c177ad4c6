//! Caches that others share.

use super::action::Action;
use super::trace::{Answer, Trace};
use crate::base::digest::Digest;

/// A cache of traces that others share.
///
/// Nothing here fails: what cannot be had is not known, and what cannot be added is lost.
pub trait Shared: Send + Sync {
    /// A trace of `action` whose first answers are `answers`.
    fn find(&self, action: Action, answers: &[Answer]) -> Option<Trace>;

    /// Whether a process of the module with the digest `module` has had a trace.
    fn knows(&self, module: Digest) -> bool;

    /// Adds `trace`, of a process of the module with the digest `module`, sooner or later.
    fn add(&self, module: Digest, trace: &Trace);
}
