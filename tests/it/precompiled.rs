//! Compiled code in signed bundles: it is taken from a trusted key alone, and where it fits.

use serde_json::{Value, json};

use crate::signatures::{Entries, Scene, entry};
use crate::support::{stderr, stdout};

const INDEX: &str = "compiled.json";
const SIGNATURE: &str = "compiled.json.minisig";

/// The name of this machine's platform, and of another that belljar compiles for here.
fn platforms() -> (String, String) {
    let (arch, other) = (std::env::consts::ARCH, ["macos", "linux"]);
    let other = other.into_iter().find(|os| *os != std::env::consts::OS).unwrap();
    (format!("{arch}-{}", std::env::consts::OS), format!("{arch}-{other}"))
}

impl Scene {
    /// Packs the toolchain to the bundle `to`, with code for `target`.
    fn precompile(&self, target: &str, to: &str) {
        let args = ["toolchain", "pack", "-q", "--sign", "../a.key", "--precompile", target];
        self.succeed(&[&args[..], &["../tools", "-o", to]].concat());
    }

    /// Installs the bundle `bundle` with an empty cache; returns how many modules came compiled, how many were compiled, and
    /// what was said.
    fn install_cold(&self, args: &[&str], bundle: &str) -> Result<(u64, u64, String), String> {
        let cache = tempfile::tempdir().unwrap();
        let mut install = self.command(&[&["install", "--json"], args, &[bundle]].concat());
        // As a user has it: the tests may run in another tier.
        install.env("BELLJAR_CACHE_DIR", cache.path()).env("BELLJAR_TIER", "auto");
        let output = install.output().unwrap();
        let said = stderr(&output);
        assert!(!said.contains("panicked"), "{said}");
        if !output.status.success() {
            assert_eq!(self.succeed(&["toolchain", "list"]), "");
            let code = cache.path().join("code-1/code");
            assert!(!code.exists(), "nothing is put into the cache");
            return Err(said);
        }
        let line: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let count = |name: &str| line[0][name].as_u64().unwrap();
        let mut run = self.command(&["run", "-q", "note"]);
        run.env("BELLJAR_CACHE_DIR", cache.path()).env("BELLJAR_TIER", "auto");
        assert_eq!(stdout(&run.output().unwrap()), "a note\n");
        let keys = std::fs::read_dir(cache.path().join("code-1/keys")).unwrap();
        assert_eq!(keys.count(), 1, "a run finds what was installed");
        self.succeed(&["uninstall", "tools"]);
        Ok((count("precompiled"), count("compiled"), said))
    }

    /// Signs the entry `compiled.json` of `entries` with the key `a.key`.
    fn sign_index(&self, entries: &mut Entries) {
        let key = std::fs::read_to_string(self.path("a.key")).unwrap();
        let key = minisign::SecretKeyBox::from_string(&key).unwrap();
        let key = key.into_unencrypted_secret_key().unwrap();
        let text = entry(entries, INDEX).clone();
        let signature = minisign::sign(None, &key, &text[..], Some("x"), None).unwrap();
        *entry(entries, SIGNATURE) = signature.to_bytes();
    }
}

/// Replaces `compiled.json` in `entries` by what `change` makes of it.
fn change_index(entries: &mut Entries, change: impl FnOnce(&mut Value)) {
    let mut index: Value = serde_json::from_slice(entry(entries, INDEX)).unwrap();
    change(&mut index);
    *entry(entries, INDEX) = index.to_string().into_bytes();
}

