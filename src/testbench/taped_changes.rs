//! Makes the changes of a recorded run from its tape.
//!
//! The tape has the final state of each changed path, and its origin. Files that were moved are first moved aside;
//! deleted paths are removed; then everything is put in place, so that moved files keep their permissions. Finally the
//! changes are compared with the tape: a difference means that the tree is not the one that the run found.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::Path;

use serde_json::{Map, Value};

use super::changes::{ERROR, SET_NS, UNKNOWN, WRITTEN_NS, describe};
use super::replay_error::ReplayError;
use super::script::Script;
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::machine::Machine;
use crate::kernel::machine::config::MachineConfig;
use crate::kernel::machine::limits::Limits;
use crate::kernel::vfs::{
    Base, DiffError, FileType, FileVersion, Follow, Listed, Listing, Mount, Overlay, SetTime,
    TimeScale, beneath,
};
use crate::store::StoreError;
use crate::tape::{Found, Kind, REDACTED, TapeError, TapeReader, TapeStore, TapedContent};

/// The changes on a tape cannot be made.
#[derive(thiserror::Error)]
pub enum TapedChangesError {
    /// The tape cannot be read.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A content is missing from the store next to the tape, or damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tree differs from the one that the run found.
    #[error("{}", list(.0))]
    Conflicts(Vec<TapedConflict>),
    /// The namespace refuses an operation.
    #[error("cannot change {path}: {errno}")]
    Refused {
        /// The path in the namespace.
        path: String,
        /// Why.
        errno: Errno,
    },
    /// The changes cannot be determined.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// They could not be determined when the tape was recorded.
    #[error("the tape does not have the changes of its run: {error}; record it again")]
    Unknown {
        /// Why.
        error: String,
    },
}

crate::base::readable::readable!(TapedChangesError);

/// A path that differs from its state when the tape was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapedConflict {
    /// The path in the namespace.
    pub path: String,
    /// What is there.
    pub found: &'static str,
}

impl fmt::Display for TapedConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, found } = self;
        write!(f, "{path} differs from the recorded tree: {found}")
    }
}

/// How many conflicts a message names.
const CONFLICTS_NAMED_MAX: usize = 10;

fn list(conflicts: &[TapedConflict]) -> String {
    let named = conflicts.iter().take(CONFLICTS_NAMED_MAX).map(ToString::to_string);
    let named = named.collect::<Vec<_>>().join("; ");
    match conflicts.len().saturating_sub(CONFLICTS_NAMED_MAX) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

impl From<TapeError> for TapedChangesError {
    fn from(error: TapeError) -> Self {
        Self::Replay(error.into())
    }
}

/// Turns errnos that show a different tree into conflicts.
fn failed(path: &str) -> impl FnOnce(Errno) -> TapedChangesError {
    let path = path.to_owned();
    |errno| {
        let found = match errno {
            Errno::Noent | Errno::Notdir => "nothing is there",
            Errno::Exist | Errno::Isdir => "something is there",
            Errno::Notempty => "it is not empty",
            Errno::Loop => "a link leads back to itself",
            errno => return TapedChangesError::Refused { path, errno },
        };
        conflict(&path, found)
    }
}

fn conflict(path: &str, found: &'static str) -> TapedChangesError {
    TapedChangesError::Conflicts(vec![TapedConflict { path: path.to_owned(), found }])
}

/// A time that is not shown.
pub(super) const NOW: u64 = 0;

/// A recorded change.
pub(super) struct Change {
    pub path: String,
    /// `added`, `modified`, `deleted` or `times`.
    pub how: String,
    pub detail: Map<String, Value>,
}

impl Change {
    pub fn text(&self, field: &str) -> Option<&str> {
        self.detail.get(field).and_then(Value::as_str)
    }

    fn is(&self, field: &str) -> bool {
        self.detail.get(field) == Some(&Value::Bool(true))
    }

    pub fn time(&self, field: &str) -> SetTime {
        self.detail.get(field).and_then(Value::as_u64).map_or(SetTime::Keep, SetTime::At)
    }

    /// When its times were set.
    pub fn set_ns(&self) -> u64 {
        self.detail.get(SET_NS).and_then(Value::as_u64).unwrap_or(NOW)
    }

    fn is_dir(&self) -> bool {
        self.text("file_type") == Some("dir")
    }

    /// The path from which the final entry is moved.
    fn origin(&self) -> Option<&str> {
        self.text("origin").filter(|_| self.how != "deleted" && self.text("link_of").is_none())
    }

    /// How `made` differs from this change.
    fn differs_from(&self, made: Option<&(String, Map<String, Value>)>) -> Option<&'static str> {
        let Some((how, detail)) = made else {
            return Some("it already has the state after the run");
        };
        if *how != self.how {
            let was_there = how == "modified";
            return Some(if was_there { "something is there" } else { "nothing is there" });
        }
        let fields = [
            ("file_type", "something else is there"),
            ("before_content_hash", "its content differs"),
            ("before_target", "its target differs"),
            ("before_executable", "its execute permission differs"),
            ("executable", "the execute permission of the moved or linked file differs"),
            ("content_hash", "the result differs"),
            ("target", "the result differs"),
        ];
        let differs = |(field, _): &(&str, _)| detail.get(*field) != self.detail.get(*field);
        fields.into_iter().find(differs).map(|(_, found)| found)
    }
}

