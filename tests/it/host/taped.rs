//! Calls on tapes, and their replay without bridge, mocks, answers and policy.

use std::path::Path;
use std::sync::Arc;

use belljar::Digest;
use belljar::host::{BridgeAnswer, HostBridge, HostMock, ScriptedAnswers};
use belljar::tape::{Tape, TapeError};
use belljar::testbench::{ReplayError, Replayed, TestbenchSession, replay};
use belljar::{Limits, Module};
use serde_json::{Value, json};

use super::{bench, policy, shell};
use crate::support::{engine, guest};

struct Memory;

impl HostBridge for Memory {
    fn dispatch(&self, capability: &str, operation: &str, _: &Value) -> BridgeAnswer {
        match (capability, operation) {
            ("memory", "embed") => BridgeAnswer::Value(json!([0.5, 1])),
            _ => BridgeAnswer::NotMine,
        }
    }
}

fn again(tape: &Path) -> Result<Replayed, ReplayError> {
    replay(engine(), tape, &Limits::default(), |name: &str, _: Option<Digest>| {
        let built_in = belljar::Toolchains::default().resolve(name).ok();
        let module = match built_in {
            Some(resolved) if !guest(name).is_file() => resolved.module(),
            _ => Module::read(&guest(name)),
        };
        module.map_err(|error| error.to_string())
    })
}

/// Records `act` in a session with a policy, answers, mocks and a bridge, and replays it.
fn both(act: impl FnOnce(&mut TestbenchSession)) -> (Vec<belljar::tape::Record>, Replayed) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kept"), "kept\n").unwrap();
    std::fs::write(folder.path().join("page"), "{{ name }}").unwrap();
    let tape = folder.path().join("t.tape");
    let rules = r#"{
        "version": 1, "deny": ["rm *"], "approve": ["touch"],
        "pre": [{"match": "env", "set": {"env": {"CI": "1"}}}],
        "post": [{"match": "cat", "set": {"stdout": "[withheld]"}}]
    }"#;
    let bench = bench(folder.path())
        .host_policy(policy(rules))
        .host_answers(ScriptedAnswers::new(["yes", "no", "maybe"]))
        .host_bridge(Arc::new(Memory))
        .host_task("the task")
        .emit_tape(&tape);
    let mut session = bench.build().activate().unwrap();
    session.host_mock("db", "query", HostMock::result(json!([1])));
    session.host_mock("db", "drop", HostMock::error("never"));
    act(&mut session);
    session.finalize().unwrap();
    let replayed = again(&tape).unwrap();
    (Tape::load(&tape).unwrap().records, replayed)
}

#[test]
fn replay_answers_guest_calls_from_the_tape() {
    let asked = [
        ("db.query", "{\"a\":1}"),
        ("db.drop", ""),
        ("memory.embed", "{\"text\":\"x\"}"),
        ("interaction.ask", "{\"question\":\"sure?\"}"),
        ("runtime.task", ""),
        ("host.capabilities", ""),
        ("tool.list", ""),
        ("nothing.here", ""),
        ("process.exec", "not json"),
        ("process.exec", "{\"argv\":[\"nothing\"]}"),
        ("template.render", "{\"path\":\"page\",\"vars\":{\"name\":\"x\"}}"),
        ("template.render", "{\"path\":\"none\"}"),
        ("process.exec", "{\"argv\":[\"rm\",\"kept\"]}"),
        ("process.exec", "{\"argv\":[\"sleeper\",\"100\"],\"timeout_ms\":10}"),
        ("process.exec", "{\"argv\":[\"env\"]}"),
        ("process.exec", "{\"argv\":[\"cat\",\"kept\"]}"),
        ("process.exec", "{\"argv\":[\"touch\",\"made\"]}"),
        ("process.exec", "{\"argv\":[\"ask\",\"-h\",\"db\",\"process.exec\",\"no\"]}"),
        ("process.exec", "{\"argv\":[\"ask\",\"process.exec\",\"{\\\"argv\\\":[\\\"rm\\\"]}\"]}"),
    ];
    let mut printed = Vec::new();
    let (records, replayed) = both(|session| {
        // A bridge is asked before the built-in operations, and cannot be observed.
        for (name, params) in asked {
            let mut command = session.command("ask");
            command.arg(name);
            if !params.is_empty() {
                command.arg(params);
            }
            printed.push(command.output().unwrap().stdout);
        }
    });
    assert_eq!(replayed.records, records.len() as u64);
    let again: Vec<Vec<u8>> =
        replayed.outputs.iter().map(|out| out.as_ref().unwrap().stdout.clone()).collect();
    for ((first, second), (name, _)) in printed.iter().zip(&again).zip(asked) {
        assert_eq!(String::from_utf8_lossy(first), String::from_utf8_lossy(second), "{name}");
    }
    let text = |index: usize| String::from_utf8_lossy(&printed[index]).into_owned();
    assert!(text(0).contains("[1]") && text(3).contains("yes") && text(4).contains("the task"));
    assert!(text(12).contains("blocked") && text(14).contains("CI=1"), "{}", text(14));
    assert!(
        text(15).contains("[withheld]") && text(17).contains("db yes\\nprocess.exec yes\\nno no")
    );
}

