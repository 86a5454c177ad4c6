//! Calls, mocks, the bridge, and the built-in operations other than commands.

use std::sync::{Arc, Mutex};

use belljar::host::{BridgeAnswer, HostBridge, HostMock, HostTool, ScriptedAnswers};
use belljar::testbench::TestbenchError;
use serde_json::{Value, json};

use super::{bench, error, session};

/// A bridge with fixed answers, which records its calls.
#[derive(Default)]
struct Bridge(Mutex<Vec<String>>);

impl Bridge {
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl HostBridge for Bridge {
    fn dispatch(&self, capability: &str, operation: &str, params: &Value) -> BridgeAnswer {
        self.0.lock().unwrap().push(format!("{capability}.{operation}"));
        match (capability, operation) {
            ("memory", "embed") => BridgeAnswer::Value(json!([params["text"]])),
            ("db", "drop") => BridgeAnswer::Error("never".into()),
            ("workspace", "cwd") => BridgeAnswer::Value(json!("elsewhere")),
            _ => BridgeAnswer::NotMine,
        }
    }

    fn operations(&self) -> Vec<String> {
        vec!["db.drop".into()]
    }

    fn list_tools(&self) -> Result<Vec<HostTool>, String> {
        let input_schema = json!({ "type": "object" });
        Ok(vec![HostTool { name: "add".into(), description: "Adds".into(), input_schema }])
    }

    fn call_tool(&self, name: &str, args: &Value) -> Result<Value, String> {
        match name {
            "add" => Ok(json!(args["a"].as_i64().unwrap_or(0) + args["b"].as_i64().unwrap_or(0))),
            other => Err(format!("no tool is called {other}")),
        }
    }
}

#[test]
fn mocks_precede_the_bridge_and_the_bridge_precedes_built_ins() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path());
    let mut cwd = || session.host_call("workspace.cwd", &json!({})).unwrap();
    assert_eq!(cwd(), "/worktree");
    let bridge = Arc::new(Bridge::default());
    session.set_host_bridge(bridge.clone());
    let mut cwd = || session.host_call("workspace.cwd", &json!({})).unwrap();
    assert_eq!(cwd(), "elsewhere");
    session.host_mock("workspace", "cwd", HostMock::result("mocked"));
    let mut cwd = || session.host_call("workspace.cwd", &json!({})).unwrap();
    assert_eq!(cwd(), "mocked");
    assert_eq!(bridge.asked(), ["workspace.cwd"], "a mocked call reaches no bridge");
    assert_eq!(error(&mut session, "db.drop", &json!({})), "db.drop: never");
    assert_eq!(error(&mut session, "db.other", &json!({})), "unsupported operation db.other");
    assert_eq!(error(&mut session, "nothing", &json!({})), "unsupported operation nothing");
    session.clear_host_bridge();
    assert_eq!(error(&mut session, "db.drop", &json!({})), "unsupported operation db.drop");
}

#[test]
fn mock_scopes_end_and_an_unmatched_end_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path());
    session.host_mock("db", "query", HostMock::result(json!([])).params(json!({ "from": "a" })));
    session.host_mock_push();
    session.host_mock("db", "query", HostMock::error("down"));
    assert_eq!(error(&mut session, "db.query", &json!({ "from": "a", "n": 1 })), "down");
    let calls = session.host_mock_calls();
    assert_eq!((calls.len(), &calls[0].params), (1, &json!({ "from": "a", "n": 1 })));
    session.host_mock_pop().unwrap();
    assert_eq!(session.host_call("db.query", &json!({ "from": "a" })).unwrap(), json!([]));
    assert_eq!(error(&mut session, "db.query", &json!({})), "unsupported operation db.query");
    let error = session.host_mock_pop().unwrap_err().to_string();
    assert!(error.contains("no scope of mocks to pop"), "{error}");
}

#[test]
fn the_manifest_shows_what_is_built_in_mocked_and_bridged() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path());
    assert!(session.host_has("process", None) && session.host_has("process", Some("exec")));
    assert!(!session.host_has("process", Some("fork")) && !session.host_has("db", None));
    assert!(!session.host_has("memory", Some("embed")), "nobody would answer it");
    session.set_host_bridge(Arc::new(Bridge::default()));
    session.host_mock("db", "query", HostMock::result(1));
    let manifest = session.host_capabilities();
    assert_eq!(manifest["db"].ops, ["drop", "query"]);
    assert!(manifest["db"].operations["drop"].bridged && manifest["db"].operations["query"].mocked);
    assert!(session.host_has("memory", Some("embed")));
    assert_eq!(manifest["process"].operations["exec"].description, "Runs a command to its end");
}

