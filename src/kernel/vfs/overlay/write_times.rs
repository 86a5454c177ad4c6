//! Times of writes, such that tools which compare times see every change.
//!
//! Under a paused clock all writes would have the same time. But make and ninja compare which file is newer, and
//! Python, git and rsync compare time and length, mostly in whole seconds. So a write to another file is a little
//! later than the write before it, and a change to a file that a process may have seen, which has ended since,
//! is in another second. Builds from scratch only create files, and stay within a second.
//!
//! No file is later than the clock: the kernel sets the clock forward when it is read.

use std::collections::HashMap;

use super::Overlay;
use super::known_times::{KnownTimes, Refresh};
use super::node::{Body, MountId, Node, NodeId, TimesOf};
use super::times::{FILES_END_NS, Mtimes, TimeScale};
use crate::kernel::vfs::layer::Stat;
use crate::kernel::vfs::layer::Times;

/// Distance between writes to different files.
const STEP_NS: u64 = 1_000;

const SECOND_NS: u64 = 1_000_000_000;

/// Removed names that are remembered.
const GONE_MAX: usize = 4096;

/// The state of the times of writes to a namespace.
#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct WriteTimes {
    /// The time of the last write; `None` if writes have the clock's time.
    last_ns: Option<u64>,
    last_node: Option<NodeId>,
    /// Start of the run, or creation of the namespace.
    began_ns: u64,
    /// Writes up to here may have been seen by processes that have ended.
    seen_ns: u64,
    /// The last write to a file.
    last_file_ns: u64,
    /// Names removed whose files were written to in the current second: inode number and time of the write.
    gone: HashMap<(NodeId, Box<str>), (u64, u64)>,
    pub(in crate::kernel::vfs) known: KnownTimes,
    /// The version of the kernel whose times these are.
    kernel_version: u32,
}

/// The most by which a refresh sets a clock forward. Changes that took longer are shown compressed.
const REFRESH_NS_MAX: u64 = 600 * SECOND_NS;

/// 365 days: refreshes that begin at different times of the disk within this range show different times.
const REFRESHES_APART_NS: u64 = 365 * 24 * 60 * 60 * SECOND_NS;

/// How far beyond its start a clock is set forward to a time that a program sets: two years, as a refresh and what comes
/// after it reach into the second one.
const SET_NS_MAX: u64 = 2 * REFRESHES_APART_NS;

fn is_same_second(a: u64, b: u64) -> bool {
    a / SECOND_NS == b / SECOND_NS
}

fn next_second(ns: u64) -> u64 {
    (ns / SECOND_NS).saturating_add(1).saturating_mul(SECOND_NS)
}

impl WriteTimes {
    /// A written file counts as being written while any description of it is open.
    fn readers_write(&self) -> bool {
        self.kernel_version == 2
    }

    /// Moving a directory removes the names in it, and a new entry has its directory's time.
    fn follows_dirs(&self) -> bool {
        self.kernel_version > 4
    }

    /// A write to an open file is later than one that other processes may have seen.
    fn moves_open_files(&self) -> bool {
        self.kernel_version > 5
    }

    /// A name that comes or goes in a directory is later than the one before it.
    pub(super) fn tells_changes_of_dirs_apart(&self) -> bool {
        self.kernel_version > 10 && self.last_ns.is_some()
    }

    /// Records that a file with the time `shown_ns` has `disk_ns` on the disk since an apply.
    pub(in crate::kernel::vfs) fn note_applied(
        &mut self,
        scale: TimeScale,
        shown_ns: u64,
        disk_ns: u64,
    ) {
        if self.last_ns.is_some() && scale.has_begun(shown_ns) {
            self.known.applied.note(shown_ns, disk_ns);
        }
    }

    /// The time of a write to `node` when the clock shows `now`; not in the second of `before`, its previous
    /// write, if a process may have seen that.
    fn next(&mut self, node: Option<NodeId>, before: Option<u64>, now: u64) -> u64 {
        let Some(last) = self.last_ns else { return now };
        let is_same = node.is_some() && node == self.last_node;
        let mut time = now.max(if is_same { last } else { last.saturating_add(STEP_NS) });
        if before.is_some_and(|before| before <= self.seen_ns && is_same_second(before, time)) {
            time = next_second(time);
        }
        if !is_same_second(last, time) {
            self.gone.clear();
        }
        (self.last_ns, self.last_node) = (Some(time), node);
        time
    }
}

