//! Signed toolchains: keys, bundles, what is installed, what projects demand, and the program `minisign`.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};
use zip::write::SimpleFileOptions;

use crate::support::{Belljar, belljar, guest, skipped, stderr, stdout};

const SIGNATURE: &str = "toolchain.json.minisig";

/// An entry of a bundle: its name and its content.
pub type Entry = (String, Vec<u8>);

/// The entries of a bundle, in their order.
pub type Entries = Vec<Entry>;

/// A home, a folder `tools` with a toolchain, two keys, `a.key` and `b.key`, and a folder `work`, in which commands run.
pub struct Scene(tempfile::TempDir);

impl Scene {
    pub fn new() -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        for folder in ["home", "tools/share", "work"] {
            std::fs::create_dir_all(scene.path(folder)).unwrap();
        }
        std::fs::copy(guest("cat"), scene.path("tools/cat.wasm")).unwrap();
        std::fs::write(scene.path("tools/share/note"), "a note\n").unwrap();
        scene.describe("1");
        for key in ["../a.key", "../b.key"] {
            scene.succeed(&["keys", "generate", "--no-password", key]);
        }
        scene
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub fn describe(&self, version: &str) {
        let manifest = json!({
            "format": "1.0", "name": "tools", "version": version, "trees": { "share": "share" },
            "programs": { "note": { "module": "cat.wasm", "args": ["{toolchain}/share/note"] } },
        });
        std::fs::write(self.path("tools/toolchain.json"), manifest.to_string()).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Belljar {
        let mut command = belljar(&self.path("work"));
        command.env("BELLJAR_HOME", self.path("home")).args(args);
        command
    }

    fn call(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub fn succeed(&self, args: &[&str]) -> String {
        let output = self.call(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.succeed(args)).unwrap()
    }

    /// What a command says that the user must do otherwise.
    pub fn fail(&self, args: &[&str]) -> String {
        let output = self.call(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        stderr(&output)
    }

    /// Packs the toolchain to the bundle `to`, signed by `key` if there is one.
    pub fn pack(&self, key: Option<&str>, to: &str) {
        let sign = key.map(|key| ["--sign", key]);
        let args = ["toolchain", "pack", "-q", "../tools", "-o", to];
        self.succeed(&[&args[..], sign.as_ref().map_or(&[], |sign| &sign[..])].concat());
    }

    pub fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.path("work").join(path)).unwrap()
    }

    /// The ID of a key, and its Base64.
    pub fn key(&self, name: &str) -> (String, String) {
        let text = std::fs::read_to_string(self.path(&format!("{name}.pub"))).unwrap();
        let mut lines = text.lines();
        let id = lines.next().unwrap().rsplit(' ').next().unwrap().to_owned();
        (id, lines.next().unwrap().to_owned())
    }

    /// The entries of the bundle `bundle`, in their order.
    pub fn entries(&self, bundle: &str) -> Entries {
        let file = std::fs::File::open(self.path("work").join(bundle)).unwrap();
        let mut archive = zip::ZipArchive::new(file).unwrap();
        let count = archive.len();
        let entry = |index| {
            let mut entry = archive.by_index(index).unwrap();
            let (name, mut content) = (entry.name().unwrap().into_owned(), Vec::new());
            entry.read_to_end(&mut content).unwrap();
            (name, content)
        };
        (0..count).map(entry).collect()
    }

    /// Writes the bundle `to` with `entries`.
    pub fn write(&self, to: &str, entries: &[Entry]) {
        let file = std::fs::File::create(self.path("work").join(to)).unwrap();
        let mut archive = zip::ZipWriter::new(file);
        for (name, content) in entries {
            archive.start_file(name.as_str(), SimpleFileOptions::default()).unwrap();
            archive.write_all(content).unwrap();
        }
        archive.finish().unwrap();
    }

    /// Nothing is installed, and no key is trusted.
    fn assert_untouched(&self) {
        assert_eq!(self.succeed(&["toolchain", "list"]), "");
        assert_eq!(self.succeed(&["keys", "list"]), "");
    }
}

/// The entry `name`, to be changed.
pub fn entry<'e>(entries: &'e mut [Entry], name: &str) -> &'e mut Vec<u8> {
    &mut entries.iter_mut().find(|(known, _)| known == name).unwrap().1
}

