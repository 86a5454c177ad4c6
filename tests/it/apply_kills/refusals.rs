//! What the system refuses while belljar writes to the disk.

use std::process::Command;

use crate::support::{belljar, cache_dir, home_dir, stderr, tree};

/// `ulimit -f` ended belljar by a signal, in the middle.
#[test]
fn apply_beyond_the_limit_of_a_file_leaves_the_old_tree() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..30 {
        std::fs::write(folder.path().join(format!("f{number}")), "old").unwrap();
    }
    let before = tree(folder.path());
    let script = "for i in $(seq 0 29); do echo new > f$i; done; seq 100000 > f20";
    let output = Command::new("bash")
        .args([
            "-c",
            "ulimit -f 64; exec \"$0\" sh --apply -c \"$1\"",
            env!("CARGO_BIN_EXE_belljar"),
            script,
        ])
        .current_dir(folder.path())
        .env("BELLJAR_CACHE_DIR", cache_dir())
        .env("BELLJAR_HOME", home_dir())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125), "{:?} {}", output.status, stderr(&output));
    assert!(stderr(&output).contains("File too large"), "{}", stderr(&output));
    assert_eq!(tree(folder.path()), before);
}

/// A report that could not be written was once said with the code of a conflict, in which nothing is
/// written.
#[test]
fn a_report_that_is_lost_after_apply_has_a_code_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let text = "a line\n".repeat(200);
    let file = folder.path().join("f");
    let run = |limit: &str, args: &str| {
        std::fs::write(&file, &text).unwrap();
        Command::new("bash")
            .args(["-c", &format!("ulimit -f {limit}; exec \"$0\" {args}")])
            .arg(env!("CARGO_BIN_EXE_belljar"))
            .current_dir(folder.path())
            .env("BELLJAR_CACHE_DIR", cache_dir())
            .env("BELLJAR_HOME", home.path())
            .output()
            .unwrap()
    };
    let replace = "replace line word f";
    // Compiled here, and kept: code that is fresh takes a file in memory, which the limit counts as well.
    for args in ["run --quiet replace line word f", "sh --quiet -c 'cat f > g'"] {
        let output = run("unlimited", args);
        assert!(output.status.success(), "{args}: {}", stderr(&output));
    }
    for (limit, args, option) in [
        ("2", format!("run --quiet --apply --diff=../d.diff {replace}"), "--diff"),
        (
            "2",
            "sh --quiet --apply --trace=../t.log -c 'cat f f f f f f f f; echo a word > f'"
                .to_owned(),
            "--trace",
        ),
        ("unlimited", format!("run --quiet --apply --json {replace} > /dev/full"), "--json"),
    ] {
        let args = args.replace("../", &format!("{}/", home.path().display()));
        let output = run(limit, &args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(123), "{args}: {said}");
        assert!(said.contains(option) && said.contains("the changes are on the disk"), "{said}");
        assert!(std::fs::read_to_string(&file).unwrap().starts_with("a word"), "{args}");
    }
    // Where nothing was written it is another one.
    let output = run("unlimited", &format!("run --quiet --json {replace} > /dev/full"));
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    let mut session = belljar(folder.path());
    session.env("BELLJAR_HOME", home.path()).args(["sandbox", "create", "--id", "box"]);
    assert!(session.output().unwrap().status.success());
    let output = run("unlimited", "sandbox refresh --json box");
    assert!(output.status.success(), "{}", stderr(&output));
    let mut session = belljar(folder.path());
    session.env("BELLJAR_HOME", home.path()).args(["sandbox", "exec", "box", "cat", "f"]);
    assert!(session.output().unwrap().status.success());
    let output = run("unlimited", "sandbox cp --json box:f copy > /dev/full");
    assert_eq!(output.status.code(), Some(123), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(folder.path().join("copy")).unwrap(), text);
}
