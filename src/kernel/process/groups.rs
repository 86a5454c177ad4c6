//! Process groups: those of one command, which end together.

use super::{Entry, Processes, Signal};
use crate::kernel::pid::Pid;

impl Processes {
    /// The leader of the group of `pid`.
    pub(in crate::kernel) fn group(&self, pid: Pid) -> Pid {
        self.entries.get(&pid).map_or(pid, |entry| entry.group)
    }

    /// Makes `pid` the leader of a new group, which has the deadline of its parent's.
    pub(in crate::kernel) fn lead_group(&mut self, pid: Pid) {
        let parent = self.entries.get(&pid).map_or(pid, |entry| entry.parent);
        let deadline = self.deadline(parent);
        let entry = self.entry(pid);
        (entry.group, entry.deadline) = (pid, deadline);
    }

    /// Sets the time on the monotonic clock at which the group that `leader` leads ends.
    pub fn end_group_at(&mut self, leader: Pid, deadline: u64) {
        let deadlines = &mut self.entry(leader).deadline;
        *deadlines = deadlines.iter().copied().chain([deadline]).min();
    }

    /// When the group of `pid` ends, if that is known and its leader still exists.
    pub fn deadline(&self, pid: Pid) -> Option<u64> {
        self.entries.get(&self.group(pid))?.deadline
    }

    /// Kills all processes of `group`.
    pub(in crate::kernel) fn kill_group(&mut self, group: Pid) {
        let is_member = |(_, entry): &(&Pid, &Entry)| entry.group == group;
        let members: Vec<Pid> =
            self.entries.iter().filter(is_member).map(|(pid, _)| *pid).collect();
        for pid in members {
            // The process exists, and can be killed.
            let _ = self.kill(pid, Some(Signal::KILL));
        }
    }
}
