//! `wasi:sockets`: guests have no sockets, so creating one is denied.

use wasmtime::component::{ComponentType, Lift, Lower, Resource};

use crate::abi::preview2::call::{Functions, interface};
use crate::abi::{Process, trace};

/// `wasi:sockets/types`
pub(super) fn types(functions: &mut Functions<'_, '_>) -> wasmtime::Result<bool> {
    if functions.name().starts_with("[method]") {
        functions.cannot_be_called("there are no sockets")?;
        return Ok(true);
    }
    creation(functions)
}

interface! {
    /// What creates a socket.
    creation:
    "[static]tcp-socket.create" => answers(create::<TcpSocket>),
    "[static]udp-socket.create" => answers(create::<UdpSocket>),
}

interface! {
    /// `wasi:sockets/ip-name-lookup`
    ip_name_lookup:
    "resolve-addresses" => answers_async(resolve_addresses),
}

/// `tcp-socket`
pub(super) enum TcpSocket {}

/// `udp-socket`
pub(super) enum UdpSocket {}

/// `wasi:sockets/types.error-code`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
enum ErrorCode {
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
    #[component(name = "invalid-state")]
    InvalidState,
    #[component(name = "address-not-bindable")]
    AddressNotBindable,
    #[component(name = "address-in-use")]
    AddressInUse,
    #[component(name = "remote-unreachable")]
    RemoteUnreachable,
    #[component(name = "connection-refused")]
    ConnectionRefused,
    #[component(name = "connection-broken")]
    ConnectionBroken,
    #[component(name = "connection-reset")]
    ConnectionReset,
    #[component(name = "connection-aborted")]
    ConnectionAborted,
    #[component(name = "datagram-too-large")]
    DatagramTooLarge,
    #[component(name = "other")]
    Other(Option<String>),
}

/// `wasi:sockets/types.ip-address-family`
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

/// `wasi:sockets/types.ip-address`
#[derive(Clone, Copy, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
enum IpAddress {
    #[component(name = "ipv4")]
    Ipv4((u8, u8, u8, u8)),
    #[component(name = "ipv6")]
    Ipv6((u16, u16, u16, u16, u16, u16, u16, u16)),
}

/// `wasi:sockets/ip-name-lookup.error-code`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
enum LookupErrorCode {
    #[component(name = "access-denied")]
    AccessDenied,
    #[component(name = "invalid-argument")]
    InvalidArgument,
    #[component(name = "name-unresolvable")]
    NameUnresolvable,
    #[component(name = "temporary-resolver-failure")]
    TemporaryResolverFailure,
    #[component(name = "permanent-resolver-failure")]
    PermanentResolverFailure,
    #[component(name = "other")]
    Other(Option<String>),
}

fn create<T: 'static>(
    process: &mut Process,
    (family,): (IpAddressFamily,),
) -> Result<Resource<T>, ErrorCode> {
    trace!(process.guest, "{family:?}");
    Err(ErrorCode::AccessDenied)
}

fn resolve_addresses(
    process: &mut Process,
    (name,): (String,),
) -> Result<Vec<IpAddress>, LookupErrorCode> {
    trace!(process.guest, "{name:?}");
    // As wasmtime answers if it may not look names up.
    Err(LookupErrorCode::PermanentResolverFailure)
}
