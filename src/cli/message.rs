//! Lines on standard error, and their colours on a terminal.

use std::fmt::Arguments;
use std::io::{IsTerminal, Write};
use std::sync::LazyLock;

use clap::builder::styling::{AnsiColor, Style};

use crate::base::ambient;

const ERROR: Style = AnsiColor::Red.on_default().bold();

/// Words after `belljar:` that name the kind of message.
const KINDS: [(&str, Style); 2] = [
    ("note:", AnsiColor::Cyan.on_default().bold()),
    ("warning:", AnsiColor::Yellow.on_default().bold()),
];

/// Whether standard error shows colours: it is a terminal that can, and `NO_COLOR` is not set.
static HAS_COLOURS: LazyLock<bool> = LazyLock::new(|| {
    let is_dumb = ambient::setting("TERM").is_none_or(|term| term == "dumb");
    let can = cfg!(windows) || !is_dumb;
    stderr_is_terminal() && can && ambient::setting("NO_COLOR").is_none()
});

/// Prints a line. Errors are ignored: standard error may be closed.
pub fn print(is_error: bool, line: Arguments<'_>) {
    let mut line = format!("{line}\n");
    if *HAS_COLOURS {
        line = coloured(is_error, &line);
    }
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn coloured(is_error: bool, line: &str) -> String {
    let Some(rest) = line.strip_prefix("belljar:") else { return line.to_owned() };
    if is_error {
        return format!("{ERROR}belljar:{ERROR:#}{rest}");
    }
    for (kind, style) in KINDS {
        if let Some(rest) = rest.strip_prefix(' ').and_then(|rest| rest.strip_prefix(kind)) {
            return format!("belljar: {style}{kind}{style:#}{rest}");
        }
    }
    line.to_owned()
}

/// Whether standard error is a terminal, for progress and colours.
pub fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_messages_have_colours_and_the_rest_has_none() {
        for (is_error, line, expected) in [
            (true, "belljar: no\n", "\u{1b}[1m\u{1b}[31mbelljar:\u{1b}[0m no\n"),
            (false, "belljar: note: x\n", "belljar: \u{1b}[1m\u{1b}[36mnote:\u{1b}[0m x\n"),
            (false, "belljar: warning: x\n", "belljar: \u{1b}[1m\u{1b}[33mwarning:\u{1b}[0m x\n"),
            (false, "belljar: 1 change\n", "belljar: 1 change\n"),
            (false, "    in main\n", "    in main\n"),
        ] {
            assert_eq!(coloured(is_error, line), expected);
        }
    }
}