#[test]
fn a_signature_goes_along_wherever_the_toolchain_goes() {
    let scene = Scene::new();
    let (id, key) = scene.key("a.key");
    scene.pack(None, "plain.belljar");
    scene.pack(Some("../a.key"), "signed.belljar");
    scene.pack(Some("../a.key"), "again.belljar");
    assert!(scene.read("signed.belljar") == scene.read("again.belljar"), "the bundles differ");
    let names = |bundle| -> Vec<String> {
        scene.entries(bundle).into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names("plain.belljar"), ["toolchain.json", "cat.wasm", "share/note"]);
    assert_eq!(names("signed.belljar"), ["toolchain.json", SIGNATURE, "cat.wasm", "share/note"]);

    let installed = scene.call(&["install", "--trust", "../a.key.pub", "signed.belljar"]);
    assert_eq!(stdout(&installed), "tools 1: note\n", "{}", stderr(&installed));
    let told = stderr(&installed);
    assert!(told.contains(&format!("key {id} is trusted from now on")), "{told}");
    assert_eq!(scene.succeed(&["keys", "list"]), format!("{id}  {key}\n"));
    assert_eq!(scene.succeed(&["run", "note"]), "a note\n");
    let signed = json!({ "key": id, "trusted": true });
    assert_eq!(scene.json(&["toolchain", "list", "--json"])[0]["signature"], signed);
    assert_eq!(scene.json(&["toolchain", "inspect", "--json", "tools"])["signature"], signed);
    let inspected = scene.succeed(&["toolchain", "inspect", "tools"]);
    assert!(inspected.contains(&format!("\nsigned by key {id}\n")), "{inspected}");
    assert_eq!(
        scene.succeed(&["toolchain", "verify"]),
        format!("tools: signed by key {id}\ntools: all files are as they were installed\n")
    );

    // From the store, and from a folder.
    scene.succeed(&["toolchain", "pack", "-q", "tools", "-o", "stored.belljar"]);
    assert!(scene.read("signed.belljar") == scene.read("stored.belljar"), "the bundles differ");
    scene.succeed(&["toolchain", "unpack", "signed.belljar", "folder"]);
    assert_eq!(scene.json(&["toolchain", "inspect", "--json", "folder"])["signature"], signed);
    scene.succeed(&["toolchain", "pack", "-q", "folder", "-o", "folder.belljar"]);
    assert!(scene.read("signed.belljar") == scene.read("folder.belljar"), "the bundles differ");
    scene.succeed(&["uninstall", "tools"]);
    let installed = scene.json(&["install", "--json", "folder"]);
    assert_eq!(installed[0]["signature"], signed);
    // What is edited is not passed on as signed.
    std::fs::write(scene.path("work/folder/share/note"), "another\n").unwrap();
    let edited = scene.call(&["toolchain", "pack", "-q", "folder", "-o", "edited.belljar"]);
    assert!(stderr(&edited).contains("its SHA-256 is"), "{}", stderr(&edited));
    let text = scene.read("folder/toolchain.json");
    let text = String::from_utf8(text).unwrap().replace("\"version\": \"1\"", "\"version\": \"9\"");
    std::fs::write(scene.path("work/folder/toolchain.json"), text).unwrap();
    std::fs::write(scene.path("work/folder/share/note"), "a note\n").unwrap();
    let edited = scene.fail(&["toolchain", "pack", "-q", "folder", "-o", "edited.belljar"]);
    assert!(edited.contains("sign it anew") && edited.contains(SIGNATURE), "{edited}");
}

