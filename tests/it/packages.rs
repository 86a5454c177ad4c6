//! The packages of a release, made of this build of belljar, installed from their files and used; and the GitHub Action,
//! which installs one of them.
//!
//! Needs dpkg-deb, npm, curl and strip. `BELLJAR_REQUIRE_PACKAGES=1` makes it a failure that one is missing.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::support::{cache_dir, package, skipped, stderr, stdout};

const VERSION: &str = env!("CARGO_PKG_VERSION");

struct Release {
    /// Has the file that the packages were made of, `belljar`, and `dist`.
    folder: tempfile::TempDir,
    /// How releases call this platform, and how Debian and npm do.
    platform: &'static str,
    debian: &'static str,
    node: &'static str,
}

impl Release {
    fn dist(&self) -> PathBuf {
        self.folder.path().join("dist")
    }

    /// Packs the parts `parts` into `dist`.
    fn pack(&self, dist: &Path, parts: &[&str]) {
        let binary = self.folder.path().join("belljar");
        let mut script = Command::new(package().join(".ci/release"));
        script.arg("--binary").arg(binary).args(parts).env("BELLJAR_DIST", dist);
        succeed(script.env("SOURCE_DATE_EPOCH", "1700000000"));
    }
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// The release, which is made once; `None` if this machine lacks what that needs.
fn release(test: &str) -> Option<&'static Release> {
    static RELEASE: OnceLock<Release> = OnceLock::new();
    let is_missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    if let Some(missing) = ["dpkg-deb", "npm", "curl", "strip"].iter().find(is_missing) {
        let required = std::env::var_os("BELLJAR_REQUIRE_PACKAGES").is_some();
        assert!(!required, "{test} needs {missing}");
        skipped(test, &format!("no {missing}"));
        return None;
    }
    Some(RELEASE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let binary = env!("CARGO_BIN_EXE_belljar");
        // Without what debuggers need, as in a release: packing takes a third of the time.
        succeed(Command::new("strip").args(["-o"]).arg(folder.path().join("belljar")).arg(binary));
        let (platform, debian, node) = match std::env::consts::ARCH {
            "x86_64" => ("x86_64-linux", "amd64", "linux-x64"),
            _ => ("aarch64-linux", "arm64", "linux-arm64"),
        };
        let release = Release { folder, platform, debian, node };
        release.pack(&release.dist(), &["archive", "deb", "npm"]);
        release
    }))
}

