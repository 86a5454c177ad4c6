//! Builtins on processes.

use crate::base::errno::Errno;
use crate::kernel::process::Pid;
use crate::kernel::process::Signal;
use crate::process::shell::context::{Run, Shell};

impl Shell {
    pub(super) async fn wait(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        if args.is_empty() {
            let running: Vec<Pid> =
                self.jobs.iter().filter(|(_, s)| s.is_none()).map(|(pid, _)| *pid).collect();
            for pid in running {
                if let Some(None) = self.jobs.get(&pid) {
                    let status = self.wait_for(pid).await?;
                    self.jobs.insert(pid, Some(status));
                }
            }
            // Statuses other than that of `$!` are dropped: scripts that start thousands wait like this.
            let last = self.state.background;
            self.jobs.retain(|pid, _| Some(*pid) == last);
            return Ok(0);
        }
        let mut status = 0;
        for arg in args {
            let number = std::str::from_utf8(arg).ok().and_then(|arg| arg.parse().ok());
            let Some(pid) = number.map(Pid) else { return self.illegal_number(arg).await };
            status = match self.jobs.get(&pid) {
                Some(Some(status)) => *status,
                Some(None) => self.wait_for(pid).await?,
                None => 127,
            };
            if let Some(known) = self.jobs.get_mut(&pid) {
                *known = Some(status);
            }
        }
        Ok(status)
    }

    pub(super) async fn kill(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let mut signal = Some(Signal::TERM);
        let mut pids = args;
        if let Some((first, rest)) = args.split_first()
            && let Some(option) = first.strip_prefix(b"-")
            && !option.is_empty()
        {
            let (name, after) = match option {
                b"l" => return self.list_signals(rest).await,
                b"-" => (None, rest),
                b"s" | b"n" => (rest.first().cloned(), rest.get(1..).unwrap_or_default()),
                name => (Some(name.to_vec()), rest),
            };
            pids = after;
            if let Some(name) = name {
                let name = String::from_utf8_lossy(&name).into_owned();
                signal = signal_of(&name);
                // 0 is not a signal: it only checks that the process exists.
                if signal.is_none() && name != "0" {
                    return self.fail(&format!("kill: invalid signal: {name}")).await;
                }
            }
        }
        if pids.is_empty() {
            return self.fail("kill: usage: kill [-s sigspec | -signum] pid...").await;
        }
        if self.guest.machine().kernel_version() > 10 {
            // A job that has ended is no longer there, although nobody has waited for it.
            self.reap().await?;
        }
        let mut status = 0;
        for pid in pids {
            let number = std::str::from_utf8(pid).ok().and_then(|pid| pid.parse().ok());
            let Some(pid) = number.map(Pid) else { return self.illegal_number(pid).await };
            let Err(errno) = self.proc_kill(pid, signal).await? else { continue };
            // A child that has ended no longer exists.
            let why = if errno == Errno::Srch { "No such process" } else { errno.meaning() };
            self.say(&format!("kill: {why}")).await?;
            status = 1;
        }
        Ok(status)
    }

    async fn list_signals(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let number = |arg: &Vec<u8>| std::str::from_utf8(arg).ok()?.parse::<u32>().ok();
        let names: Vec<&str> = match args.first() {
            // The status of a process that a signal killed also names it.
            Some(arg) => match number(arg).and_then(|n| Signal::from_number(n & 0x7f)) {
                Some(signal) => vec![signal.name()],
                None => return self.illegal_number(arg).await,
            },
            None => (1..32).filter_map(Signal::from_number).map(Signal::name).collect(),
        };
        self.print(format!("{}\n", names.join("\n")).as_bytes()).await
    }
}

/// Returns the signal with this name or number.
fn signal_of(name: &str) -> Option<Signal> {
    match name.parse() {
        Ok(number) => Signal::from_number(number),
        Err(_) => Signal::from_name(name),
    }
}
