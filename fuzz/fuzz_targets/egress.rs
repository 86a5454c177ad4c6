//! A rule of an egress policy, and an address: a denied address is denied however it is written.
#![no_main]

use belljar::net::{EgressPolicy, EgressRule};
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|text: &str| -> Corpus {
    let Some((rule, url)) = text.split_once('\n') else { return Corpus::Reject };
    let Ok(rule) = rule.parse::<EgressRule>() else { return Corpus::Keep };
    let shown = rule.to_string();
    let again: EgressRule = shown.parse().expect("a rule that is shown can be read");
    assert_eq!(shown, again.to_string());
    let denied = EgressPolicy::allow_by_default().deny(rule.clone()).check("fuzz", url);
    let allowed = EgressPolicy::default().allow(rule).check("fuzz", url);
    assert!(denied.is_err() || allowed.is_err(), "{shown} allows and does not deny {url}");
    Corpus::Keep
});