/// Checks that `belljar` is this version, and that it runs a program.
fn expect_usable(belljar: &Path) {
    assert_eq!(succeed(Command::new(belljar).arg("--version")), format!("belljar {VERSION}\n"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note"), "one\n").unwrap();
    let mut run = Command::new(belljar);
    run.args(["run", "wc", "-l", "note"]).current_dir(folder.path());
    assert_eq!(succeed(run.env("BELLJAR_CACHE_DIR", cache_dir())), "1 note\n");
}

#[test]
fn archive_has_binary_manual_and_completions() {
    let Some(release) = release("the archive") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let name = format!("belljar-{VERSION}-{}", release.platform);
    let archive = release.dist().join(format!("{name}.tar.gz"));
    succeed(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(scratch.path()));
    let folder = scratch.path().join(name);
    expect_usable(&folder.join("belljar"));
    for file in ["man1/belljar-run.1", "completions/belljar.zsh", "LICENSE-MIT", "README.md"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    let licences = std::fs::read_to_string(folder.join("LICENSES-THIRD-PARTY")).unwrap();
    assert!(licences.contains("\nwasmtime 48.") && licences.contains("Apache License"));
}

#[test]
fn binstall_looks_for_the_archive_by_its_name() {
    let Some(release) = release("the metadata for cargo binstall") else { return };
    let manifest = std::fs::read_to_string(package().join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = &manifest["package"]["metadata"]["binstall"]["overrides"][&target];
    let filled = |field: &str| {
        let text = metadata[field].as_str().unwrap().replace("{ version }", VERSION);
        text.replace("{ bin }{ binary-ext }", "belljar")
    };
    let archive = filled("pkg-url").rsplit_once('/').unwrap().1.to_owned();
    let listing = succeed(Command::new("tar").arg("-tf").arg(release.dist().join(archive)));
    let binary = filled("bin-dir");
    assert!(listing.lines().any(|line| line == binary), "no {binary} in {listing}");
}

#[test]
fn package_of_debian_is_installed_into_a_new_root() {
    let Some(release) = release("the package of Debian") else { return };
    let root = tempfile::tempdir().unwrap();
    let deb = release.dist().join(format!("belljar_{VERSION}_{}.deb", release.debian));
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        std::fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    std::fs::write(root.path().join("var/lib/dpkg/status"), "").unwrap();
    // Without being root, the files would belong to somebody else, and dpkg needs to be asked twice.
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(format!("--root={}", root.path().display())).arg("--force-not-root");
    let installed = dpkg.arg("--install").arg(&deb).output().unwrap();
    if !installed.status.success() {
        assert!(!rustix::process::getuid().is_root(), "{}", stderr(&installed));
        succeed(Command::new("dpkg-deb").arg("--extract").arg(&deb).arg(root.path()));
    }
    expect_usable(&root.path().join("usr/bin/belljar"));
    let share = root.path().join("usr/share");
    let page = Command::new("gzip")
        .arg("-dc")
        .arg(share.join("man/man1/belljar-sandbox-exec.1.gz"))
        .output()
        .unwrap();
    assert!(stdout(&page).contains("\n.SH SYNOPSIS"), "{}", stdout(&page));
    for file in ["bash-completion/completions/belljar", "doc/belljar/copyright"] {
        assert!(share.join(file).is_file(), "{file}");
    }
    let fields = succeed(Command::new("dpkg-deb").arg("--field").arg(&deb));
    for field in ["Package: belljar\n", &format!("Version: {VERSION}\n"), "Description: WASI"] {
        assert!(fields.contains(field), "{fields}");
    }
}

#[test]
fn package_of_npm_passes_streams_and_exit_codes_on() {
    let Some(release) = release("the package of npm") else { return };
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("package.json"), "{}").unwrap();
    let main = release.dist().join(format!("belljar-{VERSION}.tgz"));
    let platform = release.dist().join(format!("belljar-{}-{VERSION}.tgz", release.node));
    let install = |files: &[&Path]| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent"]).args(files);
        succeed(npm.current_dir(project.path()));
    };
    install(&[&main, &platform]);
    let belljar = project.path().join("node_modules/.bin/belljar");
    expect_usable(&belljar);
    let npx =
        succeed(Command::new("npx").args(["belljar", "--version"]).current_dir(project.path()));
    assert_eq!(npx, format!("belljar {VERSION}\n"));
    let bash = |script: &str| -> Output {
        let mut bash = Command::new("bash");
        bash.args(["-c", script]).arg(&belljar).current_dir(project.path());
        bash.env("BELLJAR_CACHE_DIR", cache_dir()).output().unwrap()
    };
    assert_eq!(stdout(&bash("echo a | \"$0\" run wc -l")), "1\n");
    assert_eq!(bash("\"$0\" run no-such-program").status.code(), Some(127));
    let killed = bash("\"$0\" native --tape t sleep 60 & sleep 1; kill $!; wait $!; echo $?");
    assert!(["143\n", "130\n"].contains(&&*stdout(&killed)), "{killed:?}");

    // Without the package of this platform, it says what to do.
    let folder = project.path().join("node_modules/@belljar");
    std::fs::remove_dir_all(folder).unwrap();
    let alone = bash("\"$0\" --version");
    assert_eq!(alone.status.code(), Some(125));
    assert!(stderr(&alone).contains("install again"), "{}", stderr(&alone));
}

#[test]
fn packing_again_gives_the_same_bytes() {
    let Some(release) = release("packing again") else { return };
    let sums = std::fs::read_to_string(release.dist().join("SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), 4, "{sums}");
    succeed(Command::new("sha256sum").args(["-c", "SHA256SUMS"]).current_dir(release.dist()));
    let again = tempfile::tempdir().unwrap();
    release.pack(again.path(), &["archive", "npm"]);
    for line in std::fs::read_to_string(again.path().join("SHA256SUMS")).unwrap().lines() {
        assert!(sums.contains(line), "{line} is not in\n{sums}");
    }
}

/// A step of the action: the script that action.yml names, with the variables that GitHub sets.
fn step(script: &str, folder: &Path, inputs: &[(&str, &str)]) -> Output {
    let action = std::fs::read_to_string(package().join("action.yml")).unwrap();
    let run = format!("run: '\"$GITHUB_ACTION_PATH/.github/action/{script}\"'");
    assert!(action.contains(&run), "action.yml has no {run}");
    for (name, _) in inputs {
        assert!(action.contains(&format!("{name}: ")), "action.yml does not set {name}");
    }
    let arch = if cfg!(target_arch = "x86_64") { "X64" } else { "ARM64" };
    let mut bash = Command::new("bash");
    bash.args([
        "-eo",
        "pipefail",
        "-c",
        run.strip_prefix("run: '").unwrap().trim_end_matches('\''),
    ])
    .current_dir(folder)
    .env("GITHUB_ACTION_PATH", package())
    .envs([("RUNNER_OS", "Linux"), ("RUNNER_ARCH", arch)])
    .env("RUNNER_TEMP", folder.parent().unwrap().join("temp"));
    for name in ["GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH"] {
        bash.env(name, folder.join(name));
    }
    // What earlier steps have told the runner.
    let told = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let path = told("GITHUB_PATH").replace('\n', ":");
    bash.env("PATH", path + &std::env::var("PATH").unwrap());
    bash.envs(told("GITHUB_ENV").lines().filter_map(|line| line.split_once('=')));
    bash.envs(inputs.iter().copied()).output().unwrap()
}

#[test]
fn action_installs_belljar_and_toolchains_and_verifies() {
    let Some(release) = release("the action") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let folder = &scratch.path().join("project");
    std::fs::create_dir(folder).unwrap();
    // Where releases are, in the shape that those of GitHub have.
    std::os::unix::fs::symlink(release.dist(), folder.join(format!("v{VERSION}"))).unwrap();
    let releases = format!("file://{}", folder.display());
    let wrong =
        step("install.sh", folder, &[("INPUT_VERSION", "9.9.9"), ("INPUT_RELEASES", &releases)]);
    assert!(stdout(&wrong).contains("::error::cannot fetch"), "{}", stdout(&wrong));
    let odd =
        step("install.sh", folder, &[("INPUT_VERSION", "../x"), ("INPUT_RELEASES", &releases)]);
    assert_eq!(odd.status.code(), Some(2));
    let installed =
        step("install.sh", folder, &[("INPUT_VERSION", ""), ("INPUT_RELEASES", &releases)]);
    assert!(installed.status.success(), "{}{}", stdout(&installed), stderr(&installed));
    let outputs = std::fs::read_to_string(folder.join("GITHUB_OUTPUT")).unwrap();
    assert!(outputs.starts_with(&format!("version={VERSION}\nhome=")), "{outputs}");

    let tools = folder.join("tools");
    std::fs::create_dir(&tools).unwrap();
    std::fs::copy(crate::support::guest("cat"), tools.join("meow.wasm")).unwrap();
    let init = step(
        "verify.sh",
        folder,
        &[("INPUT_VERIFY", "sh -c 'date; echo \"$RANDOM\"'\n\nwc GITHUB_PATH")],
    );
    assert!(init.status.success(), "{}{}", stdout(&init), stderr(&init));
    assert_eq!(stdout(&init).matches("3 runs are the same").count(), 2, "{}", stdout(&init));
    let failed = step("verify.sh", folder, &[("INPUT_VERIFY", "no-such-program\nwc GITHUB_PATH")]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(stdout(&failed).contains("::error::the runs of 'no-such-program'"), "{failed:?}");
    assert!(stdout(&failed).contains("3 runs are the same"), "{failed:?}");
    #[cfg(feature = "import")]
    {
        let manifest = r#"{"format":"1.0","name":"cats","version":"1","programs":{"meow":{"module":"meow.wasm"}}}"#;
        std::fs::write(tools.join("toolchain.json"), manifest).unwrap();
        let done = step("toolchains.sh", folder, &[("INPUT_TOOLCHAINS", "./tools\n")]);
        assert!(done.status.success(), "{}{}", stdout(&done), stderr(&done));
        let used = step("verify.sh", folder, &[("INPUT_VERIFY", "meow GITHUB_PATH")]);
        assert!(used.status.success(), "{}{}", stdout(&used), stderr(&used));
    }
}

#[test]
fn damaged_release_is_not_installed() {
    let Some(release) = release("a damaged release") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let folder = &scratch.path().join("project");
    let releases = folder.join(format!("v{VERSION}"));
    std::fs::create_dir_all(&releases).unwrap();
    std::fs::copy(release.dist().join("SHA256SUMS"), releases.join("SHA256SUMS")).unwrap();
    let name = format!("belljar-{VERSION}-{}.tar.gz", release.platform);
    std::fs::write(releases.join(name), "something else").unwrap();
    let source = format!("file://{}", folder.display());
    let refused =
        step("install.sh", folder, &[("INPUT_VERSION", VERSION), ("INPUT_RELEASES", &source)]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stdout(&refused).contains("another SHA-256"), "{}", stdout(&refused));
    assert!(!folder.join("GITHUB_PATH").exists());
}
