//! Packages that people published, made a toolchain; and what is said of the modules of a toolchain.
#![cfg(feature = "import")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{belljar, guest, stderr, stdout, tree};

struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(scene.path("work")).unwrap();
        scene
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn call(&self, args: &[&str]) -> Output {
        let mut command = belljar(&self.path("work"));
        command.env("BELLJAR_HOME", self.path("home")).args(args).output().unwrap()
    }

    fn succeed(&self, args: &[&str]) -> (String, String) {
        let output = self.call(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_slice(&self.call(args).stdout).unwrap()
    }

    fn manifest(&self, dir: &str) -> Value {
        let text = std::fs::read(self.path(dir).join("toolchain.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

/// A wheel at `path` with `files`.
fn wheel(path: &Path, files: &[(&str, &[u8])]) {
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, content) in files {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap();
}

/// A tarball at `path` with `files`, and a link `link`.
fn tarball(path: &Path, files: &[(&str, &[u8])], link: Option<&str>) {
    let file = std::fs::File::create(path).unwrap();
    let file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    let mut archive = tar::Builder::new(file);
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, *content).unwrap();
    }
    if let Some(name) = link {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, name, "/etc/passwd").unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap();
}

const LIBRARY: &[u8] = b"(module (func (export \"f\")))";

fn library() -> Vec<u8> {
    wat::parse_bytes(LIBRARY).unwrap().into_owned()
}

#[test]
fn a_wheel_becomes_a_toolchain() {
    let scene = Scene::new();
    let (cat, library) = (std::fs::read(guest("cat")).unwrap(), library());
    let metadata = b"Metadata-Version: 2.1\nName: print-it\nVersion: 3.1\nSummary: Prints it\n\
        License: MIT\nProject-URL: Home, https://example.org\n\nName: not-this\n";
    wheel(
        &scene.path("print_it-3.1-py3-none-any.whl"),
        &[
            ("print_it/__init__.py", b"import os"),
            ("print_it/print.wasm", &cat),
            ("print_it/lib.wasm", &library),
            ("print_it/share/doc/text.txt", b"it\n"),
            ("print_it-3.1.dist-info/METADATA", metadata),
        ],
    );
    let init = ["toolchain", "init", "--from", "../print_it-3.1-py3-none-any.whl"];
    let (out, err) = scene.succeed(&init);
    assert_eq!(
        out,
        "wrote print-it/toolchain.json: 1 program, 1 tree\n\
         try it: belljar run --toolchain print-it print\n"
    );
    assert!(err.contains("left out print_it/lib.wasm: it is a library"), "{err}");
    assert_eq!(
        scene.manifest("work/print-it"),
        json!({
            "format": "1.0", "name": "print-it", "version": "3.1", "description": "Prints it",
            "license": "MIT", "homepage": "https://example.org",
            "programs": { "print": { "module": "print_it/print.wasm" } },
            "trees": { "doc": "print_it/share/doc" },
        })
    );
    let text = "for d in /.belljar/*; do cat \"$d/doc/text.txt\"; done";
    let script = format!("print /dev/null; {text}");
    assert_eq!(scene.succeed(&["sh", "--toolchain", "print-it", "-c", &script]).0, "it\n");
    let (out, _) = scene.succeed(&["install", "--quiet", "print-it"]);
    assert_eq!(out, "print-it 3.1: print\n");
    let again = scene.call(&init);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("print-it exists; name a new folder"), "{}", stderr(&again));
}

#[test]
fn a_tarball_of_npm_becomes_a_toolchain() {
    let scene = Scene::new();
    let cat = std::fs::read(guest("cat")).unwrap();
    let about = json!({ "name": "@me/print", "version": "1.0.0", "license": { "type": "MIT" } });
    tarball(
        &scene.path("me-print-1.0.0.tgz"),
        &[
            ("package/package.json", about.to_string().as_bytes()),
            ("package/README.md", b"read me"),
            ("package/dist/a/print.wasm", &cat),
            ("package/dist/b/print.wasm", &cat),
            ("package/dist/data.tar", b"data"),
            ("package/dist/index.js", b"1"),
        ],
        Some("package/link"),
    );
    let init = ["toolchain", "init", "--from", "../me-print-1.0.0.tgz", "here", "--name", "own"];
    let (out, err) = scene.succeed(&init);
    assert!(out.starts_with("wrote here/toolchain.json: 2 programs, 0 trees\n"), "{out}");
    assert!(err.contains("left out package/link: it is not a regular file"), "{err}");
    assert!(err.contains("programs do not see 1 file of package/dist;"), "{err}");
    assert_eq!(
        scene.manifest("work/here"),
        json!({
            "format": "1.0", "name": "own", "version": "1.0.0",
            "programs": {
                "print": { "module": "package/dist/a/print.wasm" },
                "package-dist-b-print": { "module": "package/dist/b/print.wasm" },
            },
        })
    );
    assert_eq!(scene.succeed(&["toolchain", "check", "here"]).1, "");
}

#[test]
fn hostile_and_useless_packages_are_refused_and_leave_nothing() {
    let scene = Scene::new();
    let cat = std::fs::read(guest("cat")).unwrap();
    wheel(&scene.path("slip.whl"), &[("../cat.wasm", &cat)]);
    wheel(&scene.path("twice.whl"), &[("a/cat.wasm", &cat), ("a/cat.wasm/b", b"x")]);
    wheel(&scene.path("nothing.whl"), &[("a/readme.txt", b"x")]);
    wheel(&scene.path("library.whl"), &[("a/library.wasm", &library())]);
    wheel(&scene.path("manifest.whl"), &[("toolchain.json", b"{}"), ("a/cat.wasm", &cat)]);
    std::fs::write(scene.path("text.whl"), "text").unwrap();
    std::fs::write(scene.path("short.tgz"), [0x1f, 0x8b, 8, 0]).unwrap();
    for (package, why) in [
        ("slip.whl", "leads elsewhere"),
        ("twice.whl", "a/cat.wasm"),
        ("nothing.whl", "nothing.whl has no file whose name ends in .wasm"),
        ("library.whl", "library.whl has no program"),
        ("text.whl", "is neither a wheel (zip) nor a tarball (tar.gz)"),
        ("short.tgz", "cannot unpack"),
        ("missing.whl", "No such file"),
    ] {
        let package = format!("../{package}");
        let output = scene.call(&["toolchain", "init", "--from", &package, "new"]);
        assert!(!output.status.success());
        assert!(stderr(&output).contains(why), "{package}: {}", stderr(&output));
        assert!(tree(&scene.path("work")).is_empty(), "{package}");
    }
    // A manifest of the package's own is replaced: it was not checked by whoever drafts one.
    scene.succeed(&["toolchain", "init", "--from", "../manifest.whl", "new"]);
    assert_eq!(scene.manifest("work/new")["name"], "new");
}

/// A toolchain in `work/tools` with these modules as text.
fn toolchain(scene: &Scene, modules: &[(&str, &str)], args: &[&str]) {
    let dir = scene.path("work/tools");
    std::fs::create_dir_all(&dir).unwrap();
    let mut programs = serde_json::Map::new();
    for (name, text) in modules {
        let file = format!("{name}.wasm");
        std::fs::write(dir.join(&file), wat::parse_str(text).unwrap()).unwrap();
        programs.insert((*name).to_owned(), json!({ "module": file, "args": args }));
    }
    let manifest = json!({ "format": "1.0", "name": "t", "version": "1", "programs": programs });
    std::fs::write(dir.join("toolchain.json"), manifest.to_string()).unwrap();
}

#[test]
fn inspect_tells_what_modules_need() {
    let scene = Scene::new();
    let plain = r#"(module
        (import "wasi_snapshot_preview1" "sched_yield" (func (result i32)))
        (import "env" "nowhere" (func))
        (memory 1)
        (func (export "_start") (memory.fill (i32.const 0) (i32.const 0) (i32.const 1))
            (drop (i32.extend8_s (i32.const 1)))))"#;
    toolchain(&scene, &[("plain", plain)], &[]);
    let inspected = scene.json(&["toolchain", "inspect", "--json", "tools"]);
    assert_eq!(
        inspected["modules"],
        json!([{
            "path": "plain.wasm", "programs": ["plain"],
            "len_bytes": std::fs::metadata(scene.path("work/tools/plain.wasm")).unwrap().len(),
            "imports": { "env": ["nowhere"], "wasi_snapshot_preview1": ["sched_yield"] },
            "unknown_imports": ["env.nowhere"], "proposals": ["bulk-memory", "sign-extension"],
            "is_command": true, "hermetic": true,
        }])
    );
    let (out, _) = scene.succeed(&["toolchain", "inspect", "tools"]);
    for line in [
        "  imports 1 of env, 1 of wasi_snapshot_preview1\n",
        "  proposals bulk-memory, sign-extension\n",
        "  traps when it calls env.nowhere, which belljar does not have\n",
        "  hermetic\n",
    ] {
        assert!(out.contains(line), "{out}");
    }
    std::fs::remove_dir_all(scene.path("work/tools")).unwrap();
    let ask = std::fs::read(guest("ask")).unwrap();
    toolchain(&scene, &[("ask", "(module)")], &[]);
    std::fs::write(scene.path("work/tools/ask.wasm"), ask).unwrap();
    let inspected = scene.json(&["toolchain", "inspect", "--json", "tools"]);
    assert_eq!(inspected["modules"][0]["hermetic"], false);
}

