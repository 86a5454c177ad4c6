//! The oracle: a program that runs natively, and the rule for `tmp`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use belljar::WORKTREE;

use super::calls::Call;

/// A program that runs natively, one call at a time.
pub struct Native {
    child: Child,
    answers: BufReader<ChildStdout>,
    /// The folder in which the program began.
    folder: PathBuf,
    /// The folder that stands for `/tmp`.
    tmp: PathBuf,
}

/// The rules for the calls of a program.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Whether the program cannot distinguish `/tmp/x` from `tmp/x`.
    pub rule: bool,
    /// Whether lookups from a directory that the program has opened stay beneath it.
    pub confines: bool,
    /// Whether one call of the program makes several system calls, with paths of their own. The rule for `tmp` cannot
    /// be applied to these, and they may lead out of the folder unnoticed.
    pub is_composed: bool,
}

/// Whether `path`, resolved by its names alone, leads above its start.
fn is_above(path: &str) -> bool {
    let mut depth = 0;
    path.split('/').any(|name| {
        depth += match name {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth < 0
    })
}

/// `path` without `.` and `..`, as if all its directories existed and none were a link.
fn without_dots(path: &str) -> String {
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}

/// Whether the first name of `path` is `..`.
pub fn leads_above(path: &str) -> bool {
    path.split('/').find(|name| !["", "."].contains(name)) == Some("..") && !path.starts_with('/')
}

/// Whether the directory whose path Linux shows as `path` was removed.
pub fn is_removed(path: &Path) -> bool {
    path.to_str().unwrap().ends_with(" (deleted)")
}

/// Linux's number of the error for a missing file.
const ENOENT: i32 = 2;

/// What a path leads to.
#[derive(PartialEq)]
pub enum Leads {
    /// To an entry of the folder, or of the folder that stands for `/tmp`.
    Within,
    /// Out of these on the way, where the two sides have different entries.
    Out,
}

/// Where `path` leads from the folder `from`, which it cannot leave if `confines` is set. `tops` are the folder and the
/// one that stands for `/tmp`.
pub fn leads(tops: [&Path; 2], from: &Path, path: &str, follows: bool, confines: bool) -> Leads {
    let mut here = from.to_owned();
    let components = |text: &str| text.split('/').rev().map(str::to_owned).collect::<Vec<_>>();
    let mut todo = components(path);
    if path.starts_with('/') {
        here = PathBuf::from("/");
    }
    let mut links = 0;
    while let Some(name) = todo.pop() {
        match name.as_str() {
            "" | "." => continue,
            ".." if tops.contains(&&*here) => return Leads::Out,
            ".." if confines && here == from => return Leads::Out,
            ".." => {
                here.pop();
                continue;
            }
            name => here.push(name),
        }
        let Ok(found) = fs::symlink_metadata(&here) else { return Leads::Within };
        let is_last = todo.iter().all(String::is_empty) && todo.is_empty();
        if found.is_symlink() && (!is_last || follows) {
            links += 1;
            if links > 40 {
                return Leads::Within;
            }
            let text = fs::read_link(&here).unwrap();
            here.pop();
            todo.extend(components(text.to_str().unwrap()));
        } else if !found.is_dir() {
            return Leads::Within;
        }
    }
    Leads::Within
}

impl Native {
    pub fn start(program: &Path) -> Self {
        let mut child =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers, folder: PathBuf::new(), tmp: PathBuf::new() }
    }

    fn tell(&mut self, line: &str) -> String {
        self.child.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    pub fn begin(&mut self, folder: &Path, tmp: &Path) {
        (self.folder, self.tmp) = (folder.canonicalize().unwrap(), tmp.canonicalize().unwrap());
        assert_eq!(self.tell(&format!("begin\t-\t{}\n", self.folder.display())).trim(), "ok");
    }

    /// The folder open in the slot `slot`; `None` if there is none.
    fn folder_of(&mut self, slot: usize) -> Option<PathBuf> {
        let answer = self.tell(&format!("descriptor\t-\t{slot}\n"));
        let fd = answer.strip_prefix("ok ").unwrap();
        fs::read_link(format!("/proc/{}/fd/{fd}", self.child.id())).ok()
    }

    /// The current directory of the program.
    fn current(&self) -> PathBuf {
        fs::read_link(format!("/proc/{}/cwd", self.child.id())).unwrap()
    }

    /// The path of the current directory inside; `.` if it was removed, and for the worktree, which cannot be removed
    /// inside.
    pub fn here(&self) -> String {
        let here = self.current();
        match here.strip_prefix(&self.folder) {
            Ok(below) if !is_removed(&here) && here != self.folder => {
                format!("{WORKTREE}/{}", below.display())
            }
            _ => ".".to_owned(),
        }
    }

    /// The native path for `path` from the current directory: the worktree is the folder, and the rule for `tmp`
    /// applies.
    fn meant(&self, path: &str, rule: bool) -> String {
        if let Some(rest) = path.strip_prefix(WORKTREE) {
            return format!("{}{rest}", self.folder.display());
        }
        let bare = path.trim_start_matches("./");
        if let Some(rest) = bare.strip_prefix("tmp/")
            && rule
            && !rest.trim_matches('/').is_empty()
            && fs::symlink_metadata(self.folder.join("tmp")).is_err()
        {
            return format!("{}/{rest}", self.tmp.display());
        }
        path.to_owned()
    }

    fn leads(&self, from: &Path, path: &str, follows: bool, confines: bool) -> Leads {
        leads([&self.folder, &self.tmp], from, path, follows, confines)
    }

    /// The answer to `call`; `None` if the call cannot be compared.
    pub fn call(&mut self, call: &Call, rules: Rules) -> Option<String> {
        let Rules { rule, confines, is_composed } = rules;
        if is_composed && (is_above(&call.path) || call.has_two_paths() && is_above(&call.other)) {
            return None;
        }
        let from = match call.slot {
            Some(slot) => self.folder_of(slot),
            None => Some(self.current()),
        };
        let current = self.current();
        let is_above_removed = |from: &Path, path: &str| is_removed(from) && leads_above(path);
        let above_removed = from.as_ref().is_some_and(|from| is_above_removed(from, &call.path))
            || call.has_two_paths() && is_above_removed(&current, &call.other);
        if above_removed && is_composed {
            return None;
        }
        if above_removed {
            // In POSIX, a removed directory has no `..`: see `docs/cli.md`.
            return Some(format!("error {ENOENT}"));
        }
        let path =
            if call.slot.is_none() { self.meant(&call.path, rule) } else { call.path.clone() };
        let in_tmp = |path: &str| path.starts_with(&*self.tmp.display().to_string());
        // A slash at the end follows a link in every call.
        let follows = |path: &str| call.may_follow() || path.ends_with('/');
        if let Some(from) = &from
            && self.leads(from, &path, follows(&path), confines && call.slot.is_some())
                == Leads::Out
        {
            return None;
        }
        // The first system calls may create directories from which a later `..` goes up.
        let later = |path: &str| self.leads(&self.folder, &without_dots(path), true, false);
        if is_composed
            && (later(&path) == Leads::Out
                || call.has_two_paths() && later(&call.other) == Leads::Out)
        {
            return None;
        }
        let mut other = call.other.clone();
        if call.has_two_paths() {
            other = self.meant(&call.other, rule);
            if self.leads(&current, &other, follows(&other), false) == Leads::Out {
                return None;
            }
            let from_tmp = from.as_ref().is_some_and(|from| from.starts_with(&self.tmp));
            if in_tmp(&other) != (in_tmp(&path) || from_tmp) {
                // From one mount to another: `docs/cli.md` describes the answer.
                return None;
            }
        }
        // Removing the tree may remove what `tmp` refers to, and then continues.
        if call.name == "remove_dir_all" && path.contains("tmp/") && path.contains("..") {
            return None;
        }
        if is_composed && (path != call.path || call.has_two_paths() && other != call.other) {
            return None;
        }
        let answer = self.tell(&call.with(&path, &other));
        let is_path = call.name == "getcwd" && answer.starts_with("ok");
        Some(if is_path {
            answer.replacen(&*self.folder.display().to_string(), WORKTREE, 1)
        } else {
            answer
        })
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
