//! Names of hosts, resolved under the egress policy.

use std::net::SocketAddr;

use ureq::config::Config;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use crate::kernel::egress::{Allowed, EgressPolicy};

/// Resolves names as the host does, and lets no address through that the policy blocks.
#[derive(Debug)]
pub struct CheckedResolver {
    policy: EgressPolicy,
    allowed: Allowed,
}

impl CheckedResolver {
    /// For the request that `policy` allowed.
    pub fn new(policy: EgressPolicy, allowed: Allowed) -> Self {
        Self { policy, allowed }
    }
}

impl Resolver for CheckedResolver {
    fn resolve(
        &self,
        uri: &ureq::http::Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let addresses = DefaultResolver::default().resolve(uri, config, timeout)?;
        self.policy
            .check_addresses(&self.allowed, addresses.iter().map(SocketAddr::ip))
            .map_err(|blocked| ureq::Error::Other(Box::new(blocked)))?;
        Ok(addresses)
    }
}
