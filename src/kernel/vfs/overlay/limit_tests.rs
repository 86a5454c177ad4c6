//! Everything that a guest can make grow is charged, and a call that fails at a limit charges nothing.
#![cfg(unix)]

use std::sync::{Arc, Mutex, Weak};

use super::NODE_BYTES;
use super::content::CHUNK_BYTES;
#[cfg(unix)]
use crate::base::disk;
use crate::base::errno::Errno;
use crate::kernel::vfs::test_trees::check_counts;
use crate::kernel::vfs::*;

const MIB: u64 = 1 << 20;

fn memory(upper_bytes_max: u64) -> Overlay {
    Overlay::new(VfsLimits { upper_bytes_max, ..VfsLimits::default() }, 1)
}

fn open(overlay: &mut Overlay, path: &str) -> NodeId {
    let flags = OpenFlags { create: true, write: true, ..OpenFlags::default() };
    overlay.open(overlay.host_base(), path, flags, 2).unwrap()
}

/// A directory of files of zeros; every name that begins with `f` exists.
struct Zeros {
    len: u64,
    /// Contents that were opened.
    opened: Mutex<Vec<Weak<[u8]>>>,
}

impl Layer for Zeros {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        let (file_type, size) = match path.as_str() {
            "" => (FileType::Directory, 0),
            name if name.starts_with('f') => (FileType::RegularFile, self.len),
            _ => return Err(Errno::Noent),
        };
        Ok(Stat { file_type, size, mtime_ns: 0, executable: false, stamp: 0, inode: 0, nlink: 1 })
    }

    fn list(&self, _: &VPath) -> Result<Vec<DirEntry>, Errno> {
        Ok(vec![DirEntry { name: "f".into(), file_type: FileType::RegularFile }])
    }

    fn read_link(&self, _: &VPath) -> Result<Box<[u8]>, Errno> {
        Err(Errno::Inval)
    }

    fn open(&self, _: &VPath) -> Result<Blob, Errno> {
        let bytes: Arc<[u8]> = vec![0; usize::try_from(self.len).unwrap()].into();
        self.opened.lock().unwrap().push(Arc::downgrade(&bytes));
        Ok(Blob::Bytes(bytes))
    }
}

/// An overlay over a file `/f` of `len` bytes.
fn over(len: u64, upper_bytes_max: u64) -> Overlay {
    let mut overlay = memory(upper_bytes_max);
    let zeros = Zeros { len, opened: Mutex::default() };
    let layers = Source::Layers(vec![Arc::new(zeros)]);
    overlay.mount("/", layers, false, Mtimes::Fixed(1), 1).unwrap();
    overlay
}

#[test]
fn names_are_charged() {
    let mut overlay = memory(1 << 20);
    let base = overlay.host_base();
    let (long, longer) = ("n".repeat(200), "m".repeat(255));
    let file = open(&mut overlay, &long);
    overlay.close(file);
    assert_eq!(overlay.upper_bytes(), NODE_BYTES + 200);
    overlay.link((base, &long), Follow::No, (base, &longer), 2).unwrap();
    assert_eq!(overlay.upper_bytes(), 2 * NODE_BYTES + 455);
    overlay.unlink(base, &long, 2).unwrap();
    overlay.rename((base, &longer), (base, "s"), 2).unwrap();
    assert_eq!(overlay.upper_bytes(), NODE_BYTES + 1);
    overlay.symlink("target", base, &longer, 2).unwrap();
    assert_eq!(overlay.upper_bytes(), 2 * NODE_BYTES + 1 + 6 + 255);
    for name in ["s", &longer] {
        overlay.unlink(base, name, 2).unwrap();
    }
    assert_eq!(overlay.upper_bytes(), 0);
}

#[test]
fn name_beyond_the_limit_is_enospc() {
    let mut overlay = memory(2 * NODE_BYTES);
    let base = overlay.host_base();
    overlay.create_dir(base, "d", 2).unwrap();
    let long = "n".repeat(255);
    overlay.rename((base, "d"), (base, &long), 2).unwrap();
    let file = OpenFlags { create: true, ..OpenFlags::default() };
    assert_eq!(overlay.open(base, "another", file, 2), Err(Errno::Nospc));
    assert_eq!(overlay.limit_hit(), Some("upper_bytes_max"));
    let mut full = memory(NODE_BYTES + 10);
    full.create_dir(base, "d", 2).unwrap();
    assert_eq!(full.rename((base, "d"), (base, &long), 2), Err(Errno::Nospc));
    assert!(full.metadata("/d").is_ok());
    check_counts(&full);
}

