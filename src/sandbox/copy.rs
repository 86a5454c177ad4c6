//! Copies files and trees between the host and a session.
//!
//! The host's directory is mounted in an overlay of its own. So copying is the same in both
//! directions, no link leads out of either side, and the host is written by [`Overlay::apply`], all
//! or nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::session::Sandbox;
use crate::base::disk;
use crate::base::errno::Errno;
use crate::kernel::vfs::{
    Applied, ApplyError, FileType, Follow, HostDir, Journals, Listed as Entry, Listing, Mtimes,
    NodeId, OpenFlags, Overlay, Source, VPath, VfsLimits, Witness,
};

/// Bytes of a file in memory at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The mount point of the host's directory. Not the root, to tell it from what is above it.
const HOST: &str = "host";

const SPECIAL: &str = "it is a device, a pipe or a socket; give the path of a file";

/// The result of a copy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    /// Files.
    pub files: usize,
    /// Directories that were created.
    pub directories: usize,
    /// Symbolic links, copied as links.
    pub links: usize,
    /// Paths below the source that were skipped: neither files, directories nor links, or names that are not
    /// UTF-8, with replacement characters.
    pub left_out: Vec<String>,
}

/// An entry of [`Sandbox::list`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The name.
    pub name: String,
    /// The type.
    pub file_type: FileType,
    /// The length in bytes of a file or a link's text; 0 for a directory.
    pub size: u64,
}

/// A copy or a listing failed.
#[derive(thiserror::Error)]
pub enum CopyError {
    /// An operation on a path failed.
    #[error("cannot {operation} {path}: {errno}")]
    Path {
        /// As a verb: `read`, `list`.
        operation: &'static str,
        /// The path.
        path: String,
        /// Why.
        errno: Errno,
    },
    /// A path of the host cannot be used.
    #[error("cannot copy from or to {0}: {message}", path.display())]
    Host {
        /// The path.
        path: PathBuf,
        /// What is wrong, and what to do.
        message: String,
    },
    /// The copy cannot be written to the host.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

crate::base::readable::readable!(CopyError);

/// A file or tree on one side. The path has no leading slash.
struct Place<'v> {
    vfs: &'v mut Overlay,
    path: String,
    /// Whether it was named as a directory, with a slash at the end.
    is_dir: bool,
    now_ns: u64,
    /// The directory mounted at [`HOST`], for the host's side.
    host: Option<&'v Path>,
}

impl Sandbox {
    /// The entries of the directory `path`, sorted by name; for a file, its own entry.
    ///
    /// # Errors
    /// [`CopyError::Path`]: among others `ENOTDIR` for a file that is named with a slash at its end.
    pub fn list(&mut self, path: &str) -> Result<Vec<Listed>, CopyError> {
        let mut place = Place::of_session(self, path)?;
        let listed = place.list();
        listed.map_err(place.failed("list", &place.path))
    }

    /// Copies the file or tree `from` of the session to `to` on the host: into `to` if that is a
    /// directory, else as `to`. Existing files are replaced, directories are merged, and no
    /// symbolic link below `from` or `to` is followed. A path that ends in a slash is a directory. Of a directory whose path
    /// ends in `.` or `..` the entries are copied, as by `cp -r`. All or nothing is written.
    ///
    /// # Errors
    /// [`CopyError`].
    pub fn copy_out(&mut self, from: &str, to: &Path) -> Result<Copied, CopyError> {
        self.copy_out_with(from, to, Overlay::apply)
    }

    /// Like [`Sandbox::copy_out`], with a journal as in [`Overlay::apply_journaled`].
    ///
    /// # Errors
    /// [`CopyError`].
    pub fn copy_out_journaled(
        &mut self,
        from: &str,
        to: &Path,
        journals: &Journals,
        witness: &dyn Witness,
    ) -> Result<Copied, CopyError> {
        self.copy_out_with(from, to, |vfs| vfs.apply_journaled(journals, witness))
    }

