//! `wasi:sockets`: guests have no sockets, so creating one is denied.

use wasmtime::component::{ComponentType, Lift, Lower, Resource};

use super::call::{Functions, Halt, interface};
use crate::abi::{Process, trace};

interface! {
    /// `wasi:sockets/instance-network`
    instance_network:
    "instance-network" => is(network),
}

interface! {
    /// `wasi:sockets/ip-name-lookup`, but for the methods of its resource.
    ip_name_lookup:
    "resolve-addresses" => answers(resolve_addresses),
}

interface! {
    /// `wasi:sockets/tcp-create-socket`
    tcp_create_socket:
    "create-tcp-socket" => answers(create_socket::<TcpSocket>),
}

interface! {
    /// `wasi:sockets/udp-create-socket`
    udp_create_socket:
    "create-udp-socket" => answers(create_socket::<UdpSocket>),
}

/// `wasi:sockets/tcp`, `wasi:sockets/udp`: methods of sockets, of which there are none.
pub(super) fn of_a_socket(functions: &mut Functions<'_, '_>) -> wasmtime::Result<bool> {
    let is_method = functions.name().starts_with("[method]");
    if is_method {
        functions.cannot_be_called("there are no sockets")?;
    }
    Ok(is_method)
}

/// `network`
pub(in crate::abi) struct Network;

/// `tcp-socket`
pub(in crate::abi) enum TcpSocket {}

/// `udp-socket`
pub(in crate::abi) enum UdpSocket {}

/// `incoming-datagram-stream`
pub(super) enum IncomingDatagramStream {}

/// `outgoing-datagram-stream`
pub(super) enum OutgoingDatagramStream {}

/// `resolve-address-stream`
pub(super) enum ResolveAddressStream {}

/// `wasi:sockets/network.error-code`
#[derive(Clone, Copy, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "the type has all codes, the host answers two")]
enum ErrorCode {
    #[component(name = "unknown")]
    Unknown,
    #[component(name = "access-denied")]
    AccessDenied,
    #[component(name = "not-supported")]
    NotSupported,
    #[component(name = "invalid-argument")]
    InvalidArgument,
    #[component(name = "out-of-memory")]
    OutOfMemory,
    #[component(name = "timeout")]
    Timeout,
    #[component(name = "concurrency-conflict")]
    ConcurrencyConflict,
    #[component(name = "not-in-progress")]
    NotInProgress,
    #[component(name = "would-block")]
    WouldBlock,
    #[component(name = "invalid-state")]
    InvalidState,
    #[component(name = "new-socket-limit")]
    NewSocketLimit,
    #[component(name = "address-not-bindable")]
    AddressNotBindable,
    #[component(name = "address-in-use")]
    AddressInUse,
    #[component(name = "remote-unreachable")]
    RemoteUnreachable,
    #[component(name = "connection-refused")]
    ConnectionRefused,
    #[component(name = "connection-reset")]
    ConnectionReset,
    #[component(name = "connection-aborted")]
    ConnectionAborted,
    #[component(name = "datagram-too-large")]
    DatagramTooLarge,
    #[component(name = "name-unresolvable")]
    NameUnresolvable,
    #[component(name = "temporary-resolver-failure")]
    TemporaryResolverFailure,
    #[component(name = "permanent-resolver-failure")]
    PermanentResolverFailure,
}

/// `wasi:sockets/network.ip-address-family`
#[derive(Clone, Copy, Debug, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "components choose one")]
enum IpAddressFamily {
    #[component(name = "ipv4")]
    Ipv4,
    #[component(name = "ipv6")]
    Ipv6,
}

fn network(process: &mut Process, (): ()) -> Result<Resource<Network>, Halt> {
    trace!(process.guest, "");
    process.add(Network)
}

fn create_socket<T: 'static>(
    process: &mut Process,
    (family,): (IpAddressFamily,),
) -> Result<Resource<T>, ErrorCode> {
    trace!(process.guest, "{family:?}");
    Err(ErrorCode::AccessDenied)
}

fn resolve_addresses(
    process: &mut Process,
    (_, name): (Resource<Network>, String),
) -> Result<Resource<ResolveAddressStream>, ErrorCode> {
    trace!(process.guest, "{name:?}");
    // As wasmtime answers if it may not look names up.
    Err(ErrorCode::PermanentResolverFailure)
}
