//! The programs that a run loaded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Program;
use crate::engine::Tier;

/// Modules that were loaded; clones share them.
#[derive(Clone, Default)]
pub struct LoadedPrograms(Arc<Mutex<Vec<Program>>>);

impl LoadedPrograms {
    pub fn note(&self, program: &Program) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(program.clone());
    }

    /// The tiers in which each ran so far, by the name of its module.
    pub fn tiers(&self) -> BTreeMap<String, Vec<Tier>> {
        let mut tiers: BTreeMap<String, Vec<Tier>> = BTreeMap::new();
        for program in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let known = tiers.entry(program.name().to_owned()).or_default();
            known.extend(program.tiers_run());
            known.sort_unstable();
            known.dedup();
        }
        tiers
    }
}
