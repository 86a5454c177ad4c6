//! When something is written, so that nobody takes it for what was written before.
//!
//! Under a paused clock everything would be written at one time. But make and ninja tell by which file is
//! later whether something is to be made, and Python, git and rsync by the time and the length of a file
//! whether it is what they know, most of them in whole seconds. So each write is a little later than the one
//! before it; and where something is changed that a process may have looked at which has ended since, it
//! is in another second than before. Builds from scratch make new files only, and take no time.
//!
//! Files are never later than the clock: the kernel sets that forward, whenever somebody reads it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Overlay;
use super::node::{Body, MountId, Node, NodeId, TimesOf};
use super::times::{Mtimes, TimeScale};
use crate::kernel::vfs::layer::Stat;
use crate::kernel::vfs::layer::Times;

/// Between writes to two files.
const STEP_NS: u64 = 1_000;

const SECOND_NS: u64 = 1_000_000_000;

/// Names that are remembered after their files are gone.
const GONE_MAX: usize = 4096;

/// What is known of the writes to a namespace.
#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct WriteTimes {
    /// The time of the last write. `None` if the clock's is the time of every write.
    last_ns: Option<u64>,
    last_node: Option<NodeId>,
    /// When the run began, or the namespace was made.
    began_ns: u64,
    /// What was written until then, processes may have seen that have ended.
    seen_ns: u64,
    /// When a file was written to last.
    last_file_ns: u64,
    /// The names that files had which were written to in the current second and are not there any more:
    /// which files, by their inode numbers, and when they were written to.
    gone: HashMap<(NodeId, Box<str>), (u64, u64)>,
    /// When the disk's new state was taken in.
    pub(in crate::kernel::vfs) refreshes: Vec<Refresh>,
    /// Whether a file that was written to is still being written to while anybody has it open, as
    /// version 2 of the kernel had it.
    readers_write: bool,
    /// Whether what lies in a directory that is moved away is gone as well, and what is made has the time
    /// of its directory; since version 5 of the kernel.
    follows_dirs: bool,
}

/// The longest time that a clock is set forward by for what was changed on the disk. What took longer there
/// is shown as if it had gone faster.
const REFRESH_NS_MAX: u64 = 600 * SECOND_NS;

/// Sessions that take in what was changed within this time show different times for it: 365 days.
const REFRESHES_APART_NS: u64 = 365 * 24 * 60 * 60 * SECOND_NS;

/// What was changed on the disk between the beginning of a session, or a refresh, and the next refresh is
/// later than what the session wrote before that one, and in the order in which it was changed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(in crate::kernel::vfs) struct Refresh {
    pub mount: u16,
    /// By the disk's clock.
    pub since_ns: u64,
    pub until_ns: u64,
    /// What a file shows that was changed at the beginning of that.
    pub shown_ns: u64,
    /// How much later one is shown that was changed at the end of it; 0 in snapshots from before 1.3.
    #[serde(default)]
    pub span_ns: u64,
}

impl Refresh {
    /// What a file shows that was changed at `ns` by the disk's clock, if that is in between.
    fn shown(&self, ns: u64) -> Option<u64> {
        let at = ns.checked_sub(self.since_ns).filter(|_| ns <= self.until_ns)?;
        let whole = self.until_ns.saturating_sub(self.since_ns).max(1);
        let later = u128::from(at) * u128::from(self.span_ns) / u128::from(whole);
        Some(self.shown_ns.saturating_add(u64::try_from(later).unwrap_or(self.span_ns)))
    }
}

fn is_same_second(a: u64, b: u64) -> bool {
    a / SECOND_NS == b / SECOND_NS
}

fn next_second(ns: u64) -> u64 {
    (ns / SECOND_NS).saturating_add(1).saturating_mul(SECOND_NS)
}

impl WriteTimes {
    /// The time of a write to `node` when the clock shows `now`; in another second than `before` if
    /// that is when it was written to last, and somebody may know that.
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
    /// From now on tells writes apart by their times, the first of which is after `now`, nanoseconds since
    /// the Unix epoch.
    pub(crate) fn tell_writes_apart(&mut self, now: u64) {
        self.writes = WriteTimes {
            last_ns: Some(now),
            began_ns: now,
            seen_ns: now,
            refreshes: std::mem::take(&mut self.writes.refreshes),
            readers_write: self.writes.readers_write,
            follows_dirs: self.writes.follows_dirs,
            ..WriteTimes::default()
        };
    }

