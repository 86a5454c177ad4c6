//! A host directory whose tree is rearranged by another program.
#![allow(clippy::disallowed_methods, reason = "the test rearranges the disk from outside")]

use std::fs;
use std::os::unix::fs::symlink;

use super::Layer;
use super::host_dir::{Access, HostDir};
use crate::kernel::vfs::path::VPath;

/// The path led to a directory when it was looked up; another program has replaced it by a symbolic link.
#[test]
fn directory_replaced_by_symlink_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    fs::create_dir_all(root.join("a")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(root.join("mine"), "mine").unwrap();
    fs::write(outside.join("secret"), "hunter2").unwrap();
    let host = HostDir::open(&root).unwrap();
    fs::remove_dir(root.join("a")).unwrap();
    symlink(&outside, root.join("a")).unwrap();
    assert_eq!(fs::read(root.join("a/secret")).unwrap(), b"hunter2", "by path it is readable");

    let path = |text: &str| VPath::parse(text).unwrap();
    let (secret, new, mine, taken) = (path("a/secret"), path("a/x"), path("mine"), path("taken"));
    assert!(host.open(&secret).is_err() && host.stat(&secret).is_err());
    assert!(host.list(&path("a")).is_err() && host.names(&path("a")).is_err());
    assert!(host.create_file(&new, Access::Shared).is_err());
    assert!(host.create_dir(&new, Access::Shared).is_err());
    assert!(host.symlink("x", &new).is_err());
    assert!(host.rename(&mine, &new).is_err() && host.rename(&secret, &taken).is_err());
    assert!(host.hard_link(&mine, &new).is_err() && host.hard_link(&secret, &taken).is_err());
    assert!(host.remove_file(&secret).is_err());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);

    fs::rename(&root, folder.path().join("moved")).unwrap();
    symlink(&outside, &root).unwrap();
    assert!(host.stat(&path("secret")).is_err(), "the root is the directory that was opened");
    assert!(host.stat(&mine).is_ok());
}
