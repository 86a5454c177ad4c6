//! Traces on disk.
//!
//! Layout, below a directory named for its version:
//!
//! ```text
//! <action, 2 digits>/<action, 64 digits>/<place, 64 digits>/<trace, 64 digits>
//! modules/<module, 64 digits>    empty: a process of this module has a trace
//! ```
//!
//! The first trace of an action is at the place [`Action::start`]. A trace that leads away from another one is at the
//! place of the answers up to the first that differs ([`Action::after`]). So a lookup reads the first trace of the action,
//! and one more at each answer that differs, however many there are.
//!
//! A file has the form of [`Trace::to_bytes`]. Files are written whole and
//! renamed, never changed, and named for their digest, so any number of processes can share a cache. The time of a file
//! is that of its last use, to the hour: beyond its size limit, the cache loses what was used least recently.
//!
//! Digests find damage. Whoever can write here can make up results, so the directory must be private to the user.

use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::action::{Action, Place};
use super::trace::{BYTES_MAX, Trace};
use crate::base::atomic_file::TEMPORARY_PREFIX;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::base::own::{OtherUsers, OwnError, expect_own_folder};
use crate::base::{ambient, atomic_file, last_use};

const LAYOUT: &str = "results-2";

/// The directory of markers for modules.
const MODULES: &str = "modules";

/// Bytes of traces that a cache keeps by default.
pub const RESULTS_BYTES_MAX: u64 = 5 << 30;

/// Most traces in one place: more than one are there only if processes stored them at the same time.
const TRACES_MAX: usize = 4;

/// Most traces of an action, about: a store in [`TRIM_EVERY`] looks.
const ACTION_TRACES_MAX: usize = 10_000;

/// Longest file that is read: calls hand over at most [`BYTES_MAX`], and are short otherwise.
const FILE_BYTES_MAX: u64 = 4 * BYTES_MAX;

/// One in so many stored traces looks for what is beyond the limit of the cache.
const TRIM_EVERY: u8 = 64;

/// Most attempts to write a file, while other processes empty the cache.
const WRITES_MAX: u32 = 10;

/// A temporary file that is older than this belongs to no process that is storing a trace.
const STORING_MAX: Duration = Duration::from_hours(1);

/// A directory of traces.
#[derive(Clone, Debug)]
pub struct ResultCache {
    root: PathBuf,
    bytes_max: u64,
    action_traces_max: usize,
}

/// The cache cannot be used. Programs still run.
#[derive(thiserror::Error)]
pub enum ResultCacheError {
    /// A file operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Other users could put results there.
    #[error(transparent)]
    Exposed(#[from] OwnError),
}

crate::base::readable::readable!(ResultCacheError);

/// The size of a cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultsInfo {
    /// Its directory.
    pub path: PathBuf,
    /// Its traces.
    pub traces: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// A trace of a cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceInfo {
    /// Its file.
    pub path: PathBuf,
    /// The bytes of that.
    pub bytes: u64,
    /// When it was last used, to the hour.
    pub used_at: SystemTime,
}

impl ResultCache {
    /// A cache in the directory `dir`, which is created with the first trace.
    pub fn new(dir: &Path) -> Self {
        let root = dir.join(LAYOUT);
        Self { root, bytes_max: RESULTS_BYTES_MAX, action_traces_max: ACTION_TRACES_MAX }
    }

