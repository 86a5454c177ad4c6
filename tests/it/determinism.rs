//! Runs every guest program twice, in other folders, at other times, with another environment: the
//! outputs are equal byte for byte.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::replays::Belljar;
use crate::support::{belljar, guest, skipped, tree};

/// Programs and arguments that use time, random numbers, files, memory and output.
const CASES: &[(&str, &[&str])] = &[
    ("hello", &[]),
    ("env", &["a", "b"]),
    ("clock", &[]),
    ("random", &[]),
    ("sleeper", &["100000"]),
    ("spin", &["5000"]),
    ("walk", &["."]),
    ("walk", &["/"]),
    ("cat", &["data", "sub/more"]),
    ("compute", &["2"]),
    ("deep", &["1000"]),
    ("many_files", &["200", "made"]),
    ("writer", &["big", "3"]),
    (
        "overwrite",
        &[
            "append:data:more",
            "write:new:text",
            "rename:sub/more:sub/moved",
            "mkdir:d",
            "symlink:../data:d/link",
            "link:data:hard",
            "truncate:new:2",
            "unlink:gone",
        ],
    ),
    ("exit", &["7"]),
    ("trap", &["divide"]),
];

fn fill(folder: &Path, in_reverse: bool) {
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    let mut files =
        vec![("data", "some data\n"), ("sub/more", "more data\n"), ("gone", "x"), ("Z", "z")];
    if in_reverse {
        files.reverse();
    }
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

#[test]
fn runs_under_other_conditions_have_the_same_bytes() {
    let temp = tempfile::tempdir().unwrap();
    let (first, second) = (temp.path().join("first"), temp.path().join("zweiter Ordner"));
    fill(&first, false);
    fill(&second, true);
    // The times of the two trees differ as well.
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    std::fs::File::open(first.join("data")).unwrap().set_modified(hour_ago).unwrap();
    let other = [("TZ", "Asia/Tokyo"), ("LC_ALL", "de_DE.UTF-8"), ("HOME", "/")];
    let stranger = Stranger::new(&second, temp.path());
    for (name, args) in CASES {
        let a = run(belljar(&first), &first, name, args);
        std::thread::sleep(std::time::Duration::from_millis(5));
        let mut command = belljar(&second);
        command.envs(other);
        stranger.take(command.command());
        let b = run(command, &second, name, args);
        assert_eq!(a.0, b.0, "{name}: exit code; {}{}", text(&a.2), text(&b.2));
        assert!(a.1 == b.1, "{name}: {}\n---\n{}", text(&a.1), text(&b.1));
        assert!(a.2 == b.2, "{name}: {}\n---\n{}", text(&a.2), text(&b.2));
        assert!(a.3 == b.3, "{name}: the traces differ");
        assert!(!a.3.is_empty());
    }
    assert_eq!(tree(&first), tree(&second), "nothing was written");
}

/// Exit code, standard output with the diff, standard error, and the trace of all calls.
type Observed = (Option<i32>, Vec<u8>, Vec<u8>, Vec<u8>);

fn run(mut command: Belljar, folder: &Path, name: &str, args: &[&str]) -> Observed {
    command.args(["run", "--quiet", "--diff", "--trace=trace.log"]);
    let output = command.arg(guest(name)).args(args).output().unwrap();
    let trace = std::fs::read(folder.join("trace.log")).unwrap();
    std::fs::remove_file(folder.join("trace.log")).unwrap();
    (output.status.code(), output.stdout, output.stderr, trace)
}

/// Another user, if this process can change its user.
struct Stranger {
    cache: Option<PathBuf>,
}

impl Stranger {
    #[cfg(unix)]
    const NOBODY: u32 = 65534;

    #[cfg(unix)]
    fn new(folder: &Path, temp: &Path) -> Self {
        use std::os::unix::fs::{PermissionsExt, chown};

        let cache = temp.join("cache");
        std::fs::create_dir(&cache).unwrap();
        std::fs::set_permissions(temp, std::fs::Permissions::from_mode(0o755)).unwrap();
        let own = |path: &Path| chown(path, Some(Self::NOBODY), Some(Self::NOBODY));
        if own(folder).is_err() || own(&cache).is_err() {
            skipped("determinism: another user", "only root may become another user");
            return Self { cache: None };
        }
        let stranger = Self { cache: Some(cache) };
        let mut probe = belljar(folder);
        stranger.take(probe.command());
        if probe.arg("run").arg(guest("hello")).output().is_ok_and(|o| o.status.success()) {
            return stranger;
        }
        skipped("determinism: another user", "others may not read this package's folder");
        chown(folder, Some(0), Some(0)).unwrap();
        Self { cache: None }
    }

    #[cfg(not(unix))]
    fn new(_folder: &Path, _temp: &Path) -> Self {
        skipped("determinism: another user", "not on this system");
        Self { cache: None }
    }

    /// Makes `command` run as this user.
    fn take(&self, command: &mut Command) {
        if let Some(cache) = &self.cache {
            command.env("BELLJAR_CACHE_DIR", cache);
            #[cfg(unix)]
            std::os::unix::process::CommandExt::uid(command, Self::NOBODY);
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
