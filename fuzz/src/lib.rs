//! Common parts of the targets: bounds that a run cannot exceed, scratch files, archives, and machines.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use belljar::kernel::vfs::{VPath, VfsLimits, render_unified_diff};
use belljar::process::ShellImage;
use belljar::results::Results;
use belljar::{
    Command, Engine, EngineConfig, Limits, Machine, MachineBuilder, Outcome, Program, Source,
    ToolchainPrograms, Toolchains,
};
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use wasm_smith::Config;

/// An engine that counts fuel and keeps few processes ready.
pub static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let config = EngineConfig {
        pool_slots: 4,
        fuel: true,
        compile_memory_bytes_max: 512 << 20,
        cache_dir: Some(std::env::temp_dir().join("belljar-fuzz-cache")),
        ..EngineConfig::default()
    };
    Engine::new(config).expect("this host has what the engine needs")
});

/// Bounds that end every run within milliseconds.
pub fn limits() -> Limits {
    Limits {
        memory_bytes_max: 64 << 20,
        fuel: Some(2_000_000),
        virtual_timeout: Some(std::time::Duration::from_hours(1)),
        processes_max: 50,
        output_bytes_max: 1 << 20,
        host_call_bytes_max: 1 << 20,
        vfs: VfsLimits { upper_bytes_max: 16 << 20, ..VfsLimits::default() },
        ..Limits::default()
    }
}

/// What random core modules are like that import from the module `imports`, and export what `exports` does.
pub fn core_config(
    input: &mut Unstructured<'_>,
    imports: &[u8],
    exports: &[u8],
) -> arbitrary::Result<Config> {
    Ok(Config {
        available_imports: Some(imports.to_vec()),
        exports: Some(exports.to_vec()),
        min_imports: 5,
        min_memories: 1,
        max_memories: 1,
        max_memory32_bytes: 4 << 20,
        memory64_enabled: false,
        threads_enabled: false,
        shared_everything_threads_enabled: false,
        max_table_elements: 1000,
        min_funcs: 1,
        max_funcs: 8,
        ..Config::arbitrary(input)?
    })
}

/// How a run ended and what it wrote, or why it could not begin; and its changes.
type Ran = (Result<(Outcome, Vec<u8>, Vec<u8>), String>, Result<String, String>);

/// Runs `program` in a new machine, with the cache `results` if there is one.
pub fn run(program: &Program, results: Option<&Arc<Results>>) -> Ran {
    let mut machine = machine();
    machine.set_results(results.cloned());
    let output = Command::new(program).output(&mut machine).map_err(|error| error.to_string());
    let changes = machine.vfs_mut().diff();
    let changes = changes.and_then(|changes| render_unified_diff(&changes, &VPath::root()));
    let output = output.map(|it| (it.status.outcome().clone(), it.stdout, it.stderr));
    (output, changes.map_err(|error| error.to_string()))
}

/// The built-in programs and the shell.
pub fn programs() -> ToolchainPrograms {
    ToolchainPrograms::new(&ENGINE, Toolchains::default()).with("sh", ShellImage::maker())
}

/// A machine with an empty worktree in memory.
pub fn machine() -> Machine {
    builder().build().expect("the mounts are fine")
}

/// The builder of [`machine`].
pub fn builder() -> MachineBuilder {
    Machine::builder().limits(limits()).mount("/w", Source::Memory).programs(Arc::new(programs()))
}

/// The path of a scratch file of this process with the content `bytes`.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    static FOLDER: LazyLock<tempfile::TempDir> =
        LazyLock::new(|| tempfile::tempdir().expect("temporary files can be made"));
    let path = FOLDER.path().join(name);
    std::fs::write(&path, bytes).expect("temporary files can be written");
    path
}

/// The names in a folder, in order.
pub fn names(folder: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("it can be read").file_name()).collect();
    names.sort();
    names
}

/// Lets `unpack` unpack the file of `bytes` that it is given into an empty folder, and checks that nothing came beside it.
pub fn unpack(bytes: &[u8], unpack: impl FnOnce(&Path, &Path)) {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let (file, into) = (folder.path().join("file"), folder.path().join("into"));
    std::fs::create_dir(&into).expect("temporary files can be made");
    std::fs::write(&file, bytes).expect("temporary files can be written");
    unpack(&file, &into);
    assert_eq!(names(folder.path()), ["file", "into"]);
}