    /// Sets the bytes of traces that it keeps. Default: 5 GiB.
    #[must_use]
    pub fn bytes_max(mut self, bytes_max: u64) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Sets about how many traces of one action it keeps: those that were used last. Default: 10,000.
    #[must_use]
    pub fn action_traces_max(mut self, action_traces_max: usize) -> Self {
        self.action_traces_max = action_traces_max;
        self
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    fn folder_of(&self, action: Action) -> PathBuf {
        let digest = action.digest().to_string();
        self.root.join(&digest[..2]).join(digest)
    }

    fn folder(&self, place: Place) -> PathBuf {
        self.folder_of(place.action).join(place.at.to_string())
    }

    /// The traces at `place`, the last one used first.
    ///
    /// # Errors
    /// [`ResultCacheError::Disk`]; [`ResultCacheError::Exposed`] if others can write to the cache.
    pub fn traces(&self, place: Place) -> Result<Vec<TraceInfo>, ResultCacheError> {
        let traces = infos(&self.folder(place))?;
        if !traces.is_empty() {
            expect_own_folder(&self.root, OtherUsers::Excluded)?;
        }
        Ok(traces)
    }

    /// Whether there is a trace at `place`.
    pub fn has(&self, place: Place) -> bool {
        infos(&self.folder(place)).is_ok_and(|traces| !traces.is_empty())
    }

    /// Reads the trace `info`; `None` if it is gone. A damaged one is removed.
    pub fn read(&self, info: &TraceInfo) -> Option<Trace> {
        let bytes = disk::read_at_most(&info.path, FILE_BYTES_MAX).ok()?;
        let trace = bytes.and_then(|bytes| Trace::from_bytes(&bytes));
        if trace.is_none() {
            // What cannot be removed is found damaged again.
            let _ = disk::remove_file(&info.path);
        }
        trace
    }

    /// Notes that the trace `info` was used.
    pub fn note_use(&self, info: &TraceInfo) {
        last_use::note(&info.path, info.used_at);
    }

    /// Whether a process of the module with the digest `module` has had a trace, so that it can be loaded.
    pub fn knows(&self, module: Digest) -> bool {
        disk::metadata(&self.marker(module)).is_ok_and(|it| it.is_file())
            && expect_own_folder(&self.root, OtherUsers::Excluded).is_ok()
    }

    fn marker(&self, module: Digest) -> PathBuf {
        self.root.join(MODULES).join(module.to_string())
    }

    /// Stores `trace`, of a process of the module with the digest `module`, at `place`.
    ///
    /// # Errors
    /// As [`ResultCache::traces`].
    pub fn store(
        &self,
        module: Digest,
        place: Place,
        trace: &Trace,
    ) -> Result<(), ResultCacheError> {
        let (digest, bytes) = trace.to_bytes_with_digest();
        let folder = self.folder(place);
        self.write(&self.marker(module), &[])?;
        self.write(&folder.join(digest.to_string()), &bytes)?;
        for gone in infos(&folder)?.iter().skip(TRACES_MAX) {
            disk::remove_file(&gone.path)?;
        }
        if digest.as_bytes()[0].is_multiple_of(TRIM_EVERY) {
            let of_action = in_folders(disk::list_if_there(&self.folder_of(place.action))?)?;
            remove_oldest(of_action, |traces, _| traces <= self.action_traces_max)?;
            self.trim(self.bytes_max)?;
        }
        Ok(())
    }

    /// Writes `bytes` to the file `path` of the cache, unless it is there already.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), ResultCacheError> {
        let mut attempts_left = WRITES_MAX;
        loop {
            let made = disk::create_private_dir_all(disk::folder_of(path));
            expect_own_folder(&self.root, OtherUsers::Excluded)?;
            if disk::metadata(path).is_ok() {
                return Ok(());
            }
            attempts_left -= 1;
            match made.and_then(|()| atomic_file::write_unsynced(path, &[bytes])) {
                // Another process removed a directory while it was empty, or the temporary file.
                Err(error) if error.source.kind() == NotFound && attempts_left > 0 => {}
                done => return Ok(done?),
            }
        }
    }

    /// The directories of this directory, the shards, and the actions in them.
    fn actions(&self) -> Result<(Vec<PathBuf>, Vec<PathBuf>), DiskError> {
        let mut shards = disk::list_if_there(&self.root)?;
        shards.retain(|it| !it.ends_with(MODULES));
        let mut actions = Vec::new();
        for shard in &shards {
            actions.extend(disk::list_if_there(shard)?);
        }
        Ok((shards, actions))
    }

    /// The directories of traces, with these.
    fn places(&self) -> Result<Vec<OfPlace>, DiskError> {
        let mut places = Vec::new();
        for action in self.actions()?.1 {
            places.extend(in_folders(disk::list_if_there(&action)?)?);
        }
        Ok(places)
    }

    /// All traces, the last one used first.
    ///
    /// # Errors
    /// [`ResultCacheError::Disk`].
    pub fn all(&self) -> Result<Vec<TraceInfo>, ResultCacheError> {
        let mut all: Vec<_> = self.places()?.into_iter().flat_map(|(_, traces)| traces).collect();
        sort(&mut all);
        Ok(all)
    }

    /// Returns the size of the cache.
    ///
    /// # Errors
    /// [`ResultCacheError::Disk`].
    pub fn info(&self) -> Result<ResultsInfo, ResultCacheError> {
        let mut info = self.empty();
        for (_, traces) in self.places()? {
            info.traces += traces.len() as u64;
            info.bytes += traces.iter().map(|trace| trace.bytes).sum::<u64>();
        }
        Ok(info)
    }