#[test]
fn emptied_directory_frees_its_memory() {
    let mut overlay = memory(1 << 30);
    let base = overlay.host_base();
    for index in 0..10_000 {
        overlay.create_dir(base, &format!("{index}"), 2).unwrap();
    }
    for index in 0..10_000 {
        overlay.remove_dir(base, &format!("{index}"), 2).unwrap();
    }
    assert!(overlay.dir(base.dir).entries.capacity() < 200);
    assert_eq!(overlay.upper_bytes(), 0);
}

/// A guest that opened a directory a thousand times and changed it in between made the host hold a thousand
/// uncharged listings.
#[test]
fn held_listings_are_charged() {
    let mut overlay = memory(1 << 20);
    let base = overlay.host_base();
    for index in 0..1000 {
        overlay.create_dir(base, &format!("{index:04}"), 2).unwrap();
    }
    let mut held = Vec::new();
    let refused = loop {
        match overlay.list(base.dir) {
            Ok(listing) => held.push(listing),
            Err(errno) => break errno,
        }
        overlay.remove_dir(base, "0500", 2).unwrap();
        overlay.create_dir(base, "0500", 2).unwrap();
        assert!(held.len() < 100, "each takes more than 30 KiB");
    };
    assert_eq!(refused, Errno::Nospc);
    assert!(held.len() > 5);
    held.clear();
    assert_eq!(overlay.list(base.dir).unwrap().len(), 1000);
}

#[test]
fn released_listing_is_not_charged() {
    let mut overlay = memory(NODE_BYTES + 10);
    let base = overlay.host_base();
    for _ in 0..3 {
        overlay.create_dir(base, "d", 2).unwrap();
        assert_eq!(overlay.list(base.dir).unwrap().len(), 1);
        overlay.remove_dir(base, "d", 2).unwrap();
    }
}

#[test]
fn mapped_chunk_is_charged_in_full() {
    let mut overlay = memory(16 * MIB);
    let file = open(&mut overlay, "f");
    let empty = overlay.upper_bytes();
    overlay.write_at(file, MIB, b"x", 2).unwrap();
    assert!(overlay.upper_bytes() - empty >= CHUNK_BYTES as u64);
    overlay.set_len(file, 10, 2).unwrap();
    assert!(overlay.upper_bytes() - empty < 100);
    check_counts(&overlay);
}

/// A write to a large file below loaded its chunks before the limit was checked.
#[test]
fn failed_write_loads_nothing() {
    let mut overlay = over(20 * MIB, 4 * MIB);
    let file = open(&mut overlay, "f");
    let bytes = vec![1; 10 << 20];
    assert_eq!(overlay.write_at(file, 0, &bytes, 2), Err(Errno::Nospc));
    assert_eq!((overlay.upper_bytes, overlay.cache_bytes), (0, 0));
    assert_eq!(overlay.file(file).unwrap().content.held_bytes(), 0);
    overlay.write_at(file, 0, &bytes[..10], 2).unwrap();
    assert_eq!(overlay.write_at(file, MIB, &bytes, 2), Err(Errno::Nospc));
    assert!(overlay.upper_bytes() < 3 * MIB);
    check_counts(&overlay);
}

#[test]
fn reading_a_written_file_takes_no_memory() {
    let mut overlay = over(20 * MIB, 64 * MIB);
    let file = open(&mut overlay, "f");
    overlay.write_at(file, 5, b"written", 2).unwrap();
    let before = overlay.upper_bytes();
    let mut bytes = vec![1; 20 << 20];
    assert_eq!(overlay.read_at(file, 0, &mut bytes).unwrap(), bytes.len());
    assert_eq!((&bytes[5..12], bytes[19 << 20]), (&b"written"[..], 0));
    assert_eq!((overlay.upper_bytes, overlay.cache_bytes), (before, 0));
}

/// Truncating a file charged what had been read of it as written, without a check of the limit.
#[test]
fn truncating_a_read_file_charges_nothing() {
    let mut overlay = over(20 * MIB, MIB);
    let file = open(&mut overlay, "f");
    let mut bytes = vec![1; 20 << 20];
    overlay.read_at(file, 0, &mut bytes).unwrap();
    assert!(overlay.cache_bytes >= 20 * MIB);
    overlay.set_len(file, 20 * MIB - 1, 2).unwrap();
    assert!(overlay.upper_bytes() < 1000 && overlay.cache_bytes == 0);
    overlay.set_len(file, 3, 2).unwrap();
    overlay.set_len(file, 10, 2).unwrap();
    assert_eq!(overlay.read_at(file, 0, &mut bytes).unwrap(), 10);
    check_counts(&overlay);
}

