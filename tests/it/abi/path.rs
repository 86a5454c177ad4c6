//! `path_*`, except opening and renaming.

use belljar::Errno::{
    self, Badf, Busy, Exist, Ilseq, Inval, Isdir, Loop, Nametoolong, Noent, Notdir, Notempty, Perm,
    Rofs, Xdev,
};

use super::flags::*;
use super::script::{Call, Pair, Script, Slot, Word};
use super::tree::{Item, Tree};
use super::world::{DIR, World, builder};

/// Files, directories, links, a mount and a read-only mount.
pub fn world() -> World {
    let read_only = Tree::source([
        ("f", Item::File(b"read only")),
        ("d", Item::Dir),
        ("l", Item::Link(b"f")),
        ("full", Item::Dir),
        ("full/f", Item::File(b"")),
    ]);
    let machine =
        builder().mount("/w/mnt", belljar::Source::Memory).mount_read_only("/w/ro", read_only);
    let mut world = World::confined(machine);
    world.file("f", b"content");
    for dir in ["d", "d/sub", "empty"] {
        world.dir(dir);
    }
    world.file("d/inner", b"");
    world.file("mnt/m", b"");
    for (link, text) in [("l", "f"), ("ld", "d"), ("dangling", "nowhere"), ("loop", "loop")] {
        world.link(link, text);
    }
    world
}

pub type OnPath = fn(&mut Script, Word, Pair) -> Call<'_>;

fn room(s: &mut Script) -> Slot {
    s.room(64)
}

/// Every call that takes a path, once for each of its paths.
pub const CALLS: &[(&str, OnPath)] = &[
    ("create_directory", |s, dir, path| s.path_create_directory(dir, path)),
    ("remove_directory", |s, dir, path| s.path_remove_directory(dir, path)),
    ("unlink_file", |s, dir, path| s.path_unlink_file(dir, path)),
    ("filestat_get", |s, dir, path| {
        let out = room(s);
        s.path_filestat_get(dir, 0, path, out)
    }),
    ("filestat_get, followed", |s, dir, path| {
        let out = room(s);
        s.path_filestat_get(dir, FOLLOW, path, out)
    }),
    ("filestat_set_times", |s, dir, path| s.path_filestat_set_times(dir, 0, path, 1, 2, 5)),
    ("open", |s, dir, path| {
        let fd = s.u32();
        s.path_open(dir, 0, path, 0, READ, 0, 0, fd)
    }),
    ("open, made", |s, dir, path| {
        let fd = s.u32();
        s.path_open(dir, FOLLOW, path, CREAT, BOTH, 0, 0, fd)
    }),
    ("readlink", |s, dir, path| {
        let (buf, n) = (room(s), s.u32());
        s.path_readlink(dir, path, buf, n)
    }),
    ("symlink", |s, dir, path| s.path_symlink("text", dir, path)),
    ("link from", |s, dir, path| s.path_link(dir, 0, path, DIR, "new")),
    ("link to", |s, dir, path| s.path_link(DIR, 0, "f", dir, path)),
    ("rename from", |s, dir, path| s.path_rename(dir, path, DIR, "new")),
    ("rename to", |s, dir, path| s.path_rename(DIR, "f", dir, path)),
];

#[test]
fn a_path_starts_at_a_directory() {
    let mut world = world();
    let before = world.tree();
    let mut s = Script::new();
    let file = s.open("f", 0, BOTH);
    for (_, call) in CALLS {
        for fd in [0, 1, 2, 99, 1 << 31, u32::MAX] {
            call(&mut s, fd.into(), "d/x".into()).fails(Badf);
        }
        call(&mut s, file, "d/x".into()).fails(Notdir);
    }
    world.run(&s);
    assert_eq!(world.tree(), before);
}

#[test]
fn unresolvable_paths_fail_with_their_errno() {
    let long = "n".repeat(256);
    let too_long = "./".repeat(2048) + "f";
    let cases: &[(&[u8], Errno)] = &[
        (b"", Noent),
        (b"/", Perm),
        (b"//", Perm),
        (b"/f", Perm),
        (b"/w/f", Perm),
        (b"..", Perm),
        (b"../", Perm),
        (b"../w/f", Perm),
        (b"d/../../x", Perm),
        (b"d/./..//../x", Perm),
        (b"missing/x", Noent),
        (b"missing/../f", Noent),
        (b"f/x", Notdir),
        (b"f/.", Notdir),
        (b"f/../d", Notdir),
        (b"l/x", Notdir),
        (b"dangling/x", Noent),
        (b"loop/x", Loop),
        (long.as_bytes(), Nametoolong),
        (&[long.as_bytes(), b"/x"].concat(), Nametoolong),
        (&[b"d/", long.as_bytes()].concat(), Nametoolong),
        (too_long.as_bytes(), Nametoolong),
        (b"\0", Inval),
        (b"a\0b", Inval),
        (b"d/a\0b", Inval),
        (b"d\0", Inval),
        (b"\xff", Ilseq),
        (b"d/\xc3", Ilseq),
        (b"caf\xe9", Ilseq),
        (b"\xed\xa0\x80", Ilseq),
    ];
    let mut world = world();
    let before = world.tree();
    for (name, call) in CALLS {
        let mut s = Script::new();
        for (path, errno) in cases {
            call(&mut s, DIR.into(), (*path).into()).fails(*errno);
        }
        println!("{name}");
        world.run(&s);
    }
    assert_eq!(world.tree(), before);
}

