//! What attacks on bundles, packages, keys and projects once achieved.
#![cfg(unix)]

use std::io::Write;
use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};

use crate::signatures::{Scene, entry};
use crate::support::{belljar, stderr, stdout};

fn call(scene: &Scene, args: &[&str]) -> Output {
    scene.command(args).output().unwrap()
}

/// Checks that the command fails with `why`, quickly, and leaves nothing in the store and in the working directory.
fn refuse(scene: &Scene, args: &[&str], why: &str) {
    let before = crate::support::tree(&scene.path("work"));
    let output = call(scene, args);
    assert!(!output.status.success(), "{args:?}: {}", stdout(&output));
    assert!(stderr(&output).contains(why), "{args:?}: {}", stderr(&output));
    assert!(stderr(&output).len() < 10_000, "{args:?}: {} bytes", stderr(&output).len());
    assert_eq!(crate::support::tree(&scene.path("work")), before);
    let folder = std::fs::read_dir(scene.path("home/toolchains")).into_iter().flatten();
    let left = folder.flatten().filter(|it| it.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(left.count(), 0);
}

fn project(scene: &Scene, text: &str) -> PathBuf {
    let dir = scene.path("work");
    std::fs::write(dir.join("belljar.toml"), text).unwrap();
    dir
}

/// The name of a folder may contain `::`, with which the options separate paths.
#[test]
fn worktree_of_an_untrusted_project_cannot_lie_outside_by_two_colons() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("user")).unwrap();
    std::fs::write(scene.path("user/secret.txt"), "secret").unwrap();
    let dir = scene.path("work");
    std::fs::create_dir_all(dir.join("a::b")).unwrap();
    std::os::unix::fs::symlink(scene.path("user"), dir.join("x::y")).unwrap();
    for value in ["a::b/../../user", "x::y", "x::y::ro", "a::b/../../user::ro", "../user"] {
        for option in ["worktree", "dir"] {
            let setting =
                if option == "dir" { format!("[{value:?}]") } else { format!("{value:?}") };
            project(&scene, &format!("[run]\n{option} = {setting}\n"));
            for path in
                ["secret.txt", "user/secret.txt", "/y/secret.txt", "b/../../user/secret.txt"]
            {
                let output = call(&scene, &["run", "cat", path]);
                assert_eq!(stdout(&output), "", "{option} = {value}: {path}");
            }
        }
    }
    std::fs::create_dir_all(dir.join("sub")).unwrap();
    std::fs::write(dir.join("sub/own.txt"), "own").unwrap();
    for value in ["sub", "sub::ro", "sub/../sub"] {
        project(&scene, &format!("[run]\nworktree = {value:?}\n"));
        assert_eq!(scene.succeed(&["run", "cat", "own.txt"]), "own", "{value}");
    }
}

/// `LD_PRELOAD`, `BASH_ENV` and the like make native programs run what they name.
#[test]
fn variables_of_an_untrusted_project_do_not_reach_native_programs() {
    let scene = Scene::new();
    project(&scene, "[run]\nenv = [\"OF_PROJECT=1\"]\n");
    assert_eq!(scene.succeed(&["sh", "-c", "echo $OF_PROJECT"]), "1\n");
    let native = ["sh", "--on-missing", "native", "-c", "echo \"<$OF_PROJECT>\""];
    let output = call(&scene, &native);
    assert_eq!(stdout(&output), "<>\n");
    assert!(stderr(&output).contains("env of"), "{}", stderr(&output));
    scene.succeed(&["trust"]);
    assert_eq!(scene.succeed(&native), "<1>\n");
}

/// A time that does not fit a number of nanoseconds was no more than the default.
#[test]
fn limits_of_an_untrusted_project_are_not_raised_by_an_overflow() {
    let scene = Scene::new();
    project(&scene, "[run]\ncompile-timeout = \"6000000h\"\n");
    let config: Value = serde_json::from_str(&scene.succeed(&["config", "--json"])).unwrap();
    assert_eq!(config["ignored"][0]["name"], "compile-timeout", "{config}");
    let many = vec!["\".\""; 10_000].join(",");
    project(&scene, &format!("[run]\ndir = [{many}]\n"));
    refuse(&scene, &["run", "true"], "run.dir: it has more than 256 values");
}