    fn copy_out_with(
        &mut self,
        from: &str,
        to: &Path,
        apply: impl FnOnce(&mut Overlay) -> Result<Applied, ApplyError>,
    ) -> Result<Copied, CopyError> {
        // With a slash at its end a file is not found.
        let without_slash: PathBuf = to.components().collect();
        let (dir, name) = match disk::symlink_metadata(to) {
            Ok(metadata) if metadata.is_dir() => (to.to_owned(), String::new()),
            // An earlier copy may have created the link.
            Ok(metadata) if metadata.is_symlink() => {
                let message = "it is a symbolic link; give its target instead".to_owned();
                return Err(CopyError::Host { path: to.to_owned(), message });
            }
            Ok(metadata) if !metadata.is_file() => {
                return Err(CopyError::Host { path: to.to_owned(), message: SPECIAL.to_owned() });
            }
            Err(_) if disk::symlink_metadata(&without_slash).is_ok_and(|it| !it.is_dir()) => {
                let message = "it is a file, not a directory".to_owned();
                return Err(CopyError::Host { path: to.to_owned(), message });
            }
            _ => split(to)?,
        };
        let mut vfs = mounted(&dir, false)?;
        let mut source = Place::of_session(self, from)?;
        let mut target = Place::of_host(&mut vfs, &dir, &name);
        if !name.is_empty() {
            target.is_dir = names_dir(&to.to_string_lossy());
        } else if !means_contents(from) {
            target.enter(&source.path);
        }
        let copied = copy(&mut source, &mut target)?;
        apply(&mut vfs)?;
        Ok(copied)
    }

    /// Copies the file or tree `from` of the host to `to` in the session: into `to` if that is a
    /// directory, else as `to`. Existing files are replaced, directories are merged, and no
    /// symbolic link below `from` or `to` is followed. A path that ends in a slash is a directory. Of a directory whose path
    /// ends in `.` or `..` the entries are copied, as by `cp -r`.
    ///
    /// # Errors
    /// [`CopyError`]; then a part may be copied.
    pub fn copy_in(&mut self, from: &Path, to: &str) -> Result<Copied, CopyError> {
        let (dir, name) = split(from)?;
        let mut vfs = mounted(&dir, true)?;
        let mut source = Place::of_host(&mut vfs, &dir, &name);
        source.is_dir = names_dir(&from.to_string_lossy());
        let mut target = Place::of_session(self, to)?;
        let found = target.vfs.stat(target.vfs.host_base(), or_dot(&target.path), Follow::Yes);
        let is_dir = found.is_ok_and(|found| found.file_type == FileType::Directory);
        if is_dir && !means_contents(&from.to_string_lossy()) {
            target.enter(&name);
        }
        let copied = copy(&mut source, &mut target);
        let drifts = vfs.take_drifts();
        copied.map_err(|error| match drifts.iter().find(|drift| drift.kind.is_error()) {
            // The errno of a file that changes does not tell the reason.
            Some(drift) if matches!(error, CopyError::Path { errno: Errno::Io, .. }) => {
                let message = format!("it {}; copy it again", drift.kind.since("the copy began"));
                CopyError::Host { path: dir.join(drift.path.as_str()), message }
            }
            _ => error,
        })
    }
}

/// The parent directory and the name of `path`; the name is empty for the host's root.
fn split(path: &Path) -> Result<(PathBuf, String), CopyError> {
    let fail = |message: String| CopyError::Host { path: path.to_owned(), message };
    let named = match path.file_name() {
        Some(_) => path.to_owned(),
        None => disk::canonical(path).map_err(|error| fail(error.source.to_string()))?,
    };
    let Some(name) = named.file_name() else { return Ok((named, String::new())) };
    let name = name.to_str().ok_or_else(|| fail("its name is not UTF-8; rename it".to_owned()))?;
    let parent = named.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok((parent.unwrap_or(Path::new(".")).to_owned(), name.to_owned()))
}

fn mounted(dir: &Path, read_only: bool) -> Result<Overlay, CopyError> {
    let fail = |message: String| CopyError::Host { path: dir.to_owned(), message };
    let host = HostDir::open(dir).map_err(|error| fail(error.to_string()))?;
    let mut vfs = Overlay::new(VfsLimits::default(), 0);
    let source = Source::Host(Arc::new(host));
    let mounted = vfs.mount(&format!("/{HOST}"), source, read_only, Mtimes::Host, 0);
    mounted.map_err(|errno| fail(errno.to_string()))?;
    Ok(vfs)
}

impl<'v> Place<'v> {
    fn of_session(sandbox: &'v mut Sandbox, path: &str) -> Result<Self, CopyError> {
        let now_ns = sandbox.machine_mut().now_ns();
        let files = sandbox.files();
        let found = files.without_parents(files.root(), path);
        let parsed = found.and_then(|found| Ok(VPath::parse(&found)?.as_str().to_owned()));
        let fail = |errno| CopyError::Path { operation: "find", path: path.to_owned(), errno };
        let (path, is_dir) = (parsed.map_err(fail)?, names_dir(path));
        Ok(Self { path, is_dir, vfs: sandbox.files(), now_ns, host: None })
    }

