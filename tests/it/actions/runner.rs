//! `belljar runner`, called by buildbox-casd for the actions of a client.

use std::collections::BTreeMap;
use std::fs;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use bazel_remote_apis::google::protobuf;
use prost::Message;

use super::Cluster;
use super::client::{Client, Node, Tree, add, digest_of, files};
use crate::support::casd::Casd;
use crate::support::{belljar, guest, number_from_env, stderr, stdout};

fn command(arguments: &[&str], outputs: &[&str]) -> api::Command {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    api::Command {
        arguments: texts(arguments),
        output_paths: texts(outputs),
        ..api::Command::default()
    }
}

fn script(text: &str, outputs: &[&str]) -> api::Command {
    command(&["sh", "-c", text], outputs)
}

#[test]
fn module_of_the_inputs_and_program_of_the_worker_run() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let hello = fs::read(guest("hello")).unwrap();
    let tree = files(&[("bin/hello.wasm", &hello), ("letters", b"b\na\n")]);
    let result = cluster.result(&tree, &command(&["bin/hello.wasm"], &[]));
    assert_eq!((result.exit_code, &*result.stdout_raw), (0, &b"hello, world\n"[..]));
    let result = cluster.result(&tree, &command(&["sort", "letters"], &[]));
    assert_eq!((result.exit_code, &*result.stdout_raw), (0, &b"a\nb\n"[..]));
    let took = result.execution_metadata.unwrap().virtual_execution_duration;
    assert!(took.is_some(), "the time on the machine's own clock");
}

#[test]
fn outputs_are_files_links_and_directories() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let mut tree = files(&[("d/x", b"1"), ("old", b"old")]);
    add(&mut tree, "d/tool", Node::Executable(b"#!/bin/sh\n".to_vec()));
    add(&mut tree, "d/link", Node::Link("x"));
    let text = "cp -r d out/d; mkdir out/empty; echo new >out/f; chmod +x out/f; ln -s f out/l; mv old out/moved; echo err >&2; exit 3";
    let paths = ["out/d", "out/f", "out/l", "out/moved", "out/none", "d/x", "old"];
    let result = cluster.result(&tree, &script(text, &paths));
    assert_eq!((result.exit_code, &*result.stderr_raw), (3, &b"err\n"[..]));
    let found: Vec<_> = result
        .output_files
        .iter()
        .map(|file| {
            (&*file.path, file.is_executable, cluster.client.read(file.digest.as_ref().unwrap()))
        })
        .collect();
    assert_eq!(
        found,
        [
            ("d/x", false, b"1".to_vec()),
            ("out/f", true, b"new\n".to_vec()),
            ("out/moved", false, b"old".to_vec())
        ]
    );
    let links: Vec<_> =
        result.output_symlinks.iter().map(|link| (&*link.path, &*link.target)).collect();
    assert_eq!(links, [("out/l", "f")]);
    let [directory] = &*result.output_directories else { panic!("{result:?}") };
    assert_eq!(directory.path, "out/d");
    let message = cluster.client.read(directory.tree_digest.as_ref().unwrap());
    let copied = api::Tree::decode(&*message).unwrap().root.unwrap();
    let Node::Directory(given) = &tree["d"] else { panic!() };
    let given = cluster.client.add_tree(given);
    assert_eq!(digest_of(&copied.encode_to_vec()), given, "the copy is what was given");
}

#[test]
fn whole_directory_can_be_an_output_in_each_form() {
    use api::command::OutputDirectoryFormat as Format;
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let tree = files(&[("a/b/c", b"1"), ("a/d", b"2")]);
    for (format, has_tree, has_directory) in [
        (Format::TreeOnly, true, false),
        (Format::DirectoryOnly, false, true),
        (Format::TreeAndDirectory, true, true),
    ] {
        let mut command = script("mkdir -p new/a; cp -r b new/a/b; echo 3 >d", &[""]);
        command.working_directory = "a".to_owned();
        command.output_directory_format = format.into();
        let result = cluster.result(&tree, &command);
        let [directory] = &*result.output_directories else { panic!("{result:?}") };
        assert_eq!(directory.tree_digest.is_some(), has_tree);
        assert_eq!(directory.root_directory_digest.is_some(), has_directory);
        let expected = files(&[("b/c", b"1"), ("new/a/b/c", b"1"), ("d", b"3\n")]);
        let expected = cluster.client.add_tree(&expected);
        if let Some(digest) = &directory.tree_digest {
            let tree = api::Tree::decode(&*cluster.client.read(digest)).unwrap();
            assert_eq!(digest_of(&tree.root.unwrap().encode_to_vec()), expected);
            // `b` is there twice, and told once.
            assert_eq!(tree.children.len(), 3);
        }
        if let Some(digest) = &directory.root_directory_digest {
            assert_eq!(*digest, expected);
            cluster.client.read(digest);
        }
    }
}

