//! Connections under the egress policy, to the addresses that it checked.

use std::net::SocketAddr;
use std::time::Duration;

use ureq::Agent;
use ureq::config::Config;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

use crate::net::limits::HttpLimits;
use crate::net::{Allowed, EgressPolicy};

/// Returns an agent for the one request that `policy` allowed, within `timeout`, so that no connection
/// outlives the check of its addresses. It follows no redirects, and accepts answers of any status.
pub fn agent(
    policy: &EgressPolicy,
    allowed: &Allowed,
    timeout: Duration,
    limits: &HttpLimits,
) -> Agent {
    let config = Config::builder()
        .proxy(None)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .allow_non_standard_methods(true)
        .timeout_global(Some(timeout))
        .timeout_connect(limits.connect_timeout)
        .timeout_recv_response(limits.first_byte_timeout)
        .build();
    let resolver = CheckedResolver { policy: policy.clone(), allowed: allowed.clone() };
    Agent::with_parts(config, DefaultConnector::default(), resolver)
}

/// Resolves names with the host's resolver, and drops addresses that the policy blocks.
#[derive(Debug)]
struct CheckedResolver {
    policy: EgressPolicy,
    allowed: Allowed,
}

impl Resolver for CheckedResolver {
    fn resolve(
        &self,
        uri: &ureq::http::Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let resolved = DefaultResolver::default().resolve(uri, config, timeout);
        let addresses = resolved.map_err(|error| match error {
            ureq::Error::Io(_) => ureq::Error::HostNotFound,
            error => error,
        })?;
        self.policy
            .check_addresses(&self.allowed, addresses.iter().map(SocketAddr::ip))
            .map_err(|blocked| ureq::Error::Other(Box::new(blocked)))?;
        Ok(addresses)
    }
}
