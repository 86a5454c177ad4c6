//! Directories that belljar writes to are replaced by links: by belljar itself, by another process after a kill, or by
//! another process while belljar writes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{can_trace, killed_at, traced};
use crate::support::{belljar, cache_dir, stderr, stdout, tree};

/// A folder to write to, one beside it, and a home.
struct Bench {
    _top: tempfile::TempDir,
    folder: PathBuf,
    out: PathBuf,
    home: PathBuf,
}

impl Bench {
    /// The folder holds `files`; each contains its own name.
    fn new(files: &[&str]) -> Self {
        let top = tempfile::tempdir().unwrap();
        let [folder, out, home] = ["folder", "out", "home"].map(|name| top.path().join(name));
        for file in files.iter().map(|name| folder.join(name)).chain([out.join("f")]) {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, file.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        Self { _top: top, folder, out, home }
    }

    /// The exit code, and all output.
    fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = belljar(&self.folder);
        let output = command.env("BELLJAR_HOME", &self.home).args(args).output().unwrap();
        (output.status.code(), stderr(&output) + &stdout(&output))
    }

    fn succeed(&self, args: &[&str]) -> String {
        let (code, said) = self.run(args);
        assert_eq!(code, Some(0), "{args:?}: {said}");
        said
    }
}

/// Where a link leads: nowhere, to itself, out of the folder, to a directory in it.
const TARGETS: [&str; 5] = ["nowhere", "d", "../out", "/", "e"];

/// Regression: names were synced to disk through the link, and `--apply` always failed.
#[test]
fn apply_replaces_a_directory_with_a_link_wherever_it_leads() {
    for target in TARGETS {
        let bench = Bench::new(&["d/s/f", "d/g", "e/s/f"]);
        let others = tree(&bench.out);
        bench.succeed(&["sh", "--apply", "-c", &format!("rm -r d; ln -s {target} d")]);
        assert_eq!(fs::read_link(bench.folder.join("d")).unwrap(), Path::new(target));
        assert_eq!(tree(&bench.folder)["e/s/f"], b"f", "{target}");
        bench.succeed(&["sh", "--apply", "-c", "rm d; mkdir -p d/s; echo new > d/s/f"]);
        assert_eq!(tree(&bench.folder)["d/s/f"], b"new\n", "{target}");
        assert_eq!(tree(&bench.out), others, "{target}");
    }
}

/// Regression: one such link made a directory unusable: every command failed on it, even
/// `recover --skip-changed`.
#[test]
fn a_directory_that_became_a_link_since_a_kill_is_named_and_can_be_skipped() {
    if !can_trace("a_directory_that_became_a_link_since_a_kill_is_named_and_can_be_skipped") {
        return;
    }
    for target in TARGETS {
        let bench = Bench::new(&["d/f", "d/s/g", "e/f", "x"]);
        let (folder, before, others) = (&bench.folder, tree(&bench.folder), tree(&bench.out));
        let script = "echo N > d/f; echo N > d/s/g; echo N > x";
        let replace = || {
            killed_at(4, folder, &bench.home, &["sh", "--apply", "-c", script]);
            assert_eq!(tree(folder)["d/s/g"], b"N\n");
            fs::rename(folder.join("d"), folder.join("old")).unwrap();
            symlink(target, folder.join("d")).unwrap();
        };
        replace();
        let now = tree(folder);
        for args in [&["run", "true"][..], &["recover"], &["sh", "--apply", "-c", ": > y"]] {
            let (code, said) = bench.run(args);
            assert_eq!(code, Some(125), "{target} {args:?}: {said}");
            assert!(
                said.contains(
                    "because d is no longer a directory (move it back if it was moved); `"
                ),
                "{target}: {said}"
            );
            assert!(said.contains("belljar recover --skip-changed"), "{target}: {said}");
            assert_eq!(tree(folder), now, "{target} {args:?}: nothing is done");
        }
        // Once the directory is back, everything is restored.
        fs::remove_file(folder.join("d")).unwrap();
        fs::rename(folder.join("old"), folder.join("d")).unwrap();
        bench.succeed(&["recover"]);
        assert_eq!(tree(folder), before, "{target}");
        replace();
        let said = bench.succeed(&["recover", "--skip-changed"]);
        assert!(said.contains("d/f is left as it is"), "{target}: {said}");
        let now = tree(folder);
        assert_eq!((&*now["x"], &*now["e/f"]), (&b"x"[..], &b"f"[..]), "{target}");
        assert_eq!(now.get("old/f").unwrap(), b"N\n", "{target}");
        assert!(!now.keys().any(|name| name.starts_with(".belljar-")), "{target}: {now:?}");
        assert_eq!(tree(&bench.out), others, "{target}");
        assert_eq!(bench.succeed(&["run", "true"]), "", "{target}");
    }
}