#[test]
fn a_path_may_be_as_long_as_the_limit() {
    let mut world = world();
    let mut s = Script::new();
    let (stat, name) = (s.room(64), "n".repeat(255));
    s.path_filestat_get(DIR, 0, &("./".repeat(2046) + "/f/"), stat).fails(Notdir);
    s.path_filestat_get(DIR, 0, &("./".repeat(2046) + "/.f"), stat).fails(Noent);
    s.path_filestat_get(DIR, 0, &("./".repeat(2047) + "f"), stat).ok();
    // Linux takes 4095 bytes as well: its `PATH_MAX` counts the closing NUL.
    s.path_filestat_get(DIR, 0, &("./".repeat(2047) + "/f"), stat).fails(Nametoolong);
    s.path_create_directory(DIR, &name).ok();
    s.path_create_directory(DIR, &(name.clone() + "/////")).fails(Exist);
    s.path_remove_directory(DIR, &name).ok();
    world.run(&s);
}

#[test]
fn unknown_flags_are_refused() {
    let mut world = world();
    let before = world.tree();
    let mut s = Script::new();
    let (stat, fd) = (s.room(64), s.u32());
    for flags in [2, 3, 1 << 16, u32::MAX] {
        s.path_filestat_get(DIR, flags, "f", stat).fails(Inval);
        s.path_filestat_set_times(DIR, flags, "f", 0, 0, 0).fails(Inval);
        s.path_link(DIR, flags, "f", DIR, "new").fails(Inval);
        s.path_open(DIR, flags, "new", CREAT, BOTH, 0, 0, fd).fails(Inval);
    }
    for oflags in [16, 17, 1 << 16, u32::MAX] {
        s.path_open(DIR, 0, "new", oflags, BOTH, 0, 0, fd).fails(Inval);
    }
    world.run(&s);
    assert_eq!(world.tree(), before);
}

#[test]
fn making_directories() {
    let mut world = world();
    let mut s = Script::new();
    for there in ["f", "d", "d/", "ld", "ld/", "dangling", "dangling/", "loop", ".", "d/..", "mnt"]
    {
        s.path_create_directory(DIR, there).fails(Exist);
    }
    for (path, errno) in [("ro/new", Rofs), ("missing/new", Noent)] {
        s.path_create_directory(DIR, path).fails(errno);
    }
    for new in ["new", "slashes//", "d/../dots", "ld/through a link", "new/é"] {
        s.path_create_directory(DIR, new).ok();
        s.path_create_directory(DIR, new).fails(Exist);
    }
    let stat = s.room(64);
    s.path_filestat_get(DIR, 0, "new", stat).ok();
    let run = world.run(&s);
    let stat = run.stat(stat);
    assert_eq!((stat.file_type, stat.nlink, stat.size), (DIRECTORY_TYPE, 1, 0));
    assert!(world.has("slashes") && world.has("dots") && world.has("d/through a link"));
    assert!(world.has("new/é"));
}

#[test]
fn removing_directories() {
    let mut world = world();
    let mut s = Script::new();
    let cases = [
        ("f", Notdir),
        ("f/", Notdir),
        ("ld", Notdir),
        ("ld/", Notdir),
        ("dangling", Notdir),
        ("d", Notempty),
        ("d/", Notempty),
        ("d/sub/..", Notempty),
        (".", Inval),
        ("empty/.", Inval),
        ("mnt", Busy),
        ("mnt/", Busy),
        ("missing", Noent),
        ("ro/d", Rofs),
        ("ro/f", Notdir),
    ];
    for (path, errno) in cases {
        s.path_remove_directory(DIR, path).fails(errno);
    }
    s.path_remove_directory(DIR, "empty//").ok();
    s.path_remove_directory(DIR, "ld/sub").ok();
    s.path_unlink_file(DIR, "d/inner").ok();
    s.path_remove_directory(DIR, "d").ok();
    world.run(&s);
    assert!(!world.has("empty") && !world.has("d") && world.has("ld"));
}

