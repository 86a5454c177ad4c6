//! `program_list` and `toolchain_install`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Hints, Scene, Tool, check_text};
use crate::mcp::bounds::ENTRIES_MAX;
use crate::mcp::environment::ProgramInfo;
use crate::mcp::error::ToolError;
use crate::mcp::text::Piece;

/// Lists programs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListPrograms {
    /// Only names that contain this text
    #[serde(default)]
    contains: String,
    /// How many programs to leave out: the next_offset of the last answer
    #[serde(default)]
    offset: usize,
}

#[derive(Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names of the answer")]
pub(super) struct Programs {
    /// The programs, sorted by name
    programs: Vec<ProgramInfo>,
    /// How many there are
    total_programs: usize,
    /// Where to read on, if there are more
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// Toolchains that toolchain_install can install
    installable: Vec<String>,
}

impl Tool for ListPrograms {
    type Answer = Programs;
    const NAME: &'static str = "program_list";
    const TITLE: &'static str = "List programs";
    const DESCRIPTION: &'static str = "Lists the programs that sandbox_exec can run by name: those of the installed toolchains, \
        and built-in ones such as sh, grep, sed and sort. A module (.wasm, WASI preview1) that is written into a sandbox runs \
        by its path.";
    const HINTS: Hints = Hints::reading();

    fn run(self, scene: &mut Scene<'_>) -> Result<Programs, ToolError> {
        check_text("contains", &self.contains)?;
        let server = scene.server();
        let mut list = server.loaded().list;
        list.retain(|program| program.name.contains(&self.contains));
        let total_programs = list.len();
        let programs: Vec<_> = list.into_iter().skip(self.offset).take(ENTRIES_MAX).collect();
        let next = self.offset.saturating_add(programs.len());
        let next_offset = (next < total_programs).then_some(next);
        Ok(Programs {
            programs,
            total_programs,
            next_offset,
            installable: server.policy.install.clone(),
        })
    }
}

/// Installs a toolchain.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Install {
    /// The name of the toolchain: one of those that program_list calls installable
    toolchain: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Installed {
    /// The toolchain
    toolchain: String,
    /// Its programs
    programs: Vec<String>,
    /// What the installation printed
    log: Piece,
}

/// Bytes of the log in the answer.
const LOG_BYTES: usize = 4096;

impl Tool for Install {
    type Answer = Installed;
    const NAME: &'static str = "toolchain_install";
    const TITLE: &'static str = "Install a toolchain";
    const DESCRIPTION: &'static str = "Installs a toolchain on the host, as `belljar install` does, if the policy allows it: it \
        is fetched, its digest is checked, and it is compiled, which can take minutes. Sandboxes that are made afterwards have \
        its programs.";
    const HINTS: Hints = Hints {
        is_read_only: false,
        is_destructive: false,
        is_idempotent: true,
        is_open_world: true,
    };
    const RUNS_PROGRAMS: bool = true;

    fn run(self, scene: &mut Scene<'_>) -> Result<Installed, ToolError> {
        check_text("toolchain", &self.toolchain)?;
        let server = scene.server();
        let allowed = &server.policy.install;
        if !allowed.contains(&self.toolchain) {
            return Err(ToolError::denied(format!(
                "the policy does not let {:?} be installed; it allows {}",
                self.toolchain,
                allowed.join(", ")
            )));
        }
        let log =
            server.environment.install(&self.toolchain, scene.call).map_err(ToolError::failed)?;
        // One that the policy lets be installed can be used.
        let toolchains = server.policy.toolchains.clone().map(|mut names| {
            names.push(self.toolchain.clone());
            names
        });
        let loaded = server.environment.load(toolchains.as_deref()).map_err(ToolError::failed)?;
        let of_it = format!("{} ", self.toolchain);
        let programs = loaded.list.iter().filter(|program| {
            program.toolchain.as_deref().is_some_and(|owner| owner.starts_with(&of_it))
        });
        let programs = programs.map(|program| program.name.clone()).collect();
        server.set_loaded(loaded);
        Ok(Installed {
            toolchain: self.toolchain,
            programs,
            log: Piece::of(log.as_bytes(), 0, LOG_BYTES),
        })
    }
}
