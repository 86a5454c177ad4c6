//! What holds for the runs of modules holds for those of components of WASI 0.3.

use belljar::{Command, Engine, EngineConfig, Limit, Limits, Machine, Module, Outcome, Program};

use super::{builder, command, ended, path, text};
use crate::support::{belljar, package, stderr, stdout};

/// The options of `run`: what is recorded is replayed and verified, changes are shown and written.
#[test]
fn run_does_with_components_what_it_does_with_modules() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let calls = path();
    let steps = [
        "open d1 no made c rw",
        "together write d2 0 bytes + sleep 5",
        "random 4",
        "wall",
        "stdin 9 9",
    ];
    let run = |options: &[&str]| {
        let mut belljar = belljar(folder);
        belljar.arg("run").args(options).arg(&calls).args(steps).output().unwrap()
    };
    let diff = run(&["--diff"]);
    assert!(stdout(&diff).contains("+bytes"), "{}", stdout(&diff));
    let mut record = belljar(folder);
    record.args(["record", "--quiet", "--tape", "run.tape", "--", &calls]).args(steps);
    let recorded = record.output().unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let replayed = belljar(folder).args(["replay", "run.tape"]).output().unwrap();
    assert!(replayed.status.success(), "{}", stderr(&replayed));
    assert_eq!(stdout(&replayed), stdout(&recorded));
    let mut verify = belljar(folder);
    let verified = verify.args(["verify", "--", &calls]).args(steps).output().unwrap();
    assert!(verified.status.success(), "{}{}", stdout(&verified), stderr(&verified));
    let traced = stderr(&run(&["--trace"]));
    for call in [
        "==> [method]descriptor.write-via-stream(fd=5, offset=0)",
        "==> stream.write(fd=5, len=5)",
        "==> wait-for(ns=5)",
        "==> wait(ntasks=1)",
    ] {
        assert!(traced.contains(call), "{call}: {traced}");
    }
    let applied = run(&["--apply"]);
    assert!(applied.status.success(), "{}", stderr(&applied));
    assert_eq!(std::fs::read(folder.join("made")).unwrap(), b"bytes");
}

#[test]
fn limits_end_components() {
    let limits = Limits { memory_bytes_max: 4 << 20, ..Limits::default() };
    let outcome = ended(limits, &["random 5000000"]).0;
    assert_eq!(outcome, Outcome::Limit(Limit::Memory));
    let engine = Engine::new(EngineConfig { fuel: true, ..EngineConfig::default() }).unwrap();
    let program = Program::load(&engine, path()).unwrap();
    for (fuel, wanted) in
        [(20_000, Outcome::Limit(Limit::Fuel)), (10_000_000_000, Outcome::Exited(0))]
    {
        let limits = Limits { fuel: Some(fuel), ..Limits::default() };
        let mut machine = Machine::builder().limits(limits).build().unwrap();
        let mut command = Command::new(&program);
        let output = command.args(["sleep 5", "out x", "sleep 5"]).output(&mut machine).unwrap();
        assert_eq!(*output.status.outcome(), wanted, "{fuel}");
    }
}

#[test]
fn both_tiers_run_components() {
    for tier in ["optimized", "quick"] {
        let config = EngineConfig { tier: tier.parse().unwrap(), ..EngineConfig::default() };
        let engine = Engine::new(config).unwrap();
        let program = Program::new(&engine, &Module::read(path().as_ref()).unwrap()).unwrap();
        assert_eq!(program.tier().to_string(), tier);
        let mut machine = builder().build().unwrap();
        // A task that is given up had a stack of its own, which does not count as that of the program.
        let calls =
            ["together sleep 5 + out x", "stdin 9 9", "first sleep 1000 + sleep 2", "sleep 3"];
        let output = Command::new(&program).args(calls).output(&mut machine).unwrap();
        assert_eq!(
            text(&output.stdout),
            "x\nOk(())\nslept 5\n\"\" Ok(())\nslept 2\nslept 3\n",
            "{tier}"
        );
    }
}