#[test]
fn what_cannot_be_executed_has_a_status_and_no_result() {
    let Some(mut cluster) = Cluster::start(2, &["--max-output=1MiB"]) else {
        return;
    };
    let tree = files(&[("a", b"1")]);
    let mut in_no_directory = command(&["true"], &[]);
    in_no_directory.working_directory = "a".to_owned();
    let mut with_toolchain = command(&["true"], &[]);
    #[expect(deprecated, reason = "clients of version 2.1 and older have this one alone")]
    {
        let property = api::platform::Property {
            name: "belljar-toolchain".to_owned(),
            value: "avr-gcc".to_owned(),
        };
        with_toolchain.platform = Some(api::Platform { properties: vec![property] });
    }
    let cases = [
        (command(&[], &[]), 3, "the command: it has no arguments"),
        (command(&["true"], &["../x"]), 3, "\"/../x\" leads out of the input root"),
        (command(&["true"], &["/x"]), 3, "\"/x\" is not relative"),
        (in_no_directory, 3, "the inputs have no directory \"/worktree/a\""),
        (command(&["a\0b"], &[]), 3, "contains NUL"),
        (command(&["no-such-program"], &[]), 9, "no-such-program: program not found"),
        (command(&["/usr/bin/no-such-program"], &[]), 9, "/usr/bin/no-such-program: "),
        (script("clang x.c || true", &[]), 9, "clang: program not found, on this worker"),
        (with_toolchain, 9, "the action asks for the toolchain avr-gcc: it is not installed"),
        (script("while :; do echo yes; done", &[]), 8, "the program was ended: output"),
    ];
    for (command, code, said) in cases {
        let (found, message) = cluster.failure(&tree, &command);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(said), "{message}");
    }
    let endless = script("while :; do :; done", &[]);
    let action = cluster.client.action(&tree, &endless, |action| {
        action.timeout = Some(protobuf::Duration { seconds: 1, nanos: 0 });
    });
    let status = cluster.client.execute_action(&action).status.expect("a status");
    assert_eq!((status.code, &*status.message), (4, "the program was ended: timeout"));
    // What the inputs have is the same everywhere, and so is that they do not have it.
    let result = cluster.result(&tree, &command(&["./none"], &[]));
    assert_eq!(result.exit_code, 127);
    let result = cluster.result(&tree, &command(&["./a"], &[]));
    assert_eq!(result.exit_code, 126);
}

/// What others put on the server is not believed.
#[test]
fn hostile_input_roots_are_refused() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let file = |name: &str| api::FileNode {
        name: name.to_owned(),
        digest: Some(digest_of(b"x")),
        ..api::FileNode::default()
    };
    let lost = digest_of(b"never uploaded");
    let root = |files: Vec<api::FileNode>| api::Directory { files, ..Default::default() };
    let deeper = api::DirectoryNode { name: "d".to_owned(), digest: Some(lost.clone()) };
    let cases = [
        (root(vec![file("../x")]).encode_to_vec(), 3, "is no name"),
        (root(vec![file("x"), file("x")]).encode_to_vec(), 3, "is there twice"),
        (vec![0xff; 10], 3, "the input root"),
        (
            root(vec![api::FileNode { digest: Some(lost.clone()), ..file("x") }]).encode_to_vec(),
            9,
            "the server does not have the input file \"x\"",
        ),
        (
            api::Directory { directories: vec![deeper], ..Default::default() }.encode_to_vec(),
            9,
            "the server does not have the directory \"/d\"",
        ),
    ];
    for (bytes, code, said) in cases {
        let digest = cluster.client.add(bytes);
        let action =
            cluster.client.action(&Tree::new(), &script("cat x d/y; exit 0", &[]), |action| {
                action.input_root_digest = Some(digest);
            });
        let status = cluster.client.execute_action(&action).status.expect("a status");
        assert_eq!(status.code, code, "{}", status.message);
        assert!(status.message.contains(said), "{}", status.message);
    }
}