#[test]
fn trust_on_install_refuses_what_its_key_did_not_sign() {
    let scene = Scene::new();
    let ((a, _), (b, b_key)) = (scene.key("a.key"), scene.key("b.key"));
    scene.pack(None, "plain.belljar");
    scene.pack(Some("../a.key"), "signed.belljar");
    let install = |key: &str, bundle: &str| scene.fail(&["install", "--trust", key, bundle]);
    let unsigned = install(&b_key, "plain.belljar");
    assert!(unsigned.contains(&format!("it is not signed, and not by key {b}")), "{unsigned}");
    let other = install(&b_key, "signed.belljar");
    assert!(other.contains(&format!("its signature names key {a}, not key {b}")), "{other}");
    let mut entries = scene.entries("signed.belljar");
    let signature = String::from_utf8(entry(&mut entries, SIGNATURE).clone()).unwrap();
    *entry(&mut entries, SIGNATURE) = signature.replace("tools 1", "tools 2").into_bytes();
    scene.write("wrong.belljar", &entries);
    let wrong = install("../a.key.pub", "wrong.belljar");
    assert!(wrong.contains(&format!("its signature by key {a} is wrong")), "{wrong}");
    for (key, message) in [
        ("RWQ", "is no such file, and it is not a public key"),
        ("../a.key", "../a.key is not a public key; the one beside it is ../a.key.pub"),
        ("../tools/cat.wasm", "it is not a public key of minisign"),
    ] {
        let refused = install(key, "signed.belljar");
        assert!(refused.contains(message), "{key}: {refused}");
    }
    let alone = scene.fail(&["install", "--trust", &b_key]);
    assert!(alone.contains("<SOURCE>"), "{alone}");
    scene.assert_untouched();
}

/// With a trusted key; a stranger's signature cannot be checked.
#[test]
fn tampered_bundles_are_refused() {
    type Tamper = fn(&Scene, &mut Entries);
    let tampered: [(&str, &str, Tamper); 10] = [
        ("a changed manifest", "is wrong", |_, entries| {
            let text = String::from_utf8(entry(entries, "toolchain.json").clone()).unwrap();
            *entry(entries, "toolchain.json") = text.replace("\"1\"", "\"2\"").into_bytes();
        }),
        ("a changed file", "its SHA-256 is", |_, entries| {
            *entry(entries, "share/note") = b"a vote\n".to_vec();
        }),
        ("the signature of another toolchain", "is wrong", |scene, entries| {
            scene.describe("2");
            scene.pack(Some("../a.key"), "other.belljar");
            let mut others = scene.entries("other.belljar");
            *entry(entries, SIGNATURE) = entry(&mut others, SIGNATURE).clone();
        }),
        ("another signature by the ID of the key", "is wrong", |_, entries| {
            let text = String::from_utf8(entry(entries, SIGNATURE).clone()).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            // The last characters are of the signature, not of the ID.
            let changed = format!("{}AAAAAAA=", &lines[1][..lines[1].len() - 8]);
            lines[1] = &changed;
            *entry(entries, SIGNATURE) = (lines.join("\n") + "\n").into_bytes();
        }),
        ("a huge signature", "more than 16384 bytes", |_, entries| {
            entry(entries, SIGNATURE).resize(100 << 20, b'\n');
        }),
        ("a signature that is no text", "is not UTF-8", |_, entries| {
            *entry(entries, SIGNATURE) = vec![0xff; 100];
        }),
        ("an empty signature", "it has 0 lines, not 4", |_, entries| {
            entry(entries, SIGNATURE).clear();
        }),
        ("two signatures in one", "it has 8 lines, not 4", |_, entries| {
            let signature = entry(entries, SIGNATURE);
            *signature = signature.repeat(2);
        }),
        ("a signature of 61 bytes", "is not a signature", |_, entries| {
            let text = String::from_utf8(entry(entries, SIGNATURE).clone()).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            let short = "A".repeat(82) + "==";
            lines[3] = &short;
            *entry(entries, SIGNATURE) = (lines.join("\n") + "\n").into_bytes();
        }),
        ("two entries", "it has a path twice", |_, entries| {
            let again = (SIGNATURE.replace("sig", "siX"), entry(entries, SIGNATURE).clone());
            entries.push(again);
        }),
    ];
    for (what, message, tamper) in tampered {
        let scene = Scene::new();
        scene.succeed(&["keys", "trust", "../a.key.pub"]);
        scene.pack(Some("../a.key"), "signed.belljar");
        let mut entries = scene.entries("signed.belljar");
        tamper(&scene, &mut entries);
        scene.write("tampered.belljar", &entries);
        if what == "two entries" {
            // The library writes no name twice.
            let bytes = scene.read("tampered.belljar");
            let mut twice = bytes.clone();
            for at in 0..bytes.len() - 3 {
                if &bytes[at..at + 3] == b"siX" {
                    twice[at + 2] = b'g';
                }
            }
            std::fs::write(scene.path("work/tampered.belljar"), twice).unwrap();
        }
        let output = scene.call(&["install", "-q", "tampered.belljar"]);
        assert!(!output.status.success(), "{what}");
        assert!(stderr(&output).contains(message), "{what}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{what}: {}", stderr(&output));
        assert_eq!(scene.succeed(&["toolchain", "list"]), "", "{what}");
    }
}

