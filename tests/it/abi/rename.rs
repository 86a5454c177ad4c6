//! `path_rename`.

use belljar::Errno::{Badf, Busy, Inval, Isdir, Noent, Notdir, Notempty, Perm, Rofs, Xdev};

use super::flags::*;
use super::path::world;
use super::script::{Script, scatter};
use super::world::{DIR, World};

#[test]
fn failed_rename_changes_nothing() {
    let mut world = world();
    let before = world.tree();
    let mut s = Script::new();
    let cases = [
        ("missing", "new", Noent),
        ("missing/", "new", Noent),
        ("f", "missing/new", Noent),
        ("f/", "new", Notdir),
        ("f", "new/", Notdir),
        ("l/", "new", Notdir),
        ("ld/", "new", Notdir),
        ("d", "f", Notdir),
        ("d", "l", Notdir),
        ("d", "ld", Notdir),
        ("d/", "f", Notdir),
        ("f", "d", Isdir),
        ("f", "empty", Isdir),
        ("l", "empty", Isdir),
        ("empty", "d", Notempty),
        ("empty", "d/", Notempty),
        ("d", "d/sub/new", Inval),
        ("d", "d/new", Inval),
        ("d", "ld/new", Inval),
        ("d", ".", Busy),
        ("d/.", "new", Busy),
        ("d/sub/..", "new", Busy),
        ("f", "d/.", Busy),
        ("mnt", "new", Busy),
        ("empty", "mnt", Busy),
        ("mnt", "mnt", Busy),
        ("d", "mnt/new", Xdev),
        ("ro/f", "new", Rofs),
        ("f", "ro/new", Rofs),
        ("f", "ro/f", Rofs),
        ("ro/full", "ro/d", Rofs),
    ];
    for (from, to, errno) in cases {
        s.path_rename(DIR, from, DIR, to).fails(errno);
    }
    world.run(&s);
    assert_eq!(world.tree(), before);
}

#[test]
fn files_replace_files_and_links_are_not_followed() {
    let mut world = world();
    let mut s = Script::new();
    // A descriptor of the replaced file still refers to it.
    let old = s.open("d/inner", 0, BOTH);
    s.path_rename(DIR, "f", DIR, "d/inner").ok();
    s.write(old, "old");
    let (buf, n, stat) = (s.room(8), s.u32(), s.room(64));
    s.fd_pread(old, scatter([buf]), 0, n).ok();
    s.fd_filestat_get(old, stat).ok();
    s.path_rename(DIR, "dangling", DIR, "l").ok();
    s.path_rename(DIR, "ld", DIR, "moved link").ok();
    // Renaming an entry to itself, or to another name of the same file, does nothing.
    s.path_rename(DIR, "d/inner", DIR, "d/inner").ok();
    s.path_rename(DIR, "d", DIR, "d/").ok();
    s.path_link(DIR, 0, "d/inner", DIR, "twin").ok();
    s.path_rename(DIR, "twin", DIR, "d/inner").ok();
    let (text, len) = (s.room(16), s.u32());
    s.path_readlink(DIR, "l", text, len).ok();
    // A file moves from one mount to another only if it has no other name.
    s.path_rename(DIR, "mnt/m", DIR, "from the mount").ok();
    s.path_rename(DIR, "twin", DIR, "mnt/to the mount").fails(Xdev);
    s.path_unlink_file(DIR, "twin").ok();
    s.path_rename(DIR, "d/inner", DIR, "mnt/to the mount").ok();
    let run = world.run(&s);
    assert_eq!((&run.bytes(buf)[..3], run.stat(stat).nlink), (&b"old"[..], 0));
    assert_eq!(&run.bytes(text)[..run.u32(len) as usize], b"nowhere");
    assert_eq!(world.read("mnt/to the mount"), b"content");
    for gone in ["f", "dangling", "ld", "mnt/m", "twin", "d/inner"] {
        assert!(!world.has(gone), "{gone}");
    }
    assert!(world.has("moved link") && world.has("from the mount"));
}

