//! Results that are shared over a server of the Remote Execution API: `--remote-cache`.

#[cfg(target_os = "linux")]
mod buildgrid;
mod casd;
mod server;
mod trust;
mod wrong;

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use serde_json::Value;

use self::server::{Fault, Server};
use super::Project;
use crate::support::{stderr, stdout, tree};

/// A machine: a project, and a cache that starts empty.
struct Machine(Project);

impl Machine {
    /// A machine with the files of the project.
    fn new() -> Self {
        let project = Project::new();
        for number in 0..10 {
            project.write(&format!("in/{number}"), &format!("text of {number}\nand more\n"));
        }
        project.write(
            "build.sh",
            "for f in in/*; do tr a-z A-Z <$f | sort >out-${f#in/}; done; cat out-*\n",
        );
        Self(project)
    }

    /// What a run reports that uses the server at `address`, and what it printed.
    fn run(&self, address: &str, args: &[&str]) -> (Value, String, String) {
        let address = format!("--remote-cache={address}");
        let mut all = vec![args[0], &address, "--explain", "--json=../report.json"];
        all.extend(&args[1..]);
        let output = self.0.belljar(&all);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report = fs::read_to_string(self.0.0.path().join("report.json")).unwrap();
        (serde_json::from_str(&report).unwrap(), stdout(&output), stderr(&output))
    }

    /// Those of the last build, which `cat` would see.
    fn remove_outputs(&self) {
        for number in 0..10 {
            let _ = fs::remove_file(self.0.tree().join(format!("out-{number}")));
        }
    }

    /// Hits and misses, and traces that were fetched and uploaded, of the build.
    fn build(&self, address: &str, options: &[&str]) -> ([u64; 4], String) {
        self.remove_outputs();
        let (report, printed, said) =
            self.run(address, &[&["sh", "--apply"], options, &["build.sh"]].concat());
        let results = &report["results"];
        let remote = &results["remote"];
        assert_eq!(remote["error"], Value::Null, "{said}");
        let counts =
            [&results["hits"], &results["misses"], &remote["fetched"], &remote["uploaded"]];
        (counts.map(|count| count.as_u64().unwrap()), printed)
    }
}

#[test]
fn second_machine_runs_nothing() {
    let server = Server::start(Fault::None);
    shared_over(&server.address);
}

/// A build on one machine, and then on another one.
fn shared_over(address: &str) {
    let (first, second) = (Machine::new(), Machine::new());
    let (counts, printed) = first.build(address, &["--remote-upload"]);
    assert_eq!(counts, [0, 21, 0, 21]);
    let (counts, again) = second.build(address, &[]);
    assert_eq!(counts, [21, 0, 21, 0], "the second machine has all results from the server");
    assert_eq!(printed, again);
    assert_eq!(tree(&first.0.tree()), tree(&second.0.tree()));
    second.remove_outputs();
    let (hits, misses, said) = second.0.counts("sh", &["--mtimes=content", "--apply", "build.sh"]);
    assert_eq!((hits, misses), (21, 0), "what was fetched is known here from then on: {said}");

    // One file of ten is another one.
    for machine in [&first, &second] {
        machine.0.write("in/7", "another text\n");
    }
    let (counts, printed) = first.build(address, &["--remote-upload"]);
    assert_eq!(counts, [18, 3, 0, 3]);
    let (counts, again) = second.build(address, &["--remote-upload"]);
    assert_eq!(counts, [21, 0, 3, 0]);
    assert_eq!(printed, again);
}

/// Builds that use the server at `address`, at so many points of which `kill` ends it, and starts it again, perhaps at another address.
/// Each must make what a build without a server makes, which is returned.
fn killed_in_builds(
    address: &mut String,
    kills: usize,
    mut kill: impl FnMut(&mut String) + Send,
) -> BTreeMap<String, Vec<u8>> {
    let plain = Machine::new();
    plain.0.belljar(&["sh", "--apply", "build.sh"]);
    let right = tree(&plain.0.tree());
    let begun = Instant::now();
    Machine::new().build(address, &[]);
    let whole = begun.elapsed();
    for number in 0..kills {
        let machine = Machine::new();
        let cache = format!("--remote-cache={address}");
        let after = whole * u32::try_from(number).unwrap() / u32::try_from(kills).unwrap();
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(after);
                kill(address);
            });
            let args =
                ["sh", "--apply", "--remote-upload", "--remote-timeout=2s", &cache, "build.sh"];
            machine.0.belljar(&args)
        });
        assert_eq!(output.status.code(), Some(0), "killed after {after:?}: {}", stderr(&output));
        assert_eq!(tree(&machine.0.tree()), right, "killed after {after:?}");
    }
    right
}

