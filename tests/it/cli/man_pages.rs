//! `belljar man-pages` and `belljar completions`.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::{belljar, skipped, stderr, stdout};

/// The commands that `help` lists, and those of each, by their words.
fn commands(words: &[&str], found: &mut BTreeSet<String>) {
    let folder = std::env::temp_dir();
    let help = belljar(&folder).args(words).arg("--help").output().unwrap();
    let help = stdout(&help);
    found.insert(
        std::iter::once("belljar").chain(words.iter().copied()).collect::<Vec<_>>().join("-"),
    );
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return };
    for line in list.lines().take_while(|line| !line.is_empty()) {
        let is_name = line.starts_with("  ") && !line.starts_with("   ");
        let name = line.split_whitespace().next().filter(|name| is_name && *name != "help");
        if let Some(name) = name {
            commands(&[words, &[name]].concat(), found);
        }
    }
}

#[test]
fn each_command_of_the_help_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let written = belljar(folder.path()).args(["man-pages", "share/man1"]).output().unwrap();
    assert!(written.status.success(), "{}", stderr(&written));
    let pages = std::fs::read_dir(folder.path().join("share/man1")).unwrap();
    let pages: BTreeSet<String> = pages
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .map(|name| name.strip_suffix(".1").unwrap().to_owned())
        .collect();
    let mut expected = BTreeSet::new();
    commands(&[], &mut expected);
    assert!(expected.contains("belljar-toolchain-pack"), "{expected:?}");
    assert_eq!(pages, expected);
    assert!(stderr(&written).contains(&format!("{} manual pages", pages.len())), "{written:?}");
}

#[test]
fn groff_reads_the_manual_pages_without_a_warning() {
    if Command::new("groff").arg("--version").output().is_err() {
        let required = std::env::var_os("BELLJAR_REQUIRE_PACKAGES").is_some();
        assert!(!required, "install groff");
        return skipped("groff reads the manual pages", "no groff");
    }
    let folder = tempfile::tempdir().unwrap();
    belljar(folder.path()).args(["man-pages", "."]).output().unwrap();
    for page in std::fs::read_dir(folder.path()).unwrap() {
        let page = page.unwrap().path();
        let done = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(&page).output();
        let done = done.unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{page:?}: {}", stderr(&done));
    }
    let run = folder.path().join("belljar-run.1");
    let run = Command::new("groff").args(["-man", "-Tascii", "-P-cbou"]).arg(run).output().unwrap();
    let run = stdout(&run);
    let words = run.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in ["belljar-run - Run a program over a directory", "--timeout", "EXAMPLES"] {
        assert!(words.contains(expected), "no {expected} in {run}");
    }
    // Examples keep their lines.
    assert!(run.contains("\n         belljar run wc README.md\n"), "{run}");
}

#[cfg(unix)]
#[test]
fn completions_of_bash_are_a_script_that_bash_loads() {
    let folder = tempfile::tempdir().unwrap();
    let script = belljar(folder.path()).args(["completions", "bash"]).output().unwrap();
    std::fs::write(folder.path().join("belljar.bash"), &script.stdout).unwrap();
    let words = "source ./belljar.bash; COMP_WORDS=(belljar tool); COMP_CWORD=1; \
        _belljar belljar tool belljar; echo \"${COMPREPLY[@]}\"";
    let completed =
        Command::new("bash").args(["-c", words]).current_dir(folder.path()).output().unwrap();
    assert_eq!(stdout(&completed), "toolchain\n", "{}", stderr(&completed));
}
