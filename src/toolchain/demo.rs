//! The programs that belljar brings along, so that it can do something with nothing installed.
//! Their sources stand beside them.

macro_rules! programs {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../toolchains/demo/", $name, ".wasm")))),*]
    };
}

/// Name and module of each, sorted by name.
pub(super) const PROGRAMS: &[(&str, &[u8])] =
    programs!["cat", "jsonfmt", "replace", "sha256sum", "wc"];
