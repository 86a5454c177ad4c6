//! Language models: scripted, recorded, replayed, and requested over HTTP.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar::kernel::clock::{Clock, ClockId, VirtualClock};
use belljar::llm::{
    FailureKind, FakeLlmProvider, FakeStep, FixtureError, LlmDelta, LlmError, LlmFailure,
    LlmProvider, LlmRequest, LlmResponse, Message, Record, Replay, Taped,
};
use belljar::tape::{Kind, MemoryTape, Payload, Recorder, Redaction};
use proptest::prelude::*;
use serde_json::{Value, json};

const SECRET: &str = "sk-abcdefghijklmnopqrstuvwxyz";

fn clock() -> Arc<Mutex<VirtualClock>> {
    Arc::new(Mutex::new(VirtualClock::starting_at(0)))
}

fn fake() -> FakeLlmProvider {
    FakeLlmProvider::new(clock())
}

pub fn ask(text: &str) -> LlmRequest {
    LlmRequest::new("m1", vec![Message::new("user", text)])
}

fn say(text: &str) -> Vec<FakeStep> {
    vec![FakeStep::Token(text.to_owned())]
}

fn tokens(texts: &[&str]) -> Vec<FakeStep> {
    texts.iter().map(|text| FakeStep::Token((*text).to_owned())).collect()
}

fn rate_limited() -> LlmFailure {
    let message = "slow down".to_owned();
    LlmFailure { kind: FailureKind::Status, status: Some(429), message }
}

pub fn stream(
    provider: &mut impl LlmProvider,
    request: &LlmRequest,
) -> (Vec<String>, Result<LlmResponse, LlmError>) {
    let mut pieces = Vec::new();
    let answer = provider.stream(request, &mut |delta: &LlmDelta| {
        pieces.push(delta.content.clone());
        ControlFlow::Continue(())
    });
    (pieces, answer)
}

fn failure(answer: Result<LlmResponse, LlmError>) -> LlmFailure {
    answer.unwrap_err().failure()
}

/// A fixture of the calls "a" (twice), "b" (streamed) and "c" (which fails midway).
fn recorded(folder: &Path) -> PathBuf {
    let path = folder.join("calls.jsonl");
    let mut failing = tokens(&["half"]);
    failing.push(FakeStep::Fail(rate_limited()));
    let model = fake().script(say("first")).script(say("second"));
    let model = model.script(tokens(&["x", "y"])).script(failing);
    let mut record = Record::new(model, &path, Redaction::default()).unwrap();
    record.complete(&ask("a")).unwrap();
    record.complete(&ask("a")).unwrap();
    assert_eq!(stream(&mut record, &ask("b")).0, ["x", "y"]);
    let (pieces, answer) = stream(&mut record, &ask("c"));
    assert_eq!((pieces, failure(answer)), (vec!["half".to_owned()], rate_limited()));
    assert!(!path.exists());
    assert_eq!(record.finish().unwrap(), 4);
    path
}

#[test]
fn request_digest_is_independent_of_field_order() {
    let mut one = ask("hi");
    one.extra.insert("tools".into(), json!([{"a": 1, "b": {"d": 2, "c": 3}}]));
    one.extra.insert("seed".into(), json!(7));
    let mut two = ask("hi");
    two.extra.insert("seed".into(), json!(7));
    two.extra.insert("tools".into(), json!([{"b": {"c": 3, "d": 2}, "a": 1}]));
    assert_eq!(one.digest(), two.digest());
    // A field takes precedence over an extra value of the same name.
    two.extra.insert("model".into(), json!("m2"));
    assert_eq!(one.digest(), two.digest());
    two.temperature = Some(0.5);
    assert_ne!(one.digest(), two.digest());
    assert_eq!(
        ask("hi").to_json().to_string(),
        r#"{"messages":[{"content":"hi","role":"user"}],"model":"m1"}"#
    );
}

#[test]
fn fake_model_gives_scripted_answers_on_its_own_clock() {
    let clock = clock();
    let hour = Duration::from_hours(1);
    let steps = [FakeStep::Token("a".into()), FakeStep::Delay(hour), FakeStep::Token("b".into())];
    let mut model = FakeLlmProvider::new(clock.clone()).script(steps);
    let (pieces, answer) = stream(&mut model, &ask("x"));
    assert_eq!(pieces, ["a", "b"]);
    assert_eq!(answer.unwrap(), LlmResponse::text("ab"));
    assert_eq!(clock.lock().unwrap().now(ClockId::Monotonic), 3_600_000_000_000);
    let failure = failure(model.complete(&ask("y")));
    assert_eq!(failure.kind, FailureKind::NoAnswer);
    assert!(failure.message.contains("call 2"), "{failure}");
    assert_eq!(model.requests(), [ask("x"), ask("y")]);
}

