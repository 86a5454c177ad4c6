//! Toolchains with a manifest: programs get arguments, variables and trees from it.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{belljar, guest, stderr, stdout};

/// A folder with a toolchain `tools` and a worktree `work`.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        for folder in ["tools/wasm", "tools/scripts", "tools/include/sub", "work"] {
            std::fs::create_dir_all(scene.path(folder)).unwrap();
        }
        for name in ["env", "cat"] {
            std::fs::copy(guest(name), scene.path("tools/wasm").join(name).with_extension("wasm"))
                .unwrap();
        }
        let script = "show one \"$@\"; cat \"${0%/bin/*}/include/sub/note.txt\"\n";
        std::fs::write(scene.path("tools/scripts/both.sh"), script).unwrap();
        std::fs::write(scene.path("tools/include/sub/note.txt"), "a note\n").unwrap();
        scene.describe(&manifest());
        scene
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path)
    }

    fn describe(&self, manifest: &Value) {
        std::fs::write(self.path("tools/toolchain.json"), manifest.to_string()).unwrap();
    }

    fn call(&self, args: &[&str]) -> Output {
        belljar(&self.path("work")).args(args).output().unwrap()
    }

    /// The output of `belljar COMMAND --toolchain ../tools ARGS`.
    fn succeed(&self, command: &[&str], args: &[&str]) -> String {
        let output = self.call(&[command, &["--toolchain", "../tools"], args].concat());
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }
}

fn manifest() -> Value {
    json!({
        "format": "1.0",
        "name": "tools",
        "version": "1",
        "programs": {
            "show": {
                "module": "wasm/env.wasm",
                "argv0": "shown",
                "args": ["-I{toolchain}/include"],
                "env": { "MODE": "default", "ROOT": "{toolchain}" },
            },
            "note": { "module": "wasm/cat.wasm", "args": ["{toolchain}/include/sub/note.txt"] },
            "both": { "script": "bin/both.sh", "args": ["two"] },
        },
        "trees": { "bin": "scripts", "include": "include" },
    })
}

/// `text` without the digest in the toolchain's directory.
fn without_digest(text: &str) -> String {
    regex::Regex::new("tools-[0-9a-f]{12}").unwrap().replace_all(text, "tools").into_owned()
}

const SHOWN: &str = "argv[0]=shown\nargv[1]=-I/.belljar/tools/include\n";

#[test]
fn program_of_a_manifest_gets_its_arguments_variables_and_trees() {
    let scene = Scene::new();
    let shown = without_digest(&scene.succeed(&["run"], &["--env", "MODE=own", "show", "x"]));
    assert_eq!(
        shown,
        SHOWN.to_owned()
            + "argv[2]=x\nenviron[0]=MODE=own\nenviron[1]=ROOT=/.belljar/tools\nenviron[2]=PWD=/worktree\n"
    );
    assert_eq!(scene.succeed(&["run"], &["note"]), "a note\n");
    let names = scene.succeed(&["programs"], &[]);
    assert!(names.contains("show ") && !names.contains("env  ../tools"), "{names}");
    let unknown = scene.call(&["run", "--toolchain", "../tools", "shwo"]);
    assert!(stderr(&unknown).contains("did you mean show"), "{}", stderr(&unknown));
}

#[test]
fn programs_and_scripts_of_a_manifest_run_in_a_process_tree_and_replay() {
    let scene = Scene::new();
    let script = "both three; MODE=own show | tail -n 2; ls /.belljar/*; note";
    for command in [&["run", "both", "three"][..], &["sh", "-c", script]] {
        let (name, rest) = command.split_first().unwrap();
        let args: Vec<&str> = rest.to_vec();
        let ran = scene.succeed(&[name], &args);
        let recorded = match *name {
            "sh" => scene.succeed(&["record", "--tape", "../t"], &[&["sh"], &args[..]].concat()),
            _ => scene.succeed(&["record", "--tape", "../t"], &args),
        };
        assert_eq!(recorded, ran);
        let replayed = scene.call(&["replay", "--toolchain", "../tools", "../t"]);
        assert!(stderr(&replayed).contains("the run is the same"), "{}", stderr(&replayed));
        assert_eq!(stdout(&replayed), ran);
        let both = SHOWN.to_owned() + "argv[2]=one\nargv[3]=two\nargv[4]=three\n";
        assert!(without_digest(&ran).starts_with(&both), "{ran}");
    }
    // A replay needs no toolchain if its programs are on the tape.
    scene.succeed(&["record", "--embed-program", "--tape", "../t"], &["sh", "-c", script]);
    std::fs::remove_dir_all(scene.path("tools")).unwrap();
    let replayed = scene.call(&["replay", "../t"]);
    assert!(stderr(&replayed).contains("the run is the same"), "{}", stderr(&replayed));
}