/// Changes being made in a tree.
struct Making<'a> {
    vfs: &'a mut Overlay,
    changes: &'a [Change],
    store: TapeStore,
    /// By the path of a mount: its directory for moved entries.
    rooms: HashMap<String, String>,
    /// Where an entry that is moved is in between, by its old path.
    aside: HashMap<String, String>,
}

impl Making<'_> {
    fn base(&self) -> Base {
        self.vfs.host_base()
    }

    fn make(mut self) -> Result<(), TapedChangesError> {
        let recorded: HashSet<&str> = self
            .changes
            .iter()
            .filter(|change| change.how != "times")
            .map(|change| &*change.path)
            .collect();
        self.move_files_aside(&recorded)?;
        self.clear(&recorded)?;
        self.put_in_place()?;
        for room in std::mem::take(&mut self.rooms).into_values() {
            let base = self.base();
            self.vfs.remove_dir(base, relative(&room), NOW).map_err(failed(&room))?;
        }
        for change in self.changes {
            let Some(written_ns) = change.detail.get(WRITTEN_NS).and_then(Value::as_u64) else {
                continue;
            };
            let (base, path, keep) = (self.base(), relative(&change.path), SetTime::Keep);
            let set = self.vfs.set_times_at(base, path, Follow::No, keep, SetTime::Now, written_ns);
            set.map_err(failed(&change.path))?;
        }
        // The tape does not have the times of directories.
        for change in self.changes {
            if let Some((dir, _)) = relative(&change.path).rsplit_once('/') {
                let base = self.base();
                self.vfs.forget_time_of_dir(base, dir);
            }
        }
        for change in self.changes.iter().filter(|change| change.how == "times") {
            let (base, path) = (self.base(), relative(&change.path));
            let times = (change.time("atime_ns"), change.time("mtime_ns"));
            let now = change.set_ns();
            let set = self.vfs.set_times_at(base, path, Follow::No, times.0, times.1, now);
            set.map_err(failed(&change.path))?;
        }
        Ok(())
    }

    /// Moves aside files and links that moved. If the old path has no change of its own, the run put an equal entry
    /// there.
    fn move_files_aside(&mut self, recorded: &HashSet<&str>) -> Result<(), TapedChangesError> {
        for change in self.changes.iter().filter(|change| !change.is_dir()) {
            let Some(origin) = change.origin() else { continue };
            let base = self.base();
            if recorded.contains(origin) {
                self.move_aside(origin)?;
            } else if change.text("file_type") == Some("link") {
                let text = self.vfs.read_link(base, relative(origin)).map(str::to_owned);
                let text = text.map_err(failed(origin))?;
                self.move_aside(origin)?;
                let made = self.vfs.symlink(&text, base, relative(origin), NOW);
                made.map_err(failed(origin))?;
            } else {
                let bytes = self.vfs.read(origin).map_err(failed(origin))?;
                self.move_aside(origin)?;
                self.vfs.write(origin, &bytes, NOW).map_err(failed(origin))?;
            }
        }
        Ok(())
    }

    fn move_aside(&mut self, path: &str) -> Result<String, TapedChangesError> {
        let room = self.room(path)?;
        let aside = format!("{room}/{}", self.aside.len());
        self.rename(path, &aside)?;
        self.aside.insert(path.to_owned(), aside.clone());
        Ok(aside)
    }

    /// The directory for moved entries in the mount of `path`: directories cannot move between mounts.
    fn room(&mut self, path: &str) -> Result<String, TapedChangesError> {
        let is_in = |mount: &String| beneath(mount, path).is_some_and(|rest| !rest.is_empty());
        let mounts = self.vfs.mounts().iter().map(Mount::path);
        let mount = mounts.filter(is_in).max_by_key(String::len).unwrap_or_default();
        if let Some(room) = self.rooms.get(&mount) {
            return Ok(room.clone());
        }
        let base = self.base();
        let mut count = 0;
        loop {
            let room = format!("{}/.belljar-{count}.tmp", mount.trim_end_matches('/'));
            match self.vfs.create_dir(base, relative(&room), NOW) {
                Err(Errno::Exist) => count += 1,
                made => {
                    made.map_err(failed(path))?;
                    self.rooms.insert(mount, room.clone());
                    return Ok(room);
                }
            }
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), TapedChangesError> {
        let base = self.base();
        self.vfs.rename((base, relative(from)), (base, relative(to)), NOW).map_err(failed(from))
    }

    /// Removes deleted entries and moves directories aside, innermost first, when they are empty.
    fn clear(&mut self, recorded: &HashSet<&str>) -> Result<(), TapedChangesError> {
        let dirs = self.changes.iter().filter(|change| change.is_dir());
        let moved: HashSet<&str> = dirs.filter_map(Change::origin).collect();
        let deleted = self.changes.iter().filter(|change| change.how == "deleted");
        let mut gone: BTreeMap<&str, bool> =
            deleted.map(|change| (&*change.path, change.is_dir())).collect();
        gone.extend(moved.iter().map(|path| (*path, true)));
        for (path, is_dir) in gone.into_iter().rev() {
            let base = self.base();
            if moved.contains(path) {
                let left = self.list(path).map_err(failed(path))?;
                if recorded.contains(path) && !left.is_empty() {
                    return Err(failed(path)(Errno::Notempty));
                }
                let aside = self.move_aside(path)?;
                if !recorded.contains(path) {
                    // The run made another directory there, with equal contents.
                    let made = self.vfs.create_dir(base, relative(path), NOW);
                    made.map_err(failed(path))?;
                }
                for Listed { name, .. } in left.iter() {
                    self.rename(&format!("{aside}/{name}"), &format!("{path}/{name}"))?;
                }
            } else if is_dir {
                self.vfs.remove_dir(base, relative(path), NOW).map_err(failed(path))?;
            } else if !self.aside.contains_key(path) {
                self.vfs.unlink(base, relative(path), NOW).map_err(failed(path))?;
            }
        }
        Ok(())
    }

    fn list(&mut self, dir: &str) -> Result<Listing, Errno> {
        let id = self.vfs.open_dir(dir)?;
        let listing = self.vfs.list(id);
        self.vfs.close(id);
        listing
    }

    /// Makes the final state: directories before their contents, hard links after their files.
    fn put_in_place(&mut self) -> Result<(), TapedChangesError> {
        let is_made = |change: &&Change| change.how == "added" || change.how == "modified";
        let made = || self.changes.iter().filter(is_made);
        let (links, mut made): (Vec<_>, Vec<_>) =
            made().partition(|change| change.text("link_of").is_some());
        made.sort_by(|a, b| a.path.cmp(&b.path));
        for change in made {
            self.put(change)?;
        }
        let made: HashSet<&str> = self.changes.iter().filter(is_made).map(|it| &*it.path).collect();
        let mut made_again = HashSet::new();
        for change in links {
            self.remove_modified(change)?;
            let base = self.base();
            let (of, path) = (change.text("link_of").unwrap_or_default(), &change.path);
            // The run made a file equal to the one of the tree, which may have other names that the tape does not know.
            if change.text("origin").is_none() && !made.contains(of) && made_again.insert(of) {
                self.make_again(of)?;
            }
            let to = (base, relative(path));
            let linked = self.vfs.link((base, relative(of)), Follow::No, to, NOW);
            linked.map_err(failed(path))?;
        }
        Ok(())
    }

    /// Replaces a file or symbolic link by a new one that is equal.
    fn make_again(&mut self, path: &str) -> Result<(), TapedChangesError> {
        let base = self.base();
        let at = relative(path);
        let text = match self.vfs.read_link(base, at) {
            Ok(text) => Some(text.to_owned()),
            Err(Errno::Inval) => None,
            Err(errno) => return Err(failed(path)(errno)),
        };
        let Some(text) = text else {
            let bytes = self.vfs.read(path).map_err(failed(path))?;
            self.vfs.unlink(base, at, NOW).map_err(failed(path))?;
            return self.vfs.write(path, &bytes, NOW).map_err(failed(path));
        };
        self.vfs.unlink(base, at, NOW).map_err(failed(path))?;
        self.vfs.symlink(&text, base, at, NOW).map(drop).map_err(failed(path))
    }

    fn remove_modified(&mut self, change: &Change) -> Result<(), TapedChangesError> {
        if change.how != "modified" || self.aside.contains_key(&change.path) {
            return Ok(());
        }
        let base = self.base();
        self.vfs.unlink(base, relative(&change.path), NOW).map_err(failed(&change.path))
    }

    fn put(&mut self, change: &Change) -> Result<(), TapedChangesError> {
        let (base, path) = (self.base(), &*change.path);
        let aside = change.origin().and_then(|origin| self.aside.get(origin)).cloned();
        if let Some(aside) = &aside {
            self.rename(aside, path)?;
        }
        let done = match (change.text("file_type"), aside) {
            (Some("dir"), None) => self.vfs.create_dir(base, relative(path), NOW).map(drop),
            (Some("link"), None) => {
                self.remove_modified(change)?;
                let target = change.text("target").unwrap_or_default();
                self.vfs.symlink(target, base, relative(path), NOW)
            }
            (Some("file"), aside) => {
                if aside.is_none() && self.is_new(change) {
                    self.remove_modified(change)?;
                }
                self.write(change, aside.is_some())?;
                return self.set_executable(change, aside.is_some());
            }
            (_, Some(_)) => Ok(()),
            (_, None) => Err(Errno::Notsup),
        };
        done.map_err(failed(path))
    }

    /// Gives a file the execute permission that the run left. A moved file brings it along, or the tree differs, unless
    /// the tape says that its origin had another one, or says nothing of its origin, where an equal file is now.
    fn set_executable(&mut self, change: &Change, is_moved: bool) -> Result<(), TapedChangesError> {
        let (base, path, left) = (self.base(), &*change.path, change.is("executable"));
        let has = self.vfs.is_executable_at(base, relative(path), Follow::No);
        let has = has.map_err(failed(path))?;
        let is_origin = |it: &&Change| change.origin() == Some(&it.path) && it.how != "times";
        let mut origins = self.changes.iter().filter(is_origin);
        let was_so = Some(&Value::Bool(has));
        let was_other = |origin: &Change| origin.detail.get("before_executable") != was_so;
        if is_moved && (has == left || origins.clone().count() > 0 && origins.all(was_other)) {
            return Ok(());
        }
        let set = self.vfs.set_executable_at(base, relative(path), Follow::No, left, NOW);
        set.map_err(failed(path))
    }

    /// Whether a modified file has permissions of its own, because it has several names that were not moved there.
    fn is_new(&self, change: &Change) -> bool {
        let is_name = |other: &Change| {
            other.text("link_of") == Some(&change.path) && other.text("origin").is_none()
        };
        let is_written = change.text("before_content_hash") != change.text("content_hash");
        let was_executable = change.is("before_executable") && !change.is("executable");
        is_written && was_executable || self.changes.iter().any(is_name)
    }

    /// Writes the content of a file, if that changed: another file keeps its time.
    fn write(&mut self, change: &Change, is_moved: bool) -> Result<(), TapedChangesError> {
        let path = &*change.path;
        let digest = change.text("content_hash").and_then(Digest::from_hex);
        let digest = digest.ok_or_else(|| failed(path)(Errno::Inval))?;
        let stays = is_moved || change.text("before_content_hash") == change.text("content_hash");
        if stays && self.vfs.read(path).map(|bytes| Digest::of(&bytes)) == Ok(digest) {
            return Ok(());
        }
        // Writing would follow a link.
        let there = self.vfs.stat(self.base(), relative(path), Follow::No);
        if there.is_ok_and(|metadata| metadata.file_type != FileType::RegularFile) {
            return Err(conflict(path, "something else is there"));
        }
        if let Some(rule) = change.text("withheld_by") {
            return Err(StoreError::Withheld { digest, rule: rule.to_owned() }.into());
        }
        let len_bytes = change.detail.get("len_bytes").and_then(Value::as_u64);
        let bytes = self.store.get(digest, len_bytes.unwrap_or(0))?;
        if len_bytes != Some(bytes.len() as u64) {
            return Err(failed(path)(Errno::Inval));
        }
        self.vfs.write(path, &bytes, NOW).map_err(failed(path))
    }
}

