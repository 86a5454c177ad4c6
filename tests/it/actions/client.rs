//! A client that has actions executed by a server.

use std::collections::{BTreeMap, HashSet};

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use prost::Message;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;
use tonic::transport::Channel;

/// Bytes of one message, at most.
const MESSAGE_BYTES_MAX: usize = 3 << 20;

/// What is at a name of an input root.
#[derive(Clone)]
pub enum Node {
    File(Vec<u8>),
    Executable(Vec<u8>),
    /// A file whose content the server has.
    Known(api::Digest),
    Link(&'static str),
    Directory(Tree),
}

/// An input root, or a directory in one.
pub type Tree = BTreeMap<String, Node>;

/// A tree with these files: paths and contents.
pub fn files(files: &[(&str, &[u8])]) -> Tree {
    let mut tree = Tree::new();
    for (path, bytes) in files {
        add(&mut tree, path, Node::File(bytes.to_vec()));
    }
    tree
}

/// Puts `node` at `path` of `tree`.
pub fn add(tree: &mut Tree, path: &str, node: Node) {
    match path.split_once('/') {
        None => {
            tree.insert(path.to_owned(), node);
        }
        Some((name, rest)) => {
            let entry = tree.entry(name.to_owned()).or_insert_with(|| Node::Directory(Tree::new()));
            let Node::Directory(inner) = entry else { panic!("{name} is no directory") };
            add(inner, rest, node);
        }
    }
}

pub fn digest_of(bytes: &[u8]) -> api::Digest {
    let hash = format!("{:x}", Sha256::digest(bytes));
    api::Digest { hash, size_bytes: bytes.len().try_into().unwrap() }
}

/// A connection to a server that executes actions.
pub struct Client {
    runtime: Runtime,
    channel: Channel,
    uploaded: HashSet<String>,
    waiting: Vec<Vec<u8>>,
}

impl Client {
    pub fn new(address: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let url = address.replace("grpc://", "http://");
        let channel = runtime.block_on(async {
            tonic::transport::Endpoint::from_shared(url).unwrap().connect().await.unwrap()
        });
        Self { runtime, channel, uploaded: HashSet::new(), waiting: Vec::new() }
    }

    /// Notes that `bytes` are to be uploaded.
    pub fn add(&mut self, bytes: Vec<u8>) -> api::Digest {
        let digest = digest_of(&bytes);
        if self.uploaded.insert(digest.hash.clone()) {
            self.waiting.push(bytes);
        }
        digest
    }

    pub fn add_tree(&mut self, tree: &Tree) -> api::Digest {
        let mut message = api::Directory::default();
        for (name, node) in tree {
            let name = name.clone();
            let is_executable = matches!(node, Node::Executable(_));
            match node {
                Node::File(_) | Node::Executable(_) | Node::Known(_) => {
                    let digest = Some(match node {
                        Node::Known(digest) => digest.clone(),
                        Node::File(bytes) | Node::Executable(bytes) => self.add(bytes.clone()),
                        Node::Link(_) | Node::Directory(_) => unreachable!(),
                    });
                    let file = api::FileNode { name, digest, is_executable, ..Default::default() };
                    message.files.push(file);
                }
                Node::Link(target) => {
                    let target = (*target).to_owned();
                    let link = api::SymlinkNode { name, target, ..api::SymlinkNode::default() };
                    message.symlinks.push(link);
                }
                Node::Directory(inner) => {
                    let digest = Some(self.add_tree(inner));
                    message.directories.push(api::DirectoryNode { name, digest });
                }
            }
        }
        self.add(message.encode_to_vec())
    }

