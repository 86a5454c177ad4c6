//! Servers that are slow, gone, full, wrong or lie: runs end right, and soon.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Machine;
use super::server::{Fault, Server};

/// Longest time of a run here, which is much less than a server waits that is slow.
const TIME_MAX: Duration = Duration::from_secs(40);

/// What the build of a machine reports, which uses the server at `address`, where only what fails ends soon: a busy
/// machine may take long for an answer.
fn build(address: &str) -> Value {
    build_within(address, "30s")
}

fn build_within(address: &str, timeout: &str) -> Value {
    let machine = Machine::new();
    let timeout = format!("--remote-timeout={timeout}");
    let args = ["sh", "--apply", "--remote-upload", &timeout, "build.sh"];
    let started = Instant::now();
    let (report, printed, said) = machine.run(address, &args);
    assert!(started.elapsed() < TIME_MAX, "{said}");
    assert!(printed.starts_with("AND MORE\nTEXT OF 0\n"), "{printed}");
    assert_eq!(printed.lines().count(), 20);
    report["results"]["remote"].clone()
}

#[test]
fn wrong_servers_never_cost_a_run() {
    let right = Server::start(Fault::None);
    assert_eq!(build(&right.address)["uploaded"], 21);
    for (fault, error) in [
        (Fault::Contents, "other contents than"),
        (Fault::Length(-1), "a file of -1 bytes"),
        (Fault::Length(1 << 40), "a file of 1099511627776 bytes"),
        (Fault::Length(3), "other contents than"),
        (Fault::Hash, "../../etc/passwd"),
        (Fault::Slow, "no answer in 0.5 s"),
        (Fault::Denied, "you may not read this"),
        (Fault::NoCache, "it is no cache"),
    ] {
        let timeout = if matches!(fault, Fault::Slow) { "500ms" } else { "30s" };
        let remote = build_within(&right.turned(fault).address, timeout);
        let said = remote["error"].as_str().unwrap_or_default();
        assert!(said.contains(error), "{fault:?}: {remote}");
        assert_eq!(remote["fetched"], 0, "{fault:?}");
    }
    for fault in [Fault::Lost, Fault::Garbage, Fault::Mixed] {
        let remote = build(&right.turned(fault).address);
        assert_eq!(remote["error"], Value::Null, "{fault:?}");
        // A trace of the same action may be the right one all the same.
        assert!(remote["fetched"] == 0 || fault == Fault::Mixed, "{fault:?}");
    }
}

/// Each answer comes in time, and all of them take longer than the build without them.
#[test]
fn server_that_costs_more_than_it_saves_is_not_asked_any_more() {
    let right = Server::start(Fault::None);
    let (counts, printed) = Machine::new().build(&right.address, &["--remote-upload"]);
    assert_eq!(counts, [0, 21, 0, 21]);
    let server = right.turned(Fault::Sluggish);
    // Another command than the one whose results are asked for together.
    let args = ["sh", "--apply", "--remote-timeout=500ms", "-c", ". ./build.sh"];
    let (report, same, said) = Machine::new().run(&server.address, &args);
    assert_eq!(printed, same);
    assert!(said.contains("asking took 0."), "{said}");
    assert!(said.contains("so no more are asked for"), "{said}");
    assert!(server.requests() < 20, "{} requests", server.requests());
    assert_ne!(report["results"]["misses"], 0);
}

/// What is fetched ahead takes longer than the build without it: it is waited for no longer than for all else.
#[test]
fn list_that_takes_long_to_fetch_is_given_up() {
    let right = Server::start(Fault::None);
    let (_, printed) = Machine::new().build(&right.address, &["--remote-upload"]);
    right.lengthen_lists(60);
    let server = right.turned(Fault::Sluggish);
    let args = ["sh", "--apply", "--remote-timeout=500ms", "build.sh"];
    let (_, same, said) = Machine::new().run(&server.address, &args);
    assert_eq!(printed, same);
    assert!(said.contains("so no more are asked for"), "{said}");
    assert!(server.requests() < 20, "{} requests", server.requests());
    // With time, all is found.
    assert_eq!(Machine::new().build(&right.address, &[]).0[..2], [21, 0]);
}

#[test]
fn servers_that_take_nothing_cost_a_note() {
    for (fault, error) in [
        (Fault::ReadOnly, "this server takes no results from clients"),
        (Fault::Full, "BatchUpdateBlobs"),
    ] {
        let remote = build(&Server::start(fault).address);
        assert!(remote["error"].as_str().unwrap().contains(error), "{remote}");
        assert_eq!((&remote["uploaded"], &remote["lost"]), (&0.into(), &21.into()), "{fault:?}");
    }
}

#[test]
fn server_that_is_not_there_costs_a_note() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let remote = build_within(&format!("grpc://{nobody}"), "500ms");
    assert!(remote["error"].as_str().unwrap().contains("onnect"), "{remote}");
    // One that accepts connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = build_within(&format!("grpc://{}", silent.local_addr().unwrap()), "500ms");
    assert!(remote["error"].as_str().unwrap().contains("no answer"), "{remote}");
}

/// A server that ends while builds use it.
#[test]
fn builds_end_right_when_the_server_ends_in_the_middle() {
    let right = Server::start(Fault::None);
    assert_eq!(build(&right.address)["uploaded"], 21);
    for after_ms in (0..200).step_by(20) {
        let server = right.turned(Fault::None);
        let address = server.address.clone();
        let ends = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(after_ms));
            drop(server);
        });
        build_within(&address, "500ms");
        ends.join().unwrap();
    }
}
