//! Why a step of an apply was not carried out.

use std::io;

use super::conflicts::ConflictKind;
use crate::kernel::vfs::path::VPath;

/// A refused step.
#[derive(Debug)]
pub(super) struct StepError {
    /// What failed, as a verb.
    pub operation: &'static str,
    pub path: VPath,
    pub source: io::Error,
}

impl StepError {
    pub fn new(operation: &'static str, path: &VPath) -> impl FnOnce(io::Error) -> Self {
        let path = path.clone();
        move |source| Self { operation, path, source }
    }
}

/// Why writing a directory failed.
#[derive(Debug)]
pub(super) enum Failure {
    Step(StepError),
    Conflict(VPath, ConflictKind),
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Self {
        Self::Step(error)
    }
}