#[test]
fn tools_come_from_the_bridge() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path());
    assert_eq!(session.host_tool_list().unwrap(), []);
    let none = session.host_tool_call("add", &json!({})).unwrap_err().to_string();
    assert!(none.contains("no bridge is set"), "{none}");
    session.set_host_bridge(Arc::new(Bridge::default()));
    assert_eq!(session.host_tool_list().unwrap()[0].name, "add");
    assert_eq!(session.host_tool_call("add", &json!({ "a": 1, "b": 2 })).unwrap(), 3);
    let unknown = session.host_tool_call("sub", &json!({})).unwrap_err().to_string();
    assert_eq!(unknown, "tool.call: no tool is called sub");
    assert_eq!(session.host_call("tool.list", &json!({})).unwrap()[0]["name"], "add");
}

#[test]
fn embeddings_come_from_the_bridge() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path());
    let params = json!({ "text": "x" });
    let unsupported = "unsupported operation memory.embed";
    assert_eq!(error(&mut session, "memory.embed", &params), unsupported);
    session.set_host_bridge(Arc::new(Bridge::default()));
    assert_eq!(session.host_call("memory.embed", &params).unwrap(), json!(["x"]));
}

#[test]
fn questions_are_answered_in_order_and_parameters_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let answers = ScriptedAnswers::new(["blue", "", "yes"]);
    let mut session = bench(folder.path()).host_answers(answers).build().activate().unwrap();
    let mut ask = |params: Value| session.host_call("interaction.ask", &params);
    assert_eq!(ask(json!({ "question": "color?" })).unwrap(), json!({ "answer": "blue" }));
    let default = json!({ "question": "size?", "choices": ["s", "m"], "default": "m" });
    assert_eq!(ask(default).unwrap()["answer"], "m");
    let wrong = ask(json!({ "question": "which?", "choices": ["a"] })).unwrap_err().to_string();
    assert!(wrong.contains("invalid answer \"yes\" to \"which?\"; expected one of a"), "{wrong}");
    let over = ask(json!({ "question": "more?" })).unwrap_err().to_string();
    assert!(over.contains("all 3 answers are used"), "{over}");
    let unknown = ask(json!({ "query": "?" })).unwrap_err().to_string();
    assert!(unknown.contains("unknown field `query`, expected one of `question`"), "{unknown}");
    let mut other = super::session(folder.path());
    let nobody = error(&mut other, "interaction.ask", &json!({ "question": "color?" }));
    assert_eq!(nobody, "interaction.ask: no answers are configured for the question \"color?\"");
}

#[test]
fn program_reads_its_task_and_sets_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let task = json!({ "goal": "build" });
    let mut session = bench(folder.path()).host_task(task.clone()).build().activate().unwrap();
    assert_eq!(session.host_call("runtime.task", &json!({})).unwrap(), task);
    assert_eq!(session.host().result(), None);
    session.host_call("runtime.set_result", &json!({ "value": [1] })).unwrap();
    assert_eq!(session.host().result(), Some(json!([1])));
    assert_eq!(session.host_call("workspace.project_root", &json!({})).unwrap(), "/worktree");
    let extra = error(&mut session, "workspace.cwd", &json!({ "x": 1 }));
    assert!(extra.contains("unknown field `x`"), "{extra}");
}

#[test]
fn templates_come_from_the_namespace() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("page"), "{% include 'part' %}: {{ name }}\n").unwrap();
    std::fs::write(folder.path().join("part"), "part").unwrap();
    std::fs::write(folder.path().join("bad"), "\n{{ nme }}").unwrap();
    let mut session = session(folder.path());
    let params = json!({ "path": "page", "vars": { "name": "<x>" } });
    assert_eq!(session.host_call("template.render", &params).unwrap(), "part: <x>\n");
    let undefined = error(&mut session, "template.render", &json!({ "path": "bad" }));
    assert!(undefined.contains("bad, line 2: undefined value"), "{undefined}");
    for outside in ["../secret", "/etc/passwd", "nowhere"] {
        let missing = error(&mut session, "template.render", &json!({ "path": outside }));
        assert!(missing.contains(outside), "{missing}");
    }
}

#[test]
fn calls_of_host_code_are_on_the_tape_with_their_source() {
    use belljar::tape::{Kind, Tape};

    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("t.tape");
    let mut session = bench(folder.path()).emit_tape(&tape).build().activate().unwrap();
    session.host_mock("db", "query", HostMock::result(1));
    session.host_call("db.query", &json!({ "a": 1 })).unwrap();
    session.host_call("workspace.cwd", &json!({})).unwrap();
    assert!(matches!(session.host_call("x.y", &json!({})), Err(TestbenchError::Host(_))));
    session.finalize().unwrap();
    let calls: Vec<(String, String)> = Tape::load(&tape)
        .unwrap()
        .records
        .into_iter()
        .filter_map(|record| match record.kind {
            Kind::HostCall { capability, operation, answered_by, .. } => {
                Some((format!("{capability}.{operation}"), answered_by.unwrap()))
            }
            _ => None,
        })
        .collect();
    let expected = [("db.query", "mock"), ("workspace.cwd", "builtin"), ("x.y", "builtin")];
    assert_eq!(calls, expected.map(|(name, by)| (name.to_owned(), by.to_owned())));
}
