//! Projects: what `belljar.toml` in a folder says of the toolchains and the runs in it.

mod current;
mod file;
pub mod lock;
pub mod settings;
pub mod toolchains;
mod trust;

pub use current::{Project, current};
pub use file::{PROJECT_FILE, Wanted};
pub use trust::{Trusted, revoke, trust};
