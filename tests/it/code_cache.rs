//! The cache of compiled code: storing, verifying, permissions, sharing between processes.

use std::path::{Path, PathBuf};

use belljar::engine::CacheUse;
use belljar::{Command, Engine, EngineConfig, Machine, Module, Program, UnknownImports};
use serde_json::Value;

use crate::support::{belljar, guest, stderr, stdout};

fn engine(dir: &Path) -> Engine {
    let cache_dir = Some(dir.to_owned());
    Engine::new(EngineConfig { pool_slots: 0, cache_dir, ..EngineConfig::default() }).unwrap()
}

fn module() -> Module {
    Module::read(&guest("hello")).unwrap()
}

fn compile(engine: &Engine) -> CacheUse {
    Program::compile(engine, &module(), UnknownImports::Trap).unwrap().1
}

fn cached(engine: &Engine) -> Option<Program> {
    Program::from_cache(engine, &module(), UnknownImports::Trap).unwrap()
}

fn files(dir: &Path, folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.join("code-1").join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn says_hello(program: &Program) -> bool {
    let mut machine = Machine::builder().build().unwrap();
    Command::new(program).output(&mut machine).unwrap().stdout == b"hello, world\n"
}

#[test]
fn code_is_compiled_once_and_then_loaded_from_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    assert!(cached(&engine).is_none());
    assert!(matches!(compile(&engine), CacheUse::Stored));
    assert!(says_hello(&cached(&engine).unwrap()));
    assert_eq!(engine.cache().unwrap().info().unwrap().entries, 1);
    assert_eq!(engine.cache().unwrap().clear().unwrap().entries, 1);
    assert!(cached(&engine).is_none());
}

#[test]
fn other_settings_use_other_cache_entries() {
    let dir = tempfile::tempdir().unwrap();
    compile(&engine(dir.path()));
    let cache_dir = Some(dir.path().to_owned());
    let fuel = Engine::new(EngineConfig {
        pool_slots: 0,
        fuel: true,
        cache_dir,
        ..EngineConfig::default()
    })
    .unwrap();
    assert!(cached(&fuel).is_none());
}

/// Truncated, emptied, changed or extended code is detected and not run, and the module is compiled again.
#[test]
fn damaged_code_is_not_run() {
    let damages: [fn(&mut Vec<u8>); 4] = [
        |code| code.truncate(code.len() / 2),
        |code| code.clear(),
        |code| {
            let middle = code.len() / 2;
            code[middle] ^= 1;
        },
        |code| code.push(0),
    ];
    for damage in damages {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine(dir.path());
        compile(&engine);
        let path = files(dir.path(), "code").remove(0);
        let mut code = std::fs::read(&path).unwrap();
        damage(&mut code);
        std::fs::write(&path, code).unwrap();
        assert!(cached(&engine).is_none());
        assert!(files(dir.path(), "code").is_empty(), "damaged code is removed");
        assert!(matches!(compile(&engine), CacheUse::Stored));
        assert!(says_hello(&cached(&engine).unwrap()));
    }
}

#[test]
fn damaged_cache_key_is_a_miss() {
    for text in ["", "../../../../etc/passwd", &"0".repeat(64), "not hex"] {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine(dir.path());
        compile(&engine);
        std::fs::write(files(dir.path(), "keys").remove(0), text).unwrap();
        assert!(cached(&engine).is_none(), "{text:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_others_can_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    compile(&engine);
    let folder = dir.path().join("code-1/code");
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o077, 0);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(cached(&engine).is_none());
    let CacheUse::Failed(error) = compile(&engine) else { panic!("stored for all to change") };
    assert!(error.to_string().contains("BELLJAR_CACHE_DIR"), "{error}");
}

#[test]
fn two_processes_compile_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = belljar(elsewhere.path());
        command.args(["run", "--json"]).arg(guest("walk")).env("BELLJAR_CACHE_DIR", dir.path());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let running: Vec<_> = (0..4).map(|_| start()).collect();
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let again = start().wait_with_output().unwrap();
    let report: Value = serde_json::from_str(stdout(&again).lines().last().unwrap()).unwrap();
    assert_eq!(report["cache_hit"], true);
    assert_eq!((files(dir.path(), "keys").len(), files(dir.path(), "code").len()), (1, 1));
}

#[test]
fn a_cache_that_cannot_be_written_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = belljar(elsewhere.path());
    command.arg("run").arg(guest("hello")).env("BELLJAR_CACHE_DIR", &file);
    let output = command.output().unwrap();
    assert_eq!(stdout(&output), "hello, world\n");
    assert!(stderr(&output).contains("warning"), "{}", stderr(&output));
}
