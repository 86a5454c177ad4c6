//! `..` after a symbolic link leads to the parent of what the link points to, wherever belljar takes a path.

use std::path::Path;

use super::scratch;
use crate::support::{belljar, has_links, stderr, stdout, symlink, user_script};

/// `current` is a link to `releases/v2`; the files beside the link and those of the release have the same names.
fn plant(folder: &Path) {
    std::fs::create_dir_all(folder.join("releases/v2/bin")).unwrap();
    for (file, text) in [
        ("version", "top\n"),
        ("releases/version", "release\n"),
        ("tool", "echo tool of the top\n"),
        ("releases/tool", "#!/bin/sh\necho tool of the releases\n"),
        ("releases/v2/bin/start", "#!/bin/sh\nexec \"$(dirname \"$0\")/../helper\"\n"),
        ("releases/v2/helper", "#!/bin/sh\necho helper of \"$1\" v2\n"),
        ("file", ""),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    assert!(
        user_script(folder, "chmod +x tool releases/tool releases/v2/*er releases/v2/bin/*")
            .status
            .success()
    );
    assert!(symlink("releases/v2", folder.join("current")));
    assert!(symlink("releases/v2/bin", folder.join("bin")));
}

fn call(folder: &Path, args: &[&str]) -> std::process::Output {
    belljar(folder).env("BELLJAR_HOME", folder.join("home")).args(args).output().unwrap()
}

fn done(folder: &Path, args: &[&str]) -> String {
    let output = call(folder, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// Regression: the name before `..` was taken away, so that a script beside a link was not found, or another program ran.
#[cfg(unix)]
#[test]
fn program_is_found_through_the_target_of_a_link() {
    let folder = scratch();
    plant(folder.path());
    for script in [
        "bin/start",
        "current/../tool",
        "./current/../tool; current/bin/../helper",
        "PATH=$PATH:current/..; tool",
        "cd releases; ../current/../tool",
        "current/../none || echo none",
        "file/../tool || echo none",
        "none/../tool || echo none",
        "../tool || echo none",
        "exec current/bin/../helper 2>&1",
    ] {
        let native = stdout(&user_script(folder.path(), script));
        let output = call(folder.path(), &["sh", "-c", script]);
        assert_eq!(stdout(&output), native, "{script}");
    }
    done(folder.path(), &["sandbox", "create", "--id", "s"]);
    let tool = done(folder.path(), &["sandbox", "exec", "s", "current/../tool"]);
    assert_eq!(tool, "tool of the releases\n");
}

/// Regression: the copy was that of another file, and `--cwd` was another directory.
#[test]
fn copies_and_lists_of_a_session_go_through_the_target_of_a_link() {
    if !has_links("copies_and_lists_of_a_session_go_through_the_target_of_a_link") {
        return;
    }
    let folder = scratch();
    plant(folder.path());
    std::fs::write(folder.path().join("mine"), "mine\n").unwrap();
    done(folder.path(), &["sandbox", "create", "--id", "s"]);
    done(folder.path(), &["sandbox", "cp", "s:current/../version", "copy"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("copy")).unwrap(), "release\n");
    assert_eq!(done(folder.path(), &["sandbox", "ls", "s", "current/.."]), "tool\nv2/\nversion\n");
    let shown = ["sandbox", "exec", "--cwd", "current/..", "s", "cat", "version"];
    assert_eq!(done(folder.path(), &shown), "release\n");
    done(folder.path(), &["sandbox", "cp", "mine", "s:current/../version"]);
    let both = done(folder.path(), &["sandbox", "exec", "s", "cat", "version", "releases/version"]);
    assert_eq!(both, "top\nmine\n");
    for (from, why) in
        [("s:none/../version", "No such file"), ("s:file/../version", "Not a directory")]
    {
        let output = call(folder.path(), &["sandbox", "cp", from, "copy"]);
        assert!(!output.status.success(), "{from}");
        assert!(stderr(&output).contains(why), "{from}: {}", stderr(&output));
    }
}

/// Regression: another name was protected than the one given.
#[test]
fn directory_behind_a_link_needs_a_name_in_the_program() {
    if !has_links("directory_behind_a_link_needs_a_name_in_the_program") {
        return;
    }
    let folder = scratch();
    plant(folder.path());
    for args in [&["run"][..], &["sandbox", "create"]] {
        let mut command = belljar(folder.path());
        command.args(args).args(["--dir", "current/../v2::ro"]);
        let output =
            command.args(if args == ["run"] { &["true"][..] } else { &[] }).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        let why = "`..` leads back from the symbolic link current; choose its name in the program: current/../v2::GUEST";
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    let named = ["sh", "--dir", "current/../v2::v3::ro", "-c", "ls v3; echo x > v3/new"];
    let output = call(folder.path(), &named);
    assert_eq!(stdout(&output), "bin\nhelper\n");
    assert!(stderr(&output).contains("Read-only file system"), "{}", stderr(&output));
}
