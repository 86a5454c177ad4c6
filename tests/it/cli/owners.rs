//! `--apply` keeps the owner, the access control list and the attributes of a file that it rewrites.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};

use crate::cli::scratch;
use crate::cli::tape::succeed;
use crate::support::skipped;

fn owner(path: &Path) -> (u32, u32, u32) {
    let found = std::fs::metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let len = fgetxattr(File::open(path).unwrap(), name, &mut value[..]).ok()?;
    value.truncate(len);
    Some(value)
}

/// An access control list as `setfacl -m u:1001:r,g::-` makes it: user 1001 may read, the group has no access.
const LIST: &[u8] = &[
    2, 0, 0, 0, // version
    1, 0, 6, 0, 255, 255, 255, 255, // the owner: rw
    2, 0, 4, 0, 0xe9, 3, 0, 0, // user 1001: r
    4, 0, 0, 0, 255, 255, 255, 255, // the group: nothing
    16, 0, 4, 0, 255, 255, 255, 255, // mask: r
    32, 0, 0, 0, 255, 255, 255, 255, // others: nothing
];
const LIST_NAME: &str = "system.posix_acl_access";

/// Regression: the file belonged to root afterwards, and its owner could not read it.
#[test]
fn file_changed_by_root_keeps_its_owner() {
    let folder = scratch();
    let note = folder.path().join("note.txt");
    if chown(&note, Some(1000), Some(1234)).is_err() {
        return skipped("cli::owners", "only root gives files to others");
    }
    for mode in [0o600, 0o664, 0o4755, 0o400] {
        chown(&note, Some(1000), Some(1234)).unwrap();
        std::fs::set_permissions(&note, PermissionsExt::from_mode(mode)).unwrap();
        let script = "cp note.txt kept; cat kept kept > note.txt; rm kept";
        succeed(folder.path(), &["sh", "--apply", "-c", script]);
        assert_eq!(owner(&note), (1000, 1234, mode & 0o1777), "{mode:o}");
    }
}

/// Regression: users allowed by the access control list could no longer read the file, and its group could.
#[test]
fn a_file_that_is_changed_keeps_its_access_list_and_its_attributes() {
    let folder = scratch();
    let note = folder.path().join("note.txt");
    let file = File::open(&note).unwrap();
    if fsetxattr(&file, LIST_NAME, LIST, XattrFlags::empty()).is_err()
        || fsetxattr(&file, "user.note", b"kept", XattrFlags::empty()).is_err()
    {
        return skipped("cli::owners", "the disk has no access lists, or no attributes of users");
    }
    let before = owner(&note);
    for script in ["echo more >> note.txt", "mv note.txt sub; echo x >> sub; mv sub note.txt"] {
        succeed(folder.path(), &["sh", "--apply", "-c", script]);
        assert_eq!(attribute(&note, LIST_NAME).as_deref(), Some(LIST), "{script}");
        assert_eq!(attribute(&note, "user.note").as_deref(), Some(&b"kept"[..]), "{script}");
        assert_eq!(owner(&note), before, "{script}");
    }
}

/// Regression: a refused `--apply` left additional names of other users' files behind, which this user could not
/// remove, and the folder stayed locked for a recovery that could not complete.
#[test]
fn files_of_others_in_a_sticky_directory_are_refused_before_anything_is_touched() {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let test = "files_of_others_in_a_sticky_directory_are_refused_before_anything_is_touched";
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let set = |name: &str, owner, mode| {
        let given = chown(at(name), Some(owner), Some(owner));
        std::fs::set_permissions(at(name), PermissionsExt::from_mode(mode)).unwrap();
        given.is_ok()
    };
    for name in ["tree", "tree/shared", "tree/shared/own", "home"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    for name in ["tree/k", "tree/shared/theirs", "tree/shared/mine", "tree/shared/own/theirs"] {
        std::fs::write(at(name), "old\n").unwrap();
    }
    set("", 0, 0o755);
    for (name, owner, mode) in [
        ("home", NOBODY, 0o700),
        ("tree", NOBODY, 0o755),
        ("tree/k", NOBODY, 0o644),
        ("tree/shared", 1000, 0o1777),
        ("tree/shared/theirs", 1000, 0o666),
        ("tree/shared/mine", NOBODY, 0o644),
        ("tree/shared/own", NOBODY, 0o755),
        ("tree/shared/own/theirs", 1000, 0o666),
    ] {
        if !set(name, owner, mode) {
            return skipped(test, "only root gives files to others");
        }
    }
    let run = |args: &[&str]| {
        let mut command = crate::support::belljar(&at("tree"));
        command.env("BELLJAR_HOME", at("home")).env("BELLJAR_CACHE_DIR", at("home"));
        command.args(args).command().uid(NOBODY).gid(NOBODY);
        command.output().unwrap()
    };
    if run(&["--version"]).status.code() != Some(0) {
        return skipped(test, "others may not read this package's folder");
    }
    let before = crate::support::tree(&at("tree"));
    for (script, path) in [
        ("echo new > shared/theirs", "shared/theirs"),
        ("rm shared/theirs", "shared/theirs"),
        ("mv shared/theirs x", "shared/theirs"),
        ("rm -r shared/own", "shared/own/theirs"),
    ] {
        let output = run(&["sh", "--apply", "-c", &format!("echo new > k; {script}")]);
        let said = crate::support::stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{script}: {said}");
        let why = format!("cannot replace or remove {path}: it belongs to another user");
        assert!(said.contains(&why) && said.contains("nothing was written"), "{script}: {said}");
        assert_eq!(crate::support::tree(&at("tree")), before, "{script}");
    }
    let script = "echo new > shared/mine; echo new > shared/own/theirs; echo new > shared/n";
    let output = run(&["sh", "--apply", "-c", script]);
    assert!(output.status.success(), "{}", crate::support::stderr(&output));
    assert_eq!(std::fs::read_to_string(at("tree/shared/own/theirs")).unwrap(), "new\n");
    assert_eq!(crate::support::tree(&at("tree")).len(), before.len() + 1);
}
