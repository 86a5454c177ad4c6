//! Runs of host programs in a file: one JSON object a line. `docs/process-tape.md` has the format.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{
    SandboxProfile, SubprocessOutput, SubprocessRequest, SubprocessStatus, TapedBytes, TapedFailure,
};
use crate::base::atomic_file;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::tape::lines::{expect_readable, line_of};
use crate::tape::{Redaction, TapeError, Version};

/// Longest that a process tape may be, in bytes: it is read and written whole.
pub const PROCESS_TAPE_BYTES_MAX: u64 = 256 << 20;

/// The version of the format.
const VERSION: Version = Version { major: 1, minor: 1 };

/// The first line.
#[derive(Serialize, Deserialize)]
struct Header {
    version: Version,
    #[serde(default)]
    belljar_version: String,
}

/// One run of a program of the host: what was asked for, then what came of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TapeEntry {
    /// The program, as it was asked for.
    pub program: TapedBytes,
    /// Its arguments, without their secrets.
    #[serde(default)]
    pub args: Vec<TapedBytes>,
    /// Where it ran, seen from the root of its session if it lies below that. `None` matches any.
    #[serde(default)]
    pub cwd: Option<TapedBytes>,
    /// The variables that were set for it, `NAME=value`, without their secrets. Those that are not
    /// listed match any.
    #[serde(default)]
    pub env: Vec<TapedBytes>,
    /// The sandbox profile that it ran in. `None` matches any, and is what `unrestricted` leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<SandboxProfile>,
    /// The digest of its standard input. `None` matches any.
    #[serde(default)]
    pub stdin_digest: Option<Digest>,
    /// What it wrote to standard output.
    #[serde(default)]
    pub stdout: TapedBytes,
    /// What it wrote to standard error.
    #[serde(default)]
    pub stderr: TapedBytes,
    /// Its exit code, if it exited.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The number of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether its timeout ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Why it did not run, or not to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<TapedFailure>,
    /// How long it took on its session's clock, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
}

impl TapeEntry {
    /// What a tape says of `request`, whose relative paths begin at `root`, before it has run.
    pub(super) fn asked(
        request: &SubprocessRequest,
        root: &Path,
        profile: SandboxProfile,
        redaction: &Redaction,
    ) -> Self {
        let arg = |arg: &OsStr| redacted(arg.as_encoded_bytes(), |text| redaction.redact(text));
        let variable = |(key, value): (&OsStr, &OsStr)| {
            let variable = [key.as_encoded_bytes(), value.as_encoded_bytes()].join(&b'=');
            redacted(&variable, |text| redaction.redact_variable(text))
        };
        Self {
            program: TapedBytes::from(request.program.as_encoded_bytes()),
            args: request.args.iter().map(|text| arg(text)).collect(),
            cwd: request.current_dir.as_deref().map(|dir| taped_dir(root, dir)),
            env: request.variables().map(variable).collect(),
            profile: Some(profile).filter(|profile| *profile != SandboxProfile::Unrestricted),
            stdin_digest: request.stdin.bytes().map(Digest::of),
            stdout: TapedBytes::default(),
            stderr: TapedBytes::default(),
            exit_code: None,
            signal: None,
            timed_out: false,
            failure: None,
            duration_ms: 0,
        }
    }

    /// Adds what came of it.
    pub(super) fn answered(mut self, output: &SubprocessOutput, duration_ms: u64) -> Self {
        self.stdout = TapedBytes::from(&output.stdout);
        self.stderr = TapedBytes::from(&output.stderr);
        match output.status {
            SubprocessStatus::Exited(code) => self.exit_code = Some(code),
            SubprocessStatus::Signalled(signal) => self.signal = Some(signal),
            // Nothing else stops a program of the host.
            SubprocessStatus::Stopped(_) => self.timed_out = true,
        }
        self.duration_ms = duration_ms;
        self
    }

    /// Adds why nothing came of it.
    pub(super) fn failed(mut self, failure: TapedFailure, duration_ms: u64) -> Self {
        self.failure = Some(failure);
        self.duration_ms = duration_ms;
        self
    }

