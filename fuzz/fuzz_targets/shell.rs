//! A script: two runs of it are the same, and what `sh -n` accepts has no syntax error.
#![no_main]

use belljar::{Command, Outcome};
use belljar_fuzz::machine;
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|script: &[u8]| -> Corpus {
    if script.contains(&0) || script.len() > 4096 {
        return Corpus::Reject;
    }
    let run = |args: &[&[u8]]| {
        let mut machine = machine();
        let output = Command::sh().args(args).output(&mut machine).expect("a shell starts");
        (output.status.outcome().clone(), output.stdout, output.stderr)
    };
    let checked = run(&[b"-n", b"-c", script]);
    let (first, second) = (run(&[b"-c", script]), run(&[b"-c", script]));
    assert!(first == second, "two runs differ: {first:?} {second:?}");
    // A script runs command by command: commands before a syntax error have run.
    if matches!(checked.0, Outcome::Exited(0)) {
        let said = String::from_utf8_lossy(&first.2);
        let is_refused = |line: &str| line.starts_with("sh: ") && line.contains(": Syntax error");
        assert!(!said.lines().any(is_refused) || contains_eval(script), "{said}");
    }
    Corpus::Keep
});

/// Whether the script may read another script.
fn contains_eval(script: &[u8]) -> bool {
    let text = String::from_utf8_lossy(script);
    // Words can be composed from any parts.
    ["eval", ".", "sh", "$", "`", "alias", "trap", "\\", "\"", "'"]
        .iter()
        .any(|it| text.contains(it))
}