#[test]
fn renamed_directory_keeps_its_contents() {
    let mut world = world();
    world.file("d/sub/deep", b"deep");
    let mut s = Script::new();
    let (dir, before) = (s.open("d/sub", DIRECTORY, READ), s.room(64));
    s.path_filestat_get(DIR, 0, "d", before).ok();
    s.path_rename(DIR, "d/", DIR, "empty").ok();
    let (after, fd, stat) = (s.room(64), s.u32(), s.room(64));
    s.path_filestat_get(DIR, 0, "empty", after).ok();
    s.path_filestat_get(DIR, 0, "d", stat).fails(Noent);
    // A descriptor refers to the directory, not to its name.
    s.path_open(dir, 0, "deep", 0, READ, 0, 0, fd).ok();
    s.path_open(dir, 0, "deeper", CREAT, WRITE, 0, 0, fd).ok();
    s.path_rename(DIR, "empty/sub", DIR, "new//").ok();
    s.path_open(dir, 0, "deepest", CREAT, WRITE, 0, 0, fd).ok();
    let run = world.run(&s);
    assert_eq!(run.stat(before).ino, run.stat(after).ino);
    assert_eq!(world.read("new/deep"), b"deep");
    assert!(world.has("new/deeper") && world.has("new/deepest") && world.has("empty/inner"));
}

#[test]
fn rename_and_link_resolve_each_path_from_its_own_descriptor() {
    let mut world = world();
    let mut s = Script::new();
    let (d, file) = (s.open("d", DIRECTORY, READ), s.open("f", 0, READ));
    s.path_rename(DIR, "f", 99, "x").fails(Badf);
    s.path_rename(DIR, "f", 1, "x").fails(Badf);
    s.path_rename(DIR, "f", file, "x").fails(Notdir);
    s.path_rename(d, "../f", DIR, "x").fails(Perm);
    s.path_rename(DIR, "f", d, "../x").fails(Perm);
    s.path_rename(DIR, "f", d, "moved").ok();
    s.path_link(d, 0, "moved", DIR, "linked").ok();
    s.path_link(DIR, 0, "linked", d, "../x").fails(Perm);
    s.path_link(d, 0, "../f", DIR, "x").fails(Perm);
    s.path_link(99, 0, "f", DIR, "x").fails(Badf);
    s.path_link(DIR, 0, "linked", file, "x").fails(Notdir);
    world.run(&s);
    assert_eq!(world.read("d/moved"), b"content");
    assert_eq!(world.read("linked"), b"content");
}

/// Files in a directory of a layer keep their names there: the directory is renamed without copying.
#[test]
fn renamed_layer_directory_leaves_no_old_names() {
    use super::tree::{Item, Tree};
    use super::world::builder;

    let below =
        Tree::source([("d", Item::Dir), ("d/f", Item::File(b"below")), ("f", Item::File(b"top"))]);
    let mut world = World::confined(builder().mount("/w/b", below));
    let mut s = Script::new();
    let stat = s.room(64);
    s.path_rename(DIR, "b/d", DIR, "b/moved").ok();
    s.path_rename(DIR, "b/f", DIR, "b/moved/f").ok();
    for gone in ["b/d", "b/d/f", "b/f"] {
        s.path_filestat_get(DIR, 0, gone, stat).fails(Noent);
    }
    s.path_create_directory(DIR, "b/d").ok();
    s.path_filestat_get(DIR, 0, "b/d/f", stat).fails(Noent);
    world.run(&s);
    assert_eq!(world.read("b/moved/f"), b"top");
}

/// On Linux the directory of the old name is looked up before the descriptor of the new one.
#[test]
fn errors_of_the_old_name_come_before_those_of_the_new_descriptor() {
    let mut world = world();
    let mut s = Script::new();
    let file = s.open("f", 0, READ);
    let never = 99;
    for (from, errno) in
        [("", Noent), ("missing/f", Noent), ("f/x", Notdir), ("f", Badf), ("missing", Badf)]
    {
        s.path_rename(DIR, from, never, "new").fails(errno);
    }
    for (from, errno) in [("", Noent), ("missing", Noent), ("f/x", Notdir), ("f", Badf)] {
        s.path_link(DIR, 0, from, never, "new").fails(errno);
    }
    s.path_rename(DIR, "f", file, "new").fails(Notdir);
    // An empty path is an error before its descriptor is.
    s.path_rename(never, "", DIR, "new").fails(Noent);
    s.path_rename(DIR, "f", never, "").fails(Noent);
    s.path_unlink_file(file, "").fails(Noent);
    s.path_create_directory(never, "").fails(Noent);
    s.path_symlink("text", never, "").fails(Noent);
    s.path_symlink("", never, "new").fails(Noent);
    world.run(&s);
}

/// The flags of `path_open` are an error before its path and descriptor are.
#[test]
fn creating_a_directory_by_opening_it_is_refused_first() {
    let mut world = world();
    let mut s = Script::new();
    let file = s.open("f", 0, READ);
    for dir in [file, 99.into(), DIR.into()] {
        for path in ["", "f", "missing/x"] {
            let fd = s.u32();
            s.path_open(dir, 0, path, CREAT | DIRECTORY, READ, 0, 0, fd).fails(Inval);
        }
    }
    world.run(&s);
}
