//! Chat endpoints over HTTP, on servers of this process, some of which violate the protocol.
#![cfg(feature = "http")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use belljar::llm::{
    FailureKind, HttpProvider, LlmError, LlmFailure, LlmProvider, Record, Replay, Taped,
};
use belljar::net::EgressPolicy;
use belljar::tape::{Kind, MemoryTape, Recorder, Redaction};
use serde_json::{Value, json};

use super::llm::{ask, stream};

/// A key that [`Redaction`] does not recognise.
const KEY: &str = "correct-horse-battery";

const ANSWER: &str = r#"{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":"hello","refusal":null,"tool_calls":[{"id":"t"}]},"finish_reason":"stop"}],"usage":{"total_tokens":3}}"#;

/// A server that takes one connection, reads one request and hands the connection to `answer`.
struct Server {
    port: u16,
    requests: Receiver<String>,
}

impl Server {
    fn start(answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut bytes = Vec::new();
            while !is_whole(&bytes) {
                let mut piece = [0; 4096];
                match connection.read(&mut piece) {
                    Ok(0) | Err(_) => return,
                    Ok(count) => bytes.extend_from_slice(&piece[..count]),
                }
            }
            let _ = sender.send(String::from_utf8(bytes).unwrap());
            answer(&mut connection);
        });
        Self { port, requests }
    }

    fn saying(text: String) -> Self {
        Self::start(move |connection| {
            // A client may close the connection early.
            let _ = connection.write_all(text.as_bytes());
        })
    }

    fn policy(&self) -> EgressPolicy {
        EgressPolicy::default().allow(format!("127.0.0.1:{}", self.port).parse().unwrap())
    }

    fn provider(&self) -> HttpProvider {
        let base = format!("http://127.0.0.1:{}/v1/", self.port);
        HttpProvider::new(base, self.policy()).api_key(KEY).timeout(Duration::from_secs(20))
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.to_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length:").map(|value| value.trim().parse::<usize>().unwrap())
    });
    body.len() >= length.unwrap_or(0)
}

fn ok(body: &str) -> String {
    response("200 OK", "", body)
}

fn response(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}connection: close\r\n\r\n{body}"
    )
}

fn events(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
}

fn delta(text: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"delta": {"content": text}}]}))
}

fn completed(text: String) -> LlmFailure {
    Server::saying(text).provider().complete(&ask("hi")).unwrap_err().failure()
}

fn streamed(text: &str) -> LlmFailure {
    stream(&mut Server::saying(events(text)).provider(), &ask("hi")).1.unwrap_err().failure()
}

#[test]
fn endpoint_completes_a_request() {
    let server = Server::saying(ok(ANSWER));
    let mut request = ask("hi");
    request.extra.insert("seed".into(), json!(1));
    let answer = server.provider().complete(&request).unwrap();
    assert_eq!(answer.content, "hello");
    assert_eq!(answer.finish_reason.as_deref(), Some("stop"));
    assert_eq!(answer.usage, Some(json!({"total_tokens": 3})));
    assert_eq!(Value::Object(answer.extra), json!({"tool_calls": [{"id": "t"}]}));

    let asked = server.requests.recv().unwrap();
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("Bearer {KEY}")), "{head}");
    let mut expected = request.to_json();
    expected["stream"] = false.into();
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
}

#[test]
fn an_endpoint_streams() {
    let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    let text = format!(": hi\n\n{}{}data: {end}\n\ndata: [DONE]\n\nrest", delta("a"), delta("b"));
    let (pieces, answer) = stream(&mut Server::saying(events(&text)).provider(), &ask("hi"));
    assert_eq!(pieces, ["a", "b", ""]);
    let answer = answer.unwrap();
    assert_eq!((answer.content.as_str(), answer.finish_reason.as_deref()), ("ab", Some("stop")));
}

