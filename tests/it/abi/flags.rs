//! The flags of preview1, named as in its document.

/// `lookupflags`
pub const FOLLOW: u32 = 1;

/// `oflags`
pub const CREAT: u32 = 1;
pub const DIRECTORY: u32 = 2;
pub const EXCL: u32 = 4;
pub const TRUNC: u32 = 8;

/// `fdflags`
pub const APPEND: u32 = 1;
pub const DSYNC: u32 = 2;
pub const NONBLOCK: u32 = 4;
pub const RSYNC: u32 = 8;
pub const SYNC: u32 = 16;

/// `fstflags`
pub const ATIM: u32 = 1;
pub const ATIM_NOW: u32 = 2;
pub const MTIM: u32 = 4;
pub const MTIM_NOW: u32 = 8;

/// `rights` that have an effect
pub const READ: u64 = 1 << 1;
pub const WRITE: u64 = 1 << 6;
pub const BOTH: u64 = READ | WRITE;

/// `whence`
pub const SET: u32 = 0;
pub const CUR: u32 = 1;
pub const END: u32 = 2;

/// `clockid`
pub const REALTIME: u32 = 0;
pub const MONOTONIC: u32 = 1;

/// `filetype`
pub const DIRECTORY_TYPE: u8 = 3;
pub const FILE_TYPE: u8 = 4;
pub const LINK_TYPE: u8 = 7;
