//! `path_open`.

use std::time::Duration;

use belljar::Errno::{
    self, Acces, Badf, Exist, Inval, Io, Isdir, Loop, Mfile, Nametoolong, Noent, Notdir, Perm, Rofs,
};
use belljar::kernel::clock::DEFAULT_START_NS;
use belljar::{Limit, Limits, Source};

use super::flags::*;
use super::path::world;
use super::script::{Script, gather, scatter};
use super::tree::{Item, Tree};
use super::world::{DIR, World, builder};

const NO: u32 = 0;

/// Path, whether links are followed, `oflags`, rights, answer.
type Case = (&'static str, u32, u32, u64, Option<Errno>);

#[test]
fn open_cases_by_kind_and_flags() {
    let cases: &[Case] = &[
        ("f", NO, 0, BOTH, None),
        ("f", NO, CREAT, BOTH, None),
        ("f", NO, EXCL, BOTH, None),
        ("f", NO, CREAT | EXCL, BOTH, Some(Exist)),
        ("f", NO, DIRECTORY, READ, Some(Notdir)),
        ("f", NO, CREAT | DIRECTORY, READ, Some(Inval)),
        ("f/", NO, 0, READ, Some(Notdir)),
        ("f/", NO, CREAT, READ, Some(Isdir)),
        ("missing", NO, 0, READ, Some(Noent)),
        ("missing", NO, TRUNC, WRITE, Some(Noent)),
        ("missing", NO, EXCL, READ, Some(Noent)),
        ("missing", NO, DIRECTORY, READ, Some(Noent)),
        ("missing", NO, CREAT | DIRECTORY, READ, Some(Inval)),
        ("missing/", NO, 0, READ, Some(Noent)),
        ("missing/", NO, CREAT, WRITE, Some(Isdir)),
        ("missing/new", NO, CREAT, WRITE, Some(Noent)),
        ("f/new", NO, CREAT, WRITE, Some(Notdir)),
        ("d", NO, 0, READ, None),
        ("d", NO, 0, 0, None),
        ("d/", NO, DIRECTORY, READ, None),
        ("d", NO, DIRECTORY, WRITE, Some(Isdir)),
        ("d", NO, 0, WRITE, Some(Isdir)),
        ("d", NO, TRUNC, READ, Some(Isdir)),
        ("d", NO, CREAT, READ, Some(Isdir)),
        ("d/", NO, CREAT, READ, Some(Isdir)),
        ("d", NO, CREAT | EXCL, READ, Some(Exist)),
        ("d", NO, CREAT | DIRECTORY, READ, Some(Inval)),
        (".", NO, 0, READ, None),
        ("d/..", NO, DIRECTORY, READ, None),
        (".", NO, CREAT, READ, Some(Isdir)),
        (".", NO, CREAT | EXCL, READ, Some(Exist)),
        ("l", NO, 0, READ, Some(Loop)),
        ("l", NO, CREAT, WRITE, Some(Loop)),
        ("l", NO, TRUNC, WRITE, Some(Loop)),
        ("l", NO, DIRECTORY, READ, Some(Notdir)),
        ("l", FOLLOW, 0, BOTH, None),
        ("l", FOLLOW, CREAT | EXCL, BOTH, Some(Exist)),
        ("l", FOLLOW, DIRECTORY, READ, Some(Notdir)),
        ("l/", NO, 0, READ, Some(Notdir)),
        ("ld", NO, 0, READ, Some(Loop)),
        ("ld", NO, DIRECTORY, READ, Some(Notdir)),
        ("ld", FOLLOW, DIRECTORY, READ, None),
        ("ld/", NO, DIRECTORY, READ, None),
        ("ld/inner", NO, 0, READ, None),
        ("dangling", NO, 0, READ, Some(Loop)),
        ("dangling", NO, CREAT, WRITE, Some(Loop)),
        ("dangling", NO, CREAT | EXCL, WRITE, Some(Exist)),
        ("dangling", FOLLOW, CREAT | EXCL, WRITE, Some(Exist)),
        ("dangling", FOLLOW, 0, READ, Some(Noent)),
        ("dangling/", FOLLOW, CREAT, WRITE, Some(Isdir)),
        ("loop", FOLLOW, CREAT, WRITE, Some(Loop)),
        ("loop", NO, CREAT | EXCL, WRITE, Some(Exist)),
        ("mnt", NO, DIRECTORY, READ, None),
        ("ro/f", NO, 0, READ, None),
        ("ro/f", NO, CREAT, READ, None),
        ("ro/f", NO, 0, WRITE, Some(Rofs)),
        ("ro/f", NO, TRUNC, READ, Some(Rofs)),
        ("ro/f", NO, CREAT | EXCL, READ, Some(Exist)),
        ("ro/new", NO, CREAT, WRITE, Some(Rofs)),
        ("ro/new", NO, 0, WRITE, Some(Noent)),
        ("ro/d", NO, DIRECTORY, READ, None),
        ("..", NO, DIRECTORY, READ, Some(Perm)),
    ];
    let mut world = world();
    let before = world.tree();
    let mut s = Script::new();
    let fd = s.u32();
    for (path, flags, oflags, rights, answer) in cases {
        s.path_open(DIR, *flags, *path, *oflags, *rights, 0, 0, fd).answers(*answer);
        if answer.is_none() {
            s.fd_close(fd.load()).ok();
        }
    }
    world.run(&s);
    assert_eq!(world.tree(), before, "none of these makes or changes anything");
}

#[test]
fn open_creates_missing_files() {
    let mut world = world();
    let mut s = Script::new();
    let fds = ["new", "d/sub/new", "ld/other", "exclusive"].map(|path| {
        let fd = s.u32();
        let oflags = if path == "exclusive" { CREAT | EXCL } else { CREAT };
        s.path_open(DIR, NO, path, oflags, BOTH, 0, 0, fd).ok();
        s.write(fd.load(), path);
        fd
    });
    // Through a dangling link, its target is created.
    let through = s.open("dangling", CREAT, WRITE);
    s.write(through, "made");
    let stat = s.room(64);
    s.fd_filestat_get(fds[0].load(), stat).ok();
    let run = world.run(&s);
    // The lowest free numbers are used.
    assert_eq!(fds.map(|fd| run.u32(fd)), [4, 5, 6, 7]);
    for path in ["new", "d/sub/new", "d/other"] {
        assert!(path.ends_with("other") || world.read(path) == path.as_bytes());
    }
    assert_eq!(world.read("d/other"), b"ld/other");
    assert_eq!(world.read("nowhere"), b"made");
    let stat = run.stat(stat);
    assert_eq!((stat.file_type, stat.nlink, stat.size), (FILE_TYPE, 1, 3));
}

#[test]
fn truncation_is_visible_through_all_open_descriptors() {
    let mut world = world();
    world.machine.advance(Duration::from_secs(3));
    let mut s = Script::new();
    let reader = s.open("f", 0, READ);
    let (buf, n, stat) = (s.room(8), s.u32(), s.room(64));
    s.fd_read(reader, scatter([buf.part(0, 2)]), n).ok();
    s.open("l", TRUNC, WRITE);
    s.fd_read(reader, scatter([buf.part(2, 2)]), n).ok();
    s.fd_filestat_get(reader, stat).ok();
    // An empty file is truncated, too: its time changes.
    let empty = s.room(64);
    s.open("d/inner", TRUNC, WRITE);
    s.path_filestat_get(DIR, 0, "d/inner", empty).ok();
    let run = world.run(&s);
    assert_eq!(run.bytes(buf)[..4], *b"co\xa5\xa5");
    assert_eq!(run.u32(n), 0);
    for stat in [run.stat(stat), run.stat(empty)] {
        assert_eq!((stat.size, (stat.mtim - DEFAULT_START_NS) / 1_000_000_000), (0, 3));
    }
}

/// Only the rights to read and to write have an effect, and no right is inherited.
#[test]
fn only_read_and_write_rights_are_enforced() {
    let mut world = world();
    let mut s = Script::new();
    let fd = s.u32();
    let n = s.u32();
    for (rights, reads, writes) in [
        (0, Some(Badf), Some(Badf)),
        (READ, None, Some(Badf)),
        (WRITE, Some(Badf), None),
        (u64::MAX, None, None),
        (!READ, Some(Badf), None),
        (!WRITE, None, Some(Badf)),
    ] {
        s.path_open(DIR, NO, "f", 0, rights, 0, 0, fd).ok();
        s.fd_read(fd.load(), (0, 0), n).answers(reads);
        s.fd_write(fd.load(), gather([""]), n).answers(writes);
        s.fd_close(fd.load()).ok();
    }
    let dir = s.u32();
    s.path_open(DIR, NO, "d", DIRECTORY, 0, 0, 0, dir).ok();
    s.path_open(dir.load(), NO, "inner", 0, BOTH, 0, 0, fd).ok();
    s.fd_write(fd.load(), gather(["x"]), n).ok();
    world.run(&s);
    assert_eq!(world.read("d/inner"), b"x");
}

/// Paths cannot lead above the directory that was opened.
#[test]
fn opened_subdirectory_confines_lookups() {
    let mut world = world();
    world.link("d/up", "../f");
    let mut s = Script::new();
    let (dir, out, stat) = (s.open("d", DIRECTORY, READ), s.u32(), s.room(64));
    for path in ["..", "../f", "sub/../../f", "/", "../d/inner"] {
        s.path_open(dir, NO, path, 0, READ, 0, 0, out).fails(Perm);
    }
    s.path_open(dir, FOLLOW, "up", 0, READ, 0, 0, out).fails(Noent);
    s.path_filestat_get(dir, FOLLOW, "up", stat).fails(Noent);
    s.path_open(DIR, FOLLOW, "d/up", 0, READ, 0, 0, out).ok();
    s.path_open(dir, NO, "sub/../inner", 0, READ, 0, 0, out).ok();
    world.run(&s);
}

#[test]
fn no_more_files_are_open_than_the_limit() {
    let mut world = World::with(Limits { open_files_max: 6, ..Limits::default() });
    let mut s = Script::new();
    let (a, _b, out) = (s.open("a", CREAT, WRITE), s.open(".", DIRECTORY, READ), s.u32());
    s.path_open(DIR, NO, "c", CREAT, WRITE, 0, 0, out).fails(Mfile);
    s.path_open(DIR, NO, "a", TRUNC, WRITE, 0, 0, out).fails(Mfile);
    s.path_open(DIR, NO, ".", 0, READ, 0, 0, out).fails(Mfile);
    s.fd_close(a).ok();
    s.path_open(DIR, NO, "c", CREAT, WRITE, 0, 0, out).ok();
    s.fd_renumber(out.load(), 0).ok();
    s.path_open(DIR, NO, "e", CREAT, WRITE, 0, 0, out).ok();
    s.path_open(DIR, NO, "g", CREAT, WRITE, 0, 0, out).fails(Mfile);
    world.run(&s);
    assert!(world.has("c") && world.has("e") && !world.has("g"));
    assert_eq!(world.machine.limits_hit(), [Limit::OpenFiles]);
    // The next process begins without these descriptors.
    let mut s = Script::new();
    s.open("g", CREAT, WRITE);
    world.run(&s);
}

#[test]
fn forty_links_are_followed_and_no_more() {
    let mut world = World::new();
    world.file("0", b"end");
    for i in 1..=41 {
        world.link(&i.to_string(), &(i - 1).to_string());
    }
    world.dir("d");
    world.link("in", "d/../40");
    world.link("dot", &"./".repeat(1500));
    let mut s = Script::new();
    let (fd, stat) = (s.u32(), s.room(64));
    s.path_open(DIR, FOLLOW, "40", 0, READ, 0, 0, fd).ok();
    s.path_filestat_get(DIR, FOLLOW, "40", stat).ok();
    for path in ["41", "in"] {
        s.path_open(DIR, FOLLOW, path, 0, READ, 0, 0, fd).fails(Loop);
        s.path_open(DIR, FOLLOW, path, CREAT, WRITE, 0, 0, fd).fails(Loop);
        s.path_filestat_get(DIR, FOLLOW, path, stat).fails(Loop);
    }
    // The target of a link does not add to the length of the path.
    let long = format!("dot/{}0", "./".repeat(2045));
    s.path_open(DIR, NO, &long, 0, READ, 0, 0, fd).ok();
    s.path_open(DIR, NO, &format!("{long}/././"), 0, READ, 0, 0, fd).fails(Nametoolong);
    world.run(&s);
}

fn below() -> Source {
    Tree::source([
        ("bad name", Item::Link(b"\xff")),
        ("closed", Item::Unopenable(Acces)),
        ("device", Item::Special),
        ("locked", Item::Dir),
        ("locked/f", Item::Unknowable(Acces)),
        ("no descriptor", Item::Unopenable(Mfile)),
        ("shortened", Item::Shortened(b"short")),
        ("whole", Item::File(b"whole")),
    ])
}

#[test]
fn errors_of_the_lower_layer_reach_the_guest() {
    let mut world = World::confined(builder().mount("/w/below", below()));
    let mut s = Script::new();
    let (fd, stat, out) = (s.u32(), s.room(64), s.room(64));
    for (path, errno) in [
        ("below/bad name", Acces),
        ("below/device", Acces),
        ("below/device/", Notdir),
        ("below/device/x", Notdir),
        ("below/locked/f", Acces),
        ("below/locked/f/x", Acces),
    ] {
        s.path_open(DIR, FOLLOW, path, 0, READ, 0, 0, fd).fails(errno);
    }
    s.path_filestat_get(DIR, FOLLOW, "below/device", stat).ok();
    s.path_filestat_get(DIR, FOLLOW, "below/locked/f", out).fails(Acces);
    // A link whose text is not UTF-8 exists, but its text cannot be read.
    let link = s.room(64);
    s.path_filestat_get(DIR, FOLLOW, "below/bad name", link).ok();
    s.path_readlink(DIR, "below/bad name", out, fd).fails(Errno::Ilseq);
    let run = world.run(&s);
    assert_eq!((run.stat(stat).file_type, run.stat(link).file_type), (2, LINK_TYPE));
}

/// Content is loaded when it is read or changed; the size of the cache changes no result.
#[test]
fn unreadable_content_of_the_lower_layer_is_an_error() {
    for cache_bytes_max in [0, 1 << 20] {
        let mut limits = Limits::default();
        limits.vfs.cache_bytes_max = cache_bytes_max;
        let mut world = World::confined(builder().limits(limits).mount("/w/below", below()));
        let mut s = Script::new();
        let (n, buf) = (s.u32(), s.room(32));
        for (path, errno) in [
            ("below/closed", Some(Acces)),
            ("below/no descriptor", Some(Mfile)),
            ("below/shortened", Some(Io)),
            ("below/whole", None),
        ] {
            let fd = s.open(path, 0, BOTH);
            let read = s.fd_read(fd, scatter([buf]), n);
            match errno {
                None => read.ok(),
                // Bytes read before the error may be in the buffer.
                Some(errno) => read.fails_midway(errno),
            }
            s.fd_pwrite(fd, gather(["x"]), 2, n).answers(errno);
            s.fd_close(fd).ok();
        }
        let run = world.run(&s);
        assert_eq!((&run.bytes(buf)[..5], run.u32(n)), (&b"whole"[..], 1));
        assert_eq!(world.read("below/whole"), b"whxle");
    }
}
