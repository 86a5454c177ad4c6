//! Folders with programs of all origins, and a run over them that is recorded and replayed.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use belljar::tape::Tape;

use crate::support::{belljar, guest, package, stderr, stdout};

/// A module that ends with code 3, as text.
const TEXT: &str = r#"(module
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (func (export "_start") (call $exit (i32.const 3))))"#;

/// A module without `_start`, and a module with an undefined import.
const REACTOR: &str = r#"(module (memory (export "memory") 1) (func (export "run")))"#;
const IMPORT: &str = r#"(module (import "env" "nobody" (func $f)) (memory (export "memory") 1)
    (func (export "_start") (call $f)))"#;

/// `tree`, in which programs run; `tools`, a toolchain; `other`, a folder to mount; and a tape.
pub struct Scene {
    folder: tempfile::TempDir,
}

/// The output of a run, and of the replay of its tape if it left one.
pub struct Both {
    pub recorded: Output,
    pub replayed: Option<Output>,
}

impl Scene {
    pub fn new() -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["tree/sub", "tools", "other", "elsewhere"] {
            std::fs::create_dir_all(scene.path(folder)).unwrap();
        }
        let demo = |name: &str| package().join("toolchains/demo").join(name);
        for (from, to) in [
            (demo("replace.wasm"), "tree/w.wasm"),
            (guest("cat"), "tree/sub/w.wasm"),
            (demo("wc.wasm"), "tree/sub/found.wasm"),
            (guest("trap"), "tree/trap.wasm"),
            (guest("random"), "tree/random.wasm"),
            (guest("sleeper"), "tree/sleeper.wasm"),
            (guest("ask"), "tree/ask.wasm"),
            (guest("clock"), "tools/tool.wasm"),
            // Not the built-in `cat`.
            (guest("cat"), "tools/cat.wasm"),
        ] {
            std::fs::copy(from, scene.path(to)).unwrap();
        }
        for (path, text) in [
            ("tree/note.txt", "one\ntwo\none\n"),
            ("tree/text.wat", TEXT),
            ("tree/reactor.wasm", REACTOR),
            ("tree/import.wasm", IMPORT),
            ("tree/script.sh", "#!/bin/sh\necho \"$0 $#\"; wc -l note.txt; cat\n"),
            ("tree/orphan.sh", "#!/usr/bin/nobody\n"),
            ("tree/loop.sh", "#!/usr/bin/env ./loop.sh\n"),
            ("tree/empty", ""),
            ("tree/cut.wasm", "\0asm\u{1}\0\0\0\u{1}"),
            ("tree/sub/inner", "inner\n"),
            ("tools/damaged.wasm", "\0asm\u{1}\0\0\0\u{1}"),
            ("tools/compiled.cwasm", "x"),
            ("other/part", "a part\n"),
            ("answers", "yes\nno\n"),
            ("policy.json", r#"{"version": 1, "deny": ["rm *", "sub/*"], "approve": ["wc *"]}"#),
            ("input", "from\nabove\n"),
        ] {
            std::fs::write(scene.path(path), text).unwrap();
        }
        scene
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the file `name`.
    pub fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// Records `args`, which are options and a program, with programs from `tools` embedded in the tape. Replays it
    /// after these folders were moved away, and without programs of the host.
    pub fn both(&self, args: &[&str]) -> Both {
        let record = ["record", "--quiet", "--embed-program", "--toolchain", "../tools", "--tape"];
        let mut command = belljar(&self.path("tree"));
        command.args(record).arg("../run.tape").args(args);
        let stdin = std::fs::File::open(self.path("input")).unwrap();
        let recorded = command.stdin(Stdio::from(stdin)).output().unwrap();
        let tape = self.path("run.tape");
        if !tape.exists() {
            return Both { recorded, replayed: None };
        }
        for folder in ["tree", "tools", "other"] {
            std::fs::rename(self.path(folder), self.path(&format!("{folder} moved"))).unwrap();
        }
        let mut command = belljar(&self.path("elsewhere"));
        let replayed = command.args(["replay", "../run.tape"]).env("PATH", "").output().unwrap();
        for folder in ["tree", "tools", "other"] {
            std::fs::rename(self.path(&format!("{folder} moved")), self.path(folder)).unwrap();
        }
        Both { recorded, replayed: Some(replayed) }
    }

    /// As [`Scene::both`], but there must be a replay, and it must be the same. Returns the recorded output.
    pub fn same(&self, args: &[&str]) -> Output {
        let both = self.both(args);
        both.expect_same(&format!("{args:?}"));
        assert!(both.replayed.is_some(), "{args:?}: {}", stderr(&both.recorded));
        both.recorded
    }

    /// The records of the tape.
    pub fn tape(&self) -> Tape {
        Tape::load(&self.path("run.tape")).unwrap()
    }
}

impl Both {
    /// Fails unless the replay, if there is one, was the same; `what` describes the run.
    pub fn expect_same(&self, what: &str) {
        let Some(replayed) = &self.replayed else { return };
        let said = stderr(replayed);
        assert!(said.contains("the run is the same"), "{what}: {said}");
        assert_eq!(stdout(replayed), stdout(&self.recorded), "{what}");
        assert_eq!(replayed.status.code(), self.recorded.status.code(), "{what}: {said}");
    }
}