#[test]
fn equal_requests_are_replayed_in_recorded_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path());
    let mut replay = Replay::open(&path).unwrap();
    // A streamed call can be replayed unstreamed, and conversely; different requests can be in
    // another order.
    let (pieces, answer) = stream(&mut replay, &ask("c"));
    assert_eq!((pieces, failure(answer)), (vec!["half".to_owned()], rate_limited()));
    assert_eq!(stream(&mut replay, &ask("a")).0, ["first"]);
    assert_eq!(replay.complete(&ask("b")).unwrap().content, "xy");
    assert_eq!(replay.complete(&ask("a")).unwrap().content, "second");
    assert_eq!(replay.finish(), []);
}

#[test]
fn unused_answers_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let mut replay = Replay::open(&recorded(folder.path())).unwrap();
    replay.complete(&ask("a")).unwrap();
    let unused = replay.finish();
    assert_eq!(unused.iter().map(|unused| unused.line).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!((unused[0].model.as_str(), unused[0].request_hash), ("m1", ask("a").digest()));
}

#[test]
fn a_miss_shows_the_nearest_request_and_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let long = "x".repeat(300);
    let model = fake().script(say("1")).script(say("2"));
    let mut record = Record::new(model, &path, Redaction::default()).unwrap();
    record.complete(&ask("other")).unwrap();
    let mut near = ask(&format!("{long}one"));
    near.temperature = Some(0.5);
    record.complete(&near).unwrap();
    record.finish().unwrap();

    let mut replay = Replay::open(&path).unwrap();
    let mut asked = ask(&format!("{long}two {SECRET}"));
    asked.temperature = Some(0.5);
    let Err(LlmError::Miss(miss)) = replay.complete(&asked) else { panic!() };
    let nearest = miss.nearest.clone().unwrap();
    assert_eq!((nearest.line, nearest.differing), (3, 1));
    assert_eq!(nearest.differences[0].field, "/messages/0/content");
    let text = miss.to_string();
    assert!(text.contains("calls.jsonl") && text.contains("line 3"), "{text}");
    assert!(text.contains("one\"") && text.contains("two [redacted]"), "{text}");
    assert!(!text.contains(SECRET) && text.len() < 600, "{text}");

    assert_eq!(replay.complete(&near).unwrap().content, "2");
    let text = replay.complete(&near).unwrap_err().to_string();
    assert!(text.contains("are used, the last on line 3"), "{text}");
}

#[test]
fn a_miss_names_fields_that_only_one_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut replay = Replay::open(&recorded(folder.path())).unwrap();
    let mut asked = ask("a");
    asked.max_tokens = Some(5);
    let text = replay.complete(&asked).unwrap_err().to_string();
    assert!(text.contains("/max_tokens: recorded nothing, now 5"), "{text}");
}

#[test]
fn unfinished_recording_leaves_no_file_and_a_bad_directory_fails_early() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let mut record = Record::new(fake().script(say("x")), &path, Redaction::default()).unwrap();
    record.complete(&ask("a")).unwrap();
    drop(record);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let missing = folder.path().join("missing/calls.jsonl");
    let refused = Record::new(fake(), &missing, Redaction::default());
    assert!(matches!(refused.map(|_| ()), Err(FixtureError::Disk(_))));
}

#[test]
fn secrets_are_neither_in_the_fixture_nor_on_the_tape() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let piece = |text: &str| {
        let extra = json!({"tool_calls": [{"function": {"arguments": text}}]});
        let Value::Object(extra) = extra else { panic!() };
        FakeStep::Delta(LlmDelta { extra, ..LlmDelta::default() })
    };
    let message = format!("bad key {SECRET}");
    let model = fake()
        .script(say(&format!("the key is {SECRET}.")))
        // Across pieces, in text and in other fields.
        .script(tokens(&["the key is ", &SECRET[..9], &SECRET[9..]]))
        .script([piece(&SECRET[..9]), piece(&SECRET[9..])])
        .script([FakeStep::Fail(LlmFailure::new(FailureKind::Connection, message))]);
    let tape = MemoryTape::default();
    let recorder = Recorder::new(tape.clone(), Redaction::default());
    let record = Record::new(model, &path, Redaction::default()).unwrap();
    let mut provider = Taped::new(record, recorder);
    let mut request = ask(&format!("use {SECRET}"));
    request.extra.insert("headers".into(), json!({"authorization": "hunter2", "page": "two"}));
    provider.complete(&request).unwrap();
    assert_eq!(stream(&mut provider, &request).0.len(), 3);
    stream(&mut provider, &request).1.unwrap();
    provider.complete(&request).unwrap_err();
    provider.into_inner().finish().unwrap();

    let written = std::fs::read_to_string(&path).unwrap();
    let taped = format!("{:?}", tape.records());
    for secret in [SECRET, &SECRET[9..], "hunter2"] {
        assert!(!written.contains(secret), "{secret}: {written}");
        assert!(!taped.contains(secret), "{secret}: {taped}");
    }
    assert!(written.contains("two") && taped.contains("two"));
    // The digest is that of the original request, so that a replay finds it.
    let mut replay = Replay::open(&path).unwrap();
    assert_eq!(replay.complete(&request).unwrap().content, "the key is [redacted].");
    assert_eq!(stream(&mut replay, &request).0, ["the key is [redacted]"]);
}