    /// Has what lies in a directory that is moved away count as gone, and what is made have the time of its
    /// directory.
    pub(crate) fn follow_dirs(&mut self) {
        self.writes.follows_dirs = true;
    }

    /// Has whoever reads a file count among those who write it.
    pub(crate) fn count_readers_as_writers(&mut self) {
        self.writes.readers_write = true;
    }

    /// Notes that a description of `id` is closed through which it was written.
    pub(super) fn note_end_of_writing(&mut self, id: NodeId) {
        if !self.writes.readers_write {
            self.node_mut(id).is_being_written = false;
        }
    }

    /// From now on takes the times of writes as they are given.
    pub(crate) fn take_times_as_given(&mut self) {
        self.writes = WriteTimes::default();
    }

    /// The time of the last write; `None` if that is no later than the clock.
    #[inline]
    pub(crate) fn last_write_ns(&self) -> Option<u64> {
        self.writes.last_ns
    }

    /// Notes that a process has ended, which may have seen all that was written.
    pub(crate) fn note_process_end(&mut self) {
        self.writes.seen_ns = self.writes.last_ns.unwrap_or_default();
    }

    /// The earliest time that another run would write at; `None` if that is when the clock says. It is in
    /// another second than the last write: people take longer than that between two commands.
    pub(crate) fn next_run_ns(&self) -> Option<u64> {
        let last = self.writes.last_ns?;
        Some(if last > self.writes.began_ns { next_second(last) } else { last })
    }

    /// Notes that another run begins.
    pub(crate) fn note_run(&mut self) {
        if let Some(began_ns) = self.next_run_ns() {
            self.tell_writes_apart(began_ns);
        }
    }

    /// Notes that mounts take in what was changed on the disk between these times of its clock: what was
    /// changed in one of them before something in another is shown so.
    pub(in crate::kernel::vfs) fn note_refresh(&mut self, windows: &[(MountId, u64, u64)]) {
        let since_ns = windows.iter().map(|(_, since_ns, _)| *since_ns).min();
        let until_ns = windows.iter().map(|(_, _, until_ns)| *until_ns).max();
        let (Some(since_ns), Some(until_ns)) = (since_ns, until_ns) else { return };
        self.note_run();
        let mut shown_ns = self.time_of_making(0);
        // In another second than what another session takes in that begins with the same clock.
        let shows_host =
            |(mount, _, _): &(MountId, u64, u64)| self.mounts[mount.index()].mtimes == Mtimes::Host;
        if let TimeScale::Paused(start_ns) = self.time_scale
            && windows.iter().any(shows_host)
        {
            shown_ns = shown_ns.max(start_ns.saturating_add(since_ns % REFRESHES_APART_NS));
        }
        let span_ns = until_ns.saturating_sub(since_ns).min(REFRESH_NS_MAX);
        // Whatever is written from now on is later.
        self.writes.last_ns = self.writes.last_ns.map(|last| last.max(shown_ns + span_ns));
        let refresh = |(mount, _, _): &(MountId, u64, u64)| Refresh {
            mount: mount.0,
            since_ns,
            until_ns,
            shown_ns,
            span_ns,
        };
        self.writes.refreshes.extend(windows.iter().map(refresh));
    }

    /// What an entry of `mount` shows that has the attributes `stat` below.
    pub(in crate::kernel::vfs) fn times_below(
        &self,
        mount: MountId,
        stat: &Stat,
    ) -> (Times, TimesOf) {
        let mtimes = self.mounts[mount.index()].mtimes;
        let mut refreshes = self.writes.refreshes.iter().filter(|refresh| refresh.mount == mount.0);
        match refreshes.find_map(|refresh| refresh.shown(stat.mtime_ns)) {
            Some(shown_ns) if mtimes == Mtimes::Host && self.writes.last_ns.is_some() => {
                (Times::all(shown_ns), TimesOf::Layer)
            }
            _ => mtimes.of(stat, self.time_scale),
        }
    }

    /// The time of a new node that is made when the clock shows `now`.
    pub(super) fn time_of_making(&mut self, now: u64) -> u64 {
        let time = self.writes.next(None, None, now);
        self.writes.last_file_ns = time;
        time
    }

