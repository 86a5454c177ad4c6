//! The conditions that `belljar verify` varies when it repeats a run.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use super::args::run::RunArgs;
use super::args::values::mount_point;
use super::args::values::{Worktree, split_once};
use super::exit::Usage;
use super::home::cache_dir;
use super::perturbed::{self, Copied};
use crate::WORKTREE;
use crate::base::ambient;
use crate::base::disk;
use crate::base::errno::Errno;
use crate::tape::{Found, Kind, TapeReader};

/// What the first run has seen of its directories: a copy needs no more.
#[derive(Default)]
pub struct Seen {
    /// Paths that were looked up or read, and every directory above them.
    named: HashSet<String>,
    /// Paths that did not exist then, even if they do now.
    absent: HashSet<String>,
    listed: HashSet<String>,
    read: HashSet<String>,
}

impl Seen {
    /// # Errors
    /// The tape cannot be read.
    pub fn on(tape: &Path) -> Result<Self> {
        let mut seen = Self::default();
        for record in TapeReader::open(tape)? {
            match record?.kind {
                Kind::FileStat { path, found: Found::Errno { errno } }
                    if errno == Errno::Noent.name() =>
                {
                    seen.name(parent(&path));
                    seen.absent.insert(path);
                }
                Kind::FileStat { path, .. } | Kind::LinkRead { path, .. } => seen.name(&path),
                Kind::DirList { path, .. } => {
                    seen.name(&path);
                    seen.listed.insert(path);
                }
                Kind::FileRead { path, .. } => {
                    seen.name(&path);
                    seen.read.insert(path);
                }
                _ => {}
            }
        }
        Ok(seen)
    }

    fn name(&mut self, path: &str) {
        let mut path = path;
        while self.named.insert(path.to_owned()) {
            path = parent(path);
        }
    }

    fn kept(&self, path: &str) -> Copied {
        if self.absent.contains(path) {
            Copied::Nothing
        } else if self.read.contains(path) {
            Copied::Content
        } else if self.named.contains(path) || self.listed.contains(parent(path)) {
            Copied::Shape
        } else {
            Copied::Nothing
        }
    }
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        None | Some(("", _)) => "/",
        Some((parent, _)) => parent,
    }
}

/// A run under other conditions.
pub struct Repetition {
    /// The same run, over the copies.
    pub run: RunArgs,
    number: u32,
    home: PathBuf,
    code: PathBuf,
}

impl Repetition {
    /// The repetition `number`, from 1, of `run`, with copies of its directories in `home`.
    ///
    /// # Errors
    /// A directory cannot be copied.
    pub fn prepare(run: &RunArgs, number: u32, home: PathBuf, seen: &Seen) -> Result<Self> {
        let mut again = run.clone();
        disk::create_private_dir_all(&home)?;
        let copy = |from: &Path, at: &str, name: &str| -> Result<PathBuf> {
            let (to, at) = (home.join(name), at.trim_end_matches('/'));
            let keep = |path: &str| seen.kept(&format!("{at}/{path}"));
            perturbed::copy_tree(from, &to, u64::from(number), &keep)?;
            Ok(to)
        };
        let mut moves = Vec::new();
        let mut visible = Vec::new();
        if !run.mounts.no_worktree {
            let Worktree { host, read_only } = run.mounts.worktree.clone().unwrap_or_default();
            let to = copy(&host, WORKTREE, "tree")?;
            moves.push((disk::canonical(&host)?, to.clone()));
            visible.push(WORKTREE.to_owned());
            again.mounts.worktree = Some(Worktree { host: to, read_only });
        }
        for (index, mount) in again.mounts.dir.iter_mut().enumerate() {
            let at = mount_point(&mount.guest, run.mounts.no_worktree).map_err(Usage)?;
            let to = copy(&mount.host, &at, &format!("dir {index}"))?;
            moves.push((disk::canonical(&mount.host)?, to.clone()));
            visible.push(at);
            mount.host = to;
        }
        // The directory of compiled code shows as a hidden one: it lies in the copy, too.
        let mut code = disk::canonical(&cache_dir()?)?;
        for (from, to) in &moves {
            if let Ok(below) = code.strip_prefix(from) {
                code = to.join(below);
            }
        }
        // A path under which the program itself finds the directory is not one of the host's.
        let is_hosts = |path: &Path| {
            let is_visible = visible.iter().any(|at| path.starts_with(at));
            !is_visible && path != Path::new("/tmp") && path.parent().is_some()
        };
        moves.retain(|(from, _)| is_hosts(from));
        for word in &mut again.command[1..] {
            *word = moved(word, &moves);
        }
        for variable in &mut again.env {
            if split_once(variable, "=").is_some() {
                *variable = moved(variable, &moves);
            } else {
                variable.push(format!("={}", user(number)));
            }
        }
        Ok(Self { run: again, number, home, code })
    }