#[test]
fn removing_names() {
    let mut world = world();
    let mut s = Script::new();
    let cases = [
        ("d", Isdir),
        ("d/", Isdir),
        ("mnt", Busy),
        (".", Isdir),
        ("d/..", Isdir),
        ("f/", Notdir),
        ("l/", Notdir),
        ("ld/", Notdir),
        ("missing", Noent),
        ("ro/f", Rofs),
        ("ro/l", Rofs),
    ];
    for (path, errno) in cases {
        s.path_unlink_file(DIR, path).fails(errno);
    }
    for path in ["ld/inner", "l", "ld", "dangling", "loop"] {
        s.path_unlink_file(DIR, path).ok();
        s.path_unlink_file(DIR, path).fails(Noent);
    }
    world.run(&s);
    assert!(world.has("f") && world.has("d") && !world.has("d/inner") && !world.has("l"));
}

#[test]
fn a_hard_link_is_another_name() {
    let mut world = world();
    let mut s = Script::new();
    let cases = [
        ("f", "d", Exist),
        ("f", "f", Exist),
        ("f", "dangling", Exist),
        ("f", "l", Exist),
        ("f", ".", Exist),
        ("f", "new/", Noent),
        ("f", "missing/new", Noent),
        ("missing", "new", Noent),
        ("f/", "new", Notdir),
        ("d", "new", Perm),
        ("d/", "new", Perm),
        (".", "new", Perm),
        ("f", "mnt/new", Xdev),
        ("mnt/m", "new", Xdev),
        ("ro/f", "ro/new", Rofs),
    ];
    for (from, to, errno) in cases {
        s.path_link(DIR, 0, from, DIR, to).fails(errno);
    }
    s.path_link(DIR, 0, "f", DIR, "second").ok();
    s.path_link(DIR, FOLLOW, "l", DIR, "third").ok();
    s.path_link(DIR, 0, "l", DIR, "a link twice").ok();
    s.path_link(DIR, 0, "dangling", DIR, "dangling twice").ok();
    s.path_link(DIR, FOLLOW, "dangling", DIR, "x").fails(Noent);
    s.path_link(DIR, FOLLOW, "loop", DIR, "x").fails(Loop);
    let stats = ["f", "third", "l", "a link twice"].map(|path| {
        let stat = s.room(64);
        s.path_filestat_get(DIR, 0, path, stat).ok();
        stat
    });
    let fd = s.open("second", 0, WRITE);
    s.write(fd, "CON");
    s.path_unlink_file(DIR, "f").ok();
    let last = s.room(64);
    s.path_filestat_get(DIR, 0, "third", last).ok();
    let run = world.run(&s);
    let [file, third, link, twice] = stats.map(|stat| run.stat(stat));
    assert_eq!((file.nlink, file.ino), (3, third.ino));
    assert_eq!((link.nlink, link.ino, link.file_type), (2, twice.ino, LINK_TYPE));
    assert_eq!(run.stat(last).nlink, 2);
    assert_eq!(world.read("third"), b"CONtent");
}

#[test]
fn links_hold_any_text() {
    let mut world = world();
    let mut s = Script::new();
    let (long, longer) = ("x".repeat(4095), "x".repeat(4096));
    let cases: &[(&str, &str, Errno)] = &[
        ("t", "f", Exist),
        ("t", "d", Exist),
        ("t", "dangling", Exist),
        ("t", ".", Exist),
        ("t", "new/", Noent),
        ("", "new", Noent),
        ("t", "missing/new", Noent),
        ("t", "ro/new", Rofs),
        ("/absolute", "new", Perm),
        ("/", "new", Perm),
        (&longer, "new", Nametoolong),
        ("a\0b", "new", Inval),
    ];
    for (text, path, errno) in cases {
        s.path_symlink(*text, DIR, *path).fails(*errno);
    }
    s.path_symlink(&b"\xff"[..], DIR, "new").fails(Ilseq);
    let texts = ["nowhere", "../../outside", "d//./", "é", &long];
    for (index, text) in texts.iter().enumerate() {
        s.path_symlink(*text, DIR, &format!("new{index}")).ok();
    }
    let stat = s.room(64);
    s.path_filestat_get(DIR, 0, "new0", stat).ok();
    let rooms: Vec<(Slot, Slot)> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let (buf, n) = (s.room(u32::try_from(text.len()).unwrap() + 4), s.u32());
            s.path_readlink(DIR, &format!("new{index}"), buf, n).ok();
            (buf, n)
        })
        .collect();
    let run = world.run(&s);
    for (text, (buf, n)) in texts.iter().zip(rooms) {
        assert_eq!(run.u32(n) as usize, text.len());
        assert_eq!(run.bytes(buf), [text.as_bytes(), b"\xa5\xa5\xa5\xa5"].concat());
    }
    let stat = run.stat(stat);
    assert_eq!((stat.file_type, stat.size, stat.nlink), (LINK_TYPE, 7, 1));
    assert!(!world.has("new"));
}

