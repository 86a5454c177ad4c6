//! Directories of the host, through cap-std: the only file that knows it.
//!
//! Every path is resolved beneath the open root by cap-std, component by component, so that
//! neither a symbolic link nor a host process that rearranges the tree can lead outside.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry as HostEntry, FileType as HostType, Metadata, OpenOptions};

use super::layer::{Blob, DirEntry, FileType, Layer, Stat};
use super::path::VPath;
use crate::base::errno::Errno;

/// An open directory of the host: a [`Layer`] for reading, and the target of a patch.
pub struct HostDir {
    dir: Dir,
}

/// A file of the host opened for reading.
pub struct HostFile(File);

impl HostDir {
    /// Opens the host directory `path`. What the overlay reads later is what stands beneath *this*
    /// directory, even if another one takes its name.
    ///
    /// # Errors
    /// As the host answers: the path is missing, is no directory, or may not be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(path, ambient_authority())?;
        Ok(Self { dir })
    }

    /// Creates the file `path`, which must not exist, for writing.
    pub(super) fn create_new(&self, path: &VPath) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        self.dir.open_with(native(path)?, &options).map(cap_std::fs::File::into_std)
    }

    /// Gives `path` the permissions of `of`, if that is a file.
    pub(super) fn copy_permissions(&self, of: &VPath, path: &VPath) -> io::Result<()> {
        match self.dir.symlink_metadata(native(of)?) {
            Ok(metadata) if metadata.is_file() => {
                self.dir.set_permissions(native(path)?, metadata.permissions())
            }
            _ => Ok(()),
        }
    }

    /// Renames within the tree, over a file that stands at `to`.
    pub(super) fn rename(&self, from: &VPath, to: &VPath) -> io::Result<()> {
        self.dir.rename(native(from)?, &self.dir, native(to)?)
    }

    /// Gives the file `from` the further name `to`.
    pub(super) fn hard_link(&self, from: &VPath, to: &VPath) -> io::Result<()> {
        self.dir.hard_link(native(from)?, &self.dir, native(to)?)
    }

    /// Removes what is no directory.
    pub(super) fn remove_file(&self, path: &VPath) -> io::Result<()> {
        self.dir.remove_file(native(path)?)
    }

    /// Removes an empty directory.
    pub(super) fn remove_dir(&self, path: &VPath) -> io::Result<()> {
        self.dir.remove_dir(native(path)?)
    }

    /// Creates a directory.
    pub(super) fn create_dir(&self, path: &VPath) -> io::Result<()> {
        self.dir.create_dir(native(path)?)
    }

    /// Creates the symbolic link `path` with the text `target`, verbatim.
    pub(super) fn symlink(&self, target: &str, path: &VPath) -> io::Result<()> {
        #[cfg(unix)]
        return self.dir.symlink_contents(target, native(path)?);
        #[cfg(windows)]
        return self.dir.symlink_file(target, native(path)?);
        #[cfg(not(any(unix, windows)))]
        return Err(io::ErrorKind::Unsupported.into());
    }
}

impl Layer for HostDir {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        let metadata = if path.is_root() {
            self.dir.dir_metadata()
        } else {
            self.dir.symlink_metadata(native(path).map_err(errno)?)
        };
        metadata.map(|metadata| stat_of(&metadata)).map_err(errno)
    }

    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        let entries = if path.is_root() {
            self.dir.entries()
        } else {
            self.dir.read_dir(native(path).map_err(errno)?)
        };
        let entry = |entry: io::Result<HostEntry>| match entry.and_then(|e| Ok((e.file_type()?, e)))
        {
            Ok((file_type, entry)) => {
                let name = entry.file_name().into_string().ok()?;
                Some(Ok(DirEntry { name: name.into(), file_type: type_of(file_type) }))
            }
            Err(error) => Some(Err(errno(error))),
        };
        let mut list =
            entries.map_err(errno)?.filter_map(entry).collect::<Result<Vec<DirEntry>, _>>()?;
        list.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(list)
    }

    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        let target = self.dir.read_link_contents(native(path).map_err(errno)?).map_err(errno)?;
        Ok(target.into_os_string().into_encoded_bytes().into())
    }

    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        let mut options = OpenOptions::new();
        options.read(true);
        // A FIFO that took the file's place since it was examined must not block the open.
        #[cfg(unix)]
        cap_std::fs::OpenOptionsExt::custom_flags(
            &mut options,
            rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
        );
        let file = self.dir.open_with(native(path).map_err(errno)?, &options).map_err(errno)?;
        let metadata = file.metadata().map_err(errno)?;
        if metadata.is_dir() {
            return Err(Errno::Isdir);
        }
        if !metadata.is_file() {
            return Err(Errno::Acces);
        }
        Ok(Blob::Host(HostFile(file.into_std())))
    }

    fn names_are_exact(&self) -> bool {
        !cfg!(any(windows, target_vendor = "apple"))
    }
}

impl HostFile {
    /// Reads at `offset` until `buf` is full or the file ends; answers the count.
    ///
    /// # Errors
    /// `EIO` and others as the host answers.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let mut filled = 0;
        while filled < buf.len() {
            match read_some_at(&self.0, &mut buf[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(filled)
    }
}

impl Read for HostFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

#[cfg(unix)]
fn read_some_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, offset)
}

#[cfg(windows)]
fn read_some_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buf, offset)
}

/// `path` as the host spells it. Where the host gives more characters a meaning than the slash,
/// a name that holds one cannot be spelled.
fn native(path: &VPath) -> io::Result<&Path> {
    if cfg!(windows) && path.as_str().contains(['\\', ':', '*', '?', '"', '<', '>', '|']) {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    Ok(Path::new(path.as_str()))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn errno(error: io::Error) -> Errno {
    #[cfg(unix)]
    if let Some(code) = error.raw_os_error() {
        use rustix::io::Errno as Host;
        match Host::from_raw_os_error(code) {
            Host::LOOP => return Errno::Loop,
            Host::NAMETOOLONG => return Errno::Nametoolong,
            Host::MFILE | Host::NFILE => return Errno::Mfile,
            Host::PERM => return Errno::Perm,
            _ => {}
        }
    }
    Errno::from_io(&error)
}

fn type_of(file_type: HostType) -> FileType {
    if file_type.is_file() {
        FileType::RegularFile
    } else if file_type.is_dir() {
        FileType::Directory
    } else if file_type.is_symlink() {
        FileType::SymbolicLink
    } else {
        FileType::Unknown
    }
}

fn stat_of(metadata: &Metadata) -> Stat {
    let file_type = type_of(metadata.file_type());
    let mtime_ns = metadata
        .modified()
        .ok()
        .and_then(|time| time.into_std().duration_since(std::time::SystemTime::UNIX_EPOCH).ok())
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    let size = if file_type == FileType::RegularFile { metadata.len() } else { 0 };
    let mut stamp = DefaultHasher::new();
    stamp.write_u8(file_type as u8);
    stamp.write_u64(size);
    // A directory's own stamp would change whenever something else in it does.
    if file_type != FileType::Directory {
        stamp.write_u64(mtime_ns);
        #[cfg(unix)]
        {
            use cap_std::fs::MetadataExt;
            stamp.write_u64(metadata.ino());
            stamp.write_i64(metadata.ctime());
            stamp.write_i64(metadata.ctime_nsec());
        }
    }
    #[cfg(unix)]
    let executable = cap_std::fs::MetadataExt::mode(metadata) & 0o100 != 0;
    #[cfg(not(unix))]
    let executable = false;
    Stat { file_type, size, mtime_ns, executable, stamp: stamp.finish() }
}
