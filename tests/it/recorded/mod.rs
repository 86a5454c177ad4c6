//! Recordings are replayed where nothing of the run is left: no files, no toolchains, no programs of the host.

mod files;
mod found;
mod random;
mod scene;
mod spawner;
mod timeouts;