/// Contents that do not fit in one message.
fn large_results_are_shared_over(address: &str) {
    let (first, second) = (Machine::new(), Machine::new());
    let large = "a line of a large file\n".repeat(500_000);
    for machine in [&first, &second] {
        machine.0.write("large", &large);
    }
    let args = ["run", "--apply", "--remote-upload", "cp", "large", "copy"];
    let (report, _, said) = first.run(address, &args);
    assert_eq!(report["results"]["remote"]["uploaded"], 1, "{said}");
    let (report, _, said) = second.run(address, &args);
    assert_eq!(report["results"]["hits"], 1, "{said}");
    assert_eq!(fs::read_to_string(second.0.tree().join("copy")).unwrap(), large);
}

#[test]
fn large_results_are_shared() {
    large_results_are_shared_over(&Server::start(Fault::None).address);
}

#[test]
fn results_of_a_command_are_asked_for_together() {
    let server = Server::start(Fault::None);
    let first = Machine::new();
    assert_eq!(first.build(&server.address, &["--remote-upload"]).0, [0, 21, 0, 21]);
    let before = server.requests();
    assert_eq!(Machine::new().build(&server.address, &[]).0, [21, 0, 21, 0]);
    let requests = server.requests() - before;
    assert!(requests <= 3, "{requests} requests for 21 traces");

    // Of what is here already, nothing is fetched; what the last run did not need is still on the list.
    let before = server.requests();
    assert_eq!(first.build(&server.address, &[]).0, [21, 0, 0, 0]);
    assert_eq!(server.requests(), before, "all is known here");
    first.0.write(
        "in/7",
        "another text
",
    );
    assert_eq!(first.build(&server.address, &["--remote-upload"]).0, [18, 3, 0, 3]);
    let (old, new) = (Machine::new(), Machine::new());
    new.0.write(
        "in/7",
        "another text
",
    );
    // With the new text, `cat` leaves the trace that it had with the old one.
    for (machine, fetched) in [(&new, 22), (&old, 21)] {
        let before = server.requests();
        assert_eq!(machine.build(&server.address, &[]).0, [21, 0, fetched, 0]);
        let requests = server.requests() - before;
        assert!(requests <= 3, "{requests} requests for 21 traces");
    }
}

