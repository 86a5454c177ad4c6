//! The compared calls, drawn at random, and the initial contents of the folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use belljar::WORKTREE;

use crate::support::plans::Chance;

/// Names of entries. Many worktrees have some of the first; the kernel gives `tmp` and `dev` a
/// meaning.
pub const NAMES: [&str; 13] =
    ["a", "b", "src", "lib", "bin", "etc", "usr", "home", "mnt", "work", "x.c", "tmp", "dev"];

/// Stands for the path of the current directory at the time of the call.
pub const HERE: &str = "(here)";

/// A program's slots for open directories.
pub const SLOTS: usize = 3;

/// A call on paths, as the programs in `tests/guests` read it.
#[derive(Clone, Debug)]
pub struct Call {
    pub name: &'static str,
    pub slot: Option<usize>,
    pub path: String,
    /// A second path, the text of a link, or the slot to fill.
    pub other: String,
}

impl Call {
    pub fn line(&self) -> String {
        self.with(&self.path, &self.other)
    }

    pub fn with(&self, path: &str, other: &str) -> String {
        let slot = self.slot.map_or("-".to_owned(), |slot| slot.to_string());
        format!("{}\t{slot}\t{path}\t{other}\n", self.name)
    }

    /// Whether `other` is a path from the current directory.
    pub fn has_two_paths(&self) -> bool {
        ["rename", "rename_into", "link", "link_into", "hard_link", "copy"].contains(&self.name)
    }

    /// Whether a link at the end of the path may be followed.
    pub fn may_follow(&self) -> bool {
        let stays = [
            "mkdir",
            "rmdir",
            "unlink",
            "rename",
            "rename_into",
            "link",
            "link_into",
            "symlink",
            "lstat",
            "readlink",
            "create_dir",
            "remove_dir",
            "remove_file",
            "hard_link",
            "read_link",
            "symlink_metadata",
        ];
        !stays.contains(&self.name)
    }
}

pub fn draw_path(chance: &mut Chance) -> String {
    let name = |chance: &mut Chance| {
        // Half of the names are one of three, so that calls meet.
        let names = if chance.below(2) == 0 { &NAMES[..3] } else { &NAMES[..] };
        names[chance.below(names.len())]
    };
    let mut path = String::new();
    for _ in 0..chance.below(12) / 10 {
        path.push_str("./");
    }
    let separators = chance.below(20) / 9;
    path + &join_names(chance, separators, name)
}

/// Names drawn by `name`, or `..`, with `separators` between them, and sometimes one at the end.
pub fn join_names(
    chance: &mut Chance,
    separators: usize,
    name: impl Fn(&mut Chance) -> &'static str,
) -> String {
    let mut path = String::new();
    for index in 0..=separators {
        if index > 0 {
            path.push_str(["/", "/", "/", "//", "/./"][chance.below(5)]);
        }
        path.push_str(if index > 0 && chance.below(8) == 0 { ".." } else { name(chance) });
    }
    path + ["", "", "", "", "", "", "", "", "/", "/."][chance.below(10)]
}

/// The text of a link: a relative path, which may lead nowhere.
pub fn draw_text(chance: &mut Chance) -> String {
    let above = ["", "", "../"][chance.below(3)];
    format!("{above}{}", draw_path(chance))
}

/// Calls of C programs; some occur more often.
pub const C_CALLS: [&str; 46] = [
    "mkdir",
    "mkdir",
    "mkdir",
    "rmdir",
    "unlink",
    "rename",
    "rename",
    "rename_into",
    "link",
    "link_into",
    "symlink",
    "symlink",
    "stat",
    "stat",
    "lstat",
    "readlink",
    "create",
    "create",
    "create",
    "exclusive",
    "append",
    "update",
    "cut",
    "read",
    "read_or_create",
    "read_no_follow",
    "list",
    "opendir",
    "opendir",
    "opendir",
    "close",
    "create_directory",
    "fd_stat",
    "fd_advise",
    "fd_allocate",
    "fd_cut",
    "fd_sync",
    "fd_append",
    "fd_nonblock",
    "fd_flags",
    "fd_poll",
    "fd_read",
    "fd_pread",
    "fd_write",
    "fd_pwrite",
    "fd_times",
];

