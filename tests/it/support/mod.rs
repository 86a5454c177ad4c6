//! Helpers of several tests.

pub mod benches;
#[cfg(all(feature = "remote", target_os = "linux"))]
pub mod buildgrid;
#[cfg(feature = "remote")]
pub mod casd;
pub mod console;
pub mod files;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod model;
pub mod plans;
pub mod replays;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::OnceLock;

use belljar::{Engine, EngineConfig};

pub use replays::Belljar;

/// The engine of the test binary. Its cache is in the build folder, so that modules are compiled once and not in each
/// run.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let tier = std::env::var("BELLJAR_TEST_TIER").map(|tier| tier.parse().expect("a tier"));
        let tier = tier.unwrap_or_default();
        let config = EngineConfig { cache_dir: Some(cache_dir()), tier, ..EngineConfig::default() };
        Engine::new(config).expect("this machine can run an engine")
    })
}

/// A cache of compiled code that survives from one test run to the next.
pub fn cache_dir() -> PathBuf {
    scratch_of_build().join("cache")
}

/// The folder of this package.
pub fn package() -> &'static Path {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| here(env!("CARGO_MANIFEST_DIR")))
}

/// A folder for files that survive from one test run to the next.
pub fn scratch_of_build() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| here(env!("CARGO_TARGET_TMPDIR")))
}

/// The path of the system that built the tests, on the system that runs them: if that is Windows and the other is not,
/// the path lacks a drive.
fn here(built: &str) -> PathBuf {
    std::path::absolute(built).unwrap()
}

/// The module of a guest program.
pub fn guest(name: &str) -> PathBuf {
    package().join("guest-examples").join(name).with_extension("wasm")
}

/// The home of belljar in tests, instead of the user's.
pub fn home_dir() -> PathBuf {
    scratch_of_build().join("home")
}

/// The `belljar` binary, to run in `folder`, with the cache and the home of the tests and an empty standard input.
pub fn belljar(folder: &Path) -> Belljar {
    Belljar::new(folder)
}