/// A sparse file in an untrusted directory can claim any length.
#[test]
fn file_of_exbibytes_cannot_be_opened() {
    let mut overlay = over(7 << 60, MIB);
    let base = overlay.host_base();
    let opened = overlay.open(base, "f", OpenFlags::default(), 2);
    assert_eq!(opened, Err(Errno::Fbig));
    assert_eq!(overlay.metadata("/f").unwrap().file_type, FileType::RegularFile);
}

#[test]
fn stat_of_a_long_file_takes_no_memory() {
    let mut overlay = over(1 << 40, MIB);
    assert_eq!(overlay.metadata("/f").unwrap().size, 1 << 40);
    let file = overlay.lookup(overlay.host_base(), "f", Follow::No).unwrap();
    assert_eq!(overlay.file(file).unwrap().content.held_bytes(), 0);
}

/// Holes take no memory in the overlay, but would in a patch.
#[test]
fn patch_with_large_holes_is_refused() {
    let mut overlay = over(10, MIB);
    for name in ["a", "b", "c", "d"] {
        let file = open(&mut overlay, name);
        overlay.set_len(file, 700 * MIB, 2).unwrap();
        overlay.close(file);
    }
    let entries: Vec<DiffEntry> = overlay.diff().unwrap();
    let error = render_unified_diff(&entries, &VPath::root()).unwrap_err();
    assert!(matches!(&error, DiffError::PatchTooLarge { path, .. } if path.as_str() == "c"));
}

/// Guests may open more files than the host allows a process.
#[test]
fn at_most_open_max_files_below_are_open() {
    let limits = VfsLimits { cache_bytes_max: 0, ..VfsLimits::default() };
    let mut overlay = Overlay::new(limits, 1);
    let zeros = Arc::new(Zeros { len: 10, opened: Mutex::default() });
    let layers = Source::Layers(vec![zeros.clone()]);
    overlay.mount("/", layers, false, Mtimes::Fixed(1), 1).unwrap();
    let base = overlay.host_base();
    let flags = OpenFlags::default();
    let name = |index| format!("f{index}");
    let ids: Vec<_> =
        (0..100).map(|index| overlay.open(base, &name(index), flags, 2).unwrap()).collect();
    for _ in 0..2 {
        for id in &ids {
            assert_eq!(overlay.read_at(*id, 3, &mut [1; 20]).unwrap(), 7);
        }
    }
    let open = || zeros.opened.lock().unwrap().iter().filter(|of| of.strong_count() > 0).count();
    assert!((1..=32).contains(&open()), "{}", open());
    for id in ids {
        overlay.close(id);
    }
    assert_eq!(open(), 0);
}

/// A file that left its mount is read when its place on the disk is written; a file of the host can claim
/// more bytes than memory has.
#[cfg(unix)]
#[test]
fn file_moved_to_another_mount_is_not_read_past_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let sparse = disk::create(&folder.path().join("sparse")).unwrap();
    sparse.set_len(1 << 38).unwrap();
    let mut overlay = memory(MIB);
    let host = Source::Host(Arc::new(HostDir::open(folder.path()).unwrap()));
    overlay.mount("/w", host, false, Mtimes::Fixed(1), 1).unwrap();
    overlay.mount("/tmp", Source::Memory, false, Mtimes::Fixed(1), 1).unwrap();
    let base = overlay.host_base();
    overlay.rename((base, "w/sparse"), (base, "tmp/sparse"), 2).unwrap();
    let refused = overlay.apply().unwrap_err().to_string();
    assert!(refused.contains("cannot read sparse: No space left"), "{refused}");
    assert_eq!(disk::metadata(&folder.path().join("sparse")).unwrap().len(), 1 << 38);
}

/// Each of many files in a deep directory is small, but the list of their paths is not.
#[test]
fn paths_of_changes_are_limited() {
    let mut overlay = over(10, 64 * MIB);
    let base = overlay.host_base();
    let deep = vec!["d".repeat(250); 8].join("/");
    for (at, _) in deep.match_indices('/').chain([(deep.len(), "")]) {
        overlay.create_dir(base, &deep[..at], 2).unwrap();
    }
    for index in 0..1000 {
        overlay.symlink("x", base, &format!("{deep}/{index}"), 2).unwrap();
    }
    assert_eq!(overlay.diff().unwrap().len(), 1008);
    overlay.limits.change_path_bytes_max = MIB;
    let error = overlay.diff().unwrap_err();
    assert!(matches!(error, DiffError::TooMany { max: MIB }), "{error}");
    let refused = overlay.apply();
    assert!(matches!(refused, Err(ApplyError::Diff(DiffError::TooMany { .. }))), "{refused:?}");
}
