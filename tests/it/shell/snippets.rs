//! `snippets.txt`: scripts, what they print and their status. A block begins with `===`, its script follows, then `---
//! STATUS`, then its output; a last line without a newline ends with `<no newline>`. Where the output differs from that
//! of `dash`, `=== differs: WHY` gives the reason.

use std::process::{Command, Stdio};

/// Scripts that run at once.
const THREADS: usize = 16;

struct Snippet {
    script: &'static str,
    stdout: String,
    status: u32,
    differs: bool,
}

fn snippets() -> Vec<Snippet> {
    let text = include_str!("snippets.txt");
    let text = text.strip_prefix("===").and_then(|text| text.strip_suffix('\n')).unwrap();
    let blocks = text.split("\n===");
    let block = |block: &'static str| {
        let (head, rest) = block.split_once('\n').unwrap();
        let (script, rest) = rest.split_once("\n--- ").unwrap();
        let (status, stdout) = match rest.split_once('\n') {
            None => (rest, String::new()),
            Some((status, text)) => match text.strip_suffix("<no newline>") {
                Some(text) => (status, text.to_owned()),
                None => (status, format!("{text}\n")),
            },
        };
        let differs = head.starts_with(" differs: ");
        Snippet { script, stdout, status: status.parse().unwrap(), differs }
    };
    blocks.map(block).collect()
}

#[test]
fn snippets_have_the_written_results() {
    let all = snippets();
    assert!(all.len() >= 800, "{}", all.len());
    let mut wrong = Vec::new();
    for Snippet { script, stdout, status, .. } in all {
        let output = super::run(script);
        let found = String::from_utf8_lossy(&output.stdout);
        if found != stdout || output.status.code() != Some(status) {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let outcome = output.status.outcome();
            wrong.push(format!(
                "{script}\n  expected {status} {stdout:?}\n  found    {outcome:?} {found:?}\n  {stderr}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{} snippets\n{}", wrong.len(), wrong.join("\n"));
}

/// If `BELLJAR_REQUIRE_DASH` is set, the absence of `dash` is a failure.
#[test]
fn dash_does_the_same() {
    let is_there = Command::new("dash").args(["-c", ":"]).stderr(Stdio::null()).status().is_ok();
    if !is_there {
        assert!(std::env::var_os("BELLJAR_REQUIRE_DASH").is_none(), "dash is not installed");
        eprintln!("skipped: dash is not installed");
        return;
    }
    let disagrees = |Snippet { script, stdout, status, differs }: &Snippet| {
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new("dash")
            .args(["-c", script])
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let found = String::from_utf8_lossy(&output.stdout);
        let agrees = found == *stdout && output.status.code() == Some(status.cast_signed());
        (agrees == *differs).then(|| format!("{script}\n  {:?} {found:?}", output.status.code()))
    };
    // Most of the time they sleep.
    let all = snippets();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let parts = all.chunks(all.len().div_ceil(THREADS));
        let check = |part: &[Snippet]| part.iter().filter_map(disagrees).collect::<Vec<_>>();
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || check(part))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
