//! Egress rules: syntax and meaning.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::Host;

use crate::net::address::Network;

/// Longest host name in the DNS, in bytes.
const HOST_BYTES_MAX: usize = 253;

/// A rule, or a setting with rules, is not valid.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressRuleError {
    /// A rule is not valid.
    #[error(
        "{rule:?} is not an egress rule: {problem}; write a host, `*.suffix`, an IP address or \
         `address/bits`, each with `:port` if it is for one port"
    )]
    Rule {
        /// The rule as given.
        rule: String,
        /// The problem.
        problem: String,
    },
    /// A variable with rules is not valid.
    #[error("invalid rule in {variable}")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// The rule.
        source: Box<EgressRuleError>,
    },
    /// The variable for the default is not valid.
    #[error("BELLJAR_EGRESS_DEFAULT is {value:?}: set it to `deny` or `allow`")]
    Default {
        /// Its value.
        value: String,
    },
}

crate::base::readable::readable!(EgressRuleError);

/// The target of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Target {
    /// This name.
    Host(String),
    /// All names below this one.
    Below(String),
    /// These addresses.
    Network(Network),
}

/// A host, the names below one, or a network; on one port or all. Parsed from text such as `example.com`,
/// `*.example.com:443`, `10.0.0.0/8`, `[::1]:8080`; names are parsed as in URLs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EgressRule {
    target: Target,
    port: Option<u16>,
}

impl EgressRule {
    /// Returns whether it matches `host`, a name in lower-case ASCII or an address, and `port`.
    pub fn is_for(&self, host: &str, port: u16) -> bool {
        match host.parse() {
            Ok(address) => self.is_for_address(address, port),
            Err(_) => self.is_for_name(host, port),
        }
    }

    /// Returns whether it matches the host `name`.
    pub(super) fn is_for_name(&self, name: &str, port: u16) -> bool {
        let is_for_host = match &self.target {
            Target::Host(host) => host == name,
            Target::Below(suffix) => {
                name.strip_suffix(suffix.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            Target::Network(_) => false,
        };
        is_for_host && self.is_for_port(port)
    }

    /// Returns whether it matches `address`.
    pub(super) fn is_for_address(&self, address: IpAddr, port: u16) -> bool {
        matches!(&self.target, Target::Network(network) if network.contains(address))
            && self.is_for_port(port)
    }

    fn is_for_port(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.contains("://") {
            return Err("it is a URL".to_owned());
        }
        let (host, port) = split_port(text)?;
        let port = port.map(|port| match port.parse() {
            Ok(0) | Err(_) => Err(format!("the port {port:?} is not one of 1 to 65535")),
            Ok(port) => Ok(port),
        });
        let target = if host.contains('/') {
            Target::Network(Network::parse(host)?)
        } else if host.contains(':') {
            let address = host.parse().map_err(|_| format!("{host:?} is not an IPv6 address"))?;
            Target::Network(Network::of(IpAddr::V6(address)))
        } else if let Some(suffix) = host.strip_prefix("*.") {
            match understood(suffix)? {
                Host::Domain(suffix) => Target::Below(suffix),
                _ => return Err("an address has no names below it".to_owned()),
            }
        } else {
            match understood(host)? {
                Host::Domain(name) => Target::Host(name),
                Host::Ipv4(address) => Target::Network(Network::of(address.into())),
                Host::Ipv6(address) => Target::Network(Network::of(address.into())),
            }
        };
        Ok(Self { target, port: port.transpose()? })
    }
}

/// Splits a rule into host and port.
fn split_port(text: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("the `]` is missing")?;
        if !host.contains(':') {
            return Err("brackets are for IPv6 addresses only".to_owned());
        }
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(format!("unexpected {rest:?} after the `]`")),
        };
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => Ok((host, Some(port))),
        _ => Ok((text, None)),
    }
}

/// Parses a host as in a URL: names in lower-case ASCII without the final dot, IPv4 addresses in any notation.
pub(super) fn understood(host: &str) -> Result<Host, String> {
    let host = Host::parse(host).map_err(|error| format!("{host:?} is not a host: {error}"))?;
    match host {
        Host::Domain(name) => name_in_rules(&name).map(|name| Host::Domain(name.to_owned())),
        address => Ok(address),
    }
}

/// Returns `name` without its final dot.
fn name_in_rules(name: &str) -> Result<&str, String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.contains('*') {
        return Err("`*` is allowed only at the front, before a dot".to_owned());
    }
    if name.len() > HOST_BYTES_MAX || name.split('.').any(str::is_empty) {
        return Err(format!(
            "{name:?} is not a host name: it has an empty part, or more than {HOST_BYTES_MAX} bytes"
        ));
    }
    Ok(name)
}

impl FromStr for EgressRule {
    type Err = EgressRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text.trim())
            .map_err(|problem| EgressRuleError::Rule { rule: text.to_owned(), problem })
    }
}

impl TryFrom<String> for EgressRule {
    type Error = EgressRuleError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<EgressRule> for String {
    fn from(rule: EgressRule) -> Self {
        rule.to_string()
    }
}

impl fmt::Display for EgressRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Host(name) => f.write_str(name)?,
            Target::Below(suffix) => write!(f, "*.{suffix}")?,
            Target::Network(network) if self.port.is_some() => {
                f.write_str(&bracketed(&network.to_string()))?;
            }
            Target::Network(network) => write!(f, "{network}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Formats `host` as before a port.
pub(super) fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}