#[test]
fn stream_can_be_dropped_while_the_endpoint_sends() {
    let server = Server::start(|connection| {
        let _ = connection.write_all(events(&delta("a")).as_bytes());
        // Waits until the client has closed the connection.
        let _ = connection.read(&mut [0; 1]);
    });
    let mut provider = server.provider();
    let answer = provider.stream(&ask("hi"), &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!(answer.content, "a");
}

#[test]
fn endpoint_error_is_quoted_without_the_key() {
    let body = json!({"error": {"message": format!("no such key: {KEY}")}}).to_string();
    let failure = completed(response("401 Unauthorized", "", &body));
    assert_eq!((failure.kind, failure.status), (FailureKind::Status, Some(401)));
    assert!(failure.message.ends_with("answers 401: no such key: [redacted]"), "{failure}");
    let failure = completed(ok(r#"{"error":{"message":"overloaded"}}"#));
    assert_eq!(failure.message, "the endpoint reports an error: overloaded");
}

#[test]
fn a_redirect_is_refused() {
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let inside = Server::saying(ok(ANSWER));
        let location = format!("location: http://127.0.0.1:{}/x?token=t\r\n", inside.port);
        let failure = completed(response(status, &location, ""));
        assert_eq!(failure.kind, FailureKind::Status);
        assert!(failure.message.contains("which is refused"), "{failure}");
        assert!(!failure.message.contains("token"), "{failure}");
        assert!(inside.requests.try_recv().is_err());
    }
}

#[test]
fn a_stall_ends_at_the_timeout() {
    let timeout = Duration::from_millis(200);
    let stall = |connection: &mut TcpStream, text: &str| {
        let _ = connection.write_all(text.as_bytes());
        // Waits until the client has closed the connection.
        let _ = connection.read(&mut [0; 1]);
    };
    let server = Server::start(move |connection| stall(connection, ""));
    let failure = server.provider().timeout(timeout).complete(&ask("hi")).unwrap_err().failure();
    assert_eq!(failure.kind, FailureKind::Timeout, "{failure}");

    let server = Server::start(move |connection| stall(connection, &events(&delta("a"))));
    let (pieces, answer) = stream(&mut server.provider().timeout(timeout), &ask("hi"));
    assert_eq!(pieces, ["a"]);
    assert_eq!(answer.unwrap_err().failure().kind, FailureKind::Timeout);
}

#[test]
fn wrong_lengths_and_malformed_answers_are_detected() {
    let lie = "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\nconnection: close\r\n\r\n{\"choices\":";
    assert_eq!(completed(lie.to_owned()).kind, FailureKind::Connection);
    for (text, kind) in [
        (ok("not JSON"), FailureKind::BadAnswer),
        (ok("[]"), FailureKind::BadAnswer),
        (ok(r#"{"choices":[]}"#), FailureKind::BadAnswer),
        (ok(r#"{"choices":[{"message":"x"}]}"#), FailureKind::BadAnswer),
        (ok(r#"{"choices":[{"message":{"content":{}}}]}"#), FailureKind::BadAnswer),
        (ok(&format!("{}1{}", "[".repeat(9000), "]".repeat(9000))), FailureKind::BadAnswer),
        ("HTTP/1.1 banana\r\n\r\n".to_owned(), FailureKind::BadAnswer),
        (String::new(), FailureKind::Connection),
    ] {
        let failure = completed(text.clone());
        assert_eq!(failure.kind, kind, "{text:.60}: {failure}");
    }
}

#[test]
fn a_hostile_stream_ends_in_an_error() {
    assert_eq!(streamed(&delta("a")).kind, FailureKind::Connection);
    assert_eq!(streamed("data: {\n\n").kind, FailureKind::BadAnswer);
    assert_eq!(streamed("data: \u{fffd}\n\n").kind, FailureKind::BadAnswer);
    assert_eq!(
        streamed("data: {\"error\":\"busy\"}\n\n").message,
        "the endpoint reports an error: busy"
    );
    let long = Server::saying(events(&format!("data: {}", "x".repeat(1 << 20))));
    let (_, answer) = stream(&mut long.provider().response_bytes_max(10_000), &ask("hi"));
    assert_eq!(answer.unwrap_err().failure().kind, FailureKind::TooLong);
    let whole = Server::saying(ok(&format!("{ANSWER}{}", " ".repeat(1 << 20))));
    let answer = whole.provider().response_bytes_max(10_000).complete(&ask("hi"));
    assert_eq!(answer.unwrap_err().failure().kind, FailureKind::TooLong);
}

#[test]
fn blocked_endpoint_is_not_connected_to() {
    let server = Server::saying(ok(ANSWER));
    let localhost = format!("http://localhost:{}/v1", server.port);
    let named = EgressPolicy::default().allow("localhost".parse().unwrap());
    let tape = MemoryTape::default();
    let recorder = Recorder::new(tape.clone(), Redaction::default());
    for (base, policy, reason) in [
        (localhost.clone(), EgressPolicy::default(), "no rule allows it"),
        (localhost.clone(), EgressPolicy::allow_by_default(), "loopback"),
        (localhost, named, "it resolves to"),
        ("ftp://localhost/".to_owned(), EgressPolicy::allow_by_default(), "use http"),
    ] {
        let mut provider = HttpProvider::new(base, policy).tape(recorder.clone());
        match provider.complete(&ask("hi")) {
            Err(LlmError::Blocked(blocked)) => {
                assert!(blocked.reason.contains(reason), "{blocked}");
                assert_eq!(blocked.surface, "llm");
            }
            other => panic!("{other:?}"),
        }
        let last = tape.records().pop().unwrap().kind;
        assert!(matches!(last, Kind::Egress { allowed: false, .. }), "{last:?}");
    }
    assert!(server.requests.try_recv().is_err());
}

#[test]
fn key_is_not_in_the_fixture_the_tape_or_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let server = Server::saying(ok(&ANSWER.replace("hello", &format!("you sent {KEY}"))));
    let tape = MemoryTape::default();
    let recorder = Recorder::new(tape.clone(), Redaction::default());
    let provider = server.provider().tape(recorder.clone());
    assert!(!format!("{provider:?}").contains(KEY));
    let record = Record::new(provider, &path, Redaction::default()).unwrap();
    let mut taped = Taped::new(record, recorder);
    let answer = taped.complete(&ask("hi")).unwrap();
    assert_eq!(answer.content, "you sent [redacted]");
    taped.into_inner().finish().unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().contains(KEY));
    assert!(!format!("{:?}", tape.records()).contains(KEY));
    let kinds: Vec<String> =
        tape.records().iter().map(|record| record.kind.name().to_owned()).collect();
    assert_eq!(kinds, ["egress", "llm_call"]);
    assert_eq!(Replay::open(&path).unwrap().complete(&ask("hi")).unwrap(), answer);
}
