//! What a recorded run changed, made once more from its tape.
//!
//! The tape says what stands where in the end, and where it came from. So what came from elsewhere
//! is first moved aside, whatever is not there any more is removed, and then everything is put in
//! its place: what was moved is moved here as well, and keeps its permissions. Last of all the
//! changes that came about are compared with those on the tape: a difference means that the tree
//! below was not what the run found.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::Path;

use serde_json::{Map, Value};

use super::changes::{SET_NS, WRITTEN_NS, describe};
use super::replay_error::ReplayError;
use super::script::Script;
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::machine::Machine;
use crate::kernel::machine::config::MachineConfig;
use crate::kernel::machine::limits::Limits;
use crate::kernel::vfs::{
    Base, DiffError, FileType, FileVersion, Follow, Listed, Listing, Metadata, Mount, Overlay,
    SetTime, TimeScale, beneath,
};
use crate::store::{Cas, StoreError};
use crate::tape::{Kind, TapeError, TapeReader, TapedContent, cas_dir};

/// The changes on a tape cannot be made.
#[derive(thiserror::Error)]
pub enum TapedChangesError {
    /// The tape.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A content is not in the store beside the tape, or is not what it was.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What stands there is not what stood there when the tape was recorded.
    #[error("{}", list(.0))]
    Conflicts(Vec<TapedConflict>),
    /// The namespace refuses.
    #[error("cannot change {path}: {errno}")]
    Refused {
        /// The path in the namespace.
        path: String,
        /// Why.
        errno: Errno,
    },
    /// What came about cannot be told.
    #[error(transparent)]
    Diff(#[from] DiffError),
}

crate::base::readable::readable!(TapedChangesError);

/// Something that is not what it was when the tape was recorded.
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
        write!(f, "{path} is not what it was when the tape was recorded: {found}")
    }
}

fn list(conflicts: &[TapedConflict]) -> String {
    conflicts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl From<TapeError> for TapedChangesError {
    fn from(error: TapeError) -> Self {
        Self::Replay(error.into())
    }
}

/// Turns an errno that tells of another tree than the run found into a conflict.
fn failed(path: &str) -> impl FnOnce(Errno) -> TapedChangesError {
    let path = path.to_owned();
    |errno| {
        let found = match errno {
            Errno::Noent | Errno::Notdir => "nothing is there",
            Errno::Exist | Errno::Isdir => "something is there",
            Errno::Notempty => "it holds something else",
            Errno::Loop => "a link leads back to itself",
            errno => return TapedChangesError::Refused { path, errno },
        };
        conflict(&path, found)
    }
}

fn conflict(path: &str, found: &'static str) -> TapedChangesError {
    TapedChangesError::Conflicts(vec![TapedConflict { path: path.to_owned(), found }])
}

/// Time of what is made: nobody is told it.
const NOW: u64 = 0;

/// One change, as the tape has it.
struct Change {
    path: String,
    /// `added`, `modified`, `deleted` or `times`.
    how: String,
    detail: Map<String, Value>,
}

impl Change {
    fn text(&self, field: &str) -> Option<&str> {
        self.detail.get(field).and_then(Value::as_str)
    }

    fn is(&self, field: &str) -> bool {
        self.detail.get(field) == Some(&Value::Bool(true))
    }

    fn time(&self, field: &str) -> SetTime {
        self.detail.get(field).and_then(Value::as_u64).map_or(SetTime::Keep, SetTime::At)
    }

    /// When its times were set.
    fn set_ns(&self) -> u64 {
        self.detail.get(SET_NS).and_then(Value::as_u64).unwrap_or(NOW)
    }

    fn is_dir(&self) -> bool {
        self.text("file_type") == Some("dir")
    }

    /// Where what stands here in the end is to be moved from.
    fn origin(&self) -> Option<&str> {
        self.text("origin").filter(|_| self.how != "deleted" && self.text("link_of").is_none())
    }

    /// In what way `made` is not this change.
    fn differs_from(&self, made: Option<&(String, Map<String, Value>)>) -> Option<&'static str> {
        let Some((how, detail)) = made else {
            return Some("it is already what the run made of it");
        };
        if *how != self.how {
            let was_there = how == "modified";
            return Some(if was_there { "something is there" } else { "nothing is there" });
        }
        let fields = [
            ("file_type", "something else is there"),
            ("before_content_hash", "it has another content"),
            ("before_target", "it leads somewhere else"),
            ("before_executable", "its permission to be executed is another"),
            ("executable", "what is moved or linked here has another permission to be executed"),
            ("content_hash", "something else came to be there"),
            ("target", "something else came to be there"),
        ];
        let differs = |(field, _): &(&str, _)| detail.get(*field) != self.detail.get(*field);
        fields.into_iter().find(differs).map(|(_, found)| found)
    }
}

