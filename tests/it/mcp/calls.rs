//! Clients of a server by the library, without a protocol; and tapes of calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar::kernel::vfs::Applied;
use belljar::mcp::{
    Call, Client, Environment, ErrorKind, Loaded, Policy, ProgramInfo, Server, ToolError,
};
use belljar::process::ShellImage;
use belljar::{EngineConfig, Overlay, ToolchainPrograms, Toolchains};
use serde_json::{Value, json};

use super::Scene;
use super::wire::Wire;
#[cfg(feature = "http")]
use crate::http::Server as Web;
use crate::support::{guest, stderr, stdout};

/// The built-in programs, and applies without a journal, which are counted.
#[derive(Clone, Default)]
struct BuiltIn(Arc<Mutex<u32>>);

impl Environment for BuiltIn {
    fn load(&self, _: Option<&[String]>) -> Result<Loaded, String> {
        let toolchains = Toolchains::default();
        let names = toolchains.names().map_err(|error| error.to_string())?;
        let list = names.into_iter().map(|name| ProgramInfo { name, toolchain: None }).collect();
        let programs = ToolchainPrograms::with_engine_config(EngineConfig::default(), toolchains);
        Ok(Loaded { programs: Arc::new(programs.with("sh", ShellImage::maker())), list })
    }

    fn apply(&self, files: &mut Overlay) -> Result<Applied, String> {
        *self.0.lock().unwrap() += 1;
        files.apply().map_err(|error| error.to_string())
    }
}

fn server(policy: Policy) -> (Arc<Server>, BuiltIn) {
    let environment = BuiltIn::default();
    (Server::new(policy, Box::new(environment.clone()), None).unwrap(), environment)
}

async fn with(
    client: &Arc<Client>,
    tool: &str,
    arguments: Value,
    call: &Call,
) -> Result<Value, ToolError> {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    client.call(tool, arguments, call).await
}

async fn answer(client: &Arc<Client>, tool: &str, arguments: Value) -> Value {
    with(client, tool, arguments, &Call::new()).await.unwrap()
}

async fn error(client: &Arc<Client>, tool: &str, arguments: Value) -> ToolError {
    with(client, tool, arguments, &Call::new()).await.unwrap_err()
}

