//! Trees that tests compare: on the disk, and as an overlay shows them.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests use the disk and run git")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use super::overlay::node::Body;
use super::{MountId, Overlay, overlay};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Item {
    Dir,
    File { bytes: Vec<u8>, executable: bool },
    Link(Vec<u8>),
}

/// Items by path relative to the top.
pub(super) type Tree = BTreeMap<String, Item>;

pub(super) fn on_disk(top: &Path) -> Tree {
    fn walk(dir: &Path, at: &str, tree: &mut Tree) {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{at}{}", entry.file_name().into_string().unwrap());
            let metadata = entry.metadata().unwrap();
            let item = if metadata.is_dir() {
                walk(&entry.path(), &format!("{path}/"), tree);
                Item::Dir
            } else if metadata.is_symlink() {
                Item::Link(fs::read_link(entry.path()).unwrap().as_os_str().as_bytes().to_vec())
            } else {
                let executable = metadata.mode() & 0o100 != 0;
                Item::File { bytes: fs::read(entry.path()).unwrap(), executable }
            };
            tree.insert(path, item);
        }
    }
    let mut tree = Tree::new();
    walk(top, "", &mut tree);
    tree
}

pub(super) fn write_to(top: &Path, tree: &Tree) {
    for (path, item) in tree {
        let path = top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match item {
            Item::Dir => fs::create_dir_all(path).unwrap(),
            Item::Link(text) => symlink(std::ffi::OsStr::from_bytes(text), path).unwrap(),
            Item::File { bytes, executable } => {
                fs::write(&path, bytes).unwrap();
                let mode = if *executable { 0o755 } else { 0o644 };
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}

/// The tree of `mount` as guests see it, without other mounts in it. `before` is the tree of its layers.
/// Walks a fork, because lookups create nodes.
pub(super) fn shown(overlay: &Overlay, mount: MountId, before: &Tree) -> Tree {
    let mut overlay = overlay.clone();
    let mut tree = Tree::new();
    let mut dirs = vec![(overlay.mount_root(mount), String::new())];
    while let Some((dir, at)) = dirs.pop() {
        for listed in overlay.list(dir).unwrap().iter() {
            let path = format!("{at}{}", listed.name);
            let id = overlay.child(dir, &listed.name).unwrap().unwrap();
            if overlay.is_mount_point(id) {
                continue;
            }
            let node = overlay.node(id);
            let replaced = matches!(before.get(&path), Some(Item::File { executable: true, .. }));
            let executable = match (node.executable, &node.origin) {
                (Some(executable), _) => executable,
                (None, Some(origin)) => origin.executable,
                (None, None) => replaced && node.nlink == 1,
            };
            let item = match &overlay.node(id).body {
                Body::Dir(_) => {
                    dirs.push((id, format!("{path}/")));
                    Item::Dir
                }
                Body::Symlink(text) => Item::Link(text.as_bytes().to_vec()),
                Body::File(_) => Item::File { bytes: overlay.read_node(id).unwrap(), executable },
                Body::Special(_) => unreachable!("tests create no special files"),
            };
            tree.insert(path, item);
        }
    }
    tree
}

pub(super) fn git_apply(top: &Path, patch: &str, arguments: &[&str]) {
    let file = top.with_extension("patch");
    fs::write(&file, patch).unwrap();
    let mut git = Command::new("git");
    git.args(["apply", "--whitespace=nowarn"]).args(arguments).arg(&file).current_dir(top);
    git.env("GIT_CEILING_DIRECTORIES", top.parent().unwrap());
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = git.output().expect("the tests need git");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git apply {arguments:?}: {said}\n{patch}");
}

/// Checks that the charged bytes are those of the nodes.
pub(super) fn check_counts(overlay: &Overlay) {
    let (mut upper, mut cache) = (0, 0);
    for (id, node) in overlay.nodes.iter() {
        if let Body::Dir(dir) = &node.body {
            upper += dir.entries.iter().map(|(name, entry)| entry.name_bytes(name)).sum::<u64>();
        }
        // A refused mount leaves a node whose mount does not exist.
        let is_refused = usize::from(node.mount.0) >= overlay.mounts.len();
        if is_refused || (node.nlink, node.opens) == (0, 0) || overlay.is_mount_point(id) {
            continue;
        }
        upper += if node.origin.is_none() { overlay::node_bytes(&node.body) } else { 0 };
        upper += u64::from(node.nlink.saturating_sub(1)) * overlay::NODE_BYTES;
        if let Body::File(file) = &node.body {
            upper += file.content.charged();
            cache += if file.content.is_dirty() { 0 } else { file.content.held_bytes() };
        }
    }
    assert_eq!((overlay.upper_bytes, overlay.cache_bytes), (upper, cache));
}
