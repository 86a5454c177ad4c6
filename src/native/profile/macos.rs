//! macOS: the system's own sandbox, entered through `sandbox-exec`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DEVICES, ProfileError, SandboxProfile};
use crate::base::{ambient, disk};

const LAUNCHER: &str = "/usr/bin/sandbox-exec";

/// Readable by hardened programs besides their roots.
const SYSTEM: [&str; 8] = [
    "/usr",
    "/bin",
    "/sbin",
    "/System",
    "/Library/Apple",
    "/Library/Developer",
    "/private/var/db/dyld",
    "/private/etc/ssl",
];

/// Says what the system lacks for a profile.
pub(super) fn check(_: SandboxProfile) -> Result<(), String> {
    match disk::metadata(Path::new(LAUNCHER)) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{error}: {}", error.source)),
    }
}

/// The rules of a profile as text.
pub(super) struct Sandbox {
    rules: String,
    /// The parameters of the rules, `NAME=value`.
    parameters: Vec<OsString>,
}

impl Sandbox {
    pub(super) fn new(
        profile: SandboxProfile,
        writable: &[PathBuf],
        readable: &[PathBuf],
    ) -> Result<Self, ProfileError> {
        let mut parameters = Vec::new();
        let (mut roots, mut read_only) = (String::new(), String::new());
        for (number, path) in writable.iter().chain(readable).enumerate() {
            // Rules apply to paths with links resolved.
            let real = disk::metadata(path)
                .and_then(|_| disk::canonical(path))
                .map_err(|error| ProfileError::Root { path: path.clone(), source: error.source })?;
            let mut parameter = OsString::from(format!("ROOT{number}="));
            parameter.push(real);
            parameters.push(parameter);
            let list = if number < writable.len() { &mut roots } else { &mut read_only };
            *list += " (subpath (param \"ROOT";
            *list += &number.to_string();
            *list += "\"))";
        }
        let literals = DEVICES.map(|device| format!(" (literal {device:?})")).concat();
        let mut rules = "(version 1)(allow default)(deny file-write*)".to_owned();
        if profile == SandboxProfile::OsHardened {
            let system = SYSTEM.map(|folder| format!(" (subpath {folder:?})")).concat();
            rules.push_str("(deny network*)(deny mach-lookup)(deny signal)(deny process-info*)");
            rules.push_str("(allow signal (target same-sandbox))");
            rules.push_str("(allow process-info* (target same-sandbox))");
            rules.push_str("(deny file-read-data)(allow file-read-data (literal \"/\"))");
            rules += &["(allow file-read*", &system, &literals, &roots, &read_only, ")"].concat();
        }
        rules += &["(allow file-write*", &literals, &roots, ")(deny file-write-setugid)"].concat();
        Ok(Self { rules, parameters })
    }

    /// The launcher and its arguments. Looks for the program first, as the launcher's status does
    /// not tell a missing program from one that fails.
    pub(super) fn launch(&self, program: &OsStr) -> io::Result<(OsString, Vec<OsString>)> {
        let is_there = if program.as_encoded_bytes().contains(&b'/') {
            disk::metadata(Path::new(program)).is_ok()
        } else {
            let folders = ambient::env_var("PATH").unwrap_or_default();
            std::env::split_paths(&folders).any(|dir| disk::metadata(&dir.join(program)).is_ok())
        };
        if !is_there {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut arguments = vec!["-p".into(), OsString::from(&self.rules)];
        for parameter in &self.parameters {
            arguments.extend(["-D".into(), parameter.clone()]);
        }
        arguments.extend(["--".into(), program.to_owned()]);
        Ok((LAUNCHER.into(), arguments))
    }

    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "the launcher confines")]
    pub(super) fn confine(&self, _: &mut Command) -> io::Result<()> {
        Ok(())
    }
}