    /// What came of it, if it has not failed.
    pub(super) fn output(&self) -> SubprocessOutput {
        let status = match (self.exit_code, self.signal) {
            (Some(code), _) => SubprocessStatus::Exited(code),
            (None, Some(signal)) => SubprocessStatus::Signalled(signal),
            (None, None) => SubprocessStatus::TIMED_OUT,
        };
        let (stdout, stderr) = (self.stdout.0.clone(), self.stderr.0.clone());
        SubprocessOutput { status, stdout, stderr }
    }

    /// The name and the value of a variable; `None` if it is none.
    pub(super) fn split_variable(variable: &TapedBytes) -> Option<(&[u8], &[u8])> {
        // Windows has variables whose names begin with the sign.
        let at = variable.0.iter().skip(1).position(|byte| *byte == b'=')? + 1;
        Some((&variable.0[..at], &variable.0[at + 1..]))
    }

    /// How much of a tape it takes.
    pub(super) fn len_bytes(&self) -> u64 {
        line_of(self).len() as u64
    }

    fn check(&self) -> Result<(), String> {
        let ends = [
            self.exit_code.is_some(),
            self.signal.is_some(),
            self.timed_out,
            self.failure.is_some(),
        ];
        if ends.into_iter().filter(|ended| *ended).count() != 1 {
            let message = "an entry has one of exit_code, signal, timed_out and failure";
            return Err(message.to_owned());
        }
        match self.env.iter().find(|variable| Self::split_variable(variable).is_none()) {
            Some(variable) => Err(format!("{variable:?} in env is not of the form NAME=value")),
            None => Ok(()),
        }
    }
}

/// `bytes` without secrets. Where they hold one, what is no text beside it is lost.
fn redacted(bytes: &[u8], redact: impl Fn(&str) -> String) -> TapedBytes {
    let text = String::from_utf8_lossy(bytes);
    let safe = redact(&text);
    TapedBytes::from(if safe == text { bytes } else { safe.as_bytes() })
}

/// A folder as tapes of all systems write it.
fn taped_dir(root: &Path, dir: &Path) -> TapedBytes {
    let below = dir.strip_prefix(root).unwrap_or(dir);
    let mut bytes = below.as_os_str().as_encoded_bytes().to_vec();
    if bytes.is_empty() {
        bytes.push(b'.');
    }
    if cfg!(windows) {
        for byte in &mut bytes {
            *byte = if *byte == b'\\' { b'/' } else { *byte };
        }
    }
    TapedBytes(bytes)
}

/// A tape of runs of host programs, in the order in which they were started.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessTape {
    /// One for each run. The first stands on line 2 of the file.
    pub entries: Vec<TapeEntry>,
}

