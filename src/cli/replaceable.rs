//! Which files a report may replace: earlier ones of its kind, and none that belljar did not write.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::exit::Usage;
use crate::base::disk::{self, DiskError};

/// Bytes at the beginning of a file in which a patch or a trace is recognised.
const BEGINNING_BYTES: u64 = 64 << 10;

/// Longest JSON report that is examined, in bytes.
const REPORT_BYTES_MAX: u64 = 1 << 30;

/// The beginning of every page of `tape view`.
pub const PAGE_BEGINNING: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
                                  <meta name=\"generator\" content=\"belljar tape view\">\n";

/// The kinds of files that options of belljar write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// A report in JSON.
    Report,
    /// A diff.
    Patch,
    /// Calls and answers.
    Trace,
    /// A page of `tape view`.
    Page,
}

impl Written {
    /// The option that asks for it.
    pub fn option(self) -> &'static str {
        match self {
            Self::Report => "--json",
            Self::Patch => "--diff",
            Self::Trace => "--trace",
            Self::Page => "-o",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Report => "JSON report",
            Self::Patch => "patch",
            Self::Trace => "trace",
            Self::Page => "page",
        }
    }

    /// Checks that `path` is free, or holds what may be replaced: an earlier file of this kind, an empty
    /// file, or something other than a file, such as a pipe.
    ///
    /// # Errors
    /// [`Usage`]: something else is there, or it cannot be read.
    pub fn check(self, path: &Path) -> Result<(), Usage> {
        match disk::metadata(path) {
            Ok(found) if found.is_file() && found.len() > 0 => {}
            _ => return Ok(()),
        }
        let file = disk::open(path).map_err(|error| Usage::of(self.option(), error))?;
        if self.is_in(file) {
            return Ok(());
        }
        let why = format!(
            "it is not a {} of belljar; name another file, or remove this one first",
            self.name()
        );
        let error = DiskError::new("replace", path)(std::io::Error::other(why));
        Err(Usage::of(self.option(), error))
    }

    fn is_in(self, file: File) -> bool {
        if self == Self::Report {
            let report = serde_json::from_reader(BufReader::new(file.take(REPORT_BYTES_MAX)));
            return report.is_ok_and(|fields: Fields| fields.are_of_a_report());
        }
        let mut bytes = Vec::new();
        if file.take(BEGINNING_BYTES).read_to_end(&mut bytes).is_err() {
            return false;
        }
        let text = String::from_utf8_lossy(&bytes);
        match self {
            Self::Page => text.starts_with(PAGE_BEGINNING),
            Self::Patch => is_patch(&text),
            _ => is_trace(&text),
        }
    }
}

/// Checks that no two options name one file: each would overwrite the other.
///
/// # Errors
/// [`Usage`]: two do.
pub fn expect_apart(written: &[(&str, &Path)]) -> Result<(), Usage> {
    let mut places: Vec<(&str, PathBuf)> = Vec::new();
    for &(option, path) in written {
        let is_other = disk::metadata(path).is_ok_and(|found| !found.is_file());
        let (Some(name), false) = (path.file_name(), is_other) else { continue };
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let Ok(dir) = dir.unwrap_or(Path::new(".")).canonicalize() else { continue };
        let place = dir.join(name);
        if let Some((other, _)) = places.iter().find(|(_, at)| *at == place) {
            let path = path.display();
            return Err(Usage(format!(
                "{option}: {other} writes {path} as well; name another file"
            )));
        }
        places.push((option, place));
    }
    Ok(())
}

/// Fields of `run`'s and `sandbox exec`'s reports, of `verify`'s, and of an answer of `host call`, which has
/// one alone.
const OF_RUN: [&str; 4] = ["status", "exit_code", "limits_hit", "virtual_time_ms"];
const OF_VERIFY: [&str; 3] = ["equal", "runs", "varied"];
const OF_CALL: [&str; 2] = ["ok", "error"];

/// Which fields a JSON object has.
#[derive(Default)]
struct Fields {
    known: BTreeSet<&'static str>,
    count: usize,
}

