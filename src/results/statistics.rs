//! What a cache of results was used for.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cache::ResultCache;
use super::trace::Trace;
use crate::base::ambient;

/// Most processes whose difference is kept.
const DIFFERENCES_MAX: usize = 1000;

/// A cache of results for the processes of a machine, and what it was used for.
pub struct Results {
    cache: ResultCache,
    is_secret: Option<IsSecret>,
    /// Of 100 processes, how many run although they are known.
    rerun_percent: u8,
    /// Draws which.
    drawn: AtomicU64,
    statistics: Mutex<Statistics>,
}

/// Whether bytes hold a secret.
type IsSecret = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Why the code of a process ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The program.
    pub program: String,
    /// The first call whose answer differs from the trace that agrees the longest; `None` if there was no trace with
    /// these arguments.
    pub call: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.call {
            Some(call) => write!(f, "{}: {call}", self.program),
            None => write!(f, "{}: it did not run with these arguments before", self.program),
        }
    }
}

/// A trace that is not what the program does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongTrace {
    /// The program.
    pub program: String,
    /// The number of the first call that differs, from 0.
    pub call: usize,
}

/// What the processes of a machine found in a cache of results.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Processes whose code did not run.
    pub hits: u64,
    /// Processes whose code ran.
    pub misses: u64,
    /// Real time that the code of `hits` took when it ran.
    pub saved: Duration,
    /// Why code ran: the first 1,000.
    pub differences: Vec<Difference>,
    /// Processes whose results were not kept, because they hold secrets.
    pub withheld: u64,
    /// Processes that ran although they were known, and did what was known.
    pub rerun: u64,
    /// Processes that ran although they were known, and did something else.
    pub wrong: Vec<WrongTrace>,
    /// Why the cache could not be read or written.
    pub error: Option<String>,
}

impl Results {
    /// Processes are answered from `cache`, and those that are not are added to it.
    pub fn new(cache: ResultCache) -> Self {
        Self {
            cache,
            is_secret: None,
            rerun_percent: 0,
            drawn: AtomicU64::new(ambient::wall_now_ns()),
            statistics: Mutex::default(),
        }
    }

    /// Processes that write, or are given in a short answer, what `is_secret` finds a secret in are not added.
    #[must_use]
    pub fn without_secrets(
        mut self,
        is_secret: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.is_secret = Some(Box::new(is_secret));
        self
    }

    /// Whether `trace` may be kept.
    pub fn keeps(&self, trace: &Trace) -> bool {
        self.is_secret.as_ref().is_none_or(|is_secret| !trace.texts().any(is_secret))
    }

    /// Of 100 processes, `percent`, drawn by chance, run although they may be known, and are compared with what they
    /// would have been answered from: see [`Statistics::wrong`]. Default: 0.
    #[must_use]
    pub fn rerun(mut self, percent: u8) -> Self {
        self.rerun_percent = percent.min(100);
        self
    }

    /// The cache.
    pub fn cache(&self) -> &ResultCache {
        &self.cache
    }

    /// Whether the next process runs in any case.
    pub fn reruns_next(&self) -> bool {
        // The step of a Weyl sequence: its high bits are spread evenly.
        let drawn = self.drawn.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        (drawn >> 32) % 100 < self.rerun_percent.into()
    }

    fn lock(&self) -> MutexGuard<'_, Statistics> {
        // Counts and lists are complete at any time.
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the cache was used for so far.
    pub fn statistics(&self) -> Statistics {
        self.lock().clone()
    }

    /// A process whose code took `took` when it ran was answered from the cache.
    pub fn note_hit(&self, took: Duration) {
        let mut statistics = self.lock();
        statistics.hits += 1;
        statistics.saved += took;
    }

    /// The code of a process ran, because of `difference`.
    pub fn note_miss(&self, difference: Difference) {
        let mut statistics = self.lock();
        statistics.misses += 1;
        if statistics.differences.len() < DIFFERENCES_MAX {
            statistics.differences.push(difference);
        }
    }

    /// The results of a process were not kept, because they hold a secret.
    pub fn note_withheld(&self) {
        self.lock().withheld += 1;
    }

    /// A process ran although it was known, and did what was known.
    pub fn note_rerun(&self) {
        self.lock().rerun += 1;
    }

    /// The trace of a process is wrong.
    pub fn note_wrong(&self, wrong: WrongTrace) {
        self.lock().wrong.push(wrong);
    }

    /// The cache cannot be used: `error`. The first one is kept.
    pub fn note_error(&self, error: impl fmt::Display) {
        self.lock().error.get_or_insert_with(|| error.to_string());
    }
}
