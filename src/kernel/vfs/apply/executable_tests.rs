//! The execute permission that programs set, in diffs and on the disk.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests use the disk and run git")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::errno::Errno;
use crate::kernel::vfs::test_trees::{git_apply, on_disk, shown, write_to};
use crate::kernel::vfs::*;
use crate::store::Cas;

const MTIME_S: i64 = 1_000_000_000;

/// A directory of the host with files of these modes, mounted at `/w`.
struct Bench {
    folder: tempfile::TempDir,
    disk: PathBuf,
    overlay: Overlay,
    mount: MountId,
}

impl Bench {
    fn new(files: &[(&str, u32)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        fs::create_dir(&disk).unwrap();
        for (name, mode) in files {
            let path = disk.join(name);
            fs::write(&path, format!("old {name}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(MTIME_S as u64);
            fs::File::open(&path).unwrap().set_modified(time).unwrap();
        }
        let (overlay, mount) = Self::mounted(&disk);
        Self { folder, disk, overlay, mount }
    }

    fn mounted(disk: &std::path::Path) -> (Overlay, MountId) {
        let mut overlay = Overlay::new(VfsLimits::default(), 1);
        let host = Source::Host(Arc::new(HostDir::open(disk).unwrap()));
        let mount = overlay.mount("/w", host, false, Mtimes::Fixed(1), 1).unwrap();
        (overlay, mount)
    }

    fn set(&mut self, name: &str, executable: bool) {
        let base = self.overlay.host_base();
        let path = format!("w/{name}");
        self.overlay.set_executable_at(base, &path, Follow::No, executable, 2).unwrap();
        assert_eq!(self.has(name), executable);
    }

    fn has(&mut self, name: &str) -> bool {
        let base = self.overlay.host_base();
        self.overlay.is_executable_at(base, &format!("w/{name}"), Follow::No).unwrap()
    }

    fn write(&mut self, name: &str, text: &str) {
        self.overlay.write(&format!("/w/{name}"), text.as_bytes(), 2).unwrap();
    }

    fn unlink(&mut self, name: &str) {
        self.overlay.unlink(self.overlay.host_base(), &format!("w/{name}"), 2).unwrap();
    }

    fn link(&mut self, from: &str, to: &str) {
        let base = self.overlay.host_base();
        let (from, to) = (format!("w/{from}"), format!("w/{to}"));
        self.overlay.link((base, &from), Follow::No, (base, &to), 2).unwrap();
    }

    fn rename(&mut self, from: &str, to: &str) {
        let base = self.overlay.host_base();
        let (from, to) = (format!("w/{from}"), format!("w/{to}"));
        self.overlay.rename((base, &from), (base, &to), 2).unwrap();
    }

    fn patch(&mut self) -> String {
        render_unified_diff(&self.overlay.diff().unwrap(), &VPath::root()).unwrap()
    }

    fn metadata(&self, name: &str) -> fs::Metadata {
        fs::metadata(self.disk.join(name)).unwrap()
    }

    fn mode(&self, name: &str) -> u32 {
        self.metadata(name).mode() & 0o7777
    }

    /// Applies; the disk must then have what the overlay showed, and what git makes of the patch.
    fn apply(&mut self) -> Applied {
        let (before, patch) = (on_disk(&self.disk), self.patch());
        let after = shown(&self.overlay, self.mount, &before);
        let git = self.folder.path().join("git");
        let _ = fs::remove_dir_all(&git);
        fs::create_dir(&git).unwrap();
        write_to(&git, &before);
        if !patch.is_empty() {
            git_apply(&git, &patch, &["--check"]);
            git_apply(&git, &patch, &[]);
        }
        assert_eq!(on_disk(&git), after, "{patch}");
        let applied = self.overlay.apply().unwrap();
        assert_eq!(on_disk(&self.disk), after);
        assert_eq!(shown(&self.overlay, self.mount, &after), after);
        assert_eq!(self.patch(), "");
        assert_eq!(self.overlay.apply().unwrap(), Applied::default());
        applied
    }
}

#[test]
fn set_permission_alone_is_a_change_of_the_mode_without_the_content() {
    let mut bench = Bench::new(&[("a", 0o644)]);
    bench.set("a", true);
    assert_eq!(bench.overlay.upper_bytes(), 0, "nothing is copied");
    assert_eq!(bench.patch(), "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n");
    assert_eq!(bench.apply().written, 1);
    assert_eq!((bench.mode("a"), bench.metadata("a").mtime()), (0o755, MTIME_S));
    assert!(bench.has("a"));
    bench.set("a", false);
    assert_eq!(bench.patch(), "diff --git a/a b/a\nold mode 100755\nnew mode 100644\n");
    bench.apply();
    assert_eq!((bench.mode("a"), bench.metadata("a").mtime()), (0o644, MTIME_S));
}

#[test]
fn permission_that_a_file_has_anyway_is_no_change() {
    let mut bench = Bench::new(&[("plain", 0o644), ("tool", 0o755)]);
    bench.set("plain", false);
    bench.set("tool", true);
    assert_eq!(bench.patch(), "");
    bench.set("plain", true);
    bench.set("plain", false);
    bench.set("tool", false);
    bench.set("tool", true);
    assert_eq!(bench.patch(), "");
    assert_eq!(bench.overlay.apply().unwrap(), Applied::default());
}

/// Those who may read a file may execute it, so that the umask of its maker also holds for that.
#[test]
fn other_permissions_of_a_file_decide_who_may_execute_it() {
    let modes =
        [("a", 0o600, 0o700), ("b", 0o640, 0o750), ("c", 0o644, 0o755), ("d", 0o200, 0o300)];
    let mut bench = Bench::new(&modes.map(|(name, before, _)| (name, before)));
    for (name, ..) in modes {
        bench.set(name, true);
    }
    bench.overlay.apply().unwrap();
    assert_eq!(modes.map(|(name, ..)| bench.mode(name)), modes.map(|(_, _, after)| after));
    for (name, ..) in modes {
        bench.set(name, false);
    }
    bench.overlay.apply().unwrap();
    assert_eq!(modes.map(|(name, ..)| bench.mode(name)), modes.map(|(_, before, _)| before));
}

#[test]
fn new_file_gets_its_permission() {
    let mut bench = Bench::new(&[]);
    bench.write("made", "text\n");
    bench.write("plain", "text\n");
    assert!(!bench.has("made"));
    bench.set("made", true);
    let patch = bench.patch();
    assert!(patch.contains("diff --git a/made b/made\nnew file mode 100755\n"), "{patch}");
    assert!(patch.contains("diff --git a/plain b/plain\nnew file mode 100644\n"), "{patch}");
    bench.apply();
    assert_eq!(
        bench.mode("made") & 0o111,
        (bench.mode("plain") & 0o444) >> 2,
        "as the umask has it"
    );
}

#[test]
fn permission_is_kept_when_the_file_is_written_truncated_and_renamed() {
    let mut bench = Bench::new(&[("a", 0o644), ("b", 0o755)]);
    bench.set("a", true);
    bench.set("b", false);
    for (name, to) in [("a", "c"), ("b", "d")] {
        let executable = bench.has(name);
        bench.write(name, "new\n");
        assert_eq!(bench.has(name), executable, "{name} was truncated and written");
        let patch = bench.patch();
        let modes = if executable { ("644", "755") } else { ("755", "644") };
        let expected = format!("old mode 100{}\nnew mode 100{}\nindex ", modes.0, modes.1);
        assert!(patch.contains(&expected), "{patch}");
        bench.rename(name, to);
        assert_eq!(bench.has(to), executable, "{name} was renamed");
    }
    bench.apply();
    assert_eq!((bench.mode("c"), bench.mode("d")), (0o755, 0o644));
}

#[test]
fn all_names_of_a_file_have_one_permission() {
    let mut bench = Bench::new(&[("a", 0o644)]);
    bench.link("a", "b");
    bench.set("b", true);
    assert!(bench.has("a"));
    bench.apply();
    assert_eq!(bench.metadata("a").ino(), bench.metadata("b").ino());
    assert_eq!(bench.mode("a"), 0o755);
    bench.set("a", false);
    assert!(!bench.has("b"), "also after an apply");
    bench.apply();
    assert_eq!(bench.metadata("a").ino(), bench.metadata("b").ino());
    bench.unlink("a");
    assert!(!bench.has("b"));
}

/// Further names of a file that the overlay does not know keep the file as it is.
#[test]
fn file_with_names_outside_is_replaced() {
    let mut bench = Bench::new(&[("a", 0o644)]);
    let outside = bench.folder.path().join("outside");
    fs::hard_link(bench.disk.join("a"), &outside).unwrap();
    bench.set("a", true);
    bench.apply();
    assert_eq!((bench.mode("a"), fs::metadata(outside).unwrap().mode() & 0o777), (0o755, 0o644));
}

#[test]
fn new_file_has_the_permission_of_the_one_that_it_replaces_until_one_is_set() {
    let mut bench = Bench::new(&[("tool", 0o750), ("other", 0o700)]);
    for name in ["tool", "other"] {
        bench.unlink(name);
        bench.write(name, "new\n");
        assert!(bench.has(name), "{name}");
    }
    bench.set("other", false);
    bench.write("temporary", "newer\n");
    assert!(!bench.has("temporary"));
    bench.rename("temporary", "tool");
    assert!(bench.has("tool"));
    bench.apply();
    assert_eq!((bench.mode("tool"), bench.mode("other")), (0o750, 0o600));
}

#[test]
fn directories_links_and_special_files_answer_as_documented() {
    let mut bench = Bench::new(&[("a", 0o644)]);
    let pipe = bench.disk.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let base = bench.overlay.host_base();
    bench.overlay.create_dir(base, "w/d", 1).unwrap();
    bench.overlay.symlink("a", base, "w/l", 1).unwrap();
    bench.overlay.symlink("gone", base, "w/dangling", 1).unwrap();
    let overlay = &mut bench.overlay;
    let mut get = |path, follow| overlay.is_executable_at(base, path, follow);
    assert_eq!(get("w/d", Follow::Yes), Ok(true));
    assert_eq!(get("w/l", Follow::No), Ok(true));
    assert_eq!(get("w/l", Follow::Yes), Ok(false));
    assert_eq!(get("w/pipe", Follow::Yes), Ok(false));
    assert_eq!(get("w/dangling", Follow::Yes), Err(Errno::Noent));
    assert_eq!(get("w/a/", Follow::Yes), Err(Errno::Notdir));
    let mut set = |path, follow| overlay.set_executable_at(base, path, follow, true, 2);
    assert_eq!(set("w/d", Follow::Yes), Ok(()));
    assert_eq!(set("w/l", Follow::No), Err(Errno::Notsup));
    assert_eq!(set("w/pipe", Follow::Yes), Err(Errno::Notsup));
    assert_eq!(set("w/l", Follow::Yes), Ok(()));
    assert!(bench.has("a"));
    bench.overlay.set_executable_at(base, "w/d", Follow::No, false, 2).unwrap();
    assert!(bench.has("d"), "directories stay so");
}

#[test]
fn only_the_change_time_changes() {
    let mut bench = Bench::new(&[("a", 0o644)]);
    let before = bench.overlay.metadata("/w/a").unwrap().times;
    bench.set("a", true);
    let after = bench.overlay.metadata("/w/a").unwrap().times;
    assert_eq!(after, Times { ctim: 2, ..before });
}

#[test]
fn forks_and_saved_overlays_have_the_permission() {
    let mut bench = Bench::new(&[("a", 0o644), ("tool", 0o755)]);
    bench.write("new", "text");
    bench.set("a", true);
    bench.set("new", true);
    bench.set("tool", false);
    let patch = bench.patch();
    let mut fork = bench.overlay.clone();
    let base = fork.host_base();
    fork.set_executable_at(base, "w/a", Follow::No, false, 3).unwrap();
    assert!(bench.has("a"), "each has its own");
    let cas = Cas::new(bench.folder.path().join("store"));
    let text = serde_json::to_string(&bench.overlay.save(&cas).unwrap()).unwrap();
    let mut restored = Bench::mounted(&bench.disk).0;
    restored.restore(&serde_json::from_str(&text).unwrap(), &cas).unwrap();
    bench.overlay = restored;
    assert_eq!(bench.patch(), patch);
    bench.apply();
    // What was saved before the field existed has no such permission; nor can directories get one.
    let old = text.replace(",\"executable\":true,\"origin\"", ",\"origin\"");
    assert_ne!(old, text);
    let mut restored = Bench::mounted(&bench.disk).0;
    restored.restore(&serde_json::from_str(&old).unwrap(), &cas).unwrap();
}

#[test]
fn file_that_changed_meanwhile_is_a_conflict() {
    let mut bench = Bench::new(&[("a", 0o644)]);
    bench.set("a", true);
    fs::write(bench.disk.join("a"), "theirs\n").unwrap();
    let before = on_disk(&bench.disk);
    match bench.overlay.apply() {
        Err(ApplyError::Conflicts(conflicts)) => assert_eq!(conflicts[0].path.as_str(), "a"),
        other => panic!("{other:?}"),
    }
    assert_eq!(on_disk(&bench.disk), before);
}

#[test]
fn read_only_mount_refuses_the_permission() {
    let bench = Bench::new(&[("a", 0o644)]);
    let mut overlay = Overlay::new(VfsLimits::default(), 1);
    let host = Source::Host(Arc::new(HostDir::open(&bench.disk).unwrap()));
    overlay.mount("/w", host, true, Mtimes::Fixed(1), 1).unwrap();
    let base = overlay.host_base();
    for path in ["w/a", "w"] {
        let set = overlay.set_executable_at(base, path, Follow::Yes, true, 2);
        assert_eq!(set, Err(Errno::Rofs), "{path}");
    }
    assert_eq!(overlay.is_executable_at(base, "w/a", Follow::Yes), Ok(false));
}
