//! How many lines differ between two files, as git counts them.

use std::io;
use std::process::Command;

/// Lines added and removed from `old` to `new`. `git` is how git is called: `Command::new("git")`, but for tests.
///
/// # Errors
/// Git cannot be started, or does not answer with two numbers.
pub fn changed_lines(mut git: Command, old: &str, new: &str) -> io::Result<(u32, u32)> {
    let output = git.args(["diff", "--no-index", "--numstat", old, new]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut counts = text.split('\t').map_while(|count| count.parse().ok());
    match (output.status.code(), counts.next(), counts.next()) {
        (Some(0), None, _) => Ok((0, 0)),
        (Some(1), Some(added), Some(removed)) => Ok((added, removed)),
        _ => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}
