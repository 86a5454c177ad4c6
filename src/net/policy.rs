//! The egress policy.
//!
//! Code that makes a request for a guest, or for the embedding program, first calls
//! [`EgressPolicy::check`] with the URL, then [`EgressPolicy::check_addresses`] with the addresses of its
//! host, and connects only to these; and [`EgressPolicy::check_redirect`] before it follows a redirect.
//! `docs/egress.md` describes the rules.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use url::{Host, Url, form_urlencoded};

use super::address;
use super::rule::{EgressRule, EgressRuleError, bracketed, understood};
use crate::base::ambient;
use crate::tape::{Kind, Recorder};

/// Longest URL, in bytes.
pub const URL_BYTES_MAX: usize = 8 << 10;

/// A request that the policy does not allow.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("egress blocked: {surface} may not reach {}: {reason}", self.place())]
pub struct EgressBlocked {
    /// What made it: `http`, `llm`.
    pub surface: String,
    /// Its URL, without user name, password and fragment. The query may contain secrets.
    pub url: String,
    /// The host; empty if there is none.
    pub host: String,
    /// The port, if there is one.
    pub port: Option<u16>,
    /// The rule that decided, and what to do.
    pub reason: String,
}

crate::base::readable::readable!(EgressBlocked);

impl EgressBlocked {
    fn place(&self) -> String {
        match (self.host.is_empty(), self.port) {
            (true, _) => format!("{:?}", self.url.split('?').next().unwrap_or_default()),
            (false, Some(port)) => format!("{}:{port}", bracketed(&self.host)),
            (false, None) => self.host.clone(),
        }
    }

    /// The record of the decision for a tape.
    pub fn record(&self, tape: &Recorder) -> Kind {
        record(tape, &self.surface, &self.url, &self.host, self.port, Err(&self.reason))
    }
}

/// Permission for one request, given by [`EgressPolicy::check`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allowed {
    surface: String,
    url: Url,
    host: String,
    port: u16,
    reason: String,
}

impl Allowed {
    /// The URL as it was parsed. Request this one: another parser may read the original text differently.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// The host: a name in lower-case ASCII, or an IP address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, by default that of the scheme.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host and the port, for messages.
    pub fn place(&self) -> String {
        format!("{} port {}", self.host, self.port)
    }

    /// The rule that decided.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The record of the decision for a tape.
    pub fn record(&self, tape: &Recorder) -> Kind {
        record(tape, &self.surface, self.url(), &self.host, Some(self.port), Ok(&self.reason))
    }

    fn blocked(&self, reason: String) -> EgressBlocked {
        EgressBlocked {
            surface: self.surface.clone(),
            url: self.url.to_string(),
            host: self.host.clone(),
            port: Some(self.port),
            reason,
        }
    }
}

fn record(
    tape: &Recorder,
    surface: &str,
    url: &str,
    host: &str,
    port: Option<u16>,
    decision: Result<&str, &str>,
) -> Kind {
    let (Ok(reason) | Err(reason)) = decision;
    Kind::Egress {
        surface: surface.to_owned(),
        url: redacted(url, tape),
        host: host.to_owned(),
        port,
        allowed: decision.is_ok(),
        reason: reason.to_owned(),
    }
}

/// Redacts `url` for a tape: parameters of its query are treated like variables.
fn redacted(url: &str, tape: &Recorder) -> String {
    let (base, query) = match url.split_once('?') {
        Some((base, query)) => (base, Some(query)),
        None => (url, None),
    };
    let mut shown = tape.redact(base);
    for (index, pair) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        shown.push(if index == 0 { '?' } else { '&' });
        // A secret is checked in its decoded form.
        let (name, value) = form_urlencoded::parse(pair.as_bytes()).next().unwrap_or_default();
        let decoded = format!("{name}={value}");
        let safe = tape.redact_variable(&decoded);
        shown.push_str(if safe == decoded { pair } else { &safe });
    }
    shown
}

/// Returns the host and port of `url`, and normalizes its host.
fn place_of(url: &mut Url) -> Result<(Host, u16), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("the scheme is {:?}: use http or https", url.scheme()));
    }
    let host = understood(url.host_str().ok_or("it has no host")?)?;
    url.set_host(Some(&host.to_string())).map_err(|error| error.to_string())?;
    let port = url.port_or_known_default().ok_or("it has no port")?;
    Ok((host, port))
}

/// The hosts that requests may reach. Default: none.
///
/// ```
/// use belljar::net::EgressPolicy;
///
/// let policy = EgressPolicy::default().allow("*.example.com:443".parse()?);
/// assert!(policy.check("http", "https://api.example.com/v1").is_ok());
/// assert!(policy.check("http", "https://api.example.com.evil.test/").is_err());
/// # Ok::<(), belljar::net::EgressRuleError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressPolicy {
    allows_by_default: bool,
    allow: Vec<EgressRule>,
    deny: Vec<EgressRule>,
}

