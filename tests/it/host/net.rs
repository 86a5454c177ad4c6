//! `net.http`: requests that the host makes for programs.

use std::time::Duration;

use belljar::Machine;
use belljar::host::{HostError, SessionHost};
use belljar::net::EgressPolicy;
use belljar::net::{HttpClient, HttpLimits};
use belljar::tape::{Kind, MemoryTape, Recorder, Redaction};
use serde_json::{Value, json};

use crate::http::Server;
use crate::support::{belljar, package, stderr, stdout};

const HELLO: &str = "HTTP/1.1 200 OK\r\nx-one: 1\r\ncontent-length: 5\r\n\r\nhello";

fn ask(policy: EgressPolicy, name: &str, params: &Value) -> Result<Value, HostError> {
    let host = SessionHost::builder().http(HttpClient::new(policy)).build();
    let handle = host.handle();
    let mut machine = Machine::builder().host(host).build().unwrap();
    handle.call(&mut machine, name, params)
}

#[test]
fn program_makes_a_request_through_the_host() {
    let server = Server::saying(&[HELLO]);
    let params = json!({
        "url": server.url("/a"), "method": "POST", "headers": {"x-mine": "yes"}, "body": "data",
    });
    let answer = ask(server.policy(), "net.http", &params).unwrap();
    assert_eq!((&answer["status"], &answer["body"]), (&json!(200), &json!("hello")));
    assert_eq!(answer["headers"][0], json!(["x-one", "1"]));
    let sent = server.request();
    assert!(sent.starts_with("POST /a ") && sent.contains("x-mine: yes") && sent.ends_with("data"));
}

#[test]
fn non_utf8_bodies_are_base64_in_both_directions() {
    let server = Server::start(vec![Box::new(|connection, _| {
        use std::io::Write;
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\xff\x00");
    })]);
    let params = json!({ "url": server.url("/"), "method": "PUT", "body_base64": "aGk=" });
    let answer = ask(server.policy(), "net.http", &params).unwrap();
    assert_eq!((&answer["body_base64"], &answer["body"]), (&json!("/wA="), &Value::Null));
    assert!(server.request().ends_with("\r\n\r\nhi"));
}

#[test]
fn blocked_request_makes_no_connection_and_is_on_the_tape() {
    let server = Server::saying(&[HELLO]);
    let (tape, host) = (MemoryTape::default(), SessionHost::default());
    let recorder = Recorder::new(tape.clone(), Redaction::default());
    let handle = host.handle();
    let machine = Machine::builder().host(host).tape(recorder);
    let mut machine = machine.build().unwrap();
    let blocked = handle.call(&mut machine, "net.http", &json!({ "url": server.url("/") }));
    assert!(matches!(blocked, Err(HostError::EgressBlocked { .. })), "{blocked:?}");
    let is_denial = |kind: &Kind| matches!(kind, Kind::Egress { allowed: false, .. });
    assert!(tape.records().iter().any(|record| is_denial(&record.kind)));
}

#[test]
fn a_long_answer_is_read_piece_by_piece() {
    let long = "x".repeat(200_000);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{long}", long.len());
    let server = Server::saying(&[&answer]);
    let host = SessionHost::builder().http(HttpClient::new(server.policy())).build();
    let handle = host.handle();
    let mut machine = Machine::builder().host(host).build().unwrap();
    let mut ask = |name: &str, params: Value| handle.call(&mut machine, name, &params);
    let head = ask("net.http", json!({ "url": server.url("/"), "stream": true })).unwrap();
    assert_eq!(
        (&head["status"], &head["handle"], &head["body"]),
        (&json!(200), &json!(1), &Value::Null)
    );
    let mut whole = String::new();
    loop {
        let piece = ask("net.read", json!({ "handle": 1, "max_bytes": 50_000 })).unwrap();
        whole.push_str(piece["body"].as_str().unwrap());
        if piece["end"] == json!(true) {
            break;
        }
    }
    assert!(whole == long);
    let ended = ask("net.close", json!({ "handle": 1 })).unwrap_err();
    assert!(ended.to_string().contains("no open response 1"), "{ended}");
}

