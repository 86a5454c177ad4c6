//! Forks of large sessions, and modified snapshots.

use std::collections::BTreeMap;

use belljar::Digest;
use belljar::sandbox::{
    ExecRequest, FilesystemAccess, MountSource, Sandbox, SandboxMount, SandboxSpec, SnapshotError,
    SnapshotStore,
};
use serde_json::Value;

use super::{PROGRAMS, keep, sandbox, sh};
use crate::support::number_from_env;
use crate::support::plans::Chance;

const FILES: usize = 10_000;

fn path(number: usize) -> String {
    format!("/tmp/d{}/f{number}", number % 100)
}

/// The expected state of a session: the contents of files by their paths.
#[derive(Clone)]
struct Side {
    sandbox_number: usize,
    files: BTreeMap<String, Vec<u8>>,
}

fn change(sandbox: &mut Sandbox, side: &mut Side, chance: &mut Chance) {
    let at = path(chance.below(FILES));
    let vfs = sandbox.files();
    let base = vfs.host_base();
    match chance.below(4) {
        0 => {
            let bytes = format!("{} of {}", chance.draw(), side.sandbox_number).into_bytes();
            vfs.write(&at, &bytes, 1).unwrap();
            side.files.insert(at, bytes);
        }
        1 => {
            let is_there = side.files.remove(&at).is_some();
            assert_eq!(vfs.unlink(base, &at[1..], 1).is_ok(), is_there);
        }
        2 => {
            let to = path(chance.below(FILES));
            let moved = vfs.rename((base, &at[1..]), (base, &to[1..]), 1).is_ok();
            assert_eq!(moved, side.files.contains_key(&at));
            if let Some(bytes) = side.files.remove(&at) {
                side.files.insert(to, bytes);
            }
        }
        _ => {
            let found = vfs.read(&at).ok();
            assert_eq!(found.as_ref(), side.files.get(&at), "{at} of {}", side.sandbox_number);
        }
    }
}

fn check(sandbox: &mut Sandbox, side: &Side) {
    let mut found = BTreeMap::new();
    for dir in 0..100 {
        let dir = format!("/tmp/d{dir}");
        for entry in sandbox.list(&dir).unwrap() {
            let at = format!("{dir}/{}", entry.name);
            let bytes = sandbox.files().read(&at).unwrap();
            found.insert(at, bytes);
        }
    }
    assert!(found == side.files, "session {} is another", side.sandbox_number);
}

#[test]
fn forks_of_a_session_with_many_files_are_independent() {
    let ops = number_from_env("BELLJAR_TEST_FORK_OPS", 20_000);
    let mut origin = sandbox(SandboxSpec::default());
    sh(&mut origin, "for d in $(seq 0 99); do mkdir /tmp/d$d; done");
    let mut files = BTreeMap::new();
    for number in 0..FILES {
        let (at, bytes) = (path(number), format!("first {number}").into_bytes());
        origin.files().write(&at, &bytes, 0).unwrap();
        files.insert(at, bytes);
    }
    let mut sides = vec![(origin, Side { sandbox_number: 0, files })];
    let mut chance = Chance::new(11);
    for op in 0..ops {
        let at = chance.below(sides.len());
        if op % (ops / 6).max(1) == 0 {
            let (sandbox, side) = &sides[at];
            let fork = sandbox.fork().unwrap();
            let side = Side { sandbox_number: sides.len(), ..side.clone() };
            sides.push((fork, side));
        }
        let (sandbox, side) = &mut sides[at];
        change(sandbox, side, &mut chance);
    }
    assert!(sides.len() > 3);
    // Dropping one of the sessions does not affect the others.
    sides.remove(1);
    for (sandbox, side) in &mut sides {
        check(sandbox, side);
    }
}

/// A session with something of every kind that a snapshot can hold.
fn of_every_kind(host: &std::path::Path) -> Sandbox {
    std::fs::write(host.join("below"), "below\n").unwrap();
    std::fs::write(host.join("gone"), "gone\n").unwrap();
    std::fs::create_dir(host.join("dir")).unwrap();
    std::fs::write(host.join("dir/inner"), "inner\n").unwrap();
    std::fs::create_dir_all(host.join("unchanged/deep")).unwrap();
    std::fs::write(host.join("unchanged/deep/inner"), "inner 2\n").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("inner", host.join("unchanged/deep/inner link")).unwrap();
    let mounts = vec![SandboxMount {
        target: "/work".into(),
        source: MountSource::Host(host.into()),
        access: FilesystemAccess::ReadWrite,
    }];
    let mut origin = sandbox(SandboxSpec { mounts, ..SandboxSpec::default() });
    sh(
        &mut origin,
        "cd /work; cat below > /dev/null; rm gone; mv dir moved; echo more >> below; ln below linked; \
         ln -s below link; mkdir -p new/deep; seq 500 > long; sleep 7; ls moved; cat nothing || :; \
         cat unchanged/deep/*; ls unchanged/nothing || :",
    );
    origin
}

