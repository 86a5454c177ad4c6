//! A pattern of a command policy, and a command: a command that begins with the words of the pattern does not run.
#![no_main]

use belljar::host::{CommandPolicy, SessionHost};
use belljar_fuzz::builder;
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::json;

fuzz_target!(|text: &str| -> Corpus {
    let Some((pattern, command)) = text.split_once('\n') else { return Corpus::Reject };
    if command.len() > 1024 || command.contains('\0') {
        return Corpus::Reject;
    }
    let Ok(policy) = CommandPolicy::new().deny(pattern) else { return Corpus::Keep };
    let host = SessionHost::builder().policy(policy).build();
    let handle = host.handle();
    let mut machine = builder().host(host).build().expect("the mounts are fine");
    let params = json!({ "mode": "shell", "command": command, "timeout_ms": 1000 });
    let _ = handle.call(&mut machine, "process.exec", &params);
    // The words as given.
    let argv: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
    if !argv.is_empty() {
        let params = json!({ "mode": "argv", "argv": argv, "timeout_ms": 1000 });
        let answer = handle.call(&mut machine, "process.exec", &params);
        let words: Vec<&str> = pattern.split(' ').filter(|word| !word.is_empty()).collect();
        let is_plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if words.iter().all(is_plain) && argv.starts_with(&words) {
            let is_blocked = answer.as_ref().is_ok_and(|answer| answer["status"] == "blocked");
            assert!(is_blocked, "{pattern:?} lets {argv:?} run: {answer:?}");
        }
    }
    Corpus::Keep
});
