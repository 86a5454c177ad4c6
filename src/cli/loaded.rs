//! The programs that a run loaded.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Serialize, Serializer};

use crate::Program;
use crate::engine::Tier;

/// Modules that were loaded; clones share them. In reports: the tiers in which each ran, by its name.
#[derive(Clone, Default)]
pub struct LoadedPrograms(Arc<Mutex<Vec<Program>>>);

impl LoadedPrograms {
    pub fn note(&self, program: &Program) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(program.clone());
    }

    fn tiers(&self) -> BTreeMap<String, Vec<Tier>> {
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

impl Serialize for LoadedPrograms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.tiers().serialize(serializer)
    }
}

impl fmt::Debug for LoadedPrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tiers().fmt(f)
    }
}

/// How the first program of a run was loaded, once it is.
#[derive(Clone, Default)]
pub struct Loads(Arc<OnceLock<Load>>);

/// How a program was loaded.
pub struct Load {
    /// Its compiled code came from the cache.
    pub is_cached: bool,
    /// Functions that it imports and belljar does not define.
    pub unknown_imports: Vec<String>,
}

impl Loads {
    /// Notes that `program` was loaded, `is_cached` if its code came from the cache.
    pub fn note(&self, program: &Program, is_cached: bool) {
        let unknown_imports = program.unknown_imports().to_vec();
        self.0.get_or_init(|| Load { is_cached, unknown_imports });
    }

    /// How it was loaded; `None` if it was not.
    pub fn get(&self) -> Option<&Load> {
        self.0.get()
    }
}
