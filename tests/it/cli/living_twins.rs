//! Sessions with the same changes over one folder, as two forks of a session have, or one whose `apply` was killed before
//! it was saved: the second one to write them finds them there.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::living::Bench;
use crate::support::stderr;

/// By path: mode, number of names, inode number, modification time, and bytes or text.
type Tree = BTreeMap<String, (u32, u64, u64, (i64, i64), Vec<u8>)>;

fn tree(dir: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(at) = dirs.pop() {
        for entry in std::fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let stat: Metadata = std::fs::symlink_metadata(&path).unwrap();
            let bytes = match stat.file_type() {
                it if it.is_dir() => Vec::new(),
                it if it.is_symlink() => {
                    std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                }
                _ => std::fs::read(&path).unwrap(),
            };
            if stat.is_dir() {
                dirs.push(path.clone());
            }
            let links = if stat.is_dir() { 0 } else { stat.nlink() };
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            let time = (stat.mtime(), stat.mtime_nsec());
            tree.insert(name, (stat.mode(), links, stat.ino(), time, bytes));
        }
    }
    tree
}

/// Regression: a hard link was split where the time was set, too; a warning said that times could not be set; and a file
/// that was made anew with the bytes that it had was a conflict.
#[test]
fn second_apply_of_the_same_changes_changes_nothing() {
    for script in [
        "ln f lk; touch -d 2010-01-01 f",
        "ln f lk; echo more >> f",
        "ln f lk; ln f d/lk; chmod +x f",
        "ln f lk; mv f k; echo more >> k",
        "ln f lk; rm f; touch lk",
        "echo n > n; ln n m; touch -d 2010-01-01 m",
        "cat g gl; rm g; echo 1 > g",
        "cat g gl; rm g; echo 2 > g",
        "cat g gl; rm g gl; echo 1 > g; ln g gl",
        "cat g gl; cp g t; mv t g",
        "cat g; touch g",
        "cat gl; touch -d 2010-01-01 gl",
        "echo more >> g",
        "rm g; mv gl g",
        "mv g h; touch h",
        "mv d e; touch e/x; echo > e/new",
        "rm -r d; mkdir d; echo x > d/x",
        "rm -r d; mkdir d; echo x > d/x; ln d/x d/y",
        "rm l; ln -s f l",
        "chmod +x f; touch f",
        "mv f t; mv d/x f; mv t d/x",
        "touch d; rm d/x",
    ] {
        let bench = Bench::new(&[("f", "1\n"), ("g", "1\n"), ("d/x", "x\n")]);
        std::fs::hard_link(bench.at("g"), bench.at("gl")).unwrap();
        std::os::unix::fs::symlink("f", bench.at("l")).unwrap();
        bench.done(&["refresh", "box"]);
        let output = bench.sh(script);
        assert!(output.status.success(), "{script}: {}", stderr(&output));
        let snapshot = bench.done(&["snapshot", "box"]);
        let twin = bench.done(&["fork", snapshot.trim()]);
        bench.done(&["apply", "box"]);
        let mut before = tree(&bench.tree());
        for _ in 0..2 {
            let output = bench.call(&["apply", twin.trim()]);
            let said = stderr(&output);
            assert!(output.status.success(), "{script}: {said}");
            assert!(!said.contains("warning"), "{script}: {said}");
            let mut now = tree(&bench.tree());
            // A time that is set, or written with the bytes that were there, is set again.
            let is_set_again =
                ["touch", "> d/x", "ln g gl", "ln -s"].iter().any(|it| script.contains(it));
            if is_set_again {
                before.values_mut().chain(now.values_mut()).for_each(|it| it.3 = (0, 0));
            }
            assert_eq!(now, before, "{script}: {said}");
        }
    }
}