#[test]
fn compiled_code_of_a_trusted_key_is_taken_in_place_of_compiling() {
    let (scene, (host, _)) = (Scene::new(), platforms());
    let key = scene.key("a.key");
    scene.pack(Some("../a.key"), "signed.belljar");
    scene.precompile(&host, "whole.belljar");
    scene.precompile(&host, "again.belljar");
    assert!(scene.read("whole.belljar") == scene.read("again.belljar"), "the bundles differ");
    let (plain, whole) = (scene.entries("signed.belljar"), scene.entries("whole.belljar"));
    assert_eq!(plain[..], whole[..plain.len()], "the toolchain itself is the same");
    let names: Vec<&str> = whole[plain.len()..].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..2], [INDEX, SIGNATURE]);
    assert!(names.len() == 3 && names[2].starts_with(&format!("compiled/{host}/")), "{names:?}");

    // Nobody trusts the key yet.
    let (taken, compiled, said) = scene.install_cold(&[], "whole.belljar").unwrap();
    assert_eq!((taken, compiled), (0, 1), "{said}");
    assert!(
        said.contains(
            "its compiled code is not used: it is of unknown origin: its signature names key"
        ),
        "{said}"
    );
    let (taken, compiled, said) =
        scene.install_cold(&["--trust", &key.1], "whole.belljar").unwrap();
    assert_eq!((taken, compiled), (1, 0), "{said}");
    assert_eq!(scene.install_cold(&["-q"], "whole.belljar").unwrap(), (1, 0, String::new()));
    // Only what will run is taken.
    let (taken, ..) = scene.install_cold(&["-q", "--tier", "quick"], "whole.belljar").unwrap();
    assert_eq!(taken, 0);
    scene.succeed(&["keys", "remove", &key.0]);
    let (taken, compiled, _) = scene.install_cold(&[], "whole.belljar").unwrap();
    assert_eq!((taken, compiled), (0, 1));

    // A project takes it if the user trusts the key, and not if the project demands it.
    let project = format!(
        "signed-by = [\"{}\"]\n[toolchains]\ntools = {{ source = \"whole.belljar\" }}\n",
        key.1
    );
    std::fs::write(scene.path("work/belljar.toml"), project).unwrap();
    for (trusts, compiled) in [(false, 1), (true, 0)] {
        if trusts {
            scene.succeed(&["keys", "trust", &key.1]);
        }
        let (cache, home) = (tempfile::tempdir().unwrap(), scene.path("home/toolchains"));
        let _ = std::fs::remove_dir_all(home);
        let mut install = scene.command(&["install", "--json"]);
        install.env("BELLJAR_CACHE_DIR", cache.path()).env("BELLJAR_TIER", "auto");
        let output = install.output().unwrap();
        let line: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(line[0]["compiled"], compiled, "{}", stderr(&output));
    }
}

#[test]
fn what_does_not_fit_is_compiled_here_and_a_note_says_why() {
    type Change = fn(&mut Entries);
    let (scene, (host, other)) = (Scene::new(), platforms());
    scene.succeed(&["keys", "trust", "../a.key.pub"]);
    scene.precompile(&other, "other.belljar");
    let (taken, compiled, said) = scene.install_cold(&[], "other.belljar").unwrap();
    assert_eq!((taken, compiled), (0, 1), "{said}");
    assert!(said.contains(&format!("it is for {other}, and not for this machine")), "{said}");

    scene.precompile(&format!("{host},{other}"), "whole.belljar");
    let whole = scene.entries("whole.belljar");
    let (taken, ..) = scene.install_cold(&[], "whole.belljar").unwrap();
    assert_eq!(taken, 1);
    let changes: [(&str, Change); 5] = [
        ("it is of belljar 0.0.1, and this is", |entries| {
            change_index(entries, |index| index["belljar"] = json!("0.0.1"));
        }),
        ("it is of another version of belljar", |entries| {
            change_index(entries, |index| index["more"] = json!(1));
        }),
        ("it was compiled with other settings", |entries| {
            change_index(entries, |index| {
                let digest = index["toolchain"].clone();
                for target in index["targets"].as_object_mut().unwrap().values_mut() {
                    target["compatibility"] = digest.clone();
                }
            });
        }),
        ("it is for nothing, and not for this machine", |entries| {
            change_index(entries, |index| {
                let target = index["targets"].as_object().unwrap().values().next().unwrap();
                index["targets"] = json!({ "nothing": target });
            });
        }),
        // Signed, and no code at all.
        ("it does not fit this processor", |entries| {
            let code = b"no code".to_vec();
            let stated = json!({
                "len_bytes": code.len(),
                "sha256": "c08cc470e55afcf25b8b395fb2632d3d543329eae74bac7ef60315d8d0ecd9f8",
            });
            change_index(entries, |index| {
                for target in index["targets"].as_object_mut().unwrap().values_mut() {
                    for module in target["modules"].as_object_mut().unwrap().values_mut() {
                        *module = stated.clone();
                    }
                }
            });
            for (name, content) in entries {
                if name.starts_with("compiled/") {
                    content.clone_from(&code);
                }
            }
        }),
    ];
    for (message, change) in changes {
        let mut entries = whole.clone();
        change(&mut entries);
        scene.sign_index(&mut entries);
        scene.write("changed.belljar", &entries);
        let (taken, compiled, said) = scene.install_cold(&[], "changed.belljar").expect(message);
        assert_eq!((taken, compiled), (0, 1), "{message}: {said}");
        assert!(said.contains(message), "{message}: {said}");
    }
    let unsigned: Entries = whole.into_iter().filter(|(name, _)| name != SIGNATURE).collect();
    scene.write("unsigned.belljar", &unsigned);
    let (taken, _, said) = scene.install_cold(&[], "unsigned.belljar").unwrap();
    assert!(taken == 0 && said.contains("it is not signed"), "{said}");
}

