//! Makes calls of `belljar:process` and `belljar:host`: the first argument names what is tried, see `main`.

mod bindings {
    wit_bindgen::generate!({
        inline: "
            package test:process-calls;

            world process-calls {
                import belljar:process/processes@0.1.0;
                import belljar:host/calls@0.1.0;
            }
        ",
        path: [
            "../../../../guest-examples/rust/belljar-guest/wit/process",
            "../../../../guest-examples/rust/belljar-guest/wit/host",
        ],
        with: {
            "wasi:filesystem/types@0.2.0": wasip2::filesystem::types,
            "wasi:io/poll@0.2.0": wasip2::io::poll,
            "wasi:io/streams@0.2.0": wasip2::io::streams,
        },
        generate_all,
    });
}

use bindings::belljar::host::calls;
use bindings::belljar::process::processes::{self, Child, Command, ErrorCode, Stdio, pipe, spawn};
use wasip2::clocks::monotonic_clock::{self, subscribe_duration};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};
use wasip2::io::poll::poll;
use wasip2::io::streams::{InputStream, StreamError};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match *args {
        ["spawn", program, ref args @ ..] => spawn_one(program, args),
        ["errors"] => errors(),
        ["places"] => places(),
        ["descriptors"] => descriptors(),
        ["ids"] => ids(),
        ["impatient"] => impatient(),
        ["ignores-sigpipe", command] => {
            processes::ignore_sigpipe(true);
            println!("{:?}", calls::call("process.exec", command));
        }
        ["subscribe"] => subscribe(),
        ["dropped", count] => dropped(count.parse().expect("a number")),
        ["pipes", count] => pipes(count.parse().expect("a number")),
        ["pollable-of-a-given-stream"] => {
            let (reader, _writer) = pipe().expect("a pipe");
            let _pollable = reader.subscribe();
            let stdin = Stdio::Input(reader);
            let _ = spawn(Command { stdin, ..command("true", &[]) });
        }
        ["broken", ignores] => {
            processes::ignore_sigpipe(ignores == "ignored");
            let (reader, writer) = pipe().expect("a pipe");
            drop(reader);
            println!("{:?}", writer.blocking_write_and_flush(b"x").map_err(|_| "failed"));
        }
        ["has", ref names @ ..] => names.iter().for_each(|name| println!("{}", calls::has(name))),
        ["call", operation, parameters] => println!("{:?}", calls::call(operation, parameters)),
        ["call-long-name"] => {
            let name = "x".repeat(300);
            println!("{} {:?}", calls::has(&name), calls::call(&name, "").map_err(|it| it.kind));
        }
        _ => panic!("unknown words {args:?}"),
    }
}

fn command(program: &str, args: &[&str]) -> Command<'static> {
    let arguments = std::iter::once(program).chain(args.iter().copied());
    Command {
        program: program.to_owned(),
        arguments: arguments.map(str::to_owned).collect(),
        environment: None,
        current_dir: None,
        stdin: Stdio::Inherit,
        stdout: Stdio::Inherit,
        stderr: Stdio::Inherit,
        descriptors: Vec::new(),
    }
}

fn spawn_one(program: &str, args: &[&str]) {
    match spawn(command(program, args)) {
        Ok(child) => println!("{}, then {}", said(child.wait()), said(child.wait())),
        Err(code) => println!("{}", code.name()),
    }
}

/// The name of an error, or what came of the call.
fn said<T: std::fmt::Debug>(answer: Result<T, ErrorCode>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(code) => code.name().to_owned(),
    }
}

/// The name of the error of a start.
fn failed(command: Command<'_>) -> String {
    said(spawn(command).map(|child| child.id()))
}

fn errors() {
    let shell = |script: &str| command("sh", &["-c", script]);
    println!("no entry {}", failed(command("no-such-program", &[])));
    println!("directory {}", failed(command("/", &[])));
    println!("NUL {}", failed(command("sh", &["\0"])));
    println!("long path {}", failed(command(&"x/".repeat(5000), &[])));
    let environment = |name: &str| Some(vec![(name.to_owned(), "1".to_owned())]);
    println!("no name {}", failed(Command { environment: environment(""), ..shell("") }));
    println!("bad name {}", failed(Command { environment: environment("A=B"), ..shell("") }));
    let current_dir = Some("no-such-directory".to_owned());
    println!("current-dir {}", failed(Command { current_dir, ..shell("") }));
    let descriptors = |number| vec![(number, Stdio::Null)];
    println!("to 4 {}", failed(Command { descriptors: descriptors(4), ..command("cat", &[]) }));
    println!("to 9999 {}", failed(Command { descriptors: descriptors(9999), ..shell("") }));
    println!("same as {}", failed(Command { stdout: Stdio::SameAs(77), ..shell("") }));
    let many = Command { arguments: vec![String::new(); 70_000], ..shell("") };
    println!("many arguments {}", failed(many));
    let descriptors = (0..70_000).map(|number| (number, Stdio::Inherit)).collect();
    println!("many descriptors {}", failed(Command { descriptors, ..shell("") }));
    println!("arguments {}", failed(command("sh", &["x".repeat(9 << 20).as_str()])));
    let child = spawn(shell("exit 5")).expect("it starts");
    println!("kill {} {}", said(child.kill(99)), said(child.kill(19)));
    println!("kill 0 {}, winch {}", said(child.kill(0)), said(child.kill(28)));
    println!("wait {}, then {}", said(child.wait()), said(child.try_wait()));
    println!("kill after {}", said(child.kill(9)));
    println!(
        "kill nobody {}, with 0 {}",
        said(processes::kill(4000, 9)),
        said(processes::kill(4000, 0))
    );
    println!("chdir {}", said(processes::set_current_dir("no-such-directory")));
    println!("chdir long {}", said(processes::set_current_dir(&"x/".repeat(5000))));
}

