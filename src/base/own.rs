//! Checks that files which belljar obeys belong to the user.

use std::fmt;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use super::disk::{self, DiskError};

/// Other users may have written to a file or directory.
#[derive(thiserror::Error)]
#[error("{}", self.text())]
pub struct ExposedError {
    /// The file or directory.
    pub path: PathBuf,
    /// How it is exposed.
    pub exposure: Exposure,
}

crate::base::readable::readable!(ExposedError);

impl ExposedError {
    fn text(&self) -> String {
        let (path, exposure) = (self.path.display(), self.exposure);
        let remedy = match exposure {
            Exposure::Owner(_) => "move it away if it is not yours".to_owned(),
            Exposure::Mode(_) => format!("run `chmod go-w {path}`"),
        };
        format!(
            "{path} is not trusted, because {exposure}: {remedy}, or set BELLJAR_HOME to a directory of \
             your own"
        )
    }
}

/// Why users other than this one and root can write to something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exposure {
    /// It belongs to the user with this number.
    Owner(u32),
    /// Its mode, this one, lets its group or all users write.
    Mode(u32),
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(owner) => write!(f, "it belongs to user {owner}"),
            Self::Mode(mode) => write!(f, "others can write to it (its mode is {mode:o})"),
        }
    }
}

/// Returns how a file with the attributes `metadata` is exposed. `None` on systems without the users and
/// modes of Unix.
pub fn exposure(metadata: &Metadata) -> Option<Exposure> {
    owner_exposure(metadata).or_else(|| mode_exposure(metadata))
}

/// Whether a file with the attributes `metadata` belongs neither to this user nor to the administrator.
#[cfg(feature = "cli")]
pub fn is_of_another_user(metadata: &Metadata) -> bool {
    owner_exposure(metadata).is_some()
}

/// What other users may do in a directory that must be the user's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherUsers {
    /// Nothing.
    Excluded,
    /// Write, if they cannot rename or remove files of others, as in `/tmp`.
    MayAddFiles,
}

/// Checks that the directory `path`, if it exists, and a link that leads to it belong to the user.
///
/// # Errors
/// It is exposed, or cannot be examined.
pub fn expect_own_folder(path: &Path, strangers: OtherUsers) -> Result<(), OwnError> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let expect = |exposure: Option<Exposure>| match exposure {
        Some(exposure) => Err(ExposedError { path: path.to_owned(), exposure }),
        None => Ok(()),
    };
    let examined = match disk::symlink_metadata(path) {
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        examined => examined?,
    };
    if examined.is_symlink() {
        expect(owner_exposure(&examined))?;
    }
    let metadata = disk::metadata(path)?;
    expect(owner_exposure(&metadata))?;
    let is_apart = strangers == OtherUsers::MayAddFiles && is_sticky(&metadata);
    expect(mode_exposure(&metadata).filter(|_| !is_apart))?;
    Ok(())
}

/// A directory that is not trusted, or cannot be examined.
#[derive(thiserror::Error)]
pub enum OwnError {
    /// Other users may have written there.
    #[error(transparent)]
    Exposed(#[from] ExposedError),
    /// It cannot be examined.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

crate::base::readable::readable!(OwnError);

#[cfg(unix)]
fn owner_exposure(metadata: &Metadata) -> Option<Exposure> {
    let owner = std::os::unix::fs::MetadataExt::uid(metadata);
    let is_own = owner == 0 || owner == rustix::process::geteuid().as_raw();
    (!is_own).then_some(Exposure::Owner(owner))
}

#[cfg(unix)]
fn mode_exposure(metadata: &Metadata) -> Option<Exposure> {
    let mode = std::os::unix::fs::MetadataExt::mode(metadata) & 0o7777;
    (mode & 0o022 != 0).then_some(Exposure::Mode(mode))
}

#[cfg(unix)]
fn is_sticky(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::mode(metadata) & 0o1000 != 0
}

/// The directory is in the user's profile, which the system keeps private.
#[cfg(not(unix))]
fn owner_exposure(_metadata: &Metadata) -> Option<Exposure> {
    None
}

#[cfg(not(unix))]
fn mode_exposure(_metadata: &Metadata) -> Option<Exposure> {
    None
}

#[cfg(not(unix))]
fn is_sticky(_metadata: &Metadata) -> bool {
    false
}