impl Overlay {
    /// Gives writes distinguishable times from now on, the first one after `now`, nanoseconds since the Unix epoch.
    pub(crate) fn tell_writes_apart(&mut self, now: u64) {
        self.writes = WriteTimes {
            last_ns: Some(now),
            began_ns: now,
            seen_ns: now,
            known: std::mem::take(&mut self.writes.known),
            kernel_version: self.writes.kernel_version,
            ..WriteTimes::default()
        };
    }

    /// Gives writes the times that they have in version `kernel_version` of the kernel, and finds the changes of that.
    pub(crate) fn set_kernel_version(&mut self, kernel_version: u32) {
        self.writes.kernel_version = kernel_version;
        self.kernel_version = kernel_version;
    }

    /// A file that was opened for reading counts as being written, too.
    pub(super) fn readers_write(&self) -> bool {
        self.writes.readers_write()
    }

    /// Gives writes the clock's time from now on.
    pub(crate) fn take_times_as_given(&mut self) {
        self.writes = WriteTimes::default();
    }

    /// The time of the last write; `None` if writes have the clock's time.
    #[inline]
    pub(crate) fn last_write_ns(&self) -> Option<u64> {
        self.writes.last_ns
    }

    /// Records the end of a process, which may have seen all writes until now.
    pub(crate) fn note_process_end(&mut self) {
        self.writes.seen_ns = self.writes.last_ns.unwrap_or_default();
    }

    /// The earliest time of a write of another run; `None` if that is the clock's. Not in the second of the last
    /// write.
    pub(crate) fn next_run_ns(&self) -> Option<u64> {
        let last = self.writes.last_ns?;
        Some(if last > self.writes.began_ns { next_second(last) } else { last })
    }

    /// Records the start of another run.
    pub(crate) fn note_run(&mut self) {
        if let Some(began_ns) = self.next_run_ns() {
            self.tell_writes_apart(began_ns);
        }
    }

    /// Records that mounts take in changes made on the disk within `windows` of its clock. One range for all mounts
    /// keeps the order of changes between them.
    pub(in crate::kernel::vfs) fn note_refresh(&mut self, windows: &[(MountId, u64, u64)]) {
        let since_ns = windows.iter().map(|(_, since_ns, _)| *since_ns).min();
        let until_ns = windows.iter().map(|(_, _, until_ns)| *until_ns).max();
        let (Some(since_ns), Some(until_ns)) = (since_ns, until_ns) else { return };
        self.note_run();
        let mut shown_ns = self.time_of_making(0);
        // In another second than a refresh of another session with the same start of the clock.
        let shows_host =
            |(mount, _, _): &(MountId, u64, u64)| self.mounts[mount.index()].mtimes == Mtimes::Host;
        if let TimeScale::Paused(start_ns) = self.time_scale
            && windows.iter().any(shows_host)
        {
            shown_ns = shown_ns.max(start_ns.saturating_add(since_ns % REFRESHES_APART_NS));
        }
        let span_ns = until_ns.saturating_sub(since_ns).min(REFRESH_NS_MAX);
        // Later writes are later than this.
        self.writes.last_ns = self.writes.last_ns.map(|last| last.max(shown_ns + span_ns));
        let refresh = |(mount, _, _): &(MountId, u64, u64)| Refresh {
            mount: mount.0,
            since_ns,
            until_ns,
            shown_ns,
            span_ns,
        };
        self.writes.known.refreshes.extend(windows.iter().map(refresh));
    }

    /// The times of an entry of `mount` that has the attributes `stat` below.
    pub(in crate::kernel::vfs) fn times_below(
        &self,
        mount: MountId,
        stat: &Stat,
    ) -> (Times, TimesOf) {
        let mtimes = self.mounts[mount.index()].mtimes;
        let known = &self.writes.known;
        let refreshes = known.refreshes.iter().filter(|refresh| refresh.mount == mount.0);
        let of_refresh = || refreshes.into_iter().find_map(|it| it.shown(stat.mtime_ns));
        match known.applied.shown(stat.mtime_ns).or_else(of_refresh) {
            Some(shown_ns) if mtimes == Mtimes::Host && self.writes.last_ns.is_some() => {
                (Times::all(shown_ns), TimesOf::Layer)
            }
            _ => mtimes.of(stat, self.time_scale),
        }
    }

    /// The time of a new node when the clock shows `now`.
    pub(super) fn time_of_making(&mut self, now: u64) -> u64 {
        let time = self.writes.next(None, None, now);
        self.writes.last_file_ns = time;
        time
    }