#[test]
fn tampered_compiled_code_is_refused() {
    type Tamper = fn(&Scene, &mut Entries);
    let (scene, (host, _)) = (Scene::new(), platforms());
    scene.succeed(&["keys", "trust", "../a.key.pub"]);
    scene.precompile(&host, "whole.belljar");
    let whole = scene.entries("whole.belljar");
    let tampered: [(&str, &str, Tamper); 9] = [
        ("changed code", "is not what compiled.json says", |_, entries| {
            let code = &mut entries.last_mut().unwrap().1;
            let middle = code.len() / 2;
            code[middle] ^= 1;
        }),
        ("longer code", "is not what compiled.json says", |_, entries| {
            entries.last_mut().unwrap().1.push(0);
        }),
        ("missing code", "is not what compiled.json says", |_, entries| {
            entries.pop();
        }),
        ("a changed index", "is wrong", |_, entries| {
            change_index(entries, |index| index["belljar"] = json!("0.0.1"));
        }),
        ("the signature of the toolchain", "is wrong", |_, entries| {
            *entry(entries, SIGNATURE) = entry(entries, "toolchain.json.minisig").clone();
        }),
        ("a signature that is none", "is not a signature", |_, entries| {
            *entry(entries, SIGNATURE) = b"\xff".to_vec();
        }),
        ("a huge signature", "more than 16384 bytes", |_, entries| {
            entry(entries, SIGNATURE).resize(100 << 20, b'\n');
        }),
        ("a huge index", "more than 4194304 bytes", |_, entries| {
            entry(entries, INDEX).resize(100 << 20, b' ');
        }),
        ("the compiled code of another toolchain", "is of another toolchain", |scene, entries| {
            scene.describe("2");
            scene.precompile(&platforms().0, "second.belljar");
            let of_other = |(name, _): &(String, Vec<u8>)| name.starts_with("compiled");
            entries.retain(|entry| !of_other(entry));
            entries.extend(scene.entries("second.belljar").into_iter().filter(of_other));
        }),
    ];
    for (what, message, tamper) in tampered {
        let mut entries = whole.clone();
        tamper(&scene, &mut entries);
        scene.write("tampered.belljar", &entries);
        let refused = scene.install_cold(&["-q"], "tampered.belljar").expect_err(what);
        assert!(refused.contains(message), "{what}: {refused}");
    }
    // An entry that only looks like compiled code.
    let mut entries = scene.entries("second.belljar");
    entries.retain(|(name, _)| name != INDEX);
    scene.write("tampered.belljar", &entries);
    let refused = scene.install_cold(&["-q"], "tampered.belljar").unwrap_err();
    assert!(refused.contains("it has 4 files, and its manifest 2"), "{refused}");
}

#[test]
fn precompile_needs_a_key_a_known_target_and_free_names() {
    let scene = Scene::new();
    let pack =
        |args: &[&str]| scene.fail(&[&["toolchain", "pack", "-q", "../tools"], args].concat());
    let host = platforms().0;
    assert!(pack(&["--precompile", &host]).contains("--sign <KEYFILE>"));
    let unknown = pack(&["--sign", "../a.key", "--precompile", "x86-linux"]);
    assert!(unknown.contains("expected one of aarch64-linux, "), "{unknown}");
    let arch = if std::env::consts::ARCH == "x86_64" { "aarch64" } else { "x86_64" };
    let beyond = pack(&["--sign", "../a.key", "--precompile", &format!("{arch}-linux")]);
    assert!(beyond.contains("on such a machine"), "{beyond}");
    let manifest = std::fs::read_to_string(scene.path("tools/toolchain.json")).unwrap();
    let manifest = manifest.replace("\"share\":\"share\"", "\"share\":\"compiled\"");
    std::fs::write(scene.path("tools/toolchain.json"), manifest).unwrap();
    std::fs::rename(scene.path("tools/share"), scene.path("tools/compiled")).unwrap();
    let taken = pack(&["--sign", "../a.key", "--precompile", &host]);
    assert!(taken.contains("has the name of compiled code"), "{taken}");
    // Without it, the names are the toolchain's own.
    scene.pack(Some("../a.key"), "signed.belljar");
    assert_eq!(scene.install_cold(&["-q"], "signed.belljar").unwrap(), (0, 1, String::new()));
}