#[test]
fn actions_give_what_runs_give_here_on_one_worker_and_on_four() {
    let mut answers = Vec::new();
    for jobs in [1, 4] {
        let Some(mut cluster) = Cluster::start(jobs, &[]) else { return };
        let actions: Vec<Vec<u8>> = (0..number_from_env("BELLJAR_TEST_ACTIONS", 24))
            .map(|number| {
                let (tree, text) = case(number);
                cluster.client.action(&tree, &script(&text, &["out", "log"]), |_| ())
            })
            .collect();
        let found: Vec<_> = cluster
            .client
            .execute_together(&actions)
            .into_iter()
            .map(|answer| {
                let result = answer.result.expect("a result");
                let contents: BTreeMap<String, Vec<u8>> = result
                    .output_files
                    .iter()
                    .map(|file| {
                        let digest = file.digest.as_ref().unwrap();
                        (file.path.clone(), cluster.client.read(digest))
                    })
                    .collect();
                (result.exit_code, result.stdout_raw, contents)
            })
            .collect();
        answers.push(found);
    }
    assert_eq!(answers[0], answers[1], "one worker and four give the same");
    for (number, (code, stdout, contents)) in answers.remove(0).into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, text) = case(number);
        for (name, node) in tree {
            let Node::File(bytes) = node else { panic!() };
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let output = belljar(folder.path())
            .args(["sh", "--apply", "--mtimes=fixed", "-c", &text])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{number}: {}", stderr(&output));
        assert_eq!(output.stdout, stdout, "{number}");
        for name in ["out", "log"] {
            let here = fs::read(folder.path().join(name)).ok();
            assert_eq!(here.as_ref(), contents.get(name), "{number}: {name}");
        }
    }
}

/// Inputs and a script, different for each number.
fn case(number: usize) -> (Tree, String) {
    let lines: Vec<_> = (0..number % 50).map(|line| (line * 7919 % 101).to_string()).collect();
    let lines = lines.join("\n");
    let tree = files(&[("a", lines.as_bytes()), ("b", format!("{number}\n").as_bytes())]);
    let text = match number % 4 {
        0 => "sort -n a | uniq >out; wc -l <out; date >log".to_owned(),
        1 => "cat b a | tr 0-9 a-j >out; ls -l; exit $(($(cat b) % 7))".to_owned(),
        2 => "od -An -N8 -tx1 /dev/urandom >log; sleep 3600; date; rm a; ls".to_owned(),
        _ => "for i in 1 2 3; do echo $i $$ >>out; (sed s/1/$i/ a; exit 2) >>out & done; wait; echo $?"
            .to_owned(),
    };
    (tree, text)
}

#[test]
fn only_what_is_opened_is_fetched() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let mut tree = Tree::new();
    for file in 0..number_from_env("BELLJAR_TEST_INPUT_FILES", 3_000) {
        let path = format!("d{}/f{file}", file % 30);
        add(&mut tree, &path, Node::File(file.to_string().into_bytes()));
    }
    let read: Vec<String> = (0..10).map(|number| format!("d{number}/f{number}")).collect();
    let text = format!("cat {}; ls d20 | wc -l", read.join(" "));
    let action = cluster.client.action(&tree, &script(&text, &["d20"]), |_| ());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("action"), &action).unwrap();
    let output = belljar(folder.path())
        .args(["runner", "--action=action", "--action-result=result", "--log-level=info"])
        .arg(format!("--remote={}", cluster.casd.address.replace("grpc", "http")))
        .arg("--stdout-file=stdout")
        .env("BELLJAR_HOME", cluster.home.path())
        .output()
        .unwrap();
    let said = stderr(&output);
    // The root, ten directories of files, and the one that is listed and an output.
    assert!(said.contains("12 directories, 10 files and 10 bytes"), "{said}");
    let result = fs::read(folder.path().join("result")).unwrap();
    let result = api::ActionResult::decode(&*result).unwrap();
    assert!(result.stdout_raw.starts_with(b"0123456789"), "{result:?}");
    assert_eq!(fs::read(folder.path().join("stdout")).unwrap(), result.stdout_raw);
    assert_eq!(result.output_directories.len(), 1);
}

