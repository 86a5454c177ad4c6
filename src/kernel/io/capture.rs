//! Output that is kept in memory.

use crate::base::errno::Errno;

/// Appends `bytes` to `captured`.
///
/// # Errors
/// `ENOMEM` if the host has no memory left.
pub(super) fn capture(captured: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Errno> {
    captured.try_reserve(bytes.len()).map_err(|_| Errno::Nomem)?;
    captured.extend_from_slice(bytes);
    Ok(())
}
