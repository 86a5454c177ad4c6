//! Process tapes: recorded native programs, one JSON object per line. `docs/process-tape.md` has
//! the format.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::file_recording::RecordedFiles;
use super::taped_files::check_paths;
use super::{
    SandboxProfile, SubprocessOutput, SubprocessRequest, SubprocessStatus, TapedBytes, TapedChange,
    TapedFailure, TapedInput,
};
use crate::base::atomic_file;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::tape::lines::{expect_readable, line_of};
use crate::tape::{Redaction, TapeError, Version};

/// Maximum length of a process tape, in bytes: it is read and written whole.
pub const PROCESS_TAPE_BYTES_MAX: u64 = 256 << 20;

const VERSION: Version = Version { major: 1, minor: 2 };

/// Line 1.
#[derive(Serialize, Deserialize)]
struct Header {
    version: Version,
    #[serde(default)]
    belljar_version: String,
}

/// One run of a native program: the request and its result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TapeEntry {
    /// The program as requested.
    pub program: TapedBytes,
    /// Its arguments, without secrets.
    #[serde(default)]
    pub args: Vec<TapedBytes>,
    /// Its current directory, relative to the root of the session if below it. `None` matches any.
    #[serde(default)]
    pub cwd: Option<TapedBytes>,
    /// The variables that were set, `NAME=value`, without secrets. Variables not listed match any.
    #[serde(default)]
    pub env: Vec<TapedBytes>,
    /// The sandbox profile. `None` matches any, and is written for `unrestricted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<SandboxProfile>,
    /// The digest of standard input. `None` matches any.
    #[serde(default)]
    pub stdin_digest: Option<Digest>,
    /// Standard output.
    #[serde(default)]
    pub stdout: TapedBytes,
    /// Standard error.
    #[serde(default)]
    pub stderr: TapedBytes,
    /// The exit code, if it exited.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The signal that killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether its timeout passed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Why it did not run, or not to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<TapedFailure>,
    /// Its duration on the session's clock, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
    /// The files that it was given, sorted by path, without those that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<TapedInput>,
    /// What it changed beneath the root of the session, sorted by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<TapedChange>,
    /// How many programs of the tape had ended when it ended, itself included. `None`: they ended in the order of
    /// starting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
}

impl TapeEntry {
    /// The entry of `request` before it has run; its paths are relative to `root`.
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
            inputs: Vec::new(),
            changes: Vec::new(),
            ended: None,
        }
    }

    /// Adds the files.
    pub(super) fn with_files(mut self, files: RecordedFiles) -> Self {
        let RecordedFiles { inputs, changes, ended } = files;
        (self.inputs, self.changes, self.ended) = (inputs, changes, ended);
        self
    }

    /// Adds the result.
    pub(super) fn answered(mut self, output: &SubprocessOutput, duration_ms: u64) -> Self {
        self.stdout = TapedBytes::from(&output.stdout);
        self.stderr = TapedBytes::from(&output.stderr);
        match output.status {
            SubprocessStatus::Exited(code) => self.exit_code = Some(code),
            SubprocessStatus::Signalled(signal) => self.signal = Some(signal),
            // A native program is stopped by its timeout only.
            SubprocessStatus::Stopped(_) => self.timed_out = true,
        }
        self.duration_ms = duration_ms;
        self
    }

    /// Adds the reason of a failure.
    pub(super) fn failed(mut self, failure: TapedFailure, duration_ms: u64) -> Self {
        self.failure = Some(failure);
        self.duration_ms = duration_ms;
        self
    }

    /// The result, if it has not failed.
    pub(super) fn output(&self) -> SubprocessOutput {
        let status = match (self.exit_code, self.signal) {
            (Some(code), _) => SubprocessStatus::Exited(code),
            (None, Some(signal)) => SubprocessStatus::Signalled(signal),
            (None, None) => SubprocessStatus::TIMED_OUT,
        };
        let (stdout, stderr) = (self.stdout.0.clone(), self.stderr.0.clone());
        SubprocessOutput { status, stdout, stderr }
    }

    /// Whether the program ran.
    pub(super) fn ran(&self) -> bool {
        self.failure.as_ref().is_none_or(|failure| !failure.is_of_start())
    }

    /// The name and value of a variable.
    pub(super) fn split_variable(variable: &TapedBytes) -> Option<(&[u8], &[u8])> {
        // Names of Windows' own variables begin with `=`.
        let at = variable.0.iter().skip(1).position(|byte| *byte == b'=')? + 1;
        Some((&variable.0[..at], &variable.0[at + 1..]))
    }

    /// Its length on a tape.
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
            let message = "an entry needs exactly one of exit_code, signal, timed_out and failure";
            return Err(message.to_owned());
        }
        check_paths("inputs", self.inputs.iter().map(|input| &*input.path))?;
        check_paths("changes", self.changes.iter().map(|change| &*change.path))?;
        match self.env.iter().find(|variable| Self::split_variable(variable).is_none()) {
            Some(variable) => Err(format!("{variable:?} in env is not of the form NAME=value")),
            None => Ok(()),
        }
    }
}

