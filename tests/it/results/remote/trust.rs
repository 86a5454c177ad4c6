//! Whose results are taken from a server: `--remote-trust` and `--remote-sign`.

use std::path::Path;

use super::Machine;
use super::server::{Fault, Server};
use crate::support::stderr;

/// A pair of keys in the folder of `machine`: the paths of the secret and of the public one.
fn keys(machine: &Machine, name: &str) -> (String, String) {
    let folder = machine.0.0.path();
    let secret = folder.join(name).to_str().unwrap().to_owned();
    let made = machine.0.belljar(&["keys", "generate", "--no-password", &secret]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let public = format!("{secret}.pub");
    assert!(Path::new(&public).exists());
    (secret, public)
}

#[test]
fn only_what_a_trusted_key_signed_is_taken() {
    signed_results_are_shared_over(&Server::start(Fault::None).address);
}

/// A build whose results are signed on one machine, and taken by others if they trust the key.
pub fn signed_results_are_shared_over(address: &str) {
    let (first, second, third) = (Machine::new(), Machine::new(), Machine::new());
    let (ours, of_ours) = keys(&first, "ours");
    let (_, of_others) = keys(&first, "others");
    let sign = format!("--remote-sign={ours}");
    let trust = |key: &str| format!("--remote-trust={key}");

    let (counts, printed) = first.build(address, &["--remote-upload", &sign]);
    assert_eq!(counts, [0, 21, 0, 21]);
    let (counts, same) = second.build(address, &[&trust(&of_ours)]);
    assert_eq!(counts, [21, 0, 21, 0], "the key that signed them is trusted");
    assert_eq!(printed, same);
    // One of two is enough; who trusts no key takes all.
    let both = [trust(&of_others), trust(&of_ours)];
    assert_eq!(Machine::new().build(address, &[&both[0], &both[1]]).0, [21, 0, 21, 0]);
    assert_eq!(Machine::new().build(address, &[]).0, [21, 0, 21, 0]);

    let (report, same, said) =
        third.run(address, &["sh", "--apply", &trust(&of_others), "build.sh"]);
    let remote = &report["results"]["remote"];
    assert_eq!((&remote["fetched"], &report["results"]["hits"]), (&0.into(), &0.into()));
    assert_eq!(remote["untrusted"], 21, "{said}");
    assert!(
        said.contains("21 traces of the remote cache not taken: no trusted key signed"),
        "{said}"
    );
    assert_eq!(printed, same);
}

#[test]
fn who_signs_takes_only_what_they_signed_and_signs_what_others_left_unsigned() {
    let server = Server::start(Fault::None);
    let (anybody, signer, reader) = (Machine::new(), Machine::new(), Machine::new());
    let (secret, public) = keys(&signer, "key");
    assert_eq!(anybody.build(&server.address, &["--remote-upload"]).0, [0, 21, 0, 21]);
    let sign = ["--remote-upload", &format!("--remote-sign={secret}")];
    assert_eq!(signer.build(&server.address, &sign).0, [0, 21, 0, 21]);
    let trust = format!("--remote-trust={public}");
    assert_eq!(reader.build(&server.address, &[&trust]).0, [21, 0, 21, 0]);
    // The results of others are still there for others.
    assert_eq!(Machine::new().build(&server.address, &[]).0, [21, 0, 21, 0]);
}

/// A server that makes up results: without keys they are believed, with keys they are not, whatever signature they have.
#[test]
fn made_up_results_are_not_taken_from_a_server_that_lies() {
    let right = Server::start(Fault::None);
    let first = Machine::new();
    let (secret, public) = keys(&first, "key");
    let sign = ["--remote-upload", &format!("--remote-sign={secret}")];
    let (counts, printed) = first.build(&right.address, &sign);
    assert_eq!(counts, [0, 21, 0, 21]);

    let liar = right.turned(Fault::Lies);
    let cat = ["run", "cat", "in/1"];
    first.run(&right.address, &[&cat[..1], &sign, &cat[1..]].concat());
    let (report, lied, _) = Machine::new().run(&liar.address, &cat);
    assert_eq!(report["results"]["hits"], 1);
    assert_eq!(lied, "lies of 1\nand more\n", "the server can lie to who trusts it");

    let trust = format!("--remote-trust={public}");
    let (report, told, _) = Machine::new().run(&liar.address, &["run", &trust, "cat", "in/1"]);
    assert_eq!((&report["results"]["hits"], told.as_str()), (&0.into(), "text of 1\nand more\n"));
    for fault in [Fault::Lies, Fault::Mixed, Fault::Garbage] {
        let server = right.turned(fault);
        let machine = Machine::new();
        let args = ["sh", "--apply", &trust, "build.sh"];
        let (report, told, said) = machine.run(&server.address, &args);
        assert_eq!(told, printed, "{fault:?}: {said}");
        // Signed traces at the places of others may still be right ones.
        let fetched = report["results"]["remote"]["fetched"].as_u64().unwrap();
        assert!(fetched == 0 || fault == Fault::Mixed, "{fault:?}: {said}");
    }
}

#[test]
fn keys_that_are_none_are_told() {
    let machine = Machine::new();
    let (secret, public) = keys(&machine, "key");
    for (option, message) in [
        (format!("--remote-trust={secret}"), "is not a public key; the one beside it is"),
        ("--remote-trust=RWQ".to_owned(), "--remote-trust: RWQ is no such file"),
        (format!("--remote-sign={public}"), "it is a public key, which verifies"),
        ("--remote-sign=nothing".to_owned(), "--remote-sign: nothing"),
    ] {
        let args = ["run", "--remote-cache=grpc://127.0.0.1:9", "--remote-upload", &option, "true"];
        let output = machine.0.belljar(&args);
        assert_eq!(output.status.code(), Some(2), "{option}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{option}: {}", stderr(&output));
    }
}