#[test]
fn contents_larger_than_a_message_are_uploaded_and_fetched() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let text = "echo a line of a large file >a; for i in 1 2 3 4 5 6; do \
                cat a a a a a a a a >b; mv b a; done; cat a";
    let result = cluster.result(&Tree::new(), &script(text, &["a"]));
    let digest = result.output_files[0].digest.clone().unwrap();
    assert_eq!(digest.size_bytes, 23 << 18);
    assert_eq!(result.stdout_digest.as_ref(), Some(&digest), "output streams are contents, too");
    let mut tree = Tree::new();
    add(&mut tree, "large", Node::Known(digest));
    let result = cluster.result(&tree, &script("uniq -c large; wc -c <large", &[]));
    assert_eq!(
        result.stdout_raw,
        format!(" 262144 a line of a large file\n{}\n", 23 << 18).as_bytes()
    );
}

/// What a client cannot know of a worker is no part of a result, though the program went on.
#[test]
fn limits_of_the_worker_are_no_result_of_a_program_that_goes_on() {
    let options = ["--max-upper=1MiB", "--max-processes=3", "--timeout=20s"];
    let Some(mut cluster) = Cluster::start(1, &options) else { return };
    let tree = files(&[("s", "a line of text\n".repeat(40_000).as_bytes())]);
    for text in ["cat s s s >b || echo full >c; true", "cat s | cat | cat | cat || true"] {
        let (code, message) = cluster.failure(&tree, &script(text, &["b", "c"]));
        assert_eq!(code, 8, "{text}: {message}");
        assert!(message.contains("would have done something else on another worker"), "{message}");
    }
    for (seconds, nanos, said) in [
        (30, 0, "is longer than 20s, the worker's"),
        (-1, 0, "its timeout is no duration"),
        (1, -1, "its timeout is no duration"),
    ] {
        let action = cluster.client.action(&tree, &command(&["true"], &[]), |action| {
            action.timeout = Some(protobuf::Duration { seconds, nanos });
        });
        let status = cluster.client.execute_action(&action).status.expect("a status");
        assert_eq!(status.code, 3, "{}", status.message);
        assert!(status.message.contains(said), "{}", status.message);
    }
}

#[test]
fn module_that_cannot_be_compiled_here_is_no_result() {
    let Some(mut cluster) = Cluster::start(1, &["--compile-timeout=1ms"]) else { return };
    // A module that no cache has.
    let mut module = fs::read(guest("many_files")).unwrap();
    let name = format!("{:?}", std::time::SystemTime::now());
    let mut section = vec![1, b'n'];
    section.extend(name.as_bytes());
    module.extend([0, u8::try_from(section.len()).unwrap()]);
    module.extend(section);
    let tree = files(&[("m.wasm", &module)]);
    for command in [command(&["./m.wasm"], &[]), script("./m.wasm || true", &[])] {
        let (code, message) = cluster.failure(&tree, &command);
        assert_eq!(code, 8, "{message}");
    }
}

#[test]
fn paths_of_outputs_are_relative_to_where_the_program_runs() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let mut tree = files(&[("build/x", b"1"), ("src/y", b"2")]);
    add(&mut tree, "link", Node::Link("build"));
    let mut command = script("echo 3 >../out/a; echo 4 >b", &["../out/a", "./b", "."]);
    command.working_directory = "./build/".to_owned();
    let result = cluster.result(&tree, &command);
    let paths: Vec<_> = result.output_files.iter().map(|file| &*file.path).collect();
    assert_eq!(paths, ["../out/a", "./b"]);
    assert_eq!(result.output_directories[0].path, ".");
    // The working directory is reached by a link, and is told all the same.
    let mut command = script("echo 5 >c", &["", "c"]);
    command.working_directory = "link".to_owned();
    let result = cluster.result(&tree, &command);
    assert_eq!((result.output_directories.len(), result.output_symlinks.len()), (1, 0));
    assert_eq!(result.output_files[0].path, "c");
    // Where a file is in the way, there is no output, and no error.
    let result = cluster.result(&tree, &script("true", &["src/y/z/w", "src/y/z"]));
    assert_eq!((result.exit_code, result.output_files.len()), (0, 0));
}

