//! The state that a kill leaves is recovered, and reported.

use super::{can_trace, killed_at, killed_halfway, traced};
use crate::support::{belljar, cache_dir, stderr, stdout, tree};

#[test]
fn recover_reports_in_text_and_json() {
    if !can_trace("recover_reports_in_text_and_json") {
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
    assert!(said.contains("undone: the directory is as it was before (18 files)"), "{said}");
    assert_eq!(tree(folder.path()).len(), 40);
    assert!(tree(folder.path()).values().all(|content| content == b"old"));
    killed_halfway(folder.path(), home.path());
    let report: serde_json::Value = serde_json::from_slice(&recover(&["--json"]).stdout).unwrap();
    assert_eq!(report["recovered"][0]["outcome"], "taken_back", "{report}");
    assert_eq!(report["recovered"][0]["files"], 18, "{report}");
    assert_eq!(stdout(&recover(&["--json", "--all"])), "{\"recovered\":[]}\n");
    assert_eq!(recover(&["no/such/folder"]).status.code(), Some(2));
}

/// The journal of a directory is in the home of the belljar that was ended.
#[test]
fn recover_undoes_a_named_directory_with_the_home_that_wrote_to_it() {
    if !can_trace("recover_undoes_a_named_directory_with_the_home_that_wrote_to_it") {
        return;
    }
    let [top, home, other_home] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let folder = top.path().join("tree");
    std::fs::create_dir(&folder).unwrap();
    killed_halfway(&folder, home.path());
    let half = tree(&folder);
    let with = |home: &tempfile::TempDir, args: &[&str]| {
        let mut command = belljar(top.path());
        let output = command.env("BELLJAR_HOME", home.path()).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    let nothing = ("nothing to recover in tree\n".to_owned(), String::new());
    assert_eq!(with(&other_home, &["recover", "tree"]), nothing);
    with(&other_home, &["run", "--worktree", "tree", "ls", "-a"]);
    assert_eq!(tree(&folder), half);
    let (_, said) = with(&home, &["recover", "tree"]);
    assert!(said.contains("undone: the directory is as it was before (18 files)"), "{said}");
    assert_eq!(tree(&folder).len(), 40);
    assert!(tree(&folder).values().all(|content| content == b"old"));
    assert_eq!(with(&home, &["recover", "tree"]), nothing);
}

/// Regression: a program saw temporary files, and a third of the changes.
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
            // Only once, because this command recovers the folder as well.
            let output = run(&session);
            assert!(stderr(&output).contains("undone"), "{}", stderr(&output));
            session.clear();
            killed_halfway(folder.path(), home.path());
        }
        let output = run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("undone"), "{args:?}: {}", stderr(&output));
        assert!(stdout(&output).contains("f39"), "{args:?}: {}", stdout(&output));
        assert!(!stdout(&output).contains(".belljar-"), "{args:?}: {}", stdout(&output));
        assert!(tree(folder.path()).values().all(|content| content == b"old"), "{args:?}");
    }
}