fn here() -> Descriptor {
    let dirs = get_directories();
    dirs.into_iter().find(|(_, name)| name == ".").expect("there is a current directory").0
}

fn file(name: &str) -> Descriptor {
    let flags = DescriptorFlags::READ | DescriptorFlags::WRITE;
    here().open_at(PathFlags::empty(), name, OpenFlags::CREATE, flags).expect("it can be made")
}

fn run(command: Command<'_>) {
    let status = spawn(command).and_then(|child| child.wait());
    assert!(matches!(status, Ok(processes::ExitStatus::Exited(0))), "{status:?}");
}

fn content(file: &Descriptor) -> String {
    let (bytes, _) = file.read(100, 0).expect("it can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A child's stream of a file is where the component's is.
fn places() {
    let f = file("f");
    f.write(b"0123456789", 0).expect("it can be written");
    let stdout = Stdio::Output(f.write_via_stream(3).expect("a stream"));
    run(Command { stdout, ..command("printf", &["abc"]) });
    println!("at 3: {}", content(&f));
    let stdout = Stdio::Output(f.append_via_stream().expect("a stream"));
    run(Command { stdout, ..command("printf", &["end"]) });
    println!("appended: {}", content(&f));
    let input = f.read_via_stream(1).expect("a stream");
    println!("read before: {:?}", input.blocking_read(2));
    run(Command { stdin: Stdio::Input(input), ..command("cat", &[]) });
    println!();
    // Both children share one offset.
    let g = file("g");
    run(Command { stdout: Stdio::File(&g), ..command("printf", &["one "]) });
    run(Command { stdout: Stdio::File(&g), ..command("printf", &["two"]) });
    println!("shared: {}", content(&g));
    let both = Command {
        stdout: Stdio::File(&g),
        stderr: Stdio::SameAs(1),
        ..command("sh", &["-c", "printf +; printf - >&2"])
    };
    run(both);
    println!("both: {}", content(&g));
    // Streams of one file have places of their own.
    let (from, to) =
        (f.read_via_stream(0).expect("a stream"), f.write_via_stream(8).expect("a stream"));
    run(Command {
        stdin: Stdio::Input(from),
        stdout: Stdio::Output(to),
        ..command("head", &["-c", "3"])
    });
    println!("copied: {}", content(&f));
    println!("still mine: {:?}", f.stat().map(|stat| stat.size));
}

/// Children have the descriptors that they are given, and those that were inherited, but none of the component's own.
fn descriptors() {
    let f = file("f");
    f.write(b"given", 0).expect("it can be written");
    let script = "for fd in 5 6 7 8 9; do test -e /dev/fd/$fd && echo $fd; done; echo no more";
    run(command("sh", &["-c", script]));
    let cat = command("sh", &["-c", "cat <&8; echo"]);
    run(Command { descriptors: vec![(8, Stdio::File(&f))], ..cat });
    let (reader, writer) = pipe().expect("a pipe");
    run(Command {
        descriptors: vec![(7, Stdio::Output(writer))],
        ..command("sh", &["-c", "echo through >&7"])
    });
    println!("{}", all(&reader));
}

fn all(stream: &InputStream) -> String {
    let mut read = Vec::new();
    loop {
        match stream.blocking_read(100) {
            Ok(bytes) => read.extend(bytes),
            Err(StreamError::Closed) => return String::from_utf8_lossy(&read).into_owned(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn ids() {
    println!("{} {}", processes::id(), processes::parent_id());
    let child: Child = spawn(command("sh", &["-c", "echo $$ $PPID"])).expect("it starts");
    println!("child {}", child.id());
    println!("{}", said(child.wait()));
    println!("{}", said(processes::current_dir()));
}

/// Waits for the end of children and for times, each as it comes.
fn subscribe() {
    let sleep = |seconds| spawn(command("sleep", &[seconds])).expect("it starts");
    let (first, second) = (sleep("3"), sleep("1"));
    let later = subscribe_duration(2_000_000_000);
    let ends = (first.subscribe(), second.subscribe());
    println!("{} {}", ends.0.ready(), ends.1.ready());
    println!("{:?}", poll(&[&ends.0, &ends.1, &later]));
    println!("{}, still {:?}", said(second.wait()), poll(&[&ends.0, &ends.1]));
    println!("{:?}", poll(&[&ends.0, &later]));
    ends.0.block();
    println!(
        "{} {} {}",
        ends.0.ready(),
        said(first.try_wait()),
        monotonic_clock::now() / 1_000_000_000
    );
}

/// Asks for the end of a child again and again.
fn impatient() {
    let child = spawn(command("sleep", &["2"])).expect("it starts");
    while child.try_wait().expect("it is a child").is_none() {}
    let child = spawn(command("sleep", &["2"])).expect("it starts");
    let end = child.subscribe();
    while !end.ready() {}
    println!("done");
}

/// Children that are dropped need not be waited for.
fn dropped(count: u32) {
    for _ in 0..count {
        let child = spawn(command("sh", &["-c", "exit 1"])).expect("it starts");
        // It runs.
        run(command("true", &[]));
        drop(child);
    }
    println!("{count} dropped");
}

fn pipes(count: usize) {
    let made: Result<Vec<_>, _> = (0..count).map(|_| pipe()).collect();
    println!("{}", said(made.map(|made| made.len())));
}