/// Regression: part of the changes was undone, although the recovery was refused.
#[test]
fn recover_undoes_nothing_if_a_directory_became_a_file() {
    if !can_trace("recover_undoes_nothing_if_a_directory_became_a_file") {
        return;
    }
    // The first rename is of the journal, the last one of the commit.
    for rename in 2..=6 {
        let bench = Bench::new(&["a/x", "a/y", "d"]);
        let folder = &bench.folder;
        killed_at(rename, folder, &bench.home, &["sh", "--apply", "-c", "mv a/x d; rm -r a"]);
        let _ = fs::remove_dir_all(folder.join("a"));
        fs::write(folder.join("a"), "mine").unwrap();
        let before = tree(folder);
        let (code, said) = bench.run(&["recover"]);
        // At the first one nothing had left the directory, which nobody can tell now.
        let why = if rename == 2 { "the old version of a/x is gone" } else { " a is " };
        assert_eq!(code, Some(125), "{rename}: {said}");
        let is_named = said.contains(why) || said.contains(" a has changed since");
        assert!(said.contains("--skip-changed") && is_named, "{rename}: {said}");
        assert_eq!(tree(folder), before, "{rename}");
        let said = bench.succeed(&["recover", "--skip-changed"]);
        assert!(said.contains("a/x is left as it is"), "{rename}: {said}");
        assert!(said.contains("its earlier version is in .belljar-"), "{rename}: {said}");
        let now = tree(folder);
        assert_eq!((&*now["a"], &*now["d"]), (&b"mine"[..], &b"d"[..]), "{rename}");
        let kept = now.values().any(|content| content == b"x");
        assert!(kept, "{rename}: {now:?}");
        assert_eq!(bench.succeed(&["run", "true"]), "", "{rename}");
    }
}

/// Regression: files behind the link were taken for the files to replace, and temporary files in the directory were
/// left without a message.
#[test]
fn directory_replaced_by_a_link_during_apply_is_named_and_not_followed() {
    let test = "directory_replaced_by_a_link_during_apply_is_named_and_not_followed";
    if !can_trace(test) {
        return;
    }
    // Before belljar examines the file that it is about to replace, or right before it replaces it.
    for (inject, is_early) in [
        ("renameat2:delay_exit=3000000:when=2", true),
        ("renameat2:delay_enter=6000000:when=3", false),
    ] {
        let bench = Bench::new(&["a/f", "d/f", "e/f"]);
        let (folder, before) = (&bench.folder, tree(&bench.folder));
        let child = traced()
            .args(["-o", "/dev/null", "-e", "trace=renameat2", "-e", &format!("inject={inject}")])
            .arg(env!("CARGO_BIN_EXE_belljar"))
            .args(["sh", "--apply", "-c", "echo N > a/f; echo N > d/f"])
            .current_dir(folder)
            .env("BELLJAR_CACHE_DIR", cache_dir())
            .env("BELLJAR_HOME", &bench.home)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while fs::read(folder.join("a/f")).unwrap() != b"N\n" {
            assert!(begun.elapsed() < Duration::from_mins(2), "a/f is never written");
            std::thread::sleep(Duration::from_millis(5));
        }
        if !is_early {
            // By then belljar waits before the next rename.
            std::thread::sleep(Duration::from_millis(2500));
        }
        fs::rename(folder.join("d"), folder.join("old")).unwrap();
        symlink("e", folder.join("d")).unwrap();
        let output = child.wait_with_output().unwrap();
        let (said, now) = (stderr(&output), tree(folder));
        assert_eq!(&*now["e/f"], b"f", "{said}");
        let temporaries = now.keys().filter(|name| name.contains(".belljar-")).count();
        if !is_early {
            assert_eq!(output.status.code(), Some(0), "{said}");
            assert!(said.contains("warning: cannot remove the temporary d/.belljar-"), "{said}");
            assert_eq!((&*now["old/f"], temporaries), (&b"N\n"[..], 1), "{now:?}");
            continue;
        }
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("could not be put back: d/f"), "{said}");
        assert!(said.contains("belljar recover"), "{said}");
        assert_eq!((&*now["a/f"], &*now["old/f"], temporaries), (&b"f"[..], &b"f"[..], 2));
        fs::remove_file(folder.join("d")).unwrap();
        fs::rename(folder.join("old"), folder.join("d")).unwrap();
        bench.succeed(&["recover"]);
        assert_eq!(tree(folder), before);
    }
}