#[test]
fn limits_and_invalid_parameters_give_named_errors() {
    let server = Server::saying(&[HELLO]);
    let limits = HttpLimits { response_bytes_max: 3, ..HttpLimits::default() };
    let host = SessionHost::builder().http(HttpClient::new(server.policy()).limits(limits)).build();
    let handle = host.handle();
    let mut machine = Machine::builder().host(host).build().unwrap();
    let too_long = handle.call(&mut machine, "net.http", &json!({ "url": server.url("/") }));
    assert!(too_long.unwrap_err().to_string().contains("3 bytes"));
    for (params, expected) in [
        (json!({}), "url"),
        (json!({ "url": "http://a/", "verb": "GET" }), "verb"),
        (json!({ "url": "http://a/", "body": "", "body_base64": "" }), "body_base64"),
        (json!({ "url": "http://a/", "body_base64": "*" }), "base64"),
        (json!({ "url": "http://a/", "method": "G ET" }), "method"),
        (json!({ "url": "http://a/", "headers": { "host": "b" } }), "host"),
    ] {
        let error = ask(EgressPolicy::allow_by_default(), "net.http", &params).unwrap_err();
        assert!(matches!(error, HostError::Params { .. }), "{params}: {error:?}");
        assert!(error.to_string().contains(expected), "{params}: {error}");
    }
    let stalled = Server::start(vec![Box::new(|_, _| std::thread::sleep(Duration::from_secs(20)))]);
    let params = json!({ "url": stalled.url("/"), "timeout_ms": 200 });
    let error = ask(stalled.policy(), "net.http", &params).unwrap_err();
    assert!(error.to_string().contains("200 ms"), "{error}");
}

#[test]
fn credential_is_hidden_from_the_program_and_replay_needs_no_server() {
    const SECRET: &str = "correct-horse-battery";
    let folder = tempfile::tempdir().unwrap();
    let echo = format!("HTTP/1.1 200 OK\r\ncontent-length: 23\r\n\r\n<{SECRET}>");
    let server = Server::saying(&[&echo]);
    let address = format!("127.0.0.1:{}", server.port);
    let tape = folder.path().join("run.tape");
    let params = json!({ "url": server.url("/") }).to_string();
    let credential = format!("{address}=Authorization: Bearer $MY_TOKEN");
    let guests = package().join("guest-examples");
    let mut record = belljar(folder.path());
    record.env("MY_TOKEN", SECRET).arg("record").arg("--tape").arg(&tape);
    record.args(["--allow-net", &address, "--credential", &credential, "--toolchain"]).arg(&guests);
    let recorded = record.args(["ask", "net.http", &params]).output().unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    assert!(stdout(&recorded).contains("<[redacted]>"), "{}", stdout(&recorded));
    assert!(server.request().contains(&format!("authorization: Bearer {SECRET}")));
    drop(server);
    let replayed = belljar(folder.path())
        .args(["replay", "--toolchain"])
        .arg(&guests)
        .arg(&tape)
        .output()
        .unwrap();
    assert!(replayed.status.success(), "{}", stderr(&replayed));
    assert_eq!(stdout(&replayed), stdout(&recorded));
    let mut files = vec![tape.clone()];
    let contents = folder.path().join("run.tape.cas");
    files
        .extend(std::fs::read_dir(contents).into_iter().flatten().map(|file| file.unwrap().path()));
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(SECRET), "{}", file.display());
    }
}

#[test]
fn programs_have_no_network_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::saying(&[HELLO]);
    let params = json!({ "url": server.url("/") }).to_string();
    let guests = package().join("guest-examples");
    let run = |options: &[&str]| {
        let mut command = belljar(folder.path());
        command.arg("run").args(options).arg("--toolchain").arg(&guests);
        command.args(["ask", "net.http", &params]).output().unwrap()
    };
    let blocked = run(&[]);
    assert_eq!(blocked.status.code(), Some(1));
    assert!(stdout(&blocked).contains("egress_blocked"), "{}", stdout(&blocked));
    for bad in
        ["x", "127.0.0.1=X-Key", "127.0.0.1=X-Key: literal-secret", "127.0.0.1=X: $NOT_SET_AT_ALL"]
    {
        let refused = run(&["--credential", bad]);
        assert_eq!(refused.status.code(), Some(2), "{bad}");
        assert!(stderr(&refused).contains("--credential"), "{}", stderr(&refused));
    }
}

/// A proxy would see every request, and would resolve names itself.
#[test]
fn proxy_variables_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::saying(&[HELLO]);
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://127.0.0.1:{}", proxy.local_addr().unwrap().port());
    let guests = package().join("guest-examples");
    let mut command = belljar(folder.path());
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    {
        command.env(name, &at);
    }
    command.env_remove("no_proxy").env_remove("NO_PROXY");
    command.args(["run", "--allow-net", "127.0.0.1", "--toolchain"]).arg(&guests);
    let params = json!({ "url": server.url("/"), "timeout_ms": 5000 }).to_string();
    let output = command.args(["ask", "net.http", &params]).output().unwrap();
    assert!(stdout(&output).contains("hello"), "{}", stdout(&output));
    assert!(server.request().starts_with("GET / "));
    proxy.set_nonblocking(true).unwrap();
    assert!(proxy.accept().is_err(), "the proxy was asked");
}