/// The taped form of `file`, whose bytes are not kept.
pub(super) fn content_of(_: &str, file: &FileVersion) -> Result<TapedContent, Errno> {
    let (content_hash, len_bytes) = file.digest()?;
    Ok(TapedContent { content_hash, len_bytes, withheld_by: None })
}

pub(super) fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

/// # Errors
/// [`TapedChangesError::Conflicts`] if the changes in `vfs` differ from `changes`: the tree was another.
fn expect_made(vfs: &mut Overlay, changes: &[Change]) -> Result<(), TapedChangesError> {
    let mut made = HashMap::new();
    for entry in vfs.diff()? {
        if let Kind::Change { path, change, detail } = describe(vfs, &entry, content_of)? {
            made.insert((path, change == "deleted"), (change, detail));
        }
    }
    let mut conflicts = BTreeMap::new();
    for change in changes.iter().filter(|change| change.how != "times") {
        let made = made.remove(&(change.path.clone(), change.how == "deleted"));
        if let Some(found) = change.differs_from(made.as_ref()) {
            conflicts.insert(change.path.clone(), found);
        }
    }
    for (path, _) in made.into_keys() {
        conflicts.insert(path, "something else is there");
    }
    let conflict = |(path, found)| TapedConflict { path, found };
    let conflicts: Vec<_> = conflicts.into_iter().map(conflict).collect();
    if conflicts.is_empty() { Ok(()) } else { Err(TapedChangesError::Conflicts(conflicts)) }
}

