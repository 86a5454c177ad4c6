//! Files and trees from the host to a session, and back.

use std::fs;

use belljar::sandbox::{Copied, CopyError, Sandbox, SandboxSpec};

use super::{sandbox, sh};
use crate::support::{has_links, symlink, tree};

fn new() -> Sandbox {
    sandbox(SandboxSpec::default())
}

#[test]
fn tree_is_unchanged_after_copy_in_and_copy_out() {
    let host = tempfile::tempdir().unwrap();
    let from = host.path().join("from");
    fs::create_dir_all(from.join("dir/empty")).unwrap();
    fs::write(from.join("dir/text"), "text\n").unwrap();
    fs::write(from.join("long"), vec![7; 3 << 20]).unwrap();
    fs::write(from.join("none"), "").unwrap();
    let mut sandbox = new();
    let copied = sandbox.copy_in(&from, "/tmp").unwrap();
    assert_eq!(copied, Copied { files: 3, directories: 3, ..Copied::default() });
    assert_eq!(sh(&mut sandbox, "cd /tmp/from; ls; cat dir/text"), "dir\nlong\nnone\ntext\n");
    sandbox.copy_in(&from, "/tmp/other").unwrap();
    sandbox.copy_in(&from.join("none"), "/tmp/other/dir/text").unwrap();
    assert_eq!(sh(&mut sandbox, "cd /tmp/other; ls dir; wc -c < dir/text"), "empty\ntext\n0\n");

    let to = host.path().join("to");
    sandbox.copy_out("/tmp/from", &to).unwrap();
    assert_eq!(tree(&to), tree(&from));
    sandbox.copy_out("/tmp/from/", &to).unwrap();
    assert_eq!(tree(&to.join("from")), tree(&from), "into a directory that is there");
    sandbox.copy_out("/tmp/from/dir/text", &host.path().join("renamed")).unwrap();
    assert_eq!(fs::read(host.path().join("renamed")).unwrap(), b"text\n");
    let all = host.path().join("all");
    fs::create_dir(&all).unwrap();
    sandbox.copy_out("/", &all).unwrap();
    assert_eq!(tree(&all.join("tmp/from")), tree(&from));
}

#[test]
fn copy_merges_directories_and_replaces_other_entries() {
    let host = tempfile::tempdir().unwrap();
    let to = host.path().join("d");
    fs::create_dir(&to).unwrap();
    fs::write(to.join("mine"), "mine").unwrap();
    fs::write(to.join("both"), "mine").unwrap();
    let mut sandbox = new();
    sh(&mut sandbox, "mkdir /tmp/d; echo new > /tmp/d/both; echo new > /tmp/d/new");
    sandbox.copy_out("/tmp/d", host.path()).unwrap();
    assert_eq!(fs::read(to.join("mine")).unwrap(), b"mine");
    assert_eq!(fs::read(to.join("both")).unwrap(), b"new\n");

    sh(&mut sandbox, "rm /tmp/d/both; mkdir /tmp/d/both; echo later > /tmp/d/a");
    let before = tree(&to);
    let error = sandbox.copy_out("/tmp/d", host.path()).unwrap_err();
    assert!(error.to_string().contains("d/both"), "{error}");
    assert_eq!(tree(&to), before, "all or nothing");
    sh(&mut sandbox, "echo file > /tmp/mine");
    fs::create_dir(to.join("deep")).unwrap();
    sh(&mut sandbox, "mkdir /tmp/e; echo x > /tmp/e/deep");
    assert!(sandbox.copy_out("/tmp/e/deep", &to).is_err(), "a directory gives way to no file");
}

/// Regression: `out/.` was copied as `out`, where `cp -r` copies what is in it.
#[test]
fn directory_that_ends_in_a_dot_is_copied_without_its_name() {
    let host = tempfile::tempdir().unwrap();
    let mut sandbox = new();
    sh(&mut sandbox, "mkdir -p /tmp/out/deep; echo text > /tmp/out/deep/file");
    for (from, copied) in [
        ("/tmp/out/.", "deep/file"),
        ("/tmp/out/./", "deep/file"),
        ("/tmp/out/deep/..", "deep/file"),
        ("/tmp/out/..", "out/deep/file"),
        ("/tmp/out/", "out/deep/file"),
        ("/tmp/out/deep/../../out", "out/deep/file"),
    ] {
        let to = host.path().join("to");
        fs::create_dir(&to).unwrap();
        sandbox.copy_out(from, &to).unwrap();
        assert_eq!(fs::read(to.join(copied)).unwrap(), b"text\n", "{from}");
        assert_eq!(tree(&to).len(), copied.split('/').count(), "{from}");
        sh(&mut sandbox, "mkdir /tmp/in");
        let out = to.join(copied).ancestors().nth(2).unwrap().to_owned();
        for from in [out.join("."), out.join("deep/..")] {
            sandbox.copy_in(&from, "/tmp/in").unwrap();
            assert_eq!(sh(&mut sandbox, "cd /tmp/in; find . -type f"), "./deep/file\n", "{from:?}");
        }
        sh(&mut sandbox, "rm -r /tmp/in");
        fs::remove_dir_all(&to).unwrap();
    }
}

