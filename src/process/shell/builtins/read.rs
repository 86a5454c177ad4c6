//! `read`.

use crate::process::shell::context::{Run, Shell};
use crate::process::shell::fields::Separators;
use crate::process::shell::tree::is_name;

/// Longest line, in bytes.
const LINE_BYTES_MAX: usize = 16 << 20;

/// A line, and whether a backslash quotes each byte.
#[derive(Default)]
struct Line {
    bytes: Vec<(u8, bool)>,
    /// Whether it ended with a newline, not with the input.
    is_whole: bool,
}

impl Shell {
    pub(super) async fn read_builtin(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let mut names = args;
        let mut is_raw = false;
        while let Some((arg, rest)) = names.split_first() {
            match arg.as_slice() {
                b"-r" => is_raw = true,
                b"--" => {
                    names = rest;
                    break;
                }
                [b'-', ..] => {
                    let arg = String::from_utf8_lossy(arg);
                    return self.fail(&format!("read: Illegal option {arg}")).await;
                }
                _ => break,
            }
            names = rest;
        }
        if names.is_empty() {
            return self.fail("read: arg count").await;
        }
        if let Some(bad) = names.iter().find(|name| !is_name(name)) {
            let bad = String::from_utf8_lossy(bad);
            return self.fail(&format!("read: {bad}: bad variable name")).await;
        }
        let line = self.read_line(is_raw).await?;
        let separators = self.state.variables.get(b"IFS").cloned();
        let separators = Separators::new(separators.as_deref().unwrap_or(b" \t\n"));
        let values = split(&line.bytes, &separators, names.len());
        let none = Vec::new();
        for (index, name) in names.iter().enumerate() {
            self.set(name, values.get(index).unwrap_or(&none).clone()).await?;
        }
        Ok(u8::from(!line.is_whole))
    }

    /// Reads up to a newline and not further: other processes read the rest.
    async fn read_line(&mut self, is_raw: bool) -> Run<Line> {
        let mut line = Line::default();
        let mut escaped = false;
        let mut byte = [0];
        let mut memory = self.memory().charge();
        loop {
            // The input may be endless, without a newline.
            self.guest.spend(1)?;
            match self.read(0, &mut byte).await? {
                Ok(1) => {}
                Ok(_) => return Ok(line),
                Err(errno) => return self.fail(&format!("read: {}", errno.meaning())).await,
            }
            match byte[0] {
                b'\n' if escaped => escaped = false,
                b'\n' => {
                    line.is_whole = true;
                    return Ok(line);
                }
                b'\\' if !is_raw && !escaped => escaped = true,
                0 => {}
                byte => {
                    let taken = memory.grow(size_of_val(&(byte, escaped)) as u64);
                    self.check_memory(taken).await?;
                    line.bytes.push((byte, escaped));
                    escaped = false;
                }
            }
            if line.bytes.len() > LINE_BYTES_MAX {
                return self.fail("read: the line is too long").await;
            }
        }
    }
}

/// Splits a line into its first `count - 1` fields and the rest.
fn split(line: &[(u8, bool)], separators: &Separators, count: usize) -> Vec<Vec<u8>> {
    let is_separator = |(byte, escaped): &(u8, bool)| !escaped && separators.contains(*byte);
    let is_blank = |at: &(u8, bool)| is_separator(at) && matches!(at.0, b' ' | b'\t' | b'\n');
    let skip = |mut rest: usize| {
        while line.get(rest).is_some_and(is_blank) {
            rest += 1;
        }
        rest
    };
    let text = |range: &[(u8, bool)]| range.iter().map(|(byte, _)| *byte).collect::<Vec<u8>>();
    let mut values = Vec::new();
    let mut at = skip(0);
    while values.len() + 1 < count && at < line.len() {
        let start = at;
        while line.get(at).is_some_and(|byte| !is_separator(byte)) {
            at += 1;
        }
        values.push(text(&line[start..at]));
        at = skip(at);
        // Blanks around a separator belong to it.
        if line.get(at).is_some_and(|byte| is_separator(byte) && !is_blank(byte))
            && (at == start || is_separator(&line[at]))
        {
            at = skip(at + 1);
        }
    }
    if at < line.len() {
        values.push(text(&line[at..end_of_rest(line, at, &is_separator, &is_blank)]));
    }
    values
}

/// Returns the end of the last value, which begins at `start`: without trailing blanks, and without a
/// separator there if it is the only one.
fn end_of_rest(
    line: &[(u8, bool)],
    start: usize,
    is_separator: &impl Fn(&(u8, bool)) -> bool,
    is_blank: &impl Fn(&(u8, bool)) -> bool,
) -> usize {
    let trimmed = |mut end: usize| {
        while end > start && is_blank(&line[end - 1]) {
            end -= 1;
        }
        end
    };
    let end = trimmed(line.len());
    let has_one = end > start
        && is_separator(&line[end - 1])
        && !line[start..end - 1].iter().any(|at| is_separator(at) && !is_blank(at))
        && !line[start..trimmed(end - 1)].iter().any(is_blank);
    if has_one { trimmed(end - 1) } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str, separators: &str, count: usize) -> Vec<String> {
        let line: Vec<(u8, bool)> = line.bytes().map(|byte| (byte, false)).collect();
        let values = split(&line, &Separators::new(separators.as_bytes()), count);
        values.into_iter().map(|value| String::from_utf8(value).unwrap()).collect()
    }

    #[test]
    fn last_variable_gets_the_rest_of_the_line() {
        assert_eq!(fields("  a b  c d ", " ", 2), ["a", "b  c d"]);
        assert_eq!(fields("a:b:c", ":", 2), ["a", "b:c"]);
        assert_eq!(fields("a::c", ":", 3), ["a", "", "c"]);
        assert_eq!(fields("a : b", ": ", 2), ["a", "b"]);
        assert_eq!(fields("a b:", ":", 1), ["a b"]);
        assert_eq!(fields("", " ", 1), [] as [&str; 0]);
    }
}
