//! The real file system of Linux, below one directory, for plans to run on.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use belljar::Errno;
use belljar::kernel::vfs::{FileType, Follow, Metadata, OpenFlags, SetTime, Times};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Mode, OFlags, RawDir, SeekFrom, Timespec, Timestamps,
};
use rustix::io::Errno as Host;

use super::files::{Answer, EXECUTABLE, Files, Outcome, Tree, join};
use super::plans::{Op, Place, SLOTS, Sown, What, pattern};

/// A directory of the real file system. The targets of absolute links in it begin with its path,
/// which is removed when they are read.
///
/// Sizes of directories are shown as 0 and their link counts as at most 1, because file systems
/// differ in them; `ctim` is omitted, because it cannot be set and depends on the time of the test.
pub struct LinuxFiles {
    root: OwnedFd,
    root_path: PathBuf,
    slots: [Option<Slot>; SLOTS],
}

struct Slot {
    fd: OwnedFd,
    write: bool,
}

fn wasi(error: Host) -> Errno {
    match error {
        Host::ACCESS => Errno::Acces,
        Host::BADF => Errno::Badf,
        Host::BUSY => Errno::Busy,
        Host::EXIST => Errno::Exist,
        Host::INVAL => Errno::Inval,
        Host::ISDIR => Errno::Isdir,
        Host::LOOP => Errno::Loop,
        Host::NAMETOOLONG => Errno::Nametoolong,
        Host::NOENT => Errno::Noent,
        Host::NOTDIR => Errno::Notdir,
        Host::NOTEMPTY => Errno::Notempty,
        Host::PERM => Errno::Perm,
        other => panic!("Linux answers {other}"),
    }
}

impl LinuxFiles {
    /// Makes the directory `root_path`, which must not exist, and `tree` in it.
    pub fn new(root_path: PathBuf, tree: &BTreeMap<String, Sown>) -> Self {
        fs::create_dir_all(&root_path).expect("a directory");
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOATIME;
        let root = rustix::fs::open(&root_path, flags, Mode::empty()).expect("it was just made");
        let this = Self { root, root_path, slots: [const { None }; SLOTS] };
        plant_on_disk(&this.root_path, tree, |text| this.to_real(text));
        this
    }

    fn slot(&self, slot: usize) -> Result<&Slot, Errno> {
        self.slots[slot].as_ref().ok_or(Errno::Badf)
    }

    fn writable(&self, slot: usize) -> Result<&OwnedFd, Errno> {
        let Slot { fd, write } = self.slot(slot)?;
        if *write { Ok(fd) } else { Err(Errno::Badf) }
    }

