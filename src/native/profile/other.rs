//! Systems without confinement: profiles are refused.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::{ProfileError, SandboxProfile};

/// Says what the system lacks for a profile.
pub(super) fn check(_: SandboxProfile) -> Result<(), String> {
    Err(format!("belljar cannot confine programs on {}", std::env::consts::OS))
}

/// Never made.
pub(super) struct Sandbox(Infallible);

impl Sandbox {
    pub(super) fn new(
        profile: SandboxProfile,
        _: &[PathBuf],
        _: &[PathBuf],
    ) -> Result<Self, ProfileError> {
        let missing = check(profile).err().unwrap_or_default();
        Err(ProfileError::Unavailable { profile, missing })
    }

    pub(super) fn launch(&self, _: &OsStr) -> io::Result<(OsString, Vec<OsString>)> {
        match self.0 {}
    }

    pub(super) fn confine(&self, _: &mut Command) -> io::Result<()> {
        match self.0 {}
    }
}