#[test]
fn a_signature_of_a_strangers_key_is_noted_and_trusts_nothing() {
    let scene = Scene::new();
    let (id, _) = scene.key("a.key");
    scene.pack(Some("../a.key"), "signed.belljar");
    let installed = scene.call(&["install", "signed.belljar"]);
    assert!(installed.status.success(), "{}", stderr(&installed));
    let told = stderr(&installed);
    assert!(
        told.contains(&format!("names key {id}, which is not trusted, so it was not")),
        "{told}"
    );
    let listed = scene.json(&["toolchain", "list", "--json"]);
    assert_eq!(listed[0]["signature"], json!({ "key": id, "trusted": false }));
    let verified = scene.succeed(&["toolchain", "verify"]);
    assert!(verified.contains("which is not trusted"), "{verified}");
    assert_eq!(scene.succeed(&["keys", "list"]), "");
    // Once it is known whose key it is.
    let trusted = scene.succeed(&["keys", "trust", "../a.key.pub"]);
    assert_eq!(trusted, format!("key {id} is trusted from now on\n"));
    assert!(!scene.succeed(&["toolchain", "verify"]).contains("not trusted"));
}

#[test]
fn what_a_trusted_key_signed_is_not_replaced_by_what_none_did() {
    let scene = Scene::new();
    let (a, _) = scene.key("a.key");
    scene.pack(None, "same.belljar");
    scene.pack(Some("../a.key"), "signed.belljar");
    scene.succeed(&["install", "--trust", "../a.key.pub", "signed.belljar"]);
    // The very same is as good.
    scene.succeed(&["install", "same.belljar"]);
    let signature = || scene.json(&["toolchain", "list", "--json"])[0]["signature"].clone();
    assert_eq!(signature(), json!({ "key": a, "trusted": true }));
    scene.describe("2");
    scene.pack(None, "plain.belljar");
    scene.pack(Some("../b.key"), "b.belljar");
    scene.pack(Some("../a.key"), "a.belljar");
    for (bundle, what) in [("plain.belljar", "not signed"), ("b.belljar", "is not trusted")] {
        let refused = scene.fail(&["install", bundle]);
        assert!(refused.contains(what), "{refused}");
        assert!(refused.contains("`belljar uninstall tools` first"), "{refused}");
    }
    assert_eq!(scene.succeed(&["toolchain", "list"]), "tools 1  \n");
    scene.succeed(&["install", "a.belljar"]);
    scene.succeed(&["install", "--trust", "../b.key.pub", "b.belljar"]);
    scene.succeed(&["keys", "remove", &scene.key("b.key").0]);
    // What is signed by a key that was removed is protected no longer.
    scene.succeed(&["install", "plain.belljar"]);
    // A signature that was kept for the same version is gone with the version.
    assert_eq!(scene.json(&["toolchain", "list", "--json"])[0]["version"], "2");
}