/// The export `run` by its name, as any other asynchronous function.
#[test]
fn asynchronous_export_is_called_by_name() {
    let mut command = command(&["sleep 5"]);
    command.invoke("run()");
    let mut machine = builder().build().unwrap();
    let output = command.output(&mut machine).unwrap();
    assert_eq!(text(&output.stdout), "slept 5\nok\n", "{}", text(&output.stderr));
}

#[test]
fn inspect_shows_what_a_component_imports_of_which_version() {
    let folder = tempfile::tempdir().unwrap();
    let mut inspect = belljar(folder.path());
    let found = stdout(&inspect.args(["toolchain", "inspect", &path()]).output().unwrap());
    for line in
        ["imports wasi:cli/stdin@0.3.2: read-via-stream", "exports wasi:cli/run@0.3.2", "hermetic"]
    {
        assert!(found.contains(line), "{line}: {found}");
    }
    for word in ["traps when it calls", "a library"] {
        assert!(!found.contains(word), "{word}: {found}");
    }
}

/// What came before 0.3.0 was another interface, and what belljar does not have is a stub, asynchronous or not.
#[test]
fn unknown_asynchronous_imports_trap_by_name() {
    let text_of = |version: &str| {
        format!(
            r#"(component
                (import "wasi:clocks/monotonic-clock@{version}" (instance $clock (export "wait-for-ever" (func async))))
                (core func $wait (canon lower (func $clock "wait-for-ever")))
                (core module $m
                    (import "in" "wait" (func $wait))
                    (func (export "run") (result i32) (call $wait) (i32.const 0)))
                (core instance $i (instantiate $m (with "in" (instance (export "wait" (func $wait))))))
                (func $run async (result (result)) (canon lift (core func $i "run")))
                (instance $r (export "run" (func $run)))
                (export "wasi:cli/run@0.3.0" (instance $r)))"#
        )
    };
    for version in ["0.3.0", "0.3.0-rc-2026-03-15", "0.4.0"] {
        let module = Module::from_bytes("c", text_of(version).into_bytes()).unwrap();
        let program = Program::new(crate::support::engine(), &module).unwrap();
        let mut machine = Machine::builder().build().unwrap();
        let output = Command::new(&program).output(&mut machine).unwrap();
        let Outcome::Trapped(trap) = output.status.outcome() else { panic!("{version}") };
        let called = format!("wasi:clocks/monotonic-clock@{version}#wait-for-ever");
        assert!(trap.message.contains(&called), "{}", trap.message);
    }
}

/// The block of `docs/components.md` that begins with a line that has `mark`.
fn block_of_the_docs(mark: &str) -> String {
    let page = std::fs::read_to_string(package().join("docs/components.md")).unwrap();
    let block = page.split("```").find(|block| block.contains(mark));
    let block = block.unwrap_or_else(|| panic!("docs/components.md has no block with {mark:?}"));
    block.split_once('\n').expect("a block begins with its language").1.to_owned()
}

#[test]
fn program_of_the_docs_is_built_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let manifest =
        "[package]\nname = \"sleeps\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n";
    let manifest = format!("{manifest}{}", block_of_the_docs("crate-type = [\"cdylib\"]"));
    std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    let source = block_of_the_docs("wasip3::cli::command::export!");
    std::fs::write(folder.path().join("src/lib.rs"), source).unwrap();
    let mut cargo =
        std::process::Command::new(std::env::var("CARGO").unwrap_or("cargo".to_owned()));
    cargo.args(["build", "--quiet", "--target", "wasm32-wasip2"]).current_dir(folder.path());
    cargo.env("CARGO_TARGET_DIR", folder.path().join("target")).env_remove("RUSTFLAGS");
    let built = cargo.output().unwrap();
    if !built.status.success() && std::env::var_os("BELLJAR_REQUIRE_WASI_TARGET").is_none() {
        return println!("skipped: the program cannot be built here: {}", stderr(&built));
    }
    assert!(built.status.success(), "{}", stderr(&built));
    let output = belljar(folder.path())
        .args(["run", "--quiet", "target/wasm32-wasip2/debug/sleeps.wasm"])
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "slept 3 s\n", "{}", stderr(&output));
}