#[test]
fn trees_of_a_toolchain_are_read_only_and_no_name_of_a_worktree_hides_them() {
    let scene = Scene::new();
    std::fs::create_dir_all(scene.path("work/.belljar/tools")).unwrap();
    std::fs::create_dir_all(scene.path("work/include/sub")).unwrap();
    std::fs::write(scene.path("work/include/sub/note.txt"), "the worktree's\n").unwrap();
    assert_eq!(scene.succeed(&["run"], &["note"]), "a note\n");
    assert_eq!(
        scene.succeed(&["sh"], &["-c", "cat include/sub/note.txt; note"]),
        "the worktree's\na note\n"
    );
    let write = "note; for d in /.belljar/tools-*; do echo x > \"$d/include/new\"; done";
    let written = scene.call(&["sh", "--diff", "--toolchain", "../tools", "-c", write]);
    assert!(stderr(&written).contains("Read-only file system"), "{}", stderr(&written));
    assert_eq!(stdout(&written), "a note\n");
    let mounted = scene.call(&["run", "--dir", "include::/.belljar/x", "cat"]);
    assert_eq!(mounted.status.code(), Some(2));
    assert!(
        stderr(&mounted).contains("is where toolchains have their files"),
        "{}",
        stderr(&mounted)
    );
}

/// Another toolchain, or the worktree, cannot put its program in the place of one that a script of a toolchain calls.
#[test]
fn script_finds_the_programs_of_its_own_toolchain() {
    let scene = Scene::new();
    std::fs::write(
        scene.path("tools/scripts/both.sh"),
        "root=${0%/bin/*}\n\"$root/show\" own\nshow\n",
    )
    .unwrap();
    std::fs::create_dir(scene.path("other")).unwrap();
    std::fs::copy(guest("hello"), scene.path("other/show.wasm")).unwrap();
    let run = ["--toolchain", "../other", "--toolchain", "../tools", "both"];
    let ran = stdout(&scene.call(&[&["run"], &run[..]].concat()));
    assert!(without_digest(&ran).starts_with(&(SHOWN.to_owned() + "argv[2]=own\n")), "{ran}");
    assert!(!ran.contains("argv[2]=two"), "{ran}");
    scene.call(&[&["record", "-q", "--tape", "../t"], &run[..]].concat());
    let replayed =
        scene.call(&["replay", "--toolchain", "../other", "--toolchain", "../tools", "../t"]);
    assert!(stderr(&replayed).contains("the run is the same"), "{}", stderr(&replayed));
    assert_eq!(stdout(&replayed), ran);
}

#[test]
fn sessions_have_the_trees_of_their_toolchains() {
    let scene = Scene::new();
    let session = scene.succeed(&["sandbox", "create"], &[]);
    let exec = |args: &[&str]| {
        let output = scene.call(&[&["sandbox", "exec", session.trim(), "--"], args].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    for _ in 0..2 {
        assert_eq!(exec(&["note"]), "a note\n");
        assert!(without_digest(&exec(&["both"])).starts_with(SHOWN));
    }
    scene.call(&["sandbox", "rm", session.trim()]);
}

#[test]
fn problems_of_a_manifest_are_listed_with_their_places() {
    let scene = Scene::new();
    let refuse = |change: &dyn Fn(&mut Value)| {
        let mut manifest = manifest();
        change(&mut manifest);
        scene.describe(&manifest);
        let output = scene.call(&["run", "--toolchain", "../tools", "note"]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    for (pointer, value, why) in [
        ("/name", json!("a/b"), "expected letters"),
        ("/programs/note/module", json!("../cat.wasm"), "cannot be a path"),
        ("/programs/note/module", json!("/cat.wasm"), "cannot be a path"),
        ("/programs/note/args/0", json!("a\0"), "contains NUL"),
        ("/programs/note/args/0", json!(1), "invalid type"),
        ("/programs/both/script", json!("other/both.sh"), "does not lie in one of `trees`"),
        ("/trees/include", json!("a\\b"), "cannot be a path"),
        ("/programs/-n", json!({ "module": "wasm/cat.wasm" }), "does not begin with `-`"),
        ("/programs/\u{1b}[31mred", json!({ "module": "wasm/cat.wasm" }), "control characters"),
        ("/programs", json!({}), "at least one program"),
        ("/format", json!("2.0"), "format 2.0 is not supported"),
        ("/format", json!(1), ""),
    ] {
        let said = refuse(&|manifest| {
            let parent = pointer.rsplit_once('/').unwrap();
            match manifest.pointer_mut(parent.0).unwrap() {
                Value::Array(items) => items[0] = value.clone(),
                object => object[parent.1] = value.clone(),
            }
        });
        assert!(said.contains(why), "{pointer}: {said}");
        let is_shown = said.contains(pointer) || pointer == "/format" || pointer.contains('\u{1b}');
        assert!(is_shown && !said.contains('\u{1b}'), "{pointer}: {said}");
    }
    let said = refuse(&|manifest| {
        manifest["name"] = json!("");
        manifest["programs"]["x"] = json!({});
        manifest["trees"]["include/sub"] = json!("include");
    });
    for place in ["/name: ", "/programs/x: expected either", "/trees/include~1sub: it lies in"] {
        assert!(said.contains(place), "{said}");
    }
    let said = refuse(&|manifest| manifest["trees"]["lib"] = json!("missing"));
    assert!(said.contains("toolchain.json is incomplete"), "{said}");
    std::fs::write(scene.path("tools/toolchain.json"), "{").unwrap();
    let output = scene.call(&["programs", "--toolchain", "../tools"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("toolchain.json"), "{}", stderr(&output));
    let _: &Path = scene.0.path();
}
