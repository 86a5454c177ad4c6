//! Confinement of native programs, as far as the system supports it.
//!
//! A profile is applied completely or refused: nothing falls back to a weaker one.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod other;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
use macos as system;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
use other as system;

/// Devices without state, which confined programs may read and write.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Variables that name the directory for temporary files.
const TEMP_VARIABLES: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// What a native program may do. `docs/profiles.md` says what each profile stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxProfile {
    /// Whatever this process may.
    #[default]
    Unrestricted,
    /// Write to its roots and a temporary directory, and read everything.
    Worktree,
    /// Read the system's programs and libraries, work in its roots, and connect to nothing.
    OsHardened,
    /// Nothing: programs run as modules in a machine, or not at all.
    Wasi,
}

impl SandboxProfile {
    /// All profiles.
    pub const ALL: [Self; 4] = [Self::Unrestricted, Self::Worktree, Self::OsHardened, Self::Wasi];

    /// The name in options and on tapes, such as `os_hardened`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unrestricted => "unrestricted",
            Self::Worktree => "worktree",
            Self::OsHardened => "os_hardened",
            Self::Wasi => "wasi",
        }
    }

    /// Whether the system can enforce it.
    ///
    /// # Errors
    /// [`ProfileError::Unavailable`], which says what is missing.
    pub fn check(self) -> Result<(), ProfileError> {
        match self {
            Self::Unrestricted | Self::Wasi => Ok(()),
            Self::Worktree | Self::OsHardened => system::check(self)
                .map_err(|missing| ProfileError::Unavailable { profile: self, missing }),
        }
    }
}

impl fmt::Display for SandboxProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SandboxProfile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|profile| profile.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("unknown sandbox profile {name:?}: expected one of {known}")
        })
    }
}

/// A program cannot be confined, and is not run.
#[derive(thiserror::Error)]
pub enum ProfileError {
    /// The system cannot enforce the profile.
    #[error(
        "the sandbox profile `{profile}` is not available on this system: {missing}; use \
         `unrestricted`, or `wasi`, which runs no native programs"
    )]
    Unavailable {
        /// The profile.
        profile: SandboxProfile,
        /// What is missing.
        missing: String,
    },
    /// The profile allows no native programs.
    #[error(
        "the sandbox profile `wasi` runs no native programs; use a toolchain that has the \
         program as a module, or another profile"
    )]
    Wasi,
    /// A root cannot be used.
    #[error("cannot open sandbox root {}; give an existing directory", path.display())]
    Root {
        /// The root.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The temporary directory cannot be created.
    #[error("cannot create a directory for the temporary files of a program")]
    Temp(#[source] io::Error),
    /// The system refuses the rules.
    #[error("the system refuses the rules of the sandbox profile `{profile}`")]
    Rules {
        /// The profile.
        profile: SandboxProfile,
        /// The system's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

crate::base::readable::readable!(ProfileError);

/// The rules of a profile, made once and used for any number of programs. They share a temporary
/// directory, which is removed on drop.
pub(super) struct Confinement {
    temp: tempfile::TempDir,
    sandbox: system::Sandbox,
}

impl Confinement {
    /// Makes the rules; `readable` are more directories to read under a profile that restricts
    /// reading. `None` if the profile confines nothing. Directories are opened now: replacing one
    /// by a link later changes nothing.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub(super) fn new(
        profile: SandboxProfile,
        roots: &[PathBuf],
        readable: &[PathBuf],
    ) -> Result<Option<Self>, ProfileError> {
        match profile {
            SandboxProfile::Unrestricted => return Ok(None),
            SandboxProfile::Wasi => return Err(ProfileError::Wasi),
            SandboxProfile::Worktree | SandboxProfile::OsHardened => profile.check()?,
        }
        let temp = tempfile::Builder::new().prefix("belljar-").tempdir();
        let temp = temp.map_err(ProfileError::Temp)?;
        let here = |root: &PathBuf| {
            if root.as_os_str().is_empty() { PathBuf::from(".") } else { root.clone() }
        };
        let mut writable: Vec<PathBuf> = roots.iter().map(here).collect();
        writable.push(temp.path().to_owned());
        Ok(Some(Self { sandbox: system::Sandbox::new(profile, &writable, readable)?, temp }))
    }

    /// The program to start for `program`, itself or a launcher, and the launcher's arguments.
    ///
    /// # Errors
    /// `NotFound` if the program is missing, where the launcher could not tell.
    pub(super) fn launch(&self, program: &OsStr) -> io::Result<(OsString, Vec<OsString>)> {
        self.sandbox.launch(program)
    }

    /// Confines the program that `command` starts.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn confine(&self, command: &mut Command) -> io::Result<()> {
        self.sandbox.confine(command)
    }

    /// The variables that name the temporary directory.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        TEMP_VARIABLES.into_iter().map(|name| (name, self.temp.path()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_names_parse_back() {
        for profile in SandboxProfile::ALL {
            assert_eq!(profile.name().parse(), Ok(profile));
            assert_eq!(serde_json::to_value(profile).unwrap(), profile.name());
        }
        assert!("none".parse::<SandboxProfile>().unwrap_err().contains("os_hardened"));
    }

    #[test]
    fn wasi_profile_refuses_native_programs() {
        assert!(matches!(
            Confinement::new(SandboxProfile::Wasi, &[], &[]),
            Err(ProfileError::Wasi)
        ));
    }
}
