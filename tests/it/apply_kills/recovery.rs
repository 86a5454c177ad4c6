//! What a kill has left is recovered, and told.

use super::{can_trace, killed_halfway};
use crate::support::{belljar, stderr, stdout, tree};

#[test]
fn recover_says_what_it_did_to_people_and_machines() {
    if !can_trace("recover_says_what_it_did_to_people_and_machines") {
        return;
    }
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recover = |args: &[&str]| {
        let mut command = belljar(folder.path());
        command.env("BELLJAR_HOME", home.path()).arg("recover").args(args).output().unwrap()
    };
    let nothing = recover(&[]);
    assert!(nothing.status.success() && stdout(&nothing) == "nothing to recover in .\n");
    killed_halfway(folder.path(), home.path());
    let output = recover(&[]);
    assert!(output.status.success());
    let said = stderr(&output);
    assert!(said.contains("taken back: the folder is as it was before (18 files)"), "{said}");
    assert_eq!(tree(folder.path()).len(), 40);
    assert!(tree(folder.path()).values().all(|content| content == b"old"));
    killed_halfway(folder.path(), home.path());
    let report: serde_json::Value = serde_json::from_slice(&recover(&["--json"]).stdout).unwrap();
    assert_eq!(report["recovered"][0]["outcome"], "taken_back", "{report}");
    assert_eq!(report["recovered"][0]["files"], 18, "{report}");
    assert_eq!(stdout(&recover(&["--json", "--all"])), "{\"recovered\":[]}\n");
    assert_eq!(recover(&["no/such/folder"]).status.code(), Some(2));
}

/// A program was shown temporaries, and a third of the changes.
#[test]
fn every_command_that_opens_a_folder_recovers_it_first() {
    if !can_trace("every_command_that_opens_a_folder_recovers_it_first") {
        return;
    }
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tape = home.path().join("t.tape");
    let tape = tape.to_str().unwrap();
    let mut session = vec!["sandbox", "create", "--id", "box"];
    let commands: &[&[&str]] = &[
        &["run", "ls", "-a"],
        &["sh", "-c", "ls -a"],
        &["record", "--tape", tape, "--", "ls", "-a"],
        &["run", "--no-worktree", "--dir", ".::/w", "ls", "/w"],
        &["sandbox", "exec", "box", "sh", "-c", "echo *"],
        &["sandbox", "ls", "box"],
    ];
    for args in commands {
        killed_halfway(folder.path(), home.path());
        let run = |args: &[&str]| {
            let mut command = belljar(folder.path());
            command.env("BELLJAR_HOME", home.path()).args(args).output().unwrap()
        };
        if !session.is_empty() {
            // Once: it sees to the folder as well.
            let output = run(&session);
            assert!(stderr(&output).contains("taken back"), "{}", stderr(&output));
            session.clear();
            killed_halfway(folder.path(), home.path());
        }
        let output = run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("taken back"), "{args:?}: {}", stderr(&output));
        assert!(stdout(&output).contains("f39"), "{args:?}: {}", stdout(&output));
        assert!(!stdout(&output).contains(".belljar-"), "{args:?}: {}", stdout(&output));
        assert!(tree(folder.path()).values().all(|content| content == b"old"), "{args:?}");
    }
}
