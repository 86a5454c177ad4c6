//! Replays a process tape in order.

use std::path::{Path, PathBuf};

use super::file_playback::FilePlayback;
use super::mismatch::{Difference, Mismatch};
use super::{
    FilesError, ProcessTape, SubprocessError, SubprocessFiles, TapeEntry, TapedBytes, UnmadeFile,
};
use crate::kernel::machine::Machine;

/// Entries shown before and after a mismatch.
const CONTEXT: usize = 3;

/// The header is line 1.
const FIRST_LINE: usize = 2;

/// A tape and the position in it.
pub(super) struct Playback {
    path: PathBuf,
    tape: ProcessTape,
    next: usize,
    /// Begun with the first call.
    files: Option<FilePlayback>,
}

impl Playback {
    /// Opens the tape at `path`.
    ///
    /// # Errors
    /// See [`ProcessTape::load`].
    pub(super) fn open(path: &Path) -> Result<Self, SubprocessError> {
        let tape = ProcessTape::load(path)?;
        Ok(Self { path: path.to_owned(), tape, next: 0, files: None })
    }

    /// Sets where the files of programs are, before the first call.
    pub(super) fn begin_files(&mut self, root: &Path, settings: &SubprocessFiles) {
        self.files.get_or_insert_with(|| FilePlayback::new(root, &self.path, settings));
    }

    /// The files that were not made so far.
    pub(super) fn unmade_files(&self) -> Vec<UnmadeFile> {
        self.files.as_ref().map(FilePlayback::unmade).unwrap_or_default()
    }

    /// Makes what the program of call number `call` and entry `index` changed.
    ///
    /// # Errors
    /// [`SubprocessError`]: `Mismatch`, `Files`.
    pub(super) fn end_files(
        &mut self,
        (call, program): (u64, &str),
        index: usize,
        machine: &mut Machine,
    ) -> Result<(), SubprocessError> {
        let Some(files) = &mut self.files else { return Ok(()) };
        let differences = files.end(index, machine).map_err(|source| {
            let (program, source) = (program.to_owned(), Box::new(source));
            SubprocessError::Files { call, program, source }
        })?;
        self.expect_none(call, index, differences)
    }

    /// Takes the entry of call number `call`, and its index. A call that does not match takes
    /// nothing.
    ///
    /// # Errors
    /// [`SubprocessError`]: `Mismatch`, `Exhausted`, `Files`.
    pub(super) fn take(
        &mut self,
        call: u64,
        asked: &TapeEntry,
        machine: &mut Machine,
    ) -> Result<(usize, TapeEntry), SubprocessError> {
        let Some(entry) = self.tape.entries.get(self.next) else {
            let (tape, entries) = (self.path.clone(), self.tape.entries.len());
            let asked = summary(asked);
            return Err(SubprocessError::Exhausted { call, asked, tape, entries });
        };
        let mut differences = differences(entry, asked);
        if let Some(files) = &mut self.files {
            let failed = |source: FilesError| SubprocessError::Files {
                call,
                program: entry.program.shown(),
                source: Box::new(source),
            };
            differences.extend(files.differences(entry, machine).map_err(failed)?);
        }
        let (index, entry) = (self.next, entry.clone());
        self.expect_none(call, index, differences)?;
        if let Some(files) = self.files.as_mut().filter(|_| entry.ran()) {
            files.begin(index, &entry);
        }
        self.next += 1;
        Ok((index, entry))
    }

    /// Compares a call whose input is complete with its entry at `index`.
    ///
    /// # Errors
    /// [`SubprocessError::Mismatch`].
    pub(super) fn check(
        &self,
        call: u64,
        index: usize,
        entry: &TapeEntry,
        asked: &TapeEntry,
    ) -> Result<(), SubprocessError> {
        self.expect_none(call, index, differences(entry, asked))
    }

    /// # Errors
    /// [`SubprocessError::Mismatch`] if call number `call` and the entry `index` have `differences`.
    fn expect_none(
        &self,
        call: u64,
        index: usize,
        differences: Vec<Difference>,
    ) -> Result<(), SubprocessError> {
        if differences.is_empty() {
            return Ok(());
        }
        Err(SubprocessError::Mismatch(Box::new(Mismatch {
            tape: self.path.clone(),
            call,
            line: index + FIRST_LINE,
            differences,
            around: self.around(index),
        })))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn tape(&self) -> &ProcessTape {
        &self.tape
    }

    fn around(&self, index: usize) -> Vec<(usize, String)> {
        let from = index.saturating_sub(CONTEXT);
        let to = self.tape.entries.len().min(index + CONTEXT + 1);
        (from..to).map(|at| (at + FIRST_LINE, summary(&self.tape.entries[at]))).collect()
    }

    /// Ends the playback.
    ///
    /// # Errors
    /// [`SubprocessError::Unconsumed`] if entries are left.
    pub(super) fn finish(self) -> Result<(), SubprocessError> {
        let Some(entry) = self.tape.entries.get(self.next) else { return Ok(()) };
        Err(SubprocessError::Unconsumed {
            left: self.tape.entries.len() - self.next,
            line: self.next + FIRST_LINE,
            first: summary(entry),
            tape: self.path,
        })
    }
}

fn differences(entry: &TapeEntry, asked: &TapeEntry) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |field: String, tape: String, asked: String| {
        found.push(Difference { field, tape, asked });
    };
    if entry.program != asked.program {
        differ("program".into(), shown(&entry.program), shown(&asked.program));
    }
    if entry.args != asked.args {
        differ("args".into(), list(&entry.args), list(&asked.args));
    }
    if let Some(cwd) = &entry.cwd
        && asked.cwd.as_ref() != Some(cwd)
    {
        differ("cwd".into(), shown(cwd), asked.cwd.as_ref().map_or("none".into(), shown));
    }
    for (name, value) in entry.env.iter().filter_map(TapeEntry::split_variable) {
        let mut variables = asked.env.iter().filter_map(TapeEntry::split_variable);
        let set = variables.find(|(known, _)| *known == name).map(|(_, value)| value);
        if set != Some(value) {
            let field = format!("env {}", String::from_utf8_lossy(name));
            let asked = set.map_or("not set".into(), |value| shown(&TapedBytes::from(value)));
            differ(field, shown(&TapedBytes::from(value)), asked);
        }
    }
    if let Some(tape) = entry.profile
        && asked.profile != Some(tape)
    {
        differ("profile".into(), tape.to_string(), asked.profile.unwrap_or_default().to_string());
    }
    if let (Some(tape), Some(asked)) = (&entry.stdin_digest, &asked.stdin_digest)
        && tape != asked
    {
        differ("stdin_digest".into(), tape.to_string(), asked.to_string());
    }
    found
}