    fn base(&self, place: &Place) -> Result<BorrowedFd<'_>, Errno> {
        match place.slot {
            Some(slot) => Ok(self.slot(slot)?.fd.as_fd()),
            None => Ok(self.root.as_fd()),
        }
    }

    /// `text` as stored in the real link.
    fn to_real(&self, text: &str) -> String {
        let root = if text.starts_with('/') { self.root_path.to_str() } else { None };
        format!("{}{text}", root.unwrap_or_default())
    }

    fn shown(&self, text: &str) -> String {
        let root = self.root_path.to_str().expect("temporary paths are plain");
        text.strip_prefix(root).unwrap_or(text).to_owned()
    }

    /// The path of the directory in `slot` from the root of the test; `None` if it was removed.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` if there is no such directory.
    pub fn path_of(&self, slot: Option<usize>) -> Result<Option<Vec<String>>, Errno> {
        let Some(slot) = slot else { return Ok(Some(Vec::new())) };
        let fd = &self.slot(slot)?.fd;
        if type_of(rustix::fs::fstat(fd).map_err(wasi)?.st_mode) != FileType::Directory {
            return Err(Errno::Notdir);
        }
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let path = fs::read_link(link).expect("proc is mounted");
        let beneath = path.strip_prefix(&self.root_path).expect("nothing leaves");
        let beneath = beneath.to_str().expect("plain names");
        if beneath.ends_with(" (deleted)") {
            return Ok(None);
        }
        Ok(Some(beneath.split('/').filter(|name| !name.is_empty()).map(Into::into).collect()))
    }

    /// The type of the entry at `path` from the root, and its text if it is a link.
    pub fn peek(&self, path: &[String]) -> Option<(FileType, String)> {
        let path = self.root_path.join(path.join("/"));
        let file_type = type_of(rustix::fs::lstat(&path).ok()?.st_mode);
        let text = fs::read_link(path).unwrap_or_default();
        Some((file_type, self.shown(text.to_str().expect("plain names"))))
    }

    fn open(&self, at: &Place, flags: OpenFlags) -> Result<Slot, Errno> {
        let mut how = OFlags::CLOEXEC | OFlags::NOATIME | OFlags::NONBLOCK;
        how.set(OFlags::RDWR, flags.write);
        how.set(OFlags::CREATE, flags.create);
        how.set(OFlags::EXCL, flags.exclusive);
        how.set(OFlags::TRUNC, flags.truncate);
        how.set(OFlags::DIRECTORY, flags.directory);
        how.set(OFlags::NOFOLLOW, !flags.follow);
        let fd = rustix::fs::openat(self.base(at)?, &at.path, how, Mode::from_raw_mode(0o600));
        Ok(Slot { fd: fd.map_err(wasi)?, write: flags.write })
    }

    fn meta(stat: &rustix::fs::Stat, link: impl FnOnce() -> String) -> Metadata {
        let file_type = type_of(stat.st_mode);
        let nlink = u32::try_from(stat.st_nlink).expect("few links");
        let time = |sec: i64, nsec: u64| sec.unsigned_abs() * 1_000_000_000 + nsec;
        Metadata {
            ino: stat.st_ino,
            file_type,
            nlink: if file_type == FileType::Directory { nlink.min(1) } else { nlink },
            size: match file_type {
                FileType::RegularFile => stat.st_size.unsigned_abs(),
                FileType::SymbolicLink => link().len() as u64,
                _ => 0,
            },
            times: Times {
                atim: time(stat.st_atime, stat.st_atime_nsec),
                mtim: time(stat.st_mtime, stat.st_mtime_nsec),
                ctim: 0,
            },
        }
    }

    fn read_link(&self, base: BorrowedFd<'_>, path: &str) -> Result<String, Errno> {
        let text = rustix::fs::readlinkat(base, path, Vec::new()).map_err(wasi)?;
        Ok(self.shown(text.to_str().expect("plain names")))
    }

    fn stat(&self, base: BorrowedFd<'_>, path: &str, follow: Follow) -> Result<Metadata, Errno> {
        let stat = rustix::fs::statat(base, path, at_flags(follow)).map_err(wasi)?;
        Ok(Self::meta(&stat, || self.read_link(base, path).expect("it is a link")))
    }

    /// Finds `at` without opening it for anything else.
    fn look(&self, at: &Place, follow: Follow) -> Result<(OwnedFd, rustix::fs::Stat), Errno> {
        let mut how = OFlags::PATH | OFlags::CLOEXEC;
        how.set(OFlags::NOFOLLOW, follow == Follow::No);
        let fd = rustix::fs::openat(self.base(at)?, &at.path, how, Mode::empty()).map_err(wasi)?;
        let stat = rustix::fs::fstat(&fd).map_err(wasi)?;
        Ok((fd, stat))
    }

    fn dump_dir(&self, fd: &OwnedFd, path: &str, tree: &mut Tree) {
        for (name, ..) in entries(fd).expect(path) {
            let path = join(path, &name);
            let meta = self.stat(fd.as_fd(), &name, Follow::No).expect(&path);
            let held = match meta.file_type {
                FileType::SymbolicLink => {
                    Answer::Text(self.read_link(fd.as_fd(), &name).expect(&path))
                }
                FileType::Unknown => Answer::Done,
                _ => {
                    let flags = OFlags::CLOEXEC | OFlags::NOATIME;
                    let node = rustix::fs::openat(fd, &name, flags, Mode::empty()).expect(&path);
                    if meta.file_type == FileType::Directory {
                        self.dump_dir(&node, &path, tree);
                    }
                    let mode = rustix::fs::fstat(&node).expect(&path).st_mode;
                    if meta.file_type == FileType::RegularFile && mode & 0o100 != 0 {
                        let executable = (meta, Answer::Executable(true));
                        tree.insert(format!("{path}{EXECUTABLE}"), executable);
                    }
                    held(&node, &meta)
                }
            };
            tree.insert(path, (meta, held));
        }
    }
}