#[test]
fn keys_are_made_once_and_kept_by_their_ids() {
    let scene = Scene::new();
    let exists = scene.fail(&["keys", "generate", "--no-password", "../a.key"]);
    assert!(exists.contains("a.key exists: name another file"), "{exists}");
    std::fs::write(scene.path("work/c.pub"), "").unwrap();
    let exists = scene.fail(&["keys", "generate", "--no-password", "c"]);
    assert!(exists.contains("c.pub exists"), "{exists}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(scene.path("a.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // With a password.
    let asked = scene.fail(&["keys", "generate", "d.key"]);
    assert!(asked.contains("set BELLJAR_SIGN_PASSWORD"), "{asked}");
    let with = |password: &str, args: &[&str]| {
        let output = scene.command(args).env("BELLJAR_SIGN_PASSWORD", password).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    assert_eq!(with("", &["keys", "generate", "d.key"]).0, Some(2));
    assert_eq!(with("secret", &["keys", "generate", "d.key"]).0, Some(0));
    let pack = ["toolchain", "pack", "-q", "--sign", "d.key", "../tools"];
    assert_eq!(with("secret", &pack).0, Some(0));
    let (code, wrong) = with("another", &pack);
    assert!(
        code == Some(2) && wrong.contains("the password of the secret key is wrong"),
        "{wrong}"
    );
    assert!(scene.fail(&pack).contains("set BELLJAR_SIGN_PASSWORD"));
    for not_secret in ["../a.key.pub", "../tools/cat.wasm", "no-such.key"] {
        scene.fail(&["toolchain", "pack", "-q", "--sign", not_secret, "../tools"]);
    }

    let (id, key) = scene.key("a.key");
    scene.succeed(&["keys", "trust", &key]);
    assert_eq!(scene.json(&["keys", "trust", "--json", "../a.key.pub"])["new"], false);
    let listed = scene.json(&["keys", "list", "--json"]);
    assert_eq!(listed, json!([{ "key": id, "public_key": key }]));
    // Another key with the same ID: the characters behind the ID are of the key itself.
    let forged = format!("{}{}", &key[..16], &scene.key("b.key").1[16..]);
    let refused = scene.fail(&["keys", "trust", &forged]);
    assert!(refused.contains("another key with the ID"), "{refused}");
    assert!(scene.fail(&["keys", "remove", "tools"]).contains("is not the ID of a key"));
    let file = scene.path(&format!("home/keys/{id}.pub"));
    std::fs::write(&file, scene.key("b.key").1).unwrap();
    for args in [&["keys", "list"][..], &["install", "-q", "../tools"]] {
        let output = scene.call(args);
        assert!(stderr(&output).contains("is damaged: remove it"), "{}", stderr(&output));
    }
    scene.succeed(&["keys", "remove", &id]);
    assert!(scene.fail(&["keys", "remove", &id]).contains("is not trusted"));
    assert_eq!(scene.succeed(&["keys", "list"]), "");
}

#[cfg(unix)]
#[test]
fn keys_that_others_can_write_are_not_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new();
    scene.succeed(&["keys", "trust", "../a.key.pub"]);
    let mode = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(scene.path("home/keys"), mode).unwrap();
    for args in [&["keys", "list"][..], &["install", "../tools"]] {
        let output = scene.call(args);
        assert!(!output.status.success());
        assert!(stderr(&output).contains("others can write to it"), "{}", stderr(&output));
    }
}

#[test]
fn a_link_in_place_of_a_signature_is_refused() {
    let scene = Scene::new();
    std::fs::write(scene.path("secret"), "a secret\n").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(scene.path("secret"), scene.path("tools").join(SIGNATURE)).unwrap();
    #[cfg(not(unix))]
    std::fs::write(scene.path("tools").join(SIGNATURE), [0xff]).unwrap();
    let output = scene.call(&["toolchain", "pack", "-q", "../tools"]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains(SIGNATURE), "{}", stderr(&output));
}

#[test]
fn a_project_demands_signatures_of_its_keys() {
    let scene = Scene::new();
    let ((a, a_key), (b, b_key)) = (scene.key("a.key"), scene.key("b.key"));
    scene.pack(None, "tools.belljar");
    let project = |keys: &str, source: &str| {
        let text = format!("{keys}\n[toolchains]\ntools = {{ source = \"{source}\" }}\n");
        std::fs::write(scene.path("work/belljar.toml"), text).unwrap();
    };
    // Installed, and locked, before there was a demand.
    project("", "tools.belljar");
    scene.succeed(&["install", "-q"]);
    let demand = format!("signed-by = [\"{a_key}\"]");
    project(&demand, "tools.belljar");
    for args in [&["run", "note"][..], &["install"], &["install", "--locked"]] {
        let refused = scene.fail(args);
        let demanded = format!("`signed-by` demands that tools is signed by key {a}");
        assert!(refused.contains(&demanded), "{refused}");
        assert!(refused.contains("it is not signed"), "{refused}");
    }
    assert_eq!(scene.json(&["config", "--json"])["project"]["signed_by"], json!([a]));
    scene.pack(Some("../b.key"), "tools.belljar");
    let refused = scene.fail(&["install"]);
    assert!(refused.contains(&format!("its signature names key {b}")), "{refused}");
    // The same toolchain, so that the lock file stays.
    scene.pack(Some("../a.key"), "tools.belljar");
    scene.succeed(&["install", "-q", "--locked"]);
    assert_eq!(scene.succeed(&["run", "--locked", "note"]), "a note\n");
    // These keys are trusted for nothing else.
    assert_eq!(scene.succeed(&["keys", "list"]), "");
    project(&format!("signed-by = [\"{b_key}\", \"{a_key}\"]"), "tools.belljar");
    assert_eq!(scene.succeed(&["run", "note"]), "a note\n");
    project(&format!("signed-by = [\"{b_key}\"]"), "tools.belljar");
    let refused = scene.fail(&["run", "note"]);
    assert!(refused.contains(&format!("its signature names key {a}")), "{refused}");

    project(&demand, "../tools");
    project(&demand, "folder");
    scene.succeed(&["toolchain", "unpack", "tools.belljar", "folder"]);
    for args in [&["run", "note"][..], &["install"]] {
        let refused = scene.fail(args);
        assert!(refused.contains("a folder is used as it is: name a bundle"), "{refused}");
    }
    project("signed-by = [\"RWQ\"]", "tools.belljar");
    let refused = scene.fail(&["run", "note"]);
    assert!(refused.contains("signed-by: \"RWQ\": it is not a public key"), "{refused}");
}

/// Keys, signatures and toolchains go both ways.
#[test]
fn minisign_verifies_what_belljar_signs_and_signs_what_belljar_verifies() {
    if Command::new("minisign").arg("-v").output().is_err() {
        let is_required = std::env::var_os("BELLJAR_REQUIRE_MINISIGN").is_some();
        assert!(!is_required, "minisign is not installed");
        return skipped("signatures of minisign", "minisign is not installed");
    }
    let scene = Scene::new();
    let minisign = |args: &[&str]| {
        let output = Command::new("minisign").args(args).current_dir(scene.path("work")).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{args:?}: {}{}", stdout(&output), stderr(&output));
        stdout(&output)
    };
    // Belljar's key and signature.
    let (_, key) = scene.key("a.key");
    scene.pack(Some("../a.key"), "signed.belljar");
    scene.succeed(&["toolchain", "unpack", "signed.belljar", "folder"]);
    let verified = minisign(&["-Vm", "folder/toolchain.json", "-P", &key]);
    assert!(verified.contains("Trusted comment: tools 1"), "{verified}");
    // Belljar's key, and a signature of minisign: the same, but for the comment that is not signed.
    minisign(&[
        "-S",
        "-s",
        "../a.key",
        "-t",
        "tools 1",
        "-x",
        "sig",
        "-m",
        "folder/toolchain.json",
    ]);
    let lines = |bytes: Vec<u8>| -> Vec<String> {
        String::from_utf8(bytes).unwrap().lines().skip(1).map(str::to_owned).collect()
    };
    assert_eq!(lines(scene.read("sig")), lines(scene.read(&format!("folder/{SIGNATURE}"))));
    // Minisign's key, with each comment that minisign gives by itself.
    minisign(&["-G", "-W", "-p", "m.pub", "-s", "m.key"]);
    let signed = format!("folder/{SIGNATURE}");
    minisign(&["-S", "-s", "m.key", "-x", &signed, "-m", "folder/toolchain.json"]);
    scene.succeed(&["install", "-q", "--trust", "m.pub", "folder"]);
    scene.succeed(&["uninstall", "tools"]);
    scene.pack(Some("m.key"), "m.belljar");
    scene.succeed(&["install", "-q", "--trust", "m.pub", "m.belljar"]);
    scene.succeed(&["toolchain", "unpack", "m.belljar", "again"]);
    minisign(&["-V", "-p", "m.pub", "-m", "again/toolchain.json"]);
    // The old kind of signatures, of the text itself, is refused.
    minisign(&["-S", "-l", "-s", "m.key", "-x", &signed, "-m", "folder/toolchain.json"]);
    let legacy = scene.fail(&["install", "-q", "folder"]);
    assert!(legacy.contains("it is of the old kind"), "{legacy}");
}
