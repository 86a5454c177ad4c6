//! Inconsistent snapshots, which no session can produce: each is refused with a message that names
//! the fault.

use std::fmt::Write;

use belljar::Digest;
use belljar::sandbox::{FilesystemAccess, MountSource, SandboxMount, SandboxSpec, SnapshotStore};
use serde_json::{Value, json};

use super::{PROGRAMS, keep, sandbox, sh};

/// The snapshot of a session with directories, files, and a long file, as data.
struct Snapshot(Value);

impl Snapshot {
    fn nodes(&mut self) -> &mut Vec<Value> {
        self.0["machine"]["files"]["nodes"].as_array_mut().unwrap()
    }

    /// The number of the node called `name`.
    fn number(&mut self, name: &str) -> usize {
        let entries = |node: &Value| node["body"]["dir"]["entries"].as_array().cloned();
        let all = self.nodes().iter().filter_map(entries).flatten().collect::<Vec<_>>();
        let found = all.iter().find(|entry| entry[0] == name).unwrap();
        usize::try_from(found[2]["node"].as_u64().unwrap()).unwrap()
    }

    fn node(&mut self, name: &str) -> &mut Value {
        let number = self.number(name);
        &mut self.nodes()[number]
    }

    fn entries(&mut self, dir: &str) -> &mut Vec<Value> {
        self.node(dir)["body"]["dir"]["entries"].as_array_mut().unwrap()
    }

    fn add(&mut self, dir: &str, name: &str, number: usize) {
        self.entries(dir).push(json!([name, false, { "node": number }]));
    }
}

/// The error message, with its sources, for a valid snapshot that `lie` has changed.
fn said_of(lie: impl FnOnce(&mut Snapshot)) -> Result<(), String> {
    let (host, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = SnapshotStore::new(folder.path());
    let (target, source) = ("/work".to_owned(), MountSource::Host(host.path().into()));
    let mount = SandboxMount { target, source, access: FilesystemAccess::ReadWrite };
    let mut origin = sandbox(SandboxSpec { mounts: vec![mount], ..SandboxSpec::default() });
    sh(
        &mut origin,
        "cd /tmp; seq 9000 > long; mkdir -p one/two other; echo note > note; ln -s note link",
    );
    let id = store.save(&mut origin).unwrap();
    let text = store.cas().get(id, 1 << 30).unwrap();
    let mut snapshot = Snapshot(serde_json::from_slice(&text).unwrap());
    lie(&mut snapshot);
    let bytes = serde_json::to_vec(&snapshot.0).unwrap();
    let lying = Digest::of(&bytes);
    keep(&store, lying, &bytes);
    store.resume(lying, PROGRAMS.clone()).map(|_| ()).map_err(|error| {
        let mut said = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            write!(said, ": {error}").unwrap();
            source = error.source();
        }
        said
    })
}

fn assert_refused(why: &str, lie: impl FnOnce(&mut Snapshot)) {
    match said_of(lie) {
        Err(said) => assert!(said.contains(why), "{why}: {said}"),
        Ok(()) => panic!("it is taken for a session: {why}"),
    }
}

#[test]
fn snapshot_with_an_invalid_tree_is_refused() {
    said_of(|_| ()).unwrap();
    assert_refused("a directory contains itself", |snapshot| {
        let one = snapshot.number("one");
        snapshot.entries("tmp").retain(|entry| entry[0] != "one");
        let two = snapshot.nodes()[one]["body"]["dir"]["entries"][0][2]["node"].as_u64().unwrap();
        let two = usize::try_from(two).unwrap();
        let entries = &mut snapshot.nodes()[two]["body"]["dir"]["entries"];
        entries.as_array_mut().unwrap().push(json!(["up", false, { "node": one }]));
    });
    assert_refused("a directory has two names", |snapshot| {
        let one = snapshot.number("one");
        snapshot.add("other", "again", one);
    });
    assert_refused("the root is an entry of a directory", |snapshot| {
        snapshot.add("other", "root", 0);
    });
    assert_refused("a node number is out of range", |snapshot| snapshot.add("other", "x", 4000));
    assert_refused("a file has no name", |snapshot| {
        snapshot.entries("tmp").retain(|entry| entry[0] != "note");
    });
    for name in ["", ".", "..", "a/b", "../../escaped", "/etc/passwd", "a\0b", &"n".repeat(4000)] {
        assert_refused("invalid file name", |snapshot| {
            let note = snapshot.number("note");
            snapshot.add("other", name, note);
        });
    }
    assert_refused("a directory has an entry twice", |snapshot| {
        let note = snapshot.number("note");
        snapshot.add("tmp", "link", note);
    });
}

#[test]
fn snapshot_with_missing_references_is_refused() {
    let files = |snapshot: &mut Snapshot| snapshot.0["machine"]["files"].take();
    assert_refused("a layer number is out of range", |snapshot| {
        snapshot.node("other")["body"]["dir"]["below"] = json!([[99, "tmp"]]);
    });
    for path in ["..", "../..", "/etc", "a//b", "a/../..", "./a", "a/"] {
        assert_refused("invalid path", |snapshot| {
            snapshot.node("other")["body"]["dir"]["below"] = json!([[0, path]]);
        });
    }
    assert_refused("a mount number is out of range", |snapshot| {
        snapshot.node("note")["mount"] = json!(999);
    });
    assert_refused("the root of a mount is not a directory", |snapshot| {
        let note = snapshot.number("note");
        snapshot.0["machine"]["files"]["mounts"][0]["root"] = json!(note);
    });
    assert_refused(", now ", |snapshot| {
        snapshot.0["machine"]["files"]["mounts"].as_array_mut().unwrap().pop();
    });
    assert_refused("a file has neither content nor origin", |snapshot| {
        snapshot.node("note")["body"] = json!({ "file_below": 5 });
    });
    assert_refused("is invalid", |snapshot| drop(files(snapshot)));
    assert_refused("not a snapshot", |snapshot| snapshot.0["format"] = json!("another"));
    assert_refused("version 2.0", |snapshot| snapshot.0["version"] = json!([2, 0]));
}

#[test]
fn snapshot_with_wrong_sizes_is_refused() {
    for len in [1_u64 << 62, u64::MAX] {
        assert_refused("the length of a file is out of range", |snapshot| {
            snapshot.node("note")["body"]["file"]["len"] = json!(len);
        });
    }
    assert_refused("the length of a file is out of range", |snapshot| {
        let file = &mut snapshot.node("note")["body"]["file"];
        let chunk = file["chunks"][0].clone();
        file["chunks"] = json!(vec![chunk; 1000]);
    });
    assert_refused("a file has more bytes than its length", |snapshot| {
        snapshot.node("note")["body"]["file"]["len"] = json!(1);
    });
    assert_refused("it exceeds the size limit", |snapshot| {
        snapshot.0["limits"]["vfs"]["upper_bytes_max"] = json!(16 << 10);
    });
}
