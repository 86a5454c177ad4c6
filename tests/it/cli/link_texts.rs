//! Long texts of symbolic links.

use super::scratch;
use crate::support::{belljar, has_links, stderr, stdout, symlink};

/// Regression: the text of a link and the rest of the path had one limit together.
#[test]
fn long_link_text_and_the_rest_of_the_path_each_have_the_limit() {
    if !has_links("long_link_text_and_the_rest_of_the_path_each_have_the_limit") {
        return;
    }
    let folder = scratch();
    let dir = folder.path();
    std::fs::create_dir(dir.join("d")).unwrap();
    std::fs::write(dir.join("d/f"), "hi\n").unwrap();
    for (name, target) in [("l", "d"), ("l2", "l")] {
        let text = format!("{target}{}", "/".repeat(4094));
        assert!(symlink(text, dir.join(name)));
    }
    for path in ["l/f", "l2/f"] {
        let output = belljar(dir).args(["run", "-q", "cat", path]).output().unwrap();
        assert_eq!(stdout(&output), "hi\n", "{path}: {}", stderr(&output));
    }
    let script = "echo new > l2/new; cat d/new; cat l/f/x; cat l2/none/x";
    let output = belljar(dir).args(["sh", "-q", "-c", script]).output().unwrap();
    assert_eq!(stdout(&output), "new\n");
    let said = stderr(&output);
    assert!(said.contains("Not a directory") && said.contains("No such file"), "{said}");
}
