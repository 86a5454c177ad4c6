//! When belljar is killed during any operation, everything that it acknowledged is on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use belljar::sandbox::{HomeKind, SandboxHome};

use super::home::open;
use crate::support::plans::Chance;
use crate::support::replays::Belljar;
use crate::support::{belljar, stdout};

/// How many commands are killed, unless `BELLJAR_TEST_KILLS` says otherwise.
const KILLS: usize = 40;

/// Longest time, in microseconds, that a command runs before it is killed. Most commands need half of it.
const PATIENCE_US: usize = if cfg!(windows) { 400_000 } else { 60_000 };

/// The expected state: the possible contents of `/tmp/n` in each session and snapshot. There are several after a
/// command was killed that would have changed it; `None` means that the session or snapshot may not exist.
#[derive(Default)]
struct Model {
    sessions: BTreeMap<String, BTreeSet<Option<u64>>>,
    snapshots: BTreeMap<String, BTreeSet<Option<u64>>>,
    /// Number of sessions and snapshots that killed commands may have made, under ids that they did not print.
    strangers: usize,
}

enum Op {
    Create(String),
    Exec(String, u64),
    Snapshot(String),
    Fork(String),
    Remove(String),
    Gc,
}

fn args(op: &Op) -> Vec<String> {
    let words = match op {
        Op::Create(id) => vec!["create", "--no-worktree", "--id", id],
        Op::Exec(id, number) => {
            let script = format!("echo {number} > /tmp/n; seq 400 > /tmp/l{number}");
            return ["exec", id, "sh", "-c", &script].map(str::to_owned).to_vec();
        }
        Op::Snapshot(id) => vec!["snapshot", id],
        Op::Fork(snapshot) => vec!["fork", snapshot],
        Op::Remove(id) => vec!["rm", id],
        Op::Gc => vec!["gc"],
    };
    words.into_iter().map(str::to_owned).collect()
}

fn draw(chance: &mut Chance, model: &Model, number: u64) -> Op {
    let of = |map: &BTreeMap<String, BTreeSet<Option<u64>>>, at: usize| {
        map.keys().nth(at % map.len().max(1)).cloned()
    };
    let at = chance.below(1000);
    let session = of(&model.sessions, at);
    match (chance.below(12), session, of(&model.snapshots, at)) {
        (0..=4, Some(id), _) => Op::Exec(id, number),
        (5..=6, Some(id), _) => Op::Snapshot(id),
        (7, _, Some(snapshot)) => Op::Fork(snapshot),
        (8, Some(id), _) => Op::Remove(id),
        (9, _, Some(snapshot)) => Op::Remove(snapshot),
        (10, ..) => Op::Gc,
        _ => Op::Create(format!("box-{number}")),
    }
}

impl Model {
    fn entry(&mut self, id: &str) -> &mut BTreeSet<Option<u64>> {
        if self.sessions.contains_key(id) {
            self.sessions.get_mut(id).unwrap()
        } else {
            self.snapshots.get_mut(id).unwrap()
        }
    }

    fn acknowledged(&mut self, op: Op, printed: String) {
        match op {
            Op::Create(id) => drop(self.sessions.insert(id, BTreeSet::from([Some(0)]))),
            Op::Exec(id, number) => *self.entry(&id) = BTreeSet::from([Some(number)]),
            Op::Snapshot(id) => {
                let is = self.sessions[&id].clone();
                self.snapshots.insert(printed, is);
            }
            Op::Fork(snapshot) => {
                let is = self.snapshots[&snapshot].clone();
                self.sessions.insert(printed, is);
            }
            Op::Remove(id) => {
                self.sessions.remove(&id);
                self.snapshots.remove(&id);
            }
            Op::Gc => {}
        }
    }

    fn killed(&mut self, op: &Op) {
        match op {
            Op::Create(id) => {
                self.sessions.insert(id.clone(), BTreeSet::from([None, Some(0)]));
            }
            Op::Exec(id, number) => drop(self.entry(id).insert(Some(*number))),
            Op::Remove(id) => drop(self.entry(id).insert(None)),
            Op::Snapshot(_) | Op::Fork(_) => self.strangers += 1,
            Op::Gc => {}
        }
    }

    /// Compares every session and snapshot with the model, and removes the possibilities that did not occur.
    fn check(&mut self, home: &SandboxHome, after: &str) {
        let listed = home.list().unwrap();
        let is_known =
            |id: &String| self.sessions.contains_key(id) || self.snapshots.contains_key(id);
        let strangers: Vec<_> = listed.iter().filter(|entry| !is_known(&entry.id)).collect();
        assert!(strangers.len() <= self.strangers, "{after}: {strangers:?}");
        for entry in &strangers {
            assert!(home.resume(&entry.id).is_ok(), "{after}: {}", entry.id);
        }
        for (kind, known) in
            [(HomeKind::Session, &mut self.sessions), (HomeKind::Snapshot, &mut self.snapshots)]
        {
            known.retain(|id, may| {
                let is_there = listed.iter().any(|entry| entry.kind == kind && entry.id == *id);
                let is = is_there.then(|| number_in(home, id));
                assert!(may.contains(&is), "{after}: {id} is {is:?}, and may be {may:?}");
                *may = BTreeSet::from([is]);
                is_there
            });
        }
    }
}

/// The number in a session's `/tmp/n`; the list of that number must be complete.
fn number_in(home: &SandboxHome, id: &str) -> u64 {
    let mut sandbox = home.resume(id).unwrap_or_else(|error| panic!("{id}: {error:?}"));
    let Ok(text) = sandbox.files().read("/tmp/n") else { return 0 };
    let number: u64 = String::from_utf8(text).unwrap().trim().parse().unwrap();
    let list = sandbox.files().read(&format!("/tmp/l{number}")).unwrap();
    assert!(list.ends_with(b"\n400\n"), "{id}");
    number
}

#[test]
fn acknowledged_changes_survive_a_kill() {
    let kills: usize =
        std::env::var("BELLJAR_TEST_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("home");
    let home = open(&dir);
    let mut chance = Chance::new(7);
    let (mut model, mut killed) = (Model::default(), 0);
    let mut number = 0;
    while killed < kills {
        number += 1;
        let op = draw(&mut chance, &model, number);
        let words = args(&op);
        let mut child = command(folder.path(), &dir).args(&words).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(chance.below(PATIENCE_US) as u64));
        // A command that has already exited is not killed, and has acknowledged its change.
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            model.acknowledged(op, stdout(&output).trim().to_owned());
        } else {
            let says = String::from_utf8_lossy(&output.stderr);
            assert!(was_killed(output.status), "{words:?}: {says}");
            killed += 1;
            model.killed(&op);
        }
        model.check(&home, &format!("{number}: {}", words.join(" ")));
    }
    assert!(command(folder.path(), &dir).arg("gc").status().unwrap().success());
    model.check(&home, "the end");
}

fn was_killed(status: ExitStatus) -> bool {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
    #[cfg(windows)]
    return status.code() == Some(1);
}

fn command(folder: &Path, home: &Path) -> Belljar {
    let mut command = belljar(folder);
    command.arg("sandbox").env("BELLJAR_HOME", home).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
