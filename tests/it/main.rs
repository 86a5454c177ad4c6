//! The only test binary, with a file per concern.
#![allow(clippy::disallowed_methods, reason = "tests look at the disk from outside")]
#![allow(clippy::unwrap_used, reason = "a test that fails says so")]

mod abi;
#[cfg(all(feature = "remote", target_os = "linux"))]
mod actions;
mod apply_kills;
mod cargo_test;
mod circles;
mod cli;
mod code_cache;
mod compiled_code;
mod components;
mod conformance;
mod corpus;
mod determinism;
#[cfg(feature = "import")]
mod distribution_attacks;
mod docs;
mod docs_windows;
mod drafts;
mod egress;
mod examples;
mod file_times;
mod host;
mod hostile;
mod http;
#[cfg(feature = "import")]
mod install_kills;
mod installed;
mod interrupts;
mod killed_apply;
mod library;
mod links;
#[cfg(feature = "llm")]
mod llm;
#[cfg(feature = "llm")]
mod llm_http;
mod manifests;
#[cfg(feature = "mcp")]
mod mcp;
mod modules;
mod native_children;
mod native_readers;
mod native_signals;
mod native_trees;
mod native_windows;
mod outdated;
mod overlay_differential;
mod overlay_model;
mod packages;
#[cfg(feature = "import")]
mod precompiled;
mod process_tape;
mod processes;
mod profile_escapes;
mod projects;
mod recorded;
mod registries;
mod relative_paths;
mod replay;
mod replay_faults;
mod results;
mod sandbox;
mod sandbox_profiles;
#[cfg(feature = "llm")]
mod sessions;
mod shell;
#[cfg(feature = "import")]
mod signatures;
mod spins;
mod subprocess;
mod subprocess_files;
mod subprocess_stream;
mod support;
mod tape;
#[cfg(feature = "annotations")]
mod tape_annotations;
#[cfg(all(feature = "llm", feature = "annotations"))]
mod tape_docs;
mod tape_fidelity;
mod tape_hostile;
mod tape_long;
mod tape_view;
mod taped_changes;
#[cfg(feature = "llm")]
mod testbench;
mod tidy;
mod tiers;
mod toolchains;
mod where_is;