/// Changes on their way into a tree.
struct Making<'a> {
    vfs: &'a mut Overlay,
    changes: &'a [Change],
    cas: Cas,
    /// By the path of a mount: the directory in it for what is moved.
    rooms: HashMap<String, String>,
    /// Where what stood at a path is until it comes to its new place.
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
        for change in self.changes.iter().filter(|change| change.how == "times") {
            let (base, path) = (self.base(), relative(&change.path));
            let times = (change.time("atime_ns"), change.time("mtime_ns"));
            let now = change.set_ns();
            let set = self.vfs.set_times_at(base, path, Follow::No, times.0, times.1, now);
            set.map_err(failed(&change.path))?;
        }
        Ok(())
    }

    /// Moves aside what is no directory. What the run put in its old place is equal to it if it is
    /// no change.
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

    /// A directory in the mount of `path`: directories do not move between mounts.
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

    /// Removes what is not there any more, and moves directories aside, innermost first: by then
    /// they are empty.
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
                    // The run made another directory there, with what is equal to what was in it.
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

    /// Makes what is there in the end, directories before what they hold, and further names of a
    /// file after it.
    fn put_in_place(&mut self) -> Result<(), TapedChangesError> {
        let is_made = |change: &&Change| change.how == "added" || change.how == "modified";
        let made = || self.changes.iter().filter(is_made);
        let (links, mut made): (Vec<_>, Vec<_>) =
            made().partition(|change| change.text("link_of").is_some());
        made.sort_by(|a, b| a.path.cmp(&b.path));
        for change in made {
            self.put(change)?;
        }
        for change in links {
            self.remove_modified(change)?;
            let base = self.base();
            let (of, path) = (change.text("link_of").unwrap_or_default(), &change.path);
            let to = (base, relative(path));
            let linked = self.vfs.link((base, relative(of)), Follow::No, to, NOW);
            linked.map_err(failed(path))?;
        }
        Ok(())
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
                return self.write(change, aside.is_some());
            }
            (_, Some(_)) => Ok(()),
            (_, None) => Err(Errno::Notsup),
        };
        done.map_err(failed(path))
    }

    /// Whether a file that stands in place of another has permissions of its own, since it has several
    /// names, which come from nowhere.
    fn is_new(&self, change: &Change) -> bool {
        let is_name = |other: &Change| {
            other.text("link_of") == Some(&change.path) && other.text("origin").is_none()
        };
        let was_executable = change.is("before_executable") && !change.is("executable");
        was_executable || self.changes.iter().any(is_name)
    }

    /// Gives the file of `change` its content. One that was only moved stays the file that it is.
    fn write(&mut self, change: &Change, is_moved: bool) -> Result<(), TapedChangesError> {
        let path = &*change.path;
        let digest = change.text("content_hash").and_then(Digest::from_hex);
        let digest = digest.ok_or_else(|| failed(path)(Errno::Inval))?;
        if is_moved && self.vfs.read(path).map(|bytes| Digest::of(&bytes)) == Ok(digest) {
            return Ok(());
        }
        // A link would lead elsewhere.
        let there = self.vfs.stat(self.base(), relative(path), Follow::No);
        if there.is_ok_and(|metadata| metadata.file_type != FileType::RegularFile) {
            return Err(conflict(path, "something else is there"));
        }
        if let Some(rule) = change.text("withheld_by") {
            return Err(StoreError::Withheld { digest, rule: rule.to_owned() }.into());
        }
        let len_bytes = change.detail.get("len_bytes").and_then(Value::as_u64);
        let bytes = self.cas.get(digest, len_bytes.unwrap_or(0))?;
        if len_bytes != Some(bytes.len() as u64) {
            return Err(failed(path)(Errno::Inval));
        }
        self.vfs.write(path, &bytes, NOW).map_err(failed(path))
    }
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