    pub fn upload(&mut self) {
        let mut batches: Vec<Vec<Vec<u8>>> = vec![Vec::new()];
        let mut size = 0;
        for bytes in std::mem::take(&mut self.waiting) {
            size += bytes.len() + 100;
            if size > MESSAGE_BYTES_MAX {
                batches.push(Vec::new());
                size = bytes.len();
            }
            batches.last_mut().unwrap().push(bytes);
        }
        for batch in batches {
            let request = |data: Vec<u8>| api::batch_update_blobs_request::Request {
                digest: Some(digest_of(&data)),
                data,
                ..Default::default()
            };
            let requests = batch.into_iter().map(request).collect();
            let request = api::BatchUpdateBlobsRequest { requests, ..Default::default() };
            let mut client =
                api::content_addressable_storage_client::ContentAddressableStorageClient::new(
                    self.channel.clone(),
                );
            let answer = self.runtime.block_on(client.batch_update_blobs(request)).unwrap();
            for response in answer.into_inner().responses {
                assert_eq!(response.status.unwrap_or_default().code, 0);
            }
        }
    }

    /// Uploads the action that runs `command` on `tree`; returns it, encoded.
    pub fn action(
        &mut self,
        tree: &Tree,
        command: &api::Command,
        change: impl FnOnce(&mut api::Action),
    ) -> Vec<u8> {
        let mut action = api::Action {
            command_digest: Some(self.add(command.encode_to_vec())),
            input_root_digest: Some(self.add_tree(tree)),
            ..api::Action::default()
        };
        change(&mut action);
        let action = action.encode_to_vec();
        self.add(action.clone());
        self.upload();
        action
    }

    /// What the server answers when it has executed `command` on `tree`.
    pub fn execute(&mut self, tree: &Tree, command: &api::Command) -> api::ExecuteResponse {
        let action = self.action(tree, command, |_| ());
        self.execute_action(&action)
    }

    pub fn execute_action(&self, action: &[u8]) -> api::ExecuteResponse {
        self.runtime.block_on(execute(self.channel.clone(), digest_of(action)))
    }

    /// As [`Self::execute_action`], all of `actions` at once.
    pub fn execute_together(&self, actions: &[Vec<u8>]) -> Vec<api::ExecuteResponse> {
        let channel = self.channel.clone();
        self.runtime.block_on(async move {
            let mut tasks = Vec::new();
            for action in actions {
                tasks.push(tokio::spawn(execute(channel.clone(), digest_of(action))));
            }
            let mut answers = Vec::new();
            for task in tasks {
                answers.push(task.await.unwrap());
            }
            answers
        })
    }

    /// The contents with `digest`.
    pub fn read(&self, digest: &api::Digest) -> Vec<u8> {
        if digest.size_bytes == 0 {
            return Vec::new();
        }
        let mut client =
            api::content_addressable_storage_client::ContentAddressableStorageClient::new(
                self.channel.clone(),
            );
        let request =
            api::BatchReadBlobsRequest { digests: vec![digest.clone()], ..Default::default() };
        let answer = self.runtime.block_on(client.batch_read_blobs(request)).unwrap().into_inner();
        let response = answer.responses.into_iter().next().unwrap();
        assert_eq!(response.status.unwrap_or_default().code, 0, "{digest:?}");
        assert_eq!(digest_of(&response.data), *digest);
        response.data
    }
}

async fn execute(channel: Channel, action: api::Digest) -> api::ExecuteResponse {
    let mut client = api::execution_client::ExecutionClient::new(channel);
    let request = api::ExecuteRequest {
        action_digest: Some(action),
        skip_cache_lookup: true,
        ..Default::default()
    };
    let mut operations = client.execute(request).await.unwrap().into_inner();
    let mut last = None;
    while let Some(operation) = operations.message().await.unwrap() {
        last = Some(operation);
    }
    let operation = last.expect("an operation");
    assert!(operation.done);
    match operation.result.expect("a result") {
        bazel_remote_apis::google::longrunning::operation::Result::Response(any) => {
            api::ExecuteResponse::decode(&*any.value).unwrap()
        }
        bazel_remote_apis::google::longrunning::operation::Result::Error(status) => {
            api::ExecuteResponse { status: Some(status), ..Default::default() }
        }
    }
}
