//! What a cache of results was used for.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cache::ResultCache;
use super::secrets::Secrets;
use super::shared::Shared;
use super::trace::Trace;
use crate::base::ambient;

/// Most processes of which a list says something.
const LISTED_MAX: usize = 1000;

/// A cache of results for the processes of a machine, and what it was used for.
pub struct Results {
    cache: ResultCache,
    shared: Option<Arc<dyn Shared>>,
    secrets: Arc<Secrets>,
    keeps_secrets: bool,
    /// Of a million processes, how many run although they are known.
    rerun_per_million: u64,
    /// Draws which.
    drawn: AtomicU64,
    statistics: Mutex<Statistics>,
}

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

/// A process that ran, and whose results are not kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotKept {
    /// The program.
    pub program: String,
    /// Why not.
    pub why: Unkept,
}

/// Why the results of a process are not kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unkept {
    /// They hold a secret.
    Secret,
    /// A limit, the one with this name, ended it.
    Limit(&'static str),
    /// Processes met the limit of memory, which they share.
    Memory,
    /// A signal ended it while it waited.
    Signalled,
    /// It trapped for a reason that is not in its code alone, which this is.
    Trapped(String),
    /// It did not end by itself for another reason, which this is: it could not be started, or all processes waited for
    /// each other.
    NotEnded(String),
    /// Its calls hand over or get too much.
    TooLarge,
    /// The host failed in the middle of a call.
    HostFailed,
    /// It is a component.
    Component,
    /// Its fuel is counted.
    Fuel,
    /// It makes a call of an export.
    Invoked,
    /// Its calls are on a tape, or shown by a trace.
    Shown,
}

impl fmt::Display for Unkept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret => f.write_str("they hold a secret"),
            Self::Limit(name) => write!(f, "the limit {name} ended it"),
            Self::Memory => f.write_str("the limit of memory, which processes share, was reached"),
            Self::Signalled => f.write_str("a signal ended it while it waited"),
            Self::Trapped(message) => {
                write!(f, "it trapped for a reason that is not in its code alone: {message}")
            }
            Self::NotEnded(message) => write!(f, "it did not end by itself: {message}"),
            Self::TooLarge => f.write_str("it was given, or wrote, more than 256 MiB"),
            Self::HostFailed => f.write_str("the host failed in the middle of a call"),
            Self::Component => f.write_str("it is a component"),
            Self::Fuel => f.write_str("fuel is counted by running"),
            Self::Invoked => f.write_str("a call of an export runs"),
            Self::Shown => f.write_str("a process that is recorded or traced runs"),
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
    /// What the trace has, and what the program did.
    pub how: String,
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
    /// Processes whose results were not kept: the first 1,000.
    pub not_kept: Vec<NotKept>,
    /// Processes whose results were not kept, because they hold secrets.
    pub withheld: u64,
    /// Processes that ran although they were known, and did what was known.
    pub rerun: u64,
    /// Processes that ran although they were known, and did something else.
    pub wrong: Vec<WrongTrace>,
    /// Traces that the shared cache had, and this one did not.
    pub fetched: u64,
    /// Why the cache could not be read or written.
    pub error: Option<String>,
}

impl Results {
    /// Processes are answered from `cache`, and those that are not are added to it.
    pub fn new(cache: ResultCache) -> Self {
        Self {
            cache,
            shared: None,
            secrets: Arc::default(),
            keeps_secrets: false,
            rerun_per_million: 0,
            drawn: AtomicU64::new(ambient::wall_now_ns()),
            statistics: Mutex::default(),
        }
    }

    /// What `cache` does not know is looked up in `shared`, and what is added to it is added there, too.
    #[must_use]
    pub fn shared_with(mut self, shared: Arc<dyn Shared>) -> Self {
        self.shared = Some(shared);
        self
    }

    /// The cache that is shared with others.
    pub(super) fn shared(&self) -> Option<&Arc<dyn Shared>> {
        self.shared.as_ref()
    }

    /// Processes whose results hold one of `secrets` are not added, and what they are given of `secrets` is in the cache
    /// as digests with a key.
    #[must_use]
    pub fn without_secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = Arc::new(secrets);
        self
    }

    /// Processes whose results hold a secret are added as others are, if `keeps`. Default: they are not.
    #[must_use]
    pub fn keeping_secrets(mut self, keeps: bool) -> Self {
        self.keeps_secrets = keeps;
        self
    }

    /// The secrets.
    pub fn secrets(&self) -> Arc<Secrets> {
        self.secrets.clone()
    }

    /// Whether `trace` may be kept.
    pub fn keeps(&self, trace: &Trace) -> bool {
        self.keeps_secrets || !self.has_secrets(trace)
    }

    /// Whether a secret can be read in `trace`.
    pub(super) fn has_secrets(&self, trace: &Trace) -> bool {
        trace.texts().any(|text| self.secrets.are_in(text))
    }

    /// Of 100 processes, `percent`, drawn by chance, run although they may be known, and are compared with what they
    /// would have been answered from: see [`Statistics::wrong`]. From 0, the default, to 100; 0.01 is one in 10,000.
    #[must_use]
    pub fn rerun(mut self, percent: f64) -> Self {
        let per_million = (percent.clamp(0.0, 100.0) * 10_000.0).round();
        #[expect(clippy::cast_sign_loss, reason = "it is not negative; NaN becomes 0")]
        let per_million = per_million as u64;
        self.rerun_per_million = per_million;
        self
    }

    /// The cache.
    pub fn cache(&self) -> &ResultCache {
        &self.cache
    }

    /// Whether the next process runs in any case.
    pub fn reruns_next(&self) -> bool {
        // SplitMix64: also the first number, of a process that was started just after another, is spread evenly.
        let mut drawn = self.drawn.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (drawn ^ (drawn >> 31)) % 1_000_000 < self.rerun_per_million
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
        list(&mut statistics.differences, difference);
    }

    /// The results of `program`, which ran, are not kept.
    pub fn note_not_kept(&self, program: String, why: Unkept) {
        let mut statistics = self.lock();
        statistics.withheld += u64::from(why == Unkept::Secret);
        list(&mut statistics.not_kept, NotKept { program, why });
    }

    /// A trace was fetched from the shared cache.
    pub(super) fn note_fetched(&self) {
        self.lock().fetched += 1;
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

/// Adds `item` to `items`, if there is room.
fn list<T>(items: &mut Vec<T>, item: T) {
    if items.len() < LISTED_MAX {
        items.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_processes_run_again_as_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        for (percent, least, most) in [
            (0.0, 0, 0),
            (1.0, 800, 1200),
            (0.1, 50, 150),
            (50.0, 49_000, 51_000),
            (100.0, 100_000, 100_000),
        ] {
            let results = Results::new(ResultCache::new(dir.path())).rerun(percent);
            let again = (0..100_000).filter(|_| results.reruns_next()).count();
            assert!((least..=most).contains(&again), "{percent} %: {again} of 100,000");
        }
        assert!(!Results::new(ResultCache::new(dir.path())).rerun(f64::NAN).reruns_next());
    }
}
