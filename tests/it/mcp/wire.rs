//! A client of one's own over standard streams: sends any bytes, and reads answers line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::Scene;

/// How long an answer may take before the test fails.
const PATIENCE: Duration = Duration::from_mins(2);

/// A running `belljar mcp`.
pub struct Wire {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
    /// Answers that were read while another one was waited for.
    early: Vec<Value>,
}

impl Wire {
    /// Starts it with the policy of `scene` and these arguments, without the handshake.
    pub fn start(scene: &Scene, args: &[&str]) -> Self {
        let mut command = scene.belljar();
        command.args(["mcp", "--policy", "policy.json"]).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, next_id: 0, early: Vec::new() }
    }

    /// Starts it, and makes the handshake of a client that has these capabilities.
    pub fn connected(scene: &Scene, args: &[&str], capabilities: &Value) -> Self {
        let mut wire = Self::start(scene, args);
        let answer = wire.request(
            "initialize",
            &json!({
                "protocolVersion": "2025-06-18", "capabilities": capabilities,
                "clientInfo": { "name": "test", "version": "0" },
            }),
        );
        assert_eq!(answer["result"]["serverInfo"]["name"], "belljar", "{answer}");
        wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        wire
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    /// Sends a request; returns its id.
    pub fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Begins a call of a tool.
    pub fn begin_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.begin("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    /// The next message of the server that `is_wanted`.
    pub fn receive(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.early.iter().position(&is_wanted) {
            return self.early.remove(at);
        }
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the server answers");
            let message: Value = serde_json::from_str(&line).unwrap();
            if is_wanted(&message) {
                return message;
            }
            self.early.push(message);
        }
    }

    /// The answer to the request `id`.
    pub fn answer(&mut self, id: u64) -> Value {
        self.receive(|message| message["id"] == id && message.get("method").is_none())
    }

    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    /// Calls a tool; returns its structured answer.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin_call(tool, arguments);
        let answer = self.answer(id);
        assert_eq!(answer["result"]["isError"], false, "{tool} {arguments}: {answer}");
        answer["result"]["structuredContent"].clone()
    }

    /// Calls a tool, which must answer with an error; returns its kind and message.
    pub fn refused(&mut self, tool: &str, arguments: &Value) -> (String, String) {
        let id = self.begin_call(tool, arguments);
        let answer = self.answer(id);
        refusal(&answer)
    }

    /// Sends it `signal` and leaves its input open; returns how it ended, if it did within ten seconds.
    #[cfg(unix)]
    pub fn signalled(
        &mut self,
        signal: rustix::process::Signal,
    ) -> Option<std::process::ExitStatus> {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
        for _ in 0..1000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Closes its input, and waits for its end.
    pub fn leave(&mut self) -> std::process::ExitStatus {
        self.stdin = None;
        self.child.wait().unwrap()
    }
}

/// The kind and message of the error in `answer`: of a tool, or of the protocol.
pub fn refusal(answer: &Value) -> (String, String) {
    if let Some(message) = answer["error"]["message"].as_str() {
        return ("protocol".to_owned(), message.to_owned());
    }
    if answer["result"]["isError"] != true {
        return ("no error".to_owned(), answer.to_string());
    }
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    let error: Value = serde_json::from_str(text).unwrap();
    let part = |name: &str| error["error"][name].as_str().unwrap().to_owned();
    (part("kind"), part("message"))
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
