//! The types of `wasi:filesystem` and `wasi:clocks`.

use std::fmt;

use wasmtime::component::{ComponentType, Lift, Lower, flags};

use crate::abi::error_code::error_code;
use crate::base::errno::Errno;
use crate::kernel::guest::FileStat;
use crate::kernel::vfs::{FileType, SetTime};

/// Nanoseconds of a second.
pub(in crate::abi) const SECOND_NS: u64 = 1_000_000_000;

error_code! {
    /// `wasi:filesystem/types.error-code`
    #[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
    #[component(enum)]
    #[repr(u8)]
    pub(in crate::abi) enum ErrorCode {
        second {
            #[component(name = "would-block")]
            WouldBlock,
        }
        last {}
    }
    match errno {
        Errno::Again => Self::WouldBlock,
        _ => Self::Io,
    }
}

/// `wasi:filesystem/types.descriptor-type`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "the type has all kinds, the kernel no named pipes")]
pub(super) enum DescriptorType {
    #[component(name = "unknown")]
    Unknown,
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
}

impl From<FileType> for DescriptorType {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::Unknown => Self::Unknown,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::Directory => Self::Directory,
            FileType::RegularFile => Self::RegularFile,
            FileType::SocketDgram | FileType::SocketStream => Self::Socket,
            FileType::SymbolicLink => Self::SymbolicLink,
        }
    }
}

flags! {
    DescriptorFlags {
        #[component(name = "read")]
        const READ;
        #[component(name = "write")]
        const WRITE;
        #[component(name = "file-integrity-sync")]
        const FILE_INTEGRITY_SYNC;
        #[component(name = "data-integrity-sync")]
        const DATA_INTEGRITY_SYNC;
        #[component(name = "requested-write-sync")]
        const REQUESTED_WRITE_SYNC;
        #[component(name = "mutate-directory")]
        const MUTATE_DIRECTORY;
    }
}

flags! {
    PathFlags {
        #[component(name = "symlink-follow")]
        const SYMLINK_FOLLOW;
    }
}

flags! {
    OpenFlags {
        #[component(name = "create")]
        const CREATE;
        #[component(name = "directory")]
        const DIRECTORY;
        #[component(name = "exclusive")]
        const EXCLUSIVE;
        #[component(name = "truncate")]
        const TRUNCATE;
    }
}

/// `wasi:filesystem/types.advice`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "components choose one")]
pub(in crate::abi) enum Advice {
    #[component(name = "normal")]
    Normal,
    #[component(name = "sequential")]
    Sequential,
    #[component(name = "random")]
    Random,
    #[component(name = "will-need")]
    WillNeed,
    #[component(name = "dont-need")]
    DontNeed,
    #[component(name = "no-reuse")]
    NoReuse,
}

/// `wasi:clocks/wall-clock.datetime`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct Datetime {
    #[component(name = "seconds")]
    pub seconds: u64,
    #[component(name = "nanoseconds")]
    pub nanoseconds: u32,
}

impl Datetime {
    /// The time `ns` nanoseconds after the beginning of 1970.
    pub fn of_ns(ns: u64) -> Self {
        // The remainder is less than a second.
        Self { seconds: ns / SECOND_NS, nanoseconds: (ns % SECOND_NS) as u32 }
    }

    /// Nanoseconds since the beginning of 1970.
    ///
    /// # Errors
    /// `EOVERFLOW` if they do not fit.
    fn ns(self) -> Result<u64, Errno> {
        let seconds = self.seconds.checked_mul(SECOND_NS);
        seconds.and_then(|ns| ns.checked_add(self.nanoseconds.into())).ok_or(Errno::Overflow)
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
    Timestamp(Datetime),
}

/// A `new-timestamp` of any version.
pub(in crate::abi) trait FileTime: fmt::Debug {
    /// How it changes a time of a file.
    ///
    /// # Errors
    /// `EOVERFLOW`.
    fn set_time(self) -> Result<SetTime, Errno>;
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct DescriptorStat {
    #[component(name = "type")]
    pub file_type: DescriptorType,
    #[component(name = "link-count")]
    pub link_count: u64,
    #[component(name = "size")]
    pub size: u64,
    #[component(name = "data-access-timestamp")]
    pub data_access_timestamp: Option<Datetime>,
    #[component(name = "data-modification-timestamp")]
    pub data_modification_timestamp: Option<Datetime>,
    #[component(name = "status-change-timestamp")]
    pub status_change_timestamp: Option<Datetime>,
}

impl From<FileStat> for DescriptorStat {
    fn from(stat: FileStat) -> Self {
        let metadata = &stat.metadata;
        let time = |ns| Some(Datetime::of_ns(ns));
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

/// `wasi:filesystem/types.metadata-hash-value`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(in crate::abi) struct MetadataHashValue {
    #[component(name = "lower")]
    pub lower: u64,
    #[component(name = "upper")]
    pub upper: u64,
}
