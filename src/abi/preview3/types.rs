//! The types of `wasi:filesystem` and `wasi:clocks`.

use wasmtime::component::{ComponentType, Lift, Lower};

use crate::abi::error_code::error_code;
use crate::abi::preview2::types::{FileTime, SECOND_NS};
use crate::base::errno::Errno;
use crate::kernel::guest::FileStat;
use crate::kernel::vfs::{FileType, SetTime};

error_code! {
    /// `wasi:filesystem/types.error-code`
    #[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
    #[component(variant)]
    pub(super) enum ErrorCode {
        second {}
        last {
            #[component(name = "other")]
            Other(Option<String>),
        }
    }
    match errno {
        Errno::Io => Self::Io,
        // It has no code of its own.
        other => Self::Other(Some(other.name().to_owned())),
    }
}

/// `wasi:filesystem/types.descriptor-type`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub(super) enum DescriptorType {
    #[component(name = "block-device")]
    BlockDevice,
    #[component(name = "character-device")]
    CharacterDevice,
    #[component(name = "directory")]
    Directory,
    #[component(name = "fifo")]
    Fifo,
    #[component(name = "symbolic-link")]
    SymbolicLink,
    #[component(name = "regular-file")]
    RegularFile,
    #[component(name = "socket")]
    Socket,
    #[component(name = "other")]
    Other(Option<String>),
}

impl From<FileType> for DescriptorType {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::Unknown => Self::Other(None),
            FileType::BlockDevice => Self::BlockDevice,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::Directory => Self::Directory,
            FileType::RegularFile => Self::RegularFile,
            FileType::SocketDgram | FileType::SocketStream => Self::Socket,
            FileType::SymbolicLink => Self::SymbolicLink,
        }
    }
}

/// `wasi:clocks/system-clock.instant`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct Instant {
    #[component(name = "seconds")]
    pub seconds: i64,
    #[component(name = "nanoseconds")]
    pub nanoseconds: u32,
}

impl Instant {
    /// The time `ns` nanoseconds after the beginning of 1970.
    pub fn of_ns(ns: u64) -> Self {
        // Both fit: seconds of a u64 of nanoseconds, and less than a second.
        Self { seconds: (ns / SECOND_NS).cast_signed(), nanoseconds: (ns % SECOND_NS) as u32 }
    }

    /// Nanoseconds since the beginning of 1970.
    ///
    /// # Errors
    /// `EOVERFLOW` if they do not fit, as those of earlier times.
    fn ns(self) -> Result<u64, Errno> {
        let seconds = u64::try_from(self.seconds).map_err(|_| Errno::Overflow)?;
        let ns = seconds.checked_mul(SECOND_NS);
        ns.and_then(|ns| ns.checked_add(self.nanoseconds.into())).ok_or(Errno::Overflow)
    }
}

/// `wasi:filesystem/types.new-timestamp`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub(super) enum NewTimestamp {
    #[component(name = "no-change")]
    NoChange,
    #[component(name = "now")]
    Now,
    #[component(name = "timestamp")]
    Timestamp(Instant),
}

impl FileTime for NewTimestamp {
    fn set_time(self) -> Result<SetTime, Errno> {
        Ok(match self {
            Self::NoChange => SetTime::Keep,
            Self::Now => SetTime::Now,
            Self::Timestamp(time) => SetTime::At(time.ns()?),
        })
    }
}

/// `wasi:filesystem/types.descriptor-stat`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct DescriptorStat {
    #[component(name = "type")]
    file_type: DescriptorType,
    #[component(name = "link-count")]
    link_count: u64,
    #[component(name = "size")]
    size: u64,
    #[component(name = "data-access-timestamp")]
    data_access_timestamp: Option<Instant>,
    #[component(name = "data-modification-timestamp")]
    data_modification_timestamp: Option<Instant>,
    #[component(name = "status-change-timestamp")]
    status_change_timestamp: Option<Instant>,
}

impl From<FileStat> for DescriptorStat {
    fn from(stat: FileStat) -> Self {
        let metadata = &stat.metadata;
        let time = |ns| Some(Instant::of_ns(ns));
        Self {
            file_type: metadata.file_type.into(),
            link_count: metadata.nlink.into(),
            size: metadata.size,
            data_access_timestamp: time(metadata.times.atim),
            data_modification_timestamp: time(metadata.times.mtim),
            status_change_timestamp: time(metadata.times.ctim),
        }
    }
}

/// `wasi:filesystem/types.directory-entry`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct DirectoryEntry {
    #[component(name = "type")]
    pub file_type: DescriptorType,
    #[component(name = "name")]
    pub name: String,
}
