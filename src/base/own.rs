//! Checks that files which belljar obeys belong to the user.

use std::fmt;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

#[cfg(windows)]
use super::acl;
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
        let (path, exposure) = (self.path.display(), &self.exposure);
        let remedy = match exposure {
            Exposure::Owner(_) => "move it away if it is not yours".to_owned(),
            #[cfg(unix)]
            Exposure::Mode(_) => format!("run `chmod go-w {path}`"),
            #[cfg(windows)]
            Exposure::Account(_) => format!("run `{}`", make_private(&self.path)),
        };
        format!(
            "{path} is not trusted, because {exposure}: {remedy}, or set BELLJAR_HOME to a directory of \
             your own"
        )
    }
}

/// Why users other than this one and root can write to something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exposure {
    /// It belongs to this user: `user 1000`, or the name of an account.
    Owner(String),
    /// Its mode, this one, lets its group or all users write.
    #[cfg(unix)]
    Mode(u32),
    /// Its access control list lets this account write.
    #[cfg(windows)]
    Account(String),
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(owner) => write!(f, "it belongs to {owner}"),
            #[cfg(unix)]
            Self::Mode(mode) => write!(f, "others can write to it (its mode is {mode:o})"),
            #[cfg(windows)]
            Self::Account(account) => write!(f, "{account} can write to it"),
        }
    }
}

/// The command that lets only this user, the administrators and the system use the directory `path`.
#[cfg(windows)]
pub fn make_private(path: &Path) -> String {
    let user = super::ambient::setting("USERNAME").unwrap_or_else(|| "%USERNAME%".into());
    let rights = "(OI)(CI)F";
    format!(
        "icacls \"{}\" /inheritance:r /grant:r \"{}:{rights}\" \"*S-1-5-18:{rights}\" \"*S-1-5-32-544:{rights}\"",
        path.display(),
        user.display()
    )
}

/// Returns how the file or directory `path`, with the attributes `metadata`, is exposed. `None` on systems without
/// users.
///
/// # Errors
/// Its access control list cannot be read.
pub fn exposure(path: &Path, metadata: &Metadata) -> Result<Option<Exposure>, DiskError> {
    match owner_exposure(path, metadata)? {
        Some(owner) => Ok(Some(owner)),
        None => access_exposure(path, metadata),
    }
}

/// Whether the file or directory `path`, with the attributes `metadata`, belongs neither to this user nor to the
/// administrator.
///
/// # Errors
/// Its owner cannot be told.
#[cfg(feature = "cli")]
pub fn is_of_another_user(path: &Path, metadata: &Metadata) -> Result<bool, DiskError> {
    Ok(owner_exposure(path, metadata)?.is_some())
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
        expect(owner_exposure(path, &examined)?)?;
    }
    let metadata = disk::metadata(path)?;
    expect(owner_exposure(path, &metadata)?)?;
    if strangers == OtherUsers::Excluded || !is_safe_if_own(&metadata) {
        expect(access_exposure(path, &metadata)?)?;
    }
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
#[expect(clippy::unnecessary_wraps, reason = "on Windows it can fail")]
fn owner_exposure(_path: &Path, metadata: &Metadata) -> Result<Option<Exposure>, DiskError> {
    let owner = std::os::unix::fs::MetadataExt::uid(metadata);
    let is_own = owner == 0 || owner == rustix::process::geteuid().as_raw();
    Ok((!is_own).then(|| Exposure::Owner(format!("user {owner}"))))
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "on Windows it can fail")]
fn access_exposure(_path: &Path, metadata: &Metadata) -> Result<Option<Exposure>, DiskError> {
    let mode = std::os::unix::fs::MetadataExt::mode(metadata) & 0o7777;
    Ok((mode & 0o022 != 0).then_some(Exposure::Mode(mode)))
}

/// Whether others who may write to a directory cannot rename or remove files of this user.
#[cfg(unix)]
fn is_safe_if_own(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::mode(metadata) & 0o1000 != 0
}

#[cfg(windows)]
fn owner_exposure(path: &Path, metadata: &Metadata) -> Result<Option<Exposure>, DiskError> {
    let follows = !metadata.is_symlink();
    let stranger = acl::strange_owner(path, follows).map_err(DiskError::new("examine", path))?;
    Ok(stranger.map(Exposure::Owner))
}

#[cfg(windows)]
fn access_exposure(path: &Path, _metadata: &Metadata) -> Result<Option<Exposure>, DiskError> {
    let stranger = acl::strange_writer(path).map_err(DiskError::new("examine", path))?;
    Ok(stranger.map(Exposure::Account))
}

#[cfg(not(any(unix, windows)))]
fn owner_exposure(_: &Path, _: &Metadata) -> Result<Option<Exposure>, DiskError> {
    Ok(None)
}

#[cfg(not(any(unix, windows)))]
fn access_exposure(_: &Path, _: &Metadata) -> Result<Option<Exposure>, DiskError> {
    Ok(None)
}

#[cfg(not(unix))]
fn is_safe_if_own(_: &Metadata) -> bool {
    false
}
