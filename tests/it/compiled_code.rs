//! Compiled code on the command line: its tiers, its cache, and the processes that make it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use belljar::EngineConfig;
use belljar::engine::{CodeCache, TierChoice};
use serde_json::Value;

use crate::support::{Belljar, belljar, guest, stderr, stdout};
use crate::tiers::{self, PATIENCE};

/// A module that takes seconds to optimize, and exits with 7.
fn slow_module() -> String {
    use std::fmt::Write;
    let mut text = String::from(
        r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 1) (func (export "_start") (call $exit (i32.const 7)))"#,
    );
    for number in 0..20_000 {
        write!(
            text,
            "(func (export \"f{number}\") (param i32 i32) (result i32)
                (loop $l
                    (local.set 0 (i32.add (i32.mul (local.get 0) (i32.const {number})) (local.get 1)))
                    (i32.store (i32.and (local.get 0) (i32.const 65528)) (local.get 1))
                    (local.set 1 (i32.xor (i32.load (i32.and (local.get 1) (i32.const 65528))) (local.get 0)))
                    (br_if $l (i32.rem_u (local.get 0) (i32.const 7))))
                (i32.sub (local.get 0) (local.get 1)))"
        )
        .unwrap();
    }
    text + ")"
}

/// A folder with `large.wasm`, and a cache of its own.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let bytes = wat::parse_str(tiers::large_module()).unwrap();
        std::fs::write(folder.path().join("work/large.wasm"), bytes).unwrap();
        Self(folder)
    }

    /// As [`Folder::new`], with `slow.wasm` as well.
    fn with_slow_module() -> Self {
        let folder = Self::new();
        let bytes = wat::parse_str(slow_module()).unwrap();
        std::fs::write(folder.0.path().join("work/slow.wasm"), bytes).unwrap();
        folder
    }

    fn cache(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    fn command(&self, args: &[&str], env: &[(&str, &str)]) -> Belljar {
        let mut command = belljar(&self.0.path().join("work"));
        command.args(args).env("BELLJAR_CACHE_DIR", self.cache()).env_remove("BELLJAR_TIER");
        command.env_remove("CI");
        command.envs(env.iter().copied());
        command
    }

    fn belljar(&self, args: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String, String) {
        let output = self.command(args, env).output().unwrap();
        (output.status.code(), stdout(&output), stderr(&output))
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(args, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn info(&self) -> Value {
        serde_json::from_str(&self.belljar(&["cache", "info", "--json"], &[]).1).unwrap()
    }

    /// Waits until a process compiles a module.
    fn wait_for_compilation(&self) {
        let (started, locks) = (Instant::now(), self.cache().join("code-1/locks"));
        while !std::fs::read_dir(&locks).is_ok_and(|mut locks| locks.next().is_some()) {
            assert!(started.elapsed() < PATIENCE, "nothing is compiled");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs `large.wasm` with `option` until optimized code of it runs.
    fn wait_for_optimized_code(&self, option: &str) {
        let started = Instant::now();
        while self.tiers(&[option], &[]) == ["quick"] {
            assert!(started.elapsed() < PATIENCE, "it is never optimized");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until no process optimizes `slow.wasm`.
    fn wait_for_end_of_optimization(&self) {
        let module = belljar::Module::read(&self.0.path().join("work/slow.wasm")).unwrap();
        let config = EngineConfig { tier: TierChoice::Optimized, ..EngineConfig::default() };
        drop(CodeCache::new(&self.cache()).lock(module.digest(), &config, || ()).unwrap());
    }

    /// Runs the module; returns its report.
    fn run(&self, options: &[&str], env: &[(&str, &str)]) -> Value {
        let args = [&["run", "--json"], options, &["./large.wasm"]].concat();
        let (code, out, err) = self.belljar(&args, env);
        assert_eq!(code, Some(7), "{err}");
        serde_json::from_str(&out).unwrap()
    }

    fn tiers(&self, options: &[&str], env: &[(&str, &str)]) -> Vec<String> {
        let report = self.run(options, env);
        let tiers = report["tiers"]["./large.wasm"].as_array().unwrap();
        tiers.iter().map(|tier| tier.as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn tier_of_the_command_line_is_the_option_the_variable_or_auto() {
    let folder = Folder::new();
    assert_eq!(folder.tiers(&[], &[]), ["quick"]);
    assert_eq!(folder.tiers(&[], &[("BELLJAR_TIER", "")]), ["quick"]);
    assert_eq!(folder.tiers(&[], &[("BELLJAR_TIER", "optimized")]), ["optimized"]);
    let both = folder.tiers(&["--tier", "quick"], &[("BELLJAR_TIER", "optimized")]);
    assert_eq!(both, ["quick"]);
    // The code is there by now.
    assert_eq!(folder.tiers(&[], &[]), ["optimized"]);
    let (code, _, err) = folder.belljar(&["run", "--tier", "fast", "./large.wasm"], &[]);
    assert_eq!(code, Some(2));
    assert!(err.contains("quick") && err.contains("optimized"), "{err}");
}

#[test]
fn background_process_optimizes_after_the_run_holds_nothing_and_ends() {
    let folder = Folder::new();
    // This returns when no process has the pipes of its output open.
    assert_eq!(folder.tiers(&["--background"], &[("CI", "1")]), ["quick"]);
    let started = Instant::now();
    let is_done =
        |info: &Value| info["optimizing"].is_null() && info["waiting"] == Value::Array(vec![]);
    // In this order: before the process is there, nothing waits either.
    while !(folder.tiers(&["--no-background"], &[]) == ["optimized"] && is_done(&folder.info())) {
        assert!(started.elapsed() < PATIENCE, "it is never optimized: {}", folder.info());
        std::thread::sleep(Duration::from_millis(50));
    }
    let left: Vec<_> = std::fs::read_dir(folder.cache().join("optimize-1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["lock"]);
}

#[test]
fn no_background_process_starts_without_a_terminal_or_when_it_is_refused() {
    let folder = Folder::new();
    assert_eq!(folder.tiers(&[], &[]), ["quick"]);
    assert_eq!(folder.tiers(&["--background", "--no-background"], &[]), ["quick"]);
    assert!(!folder.cache().join("optimize-1").exists());
}

#[test]
fn background_process_that_was_killed_is_wanted_again_by_the_next_run() {
    let folder = Folder::new();
    assert_eq!(folder.tiers(&[], &[]), ["quick"]);
    // As if it was killed while it compiled.
    let queue = folder.cache().join("optimize-1");
    std::fs::create_dir(&queue).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&queue, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let running = r#"{"pid":1,"module":"large.wasm","bytes":1,"id":"gone"}"#;
    std::fs::write(queue.join("running.json"), running).unwrap();
    std::fs::write(queue.join("lock"), "").unwrap();
    let info = folder.belljar(&["cache", "info"], &[]).1;
    assert!(!info.contains("optimizes"), "{info}");
    folder.wait_for_optimized_code("--background");
}

#[test]
fn cache_compile_optimizes_ahead_of_the_first_run() {
    let folder = Folder::new();
    let (code, out, err) = folder.belljar(&["cache", "compile", "./large.wasm", "wc"], &[]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(
        out,
        "./large.wasm: optimized code is in the cache\nwc: optimized code is in the cache\n"
    );
    let report = folder.run(&[], &[]);
    assert_eq!(
        (&report["cache_hit"], &report["tiers"]["./large.wasm"][0]),
        (&true.into(), &"optimized".into())
    );
    let (code, _, err) = folder.belljar(&["cache", "compile", "./gone.wasm"], &[]);
    assert_eq!(code, Some(127));
    assert!(err.contains("gone.wasm"), "{err}");
    let (code, out, _) = folder.belljar(&["cache", "trim", "--max-size", "0B", "--json"], &[]);
    assert_eq!(code, Some(0));
    assert!(serde_json::from_str::<Value>(&out).unwrap()["modules"].as_u64() >= Some(2), "{out}");
}

#[test]
fn recording_of_one_tier_replays_in_the_other() {
    let folder = Folder::new();
    let work = folder.0.path().join("work");
    std::fs::copy(guest("compute"), work.join("compute.wasm")).unwrap();
    for (recorded, replayed) in [("quick", "optimized"), ("optimized", "quick")] {
        let tape = format!("{recorded}.tape");
        let args = ["record", "--tape", &tape, "--tier", recorded, "./compute.wasm", "50"];
        let (code, out, err) = folder.belljar(&args, &[]);
        assert_eq!(code, Some(0), "{err}");
        let (code, again, err) = folder.belljar(&["replay", &tape], &[("BELLJAR_TIER", replayed)]);
        assert_eq!((code, again), (Some(0), out), "{err}");
    }
    assert!(Path::new(&work).join("quick.tape").exists());
}

#[test]
fn compiling_ends_with_the_process_that_waits_for_it() {
    let folder = Folder::with_slow_module();
    for args in
        [&["cache", "compile", "./slow.wasm"][..], &["run", "--tier=optimized", "./slow.wasm"]]
    {
        let mut command = folder.start(args);
        folder.wait_for_compilation();
        // Not even a signal that it can handle.
        command.kill().unwrap();
        command.wait().unwrap();
        folder.wait_for_end_of_optimization();
        assert_eq!(
            folder.info()["modules"],
            0,
            "no code is kept after the process that waited for it"
        );
        assert!(folder.cache().join("code-1/locks").exists());
        std::fs::remove_dir_all(folder.cache()).unwrap();
    }
}

#[test]
fn cache_stop_ends_the_process_that_optimizes() {
    let folder = Folder::with_slow_module();
    let (code, out, err) = folder.belljar(&["cache", "stop"], &[]);
    assert_eq!((code, &*out), (Some(0), "nothing is being optimized\n"), "{err}");
    let (code, _, err) = folder.belljar(&["run", "--background", "./slow.wasm"], &[]);
    assert_eq!(code, Some(7), "{err}");
    let started = Instant::now();
    while folder.info()["optimizing"].is_null() {
        assert!(started.elapsed() < PATIENCE, "nothing is being optimized");
        std::thread::sleep(Duration::from_millis(10));
    }
    // It has a session of its own, which Linux may schedule as one.
    let group = format!("/proc/{}/autogroup", folder.info()["optimizing"]["pid"]);
    if let Ok(group) = std::fs::read_to_string(group) {
        assert!(group.ends_with("nice 19\n"), "{group}");
    }
    let text = folder.belljar(&["cache", "info"], &[]).1;
    assert!(text.contains("`belljar cache stop` ends it"), "{text}");
    let (code, out, err) = folder.belljar(&["cache", "stop"], &[]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("slow.wasm is optimized after a later run"), "{out}");
    folder.wait_for_end_of_optimization();
    let info = folder.info();
    assert_eq!(
        (&info["modules"], &info["optimizing"]),
        (&1.into(), &Value::Null),
        "quick code alone"
    );
    let left = std::fs::read_dir(folder.cache().join("optimize-1")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
    // Nothing keeps the next one from being optimized.
    assert_eq!(folder.tiers(&["--background"], &[]), ["quick"]);
    folder.wait_for_optimized_code("--no-background");
}

#[test]
fn cache_compile_of_a_script_compiles_the_modules_of_its_toolchain() {
    let folder = Folder::new();
    let tools = folder.0.path().join("work/tools");
    std::fs::create_dir(&tools).unwrap();
    std::fs::copy(guest("hello"), tools.join("hello.wasm")).unwrap();
    std::fs::copy(guest("walk"), tools.join("walk.wasm")).unwrap();
    std::fs::create_dir(tools.join("bin")).unwrap();
    std::fs::write(tools.join("bin/driver.sh"), "hello\n").unwrap();
    let manifest = r#"{
        "format": "1.0", "name": "tools", "version": "1",
        "programs": {
            "hello": { "module": "hello.wasm" },
            "hi": { "module": "hello.wasm" },
            "walk": { "module": "walk.wasm" },
            "driver": { "script": "bin/driver.sh" }
        },
        "trees": { "bin": "bin" }
    }"#;
    std::fs::write(tools.join("toolchain.json"), manifest).unwrap();
    let args = ["cache", "compile", "--toolchain", "tools", "--fuel", "driver"];
    let (code, out, err) = folder.belljar(&args, &[]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(
        out,
        "hello: optimized code that counts fuel is in the cache\n\
         walk: optimized code that counts fuel is in the cache\n"
    );
}

#[test]
fn size_of_the_cache_is_the_one_of_the_environment() {
    let folder = Folder::new();
    let max = ("BELLJAR_CACHE_MAX_SIZE", "1B");
    let (code, out, err) = folder.belljar(&["cache", "compile", "./large.wasm"], &[max]);
    assert_eq!(code, Some(0), "{out}{err}");
    let named = "and the cache may take 1 B: it keeps no other code beside it";
    assert!(err.contains("the code of ./large.wasm takes") && err.contains(named), "{err}");
    // The newest code stays, as a program waits for it.
    assert_eq!(folder.info()["modules"], 1);
    let (code, _, err) = folder.belljar(&["cache", "compile", "wc"], &[max]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(folder.info()["modules"], 1);
    assert_eq!(folder.tiers(&["--no-background"], &[]), ["quick"], "the optimized code is gone");
    let (_, out, _) = folder.belljar(&["cache", "info"], &[max]);
    assert!(out.contains("of at most 1 B; the newest stays, though it is larger"), "{out}");
    let wrong = ("BELLJAR_CACHE_MAX_SIZE", "10");
    let (code, _, err) = folder.belljar(&["run", "./large.wasm"], &[wrong]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("BELLJAR_CACHE_MAX_SIZE: \"10\" has no unit"), "{err}");
}

#[cfg(unix)]
#[test]
fn cache_that_others_can_write_to_is_not_used_and_says_so() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let (code, _, err) = folder.belljar(&["cache", "compile", "./large.wasm"], &[]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(folder.info()["unused"], Value::Null);
    let code_dir = folder.cache().join("code-1");
    std::fs::set_permissions(&code_dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    let remedy = format!("run `chmod -R go-w {}`", code_dir.display());
    let (_, out, _) = folder.belljar(&["cache", "info"], &[]);
    assert!(out.contains("it is not used: ") && out.contains(&remedy), "{out}");
    let (code, _, err) = folder.belljar(&["cache", "compile", "./large.wasm"], &[]);
    assert_eq!(code, Some(125));
    assert!(err.contains(&remedy), "{err}");
    let (code, _, err) = folder.belljar(&["run", "./large.wasm"], &[]);
    assert_eq!(code, Some(7));
    assert!(err.contains("cannot cache the compiled code") && err.contains(&remedy), "{err}");
    assert!(!err.contains("once"), "it is compiled in each run: {err}");
}

#[test]
fn run_that_waits_for_another_compilation_says_so_and_how_its_code_becomes_fast() {
    let folder = Folder::new();
    let module = belljar::Module::read(&folder.0.path().join("work/large.wasm")).unwrap();
    let config = EngineConfig { tier: TierChoice::Auto, ..EngineConfig::default() };
    let lock = CodeCache::new(&folder.cache()).lock(module.digest(), &config, || ()).unwrap();
    let mut command = folder.command(&["run", "./large.wasm"], &[("CI", "1")]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    assert_eq!(line(), "belljar: waiting for another process, which compiles large.wasm…");
    drop(lock);
    let hint = loop {
        let line = line();
        if !line.contains("large.wasm…") {
            break line;
        }
    };
    let command = "belljar cache compile ./large.wasm";
    assert_eq!(
        hint,
        format!(
            "belljar: large.wasm runs quick code, and nothing optimizes it, as CI is set: `{command}` makes it about \
             1.6 times as fast"
        )
    );
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    assert_eq!(folder.belljar(&words, &[]).0, Some(0));
    assert_eq!(folder.tiers(&[], &[]), ["optimized"]);
}

#[test]
fn copies_of_modules_that_were_not_completed_are_removed() {
    let folder = Folder::new();
    let queue = folder.cache().join("optimize-1");
    std::fs::create_dir_all(&queue).unwrap();
    for command in [["cache", "stop"], ["cache", "clear"]] {
        std::fs::write(queue.join(".belljar-half"), "half of a module").unwrap();
        let (code, _, err) = folder.belljar(&command, &[]);
        assert_eq!(code, Some(0), "{err}");
        assert!(!queue.join(".belljar-half").exists(), "{command:?}");
    }
}

/// A pipe in the place of a file of the cache was in the way of each compilation.
#[cfg(unix)]
#[test]
fn what_is_no_file_in_the_cache_is_replaced() {
    let folder = Folder::new();
    folder.run(&[], &[]);
    for kind in ["keys", "code"] {
        for entry in std::fs::read_dir(folder.cache().join("code-1").join(kind)).unwrap() {
            let path = entry.unwrap().path();
            std::fs::remove_file(&path).unwrap();
            let status = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
            assert!(status.success());
        }
        folder.run(&[], &[]);
        let report = folder.run(&[], &[]);
        assert_eq!(report["cache_hit"], true, "{kind}: {report}");
    }
}

/// As after writes through a mapping of the file into memory, which change no time of it.
#[cfg(unix)]
#[test]
fn module_whose_known_digest_is_wrong_is_refused_once() {
    use belljar::Digest;
    let folder = Folder::new();
    let module = crate::support::package().join("toolchains/box/box.wasm");
    let args = ["run", "--argv0", "true", module.to_str().unwrap()];
    assert_eq!(folder.belljar(&args, &[]).0, Some(0));
    let mut known = std::fs::read_dir(folder.cache().join("digests-1")).unwrap();
    let known = known.next().unwrap().unwrap().path();
    let right = std::fs::read_to_string(&known).unwrap();
    let wrong = Digest::of(b"other bytes").to_string();
    let digest = Digest::of(&std::fs::read(&module).unwrap()).to_string();
    assert!(right.contains(&digest), "{right}");
    std::fs::write(&known, right.replace(&digest, &wrong)).unwrap();
    let (code, _, err) = folder.belljar(&args, &[]);
    assert_eq!(code, Some(126), "{err}");
    assert!(err.contains("box.wasm changed while it was loaded; run it again"), "{err}");
    assert_eq!(folder.belljar(&args, &[]).0, Some(0));
    assert_eq!(std::fs::read_to_string(&known).unwrap(), right);
}

/// Compiling a compiler took a minute, and then nothing of it could be stored.
#[cfg(target_os = "linux")]
#[test]
fn code_that_a_full_disk_cannot_keep_is_used() {
    use std::process::Command;
    let mut mount = Command::new("unshare");
    mount.args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]);
    if !mount.status().is_ok_and(|status| status.success()) {
        let test = "code_that_a_full_disk_cannot_keep_is_used";
        return crate::support::skipped(test, "allow `unshare -rm` to mount a tmpfs");
    }
    let folder = Folder::with_slow_module();
    std::fs::create_dir(folder.cache()).unwrap();
    let script = "mount -t tmpfs -o size=200k,mode=0700 none $BELLJAR_CACHE_DIR; code=0; \
                  $BELLJAR run --json ./slow.wasm || code=$?; $BELLJAR cache info --json >&2; exit $code";
    let mut command = Command::new("unshare");
    command.args(["-rm", "bash", "-c", script]).current_dir(folder.0.path().join("work"));
    command.env("BELLJAR", env!("CARGO_BIN_EXE_belljar")).env("BELLJAR_CACHE_DIR", folder.cache());
    command.env("BELLJAR_HOME", folder.0.path().join("home"));
    let output = command.output().unwrap();
    let err = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{err}");
    let full =
        "cannot cache the compiled code: the disk has no room for code in the cache directory";
    assert!(err.contains(full) && err.contains("\"modules\":0"), "{err}");
    assert!(!err.contains("`belljar cache compile`"), "nothing could be optimized: {err}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["tiers"]["./slow.wasm"][0], "quick");
}