impl EgressPolicy {
    /// Allows all hosts without a rule, except addresses that are not on the public internet.
    pub fn allow_by_default() -> Self {
        Self { allows_by_default: true, ..Self::default() }
    }

    /// Parses the values of `BELLJAR_EGRESS_DEFAULT` (`deny` or `allow`), `BELLJAR_EGRESS_ALLOW` and
    /// `BELLJAR_EGRESS_DENY` (rules separated by commas). Missing or empty ones are `deny` and no rules.
    ///
    /// # Errors
    /// [`EgressRuleError::Variable`], [`EgressRuleError::Default`].
    pub fn from_env_values(
        default: Option<&str>,
        allow: Option<&str>,
        deny: Option<&str>,
    ) -> Result<Self, EgressRuleError> {
        let rules = |variable, list: Option<&str>| {
            let items = list.unwrap_or_default().split(',').map(str::trim);
            let parsed = items.filter(|item| !item.is_empty()).map(str::parse);
            parsed
                .collect::<Result<Vec<EgressRule>, _>>()
                .map_err(|source| EgressRuleError::Variable { variable, source: Box::new(source) })
        };
        let allows_by_default = match default.unwrap_or_default().trim() {
            "" | "deny" => false,
            "allow" => true,
            value => return Err(EgressRuleError::Default { value: value.to_owned() }),
        };
        Ok(Self {
            allows_by_default,
            allow: rules("BELLJAR_EGRESS_ALLOW", allow)?,
            deny: rules("BELLJAR_EGRESS_DENY", deny)?,
        })
    }

    /// Reads the variables of [`EgressPolicy::from_env_values`] from the host's environment; `None` if all
    /// are missing or empty.
    ///
    /// # Errors
    /// As [`EgressPolicy::from_env_values`].
    pub fn from_environment() -> Result<Option<Self>, EgressRuleError> {
        let names = ["BELLJAR_EGRESS_DEFAULT", "BELLJAR_EGRESS_ALLOW", "BELLJAR_EGRESS_DENY"];
        // Text that is not UTF-8 is not a rule, either.
        let value = |name| Some(ambient::setting(name)?.to_string_lossy().into_owned());
        let values = names.map(value);
        if values.iter().all(Option::is_none) {
            return Ok(None);
        }
        let [default, allow, deny] = &values;
        Self::from_env_values(default.as_deref(), allow.as_deref(), deny.as_deref()).map(Some)
    }

    /// Adds an allow rule.
    #[must_use]
    pub fn allow(mut self, rule: EgressRule) -> Self {
        self.allow.push(rule);
        self
    }

    /// Adds a deny rule, which wins over allow rules.
    #[must_use]
    pub fn deny(mut self, rule: EgressRule) -> Self {
        self.deny.push(rule);
        self
    }

    /// Decides whether `surface` (`http`, `llm`) may request `url`.
    ///
    /// If the host is a name, [`EgressPolicy::check_addresses`] must follow.
    ///
    /// # Errors
    /// [`EgressBlocked`] by a rule or by default; also for a URL that is longer than [`URL_BYTES_MAX`],
    /// cannot be parsed, is neither `http` nor `https`, or has a user name or a password.
    pub fn check(&self, surface: &str, url: &str) -> Result<Allowed, EgressBlocked> {
        let unread = |reason: String| EgressBlocked {
            surface: surface.to_owned(),
            url: without_secrets(url),
            host: String::new(),
            port: None,
            reason,
        };
        if url.len() > URL_BYTES_MAX {
            return Err(unread(format!("the URL is longer than {URL_BYTES_MAX} bytes")));
        }
        let parsed =
            Url::parse(url).map_err(|error| unread(format!("not an absolute URL: {error}")))?;
        self.check_parsed(surface, parsed)
    }

    /// As [`EgressPolicy::check`]; records the decision on `tape`.
    ///
    /// # Errors
    /// [`EgressBlocked`].
    pub fn check_on_tape(
        &self,
        surface: &str,
        url: &str,
        tape: Option<&Recorder>,
    ) -> Result<Allowed, EgressBlocked> {
        let checked = self.check(surface, url);
        if let Some(tape) = tape {
            tape.push(match &checked {
                Ok(allowed) => allowed.record(tape),
                Err(blocked) => blocked.record(tape),
            });
        }
        checked
    }

