//! What others ask for, or answer, that no machine could hold.

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use prost::Message;

use super::Cluster;
use super::client::{Tree, digest_of};

/// Levels of directories that have the same directory twice: 2^40 paths.
const LEVELS: usize = 40;

/// The root of a tree of [`LEVELS`] levels.
fn bomb(cluster: &mut Cluster) -> api::Digest {
    let mut digest = cluster.client.add(api::Directory::default().encode_to_vec());
    for _ in 0..LEVELS {
        let inner =
            |name: &str| api::DirectoryNode { name: name.to_owned(), digest: Some(digest.clone()) };
        let directories = vec![inner("a"), inner("b")];
        let message = api::Directory { directories, ..api::Directory::default() };
        digest = cluster.client.add(message.encode_to_vec());
    }
    digest
}

fn command(script: &str, output: &str) -> api::Command {
    api::Command {
        arguments: ["sh", "-c", script].map(str::to_owned).to_vec(),
        output_paths: vec![output.to_owned()],
        ..api::Command::default()
    }
}

#[test]
fn directories_that_contain_each_other_twice_are_told_by_their_digests_or_refused() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let root = bomb(&mut cluster);
    for (script, output, code) in
        [("true", "", 0), ("true", "a/b", 0), ("echo 1 >a/a/new", "a", 0), ("mv a c", "c", 3)]
    {
        let command = command(script, output);
        let root = root.clone();
        let action = cluster.client.action(&Tree::new(), &command, |action| {
            action.input_root_digest = Some(root);
        });
        let answer = cluster.client.execute_action(&action);
        let status = answer.status.unwrap_or_default();
        assert_eq!(status.code, code, "{script}: {}", status.message);
        if code != 0 {
            assert!(status.message.contains("names"), "{}", status.message);
            continue;
        }
        let result = answer.result.unwrap();
        let [directory] = &*result.output_directories else { panic!("{result:?}") };
        let tree = cluster.client.read(directory.tree_digest.as_ref().unwrap());
        let tree = api::Tree::decode(&*tree).unwrap();
        assert!(tree.children.len() <= LEVELS + 2, "{}", tree.children.len());
    }
}

/// A directory whose description is not in the usual order: who reads a tree finds it by the digest of the usual one.
#[test]
fn directories_in_another_encoding_are_described_anew() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let file = cluster.client.add(b"1".to_vec());
    let name = |name: &str, digest: &api::Digest| api::DirectoryNode {
        name: name.to_owned(),
        digest: Some(digest.clone()),
    };
    let empty = cluster.client.add(api::Directory::default().encode_to_vec());
    let of_directory =
        api::Directory { directories: vec![name("d", &empty)], ..Default::default() };
    let file = api::FileNode { name: "f".to_owned(), digest: Some(file), ..Default::default() };
    let of_file = api::Directory { files: vec![file], ..Default::default() };
    // The directory before the file, which has the smaller number.
    let odd = [of_directory.encode_to_vec(), of_file.encode_to_vec()].concat();
    let odd = cluster.client.add(odd);
    let root = api::Directory { directories: vec![name("odd", &odd)], ..Default::default() };
    let root = cluster.client.add(root.encode_to_vec());
    for (script, output) in [("true", "odd"), ("true", ""), ("echo 1 >new", "")] {
        let root = root.clone();
        let action = cluster.client.action(&Tree::new(), &command(script, output), |action| {
            action.input_root_digest = Some(root);
        });
        let answer = cluster.client.execute_action(&action);
        assert_eq!(answer.status.unwrap_or_default().code, 0, "{script}, {output:?}");
        let result = answer.result.unwrap();
        let tree = result.output_directories[0].tree_digest.as_ref().unwrap();
        let tree = api::Tree::decode(&*cluster.client.read(tree)).unwrap();
        let known: Vec<_> =
            tree.children.iter().map(|child| digest_of(&child.encode_to_vec()).hash).collect();
        for directory in tree.children.iter().chain(&tree.root) {
            for node in &directory.directories {
                let hash = &node.digest.as_ref().unwrap().hash;
                assert!(known.contains(hash), "{script}, {output:?}: {}", node.name);
            }
        }
    }
}

/// Each name would take more than sixty times its two bytes.
#[test]
fn directory_of_names_without_bytes_is_refused_before_it_takes_memory() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    // Fields of files that are empty messages.
    let root = cluster.client.add([0x0a, 0].repeat(1 << 20));
    let action = cluster.client.action(&Tree::new(), &command("ls", "x"), |action| {
        action.input_root_digest = Some(root);
    });
    let status = cluster.client.execute_action(&action).status.unwrap_or_default();
    assert_eq!(status.code, 3, "{}", status.message);
    assert!(status.message.contains("it has more than 200000 names"), "{}", status.message);
}

/// The stack of each tier has another size, and that of each worker may have another tier.
#[test]
fn overflow_of_the_stack_is_no_result() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let module = r#"(module (func $f (call $f)) (func (export "_start") (call $f)))"#;
    let trap = r#"(module (func (export "_start") unreachable))"#;
    let files = [("m.wat", module.as_bytes()), ("t.wat", trap.as_bytes())];
    let tree = super::client::files(&files);
    // Of the processes that trapped, the first hundred are known.
    let many = "i=0; while [ $i -lt 101 ]; do ./t.wat; i=$((i+1)); done; ./m.wat; true";
    for (script, said) in [
        ("./m.wat", "call stack exhausted"),
        ("./m.wat || true", "call stack exhausted"),
        (many, "100 of its processes, or more, trapped"),
    ] {
        let (code, message) = cluster.failure(&tree, &command(script, "x"));
        assert_eq!(code, 8, "{message}");
        assert!(message.contains(said), "{message}");
    }
}