/// `bytes` without secrets. If a secret is removed, bytes that are not UTF-8 are replaced, too.
fn redacted(bytes: &[u8], redact: impl Fn(&str) -> String) -> TapedBytes {
    let text = String::from_utf8_lossy(bytes);
    let safe = redact(&text);
    TapedBytes::from(if safe == text { bytes } else { safe.as_bytes() })
}

/// A directory with `/` between names, on every system.
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

/// A tape of native programs, in the order in which they started.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessTape {
    /// One per run. The first is line 2 of the file.
    pub entries: Vec<TapeEntry>,
}

impl ProcessTape {
    /// Reads the tape at `path`.
    ///
    /// # Errors
    /// [`TapeError`]: `Disk`, also if it exceeds [`PROCESS_TAPE_BYTES_MAX`]; `Version` for another
    /// major version of the format; `Line` for an invalid header or entry.
    pub fn load(path: &Path) -> Result<Self, TapeError> {
        Self::load_with_version(path).map(|(tape, _)| tape)
    }

    /// As [`ProcessTape::load`], with the version of the tape. Before version 1.2 tapes have no files.
    ///
    /// # Errors
    /// Those of [`ProcessTape::load`].
    pub fn load_with_version(path: &Path) -> Result<(Self, Version), TapeError> {
        let mut bytes = Vec::new();
        let read = disk::open(path)?.take(PROCESS_TAPE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(DiskError::new("read", path))?;
        if bytes.len() as u64 > PROCESS_TAPE_BYTES_MAX {
            let too_long = format!("the tape exceeds {PROCESS_TAPE_BYTES_MAX} bytes");
            let error = io::Error::new(io::ErrorKind::FileTooLarge, too_long);
            return Err(DiskError::new("read", path)(error).into());
        }
        let tape = || path.display().to_string();
        let bad = |line: usize, what: &str, error: &dyn std::fmt::Display| {
            let message = format!(
                "invalid {what} of a process tape: {error}; correct it, or record the tape again"
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
        Ok((Self { entries }, header.version))
    }

    /// Writes the tape to `path`, all or nothing.
    ///
    /// # Errors
    /// [`TapeError`]: `Full` if it would exceed [`PROCESS_TAPE_BYTES_MAX`]; `LongRecord`; `Disk`.
    pub fn save(&self, path: &Path) -> Result<(), TapeError> {
        let bytes = self.to_bytes();
        bytes.split_inclusive(|byte| *byte == b'\n').try_for_each(expect_readable)?;
        if bytes.len() as u64 > PROCESS_TAPE_BYTES_MAX {
            return Err(TapeError::Full { limit_bytes: PROCESS_TAPE_BYTES_MAX });
        }
        Ok(atomic_file::write(path, &[&bytes])?)
    }

    /// The length of the file in bytes.
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
    fn secrets_in_arguments_and_variables_are_redacted() {
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
    fn secret_beside_invalid_utf8_is_redacted() {
        use std::os::unix::ffi::OsStrExt;
        let mut request = SubprocessRequest::new("p");
        request.env("API_KEY", OsStr::from_bytes(b"\xffhunter2"));
        request.env("LANG", OsStr::from_bytes(b"\xff"));
        let entry = asked(&request);
        let env = [TapedBytes::from("API_KEY=[redacted]"), TapedBytes::from(b"LANG=\xff")];
        assert_eq!(entry.env, env);
    }

    #[test]
    fn directories_are_relative_to_the_root() {
        let root = Path::new("/home/me/project");
        assert_eq!(taped_dir(root, &root.join("a/b")), TapedBytes::from("a/b"));
        assert_eq!(taped_dir(root, root), TapedBytes::from("."));
        assert_eq!(taped_dir(root, Path::new("a")), TapedBytes::from("a"));
        assert_eq!(taped_dir(root, Path::new("/home/me")), TapedBytes::from("/home/me"));
    }

    #[test]
    fn variables_split_at_first_equals_sign_after_first_byte() {
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
