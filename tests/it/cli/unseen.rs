//! A file that cannot be examined on the disk is not taken for deleted.

use std::path::Path;
use std::process::Output;

use crate::support::{bash, stderr};

/// A folder `w` with `d/b` and `d/c`, and a session over it that has removed `d/b`. A command under `$RUN` has no
/// capabilities, so that even root cannot enter a directory that is closed to its owner.
fn removed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let script = "mkdir -p w/d; echo secret > w/d/b; echo keep > w/d/c; cd w; \
                  \"$0\" sandbox create --id s; \"$0\" sandbox exec s -- rm d/b";
    let output = call(folder.path(), script);
    assert!(output.status.success(), "{}", stderr(&output));
    folder
}

fn call(folder: &Path, script: &str) -> Output {
    let begin = "export BELLJAR_HOME=$PWD/home; RUN=; \
                 [ $(id -u) = 0 ] && RUN='setpriv --bounding-set -all'; ";
    bash(folder, &format!("{begin}{script}"))
}

/// Regression: the deletion was reported as written, and the file still existed.
#[test]
fn inaccessible_file_is_not_taken_for_deleted() {
    for (command, code) in [
        ("$RUN \"$0\" sandbox apply s", 125),
        ("$RUN \"$0\" sandbox refresh s", 125),
        ("(sleep 1; chmod 0 d; echo) | $RUN \"$0\" sh --apply -c 'rm d/b; read x'", 125),
    ] {
        let folder = removed();
        let close = if command.contains("sleep") { "" } else { "chmod 0 d;" };
        let script = format!("cd w; {close} {command}; code=$?; chmod 755 d; exit $code");
        let output = call(folder.path(), &script);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{command}: {message}");
        assert!(message.contains("cannot examine d/b: Permission denied"), "{command}: {message}");
        assert!(folder.path().join("w/d/b").exists());
        // Once the directory is accessible, the deletion is applied.
        let applied = call(folder.path(), "cd w; \"$0\" sandbox apply s");
        assert!(applied.status.success(), "{command}: {}", stderr(&applied));
        assert!(!folder.path().join("w/d/b").exists(), "{command}");
    }
}

/// Regression: the deletion was applied to the old path of the directory, and not to its new one.
#[test]
fn file_behind_a_link_replacing_its_directory_is_not_taken_for_deleted() {
    for moved in ["mv d d.real; ln -s d.real d", "mv d ../real; ln -s ../real d"] {
        let folder = removed();
        let output = call(folder.path(), &format!("cd w; {moved}; \"$0\" sandbox apply s"));
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{moved}: {message}");
        assert!(message.contains("d is no longer a directory on the disk"), "{moved}: {message}");
        let refreshed = call(folder.path(), "cd w; \"$0\" sandbox refresh s");
        assert_eq!(refreshed.status.code(), Some(1), "{moved}: {}", stderr(&refreshed));
    }
    // A file whose directory was replaced by a file is deleted.
    let folder = removed();
    let output = call(folder.path(), "cd w; rm -r d; echo file > d; \"$0\" sandbox apply s");
    assert!(output.status.success(), "{}", stderr(&output));
}
