//! Hints for arguments that are paths of the host, which the program sees elsewhere or not at all.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use super::args::values::SHELL;
use super::args::values::mount_point;
use super::text::printable;
use crate::base::disk;
use crate::kernel::guest::is_special;
use crate::process::{OutlineWord, outline};
use crate::{Overlay, WORKTREE};

/// Longest script that is examined, in bytes.
const SCRIPT_BYTES_MAX: u64 = 1 << 20;

/// A directory of the host that a program sees.
pub struct Folder {
    /// Where it is on the host.
    pub host: PathBuf,
    /// Where the program sees it.
    pub at: String,
}

/// The directories of the host that programs see.
pub struct View<'a> {
    /// The directories.
    pub folders: &'a [Folder],
    /// Where relative paths begin, in the namespace.
    pub cwd: &'a str,
    /// The option, or the command with an option, that mounts another directory.
    pub option: &'a str,
}

impl View<'_> {
    /// The hint for the first argument of `command`, a program and its arguments, that is a path of the
    /// host which the program does not see under that name. Words of a script count as arguments.
    pub fn hint(&self, command: &[OsString], vfs: &mut Overlay) -> Option<String> {
        let (program, args) = command.split_first()?;
        let script = if is_shell(program) { self.script(args, vfs) } else { None };
        let words = script.iter().flatten().map(String::as_str);
        let args = args.iter().filter_map(|arg| arg.to_str());
        args.chain(words).filter_map(path_in).find_map(|path| self.hint_of(path, vfs))
    }

    /// The words that are known before a run, of the script that a shell with these arguments runs.
    fn script(&self, args: &[OsString], vfs: &mut Overlay) -> Option<Vec<String>> {
        let mut words = args.iter().filter_map(|arg| arg.to_str());
        let mut word = words.next()?;
        while word.starts_with(['-', '+']) && !(word.starts_with('-') && word.contains('c')) {
            // The name of the option follows as a word of its own.
            if word.ends_with('o') {
                words.next()?;
            }
            word = words.next()?;
        }
        let text = if word.starts_with('-') {
            words.next()?.as_bytes().to_vec()
        } else {
            let at = format!("{}/{word}", self.cwd.trim_end_matches('/'));
            let at = if word.starts_with('/') { word } else { &at };
            let is_short = vfs.metadata(at).is_ok_and(|found| found.size <= SCRIPT_BYTES_MAX);
            if is_short { vfs.read(at).ok()? } else { return None }
        };
        let commands = outline(&text).ok()?;
        let known = commands.iter().flatten().filter_map(OutlineWord::text);
        Some(known.filter_map(|word| Some(std::str::from_utf8(word).ok()?.to_owned())).collect())
    }

    fn hint_of(&self, path: &str, vfs: &mut Overlay) -> Option<String> {
        if path.starts_with('/') {
            // A plain C library for WASI takes `/x` for `x`.
            let relative = format!("{}{path}", self.cwd.trim_end_matches('/'));
            let is_found = vfs.metadata(path).is_ok() || vfs.metadata(&relative).is_ok();
            let is_seen = is_found || is_special(path);
            return if is_seen { None } else { self.absolute(path) };
        }
        let at = format!("{}/{path}", self.cwd.trim_end_matches('/'));
        let is_seen = vfs.metadata(&at).is_ok();
        if is_seen { None } else { self.above(path) }
    }

    fn absolute(&self, path: &str) -> Option<String> {
        let host = Path::new(path);
        disk::symlink_metadata(host).ok()?;
        let real = disk::canonical(host).ok()?;
        let shown = printable(path);
        for Folder { host, at } in self.folders {
            let Ok(folder) = disk::canonical(host) else { continue };
            if let Some(rest) = real.strip_prefix(&folder).ok().and_then(Path::to_str) {
                let seen = format!("{}/{rest}", at.trim_end_matches('/'));
                let (folder, seen) = (printable(&folder.to_string_lossy()), printable(&seen));
                return Some(format!(
                    "{shown} is a path of the host; the program sees {folder} as {at}, and this as {}",
                    seen.trim_end_matches('/')
                ));
            }
        }
        let dir = folder_of(host)?;
        let dir = printable(dir.to_str()?);
        let how = format!("{} {dir}", self.option);
        Some(format!(
            "{shown} is a path of the host, which the program does not see; `{how}` shows it"
        ))
    }

    /// A relative path that leads above the worktree.
    fn above(&self, path: &str) -> Option<String> {
        let worktree = self.folders.iter().find(|folder| folder.at == WORKTREE)?;
        let below = self.cwd.strip_prefix(WORKTREE)?.trim_start_matches('/');
        if !leads_out(&Path::new(below).join(path)) {
            return None;
        }
        // If belljar's current directory is the worktree, the path as given is the shortest.
        let is_here = worktree.host == Path::new(".") && below.is_empty();
        let host = if is_here { path.into() } else { worktree.host.join(below).join(path) };
        disk::symlink_metadata(&host).ok()?;
        let dir = folder_of(&host)?;
        let (shown, folder) = (printable(path), printable(dir.to_str()?));
        let keeps_its_name = is_here && mount_point(&folder, false).is_ok_and(|at| at != "/");
        let what = format!("{shown} leads out of the worktree, and the program sees only that");
        if keeps_its_name {
            return Some(format!("{what}; `{} {folder}` shows it", self.option));
        }
        let rest = host.strip_prefix(&dir).ok()?.to_str()?;
        let seen = format!("/above/{rest}");
        let (seen, option) = (printable(seen.trim_end_matches('/')), self.option);
        Some(format!("{what}; `{option} {folder}::/above` shows it as {seen}"))
    }
}

