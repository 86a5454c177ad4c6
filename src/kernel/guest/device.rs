//! Special files: devices and the process's own descriptors under `/dev`, and programs under `/bin`. They exist where the
//! namespace has nothing at their path.

use super::lookup::from_first_name;
use super::{Buffers, Fault, FileStat, Guest};
use crate::base::errno::Errno;
use crate::kernel::io::fd::{Description, Device};
use crate::kernel::vfs::{FileType, ino_below};

/// The folder of devices, which the namespace need not have. An entry of this name in the current directory hides it.
const DEVICES: &str = "dev";

/// The folder in which scripts look for programs.
const PROGRAMS: &str = "bin";

/// A special file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Special {
    Device(Device),
    /// A descriptor of the process that looks it up.
    Descriptor(u32),
    /// A program of a toolchain, which has no bytes to be read.
    Program,
}

impl Special {
    /// The special file at `path`, which has no leading slash.
    fn at(path: &str) -> Option<Self> {
        Some(match path.strip_prefix("dev/")? {
            "null" => Self::Device(Device::Null),
            "zero" => Self::Device(Device::Zero),
            "random" | "urandom" => Self::Device(Device::Random),
            "stdin" => Self::Descriptor(0),
            "stdout" => Self::Descriptor(1),
            "stderr" => Self::Descriptor(2),
            name => {
                let digits = name.strip_prefix("fd/")?;
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                Self::Descriptor(digits.parse().ok().filter(|_| is_number)?)
            }
        })
    }
}

/// Returns whether the absolute `path` names a special file, such as `/dev/null`, `/dev/urandom` or
/// `/dev/fd/3`. Processes that are not confined find it where the namespace has nothing.
pub fn is_special(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(|path| Special::at(path).is_some())
}

impl Guest {
    fn special(&mut self, fd: u32, path: &str) -> Option<Special> {
        let names = from_first_name(path);
        if let Some(special) = Special::at(names) {
            return self.may_be_special(fd, path, DEVICES).then_some(special);
        }
        let name = names.strip_prefix(PROGRAMS)?.strip_prefix('/')?;
        let is_program = !name.contains('/')
            && self.machine.kernel_version > 7
            && self.may_be_special(fd, path, PROGRAMS)
            && self.has_program(name);
        is_program.then_some(Special::Program)
    }

    /// Whether the special file at `path` from `fd` is a program.
    ///
    /// # Errors
    /// `ENOENT` if there is no special file.
    pub(super) fn is_special_program(&mut self, fd: u32, path: &str) -> Result<bool, Errno> {
        Ok(self.special(fd, path).ok_or(Errno::Noent)? == Special::Program)
    }

    /// Opens the special file at `path` from `fd`. A descriptor is duplicated: both share an offset.
    ///
    /// # Errors
    /// `ENOENT` if there is none; `EEXIST` if the caller `makes` it; `EACCES` if it is a program; `EMFILE` at the limit of
    /// open files.
    pub(super) fn open_special(&mut self, fd: u32, path: &str, makes: bool) -> Result<u32, Errno> {
        match self.special(fd, path).ok_or(Errno::Noent)? {
            _ if makes => Err(Errno::Exist),
            Special::Program => Err(Errno::Acces),
            Special::Device(device) => Ok(self.push(Description::Device(device))),
            Special::Descriptor(open) => match self.fd_dup(open, 0, false) {
                Err(Errno::Badf) => Err(Errno::Noent),
                copied => copied,
            },
        }
    }

    /// Opens `/dev/null`, wherever that is; it closes on exec.
    ///
    /// # Errors
    /// `EMFILE` at the limit of open files.
    pub fn open_null(&mut self) -> Result<u32, Errno> {
        self.check_open_files()?;
        let fd = self.push(Description::Device(Device::Null));
        self.fd_set_close_on_exec(fd, true)?;
        Ok(fd)
    }

    /// Returns the attributes of the special file at `path` from `fd`.
    ///
    /// # Errors
    /// `ENOENT` if there is none.
    pub(super) fn stat_special(&mut self, fd: u32, path: &str) -> Result<FileStat, Errno> {
        match self.special(fd, path).ok_or(Errno::Noent)? {
            Special::Device(device) => Ok(self.stat_device(device)),
            Special::Program => {
                let name = path.rsplit('/').next().unwrap_or_default();
                Ok(self.stat_nameless(FileType::RegularFile, ino_below(0, name)))
            }
            Special::Descriptor(open) => self.fd_filestat_get(open).map_err(|_| Errno::Noent),
        }
    }

    /// Returns the attributes of `device`.
    pub(super) fn stat_device(&self, device: Device) -> FileStat {
        let number = match device {
            Device::Null => 1,
            Device::Zero => 2,
            Device::Random => 3,
        };
        self.stat_nameless(FileType::CharacterDevice, number)
    }

    /// Reads from `device`: fills all buffers, or none for `/dev/null`.
    pub(super) fn read_device(
        &mut self,
        device: Device,
        bufs: &mut Buffers<'_>,
    ) -> Result<u64, Fault> {
        if device == Device::Null {
            return Ok(0);
        }
        for index in 0..bufs.count() {
            match device {
                Device::Random => self.random_get(bufs.get_mut(index))?,
                Device::Zero | Device::Null => bufs.get_mut(index).fill(0),
            }
        }
        Ok(bufs.total())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_files_have_the_names_of_linux() {
        assert_eq!(Special::at("dev/null"), Some(Special::Device(Device::Null)));
        assert_eq!(Special::at("dev/stderr"), Some(Special::Descriptor(2)));
        assert_eq!(Special::at("dev/fd/17"), Some(Special::Descriptor(17)));
        for path in ["dev", "dev/", "dev/fd", "dev/fd/", "dev/fd/+1", "dev/fd/99999999999", "null"]
        {
            assert_eq!(Special::at(path), None, "{path}");
        }
    }
}