/// The result of `git apply` with `diff` in `folder`.
pub fn git_apply(folder: &Path, diff: &[u8]) -> Output {
    let mut git = std::process::Command::new("git")
        .args(["apply", "-"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    git.stdin.take().unwrap().write_all(diff).unwrap();
    git.wait_with_output().unwrap()
}

/// The result of `script` in `bash`, in `folder`; the `belljar` binary is its `$0`.
#[cfg(unix)]
pub fn bash(folder: &Path, script: &str) -> Output {
    std::process::Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_belljar")])
        .current_dir(folder)
        .env("BELLJAR_CACHE_DIR", cache_dir())
        .output()
        .unwrap()
}

/// The result of `script` in a shell that changes `folder` itself: `bash`, or on Windows, which may have none, belljar's.
pub fn user_script(folder: &Path, script: &str) -> Output {
    #[cfg(unix)]
    return bash(folder, script);
    #[cfg(windows)]
    {
        let home = tempfile::tempdir().unwrap();
        let words = ["sh", "--quiet", "--apply", "-c", script];
        belljar(folder).args(words).env("BELLJAR_HOME", home.path()).output().unwrap()
    }
}

/// Makes the symbolic link `path`; false where this user may not, as on Windows without a privilege.
pub fn symlink(text: impl AsRef<Path>, path: impl AsRef<Path>) -> bool {
    let (text, path) = (text.as_ref(), path.as_ref());
    #[cfg(unix)]
    std::os::unix::fs::symlink(text, path).unwrap();
    #[cfg(windows)]
    {
        use std::os::windows::fs::{symlink_dir, symlink_file};
        let leads_to_dir = path.parent().is_some_and(|folder| folder.join(text).is_dir());
        let made = if leads_to_dir { symlink_dir(text, path) } else { symlink_file(text, path) };
        if let Err(error) = made {
            const PRIVILEGE_NOT_HELD: i32 = 1314;
            assert_eq!(error.raw_os_error(), Some(PRIVILEGE_NOT_HELD), "{error}");
        }
    }
    // Wine 8 claims to have made one.
    std::fs::symlink_metadata(path).is_ok()
}

/// A copy of the folder `from` at `to`, with its times and symbolic links.
pub fn clone_tree(from: &Path, to: &Path) {
    #[cfg(unix)]
    {
        let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
        assert!(copied.success());
    }
    #[cfg(windows)]
    {
        std::fs::create_dir(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let (at, metadata) = (to.join(entry.file_name()), entry.metadata().unwrap());
            if metadata.is_dir() {
                clone_tree(&entry.path(), &at);
            } else if metadata.is_symlink() {
                let text = std::fs::read_link(entry.path()).unwrap();
                assert!(symlink(text.to_str().unwrap(), &at));
            } else {
                std::fs::copy(entry.path(), &at).unwrap();
                let file = std::fs::File::options().write(true).open(&at).unwrap();
                file.set_modified(metadata.modified().unwrap()).unwrap();
            }
        }
    }
}

/// A number that all names of the file `path` share, and no other file has. On Windows a symbolic link is followed.
pub fn file_number(path: &Path) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::ino(&std::fs::symlink_metadata(path).unwrap());
    #[cfg(windows)]
    {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        same_file::Handle::from_path(path).unwrap().hash(&mut hasher);
        hasher.finish()
    }
}

/// Whether the user may execute a file with these attributes; false on Windows, which has no such permission.
pub fn is_executable(metadata: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::mode(metadata) & 0o100 != 0;
    #[cfg(windows)]
    {
        let _ = metadata;
        false
    }
}

/// The number in the variable `name`, or `default`.
pub fn number_from_env(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// What a command printed to standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command printed to standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// All entries beneath `folder`: the path, and the content, link text, or `/` for a directory.
pub fn tree(folder: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    fn walk(folder: &Path, prefix: &str, found: &mut std::collections::BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let file_type = entry.file_type().unwrap();
            if file_type.is_symlink() {
                let target = std::fs::read_link(entry.path()).unwrap();
                found.insert(name, target.to_string_lossy().into_owned().into_bytes());
            } else if file_type.is_dir() {
                found.insert(format!("{name}/"), b"/".to_vec());
                walk(&entry.path(), &format!("{name}/"), found);
            } else {
                found.insert(name, std::fs::read(entry.path()).unwrap());
            }
        }
    }
    let mut found = std::collections::BTreeMap::new();
    walk(folder, "", &mut found);
    found
}

/// The folder of the real toolchain `name`. If it is absent, prints that `test` was skipped and returns `None`; with
/// `BELLJAR_REQUIRE=real`, its absence is a failure.
pub fn real(name: &str, test: &str) -> Option<PathBuf> {
    let folder = package().join("real").join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    let required = std::env::var_os("BELLJAR_REQUIRE").is_some_and(|what| what == "real");
    assert!(!required, "{test} needs {name}: run toolchains/fetch.sh real {name}");
    skipped(test, &format!("no {name}; get it with toolchains/fetch.sh real {name}"));
    None
}

/// Whether this system has `program`, which `test` needs. If not, prints that the test was skipped; on Unix it is required.
pub fn has(program: &str, test: &str) -> bool {
    let found = std::process::Command::new(program).arg("--version").output().is_ok();
    assert!(found || !cfg!(unix), "{test} needs {program}");
    if !found {
        skipped(test, &format!("no {program}"));
    }
    found
}

/// Copies what is in the folder `from` to the folder `to`, which is made if it does not exist.
pub fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_tree(&path, &to);
        } else {
            std::fs::copy(&path, to).unwrap();
        }
    }
}

/// `text` with slashes in the paths of Windows.
pub fn slashed(text: &str) -> String {
    if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() }
}

/// The path of `path` without links, as belljar shows it: on Windows without the prefix of verbatim paths.
pub fn canonical(path: &Path) -> PathBuf {
    let found = std::fs::canonicalize(path).unwrap();
    let shown = found.to_str().and_then(|path| path.strip_prefix(r"\\?\")).map(PathBuf::from);
    shown.unwrap_or(found)
}

/// Whether `test` can make symbolic links here. If not, prints that it was skipped.
pub fn has_links(test: &str) -> bool {
    let has = can_link();
    if !has {
        skipped(test, "this user cannot make symbolic links here");
    }
    has
}

/// Whether symbolic links can be made here.
pub fn can_link() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        symlink("text", folder.path().join("link"))
    })
}

/// What the system says of a file that does not exist.
pub const NO_SUCH_FILE: &str = if cfg!(windows) { "(os error " } else { "No such file" };

/// What the system says of a file that should be a directory.
pub const NOT_A_DIRECTORY: &str = if cfg!(windows) { "(os error 267)" } else { "Not a directory" };

/// Prints that a test did not run, and why.
pub fn skipped(test: &str, why: &str) {
    // Written directly, so that the test runner does not capture it: a skipped test must be visible.
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("SKIPPED {test}: {why}\n").as_bytes(),
    );
}
