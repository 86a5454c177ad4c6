//! Runs the commands of the documentation for `cmd`, as [`crate::support::console`] describes.
#![cfg(windows)]

use crate::support::console::examples;
use crate::support::package;

#[test]
fn every_documented_command_for_windows_prints_what_the_docs_show() {
    let document = "docs/windows.md";
    let text = std::fs::read_to_string(package().join(document)).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("job");
    std::fs::create_dir(&folder).unwrap();
    let examples = examples(&text);
    assert!(examples.len() > 5, "{document} has only {} commands", examples.len());
    let home = scratch.path().join("home");
    let wrong = examples.iter().filter_map(|it| it.mistake(document, &folder, &home, &[]));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
