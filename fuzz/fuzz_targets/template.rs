//! A template, and values for it.
#![no_main]

use belljar::host::SessionHost;
use belljar_fuzz::builder;
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::{Value, json};

fuzz_target!(|text: &str| -> Corpus {
    let Some((values, template)) = text.split_once('\n') else { return Corpus::Reject };
    let Ok(values) = serde_json::from_str::<Value>(values) else { return Corpus::Reject };
    let host = SessionHost::default();
    let handle = host.handle();
    let mut machine = builder().host(host).build().expect("the mounts are fine");
    let params = json!({ "text": template, "vars": values });
    let first = handle.call(&mut machine, "template.render", &params).map_err(|it| it.to_string());
    let second = handle.call(&mut machine, "template.render", &params).map_err(|it| it.to_string());
    assert_eq!(first, second);
    if let Err(error) = first {
        assert!(
            !error.contains("unknown field"),
            "the parameters of the target are wrong: {error}"
        );
    }
    Corpus::Keep
});