/// Replaces something of `value` at random: a number, a text, a list, a field.
fn mutate(value: &mut Value, chance: &mut Chance) {
    // Descends to a random part.
    let mut at = value;
    loop {
        let children = match at {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        if children == 0 || chance.below(12) == 0 {
            break;
        }
        let child = chance.below(children);
        at = match at {
            Value::Array(list) => &mut list[child],
            Value::Object(map) => map.values_mut().nth(child).unwrap(),
            _ => unreachable!("it has children"),
        };
    }
    let numbers =
        [0, 1, 2, 5, 127, 128, 255, 65_535, 65_536, u64::from(u32::MAX), 1 << 40, u64::MAX];
    let texts = ["", ".", "..", "/", "a/b", "a\0b", "/work", "tmp", "ü", "AAAA", "directory"];
    *at = match (chance.below(8), &*at) {
        (3..=4, Value::Number(number)) => {
            number.as_u64().unwrap_or(0).wrapping_add(chance.below(5) as u64).wrapping_sub(2).into()
        }
        (0..=4, Value::Bool(is)) => (!is).into(),
        (0..=1, Value::Array(list)) => {
            let mut list = list.clone();
            let copy = list.first().cloned();
            list.extend(copy);
            list.into()
        }
        (2..=3, Value::Array(list)) => list.iter().rev().cloned().collect(),
        (4, Value::Array(list)) => list.iter().skip(1).cloned().collect(),
        (0..=3, Value::Object(map)) => {
            let left_out = chance.below(map.len().max(1));
            let kept = map.iter().enumerate().filter(|(index, _)| *index != left_out);
            Value::Object(kept.map(|(_, (key, value))| (key.clone(), value.clone())).collect())
        }
        (5, _) => Value::Null,
        (6, _) | (0..=3, Value::String(_)) => texts[chance.below(texts.len())].into(),
        _ => numbers[chance.below(numbers.len())].into(),
    };
}

/// A snapshot can name any folder of the host. These are replaced by `host`, so that the test does not depend on the
/// machine's files.
fn keep_host(snapshot: &mut Value, host: &std::path::Path) {
    let mounts = snapshot.get_mut("mounts").and_then(Value::as_array_mut);
    for mount in mounts.into_iter().flatten() {
        if let Some(named) = mount.pointer_mut("/source/host") {
            *named = host.to_str().unwrap().into();
        }
    }
}

/// Uses every operation of a session. Any result is allowed, except a panic.
fn use_all(sandbox: &mut Sandbox) {
    let mut left = vec![("/".to_owned(), 0)];
    while let Some((dir, depth)) = left.pop() {
        for entry in sandbox.list(&dir).unwrap_or_default() {
            let at = format!("{}/{}", dir.trim_end_matches('/'), entry.name);
            let _ = sandbox.files().metadata(&at);
            // A file can claim any length up to the limit if it is sparse.
            if entry.size < 1 << 20 {
                let _ = sandbox.files().read(&at);
            }
            if depth < 8 {
                left.push((at, depth + 1));
            }
        }
    }
    let _ = sandbox.diff();
    let script =
        "cd /work; ls -l; cat below; echo x >> below; rm -rf moved; mv new /tmp; ln below z; date";
    let _ = sandbox.exec(&ExecRequest::shell(script));
    let _ = sandbox.fork().map(|mut fork| fork.exec(&ExecRequest::new("ls", ["/"])).is_ok());
}

/// Changes one of the parts that a snapshot names, so that it names the changed one.
fn mutate_part(
    store: &SnapshotStore,
    parts: &[Digest],
    snapshot: &Value,
    chance: &mut Chance,
) -> Value {
    let part = parts[chance.below(parts.len())];
    let mut bad: Value = serde_json::from_slice(&store.cas().get(part, 1 << 30).unwrap()).unwrap();
    for _ in 0..=chance.below(3) {
        mutate(&mut bad, chance);
    }
    let bytes = serde_json::to_vec(&bad).unwrap();
    keep(store, Digest::of(&bytes), &bytes);
    let named = snapshot.to_string().replace(&part.to_string(), &Digest::of(&bytes).to_string());
    serde_json::from_str(&named).unwrap()
}

#[test]
fn snapshots_that_were_tampered_with_are_refused_or_work() {
    let cases = number_from_env("BELLJAR_TEST_SNAPSHOT_CASES", 400);
    let seed = number_from_env("BELLJAR_TEST_SEED", 1);
    let (host, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = SnapshotStore::new(folder.path());
    let id = store.save(&mut of_every_kind(host.path())).unwrap();
    let text = store.cas().get(id, 1 << 30).unwrap();
    let good: Value = serde_json::from_slice(&text).unwrap();
    let mut parts = store.parts_of(id).unwrap();
    parts.retain(|part| {
        let bytes = store.cas().get(*part, 1 << 30).unwrap();
        *part != id && serde_json::from_slice::<Value>(&bytes).is_ok_and(|it| !it.is_number())
    });
    assert!(parts.len() >= 2, "pins, and a directory in which nothing changed");
    let (mut refused, mut resumed) = (0, 0);
    for case in seed..seed + cases {
        let mut chance = Chance::new(case as u64);
        let mut bad = good.clone();
        if case % 3 == 0 {
            bad = mutate_part(&store, &parts, &bad, &mut chance);
        } else {
            for _ in 0..=chance.below(3) {
                mutate(&mut bad, &mut chance);
            }
        }
        keep_host(&mut bad, host.path());
        let bytes = serde_json::to_vec(&bad).unwrap();
        let digest = Digest::of(&bytes);
        keep(&store, digest, &bytes);
        let tried = std::panic::catch_unwind(|| match store.resume(digest, PROGRAMS.clone()) {
            Ok(mut sandbox) => {
                use_all(&mut sandbox);
                true
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                false
            }
        });
        let Ok(works) = tried else {
            panic!("BELLJAR_TEST_SEED={case}: a panic; the snapshot is\n{bad:#}")
        };
        *if works { &mut resumed } else { &mut refused } += 1;
    }
    assert!(refused > cases / 4 && resumed > cases / 20, "{refused} refused, {resumed} resumed");
}

/// Every part of a snapshot is checked against its digest, so a trusted id protects all of it.
#[test]
fn exchanged_part_of_a_snapshot_is_refused() {
    let (host, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = SnapshotStore::new(folder.path());
    let id = store.save(&mut of_every_kind(host.path())).unwrap();
    let parts = store.parts_of(id).unwrap();
    let read = ExecRequest::shell("ls -lR /work && cat /work/unchanged/deep/inner");
    let mut resumed = store.resume(id, PROGRAMS.clone()).unwrap();
    let right = resumed.exec(&read).unwrap();
    let right = (right.exit_code, right.stdout, super::told(resumed));
    assert!(parts.len() > 1 && right.0 == 0 && right.2.is_some());
    for part in parts {
        let path = store.cas().path_of(part);
        let good = std::fs::read(&path).unwrap();
        // The changed part is still valid, with another meaning.
        let text = String::from_utf8(good.clone()).unwrap();
        let bad = text.replacen("499", "999", 1).replacen("below", "belov", 1);
        let bad = bad.replacen("gone", "gonx", 1).replacen("inner", "innex", 1);
        assert!(bad != text, "{part}");
        std::fs::write(&path, bad).unwrap();
        let refused = match store.resume(id, PROGRAMS.clone()) {
            Err(refused) => refused,
            // What is known of folders of the host, and what was read there, is checked when it is read again; it is then
            // what it was, from the disk, or an error.
            Ok(mut resumed) => {
                let found = resumed.exec(&read).unwrap();
                let found = (found.exit_code, found.stdout, super::told(resumed));
                assert!(found == right || found.0 != 0 || found.2.is_none(), "{part}");
                std::fs::write(&path, good).unwrap();
                continue;
            }
        };
        let mut source: Option<&dyn std::error::Error> = Some(&refused);
        let is_damage = |error: &dyn std::error::Error| error.to_string().contains("is damaged");
        while source.is_some_and(|error| !is_damage(error)) {
            source = source.and_then(std::error::Error::source);
        }
        assert!(source.is_some(), "{part}: {refused}");
        std::fs::write(&path, good).unwrap();
    }
}

/// Regression: the next created node got an invalid number.
#[test]
fn snapshot_without_free_node_numbers_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = SnapshotStore::new(folder.path());
    let id = store.save(&mut sandbox(SandboxSpec::default())).unwrap();
    let text = store.cas().get(id, 1 << 30).unwrap();
    let mut bad: Value = serde_json::from_slice(&text).unwrap();
    bad["machine"]["files"]["next_ino"] = u64::MAX.into();
    let bytes = serde_json::to_vec(&bad).unwrap();
    keep(&store, Digest::of(&bytes), &bytes);
    let refused = store.resume(Digest::of(&bytes), PROGRAMS.clone()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, SnapshotError::Restore { .. }), "{refused}");
}

/// Changes single bytes. A snapshot that names another directory of the host is not used.
#[test]
fn snapshots_with_changed_bytes_are_refused_or_work() {
    let (host, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = SnapshotStore::new(folder.path());
    let id = store.save(&mut of_every_kind(host.path())).unwrap();
    let text = store.cas().get(id, 1 << 30).unwrap();
    let mut chance = Chance::new(3);
    for _ in 0..number_from_env("BELLJAR_TEST_SNAPSHOT_CASES", 400) {
        let mut bytes = text.clone();
        let at = chance.below(bytes.len());
        match chance.below(3) {
            0 => bytes[at] = chance.draw() as u8,
            1 => bytes.truncate(at),
            _ => drop(bytes.remove(at)),
        }
        let digest = Digest::of(&bytes);
        keep(&store, digest, &bytes);
        let Ok(mut sandbox) = store.resume(digest, PROGRAMS.clone()) else { continue };
        let is_of_host = |mount: &SandboxMount| match &mount.source {
            MountSource::Host(path) => path == host.path(),
            MountSource::Memory => true,
        };
        if sandbox.mounts().iter().all(is_of_host) {
            use_all(&mut sandbox);
        }
    }
}