impl Fields {
    fn are_of_a_report(&self) -> bool {
        let has_all = |names: &[&str]| names.iter().all(|name| self.known.contains(name));
        let has_one = OF_CALL.iter().any(|name| self.known.contains(name));
        has_all(&OF_RUN) || has_all(&OF_VERIFY) || has_one && self.count == 1
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(object: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            /// Takes no memory for unknown fields, however long the object is.
            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some(name) = object.next_key::<String>()? {
                    object.next_value::<IgnoredAny>()?;
                    fields.count += 1;
                    let mut known = OF_RUN.iter().chain(&OF_VERIFY).chain(&OF_CALL);
                    fields.known.extend(known.find(|known| **known == name));
                }
                Ok(fields)
            }
        }

        object.deserialize_map(Reader)
    }
}

/// Whether `text` begins as belljar's patches do. Git, unless it is told otherwise, cuts digests short.
fn is_patch(text: &str) -> bool {
    let mut lines = text.lines();
    if !lines.next().is_some_and(|line| line.starts_with("diff --git ")) {
        return false;
    }
    let mut header =
        lines.take_while(|line| !line.starts_with("--- ") && !line.starts_with("diff "));
    let is_whole = |digests: &str| {
        let (old, new) = digests.split_once("..").unwrap_or_default();
        old.len() == 40 && new.split(' ').next().is_some_and(|new| new.len() == 40)
    };
    header.find_map(|line| line.strip_prefix("index ")).is_none_or(is_whole)
}

/// Whether `text` begins as a trace does: with a call or an answer, of any process.
fn is_trace(text: &str) -> bool {
    let line = match text.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((pid, line)) if pid.bytes().all(|byte| byte.is_ascii_digit()) => line,
        _ => text,
    };
    let is_call = |rest: &str| {
        let name = rest.split_once('(').map_or("", |(name, _)| name);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    line.strip_prefix("==> ").is_some_and(is_call) || line.starts_with("<== ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_report(text: &str) -> bool {
        serde_json::from_str(text).is_ok_and(|fields: Fields| fields.are_of_a_report())
    }

    #[test]
    fn reports_are_told_from_other_json() {
        for text in [
            r#"{"status":"exited","exit_code":0,"guest_exit_code":0,"limits_hit":[],"virtual_time_ms":0}"#,
            r#"{"equal":true,"runs":3,"varied":[],"records":9}"#,
            r#"{"ok":null}"#,
            r#"{"error":{"kind":"failed","message":"no"}}"#,
        ] {
            assert!(is_report(text), "{text}");
        }
        for text in [
            "",
            "[]",
            "7",
            "{}",
            r#"{"status":"ok"}"#,
            r#"{"ok":1,"name":"mine"}"#,
            r#"{"ok":true,"error":{"kind":"x","message":"y"}}"#,
            r#"{"status":"exited","exit_code":0}"#,
            r#"{"ok":true} {"ok":true}"#,
            r#"{"equal":true}"#,
            r#"{"name":"package","version":"1.0"}"#,
        ] {
            assert!(!is_report(text), "{text}");
        }
    }

    #[test]
    fn patches_of_belljar_have_whole_digests() {
        let index = |old: &str, new: &str| format!("index {old}..{new} 100644\n--- a/x\n+++ b/x\n");
        let (long, short) = ("5".repeat(40), "5".repeat(7));
        let begin = "diff --git a/x b/x\n";
        assert!(is_patch(&format!("{begin}{}", index(&long, &long))));
        assert!(is_patch(&format!("{begin}old mode 100644\nnew mode 100755\n")));
        assert!(!is_patch(&format!("{begin}{}", index(&short, &short))));
        assert!(!is_patch("--- a/x\n+++ b/x\n") && !is_patch("# notes\n"));
    }

    #[test]
    fn traces_begin_with_a_call_or_an_answer() {
        for text in ["==> fd_read(fd=0)\n", "<== exited with code 0\n", "[12] ==> x()\n"] {
            assert!(is_trace(text), "{text}");
        }
        // What `head` says of several files begins like one.
        for text in ["=> x\n", "[x] ==> y()\n", "notes\n", "==> a.txt <==\n", "==> (x)\n"] {
            assert!(!is_trace(text), "{text}");
        }
    }
}