/// The toolchain was installed, and its compiled code taken, before the key was refused.
#[test]
fn key_that_cannot_be_trusted_is_refused_before_anything_is_installed() {
    let scene = Scene::new();
    scene.succeed(&["keys", "trust", "../a.key.pub"]);
    let (a, b) = (scene.key("a.key").1, scene.key("b.key").1);
    let forged = format!("{}{}", &a[..16], &b[16..]);
    scene.pack(None, "plain.belljar");
    refuse(&scene, &["install", "--trust", &forged, "plain.belljar"], "another key with the ID");
    assert_eq!(scene.succeed(&["toolchain", "list"]), "");
    let output = call(&scene, &["keys", "remove", &scene.key("a.key").0]);
    assert!(stderr(&output).contains("`belljar cache clear` removes it"), "{}", stderr(&output));
}

#[test]
fn bundle_with_two_entries_of_the_same_bytes_is_refused() {
    const CENTRAL: &[u8] = b"PK\x01\x02";
    let scene = Scene::new();
    for name in ["one", "two"] {
        std::fs::write(scene.path("tools/share").join(name), "the same").unwrap();
    }
    scene.pack(None, "t.belljar");
    let mut bytes = scene.read("t.belljar");
    let headers: Vec<usize> =
        (0..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(CENTRAL)).collect();
    let of = |name: &[u8]| headers.iter().find(|at| bytes[**at + 46..].starts_with(name)).unwrap();
    let (one, two) = (*of(b"share/one"), *of(b"share/two"));
    let offset = bytes[one + 42..one + 46].to_vec();
    bytes[two + 42..two + 46].copy_from_slice(&offset);
    std::fs::write(scene.path("work/t.belljar"), bytes).unwrap();
    refuse(&scene, &["install", "t.belljar"], "two of its entries are the same bytes");
}

#[test]
fn manifests_whose_work_or_record_would_have_no_end_are_refused() {
    let scene = Scene::new();
    scene.pack(None, "t.belljar");
    let whole = scene.entries("t.belljar");
    let mut manifest: Value =
        serde_json::from_slice(&whole.iter().find(|it| it.0 == "toolchain.json").unwrap().1)
            .unwrap();
    let files = manifest["files"].clone();
    let trees: serde_json::Map<String, Value> =
        (0..2000).map(|number| (format!("t{number}"), json!("share"))).collect();
    let deep = format!("share/{}f", "a/".repeat(1800));
    let wrong: serde_json::Map<String, Value> =
        (0..3000).map(|number| (format!("p{number}"), json!({}))).collect();
    for (field, value, why) in [
        ("trees", json!(trees), "at most 10000 programs and 1000 trees"),
        ("trees", json!({ "/".repeat(1_000_000): "share" }), "at most 64 names and 1024 bytes"),
        ("description", json!("x".repeat(1 << 20)), "expected a text of at most 16384 bytes"),
        ("files", json!({ deep: files["cat.wasm"] }), "at most 64 names and 1024 bytes"),
        ("programs", json!(wrong), "and 2980 more"),
        (
            "files",
            json!({ "cat.wasm": { "sha256": files["cat.wasm"]["sha256"], "len_bytes": 1_u64 << 40 } }),
            "which a toolchain may have",
        ),
    ] {
        let before = std::mem::replace(&mut manifest[field], value);
        let mut entries = whole.clone();
        if field == "files" {
            entries.truncate(2);
        }
        *entry(&mut entries, "toolchain.json") = manifest.to_string().into_bytes();
        scene.write("bad.belljar", &entries);
        let output = call(&scene, &["install", "bad.belljar"]);
        assert!(!output.status.success(), "{field}");
        let said = stderr(&output);
        let end = said.len().min(3000);
        assert!(said.contains(why), "{field}: {why} is not in {}", &said[..end]);
        manifest[field] = before;
    }
    assert_eq!(scene.succeed(&["toolchain", "list"]), "");
    scene.succeed(&["toolchain", "gc"]);
}