impl Files for LinuxFiles {
    fn apply(&mut self, op: &Op, _now: u64) -> Outcome {
        for slot in op.bases() {
            self.slot(slot)?;
        }
        match op {
            Op::Open { slot, at, flags } => self.slots[*slot] = Some(self.open(at, *flags)?),
            Op::Close { slot } => {
                self.slot(*slot)?;
                self.slots[*slot] = None;
            }
            Op::Write { slot, offset, len, first } => {
                write_all(self.writable(*slot)?, &pattern(*first, *len), *offset)?;
            }
            Op::Append { slot, len, first } => {
                let fd = self.writable(*slot)?;
                let end = rustix::fs::fstat(fd).map_err(wasi)?.st_size.unsigned_abs();
                write_all(fd, &pattern(*first, *len), end)?;
            }
            Op::Read { slot, offset, len } => {
                return Ok(Answer::Bytes(read_all(&self.slot(*slot)?.fd, *len, *offset)?));
            }
            Op::SetLen { slot, len } => {
                rustix::fs::ftruncate(self.writable(*slot)?, *len).map_err(wasi)?;
            }
            Op::Allocate { slot, offset, len } => {
                let fd = self.writable(*slot)?;
                let kept = FallocateFlags::empty();
                rustix::fs::fallocate(fd, kept, *offset, *len).map_err(wasi)?;
            }
            Op::List { slot } => return Ok(Answer::Entries(entries(&self.slot(*slot)?.fd)?)),
            Op::StatOpen { slot } => {
                let stat = rustix::fs::fstat(&self.slot(*slot)?.fd).map_err(wasi)?;
                return Ok(Answer::Meta(Self::meta(&stat, String::new)));
            }
            Op::SetTimesOpen { slot, atim, mtim } => {
                let times = timestamps(*atim, *mtim);
                rustix::fs::futimens(&self.slot(*slot)?.fd, &times).map_err(wasi)?;
            }
            Op::Stat { at, follow } => {
                return Ok(Answer::Meta(self.stat(self.base(at)?, &at.path, *follow)?));
            }
            Op::SetTimes { at, follow, atim, mtim } => {
                let base = self.base(at)?;
                // If both times are to be kept, Linux does not check whether the path exists, which
                // POSIX allows but does not require.
                self.stat(base, &at.path, *follow)?;
                let times = timestamps(*atim, *mtim);
                let flags = at_flags(*follow);
                rustix::fs::utimensat(base, &at.path, &times, flags).map_err(wasi)?;
            }
            Op::SetExecutable { at, follow, executable } => {
                let (fd, stat) = self.look(at, *follow)?;
                match type_of(stat.st_mode) {
                    FileType::RegularFile => {}
                    FileType::Directory => return Ok(Answer::Done),
                    _ => return Err(Errno::Notsup),
                }
                let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
                let bits = stat.st_mode & 0o666 | if *executable { 0o111 } else { 0 };
                rustix::fs::chmod(link, Mode::from_raw_mode(bits)).map_err(wasi)?;
            }
            Op::IsExecutable { at, follow } => {
                let mode = self.look(at, *follow)?.1.st_mode;
                let is_special = type_of(mode) == FileType::Unknown;
                return Ok(Answer::Executable(!is_special && mode & 0o100 != 0));
            }
            Op::Mkdir { at } => {
                rustix::fs::mkdirat(self.base(at)?, &at.path, Mode::RWXU).map_err(wasi)?;
            }
            Op::Rmdir { at } => {
                let flags = AtFlags::REMOVEDIR;
                rustix::fs::unlinkat(self.base(at)?, &at.path, flags).map_err(wasi)?;
            }
            Op::Unlink { at } => {
                let flags = AtFlags::empty();
                rustix::fs::unlinkat(self.base(at)?, &at.path, flags).map_err(wasi)?;
            }
            Op::Rename { from, to } => {
                let (old, new) = (self.base(from)?, self.base(to)?);
                rustix::fs::renameat(old, &from.path, new, &to.path).map_err(wasi)?;
            }
            Op::Link { from, follow, to } => {
                let (old, new) = (self.base(from)?, self.base(to)?);
                let follows = *follow == Follow::Yes;
                let flags = if follows { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() };
                rustix::fs::linkat(old, &from.path, new, &to.path, flags).map_err(wasi)?;
            }
            Op::Symlink { text, at } => {
                let text = self.to_real(text);
                rustix::fs::symlinkat(text, self.base(at)?, &at.path).map_err(wasi)?;
            }
            Op::ReadLink { at } => {
                return Ok(Answer::Text(self.read_link(self.base(at)?, &at.path)?));
            }
            Op::Fork => {}
        }
        Ok(Answer::Done)
    }

