//! Common parts of the targets: bounds that a run cannot exceed, scratch files, archives, and machines.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use belljar::kernel::vfs::VfsLimits;
use belljar::process::ShellImage;
use belljar::{
    Engine, EngineConfig, Limits, Machine, MachineBuilder, Source, ToolchainPrograms, Toolchains,
};

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