/// Regression: a journal of two directories, one of which was missing, was applied repeatedly to the other: files
/// created there since then blocked it, and no command resolved that.
#[test]
fn missing_directory_does_not_block_the_others_of_its_journal() {
    if !can_trace("missing_directory_does_not_block_the_others_of_its_journal") {
        return;
    }
    let (top, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [folder, other, away] = ["folder", "other", "away"].map(|name| top.path().join(name));
    for folder in [&folder, &other] {
        std::fs::create_dir(folder).unwrap();
        for number in 0..4 {
            std::fs::write(folder.join(format!("f{number}")), "old").unwrap();
        }
    }
    let (before, others) = (tree(&folder), tree(&other));
    let script = "for i in 0 1 2 3; do echo new > f$i; echo new > n$i; echo new > /o/f$i; done";
    killed_at(12, &folder, home.path(), &["sh", "--apply", "--dir", "../other::/o", "-c", script]);
    assert!(tree(&folder) != before && tree(&other) != others, "both were written to");
    std::fs::rename(&other, &away).unwrap();
    let recover = |folder: &std::path::Path, args: &[&str]| {
        let mut command = belljar(folder);
        command.env("BELLJAR_HOME", home.path()).arg("recover").args(args).output().unwrap()
    };
    let said = stderr(&recover(&folder, &[]));
    assert!(said.contains("undone: the directory is as it was before"), "{said}");
    assert_eq!(tree(&folder), before);
    std::fs::write(folder.join("n1"), "mine").unwrap();
    std::fs::write(folder.join("f1"), "mine").unwrap();
    let output = recover(&folder, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "nothing to recover in .\n");
    let said = stderr(&recover(&folder, &["--all"]));
    assert!(said.contains("names is not at "), "{said}");
    assert!(said.contains("/other any more"), "{said}");
    // The rest of the journal is for the other directory, at its new path.
    let said = stderr(&recover(&away, &[]));
    assert!(said.contains("undone: the directory is as it was before"), "{said}");
    assert_eq!(tree(&away), others);
    assert_eq!(std::fs::read(folder.join("n1")).unwrap(), b"mine");
    assert_eq!(stderr(&recover(&folder, &["--all"])), "");
}

/// Regression: after the first refused directory, no other was recovered.
#[test]
fn refused_directory_does_not_block_the_recovery_of_others() {
    if !can_trace("refused_directory_does_not_block_the_recovery_of_others") {
        return;
    }
    let (top, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folders = ["a", "b", "c"].map(|name| top.path().join(name));
    for folder in &folders {
        std::fs::create_dir(folder).unwrap();
        killed_halfway(folder, home.path());
    }
    let new = |path: &&std::path::PathBuf| std::fs::read(path).unwrap() != b"old";
    for refused in [&folders[0], &folders[2]] {
        let files: Vec<_> = (0..40).map(|number| refused.join(format!("f{number}"))).collect();
        std::fs::write(files.iter().find(new).unwrap(), "mine").unwrap();
    }
    let mut command = belljar(top.path());
    let output = command.env("BELLJAR_HOME", home.path()).args(["recover", "--all"]).output();
    let (code, said) = output.map(|it| (it.status.code(), stderr(&it))).unwrap();
    assert_eq!(code, Some(125), "{said}");
    for refused in ["a", "c"] {
        let next =
            format!("`belljar recover --skip-changed {}", top.path().join(refused).display());
        assert!(said.contains(&next), "{said}");
    }
    assert!(said.contains("/b; undone"), "{said}");
    assert!(tree(&folders[1]).values().all(|content| content == b"old"));
}

/// A directory is identified by its inode, not by its name; another directory with its name is not touched.
#[test]
fn a_folder_that_was_moved_is_recovered_where_it_is() {
    if !can_trace("a_folder_that_was_moved_is_recovered_where_it_is") {
        return;
    }
    let (top, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [folder, moved] = ["folder", "moved"].map(|name| top.path().join(name));
    std::fs::create_dir(&folder).unwrap();
    killed_halfway(&folder, home.path());
    std::fs::rename(&folder, &moved).unwrap();
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("f1"), "another").unwrap();
    let run = |folder: &std::path::Path, args: &[&str]| {
        let mut command = belljar(folder);
        let output = command.env("BELLJAR_HOME", home.path()).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stderr(&output)
    };
    assert_eq!(run(&folder, &["run", "cat", "f1"]), "");
    assert!(run(&folder, &["recover", "--all"]).contains(" any more; if it was moved, run "));
    assert_eq!(tree(&folder).len(), 1);
    assert!(run(&moved, &["run", "cat", "f1"]).contains("undone"));
    assert!(tree(&moved).len() == 40 && tree(&moved).values().all(|content| content == b"old"));
}

/// Regression: after a subdirectory was replaced by a link out of the directory, nothing was written there,
/// but no command could open the directory any more.
#[test]
fn a_recovery_follows_no_link_out_of_the_folder() {
    if !can_trace("a_recovery_follows_no_link_out_of_the_folder") {
        return;
    }
    let (top, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [folder, outside] = ["folder", "outside"].map(|name| top.path().join(name));
    for name in ["d", "e"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        for number in 0..6 {
            std::fs::write(folder.join(format!("{name}/f{number}")), "old").unwrap();
        }
    }
    let script = "for i in 0 1 2 3 4 5; do echo new > d/f$i; echo new > e/f$i; done";
    killed_at(11, &folder, home.path(), &["sh", "--apply", "-c", script]);
    std::fs::rename(folder.join("d"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, folder.join("d")).unwrap();
    // The same files, both new and unchanged ones.
    let before = tree(&outside);
    let run = |args: &[&str]| {
        belljar(&folder).env("BELLJAR_HOME", home.path()).args(args).output().unwrap()
    };
    for args in [&["recover"][..], &["sh", "-c", ":"]] {
        let output = run(args);
        let said = stderr(&output);
        assert_eq!(tree(&outside), before, "{args:?}: {said}");
        assert_eq!(output.status.code(), Some(125), "{args:?}: {said}");
        assert!(said.contains("d is no longer a directory"), "{said}");
        assert!(said.contains("belljar recover --skip-changed"), "{said}");
    }
    let output = run(&["recover", "--skip-changed"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("is left as it is"), "{}", stderr(&output));
    assert_eq!(tree(&outside), before);
    let mut rest = tree(&folder);
    rest.retain(|path, _| path.starts_with("e/f"));
    assert!(rest.len() == 6 && rest.values().all(|content| content == b"old"), "{rest:?}");
    assert_eq!(stdout(&run(&["recover"])), "nothing to recover in .\n");
}

/// Regression: the outer directory was restored, and the inner one stayed half written, while the recovery
/// reported success.
#[test]
fn folders_that_lie_in_one_that_was_moved_are_recovered_with_it() {
    if !can_trace("folders_that_lie_in_one_that_was_moved_are_recovered_with_it") {
        return;
    }
    for opened in [".", ".."] {
        let (top, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [folder, moved] = ["p/f", "q/f"].map(|name| top.path().join(name));
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        for name in ["a", "sub/b", "sub/c"] {
            std::fs::write(folder.join(name), "old").unwrap();
        }
        let before = tree(&folder);
        let script = "echo new > a; echo new > sub/b; echo new > sub/c";
        killed_at(4, &folder, home.path(), &["sh", "--apply", "--dir", "sub", "-c", script]);
        assert_ne!(
            tree(&folder.join("sub")),
            [("b", "old"), ("c", "old")]
                .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
                .into()
        );
        std::fs::rename(top.path().join("p"), top.path().join("q")).unwrap();
        let mut command = belljar(&moved.join(opened));
        let output = command.env("BELLJAR_HOME", home.path()).arg("recover").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(tree(&moved), before, "{}", stderr(&output));
        assert!(stderr(&output).contains("/q/f"), "it is named where it is: {}", stderr(&output));
    }
}

/// Regression: everything else was undone before the directory turned out not to be removable.
#[test]
fn foreign_file_in_a_directory_that_apply_made_is_named_by_recover() {
    if !can_trace("foreign_file_in_a_directory_that_apply_made_is_named_by_recover") {
        return;
    }
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["a", "z"] {
        std::fs::write(folder.path().join(name), "old").unwrap();
    }
    let recover = |args: &[&str]| {
        let mut command = belljar(folder.path());
        command.env("BELLJAR_HOME", home.path()).arg("recover").args(args).output().unwrap()
    };
    let script = "mkdir out; echo 1 > out/x; echo 1 > out/y; echo new > a; echo new > z";
    let made = folder.path().join("out");
    let mut rename = 1;
    while !made.exists() {
        killed_at(rename, folder.path(), home.path(), &["sh", "--apply", "-c", script]);
        rename += 1;
        if !made.exists() {
            assert!(recover(&[]).status.success());
        }
    }
    std::fs::write(made.join("y"), "by the user").unwrap();
    let before = tree(folder.path());
    let output = recover(&[]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains("out now also holds \"y\""), "{}", stderr(&output));
    assert_eq!(tree(folder.path()), before, "nothing is done");
    assert!(recover(&["--skip-changed"]).status.success());
    assert_eq!(std::fs::read_to_string(made.join("y")).unwrap(), "by the user");
    assert_eq!(std::fs::read_to_string(folder.path().join("a")).unwrap(), "old");
}

/// Regression: the journal stayed for ever, `doctor` failed, and no command helped.
#[test]
fn journal_for_a_removed_directory_can_be_dropped() {
    if !can_trace("journal_for_a_removed_directory_can_be_dropped") {
        return;
    }
    let (top, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = top.path().join("folder");
    let run = |args: &[&str]| {
        let mut command = belljar(top.path());
        let output = command.env("BELLJAR_HOME", home.path()).args(args).output().unwrap();
        (output.status.code(), stdout(&output), stderr(&output))
    };
    for is_replaced in [false, true] {
        std::fs::create_dir(&folder).unwrap();
        killed_halfway(&folder, home.path());
        // The directory exists, so it can be recovered.
        let kept = run(&["recover", "--forget", "folder"]);
        assert_eq!(kept.0, Some(125), "{}", kept.2);
        assert!(kept.2.contains("recover it with `belljar recover"), "{}", kept.2);
        std::fs::rename(&folder, top.path().join("away")).unwrap();
        if is_replaced {
            std::fs::create_dir(&folder).unwrap();
        }
        // Removed last, so that the new directory does not get its inode number.
        std::fs::remove_dir_all(top.path().join("away")).unwrap();
        assert!(run(&["doctor"]).1.contains("recover --all"));
        let (code, _, told) = run(&["recover", "--all"]);
        assert_eq!(code, Some(0), "{told}");
        let next = told.split('`').find(|part| part.contains("--forget"));
        let next = next.unwrap_or_else(|| panic!("{told}"));
        let script = format!("belljar() {{ \"$BELLJAR\" \"$@\"; }}; {next}");
        let mut shell = std::process::Command::new("sh");
        shell.env("BELLJAR", env!("CARGO_BIN_EXE_belljar")).env("BELLJAR_HOME", home.path());
        let output = shell.args(["-c", &script]).output().unwrap();
        assert!(stdout(&output).starts_with("1 journal for "), "{next}: {output:?}");
        assert_eq!(run(&["recover", "--all", "--json"]).2, "");
        assert!(run(&["doctor"]).1.contains("no interrupted writes"));
        assert!(run(&["recover", "--forget", "folder"]).1.starts_with("no journal "));
        if is_replaced {
            assert!(folder.exists());
        }
    }
}

/// Regression: names that belljar itself had made and removed changed the change times of files. The session took these
/// files for changed by others: those whose contents it does not keep could not be read any more.
#[test]
fn interrupted_apply_of_a_session_leaves_it_readable() {
    if !can_trace("interrupted_apply_of_a_session_leaves_it_readable") {
        return;
    }
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = |command: &mut std::process::Command, args: &[&str]| {
        let command = command.args(args).current_dir(folder.path());
        let command = command.env("BELLJAR_CACHE_DIR", crate::support::cache_dir());
        command.env("BELLJAR_HOME", home.path()).output().unwrap()
    };
    let sandbox = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_belljar"));
        let output = run(command.arg("sandbox"), args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        output
    };
    // Longer than what a session keeps.
    std::fs::File::create(folder.path().join("big")).unwrap().set_len(300 << 20).unwrap();
    sandbox(&["create", "--id", "box", "--worktree", "."]);
    sandbox(&["exec", "box", "--", "sh", "-c", "mv big big2; echo x > z"]);
    let mut interrupted = 0;
    for call in 1..12 {
        let inject = format!("inject=fsync:signal=SIGINT:when={call}");
        let mut command = super::traced();
        command.args(["-o", "/dev/null", "-e", "trace=fsync", "-e", &inject]);
        command.arg(env!("CARGO_BIN_EXE_belljar"));
        let output = run(&mut command, &["sandbox", "apply", "box"]);
        let said = stderr(&output);
        if !said.contains("nothing was written") {
            break;
        }
        interrupted += 1;
        assert!(folder.path().join("big").exists(), "{said}");
        sandbox(&["exec", "box", "--", "head", "-c", "1", "big2"]);
    }
    assert!(interrupted > 2, "{interrupted}");
    sandbox(&["apply", "box"]);
    sandbox(&["exec", "box", "--", "head", "-c", "1", "big2"]);
    assert!(folder.path().join("big2").exists() && !folder.path().join("big").exists());
}

/// Regression: the temporary stayed, and no message named it.
#[test]
fn temporaries_in_a_renamed_directory_are_named() {
    if !can_trace("temporaries_in_a_renamed_directory_are_named") {
        return;
    }
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(folder.path().join("d")).unwrap();
    std::fs::write(folder.path().join("d/f"), "old").unwrap();
    let output = super::traced()
        .args([
            "-o",
            "/dev/null",
            "-e",
            "trace=linkat",
            "-e",
            "inject=linkat:signal=SIGKILL:when=1",
        ])
        .args([env!("CARGO_BIN_EXE_belljar"), "sh", "--apply", "-c", "echo new > d/f"])
        .current_dir(folder.path())
        .env("BELLJAR_CACHE_DIR", crate::support::cache_dir())
        .env("BELLJAR_HOME", home.path())
        .output();
    assert!(!output.unwrap().status.success());
    std::fs::rename(folder.path().join("d"), folder.path().join("e")).unwrap();
    let mut command = belljar(folder.path());
    let output = command.env("BELLJAR_HOME", home.path()).arg("recover").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let names = std::fs::read_dir(folder.path().join("e")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name != "f").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let said = stderr(&output);
    assert!(said.contains(&format!("warning: d/{} is left as it is", left[0])), "{said}");
}

/// Regression: after a kill of the recovery, the next one found that the old version of `c` was gone.
#[test]
fn recovery_of_a_file_moved_onto_another_name_of_itself_can_be_restarted() {
    if !can_trace("recovery_of_a_file_moved_onto_another_name_of_itself_can_be_restarted") {
        return;
    }
    for renames in 1..=4 {
        let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(folder.path().join("a"), "x\n").unwrap();
        std::fs::hard_link(folder.path().join("a"), folder.path().join("c")).unwrap();
        let before = tree(folder.path());
        let script = "mv a c; echo new > n";
        killed_at(renames, folder.path(), home.path(), &["sh", "--apply", "-c", script]);
        if tree(folder.path()) != before && !folder.path().join("a").exists() {
            killed_at(1, folder.path(), home.path(), &["recover"]);
        }
        let mut command = belljar(folder.path());
        let output = command.env("BELLJAR_HOME", home.path()).arg("recover").output().unwrap();
        assert!(output.status.success(), "{renames}: {}", stderr(&output));
        assert_eq!(tree(folder.path()), before, "{renames}");
    }
}

/// Regression: "no file had been changed yet", and the only copy of `b` had gone with the temporaries.
#[test]
fn old_version_that_somebody_removed_with_all_temporaries_is_named() {
    if !can_trace("old_version_that_somebody_removed_with_all_temporaries_is_named") {
        return;
    }
    for script in ["mv b c; echo n > n", "rm b; echo n > n"] {
        let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["a", "b"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        for renames in 1.. {
            assert!(renames < 7, "{script}");
            killed_at(renames, folder.path(), home.path(), &["sh", "--apply", "-c", script]);
            let is_moved = !folder.path().join("b").exists();
            if is_moved && !folder.path().join("n").exists() && !folder.path().join("c").exists() {
                break;
            }
            let mut command = belljar(folder.path());
            command.env("BELLJAR_HOME", home.path()).arg("recover").output().unwrap();
        }
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().starts_with(".belljar-") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        let recover = |args: &[&str]| {
            let mut command = belljar(folder.path());
            command.env("BELLJAR_HOME", home.path()).arg("recover").args(args).output().unwrap()
        };
        let output = recover(&[]);
        assert_eq!(output.status.code(), Some(125), "{script}: {}", stderr(&output));
        assert!(stderr(&output).contains("the old version of b is gone"), "{}", stderr(&output));
        assert!(recover(&["--skip-changed"]).status.success());
    }
}

/// Regression: a journal and temporaries stayed, and no command worked in the directory any more.
#[test]
fn file_that_an_editor_replaces_before_its_turn_is_a_conflict_and_leaves_nothing() {
    if !can_trace("file_that_an_editor_replaces_before_its_turn_is_a_conflict_and_leaves_nothing") {
        return;
    }
    let [folder, home, log] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    for name in ["a", "b"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    let trace = log.path().join("trace");
    let mut belljar_traced = traced();
    belljar_traced.arg("-o").arg(&trace).args(["-e", "trace=renameat2", "-e"]);
    belljar_traced.arg("inject=renameat2:delay_enter=2000000:when=2");
    belljar_traced.arg(env!("CARGO_BIN_EXE_belljar"));
    belljar_traced.args(["sh", "--apply", "-c", "echo more >> a; rm b"]);
    belljar_traced.current_dir(folder.path()).env("BELLJAR_HOME", home.path());
    belljar_traced.env("BELLJAR_CACHE_DIR", cache_dir()).stderr(std::process::Stdio::piped());
    let child = belljar_traced.spawn().unwrap();
    let is_moving = || std::fs::read_to_string(&trace).is_ok_and(|text| text.contains("\"b\""));
    for _ in 0..6000 {
        if is_moving() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(is_moving(), "b is never moved");
    std::fs::write(folder.path().join("a.t"), "the user's").unwrap();
    std::fs::rename(folder.path().join("a.t"), folder.path().join("a")).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("a changed on the disk"), "{said}");
    assert!(!said.contains("could not be put back"), "{said}");
    let kept = tree(folder.path());
    let kept: Vec<_> = kept.iter().map(|(name, text)| (&**name, &**text)).collect();
    assert_eq!(kept, [("a", &b"the user's"[..]), ("b", b"b")]);
    let mut command = belljar(folder.path());
    let output = command.env("BELLJAR_HOME", home.path()).arg("recover").output().unwrap();
    assert_eq!(stdout(&output), "nothing to recover in .\n", "{}", stderr(&output));
}
