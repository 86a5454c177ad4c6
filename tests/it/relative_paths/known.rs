//! A program whose results are known from earlier runs acts as natively, too: what differs from these runs is noticed,
//! and its code runs from there on.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use belljar::results::{ResultCache, Results};
use belljar::{Command, HostDir, Machine, Program};

use super::calls::plant;
use crate::support::plans::Chance;
use crate::support::tree;

/// Answers of `program` to `script` in `folder`, in a machine whose processes are answered from `results`, and the
/// machine.
fn answers(
    program: &Program,
    folder: &Path,
    script: &str,
    results: &Arc<Results>,
) -> (String, Machine) {
    let builder = Machine::builder().worktree(HostDir::open(folder).unwrap());
    let mut machine = builder.build().unwrap();
    machine.set_results(Some(results.clone()));
    let output = Command::new(program).stdin(script).output(&mut machine).unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    (String::from_utf8(output.stdout).unwrap(), machine)
}

/// The answers of `program` to `script` in `folder`, to which its changes are then written: once as far as they are
/// known from a run in another folder, and once from the results of that.
pub fn answers_twice(program: &Program, folder: &Path, script: &str) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let results = Arc::new(Results::new(ResultCache::new(&scratch.path().join("cache"))));
    let others = ["other", "same"].map(|name| scratch.path().join(name));
    for other in &others {
        fs::create_dir(other).unwrap();
    }
    let mut chance = Chance::new(script.len() as u64);
    plant(&mut chance, [&others[0], &others[1]]);
    answers(program, &others[0], script, &results);
    let before = tree(folder);
    let (first, mut made) = answers(program, folder, script, &results);
    let (second, mut machine) = answers(program, folder, script, &results);
    assert_eq!(first, second);
    let statistics = results.statistics();
    assert_eq!(statistics.error, None);
    assert!(statistics.hits >= 1 && statistics.misses >= 1, "{statistics:?}");
    assert_eq!(tree(folder), before);
    assert_eq!(changes(&mut made), changes(&mut machine));
    machine.vfs_mut().apply().unwrap();
    second
}

fn changes(machine: &mut Machine) -> String {
    format!("{:?}", machine.vfs_mut().diff().unwrap())
}