/// Whether `program` has the name of the shell.
fn is_shell(program: &OsStr) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == SHELL)
}

/// The directory to mount so that `path` shows; none if that is the root of the host.
fn folder_of(path: &Path) -> Option<PathBuf> {
    let is_dir = disk::metadata(path).is_ok_and(|found| found.is_dir());
    let dir = if is_dir { path } else { path.parent()? };
    let is_root =
        dir.components().all(|part| matches!(part, Component::RootDir | Component::Prefix(_)));
    (!is_root).then(|| dir.to_owned())
}

/// Whether a relative path leads above its start, links ignored.
fn leads_out(path: &Path) -> bool {
    let mut depth = 0_i64;
    path.components().any(|part| {
        depth += match part {
            Component::ParentDir => -1,
            Component::Normal(_) => 1,
            _ => 0,
        };
        depth < 0
    })
}

/// The part of an argument that may be a path: all of it, what follows `=`, or what follows an option
/// of one letter.
fn path_in(arg: &str) -> Option<&str> {
    let is_path = |text: &&str| text.starts_with('/') || text.split('/').any(|part| part == "..");
    let value = arg.split_once('=').map(|(_, value)| value);
    let of_letter = arg.get(2..).filter(|_| arg.starts_with('-') && !arg.starts_with("--"));
    [value, of_letter, Some(arg)].into_iter().flatten().find(is_path).filter(|path| path.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stand_in_arguments_in_several_ways() {
        for (arg, path) in [
            ("/a/b", Some("/a/b")),
            ("--output=/a/b", Some("/a/b")),
            ("-I/usr/include", Some("/usr/include")),
            ("-I../lib", Some("../lib")),
            ("of=../x", Some("../x")),
            ("sub/../..", Some("sub/../..")),
            ("a/b", None),
            ("-v", None),
            ("/", None),
            ("s/a/b/", None),
            ("a..b", None),
        ] {
            assert_eq!(path_in(arg), path, "{arg}");
        }
    }

    #[test]
    fn a_path_leads_out_where_it_has_more_steps_up_than_down() {
        for (path, out) in
            [("..", true), ("a/..", false), ("a/../..", true), ("../a", true), ("a", false)]
        {
            assert_eq!(leads_out(Path::new(path)), out, "{path}");
        }
    }
}
