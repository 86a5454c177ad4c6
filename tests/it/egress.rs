//! The egress policy: hosts that it allows and denies, and its records on a tape.

use std::net::IpAddr;

use belljar::net::{EgressBlocked, EgressPolicy, EgressRule, EgressRuleError};
use belljar::tape::{Kind, MemoryTape, Recorder, Redaction};
use proptest::prelude::*;

fn rule(text: &str) -> EgressRule {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn policy(allow: &[&str], deny: &[&str]) -> EgressPolicy {
    let lists = (allow.join(","), deny.join(","));
    EgressPolicy::from_env_values(None, Some(&lists.0), Some(&lists.1)).unwrap()
}

fn blocked(policy: &EgressPolicy, url: &str) -> EgressBlocked {
    policy.check("http", url).expect_err(url)
}

fn ips<const N: usize>(texts: [&str; N]) -> [IpAddr; N] {
    texts.map(|text| text.parse().unwrap())
}

#[test]
fn egress_rules_decide_as_documented() {
    let table: &[(&[&str], &[&str], &str, bool)] = &[
        (&[], &[], "https://example.com/", false),
        (&["example.com"], &[], "https://example.com/", true),
        (&["example.com"], &[], "http://example.com:8080/", true),
        (&["example.com"], &[], "https://www.example.com/", false),
        (&["example.com:443"], &[], "https://example.com/", true),
        (&["example.com:443"], &[], "https://example.com:443/", true),
        (&["example.com:443"], &[], "http://example.com/", false),
        (&["example.com:80"], &[], "http://example.com/", true),
        (&["*.example.com"], &[], "https://a.b.example.com/", true),
        (&["*.example.com"], &[], "https://example.com/", false),
        (&["*.example.com"], &[], "https://badexample.com/", false),
        (&["*.example.com"], &["*.b.example.com"], "https://a.b.example.com/", false),
        (&["*.example.com"], &["b.example.com:80"], "https://b.example.com/", true),
        (&["example.com"], &["example.com"], "https://example.com/", false),
        (&["example.com"], &["EXAMPLE.com."], "https://example.com/", false),
        (&["1.1.1.1"], &[], "https://1.1.1.1/", true),
        (&["1.0.0.0/8"], &[], "https://1.1.1.1/", true),
        (&["1.0.0.0/8:80"], &[], "https://1.1.1.1/", false),
        (&["1.0.0.0/8"], &["1.1.1.0/24"], "https://1.1.1.1/", false),
        (&["127.0.0.1:8080"], &[], "http://127.0.0.1:8080/", true),
        (&["127.0.0.1:8080"], &[], "http://127.0.0.1/", false),
        (&["[::1]:8080"], &[], "http://[::1]:8080/", true),
        (&["::1"], &[], "http://[0:0::1]/", true),
        (&["[fd00::/8]:80"], &[], "http://[fd12::1]/", true),
        (&["[fd00::/8]:80"], &[], "https://[fd12::1]/", false),
        (&["bücher.example"], &[], "https://xn--bcher-kva.example/", true),
        (&["xn--bcher-kva.example"], &[], "https://BÜCHER.example/", true),
    ];
    for (allow, deny, url, allowed) in table {
        let decided = policy(allow, deny).check("http", url);
        assert_eq!(decided.is_ok(), *allowed, "{allow:?} {deny:?} {url}: {decided:?}");
    }
}

/// Spellings of a host that some URL parsers read as another host.
#[test]
fn check_uses_the_host_that_is_connected_to() {
    let open = EgressPolicy::allow_by_default().deny(rule("example.com"));
    for url in [
        "https://example.com./",
        "https://EXAMPLE.COM/",
        "https://exa%6dple.com/",
        "https://ｅｘａｍｐｌｅ.com/",
        "https://example\u{3002}com/",
        "https:\\\\example.com\\path",
        "https:///example.com/",
        "https:example.com",
        " https://exa\tmple.com/\n",
        "https://allowed.test@example.com/",
        "https://allowed.test:443@example.com/",
        "https://allowed.test\\@example.com/",
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://１２７.0.0.1/",
        "https://127.0.0.1./",
        "https://0/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[64:ff9b::127.0.0.1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://example.com../",
        "https://.example.org/",
        "https://a..example.org/",
    ] {
        let decided = open.check("http", url);
        // A backslash ends a host, as a slash does.
        if url.contains("test\\@") {
            assert_eq!(decided.unwrap().host(), "allowed.test");
        } else {
            assert!(decided.is_err(), "{url}: {decided:?}");
        }
    }
    let allowed = open.check("http", "HTTPS://Example.ORG.:443/a?b#c").unwrap();
    assert_eq!(allowed.url(), "https://example.org/a?b");
    assert_eq!((allowed.host(), allowed.port()), ("example.org", 443));
}

#[test]
fn non_http_requests_are_blocked_with_a_reason() {
    let open = EgressPolicy::allow_by_default();
    for (url, why) in [
        ("", "not an absolute URL"),
        ("/path", "not an absolute URL"),
        ("https://", "not an absolute URL"),
        ("https://host:99999/", "not an absolute URL"),
        ("ftp://example.com/", "use http or https"),
        ("file:///etc/passwd", "use http or https"),
        ("data:text/plain,x", "use http or https"),
        ("https://me:pw@example.com/", "user name or a password"),
        (&format!("https://example.com/{}", "x".repeat(9000)), "longer than"),
    ] {
        let error = blocked(&open, url);
        assert!(error.reason.contains(why), "{url}: {error}");
        assert!(!error.url.contains("pw") && !error.to_string().contains("pw"), "{error:?}");
    }
    let error = blocked(&open, "https://me:pw@[bad/?key=1");
    assert!(!format!("{error:?}").contains("pw") && !format!("{error:?}").contains("key"));
}

#[test]
fn denial_names_the_rule_to_add() {
    let error = blocked(&EgressPolicy::default(), "https://example.com/v1?q=1");
    assert_eq!(
        error.to_string(),
        "egress blocked: http may not reach example.com:443: no rule allows it: add `example.com:443`"
    );
    let error = blocked(&EgressPolicy::allow_by_default(), "http://[::1]:8080/");
    assert_eq!((error.host.as_str(), error.port), ("::1", Some(8080)));
    assert!(error.reason.ends_with("`[::1]:8080`"), "{error}");
    let again = EgressPolicy::allow_by_default().allow(rule("[::1]:8080"));
    assert!(again.check("http", "http://[::1]:8080/").is_ok());
}

#[test]
fn name_of_a_private_address_needs_a_rule_for_the_address() {
    let named = policy(&["db.example.com"], &[]);
    let request = named.check("http", "http://db.example.com/").unwrap();
    assert_eq!(named.check_addresses(&request, ips(["1.1.1.1", "2606:4700::1111"])), Ok(()));
    for inside in [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fd00::1",
        "ff02::1",
        "::ffff:1.1.1.1",
        "64:ff9b::1.1.1.1",
        "2002:101:101::1",
    ] {
        let error = named.check_addresses(&request, ips([inside])).expect_err(inside);
        let [address] = ips([inside]);
        assert!(error.reason.contains(&format!("resolves to {address}")), "{error}");
        assert_eq!(error.host, "db.example.com");
        assert!(named.check_addresses(&request, ips(["1.1.1.1", inside])).is_err());
        let open = EgressPolicy::allow_by_default();
        assert!(open.check_addresses(&request, ips([inside])).is_err());
    }
    let ruled = policy(&["db.example.com", "10.0.0.0/8:80"], &["10.9.0.0/16"]);
    assert_eq!(ruled.check_addresses(&request, ips(["10.1.2.3"])), Ok(()));
    assert!(ruled.check_addresses(&request, ips(["10.9.0.1"])).is_err());
    let tls = ruled.check("http", "https://db.example.com/").unwrap();
    assert!(ruled.check_addresses(&tls, ips(["10.1.2.3"])).is_err());
    // A rule for addresses does not allow a name that resolves to one of them.
    assert!(policy(&["10.0.0.0/8"], &[]).check("http", "http://db.example.com/").is_err());
}

#[test]
fn deny_rule_matches_addresses_embedded_in_addresses() {
    let ruled = policy(&["a.test", "::/0"], &["10.0.0.0/8", "1.1.1.1"]);
    let request = ruled.check("http", "http://a.test/").unwrap();
    for address in ["::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:a00:1::", "64:ff9b::a00:1"] {
        let error = ruled.check_addresses(&request, ips([address])).expect_err(address);
        assert!(error.reason.contains("deny rule"), "{error}");
    }
    assert_eq!(ruled.check_addresses(&request, ips(["64:ff9b::2.2.2.2"])), Ok(()));
}

#[test]
fn a_redirect_is_checked_again() {
    let ruled = policy(&["a.test", "b.test:443"], &[]);
    let from = ruled.check("http", "https://a.test/dir/page").unwrap();
    let to = |location| ruled.check_redirect(&from, location);
    assert_eq!(to("other").unwrap().url(), "https://a.test/dir/other");
    assert_eq!(to("//b.test/x").unwrap().url(), "https://b.test/x");
    for location in [
        "https://c.test/",
        "//c.test",
        "https://b.test:8443/",
        "http://127.0.0.1/",
        "file:///etc/passwd",
        "https://a.test@c.test/",
        "https://[",
    ] {
        assert!(to(location).is_err(), "{location}");
    }
    let error = to("http://a.test/").unwrap_err();
    assert!(error.reason.contains("encryption"), "{error}");
    assert!(to(&"x".repeat(9000)).is_err());
}

#[test]
fn invalid_rule_error_says_why() {
    for (text, why) in [
        ("", "not a host"),
        ("https://example.com", "it is a URL"),
        ("example.com:", "port"),
        ("example.com:0", "port"),
        ("example.com:65536", "port"),
        ("example.com:http", "port"),
        ("*", "only at the front"),
        ("a.*.com", "only at the front"),
        ("*.1.2.3.4", "no names below"),
        ("10.0.0.1/8", "bits after"),
        ("10.0.0.0/40", "0 to 32"),
        ("[::1", "`]`"),
        ("[::1]443", "unexpected"),
        ("[example.com]:443", "for IPv6"),
        ("::g", "not an IPv6"),
        ("a b", "not a host"),
        ("a..b", "empty part"),
        ("1.2.3.400", "not a host"),
    ] {
        let error = text.parse::<EgressRule>().expect_err(text);
        assert!(error.to_string().contains(why), "{text}: {error}");
    }
}

#[test]
fn environment_variables_make_a_policy() {
    let from = EgressPolicy::from_env_values;
    assert_eq!(from(None, None, None), Ok(EgressPolicy::default()));
    assert_eq!(from(Some("deny"), Some(" , "), Some("")), Ok(EgressPolicy::default()));
    let expected = EgressPolicy::allow_by_default().allow(rule("a.test")).deny(rule("*.b.test:80"));
    assert_eq!(from(Some("allow"), Some("a.test,"), Some(" *.b.test:80 ")), Ok(expected));
    assert!(matches!(from(Some("Allow"), None, None), Err(EgressRuleError::Default { .. })));
    let error = from(None, None, Some("a.test,b.test:x")).unwrap_err();
    let EgressRuleError::Variable { variable, source } = error else { panic!("{error}") };
    assert_eq!(variable, "BELLJAR_EGRESS_DENY");
    assert!(source.to_string().contains("b.test:x"), "{source}");
}

#[test]
fn egress_decision_is_on_the_tape_without_secrets() {
    let recorder = Recorder::new(MemoryTape::default(), Redaction::default());
    let ruled = policy(&["a.test"], &[]);
    let url =
        "https://a.test/x?page=2&api_key=hunter2&api%5Fkey=hunter3&k=sk-aaaaaaaaaaaaaaaaaaaaaaaa&e";
    let allowed = Kind::Egress {
        surface: "http".into(),
        url: "https://a.test/x?page=2&api_key=[redacted]&api_key=[redacted]&k=[redacted]&e".into(),
        host: "a.test".into(),
        port: Some(443),
        allowed: true,
        reason: "allow rule `a.test`".into(),
    };
    assert_eq!(ruled.check("http", url).unwrap().record(&recorder), allowed);
    let error = blocked(&ruled, "https://me:hunter2@b.test/?token=hunter3");
    let Kind::Egress { url, host, allowed, .. } = error.record(&recorder) else { panic!() };
    assert_eq!(url, "https://b.test/?token=[redacted]");
    assert_eq!((host.as_str(), allowed), ("b.test", false));
}

fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "xn--bcher-kva"]), 1..4)
        .prop_map(|parts| format!("{}.test", parts.join(".")))
}

