//! The variables that native programs get from belljar's own environment.

use std::ffi::OsString;

use crate::base::ambient;

/// Where programs are, and on Windows what its libraries and the command interpreter need: without `SystemRoot`, programs do
/// not start or have no random numbers, and without `TEMP` they write their temporary files into the directory of the system.
const PASSED_ON: &[&str] = if cfg!(windows) {
    &[
        "PATH",
        "PATHEXT",
        "SystemRoot",
        "SystemDrive",
        "windir",
        "ComSpec",
        "TEMP",
        "TMP",
        "OS",
        "PROCESSOR_ARCHITECTURE",
        "NUMBER_OF_PROCESSORS",
    ]
} else {
    &["PATH"]
};

/// Those variables that are set. Without `PATH`, an empty one: systems would look elsewhere.
pub(super) fn passed_on() -> impl Iterator<Item = (&'static str, OsString)> {
    PASSED_ON.iter().filter_map(|name| {
        let value = ambient::env_var(name);
        let value = if *name == "PATH" { Some(value.unwrap_or_default()) } else { value };
        Some((*name, value?))
    })
}