    fn empty(&self) -> ResultsInfo {
        ResultsInfo { path: self.root.clone(), traces: 0, bytes: 0 }
    }

    /// Removes what was used least recently until at most `bytes_max` bytes are left; returns what was removed.
    ///
    /// # Errors
    /// [`ResultCacheError::Disk`] if something cannot be removed.
    pub fn trim(&self, bytes_max: u64) -> Result<ResultsInfo, ResultCacheError> {
        self.remove(bytes_max, STORING_MAX)
    }

    /// Removes all traces, and what processes left that were killed; returns the size of the traces.
    ///
    /// # Errors
    /// [`ResultCacheError::Disk`] if something cannot be removed.
    pub fn clear(&self) -> Result<ResultsInfo, ResultCacheError> {
        for marker in disk::list_if_there(&self.root.join(MODULES))? {
            disk::remove_file(&marker)?;
        }
        self.remove(0, Duration::ZERO)
    }

    /// Removes traces as [`ResultCache::trim`] does, and temporary files that are older than `storing_max`.
    fn remove(
        &self,
        bytes_max: u64,
        storing_max: Duration,
    ) -> Result<ResultsInfo, ResultCacheError> {
        remove_temporaries(&self.root.join(MODULES), storing_max)?;
        let places = self.places()?;
        for (folder, _) in &places {
            remove_temporaries(folder, storing_max)?;
            remove_if_empty(folder);
        }
        let (traces, bytes) = remove_oldest(places, |_, bytes| bytes <= bytes_max)?;
        let (shards, actions) = self.actions()?;
        for folder in actions.iter().chain(&shards) {
            remove_if_empty(folder);
        }
        Ok(ResultsInfo { path: self.root.clone(), traces, bytes })
    }
}

/// A directory, and the traces in it.
type OfPlace = (PathBuf, Vec<TraceInfo>);

fn in_folders(folders: Vec<PathBuf>) -> Result<Vec<OfPlace>, DiskError> {
    let with_traces = |folder: PathBuf| infos(&folder).map(|traces| (folder, traces));
    folders.into_iter().map(with_traces).collect()
}

/// Removes those of `places` that were used least recently until `are_few` of the traces that are left and their bytes;
/// returns how many traces were removed, and their bytes.
fn remove_oldest(
    places: Vec<OfPlace>,
    are_few: impl Fn(usize, u64) -> bool,
) -> Result<(u64, u64), DiskError> {
    let of_place = |(folder, traces): OfPlace| {
        traces.into_iter().map(move |trace| (folder.clone(), trace)).collect::<Vec<_>>()
    };
    let mut traces: Vec<_> = places.into_iter().flat_map(of_place).collect();
    traces.sort_by(|(_, a), (_, b)| (a.used_at, &a.path).cmp(&(b.used_at, &b.path)));
    let mut left: u64 = traces.iter().map(|(_, trace)| trace.bytes).sum();
    let count = traces.len();
    let (mut removed, mut removed_bytes) = (0, 0);
    for (folder, trace) in traces {
        if are_few(count - removed, left) {
            break;
        }
        disk::remove_file(&trace.path)?;
        left -= trace.bytes;
        removed_bytes += trace.bytes;
        removed += 1;
        remove_if_empty(&folder);
    }
    Ok((removed as u64, removed_bytes))
}

/// Removes `folder`, unless something is in it. A process that is about to write there makes it again.
fn remove_if_empty(folder: &Path) {
    // One that stays costs a little, and nothing is wrong.
    let _ = disk::remove_empty_dir(folder);
}

/// The traces in `folder`, the last one used first. Temporary files of a process that is writing, or was killed, are
/// left out.
fn infos(folder: &Path) -> Result<Vec<TraceInfo>, DiskError> {
    let is_trace =
        |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(is_digest);
    let mut traces = Vec::new();
    for path in disk::list_if_there(folder)?.into_iter().filter(is_trace) {
        // Another process may have removed it.
        let Ok(metadata) = disk::symlink_metadata(&path) else { continue };
        if metadata.is_file() {
            traces.push(TraceInfo {
                path,
                bytes: metadata.len(),
                used_at: last_use::of(&metadata),
            });
        }
    }
    sort(&mut traces);
    Ok(traces)
}

/// Puts the last one used first.
fn sort(traces: &mut [TraceInfo]) {
    traces.sort_by(|a, b| (b.used_at, &b.path).cmp(&(a.used_at, &a.path)));
}

