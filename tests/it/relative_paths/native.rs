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
    /// The folder where it began.
    folder: PathBuf,
    /// What stands for `/tmp`.
    tmp: PathBuf,
}

/// What holds for the calls of a program.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Whether it cannot tell `/tmp/x` from `tmp/x`.
    pub rule: bool,
    /// Whether lookups from a directory that it has opened stay beneath that.
    pub confines: bool,
    /// Whether one call of it is several of the system, with paths of their own: nobody here could
    /// apply the rule to these, nor see them lead out of the folder.
    pub is_composed: bool,
}

/// Whether `path` leads above where it begins, once all of it is there.
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

/// `path` if all its directories are there, and no links.
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

/// Whether the directory that Linux calls `path` is there no more.
pub fn is_removed(path: &Path) -> bool {
    path.to_str().unwrap().ends_with(" (deleted)")
}

/// Linux's number for what is not there.
const ENOENT: i32 = 2;

/// What a path leads to.
#[derive(PartialEq)]
pub enum Leads {
    /// To something in the folder, or in what stands for `/tmp`.
    Within,
    /// Out of it on the way, where the two sides have other things.
    Out,
}

/// Where `path` leads, from the folder `from`, which is itself what it may not leave if it
/// `confines`. `tops` are the folder and what stands for `/tmp`.
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

    /// The folder of the slot `slot`; `None` if there is none, or none any more.
    fn folder_of(&mut self, slot: usize) -> Option<PathBuf> {
        let answer = self.tell(&format!("descriptor\t-\t{slot}\n"));
        let fd = answer.strip_prefix("ok ").unwrap();
        fs::read_link(format!("/proc/{}/fd/{fd}", self.child.id())).ok()
    }

    /// The folder where it is.
    fn current(&self) -> PathBuf {
        fs::read_link(format!("/proc/{}/cwd", self.child.id())).unwrap()
    }

    /// The path of the current directory inside; `.` of one that has none, and of the worktree, which
    /// nobody can remove inside.
    pub fn here(&self) -> String {
        let here = self.current();
        match here.strip_prefix(&self.folder) {
            Ok(below) if !is_removed(&here) && here != self.folder => {
                format!("{WORKTREE}/{}", below.display())
            }
            _ => ".".to_owned(),
        }
    }

    /// What `path` from the current directory means: the folder is the worktree; and the rule for
    /// `tmp`.
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

    /// The answer to `call`; `None` if it is none to compare.
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
            // As POSIX has it, which takes `..` with the directory: `docs/cli.md` says so.
            return Some(format!("error {ENOENT}"));
        }
        let path =
            if call.slot.is_none() { self.meant(&call.path, rule) } else { call.path.clone() };
        let in_tmp = |path: &str| path.starts_with(&*self.tmp.display().to_string());
        // A slash at the end follows a link, whatever the call.
        let follows = |path: &str| call.may_follow() || path.ends_with('/');
        if let Some(from) = &from
            && self.leads(from, &path, follows(&path), confines && call.slot.is_some())
                == Leads::Out
        {
            return None;
        }
        // Its first calls may make the directories that the path goes up from again.
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
                // From one mount to another: `docs/cli.md` says what that answers.
                return None;
            }
        }
        // Removing the tree removes what `tmp` means, and goes on.
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