/// More than fit into one message, with what is beside their bytes.
#[test]
fn many_small_outputs_are_uploaded() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let text = "i=1000; while [ $i -lt 2100 ]; do i=$((i+1)); { echo $i; cat s; } >out/$i; done";
    let tree = files(&[("s", "x".repeat(4_080).as_bytes())]);
    let result = cluster.result(&tree, &script(&format!("mkdir out; {text}"), &["out"]));
    let digest = result.output_directories[0].tree_digest.clone().unwrap();
    let root = api::Tree::decode(&*cluster.client.read(&digest)).unwrap().root.unwrap();
    assert_eq!(root.files.len(), 1100);
    for file in root.files.iter().step_by(100) {
        cluster.client.read(file.digest.as_ref().unwrap());
    }
}

#[test]
fn missing_input_is_told_in_the_way_by_which_clients_upload_it_again() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let lost = digest_of(b"never uploaded, too");
    let mut tree = files(&[("b", b"1")]);
    add(&mut tree, "a", Node::Known(lost.clone()));
    // Nobody reads it, and it is an output.
    for text in ["true", "cat a || echo other >b", "until cat a; do sleep 1; done"] {
        let action = cluster.client.action(&tree, &script(text, &["a", "b"]), |_| ());
        let status = cluster.client.execute_action(&action).status.expect("a status");
        assert_eq!(status.code, 9, "{text}: {}", status.message);
        let detail = &status.details[0];
        assert!(detail.type_url.ends_with("google.rpc.PreconditionFailure"), "{status:?}");
        let subject = format!("blobs/{}/{}", lost.hash, lost.size_bytes);
        let value = String::from_utf8_lossy(&detail.value);
        assert!(value.contains("MISSING") && value.contains(&subject), "{value:?}");
    }
    // The same hash with another length is another content.
    let known = digest_of(b"1");
    add(&mut tree, "a", Node::Known(api::Digest { size_bytes: 5000, ..known }));
    let answer = cluster.client.execute(&tree, &script("cat b; cat a || echo other >b", &["b"]));
    assert_ne!(answer.status.expect("a status").code, 0);
}

#[test]
fn server_on_a_socket_of_this_machine_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}/socket", folder.path().display());
    let home = tempfile::tempdir().unwrap();
    let Some(casd) = Casd::start_with(&[format!("--bind={socket}")]) else { return };
    let mut client = Client::new(&casd.address);
    let tree = files(&[("a", b"b\na\n")]);
    let action = client.action(&tree, &command(&["sort", "a"], &[]), |_| ());
    fs::write(folder.path().join("action"), action).unwrap();
    let output = belljar(folder.path())
        .args(["runner", "--action=action", "--action-result=result", "--stdout-file=/dev/stdout"])
        .arg(format!("--remote={socket}"))
        .env("BELLJAR_HOME", home.path())
        .output()
        .unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), "a\nb\n".to_owned()));
}

#[test]
fn action_without_toolchains_can_look_for_a_program_in_vain() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let trap = fs::read(guest("trap")).unwrap();
    let tree = files(&[("trap.wasm", &trap)]);
    let action = cluster.client.action(&tree, &script("clang x.c || echo none", &[]), |action| {
        let name = "belljar-toolchain".to_owned();
        let property = api::platform::Property { name, value: String::new() };
        action.platform = Some(api::Platform { properties: vec![property] });
    });
    let result = cluster.client.execute_action(&action).result.expect("a result");
    assert_eq!(result.stdout_raw, b"none\n");
    let result = cluster.result(&tree, &command(&["./trap.wasm"], &[]));
    let said = String::from_utf8_lossy(&result.stderr_raw);
    assert!(said.contains("trap.wasm trapped: "), "the reason of a trap is told: {said}");
}