/// Calls of C programs that know their current directory. `chdir` and `getcwd` are added to the
/// others.
pub const CURRENT_DIR_CALLS: [&str; 54] = {
    let mut calls = ["chdir"; 54];
    let mut at = 0;
    while at < C_CALLS.len() {
        calls[at] = C_CALLS[at];
        at += 1;
    }
    calls[52] = "getcwd";
    calls[53] = "getcwd";
    calls
};

/// Calls of programs that use Rust's standard library.
pub const STD_CALLS: [&str; 26] = [
    "create_dir",
    "create_dir_all",
    "create_dir_all",
    "remove_dir",
    "remove_dir_all",
    "remove_file",
    "rename",
    "rename",
    "hard_link",
    "write",
    "write",
    "read",
    "read_link",
    "exists",
    "is_dir",
    "copy",
    "append",
    "create_new",
    "persist",
    "persist",
    "generate",
    "generate",
    "generate",
    "read_dir",
    "metadata",
    "symlink_metadata",
];

pub fn draw_call(chance: &mut Chance, names: &[&'static str], has_slots: bool) -> Call {
    let name = names[chance.below(names.len())];
    let has_dir = !["chdir", "getcwd"].contains(&name);
    let slot = (has_slots && has_dir && chance.below(4) == 0).then(|| chance.below(SLOTS));
    if name.starts_with("fd_") {
        let slot = Some(chance.below(SLOTS));
        return Call { name, slot, path: ".".to_owned(), other: String::new() };
    }
    let other = match name {
        "symlink" => draw_text(chance),
        "opendir" => chance.below(SLOTS).to_string(),
        _ => draw_path(chance),
    };
    let mut path = draw_path(chance);
    if name == "close" {
        return Call { name, slot: None, path: chance.below(SLOTS).to_string(), other };
    }
    // Natively an empty path is an error before the descriptor is; libraries for WASI take one from the current directory
    // for `.`.
    if slot.is_some() && chance.below(16) == 0 {
        path.clear();
    }
    if names.contains(&"chdir") {
        path = match (name, chance.below(8)) {
            ("chdir", 0) => WORKTREE.to_owned(),
            ("chdir", 1) => format!("{WORKTREE}/{path}"),
            ("chdir", 2) => [".", ".."][chance.below(2)].to_owned(),
            ("rmdir", 0..4) | ("rename", 0) => HERE.to_owned(),
            (_, 3) => format!("../{path}"),
            _ => path,
        };
    }
    Call { name, slot: slot.filter(|_| path != HERE), path, other }
}

/// `call` with a name of 255 or 256 bytes in some of its paths: a file system takes 255.
pub fn lengthened(chance: &mut Chance, call: &Call) -> Call {
    let mut longer = |path: &str| {
        let at = chance.below(24);
        let names: Vec<&str> = path.split('/').collect();
        if at >= names.len() || ["", ".", ".."].contains(&names[at]) {
            return path.to_owned();
        }
        let long = "n".repeat(255 + chance.below(2));
        let longer =
            names.iter().enumerate().map(|(index, name)| if index == at { &long } else { *name });
        longer.collect::<Vec<_>>().join("/")
    };
    let is_path = call.path != HERE && call.name != "close" && !call.name.starts_with("fd_");
    let path = if is_path { longer(&call.path) } else { call.path.clone() };
    let other = if call.has_two_paths() || call.name == "symlink" {
        longer(&call.other)
    } else {
        call.other.clone()
    };
    Call { path, other, ..call.clone() }
}

/// Creates the same entries in both folders.
pub fn plant(chance: &mut Chance, folders: [&Path; 2]) {
    for _ in 0..chance.below(12) {
        let (path, text, kind) = (draw_path(chance), draw_text(chance), chance.below(4));
        let path = path.trim_end_matches(['/', '.']);
        if path.contains("..") || path.is_empty() {
            continue;
        }
        for folder in folders {
            let place = folder.join(path);
            // A link created earlier can lead outside the folder.
            let parent = place.parent().and_then(|parent| parent.canonicalize().ok());
            let is_elsewhere =
                parent.is_some_and(|it| !it.starts_with(folder.canonicalize().unwrap()));
            if is_elsewhere || fs::symlink_metadata(&place).is_ok() {
                continue;
            }
            // A call that fails, fails in both folders.
            let _ = match kind {
                0 | 1 => fs::create_dir(place),
                2 => fs::write(place, path),
                _ => symlink(&text, place),
            };
        }
    }
}