/// Removes from `folder` the temporary files that are older than `storing_max`: they are of processes that were killed.
fn remove_temporaries(folder: &Path, storing_max: Duration) -> Result<(), DiskError> {
    for path in disk::list_if_there(folder)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Ok(metadata) = disk::symlink_metadata(&path) else { continue };
        let is_old =
            ambient::time_since(last_use::of(&metadata)).is_none_or(|past| past >= storing_max);
        if name.starts_with(TEMPORARY_PREFIX) && metadata.is_file() && is_old {
            disk::remove_file(&path)?;
        }
    }
    Ok(())
}

fn is_digest(name: &str) -> bool {
    Digest::from_hex(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Action, End, TraceBuilder};

    fn trace(took_us: u64) -> Trace {
        TraceBuilder::default()
            .finish(action("a").digest(), &[], End::Exited, Duration::from_micros(took_us))
            .unwrap()
    }

    fn module() -> Digest {
        Digest::of(b"module")
    }

    fn action(name: &str) -> Action {
        Action::of_digest(Digest::of(name.as_bytes()))
    }

    fn place(name: &str) -> Place {
        action(name).start()
    }

    #[test]
    fn stored_traces_are_found_and_damaged_ones_removed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = ResultCache::new(dir.path());
        assert_eq!(cache.traces(place("a")).unwrap(), []);
        assert!(!cache.knows(module()));
        cache.store(module(), place("a"), &trace(1)).unwrap();
        let traces = cache.traces(place("a")).unwrap();
        assert_eq!(traces.len(), 1);
        assert!(cache.knows(module()));
        assert_eq!(cache.read(&traces[0]), Some(trace(1)));
        assert_eq!(cache.traces(place("b")).unwrap(), []);
        let mut bytes = disk::read(&traces[0].path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        atomic_file::write(&traces[0].path, &[&bytes]).unwrap();
        assert_eq!(cache.read(&traces[0]), None);
        assert_eq!(cache.traces(place("a")).unwrap(), []);
    }

    #[test]
    fn action_keeps_its_last_traces() {
        let dir = tempfile::tempdir().unwrap();
        let cache = ResultCache::new(dir.path());
        for took in 0..2 * TRACES_MAX as u64 {
            cache.store(module(), place("a"), &trace(took)).unwrap();
        }
        assert_eq!(cache.traces(place("a")).unwrap().len(), TRACES_MAX);
    }

    #[test]
    fn action_with_too_many_traces_loses_the_oldest() {
        let dir = tempfile::tempdir().unwrap();
        let cache = ResultCache::new(dir.path()).action_traces_max(20);
        for number in 0..500_u64 {
            let place = Place { action: action("a"), at: Digest::of(&number.to_le_bytes()) };
            cache.store(module(), place, &trace(number)).unwrap();
        }
        cache.store(module(), place("b"), &trace(0)).unwrap();
        let traces = cache.info().unwrap().traces;
        assert!((20..200).contains(&traces), "{traces}");
        assert_eq!(cache.traces(place("b")).unwrap().len(), 1);
        assert_eq!(cache.clear().unwrap().traces, traces);
        let left = disk::list_if_there(cache.path()).unwrap();
        assert_eq!(left, [cache.path().join(MODULES)], "no empty directories");
    }

    #[test]
    fn cache_beyond_its_limit_loses_what_was_used_least_recently() {
        let dir = tempfile::tempdir().unwrap();
        let cache = ResultCache::new(dir.path());
        for name in ["a", "b", "c"] {
            cache.store(module(), place(name), &trace(1)).unwrap();
        }
        let info = cache.info().unwrap();
        assert_eq!(info.traces, 3);
        let old = cache.traces(place("b")).unwrap().remove(0);
        let file = std::fs::File::options().write(true).open(&old.path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        drop(file);
        let removed = cache.trim(info.bytes - 1).unwrap();
        assert_eq!(removed.traces, 1);
        assert_eq!(cache.traces(place("b")).unwrap(), []);
        assert_eq!(cache.clear().unwrap().traces, 2);
        assert_eq!(cache.info().unwrap().traces, 0);
    }

    #[cfg(unix)]
    #[test]
    fn cache_that_others_can_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let cache = ResultCache::new(dir.path());
        cache.store(module(), place("a"), &trace(1)).unwrap();
        std::fs::set_permissions(cache.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let error = cache.traces(place("a")).unwrap_err();
        assert!(error.to_string().contains("chmod go-w"), "{error}");
    }
}
