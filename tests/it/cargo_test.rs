//! `cargo test` with belljar as the runner of tests that are built for WASI.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{cache_dir, home_dir, stderr, stdout};

const MANIFEST: &str =
    "[package]\nname = \"jarred\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n";

const TESTS: &str = r#"
#[test]
fn files_of_the_package_are_there_and_new_ones_stay_in_the_jar() {
    assert!(std::fs::read_to_string("Cargo.toml").unwrap().contains("jarred"));
    std::fs::write("new.txt", "a").unwrap();
    assert_eq!(std::fs::read_to_string("new.txt").unwrap(), "a");
}

#[test]
fn an_hour_passes_at_once() {
    let before = std::time::Instant::now();
    std::thread::sleep(std::time::Duration::from_secs(3600));
    assert!(before.elapsed().as_secs() >= 3600);
}

#[test]
fn chance_is_the_same_in_each_run() {
    use std::hash::{BuildHasher, RandomState};
    println!("chance {}", RandomState::new().hash_one(1));
}

#[test]
#[LEFT_OUT]
fn sum_is_wrong() {
    assert_eq!(1 + 1, 3, "arithmetic");
}
"#;

/// `cargo test` of the package in `folder` for `target`.
fn cargo_test(folder: &Path, target: &str, words: &[&str]) -> Output {
    let runner = format!("CARGO_TARGET_{}_RUNNER", target.to_uppercase().replace('-', "_"));
    let mut command = Command::new(std::env::var("CARGO").unwrap_or("cargo".to_owned()));
    command.args(["test", "--quiet", "--offline", "--target", target]).args(words);
    command.current_dir(folder).env(runner, format!("{} run -q", env!("CARGO_BIN_EXE_belljar")));
    command.env("CARGO_TARGET_DIR", folder.join("target")).env_remove("RUSTFLAGS");
    command.env("BELLJAR_CACHE_DIR", cache_dir()).env("BELLJAR_HOME", home_dir());
    command.output().unwrap()
}

fn cargo_runs_tests_for(target: &str) {
    let rustc = std::env::var("RUSTC").unwrap_or("rustc".to_owned());
    let mut libraries = Command::new(rustc);
    libraries.args(["--print", "target-libdir", "--target", target]);
    let libraries = libraries.output().map(|output| stdout(&output)).unwrap_or_default();
    if !Path::new(libraries.trim()).is_dir() {
        let how = format!("run `rustup target add {target}`");
        assert!(std::env::var_os("BELLJAR_REQUIRE_WASI_TARGET").is_none(), "{how}");
        return println!("skipped: {how}");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(folder.path().join("Cargo.toml"), MANIFEST).unwrap();
    // Not spelled out: no test of this package is left out.
    let tests = TESTS.replace("LEFT_OUT", "ignore");
    std::fs::write(folder.path().join("src/lib.rs"), tests).unwrap();

    let passed = cargo_test(folder.path(), target, &["--lib", "--", "--nocapture"]);
    assert!(passed.status.success(), "{}{}", stdout(&passed), stderr(&passed));
    assert!(stdout(&passed).contains("3 passed; 0 failed; 1 ignored"), "{}", stdout(&passed));
    assert!(stdout(&passed).contains("finished in 3600.00s"), "{}", stdout(&passed));
    assert!(!folder.path().join("new.txt").exists());
    let again = cargo_test(folder.path(), target, &["--lib", "--", "--nocapture"]);
    assert_eq!(stdout(&again), stdout(&passed));

    let failed = cargo_test(folder.path(), target, &["--lib", "--", "--ignored", "--nocapture"]);
    // As with wasmtime's command line as the runner: a panic traps.
    assert_eq!(failed.status.code(), Some(134), "{}", stderr(&failed));
    let said = format!("{}{}", stdout(&failed), stderr(&failed));
    assert!(said.contains("sum_is_wrong") && said.contains("arithmetic"), "{said}");
    assert!(said.contains("in jarred::sum_is_wrong"), "names are readable: {said}");
}

#[test]
fn cargo_runs_tests_of_modules_under_belljar() {
    cargo_runs_tests_for("wasm32-wasip1");
}

#[test]
fn cargo_runs_tests_of_components_under_belljar() {
    cargo_runs_tests_for("wasm32-wasip2");
}
