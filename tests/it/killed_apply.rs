//! Belljar is killed while it writes changes to the disk, on every system. `BELLJAR_TEST_APPLY_KILLS` is the number of kills.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::plans::Chance;
use crate::support::{cache_dir, number_from_env, stderr, tree};

const KILLS: usize = 20;

const SCRIPT: &str = "for i in $(seq 0 59); do echo new > f$i; done; rm g*; mv h i; mkdir -p d/e; \
                      for i in $(seq 0 19); do echo made > d/e/$i; done; rm -r k";

fn plant(folder: &Path) {
    std::fs::create_dir_all(folder.join("k/l")).unwrap();
    for number in 0..60 {
        std::fs::write(folder.join(format!("f{number}")), "old\n").unwrap();
    }
    for name in ["g0", "g1", "h", "k/a", "k/l/b"] {
        std::fs::write(folder.join(name), format!("{name}\n")).unwrap();
    }
}

fn belljar(folder: &Path, home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command.args(args).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::piped());
    command.env("BELLJAR_CACHE_DIR", cache_dir()).env("BELLJAR_HOME", home);
    command
}

fn has_temporaries(folder: &Path) -> bool {
    let mut names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with(".belljar-"))
}

/// After a recovery the folder is as before the run, or as after it.
#[test]
fn apply_that_is_killed_at_any_moment_is_taken_back_or_completed() {
    let kills = number_from_env("BELLJAR_TEST_APPLY_KILLS", KILLS);
    let scene = tempfile::tempdir().unwrap();
    let home = scene.path().join("home");
    let apply = ["sh", "--quiet", "--apply", "-c", SCRIPT];
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    for (state, args) in [(&mut before, None), (&mut after, Some(&apply[..]))] {
        let folder = scene.path().join("whole");
        std::fs::create_dir(&folder).unwrap();
        plant(&folder);
        if let Some(args) = args {
            assert!(belljar(&folder, &home, args).status().unwrap().success());
        }
        *state = tree(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
    }
    assert_ne!(before, after);
    let mut chance = Chance::new(12);
    let (mut halfway, mut taken_back, mut completed) = (0, 0, 0);
    for kill in 0..kills {
        let folder = scene.path().join(format!("folder{kill}"));
        std::fs::create_dir(&folder).unwrap();
        plant(&folder);
        let mut child = belljar(&folder, &home, &apply).spawn().unwrap();
        while !has_temporaries(&folder) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(50));
        }
        std::thread::sleep(Duration::from_micros(chance.below(8_000) as u64));
        let _ = child.kill();
        child.wait().unwrap();
        let found = tree(&folder);
        halfway += usize::from(found != before && found != after);
        let recovered = belljar(&folder, &home, &["recover", "."]).output().unwrap();
        assert!(recovered.status.success(), "kill {kill}: {}", stderr(&recovered));
        let found = tree(&folder);
        taken_back += usize::from(found == before);
        completed += usize::from(found == after);
        assert!(found == before || found == after, "kill {kill}: {found:?}");
    }
    assert_eq!(taken_back + completed, kills);
    assert!(halfway > 0, "no kill came in the middle");
}
