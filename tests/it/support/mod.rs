//! What several tests need.

use std::path::PathBuf;
use std::sync::OnceLock;

use belljar::{Engine, EngineConfig};

/// The engine of the test binary. Its cache lies in the build folder, so that modules are compiled
/// once, not once a run.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let config = EngineConfig { cache_dir: Some(cache_dir()), ..EngineConfig::default() };
        Engine::new(config).expect("this machine can run an engine")
    })
}

/// A cache of compiled code that survives from one test run to the next.
pub fn cache_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

/// Says that a test did not run, and why; fails if this machine must run every test.
pub fn skipped(test: &str, why: &str) {
    println!("SKIPPED {test}: {why}");
}
