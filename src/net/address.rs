//! Networks of IP addresses, and which of them are not on the public internet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All addresses with the same first bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Network {
    address: IpAddr,
    /// Number of shared bits.
    prefix_bits: u32,
}

/// An address as a number, and its width in bits.
fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), Ipv4Addr::BITS),
        IpAddr::V6(address) => (address.to_bits(), Ipv6Addr::BITS),
    }
}

impl Network {
    const fn v4(a: u8, b: u8, c: u8, d: u8, prefix_bits: u32) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix_bits }
    }

    const fn v6(high: [u16; 6], prefix_bits: u32) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < high.len() {
            bits = bits << 16 | high[at] as u128;
            at += 1;
        }
        Self { address: IpAddr::V6(Ipv6Addr::from_bits(bits << 32)), prefix_bits }
    }

    /// The network of a single address.
    pub(super) fn of(address: IpAddr) -> Self {
        Self { address, prefix_bits: number(address).1 }
    }

    /// Parses an address and a number of bits, with a slash between them.
    ///
    /// # Errors
    /// What is wrong with `text`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (address, prefix_bits) = text.split_once('/').ok_or("the `/` is missing")?;
        let address: IpAddr =
            address.parse().map_err(|_| format!("{address:?} is not an IP address"))?;
        let (value, width) = number(address);
        let prefix_bits = prefix_bits.parse().ok().filter(|bits| *bits <= width);
        let prefix_bits =
            prefix_bits.ok_or_else(|| format!("expected 0 to {width} bits after the `/`"))?;
        // Set host bits suggest a mistyped number of bits.
        let host_bits = u128::MAX.checked_shl(width - prefix_bits).map_or(u128::MAX, |mask| !mask);
        if value & host_bits != 0 {
            return Err(format!("{address} has bits after the first {prefix_bits}"));
        }
        Ok(Self { address, prefix_bits })
    }

    /// Returns whether `address` is in the network.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let ((own, width), (other, other_width)) = (number(self.address), number(address));
        let differing = (own ^ other).checked_shr(width - self.prefix_bits).unwrap_or(0);
        width == other_width && differing == 0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::of(self.address) {
            return write!(f, "{}", self.address);
        }
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

/// Special-purpose addresses in IANA's registries.
const SPECIAL: &[(Network, &str)] = &[
    (Network::v4(0, 0, 0, 0, 8), "an unspecified"),
    (Network::v4(10, 0, 0, 0, 8), "a private"),
    (Network::v4(100, 64, 0, 0, 10), "a carrier's shared (CGNAT)"),
    (Network::v4(127, 0, 0, 0, 8), "a loopback"),
    (Network::v4(169, 254, 0, 0, 16), "a link-local"),
    (Network::v4(172, 16, 0, 0, 12), "a private"),
    (Network::v4(192, 0, 0, 0, 24), "a reserved"),
    (Network::v4(192, 0, 2, 0, 24), "a documentation"),
    (Network::v4(192, 88, 99, 0, 24), "a 6to4 relay"),
    (Network::v4(192, 168, 0, 0, 16), "a private"),
    (Network::v4(198, 18, 0, 0, 15), "a benchmarking"),
    (Network::v4(198, 51, 100, 0, 24), "a documentation"),
    (Network::v4(203, 0, 113, 0, 24), "a documentation"),
    (Network::v4(224, 0, 0, 0, 4), "a multicast"),
    (Network::v4(240, 0, 0, 0, 4), "a reserved"),
    // Before the range that contains it.
    (Network { address: IpAddr::V6(Ipv6Addr::LOCALHOST), prefix_bits: 128 }, "a loopback"),
    (Network::v6([0; 6], 96), "an unspecified"),
    (MAPPED, "an IPv4-mapped"),
    (NAT64, "a NAT64"),
    (NAT64_LOCAL, "a NAT64"),
    (Network::v6([0x100, 0, 0, 0, 0, 0], 64), "a discard-only"),
    (Network::v6([0x2001, 0, 0, 0, 0, 0], 23), "a protocol's own"),
    (Network::v6([0x2001, 0xdb8, 0, 0, 0, 0], 32), "a documentation"),
    (SIX_TO_FOUR, "a 6to4"),
    (Network::v6([0x3fff, 0, 0, 0, 0, 0], 20), "a documentation"),
    (Network::v6([0x5f00, 0, 0, 0, 0, 0], 16), "a segment routing"),
    (Network::v6([0xfc00, 0, 0, 0, 0, 0], 7), "a private"),
    (Network::v6([0xfe80, 0, 0, 0, 0, 0], 10), "a link-local"),
    (Network::v6([0xfec0, 0, 0, 0, 0, 0], 10), "a site-local"),
    (Network::v6([0xff00, 0, 0, 0, 0, 0], 8), "a multicast"),
];

