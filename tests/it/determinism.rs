//! Every guest program twice, in other folders, at other times, under another environment: not one
//! byte differs.

use std::path::Path;

use crate::support::{belljar, guest, tree};

/// Programs and arguments that exercise time, chance, files, memory and output.
const CASES: &[(&str, &[&str])] = &[
    ("hello", &[]),
    ("env", &["a", "b"]),
    ("clock", &[]),
    ("random", &[]),
    ("sleeper", &["100000"]),
    ("spin", &["5000"]),
    ("walk", &["."]),
    ("walk", &["/"]),
    ("cat", &["data", "sub/more"]),
    ("compute", &["2"]),
    ("deep", &["1000"]),
    ("many_files", &["200", "made"]),
    ("writer", &["big", "3"]),
    (
        "overwrite",
        &[
            "append:data:more",
            "write:new:text",
            "rename:sub/more:sub/moved",
            "mkdir:d",
            "symlink:../data:d/link",
            "link:data:hard",
            "truncate:new:2",
            "unlink:gone",
        ],
    ),
    ("exit", &["7"]),
    ("trap", &["divide"]),
];

fn fill(folder: &Path, in_reverse: bool) {
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    let mut files =
        vec![("data", "some data\n"), ("sub/more", "more data\n"), ("gone", "x"), ("Z", "z")];
    if in_reverse {
        files.reverse();
    }
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

#[test]
fn not_one_byte_differs() {
    let temp = tempfile::tempdir().unwrap();
    let (first, second) = (temp.path().join("first"), temp.path().join("zweiter Ordner"));
    fill(&first, false);
    fill(&second, true);
    // The two trees differ in their times as well.
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    std::fs::File::open(first.join("data")).unwrap().set_modified(hour_ago).unwrap();
    let run = |folder: &Path, name: &str, args: &[&str], variables: &[(&str, &str)]| {
        let mut command = belljar(folder);
        command.args(["run", "--quiet", "--diff", "--trace=trace.log"]);
        command.arg(guest(name)).args(args).envs(variables.iter().copied());
        let output = command.output().unwrap();
        let trace = std::fs::read(folder.join("trace.log")).unwrap();
        std::fs::remove_file(folder.join("trace.log")).unwrap();
        (output.status.code(), output.stdout, output.stderr, trace)
    };
    let other =
        [("TZ", "Asia/Tokyo"), ("LC_ALL", "de_DE.UTF-8"), ("USER", "nobody"), ("HOME", "/")];
    for (name, args) in CASES {
        let a = run(&first, name, args, &[]);
        std::thread::sleep(std::time::Duration::from_millis(5));
        let b = run(&second, name, args, &other);
        assert_eq!(a.0, b.0, "{name}: exit code");
        assert!(a.1 == b.1, "{name}: {}\n---\n{}", text(&a.1), text(&b.1));
        assert!(a.2 == b.2, "{name}: {}\n---\n{}", text(&a.2), text(&b.2));
        assert!(a.3 == b.3, "{name}: the traces differ");
        assert!(!a.3.is_empty() || *name == "exit");
    }
    assert_eq!(tree(&first), tree(&second), "nothing was written");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