fn rule_text() -> impl Strategy<Value = String> {
    let host = prop_oneof![
        name(),
        name().prop_map(|name| format!("*.{name}")),
        Just("*.test".to_owned()),
        (any::<[u8; 4]>(), 0..=32u32).prop_map(|(bytes, bits)| {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            format!("{}/{bits}", std::net::Ipv4Addr::from_bits(u32::from_be_bytes(bytes) & mask))
        }),
    ];
    (host, prop::option::of(prop::sample::select(vec![80u16, 443])))
        .prop_map(|(host, port)| port.map_or(host.clone(), |port| format!("{host}:{port}")))
}

fn url() -> impl Strategy<Value = String> {
    let host = prop_oneof![
        name(),
        any::<[u8; 4]>().prop_map(|bytes| std::net::Ipv4Addr::from(bytes).to_string()),
    ];
    (prop::sample::select(vec!["http", "https"]), host)
        .prop_map(|(scheme, host)| format!("{scheme}://{host}/"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn deny_wins_and_an_allow_rule_covers_only_its_own_hosts(
        allow in prop::collection::vec(rule_text(), 0..4),
        deny in prop::collection::vec(rule_text(), 0..3),
        more in rule_text(),
        url in url(),
        open in any::<bool>(),
    ) {
        let start = if open { EgressPolicy::allow_by_default() } else { EgressPolicy::default() };
        let denying = deny.iter().fold(start, |policy, text| policy.deny(rule(text)));
        let ruled = allow.iter().fold(denying.clone(), |policy, text| policy.allow(rule(text)));
        let before = ruled.check("http", &url).is_ok();
        let after = ruled.clone().allow(rule(&more)).check("http", &url).is_ok();
        let alone = EgressPolicy::default().allow(rule(&more)).check("http", &url).is_ok();
        // An additional allow rule allows only requests that it allows alone.
        prop_assert!(after == before || (after && alone));
        // An additional deny rule allows nothing, and blocks the requests that it names.
        let denied = ruled.clone().deny(rule(&more)).check("http", &url).is_ok();
        prop_assert!(!denied || (before && !alone));
        // An allow rule does not override a deny rule.
        let is_denied = deny.iter().any(|text| {
            EgressPolicy::default().allow(rule(text)).check("http", &url).is_ok()
        });
        prop_assert!(!(is_denied && after));
    }

    #[test]
    fn egress_rule_display_parses_back(text in rule_text()) {
        prop_assert_eq!(rule(&rule(&text).to_string()), rule(&text));
    }

    #[test]
    fn no_text_panics_and_an_allowed_url_stays_allowed(text in "\\PC{0,40}", port in any::<u16>()) {
        let _ = text.parse::<EgressRule>();
        let _ = format!("[{text}]:{port}").parse::<EgressRule>();
        let open = EgressPolicy::allow_by_default();
        if let Ok(allowed) = open.check("http", &format!("http://{text}:{port}/{text}")) {
            let again = open.check("http", allowed.url()).unwrap();
            prop_assert_eq!(again, allowed);
        }
    }
}
