//! `install`, project installs and `toolchain gc` that are killed at any point leave the store whole.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{belljar, guest, stderr, stdout};

/// Kills; `BELLJAR_TEST_KILLS` overrides it.
const KILLS: u32 = 40;

/// Writes the version `version` of a toolchain with `files` files to `dir`.
fn describe(dir: &Path, version: u32, files: u32) {
    std::fs::create_dir_all(dir.join("share")).unwrap();
    for number in 0..files {
        let text = format!("version {version} file {number}\n");
        std::fs::write(dir.join("share").join(number.to_string()), text).unwrap();
    }
    std::fs::copy(guest("cat"), dir.join("cat.wasm")).unwrap();
    let manifest = json!({
        "format": "1.0", "name": "tools", "version": version.to_string(),
        "trees": { "share": "share" },
        "programs": { "note": { "module": "cat.wasm", "args": ["{toolchain}/share/3"] } },
    });
    std::fs::write(dir.join("toolchain.json"), manifest.to_string()).unwrap();
}

#[test]
fn killed_installs_leave_the_old_version_or_the_new_one() {
    let kills = std::env::var("BELLJAR_TEST_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let scene = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { scene.path().join(name) };
    for version in 1..=2 {
        describe(&path(&format!("v{version}")), version, 60);
    }
    std::fs::create_dir(path("project")).unwrap();
    let project = |version: u32| {
        let text = format!("[toolchains]\ntools = {{ source = \"{version}.belljar\" }}\n");
        std::fs::write(path("project/belljar.toml"), text).unwrap();
    };
    let call = |args: &[&str]| {
        let mut command = belljar(&path("project"));
        command.env("BELLJAR_HOME", path("home")).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    for version in 1..=2 {
        let (dir, to) = (format!("../v{version}"), format!("{version}.belljar"));
        let packed = call(&["toolchain", "pack", "-q", &dir, "-o", &to]).output().unwrap();
        assert!(packed.status.success(), "{}", stderr(&packed));
    }
    project(1);
    for args in [&["install", "-q"][..], &["install", "-q", "../v1"]] {
        assert!(call(args).output().unwrap().status.success());
    }
    // How long they take undisturbed.
    let started = Instant::now();
    assert!(call(&["install", "-q", "../v2"]).output().unwrap().status.success());
    let takes = started.elapsed().max(Duration::from_millis(20));
    let mut killed = 0;
    for kill in 0..kills {
        let version = kill % 2 + 1;
        project(version);
        let named = format!("../v{version}");
        let commands: [&[&str]; 4] = [
            &["install", "-q", &named],
            &["install", "-q", "--update"],
            &["toolchain", "gc"],
            &["install", "-q"],
        ];
        let mut child = call(commands[kill as usize / 2 % 4]).spawn().unwrap();
        std::thread::sleep(takes * (kill * 7 % 100) / 100);
        killed += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        let verified = call(&["toolchain", "verify"]).output().unwrap();
        assert!(verified.status.success(), "{kill}: {}{}", stdout(&verified), stderr(&verified));
        let run = call(&["run", "-q", "note"]).env("BELLJAR_PROJECT", "none").output().unwrap();
        let printed = stdout(&run);
        let is_whole = ["version 1 file 3\n", "version 2 file 3\n"].contains(&&*printed);
        assert!(is_whole, "{kill}: {printed}{}", stderr(&run));
    }
    assert!(killed > kills / 4, "{killed} of {kills} were killed before they ended");
    // What is not killed tidies up.
    project(1);
    let updated = call(&["install", "-q", "--update"]).output().unwrap();
    assert!(updated.status.success(), "{}", stderr(&updated));
    assert_eq!(stdout(&call(&["run", "-q", "note"]).output().unwrap()), "version 1 file 3\n");
    assert!(call(&["toolchain", "gc"]).output().unwrap().status.success());
    let entries = std::fs::read_dir(path("home/toolchains")).unwrap();
    let names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let temporary: Vec<&String> =
        names.iter().filter(|name| name.starts_with(".belljar-")).collect();
    assert!(temporary.is_empty(), "{temporary:?}");
}
