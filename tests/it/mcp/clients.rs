//! Real clients: the Python package `mcp`, and the inspector.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{Scene, python};
use crate::support::{package, real, skipped, stderr, stdout};

/// Both lifecycles of the protocol: the newest version, and that with a handshake.
const MODES: [&str; 2] = ["auto", "legacy"];

fn every_tool(scene: &Scene, python: &mut Command, args: &[&str]) -> String {
    python
        .args(args)
        .env("BELLJAR_HOME", scene.path("home"))
        .env("BELLJAR_CACHE_DIR", crate::support::cache_dir());
    let output = python.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

const TEST: &str = "the Python client of MCP";

#[test]
fn the_python_client_drives_every_tool_over_standard_streams() {
    for mode in MODES {
        let Some(mut python) = python("every_tool.py", TEST) else { return };
        // Installing fetches a package, as the tests of real toolchains do.
        let install = if real("resvg", TEST).is_some() { json!(["resvg"]) } else { json!([]) };
        let scene =
            Scene::new(&json!({ "install": install, "limits": { "timeout_ms_max": 30_000 } }));
        let policy = scene.path("policy.json");
        let args =
            [mode, env!("CARGO_BIN_EXE_belljar"), "mcp", "--policy", policy.to_str().unwrap()];
        let said = every_tool(&scene, &mut python, &args);
        let version = if mode == "auto" { "2026-07-28" } else { "2025-11-25" };
        assert!(said.contains(&format!("protocol: {version}")), "{said}");
        assert_eq!(scene.read("project/a.txt"), "of the host\nchanged\n");
    }
}

/// A server over HTTP.
struct Http(Child, String);

impl Http {
    fn start(scene: &Scene, args: &[&str]) -> Self {
        let mut command = scene.belljar();
        command.args([
            "mcp",
            "--policy",
            "policy.json",
            "--http",
            "127.0.0.1:0",
            "--token-file",
            "token",
        ]);
        command.args(args).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = loop {
            let line = lines.next().expect("the server says where it is").unwrap();
            if let Some(url) = line.strip_prefix("belljar: serving MCP at ") {
                break url.to_owned();
            }
        };
        Self(child, url)
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_python_client_drives_every_tool_over_http() {
    for mode in MODES {
        let scene = Scene::new(&json!({ "limits": { "timeout_ms_max": 30_000 } }));
        let Some(mut python) = python("every_tool.py", TEST) else { return };
        let server = Http::start(&scene, &[]);
        let token = scene.read("token");
        every_tool(&scene, &mut python, &[mode, &server.1, token.trim()]);
    }
}

#[test]
fn http_refuses_requests_without_token_or_with_a_foreign_origin_or_host() {
    let scene = Scene::new(&json!({ "allow_origins": ["http://localhost:6274"] }));
    let server = Http::start(&scene, &[]);
    let token = scene.read("token").trim().to_owned();
    let address = server.1.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let bearer = format!("Authorization: Bearer {token}");
    let own_host = format!("Host: {address}");
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "0" } },
    })
    .to_string();
    let accepts = "Accept: application/json, text/event-stream";
    for (path, headers, status) in [
        ("/mcp", vec![&*own_host, accepts], 401),
        ("/mcp", vec![&*own_host, accepts, "Authorization: Bearer wrong-wrong-wrong-wrong"], 401),
        ("/mcp", vec!["Host: evil.example", accepts, &bearer], 403),
        ("/mcp", vec![&*own_host, accepts, &bearer, "Origin: http://evil.example"], 403),
        ("/mcp", vec![&*own_host, accepts, &bearer, "Origin: null"], 403),
        ("/other", vec![&*own_host, accepts, &bearer], 404),
        ("/mcp", vec![&*own_host, accepts, &bearer, "Origin: http://localhost:6274"], 200),
        ("/mcp", vec![&*own_host, accepts, &bearer], 200),
    ] {
        let answer = request(&address, path, &headers, &initialize);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {headers:?}: {answer}");
    }
}

#[test]
fn clients_that_leave_over_http_leave_no_sandbox() {
    let scene = Scene::new(
        &json!({ "limits": { "sandboxes_max": 2, "idle_ms_max": 2000, "timeout_ms_max": 2000 } }),
    );
    let server = Http::start(&scene, &[]);
    let token = scene.read("token");
    // The last one finds all sandboxes free, however those before it left. The program of one that says nothing runs on
    // until its time limit, as that client might come back to its session.
    for how in ["polite", "abrupt", "polite", "polite"] {
        let Some(mut python) = python("leaves.py", TEST) else { return };
        let output = python.args([how, &server.1, token.trim()]).output().unwrap();
        assert!(output.status.success(), "{how}: {}{}", stdout(&output), stderr(&output));
    }
}