    /// Decides whether the request that `from` allowed may be repeated at `location`, a redirect. The caller
    /// limits their number.
    ///
    /// # Errors
    /// As [`EgressPolicy::check`]; also for a redirect from `https` to `http`.
    pub fn check_redirect(&self, from: &Allowed, location: &str) -> Result<Allowed, EgressBlocked> {
        if location.len() > URL_BYTES_MAX {
            return Err(from.blocked(format!("the redirect URL exceeds {URL_BYTES_MAX} bytes")));
        }
        let to = from
            .url
            .join(location)
            .map_err(|error| from.blocked(format!("it redirects to an invalid URL: {error}")))?;
        let to = self.check_parsed(&from.surface, to)?;
        if from.url.scheme() == "https" && to.url.scheme() == "http" {
            return Err(to.blocked("a redirect must not give up encryption".to_owned()));
        }
        Ok(to)
    }

    fn check_parsed(&self, surface: &str, mut url: Url) -> Result<Allowed, EgressBlocked> {
        let has_credentials = !url.username().is_empty() || url.password().is_some();
        // URLs that cannot have them, such as `mailto:`, are refused below.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        let surface = surface.to_owned();
        let (host, port) = match place_of(&mut url) {
            Ok(place) => place,
            Err(reason) => {
                let (url, host) = (url.into(), String::new());
                return Err(EgressBlocked { surface, url, host, port: None, reason });
            }
        };
        let decision = match (&host, has_credentials) {
            (_, true) => Err("the URL has a user name or a password: use a header".to_owned()),
            (Host::Domain(name), _) => self.decide_name(name, port),
            (Host::Ipv4(address), _) => self.decide_address((*address).into(), port),
            (Host::Ipv6(address), _) => self.decide_address((*address).into(), port),
        };
        let host = match host {
            Host::Domain(name) => name,
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        match decision {
            Ok(reason) => Ok(Allowed { surface, url, host, port, reason }),
            Err(reason) => {
                Err(EgressBlocked { surface, url: url.into(), host, port: Some(port), reason })
            }
        }
    }

    /// Decides whether a connection for `allowed` may go to `addresses`, those of its host. One that is not
    /// allowed refuses all: a name with addresses inside and outside is suspicious.
    ///
    /// # Errors
    /// [`EgressBlocked`] if a deny rule matches one of them, or if one is not on the public internet
    /// (loopback, private, link-local, shared, multicast, unspecified, reserved; an IPv4 address inside
    /// an IPv6 one) and no allow rule for addresses matches it.
    pub fn check_addresses(
        &self,
        allowed: &Allowed,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<(), EgressBlocked> {
        for address in addresses {
            self.check_address(address, allowed.port).map_err(|reason| {
                allowed.blocked(match allowed.host.parse() {
                    Ok(IpAddr::V4(_) | IpAddr::V6(_)) => reason,
                    Err(_) => format!("it resolves to {address}: {reason}"),
                })
            })?;
        }
        Ok(())
    }

    fn check_address(&self, address: IpAddr, port: u16) -> Result<(), String> {
        for form in address::with_embedded(address) {
            if let Some(rule) = self.deny.iter().find(|rule| rule.is_for_address(form, port)) {
                return Err(denied_by(rule));
            }
            if let Some(kind) = address::special(form)
                && !self.allow.iter().any(|rule| rule.is_for_address(form, port))
            {
                let rule = format!("{}:{port}", bracketed(&form.to_string()));
                return Err(format!(
                    "{form} is {kind} address, which needs an allow rule of its own: `{rule}`"
                ));
            }
        }
        Ok(())
    }

    fn decide_address(&self, address: IpAddr, port: u16) -> Result<String, String> {
        self.check_address(address, port)?;
        let rule = self.allow.iter().find(|rule| rule.is_for_address(address, port));
        self.decide(rule, &address.to_string(), port)
    }

    fn decide_name(&self, name: &str, port: u16) -> Result<String, String> {
        if let Some(rule) = self.deny.iter().find(|rule| rule.is_for_name(name, port)) {
            return Err(denied_by(rule));
        }
        self.decide(self.allow.iter().find(|rule| rule.is_for_name(name, port)), name, port)
    }

    fn decide(&self, rule: Option<&EgressRule>, host: &str, port: u16) -> Result<String, String> {
        match rule {
            Some(rule) => Ok(format!("allow rule `{rule}`")),
            None if self.allows_by_default => Ok("allowed by default".to_owned()),
            None => Err(format!("no rule allows it: add `{}:{port}`", bracketed(host))),
        }
    }
}

fn denied_by(rule: &EgressRule) -> String {
    format!("deny rule `{rule}`")
}

/// The front of an invalid URL, without what may be a password or a key.
fn without_secrets(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let text = text.rsplit('@').next().unwrap_or_default();
    text.chars().take(200).collect()
}