#[test]
fn copy_names_missing_paths() {
    let host = tempfile::tempdir().unwrap();
    let mut sandbox = new();
    let names = |error: CopyError, name: &str| {
        assert!(error.to_string().contains(name), "{error}");
    };
    names(sandbox.copy_out("/tmp/nothing", host.path()).unwrap_err(), "tmp/nothing");
    // As on Linux, the parent of the root is the root.
    names(sandbox.copy_out("/../x", host.path()).unwrap_err(), "cannot copy /x: No such file");
    names(sandbox.copy_in(&host.path().join("nothing"), "/tmp").unwrap_err(), "nothing");
    sh(&mut sandbox, "echo x > /tmp/x");
    names(sandbox.copy_out("/tmp/x", &host.path().join("no/folder")).unwrap_err(), "no");
    fs::write(host.path().join("y"), "y").unwrap();
    names(sandbox.copy_in(&host.path().join("y"), "/tmp/no/folder").unwrap_err(), "tmp/no/folder");
    names(sandbox.list("/tmp/nothing").unwrap_err(), "/tmp/nothing");
}

/// Regression: the slash was ignored, so that a file took the name of a directory which was not there.
#[test]
fn a_path_that_ends_in_a_slash_is_a_directory_or_an_error() {
    let host = tempfile::tempdir().unwrap();
    let at = |path: &str| std::path::PathBuf::from(format!("{}/{path}", host.path().display()));
    fs::write(at("file"), "of the host").unwrap();
    fs::create_dir_all(at("tree/sub")).unwrap();
    let mut sandbox = new();
    sh(&mut sandbox, "cd /tmp; echo x > file; mkdir tree");
    let before = tree(host.path());
    let refused = |copied: Result<Copied, CopyError>, path: &str| {
        let error = copied.unwrap_err().to_string();
        assert!(error.contains(path) && error.contains("Not a directory"), "{path}: {error}");
    };
    for to in ["new/", "new/."] {
        refused(sandbox.copy_out("/tmp/file", &at(to)), "new/");
        refused(sandbox.copy_in(&at("file"), &format!("/tmp/{to}")), "/tmp/new/");
    }
    refused(sandbox.copy_in(&at("file"), "/tmp/file/"), "/tmp/file/");
    assert!(sandbox.copy_out("/tmp/file", &at("file/")).is_err());
    for from in ["file/", "file/."] {
        refused(sandbox.copy_out(&format!("/tmp/{from}"), &at("other")), "/tmp/file/");
        refused(sandbox.copy_in(&at(from), "/tmp/other"), "file/");
    }
    assert!(sandbox.list("/tmp/file/").unwrap_err().to_string().contains("Not a directory"));
    assert_eq!(tree(host.path()), before);
    assert_eq!(sh(&mut sandbox, "cd /tmp; ls; cat file"), "file\ntree\nx\n");

    sandbox.copy_in(&at("tree/"), "/tmp/new/").unwrap();
    sandbox.copy_in(&at("file"), "/tmp/new/").unwrap();
    assert_eq!(sh(&mut sandbox, "ls /tmp/new"), "file\nsub\n");
    sandbox.copy_out("/tmp/new/", &at("made/")).unwrap();
    sandbox.copy_out("/tmp/file", &at("made/sub/")).unwrap();
    assert_eq!(fs::read(at("made/sub/file")).unwrap(), b"x\n");
}

