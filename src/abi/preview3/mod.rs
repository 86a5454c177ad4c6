//! WASI 0.3: what components import whose functions are asynchronous.
//!
//! What is the same as in WASI 0.2 is that of [`super::preview2`], on the same table of resources. A task of a component
//! that waits does not end the turn of its process: [`event_loop`] does so once all tasks wait.
//!
//! Source: the WIT documents of WASI 0.3. All versions 0.3.x are one: later ones only add functions.

mod call;
mod cli;
mod clocks;
mod directory;
mod ending;
pub mod event_loop;
mod filesystem;
mod random;
mod reading;
mod sockets;
mod types;
mod waits;
mod writing;

use wasmtime::component::LinkerInstance;

use super::Process;
use super::preview2::call::Functions;
use super::preview2::filesystem::Descriptor;
use super::preview2::{cli as cli2, none, preopens, resources};
pub(super) use waits::Waits;

/// The export of a component that is its program: an instance with the function `run`. The name goes on with a version.
pub(super) const RUN: &str = "wasi:cli/run@0.3.";

/// The name of `interface` without its version, if guests have that version of it: what came before 0.3.0 was another one.
pub(super) fn name(interface: &str) -> Option<&str> {
    let (name, version) = interface.split_once('@')?;
    let is_known = name.starts_with("wasi:") && version.starts_with("0.3.");
    (is_known && !version.contains('-')).then_some(name)
}

/// Defines one of the `functions` of `interface`, whose name has no version; returns whether guests have it.
///
/// # Errors
/// The name is already defined.
pub(super) fn define_function(
    functions: &mut Functions<'_, '_>,
    interface: &str,
) -> wasmtime::Result<bool> {
    match interface {
        "wasi:cli/environment" => cli::environment(functions),
        "wasi:cli/exit" => cli2::exit(functions),
        "wasi:cli/stdin" => cli::stdin(functions),
        "wasi:cli/stdout" => cli::stdout(functions),
        "wasi:cli/stderr" => cli::stderr(functions),
        "wasi:cli/terminal-stdin" => cli2::terminal_stdin(functions),
        "wasi:cli/terminal-stdout" => cli2::terminal_stdout(functions),
        "wasi:cli/terminal-stderr" => cli2::terminal_stderr(functions),
        "wasi:clocks/monotonic-clock" => clocks::monotonic_clock(functions),
        "wasi:clocks/system-clock" => clocks::system_clock(functions),
        "wasi:clocks/timezone" => clocks::timezone(functions),
        "wasi:filesystem/preopens" => preopens::preopens(functions),
        "wasi:filesystem/types" => filesystem::types(functions),
        "wasi:random/insecure" => random::insecure(functions),
        "wasi:random/insecure-seed" => random::insecure_seed(functions),
        "wasi:random/random" => random::random(functions),
        "wasi:sockets/ip-name-lookup" => sockets::ip_name_lookup(functions),
        "wasi:sockets/types" => sockets::types(functions),
        _ => Ok(false),
    }
}

/// Defines the resource `name`, of any interface, in `instance`; returns whether guests have it.
///
/// # Errors
/// The name is already defined.
pub(super) fn define_resource(
    instance: &mut LinkerInstance<'_, Process>,
    name: &str,
) -> wasmtime::Result<bool> {
    match name {
        "descriptor" => resources::define::<Descriptor>(instance, name)?,
        // There are none.
        "terminal-input" => none::<cli2::TerminalInput>(instance, name)?,
        "terminal-output" => none::<cli2::TerminalOutput>(instance, name)?,
        "tcp-socket" => none::<sockets::TcpSocket>(instance, name)?,
        "udp-socket" => none::<sockets::UdpSocket>(instance, name)?,
        _ => return Ok(false),
    }
    Ok(true)
}