/// Reads the changes on the tape at `path`, and sets the time scale of its machine in `vfs`.
pub(super) fn read_changes(
    path: &Path,
    vfs: &mut Overlay,
) -> Result<Vec<Change>, TapedChangesError> {
    let unknown = |error: String| Err(TapedChangesError::Unknown { error });
    if path.extension().is_some_and(|it| it == "partial") {
        return unknown("it was not completed".to_owned());
    }
    let mut changes = Vec::new();
    let mut reader = TapeReader::open(path)?;
    for record in reader.by_ref() {
        match record?.kind {
            Kind::Machine { config } => {
                let config: Result<MachineConfig, _> = serde_json::from_value(config);
                vfs.set_time_scale(config.map_or(TimeScale::Unknown, |it| it.time_scale()));
            }
            Kind::Change { change, detail, .. } if change == UNKNOWN => {
                let error = detail.get(ERROR).and_then(Value::as_str).unwrap_or("unknown");
                return unknown(error.to_owned());
            }
            // Names and texts of links stand in it; a file without its content has a digest.
            Kind::Change { path, detail, .. } if has_redacted(&path, &detail) => {
                return unknown(format!("{path} was recorded without a secret"));
            }
            Kind::Change { path, change, detail } => {
                changes.push(Change { path, how: change, detail });
            }
            Kind::FileStat { found: Found::Entry { mtime_ns: Some(mtime_ns), .. }, .. } => {
                vfs.note_recorded_time(mtime_ns);
            }
            _ => {}
        }
    }
    if reader.is_cut_off() {
        return unknown(format!("line {} is cut off", reader.line()));
    }
    Ok(changes)
}

