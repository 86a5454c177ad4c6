//! Changes of files whose contents have not been read.

use super::scene::Scene;
use crate::support::{belljar, guest, stderr};

/// Regression: the recorder deadlocked with itself.
#[test]
fn file_truncated_before_it_was_read_is_recorded() {
    let scene = Scene::new();
    std::fs::copy(guest("overwrite"), scene.path("tree/overwrite.wasm")).unwrap();
    for len in ["0", "5", "12", "30"] {
        let change = format!("truncate:note.txt:{len}");
        let output = scene.same(&["./overwrite.wasm", &change]);
        assert!(output.status.success(), "{change}: {}", stderr(&output));
        let verify = ["verify", "--runs", "2", "./overwrite.wasm", &change];
        let output = belljar(&scene.path("tree")).args(verify).output().unwrap();
        assert!(output.status.success(), "{change}: {}", stderr(&output));
    }
    // A file that is appended to and then renamed; a file that is truncated several times and then
    // read.
    for script in [
        "./overwrite.wasm append:note.txt:more truncate:sub/inner:3; mv note.txt sub/note",
        "for i in 1 2 3; do ./overwrite.wasm truncate:note.txt:$((9 - i)); done; cat note.txt",
    ] {
        let output = scene.same(&["sh", "-c", script]);
        assert!(output.status.success(), "{script}: {}", stderr(&output));
    }
}