#[test]
fn replay_answers_calls_of_host_code_from_the_tape() {
    let (records, replayed) = both(|session| {
        session.clear_host_bridge();
        assert_eq!(session.host_call("db.query", &json!({})).unwrap(), json!([1]));
        let result = shell(session, "echo made > made; x=rm; $x kept");
        assert_eq!(result["status"], "blocked");
        assert_eq!(shell(session, "wc -c < made")["stdout"], "5\n");
        assert_eq!(shell(session, "touch a; touch b")["status"], "completed");
        assert_eq!(shell(session, "touch c")["status"], "blocked", "the answer is no");
        session.host_call("interaction.ask", &json!({ "question": "?" })).unwrap();
    });
    assert_eq!(replayed.records, records.len() as u64);
}

#[cfg(unix)]
#[test]
fn native_shell_commands_are_replayed_without_the_shell() {
    use belljar::native::OnMissing;

    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let tape = folder.path().join("t.tape");
    let rules = policy(r#"{"version": 1, "deny": ["rm"], "workspace_roots": ["/worktree"]}"#);
    let bench = bench(folder.path()).on_missing(OnMissing::Native).host_policy(rules);
    let mut session = bench.emit_tape(&tape).build().activate().unwrap();
    let mut ask = |name: &str, params: Value| session.host_call(name, &params).unwrap();
    let shells = ask("process.list_shells", json!({}));
    assert!(shells.as_array().unwrap().len() > 1, "{shells}");
    ask("process.set_default_shell", json!({ "id": "bash" }));
    let result =
        ask("process.exec", json!({ "command": "echo ${BASH_VERSION:+yes}", "stdin": "x" }));
    assert_eq!(result["stdout"], "yes\n");
    for command in ["x=rm; $x a", "rm a"] {
        let blocked = ask("process.exec", json!({ "command": command, "cwd": "sub" }));
        assert_eq!(blocked["status"], "blocked");
    }
    let blocked = ask("process.exec", json!({ "command": "ls", "cwd": "/tmp" }));
    assert_eq!(blocked["blocked_by"]["rule"], "workspace_roots");
    assert!(
        session.host_call("process.exec", &json!({ "command": "ls", "shell": "none" })).is_err()
    );
    let result = shell(&mut session, "echo $((2**10))");
    assert_eq!(result["stdout"], "1024\n", "it is still the default");
    session.finalize().unwrap();
    let records = Tape::load(&tape).unwrap().records.len() as u64;
    assert_eq!(again(&tape).unwrap().records, records);
}

#[test]
fn replay_with_a_changed_answer_on_the_tape_diverges() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("t.tape");
    let mut session = bench(folder.path()).emit_tape(&tape).build().activate().unwrap();
    session.host_mock("db", "query", HostMock::result("first"));
    let output = session.command("ask").arg("db.query").output().unwrap();
    assert_eq!(output.stdout, b"{\"ok\":\"first\"}\n");
    session.finalize().unwrap();
    let text = std::fs::read_to_string(&tape).unwrap();
    // Only the record of the call is changed, so the guest's output differs from the tape.
    let changed: String = text
        .lines()
        .map(|line| {
            let line = if line.contains("host_call") {
                line.replace("first", "other")
            } else {
                line.into()
            };
            line + "\n"
        })
        .collect();
    std::fs::write(&tape, changed).unwrap();
    match again(&tape).err() {
        Some(ReplayError::Tape(TapeError::Desync(desync))) => {
            assert!(desync.to_string().contains("stream_write"), "{desync}");
        }
        other => panic!("{:?}", other.map(|error| error.to_string())),
    }
}