/// Whether a secret was removed from a name or the text of a link.
fn has_redacted(path: &str, detail: &Map<String, Value>) -> bool {
    let texts = detail.values().filter_map(Value::as_str).chain([path]);
    texts.into_iter().any(|text| text.contains(REDACTED))
}

/// Makes the changes of the run on the tape at `path` in `vfs`, if the changed paths are as the run found them; returns
/// their number. Permissions, hard links and set times are the same as if the run had been in `vfs`.
///
/// # Errors
/// [`TapedChangesError`]. Then `vfs` is unchanged.
pub fn make_taped_changes(path: &Path, vfs: &mut Overlay) -> Result<usize, TapedChangesError> {
    let mut fork = vfs.clone();
    fork.take_times_as_given();
    let changes = read_changes(path, &mut fork)?;
    let making = Making {
        vfs: &mut fork,
        changes: &changes,
        store: TapeStore::of(path),
        rooms: HashMap::new(),
        aside: HashMap::new(),
    };
    making.make()?;
    expect_made(&mut fork, &changes)?;
    *vfs = fork;
    let paths: HashSet<&str> = changes.iter().map(|change| &*change.path).collect();
    Ok(paths.len())
}

/// The mount point of the worktree of the machine on the tape at `path`, if it had one.
///
/// # Errors
/// [`TapedChangesError::Replay`] if the tape does not exist or cannot be read.
pub fn taped_worktree(path: &Path) -> Result<Option<String>, TapedChangesError> {
    Ok(taped_machine(path)?.worktree().map(str::to_owned))
}

/// Builds the machine of the tape at `path` in its state after the run, without running anything.
///
/// # Errors
/// [`TapedChangesError`].
pub fn changed_machine(path: &Path) -> Result<Machine, TapedChangesError> {
    let mut machine = taped_machine(path)?;
    make_taped_changes(path, machine.vfs_mut())?;
    Ok(machine)
}

/// Builds the machine of the tape at `path` in its state before the run, with all that the run saw.
fn taped_machine(path: &Path) -> Result<Machine, TapedChangesError> {
    let (builder, _) = Script::read(path)?.at_the_end().into_builder(path, &Limits::default())?;
    // Making the changes can take more room than the run took: what it moved is moved twice.
    Ok(builder.limits(Limits::default()).build().map_err(ReplayError::from)?)
}