#[test]
fn readlink_truncates_to_the_buffer() {
    let mut world = world();
    let mut s = Script::new();
    let lens = [0, 1, 6, 7, 8];
    let rooms = lens.map(|len| {
        let (buf, n) = (s.room(len), s.u32());
        s.path_readlink(DIR, "dangling", buf, n).ok();
        (buf, n)
    });
    let (buf, n) = (s.room(8), s.u32());
    for path in ["f", "d", ".", "ld/", "mnt"] {
        s.path_readlink(DIR, path, buf, n).fails(Inval);
    }
    for (path, errno) in [("missing", Noent), ("l/", Notdir), ("dangling/", Noent), ("loop/", Loop)]
    {
        s.path_readlink(DIR, path, buf, n).fails(errno);
    }
    let run = world.run(&s);
    for (len, (buf, n)) in lens.into_iter().zip(rooms) {
        let count = len.min(7);
        assert_eq!(run.u32(n), count);
        assert_eq!(run.bytes(buf)[..count as usize], b"nowhere"[..count as usize]);
    }
    assert_eq!(run.bytes(rooms[4].0)[7], 0xa5);
}

#[test]
fn stat_follows_links_only_if_the_flag_is_set() {
    let mut world = world();
    let mut s = Script::new();
    let paths = ["f", "l", "ld", "d", "ld/", "ld/inner", "mnt", "ro/l", "."];
    let stats: Vec<(Slot, Slot)> = paths
        .iter()
        .map(|path| {
            let pair = (s.room(64), s.room(64));
            s.path_filestat_get(DIR, 0, *path, pair.0).ok();
            s.path_filestat_get(DIR, FOLLOW, *path, pair.1).ok();
            pair
        })
        .collect();
    let out = s.room(64);
    for (path, errno) in
        [("dangling", Noent), ("loop", Loop), ("missing", Noent), ("l/", Notdir), ("f/", Notdir)]
    {
        s.path_filestat_get(DIR, FOLLOW, path, out).fails(errno);
    }
    s.path_filestat_get(DIR, 0, "missing", out).fails(Noent);
    s.path_filestat_get(DIR, 0, "dangling", out).ok();
    s.path_filestat_get(DIR, 0, "loop", out).ok();
    let run = world.run(&s);
    let types: Vec<(u8, u8)> =
        stats.iter().map(|(no, yes)| (run.stat(*no).file_type, run.stat(*yes).file_type)).collect();
    let (d, f, l) = (DIRECTORY_TYPE, FILE_TYPE, LINK_TYPE);
    assert_eq!(types, [(f, f), (l, f), (l, d), (d, d), (d, d), (f, f), (d, d), (l, f), (d, d)]);
    assert_eq!(run.stat(stats[0].0).ino, run.stat(stats[1].1).ino);
    assert_eq!(run.stat(stats[2].1).ino, run.stat(stats[3].0).ino);
    assert_eq!(run.stat(stats[7].1).size, 9);
}

#[test]
fn times_are_set_on_a_link_or_on_its_target() {
    let mut world = world();
    let mut s = Script::new();
    s.path_filestat_set_times(DIR, 0, "l", 1, 2, ATIM | MTIM).ok();
    s.path_filestat_set_times(DIR, FOLLOW, "l", 3, 4, ATIM | MTIM).ok();
    s.path_filestat_set_times(DIR, 0, "d", 5, 6, ATIM | MTIM).ok();
    for (path, errno) in [("ro/f", Rofs), ("ro/d", Rofs), ("ro/l", Rofs), ("missing", Noent)] {
        s.path_filestat_set_times(DIR, 0, path, 7, 8, ATIM | MTIM).fails(errno);
    }
    for (path, errno) in [("dangling", Noent), ("loop", Loop), ("f/", Notdir)] {
        s.path_filestat_set_times(DIR, FOLLOW, path, 7, 8, ATIM | MTIM).fails(errno);
    }
    let fd = s.open("ro/f", 0, READ);
    s.fd_filestat_set_times(fd, 7, 8, ATIM | MTIM).fails(Rofs);
    let stats = ["l", "f", "d", "ro/f"].map(|path| {
        let stat = s.room(64);
        s.path_filestat_get(DIR, 0, path, stat).ok();
        stat
    });
    let run = world.run(&s);
    let times = stats.map(|stat| (run.stat(stat).atim, run.stat(stat).mtim));
    // The mounted tree shows 1970 as the time of its files.
    assert_eq!(times, [(1, 2), (3, 4), (5, 6), (0, 0)]);
}