    fn of_host(vfs: &'v mut Overlay, dir: &'v Path, name: &str) -> Self {
        let path = if name.is_empty() { HOST.to_owned() } else { format!("{HOST}/{name}") };
        Self { vfs, path, is_dir: false, now_ns: 0, host: Some(dir) }
    }

    fn failed(&self, operation: &'static str, path: &str) -> impl FnOnce(Errno) -> CopyError {
        let path = match self.host {
            Some(dir) => format!("{}{}", dir.display(), &path[HOST.len()..]),
            None => format!("/{path}"),
        };
        move |errno| CopyError::Path { operation, path, errno }
    }

    /// The error for a source that is neither a file, a directory nor a link.
    fn special(&self) -> CopyError {
        match self.host {
            Some(dir) => {
                let path = dir.join(self.path[HOST.len()..].trim_start_matches('/'));
                CopyError::Host { path, message: SPECIAL.to_owned() }
            }
            None => self.failed("copy", &self.path)(Errno::Notsup),
        }
    }

    /// Appends the last component of `path`, if it has one.
    fn enter(&mut self, path: &str) {
        self.is_dir = false;
        if let Some(name) = path.rsplit('/').next().filter(|name| !name.is_empty()) {
            self.path = join(&self.path, name);
        }
    }

    fn kind(&mut self, path: &str) -> Result<Option<FileType>, Errno> {
        match self.vfs.stat(self.vfs.host_base(), or_dot(path), Follow::No) {
            Ok(found) => Ok(Some(found.file_type)),
            Err(Errno::Noent) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn list(&mut self) -> Result<Vec<Listed>, Errno> {
        let itself = self.line(&self.path.clone())?;
        if itself.file_type != FileType::Directory {
            return if self.is_dir { Err(Errno::Notdir) } else { Ok(vec![itself]) };
        }
        let entries = self.entries(&self.path.clone())?;
        let line = |entry: &Entry| match self.line(&join(&self.path, &entry.name)) {
            // The listing has names also of files that changed on the disk before they were read.
            Err(Errno::Io) => {
                Ok(Listed { name: entry.name.to_string(), file_type: entry.file_type, size: 0 })
            }
            line => line,
        };
        entries.iter().map(line).collect()
    }

    fn line(&mut self, path: &str) -> Result<Listed, Errno> {
        let found = self.vfs.stat(self.vfs.host_base(), or_dot(path), Follow::No)?;
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Listed { name, file_type: found.file_type, size: found.size })
    }

    fn entries(&mut self, path: &str) -> Result<Listing, Errno> {
        self.in_dir(path, Overlay::list)?
    }

    /// The names in the directory `path` that cannot be shown.
    fn hidden(&mut self, path: &str) -> Result<Vec<String>, Errno> {
        self.in_dir(path, |vfs, dir| vfs.hidden_names(dir))
    }

    fn in_dir<T>(
        &mut self,
        path: &str,
        look: impl FnOnce(&mut Overlay, NodeId) -> T,
    ) -> Result<T, Errno> {
        let flags = OpenFlags { directory: true, ..OpenFlags::default() };
        let dir = self.vfs.open(self.vfs.host_base(), or_dot(path), flags, self.now_ns)?;
        let found = look(self.vfs, dir);
        self.vfs.close(dir);
        Ok(found)
    }

    /// Removes an existing file or link.
    fn clear(&mut self, path: &str) -> Result<(), Errno> {
        match self.kind(path)? {
            None => Ok(()),
            Some(_) => self.vfs.unlink(self.vfs.host_base(), path, self.now_ns),
        }
    }

    /// Creates a directory unless there is one; returns whether it is new.
    fn make_dir(&mut self, path: &str) -> Result<bool, Errno> {
        match self.kind(path)? {
            Some(FileType::Directory) => Ok(false),
            Some(_) => Err(Errno::Notdir),
            None => {
                self.vfs.create_dir(self.vfs.host_base(), path, self.now_ns)?;
                Ok(true)
            }
        }
    }
}

/// Whether `path` can be only that of a directory.
fn names_dir(path: &str) -> bool {
    let path = path.strip_suffix('.').unwrap_or(path);
    path.ends_with(std::path::is_separator)
}

/// Whether `path` names a directory without a name to copy it under.
fn means_contents(path: &str) -> bool {
    let mut names = path.split(std::path::is_separator).filter(|name| !name.is_empty());
    matches!(names.next_back(), Some("." | ".."))
}

fn or_dot(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

/// # Errors
/// `source` is not a directory, and one of the two is named as one.
fn expect_dirs(source: &mut Place<'_>, target: &Place<'_>) -> Result<(), CopyError> {
    let kind = source.kind(&source.path.clone()).map_err(source.failed("copy", &source.path))?;
    let with_slash = |place: &Place<'_>| format!("{}/", place.path);
    match kind {
        None | Some(FileType::Directory) => Ok(()),
        Some(_) if source.is_dir => Err(source.failed("copy", &with_slash(source))(Errno::Notdir)),
        Some(_) if target.is_dir => {
            Err(target.failed("create", &with_slash(target))(Errno::Notdir))
        }
        Some(_) => Ok(()),
    }
}

fn copy(source: &mut Place<'_>, target: &mut Place<'_>) -> Result<Copied, CopyError> {
    expect_dirs(source, target)?;
    let mut copied = Copied::default();
    // Paths relative to both places, the next one last.
    let mut left = vec![String::new()];
    while let Some(below) = left.pop() {
        let at = |place: &str| if below.is_empty() { place.into() } else { join(place, &below) };
        let (from, to): (String, String) = (at(&source.path), at(&target.path));
        let kind = source.kind(&from).and_then(|kind| kind.ok_or(Errno::Noent));
        match kind.map_err(source.failed("copy", &from))? {
            FileType::Directory => {
                let is_new =
                    target.make_dir(&to).map_err(target.failed("make the directory", &to))?;
                copied.directories += usize::from(is_new);
                let entries = source.entries(&from).map_err(source.failed("list", &from))?;
                let hidden = source.hidden(&from).map_err(source.failed("list", &from))?;
                left.extend(entries.iter().rev().map(|entry| join(&below, &entry.name)));
                copied.left_out.extend(hidden.iter().map(|name| join(&below, name)));
            }
            FileType::RegularFile => {
                copy_file(source, &from, target, &to)?;
                copied.files += 1;
            }
            FileType::SymbolicLink => {
                let text = source.vfs.read_link(source.vfs.host_base(), &from).map(str::to_owned);
                let text = text.map_err(source.failed("read the link", &from))?;
                target.clear(&to).map_err(target.failed("replace", &to))?;
                let made = target.vfs.symlink(&text, target.vfs.host_base(), &to, target.now_ns);
                made.map_err(target.failed("make the link", &to))?;
                copied.links += 1;
            }
            _ if below.is_empty() => return Err(source.special()),
            _ => copied.left_out.push(below),
        }
    }
    Ok(copied)
}

fn copy_file(
    source: &mut Place<'_>,
    from: &str,
    target: &mut Place<'_>,
    to: &str,
) -> Result<(), CopyError> {
    let new = OpenFlags { create: true, exclusive: true, write: true, ..OpenFlags::default() };
    // A file that is replaced keeps its permissions, as with `cp`.
    let kind = target.kind(to).map_err(target.failed("examine", to))?;
    let is_executable = if kind == Some(FileType::RegularFile) {
        let found = target.vfs.is_executable_at(target.vfs.host_base(), to, Follow::No);
        found.map_err(target.failed("examine", to))?
    } else {
        let found = source.vfs.is_executable_at(source.vfs.host_base(), from, Follow::No);
        found.map_err(source.failed("examine", from))?
    };
    target.clear(to).map_err(target.failed("replace", to))?;
    let write = target.vfs.open(target.vfs.host_base(), to, new, target.now_ns);
    let write = write.map_err(target.failed("create", to))?;
    if is_executable {
        let set = target.vfs.set_executable(write, true, target.now_ns);
        set.map_err(target.failed("make executable", to))?;
    }
    let read = source.vfs.open(source.vfs.host_base(), from, OpenFlags::default(), 0);
    let copied = read.map_err(source.failed("open", from)).and_then(|read| {
        let mut piece = vec![0; PIECE_BYTES];
        let mut offset = 0;
        let copied = loop {
            let count = match source.vfs.read_at(read, offset, &mut piece) {
                Ok(0) => break Ok(()),
                Ok(count) => count,
                Err(errno) => break Err(source.failed("read", from)(errno)),
            };
            let (bytes, end) = (&piece[..count], offset + count as u64);
            // Zeros stay holes: a sparse file may be much longer than its data.
            let written = if bytes.iter().all(|byte| *byte == 0) {
                target.vfs.set_len(write, end, target.now_ns)
            } else {
                target.vfs.write_at(write, offset, bytes, target.now_ns).map(drop)
            };
            if let Err(errno) = written {
                break Err(target.failed("write", to)(errno));
            }
            offset = end;
        };
        source.vfs.close(read);
        copied
    });
    target.vfs.end_description(write, true);
    copied
}
