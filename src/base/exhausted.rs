//! Recognises errors of an exhausted host.

use std::error::Error;

/// Returns whether `error` itself, not its cause, says that the host has no process, descriptor or memory
/// left for this user: later, or for another user, the same may succeed.
pub fn is_exhausted(error: &(dyn Error + 'static)) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let of_system = || error.downcast_ref::<Errno>().copied();
        let errno = error.downcast_ref().and_then(Errno::from_io_error).or_else(of_system);
        matches!(errno, Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE))
    }
    #[cfg(not(unix))]
    {
        // ERROR_TOO_MANY_OPEN_FILES, _NOT_ENOUGH_MEMORY, _OUTOFMEMORY, _NO_SYSTEM_RESOURCES and
        // _COMMITMENT_LIMIT of Windows.
        let code = error.downcast_ref().and_then(std::io::Error::raw_os_error);
        matches!(code, Some(4 | 8 | 14 | 1450 | 1455))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    #[cfg(windows)]
    fn is_exhausted_recognises_errors_of_windows() {
        for (code, is_it) in [(1450, true), (4, true), (2, false)] {
            assert_eq!(is_exhausted(&io::Error::from_raw_os_error(code)), is_it);
        }
    }

    #[test]
    #[cfg(unix)]
    fn is_exhausted_recognises_wrapped_system_errors() {
        use rustix::io::Errno;
        for (errno, is_it) in [(Errno::AGAIN, true), (Errno::MFILE, true), (Errno::NOENT, false)] {
            assert_eq!(is_exhausted(&errno), is_it);
            assert_eq!(is_exhausted(&io::Error::from(errno)), is_it);
        }
        assert!(!is_exhausted(&io::Error::other("of its own")));
    }
}
