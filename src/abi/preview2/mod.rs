//! WASI 0.2 (preview2): what components import.
//!
//! Each function makes calls on the same [`Guest`](crate::kernel::guest::Guest) as those of preview1, so that limits,
//! policy, the trace and the tape hold for components, too. A handle of a component is an index into the table of its
//! process: [`Resources`]. What WASI 0.2 lacks is in packages of our own: [`belljar`].
//!
//! Source: the WIT documents of WASI 0.2. All versions 0.2.x are one: later ones only add functions.

mod belljar;
pub(in crate::abi) mod call;
mod child;
pub(in crate::abi) mod cli;
pub(in crate::abi) mod clocks;
pub(in crate::abi) mod errors;
mod exchange;
mod file_io;
pub(in crate::abi) mod filesystem;
mod host_answer;
mod http;
pub(in crate::abi) mod input;
mod io;
pub(in crate::abi) mod output;
pub(in crate::abi) mod poll;
pub(in crate::abi) mod preopens;
pub(in crate::abi) mod random;
pub(in crate::abi) mod resources;
pub(in crate::abi) mod sockets;
pub(in crate::abi) mod types;

use wasmtime::component::{LinkerInstance, ResourceType};

use super::Process;
use call::Functions;
pub use call::define_trap;

/// The export of a component that is its program: an instance with the function `run`. The name goes on with a version.
pub(super) const RUN: &str = "wasi:cli/run@0.2.";

/// The versions of our own packages.
const BELLJAR_VERSION: &str = "0.1.";

/// The name of `interface` without its version, if guests have that version of it: of WASI 0.2, or of our own packages.
pub(super) fn name(interface: &str) -> Option<&str> {
    let (name, version) = interface.split_once('@')?;
    let (package, _) = name.split_once(':')?;
    let known = match package {
        "wasi" => "0.2.",
        "belljar" => BELLJAR_VERSION,
        _ => return None,
    };
    version.starts_with(known).then_some(name)
}

/// Defines one of the `functions` of `interface`, whose name has no version; returns whether guests have it.
///
/// # Errors
/// The name is already defined.
pub(super) fn define_function(
    functions: &mut Functions<'_, '_>,
    interface: &str,
) -> wasmtime::Result<bool> {
    let name = functions.name();
    match interface {
        "belljar:host/calls" => belljar::calls(functions),
        "belljar:process/processes" => belljar::processes(functions),
        "wasi:cli/environment" => cli::environment(functions),
        "wasi:cli/exit" => cli::exit(functions),
        "wasi:cli/stdin" => cli::stdin(functions),
        "wasi:cli/stdout" => cli::stdout(functions),
        "wasi:cli/stderr" => cli::stderr(functions),
        "wasi:cli/terminal-stdin" => cli::terminal_stdin(functions),
        "wasi:cli/terminal-stdout" => cli::terminal_stdout(functions),
        "wasi:cli/terminal-stderr" => cli::terminal_stderr(functions),
        "wasi:clocks/monotonic-clock" => clocks::monotonic_clock(functions),
        "wasi:clocks/timezone" => clocks::timezone(functions),
        "wasi:clocks/wall-clock" => clocks::wall_clock(functions),
        "wasi:filesystem/preopens" => preopens::preopens(functions),
        "wasi:filesystem/types" => filesystem::types(functions),
        "wasi:http/outgoing-handler" => http::outgoing_handler(functions),
        "wasi:http/types" => http::types(functions),
        "wasi:io/error" => io::error(functions),
        "wasi:io/poll" => poll::poll(functions),
        "wasi:io/streams" => io::streams(functions),
        "wasi:random/insecure" => random::insecure(functions),
        "wasi:random/insecure-seed" => random::insecure_seed(functions),
        "wasi:random/random" => random::random(functions),
        "wasi:sockets/instance-network" => sockets::instance_network(functions),
        "wasi:sockets/ip-name-lookup" if !name.starts_with('[') => {
            sockets::ip_name_lookup(functions)
        }
        "wasi:sockets/ip-name-lookup" | "wasi:sockets/tcp" | "wasi:sockets/udp" => {
            sockets::of_a_socket(functions)
        }
        "wasi:sockets/tcp-create-socket" => sockets::tcp_create_socket(functions),
        "wasi:sockets/udp-create-socket" => sockets::udp_create_socket(functions),
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
        "child" => belljar::define_child(instance, name)?,
        "descriptor" => resources::define::<filesystem::Descriptor>(instance, name)?,
        "directory-entry-stream" => {
            resources::define::<filesystem::DirectoryEntryStream>(instance, name)?;
        }
        "fields" => resources::define::<http::Fields>(instance, name)?,
        "future-incoming-response" => {
            resources::define_ended::<exchange::FutureResponse>(instance, name)?;
        }
        "future-trailers" => resources::define::<http::FutureTrailers>(instance, name)?,
        "incoming-body" => resources::define_ended::<exchange::IncomingBody>(instance, name)?,
        "incoming-response" => {
            resources::define_ended::<http::IncomingResponse>(instance, name)?;
        }
        "outgoing-body" => resources::define::<exchange::OutgoingBody>(instance, name)?,
        "outgoing-request" => resources::define::<http::OutgoingRequest>(instance, name)?,
        "request-options" => resources::define::<http::RequestOptions>(instance, name)?,
        "error" => resources::define::<errors::IoError>(instance, name)?,
        "input-stream" => resources::define::<input::InputStream>(instance, name)?,
        "network" => resources::define::<sockets::Network>(instance, name)?,
        "output-stream" => resources::define::<output::OutputStream>(instance, name)?,
        "pollable" => resources::define::<poll::Pollable>(instance, name)?,
        // There are none.
        "incoming-request" => none::<http::IncomingRequest>(instance, name)?,
        "outgoing-response" => none::<http::OutgoingResponse>(instance, name)?,
        "response-outparam" => none::<http::ResponseOutparam>(instance, name)?,
        "terminal-input" => none::<cli::TerminalInput>(instance, name)?,
        "terminal-output" => none::<cli::TerminalOutput>(instance, name)?,
        "resolve-address-stream" => none::<sockets::ResolveAddressStream>(instance, name)?,
        "tcp-socket" => none::<sockets::TcpSocket>(instance, name)?,
        "udp-socket" => none::<sockets::UdpSocket>(instance, name)?,
        "incoming-datagram-stream" => none::<sockets::IncomingDatagramStream>(instance, name)?,
        "outgoing-datagram-stream" => none::<sockets::OutgoingDatagramStream>(instance, name)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Defines a resource of which there are no values.
///
/// # Errors
/// The name is already defined.
pub fn none<T: 'static>(
    instance: &mut LinkerInstance<'_, Process>,
    name: &str,
) -> wasmtime::Result<()> {
    instance.resource(name, ResourceType::host::<T>(), |_, _| Ok(()))
}