    fn dump(&mut self) -> Tree {
        let mut tree = Tree::new();
        let open = self.slots.iter().enumerate();
        let open = open.filter_map(|(at, slot)| Some((format!("#{at}"), &slot.as_ref()?.fd)));
        for (path, fd) in open.chain([(String::new(), &self.root)]) {
            let meta = Self::meta(&rustix::fs::fstat(fd).expect(&path), String::new);
            tree.insert(path, (meta, held(fd, &meta)));
        }
        self.dump_dir(&self.root, "", &mut tree);
        tree
    }
}

/// Creates `tree` in `root`, with `to_real` applied to the texts of links.
pub fn plant_on_disk(root: &Path, tree: &BTreeMap<String, Sown>, to_real: impl Fn(&str) -> String) {
    for (path, sown) in tree {
        let path = root.join(path);
        match &sown.what {
            What::Dir => fs::create_dir_all(&path),
            What::File { len, first } => fs::write(&path, pattern(*first, *len)),
            What::Link(text) => symlink(to_real(text), &path),
            What::Special => {
                let fifo = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(CWD, &path, fifo, Mode::RWXU, 0).map_err(Into::into)
            }
        }
        .expect("the tree is one");
    }
    for (path, sown) in tree {
        let times = timestamps(SetTime::At(sown.mtime), SetTime::At(sown.mtime));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(CWD, root.join(path), &times, flags).expect("it was just made");
    }
}

fn type_of(mode: u32) -> FileType {
    match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::RegularFile => FileType::RegularFile,
        rustix::fs::FileType::Symlink => FileType::SymbolicLink,
        _ => FileType::Unknown,
    }
}

fn at_flags(follow: Follow) -> AtFlags {
    if follow == Follow::Yes { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }
}

fn timestamps(atim: SetTime, mtim: SetTime) -> Timestamps {
    let spec = |time| match time {
        SetTime::Keep => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        SetTime::Now => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
        SetTime::At(time) => Timespec {
            tv_sec: (time / 1_000_000_000).cast_signed(),
            tv_nsec: (time % 1_000_000_000).cast_signed(),
        },
    };
    Timestamps { last_access: spec(atim), last_modification: spec(mtim) }
}

fn entries(fd: &OwnedFd) -> Result<Vec<(String, u64, FileType)>, Errno> {
    rustix::fs::seek(fd, SeekFrom::Start(0)).map_err(wasi)?;
    let mut buffer = Vec::with_capacity(1 << 14);
    let mut lines = RawDir::new(fd, buffer.spare_capacity_mut());
    let mut entries = Vec::new();
    while let Some(line) = lines.next() {
        let line = line.map_err(wasi)?;
        let name = line.file_name().to_str().expect("plain names").to_owned();
        if name != "." && name != ".." {
            entries.push((name, line.ino(), type_of(line.file_type().as_raw_mode())));
        }
    }
    entries.sort_by(|a: &(String, u64, FileType), b| a.0.cmp(&b.0));
    Ok(entries)
}

fn held(fd: &OwnedFd, meta: &Metadata) -> Answer {
    if meta.file_type == FileType::Directory {
        // Linux refuses to list a directory that was removed.
        return Answer::Entries(entries(fd).unwrap_or_default());
    }
    let len = usize::try_from(meta.size).expect("small files") + 1;
    Answer::Bytes(read_all(fd, len, 0).expect("it is a file"))
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let count = rustix::io::pwrite(fd, bytes, offset).map_err(wasi)?;
        (bytes, offset) = (&bytes[count..], offset + count as u64);
    }
    Ok(())
}

fn read_all(fd: &OwnedFd, len: usize, offset: u64) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    loop {
        match rustix::io::pread(fd, &mut bytes[filled..], offset + filled as u64).map_err(wasi)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
