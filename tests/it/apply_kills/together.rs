//! Several belljar processes write to one folder at once, and some are killed.

use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::plans::Chance;
use crate::support::{belljar, number_from_env, stderr, tree};

/// Number of concurrent belljar processes.
const WRITERS: usize = 4;

/// Number of files that each process writes.
const FILES: usize = 30;

/// Number of rounds, unless `BELLJAR_TEST_TOGETHER` says otherwise.
const ROUNDS: usize = 3;

/// Each process writes all of its files or none, in any order, whichever process is killed.
#[test]
fn concurrent_applies_to_one_directory_do_not_mix() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for number in 0..FILES {
        std::fs::write(folder.path().join(format!("f{number}")), "0\n").unwrap();
    }
    let mut chance = Chance::new(5);
    let (mut written, mut refused, mut killed) = (0, 0, 0);
    for round in 0..number_from_env("BELLJAR_TEST_TOGETHER", ROUNDS) {
        let start = |writer: usize| -> Child {
            let own = round * WRITERS + writer + 1;
            let script = format!(
                "for i in $(seq 0 {}); do echo {own} > f$i; done; echo {own} > own{own}; mkdir -p d{own}; \
                 echo {own} > d{own}/f",
                FILES - 1
            );
            let mut command = belljar(folder.path());
            command.env("BELLJAR_HOME", home.path()).args(["sh", "--apply", "-c", &script]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut children: Vec<Child> = (0..WRITERS).map(start).collect();
        let unlucky = chance.below(WRITERS);
        std::thread::sleep(Duration::from_millis(chance.below(120) as u64));
        let _ = children[unlucky].kill();
        for (writer, child) in children.into_iter().enumerate() {
            let output = child.wait_with_output().unwrap();
            let said = stderr(&output);
            match output.status.code() {
                Some(0) => written += 1,
                None if writer == unlucky => killed += 1,
                Some(125) if said.contains("nothing was written") => refused += 1,
                _ => panic!("{:?}: {said}", output.status),
            }
        }
        let mut recover = belljar(folder.path());
        let output = recover.env("BELLJAR_HOME", home.path()).arg("recover").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let now = tree(folder.path());
        let last = &now["f0"];
        for (path, content) in &now {
            let own = path.trim_end_matches("/f").trim_start_matches(['d', 'o', 'w', 'n']);
            let is_whole = match path.as_str() {
                path if path.starts_with('f') => content == last,
                path if path.ends_with('/') => true,
                _ => String::from_utf8_lossy(content).trim() == own,
            };
            assert!(is_whole, "round {round}: {path} of {now:?}");
        }
        let owns = |prefix: &str, suffix: &str| {
            let is_own = |path: &&String| path.starts_with(prefix) && path.ends_with(suffix);
            let own = |path: &String| path.trim_matches(|c: char| !c.is_ascii_digit()).to_owned();
            now.keys().filter(is_own).map(own).collect::<Vec<_>>()
        };
        assert_eq!(owns("own", ""), owns("d", "/f"), "round {round}");
        assert!(now.keys().all(|path| !path.contains(".belljar-")), "round {round}: {now:?}");
        let left = std::fs::read_dir(home.path().join("journals")).unwrap().count();
        assert_eq!(left, 1, "round {round}: the lock alone");
    }
    assert!(written > 0, "{written} written, {refused} refused, {killed} killed");
}
