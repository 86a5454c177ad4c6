//! Commands in Markdown, and what they print.
//!
//! In a block fenced as `console`, a line that begins with `$ ` is a command for bash; on Windows, in one fenced as `bat`, one
//! that begins with `C:\job> ` is a command for `cmd`. The lines up to the next command are its standard output and standard
//! error together. A line `...` matches any lines; `...` within a line matches any text. Other blocks are not run.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::{cache_dir, stdout};

/// How commands of documents run belljar in a clone.
const IN_A_CLONE: [&str; 2] = ["cargo run --no-default-features --features cli --", "cargo run --"];

/// The blocks that are run here, and what commands in them begin with.
const FENCE: &str = if cfg!(windows) { "bat" } else { "console" };
const PROMPT: &str = if cfg!(windows) { r"C:\job> " } else { "$ " };

/// A command of a document.
pub struct Example {
    /// Its line, from 1 on.
    pub line: usize,
    pub command: String,
    /// The lines that it prints, with their wildcards.
    pub expected: Vec<String>,
}

/// The commands of a document, in order.
pub fn examples(text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            in_block = !in_block && language == FENCE;
        } else if in_block {
            if let Some(command) = line.strip_prefix(PROMPT) {
                let command = command.to_owned();
                found.push(Example { line: number + 1, command, expected: Vec::new() });
            } else if let Some(example) = found.last_mut() {
                example.expected.push(line.to_owned());
            }
        }
    }
    found
}

impl Example {
    /// Runs the command in `folder`, with this build of belljar first in `PATH`, the home `home`, and `variables`. Returns what
    /// is wrong with what it prints, if anything is.
    pub fn mistake(
        &self,
        document: &str,
        folder: &Path,
        home: &Path,
        variables: &[(&str, OsString)],
    ) -> Option<String> {
        let command =
            IN_A_CLONE.iter().fold(self.command.clone(), |it, way| it.replace(way, "belljar"));
        let output = shell(&command)
            .current_dir(folder)
            .env("PATH", path_with_belljar())
            .env("BELLJAR_CACHE_DIR", cache_dir())
            .env("BELLJAR_HOME", home)
            .env_remove("BELLJAR_TOOLCHAIN")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let printed: String = stdout(&output)
            .split_inclusive('\n')
            // Whether a module must be compiled, and for how long, depends on the machine.
            .filter(|line| !line.starts_with("belljar: compiling "))
            .collect();
        let lines: Vec<&str> = printed.lines().collect();
        (!matches(&self.expected, &lines)).then(|| {
            let (expected, line) = (self.expected.join("\n"), self.line);
            format!(
                "{document}:{line}: {PROMPT}{}\n-- expected\n{expected}\n-- printed\n{printed}",
                self.command
            )
        })
    }
}

/// A shell that carries out `command`, whose output and errors are one stream.
fn shell(command: &str) -> Command {
    #[cfg(unix)]
    {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("exec 2>&1; {command}")]);
        shell
    }
    #[cfg(windows)]
    {
        use std::os::windows::process::CommandExt;
        let mut shell = Command::new("cmd");
        // `cmd` removes the outer quotes, and takes what is between them as it is.
        shell.raw_arg(format!("/d /s /c \"{command} 2>&1\""));
        shell
    }
}

/// `PATH` with the folder of this build of belljar in front.
pub fn path_with_belljar() -> OsString {
    let binary = Path::new(env!("CARGO_BIN_EXE_belljar"));
    let others = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(binary.parent().unwrap().to_owned());
    std::env::join_paths(folders.chain(std::env::split_paths(&others))).unwrap()
}

fn line_matches(pattern: &str, line: &str) -> bool {
    let mut rest = line;
    let parts: Vec<&str> = pattern.split("...").collect();
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        let at = match (index, is_last) {
            (0, _) => rest.starts_with(part).then_some(0),
            (_, true) => rest.ends_with(part).then(|| rest.len() - part.len()),
            _ => rest.find(part),
        };
        let Some(at) = at else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

fn matches(expected: &[String], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((first, others)) if first == "..." => {
            (0..=printed.len()).any(|skip| matches(others, &printed[skip..]))
        }
        Some((first, others)) => printed
            .split_first()
            .is_some_and(|(line, rest)| line_matches(first, line) && matches(others, rest)),
    }
}

#[test]
fn ellipsis_matches_any_text() {
    assert!(line_matches("a ... c", "a b c"));
    assert!(line_matches("...", "anything"));
    assert!(!line_matches("a ... c", "a b d"));
    assert!(!line_matches("a", "a b"));
    let expected: Vec<String> = ["a", "...", "z"].map(String::from).to_vec();
    assert!(matches(&expected, &["a", "b", "c", "z"]));
    assert!(!matches(&expected, &["a", "b"]));
}
