//! Builtins for variables, options and parameters.

use std::sync::Arc;

use crate::kernel::machine::memory::OutOfMemory;
use crate::process::shell::arithmetic;
use crate::process::shell::context::{Run, Shell};
use crate::process::shell::held::Words;
use crate::process::shell::state::{Variable, Variables};
use crate::process::shell::tree::is_name;

/// Quotes `text` as one word of the shell.
pub(super) fn quoted(text: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in text {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\"'\"'"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Splits `NAME=VALUE`, or a name alone.
fn parts(arg: &[u8]) -> (&[u8], Option<&[u8]>) {
    match arg.iter().position(|byte| *byte == b'=') {
        Some(at) => (&arg[..at], Some(&arg[at + 1..])),
        None => (arg, None),
    }
}

/// Returns whether these arguments ask for a list.
fn lists(args: &[Vec<u8>]) -> bool {
    args.is_empty() || args == [b"-p"]
}

impl Shell {
    async fn check_name(&mut self, builtin: &str, name: &[u8]) -> Run {
        if is_name(name) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(name);
        self.fail(&format!("{builtin}: {name}: bad variable name")).await
    }

    pub(super) async fn export(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        self.mark("export", args, |variable| variable.exported, Variables::export).await
    }

    pub(super) async fn readonly(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        self.mark("readonly", args, |variable| variable.read_only, Variables::protect).await
    }

    /// Sets and marks the variables that `args` name, or prints all marked ones.
    async fn mark(
        &mut self,
        builtin: &str,
        args: &[Vec<u8>],
        is_marked: fn(&Variable) -> bool,
        mark: fn(&mut Variables, &[u8]) -> Result<(), OutOfMemory>,
    ) -> Run<u8> {
        if lists(args) {
            return self.print_variables(format!("{builtin} ").as_bytes(), is_marked).await;
        }
        for arg in args.iter().filter(|arg| *arg != b"--") {
            let (name, value) = parts(arg);
            self.check_name(builtin, name).await?;
            if let Some(value) = value {
                self.set(name, value).await?;
            }
            let marked = mark(&mut self.state.variables, name);
            self.check_memory(marked).await?;
        }
        Ok(0)
    }

    async fn print_variables(
        &mut self,
        prefix: &[u8],
        is_shown: impl Fn(&Variable) -> bool,
    ) -> Run<u8> {
        let mut lines = Vec::new();
        for (name, variable) in self.state.variables.iter().filter(|(_, v)| is_shown(v)) {
            lines.extend_from_slice(prefix);
            lines.extend_from_slice(name);
            if let Some(value) = &variable.value {
                lines.push(b'=');
                lines.extend(quoted(&value.text));
            }
            lines.push(b'\n');
        }
        self.print(&lines).await
    }

    pub(super) async fn unset(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let mut functions = false;
        for arg in args {
            match arg.as_slice() {
                b"-f" => functions = true,
                b"-v" => functions = false,
                name if functions => {
                    self.state.functions.remove(name);
                }
                name => {
                    self.check_name("unset", name).await?;
                    if let Err(error) = self.state.variables.unset(name) {
                        return self.fail(&format!("unset: {error}")).await;
                    }
                }
            }
        }
        Ok(0)
    }

    pub(super) async fn local(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        if self.state.function_depth == 0 {
            return self.fail("local: not in a function").await;
        }
        // A subshell keeps them to its end.
        if self.locals.is_empty() {
            self.locals.push(Vec::new());
        }
        for arg in args {
            let (name, value) = parts(arg);
            self.check_name("local", name).await?;
            let before = self.state.variables.variable(name).cloned();
            if let Some(locals) = self.locals.last_mut()
                && !locals.iter().any(|(known, _)| **known == *name)
            {
                locals.push((name.into(), before));
            }
            if let Some(value) = value {
                self.set(name, value).await?;
            }
        }
        Ok(0)
    }

    pub(super) async fn shift(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let count = match args.first() {
            None => 1,
            Some(arg) => match arithmetic::number(arg).and_then(|n| usize::try_from(n).ok()) {
                Some(count) => count,
                None => return self.illegal_number(arg).await,
            },
        };
        let Some(rest) = self.state.parameters.get(count..).map(<[Vec<u8>]>::to_vec) else {
            return self.fail("shift: can't shift that many").await;
        };
        self.set_parameters(&rest).await?;
        Ok(0)
    }

    pub(super) async fn set_builtin(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        if args.is_empty() {
            return self.print_variables(b"", |variable| variable.value.is_some()).await;
        }
        let mut rest = args;
        while let Some((arg, after)) = rest.split_first() {
            if arg == b"--" {
                self.set_parameters(after).await?;
                return Ok(0);
            }
            if arg == b"-" {
                rest = after;
                (self.state.options.xtrace, self.state.options.verbose) = (false, false);
                break;
            }
            if arg.len() < 2 || !matches!(arg[0], b'-' | b'+') {
                break;
            }
            rest = after;
            let on = arg[0] == b'-';
            for letter in &arg[1..] {
                if *letter == b'o' {
                    let Some((name, after)) = rest.split_first() else {
                        return self.print_options(on).await;
                    };
                    rest = after;
                    let Some(option) = self.state.options.by_name(name) else {
                        let name = String::from_utf8_lossy(name);
                        return self.fail(&format!("set: Illegal option -o {name}")).await;
                    };
                    *option = on;
                } else if *letter == b'm' || *letter == b'h' || *letter == b'b' {
                    // Without effect: there are no jobs, and no remembered paths.
                } else if let Some(option) = self.state.options.by_letter(*letter) {
                    *option = on;
                } else {
                    let letter = *letter as char;
                    return self.fail(&format!("set: Illegal option -{letter}")).await;
                }
            }
        }
        if !rest.is_empty() {
            self.set_parameters(rest).await?;
        }
        Ok(0)
    }

    /// Sets the positional parameters.
    pub async fn set_parameters(&mut self, words: &[Vec<u8>]) -> Run {
        let words = Words::of(words, self.memory());
        self.state.parameters = Arc::new(self.check_memory(words).await?);
        Ok(())
    }

    async fn print_options(&mut self, is_table: bool) -> Run<u8> {
        let line = |(name, set): (&str, bool)| {
            if is_table {
                format!("{name:<16}{}\n", if set { "on" } else { "off" })
            } else {
                format!("set {}o {name}\n", if set { '-' } else { '+' })
            }
        };
        let mut lines: String = self.state.options.list().into_iter().map(line).collect();
        if is_table {
            lines.insert_str(0, "Current option settings\n");
        }
        self.print(lines.as_bytes()).await
    }
}