/// Sends one request; returns the head of the answer.
fn request(address: &str, path: &str, headers: &[&str], body: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let mut text = format!(
        "POST {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.push_str(body);
    stream.write_all(text.as_bytes()).unwrap();
    let mut head = [0; 64];
    stream.read_exact(&mut head[..13]).unwrap();
    String::from_utf8_lossy(&head[..13]).into_owned()
}

#[test]
fn http_listens_on_this_machine_only() {
    let scene = Scene::new(&json!({}));
    let output = scene
        .belljar()
        .args(["mcp", "--http", "0.0.0.0:0", "--token-file", "token"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("can be reached from other machines"), "{}", stderr(&output));
}

/// The inspector, in its mode for the command line: `npm install --prefix target/inspector` has it.
fn inspector() -> Option<Command> {
    let file = package().join("target/inspector/node_modules/.bin/mcp-inspector");
    if !file.exists() {
        let is_required = std::env::var_os("BELLJAR_REQUIRE_INSPECTOR").is_some();
        assert!(!is_required, "target/inspector does not have the inspector");
        skipped("the inspector of MCP", "target/inspector does not have it");
        return None;
    }
    Some(Command::new(file))
}

/// What the inspector prints for one request, which it makes as a client without a session: such clients share
/// their sandboxes.
fn inspect(scene: &Scene, args: &[&str]) -> Value {
    let output = inspector_of(scene).args(args).output().unwrap();
    let text = if output.stdout.is_empty() { stderr(&output) } else { stdout(&output) };
    let answer: Result<Value, _> = serde_json::from_str(&text);
    let answer =
        answer.unwrap_or_else(|error| panic!("{args:?}: {error}: {text}{}", stderr(&output)));
    answer.get("result").cloned().unwrap_or(answer)
}

fn inspector_of(scene: &Scene) -> Command {
    let mut command = inspector().expect("it was there before");
    let config = scene.path("inspector.json");
    command.args([
        "--cli",
        "--config",
        config.to_str().unwrap(),
        "--server",
        "belljar",
        "--format",
        "json",
        "--quiet",
    ]);
    command.env("HOME", scene.path("home"));
    command
}

#[test]
fn the_inspector_drives_every_tool() {
    const TEST: &str = "the inspector of MCP";
    let scene = Scene::new(&json!({ "install": ["resvg"] }));
    if inspector().is_none() || real("resvg", TEST).is_none() {
        return;
    }
    let server = Http::start(&scene, &[]);
    let token = scene.read("token");
    let bearer = format!("Bearer {}", token.trim());
    let config = json!({ "mcpServers": { "belljar": {
        "type": "http", "url": server.1, "headers": { "Authorization": bearer }, "protocolEra": "modern",
    } } });
    scene.write("inspector.json", &config.to_string());
    let listed = inspect(&scene, &["--method", "tools/list"]);
    // Schemas that not every client understands are told here.
    let checked =
        inspector_of(&scene).args(["--method", "tools/list", "--strict"]).output().unwrap();
    assert!(
        checked.status.success() && !stderr(&checked).contains("Warning"),
        "{}",
        stderr(&checked)
    );
    let mut left: Vec<&str> =
        listed["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(left.len(), 14, "{left:?}");
    let mut call = |tool: &str, arguments: Value| {
        left.retain(|name| *name != tool);
        let arguments = arguments.to_string();
        inspect(
            &scene,
            &["--method", "tools/call", "--tool-name", tool, "--tool-args-json", &arguments],
        )
    };
    let mut succeed = |tool: &str, arguments: Value| {
        let answer = call(tool, arguments);
        assert_eq!(answer["isError"], false, "{tool}: {answer}");
        answer["structuredContent"].clone()
    };
    succeed("sandbox_create", json!({ "id": "box", "folders": [{ "folder": "project" }] }));
    let ran = succeed(
        "sandbox_exec",
        json!({ "sandbox": "box", "command": "cat a.txt; seq 5", "max_bytes": 16 }),
    );
    assert_eq!(ran["stdout"]["text"], "of the host\n1\n2\n", "{ran}");
    let rest = succeed(
        "sandbox_output",
        json!({ "sandbox": "box", "output": ran["output"], "offset": 16 }),
    );
    assert_eq!(rest["text"], "3\n4\n5\n", "{rest}");
    succeed("sandbox_fork", json!({ "sandbox": "box", "id": "attempt" }));
    succeed("sandbox_write", json!({ "sandbox": "attempt", "path": "new.txt", "text": "new\n" }));
    let read = succeed("sandbox_read", json!({ "sandbox": "attempt", "path": "new.txt" }));
    assert_eq!(read["text"], "new\n", "{read}");
    let entries = succeed("sandbox_ls", json!({ "sandbox": "attempt" }));
    assert_eq!(entries["total_entries"], 3, "{entries}");
    let compared = succeed("sandbox_compare", json!({ "before": "box", "after": "attempt" }));
    assert_eq!(compared["changes"][0]["path"], "new.txt", "{compared}");
    let diff = succeed("sandbox_diff", json!({ "sandbox": "attempt" }));
    assert_eq!(diff["total_changes"], 1, "{diff}");
    assert_eq!(succeed("sandbox_list", json!({}))["sandboxes"].as_array().unwrap().len(), 2);
    let installed = succeed("toolchain_install", json!({ "toolchain": "resvg" }));
    assert_eq!(installed["programs"], json!(["resvg", "usvg"]), "{installed}");
    let programs = succeed("program_list", json!({ "contains": "svg" }));
    assert_eq!(programs["total_programs"], 2, "{programs}");
    succeed("sandbox_drop", json!({ "sandbox": "box" }));
    // In this mode it cannot ask its user.
    let refused = call("sandbox_apply", json!({ "sandbox": "attempt" }));
    assert!(
        refused.to_string().contains("agree") || refused.to_string().contains("input"),
        "{refused}"
    );
    assert!(!scene.path("project/new.txt").exists());
    assert!(left.is_empty(), "not called: {left:?}");
}
