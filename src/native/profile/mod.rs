//! What programs of the host are confined to, as far as the system can do that.
//!
//! A profile is given whole or refused: nothing here falls back to a weaker one.

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

/// Devices that hold nothing, which every confined program may read and write.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The variables that name the folder for temporary files.
const TEMP_VARIABLES: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// What a program of the host may do. `docs/profiles.md` says what each one stops, and what not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxProfile {
    /// Whatever this process may.
    #[default]
    Unrestricted,
    /// Write in its roots and in a temporary folder of its own, and read everywhere.
    Worktree,
    /// Read the system's programs and libraries, work in its roots, and reach nobody.
    OsHardened,
    /// Nothing: programs are modules in a machine, or do not run.
    Wasi,
}

impl SandboxProfile {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Unrestricted, Self::Worktree, Self::OsHardened, Self::Wasi];

    /// Its name in options and on tapes, such as `os_hardened`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unrestricted => "unrestricted",
            Self::Worktree => "worktree",
            Self::OsHardened => "os_hardened",
            Self::Wasi => "wasi",
        }
    }

    /// Whether this machine can give it.
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
            format!("there is no sandbox profile {name:?}: expected one of {known}")
        })
    }
}

/// A program cannot be confined, and therefore does not run.
#[derive(thiserror::Error)]
pub enum ProfileError {
    /// The machine cannot give the profile.
    #[error(
        "the sandbox profile `{profile}` is not to be had on this machine: {missing}; use \
         `unrestricted`, or `wasi`, which runs no program of the host"
    )]
    Unavailable {
        /// The profile.
        profile: SandboxProfile,
        /// What is missing.
        missing: String,
    },
    /// The profile has no room for a program of the host.
    #[error(
        "the sandbox profile `wasi` runs no program of the host; use a toolchain that has the \
         program as a module, or another profile"
    )]
    Wasi,
    /// A root cannot be used.
    #[error("cannot let a program into {}: give a root that is there", path.display())]
    Root {
        /// The root.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The folder for temporary files cannot be made.
    #[error("cannot make a folder for the temporary files of a program")]
    Temp(#[source] io::Error),
    /// The system does not take its rules.
    #[error("the system refuses the rules of the sandbox profile `{profile}`")]
    Rules {
        /// The profile.
        profile: SandboxProfile,
        /// What it answered.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

crate::base::readable::readable!(ProfileError);

/// A profile at work: what programs are started in. It can be used any number of times, and all
/// share its folder for temporary files, which is gone when it is dropped.
pub(super) struct Confinement {
    temp: tempfile::TempDir,
    sandbox: system::Sandbox,
}

impl Confinement {
    /// The profile, with these roots, and these folders to read where not everything can be read;
    /// `None` if it confines nothing. They are the folders that have these names now: a program that
    /// puts a link in the place of one gains nothing.
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

    /// What to start for `program`, itself or a program that confines it, and the arguments that
    /// come first.
    ///
    /// # Errors
    /// `NotFound` if there is no such program, where nobody else could tell.
    pub(super) fn launch(&self, program: &OsStr) -> io::Result<(OsString, Vec<OsString>)> {
        self.sandbox.launch(program)
    }

    /// Confines what `command` will start.
    ///
    /// # Errors
    /// As the system answers.
    pub(super) fn confine(&self, command: &mut Command) -> io::Result<()> {
        self.sandbox.confine(command)
    }

    /// The variables that lead the program to its folder for temporary files.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        TEMP_VARIABLES.into_iter().map(|name| (name, self.temp.path()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_profiles() {
        for profile in SandboxProfile::ALL {
            assert_eq!(profile.name().parse(), Ok(profile));
            assert_eq!(serde_json::to_value(profile).unwrap(), profile.name());
        }
        assert!("none".parse::<SandboxProfile>().unwrap_err().contains("os_hardened"));
    }

    #[test]
    fn a_program_of_the_host_is_none_of_wasi() {
        assert!(matches!(
            Confinement::new(SandboxProfile::Wasi, &[], &[]),
            Err(ProfileError::Wasi)
        ));
    }
}
