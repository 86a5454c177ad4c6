//! What the standard library does not tell yet of a file of Windows: when it last changed in any way, as the change time of
//! Unix tells, and its number.
#![allow(unsafe_code, reason = "the system has no safe call for it")]

use std::fs::File;
use std::io;
use std::os::windows::io::AsRawHandle;

use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_BASIC_INFO, FileBasicInfo, GetFileInformationByHandle,
    GetFileInformationByHandleEx,
};

/// Ticks of 100 ns from 1601, where the clock of Windows begins, to 1970.
const UNIX_EPOCH_TICKS: i64 = 116_444_736_000_000_000;

/// The change time of `file`, a file or directory, in ticks of 100 ns since the Unix epoch; 0 if it is earlier.
///
/// # Errors
/// The system's error.
pub fn of(file: &File) -> io::Result<u64> {
    let mut info = FILE_BASIC_INFO::default();
    let bytes = u32::try_from(size_of::<FILE_BASIC_INFO>()).expect("a small structure");
    // SAFETY: the handle is open, and `info` has the size and the layout that this class of information takes.
    let done = unsafe {
        GetFileInformationByHandleEx(
            file.as_raw_handle(),
            FileBasicInfo,
            (&raw mut info).cast(),
            bytes,
        )
    };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(info.ChangeTime.saturating_sub(UNIX_EPOCH_TICKS)).unwrap_or(0))
}

/// The numbers of the volume of `file` and of the file on it, as device and inode of Unix.
///
/// # Errors
/// The system's error.
pub fn number(file: &File) -> io::Result<(u64, u64)> {
    let mut info = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and the system fills the structure.
    let done = unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut info) };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    let index = u64::from(info.nFileIndexHigh) << 32 | u64::from(info.nFileIndexLow);
    Ok((u64::from(info.dwVolumeSerialNumber), index))
}