#[test]
fn check_lists_all_problems_at_once_with_their_pointers() {
    let scene = Scene::new();
    let unknown = r#"(module (import "env" "nowhere" (func)) (func (export "_start")))"#;
    let modules =
        [("library", "(module)"), ("shared", "(module (memory 1 1 shared))"), ("odd", unknown)];
    toolchain(&scene, &modules, &["{toolchian}/x"]);
    let mut manifest = scene.manifest("work/tools");
    manifest["programs"]["gone"] = json!({ "module": "gone.wasm" });
    manifest["programs"]["text"] = json!({ "module": "text.wasm" });
    manifest["trees"] = json!({ "share": "no/share" });
    std::fs::write(scene.path("work/tools/text.wasm"), "int main;").unwrap();
    std::fs::write(scene.path("work/tools/toolchain.json"), manifest.to_string()).unwrap();
    let output = scene.call(&["toolchain", "check", "tools"]);
    assert_eq!(output.status.code(), Some(1));
    let out = stdout(&output);
    for line in [
        "/programs/gone/module: gone.wasm: No such file or directory",
        "/programs/text/module: text.wasm: it is not a WebAssembly module",
        "/programs/library/module: it does not export the function `_start`",
        "/programs/shared/module: it has a shared memory",
        "/trees/share: no/share: No such file or directory",
        "note: /programs/odd/module: it imports env.nowhere, which belljar does not have",
        "note: /programs/odd/args/0: {toolchian} is passed as it is; `{toolchain}` may be meant",
    ] {
        assert!(cfg!(windows) || out.contains(line), "{line} is not in {out}");
    }
    let checked = scene.json(&["toolchain", "check", "--json", "tools"]);
    assert_eq!(checked["problems"].as_array().unwrap().len(), 5);
    assert_eq!(checked["notes"].as_array().unwrap().len(), 4);
    for (text, pointer) in [
        (r#"{"format": "9.0"}"#, "/format"),
        ("{", ""),
        (r#"{"format": "1.0", "name": 1}"#, "/name"),
    ] {
        std::fs::write(scene.path("work/tools/toolchain.json"), text).unwrap();
        let checked = scene.json(&["toolchain", "check", "--json", "tools"]);
        assert_eq!(checked["problems"][0]["pointer"], pointer, "{checked}");
    }
}