impl ProcessTape {
    /// The tape at `path`.
    ///
    /// # Errors
    /// [`TapeError`]: `Disk`, also if it is longer than [`PROCESS_TAPE_BYTES_MAX`]; `Version` if its
    /// format is of another major version; `Line` for what is no header or no entry.
    pub fn load(path: &Path) -> Result<Self, TapeError> {
        let mut bytes = Vec::new();
        let read = disk::open(path)?.take(PROCESS_TAPE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(DiskError::new("read", path))?;
        if bytes.len() as u64 > PROCESS_TAPE_BYTES_MAX {
            let too_long = format!("it is longer than {PROCESS_TAPE_BYTES_MAX} bytes");
            let error = io::Error::new(io::ErrorKind::FileTooLarge, too_long);
            return Err(DiskError::new("read", path)(error).into());
        }
        let tape = || path.display().to_string();
        let bad = |line: usize, what: &str, error: &dyn std::fmt::Display| {
            let message = format!(
                "this is no {what} of a process tape: {error}; put it right, or record it again"
            );
            TapeError::Line { tape: tape(), line: line as u64, message }
        };
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let header: Header = serde_json::from_slice(lines.next().unwrap_or_default())
            .map_err(|error| bad(1, "header", &error))?;
        if header.version.major != VERSION.major {
            let (found, known) = (header.version, VERSION);
            return Err(TapeError::Version { tape: tape(), found, known });
        }
        let mut entries = Vec::new();
        for (index, line) in lines.enumerate() {
            let entry: TapeEntry =
                serde_json::from_slice(line).map_err(|error| bad(index + 2, "entry", &error))?;
            entry.check().map_err(|message| bad(index + 2, "entry", &message))?;
            entries.push(entry);
        }
        Ok(Self { entries })
    }

    /// Writes the tape to `path`, whole or not at all.
    ///
    /// # Errors
    /// [`TapeError`]: `Full` if it would be longer than [`PROCESS_TAPE_BYTES_MAX`]; `LongRecord`; `Disk`.
    pub fn save(&self, path: &Path) -> Result<(), TapeError> {
        let bytes = self.to_bytes();
        bytes.split_inclusive(|byte| *byte == b'\n').try_for_each(expect_readable)?;
        if bytes.len() as u64 > PROCESS_TAPE_BYTES_MAX {
            return Err(TapeError::Full { limit_bytes: PROCESS_TAPE_BYTES_MAX });
        }
        Ok(atomic_file::write(path, &[&bytes])?)
    }

    /// How long the file is, in bytes.
    pub(super) fn len_bytes(&self) -> u64 {
        self.to_bytes().len() as u64
    }

    fn to_bytes(&self) -> Vec<u8> {
        let belljar_version = env!("CARGO_PKG_VERSION").to_owned();
        let header = line_of(&Header { version: VERSION, belljar_version });
        self.entries.iter().fold(header, |mut bytes, entry| {
            bytes.extend(line_of(entry));
            bytes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request: &SubprocessRequest) -> TapeEntry {
        let profile = SandboxProfile::Unrestricted;
        TapeEntry::asked(request, Path::new(""), profile, &Redaction::default())
    }

    #[test]
    fn secrets_of_arguments_and_variables_stay_off_a_tape() {
        let mut request = SubprocessRequest::new("deploy");
        request.arg("sk-abcdefghijklmnopqrstuvwxyz").arg("--fast");
        request.env("API_KEY", "hunter2").env("LANG", "C").env_remove("HOME");
        let entry = asked(&request);
        assert_eq!(entry.args, [TapedBytes::from("[redacted]"), TapedBytes::from("--fast")]);
        let env = [TapedBytes::from("API_KEY=[redacted]"), TapedBytes::from("LANG=C")];
        assert_eq!(entry.env, env);
    }

    #[cfg(unix)]
    #[test]
    fn a_secret_that_is_no_text_stays_off_a_tape() {
        use std::os::unix::ffi::OsStrExt;
        let mut request = SubprocessRequest::new("p");
        request.env("API_KEY", OsStr::from_bytes(b"\xffhunter2"));
        request.env("LANG", OsStr::from_bytes(b"\xff"));
        let entry = asked(&request);
        let env = [TapedBytes::from("API_KEY=[redacted]"), TapedBytes::from(b"LANG=\xff")];
        assert_eq!(entry.env, env);
    }

    #[test]
    fn folders_are_named_as_seen_from_the_root() {
        let root = Path::new("/home/me/project");
        assert_eq!(taped_dir(root, &root.join("a/b")), TapedBytes::from("a/b"));
        assert_eq!(taped_dir(root, root), TapedBytes::from("."));
        assert_eq!(taped_dir(root, Path::new("a")), TapedBytes::from("a"));
        assert_eq!(taped_dir(root, Path::new("/home/me")), TapedBytes::from("/home/me"));
    }

    #[test]
    fn variables_are_split_at_the_first_sign_after_their_first_letter() {
        let split = |text: &str| {
            let variable = TapedBytes::from(text);
            let (name, value) = TapeEntry::split_variable(&variable)?;
            Some((name.to_vec(), value.to_vec()))
        };
        assert_eq!(split("A=b=c"), Some((b"A".to_vec(), b"b=c".to_vec())));
        assert_eq!(split("=C:=C:\\x"), Some((b"=C:".to_vec(), b"C:\\x".to_vec())));
        assert_eq!(split("A"), None);
        assert_eq!(split(""), None);
    }
}
