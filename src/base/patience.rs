//! Operations on files that another program has open for a moment, such as a virus scanner or an indexer of Windows.

use std::io;
#[cfg(windows)]
use std::time::Duration;

/// Carries out `operation`. On Windows it is repeated for a second if another program has the file open, and for a quarter
/// of a second if access is denied, which may have the same reason.
///
/// # Errors
/// The last error of `operation`.
pub fn repeat<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let result = operation();
    #[cfg(windows)]
    let result = repeat_while_open(result, operation);
    result
}

#[cfg(windows)]
fn repeat_while_open<T>(
    mut result: io::Result<T>,
    mut operation: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    use windows_sys::Win32::Foundation::{
        ERROR_ACCESS_DENIED, ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION,
    };
    let mut pause = Duration::from_millis(1);
    loop {
        let code = result.as_ref().err().and_then(io::Error::raw_os_error);
        let pause_max = match code.map(i32::cast_unsigned) {
            Some(ERROR_SHARING_VIOLATION | ERROR_LOCK_VIOLATION) => Duration::from_millis(512),
            Some(ERROR_ACCESS_DENIED) => Duration::from_millis(128),
            _ => return result,
        };
        if pause > pause_max {
            return result;
        }
        super::ambient::sleep(pause);
        pause *= 2;
        result = operation();
    }
}

#[cfg(all(test, windows))]
#[allow(clippy::disallowed_methods, reason = "the tests use the disk")]
mod tests {
    use std::fs::File;
    use std::os::windows::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn file_that_is_open_for_a_moment_is_removed_and_one_that_stays_open_is_not() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        for (held_ms, is_removed) in [(100, true), (20_000, false)] {
            std::fs::write(&path, "").unwrap();
            let held = File::options().read(true).share_mode(0).open(&path).unwrap();
            let (release, wait) = std::sync::mpsc::channel::<()>();
            let holder = std::thread::spawn(move || {
                let _ = wait.recv_timeout(Duration::from_millis(held_ms));
                drop(held);
            });
            assert_eq!(repeat(|| std::fs::remove_file(&path)).is_ok(), is_removed);
            let _ = release.send(());
            holder.join().unwrap();
        }
    }
}