/// A link in a session could lead to files of the host, and a link on the host to files of other
/// users.
#[test]
fn no_link_is_followed_on_either_side() {
    if !has_links("no_link_is_followed_on_either_side") {
        return;
    }
    let (host, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let secret = outside.path().join("secret");
    fs::write(&secret, "hunter2").unwrap();
    let untouched = || {
        assert_eq!(fs::read(&secret).unwrap(), b"hunter2");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    };
    let from = host.path().join("from");
    fs::create_dir(&from).unwrap();
    assert!(symlink(&secret, from.join("file")));
    assert!(symlink(outside.path(), from.join("dir")));
    let mut sandbox = new();
    let copied = sandbox.copy_in(&from, "/tmp").unwrap();
    assert_eq!((copied.files, copied.links), (0, 2), "links are copied as links");
    sandbox.copy_in(&from.join("file"), "/tmp/alone").unwrap();
    let result = sandbox.exec(&belljar::sandbox::ExecRequest::new("cat", ["/tmp/alone"])).unwrap();
    assert_ne!(result.exit_code, 0, "it leads nowhere here");

    // The host has links at the paths of the session's file and directory.
    let to = host.path().join("to");
    fs::create_dir_all(&to).unwrap();
    assert!(symlink(&secret, to.join("file")));
    assert!(symlink(outside.path(), to.join("dir")));
    sh(&mut sandbox, "mkdir /tmp/to /tmp/to2; echo evil > /tmp/to/file");
    sandbox.copy_out("/tmp/to", host.path()).unwrap();
    assert_eq!(fs::read(to.join("file")).unwrap(), b"evil\n", "the link gives way");
    untouched();
    sh(&mut sandbox, "mkdir /tmp/to/dir; echo evil > /tmp/to/dir/planted");
    assert!(sandbox.copy_out("/tmp/to", host.path()).is_err());
    untouched();
    assert!(symlink(&secret, host.path().join("last")));
    for link in ["last", "to/dir"] {
        let error = sandbox.copy_out("/tmp/to/file", &host.path().join(link)).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }
    untouched();
}

/// Regression: copies of programs and scripts could not be executed.
#[cfg(unix)]
#[test]
fn copy_of_an_executable_file_is_executable() {
    use std::os::unix::fs::PermissionsExt;

    let host = tempfile::tempdir().unwrap();
    let file = |name: &str| host.path().join(name);
    let mode = |name: &str| fs::metadata(file(name)).unwrap().permissions().mode() & 0o111;
    for (name, mode) in [("script", 0o755), ("text", 0o644)] {
        fs::write(file(name), "").unwrap();
        fs::set_permissions(file(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut sandbox = new();
    for name in ["script", "text"] {
        sandbox.copy_in(&file(name), "/tmp").unwrap();
    }
    sh(
        &mut sandbox,
        "cd /tmp && test -x script && ! test -x text && cp text made && chmod +x made",
    );
    for name in ["script", "text", "made"] {
        sandbox.copy_out(&format!("/tmp/{name}"), &file(&format!("{name}.out"))).unwrap();
    }
    assert_eq!((mode("text.out"), mode("script.out") & 0o100), (0, 0o100));
    assert_eq!(mode("made.out") & 0o100, 0o100);
}

/// Regression: an executable file over one of mode 600 gave it mode 700.
#[cfg(unix)]
#[test]
fn copy_over_a_file_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;

    let host = tempfile::tempdir().unwrap();
    let file = |name: &str| host.path().join(name);
    for (name, mode) in [("private", 0o600), ("tool", 0o755)] {
        fs::write(file(name), "old").unwrap();
        fs::set_permissions(file(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut sandbox = new();
    sh(&mut sandbox, "cd /tmp && echo new > text && cp text script && chmod +x script");
    sandbox.copy_out("/tmp/script", &file("private")).unwrap();
    sandbox.copy_out("/tmp/text", &file("tool")).unwrap();
    let mode = |name: &str| fs::metadata(file(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("private"), mode("tool")), (0o600, 0o755));
    assert_eq!(fs::read_to_string(file("private")).unwrap(), "new\n");
    // And into a session.
    sandbox.copy_in(&file("tool"), "/tmp/text").unwrap();
    sandbox.copy_in(&file("private"), "/tmp/script").unwrap();
    sh(&mut sandbox, "test -x /tmp/script && ! test -x /tmp/text");
}

#[cfg(unix)]
#[test]
fn copy_omits_and_lists_special_files() {
    let host = tempfile::tempdir().unwrap();
    let from = host.path().join("from");
    fs::create_dir(&from).unwrap();
    fs::write(from.join("file"), "").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
    let copied = new().copy_in(&from, "/tmp").unwrap();
    assert_eq!((copied.files, copied.left_out), (1, vec!["socket".to_owned()]));
    // Regression: nothing was copied, and that was no error.
    let error = new().copy_in(&from.join("socket"), "/tmp").unwrap_err().to_string();
    assert!(
        error.ends_with("from/socket: it is a device, a pipe or a socket; give the path of a file"),
        "{error}"
    );
}

/// Regression: holes were filled with zeros, in memory and on the disk.
#[cfg(unix)]
#[test]
fn holes_in_a_file_stay_holes() {
    use belljar::kernel::vfs::OpenFlags;

    const LEN: u64 = 64 << 20;
    let host = tempfile::tempdir().unwrap();
    let mut sandbox = new();
    let files = sandbox.files();
    let new = OpenFlags { create: true, write: true, ..OpenFlags::default() };
    let file = files.open(files.host_base(), "tmp/long", new, 0).unwrap();
    files.set_len(file, LEN, 0).unwrap();
    files.write_at(file, LEN - 5, b"end\n", 0).unwrap();
    files.close(file);
    let to = host.path().join("long");
    sandbox.copy_out("/tmp/long", &to).unwrap();
    let written = fs::metadata(&to).unwrap();
    assert_eq!(written.len(), LEN);
    let blocks = std::os::unix::fs::MetadataExt::blocks(&written);
    assert!(blocks * 512 < LEN / 16, "{blocks} blocks");
    sandbox.copy_in(&to, "/tmp/again").unwrap();
    let again = sandbox.files().read("/tmp/again").unwrap();
    let (zeros, end) = again.split_at(again.len() - 5);
    assert_eq!((again.len() as u64, end), (LEN, &b"end\n\0"[..]));
    assert!(zeros.iter().all(|byte| *byte == 0));
}