/// The library for tar reads extensions of any length into memory.
#[test]
fn packages_with_long_extensions_or_deep_paths_are_refused() {
    let scene = Scene::new();
    let module = std::fs::read(scene.path("tools/cat.wasm")).unwrap();
    let make = |name: &str, extension: Option<(tar::EntryType, usize)>, path: &str| {
        let file = std::fs::File::create(scene.path("work").join(name)).unwrap();
        let file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        let mut archive = tar::Builder::new(file);
        if let Some((kind, len_bytes)) = extension {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(kind);
            header.set_size(len_bytes as u64);
            header.set_path("extension").unwrap();
            header.set_cksum();
            archive.append(&header, &vec![b'a'; len_bytes][..]).unwrap();
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(module.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, &module[..]).unwrap();
        archive.into_inner().unwrap().finish().unwrap().flush().unwrap();
    };
    for (name, kind) in [("x.tgz", tar::EntryType::XHeader), ("l.tgz", tar::EntryType::GNULongName)]
    {
        make(name, Some((kind, 1 << 20)), "package/a.wasm");
        let init = ["toolchain", "init", "--from", name, "new"];
        refuse(&scene, &init, "it describes an entry with more than 65536 bytes");
    }
    make("deep.tgz", None, &format!("package/{}a.wasm", "d/".repeat(100)));
    let init = ["toolchain", "init", "--from", "deep.tgz", "new"];
    refuse(&scene, &init, "leads elsewhere, or is too long or too deep");
    // A name that needs an extension, and is short enough.
    let long = format!("package/{}/{}.wasm", "d".repeat(120), "f".repeat(120));
    make("long.tgz", None, &long);
    scene.succeed(&["toolchain", "init", "--from", "long.tgz", "new"]);
    assert!(scene.path("work/new").join(long).is_file());
}

/// The version of one project had the signature of another, whose key it did not ask for.
#[test]
fn project_without_signatures_keeps_the_one_that_another_project_demands() {
    let scene = Scene::new();
    scene.pack(Some("../b.key"), "b.belljar");
    scene.pack(Some("../a.key"), "a.belljar");
    let (_, key) = scene.key("b.key");
    let toml = "[toolchains]\ntools = { source = \"t.belljar\" }\n";
    let mut dirs = Vec::new();
    for (name, bundle, head) in [
        ("one", "b.belljar", format!("signed-by = [{key:?}]\n")),
        ("two", "a.belljar", String::new()),
    ] {
        let dir = scene.path(name);
        std::fs::create_dir(&dir).unwrap();
        std::fs::copy(scene.path("work").join(bundle), dir.join("t.belljar")).unwrap();
        std::fs::write(dir.join("belljar.toml"), head + toml).unwrap();
        dirs.push(dir);
    }
    let run = |dir: &PathBuf, args: &[&str]| {
        let mut command = belljar(dir);
        command.env("BELLJAR_HOME", scene.path("home"));
        let output = command.args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    run(&dirs[0], &["install", "--quiet"]);
    run(&dirs[1], &["install", "--quiet"]);
    std::fs::remove_file(dirs[0].join("t.belljar")).unwrap();
    assert_eq!(run(&dirs[0], &["run", "note"]), "a note\n");
    assert_eq!(run(&dirs[1], &["run", "note"]), "a note\n");
}

/// One that could not be removed kept all others.
#[test]
fn gc_goes_on_past_what_it_cannot_remove() {
    let scene = Scene::new();
    scene.succeed(&["install", "--quiet", "../tools"]);
    let abandoned = scene.path("home/toolchains/.belljar-abandoned");
    std::fs::create_dir_all(abandoned.join("files")).unwrap();
    scene.succeed(&["toolchain", "gc"]);
    assert!(!abandoned.exists());
    // Nothing in the folder tells that a process holds it.
    std::os::unix::fs::symlink("/nowhere", scene.path("home/toolchains/.belljar-link")).unwrap();
    scene.succeed(&["toolchain", "gc"]);
    assert_eq!(scene.succeed(&["run", "note"]), "a note\n");
}
