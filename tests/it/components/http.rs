//! `wasi:http`: what components ask of servers, through their host (`tests/guests/rust/http-calls` makes the requests).
#![cfg(feature = "http")]

use std::io::Write as _;
use std::time::Duration;

use belljar::host::{HostMock, SessionHost};
use belljar::net::{EgressPolicy, HttpClient};
use belljar::{Command, Machine, Outcome, Output, Program};
use serde_json::json;

use super::text;
use crate::http::{Answer, Server};
use crate::support::{belljar, engine, package, stderr, stdout};

const HELLO: &str = "HTTP/1.1 200 OK\r\nx-one: 1\r\ncontent-length: 5\r\n\r\nhello";

/// What the program prints of [`HELLO`].
const HELLO_PRINTED: &str = "status 200\nx-one: 1\ncontent-length: 5\n5 bytes: hello\n\
    trailers Some(Ok(Ok(false)))\ntrailers Some(Err(()))\n";

fn command(words: &[&str]) -> Command {
    let program = package().join("tests/guests/http_calls.wasm");
    let mut command = Command::new(&Program::load(engine(), program).unwrap());
    command.args(words);
    command
}

fn output_of(host: SessionHost, words: &[&str]) -> Output {
    let mut machine = Machine::builder().host(host).build().unwrap();
    command(words).output(&mut machine).unwrap()
}

