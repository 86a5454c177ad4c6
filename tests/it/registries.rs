//! Toolchains in OCI registries: a real one, `docker-registry` of Debian, and a server that lies.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Belljar, belljar, guest, real, skipped, stderr, stdout};

/// `user:secret`.
const PASSWORDS: &str = "user:$2b$04$U3BEoKiLRVhaqv/Ufk/diuXKR5X2S6ty2T3auGjCY9kLmpTm8xpmW\n";

/// `user:secret` in Base64.
const LOGIN: &str = "dXNlcjpzZWNyZXQ=";

/// Two homes, and a toolchain with two modules and a tree of 200 files.
pub struct Scene(tempfile::TempDir);

impl Scene {
    pub fn new() -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        for folder in ["one", "two", "docker", "work", "tools/wasm", "tools/share/sub"] {
            std::fs::create_dir_all(scene.path(folder)).unwrap();
        }
        for name in ["cat", "env"] {
            let to = scene.path("tools/wasm").join(format!("{name}.wasm"));
            std::fs::copy(guest(name), to).unwrap();
        }
        for number in 0..200 {
            let text = format!("note {number}\n");
            std::fs::write(scene.path(&format!("tools/share/sub/{number}")), text).unwrap();
        }
        let manifest = json!({
            "format": "1.0", "name": "tools", "version": "1.2", "license": "MIT",
            "description": "Notes",
            "trees": { "share": "share" },
            "programs": {
                "note": { "module": "wasm/cat.wasm", "args": ["{toolchain}/share/sub/7"] },
                "variables": { "module": "wasm/env.wasm" },
            },
        });
        std::fs::write(scene.path("tools/toolchain.json"), manifest.to_string()).unwrap();
        scene
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub fn command(&self, home: &str, args: &[&str]) -> Belljar {
        let mut command = belljar(&self.path("work"));
        command.env("BELLJAR_HOME", self.path(home)).env("DOCKER_CONFIG", self.path("docker"));
        command.args(args);
        command
    }

    pub fn call(&self, home: &str, args: &[&str]) -> Output {
        self.command(home, args).output().unwrap()
    }