#[tokio::test]
async fn a_client_without_a_policy_gets_sandboxes_in_memory_and_nothing_else() {
    let (server, _) = server(Policy::default());
    let tools: Vec<&str> = server.tools().map(|tool| tool.name).collect();
    assert!(
        !tools.contains(&"sandbox_apply") && !tools.contains(&"toolchain_install"),
        "{tools:?}"
    );
    let client = server.connect();
    let folder = json!({ "folders": [{ "folder": "/" }] });
    assert_eq!(error(&client, "sandbox_create", folder).await.kind, ErrorKind::Denied);
    let made = answer(&client, "sandbox_create", json!({})).await;
    assert_eq!(made["start_dir"], "/worktree");
    let id = made["sandbox"].clone();
    answer(&client, "sandbox_write", json!({ "sandbox": id, "path": "a/b", "text": "x\n" })).await;
    let script = "cat a/b; belljar-no-such; cat /etc/passwd; ls /";
    let ran = answer(&client, "sandbox_exec", json!({ "sandbox": id, "command": script })).await;
    assert_eq!(ran["stdout"]["text"], "x\nmnt\ntmp\nworktree\n", "{ran}");
    assert_eq!(ran["missing_programs"], json!(["belljar-no-such"]), "{ran}");
    let diff = answer(&client, "sandbox_diff", json!({ "sandbox": id })).await;
    assert!(diff["patch"]["text"].as_str().unwrap().contains("+x"), "{diff}");
    for tool in ["sandbox_apply", "toolchain_install"] {
        assert_eq!(error(&client, tool, json!({})).await.kind, ErrorKind::Denied);
    }
    assert_eq!(server.sandboxes(), 1);
    drop(client);
    assert_eq!(server.sandboxes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_ends_its_program_and_leaves_no_change() {
    let (server, _) = server(Policy::default());
    let client = server.connect();
    answer(&client, "sandbox_create", json!({ "id": "box" })).await;
    let module = std::fs::read(guest("loop")).unwrap();
    let module = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, module);
    let loops =
        json!({ "sandbox": "box", "path": "loop.wasm", "text_base64": module, "executable": true });
    answer(&client, "sandbox_write", loops).await;
    for command in ["echo x > new; while :; do :; done", "echo x > new; ./loop.wasm"] {
        let call = Call::new();
        let arguments = json!({ "sandbox": "box", "command": command });
        let running = tokio::spawn({
            let (client, call) = (client.clone(), call.clone());
            async move { with(&client, "sandbox_exec", arguments, &call).await }
        });
        // Until it runs, or is about to.
        loop {
            let listed = answer(&client, "sandbox_list", json!({})).await;
            if listed["sandboxes"][0]["busy"] == true {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        call.cancel();
        let error = running.await.unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Cancelled, "{error}");
        let left = answer(&client, "sandbox_ls", json!({ "sandbox": "box" })).await;
        assert_eq!(left["total_entries"], 1, "{command}: {left}");
    }
    // Nobody waits for a call whose future is dropped.
    let endless = json!({ "sandbox": "box", "command": "./loop.wasm" });
    let call = Call::new();
    let dropped = with(&client, "sandbox_exec", endless, &call);
    assert!(tokio::time::timeout(Duration::from_millis(50), dropped).await.is_err());
    // A drop ends what runs.
    let ended = answer(&client, "sandbox_drop", json!({ "sandbox": "box" })).await;
    assert_eq!(ended["dropped"], "box");
    assert_eq!(server.sandboxes(), 0);
}

#[tokio::test]
async fn what_is_written_is_what_the_user_agreed_to() {
    let scene = Scene::new(&json!({}));
    let (server, environment) = server(Policy::read(&scene.path("policy.json")).unwrap());
    let client = server.connect();
    answer(&client, "sandbox_create", json!({ "id": "box", "folders": [{ "folder": "project" }] }))
        .await;
    let write = |text: &str| json!({ "sandbox": "box", "path": "a.txt", "text": text });
    answer(&client, "sandbox_write", write("first\n")).await;
    let apply = json!({ "sandbox": "box" });
    let asked = error(&client, "sandbox_apply", apply.clone()).await;
    let first = asked.consent.expect("the user is asked");
    assert!(
        first.question.contains("a.txt modified") && first.question.contains("\"project\""),
        "{}",
        first.question
    );
    // The sandbox changes before the user answers.
    answer(&client, "sandbox_write", write("other\n")).await;
    let again = with(&client, "sandbox_apply", apply.clone(), &Call::consented(first.state))
        .await
        .unwrap_err();
    let second = again.consent.expect("the user is asked again");
    assert_eq!(scene.read("project/a.txt"), "of the host\n");
    with(&client, "sandbox_apply", apply.clone(), &Call::consented(second.state)).await.unwrap();
    assert_eq!(scene.read("project/a.txt"), "other\n");
    // The folder of the host changes: nothing is written.
    answer(&client, "sandbox_write", write("third\n")).await;
    scene.write("project/a.txt", "by somebody else\n");
    let asked = error(&client, "sandbox_apply", apply.clone()).await.consent.unwrap();
    let refused =
        with(&client, "sandbox_apply", apply, &Call::consented(asked.state)).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Failed, "{refused}");
    assert_eq!(scene.read("project/a.txt"), "by somebody else\n");
    assert_eq!(*environment.0.lock().unwrap(), 2);
    // A folder that is mounted to be read.
    answer(&client, "sandbox_create", json!({ "id": "docs", "folders": [{ "folder": "docs" }] }))
        .await;
    let refused =
        error(&client, "sandbox_write", json!({ "sandbox": "docs", "path": "b.txt", "text": "" }))
            .await;
    assert_eq!(refused.kind, ErrorKind::Denied, "{refused}");
}

#[test]
fn calls_are_replayed_without_the_folders_that_they_saw() {
    let scene = Scene::new(&json!({ "limits": { "timeout_ms_max": 20_000 } }));
    let mut wire =
        Wire::connected(&scene, &["--tape", "calls.tape"], &json!({ "elicitation": {} }));
    wire.call("sandbox_create", &json!({ "folders": [{ "folder": "project" }] }));
    let exec = |command: &str| json!({ "sandbox": "sandbox-1", "command": command });
    wire.call("sandbox_exec", &exec("cat a.txt; ls -l sub; date; echo new >> sub/b.txt; sleep 60"));
    let late =
        json!({ "sandbox": "sandbox-1", "command": "while :; do :; done", "timeout_ms": 100 });
    assert_eq!(wire.call("sandbox_exec", &late)["undone"], true);
    wire.call("sandbox_fork", &json!({ "sandbox": "sandbox-1" }));
    wire.call(
        "sandbox_exec",
        &json!({ "sandbox": "sandbox-2", "command": "cat sub/b.txt; rm a.txt; date" }),
    );
    wire.call("sandbox_compare", &json!({ "before": "sandbox-1", "after": "sandbox-2" }));
    wire.call("sandbox_diff", &json!({ "sandbox": "sandbox-2" }));
    wire.refused("sandbox_read", &json!({ "sandbox": "sandbox-2", "path": "nothing" }));
    let id = wire.begin_call("sandbox_apply", &json!({ "sandbox": "sandbox-1" }));
    let question = wire.receive(|message| message["method"] == "elicitation/create");
    let agreed = json!({ "action": "accept", "content": { "write": true } });
    wire.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": agreed }));
    assert_eq!(wire.answer(id)["result"]["isError"], false);
    assert_eq!(scene.read("project/sub/b.txt"), "below\nnew\n");
    wire.call("sandbox_exec", &exec("cat sub/b.txt"));
    assert!(wire.leave().success());

    std::fs::remove_dir_all(scene.path("project")).unwrap();
    let replayed = scene.belljar().args(["replay", "--json", "calls.tape"]).output().unwrap();
    assert!(replayed.status.success(), "{}{}", stdout(&replayed), stderr(&replayed));
    let report: Value = serde_json::from_str(&stdout(&replayed)).unwrap();
    // Left out are the call that timed out, and the two of the apply.
    assert_eq!((&report["calls"], &report["left_out"]), (&json!(8), &json!(3)), "{report}");

    // Another answer on the tape.
    let tape = scene.read("calls.tape");
    assert!(tape.contains("of the host"), "the output is short enough to be in the record");
    scene.write("calls.tape", &tape.replacen("of the host", "of the hust", 1));
    let differs = scene.belljar().args(["replay", "calls.tape"]).output().unwrap();
    assert_eq!(differs.status.code(), Some(1), "{}", stderr(&differs));
    assert!(stderr(&differs).contains("sandbox_exec has another answer"), "{}", stderr(&differs));
}

#[test]
#[cfg(feature = "http")]
fn requests_of_programs_are_replayed_without_the_network() {
    const PAGE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
    const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let page = |text: &str| format!("{PAGE}{text}");
    let secret = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{SECRET}", SECRET.len());
    let pages = [page("one,1"), page("two,2"), page("three"), secret];
    let server = Web::saying(&pages.each_ref().map(String::as_str));
    let scene = Scene::new(&json!({ "allow_net": [format!("127.0.0.1:{}", server.port)] }));
    std::fs::copy(
        crate::support::package().join("guest-examples/ask.wasm"),
        scene.path("project/ask.wasm"),
    )
    .unwrap();
    let mut wire = Wire::connected(&scene, &["--tape", "calls.tape"], &json!({}));
    wire.call("sandbox_create", &json!({ "folders": [{ "folder": "project" }] }));
    let get = |sandbox: &str, path: &str, then: &str| {
        let params = json!({ "url": server.url(path) });
        let command = format!("chmod +x ask.wasm; ./ask.wasm net.http '{params}' >> pages; {then}");
        json!({ "sandbox": sandbox, "command": command })
    };
    let stdout_of = |answer: &Value| answer["stdout"]["text"].as_str().unwrap().to_owned();
    let first = wire.call("sandbox_exec", &get("sandbox-1", "/1", "cat pages"));
    assert!(stdout_of(&first).contains("one,1"), "{first}");
    wire.call("sandbox_fork", &json!({ "sandbox": "sandbox-1" }));
    let forked = wire.call("sandbox_exec", &get("sandbox-2", "/2", "cat pages"));
    assert!(stdout_of(&forked).contains("two,2"), "{forked}");
    // The same request has another answer later on.
    let again = wire.call("sandbox_exec", &get("sandbox-1", "/1", "cat pages"));
    assert!(stdout_of(&again).contains("three"), "{again}");
    let blocked = json!({ "sandbox": "sandbox-1", "command": "./ask.wasm net.http '{\"url\":\"http://10.0.0.1/\"}'" });
    assert!(stdout_of(&wire.call("sandbox_exec", &blocked)).contains("egress_blocked"));
    let closed =
        json!({ "sandbox": "sandbox-1", "command": "./ask.wasm net.read '{\"handle\":7}'" });
    assert!(stdout_of(&wire.call("sandbox_exec", &closed)).contains("no open response 7"));
    wire.call("sandbox_exec", &get("sandbox-2", "/secret", "cat pages | wc -c"));
    wire.call("sandbox_exec", &json!({ "sandbox": "sandbox-2", "command": "wc -c < pages" }));
    // Tools that do not exist, with the names of other records.
    for name in ["serve", "drop", "net.http"] {
        wire.refused(name, &json!({ "sandbox": "sandbox-1" }));
    }
    assert!(wire.leave().success());
    assert!(!scene.read("calls.tape").contains(SECRET));

    drop(server);
    std::fs::remove_dir_all(scene.path("project")).unwrap();
    let replay = || scene.belljar().args(["replay", "--json", "calls.tape"]).output().unwrap();
    let replayed = replay();
    assert!(replayed.status.success(), "{}{}", stdout(&replayed), stderr(&replayed));
    let report: Value = serde_json::from_str(&stdout(&replayed)).unwrap();
    // What the page with the secret led to is not compared.
    assert_eq!((&report["calls"], &report["left_out"]), (&json!(10), &json!(2)), "{report}");

    // A request that the tape does not have is not made.
    let tape = scene.read("calls.tape");
    let of_request = |line: &&str| line.contains("\\\"request\\\"");
    assert_eq!(tape.lines().filter(of_request).count(), 6, "{tape}");
    let first = tape.lines().find(of_request).unwrap();
    scene.write("calls.tape", &tape.replacen(first, &first.replacen("/1", "/other", 1), 1));
    let differs = replay();
    assert_eq!(differs.status.code(), Some(1), "{}", stderr(&differs));
    assert!(
        stdout(&differs).contains("the tape has no answer to this request"),
        "{}",
        stdout(&differs)
    );
}

/// Regression: the tape lacked what a sandbox looked at first after a fork, a program that real time ended, or an apply; and a
/// secret in a call made a replay fail.
#[test]
fn calls_after_forks_and_with_secrets_are_replayed() {
    const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let scene = Scene::new(&json!({ "limits": { "timeout_ms_max": 20_000 } }));
    let capabilities = json!({ "elicitation": {} });
    let mut wire = Wire::connected(&scene, &["--tape", "calls.tape"], &capabilities);
    let folder = json!({ "folders": [{ "folder": "project" }] });
    let exec = |id: &str, command: &str| json!({ "sandbox": id, "command": command });
    // Of each sandbox, the first thing that is looked at.
    wire.call("sandbox_create", &folder);
    wire.call("sandbox_fork", &json!({ "sandbox": "sandbox-1", "id": "fork" }));
    wire.call("sandbox_exec", &exec("fork", "cat a.txt; ls; echo more >> a.txt"));
    wire.call("sandbox_diff", &json!({ "sandbox": "fork" }));
    wire.call("sandbox_create", &folder);
    let late =
        json!({ "sandbox": "sandbox-2", "command": "while :; do :; done", "timeout_ms": 100 });
    assert_eq!(wire.call("sandbox_exec", &late)["undone"], true);
    wire.call("sandbox_exec", &exec("sandbox-2", "cat sub/b.txt; ls"));
    wire.call("sandbox_create", &folder);
    wire.call("sandbox_exec", &exec("sandbox-3", "echo new > new"));
    let id = wire.begin_call("sandbox_apply", &json!({ "sandbox": "sandbox-3" }));
    let question = wire.receive(|message| message["method"] == "elicitation/create");
    let agreed = json!({ "action": "accept", "content": { "write": true } });
    wire.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": agreed }));
    assert_eq!(wire.answer(id)["result"]["isError"], false);
    wire.call("sandbox_exec", &exec("sandbox-3", "cat a.txt; ls sub"));
    // What depends on a secret, and what comes after it in that sandbox, is not compared.
    wire.call("sandbox_create", &json!({ "id": "secret" }));
    wire.call("sandbox_exec", &exec("secret", &format!("printf %s {TOKEN} | tee s | wc -c")));
    wire.call("sandbox_exec", &exec("secret", "wc -c s"));
    wire.call("sandbox_exec", &exec("sandbox-2", "cat a.txt"));
    let long = format!("echo {TOKEN}; yes | head -n 3000");
    wire.call("sandbox_exec", &exec("secret", &long));
    wire.refused("sandbox_ls", &json!({ "sandbox": "nobody" }));
    assert!(wire.leave().success());
    assert!(!scene.read("calls.tape").contains(TOKEN));

    std::fs::remove_dir_all(scene.path("project")).unwrap();
    let replayed = scene.belljar().args(["replay", "--json", "calls.tape"]).output().unwrap();
    assert!(replayed.status.success(), "{}{}", stdout(&replayed), stderr(&replayed));
    let report: Value = serde_json::from_str(&stdout(&replayed)).unwrap();
    // Left out are the call that timed out, the two of the apply, the three with the secret, and the sandbox
    // that is not there.
    assert_eq!((&report["calls"], &report["left_out"]), (&json!(11), &json!(7)), "{report}");
}

/// Regression: a call that reached the limit left the file empty, and new directories. As a replay leaves such calls out, later
/// ones had other answers.
#[test]
fn a_write_that_fails_changes_nothing() {
    let scene = Scene::new(&json!({ "limits": { "upper_bytes_max": 100_000 } }));
    let mut wire = Wire::connected(&scene, &["--tape", "calls.tape"], &json!({}));
    wire.call("sandbox_create", &json!({ "id": "box" }));
    let write = |path: &str, text: &str| json!({ "sandbox": "box", "path": path, "text": text });
    wire.call("sandbox_write", &write("mine", "precious\n"));
    let long = "x".repeat(200_000);
    for path in ["mine", "p/q/new"] {
        assert_eq!(wire.refused("sandbox_write", &write(path, &long)).0, "limit", "{path}");
    }
    let mut appending = write("mine", &long);
    appending["append"] = true.into();
    assert_eq!(wire.refused("sandbox_write", &appending).0, "limit");
    for path in ["x2/y/../../mine/q", "x2/y/../..", "x2/new/"] {
        assert_eq!(wire.refused("sandbox_write", &write(path, "text")).0, "failed", "{path}");
    }
    let seen = json!({ "sandbox": "box", "command": "cat mine; ls" });
    let seen = wire.call("sandbox_exec", &seen);
    assert_eq!(seen["stdout"]["text"], "precious\nmine\n", "{seen}");
    wire.call("sandbox_write", &write("p/q/new", "short"));
    wire.call("sandbox_diff", &json!({ "sandbox": "box" }));
    assert!(wire.leave().success());

    // Left out are the three that reach the limit.
    assert_eq!(scene.replayed(), (8, 3));
}

/// Regression: only a secret in an argument, an answer or a request was known, so that a replay failed without the content of
/// a file that the tape withholds.
#[test]
fn calls_after_a_file_with_a_secret_was_read_are_not_compared() {
    const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let scene = Scene::new(&json!({}));
    scene.write("project/.env", &format!("one={TOKEN}\n"));
    let mut wire = Wire::connected(&scene, &["--tape", "calls.tape"], &json!({}));
    let create = |id: &str| json!({ "id": id, "folders": [{ "folder": "project" }] });
    let fork = |id: &str, of: &str| json!({ "sandbox": of, "id": id });
    let exec = |id: &str, command: &str| json!({ "sandbox": id, "command": command });
    wire.call("sandbox_create", &create("box"));
    wire.call("sandbox_create", &create("other"));
    wire.call("sandbox_fork", &fork("early", "box"));
    wire.call("sandbox_exec", &exec("box", "cat a.txt; ls -a"));
    let found = wire.call("sandbox_exec", &exec("box", "grep -rc one ."));
    assert!(found["stdout"]["text"].as_str().unwrap().contains(".env:1"), "{found}");
    wire.call("sandbox_exec", &exec("box", "cat a.txt"));
    // Its directories are those of `box`, and were read already.
    wire.call("sandbox_exec", &exec("early", "cat .env | wc -c"));
    wire.call("sandbox_exec", &exec("other", "cat a.txt"));
    // A fork is the first to read it.
    wire.call("sandbox_fork", &fork("late", "other"));
    wire.call("sandbox_exec", &exec("late", "cat .env | wc -c"));
    wire.call("sandbox_exec", &exec("other", "cat .env | wc -c"));
    assert!(wire.leave().success());
    assert!(!scene.read("calls.tape").contains(TOKEN));

    std::fs::remove_dir_all(scene.path("project")).unwrap();
    assert_eq!(scene.replayed(), (6, 5));
}

/// Regression: the server waited for the next line of its client, for 30 seconds.
#[cfg(unix)]
#[test]
fn server_ends_by_a_signal_while_its_input_is_open() {
    use rustix::process::Signal;
    for signal in [Signal::TERM, Signal::INT] {
        let scene = Scene::new(&json!({}));
        let mut wire = Wire::connected(&scene, &["--tape", "t"], &json!({}));
        assert!(wire.request("tools/list", &json!({}))["result"]["tools"].is_array());
        let status = wire.signalled(signal).expect("it ends");
        assert_eq!(status.code(), Some(0), "{signal:?}");
        let replayed = scene.belljar().args(["replay", "t"]).output().unwrap();
        assert!(replayed.status.success(), "{}", stderr(&replayed));
    }
}
