//! Converts parsed options of a run back to words of a command line.
//!
//! Every field of every group is named here, so that the compiler reports one that is forgotten.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::groups::{
    AnswerArgs, CompileArgs, CompileLimitArgs, LimitArgs, MountArgs, RuleArgs, TimeArgs,
};
use super::run::RunArgs;
use super::values::Worktree;

/// The words of a command line.
#[derive(Default)]
struct Words(Vec<OsString>);

impl Words {
    fn add(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.0.extend([name.into(), value.as_ref().to_owned()]);
    }

    fn add_all<T: AsRef<OsStr>>(&mut self, name: &str, values: impl IntoIterator<Item = T>) {
        values.into_iter().for_each(|value| self.add(name, value));
    }

    fn flag(&mut self, name: &str, is_set: bool) {
        self.0.extend(is_set.then(|| name.into()));
    }

    fn folder(&mut self, name: &str, host: &Path, guest: Option<&str>, read_only: bool) {
        let mut value = host.as_os_str().to_owned();
        for part in guest.into_iter().chain(read_only.then_some("ro")) {
            value.push("::");
            value.push(part);
        }
        self.add(name, value);
    }

    fn duration(&mut self, name: &str, value: Duration) {
        self.add(name, format!("{}ns", value.as_nanos()));
    }

    fn number(&mut self, name: &str, value: impl Into<u64>) {
        self.add(name, value.into().to_string());
    }

    fn size(&mut self, name: &str, bytes: u64) {
        let is_unlimited = bytes == u64::MAX;
        self.add(name, if is_unlimited { "unlimited".to_owned() } else { format!("{bytes}B") });
    }
}

impl RunArgs {
    /// The options with which `belljar run` and `record` repeat the run, with `stdin` as the value of
    /// `--stdin`; without those of changes and reports.
    ///
    /// # Errors
    /// The start time cannot be written as a date.
    pub fn to_options(&self, stdin: &OsStr) -> Result<Vec<OsString>> {
        let Self {
            command: _,
            toolchain,
            locked,
            argv0,
            invoke,
            env,
            stdin: _,
            unknown_imports,
            on_missing,
            native_time,
            profile,
            no_cache,
            #[cfg(feature = "remote")]
                remote_exec: _,
            #[cfg(feature = "remote")]
                remote_exec_fallback: _,
            mounts,
            cwd,
            time,
            limits,
            compile:
                CompileArgs {
                    tier,
                    background: _,
                    no_background: _,
                    limits: CompileLimitArgs { compile_timeout, max_compile_memory },
                },
            results: _,
            rules: RuleArgs { host_policy, allow_net, deny_net },
            answers: AnswerArgs { host_answers, host_task, credential },
            apply: _,
            check: _,
            diff: _,
            json: _,
            trace: _,
            quiet: _,
        } = self;
        let mut words = Words::default();
        words.add_all("--toolchain", toolchain);
        words.flag("--locked", *locked);
        words.add_all("--argv0", argv0);
        words.add_all("--invoke", invoke);
        words.add_all("--env", env);
        words.add("--stdin", stdin);
        words.add("--unknown-imports", value_name(unknown_imports));
        words.add("--on-missing", value_name(on_missing));
        words.add("--native-time", value_name(native_time));
        words.add("--profile", profile.name());
        words.flag("--no-cache", *no_cache);
        mounts.spell(&mut words);
        words.add_all("--cwd", cwd);
        time.spell(&mut words)?;
        limits.spell(&mut words);
        words.add("--tier", value_name(tier));
        words.duration("--compile-timeout", *compile_timeout);
        words.size("--max-compile-memory", *max_compile_memory);
        words.add_all("--host-policy", host_policy);
        words.add_all("--allow-net", allow_net.iter().map(ToString::to_string));
        words.add_all("--deny-net", deny_net.iter().map(ToString::to_string));
        words.add_all("--host-answers", host_answers);
        words.add_all("--host-task", host_task);
        words.add_all("--credential", credential);
        Ok(words.0)
    }
}

impl MountArgs {
    fn spell(&self, words: &mut Words) {
        let Self { worktree, no_worktree, dir } = self;
        if let Some(Worktree { host, read_only }) = worktree {
            words.folder("--worktree", host, None, *read_only);
        }
        words.flag("--no-worktree", *no_worktree);
        for mount in dir {
            words.folder("--dir", &mount.host, Some(&mount.guest), mount.read_only);
        }
    }
}

impl TimeArgs {
    fn spell(&self, words: &mut Words) -> Result<()> {
        let Self { clock, start_at, mtimes, seed } = self;
        words.add("--clock", value_name(clock));
        if let Some(start_ns) = *start_at {
            let start = jiff::Timestamp::from_nanosecond(start_ns.into()).context("--start-at")?;
            words.add("--start-at", start.to_string());
        }
        words.add("--mtimes", value_name(mtimes));
        words.number("--seed", *seed);
        Ok(())
    }
}

impl LimitArgs {
    fn spell(&self, words: &mut Words) {
        let Self {
            timeout,
            virtual_timeout,
            fuel,
            max_memory,
            max_files,
            max_processes,
            max_upper,
            max_output,
            max_host_call,
        } = self;
        for (name, timeout) in [("--timeout", timeout), ("--virtual-timeout", virtual_timeout)] {
            if let Some(timeout) = timeout {
                words.duration(name, *timeout);
            }
        }
        if let Some(fuel) = fuel {
            words.number("--fuel", *fuel);
        }
        words.number("--max-files", *max_files);
        words.number("--max-processes", *max_processes);
        words.size("--max-memory", *max_memory);
        words.size("--max-upper", *max_upper);
        words.size("--max-output", *max_output);
        words.size("--max-host-call", *max_host_call);
    }
}

/// The name of the value on a command line.
pub fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|known| known.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn parsed(words: &[OsString]) -> RunArgs {
        let command = RunArgs::augment_args(clap::Command::new("belljar"));
        RunArgs::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }

    #[test]
    fn options_that_are_spelled_out_again_mean_the_same() {
        for line in [
            "run wc",
            "run --toolchain a --toolchain b --argv0 x --invoke f(1) -e A=b -e C --worktree w::ro --dir a::/b::ro --dir c::c \
             --cwd /worktree/d --unknown-imports deny --on-missing native --native-time charged \
             --profile worktree --no-cache wc",
            "run --no-worktree --dir a::b --clock real --mtimes content --seed 0x10 wc",
            "run --start-at 2001-02-03T04:05:06.789Z --mtimes fixed --timeout 1500ms \
             --virtual-timeout 1h --fuel 10M --max-memory 1GiB --max-files 7 --max-processes 8 \
             --max-upper 9KB --max-output unlimited --max-host-call 10B --tier quick --compile-timeout 5s \
             --max-compile-memory 2GiB wc",
            "run --host-policy p --allow-net *.a.test:443 --deny-net 10.0.0.0/8 --host-answers f \
             --host-task t wc",
        ] {
            let mut words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let args = parsed(&words);
            let options = args.to_options("null".as_ref()).unwrap();
            words.splice(1..words.len() - 1, options);
            let mut again = parsed(&words);
            again.stdin = args.stdin.clone();
            assert_eq!(format!("{again:#?}"), format!("{args:#?}"), "{line}");
        }
    }
}