#[test]
fn a_call_is_on_the_tape_with_its_answer_or_its_error() {
    let tape = MemoryTape::default();
    let recorder = Recorder::new(tape.clone(), Redaction::default());
    let model = fake().script(say("yes")).script([FakeStep::Fail(rate_limited())]);
    let mut provider = Taped::new(model, recorder);
    provider.complete(&ask("a")).unwrap();
    stream(&mut provider, &ask("b")).1.unwrap_err();
    let expected = [
        (ask("a"), json!({"response": {"content": "yes"}})),
        (ask("b"), json!({"error": {"kind": "status", "status": 429, "message": "slow down"}})),
    ];
    let kinds: Vec<Kind> = tape.records().into_iter().map(|record| record.kind).collect();
    assert_eq!(kinds.len(), 2);
    for (kind, (request, answer)) in kinds.iter().zip(expected) {
        let Kind::LlmCall { model, request_hash, request: asked, response } = kind else {
            panic!()
        };
        assert_eq!((model.as_str(), *request_hash), ("m1", request.digest()));
        assert_eq!(*asked, Payload::Inline { text: request.to_json().to_string() });
        let Payload::Inline { text } = response else { panic!() };
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), answer);
    }
}

#[test]
fn stream_that_breaks_off_is_recorded_up_to_the_break() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let model = fake().script(tokens(&["a", "b", "c"]));
    let mut record = Record::new(model, &path, Redaction::default()).unwrap();
    let mut left = 2;
    let answer = record.stream(&ask("x"), &mut |_| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(answer.unwrap().content, "ab");
    record.finish().unwrap();
    let mut replay = Replay::open(&path).unwrap();
    assert_eq!(stream(&mut replay, &ask("x")).0, ["a", "b"]);
}

fn line_error(path: &Path) -> (usize, String) {
    match Replay::open(path).map(|_| ()).unwrap_err() {
        FixtureError::Line { line, message, .. } => (line, message),
        other => panic!("{other}"),
    }
}

#[test]
fn damaged_fixture_error_names_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path());
    let whole = std::fs::read_to_string(&path).unwrap();
    let damaged = |from: &str, to: &str| {
        assert!(whole.contains(from), "{whole}");
        std::fs::write(&path, whole.replacen(from, to, 1)).unwrap();
    };
    damaged("\"content\":\"second\"", "\"content\":second");
    assert_eq!(line_error(&path).0, 3);
    damaged("belljar-llm-fixture", "another");
    assert_eq!(line_error(&path).0, 1);
    damaged("\"response\"", "\"answer\"");
    let (line, message) = line_error(&path);
    assert_eq!(line, 2);
    assert!(message.contains("expected `response`"), "{message}");
    damaged("\"request_hash\":\"", "\"request_hash\":\"x");
    assert!(line_error(&path).1.contains("64 hex digits"));
    std::fs::write(&path, "").unwrap();
    assert!(line_error(&path).1.contains("header"));
    damaged("\"1.0\"", "\"2.0\"");
    assert!(matches!(Replay::open(&path).map(|_| ()), Err(FixtureError::Version { .. })));
    damaged("\"1.0\"", "\"1.7\"");
    assert_eq!(Replay::open(&path).unwrap().finish().len(), 4);
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(Replay::open(&path).map(|_| ()), Err(FixtureError::Disk(_))));
}

#[test]
fn a_fixture_can_be_written_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hand.jsonl");
    let text = r#"{"format":"belljar-llm-fixture","version":"1.0"}

{"request":{"model":"m1","messages":[{"role":"user","content":"hi"}]},"response":{"content":"ho"}}
"#;
    std::fs::write(&path, text).unwrap();
    let mut replay = Replay::open(&path).unwrap();
    assert_eq!(replay.complete(&ask("hi")).unwrap().content, "ho");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    /// With any change of its bytes, a fixture loads and answers, or gives an error.
    #[test]
    fn damaged_fixtures_never_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = recorded(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() * 2).min(bytes.len()));
        std::fs::write(&path, bytes).unwrap();
        if let Ok(mut replay) = Replay::open(&path) {
            let _ = replay.complete(&ask("a"));
            if let Err(error) = replay.complete(&ask("nobody recorded that")) {
                prop_assert!(error.to_string().contains("calls.jsonl"));
            }
            prop_assert!(replay.finish().len() <= 4);
        }
    }
}