    pub fn succeed(&self, home: &str, args: &[&str]) -> String {
        let output = self.call(home, args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    pub fn fail(&self, home: &str, args: &[&str]) -> String {
        let output = self.call(home, args);
        assert!(!output.status.success(), "{args:?}: {}", stdout(&output));
        stderr(&output)
    }

    pub fn push(&self, reference: &str) -> Value {
        let args = ["toolchain", "push", "--plain-http", "--json", "../tools", reference];
        serde_json::from_str(&self.succeed("one", &args)).unwrap()
    }
}

/// A `docker-registry` of its own.
pub struct Registry {
    child: Child,
    name: String,
}

impl Registry {
    /// Starts one, with a login if `passwords`; `None` if it is not installed.
    pub fn start(scene: &Scene, test: &str, passwords: Option<&str>) -> Option<Self> {
        if Command::new("docker-registry").arg("--version").output().is_err() {
            let is_required = std::env::var_os("BELLJAR_REQUIRE_REGISTRY").is_some();
            assert!(!is_required, "docker-registry is not installed");
            skipped(test, "docker-registry is not installed");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let root = scene.path("registry");
        let auth = passwords.map_or_else(String::new, |text| {
            let path = scene.path("passwords");
            std::fs::write(&path, text).unwrap();
            format!("auth:\n  htpasswd:\n    realm: test\n    path: {}\n", path.display())
        });
        let config = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\n\
             http:\n  addr: 127.0.0.1:{port}\n{auth}",
            root.display()
        );
        std::fs::write(scene.path("registry.yml"), config).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(scene.path("registry.yml"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(30), "the registry does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self { child, name: format!("127.0.0.1:{port}") })
    }

    pub fn reference(&self, path: &str) -> String {
        format!("{}/{path}", self.name)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_is_pushed_is_what_another_machine_pulls_and_runs_without_a_network() {
    let scene = Scene::new();
    let Some(registry) = Registry::start(&scene, "push and pull", None) else { return };
    let reference = registry.reference("team/tools:1.2");
    let pushed = scene.push(&reference);
    let again = scene.push(&registry.reference("team/other:1.2"));
    assert_eq!(
        pushed["manifest"], again["manifest"],
        "the manifest depends on the toolchain alone"
    );

    let args = ["install", "--plain-http", "--json", &reference];
    let installed: Value = serde_json::from_str(&scene.succeed("two", &args)).unwrap();
    assert_eq!(installed[0]["digest"], pushed["digest"]);
    assert_eq!(scene.succeed("two", &["run", "note"]), "note 7\n");
    let local: Value =
        serde_json::from_str(&scene.succeed("one", &["install", "--json", "../tools"])).unwrap();
    assert_eq!(local[0]["digest"], pushed["digest"]);

    // By its digest; and as a file.
    let exact =
        format!("{}@{}", registry.reference("team/tools"), pushed["manifest"].as_str().unwrap());
    scene.succeed(
        "one",
        &["toolchain", "pull", "-q", "--plain-http", &exact, "-o", "pulled.belljar"],
    );
    scene.succeed("one", &["toolchain", "pack", "-q", "../tools", "-o", "packed.belljar"]);
    let bundle = |name: &str| std::fs::read(scene.path("work").join(name)).unwrap();
    assert_eq!(bundle("pulled.belljar"), bundle("packed.belljar"));

    // A project, locked.
    let project =
        format!("[toolchains]\ntools = {{ version = \"1.2\", source = \"{reference}\" }}\n");
    std::fs::write(scene.path("work/belljar.toml"), project).unwrap();
    std::fs::create_dir(scene.path("three")).unwrap();
    let untrusted = scene.fail("three", &["install", "--plain-http"]);
    assert!(untrusted.contains("count only after `belljar trust`"), "{untrusted}");
    let trusted = scene.succeed("three", &["trust"]);
    assert!(trusted.contains(&format!("toolchains.tools = {reference}")), "{trusted}");
    scene.succeed("three", &["install", "--plain-http"]);
    drop(registry);
    scene.succeed("three", &["install", "--locked"]);
    assert_eq!(scene.succeed("three", &["run", "--locked", "note"]), "note 7\n");
}

#[test]
fn errors_of_a_registry_name_the_next_step() {
    let scene = Scene::new();
    let Some(registry) = Registry::start(&scene, "errors of a registry", None) else { return };
    scene.push(&registry.reference("team/tools:1.2"));
    scene.push(&registry.reference("team/tools:latest"));
    let refuse = |reference: &str, options: &[&str], why: &str| {
        let error = scene.fail("two", &[&["install"], options, &[reference]].concat());
        assert!(error.contains(why), "{reference}: {error}");
    };
    let http = ["--plain-http"];
    refuse(&registry.reference("team/tools:2"), &http, "team/tools has the tags 1.2, latest");
    refuse(&registry.reference("team/tool:1"), &http, "it has no repository team/tool, or shows");
    refuse(&registry.reference("team/tools:1.2"), &[], "if it speaks HTTP, add --plain-http");
    let gone = registry.reference("team/tools:1.2");
    drop(registry);
    refuse(&gone, &http, "cannot be reached; check its name, and the network");
}

/// From a recipe to the firmware, and the same on a second machine that has the registry alone, then nothing.
#[test]
fn avr_gcc_from_a_registry_makes_the_known_firmware_without_a_network() {
    const TEST: &str = "registries: AVR GCC";
    let scene = Scene::new();
    if real("avr", TEST).is_none() {
        return;
    }
    let Some(registry) = Registry::start(&scene, TEST, None) else { return };
    scene.succeed("one", &["install", "--quiet", "--no-compile", "avr-gcc"]);
    let reference = registry.reference("team/avr-gcc:latest");
    let push = ["toolchain", "push", "-q", "--plain-http", "--json", "avr-gcc", &reference];
    let pushed: Value = serde_json::from_str(&scene.succeed("one", &push)).unwrap();
    let version = pushed["version"].as_str().unwrap();
    let project = format!(
        "[toolchains]\navr-gcc = {{ version = \"{version}\", source = \"{reference}\" }}\n"
    );
    std::fs::write(scene.path("work/belljar.toml"), project).unwrap();
    scene.succeed("two", &["trust"]);
    scene.succeed("two", &["install", "--quiet", "--no-compile", "--plain-http"]);
    drop(registry);
    scene.succeed("two", &["install", "--quiet", "--no-compile", "--locked"]);
    let lock = std::fs::read_to_string(scene.path("work/belljar.lock")).unwrap();
    assert!(lock.contains(pushed["digest"].as_str().unwrap()), "{lock}");
    let blink = crate::support::package().join("toolchains/avr/blink.c");
    std::fs::copy(blink, scene.path("work/blink.c")).unwrap();
    let words = ["avr-gcc", "-Os", "-DF_CPU=16000000UL", "blink.c", "-o", "blink.hex"];
    for (home, project, locked) in [("one", "none", &[][..]), ("two", "", &["--locked"])] {
        let call = |args: &[&str]| {
            let mut command = scene.command(home, args);
            let output = command.env("BELLJAR_PROJECT", project).output().unwrap();
            assert!(output.status.success(), "{home}: {}", stderr(&output));
            stdout(&output)
        };
        call(&[&["run", "--quiet", "--apply"], locked, &words].concat());
        let digest = "b7823e2a17fed1f12692f79d332594c5b425244a2a7d9e52ca6df73570345c76";
        let sum = call(&["run", "--quiet", "sha256sum", "blink.hex"]);
        assert_eq!(sum, format!("{digest}  blink.hex\n"), "{home}");
        std::fs::remove_file(scene.path("work/blink.hex")).unwrap();
    }
}

#[test]
fn an_installed_toolchain_is_pushed_from_the_store() {
    let scene = Scene::new();
    let Some(registry) = Registry::start(&scene, "push of what is installed", None) else { return };
    scene.succeed("one", &["install", "../tools"]);
    std::fs::remove_dir_all(scene.path("tools")).unwrap();
    let reference = registry.reference("tools:latest");
    let pushed = scene.succeed("one", &["toolchain", "push", "--plain-http", "tools", &reference]);
    assert!(pushed.starts_with("pushed tools 1.2 to "), "{pushed}");
    scene.succeed("two", &["install", "--plain-http", &reference]);
    assert_eq!(scene.succeed("two", &["run", "note"]), "note 7\n");
    assert_eq!(
        scene.succeed("two", &["toolchain", "verify"]),
        "tools: all files are as they were installed\n"
    );
}

#[test]
fn a_signature_goes_through_a_registry() {
    let scene = Scene::new();
    let Some(registry) = Registry::start(&scene, "signatures", None) else { return };
    scene.succeed("one", &["keys", "generate", "--no-password", "a.key"]);
    let pack = ["toolchain", "pack", "-q", "../tools", "--sign", "a.key", "-o", "signed.belljar"];
    scene.succeed("one", &pack);
    let reference = registry.reference("tools:1");
    let push = |source: &str| {
        let args = ["toolchain", "push", "--plain-http", "--json", source, &reference];
        let pushed: Value = serde_json::from_str(&scene.succeed("one", &args)).unwrap();
        pushed["manifest"].clone()
    };
    let unsigned = push("../tools");
    let trust = ["install", "-q", "--plain-http", "--trust", "a.key.pub", &reference];
    assert!(scene.fail("two", &trust).contains("it is not signed"));
    let signed = push("signed.belljar");
    assert_ne!(unsigned, signed);
    scene.succeed("two", &trust);
    assert_eq!(scene.succeed("two", &["run", "note"]), "note 7\n");
    let listed = scene.succeed("two", &["toolchain", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[0]["signature"]["trusted"], true);
    scene.succeed("one", &["toolchain", "pull", "-q", "--plain-http", &reference, "-o", "pulled"]);
    let read = |name: &str| std::fs::read(scene.path("work").join(name)).unwrap();
    assert!(read("pulled") == read("signed.belljar"), "the bundles differ");
    // From the store it is pushed as it was pulled.
    scene.succeed("one", &["install", "-q", "signed.belljar"]);
    assert_eq!(push("tools"), signed);
}

#[test]
fn the_login_of_docker_is_used() {
    let scene = Scene::new();
    let Some(registry) = Registry::start(&scene, "login", Some(PASSWORDS)) else { return };
    let reference = registry.reference("tools:1");
    let push = ["toolchain", "push", "--plain-http", "../tools", &reference];
    let refused = scene.fail("one", &push);
    assert!(refused.contains(&format!("docker login {}", registry.name)), "{refused}");
    let config = json!({ "auths": { registry.name.as_str(): { "auth": LOGIN } } });
    std::fs::write(scene.path("docker/config.json"), config.to_string()).unwrap();
    scene.succeed("one", &push);
    scene.succeed("two", &["install", "--plain-http", &reference]);
    std::fs::remove_file(scene.path("docker/config.json")).unwrap();
    let refused = scene.fail("two", &["install", "--plain-http", &reference]);
    assert!(refused.contains("docker login"), "{refused}");
}

#[test]
fn a_pull_goes_on_where_a_killed_one_stopped() {
    let scene = Scene::new();
    let Some(registry) = Registry::start(&scene, "resumed pull", None) else { return };
    let reference = registry.reference("tools:1");
    scene.push(&reference);
    let module = std::fs::read(guest("cat")).unwrap();
    let manifest: Value = {
        let args = ["install", "--plain-http", &reference];
        scene.succeed("one", &args);
        let inspected =
            scene.succeed("one", &["toolchain", "pack", "-q", "tools", "-o", "t.belljar"]);
        assert!(inspected.starts_with("wrote "));
        scene.succeed("one", &["toolchain", "unpack", "t.belljar", "unpacked"]);
        let text = std::fs::read_to_string(scene.path("work/unpacked/toolchain.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let sha256 = manifest["files"]["wasm/cat.wasm"]["sha256"].as_str().unwrap();
    let downloads = scene.path("two/toolchains/downloads");
    let half = module.len() / 2;
    for (kept, works) in
        [(&module[..half], true), (&vec![0; half][..], false), (&[0; 9][..0], true)]
    {
        std::fs::create_dir_all(&downloads).unwrap();
        std::fs::write(downloads.join(sha256), kept).unwrap();
        let output = scene.call("two", &["install", "--plain-http", &reference]);
        assert_eq!(output.status.success(), works, "{}", stderr(&output));
        if !works {
            assert!(stderr(&output).contains("its digest is sha256:"), "{}", stderr(&output));
            assert!(!downloads.join(sha256).exists(), "what is wrong is not kept");
        }
        assert_eq!(scene.succeed("two", &["run", "note"]), "note 7\n");
    }
    assert_eq!(std::fs::read_dir(&downloads).unwrap().count(), 0);
}

/// An answer of the server that lies.
struct Answer {
    status: &'static str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// The length that it says it has.
    says_len_bytes: Option<usize>,
    /// Whether the body repeats until the client hangs up.
    is_endless: bool,
}

impl Answer {
    fn of(body: Vec<u8>) -> Self {
        let headers = Vec::new();
        Self { status: "200 OK", headers, body, says_len_bytes: None, is_endless: false }
    }
}

/// A server that answers each path as told, and notes the requests.
struct Liar {
    name: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Liar {
    fn start(answer: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (noted, answer) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                std::thread::spawn(move || Self::serve(&stream.unwrap(), &noted, &*answer));
            }
        });
        Self { name, requests }
    }

    fn serve(
        stream: &TcpStream,
        noted: &Mutex<Vec<String>>,
        answer: &dyn Fn(&str) -> Option<Answer>,
    ) {
        let mut reader = BufReader::new(stream);
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            if reader.read_line(&mut request).unwrap_or(0) == 0 {
                return;
            }
        }
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        noted.lock().unwrap().push(request);
        let mut writer = stream;
        let Some(answer) = answer(&path) else {
            let none = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = writer.write_all(none.as_bytes());
            return;
        };
        let mut head = format!("HTTP/1.1 {}\r\nconnection: close\r\n", answer.status);
        let headers = answer.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        head.extend(headers);
        if !answer.is_endless {
            let len_bytes = answer.says_len_bytes.unwrap_or(answer.body.len());
            head.push_str(&["content-length: ", &len_bytes.to_string(), "\r\n"].concat());
        }
        let _ = writer.write_all(format!("{head}\r\n").as_bytes());
        while writer.write_all(&answer.body).is_ok() && answer.is_endless {}
        let _ = writer.flush();
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// What a registry would send for an artifact with the module `cat`: its manifest, and blobs by digest.
fn artifact(media_type: &str, annotations: &Value) -> (Value, BTreeMap<String, Vec<u8>>) {
    let module = std::fs::read(guest("cat")).unwrap();
    let digest = |bytes: &[u8]| format!("sha256:{}", sha256(bytes));
    let config = b"{}".to_vec();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.wasm.config.v0+json", "digest": digest(&config),
            "size": config.len(),
        },
        "layers": [{
            "mediaType": media_type, "digest": digest(&module), "size": module.len(),
            "annotations": annotations,
        }],
    });
    (manifest, BTreeMap::from([(digest(&config), config), (digest(&module), module)]))
}

/// By the built-in program.
fn sha256(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x"), bytes).unwrap();
    let output = belljar(dir.path()).args(["run", "-q", "sha256sum", "x"]).output().unwrap();
    stdout(&output).split(' ').next().unwrap().to_owned()
}

/// As `wkg` and `oras` push it.
#[test]
fn a_module_that_another_tool_pushed_is_a_toolchain_with_one_program() {
    for (media_type, annotations, program) in [
        ("application/wasm", json!({}), "copy"),
        ("application/wasm", json!({ "org.opencontainers.image.title": "bin/show.wasm" }), "show"),
        ("application/vnd.wasm.content.layer.v1+wasm", json!({}), "copy"),
    ] {
        let scene = Scene::new();
        let (manifest, blobs) = artifact(media_type, &annotations);
        let liar = Liar::start(move |path| {
            if path.ends_with("/manifests/1.0") {
                return Some(Answer::of(manifest.to_string().into_bytes()));
            }
            Some(Answer::of(blobs.get(path.rsplit('/').next()?)?.clone()))
        });
        let reference = format!("{}/team/copy:1.0", liar.name);
        let installed = scene.succeed("one", &["install", "--plain-http", &reference]);
        assert_eq!(installed, format!("copy 1.0: {program}\n"));
        std::fs::write(scene.path("work/a"), "a\n").unwrap();
        assert_eq!(scene.succeed("one", &["run", program, "a"]), "a\n");
    }
}

#[test]
fn a_registry_that_lies_is_refused_and_nothing_is_installed() {
    type Lie = fn(&str, &mut Value, &mut Answer);
    let lies: [(&str, &str, Lie); 8] = [
        ("another blob", "sent something else for the blob", |path, _, answer| {
            if path.contains("/blobs/") {
                answer.body[100] ^= 1;
            }
        }),
        ("a short blob", "cannot fetch the blob", |path, _, answer| {
            if path.contains("/blobs/") {
                answer.body.truncate(100);
            }
        }),
        ("a blob that breaks off", "cannot fetch the blob", |path, _, answer| {
            if path.contains("/blobs/") {
                answer.says_len_bytes = Some(answer.body.len());
                answer.body.truncate(100);
            }
        }),
        ("an endless blob", "sends more for the blob", |path, _, answer| {
            answer.is_endless = path.contains("/blobs/");
        }),
        ("another manifest", "digest", |path, manifest, answer| {
            if path.contains("/manifests/") {
                manifest["annotations"] = json!({ "changed": "yes" });
                answer.body = manifest.to_string().into_bytes();
            }
        }),
        ("a length below zero", "has the length -1", |path, manifest, answer| {
            if path.contains("/manifests/") {
                manifest["layers"][0]["size"] = json!(-1);
                answer.body = manifest.to_string().into_bytes();
            }
        }),
        ("a digest that is a path", "is not a SHA-256 digest", |path, manifest, answer| {
            if path.contains("/manifests/") {
                manifest["layers"][0]["digest"] = json!("sha256:../../../evil");
                answer.body = manifest.to_string().into_bytes();
            }
        }),
        ("a manifest that is none", "cannot fetch", |path, _, answer| {
            if path.contains("/manifests/") {
                answer.body = b"<html>".to_vec();
            }
        }),
    ];
    for (what, message, lie) in lies {
        let scene = Scene::new();
        let (manifest, blobs) = artifact("application/wasm", &json!({}));
        let text = manifest.to_string().into_bytes();
        let digest = format!("sha256:{}", sha256(&text));
        let liar = Liar::start(move |path| {
            let mut answer = if path.contains("/manifests/") {
                Answer::of(text.clone())
            } else {
                let asked = path.rsplit('/').next()?;
                Answer::of(blobs.get(asked)?.clone())
            };
            lie(path, &mut manifest.clone(), &mut answer);
            Some(answer)
        });
        // By its digest where the manifest is swapped, else by a tag.
        let reference = match what {
            "another manifest" => format!("{}/copy@{digest}", liar.name),
            _ => format!("{}/copy:1", liar.name),
        };
        let error = scene.fail("one", &["install", "-q", "--plain-http", &reference]);
        assert!(error.contains(message), "{what}: {error}");
        assert_eq!(scene.succeed("one", &["toolchain", "list"]), "", "{what}");
    }
}

#[test]
fn a_login_is_not_sent_where_a_registry_redirects_to() {
    let scene = Scene::new();
    let elsewhere = Liar::start(|_| Some(Answer::of(b"something else".to_vec())));
    let target = format!("http://{}/stolen", elsewhere.name.replace("127.0.0.1", "localhost"));
    let (manifest, _) = artifact("application/wasm", &json!({}));
    let liar = Liar::start(move |path| {
        let mut answer = Answer::of(manifest.to_string().into_bytes());
        if path == "/v2/" {
            answer.status = "401 Unauthorized";
            answer.headers.push(("www-authenticate".into(), "Basic realm=\"test\"".into()));
        } else if path.contains("/blobs/") {
            answer.status = "307 Temporary Redirect";
            answer.headers.push(("location".into(), target.clone()));
        }
        Some(answer)
    });
    let config = json!({ "auths": { liar.name.as_str(): { "auth": LOGIN } } });
    std::fs::write(scene.path("docker/config.json"), config.to_string()).unwrap();
    let reference = format!("{}/copy:1", liar.name);
    let error = scene.fail("one", &["install", "-q", "--plain-http", &reference]);
    assert!(error.contains("cannot fetch the blob"), "{error}");
    let has_login = |request: &String| request.to_lowercase().contains("authorization");
    assert!(liar.requests().iter().any(has_login), "{:?}", liar.requests());
    assert!(!elsewhere.requests().is_empty());
    assert!(!elsewhere.requests().iter().any(has_login), "{:?}", elsewhere.requests());
}

#[test]
fn plain_http_and_names_of_registries_are_checked() {
    let scene = Scene::new();
    let remote = scene.fail("one", &["install", "--plain-http", "registry.test/tools:1"]);
    assert!(remote.contains("--plain-http is for registries on this machine only"), "{remote}");
    let none = scene.fail("one", &["toolchain", "pull", "tools"]);
    assert!(none.contains("expected REGISTRY/NAME:TAG"), "{none}");
    let missing = scene.fail("one", &["install", "./no/such:1"]);
    assert!(missing.contains("there is no folder or bundle"), "{missing}");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let reference = format!("{closed}/tools:1");
    let error = scene.fail("one", &["install", "--plain-http", &reference]);
    assert!(error.contains(&format!("cannot fetch {reference}")), "{error}");
}
