//! The engines of this process, and the programs that they loaded.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use belljar::process::ShellImage;
use belljar::{Engine, EngineConfig, ToolchainPrograms, Toolchains};
use pyo3::prelude::*;

use crate::errors;

static ENGINES: [OnceLock<Engine>; 2] = [OnceLock::new(), OnceLock::new()];

type Loaded = HashMap<(Vec<PathBuf>, bool), Arc<ToolchainPrograms>>;

/// Programs, by the folders of their toolchains and whether their code counts fuel: sandboxes share what was loaded.
static PROGRAMS: Mutex<Option<Loaded>> = Mutex::new(None);

/// The engine for code that counts fuel, or for code that does not.
///
/// # Errors
/// Why it cannot be made.
pub fn engine(fuel: bool) -> Result<Engine, String> {
    let place = &ENGINES[usize::from(fuel)];
    if let Some(engine) = place.get() {
        return Ok(engine.clone());
    }
    let cache_dir = belljar::cli::cache_dir().map_err(|error| format!("{error:#}"))?;
    let config = EngineConfig { fuel, cache_dir: Some(cache_dir), ..EngineConfig::default() };
    let engine = Engine::new(config).map_err(|error| format!("{error:?}"))?;
    Ok(place.get_or_init(|| engine).clone())
}

/// The toolchains in `dirs`, then those of `BELLJAR_TOOLCHAIN`, then those that are installed.
///
/// # Errors
/// Why one of them cannot be used.
pub fn toolchains(dirs: &[PathBuf]) -> Result<Toolchains, String> {
    let named = Toolchains::new(dirs.to_vec()).map_err(|error| format!("{error:?}"))?;
    let listed = std::env::var_os("BELLJAR_TOOLCHAIN").unwrap_or_default();
    let listed = std::env::split_paths(&listed).filter(|dir| !dir.as_os_str().is_empty());
    let listed = Toolchains::new(listed.collect())
        .map_err(|error| format!("the variable BELLJAR_TOOLCHAIN: {error:?}"))?;
    let store = belljar::cli::installed_toolchains().map_err(|error| format!("{error:#}"))?;
    named.then(listed).with_installed(&store).map_err(|error| format!("{error:?}"))
}

/// The programs of [`toolchains`], and the shell.
///
/// # Errors
/// As [`toolchains`] and [`engine`].
pub fn programs(dirs: &[PathBuf], fuel: bool) -> Result<Arc<ToolchainPrograms>, String> {
    let key = (dirs.to_vec(), fuel);
    let mut known = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(programs) = known.get(&key) {
        return Ok(programs.clone());
    }
    let programs = Arc::new(new_programs(dirs, fuel)?);
    known.insert(key, programs.clone());
    Ok(programs)
}

/// As [`programs`], not shared.
///
/// # Errors
/// As [`programs`].
pub fn new_programs(dirs: &[PathBuf], fuel: bool) -> Result<ToolchainPrograms, String> {
    let programs = ToolchainPrograms::new(&engine(fuel)?, toolchains(dirs)?);
    Ok(programs.with("sh", ShellImage::maker()))
}

/// Looks programs up again, after toolchains were installed or removed.
#[pyfunction]
pub fn forget_programs() {
    *PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// The names of all programs.
#[pyfunction]
pub fn program_names(py: Python<'_>, dirs: Vec<PathBuf>) -> PyResult<Vec<String>> {
    let names = py.detach(|| {
        let mut names = toolchains(&dirs)?.names().map_err(|error| format!("{error:?}"))?;
        names.push("sh".to_owned());
        names.sort();
        names.dedup();
        Ok(names)
    });
    names.map_err(|error: String| errors::raise(py, "Error", (error,)))
}