    /// The time of a new node in `dir` when the clock shows `now`. `dir` counts as written to at the same time, so
    /// that it is not later than its entry.
    pub(super) fn time_of_making_in(&mut self, dir: NodeId, now: u64) -> u64 {
        let time = self.time_of_making(now);
        if self.writes.follows_dirs() && self.writes.last_ns.is_some() {
            self.writes.last_node = Some(dir);
        }
        time
    }

    /// The time of a write to `id` when the clock shows `now`.
    pub(super) fn time_of_touch(&mut self, id: NodeId, now: u64) -> u64 {
        let node = &self.nodes[id];
        let is_dir = matches!(node.body, Body::Dir(_));
        let is_known = !is_dir && !says_nothing(node);
        let was_seen = node.times.mtim <= self.writes.seen_ns;
        if node.is_being_written && was_seen && self.writes.moves_open_files() {
            self.writes.last_node = None;
        }
        // A process that is still writing has not looked in between. Other processes may have; a log that many
        // of them write to does not move the clock by a second for each.
        let before = (is_known && !node.is_being_written).then_some(node.times.mtim);
        let time = self.writes.next(Some(id), before, now);
        if !is_dir {
            self.writes.last_file_ns = time;
        } else if self.writes.tells_changes_of_dirs_apart() {
            // What comes or goes next is later than a node that was made at this time.
            self.writes.last_node = None;
        }
        time
    }

    /// The time at which the time of `id` is set to `time`, when the clock shows `now`. A time that a machine's clock has
    /// shown elsewhere, such as one of an archive that an earlier run made, sets the clock forward.
    pub(super) fn time_of_setting(&mut self, id: NodeId, time: u64, now: u64) -> u64 {
        let TimeScale::Paused(start_ns) = self.time_scale else { return now };
        let is_later = self.writes.last_ns.is_some_and(|last| last < time);
        // A time after an earlier start can be a true date.
        let is_shown_elsewhere =
            start_ns >= FILES_END_NS && time <= start_ns.saturating_add(SET_NS_MAX);
        if self.kernel_version < 11 || !is_later || !is_shown_elsewhere {
            return now;
        }
        let time = self.writes.next(Some(id), None, time);
        // As natively, a later write is not in the second that was set.
        self.write_in_another_second();
        time
    }

    /// Records a change of the content of `id` when the clock shows `now`.
    pub(super) fn touch(&mut self, id: NodeId, now: u64) {
        let time = self.time_of_touch(id, now);
        let node = self.node_mut(id);
        (node.times.mtim, node.times.ctim, node.times_of) = (time, time, TimesOf::Clock);
        node.is_being_written |= node.opens > 0;
    }

    /// Puts the next write in another second than the last one.
    fn write_in_another_second(&mut self) {
        self.writes.last_ns = self.writes.last_ns.map(next_second);
        self.writes.gone.clear();
    }

    /// Records that `name` in `dir` is no longer `id`.
    pub(super) fn note_gone(&mut self, dir: NodeId, name: &str, id: NodeId) {
        let Some(last) = self.writes.last_ns else { return };
        let node = self.node(id);
        let (ino, written) = (node.ino, node.times.mtim);
        if let Body::Dir(moved) = &node.body {
            if self.writes.follows_dirs() && !moved.entries.is_empty() {
                // Names beneath it are not tracked.
                self.write_in_another_second();
            }
            return;
        }
        let is_known = !says_nothing(node);
        if !is_known || !is_same_second(written, last) {
            return;
        }
        if self.writes.gone.len() == GONE_MAX {
            // With the next write in another second, none of them matters.
            self.write_in_another_second();
            return;
        }
        self.writes.gone.insert((dir, name.into()), (ino, written));
    }

    /// Records that `name` in `dir` is now `id`. If a process may have seen another file of that name, written to
    /// in the same second, `id`, if just written, moves to another second. Later writes stay later than `id`.
    pub(super) fn note_come(&mut self, dir: NodeId, name: &str, id: NodeId, now: u64) {
        if self.writes.gone.is_empty() {
            return;
        }
        let before = self.writes.gone.remove(&(dir, Box::from(name)));
        let node = self.node(id);
        if let Some((other, before)) = before
            && other != node.ino
            && node.times_of == TimesOf::Clock
            && node.times.mtim == self.writes.last_file_ns
            && before <= self.writes.seen_ns
            && is_same_second(before, node.times.mtim)
        {
            let time = self.writes.next(Some(id), Some(before), now);
            let node = self.node_mut(id);
            (node.times.mtim, node.times.ctim) = (time, time);
            self.writes.last_file_ns = time;
        }
    }
}