/// # Errors
/// [`TapedChangesError::Conflicts`] if what came about in `vfs` is not what `changes` say: what was
/// there before was something else.
fn expect_made(vfs: &mut Overlay, changes: &[Change]) -> Result<(), TapedChangesError> {
    let mut made = HashMap::new();
    for entry in vfs.diff()? {
        let content = |_: &str, file: &FileVersion| {
            let (content_hash, len_bytes) = file.digest()?;
            Ok(TapedContent { content_hash, len_bytes, withheld_by: None })
        };
        if let Kind::Change { path, change, detail } = describe(vfs, &entry, content)? {
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
    if conflicts.is_empty() {
        return Ok(());
    }
    let conflict = |(path, found)| TapedConflict { path, found };
    Err(TapedChangesError::Conflicts(conflicts.into_iter().map(conflict).collect()))
}

/// What `path` names, if no link leads there: the changes say where they are without links.
///
/// # Errors
/// `ENOTDIR` if something on the way is no directory, and whatever looking at it answers.
fn stat_in_place(vfs: &mut Overlay, path: &str) -> Result<Metadata, Errno> {
    let base = vfs.host_base();
    for (end, _) in path.match_indices('/') {
        if vfs.stat(base, &path[..end], Follow::No)?.file_type != FileType::Directory {
            return Err(Errno::Notdir);
        }
    }
    vfs.stat(base, path, Follow::No)
}

/// Whether `vfs` has what `changes` leave: contents, links, permissions to execute, and nothing where
/// something was removed.
///
/// # Errors
/// [`TapedChangesError::Diff`]: something cannot be read.
fn is_made(mut fork: Overlay, changes: &[Change]) -> Result<bool, TapedChangesError> {
    let base = fork.host_base();
    let there: HashSet<&str> =
        changes.iter().filter(|it| it.how != "deleted").map(|it| &*it.path).collect();
    let mut left: HashMap<&str, &Change> = HashMap::new();
    for change in changes {
        let (path, file_type) = (relative(&change.path), change.text("file_type"));
        let found = stat_in_place(&mut fork, path);
        let is_as_left = match (&*change.how, file_type) {
            ("deleted", _) => there.contains(&*change.path) || found.is_err(),
            ("times", _) => match change.time("mtime_ns") {
                // A time of the run's clock was written as the time of the apply, which the tape does not say.
                SetTime::At(mtime_ns) => {
                    let is_of_clock = fork.is_clock_time(mtime_ns, change.set_ns());
                    let is_date = !is_of_clock && mtime_ns <= ambient::wall_now_ns();
                    found.is_ok_and(|it| !is_date || it.times.mtim == mtime_ns)
                }
                _ => found.is_ok(),
            },
            (_, Some("dir")) => found.is_ok_and(|it| it.file_type == FileType::Directory),
            (_, Some("file" | "link")) => {
                left.insert(&change.path, change);
                found.is_ok()
            }
            _ => false,
        };
        if !is_as_left {
            return Ok(false);
        }
    }
    // What stands there is what is told of it once it is gone.
    for path in left.keys() {
        if fork.unlink(base, relative(path), NOW).is_err() {
            return Ok(false);
        }
    }
    for entry in fork.diff()? {
        let content = |_: &str, file: &FileVersion| {
            let (content_hash, len_bytes) = file.digest()?;
            Ok(TapedContent { content_hash, len_bytes, withheld_by: None })
        };
        let Kind::Change { path, change, detail } = describe(&fork, &entry, content)? else {
            continue;
        };
        let Some(expected) = left.remove(&*path).filter(|_| change == "deleted") else {
            return Ok(false);
        };
        let fields = ["content_hash", "executable", "target", "file_type"];
        let is_same = |field: &&str| {
            let before =
                if *field == "file_type" { (*field).to_owned() } else { format!("before_{field}") };
            detail.get(&before) == expected.detail.get(*field)
        };
        if !fields.iter().all(is_same) {
            return Ok(false);
        }
    }
    Ok(left.is_empty())
}

/// Whether `vfs` has already what the run on the tape at `path` left of all that it changed, so that
/// there is nothing for [`make_taped_changes`] to do, which finds conflicts then.
///
/// # Errors
/// [`TapedChangesError`].
pub fn taped_changes_are_made(path: &Path, vfs: &Overlay) -> Result<bool, TapedChangesError> {
    let mut fork = vfs.clone();
    let changes = read_changes(path, &mut fork)?;
    is_made(fork, &changes)
}

/// The changes on the tape at `path`. `vfs` shows the times of its machine from then on.
fn read_changes(path: &Path, vfs: &mut Overlay) -> Result<Vec<Change>, TapedChangesError> {
    let mut changes = Vec::new();
    for record in TapeReader::open(path)? {
        match record?.kind {
            Kind::Machine { config } => {
                let config: Result<MachineConfig, _> = serde_json::from_value(config);
                vfs.set_time_scale(config.map_or(TimeScale::Unknown, |it| it.time_scale()));
            }
            Kind::Change { path, change, detail } => {
                changes.push(Change { path, how: change, detail });
            }
            _ => {}
        }
    }
    Ok(changes)
}

/// Makes in `vfs` what the run on the tape at `path` changed, if everything that it changed is there
/// as the run found it; answers how many changes there were. Permissions, further names of files and
/// times that were set come out as if the run itself had been in `vfs`.
///
/// # Errors
/// [`TapedChangesError`]. `vfs` is then as it was.
pub fn make_taped_changes(path: &Path, vfs: &mut Overlay) -> Result<usize, TapedChangesError> {
    let mut fork = vfs.clone();
    fork.take_times_as_given();
    let changes = read_changes(path, &mut fork)?;
    let making = Making {
        vfs: &mut fork,
        changes: &changes,
        cas: Cas::new(cas_dir(path)),
        rooms: HashMap::new(),
        aside: HashMap::new(),
    };
    making.make()?;
    expect_made(&mut fork, &changes)?;
    *vfs = fork;
    let paths: HashSet<&str> = changes.iter().map(|change| &*change.path).collect();
    Ok(paths.len())
}

/// Where the worktree of the machine on the tape at `path` was mounted, if it had one.
///
/// # Errors
/// [`TapedChangesError::Replay`] if there is no such tape, or it cannot be read.
pub fn taped_worktree(path: &Path) -> Result<Option<String>, TapedChangesError> {
    Ok(taped_machine(path)?.worktree().map(str::to_owned))
}

/// The machine of the tape at `path` as the run left it, put together from the tape alone: nothing
/// runs.
///
/// # Errors
/// [`TapedChangesError`].
pub fn changed_machine(path: &Path) -> Result<Machine, TapedChangesError> {
    let mut machine = taped_machine(path)?;
    make_taped_changes(path, machine.vfs_mut())?;
    Ok(machine)
}

/// The machine of the tape at `path` before the run changed anything, with all that the run saw.
fn taped_machine(path: &Path) -> Result<Machine, TapedChangesError> {
    let (builder, _) = Script::read(path)?.at_the_end().into_builder(path, &Limits::default())?;
    Ok(builder.build().map_err(ReplayError::from)?)
}