const MAPPED: Network = Network::v6([0, 0, 0, 0, 0, 0xffff], 96);
const NAT64: Network = Network::v6([0x64, 0xff9b, 0, 0, 0, 0], 96);
const NAT64_LOCAL: Network = Network::v6([0x64, 0xff9b, 1, 0, 0, 0], 48);
const SIX_TO_FOUR: Network = Network::v6([0x2002, 0, 0, 0, 0, 0], 16);

/// Returns the kind of a special address, with an article; `None` for one of the public internet.
pub(super) fn special(address: IpAddr) -> Option<&'static str> {
    let found = SPECIAL.iter().find(|(network, _)| network.contains(address));
    found.map(|(_, kind)| *kind)
}

/// Returns the address, and the IPv4 address embedded in it, if any.
pub(super) fn with_embedded(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let embedded = match address {
        IpAddr::V6(v6) => {
            let low_bits_at = |shift: u32| Ipv4Addr::from_bits((v6.to_bits() >> shift) as u32);
            if [MAPPED, NAT64, NAT64_LOCAL].iter().any(|network| network.contains(address)) {
                Some(low_bits_at(0))
            } else {
                SIX_TO_FOUR.contains(address).then(|| low_bits_at(80))
            }
        }
        IpAddr::V4(_) => None,
    };
    std::iter::once(address).chain(embedded.map(IpAddr::V4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn network_contains_addresses_with_its_prefix() {
        let network = Network::parse("10.16.0.0/12").unwrap();
        assert!(network.contains(ip("10.31.255.255")));
        assert!(!network.contains(ip("10.32.0.0")));
        assert!(!network.contains(ip("::10.16.0.0")));
        let all = Network::parse("::/0").unwrap();
        assert!(all.contains(ip("ff02::1")) && !all.contains(ip("1.2.3.4")));
        assert!(Network::parse("0.0.0.0/0").unwrap().contains(ip("255.255.255.255")));
        assert!(!Network::of(ip("1.2.3.4")).contains(ip("1.2.3.5")));
        assert_eq!(Network::parse("fd00::/8").unwrap().to_string(), "fd00::/8");
    }

    #[test]
    fn parse_error_names_the_problem() {
        for (text, why) in [
            ("10.0.0.1/8", "bits after"),
            ("10.0.0.0/33", "0 to 32"),
            ("10.0.0.0/-1", "0 to 32"),
            ("::/129", "0 to 128"),
            ("010.0.0.0/8", "is not an IP address"),
            ("host/8", "is not an IP address"),
            ("fe80::1%eth0/64", "is not an IP address"),
        ] {
            let error = Network::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn special_addresses_are_distinguished_from_public_ones() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(special(ip(address)).is_some(), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
        ] {
            assert_eq!(special(ip(address)), None, "{address}");
        }
    }

    #[test]
    fn embedded_ipv4_address_is_found() {
        for (outer, inner) in [
            ("::ffff:127.0.0.1", "127.0.0.1"),
            ("64:ff9b::10.0.0.1", "10.0.0.1"),
            ("64:ff9b:1::10.0.0.1", "10.0.0.1"),
            ("2002:a00:1::", "10.0.0.1"),
        ] {
            let found: Vec<IpAddr> = with_embedded(ip(outer)).collect();
            assert_eq!(found, [ip(outer), ip(inner)]);
        }
        assert_eq!(with_embedded(ip("2606::1")).count(), 1);
        assert_eq!(with_embedded(ip("10.0.0.1")).count(), 1);
    }
}