    /// The host's variables that differ: user, directories, language, time zone.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let user = user(self.number);
        let mut variables: Vec<(&'static str, OsString)> = vec![
            ("HOME", self.home.clone().into()),
            ("PWD", self.home.clone().into()),
            ("COLUMNS", "17".into()),
            ("SOURCE_DATE_EPOCH", "1".into()),
            // Otherwise it would be below the home directory.
            ("BELLJAR_CACHE_DIR", self.code.clone().into()),
        ];
        for name in ["USER", "LOGNAME", "USERNAME", "BELLJAR_VERIFY"] {
            variables.push((name, user.clone().into()));
        }
        for (name, mut values) in [
            ("LANG", ["tr_TR.UTF-8", "ja_JP.UTF-8"]),
            ("LC_ALL", ["tr_TR.UTF-8", "ja_JP.UTF-8"]),
            ("TZ", ["America/Lima", "Pacific/Auckland"]),
        ] {
            values.rotate_left(self.number as usize % 2);
            // The host's own value would be no variation.
            let host = ambient::env_var(name);
            let other = values.into_iter().find(|value| host.as_deref() != Some(OsStr::new(value)));
            variables.extend(other.map(|value| (name, value.into())));
        }
        variables
    }
}

/// The user name of a repetition.
fn user(number: u32) -> String {
    format!("verifier{number}")
}

/// The names of the conditions that vary in the repetitions of `run`.
pub fn varied(run: &RunArgs) -> Vec<&'static str> {
    let mut varied = Vec::new();
    if !run.mounts.no_worktree || !run.mounts.dir.is_empty() {
        varied.extend(["folder", "file times", "file order"]);
    }
    varied.extend(["environment", "user name", "language", "time zone", "host load", "start time"]);
    varied
}

/// Does `work` while every processor has something else to do.
pub fn on_a_busy_machine<T>(work: impl FnOnce() -> T) -> T {
    let busy = AtomicBool::new(true);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..processors {
            let work = || {
                while busy.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            // If no more threads can be started, the host is busy anyway.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        let done = work();
        busy.store(false, Ordering::Relaxed);
        done
    })
}

/// `text` with the paths of directories replaced by those of their copies, as `$PWD` would be there.
fn moved(text: &OsStr, moves: &[(PathBuf, PathBuf)]) -> OsString {
    let Some(unmoved) = text.to_str() else { return text.to_owned() };
    let mut text = unmoved.to_owned();
    for (from, to) in moves {
        if let (Some(from), Some(to)) = (from.to_str(), to.to_str()) {
            text = replace_path(&text, from, to);
        }
    }
    text.into()
}

/// `text` with `to` in place of `from`, where that is not the beginning of a longer name.
fn replace_path(text: &str, from: &str, to: &str) -> String {
    let mut parts = text.split(from);
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let goes_on = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        replaced.push_str(if part.starts_with(goes_on) { from } else { to });
        replaced.push_str(part);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_replaced_whole() {
        let replace = |text| replace_path(text, "/home/me", "/there");
        assert_eq!(replace("/home/me"), "/there");
        assert_eq!(replace("-I/home/me/inc:/home/me"), "-I/there/inc:/there");
        assert_eq!(replace("/home/me2 /home/me.bak"), "/home/me2 /home/me.bak");
        assert_eq!(replace("me"), "me");
    }
}