    /// The time of a new node that is made in `dir` when the clock shows `now`. With that, `dir` was written
    /// to as well: it is not later than what it holds.
    pub(super) fn time_of_making_in(&mut self, dir: NodeId, now: u64) -> u64 {
        let time = self.time_of_making(now);
        if self.writes.follows_dirs && self.writes.last_ns.is_some() {
            self.writes.last_node = Some(dir);
        }
        time
    }

    /// The time of a write to `id` when the clock shows `now`.
    pub(super) fn time_of_touch(&mut self, id: NodeId, now: u64) -> u64 {
        let node = &self.nodes[id];
        let is_dir = matches!(node.body, Body::Dir(_));
        let is_known = !is_dir && !says_nothing(node);
        // Who goes on writing has looked at nothing in between.
        let before = (is_known && !node.is_being_written).then_some(node.times.mtim);
        let time = self.writes.next(Some(id), before, now);
        if !is_dir {
            self.writes.last_file_ns = time;
        }
        time
    }

    /// Notes that the content of `id` changed when the clock showed `now`.
    pub(super) fn touch(&mut self, id: NodeId, now: u64) {
        let time = self.time_of_touch(id, now);
        let node = self.node_mut(id);
        (node.times.mtim, node.times.ctim, node.times_of) = (time, time, TimesOf::Clock);
        node.is_being_written |= node.opens > 0;
    }

    /// Has the next write come in another second than the last one.
    fn write_in_another_second(&mut self) {
        self.writes.last_ns = self.writes.last_ns.map(next_second);
        self.writes.gone.clear();
    }

    /// Notes that `name` in `dir` does not stand for `id` any more.
    pub(super) fn note_gone(&mut self, dir: NodeId, name: &str, id: NodeId) {
        let Some(last) = self.writes.last_ns else { return };
        let node = self.node(id);
        let (ino, written) = (node.ino, node.times.mtim);
        if let Body::Dir(moved) = &node.body {
            if self.writes.follows_dirs && !moved.entries.is_empty() {
                // What lies in it, at whatever depth, is not looked for.
                self.write_in_another_second();
            }
            return;
        }
        let is_known = !says_nothing(node);
        if !is_known || !is_same_second(written, last) {
            return;
        }
        if self.writes.gone.len() == GONE_MAX {
            // Then nobody needs to know them.
            self.write_in_another_second();
            return;
        }
        self.writes.gone.insert((dir, name.into()), (ino, written));
    }

    /// Notes that `name` in `dir` stands for `id` from now on: if what it stood for before was another file,
    /// written to in the same second, and `id` was just written, that was in another second. What was
    /// written since then stays later than `id`.
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

/// Whether the time of a node is what all files below show of which nothing is known, or for which a clock
/// that starts with 1970 leaves no room.
fn says_nothing(node: &Node) -> bool {
    node.times_of == TimesOf::Layer && node.times.mtim < SECOND_NS
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn each_write_is_later_than_the_one_before_it() {
        let mut bench = Bench::new();
        let (a, b) = (bench.write("a"), bench.write("b"));
        assert!(START_NS < a && a < b, "{a} {b}");
        assert_eq!(b / SECOND_NS, 100, "new files take no time");
        assert!(bench.write("a") > b);
    }

    #[test]
    fn what_a_process_may_have_seen_is_changed_in_another_second() {
        let mut bench = Bench::new();
        bench.write("a");
        bench.write("a");
        assert_eq!(bench.second("a"), 100, "nobody has looked");
        bench.0.note_process_end();
        bench.write("new");
        assert_eq!(bench.second("new"), 100);
        bench.write("a");
        assert_eq!(bench.second("a"), 101);
    }

    #[test]
    fn a_file_that_takes_the_name_of_another_is_of_another_second() {
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
    fn a_file_in_a_directory_that_takes_the_name_of_another_is_of_another_second() {
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
            bench.0.follow_dirs();
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

    /// `make` takes what is older than its directory for out of date.
    #[test]
    fn a_directory_is_not_later_than_what_was_made_in_it() {
        let mut bench = Bench::new();
        bench.0.follow_dirs();
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

    #[test]
    fn who_goes_on_writing_is_not_held_up_by_others() {
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
    fn another_run_writes_in_another_second() {
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
    fn the_names_of_any_number_of_files_that_are_gone_take_no_more_memory() {
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