/// Whether the time of a node means nothing: files below whose time is unknown show it, and all files below
/// under a clock that starts in 1970.
fn says_nothing(node: &Node) -> bool {
    node.times_of == TimesOf::Layer && node.times.mtim < SECOND_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a file written in the tick of the disk's clock in which a session began was newer, after a refresh
    /// that found nothing, than what the session had made from it.
    #[test]
    fn file_written_in_the_tick_in_which_the_session_began_keeps_its_time() {
        let refresh =
            Refresh { mount: 0, since_ns: 100, until_ns: 200, shown_ns: 9_000, span_ns: 100 };
        let shown = [99, 100, 101, 200, 201].map(|ns| refresh.shown(ns));
        assert_eq!(shown, [None, None, Some(9_001), Some(9_100), None]);
    }
    use crate::kernel::vfs::{Base, Follow, OpenFlags, VfsLimits};

    const START_NS: u64 = 100 * SECOND_NS;

    struct Bench(Overlay);

    impl Bench {
        fn new() -> Self {
            let mut overlay = Overlay::new(VfsLimits::default(), START_NS);
            overlay.tell_writes_apart(START_NS);
            Self(overlay)
        }

        fn base(&self) -> Base {
            self.0.host_base()
        }

        fn write(&mut self, path: &str) -> u64 {
            self.0.write(&format!("/{path}"), b"text", START_NS).unwrap();
            self.time(path)
        }

        fn time(&mut self, path: &str) -> u64 {
            self.0.stat(self.base(), path, Follow::No).unwrap().times.mtim
        }

        fn second(&mut self, path: &str) -> u64 {
            self.time(path) / SECOND_NS
        }
    }

    #[test]
    fn each_write_is_later_than_the_previous_one() {
        let mut bench = Bench::new();
        let (a, b) = (bench.write("a"), bench.write("b"));
        assert!(START_NS < a && a < b, "{a} {b}");
        assert_eq!(b / SECOND_NS, 100, "new files take no time");
        assert!(bench.write("a") > b);
    }

    #[test]
    fn change_after_a_process_ended_is_in_another_second() {
        let mut bench = Bench::new();
        bench.write("a");
        bench.write("a");
        assert_eq!(bench.second("a"), 100, "no process has looked");
        bench.0.note_process_end();
        bench.write("new");
        assert_eq!(bench.second("new"), 100);
        bench.write("a");
        assert_eq!(bench.second("a"), 101);
    }

    #[test]
    fn file_replaced_by_rename_is_in_another_second() {
        let mut bench = Bench::new();
        let base = bench.base();
        for name in ["renamed", "removed"] {
            bench.write(name);
        }
        bench.0.note_process_end();
        bench.write("temporary");
        bench.0.rename((base, "temporary"), (base, "renamed"), START_NS).unwrap();
        assert_eq!(bench.second("renamed"), 101);
        let mut bench = Bench::new();
        bench.write("removed");
        bench.0.note_process_end();
        bench.0.unlink(base, "removed", START_NS).unwrap();
        bench.write("other");
        assert_eq!(bench.second("other"), 100);
        bench.write("removed");
        assert_eq!(bench.second("removed"), 101);
    }

    #[test]
    fn file_in_replaced_directory_is_in_another_second() {
        type Gone = fn(&mut Bench, Base);
        let moved: Gone =
            |bench, base| bench.0.rename((base, "pkg"), (base, "old"), START_NS).unwrap();
        let removed: Gone = |bench, base| {
            bench.0.unlink(base, "pkg/part", START_NS).unwrap();
            bench.0.remove_dir(base, "pkg", START_NS).unwrap();
        };
        let above: Gone =
            |bench, base| bench.0.rename((base, "top"), (base, "old"), START_NS).unwrap();
        for (dir, gone, second) in
            [("pkg", moved, 101), ("pkg", removed, 101), ("top/pkg", above, 101)]
        {
            let mut bench = Bench::new();
            bench.0.set_kernel_version(5);
            let base = bench.base();
            let make = |bench: &mut Bench| {
                for (at, _) in dir.match_indices('/').chain([(dir.len(), "")]) {
                    bench.0.create_dir(base, &dir[..at], START_NS).unwrap();
                }
                bench.write(&format!("{dir}/part"));
            };
            make(&mut bench);
            bench.0.note_process_end();
            gone(&mut bench, base);
            make(&mut bench);
            assert_eq!(bench.second(&format!("{dir}/part")), second, "{dir}");
        }
    }

    /// `make` considers a file that is older than its directory out of date.
    #[test]
    fn directory_is_not_later_than_its_new_entry() {
        let mut bench = Bench::new();
        bench.0.set_kernel_version(5);
        let base = bench.base();
        bench.0.create_dir(base, "dir", START_NS).unwrap();
        bench.0.create_dir(base, "dir/dir", START_NS).unwrap();
        assert_eq!(bench.time("dir"), bench.time("dir/dir"));
        bench.0.symlink("to", base, "dir/link", START_NS).unwrap();
        assert_eq!(bench.time("dir"), bench.time("dir/link"));
        let flags = OpenFlags { create: true, write: true, ..OpenFlags::default() };
        let open = bench.0.open(base, "dir/file", flags, START_NS).unwrap();
        assert_eq!(bench.time("dir"), bench.time("dir/file"));
        bench.0.write_at(open, 0, b"text", START_NS).unwrap();
        assert!(bench.time("dir") < bench.time("dir/file"));
        assert!(bench.time("dir/link") < bench.time("dir/file"), "one after the other");
    }

    /// Regression: where a directory or an empty file had been made, the removal of another name had the same time, so that
    /// `make` took what was made from the former names for new.
    #[test]
    fn removed_name_makes_a_directory_later_than_what_was_made_in_it() {
        let mut bench = Bench::new();
        bench.0.set_kernel_version(11);
        let base = bench.base();
        bench.0.create_dir(base, "dir", START_NS).unwrap();
        bench.write("dir/a");
        bench.write("dir/b");
        bench.0.create_dir(base, "dir/made", START_NS).unwrap();
        assert_eq!(bench.time("dir"), bench.time("dir/made"));
        for name in ["dir/a", "dir/b"] {
            let before = bench.time("dir");
            bench.0.unlink(base, name, START_NS).unwrap();
            assert!(bench.time("dir") > before, "{name}");
        }
        assert!(bench.time("dir") > bench.time("dir/made"));
    }

    /// Regression: the file was in a later second than the directory that it had left.
    #[test]
    fn moved_file_is_not_later_than_the_directory_that_it_left() {
        let mut bench = Bench::new();
        bench.0.set_kernel_version(11);
        let base = bench.base();
        for dir in ["from", "to"] {
            bench.0.create_dir(base, dir, START_NS).unwrap();
        }
        bench.write("to/file");
        bench.0.note_process_end();
        bench.write("from/file");
        bench.0.rename((base, "from/file"), (base, "to/file"), START_NS).unwrap();
        assert_eq!(bench.second("to/file"), 101);
        assert!(bench.time("from") > bench.time("to/file"));
        assert_eq!(bench.time("from"), bench.time("to"));
    }

    #[test]
    fn continued_writing_stays_in_the_second() {
        let mut bench = Bench::new();
        let flags = OpenFlags { create: true, write: true, ..OpenFlags::default() };
        let base = bench.base();
        let open = bench.0.open(base, "a", flags, START_NS).unwrap();
        bench.0.note_process_end();
        bench.0.write_at(open, 0, b"text", START_NS).unwrap();
        assert_eq!(bench.second("a"), 100);
        bench.0.close(open);
        bench.0.note_process_end();
        bench.write("a");
        assert_eq!(bench.second("a"), 101);
    }

    #[test]
    fn next_run_writes_in_another_second() {
        let mut bench = Bench::new();
        bench.0.note_run();
        assert_eq!(bench.0.last_write_ns(), Some(START_NS), "nothing was written");
        bench.write("a");
        assert_eq!(bench.0.next_run_ns(), Some(START_NS + SECOND_NS));
        bench.0.note_run();
        bench.write("b");
        assert_eq!(bench.second("b"), 101);
    }

    #[test]
    fn remembered_removed_names_are_limited() {
        let mut bench = Bench::new();
        let base = bench.base();
        bench.write("kept");
        bench.0.note_process_end();
        for number in 0..2 * GONE_MAX {
            let name = format!("f{number}");
            bench.write(&name);
            bench.0.unlink(base, &name, START_NS).unwrap();
        }
        assert!(bench.0.writes.gone.len() <= GONE_MAX);
    }
}