/// What the program prints, under `policy`.
fn printed_under(policy: EgressPolicy, words: &[&str]) -> String {
    let host = SessionHost::builder().http(HttpClient::new(policy)).build();
    let output = output_of(host, words);
    assert_eq!(*output.status.outcome(), Outcome::Exited(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn printed(server: &Server, words: &[&str]) -> String {
    printed_under(server.policy(), words)
}

/// The message of the trap that the program ends with.
fn trap(words: &[&str]) -> String {
    let server = Server::saying(&[HELLO]);
    let host = SessionHost::builder().http(HttpClient::new(server.policy())).build();
    let words: Vec<&str> = words.iter().copied().chain([&*server.url("/").leak()]).collect();
    match output_of(host, &words).status.outcome() {
        Outcome::Trapped(trap) => trap.message.clone(),
        outcome => panic!("{outcome:?}, not a trap"),
    }
}

#[test]
fn request_without_a_body_is_answered() {
    let server = Server::saying(&[HELLO]);
    assert_eq!(printed(&server, &["fetch", "GET", &server.url("/a?b=c")]), HELLO_PRINTED);
    assert!(server.request().starts_with("GET /a?b=c HTTP/1.1\r\n"));
}

#[test]
fn body_and_headers_of_a_request_reach_the_server() {
    let server = Server::saying(&[HELLO]);
    let body = "x".repeat(10_000);
    let headers = ["X-Mine: yes", "Content-Length: 10000"];
    let words = ["fetch", "POST", &server.url("/"), &body, headers[0], headers[1]];
    assert_eq!(printed(&server, &words), HELLO_PRINTED);
    let sent = server.request();
    assert!(sent.starts_with("POST / ") && sent.contains("x-mine: yes") && sent.ends_with(&body));
    assert_eq!(sent.matches("content-length").count(), 1, "{sent}");
}

#[test]
fn body_that_is_finished_before_the_request_is_handed_over_is_sent() {
    let server = Server::saying(&[HELLO]);
    assert_eq!(printed(&server, &["early", &server.url("/")]), HELLO_PRINTED);
    assert!(server.request().ends_with("early"));
}

#[test]
fn request_that_nobody_waits_for_is_sent() {
    let server = Server::saying(&[HELLO]);
    assert_eq!(printed(&server, &["fire", &server.url("/fire")]), "");
    assert!(server.request().starts_with("GET /fire "));
}

/// Some servers refuse a request of unknown length.
#[test]
fn post_without_a_body_has_a_length() {
    let server = Server::saying(&[HELLO]);
    assert_eq!(printed(&server, &["fetch", "POST", &server.url("/")]), HELLO_PRINTED);
    let sent = server.request();
    assert!(sent.contains("content-length: 0") && !sent.contains("transfer-encoding"), "{sent}");
}

#[test]
fn body_of_another_length_than_its_header_is_not_sent() {
    let server = Server::saying(&[]);
    let words = ["fetch", "POST", &server.url("/"), "abc", "content-length: 4"];
    assert_eq!(
        printed(&server, &words),
        "not finished: ErrorCode::HttpRequestBodySize(Some(3))\n\
         error ErrorCode::HttpRequestBodySize(Some(3))\n"
    );
}

#[test]
fn body_that_is_dropped_unfinished_is_not_sent() {
    let server = Server::saying(&[]);
    let found = printed(&server, &["abandoned", &server.url("/")]);
    let mut lines = found.lines();
    assert_eq!(lines.next(), Some("true"), "it has no answer before");
    assert!(lines.next().unwrap().contains("was dropped before it was finished"), "{found}");
    assert_eq!(lines.next(), Some("Some(true)"), "the answer was taken");
}

#[test]
fn trailers_of_a_request_are_refused() {
    let server = Server::saying(&[]);
    let found = printed(&server, &["trailers", &server.url("/")]);
    assert_eq!(found.matches("belljar sends no trailers of requests").count(), 2, "{found}");
}

#[test]
fn redirect_is_an_answer() {
    let moved = "HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n";
    let server = Server::saying(&[moved]);
    let found = printed(&server, &["fetch", "GET", &server.url("/a")]);
    assert!(found.starts_with("status 302\nlocation: /b\n"), "{found}");
}

#[test]
fn long_answer_is_read_as_it_comes() {
    let long = "x".repeat(3_000_000);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{long}", long.len());
    let server = Server::saying(&[&answer]);
    let found = printed(&server, &["fetch", "GET", &server.url("/")]);
    assert!(found.contains("\n3000000 bytes: xxx"), "{found}");
}

#[test]
fn answer_of_any_bytes_is_kept() {
    let server = Server::start(vec![Box::new(|connection, _| {
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n\xff\x00a");
    })]);
    let found = printed(&server, &["fetch", "GET", &server.url("/")]);
    assert!(found.contains("\n3 bytes: \u{fffd}\0a\n"), "{found:?}");
}

#[test]
fn answer_that_ends_early_has_a_code() {
    let server = Server::saying(&["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello"]);
    let found = printed(&server, &["fetch", "GET", &server.url("/")]);
    assert!(found.contains("5 bytes, then Some(ErrorCode::HttpResponseIncomplete)"), "{found}");
}

#[test]
fn failures_have_codes() {
    let denied = printed_under(EgressPolicy::default(), &["fetch", "GET", "http://127.0.0.1:1/"]);
    assert_eq!(denied, "error ErrorCode::HttpRequestDenied\n");

    let nobody = EgressPolicy::default().allow("127.0.0.1:1".parse().unwrap());
    let refused = printed_under(nobody, &["fetch", "GET", "http://127.0.0.1:1/"]);
    assert_eq!(refused, "error ErrorCode::ConnectionRefused\n");

    let server = Server::saying(&["hello\r\n\r\n", HELLO]);
    let found = printed(&server, &["fetch", "GET", &server.url("/")]);
    assert_eq!(found, "error ErrorCode::HttpProtocolError\n");

    let named = EgressPolicy::default().allow("nobody.invalid".parse().unwrap());
    let found = printed_under(named, &["fetch", "GET", "http://nobody.invalid/"]);
    assert!(found.starts_with("error ErrorCode::DnsError("), "{found}");

    let long = format!("http://a/{}", "x".repeat(8190));
    let found = printed_under(EgressPolicy::default(), &["fetch", "GET", &long]);
    assert_eq!(found, "error ErrorCode::HttpRequestUriTooLong\n");

    let any = EgressPolicy::default;
    for (method, url, code) in [
        ("CONNECT", "http://a/", "HttpRequestMethodInvalid"),
        ("GET", "ftp://a/", "HttpProtocolError"),
        ("GET", "http:///a", "HttpRequestUriInvalid"),
    ] {
        let found = printed_under(any(), &["fetch", method, url]);
        assert_eq!(found, format!("error ErrorCode::{code}\n"), "{method} {url}");
    }
}

#[test]
fn first_byte_timeout_ends_a_request() {
    let stalled: Answer = Box::new(|_, _| std::thread::sleep(Duration::from_secs(20)));
    let server = Server::start(vec![stalled]);
    let found = printed(&server, &["first-byte", &server.url("/"), "100"]);
    assert_eq!(
        found,
        "Some(9000000000) Some(100000000) None\nerror ErrorCode::HttpResponseTimeout\n"
    );
    let found = printed(&server, &["between-bytes"]);
    assert_eq!(found, "Err(())\n", "there is no such timeout");
}

#[test]
fn answers_that_nobody_reads_are_closed() {
    // At most 16 can be open.
    let server = Server::saying(&[HELLO; 40]);
    assert_eq!(printed(&server, &["ignored", &server.url("/"), "40"]), "done\n");
}

#[test]
fn answers_that_an_ended_process_left_open_are_closed() {
    // At most 16 can be open.
    let server = Server::saying(&[HELLO; 40]);
    let host = SessionHost::builder().http(HttpClient::new(server.policy())).build();
    let mut machine = Machine::builder().host(host).build().unwrap();
    for run in 0..20 {
        let output = command(&["left", &server.url("/")]).output(&mut machine).unwrap();
        let printed = String::from_utf8_lossy(output.stdout.as_ref());
        assert_eq!(printed, "left open 200\n", "run {run}: {output:?}");
        assert!(matches!(output.status.outcome(), Outcome::Trapped(_)), "{output:?}");
    }
}

#[test]
fn waiting_for_the_answer_of_an_unfinished_request_is_a_deadlock() {
    let server = Server::saying(&[HELLO]);
    let host = SessionHost::builder().http(HttpClient::new(server.policy())).build();
    let output = output_of(host, &["unfinished", &server.url("/")]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ready false, [1] of both\n");
    assert!(matches!(output.status.outcome(), Outcome::Deadlock(_)), "{output:?}");
}

#[test]
fn answer_is_taken_once() {
    let server = Server::saying(&[HELLO]);
    assert_eq!(printed(&server, &["twice", &server.url("/")]), "Some(Err(()))\n");
}

#[test]
fn fields_are_checked() {
    let wanted = "append Ok(())
append Ok(())
set Ok(())
get [[49], [50]] []
has true false
delete Ok(())
entries [(\"A\", [49]), (\"a\", [50])]
space Err(HeaderError::InvalidSyntax)
line Err(HeaderError::InvalidSyntax)
host Err(HeaderError::Forbidden)
list Ok(()) Err(HeaderError::InvalidSyntax) Err(HeaderError::Forbidden)
copy Ok(()) 2
immutable Err(HeaderError::Immutable) Err(HeaderError::Immutable)
";
    assert_eq!(printed_under(EgressPolicy::default(), &["fields"]), wanted);
}

#[test]
fn parts_of_a_request_are_checked() {
    let wanted = "Method::Get None
None None
method Err(())
path Err(())
path Err(())
scheme Err(())
authority Err(())
authority Err(())
method Ok(()) Method::Patch
path Ok(()) Some(\"/?a\")
";
    assert_eq!(printed_under(EgressPolicy::default(), &["parts"]), wanted);
}

#[test]
fn resource_that_ends_before_its_children_is_a_trap() {
    for word in ["write-after-finish", "finish-before-stream", "handle-before-headers"] {
        assert_eq!(trap(&[word]), "a resource was dropped before its children", "{word}");
    }
}

#[test]
fn mock_answers_instead_of_a_server() {
    let host = SessionHost::builder().build();
    let mock = HostMock::result(json!({ "status": 404, "body": "gone" }));
    host.handle().mock("net", "http", mock);
    let found = text(&output_of(host, &["fetch", "GET", "http://example.com/"]).stdout);
    assert!(found.starts_with("status 404\n4 bytes: gone\n"), "{found}");

    let host = SessionHost::builder().build();
    host.handle().mock("net", "http", HostMock::result(json!("no")));
    let found = text(&output_of(host, &["fetch", "GET", "http://example.com/"]).stdout);
    assert!(found.contains("the host's answer is not one of net.http"), "{found}");
}

#[test]
fn machine_without_a_host_denies_requests() {
    let mut machine = Machine::builder().build().unwrap();
    let output = command(&["fetch", "GET", "http://a/"]).output(&mut machine).unwrap();
    assert_eq!(text(&output.stdout), "error ErrorCode::HttpRequestDenied\n");
}

#[test]
fn body_of_a_request_counts_as_memory() {
    let body = "x".repeat(1 << 20);
    let outcome = |url: &str, memory_bytes_max| {
        let limits = belljar::Limits { memory_bytes_max, ..belljar::Limits::default() };
        let machine = Machine::builder().host(SessionHost::default()).limits(limits);
        let output = command(&["fetch", "POST", url, &body]).output(&mut machine.build().unwrap());
        output.map(|output| output.status.outcome().clone()).ok()
    };
    // Its body is not written, as the request is refused before.
    let refused = |bytes: &u64| outcome("ftp://a/", *bytes) == Some(Outcome::Exited(0));
    let enough = (16..1024).map(|count| count << 16).find(refused).unwrap();
    assert_eq!(outcome("http://a/", enough), Some(Outcome::Limit(belljar::Limit::Memory)));
    assert_eq!(outcome("http://a/", enough + (1 << 20)), Some(Outcome::Exited(0)));
}

#[test]
fn credential_is_hidden_and_replay_makes_no_request() {
    const SECRET: &str = "correct-horse-battery";
    let folder = tempfile::tempdir().unwrap();
    let echo = format!("HTTP/1.1 200 OK\r\ncontent-length: 23\r\n\r\n<{SECRET}>");
    let server = Server::saying(&[&echo]);
    let (guests, url) = (package().join("tests/guests"), server.url("/"));
    let tape = folder.path().join("run.tape");
    let address = format!("127.0.0.1:{}", server.port);
    let credential = format!("{address}=Authorization: Bearer $MY_TOKEN");
    let mut record = belljar(folder.path());
    record.env("MY_TOKEN", SECRET).arg("record").arg("--tape").arg(&tape);
    record.args(["--allow-net", &address, "--credential", &credential, "--toolchain"]).arg(&guests);
    let recorded = record.args(["http_calls", "fetch", "GET", &url]).output().unwrap();
    assert!(stdout(&recorded).contains("<[redacted]>"), "{}", stderr(&recorded));
    assert!(server.request().contains(&format!("authorization: Bearer {SECRET}")));
    assert!(!std::fs::read_to_string(&tape).unwrap().contains(SECRET));

    drop(server);
    let mut replay = belljar(folder.path());
    let replayed = replay.args(["replay", "--toolchain"]).arg(&guests).arg(&tape).output().unwrap();
    assert!(replayed.status.success(), "{}", stderr(&replayed));
    assert_eq!(stdout(&replayed), stdout(&recorded));
}

#[test]
fn command_line_denies_requests_that_it_does_not_allow() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::saying(&[]);
    let mut run = belljar(folder.path());
    run.arg("run").arg(package().join("tests/guests/http_calls.wasm"));
    let denied = run.args(["fetch", "GET", &server.url("/")]).output().unwrap();
    assert_eq!(stdout(&denied), "error ErrorCode::HttpRequestDenied\n", "{}", stderr(&denied));
}