/// The first build with a server on a machine that has built before, and one with a server that was emptied.
#[test]
fn results_that_are_known_here_are_uploaded_if_the_server_lacks_them() {
    let server = Server::start(Fault::None);
    let (first, second) = (Machine::new(), Machine::new());
    let args = ["--mtimes=content", "--apply", "build.sh"];
    assert_eq!(first.0.counts("sh", &args).1, 21);
    assert_eq!(first.build(&server.address, &["--remote-upload"]).0, [21, 0, 0, 21]);
    assert_eq!(second.build(&server.address, &[]).0, [21, 0, 21, 0]);
    assert_eq!(first.build(&server.address, &["--remote-upload"]).0, [21, 0, 0, 0]);
    server.forget_results();
    assert_eq!(first.build(&server.address, &["--remote-upload"]).0, [21, 0, 0, 21]);
    assert_eq!(Machine::new().build(&server.address, &[]).0, [21, 0, 21, 0]);

    // Not in the name of a key: where they come from is not known any more.
    let made = first.0.belljar(&["keys", "generate", "--no-password", "../key"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    server.forget_results();
    let sign = ["--remote-upload", "--remote-sign=../key"];
    assert_eq!(first.build(&server.address, &sign).0, [21, 0, 0, 0]);

    // And none with a secret.
    first.0.write("key", "password=correct-horse-battery\n");
    let secret = "--env=API_KEY=correct-horse-battery";
    let keep = ["--mtimes=content", "--cache-secrets", secret, "cat", "key"];
    assert_eq!(first.0.counts("run", &keep).1, 1);
    let args = ["run", "--remote-upload", "--cache-secrets", secret, "cat", "key"];
    let (report, _, said) = first.run(&server.address, &args);
    let results = &report["results"];
    assert_eq!(
        (&results["hits"], &results["remote"]["uploaded"]),
        (&1.into(), &0.into()),
        "{said}"
    );
    assert!(!server.holds(b"correct-horse"));
}

#[test]
fn contents_are_compressed_where_the_server_can() {
    let plain = Server::start(Fault::None);
    let server = plain.compressing();
    shared_over(&server.address);
    large_results_are_shared_over(&server.address);
    assert!(server.compressed() > 0);
    // What one has taken compressed, the other one has, too.
    let before = server.compressed();
    assert_eq!(Machine::new().build(&plain.address, &[]).0, [21, 0, 21, 0]);
    assert_eq!(server.compressed(), before);
}

/// A machine that had results of its own before it used the server has another first trace than that.
#[test]
fn results_are_found_though_machines_had_others_first() {
    let server = Server::start(Fault::None);
    let (first, second) = (Machine::new(), Machine::new());
    let texts = ["one\n", "two\n", "three\n", "four\n"];
    let sort = ["run", "--remote-upload", "sort", "list"];
    for text in texts {
        first.0.write("list", text);
        first.run(&server.address, &sort);
    }
    second.0.write("list", "of its own\n");
    assert_eq!(second.0.counts("run", &["--mtimes=content", "sort", "list"]).1, 1);
    for text in texts {
        second.0.write("list", text);
        let (report, printed, said) = second.run(&server.address, &sort);
        assert_eq!(report["results"]["hits"], 1, "{text}: {said}");
        assert_eq!(printed, text);
    }
    // And what this machine adds is found by the other one.
    second.0.write("list", "five\n");
    assert_eq!(second.run(&server.address, &sort).0["results"]["remote"]["uploaded"], 1);
    first.0.write("list", "five\n");
    assert_eq!(first.run(&server.address, &sort).0["results"]["hits"], 1);
}

#[test]
fn nothing_is_uploaded_unless_it_is_asked_for() {
    let server = Server::start(Fault::None);
    let (counts, _) = Machine::new().build(&server.address, &[]);
    assert_eq!(counts, [0, 21, 0, 0]);
    assert_eq!(server.results(), 0);
}

#[test]
fn results_with_secrets_are_not_uploaded() {
    let server = Server::start(Fault::None);
    let machine = Machine::new();
    machine.0.write("key", "password=correct-horse-battery\n");
    let secret = "--env=API_KEY=correct-horse-battery";
    for options in [&["cat", "key"][..], &["env"], &["--cache-secrets", "cat", "key"]] {
        let args = [&["run", "--remote-upload", secret], options].concat();
        let (report, _, said) = machine.run(&server.address, &args);
        assert_eq!(report["results"]["remote"]["uploaded"], 0, "{options:?}: {said}");
    }
    assert!(!server.holds(b"correct-horse"));
    // What has no secret is.
    machine.run(&server.address, &["run", "--remote-upload", "cat", "in/1"]);
    assert!(server.holds(b"text of 1"));
}

#[test]
fn times_on_the_disk_do_not_matter_on_another_machine() {
    let server = Server::start(Fault::None);
    let (first, second) = (Machine::new(), Machine::new());
    let old = fs::File::options().write(true).open(second.0.tree().join("in/1")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    let stat = ["run", "--remote-upload", "ls", "-l", "in/1"];
    let (_, printed, _) = first.run(&server.address, &stat);
    let (report, again, said) = second.run(&server.address, &stat);
    assert_eq!(report["results"]["hits"], 1, "{said}");
    assert_eq!(printed, again);
}

#[test]
fn header_is_sent_with_each_request() {
    let server = Server::start(Fault::None);
    let machine = Machine::new();
    machine
        .run(&server.address, &["run", "--remote-header=Authorization=Bearer of bad news", "true"]);
    let headers = server.headers();
    assert!(!headers.is_empty() && headers.len() as u64 == server.requests());
    assert!(headers.iter().all(|value| value == "Bearer of bad news"), "{headers:?}");
}

/// As CI sets a variable that it does not know.
#[test]
fn empty_variable_names_no_server() {
    let machine = Machine::new();
    machine
        .0
        .write("times.sh", "[ in/1 -nt in/2 ] || [ in/2 -nt in/1 ] && echo times of the disk\n");
    let later = fs::File::options().write(true).open(machine.0.tree().join("in/1")).unwrap();
    later.set_modified(std::time::UNIX_EPOCH).unwrap();
    let run = |variables: &[&str]| {
        let mut command = crate::support::belljar(&machine.0.tree());
        command.args(["sh", "times.sh"]);
        for name in variables {
            command.env(name, "");
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let variables = [
        "BELLJAR_REMOTE_CACHE",
        "BELLJAR_REMOTE_TRUST",
        "BELLJAR_REMOTE_SIGN",
        "BELLJAR_REMOTE_UPLOAD",
        "BELLJAR_REMOTE_HEADER",
        "BELLJAR_REMOTE_CERTIFICATES",
    ];
    assert_eq!(run(&variables), run(&[]));
    assert_eq!(run(&[]), "times of the disk\n");
}

#[test]
fn options_of_a_server_need_one() {
    let machine = Machine::new();
    for (args, message) in [
        (&["run", "--remote-upload", "true"][..], "--remote-upload needs --remote-cache"),
        (&["run", "--explain", "true"], "--explain needs --cache-results"),
        (
            &["run", "--remote-cache=cache:80", "true"],
            "it begins with grpc://, or with grpcs:// for TLS",
        ),
        (&["run", "--remote-cache=grpc://x", "--remote-header=x", "true"], "this is no NAME=VALUE"),
        (
            &["run", "--remote-cache=grpc://x", "--remote-certificates=x.pem", "true"],
            "certificates are of use only with TLS: grpcs://",
        ),
    ] {
        let output = machine.0.belljar(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
    }
}