fn shown(bytes: &TapedBytes) -> String {
    format!("{bytes:?}")
}

fn list(args: &[TapedBytes]) -> String {
    let shown: Vec<String> = args.iter().map(shown).collect();
    cut(format!("[{}]", shown.join(", ")))
}

/// The program and its arguments on one line.
fn summary(entry: &TapeEntry) -> String {
    let words: Vec<String> =
        std::iter::once(&entry.program).chain(&entry.args).map(shown).collect();
    cut(words.join(" "))
}

/// Limits a line to `CHARS_MAX` characters.
fn cut(mut line: String) -> String {
    const CHARS_MAX: usize = 1000;
    if let Some((at, _)) = line.char_indices().nth(CHARS_MAX) {
        line.truncate(at);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::Digest;

    fn entry(json: &str) -> TapeEntry {
        serde_json::from_str(json).unwrap()
    }

    fn playback(lines: &[&str]) -> Playback {
        let entries = lines.iter().map(|line| entry(line)).collect();
        Playback { path: "t.jsonl".into(), tape: ProcessTape { entries }, next: 0, files: None }
    }

    fn machine() -> Machine {
        Machine::builder().build().unwrap()
    }

    fn fields(tape: &str, asked: &str) -> Vec<String> {
        differences(&entry(tape), &entry(asked)).into_iter().map(|d| d.field).collect()
    }

    #[test]
    fn missing_field_matches_anything() {
        let asked = format!(
            r#"{{"program":"p","cwd":"sub","env":["A=1"],"stdin_digest":"{}"}}"#,
            Digest::of(b"in")
        );
        assert!(fields(r#"{"program":"p"}"#, &asked).is_empty());
        assert!(fields(r#"{"program":"p","cwd":null,"env":[]}"#, &asked).is_empty());
        assert_eq!(fields(&asked, r#"{"program":"p"}"#), ["cwd", "env A"]);
    }

    #[test]
    fn all_differing_fields_are_named() {
        let of = |program: &str, args: &str, cwd: &str, env: &str, stdin: &[u8]| {
            let digest = Digest::of(stdin);
            format!(
                r#"{{"program":"{program}","args":["{args}"],"cwd":"{cwd}","env":["V={env}","W=w"],"stdin_digest":"{digest}"}}"#
            )
        };
        let tape = of("p", "a", "d", "1", b"x");
        assert!(fields(&tape, &tape).is_empty());
        assert_eq!(fields(&tape, &of("q", "a", "d", "1", b"x")), ["program"]);
        assert_eq!(fields(&tape, &of("p", "b", "d", "1", b"x")), ["args"]);
        assert_eq!(fields(&tape, &of("p", "a", "e", "1", b"x")), ["cwd"]);
        assert_eq!(fields(&tape, &of("p", "a", "d", "2", b"x")), ["env V"]);
        assert_eq!(fields(&tape, &of("p", "a", "d", "1", b"y")), ["stdin_digest"]);
        let all = ["program", "args", "cwd", "env V", "stdin_digest"];
        assert_eq!(fields(&tape, &of("q", "b", "e", "2", b"y")), all);
    }

    #[test]
    fn mismatch_shows_neighbours_and_consumes_no_entry() {
        let lines = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
            .map(|name| format!(r#"{{"program":"{name}","exit_code":0}}"#));
        let mut playback = playback(&lines.each_ref().map(String::as_str));
        for name in ["a", "b", "c", "d"] {
            let asked = entry(&format!(r#"{{"program":"{name}"}}"#));
            playback.take(1, &asked, &mut machine()).unwrap();
        }
        let asked = entry(r#"{"program":"x"}"#);
        let error = playback.take(5, &asked, &mut machine()).unwrap_err().to_string();
        assert_eq!(
            error,
            "subprocess call 5 does not match t.jsonl, line 6:\n  \
             program: tape \"e\", now \"x\"\n  \
             line 3: \"b\"\n  line 4: \"c\"\n  line 5: \"d\"\n> line 6: \"e\"\n  \
             line 7: \"f\"\n  line 8: \"g\"\n  line 9: \"h\"\n\
             if the new call is correct, record the tape again"
        );
        playback.take(6, &entry(r#"{"program":"e"}"#), &mut machine()).unwrap();
    }

    #[test]
    fn mismatch_message_is_bounded() {
        let args = vec![format!("\"{}\"", "x".repeat(300)); 300].join(",");
        let line = format!(r#"{{"program":"p","args":[{args}],"exit_code":0}}"#);
        let mut playback = playback(&[line.as_str(); 9]);
        let asked = entry(r#"{"program":"q"}"#);
        let error = playback.take(1, &asked, &mut machine()).unwrap_err();
        assert!(error.to_string().len() < 8000, "{}", error.to_string().len());
    }
}
